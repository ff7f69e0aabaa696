"""Facts as people and programs look through them: of a plan, of a board, what was decided; and deliveries of forges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.boards import SYSTEM, VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.views import plans, toolchain
from agenttalk.engine.views.plans import LONGEST_PAGE, LOOKED_AT, PAGE
from agenttalk.ports.statements.core import NEWEST_FACT
from agenttalk.ports.statements.toolchain import REPLAY_WEBHOOK, WEBHOOK, WEBHOOK_PAGE
from agenttalk.ports.statements.views import LEDGER_OF, LEDGER_PAGE, PLAN_FACTS, FactRow
from agenttalk.ports.storage import Store, Tx

LARGEST_BODY: Final = 64 * 1024
"""Bytes of a fact that are shown in a list."""
_TOP: Final = 2**62
_WINDOW: Final = 2_000
"""Facts that one statement looks at."""
_DECIDED: Final = (
    "gate.overridden", "plan.cancelled", "plan.ended", "plan.halted", "plan.paused", "plan.reopened", "plan.resumed",
    "plan.revised", "regression.found", "release.decided", "release.revoked", "review.decided", "rework.aborted",
    "rework.accepted", "rework.exhausted", "rework.granted", "rework.ordered", "task.by_hand", "task.moved",
    "task.retried", "turn.ended",
)  # fmt: skip
_LEFT_OUT: Final = frozenset({"ack", "lines", "result", "usage", "evidence", "files", "manifest", "made_in", "before"})
"""What a fact of a decision says besides."""
WEBHOOK_FILTERS: Final = ("source", "state", "event")


async def list_facts(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> dict[str, Any]:
    """Every fact about a plan and its tasks, the oldest first."""
    rows, following = await _facts(deps, plan_id, after, _size(limit))
    return {"facts": [_describe_fact(row) for row in rows], "next": following}


async def list_decisions(deps: Deps, plan_id: str, *, after: int = 0, limit: int = PAGE) -> dict[str, Any]:
    """What was decided about a plan and its tasks, by whom and why, the oldest first."""
    found: list[dict[str, Any]] = []
    following: int | None = after
    seen = 0
    while following is not None and len(found) < _size(limit) and seen < LOOKED_AT:
        rows, following = await _facts(deps, plan_id, following, _size(limit))
        seen += len(rows) or 1
        found += [_decision(row) for row in rows if row.kind in _DECIDED]
    return {"decisions": found, "next": following}


async def _facts(deps: Deps, plan_id: str, after: int, size: int) -> tuple[list[FactRow], int | None]:
    if plan_id in VIRTUAL | deps.kinds.keys():  # the whole board is its plan
        store = await plans.find_plan_board(deps, plan_id, ends=False)
        [(newest,)] = await store.read(NEWEST_FACT)
        rows = await store.read(LEDGER_PAGE, before=after + size + 1, after=after + 1, limit=size)
        return rows[::-1], after + size if after + size < newest else None
    store = await plans.find_plan_board(deps, plan_id)
    rows = await store.read(PLAN_FACTS, plan_id=plan_id, after=after, limit=size)
    return rows, rows[-1].seq if len(rows) == size else None


def _decision(row: FactRow) -> dict[str, Any]:
    said = _read(row.body)
    told = {key: value for key, value in said.items() if key not in _LEFT_OUT}
    ack = said.get("ack")
    by = said.get("by") or ("engine" if row.kind in {"turn.ended", "task.moved", "plan.ended"} else None)
    named = {"task_id": ack["task_id"], "agent_id": ack["consumer_agent_id"]} if isinstance(ack, Mapping) else {}
    return {
        "seq": row.seq,
        "at": row.at,
        "kind": row.kind,
        "subject": row.subject,
        "by": by,
        **named,
        "decision": _short(told),
    }


def _describe_fact(row: FactRow) -> dict[str, Any]:
    told: Any = _short(_read(row.body)) if len(row.body) > LARGEST_BODY else _read(row.body)
    sealed = f"sha256:{bytes(row.hash).hex()}" if row.hash else None
    return {
        "seq": row.seq,
        "link": row.link,
        "at": row.at,
        "kind": row.kind,
        "subject": row.subject,
        "body": told,
        "hash": sealed,
    }


def _short(told: dict[str, Any]) -> dict[str, Any]:
    """The same without what is long; what is left out is named."""
    kept = {key: value for key, value in told.items() if len(wire.write(value)) <= LARGEST_BODY // 4}
    return kept if len(kept) == len(told) else {**kept, "left_out": sorted(told.keys() - kept.keys())}


def _read(body: Any) -> dict[str, Any]:
    told: Any = wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT)
    return dict(told) if isinstance(told, dict) else {"value": told}


async def list_ledger(
    deps: Deps,
    board: str,
    *,
    kind: str = "",
    subject: str = "",
    plan_id: str = "",
    before: int = 0,
    limit: int = PAGE,
) -> dict[str, Any]:
    """Facts of a board, the newest first. `kind` is one, or the beginning of several, such as `rework.`.

    `subject` is what they are about, word for word; with `plan_id` they are about that plan or something in it.
    """
    store = await _board(deps, board)
    size, top = _size(limit), min(before, _TOP) if before > 0 else _TOP
    found: list[dict[str, Any]] = []
    if top == _TOP:
        [(newest,)] = await store.read(NEWEST_FACT)
        top = newest + 1
    if subject:
        rows = await store.read(LEDGER_OF, subject=subject.replace("\0", ""), before=top, limit=size)
        found = [_describe_fact(row) for row in rows if _fits(row, kind, plan_id)]
        return {"board": board, "facts": found, "next": rows[-1].seq if len(rows) == size else None}
    seen = 0
    while top > 1 and seen < LOOKED_AT:
        floor = max(1, top - _WINDOW)
        rows = await store.read(LEDGER_PAGE, before=top, after=floor, limit=_WINDOW)
        seen += top - floor
        for row in rows:
            if _fits(row, kind, plan_id):
                found.append(_describe_fact(row))
                if len(found) == size:
                    return {"board": board, "facts": found, "next": row.seq if row.seq > 1 else None}
        top = floor
    return {"board": board, "facts": found, "next": top if top > 1 else None}


def _fits(row: FactRow, kind: str, plan_id: str) -> bool:
    return row.kind.startswith(kind) and (not plan_id or plan_id in row.subject.split("/"))


async def list_ledger_boards(deps: Deps) -> list[str]:
    """Every board that has a ledger."""
    return [*(store.name for store in await list_boards(deps)), SYSTEM]


async def _board(deps: Deps, board: str) -> Store:
    known = await list_ledger_boards(deps)
    if board not in known:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no board {board[:80]!r}", hint=f"there are: {', '.join(known)}")
    return await deps.stores.board(board)


async def list_webhooks(
    deps: Deps, *, wanted: Mapping[str, str] | None = None, before: int = 0, limit: int = PAGE
) -> dict[str, Any]:
    """What forges and pipelines told us, the newest first; `wanted` are values that columns must have.

    Raises UsageError for a state that there is not.
    """
    toolchain.require_one_of("state", (wanted or {}).get("state", ""), ("new", "done", "ignored", "failed"))
    system = await deps.stores.board(SYSTEM)
    keys = ("id", "source", "kind", "delivery", "event", "sha256", "received_at", "state", "outcome")
    size, place = _size(limit), before or _TOP
    found: list[dict[str, Any]] = []
    seen = 0
    while seen < LOOKED_AT:
        rows = await system.read(WEBHOOK_PAGE, before=place, limit=size)
        for row in rows:
            place, seen = row.id, seen + 1
            each = dict(zip(keys, row, strict=True)) | {"id": f"wh-{row.id}"}
            if all(each[key] == value for key, value in (wanted or {}).items()):
                found.append(each)
                if len(found) == size:
                    return {"webhooks": found, "next": place}
        if len(rows) < size:
            return {"webhooks": found, "next": None}
    return {"webhooks": found, "next": place}


async def replay_webhook(deps: Deps, name: str, *, by: str) -> dict[str, Any]:
    """Have a delivery decided about anew. What it called for before is not called for twice.

    Raises UsageError when there is none, or it is still to be decided about.
    """
    number = name.removeprefix("wh-")
    known = number.isascii() and number.isdecimal() and len(number) < 18
    system = await deps.stores.board(SYSTEM)
    rows = await system.read(WEBHOOK, id=int(number)) if known else []
    if not rows:
        raise UsageError(
            Code.NAME_UNKNOWN, f"there is no delivery {name[:80]!r}", hint="'GET /api/webhooks' lists them"
        )

    def work(tx: Tx) -> bool:
        again = bool(tx.run(REPLAY_WEBHOOK, id=int(number)))
        if again:
            tx.record(
                "webhook.replayed", f"webhooks/{number}", {"by": by, "was": rows[0].state, "outcome": rows[0].outcome}
            )
        return again

    if not await system.transact(work):
        hint = "wait until it is"
        raise UsageError(Code.REPLAY_REFUSED, f"{name} is not decided about yet", hint=hint)
    return {"id": f"wh-{int(number)}", "state": "new"}


def _size(limit: int) -> int:
    return max(1, min(limit, LONGEST_PAGE))
