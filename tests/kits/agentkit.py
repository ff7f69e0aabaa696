"""An agent at work in a tree made by hand: real programs, a real store, a clock that stands until it is moved."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.agents.registry import make_performers
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.runs.conclusion import write_orphan_end
from agenttalk.engine.runs.job_runner import JobRunner
from agenttalk.engine.runs.resume import OrphanedLease
from agenttalk.ports.agents import Driver, Processes
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.messages import DEADLETTERS, DELIVERY_OF, TASK, VIEWS_UNDER
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.runs import END_TURN
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import R, Store, Tx
from agenttalk.rules.core import task_states, usage
from agenttalk.rules.core.isolation import IsolationSettings
from agenttalk.rules.text.catalogue import to_columns
from agenttalk.wiring import open_root
from kits.sandboxkit import PLAIN
from kits.treekit import Tree, dumped, sha256

T = TypeVar("T")


def replace_driver(beat: Heartbeat, deps: Deps, driver: Driver) -> None:
    """From now on an agent's turns are run by another driver."""
    beat._runner = JobRunner(deps, make_performers(deps, driver, lambda: beat._api, beat._environ))


async def end_bare_lease(store: Store, task_id: str, epoch: int, lease: str, at: str, plan_id: str) -> None:
    """End a lease without a command: a row that a test wrote by itself."""

    def work(tx: Tx) -> None:
        [task] = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
        assert task.delivery is None
        assert tx.run(
            END_TURN,
            plan_id=plan_id,
            task_id=task_id,
            epoch=epoch,
            lease=lease,
            state=task_states.move("RUNNING", "ENGINE_ENDED"),
            cause="ENGINE_ENDED",
            **to_columns(None),
            queued=None,
            at=at,
            score=None,
            fact=task.fact,
            unproven=0,
            unisolated=0,
            retries=0,
            sent_back=task.sent_back,
            deaths=0,
            **usage.NOTHING._asdict(),
        )

    await store.transact(work)


async def end_lease(store: Store, task_id: str, epoch: int, lease: str, at: str, plan_id: str = "plan_shop") -> None:
    """End the lease of a task, as recovery does."""

    def work(tx: Tx) -> None:
        [task] = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
        assert task.delivery is not None
        left = OrphanedLease(plan_id, task_id, task.agent_id, epoch, lease, task.delivery, task.phase, died=False)
        assert write_orphan_end(tx, left, at=at)

    await store.transact(work)


