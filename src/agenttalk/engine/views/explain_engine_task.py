"""Why a task is in its state, in plain words: what was asked, claimed and seen, and what moves it on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.engine.budgets import denials
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import dispute_rows
from agenttalk.engine.plans import dag_reviews, releases
from agenttalk.engine.plans import rework_rounds as rounds_of
from agenttalk.engine.plans.dag_reviews import DagReviewRecord
from agenttalk.engine.plans.definition import read_definition, read_joined_checks
from agenttalk.engine.views.models.tasks import TaskUsage
from agenttalk.engine.views.plan_status import sum_usage
from agenttalk.ports.statements.budgets import OBJECTIONS_TO
from agenttalk.ports.statements.core import FACT, FACTS_OF, LATEST_FACT
from agenttalk.ports.statements.people import OPEN_REQUESTS_OF
from agenttalk.ports.statements.plans import ENGINE_TASK, NODE, RUN
from agenttalk.ports.statements.proof import DISPUTES_OF, JOINED_CHECKS, STALE_TASKS
from agenttalk.ports.statements.views import SUPERSEDED_ORDERS
from agenttalk.ports.storage import Store
from agenttalk.rules.budgets import budgets
from agenttalk.rules.core import usage
from agenttalk.rules.planfile import plan_remarks
from agenttalk.rules.proof import done, score_gates
from agenttalk.rules.text import view_words
from agenttalk.rules.text.catalogue import read_column, read_text, restore_messages

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
"""Issues that are shown of each round."""
_ORDERS: Final = 20
"""Commands that were taken back that are shown, the newest."""
_ELSEWHERE: Final = {"offered": view_words.OFFERED, "elsewhere": view_words.ELSEWHERE}


class _TaskSituation(NamedTuple):
    """Where a task stands, as far as that says what moves it on."""

    plan_id: str
    task_id: str
    agent_id: str
    state: str
    phase: str | None
    cause: str | None
    reason: str | None
    driver: str
    """Of its agent, if it is to be taken or has not begun yet."""
    stale: bool
    asked: bool
    """Whether a person has it, and has not answered."""
    paused: bool


async def explain_engine_task(deps: Deps, plan_id: str, task_id: str) -> dict[str, Any]:
    """Everything that is to be said of a task. Raises UsageError when there is none."""
    store = await board_of(deps, plan_id)
    rows = await store.read(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    found = await store.read(NODE, plan_id=plan_id, task_id=task_id)
    if not rows or not found:
        hint = f"'agenttalk status {plan_id}' lists its tasks"
        raise UsageError(Code.TASK_NOT_FOUND, f"the engine runs no task {plan_id}/{task_id}", hint=hint)
    node = Node.model_validate_json(bytes(found[0].node))
    row = rows[0]
    agent_id, state, phase, cause = row.agent_id, row.state, row.phase, row.cause
    reason = read_column(row.reason, row.reason_message)
    [run] = await store.read(RUN, plan_id=plan_id)
    sheet = read_definition(plan_id, run)
    sheet.joined_checks = read_joined_checks(await store.read(JOINED_CHECKS, plan_id=plan_id))
    turns = await _turns(store, row.fact)
    about = rounds_of.ledger_subject(plan_id, task_id)
    history = rounds_of.read_rounds(await store.read(FACTS_OF, subject=about, after=0, limit=rounds_of.ALL))
    stale = state == "COMPLETED" and (task_id,) in await store.read(STALE_TASKS, plan_id=plan_id)
    driver = sheet.profile(agent_id).driver if row.lease is None and state in {"READY", "RUNNING"} else ""
    disputed = await store.read(DISPUTES_OF, plan_id=plan_id, task_id=task_id)
    review, release = (
        await dag_reviews.read_latest_committed(store, plan_id),
        await releases.read_latest_committed(store, plan_id),
    )
    by_person = driver == "human" or phase == "asking"
    asked = bool(by_person and await store.read(OPEN_REQUESTS_OF, plan_id=plan_id, task_id=task_id))
    paused = run.state == "PAUSED"
    now = _TaskSituation(plan_id, task_id, agent_id, state, phase, cause, reason, driver, stale, asked, paused)
    return {
        "plan_id": plan_id,
        "task_id": task_id,
        "agent_id": agent_id,
        "state": state,
        "phase": phase,
        "freshness": ("stale" if stale else "fresh") if state == "COMPLETED" else None,
        "broke": await _broke(store, plan_id, task_id),
        "cause": cause,
        "reason": reason,
        "score": row.score,
        "asked": node.prompt,
        "promised": _promised(sheet.promise(node), node),
        "waits_for": [each for each in node.depends_on if await _is_open(store, plan_id, each)] if row.unmet else [],
        "missing": wire.read(row.missing) if row.missing else [],
        "choices": await _choices(store, plan_id, node),
        "request_id": row.request_id,
        "attempts": turns,
        "superseded": await _superseded(store, plan_id, task_id),
        "usage": sum_usage(_used(turn) for turn in turns),
        "retries": row.retries,
        "rounds": row.reexecutions,
        "history": _came_of(restore_messages(rounds_of.rounds_to_json(history, _ISSUES)), state),
        "verdict": _verdict(turns, history, accepted=cause == "ACCEPTED", done=state == "COMPLETED"),
        "gates": [denials.to_json(each) for each in await store.read(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id)],
        "branch": _branch(node, row.score) if state == "COMPLETED" else None,
        "moves_on": _moves_on(now, review, turns),
        **({"disputes": dispute_rows.disputes_to_json(disputed, plan_id, task_id)} if disputed else {}),
        **({"review": review.as_json()} if review else {}),
        **({"release": release.as_json()} if release else {}),
    }


def _moves_on(now: _TaskSituation, review: DagReviewRecord | None, turns: Sequence[Mapping[str, Any]]) -> str:
    """What has to happen next, and by whom."""
    if review is not None and review.is_undecided and now.state == "PENDING":
        words = view_words.IN_REVIEW if review.state == "open" else view_words.NOT_APPROVED
        return words(review=review.review_plan, request=review.request_id)
    if now.asked:
        return view_words.ANSWER()
    if now.driver == "folder":
        return view_words.FOLDER(agent=now.agent_id, plan=now.plan_id)
    if now.paused and now.state in {"PENDING", "READY"}:
        return view_words.PAUSED(plan=now.plan_id)
    if now.phase in _ELSEWHERE or now.driver == "remote":
        return _ELSEWHERE[now.phase or "offered"](agent=now.agent_id)
    held = view_words.ANOTHER_DAY if budgets.names_day(now.reason) else view_words.HELD
    caused = {
        "REWORK_EXHAUSTED": view_words.NO_ROUND,
        "SOFT_DENIED": held,
        "DEPENDENCY_SKIP": view_words.NEEDED_FAILED,
    }
    words = view_words.STALE if now.stale else caused.get(now.cause or "", _NEXT[now.state])
    moves_on = words(plan=now.plan_id, task=now.task_id)
    if words is view_words.ANOTHER_DAY and turns and turns[-1]["cause"] == "DAY_SPENT":
        return view_words.STOPPED_BY_DAY(agent=now.agent_id, next=moves_on)
    return moves_on


def _used(turn: Mapping[str, Any]) -> TaskUsage:
    """Return what an attempt took, from its usage."""
    said = turn.get("usage", {})
    used = usage.measure_usage(said, seconds=said.get("duration_s", 0.0))
    return {
        "duration_s": round(used.seconds, 3),
        "tokens": used.tokens,
        "cost_usd": used.cost_usd,
        "tool_calls": used.tool_calls,
    }


def _promised(promise: CompletionPromise, node: Node) -> dict[str, Any]:
    derived = node.promise is None
    criteria = [
        {"id": each.id, "description": done.describe_evidence(each.id) if derived else each.description}
        for each in promise.acceptance
    ]
    objective = done.describe_objective(node) if derived else promise.objective
    told = {"id": promise.id, "objective": objective, "derived": derived, "criteria": criteria}
    left_open = plan_remarks.list_open_points(promise)
    return told | {"left_open": left_open} if left_open else told


def _verdict(
    turns: Sequence[Mapping[str, Any]], history: Sequence[rounds_of.Round], *, accepted: bool, done: bool
) -> dict[str, Any] | None:
    """How it was decided last: about the last turn, or by the person who accepted what it left.

    A verdict that something is fulfilled `counts` only while its task is done: it may have been refused since.
    """
    if not accepted:
        found = next((turn for turn in reversed(turns) if "verdict" in turn), None)
        if found is None:
            return None
        told = {**found["verdict"], **_isolation(found)}
        return {**told, "counts": done, "about": found["command_id"]} if told["fulfilled"] else told
    said = next(each.body for each in reversed(history) if each.kind == rounds_of.ACCEPTED)
    shared = {key: said[key] for key in ("shown", "confirmed", "overrules")}
    return {"missing": [], "blockers": [], **said["verdict"], "accepted_by": said["by"], **shared}


def _isolation(turn: Mapping[str, Any]) -> dict[str, str]:
    """What kept an agent from what is not its own; nothing is said of those who did not work on this machine."""
    tier = turn.get("sandbox")
    return {"isolation": "none" if tier == "plain" else tier} if tier else {}


def _came_of(history: list[dict[str, Any]], state: str) -> list[dict[str, Any]]:
    """The rounds, each with what came of it: the next refusal tells what became of the version that was made then."""
    for number, each in enumerate(history, 1):
        if each["what"] in {"ordered", "granted"}:
            later = history[number]["what"] if number < len(history) else None
            later = "stuck" if later == "exhausted" and history[number].get("stuck") else later
            each["came_of_it"] = (_FOLLOWED[later] if later else _RESULTS.get(state, view_words.UNDER_WAY))()
    return history


async def _choices(store: Store, plan_id: str, node: Node) -> list[dict[str, Any]]:
    """Inputs of which several tasks before it make one, and which is taken."""
    found = []
    for need in node.needs:
        if need.selector.type != "by_output_name" or need.policy == "all":
            continue
        makers = [each for each in node.depends_on if await _makes(store, plan_id, each, need.selector.value)]
        if len(makers) > 1:
            found.append({"input": need.name, "of": makers, "pick": need.policy})
    return found


async def _makes(store: Store, plan_id: str, task_id: str, output: str) -> bool:
    rows = await store.read(NODE, plan_id=plan_id, task_id=task_id)
    node = Node.model_validate_json(bytes(rows[0].node)) if rows else None
    return node is not None and any(each.name == output for each in node.outputs)


async def _superseded(store: Store, plan_id: str, task_id: str) -> list[dict[str, Any]]:
    """Commands that were taken back before they were carried out, the oldest first."""
    rows = await store.read(SUPERSEDED_ORDERS, plan_id=plan_id, task_id=task_id, limit=_ORDERS)
    return [{"command_id": command_id, "why": why, "at": at} for command_id, why, at in reversed(rows)]


async def _broke(store: Store, plan_id: str, task_id: str) -> dict[str, Any] | None:
    """What a task broke last of what was proven, if it broke anything."""
    rows = await store.read(LATEST_FACT, subject=f"{plan_id}/{task_id}", kind="regression.found")
    said: Any = wire.read(bytes(rows[0].body), limit=wire.DOCUMENT_LIMIT) if rows else None
    return {"reason": read_text(said, "reason"), "broken": said["broken"]} if said is not None else None


def _branch(node: Node, score: float | None) -> dict[str, Any] | None:
    """Where the score of a task led, if it led anywhere."""
    taken = score_gates.judge_gates(node, scores={node.task_id: score}, evidence=()).branch
    if node.gates is None or taken is None:
        return None
    branch = node.gates.branches[taken]
    return {"when": branch.when, "activate": list(branch.activate)}


async def _is_open(store: Store, plan_id: str, task_id: str) -> bool:
    rows = await store.read(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    return bool(rows) and rows[0].state not in {"COMPLETED", "SKIPPED", "FAILED"}


def _read_texts(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a turn that the engine wrote, with their messages. The rest are words of others."""
    fields = ("reason", "remarks", "verdict", "gates", "checks")
    own = {name: turn[name] for name in turn if name.removesuffix("_messages").removesuffix("_message") in fields}
    return {name: part for name, part in restore_messages(own).items() if part is not None}


async def _turns(store: Store, fact: int | None) -> list[dict[str, Any]]:
    """How each attempt ended, in order: the fact of each names the one before it."""
    found = []
    while fact is not None:
        [(body,)] = await store.read(FACT, seq=fact)
        told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
        keys = (
            "command_id",
            "attempt",
            "how",
            "sandbox",
            "cause",
            "reason",
            "result",
            "score",
            "score_explanation",
            "usage",
            "notice",
            "gates",
            "checks",
            "claims",
            "foreign",
            "remarks",
            "commit",
            "verdict",
        )
        found.append({key: told[key] for key in keys if told.get(key) is not None} | _read_texts(told))
        fact = told.get("before")
    return found[::-1]
