"""Plans in which little goes as it should: nothing is lost, nothing is called done by mistake, nobody waits for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.engine.messages import published_files
from agenttalk.engine.people import questions
from kits.plankit import Engine, fine, plan, play, states, task
from kits.standingkit import PlanStanding, explain_json
from kits.treekit import Tree


async def broken(_: Turn) -> str:
    raise ValueError("no")


async def results(engine: Engine, root: Path) -> dict[str, str]:
    """What lies among the results of the plan."""
    await published_files.publish(engine.deps, await engine.deps.stores.board("default"))
    folder = root / "system_runtime/artifacts/p"
    return {str(each.relative_to(folder)): each.read_text() for each in folder.rglob("*") if each.is_file()}


def scored(name: str, *scores: int) -> Any:
    """An agent whose work gets one score after the other, and says so in an output."""
    left = list(scores)

    async def work(turn: Turn) -> Result:
        score = left.pop(0)
        for each in turn.command.produces or ():
            turn.outputs[each.output_name] = f"{name} {score}"
        return Result("ok", score=score, score_explanation="so")

    return work


@pytest.mark.shows("X13")
def test_whoever_wants_another_plan_does_not_have_the_task_run_without_it(tmp_path: Path) -> None:
    ran: list[str] = []
    tasks = [task("bad", "x"), task("next", "b", needs=["bad"], on_dependency_failed="REPLAN_REQUEST")]

    async def next_one(turn: Turn) -> str:
        ran.append(turn.task_id)
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks))
        first = (await engine.ended()).tasks[1]["request_id"]
        await engine.answer("PROVIDE", answers=["replan"])
        found = await engine.until(lambda now: now.tasks[1]["request_id"] != first)
        assert (states(found)["next"], ran) == ("BLOCKED_WAITING_HUMAN", [])
        assert "plan apply" in (found.tasks[1]["reason"] or "")
        engine.agents["x"] = fine
        revised = plan(task("bad", "x", timeout=77), tasks[1])
        await engine.dispatcher.operator.apply(revised.dag, revised.manifest, revised.profiles, by="ada")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert await questions.list_open(engine.deps) == []
        return found

    found = play(tmp_path, use, x=broken, b=next_one)
    assert (found.result, ran) == ("done", ["next"])


@pytest.mark.parametrize("said", [{"answers": ["giveup"]}, {"notes": "rather not"}, {"answers": ["run", "skip"]}])
def test_an_answer_that_chooses_nothing_that_is_offered_moves_nothing(tmp_path: Path, said: dict[str, Any]) -> None:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("bad", "x"), task("next", "b", needs=["bad"])))
        await engine.ended()
        with pytest.raises(UsageError, match="is not answered") as refused:
            await engine.answer("PROVIDE", **said)
        assert "answer one of: run, skip, give up" in refused.value.hint
        await engine.dispatcher.wait_for_dispatch()
        assert states(await engine.ended())["next"] == "BLOCKED_WAITING_REVIEW"
        await engine.answer("PROVIDE", answers=["give up"])
        return await engine.until(lambda now: now.state == "ENDED")

    assert states(play(tmp_path, use, x=broken)) == {"bad": "FAILED", "next": "FAILED"}


@pytest.mark.parametrize("how", ["retry", "apply", "cancel"])
def test_nobody_is_asked_about_a_task_that_goes_on_without_the_answer(tmp_path: Path, how: str) -> None:
    tasks = [task("bad", "x"), task("next", "b", needs=["bad"])]

    async def use(engine: Engine) -> list[questions.HumanQuestion]:
        await engine.submit(plan(*tasks))
        await engine.ended()
        assert len(await questions.list_open(engine.deps)) == 1
        engine.agents["x"] = fine
        if how == "retry":
            await engine.dispatcher.operator.retry("p", "bad", by="ada")
        elif how == "apply":
            revised = plan(task("bad", "x", timeout=77), tasks[1])
            await engine.dispatcher.operator.apply(revised.dag, revised.manifest, revised.profiles, by="ada")
        else:
            await engine.dispatcher.operator.cancel("p", by="ada")
        found = await engine.until(lambda now: now.state == "ENDED")
        assert found.tasks[1]["request_id"] is None
        return await questions.list_open(engine.deps)

    assert play(tmp_path, use, x=broken) == []


def test_nobody_is_asked_for_more_rounds_of_what_is_tried_again(tmp_path: Path) -> None:
    async def use(engine: Engine) -> list[questions.HumanQuestion]:
        await engine.submit(plan(task("one", "x", max_reexecute_times=0, outputs=[{"name": "o", "deliverable": True}])))
        await engine.ended()
        assert len(await questions.list_open(engine.deps)) == 1
        engine.agents["x"] = fine
        await engine.dispatcher.operator.retry("p", "one", by="ada")
        assert (await engine.until(lambda now: now.state == "ENDED")).result == "done"
        return await questions.list_open(engine.deps)

    async def lazy(_: Turn) -> str:
        return "all done"

    assert play(tmp_path, use, x=lazy) == []


JUDGED = task(
    "judge",
    score_required=True,
    outputs=[{"name": "verdict.md", "deliverable": True}],
    gates={"thresholds": {"judge_min_score": 70}},
)
"""A task whose result is one of the plan's only if it is good enough."""


