"""Surveys a user's folder before a plan begins there: what the plan would begin with, and what it would not see."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from agenttalk.adapters.workspaces import merge, tree_reader
from agenttalk.adapters.workspaces import paths as workspaces_paths
from agenttalk.adapters.workspaces.git import Git, GitLocation, make_git_dir
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.paths import WorkspaceFolder
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import DEFAULT_EXCLUDES, read_globs
from agenttalk.rules.text import change_words

_LEFT_BEHIND: Final = read_globs(DEFAULT_EXCLUDES)
_SUBMODULE: Final = b"160000 "
_ATTRIBUTES: Final = ".gitattributes"
_LFS: Final = b"filter=lfs"
_SMALL: Final = 1024 * 1024
_LIMIT: Final = 64 * 1024 * 1024
_FILE_MODE: Final = re.compile(rb"filemode", re.IGNORECASE)
_FILE_MODE_OF_CORE: Final = re.compile(
    rb"^\[core\]\n(?:\t[^\n]*\n)*?\tfilemode = (true|false)\n", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Survey:
    """The content of a user's folder."""

    paths: tuple[str, ...] = ()
    """Files with which a plan would begin."""
    uncommitted: tuple[str, ...] = ()
    """Files that differ from the last commit, or are in none: a plan does not see those changes."""


@dataclass(frozen=True, slots=True)
class UserRepository:
    """A repository of the user, as it is now."""

    top: Path
    """The top of the work tree."""
    common: Path
    """The GIT_DIR that its work trees share."""
    inside: str
    """The folder below the top where the user is; empty at the top."""
    head: str
    """The commit that is checked out."""
    branch: str
    """The branch that is checked out; empty where none is."""
    paths: tuple[str, ...]
    """Files of the work tree that git does not ignore."""
    uncommitted: tuple[str, ...]
    """Files that differ from the commit, or are in none."""
    ignored: tuple[str, ...]
    """Files and whole folders that git ignores."""
    submodules: tuple[str, ...] = ()
    """Submodules: a clone of ours has empty folders in their places."""
    pointers: tuple[str, ...] = ()
    """Files that Git LFS keeps elsewhere: a clone of ours has pointers in their places."""
    untakeable: str = ""
    """Why the uncommitted files cannot be taken along; empty if they can."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.top.name


def find_repository(here: Path) -> UserRepository:
    """Find the repository whose work tree a folder is in. Raises UsageError when there is none, or it has no commit."""
    here = here.absolute()
    top = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), None)
    if top is None:
        message = change_words.NO_REPOSITORY(folder=scope.display_path(str(here)))
        raise UsageError(Code.NAME_UNKNOWN, message, hint=change_words.NO_REPOSITORY_HINT())
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        nothing = Path(home) / "nothing"
        nothing.mkdir()
        git = Git(nothing)
        place = workspaces_paths.find_workspace_folder(top, Path(home), git)
        at = GitLocation(place.git_dir)
        head = git.call("rev-parse", "--verify", "--quiet", "HEAD^{commit}", at=at, ok=(0, 1, 128))
        if head.code:
            message = change_words.NO_COMMIT(folder=scope.display_path(str(top)))
            raise UsageError(Code.NAME_UNKNOWN, message, hint=change_words.NO_COMMIT_HINT())
        branch = git.find_branch(place.git_dir)
        uncommitted = list_uncommitted(git, place)
        with _aside(git, place) as own:
            listed = ("ls-files", "-z", "--exclude-standard")
            known = _split(git.call(*listed, "--cached", "--others", at=own, most=_LIMIT).out)
            ignored = git.call(*listed, "--others", "--ignored", "--directory", at=own, most=_LIMIT).out
            staged = git.call("ls-files", "-z", "--stage", at=own, most=_LIMIT).out.split(b"\0")
        submodules = (os.fsdecode(line.split(b"\t", 1)[1]) for line in staged if line.startswith(_SUBMODULE))
        untakeable = _explain_untakeable(git, place, uncommitted, staged)
        pointers = _list_pointers(git, place, known)
    inside = str(here.relative_to(top))
    return UserRepository(
        top,
        place.common,
        "" if inside == "." else inside,
        head.line,
        branch,
        tuple(path for path in known if (top / path).is_symlink() or (top / path).exists()),
        uncommitted,
        tuple(path.rstrip("/") for path in _split(ignored)),
        tuple(submodules),
        pointers,
        untakeable,
    )


def _explain_untakeable(git: Git, place: WorkspaceFolder, uncommitted: tuple[str, ...], staged: list[bytes]) -> str:
    """Explain why uncommitted files cannot be taken along; empty if they can."""
    if any(line.partition(b"\t")[0][-1:] in {b"1", b"2", b"3"} for line in staged):
        return "a merge is under way"
    filtered = _filtered(git, place, uncommitted) if uncommitted else ""
    return f"git would run a filter on {filtered}" if filtered else ""


def _list_pointers(git: Git, place: WorkspaceFolder, paths: list[str]) -> tuple[str, ...]:
    """List the files that Git LFS keeps."""
    said = [path for path in paths if path.rpartition("/")[2] == _ATTRIBUTES]
    if not any(_LFS in _read(place.folder / path) for path in said):
        return ()
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    at = GitLocation(place.git_dir, tree=place.folder)
    fields = git.call("check-attr", "-z", "--stdin", "filter", at=at, stdin=names, most=_LIMIT).out.split(b"\0")
    pairs = zip(fields[::3], fields[2::3], strict=False)
    return tuple(os.fsdecode(path) for path, value in pairs if value == b"lfs")


def _read(path: Path) -> bytes:
    """Read a small file; empty when it cannot be read."""
    try:
        return path.read_bytes() if path.is_file() and path.stat().st_size < _SMALL else b""
    except OSError:
        return b""


class BranchWork(NamedTuple):
    """The work on a plan's branch."""

    commit: str
    summary: str
    """How many files and lines were changed."""

    @property
    def lines(self) -> int:
        """How many lines were added or removed."""
        return sum(int(number) for number in re.findall(r"(\d+) (?:insertion|deletion)", self.summary))


