"""Another party's router, heartbeats and monitor work with ours on one tree, in every mixture, and every plan ends."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages.router import Router
from agenttalk.engine.operation.monitor import Monitor
from agenttalk.wiring import open_root
from kits.agentkit import Clock
from kits.sandboxkit import PLAIN
from kits.secondparty import heartbeat as their_heartbeat
from kits.secondparty import monitor as their_monitor
from kits.secondparty import router as their_router
from kits.secondparty.heartbeat import Made
from kits.treekit import Tree, dumped, node, output, sha256

Kind = Literal["chain", "rework", "person", "two"]
Side = Literal["ours", "theirs"]
KINDS: tuple[Kind, ...] = ("chain", "rework", "person", "two")
SIDES: tuple[Side, ...] = ("ours", "theirs")
MIXED = [each for each in itertools.product(SIDES, repeat=3) if len(set(each)) > 1]
ROUNDS = 14

PROGRAM = """
import json, os, pathlib, sys
command = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text())
inputs, outputs = (pathlib.Path(os.environ[f"AGENTTALK_{name}"]) for name in ("INPUTS", "OUTPUTS"))
home = pathlib.Path(sys.argv[0]).resolve().parent
with (home / "runs.txt").open("a") as runs:
    runs.write(command["plan_id"] + "/" + command["command_id"] + "\\n")
if command["task_id"] == "make":
    for output in command["produces"]:
        (outputs / output["output_name"]).write_text(f"{output['output_name']} {command['command_seq']}")
else:
    (draft,) = inputs.glob("draft.md/**/draft.md")
    order = home / "order.json"
    if order.exists() and draft.read_text().endswith(" 1"):
        outbox = home / "outbox" / command["plan_id"]
        (outbox / ".order").write_bytes(order.read_bytes())
        (outbox / ".order").rename(outbox / "cmd_reexecute_make_002.msg.json")
        sys.exit("the draft is not good enough")
    (outputs / "report.md").write_text("about " + draft.read_text())
