"""Who comes in: tokens of roles, kept in the system's store, and tokens of attempts, kept with their tasks.

Only hashes are stored. A token of an attempt is good while its lease lives and its epoch is the newest.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Literal

from agenttalk.engine import plans
from agenttalk.engine.deps import Deps
from agenttalk.rules.tokens import Attempt, read_token, token_hash

Role = Literal["operator", "viewer", "worker", "agent"]


@dataclass(frozen=True, slots=True)
class Caller:
    """Whom a token belongs to."""

    role: Role
    name: str
    """An agent's id; for the others the label of their token."""
    attempt: Attempt | None = None
    """What an agent's token is good for; None for all others."""
    token: str | None = None
    """The hash of an agent's token, by which a write is refused once the attempt is over."""


async def identify(deps: Deps, token: str) -> Caller | None:
    """Whom a token belongs to; None when it is unknown, revoked, or its attempt is over."""
    attempt = read_token(token)
    if attempt is not None:
        return await _agent(deps, attempt, token_hash(token))
    system = await deps.stores.board(plans.SYSTEM)
    rows = await system.read("token", hash=_hash(token))
    return Caller(rows[0][0], rows[0][1]) if rows else None


async def admit(deps: Deps, token: str, role: Literal["operator", "viewer", "worker"], label: str) -> None:
    """Let a token in from now on. One that was revoked stays so."""
    system = await deps.stores.board(plans.SYSTEM)
    if not await system.read("token", hash=_hash(token)):
        at = deps.stamp()
        await system.transact(lambda tx: tx.run("add_token", hash=_hash(token), role=role, label=label, at=at))


def _hash(token: str) -> str:
    # Whoever comes in may send anything; what is no text has no hash that we know.
    return token_hash(token.encode("utf-8", "backslashreplace").decode())


async def _agent(deps: Deps, attempt: Attempt, digest: str) -> Caller | None:
    # A token can name any board. Only one that is there is looked at: asking the store for another would make it.
    known = plans.VIRTUAL | {each.name for each in await plans.boards(deps)}
    if attempt.board not in known or not deps.stores.has(attempt.board):
        return None
    board = await deps.stores.board(attempt.board)
    rows = await board.read("attempt_of", plan_id=attempt.plan_id, task_id=attempt.task_id)
    if not rows:
        return None
    agent_id, epoch, lease, token, receiver = rows[0]
    if lease is None or epoch != attempt.epoch or not hmac.compare_digest(token or "", digest):
        return None
    return Caller("agent", receiver or agent_id, attempt, digest)
