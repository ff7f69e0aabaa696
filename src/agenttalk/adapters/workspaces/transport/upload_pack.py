"""Serves one commit, and all that leads to it, to `git fetch`.

Each request gets a repository of its own that borrows the user's objects and has one ref. It is removed afterwards. The
user's configuration, hooks and refs are never read. git's protocol is version 0: version 2 hands out any object whose
hash the other side knows.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from agenttalk.adapters.workspaces import folders
from agenttalk.adapters.workspaces.async_methods import in_thread, threaded
from agenttalk.adapters.workspaces.git import make_git_dir
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceHome
from agenttalk.adapters.workspaces.transport.fetch_request import FLUSH, FetchRequest, packet
from agenttalk.contracts.errors import Code, MachineError

_PIECE: Final = 64 * 1024
_SERVICE: Final = b"# service=git-upload-pack\n"
_CONFIG: Final = """[pack]
	threads = 1
[uploadpack]
	allowTipSHA1InWant = false
	allowReachableSHA1InWant = false
	allowAnySHA1InWant = false
	allowFilter = false
	keepAlive = 5
"""
IDLE_SECONDS: Final = 60.0
"""Seconds in which the other side has to take the next piece, and git has to make it."""
TOTAL_SECONDS: Final = 1800.0
"""Seconds that a fetch may take."""


class UploadPack:
    """Serves commits of one plan."""

    def __init__(self, objects: GitObjects, branch: str, home: WorkspaceHome) -> None:
        """`branch` is the name under which the one commit is seen."""
        self._objects = objects
        self._branch = branch
        self._home = home

    async def advertise(self, commit: str) -> bytes:
        """Return what `info/refs` answers: the one ref."""
        async with self._opened(commit) as git_dir:
            pieces = [piece async for piece in self._run(git_dir, b"", "--http-backend-info-refs")]
        return packet(_SERVICE) + FLUSH + b"".join(pieces)

    async def stream(self, commit: str, request: FetchRequest) -> AsyncIterator[bytes]:
        """Answer a request, piece by piece. The process ends with the iteration."""
        known = await self._find_ancestors(commit, {*request.has, *request.shallow})
        async with self._opened(commit) as git_dir:
            async for piece in self._run(git_dir, request.write(commit, known)):
                yield piece

    @asynccontextmanager
    async def _opened(self, commit: str) -> AsyncIterator[Path]:
        git_dir = await self._make(commit)
        try:
            yield git_dir
        finally:
            await in_thread(folders.remove, git_dir, self._home.trash)

    @threaded
    def _make(self, commit: str) -> Path:
        top = folders.make_fresh_folder(self._home.temporary)
        make_git_dir(top, self._objects.algorithm)
        with (top / "config").open("a") as config:
            config.write(_CONFIG)
        (top / "objects" / "info" / "alternates").write_text(f"{self._objects.store}\n")
        shallow = self._objects.refs.location.git_dir / "shallow"
        if shallow.exists():
            (top / "shallow").write_bytes(shallow.read_bytes())
        head = top / "refs" / "heads" / self._branch
        head.parent.mkdir(parents=True, exist_ok=True)
        head.write_text(f"{commit}\n")
        (top / "HEAD").write_text(f"ref: refs/heads/{self._branch}\n")
        return top

    @threaded
    def _find_ancestors(self, commit: str, names: set[str]) -> set[str]:
        """Find which of some names are commits that lead to our commit."""
        if not names:
            return set()
        asked = "".join(f"{name}\n" for name in sorted(names)).encode()
        found = self._objects.call("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked).out
        commits = {line.split()[0].decode() for line in found.splitlines() if line.endswith(b" commit")}
        if not commits:
            return set()
        revisions = "".join(f"{name}\n" for name in (*sorted(commits), f"^{commit}")).encode()
        foreign = self._objects.call("rev-list", "--stdin", stdin=revisions).out.decode().split()
        return commits - set(foreign)

    async def _run(self, git_dir: Path, request: bytes, *options: str) -> AsyncIterator[bytes]:
        git, loop = self._objects.git, asyncio.get_running_loop()
        deadline = loop.time() + TOTAL_SECONDS
        process = await asyncio.create_subprocess_exec(
            git.program,
            *("upload-pack", "--strict", "--stateless-rpc", f"--timeout={IDLE_SECONDS:.0f}"),
            *options,
            str(git_dir),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=git.nothing,
            env=git.environment(),
            start_new_session=True,
        )
        assert process.stdin is not None  # noqa: S101 - for mypy: both are pipes
        assert process.stdout is not None  # noqa: S101 - as above
        feeding = asyncio.create_task(_feed(process.stdin, request))
        try:
            while piece := await asyncio.wait_for(
                process.stdout.read(_PIECE), max(0.0, min(IDLE_SECONDS, deadline - loop.time()))
            ):
                yield piece
        except TimeoutError as error:
            raise MachineError(Code.FILE_UNREADABLE, "git did not serve the fetch in time") from error
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            feeding.cancel()
            await process.wait()


async def _feed(pipe: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()
