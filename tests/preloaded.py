"""The command line as processes that have loaded everything when they begin.

Loading takes longer than most of what commands do. `python preloaded.py SOCKET` loads it once, has no thread, and
forks a process for each call. It gets the arguments, variables, folder and streams of whoever calls, and ends as a
program of its own would. Whoever calls is the small program in CALLER; what happens to it happens to the process too:
signals are passed on, and when it is killed the process is killed. That comes a moment later: whoever wants to see
what a kill leaves sends KILL, after which nobody ends before the process is dead, or starts the program itself.
"""

from __future__ import annotations

import array
import atexit
import gc
import marshal
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

SCRIPTS: Final = (
    "agenttalk.skills",
    "agenttalk.demo.team",
    "agenttalk.demo.forge_team",
    "agenttalk.demo.proof",
    "agenttalk.adapters.answering",
    "agenttalk.__main__",
)
"""Programs that are started and not imported."""
SELDOM: Final = (
    "agenttalk.adapters.drivers.acp",
    "agenttalk.adapters.drivers.acp_tool_calls",
    "agenttalk.adapters.store.postgres",
)
"""What takes long to load, and few commands need."""
LATE: Final = (
    "concurrent.futures.thread",
    "rich.live",
    "rich.markup",
    "rich.tree",
    "typer._adapters",
    "typer.rich_utils",
)
"""What commands load when they need it, and most of them need."""
CALLER: Final = """
import _socket, array, marshal, os, signal, sys
line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
line.connect(sys.argv[1])
here = os.open(".", os.O_RDONLY)
request = marshal.dumps((sys.argv[2:], dict(os.environ)))
rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [0, 1, 2, here]).tobytes())
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: line.send(bytes([number])))
signal.signal(signal.SIGUSR1, lambda *_: line.send(bytes([signal.SIGKILL])))
line.sendmsg([request], [rights])
ended = line.recv(16)
if not ended:
    sys.exit("whoever forks the processes is gone")
code = int(ended)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
MOST: Final = 1 << 20
KILL: Final = signal.SIGUSR1
"""Kills the process, not who calls."""


@cache
def program() -> str:
    """An `agenttalk` that is quick; in its folder is nothing else by that name. It is there until this process ends."""
    stack = ExitStack()
    folder = stack.enter_context(_preloaded())
    atexit.register(stack.close)
    return str(folder / "agenttalk")


def run(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Call it as somebody does whose terminal is wide, and who has set nothing up."""
    from kits.sandboxkit import PLAIN_VARIABLE  # the server needs no pytest

    clean = {
        key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK") or key == PLAIN_VARIABLE
    }
    return subprocess.run(
        [program(), *arguments],
        input=stdin,
        env={**clean, "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@contextmanager
def _preloaded() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="at-program-") as name:
        folder = Path(name)
        made = folder / "agenttalk"
        (folder / "caller.py").write_text(CALLER, encoding="utf-8")
        call = f'exec "{sys.executable}" -I -S "{folder}/caller.py" "{folder}/socket" "$@"'
        made.write_text(f"#!/bin/sh\n{call}\n", encoding="utf-8")
        made.chmod(0o755)
        variables = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTALK", "COV_"))}
        command = [sys.executable, __file__, str(folder / "socket")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**variables, "LC_ALL": "C.UTF-8"}
        ) as server:
            assert server.stdout
            assert server.stdout.readline() == b"listening\n"
            yield folder


def serve(path: str) -> None:
    """Fork for each call, until whoever started us is gone."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(64)
    os.write(1, b"listening\n")
    while listening in select.select([listening, sys.stdin], [], [])[0]:
        line, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _attend(line)
        line.close()
        _reap()


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _attend(line: socket.socket) -> NoReturn:
    """Begin the process that is asked for, pass signals on to it, and tell how it ended."""
    data, rights, _, _ = line.recvmsg(MOST, socket.CMSG_SPACE(4 * array.array("i").itemsize))
    streams = array.array("i", rights[0][2])
    pid = os.fork()
    if pid == 0:
        line.close()
        arguments, variables = marshal.loads(data)
        _be(arguments, variables, streams)
    process = os.pidfd_open(pid)
    while True:
        ready, _, _ = select.select([line.fileno(), process], [], [])
        if process in ready:
            break
        said = line.recv(16)
        signal.pidfd_send_signal(process, said[0] if said else signal.SIGKILL)
        if not said:
            break
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        line.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _be(arguments: list[str], variables: dict[str, str], streams: array.array[int]) -> NoReturn:
    """Live as a program that was just started, and end as one ends."""
    os.setsid()
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    os.fchdir(streams[3])
    os.closerange(3, max(streams) + 1)
    os.environ.clear()
    os.environ.update(variables)
    sys.dont_write_bytecode = bool(variables.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = ["agenttalk", *arguments]
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    code = 1
    try:
        from agenttalk.doors.cli.main import run

        run()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:  # noqa: BLE001 - as an interpreter does it
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for text in (sys.stdout, sys.stderr):
        try:
            text.flush()
        except OSError:
            code = code or 120
    os._exit(code)


def load() -> None:
    """Import every module of the product, and what it would load and build at its first use."""
    import agenttalk

    sys.dont_write_bytecode = False  # what is compiled once serves all that are started later
    for each in pkgutil.walk_packages(agenttalk.__path__, "agenttalk.", onerror=lambda _: None):
        if not each.name.startswith((*SCRIPTS, *SELDOM)):
            import_module(each.name)
    for name in LATE:
        import_module(name)
    _build_models()
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()


def _build_models() -> None:
    """Have every model make its validator, which else each process would do for itself."""
    from pydantic import BaseModel

    left: list[type[BaseModel]] = BaseModel.__subclasses__()
    while left:
        model = left.pop()
        left += model.__subclasses__()
        if model.__module__.startswith("agenttalk."):
            model.model_rebuild()


if __name__ == "__main__":
    load()
    serve(sys.argv[1])
