"""A fake forge and a board in this process: webhooks that come, are lost or are late, and looks at the forge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agenttalk.adapters.forge.client import RetryPolicy
from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.contracts.agent import AgentProfile
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard, ToolchainSetup
from agenttalk.engine.toolchain.deliveries import DeliveryProcessor
from agenttalk.engine.toolchain.receiver import DeliveryReceiver
from agenttalk.engine.toolchain.reconciler import Reconciler
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind
from agenttalk.engine.views import toolchain
from agenttalk.ports.statements.toolchain import TOOLCHAIN_TASK
from agenttalk.rules.prompts.toolchain_steps import ForgeAddresses
from agenttalk.rules.toolchain.accounts import ForgeIdentity, ForgeRegistry
from agenttalk.testing import FakeGitea
from agenttalk.testing.gitea_objects import GiteaPull, GiteaRepository, GiteaUser
from agenttalk.wiring import forge_sources, open_root
from engine.toolchain.kits.bench import SECRET

T = TypeVar("T")
REPO = "acme/widgets"
LOGINS = ("agent-dev", "agent-reviewer", "agent-second", "agent-ops")
REGISTRY = ForgeRegistry(
    identities=tuple(ForgeIdentity(login, "work", login) for login in LOGINS),
    default_reviewer="agent-reviewer",
    ops="agent-ops",
    repositories=("acme/*",),
    deploy_patterns=("*deploy*",),
    engines={"work": "root"},
)
PROFILES = {each.agent: AgentProfile(agent_id=each.agent, driver="played") for each in REGISTRY.identities}  # type: ignore[arg-type]
EVENTS = ("pull_request", "issues", "issue_comment", "status", "workflow_run", "repository")


@dataclass
class HandClock:
    """A clock that is set by hand."""

    at: datetime = field(default_factory=lambda: datetime(2026, 5, 2, tzinfo=UTC))

    def now(self) -> datetime:
        return self.at

    def later(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class Scene:
    """A forge with one repository, and the board that its events come to."""

    forge: FakeGitea
    deps: Deps
    board: ToolchainBoard
    receiver: DeliveryReceiver
    intake: DeliveryProcessor
    reconciler: Reconciler
    clock: HandClock

    @property
    def repository(self) -> GiteaRepository:
        return self.forge.state.repository(*REPO.split("/"))

    def user(self, login: str) -> GiteaUser:
        return self.forge.state.user(login)

    # What people do

    def pull(
        self, name: str = "retry", reviewers: tuple[str, ...] = (), body: str = "", who: str = "agent-dev"
    ) -> GiteaPull:
        self.push(name)
        author = self.user(who)
        return self.forge.state.pulls.create_pull(self.repository, author, f"Add {name}", body, name, "main", reviewers)

    def push(self, name: str, text: str = "x\n", who: str = "agent-dev") -> str:
        return self.forge.push(REPO, name, {f"{name}.py": text}, who)

    def review(
        self, pull: GiteaPull, verdict: str, body: str = "See what I wrote.", who: str = "agent-reviewer"
    ) -> Any:
        return self.forge.state.pulls.review(self.repository, self.user(who), pull.issue.number, verdict, body, "")

    def ran(self, pull: GiteaPull, *, good: bool) -> None:
        state = "success" if good else "failure"
        status = {"state": state, "context": "ci / test (pull_request)"}
        self.forge.state.pulls.set_status(self.repository, self.user("root"), pull.head_sha, status)

    def deployed(self, *, good: bool, context: str = "deploy / production", sha: str = "") -> str:
        """How a deployment of a commit ended; of the newest one of the default branch if none is named."""
        sha = sha or self.repository.bare.branches()["main"]
        status = {"state": "success" if good else "failure", "context": context}
        self.forge.state.pulls.set_status(self.repository, self.user("root"), sha, status)
        return sha

    def issue(self, title: str = "Crash", body: str = "", assignees: tuple[str, ...] = (), who: str = "root") -> Any:
        return self.forge.state.issues.create_issue(self.repository, self.user(who), title, body, assignees)

    def edit(self, number: int, **changes: Any) -> None:
        self.forge.state.issues.edit_issue(self.repository, self.user("root"), number, changes)

    def comment(self, number: int, body: str, who: str = "alice") -> Any:
        return self.forge.state.issues.create_comment(self.repository, self.user(who), number, body)

    def request(self, pull: GiteaPull, login: str, *, remove: bool = False) -> None:
        self.forge.state.pulls.request_review(
            self.repository, self.user("root"), pull.issue.number, login, remove=remove
        )

    # What comes of it

    async def told(self, order: Callable[[list[Any]], list[Any]] = list) -> None:
        """The webhooks that wait come in now."""
        for each in order(self.forge.deliveries.waiting()):
            await self.receiver.receive("work", list(each.headers.items()), each.body)
        self.lost()
        while await self.intake.pass_():
            pass

    def lost(self) -> None:
        """The webhooks that wait never come."""
        self.forge.deliveries.release(())
        self.forge.deliveries.hold()

    async def reconcile(self, *, dry_run: bool = False) -> dict[str, Any]:
        found: dict[str, Any] = (await self.reconciler.pass_(dry_run=dry_run)).as_json()
        [source] = found["sources"]
        return {**source, "ok": found["ok"]}

    async def tasks(self) -> list[Any]:
        found: list[Any] = (await toolchain.list_toolchain_tasks(self.deps, toolchain.ToolchainQuery(limit=500)))[
            "tasks"
        ]
        return found

    async def live(self) -> list[tuple[str, str]]:
        """(Action type, assignee) of every task that is to be done."""
        shown = [each for each in await self.tasks() if each["status"] != "withdrawn"]
        return sorted((each["must_haves"]["action_type"], each["assignee"]) for each in shown)

    async def keys(self) -> list[str]:
        """Keys of the tasks that are to be done."""
        if not self.deps.stores.has_board(BOARD):
            return []
        store = await self.deps.stores.board(BOARD)
        shown = [each["id"] for each in await self.tasks() if each["status"] != "withdrawn"]
        return sorted([(await store.read(TOOLCHAIN_TASK, task_id=each))[0][1] for each in shown])


@asynccontextmanager
async def scene(folder: Path, *, page: int = 50, registry: ForgeRegistry = REGISTRY) -> AsyncIterator[Scene]:
    async with FakeGitea.running(folder / "forge", page=page) as forge:
        for login in (*LOGINS, "alice", "stranger"):
            forge.user(login)
        forge.repository(REPO, writers=[*LOGINS, "root", "alice"])
        forge.hook(REPO, "http://127.0.0.1:9/nobody", SECRET, EVENTS)
        forge.deliveries.hold()
        await asyncio.to_thread((folder / "root").mkdir)
        clock = HandClock()
        quick = RetryPolicy(connect=2, answer=10, tries=2, pause=0.01, longest_pause=0.05)
        async with (
            open_root(folder / "root", kinds={BOARD: ToolchainTaskKind()}, clock=clock) as deps,
            Gitea.connect("work", forge.url, forge.admin, patience=quick) as client,
        ):
            setup = ToolchainSetup(registry, {"work": ForgeAddresses("gitea", f"{forge.url}/api/v1")}, PROFILES)
            board = ToolchainBoard(deps, setup, lambda: "http://127.0.0.1:8083")
            sources = {"work": forge_sources.ConfiguredSource("work", "gitea", f"{forge.url}/api/v1", SECRET)}
            reading = forge_sources.ForgeReader({"work": client})
            receiver = DeliveryReceiver(deps, sources, lambda: None)
            yield Scene(
                forge,
                deps,
                board,
                receiver,
                DeliveryProcessor(
                    deps,
                    sources,
                    board,
                    asked=reading.read_reviewers,
                    gather=reading.read_content,
                    search=reading.find_pull_requests,
                    rights=reading.may_write,
                ),
                Reconciler(deps, board, {"work": client}, gather=reading.read_content, rights=reading.may_write),
                clock,
            )


def play(folder: Path, work: Callable[[Scene], Awaitable[T]], **options: Any) -> T:
    async def run() -> T:
        async with scene(folder, **options) as found:
            return await work(found)

    return asyncio.run(run())
