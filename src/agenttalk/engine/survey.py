"""Where all plans of a root stand, as `agenttalk status` shows it. It is asked often, so little is loaded for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttalk.contracts import wire
from agenttalk.engine import objections, releases, reviews
from agenttalk.engine.boards import boards
from agenttalk.engine.standing import by_agent, isolated_of, together, usage_of
from agenttalk.rules.lifecycle import board_status

if TYPE_CHECKING:
    from agenttalk.engine.deps import Deps
    from agenttalk.ports import Store


async def overview(deps: Deps, *, plan_id: str | None = None) -> dict[str, Any]:
    """Where everything stands, for people and programs."""
    found = [(board, row) for board in await boards(deps) for row in await board.read("plans")]
    return {"plans": [await _stand(board, row) for board, row in found if plan_id in {None, row[0]}]}


async def _stand(board: Store, row: tuple[Any, ...]) -> dict[str, Any]:
    plan_id, origin, dag_sha256, _, halted, sent, delivered, superseded, duplicate, dead = row
    [(in_flight,)] = await board.read("in_flight", plan_id=plan_id)
    runs = await board.read("run", plan_id=plan_id)
    endless = origin == "virtual" and bool(runs)  # its tasks are listed page by page elsewhere
    tasks = [] if endless else await board.read("tasks_of", plan_id=plan_id)
    reasons: dict[str, str] = {} if endless else dict(await board.read("failures_of", plan_id=plan_id))
    ends = bool(runs) and not endless
    review = await reviews.last(board, plan_id) if ends else None
    release = await releases.last(board, plan_id) if ends else None
    stands = await board.read("standings", plan_id=plan_id) if ends else []
    taken = {each[0]: usage_of(each) for each in stands}
    fresh = {each[0]: bool(each[7]) for each in stands}
    believed = {each[0] for each in stands if each[20]}
    isolated = {each[0]: isolated_of(each[2], each[21]) for each in stands}
    held = [objections.shown(each) for each in await board.read("objections_in", plan_id=plan_id)] if ends else []
    return {
        "plan_id": plan_id,
        "board": board.name,
        "origin": origin,
        "halted": halted,
        "dag_sha256": dag_sha256,
        "messages": {
            "sent": sent,
            "delivered": delivered,
            "superseded": superseded,
            "duplicate": duplicate,
            "dead": dead,
            "in_flight": in_flight,
        },
        "usage": together(taken.values()),
        "usage_by_agent": by_agent((each[1], taken[each[0]]) for each in stands),
        "gates": held,
        "questions": [row[0] for row in await board.read("open_requests_in", plan_id=plan_id)],
        "state": runs[0][0] if ends else None,
        **({"review": review.as_json()} if review else {}),
        **({"release": release.as_json()} if release else {}),
        "tasks": [
            {
                **_task(row, fresh=fresh.get(row[0]) if runs else None, believed=row[0] in believed),
                "reason": reasons.get(row[0]),
                "isolated": isolated.get(row[0]),
                "usage": taken.get(row[0]),
            }
            for row in tasks
        ],
    }


def _task(row: tuple[Any, ...], *, fresh: bool | None, believed: bool) -> dict[str, Any]:
    """A task. What an agent of a foreign plan says of itself is its claim; of its own plans the engine saw more.

    `fresh` says whether what the engine saw still holds; None when it saw nothing. `believed` is what is done by its
    agent's word alone.
    """
    task_id, agent_id, state, updated_at, _, _, attempt, _, missing, request_id, _, _ = row
    done = state == "COMPLETED"
    return {
        "task_id": task_id,
        "agent_id": agent_id,
        "state": state,
        "board": board_status(state),
        "freshness": ("fresh" if fresh else "stale") if done and fresh is not None else None,
        "trust": ("claimed" if fresh is None or believed else "observed") if done else None,
        "updated_at": updated_at,
        "attempt": attempt,
        "missing": wire.read(bytes(missing)) if missing else [],
        "request_id": request_id,
    }
