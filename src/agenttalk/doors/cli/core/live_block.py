"""Some lines at the end of a terminal that are drawn again and again in the same place."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_HIDE, _SHOW = "\x1b[?25l", "\x1b[?25h"
"""Hide and show the cursor."""
_TO_LINE_END, _TO_SCREEN_END = "\x1b[K", "\x1b[J"


class LiveBlock:
    """Draws lines below everything that is printed meanwhile.

    What other code prints to standard error or standard output appears above the block.
    """

    def __init__(self, console: Console) -> None:
        """`console` is that of the terminal's stream."""
        self._console = console
        self._stream: TextIO = console.file  # type: ignore[assignment]  # the real one, before it is replaced
        self._lock = threading.RLock()
        self._lines: list[Text] = []
        self._drawn: tuple[int, list[str]] = (0, [])
        """The width of the terminal, and the lines as they were written."""
        self._cells: list[int] = []
        """The width of each drawn line."""
        self._replaced: list[tuple[str, TextIO]] = []

    def open(self) -> None:
        """Begin: from now on, what is printed goes above the block."""
        self._stream.write(_HIDE)
        for name in ("stderr", "stdout"):
            stream = getattr(sys, name)
            if stream.isatty():
                self._replaced.append((name, stream))
                setattr(sys, name, _PrintedAbove(self, stream))

    def close(self) -> None:
        """Remove the block, and let others print as before."""
        for name, stream in self._replaced:
            getattr(sys, name).flush()
            setattr(sys, name, stream)
        self._replaced.clear()
        with self._lock:
            self._stream.write(self._erase() + _SHOW)
            self._stream.flush()

    @property
    def size(self) -> tuple[int, int]:
        """The columns and lines that the block may have."""
        width, height = self._console.size
        return max(1, width - 1), max(1, height - 1)

    def draw(self, lines: Sequence[str]) -> None:
        """Draw lines of rich markup in place of the ones before. A line that is too long is cut."""
        from rich.text import Text

        with self._lock:
            self._lines = [Text.from_markup(line, emoji=False) for line in lines]
            self._redraw()

    def print_above(self, text: str, stream: TextIO) -> None:
        """Write whole lines of text above the block."""
        with self._lock:
            self._stream.write(self._erase())
            self._stream.flush()
            stream.write(text)
            stream.flush()
            self._redraw()

    def _redraw(self) -> None:
        width, height = self.size
        shown = self._lines[:height]
        for line in shown:
            line.truncate(width, overflow="ellipsis")
        written = [self._render(line) for line in shown]
        if (width, written) == self._drawn:
            return
        up = self._move_up(width)
        body = "".join(f"{line}{_TO_LINE_END}\n" for line in written)
        self._stream.write(f"{up}{body}{_TO_SCREEN_END}")
        self._stream.flush()
        self._drawn, self._cells = (width, written), [line.cell_len for line in shown]

    def _render(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", no_wrap=True, soft_wrap=True)
        return captured.get()

    def _erase(self) -> str:
        up = self._move_up(self.size[0])
        self._drawn, self._cells = (0, []), []
        return f"{up}{_TO_SCREEN_END}"

    def _move_up(self, width: int) -> str:
        """Move to where the block begins. A terminal that became narrower has broken its lines into several."""
        columns = width + 1
        rows = sum(max(1, -(-cells // columns)) for cells in self._cells)
        return f"\r\x1b[{rows}A" if rows else "\r"


class _PrintedAbove(io.TextIOBase):
    """A stream whose whole lines are printed above a block."""

    def __init__(self, block: LiveBlock, stream: TextIO) -> None:
        self._block = block
        self._stream = stream
        self._rest = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Return the encoding of the stream."""
        return self._stream.encoding

    def write(self, text: str) -> int:
        """Write text; the last line is kept until it is complete."""
        lines, end, self._rest = (self._rest + text).rpartition("\n")
        if end:
            self._block.print_above(lines + end, self._stream)
        return len(text)

    def flush(self) -> None:
        """Write a line that is not complete, too."""
        if self._rest:
            rest, self._rest = self._rest, ""
            self._block.print_above(f"{rest}\n", self._stream)

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the stream itself."""
        return self._stream.fileno()
