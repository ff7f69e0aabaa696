"""Validates promises, and gives them their ids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import Part
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.planfile.model import PLACEHOLDER_ID
from agenttalk.contracts.promise import CHECK_KINDS, Checkpoint, CompletionPromise, OtherCheck, Severity

_FIELDS = {"acceptance": "acceptance", "doneWhen": "done_when", "abortWhen": "abort_when", "checks": "checks"}
_ID = re.compile(r"cp-[0-9]+-[0-9a-f]{4}\Z")


@dataclass(frozen=True, slots=True)
class PromiseIssue:
    """One fault of a promise, with its severity."""

    severity: Severity
    message: str
    field: str
    checkpoint: Checkpoint = "pre-plan"


@dataclass(frozen=True, slots=True)
class PromiseValidity:
    """All issues of a promise."""

    issues: tuple[PromiseIssue, ...]

    @property
    def valid(self) -> bool:
        """Whether no issue is a hard-deny."""
        return all(issue.severity != "hard-deny" for issue in self.issues)


def make_promise_id(ms: int, random: int) -> str:
    """Make the id of a promise from the time in milliseconds since 1970 and four random hex digits."""
    return f"cp-{ms}-{random & 0xFFFF:04x}"


def make_plan_promise_id(plan_id: str, task_id: str, ms: int) -> str:
    """Make the id of a task's promise in a plan that was submitted at a time; always the same."""
    return f"cp-{ms}-{wire.sha256(f'{plan_id}/{task_id}'.encode())[7:11]}"


def assign_promise_ids(dag: TaskDag, ms: int) -> TaskDag:
    """Give every promise of a submitted plan its id."""
    if not any(is_unnamed(node) for node in dag.nodes):
        return dag
    return dag.model_copy(update={"nodes": tuple([_assign_promise_id(dag.plan_id, node, ms) for node in dag.nodes])})


def is_unnamed(node: Node) -> bool:
    """Whether a task has a promise without an id yet."""
    return node.promise is not None and node.promise.id == PLACEHOLDER_ID


def _assign_promise_id(plan_id: str, node: Node, ms: int) -> Node:
    promise = node.promise
    if promise is None or not is_unnamed(node):
        return node
    promise_id = make_plan_promise_id(plan_id, node.task_id, ms)
    return node.model_copy(update={"promise": promise.model_copy(update={"id": promise_id})})


def validate(promise: CompletionPromise) -> PromiseValidity:
    """Find every issue of a promise at the first checkpoint."""
    return PromiseValidity(tuple(_issues(promise)))


def find_near_misses(promise: CompletionPromise) -> list[Problem]:
    """Find unknown fields of a promise that resemble a known one: a misspelt limit would limit nothing."""
    parts: list[tuple[str, Part]] = [("promise", promise)]
    for name in ("acceptance", "doneWhen", "abortWhen", "checks"):
        inner = getattr(promise, _FIELDS[name])
        parts += [(f"promise.{name}[{at}]", part) for at, part in enumerate(inner)]
    if promise.budget:
        parts.append(("promise.budget", promise.budget))
    problems = []
    for path, part in parts:
        if isinstance(part, OtherCheck):  # only its extension knows its other keys
            near = find_nearest(part.kind, CHECK_KINDS)
            problems += [_misspelt(f"{path}.kind", part.kind, near)] if near else []
        elif part.model_extra:
            problems += [
                _misspelt(f"{path}.{key}", key, near) for key, near in part.unknown_fields(part.model_extra).items()
            ]
    return problems


def _misspelt(field: str, name: str, near: str) -> Problem:
    return Problem(Code.FIELD_UNKNOWN, field, f"{name!r} is not known here and does nothing", f"did you mean {near!r}?")


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
    if not promise.abort_when and promise.budget is None:
        yield PromiseIssue("warning", "abortWhen is empty: only limits of time and budget stop a run", "abortWhen")
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
