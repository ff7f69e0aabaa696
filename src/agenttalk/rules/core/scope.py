"""Matches paths of a tree by globs: what a task may change, what is protected, what is left out when a tree is taken.

Globs are those of a .gitignore. Without a slash they match at any depth; `*` stays in one folder, `**` crosses folders,
and a slash at the end means a folder. A glob that matches a folder matches everything in it. In a list the last glob
that matches decides, and a `!` before a glob excludes what it matches. Unlike in a .gitignore, this also holds below a
folder that matched: `src/` and `!src/secret.py` means all of src except that file.

Matching takes time in proportion to the lengths of path and glob: a hostile glob cannot make it slow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Final, Protocol

from agenttalk.contracts.errors import Code, InputError

CACHES: Final = (
    "__pycache__/",
    "*.py[cod]",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".DS_Store",
)
"""Caches that programs keep beside the files they read."""
DEFAULT_EXCLUDES: Final = (*CACHES, ".tox/", ".nox/", ".venv/", "node_modules/")
"""Files of tools that do not belong to the work. A base that tracks such a file keeps it."""

_ANY: Final = "**"
_MEANT: Final = re.compile(r"([*?\[\]\\ ])")
"""Characters with a meaning in a glob."""
_SPECIAL: Final = re.compile(r"[*?\[\]\\]")
_PARTS: Final = 4096
"""Parts of paths that are remembered."""
_CLASS: Final = re.compile(r"\[:([^\]]*):\]")
_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Glob:
    """One parsed glob."""

    steps: tuple[re.Pattern[str] | None, ...]
    """The pattern for each part of a path; None for `**`, which stands for any number of parts."""
    negated: bool
    folder: bool
    """Whether it ended in a slash."""
    names: tuple[str, ...] = ()
    """The parts of a path that it needs by their names."""

    @property
    def is_one_part(self) -> bool:
        """Whether it matches one part of a path, wherever that is."""
        return len(self.steps) == 2 and self.steps[0] is None and self.steps[1] is not None

    def matches(self, parts: Sequence[str]) -> bool:
        """Whether it matches a whole path."""
        return len(parts) in self._counts(parts)

    def covers(self, parts: Sequence[str], *, folder: bool = False) -> bool:
        """Whether it matches a path or a folder on the way to it. `folder` means that the path itself is a folder."""
        return any(count < len(parts) or folder or not self.folder for count in self._counts(parts))

    def _counts(self, parts: Sequence[str]) -> Iterator[int]:
        """Yield the numbers of leading parts of a path that it matches."""
        reached = self._onwards({0})
        for count, part in enumerate(parts, 1):
            reached = self._moved(reached, part)
            if len(self.steps) in reached:
                yield count

    def find_next_steps(self, parts: Sequence[str]) -> set[int]:
        """Return the steps that may come next below a folder. Empty if no path there can match as a whole."""
        steps = self._onwards({0})
        for part in parts:
            steps = self._moved(steps, part)
        return steps - {len(self.steps)}

    def _moved(self, places: set[int], part: str) -> set[int]:
        """Return the steps that can follow after one more part of a path."""
        moved = set()
        for at in places - {len(self.steps)}:
            step = self.steps[at]
            if step is None:
                moved.add(at)
            elif step.match(part):
                moved.add(at + 1)
        return self._onwards(moved)

    def _onwards(self, places: set[int]) -> set[int]:
        """Add the steps behind each `**`, which may also stand for no part at all."""
        reached = set(places)
        for at in sorted(places):
            while at < len(self.steps) and self.steps[at] is None:
                at += 1  # noqa: PLW2901 - walks on from there
                reached.add(at)
        return reached


class GlobIndex:
    """Globs of which any may match a path, sorted by what they need: most paths are answered without trying each."""

    def __init__(self, globs: Sequence[Glob]) -> None:
        anywhere = [glob for glob in globs if glob.is_one_part]
        self._names = {folder: frozenset(_list_names(anywhere, folder=folder)) for folder in (False, True)}
        self._matches = {folder: _join_patterns(anywhere, folder=folder) for folder in (False, True)}
        self._needing: dict[str, list[Glob]] = {}
        """A part of a path that globs of several parts need."""
        self._others: list[Glob] = []
        for glob in globs:
            if not glob.is_one_part:
                (self._needing.setdefault(glob.names[0], []) if glob.names else self._others).append(glob)

    def covers(self, parts: Sequence[str], *, folder: bool) -> bool:
        """Whether any of them matches a path or a folder on the way to it; see `Glob.covers`."""
        for only_folders, named in self._names.items():
            there = parts if folder or not only_folders else parts[:-1]
            matches = self._matches[only_folders]
            if not named.isdisjoint(there) or (matches is not None and any(map(matches, there))):
                return True
        needed = () if self._needing.keys().isdisjoint(parts) else self._needing.keys() & set(parts)
        tried = (self._others, *(self._needing[name] for name in needed))
        return any(glob.covers(parts, folder=folder) for globs in tried for glob in globs)


def _list_names(globs: Iterable[Glob], *, folder: bool) -> Iterator[str]:
    return (glob.names[0] for glob in globs if glob.names and glob.folder is folder)


def _join_patterns(globs: Iterable[Glob], *, folder: bool) -> Callable[[str], bool] | None:
    """Join the patterns of globs that match one part of a path. Each is tried in turn, so the time stays linear.

    Answers are remembered, because the files of a tree share folders.
    """
    texts = [step.pattern for glob in globs for step in glob.steps if step and not glob.names and glob.folder is folder]
    if not texts:
        return None
    pattern = re.compile("|".join(f"(?:{text})" for text in texts), re.DOTALL)
    return lru_cache(_PARTS)(lambda part: pattern.match(part) is not None)


@dataclass(frozen=True)
class Globs:
    """A list of globs, of which the last that matches decides."""

    globs: tuple[Glob, ...] = ()
    otherwise: bool = False
    """The answer for a path that none of them matches."""

    @cached_property
    def _groups(self) -> tuple[tuple[GlobIndex, bool], ...]:
        """The globs, the last first, in groups of neighbours with the same answer."""
        groups = groupby(reversed(self.globs), key=lambda glob: glob.negated)
        return tuple((GlobIndex(list(globs)), not negated) for negated, globs in groups)

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether the list matches a path."""
        if not self.globs:
            return self.otherwise
        parts = path.split("/")
        for index, answer in self._groups:
            if index.covers(parts, folder=folder):
                return answer
        return self.otherwise

    def filter_paths(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths that the list matches, in the order given."""
        return tuple(path for path in paths if self.covers(path))


class PathMatcher(Protocol):
    """Matches paths."""

    def covers(self, path: str, *, folder: bool = False) -> bool:
        """Whether it matches a path."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The paths that a task may change."""

    allowed: Globs = field(default_factory=lambda: Globs(otherwise=True))
    disallowed: Globs = Globs()

    def permits(self, path: str) -> bool:
        """Whether a path may change. A disallowed path may not, even if it is allowed too."""
        return self.allowed.covers(path) and not self.disallowed.covers(path)

    def find_breaches(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the changed paths that must not change, in the order given."""
        return tuple(path for path in paths if not self.permits(path))


def make_scope(allowed: Sequence[str], disallowed: Sequence[str]) -> Scope:
    """Make the scope of a promise. Without an allowed glob, or with only `!` globs, all but the disallowed may change.

    Raises InputError as `read_globs` does.
    """
    only_exceptions = all(glob.startswith("!") for glob in allowed)
    return Scope(read_globs(allowed, otherwise=only_exceptions), read_globs(disallowed))


def display_path(path: str) -> str:
    """Format a path for messages and records. Bytes that are not UTF-8, which `os.fsdecode` hides, are escaped."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def quote_path(path: str) -> str:
    """Make a glob that matches this path and nothing else."""
    return "/" + _MEANT.sub(r"\\\1", path)


def read_globs(texts: Sequence[str], *, otherwise: bool = False) -> Globs:
    """Read a list of globs. Raises InputError for the first that can never match, since it would protect nothing."""
    for text in texts:
        if why := explain_fault(text):
            raise InputError(
                Code.FIELD_VALUE, f"{text[:140]!r} is not a glob: {why}", hint="write it as in a .gitignore"
            )
    return Globs(tuple(_glob(text) for text in texts), otherwise)


def explain_fault(text: str) -> str:
    """Explain why a glob can never match anything. Empty if it can."""
    body = text.removeprefix("!")
    if not body.strip("/"):
        return "it is empty"
    if "\0" in body or len(body) > 4096:
        return "no path is like that"
    if any(part in {".", ".."} for part in body.split("/")):
        return "a path of a tree has no '.' and no '..'"
    if "//" in body:
        return "a part of it is empty"
    return "" if _readable(body) else "a bracket cannot be read, or nothing follows a backslash"


def read_ignore_file(text: str) -> Globs:
    """Read the globs of a .gitignore without comments, empty lines and globs that can never match."""
    globs = []
    for line in text.removeprefix("\ufeff").split("\n"):
        kept = _trimmed(line.removesuffix("\r"))
        if kept and not kept.startswith("#"):
            kept = kept[1:] if kept.startswith("\\#") else kept
            if not explain_fault(kept):
                globs.append(_glob(kept))
    return Globs(tuple(globs))


class IgnoreRules:
    """The .gitignore files of a tree, with defaults that any of them overrides.

    They are read as git does: a file decides about its own folder and those below, a deeper file overrides a higher
    one, and nothing within an ignored folder is included again. So ask about folders first, and skip ignored ones.
    """

    def __init__(self, files: Mapping[str, str], defaults: Sequence[str] = DEFAULT_EXCLUDES) -> None:
        """`files`: folder (empty for the top) → content of its .gitignore."""
        self._files = {folder: read_ignore_file(text) for folder, text in files.items()}
        self._defaults = read_globs(defaults)

    def ignores(self, path: str, *, folder: bool) -> bool:
        """Whether a path is ignored."""
        parts = path.split("/")
        for depth in range(len(parts) - 1, -1, -1):
            here = self._files.get("/".join(parts[:depth]))
            decided = _decided(here, parts[depth:], folder=folder) if here else None
            if decided is not None:
                return decided
        return self._defaults.covers(path, folder=folder)


def _decided(patterns: Globs, parts: Sequence[str], *, folder: bool) -> bool | None:
    for glob in reversed(patterns.globs):
        if (folder or not glob.folder) and glob.matches(parts):
            return not glob.negated
    return None


def _trimmed(line: str) -> str:
    """Remove blanks at the end, except one behind a backslash."""
    bare = line.rstrip(" ")
    cut = len(bare) < len(line) and (len(bare) - len(bare.rstrip("\\"))) % 2
    return bare + " " if cut else bare


@lru_cache(maxsize=4096)
def _glob(text: str) -> Glob:
    negated = text.startswith("!")
    body = text.removeprefix("!")
    folder = body.endswith("/")
    body = body.rstrip("/")
    steps: list[re.Pattern[str] | None] = [_step(part) for part in body.lstrip("/").split("/")]
    if "/" not in body:
        steps.insert(0, None)
    if steps[-1] is None:
        steps.insert(-1, _step("*"))  # `a/**` is all that lies in a, not a itself
    names = (part for part in body.lstrip("/").split("/") if not _SPECIAL.search(part))
    return Glob(tuple(steps), negated, folder, tuple(names))


def _step(part: str) -> re.Pattern[str] | None:
    return None if part == _ANY else re.compile(_pattern(part), re.DOTALL)


def _pattern(part: str) -> str:
    """Translate a part of a glob to a regular expression that does not backtrack.

    Each text between two stars is an atomic group: its first match is as good as any later one, so a failure behind it
    is final. That keeps the time linear.
    """
    pieces = [""]
    at = 0
    while at < len(part):
        char = part[at]
        if char == "*":
            if len(pieces) == 1 or pieces[-1]:
                pieces.append("")
            at += 1
        else:
            text, at = _piece(part, at)
            pieces[-1] += text
    if len(pieces) == 1:
        return pieces[0] + r"\Z"
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1])
    return f"{pieces[0]}{middle}.*{pieces[-1]}\\Z"


