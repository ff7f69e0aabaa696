"""PostgreSQL stores: backups by its own programs, and engines that share schedules and notices."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from agenttalk.adapters.store.root import RootStores
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.contracts.schedule import Schedule
from agenttalk.doors.cli.main import call
from agenttalk.engine.operation.notifications import NoticeResult, NotificationTarget, Notifier
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.ports.statements.plans import OPEN_RUNS
from agenttalk.rules.planfile.compiler import CompiledPlan, compile_plan
from agenttalk.wiring import open_root
from kits.storekit import NOON, Place, fact


class Ticking:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time


async def used(stores: RootStores) -> None:
    store = await stores.board("default")
    await store.transact(fact("first"))


def run(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert call([*words]) == code
    printed = capsys.readouterr()
    return (printed.out + printed.err).replace("\n", " ")


@pytest.fixture
def kept(postgres: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("HOME", str(postgres.root))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(postgres.root / "config"))
    (postgres.root / "root" / "agents").mkdir(parents=True)
    monkeypatch.setenv("AGENTTALK__STORE__URL", postgres.url)
    postgres.play(used)
    return postgres


def test_a_store_in_postgresql_comes_back_in_an_empty_database(
    kept: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive, other = kept.root / "kept.tar.gz", kept.root / "other"
    run(capsys, "backup", str(archive), "--root", str(kept.root / "root"))
    told = run(capsys, "restore", str(archive), "--root", str(other), code=2)
    assert "holds an AgentTalk already" in told
    assert not other.exists()
    name = kept.url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(kept.url.replace(f"/{name}?", "/postgres?"), autocommit=True) as session:
        session.execute(f"CREATE DATABASE {name}_other")
    try:
        monkeypatch.setenv("AGENTTALK__STORE__URL", kept.url.replace(f"/{name}?", f"/{name}_other?"))
        shown = json.loads(run(capsys, "restore", str(archive), "--json", "--root", str(other)))
        assert (shown["paused"], shown["files"]) == ([], 1)
        exported = run(capsys, "audit", "export", "--root", str(other))
        assert '"subject":"first"' in exported
        assert '"root.restored"' in exported
        assert sorted(path.name for path in other.iterdir()) == ["agents", "system_runtime"]
    finally:
        with psycopg.connect(kept.url.replace(f"/{name}?", "/postgres?"), autocommit=True) as session:
            session.execute(f"DROP DATABASE {name}_other WITH (FORCE)")


def test_a_backup_of_one_kind_of_store_is_not_restored_into_the_other(
    kept: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = kept.root / "kept.tar.gz"
    run(capsys, "backup", str(archive), "--root", str(kept.root / "root"))
    monkeypatch.delenv("AGENTTALK__STORE__URL")
    told = run(capsys, "restore", str(archive), "--root", str(kept.root / "other"), code=2)
    assert "a backup of a postgres store" in told


def test_without_the_program_it_says_what_to_install(
    kept: Place,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path_factory.mktemp("empty")))
    archive: Path = kept.root / "kept.tar.gz"
    told = run(capsys, "backup", str(archive), "--root", str(kept.root / "root"), code=2)
    assert "pg_dump is not installed" in told
    assert not archive.exists()


def test_two_engines_on_one_store_begin_one_plan_and_tell_of_it_once(postgres: Place) -> None:
    told: list[str] = []

    async def post(_: NotificationTarget, headers: Mapping[str, str], __: bytes) -> NoticeResult:
        told.append(headers["webhook-id"])
        return NoticeResult(ok=True)

    def compiled(_: Schedule, plan_id: str) -> CompiledPlan:
        agents = {"ada": {"driver": "human"}}
        tasks = [{"id": "look", "agent": "ada", "prompt": "Look."}]
        return compile_plan(reader.plan_of(YamlSource({"plan_id": plan_id, "agents": agents, "tasks": tasks})))

    async def run() -> None:
        clock = Ticking()
        hourly = Schedule.model_validate({"cron": "0 * * * *", "agent": "ada", "prompt": "Look."})
        hook = NotificationTarget("hook", "https://example.org", "cloudevents", frozenset({"plan.ended"}))
        async with AsyncExitStack() as stack:
            roots = [postgres.root / name for name in ("one", "two")]
            for root in roots:
                root.mkdir()
            opening = [open_root(root, clock=clock, url=postgres.url) for root in roots]
            both = [await stack.enter_async_context(each) for each in opening]
            schedules = [Scheduler(deps, {"sums": hourly}, compiled) for deps in both]
            notices = [Notifier(deps, [hook], post, source="urn:agenttalk:test") for deps in both]
            for each in notices:
                await each.begin()
            await asyncio.gather(*(each.pass_() for each in schedules))
            clock.time += timedelta(hours=1)
            await asyncio.gather(*(each.pass_() for each in schedules))
            board = await both[0].stores.board("default")
            assert [row[0] for row in await board.read(OPEN_RUNS)] == ["sums-2026-03-01T13-00"]
            await board.transact(lambda tx: tx.record("plan.ended", "sums", {"completed": 1}))
            async with asyncio.timeout(300):
                while not told:  # facts are sealed a moment later here
                    await asyncio.gather(*(each.pass_() for each in notices))
                    await asyncio.sleep(0.05)
            for each in notices:
                await each.pass_()

    asyncio.run(run())
    assert len(told) == 1
