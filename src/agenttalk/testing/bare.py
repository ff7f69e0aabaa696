"""Real bare git repositories, as a forge keeps them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GIT: Final = ("git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")

NOREPLY: Final = "@noreply.example.test"
"""How addresses of accounts end."""


class GitFailedError(Exception):
    """git would not do it."""


@dataclass(frozen=True, slots=True)
class Bare:
    """One bare repository."""

    path: Path

    @classmethod
    def made(cls, path: Path) -> Bare:
        """A new one, with `main` as its default branch and with pushing over HTTP allowed."""
        path.mkdir(parents=True)
        bare = cls(path)
        bare.git("init", "--quiet", "--bare", "--initial-branch=main", str(path))
        bare.git("config", "http.receivepack", "true")
        return bare

    def git(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> str:
        """Run git in the repository and return what it printed; raises GitFailedError."""
        done = subprocess.run(  # noqa: S603 - fixed program, arguments as a list
            [*_GIT, "-C", str(self.path), *arguments],
            input=stdin,
            capture_output=True,
            env={**_environment(), **(env or {})},
            check=False,
            timeout=60,
        )
        if done.returncode != 0:
            raise GitFailedError(done.stderr.decode(errors="replace")[:500])
        return done.stdout.decode(errors="replace").strip()

    def head(self, branch: str) -> str:
        """The commit of a branch; empty when there is no such branch."""
        try:
            return self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
        except GitFailedError:
            return ""

    def branches(self) -> dict[str, str]:
        """Branch → commit."""
        lines = self.git("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads").splitlines()
        return dict(line.rsplit(" ", 1) for line in lines)

    def commit(self, branch: str, files: Mapping[str, str | None], message: str, author: str, *, base: str = "") -> str:
        """Put files (None removes one) onto a branch, which is made from `base` when there is none."""
        parent = self.head(branch) or self.head(base or "main")
        index = {"GIT_INDEX_FILE": str(self.path / f"index.{os.urandom(4).hex()}")}
        if parent:
            self.git("read-tree", parent, env=index)
        for name, content in files.items():
            if content is None:
                self.git("update-index", "--force-remove", name, env=index)
            else:
                blob = self.git("hash-object", "-w", "--stdin", stdin=content.encode())
                self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", env=index)
        tree = self.git("write-tree", env=index)
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        return self.committed(branch, tree, [parent] if parent else [], message, author)

    def committed(self, branch: str, tree: str, parents: Sequence[str], message: str, author: str) -> str:
        """A commit of a tree, to which the branch is moved."""
        names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _person(author)}
        over = [argument for parent in parents for argument in ("-p", parent)]
        sha = self.git("commit-tree", tree, *over, stdin=message.encode(), env=names)
        self.git("update-ref", f"refs/heads/{branch}", sha)
        return sha

    def merge(self, base: str, head: str, message: str, author: str) -> str | None:
        """Merge a commit into a branch; None when that conflicts."""
        into = self.head(base)
        try:
            tree = self.git("merge-tree", "--write-tree", into, head).splitlines()[0]
        except GitFailedError:
            return None
        return self.committed(base, tree, [into, head], message, author)

    def between(self, base: str, head: str) -> list[str]:
        """Commits of the head that the base has not, the oldest first."""
        return self.git("rev-list", "--reverse", f"{base}..{head}").splitlines()

    def author(self, sha: str) -> str:
        """The account whose commit it is, by its address; empty when it is nobody's."""
        address = self.git("show", "--no-patch", "--format=%ae", sha)
        return address.removesuffix(NOREPLY) if address.endswith(NOREPLY) else ""

    def diff(self, base: str, head: str) -> str:
        """What a pull request shows."""
        return self.git("diff", f"{base}...{head}")

    def changed(self, base: str, head: str) -> list[str]:
        """Paths that a pull request changes."""
        return self.git("diff", "--name-only", f"{base}...{head}").splitlines()


async def backend(root: Path, environment: Mapping[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Ask git's own server program: one request over smart HTTP → status, headers, body."""
    process = await asyncio.create_subprocess_exec(
        "git",
        "http-backend",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**_environment(), "GIT_PROJECT_ROOT": str(root), "GIT_HTTP_EXPORT_ALL": "1", **environment},
    )
    output, _ = await process.communicate(body)
    head, _, content = output.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
    return int(headers.pop("Status", "200").split()[0]), headers, content


def _person(login: str) -> tuple[tuple[str, str], ...]:
    return ("NAME", login), ("EMAIL", login + NOREPLY)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