def test_a_result_is_there_when_its_gate_was_met_at_the_second_try(tmp_path: Path) -> None:
    async def use(engine: Engine) -> dict[str, str]:
        await engine.submit(plan(JUDGED))
        await engine.ended()
        await engine.answer("PROVIDE", answers=["retry"])
        assert (await engine.until(lambda now: now.state == "ENDED")).result == "done"
        return await results(engine, tmp_path)

    assert play(tmp_path, use, a=scored("verdict", 60, 80)) == {"judge/verdict.md/verdict.md": "verdict 80"}


@pytest.mark.parametrize("said", ["give up", "retry"])
def test_what_did_not_pass_its_gate_is_no_result_of_the_plan(tmp_path: Path, said: str) -> None:
    async def use(engine: Engine) -> dict[str, str]:
        await engine.submit(plan(JUDGED))
        await engine.ended()
        engine.agents["a"] = broken
        await engine.answer("PROVIDE", answers=[said])
        assert states(await engine.until(lambda now: now.state == "ENDED")) == {"judge": "FAILED"}
        return await results(engine, tmp_path)

    assert play(tmp_path, use, a=scored("verdict", 60)) == {}


@pytest.mark.parametrize("how", ["retry", "apply"])
def test_what_is_out_of_date_is_no_result_of_the_plan(tmp_path: Path, how: str) -> None:
    outputs = [{"name": "good.md", "deliverable": True, "when": "score >= 50"}]
    outputs.append({"name": "bad.md", "deliverable": True, "when": "score < 50"})
    keys: dict[str, Any] = {"score_required": True, "outputs": outputs}
    one, two = task("one", **keys), task("two", "b", outputs=[{"name": "two.md", "deliverable": True}])

    async def work(turn: Turn) -> Result:
        score = 80 if turn.command.command_seq == 1 else 20
        turn.outputs["good.md" if score == 80 else "bad.md"] = str(score)
        return Result("ok", score=score, score_explanation="so")

    async def use(engine: Engine) -> dict[str, str]:
        await engine.submit(plan(one, two))
        await engine.until(lambda now: now.state == "ENDED")
        assert await results(engine, tmp_path) == {"one/good.md/good.md": "80", "two/two.md/two.md": "two/two.md"}
        if how == "retry":
            await engine.dispatcher.operator.retry("p", "one", by="ada", onwards=True)
        else:
            revised = plan({**one, "timeout": 77})
            await engine.dispatcher.operator.apply(revised.dag, revised.manifest, revised.profiles, by="ada")
        await engine.until(lambda now: now.state == "ENDED")
        return await results(engine, tmp_path)

    kept = {"two/two.md/two.md": "two/two.md"} if how == "retry" else {}
    assert play(tmp_path, use, a=work) == {"one/bad.md/bad.md": "20", **kept}


@pytest.mark.shows("X16")
@pytest.mark.parametrize("need", [{"from": "note.md", "pick": "all"}, {"glob": "note*.md"}])
def test_files_of_one_name_from_two_tasks_are_both_given(tmp_path: Path, need: dict[str, str]) -> None:
    seen: dict[str, Any] = {}

    async def join(turn: Turn) -> str:
        seen.update(turn.inputs["notes"])
        return "joined"

    async def use(engine: Engine) -> PlanStanding:
        makers = [task(f"part{n}", f"p{n}", outputs=[{"name": "note.md"}]) for n in range(2)]
        await engine.submit(
            plan(*makers, task("join", "j", needs=["part0", "part1"], inputs=[{"name": "notes", **need}]))
        )
        return await engine.ended()

    assert play(tmp_path, use, j=join).result == "done"
    assert seen == {f"part{n}/note.md/note.md": f"part{n}/note.md".encode() for n in range(2)}


