"""Counting from the ledger how far agents could be believed, by and by, and telling it.

A pass goes on where the one before ended: what was counted and how far that has come are one transaction, so nothing is
counted twice or left out, whenever the engine dies. Nothing that runs waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agenttalk.contracts.core import wire
from agenttalk.engine.core.boards import list_boards
from agenttalk.ports.statements.core import FACT, LEDGER_HEAD
from agenttalk.ports.statements.plans import CURSOR_VALUE, SET_CURSOR
from agenttalk.ports.statements.proof import JUDGEMENTS_OF
from agenttalk.ports.statements.views import ADD_HONESTY, FACTS_TO_COUNT, HONESTY, TAKEN_BY
from agenttalk.rules.core.artifacts import hash_files
from agenttalk.rules.proof import honesty
from agenttalk.rules.proof.honesty import NOTHING, HonestySubject, HonestyTally

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports import Store, Tx

COUNT_INTERVAL: Final = 30.0
"""Seconds between two passes."""
AT_ONCE: Final = 2_000
"""Links of the chain that one transaction looks at."""
REPORT_LIMIT: Final = 20_000
"""Links that are looked at for somebody who wants to know; the rest is left to the next passes."""
CURSOR: Final = "honesty"
_JOURNAL: Final = "deliveries/"
_KINDS: Final = {"_toolchain": "toolchain", "_mail": "mail"}
"""Boards of their own → the kind of their tasks."""


async def count_new_facts(deps: Deps, *, most: int | None = None) -> int:
    """Count what is new on every board, at most so many links of each; how many are left."""
    return sum([await _count_board(store, most) for store in await list_boards(deps)])


async def _count_board(store: Store, most: int | None) -> int:
    looked = 0
    while True:
        after, head = await _places(store)
        if head <= after:
            return 0
        if most is not None and looked >= most:
            return head - after
        upto = min(head, after + AT_ONCE)
        rows = await store.read(FACTS_TO_COUNT, after=after, upto=upto)
        facts = [(row.kind, row.subject, _read(row.body)) for row in rows]
        await store.transact(partial(_write, after=after, upto=upto, facts=facts))
        looked += upto - after


async def _places(store: Store) -> tuple[int, int]:
    """How far it was counted, and how far the chain has come."""
    known = await store.read(CURSOR_VALUE, name=CURSOR)
    newest = await store.read(LEDGER_HEAD)
    return (known[0].value if known else 0), (newest[0].link if newest else 0)


def _write(tx: Tx, after: int, upto: int, facts: list[tuple[str, str, dict[str, Any]]]) -> None:
    known = tx.run(CURSOR_VALUE, name=CURSOR)
    if (known[0].value if known else 0) != after:
        return  # somebody else has counted them meanwhile
    sums: dict[HonestySubject, HonestyTally] = {}
    for kind, subject, body in facts:
        for who, tally in _find_tallies(tx, kind, subject, body):
            sums[who] = sums.get(who, NOTHING).plus(tally)
    for who, tally in sums.items():
        tx.run(ADD_HONESTY, agent_id=who.agent_id, model=who.model, **tally._asdict())
    tx.run(SET_CURSOR, name=CURSOR, value=upto)


def _find_tallies(
    tx: Tx, kind: str, subject: str, body: dict[str, Any]
) -> Iterator[tuple[HonestySubject, HonestyTally]]:
    """What a fact says about whom; what it leaves open is looked up."""
    if kind == "turn.ended" and "ack" not in body:
        yield from honesty.count_fact(kind, body, agent_id=_taker(tx, subject, body))
        return
    model = _model(tx, body["made_in"]) if body.get("made_in") else ""
    yield from honesty.count_fact(kind, body, model=model)
    if kind.startswith("rework.") and body.get("maker"):
        yield from honesty.count_misled(str(body.get("by")), _accepted(tx, subject, body))


def _taker(tx: Tx, subject: str, body: Mapping[str, Any]) -> str:
    """Who took a turn that is taken once more: its fact has no receipt that says so."""
    if not subject.startswith(_JOURNAL) or "message_id" not in body:
        return ""
    rows = tx.run(TAKEN_BY, plan_id=subject.removeprefix(_JOURNAL), message_id=body["message_id"])
    return str(rows[0].receiver) if rows else ""


def _model(tx: Tx, fact: int) -> str:
    rows = tx.run(FACT, seq=fact)
    return honesty.model_of(_read(rows[0].body)) if rows else ""


def _accepted(tx: Tx, subject: str, body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Who had accepted what is refused now, and by which model."""
    plan_id = subject.split("/")[1]
    outputs: dict[str, dict[str, str]] = {}
    for file in body.get("files", ()):
        outputs.setdefault(file["output_name"], {})[file["path"]] = file["sha256"]
    return [
        (validator, model)
        for files in outputs.values()
        for validator, accepts, model in tx.run(JUDGEMENTS_OF, plan_id=plan_id, sha256=hash_files(files))
        if accepts
    ]


