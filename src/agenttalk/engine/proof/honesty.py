"""Counts from the ledger how many claims of agents held, and reports it.

A pass of the engine's loop goes on where the one before ended. The counts and the place up to which it counted are one
transaction, so nothing is counted twice or left out when the engine dies. Reports only read: they add what is new to
what was counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.engine.core.boards import list_boards
from agenttalk.ports.statements.core import FACT, LEDGER_HEAD
from agenttalk.ports.statements.plans import CURSOR_VALUE, SET_CURSOR
from agenttalk.ports.statements.proof import JUDGEMENTS_OF
from agenttalk.ports.statements.views import ADD_HONESTY, FACTS_TO_COUNT, HONESTY, TAKEN_BY, HonestyRow
from agenttalk.rules.core.artifacts import hash_files
from agenttalk.rules.proof import honesty
from agenttalk.rules.proof.honesty import NOTHING, HonestySubject, HonestyTally, TallyView

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports.storage import Store, Tx

COUNT_INTERVAL: Final = 30.0
"""Seconds between two passes."""
AT_ONCE: Final = 2_000
"""Links of the chain that one transaction looks at."""
REPORT_LIMIT: Final = 20_000
"""Links that a pass or a report reads; the rest is left to the next passes."""
CURSOR: Final = "honesty"
_JOURNAL: Final = "deliveries/"
_KINDS: Final = {"_toolchain": "toolchain", "_mail": "mail"}
"""Boards of their own → the kind of their tasks."""


async def count_new_facts(deps: Deps, *, most: int | None = None) -> int:
    """Count what is new on every board, at most so many links of each. Returns how many links are left."""
    return sum([await _count_board(store, most) for store in await list_boards(deps)])


async def _count_board(store: Store, most: int | None) -> int:
    counted = 0
    while True:
        after, head = await _places(store)
        if head <= after:
            return 0
        if most is not None and counted >= most:
            return head - after
        upto = min(head, after + AT_ONCE)
        sums = await _sum_facts(store, after, upto)
        await store.transact(partial(_write, after=after, upto=upto, sums=sums))
        counted += upto - after


async def _places(store: Store) -> tuple[int, int]:
    """Return how far facts were counted, and how far the chain has come."""
    known = await store.read(CURSOR_VALUE, name=CURSOR)
    newest = await store.read(LEDGER_HEAD)
    return (known[0].value if known else 0), (newest[0].link if newest else 0)


async def _sum_facts(store: Store, after: int, upto: int) -> dict[HonestySubject, HonestyTally]:
    """Count some facts. This reads only: facts, and the rows that they refer to, never change."""
    sums: dict[HonestySubject, HonestyTally] = {}
    for row in await store.read(FACTS_TO_COUNT, after=after, upto=upto):
        for who, tally in await _find_tallies(store, row.kind, row.subject, _read(row.body)):
            sums[who] = sums.get(who, NOTHING).plus(tally)
    return sums


def _write(tx: Tx, after: int, upto: int, sums: Mapping[HonestySubject, HonestyTally]) -> None:
    known = tx.run(CURSOR_VALUE, name=CURSOR)
    if (known[0].value if known else 0) != after:
        return  # another process has counted them meanwhile
    for who, tally in sums.items():
        tx.run(ADD_HONESTY, agent_id=who.agent_id, model=who.model, **tally._asdict())
    tx.run(SET_CURSOR, name=CURSOR, value=upto)


async def _find_tallies(
    store: Store, kind: str, subject: str, body: Mapping[str, Any]
) -> list[tuple[HonestySubject, HonestyTally]]:
    """Return what a fact says about whom. What it leaves open is looked up."""
    if kind == "turn.ended" and "ack" not in body:
        return list(honesty.count_fact(kind, body, agent_id=await _taker(store, subject, body)))
    model = await _model(store, body["made_in"]) if body.get("made_in") else ""
    found = list(honesty.count_fact(kind, body, model=model))
    if kind.startswith("rework.") and body.get("maker"):
        found += honesty.count_misled(str(body.get("by")), await _accepted(store, subject, body))
    return found


async def _taker(store: Store, subject: str, body: Mapping[str, Any]) -> str:
    """Return who took a turn that is taken once more: its fact has no receipt that says so."""
    if not subject.startswith(_JOURNAL) or "message_id" not in body:
        return ""
    rows = await store.read(TAKEN_BY, plan_id=subject.removeprefix(_JOURNAL), message_id=body["message_id"])
    return str(rows[0].receiver) if rows else ""


async def _model(store: Store, fact: int) -> str:
    rows = await store.read(FACT, seq=fact)
    return honesty.model_of(_read(rows[0].body)) if rows else ""


async def _accepted(store: Store, subject: str, body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return who had accepted what is refused now, and by which model."""
    plan_id = subject.split("/")[1]
    outputs: dict[str, dict[str, str]] = {}
    for file in body.get("files", ()):
        outputs.setdefault(file["output_name"], {})[file["path"]] = file["sha256"]
    return [
        (validator, model)
        for files in outputs.values()
        for validator, accepts, model in await store.read(JUDGEMENTS_OF, plan_id=plan_id, sha256=hash_files(files))
        if accepts
    ]


def _read(data: Any) -> JsonObject:
    body: Any = wire.read(bytes(data), limit=wire.DOCUMENT_LIMIT)
    return dict(body)


def _read_tally(row: HonestyRow) -> HonestyTally:
    return HonestyTally(**{field: getattr(row, field) for field in HonestyTally._fields})


async def read_tallies(deps: Deps, *, most: int = 0) -> dict[tuple[str, HonestySubject], HonestyTally]:
    """Return what was counted, and at most so many links that are new, by kind of task and by subject."""
    return (await _read_with_new(deps, most))[0]