def test_an_input_that_several_make_and_nobody_names_arrives_all_the_same(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    async def take(turn: Turn) -> str:
        seen.append(sorted(turn.inputs["notes"]))
        return "taken"

    async def use(engine: Engine) -> PlanStanding:
        makers = [task(f"part{n}", f"p{n}", outputs=[{"name": f"n{n}.md", "deliver_to": ["t"]}]) for n in range(2)]
        await engine.submit(plan(*makers, task("take", "t", inputs=[{"name": "notes", "glob": "n*.md"}])))
        return await engine.ended()

    assert play(tmp_path, use, t=take).result == "done"
    assert seen == [["n0.md", "n1.md"]]


def test_no_more_tasks_of_a_plan_run_at_once_than_it_says(tmp_path: Path) -> None:
    at_work: set[str] = set()
    most: list[int] = []
    go = asyncio.Event()

    async def work(turn: Turn) -> str:
        if turn.plan_id == "p":
            at_work.add(turn.task_id)
            most.append(len(at_work))
            await go.wait()
            await asyncio.sleep(0)
            at_work.discard(turn.task_id)
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        names = [f"w{number}" for number in range(12)]
        engine.agents.update(dict.fromkeys(names, work))
        tasks = [task(f"{kind}_{name}", name) for name in names for kind in ("one", "two")]
        await engine.submit(plan(*tasks, limits={"max_running": 2}))
        await engine.until(lambda _: len(at_work) == 2)
        await engine.submit(plan(*(task(f"other_{name}", name) for name in names[2:]), plan_id="other"))
        assert (await engine.until(lambda now: now.state == "ENDED", "other")).result == "done", (
            "others are not held up"
        )
        go.set()
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use, max_running=40).result == "done"
    assert max(most) == 2


@pytest.mark.parametrize("how", ["resume", "retry"])
def test_what_somebody_does_by_hand_outlasts_a_pause(tmp_path: Path, how: str) -> None:
    async def use(engine: Engine) -> PlanStanding:
        by_hand = task("draft", "writer", outputs=[{"name": "draft.md", "deliver_to": ["b"]}])
        await engine.submit(
            plan(by_hand, task("other"), agents={"writer": {"driver": "folder"}, "b": {"driver": "python"}})
        )
        tree = Tree(tmp_path, plan_id="p")
        tree.agent("writer")
        tree.agent("b")
        await engine.until(lambda now: states(now) == {"draft": "READY", "other": "COMPLETED"})
        await engine.route()
        if how == "resume":
            assert await engine.dispatcher.operator.pause("p", by="ada")
            assert await engine.dispatcher.operator.resume("p", by="ada")
        else:
            await engine.dispatcher.operator.retry("p", "other", by="ada", onwards=True)
        await engine.dispatcher.wait_for_dispatch()
        found = await engine.until(lambda now: now.result != "running")
        assert (states(found)["draft"], tree.inbox("writer")) == ("READY", ["cmd_draft_001.msg.json"])
        tree.artifact("writer", "draft", "draft.md", {"draft.md": b"Once."}, message_id="m1")
        await engine.route()
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use).result == "done"


async def moves_on(engine: Engine, task_id: str) -> str:
    """What is said to move a task on."""
    return str((await explain_json(engine.deps, "p", task_id))["moves_on"])


@pytest.mark.shows("E12")
def test_it_is_said_what_really_moves_a_task_on(tmp_path: Path) -> None:
    people = {"ann": {"driver": "human"}}
    waits = task("waits", "b", needs=["ask"])
    lost = task("lost", "b", needs=["bad"], on_dependency_failed="SKIP")

    async def first(engine: Engine) -> None:
        await engine.submit(plan(task("ask", "ann"), task("bad", "x"), waits, lost, agents=people))
        await engine.until(lambda now: states(now)["lost"] == "SKIPPED")
        await engine.asked()
        assert "agenttalk inbox" in await moves_on(engine, "ask")
        assert "is tried again" in await moves_on(engine, "lost")
        assert "by itself" in await moves_on(engine, "waits")
        await engine.dispatcher.operator.pause("p", by="ada")
        assert "agenttalk resume p" in await moves_on(engine, "waits")

    async def second(engine: Engine) -> None:
        await engine.dispatcher.wait_for_dispatch()
        assert "agenttalk inbox" in await moves_on(engine, "ask"), "also when nobody runs it"

    play(tmp_path, first, x=broken)
    play(tmp_path, second)


def test_a_disk_that_is_full_is_told_in_our_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        async def perform(self, _: Any) -> Any:
            raise MachineError(Code.FILE_UNWRITABLE, "cannot write 'x': No space left on device", hint="make room")

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one", "x"), agents={"x": {"driver": "script", "argv": ["true"]}}))
        return await engine.ended()

    found = play(tmp_path, use, performers={"script": Full()})
    assert found.tasks[0]["reason"] == "cannot write 'x': No space left on device; make room"
    assert not any(each.exc_info for each in caplog.records)
