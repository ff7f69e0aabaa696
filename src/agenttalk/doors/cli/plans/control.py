"""`agenttalk pause`, `resume`, `cancel` and `retry`: control plans."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
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
    """Pause a plan: start no new tasks. Running tasks finish."""
    return steer_plan(ctx, root, as_json, plan, "pause", {}, "steer.paused")


@resume_app.command("resume")
def resume(ctx: typer.Context, plan: PlanArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Resume a paused plan."""
    return steer_plan(ctx, root, as_json, plan, "resume", {}, "steer.resumed")


@cancel_app.command("cancel")
def cancel(
    ctx: typer.Context,
    plan: PlanArgument,
    why: Annotated[str | None, typer.Option("--why", help="The reason, which every task shows.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Cancel a plan: end its running programs, and fail all tasks that are still open."""
    return steer_plan(ctx, root, as_json, plan, "cancel", {"why": why} if why else {}, "steer.cancelled")


@retry_app.command("retry")
def retry(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that failed, or that waits for an account.")],
    onwards: Annotated[
        bool, typer.Option("--from", help="Run the plan again from this task on, tasks that are done included.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Retry a failed task. Tasks that its failure stopped wait for it again.

    For a task that waits for the account of its agent, the wait of the account ends.
    With --from, the task may also be done or skipped, and all tasks that depend on it start over.
    """
    plan, task_id = parse_task_name(task)
    sentence = "steer.again_from" if onwards else "steer.retried"
    more: dict[str, Any] = {"task": task_id, "from": True} if onwards else {"task": task_id}
    return steer_plan(ctx, root, as_json, plan, "retry", more, sentence, task=task_id)


def parse_task_name(task: str) -> tuple[str, str]:
    """Split PLAN/TASK into both. Raises UsageError."""
    plan, slash, task_id = task.partition("/")
    if not slash or not task_id:
        from agenttalk.rules.text import cli_words

        message = cli_words.ERRORS["task_name"](task=task)
        raise UsageError(Code.OPTION_INVALID, message, hint=cli_words.ERRORS["task_name_hint"]())
    return plan, task_id


def steer_plan(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    plan: str,
    action: str,
    more: dict[str, Any],
    sentence: str,
    **names: str,
) -> int:
    """Carry out an action on a plan, and print the result: a sentence of the command line with some names."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    body = {**more, "by": getpass.getuser()}
    answer = root_access.ask_root(
        folder, f"/api/plans/{plan}/{action}", lambda local: local.plans.carry_out(plan, action, body), body
    )
    if out.as_json:
        out.write_json({"ok": True, **answer})
    else:
        _say(out, plan, out.text(sentence, **{name: sanitize(text) for name, text in names.items()}), answer)
    return 0


def _say(out: CommandOutput, plan: str, words: str, answer: Mapping[str, Any]) -> None:
    if answer.get("changed") is False:
        out.say(f"[bold]{sanitize(plan)}[/]: {out.text('steer.unchanged')}")
        return
    count = f": {out.count(answer['cancelled'], 'task')}" if "cancelled" in answer else ""
    if len(answer.get("tasks", ())) > 1:
        count = f": {out.count(len(answer['tasks']), 'task')}"
    out.say(f"[green]✓[/] [bold]{sanitize(plan)}[/]: {words}{count}")