"""


def makes(command: dict[str, Any], _: dict[str, bytes]) -> Made:
    names = [each["output_name"] for each in command["produces"]]
    return Made({name: {name: f"{name} {command['command_seq']}".encode()} for name in names})


@dataclass
class Stage:
    """A tree on which two parties work on one plan."""

    root: Path
    kind: Kind
    router: Side
    maker: Side
    checker: Side
    monitor: Side = "ours"
    in_folders: bool = False
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.tree = Tree(self.root, plan_id="plan_mixed")
        made = ["draft.md", "notes.md"] if self.kind == "two" else ["draft.md"]
        self.tree.dag(
            [
                node("make", "maker", outputs=[output(name, "checker") for name in made]),
                node("check", "checker", depends_on=["make"], outputs=[output("report.md", "lead", deliverable=True)]),
            ]
        )
        for name in ("lead", "agent_human_gateway"):
            self.tree.agent(name)
        self.needs = [*made, *(["brief.md"] if self.kind == "person" else [])]
        self.order("make", 1, made)
        self.order("check", 1, ["report.md"], required_inputs=self.needs, wait_for_inputs=True)
        self.again = {
            "schema_version": "1.0",
            "message_id": "msg_again",
            "plan_id": "plan_mixed",
            "producer_agent_id": "checker",
            "type": "command",
            "created_at": "2026-03-01T12:00:00Z",
            "task_id": "make",
            "command_id": "cmd_make_002",
            "payload": {"command": self.command("make", 2, made, **self.refusal())},
        }
        self.theirs: dict[str, their_heartbeat.Heartbeat] = {}
        for agent_id, side in (("maker", self.maker), ("checker", self.checker)):
            if side == "ours":
                self.tree.agent(agent_id, driver="script", argv=[sys.executable, "work.py"])
                folder = self.root / "agents" / agent_id
                (folder / "work.py").write_text(PROGRAM, encoding="utf-8")
                if self.kind == "rework" and agent_id == "checker":
                    (folder / "order.json").write_bytes(dumped(self.again))
            else:
                work = makes if agent_id == "maker" else self.checks
                beat = their_heartbeat.Heartbeat(self.root, agent_id, work, in_folders=self.in_folders)
                self.theirs[agent_id] = beat
        self.their_router = their_router.Router(self.root)
        self.their_monitor = their_monitor.Monitor(self.root)

    def refusal(self) -> dict[str, Any]:
        issue = {"severity": "HIGH", "category": "CLARITY", "message": "Say more.", "suggestion": "Two pages."}
        result = {"validator": "checker", "score": 30, "reason": "not good enough", "issues": [issue]}
        return {"original_task_id": "make", "original_agent": "maker", "validation_result": result}

    def command(self, task_id: str, seq: int, made: list[str], **more: Any) -> dict[str, Any]:
        return {
            "schema_version": "1.0",
            "plan_id": "plan_mixed",
            "task_id": task_id,
            "command_id": f"cmd_{task_id}_{seq:03d}",
            "command_seq": seq,
            "dag_ref": {"sha256": self.tree.dags["plan_mixed"]},
            "prompt": f"Do {task_id}.",
            "required_inputs": [],
            "wait_for_inputs": False,
            "score_required": False,
            "timeout": 60,
            "produces": [{"output_name": name, "files": [{"path": name}]} for name in made],
            **more,
        }

    def order(self, task_id: str, seq: int, made: list[str], **more: Any) -> None:
        produces = self.command(task_id, seq, made)["produces"]
        self.tree.command("lead", task_id, seq, **{"produces": produces, **more})

    def checks(self, _: dict[str, Any], found: dict[str, bytes]) -> Made:
        draft = next(data for path, data in found.items() if path.endswith("draft.md"))
        if self.kind == "rework" and draft.endswith(b" 1"):
            return Made(orders=(self.again,), ok=False)
        return Made({"report.md": {"report.md": b"about " + draft}})

    # One round

    async def round(self, deps: Deps) -> None:
        await self.route(deps)
        for agent_id, side in (("maker", self.maker), ("checker", self.checker)):
            await self.beat(deps, agent_id, side)
        await self.route(deps)
        self.answer()
        again = list(self.tree.box("lead", "outbox").rglob("cmd_check_002.msg.json"))
        if self.kind == "rework" and self.final("cmd_make_002") == "SUCCEEDED" and not again:
            self.order("check", 2, ["report.md"], required_inputs=self.needs, wait_for_inputs=True)
        await self.look(deps)
        self.clock.forward(45)

    async def route(self, deps: Deps) -> None:
        if self.router == "ours":
            await Router(deps).run_once()
        else:
            self.their_router.step(self.clock.now())

    async def beat(self, deps: Deps, agent_id: str, side: Side) -> None:
        if side == "theirs":
            self.theirs[agent_id].step(self.clock.now())
            return
        processes = LocalProcesses()
        beat = Heartbeat(deps, agent_id, ScriptDriver(processes, grace=0.2), processes)
        tick = await beat.run_once()
        await beat.close()
        assert tick.errors == []

    async def look(self, deps: Deps) -> None:
        if self.monitor == "ours":
            await Monitor(deps).pass_()
        else:
            self.their_monitor.step(self.clock.now())

    def answer(self) -> None:
        """A person reads what lies in the gateway's inbox, and lays the answer into its outbox."""
        inbox = self.tree.box("agent_human_gateway", "inbox")
        for path in inbox.glob("human_intervention_request_*.json"):
            request = json.loads(path.read_bytes())
            brief = b"what is wanted"
            names = [file["name"] for file in request["needed"]["files"]]
            assert names == ["brief.md"]
            name = f"human_intervention_response_{request['request_id']}.json"
            if list(self.tree.box("agent_human_gateway", "outbox").rglob(name)):
                continue
            self.tree.put("agent_human_gateway", "brief.md", brief)
            response = {
                "schema_version": "1.0",
                "request_id": request["request_id"],
                "plan_id": "plan_mixed",
                "responded_at": "2026-03-01T12:10:00Z",
                "decision": "PROVIDE",
                "provided_files": [{"name": "brief.md", "sha256": sha256(brief), "deliver_to_agent_id": "checker"}],
            }
            self.tree.put("agent_human_gateway", name, response)

    # What can be seen

    def play(self) -> None:
        async def go() -> None:
            async with open_root(self.root, clock=self.clock, words=PLAIN, answers_by_file=True) as deps:
                for _ in range(ROUNDS):
                    await self.round(deps)

        asyncio.run(go())

    def final(self, command_id: str) -> str | None:
        """What the receipts of a command say, wherever they lie."""
        task_id = command_id.split("_")[1]
        box = self.tree.box("maker" if task_id == "make" else "checker", "outbox")
        places = (box, box / ".sent", self.tree.plan_folder() / "acks")
        found = [json.loads(path.read_bytes()) for place in places for path in place.glob("ack_*.json")]
        mine = {ack["status"] for ack in found if ack.get("command_id") == command_id}
        return next((status for status in ("SUCCEEDED", "FAILED") if status in mine), None)

    def runs(self) -> list[str]:
        found = [run for beat in self.theirs.values() for run in beat.runs]
        for path in self.root.glob("agents/*/runs.txt"):
            found += path.read_text().split()
        return sorted(run.partition("/")[2] for run in found)

    def refused(self) -> list[str]:
        runtime = self.root / "system_runtime" / "deadletter"
        places = [*runtime.rglob("*.json"), *self.root.glob("agents/*/outbox/*/.rejected/*")]
        places += [each for each in self.root.glob("agents/*/inbox/*/.deadletter/**/*") if each.is_file()]
        return [f"{path.relative_to(self.root)}: {path.read_text()[:300]}" for path in places]

    def states(self) -> dict[str, str]:
        status = json.loads((self.tree.plan_folder() / "plan_status.json").read_bytes())
        return {each["task_id"]: each["state"] for each in status["tasks"]}


