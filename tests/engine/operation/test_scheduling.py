"""Schedules: one plan for each time, whoever dies or comes second; what was missed; what overlaps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import Code, ContractError, MachineError, UsageError
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.contracts.schedule import Schedule
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.ports.statements.core import SEALED_FACTS
from agenttalk.ports.statements.operation import BEGIN_SCHEDULE
from agenttalk.ports.statements.plans import OPEN_RUNS, SET_RUN_STATE
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan
from agenttalk.wiring import open_root
from kits.standingkit import read_standing

HOURLY = Schedule.model_validate({"cron": "0 * * * *", "agent": "ada", "prompt": "Sum up the hour."})


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = datetime.fromisoformat("2026-11-16T08:30:00+00:00")

    def now(self) -> datetime:
        return self.time

    def set(self, text: str) -> None:
        self.time = datetime.fromisoformat(f"2026-11-16T{text}:00+00:00")


def plan_of(schedule: Schedule, plan_id: str) -> CompiledPlan:
    agents = {str(schedule.agent): {"driver": "human"}}
    task = {"id": "task", "agent": schedule.agent, "prompt": schedule.prompt}
    return compile_plan(reader.plan_of(YamlSource({"plan_id": plan_id, "agents": agents, "tasks": [task]})))


class Bench:
    """A root with schedules and a clock; each `engine` is another process's."""

    def __init__(self, deps: Deps, clock: Clock) -> None:
        self.deps, self.clock = deps, clock
        self.compiled: list[str] = []
        self.broken: Exception | None = None

    def engine(self, **configured: Schedule) -> Scheduler:
        return Scheduler(self.deps, configured or {"sums": HOURLY}, self._compile)

    def _compile(self, schedule: Schedule, plan_id: str) -> CompiledPlan:
        self.compiled.append(plan_id)
        if self.broken is not None:
            raise self.broken
        return plan_of(schedule, plan_id)

    async def plans(self) -> list[str]:
        board = await self.deps.stores.board("default")
        return [row[0] for row in await board.read(OPEN_RUNS)]

    async def facts(self) -> list[tuple[str, str]]:
        system = await self.deps.stores.board("system")
        rows = await system.read(SEALED_FACTS, after=0, limit=100)
        return [(row[4].removeprefix("schedule."), row[5]) for row in rows if row[4].startswith("schedule.")]

    async def end(self, plan_id: str) -> None:
        board = await self.deps.stores.board("default")
        at = self.deps.stamp()
        await board.transact(lambda tx: tx.run(SET_RUN_STATE, plan_id=plan_id, state="ENDED", at=at))


@asynccontextmanager
async def bench(root: Path) -> AsyncIterator[Bench]:
    (root / "agents").mkdir(exist_ok=True)
    clock = Clock()
    async with open_root(root, clock=clock) as deps:
        yield Bench(deps, clock)


