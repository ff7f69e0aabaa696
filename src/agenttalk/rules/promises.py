"""Promises: whether one is worth being made."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agenttalk.contracts.promise import Checkpoint, CompletionPromise, Severity

_ID = re.compile(r"cp-[0-9]+-[0-9a-f]{4}\Z")


@dataclass(frozen=True, slots=True)
class PromiseIssue:
    """One thing that is wrong with a promise, and how much that matters."""

    severity: Severity
    message: str
    field: str
    checkpoint: Checkpoint = "pre-plan"


@dataclass(frozen=True, slots=True)
class PromiseValidity:
    """Whether a promise may be made, and everything that is to be said of it."""

    issues: tuple[PromiseIssue, ...]

    @property
    def valid(self) -> bool:
        """False only with a hard-deny."""
        return all(issue.severity != "hard-deny" for issue in self.issues)


def validate(promise: CompletionPromise) -> PromiseValidity:
    """Every issue of a promise at the first checkpoint."""
    return PromiseValidity(tuple(_issues(promise)))


def _issues(promise: CompletionPromise) -> Iterator[PromiseIssue]:
    if not _ID.match(promise.id):
        yield PromiseIssue("hard-deny", f"the id {promise.id!r} is not cp-<milliseconds>-<4 hex digits>", "id")
    if not promise.objective.strip():
        yield PromiseIssue("hard-deny", "the objective is empty", "objective")
    if not promise.acceptance:
        yield PromiseIssue("hard-deny", "there is no acceptance criterion: nothing would ever be shown", "acceptance")
    yield from _criterion_issues(promise)
    if not promise.done_when:
        yield PromiseIssue("warning", "doneWhen is empty", "doneWhen")
    if not promise.abort_when:
        yield PromiseIssue("warning", "abortWhen is empty: nothing stops a run that goes wrong", "abortWhen")
    both = [glob for glob in promise.disallowed_scope if glob in promise.allowed_scope]
    if both:
        yield PromiseIssue("soft-deny", f"allowed and disallowed at once: {', '.join(both)}", "disallowedScope")


def _criterion_issues(promise: CompletionPromise) -> Iterator[PromiseIssue]:
    for at, criterion in enumerate(promise.acceptance):
        if not criterion.id.strip():
            yield PromiseIssue("hard-deny", "the criterion has no id", f"acceptance[{at}].id")
        if not criterion.description.strip():
            yield PromiseIssue("hard-deny", "the criterion has no description", f"acceptance[{at}].description")
    ids = [criterion.id for criterion in promise.acceptance]
    if len(set(ids)) < len(ids):
        twice = sorted({name for name in ids if ids.count(name) > 1})
        yield PromiseIssue("soft-deny", f"criteria with the same id: {', '.join(twice)}", "acceptance")