EXPECTED: dict[Kind, list[str]] = {
    "chain": ["cmd_check_001", "cmd_make_001"],
    "two": ["cmd_check_001", "cmd_make_001"],
    "person": ["cmd_check_001", "cmd_make_001"],
    "rework": ["cmd_check_001", "cmd_check_002", "cmd_make_001", "cmd_make_002"],
}


def ended(stage: Stage) -> None:
    """The plan is done: no message was refused, no command ran twice, and everybody says so."""
    assert stage.refused() == []
    assert stage.runs() == EXPECTED[stage.kind]
    last = {"make": EXPECTED[stage.kind][-1], "check": [each for each in EXPECTED[stage.kind] if "check" in each][-1]}
    assert {task: stage.final(command) for task, command in last.items()} == dict.fromkeys(last, "SUCCEEDED")
    report = "about draft.md 2" if stage.kind == "rework" else "about draft.md 1"
    brought = stage.tree.box("lead", "inbox").rglob("report.md")
    assert [path.read_text() for path in brought] == [report]
    assert stage.states() == {"make": "COMPLETED", "check": "COMPLETED"}


@pytest.mark.rest_but("ours-theirs-ours-rework-ours", "theirs-ours-ours-person-theirs", "ours-ours-theirs-chain-ours")
@pytest.mark.mends("D1", "D2", "D3", "D4", "D5", "D6", "D10")
@pytest.mark.parametrize("monitor", SIDES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("router", "maker", "checker"), MIXED, ids=str)
def test_a_mixed_plan_ends(tmp_path: Path, router: Side, maker: Side, checker: Side, kind: Kind, monitor: Side) -> None:
    stage = Stage(tmp_path, kind, router, maker, checker, monitor)
    stage.play()
    ended(stage)


@pytest.mark.rest_but("rework")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_of_one_party_ends(tmp_path: Path, side: Side, kind: Kind) -> None:
    stage = Stage(tmp_path, kind, side, side, side, side)
    stage.play()
    ended(stage)


@pytest.mark.rest_but("rework")
@pytest.mark.mends("D3")
@pytest.mark.parametrize("kind", KINDS)
def test_files_in_a_folder_named_like_their_message_are_taken(tmp_path: Path, kind: Kind) -> None:
    stage = Stage(tmp_path, kind, "ours", "theirs", "ours", in_folders=True)
    stage.play()
    ended(stage)
