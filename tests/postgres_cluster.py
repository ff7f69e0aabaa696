"""A private PostgreSQL cluster for tests and benchmarks: a free port, a temporary folder, stopped at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "PostgreSQL's programs are missing (make postgres installs Debian's)"


def programs() -> Path | None:
    """The folder with initdb and postgres, of the newest version that is installed."""
    debian = Path("/usr/lib/postgresql")
    found = sorted(debian.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    return Path(elsewhere).resolve().parent if elsewhere else None


@contextmanager
def running(where: Path | None = None) -> Iterator[str]:
    """The URL of a cluster that runs inside the block, in a new folder (under `where`)."""
    with tempfile.TemporaryDirectory(prefix="agenttalk-pg-", dir=where) as scratch:
        home = Path(scratch)
        try:
            yield start(home)
        finally:
            stop(home)


def start(home: Path) -> str:
    """Have a cluster run in a folder, unless it does; its URL. `stop` ends it."""
    folder, noted = programs(), home / "port"
    if folder is None:
        raise RuntimeError(MISSING)
    if not noted.exists():
        if os.getuid() == 0:
            shutil.chown(home, "postgres")
        data, port = home / "data", _free_port()
        _run(folder / "initdb", "-D", data, "-U", "agenttalk", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        options = f"-p {port} -k {home} -c listen_addresses='' -c max_connections=200"
        _run(folder / "pg_ctl", "-D", data, "-l", home / "log", "-w", "-o", options, "start")
        noted.write_text(str(port), encoding="utf-8")
    return f"postgresql://agenttalk@/postgres?host={home}&port={noted.read_text(encoding='utf-8')}"


def stop(home: Path) -> None:
    """End the cluster of a folder, if there is one."""
    folder = programs()
    if folder is not None and (home / "data" / "postmaster.pid").exists():
        _run(folder / "pg_ctl", "-D", home / "data", "-m", "immediate", "-w", "stop")


def _run(*words: object) -> None:
    command = [str(word) for word in words]
    if os.getuid() == 0:  # PostgreSQL refuses to run as root
        command = ["runuser", "-u", "postgres", "--", *command]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd="/", timeout=600)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
