"""An engine whose store is PostgreSQL: plans of the engine, the whole way of a message, and the ledger."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

import preloaded
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.store.ledger_heads import read_heads
from agenttalk.contracts.human import HumanInterventionRequest
from agenttalk.doors.cli.core import engine_client
from agenttalk.doors.cli.main import call
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.heartbeat import Heartbeat
from agenttalk.engine.messages import dead_letters, plan_registry, published_files
from agenttalk.engine.messages.router import Router
from agenttalk.engine.operation import fsck
from agenttalk.engine.operation.monitor import Monitor
from agenttalk.engine.people import questions
from agenttalk.engine.views import plan_status
from agenttalk.ports.storage import Tx
from agenttalk.wiring import open_root
from doors.api.enginekit import REPORTS, agenttalk, clean, engine, programmed, until
from kits.treekit import Tree, dumped, node, output, question, sha256

T = TypeVar("T")
DAG = dumped(
    {
        "schema_version": "1.1",
        "plan_id": "plan_sea",
        "nodes": [
            node("build", "dev", outputs=[output("app.txt", "tester")]),
            node("test", "tester", depends_on=["build"]),
        ],
    }
)
MANIFEST = dumped({"schema_version": "1.0", "plan_id": "plan_sea", "commanders": ["lead"]})
BUILDS = "pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'app.txt').write_text('built')\n"


@pytest.fixture
def sea(tmp_path: Path) -> Tree:
    """A developer who builds, a tester who gets it, and no plan in the folders."""
    root = tmp_path / "root"
    root.mkdir()
    tree = Tree(root, plan_id="plan_sea", dags={"plan_sea": sha256(DAG)})
    for agent_id in ("lead", "tester"):
        tree.agent(agent_id)
    programmed(tree, "dev", "import os, pathlib\n" + BUILDS)
    return tree


@pytest.fixture
def store(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The settings name the database."""
    monkeypatch.setenv("AGENTTALK__STORE__URL", database)
    return database


def inside(root: Path, url: str, use: Callable[[Deps], Awaitable[T]], *, witnessed: bool = False) -> T:
    async def run() -> T:
        async with open_root(root, url=url, witnessed=witnessed) as deps:
            return await use(deps)

    return asyncio.run(run())


def submitted(root: Path, url: str) -> None:
    inside(root, url, lambda deps: plan_registry.submit(deps, DAG, manifest=MANIFEST))


def client(root: Path) -> engine_client.EngineClient:
    found = engine_client.connect_to_running_engine(root)
    assert found is not None
    return found


def state(root: Path, task_id: str = "build") -> str:
    return str(client(root).get(f"/api/projects/default/tasks/plan_sea:{task_id}")["state"])


def test_a_message_goes_its_whole_way_through_postgresql(sea: Tree, database: str) -> None:
    async def use(deps: Deps) -> None:
        await plan_registry.submit(deps, DAG, manifest=MANIFEST)
        router, processes = Router(deps), LocalProcesses()
        sea.command("lead", "build")
        sea.command("tester", "build")
        first = await router.pass_()
        assert (first.delivered, first.dead, first.problems) == (1, 1, [])
        beat = Heartbeat(deps, "dev", ScriptDriver(processes), processes)
        tick = await beat.run_once()
        assert tick.errors == []
        second = await router.pass_()
        assert (second.delivered, second.problems) == (1, [])
        assert (await router.pass_()).idle
        [plan] = (await plan_status.read_status_overview(deps, {}))["plans"]
        assert {task["task_id"]: task["state"] for task in plan["tasks"]}["build"] == "COMPLETED"
        assert plan["messages"] == {
            "sent": 3, "delivered": 2, "superseded": 0, "duplicate": 0, "dead": 1, "in_flight": 0,
        }  # fmt: skip
        watched = await Monitor(deps).pass_()
        assert (watched.lost, watched.problems) == (0, [])
        assert await fsck.check_root(deps) == []
        assert await published_files.republish(deps, await deps.stores.board("default")) > 0

    inside(sea.root, database, use)
    assert [name for name in sea.inbox("tester") if name.endswith(".msg.json")]
    assert (sea.plan_folder() / "task_dag.json").read_bytes() == DAG
    assert [line["status"] for line in sea.journal()].count("DELIVERED") == 2


