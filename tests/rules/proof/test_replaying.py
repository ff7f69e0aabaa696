"""What a policy would have refused, decided again from what was kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.policy import policy_of
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.proof.done import TRUST, decide
from agenttalk.rules.proof.policy_replay import ReplayedWork, judge, rebuild_evidence, strengthen_promise

CHECKS: tuple[dict[str, Any], ...] = (
    {"id": "works", "kind": "tests", "passed": True, "trust": "executed", "isolated": True},
    {"id": "there", "kind": "file", "passed": True, "trust": "observed"},
    {"id": "liked", "kind": "human", "passed": True, "trust": "confirmed", "by": "ada"},
)
PROMISE = CompletionPromise.model_validate(
    {
        "id": "cp-1-abcd",
        "objective": "It works",
        "acceptance": [
            {"id": "tests-pass", "description": "Tests", "evidenceRequired": ["works"]},
            {"id": "file", "description": "File", "evidenceRequired": ["there", "output:app"]},
            {"id": "said", "description": "Result", "evidenceRequired": ["result"]},
            {"id": "nice", "description": "Nice"},
        ],
        "checks": [
            {"id": "works", "kind": "tests", "run": "make test", "junit": "x.xml"},
            {"id": "there", "kind": "file", "path": "app"},
            {"id": "liked", "kind": "human", "question": "Well?"},
        ],
        "requiredEvidence": ["liked"],
    }
)


def of(*checks: dict[str, Any], **more: Any) -> ReplayedWork:
    """Work that was called done with these checks."""
    shown = rebuild_evidence(PROMISE, checks or CHECKS, more.pop("claims", ()), at="2026", by="dev")
    return ReplayedWork(PROMISE, shown, checks=checks or CHECKS, **more)


def changed(name: str, **more: Any) -> tuple[dict[str, Any], ...]:
    return tuple({**each, **more} if each["id"] == name else each for each in CHECKS)


@pytest.mark.parametrize(
    ("policy", "done", "words"),
    [
        ({"min_trust": "executed"}, of(), "criterion 'file' is not shown: 'there' is only observed"),
        ({"criteria": [{"id": "fi*", "min_trust": "executed"}]}, of(), "criterion 'file'"),
        ({"required_checks": ["git"]}, of(), "no check of the kind 'git' has passed"),
        ({"red_first": "required"}, of(*changed("works", weak=True)), "'works' was not seen to fail before the work"),
        ({"refuse": ["weak"]}, of(*changed("works", weak=True)), "'works' was not seen to fail before the work"),
        ({"refuse": ["flaky"]}, of(*changed("works", flaky=["a"])), "'works' passed only when it was made again"),
        ({"refuse": ["not_isolated"]}, of(*changed("works", isolated=False)), "'works' was not isolated"),
        ({"refuse": ["not_isolated"]}, of(isolated=False), "the agent's program was not isolated"),
        ({"refuse": ["unverified"]}, of(), "nothing proves criterion:nice"),
        ({"refuse": ["unverified"]}, of(unverified=("x",)), "nothing proves x, criterion:nice"),
        ({"refuse": ["overridden"]}, of(overridden=True), "an operator overrode a checkpoint"),
        ({"refuse": ["accepted"]}, of(accepted_by="ada"), "ada took refused work as it was"),
        ({"max_rounds": 1}, of(rounds=2), "it took 2 rounds of rework, and 1 may be"),
        ({"max_age_days": 1}, of(age_days=2.04), "it was proven 2.0 days ago, and 1 may be"),
        ({"approvals": 2}, of(), "1 people confirmed it, and 2 must"),
    ],
)
def test_a_policy_refuses_with_the_reason(policy: dict[str, Any], done: ReplayedWork, words: str) -> None:
    found = judge(policy_of(policy), done)
    assert found.standing == "refused"
    assert any(words in each for each in found.reasons), found.reasons


@pytest.mark.parametrize(
    "policy",
    [
        {"min_trust": "observed"},
        {"criteria": [{"id": "tests-*", "min_trust": "executed"}, {"id": "none", "min_trust": "confirmed"}]},
        {"required_checks": ["tests", "human"], "red_first": "required"},
        {"refuse": ["weak", "flaky", "not_isolated", "overridden", "accepted", "claimed"]},
        {"max_rounds": 0, "max_age_days": 1, "approvals": 1},
    ],
)
def test_what_a_policy_asks_for_and_was_there_is_kept(policy: dict[str, Any]) -> None:
    assert judge(policy_of(policy), of(isolated=True)) == ("kept", ())


def test_what_cannot_be_told_is_never_kept() -> None:
    policy = policy_of({"max_rounds": 3})
    assert judge(policy, ReplayedWork(None)).standing == "unknown"
    lost = judge(
        policy, ReplayedWork(PROMISE, rebuild_evidence(PROMISE, CHECKS[1:], (), at="2026", by="dev"), checks=CHECKS[1:])
    )
    assert lost.standing == "unknown"
    assert "cannot be put together again: criterion 'tests-pass'" in lost.reasons[0]
    silent = replace(of(), checks=())
    asked = judge(policy_of({"red_first": "required"}), silent)
    assert asked == ("unknown", ("the record does not say how the check 'works' stood before the work",))
    assert judge(policy_of({"refuse": ["weak"]}), silent).standing == "unknown"


def test_a_claim_counts_as_a_claim_and_one_that_was_set_aside_as_nothing() -> None:
    promise = CompletionPromise.model_validate(
        {
            "id": "cp-1-abcd",
            "objective": "It works",
            "acceptance": [{"id": "a", "description": "A", "evidenceRequired": ["word"], "minTrust": "claimed"}],
        }
    )
    claims = [{"id": "word", "passed": True, "set_aside": False}, {"id": "other", "passed": True, "set_aside": True}]
    shown = rebuild_evidence(promise, (), claims, at="2026", by="dev")
    assert [(each.id, each.trust, each.by) for each in shown] == [("word", "claimed", "dev")]
    assert judge(policy_of({"refuse": ["claimed"]}), ReplayedWork(promise, shown)).reasons == (
        "it rests on the agent's word",
    )
    assert judge(policy_of({"max_rounds": 1}), ReplayedWork(promise, shown)).standing == "kept"
    [unnamed] = rebuild_evidence(promise, ({"id": "x", "passed": True, "trust": "confirmed"},), (), at="2026", by="dev")
    assert unnamed.by == "a person"


@given(st.sampled_from(TRUST), st.sampled_from(["tests-*", "file", "*"]), st.sampled_from(TRUST))
def test_a_policy_never_asks_for_less_than_the_promise(least: Any, name: str, own: Any) -> None:
    policy = policy_of({"min_trust": least, "criteria": [{"id": name, "min_trust": own}]})
    for before, after in zip(PROMISE.acceptance, strengthen_promise(policy, PROMISE).acceptance, strict=True):
        assert (after.id, after.evidence_required) == (before.id, before.evidence_required)
        if after.evidence_required:
            assert after.min_trust is not None
            assert TRUST.index(after.min_trust) >= TRUST.index(least)
    now = decide(strengthen_promise(policy, PROMISE), of().evidence, ())
    assert judge(policy, of()).standing == ("kept" if now.fulfilled else "refused")


@pytest.mark.mends("A8")
@pytest.mark.parametrize("policy", [{"red_first": "required"}, {"refuse": ["weak"]}])
def test_what_was_not_made_before_the_work_was_not_seen_to_fail(policy: dict[str, Any]) -> None:
    checks = [each.model_copy(update={"red_first": "off"}) for each in PROMISE.checks]
    done = of()
    quiet = ReplayedWork(PROMISE.model_copy(update={"checks": tuple(checks)}), done.evidence, checks=done.checks)
    found = judge(policy_of(policy), quiet)
    assert found.standing == "refused"
    assert any("red_first: off" in each for each in found.reasons)
    assert judge(policy_of({"refuse": ["flaky"]}), quiet).standing == "kept"
