"""`agenttalk verify`: checks whether the proof of a plan still holds."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

verify_app = typer.Typer(add_completion=False)
_MARKS = {"fresh": "[green]✓[/]", "verified": "[green]✓[/]", "red": "[bold red]✗[/]"}
_WORDS = {"fresh": "fresh", "verified": "verified again", "red": "red"}


@verify_app.command("verify")
def verify(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="PLAN[/TASK]", help="A plan, or one of its tasks.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check whether the proof of a plan still holds, also after the plan has ended.

    Checks with stale evidence run again. A check that fails goes back to the task that broke it, and a plan that had
    ended continues. Exits with 0 when everything holds, else with 1.
    """
    plan, _, task_id = what.partition("/")
    out, folder = root_access.choose_root(ctx, root, as_json)

    told = root_access.ask_root(
        folder,
        f"/api/plans/{plan}/verify",
        lambda local: local.service.plans.verify(plan, task_id or None, by=getpass.getuser()),
        {"task": task_id} if task_id else {},
    )
    holds = all(check["state"] != "red" for check in told["checks"])
    if out.as_json:
        out.write_json({"ok": holds, **told})
    else:
        _tell(out, told)
    return 0 if holds else 1


def _tell(out: CommandOutput, told: Mapping[str, Any]) -> None:
    for check in told["checks"]:
        name = f"[bold]{sanitize(check['task_id'])}[/] {sanitize(check['check_id'])}"
        out.say(f"{_MARKS[check['state']]} {name}: {_WORDS[check['state']]}{_why(check)}")
    if not told["checks"]:
        out.say(f"[bold]{sanitize(told['plan_id'])}[/]: it has no proof that can become stale")
    for task_id in told["reopened"]:
        out.say(f"[cyan]→[/] [bold]{sanitize(task_id)}[/] must repair it, and continues when an engine runs")


def _why(check: dict[str, Any]) -> str:
    if check["state"] == "fresh":
        return ""
    changed = f" ({sanitize(', '.join(check['changed']))} changed)"
    if check["state"] == "verified":
        return changed
    detail = f": {sanitize(check['detail'][:200])}" if check["detail"] else ""
    broke = check["broke"]
    if broke["commit"] is None:
        return f"{changed}{detail}; nothing was merged since it passed"
    whose = f"the merge of {sanitize(broke['task_id'])}" if broke["task_id"] else "a commit that no task made"
    return f"{changed}{detail}; since {whose} ({sanitize(broke['commit'][:12])})"
