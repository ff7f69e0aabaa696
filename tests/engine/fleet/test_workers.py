"""Workers: what they are offered, run and hand in, and every fault between them and their engine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.contracts.worker import AttemptName, AttemptReport, Enrolment, JobInput, WorkerResult
from agenttalk.engine.agents.performances import performance_to_json
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.views.explain_engine_task import explain_engine_task
from agenttalk.ports.statements.messages import VIEWS_UNDER
from agenttalk.rules.fleet.quarantine import MOST_FAILURES
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.rules.proof.performance import Performance
from engine.fleet.fleetkit import FACTS, WRITES, DirectLink, fleet, script, until, worker
from kits.plankit import plan, states, task

NOTE = {"outputs": [{"name": "note.txt", "deliverable": True}]}
HANGS = "import time; print('begun', flush=True); time.sleep(3600)"


def one_task(text: str = WRITES, **keys: Any) -> CompiledPlan:
    return plan(task("draft", "far", **NOTE), agents={"far": script(text, **keys)})


@contextmanager
def refused(*codes: Code) -> Iterator[None]:
    with pytest.raises(AgentTalkError) as error:
        yield
    assert error.value.code in codes


def report(name: AttemptName, phase: str, **keys: Any) -> AttemptReport:
    return AttemptReport.from_json({**name.as_json(), "phase": phase, **keys})


def made(performance: Performance) -> WorkerResult:
    return WorkerResult(sha256=f"sha256:{'0' * 64}", performance=performance_to_json(performance))


def is_spooled(folder: Path) -> bool:
    """Whether a result is on the disk."""
    return any(b'"performance"' in path.read_bytes() for path in folder.glob("*.json"))


def test_what_a_worker_makes_is_what_the_next_task_gets(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            seen: list[bytes] = []

            async def read(turn: Turn) -> str:
                seen.append(turn.read("note"))
                return "read"

            here.engine.agents["b"] = read
            compiled = plan(
                task("draft", "far", outputs=[{"name": "note.txt"}]),
                task("edit", "b", inputs=[{"name": "note", "from": "note.txt"}], needs=["draft"]),
                agents={"far": script(WRITES)},
            )
            await here.engine.submit(compiled)
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link) as far:
                assert (await here.ended()).result == "done"
                await far.idle()
            assert seen == [b"from afar"]
            assert list((tmp_path / "w" / "spool").iterdir()) == []

    asyncio.run(play())


def test_a_worker_gets_the_inputs_of_its_task(tmp_path: Path) -> None:
    reads = "text = next(pathlib.Path(os.environ['AGENTTALK_INPUTS']).rglob('note.txt')).read_text()\n"
    reads += "(pathlib.Path(os.environ['AGENTTALK_OUTPUTS']) / 'copy.txt').write_text(text.upper()); print('ok')"

    async def play() -> None:
        async with fleet(tmp_path / "root") as here:

            async def write(turn: Turn) -> str:
                turn.outputs["note.txt"] = "hello"
                return "wrote"

            here.engine.agents["b"] = write
            compiled = plan(
                task("draft", "b", outputs=[{"name": "note.txt"}]),
                task("copy", "far", inputs=[{"name": "note", "from": "note.txt"}], needs=["draft"],
                     outputs=[{"name": "copy.txt", "deliverable": True}]),
                agents={"far": script(reads)},
            )  # fmt: skip
            await here.engine.submit(compiled)
            async with worker(tmp_path / "w", DirectLink(here, await here.enrol())):
                assert (await here.ended()).result == "done"

    asyncio.run(play())


def test_an_offer_that_never_arrived_is_made_again_under_the_same_epoch(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            await here.engine.submit(one_task())
            one, two = await here.enrol("one"), await here.enrol("two")
            [first] = (await here.ask(one, wait=20)).offers
            assert (await here.ask(two)).offers == ()  # it is offered to one at a time
            [again] = (await here.ask(one)).offers
            assert again == first
            await here.ask(one, slots=0)  # it does not want it
            [other] = (await here.ask(two)).offers
            assert other == first
            late = await here.ask(one, report(first, "accepted"))
            assert [each.do for each in late.desired] == ["stop"]
            [taken] = (await here.ask(two, report(other, "accepted"))).desired
            assert (taken.do, taken.job is not None) == ("run", True)

    asyncio.run(play())


def test_only_one_of_two_workers_that_know_of_an_offer_runs_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path, ttl=0.02) as here:  # an offer waits for its worker no longer than that
            await here.engine.submit(one_task())
            one, two = await here.enrol("one"), await here.enrol("two")
            [first] = (await here.ask(one, wait=20)).offers
            [second] = (await here.ask(two, wait=20)).offers
            assert first == second
            [taken] = (await here.ask(two, report(second, "accepted"))).desired
            [late] = (await here.ask(one, report(first, "accepted"))).desired
            assert (taken.do, late.do) == ("run", "stop")

    asyncio.run(play())


@pytest.mark.rest_but("3")
@pytest.mark.parametrize("lost", range(1, 6))
def test_answers_that_get_lost_change_nothing(tmp_path: Path, lost: int) -> None:
    counts = f"with open({str(tmp_path / 'runs')!r}, 'a') as file: file.write('x')\n{WRITES}"

    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            await here.engine.submit(one_task(counts))
            link = DirectLink(here, await here.enrol(), lost_answers=lost)
            async with worker(tmp_path / "w", link) as far:
                assert (await here.ended()).result == "done"
                await far.idle()
            assert (tmp_path / "runs").read_text() == "x"

    asyncio.run(play())


def test_a_worker_that_does_not_reach_its_engine_ends_its_programs_by_its_own_clock(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    writes = f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n{HANGS}"

    async def play() -> None:
        async with fleet(tmp_path / "root", ttl=0.4) as here:
            await here.engine.submit(one_task(writes, limits={"processes": 100}))
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link, dies=True) as far:
                await far.phase("running")
                await until(lambda: pid.exists() and pid.read_text())
                link.is_down = True
                far.clock.now += 1.0
                await until(lambda: not Path(f"/proc/{pid.read_text()}").exists())
                await here.engine.until(lambda found: found.tasks[0]["retries"] >= 1)  # the engine gave it up by itself

    asyncio.run(play())


def test_an_agent_may_go_on_longer_without_its_engine_and_its_engine_waits_longer(tmp_path: Path) -> None:
    go = tmp_path / "go"
    text = f"import time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.005)\n{WRITES}"

    async def play() -> None:
        async with fleet(tmp_path / "root", ttl=0.4) as here:
            await here.engine.submit(one_task(text, worker_ttl_seconds=3600))
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link) as far:
                await far.phase("running")
                link.is_down = True
                far.clock.now += 1000.0
                while (await here.sync.describe())[0]["liveness"] != "lost":
                    assert not far.running.done()
                    await asyncio.sleep(0.01)
                assert [each.phase for each in far.process.attempts] == ["running"]
                link.is_down = False
                go.touch()
                found = await here.ended()
                assert (found.result, found.tasks[0]["retries"]) == ("done", 0)

    asyncio.run(play())


def test_a_result_of_a_lost_attempt_does_not_count_and_is_not_asked_for_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path, ttl=0.4) as here:
            await here.engine.submit(one_task())
            one = await here.enrol()
            [old] = (await here.ask(one, wait=20)).offers
            [taken] = (await here.ask(one, report(old, "accepted"))).desired
            assert taken.do == "run"
            await here.engine.until(
                lambda found: found.tasks[0]["phase"] == "offered" and found.tasks[0]["retries"] == 1
            )
            result = made(Performance("finished", result="late"))
            answer = await here.ask(one, report(old, "ended", result=result.as_json()), slots=0)
            assert answer.acknowledged == (result.sha256,)
            assert [each.do for each in answer.desired] == ["stop"]
            [new] = (await here.ask(one, wait=20)).offers
            assert new.epoch == old.epoch + 1

    asyncio.run(play())


def test_a_worker_can_claim_nothing_that_it_was_not_offered(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            await here.engine.submit(one_task())
            one, other = await here.enrol("one"), await here.enrol("two", pool="else")
            [offer] = (await here.ask(one, wait=20)).offers
            assert (await here.ask(other)).offers == ()
            forged = AttemptName.from_json({**offer.as_json(), "epoch": offer.epoch + 1})
            for name in (offer, forged):
                [answer] = (await here.ask(other, report(name, "accepted"))).desired
                assert answer.do == "stop"
            [mine] = (await here.ask(one, report(offer, "accepted"))).desired
            assert mine.do == "run"
            result = made(Performance("finished", result="forged")).as_json()
            await here.ask(other, report(offer, "ended", result=result))
            [still] = (await here.ask(one, report(offer, "running"))).desired
            assert still.do == "run"

    asyncio.run(play())


def test_a_worker_that_says_it_lost_an_attempt_frees_it_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            await here.engine.submit(one_task())
            one = await here.enrol()
            [old] = (await here.ask(one, wait=20)).offers
            await here.ask(one, report(old, "accepted"))
            [answer] = (await here.ask(one, report(old, "gone"), slots=0)).desired
            assert answer.do == "stop"
            [new] = (await here.ask(one, wait=20)).offers
            assert new.epoch == old.epoch + 1

    asyncio.run(play())


def test_an_engine_that_ends_finds_the_attempt_and_its_result_again(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path / "root") as first:
            await first.engine.submit(one_task())
            one = await first.enrol()
            [offer] = (await first.ask(one, wait=20)).offers
            [taken] = (await first.ask(one, report(offer, "accepted"))).desired
            assert taken.job is not None
        async with fleet(tmp_path / "root") as second:
            [again] = (await second.ask(one, report(offer, "running"))).desired
            assert again.do == "run"
            link, path = DirectLink(second, one), "note.txt"
            await until(lambda: second.remote.offers.find(TaskName(offer.board, offer.plan_id, offer.task_id)))
            await link.submit_file(offer, path, path, b"here")
            result = made(Performance("finished", result="done"))
            answer = await second.ask(one, report(offer, "ended", result=result.as_json()))
            assert answer.acknowledged == (result.sha256,)
            assert (await second.ended()).result == "done"

    asyncio.run(play())


def test_a_worker_that_died_with_a_result_hands_it_in_when_it_is_back(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            await here.engine.submit(one_task())
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link, dies=True) as far:
                await far.phase("running")
                link.is_down = True  # nothing is handed in any more
                await far.phase("handing_in")
                await until(lambda: is_spooled(tmp_path / "w" / "spool"))
            link.is_down = False
            async with worker(tmp_path / "w", link) as far:
                assert (await here.ended()).result == "done"
                await far.idle()

    asyncio.run(play())


def test_a_worker_that_died_at_work_says_so_when_it_is_back(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            await here.engine.submit(one_task(f"""
if not pathlib.Path({str(tmp_path / 'second')!r}).exists(): import time; time.sleep(3600)
{WRITES}"""))  # fmt: skip
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link, dies=True) as far:
                await far.phase("running")
                await until(lambda: list((tmp_path / "w" / "spool").glob("*.json")))
                link.is_down = True
            (tmp_path / "second").touch()
            link.is_down = False
            async with worker(tmp_path / "w", link):
                found = await here.ended()
                assert (found.result, found.tasks[0]["retries"]) == ("done", 1)

    asyncio.run(play())


def test_a_plan_that_is_called_off_ends_its_program_at_the_worker(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            await here.engine.submit(one_task(HANGS))
            async with worker(tmp_path / "w", DirectLink(here, await here.enrol())) as far:
                await far.phase("running")
                await here.engine.dispatcher.operator.cancel("p", by="ada")
                await far.idle()

    asyncio.run(play())


def test_syncs_go_on_while_a_worker_is_slow_to_begin(tmp_path: Path) -> None:
    class SlowLink(DirectLink):
        async def fetch_input(self, attempt: AttemptName, file: JobInput) -> bytes:
            await here_it_is.wait()
            return await super().fetch_input(attempt, file)

    here_it_is = asyncio.Event()

    async def play() -> None:
        async with fleet(tmp_path / "root") as here:

            async def write(turn: Turn) -> str:
                turn.outputs["note.txt"] = "hello"
                return "wrote"

            here.engine.agents["b"] = write
            given = {"inputs": [{"name": "note", "from": "note.txt"}], "needs": ["draft"], **NOTE}
            tasks = [task("draft", "b", outputs=[{"name": "note.txt"}]), task("copy", "far", **given)]
            await here.engine.submit(plan(*tasks, agents={"far": script(WRITES)}))
            link = SlowLink(here, await here.enrol())
            async with worker(tmp_path / "w", link) as far:
                await until(lambda: "running" in {each.phase for asked in link.asked for each in asked.attempts})
                assert [each.phase for each in far.process.attempts] == ["running"]
                here_it_is.set()
                assert (await here.ended()).result == "done"

    asyncio.run(play())


def test_a_worker_that_drains_speaks_on_until_its_work_is_handed_in(tmp_path: Path) -> None:
    go = tmp_path / "go"
    text = f"import time\nwhile not pathlib.Path({str(go)!r}).exists(): time.sleep(0.005)\n{WRITES}"

    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            tasks = [task("draft", "far", **NOTE), task("after", "far", needs=["draft"])]
            await here.engine.submit(plan(*tasks, agents={"far": script(text)}))
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link) as far:
                await far.phase("running")
                far.process.drain()
                await until(lambda: link.asked[-1].draining and link.asked[-1].attempts)
                go.touch()
                await far.running
            found = await here.engine.until(lambda found: states(found)["draft"] == "COMPLETED")
            assert states(found)["after"] == "RUNNING"  # offered, and not taken

    asyncio.run(play())


def test_what_a_worker_says_of_an_attempt_that_ended_changes_nothing(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            await here.engine.submit(plan(task("draft", "far"), agents={"far": script("print('ok')")}))
            one = await here.enrol()
            [offer] = (await here.ask(one, wait=20)).offers
            await here.ask(one, report(offer, "accepted"))
            result = made(Performance("finished", result="done")).as_json()
            await here.ask(one, report(offer, "ended", result=result))
            assert (await here.ended()).result == "done"
            for phase in ("running", "gone", "accepted"):
                [answer] = (await here.ask(one, report(offer, phase))).desired
                assert answer.do == "stop"
            other = made(Performance("crashed", error="no")).as_json()
            await here.ask(one, report(offer, "ended", result=other))
            found = await here.ended()
            assert (found.result, states(found)) == ("done", {"draft": "COMPLETED"})

    asyncio.run(play())


def test_a_worker_that_fails_by_itself_again_and_again_gets_no_more_work(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            tasks = [task(f"t{number}", "far", retry_times=1) for number in range(MOST_FAILURES)]
            await here.engine.submit(plan(*tasks, agents={"far": script(WRITES)}))
            one = await here.enrol()
            failed = made(Performance("not_started", error="no disk"))
            for _ in range(MOST_FAILURES):
                [offer] = (await here.ask(one, wait=20)).offers
                await here.ask(one, report(offer, "accepted"))
                await here.ask(one, report(offer, "ended", result=failed.as_json()), slots=0)
            while (await here.sync.workers.list_all())[0].state == "active":
                assert (await here.ask(one, slots=0)).offers == ()
            assert (await here.sync.describe())[0]["state"] == "quarantined"
            assert (await here.ask(one)).offers == ()
            await here.sync.workers.set_state("one", "active", by="ada")
            assert (await here.sync.describe())[0]["failures"] == 0

    asyncio.run(play())


def test_a_drained_worker_a_paused_pool_and_a_missing_label_get_nothing_and_it_is_said_why(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            await here.engine.submit(one_task(needs=["gpu"]))
            plain, able = await here.enrol("plain"), await here.enrol("able", "gpu")
            await here.ask(plain)
            await here.ask(able)
            await here.engine.until(lambda found: found.tasks[0]["phase"] == "offered")
            told = await explain_engine_task(here.engine.deps, "p", "draft")
            assert told["moves_on"].startswith(
                "it begins when a worker of the pool far is online and has a free place: 'able'"
            )
            await here.sync.workers.pause_pool("far", paused=True, by="ada")
            assert (await here.ask(able)).offers == ()
            await here.sync.workers.pause_pool("far", paused=False, by="ada")
            await here.sync.workers.set_state("able", "draining", by="ada")
            assert (await here.ask(able)).offers == ()
            await here.sync.workers.set_state("able", "active", by="ada")
            waiting = asyncio.create_task(here.ask(able, wait=20))
            await asyncio.sleep(0)
            assert len((await waiting).offers) == 1
            assert (await here.ask(plain)).offers == ()

    asyncio.run(play())


def test_it_is_said_when_the_workers_of_a_pool_are_silent_or_busy(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            compiled = plan(*[task(name, "far") for name in ("one", "two")], agents={"far": script(WRITES)})
            await here.engine.submit(compiled)
            await here.engine.until(lambda found: found.tasks[0]["phase"] == "offered")
            worker_id = await here.enrol("able")

            async def why() -> str:
                return str((await explain_engine_task(here.engine.deps, "p", "one"))["moves_on"])

            assert "'able'" in await why()  # of workers that an engine has not heard of yet it says nothing
            await here.ask(await here.enrol("other"), slots=0)
            assert "able is lost" in await why()
            await here.ask(worker_id, slots=0)
            assert "able has 0 free places" in await why()
            [waiting] = [each for each in await here.sync.list_waiting() if each["task_id"] == "one"]
            assert (waiting["pool"], waiting["agent_id"]) == ("far", "far")
            assert "able has 0 free places" in waiting["why"]
            await here.ask(worker_id)
            assert "'able'" in await why()

    asyncio.run(play())


def test_people_are_alerted_to_a_task_that_no_worker_takes(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path, alert=0.01) as here:
            await here.engine.submit(one_task(needs=["gpu"]))
            await here.enrol("plain")
            board = await here.engine.deps.stores.board("default")
            while not (rows := await board.read(VIEWS_UNDER, first="alerts/p/", last="alerts/p/~")):  # noqa: ASYNC110 - the store announces no alerts
                await asyncio.sleep(0.005)
            [alert] = [bytes(row.body or b"").decode() for row in rows]
            assert "WORKER_MISSING" in alert
            assert "lacks the label 'gpu'" in alert

    asyncio.run(play())


def test_an_invitation_is_good_for_one_worker_and_a_removed_one_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            workers = here.sync.workers
            token, mine, other = f"inv_{'x' * 30}", f"{'a' * 43}", f"{'b' * 43}"
            await workers.invite(token, "far", ["gpu"], by="ada")
            enrolment = Enrolment(protocol=1, name="one", public_key=mine, facts=FACTS)
            first = await workers.enrol(token, enrolment)
            assert (first.pool, first.labels) == ("far", ("gpu",))
            assert (await workers.enrol(token, enrolment)).worker == first.worker  # the answer may have got lost
            with refused(Code.TOKEN_REFUSED):
                await workers.enrol(token, enrolment.model_copy(update={"public_key": other}))
            with refused(Code.TOKEN_REFUSED):
                await workers.enrol(f"inv_{'y' * 30}", enrolment)
            with refused(Code.OPTION_INVALID):
                await workers.enrol(token, enrolment.model_copy(update={"protocol": 7}))
            await workers.set_state("one", "removed", by="ada")
            with refused(Code.TOKEN_REFUSED):
                await here.ask(first.worker)
            with refused(Code.NAME_UNKNOWN):
                await workers.set_state("one", "active", by="ada")

    asyncio.run(play())


def test_a_worker_without_the_driver_does_not_make_the_task_fail_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            await here.engine.submit(one_task())
            one = await here.enrol("one", facts=FACTS.model_copy(update={"drivers": ("llm",)}))
            assert (await here.ask(one)).offers == ()
            found = await here.engine.until(lambda found: found.tasks[0]["phase"] == "offered")
            assert states(found) == {"draft": "RUNNING"}

    asyncio.run(play())


def test_workers_that_ask_at_the_same_time_are_offered_different_tasks(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            tasks = [task(f"t{number}", f"far{number}") for number in range(4)]
            await here.engine.submit(plan(*tasks, agents={f"far{number}": script("print('x')") for number in range(4)}))
            names = [await here.enrol(f"w{number}") for number in range(4)]
            await here.engine.until(lambda found: all(each["phase"] == "offered" for each in found.tasks))
            answers = await asyncio.gather(*(here.ask(name, wait=20) for name in names))
            assert len({each.task_id for answer in answers for each in answer.offers}) == 4

    asyncio.run(play())
