"""`agenttalk rework`: decides about a task that has used up its rework rounds. Also prints such rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    JsonOption,
    RootOption,
    sanitize,
    sanitize_line,
    tell_check_output,
)
from agenttalk.doors.cli.plans.control import parse_task_name, steer_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttalk.engine.views.models.attempts import RoundView

app = typer.Typer(add_completion=False)


@app.command("rework")
def rework(
    ctx: typer.Context,
    task: Annotated[str, typer.Argument(metavar="PLAN/TASK", help="A task that has used up its rework rounds.")],
    grant: Annotated[int | None, typer.Option("--grant", metavar="N", help="Grant N more rounds.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Accept the work as it is; the ledger records that.")
    ] = False,
    abort: Annotated[bool, typer.Option("--abort", help="Leave the task failed.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Decide about a task that has used up its rework rounds: grant more, accept the work as it is, or abort.

    You can also answer its question in 'agenttalk inbox'.
    """
    chosen = [*([f"grant {grant}"] if grant is not None else []), *["accept"] * accept, *["abort"] * abort]
    if len(chosen) != 1:
        message = "give exactly one of --grant N, --accept and --abort"
        raise UsageError(Code.OPTION_INVALID, message, hint="'agenttalk rework --help' explains them")
    plan, task_id = parse_task_name(task)
    more = {"task": task_id, "answer": chosen[0]}
    return steer_plan(ctx, root, as_json, plan, "rework", more, "steer.rework", task=task_id, answer=chosen[0])


def tell_rounds(out: CommandOutput, history: Sequence[RoundView]) -> None:
    """Print every rework round of a task: who refused the work and why, and the result."""
    for entry in history:
        by = f"[bold]{sanitize(entry['by'])}[/]"
        match entry["what"]:
            case "ordered" | "exhausted":
                _tell_refusal(out, entry, by)
            case "granted":
                out.say(f"  {out.text('rounds.granted', by=by, rounds=out.count(entry['rounds'], 'more round'))}")
            case "accepted":
                out.say(f"  {out.text('rounds.accepted', by=by, shown=sanitize(entry['shown']))}")
            case _:
                out.say(f"  {out.text('rounds.aborted', by=by)}")
        if "result" in entry:
            out.say(f"    [cyan]→[/] {sanitize(entry['result'])}")


def _tell_refusal(out: CommandOutput, entry: RoundView, by: str) -> None:
    match entry.get("round"):
        case None:
            number = out.text("rounds.stuck" if entry.get("stuck") else "rounds.last")
        case 0:
            number = out.text("rounds.conflict")
        case round_number:
            number = out.text("remark.round", number=round_number)
    why = sanitize_line(entry["reason"][:200])
    if entry["by"] == "engine":
        out.say(f"  {out.text('rounds.refused', round=number, by=by, why=why)}")
    else:
        words = out.text("rounds.refused_score", round=number, by=by, score=entry["score"], why=why)
        out.say(f"  {words}")
    for issue in entry["issues"]:
        first, *more = issue["description"].splitlines() or [""]
        out.say(f"    · {sanitize_line(first[:200])}")
        if more:
            tell_check_output(out, "\n".join(more), "      ")