def _read(data: Any) -> dict[str, Any]:
    told: Any = wire.read(bytes(data), limit=wire.DOCUMENT_LIMIT)
    return dict(told)


async def read_tallies(deps: Deps) -> dict[tuple[str, HonestySubject], HonestyTally]:
    """What was counted, by kind of task and by whom it is about."""
    found: dict[tuple[str, HonestySubject], HonestyTally] = {}
    for store in await list_boards(deps):
        kind = _KINDS.get(store.name, store.name if store.name in deps.kinds else "plan")
        for row in await store.read(HONESTY):
            key = (kind, HonestySubject(row.agent_id, row.model))
            found[key] = found.get(key, NOTHING).plus(HonestyTally(*row[2:]))
    return found


async def build_report(deps: Deps) -> dict[str, Any]:
    """How far agents, models and validators could be believed. What is new is counted first, within limits."""
    behind = await count_new_facts(deps, most=REPORT_LIMIT)
    found = await read_tallies(deps)
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


def _as_validator(tally: HonestyTally) -> dict[str, Any]:
    return {key: getattr(tally, key) for key in ("judged", "misled", "overruled", "unjudged", "reliability")}


def _validates(tally: HonestyTally) -> bool:
    return bool(tally.judged or tally.misled or tally.overruled or tally.unjudged)


def _by_model(found: Mapping[tuple[str, HonestySubject], HonestyTally], agent_id: str) -> dict[str, HonestyTally]:
    """What was counted of an agent with each model; nothing if none is known. What has none stands under ""."""
    models = sorted({who.model for _, who in found if who.agent_id == agent_id})
    return {each: _sum(found, agent_id=agent_id, model=each) for each in models} if any(models) else {}


async def sum_tallies(deps: Deps) -> dict[str, Any]:
    """The sum over everybody, for an overview; as far as it was counted."""
    await count_new_facts(deps, most=AT_ONCE)
    return _sum(await read_tallies(deps)).as_json()


def _sum(
    found: Mapping[tuple[str, HonestySubject], HonestyTally],
    *,
    kind: str | None = None,
    agent_id: str | None = None,
    model: str | None = None,
) -> HonestyTally:
    """What was counted of some of them together."""
    sums = NOTHING
    for (its_kind, who), tally in found.items():
        if kind in {None, its_kind} and agent_id in {None, who.agent_id} and model in {None, who.model}:
            sums = sums.plus(tally)
    return sums


async def read_agent_tallies(deps: Deps) -> dict[str, tuple[HonestyTally, dict[str, HonestyTally]]]:
    """What was counted of each agent, and with each of its models, as far as it was counted."""
    found = await read_tallies(deps)
    names = sorted({who.agent_id for _, who in found})
    return {name: (_sum(found, agent_id=name), _by_model(found, name)) for name in names}
