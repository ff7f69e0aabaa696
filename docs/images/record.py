"""Records a terminal session as an animated SVG: `python docs/images/record.py SESSION OUTPUT.svg`.

A session is a shell script. Its lines are typed and run one after the other, in an empty folder and in a terminal of
their own; a line that begins with `#!` is run unseen. What the picture shows is what the programs print, when they
print it; only long pauses are shortened. The picture loads nothing, and runs no code. It needs pyte, which no target
installs: `pip install pyte`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final, NamedTuple

import pyte
from pyte.screens import Char

WIDTH, HEIGHT = 100, 30
LINE, CHARACTER = 20, 8.4
"""Height of a line and width of a character, in pixels."""
MARGIN: Final = 16
KEY, PAUSE, END = 0.1, 0.9, 5.0
"""Seconds for some typed characters, after a command, and at the end."""
KEYS: Final = 3
"""Characters that appear together when a line is typed."""
LONGEST: Final = 1.2
"""A longer time without output is shown as this long."""
PROMPT: Final = "$ "
NOT_FOUND: Final = 127
"""The exit code of a shell that found no such program."""
COLOURS: Final = {
    "default": "#d8dee9",
    "black": "#4c566a",
    "red": "#e5707a",
    "green": "#8fce72",
    "brown": "#e6c06a",
    "blue": "#7fa9e0",
    "magenta": "#c792ea",
    "cyan": "#6fc8d6",
    "white": "#eceff4",
}


class Line(NamedTuple):
    """A line of the screen, as SVG, and how long it was seen."""

    row: int
    content: str
    begin: float
    end: float


class Recording:
    """A screen, and what was seen on it."""

    def __init__(self) -> None:
        self._screen = pyte.Screen(WIDTH, HEIGHT)
        self._stream = pyte.ByteStream(self._screen)
        self._seen: dict[int, tuple[str, float]] = {}
        self.lines: list[Line] = []
        self.time = 0.0
        self.rows = 1

    def feed(self, data: bytes) -> None:
        """Show output."""
        self._stream.feed(data)
        for row in range(HEIGHT):
            content = draw_line([self._screen.buffer[row][column] for column in range(WIDTH)])
            before, begin = self._seen.get(row, ("", 0.0))
            if content != before:
                self._keep(row, before, begin)
                self._seen[row] = (content, self.time)
            if content:
                self.rows = max(self.rows, row + 1)

    def finish(self) -> None:
        """Keep what is seen at the end."""
        for row, (content, begin) in self._seen.items():
            self._keep(row, content, begin)

    def _keep(self, row: int, content: str, begin: float) -> None:
        if content and self.time > begin:
            self.lines.append(Line(row, content, begin, self.time))


def draw_line(characters: list[Char]) -> str:
    """Draw a line as SVG: one span for each run of characters that look alike."""
    while characters and not characters[-1].data.strip():
        characters = characters[:-1]
    spans: list[tuple[str, str]] = []
    for character in characters:
        style = f'fill="{COLOURS.get(character.fg, "#" + character.fg)}"'
        style += ' font-weight="bold"' if character.bold else ""
        text = character.data or ""
        if spans and spans[-1][0] == style:
            spans[-1] = (style, spans[-1][1] + text)
        else:
            spans.append((style, text))
    return "".join(f"<tspan {style}>{escape(text)}</tspan>" for style, text in spans)


def run_command(command: str, folder: str) -> Iterator[tuple[bytes, float]]:
    """Run a command in a terminal. Yields its output, and how long each piece was waited for."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
    size = {"TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": str(HEIGHT)}
    program = subprocess.Popen(  # noqa: S603 - the session is ours
        ["/bin/sh", "-c", command],
        cwd=folder,
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=os.environ | size,
        start_new_session=True,
    )
    os.close(follower)
    before = time.monotonic()
    while select.select([leader], [], []):
        try:
            data = os.read(leader, 65536)
        except OSError:  # the last program with this terminal has ended
            break
        now = time.monotonic()
        yield data, now - before
        before = now
    os.close(leader)
    if program.wait() == NOT_FOUND:
        raise SystemExit(f"a program of this line was not found: {command}")


def record(session: Path) -> Recording:
    """Run a session, and record it."""
    recording = Recording()
    with tempfile.TemporaryDirectory(prefix="agenttalk-recording-") as folder:
        for line in session.read_text(encoding="utf-8").splitlines():
            if line.startswith("#!"):
                subprocess.run(["/bin/sh", "-c", line[2:]], cwd=folder, check=True, capture_output=True)  # noqa: S603
                continue
            if not line.strip():
                continue
            recording.feed(b"\x1b[1;32m" + PROMPT.encode() + b"\x1b[0m")
            for place in range(0, len(line), KEYS):
                recording.time += KEY
                recording.feed(line[place : place + KEYS].encode())
            recording.time += PAUSE / 2
            recording.feed(b"\r\n")
            for data, waited in run_command(line, folder):
                recording.time += min(waited, LONGEST)
                recording.feed(data)
            recording.time += PAUSE
    recording.time += END
    recording.finish()
    return recording


def draw(recording: Recording, title: str) -> str:
    """Draw a recording as an SVG that begins again at its end."""
    width, height = WIDTH * CHARACTER + 2 * MARGIN, recording.rows * LINE + 2 * MARGIN
    names = {moment: f"m{number}" for number, moment in enumerate(sorted({line[2:] for line in recording.lines}))}
    rules = []
    for (begin, end), name in names.items():
        first, last = 100 * begin / recording.time, 100 * end / recording.time
        frames = "0%{visibility:hidden}" if begin > 0 else ""
        frames += f"{first:.3f}%{{visibility:visible}}"
        frames += f"{last:.3f}%{{visibility:hidden}}" if end < recording.time else ""
        rest = "hidden" if end < recording.time else "visible"  # without animations the end is seen
        rules.append(f"@keyframes {name}{{{frames}}}")
        rules.append(f".{name}{{visibility:{rest};animation:{name} {recording.time:.2f}s step-end infinite}}")
    texts = [
        f'<text class="{names[line[2:]]}" x="{MARGIN}" y="{MARGIN + LINE * line.row + 15}"'
        f' xml:space="preserve">{line.content}</text>'
        for line in recording.lines
    ]
    style = "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    style += "".join(rules) + "@media (prefers-reduced-motion:reduce){text{animation:none!important}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"'
        f' aria-label="{escape(title, quote=True)}"><title>{escape(title)}</title><style>{style}</style>'
        f'<rect width="100%" height="100%" rx="8" fill="#20242c"/>{"".join(texts)}</svg>\n'
    )


def main() -> None:
    """Record the session that is named."""
    session, output = Path(sys.argv[1]), Path(sys.argv[2])
    title = session.read_text(encoding="utf-8").partition("\n")[0].removeprefix("#!:").strip()
    output.write_text(draw(record(session), title), encoding="utf-8")


if __name__ == "__main__":
    main()
