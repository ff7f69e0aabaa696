"""What the work of a task may not change, because checks rest on it.

A plan says what is protected (`protected`, and a check's own `files`). Beside that, a check protects what it consists
of: the files that its command names, tests, and the configuration of what runs them. Files that a command names and
tests are held as far as they stood where the plan began, so new ones may be added beside them; configuration is held
also where there was none. What one task protects, no other task of the plan changes unless its scope names it.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final

from agenttalk.contracts.promise import AnyCheck, CompletionPromise, RunCheck, TestsCheck
from agenttalk.rules.checks import test_runners
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Globs

_READERS: Final = frozenset(
    {
        *("grep", "egrep", "fgrep", "rg", "test", "[", "[[", "ls", "cat", "head", "tail", "wc", "stat", "find", "sort"),
        *("uniq", "cut", "tr", "jq", "yq", "xmllint", "file", "true", "echo", "printf", "cd", "sha256sum", "md5sum"),
        *("ruff", "mypy", "flake8", "pylint", "black", "isort", "pyright", "tsc", "shellcheck", "yamllint", "pwd"),
        *("gofmt", "rustfmt", "prettier", "markdownlint", "set", "export", "mkdir", "touch", "rm", "exit"),
    }
)
"""Programs that look at what they are given, and run nothing of it: what they name is the work, not the check."""
_COMPARERS: Final = frozenset({"diff", "cmp", "comm"})
"""Programs that hold the work against something, which is part of the check then."""
_BEFORE: Final = frozenset(
    {
        *("!", "if", "then", "else", "do", "while", "until", "{", "(", "env", "time", "nice", "exec", "command"),
        *("nohup", "sudo", "stdbuf", "xargs"),
    }
)
"""Words that stand before the program of a command."""
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_BREAKS: Final = frozenset({"&&", "||", ";", "|", "&", "(", ")", ";;", "|&", "\n"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_SETS: Final = re.compile(r"""(?<!\w)([A-Z]\w*)=["']?([^\s"';&|]*)""")
_HERE: Final = re.compile(r"\A(?:\$PWD|\$\{PWD\}|\$\(pwd\)|`pwd`|\.)(?:/+|\Z)")
"""The folder where a command runs, as it is spelled there."""
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")
_LITERAL: Final = re.compile(r"\[[^\]]*\]|[*?]")


@dataclass(frozen=True)
class FileTree:
    """The files of a tree, by their paths."""

    files: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    @classmethod
    def from_paths(cls, paths: Collection[str]) -> FileTree:
        """Build a tree from the paths of its files."""
        folders = set()
        for path in paths:
            above = path.rpartition("/")[0]
            while above and above not in folders:
                folders.add(above)
                above = above.rpartition("/")[0]
        return cls(frozenset(paths), frozenset(folders))

    @cached_property
    def tests(self) -> frozenset[str]:
        """The files that are tests, or that tests are made of."""
        return frozenset(path for path in self.files if test_runners.is_test(path))

    def below(self, folder: str) -> Iterator[str]:
        """List the files in a folder, at any depth."""
        return (path for path in self.files if path.startswith(f"{folder}/"))


NO_TREE: Final = FileTree()
_NONE: Final = Globs()


@dataclass(frozen=True)
class Protection:
    """What a task may not change."""

    said: Globs = _NONE
    """What the plan protects by name, and checks' own files."""
    runner: Globs = _NONE
    """What decides how tests are run."""
    abroad: Globs = _NONE
    """The same of other tasks' checks, but for what the scope of this task names."""
    standing: frozenset[str] = frozenset()
    """Files that stood where the plan began, and that checks consist of."""
    shared: bool = False
    """Whether the parts of shared files that decide how tests are run are held, too."""
    opened: frozenset[str] = frozenset()
    """Files that checks consist of, and that the task may change because its scope names them."""

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether a path is protected."""
        return path in self.standing or any(each.covers(path, folder=folder) for each in self._lists)

    @cached_property
    def _lists(self) -> tuple[Globs, ...]:
        """The lists that have globs."""
        return tuple(each for each in (self.said, self.runner, self.abroad) if each != _NONE)

    def filter_paths(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Keep the protected paths, in the order given."""
        return tuple(path for path in paths if self.covers(path))


@dataclass(frozen=True)
class Boundary:
    """What a task may not change: what is protected, and what its scope does not allow."""

    protection: Protection
    scope: scope.Scope

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether a path must stay as it is."""
        return self.protection.covers(path, folder=folder) or not self.scope.permits(path)


def derive_protection(
    promise: CompletionPromise | None, tree: FileTree = NO_TREE, others: Mapping[str, CompletionPromise] | None = None
) -> Protection:
    """Derive what a task may not change in a plan. `tree` is the plan's first, `others` are its other promises.

    What others protect by name holds as far as it stood there: a task may add files that another one protects by a
    glob, and the verdict on that one tells so.
    """
    own = _of_promise(promise, tree)
    named = _ScopeNames(promise)
    standing = {path for path in own.standing if not named.opens(path)}
    opened = own.standing - standing
    abroad: dict[str, None] = {}
    shared = own.shared
    for each in (others or {}).values():
        theirs = _of_promise(each, tree)
        said = theirs.said.filter_paths(tree.files) if theirs.said.globs else ()
        standing |= {path for path in (*said, *theirs.standing) if not named.names(path)}
        abroad |= dict.fromkeys(_configurations(each))
        shared = shared or theirs.shared
    lent = scope.read_globs([*abroad, *(f"!{text}" for text in named.texts)]) if abroad else Globs()
    return Protection(own.said, own.runner, lent, frozenset(standing), shared, frozenset(opened))


def _of_promise(promise: CompletionPromise | None, tree: FileTree) -> Protection:
    """Return what the checks of a promise protect, also against its scope."""
    said: dict[str, None] = {}
    standing: set[str] = set()
    runner = _configurations(promise)
    for check in promise.checks if promise is not None else ():
        said |= dict.fromkeys((*(check.protected or ()), *list_own_files(check)))
        standing |= list_check_files(check, tree)
    held = scope.read_globs(list(runner))
    return Protection(scope.read_globs(list(said)), held, standing=frozenset(standing), shared=bool(runner))


def _configurations(promise: CompletionPromise | None) -> dict[str, None]:
    checks = promise.checks if promise is not None else ()
    return dict.fromkeys(glob for check in checks if holds_configuration(check) for glob in list_configuration(check))


def list_own_files(check: AnyCheck) -> list[str]:
    """Return the check's own files as globs: only the plan's author changes them."""
    return [scope.quote_path(path) for path in check.files or ()]


def holds_configuration(check: AnyCheck) -> bool:
    """Whether a check protects the configuration of what runs it: not if it only looks at files."""
    return isinstance(check, RunCheck | TestsCheck) and check.protect_config and not _only_reads(check)


def list_configuration(check: AnyCheck) -> tuple[str, ...]:
    """Globs of that configuration."""
    return test_runners.list_configuration(check.run) if isinstance(check, RunCheck | TestsCheck) else ()


def list_check_files(check: AnyCheck, tree: FileTree) -> frozenset[str]:
    """List the files of a tree that a check consists of. `protected: []` declares that there are none."""
    if not isinstance(check, RunCheck | TestsCheck) or (check.protected is not None and not check.protected):
        return frozenset()
    files, folders = _named_by(check, tree)
    found = set(files)
    for folder in folders:
        whole = test_runners.is_test(f"{folder}/x")
        found |= {path for path in tree.below(folder) if whole or path in tree.tests}
    if isinstance(check, TestsCheck) or test_runners.runs_tests(check.run) or files:
        found |= tree.tests
    return frozenset(found)


def find_shadowing_files(promise: CompletionPromise | None, tree: FileTree, added: Collection[str]) -> list[str]:
    """New files that would pass for modules of Python, for a test runner or for another program when checks run."""
    found: dict[str, None] = {}
    for check in promise.checks if promise is not None else ():
        if isinstance(check, RunCheck | TestsCheck) and holds_configuration(check):
            found |= dict.fromkeys(test_runners.find_shadowing_modules(added, _import_folders(check, tree)))
            found |= dict.fromkeys(path for path in added if path in _program_places(check))
    return list(found)


def _import_folders(check: RunCheck | TestsCheck, tree: FileTree) -> set[str]:
    """Folders from which modules are imported when a check runs: where it runs, what it names lies, or it says."""
    ran = {each.folder for each in _simple(check.run, check.cwd or "")}
    files = list_check_files(check, tree)
    named = _search_folders(check, "PYTHONPATH")
    return {"", *ran, *named, *(path.rpartition("/")[0] for path in files if path.endswith(".py"))}


def _program_places(check: RunCheck | TestsCheck) -> set[str]:
    """Folders of the tree in which a check finds programs before those of the system."""
    programs = {each.program for each in _simple(check.run, check.cwd or "")}
    return {posixpath.join(folder, name) for folder in _search_folders(check, "PATH") for name in programs}


def _search_folders(check: RunCheck | TestsCheck, variable: str) -> set[str]:
    """Folders of the tree that a check puts into a variable with folders."""
    said = [(check.env or {}).get(variable, "")]
    said += [found[2] for found in _SETS.finditer(check.run) if found[1] == variable]
    folders = {each.folder for each in _simple(check.run, check.cwd or "")} | {check.cwd or ""}
    found = set()
    for text in (part for each in said for part in each.split(":") if part):
        inside = _HERE.sub("", text)
        if not inside.startswith(("/", "$", "~")):
            found |= {posixpath.normpath(posixpath.join(folder, inside)) for folder in folders}
    return {"" if each == "." else each for each in found}


class _ScopeNames:
    """What the scope of a task names."""

    def __init__(self, promise: CompletionPromise | None) -> None:
        self._allowed = [
            each for each in (promise.allowed_scope if promise is not None else ()) if not scope.explain_fault(each)
        ]
        self._scope = (
            scope.make_scope(self._allowed, promise.disallowed_scope) if promise is not None else scope.Scope()
        )

    @property
    def texts(self) -> list[str]:
        """The globs that name something."""
        return [text for text, _ in self._naming]

    @cached_property
    def _naming(self) -> list[tuple[str, Globs]]:
        return [(text, scope.read_globs([text])) for text in self._allowed if _is_specific(text)]

    def names(self, path: str) -> bool:
        """Whether the scope names a path, and does not merely allow everything."""
        return self._scope.permits(path) and any(globs.covers(path) for _, globs in self._naming)

    def opens(self, path: str) -> bool:
        """Whether the scope names a file that the task's own checks consist of: a test only if it speaks of tests."""
        naming = [text for text, globs in self._naming if globs.covers(path)]
        if not naming or not self._scope.permits(path):
            return False
        return not test_runners.is_test(path) or any(_speaks_of(text, path) for text in naming)


def _speaks_of(text: str, path: str) -> bool:
    return text.lstrip("/") == path or test_runners.names_tests(text)


def _is_specific(glob: str) -> bool:
    """Whether a glob names something: not those that mean everything, or all files of a type."""
    if glob.startswith("!"):
        return False
    stems = [step.lstrip(".").split(".")[0] for step in glob.strip("/").split("/")]
    return any(_LITERAL.sub("", stem) for stem in stems)


@dataclass(frozen=True, slots=True)
class _SimpleCommand:
    """One command of a command line."""

    words: tuple[str, ...]
    folder: str
    """Where it runs."""
    program: str = field(default="")


def _only_reads(check: RunCheck | TestsCheck) -> bool:
    """Whether a command runs nothing that could be a test."""
    return isinstance(check, RunCheck) and all(each.program in _READERS for each in _simple(check.run, ""))


def _named_by(check: RunCheck | TestsCheck, tree: FileTree) -> tuple[set[str], set[str]]:
    """Files and folders of a tree that a check's command names."""
    files: set[str] = set()
    folders: set[str] = set()
    commands = _simple(check.run, check.cwd or "")
    compares = any(each.program in _COMPARERS for each in commands)
    for each in commands:
        if each.program in _READERS and not compares:
            continue
        files |= {path for path in _program_places(check) if path in tree.files}
        for word in each.words:
            for path in _paths(word, each.folder, tree):
                (files if path in tree.files else folders).add(path)
    return files, folders


def _paths(word: str, folder: str, tree: FileTree) -> Iterator[str]:
    """List the paths in a tree that a word of a command names."""
    option = word.startswith("-")
    text = word.partition("=")[2] if option else word
    text = text.partition("::")[0].removeprefix("@")
    path = posixpath.normpath(posixpath.join(folder, text)) if text else ""
    if path in tree.files or (path in tree.folders and not option):
        yield path
    elif not option and _LITERAL.search(text) and not scope.explain_fault(path):
        yield from scope.read_globs([f"/{path}"]).filter_paths(sorted(tree.files))
    elif not option and _DOTTED.match(text):
        yield from _module(text.split("."), folder, tree)
    elif not option and posixpath.normpath(posixpath.join(folder, f"{text}.py")) in tree.files:
        yield posixpath.normpath(posixpath.join(folder, f"{text}.py"))


def _module(parts: Sequence[str], folder: str, tree: FileTree) -> Iterator[str]:
    """Find the file of a module, class or function that is named with dots."""
    for end in range(len(parts), 0, -1):
        path = posixpath.normpath(posixpath.join(folder, *parts[:end]))
        if f"{path}.py" in tree.files:
            yield f"{path}.py"
            return
        if path in tree.folders and end == len(parts):
            yield path
            return


def _simple(command: str, folder: str) -> list[_SimpleCommand]:
    """List the commands of a command line, each with the folder where it runs. An unreadable line is one command."""
    try:
        lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        lexer.commenters = ""
        tokens = list(lexer)
    except ValueError:
        return [_SimpleCommand(tuple(command.split()), folder)]
    found: list[_SimpleCommand] = []
    words: list[str] = []
    for token in [*tokens, ";"]:
        if token not in _BREAKS:
            words.append(token)
            continue
        if words:
            found += _read(words, folder)
            folder = _moved(words, folder)
        words = []
    return found


def _moved(words: Sequence[str], folder: str) -> str:
    """Return the folder where the next command runs."""
    if words[0] not in {"cd", "pushd"} or len(words) < 2:
        return folder
    moved = posixpath.normpath(posixpath.join(folder, words[-1]))
    return "" if moved == "." else moved


def _read(words: Sequence[str], folder: str) -> list[_SimpleCommand]:
    """Read one command, without its redirections, and the commands that it passes to a shell."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip or word in {">", ">>", "2>", "&>", ">&"}:
            skip = not skip
        elif word != "<":
            kept.append(word)
    while kept and (kept[0] in _BEFORE or _ASSIGNMENT.match(kept[0])):
        kept.pop(0)
    if kept[:1] == ["timeout"]:
        kept = kept[2:]
    program = posixpath.basename(kept[0]) if kept else ""
    found = [_SimpleCommand(tuple(kept), folder, program)]
    if program in _SHELLS:
        codes = [after for before, after in pairwise(kept) if re.match(r"-\w*c\Z", before)]
        found += [each for code in codes for each in _simple(code, folder)]
    return found
