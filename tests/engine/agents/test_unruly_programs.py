"""Programs that behave badly in plans: nothing of them is left, what happened is told, and their agent's work goes on."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.core.deps import EngineLimits
from agenttalk.engine.operation import fsck
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.wiring import open_root
from kits.plankit import Engine, plan, states, task
from kits.sandboxkit import PLAIN
from kits.standingkit import PlanStanding

BOUND = 55.0
"""Seconds in which both tasks have to be over, however busy the machine is: less than any of them is given."""
HIDDEN = f"hidden_{secrets.token_hex(8)}"
"""Stands in the command of a process whose environment is empty."""
BEGIN = """
import os, pathlib, shutil, signal, subprocess, sys, time
OUT = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
RESULT = pathlib.Path(os.environ["AGENTTALK_RESULT"])
if os.environ["AGENTTALK_TASK_ID"] == "next":
    print("ok")
    sys.exit(0)
def child(command="while :; do sleep 1; done"):
    subprocess.Popen(["sh", "-c", command])
"""


@dataclass(frozen=True)
class Unruly:
    """A program, and what is to be told of it."""

    program: str
    state: str = "FAILED"
    told: str = ""
    timeout: int = 60
    outputs: bool = False
    limits: dict[str, int] = field(default_factory=dict)
    payload: int = 256 << 20


HANGS = Unruly("child(); time.sleep(600)", told="ended after 1 seconds", timeout=1)
PROGRAMS = {
    "hangs": HANGS,
    "ignores the request to end": Unruly(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); child('trap : TERM; while :; do sleep 1; done'); time.sleep(600)",
        told="ended after 1 seconds",
        timeout=1,
    ),
    "stops itself": Unruly("os.kill(os.getpid(), signal.SIGSTOP)", told="ended after 1 seconds", timeout=1),
    "leaves children": Unruly("[child() for _ in range(20)]; print('ok')", "COMPLETED"),
    "becomes a daemon": Unruly(
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        time.sleep(600)
    os._exit(0)
print("ok")
""",
        "COMPLETED",
    ),
    "becomes a daemon that nobody knows": Unruly(
        f"""
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sh", ["sh", "-c", "while :; do sleep 1; done # {HIDDEN}"], {{}})
    os._exit(0)
print("ok")
""",
        "COMPLETED",
    ),
    "floods its output": Unruly(
        """
for _ in range(100):
    sys.stdout.write("x" * (1 << 20))
""",
        "COMPLETED",
    ),
    "floods what it says of errors": Unruly(
        """
for _ in range(50):
    sys.stderr.write("x" * (1 << 20))
sys.exit("the end of it")
""",
        told="the end of it",
    ),
    "closes its descriptors": Unruly(
        """
os.closerange(0, 256)
RESULT.write_text('{"result": "written without a sound"}')
time.sleep(0.2)
os._exit(0)
""",
        "COMPLETED",
    ),
    "eats memory": Unruly("data = bytearray(1 << 30)", told="MemoryError", limits={"memory_mib": 300}),
    "has children that eat memory together": Unruly(
        """
for _ in range(8):
    if os.fork() == 0:
        data = b"x" * (40 << 20)
        break
time.sleep(600)
""",
        told="ended because its processes took more than 200 MiB of memory together",
        limits={"memory_mib": 200},
    ),
    "burns the processor": Unruly("while True: pass", told="SIG", limits={"cpu_seconds": 1}),
    "does nothing": Unruly("", told="result"),
    "claims what it did not make": Unruly("print('all is done and tested')", told="out.md", outputs=True),
    "fails with a message": Unruly("print('no paper', file=sys.stderr); sys.exit(3)", told="exit code 3: no paper"),
    "is killed": Unruly("os.kill(os.getpid(), signal.SIGKILL)", told="SIGKILL"),
    "kills its keeper": Unruly("os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)", told="keeper was killed"),
    "makes a large file": Unruly(
        "(OUT / 'out.md').write_bytes(bytes(20 << 20)); print('ok')", "COMPLETED", outputs=True
    ),
    "makes a file that is too large": Unruly(
        "(OUT / 'out.md').write_bytes(bytes(2 << 20)); print('ok')", told="out.md", outputs=True, payload=1 << 20
    ),
    "writes more than it may": Unruly(
        "(OUT / 'out.md').write_bytes(bytes(3 << 20))", told="File too large", outputs=True, limits={"file_mib": 1}
    ),
    "hands over a link": Unruly(
        "os.symlink('/etc/hostname', OUT / 'out.md'); print('ok')", told="out.md", outputs=True
    ),
    "hands over a pipe": Unruly("os.mkfifo(OUT / 'out.md'); print('ok')", told="out.md", outputs=True),
    "puts a link in place of its outputs": Unruly(
        "OUT.rmdir(); os.symlink('/etc', OUT); print('ok')", told="outputs", outputs=True
    ),
    "puts a pipe in place of its result": Unruly("os.mkfifo(RESULT)", told="result.json"),
    "hands over a name that is no text": Unruly(
        "open(os.fsencode(OUT) + b'/\\xff', 'w').close(); print('ok')", told="UTF-8"
    ),
    "removes its folder": Unruly("shutil.rmtree(os.getcwd()); print('ok')", told="out.md", outputs=True),
    "leaves its folder closed": Unruly("os.chmod(os.getcwd(), 0); print('ok')", "COMPLETED"),
    "says what is no text": Unruly("sys.stdout.buffer.write(b'\\xff\\xfe\\0 caf\\xe9')", "COMPLETED"),
    "writes a result that is no object": Unruly("RESULT.write_text('[1, 2')", told="result file"),
    "writes a result without end": Unruly("RESULT.write_bytes(b'[' * (2 << 20))", told="result"),
    "hands over far too many files": Unruly(
        """
(OUT / "out.md").mkdir()
for number in range(2500):
    (OUT / "out.md" / str(number)).touch()
""",
        told="2,000 files",
        outputs=True,
    ),
}


