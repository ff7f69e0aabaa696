"""Gates at the checkpoints: what they hold up, who continues it, and that every decision can be found again."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import ContractError, UsageError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation import fsck
from agenttalk.engine.people import questions
from agenttalk.engine.plans import submission
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.wiring import open_root
from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import PlanStanding, explain_json

OVERLAP = {"allowedScope": ["src/**"], "disallowedScope": ["src/**"]}
"""What `pre-plan` wants an operator's word for."""
WORDS = "disallowedScope: allowed and disallowed at once: src/**"


def promise(**keys: Any) -> dict[str, Any]:
    """A promise that an answer fulfils."""
    shown = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
    return {"objective": "It is done", "acceptance": shown, **keys}


async def facts(deps: Deps, kind: str, subject: str = "deliveries/p") -> list[dict[str, Any]]:
    store = await deps.stores.board("default")
    rows = await store.read(FACTS_OF, subject=subject, after=0, limit=100)
    return [json.loads(bytes(body)) for _, _, each, body in rows if each == kind]


def of(found: PlanStanding, task_id: str) -> Any:
    [each] = [each for each in found.tasks if each["task_id"] == task_id]
    return each


def test_a_plain_task_is_recorded_without_a_word_about_gates(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a")))
        await engine.ended()
        [submitted] = await facts(engine.deps, "plan.submitted", "p")
        [started] = await facts(engine.deps, "turn.started")
        [ended] = await facts(engine.deps, "turn.ended")
        assert not {"gates", "promise_id"} & {*submitted, *started, *ended}
        assert set(started) == {
            *("message_id", "lease", "epoch", "attempt", "prompt_sha256", "inputs", "lines"),
        }

    play(tmp_path, use)


@pytest.mark.shows("P10", "P14")
def test_plan_command_turn_and_verdict_refer_to_one_promise_and_every_decision_has_a_trace(tmp_path: Path) -> None:
    seen: list[str] = []

    async def work(turn: Turn) -> str:
        assert turn.command.promise is not None
        seen.append(turn.command.promise.id)
        return "ok" if len(seen) > 1 else ""

    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(abortWhen=[])), task("b", "b")))
        assert (await engine.ended()).result == "done"
        told = await explain_json(engine.deps, "p", "a")
        plain = await explain_json(engine.deps, "p", "b")
        started = [each for each in await facts(engine.deps, "turn.started") if "promise_id" in each]
        ended = [each for each in await facts(engine.deps, "turn.ended") if "promise_id" in each]
        assert {*seen, *(each["promise_id"] for each in (*started, *ended))} == {told["promised"]["id"]}
        assert [each["verdict"]["promise_id"] for each in ended] == seen
        for begun, over in zip(started, ended, strict=True):
            lease = begun["lease"]
            assert [each["trace_id"] for each in over["gates"]] == [
                f"{lease}:{checkpoint}" for checkpoint in ("pre-plan", "pre-act", "post-act")
            ]
            assert begun["gates"] == over["gates"][:2]
        assert [turn["gates"] for turn in told["attempts"]] == [each["gates"] for each in ended]
        assert told["attempts"][0]["gates"][0]["severity"] == "warning"
        assert plain["verdict"]["promise_id"] == plain["promised"]["id"]
        assert plain["promised"]["id"].startswith("cp-")

    play(tmp_path, use, a=work)
    assert len(set(seen)) == 1


@pytest.mark.shows("P10")
def test_a_promise_that_nobody_wrote_has_one_id_from_plan_to_verdict(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", retry_times=1)))
        await engine.ended()
        [ended] = await facts(engine.deps, "turn.ended")
        told = await explain_json(engine.deps, "p", "a")
        assert ended["verdict"]["promise_id"] == told["promised"]["id"]

    play(tmp_path, use)


@pytest.mark.shows("P08")
@pytest.mark.parametrize(
    ("checkpoint", "result"),
    [("pre-plan", "done"), ("pre-act", "done"), ("post-act", "done"), ("pre-verify", "failed"), ("pre-ship", "failed")],
)
def test_a_promise_may_ask_for_checkpoints_that_allowed_it(tmp_path: Path, checkpoint: str, result: str) -> None:
    """Nothing is verified here, and nothing shipped: those have no result, and that is not a yes."""
    asked = [{"type": "gate-passed", "target": checkpoint}]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("a", promise=promise(doneWhen=asked), max_reexecute_times=0)))
        return await engine.ended()

    found: PlanStanding = play(tmp_path, use)
    assert found.result == result
    assert result == "done" or of(found, "a")["reason"] == f"checkpoint '{checkpoint}' has no result"


@pytest.mark.shows("P08")
def test_work_that_is_checked_passes_the_checkpoint_before_it(tmp_path: Path) -> None:
    asked = promise(
        doneWhen=[{"type": "gate-passed", "target": each} for each in ("post-act", "pre-verify")],
        checks=[{"id": "there", "kind": "file", "path": "a.md"}],
        requiredEvidence=["there"],
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("a", promise=asked, outputs=[{"name": "a.md", "deliverable": True}])))
        return await engine.ended()

    assert play(tmp_path, use, proving=True).result == "done"


