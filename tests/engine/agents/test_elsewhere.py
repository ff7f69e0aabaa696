"""Agents that work elsewhere: taking work, being heard of, handing in, being lost; with restarts in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.engine.agents.offers import AttemptOffer
from agenttalk.engine.agents.remote import ClaimedAttempt, RemoteAgents
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import EngineLimits
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.proof import LEAVE_LEASE, RENEW_LEASE
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.rules.planfile.compiler import CompiledPlan
from kits.plankit import PATIENCE, Engine, engine, plan, task
from kits.standingkit import PlanStanding

NOTE = {"outputs": [{"name": "note.txt", "deliverable": True}]}
REMOTE = {"far": {"driver": "remote"}}


@contextmanager
def refused(*codes: Code) -> Iterator[None]:
    """What is done here is refused, with one of these codes."""
    with pytest.raises(AgentTalkError) as error:
        yield
    assert error.value.code in codes


def one_task(**keys: Any) -> CompiledPlan:
    return plan(task("draft", "far", **{**NOTE, **keys}), agents=REMOTE)


@dataclass
class Far:
    """An engine, and an agent elsewhere that speaks with it."""

    engine: Engine
    remote: RemoteAgents
    name: str = "far"

    async def take(self, key: str | None = None) -> tuple[ClaimedAttempt, Caller, TaskName]:
        taken = await self.remote.claim(self.name, key=key, wait=PATIENCE)
        assert taken is not None
        attempt = TokenSubject(taken["board"], taken["plan_id"], taken["task_id"], taken["epoch"])
        caller = await access.identify_as_attempt(self.engine.deps, Caller("remote", self.name), attempt)
        assert caller is not None
        return taken, caller, TaskName(*attempt[:3])

    def offer(self, name: TaskName) -> AttemptOffer:
        found = self.remote.offers.find(name)
        assert found is not None
        return found

    async def phase(self, wanted: str, task_id: str = "draft") -> None:
        await self.engine.until(lambda found: _of(found, task_id)["phase"] == wanted)


def _of(found: PlanStanding, task_id: str) -> Any:
    return next(each for each in found.tasks if each["task_id"] == task_id)


def _offered_again(times: int, found: PlanStanding) -> bool:
    draft = _of(found, "draft")
    return bool(draft["state"] == "FAILED" or (draft["retries"] > times and draft["phase"] == "offered"))


@asynccontextmanager
async def far(root: Path, *, silence: float = 600.0, max_running: int = 8) -> AsyncIterator[Far]:
    limits = EngineLimits(remote_silence_seconds=silence)
    async with engine(root, max_running=max_running, limits=limits) as running:
        assert running.elsewhere is not None
        yield Far(running, running.elsewhere)


def test_what_is_handed_in_is_what_the_next_task_gets(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            compiled = plan(
                task("draft", "far", outputs=[{"name": "note.txt"}]),
                task("edit", "b", inputs=[{"name": "note", "from": "note.txt"}], needs=["draft"]),
                agents=REMOTE,
            )
            seen: list[bytes] = []

            async def read(turn: Turn) -> str:
                seen.append(turn.read("note"))
                return "read"

            here.engine.agents["b"] = read
            await here.engine.submit(compiled)
            taken, caller, name = await here.take()
            assert (taken["task"], taken["outputs"], taken["inputs"]) == ("p/draft", ["note.txt"], [])
            assert "submit_result" in taken["prompt"]
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"first")
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"second")
            await here.remote.finish(name, caller, {"result": "wrote it"})
            assert (await here.engine.ended()).result == "done"
            assert seen == [b"second"]

    asyncio.run(play())


def test_until_it_is_taken_the_plan_waits_and_takes_no_place(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path, max_running=1) as here:
            await here.engine.submit(one_task())
            assert (await here.engine.ended()).result == "waiting"
            await here.engine.submit(plan(task("other", "b"), plan_id="q"))
            assert (await here.engine.ended("q")).result == "done"
            _, caller, name = await here.take()
            found = await here.engine.until(lambda found: _of(found, "draft")["phase"] == "elsewhere")
            assert found.result == "running"
            await here.engine.submit(plan(task("other", "b"), plan_id="r"))
            assert (await here.engine.ended("r")).result == "done"
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"x")
            await here.remote.finish(name, caller, {"result": "ok"})
            assert (await here.engine.ended()).result == "done"

    asyncio.run(play())


def test_a_result_without_its_outputs_is_not_done(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            await here.remote.finish(name, caller, {"result": "done, all tests pass", "evidence": ["output:note.txt"]})
            again, _, _ = await here.take()
            assert again["command"]["command_seq"] == 2
            assert "What to fix" in again["prompt"]
            assert "declared but missing: note.txt" in again["prompt"]

    asyncio.run(play())


def test_a_failure_that_is_told_counts_as_one(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            await here.remote.finish(name, caller, {"error": "the model is gone"})
            found = await here.engine.ended()
            assert (found.result, _of(found, "draft")["reason"]) == ("failed", "the model is gone")

    asyncio.run(play())


def test_who_is_not_heard_of_is_lost_and_what_it_sends_later_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path, silence=0.05) as here:
            await here.engine.submit(one_task())
            taken, caller, name = await here.take()
            await here.engine.until(lambda found: _of(found, "draft")["retries"] == 1)
            with refused(Code.LEASE_LOST, Code.NOT_ALLOWED):
                await here.remote.submit(name, caller, "note.txt", "note.txt", b"late")
            here.remote._patience = 600.0
            again, second, name = await here.take()
            assert again["epoch"] > taken["epoch"]
            with refused(Code.LEASE_LOST, Code.NOT_ALLOWED):
                await here.remote.finish(name, caller, {"result": "late"})
            await here.remote.submit(name, second, "note.txt", "note.txt", b"in time")
            await here.remote.finish(name, second, {"result": "ok"})
            found = await here.engine.ended()
            assert (found.result, _of(found, "draft")["attempt"]) == ("done", 2)

    asyncio.run(play())


def test_an_agent_that_is_lost_again_and_again_fails_its_task(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path, silence=0.02) as here:
            await here.engine.submit(one_task())
            for number in range(4):
                await here.take()
                await here.engine.until(partial(_offered_again, number))
            found = await here.engine.ended()
            assert found.result == "failed"
            assert "far was silent for" in _of(found, "draft")["reason"]

    asyncio.run(play())


def test_signs_of_life_keep_an_attempt(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path, silence=0.2) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            loop = asyncio.get_running_loop()
            offer = here.offer(name)
            for _ in range(5):
                here.remote.record_heartbeat(caller)
                assert loop.time() - offer.heard < 0.2
                offer.heard = loop.time() + 1000  # as if it had just been heard of, however slow this machine is
            stranger = replace(caller, attempt=TokenSubject(*name, 99))
            before = offer.heard
            here.remote.record_heartbeat(stranger)
            assert offer.heard == before
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"x")
            await here.remote.finish(name, caller, {"result": "ok"})
            found = await here.engine.ended()
            assert (found.result, _of(found, "draft")["attempt"]) == ("done", 1)

    asyncio.run(play())


def test_a_time_limit_ends_it_however_often_it_is_heard_of(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task(timeout=1))
            await here.take()
            found = await here.engine.ended()
            assert (found.result, "1 seconds" in _of(found, "draft")["reason"]) == ("failed", True)

    asyncio.run(play())


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_restart_goes_on_with_the_same_attempt(tmp_path: Path, how: str) -> None:
    async def before() -> tuple[Caller, TaskName]:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take("key-1")
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"before")
            if how == "killed":  # the next process sees an owner that is dead
                store = await here.engine.deps.stores.board("default")
                dead = '{"boot_id":"gone","pid":1,"started":1}'
                rows = await store.read(TASK, plan_id="p", task_id="draft")
                about: dict[str, Any] = {"plan_id": "p", "task_id": "draft", "owner": dead}
                about |= {"epoch": rows[0].epoch, "lease": rows[0].lease}
                await here.engine.dispatcher.close()
                await store.transact(lambda tx: tx.run(LEAVE_LEASE, **about))
            return caller, name

    async def after(caller: Caller, name: TaskName) -> None:
        async with far(tmp_path) as here:
            await here.phase("elsewhere")
            async with asyncio.timeout(PATIENCE):
                while not (await here.remote.describe_offers("far"))["taken"]:  # noqa: ASYNC110 - it begins by itself
                    await asyncio.sleep(0.01)
            again = await here.remote.claim("far", key="key-1")
            assert again is not None
            assert (again["epoch"], again["token"]) == (caller.attempt.epoch if caller.attempt else 0, None)
            await here.remote.finish(name, caller, {"result": "ok"})
            found = await here.engine.ended()
            assert (found.result, _of(found, "draft")["attempt"]) == ("done", 1)

    caller, name = asyncio.run(before())
    asyncio.run(after(caller, name))


def test_a_result_that_was_committed_survives_whoever_took_it(tmp_path: Path) -> None:
    """The engine dies between the answer to the agent and the end of the turn."""

    async def before() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"kept")
            here.offer(name).ended = asyncio.Event()  # nobody is told any more
            here.offer(name).ended.set = lambda: None  # type: ignore[method-assign]
            await here.remote.finish(name, caller, {"result": "ok"})

    async def after() -> None:
        async with far(tmp_path) as here:
            found = await here.engine.ended()
            assert (found.result, _of(found, "draft")["attempt"]) == ("done", 1)

    asyncio.run(before())
    asyncio.run(after())


def test_an_offer_that_nobody_took_outlives_any_number_of_engines(tmp_path: Path) -> None:
    async def offer(*, submit: bool) -> None:
        async with far(tmp_path) as here:
            if submit:
                await here.engine.submit(one_task())
            await here.phase("offered")

    async def take() -> None:
        async with far(tmp_path) as here:
            _, caller, name = await here.take()
            await here.remote.submit(name, caller, "note.txt", "note.txt", b"x")
            await here.remote.finish(name, caller, {"result": "ok"})
            assert (await here.engine.ended()).result == "done"

    for number in range(5):
        asyncio.run(offer(submit=number == 0))
    asyncio.run(take())


def test_one_agent_has_one_task_and_the_same_key_the_same_answer(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(plan(task("draft", "far", **NOTE), task("more", "far"), agents=REMOTE))
            first, caller, name = await here.take("key-1")
            again = await here.remote.claim("far", key="key-1")
            assert again is not None
            assert (again["epoch"], again["token"], again["task"]) == (first["epoch"], first["token"], first["task"])
            for key in (None, "key-2"):
                with refused(Code.STORE_CONFLICT):
                    await here.remote.claim("far", key=key)
            told = await here.remote.describe_offers("far")
            assert [each["task"] for each in told["taken"]] == [first["task"]]
            assert len(told["queued"]) == 1
            assert await here.remote.claim("somebody") is None
            await here.remote.finish(name, caller, {"error": "no"})
            second, _, _ = await here.take("key-3")
            assert second["task"] != first["task"]

    asyncio.run(play())


def test_only_what_the_task_declares_is_taken_and_only_inside_of_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            for output, path, code in (
                ("other.txt", "other.txt", Code.NAME_UNKNOWN),
                ("note.txt", "../note.txt", Code.PATH_OUTSIDE_FOLDER),
                ("note.txt", "/etc/passwd", Code.PATH_OUTSIDE_FOLDER),
                ("note.txt", "", Code.PATH_OUTSIDE_FOLDER),
            ):
                with refused(code):
                    await here.remote.submit(name, caller, output, path, b"x")
            with refused(Code.NAME_UNKNOWN):
                await here.remote.read_input(name, caller, "nothing", "here")
            here.engine.deps.secret_guard.register({"API_KEY": "hunter2hunter2"})
            with refused(Code.SECRET_EXPOSED):
                await here.remote.submit(name, caller, "note.txt", "note.txt", b"the key is hunter2hunter2")

    asyncio.run(play())


def test_a_result_is_given_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            here.offer(name).ended.set = lambda: None  # type: ignore[method-assign]
            first = await here.remote.finish(name, caller, {"result": "a"})
            assert await here.remote.finish(name, caller, {"result": "a"}) == first
            with refused(Code.STORE_CONFLICT):
                await here.remote.finish(name, caller, {"result": "b"})
            with refused(Code.STORE_CONFLICT):
                await here.remote.submit(name, caller, "note.txt", "note.txt", b"x")

    asyncio.run(play())


def test_a_plan_that_is_called_off_ends_what_is_done_elsewhere(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            await here.engine.dispatcher.operator.cancel("p", by="ada")
            assert caller.attempt is not None
            assert await access.identify_as_attempt(here.engine.deps, Caller("remote", "far"), caller.attempt) is None
            with refused(Code.LEASE_LOST, Code.NOT_ALLOWED):
                await here.remote.finish(name, caller, {"result": "late"})
            assert (await here.engine.ended()).state == "ENDED"

    asyncio.run(play())


def test_nobody_acts_for_an_attempt_of_another_agent_or_of_this_machine(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            began, goes_on = asyncio.Event(), asyncio.Event()

            async def slow(_: Any) -> str:
                began.set()
                await goes_on.wait()
                return "ok"

            here.engine.agents["b"] = slow
            await here.engine.submit(plan(task("draft", "far", **NOTE), task("near", "b"), agents=REMOTE))
            taken, caller, name = await here.take()
            await began.wait()
            assert caller.attempt is not None
            deps = here.engine.deps
            assert await access.identify_as_attempt(deps, Caller("remote", "b"), caller.attempt) is None
            assert (
                await access.identify_as_attempt(deps, Caller("remote", "b"), TokenSubject("default", "p", "near", 1))
                is None
            )
            assert (
                await access.identify_as_attempt(deps, Caller("remote", "far"), TokenSubject(*name, taken["epoch"] + 1))
                is None
            )
            local = Caller("agent", "b", TokenSubject("default", "p", "near", 1), "x")
            with refused(Code.NOT_ALLOWED):
                await here.remote.submit(TaskName("default", "p", "near"), local, "x", "x", b"")
            goes_on.set()

    asyncio.run(play())


def test_once_it_is_decided_that_an_agent_is_lost_nothing_more_is_taken(tmp_path: Path) -> None:
    """Between that decision and the end of the turn, the lease is still there."""

    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            _, caller, name = await here.take()
            job = here.offer(name).job
            assert [row[0] for row in await here.remote._records.close(job)] == ["claim"]
            for late in (
                here.remote.finish(name, caller, {"result": "late"}),
                here.remote.submit(name, caller, "note.txt", "note.txt", b"late"),
            ):
                with refused(Code.LEASE_LOST):
                    await late
            assert [row[0] for row in await here.remote._records.read_rows(job)] == ["claim", "lost"]

    asyncio.run(play())


def test_a_write_is_refused_in_its_transaction_when_another_server_has_the_task_by_then(tmp_path: Path) -> None:
    async def play() -> None:
        async with far(tmp_path) as here:
            await here.engine.submit(one_task())
            taken, caller, name = await here.take()
            job = here.offer(name).job
            store = await here.engine.deps.stores.board("default")
            other = {
                "lease": "lease_other",
                "owner": '{"boot_id":"gone","pid":1,"started":1}',
                "token": "x",
                "at": "2026",
            }
            held: dict[str, str | int] = {"epoch": taken["epoch"], "old": job.lease, "deaths": 0}
            about = {"plan_id": "p", "task_id": "draft", **held, **other}
            assert await store.transact(lambda tx: tx.run(RENEW_LEASE, **about))
            for late in (
                here.remote.finish(name, caller, {"result": "late"}),
                here.remote.submit(name, caller, "note.txt", "note.txt", b"late"),
            ):
                with refused(Code.LEASE_LOST):
                    await late
            assert [row[0] for row in await here.remote._records.read_rows(job)] == ["claim"]

    asyncio.run(play())
