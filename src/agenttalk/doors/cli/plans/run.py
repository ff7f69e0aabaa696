"""`agenttalk run`: runs a plan to its end, in this process or in an engine that runs already."""

from __future__ import annotations

import base64
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from agenttalk.contracts.errors import Code, ContractError, MachineError, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    CommonOptions,
    JsonOption,
    RootOption,
    SandboxOption,
    sanitize,
)
from agenttalk.doors.cli.core.root_discovery import PLAN, find_root, resolve_plan_file
from agenttalk.doors.cli.plans import run_evidence
from agenttalk.doors.cli.plans.live_view import LivePlanView

if TYPE_CHECKING:
    import asyncio

    from agenttalk.contracts.agent import Tier
    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.doors.cli.core.engine_client import EngineClient
    from agenttalk.doors.cli.plans.watched_plan import WatchedPlan
    from agenttalk.engine.operation.engine import Engine
    from agenttalk.engine.views.models.plans import PlanView
    from agenttalk.rules.planfile.compiler import CompiledPlan

run_app = typer.Typer(add_completion=False)
CODES = {"done": 0, "failed": 1, "waiting": 3, "paused": 3, "running": 130}
"""Result of the plan → exit code of the command."""
SHORTEST = 0.02
"""Shortest time between two reads of the status of a plan that runs here, in seconds."""
REDRAWN = 0.25
"""Time between two drawings on a terminal in which nothing happens but that time passes, in seconds."""
SMOOTH = 0.1
"""Shortest time between two drawings, in seconds."""
PACE = 0.25
"""Time between two reads of the status of a plan that another process runs, in seconds."""
ABSENCE = 30.0
"""How long to wait for an engine that restarts or starts, in seconds."""


