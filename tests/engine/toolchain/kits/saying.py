"""A board with agents that are played, a fake Gitea that answers or does not, and a clock that is moved."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from adapters.forge.world import AGENTS, SOURCE, registry
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.forge.client import RetryPolicy
from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import questions
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.toolchain import failures
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard, ToolchainLimits, ToolchainSetup
from agenttalk.engine.toolchain.forge_posts import ForgePoster
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind
from agenttalk.engine.views import toolchain
from agenttalk.ports.agents import Job
from agenttalk.ports.kinds import KindTask, KindTurn
from agenttalk.rules.prompts.toolchain_steps import ForgeAddresses
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import Performance
from agenttalk.testing import FakeGitea
from agenttalk.wiring import open_root
from engine.toolchain.test_board import PROFILES

REPO = "acme/widgets"
QUICK = RetryPolicy(connect=2, answer=1, tries=1, pause=0.01)


class MovedClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.time = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


Play = Callable[[Job], Performance]


@dataclass
class Player:
    """Does every turn as it is told."""

    play: Play = lambda _: Performance("finished", result="I did it")
    turns: list[str] = field(default_factory=list)

    async def perform(self, job: Job) -> Performance:
        self.turns.append(f"{job.task_id} {job.command.command_seq}")
        return self.play(job)


@dataclass
class Stage:
    """Everything that plays."""

    root: Path
    forge: FakeGitea
    clock: MovedClock = field(default_factory=MovedClock)
    caps: ToolchainLimits = field(default_factory=lambda: ToolchainLimits(probe_after=10.0))
    player: Player = field(default_factory=Player)
    found: Callable[[KindTask], Sequence[Evidence]] = lambda _: ()
    """What is read back at the forge."""
    token: bool = True
    url: str = ""
    """The store, if it is not SQLite."""
    known: dict[str, Any] = field(default_factory=dict)
    """What is configured otherwise."""
    deps: Deps = field(init=False)
    board: ToolchainBoard = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    outgoing: ForgePoster = field(init=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Stage]:
        """An engine on the root; it may be opened again."""

        async def read_back(task: KindTask, _: KindTurn) -> Sequence[Evidence]:
            return self.found(task)

        kind = ToolchainTaskKind(verify={SOURCE: "observed"}, read_back=read_back, on_failure=failures.make_follow_ups)
        setup = ToolchainSetup(
            registry=replace(registry(engines={SOURCE: "engine"}), **self.known),
            places={SOURCE: ForgeAddresses("gitea", f"{self.forge.url}/api/v1")},
            profiles={each: profile for each, profile in PROFILES.items() if each in AGENTS},
            retry_times=0,
            caps=self.caps,
        )
        self.root.mkdir(exist_ok=True)
        async with (
            open_root(self.root, clock=self.clock, kinds={BOARD: kind}, url=self.url) as self.deps,
            Gitea.connect(SOURCE, self.forge.url, self.tokens["engine"], patience=QUICK) as client,
        ):
            self.board = ToolchainBoard(self.deps, setup, lambda: "http://127.0.0.1:8083")
            self.dispatcher = Dispatcher(self.deps, {"played": self.player}, LocalProcesses())
            self.outgoing = ForgePoster(
                self.deps,
                self.board,
                {SOURCE: client} if self.token else {},
                retry=lambda task_id, by: self.dispatcher.operator.retry(BOARD, task_id, by=by),
                nudge=self.dispatcher.nudge,
            )
            yield self

    tokens: dict[str, str] = field(default_factory=dict)

    @classmethod
    @asynccontextmanager
    async def set(cls, folder: Path, **options: Any) -> AsyncIterator[Stage]:
        """A forge with a repository, an issue and accounts, and an engine beside it."""
        async with FakeGitea.running(folder / "forge") as forge:
            stage = cls(folder / "root", forge, **options)
            stage.tokens = {login: forge.user(login) for login in (*AGENTS, "engine")}
            forge.repository(REPO, writers=[*AGENTS, "engine"])
            issue = forge.state.issues.create_issue(
                stage.repository, forge.state.user("alice"), "Crash", "It crashes.", []
            )
            while issue.number < 9:
                issue = forge.state.issues.create_issue(
                    stage.repository, forge.state.user("alice"), "Crash", "It crashes.", []
                )
            async with stage.open():
                yield stage

    @property
    def repository(self) -> Any:
        return self.forge.state.repository(*REPO.split("/"))

    def comments(self) -> list[str]:
        """What the engine's account wrote."""
        return [each.body for each in self.repository.comments if each.author.login == "engine"]

    def issues(self) -> list[Any]:
        """What the engine's account opened."""
        return [each for each in self.repository.issues.values() if each.author.login == "engine"]

    async def ran(self, ended: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Have agents work until the tasks have come so far."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.dispatcher.run(stop))
        try:
            with self.dispatcher.subscribe_changes() as news:
                async with asyncio.timeout(300):
                    while not ended(found := await self.tasks()):
                        await news.wait()
                        news.clear()
        finally:
            stop.set()
            await running
        return found

    async def tasks(self) -> list[Any]:
        found: list[Any] = (await toolchain.list_toolchain_tasks(self.deps, toolchain.ToolchainQuery(limit=500)))[
            "tasks"
        ]
        return found

    async def rows(self) -> list[Any]:
        found: list[Any] = (await toolchain.list_outgoing(self.deps))["outgoing"]
        return found

    async def away(self) -> list[Any]:
        found: list[Any] = (await toolchain.list_outgoing(self.deps))["away"]
        return found

    async def asked(self) -> list[str]:
        """The titles of the questions that are open."""
        return [each.document.title for each in await questions.list_open(self.deps)]

    async def answer(self, choice: str) -> None:
        """Answer the only question."""
        [request] = await questions.list_open(self.deps)
        await questions.answer(self.deps, request.request_id, by="ann", decision="PROVIDE", answers=[choice])

    async def said(self, seconds: float = 0.0) -> float:
        """Move the clock, and say what can be said."""
        self.clock.move(seconds)
        return await self.outgoing.pass_()


def ended(tasks: list[dict[str, Any]]) -> bool:
    """Whether all of them have ended."""
    return bool(tasks) and all(each["closed_at"] for each in tasks)
