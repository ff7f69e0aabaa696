"""Checks that only look: at files, at JSON, and at what the engine knows already."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.checking.command import CheckLimits
from agenttalk.contracts.core import wire
from agenttalk.rules.checks.check_results import GitFacts, StoredOutput, hash_shown
from agenttalk.rules.proof.evidence import Confirmation, cache_key


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"path": "a.txt"}, ""),
        ({"path": "a.txt", "contains": "né", "min_bytes": 5, "sha256": wire.sha256("abné".encode())}, ""),
        ({"path": "a.txt", "contains": "x"}, "content"),
        ({"path": "a.txt", "min_bytes": 6}, "content"),
        ({"path": "a.txt", "sha256": wire.sha256(b"")}, "content"),
        ({"path": "none"}, "missing"),
        ({"path": "sub/none"}, "missing"),
        ({"path": "sub"}, "unsafe"),
        ({"path": "out"}, "unsafe"),
        ({"path": "outside/a.txt"}, "unsafe"),
        ({"path": "fifo"}, "unsafe"),
        ({"path": "fifo", "contains": "x"}, "unsafe"),
        ({"path": "big", "contains": "x"}, "unreadable"),
        ({"path": "big", "min_bytes": 2000}, ""),
    ],
)
def test_a_file_is_looked_at_and_nothing_outside_of_the_checkout(
    plain: Bench, fields: dict[str, Any], reason: str
) -> None:
    plain.write(a_txt="abné")
    (plain.checkout / "sub").mkdir()
    (plain.path / "a.txt").write_text("abné")
    (plain.checkout / "out").symlink_to(plain.path / "a.txt")
    (plain.checkout / "outside").symlink_to(plain.path)
    os.mkfifo(plain.checkout / "fifo")
    (plain.checkout / "big").write_bytes(bytes(2000))
    result = plain.make(check("file", **fields), limits=CheckLimits(read_bytes=1000))
    assert (result.passed, result.reason, result.trust) == (not reason, reason, "observed")
    assert result.isolated is None
    assert result.exit_code is None


SCHEMA = {
    "type": "object",
    "properties": {"price": {"type": "number", "minimum": 0}, "name": {"$ref": "#/$defs/name"}},
    "$defs": {"name": {"type": "string", "pattern": "^([a-z]+)+$"}},
}


@pytest.mark.parametrize(
    ("text", "fields", "reason"),
    [
        ('{"price": 1, "name": "a"}', {}, ""),
        ('{"price": 1, "name": "a"}', {"schema": SCHEMA, "required_fields": ["price"]}, ""),
        ('{"price": -1, "name": 5}', {"schema": SCHEMA}, "content"),
        ('{"price": null}', {"required_fields": ["price"]}, "content"),
        ("[1]", {"schema": SCHEMA}, "content"),
        ("{", {}, "unreadable"),
        ('{"a": 1, "a": 2}', {}, "unreadable"),
        ('{"a": NaN}', {}, "unreadable"),
        ("{}", {"schema": {"type": "nonsense"}}, "unreadable"),
        ("{}", {"schema": {"$ref": "file:///etc/hostname"}}, "unreadable"),
    ],
)
def test_a_document_is_read_strictly_and_judged_by_its_schema(
    plain: Bench, text: str, fields: dict[str, Any], reason: str
) -> None:
    plain.write(a_json=text)
    result = plain.make(check("json", path="a.json", **fields))
    assert (result.passed, result.reason) == (not reason, reason)


def test_everything_that_breaks_a_schema_is_told(plain: Bench) -> None:
    plain.write(a_json='{"price": -1, "name": 5}')
    detail = plain.make(check("json", path="a.json", schema=SCHEMA, required_fields=["size"])).detail
    assert all(words in detail for words in ("it lacks 'size'", "$.price", "$.name"))


def test_a_text_on_which_a_pattern_would_never_end_does_not_hold_us_up(plain: Bench) -> None:
    plain.write(a_json=json.dumps({"name": "a" * 60 + "!"}))
    result = plain.make(check("json", path="a.json", schema=SCHEMA, timeout=1))
    assert (result.passed, result.reason) == (False, "unreadable")
    assert "1 seconds" in result.detail


def test_a_schema_fetches_nothing_from_elsewhere(plain: Bench) -> None:
    plain.write(a_json="{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        result = plain.make(check("json", path="a.json", schema={"$ref": address}, timeout=5))
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (result.passed, result.reason) == (False, "unreadable")


SHOWN = hash_shown("Good?", {})


@pytest.mark.parametrize(
    ("fields", "facts", "trust"),
    [
        ({"kind": "git"}, CheckFacts(git=GitFacts(changed=("c",))), "observed"),
        ({"kind": "artifact", "output": "o"}, CheckFacts(artifacts={"o": StoredOutput("a", "h", "h")}), "observed"),
        (
            {"kind": "artifact", "output": "o", "accepted_by": "b"},
            CheckFacts(artifacts={"o": StoredOutput("a", "h", "h", {"b": "h"})}),
            "attested",
        ),
        ({"kind": "report"}, CheckFacts(report="done"), "claimed"),
        (
            {"kind": "human", "question": "Good?"},
            CheckFacts(confirmation=Confirmation("ann", True, SHOWN, "confirmed"), shown=SHOWN),
            "confirmed",
        ),
        (
            {"kind": "human", "question": "Good?"},
            CheckFacts(confirmation=Confirmation("ann", True, SHOWN), shown=SHOWN),
            "attested",
        ),
    ],
    ids=["git", "artifact", "accepted", "report", "human", "anybody"],
)
def test_what_the_engine_knows_decides_and_what_it_does_not_know_is_not_so(
    plain: Bench, fields: dict[str, Any], facts: CheckFacts, trust: str
) -> None:
    made = check(**fields)
    known, unknown = (
        asyncio.run(plain.checker().check(made, None, each, plain.context)) for each in (facts, CheckFacts())
    )
    assert (known.passed, known.trust) == (True, trust)
    assert known.by == ("ann" if facts.confirmation else "engine")
    assert not unknown.passed
    assert unknown.reason
    assert cache_key(known.fingerprint) is None


def test_a_kind_that_nobody_makes_does_not_pass(plain: Bench) -> None:
    result = plain.make(check("horoscope"))
    assert (result.passed, result.reason) == (False, "unknown_kind")
    assert "'horoscope'" in result.detail


def test_a_forge_that_nobody_connected_shows_nothing(plain: Bench) -> None:
    result = plain.make(check("forge", repo="a/b", issue=1, issue_closed=True))
    assert (result.passed, result.reason) == (False, "facts_missing")
    assert "no forge is configured" in result.detail
