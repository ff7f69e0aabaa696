"""What evidence rests on, when it may be used again, and what an agent's word is worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.evidence import EvidenceEntry
from agenttalk.contracts.promise import AnyCheck, CompletionPromise, RedFirst
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.done import TRUST, Evidence, decide
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint, Reason, Redness, cache_key
from agenttalk.rules.suites.outcomes import Outcomes

NOW = datetime(2026, 1, 8, 10, 30, tzinfo=UTC)


def promise(*checks: dict[str, Any], **fields: Any) -> CompletionPromise:
    acceptance = [{"id": "works", "description": "It works", "evidenceRequired": ["tests"], "minTrust": "claimed"}]
    body = {"id": "cp-1-abcd", "objective": "o", "acceptance": acceptance, "checks": list(checks), **fields}
    return CompletionPromise.read(body)


def check(**fields: Any) -> AnyCheck:
    return promise({"id": "tests", "kind": "run", "run": "make test", **fields}).checks[0]


def result(**fields: Any) -> CheckResult:
    return replace(CheckResult("tests", True, "executed", "", "", NOW, NOW, Fingerprint()), **fields)


def fingerprint(**fields: Any) -> Fingerprint:
    base = Fingerprint(
        evidence.to_relevant_json(check()),
        "sha256:tree",
        {},
        {"a.py": "sha256:1"},
        {"in": "sha256:2"},
        ("sh", "-c", "x"),
        True,
    )
    return replace(base, **fields)


@pytest.mark.parametrize(
    ("fields", "trust"),
    [
        ({"kind": "run", "run": "x"}, "executed"),
        ({"kind": "tests", "run": "x", "junit": "r.xml"}, "executed"),
        ({"kind": "file", "path": "a"}, "observed"),
        ({"kind": "artifact", "output": "a"}, "observed"),
        ({"kind": "artifact", "output": "a", "accepted_by": "b"}, "attested"),
        ({"kind": "report"}, "claimed"),
        ({"kind": "human", "question": "?"}, "confirmed"),
        ({"kind": "strange"}, "observed"),
    ],
)
def test_each_kind_gives_its_trust(fields: dict[str, Any], trust: str) -> None:
    assert evidence.trust_of(promise({"id": "tests", **fields}).checks[0]) == trust


# Caching


CHANGES: list[dict[str, Any]] = [
    {"tree": "sha256:other"},
    {"files": {"a.py": "sha256:9"}},
    {"files": {}},
    {"inputs": {"in": "sha256:9"}},
    {"argv": ("sh", "-c", "y")},
    {"isolated": False},
    {"network": True},
    {"base": "sha256:7"},
    {"check": evidence.to_relevant_json(check(run="make all"))},
    {"check": evidence.to_relevant_json(check(env={"A": "1"}))},
    {"check": evidence.to_relevant_json(check(cwd="sub"))},
    {"check": evidence.to_relevant_json(check(retries=1))},
    {"check": evidence.to_relevant_json(check(protected=["tests/**"]))},
]


def test_the_same_inputs_have_the_same_key_and_any_change_another() -> None:
    keys = [cache_key(fingerprint()), *(cache_key(fingerprint(**change)) for change in CHANGES)]
    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert cache_key(fingerprint()) == keys[0]


def test_the_name_of_a_check_and_what_is_demanded_of_it_change_nothing_of_what_it_finds() -> None:
    other = promise({"id": "b", "kind": "run", "run": "make test", "minTrust": "observed", "red_first": "off"}).checks[
        0
    ]
    assert cache_key(fingerprint(check=evidence.to_relevant_json(other))) == cache_key(fingerprint())


def test_a_check_that_covers_a_part_is_not_touched_by_the_rest() -> None:
    part = evidence.to_relevant_json(check(covers=["src/**"]))
    covered = {"src/**": "sha256:src"}
    one = cache_key(fingerprint(check=part, covered=covered))
    assert one == cache_key(fingerprint(check=part, covered=covered, tree="sha256:other"))
    assert one != cache_key(fingerprint(check=part, covered={"src/**": "sha256:new"}))
    unknown = {cache_key(fingerprint(check=part, tree=tree)) for tree in ("sha256:a", "sha256:b")}
    assert len(unknown) == 2  # without its hash, the whole tree counts


@pytest.mark.parametrize(
    ("kind", "kept"), [*((kind, True) for kind in ("run", "tests", "file", "json")), ("git", False)]
)
def test_what_the_tree_alone_decides_is_kept(kind: str, *, kept: bool) -> None:
    assert (cache_key(fingerprint(check={"kind": kind})) is not None) is kept


@pytest.mark.parametrize("fields", [{"tree": ""}, {"check": {"kind": "http", "url": "http://x"}}, {"check": {}}])
def test_what_the_tree_does_not_decide_is_never_kept(fields: dict[str, Any]) -> None:
    assert cache_key(fingerprint(**fields)) is None


maps = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)
prints = st.builds(
    Fingerprint,
    st.sampled_from([evidence.to_relevant_json(check()), evidence.to_relevant_json(check(run="b"))]),
    st.sampled_from(["t", "u"]),
    st.just({}),
    maps,
    maps,
    st.lists(st.sampled_from("pq"), max_size=2).map(tuple),
    st.booleans(),
    st.booleans(),
)


@given(prints, prints)
def test_keys_are_equal_exactly_for_equal_fingerprints(one: Fingerprint, other: Fingerprint) -> None:
    assert (cache_key(one) == cache_key(other)) is (one == other)


def test_what_no_work_can_cause_says_nothing_of_it() -> None:
    for reason in ("exit_code", "timeout", "missing", "check_file", "unsafe"):
        assert evidence.is_about_work(result(passed=False, reason=reason))
    for reason in ("not_started", "not_isolated", "stuck", "fault", "facts_missing", "unknown_kind"):
        assert not evidence.is_about_work(result(passed=False, reason=reason))


OUTSIDE: tuple[Reason, ...] = (
    *("not_started", "not_isolated", "stuck", "facts_missing"),
    *("unknown_kind", "fault", "check_file", "unsafe"),
)
"""Reasons that say nothing of what the work was like."""


def test_luck_and_faults_of_the_machine_are_not_kept() -> None:
    assert evidence.is_cacheable(result())
    assert evidence.is_cacheable(result(passed=False, reason="exit_code"))
    assert not evidence.is_cacheable(result(flaky=("t::a",)))
    for reason in ("timeout", *OUTSIDE):
        assert not evidence.is_cacheable(result(passed=False, reason=reason))


# Red before green


RED = result(passed=False, reason="tests_failed")


@pytest.mark.parametrize(
    ("setting", "base", "redness"),
    [
        ("required", RED, "fine"),
        ("record", RED, "fine"),
        ("off", RED, "fine"),
        ("required", result(), "refuse"),
        ("record", result(), "weak"),
        ("off", result(), "fine"),
        ("required", None, "refuse"),
        ("record", None, "weak"),
        ("off", None, "fine"),
        ("required", result(passed=False, reason="not_isolated"), "refuse"),
        *(("record", result(passed=False, reason=reason), "weak") for reason in OUTSIDE),
        ("record", result(passed=False, reason="timeout"), "fine"),
    ],
)
def test_only_a_check_that_was_seen_red_is_fully_worth_its_green(
    setting: RedFirst, base: CheckResult | None, redness: Redness
) -> None:
    assert evidence.judge_baseline(check(kind="tests", run="x", junit="r.xml", red_first=setting), base) == redness
    assert evidence.judge_baseline(check(kind="http", serve="x", requests=[], red_first=setting), base) == redness
    assert evidence.judge_baseline(check(kind="http", url="http://example.org", red_first=setting), base) == "fine"
    assert evidence.judge_baseline(check(kind="file", path="x", red_first=setting), base) == "fine"
    assert evidence.apply_redness(result(), redness).weak is (redness != "fine")


def test_a_result_as_evidence_tells_its_doubts() -> None:
    seen = result(detail="4 passed", flaky=("a", "b", "c", "d"), weak=True, isolated=False).to_evidence(fresh=True)
    assert (seen.id, seen.passed, seen.fresh, seen.trust, seen.by) == ("tests", True, True, "executed", "engine")
    assert seen.at == "2026-01-08T10:30:00Z"
    assert seen.detail == (
        "4 passed; flaky: a, b, c …; weak: it was not shown to fail before the work began; not isolated"
    )
    assert result(isolated=True, flaky=("a",)).to_evidence(fresh=False).detail == "flaky: a"
    assert result(flaky=("a", "b", "c")).to_evidence(fresh=True).detail == "flaky: a, b, c"
    assert result(isolated=True).to_evidence(fresh=True).detail == ""


# What agents say


entries = st.lists(
    st.sampled_from(["tests", "other", "works"])
    | st.builds(
        EvidenceEntry,
        id=st.sampled_from(["tests", "other", "works"]),
        passed=st.booleans(),
        fresh=st.booleans(),
        trust=st.sampled_from(TRUST),
        by=st.sampled_from(["engine", "operator"]),
        at=st.just(""),
        detail=st.just("seen"),
    ),
    max_size=5,
)
OWNED = promise({"id": "tests", "kind": "run", "run": "make test"}, requiredEvidence=["tests"])


@pytest.mark.shows("E01")
@given(entries)
def test_nothing_that_an_agent_submits_makes_a_checked_promise_fulfilled(submitted: list[str | EvidenceEntry]) -> None:
    said = evidence.collect_claims(OWNED, submitted, by="agent", at="then")
    both = [*said.evidence, *said.set_aside]
    assert len(both) == len(submitted)
    assert {(each.trust, each.by, each.at) for each in both} <= {("claimed", "agent", "then")}
    assert all(each.id != "tests" for each in said.evidence)
    assert all(each.id == "tests" for each in said.set_aside)
    assert not decide(OWNED, said.evidence, []).fulfilled
    red: Reason = "exit_code"
    failed = result(passed=False, reason=red).to_evidence(fresh=True)
    assert not decide(OWNED, [failed, *said.evidence], []).fulfilled


def test_a_claim_where_claims_are_accepted_is_weighed() -> None:
    said = evidence.collect_claims(promise(), ["tests"], by="agent", at="then")
    assert decide(promise(), said.evidence, []).trust == "claimed"


def test_whoever_hands_in_an_id_attests_it_and_an_object_says_what_it_is() -> None:
    entry = EvidenceEntry(id="b", passed=False, fresh=True, trust="executed", by="ci", at="then", detail="d")
    assert evidence.read_vouched_evidence(["a", entry]) == [
        Evidence("a", passed=True, fresh=True, trust="attested", by="", at=""),
        Evidence("b", passed=False, fresh=True, trust="executed", by="ci", at="then", detail="d"),
    ]


def test_a_result_holds_for_the_very_tree_whatever_the_check_covers() -> None:
    covering = evidence.to_relevant_json(check(covers=["src/**"]))
    one, other = (
        fingerprint(check=covering, covered={"src/**": "sha256:5"}, tree=tree) for tree in ("sha256:a", "sha256:b")
    )
    assert cache_key(one) == cache_key(other)
    assert evidence.exact_key(one) != evidence.exact_key(other)
    assert evidence.exact_key(one) == evidence.exact_key(replace(one, covered={"src/**": "sha256:6"}))
    assert evidence.exact_key(fingerprint(check={"kind": "http"})) is None


NAMES = st.frozensets(st.sampled_from("abcd"))


def test_a_test_that_was_skipped_before_is_not_one_that_ran() -> None:
    ran, skipped = Outcomes(frozenset("ab")), Outcomes(frozenset("a"), skipped=frozenset("b"))
    assert evidence.hash_known_tests(ran) != evidence.hash_known_tests(skipped)


@given(NAMES, NAMES, NAMES, NAMES)
def test_tests_that_were_known_before_have_one_name_and_others_another(
    passed: frozenset[str], failed: frozenset[str], more: frozenset[str], worse: frozenset[str]
) -> None:
    one, other = Outcomes(passed, failed), Outcomes(more, worse)
    same = (one.known, one.ran, one.failed) == (other.known, other.ran, other.failed)
    assert (evidence.hash_known_tests(one) == evidence.hash_known_tests(other)) is same
    assert (evidence.hash_known_tests(one) == "") is (one == Outcomes())
    assert evidence.hash_known_tests(None) == ""


def test_what_an_agent_submits_is_read_as_far_as_it_can_be() -> None:
    entry = EvidenceEntry(id="c", passed=True, fresh=True, trust="executed")
    said: list[Any] = ["a", " ", {"id": "b", "passed": False, "detail": "x\0y"}, entry, {"id": "d"}, {"passed": True},
                       {"id": "e", "passed": 1}, {"id": " ", "passed": True}, {"id": "f", "passed": True, "detail": 3},
                       7, None, "long" * 1000]  # fmt: skip
    read = evidence.read_claims(said)
    assert read[:2] == ("a", EvidenceEntry(id="b", passed=False, fresh=True, trust="claimed", detail="x\ufffdy"))
    assert read[2:4] == (entry, EvidenceEntry(id="f", passed=True, fresh=True, trust="claimed"))
    assert [len(each) for each in read[4:] if isinstance(each, str)] == [500]
    assert len(evidence.read_claims(["a"] * 1000)) == 100
    assert evidence.read_claims("a") == evidence.read_claims(None) == ()


def test_a_claim_says_itself_whether_it_holds() -> None:
    entry = EvidenceEntry(id="x", passed=False, fresh=False, trust="executed", by="engine", at="now", detail="d")
    said = evidence.collect_claims(promise(), [entry], by="agent", at="then")
    assert said.evidence == (Evidence("x", False, False, "claimed", "agent", "then", "d"),)


def test_claims_come_as_a_tuple_too_and_half_characters_are_replaced() -> None:
    assert evidence.read_claims(("a\ud800",)) == ("a?",)


def test_claims_under_names_that_the_engine_sees_itself_are_set_aside() -> None:
    said = evidence.collect_claims(promise(), ["result", "review"], by="agent", at="then", seen={"result"})
    assert ([each.id for each in said.evidence], [each.id for each in said.set_aside]) == (["review"], ["result"])
