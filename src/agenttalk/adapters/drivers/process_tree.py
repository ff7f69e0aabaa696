"""A program with everything that it starts, as the engine sees it: through its keeper and three pipes."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.ancestry import LEASE

STDERR_KEPT: Final = 16 * 1024
LONGEST_LINE: Final = 64 * 1024
"""Bytes of a line that is passed on."""
_CHUNK: Final = 1 << 16
_REST: Final = 1 << 20
"""The capacity of a pipe: what is read beyond it after the tree's death does not come from the tree."""
_ROOM: Final = 1 << 20
"""Bytes that a program can print before they are read."""
_BOOT: Final = "import sys; sys.path.append(sys.argv.pop()); import keeper; keeper.main()"
"""Imports the keeper, so that it is compiled once; and without its package, which takes longer to load."""


class StartFailure(NamedTuple):
    """Why a program was not started."""

    step: str
    """`cwd` or `program`."""
    errno: int


class ProcessTree:
    """A program that was requested, and what is known about it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: socket.socket,
        *,
        keep: int,
        most: int | None = None,
        lines: LineSplitter | None = None,
        pieces: Callable[[bytes], None] | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        """Done when the program has ended, or cannot be started any more."""
        self.over: asyncio.Future[None] = loop.create_future()
        """Done when the keeper is gone."""
        self.hushed: asyncio.Future[None] = loop.create_future()
        """Done when the dialogue with the program has no more input for it."""
        self.pen: StdinWriter | None = None
        """Writes to the program, if there is a dialogue."""
        self.refusal: StartFailure | None = None
        self.status: int | None = None
        """The program's wait status, when it has ended."""
        self.started = False
        """Whether the program may have run."""
        self.confirmed = False
        """Whether the keeper reported that nothing is left."""
        self.printed = 0
        """Bytes that it has printed, kept or not."""
        self.flooding: asyncio.Future[None] = loop.create_future()
        """Done when it has printed more than it may."""
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._keep = keep
        self._most = most
        self._lines = lines
        self._pieces = pieces
        self._process = process
        self._control = control
        self._heard = b""
        self._asking: _PipeWriter | None = None
        self._ends: list[_PipeReader | _PipeWriter | StdinWriter] = []

    @classmethod
    def start(
        cls,
        request: bytes,
        prompt: bytes,
        *,
        lease: str,
        keep: int,
        most: int | None = None,
        lines: LineSplitter | None = None,
        pieces: Callable[[bytes], None] | None = None,
        spoken_to: bool = False,
    ) -> Self:
        """Start a keeper and request a program (`keeper.pack_request`). Raises OSError when the machine cannot.

        `lines` and `pieces` receive what the program prints. `keep` bytes of it are kept, and more than `most` is
        flooding. A program that is `spoken_to` gets a pen, and more input than its prompt.
        """
        # The keeper's ends are closed here in any case: otherwise we would never see the end of a pipe. Our own ends
        # are closed only if the start fails, see `pop_all` below.
        with ExitStack() as ours, ExitStack() as theirs:
            control, far = socket.socketpair()
            ours.callback(control.close)
            theirs.callback(far.close)
            stdin, feed = _pipe(theirs, ours)
            out, stdout = _pipe(ours, theirs)
            with suppress(OSError):  # a large buffer, so that a program that is killed before it is read loses less
                fcntl.fcntl(stdout, fcntl.F_SETPIPE_SZ, _ROOM)
            err, stderr = _pipe(ours, theirs)
            process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", "-c", _BOOT, str(far.fileno()), str(Path(keeper.__file__).parent)],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd="/",
                env=_keepers_environment(lease),
                pass_fds=[far.fileno()],
                start_new_session=True,
            )
            tree = cls(process, control, keep=keep, most=most, lines=lines, pieces=pieces)
            tree._listen(out, err)
            ours.pop_all()
        tree._speak(request, feed, prompt, spoken_to=spoken_to)
        return tree

    def _listen(self, out: int, err: int) -> None:
        self._control.setblocking(False)
        self._ends = [
            _PipeReader(out, self._keep_first),
            _PipeReader(err, self._keep_last),
            _PipeReader(self._control.fileno(), self._hear, over=self._hung_up, close=False),
        ]

    def _speak(self, request: bytes, feed: int, prompt: bytes, *, spoken_to: bool) -> None:
        self._asking = _PipeWriter(self._control.fileno(), request, close=False)
        self._ends.append(self._asking)
        if spoken_to:
            self.pen = StdinWriter(feed, lambda: _settle(self.hushed))
            self.pen.write(prompt)
            self._ends.append(self.pen)
        else:
            self._ends.append(_PipeWriter(feed, prompt, close=True))

    def interrupt(self) -> None:
        """Send SIGINT to the program, as Ctrl-C does. One that was not started yet is killed."""
        if self._asking is None or self._asking.open:
            self.kill()
        else:
            with suppress(OSError):
                self._control.send(keeper.INT)
            self._process.send_signal(signal.SIGCONT)

    def ask_to_end(self) -> None:
        """Ask all processes to end. Those that do not are left to `kill`."""
        if self._asking is None or self._asking.open:
            self.kill()  # the keeper has not even read the request
        else:
            with suppress(OSError):
                self._control.send(keeper.TERM)
            self._process.send_signal(signal.SIGCONT)  # the program may have stopped its keeper

    def kill(self) -> None:
        """Have all processes killed; `over` is done when they are dead. The engine's death does the same."""
        with suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Read the rest of the pipes, and close everything."""
        for end in self._ends:
            end.finish()
        if self._lines is not None:
            self._lines.finish()
        self._control.close()
        if self.over.done():
            self._process.wait()  # it closed its side because it ends, so this takes no time
        else:
            self._process.poll()

    @property
    def keeper(self) -> int:
        """The id of the keeper's process."""
        return self._process.pid

    def _count(self, data: bytes) -> None:
        self.printed += len(data)
        if self._most is not None and self.printed > self._most:
            _settle(self.flooding)

    def _keep_first(self, data: bytes) -> None:
        self._count(data)
        self.stdout += data[: max(0, self._keep - len(self.stdout))]
        if self._lines is not None:
            self._lines.add_piece(data)
        if self._pieces is not None:
            self._pieces(data)

    def _keep_last(self, data: bytes) -> None:
        self._count(data)
        self.stderr += data
        del self.stderr[:-STDERR_KEPT]

    def _hear(self, data: bytes) -> None:
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            match line.split():
                case [b"failed", step, number]:
                    self.refusal = StartFailure(step.decode(), int(number))
                    self.confirmed = True
                case [b"starting"]:
                    self.started = True
                case [b"ended", status]:
                    self.status = int(status)
                    _settle(self.ended)
                case [b"dead"]:
                    self.confirmed = True

    def _hung_up(self) -> None:
        _settle(self.ended)
        _settle(self.over)


