"""Verifiers: who gets which check, what their results are worth, and every way in which one can fail or lie."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.adapters.signatures import WorkerKey
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.contracts.worker import (
    CheckOrder,
    CheckReport,
    DesiredCheck,
    Verification,
    VerifiedResult,
    WorkerFacts,
)
from agenttalk.engine.core.boards import SYSTEM, board_of
from agenttalk.engine.people import questions
from agenttalk.engine.views.explain_engine_task import explain_engine_task
from agenttalk.ports.statements.fleet import VERIFICATIONS_OF
from agenttalk.ports.statements.proof import EVIDENCE_OF_TASK
from agenttalk.rules.fleet.verification import make_statement
from agenttalk.rules.fleet.verify_policy import VerifyPolicy
from agenttalk.rules.planfile.compiler import CompiledPlan
from engine.fleet.fleetkit import FACTS, WRITES, DirectLink, Fleet, Worker, fleet, script, until, worker
from kits.plankit import plan, states, task
from kits.provekit import promise
from kits.standingkit import PlanStanding

ONE = VerifyPolicy("verify")
TWO = VerifyPolicy("verify", double=True)
SAYS = {"id": "says", "kind": "run", "run": "grep -q afar note.txt"}


def facts_of(name: str) -> WorkerFacts:
    return FACTS.model_copy(update={"machine": f"machine-{name}", "start": f"start-{name}"})


def compiled(agent: str = "b", check: dict[str, Any] = SAYS, **agents: Any) -> CompiledPlan:
    outputs = [{"name": "note.txt", "deliverable": True}]
    return plan(
        task("draft", agent, outputs=outputs, promise=promise(check)),
        agents={"far": script(WRITES), **agents} if agent == "far" else agents,
    )


async def write(turn: Turn) -> str:
    turn.outputs["note.txt"] = "from afar"
    return "wrote"


@dataclass
class Verifier:
    """A verifier by hand."""

    here: Fleet
    id: str
    key: WorkerKey
    facts: WorkerFacts

    async def offered(self, *reports: CheckReport, slots: int = 1, wait: float = 20.0) -> list[DesiredCheck]:
        return list((await self.here.ask(self.id, checks=reports, slots=slots, wait=wait if slots else 0.0)).checks)

    async def answered(self, report: CheckReport, wait: float = 20.0) -> list[DesiredCheck]:
        """Report, and return what comes then: the answer to a result says first that it has come."""
        return await self.offered(report, wait=wait) or await self.offered(wait=wait)

    def report(self, check: DesiredCheck, **keys: Any) -> CheckReport:
        assert check.order is not None
        said = VerifiedResult(**{"passed": True, "exit_code": 0, **keys})
        return self.sealed(check.lease, check.order, said)

    def sealed(self, lease: str, order: CheckOrder, said: VerifiedResult, **keys: Any) -> CheckReport:
        about = {"result": said, "machine": self.facts.machine, "sandbox": "plain", "signature": "-"}
        found = Verification(**{**about, **keys})
        signature = self.key.sign(make_statement(lease, self.id, order, found))
        told = base64.urlsafe_b64encode(signature).decode().rstrip("=")
        return CheckReport(lease=lease, verification=found.model_copy(update={"signature": told}))

    def red(self, check: DesiredCheck) -> CheckReport:
        return self.report(check, passed=False, reason="exit_code", exit_code=1)

    async def answer_trials(self, wait: float = 20.0) -> list[DesiredCheck]:
        """Answer rightly what the engine knows, as one that can tell it would; return what comes then."""
        given = await self.offered(wait=wait)
        while given and given[0].order is not None and is_trial(given[0].order):
            assert self.here.sync.checks is not None
            [source] = [self.here.sync.checks.find_source(self.id, each.lease) for each in given]
            assert source is not None
            texts = {file.path: (await source.read(file.sha256)).decode() for file in given[0].order.files}
            sum_ = eval(texts["work.sh"].partition("((")[2].partition("))")[0])
            right = f"= {sum_}\n" in texts["check.sh"]
            given = await self.answered(self.report(given[0]) if right else self.red(given[0]), wait=wait)
        return given


def is_trial(order: CheckOrder) -> bool:
    return getattr(order.check, "run", "") == "sh check.sh"


async def enrol(here: Fleet, folder: Path, name: str, pool: str = "verify") -> Verifier:
    key = WorkerKey.load(folder / f"{name}.key")
    facts = facts_of(name)
    return Verifier(here, await here.enrol(name, pool=pool, role="verifier", key=key.public, facts=facts), key, facts)


@asynccontextmanager
async def verifier(here: Fleet, folder: Path, name: str = "one", **keys: Any) -> AsyncIterator[Worker]:
    """The real process of a verifier."""
    own = await enrol(here, folder, name)
    async with worker(folder / name, DirectLink(here, own.id), facts=own.facts, key=own.key, **keys) as running:
        yield running


async def explained(here: Fleet) -> Any:
    told = await explain_engine_task(here.engine.deps, "p", "draft")
    waits = await here.sync.explain_check("p", "draft")
    return {**told, "moves_on": waits or told["moves_on"]}


async def eventually(seen: Callable[[], Awaitable[Any]]) -> None:
    """Wait for something that has to be read from the store."""
    while True:
        if await seen():
            return
        await asyncio.sleep(0.005)


async def seen(here: Fleet, text: str) -> None:
    """Wait until the task says this about what moves it on."""

    async def says() -> bool:
        return text in (await explained(here))["moves_on"]

    await eventually(says)


def run(tmp_path: Path, play: Any, verify: VerifyPolicy = ONE, **keys: Any) -> None:
    async def go() -> None:
        async with fleet(tmp_path / "root", proving=True, verify=verify, **keys) as here:
            here.engine.agents["b"] = write
            await play(here)

    asyncio.run(go())


def test_a_verifier_makes_the_check_and_the_evidence_names_it(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled())
        await seen(here, "the pool verify has no verifier")  # and until there is one, it waits
        async with verifier(here, tmp_path):
            assert (await here.ended()).result == "done"
        told = str((await explained(here))["attempts"][-1]["checks"])
        assert "machine-one" in told
        assert "signature" in told

    run(tmp_path, play)


def test_what_fails_at_a_verifier_is_not_done(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        check = {"id": "says", "kind": "run", "run": "grep -q near note.txt"}
        await here.engine.submit(compiled(check=check))
        async with verifier(here, tmp_path):
            found = await here.engine.ended()
        assert states(found) != {"draft": "COMPLETED"}

    run(tmp_path, play)


def test_a_machine_on_which_the_agent_ran_does_not_check_its_work(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        shared = facts_of("shared")
        far = await here.enrol("far", facts=shared)
        await here.engine.submit(compiled("far", {**SAYS, "red_first": "off"}))
        async with worker(tmp_path / "far", DirectLink(here, far), facts=shared):
            key = WorkerKey.load(tmp_path / "near.key")
            near = await here.enrol("near", pool="verify", role="verifier", key=key.public, facts=shared)
            by_hand = Verifier(here, near, key, shared)
            await seen(here, "near stands on the machine machine-shared, where this agent ran")
            assert await by_hand.answer_trials(wait=0) == []
            async with verifier(here, tmp_path, "clean"):
                assert (await here.ended()).result == "done"

    run(tmp_path, play)


def test_the_engines_own_machine_does_not_check_what_ran_there(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled())
        own = FACTS.model_copy(update={"machine": "engine", "start": "monday"})
        await here.enrol("own", pool="verify", role="verifier", facts=own)
        await seen(here, "own stands on the machine engine")

    run(tmp_path, play)


def test_a_verifier_that_always_says_green_never_gets_work(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled())
        green = await enrol(here, tmp_path, "green")
        given = await green.offered()
        while given:
            assert given[0].order is not None
            assert is_trial(given[0].order)
            told = await here.ask(green.id, checks=(green.report(given[0]),))
            given = await green.offered() if told.checks else []
        [shown] = await here.sync.describe()
        assert (shown["state"], "answered wrongly" in shown["reason"]) == ("quarantined", True)
        await seen(here, "green is quarantined")

    run(tmp_path, play)


def test_a_liar_that_knows_the_trials_is_found_by_a_second_verifier_and_a_person_decides(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        check = {"id": "says", "kind": "run", "run": "grep -q near note.txt", "red_first": "off"}
        await here.engine.submit(compiled(check=check))
        liar = await enrol(here, tmp_path, "liar")
        [given] = await liar.answer_trials()
        await here.ask(liar.id, checks=(liar.report(given),))
        async with verifier(here, tmp_path, "honest"):
            await here.engine.asked()
            [question] = await questions.list_open(here.engine.deps)
            assert "verifier liar saw it pass" in str(question)
            assert "verifier honest saw it fail" in str(question)
            await here.engine.answer("REJECT")
            await until_refused(here)

    run(tmp_path, play, TWO)


def test_two_verifiers_that_agree_both_stand_in_the_evidence(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled())
        async with verifier(here, tmp_path, "one"), verifier(here, tmp_path, "two"):
            assert (await here.ended()).result == "done"
        told = str((await explained(here))["attempts"][-1]["checks"])
        assert "machine-one" in told
        assert "machine-two" in told

    run(tmp_path, play, TWO)


def test_what_a_silent_verifier_had_goes_to_another_and_its_late_result_does_not_count(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        check = {"id": "says", "kind": "run", "run": "grep -q near note.txt", "red_first": "off"}
        await here.engine.submit(compiled(check=check))
        slow = await enrol(here, tmp_path, "slow")
        [given] = await slow.answer_trials()
        async with verifier(here, tmp_path, "quick"):
            await until_refused(here)  # by the other, because it fails
        assert await slow.offered(slow.report(given), slots=0) == []
        assert states(await now(here)) != {"draft": "COMPLETED"}

    run(tmp_path, play, ttl=1.0)


@pytest.mark.parametrize("how", ["key", "lease", "machine", "order", "result"])
def test_a_result_that_was_signed_for_something_else_counts_for_nothing(tmp_path: Path, how: str) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled())
        false = await enrol(here, tmp_path, "false")
        [given] = await false.answer_trials()
        assert given.order is not None
        said, other = VerifiedResult(passed=True, exit_code=0), given.order.model_copy(update={"network": True})
        forged = {
            "key": lambda: Verifier(here, false.id, WorkerKey.load(tmp_path / "other.key"), false.facts).report(given),
            "lease": lambda: false.sealed("check_other", given.order, said).model_copy(update={"lease": given.lease}),
            "machine": lambda: false.sealed(given.lease, given.order, said, machine="machine-clean"),
            "order": lambda: false.sealed(given.lease, other, said),
            "result": lambda: _with_result(false.red(given), said),
        }[how]()
        assert await false.offered(forged, slots=0) == []
        [shown] = await here.sync.describe()
        assert (shown["state"], "not its own" in shown["reason"]) == ("quarantined", True)
        async with verifier(here, tmp_path, "honest"):
            assert (await here.ended()).result == "done"
        assert "honest" in str((await explained(here))["attempts"][-1]["checks"])

    run(tmp_path, play)


def _with_result(report: CheckReport, said: VerifiedResult) -> CheckReport:
    assert report.verification is not None
    return report.model_copy(update={"verification": report.verification.model_copy(update={"result": said})})


def test_no_worker_fetches_or_answers_a_check_that_another_has(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        assert here.sync.checks is not None
        await here.engine.submit(compiled())
        own, other = await enrol(here, tmp_path, "own"), await enrol(here, tmp_path, "other")
        [given] = await own.answer_trials()
        assert here.sync.checks.find_source(own.id, given.lease) is not None
        assert here.sync.checks.find_source(other.id, given.lease) is None
        assert here.sync.checks.find_source(own.id, "check_none") is None
        await here.ask(other.id, checks=(other.report(given),), slots=0)
        assert [each.lease for each in (await here.ask(own.id, checks=(CheckReport(lease=given.lease),))).checks] == [
            given.lease
        ]

    run(tmp_path, play)


def test_what_a_verifier_found_is_stale_once_it_answers_wrongly(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled(check={**SAYS, "red_first": "off"}))
        liar = await enrol(here, tmp_path, "liar")
        [given] = await liar.answer_trials()
        await liar.offered(liar.report(given), slots=0)
        assert (await here.ended()).result == "done"
        store = await board_of(here.engine.deps, "p")
        [evidence] = await store.read(EVIDENCE_OF_TASK, plan_id="p", task_id="draft")
        assert evidence.fresh
        row = await here.sync.workers.find(liar.id)
        assert row is not None
        system = await here.engine.deps.stores.board(SYSTEM)
        assert {each.check_id for each in await system.read(VERIFICATIONS_OF, worker=liar.id)} == {"says"}
        await here.sync.checks._distrust(row, "it lies")  # type: ignore[union-attr]
        [evidence] = await store.read(EVIDENCE_OF_TASK, plan_id="p", task_id="draft")
        assert not evidence.fresh
        assert await system.read(VERIFICATIONS_OF, worker=liar.id) == []

    run(tmp_path, play)


def test_a_check_that_no_verifier_can_make_has_not_passed(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled(check={**SAYS, "red_first": "off"}))
        for name in ("one", "two", "three"):
            unable = await enrol(here, tmp_path, name)
            [given] = await unable.answer_trials()
            await here.ask(unable.id, checks=(CheckReport(lease=given.lease, fault="no space left"),), slots=0)
        await until_refused(here)

    run(tmp_path, play)


def test_an_answer_that_got_lost_and_a_verifier_that_starts_anew_change_nothing(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled())
        own = await enrol(here, tmp_path, "one")
        link = DirectLink(here, own.id, lost_answers=2)
        async with worker(tmp_path / "w", link, facts=own.facts, key=own.key, dies=True) as first:
            await until_checking(first)
        async with worker(tmp_path / "w", link, facts=own.facts, key=own.key):
            assert (await here.ended()).result == "done"

    run(tmp_path, play)


def test_a_verifier_that_does_not_reach_its_engine_ends_its_checks_by_its_own_clock(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    check = {"id": "says", "kind": "run", "run": f"echo $$ > {pid}; exec sleep 3600", "red_first": "off"}

    async def play(here: Fleet) -> None:
        await here.engine.submit(compiled(check=check))
        own = await enrol(here, tmp_path, "one")
        link = DirectLink(here, own.id)
        async with worker(tmp_path / "w", link, facts=own.facts, key=own.key, dies=True) as far:
            await until(lambda: pid.exists() and pid.read_text().strip())
            link.is_down = True
            far.clock.now += 3600
            await until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())

    run(tmp_path, play)


def test_a_pool_has_either_agents_or_verifiers(tmp_path: Path) -> None:
    async def play(here: Fleet) -> None:
        await here.enrol("one", pool="far")
        with pytest.raises(AgentTalkError) as error:
            await here.enrol("two", pool="far", role="verifier")
        assert error.value.code is Code.OPTION_INVALID
        two = await here.enrol("two", pool="verify", role="verifier")
        assert (await here.ask(two)).offers == ()

    run(tmp_path, play)


async def until_refused(here: Fleet) -> None:
    """Wait until a turn of the task has ended with a verdict that it is not done."""

    async def refused() -> bool:
        return any(turn.get("cause") for turn in (await explained(here))["attempts"])

    await eventually(refused)
    assert states(await now(here)) != {"draft": "COMPLETED"}


async def now(here: Fleet) -> PlanStanding:
    """How the plan stands at this moment."""
    return await here.engine.until(lambda _: True)


async def until_checking(far: Worker) -> None:
    """Wait until a verifier has a check."""
    await until(lambda: far.running.done() or any(each.checks for each in far.link.asked))
    assert not far.running.done(), far.running.exception()