def test_outputs_that_are_not_there_are_held_against_the_turn(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        if turn.command.command_seq > 1:
            turn.outputs["a.md"] = "text"
        return "ok"

    async def use(engine: Engine) -> list[dict[str, Any]]:
        await engine.submit(plan(task("a", promise=promise(), outputs=[{"name": "a.md", "deliverable": True}])))
        await engine.ended()
        return await facts(engine.deps, "turn.ended")

    first = play(tmp_path, use, a=work)[0]
    assert first["gates"][-1] == {
        "checkpoint": "post-act",
        "allowed": False,
        "severity": "soft-deny",
        "reasons": ["the output 'a.md' is not there"],
        "reasons_messages": [{"id": "task.output_absent", "params": {"name": "a.md"}}],
        "trace_id": f"{first['lease']}:post-act",
    }


@pytest.mark.parametrize("way", ["override", "answer", "approve"])
def test_an_operator_lets_a_task_begin_that_a_checkpoint_holds_up(tmp_path: Path, way: str) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP)), task("b", "b", needs=["a"])))
        found = await engine.ended()
        assert (found.result, of(found, "a")["state"]) == ("waiting", "BLOCKED_WAITING_REVIEW")
        assert (of(found, "a")["reason"], of(found, "a")["cause"]) == (WORDS, "SOFT_DENIED")
        [request] = await questions.list_open(engine.deps)
        assert of(found, "a")["request_id"] == request.request_id
        assert await fsck.check_root(engine.deps) == []
        if way == "override":
            told = await engine.dispatcher.operator.override(
                "p", "a", checkpoint="pre-plan", by="ada", why="on purpose"
            )
            assert told["reasons"] == [WORDS]
        elif way == "answer":
            await engine.answer("PROVIDE", answers=["override"], notes="on purpose")
        else:
            await engine.answer("APPROVE", notes="on purpose")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert states(found) == {"a": "COMPLETED", "b": "COMPLETED"}
        [fact] = await facts(engine.deps, "gate.overridden", "p/a")
        assert (fact["by"], fact["why"], fact["reasons"]) == ("ada", "on purpose", [WORDS])
        shown = await explain_json(engine.deps, "p", "a")
        assert [each["overridden_by"] for each in shown["gates"]] == ["ada"]
        assert fact["trace_id"] in [each["trace_id"] for each in shown["gates"]]
        assert shown["attempts"][0]["gates"][0]["reasons"] == [f"overridden: {WORDS}"]
        assert await questions.list_open(engine.deps) == []

    play(tmp_path, use)


def test_an_operator_may_also_say_no_and_what_is_neither_decides_nothing(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP))))
        held = of(await engine.ended(), "a")
        assert (held["state"], held["reason"]) == ("BLOCKED_WAITING_REVIEW", WORDS)
        with pytest.raises(UsageError, match="nothing is chosen"):
            await engine.answer("PROVIDE", notes="hm")
        assert of(await engine.ended(), "a") == held
        await engine.answer("PROVIDE", answers=["give up"])
        assert states(await engine.until(lambda now: now.state == "ENDED")) == {"a": "FAILED"}

    play(tmp_path, use)


def test_an_override_is_good_for_its_reasons_alone_also_after_a_new_start(tmp_path: Path) -> None:
    async def wrong(_: Turn) -> str:
        raise ValueError("no")

    async def first(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP))))
        await engine.ended()
        await engine.dispatcher.operator.override("p", "a", checkpoint="pre-plan", by="ada", why="on purpose")
        assert states(await engine.until(lambda now: now.state == "ENDED")) == {"a": "FAILED"}

    async def second(engine: Engine) -> None:
        await engine.dispatcher.operator.retry("p", "a", by="ada")
        assert states(await engine.until(lambda now: now.state == "ENDED")) == {"a": "FAILED"}  # it was not held up
        wider = {"allowedScope": ["src/**", "doc"], "disallowedScope": ["src/**", "doc"]}
        revised = plan(task("a", promise=promise(**wider)))
        await engine.dispatcher.operator.apply(revised.dag, revised.manifest, revised.profiles, by="ada")
        found = await engine.ended()
        assert (of(found, "a")["state"], of(found, "a")["cause"]) == ("BLOCKED_WAITING_REVIEW", "SOFT_DENIED")
        assert len(await facts(engine.deps, "gate.overridden", "p/a")) == 1

    play(tmp_path, first, a=wrong)
    play(tmp_path, second, a=wrong)


