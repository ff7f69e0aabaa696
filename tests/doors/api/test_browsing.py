"""Looking through what was done: plans, tasks, messages, facts, files, agents and numbers, over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.doors.cli.main import call
from agenttalk.engine.budgets import used_budgets
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.proof import honesty
from agenttalk.ports.statements.budgets import ADD_SPENDING
from agenttalk.ports.statements.core import FACTS_OF, LEDGER_HEAD
from agenttalk.ports.statements.plans import SET_CURSOR
from agenttalk.rules.proof.honesty import NOTHING
from agenttalk.wiring import open_root
from doors.api.doorkit import VIEWER, Door, listening
from kits.agentkit import Clock
from kits.plankit import Engine, plan, play, states, task

LARGE = bytes(range(256)) * 2_000
TAKES = [{"name": "text", "from": "text.md"}]
JUDGED = {"text": {"quality_threshold": 70}}
GOOD = {"score": 90, "decision": "ACCEPT", "reason": "fine"}
BAD = {"score": 10, "decision": "REJECT", "reason": "not yet", "issues": ["no price"]}
TELLS = """import json
def tell(**said):
    print(json.dumps(said), flush=True)
tell(type="system", subtype="init", session_id="ses-1", model="m1")
for number in range(300):
    tell(type="assistant", message={"id": f"m{number}", "content": [{"type": "text", "text": f"step {number}"}]})
