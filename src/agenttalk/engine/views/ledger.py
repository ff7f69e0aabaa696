"""Lists the facts and decisions of a plan, the facts of a board, and the deliveries of forges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.boards import SYSTEM, VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.views import plans, toolchain
from agenttalk.engine.views.models.ledger import (
    DecisionPage,
    DecisionView,
    FactPage,
    FactView,
    LedgerPage,
    ReplayedWebhook,
    WebhookPage,
    WebhookView,
)
from agenttalk.engine.views.plans import LONGEST_PAGE, LOOKED_AT, PAGE
from agenttalk.ports.statements.core import NEWEST_FACT
from agenttalk.ports.statements.toolchain import REPLAY_WEBHOOK, WEBHOOK, WEBHOOK_PAGE, WebhookRow
from agenttalk.ports.statements.views import LEDGER_OF, LEDGER_PAGE, PLAN_FACTS, FactRow
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.text.catalogue import read_column

LARGEST_BODY: Final = 64 * 1024
"""How many bytes of a fact a list shows."""
_TOP: Final = 2**62
_WINDOW: Final = 2_000
"""How many facts one statement reads."""
_DECIDED: Final = (
    "gate.overridden", "plan.cancelled", "plan.ended", "plan.halted", "plan.paused", "plan.reopened", "plan.resumed",
    "plan.revised", "regression.found", "release.decided", "release.revoked", "review.decided", "rework.aborted",
    "rework.accepted", "rework.exhausted", "rework.granted", "rework.ordered", "task.by_hand", "task.moved",
    "task.retried", "turn.ended",
)  # fmt: skip
_LEFT_OUT: Final = frozenset({"ack", "lines", "result", "usage", "evidence", "files", "manifest", "made_in", "before"})
"""Fields of a fact that are not part of its decision."""
WEBHOOK_FILTERS: Final = ("source", "state", "event")


async def list_facts(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> FactPage:
    """List every fact about a plan and its tasks, oldest first."""
    rows, following = await _facts(deps, plan_id, after, _size(limit))
    return {"facts": [_describe_fact(row) for row in rows], "next": following}


async def list_decisions(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> DecisionPage:
    """List the decisions about a plan and its tasks, with who decided and why, oldest first."""
    decisions: list[DecisionView] = []
    following: int | None = after
    seen = 0
    while following is not None and len(decisions) < _size(limit) and seen < LOOKED_AT:
        rows, following = await _facts(deps, plan_id, following, _size(limit))
        seen += len(rows) or 1
        decisions += [_describe_decision(row) for row in rows if row.kind in _DECIDED]
    return {"decisions": decisions, "next": following}


async def _facts(deps: Deps, plan_id: str, after: int, size: int) -> tuple[list[FactRow], int | None]:
    if plan_id in VIRTUAL | deps.kinds.keys():  # the whole board is its plan
        store = await plans.find_plan_board(deps, plan_id, ends=False)
        newest = (await store.read(NEWEST_FACT))[0].newest
        rows = await store.read(LEDGER_PAGE, before=after + size + 1, after=after + 1, limit=size)
        return rows[::-1], after + size if after + size < newest else None
    store = await plans.find_plan_board(deps, plan_id)
    rows = await store.read(PLAN_FACTS, plan_id=plan_id, after=after, limit=size)
    return rows, rows[-1].seq if len(rows) == size else None


def _describe_decision(row: FactRow) -> DecisionView:
    body = _read(row.body)
    decision: DecisionView = {
        "seq": row.seq,
        "at": row.at,
        "kind": row.kind,
        "subject": row.subject,
        "by": body.get("by") or ("engine" if row.kind in {"turn.ended", "task.moved", "plan.ended"} else None),
        "decision": _shorten({key: value for key, value in body.items() if key not in _LEFT_OUT}),
    }
    ack = body.get("ack")
    if isinstance(ack, Mapping):
        decision |= {"task_id": ack["task_id"], "agent_id": ack["consumer_agent_id"]}
    return decision


def _describe_fact(row: FactRow) -> FactView:
    body = _shorten(_read(row.body)) if len(row.body) > LARGEST_BODY else _read(row.body)
    sealed = f"sha256:{bytes(row.hash).hex()}" if row.hash else None
    return {
        "seq": row.seq,
        "link": row.link,
        "at": row.at,
        "kind": row.kind,
        "subject": row.subject,
        "body": body,
        "hash": sealed,
    }


def _shorten(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return a body without its long fields, and their names."""
    kept = {key: value for key, value in body.items() if len(wire.write(value)) <= LARGEST_BODY // 4}
    return kept if len(kept) == len(body) else {**kept, "left_out": sorted(body.keys() - kept.keys())}


def _read(data: bytes) -> JsonObject:
    body: Any = wire.read(bytes(data), limit=wire.DOCUMENT_LIMIT)
    return dict(body) if isinstance(body, dict) else {"value": body}


async def list_ledger(
    deps: Deps,
    board: str,
    *,
    kind: str = "",
    subject: str = "",
    plan_id: str = "",
    before: int = 0,
    limit: int = PAGE,
) -> LedgerPage:
    """List facts of a board, newest first. `kind` is a kind, or the beginning of several, such as `rework.`.

    `subject` is the exact subject; with `plan_id` the facts are about that plan or a part of it.
    """
    store = await _board(deps, board)
    size, top = _size(limit), min(before, _TOP) if before > 0 else _TOP
    facts: list[FactView] = []
    if top == _TOP:
        top = (await store.read(NEWEST_FACT))[0].newest + 1
    if subject:
        rows = await store.read(LEDGER_OF, subject=subject.replace("\0", ""), before=top, limit=size)
        facts = [_describe_fact(row) for row in rows if _fits(row, kind, plan_id)]
        return {"board": board, "facts": facts, "next": rows[-1].seq if len(rows) == size else None}
    seen = 0
    while top > 1 and seen < LOOKED_AT:
        floor = max(1, top - _WINDOW)
        rows = await store.read(LEDGER_PAGE, before=top, after=floor, limit=_WINDOW)
        seen += top - floor
        for row in rows:
            if _fits(row, kind, plan_id):
                facts.append(_describe_fact(row))
                if len(facts) == size:
                    return {"board": board, "facts": facts, "next": row.seq if row.seq > 1 else None}
        top = floor
    return {"board": board, "facts": facts, "next": top if top > 1 else None}


def _fits(row: FactRow, kind: str, plan_id: str) -> bool:
    return row.kind.startswith(kind) and (not plan_id or plan_id in row.subject.split("/"))


async def list_ledger_boards(deps: Deps) -> list[str]:
    """List the boards that have a ledger."""
    return [*(store.name for store in await list_boards(deps)), SYSTEM]


async def _board(deps: Deps, board: str) -> Store:
    known = await list_ledger_boards(deps)
    if board not in known:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no board {board[:80]!r}", hint=f"boards: {', '.join(known)}")
    return await deps.stores.board(board)


async def list_webhooks(
    deps: Deps, *, wanted: Mapping[str, str] | None = None, before: int = 0, limit: int = PAGE
) -> WebhookPage:
    """List deliveries of forges and pipelines, newest first; `wanted` are values that fields must have.

    Raises UsageError for an unknown state.
    """
    toolchain.require_one_of("state", (wanted or {}).get("state", ""), ("new", "done", "ignored", "failed"))
    system = await deps.stores.board(SYSTEM)
    size, place = _size(limit), before or _TOP
    webhooks: list[WebhookView] = []
    seen = 0
    while seen < LOOKED_AT:
        rows = await system.read(WEBHOOK_PAGE, before=place, limit=size)
        for row in rows:
            place, seen = row.id, seen + 1
            if all(getattr(row, field) == value for field, value in (wanted or {}).items()):
                webhooks.append(_describe_webhook(row))
                if len(webhooks) == size:
                    return {"webhooks": webhooks, "next": place}
        if len(rows) < size:
            return {"webhooks": webhooks, "next": None}
    return {"webhooks": webhooks, "next": place}


def _describe_webhook(row: WebhookRow) -> WebhookView:
    return {
        "id": f"wh-{row.id}",
        "source": row.source,
        "kind": row.kind,
        "delivery": row.delivery,
        "event": row.event,
        "sha256": row.sha256,
        "received_at": row.received_at,
        "state": row.state,
        "outcome": read_column(row.outcome, row.outcome_message),
    }


async def replay_webhook(deps: Deps, name: str, *, by: str) -> ReplayedWebhook:
    """Decide about a delivery again. Tasks that it made before are not made twice.

    Raises UsageError when there is no such delivery, or no decision about it yet.
    """
    number = name.removeprefix("wh-")
    known = number.isascii() and number.isdecimal() and len(number) < 18
    system = await deps.stores.board(SYSTEM)
    rows = await system.read(WEBHOOK, id=int(number)) if known else []
    if not rows:
        raise UsageError(
            Code.NAME_UNKNOWN, f"there is no delivery {name[:80]!r}", hint="'GET /api/webhooks' lists deliveries"
        )

    def work(tx: Tx) -> bool:
        again = bool(tx.run(REPLAY_WEBHOOK, id=int(number)))
        if again:
            tx.record(
                "webhook.replayed", f"webhooks/{number}", {"by": by, "was": rows[0].state, "outcome": rows[0].outcome}
            )
        return again

    if not await system.transact(work):
        hint = "wait until the engine has decided about it"
        raise UsageError(Code.REPLAY_REFUSED, f"delivery {name} waits for its first decision", hint=hint)
    return {"id": f"wh-{int(number)}", "state": "new"}


def _size(limit: int) -> int:
    return max(1, min(limit, LONGEST_PAGE))
