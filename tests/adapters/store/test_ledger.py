"""The chain of facts: whatever was done to it is found and named."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.adapters.store import audit, ledger
from agenttalk.adapters.store.ledger import START, ChainHead
from agenttalk.adapters.store.root import RootStores, list_databases
from agenttalk.contracts.core import wire
from agenttalk.doors.cli.main import call
from agenttalk.ports.statements.core import LATEST_FACT, SEALED_FACTS, UNSEALED_FACTS, LedgerEntry
from kits.storekit import Place, fact

SHOP = "data/projects/shop/blackboard.db"
SWAP = """
UPDATE ledger SET link = CASE link WHEN 4 THEN -5 ELSE -4 END WHERE link IN (4, 5);
UPDATE ledger SET link = -link WHERE link < 0
"""
SLIP_IN = "INSERT INTO ledger (at, board, kind, subject, body, hash) VALUES ('', 'shop', 'k', 's', x'7b7d', x'00')"


def entry(seq: int, body: bytes = b"{}") -> LedgerEntry:
    return LedgerEntry(seq, None, "2026-03-01T12:00:00.000000Z", "shop", "test.fact", f"t{seq}", body, None, None)


def chain(size: int) -> list[LedgerEntry]:
    return list(ledger.seal_entries(START, [entry(n) for n in range(1, size + 1)]))


@given(st.text(), st.text(), st.dictionaries(st.text(), st.integers()))
def test_an_entry_is_hashed_as_canonical_json(subject: str, kind: str, body: dict[str, int]) -> None:
    sample = entry(7, wire.write(body))._replace(subject=subject, kind=kind)
    value = {"at": sample.at, "board": "shop", "body": body, "kind": kind, "link": 3, "seq": 7, "subject": subject}
    assert ledger.canonical_bytes(sample, 3) == wire.write(value)
    assert ledger.hash_entry(b"p" * 32, sample, 3) == sha256(b"p" * 32 + wire.write(value)).digest()


def test_an_untouched_chain_is_intact() -> None:
    entries = chain(5)
    verdict = ledger.verify_chain(entries, (), {3: entries[2].hash or b"", 5: entries[4].hash or b""})
    assert verdict.intact
    assert verdict.head == ChainHead(5, entries[4].hash or b"")
    assert ledger.verify_chain([]).intact


def resealed(entries: list[LedgerEntry]) -> list[LedgerEntry]:
    """What somebody does who can compute hashes."""
    return list(ledger.seal_entries(START, entries))


@pytest.mark.parametrize(
    ("tamper", "seq", "link", "word"),
    [
        (lambda e: [*e[:2], e[2]._replace(body=b'{"x":1}'), *e[3:]], 3, 3, "changed"),
        (lambda e: [*e[:2], e[2]._replace(subject="other"), *e[3:]], 3, 3, "changed"),
        (lambda e: [*e[:2], *e[3:]], 4, 3, "missing"),
        (lambda e: e[1:], 2, 1, "missing"),
        (lambda e: [e[0], e[2], e[1], *e[3:]], 3, 2, "missing"),
        (lambda e: [e[0], e[2]._replace(link=2), e[1]._replace(link=3), *e[3:]], 3, 2, "changed"),
        (lambda e: [*e[:2], resealed([entry(9)] * 3)[2], *e[3:]], 9, 3, "replaced"),
        (lambda e: e[:3], None, 4, "cut off"),
        (lambda e: resealed([*e[:2], e[2]._replace(body=b"[]"), *e[3:]]), 5, 5, "rewritten"),
        (lambda e: [e[0], e[0], *e[1:]], 1, 2, "reordered"),
    ],
)
def test_tampering_is_found_and_named(
    tamper: Callable[[list[LedgerEntry]], list[LedgerEntry]], seq: int | None, link: int, word: str
) -> None:
    entries = chain(5)
    verdict = ledger.verify_chain(tamper(entries), (), {5: entries[4].hash or b""})
    assert verdict.broken is not None
    assert (verdict.broken.seq, verdict.broken.link) == (seq, link)
    assert word in verdict.broken.why
    assert not verdict.intact


def test_what_is_not_sealed_is_named_and_is_not_intact() -> None:
    verdict = ledger.verify_chain(chain(2), [3, 4])
    assert verdict.broken is None
    assert verdict.unsealed == (3, 4)
    assert not verdict.intact


async def write_facts(stores: RootStores) -> None:
    for name in ("shop", "_mail"):
        board = await stores.board(name)
        works = [board.transact(fact(f"t{i}", {"n": i})) for i in range(9)]
        await asyncio.gather(*works)


def test_facts_are_sealed_in_the_order_of_a_chain_and_heads_are_copied(place: Place) -> None:
    place.play(write_facts)

    async def scenario(stores: RootStores) -> None:
        system = await stores.board("system")
        for name, subject in {"shop": "projects", "_mail": "mail"}.items():
            board = await stores.board(name)
            rows = await board.read(SEALED_FACTS, after=0, limit=100)
            verdict = ledger.verify_chain(LedgerEntry(*row) for row in rows)
            assert verdict.intact
            assert verdict.head.link == 9
            assert await board.read(UNSEALED_FACTS, after=0, limit=100) == []
            [(_, _, body)] = await system.read(LATEST_FACT, subject=subject if place.url else name, kind="head.sealed")
            assert json.loads(body) == {"link": 9, "hash": f"sha256:{verdict.head.hash.hex()}"}

    place.play(scenario)


def test_a_head_is_copied_once(place: Place) -> None:
    for scene in (write_facts, open_all, open_all):
        place.play(scene)

    async def count(stores: RootStores) -> int:
        system = await stores.board("system")
        return len(await system.read(SEALED_FACTS, after=0, limit=100))

    assert place.play(count) == 2


async def open_all(stores: RootStores) -> None:
    for name in ("shop", "_mail"):
        await stores.board(name)


def test_facts_are_sealed_and_heads_copied_while_the_store_is_open(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agenttalk.adapters.store.writer.SEAL_SECONDS", 0)

    async def scenario(stores: RootStores) -> None:
        board, system = await stores.board("shop"), await stores.board("system")
        await board.transact(fact("t"))
        subject = "projects" if place.url else "shop"
        while not await system.read(LATEST_FACT, subject=subject, kind="head.sealed"):
            pass
        assert await board.read(UNSEALED_FACTS, after=0, limit=10) == []

    async def in_time(stores: RootStores) -> None:
        await asyncio.wait_for(scenario(stores), 30)

    place.play(in_time)


def test_two_servers_or_parts_write_one_chain(place: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        other = place.stores()
        boards = [await stores.board("shop"), await other.board("bakery" if place.url else "shop")]
        for turn in range(20):
            await asyncio.gather(*(b.transact(fact(f"{turn}")) for b in boards * 5))
        await other.close()

    async def check(stores: RootStores) -> None:
        board = await stores.board("shop")
        verdict = ledger.verify_chain(LedgerEntry(*row) for row in await board.read(SEALED_FACTS, after=0, limit=1000))
        assert verdict.intact
        assert verdict.head.link == 200

    place.play(scenario)
    place.play(check)


@pytest.fixture
def root(sqlite: Place) -> Path:
    """A root with facts on two boards."""
    sqlite.play(write_facts)
    return sqlite.root


def tamper_with(root: Path, statement: str, path: str = SHOP) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(root / path))
    rows = connection.execute(statement).fetchall()
    connection.close()
    return rows


def verified(root: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    code = call(["audit", "verify", "--root", str(root), "--json", *more])
    answer = json.loads(capsys.readouterr().out)
    return code, {"ok": answer["ok"], **{report["chain"]: report for report in answer["chains"]}}


def test_an_untouched_root_is_intact(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer = verified(root, capsys)
    assert code == 0
    assert answer["ok"]
    assert {name: answer[name]["entries"] for name in ("system", "shop", "_mail")} == {
        "system": 2,
        "shop": 9,
        "_mail": 9,
    }


@pytest.mark.shows("E11")
@pytest.mark.parametrize(
    ("statement", "seq", "link", "word"),
    [
        ("UPDATE ledger SET body = CAST('{\"n\":99}' AS BLOB) WHERE seq = 4", 4, 4, "changed"),
        ("UPDATE ledger SET at = '2020-01-01T00:00:00.000000Z' WHERE seq = 1", 1, 1, "changed"),
        ("DELETE FROM ledger WHERE seq = 4", 5, 4, "missing"),
        (SWAP, 5, 4, "changed"),
        ("DELETE FROM ledger WHERE seq > 7", None, 8, "cut off"),
        ("UPDATE ledger SET hash = NULL, link = NULL, prev = NULL WHERE seq > 7", None, 8, "cut off"),
        ("DELETE FROM ledger", None, 1, "cut off"),
        (SLIP_IN, None, 10, "foreign"),
    ],
    ids=["body", "time", "deleted", "reordered", "truncated", "unsealed", "emptied", "slipped in"],
)
def test_the_command_line_finds_tampering(
    root: Path, capsys: pytest.CaptureFixture[str], statement: str, *, seq: int | None, link: int, word: str
) -> None:
    tamper_with(root, statement)
    code, answer = verified(root, capsys)
    assert code == 1
    assert not answer["ok"]
    assert answer["_mail"]["intact"]
    broken = answer["shop"]["broken"]
    assert (broken["seq"], broken["link"]) == (seq, link)
    assert word in broken["why"]
    assert call(["audit", "verify", "--root", str(root)]) == 1
    assert word in capsys.readouterr().out


def test_an_unsealed_entry_is_named_and_not_called_intact(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tamper_with(root, "INSERT INTO ledger (at, board, kind, subject, body) VALUES ('', 'shop', 'k', 's', x'7b7d')")
    code, answer = verified(root, capsys)
    assert code == 1
    assert answer["shop"]["unsealed"] == [10]
    assert call(["audit", "verify", "--root", str(root)]) == 1
    assert "1 entry not sealed, so not checked (entry 10 to 10)" in capsys.readouterr().out


def test_a_database_that_is_gone_or_damaged_is_not_intact(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / SHOP).unlink()
    (root / "data/_mail/blackboard.db").write_bytes(b"not a database at all" * 1000)
    code, answer = verified(root, capsys)
    assert code == 1
    assert "gone" in answer["shop"]["broken"]["why"]
    assert "not readable" in answer["_mail"]["broken"]["why"]


@pytest.mark.shows("E11")
def test_an_anchor_shows_that_even_the_system_was_cut(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    anchor = tmp_path / "anchor.json"
    assert call(["audit", "anchor", "--to", str(anchor), "--root", str(root)]) == 0
    assert "the heads of 3 chains" in capsys.readouterr().out
    assert verified(root, capsys, "--anchor", str(anchor))[0] == 0
    [[last]] = tamper_with(root, "DELETE FROM ledger WHERE seq = 2 RETURNING subject", "data/system.db")
    list_databases(root)[str(last)].unlink()
    assert verified(root, capsys)[0] == 0  # who cuts everything alike leaves no trace here
    code, answer = verified(root, capsys, "--anchor", str(anchor))
    assert code == 1
    assert "cut off" in answer["system"]["broken"]["why"]
    assert "gone" in answer[last]["broken"]["why"]


@pytest.mark.parametrize("order", [1, -1])
def test_two_anchors_that_disagree_are_never_both_believed(root: Path, order: int) -> None:
    right = {report.chain: report.verdict.head for report in audit.verify(root)}
    wrong = right | {"system": ChainHead(right["system"].link, bytes(32))}
    assert all(report.verdict.intact for report in audit.verify(root, right, right))
    [system, *others] = audit.verify(root, *(right, wrong)[::order])
    assert system.verdict.broken is not None
    assert "rewritten" in system.verdict.broken.why
    assert all(report.verdict.intact for report in others)


def test_names_out_of_a_tampered_database_do_not_act_on_the_terminal(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = "'[red]' || char(27) || '[2J' || char(155)"
    tamper_with(root, f"UPDATE ledger SET subject = {evil} WHERE subject = 'shop'", "data/system.db")
    assert call(["audit", "verify", "--root", str(root)]) == 1
    said = capsys.readouterr().out
    assert "[red]" in said
    assert not {"\x1b", "\x9b"} & set(said)


def test_a_broken_chain_is_not_anchored(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tamper_with(root, "DELETE FROM ledger WHERE seq = 4")
    assert call(["audit", "anchor", "--to", str(tmp_path / "a.json"), "--root", str(root)]) == 1
    assert "missing" in capsys.readouterr().out
    assert not (tmp_path / "a.json").exists()


def test_verifying_leaves_no_trace_and_works_on_a_copy(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(root / "data", copy / "data")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert verified(copy, capsys)[0] == 0
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before


def test_verifying_beside_a_running_engine_sees_what_is_committed(sqlite: Place) -> None:
    async def scenario(stores: RootStores) -> None:
        await write_facts(stores)
        reports = {report.chain: report.verdict for report in audit.verify(sqlite.root)}
        assert reports["shop"].intact
        assert reports["shop"].head.link == 9

    sqlite.play(scenario)


@pytest.mark.parametrize(
    "arguments",
    [["verify"], ["verify", "--root", "/nowhere"], ["export"], ["anchor", "--root", "/nowhere", "--to", "x"]],
)
def test_bad_input_ends_with_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTTALK_ROOT", raising=False)
    assert call(["audit", *arguments]) == 2
    assert capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{}", '{"heads":{}}', '{"heads":{"shop":{"link":1,"hash":"x"}}}', "[1]"])
def test_a_file_that_is_no_anchor_is_bad_input(
    root: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    anchor = tmp_path / "anchor.json"
    anchor.write_text(text)
    assert call(["audit", "verify", "--root", str(root), "--anchor", str(anchor)]) == 2
    assert "anchor" in capsys.readouterr().err


def test_the_export_can_be_verified_by_anybody(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "ledger.jsonl"
    assert call(["audit", "export", "--root", str(root), "--out", str(out)]) == 0
    assert "20 entries" in capsys.readouterr().out
    head: dict[str, str] = {}
    for line in out.read_text().split("\n")[:-1]:
        told = json.loads(line)
        name, prev, digest = (told.pop(key) for key in ("chain", "prev", "hash"))
        assert prev == head.get(name, "sha256:" + "0" * 64)
        text = json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        assert digest == "sha256:" + sha256(bytes.fromhex(prev[7:]) + text.encode()).hexdigest()
        head[name] = digest
    assert head.keys() == {"system", "shop", "_mail"}


def test_an_export_goes_to_standard_output_or_says_what_it_wrote(
    root: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = tmp_path / "ledger.jsonl"
    assert call(["audit", "export", "--root", str(root), "--out", str(out), "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == {"ok": True, "file": str(out), "entries": 20}
    assert call(["audit", "export", "--root", str(root)]) == 0
    assert capfdbinary.readouterr().out == out.read_bytes()
    assert call(["audit", "export", "--root", str(root), "--out", str(tmp_path / "no/such/file")]) == 1


def test_an_anchor_that_is_not_there_is_bad_input(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["audit", "verify", "--root", str(root), "--anchor", "/nowhere"]) == 2
    assert "/nowhere" in capsys.readouterr().err