def read_work(folder: Path, branch: str, since: str = "") -> BranchWork | None:
    """Read the work on a plan's branch of the repository in a folder; None if there is no such branch.

    The folder is the top of a work tree, or a repository without one. `since` names the commit where it began; without
    it, the branch has one commit of the plan.
    """
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        git, inner = Git(Path(home)), folder.absolute() / ".git"
        at = GitLocation(inner if inner.exists() else inner.parent)
        tip = git.call("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}", at=at, ok=(0, 1, 128))
        if tip.code:
            return None
        base = since or f"{tip.line}^"
        stat = git.call("diff", "--shortstat", "--no-ext-diff", base, tip.line, at=at, ok=(0, 128))
        return BranchWork(tip.line, stat.line)


def find_hooks_folder(here: Path) -> Path:
    """Find the folder in which git looks for hooks of the repository of a folder. Raises UsageError without one."""
    repository = find_repository(here)
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        git = Git(Path(home))
        wanted = ("config", "--path", "--get", "core.hooksPath")
        named = git.call(*wanted, at=GitLocation(repository.common), ok=(0, 1), more={"GIT_CONFIG_COUNT": "0"}).line
    return repository.top / named if named else repository.common / "hooks"


def has_commit(here: Path, name: str) -> bool:
    """Return whether the repository of a folder has a commit."""
    repository = find_repository(here)
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        wanted = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return Git(Path(home)).call(*wanted, at=GitLocation(repository.common), ok=(0, 1, 128)).code == 0


def find_remote(here: Path) -> str:
    """Return the address of the remote `origin` of the repository of a folder; empty if it has none."""
    repository = find_repository(here)
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        wanted = ("config", "--get", "remote.origin.url")
        return Git(Path(home)).call(*wanted, at=GitLocation(repository.common), ok=(0, 1)).line


def _split(output: bytes) -> list[str]:
    return sorted({os.fsdecode(path) for path in output.split(b"\0") if path})


def survey_folder(folder: Path, base: str | None = None) -> Survey:
    """Survey a folder. Raises UsageError when there is none, or it has no such base."""
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        nothing = Path(home) / "nothing"
        nothing.mkdir()
        git = Git(nothing)
        place = workspaces_paths.find_workspace_folder(folder.absolute(), Path(home), git)
        if place.plain:
            return Survey(tuple(_walked(folder)))
        listed = git.call(
            *("ls-tree", "-r", "--name-only", "-z", "--full-tree", base or "HEAD"),
            at=GitLocation(place.git_dir),
            ok=(0, 128),
            most=_LIMIT,
        )
        if listed.code:
            hint = "name a branch that exists as workspace.base" if base else "make a first commit"
            raise UsageError(Code.NAME_UNKNOWN, f"{str(folder)!r} has no commit {base or 'HEAD'!r}", hint=hint)
        paths = tuple(os.fsdecode(path) for path in listed.out.split(b"\0") if path)
        return Survey(paths, list_uncommitted(git, place))


