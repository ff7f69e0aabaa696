"""Decide whether a check passed, from the facts that were collected. What is not known to be fine is not fine."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import (
    ArtifactCheck,
    FileCheck,
    GitCheck,
    HttpCheck,
    JsonCheck,
    RunCheck,
    TestsCheck,
)
from agenttalk.rules.core import scope
from agenttalk.rules.core.task_states import ProgramEnding
from agenttalk.rules.proof.evidence import CheckFinding, Confirmation, Reason
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import ABOUT, join, join_names

ExitKind = Literal[ProgramEnding, "output_limit", "not_isolated", "stuck", "tampered"]

_PYTEST: Final = ("pytest", "_pytest", "pluggy", "iniconfig")
_RUNNERS: Final = {
    "pytest": _PYTEST,
    "unittest": ("unittest",),
    "nose2": ("nose2",),
    "coverage": ("coverage", *_PYTEST),
    "tox": ("tox",),
    "nox": ("nox",),
}
"""Modules that run tests → what must not lie in the checkout, because it would be started in their place."""
_MODULE: Final = re.compile(r"(?<!\S)-m\s*['\"]?([A-Za-z_]\w*)")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_REASONS: Final[dict[str, Reason]] = {
    "crashed": "killed",
    "timeout": "timeout",
    "not_started": "not_started",
    "output_limit": "output_limit",
    "not_isolated": "not_isolated",
    "stuck": "stuck",
    "tampered": "tampered",
}


@dataclass(frozen=True, slots=True)
class ProgramExit:
    """How a program ended."""

    how: ExitKind
    exit_code: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class GitFacts:
    """What the work changed, as the engine sees it."""

    changed: Collection[str] = ()
    """Paths that differ from the baseline."""
    protected: Collection[str] = ()
    """Protected paths that were changed, and put back."""


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """An output as it is stored."""

    producer: str
    declared: str
    """Hash that its producer declared."""
    found: str
    """Hash of what is stored."""
    accepted: Mapping[str, str] = field(default_factory=dict)
    """Agent → hash of what it accepted."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of a file that a check read."""

    size: int
    sha256: str
    content: bytes | None = None
    """Only where it is needed."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What an address answered."""

    status: int
    body: bytes
    whole: bool
    """Whether the body is all of it, and as it was meant: not compressed."""
    asked: str
    """The address, after redirects."""


def judge_run(ran: ProgramExit) -> CheckFinding:
    """Judge a program: it passes by exiting with 0 by itself."""
    if ran.how != "finished":
        return CheckFinding(False, _REASONS[ran.how], ran.error or check_words.NOT_BY_ITSELF(how=ran.how))
    if ran.exit_code != 0:
        return CheckFinding(False, "exit_code", check_words.ENDED_WITH(code=ran.exit_code))
    return CheckFinding(True)


def is_worth_another_run(finding: CheckFinding, ran: ProgramExit) -> bool:
    """Whether running again can tell something: only failures are tried again, never what is wrong otherwise."""
    alone = finding.reason == "exit_code" or (finding.reason == "tests_failed" and ran.exit_code != 0)
    return not finding.passed and alone


def list_shadowing_files(check: RunCheck | TestsCheck) -> tuple[str, ...]:
    """Files that must not lie in the folder where a check is run: Python would take them for the test runner."""
    if isinstance(check, TestsCheck) and not check.protect_config:
        return ()
    modules = {module for name in _MODULE.findall(check.run) for module in _RUNNERS.get(name, ())}
    return tuple(path for module in sorted(modules) for path in (f"{module}.py", f"{module}/__init__.py"))


def make_environment(
    given: Mapping[str, str] | None, *, path: str, checkout: str, outside: Mapping[str, str]
) -> dict[str, str]:
    """Build the environment of a check: its own variables, over the few that programs need, as they are outside.

    Temporary files are the sandbox's business. Raises ValueError for a variable that cannot be set.
    """
    for name, value in (given or {}).items():
        if not _VARIABLE.match(name) or "\0" in value:
            raise ValueError(f"the variable {name[:80]!r} cannot be set")
    return {**outside, "PATH": safe_path(path, checkout), **(given or {})}


def safe_path(path: str, checkout: str) -> str:
    """PATH without what is relative or lies in the checkout: no program of the work passes for one of the system."""
    within = checkout.rstrip("/") + "/"
    kept = [part for part in path.split(":") if part.startswith("/") and not f"{part.rstrip('/')}/".startswith(within)]
    return ":".join(part for part in kept if ".." not in part.split("/"))