def test_large_payloads_questions_and_dead_letters_work_there_too(sea: Tree, database: str) -> None:
    large = b"x" * 300_000

    async def use(deps: Deps) -> None:
        await plan_registry.submit(deps, DAG, manifest=MANIFEST)
        board = await deps.stores.board("default")
        request = HumanInterventionRequest.from_json(question("req_1", for_whom="tester"))
        await board.transact(lambda tx: questions.ask(tx, request, plan_id="plan_sea", at=deps.stamp()))
        [asked] = await questions.list_open(deps)
        await questions.answer(
            deps, "req_1", by="ann", decision="PROVIDE", files={"prices.csv": large}, answers=(), notes=None,
            seen_sha256=asked.sha256,
        )  # fmt: skip
        sea.command("lead", "deploy")
        report = await Router(deps).pass_()
        assert (report.delivered, report.dead, report.problems) == (2, 1, [])
        [letter] = await dead_letters.list_dead_letters(deps)
        shown, original = await dead_letters.read_dead_letter(deps, letter["deadletter_id"])
        assert (shown["code"], b"cmd_deploy_001" in (original or b"")) == ("TASK_NOT_IN_DAG", True)
        assert (await dead_letters.replay(deps, letter["deadletter_id"], by="ada"))["ok"] is False
        assert await fsck.check_root(deps) == []

    inside(sea.root, database, use)
    [path] = sea.box("tester", "inbox").rglob("prices.csv")
    assert path.read_bytes() == large
    assert not (sea.root / "data").exists()


@pytest.mark.rest
def test_an_engine_works_on_postgresql_and_the_next_one_goes_on(sea: Tree, store: str) -> None:
    programmed(sea, "dev", REPORTS + "say('on it')\n" + BUILDS)
    submitted(sea.root, store)
    root = ("--root", str(sea.root))
    with engine(sea.root) as serving:
        sea.command("lead", "build")
        until(lambda: state(sea.root) == "COMPLETED", "the task is completed")
        until(lambda: [each for each in sea.inbox("tester") if each.endswith(".msg.json")], "it is delivered")
        task = client(sea.root).get("/api/projects/default/tasks/plan_sea:build")
        assert [each["body"] for each in task["comments"]] == ["on it"]
        for words in (["route", "--once"], ["heartbeat", "--agent", "dev", "--once"], ["monitor", "--once"], ["fsck"]):
            assert call([*words, *root]) == 0
        assert serving.ended(signal.SIGTERM) == 0
    assert list((sea.root / "data").rglob("*.db")) == []
    with engine(sea.root):
        assert state(sea.root) == "COMPLETED"


