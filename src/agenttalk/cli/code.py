"""`agenttalk diff` and `agenttalk merge`: what a plan did to a repository, and bringing it home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.cli.output import JsonOption, Output, RootOption, plain

if TYPE_CHECKING:
    from agenttalk.engine.deps import Deps
    from agenttalk.workspaces.workspace import Workspace

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

    from agenttalk.cli import roots

    out, folder = roots.chosen(ctx, root, as_json)
    plan, _, task = what.partition("/")
    attempt = _last_attempt(folder, plan, task) if task else None
    space = asyncio.run(_opened(folder, plan))
    before, after = asyncio.run(_ends(space, attempt))
    text = asyncio.run(space.diff(before, after))
    changes = asyncio.run(space.changes(before, after))
    if out.as_json:
        paths = [{"path": each.path, "how": each.kind} for each in changes]
        out.data({"ok": True, "from": before, "to": after, "changes": paths, "diff": text})
    else:
        out.say(plain(text.rstrip("\n")) if text else "nothing was changed")
    return 0


@merge_app.command("merge")
def merge(
    ctx: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")],
    into: Annotated[
        str | None, typer.Option("--into", metavar="BRANCH", help="Your branch; by default the one checked out.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Bring what a plan has done into your own branch, which no plan ever touches by itself.

    By fast-forward, or by a merge without conflicts; and only if nothing in your work tree is changed.
    """
    import asyncio

    from agenttalk.cli import roots
    from agenttalk.wiring import SystemClock
    from agenttalk.workspaces.landing import Landed

    out, folder = roots.chosen(ctx, root, as_json)
    space = asyncio.run(_opened(folder, plan))
    landed = asyncio.run(space.land(at=SystemClock().now(), into=into))
    if isinstance(landed, Landed):
        _tell_landed(out, landed.commit, landed.how)
        return 0
    if out.as_json:
        out.data({"ok": False, "why": landed.why, "paths": list(landed.paths), "conflict": landed.text})
    else:
        out.say(f"[red]✗[/] nothing was merged: {plain(landed.why)}", err=True)
        out.say("".join(f"  · {plain(path)}\n" for path in landed.paths).rstrip() or plain(landed.text), err=True)
    return 1


def _tell_landed(out: Output, commit: str, how: str) -> None:
    if out.as_json:
        out.data({"ok": True, "commit": commit, "how": how})
    elif how == "nothing":
        out.say("[green]✓[/] everything is there already")
    else:
        out.say(f"[green]✓[/] merged as {commit[:12]} ({how})")


def _last_attempt(folder: Path, plan: str, task: str) -> tuple[str, str, int]:
    """Task, command and number of the last attempt that ended."""
    from agenttalk.cli import roots
    from agenttalk.engine import explaining
    from agenttalk.errors import Code, UsageError

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return await explaining.explain(deps, plan, task)

    told = roots.asked(folder, f"/api/plans/{plan}/tasks/{task}/explanation", by_hand)
    if not told["attempts"]:
        raise UsageError(Code.NAME_UNKNOWN, f"{plan}/{task} has not been tried yet", hint="there is nothing to show")
    last = told["attempts"][-1]
    return task, str(last["command_id"]), int(last["attempt"])


async def _opened(folder: Path, plan: str) -> Workspace:
    import asyncio

    from agenttalk.cli import roots
    from agenttalk.engine import repository
    from agenttalk.proving import FOLDER
    from agenttalk.workspaces.settings import Settings
    from agenttalk.workspaces.workspace import Workspace

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return await repository.of(deps, plan)

    told = await asyncio.to_thread(roots.asked, folder, f"/api/plans/{plan}/repository", by_hand)
    home = folder / FOLDER / plan
    return await Workspace.open(Settings(Path(told["repo"]), plan, home, told["base"], tuple(told["link"])))


async def _ends(space: Workspace, attempt: tuple[str, str, int] | None) -> tuple[str, str]:
    """Between which commits to look: an attempt's start and end, or the plan's."""
    from agenttalk.errors import Code, UsageError
    from agenttalk.workspaces.answers import Attempt

    if attempt is None:
        tip = await space.ensure()
        return await space.base(), tip
    taken = await space.taken(Attempt(*attempt))
    if taken is None:
        raise UsageError(Code.NAME_UNKNOWN, f"nothing was kept of {attempt[1]}, attempt {attempt[2]}")
    return taken.onto, taken.commit
