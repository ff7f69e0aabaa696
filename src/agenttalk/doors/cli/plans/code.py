"""`agenttalk diff` and `agenttalk merge`: show and merge what a plan changed in a repository."""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenttalk.adapters.workspaces.user_branch import LandingRefusal, LandingResult
    from agenttalk.adapters.workspaces.workspace import PlanWorkspace
    from agenttalk.engine.proof.plan_closer import RecheckView, VerifiedPlan

diff_app = typer.Typer(add_completion=False)
merge_app = typer.Typer(add_completion=False)


@diff_app.command("diff")
def diff(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="PLAN[/TASK]", help="A plan, or one of its tasks.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what a plan has merged so far, or the changes of the last attempt at a task."""
    import asyncio

    out, folder = root_access.choose_root(ctx, root, as_json)
    plan, _, task = what.partition("/")
    attempt = _last_attempt(folder, plan, task) if task else None
    space, tip = asyncio.run(_open_workspace(folder, plan))
    before, after = asyncio.run(_ends(space, tip, attempt))
    text = asyncio.run(space.trees.diff(before, after))
    changes = asyncio.run(space.trees.changes(before, after))
    if out.as_json:
        paths = [{"path": each.path, "how": each.kind} for each in changes]
        out.write_json({"ok": True, "from": before, "to": after, "changes": paths, "diff": text})
    else:
        out.say(sanitize(text.rstrip("\n")) if text else "nothing was changed")
    return 0


@merge_app.command("merge")
def merge(
    ctx: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")],
    into: Annotated[
        str | None, typer.Option("--into", metavar="BRANCH", help="Your branch. Default: the one checked out.")
    ] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Merge without checking whether the proof still holds.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Merge the work of a plan into your own branch. No plan ever touches that branch by itself.

    The merge is a fast-forward, or a merge without conflicts, and needs a clean work tree. Before it, the plan's proof
    is checked at the tip of its branch: checks with stale evidence run again, and if one fails, nothing is merged.
    """
    from agenttalk.adapters.workspaces.user_branch import LandingResult

    out, folder = root_access.choose_root(ctx, root, as_json)
    report = None if stale else verify_plan(folder, plan)
    if report is not None and (broken := find_broken_checks(report)):
        _tell_broken(out, plan, broken)
        return 1
    landed = land_plan(folder, plan, into, report["commit"] if report is not None else "", stale=stale)
    if isinstance(landed, LandingResult):
        _tell_landed(out, landed.commit, landed.how, stale=stale)
        return 0
    if out.as_json:
        out.write_json({"ok": False, "why": landed.why, "paths": list(landed.paths), "conflict": landed.text})
    else:
        out.say(f"[red]✗[/] nothing was merged: {sanitize(landed.why)}", err=True)
        out.say("".join(f"  · {sanitize(path)}\n" for path in landed.paths).rstrip() or sanitize(landed.text), err=True)
    return 1


def land_plan(
    folder: Path, plan: str, into: str | None = None, commit: str = "", *, stale: bool = False
) -> LandingResult | LandingRefusal:
    """Merge a commit of a plan's branch, or its tip, into a branch of the user, and record who did that."""
    import asyncio

    from agenttalk.adapters.workspaces.user_branch import LandingResult
    from agenttalk.wiring import SystemClock

    space, tip = asyncio.run(_open_workspace(folder, plan))
    commit = commit or asyncio.run(_follow(space, tip))
    landed = asyncio.run(space.land(at=SystemClock().now(), into=into, commit=commit))
    if isinstance(landed, LandingResult):
        _note_merged(folder, plan, landed.commit, into, stale=stale)
    return landed


def verify_plan(folder: Path, plan: str) -> VerifiedPlan:
    """Check at the tip of a plan's branch whether its proof still holds. Returns the report."""
    by = getpass.getuser()
    return root_access.ask_root(
        folder, f"/api/plans/{plan}/verify", lambda local: local.service.plans.verify(plan, by=by), {}
    )


def find_broken_checks(report: VerifiedPlan) -> list[RecheckView]:
    """Return the checks that no longer pass."""
    return [check for check in report["checks"] if check["state"] not in {"fresh", "verified"}]


def _tell_broken(out: CommandOutput, plan: str, broken: Sequence[RecheckView]) -> None:
    if out.as_json:
        out.write_json({"ok": False, "why": "stale", "paths": [], "conflict": "", "checks": broken})
        return
    out.say(f"[red]✗[/] nothing was merged: the proof of {sanitize(plan)} no longer holds", err=True)
    for check in broken:
        detail = f": {sanitize(check['detail'][:200])}" if check["detail"] else ""
        out.say(f"  · {sanitize(check['task_id'])} {sanitize(check['check_id'])}{detail}", err=True)
    hint = f"repair it with 'agenttalk run' or 'serve', or merge it anyway: 'agenttalk merge {sanitize(plan)} --stale'"
    out.say(f"  [cyan]→[/] {hint}", err=True)


def _note_merged(folder: Path, plan: str, commit: str, into: str | None, *, stale: bool) -> None:
    """Record who merged what, and whether the proof was checked first."""
    merge = {"commit": commit, "into": into, "stale": stale, "by": getpass.getuser()}

    root_access.ask_root(
        folder, f"/api/plans/{plan}/merged", lambda local: local.plans.record_merge(plan, merge), merge
    )


def _tell_landed(out: CommandOutput, commit: str, how: str, *, stale: bool) -> None:
    if stale and not out.as_json:
        out.say("[yellow]![/] the proof was not checked again (--stale); the ledger records that")
    if out.as_json:
        out.write_json({"ok": True, "commit": commit, "how": how, "stale": stale})
    elif how == "nothing":
        out.say("[green]✓[/] already merged")
    else:
        out.say(f"[green]✓[/] merged as {commit[:12]} ({how})")


def _last_attempt(folder: Path, plan: str, task: str) -> tuple[str, str, int]:
    """Return the task, command and number of the last attempt that ended. Raises UsageError when there is none."""
    explanation = root_access.ask_root(
        folder, f"/api/plans/{plan}/tasks/{task}/explanation", lambda local: local.plans.explain_task(plan, task)
    )
    if not explanation["attempts"]:
        raise UsageError(
            Code.NAME_UNKNOWN, f"{plan}/{task} has no attempt yet, so there is no diff", hint="run the plan first"
        )
    last = explanation["attempts"][-1]
    return task, str(last["command_id"]), int(last["attempt"])


async def _open_workspace(folder: Path, plan: str) -> tuple[PlanWorkspace, str]:
    """Open the workspace of a plan; return the tip of its branch, too."""
    import asyncio

    from agenttalk.adapters.proving import FOLDER
    from agenttalk.adapters.workspaces.paths import WorkspaceSettings
    from agenttalk.adapters.workspaces.workspace import PlanWorkspace

    told = await asyncio.to_thread(
        root_access.ask_root,
        folder,
        f"/api/plans/{plan}/repository",
        lambda local: local.plans.describe_repository(plan),
    )
    home = folder / FOLDER / plan
    settings = WorkspaceSettings(Path(told["repo"]), plan, home, told["base"], link=tuple(told["link"]))
    return await PlanWorkspace.open(settings), told["tip"]


async def _follow(space: PlanWorkspace, tip: str) -> str:
    """Bring the branch of a plan to its tip, unless others have moved it. Returns the commit that is the tip then."""
    from agenttalk.wiring import SystemClock

    if not tip:
        return await space.ensure()
    now = await space.follow(tip, at=SystemClock().now())
    if now is None:
        hint = "'agenttalk serve' makes the branch again from what its store has"
        raise MachineError(Code.FILE_UNREADABLE, f"the repository does not have {tip[:12]}, the plan's tip", hint=hint)
    return now


async def _ends(space: PlanWorkspace, tip: str, attempt: tuple[str, str, int] | None) -> tuple[str, str]:
    """Return the commits to compare: start and end of an attempt, or of the plan."""
    from agenttalk.adapters.workspaces.results import WorkspaceAttempt

    if attempt is None:
        return await space.base(), await _follow(space, tip)
    taken = await space.attempts.find_taken(WorkspaceAttempt(*attempt))
    if taken is None:
        raise UsageError(Code.NAME_UNKNOWN, f"the changes of {attempt[1]}, attempt {attempt[2]}, were not kept")
    return taken.onto, taken.commit
