"""Assembles and runs a worker: a root of its own, the usual performers, and the link to its engine."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import platform
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

import httpx2

from agenttalk.adapters import sandbox
from agenttalk.adapters.drivers import landlock
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.engine_link import HttpEngineLink
from agenttalk.adapters.proving.worker_trees import WorkerTrees
from agenttalk.adapters.result_spool import FileSpool
from agenttalk.adapters.signatures import WorkerKey
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.contracts.worker import PROTOCOL, Enrolled, Enrolment, WorkerFacts
from agenttalk.doors.api.relay import AttemptRelay, RelayedAttempt
from agenttalk.engine.agents.registry import make_performers
from agenttalk.engine.fleet.check_process import CheckProcess
from agenttalk.engine.fleet.worker_process import WorkerProcess
from agenttalk.rules.agents import cli_table
from agenttalk.rules.agents.cli_table import CodingAgent
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.wiring.http_door import relay_api
from agenttalk.wiring.machine import SystemClock, measure_start
from agenttalk.wiring.provers import make_check_runner, make_verifier_machine
from agenttalk.wiring.root import open_root

LOG = logging.getLogger(__name__)
LONGEST_PAUSE: Final = 300.0
"""Seconds between two rounds of a worker's loops. It waits for an answer much shorter."""
HANGING: Final = 75
"""The exit code of a worker that ended itself, because it stood still."""
VERSION_SECONDS: Final = 20.0
"""Seconds that a coding agent has to print its version. Some are slow on a busy machine."""
_SHOWN: Final = 80
_KEY: Final = "worker.key"
_IDENTITY: Final = "worker.json"
_SPOOL: Final = "spool"


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How a worker is started."""

    server: str
    folder: Path
    """Its own folder: its key, its root, and what it did not hand in yet."""
    token: str = ""
    """The token of its invitation, for the first start."""
    name: str = ""
    slots: int = 1
    machine: str = ""
    """The name of its machine, if its operator says that it is one of its own."""
    once: bool = False
    """Whether it ends after its first attempts."""


async def run_worker(options: WorkerOptions, tell: Callable[[Enrolled], None]) -> None:
    """Run a worker until it is drained. SIGTERM and Ctrl-C drain it, the second time they end it at once.

    `tell` gets who it is. Raises UsageError when it is not enrolled, MachineError when one runs in the folder already.
    """
    options.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(options.folder):
        root = options.folder / "root"
        for each in (root / "agents", root / "system_runtime"):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        key = WorkerKey.load(options.folder / _KEY)
        processes = LocalProcesses()
        driver = ScriptDriver(processes)
        workers: list[WorkerProcess] = []
        async with (
            _connect(options.server, key) as link,
            open_root(root, hidden=(options.folder / _KEY,)) as deps,
            relay_api(root, AttemptRelay(link, partial(_find_attempt, workers))) as api,
        ):
            performers = make_performers(deps, driver, lambda: api, dict(os.environ))
            facts = await asyncio.to_thread(measure_facts, sorted(performers), options.machine)
            own = await _enrol(options, key, link, facts)
            link.identify(own.worker)
            tell(own)
            trees = WorkerTrees(root, deps.clock, make_check_runner(root, deps, driver).make_recipe)
            machine = make_verifier_machine(root, deps, driver)
            is_verifier = own.role == "verifier"
            worker = WorkerProcess(
                deps,
                performers,
                processes,
                link,
                trees,
                FileSpool(options.folder / _SPOOL),
                facts,
                slots=options.slots,
                monotonic=read_boot_clock,
                checks=CheckProcess(own.worker, machine, link, facts, key.sign) if is_verifier else None,
            )
            workers.append(worker)
            try:
                with watching(lambda: worker.beat, read_boot_clock, lambda: os._exit(HANGING)):
                    await _run_until_signal(worker)
            finally:
                await trees.close()
                await machine.close()


@contextmanager
def watching(
    beat: Callable[[], float],
    clock: Callable[[], float],
    end: Callable[[], object],
    longest: float = LONGEST_PAUSE,
) -> Iterator[None]:
    """Call `end` when the worker has stood still for too long, so that what started it starts it again.

    A thread looks: a loop that hangs cannot see that itself.
    """
    over = threading.Event()

    def watch() -> None:
        while not over.wait(longest / 10):
            if clock() - beat() > longest:
                LOG.critical("the worker stood still, and ends itself", extra={"action": "worker.hangs"})
                end()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _find_attempt(workers: list[WorkerProcess], subject: TokenSubject) -> RelayedAttempt | None:
    """Find the attempt that a token was made for here."""
    for attempt in (each for worker in workers for each in worker.attempts):
        named = (attempt.name.plan_id, attempt.name.task_id, attempt.name.epoch)
        if attempt.phase == "running" and attempt.job is not None and named == subject[1:]:
            return RelayedAttempt(attempt.name, attempt.job.agent_id)
    return None


def read_boot_clock() -> float:
    """Read the clock of this machine that goes on while it sleeps. It cannot be set."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def measure_facts(drivers: list[str], machine: str = "") -> WorkerFacts:
    """Measure what works on this machine, which its operator may have given a name."""
    own = measure_start(machine)
    sandboxes: list[Tier] = []
    if not landlock.describe_problem():
        sandboxes.append("landlock")
    if not sandbox.describe_problem(sandbox.find_bubblewrap()):
        sandboxes.append("bubblewrap")
    versions = _read_versions()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)
    return WorkerFacts(
        version=version("agenttalk"),
        machine=own.machine,
        start=own.start,
        system=f"{platform.system()} {platform.machine()}",
        cores=os.cpu_count() or 1,
        memory_mib=memory,
        sandboxes=tuple(sandboxes),
        drivers=tuple(drivers),
        programs=tuple(versions),
        versions=versions,
    )


