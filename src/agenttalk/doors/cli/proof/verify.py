"""`agenttalk verify`: look now whether what a plan proved still holds."""

from __future__ import annotations

import getpass
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
    what: Annotated[str, typer.Argument(metavar="PLAN[/TASK]", help="A plan, or one task of it.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check whether what a plan proved still holds, also when the plan has ended.

    Checks whose evidence is stale are made again. What does not pass goes back to whoever broke it, and a plan that had
    ended goes on. Ends with 0 when everything holds, with 1 when something does not.
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


def _tell(out: CommandOutput, told: dict[str, Any]) -> None:
    for check in told["checks"]:
        name = f"[bold]{sanitize(check['task_id'])}[/] {sanitize(check['check_id'])}"
        out.say(f"{_MARKS[check['state']]} {name}: {_WORDS[check['state']]}{_why(check)}")
    if not told["checks"]:
        out.say(f"[bold]{sanitize(told['plan_id'])}[/]: nothing was proven that could change")
    for task_id in told["reopened"]:
        out.say(f"[cyan]→[/] [bold]{sanitize(task_id)}[/] has to mend it, and goes on when an engine runs")


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
    whose = f"the merge of {sanitize(broke['task_id'])}" if broke["task_id"] else "a commit of somebody else"
    return f"{changed}{detail}; since {whose} ({sanitize(broke['commit'][:12])})"
