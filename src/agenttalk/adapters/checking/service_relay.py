"""Starts a service and makes its port reachable through a socket that is a file. A program: it runs in the sandbox.

The sandbox of a check has a network of its own, so nothing outside can connect to a port in it. A file can be reached
from both sides. It is called as `service_relay.py SOCKET PORT PROGRAM...`, and ends with the exit code of the program.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

_PIECE = 64 * 1024
_PAUSE = 0.02
_WAITING = 64
"""Connections that may wait to be accepted."""


def main(name: str, port: int, argv: list[str]) -> int:
    """Start the program, listen when its port is open, and end when it ends."""
    folder = os.environ["TMPDIR"]
    with subprocess.Popen(argv) as service:  # noqa: S603 - the command of the check
        while service.poll() is None:
            try:
                _connect(port).close()
            except OSError:
                time.sleep(_PAUSE)
                continue
            listener = socket.socket(socket.AF_UNIX)
            # A relative name, because a path may be longer than such an address.
            back = os.open(".", os.O_RDONLY)
            os.chdir(folder)
            listener.bind(f"{name}.new")
            listener.listen(_WAITING)
            Path(f"{name}.new").rename(name)  # it appears when it can be connected to
            os.fchdir(back)
            threading.Thread(target=relay_connections, args=(listener, lambda: _connect(port)), daemon=True).start()
            return service.wait()
        return service.returncode


def relay_connections(listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
    """Pass each connection on to another one, which `connect` makes. It does not return."""
    while True:
        client, _ = listener.accept()
        threading.Thread(target=_relay, args=(client, connect), daemon=True).start()


def _relay(client: socket.socket, connect: Callable[[], socket.socket]) -> None:
    with client:
        try:
            service = connect()
        except OSError:
            return
        with service:
            other = threading.Thread(target=_copy, args=(client, service), daemon=True)
            other.start()
            _copy(service, client)
            other.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(_PIECE):
            target.sendall(piece)
    except OSError:
        pass
    finally:
        for end, how in ((source, socket.SHUT_RD), (target, socket.SHUT_WR)):
            try:
                end.shutdown(how)
            except OSError:
                continue


def _connect(port: int) -> socket.socket:
    """Connect to the service, in the version of the protocol in which it listens."""
    try:
        return socket.create_connection(("127.0.0.1", port))
    except ConnectionRefusedError:
        return socket.create_connection(("::1", port))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
