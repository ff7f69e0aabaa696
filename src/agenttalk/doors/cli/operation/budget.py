"""`agenttalk budget`: what all agents together may spend on a day."""

from __future__ import annotations

import getpass
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from pathlib import Path


app = typer.Typer(no_args_is_help=True, help="See and change what a day may cost.", add_completion=False)


@app.command("show")
def show(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Show what was spent today (UTC) of what may be, and whether work is paused for it."""
    return _ask_day(ctx, root, as_json, None)


@app.command("set")
def set_limit(
    ctx: typer.Context,
    limit: Annotated[str, typer.Argument(metavar="USD", help="Dollars a day, or none.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Change what a day may cost, at once and until it is changed again. What waits for a higher limit goes on."""
    try:
        most = None if limit == "none" else float(limit.removeprefix("$"))
    except ValueError:
        most = math.nan
    if most is not None and not math.isfinite(most):
        raise UsageError(Code.OPTION_INVALID, f"{limit[:40]!r} is no number of dollars", hint="write 20, 7.50 or none")
    return _ask_day(ctx, root, as_json, {"limit_usd": most})


@app.command("reset")
def reset(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Have `limits.cost_usd_per_day` of agenttalk.toml say it again."""
    return _ask_day(ctx, root, as_json, {"reset": True})


def _ask_day(ctx: typer.Context, root: Path | None, as_json: bool, body: dict[str, Any] | None) -> int:  # noqa: FBT001 - as given

    out, folder = root_access.choose_root(ctx, root, as_json)
    by = getpass.getuser()

    found = root_access.ask_root(
        folder,
        "/api/spending",
        lambda local: local.read_day() if body is None else local.limit_day(body, by=by),
        None if body is None else {**body, "by": by},
    )
    if out.as_json:
        out.write_json({"ok": True, **found})
    else:
        tell_day(out, found)
    return 0


def tell_day(out: CommandOutput, found: dict[str, Any]) -> None:
    """How a day stands, in a line or two."""
    if found["limit_usd"] is None:
        out.say("nothing limits what a day may cost")
        return
    said = f"set by {sanitize(found['set_by'])}" if found["set_by"] else "from agenttalk.toml"
    out.say(f"today (UTC): ${found['spent_usd']:g} of ${found['limit_usd']:g} spent [dim]({said})[/]")
    if found["paused"]:
        when = "it goes on by itself at 00:00 UTC, or with 'agenttalk budget set USD'"
        out.say(f"[yellow]‖[/] no work begins: the day's budget is used up; {when}")
    if found.get("waiting"):
        out.say(f"  tasks that wait for it: {found['waiting']}")
    if found.get("stopped"):
        names = ", ".join(sanitize(each) for each in found["stopped"])
        out.say(f"  stopped in the middle of a turn, which does not count against their agents: {names}")
