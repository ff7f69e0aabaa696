"""`agenttalk toolchain`: shows the tasks that forge events created, and events that no agent could get."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, urlencode

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize_line

if TYPE_CHECKING:
    from agenttalk.engine.views.models.toolchain import (
        AuditedTurn,
        BoardTask,
        CommentView,
        OutgoingPage,
        OutgoingView,
        SourceOutage,
        ToolchainTask,
        ToolchainTaskPage,
        ToolchainWarning,
        VerificationView,
    )

app = typer.Typer(no_args_is_help=True, help="Show the tasks that forge events created.", add_completion=False)
_WAYS = {"sent": "green", "waiting": "yellow", "held": "red", "dropped": "dim", "answered": "green"}
_COLOURS = {"done": "green", "failed": "red", "working": "cyan", "review": "cyan", "withdrawn": "dim"}
_PAGE = 500
"""Tasks per request: the most that the API allows."""


@app.callback()
def main() -> None:
    """Show the tasks that forge events created."""


@app.command("tasks")
def tasks(
    ctx: typer.Context,
    assignee: Annotated[str, typer.Option("--assignee", help="List only those of one agent.")] = "",
    status: Annotated[
        str, typer.Option("--status", help="open, closed, pending, working, review, blocked, done, failed, withdrawn.")
    ] = "",
    action_type: Annotated[str, typer.Option("--action-type", help="List only this type, such as ci_failure.")] = "",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List the tasks, the oldest first, closed ones included, and then warnings. With --json only the tasks."""
    out, folder = root_access.choose_root(ctx, root, as_json)

    filters = {"assignee": assignee, "status": status, "action_type": action_type}
    found: list[ToolchainTask] = []
    after: int | None = 0
    while after is not None:
        page = _read_task_page(folder, filters, after)
        found += page["tasks"]
        after = page["next"]
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
    for warning in _list_warnings(folder):
        words = f"{sanitize_line(warning['message'])} ({warning['times']} times)"
        out.say(f"[yellow]![/] {words} [dim]\\[{warning['code']}][/]")
        out.say(f"  [cyan]→[/] {sanitize_line(warning['hint'])}")
    return 0


def _read_task_page(folder: Path, filters: dict[str, str], after: int) -> ToolchainTaskPage:
    query = urlencode({key: value for key, value in filters.items() if value} | {"after": after, "limit": _PAGE})
    return root_access.ask_root(
        folder,
        f"/api/toolchain/tasks?{query}",
        lambda local: local.forges.list_tasks(**filters, after=after, limit=_PAGE),
    )


@app.command("task")
def task(
    ctx: typer.Context,
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="Id of the task, such as tc-1763242000000.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show a task: for each turn, the agent's report, what the forge showed, and the verdict."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    found = root_access.ask_root(
        folder, f"/api/toolchain/tasks/{quote(task_id, safe='')}", lambda local: local.forges.audit_task(task_id)
    )
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


def _unproven(task: BoardTask) -> str:
    return " [yellow](unproven)[/]" if task["proven"] is False else ""


def _tell_turn(out: CommandOutput, turn: AuditedTurn) -> None:
    """Print a turn: its reports, then what the forge showed, then the verdict."""
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


def _tell_remark(out: CommandOutput, remark: CommentView) -> None:
    author, kind = sanitize_line(remark["author"]), sanitize_line(remark["type"])
    out.say(f"  [cyan]{author}[/] ({kind}): {sanitize_line(remark['body'])}")


def _tell_result(out: CommandOutput, verify: VerificationView) -> None:
    """Print the result of the verification, with its code."""
    mark = "[green]✓[/]" if verify["passed"] else "[red]✗[/]"
    trust = f" [dim]({verify['trust']})[/]" if verify["trust"] else ""
    note = " [yellow]unproven[/]" if verify["trust"] == "claimed" else ""
    out.say(f"  {mark} [bold]{verify['code']}[/]: {sanitize_line(verify['detail'])}{trust}{note}")


@app.command("warnings")
def warnings(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List events that no agent could get, because no agent has the account."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    found = _list_warnings(folder)
    if out.as_json:
        out.write_json({"ok": True, "warnings": found})
        return 0
    for each in found:
        out.say(f"[yellow]![/] {sanitize_line(each['message'])} ({each['times']} times) [dim]\\[{each['code']}][/]")
    if not found:
        out.say("[green]✓[/] no warnings")
    return 0


def _list_warnings(folder: Path) -> list[ToolchainWarning]:
    answer = root_access.ask_root(folder, "/api/toolchain/warnings", lambda local: local.forges.list_warnings())
    return answer["warnings"]


@app.command("outgoing")
def outgoing(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Include what was sent or decided.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List what the engine writes at forges: what waits, how often it was tried, and what a person must decide."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    found: list[OutgoingView] = []
    away: list[SourceOutage] = []
    after: int | None = 0
    while after is not None:
        answer = _read_outgoing_page(folder, after)
        found += [each for each in answer["outgoing"] if every or each["state"] in {"waiting", "held"}]
        away, after = answer["away"], answer["next"]
    if out.as_json:
        out.write_json({"ok": True, "outgoing": found, "away": away})
        return 0
    for outage in away:
        again = f"next try at {outage['asked_again_at']}"
        out.say(f"[red]✗[/] {sanitize_line(outage['source'])} has not answered since {outage['since']}; {again}")
    for each in found:
        tried = f", tried {each['tries']} times" if each["tries"] > 1 or (each["tries"] and not each["posted"]) else ""
        out.say(f"[{_WAYS[each['state']]}]{each['state']}[/]{tried}  {each['kind']} on {sanitize_line(each['object'])}")
        out.say(f"  {sanitize_line(each['title'])}")
        if each["why"]:
            out.say(f"  [dim]{sanitize_line(each['why'])}[/]")
    if not found and not away:
        out.say("[green]✓[/] nothing is waiting")
    return 0


def _read_outgoing_page(folder: Path, after: int) -> OutgoingPage:
    return root_access.ask_root(
        folder, f"/api/toolchain/outgoing?after={after}", lambda local: local.forges.list_outgoing(after)
    )


@app.command("reconcile")
def reconcile(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read the forges now, create the tasks of lost webhooks, and close tasks whose reason is gone.

    Exits with 1 when something could not be read; that changes no task.
    """
    out, folder = root_access.choose_root(ctx, root, as_json)

    told = root_access.ask_root(
        folder, "/api/toolchain/reconcile", lambda local: local.forges.reconcile(dry_run=dry_run), {"dry_run": dry_run}
    )
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
            assignee = sanitize_line(task["assignee"])
            out.say(f"  [green]+[/] {would}created: {sanitize_line(task['action_type'])} for {assignee}")
            out.say(f"    [dim]{sanitize_line(task['object'])}[/]")
        for task in each["closed"]:
            out.say(f"  [dim]-[/] {would}closed: {sanitize_line(task['task'])} [dim]({sanitize_line(task['why'])})[/]")
        for task in each["restored"]:
            out.say(f"  [green]+[/] {would}restored: {sanitize_line(task)}")
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
