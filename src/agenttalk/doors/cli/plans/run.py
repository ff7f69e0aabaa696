"""`agenttalk run`: a plan to its end, here or beside an engine that runs already."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.contracts.errors import Code
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    CommonOptions,
    JsonOption,
    RootOption,
    SandboxOption,
    sanitize,
)
from agenttalk.doors.cli.core.root_discovery import find_root

if TYPE_CHECKING:
    from agenttalk.contracts.agent import Tier
    from agenttalk.doors.cli.core.engine_client import EngineClient
    from agenttalk.engine.operation.engine import Engine
    from agenttalk.rules.planfile.compiler import CompiledPlan

run_app = typer.Typer(add_completion=False)
CODES = {"done": 0, "failed": 1, "waiting": 3, "paused": 3, "running": 130}
"""How a plan stands → how the command ends."""
SHORTEST = 0.02
"""Seconds between looks at a plan that runs here."""
PACE = 0.25
"""Seconds between looks at a plan that another process runs."""
ABSENCE = 30.0
"""Seconds for which an engine may be away that is followed, or takes to begin."""


@run_app.command("run")
def run(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan file, YAML or JSON.")],
    watch: Annotated[bool, typer.Option("--watch", help="Also wait for people and for agents worked by hand.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the plan and show it; run nothing.")] = False,
    take_uncommitted: Annotated[
        bool, typer.Option("--take-uncommitted", help="Begin with the work tree as it is, also what is not committed.")
    ] = False,
    sandbox: SandboxOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a plan to its end, and show how it goes.

    Ends with 0 when everything is done, 1 when something failed, 3 when somebody else is awaited. Running the same
    plan again goes on where it was.
    """
    from agenttalk.doors.cli.core import root_access
    from agenttalk.doors.cli.plans import warnings
    from agenttalk.wiring.plan_files import compile_plan_file

    out = CommandOutput(as_json=CommonOptions.merge(ctx, root, as_json).as_json)
    given = CommonOptions.merge(ctx, root, as_json).root or find_root(Path.cwd())
    compiled = compile_plan_file(file, given if given is not None and given.is_dir() else None)
    if compiled.problems:
        return tell_refused(out, compiled)
    compiled = _with_uncommitted(compiled) if take_uncommitted else compiled
    if dry_run:
        tasks = [node.task_id for node in compiled.dag.nodes]
        if out.as_json:
            out.write_json({"ok": True, "plan_id": compiled.dag.plan_id, "tasks": tasks})
        else:
            out.say(f"[green]✓[/] [bold]{sanitize(compiled.dag.plan_id)}[/]: {len(tasks)} tasks; nothing was run")
        return 0
    warnings.require_repository(compiled)
    warnings.tell_of_repository(out, compiled)
    folder = root_access.make_root(ctx, root)
    return CODES[_run_compiled(out, compiled, folder, watch=watch, sandbox=sandbox)["result"]]


def _with_uncommitted(compiled: CompiledPlan) -> CompiledPlan:
    """The plan, begun with what is not committed in its repository. Raises UsageError when it has none."""
    from dataclasses import replace

    from agenttalk.contracts.errors import Code, UsageError

    workspace = compiled.manifest.workspace
    if workspace is None:
        raise UsageError(Code.OPTION_INVALID, "the plan works on no repository", hint="leave out --take-uncommitted")
    taking = workspace.model_copy(update={"uncommitted": "take"})
    return replace(compiled, manifest=compiled.manifest.model_copy(update={"workspace": taking}))


def run_plan_file(out: CommandOutput, file: Path, folder: Path, *, quiet: bool = False) -> dict[str, Any]:
    """Run a plan file in a root until it ends or waits; how it stands. Raises ContractError when it is no good plan."""
    from agenttalk.contracts.errors import ContractError
    from agenttalk.wiring.plan_files import compile_plan_file

    compiled = compile_plan_file(file, folder)
    if compiled.problems:
        raise ContractError(compiled.problems[0].code, f"{file} is no plan that can be run", compiled.problems)
    return _run_compiled(out, compiled, folder, watch=False, quiet=quiet)


