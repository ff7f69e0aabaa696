"""Reviews of DAGs: nothing of a plan begins before those who have to look at it have approved it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.validation import DecisionRecord
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.messages import published_files
from agenttalk.engine.people import questions
from agenttalk.engine.plans import dag_reviews
from agenttalk.engine.views import plan_status
from agenttalk.ports.statements.plans import RUN
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import R, Store
from kits.agentkit import Clock
from kits.plankit import PATIENCE, Engine, plan, play, states, task
from kits.standingkit import PlanStanding, explain_json, read_standing

REVIEW = {"reviewers": ["r1", "r2"]}
AGENTS = {name: {"driver": "python"} for name in ("r1", "r2", "lead")}


def reviewed(*tasks: dict[str, Any], **keys: Any) -> Any:
    agents = {**AGENTS, **keys.pop("agents", {})}
    return plan(*(tasks or (task("work"),)), agents=agents, **{"review": REVIEW, **keys})


def says(decision: str = "APPROVE", score: float = 90, seen: list[str] | None = None, **keys: Any) -> Any:
    """A reviewer."""

    async def review(turn: Turn) -> str:
        if seen is not None:
            [data] = turn.inputs["task_dag"].values()
            seen.append(data.decode())
        [output] = [each.output_name for each in turn.command.produces or ()]
        turn.outputs[output] = json.dumps({"score": score, "decision": decision, **keys})
        return "reviewed"

    return review


def decides(decision: str) -> Any:
    """A coordinator."""

    async def decide(turn: Turn) -> str:
        assert len(turn.inputs["reviews"]) == 2
        turn.outputs["decision_record.json"] = json.dumps({"decision": decision, "reason": "I weighed it"})
        return "decided"

    return decide


async def opened(engine: Engine) -> dag_reviews.DagReviewRecord:
    found = await dag_reviews.read_latest_committed(await board_of(engine.deps, "p"), "p")
    assert found is not None
    return found


def alerts(root: Path) -> set[str]:
    return {json.loads(each.read_text())["type"] for each in (root / "system_runtime/alerts/p").glob("*.json")}


def records(root: Path) -> list[DecisionRecord]:
    found = (root / "system_runtime/plans/p/decided").glob("*.json")
    read = [DecisionRecord.from_bytes(each.read_bytes()) for each in found]
    return sorted(read, key=lambda each: str(each.decided_at))


def run(root: Path, compiled: Any, **agents: Any) -> tuple[PlanStanding, dag_reviews.DagReviewRecord]:
    async def use(engine: Engine) -> tuple[PlanStanding, dag_reviews.DagReviewRecord]:
        await engine.submit(compiled)
        found = await engine.ended()
        await published_files.publish(engine.deps, await board_of(engine.deps, "p"))
        return found, await opened(engine)

    result: tuple[PlanStanding, dag_reviews.DagReviewRecord] = play(root, use, **agents)
    return result


def test_an_approved_dag_is_worked_on_and_nothing_began_before(tmp_path: Path) -> None:
    order: list[str] = []
    seen: list[str] = []

    async def work(_: Turn) -> str:
        order.append("work")
        return "ok"

    async def first(turn: Turn) -> Any:
        order.append("review")
        return await says(seen=seen)(turn)

    found, review = run(tmp_path, reviewed(), a=work, r1=first, r2=says())
    assert (found.result, states(found), order) == ("done", {"work": "COMPLETED"}, ["review", "work"])
    assert json.loads(seen[0])["nodes"][0]["task_id"] == "work"
    assert (review.state, [each["score"] for each in review.as_json()["reviews"]]) == ("approved", [90, 90])
    [record] = records(tmp_path)
    assert (record.decision_type, record.decision, record.decided_by_agent_id) == ("DAG_REVIEW", "APPROVE", "engine")
    assert record.subject.ref_sha256 == review.dag_sha256
    for name in record.evidence_files:
        assert (tmp_path / "system_runtime/plans/p/decided" / name).is_file()
    assert not (tmp_path / "system_runtime/alerts/p").exists()


@pytest.mark.parametrize(
    ("said", "decision", "why"),
    [
        ({"decision": "REVISE", "issues": ["no tests"]}, "REVISE", "r2 says REVISE: no tests"),
        ({"decision": "REJECT"}, "REJECT", "r2 says REJECT"),
        ({"score": 69}, "REVISE", "r2 gives 69; at least 70 is required"),
    ],
)
def test_who_is_not_content_holds_it_up(tmp_path: Path, said: dict[str, Any], decision: str, why: str) -> None:
    found, review = run(tmp_path, reviewed(), r1=says(), r2=says(**said))
    told = review.as_json()
    assert (found.result, states(found)) == ("waiting", {"work": "PENDING"})
    assert (told["state"], told["decision"]) == ("waits", decision)
    assert any(why in reason for reason in told["reasons"])
    assert alerts(tmp_path) == {"DAG_NOT_APPROVED"}


def test_a_new_revision_is_reviewed_again(tmp_path: Path) -> None:
    scores = [40, 95]

    async def strict(turn: Turn) -> Any:
        return await says(score=scores.pop(0))(turn)

    async def use(engine: Engine) -> tuple[dict[str, str], dag_reviews.DagReviewRecord]:
        await engine.submit(reviewed())
        assert (await engine.ended()).result == "waiting"
        assert len(await questions.list_open(engine.deps)) == 1
        better = reviewed(task("work", prompt="Do it well."))
        await engine.dispatcher.operator.apply(better.dag, better.manifest, better.profiles, by="ada")
        assert await questions.list_open(engine.deps) == []
        found = await engine.until(lambda found: found.result == "done")
        return states(found), await opened(engine)

    found, review = play(tmp_path, use, r1=says(), r2=strict)
    assert (found, review.state, review.revision) == ({"work": "COMPLETED"}, "approved", 2)


def test_what_was_approved_is_not_reviewed_again(tmp_path: Path) -> None:
    calls: list[str] = []

    async def once(turn: Turn) -> Any:
        calls.append(turn.plan_id)
        return await says()(turn)

    async def use(engine: Engine) -> None:
        await engine.submit(reviewed())
        await engine.ended()
        same = reviewed()
        await engine.dispatcher.operator.apply(same.dag, same.manifest, same.profiles, by="ada")
        assert (await engine.ended()).result == "done"

    play(tmp_path, use, r1=once, r2=says())
    assert len(calls) == 1


@pytest.mark.parametrize(("answer", "result"), [("APPROVE", "done"), ("REJECT", "failed")])
def test_a_person_may_decide_otherwise(tmp_path: Path, answer: str, result: str) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(reviewed())
        assert (await engine.ended()).result == "waiting"
        with pytest.raises(UsageError, match="not approved"):
            await engine.dispatcher.operator.resume("p", by="ada")
        told = await explain_json(engine.deps, "p", "work")
        [request] = await questions.list_open(engine.deps)
        assert request.request_id in told["moves_on"]
        await engine.answer(answer)
        await engine.until(lambda found: found.result == result)
        await published_files.publish(engine.deps, await board_of(engine.deps, "p"))

    play(tmp_path, use, r1=says(), r2=says("REVISE"))
    assert [each.decision for each in records(tmp_path)] == (
        ["REVISE", "APPROVE"] if answer == "APPROVE" else ["REVISE"]
    )


@pytest.mark.parametrize(
    ("default", "decision", "result"),
    [("APPROVE", "APPROVE", "done"), ("REJECT", "REJECT", "waiting"), (None, "REVISE", "waiting")],
)
def test_who_says_nothing_in_time_is_named(tmp_path: Path, default: str | None, decision: str, result: str) -> None:
    async def silent(_: Turn) -> str:
        await asyncio.sleep(600)
        return "too late"

    limit: dict[str, Any] = {"timeout_seconds": 60} | ({"default_decision": default} if default else {})
    compiled = reviewed(policies={"timeouts": {"dag_review": limit}})
    clock = Clock()

    async def use(engine: Engine) -> dag_reviews.DagReviewRecord:
        await engine.submit(compiled)
        await engine.until(lambda found: found.result == "running")
        async with asyncio.timeout(PATIENCE):
            while not await (await board_of(engine.deps, "p")).read(RUN, plan_id=(await opened(engine)).review_plan):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await engine.until(lambda found: "COMPLETED" in states(found).values(), (await opened(engine)).review_plan)
        clock.forward(61)
        engine.dispatcher.nudge()
        await engine.until(lambda found: found.result == result)
        await published_files.publish(engine.deps, await board_of(engine.deps, "p"))
        return await opened(engine)

    told = play(tmp_path, use, clock=clock, r1=says(), r2=silent).as_json()
    assert (told["decision"], told["missing"]) == (decision, ["r2"])
    assert "REVIEWERS_MISSING" in alerts(tmp_path)
    assert records(tmp_path)[0].missing_participants == ("r2",)


def test_a_default_is_not_milder_than_those_who_were_heard(tmp_path: Path) -> None:
    async def broken(_: Turn) -> str:
        raise ValueError("no")

    limit = {"timeout_seconds": 60, "default_decision": "APPROVE"}
    compiled = reviewed(policies={"timeouts": {"dag_review": limit}})
    found, review = run(tmp_path, compiled, r1=broken, r2=says("REJECT"))
    told = review.as_json()
    assert (found.result, told["decision"], told["missing"]) == ("waiting", "REJECT", ["r1"])


def coordinated(**keys: Any) -> Any:
    return reviewed(review={**REVIEW, "coordinator": "lead"}, **keys)


@pytest.mark.parametrize(
    ("decision", "scores", "ends"),
    [
        ("APPROVE", (90, 90), ("done", "APPROVE")),
        ("REJECT", (90, 90), ("waiting", "REJECT")),
        ("APPROVE", (90, 20), ("waiting", "REVISE")),
    ],
)
def test_a_coordinator_decides_but_not_below_the_least_score(
    tmp_path: Path, decision: str, scores: tuple[int, int], ends: tuple[str, str]
) -> None:
    agents = {"r1": says(score=scores[0]), "r2": says(score=scores[1]), "lead": decides(decision)}
    found, review = run(tmp_path, coordinated(), **agents)
    told = review.as_json()
    assert (found.result, told["decision"], told["decided_by"]) == (*ends, "lead")
    assert "lead: I weighed it" in told["reasons"]


def test_a_coordinator_may_overrule_a_reviewer_whose_score_is_enough(tmp_path: Path) -> None:
    found, review = run(tmp_path, coordinated(), r1=says("REVISE", 75), r2=says(), lead=decides("APPROVE"))
    assert (found.result, review.as_json()["decided_by"]) == ("done", "lead")


def test_a_review_of_another_dag_or_in_anothers_name_does_not_count(tmp_path: Path) -> None:
    other = {"file_name": "task_dag.json", "sha256": "sha256:" + "0" * 64}
    agents = {"r1": says(dag=other), "r2": says(reviewer_agent_id="r1")}
    found, review = run(tmp_path, reviewed(), **agents)
    told = review.as_json()
    assert (found.result, told["missing"]) == ("waiting", ["r1", "r2"])
    assert [reason for reason in told["reasons"] if "another DAG" in reason or "was written for r1" in reason] == told[
        "reasons"
    ][:2]


def test_programs_review_too(tmp_path: Path) -> None:
    """They find the DAG among their inputs, and leave what they think among their outputs."""
    path = tmp_path / "reviewer.py"
    path.write_text(
        "import json, os, pathlib\n"
        "command = json.loads(pathlib.Path(os.environ['AGENTTALK_COMMAND']).read_text())\n"
        "dag = pathlib.Path(os.environ['AGENTTALK_INPUTS'], 'task_dag', 'task_dag.json')\n"
        "score = 80 if len(json.loads(dag.read_text())['nodes']) == 1 else 10\n"
        "name = command['produces'][0]['output_name']\n"
        "said = json.dumps({'score': score, 'decision': 'APPROVE'})\n"
        "pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], name).write_text(said)\n"
    )
    agents: Mapping[str, Any] = {"r1": {"driver": "script", "argv": [sys.executable, str(path)]}}
    found, review = run(tmp_path / "root", reviewed(agents=agents), r2=says())
    assert (found.result, review.as_json()["reviews"][0]["score"]) == ("done", 80)


def test_calling_a_plan_off_ends_its_review(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def slow(_: Turn) -> str:
        began.set()
        await asyncio.sleep(600)
        return "never"

    async def use(engine: Engine) -> str:
        await engine.submit(reviewed())
        await began.wait()
        await engine.dispatcher.operator.cancel("p", by="ada")
        found = await opened(engine)
        assert (await read_standing(engine.deps, found.review_plan)).state == "ENDED"
        return found.state

    assert play(tmp_path, use, r1=slow, r2=says()) == "dropped"


def test_a_review_goes_on_after_a_restart(tmp_path: Path) -> None:
    began = asyncio.Event()

    async def slow(_: Turn) -> str:
        began.set()
        await asyncio.sleep(600)
        return "never"

    async def first(engine: Engine) -> None:
        await engine.submit(reviewed())
        await began.wait()

    async def then(engine: Engine) -> PlanStanding:
        return await engine.until(lambda found: found.result == "done")

    play(tmp_path, first, r1=slow, r2=says())
    assert states(play(tmp_path, then, r1=says(), r2=says())) == {"work": "COMPLETED"}


class Interrupted:
    """A store in which something happens between two things that are read."""

    def __init__(self, store: Store, before: str, happens: Callable[[], Awaitable[None]]) -> None:
        self._store, self._before, self._happens, self.name = store, before, happens, store.name

    async def read(self, query: Statement[R], **params: Any) -> list[R]:
        if query.name == self._before:
            self._before = ""
            await self._happens()
        return await self._store.read(query, **params)


@pytest.mark.parametrize("before", ["latest_review", "activity", "run", "task_statuses"])
def test_a_plan_whose_review_ends_while_it_is_looked_at_is_not_taken_for_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    gate = asyncio.Event()

    async def slow(_: Turn) -> str:
        await gate.wait()
        return "ok"

    async def use(engine: Engine) -> None:
        await engine.submit(reviewed())
        assert (await engine.ended()).result == "waiting"
        store = await board_of(engine.deps, "p")

        async def approve() -> None:
            await engine.answer("APPROVE")
            async with asyncio.timeout(PATIENCE):
                while (await store.read(RUN, plan_id="p"))[0][0] != "RUNNING":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        async def interrupted(*_: Any) -> Any:
            return Interrupted(store, before, approve)

        with monkeypatch.context() as patch:
            patch.setattr(plan_status, "board_of", interrupted)
            found = await read_standing(engine.deps, "p")
        assert found.result == "running"
        gate.set()
        await engine.until(lambda found: found.result == "done")

    play(tmp_path, use, a=slow, r1=says(), r2=says("REVISE"))