def _piece(part: str, at: int) -> tuple[str, int]:
    char = part[at]
    if char == "?":
        return ".", at + 1
    if char == "\\":
        return re.escape(part[at + 1]), at + 2
    if char == "[":
        end = _bracket_end(part, at)
        return _bracket(part[at + 1 : end]), end + 1
    return re.escape(char), at + 1


def _readable(body: str) -> bool:
    """Whether every bracket is closed in its own part, and a character follows every backslash."""
    for part in body.split("/"):
        at = 0
        while at < len(part):
            if part[at] == "\\":
                at += 2
            elif part[at] == "[":
                at = _bracket_end(part, at) + 1
                if not at:
                    return False
            else:
                at += 1
        if at > len(part):
            return False
    return True


def _bracket_end(part: str, start: int) -> int:
    """Find the end of the bracket that opens at `start`, or return -1. A `]` that comes first belongs to the set."""
    at = start + 1
    if part[at : at + 1] in {"!", "^"}:
        at += 1
    first = at
    while at < len(part):
        if part[at] == "]" and at > first:
            return at
        if part[at] == "\\":
            at += 2
        elif (name := _CLASS.match(part, at)) and name[1] not in _CLASSES:
            return -1
        else:
            at = name.end() if name else at + 1
    return -1


def _bracket(inner: str) -> str:
    negated = inner[0] in {"!", "^"}
    items = _items(inner[1:] if negated else inner)
    if not items:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{items}]"


def _items(inner: str) -> str:
    items = []
    at = 0
    while at < len(inner):
        if name := _CLASS.match(inner, at):
            items.append(_CLASSES[name[1]])
            at = name.end()
            continue
        low, at = _literal(inner, at)
        if inner[at : at + 1] == "-" and at + 1 < len(inner):
            high, at = _literal(inner, at + 1)
            if low <= high:
                items.append(f"{re.escape(low)}-{re.escape(high)}")
        else:
            items.append(re.escape(low))
    return "".join(items)


def _literal(inner: str, at: int) -> tuple[str, int]:
    return (inner[at + 1], at + 2) if inner[at] == "\\" else (inner[at], at + 1)
