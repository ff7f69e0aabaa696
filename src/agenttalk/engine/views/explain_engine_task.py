"""Explains why a task of a plan that the engine runs is in its state: its promise, its attempts and its next step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.engine.budgets import denials
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_status import TaskView, describe_status
from agenttalk.engine.fleet.workers import explain_waiting
from agenttalk.engine.people import dispute_rows
from agenttalk.engine.plans import dag_reviews, releases, rework_rounds
from agenttalk.engine.plans.dag_reviews import DagReviewRecord
from agenttalk.engine.plans.definition import read_definition
from agenttalk.ports.statements.budgets import OBJECTIONS_TO
from agenttalk.ports.statements.core import FACT, FACTS_OF, LATEST_FACT, TASK_STATUS
from agenttalk.ports.statements.people import OPEN_REQUESTS_OF
from agenttalk.ports.statements.plans import ENGINE_TASK, NODE, RUN
from agenttalk.ports.statements.proof import DISPUTES_OF, JOINED_CHECKS
from agenttalk.ports.statements.views import SUPERSEDED_ORDERS
from agenttalk.ports.storage import Snapshot
from agenttalk.rules.budgets import budgets
from agenttalk.rules.core.task_states import FINAL
from agenttalk.rules.planfile import plan_remarks
from agenttalk.rules.proof import done, score_gates
from agenttalk.rules.text import view_words
from agenttalk.rules.text.catalogue import read_text, restore_messages

if TYPE_CHECKING:
    from agenttalk.engine.views.models.attempts import AttemptView, RoundView, VerdictView
    from agenttalk.engine.views.models.tasks import (
        InputChoice,
        PromiseSummary,
        RecalledCommand,
        RegressionSummary,
        TakenBranch,
        TaskExplanation,
    )

_TURN_FIELDS: Final = (
    "command_id", "attempt", "how", "sandbox", "cause", "reason", "result", "score", "score_explanation", "usage",
    "notice", "gates", "checks", "claims", "foreign", "remarks", "commit", "verdict",
)  # fmt: skip
"""The fields of an attempt that views show."""
_NEXT: Final = {
    "PENDING": view_words.AFTER_OTHERS,
    "READY": view_words.AGENT_FREE,
    "RUNNING": view_words.TURN_ENDS,
    "BLOCKED_WAITING_INPUT": view_words.INPUTS_OR_PERSON,
    "BLOCKED_WAITING_REVIEW": view_words.DECIDE,
    "BLOCKED_WAITING_HUMAN": view_words.ANSWER,
    "COMPLETED": view_words.DONE,
    "FAILED": view_words.RETRY,
    "SKIPPED": view_words.NOT_NEEDED,
}
_FOLLOWED: Final = {
    "ordered": view_words.REFUSED_TOO,
    "exhausted": view_words.REFUSED_LAST,
    "stuck": view_words.REFUSED_UNCHANGED,
    "granted": view_words.GRANTED,
    "accepted": view_words.ACCEPTED,
    "aborted": view_words.GIVEN_UP,
}
_RESULTS: Final = {"COMPLETED": view_words.GOOD_SO_FAR, "FAILED": view_words.FAILED_AGAIN}
_ISSUES: Final = 50
"""How many issues of a round are shown."""
_ORDERS: Final = 20
"""How many withdrawn commands are shown, the newest."""
_ELSEWHERE: Final = {"offered": view_words.OFFERED, "elsewhere": view_words.ELSEWHERE}
_OWN: Final = ("reason", "remarks", "verdict", "gates", "checks")
"""The fields of an attempt that the engine itself wrote. The others are the words of others."""


class _TaskSituation(NamedTuple):
    """The facts that decide the next step of a task."""

    plan_id: str
    document: TaskExplanation
    """All but the next step."""
    status: TaskView
    profile: AgentProfile
    driver: str
    """The driver of its agent, if the agent has yet to take the task."""
    asked: bool
    """Whether the task waits for the answer of a person."""
    paused: bool
    review: DagReviewRecord | None
    turns: Sequence[Mapping[str, Any]]


async def explain_engine_task(deps: Deps, plan_id: str, task_id: str, stale: Collection[str] = ()) -> TaskExplanation:
    """Explain the state of a task. Raises UsageError when the engine runs no such task.

    `stale` names tasks that were found stale, which is not stored yet.
    """
    store = await board_of(deps, plan_id)
    task = await store.read_together(partial(_read_task, plan_id=plan_id, task_id=task_id, stale=stale))
    waits = task.status["phase"] == "offered"
    queue = await explain_waiting(deps, task.profile) if waits else ""
    return {**task.document, "moves_on": _describe_next(task, queue)}


def _read_task(now: Snapshot, plan_id: str, task_id: str, stale: Collection[str]) -> _TaskSituation:
    """Read all facts of a task at one moment: a task that is done has the attempt that made it so."""
    rows = now.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    nodes = now.run(NODE, plan_id=plan_id, task_id=task_id)
    if not rows or not nodes:
        hint = f"'agenttalk status {plan_id}' lists its tasks"
        raise UsageError(Code.TASK_NOT_FOUND, f"the engine runs no task {plan_id}/{task_id}", hint=hint)
    [status_row] = now.run(TASK_STATUS, plan_id=plan_id, task_id=task_id)
    status = describe_status(status_row, stale)
    node = Node.model_validate_json(bytes(nodes[0].node))
    row = rows[0]
    [run] = now.run(RUN, plan_id=plan_id)
    sheet = read_definition(plan_id, run, now.run(JOINED_CHECKS, plan_id=plan_id))
    turns = _read_turns(now, row.fact)
    subject = rework_rounds.ledger_subject(plan_id, task_id)
    history = rework_rounds.read_rounds(now.run(FACTS_OF, subject=subject, after=0, limit=rework_rounds.ALL))
    profile = sheet.profile(row.agent_id)
    driver = profile.driver if row.lease is None and row.state in {"READY", "RUNNING"} else ""
    disputes = now.run(DISPUTES_OF, plan_id=plan_id, task_id=task_id)
    review = dag_reviews.read_latest(now, plan_id)
    release = releases.read_latest(now, plan_id)
    by_person = driver == "human" or status["phase"] == "asking"
    asked = bool(by_person and now.run(OPEN_REQUESTS_OF, plan_id=plan_id, task_id=task_id))
    completed = status["state"] == "COMPLETED"
    document: TaskExplanation = {
        **status,
        "plan_id": plan_id,
        "broke": _read_regression(now, plan_id, task_id),
        "asked": node.prompt,
        "promised": _describe_promise(sheet.promise(node), node),
        "waits_for": [name for name in node.depends_on if _is_open(now, plan_id, name)] if row.unmet else [],
        "choices": _list_choices(now, plan_id, node),
        "attempts": turns,
        "superseded": _list_recalled(now, plan_id, task_id),
        "history": _add_results(_read_rounds(history), status["state"]),
        "verdict": _describe_verdict(turns, history, accepted=status["cause"] == "ACCEPTED", done=completed),
        "gates": [denials.to_json(row) for row in now.run(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id)],
        "branch": _describe_branch(node, row.score) if completed else None,
        "moves_on": "",
        "running": row.lease is not None,
        "disputes": dispute_rows.disputes_to_json(disputes, plan_id, task_id),
        "review": review.as_json() if review else None,
        "release": release.as_json() if release else None,
        "command": None,
        "outputs": [],
    }
    return _TaskSituation(plan_id, document, status, profile, driver, asked, run.state == "PAUSED", review, turns)


def _describe_next(now: _TaskSituation, queue: str) -> str:
    """Say what has to happen next, and who has to do it. `queue` says why the task waits for a worker, if it does."""
    task, state, review, turns = now.status, now.status["state"], now.review, now.turns
    if review is not None and review.is_undecided and state == "PENDING":
        reviewed = view_words.IN_REVIEW if review.state == "open" else view_words.NOT_APPROVED
        return reviewed(review=review.review_plan, request=review.request_id)
    if now.asked:
        return view_words.ANSWER()
    if now.driver == "folder":
        return view_words.FOLDER(agent=task["agent_id"], plan=now.plan_id)
    if now.paused and state in {"PENDING", "READY"}:
        return view_words.PAUSED(plan=now.plan_id)
    if queue:
        return queue
    if task["phase"] in _ELSEWHERE or now.driver == "remote":
        return _ELSEWHERE[task["phase"] or "offered"](agent=task["agent_id"])
    if task["waits_for_account"] and state == "READY":
        return view_words.ACCOUNT_FREE(until=task["waits_for_account"]["until"], agent=task["agent_id"])
    held = view_words.ANOTHER_DAY if budgets.names_day(task["reason"]) else view_words.HELD
    by_cause = {
        "REWORK_EXHAUSTED": view_words.NO_ROUND,
        "SOFT_DENIED": held,
        "DEPENDENCY_SKIP": view_words.NEEDED_FAILED,
    }
    words = view_words.STALE if task["freshness"] == "stale" else by_cause.get(task["cause"] or "", _NEXT[state])
    moves_on = words(plan=now.plan_id, task=task["task_id"])
    if words is view_words.ANOTHER_DAY and turns and turns[-1]["cause"] == "DAY_SPENT":
        return view_words.STOPPED_BY_DAY(agent=task["agent_id"], next=moves_on)
    return moves_on


def _describe_promise(promise: CompletionPromise, node: Node) -> PromiseSummary:
    derived = node.promise is None
    summary: PromiseSummary = {
        "id": promise.id,
        "objective": done.describe_objective(node) if derived else promise.objective,
        "derived": derived,
        "criteria": [
            {
                "id": criterion.id,
                "description": done.describe_evidence(criterion.id, criterion.description)
                if derived
                else criterion.description,
            }
            for criterion in promise.acceptance
        ],
    }
    left_open = plan_remarks.list_open_points(promise)
    if left_open:
        summary["left_open"] = left_open
    return summary


def _describe_verdict(
    turns: Sequence[AttemptView], history: Sequence[rework_rounds.Round], *, accepted: bool, done: bool
) -> VerdictView | None:
    """Return the last verdict: about the last turn, or of the person who accepted the work.

    A verdict that the promise is fulfilled `counts` only while the task is done: the work may have been refused since.
    """
    if not accepted:
        turn = next((turn for turn in reversed(turns) if "verdict" in turn), None)
        if turn is None:
            return None
        verdict: VerdictView = turn["verdict"].copy()
        if tier := turn.get("sandbox"):  # an agent that does not work on this machine has none
            verdict["isolation"] = "none" if tier == "plain" else tier
        if verdict["fulfilled"]:
            verdict["counts"], verdict["about"] = done, turn["command_id"]
        return verdict
    acceptance: Any = next(entry.body for entry in reversed(history) if entry.kind == rework_rounds.ACCEPTED)
    shared = {key: acceptance[key] for key in ("shown", "confirmed", "overrules")}
    said: Any = {"missing": [], "blockers": [], **acceptance["verdict"], "accepted_by": acceptance["by"], **shared}
    accepted_verdict: VerdictView = said
    return accepted_verdict


def _read_rounds(history: Sequence[rework_rounds.Round]) -> list[RoundView]:
    rounds: list[RoundView] = restore_messages(rework_rounds.rounds_to_json(history, _ISSUES))
    return rounds


def _add_results(history: list[RoundView], state: str) -> list[RoundView]:
    """Add to each round its result: the next refusal shows what became of the version that was made in the round."""
    for number, entry in enumerate(history, 1):
        if entry["what"] in {"ordered", "granted"}:
            following = history[number] if number < len(history) else None
            kind = following["what"] if following else None
            kind = "stuck" if kind == "exhausted" and following and following.get("stuck") else kind
            entry["result"] = (_FOLLOWED[kind] if kind else _RESULTS.get(state, view_words.UNDER_WAY))()
    return history


def _list_choices(now: Snapshot, plan_id: str, node: Node) -> list[InputChoice]:
    """Return the inputs that several dependencies make, and which of them is taken."""
    choices: list[InputChoice] = []
    for need in node.needs:
        if need.selector.type != "by_output_name" or need.policy == "all":
            continue
        output = need.selector.value
        makers: list[str] = [name for name in node.depends_on if _makes(now, plan_id, name, output)]
        if len(makers) > 1:
            choices.append({"input": need.name, "of": makers, "pick": need.policy})
    return choices


def _makes(now: Snapshot, plan_id: str, task_id: str, output_name: str) -> bool:
    rows = now.run(NODE, plan_id=plan_id, task_id=task_id)
    node = Node.model_validate_json(bytes(rows[0].node)) if rows else None
    return node is not None and any(output.name == output_name for output in node.outputs)


def _list_recalled(now: Snapshot, plan_id: str, task_id: str) -> list[RecalledCommand]:
    """Return the commands that were withdrawn before they were carried out, oldest first."""
    rows = now.run(SUPERSEDED_ORDERS, plan_id=plan_id, task_id=task_id, limit=_ORDERS)
    return [{"command_id": row.command_id, "why": row.details, "at": row.finished_at} for row in reversed(rows)]


def _read_regression(now: Snapshot, plan_id: str, task_id: str) -> RegressionSummary | None:
    """Return what the task broke last of what was proven before, if it broke anything."""
    rows = now.run(LATEST_FACT, subject=f"{plan_id}/{task_id}", kind="regression.found")
    body: Any = wire.read(bytes(rows[0].body), limit=wire.DOCUMENT_LIMIT) if rows else None
    return {"reason": read_text(body, "reason"), "broken": body["broken"]} if body is not None else None


def _describe_branch(node: Node, score: float | None) -> TakenBranch | None:
    """Return the branch that the score of a task took, if it took one."""
    taken = score_gates.judge_gates(node, scores={node.task_id: score}, evidence=()).branch
    if node.gates is None or taken is None:
        return None
    branch = node.gates.branches[taken]
    return {"when": branch.when, "activate": list(branch.activate)}


def _is_open(now: Snapshot, plan_id: str, task_id: str) -> bool:
    rows = now.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    return bool(rows) and rows[0].state not in FINAL


def _read_own_texts(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the engine itself wrote of an attempt, with its messages."""
    own = {key: body[key] for key in body if key.removesuffix("_messages").removesuffix("_message") in _OWN}
    return {key: value for key, value in restore_messages(own).items() if value is not None}


def _read_turns(now: Snapshot, fact: int | None) -> list[AttemptView]:
    """Return how each attempt ended, in order: the fact of each attempt names the one before it."""
    turns: list[AttemptView] = []
    while fact is not None:
        [row] = now.run(FACT, seq=fact)
        body: Any = wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT)
        shown: Any = {key: body[key] for key in _TURN_FIELDS if body.get(key) is not None}
        turns.append(shown | _read_own_texts(body))
        fact = body.get("before")
    return turns[::-1]
