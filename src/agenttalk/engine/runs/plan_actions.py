"""Actions of people on a plan or on one of its tasks, by name, as the doors receive them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypedDict

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import releases
from agenttalk.engine.plans.control import TaskStop
from agenttalk.engine.plans.releases import ReleaseView
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.runs.operator import CheckpointOverride
from agenttalk.rules.mail.letters import BOARD as MAIL
from agenttalk.rules.people.attestation import UNKNOWN, AnswerProof
from agenttalk.rules.proof import rework


class ChangedPlan(TypedDict):
    """Whether a plan was paused or resumed by this request."""

    changed: bool


class PlanCancellation(TypedDict):
    """The number of a plan's tasks that were cancelled."""

    cancelled: int


class OpenTasks(TypedDict):
    """The tasks that are open again."""

    tasks: list[str]


class ReworkReceipt(TypedDict):
    """A decision about a task that has no round of rework left."""

    task: str
    decided: str


ActionResult: TypeAlias = (
    ChangedPlan | PlanCancellation | OpenTasks | ReworkReceipt | TaskStop | CheckpointOverride | ReleaseView
)
"""The result of an action on a plan or a task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAction:
    """An action that a person or a program asks for."""

    name: str
    by: str
    proof: AnswerProof = UNKNOWN
    """The proof that a person asks for it."""
    task_id: str | None = None
    onwards: bool = False
    """Whether a retried task takes everything along that depends on it."""
    why: str = ""
    checkpoint: str | None = None
    """The checkpoint that holds a task and is to be overridden; a reason must be given."""
    answer: str = ""
    """The decision about a task that has no round of rework left."""


async def carry_out_action(deps: Deps, dispatcher: Dispatcher, plan_id: str, action: PlanAction) -> ActionResult:
    """Carry out an action and return its result. Raises UsageError for one that is unknown or not allowed."""
    _require_allowed(deps, plan_id, action)
    by, task_id, why = action.by, action.task_id, action.why
    match action.name:
        case "pause":
            return {"changed": await dispatcher.operator.pause(plan_id, by=by)}
        case "resume":
            return {"changed": await dispatcher.operator.resume(plan_id, by=by)}
        case "cancel":
            return {"cancelled": await dispatcher.operator.cancel(plan_id, by=by, why=why)}
        case "release":
            await dispatcher.operator.release(plan_id, by=by)
            return (await releases.require_release(deps, plan_id)).as_json()
        case "retry" if task_id:
            return {"tasks": await dispatcher.operator.retry(plan_id, task_id, by=by, onwards=action.onwards)}
        case "abort" if task_id:
            return await dispatcher.operator.abort(plan_id, task_id, by=by, why=why)
        case "override" if task_id and action.checkpoint and why.strip():
            return await dispatcher.operator.override(
                plan_id, task_id, checkpoint=action.checkpoint, by=by, why=why, proof=action.proof
            )
        case "rework" if task_id:
            decision = _decision(action.answer)
            await dispatcher.operator.rework(plan_id, task_id, decision, by=by)
            return {"task": task_id, "decided": str(decision)}
        case _:
            hint = "there are: pause, resume, cancel, release; with a task retry, abort, rework, override"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no action {action.name[:40]!r} on a plan", hint=hint)


def _require_allowed(deps: Deps, plan_id: str, action: PlanAction) -> None:
    if action.name == "cancel" and plan_id in boards.VIRTUAL | deps.kinds.keys():
        raise UsageError(Code.NOT_ALLOWED, f"{plan_id} is a board and never ends", hint="pause it, or retry a task")
    if action.name == "retry" and plan_id == MAIL:
        hint = "send it again with 'agenttalk mail send'"
        raise UsageError(Code.NOT_ALLOWED, "a letter that was not answered is not tried again", hint=hint)


def _decision(answer: str) -> rework.ReworkDecision:
    decision = rework.read_decision("PROVIDE", [answer])
    if decision is None:
        hint = f"'grant N' (up to {rework.MOST_GRANTED}), 'accept' or 'abort'"
        raise UsageError(Code.OPTION_INVALID, f"{answer[:40]!r} is not a decision", hint=hint)
    return decision
