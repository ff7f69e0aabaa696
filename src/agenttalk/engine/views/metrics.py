"""Numbers about everything, for those who watch over engines. Each is found through an index, or was counted before."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from agenttalk.engine.core.boards import SYSTEM, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import honesty
from agenttalk.ports.statements.core import COUNTED_OPEN
from agenttalk.ports.statements.toolchain import COUNTED_WEBHOOKS
from agenttalk.ports.statements.views import COUNTED_OUTGOING, COUNTED_RUNS, COUNTED_STATES, QUEUE_LENGTHS
from agenttalk.rules.operation.metrics import Metric, Sample

_COUNTED: Final = (
    ("turns", "turns_total", "Turns that have ended."),
    ("claims", "claims_total", "Turns that their agents called finished, and that were decided about."),
    ("proven", "claims_proven_total", "Those that were done, on more than the agent's word."),
    ("unproven", "claims_unproven_total", "Those that were done on the agent's word alone."),
    ("refuted", "claims_refuted_total", "Those that were not done."),
    ("overturned", "claims_overturned_total", "Those that were done, and were found wanting later."),
    ("rounds", "rework_rounds_total", "Rounds of rework."),
    ("stale", "evidence_stale_total", "How often something changed what a proof rests on."),
    ("judged", "judgements_total", "Inputs of others that were judged."),
    ("misled", "judgements_misled_total", "Those that were accepted, and turned out wrong."),
    ("overruled", "judgements_overruled_total", "Those that were refused, and a person accepted them."),
    ("unjudged", "judgements_missing_total", "Inputs that were to be judged, and no judgement came."),
    ("tokens", "tokens_total", "Tokens that turns used."),
    ("cost_usd", "cost_usd_total", "What turns cost, in US dollars."),
    ("seconds", "turn_seconds_total", "Seconds that turns took."),
)


async def collect_metrics(deps: Deps) -> list[Metric]:
    """Collect every metric of a root."""
    tasks: Counter[tuple[str, str]] = Counter()
    plans: Counter[tuple[str, str]] = Counter()
    queues: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for store in await list_boards(deps):
        for state, number in await store.read(COUNTED_STATES):
            tasks[store.name, state.lower()] += number
        for row in await store.read(COUNTED_RUNS):
            plans[store.name, row.state.lower()] += row.runs
            tasks[store.name, "completed"] += row.completed
            tasks[store.name, "failed"] += row.failed
            tasks[store.name, "skipped"] += row.skipped
        for agent_id, number in await store.read(QUEUE_LENGTHS):
            queues[agent_id] += number
        [(requests, deadletters)] = await store.read(COUNTED_OPEN)
        [(outgoing, held)] = await store.read(COUNTED_OUTGOING)
        waiting.update(requests=requests, deadletters=deadletters, outgoing=outgoing, held=held)
    system = await deps.stores.board(SYSTEM)
    [(new, received)] = await system.read(COUNTED_WEBHOOKS)
    return [
        _gauge("tasks", "Tasks of plans that have not ended, by state.", tasks, ("board", "state")),
        _gauge("plans", "Plans that have not ended, by state.", plans, ("board", "state")),
        _gauge(
            "queue_length",
            "Tasks that wait for their agent.",
            {(key,): value for key, value in queues.items()},
            ("agent",),
        ),
        _one("human_requests_open", "Questions that wait for a person.", waiting["requests"]),
        _one("deadletters_open", "Messages that were refused, and not replayed.", waiting["deadletters"]),
        _one("outgoing_waiting", "What the engine has still to say at forges.", waiting["outgoing"]),
        _one("outgoing_held", "What it could not say there, and asked a person about.", waiting["held"]),
        _one("webhooks_new", "Deliveries that are still to be decided about.", new),
        Metric("webhooks_received_total", "Deliveries that were taken in.", "counter", (Sample((), received),)),
        *await _believed(deps),
    ]


async def _believed(deps: Deps) -> list[Metric]:
    found = await honesty.read_tallies(deps, most=honesty.AT_ONCE)
    names = ("agent", "model", "kind")
    samples: list[tuple[tuple[tuple[str, str], ...], Any]] = [
        (tuple(zip(names, (who.agent_id, who.model, kind), strict=True)), tally) for (kind, who), tally in found.items()
    ]
    return [
        Metric(name, text, "counter", tuple(Sample(labels, getattr(tally, key)) for labels, tally in samples))
        for key, name, text in _COUNTED
    ]


def _gauge(name: str, text: str, found: Any, labels: tuple[str, ...]) -> Metric:
    samples = tuple(Sample(tuple(zip(labels, key, strict=True)), value) for key, value in sorted(found.items()))
    return Metric(name, text, "gauge", samples)


def _one(name: str, text: str, value: float) -> Metric:
    return Metric(name, text, "gauge", (Sample((), value),))