@pytest.mark.parametrize(
    ("task_id", "checkpoint", "words"),
    [
        ("a", "pre-act", "is held up at pre-plan"),
        ("b", "pre-plan", "no checkpoint holds b up"),
        ("x", "pre-act", "no task"),
    ],
)
def test_only_what_is_held_up_there_can_be_overridden(
    tmp_path: Path, task_id: str, checkpoint: str, words: str
) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP)), task("b", "b")))
        await engine.ended()
        with pytest.raises(UsageError, match=words):
            await engine.dispatcher.operator.override("p", task_id, checkpoint=checkpoint, by="ada", why="on purpose")
        assert await facts(engine.deps, "gate.overridden", "p/a") == []

    play(tmp_path, use)


def test_an_answer_that_came_while_no_engine_ran_is_found_by_the_next_one(tmp_path: Path) -> None:
    async def hold(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP))))
        await engine.ended()

    async def answer() -> None:
        async with open_root(tmp_path) as deps:
            [request] = await questions.list_open(deps)
            await questions.answer(deps, request.request_id, by="ada", decision="APPROVE", notes="on purpose")

    async def go_on(engine: Engine) -> PlanStanding:
        return await engine.until(lambda now: now.state == "ENDED")

    play(tmp_path, hold)
    asyncio.run(answer())
    assert states(play(tmp_path, go_on)) == {"a": "COMPLETED"}


def test_what_a_turn_used_when_the_engine_stopped_is_not_forgotten(tmp_path: Path) -> None:
    tries: list[int] = []

    async def work(turn: Turn) -> str:
        tries.append(turn.attempt)
        turn.report(tokens=60)
        if len(tries) == 1:
            await asyncio.Event().wait()
        return "ok"

    async def begin(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(budget={"tokens": 100}))))
        await engine.until(lambda _: bool(tries))

    async def go_on(engine: Engine) -> PlanStanding:
        return await engine.until(lambda now: now.state == "ENDED")

    play(tmp_path, begin, a=work)
    found: PlanStanding = play(tmp_path, go_on, a=work)
    assert of(found, "a")["reason"] == "budget-exhausted: 120 tokens of the task's budget of 100 tokens"
    assert of(found, "a")["usage"]["tokens"] == 120


def test_what_holds_one_task_up_does_not_hold_up_the_next_of_its_agent(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP), priority="HIGH"), task("b"), task("c")))
        return await engine.ended()

    assert states(play(tmp_path, use)) == {"a": "BLOCKED_WAITING_REVIEW", "b": "COMPLETED", "c": "COMPLETED"}


def test_a_task_that_is_held_up_can_be_stopped(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("a", promise=promise(**OVERLAP))))
        await engine.ended()
        await engine.dispatcher.operator.abort("p", "a", by="ada", why="not this way")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert of(found, "a")["reason"] == "user-aborted: stopped by ada: not this way"

    play(tmp_path, use)


@pytest.mark.shows("P04", "P05")
@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"objective": " "}, "objective"),
        ({"acceptance": ()}, "acceptance"),
        ({"id": "mine"}, "cp-"),
    ],
)
def test_a_plan_with_a_promise_that_is_worth_nothing_is_refused_as_a_whole(
    tmp_path: Path, said: dict[str, Any], word: str
) -> None:
    good = plan(task("a", promise=promise()), task("b", "b"))
    node = good.dag.nodes[0]
    assert node.promise is not None
    bad = node.promise.model_copy(update=said)
    dag = good.dag.model_copy(update={"nodes": (node.model_copy(update={"promise": bad}), good.dag.nodes[1])})

    async def submit() -> None:
        async with open_root(tmp_path) as deps:
            with pytest.raises(ContractError, match=word):
                await submission.submit(deps, dag, good.manifest, good.profiles)
            with pytest.raises(UsageError):
                await explain_json(deps, "p", "a")

    (tmp_path / "agents").mkdir()
    asyncio.run(submit())


def test_limits_under_which_nothing_could_run_are_refused(tmp_path: Path) -> None:
    good = plan(task("a"), limits={"cost_usd": 5})
    assert good.manifest.limits is not None
    none = good.manifest.model_copy(update={"limits": good.manifest.limits.model_copy(update={"cost_usd": 0})})

    async def use(engine: Engine) -> None:
        with pytest.raises(ContractError, match=r"limits\.cost_usd"):
            await submission.submit(engine.deps, good.dag, none, good.profiles)

    play(tmp_path, use)


def test_what_was_noticed_before_the_plan_is_told_with_it(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        compiled = plan(
            task("a", promise=promise(doneWhen=[], budget={"tokens": 90})), task("b", "b"), limits={"tokens": 50}
        )
        await engine.submit(compiled)
        found = await engine.ended()
        [submitted] = await facts(engine.deps, "plan.submitted", "p")
        assert [(each.get("task_id"), each["severity"]) for each in submitted["gates"]] == [
            (None, ""),
            ("a", "warning"),
        ]
        assert submitted["gates"][0]["trace_id"] == "p@1:pre-plan"
        return found

    found: PlanStanding = play(tmp_path, use)
    assert found.result == "done"
    assert [(each["task_id"], each["checkpoint"], each["allowed"]) for each in found.gates] == [("a", "pre-plan", True)]
    assert len(found.gates[0]["reasons"]) == 2
