"""`agenttalk abort` and `override`: stopping one task, and letting one begin that a checkpoint holds up."""

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
    reason: Annotated[str | None, typer.Option("--reason", help="Why; it stands on the task.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Stop one task, whether it runs or waits: its processes are ended, and it has failed. The plan goes on."""
    plan, task_id = parse_task_name(task)
    more = {"task": task_id, **({"why": reason} if reason else {})}
    return steer_plan(ctx, root, as_json, plan, "abort", more, f"{task_id} is stopped")


@override_app.command("override")
def override(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that a checkpoint holds up.")],
    checkpoint: Annotated[str, typer.Option("--checkpoint", metavar="NAME", help="Which one, e.g. pre-act.")],
    reason: Annotated[str, typer.Option("--reason", help="Why it may begin all the same; it is recorded.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a task begin that a checkpoint holds up, in your name. It counts for the reasons shown, and no others."""
    from agenttalk.rules.proof.checkpoints import CHECKPOINTS

    plan, task_id = parse_task_name(task)
    if checkpoint not in CHECKPOINTS:
        raise UsageError(
            Code.OPTION_INVALID, f"there is no checkpoint {checkpoint!r}", hint=f"use {', '.join(CHECKPOINTS)}"
        )
    if not reason.strip():
        raise UsageError(Code.OPTION_INVALID, "--reason says nothing", hint="say why it may begin all the same")
    more = {"task": task_id, "checkpoint": checkpoint, "why": reason}
    return steer_plan(ctx, root, as_json, plan, "override", more, f"{task_id} may begin; {checkpoint} is overridden")
