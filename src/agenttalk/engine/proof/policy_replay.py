"""Judges past work by a policy, page by page, the newest first. It only reads, and a page bounds its cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.dag import Node
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.policy import AuditPolicy
from agenttalk.contracts.promise import CompletionPromise, GateResult
from agenttalk.engine.budgets import denials
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import rework_rounds
from agenttalk.ports.statements.budgets import OBJECTIONS_TO
from agenttalk.ports.statements.core import FACTS_OF, NEWEST_FACT
from agenttalk.ports.statements.plans import ENGINE_TASK, NODE
from agenttalk.ports.statements.views import DONES_BEFORE, ORDER_NAMED
from agenttalk.ports.storage import Store
from agenttalk.rules.proof import done, policy_replay
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.policy_replay import ReplayedWork, ReplayVerdict

PAGE: Final = 200
"""Pieces of work that are judged for one page."""
_WINDOW: Final = 2_000
"""Facts that one statement reads."""
_LOOKED_AT: Final = 20_000
"""Facts that are read for one page."""
_JOURNAL: Final = "deliveries/"


class JudgedTask(TypedDict):
    """A finished task, as a policy would have judged it."""

    board: str
    plan_id: str
    task_id: str
    agent_id: str | None
    command_id: str | None
    at: str
    fact: int
    stands: bool
    """Whether it is still done by this fact."""
    standing: Literal["kept", "refused", "unknown"]
    reasons: list[str]


class ReplayTotals(TypedDict):
    """The numbers of finished tasks that a policy would have kept and refused."""

    kept: int
    refused: int
    unknown: int


class ReplayCursor(TypedDict):
    """The place at which the next page begins."""

    board: str
    before: int


class ReplayPage(TypedDict):
    """Finished tasks, as a policy would have judged them."""

    dones: list[JudgedTask]
    totals: ReplayTotals
    next: ReplayCursor | None


@dataclass(frozen=True, slots=True)
class ReplayQuery:
    """The policy, and the work to judge."""

    policy: AuditPolicy
    since: datetime | None = None
    plan_id: str = ""
    board: str = ""
    """The start of the page: `before` as the previous page returned it."""
    before: int = 0


async def replay_page(deps: Deps, asked: ReplayQuery) -> ReplayPage:
    """Replay a policy on work that was called done: verdicts, sums and the next page (None: it was the last)."""
    found: list[JudgedTask] = []
    looked = 0
    stores = sorted(await list_boards(deps), key=lambda each: each.name)
    if asked.board and asked.board not in {each.name for each in stores}:
        raise UsageError(
            Code.NAME_UNKNOWN, f"there is no board {asked.board[:80]!r}", hint="go on as the page before says"
        )
    for store in stores:
        if store.name < asked.board:
            continue
        top = (
            asked.before
            if store.name == asked.board and asked.before
            else (await store.read(NEWEST_FACT))[0].newest + 1
        )
        while top > 1:
            if len(found) >= PAGE or looked >= _LOOKED_AT:
                return _page_to_json(found, {"board": store.name, "before": top})
            floor = max(1, top - _WINDOW)
            rows = await store.read(DONES_BEFORE, before=top, after=floor, limit=PAGE - len(found))
            looked += top - floor
            full = len(rows) == PAGE - len(found)
            for row in rows:
                if asked.since is not None and parse_instant(row.at) < asked.since:
                    floor = 1
                    full = False
                    break
                judged = await _judge_fact(
                    deps, store, asked, (row.seq, row.at, row.kind, row.subject), _read(row.body)
                )
                found += [judged] if judged else []
            top = rows[-1].seq if full else floor
    return _page_to_json(found, None)


def parse_since(text: str | None) -> datetime | None:
    """Read the start of the time to judge. A day begins at its first second, in UTC. Raises UsageError."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        hint = "write 2026-11-01 or 2026-11-01T09:00:00Z"
        raise UsageError(Code.OPTION_INVALID, f"{text[:40]!r} is not a time", hint=hint) from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _page_to_json(found: list[JudgedTask], following: ReplayCursor | None) -> ReplayPage:
    counts = Counter(each["standing"] for each in found)
    totals: ReplayTotals = {"kept": counts["kept"], "refused": counts["refused"], "unknown": counts["unknown"]}
    return {"dones": found, "totals": totals, "next": following}