def list_uncommitted(git: Git, place: WorkspaceFolder) -> tuple[str, ...]:
    """List files of a work tree that differ from the last commit, or are in none; empty for a bare repository."""
    if not (place.folder / ".git").exists():
        return ()
    wanted = ("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
    with _aside(git, place) as at:
        output = git.call(*wanted, at=at, most=_LIMIT).out
    paths = (os.fsdecode(entry[3:]) for entry in output.split(b"\0") if len(entry) > 3)
    return tuple(path for path in paths if not _LEFT_BEHIND.covers(path))


def commit_work_tree(objects: GitObjects, place: WorkspaceFolder, head: str, plan: str) -> str:
    """Commit a work tree as it is, on top of what is checked out. Moves neither branch nor index of the user.

    Returns the given commit if there is nothing to take along.
    """
    uncommitted = list_uncommitted(objects.git, place)
    if not uncommitted:
        return head
    if filtered := _filtered(objects.git, place, uncommitted):
        raise _not_taken(place, f"git would run a filter on {filtered}", "commit it with git itself")
    with _aside(objects.git, place) as at:
        try:
            objects.git.call("add", "--all", "--", ".", at=at)
            tree = objects.git.call("write-tree", at=at).line
        except MachineError as error:
            raise _not_taken(place, error.message, "commit it, or finish the merge that is under way") from error
    for change in objects.changes(head, tree):
        if change.kind == "added" and change.after and change.after.mode == tree_reader.SUBMODULE:
            why = f"{scope.display_path(change.path)} is a repository of its own, and its files would be missing"
            raise _not_taken(place, why, "move it out of the folder, or have git ignore it")
    message = f"What was not committed when plan {plan} began\n\n{merge.PLAN}: {plan}\n"
    return objects.commit(tree, [head], message, merge.EPOCH)


def _not_taken(place: WorkspaceFolder, why: str, hint: str) -> UsageError:
    message = f"uncommitted work cannot be taken along: {why} (in {str(place.folder)!r})"
    return UsageError(Code.FILE_UNSAFE, message, hint=hint)


def _filtered(git: Git, place: WorkspaceFolder, paths: tuple[str, ...]) -> str:
    """Find a path that a filter changes before git stores it; empty if there is none. Runs no filter."""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    asked = ("check-attr", "-z", "--stdin", "filter")
    fields = git.call(*asked, at=GitLocation(place.git_dir, tree=place.folder), stdin=names).out.split(b"\0")
    pairs = zip(fields[::3], fields[2::3], strict=False)
    plain = {b"unspecified", b"unset", b""}
    return next((scope.display_path(os.fsdecode(path)) for path, value in pairs if value not in plain), "")


@contextmanager
def _aside(git: Git, place: WorkspaceFolder) -> Iterator[GitLocation]:
    """Open a user's work tree with a copy of its index and with our own git configuration.

    The configuration of a repository can name programs that git runs for every file (filters), so it is not used. Its
    settings of rights and excludes count.
    """
    with tempfile.TemporaryDirectory(prefix="agenttalk-") as home:
        own, theirs = Path(home) / "own.git", GitLocation(place.git_dir)
        make_git_dir(own, place.algorithm)
        rights = _find_file_mode(_read(place.common / "config"))
        if not rights:
            rights = git.call("config", "--local", "--bool", "--get", "core.fileMode", at=theirs, ok=(0, 1)).line
        with (own / "config").open("a") as config:
            config.write(f"[core]\nfilemode = {rights or 'true'}\n")
        head = git.call("rev-parse", "--verify", "--quiet", "HEAD^{commit}", at=theirs, ok=(0, 1, 128))
        if head.code == 0:
            (own / "HEAD").write_text(f"{head.line}\n")
        (own / "info").mkdir()
        (own / "info" / "attributes").write_text("* -filter -ident !working-tree-encoding\n")
        excluded = [_read(path) for path in (*_find_user_excludes(git, own), place.common / "info" / "exclude")]
        (own / "info" / "exclude").write_bytes(b"\n".join(excluded))
        if (place.git_dir / "index").is_file():
            # With its time: git reads a file again only if it may be as new as the index.
            shutil.copy2(place.git_dir / "index", own / "index")
        yield GitLocation(own, objects=place.objects, index=own / "index", tree=place.folder)


def _find_file_mode(config: bytes) -> str:
    """Find core.fileMode in a configuration as git itself writes it; empty for one that git has to read."""
    if b"include" in config.lower() or len(_FILE_MODE.findall(config)) != 1:
        return ""
    found = _FILE_MODE_OF_CORE.search(config)
    return found[1].decode().lower() if found else ""


def _find_user_excludes(git: Git, own: Path) -> tuple[Path, ...]:
    """Find the file with what this user has git ignore everywhere."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else "")
    named = ""
    for config in (Path(base, "git/config"), Path(home, ".gitconfig")) if home else ():
        if any(word in _read(config).lower() for word in (b"excludesfile", b"include")):
            asked = ("config", "--file", str(config), "--path", "--get", "core.excludesFile")
            named = git.call(*asked, at=GitLocation(own), ok=(0, 1, 3), more={"HOME": home}).line or named
    path = Path(named or f"{base}/git/ignore")
    return (path,) if path.is_absolute() else ()


def _walked(folder: Path) -> Iterator[str]:
    for top, inner, names in os.walk(folder):
        here = os.path.relpath(top, folder)
        inner[:] = [name for name in inner if not _LEFT_BEHIND.covers(name, folder=True)]
        yield from (name if here == "." else f"{here}/{name}" for name in names)
