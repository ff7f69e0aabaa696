"""A small world for the state machine: a real tree and store, an oracle written from the contract, and a reader of both.

Nothing here asks the engine what is right. The oracle reads the files that lie in the outboxes and says what must
become of them; the books are read straight from the database; the folders are read with pathlib.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import apsw

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.engine.core import access, task_comments
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.core.task_comments import TaskContribution, TaskName
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.ports.agents import ProcessIdentity, ProgramTurn, TurnEnd
from agenttalk.wiring import open_root
from kits.agentkit import Clock
from kits.treekit import Tree, dumped, node, output, sha256

T = TypeVar("T")
SHOP, SIDE, NOWHERE = "plan_shop", "plan_side", "plan_nowhere"
DRIVEN = ("dev", "pm")
"""Agents that are programs; the others are worked by hand."""
GATEWAY = "agent_human_gateway"
MIB = 1024 * 1024
LIMITS = EngineLimits(payload_bytes=2 * MIB, messages_per_pass=8, new_messages_per_tick=3)
LATEST = {"mode": "keep_latest"}
FREE = {"mode": "immutable_by_message_id"}
RULES = [{"match": {"output_name": "log.txt"}, "deliver_to": ["qa"]}]
DAGS: list[list[dict[str, Any]]] = [
    [
        node("design", "pm", outputs=[output("design.md", "dev", versioning=LATEST), output("spec.md", "dev", "qa")]),
        node("build", "dev", outputs=[output("app.zip", "qa", deliverable=True, versioning=FREE)]),
    ],
    [
        node(
            "design", "pm", outputs=[output("design.md", "dev", versioning=LATEST), output("spec.md", "dev", "ghost")]
        ),
        node("build", "pm", outputs=[output("app.zip", "qa", deliverable=True, versioning=FREE)]),
        node("review", "dev", outputs=[output("review.md", deliverable=True)]),
    ],
    [node("build", "dev", outputs=[output("app.zip", deliverable=True)])],
]
"""The versions of the plan: a task changes hands, one comes, one goes, a receiver has no folder yet."""
SIDE_DAG = [node("check", "dev", outputs=[output("report.md", deliverable=True)])]
READING_CODES = {
    "schema": "SCHEMA_INVALID",
    "version": "SCHEMA_VERSION_UNSUPPORTED",
    "type": "UNSUPPORTED_MESSAGE_TYPE",
}


class Numbers:
    """New names, the same in every run."""

    def __init__(self) -> None:
        self._count = itertools.count(1)

    def new(self, prefix: str) -> str:
        return f"{prefix}_{next(self._count):08d}"


# The agents' side: programs that are played, and whose processes live.


@dataclass
class Programs:
    """The processes of a machine: those of this life, and orphans of earlier ones until somebody ends them."""

    life: int = 1
    orphans: set[str] = field(default_factory=set)

    def me(self) -> ProcessIdentity:
        return ProcessIdentity("boot", 1000 + self.life, self.life)

    def alive(self, owner: ProcessIdentity) -> bool:
        return owner == self.me()

    async def end(self, lease: str) -> int:
        known = lease in self.orphans
        self.orphans.discard(lease)
        return int(known)

    def die(self, running: set[str]) -> None:
        self.life += 1
        self.orphans |= running


Mode = Literal["good", "fails", "silent", "wild", "holds"]
OUTPUTS = {"design": ("design.md", "spec.md"), "build": ("app.zip",), "review": ("review.md",), "check": ("report.md",)}


class Spoken(NamedTuple):
    """An attempt that was identified while it ran."""

    task: TaskName
    caller: Caller
    token: str


@dataclass
class Player:
    """A driver that does what an agent would do, and notes what must never be."""

    programs: Programs
    mode: Mode = "good"
    running: dict[str, str] = field(default_factory=dict)
    """Task → lease of the program that lives."""
    epochs: dict[str, int] = field(default_factory=dict)
    spoken: list[Spoken] = field(default_factory=list)
    held: asyncio.Event = field(default_factory=asyncio.Event)
    free: asyncio.Event = field(default_factory=asyncio.Event)
    faults: list[str] = field(default_factory=list)
    deps: Deps | None = None
    owners: dict[str, str] = field(default_factory=dict)
    """Lease → task."""

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        task = f"{turn.env['AGENTTALK_PLAN_ID']}/{turn.env['AGENTTALK_TASK_ID']}"
        if task in self.running:
            self.faults.append(f"{task} runs twice")
        if any(self.owners[lease] == task for lease in self.programs.orphans):
            self.faults.append(f"{task} runs beside a program of an earlier life")
        self.running[task] = turn.lease
        self.owners[turn.lease] = task
        try:
            await self._introduce(turn, task)
            return await self._play(turn)
        finally:
            self.running.pop(task, None)

    async def _introduce(self, turn: ProgramTurn, task: str) -> None:
        assert self.deps is not None
        token = turn.env["AGENTTALK_TOKEN"]
        caller = await access.identify(self.deps, token)
        if caller is None or caller.attempt is None:
            self.faults.append(f"{task}: the token of a live attempt is refused")
            return
        if caller.attempt.epoch <= self.epochs.get(task, 0):
            self.faults.append(f"{task}: epoch {caller.attempt.epoch} is not new")
        self.epochs[task] = caller.attempt.epoch
        plan_id, _, task_id = task.partition("/")
        spoken = Spoken(TaskName("default", plan_id, task_id), caller, token)
        self.spoken.append(spoken)
        try:
            await self.say(spoken)
        except AgentTalkError as error:
            self.faults.append(f"{task}: a live attempt may not speak: {error.message}")

    async def say(self, spoken: Spoken) -> None:
        assert self.deps is not None
        remark = TaskContribution("comment", spoken.caller.name, "general", "I am at it.")
        await task_comments.post_contribution(self.deps, spoken.task, remark, spoken.caller)

    async def _play(self, turn: ProgramTurn) -> TurnEnd:
        if self.mode == "holds":
            self.held.set()
            await self.free.wait()
        mode = "good" if self.mode == "holds" else self.mode
        if mode == "fails":
            return TurnEnd("finished", 1, b"", b"no luck", 0.1)
        folder = Path(turn.env["AGENTTALK_OUTPUTS"])
        names = ("odd.bin",) if mode == "wild" else OUTPUTS.get(turn.env["AGENTTALK_TASK_ID"], ())
        for name in names if mode != "silent" else ():
            (folder / name).write_text(f"{name} of {turn.env['AGENTTALK_COMMAND_ID']}", encoding="utf-8")
        return TurnEnd("finished", 0, b"fine", b"", 0.1)


# What the database says, read by the same library so that its locks stay whole.


class Message(NamedTuple):
    plan_id: str
    message_id: str
    sha256: str
    type: str
    task_id: str
    command_id: str | None
    seq: int
    output_name: str | None
    producer: str
    state: str
    dag_sha256: str
    envelope: bytes


class Delivery(NamedTuple):
    plan_id: str
    message: int
    receiver: str
    state: str
    ack: str | None
    shown: str
    stored_at: str | None


class Task(NamedTuple):
    agent_id: str
    state: str
    epoch: int
    lease: str | None
    owner: str | None
    token: str | None
    delivery: int | None


class Dead(NamedTuple):
    deadletter_id: str
    plan_id: str
    code: str
    reason: str
    agent_id: str
    box: str
    name: str
    message_id: str | None
    original: str | None
    tries: int
    state: str

    @property
    def is_message(self) -> bool:
        return self.name.endswith(".msg.json")


class Counts(NamedTuple):
    sent: int
    delivered: int
    superseded: int
    duplicate: int
    dead: int


@dataclass(frozen=True)
class Books:
    """Everything that the store says at one moment."""

    counts: dict[str, Counts]
    halted: dict[str, bool]
    messages: dict[int, Message]
    deliveries: dict[int, Delivery]
    tasks: dict[tuple[str, str], Task]
    dead: dict[str, Dead]
    requests: dict[str, str]
    facts: int
    handovers: int
    leavings: int


def read_books(database: Path) -> Books:
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.execute("BEGIN")

        def rows(query: str) -> list[tuple[Any, ...]]:
            return connection.execute(query).fetchall()

        plans = rows("SELECT plan_id, halted IS NOT NULL, sent, delivered, superseded, duplicate, dead FROM plans")
        return Books(
            counts={row[0]: Counts(*row[2:]) for row in plans},
            halted={row[0]: bool(row[1]) for row in plans},
            messages={
                row[0]: Message(*row[1:])
                for row in rows(
                    "SELECT id, plan_id, message_id, sha256, type, task_id, command_id, seq, output_name, producer,"
                    " state, dag_sha256, envelope FROM messages"
                )
            },
            deliveries={
                row[0]: Delivery(*row[1:])
                for row in rows("SELECT id, plan_id, message, receiver, state, ack, shown, stored_at FROM deliveries")
            },
            tasks={
                (row[0], row[1]): Task(*row[2:])
                for row in rows(
                    "SELECT plan_id, task_id, agent_id, state, epoch, lease, owner, token, delivery FROM tasks"
                )
            },
            dead={
                row[0]: Dead(*row)
                for row in rows(
                    "SELECT deadletter_id, plan_id, code, reason, agent_id, box, name, message_id, original, tries,"
                    " state FROM deadletters ORDER BY id"
                )
            },
            requests=dict(rows("SELECT request_id, state FROM requests ORDER BY request_id")),
            facts=rows("SELECT count(*) FROM ledger")[0][0],
            handovers=rows("SELECT count(*) FROM handovers")[0][0],
            leavings=rows("SELECT count(*) FROM leavings")[0][0],
        )


def read_blobs(root: Path, hashes: set[str]) -> dict[str, bytes]:
    """Contents by their hash, from the database or the folder beside it; those that are there."""
    found: dict[str, bytes] = {}
    database = root / "data" / "projects" / "default" / "blackboard.db"
    with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        for each in hashes:
            row = connection.execute("SELECT content FROM blobs WHERE hash = ?", (each,)).fetchone()
            name = each.removeprefix("sha256:")
            path = root / "data" / "blobs" / name[:2] / name[2:]
            if row:
                found[each] = bytes(row[0])
            elif path.is_file():
                found[each] = path.read_bytes()
    return found


# What the contract says.


class Lying(NamedTuple):
    """A file that lies in an outbox."""

    agent_id: str
    plan_id: str
    name: str
    data: bytes

    @property
    def sha256(self) -> str:
        return sha256(self.data)


CONTROLS = ("human_intervention_response_", "task_state_", "ack_")


def lying_in(root: Path) -> list[Lying]:
    """Messages and control files that wait in the outboxes, in the order of agents and names."""
    return [
        Lying(box.parent.parent.name, box.name, path.name, path.read_bytes())
        for box in sorted((root / "agents").glob("*/outbox/*"))
        for path in sorted(box.iterdir())
        if path.name.endswith(".msg.json") or path.name.startswith(CONTROLS)
    ]


def strict(data: bytes) -> dict[str, Any] | str:
    """A document as it may come from outside, or the code of the refusal."""
    if len(data) > MIB:
        return "FILE_TOO_LARGE"

    def no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("twice")
        return dict(pairs)

    def no_constant(text: str) -> Any:
        raise ValueError(text)

    try:
        document = json.loads(data.decode(), object_pairs_hook=no_twice, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return "ENVELOPE_PARSE_ERROR"
    if _depth(document) > 64:
        return "ENVELOPE_PARSE_ERROR"
    return document if isinstance(document, dict) else "SCHEMA_INVALID"


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += bool(any(isinstance(each, dict | list) for each in level))
        below: list[Any] = []
        for each in level:
            below += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        level = below
    return depth


class Verdict(NamedTuple):
    """What must become of a message."""

    fate: Literal["accepted", "superseded", "duplicate", "dead"]
    targets: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    """Every reason for which it may be refused; the contract does not say which one is named."""


class OrderKey(NamedTuple):
    plan_id: str
    task_id: str
    dag_sha256: str
    seq: int
    command_id: str


class Version(NamedTuple):
    plan_id: str
    task_id: str
    output_name: str
    seq: int
    key: str | None
    files: frozenset[tuple[str, str]]


def dead(*codes: str) -> Verdict:
    return Verdict("dead", codes=frozenset(codes))


@dataclass
class Plan:
    """A plan as its files say."""

    sha256: str
    nodes: dict[str, dict[str, Any]]
    rules: list[dict[str, Any]]


@dataclass
class Oracle:
    """Says what becomes of every file, from what was accepted so far."""

    root: Path
    flawed: dict[str, str] = field(default_factory=dict)
    """Hash of a file that is well-formed and yet no valid document → the code."""
    accepted: dict[tuple[str, str], str] = field(default_factory=dict)
    orders: list[OrderKey] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    acks: dict[tuple[str, str, str], tuple[str, str]] = field(default_factory=dict)
    """Plan, message and consumer → hash and status of the receipt."""
    standing: set[Lying] = field(default_factory=set)
    """Receipts that were taken and stay where they lie. A router reads them once, and once more when it has started."""
    sent: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)

    def plan(self, plan_id: str) -> Plan | None:
        """The plan in force; None when there is none, or its pointer disagrees."""
        folder = self.root / "system_runtime" / "plans" / plan_id
        try:
            data = (folder / "task_dag.json").read_bytes()
            pointer = json.loads((folder / "active_dag_ref.json").read_bytes())
        except FileNotFoundError:
            return None
        if pointer["task_dag_sha256"] != sha256(data):
            return None
        document = json.loads(data)
        nodes = {each["task_id"]: each for each in document["nodes"]}
        return Plan(sha256(data), nodes, document.get("routing_rules", []))

    def in_order(self, files: Sequence[Lying]) -> list[Lying]:
        """Of each task the newest command first, whatever the order of the files; then the rest."""
        commands: dict[str, list[tuple[int, str, Lying]]] = {}
        rest = []
        for each in files:
            document = strict(each.data)
            if isinstance(document, str) or self._misread(each, document) or document["type"] != "command":
                rest.append(each)
            else:
                seq = document["payload"]["command"]["command_seq"]
                commands.setdefault(document["task_id"], []).append((-seq, document["message_id"], each))
        ordered = [each[2] for task in commands.values() for each in sorted(task, key=lambda one: one[:2])]
        return ordered + rest

    def _misread(self, lying: Lying, document: dict[str, Any]) -> str | None:
        """Why it is refused before anybody looks at the plan."""
        if lying.sha256 in self.flawed:
            return self.flawed[lying.sha256]
        if document["producer_agent_id"] != lying.agent_id:
            return "PRODUCER_MISMATCH"
        return "PLAN_MISMATCH" if document["plan_id"] != lying.plan_id else None

    def judge(self, lying: Lying, plan: Plan, kept: frozenset[str] = frozenset()) -> Verdict:
        """What must become of a message. `kept`: contents that need no file, because the store has them."""
        document = strict(lying.data)
        if isinstance(document, str):
            return dead(document)
        misread = self._misread(lying, document)
        if misread:
            return dead(misread)
        earlier = self.accepted.get((lying.plan_id, document["message_id"]))
        if earlier is not None:
            same = earlier == lying.sha256
            return Verdict("duplicate") if same else dead("MESSAGE_ID_REUSED_WITH_DIFFERENT_PAYLOAD")
        there = plan.nodes.get(document["task_id"])
        if document["type"] == "command":
            return self._judge_command(lying, document["payload"]["command"], there, plan)
        return self._judge_artifact(lying, document, there, plan, kept)

    def _judge_command(
        self, lying: Lying, command: dict[str, Any], there: dict[str, Any] | None, plan: Plan
    ) -> Verdict:
        task_id, seq, command_id = command["task_id"], command["command_seq"], command["command_id"]
        codes = set()
        if there is None:
            codes.add("TASK_NOT_IN_DAG")
        elif there["assigned_agent_id"] == lying.agent_id:
            codes.add("COMMAND_NOT_AUTHORISED")
        if command["dag_ref"]["sha256"] != plan.sha256:
            codes.add("COMMAND_DAG_MISMATCH")
        if there is None or codes:
            return dead(*codes)
        if any((each.plan_id, each.command_id) == (lying.plan_id, command_id) for each in self.orders):
            return dead("COMMAND_ID_REUSED")
        peers = [each.seq for each in self.orders if each[:3] == (lying.plan_id, task_id, plan.sha256)]
        if max(peers, default=0) > seq:
            return Verdict("superseded")
        return Verdict("accepted", frozenset({there["assigned_agent_id"]}))

    def _judge_artifact(
        self, lying: Lying, document: dict[str, Any], there: dict[str, Any] | None, plan: Plan, kept: frozenset[str]
    ) -> Verdict:
        codes = {code for each in document["payload"]["files"] for code in self._file_codes(lying, each) if code}
        if {each["sha256"] for each in document["payload"]["files"]} <= kept:
            codes = set()
        if there is None:
            return dead("TASK_NOT_IN_DAG", *codes)
        if there["assigned_agent_id"] != lying.agent_id:  # only who works on a task hands its outputs in
            codes.add("PRODUCER_MISMATCH")
        declared = next((each for each in there.get("outputs", []) if each["name"] == document["output_name"]), None)
        targets: list[str] = (declared or {}).get("deliver_to") or next(
            (each["deliver_to"] for each in plan.rules if each["match"]["output_name"] == document["output_name"]), []
        )
        if not targets and not (declared or {}).get("deliverable"):
            codes.add("ROUTING_NO_TARGET")
        if any(not (self.root / "agents" / each).is_dir() for each in targets):
            codes.add("TARGET_AGENT_NOT_FOUND")
        if codes:
            return dead(*codes)
        mode = declared.get("versioning", {}).get("mode", "reject_on_change") if declared else FREE["mode"]
        return self._judge_version(document, mode, frozenset(targets))

    def _file_codes(self, lying: Lying, file: dict[str, Any]) -> Iterator[str]:
        path = file["path"]
        if any(part.startswith(".") for part in path.split("/")) or path.endswith(".msg.json"):
            yield "PATH_OUTSIDE_FOLDER"
            return
        box = self.root / "agents" / lying.agent_id / "outbox" / lying.plan_id
        where = next((each for each in (box / path, box / ".sent" / path) if each.exists()), None)
        if where is None:
            yield "MISSING_PAYLOAD"
        elif where.stat().st_size > LIMITS.payload_bytes:
            yield "FILE_TOO_LARGE"
        elif sha256(where.read_bytes()) != file["sha256"]:
            yield "PAYLOAD_HASH_MISMATCH"

    def _judge_version(self, document: dict[str, Any], mode: str, targets: frozenset[str]) -> Verdict:
        new = version_of(document)
        same = [each for each in self.versions if each[:3] == new[:3]]
        peers = [each for each in same if each.seq != new.seq or each.key == new.key]
        newest = max((each.seq for each in peers), default=-1)
        if newest > new.seq:
            return Verdict("superseded")
        peers = [each for each in peers if each.seq == new.seq]
        if mode != FREE["mode"] and peers:
            if peers[-1].files == new.files:
                return Verdict("duplicate")
            if mode == "reject_on_change":
                return dead("OUTPUT_VERSION_CONFLICT")
        return Verdict("accepted", targets)

    def note(self, lying: Lying, verdict: Verdict, plan: Plan, *, again: bool = False) -> None:
        """Remember what became of a message. One that is judged again was counted before."""
        self.sent[lying.plan_id] += not again
        self.duplicates[lying.plan_id] += verdict.fate == "duplicate"
        if verdict.fate in {"accepted", "superseded"}:
            document = json.loads(lying.data)
            self.take(document, lying.sha256, plan.sha256, counts=verdict.fate == "accepted")

    def take(self, document: dict[str, Any], digest: str, dag_sha256: str, *, counts: bool = True) -> None:
        """A message is in the store from now on; `counts`: later versions are compared with it."""
        self.accepted[document["plan_id"], document["message_id"]] = digest
        if document["type"] == "command":
            command = document["payload"]["command"]
            key = OrderKey(
                document["plan_id"], command["task_id"], dag_sha256, command["command_seq"], command["command_id"]
            )
            self.orders.append(key)
        elif counts:
            self.versions.append(version_of(document))

    def control(self, lying: Lying, books: Books) -> frozenset[str | None]:
        """With which codes a control file may be refused; None among them when it may be taken."""
        document = strict(lying.data)
        if isinstance(document, str):
            return frozenset({document})
        if lying.sha256 in self.flawed:
            return frozenset({self.flawed[lying.sha256]})
        author = document.get("consumer_agent_id") or document.get("agent_id") or GATEWAY
        if author != lying.agent_id:
            return frozenset({"PRODUCER_MISMATCH"})
        if document.get("plan_id", lying.plan_id) != lying.plan_id:
            return frozenset({"PLAN_MISMATCH"})
        if lying.name.startswith("human_intervention_response_"):
            is_open = books.requests.get(document["request_id"]) == "open"
            return frozenset({None if is_open else "ANSWER_REFUSED"})
        if not lying.name.startswith("ack_"):
            return frozenset({None})
        codes = self._receipt(lying, document) | ({None} if lying in self.standing else set())
        self.standing |= {lying} if None in codes else set()
        return codes

    def _receipt(self, lying: Lying, document: dict[str, Any]) -> frozenset[str | None]:
        key = (lying.plan_id, document["message_id"], lying.agent_id)
        digest, status = self.acks.get(key, ("", ""))
        if digest == lying.sha256:
            return frozenset({None})
        if not digest or (status == "CONSUMED" and document["status"] != "CONSUMED"):
            self.acks[key] = (lying.sha256, document["status"])
            return frozenset({None})
        return frozenset({"CONTROL_CHANGED", *({None} if status == document["status"] else ())})


def version_of(document: dict[str, Any]) -> Version:
    command_id = document.get("command_id")
    files = frozenset((each["path"], each["sha256"]) for each in document["payload"]["files"])
    seq = int(command_id.rpartition("_")[2]) if command_id else 0
    where = (document["plan_id"], document["task_id"], document["output_name"])
    return Version(*where, seq, document.get("idempotency_key"), files)


# Making messages.


def command(
    sender: str, plan_id: str, task_id: str, seq: int, message_id: str, dag: str, **fields: Any
) -> dict[str, Any]:
    command_id = f"cmd_{task_id}_{seq:03d}"
    return {
        "schema_version": "1.0",
        "message_id": message_id,
        "plan_id": plan_id,
        "producer_agent_id": sender,
        "type": "command",
        "created_at": "2026-01-08T10:30:00Z",
        "task_id": task_id,
        "command_id": command_id,
        "payload": {
            "command": {
                "schema_version": "1.0",
                "plan_id": plan_id,
                "task_id": task_id,
                "command_id": command_id,
                "command_seq": seq,
                "dag_ref": {"sha256": dag},
                "prompt": f"Do {task_id}.",
                "required_inputs": [],
                "wait_for_inputs": False,
                "score_required": False,
                "timeout": 60,
                **fields,
            }
        },
    }


def artifact(
    sender: str, task_id: str, name: str, seq: int, message_id: str, files: dict[str, str], key: str | None
) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "message_id": message_id,
        "plan_id": SHOP,
        "producer_agent_id": sender,
        "type": "artifact",
        "created_at": "2026-01-08T10:30:00Z",
        "task_id": task_id,
        "output_name": name,
        "payload": {"files": [{"path": path, "sha256": digest} for path, digest in files.items()]},
        **({"command_id": f"cmd_{task_id}_{seq:03d}"} if seq else {}),
        **({"idempotency_key": key} if key else {}),
    }


def flawed(document: dict[str, Any], flaw: str) -> dict[str, Any]:
    """A document that is well-formed and not what it should be."""
    if flaw == "schema":
        return {key: value for key, value in document.items() if key != "task_id"}
    return {**document, **({"schema_version": "9.0"} if flaw == "version" else {"type": "gossip"})}


Damage = Literal["cut", "bit", "text", "utf8", "deep", "huge", "nan", "twice", "empty", "list"]


def damaged(data: bytes, how: Damage, place: int) -> bytes:
    """The bytes of a message after something happened to them."""
    place %= len(data)
    match how:
        case "cut":
            return data[:place]
        case "bit":
            return data[:place] + bytes([data[place] ^ 0x80]) + data[place + 1 :]
        case "text":
            return data.replace(b"2026-01-08T10:30:00Z", b"2026-01-08T10:30:01Z", 1)
        case "utf8":
            return data[:place] + b"\xff\xfe" + data[place:]
        case "deep":
            return b'{"a":' * 3000 + b"1" + b"}" * 3000
        case "huge":
            return data + b" " * MIB
        case "nan":
            return data[:-2] + b', "extra": NaN\n}'
        case "twice":
            return b'{"type": "command", ' + data.lstrip(b"{\n ")
        case "empty":
            return b""
        case "list":
            return b"[" + data + b"]"


# The world.


def shelf() -> Path:
    """Where trees are kept: in memory where there is room for them."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="agenttalk-", dir=memory if os.access(memory, os.W_OK) else None))


