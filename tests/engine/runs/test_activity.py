"""What a task is doing at a moment: in memory while it is so, and gone with the turn."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from agenttalk.engine.operation.passes import Passes
from agenttalk.engine.operation.plan_service import PlanService
from agenttalk.rules.agents.activity import TaskActivity
from kits.plankit import Engine, plan, play, task
from kits.provekit import promise, repository

AGENT = """
import json, os, pathlib, sys, time
here = pathlib.Path(__file__).parent
def reach(name):
    (here / f"at-{name}").touch()
    while not (here / f"go-{name}").exists():
        time.sleep(0.01)
print(json.dumps({"agenttalk": {"usage": {"tokens": 42, "cost_usd": 0.5}, "progress": "reads the code"}}), flush=True)
reach("note")
pathlib.Path("calc.py").write_text("right")
"""
CHECK = (
    "case $(cat calc.py) in right) ;; *) echo ...F; exit 1;; esac; printf ..; touch {0}/at-check; "
    "while [ ! -e {0}/go-check ]; do sleep 0.01; done; echo ..  # pytest"
)


async def activities(engine: Engine) -> dict[str, TaskActivity | None]:
    service = PlanService(engine.deps, engine.dispatcher, Passes({}))
    return {each["task_id"]: each["activity"] for each in (await service.read_status("p"))["tasks"]}


async def doing_until(engine: Engine, condition: Callable[[TaskActivity], bool]) -> TaskActivity:
    """What the task does, once something is so."""
    async with asyncio.timeout(60):
        while True:
            doing = (await activities(engine))["t"]
            if doing is not None and condition(doing):
                return doing
            await asyncio.sleep(0.01)


async def until(path: Path) -> None:
    async with asyncio.timeout(60):
        while not path.exists():  # noqa: ASYNC110, ASYNC240 - a program makes it
            await asyncio.sleep(0.01)


def test_an_activity_names_phase_agent_usage_rounds_and_tests(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    repo = repository(tmp_path / "repo", {"calc.py": "wrong"})
    agents = {"dev": {"driver": "script", "argv": [sys.executable, str(tmp_path / "agent.py")]}}
    check = {"id": "unit", "kind": "run", "run": CHECK.format(tmp_path)}
    done = promise(check, allowedScope=["calc.py"])
    work = task("t", "dev", workspace="repo", promise=done, max_reexecute_times=2)
    compiled = plan(work, task("z", "dev"), agents=agents, workspace={"repo": str(repo)})

    async def use(engine: Engine) -> None:
        assert engine.dispatcher.watches.viewers == set()
        with engine.dispatcher.subscribe_activities() as news:
            await engine.submit(compiled)
            await until(tmp_path / "at-note")
            assert news.is_set()
            doing = await doing_until(engine, lambda doing: doing["tokens"] > 0)
            assert doing["phase"] == "working"
            assert doing["detail"] == "reads the code"
            assert (doing["tokens"], doing["cost_usd"]) == (42, 0.5)
            assert (doing["round"], doing["rounds"]) == (1, 3)
            assert doing["since"] is not None
            waits = (await activities(engine))["z"]
            assert waits is not None
            assert waits["phase"] == "queued_agent"
            (tmp_path / "go-note").touch()
            await until(tmp_path / "at-check")
            doing = await doing_until(engine, lambda doing: doing["tests_done"] == 2)
            assert (doing["phase"], doing["detail"], doing["tests_total"]) == ("checking", "unit", 4)
            (tmp_path / "go-check").touch()
        await engine.until(lambda now: now.state == "ENDED" or now.result == "failed")
        assert (await activities(engine))["t"] is None
        assert engine.dispatcher.watches.list_all() == []

    play(tmp_path / "root", use, proving=True)


def test_where_no_engine_runs_nothing_is_known(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t")))
        await engine.ended()
        offline = PlanService(engine.deps, None, Passes({}))
        assert [each["activity"] for each in (await offline.read_status("p"))["tasks"]] == [None]

    play(tmp_path / "root", use)


def test_a_person_who_is_asked_is_what_a_task_waits_for(tmp_path: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(plan(task("t", "ada"), agents={"ada": {"driver": "human"}}))
        await engine.asked()
        found = (await activities(engine))["t"]
        assert found is not None
        assert found["phase"] == "asking"

    play(tmp_path / "root", use)
