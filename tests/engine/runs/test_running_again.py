"""Trying tasks again, alone or with everything that hangs on them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.contracts.errors import UsageError
from agenttalk.engine.core.boards import board_of
from agenttalk.ports.statements.core import FACTS_OF
from kits.againkit import retry
from kits.plankit import Engine, fine, plan, play, states, task
from kits.standingkit import PlanStanding
from kits.treekit import Tree

SCORED = {"score_required": True, "score_criteria": "0-100"}
SKIP = {"on_dependency_failed": "SKIP"}


def text(name: str) -> dict[str, Any]:
    return {"outputs": [{"name": name}]}


def needs(name: str) -> dict[str, Any]:
    return {"inputs": [{"name": name, "from": name}]}


async def ended(engine: Engine) -> PlanStanding:
    return await engine.until(lambda now: now.state == "ENDED")


class Log:
    """What ran, in order, and what it was given."""

    def __init__(self, **does: Any) -> None:
        self.ran: list[str] = []
        self.given: dict[str, list[str]] = {}
        self.does = {name: list(each) for name, each in does.items()}
        """Task → what it does the first time, the second time …; then it is fine."""

    async def __call__(self, turn: Turn) -> Any:
        self.ran.append(turn.task_id)
        files = [data.decode() for each in turn.inputs.values() for data in each.values()]
        self.given.setdefault(turn.task_id, []).append(",".join(files))
        does = self.does.get(turn.task_id)
        what = does.pop(0) if does else "fine"
        if what == "crash":
            raise ValueError("no")
        for each in turn.command.produces or ():
            turn.outputs[each.output_name] = f"{turn.task_id} {len(self.given[turn.task_id])}"
        return Result("ok", score=what) if isinstance(what, int) else "ok"


def again(root: Path, log: Log, tasks: list[dict[str, Any]], *steps: tuple[str, bool]) -> PlanStanding:
    """Run a plan to its end or until it waits, then try tasks again, one after the other."""

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(*tasks))
        found = await engine.ended()
        for task_id, onwards in steps:
            log.ran.clear()
            await retry(engine, task_id, onwards=onwards)
            found = await engine.ended()
        return found

    found: PlanStanding = play(root, use, **dict.fromkeys("abcdx", log))
    return found


CHAIN = [
    task("one", "a", **text("one.md")),
    task("two", "b", **needs("one.md"), **text("two.md")),
    task("aside", "c"),
    task("three", "d", **needs("two.md")),
]


def test_a_plan_runs_again_from_a_task_on(tmp_path: Path) -> None:
    log = Log()
    found = again(tmp_path, log, CHAIN, ("two", True))
    assert (found.result, found.state, found.counts["completed"]) == ("done", "ENDED", 4)
    assert log.ran == ["two", "three"]
    assert log.given["three"] == ["two 1", "two 2"]


def test_what_runs_again_has_new_commands_and_a_fact_says_who_wanted_it(tmp_path: Path) -> None:
    seqs: dict[str, list[int]] = {}

    async def note(turn: Turn) -> str:
        seqs.setdefault(turn.task_id, []).append(turn.command.command_seq)
        return await fine(turn)

    async def use(engine: Engine) -> Any:
        await engine.submit(plan(*CHAIN))
        await ended(engine)
        assert sorted(await retry(engine, "two")) == ["three", "two"]
        await ended(engine)
        store = await board_of(engine.deps, "p")
        rows = await store.read(FACTS_OF, subject="p/two", after=0, limit=100)
        return [json.loads(body) for _, _, kind, body in rows if kind == "task.retried"]

    facts = play(tmp_path, use, a=note, b=note, c=note, d=note)
    assert seqs == {"one": [1], "two": [1, 2], "aside": [1], "three": [1, 2]}
    assert facts == [{"by": "ada", "onwards": True, "begin_anew": ["two", "three"]}]


def test_what_waits_for_two_waits_for_both_again(tmp_path: Path) -> None:
    log = Log()
    tasks = [task("root", "a"), task("left", "b", needs=["root"]), task("right", "c", needs=["root"])]
    tasks.append(task("join", "d", needs=["left", "right"]))
    assert again(tmp_path, log, tasks, ("root", True)).result == "done"
    assert (log.ran[0], sorted(log.ran[1:3]), log.ran[3:]) == ("root", ["left", "right"], ["join"])
    found = again(tmp_path / "other", log, tasks, ("left", True))
    assert (found.result, log.ran) == ("done", ["left", "join"])


def test_without_onwards_only_what_failed_is_tried_again(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="COMPLETED") as caught:
        again(tmp_path, Log(), CHAIN, ("two", False))
    assert "--from" in caught.value.hint


@pytest.mark.parametrize("task_id", ["one", "two"])
def test_what_has_not_ended_does_not_run_again(tmp_path: Path, task_id: str) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one"), task("two", needs=["one"])))
        await engine.until(lambda now: states(now)["one"] == "RUNNING")
        with pytest.raises(UsageError, match="only what ended"):
            await retry(engine, task_id)

    async def endless(_: Turn) -> str:
        await asyncio.Event().wait()
        return "never"

    play(tmp_path, use, a=endless)


def test_what_runs_has_to_be_ended_before(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("one"), task("two", "b", needs=["one"])))
        await engine.until(lambda now: states(now)["two"] == "RUNNING")
        with pytest.raises(UsageError, match="two still runs"):
            await retry(engine, "one")
        assert states(await engine.until(lambda _: True)) == {"one": "COMPLETED", "two": "RUNNING"}

    async def endless(_: Turn) -> str:
        await asyncio.Event().wait()
        return "never"

    play(tmp_path, use, b=endless)


def test_a_task_that_is_not_there_does_not_run_again(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no task 'none'"):
        again(tmp_path, Log(), CHAIN, ("none", True))


BRANCHED = [
    task("judge", "a", gates={"branches": [{"when": "score < 50", "activate": ["mend"]}]}, **SCORED),
    task("mend", "b", needs=["judge"], **text("mended.md")),
    task("after", "c", needs=["judge", "mend"], inputs=[{"name": "m", "from": "mended.md", "required": False}]),
]


@pytest.mark.parametrize(
    ("scores", "mended", "ran", "given"),
    [
        ([40, 80], "SKIPPED", ["judge", "after"], ["mend 1", ""]),
        ([80, 40], "COMPLETED", ["judge", "mend", "after"], ["", "mend 1"]),
        ([40, 45], "COMPLETED", ["judge", "mend", "after"], ["mend 1", "mend 2"]),
    ],
)
def test_a_branch_is_decided_anew(
    tmp_path: Path, scores: list[int], mended: str, ran: list[str], given: list[str]
) -> None:
    log = Log(judge=scores)
    found = again(tmp_path, log, BRANCHED, ("judge", True))
    assert (found.result, states(found)["mend"], log.ran) == ("done", mended, ran)
    assert log.given["after"] == given


def test_a_branch_that_was_not_taken_is_left_alone_when_what_comes_before_it_runs_again(tmp_path: Path) -> None:
    log = Log(judge=[80])
    tasks = [task("before", "d"), *BRANCHED]
    tasks[2] = task("mend", "b", needs=["judge", "before"], **text("mended.md"))
    found = again(tmp_path, log, tasks, ("before", True))
    assert (found.state, states(found)["mend"], log.ran) == ("ENDED", "SKIPPED", ["before"])


def test_a_branch_that_another_took_stays_taken(tmp_path: Path) -> None:
    branch = {"branches": [{"when": "score < 50", "activate": ["mend"]}]}
    tasks = [task("one", "a", gates=branch, **SCORED), task("two", "b", gates=branch, **SCORED)]
    tasks.append(task("mend", "c", needs=["one", "two"]))
    log = Log(one=[40, 80], two=[40])
    found = again(tmp_path, log, tasks, ("one", True))
    assert (states(found)["mend"], log.ran) == ("COMPLETED", ["one", "mend"])


def test_a_branch_that_was_not_taken_runs_when_somebody_wants_it(tmp_path: Path) -> None:
    log = Log(judge=[80])
    found = again(tmp_path, log, BRANCHED, ("mend", True))
    assert (found.result, states(found)["mend"], log.ran) == ("done", "COMPLETED", ["mend", "after"])


def test_a_branch_of_what_failed_is_open_again_when_that_is_tried_again(tmp_path: Path) -> None:
    log = Log(judge=["crash", 40])
    tasks = [BRANCHED[0], task("mend", "b")]
    found = again(tmp_path, log, tasks, ("judge", False))
    assert (found.result, states(found), log.ran) == (
        "done",
        {"judge": "COMPLETED", "mend": "COMPLETED"},
        ["judge", "mend"],
    )


SPARED = [
    task("main", "a", **text("text.md")),
    task("spare", "b", **text("text.md")),
    task("use", "c", needs=["main"], on_dependency_failed="FALLBACK", fallback="spare", **needs("text.md")),
]


@pytest.mark.parametrize(
    ("does", "first", "ran", "given"),
    [
        (["crash"], "main", ["main", "use"], ["spare 1", "main 2"]),
        (["crash", "crash"], "main", ["main", "spare", "use"], ["spare 1", "spare 2"]),
        (["fine", "crash"], "main", ["main", "spare", "use"], ["main 1", "spare 1"]),
        (["crash"], "spare", ["spare", "use"], ["spare 1", "spare 2"]),
        (["crash"], "use", ["use"], ["spare 1", "spare 1"]),
    ],
)
def test_a_stand_in_is_called_for_anew(
    tmp_path: Path, does: list[str], first: str, ran: list[str], given: list[str]
) -> None:
    log = Log(main=does)
    found = again(tmp_path, log, SPARED, (first, True))
    assert (found.state, states(found)["use"], log.ran, log.given["use"]) == ("ENDED", "COMPLETED", ran, given)


def test_a_stand_in_for_another_goes_on_standing_in(tmp_path: Path) -> None:
    tasks = [task("other", "d"), *SPARED]
    tasks[3] = {**SPARED[2], "needs": ["main", "other"]}
    log = Log(main=["crash"])
    found = again(tmp_path, log, tasks, ("other", True))
    assert (states(found)["use"], log.ran) == ("COMPLETED", ["other", "use"])


def test_whoever_stands_in_serves_those_that_begin_anew(tmp_path: Path) -> None:
    tasks = [*SPARED, task("also", "d", needs=["main"]), task("last", "d", needs=["also", "main"])]
    log = Log(main=["crash"])
    found = again(tmp_path, log, tasks, ("also", True), ("also", True), ("spare", True))
    assert {name for name, state in states(found).items() if state != "COMPLETED"} == {"main"}
    assert (log.ran[0], sorted(log.ran[1:3]), log.ran[3:]) == ("spare", ["also", "use"], ["last"])


def test_what_was_skipped_because_of_a_failure_is_not_run_without_it(tmp_path: Path) -> None:
    tasks = [task("bad", "x"), task("next", "b", needs=["bad"], **SKIP)]
    with pytest.raises(UsageError, match="skipped again"):
        again(tmp_path, Log(bad=["crash"]), tasks, ("next", True))
    log = Log(bad=["crash"])
    found = again(tmp_path / "other", log, tasks, ("bad", True))
    assert (found.result, log.ran) == ("done", ["bad", "next"])


def cancelled(root: Path, *steps: tuple[str, bool]) -> tuple[PlanStanding, list[str]]:
    """A plan that was called off while its first task ran, and what was tried again then."""
    ran: list[str] = []
    slow = [True]

    async def work(turn: Turn) -> str:
        if slow:
            await asyncio.Event().wait()
        ran.append(turn.task_id)
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two", "b", needs=["one"]), task("three", "c", needs=["two"])))
        await engine.until(lambda now: states(now)["one"] == "RUNNING")
        await engine.dispatcher.operator.cancel("p", by="ada")
        slow.clear()
        for task_id, onwards in steps:
            await retry(engine, task_id, onwards=onwards)
            found = await engine.ended()
        return found

    found: PlanStanding = play(root, use, a=work, b=work, c=work)
    return found, ran


def test_a_cancelled_task_waits_for_what_comes_before_it(tmp_path: Path) -> None:
    found, ran = cancelled(tmp_path, ("two", False))
    assert (ran, states(found)["two"]) == ([], "BLOCKED_WAITING_REVIEW")
    found, ran = cancelled(tmp_path / "other", ("two", False), ("one", False))
    assert (ran, states(found)) == (["one", "two"], {"one": "COMPLETED", "two": "COMPLETED", "three": "FAILED"})
    found, ran = cancelled(tmp_path / "third", ("one", False), ("two", False))
    assert ran == ["one", "two"]


def test_a_cancelled_plan_runs_again_from_its_first_task_on(tmp_path: Path) -> None:
    found, ran = cancelled(tmp_path, ("one", True))
    assert (found.result, found.counts["failed"], ran) == ("done", 0, ["one", "two", "three"])


def test_a_cancelled_task_waits_for_one_that_is_open(tmp_path: Path) -> None:
    gate = asyncio.Event()
    ran: list[str] = []

    async def work(turn: Turn) -> str:
        ran.append(turn.task_id)
        await gate.wait()
        return "ok"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one"), task("two", "b", needs=["one"])))
        await engine.until(lambda _: ran == ["one"])
        await engine.dispatcher.operator.cancel("p", by="ada")
        await retry(engine, "one", onwards=False)
        await retry(engine, "two", onwards=False)
        found = await engine.until(lambda now: len(ran) == 2 and states(now)["one"] == "RUNNING")
        assert states(found)["two"] == "PENDING"
        gate.set()
        return await ended(engine)

    assert play(tmp_path, use, a=work, b=work).result == "done"
    assert ran == ["one", "one", "two"]


def test_a_paused_plan_stays_paused_when_something_is_tried_again(tmp_path: Path) -> None:
    log = Log(bad=["crash"])

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("bad", "a"), task("block", "b", needs=["bad"])))
        await engine.until(lambda now: states(now)["block"] == "BLOCKED_WAITING_REVIEW")
        await engine.dispatcher.operator.pause("p", by="ada")
        await retry(engine, "bad", onwards=False)
        found = await engine.ended()
        assert (found.result, states(found)) == ("paused", {"bad": "READY", "block": "PENDING"})
        await engine.dispatcher.operator.resume("p", by="ada")
        return await ended(engine)

    assert play(tmp_path, use, a=log, b=log).result == "done"


def test_a_plan_that_was_paused_to_end_what_runs_goes_on(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def slow(turn: Turn) -> str:
        await gate.wait()
        return await fine(turn)

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one", "b"), task("two"), task("three")))
        await engine.until(lambda now: states(now)["one"] == "COMPLETED" and "RUNNING" in states(now).values())
        await engine.dispatcher.operator.pause("p", by="ada")
        await retry(engine, "one", go_on=True)
        gate.set()
        return await ended(engine)

    found = play(tmp_path, use, a=slow)
    assert (found.result, found.counts["completed"]) == ("done", 3)


def test_what_somebody_made_by_hand_is_made_again(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        tasks = [
            task("draft", "writer", outputs=[{"name": "draft.md", "deliver_to": ["b"]}]),
            task("read", "b", needs=["draft"], **needs("draft.md")),
        ]
        await engine.submit(plan(*tasks, agents={"writer": {"driver": "folder"}}))
        tree = Tree(tmp_path, plan_id="p")
        tree.agent("writer")
        tree.agent("b")
        for number, said in enumerate((b"Once.", b"Twice."), 1):
            if number == 2:
                await retry(engine, "draft")
            await engine.until(lambda now: states(now)["draft"] == "READY")
            await engine.route()
            assert (await engine.ended()).result == "waiting"
            assert f"cmd_draft_00{number}.msg.json" in tree.inbox("writer")
            tree.artifact("writer", "draft", "draft.md", {"draft.md": said}, message_id=f"m{number}")
            await engine.route()
            found = await ended(engine)
        return found

    seen: list[bytes] = []

    async def read(turn: Turn) -> str:
        seen.append(turn.read("draft.md"))
        return "read"

    assert play(tmp_path, use, b=read).result == "done"
    assert seen == [b"Once.", b"Twice."]
