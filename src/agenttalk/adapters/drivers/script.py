"""The script driver: any program, fed by its standard input."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from asyncio import FIRST_COMPLETED, CancelledError, wait
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from agenttalk.adapters.drivers import dialogues, keeper
from agenttalk.adapters.drivers.ancestry import LEASE
from agenttalk.adapters.drivers.budgets import TurnMeter
from agenttalk.adapters.drivers.deferred_cancellation import wait_uncancelled
from agenttalk.adapters.drivers.process_tree import LineSplitter, ProcessTree
from agenttalk.adapters.drivers.sandboxes import ConfinedProgram, Sandboxes
from agenttalk.contracts.agent import Tier
from agenttalk.ports.agents import Confinement, Processes, ProgramTurn, StdioClient, TurnEnd
from agenttalk.ports.dialogues import Dialogue, SessionParameters
from agenttalk.rules.text import turn_words

OURS: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME")
"""What a program gets of our own environment."""
_TRIES: Final = 5
"""How often a sandbox is set up in which mounts of the machine are missing that were there a moment before."""
_LOST_MOUNT: Final = ("Unable to apply mount flags", "in mount table", "with correct flags")


class ScriptDriver:
    """Runs a program as an agent's turn, in a tree of processes that outlives neither the turn nor the engine.

    A small process of ours, the keeper, stands above the program and owns everything that it starts; see `keeper` for
    what that covers. Linux only: elsewhere no turn is started.
    """

    def __init__(
        self,
        processes: Processes,
        *,
        environ: Mapping[str, str] = os.environ,
        grace: float = 2.0,
        limit: float = 10.0,
        patience: float = 10.0,
        sandboxes: Sandboxes | None = None,
    ) -> None:
        """`grace`: seconds between the request to end and the kill; `limit`: seconds in which a kill must work.

        `patience`: seconds that a program has after an interruption until it is asked to end.
        """
        self._processes = processes
        self._environ = environ
        self._grace = grace
        self._limit = limit
        self._patience = patience
        self._sandboxes = sandboxes or Sandboxes()

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        """Start a program, feed it and wait; return only when every process of its tree is dead.

        Waits for the program, not for its pipes: what it leaves behind is killed. At the time limit the tree is asked
        to end, and killed after the grace. Cancelling kills it at once; a program with a dialogue is asked to cancel
        first, and has the grace. Raises MachineError if it cannot be killed.
        """
        if sys.platform != "linux":
            return _not_started(turn_words.UNSUPPORTED["programs"]())
        try:
            env = self._environment(turn)
            asked, tries = turn.confinement or Confinement("plain"), 0
            while True:
                async with self._sandboxes.confine(asked, turn.argv, turn.cwd, env, turn.env) as confined:
                    ended = replace(await self._run(turn, confined), sandbox=confined.tier)
                tries += 1
                if tries >= _TRIES or turn.talk is not None or not _has_lost_mount(ended):
                    return _said_by_sandbox(ended)
        except ValueError as error:
            return _not_started(str(error))

    async def tier(self, asked: Confinement) -> Tier:
        """Return the sandbox in which a turn would run here. Raises ValueError rather than return a weaker one."""
        return await self._sandboxes.choose(asked)

    def open_dialogue(self, opening: SessionParameters) -> Dialogue:
        """Open a dialogue in the Agent Client Protocol. Raises ValueError where it is not available."""
        return dialogues.open_acp_dialogue(opening)

    async def _run(self, turn: ProgramTurn, confined: ConfinedProgram) -> TurnEnd:
        began = time.monotonic()
        request = _request(turn, confined)
        try:
            prompt = turn.prompt.encode("utf-8", "replace")
            lines = LineSplitter(turn.hear, turn.longest) if turn.hear else None
            most = turn.budget.output if turn.budget else None
            tree = ProcessTree.start(
                request,
                prompt,
                lease=turn.lease,
                keep=turn.keep,
                most=most,
                lines=lines,
                pieces=turn.pieces,
                spoken_to=turn.talk is not None,
            )
        except OSError as error:
            return _not_started(turn_words.KEEPER["machine"](error=error.strerror))
        noted = turn.noted or _nothing
        noted()
        meter = TurnMeter(turn.budget, tree.keeper, confined.temporary) if turn.budget else None
        watching = asyncio.create_task(meter.watch(tree.flooding)) if meter else None
        interrupting = asyncio.ensure_future(self._interrupted(turn, tree)) if turn.interruption else None
        try:
            if turn.talk is None or tree.pen is None:
                late = await self._follow(tree, turn.timeout, watching)
            else:
                turn.talk.begin(tree.pen)
                late = await self._listen(tree, turn.talk, turn.timeout, watching)
        finally:
            noted()
            if interrupting is not None:
                interrupting.cancel()
            try:
                await self._confirm(tree, turn.lease)
            finally:
                tree.close()
                over = await _stopped(watching)
        if meter is not None and tree.refusal is None:
            over = over or await meter.find_final_excess(flooded=tree.flooding.done())
            if over:
                await meter.clear()
        return _read_end(tree, turn, late=late, seconds=time.monotonic() - began, over=over)

    async def _interrupted(self, turn: ProgramTurn, tree: ProcessTree) -> None:
        """Have the program end when its turn is interrupted: politely first, then less so."""
        if turn.interruption is None:
            return
        with turn.interruption.answered():
            await turn.interruption.wait()
            if turn.talk is not None:
                turn.talk.request_end()
                await wait({tree.ended}, timeout=self._grace)
            tree.interrupt()
            await wait({tree.ended}, timeout=self._patience)
            tree.ask_to_end()
            await wait({tree.over}, timeout=self._grace)
            tree.kill()

    def _environment(self, turn: ProgramTurn) -> dict[str, str]:
        """Build the whole environment of a program. Raises ValueError when no program can be started with it."""
        bare = turn.confinement is not None and turn.confinement.bare
        ours = {name: self._environ[name] for name in OURS if name in self._environ and not bare}
        env = {**ours, **turn.env, LEASE: turn.lease}
        if not turn.argv or not turn.argv[0]:
            raise ValueError("no program is named; give its argv in the agent's profile")
        if any("=" in name or not name for name in env):
            raise ValueError("a name in the environment is empty or holds =; correct the agent's profile")
        if any("\0" in text for text in (str(turn.cwd), *turn.argv, *env, *env.values())):
            raise ValueError("an argument or a variable holds a NUL; correct the agent's profile")
        return env

    async def _follow(self, tree: ProcessTree, seconds: float, watching: asyncio.Task[str] | None) -> bool:
        """Wait for the program, or until it exceeds a budget; True when it took too long and was asked to end."""
        awaited: set[asyncio.Future[Any]] = {tree.ended, *([watching] if watching else [])}
        done, _ = await wait(awaited, timeout=max(0.0, seconds), return_when=FIRST_COMPLETED)
        if done:
            return False
        tree.ask_to_end()
        await wait({tree.over}, timeout=self._grace)
        return True

    async def _listen(
        self, tree: ProcessTree, talk: StdioClient, seconds: float, watching: asyncio.Task[str] | None
    ) -> bool:
        """Wait until the program has ended or its dialogue is over; True when it took too long."""
        awaited: set[asyncio.Future[Any]] = {tree.ended, tree.hushed, *([watching] if watching else [])}
        try:
            await wait(awaited, timeout=max(0.0, seconds), return_when=FIRST_COMPLETED)
        except CancelledError:
            talk.request_end()
            await wait_uncancelled(tree.ended, self._grace)
            raise
        if watching is not None and watching.done():
            return False
        late = not tree.ended.done() and not tree.hushed.done()
        if late:
            talk.request_end()
        await wait({tree.ended}, timeout=self._grace)
        if not tree.ended.done():
            tree.ask_to_end()
            await wait({tree.over}, timeout=self._grace)
        return late

    async def _confirm(self, tree: ProcessTree, lease: str) -> None:
        """Have everything killed that is left, and return when it is dead."""
        tree.kill()
        cancelled = await wait_uncancelled(tree.over, self._limit)
        if not tree.confirmed:
            await self._processes.end(lease)
        if cancelled is not None:
            raise cancelled


def _nothing() -> None:
    """Note nothing."""


async def _stopped(watching: asyncio.Task[str] | None) -> str:
    """Read the result of a task that is not needed any more, so that asyncio does not report it."""
    if watching is None:
        return ""
    watching.cancel()
    try:
        return await watching
    except CancelledError:
        return ""


def _namespace_words(turn: ProgramTurn) -> tuple[bytes, ...]:
    """Return the word that has the keeper enter a mount namespace, if the turn is to run in one."""
    namespace = turn.confinement.namespace if turn.confinement is not None else None
    return (b"%b%d:%d" % (keeper.NAMESPACE, *namespace),) if namespace is not None else ()


def _request(turn: ProgramTurn, confined: ConfinedProgram) -> bytes:
    """Pack the request to the keeper. Raises ValueError for what cannot be passed to the system."""
    try:
        entries = {os.fsencode(name): os.fsencode(value) for name, value in confined.env.items()}
        argv = [os.fsencode(part) for part in confined.argv]
        return keeper.pack_request(
            os.fsencode(turn.cwd),
            argv,
            entries,
            turn.limits,
            confined=(*confined.words, *_namespace_words(turn)),
            writable=confined.writable,
            readable=confined.readable,
            options=tuple(os.fsencode(option) for option in confined.options),
        )
    except UnicodeEncodeError as error:
        raise ValueError("an argument or a variable holds half a character; correct the agent's profile") from error


def _said_by_sandbox(ended: TurnEnd) -> TurnEnd:
    """Describe how the program ended. A failure of bubblewrap to set itself up is not an end of the program."""
    message = _read_sandbox_failure(ended)
    if not message:
        return ended
    return replace(_not_started(turn_words.KEEPER["sandbox"](output=message[:500])), sandbox=ended.sandbox)


def _read_sandbox_failure(ended: TurnEnd) -> str:
    """Return what bubblewrap says when it cannot set itself up; empty if it could."""
    message = ended.stderr.decode(errors="replace").strip()
    failed = ended.sandbox == "bubblewrap" and ended.exit_code == 1 and not ended.stdout
    return message if failed and message.startswith("bwrap: ") else ""


def _has_lost_mount(ended: TurnEnd) -> bool:
    """Return whether bubblewrap found a mount of the machine gone that it had just listed, so the program never began.

    Any program on the machine may unmount something in that moment.
    """
    return any(text in _read_sandbox_failure(ended) for text in _LOST_MOUNT)


def _not_started(error: str) -> TurnEnd:
    return TurnEnd(how="not_started", exit_code=None, stdout=b"", stderr=b"", seconds=0.0, error=error)


def _read_end(tree: ProcessTree, turn: ProgramTurn, *, late: bool, seconds: float, over: str = "") -> TurnEnd:
    if tree.refusal is not None:
        return _not_started(_why(tree.refusal.step, tree.refusal.errno, turn))
    stdout, stderr = bytes(tree.stdout), bytes(tree.stderr)
    if over:
        error = turn_words.OVER_BUDGET(why=over)
        return TurnEnd("crashed", None, stdout, stderr, seconds, error, exceeded=True)
    if late:
        error = turn_words.LATE(seconds=float(turn.timeout))
        return TurnEnd("timeout", None, stdout, stderr, seconds, error)
    if not tree.started:
        return _not_started(turn_words.KEEPER["ended"](output=stderr.decode(errors="replace")))
    if tree.status is None:
        return TurnEnd("crashed", None, stdout, stderr, seconds, turn_words.KEEPER["killed"]())
    code = os.waitstatus_to_exitcode(tree.status)
    if code >= 0:
        return TurnEnd("finished", code, stdout, stderr, seconds)
    return TurnEnd("crashed", None, stdout, stderr, seconds, turn_words.ENDED_BY(signal=_signal_name(-code)))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"


_START_FAULTS: Final = {
    errno.ENOENT: "missing",
    errno.EACCES: "not_executable",
    errno.ENOEXEC: "no_program",
    errno.E2BIG: "too_long",
}
"""Errors of starting a program that the reader can fix."""


def _why(step: str, number: int, turn: ProgramTurn) -> str:
    """Explain why the program was not started, and what to do about it."""
    error, faults = os.strerror(number), turn_words.NOT_STARTED
    if step == "sandbox":
        return faults["sandbox"](error=error)
    if step == "cwd":
        return faults["cwd"](path=str(turn.cwd), error=error)
    program = turn.argv[0]
    if number in _START_FAULTS:
        return faults[_START_FAULTS[number]](program=program)
    return faults["other"](program=program, error=error)
