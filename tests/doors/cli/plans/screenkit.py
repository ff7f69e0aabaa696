"""A terminal with a person in front of it: a real pseudo-terminal, and the screen that its output makes.

The screen knows what we write: text, colours, moves up, and erasing. Anything else is a failure.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE = 300.0
_ESCAPE = re.compile(r"\x1b\[(?P<given>[?\d;]*)(?P<what>[A-Za-z])")


@dataclass
class Screen:
    """What stands on a terminal."""

    columns: int
    lines: int
    cells: list[list[str]] = field(default_factory=lambda: [[]])
    """Lines of cells, from the first line that was ever written; the last `lines` of them are seen."""
    row: int = 0
    column: int = 0
    cursor_is_seen: bool = True
    styles: set[str] = field(default_factory=set)
    """All colours and styles that were used."""

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            match = _ESCAPE.match(text, place)
            if match is not None:
                self._obey(match["what"], match["given"])
                place = match.end()
                continue
            self._write(text[place])
            place += 1

    def _obey(self, what: str, given: str) -> None:
        if what == "m":
            self.styles.add(given)
        elif what == "A":
            top = max(0, len(self.cells) - self.lines)
            self.row = max(top, self.row - int(given))
        elif what == "K":
            del self.cells[self.row][self.column :]
        elif what == "J":
            del self.cells[self.row][self.column :]
            del self.cells[self.row + 1 :]
        elif (what, given) in {("l", "?25"), ("h", "?25")}:
            self.cursor_is_seen = what == "h"
        else:
            raise AssertionError(f"an unknown escape sequence: {given}{what}")

    def _write(self, char: str) -> None:
        if char == "\r":
            self.column = 0
        elif char == "\n":
            self.row += 1
            self.cells += [[] for _ in range(self.row + 1 - len(self.cells))]
        elif unicodedata.combining(char):
            self.cells[self.row][self.column - 1] += char
        else:
            assert char.isprintable(), f"an unknown control character: {char!r}"
            new = [char, ""] if unicodedata.east_asian_width(char) in "WF" else [char]
            if self.column + len(new) > self.columns:
                self._write("\n")
                self.column = 0
            line = self.cells[self.row]
            line += [" "] * (self.column - len(line))
            line[self.column : self.column + len(new)] = new
            self.column += len(new)

    @property
    def rows(self) -> list[str]:
        """All lines, also those that have left the screen."""
        return ["".join(line).rstrip() for line in self.cells]

    @property
    def seen(self) -> list[str]:
        """The lines that a person sees."""
        return self.rows[-self.lines :]

    def resize(self, columns: int, lines: int) -> None:
        """Break longer lines anew, as most terminals do."""
        cells: list[list[str]] = []
        for number, line in enumerate(self.cells):
            cells += [line[at : at + columns] for at in range(0, len(line), columns)] or [[]]
            if number == self.row:
                self.row = len(cells) - 1
        self.cells, self.columns, self.lines = cells, columns, lines


class Terminal:
    """A program in a terminal."""

    def __init__(self, pid: int, master: int, screen: Screen) -> None:
        self.pid = pid
        self.screen = screen
        self.printed = ""
        self._master = master
        self._rest = b""
        self._ended: int | None = None

    def read(self, seconds: float = 0.05) -> bool:
        """Read what comes. False when the program has ended and everything is read."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        text = (self._rest + data).decode("utf-8", "ignore")
        self._rest = b""
        if data and text.encode() != self._rest + data:
            cut = len(data) - len(text.encode())
            self._rest = data[len(data) - cut :]
        half = text.rfind("\x1b")
        if half >= 0 and not _ESCAPE.match(text, half):
            self._rest = text[half:].encode() + self._rest
            text = text[:half]
        self.printed += text
        self.screen.feed(text)
        return bool(data)

    def until(self, condition: Callable[[list[str]], object], what: str = "") -> list[str]:
        """The screen once something is seen there."""
        deadline = time.monotonic() + PATIENCE
        while not condition(self.screen.seen):
            alive = self.read()
            seen = "\n".join(self.screen.rows)
            assert alive or condition(self.screen.seen), f"it ended before {what or 'that was seen'}:\n{seen}"
            assert time.monotonic() < deadline, f"{what or 'it'} was not seen:\n{seen}"
        return self.screen.seen

    def until_seen(self, *words: str) -> list[str]:
        """The screen once all these words are on it."""
        return self.until(lambda seen: all(word in "\n".join(seen) for word in words), str(words))

    def until_drawn(self) -> None:
        """Wait until a block was drawn from now on, twice."""
        before = len(self.printed)
        self.until(lambda _: self.printed[before:].count("\x1b[J") >= 2, "it was drawn again")

    def press(self, keys: str) -> None:
        """Press keys. Ctrl-C is \\x03: the terminal makes SIGINT of it."""
        os.write(self._master, keys.encode())

    def resize(self, columns: int, lines: int) -> None:
        self.screen.resize(columns, lines)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def end(self) -> int:
        """The exit code, once it has ended by itself; what it printed last is read."""
        deadline = time.monotonic() + PATIENCE
        while self.read():
            assert time.monotonic() < deadline, "it did not end:\n" + "\n".join(self.screen.rows)
        _, status = os.waitpid(self.pid, 0)
        self._ended = os.waitstatus_to_exitcode(status)
        return self._ended

    def close(self) -> None:
        if self._ended is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._master)


@contextmanager
def terminal(
    argv: Sequence[str], folder: Path, variables: Mapping[str, str], *, columns: int = 100, lines: int = 30
) -> Iterator[Terminal]:
    """A program that is started in a terminal, in a session of its own."""
    environment = {"TERM": "xterm-256color", **variables}
    pid, master = pty.fork()
    if not pid:
        try:
            os.chdir(folder)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            os.execvpe(argv[0], list(argv), environment)
        finally:
            os._exit(127)
    found = Terminal(pid, master, Screen(columns, lines))
    try:
        yield found
    finally:
        found.close()