class Clock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def forward(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class Desk:
    """One agent under a root, with its inbox filled by hand."""

    tree: Tree
    agent_id: str = "dev"
    clock: Clock = field(default_factory=Clock)
    limits: EngineLimits = field(default_factory=EngineLimits)
    words: IsolationSettings = PLAIN
    unrouted: bool = False
    """Whether the operator lets run what no router brought."""

    @property
    def folder(self) -> Path:
        return self.tree.root / "agents" / self.agent_id

    def program(self, text: str, **profile: Any) -> None:
        """Make the agent a script agent that runs a Python program."""
        self.tree.agent(self.agent_id, driver="script", argv=[sys.executable, "work.py"], **profile)
        (self.folder / "work.py").write_text(text, encoding="utf-8")

    def inbox(self, *parts: str) -> Path:
        return self.tree.box(self.agent_id, "inbox").joinpath(*parts)

    def outbox(self, *parts: str) -> Path:
        return self.tree.box(self.agent_id, "outbox").joinpath(*parts)

    def inputs(self, *parts: str) -> Path:
        return (self.folder / "workspace" / self.tree.plan_id / "inputs").joinpath(*parts)

    def deliver(self, name: str, data: dict[str, Any] | bytes) -> Path:
        """A message in the inbox, as another router would put it there."""
        path = self.inbox(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / ".tmp-delivering"
        content = data if isinstance(data, bytes) else dumped(data)
        temporary.write_bytes(content)
        temporary.rename(path)
        self.note(content)
        return path

    def note(self, content: bytes, plan_id: str = "") -> None:
        """The line that another router writes for a message that it brought."""
        try:
            said = json.loads(content)
            message_id, sender = said["message_id"], said["producer_agent_id"]
        except (ValueError, TypeError, KeyError, RecursionError):
            return
        line = {
            "delivery_id": f"del_{message_id}",
            "plan_id": plan_id or self.tree.plan_id,
            "message_id": message_id,
            "envelope_sha256": sha256(content),
            "from_agent_id": sender,
            "delivered_at": "2026-03-01T12:00:00Z",
            "status": "DELIVERED",
        }
        journal = self.tree.plan_folder(plan_id) / "deliveries.jsonl"
        journal.parent.mkdir(parents=True, exist_ok=True)
        with journal.open("ab") as stream:
            stream.write(json.dumps({**line, "to_agent_id": self.agent_id}).encode() + b"\n")

    def command(self, task_id: str = "build", seq: int = 1, **fields: Any) -> str:
        """A command in the inbox; returns its message_id."""
        sender = "somebody"
        message_id = self.tree.command(sender, task_id, seq, **fields)
        return self._bring(sender, f"cmd_{task_id}_{seq:03d}.msg.json", message_id)

    def artifact(self, task_id: str, output: str, files: dict[str, bytes], **fields: Any) -> str:
        """An artifact with its payloads in the inbox; returns its message_id."""
        sender = self.maker(task_id)
        message_id = self.tree.artifact(sender, task_id, output, files, **fields)
        for path in files:
            target = self.inbox(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.tree.box(sender, "outbox").joinpath(path).rename(target)
        return self._bring(sender, f"artifact_{message_id}.msg.json", message_id)

    def maker(self, task_id: str) -> str:
        """Whose task it is, if there is a plan."""
        path = self.tree.plan_folder() / "task_dag.json"
        nodes = json.loads(path.read_bytes())["nodes"] if path.exists() else []
        return next((node["assigned_agent_id"] for node in nodes if node["task_id"] == task_id), "somebody")

    def _bring(self, sender: str, name: str, message_id: str) -> str:
        source = self.tree.box(sender, "outbox") / name
        self.deliver(name, source.read_bytes())
        source.unlink()
        return message_id

    def play(
        self,
        scenario: Callable[[Heartbeat, Deps], Awaitable[T]],
        *,
        driver: Driver | None = None,
        processes: Processes | None = None,
        **options: Any,
    ) -> T:
        """Open the root, let the scenario use the agent's heartbeat, close both."""

        async def run() -> T:
            async with open_root(
                self.tree.root, clock=self.clock, limits=self.limits, words=self.words, unrouted=self.unrouted
            ) as deps:
                known = processes or LocalProcesses()
                beat = Heartbeat(deps, self.agent_id, driver or ScriptDriver(known, grace=0.2), known, **options)
                try:
                    return await scenario(beat, deps)
                finally:
                    await beat.close()

        return asyncio.run(run())

    def once(self, **options: Any) -> TickReport:
        """Do everything that can be done now."""
        return self.play(lambda beat, _: beat.run_once(), **options)

    def read(self, query: Statement[R], **params: Any) -> list[R]:
        """Ask the store."""

        async def ask(_: Heartbeat, deps: Deps) -> list[R]:
            board = await deps.stores.board("default")
            return await board.read(query, **params)

        return self.play(ask)

    def task(self, task_id: str = "build") -> dict[str, Any]:
        """A task's row."""
        names = "agent_id state updated_at epoch lease owner delivery attempt waiting_since missing request_id"
        rows = self.read(TASK, plan_id=self.tree.plan_id, task_id=task_id)
        return dict(zip(names.split(), rows[0], strict=False)) if rows else {}

    def delivery(self, message_id: str) -> dict[str, Any]:
        """A delivery's row."""
        rows = self.read(DELIVERY_OF, plan_id=self.tree.plan_id, message_id=message_id, receiver=self.agent_id)
        return dict(zip(["id", "state", "ack", "consumed_at", "shown"], rows[0], strict=False)) if rows else {}

    def facts(self, message_id: str, kind: str) -> list[Any]:
        """What the ledger says of the turns of a command."""
        subject = f"turns/{self.tree.plan_id}/{message_id}"
        rows = self.read(FACTS_OF, subject=subject, after=0, limit=100)
        return [json.loads(bytes(row[3])) for row in rows if row[2] == kind]

    def codes(self) -> list[str]:
        """The codes of the dead letters."""
        return sorted(row[2] for row in self.read(DEADLETTERS, before=2**62, limit=1000))

    def alerts(self) -> list[str]:
        """The types of the alerts."""
        folder = f"alerts/{self.tree.plan_id}/"
        rows = self.read(VIEWS_UNDER, first=folder, last=f"{folder}~")
        return sorted(json.loads(row.body or b"")["type"] for row in rows)

    def ack(self, message_id: str) -> Any:
        """The receipt that lies in the outbox."""
        path = self.outbox(f"ack_{message_id}.json")
        return json.loads(path.read_bytes()) if path.exists() else None

    def envelopes(self) -> list[Any]:
        """The artifacts that lie in the outbox."""
        return [json.loads(path.read_bytes()) for path in sorted(self.outbox().glob("artifact_*.msg.json"))]

    def names(self, *parts: str) -> list[str]:
        """What lies in a folder of the inbox."""
        path = self.inbox(*parts)
        return sorted(each.name for each in path.iterdir()) if path.is_dir() else []


WRITES = """
import os, pathlib
out = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(out / "made.txt").write_text("made")
print("fine")
"""
"""A program that hands over one output."""