def alive(plan_id: str) -> list[str]:
    """Processes of a plan's turns."""
    found = []
    for entry in (each for each in Path("/proc").iterdir() if each.name.isdigit()):
        with suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            ours = any(each.startswith(b"AGENTTALK_LEASE=") for each in variables)
            named = f"AGENTTALK_PLAN_ID={plan_id}".encode() in variables
            if (ours and named) or HIDDEN.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


async def ran(root: Path, unruly: Unruly, plan_id: str) -> PlanStanding:
    program = root / "program.py"
    program.write_text(f"{BEGIN}\n{unruly.program}\n", encoding="utf-8")
    agent: dict[str, Any] = {"driver": "script", "argv": [sys.executable, str(program)]}
    if unruly.limits:
        agent["limits"] = unruly.limits
    outputs = [{"name": "out.md", "deliverable": True}] if unruly.outputs else []
    first = task("bad", priority="HIGH", timeout=unruly.timeout, outputs=outputs, max_reexecute_times=0)
    compiled = plan(first, task("next", timeout=60), plan_id=plan_id, agents={"a": agent})
    processes = LocalProcesses()
    async with open_root(root, limits=EngineLimits(payload_bytes=unruly.payload), words=PLAIN) as deps:
        programs = ProgramAgents(deps, ScriptDriver(processes, grace=0.3))
        dispatcher = Dispatcher(deps, {"script": programs}, processes)
        stop = asyncio.Event()
        running = asyncio.create_task(dispatcher.run(stop))
        try:
            engine = Engine(deps, dispatcher)
            await engine.submit(compiled)
            found = await engine.ended(plan_id)
            assert alive(plan_id) == []
        finally:
            stop.set()
            await running
        assert await fsck.check_root(deps) == []
    return found


@pytest.mark.rest_but(
    "floods its output",
    "hangs",
    "leaves children",
    "eats memory",
    "becomes a daemon",
    "does nothing",
    "fails with a message",
    "hands over a link",
    "claims what it did not make",
    "kills its keeper",
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that(tmp_path: Path, name: str) -> None:
    for folder in ("agents", "system_runtime"):
        (tmp_path / folder).mkdir()
    unruly = PROGRAMS[name]
    plan_id = f"unruly_{secrets.token_hex(8)}"
    began = time.monotonic()
    found = asyncio.run(ran(tmp_path, unruly, plan_id))
    assert time.monotonic() - began < BOUND
    assert states(found) == {"bad": unruly.state, "next": "COMPLETED"}
    [bad] = [each for each in found.tasks if each["task_id"] == "bad"]
    assert (bad["reason"] is None) == (unruly.state == "COMPLETED")
    assert unruly.told in (bad["reason"] or "")