def _run_compiled(
    out: CommandOutput,
    compiled: CompiledPlan,
    folder: Path,
    *,
    watch: bool,
    quiet: bool = False,
    sandbox: Tier | None = None,
) -> dict[str, Any]:
    """Run a plan and show how it goes; with `quiet`, what it comes to is left to be told by the caller."""
    from agenttalk.doors.cli.plans import warnings
    from agenttalk.doors.cli.plans.live_view import LivePlanView
    from agenttalk.rules.planfile.compiler import compute_waves

    _warn_of_checks(out, compiled, folder)
    warnings.warn_of_programs(out, compiled, folder)
    warnings.warn_of_sandboxes(out, compiled, folder, sandbox)
    warnings.warn_of_logins(out, compiled, folder, sandbox)
    order = [task_id for wave in compute_waves(compiled.dag) for task_id in wave]
    by_hand = {name for name, profile in compiled.profiles.items() if profile.driver == "folder"}
    with LivePlanView(out, compiled.dag.plan_id, order=order, by_hand=by_hand, root=folder) as live:
        standing = _run_until_settled(folder, compiled, live.show, watch=watch, sandbox=sandbox)
    if not quiet:
        live.conclude(standing)
    return standing


def tell_refused(out: CommandOutput, compiled: CompiledPlan) -> int:
    """Say what is wrong with a plan; the exit code."""
    if out.as_json:
        errors = [
            {"code": str(each.code), "field": each.field, "message": each.message, "hint": each.hint}
            for each in compiled.problems
        ]
        out.write_json({"ok": False, "plan_id": compiled.dag.plan_id, "errors": errors})
    else:
        out.show_problems(compiled.problems)
        out.show_problems([each for each in compiled.warnings if each.code == Code.PLAN_DOUBTFUL], warning=True)
        many = len(compiled.problems)
        out.say(f"refused: {many} problem{'s' if many > 1 else ''}", err=True)
    return 2


def _warn_of_checks(out: CommandOutput, compiled: CompiledPlan, root: Path) -> None:
    """A check that nobody can make never passes; whoever starts such a plan should know before."""
    named = [
        str(node.task_id)
        for node in compiled.dag.nodes
        if node.promise is not None and any(check.kind == "forge" for check in node.promise.checks)
    ]
    if not named or out.as_json:
        return
    from agenttalk.wiring.settings import load

    if not any(each.token_env or each.token_file for each in load(root).sources.values()):
        tasks = sanitize(", ".join(named[:10]) + (" …" if len(named) > 10 else ""))
        words = "no forge is configured with a token of the engine's, so these tasks are never done"
        out.say(f"[yellow]![/] {words}: [bold]{tasks}[/]", err=True)


def _run_until_settled(
    root: Path,
    compiled: CompiledPlan,
    show: Callable[[dict[str, Any]], None],
    *,
    watch: bool,
    sandbox: Tier | None = None,
) -> dict[str, Any]:
    """Have the plan run, here or by the engine that is there, until it ends or waits.

    An engine that only ran another plan may end before: then the next one is followed, or the plan goes on here. One
    that serves is waited for when it ends, because whoever ended it means to start it again, or to have it stopped.
    """
    import time

    from agenttalk.adapters.store.root_lock import running_parts
    from agenttalk.contracts.errors import Code, MachineError
    from agenttalk.doors.cli.core import engine_client
    from agenttalk.doors.cli.plans import warnings

    served = False
    gone: MachineError | None = None
    deadline = time.monotonic() + ABSENCE
    while True:
        client = engine_client.connect_to_running_engine(root)
        try:
            if client is not None:
                warnings.refuse_sandbox(sandbox)
                return _run_in_engine(client, compiled, show, watch=watch)
            if not served:
                return _run_here(root, compiled, show, watch=watch, sandbox=sandbox)
        except MachineError as error:
            if error.code not in {Code.ENGINE_RUNNING, Code.ENGINE_UNREACHABLE}:
                raise
            if client is None and running_parts(root):
                raise  # they have the root, and may have it for ever
            gone = error
        if client is not None and client.answered:
            served, deadline = not client.is_temporary, time.monotonic() + ABSENCE
        if gone is not None and time.monotonic() > deadline:
            raise gone
        time.sleep(PACE)


