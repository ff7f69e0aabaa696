"""Real bare git repositories, as a forge keeps them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

_GIT: Final = ("git", "-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")

NOREPLY: Final = "@noreply.example.test"
"""How addresses of accounts end."""


class GitFailedError(Exception):
    """Raised when git refuses or fails."""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit."""

    sha: str
    parents: tuple[str, ...]
    name: str
    address: str
    date: str
    message: str

    @property
    def account(self) -> str:
        """The account that made the commit, by its mail address; empty if no account has that address."""
        return self.address.removesuffix(NOREPLY) if self.address.endswith(NOREPLY) else ""


@dataclass(frozen=True, slots=True)
class BareRepository:
    """One bare repository."""

    path: Path
    _conflicts: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False)
    """Cached results."""

    @classmethod
    def create(cls, path: Path) -> BareRepository:
        """Create a repository with `main` as its default branch and with pushing over HTTP allowed."""
        path.mkdir(parents=True)
        bare = cls(path)
        bare.git("init", "--quiet", "--bare", "--initial-branch=main", str(path))
        bare.git("config", "http.receivepack", "true")
        bare.git("config", "receive.hideRefs", "refs/pull")  # only the forge moves them
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
        """Return the commit of a branch; empty when the branch does not exist."""
        loose = self.path / "refs/heads" / branch
        if loose.is_file():
            return loose.read_text(encoding="ascii").strip()
        try:
            return self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
        except GitFailedError:
            return ""

    def branches(self) -> dict[str, str]:
        """Branch → commit."""
        lines = self.git("for-each-ref", "--format=%(refname:lstrip=2) %(objectname)", "refs/heads").splitlines()
        return dict(line.rsplit(" ", 1) for line in lines)

    def commit(self, branch: str, files: Mapping[str, str | None], message: str, author: str, *, base: str = "") -> str:
        """Commit files to a branch (None removes one; no files make an empty commit).

        The branch is made from `base` if it does not exist. The author is an account, or another address.
        """
        parent = self.head(branch) or self.head(base or "main")
        return self.commit_tree(
            branch, self.write_changed_tree(parent, files), [parent] if parent else [], message, author
        )

    def write_changed_tree(self, commit: str, files: Mapping[str, str | None]) -> str:
        """Write the tree of a commit with some files changed; the tree of an empty commit name is empty."""
        index = {"GIT_INDEX_FILE": str(self.path / f"index.{os.urandom(4).hex()}")}
        if commit:
            self.git("read-tree", commit, env=index)
        for name, content in files.items():
            if content is None:
                self.git("update-index", "--force-remove", name, env=index)
            else:
                blob = self.git("hash-object", "-w", "--stdin", stdin=content.encode())
                self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", env=index)
        tree = self.git("write-tree", env=index)
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)
        return tree

    def commit_tree(self, branch: str, tree: str, parents: Sequence[str], message: str, author: str) -> str:
        """Commit a tree and move the branch to that commit."""
        sha = self._write_commit(tree, parents, message, author)
        self.move_ref(f"refs/heads/{branch}", sha)
        return sha

    def _write_commit(
        self, tree: str, parents: Sequence[str], message: str, author: str, kept: Mapping[str, str] | None = None
    ) -> str:
        names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in _person(author)}
        over = [argument for parent in parents for argument in ("-p", parent)]
        return self.git("commit-tree", tree, *over, stdin=message.encode(), env={**names, **(kept or {})})

    def move_ref(self, ref: str, sha: str) -> None:
        """Set a ref to a commit. Without a commit, remove it."""
        self.git("update-ref", ref, sha) if sha else self.git("update-ref", "-d", ref)

    def merge(self, base: str, head: str, message: str, author: str, style: str = "merge") -> str | None:
        """Merge a commit into a branch in one of the forge's ways. Returns the new tip; None on a conflict."""
        into = self.head(base)
        try:
            if style == "fast-forward-only":
                tip = head if self.merge_base(into, head) == into else None
            elif style in {"rebase", "rebase-merge"}:
                tip = self._rebased(into, head, author)
            else:
                tree = self.git("merge-tree", "--write-tree", into, head).splitlines()[0]
                tip = self._write_commit(tree, [into] if style == "squash" else [into, head], message, author)
        except GitFailedError:
            return None
        if style == "rebase-merge" and tip:
            tip = self._write_commit(self.git("rev-parse", f"{tip}^{{tree}}"), [into, tip], message, author)
        if tip:
            self.move_ref(f"refs/heads/{base}", tip)
        return tip

    def has_conflicts(self, base: str, head: str) -> bool:
        """Whether a commit cannot be merged into another as it is."""
        if (base, head) not in self._conflicts:
            try:
                self.git("merge-tree", "--write-tree", base, head)
                self._conflicts[base, head] = False
            except GitFailedError:
                self._conflicts[base, head] = True
        return self._conflicts[base, head]

    def _rebased(self, onto: str, head: str, author: str) -> str:
        """Copy the commits of a head on top of another commit, with their authors and messages."""
        if self.merge_base(onto, head) == onto:
            return head
        tip = onto
        for each in self.commits_between(onto, head):
            shown = self.read_commit(each)
            tree = _pick(self, shown.parents[0], tip, each)
            kept = {"GIT_AUTHOR_NAME": shown.name, "GIT_AUTHOR_EMAIL": shown.address, "GIT_AUTHOR_DATE": shown.date}
            tip = self._write_commit(tree, [tip], shown.message, author, kept)
        return tip

    @lru_cache(maxsize=1024)  # noqa: B019 - what lies between commits stays as it is, and so does a repository's path
    def merge_base(self, left: str, right: str) -> str:
        """Return the newest common ancestor of two commits; empty when there is none."""
        try:
            return self.git("merge-base", left, right)
        except GitFailedError:
            return ""

    def commits_between(self, base: str, head: str) -> list[str]:
        """List the commits of the head that the base lacks, the oldest first."""
        return self.git("rev-list", "--reverse", f"{base}..{head}").splitlines()

    def read_commit(self, sha: str) -> CommitInfo:
        """Read the data of a commit."""
        form = "%H%x00%P%x00%an%x00%ae%x00%aI%x00%B"
        full, parents, name, address, date, message = self.git(
            "show", "--no-patch", f"--format={form}", f"{sha}^{{commit}}"
        ).split("\0", 5)
        return CommitInfo(full, tuple(parents.split()), name, address, date, message)

    def entries(self, sha: str) -> list[tuple[str, str, str, str]]:
        """List the top of a commit's tree: mode, type, object and path of each entry."""
        lines = self.git("ls-tree", "-z", f"{sha}^{{tree}}").split("\0")
        return [(*line.partition("\t")[0].split(), line.partition("\t")[2]) for line in lines if line]  # type: ignore[misc]

    def diff(self, base: str, head: str) -> str:
        """Return the diff that a pull request shows."""
        return self.git("diff", f"{base}...{head}")

    def list_changed_paths(self, base: str, head: str) -> list[str]:
        """List the paths that a pull request changes."""
        return self.git("diff", "--name-only", f"{base}...{head}").splitlines()

    @lru_cache(maxsize=1024)  # noqa: B019 - as above
    def count_changes(self, base: str, head: str) -> tuple[int, int, int]:
        """Count the files that a pull request changes, and the lines that it adds and removes."""
        lines = [line.split("\t") for line in self.git("diff", "--numstat", f"{base}...{head}").splitlines()]
        added, removed = (sum(int(line[at]) for line in lines if line[at].isdecimal()) for at in (0, 1))
        return len(lines), added, removed

    def list_paths_of_commit(self, sha: str) -> list[str]:
        """List the paths that one commit changes, compared with its first parent."""
        return self.git(
            "diff-tree", "--root", "-r", "--no-commit-id", "--name-only", "-m", "--first-parent", sha
        ).splitlines()


async def run_http_backend(
    root: Path, environment: Mapping[str, str], body: bytes
) -> tuple[int, dict[str, str], bytes]:
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


def _pick(bare: BareRepository, base: str, ours: str, theirs: str) -> str:
    """Apply a commit's change to another tree; raises GitFailedError when both changed one file."""
    index = {"GIT_INDEX_FILE": str(bare.path / f"index.{os.urandom(4).hex()}")}
    try:
        bare.git("read-tree", "-i", "-m", "--aggressive", base, ours, theirs, env=index)
        return bare.git("write-tree", env=index)
    finally:
        Path(index["GIT_INDEX_FILE"]).unlink(missing_ok=True)


def _person(author: str) -> tuple[tuple[str, str], ...]:
    """Return name and mail address of an account, or of a mail address alone."""
    return ("NAME", author.partition("@")[0]), ("EMAIL", author if "@" in author else author + NOREPLY)


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
