"""`agenttalk rework`: decides about a task that has used up its rework rounds. Also prints such rounds."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    JsonOption,
    RootOption,
    format_count,
    sanitize,
    sanitize_line,
    tell_check_output,
)
from agenttalk.doors.cli.plans.control import parse_task_name, steer_plan

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
    return steer_plan(ctx, root, as_json, plan, "rework", more, f"{task_id}: {chosen[0]}")


def tell_rounds(out: CommandOutput, history: list[dict[str, Any]]) -> None:
    """Print every rework round of a task: who refused the work and why, and the result."""
    for each in history:
        by = f"[bold]{sanitize(each['by'])}[/]"
        match each["what"]:
            case "ordered" | "exhausted":
                _tell_refusal(out, each, by)
            case "granted":
                out.say(f"  {by} granted {format_count(each['rounds'], 'more round')}")
            case "accepted":
                out.say(f"  {by} accepted the work as it is ({sanitize(each['shown'])})")
            case _:
                out.say(f"  {by} aborted it")
        if "result" in each:
            out.say(f"    [cyan]→[/] {sanitize(each['result'])}")


def _tell_refusal(out: CommandOutput, each: dict[str, Any], by: str) -> None:
    ended = "the same issues again" if each.get("stuck") else "no round left"
    number = {None: ended, 0: "a conflict"}.get(each.get("round"), f"round {each.get('round')}")
    score = f", {each['score']:g} of 100" if each["by"] != "engine" else ""
    out.say(f"  {number}: refused by {by}{score}: {sanitize_line(each['reason'][:200])}")
    for issue in each["issues"]:
        first, *more = issue["description"].splitlines() or [""]
        out.say(f"    · {sanitize_line(first[:200])}")
        if more:
            tell_check_output(out, "\n".join(more), "      ")
