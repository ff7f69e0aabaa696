"""`agenttalk abort` and `override`: stop a task, and start one against the decision of a checkpoint."""

from __future__ import annotations

from typing import Annotated

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import JsonOption, RootOption
from agenttalk.doors.cli.plans.control import parse_task_name, steer_plan

abort_app = typer.Typer(add_completion=False)
override_app = typer.Typer(add_completion=False)


@abort_app.command("abort")
def abort(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that has not ended.")],
    reason: Annotated[str | None, typer.Option("--reason", help="The reason, which the task shows.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Stop one task, whether it runs or waits. Its processes are ended, it fails, and the plan continues."""
    plan, task_id = parse_task_name(task)
    more = {"task": task_id, **({"why": reason} if reason else {})}
    return steer_plan(ctx, root, as_json, plan, "abort", more, "steer.stopped", task=task_id)


@override_app.command("override")
def override(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that a checkpoint does not let start.")],
    checkpoint: Annotated[str, typer.Option("--checkpoint", metavar="NAME", help="The checkpoint, e.g. pre-act.")],
    reason: Annotated[str, typer.Option("--reason", help="Why the task may start anyway; it is recorded.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Override a checkpoint and start the task, in your name. Only the reasons that are shown are overridden."""
    from agenttalk.rules.proof.checkpoints import CHECKPOINTS

    plan, task_id = parse_task_name(task)
    if checkpoint not in CHECKPOINTS:
        raise UsageError(
            Code.OPTION_INVALID, f"there is no checkpoint {checkpoint!r}", hint=f"use {', '.join(CHECKPOINTS)}"
        )
    if not reason.strip():
        raise UsageError(Code.OPTION_INVALID, "--reason is empty", hint="say why the task may start anyway")
    more = {"task": task_id, "checkpoint": checkpoint, "why": reason}
    names = {"task": task_id, "checkpoint": checkpoint}
    return steer_plan(ctx, root, as_json, plan, "override", more, "steer.overridden", **names)
