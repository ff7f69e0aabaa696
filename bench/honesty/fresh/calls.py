"""The command line in forks of a process that has loaded everything: loading takes longer than most of what it does."""

from __future__ import annotations

import os
import pkgutil
import select
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

PROGRAMS = ("agenttalk.skills", "agenttalk.demo", "agenttalk.adapters.answering", "agenttalk.__main__")
"""What is started and not imported."""


class CallEnd(NamedTuple):
    """How a call ended; without a code it took too long."""

    code: int | None
    out: str


def load() -> None:
    """Load every module of the product."""
    import agenttalk

    for each in pkgutil.walk_packages(agenttalk.__path__, "agenttalk.", onerror=lambda _: None):
        if not each.name.startswith(PROGRAMS):
            import_module(each.name)


def call(words: list[str], folder: Path, variables: dict[str, str], seconds: float) -> CallEnd:
    """Call `agenttalk` in a folder, in a fork of this process, which must have no other thread."""
    told = folder / f"told-{os.getpid()}-{words[0]}"
    pid = os.fork()
    if pid == 0:
        _be(words, folder, variables, told)
    process = os.pidfd_open(pid)
    try:
        in_time = bool(select.select([process], [], [], seconds)[0])
        if not in_time:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(process)
    text = told.read_text(encoding="utf-8", errors="replace") if told.exists() else ""
    return CallEnd(os.waitstatus_to_exitcode(status) if in_time else None, text)


def _be(words: list[str], folder: Path, variables: dict[str, str], told: Path) -> NoReturn:
    """Live as the program that is called, and end as it ends."""
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        for number, path, mode in ((0, os.devnull, os.O_RDONLY), (1, told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
            opened = os.open(path, mode, 0o600)
            os.dup2(opened, number)
        os.dup2(1, 2)
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        sys.argv = ["agenttalk", *words]
        from agenttalk.doors.cli.main import run

        run()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as an interpreter does it
        sys.excepthook(*sys.exc_info())
    for text in (sys.stdout, sys.stderr):
        text.flush()
    os._exit(code)
