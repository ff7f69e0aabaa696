"""Runs the git program so that no foreign configuration, hooks or filters take part.

Every call names its GIT_DIR. The one that does nearly everything is a bare *depot* of our own, whose configuration and
attributes we wrote; it uses the objects of the user's repository. The user's own GIT_DIR is named only to read and move
refs. The .git folder of an agent's clone is never named again once the agent had it.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from agenttalk.adapters.workspaces.async_methods import in_thread
from agenttalk.contracts.errors import Code, FullDiskError, MachineError, UsageError
from agenttalk.contracts.plan import Workspace

NAME: Final = "AgentTalk"
EMAIL: Final = "engine@agenttalk.invalid"
RAW: Final = "* -text -ident -filter !eol !working-tree-encoding !diff !conflict-marker-size"
"""Attributes under which files stay as they are: no line ends, keywords, encodings, filters or diff programs."""

_CONFIG: Final = {
    "advice.detachedHead": "false",
    "advice.graftFileDeprecated": "false",
    "core.autocrlf": "false",
    "core.filesRefLockTimeout": "2000",
    "core.fsmonitor": "false",
    "core.fsync": "objects,reference",
    "core.packedRefsTimeout": "2000",
    "core.precomposeUnicode": "false",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "core.symlinks": "true",
    "core.untrackedCache": "false",
    "diff.external": "",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "merge.conflictStyle": "merge",
    "merge.directoryRenames": "false",
    "merge.renames": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
}
_BRANCH: Final = "ref: refs/heads/"
"""How the file HEAD begins when a branch is checked out."""
_REFTABLE: Final = "ref: refs/heads/.invalid"
"""What it says in a repository with the refs in tables."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
FOLDER: Final = "workspaces"
"""Below the root: the clones that agents work in, and the checkouts for checks."""
KEPT: Final = "kept.git"
"""Below the folder of a plan: the repository in which a plain folder is kept."""


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """The result of a call."""

    code: int
    out: bytes
    error: str
    cut: bool = False
    """Whether there was more output than requested."""

    @property
    def line(self) -> str:
        """The one line of an answer."""
        return self.out.decode().strip()


@dataclass(frozen=True, slots=True)
class GitLocation:
    """Where a call works."""

    git_dir: Path
    objects: Path | None = None
    index: Path | None = None
    tree: Path | None = None

    def environment(self) -> dict[str, str]:
        """Return the environment variables for it."""
        named = {
            "GIT_DIR": self.git_dir,
            "GIT_OBJECT_DIRECTORY": self.objects,
            "GIT_INDEX_FILE": self.index,
            "GIT_WORK_TREE": self.tree,
        }
        return {name: str(path) for name, path in named.items() if path is not None}


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git."""

    nothing: Path
    """An empty folder, in place of hooks and a home."""
    program: str = "git"
    limit: float = 600.0
    """Seconds that a call may take."""

    def call(
        self,
        *args: str,
        at: GitLocation,
        stdin: bytes | Iterable[bytes] = b"",
        ok: tuple[int, ...] = (0,),
        most: int | None = None,
        more: Mapping[str, str] | None = None,
    ) -> GitAnswer:
        """Run git once. Raises MachineError when it exits with a code that is not in `ok`, or not in time.

        `stdin` in chunks is for large inputs. At most `most` bytes of the output are read.
        """
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(  # noqa: S603 - no shell, and each argument is our own or behind `--`
                    [self.program, *args],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=at.tree or self.nothing,
                    env={**self.environment(), **at.environment(), **(more or {})},
                    start_new_session=True,
                )
            except OSError as error:
                raise _failed(args, f"it cannot be started: {error.strerror}") from error
            late = threading.Event()
            timer = threading.Timer(self.limit, _end, (process, late))
            timer.start()
            try:
                out, cut = _talk(process, stdin, most)
            finally:
                timer.cancel()
                timer.join()
            errors.seek(0)
            message = errors.read(1 << 16).decode(errors="replace").strip()
        if late.is_set():
            raise _failed(args, f"it took longer than {self.limit:g} seconds")
        if process.returncode not in ok and not cut:
            raise _failed(args, message or f"it ended with code {process.returncode}")
        return GitAnswer(process.returncode, out, message, cut)

    def find_branch(self, git_dir: Path) -> str:
        """Find the branch that is checked out; empty if none is. Asks git only if the file HEAD does not say it."""
        head = git_dir / "HEAD"
        if not head.is_symlink():  # a link, as old versions of git made it, has the content of the branch
            text = head.read_text(errors="surrogateescape").strip()
            if text.startswith(_BRANCH) and text != _REFTABLE:
                return text.removeprefix(_BRANCH)
        found = self.call("symbolic-ref", "--quiet", "HEAD", at=GitLocation(git_dir), ok=(0, 1)).line
        return found.removeprefix("refs/heads/")

    def start(self, *args: str, at: GitLocation) -> subprocess.Popen[bytes]:
        """Start a git that answers questions on its pipes until they are closed."""
        try:
            return subprocess.Popen(  # noqa: S603 - no shell, and each argument is our own
                [self.program, *args],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self.nothing,
                env={**self.environment(), **at.environment()},
                start_new_session=True,
            )
        except OSError as error:
            raise _failed(args, f"it cannot be started: {error.strerror}") from error

    def environment(self) -> dict[str, str]:
        """Return the environment variables of every call."""
        config = {**_CONFIG, "core.hooksPath": str(self.nothing), "core.attributesFile": os.devnull}
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.nothing),
            "XDG_CONFIG_HOME": str(self.nothing),
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_ASKPASS": "true",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_AUTHOR_EMAIL": EMAIL,
            "GIT_AUTHOR_NAME": NAME,
            "GIT_COMMITTER_EMAIL": EMAIL,
            "GIT_COMMITTER_NAME": NAME,
            "GIT_CONFIG_COUNT": str(len(config)),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_GRAFT_FILE": os.devnull,
            "GIT_LITERAL_PATHSPECS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_PAGER": "cat",
            "GIT_TERMINAL_PROMPT": "0",
        }
        for number, (key, value) in enumerate(config.items()):
            environment[f"GIT_CONFIG_KEY_{number}"] = key
            environment[f"GIT_CONFIG_VALUE_{number}"] = value
        return environment


def make_git_dir(path: Path, algorithm: str, branch: str = "") -> None:
    """Make an empty repository, as `git init` does it: bare, or with a branch that is checked out."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (path / name).mkdir(parents=True)
    config = path / "config"
    config.touch()
    lines = [
        "[core]",
        f"repositoryformatversion = {int(algorithm != 'sha1')}",
        f"filemode = {str(_keeps_modes(config)).lower()}",
        f"bare = {str(not branch).lower()}",
        *(("[extensions]", f"objectformat = {algorithm}") if algorithm != "sha1" else ()),
    ]
    (path / "HEAD").write_text(f"ref: refs/heads/{branch or 'main'}\n")
    config.write_text("".join(f"{line}\n" for line in lines))