class LineSplitter:
    """Splits chunks into lines. Drops a line that is too long, and a last line without an end.

    With `longest`, passes on the beginning of a line that is too long, and the last line without its end.
    """

    def __init__(self, hear: Callable[[bytes], None], longest: int | None = None) -> None:
        self._hear = hear
        self._longest = LONGEST_LINE if longest is None else longest
        self._to_the_end = longest is not None
        self._rest = b""
        self._skips = False

    def add_piece(self, data: bytes) -> None:
        """Add a chunk."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(line)
            if not self._skips or self._to_the_end:
                self._hear(self._rest)
            self._rest, self._skips = b"", False
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        """Continue a line, and cut it where it gets too long."""
        if self._skips:
            return
        self._skips = len(self._rest) + len(piece) > self._longest
        if self._skips and not self._to_the_end:
            self._rest = b""
        else:
            self._rest = (self._rest + piece)[: self._longest]

    def finish(self) -> None:
        """Finish: no more chunks follow."""
        if self._to_the_end and self._rest:
            self._hear(self._rest)
        self._rest = b""


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _pipe(reads: ExitStack, writes: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reads.callback(os.close, read)
    writes.callback(os.close, write)
    return read, write


def _keepers_environment(lease: str) -> dict[str, str]:
    """Keep what Python itself needs to find its library; the program gets none of it."""
    environment = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {**environment, LEASE: lease}


class _PipeReader:
    """Reads what arrives, when it arrives."""

    def __init__(
        self,
        descriptor: int,
        take: Callable[[bytes], None],
        *,
        over: Callable[[], None] | None = None,
        close: bool = True,
    ) -> None:
        self._descriptor = descriptor
        self._take = take
        self._over = over
        self._close = close
        self._open = True
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def _read(self) -> bool:
        """Read a chunk. False when nothing is there now, or the end is reached."""
        try:
            data = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:  # the other side is gone, with unread data
            data = b""
        if data:
            self._take(data)
            return True
        self._stop()
        if self._over:
            self._over()
        return False

    def finish(self) -> None:
        """Read what is there, and close."""
        rest = _REST
        while self._open and rest > 0 and self._read():
            rest -= _CHUNK
        self._stop()

    def _stop(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._descriptor)
            if self._close:
                os.close(self._descriptor)


class _PipeWriter:
    """Writes as fast as the other side reads. A program that does not read harms only itself."""

    def __init__(self, descriptor: int, data: bytes, *, close: bool) -> None:
        self._descriptor = descriptor
        self._left = memoryview(data)
        self._close = close
        self.open = True
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_writer(descriptor, self._write)
        self._write()

    def _write(self) -> None:
        try:
            while self._left:
                self._left = self._left[os.write(self._descriptor, self._left) :]
        except BlockingIOError:
            return
        except OSError:
            pass  # it closed its side
        self.finish()

    def finish(self) -> None:
        """Close, even if data is left."""
        if self.open:
            self.open = False
            asyncio.get_running_loop().remove_writer(self._descriptor)
            if self._close:
                os.close(self._descriptor)


class StdinWriter:
    """Writes what is added, as fast as the other side reads, until it is closed."""

    def __init__(self, descriptor: int, closed: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._closed = closed
        self._left = bytearray()
        self._open = True
        self._waits = False
        self._last = False
        os.set_blocking(descriptor, False)

    def write(self, data: bytes) -> None:
        """Add data."""
        if self._open and not self._last:
            self._left += data
            self._write()

    def close(self) -> None:
        """Close when everything is written."""
        self._last = True
        self._closed()
        if self._open:
            self._write()

    def _write(self) -> None:
        try:
            while self._left:
                del self._left[: os.write(self._descriptor, self._left)]
        except BlockingIOError:
            if not self._waits:
                self._waits = True
                asyncio.get_running_loop().add_writer(self._descriptor, self._write)
            return
        except OSError:
            self.finish()  # it closed its side
            return
        self._rest()
        if self._last:
            self.finish()

    def _rest(self) -> None:
        if self._waits:
            self._waits = False
            asyncio.get_running_loop().remove_writer(self._descriptor)

    def finish(self) -> None:
        """Close, even if data is left."""
        if self._open:
            self._open = False
            self._rest()
            self._left.clear()
            os.close(self._descriptor)