def play(root: Path, use: Callable[[Bench], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with bench(root) as found:
            await use(found)

    asyncio.run(run())


def test_each_time_is_a_plan_of_its_own_and_none_before_the_schedule_was_there(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        assert await engine.pass_() == 60.0
        assert await bench.plans() == []
        bench.clock.set("09:00")
        await engine.pass_()
        await engine.pass_()
        assert await bench.plans() == ["sums-2026-11-16T09-00"]
        found = await read_standing(bench.deps, "sums-2026-11-16T09-00")
        assert [each["task_id"] for each in found.tasks] == ["task"]
        await bench.end("sums-2026-11-16T09-00")
        bench.clock.set("10:00")
        await engine.pass_()
        assert await bench.plans() == ["sums-2026-11-16T10-00"]
        assert await bench.facts() == [("due", "sums"), ("begun", "sums")] * 2

    play(tmp_path, use)


def test_of_what_was_missed_the_newest_is_made_up_for_once(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        await bench.engine().pass_()
        bench.clock.set("13:20")
        for _ in range(2):
            await bench.engine().pass_()
        assert await bench.plans() == ["sums-2026-11-16T13-00"]

    play(tmp_path, use)


def test_what_was_missed_is_not_made_up_for_where_nobody_wants_that(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine(sums=HOURLY.model_copy(update={"catch_up": False}))
        await engine.pass_()
        bench.clock.set("13:20")
        await engine.pass_()
        assert await bench.plans() == []
        assert await bench.facts() == [("skipped", "sums")]
        [told] = await engine.describe_all()
        assert told["last_problem"] == "2026-11-16T13-00: no engine ran when it was due"
        bench.clock.set("14:00")
        await engine.pass_()
        assert await bench.plans() == ["sums-2026-11-16T14-00"]

    play(tmp_path, use)


def test_a_time_at_which_the_last_run_goes_on_is_skipped_with_a_fact(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.pass_()
        for time in ("09:00", "10:00"):
            bench.clock.set(time)
            await engine.pass_()
        assert await bench.plans() == ["sums-2026-11-16T09-00"]
        assert await bench.facts() == [("due", "sums"), ("begun", "sums"), ("skipped", "sums")]

    play(tmp_path, use)


def test_a_time_that_was_due_when_the_engine_died_is_begun_by_the_next_one(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        await bench.engine().pass_()
        bench.clock.set("09:00")
        bench.broken = MachineError(Code.STORE_UNAVAILABLE, "the machine is gone")  # as if it died here
        assert await bench.engine().pass_() == 5.0
        assert await bench.plans() == []
        bench.broken = None
        bench.clock.set("09:40")
        await bench.engine().pass_()
        assert await bench.plans() == ["sums-2026-11-16T09-00"]
        assert await bench.facts() == [("due", "sums"), ("begun", "sums")]

    play(tmp_path, use)


def test_who_dies_after_submitting_submits_nothing_else(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        await bench.engine().pass_()
        bench.clock.set("09:00")
        await bench.engine().pass_()
        system = await bench.deps.stores.board("system")  # as if it died before it wrote down that it had begun
        plan_id = "sums-2026-11-16T09-00"
        await system.transact(lambda tx: tx.run(BEGIN_SCHEDULE, name="sums", plan_id=plan_id))
        await bench.end(plan_id)
        changed = HOURLY.model_copy(update={"prompt": "Something else."})
        await bench.engine(sums=changed).pass_()
        assert bench.compiled == [plan_id]
        assert await bench.plans() == []
        assert (await bench.facts())[-1] == ("begun", "sums")

    play(tmp_path, use)


def test_engines_that_look_at_once_begin_one_plan(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engines = [bench.engine() for _ in range(4)]
        await engines[0].pass_()
        bench.clock.set("09:00")
        await asyncio.gather(*(each.pass_() for each in engines))
        assert await bench.plans() == ["sums-2026-11-16T09-00"]
        facts = await bench.facts()
        assert [facts.count(("due", "sums")), facts.count(("begun", "sums"))] == [1, 1]

    play(tmp_path, use)


def test_a_plan_that_is_wrong_is_told_and_the_next_time_is_tried(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.pass_()
        bench.broken = UsageError(Code.FILE_UNREADABLE, "there is no such file")
        bench.clock.set("09:00")
        await engine.pass_()
        [told] = await engine.describe_all()
        assert told["last_problem"] == "there is no such file"
        bench.broken = None
        bench.clock.set("10:00")
        await engine.pass_()
        assert await bench.plans() == ["sums-2026-11-16T10-00"]

    play(tmp_path, use)


def test_schedules_are_added_paused_resumed_run_and_removed(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        said = {"cron": "*/10 * * * *", "timezone": "Asia/Shanghai", "agent": "ada", "prompt": "Look."}
        added = await engine.add("looks", said, by="ada")
        assert (added["from"], added["next_at"]) == ("command", "2026-11-16T08:40:00.000000Z")
        assert (await engine.apply_action("looks", "pause", by="ada"))["changed"]
        assert not (await engine.apply_action("looks", "pause", by="ada"))["changed"]
        bench.clock.set("08:50")
        await engine.pass_()
        assert await bench.plans() == []
        assert (await engine.apply_action("looks", "resume", by="ada"))["changed"]
        await engine.pass_()
        assert await bench.plans() == []  # what was due meanwhile stays undone
        bench.clock.set("09:00")
        await engine.pass_()
        assert await bench.plans() == ["looks-2026-11-16T17-00", "sums-2026-11-16T09-00"]
        now = await engine.apply_action("looks", "run", by="ada")
        assert now["plan_id"].startswith("looks-2026-11-16T17-00-00-by-hand-")
        assert now["plan_id"] in await bench.plans()
        await engine.apply_action("looks", "remove", by="ada")
        assert [each["name"] for each in await engine.describe_all()] == ["sums"]

    play(tmp_path, use)


@pytest.mark.parametrize(
    ("name", "said", "code"),
    [
        ("sums", {}, Code.NAME_TAKEN),
        ("_sums", {}, Code.ID_INVALID),
        ("x" * 97, {}, Code.ID_INVALID),
        ("new", {"timezone": "Mars/Olympus"}, Code.FIELD_VALUE),
        ("new", {"timezone": "../etc/passwd"}, Code.FIELD_VALUE),
        ("new", {"cron": "99 * * * *"}, Code.FIELD_VALUE),
        ("new", {"agent": None}, Code.FIELD_MISSING),
        ("new", {"strange": 1}, Code.FIELD_VALUE),
    ],
)
def test_a_schedule_that_is_wrong_is_not_added(tmp_path: Path, name: str, said: dict[str, Any], code: Code) -> None:
    async def use(bench: Bench) -> None:
        whole = {"cron": "@daily", "agent": "ada", "prompt": "Look.", **said}
        with pytest.raises((UsageError, ContractError)) as caught:
            await bench.engine().add(name, whole, by="ada")
        assert caught.value.code is code
        assert len(await bench.engine().describe_all()) == 1

    play(tmp_path, use)


def test_what_stands_in_the_settings_is_removed_there(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        for action, code in (("remove", Code.NOT_ALLOWED), ("stop", Code.NAME_UNKNOWN)):
            with pytest.raises(UsageError) as caught:
                await bench.engine().apply_action("sums", action, by="ada")
            assert caught.value.code is code
        with pytest.raises(UsageError, match="no schedule 'sum'") as caught:
            await bench.engine().apply_action("sum", "pause", by="ada")
        assert caught.value.hint == "did you mean 'sums'?"
        assert await bench.engine(other=HOURLY).describe_all() != []
        assert [each["name"] for each in await bench.engine(other=HOURLY).describe_all()] == ["other"]

    play(tmp_path, use)


def test_the_loop_sleeps_until_something_is_due(tmp_path: Path) -> None:
    async def use(bench: Bench) -> None:
        engine = bench.engine()
        await engine.pass_()
        bench.clock.time += timedelta(minutes=29, seconds=48)
        assert await engine.pass_() == 12.0
        assert await Scheduler(bench.deps, {}, plan_of).pass_() == 3600.0

    play(tmp_path, use)
