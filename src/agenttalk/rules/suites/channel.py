"""What test runners report over the engine's channel, while they run.

The code under test can write there as well as the runner, so everything is bounded and read with suspicion. A report
is a row of frames, each four bytes of length and a JSON array:

- `["hello", VERSION, RUNNER]` first of all, before the runner has loaded a test;
- `["tests", [NAME, ...]]`: the tests that it is going to run, in one frame or several;
- `["begin", NAME]` before a test, and `["end", NAME, OUTCOME, WHY]` after it;
- `["modules", PATHS, [[NAME, FILE], ...]]`: which modules of the tree were loaded, and where Python searched them;
- `["over", CODE]` last, with the exit code that the runner is about to end with.

A test that begins and does not end, a run that is not over, or other bytes than such frames prove nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.rules.suites.outcomes import WORSE, Outcome, Outcomes
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import Message

VERSION: Final = 1
_LENGTH: Final = 4
_LONGEST_FRAME: Final = 1 << 20
_LONGEST_NAME: Final = 4_000
_LONGEST_WHY: Final = 300
_MOST_TESTS: Final = 500_000
_MOST_MODULES: Final = 5_000
_RUNNER: Final = re.compile(r"[a-z]{1,20}\Z")
_SUFFIX: Final = re.compile(r"\.py\Z")
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
HIDDEN: Final = "hidden"
"""The outcome of a test that failed, and that was called passed afterwards."""


@dataclass(frozen=True, slots=True)
class SuiteSession:
    """One run of a test runner, as it reported itself."""

    runner: str = ""
    outcomes: Outcomes = field(default_factory=Outcomes)
    pending: frozenset[str] = frozenset()
    """Tests that began and did not end."""
    unrun: frozenset[str] = frozenset()
    """Tests that were to run and did not even begin."""
    hidden: frozenset[str] = frozenset()
    """Tests that failed, and that were called passed afterwards."""
    code: int | None = None
    """The exit code that it said it would end with; None when it was not over."""
    fault: Message | None = None
    """Why the bytes that came cannot be read as a report."""
    paths: tuple[str, ...] = ()
    """Where Python searched modules."""
    modules: tuple[tuple[str, str], ...] = ()
    """The modules of the tree that were loaded, by their names, each with its file."""

    @property
    def is_red(self) -> bool:
        """Whether something failed, or it ended with another code than 0."""
        return bool(self.outcomes.failed or self.code)


class ChannelReader:
    """Reads the report of one runner, piece by piece."""

    def __init__(self, limit: int) -> None:
        """`limit` is how many bytes the whole report may have."""
        self._left = limit
        self._rest = b""
        self._runner = ""
        self._names: dict[str, str] = {}
        """The ids of tests by the names that their runner gave them."""
        self._announced: set[str] = set()
        self._open: set[str] = set()
        self._ended: dict[str, Outcome] = {}
        self._whys: dict[str, str] = {}
        self._repeated: set[str] = set()
        self._hidden: set[str] = set()
        self._code: int | None = None
        self._paths: tuple[str, ...] = ()
        self._modules: list[tuple[str, str]] = []
        self.fault: Message | None = None
        """Why nothing more is read."""

    def add_piece(self, data: bytes) -> None:
        """Add what has arrived. After a fault nothing more is read."""
        self._left -= len(data)
        if self._left < 0:
            self._refuse("it is too long")
        self._rest += data
        at = 0
        bodies: list[bytes] = []
        while self.fault is None and len(self._rest) - at >= _LENGTH:
            size = int.from_bytes(self._rest[at : at + _LENGTH], "big")
            if size > _LONGEST_FRAME:
                self._refuse("a frame is too long")
            elif len(self._rest) - at < _LENGTH + size:
                break
            else:
                bodies.append(self._rest[at + _LENGTH : at + _LENGTH + size])
                at += _LENGTH + size
        for frame in self._parse(bodies):
            if self.fault is None:
                self._take(frame)
        self._rest = b"" if self.fault is not None else self._rest[at:]

    def _parse(self, bodies: list[bytes]) -> list[Any]:
        """Parse frames, many at once, which takes a fraction of the time."""
        try:
            frames = json.loads(b"[" + b",".join(bodies) + b"]")
        except (ValueError, RecursionError):
            frames = []
        if len(frames) != len(bodies):
            self._refuse("a frame is not JSON")
        return list(frames)

    def read_session(self) -> SuiteSession:
        """Return what was reported so far."""
        groups: dict[Outcome, set[str]] = {outcome: set() for outcome in WORSE}
        for name, outcome in self._ended.items():
            groups[outcome].add(name)
        skipped = frozenset(groups["skipped"])
        outcomes = Outcomes(
            frozenset(groups["passed"]),
            frozenset(groups["failed"]),
            skipped,
            frozenset(self._repeated),
            whys=frozenset((name, self._whys[name]) for name in skipped if name in self._whys),
        )
        return SuiteSession(
            self._runner,
            outcomes,
            frozenset(self._open),
            frozenset(self._announced - self._ended.keys() - self._open),
            frozenset(self._hidden),
            self._code,
            self.fault,
            self._paths,
            tuple(self._modules),
        )

    def _refuse(self, why: str) -> None:
        self.fault = self.fault or check_words.CHANNEL_GARBLED(why=why)

    def _take(self, frame: Any) -> None:
        """Take one frame."""
        match frame:
            case ["begin", name] if self._runner and self._code is None and len(self._ended) < _MOST_TESTS:
                self._begin(self._name(name))
            case ["end", name, str(outcome), str(why)] if self._runner and self._code is None:
                self._end(self._name(name), outcome, why)
            case ["hello", version, str(runner)] if version == VERSION and not self._runner and _RUNNER.match(runner):
                self._runner = runner
            case _ if not self._runner or self._code is not None:
                self._refuse("a frame came before the first, or after the last")
            case ["tests", list(names)] if len(self._announced) + len(names) <= _MOST_TESTS:
                self._announced.update(self._name(name) for name in names)
            case ["modules", list(paths), list(modules)] if len(self._modules) + len(modules) <= _MOST_MODULES:
                self._load(paths, modules)
            case ["over", int(code)] if not isinstance(code, bool) and 0 <= code <= 255:
                self._code = code
            case _:
                self._refuse("a frame is of no known kind")

    def _name(self, name: Any) -> str:
        """Return the id of a test by the name that its runner gave it."""
        if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
            self._refuse("a test has no name, or one that is too long")
            return ""
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = name_test(self._runner, name)
        return known

    def _load(self, paths: list[Any], modules: list[Any]) -> None:
        """Note loaded modules. What is of another kind is left out."""
        self._paths = tuple(path for path in paths if isinstance(path, str))
        for module in modules:
            match module:
                case [str(name), str(file)]:
                    self._modules.append((name, file))

    def _begin(self, name: str) -> None:
        if name in self._open:
            self._repeated.add(name)
        self._open.add(name)

    def _end(self, name: str, outcome: str, why: str) -> None:
        if name not in self._open:
            self._refuse("a test ended that had not begun")
            return
        self._open.remove(name)
        if outcome == HIDDEN:
            self._hidden.add(name)
            outcome = "failed"
        found: list[Outcome] = [each for each in WORSE if each == outcome]
        if not found:
            self._refuse("a test ended in an unknown way")
            return
        if name in self._ended:
            self._repeated.add(name)
            found.append(self._ended[name])
        self._ended[name] = max(found, key=WORSE.index)
        if outcome == "skipped":
            self._whys[name] = clean(why.strip())[:_LONGEST_WHY]


def name_test(runner: str, name: str) -> str:
    """Return the id of a test as a JUnit report would have it: where it is, `::`, and its own name."""
    if runner == "pytest":
        address, bracket, parameters = clean(name).partition("[")
        *places, last = address.split("::")
        places = [_SUFFIX.sub("", (places or [last])[0].replace("/", ".")), *places[1:]]
        if "::" not in address:
            return (places[0] + bracket + parameters).strip()
        return f"{'.'.join(places)}::{last}{bracket}{parameters}".strip()
    return clean(name).strip()


def clean(text: str) -> str:
    """Return a text without what no store keeps: control characters and halves of characters become `#x`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"#x{ord(char):02X}" for char in text)


def is_same_why(one: str, other: str) -> bool:
    """Whether two reasons for a skip are the same, but for numbers and addresses in them."""
    return _NUMBERS.sub("#", one) == _NUMBERS.sub("#", other)


def merge_sessions(sessions: Iterable[SuiteSession]) -> Outcomes:
    """Merge what several runners reported. Where they name the same test, the worse counts."""
    return merge_outcomes([session.outcomes for session in sessions])


def merge_outcomes(all_of_them: Iterable[Outcomes]) -> Outcomes:
    """Merge the outcomes of several runs or reports. Where they name the same test, the worse counts.

    Of the reasons for a skip the first one that was given stays: two kinds of reports word them differently.
    """
    failed: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    passed: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    whys: dict[str, str] = {}
    beyond = False
    for each in all_of_them:
        failed |= each.failed
        skipped |= each.skipped
        passed |= each.passed
        repeated |= each.repeated
        whys = {**dict(each.whys), **whys}
        beyond |= each.beyond
    skipped -= failed
    return Outcomes(passed - failed - skipped, failed, skipped, repeated, beyond, frozenset(whys.items()))