async def _read_with_new(deps: Deps, most: int) -> tuple[dict[tuple[str, HonestySubject], HonestyTally], int]:
    """Return what was counted together with what is new, at most so many links of each board, and how many are left.

    Nothing is written: the engine's loop counts for good. A pass that ends in between could be counted twice, so the
    place up to which it was counted is read again afterwards.
    """
    tallies: dict[tuple[str, HonestySubject], HonestyTally] = {}
    left = 0
    for store in await list_boards(deps):
        kind = _KINDS.get(store.name, store.name if store.name in deps.kinds else "plan")
        counted, uncounted = await _read_board(store, most)
        left += uncounted
        for who, tally in counted:
            tallies[kind, who] = tallies.get((kind, who), NOTHING).plus(tally)
    return tallies, left


async def _read_board(store: Store, most: int) -> tuple[list[tuple[HonestySubject, HonestyTally]], int]:
    while True:
        after, head = await _places(store)
        stored = [(HonestySubject(row.agent_id, row.model), _read_tally(row)) for row in await store.read(HONESTY)]
        if (await _places(store))[0] == after:
            break
    upto = min(head, after + most)
    new = await _sum_facts(store, after, upto) if upto > after else {}
    return [*stored, *new.items()], max(0, head - max(after, upto))


class ModelHonesty(TallyView):
    """The counts of a model."""

    model: str


class KindHonesty(TallyView):
    """The counts of a kind of task."""

    kind: str


class AgentHonesty(TallyView):
    """The counts of an agent."""

    agent_id: str
    models: list[str]
    kinds: list[str]
    by_model: list[ModelHonesty]


class ValidatorTally(TypedDict):
    """The reliability of judgements of others' work."""

    judged: int
    misled: int
    overruled: int
    unjudged: int
    reliability: float | None


class ValidatorModel(ValidatorTally):
    """The reliability of a model's judgements."""

    model: str


class ValidatorHonesty(ValidatorTally):
    """The reliability of an agent's judgements."""

    agent_id: str
    by_model: list[ValidatorModel]


class HonestyReport(TypedDict):
    """The counts of claims that held, of agents, models and validators."""

    total: TallyView
    agents: list[AgentHonesty]
    models: list[ModelHonesty]
    kinds: list[KindHonesty]
    validators: list[ValidatorHonesty]
    uncounted: int


async def build_report(deps: Deps) -> HonestyReport:
    """Report how many claims of agents, models and validators held, up to the newest fact within limits."""
    found, behind = await _read_with_new(deps, REPORT_LIMIT)
    agents = {each.agent_id for _, each in found}
    models = {each.model for _, each in found if each.model}
    kinds = {kind for kind, _ in found}
    by_agent = {name: _sum(found, agent_id=name) for name in sorted(agents)}
    return {
        "total": _sum(found).as_json(),
        "agents": [
            {
                "agent_id": name,
                "models": sorted({who.model for _, who in found if who.agent_id == name and who.model}),
                "kinds": sorted({kind for kind, who in found if who.agent_id == name}),
                **tally.as_json(),
                "by_model": [{"model": model, **each.as_json()} for model, each in _by_model(found, name).items()],
            }
            for name, tally in by_agent.items()
        ],
        "models": [{"model": name, **_sum(found, model=name).as_json()} for name in sorted(models)],
        "kinds": [{"kind": name, **_sum(found, kind=name).as_json()} for name in sorted(kinds)],
        "validators": [
            {
                "agent_id": name,
                **_as_validator(tally),
                "by_model": [
                    {"model": model, **_as_validator(each)}
                    for model, each in _by_model(found, name).items()
                    if _validates(each)
                ],
            }
            for name, tally in by_agent.items()
            if _validates(tally)
        ],
        "uncounted": behind,
    }


def _as_validator(tally: HonestyTally) -> ValidatorTally:
    return {
        "judged": tally.judged,
        "misled": tally.misled,
        "overruled": tally.overruled,
        "unjudged": tally.unjudged,
        "reliability": tally.reliability,
    }


def _validates(tally: HonestyTally) -> bool:
    return bool(tally.judged or tally.misled or tally.overruled or tally.unjudged)


def _by_model(found: Mapping[tuple[str, HonestySubject], HonestyTally], agent_id: str) -> dict[str, HonestyTally]:
    """Return an agent's tallies by model; empty if no model is known. Work without a model is under ""."""
    models = sorted({who.model for _, who in found if who.agent_id == agent_id})
    return {each: _sum(found, agent_id=agent_id, model=each) for each in models} if any(models) else {}


async def sum_tallies(deps: Deps) -> TallyView:
    """Return the sum over all agents, for an overview."""
    return _sum((await _read_with_new(deps, AT_ONCE))[0]).as_json()


def _sum(
    found: Mapping[tuple[str, HonestySubject], HonestyTally],
    *,
    kind: str | None = None,
    agent_id: str | None = None,
    model: str | None = None,
) -> HonestyTally:
    """Add up tallies."""
    sums = NOTHING
    for (its_kind, who), tally in found.items():
        if kind in {None, its_kind} and agent_id in {None, who.agent_id} and model in {None, who.model}:
            sums = sums.plus(tally)
    return sums


async def read_agent_tallies(deps: Deps) -> dict[str, tuple[HonestyTally, dict[str, HonestyTally]]]:
    """Return what was counted of each agent, and of each of its models."""
    found, _ = await _read_with_new(deps, AT_ONCE)
    names = sorted({who.agent_id for _, who in found})
    return {name: (_sum(found, agent_id=name), _by_model(found, name)) for name in names}