async def _judge_fact(
    deps: Deps, store: Store, asked: ReplayQuery, fact: tuple[int, str, str, str], body: Mapping[str, Any]
) -> JudgedTask | None:
    """Judge the work of one fact. None when the fact did not call anything done, or is of another plan."""
    seq, at, kind, subject = fact
    if kind != rework_rounds.ACCEPTED and body.get("cause") != "FULFILLED":
        return None
    ack = body.get("ack")
    if isinstance(ack, Mapping):
        plan_id, task_id, agent_id = str(ack["plan_id"]), str(ack["task_id"]), str(ack["consumer_agent_id"])
    else:
        parts = subject.removeprefix(_JOURNAL).removeprefix("rework/").split("/")
        plan_id, task_id, agent_id = parts[0], parts[-1], ""
    if asked.plan_id not in {"", plan_id}:
        return None
    age = max(0.0, (deps.now() - parse_instant(at)).total_seconds() / 86_400)
    work = await _work(store, plan_id, task_id, kind, at, body, agent_id, age)
    judged = (
        policy_replay.judge(asked.policy, work)
        if work
        else ReplayVerdict("unknown", ("its task is not there any more",))
    )
    rows = await store.read(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    return {
        "board": store.name,
        "plan_id": plan_id,
        "task_id": task_id,
        "agent_id": agent_id or (rows[0].agent_id if rows else None),
        "command_id": body.get("command_id"),
        "at": at,
        "fact": seq,
        "stands": bool(rows) and rows[0].state == "COMPLETED" and (rows[0].fact == seq or kind != "turn.ended"),
        "standing": judged.standing,
        "reasons": list(judged.reasons),
    }


async def _work(
    store: Store, plan_id: str, task_id: str, kind: str, at: str, body: Mapping[str, Any], agent_id: str, age: float
) -> ReplayedWork | None:
    rows = await store.read(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    if not rows:
        return None
    promise = await _promise(store, plan_id, task_id, body)
    held = [denials.to_json(row) for row in await store.read(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id)]
    verdict = body.get("verdict") or {}
    tier = body.get("sandbox")
    about: dict[str, Any] = {
        "rounds": await _rounds(store, plan_id, task_id, at),
        "age_days": age,
        "overridden": any("overridden_by" in each for each in held),
        "unverified": tuple(verdict.get("unverified") or ()),
        "isolated": tier != "plain" if tier else None,
    }
    if kind == rework_rounds.ACCEPTED:
        return ReplayedWork(
            promise, await _accepted(store, plan_id, task_id, at, body), accepted_by=str(body["by"]), **about
        )
    gates = tuple(
        GateResult(allowed=each["allowed"], checkpoint=each["checkpoint"], trace_id=each["trace_id"])
        for each in body.get("gates") or ()
    )
    checks = tuple(body.get("checks") or ())
    shown = (
        policy_replay.rebuild_evidence(promise, checks, body.get("claims") or (), at=at, by=agent_id) if promise else ()
    )
    return ReplayedWork(promise, shown, gates, checks, **about)


async def _promise(store: Store, plan_id: str, task_id: str, body: Mapping[str, Any]) -> CompletionPromise | None:
    """Return the promise of that time: that of the command, or the one that followed from its node."""
    message_id = body.get("message_id")
    orders = await store.read(ORDER_NAMED, plan_id=plan_id, message_id=message_id) if message_id else []
    if orders:
        command = CommandEnvelope.model_validate_json(bytes(orders[0].envelope)).payload.command
        if command.promise is not None:
            return command.promise
    nodes = await store.read(NODE, plan_id=plan_id, task_id=task_id)
    if not nodes:
        return None
    node = Node.model_validate_json(bytes(nodes[0].node))
    return node.promise or done.derive_promise(node, promise_id="", score=body.get("score"))


async def _accepted(store: Store, plan_id: str, task_id: str, at: str, body: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """Return the evidence of refused work that a person accepted, and what that person confirmed."""
    last: Mapping[str, Any] = {}
    for each in await _history(store, plan_id, task_id):
        if each.kind == rework_rounds.EXHAUSTED and each.at <= at:
            last = each.body
    found = [Evidence(**each) for each in last.get("evidence", ())]
    by, trust = str(body["by"]), body["trust"]
    return (*found, *(Evidence(name, True, True, trust, by, at, overrules=True) for name in body["confirmed"]))


async def _rounds(store: Store, plan_id: str, task_id: str, at: str) -> int:
    """Return the rounds of rework until then."""
    counted = [each.body.get("round") for each in await _history(store, plan_id, task_id) if each.at <= at]
    return max([each for each in counted if isinstance(each, int)], default=0)


async def _history(store: Store, plan_id: str, task_id: str) -> list[rework_rounds.Round]:
    rows = await store.read(
        FACTS_OF, subject=rework_rounds.ledger_subject(plan_id, task_id), after=0, limit=rework_rounds.ALL
    )
    return rework_rounds.read_rounds(rows)


def _read(body: Any) -> JsonObject:
    told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
    return dict(told) if isinstance(told, dict) else {}