def _context() -> str:
    """Where whoever called us stands in a trace, if the environment tells it."""
    import os

    from agenttalk.rules.operation.spans import read_traceparent

    told = os.environ.get("TRACEPARENT", "")
    return told if read_traceparent(told) is not None else ""


def _run_here(
    root: Path,
    compiled: CompiledPlan,
    show: Callable[[dict[str, Any]], None],
    *,
    watch: bool,
    sandbox: Tier | None,
) -> dict[str, Any]:
    import asyncio
    import time
    from contextlib import suppress

    from agenttalk import wiring
    from agenttalk.doors.cli.core import root_access
    from agenttalk.wiring import settings

    seen: list[dict[str, Any]] = []

    async def job(running: Engine) -> None:
        await running.service.plans.submit(
            compiled.dag, compiled.manifest, compiled.profiles, compiled.files, traceparent=_context()
        )
        with running.dispatcher.subscribe_changes() as news, running.dispatcher.subscribe_ends() as calm:
            while True:
                news.clear()
                calm.clear()
                began = time.monotonic()
                look = running.service.plans.read_status if watch else running.service.plans.settle
                standing: dict[str, Any] = dict(await look(compiled.dag.plan_id))
                seen[:] = [standing]
                show(standing)
                if _is_over(standing, watch=watch):
                    return
                await news.wait()
                # Looking costs time that grows with the plan, so that is done less often the longer it takes.
                with suppress(TimeoutError):
                    await asyncio.wait_for(calm.wait(), max(SHORTEST, 5 * (time.monotonic() - began)))

    loaded = settings.load(root).with_sandbox(sandbox)

    def start(stop: asyncio.Event) -> Any:
        return wiring.serve(root, loaded, stop=stop, port=0, job=job)

    code = root_access.run_loop(start)
    if not seen:  # stopped before there was anything to tell
        raise KeyboardInterrupt
    return {**seen[0], "result": "running"} if code == root_access.EXIT_INTERRUPTED else seen[0]


def _run_in_engine(
    client: EngineClient, compiled: CompiledPlan, show: Callable[[dict[str, Any]], None], *, watch: bool
) -> dict[str, Any]:
    import time

    context = _context()
    client.post("/api/plans", to_documents(compiled), {"traceparent": context} if context else {})
    standing: dict[str, Any] = {}
    try:
        while True:
            path = f"/api/plans/{compiled.dag.plan_id}"
            standing = client.get(path) if watch else client.post(f"{path}/settle", {})
            show(standing)
            if _is_over(standing, watch=watch):
                return standing
            time.sleep(PACE)
    except KeyboardInterrupt:  # only the following ends: the engine goes on
        return {**standing, "result": "running"}


def to_documents(compiled: CompiledPlan) -> dict[str, Any]:
    """A plan as an engine takes it."""
    import base64

    return {
        "dag": compiled.dag.as_json(),
        "manifest": compiled.manifest.as_json(),
        "profiles": {name: profile.as_json() for name, profile in compiled.profiles.items()},
        "files": [base64.b64encode(data).decode() for data in compiled.files.values()],
    }


def _is_over(standing: dict[str, Any], *, watch: bool) -> bool:
    return standing["result"] != "running" and (not watch or standing["state"] == "ENDED")
