"""`agenttalk deadletter`: messages that the router refused."""

from __future__ import annotations

import getpass
import sys
from base64 import b64decode
from typing import TYPE_CHECKING, Annotated

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from agenttalk.engine.messages.dead_letters import DeadLetter

app = typer.Typer(no_args_is_help=True, help="List, show and replay messages that were refused.", add_completion=False)
IdArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Id of the dead letter, from 'agenttalk deadletter list'.")
]
SHOWN = 4_000
"""How many bytes of an original are shown."""


@app.command("list")
def list_(
    ctx: typer.Context,
    plan: Annotated[str | None, typer.Option("--plan", help="List only those of one plan.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Include those that were replayed.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List dead letters, the oldest first."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    found: list[DeadLetter] = root_access.ask_root_for_all(
        folder,
        "/api/deadletters",
        lambda local: local.messages.list_dead_letters(),
        lambda page: page["deadletters"],
    )
    found = [each for each in reversed(found) if plan in {None, each["plan_id"]} and (every or each["state"] == "open")]
    if out.as_json:
        out.write_json({"ok": True, "deadletters": found})
        return 0
    for each in found:
        where = sanitize(f"{each['plan_id']}/{each['name']}")
        out.say(f"[bold]{each['deadletter_id']}[/]  [red]{each['code']}[/]  {where}")
        out.say(f"  {sanitize(each['agent_id'])}: {sanitize(each['reason'])}")
    if not found:
        out.say(f"[green]✓[/] {out.text('operate.dead_letters_none')}")
    return 0


@app.command("show")
def show(
    ctx: typer.Context,
    deadletter_id: IdArgument,
    raw: Annotated[bool, typer.Option("--raw", help="Write only the bytes of the original.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a dead letter with its original."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    letter = root_access.ask_root(
        folder, f"/api/deadletters/{deadletter_id}", lambda local: local.messages.read_dead_letter(deadletter_id)
    )
    content = b64decode(letter["content"]) if letter["content"] is not None else b""
    if raw:
        sys.stdout.buffer.write(content)
    elif out.as_json:
        out.write_json({"ok": True, "deadletter": letter})
    else:
        for key in (
            "deadletter_id",
            "plan_id",
            "agent_id",
            "name",
            "message_id",
            "code",
            "reason",
            "state",
            "tries",
            "at",
        ):
            out.say(f"[bold]{key:<14}[/] {sanitize('-' if letter[key] is None else letter[key])}")
        out.say("")
        shown = sanitize(content[:SHOWN].decode(errors="backslashreplace"))
        out.say(shown or f"[dim]{out.text('operate.dead_letter_not_kept')}[/]")
        if len(content) > SHOWN:
            out.say(f"[dim]{out.text('operate.dead_letter_more', count=len(content) - SHOWN)}[/]")
    return 0


@app.command("replay")
def replay(ctx: typer.Context, deadletter_id: IdArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Check a dead letter again and deliver it, once its cause is fixed. At most three times."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    outcome = root_access.ask_root(
        folder,
        f"/api/deadletters/{deadletter_id}/replay",
        lambda local: local.service.messages.replay(deadletter_id, by=getpass.getuser()),
        {},
    )
    if out.as_json:
        out.write_json(outcome)
    elif outcome["ok"]:
        out.say(f"[green]✓[/] {sanitize(deadletter_id)}: {outcome['fate']}")
    else:
        out.error(outcome["code"], f"refused again: {outcome['reason']}", "fix the cause, then replay it")
    return 0 if outcome["ok"] else 1