def test_commands_without_an_engine_use_the_store_that_the_settings_name(
    sea: Tree, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submitted(sea.root, store)
    assert call(["status", "--root", str(sea.root), "--json"]) == 0
    [plan] = json.loads(capsys.readouterr().out)["plans"]
    assert (plan["plan_id"], plan["origin"]) == ("plan_sea", "engine")
    assert call(["fsck", "--root", str(sea.root)]) == 0
    assert list((sea.root / "data").rglob("*.db")) == []


@pytest.mark.parametrize("part", [["route"], ["monitor"], ["heartbeat", "--agent", "dev"]])
@pytest.mark.usefixtures("store")
def test_a_part_on_its_own_refuses_and_names_the_engine(
    sea: Tree, part: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call([*part, "--once", "--root", str(sea.root), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], "agenttalk serve" in error["hint"]) == ("STORE_INCOMPATIBLE", True)


@pytest.mark.rest
def test_plans_that_lie_there_as_files_are_halted_and_people_are_told(tree: Tree, store: str) -> None:
    assert store
    tree.command("lead", "build")
    with engine(tree.root):
        report = client(tree.root).post("/api/passes", {"part": "route"})
        assert (report["delivered"], report["waiting"]) == (0, 1)
        [plan] = client(tree.root).get("/api/status")["plans"]
        assert "SQLite only" in plan["halted"]
    [alert] = [each for each in tree.documents("alerts/plan_shop") if each["type"] == "STORE_INCOMPATIBLE"]
    assert alert["severity"] == "CRITICAL"
    assert tree.inbox("dev") == []


def test_two_servers_share_the_store_and_each_hears_of_the_others_effects(
    sea: Tree, database: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    async def use(here: Deps) -> None:
        async with open_root(elsewhere, url=database) as there:
            await plan_registry.submit(there, DAG, manifest=MANIFEST)
            assert set(await plan_registry.PlanRegistry(here).refresh()) == {"plan_sea"}
            mine, theirs = await here.stores.board("default"), await there.stores.board("default")
            seen = await asyncio.wait_for(mine.wait_for_effects(await mine.wait_for_effects(0)), 30)
            waiting = asyncio.create_task(mine.wait_for_effects(seen))
            await theirs.transact(lambda tx: tx.queue_effect("test", "one", {}))
            assert await asyncio.wait_for(waiting, 300) > seen

    inside(sea.root, database, use)


def test_a_database_that_is_not_there_is_told_without_the_password(
    sea: Tree, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AGENTTALK__STORE__URL", "postgresql://ann:opensesame@127.0.0.1:1/none")
    done = agenttalk("serve", "--root", str(sea.root), "--port", "0")
    assert (done.returncode, "STORE_UNAVAILABLE" in done.stderr) == (1, True)
    assert call(["audit", "verify", "--root", str(sea.root)]) == 1
    said = capsys.readouterr()
    assert "opensesame" not in done.stderr + done.stdout + said.out + said.err


def recorded(root: Path, url: str) -> None:
    """A server that records some facts on two boards, and tells the operator how far it came."""

    async def use(deps: Deps) -> None:
        for name in ("system", "default"):

            def work(tx: Tx) -> None:
                for number in range(3):
                    tx.record("test.fact", f"fact {number}", {})

            await (await deps.stores.board(name)).transact(work)

    inside(root, url, use, witnessed=True)


def audited(root: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = call(["audit", "verify", "--root", str(root), "--json", *words])
    return code, {each["chain"]: each["broken"] for each in json.loads(capsys.readouterr().out)["chains"]}


@pytest.mark.shows("E11")
def test_the_ledger_is_verified_anchored_and_exported(
    sea: Tree, store: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    recorded(sea.root, store)
    assert audited(sea.root, capsys) == (0, {"system": None, "projects": None})
    anchor, lines = tmp_path / "anchor.json", tmp_path / "ledger.jsonl"
    assert call(["audit", "anchor", "--to", str(anchor), "--root", str(sea.root)]) == 0
    assert call(["audit", "export", "--out", str(lines), "--root", str(sea.root)]) == 0
    found = [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()]
    assert [each["board"] for each in found if each["kind"] == "test.fact"] == ["system"] * 3 + ["default"] * 3
    recorded(sea.root, store)
    assert audited(sea.root, capsys, "--anchor", str(anchor))[0] == 0
    heads = read_heads(sea.root, shared=True)
    assert heads is not None
    assert (set(heads), read_heads(sea.root)) == ({"system", "projects"}, None)


@pytest.mark.shows("E11")
@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("DELETE FROM {}.ledger WHERE link > 1", "cut off"),
        ("UPDATE {}.ledger SET subject = 'another' WHERE link = 2", "hash"),
        ("DELETE FROM {}.ledger WHERE link = 2", ""),
    ],
)
def test_whoever_tampers_with_the_tables_is_found(
    sea: Tree, store: str, capsys: pytest.CaptureFixture[str], statement: str, why: str
) -> None:
    recorded(sea.root, store)
    with psycopg.connect(store, autocommit=True) as session:
        for schema in ("system", "projects"):
            session.execute(statement.format(schema))
    code, broken = audited(sea.root, capsys)
    assert code == 1
    for chain in ("system", "projects"):
        assert why in broken[chain]["why"]


@pytest.mark.usefixtures("store")
def test_a_database_without_a_ledger_is_told(sea: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["audit", "verify", "--root", str(sea.root), "--json"]) == 2
    assert "holds no ledger" in json.loads(capsys.readouterr().out)["error"]["message"]


@pytest.mark.rest
def test_the_ledger_is_verified_beside_a_working_engine(sea: Tree, store: str) -> None:
    submitted(sea.root, store)
    with engine(sea.root):
        sea.command("lead", "build")
        until(lambda: state(sea.root) == "COMPLETED", "the task is completed")
        words = [preloaded.program(), "audit", "verify", "--root", str(sea.root)]

        def verified() -> bool:
            return subprocess.run(words, check=False, capture_output=True, env=clean()).returncode == 0

        until(verified, "everything is sealed and holds")
