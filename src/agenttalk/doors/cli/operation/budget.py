"""`agenttalk budget`: the spending limit of a day, for all agents together."""

from __future__ import annotations

import getpass
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from agenttalk.engine.budgets.day_limit import DayReport, DayView


app = typer.Typer(no_args_is_help=True, help="Show and change the spending limit of a day.", add_completion=False)


@app.command("show")
def show(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Show what was spent today (UTC), the limit, and whether it pauses work."""
    return _ask_day(ctx, root, as_json, None)


@app.command("set")
def set_limit(
    ctx: typer.Context,
    limit: Annotated[str, typer.Argument(metavar="USD", help="Dollars per day, or none.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Set the spending limit of a day, at once. Tasks that wait for a higher limit continue."""
    try:
        amount = None if limit == "none" else float(limit.removeprefix("$"))
    except ValueError:
        amount = math.nan
    if amount is not None and not math.isfinite(amount):
        raise UsageError(
            Code.OPTION_INVALID, f"{limit[:40]!r} is not an amount in dollars", hint="write 20, 7.50 or none"
        )
    return _ask_day(ctx, root, as_json, {"limit_usd": amount})


@app.command("reset")
def reset(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Use `limits.cost_usd_per_day` of agenttalk.toml again."""
    return _ask_day(ctx, root, as_json, {"reset": True})


def _ask_day(ctx: typer.Context, root: Path | None, as_json: bool, body: Mapping[str, object] | None) -> int:  # noqa: FBT001 - as given

    out, folder = root_access.choose_root(ctx, root, as_json)
    by = getpass.getuser()

    found = root_access.ask_root(
        folder,
        "/api/spending",
        lambda local: local.operation.read_day() if body is None else local.operation.limit_day(body, by=by),
        None if body is None else {**body, "by": by},
    )
    if out.as_json:
        out.write_json({"ok": True, **found})
    else:
        tell_day(out, found)
    return 0


def tell_day(out: CommandOutput, found: DayReport | DayView) -> None:
    """Print what was spent today, and what waits for another day."""
    held: Mapping[str, Any] = found
    if found["limit_usd"] is None:
        out.say(out.text("day.no_limit"))
        return
    set_by = found["set_by"]
    origin = out.text("day.set_by", who=sanitize(set_by)) if set_by else out.text("day.from_settings")
    spent, limit = found["spent_usd"], found["limit_usd"]
    out.say(out.text("day.spent", spent=spent, limit=limit, origin=f"[dim]{origin}[/]"))
    if found["paused"]:
        out.say(f"[yellow]‖[/] {out.text('day.paused')}")
    if waiting := held.get("waiting"):
        out.say(f"  {out.text('day.waiting', count=waiting)}")
    if stopped := held.get("stopped"):
        names = ", ".join(sanitize(name) for name in stopped)
        out.say(f"  {out.text('day.stopped', names=names)}")
