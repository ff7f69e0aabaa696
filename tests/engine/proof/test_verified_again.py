"""An engine ends while it verifies: the next one verifies again, and the agent is not asked again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.engine.people import questions
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.proof import PERFORMANCE
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import FIXES, coded, git, program, promise
from kits.standingkit import PlanStanding, explain_json

OUTPUT = [{"name": "a.txt", "deliverable": True}]


def slow(folder: Path, then: str) -> dict[str, Any]:
    """A check that tells that it was begun, and goes on only when it is let."""
    text = f"touch {folder}/checking; while [ ! -e {folder}/go ]; do sleep 0.01; done; {then}"
    return {"id": "slow", "kind": "run", "run": text, "red_first": "off"}


def stopped_while_checking(folder: Path, compiled: Any, **agents: Any) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        while not (folder / "checking").exists():  # noqa: ASYNC110 - a program tells in no other way
            await asyncio.sleep(0.01)

    play(folder / "root", use, proving=True, **agents)


def as_after_a_death(folder: Path) -> None:
    """Have the lease be that of a process that is dead, and not of one that was stopped."""
    connection = apsw.Connection(str(folder / "root/data/projects/default/blackboard.db"))
    dead = '{"boot_id":"other","pid":1,"started":1}'
    connection.execute("UPDATE tasks SET owner = ? WHERE lease IS NOT NULL", (dead,))
    assert connection.changes() == 1
    connection.close()


def went_on(folder: Path, **agents: Any) -> PlanStanding:
    async def use(engine: Engine) -> PlanStanding:
        return await engine.ended()

    found: PlanStanding = play(folder / "root", use, proving=True, **agents)
    return found


@pytest.mark.parametrize("died", [True, False], ids=["died", "stopped"])
def test_what_came_of_the_attempt_is_known_and_only_proven_again(tmp_path: Path, *, died: bool) -> None:
    calls: list[int] = []

    async def once(turn: Turn) -> Result:
        calls.append(turn.attempt)
        turn.outputs["a.txt"] = "mine"
        return Result("said", score=80, score_explanation="good", usage={"tokens": 7})

    check = slow(tmp_path, "grep -q mine a.txt")
    asked = task("one", outputs=OUTPUT, promise=promise(check), score_required=True, score_criteria="0-100")
    stopped_while_checking(tmp_path, plan(asked, task("two", needs=["one"])), a=once)
    if died:
        as_after_a_death(tmp_path)
    (tmp_path / "go").touch()

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.ended()
        board = await engine.deps.stores.board("default")
        [row] = await board.read(ENGINE_TASK, plan_id="p", task_id="one")
        assert (row[5], row[13]) == (1, int(died))  # one attempt; a stop is no death
        assert await board.read(PERFORMANCE, plan_id="p", task_id="one") == []
        return await explain_json(engine.deps, "p", "one")

    told = play(tmp_path / "root", use, proving=True, a=once)
    [turn] = told["attempts"]
    assert (calls, told["state"]) == ([1, 1], "COMPLETED")  # the second call is that of the other task
    assert (turn["result"], turn["score"], turn["usage"]["tokens"]) == ("said", 80, 7)


def test_who_cannot_verify_leaves_it_to_somebody_who_can(tmp_path: Path) -> None:
    """A command that steers another plan of a root without an engine."""
    stopped_while_checking(tmp_path, plan(task("one", outputs=OUTPUT, promise=promise(slow(tmp_path, "true")))))
    as_after_a_death(tmp_path)

    async def steers(engine: Engine) -> None:
        await engine.submit(plan(task("other"), plan_id="q"))
        await engine.ended("q")

    play(tmp_path / "root", steers)
    (tmp_path / "go").touch()
    found = went_on(tmp_path)
    assert (states(found), found.tasks[0]["rounds"]) == ({"one": "COMPLETED"}, 0)


def test_the_tree_that_was_taken_is_what_is_proven(repo: Path) -> None:
    ran = repo.parent / "ran.log"
    text = f"open(r'{ran}', 'a').write('x')\n{FIXES}"
    compiled = plan(
        task("fix", "dev", workspace="repo", promise=promise(slow(repo.parent, "grep -q 'a + b' calc.py"))),
        agents={"dev": program(repo.parent, "dev", text)},
        workspace={"repo": str(repo)},
    )
    stopped_while_checking(repo.parent, compiled)
    [clone] = (repo.parent / "root" / "workspaces" / "p" / "attempts").glob("*/tree")
    (clone / "calc.py").write_text("somebody touched it meanwhile")
    (repo.parent / "go").touch()
    assert states(went_on(repo.parent)) == {"fix": "COMPLETED"}
    assert git(repo, "show", "agenttalk/p:calc.py").endswith("return a + b")
    assert ran.read_text() == "x"


def test_after_three_deaths_a_person_is_asked(tmp_path: Path) -> None:
    compiled = plan(task("one", outputs=OUTPUT, promise=promise(slow(tmp_path, "true"))))
    stopped_while_checking(tmp_path, compiled)

    async def dies(_: Engine) -> None:
        while not (tmp_path / "checking").exists():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)

    for _ in range(2):
        as_after_a_death(tmp_path)
        (tmp_path / "checking").unlink()
        play(tmp_path / "root", dies, proving=True)
    as_after_a_death(tmp_path)
    found = went_on(tmp_path)
    assert states(found) == {"one": "BLOCKED_WAITING_HUMAN"}
    assert "ended the engine 3 times" in (found.tasks[0]["reason"] or "")


def test_a_person_is_asked_once_about_the_same_work(tmp_path: Path) -> None:
    calls: list[str] = []

    async def other_each_time(turn: Turn) -> str:
        calls.append(turn.task_id)
        turn.outputs["a.txt"] = f"version {len(calls)}"
        return "ok"

    check = {"id": "nice", "kind": "human", "question": "Nice?"}

    async def asks(engine: Engine) -> str:
        await engine.submit(plan(task("one", outputs=OUTPUT, promise=promise(check))))
        await engine.asked()
        [request] = await questions.list_open(engine.deps)
        return request.request_id

    async def answers(engine: Engine) -> tuple[str, PlanStanding]:
        [request] = await questions.list_open(engine.deps)
        await engine.answer("APPROVE")
        return request.request_id, await engine.until(lambda now: now.state == "ENDED")

    first = play(tmp_path, asks, proving=True, a=other_each_time)
    again, found = play(tmp_path, answers, proving=True, a=other_each_time)
    assert (first, states(found), calls) == (again, {"one": "COMPLETED"}, ["one"])


def test_what_is_called_off_is_not_verified_again(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one", outputs=OUTPUT, promise=promise(slow(tmp_path, "true")))))
        while not (tmp_path / "checking").exists():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
        await engine.dispatcher.operator.cancel("p", by="ada")
        board = await engine.deps.stores.board("default")
        assert await board.read(PERFORMANCE, plan_id="p", task_id="one") == []
        return await engine.ended()

    assert states(play(tmp_path / "root", use, proving=True)) == {"one": "FAILED"}


def test_work_that_was_merged_before_the_end_is_merged_once(repo: Path) -> None:
    """The branch was moved, and that was never written down."""
    compiled = coded(repo, FIXES)

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        await engine.ended()

    play(repo.parent / "root", use, proving=True)
    tip = git(repo, "rev-parse", "agenttalk/p")
    connection = apsw.Connection(str(repo.parent / "root/data/projects/default/blackboard.db"))
    connection.execute(
        "UPDATE tasks SET state = 'RUNNING', phase = 'verifying', lease = 'l', owner = ?, cause = 'LEASED'",
        ('{"boot_id":"other","pid":1,"started":1}',),
    )
    connection.execute("UPDATE runs SET state = 'RUNNING', open = 1, completed = 0, ended_at = NULL")
    connection.execute("UPDATE deliveries SET state = 'claimed', ack = 'CONSUMED', finished_at = NULL")
    body = (
        '{"how":"finished","result":"ok","score":null,"explanation":null,"outputs":[],"seconds":0.1,"sandbox":"","usage":{},'
        '"misfits":{},"judgements":{},"claims":[],"inputs":[]}'
    )
    connection.execute(
        "INSERT INTO performances (board, plan_id, task_id, command_id, attempt, body) SELECT board, plan_id, task_id,"
        " 'cmd_fix_001', attempt, ? FROM tasks",
        (body.encode(),),
    )
    connection.close()

    async def again(engine: Engine) -> dict[str, Any]:
        assert states(await engine.ended()) == {"fix": "COMPLETED"}
        return await explain_json(engine.deps, "p", "fix")

    told = play(repo.parent / "root", again, proving=True)
    assert git(repo, "rev-parse", "agenttalk/p") == tip
    assert told["attempts"][-1]["commit"] == tip
