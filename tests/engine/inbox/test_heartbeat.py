"""An agent's heartbeat: commands run, what came out is handed over, and every end is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.mailbox.watch import FolderWatcher
from agenttalk.contracts.errors import UsageError
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages.router import Router
from agenttalk.engine.people import questions
from agenttalk.ports.agents import ProgramTurn, TurnEnd
from agenttalk.ports.statements.inbox import STAGES_OF
from agenttalk.ports.statements.messages import DELIVERY_OF, VIEW_BODY, WITHDRAW
from agenttalk.ports.statements.people import OPEN_REQUESTS
from kits.agentkit import WRITES, Desk, replace_driver
from kits.standingkit import explain_json
from kits.treekit import Tree

TELLS = """
import json, os, pathlib, sys
here = pathlib.Path(os.environ["AGENTTALK_RESULT"]).parent
told = {"env": dict(os.environ), "prompt": sys.stdin.read(), "cwd": os.getcwd()}
inputs = pathlib.Path(os.environ["AGENTTALK_INPUTS"])
told["inputs"] = {str(p.relative_to(inputs)): p.read_text() for p in inputs.rglob("*") if p.is_file()}
told["command"] = json.loads(pathlib.Path(os.environ["AGENTTALK_COMMAND"]).read_text())
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(json.dumps({"result": told, "score": 80}))
"""
FAILS = "import sys; sys.exit('no luck')"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(Tree(tmp_path))


class Played:
    """A driver that does what a test says."""

    def __init__(self, play: Callable[[ProgramTurn], Awaitable[TurnEnd]]) -> None:
        self.turns: list[ProgramTurn] = []
        self._play = play

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        self.turns.append(turn)
        return await self._play(turn)


def ended(exit_code: int = 0, stdout: bytes = b"") -> TurnEnd:
    return TurnEnd("finished", exit_code, stdout, b"", 0.1)


def told(desk: Desk, message_id: str) -> Any:
    [fact] = desk.facts(message_id, "turn.ended")
    return fact["result"]


def test_a_command_runs_and_its_output_is_handed_over_with_a_receipt(desk: Desk) -> None:
    desk.program(WRITES)
    message_id = desk.command()
    tick = desk.once()
    assert (tick.claimed, tick.ran, tick.failed, tick.errors) == (1, 1, 0, [])
    [envelope] = desk.envelopes()
    assert (envelope["output_name"], envelope["command_id"]) == ("made.txt", "cmd_build_001")
    [file] = envelope["payload"]["files"]
    assert desk.outbox(file["path"]).read_text(encoding="utf-8") == "made"
    assert desk.ack(message_id)["status"] == "SUCCEEDED"
    assert desk.names(".pending") == []
    assert desk.names(".processed") == [f"{message_id}__cmd_build_001.msg.json"]
    assert (desk.task()["state"], desk.task()["lease"]) == ("COMPLETED", None)
    [fact] = desk.facts(message_id, "turn.ended")
    assert (fact["result"], fact["exit_code"], fact["cause"]) == ("fine\n", 0, "FULFILLED")
    assert json.loads(desk.outbox("task_state_build.json").read_bytes())["state"] == "COMPLETED"


def test_a_program_that_goes_in_circles_is_stopped_as_in_a_plan_of_the_engine(desk: Desk) -> None:
    desk.program(
        """
        import json, time
        while True:
            print(json.dumps({"agenttalk": {"progress": "reads the file"}}), flush=True)
            time.sleep(0.005)
        """.replace("\n        ", "\n")
    )
    message_id = desk.command(retry_times=3)
    assert desk.once().failed == 1
    ack = desk.ack(message_id)
    assert (ack["status"], desk.task()["attempt"]) == ("FAILED", 1)
    assert ack["result"]["details"] == "COMMAND_FAILED: stuck: the same 20 times: 'reads the file'"
    [fact] = desk.facts(message_id, "turn.ended")
    assert (fact["how"], fact["cause"]) == ("aborted", "ABORTED")


def test_the_same_again_does_nothing(desk: Desk) -> None:
    desk.program(WRITES)
    desk.command()
    desk.once()
    again = desk.once()
    assert not again.has_worked
    assert len(desk.envelopes()) == 1


@pytest.mark.shows("X07")
def test_a_program_sees_its_inputs_its_command_and_nothing_else_of_ours(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOBODYS", "business")
    desk.program(TELLS, prompt="You are a builder.", env=["HANDED", "AGENTTALK__STORE__URL"])
    desk.artifact("design", "design.md", {"design.md": b"Blue."})
    message_id = desk.command(required_inputs=["design.md"], wait_for_inputs=True, prompt="Build it.")
    environ = {"HANDED": "over", "AGENTTALK__STORE__URL": "secret"}
    desk.once(environ=environ, api=EngineAddress("http://127.0.0.1:8083", "/run/agenttalk.sock"))
    seen = told(desk, message_id)
    assert seen["inputs"] == {"design.md/design.md": "Blue."}
    assert seen["command"]["command_id"] == "cmd_build_001"
    assert seen["cwd"] == str(desk.folder / "workspace" / "plan_shop" / "build")
    env = seen["env"]
    assert (env["AGENTTALK_PLAN_ID"], env["AGENTTALK_TASK_ID"], env["AGENTTALK_ATTEMPT"]) == ("plan_shop", "build", "1")
    assert (env["AGENTTALK_API"], env["AGENTTALK_SOCKET"]) == ("http://127.0.0.1:8083", "/run/agenttalk.sock")
    assert (env["AGENTTALK_MODE"], env["HANDED"]) == ("execute", "over")
    assert {"NOBODYS", "AGENTTALK__STORE__URL", "AGENTTALK_FEEDBACK"}.isdisjoint(env)
    for part in ("You are a builder.", "Build it.", "Blue.", env["AGENTTALK_RESULT"]):
        assert part in seen["prompt"]


@pytest.mark.shows("M14")
def test_what_is_started_is_recorded_before_it_starts_and_what_came_of_it_apart(desk: Desk) -> None:
    desk.program(WRITES)
    made = desk.artifact("design", "design.md", {"design.md": b"Blue."})
    message_id = desk.command(required_inputs=["design.md"])

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        board = await deps.stores.board("default")

        async def stages(message: str) -> tuple[Any, ...]:
            about = {"plan_id": "plan_shop", "message_id": message, "receiver": "dev"}
            return tuple((await board.read(STAGES_OF, **about))[0])

        async def play(turn: ProgramTurn) -> TurnEnd:
            injected, prompt_sha256, acted = await stages(message_id)
            assert prompt_sha256 == f"sha256:{hashlib.sha256(turn.prompt.encode()).hexdigest()}"
            assert injected is not None
            assert acted is None
            assert (await stages(made))[0] is not None
            return ended()

        replace_driver(beat, deps, Played(play))
        await beat.run_once()
        assert (await stages(message_id))[2] is not None

    desk.play(scenario)
    assert desk.task()["state"] == "COMPLETED"


@pytest.mark.shows("X03", "X05")
def test_a_command_waits_for_its_inputs_and_runs_when_they_arrive(desk: Desk) -> None:
    desk.program(WRITES)
    waiting = desk.command("build", required_inputs=["design.md", "*.csv"], wait_for_inputs=True, timeout=100)
    other = desk.command("paint")
    tick = desk.once()
    assert (tick.waiting, tick.ran) == (1, 1)
    assert desk.ack(waiting)["status"] == "CONSUMED"
    assert desk.ack(other)["status"] == "SUCCEEDED"
    since = desk.task()["waiting_since"]
    assert desk.task()["state"] == "BLOCKED_WAITING_INPUT"
    report = json.loads(desk.outbox("task_state_build.json").read_bytes())
    assert report["blocking"]["missing"] == ["design.md", "*.csv"]
    assert desk.names(".pending") == [f"{waiting}__cmd_build_001.msg.json"]
    desk.clock.forward(60)
    desk.artifact("design", "design.md", {"design.md": b"Blue."})
    desk.once()
    assert (desk.task()["waiting_since"], json.loads(bytes(desk.task()["missing"]))) == (since, ["*.csv"])
    desk.artifact("design", "data", {"data.csv": b"1,2"})
    assert desk.once().ran == 1
    assert desk.task()["state"] == "COMPLETED"
    assert desk.task()["waiting_since"] is None


@pytest.mark.shows("X04")
def test_waiting_too_long_asks_people_once_and_still_runs_when_the_inputs_come(desk: Desk) -> None:
    desk.program(WRITES)
    message_id = desk.command(required_inputs=["a.md", "b.md"], wait_for_inputs=True, timeout=100)
    assert desk.once().asked == 0
    desk.clock.forward(101)
    assert desk.once().asked == 1
    assert desk.once().asked == 0
    assert desk.task()["state"] == "BLOCKED_WAITING_HUMAN"
    [request] = desk.read(OPEN_REQUESTS, at="", request_id="", limit=10)
    body = json.loads(bytes(request[4]))
    assert body["type"] == "MISSING_FILE"
    assert [(file["name"], file["deliver_to_agent_id"]) for file in body["needed"]["files"]] == [
        ("a.md", "dev"),
        ("b.md", "dev"),
    ]
    path = f"plans/plan_shop/human_requests/human_intervention_request_{body['request_id']}.json"
    assert json.loads(desk.read(VIEW_BODY, path=path)[0].body or b"") == body
    assert desk.alerts() == ["WAIT_FOR_INPUTS_TIMEOUT"]
    report = json.loads(desk.outbox("task_state_build.json").read_bytes())
    assert report["blocking"]["request_id"] == body["request_id"]
    desk.artifact("design", "both", {"a.md": b"a", "b.md": b"b"})
    desk.once()
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("files", [{"a.md": b"a"}, {}])
def test_what_an_answer_did_not_bring_is_asked_for_again(desk: Desk, files: dict[str, bytes]) -> None:
    desk.tree.dag([{"task_id": "build", "assigned_agent_id": "dev", "outputs": []}])
    desk.program(WRITES)
    message_id = desk.command(required_inputs=["a.md", "b.md"], wait_for_inputs=True, timeout=100)
    desk.once()
    desk.clock.forward(101)
    desk.once()
    first = _answered(desk, files=files, notes="the rest comes later")
    assert desk.once().asked == 0  # the answer is still under way
    desk.play(lambda _, deps: Router(deps).pass_())
    assert desk.once().asked == 1
    assert desk.once().asked == 0
    [request] = desk.read(OPEN_REQUESTS, at="", request_id="", limit=10)
    missing = [file["name"] for file in json.loads(bytes(request[4]))["needed"]["files"]]
    assert (request[0] != first, missing) == (True, [name for name in ("a.md", "b.md") if name not in files])
    assert desk.task()["request_id"] == request[0]
    _answered(desk, files=dict.fromkeys(missing, b"x"))
    desk.play(lambda _, deps: Router(deps).pass_())
    assert (desk.once().ran, desk.ack(message_id)["status"]) == (1, "SUCCEEDED")


def _answered(desk: Desk, **said: Any) -> str:
    """Answer the open question."""
    [request] = desk.read(OPEN_REQUESTS, at="", request_id="", limit=10)
    desk.play(lambda _, deps: questions.answer(deps, request[0], by="Ada", decision="PROVIDE", **said))
    return str(request[0])


def test_what_an_agent_says_of_its_task_does_not_keep_people_from_being_asked(desk: Desk) -> None:
    desk.program(WRITES)
    desk.tree.dag([{"task_id": "build", "assigned_agent_id": "dev"}])
    desk.command(required_inputs=["a.md"], wait_for_inputs=True, timeout=100)
    desk.once()
    about = {"plan_id": "plan_shop", "task_id": "build", "agent_id": "dev", "updated_at": "2026-03-01T12:00:01Z"}
    desk.tree.put("dev", "task_state_build.json", {**about, "state": "BLOCKED_WAITING_HUMAN"})
    desk.play(lambda _, deps: Router(deps).pass_())
    assert desk.task()["state"] == "BLOCKED_WAITING_HUMAN"
    desk.clock.forward(101)
    assert desk.once().asked == 1


@pytest.mark.shows("X06")
def test_without_waiting_it_runs_and_is_told_what_is_missing(desk: Desk) -> None:
    desk.program(TELLS)
    message_id = desk.command(required_inputs=["design.md"], wait_for_inputs=False)
    desk.once()
    assert "design.md" in told(desk, message_id)["prompt"]
    [granted] = desk.facts(message_id, "lease.granted")
    assert granted["missing"] == ["design.md"]


@pytest.mark.shows("X01", "X02", "X16")
def test_inputs_come_from_the_workspace_and_the_task_folder_only(desk: Desk) -> None:
    desk.program(TELLS)
    desk.artifact("design", "design.md", {"v1.md": b"one", "v2.md": b"two"})
    own = desk.folder / "workspace" / "plan_shop" / "build"
    own.mkdir(parents=True)
    (own / "notes.txt").write_text("mine", encoding="utf-8")
    (desk.folder / "elsewhere.txt").write_text("not found", encoding="utf-8")
    resolved = [
        {"input_name": "designs", "required": True, "paths": ["*.md"]},
        {"input_name": "notes", "required": True, "paths": ["notes.txt"]},
        {"input_name": "more", "required": False, "paths": ["elsewhere.txt"]},
    ]
    message_id = desk.command(required_inputs=["never.md"], resolved_inputs=resolved, wait_for_inputs=True)
    desk.once()
    expected = {"designs/v1.md": "one", "designs/v2.md": "two", "notes/notes.txt": "mine"}
    assert told(desk, message_id)["inputs"] == expected


def test_an_archived_input_that_was_changed_or_removed_is_restored_before_use(desk: Desk) -> None:
    desk.program(TELLS)
    desk.artifact("design", "design.md", {"a.md": b"as it was", "b.md": b"too"})
    desk.once()
    desk.inputs("design", "design.md", "a.md").write_text("tampered", encoding="utf-8")
    desk.inputs("design", "design.md", "b.md").unlink()
    message_id = desk.command(required_inputs=["a.md", "b.md"], wait_for_inputs=True)
    desk.once()
    assert told(desk, message_id)["inputs"] == {"a.md/a.md": "as it was", "b.md/b.md": "too"}
    assert desk.inputs("design", "design.md", "a.md").read_text(encoding="utf-8") == "as it was"


@pytest.mark.shows("X08")
def test_a_score_is_required_sent_back_twice_and_then_fails(desk: Desk) -> None:
    desk.program('print(\'{"result": 1, "score": 120}\')')
    message_id = desk.command(score_required=True, score_criteria="0-100")
    tick = desk.once()
    assert (tick.ran, tick.failed) == (3, 1)
    assert desk.ack(message_id)["status"] == "FAILED"
    assert "SCORE_INVALID" in desk.ack(message_id)["result"]["details"]
    assert desk.alerts() == ["SCORE_INVALID"]


def test_a_score_travels_with_the_artifact_and_a_reexecution_is_marked(desk: Desk) -> None:
    desk.program(WRITES + 'print(\'{"result": 1, "score": 71.5, "score_explanation": "so so"}\')')
    verdict = {"validator": "tester", "score": 40, "reason": "thin"}
    again = {"original_task_id": "build", "original_agent": "dev", "attempt": 2, "validation_result": verdict}
    desk.command(seq=3, score_required=True, score_criteria="0-100", reexecute=again)
    desk.once()
    [envelope] = desk.envelopes()
    assert envelope["score"] == {"value": 71.5, "explanation": "so so"}
    assert envelope["reexecution"] == {"count": 2, "command_id": "cmd_build_003"}


@pytest.mark.shows("X12")
def test_a_crash_is_retried_with_more_time_each_and_then_fails(desk: Desk) -> None:
    desk.program(WRITES)
    message_id = desk.command(timeout=10, retry_times=2)

    async def play(_: ProgramTurn) -> TurnEnd:
        return TurnEnd("timeout", None, b"", b"too slow", 1.0, "it was ended")

    driver = Played(play)
    tick = desk.once(driver=driver)
    assert (tick.ran, tick.failed) == (3, 1)
    assert [turn.timeout for turn in driver.turns] == [10, 15, 22.5]
    assert [turn.env["AGENTTALK_ATTEMPT"] for turn in driver.turns] == ["1", "2", "3"]
    assert len({turn.env["AGENTTALK_TOKEN"] for turn in driver.turns}) == 3
    ack = desk.ack(message_id)
    assert (ack["status"], "too slow" in ack["result"]["details"]) == ("FAILED", True)
    assert desk.task()["state"] == "FAILED"
    assert desk.alerts() == ["COMMAND_FAILED"]


def test_a_failing_program_fails_with_the_end_of_what_it_said(desk: Desk) -> None:
    desk.program(FAILS)
    message_id = desk.command(on_failure={"message_template": "Pity: {error} {result}"})
    assert desk.once().failed == 1
    assert desk.ack(message_id)["result"]["details"] == "COMMAND_FAILED: exit code 1: no luck"
    assert desk.facts(message_id, "turn.ended")[0]["notice"] == "Pity: exit code 1: no luck "
    assert desk.envelopes() == []


def test_a_program_that_is_not_there_fails(desk: Desk) -> None:
    desk.tree.agent("dev", driver="script", argv=["/nowhere/at/all"])
    message_id = desk.command()
    desk.once()
    assert desk.ack(message_id)["status"] == "FAILED"


def test_a_declared_output_that_is_missing_fails_the_command(desk: Desk) -> None:
    desk.program(WRITES)
    message_id = desk.command(
        retry_times=3,
        produces=[{"output_name": "made.txt", "files": []}, {"output_name": "forgotten.md", "files": []}],
    )
    assert desk.once().ran == 1
    assert desk.ack(message_id)["result"]["details"] == "OUTPUT_MISSING: declared but missing: forgotten.md"
    assert desk.envelopes() == []


def test_declared_outputs_may_be_folders_odd_names_or_files_of_the_working_directory(desk: Desk) -> None:
    desk.program(
        """
