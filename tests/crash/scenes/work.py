"""Agents at work: inputs kept, commands that wait, run, fail and are retried, and people who answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.people import questions
from agenttalk.ports.agents import ProcessIdentity, ProgramTurn, TurnEnd
from crash.life import Life, Scenario, Step, beat, by_hand, route
from crash.snapshot import LOG
from kits.treekit import Tree, node, output

PROGRAM = f"""
echo "$AGENTTALK_PLAN_ID/$AGENTTALK_COMMAND_ID $AGENTTALK_ATTEMPT" >> "${{0%/*}}/../../{LOG}"
[ "$AGENTTALK_TASK_ID" = break ] && exit 3
cat /dev/null "$AGENTTALK_INPUTS"/*/* 2>/dev/null > "$AGENTTALK_OUTPUTS/app.txt"
echo '{{"result": "fine", "score": 90}}' > "$AGENTTALK_RESULT"
"""
"""Notes that it began, fails if that is its task, and else hands over what it was given, with a score."""


def _workshop(tree: Tree) -> None:
    nodes = [
        node("design", "pm", outputs=[output("design.md", "dev")]),
        node("build", "dev", depends_on=["design"], outputs=[output("app.txt", "tester", deliverable=True)]),
        node("break", "dev"),
        node("test", "tester"),
    ]
    tree.dag(nodes)
    tree.agent("lead")
    folder = tree.agent("dev", driver="script", argv=["/bin/sh", "work.sh"])
    (folder / "work.sh").write_text(PROGRAM, encoding="utf-8")


def _build(tree: Tree, *inputs: str) -> None:
    wanted: dict[str, Any] = {"required_inputs": list(inputs), "wait_for_inputs": True, "timeout": 100}
    produces = [{"output_name": "app.txt", "files": []}]
    tree.command(
        "lead",
        "build",
        message_id="msg_build",
        score_required=True,
        score_criteria="0-100",
        produces=produces,
        **wanted,
    )


def _design(tree: Tree) -> None:
    tree.artifact("pm", "design", "design.md", {"d/design.md": b"Blue."}, message_id="msg_design", seq=1)


async def _answer(life: Life) -> None:
    """Somebody who died with the process asks whether his answer is there, and gives it again if it is not."""
    for request in await questions.list_open(life.deps):
        await questions.answer(
            life.deps, request.request_id, by="ann", decision="PROVIDE", files={"brief.md": b"Be brief."}, notes="hurry"
        )


WAITS = Scenario(
    "waits",
    _workshop,
    (
        by_hand(lambda tree: _build(tree, "design.md", "brief.md")),
        route(),
        beat("dev"),
        by_hand(_design, seconds=60),
        route(seconds=60),
        beat("dev", seconds=101),
    ),
    agents=("dev",),
)
"""A command waits for two inputs. One comes and is kept, and people are asked for the other."""
WORK = replace(
    WAITS,
    name="work",
    before=WAITS.steps,
    steps=(Step(_answer, seconds=120), route(seconds=120), beat("dev", seconds=120)),
)
"""They answer, the command runs, and what it made is handed over."""
FAILS = Scenario(
    "fails",
    _workshop,
    (
        by_hand(lambda tree: tree.command("lead", "break", message_id="msg_break", retry_times=1)),
        route(),
        beat("dev"),
    ),
    agents=("dev",),
)
"""A program fails, is tried once more, and fails again."""


class Played:
    """A driver that is told what to do."""

    def __init__(self, play: Callable[[ProgramTurn], Awaitable[None]]) -> None:
        self._play = play

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        await self._play(turn)
        return TurnEnd("finished", 0, b'{"result": 1, "score": 90}', b"", 0.0)


class Elsewhere:
    """Another machine, which takes everybody else for dead."""

    def me(self) -> ProcessIdentity:
        return ProcessIdentity("elsewhere", 1, 1)

    def alive(self, owner: ProcessIdentity) -> bool:
        return owner == self.me()

    async def end(self, lease: str) -> int:  # noqa: ARG002 - as the port has it
        return 0


async def _stall(life: Life) -> None:
    """A turn stalls, its task is given to somebody else, and then it ends as if nothing had happened."""
    given, late = asyncio.Event(), asyncio.Event()

    def make(turn: ProgramTurn, text: str) -> None:
        attempt = f"{turn.env['AGENTTALK_PLAN_ID']}/{turn.env['AGENTTALK_COMMAND_ID']} {turn.env['AGENTTALK_ATTEMPT']}"
        with (life.tree.root / LOG).open("a", encoding="utf-8") as log:
            log.write(f"{attempt}\n")
        (Path(turn.env["AGENTTALK_OUTPUTS"]) / "app.txt").write_text(text, encoding="utf-8")

    async def stall(turn: ProgramTurn) -> None:
        make(turn, "stale")
        life.deps.held_leases.clear()  # another machine does not know of them
        await second.start()
        await second.tick()
        await given.wait()

    async def overtake(turn: ProgramTurn) -> None:
        make(turn, "fresh")
        given.set()
        await late.wait()

    first = Heartbeat(life.deps, "dev", Played(stall), LocalProcesses())
    second = Heartbeat(life.deps, "dev", Played(overtake), Elsewhere())
    await first.run_once()
    late.set()
    await second.run_once()


STALLED = Scenario(
    "stalled",
    _workshop,
    (Step(_stall), route()),
    agents=("dev",),
    before=(by_hand(_build), route()),
    again=1,
)
"""A turn goes on although its task was given to somebody else; whoever comes after a death stalls once more."""


def _team(tree: Tree) -> None:
    nodes = [
        node("build", "dev", outputs=[output("app.txt", "tester")]),
        node("test", "tester", depends_on=["build"], outputs=[output("app.txt", deliverable=True)]),
    ]
    tree.dag(nodes)
    tree.agent("lead")
    for agent_id in ("dev", "tester"):
        folder = tree.agent(agent_id, driver="script", argv=["/bin/sh", "work.sh"])
        (folder / "work.sh").write_text(PROGRAM, encoding="utf-8")


def _orders(tree: Tree) -> None:
    for task_id, inputs in (("build", []), ("test", ["app.txt"])):
        wanted: dict[str, Any] = {"required_inputs": inputs, "wait_for_inputs": bool(inputs), "timeout": 100}
        wanted["produces"] = [{"output_name": "app.txt", "files": []}]
        tree.command("lead", task_id, message_id=f"msg_{task_id}", **wanted)


TEAM = Scenario(
    "team",
    _team,
    (beat("dev"), route(), beat("tester")),
    agents=("dev", "tester"),
    before=(by_hand(_orders), route()),
)
"""Two agents and the router by turns: what one makes, the other waits for."""
SCENARIOS = (WAITS, WORK, FAILS, STALLED, TEAM)
