"""`agenttalk toolchain`: tasks that forge events came to, and events that nobody could be given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize_line

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps

app = typer.Typer(no_args_is_help=True, help="Tasks that forge events came to.", add_completion=False)
_WAYS = {"sent": "green", "waiting": "yellow", "held": "red", "dropped": "dim", "answered": "green"}
_COLOURS = {"done": "green", "failed": "red", "working": "cyan", "review": "cyan", "withdrawn": "dim"}
_PAGE = 500
"""Tasks that are asked for at once: as many as there may be."""


@app.callback()
def main() -> None:
    """Tasks that forge events came to."""


@app.command("tasks")
def tasks(
    ctx: typer.Context,
    assignee: Annotated[str, typer.Option("--assignee", help="Only those of one agent.")] = "",
    status: Annotated[
        str, typer.Option("--status", help="open, closed, pending, working, review, blocked, done, failed, withdrawn.")
    ] = "",
    action_type: Annotated[str, typer.Option("--action-type", help="Such as ci_failure.")] = "",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List tasks, closed ones too, the oldest first; with --json as a list. Warnings come after them."""
    from pathlib import Path

    from agenttalk.doors.cli.core import root_access

    out, folder = root_access.choose_root(ctx, root, as_json)

    def page(folder: Path, after: int) -> dict[str, Any]:
        async def by_hand(deps: Deps) -> dict[str, Any]:
            from agenttalk.engine.views import toolchain

            asked = toolchain.ToolchainQuery(assignee, status, action_type, after, _PAGE)
            return dict(await toolchain.list_toolchain_tasks(deps, asked))

        named = {"assignee": assignee, "status": status, "action_type": action_type, "after": str(after)}
        query = urlencode({key: value for key, value in named.items() if value} | {"limit": _PAGE})
        found: dict[str, Any] = root_access.ask_root(folder, f"/api/toolchain/tasks?{query}", by_hand)
        return found

    async def told(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.views import toolchain

        return dict(await toolchain.list_warnings(deps))

    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        answer = page(folder, after)
        found += answer["tasks"]
        after = answer["next"]
    if out.as_json:
        out.write_json(found)
        return 0
    for each in found:
        colour = _COLOURS.get(each["status"], "yellow")
        unproven = _unproven(each)
        out.say(f"[bold]{each['id']}[/]  [{colour}]{each['status']}[/]{unproven}  {sanitize_line(each['assignee'])}")
        out.say(f"  {sanitize_line(each['title'])}")
        if each["closed_why"] and each["status"] != "done":
            out.say(f"  [dim]{sanitize_line(each['closed_why'])}[/]")
    if not found:
        out.say("no tasks")
    for each in root_access.ask_root(folder, "/api/toolchain/warnings", told)["warnings"]:
        out.say(f"[yellow]![/] {sanitize_line(each['message'])} ({each['times']} times) [dim]\\[{each['code']}][/]")
        out.say(f"  [cyan]→[/] {sanitize_line(each['hint'])}")
    return 0


@app.command("task")
def task(
    ctx: typer.Context,
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="Its id, such as tc-1763242000000.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a task: each turn with what its agent reported, what was read at the forge, and what that came to."""
    from urllib.parse import quote

    from agenttalk.doors.cli.core import root_access

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.views import forge_audit

        return dict(await forge_audit.audit_task(deps, task_id))

    out, folder = root_access.choose_root(ctx, root, as_json)
    found = root_access.ask_root(folder, f"/api/toolchain/tasks/{quote(task_id, safe='')}", by_hand)
    if out.as_json:
        out.write_json(found)
        return 0
    colour = _COLOURS.get(found["status"], "yellow")
    out.say(
        f"[bold]{found['id']}[/]  [{colour}]{found['status']}[/]{_unproven(found)}  {sanitize_line(found['assignee'])}"
    )
    out.say(f"  {sanitize_line(found['title'])}")
    for number, step in enumerate(found["must_haves"]["steps"], 1):
        out.say(f"  [dim]{number}. {sanitize_line(step)}[/]")
    for remark in found["said"]:
        _tell_remark(out, remark)
    for turn in found["turns"]:
        _tell_turn(out, turn)
    if not found["turns"] and found["verify"]:
        _tell_result(out, found["verify"])
    return 0


def _unproven(task: dict[str, Any]) -> str:
    return " [yellow](unproven)[/]" if task["proven"] is False else ""


def _tell_turn(out: CommandOutput, turn: dict[str, Any]) -> None:
    """A turn: reports first, then what was seen, then what it came to."""
    out.say(f"[bold]{sanitize_line(turn['command_id'])}[/] {turn['how']}")
    for remark in turn["said"]:
        _tell_remark(out, remark)
    for seen in turn["seen"]:
        if seen["id"].startswith("claim:"):
            mark = "[green]✓[/]" if seen["passed"] else "[red]✗[/]"
            name = sanitize_line(seen["id"].removeprefix("claim:"))
            out.say(f"  {mark} {name}: [dim]read:[/] {sanitize_line(seen['detail'])}")
    if turn["verify"]:
        _tell_result(out, turn["verify"])
    elif turn["reason"]:
        out.say(f"  [red]✗[/] {sanitize_line(turn['reason'])}")


def _tell_remark(out: CommandOutput, remark: dict[str, Any]) -> None:
    author, kind = sanitize_line(remark["author"]), sanitize_line(remark["type"])
    out.say(f"  [cyan]{author}[/] ({kind}): {sanitize_line(remark['body'])}")


def _tell_result(out: CommandOutput, verify: dict[str, Any]) -> None:
    """What verification came to, with its code."""
    mark = "[green]✓[/]" if verify["passed"] else "[red]✗[/]"
    trust = f" [dim]({verify['trust']})[/]" if verify["trust"] else ""
    note = " [yellow]unproven[/]" if verify["trust"] == "claimed" else ""
    out.say(f"  {mark} [bold]{verify['code']}[/]: {sanitize_line(verify['detail'])}{trust}{note}")


@app.command("warnings")
def warnings(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List events that nobody could be given, with the account that no agent has."""
    from agenttalk.doors.cli.core import root_access

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.views import toolchain

        return dict(await toolchain.list_warnings(deps))

    out, folder = root_access.choose_root(ctx, root, as_json)
    found = root_access.ask_root(folder, "/api/toolchain/warnings", by_hand)["warnings"]
    if out.as_json:
        out.write_json({"ok": True, "warnings": found})
        return 0
    for each in found:
        out.say(f"[yellow]![/] {sanitize_line(each['message'])} ({each['times']} times) [dim]\\[{each['code']}][/]")
    if not found:
        out.say("[green]✓[/] no warnings")
    return 0


@app.command("outgoing")
def outgoing(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Also what was sent or decided.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List what the engine has to say at forges: what waits, how often it was tried, and what a person must decide."""
    from agenttalk.doors.cli.core import root_access

    out, folder = root_access.choose_root(ctx, root, as_json)
    found: list[dict[str, Any]] = []
    away: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        at = after

        async def by_hand(deps: Deps, at: int = at) -> dict[str, Any]:
            from agenttalk.engine.views import toolchain

            return dict(await toolchain.list_outgoing(deps, at))

        answer: dict[str, Any] = root_access.ask_root(folder, f"/api/toolchain/outgoing?after={at}", by_hand)
        found += [each for each in answer["outgoing"] if every or each["state"] in {"waiting", "held"}]
        away, after = answer["away"], answer["next"]
    if out.as_json:
        out.write_json({"ok": True, "outgoing": found, "away": away})
        return 0
    for each in away:
        again = f"asked again at {each['asked_again_at']}"
        out.say(f"[red]✗[/] {sanitize_line(each['source'])} does not answer since {each['since']}; {again}")
    for each in found:
        tried = f", tried {each['tries']} times" if each["tries"] > 1 or (each["tries"] and not each["posted"]) else ""
        out.say(f"[{_WAYS[each['state']]}]{each['state']}[/]{tried}  {each['kind']} on {sanitize_line(each['object'])}")
        out.say(f"  {sanitize_line(each['title'])}")
        if each["why"]:
            out.say(f"  [dim]{sanitize_line(each['why'])}[/]")
    if not found and not away:
        out.say("[green]✓[/] nothing waits")
    return 0


@app.command("reconcile")
def reconcile(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read the forges now, make the tasks of lost webhooks, and close those whose reason is gone.

    Ends with 1 when something could not be read; nothing follows from that.
    """
    from agenttalk.doors.cli.core import root_access

    out, folder = root_access.choose_root(ctx, root, as_json)

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk import wiring
        from agenttalk.wiring import settings

        return await wiring.reconcile_forges(folder, deps, settings.load(folder), dry_run=dry_run)

    told = root_access.ask_root(folder, "/api/toolchain/reconcile", by_hand, {"dry_run": dry_run})
    if out.as_json:
        out.write_json(told)
        return 0 if told["ok"] else 1
    would = "would be " if dry_run else ""
    for each in told["sources"]:
        out.say(
            f"[bold]{sanitize_line(each['source'])}[/]: "
            f"{_count(each['repositories'], 'repository')}, {each['things']} open"
        )
        for task in each["made"]:
            out.say(
                f"  [green]+[/] {would}made: {sanitize_line(task['action_type'])} for {sanitize_line(task['assignee'])}"
            )
            out.say(f"    [dim]{sanitize_line(task['object'])}[/]")
        for task in each["closed"]:
            out.say(f"  [dim]-[/] {would}closed: {sanitize_line(task['task'])} [dim]({sanitize_line(task['why'])})[/]")
        for task in each["restored"]:
            out.say(f"  [green]+[/] {would}called for again: {sanitize_line(task)}")
        for error in each["errors"]:
            out.say(
                f"  [red]✗[/] {sanitize_line(error['where'])}: "
                f"{sanitize_line(error['message'])} [dim]\\[{error['code']}][/]"
            )
        if not any(each[what] for what in ("made", "closed", "restored", "errors")):
            out.say("  [green]✓[/] every open obligation has its task")
    return 0 if told["ok"] else 1


def _count(number: int, what: str) -> str:
    return f"{number} {what if number == 1 else what[:-1] + 'ies'}"
