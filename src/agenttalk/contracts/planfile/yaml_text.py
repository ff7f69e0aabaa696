"""YAML as plan files use it: text, numbers, true, false, null, lists and mappings, without surprises.

A bare word means the same as in JSON; every other word is text, so `no`, `on`, `1:30` and `2026-01-31` stay as they
are written. The YAML parser only yields events; values are built here, so that tags cannot change them, aliases cannot
grow without limit, and every problem has a line and a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import yaml

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.problems import field_path
from agenttalk.contracts.errors import Code, ContractError, JsonError, Problem

YAML_LIMIT: Final = 4 * 1024 * 1024
"""Size limit of a YAML file in bytes. Large plans must be JSON, which is read far faster."""
MAX_COPIES: Final = 100_000
"""How many values all aliases together may stand for."""
MAX_PROBLEMS: Final = 1000
"""How many problems are reported before reading stops."""

_PARSER: Final = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z")
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
_STEP = re.compile(r"\[([0-9]+)\]|([^.\[\]]+)")


class TextPosition(NamedTuple):
    """A place in a text, counted from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class YamlSource:
    """The value of a file, the problems of its syntax, and the place of each value."""

    value: Any
    problems: tuple[Problem, ...] = ()
    marks: dict[int, dict[int | str, TextPosition]] = field(default_factory=dict, repr=False)
    """The id of a list or mapping → the places of its values."""

    def located(
        self,
        problems: Iterable[Problem],
        add: Callable[[str, TextPosition], str] = lambda text, mark: f"{text} ({mark})",
    ) -> tuple[Problem, ...]:
        """Return the problems with line and column, where they are known. `add` adds those to a text."""
        return tuple(self._placed(problem, add) for problem in problems) if self.marks else tuple(problems)

    def _placed(self, problem: Problem, add: Callable[[str, TextPosition], str]) -> Problem:
        mark, holder = None, self.value
        for number, name in _STEP.findall(problem.field):
            key = int(number) if number else name
            mark = self.marks.get(id(holder), {}).get(key) or mark
            try:
                holder = holder[key]
            except (KeyError, IndexError, TypeError):
                break
        return replace(problem, message=add(problem.message, mark)) if mark else problem


def plan_file_error(problems: Iterable[Problem]) -> ContractError:
    """Return one error for all problems of a plan file."""
    found = tuple(problems)
    first = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    where = f"{first.field}: " if first.field else ""
    return ContractError(first.code, f"not a valid plan file: {where}{first.message}{more}", found, hint=first.hint)


def parse_yaml(data: bytes) -> YamlSource:
    """Read YAML. Raises ContractError where reading cannot continue."""
    if len(data) > YAML_LIMIT:
        message = f"the file has {len(data):,} bytes; the limit for YAML is {YAML_LIMIT:,}"
        raise plan_file_error([Problem(Code.JSON_TOO_LARGE, "", message, "write a plan of this size as JSON")])
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problem = Problem(Code.YAML_SYNTAX, "", f"not UTF-8 at byte {error.start} (line {line})", "save it as UTF-8")
        raise plan_file_error([problem]) from error
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_PARSER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise plan_file_error([*builder.problems, _syntax(error, text)]) from error
    return YamlSource(builder.value, tuple(builder.problems), builder.marks)


def _syntax(error: Any, text: str) -> Problem:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is not None:
        what, place = (
            getattr(error, "problem", None) or "a syntax error",
            TextPosition(mark.line + 1, mark.column + 1),
        )
    else:  # a character that YAML does not allow
        before = text.encode()[: error.position].decode(errors="ignore")
        place = TextPosition(before.count("\n") + 1, len(before) - before.rfind("\n"))
        what = "a control character"
    hint = "indent with spaces, close every bracket and quote, and put texts with ': ' or '#' in quotes"
    return Problem(Code.YAML_SYNTAX, "", f"not YAML at {place}: {what}", hint)


_NO_KEY: Final = object()
_DROPPED: Final = object()
"""The key of a value that is dropped, because the key is a duplicate."""


@dataclass(slots=True)
class _OpenCollection:
    """A list or mapping that is being read."""

    value: Any
    anchor: str | None
    key: Any = _NO_KEY
    size: int = 1
    height: int = 1
    marks: dict[int | str, TextPosition] = field(default_factory=dict)


class _AnchorValue(NamedTuple):
    """The value of an anchor, how many values it contains, and how deep they are nested."""

    value: Any
    size: int
    height: int