@run_app.command("run")
def run(
    ctx: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="PLAN", help=f"A plan file, YAML or JSON. Default: the {PLAN} of this repository."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Also wait for people, and for agents without a program.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the plan.")] = False,
    take_uncommitted: Annotated[
        bool, typer.Option("--take-uncommitted", help="Start from the work tree as it is, with uncommitted changes.")
    ] = False,
    sandbox: SandboxOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a plan to its end, and show its progress.

    Exits with 0 when everything is done, 1 when something failed, 3 when the plan waits for a person. Run the same plan
    again to continue it. Ctrl-C asks the agents to stop and keeps what they did; again, it ends them at once.
    """
    from agenttalk.doors.cli.plans import warnings
    from agenttalk.wiring.plan_files import compile_plan_file

    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    given = CommonOptions.merge(ctx, root, as_json).root or find_root(Path.cwd())
    compiled = compile_plan_file(resolve_plan_file(file), given if given is not None and given.is_dir() else None)
    if compiled.problems:
        return tell_refused(out, compiled)
    compiled = _with_uncommitted(compiled) if take_uncommitted else compiled
    if dry_run:
        tasks = [node.task_id for node in compiled.dag.nodes]
        if out.as_json:
            out.write_json({"ok": True, "plan_id": compiled.dag.plan_id, "tasks": tasks})
        else:
            words = out.text("run.checked", count=len(tasks))
            out.say(f"[green]✓[/] [bold]{sanitize(compiled.dag.plan_id)}[/]: {words}")
        return 0
    warnings.require_repository(compiled)
    warnings.tell_of_repository(out, compiled)
    folder = root_access.make_root(ctx, root)
    return CODES[_run_compiled(out, compiled, folder, watch=watch, sandbox=sandbox)["result"]]


def _with_uncommitted(compiled: CompiledPlan) -> CompiledPlan:
    """Return the plan with its uncommitted changes included. Raises UsageError when it works on no repository."""
    workspace = compiled.manifest.workspace
    if workspace is None:
        from agenttalk.rules.text.cli_words import ERRORS

        hint = ERRORS["no_take_uncommitted"]()
        raise UsageError(Code.OPTION_INVALID, ERRORS["no_repository_in_plan"](), hint=hint)
    taking = workspace.model_copy(update={"uncommitted": "take"})
    return replace(compiled, manifest=compiled.manifest.model_copy(update={"workspace": taking}))


def run_plan_file(out: CommandOutput, file: Path, folder: Path, *, quiet: bool = False) -> WatchedPlan:
    """Run a plan file until it ends or waits, and return its status. Raises ContractError when it is not valid."""
    from agenttalk.wiring.plan_files import compile_plan_file

    compiled = compile_plan_file(file, folder)
    if compiled.problems:
        raise ContractError(compiled.problems[0].code, f"{file} is not a valid plan", compiled.problems)
    return _run_compiled(out, compiled, folder, watch=False, quiet=quiet)


def _run_compiled(
    out: CommandOutput,
    compiled: CompiledPlan,
    folder: Path,
    *,
    watch: bool,
    quiet: bool = False,
    sandbox: Tier | None = None,
) -> WatchedPlan:
    """Run a plan and show its progress. With `quiet`, the caller prints the result."""
    from agenttalk.doors.cli.plans import warnings

    _warn_of_checks(out, compiled, folder)
    warnings.warn_of_programs(out, compiled, folder)
    warnings.warn_of_sandboxes(out, compiled, folder, sandbox)
    warnings.warn_of_logins(out, compiled, folder, sandbox)
    return follow_compiled(out, compiled, folder, watch=watch, quiet=quiet, sandbox=sandbox)


def follow_compiled(
    out: CommandOutput,
    compiled: CompiledPlan,
    folder: Path,
    *,
    watch: bool = False,
    quiet: bool = False,
    until_asked: bool = False,
    sandbox: Tier | None = None,
) -> WatchedPlan:
    """Run a plan whose warnings were shown, and show its progress. With `quiet`, the caller prints the result.

    With `until_asked` it also ends at a question to a person that would not keep its tasks from going on. The status
    has the explanations of the tasks that ended, by their ids, under `explained`.
    """
    from agenttalk.rules.planfile.compiler import compute_waves

    order = [task_id for wave in compute_waves(compiled.dag) for task_id in wave]
    without_program = {name for name, profile in compiled.profiles.items() if profile.driver == "folder"}
    live_view = LivePlanView(
        out,
        compiled.dag.plan_id,
        order=order,
        without_program=without_program,
        root=folder,
        explains=(not quiet or until_asked) and not out.as_json,
        one_change=until_asked,
    )
    with live_view as live:
        over = partial(_is_over, watch=watch, until_asked=until_asked)
        standing = _run_until_settled(
            folder, compiled, live, over, watch=watch, sandbox=sandbox, locale="en" if quiet else out.locale
        )
    if not quiet:
        live.conclude(standing)
        if not out.as_json:
            run_evidence.tell_evidence(out, standing["tasks"], live.explained, live.describe_done(standing))
            changed = run_evidence.tell_changes(out, compiled)
            for command in run_evidence.list_next(standing, folder, changed=changed):
                out.say(f"  [cyan]→[/] {sanitize(command)}", err=True)
    return {**standing, "explained": live.explained} if until_asked else standing


def tell_refused(out: CommandOutput, compiled: CompiledPlan) -> int:
    """Print the problems of a plan, and return the exit code."""
    if out.as_json:
        errors = [
            {"code": str(problem.code), "field": problem.field, "message": problem.message, "hint": problem.hint}
            for problem in compiled.problems
        ]
        out.write_json({"ok": False, "plan_id": compiled.dag.plan_id, "errors": errors})
    else:
        out.show_problems(compiled.problems)
        doubts = [warning for warning in compiled.warnings if warning.code == Code.PLAN_DOUBTFUL]
        out.show_problems(doubts, warning=True)
        out.say(out.text("run.refused", problems=out.count(len(compiled.problems), "problem")), err=True)
    return 2


def _warn_of_checks(out: CommandOutput, compiled: CompiledPlan, root: Path) -> None:
    """Warn of checks that can never pass, because no forge can be read."""
    named = [
        str(node.task_id)
        for node in compiled.dag.nodes
        if node.promise is not None and any(check.kind == "forge" for check in node.promise.checks)
    ]
    if not named or out.as_json:
        return
    from agenttalk.wiring.settings import load

    if not any(source.token_env or source.token_file for source in load(root).sources.values()):
        tasks = sanitize(", ".join(named[:10]) + (" …" if len(named) > 10 else ""))
        out.say(f"[yellow]![/] {out.text('run.no_forge')}: [bold]{tasks}[/]", err=True)


def _run_until_settled(
    root: Path,
    compiled: CompiledPlan,
    live: LivePlanView,
    over: Callable[[PlanView], bool],
    *,
    watch: bool,
    sandbox: Tier | None,
    locale: Locale,
) -> WatchedPlan:
    """Run the plan, in an engine if one runs, else here, until it ends or waits.

    An engine that was started for another plan may end before ours: then the next engine is followed, or the plan
    continues here. When an engine of `serve` ends, its operator restarts it or wants it stopped: then we wait.
    """
    from agenttalk.adapters.store.root_lock import running_parts
    from agenttalk.doors.cli.core import engine_client
    from agenttalk.doors.cli.plans import warnings

    served = False
    gone: MachineError | None = None
    deadline = time.monotonic() + ABSENCE
    while True:
        client = engine_client.connect_to_running_engine(root, locale)
        try:
            if client is not None:
                if sandbox is not None:
                    client.get("/api/me")  # fails where the engine was killed a moment ago
                    warnings.refuse_sandbox()
                return _run_in_engine(client, compiled, live, over, watch=watch)
            if not served:
                return _run_here(root, compiled, live, over, watch=watch, sandbox=sandbox)
        except MachineError as error:
            if error.code not in {Code.ENGINE_RUNNING, Code.ENGINE_UNREACHABLE}:
                raise
            if client is None and running_parts(root):
                raise  # parts hold the root, and may hold it for long
            gone = error
        if client is not None and client.answered:
            served, deadline = not client.is_temporary, time.monotonic() + ABSENCE
        if gone is not None and time.monotonic() > deadline:
            raise gone
        time.sleep(PACE)


def _context() -> str:
    """Return the trace context of the caller, if the environment has one."""
    from agenttalk.rules.operation.spans import read_traceparent

    context = os.environ.get("TRACEPARENT", "")
    return context if read_traceparent(context) is not None else ""


def _run_here(
    root: Path,
    compiled: CompiledPlan,
    live: LivePlanView,
    over: Callable[[PlanView], bool],
    *,
    watch: bool,
    sandbox: Tier | None,
) -> WatchedPlan:
    from agenttalk import wiring
    from agenttalk.wiring import settings

    following = _Following(compiled, live, over, watch=watch)
    loaded = settings.load(root).with_sandbox(sandbox)

    def start(stop: asyncio.Event) -> Any:
        return wiring.serve(root, loaded, stop=stop, port=0, job=following.run)

    code = root_access.run_loop(start, following.interrupt)
    if following.standing is None:  # stopped before the first status
        raise KeyboardInterrupt
    if code == root_access.EXIT_INTERRUPTED:
        return cast("WatchedPlan", {**following.standing, "result": "running", "interrupted": True})
    return cast("WatchedPlan", following.standing)


class _Following:
    """Submits a plan to the engine of this process, and shows it until it ends, waits or is interrupted."""

    def __init__(
        self,
        compiled: CompiledPlan,
        live: LivePlanView,
        over: Callable[[PlanView], bool],
        *,
        watch: bool,
    ) -> None:
        """`over` says whether a status is the last one."""
        self._compiled = compiled
        self._live = live
        self._over = over
        self._watch = watch
        self._interrupt: asyncio.Event | None = None
        """Set by Ctrl-C, once the plan runs."""
        self.standing: PlanView | None = None
        """The last status."""

    def interrupt(self) -> bool:
        """Have the agents asked to end, if the plan runs. Returns False if there is nothing to wait for."""
        if self._interrupt is None or self._interrupt.is_set():
            return False
        self._live.announce_stop()
        self._interrupt.set()
        return True

    async def run(self, running: Engine) -> None:
        """Be the job of the engine."""
        import asyncio

        plan = self._compiled
        await running.service.plans.submit(plan.dag, plan.manifest, plan.profiles, plan.files, traceparent=_context())
        self._interrupt = asyncio.Event()
        follow = asyncio.create_task(self._follow(running))
        interrupted = asyncio.create_task(self._interrupt.wait())
        try:
            await asyncio.wait({follow, interrupted}, return_when=asyncio.FIRST_COMPLETED)
            if follow.done():
                await follow
                for task_id in self._live.list_explained(self.standing):
                    self._live.explained[task_id] = await running.service.plans.explain(plan.dag.plan_id, task_id)
                return
            await running.dispatcher.interrupt_turns()
            await self._read(running)
        finally:
            for task in (follow, interrupted):
                task.cancel()

    async def _follow(self, running: Engine) -> None:
        """Read the status whenever it may have changed, and show what goes on meanwhile."""
        import asyncio

        with running.dispatcher.subscribe_changes() as news, running.dispatcher.subscribe_ends() as calm:
            while True:
                news.clear()
                calm.clear()
                began = time.monotonic()
                standing = await self._read(running)
                took = time.monotonic() - began
                if self._over(standing):
                    return
                watching = asyncio.create_task(self._show_activities(running, standing))
                try:
                    await news.wait()
                    # Reading takes longer the larger the plan is, so large plans are read less often.
                    with suppress(TimeoutError):
                        await asyncio.wait_for(calm.wait(), max(SHORTEST, 5 * took))
                finally:
                    watching.cancel()

    async def _read(self, running: Engine) -> PlanView:
        """Read the status, and show it."""
        plan_id = self._compiled.dag.plan_id
        settled = not self._watch and not (self._interrupt and self._interrupt.is_set())
        read = running.service.plans.settle if settled else running.service.plans.read_status
        self.standing = await read(plan_id)
        for task_id in self._live.list_refused(self.standing):
            self._live.tell_refused(task_id, await running.service.plans.explain(plan_id, task_id))
        self._live.show(self.standing)
        return self.standing

    async def _show_activities(self, running: Engine, standing: PlanView) -> None:
        """Show what the tasks of a status do meanwhile. That is not stored, so nothing is read of the store."""
        import asyncio

        with running.dispatcher.subscribe_activities() as doing:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(doing.wait(), REDRAWN if self._live.draws else None)
                doing.clear()
                began = time.monotonic()
                await running.service.plans.add_activities(self._compiled.dag.plan_id, standing["tasks"])
                self._live.show(standing)
                await asyncio.sleep(max(SMOOTH, 10 * (time.monotonic() - began)))


def _run_in_engine(
    client: EngineClient,
    compiled: CompiledPlan,
    live: LivePlanView,
    over: Callable[[PlanView], bool],
    *,
    watch: bool,
) -> WatchedPlan:

    context = _context()
    client.post("/api/plans", to_documents(compiled), {"traceparent": context} if context else {})
    standing: WatchedPlan | None = None
    with _noting_interrupts() as interrupts, suppress(KeyboardInterrupt):
        while not interrupts:
            path = f"/api/plans/{compiled.dag.plan_id}"
            standing = client.get(path) if watch else client.post(f"{path}/settle", {})
            for task_id in live.list_refused(standing):
                live.tell_refused(task_id, client.get(f"{path}/tasks/{task_id}/explanation"))
            live.show(standing)
            if over(standing):
                for task_id in live.list_explained(standing):
                    live.explained[task_id] = client.get(f"{path}/tasks/{task_id}/explanation")
                return standing
            time.sleep(PACE)
    if standing is None:  # stopped before the first status
        raise KeyboardInterrupt
    # We only stop following: the engine continues.
    return {**standing, "result": "running"}


@contextmanager
def _noting_interrupts() -> Iterator[list[int]]:
    """Note each Ctrl-C. One that comes in a destructor is lost as an exception, and would not end a loop."""
    seen: list[int] = []

    def note(number: int, frame: object) -> None:
        del frame
        seen.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # only the main thread gets signals
        yield seen
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def to_documents(compiled: CompiledPlan) -> dict[str, object]:
    """Return a plan as the API takes it."""
    return {
        "dag": compiled.dag.as_json(),
        "manifest": compiled.manifest.as_json(),
        "profiles": {name: profile.as_json() for name, profile in compiled.profiles.items()},
        "files": [base64.b64encode(data).decode() for data in compiled.files.values()],
    }


def _is_over(standing: PlanView, *, watch: bool, until_asked: bool) -> bool:
    # A question about a task that has failed is followed by the end of its plan.
    failed = all(task["state"] == "FAILED" for task in standing["tasks"])
    if until_asked and standing["questions"] and standing["closing"] is None and not failed:
        return True
    return standing["result"] != "running" and (not watch or standing["state"] == "ENDED")