usage = {"usage": {"input_tokens": 100}, "total_cost_usd": 0.5, "permission_denials": []}
tell(**{"type": "result", "subtype": "success", "is_error": False, "result": "It is done.", **usage})
"""


def past(root: Path) -> None:
    """A plan in which work was refused, refuted, tried again and believed; and some others."""
    ran: Counter[str] = Counter()

    async def write(turn: Turn) -> str:
        ran[turn.task_id] += 1
        turn.report(cost_usd=0.25, tokens=10)
        turn.outputs["text.md"] = f"version {ran[turn.task_id]}"
        turn.outputs["large.bin"] = LARGE
        return "written"

    async def trusts(turn: Turn) -> Any:
        return GOOD if turn.judges is not None else "read"

    async def doubts(turn: Turn) -> Any:
        if turn.judges is not None:
            return BAD if turn.text("text") == "version 1" else GOOD
        return "read"

    async def lazy(turn: Turn) -> str:
        ran[turn.task_id] += 1
        if ran[turn.task_id] == 2:
            turn.outputs["note.md"] = "there"
        return "done!"

    async def shaky(turn: Turn) -> str:
        ran[turn.task_id] += 1
        if ran[turn.task_id] == 1:
            raise RuntimeError("it broke")
        return "ok"

    tells = root.parent / "tells.py"
    tells.write_text(TELLS)
    cli = {"agent": "claude", "program": sys.executable, "argv": [str(tells)]}
    made = [{"name": name, "deliverable": True} for name in ("text.md", "large.bin")]
    compiled = plan(
        task("write", "w", outputs=made),
        task("believe", "credulous", needs=["write"], inputs=TAKES, validate=JUDGED),
        task("doubt", "doubter", needs=["write", "believe"], inputs=TAKES, validate=JUDGED),
        task("note", "lazy", outputs=[{"name": "note.md", "deliverable": True}]),
        task("shake", "shaky", retry_times=2),
        task("speak", "coder"),
        agents={"coder": {"driver": "cli", "cli": cli, "sandbox": "plain"}},
    )

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        assert set(states(await engine.ended()).values()) == {"COMPLETED"}
        for number in range(5):
            await engine.submit(plan(task("only"), plan_id=f"later_{number}"))
            await engine.ended(f"later_{number}")

    play(root, use, proving=True, w=write, credulous=trusts, doubter=doubts, lazy=lazy, shaky=shaky)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("browsing") / "root"
    found.mkdir()
    past(found)
    return found


@pytest.fixture(scope="module")
def door(root: Path) -> Iterator[Door]:
    runtime = Path(tempfile.mkdtemp(prefix="at-"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        with listening(root) as found:
            yield found
    shutil.rmtree(runtime)


def get(door: Door, path: str) -> Any:
    answer = door.get(path, VIEWER)
    assert answer.status == 200, answer.data
    return answer.json


def pages(door: Door, path: str, name: str, size: int) -> list[Any]:
    """Everything, page by page."""
    found: list[Any] = []
    place = ""
    sign = "&" if "?" in path else "?"
    for _ in range(500):
        told = get(door, f"{path}{sign}limit={size}{place}")
        assert len(told[name]) <= max(size, 60), "a page is bounded"
        found += told[name]
        if told["next"] is None:
            return found
        place = f"&after={told['next']}"
    raise AssertionError("there is no end")


def test_plans_come_in_pages_the_newest_first(door: Door) -> None:
    names = [each["plan_id"] for each in pages(door, "/api/plans", "plans", 2)]
    assert names == [*(f"later_{number}" for number in (4, 3, 2, 1, 0)), "p"]
    assert [each["plan_id"] for each in pages(door, "/api/plans", "plans", 100)] == names
    found = get(door, "/api/plans?text=P&state=ended&board=default&limit=1")["plans"]
    assert [each["plan_id"] for each in found] == ["p"]
    told = {each["plan_id"]: each for each in get(door, "/api/plans")["plans"]}["p"]
    assert (told["state"], told["origin"], told["counts"]["completed"]) == ("ENDED", "engine", 6)
    assert [each["plan_id"] for each in get(door, "/api/plans?text=ATER_3")["plans"]] == ["later_3"]
    assert get(door, "/api/plans?state=open")["plans"] == []
    assert get(door, "/api/plans?state=foreign") == {"plans": [], "next": None}


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/api/plans?state=runing", "FIELD_VALUE"),
        ("/api/plans?stat=open", "FIELD_UNKNOWN"),
        ("/api/plans?after=nonsense", "FIELD_VALUE"),
        ("/api/plans?limit=many", "FIELD_VALUE"),
        ("/api/plans?board=_mail", "NAME_UNKNOWN"),
        ("/api/plans/nope/graph", "NAME_UNKNOWN"),
        ("/api/plans/nope/tasks", "NAME_UNKNOWN"),
        ("/api/plans/_toolchain/acks", "NAME_UNKNOWN"),
        ("/api/plans/_toolchain/tasks", "NAME_UNKNOWN"),
        ("/api/plans/p/tasks/nope", "TASK_NOT_FOUND"),
        ("/api/plans/p/tasks/nope/log", "TASK_NOT_FOUND"),
        (f"/api/plans/p/artifacts/write/{'0' * 64}", "NAME_UNKNOWN"),
        ("/api/plans/p/artifacts/write/short", "HASH_INVALID"),
        ("/api/agents/nobody", "NAME_UNKNOWN"),
        ("/api/ledger?board=nope", "NAME_UNKNOWN"),
    ],
)
def test_what_is_not_there_is_said_with_a_way_out(door: Door, path: str, code: str) -> None:
    answer = door.get(path, VIEWER)
    assert answer.status in {404, 422}
    assert answer.code == code
    assert answer.json["hint"]


def test_a_plan_is_shown_as_a_graph(door: Door) -> None:
    told = get(door, "/api/plans/p/graph")
    assert {each["task_id"]: each["state"] for each in told["nodes"]}["write"] == "COMPLETED"
    lines = {(each["from"], each["to"], each["kind"]) for each in told["edges"]}
    assert {("write", "believe", "depends"), ("believe", "doubt", "depends")} <= lines


def test_tasks_come_in_pages_and_can_be_filtered(door: Door) -> None:
    names = [each["task_id"] for each in pages(door, "/api/plans/p/tasks", "tasks", 2)]
    assert names == ["believe", "doubt", "note", "shake", "speak", "write"]
    assert [each["task_id"] for each in get(door, "/api/plans/p/tasks?agent=w&state=completed")["tasks"]] == ["write"]
    assert [each["task_id"] for each in get(door, "/api/plans/p/tasks?state=done&limit=1")["tasks"]] == ["believe"]
    assert get(door, "/api/plans/p/tasks?state=failed")["tasks"] == []


@pytest.mark.shows("V08")
def test_a_task_shows_its_command_files_rounds_and_what_of_its_promise_is_proven(door: Door) -> None:
    told = get(door, "/api/plans/p/tasks/write")
    assert told["command"]["task_id"] == "write"
    assert [each["command_id"] for each in told["orders"]] == ["cmd_write_002", "cmd_write_001"]
    assert all(each["prompt_sha256"].startswith("sha256:") for each in told["orders"])
    assert told["usage"]["cost_usd"] == 0.5
    assert [each["what"] for each in told["history"]] == ["ordered"]
    assert len(told["attempts"]) == 2
    texts = {each["sha256"]: each["state"] for each in told["outputs"] if each["output_name"] == "text.md"}
    assert texts == {sha256(b"version 1"): "superseded", sha256(b"version 2"): "delivered"}
    for line in told["checklist"]:
        assert (line["standing"], line["by"], line["trust"]) == ("proven", "engine", "observed")
        assert line["at"]
    used = get(door, "/api/plans/p/tasks/doubt")
    [given] = [each for each in used["inputs"] if each["input_name"] == "text"]
    assert (given["sha256"], given["from_task_id"]) == (sha256(b"version 2"), "write")


def test_messages_receipts_and_decisions_come_in_pages(door: Door) -> None:
    lines = pages(door, "/api/plans/p/deliveries", "deliveries", 3)
    assert {each["status"] for each in lines} == {"DELIVERED"}
    acks = pages(door, "/api/plans/p/acks", "acks", 3)
    assert Counter(each["task_id"] for each in acks)["write"] == 2
    assert {each["status"] for each in acks} == {"SUCCEEDED", "FAILED"}
    assert all(each["stored_at"] and each["injected_at"] for each in acks)
    decided = pages(door, "/api/plans/p/decisions", "decisions", 4)
    [refused] = [each for each in decided if each["kind"] == "rework.ordered" and each["by"] == "doubter"]
    assert refused["decision"]["reason"] == "not yet"
    verdicts = [each for each in decided if each["kind"] == "turn.ended" and each.get("task_id") == "note"]
    assert [each["decision"]["verdict"]["fulfilled"] for each in verdicts] == [False, True]


@pytest.mark.shows("E11")
def test_the_ledger_is_shown_by_plan_board_kind_and_subject(door: Door) -> None:
    facts = pages(door, "/api/plans/p/facts", "facts", 5)
    assert [each["seq"] for each in facts] == sorted({each["seq"] for each in facts})
    assert {"plan.submitted", "plan.ended", "turn.ended", "rework.ordered", "inputs.judged"} <= {
        e["kind"] for e in facts
    }
    assert all(each["hash"].startswith("sha256:") and "later" not in each["subject"] for each in facts)
    newest = get(door, "/api/ledger?limit=2")
    assert newest["facts"][0]["seq"] > newest["facts"][1]["seq"]
    older = get(door, f"/api/ledger?limit=2&before={newest['next']}")
    assert older["facts"][0]["seq"] == newest["facts"][1]["seq"] - 1
    ended = get(door, "/api/ledger?kind=plan.ended&limit=500")["facts"]
    assert [each["subject"] for each in ended] == [*(f"later_{n}" for n in (4, 3, 2, 1, 0)), "p"]
    assert [each["kind"] for each in get(door, "/api/ledger?subject=p&kind=plan.sub")["facts"]] == ["plan.submitted"]
    assert get(door, "/api/ledger?board=system")["facts"]
    assert door.get("/api/ledger/verify", VIEWER).code == "ENGINE_UNREACHABLE", "only an engine does that"


def test_files_are_sent_as_attachments_piece_by_piece(door: Door) -> None:
    listed = pages(door, "/api/plans/p/artifacts", "artifacts", 2)
    [large] = [each for each in listed if each["output_name"] == "large.bin" and each["state"] == "delivered"]
    [file] = large["files"]
    assert (file["sha256"], file["size_bytes"]) == (sha256(LARGE), len(LARGE))
    path = f"/api/plans/p/artifacts/write/{file['sha256']}"
    whole = door.get(path, VIEWER)
    assert (whole.status, whole.data) == (200, LARGE)
    assert whole.headers["content-disposition"].startswith('attachment; filename="large.bin"')
    assert (whole.headers["x-content-type-options"], whole.headers["etag"]) == ("nosniff", f'"{file["sha256"]}"')
    for said, expected in (("bytes=0-9", LARGE[:10]), ("bytes=-5", LARGE[-5:]), ("bytes=511999-", LARGE[511999:])):
        part = door.get(path, VIEWER, headers={"Range": said})
        assert (part.status, part.data) == (206, expected)
    beyond = door.get(path, VIEWER, headers={"Range": "bytes=600000-"})
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(LARGE)}")
    assert door.get(path, VIEWER, headers={"Range": "lines=1-2"}).data == LARGE
    bare = door.get(f"/api/plans/p/artifacts/write/{sha256(b'version 2').removeprefix('sha256:')}", VIEWER)
    assert bare.data == b"version 2"
    assert door.get(f"/api/plans/p/artifacts/note/{file['sha256']}", VIEWER).status == 404, "another task made it"


def test_a_damaged_file_is_not_taken_for_whole(door: Door, root: Path) -> None:
    name = hashlib.sha256(LARGE).hexdigest()
    path = root / "data/blobs" / name[:2] / name[2:]
    path.write_bytes(LARGE[:-1] + b"!")
    try:
        with pytest.raises(Exception, match="IncompleteRead"):
            door.get(f"/api/plans/p/artifacts/write/{name}", VIEWER)
    finally:
        path.write_bytes(LARGE)


def test_what_a_coding_agent_told_can_be_followed(door: Door) -> None:
    told: list[str] = []
    place = 0
    for _ in range(20):
        page = get(door, f"/api/plans/p/tasks/speak/log?after={place}")
        told += [each.get("text", "") for each in page["events"]]
        if page["next"] == place:
            break
        place = page["next"]
    assert [each for each in told if each.startswith("step")] == [f"step {number}" for number in range(300)]
    assert get(door, "/api/plans/p/tasks/speak/log?command=cmd_speak_001&attempt=1")["events"]
    assert get(door, "/api/plans/p/tasks/speak/log?command=other") == {
        "command_id": None,
        "attempt": None,
        "events": [],
        "next": 0,
    }
    assert get(door, "/api/plans/p/tasks/write/log")["events"] == []


def test_honesty_is_what_claims_came_to_then_and_later(door: Door) -> None:
    told = get(door, "/api/honesty")
    agents = {each["agent_id"]: each for each in told["agents"]}
    writer = agents["w"]
    assert (writer["claims"], writer["proven"], writer["overturned"], writer["rounds"]) == (2, 2, 1, 1)
    assert (writer["held"], writer["cost_per_proven"]) == (0.5, 0.5)
    lazy = agents["lazy"]
    assert (lazy["claims"], lazy["refuted"], lazy["proven"], lazy["held"]) == (2, 1, 1, 0.5)
    assert (agents["shaky"]["turns"], agents["shaky"]["claims"], agents["shaky"]["held"]) == (2, 1, 1.0)
    assert agents["coder"]["models"] == ["m1"]
    assert [(each["model"], each["cost_usd"]) for each in told["models"]] == [("m1", 0.5)]
    assert [each["kind"] for each in told["kinds"]] == ["plan"]
    validators = {each["agent_id"]: each for each in told["validators"]}
    assert (validators["credulous"]["misled"], validators["doubter"]["misled"]) == (1, 0)
    assert validators["credulous"]["reliability"] < 1 == validators["doubter"]["reliability"]
    assert told["uncounted"] == 0
    assert get(door, "/api/honesty") == told, "nothing is counted twice"
    shown = {each["agent_id"]: each for each in get(door, "/api/agents")["agents"]}["w"]
    assert (shown["honesty"]["held"], shown["usage"]["cost_usd"], shown["queued"]) == (0.5, 0.5, 0)
    assert get(door, "/api/agents/w")["queue"] == []
    assert get(door, "/api/status")["honesty"]["claims"] == told["total"]["claims"]


def test_metrics_are_for_prometheus(door: Door) -> None:
    get(door, "/api/honesty")
    answer = door.get("/api/metrics", VIEWER)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    lines = answer.data.decode().splitlines()
    assert 'agenttalk_claims_refuted_total{agent="lazy",model="",kind="plan"} 1' in lines
    assert "agenttalk_deadletters_open 0" in lines
    assert "agenttalk_webhooks_new 0" in lines
    named = [line.split("{")[0].split()[0] for line in lines if not line.startswith("#")]
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert set(named) <= typed
    assert "agenttalk_process_cpu_seconds_total" in named


def test_what_a_day_may_cost_and_has_cost_is_told(door: Door, tmp_path: Path) -> None:
    told = get(door, "/api/spending")
    assert (told["limit_usd"], told["spent_usd"], told["left_usd"]) == (None, None, None)
    used = {"tokens": 1, "cost_usd": 0.75, "seconds": 1.0, "tool_calls": 0}

    async def work() -> dict[str, Any]:
        async with open_root(tmp_path, clock=Clock()) as deps:
            store = await deps.stores.board("default")
            await store.transact(lambda tx: tx.run(ADD_SPENDING, name="day:2026-03-01", **used))
            await store.transact(lambda tx: tx.run(ADD_SPENDING, name="day:2026-02-28", **used))
            return dict(await used_budgets.describe_today(deps, 2.0))

    assert asyncio.run(work()) == {"day": "2026-03-01", "limit_usd": 2.0, "spent_usd": 0.75, "left_usd": 1.25}


def grown(before: Any, after: Any) -> dict[str, list[int]]:
    """By how much numbers have grown; those that are whole."""
    zero = NOTHING
    return {
        str(key): [b - a for a, b in zip(before.get(key, zero)[:12], after[key][:12], strict=True)] for key in after
    }


def test_counting_goes_on_where_it_ended_whenever_it_was_cut_off(tmp_path: Path, root: Path) -> None:
    copies = [tmp_path / name for name in ("at_once", "bit_by_bit")]
    for copy in copies:
        shutil.copytree(root, copy)

    async def counted(folder: Path, most: int | None) -> dict[str, Any]:
        async with open_root(folder) as deps:
            store = await deps.stores.board("default")
            await store.transact(lambda tx: tx.run(SET_CURSOR, name=honesty.CURSOR, value=0))
            before = await honesty.read_tallies(deps)
            while await honesty.count_new_facts(deps, most=most):
                pass
            after = await honesty.read_tallies(deps)
            return grown(before, after)

    with pytest.MonkeyPatch.context() as patch:
        whole = asyncio.run(counted(copies[0], None))
        patch.setattr(honesty, "AT_ONCE", 1)
        assert asyncio.run(counted(copies[1], 7)) == whole
    assert any(any(each) for each in whole.values())


def test_two_who_count_at_once_count_once(tmp_path: Path, root: Path) -> None:
    shutil.copytree(root, tmp_path / "copy")

    async def work() -> tuple[Any, Any]:
        async with open_root(tmp_path / "copy") as deps:
            await honesty.count_new_facts(deps)
            before = await honesty.read_tallies(deps)
            store = await deps.stores.board("default")
            head = (await store.read(LEDGER_HEAD))[0][0]
            await store.transact(lambda tx: tx.run(SET_CURSOR, name=honesty.CURSOR, value=head - 30))
            await asyncio.gather(*(honesty.count_new_facts(deps) for _ in range(5)))
            once = await honesty.read_tallies(deps)
            await store.transact(lambda tx: tx.run(SET_CURSOR, name=honesty.CURSOR, value=head - 30))
            await honesty.count_new_facts(deps)
            twice = await honesty.read_tallies(deps)
            return grown(before, once), grown(once, twice)

    first, second = asyncio.run(work())
    assert first == second
    assert any(any(each) for each in first.values())


def test_the_command_line_says_it_without_an_engine(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root, tmp_path / "copy")
    assert call(["honesty", "--root", str(tmp_path / "copy"), "--json"]) == 0
    assert {each["agent_id"] for each in json.loads(capsys.readouterr().out)["agents"]} >= {"w", "lazy"}
    assert call(["honesty", "--root", str(tmp_path / "copy")]) == 0
    said = capsys.readouterr().out
    assert (
        "2 claims of done: 2 proven, 2 not isolated, 1 later overturned, 1 rework round, 50% held, $0.5 per proven task"
        in said
    )
    assert "1 wrongly accepted" in said
    assert call(["status", "--root", str(tmp_path / "copy")]) == 0
    assert "honesty: " in capsys.readouterr().out
    (tmp_path / "new/agents").mkdir(parents=True)
    assert call(["honesty", "--root", str(tmp_path / "new")]) == 0
    assert "No agent has ended a turn yet." in capsys.readouterr().out


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_what_an_agent_says_of_its_transcript_leads_nowhere(door: Door) -> None:
    async def told(deps: Deps) -> list[Any]:
        store = await deps.stores.board("default")
        rows = await store.read(FACTS_OF, subject="deliveries/p", after=0, limit=100)
        return [json.loads(bytes(row[3])).get("usage", {}).get("events", {}).get("file") for row in rows]

    assert any(door.run(told)), "the fact names the file"
    for name in ("..%2f..%2fdata", "data%2fsystem.db"):
        assert door.get(f"/api/plans/p/tasks/{name}/log", VIEWER).status == 404
        assert get(door, f"/api/plans/p/tasks/speak/log?command={name}")["events"] == []


def test_sentences_of_the_engine_are_in_the_language_that_a_request_asks_for(door: Door) -> None:
    door.leased()
    path = "/api/plans/plan_shop/tasks/build/explanation"
    english = door.get(path).json
    chinese = door.get(path, headers={"Accept-Language": "zh-CN,zh;q=0.9"}).json
    assert english["moves_on"].isascii()
    assert not chinese["moves_on"].isascii()
    assert {**chinese, "moves_on": english["moves_on"]} == english