import os, pathlib
out = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(out / "site" / "css").mkdir(parents=True)
(out / "site" / "index.html").write_text("<p>")
(out / "site" / "css" / "a.css").write_text("p{}")
(out / "a%2f%b").write_bytes(b"x" * 100_000)
pathlib.Path("change.patch").write_text("+1")
"""
    )
    produces = [
        {"output_name": "site", "files": []},
        {"output_name": "a/b", "files": []},
        {"output_name": "patch", "files": [{"path": "change.patch"}]},
    ]
    desk.command(produces=produces)
    desk.once()
    made = {each["output_name"]: each for each in desk.envelopes()}
    paths = {name: sorted(file["path"] for file in each["payload"]["files"]) for name, each in made.items()}
    assert paths == {"site": ["css/a.css", "index.html"], "a/b": ["a%2f%b"], "patch": ["change.patch"]}
    for envelope in made.values():
        for file in envelope["payload"]["files"]:
            data = desk.outbox(file["path"]).read_bytes()
            assert file["sha256"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert file["size_bytes"] == len(data)


@pytest.mark.parametrize(
    "trick",
    [
        "os.symlink('/etc/passwd', out / 'made.txt')",
        "os.mkfifo(out / 'made.txt')",
        "(out / '.hidden').write_text('x')",
        "(out / 'x.msg.json').write_text('{}')",
        "(out / os.fsdecode(b'\\xff')).write_text('x')",
        "(out / 'a\\nb').write_text('x')",
        "out.rmdir(); os.symlink('/etc', out)",
        "os.link('/etc/hostname', out / 'made.txt') if os.stat('/etc').st_dev == os.stat(out).st_dev else os.mkfifo(out / 'x')",
    ],
)
def test_outputs_that_mislead_are_refused(desk: Desk, trick: str) -> None:
    desk.program(f"import os, pathlib\nout = pathlib.Path(os.environ['AGENTTALK_OUTPUTS'])\n{trick}")
    message_id = desk.command()
    tick = desk.once()
    assert (tick.failed, tick.errors) == (1, [])
    assert desk.ack(message_id)["status"] == "FAILED"
    assert desk.envelopes() == []


def test_a_folder_of_outputs_that_was_removed_holds_no_outputs(desk: Desk) -> None:
    desk.program("import os; os.rmdir(os.environ['AGENTTALK_OUTPUTS'])")
    message_id = desk.command()
    desk.once()
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


def test_files_laid_out_in_advance_are_not_taken_for_outputs(desk: Desk) -> None:
    desk.program("print('nothing made')")
    trap = desk.folder / "workspace" / "plan_shop" / "build" / ".agenttalk" / "cmd_build_001-1" / "outputs"
    trap.mkdir(parents=True)
    (trap / "fake.txt").write_text("made by nobody", encoding="utf-8")
    message_id = desk.command()
    desk.once()
    assert desk.ack(message_id)["status"] == "SUCCEEDED"
    assert desk.envelopes() == []


@pytest.mark.parametrize("link", ["", "plan_shop", "plan_shop/build", "plan_shop/build/.agenttalk"])
def test_a_folder_that_leads_elsewhere_is_moved_away_and_never_followed(desk: Desk, tmp_path: Path, link: str) -> None:
    desk.program(WRITES)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    trap = desk.folder / "workspace" / link
    message_id = desk.command()
    other = desk.command("paint")
    trap.parent.mkdir(parents=True, exist_ok=True)
    trap.symlink_to(elsewhere)
    desk.once()
    assert desk.ack(message_id)["status"] == "SUCCEEDED"
    assert desk.ack(other)["status"] == "SUCCEEDED"
    assert list(elsewhere.iterdir()) == []
    assert [path for path in trap.parent.iterdir() if path.is_symlink()] != []


@pytest.mark.shows("X10")
def test_an_agent_runs_one_command_at_a_time_the_urgent_first(desk: Desk) -> None:
    desk.program(WRITES)
    desk.command("a", priority="LOW")
    desk.command("b")
    desk.command("c", priority="HIGH")
    desk.command("d", priority="HIGH")
    active = 0

    async def play(_: ProgramTurn) -> TurnEnd:
        nonlocal active
        active += 1
        assert active == 1
        await asyncio.sleep(0)
        active -= 1
        return ended()

    driver = Played(play)
    desk.once(driver=driver)
    assert [turn.env["AGENTTALK_TASK_ID"] for turn in driver.turns] == ["c", "d", "b", "a"]


def test_waiting_commands_however_many_never_hold_up_one_that_can_run(desk: Desk) -> None:
    desk.limits = EngineLimits(resumed_messages_per_tick=3)
    desk.program(WRITES)
    for number in range(10):
        desk.command(f"w{number}", required_inputs=["never.md"], wait_for_inputs=True, timeout=100, priority="HIGH")
    late = desk.command("late", priority="LOW")

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        for _round in range(8):
            await beat.tick()
            if beat._turn.task is not None:
                await beat._turn.task
        desk.clock.forward(101)
        asked = 0
        for _round in range(8):
            asked += (await beat.tick()).asked
        assert asked == 10

    desk.play(scenario)
    assert desk.ack(late)["status"] == "SUCCEEDED"


def test_while_a_command_runs_messages_are_taken_all_the_same(desk: Desk) -> None:
    desk.program(WRITES)
    desk.command()
    go = asyncio.Event()

    async def play(_: ProgramTurn) -> TurnEnd:
        await go.wait()
        return ended()

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        assert (await beat.tick()).running == 1
        desk.artifact("design", "design.md", {"design.md": b"Blue."})
        other = desk.command("paint")
        tick = await beat.tick()
        assert (tick.claimed, tick.archived, tick.running, tick.waiting) == (2, 1, 1, 1)
        assert desk.ack(other)["status"] == "CONSUMED"
        status = json.loads((desk.folder / "status_heartbeat.json").read_bytes())
        assert (status["status"], status["current_task_ids"]) == ("RUNNING", ["build", "paint"])
        go.set()
        assert (await beat.run_once()).ran == 2

    desk.play(scenario, driver=Played(play))


@pytest.mark.shows("M08")
def test_a_newer_command_cancels_the_one_that_runs(desk: Desk) -> None:
    began = desk.folder / "began"
    desk.program(f"import time, pathlib\npathlib.Path({str(began)!r}).touch()\ntime.sleep(600)")
    old = desk.command(seq=1)

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        await beat.tick()
        assert beat._turn.task is not None
        async with asyncio.timeout(300):
            while not began.exists():  # noqa: ASYNC110 - else the new program may be what the old attempt starts
                await asyncio.sleep(0.01)
        desk.command(seq=2)
        desk.program(WRITES)
        await beat.tick()
        await beat.run_once()

    desk.play(scenario)
    assert desk.delivery(old)["state"] == desk.delivery(old)["shown"] == "superseded"
    assert desk.delivery(old)["ack"] == "FAILED"
    assert (desk.ack(old)["status"], desk.ack(old)["result"]["details"][:10]) == ("FAILED", "SUPERSEDED")
    assert [each["command_id"] for each in desk.envelopes()] == ["cmd_build_002"]
    assert len(desk.facts(old, "lease.ended")) == 1
    assert desk.names(".pending") == []
    assert desk.task()["state"] == "COMPLETED"


def test_what_a_superseded_turn_hands_in_at_its_end_is_dropped(desk: Desk) -> None:
    desk.program(WRITES)
    old = desk.command(seq=1)

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        board = await deps.stores.board("default")

        async def play(turn: ProgramTurn) -> TurnEnd:
            out = Path(turn.env["AGENTTALK_OUTPUTS"])
            (out / "made.txt").write_text("too late", encoding="utf-8")
            row = (await board.read(DELIVERY_OF, plan_id="plan_shop", message_id=old, receiver="dev"))[0]
            await board.transact(
                lambda tx: tx.run(WITHDRAW, id=row[0], ack="FAILED", at=deps.stamp(), details="SUPERSEDED")
            )
            return ended()

        replace_driver(beat, deps, Played(play))
        await beat.run_once()

    desk.play(scenario)
    assert desk.envelopes() == []
    assert desk.facts(old, "turn.ended") == []
    assert len(desk.facts(old, "turn.dropped")) == 1
    assert desk.task()["lease"] is None
    assert desk.names(".processed") == [f"{old}__cmd_build_001.msg.json"]


class Bell:
    """Wakes an agent when the test rings, and tells how long the agent would have slept."""

    def __init__(self) -> None:
        self.rings: asyncio.Queue[str] = asyncio.Queue()
        self.sleeps: asyncio.Queue[float] = asyncio.Queue()

    async def wait_for_change(self, timeout: float) -> set[str]:  # noqa: ASYNC109 - as the port has it
        self.sleeps.put_nowait(timeout)
        return {await self.rings.get()}

    def ring(self) -> None:
        self.rings.put_nowait("agents/dev/inbox/plan_shop")


def test_stopping_ends_the_turn_and_the_next_start_runs_the_command_again(desk: Desk) -> None:
    desk.program(TELLS)
    message_id = desk.command()
    began = asyncio.Event()

    async def play(_: ProgramTurn) -> TurnEnd:
        began.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        stop = asyncio.Event()
        running = asyncio.create_task(beat.run(stop, Bell()))
        await began.wait()
        stop.set()
        await running

    desk.play(scenario, driver=Played(play))
    assert (desk.task()["lease"], desk.task()["state"]) == (None, "READY")
    assert desk.ack(message_id)["status"] == "CONSUMED"
    desk.once()
    assert told(desk, message_id)["env"]["AGENTTALK_ATTEMPT"] == "2"


@pytest.mark.shows("X09")
def test_it_looks_again_when_woken_and_paces_itself_otherwise(desk: Desk) -> None:
    desk.program(WRITES)

    async def scenario(beat: Heartbeat, _: Deps) -> tuple[list[float], list[float]]:
        bell, stop = Bell(), asyncio.Event()
        running = asyncio.create_task(beat.run(stop, bell))
        idle = []
        for _round in range(5):
            idle.append(await bell.sleeps.get())
            bell.ring()
        await bell.sleeps.get()
        message_id = desk.command()
        bell.ring()
        busy = []
        while (desk.ack(message_id) or {}).get("status") != "SUCCEEDED":
            busy.append(await bell.sleeps.get())
        stop.set()
        await running
        return idle, busy

    idle, busy = desk.play(scenario)
    assert idle == [10, 10, 30, 30, 30]
    assert busy[0] == 5


def test_a_new_file_wakes_it_at_once(desk: Desk) -> None:
    desk.program(WRITES)
    desk.inbox().mkdir(parents=True)

    async def scenario(beat: Heartbeat, deps: Deps) -> None:
        watch, stop, began = FolderWatcher(desk.tree.root, plans=False), asyncio.Event(), asyncio.Event()

        async def play(_: ProgramTurn) -> TurnEnd:
            began.set()
            return ended()

        replace_driver(beat, deps, Played(play))
        await watch.start()
        running = asyncio.create_task(beat.run(stop, watch))
        try:
            desk.command()
            assert await asyncio.wait_for(began.wait(), 4)
        finally:
            stop.set()
            await running
            watch.close()

    desk.play(scenario)


def test_status_is_written_with_what_went_wrong(desk: Desk) -> None:
    desk.program(WRITES)
    desk.once()
    status = json.loads((desk.folder / "status_heartbeat.json").read_bytes())
    assert (status["health"], status["status"], status["agent_id"]) == ("HEALTHY", "IDLE", "dev")
    (desk.folder / "agent_profile.json").write_bytes(b"{")
    assert desk.once().errors
    status = json.loads((desk.folder / "status_heartbeat.json").read_bytes())
    assert (status["health"], "agent_profile.json" in status["last_error"]) == ("WARNING", True)


def test_an_agent_that_is_worked_by_hand_is_left_alone(desk: Desk) -> None:
    desk.tree.agent("dev")
    desk.command()
    tick = desk.once()
    assert (tick.waiting, tick.has_worked) == (1, False)
    assert desk.names() == ["cmd_build_001.msg.json"]
    assert not (desk.folder / "status_heartbeat.json").exists()
    desk.tree.agent("dev", driver="folder")
    assert desk.once().waiting == 1


def test_a_driver_that_is_not_here_is_reported(desk: Desk) -> None:
    desk.tree.agent("dev", driver="telepathy")
    desk.command()
    tick = desk.once()
    assert tick.errors == ["the driver 'telepathy' is not supported here"]
    assert desk.names() == ["cmd_build_001.msg.json"]


def test_a_tick_tells_itself_as_json(desk: Desk) -> None:
    desk.program(WRITES)
    told = desk.once().as_json()
    assert {"claimed", "archived", "waiting", "asked", "ran", "failed", "dead"} <= told.keys()
    assert json.loads(json.dumps(told)) == told


def test_it_looks_more_often_when_busy_and_less_often_when_idle(desk: Desk) -> None:
    desk.limits = EngineLimits(poll_seconds=8.0)
    desk.program(WRITES)
    desk.command(required_inputs=["never.md"], wait_for_inputs=True)

    async def scenario(beat: Heartbeat, _: Deps) -> None:
        assert beat.interval == 8.0
        await beat.tick()
        assert beat.interval == 4.0

    async def later(beat: Heartbeat, _: Deps) -> None:
        for interval in (8.0, 8.0, 24.0):
            await beat.tick()
            assert beat.interval == interval

    desk.play(scenario)
    desk.artifact("design", "never.md", {"never.md": b"now"})
    desk.once()
    desk.play(later)


def test_a_program_in_the_agents_folder_may_be_named_with_a_dot(desk: Desk) -> None:
    desk.tree.agent("dev", driver="script", argv=["./work.py", "./none"])
    (desk.folder / "work.py").write_text("", encoding="utf-8")
    desk.command()
    driver = Played(lambda _: asyncio.sleep(0, ended()))
    desk.once(driver=driver)
    assert driver.turns[0].argv == (str(desk.folder / "work.py"), "./none")


def test_the_interpreter_is_named_as_it_is(desk: Desk) -> None:
    desk.program(WRITES)
    desk.command()
    driver = Played(lambda _: asyncio.sleep(0, ended()))
    desk.once(driver=driver)
    assert driver.turns[0].argv == (sys.executable, str(desk.folder / "work.py"))


REFUSES = """
import json, os, pathlib, sys
assert "Are you fit for it?" in sys.stdin.read()
judged = {"score": 30, "reason": "I know no Rust."}
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(json.dumps({"self_assessment": judged}))
"""


def test_an_agent_that_is_not_fit_returns_the_command_and_a_person_is_asked(desk: Desk) -> None:
    desk.program(REFUSES, self_assessment=True)
    message_id = desk.command(retry_times=3)
    tick = desk.once()
    assert (tick.ran, tick.failed, desk.task()["state"]) == (1, 1, "FAILED")
    receipt = desk.ack(message_id)
    assert (receipt["status"], receipt["result"]["details"]) == ("FAILED", "AGENT_UNFIT: I know no Rust. (30 of 100)")
    [request] = desk.play(lambda _, deps: questions.list_open(deps))
    assert (request.agent_id, request.task_id, request.document.type) == ("dev", "build", "DECISION")
    assert "I know no Rust." in json.dumps(request.document.as_json())
    assert desk.alerts() == ["AGENT_UNFIT"]


def test_an_agent_that_nobody_asks_how_fit_it_is_cannot_return_a_command(desk: Desk) -> None:
    desk.program(REFUSES.replace("assert ", "assert not "))
    message_id = desk.command(produces=[])
    assert desk.once().failed == 0
    assert desk.ack(message_id)["status"] == "SUCCEEDED"


def explained(desk: Desk, task_id: str = "build") -> dict[str, Any]:
    return desk.play(lambda _, deps: explain_json(deps, desk.tree.plan_id, task_id))


def test_what_is_known_of_a_task_that_the_engine_does_not_run_is_told(desk: Desk) -> None:
    desk.program(WRITES)
    message_id = desk.command()
    desk.once()
    told = explained(desk)
    assert (told["origin"], told["state"], told["agent_id"], told["running"]) == ("foreign", "COMPLETED", "dev", False)
    assert told["command"] is not None
    assert (told["command"]["message_id"], told["command"]["receipt"]) == (message_id, "SUCCEEDED")
    assert [each["how"] for each in told["attempts"]] == ["finished"]
    assert "not verified" in told["moves_on"]


def test_why_a_task_failed_that_the_engine_does_not_run_is_told(desk: Desk) -> None:
    desk.program(FAILS)
    desk.command()
    desk.once()
    told = explained(desk)
    assert (told["state"], "no luck" in told["reason"]) == ("FAILED", True)
    assert "newer command" in told["moves_on"]


def test_what_a_task_waits_for_that_the_engine_does_not_run_is_told(desk: Desk) -> None:
    desk.program(WRITES)
    desk.command(required_inputs=["story.md"], wait_for_inputs=True)
    desk.once()
    told = explained(desk)
    assert (told["state"], told["missing"]) == ("BLOCKED_WAITING_INPUT", ["story.md"])
    assert "inputs arrive" in told["moves_on"]


def test_of_a_task_that_nobody_knows_nothing_is_told(desk: Desk) -> None:
    with pytest.raises(UsageError, match="none"):
        explained(desk, "none")
