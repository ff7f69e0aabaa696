"""A small world for agents that would rather be called done: a real engine, and programs played step by step.

Nothing here asks the engine whether a promise is kept. `kept` looks at what lies in the plan's branch and in the store.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.store import audit
from agenttalk.doors.api.app import create_app
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.core import access
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.engine.operation import fsck
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people.human_driver import HumanAgents
from agenttalk.engine.plans import submission
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from agenttalk.ports.statements.proof import TIP
from agenttalk.wiring import open_root
from kits.agentkit import Clock
from kits.machinekit import Numbers, read_blobs
from kits.machinekit import Programs as Lives
from kits.plankit import PATIENCE, plan, proved, task
from kits.treekit import Tree

T = TypeVar("T")
PLAN = "p"
OPERATOR, VIEWER = "op_secret", "view_secret"
HEADING = "# Prices"
QUESTION = "May the deal be made?"
COFFEE = "May I have a coffee?"
CHECK = 'test "$(cat price.txt)" = "price = 3"\n'
"""What the check of `fix` runs. The file is protected."""
AGENTS = {"write": "pen", "fix": "dev", "sum": "adder", "grade": "judge", "sign": "clerk", "hand": "hal"}
OUTPUTS = {"write": "report.md", "sum": "sum.json", "sign": "deal.txt", "hand": "note.txt"}


def promised(*checks: dict[str, Any]) -> dict[str, Any]:
    """A promise that needs every check to pass."""
    named = [each["id"] for each in checks]
    criteria = [{"id": f"shown-{name}", "description": name, "evidenceRequired": [name]} for name in named]
    return {"objective": "It is good", "acceptance": criteria, "requiredEvidence": named, "checks": list(checks)}


def tasks() -> list[dict[str, Any]]:
    """One task of each kind of promise: a file, a tree, a media type, a score, a person's word, a folder's agent."""
    patient = {"retry_times": 50, "max_reexecute_times": 50}
    says = {"id": "says", "kind": "file", "path": "report.md", "contains": HEADING}
    runs = {"id": "runs", "kind": "run", "run": "sh check.sh", "protected": ["check.sh"], "red_first": "off"}
    asks = {"id": "asks", "kind": "human", "question": QUESTION}
    there = {"id": "there", "kind": "file", "path": "deal.txt", "contains": "deal"}
    scored = {"score_required": True, "gates": {"thresholds": {"grade_min_score": 80}}}
    keys: dict[str, dict[str, Any]] = {
        "write": {
            "outputs": [{"name": "report.md", "deliver_to": ["adder"], "deliverable": True}],
            "promise": promised(says),
        },
        "fix": {"workspace": "repo", "promise": promised(runs)},
        "sum": {
            "outputs": [{"name": "sum.json", "content_type": "application/json", "deliverable": True}],
            "needs": ["write"],
        },
        "grade": scored,
        "sign": {"outputs": [{"name": "deal.txt", "deliverable": True}], "promise": promised(there, asks)},
        "hand": {"outputs": [{"name": "note.txt", "deliverable": True}]},
    }
    return [task(name, AGENTS[name], **patient, **more) for name, more in keys.items()]


@dataclass
class Program:
    """A program that was started. Whether it lives or not, it goes on writing where it may."""

    turn: ProgramTurn
    ended: asyncio.Future[TurnEnd]
    said: Any = None
    """The last result that it wrote."""

    @property
    def task_id(self) -> str:
        return self.turn.env["AGENTTALK_TASK_ID"]

    @property
    def token(self) -> str:
        return self.turn.env["AGENTTALK_TOKEN"]

    def folder(self, name: str) -> Path:
        return Path(self.turn.env[name])


@dataclass
class Played:
    """A driver whose programs do what they are told from outside."""

    seen: list[Program] = field(default_factory=list)
    running: dict[str, Program] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    news: Callable[[], None] = lambda: None

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        program = Program(turn, asyncio.get_running_loop().create_future())
        if program.task_id in self.running:
            self.faults.append(f"{program.task_id} runs twice")
        self.seen.append(program)
        self.running[program.task_id] = program
        self.news()
        try:
            return await program.ended
        finally:
            if self.running.get(program.task_id) is program:
                del self.running[program.task_id]


class Row(NamedTuple):
    """A task, as the store has it."""

    task_id: str
    agent_id: str
    state: str
    phase: str | None
    unmet: int | None
    epoch: int
    lease: str | None
    request_id: str | None
    fields: tuple[Any, ...]
    """All of it."""


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


_TEMPLATE: list[Path] = []


def repository(folder: Path) -> None:
    """A repository in which the price is wrong and a check says so. It is made once, and copied."""
    if not _TEMPLATE or not _TEMPLATE[0].exists():
        made = Path(tempfile.mkdtemp(prefix="hostile-template-"))
        (made / "price.txt").write_text("price = 1\n")
        (made / "check.sh").write_text(CHECK)
        for args in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "begin")):
            git(made, *args)
        _TEMPLATE[:] = [made]
    shutil.copytree(_TEMPLATE[0], folder)


def git(folder: Path, *args: str) -> str:
    command = ["git", "-c", "user.name=ada", "-c", "user.email=ada@example.org", *args]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


class World:
    """An engine on a root of its own, with one plan, and people who press buttons."""

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="hostile-"))
        self.root = self.place / "root"
        for name in ("agents", "system_runtime"):
            (self.root / name).mkdir(parents=True)
        self.repo = self.place / "repo"
        repository(self.repo)
        self.tree = Tree(self.root, PLAN)
        self.clock = Clock()
        self.ids = Numbers()
        self.lives = Lives()
        self.played = Played()
        self.approved: list[Any] = []
        """The questions that a person said yes to, as they were shown."""
        self.loop = asyncio.new_event_loop()
        self.open(first=True)

    # The engine.

    def run(self, work: Awaitable[T]) -> T:
        async def go() -> T:
            return await asyncio.wait_for(work, 4 * PATIENCE)

        return self.loop.run_until_complete(go())

    def open(self, *, first: bool = False) -> None:
        self._opened: AbstractAsyncContextManager[Deps] = open_root(self.root, clock=self.clock, ids=self.ids)
        self.run(self._open(first=first))

    async def _open(self, *, first: bool) -> None:
        self.deps = await self._opened.__aenter__()
        self.router = Router(self.deps)
        self.dispatcher = Dispatcher(
            self.deps,
            {"script": ProgramAgents(self.deps, self.played), "human": HumanAgents(self.deps)},
            self.lives,
            prover=proved(self.root, self.deps, ScriptDriver(LocalProcesses(), grace=0.3)),
        )
        service = Service(self.deps, dispatcher=self.dispatcher, passes={"route": self._pass})
        self.app = create_app(service)
        if first:
            await access.admit(self.deps, OPERATOR, "operator", "ada")
            await access.admit(self.deps, VIEWER, "viewer", "eve")
            script = {"driver": "script", "argv": ["true"]}
            agents = dict.fromkeys(AGENTS.values(), script) | {"hal": {"driver": "folder"}}
            compiled = plan(*tasks(), plan_id=PLAN, agents=agents, workspace={"repo": str(self.repo)})
            await submission.submit(self.deps, compiled.dag, compiled.manifest, compiled.profiles)
        await self.dispatcher._recovery.recover()
        await self._settle()

    async def _pass(self, _: str | None) -> RouterReport:
        return await self.router.pass_()

    def close(self, *, killed: bool = False) -> None:
        """Stop in good order; or die, so that only what is committed stays."""

        async def end() -> None:
            if killed:
                self.lives.die({each.turn.lease for each in self.played.running.values()})
                turns = asyncio.all_tasks() - {asyncio.current_task()}
                for turn in turns:
                    turn.cancel()
                await asyncio.gather(*turns, return_exceptions=True)
            else:
                await self.dispatcher.close()
            await self._opened.__aexit__(None, None, None)

        self.loop.run_until_complete(end())
        self.played.running.clear()

    def remove(self) -> None:
        self.close()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.place)

    def settle(self) -> None:
        """Let the engine do all that it can do without anybody's help."""
        self.run(self._settle())

    async def _settle(self) -> None:
        with self.dispatcher.subscribe_changes() as news:
            self.played.news = news.set
            async with asyncio.timeout(PATIENCE):
                while True:
                    news.clear()
                    while await self.dispatcher.dispatch_ready():
                        pass
                    if self._at_rest():
                        return
                    with suppress(TimeoutError):  # an answer is looked for now and then
                        await asyncio.wait_for(news.wait(), 0.5)

    def _at_rest(self) -> bool:
        asked = {row[0] for row in self.query("SELECT task_id FROM requests WHERE state = 'open'")}

        def rests(row: Row) -> bool:
            if row.state == "RUNNING" and row.lease is not None:
                return row.task_id in self.played.running or (row.phase == "asking" and row.task_id in asked)
            return row.task_id == "hand" or (
                row.state not in {"READY", "RUNNING"} and (row.state, row.unmet) != ("PENDING", 0)
            )

        return all(rests(row) for row in self.rows().values())

    def route(self) -> None:
        self.run(self.router.pass_())
        self.settle()

    # Doors.

    def ask(self, method: str, path: str, token: str, body: Any = None, *, key: str | None = None) -> Answer:
        """A request to the engine's API."""
        return self.run(self._ask(method, path, token, b"" if body is None else json.dumps(body).encode(), key))

    async def _ask(self, method: str, path: str, token: str, body: bytes, key: str | None) -> Answer:
        headers = [(b"host", b"agenttalk"), (b"authorization", f"Bearer {token}".encode())]
        headers += [(b"idempotency-key", key.encode())] if key is not None else []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        said: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            said.append(dict(message))

        await self.app(scope, receive, send)
        return Answer(said[0]["status"], b"".join(each.get("body", b"") for each in said[1:]))

    def put(self, agent_id: str, name: str, document: Any) -> None:
        """A file in an agent's outbox."""
        self.tree.put(agent_id, name, document)

    # What there is.

    def query(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        database = self.root / "data" / "projects" / "default" / "blackboard.db"
        with closing(apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            return connection.execute(sql, params).fetchall()

    def rows(self) -> dict[str, Row]:
        names = "task_id, agent_id, state, phase, unmet, epoch, lease, request_id"
        found = self.query(f"SELECT {names}, * FROM tasks WHERE plan_id = ?", PLAN)
        return {row[0]: Row._make((*row[:8], row[8:])) for row in found}

    def delivered(self, task_id: str, output: str) -> bytes | None:
        """The newest content of an output that was handed on and not taken back."""
        rows = self.query(
            "SELECT envelope FROM messages WHERE plan_id = ? AND type = 'artifact' AND task_id = ? AND output_name = ?"
            " AND producer = ? AND state <> 'superseded' ORDER BY seq, id",
            *(PLAN, task_id, output, AGENTS[task_id]),
        )
        if not rows:
            return None
        files = json.loads(rows[-1][0])["payload"]["files"]
        return read_blobs(self.root, {files[0]["sha256"]}).get(files[0]["sha256"]) if len(files) == 1 else None

    def merged(self, path: str) -> str:
        """A file as it is in the plan's branch, which follows the tip that the store has."""

        async def followed() -> None:
            rows = await (await board_of(self.deps, PLAN)).read(TIP, plan_id=PLAN)
            async with asyncio.timeout(PATIENCE):
                while rows and git(self.repo, "rev-parse", f"agenttalk/{PLAN}").strip() != rows[0].commit_id:  # noqa: ASYNC110 - git announces nothing
                    await asyncio.sleep(0.01)

        self.run(followed())
        return git(self.repo, "show", f"agenttalk/{PLAN}:{path}")

    def sound(self) -> None:
        """The books are in order, and nobody rewrote them."""
        assert self.run(fsck.check_root(self.deps)) == []
        assert all(report.verdict.intact for report in audit.verify(self.root))
        assert self.played.faults == []


def _json(data: bytes | None) -> bool:
    try:
        json.loads(data or b"")
    except ValueError:
        return False
    return True


def kept(world: World, task_id: str) -> bool:
    """Whether the promise of a task is kept by what is really there."""
    match task_id:
        case "write":
            return HEADING.encode() in (world.delivered("write", "report.md") or b"")
        case "fix":
            return world.merged("price.txt").strip() == "price = 3" and world.merged("check.sh") == CHECK
        case "sum":
            return _json(world.delivered("sum", "sum.json"))
        case "grade":
            score = _last_word(world, "grade").get("score")
            return isinstance(score, int | float) and not isinstance(score, bool) and 80 <= score <= 100
        case "sign":
            asked = [
                each for each in world.approved if each["title"] == QUESTION and each["created_by"]["task_id"] == "sign"
            ]
            return bool(asked) and b"deal" in (world.delivered("sign", "deal.txt") or b"")
        case _:
            return world.delivered("hand", "note.txt") is not None


def _last_word(world: World, task_id: str) -> dict[str, Any]:
    ended = [each for each in world.played.seen if each.task_id == task_id and each.ended.done()]
    said = ended[-1].said if ended else None
    return said if isinstance(said, dict) else {}
