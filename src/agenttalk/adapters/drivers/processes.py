"""Finds out which owners of leases live on this machine, and ends the processes of a lease."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Final

from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.ancestry import LEASE
from agenttalk.adapters.drivers.deferred_cancellation import wait_until_finished
from agenttalk.adapters.drivers.keeper import Process
from agenttalk.adapters.process_ids import is_alive
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.ports.agents import ProcessIdentity

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_PAUSE: Final = 0.005


class LocalProcesses:
    """The processes of this machine, seen through Linux's /proc.

    A process belongs to a lease when its environment names the lease, or when it descends from one that does. So
    processes that cleared their environment are found below a living keeper. Without /proc an owner is recognised by
    its id alone, and `end` raises, because it could not confirm anything.
    """

    def __init__(self, *, limit: float = 10.0, proc: Path = Path("/proc")) -> None:
        self._limit = limit
        self._seeing = (proc / "self" / "stat").exists()
        self._boot_id = _BOOT_ID.read_text(encoding="ascii").strip() if self._seeing else ""

    def me(self) -> ProcessIdentity:
        """Return the identity of this process."""
        pid = os.getpid()
        process = keeper.read_process(pid) if self._seeing else None
        return ProcessIdentity(self._boot_id, pid, process.started if process else 0)

    def alive(self, owner: ProcessIdentity) -> bool:
        """Return whether a process still lives: not a zombie, of this boot, and not another one with its id."""
        if owner.boot_id != self._boot_id or owner.pid <= 0:
            return False
        if not self._seeing:
            return is_alive(owner.pid)
        process = keeper.read_process(owner.pid)
        return process is not None and process.started == owner.started and process.is_alive

    async def end(self, lease: str) -> int:
        """Kill every process of the lease, confirm that none is left, and return how many there were.

        The topmost process dies last. A keeper there is stopped, adopts orphans and reaps none: as long as it gets new
        children, processes below it are still forking.

        Never ends this process. A cancellation takes effect when it is finished. Raises MachineError when processes
        survive the time limit (they are stopped, where possible), or when processes cannot be seen here.
        """
        if not self._seeing:
            raise MachineError(
                Code.PROCESS_STUCK,
                f"cannot confirm that the processes of {lease} have ended: this system has no /proc",
                hint="end them by hand",
            )
        loop = asyncio.get_running_loop()
        try:
            return await wait_until_finished(loop.run_in_executor(None, self._end, lease))
        except OSError as error:
            raise MachineError(Code.PROCESS_STUCK, f"processes cannot be seen: {error.strerror}") from error

    def _end(self, lease: str) -> int:
        entry = os.fsencode(f"{LEASE}={lease}")
        deadline = time.monotonic() + self._limit
        met: set[tuple[int, int]] = set()
        before: dict[int, list[int]] = {}
        quiet = 0
        while quiet < 2:  # a process can fork and end so that one pass misses both
            carriers = _stopped(entry)
            quiet = 0 if carriers else quiet + 1
            if carriers and time.monotonic() > deadline:
                raise _stuck(lease, carriers)
            tops = [process for process in carriers if process.parent not in {carrier.pid for carrier in carriers}]
            below = [
                process
                for top in tops
                for process in keeper.signal_descendants(top.pid, signal.SIGKILL, spare=os.getpid())
            ]
            children = {top.pid: keeper.list_children(top.pid) for top in tops}
            if not below and children == before:
                for top in tops:
                    keeper.send_signals(top, signal.SIGKILL)
            met.update((process.pid, process.started) for process in [*carriers, *below])
            before = children
            time.sleep(_PAUSE)
        return len(met)


def _stopped(entry: bytes) -> list[Process]:
    """Stop every process with the entry in its environment, but this one, so that it cannot fork; return them."""
    stopped = []
    for pid in keeper.list_processes():
        if pid != os.getpid() and entry in keeper.read_proc_file(pid, "environ").split(b"\0"):
            process = keeper.read_process(pid)
            if process and process.is_alive:
                keeper.send_signals(process, signal.SIGSTOP)
                stopped.append(process)
    return stopped


def _stuck(lease: str, left: list[Process]) -> MachineError:
    pids = ", ".join(str(process.pid) for process in left)
    return MachineError(
        Code.PROCESS_STUCK,
        f"processes of {lease} cannot be ended: {pids}",
        hint="they hang in the kernel or belong to another user; end them by hand",
    )
