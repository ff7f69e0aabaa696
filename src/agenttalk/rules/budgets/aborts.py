"""What stops a run before it has ended by itself, and which of it a promise lets act."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.rules.text.message import ABOUT, Message

if TYPE_CHECKING:
    from agenttalk.contracts.promise import AbortCondition, AbortType, CompletionPromise

_KINDS: Final = {"token": "tokens", "cost": "cost_usd", "time": "seconds", "tool-calls": "tool_calls"}
"""How a promise names a kind of budget → how a budget does."""


class Abort(NamedTuple):
    """Why a run was stopped."""

    type: AbortType
    detail: str
    pauses: bool = False
    """Whether its task waits until it may go on, instead of being over."""

    def __str__(self) -> str:
        return str(self.describe())

    def describe(self) -> str:
        """Return the type with the detail, as a message if the detail is one."""
        if isinstance(self.detail, Message):
            return ABOUT(subject=self.type, what=self.detail)
        return f"{self.type}: {self.detail}" if self.detail else self.type


def find_conditions(promise: CompletionPromise | None, kind: AbortType) -> tuple[AbortCondition, ...]:
    """Find the conditions of this kind that stop a run, by its promise."""
    conditions = promise.abort_when if promise is not None else ()
    return tuple(each for each in conditions if each.type == kind)


def stops_run(promise: CompletionPromise | None, kind: AbortType, *, budget: str | None = None) -> bool:
    """Whether something of this kind stops the run.

    A promise that names conditions is stopped by those alone, one that names none by all of them; a person can stop
    every run. `budget` is the kind of budget that is used up: a condition may name one.
    """
    if promise is None or not promise.abort_when or kind == "user-aborted":
        return True
    found = find_conditions(promise, kind)
    if budget is None:
        return bool(found)
    return any(_KINDS.get(each.target or "", budget) == budget for each in found)
