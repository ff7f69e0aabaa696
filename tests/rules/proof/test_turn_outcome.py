"""What follows from a turn: every end of one is decided in one place, from facts alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code
from agenttalk.contracts.promise import CompletionPromise, DoneCondition
from agenttalk.contracts.validation import Issue
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.budgets.provider_limits import MOST_STOPS
from agenttalk.rules.core.task_states import FINAL, TRANSITIONS, Cause, TurnEnding
from agenttalk.rules.proof import rework, turn_outcome
from agenttalk.rules.proof.checkpoints import CheckpointDecision
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import OutputContent, Performance, WorkProof
from agenttalk.rules.proof.rework import Judgement, RoundHistory
from agenttalk.rules.proof.turn_outcome import (
    DAYS,
    LOST,
    SCORE_TRIES,
    TaskHistory,
    TurnFacts,
    TurnOutcome,
    build_engine_judgement,
    decide_after_attempt,
    decide_after_day_limit,
    decide_foreign_turn,
    decide_turn,
    would_be_done,
)

AT = "2026-01-08T10:30:00.000000Z"
endings = st.sampled_from(get_args(TurnEnding))
CHECKED = CompletionPromise.read(
    {
        "id": "cp-1717980000000-a3f1",
        "objective": "It works",
        "acceptance": [{"id": "works", "description": "It works", "evidenceRequired": ["tests"]}],
        "requiredEvidence": ["tests"],
        "checks": [{"id": "tests", "kind": "run", "run": "make test"}],
    }
)


def node(**fields: Any) -> Node:
    return Node.read({"task_id": "build", "assigned_agent_id": "dev", **fields})


def made(*names: str) -> tuple[OutputContent, ...]:
    return tuple(OutputContent(name, f"{name}.txt", "sha256:0", 1, b"x") for name in names)


def evidence(name: str, *, passed: bool = True, trust: Any = "executed") -> Evidence:
    return Evidence(name, passed, True, trust, "engine", AT, "" if passed else "it failed")


def facts(performance: Performance, *, of: Node | None = None, **known: Any) -> TurnFacts:
    return TurnFacts(of or node(), performance, "dev", AT, promise_id="cp-1", **known)


def decide(performance: Performance, past: TaskHistory | None = None, **known: Any) -> TurnOutcome:
    return decide_turn(facts(performance, **known), lambda: past or TaskHistory())


def unasked() -> TaskHistory:
    raise AssertionError("nothing depends on it")


ROUNDS = TaskHistory(rounds=RoundHistory(0, 3))
ANSWER = Performance("finished", result="done")


@pytest.mark.parametrize(
    ("how", "used", "deaths", "cause"),
    [
        ("crashed", 0, 0, "RETRY"),
        ("timeout", 1, 9, "RETRY"),
        ("not_started", 2, 0, "FAILED_FOR_GOOD"),
        ("aborted", 0, 0, "RETRY"),
        ("engine_died", 9, 1, "ENGINE_ENDED"),
        ("engine_died", 9, 2, "ENGINE_ENDED"),
        ("engine_died", 0, 3, "ENGINE_ENDED_TOO_OFTEN"),
        ("stopped", 9, 9, "ENGINE_ENDED"),
        ("lost", 2, 9, "RETRY"),
        ("lost", 3, 0, "FAILED_FOR_GOOD"),
    ],
)
def test_how_an_attempt_ended_decides_what_follows(how: TurnEnding, used: int, deaths: int, cause: Cause) -> None:
    assert decide_after_attempt(how, retries_used=used, retry_times=2, engine_deaths=deaths) == cause
    past = TaskHistory(retries=used, retry_times=2, engine_deaths=deaths)
    outcome = decide(Performance(how, error="it broke"), past)
    assert (outcome.cause, outcome.reason, outcome.again) == (cause, "it broke", cause in {"RETRY", "ENGINE_ENDED"})


@given(endings, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_only_the_agents_own_failures_use_up_retries(how: TurnEnding, used: int, times: int, deaths: int) -> None:
    cause = decide_after_attempt(how, retries_used=used, retry_times=times, engine_deaths=deaths)
    if how in {"engine_died", "stopped"}:
        assert cause == decide_after_attempt(how, retries_used=0, retry_times=0, engine_deaths=deaths)
    else:
        limit = max(times, LOST) if how == "lost" else times
        assert cause == ("RETRY" if used < limit else "FAILED_FOR_GOOD")


def test_a_day_that_stops_an_attempt_counts_for_nothing_until_it_does_so_again_and_again() -> None:
    causes = [decide_after_day_limit(before) for before in range(DAYS + 1)]
    assert causes == [*["DAY_SPENT"] * (DAYS - 1), "NEEDS_PERSON", "NEEDS_PERSON"]
    day = Abort("budget-exhausted", "10 USD", pauses=True)
    outcomes = [decide(Performance("aborted"), TaskHistory(day_stops=before), abort=day) for before in (0, DAYS - 1)]
    assert [(each.cause, each.again) for each in outcomes] == [("DAY_SPENT", True), ("NEEDS_PERSON", False)]
    assert outcomes[1].reason == "the day's limit stopped it 3 times in a row: budget-exhausted: 10 USD"
    stopped = decide_turn(facts(Performance("aborted"), abort=Abort("user-aborted", "by ada")), unasked)
    assert (stopped.cause, stopped.reason) == ("ABORTED", "user-aborted: by ada")
    assert [each.allowed for each in stopped.gates] == [False]


def test_a_limit_of_the_provider_counts_for_nothing_until_it_does_so_again_and_again() -> None:
    limited = Performance("limited", error="it is used up")
    for before in (0, MOST_STOPS - 1):
        outcome = decide(limited, TaskHistory(limit_stops=before))
        assert (outcome.cause, outcome.state, outcome.again) == ("ACCOUNT_LIMIT", "READY", True)
    faked = TaskHistory(limit_stops=MOST_STOPS, retry_times=1)
    assert decide(limited, faked).cause == "RETRY"
    failed = decide(limited, replace(faked, retries=1))
    told = "limits of its provider stopped it 11 times in a row, so this one counts as a failure: it is used up"
    assert (failed.cause, failed.reason) == ("FAILED_FOR_GOOD", told)
    foreign = decide_foreign_turn(limited, TaskHistory(retry_times=1), task_id="t", agent_id="a", at="")
    assert (foreign.cause, foreign.reason) == ("RETRY", "it is used up")


def test_a_plain_turn_is_done_by_what_the_engine_sees_and_asks_for_no_history() -> None:
    outcome = decide_turn(facts(ANSWER), unasked)
    assert (outcome.cause, outcome.state, outcome.promise_id) == ("FULFILLED", "COMPLETED", "cp-1")
    assert outcome.verdict is not None
    assert (outcome.verdict.trust, outcome.is_unproven, outcome.gates) == ("observed", False, ())


names = st.sampled_from(["a", "b", "c"])
asked = st.lists(st.builds(lambda name, optional, when: {"name": name, "optional": optional, "when": when}, names,
    st.booleans(), st.sampled_from([None, "score >= 70"])), unique_by=lambda each: each["name"], max_size=3)  # fmt: skip


@given(asked, st.sets(names), st.sampled_from([None, "", " ", [], {}, "text", 0, False]))
def test_the_quick_way_for_plain_turns_says_what_the_full_way_says(
    outputs: list[dict[str, Any]], there: set[str], result: Any
) -> None:
    wanted = node(outputs=outputs)
    performance = Performance("finished", result=result, outputs=made(*sorted(there)))
    quick = decide(performance, ROUNDS, of=wanted)
    full = decide(performance, ROUNDS, of=wanted, proof=WorkProof())  # equal to no proof, and another object
    assert quick.verdict == full.verdict
    assert (quick.cause, quick.reason, quick.gate) == (full.cause, full.reason, full.gate)
    assert (quick.cause == "FULFILLED") is would_be_done(facts(performance, of=wanted))


histories = st.builds(
    TaskHistory,
    retries=st.integers(0, 3),
    retry_times=st.integers(0, 3),
    sent_back=st.integers(0, 3),
    engine_deaths=st.integers(0, 4),
    day_stops=st.integers(0, 3),
    rounds=st.builds(RoundHistory, st.integers(0, 3), st.integers(0, 3)),
    breached_scope=st.booleans(),
)
performances = st.builds(
    Performance,
    endings,
    result=st.sampled_from([None, "done"]),
    score=st.sampled_from([None, 10.0, 90.0]),
    outputs=st.sampled_from([(), made("a")]),
    code=st.sampled_from([None, Code.SCORE_MISSING, Code.OUTPUT_MISSING]),
    claims=st.sampled_from([(), ("tests",)]),
    misfits=st.sampled_from([{}, {"a": "is no JSON"}]),
)
proofs = st.builds(
    WorkProof,
    evidence=st.sampled_from([(), (evidence("tests"),), (evidence("tests", passed=False),)]),
    refused=st.sampled_from(["", "too large"]),
    breach=st.sampled_from([(), ("secret.txt",)]),
    hidden=st.booleans(),
    moot=st.sampled_from(["", "merged"]),
    conflict=st.sampled_from(["", "price.py"]),
    idle=st.booleans(),
)


@given(performances, proofs, histories, st.booleans(), st.booleans(), st.booleans())
def test_a_turn_is_done_only_if_its_agent_finished_and_the_promise_is_fulfilled(
    performance: Performance, proof: WorkProof, past: TaskHistory, promised: bool, of_kind: bool, can_ask: bool
) -> None:
    outcome = decide(
        performance,
        past,
        of=node(outputs=[{"name": "a"}]),
        proof=proof,
        promise=CHECKED if promised else None,
        gated=promised,
        needs_proof=promised,
        of_kind=of_kind,
        can_ask=can_ask,
    )
    assert outcome.state == TRANSITIONS["RUNNING", outcome.cause]
    if outcome.state == "COMPLETED":
        assert outcome.verdict is not None
        assert outcome.verdict.fulfilled
        assert performance.how == "finished"
        assert not any((proof.breach, proof.moot, proof.conflict, proof.refused))
        if promised:
            assert proof.evidence == (evidence("tests"),), "what its agent claims proves nothing"
    assert not (outcome.again and outcome.state in FINAL)


def test_a_score_that_is_missing_sends_the_agent_back_a_few_times() -> None:
    unscored = Performance("finished", code=Code.SCORE_MISSING, error="no score")
    first, last = (decide(unscored, TaskHistory(sent_back=times)) for times in (SCORE_TRIES - 1, SCORE_TRIES))
    assert (first.cause, first.again, first.reason) == ("RETRY", True, "no score")
    assert (last.cause, last.again) == ("FAILED_FOR_GOOD", False)


def test_an_input_that_is_refused_names_the_reasons() -> None:
    judgements = {"spec": Judgement(False, 20, "too short"), "plan": Judgement(True, 90, "fine")}
    outcome = decide(Performance("refused", judgements=judgements))
    assert (outcome.cause, outcome.reason) == (
        "INPUT_REJECTED",
        "the inputs are not good enough: spec: too short",
    )


@pytest.mark.parametrize(
    ("target", "rounds", "cause"),
    [("ops", 3, "NOT_FULFILLED"), ("ops", 0, "NEEDS_PERSON"), ("dev", 3, "NEEDS_PERSON"), ("eve", 3, "NEEDS_PERSON")],
)
def test_a_task_that_its_agent_is_not_fit_for_goes_to_another_agent_or_a_person(
    target: str, rounds: int, cause: Cause
) -> None:
    handed = node(failure_policy={"reexecute_target_agent_id": target})
    past = TaskHistory(rounds=RoundHistory(0, rounds))
    outcome = decide(Performance("unfit", error="no GPU"), past, of=handed, agents={"dev", "ops"})
    assert (outcome.cause, outcome.hand_to) == (cause, "ops" if cause == "NOT_FULFILLED" else None)
    assert decide(Performance("unfit"), past, of=node()).cause == "NEEDS_PERSON"


def test_a_breach_of_scope_is_sent_back_once_and_ends_the_task_when_it_happens_again_or_was_hidden() -> None:
    breach = WorkProof(breach=("secret.txt",))
    first = decide(ANSWER, ROUNDS, proof=breach, promise=CHECKED, gated=True)
    assert (first.cause, first.gates[-1].severity) == ("NOT_FULFILLED", "soft-deny")
    again = decide(ANSWER, TaskHistory(breached_scope=True), proof=breach, promise=CHECKED, gated=True)
    hidden = decide(ANSWER, ROUNDS, proof=WorkProof(breach=("secret.txt",), hidden=True), promise=CHECKED, gated=True)
    assert again.cause == hidden.cause == "ABORTED"
    assert [each.severity for each in (again.gates[-1], hidden.gates[-1])] == ["hard-deny", "hard-deny"]


def test_work_that_is_moot_or_in_conflict_is_not_judged() -> None:
    assert decide_turn(facts(ANSWER, proof=WorkProof(moot="closed by ada")), unasked).cause == "MOOT"
    assert decide_turn(facts(ANSWER, proof=WorkProof(conflict="price.py")), unasked).cause == "CONFLICT"


def test_checks_decide_and_what_is_claimed_under_their_name_is_set_aside() -> None:
    claiming = Performance("finished", result="done", claims=("tests",))
    known: dict[str, Any] = {"promise": CHECKED, "gated": True, "needs_proof": True}
    denied = decide(claiming, ROUNDS, proof=WorkProof(evidence=(evidence("tests", passed=False),)), **known)
    assert (denied.cause, [each.id for each in denied.claims.set_aside]) == ("NOT_FULFILLED", ["tests"])
    done = decide(claiming, proof=WorkProof(evidence=(evidence("tests"),)), **known)
    assert done.verdict is not None
    assert (done.cause, done.verdict.trust, done.is_unproven) == ("FULFILLED", "executed", False)
    assert [each.checkpoint for each in done.gates] == ["post-act", "pre-verify"]


def test_a_gate_that_is_not_met_is_told_from_work_that_is_not_done() -> None:
    gated = node(gates={"thresholds": {"build_min_score": 80, "design_min_score": 50}, "required": True})
    scored = Performance("finished", result="done", score=70)
    outcome = decide(scored, ROUNDS, of=gated, scores={"design": 60})
    assert outcome.cause == "GATE_UNMET"
    assert outcome.gate is not None
    assert not outcome.gate.met
    assert decide(Performance("finished", score=70), ROUNDS, of=gated).cause == "NOT_FULFILLED"


@pytest.mark.shows("V13")
def test_the_same_issues_again_end_rework_unless_they_are_found_in_the_world_outside() -> None:
    proof = WorkProof(evidence=(evidence("tests", passed=False),))
    known: dict[str, Any] = {"promise": CHECKED, "gated": True, "needs_proof": True, "proof": proof}
    first = decide(ANSWER, ROUNDS, **known)
    assert first.verdict is not None
    issues = build_engine_judgement(first.reason or "", first.verdict, proof).issues
    past = TaskHistory(rounds=RoundHistory(1, 3, (rework.fingerprint_issues(issues),)))
    stuck = decide(ANSWER, past, **known)
    assert (stuck.cause, stuck.stuck) == ("REWORK_EXHAUSTED", True)
    assert decide(ANSWER, past, **known, of_kind=True).cause == "NOT_FULFILLED"
    told = TaskHistory(rounds=past.rounds, disputes=(Issue(severity="MEDIUM", description="it stands"),))
    assert decide(ANSWER, told, **known).cause == "NOT_FULFILLED"
    assert decide(ANSWER, TaskHistory(rounds=RoundHistory(3, 3)), **known).cause == "REWORK_EXHAUSTED"
    assert decide_turn(facts(ANSWER, **known, beyond_repair=True), unasked).cause == "REWORK_EXHAUSTED"


def test_the_reason_names_every_fault() -> None:
    performance = Performance(
        "finished", code=Code.OUTPUT_MISSING, error="a is missing", misfits={"b": "is no JSON"}, remark="it was denied",
        ended_badly="denied")  # fmt: skip
    outcome = decide(performance, ROUNDS, proof=WorkProof(idle=True), in_repository=True)
    for text in ("a is missing", "b is no JSON", "it was denied"):
        assert text in (outcome.reason or "")
    quiet = Performance("finished", remark="odd")
    assert "odd" not in (decide(quiet, ROUNDS, proof=WorkProof(idle=True), in_repository=True).reason or "")


def test_what_the_engine_says_of_refused_work_names_the_checks_and_what_does_not_count() -> None:
    checks = (
        {"id": "tests", "passed": False, "output": "1 failed", "command": "make test", "exit_code": 2},
        {"id": "lint", "passed": False, "output": "bad"},
        {"id": "types", "passed": True, "output": "fine"},
        {"id": "quiet", "passed": False, "output": ""},
    )
    proof = WorkProof(check_records=checks, restored=("tests/a.py",), left_out=("build/",))
    judgement = build_engine_judgement("", None, proof)
    texts = [each.description for each in judgement.issues]
    assert len(texts) == 5
    assert any("tests/a.py" in text for text in texts)
    assert any("build/" in text for text in texts)
    assert any("make test" in text and "1 failed" in text for text in texts)
    assert any("lint" in text and "bad" in text for text in texts)
    assert build_engine_judgement("x", None, WorkProof(conflict="a")).issues[0].category == rework.CONFLICT
    assert build_engine_judgement("x", None, WorkProof(breach=("a",))).issues[0].category == rework.SCOPE


def test_decisions_of_checkpoints_before_the_turn_count_for_the_promise() -> None:
    gated = CHECKED.model_copy(update={"done_when": (DoneCondition(type="gate-passed", target="pre-act"),)})
    proof = WorkProof(evidence=(evidence("tests"),))
    known: dict[str, Any] = {"promise": gated, "gated": True, "needs_proof": True, "proof": proof}
    assert decide(ANSWER, ROUNDS, **known).cause == "NOT_FULFILLED"
    assert decide(ANSWER, ROUNDS, gates=(CheckpointDecision("pre-act"),), **known).cause == "FULFILLED"


@pytest.mark.parametrize(
    ("performance", "past", "state", "again"),
    [
        (ANSWER, TaskHistory(retries=9, sent_back=9), "COMPLETED", False),
        (Performance("finished"), TaskHistory(), "COMPLETED", False),
        (Performance("crashed"), TaskHistory(retry_times=1), "READY", True),
        (Performance("timeout"), TaskHistory(retry_times=1), "READY", True),
        (Performance("crashed"), TaskHistory(retries=1, retry_times=1), "FAILED", False),
        (Performance("not_started", code=Code.FILE_UNSAFE), TaskHistory(retry_times=1), "FAILED", False),
        (Performance("finished", code=Code.SCORE_MISSING), TaskHistory(retries=1, sent_back=1), "READY", True),
        (Performance("finished", code=Code.SCORE_INVALID), TaskHistory(sent_back=2), "FAILED", False),
        (Performance("finished", code=Code.OUTPUT_MISSING), TaskHistory(retry_times=1), "FAILED", False),
        (Performance("unfit", error="no GPU"), TaskHistory(), "FAILED", False),
    ],
)
def test_a_turn_of_a_foreign_plan_is_done_by_its_agents_word(
    performance: Performance, past: TaskHistory, state: str, again: bool
) -> None:
    outcome = decide_foreign_turn(performance, past, task_id="build", agent_id="dev", at=AT)
    assert (outcome.state, outcome.again) == (state, again)
    if state == "COMPLETED":
        assert outcome.verdict is not None
        assert (outcome.verdict.trust, outcome.is_unproven) == ("claimed", True)


@given(performances, histories)
def test_a_task_of_a_foreign_plan_is_never_more_than_claimed(performance: Performance, past: TaskHistory) -> None:
    outcome = decide_foreign_turn(performance, past, task_id="build", agent_id="dev", at=AT)
    if outcome.state == "COMPLETED":
        assert (performance.how, performance.code, outcome.is_unproven) == ("finished", None, True)
    else:
        assert outcome.state in {"READY", "FAILED", "BLOCKED_WAITING_INPUT", "BLOCKED_WAITING_HUMAN"}


def test_an_outcome_without_a_verdict_is_not_done_by_claims() -> None:
    assert not turn_outcome.TurnOutcome("MOOT").is_unproven
    assert turn_outcome.TurnOutcome("FULFILLED").is_unproven
