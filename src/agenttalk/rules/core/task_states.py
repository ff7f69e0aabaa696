"""The states of a task and the one table that decides every change between them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from agenttalk.contracts.core.vocabulary import BoardStatus, TaskState
from agenttalk.contracts.errors import Code, ConflictError

State = TaskState
Phase = Literal["validating", "executing", "asking", "offered", "elsewhere", "verifying", "awaiting"]
"""What a RUNNING task is doing. One that an agent elsewhere is to do is `offered` until it takes it."""
ProgramEnding = Literal["finished", "crashed", "timeout", "not_started"]
"""How a program ended. `finished` means that it exited by itself, with any exit code."""
TurnEnding = Literal[ProgramEnding, "stopped", "unfit", "refused", "aborted", "lost", "limited", "engine_died"]
"""How a turn ended: the one vocabulary from the driver to the rule that decides what follows.

- `finished`: the agent ended by itself, and what it left can be judged.
- `stopped`: the engine ended it, which does not count against the agent; `engine_died`: the engine's process ended.
- `aborted`: a limit or a person stopped it, and the reason is known.
- `unfit`: the agent says that the task is not for it. `refused`: it rejects an input.
- `lost`: a remote agent is silent. `limited`: the provider takes no more work of its account, or none now.
"""
Cause = Literal[
    "INPUTS_PICKED",  # dependencies allow it and every required input exists: the command is made
    "INPUTS_MISSING",  # no task is left that could deliver them, or the command in force has to wait
    "INPUTS_AMBIGUOUS",  # several files fit an input, and no rule chooses one
    "INPUTS_LOST",  # a picked input no longer exists
    "DEPENDENCY_SKIP",  # a dependency failed: skip
    "DEPENDENCY_BLOCK",  # a dependency failed: a reviewer decides
    "DEPENDENCY_REPLAN",  # a dependency failed: a new plan is asked for
    "DEPENDENCY_RETRIED",  # the dependency that failed is tried again
    "BRANCH_NOT_TAKEN",  # no branch activated the task, or no failure called for the fallback
    "LEASED",  # an agent took it and `pre-act` allows it
    "SUPERSEDED",  # a newer command took the place of the current one
    "SOFT_DENIED",  # a checkpoint requires an operator's override
    "FULFILLED",  # the promise is fulfilled, and the work is merged
    "GATE_UNMET",  # a gate is not met and no branch applies
    "MOOT",  # the work is no longer needed
    "RACE_LOST",  # another agent was proven first, or this one failed and others go on
    "NOT_FULFILLED",  # the promise is not fulfilled, and rounds are left
    "REWORK_EXHAUSTED",  # the promise is not fulfilled, and no round is left
    "RETRY",  # crash, timeout or driver error with retries left
    "FAILED_FOR_GOOD",  # the same without retries left
    "ABORTED",  # an abort condition fired, a checkpoint denied for good, or a person stopped it
    "DAY_SPENT",  # the limit of the day was reached during the turn, which does not count
    "ACCOUNT_LIMIT",  # the provider takes no work of the agent's account now: a turn that it ended does not count
    "ACCOUNT_FREE",  # the account takes work again
    "HANDED_OVER",  # the account waits, so the fallback of its agent does the task
    "ENGINE_ENDED",  # the engine died or was stopped while validating or executing: the turn does not count
    "ENGINE_ENDED_TOO_OFTEN",  # the engine died again and again with this task
    "NEEDS_PERSON",  # the verifier needs a person
    "INPUT_REJECTED",  # the task rejected an input
    "INPUT_ARRIVED",  # the awaited input exists
    "DECIDED",  # the review approved
    "ANSWERED",  # the person answered how to go on
    "GIVEN_UP",  # the person gave the task up
    "WAIT_TIMEOUT",  # it waited too long: a person is asked
    "STALE",  # an input of finished work was replaced
    "REWORK",  # a consumer rejected the output
    "REGRESSION",  # its merge broke a check of another task
    "CONFLICT",  # text conflict with the plan branch
    "CANCELLED",  # a person cancelled it
    "REMOVED",  # the new DAG has no such task
    "ACCEPTED",  # a person accepted refused work as it is
    "OPERATOR_RETRY",  # an operator tries again or grants more rounds
    "RUN_AGAIN",  # an operator restarts it, with everything it depends on
    "CHANGED",  # the new DAG changes the task
]
"""Why a state changes. If the engine ends while verifying, no state changes: the next start verifies again."""

FINAL: Final[frozenset[State]] = frozenset({"COMPLETED", "FAILED", "SKIPPED"})
BLOCKED: Final[frozenset[State]] = frozenset(
    {"BLOCKED_WAITING_INPUT", "BLOCKED_WAITING_REVIEW", "BLOCKED_WAITING_HUMAN"}
)

_ANYTIME: Final[dict[Cause, State]] = {"CHANGED": "PENDING", "REMOVED": "SKIPPED", "RUN_AGAIN": "PENDING"}
"""Causes that apply in every state: a new DAG that changes a task, and an operator who restarts it."""
_OPEN: Final[dict[Cause, State]] = {**_ANYTIME, "CANCELLED": "FAILED", "ABORTED": "FAILED", "RACE_LOST": "SKIPPED"}
_DEPENDENCY_FAILED: Final[dict[Cause, State]] = {
    "DEPENDENCY_SKIP": "SKIPPED",
    "DEPENDENCY_BLOCK": "BLOCKED_WAITING_REVIEW",
    "DEPENDENCY_REPLAN": "BLOCKED_WAITING_HUMAN",
}
_WAITING: Final[dict[Cause, State]] = {
    **_OPEN,
    **_DEPENDENCY_FAILED,
    "DEPENDENCY_RETRIED": "PENDING",
    "WAIT_TIMEOUT": "BLOCKED_WAITING_HUMAN",
    "GIVEN_UP": "FAILED",
}

_TABLE: Final[dict[State, dict[Cause, State]]] = {
    "PENDING": {
        **_OPEN,
        **_DEPENDENCY_FAILED,
        "INPUTS_PICKED": "READY",
        "INPUTS_MISSING": "BLOCKED_WAITING_INPUT",
        "INPUTS_AMBIGUOUS": "BLOCKED_WAITING_HUMAN",
        "BRANCH_NOT_TAKEN": "SKIPPED",
    },
    "READY": {
        **_OPEN,
        "LEASED": "RUNNING",
        "SUPERSEDED": "READY",
        "ACCOUNT_LIMIT": "READY",
        "ACCOUNT_FREE": "READY",
        "HANDED_OVER": "READY",
        "INPUTS_LOST": "PENDING",
        "INPUTS_AMBIGUOUS": "BLOCKED_WAITING_HUMAN",
        "SOFT_DENIED": "BLOCKED_WAITING_REVIEW",
    },
    "RUNNING": {
        **_OPEN,
        "SUPERSEDED": "READY",
        "INPUTS_MISSING": "BLOCKED_WAITING_INPUT",
        "INPUT_REJECTED": "BLOCKED_WAITING_INPUT",
        "SOFT_DENIED": "BLOCKED_WAITING_REVIEW",
        "FULFILLED": "COMPLETED",
        "GATE_UNMET": "BLOCKED_WAITING_REVIEW",
        "MOOT": "SKIPPED",
        "NOT_FULFILLED": "READY",
        "REWORK_EXHAUSTED": "FAILED",
        "CONFLICT": "READY",
        "RETRY": "READY",
        "FAILED_FOR_GOOD": "FAILED",
        "DAY_SPENT": "READY",
        "ACCOUNT_LIMIT": "READY",
        "ENGINE_ENDED": "READY",
        "ENGINE_ENDED_TOO_OFTEN": "BLOCKED_WAITING_HUMAN",
        "NEEDS_PERSON": "BLOCKED_WAITING_HUMAN",
    },
    "BLOCKED_WAITING_INPUT": {
        **_WAITING,
        "INPUT_ARRIVED": "READY",
        "INPUTS_AMBIGUOUS": "BLOCKED_WAITING_HUMAN",
    },
    "BLOCKED_WAITING_REVIEW": {
        **_WAITING,
        "DECIDED": "READY",
    },
    "BLOCKED_WAITING_HUMAN": {
        **_WAITING,
        "INPUT_ARRIVED": "READY",
        "DECIDED": "READY",
        "ANSWERED": "READY",
    },
    "COMPLETED": {
        **_ANYTIME,
        "STALE": "READY",
        "REWORK": "READY",
        "REGRESSION": "READY",
        "REWORK_EXHAUSTED": "FAILED",
    },
    "FAILED": {
        **_ANYTIME,
        "OPERATOR_RETRY": "READY",
        "ACCEPTED": "COMPLETED",
    },
    "SKIPPED": {
        **_ANYTIME,
        "OPERATOR_RETRY": "PENDING",
        "DEPENDENCY_RETRIED": "PENDING",
    },
}

TRANSITIONS: Final[Mapping[tuple[State, Cause], State]] = MappingProxyType(
    {(state, cause): target for state, causes in _TABLE.items() for cause, target in causes.items()}
)
"""Every legal change. Any other change is an error."""

_BOARD: Final[dict[State, BoardStatus]] = {
    "PENDING": "pending",
    "READY": "pending",
    "RUNNING": "working",
    "BLOCKED_WAITING_INPUT": "blocked",
    "BLOCKED_WAITING_REVIEW": "blocked",
    "BLOCKED_WAITING_HUMAN": "blocked",
    "COMPLETED": "done",
    "FAILED": "failed",
    "SKIPPED": "skipped",
}


def move(state: State, cause: Cause) -> State:
    """Return the next state of a task. Raises ConflictError if the table has no such change."""
    target = TRANSITIONS.get((state, cause))
    if target is None:
        raise ConflictError(Code.ILLEGAL_TRANSITION, f"a task that is {state} cannot change because of {cause}")
    return target


def board_status(state: State, phase: Phase | None = None) -> BoardStatus:
    """Return the status that people see. A running task is in review while it is being verified."""
    if state == "RUNNING" and phase in {"verifying", "awaiting"}:
        return "review"
    return _BOARD[state]
