"""A backup of a PostgreSQL store: by PostgreSQL's own programs, restored into an empty database only."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest

from agenttalk.cli.main import call
from agenttalk.store.root import RootStores
from storekit import Place, fact


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
