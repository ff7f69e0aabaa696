"""What an operator keeps outside of a root: a token, and how far the ledger had come."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.adapters.store import operator_folder
from agenttalk.adapters.store.ledger import ChainHead
from agenttalk.adapters.store.ledger_heads import HEADS, HeadsFile, read_heads
from agenttalk.adapters.store.root import database_path
from agenttalk.contracts.errors import MachineError
from agenttalk.doors.cli.main import call
from agenttalk.ports.storage import Tx
from agenttalk.wiring import open_root
from doors.api.enginekit import until


def worked(root: Path, facts: int = 3, *, witnessed: bool = True) -> None:
    """A part that records some facts on two boards."""

    async def run() -> None:
        async with open_root(root, witnessed=witnessed) as deps:
            for board in ("system", "default"):
                store = await deps.stores.board(board)

                def work(tx: Tx) -> None:
                    for number in range(facts):
                        tx.record("test.fact", f"fact {number}", {})

                await store.transact(work)

    asyncio.run(run())


def cut(root: Path, board: str, statement: str) -> None:
    connection = apsw.Connection(str(database_path(root, board)))
    connection.execute(statement)
    connection.close()


def verified(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = call(["audit", "verify", "--root", str(root), "--json"])
    return code, {each["chain"]: each["broken"] for each in json.loads(capsys.readouterr().out)["chains"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.mark.shows("E11")
def test_cutting_off_every_chain_alike_is_seen(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked(root)
    assert verified(root, capsys)[0] == 0
    for board in ("default", "system"):
        cut(root, board, "DELETE FROM ledger WHERE link > 1")
    code, broken = verified(root, capsys)
    assert code == 1
    assert "cut off" in broken["system"]["why"]
    assert "cut off" in broken["default"]["why"]
    assert call(["audit", "verify", "--root", str(root)]) == 1
    assert "remove that file if you created this root again" in capsys.readouterr().out


@pytest.mark.shows("E11")
def test_a_cut_stays_seen_however_long_the_chain_grows_afterwards(
    root: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    worked(root)
    for board in ("default", "system"):
        cut(root, board, "DELETE FROM ledger WHERE link > 1")
    with caplog.at_level(logging.ERROR):
        worked(root, 30)
    assert "heads.json knows of it" in caplog.text
    worked(root, 30)
    code, broken = verified(root, capsys)
    assert code == 1
    assert "rewritten" in broken["system"]["why"]
    assert "rewritten" in broken["default"]["why"]


def test_a_chain_that_only_grew_is_written_down_anew(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worked(root)
    before = read_heads(root)
    worked(root)
    worked(root, witnessed=False)
    after = read_heads(root)
    assert before is not None
    assert after is not None
    assert after["default"].link > before["default"].link
    assert after["system"].link > before["system"].link
    assert verified(root, capsys)[0] == 0


def test_parts_beside_each_other_forget_nothing_of_each_other(root: Path) -> None:
    one, two = HeadsFile(root), HeadsFile(root)
    one.note("a", ChainHead(5, b"a" * 32))
    two.note("b", ChainHead(7, b"b" * 32))
    two.note("a", ChainHead(3, b"c" * 32))
    one.flush()
    two.flush()
    assert read_heads(root) == {"a": ChainHead(5, b"a" * 32), "b": ChainHead(7, b"b" * 32)}
    one.flush()
    assert [path.name for path in operator_folder.folder_of(root).glob("*.tmp")] == []


def test_heads_that_cannot_be_written_are_written_later(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    heads = HeadsFile(root)
    heads.note("a", ChainHead(5, b"a" * 32))
    path = operator_folder.folder_of(root) / HEADS
    path.mkdir()
    heads.flush()
    assert "cannot keep the heads" in caplog.text
    path.rmdir()
    heads.flush()
    assert read_heads(root) == {"a": ChainHead(5, b"a" * 32)}


def test_while_it_runs_the_heads_are_written_down_too(root: Path) -> None:
    async def run() -> None:
        async with open_root(root, witnessed=True) as deps:
            store = await deps.stores.board("default")
            await store.transact(lambda tx: tx.record("test.fact", "x", {}))
            await asyncio.to_thread(until, lambda: read_heads(root), "the heads are written down")
            assert "default" in (read_heads(root) or {})

    asyncio.run(run())


def test_all_who_start_at_once_share_one_token(root: Path) -> None:
    found: list[str] = []
    begin = threading.Barrier(8)

    def make() -> None:
        begin.wait()
        found.append(operator_folder.ensure_token(root))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(found)) == 1
    assert operator_folder.token_of(root) == found[0]
    assert len(found[0]) > 40
    assert [path.name for path in operator_folder.folder_of(root).iterdir()] == ["operator.token"]


def test_another_root_has_another_token(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert operator_folder.folder_of(tmp_path / "link") == operator_folder.folder_of(root)
    assert operator_folder.ensure_token(root) != operator_folder.ensure_token(tmp_path)
    assert operator_folder.token_of(tmp_path / "never") is None


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"\xff\xfe"), lambda path: path.write_bytes(b"")])
def test_a_token_that_cannot_be_read_is_told(root: Path, spoil: Callable[[Path], object]) -> None:
    operator_folder.ensure_token(root)
    spoil(operator_folder.folder_of(root) / operator_folder.TOKEN)
    with pytest.raises(MachineError, match=r"operator\.token"):
        operator_folder.ensure_token(root)


def test_without_a_configured_folder_it_is_the_one_in_the_home(
    root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    operator_folder.ensure_token(root)
    assert operator_folder.folder_of(root).parent == tmp_path / "home/.config/agenttalk"
