"""`agenttalk diff` and `agenttalk merge`: what a plan did to a repository, and bringing it home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from agenttalk.adapters.workspaces.workspace import PlanWorkspace
    from agenttalk.engine.core.deps import Deps

diff_app = typer.Typer(add_completion=False)
merge_app = typer.Typer(add_completion=False)


@diff_app.command("diff")
def diff(
    ctx: typer.Context,
    what: Annotated[str, typer.Argument(metavar="PLAN[/TASK]", help="A plan, or one of its tasks.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what a plan has merged so far, or what the last attempt at a task left."""
    import asyncio

    from agenttalk.doors.cli.core import root_access

    out, folder = root_access.choose_root(ctx, root, as_json)
    plan, _, task = what.partition("/")
    attempt = _last_attempt(folder, plan, task) if task else None
    space = asyncio.run(_open_workspace(folder, plan))
    before, after = asyncio.run(_ends(space, attempt))
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
        str | None, typer.Option("--into", metavar="BRANCH", help="Your branch; by default the one checked out.")
    ] = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="Merge it without a look whether what was proven still holds.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Bring what a plan has done into your own branch, which no plan ever touches by itself.

    By fast-forward, or by a merge without conflicts; and only if nothing in your work tree is changed. Before that,
    what the plan proved is looked at where its branch stands now: checks whose evidence is stale are made again, and
    what does not hold is not merged.
    """
    import asyncio

    from agenttalk.adapters.workspaces.landing import LandingResult
    from agenttalk.doors.cli.core import root_access
    from agenttalk.wiring import SystemClock

    out, folder = root_access.choose_root(ctx, root, as_json)
    space = asyncio.run(_open_workspace(folder, plan))
    looked = {} if stale else verify_plan(folder, plan)
    if broken := find_broken_checks(looked):
        _tell_broken(out, plan, broken)
        return 1
    landed = asyncio.run(space.land(at=SystemClock().now(), into=into, commit=looked.get("commit", "")))
    if isinstance(landed, LandingResult):
        _note_merged(folder, plan, landed.commit, into, stale=stale)
        _tell_landed(out, landed.commit, landed.how, stale=stale)
        return 0
    if out.as_json:
        out.write_json({"ok": False, "why": landed.why, "paths": list(landed.paths), "conflict": landed.text})
    else:
        out.say(f"[red]✗[/] nothing was merged: {sanitize(landed.why)}", err=True)
        out.say("".join(f"  · {sanitize(path)}\n" for path in landed.paths).rstrip() or sanitize(landed.text), err=True)
    return 1


def verify_plan(folder: Path, plan: str) -> dict[str, Any]:
    """What came of looking, where the plan's branch stands now, whether what it proved still holds."""
    import getpass

    from agenttalk import wiring
    from agenttalk.doors.cli.core import root_access

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return await wiring.make_verification_service(folder, deps).plans.verify(plan, None, by=getpass.getuser())

    told: dict[str, Any] = root_access.ask_root(folder, f"/api/plans/{plan}/verify", by_hand, {})
    return told


def find_broken_checks(looked: dict[str, Any]) -> list[dict[str, Any]]:
    """Checks that do not pass any more."""
    return [each for each in looked.get("checks", ()) if each["state"] not in {"fresh", "verified"}]


def _tell_broken(out: CommandOutput, plan: str, broken: list[dict[str, Any]]) -> None:
    if out.as_json:
        out.write_json({"ok": False, "why": "stale", "paths": [], "conflict": "", "checks": broken})
        return
    out.say(f"[red]✗[/] nothing was merged: what {sanitize(plan)} proved does not hold any more", err=True)
    for each in broken:
        detail = f": {sanitize(each['detail'][:200])}" if each["detail"] else ""
        out.say(f"  · {sanitize(each['task_id'])} {sanitize(each['check_id'])}{detail}", err=True)
    hint = f"'agenttalk run' or 'serve' has it mended; 'agenttalk merge {sanitize(plan)} --stale' merges it as it is"
    out.say(f"  [cyan]→[/] {hint}", err=True)


def _note_merged(folder: Path, plan: str, commit: str, into: str | None, *, stale: bool) -> None:
    """Have it written down who merged what, and whether they looked first."""
    import getpass

    from agenttalk import wiring
    from agenttalk.doors.cli.core import root_access

    said: dict[str, Any] = {"commit": commit, "into": into, "stale": stale, "by": getpass.getuser()}

    async def by_hand(deps: Deps) -> dict[str, Any]:
        await wiring.make_verification_service(folder, deps).plans.record_merge(plan, **said)
        return {}

    root_access.ask_root(folder, f"/api/plans/{plan}/merged", by_hand, said)


def _tell_landed(out: CommandOutput, commit: str, how: str, *, stale: bool) -> None:
    if stale and not out.as_json:
        out.say("[yellow]![/] nobody looked whether what was proven still holds (--stale); that is written down")
    if out.as_json:
        out.write_json({"ok": True, "commit": commit, "how": how, "stale": stale})
    elif how == "nothing":
        out.say("[green]✓[/] everything is there already")
    else:
        out.say(f"[green]✓[/] merged as {commit[:12]} ({how})")


def _last_attempt(folder: Path, plan: str, task: str) -> tuple[str, str, int]:
    """Task, command and number of the last attempt that ended."""
    from agenttalk.contracts.errors import Code, UsageError
    from agenttalk.doors.cli.core import root_access
    from agenttalk.engine.views import explain_engine_task

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return dict(await explain_engine_task.explain_engine_task(deps, plan, task))

    told = root_access.ask_root(folder, f"/api/plans/{plan}/tasks/{task}/explanation", by_hand)
    if not told["attempts"]:
        raise UsageError(Code.NAME_UNKNOWN, f"{plan}/{task} has not been tried yet", hint="there is nothing to show")
    last = told["attempts"][-1]
    return task, str(last["command_id"]), int(last["attempt"])


async def _open_workspace(folder: Path, plan: str) -> PlanWorkspace:
    import asyncio

    from agenttalk.adapters.proving import FOLDER
    from agenttalk.adapters.workspaces.workspace import PlanWorkspace
    from agenttalk.adapters.workspaces.workspace_settings import WorkspaceSettings
    from agenttalk.doors.cli.core import root_access
    from agenttalk.engine.views import plans

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return dict(await plans.describe_repository(deps, plan))

    told = await asyncio.to_thread(root_access.ask_root, folder, f"/api/plans/{plan}/repository", by_hand)
    home = folder / FOLDER / plan
    return await PlanWorkspace.open(
        WorkspaceSettings(Path(told["repo"]), plan, home, told["base"], link=tuple(told["link"]))
    )


async def _ends(space: PlanWorkspace, attempt: tuple[str, str, int] | None) -> tuple[str, str]:
    """Between which commits to look: an attempt's start and end, or the plan's."""
    from agenttalk.adapters.workspaces.results import WorkspaceAttempt
    from agenttalk.contracts.errors import Code, UsageError

    if attempt is None:
        tip = await space.ensure()
        return await space.base(), tip
    taken = await space.attempts.find_taken(WorkspaceAttempt(*attempt))
    if taken is None:
        raise UsageError(Code.NAME_UNKNOWN, f"nothing was kept of {attempt[1]}, attempt {attempt[2]}")
    return taken.onto, taken.commit