Look = dict[str, tuple[int, int, int]]


def look(folder: Path) -> Look:
    """Every file below a folder but the databases, with what tells it from another."""
    found: Look = {}
    skipped, start = str(folder / "root" / "data"), len(str(folder)) + 1
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting += [entry.path] if entry.path != skipped else []
                else:
                    mark = entry.stat(follow_symlinks=False)
                    found[entry.path[start:]] = (mark.st_ino, mark.st_mtime_ns, mark.st_size)
    return found


def changed(before: Look, after: Look) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


class World:
    """A root with its parts at work, on one event loop."""

    def __init__(self) -> None:
        self.place = shelf()
        self.root = self.place / "root"
        self.tree = Tree(self.root)
        self.clock = Clock()
        self.ids = Numbers()
        self.names = Numbers()
        self.programs = Programs()
        self.player = Player(self.programs)
        self.loop = asyncio.new_event_loop()
        self._prepare()
        self.open()

    def _prepare(self) -> None:
        (self.place / "beside").mkdir()
        (self.place / "beside" / "canary.txt").write_text("alive", encoding="utf-8")
        for agent_id in DRIVEN:
            self.tree.agent(agent_id, driver="script", argv=["true"])
        for agent_id in ("lead", "qa", GATEWAY):
            self.tree.agent(agent_id)
        self.put_dag(SHOP, DAGS[0])
        self.put_dag(SIDE, SIDE_DAG)

    def put_dag(self, plan_id: str, nodes: list[dict[str, Any]], *, pointer: bool = True) -> None:
        """A plan's files, the pointer last; without it, the old one stays and disagrees."""
        data = dumped({"schema_version": "1.1", "plan_id": plan_id, "nodes": nodes, "routing_rules": RULES})
        self.tree.dags[plan_id] = sha256(data)
        reference = {"schema_version": "1.0", "plan_id": plan_id, "dag_kind": "business"}
        files = {"task_dag.json": data}
        if pointer:
            files["active_dag_ref.json"] = dumped({**reference, "task_dag_sha256": sha256(data)})
        folder = self.tree.plan_folder(plan_id)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (folder / ".writing").write_bytes(content)
            (folder / ".writing").rename(folder / name)

    def run(self, work: Awaitable[T]) -> T:
        async def go() -> T:
            return await work

        return self.loop.run_until_complete(go())

    def open(self) -> None:
        self._opened: AbstractAsyncContextManager[Deps] = open_root(
            self.root, clock=self.clock, ids=self.ids, limits=LIMITS, answers_by_file=True
        )
        self.deps = self.run(self._opened.__aenter__())
        self.player.deps = self.deps
        self.router = Router(self.deps)
        self.beats = {each: Heartbeat(self.deps, each, self.player, self.programs) for each in DRIVEN}

    def close(self, *, killed: bool = False) -> None:
        """Stop in good order; or leave everything lying, as a kill does: only what is committed stays."""

        async def end() -> None:
            if killed:
                self.programs.die(set(self.player.running.values()))
                turns = asyncio.all_tasks() - {asyncio.current_task()}
                for turn in turns:
                    turn.cancel()
                await asyncio.gather(*turns, return_exceptions=True)
                self.deps.held_leases.clear()  # the memory of a process dies with it
            else:
                for beat in self.beats.values():
                    await beat.close()
            await self._opened.__aexit__(None, None, None)

        self.run(end())

    def remove(self) -> None:
        self.close()
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.place)

    def books(self) -> Books:
        return read_books(self.root / "data" / "projects" / "default" / "blackboard.db")

    def look(self) -> Look:
        return look(self.place)

    def pass_(self) -> RouterReport:
        return self.run(self.router.pass_())

    def tick(self, agent_id: str, mode: Mode = "good") -> TickReport:
        """One look of an agent, and the turn that it began until its end, unless its program holds."""
        self.player.mode = mode
        self.player.held.clear()

        async def go() -> TickReport:
            before = asyncio.all_tasks()
            tick = await self.beats[agent_id].tick()
            turns = asyncio.all_tasks() - before
            if turns:
                holding = asyncio.create_task(self.player.held.wait())
                await asyncio.wait({*turns, holding}, return_when=asyncio.FIRST_COMPLETED)
                holding.cancel()
            return tick

        return self.run(go())

    def let_go(self) -> None:
        """Programs that hold go on to their end."""

        async def go() -> None:
            self.player.free.set()
            turns = asyncio.all_tasks() - {asyncio.current_task()}
            if turns:
                await asyncio.wait(turns)
            self.player.free.clear()

        self.run(go())

    def put(self, agent_id: str, name: str, data: bytes, plan_id: str = SHOP) -> str:
        """A file in an outbox, never over another that still lies there; the name that it got."""
        if (self.tree.box(agent_id, "outbox", plan_id) / name).exists():
            stem, dot, rest = name.partition(".")
            name = f"{stem}_{self.names.new('n')}{dot}{rest}"
        self.tree.put(agent_id, name, data, plan_id=plan_id)
        return name

    def inbox(self, agent_id: str, plan_id: str = SHOP) -> dict[str, bytes]:
        """The messages that lie unclaimed in an inbox."""
        box = self.tree.box(agent_id, "inbox", plan_id)
        found = sorted(box.glob("*.msg.json")) if box.is_dir() else []
        return {path.name: path.read_bytes() for path in found if not path.name.startswith(".")}

    def put_away(self, which: Literal[".sent", ".rejected"]) -> Counter[tuple[str, str, str]]:
        """The messages that left outboxes: agent, plan and hash."""
        found: Counter[tuple[str, str, str]] = Counter()
        for path in (self.root / "agents").glob(f"*/outbox/*/{which}/*.msg.json*"):
            if not path.name.endswith(".reason.json"):
                digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
                found[path.parts[-5], path.parts[-3], digest] += 1
        return found
