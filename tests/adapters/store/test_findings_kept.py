"""What was found out before is there for the next start, on every database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from agenttalk.adapters.store.root import RootStores
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import evidence_store
from agenttalk.engine.proof.evidence_store import StoredFindings
from agenttalk.ports.agents import Job
from agenttalk.ports.proof import Baseline
from agenttalk.ports.statements.proof import EVIDENCE_OF_PLAN, EVIDENCE_OF_TASK
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint
from agenttalk.rules.proof.performance import WorkProof
from agenttalk.rules.suites.outcomes import Outcomes
from kits.storekit import Clock, Place

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
RESULT = CheckResult(
    "tests",
    True,
    "executed",
    "",
    "2 passed",
    NOON,
    NOON,
    Fingerprint({"kind": "tests"}, "tree"),
    tests=Outcomes(frozenset("ab")),
)


def job(task_id: str = "t") -> Job:
    """What is asked of a job here: whose it is."""
    about = {"plan_id": "p", "task_id": task_id, "board": "shop", "command": SimpleNamespace(command_id="cmd_t_001")}
    return cast("Job", SimpleNamespace(**about))


def kept(stores: RootStores) -> StoredFindings:
    return StoredFindings(Deps(cast("Any", None), stores, Clock(), cast("Any", None)))


def test_a_baseline_keeps_its_first_tip_and_its_newest_results(place: Place) -> None:
    async def first(stores: RootStores) -> None:
        found = kept(stores)
        assert await found.find_baseline(job()) is None
        await found.keep_baseline(job(), Baseline("tip", {"tests": RESULT}))
        await found.keep_baseline(job(), Baseline("later", {"tests": RESULT, "more": RESULT}))

    async def second(stores: RootStores) -> None:
        assert await kept(stores).find_baseline(job()) == Baseline("tip", {"tests": RESULT, "more": RESULT})
        assert await kept(stores).find_baseline(job("other")) is None

    place.play(first)
    place.play(second)


def test_a_result_is_known_by_its_key_and_the_first_stays(place: Place) -> None:
    async def first(stores: RootStores) -> None:
        found = kept(stores)
        assert await found.find_result(job(), "key", "tests") is None
        await found.keep_result(job(), "key", RESULT)
        await found.keep_result(job("other"), "key", replace(RESULT, passed=False))

    async def second(stores: RootStores) -> None:
        known = await kept(stores).find_result(job("other"), "key", "mine")
        assert known is not None
        assert (known.passed, known.id, known.seen_for, known.tests) == (True, "mine", "p/t", RESULT.tests)
        assert await kept(stores).find_result(job(), "another", "tests") is None

    place.play(first)
    place.play(second)


def test_new_evidence_takes_the_place_of_all_that_was_there(place: Place) -> None:
    async def use(stores: RootStores) -> None:
        board = await stores.board("shop")
        both = WorkProof(results=(RESULT, replace(RESULT, id="old")), commit="c1")
        await board.transact(lambda tx: evidence_store.write_evidence(tx, job(), both, at="then"))
        await board.transact(
            lambda tx: evidence_store.write_evidence(tx, job(), WorkProof(results=(RESULT,), commit="c2"), at="now")
        )
        await board.transact(
            lambda tx: evidence_store.write_evidence(tx, job("other"), WorkProof(results=(RESULT,)), at="now")
        )
        rows = await board.read(EVIDENCE_OF_TASK, plan_id="p", task_id="t")
        assert [(row[0], row[2], row[6], row[7]) for row in rows] == [("tests", "c2", 1, "now")]
        assert [row[3] for row in await board.read(EVIDENCE_OF_PLAN, plan_id="p")] == [None, "c2"]

    place.play(use)
