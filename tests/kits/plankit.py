"""Plans that are run by functions of the test: each task's agent does what the test says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenttalk.adapters.checking.checker import Checker
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.python_calls import Agent, PythonPerformer, Turn
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.proving import WorkspaceProver
from agenttalk.adapters.proving.verified_checks import VerifiedChecks
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.model_use import MODEL_DRIVERS
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.engine.agents.acp import AcpAgents
from agenttalk.engine.agents.coding_cli import CodingAgents
from agenttalk.engine.agents.model import ModelAgents
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.agents.remote import RemoteAgents
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.fleet.check_leases import CheckLeases
from agenttalk.engine.fleet.sync import FleetAgents
from agenttalk.engine.messages.router import Router
from agenttalk.engine.operation import fsck
from agenttalk.engine.people import questions
from agenttalk.engine.people.human_driver import HumanAgents
from agenttalk.engine.plans import submission
from agenttalk.engine.proof.evidence_store import StoredFindings
from agenttalk.engine.proof.plan_tips import StoredTips
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.ports.agents import Driver, Performer
from agenttalk.ports.statements.proof import TIP
from agenttalk.ports.storage import Clock
from agenttalk.rules.core.isolation import IsolationSettings
from agenttalk.rules.fleet.assignment import MachineStart
from agenttalk.rules.fleet.verify_policy import HERE, VerifyPolicy
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan
from agenttalk.wiring import open_root
from kits.sandboxkit import PLAIN
from kits.standingkit import PlanStanding, read_standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

ENGINES_OWN = MachineStart("engine", "monday")
PATIENCE = 300.0
"""Seconds within which something has to come true; that it does not is a failure."""


def task(task_id: str, agent: str = "a", **keys: Any) -> dict[str, Any]:
    """A task that makes nothing but a result, unless it is told otherwise."""
    return {"id": task_id, "agent": agent, "prompt": f"Do {task_id}.", **keys}


def plan(
    *tasks: dict[str, Any], plan_id: str = "p", agents: Mapping[str, Any] | None = None, **keys: Any
) -> CompiledPlan:
    """A plan file, compiled. Agents that are not described are functions."""
    named = {str(each["agent"]): {"driver": "python"} for each in tasks} | dict(agents or {})
    document = {"plan_id": plan_id, "agents": named, "tasks": list(tasks), **keys}
    compiled = compile_plan(reader.plan_of(YamlSource(document)))
    assert compiled.problems == ()
    return compiled


async def fine(turn: Turn) -> str:
    """An agent that makes every output that is asked for."""
    for each in turn.command.produces or ():
        turn.outputs[each.output_name] = f"{turn.task_id}/{each.output_name}"
    return "ok"


@dataclass
class Engine:
    """A root that is open, with a dispatcher at work."""

    deps: Deps
    dispatcher: Dispatcher
    agents: dict[str, Agent] = field(default_factory=dict)
    elsewhere: RemoteAgents | None = None
    checks: CheckLeases | None = None

    async def submit(self, compiled: CompiledPlan) -> bool:
        new = await submission.submit(self.deps, compiled.dag, compiled.manifest, compiled.profiles)
        self.dispatcher.nudge()
        return new

    async def until(self, condition: Callable[[PlanStanding], bool], plan_id: str = "p") -> PlanStanding:
        """How a plan stands once something is so. Of what agents have done meanwhile there need not be any news."""
        with self.dispatcher.subscribe_changes() as news:
            async with asyncio.timeout(PATIENCE):
                while True:
                    news.clear()
                    found = await read_standing(self.deps, plan_id)
                    if condition(found):
                        return found
                    with suppress(TimeoutError):
                        await asyncio.wait_for(news.wait(), 0.1)

    async def ended(self, plan_id: str = "p") -> PlanStanding:
        """How a plan stands when nothing goes on by itself any more."""
        return await self.until(lambda found: found.result != "running", plan_id)

    async def followed(self, head: Callable[[], str], plan_id: str = "p") -> None:
        """Wait until the branch of a plan is at the tip that the store has, and nothing of it is cleaned up any more."""
        rows = await (await board_of(self.deps, plan_id)).read(TIP, plan_id=plan_id)
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(head) != rows[0].commit_id:  # noqa: ASYNC110 - git announces nothing
                await asyncio.sleep(0.01)
            prover = self.dispatcher._state.prover
            assert isinstance(prover, WorkspaceProver)
            await prover._candidates.finish_cleaning()

    async def asked(self) -> None:
        """Wait until there is a question."""
        async with asyncio.timeout(PATIENCE):
            while not await questions.list_open(self.deps):  # noqa: ASYNC110 - a person would look again too
                await asyncio.sleep(0.01)

    async def answer(self, decision: str = "PROVIDE", **more: Any) -> None:
        """Answer the one question that is open."""
        [request] = await questions.list_open(self.deps)
        await questions.answer(self.deps, request.request_id, by="ada", decision=decision, **more)  # type: ignore[arg-type]
        self.dispatcher.nudge()

    async def route(self) -> None:
        """A pass of the router."""
        await Router(self.deps).pass_()
        self.dispatcher.nudge()


@asynccontextmanager
async def engine(
    root: Path,
    *,
    max_running: int = 8,
    proving: bool | Tier = False,
    day_cost_usd: float | None = None,
    performers: Mapping[str, Performer] | None = None,
    clock: Clock | None = None,
    limits: EngineLimits | None = None,
    grace: float = 0.3,
    traced: bool = False,
    words: IsolationSettings = PLAIN,
    url: str = "",
    verify: VerifyPolicy = HERE,
    **agents: Agent,
) -> AsyncIterator[Engine]:
    """An engine on a root; agents that are not named are fine. `performers` are added to the usual ones.

    `url` names a database of PostgreSQL, in place of SQLite.
    """
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)
    known: dict[str, Agent] = _Fine(agents)
    async with open_root(root, clock=clock, limits=limits, traced=traced, words=words, url=url, verify=verify) as deps:
        processes = LocalProcesses()
        driver = ScriptDriver(processes, grace=grace)
        begun: list[Dispatcher] = []
        tier: Tier = proving if isinstance(proving, str) else "plain"
        checks = CheckLeases(deps, ENGINES_OWN)
        prover = proved(root, deps, driver, tier, checks) if proving else None
        transport = prover.transport if prover is not None else None
        elsewhere = RemoteAgents(
            deps,
            at_work=lambda lease: begun[0].mark_at_work(lease),  # noqa: PLW0108 - it is made later
            transport=transport,
        )
        usual: dict[str, Performer] = {
            "python": PythonPerformer(known, deps.stores.blobs),
            "human": HumanAgents(deps),
            "script": ProgramAgents(deps, driver),
            "cli": CodingAgents(deps, driver, environ=os.environ, tiers=driver),
            "acp": AcpAgents(deps, driver, environ=os.environ, tiers=driver, dialogues=driver.open_dialogue),
            "remote": FleetAgents(deps, elsewhere),
        }
        models = ModelAgents(deps, driver, environ=os.environ, program=deps.asks_models)
        usual |= dict.fromkeys(MODEL_DRIVERS, models)
        dispatcher = Dispatcher(
            deps,
            {**usual, **(performers or {})},
            processes,
            max_running=max_running,
            prover=prover,
            day_cost_usd=day_cost_usd,
            environ=os.environ,
        )
        begun.append(dispatcher)
        stop = asyncio.Event()
        running = asyncio.create_task(dispatcher.run(stop))
        try:
            yield Engine(deps, dispatcher, known, elsewhere=elsewhere, checks=checks)
        finally:
            stop.set()
            await running
        assert await fsck.check_root(deps) == []


def proved(
    root: Path, deps: Deps, driver: Driver, tier: Tier = "plain", checks: CheckLeases | None = None
) -> WorkspaceProver:
    """Makes checks, by default without a sandbox; has `checks` make them where the operator wants verifiers."""
    checker = Checker(driver, deps.clock, deps.ids)
    context = CheckContext(
        path=os.environ["PATH"], sandbox=tier, masked=deps.sandbox_paths.hidden, readable=deps.sandbox_paths.readable
    )
    verified = None
    if checks is not None and deps.verify.pool:
        verified = VerifiedChecks(checks, deps.verify, checker, context, deps.clock)
    return WorkspaceProver(
        root, checker, context, deps.clock, deps.stores.blobs, StoredFindings(deps), StoredTips(deps), verified
    )


class _Fine(dict[str, Agent]):
    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002 - whoever is not named is fine
        return super().get(key, fine)


def play(root: Path, use: Callable[[Engine], Awaitable[Any]], **agents: Any) -> Any:
    """Do something with an engine."""

    async def run() -> Any:
        async with engine(root, **agents) as found:
            return await use(found)

    return asyncio.run(run())


def states(found: PlanStanding) -> dict[str, str]:
    """Task → state."""
    return {each["task_id"]: each["state"] for each in found.tasks}
