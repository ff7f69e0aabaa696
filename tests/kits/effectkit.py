"""A worker for effects, as simple as one can be: it claims effects for a while, and finishes or retries each.

When the worker dies, its claim runs out and the effect comes back. So an effect may be done twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant
from agenttalk.ports.statements.core import CLAIM_EFFECTS, FINISH_EFFECT, RETRY_EFFECT
from agenttalk.ports.storage import Tx

CLAIM: Final = timedelta(seconds=60)
"""How long a claim holds by default."""


class Effect(NamedTuple):
    """One effect that is to be done now."""

    id: int
    key: str
    body: Any
    attempts: int
    """How often it was claimed, this time included."""


def claim_effects(tx: Tx, kind: str, limit: int, *, now: datetime, hold: timedelta = CLAIM) -> list[Effect]:
    """Claim up to `limit` effects of a kind until `now + hold`, the longest waiting first."""
    rows = tx.run(CLAIM_EFFECTS, kind=kind, limit=limit, now=format_instant(now), until=format_instant(now + hold))
    return [Effect(number, key, wire.read(body), attempts) for number, key, body, attempts in sorted(rows)]


def finish_effect(tx: Tx, effect_id: int) -> bool:
    """Mark an effect as done; False when it was done before."""
    return bool(tx.run(FINISH_EFFECT, id=effect_id))


def retry_effect(tx: Tx, effect_id: int, *, not_before: datetime) -> bool:
    """Let an effect that failed be tried again later; False when it was done meanwhile."""
    return bool(tx.run(RETRY_EFFECT, id=effect_id, not_before=format_instant(not_before)))
