"""One shell in which commands are typed one after the other, as somebody does who follows a page."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

END = "that was the command, and it ended with"


@dataclass
class Shell:
    """A bash that lives until the page is read to its end."""

    typed: IO[str]
    shown: IO[str]

    def type(self, command: str) -> tuple[int, str]:
        """Type a command; how it ended, and what it printed."""
        self.typed.write(f"{command}\necho; echo '{END}' $?\n")
        self.typed.flush()
        lines: list[str] = []
        for line in self.shown:
            if line.startswith(END):
                printed = "".join(lines).removesuffix("\n")  # the line that our own echo began
                return int(line.removeprefix(END)), printed
            lines.append(line)
        raise AssertionError(f"the shell ended at: {command}\n{''.join(lines)}")


@contextmanager
def shell(folder: Path, variables: Mapping[str, str], *, seconds: int) -> Iterator[Shell]:
    """A shell in a folder. It, and whatever was started in it, is ended when the block ends or the time is up."""
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc"],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout

    def end() -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    watch = threading.Timer(seconds, end)
    watch.start()
    try:
        yield Shell(process.stdin, process.stdout)
    finally:
        watch.cancel()
        end()
        with process:
            pass
