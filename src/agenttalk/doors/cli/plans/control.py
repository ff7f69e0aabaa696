"""What steers a plan: pause, resume, cancel, retry."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Annotated, Any

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

pause_app = typer.Typer(add_completion=False)
resume_app = typer.Typer(add_completion=False)
cancel_app = typer.Typer(add_completion=False)
retry_app = typer.Typer(add_completion=False)
PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")]


@pause_app.command("pause")
def pause(ctx: typer.Context, plan: PlanArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Begin nothing new of a plan. What runs goes on to its end."""
    return steer_plan(ctx, root, as_json, plan, "pause", {}, "paused; what runs goes on to its end")


@resume_app.command("resume")
def resume(ctx: typer.Context, plan: PlanArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Let a paused plan go on."""
    return steer_plan(ctx, root, as_json, plan, "resume", {}, "goes on")


@cancel_app.command("cancel")
def cancel(
    ctx: typer.Context,
    plan: PlanArgument,
    why: Annotated[str | None, typer.Option("--why", help="The reason; it stands on every task.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Call a plan off: programs under way are ended, and everything still open fails."""
    return steer_plan(ctx, root, as_json, plan, "cancel", {"why": why} if why else {}, "cancelled")


@retry_app.command("retry")
def retry(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that failed.")],
    onwards: Annotated[
        bool, typer.Option("--from", help="Also what is done: run the plan again from this task on.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Try a failed task again. What its failure stopped waits for it again.

    With --from the task may also be done or skipped, and everything that depends on it begins anew.
    """
    plan, task_id = parse_task_name(task)
    words = f"runs again from {task_id} on" if onwards else f"{task_id} is tried again"
    more: dict[str, Any] = {"task": task_id, "from": True} if onwards else {"task": task_id}
    return steer_plan(ctx, root, as_json, plan, "retry", more, words)


def parse_task_name(task: str) -> tuple[str, str]:
    """Plan and task of PLAN/TASK."""
    plan, slash, task_id = task.partition("/")
    if not slash or not task_id:
        raise UsageError(Code.OPTION_INVALID, f"which task? {task!r} is no PLAN/TASK", hint="e.g. shop/build")
    return plan, task_id


def steer_plan(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    plan: str,
    action: str,
    more: dict[str, Any],
    words: str,
) -> int:
    """Have an engine, or the root itself, do something with a plan, and say so."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    body = {**more, "by": getpass.getuser()}
    answer = root_access.ask_root(
        folder, f"/api/plans/{plan}/{action}", lambda local: local.carry_out(plan, action, body), body
    )
    if out.as_json:
        out.write_json({"ok": True, **answer})
    else:
        _say(out, plan, words, answer)
    return 0


def _say(out: CommandOutput, plan: str, words: str, answer: dict[str, Any]) -> None:
    if answer.get("changed") is False:
        out.say(f"[bold]{sanitize(plan)}[/]: nothing changed")
        return
    count = f": {answer['cancelled']} tasks" if "cancelled" in answer else ""
    if len(answer.get("tasks", ())) > 1:
        count = f": {len(answer['tasks'])} tasks"
    out.say(f"[green]✓[/] [bold]{sanitize(plan)}[/]: {words}{count}")
