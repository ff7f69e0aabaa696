"""Logs of attempts on workers: read at the engine while the agent runs, whole in spite of faults, never with secrets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.contracts.worker import AttemptName
from agenttalk.engine.agents.transcript import LARGEST
from agenttalk.engine.core import access
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.task_comments import TaskName
from agenttalk.engine.views import task_detail
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.rules.proof.performance import Performance
from engine.fleet.fleetkit import WRITES, DirectLink, Fleet, fleet, script, until, worker
from engine.fleet.test_workers import NOTE, report
from kits.plankit import plan, task

SECRET = "correct-horse-battery"
TELLS = """
import json, time
log = pathlib.Path(os.environ['AGENTTALK_OUTPUTS']).parent
log = log.with_name(log.name + '.events.jsonl')
def tell(text):
    with log.open('a') as file: file.write(json.dumps({'kind': 'text', 'text': text}) + '\\n')
tell('first')
while not pathlib.Path('GO').exists(): time.sleep(0.005)
tell('second SECRET'); tell('third')
WRITES
"""


def telling(go: Path) -> CompiledPlan:
    """A plan whose agent tells something, waits for a file, and tells more."""
    text = TELLS.replace("GO", str(go)).replace("SECRET", SECRET).replace("WRITES", WRITES)
    return plan(task("draft", "far", **NOTE), agents={"far": script(text)})


async def texts(here: Fleet) -> list[str]:
    """What people see of the log."""
    page = await task_detail.read_transcript(here.engine.deps, "p", "draft")
    return [each["text"] for each in page["events"]]


async def accepted(here: Fleet) -> tuple[AttemptName, TaskName, Caller]:
    """An attempt that a worker has, which a test plays."""
    await here.engine.submit(plan(task("draft", "far", **NOTE), agents={"far": script(WRITES)}))
    one = await here.enrol()
    [offer] = (await here.ask(one, wait=20)).offers
    await here.ask(one, report(offer, "accepted"))
    subject = TokenSubject(offer.board, offer.plan_id, offer.task_id, offer.epoch)
    caller = await access.identify_as_worker_attempt(here.engine.deps, one, subject)
    assert caller is not None
    return offer, TaskName(*subject[:3]), caller


def line(text: str) -> bytes:
    return json.dumps({"kind": "text", "text": text}).encode() + b"\n"


def test_a_log_is_read_while_the_agent_runs_and_is_whole_at_the_end(tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            here.engine.deps.secret_guard.register({"THE_KEY": SECRET})
            await here.engine.submit(telling(go))
            link = DirectLink(here, await here.enrol(), lost_log_answers=1)
            async with worker(tmp_path / "w", link) as far:
                while await texts(here) != ["first"]:
                    assert not far.running.done()
                    await asyncio.sleep(0.01)
                go.touch()
                assert (await here.ended()).result == "done"
                await far.idle()
            assert await texts(here) == ["first", f"second {'*' * len(SECRET)}", "third"]
            own, sent = (next((tmp_path / name).rglob("*.events.jsonl")) for name in ("root", "w"))
            assert own.stat().st_size == sent.stat().st_size
            assert SECRET.encode() not in own.read_bytes()

    asyncio.run(play())


def test_the_log_of_a_killed_worker_comes_when_it_is_back(tmp_path: Path) -> None:
    go = tmp_path / "go"

    async def play() -> None:
        async with fleet(tmp_path / "root") as here:
            await here.engine.submit(telling(go))
            link = DirectLink(here, await here.enrol())
            async with worker(tmp_path / "w", link, dies=True):
                await until(lambda: list((tmp_path / "w").rglob("*.events.jsonl")))
                link.is_down = True
            [log] = (tmp_path / "w").rglob("*.events.jsonl")
            with log.open("ab") as file:
                file.write(line("not sent before it died"))
            go.touch()
            link.is_down = False
            async with worker(tmp_path / "w", link) as far:
                assert (await here.ended()).result == "done"
                await far.idle()
            first = task_detail.read_transcript(here.engine.deps, "p", "draft", attempt=1)
            assert "not sent before it died" in [each["text"] for each in (await first)["events"]]

    asyncio.run(play())


def test_a_piece_counts_once_and_only_where_the_log_ends(tmp_path: Path) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            _, name, caller = await accepted(here)
            append, first, second = here.sync.logs.append, line("one"), line("two")
            assert await append(name, caller, 0, first) == len(first)
            assert await append(name, caller, 0, first) == len(first)  # its answer got lost
            assert await append(name, caller, 10**6, second) == len(first)  # a forged offset leaves no hole
            assert await append(name, caller, 0, first + second) == len(first + second)
            assert await append(name, caller, 3, b"x" * 8 + b"\n") == len(first + second)  # nothing is written over
            assert await texts(here) == ["one", "two"]
            for data, code in ((b"half a li", Code.FIELD_VALUE), (b"x" * LARGEST + b"\n", Code.FILE_TOO_LARGE)):
                with pytest.raises(AgentTalkError) as error:
                    await append(name, caller, len(first + second), data)
                assert error.value.code == code
            with pytest.raises(AgentTalkError):
                await append(name._replace(task_id="another"), caller, 0, first)

    asyncio.run(play())


@pytest.mark.parametrize("missing", [0, 5])
def test_what_did_not_arrive_is_shown_as_a_hole(tmp_path: Path, missing: int) -> None:
    async def play() -> None:
        async with fleet(tmp_path) as here:
            _, name, caller = await accepted(here)
            await here.sync.logs.append(name, caller, 0, line("one"))
            offer = here.remote.offers.find(name)
            assert offer is not None
            told: dict[str, Any] = {"count": 2, "bytes": len(line("one")) + missing, "sha256": "sha256:0"}
            closed = await here.sync.logs.close(offer.job, Performance("finished", usage={"events": told}))
            record = closed.usage["events"]
            assert (record.get("missing", 0), record["sent_sha256"]) == (missing, "sha256:0")
            hole = ["the last 5 bytes of this log did not arrive"] if missing else []
            assert await texts(here) == ["one", *hole]

    asyncio.run(play())