def _read_versions() -> dict[str, str]:
    """Read the versions of the coding agents that are installed here and start."""
    found = {name: agent for name, agent in cli_table.TABLE.items() if agent.program and shutil.which(agent.program)}
    with ThreadPoolExecutor(max_workers=max(1, len(found))) as pool:
        said = dict(zip(found, pool.map(_read_version, found.values()), strict=True))
    return {name: version for name, version in said.items() if version}


def _read_version(agent: CodingAgent) -> str:
    """Return the version that a coding agent prints; empty if it does not start."""
    command = [agent.program, *agent.version]
    try:
        done = subprocess.run(  # noqa: S603 - from our own table
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = done.stdout.decode("utf-8", "replace").split("\n")
    return "".join(char for char in lines[0] if char.isprintable()).strip()[:_SHOWN] or "?"


@asynccontextmanager
async def _connect(server: str, key: WorkerKey) -> AsyncIterator[HttpEngineLink]:
    if not server.startswith(("http://", "https://")):
        hint = "such as --server https://work.example.org"
        raise UsageError(Code.OPTION_INVALID, f"{server[:200]!r} is not the address of an engine", hint=hint)
    secure = await asyncio.to_thread(httpx2.create_ssl_context) if server.startswith("https:") else False
    async with httpx2.AsyncClient(verify=secure, trust_env=False, follow_redirects=False) as client:
        yield HttpEngineLink(client, server, key.sign, SystemClock().now)


async def _enrol(options: WorkerOptions, key: WorkerKey, link: HttpEngineLink, facts: WorkerFacts) -> Enrolled:
    """Return who the worker is at this engine. The first start enrols it."""
    path = options.folder / _IDENTITY
    known = wire.read(path.read_bytes()) if path.exists() else None
    if isinstance(known, dict) and known.get("server") == options.server and not options.token:
        return Enrolled.from_json(known["enrolled"])
    if not options.token:
        hint = "make an invitation with 'agenttalk worker invite', and name its token with --enrol"
        raise UsageError(Code.TOKEN_REFUSED, f"this worker is not enrolled at {options.server}", hint=hint)
    name = options.name or "".join(char if char.isalnum() or char in "-_" else "-" for char in platform.node())
    enrolment = Enrolment(protocol=PROTOCOL, name=name or "worker", public_key=key.public, facts=facts)
    enrolled = await link.enrol(options.token, enrolment)
    new = path.with_suffix(".new")
    new.write_bytes(wire.write({"server": options.server, "enrolled": enrolled.as_json()}))
    new.replace(path)
    return enrolled


async def _run_until_signal(worker: WorkerProcess) -> None:
    stop, count = asyncio.Event(), 0

    def end() -> None:
        nonlocal count
        count += 1
        if count == 1:
            worker.drain()
        else:
            stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    await worker.run(stop)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"a worker runs in {folder} already"
            raise MachineError(Code.ENGINE_RUNNING, message, hint="give each worker a folder of its own") from error
        yield
