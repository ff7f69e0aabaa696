"""Finds out whether the process at the other end of a connection is an agent's.

Over a unix socket the kernel names the process that connected. Over TCP it lists both ends of a local connection, and
all processes of agents are below our own; those in a sandbox too, with the ids that they have here.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

from agenttalk.adapters.drivers import ancestry, keeper

_GONE: Final = "it is gone, so its origin is unknown"
_ESTABLISHED: Final = 1
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def attempt_of(bound: socket.socket) -> str:
    """Explain how the process that opened a connection is known to be an agent's; empty when it is not."""
    if bound.family == socket.AF_UNIX:
        pid: int = struct.unpack("3i", bound.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        if pid and keeper.read_process(pid) is None:
            return _GONE
        return (
            ancestry.attempt_of(pid) if pid else ""
        )  # 0 means a process of another namespace, where no agent of ours runs
    below = keeper.signal_descendants(os.getpid())
    return _over_tcp(bound, [process.pid for process in below]) if below else ""


def _over_tcp(bound: socket.socket, pids: list[int]) -> str:
    try:
        inode = _inode(bound.getpeername(), bound.getsockname())
        state = bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:
        return _GONE
    if inode is None:  # it comes from another machine, or it was closed and is not listed any more
        return "" if state == _ESTABLISHED else _GONE
    if inode == b"0":
        return _GONE
    wanted = f"socket:[{inode.decode()}]"
    for pid in pids:
        if wanted in _open(pid):
            return ancestry.attempt_of(pid)
    return ""


def _open(pid: int) -> set[str]:
    """List what a process has open; nothing for one that is gone."""
    folder = f"/proc/{pid}/fd"
    targets = set()
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - the names alone
            try:
                targets.add(os.readlink(f"{folder}/{name}"))  # noqa: PTH115 - as it is written
            except OSError:
                continue
    except OSError:
        return targets
    return targets


def _inode(here: tuple[str, int], there: tuple[str, int]) -> bytes | None:
    """Find the local socket that is bound to `here` and connected to `there`."""
    ends = [(_spelled(here, wide=wide), _spelled(there, wide=wide)) for wide in (False, True)]
    for table in _TABLES:
        try:
            lines = table.read_bytes().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            _, local, remote, _, _, _, _, _, _, inode, *_ = line.split()
            if (local, remote) in ends:
                return inode
    return None


def _spelled(end: tuple[str, int], *, wide: bool) -> bytes:
    """Format an end of a connection as the kernel lists it: words of four bytes in the machine's byte order."""
    address, port = end
    host, _, _ = address.partition("%")
    if ":" in host:
        packed = socket.inet_pton(socket.AF_INET6, host)
    else:
        packed = (b"\0" * 10 + b"\xff\xff" if wide else b"") + socket.inet_pton(socket.AF_INET, host)
    words = struct.unpack(f"={len(packed) // 4}I", packed)
    return b"".join(b"%08X" % word for word in words) + b":%04X" % port