class _Builder:
    """Builds values from the parser's events."""

    def __init__(self) -> None:
        self.value: Any = None
        self.problems: list[Problem] = []
        self.marks: dict[int, dict[int | str, TextPosition]] = {}
        self._stack: list[_OpenCollection] = []
        self._anchors: dict[str, _AnchorValue | None] = {}
        self._copies = 0
        self._documents = 0

    def take(self, event: Any) -> None:
        """Return the next event."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open(event, {} if kind is yaml.MappingStartEvent else [])
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close(event)
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                raise self._stopped(event, "a second document begins", "keep one plan in one file, without ---")

    def _scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        text = event.value
        if self._awaits_key():
            self._take_key(event, text)
            known = _AnchorValue(text, 1, 0)
        else:
            known = _AnchorValue(self._plain(event, text) if event.implicit[0] else text, 1, 0)
            self._put(event, known)
        if event.anchor:
            self._anchors[event.anchor] = known

    def _plain(self, event: Any, text: str) -> Any:
        if text in _WORDS:
            return _WORDS[text]
        if not _NUMBER.match(text):
            return text
        try:
            return wire.read(text.encode())
        except JsonError as error:
            self._say(error.code, event, error.message, "put it in quotes if it is text")
            return 0

    def _open(self, event: Any, value: Any) -> None:
        self._refuse_tag(event)
        if len(self._stack) == wire.MAX_DEPTH:
            raise self._too_deep(event)
        if self._awaits_key():
            raise self._stopped(event, "a key is a list or mapping", "use a text as the key")
        self._mark(event)
        self._stack.append(_OpenCollection(value, event.anchor))
        if event.anchor:
            self._anchors[event.anchor] = None  # it is not complete: an alias to it would be a cycle

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        self.marks[id(done.value)] = done.marks
        known = _AnchorValue(done.value, done.size, done.height)
        if done.anchor:
            self._anchors[done.anchor] = known
        self._put(event, known, marked=True)

    def _alias(self, event: Any) -> None:
        if self._awaits_key():
            raise self._stopped(event, "an alias is used as a key", "write the key out")
        known = self._anchors.get(event.anchor)
        if known is None:
            what = "stands for itself" if event.anchor in self._anchors else "has no anchor"
            raise self._stopped(event, f"the alias *{event.anchor[:40]} {what}", "write the value out")
        self._copies += known.size
        if self._copies > MAX_COPIES:
            raise self._stopped(event, f"aliases stand for more than {MAX_COPIES:,} values", "write the values out")
        if len(self._stack) + known.height > wire.MAX_DEPTH:
            raise self._too_deep(event)
        self._put(event, known)

    def _awaits_key(self) -> bool:
        return bool(self._stack) and self._stack[-1].key is _NO_KEY and isinstance(self._stack[-1].value, dict)

    def _take_key(self, event: Any, key: str) -> None:
        top = self._stack[-1]
        if event.implicit[0] and key == "<<":
            self._say(Code.YAML_FEATURE, event, "merging with << is not supported", "write the keys out")
            top.key = _DROPPED
        elif key in top.value:
            first = top.marks[key]
            top.key = key
            message = f"the key {key[:80]!r} is twice; first at {first}"
            self._say(Code.JSON_DUPLICATE_KEY, event, message, "keep one of them")
            top.key = _DROPPED
        else:
            top.key = key
            top.marks[key] = _mark(event)

    def _put(self, event: Any, known: _AnchorValue, *, marked: bool = False) -> None:
        if not self._stack:
            self.value = known.value
            return
        top = self._stack[-1]
        top.size += known.size
        top.height = max(top.height, known.height + 1)
        if isinstance(top.value, list):
            if not marked:
                self._mark(event)
            top.value.append(known.value)
        else:
            if top.key is not _DROPPED:
                top.value[top.key] = known.value
            top.key = _NO_KEY

    def _mark(self, event: Any) -> None:
        if self._stack and isinstance(self._stack[-1].value, list):
            self._stack[-1].marks[len(self._stack[-1].value)] = _mark(event)

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            hint = "leave it out; a text that looks like a number goes in quotes"
            self._say(Code.YAML_FEATURE, event, f"the tag {event.tag[:80]!r} is not supported", hint)

    def _path(self) -> str:
        steps: list[int | str] = []
        for level in self._stack:
            if isinstance(level.value, list):
                steps.append(len(level.value))
            elif isinstance(level.key, str):
                steps.append(level.key)
        return field_path(steps)

    def _say(self, code: Code, event: Any, message: str, hint: str) -> None:
        self.problems.append(Problem(code, self._path(), f"{message} ({_mark(event)})", hint))
        if len(self.problems) > MAX_PROBLEMS:
            raise plan_file_error(self.problems)

    def _stopped(self, event: Any, message: str, hint: str) -> ContractError:
        self._say(Code.YAML_FEATURE, event, message, hint)
        return plan_file_error(self.problems)

    def _too_deep(self, event: Any) -> ContractError:
        self._say(Code.JSON_TOO_DEEP, event, f"nested deeper than {wire.MAX_DEPTH} levels", "")
        return plan_file_error(self.problems)


def _mark(event: Any) -> TextPosition:
    return TextPosition(event.start_mark.line + 1, event.start_mark.column + 1)
