"""The scenes of the demo in which messages travel: real folders, real programs, a real kill -9."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.mailbox import fsio, root_reader
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import AgentId, MessageId
from agenttalk.doors.cli.core.output import CommandOutput, sanitize
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.engine.messages import dead_letters
from agenttalk.engine.messages.router import RouterReport
from agenttalk.engine.operation import fsck
from agenttalk.rules.commands import envelopes, generation
from agenttalk.wiring import SystemClock, open_root, parts

PLAN: Final = "plan_shop"
PATIENCE: Final = 20.0
"""Seconds that a scene waits for a program to get to its point."""
WRITER: Final = """
import os, pathlib, sys
prompt = sys.stdin.read()
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(outputs / "requirements.md").write_text("# Requirements\\n\\nA price is never negative.\\n")
print('{"result": "one requirement written"}')
"""
CODER: Final = """
import os, pathlib, signal
inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
text = (inputs / "requirements.md" / "requirements.md").read_text()
if os.environ["AGENTTALK_ATTEMPT"] == "1":
    pathlib.Path("begun").touch()
    signal.pause()  # hangs, so that the demo can kill the heartbeat while this runs
outputs = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(outputs / "change.patch").write_text(f"+ assert price >= 0  # {text.splitlines()[2]}\\n")
"""


def play_delivery(out: CommandOutput, root: Path) -> bool:
    """Deliver a command to an agent, let it work, and deliver its output."""
    _profile(root, "pm", WRITER)
    _profile(root, "backend", CODER)
    _order(root, "lead", "requirements", "Write the requirements.")
    _order(root, "lead", "implement", "Implement the price function.", required_inputs=["requirements.md"])
    first = _route(root)
    _say(out, f"router: {first.delivered} commands delivered, each to the agent that the DAG names")
    worked = _beat(root, "pm")
    _say(out, f"heartbeat of pm: {worked.ran} program run; what it made lies in its outbox")
    waits = _beat(root, "backend")
    _say(out, f"heartbeat of backend: {waits.waiting} command waits for requirements.md and blocks no other")
    second = _route(root)
    _say(out, f"router: {second.delivered} artifact delivered, {second.collected} receipts and states collected")
    return (first.delivered, worked.ran, waits.waiting, second.delivered) == (2, 1, 1, 1)


def play_kill(out: CommandOutput, root: Path) -> bool:
    """Kill the process that drives an agent while its program runs; nothing is lost or done twice."""
    heartbeat = [sys.executable, "-m", "agenttalk", "heartbeat", "--root", str(root), "--agent", "backend", "--once"]
    child = subprocess.Popen(heartbeat, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603 - ourselves
    begun = root / root_layout.task_folder("backend", PLAN, "implement") / "begun"
    if not _waited(begun.exists):
        child.kill()
        return False
    programs = _at_work(begun.parent)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    _say(out, f"kill -9: the heartbeat (process {child.pid}) is gone while its program was at work")
    tick = _beat(root, "backend")
    dead = bool(programs) and _waited(lambda: not programs & _at_work(begun.parent))
    _say(out, f"heartbeat again: the old program is {'dead' if dead else 'ALIVE'}, {tick.ran} new attempt ran")
    report = _route(root)
    kept = (root / root_layout.RUNTIME / "artifacts" / PLAN).rglob("change.patch")
    results = [path for path in kept if path.is_file()]
    _say(
        out,
        f"router: {report.accepted} result accepted: {sanitize(results[0].read_text().strip()) if results else 'none'}",
    )
    return dead and tick.ran == 1 and len(results) == 1


def play_refusal(out: CommandOutput, root: Path) -> bool:
    """Send a forged, a broken and a repeated message: none gets through, none is lost."""
    outbox = root / root_layout.box_folder("backend", "outbox", PLAN)
    lead = root / root_layout.box_folder("lead", "outbox", PLAN)
    sent = next((lead / root_layout.SENT).glob("*.msg.json")).read_bytes()
    fsio.write_file(lead / "again.msg.json", sent)
    fsio.write_file(outbox / "forged.msg.json", sent)
    fsio.write_file(outbox / "torn.msg.json", sent[: len(sent) // 2])
    report = _route(root)
    _say(out, f"router: {report.duplicate} duplicate skipped, {report.dead} refused, {report.delivered} delivered")
    letters, faults = asyncio.run(_checked(root))
    for letter in letters:
        _say(out, f"  [red]{letter['code']}[/] {sanitize(letter['name'])}: {sanitize(letter['reason'][:100])}")
    _say(out, f"fsck: {len(faults)} faults; every message is in exactly one state")
    codes = {letter["code"] for letter in letters}
    return report.duplicate == 1 and codes == {"PRODUCER_MISMATCH", "ENVELOPE_PARSE_ERROR"} and not faults


async def _checked(root: Path) -> tuple[list[dead_letters.DeadLetter], list[fsck.IntegrityFault]]:
    async with open_root(root) as deps:
        return await dead_letters.list_dead_letters(deps), await fsck.check_root(deps)


def _profile(root: Path, agent: str, program: str) -> None:
    folder = root / root_layout.agent_folder(agent)
    fsio.write_file(folder / "work.py", program.encode())
    profile = {
        "schema_version": "1.0",
        "agent_id": agent,
        "driver": "script",
        "argv": [sys.executable, str(folder / "work.py")],
    }
    fsio.write_file(folder / root_layout.PROFILE, wire.write(profile))


def _order(root: Path, sender: str, task: str, prompt: str, **fields: Any) -> None:
    known = root_reader.read_known(root, PLAN, task)
    answer = generation.generate({"plan_id": PLAN, "task_id": task, "prompt": prompt, **fields}, known)
    if answer.command is None:
        raise ValueError(answer.errors)
    producer, message_id = AgentId(sender), MessageId(f"msg_{task}")
    wrapped = envelopes.wrap(answer.command, producer=producer, message_id=message_id, now=SystemClock().now())
    fsio.write_file(root / root_layout.box_folder(sender, "outbox", PLAN) / wrapped.file_name, wrapped.to_bytes())


def _route(root: Path) -> RouterReport:
    seen: list[RouterReport] = []
    asyncio.run(parts.run_router(root, seen.append))
    return seen[0]


def _beat(root: Path, agent: str) -> TickReport:
    seen: list[TickReport] = []
    asyncio.run(parts.run_heartbeat(root, agent, seen.append))
    return seen[0]


def _at_work(folder: Path) -> set[str]:
    """Find the processes of a task by the folders in their variables: in a sandbox they have other ids."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"={folder}/".encode() in path.read_bytes():
                found.add(path.parent.name)
    return found


def _waited(condition: Any) -> bool:
    """Whether something comes true within our patience."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _say(out: CommandOutput, text: str) -> None:
    if not out.as_json:
        out.say(text)
