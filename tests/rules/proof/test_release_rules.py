"""Whether something is shipped: each gate by its own judge, for this very artifact, fresh, and never by default."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.core import wire
from agenttalk.contracts.plan import ReleasePolicy
from agenttalk.rules.core.artifacts import hash_files
from agenttalk.rules.proof import release
from agenttalk.rules.proof.release import DeliverableState, GateFinding

SHA, OTHER = wire.sha256(b"app"), wire.sha256(b"other")
POLICY = ReleasePolicy.read(
    {
        "gates": {"build": {"check": {"id": "build", "kind": "run", "run": "make"}}, "security": {"validator": "sec"}},
        "deliverables": [{"name": "app", "from_task_id": "make"}],
    }
)
APP = DeliverableState("app", "make", "COMPLETED", producer="dev", sha256=SHA)
BUILD = GateFinding("build", "PASS", frozenset({SHA}), "engine", "sha256:b")
SECURITY = GateFinding("security", "PASS", frozenset({SHA}), "sec", "sha256:s")
GATES = ("build", "security")


def reasons(
    *results: GateFinding, made: tuple[DeliverableState, ...] = (APP,), policy: ReleasePolicy = POLICY, **keys: Any
) -> str:
    decision = release.decide(policy, keys.pop("required", GATES), made, results, **keys)
    assert decision.approved is (not decision.reasons)
    assert decision.decision == ("APPROVE" if decision.approved else "REJECT")
    return "; ".join(decision.reasons)


def test_everything_there_is_approved() -> None:
    decision = release.decide(POLICY, GATES, [APP], [BUILD, SECURITY])
    assert (decision.approved, decision.shipped, decision.evidence) == (True, (APP,), (BUILD, SECURITY))


@pytest.mark.parametrize(
    ("results", "why"),
    [
        ((BUILD,), "'security' has no result"),
        ((BUILD, replace(SECURITY, decision="REJECT")), "'security' says REJECT"),
        ((BUILD, replace(SECURITY, decision="REJECT", detail="a hole")), "a hole"),
        ((BUILD, SECURITY, replace(SECURITY, decision="REJECT")), "'security' says REJECT"),
        ((BUILD, replace(SECURITY, subjects=frozenset({OTHER}))), "about something else"),
        ((BUILD, replace(SECURITY, by="dev")), "a result of dev does not count, because sec decides"),
        ((BUILD, replace(SECURITY, by="engine")), "a result of engine does not count"),
        ((replace(BUILD, by="sec"), SECURITY), "because a check of the engine's own decides"),
        ((BUILD, replace(SECURITY, fresh=False)), "'security' is stale"),
    ],
)
@pytest.mark.shows("V11", "V12")
def test_what_is_wrong_with_a_gate_is_told(results: tuple[GateFinding, ...], why: str) -> None:
    assert why in reasons(*results)


def test_a_gate_that_is_named_twice_is_needed_once() -> None:
    assert not reasons(BUILD, required=("build", "build"))


def test_an_older_result_does_not_stand_in_the_way_of_a_fresh_one() -> None:
    assert not reasons(BUILD, SECURITY, replace(SECURITY, fresh=False))


def test_a_gate_that_nobody_decides_rejects() -> None:
    assert "'e2e': nothing says who decides it" in reasons(BUILD, required=("build", "e2e"))


def test_a_validator_does_not_judge_what_it_made() -> None:
    assert "sec made 'app'" in reasons(BUILD, SECURITY, made=(replace(APP, producer="sec"),))


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ((), "no task makes it; nothing is shipped"),
        ((replace(APP, sha256=""),), "task make is COMPLETED"),
        ((replace(APP, state="FAILED"),), "task make is FAILED"),
        ((replace(APP, fresh=False),), "is stale"),
        ((replace(APP, refused_by=("qa",)),), "was refused by qa"),
    ],
)
def test_what_is_wrong_with_a_deliverable_is_told_without_any_gate(
    made: tuple[DeliverableState, ...], why: str
) -> None:
    assert why in reasons(made=made, required=())


def test_what_did_not_have_to_be_made_is_left_out() -> None:
    policy = POLICY.model_copy(
        update={"deliverables": ReleasePolicy.read({"deliverables": [{"name": "app"}, {"name": "extra"}]}).deliverables}
    )
    extra = DeliverableState("extra", "more", "COMPLETED", needed=False)
    assert not reasons(BUILD, SECURITY, made=(APP, extra), policy=policy)
    assert reasons(made=(extra,), policy=policy, required=()).endswith("nothing is shipped")


def test_a_spare_that_stood_in_is_enough() -> None:
    failed = DeliverableState("app", "first", "FAILED")
    assert not reasons(BUILD, SECURITY, made=(failed, APP))


def test_everybody_who_has_to_accept_it_must_have() -> None:
    policy = POLICY.model_copy(update={"accepted_by": ("qa", "dev")})
    told = reasons(BUILD, SECURITY, policy=policy)
    assert "not accepted by qa" in told
    assert "was made by dev, who would have to accept it" in told
    assert "dev" not in reasons(BUILD, SECURITY, policy=policy.model_copy(update={"accepted_by": ("qa",)}))
    accepted = replace(APP, accepted_by=("qa",))
    assert not reasons(BUILD, SECURITY, made=(accepted,), policy=policy.model_copy(update={"accepted_by": ("qa",)}))


def test_whatever_went_wrong_rejects() -> None:
    assert reasons(BUILD, SECURITY, faults=["it took too long"]) == "it took too long"


FINDINGS = st.builds(
    GateFinding,
    gate=st.sampled_from(GATES),
    decision=st.sampled_from(["PASS", "REJECT"]),
    subjects=st.frozensets(st.sampled_from([SHA, OTHER]), max_size=2),
    by=st.sampled_from(["engine", "sec", "dev"]),
    ref=st.just("sha256:x"),
    fresh=st.booleans(),
)


@given(st.lists(FINDINGS, max_size=6), st.sets(st.sampled_from(GATES)), st.booleans())
def test_approval_means_that_each_gate_was_passed_by_its_own_judge(
    results: list[GateFinding], required: set[str], fresh: bool
) -> None:
    decision = release.decide(POLICY, sorted(required), [replace(APP, fresh=fresh)], results)
    judges = {"build": "engine", "security": "sec"}
    own = [each for each in results if each.by == judges[each.gate] and SHA in each.subjects]
    for gate in required if decision.approved else ():
        assert any(each.gate == gate and each.decision == "PASS" and each.fresh for each in own)
        assert all(each.by == judges[gate] for each in results if each.gate == gate)
    if decision.approved:
        assert fresh
        assert not [each for each in own if each.gate in required and each.decision == "REJECT"]
        more = release.decide(POLICY, sorted(required), [APP], [*results, replace(BUILD, decision="REJECT")])
        assert more.approved is ("build" not in required)


@pytest.mark.parametrize(
    ("name", "gate"),
    [
        ("release_gate_result.json", ""),
        ("release_gate_result", ""),
        ("release_gate_result_build.json", "build"),
        ("security_gate_result.json", "security"),
        ("report.md", None),
        ("gate_result.json", None),
    ],
)
def test_names_say_which_gate_a_result_is_for(name: str, gate: str | None) -> None:
    assert release.find_named_gate(name) == gate
    assert release.is_for_engine(name) is (gate is not None)


def test_validations_are_for_the_engine_too() -> None:
    assert release.is_for_engine("artifact_validation_result_1.json")


def document(**keys: Any) -> bytes:
    body = {"schema_version": "1.0", "decision": "PASS", "subject": {"sha256": SHA}, "produced_by": "sec"}
    return json.dumps({**body, **keys}).encode()


def read(name: str, data: bytes, by: str = "sec") -> GateFinding | str:
    return release.read_gate_result(name, data, by=by, fresh=True, agents=["sec", "dev"])


def test_a_result_is_read_for_its_gate() -> None:
    found = read("security_gate_result.json", document())
    assert isinstance(found, GateFinding)
    assert (found.gate, found.subjects, found.by) == ("security", frozenset({SHA}), "sec")
    said = read("release_gate_result.json", document(gate="build", produced_by="a scanner"))
    assert isinstance(said, GateFinding)
    assert said.gate == "build"


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("security_gate_result.json", b"{", "cannot be read"),
        ("security_gate_result.json", b"{}", "cannot be read"),
        ("release_gate_result.json", document(), "for the gate"),
        ("security_gate_result.json", document(gate="build"), "for the gate 'build'"),
        ("security_gate_result.json", document(produced_by="dev"), "says that dev made it"),
    ],
)
def test_what_is_no_result_says_why(name: str, data: bytes, why: str) -> None:
    assert why in str(read(name, data))


def test_an_artifact_of_one_file_has_its_hash_and_others_one_over_all() -> None:
    assert hash_files({"a": SHA}) == SHA
    assert hash_files({"a": SHA, "b": OTHER}) == hash_files({"b": OTHER, "a": SHA})
    assert hash_files({"a": SHA, "b": OTHER}) != hash_files({"a": OTHER, "b": SHA})
