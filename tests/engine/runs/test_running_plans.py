"""Plans that the engine runs, from submission to their end, with functions as agents."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.human import ReplanRequest
from agenttalk.engine.core.task_status import describe_status
from agenttalk.engine.messages import dead_letters, published_files
from agenttalk.engine.people import questions
from agenttalk.engine.runs.dispatcher import POLL
from agenttalk.ports.statements.core import TaskStatusRow
from agenttalk.rules.planfile.compiler import CompiledPlan
from kits.plankit import Engine, fine, plan, play, states, task
from kits.standingkit import PlanStanding
from kits.treekit import Tree

TEXT = {"name": "text.md", "deliverable": True}


def run(root: Path, compiled: Any, **agents: Any) -> PlanStanding:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended(compiled.dag.plan_id)

    found: PlanStanding = play(root, use, **agents)
    return found


def test_outputs_travel_to_whoever_needs_them(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def join(turn: Turn) -> None:
        seen.update({name: dict(files) for name, files in turn.inputs.items()})

    compiled = plan(
        task("one", "a", outputs=[{"name": "one.md"}]),
        task("two", "b", outputs=[{"name": "two.md"}]),
        task("join", "c", inputs=[{"name": "first", "from": "one.md"}, {"name": "second", "from": "two.md"}]),
    )

    async def join_and_say(turn: Turn) -> str:
        await join(turn)
        return "joined"

    found = run(tmp_path, compiled, c=join_and_say)
    assert found.result == "done"
    assert seen == {"first": {"one.md": b"one/one.md"}, "second": {"two.md": b"two/two.md"}}


def test_an_agent_works_on_one_task_at_a_time_and_agents_side_by_side(tmp_path: Path) -> None:
    at_work: dict[str, int] = {}
    most: dict[str, int] = {}
    together: set[frozenset[str]] = set()
    both = asyncio.Event()

    async def work(turn: Turn) -> str:
        name = turn.task_id[0]
        at_work[name] = at_work.get(name, 0) + 1
        most[name] = max(most.get(name, 0), at_work[name])
        busy = frozenset(each for each, count in at_work.items() if count)
        together.add(busy)
        if len(busy) > 1:
            both.set()
        await asyncio.wait_for(both.wait(), 10)
        at_work[name] -= 1
        return "ok"

    compiled = plan(task("a1", "a"), task("a2", "a"), task("b1", "b"), task("b2", "b"))
    assert run(tmp_path, compiled, a=work, b=work).result == "done"
    assert most == {"a": 1, "b": 1}
    assert frozenset("ab") in together


def test_the_urgent_comes_first(tmp_path: Path) -> None:
    order: list[str] = []

    async def work(turn: Turn) -> str:
        order.append(turn.task_id)
        return "ok"

    compiled = plan(task("x_low", priority="LOW"), task("y_mid"), task("z_high", priority="HIGH"))
    run(tmp_path, compiled, a=work)
    assert order.index("z_high") < order.index("y_mid") < order.index("x_low") or order[0] == "x_low"


SCORED = {"score_required": True, "score_criteria": "0-100"}
GATES = {
    "required": True,
    "thresholds": {"judge_min_score": 70},
    "branches": [{"when": "score < 50", "activate": ["again"]}],
}


@pytest.mark.shows("X14")
@pytest.mark.parametrize(
    ("score", "result", "judged", "again", "after"),
    [
        (80, "done", "COMPLETED", "SKIPPED", "COMPLETED"),
        (40, "done", "COMPLETED", "COMPLETED", "COMPLETED"),
        (60, "waiting", "BLOCKED_WAITING_REVIEW", "PENDING", "PENDING"),
    ],
)
def test_a_score_chooses_the_way(tmp_path: Path, score: int, result: str, judged: str, again: str, after: str) -> None:
    async def judge(turn: Turn) -> Result:
        assert turn.task_id == "judge"
        return Result("seen", score=score)

    compiled = plan(
        task("judge", "j", gates=GATES, **SCORED),
        task("again", "b", needs=["judge"]),
        task("after", "c", needs=["judge"]),
    )
    found = run(tmp_path, compiled, j=judge)
    assert (found.result, states(found)) == (result, {"judge": judged, "again": again, "after": after})


@pytest.mark.shows("X14")
def test_a_score_chooses_among_outputs(tmp_path: Path) -> None:
    async def judge(turn: Turn) -> Result:
        turn.outputs["good.md"] = "good"
        return Result("seen", score=90)

    outputs = [{**TEXT, "name": "good.md", "when": "score >= 70"}, {**TEXT, "name": "bad.md", "when": "score < 70"}]
    found = run(tmp_path, plan(task("judge", "j", outputs=outputs, **SCORED)), j=judge)
    assert found.result == "done"


async def broken(turn: Turn) -> str:
    raise ValueError(f"no {turn.task_id}")


@pytest.mark.shows("X13")
def test_what_depends_on_a_failure_is_skipped_if_it_says_so(tmp_path: Path) -> None:
    compiled = plan(
        task("bad", "x"),
        task("next", "b", needs=["bad"], on_dependency_failed="SKIP"),
        task("last", "c", needs=["next"], on_dependency_failed="SKIP"),
        task("other", "d"),
    )
    found = run(tmp_path, compiled, x=broken)
    assert found.result == "failed"
    assert states(found) == {"bad": "FAILED", "next": "SKIPPED", "last": "SKIPPED", "other": "COMPLETED"}
    [bad] = [each for each in found.tasks if each["task_id"] == "bad"]
    assert bad["reason"] == "ValueError: no bad"


@pytest.mark.shows("X13")
@pytest.mark.parametrize(
    ("decision", "answers", "ends"),
    [("APPROVE", ["run"], "COMPLETED"), ("PROVIDE", ["skip"], "SKIPPED"), ("REJECT", [], "FAILED")],
)
def test_what_is_blocked_by_a_failure_waits_for_a_person(
    tmp_path: Path, decision: str, answers: list[str], ends: str
) -> None:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("bad", "x"), task("next", "b", needs=["bad"])))
        found = await engine.ended()
        assert states(found)["next"] == "BLOCKED_WAITING_REVIEW"
        assert found.result == "failed"
        await engine.answer(decision, answers=answers)
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, x=broken)
    assert states(found)["next"] == ends


def with_fallback() -> CompiledPlan:
    """A task that can do with either of two texts."""
    return plan(
        task("first", "x", outputs=[{"name": "text.md"}]),
        task("spare", "s", outputs=[{"name": "text.md"}]),
        task(
            "use",
            "u",
            needs=["first"],
            inputs=[{"name": "text", "from": "text.md"}],
            on_dependency_failed="FALLBACK",
            fallback="spare",
        ),
    )


@pytest.mark.shows("X13")
def test_a_fallback_takes_the_place_of_what_failed(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def use_it(turn: Turn) -> str:
        seen.append(turn.read("text"))
        return "used"

    found = run(tmp_path, with_fallback(), x=broken, u=use_it)
    assert states(found) == {"first": "FAILED", "spare": "COMPLETED", "use": "COMPLETED"}
    assert seen == [b"spare/text.md"]


def test_a_fallback_that_is_not_needed_does_not_run(tmp_path: Path) -> None:
    found = run(tmp_path, with_fallback())
    assert (found.result, states(found)["spare"]) == ("done", "SKIPPED")


def test_a_crash_is_retried_as_often_as_the_task_says(tmp_path: Path) -> None:
    attempts: list[int] = []

    async def flaky(turn: Turn) -> str:
        attempts.append(turn.attempt)
        if len(attempts) < 3:
            raise OSError("again")
        return "ok"

    found = run(tmp_path, plan(task("work", "x", retry_times=2)), x=flaky)
    assert (found.result, attempts) == ("done", [1, 2, 3])


def test_what_is_not_fulfilled_goes_back_with_the_reasons_until_they_come_back_unchanged(tmp_path: Path) -> None:
    prompts: list[str] = []

    async def lazy(turn: Turn) -> str:
        prompts.append(turn.prompt)
        return "I am done, all tests pass"

    found = run(tmp_path, plan(task("work", "x", outputs=[TEXT])), x=lazy)
    [work] = found.tasks
    assert (found.result, work["state"], work["rounds"], len(prompts)) == ("failed", "FAILED", 1, 2)
    assert "text.md" in prompts[1]
    assert work["reason"]


def test_a_score_that_is_none_is_sent_back_twice(tmp_path: Path) -> None:
    prompts: list[str] = []

    async def unscored(turn: Turn) -> Result:
        prompts.append(turn.prompt)
        return Result("fine", score=101)

    found = run(tmp_path, plan(task("judge", "j", **SCORED)), j=unscored)
    assert (found.result, len(prompts)) == ("failed", 3)
    assert "0 to 100" in prompts[1]


def test_what_only_a_person_has_is_asked_for_and_the_others_go_on(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        inputs = [{"name": "budget.csv", "file": "budget.csv", "external": True}]
        await engine.submit(plan(task("count", "a", inputs=inputs), task("other", "b")))
        found = await engine.until(lambda now: states(now)["other"] == "COMPLETED" and now.result == "waiting")
        assert states(found)["count"] == "BLOCKED_WAITING_INPUT"
        await engine.answer(files={"budget.csv": b"100"})
        return await engine.until(lambda now: now.state == "ENDED")

    seen: list[bytes] = []

    async def count(turn: Turn) -> str:
        seen.append(turn.read("budget.csv"))
        return "counted"

    assert play(tmp_path, use, a=count).result == "done"
    assert seen == [b"100"]


def test_a_task_of_a_person_is_a_question_and_its_answer(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        people = {"agent_human_gateway": {"driver": "human"}}
        await engine.submit(
            plan(task("choose", "agent_human_gateway"), task("go", "b", needs=["choose"]), agents=people)
        )
        await engine.until(lambda now: states(now)["choose"] == "RUNNING")
        await engine.asked()
        assert (await engine.ended()).result == "waiting"
        await engine.answer("APPROVE", notes="blue")
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use).result == "done"


def test_a_glob_takes_all(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    async def join(turn: Turn) -> str:
        seen.update(turn.inputs["parts"])
        return "joined"

    compiled = plan(
        *(task(f"part{n}", f"p{n}", outputs=[{"name": f"part{n}.txt"}]) for n in range(3)),
        task("join", "j", needs=["part0", "part1", "part2"], inputs=[{"name": "parts", "glob": "part*.txt"}]),
    )
    assert run(tmp_path, compiled, j=join).result == "done"
    assert sorted(seen) == ["part0.txt", "part1.txt", "part2.txt"]


def test_the_same_plan_again_changes_nothing_and_another_under_its_id_is_refused(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        assert await engine.submit(plan(task("one")))
        await engine.ended()
        assert not await engine.submit(plan(task("one")))
        with pytest.raises(UsageError) as refused:
            await engine.submit(plan(task("one", timeout=7)))
        assert "plan apply" in refused.value.hint

    play(tmp_path, use)


def test_a_paused_plan_begins_nothing_and_goes_on_when_it_may(tmp_path: Path) -> None:
    gate = asyncio.Event()
    began: list[str] = []

    async def slow(turn: Turn) -> str:
        began.append(turn.task_id)
        await gate.wait()
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two", needs=["one"])))
        await engine.until(lambda _: began == ["one"])
        await engine.dispatcher.operator.pause("p", by="ada")
        gate.set()
        found = await engine.until(lambda now: states(now)["one"] == "COMPLETED" and now.result != "running")
        assert (found.result, states(found)["two"], began) == ("paused", "READY", ["one"])
        await engine.dispatcher.operator.resume("p", by="ada")
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use, a=slow).result == "done"


def test_a_cancelled_plan_ends_what_runs_and_fails_what_is_open(tmp_path: Path) -> None:
    began = asyncio.Event()
    ended: list[str] = []

    async def endless(turn: Turn) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(turn.task_id)
        return "never"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two", needs=["one"])))
        await asyncio.wait_for(began.wait(), 10)
        assert await engine.dispatcher.operator.cancel("p", by="ada", why="too late") == 2
        return await engine.ended()

    found = play(tmp_path, use, a=endless)
    assert (ended, states(found)) == (["one"], {"one": "FAILED", "two": "FAILED"})
    assert {each["reason"] for each in found.tasks} == {"cancelled by ada: too late"}


@pytest.mark.parametrize("how", ["cancel", "abort"])
def test_nobody_is_asked_any_more_about_what_was_called_off(tmp_path: Path, how: str) -> None:
    async def use(engine: Engine) -> list[questions.HumanQuestion]:
        people = {"agent_human_gateway": {"driver": "human"}}
        await engine.submit(plan(task("ask", "agent_human_gateway"), task("other"), agents=people))
        await engine.until(lambda found: states(found)["other"] == "COMPLETED")
        await engine.asked()
        assert len(await questions.list_open(engine.deps)) == 1
        if how == "cancel":
            await engine.dispatcher.operator.cancel("p", by="ada")
        else:
            await engine.dispatcher.operator.abort("p", "ask", by="ada")
        return await questions.list_open(engine.deps)

    assert play(tmp_path, use) == []


def test_what_failed_is_tried_again_and_what_it_stopped_goes_on(tmp_path: Path) -> None:
    fixed: list[bool] = []

    async def fixable(turn: Turn) -> str:
        return await fine(turn) if fixed else await broken(turn)

    async def use(engine: Engine) -> PlanStanding:
        tasks = [task("bad", "x"), task("next", "b", needs=["bad"], on_dependency_failed="SKIP")]
        await engine.submit(plan(*tasks))
        await engine.ended()
        fixed.append(True)
        assert await engine.dispatcher.operator.retry("p", "bad", by="ada") == ["bad", "next"]
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, x=fixable)
    assert (found.result, found.counts["completed"], found.counts["skipped"]) == ("done", 2, 0)


def test_an_engine_that_ends_gives_its_tasks_to_the_next_one(tmp_path: Path) -> None:
    began: list[int] = []

    async def slow(turn: Turn) -> str:
        began.append(turn.attempt)
        if len(began) == 1:
            await asyncio.Event().wait()
        return "ok"

    async def begin(engine: Engine) -> None:
        await engine.submit(plan(task("one")))
        await engine.until(lambda _: began == [1])

    async def go_on(engine: Engine) -> PlanStanding:
        return await engine.until(lambda now: now.state == "ENDED")

    play(tmp_path, begin, a=slow)
    found = play(tmp_path, go_on, a=slow)
    assert (found.result, began) == ("done", [1, 2])


def test_an_agent_that_works_by_hand_takes_part(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        outputs = [{"name": "draft.md", "deliver_to": ["b"]}]
        tasks = [
            task("draft", "writer", outputs=outputs),
            task("read", "b", needs=["draft"], inputs=[{"name": "draft", "from": "draft.md"}]),
        ]
        await engine.submit(plan(*tasks, agents={"writer": {"driver": "folder"}}))
        tree = Tree(tmp_path, plan_id="p")
        tree.agent("writer")
        tree.agent("b")
        await engine.until(lambda now: states(now)["draft"] == "READY")
        await engine.route()
        assert tree.inbox("writer") == ["cmd_draft_001.msg.json"]
        assert (await engine.ended()).result == "waiting"
        tree.artifact("writer", "draft", "draft.md", {"draft.md": b"Once."}, message_id="m1")
        await engine.route()
        return await engine.until(lambda now: now.state == "ENDED")

    seen: list[bytes] = []

    async def read(turn: Turn) -> str:
        seen.append(turn.read("draft"))
        return "read"

    assert play(tmp_path, use, b=read).result == "done"
    assert seen == [b"Once."]


@pytest.mark.parametrize("size", [9, 200_000])
def test_what_is_handed_in_by_hand_must_be_of_its_media_type(tmp_path: Path, size: int) -> None:
    async def use(engine: Engine) -> PlanStanding:
        outputs = [{"name": "data.json", "deliverable": True, "content_type": "application/json"}]
        await engine.submit(plan(task("count", "writer", outputs=outputs), agents={"writer": {"driver": "folder"}}))
        tree = Tree(tmp_path, plan_id="p")
        tree.agent("writer")
        await engine.until(lambda now: states(now)["count"] == "READY")
        await engine.route()
        tree.artifact("writer", "count", "data.json", {"data.json": b"{" * size}, message_id="m1")
        await engine.route()
        assert tree.codes() == ["OUTPUT_MISFIT"]
        [letter] = await dead_letters.list_dead_letters(engine.deps)
        assert not (await dead_letters.replay(engine.deps, letter["deadletter_id"], by="ada"))["ok"]
        assert (await engine.ended()).result == "waiting"
        tree.artifact("writer", "count", "data.json", {"data.json": b"[" + b"1," * size + b"1]"}, message_id="m2")
        await engine.route()
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use).result == "done"


def test_a_new_revision_keeps_what_did_not_change(tmp_path: Path) -> None:
    ran: list[str] = []
    gate = asyncio.Event()

    async def work(turn: Turn) -> str:
        ran.append(f"{turn.task_id}:{turn.command.prompt}")
        if turn.command.prompt == "Wait.":
            await gate.wait()
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        one, three = task("one"), task("three", needs=["two"])
        before = plan(one, task("two", needs=["one"]) | {"prompt": "Wait."}, three, task("gone", needs=["two"]))
        after = plan(one, task("two", needs=["one"]) | {"prompt": "Go."}, three, task("new", needs=["one"]))
        await engine.submit(before)
        await engine.until(lambda _: "two:Wait." in ran)
        found = await engine.dispatcher.operator.apply(after.dag, after.manifest, after.profiles, by="ada")
        assert (found.added, found.changed, found.removed) == (["new"], ["two"], ["gone"])
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, a=work)
    assert (found.result, states(found)) == (
        "done",
        {"one": "COMPLETED", "two": "COMPLETED", "three": "COMPLETED", "new": "COMPLETED", "gone": "SKIPPED"},
    )
    assert sorted(ran) == ["new:Do new.", "one:Do one.", "three:Do three.", "two:Go.", "two:Wait."]


def test_a_task_that_waits_in_the_queue_gets_a_command_of_the_new_revision(tmp_path: Path) -> None:
    refs: dict[str, list[int | None]] = {}
    gate = asyncio.Event()

    async def work(turn: Turn) -> str:
        assert turn.command.dag_ref is not None
        refs.setdefault(turn.task_id, []).append(turn.command.dag_ref.revision)
        await gate.wait()
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two")))
        await engine.until(lambda _: bool(refs))
        changed = plan(task("one"), task("two"), task("three"))
        await engine.dispatcher.operator.apply(changed.dag, changed.manifest, changed.profiles, by="ada")
        gate.set()
        return await engine.until(lambda now: now.state == "ENDED")

    assert play(tmp_path, use, a=work).result == "done"
    assert sorted(refs.values()) == [[1], [2], [2]]


def test_a_new_revision_lets_what_failed_begin_anew(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        return await broken(turn) if turn.command.prompt == "Fail." else "ok"

    async def use(engine: Engine) -> PlanStanding:
        follows = task("next", needs=["bad"], on_dependency_failed="SKIP")
        await engine.submit(plan(task("bad") | {"prompt": "Fail."}, follows))
        found = await engine.ended()
        assert states(found) == {"bad": "FAILED", "next": "SKIPPED"}
        changed = plan(task("bad") | {"prompt": "Work."}, follows)
        await engine.dispatcher.operator.apply(changed.dag, changed.manifest, changed.profiles, by="ada")
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, a=work)
    assert (found.result, states(found)) == ("done", {"bad": "COMPLETED", "next": "COMPLETED"})


@pytest.mark.parametrize("nothing", [None, "", " \n", [], {}], ids=repr)
def test_an_agent_that_says_nothing_has_done_nothing(tmp_path: Path, nothing: Any) -> None:
    async def empty(_: Turn) -> Any:
        return nothing

    found = run(tmp_path, plan(task("work", "x", max_reexecute_times=0)), x=empty)
    assert (found.result, states(found)) == ("failed", {"work": "FAILED"})


@pytest.mark.parametrize(("said", "ends"), [({"ok": True}, "FAILED"), ({"ok": True, "details": "sung"}, "COMPLETED")])
def test_a_receipt_alone_proves_nothing_about_work_by_hand(tmp_path: Path, said: dict[str, Any], ends: str) -> None:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("sing", "singer"), agents={"singer": {"driver": "folder"}}))
        tree = Tree(tmp_path, plan_id="p")
        tree.agent("singer")
        await engine.until(lambda now: states(now)["sing"] == "READY")
        await engine.route()
        [path] = (tmp_path / "agents/singer/inbox/p").glob("*.msg.json")
        command = json.loads(path.read_bytes())
        ack = {key: command[key] for key in ("schema_version", "plan_id", "message_id", "task_id", "command_id")}
        times = {"consumed_at": "2026-03-01T12:00:00Z", "finished_at": "2026-03-01T12:00:01Z"}
        ack |= {"consumer_agent_id": "singer", "command_seq": 1, "status": "SUCCEEDED", "result": said, **times}
        tree.put("singer", f"ack_{command['message_id']}.json", ack)
        await engine.route()
        return await engine.until(lambda now: now.state == "ENDED")

    assert states(play(tmp_path, use)) == {"sing": ends}


def test_an_output_that_is_not_of_its_type_is_not_there(tmp_path: Path) -> None:
    tried: list[str] = []

    async def careless(turn: Turn) -> str:
        tried.append(turn.prompt)
        turn.outputs["report.json"] = "{" if len(tried) < 3 else "{}" + " " * 70_000
        if len(tried) == 2:
            turn.outputs["report.json"] = "[" * 70_000
        return "ok"

    outputs = [{"name": "report.json", "content_type": "application/json", "deliverable": True}]
    found = run(tmp_path, plan(task("one", outputs=outputs)), a=careless)
    assert (states(found), len(tried)) == ({"one": "COMPLETED"}, 3)
    assert "is not JSON" in tried[1]
    assert "is not JSON" in tried[2]


@pytest.mark.shows("X13")
def test_a_new_plan_is_asked_of_the_planner_and_of_a_person(tmp_path: Path) -> None:
    tasks = [task("bad", "x"), task("next", "b", needs=["bad"], on_dependency_failed="REPLAN_REQUEST")]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks, policies={"planner": "b"}))
        found = await engine.ended()
        await published_files.publish(engine.deps, await engine.deps.stores.board("default"))
        return found

    found = play(tmp_path, use, x=broken)
    assert states(found) == {"bad": "FAILED", "next": "BLOCKED_WAITING_HUMAN"}
    [asked] = (tmp_path / "agents/b/inbox/p").glob("replan_*.json")
    request = ReplanRequest.from_bytes(asked.read_bytes())
    assert (request.trigger.failed_task_id, request.trigger.downstream_task_id) == ("bad", "next")
    assert request.request_id == found.tasks[1]["request_id"]
    assert (tmp_path / "system_runtime/plans/p" / asked.name).read_bytes() == asked.read_bytes()


@pytest.mark.parametrize("asked", [True, False])
def test_an_agent_that_is_not_fit_says_so_before_it_begins(tmp_path: Path, asked: bool) -> None:
    async def choosy(_: Turn) -> Result:
        return Result("done all the same", self_assessment={"score": 20, "reason": "I know no Rust."})

    found = run(tmp_path, plan(task("one"), agents={"a": {"driver": "python", "self_assessment": asked}}), a=choosy)
    assert states(found) == {"one": "BLOCKED_WAITING_HUMAN" if asked else "COMPLETED"}
    assert ("I know no Rust. (20 of 100)" in (found.tasks[0]["reason"] or "")) is asked


def test_what_attempts_took_is_added_up(tmp_path: Path) -> None:
    async def costly(turn: Turn) -> Result:
        said = "" if turn.task_id == "two" and turn.command.command_seq == 1 else "done"  # saying nothing is not done
        return Result(said, usage={"tokens": 100, "cost_usd": 0.25})

    found = run(tmp_path, plan(task("one"), task("two", max_reexecute_times=1), task("free", "b")), a=costly)
    usage = {each["task_id"]: each["usage"] for each in found.tasks if each["usage"] is not None}
    assert [usage[name]["tokens"] for name in ("one", "two", "free")] == [100, 200, 0]
    assert found.usage is not None
    assert (found.usage["tokens"], found.usage["cost_usd"]) == (300, 0.75)
    assert found.usage["duration_s"] == pytest.approx(sum(each["duration_s"] for each in usage.values()))


def test_where_nobody_counts_nothing_is_known() -> None:
    row = TaskStatusRow._make([0] * len(TaskStatusRow._fields))._replace(state="READY", missing=None, reason=None)
    assert describe_status(row)["usage"] is None
    used = {"duration_s": 1.5, "tokens": 0, "cost_usd": 0.0, "tool_calls": 2}
    assert describe_status(row._replace(seconds=1.5, cost_usd=0.0, tool_calls=2))["usage"] == used


def test_more_agents_than_places_never_wait_for_a_look(tmp_path: Path) -> None:
    tasks = [task(f"t{number}", f"a{number % 9}") for number in range(36)]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks))
        async with asyncio.timeout(POLL / 2):
            return await engine.ended()

    assert play(tmp_path, use, max_running=2).result == "done"


@pytest.mark.parametrize("other", ["b", None], ids=["another agent does it", "a person decides"])
def test_who_is_not_fit_for_a_task_hands_it_on(tmp_path: Path, other: str | None) -> None:
    async def modest(_: Turn) -> Result:
        return Result(self_assessment={"score": 30, "reason": "I know no SQL"})

    keys = {"reexecute_target": other} if other else {}
    tasks = [task("query", "a", **keys), task("aside", "b")]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks, agents={"a": {"driver": "python", "self_assessment": True}}))
        return await engine.ended()

    found = play(tmp_path, use, a=modest)
    query = next(each for each in found.tasks if each["task_id"] == "query")
    assert (query["state"], query["agent_id"]) == (("COMPLETED", "b") if other else ("BLOCKED_WAITING_HUMAN", "a"))
    assert other or "I know no SQL" in query["reason"]
