"""What the end of a run rests on: the evidence for each task, the changes in the repository, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.doors.cli.core.output import CommandOutput, sanitize, sanitize_line
from agenttalk.doors.cli.core.root_discovery import find_root

if TYPE_CHECKING:
    from agenttalk.engine.core.task_status import TaskView
    from agenttalk.engine.views.models.attempts import CheckView
    from agenttalk.engine.views.models.plans import PlanView
    from agenttalk.engine.views.models.tasks import TaskExplanation
    from agenttalk.rules.planfile.compiler import CompiledPlan

MOST: Final = 20
"""How many tasks show their evidence. Those that are not done come first."""
_CHECKS: Final = 8
"""How many checks of a task are named. Those that did not pass come first."""
_ENDED: Final = ("failed", "blocked", "done")


def list_explained(tasks: Sequence[TaskView]) -> list[str]:
    """Return the tasks whose evidence is shown at the end, the most important ones first."""
    ended = [task for task in tasks if task["board"] in _ENDED and task["attempt"]]
    ended.sort(key=lambda task: _ENDED.index(task["board"]))
    return [task["task_id"] for task in ended[:MOST]]


def tell_evidence(
    out: CommandOutput, tasks: Sequence[TaskView], explained: Mapping[str, TaskExplanation], took: dict[str, str]
) -> None:
    """Print on standard error for each task that ended how far it is proven, and by which checks.

    `took` says what tasks took, where that was not printed before.
    """
    for task in tasks:
        explanation = explained.get(task["task_id"])
        words = describe_evidence(out, task, out.translate(explanation)) if explanation is not None else ""
        words = " [dim]·[/] ".join(part for part in (took.get(task["task_id"], ""), words) if part)
        if words:
            mark = {"done": "[green]✓[/]", "failed": "[bold red]✗[/]"}.get(task["board"], "[yellow]‖[/]")
            mark = "[yellow]?[/]" if task["proven"] is False else mark
            out.say(f"  {mark} [bold]{sanitize_line(task['task_id'])}[/]: {words}", err=True)


def describe_evidence(out: CommandOutput, task: TaskView, explanation: TaskExplanation) -> str:
    """Return what a task rests on; empty if nothing was checked and nothing is claimed."""
    attempts = explanation["attempts"]
    checks = list(attempts[-1].get("checks", ())) if attempts else []
    checks.sort(key=lambda check: check["passed"])
    parts = [_describe_check(out, check) for check in checks[:_CHECKS]]
    parts += [out.count(len(checks) - _CHECKS, "more check")] if len(checks) > _CHECKS else []
    if task["proven"] is False:
        parts.append(f"[yellow]{out.text('remark.claimed_by', agent=sanitize_line(task['agent_id']))}[/]")
    if parts and task["isolated"] is not None:
        isolated = task["isolated"]
        parts.append(out.text("remark.isolated") if isolated else f"[yellow]{out.text('remark.not_isolated')}[/]")
    return " [dim]·[/] ".join(parts)


def _describe_check(out: CommandOutput, check: CheckView) -> str:
    name = sanitize_line(check["id"])
    if not check["passed"]:
        return f"[red]{out.text('remark.check_failed', check=name)}[/]"
    notes = [out.code("trust", check["trust"]), *(out.text(f"remark.{n}") for n in ("weak", "flaky") if check.get(n))]
    return out.text("remark.check_passed", check=name, notes=sanitize_line(out.join(notes)))


def tell_changes(out: CommandOutput, compiled: CompiledPlan) -> bool:
    """Print on standard error what the plan's branch changes. Returns whether it changes anything."""
    workspace, plan_id = compiled.manifest.workspace, compiled.dag.plan_id
    if workspace is None:
        return False
    from agenttalk.adapters.workspaces.user_folder import read_work

    try:
        work = read_work(Path(workspace.repo), f"agenttalk/{plan_id}", f"refs/agenttalk/{plan_id}/base")
    except AgentTalkError:  # such as a folder without git
        return False
    if work is None or not work.summary:
        return False
    out.say(f"  [dim]agenttalk/{sanitize(plan_id)} {work.commit[:12]}:[/] {sanitize(work.summary)}", err=True)
    return True


def list_next(standing: PlanView, root: Path, *, changed: bool) -> Iterator[str]:
    """Yield the commands to type next."""
    plan_id = standing["plan_id"]
    given = find_root(Path.cwd())
    at = "" if given is not None and given.absolute() == root.absolute() else f" --root {shlex.quote(str(root))}"
    failed = next((task["task_id"] for task in standing["tasks"] if task["board"] == "failed"), None)
    if standing["result"] == "done" and changed:
        yield f"agenttalk merge {plan_id}{at}"
    elif failed is not None and standing["result"] != "running":
        yield f"agenttalk explain {plan_id}/{failed}{at}"