def judge_file(check: FileCheck, seen: FileFacts) -> CheckFinding:
    """Judge a file: it passes when it meets every condition of the check."""
    faults = []
    if check.min_bytes is not None and seen.size < check.min_bytes:
        faults.append(check_words.TOO_SMALL(size=seen.size, least=check.min_bytes))
    if check.sha256 is not None and seen.sha256 != check.sha256:
        faults.append(check_words.OTHER_HASH(found=seen.sha256, asked=check.sha256))
    if check.contains is not None and (seen.content is None or check.contains.encode() not in seen.content):
        faults.append(check_words.HOLDS_NOT(text=check.contains[:80]))
    return _content(check.path, faults)


def judge_json(check: JsonCheck, document: Any, violations: Sequence[str]) -> CheckFinding:
    """Judge a JSON file: it needs its fields and must meet its schema. A null counts as absent."""
    faults = [check_words.LACKS(name=name) for name in check.required_fields or () if _reached(document, name) is None]
    return _content(check.path, [*faults, *violations])


def _reached(document: Any, name: str) -> Any:
    """Return the value at a name, or at names joined by dots, each inside the one before."""
    if isinstance(document, dict) and document.get(name) is not None:
        return document[name]
    for part in name.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def _content(path: str, faults: Sequence[str]) -> CheckFinding:
    return CheckFinding(False, "content", ABOUT(subject=path, what=join(faults))) if faults else CheckFinding(True)


def judge_git(check: GitCheck, facts: GitFacts | None) -> CheckFinding:
    """Judge a change: it must be where the check expects it, and leave protected paths alone."""
    if facts is None:
        return CheckFinding(False, "facts_missing", check_words.NO_REPOSITORY())
    faults = [
        check_words.NONE_CHANGED(glob=glob)
        for glob in check.changed or ("**",)
        if scope.explain_fault(glob) or not scope.read_globs((glob,)).filter_paths(facts.changed)
    ]
    if facts.protected:
        faults.append(check_words.PROTECTED_CHANGED(names=join_names(facts.protected)))
    return CheckFinding(False, "content", join(faults)) if faults else CheckFinding(True)


def judge_http(check: HttpCheck, answer: HttpAnswer) -> CheckFinding:
    """Judge an answer: it must have the required status and text."""
    faults = []
    if answer.status != check.status:
        faults.append(check_words.OTHER_STATUS(found=answer.status, asked=check.status))
    if check.contains is not None and check.contains.encode() not in answer.body:
        lacks = check_words.ANSWER_HOLDS_NOT if answer.whole else check_words.PART_HOLDS_NOT
        faults.append(lacks(text=check.contains[:80]))
    return (
        CheckFinding(False, "answer", ABOUT(subject=answer.asked, what=join(faults))) if faults else CheckFinding(True)
    )


def judge_artifact(check: ArtifactCheck, stored: StoredOutput | None) -> CheckFinding:
    """Judge an output: it must be stored as declared and, if required, accepted unchanged by another agent."""
    if stored is None or not stored.found:
        return CheckFinding(False, "missing", check_words.NOT_STORED(name=check.output))
    if stored.found != stored.declared:
        return CheckFinding(
            False,
            "content",
            check_words.OTHER_CONTENT(name=check.output, found=stored.found, declared=stored.declared),
        )
    who = check.accepted_by
    if who is None:
        return CheckFinding(True)
    if who == stored.producer:
        return CheckFinding(False, "not_accepted", check_words.OWN_WORK(who=who, name=check.output))
    if stored.accepted.get(who) != stored.found:
        accepted = check_words.ACCEPTED_OTHER if who in stored.accepted else check_words.ACCEPTED_NONE
        return CheckFinding(False, "not_accepted", accepted(who=who, name=check.output))
    return CheckFinding(True)


def judge_report(report: str | None) -> CheckFinding:
    """Judge an agent's report: it passes if it exists. It stays a claim."""
    if report is None or not report.strip():
        return CheckFinding(False, "missing", check_words.NO_OWN_REPORT())
    return CheckFinding(True)


def judge_human(confirmation: Confirmation | None, shown: str) -> CheckFinding:
    """Judge a person's answer: it passes when it approves exactly the current state, whose hash is `shown`."""
    if confirmation is None:
        return CheckFinding(False, "not_confirmed", check_words.NOBODY_ANSWERED())
    if not confirmation.by.strip():
        return CheckFinding(False, "not_confirmed", check_words.UNKNOWN_ANSWERED())
    if not confirmation.approved:
        return CheckFinding(False, "not_confirmed", check_words.SAID_NO(by=confirmation.by))
    if not shown or confirmation.shown != shown:
        return CheckFinding(False, "not_confirmed", check_words.SAW_OTHER(by=confirmation.by))
    said = check_words.CONFIRMED_BY if confirmation.trust == "confirmed" else check_words.ATTESTED_BY
    return CheckFinding(True, "", said(by=confirmation.by))


def hash_shown(question: str, subjects: Mapping[str, str]) -> str:
    """Hash what a person is shown: the question, and its subjects with the hash of each."""
    return wire.sha256(wire.write({"question": question, "subjects": dict(subjects)}))
