"""What checks found, written and read again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import Trust
from agenttalk.rules.proof import findings_json
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint, Reason, Screenshot
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes

TEXT = st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)
HASHES = st.dictionaries(TEXT, TEXT, max_size=3)
TIMES = st.datetimes(min_value=datetime(2020, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the zone comes with it
NAMES = st.frozensets(TEXT, max_size=3)
TESTS = st.builds(Outcomes, NAMES, NAMES, NAMES, NAMES, st.booleans())
FINGERPRINTS = st.builds(
    Fingerprint,
    st.fixed_dictionaries({"kind": st.sampled_from(["run", "tests"]), "run": TEXT}),
    TEXT,
    HASHES,
    HASHES,
    HASHES,
    st.tuples(TEXT, TEXT),
    st.none() | st.booleans(),
    st.booleans(),
    TEXT,
)
NAMES = st.frozensets(TEXT, max_size=3)
RESULTS = st.builds(
    CheckResult,
    TEXT,
    st.booleans(),
    st.sampled_from(get_args(Trust)),
    st.sampled_from(get_args(Reason)),
    TEXT,
    TIMES,
    TIMES,
    FINGERPRINTS,
    exit_code=st.none() | st.integers(0, 255),
    output=TEXT,
    output_sha256=TEXT,
    output_bytes=st.integers(0, 10**9),
    tests=st.none() | TESTS,
    flaky=st.tuples(TEXT) | st.just(()),
    isolated=st.none() | st.booleans(),
    crossed=st.none() | st.builds(CrossedTests, NAMES, NAMES, st.dictionaries(TEXT, TEXT, max_size=2)),
    by=TEXT,
    pictures=st.tuples(st.builds(Screenshot, TEXT, TEXT, st.integers(0, 10**9))) | st.just(()),
)


@given(RESULTS)
def test_what_is_kept_is_read_as_it_was(result: CheckResult) -> None:
    said = wire.read(wire.write(findings_json.to_cache_entry(result)))
    assert isinstance(said, dict)
    assert findings_json.read_cache_entry(said) == result
    again = findings_json.reuse_result(said, "other", at="then", made_for="p/t")
    assert again == replace(result, id="other", seen_at="then", seen_for="p/t")


def test_what_is_told_leaves_out_what_is_not_known_and_says_when_it_was_seen() -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    result = CheckResult(
        "t", True, "observed", "", "", began, began + timedelta(seconds=2), Fingerprint({"kind": "file"})
    )
    assert findings_json.to_json(result) == {
        "id": "t",
        "kind": "file",
        "passed": True,
        "trust": "observed",
        "seconds": 2.0,
    }
    told = findings_json.to_json(replace(result, seen_at="then", seen_for="p/t", output="x" * 9000))
    assert (told["seen_at"], told["seen_for"], len(told["output"])) == ("then", "p/t", 4000)
    pictured = findings_json.to_json(replace(result, pictures=(Screenshot("end", "sha256:p", 3),)))
    assert pictured["pictures"] == [{"name": "end", "sha256": "sha256:p", "size": 3}]
    recorded = findings_json.to_record(result)
    assert (recorded["by"], recorded["fingerprint"]["check"]) == ("engine", {"kind": "file"})
