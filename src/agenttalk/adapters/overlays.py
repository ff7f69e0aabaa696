"""Overlay mounts: trees that share the files of one pristine tree, and keep what is written apart.

Some machines forbid them: the kernel, its settings, the file system of the folder. So they are tried before use.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from agenttalk.adapters import overlay_process, sandbox
from agenttalk.ports.agents import MountNamespace

_SECONDS: Final = 20.0
"""How long an answer may take."""
_OPTIONS: Final = {"": (b"redirect_dir=on,", b""), overlay_process.USER: (b"userxattr,",)}
"""Who mounts → options, the best first: without redirect_dir, a folder of the pristine tree cannot be renamed."""


class OverlayMounts:
    """Mounts overlays in a view of the file system that no other process has, by a process of our own."""

    def __init__(self, user: str = "") -> None:
        """Start the process; with the `user` namespace for a user without rights. Raises OSError when it cannot."""
        self._lock = threading.Lock()
        self._silent = False
        """Whether an answer did not come in time: it may still come, and must not count for another request."""
        # A session of its own, so that Ctrl-C in a terminal does not end it: its mounts are in use until the engine
        # has ended its checks.
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", str(overlay_process.__file__), *([user] if user else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
            start_new_session=True,
        )
        self._options = b""
        self._candidates = _OPTIONS[user]
        try:
            number = self._receive()[1]
        except BaseException:
            self.close()
            raise
        self.namespace = MountNamespace(self._process.pid, number)

    def mount(self, top: Path, name: str, lower: str) -> Path:
        """Mount an overlay over `top`/NAME/tree, with `upper` and `work` beside it; return the path by which we see it.

        `lower` is relative to `top`. Neither name may need escapes. Raises OSError.
        """
        self._ask(overlay_process.MOUNT, os.fsencode(top), name.encode(), lower.encode(), self._options)
        path = Path(f"/proc/{self._process.pid}/root{top}/{name}/tree")
        # Seen through the namespace, a mounted tree is another folder than the one below it. Without this, a mount
        # that silently failed would have the check write into the folder itself.
        if path.samefile(top / name / "tree"):
            raise OSError(f"there is no mount at {path}")
        return path

    def unmount(self, top: Path, name: str) -> None:
        """Unmount it. Programs that still use it go on with it. Raises OSError."""
        self._ask(overlay_process.UNMOUNT, os.fsencode(top), name.encode())

    def close(self) -> None:
        """End the process, and with it all mounts."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        # Killing is enough: the kernel unmounts what is in a namespace that no process uses any more.
        self._process.kill()
        self._process.wait()

    def work_in(self, top: Path) -> bool:
        """Try a mount in a folder: whether it keeps writing apart, also by a sandboxed program."""
        trial = Path(tempfile.mkdtemp(prefix="overlay-", dir=top)).absolute()
        try:
            for folder in ("lower/inner", "one/upper", "one/work", "one/tree"):
                (trial / folder).mkdir(parents=True)
            (trial / "lower/inner/file").write_bytes(b"lower")
            return any(self._works(trial, options) for options in self._candidates)
        finally:
            sandbox.erase(trial)

    def _works(self, trial: Path, options: bytes) -> bool:
        self._options = options
        try:
            seen = self.mount(trial, "one", "lower")
        except OSError:
            return False
        try:
            (seen / "inner/file").write_bytes(b"upper")
            (seen / "inner/file").rename(seen / "moved")
            (seen / "inner").rmdir()
            apart = (trial / "lower/inner/file").read_bytes() == b"lower" and (seen / "moved").read_bytes() == b"upper"
            return apart and self._is_seen_in_sandbox(trial)
        except OSError:
            return False
        finally:
            self.unmount(trial, "one")

    def _is_seen_in_sandbox(self, trial: Path) -> bool:
        """Return whether bubblewrap works in the view, and shows the overlay there; True without bubblewrap."""
        program = sandbox.find_bubblewrap()
        if program is None:
            return True
        with tempfile.TemporaryDirectory(prefix="overlay-") as temporary:
            room = sandbox.SandboxSpec((trial / "one/tree",), Path("/"), Path(temporary), {})
            script = 'test -f "$1/moved" && echo more >"$1/more"'
            shell = shutil.which("sh", path=os.defpath) or "/bin/sh"
            argv = sandbox.wrap_command(program, room, (shell, "-c", script, "sh", str(trial / "one/tree")))
            self._ask(overlay_process.RUN, *map(os.fsencode, argv))
        return (trial / "one/upper/more").exists()

    def _ask(self, *words: bytes) -> None:
        body = b"\0".join(words)
        with self._lock:
            if self._silent:
                raise OSError("the process that mounts overlays did not answer")
            assert self._process.stdin is not None  # noqa: S101 - for mypy: it is a pipe
            self._process.stdin.write(len(body).to_bytes(4, "big") + body)
            self._process.stdin.flush()
            self._receive()

    def _receive(self) -> tuple[bytes, int]:
        """Read an answer: a word and a number. Raises OSError for a failure, or when there is none."""
        assert self._process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
        descriptor, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([descriptor], [], [], _SECONDS)
            data = os.read(descriptor, 4096) if readable else b""
            if not data:
                self._silent = True
                raise OSError("the process that mounts overlays does not answer")
            line += data
        word, _, number = line.strip().partition(b" ")
        if word == b"failed":
            raise OSError(int(number), os.strerror(int(number)))
        return word, int(number or 0)


def start_overlays(top: Path) -> OverlayMounts | None:
    """Start what mounts overlays in a folder; None where that does not work."""
    for user in _OPTIONS:
        try:
            mounts = OverlayMounts(user)
        except OSError:
            continue
        try:
            if mounts.work_in(top):
                return mounts
        except OSError:
            pass
        mounts.close()
    return None