def _keeps_modes(path: Path) -> bool:
    """Return whether the file system of a file keeps who may execute it."""
    mode = path.stat().st_mode
    path.chmod(mode ^ stat.S_IXUSR)
    keeps = path.stat().st_mode != mode
    path.chmod(mode)
    return keeps


def _talk(process: subprocess.Popen[bytes], stdin: bytes | Iterable[bytes], most: int | None) -> tuple[bytes, bool]:
    try:
        if isinstance(stdin, bytes) and most is None:
            return process.communicate(stdin)[0], False
        assert process.stdin is not None  # noqa: S101 - for mypy: both are pipes
        assert process.stdout is not None  # noqa: S101 - as above
        _feed(process.stdin, [stdin] if isinstance(stdin, bytes) else stdin)
        out = process.stdout.read() if most is None else process.stdout.read(most + 1)
        cut = most is not None and len(out) > most
        if cut:
            _end(process)
        process.wait()
        return out[:most], cut
    except BaseException:
        _end(process)
        process.wait()
        raise
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()


def _feed(pipe: IO[bytes], pieces: Iterable[bytes]) -> None:
    with suppress(BrokenPipeError):  # it has exited, and its error says why
        for piece in pieces:
            pipe.write(piece)
        pipe.close()


def _end(process: subprocess.Popen[bytes], late: threading.Event | None = None) -> None:
    if late:
        late.set()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failed(args: tuple[str, ...], why: str) -> MachineError:
    kind = FullDiskError if any(os.strerror(number) in why for number in _NO_ROOM) else MachineError
    return kind(
        Code.FILE_UNWRITABLE,
        f"git {args[0]} failed: {why[-2000:]}",
        hint="check the repository and its disk, then try again",
    )


def find_git_dir(folder: Path, home: Path) -> Path:
    """Find the repository of a folder. That of a plain folder lies in `home`, where it is made when the plan begins."""
    if not folder.is_dir():
        raise UsageError(Code.NAME_UNKNOWN, f"there is no folder {str(folder)!r}", hint="check workspace.repo")
    inner = folder / ".git"
    if inner.exists():
        return inner
    return folder if all((folder / name).exists() for name in ("HEAD", "objects", "refs")) else home / KEPT


class BranchHeads:
    """The port `HeadReader`, for a process that only reads: no workspace is opened, nothing is made or removed."""

    def __init__(self, root: Path) -> None:
        self._folder = root.absolute() / FOLDER

    async def find_head(self, plan_id: str, repo: Workspace) -> str:
        """Return the commit of a plan's branch; empty when it is gone. Raises UsageError for another folder."""
        return await in_thread(self._read, plan_id, Path(repo.repo))

    def _read(self, plan_id: str, folder: Path) -> str:
        folder = folder.absolute()
        git_dir = find_git_dir(folder, self._folder / plan_id)
        wanted = ("rev-parse", "--verify", "--quiet", f"refs/heads/agenttalk/{plan_id}^{{commit}}")
        with tempfile.TemporaryDirectory() as nothing:
            answer = Git(Path(nothing)).call(*wanted, at=GitLocation(git_dir), ok=(0, 1, 128))
        if answer.code == 128:
            message = f"{str(folder)!r} is not a repository that git can use: {answer.error}"
            raise UsageError(Code.NAME_UNKNOWN, message, hint="run `git status` there")
        return answer.line
