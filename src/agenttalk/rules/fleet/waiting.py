"""Says why a task waits for a worker, and which workers lack least for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agenttalk.rules.fleet.assignment import Lack, NearMatch, WorkerNeeds
from agenttalk.rules.text import view_words
from agenttalk.rules.text.message import CLAUSES, LISTED, join, join_names

_SHOWN: Final = 3
"""How many workers are named."""


def explain_wait(needs: WorkerNeeds, near: Sequence[NearMatch]) -> str:
    """Say what has to happen until a worker takes a task, by the workers of its pool."""
    checks = needs.role == "verifier"
    if not near:
        return (view_words.NO_VERIFIER if checks else view_words.NO_WORKER)(pool=needs.pool)
    able = [each.worker.name for each in near if not each.lacks]
    if able:
        waits = view_words.WAITS_FOR_VERIFIER if checks else view_words.WAITS_FOR_WORKER
        return waits(pool=needs.pool, names=join_names(able))
    told = [
        view_words.LACKS(worker=each.worker.name, lacks=join([_describe(lack) for lack in each.lacks], LISTED))
        for each in near[:_SHOWN]
    ]
    return (view_words.NO_FIT_VERIFIER if checks else view_words.NO_FIT)(pool=needs.pool, lacks=join(told, CLAUSES))


def _describe(lack: Lack) -> str:
    if lack.kind in {"state", "silent"}:
        return view_words.WORKER_IS[lack.name]()
    return view_words.LACK[lack.kind](name=lack.name)
