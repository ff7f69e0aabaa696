"""What follows from a turn: facts in, a decision out. This is the one place that decides about the end of a turn.

The engine gathers the facts and writes the decision down. Whether the work is done is `done.decide`, asked here on one
assembly of evidence: before a merge (`would_be_done`) and after it (`decide_turn`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agenttalk.contracts.dag import Node, Output
from agenttalk.contracts.errors import Code
from agenttalk.contracts.validation import Issue
from agenttalk.rules.budgets import aborts
from agenttalk.rules.budgets.provider_limits import MOST_STOPS
from agenttalk.rules.core import task_states
from agenttalk.rules.core.failed_tests import cut_to_end
from agenttalk.rules.proof import checkpoints, done, rework, score_gates
from agenttalk.rules.proof.checkpoints import CheckpointDecision
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.proof.evidence import Claims, collect_claims
from agenttalk.rules.proof.performance import NO_PROOF, OutputContent, Performance, WorkProof
from agenttalk.rules.proof.rework import NO_ROUNDS, Judgement, RoundHistory
from agenttalk.rules.proof.score_gates import ScoreGateResult
from agenttalk.rules.text import answer_words, verdict_words
from agenttalk.rules.text.message import ABOUT, WHAT_IS, join

if TYPE_CHECKING:
    from agenttalk.contracts.promise import CompletionPromise
    from agenttalk.rules.budgets.aborts import Abort
    from agenttalk.rules.core.task_states import Cause, State, TurnEnding

ENGINE_DEATHS: Final = 3
"""How often the engine may die over one task before a person is asked."""
LOST: Final = 3
"""How often a remote agent may be lost over one task, regardless of its retries."""
DAYS: Final = 3
"""How often in a row the limit of a day may stop a task before a person is asked."""
SCORE_TRIES: Final = 2
"""How often an agent is sent back because of its score."""
SCORE_CODES: Final = frozenset({Code.SCORE_MISSING, Code.SCORE_INVALID})
_PRINTED: Final = 2_000
"""Characters of what a check printed that are sent back."""
NO_CLAIMS: Final = Claims()
_MET: Final = ScoreGateResult(met=True)
_AGAIN: Final[frozenset[Cause]] = frozenset({"RETRY", "ENGINE_ENDED"})


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """What happened to a task before this turn."""

    retries: int = 0
    """Retries that its command has used."""
    retry_times: int = 0
    """Retries that its command allows."""
    sent_back: int = 0
    """How often its agent was sent back because of a score."""
    engine_deaths: int = 0
    """How often the engine died over it."""
    day_stops: int = 0
    """How often in a row, up to now, the limit of a day stopped it."""
    limit_stops: int = 0
    """How often in a row, up to now, a limit of its agent's provider stopped it."""
    rounds: RoundHistory = NO_ROUNDS
    """Rounds of rework that the engine ordered."""
    disputes: tuple[Issue, ...] = ()
    """What became of checks that its agent disputes: news for the agent, so part of the issues."""
    breached_scope: bool = False
    """Whether it left its scope in one of those rounds."""


NO_HISTORY: Final = TaskHistory()
_NO_SCORES: Final[Mapping[str, float | None]] = MappingProxyType({})


class TurnFacts(NamedTuple):
    """Everything that is known of a turn that has ended."""

    node: Node
    performance: Performance
    agent_id: str
    at: str
    proof: WorkProof = NO_PROOF
    promise: CompletionPromise | None = None
    """What done means for the task; None if that follows from its node."""
    promise_id: str = ""
    """The id of a promise that follows from the node."""
    lease: str = ""
    """By which the decisions of checkpoints are found again."""
    gates: tuple[CheckpointDecision, ...] = ()
    """What the checkpoints before the turn decided."""
    gated: bool = False
    """Whether its command carries a promise, so that checkpoints decide after the turn, too."""
    needs_proof: bool = False
    """Whether another party than the agent had to check the work."""
    abort: Abort | None = None
    """Why the turn counts as stopped."""
    scores: Mapping[str, float | None] = _NO_SCORES
    """Scores of other tasks that the gates of this one name."""
    of_kind: bool = False
    """Whether the kind of its board finds the evidence, in the world outside."""
    beyond_repair: bool = False
    """Whether another round could not fix what was found."""
    in_repository: bool = False
    """Whether its agent is expected to change a repository, so that no change needs a word."""
    agents: Collection[str] = ()
    """Agents of the plan that could be handed the task."""
    can_ask: bool = True
    """Whether the engine runs the plan, so that it can wait for a person's answer."""

    @property
    def promised(self) -> CompletionPromise:
        """What done means for the task, with the outputs that its score makes due."""
        if self.promise is not None:
            return self.promise
        return done.derive_promise(self.node, promise_id=self.promise_id, score=self.performance.score)


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """What a turn leads to."""

    cause: Cause
    reason: str | None = None
    verdict: Verdict | None = None
    gate: ScoreGateResult | None = None
    promise_id: str | None = None
    gates: tuple[CheckpointDecision, ...] = ()
    """What checkpoints decided, before and after the turn."""
    again: bool = False
    """Whether the same command runs once more."""
    hand_to: str | None = None
    """The agent that does it next, if it is another one."""
    claims: Claims = NO_CLAIMS
    """What the agent claims about its own work."""
    evidence: tuple[Evidence, ...] = ()
    """What was found, if it is not enough and no round is left."""
    stuck: bool = False
    """Whether rounds are left, and the same issues came back unchanged."""

    @property
    def state(self) -> State:
        """The state of the task after the turn."""
        return task_states.move("RUNNING", self.cause)

    @property
    def is_unproven(self) -> bool:
        """Whether it is done by its agent's word alone."""
        return self.cause == "FULFILLED" and (self.verdict is None or rests_on_word(self.verdict))


def rests_on_word(verdict: Verdict) -> bool:
    """Whether what is done is so by its agent's word alone."""
    return verdict.fulfilled and verdict.trust in {None, "claimed"}


def decide_turn(facts: TurnFacts, history: Callable[[], TaskHistory]) -> TurnOutcome:
    """Decide what follows from a turn.

    `history` is asked only if the decision depends on it, because most turns are done and reading it costs.
    """
    if not facts.gated and facts.abort is None and not facts.proof.breach:
        return _decide_ended(facts, history, (), breach_ends=False)
    ends = bool(facts.proof.breach) and checkpoints.is_final_breach(
        acts=aborts.stops_run(facts.promise, "scope-drift"),
        before=history().breached_scope,
        hidden=facts.proof.hidden,
    )
    later = decide_after_turn(facts, breach_ends=ends)
    if facts.abort is not None:
        outcome = _decide_aborted(facts.abort, history)
    else:
        outcome = _decide_ended(facts, history, later, breach_ends=ends)
    return replace(outcome, gates=(*facts.gates, *later))


def find_done_cause(verdict: Verdict, *, accepted: bool = False) -> Cause | None:
    """Find the cause that completes a task, if the verdict fulfils its promise; None if it does not.

    No other code names such a cause, so this is the only way to COMPLETED. `accepted` says that a person took the work
    as it is, which is part of the evidence then.
    """
    if not verdict.fulfilled:
        return None
    return "ACCEPTED" if accepted else "FULFILLED"


def would_be_done(facts: TurnFacts) -> bool:
    """Whether what was found fulfils the promise, if the gates of the task are met. Asked before a merge."""
    return _weigh(facts, _MET, decide_after_turn(facts)).verdict.fulfilled


def decide_foreign_turn(
    performance: Performance, history: TaskHistory = NO_HISTORY, *, task_id: str, agent_id: str, at: str
) -> TurnOutcome:
    """Decide about a turn of a foreign plan, or a receipt that says how one ended.

    Its agent's word is the evidence, so such a task is done by a claim at best. The engine orders no rework and
    chooses no other agent: its commander may send another command.
    """
    claimed = performance.how == "finished" and performance.code is None
    facts = TurnFacts(
        Node.from_values(task_id=task_id, assigned_agent_id=agent_id),
        performance,
        agent_id,
        at,
        WorkProof(evidence=(done.make_receipt_evidence(passed=claimed, by=agent_id, at=at),)),
        promise=done.make_claim_promise(task_id),
        abort=performance.abort,
        can_ask=False,
    )
    # What is wrong with an input or an output would be wrong again, so only a program that failed is retried.
    past = history if performance.code is None else replace(history, retry_times=0)
    if performance.how == "limited":  # only plans of the engine wait for accounts
        facts = facts._replace(performance=replace(performance, how="crashed"))
    return decide_turn(facts, lambda: past)


def decide_after_attempt(how: TurnEnding, *, retries_used: int, retry_times: int, engine_deaths: int) -> Cause:
    """Decide what follows when an attempt ended without a result.

    `engine_deaths` counts how often the engine died over this task, this time included. A stop that an operator asked
    for says nothing about the task, so it never leads to a person. Neither counts as a retry. A remote agent that was
    lost says little about its task, which is tried again at least LOST times.
    """
    if how == "stopped":
        return "ENGINE_ENDED"
    if how == "engine_died":
        return "ENGINE_ENDED" if engine_deaths < ENGINE_DEATHS else "ENGINE_ENDED_TOO_OFTEN"
    limit = max(retry_times, LOST) if how == "lost" else retry_times
    return "RETRY" if retries_used < limit else "FAILED_FOR_GOOD"


def decide_after_day_limit(before: int) -> Cause:
    """Decide what follows when the limit of a day stopped an attempt, as it did `before` times right before.

    The agent is not to blame, so the same command runs again when the day allows it. A task for which no day is long
    enough would use up each of them, so a person is asked in the end.
    """
    return "DAY_SPENT" if before + 1 < DAYS else "NEEDS_PERSON"


def decide_after_turn(facts: TurnFacts, *, breach_ends: bool = False) -> tuple[CheckpointDecision, ...]:
    """Decide `post-act` of a turn that ended and, where there is something to check, `pre-verify`.

    `breach_ends` says whether leaving the scope is the end of the task.
    """
    performance, proof = facts.performance, facts.proof
    finished = performance.how == "finished" and facts.abort is None
    names = {output.output_name for output in performance.outputs}
    due = score_gates.due_outputs(facts.node, performance.score)
    missing = [output.name for output in due if output.name not in names]
    acted = checkpoints.check_turn(
        breach=proof.breach, breach_stops=breach_ends, missing=missing if finished else (), abort=facts.abort
    )
    decisions = [checkpoints.decide("post-act", acted, trace_id=f"{facts.lease}:post-act")]
    if finished and facts.needs_proof and not proof.breach:
        verifiable = checkpoints.check_verifiable(tree_dead=True, refused=proof.refused)
        decisions.append(checkpoints.decide("pre-verify", verifiable, trace_id=f"{facts.lease}:pre-verify"))
    return tuple(decisions)


def _decide_aborted(abort: Abort, history: Callable[[], TaskHistory]) -> TurnOutcome:
    """Decide about a turn that was stopped. The limit of a day only pauses a task, unless it does so too often."""
    if not abort.pauses:
        return TurnOutcome("ABORTED", abort.describe())
    before = history().day_stops
    cause = decide_after_day_limit(before)
    if cause == "DAY_SPENT":
        return TurnOutcome(cause, abort.describe(), again=True)
    return TurnOutcome(cause, verdict_words.DAY_STOPPED(count=before + 1, why=abort.describe()))


def _decide_ended(
    facts: TurnFacts, history: Callable[[], TaskHistory], later: tuple[CheckpointDecision, ...], *, breach_ends: bool
) -> TurnOutcome:
    """Decide about a turn that nothing stopped. `later` is what the checkpoints after it decided."""
    performance, proof = facts.performance, facts.proof
    if performance.code in SCORE_CODES:
        if history().sent_back < SCORE_TRIES:
            return TurnOutcome("RETRY", performance.error, again=True)
        return TurnOutcome("FAILED_FOR_GOOD", performance.error)
    if performance.how == "refused":
        faults = [
            ABOUT(subject=name, what=judgement.reason)
            for name, judgement in performance.judgements.items()
            if not judgement.accepted
        ]
        return TurnOutcome("INPUT_REJECTED", verdict_words.INPUTS_REFUSED(whys=faults))
    if performance.how == "unfit":
        return _decide_unfit(facts, history())
    if performance.how != "finished":
        return _decide_unfinished(performance, history())
    if breach_ends:
        return TurnOutcome("ABORTED", checkpoints.make_drift_abort(proof.breach).describe())
    if proof.moot:
        return TurnOutcome("MOOT", proof.moot)
    if proof.conflict:
        return TurnOutcome("CONFLICT", verdict_words.CONFLICT(conflict=proof.conflict))
    return _decide_by_promise(facts, history, later)


def _decide_unfinished(performance: Performance, past: TaskHistory) -> TurnOutcome:
    """Decide about a turn that left nothing to judge.

    One that a limit of its provider ended does not count. After too many in a row it does: an agent that fakes a limit
    gains no time.
    """
    error = performance.error
    if performance.how == "limited":
        if past.limit_stops < MOST_STOPS:
            return TurnOutcome("ACCOUNT_LIMIT", error, again=True)
        error = verdict_words.LIMITED_TOO_OFTEN(count=past.limit_stops + 1, why=error)
    cause = decide_after_attempt(
        performance.how,
        retries_used=past.retries,
        retry_times=past.retry_times,
        engine_deaths=past.engine_deaths,
    )
    return TurnOutcome(cause, error, again=cause in _AGAIN)


def _decide_by_promise(
    facts: TurnFacts, history: Callable[[], TaskHistory], later: tuple[CheckpointDecision, ...]
) -> TurnOutcome:
    """Hold what was found against the promise."""
    if not later and _is_plain(facts):
        verdict = _judge_plain(facts)
        if (cause := find_done_cause(verdict)) is not None:
            return TurnOutcome(cause, None, verdict, _MET, facts.promise_id)
    performance, proof = facts.performance, facts.proof
    scores = {**facts.scores, facts.node.task_id: performance.score}
    gate = score_gates.judge_gates(facts.node, scores=scores, evidence=())
    refused = proof.refused or (checkpoints.make_drift_abort(proof.breach).describe() if proof.breach else "")
    weighed = _weigh(facts, gate, later, aborted=verdict_words.NOT_TAKEN(whys=refused) if refused else None)
    verdict, promise_id = weighed.verdict, weighed.promise.id
    if (cause := find_done_cause(verdict)) is not None:
        return TurnOutcome(cause, None, verdict, gate, promise_id, claims=weighed.claims)
    if not gate.met and not refused and would_be_done(facts):
        return TurnOutcome("GATE_UNMET", join(gate.unmet), verdict, gate, promise_id, claims=weighed.claims)
    if proof.idle and facts.in_repository:
        remarks = [verdict_words.IDLE(), *([performance.remark] if performance.ended_badly else [])]
        performance = replace(performance, remark=join(remarks))
    outcome = _decide_rework(facts, history, verdict, join(_faults(performance, verdict)))
    return replace(outcome, verdict=verdict, promise_id=promise_id, claims=weighed.claims, evidence=weighed.evidence)


@dataclass(frozen=True, slots=True)
class _WeighedWork:
    """The one assembly of evidence about a turn, and what it is worth."""

    promise: CompletionPromise
    evidence: tuple[Evidence, ...]
    claims: Claims
    verdict: Verdict


def _weigh(
    facts: TurnFacts, gate: ScoreGateResult, later: tuple[CheckpointDecision, ...], *, aborted: str | None = None
) -> _WeighedWork:
    """Put together what the engine saw, what others found and what the agent claims, and compare it with the promise.

    What an agent claims under the name of a check, or of something the engine sees itself, is set aside.
    """
    promise = facts.promised
    seen = observe_evidence(facts.node, facts.performance, gate, facts.at)
    names = {each.id for each in seen}
    if facts.of_kind:  # what such a promise asks for is found by its kind alone
        names |= {name for criterion in promise.acceptance for name in criterion.evidence_required}
    claims = collect_claims(promise, facts.performance.claims, by=facts.agent_id, at=facts.at, seen=names)
    evidence = (*seen, *facts.proof.evidence, *claims.evidence)
    results = checkpoints.latest_results([*facts.gates, *later]) if later else ()
    return _WeighedWork(promise, evidence, claims, done.decide(promise, evidence, results, aborted=aborted))


def _decide_rework(facts: TurnFacts, history: Callable[[], TaskHistory], verdict: Verdict, reason: str) -> TurnOutcome:
    """Decide whether work that is not good enough is done once more."""
    if facts.beyond_repair:
        return TurnOutcome("REWORK_EXHAUSTED", reason)
    past = history()
    issues = (*build_engine_judgement(reason, verdict, facts.proof).issues, *past.disputes)
    # That a forge shows the same once more does not mean that the agent gets nowhere: it may show something else next.
    answer = rework.decide_another_round(past.rounds, rework.fingerprint_issues(issues), converges=not facts.of_kind)
    if answer == "yes":
        return TurnOutcome("NOT_FULFILLED", reason)
    if answer == "stuck":
        return TurnOutcome("REWORK_EXHAUSTED", verdict_words.UNCHANGED(whys=reason), stuck=True)
    return TurnOutcome("REWORK_EXHAUSTED", reason)


def _decide_unfit(facts: TurnFacts, history: TaskHistory) -> TurnOutcome:
    """Decide about a task that its agent calls not fit for itself: another agent does it, or a person is asked."""
    reason = verdict_words.UNFIT(agent=facts.agent_id, why=facts.performance.error)
    if not facts.can_ask:
        return TurnOutcome("FAILED_FOR_GOOD", facts.performance.error)
    policy = facts.node.failure_policy
    target = policy.reexecute_target_agent_id if policy else None
    issues = (*build_engine_judgement(reason, None, NO_PROOF).issues, *history.disputes)
    if (
        target in {None, facts.agent_id}
        or target not in facts.agents
        or rework.decide_another_round(history.rounds, rework.fingerprint_issues(issues)) != "yes"
    ):
        return TurnOutcome("NEEDS_PERSON", reason)
    return TurnOutcome("NOT_FULFILLED", reason, hand_to=target)


def _faults(performance: Performance, verdict: Verdict) -> list[str]:
    """List everything that prevents done, in words."""
    return [
        *([performance.error] if performance.code is not None else []),
        *(WHAT_IS(subject=name, what=why) for name, why in performance.misfits.items()),
        *verdict.blockers,
        *(verdict_words.MISSING(name=name) for name in verdict.missing),
        *([performance.remark] if performance.remark else []),
    ]


def observe_evidence(node: Node, performance: Performance, gate: ScoreGateResult, at: str) -> list[Evidence]:
    """List what the engine saw itself: outputs that are there with their hash, a result, a score."""
    names = {output.output_name for output in performance.outputs} - performance.misfits.keys()
    evidence = [
        Evidence(
            f"output:{output.name}",
            output.name in names,
            True,
            "observed",
            "engine",
            at,
            performance.misfits.get(
                output.name, "stored with its hash" if output.name in names else verdict_words.OUTPUT_NOT_THERE()
            ),
        )
        for output in score_gates.due_outputs(node, performance.score)
    ]
    answered = _says_something(performance.result)
    detail = "not empty" if answered else verdict_words.EMPTY()
    evidence.append(Evidence("result", answered, True, "observed", "engine", at, detail))
    if performance.score is not None:
        evidence.append(Evidence("score", True, True, "observed", "engine", at, f"{performance.score:g}"))
    met = gate.met or gate.branch is not None
    evidence.append(Evidence("gates", met, True, "observed", "engine", at, join(gate.unmet)))
    return evidence


def _says_something(result: Any) -> bool:
    """Whether a result is one: not nothing, blank, or an empty list or object."""
    if isinstance(result, str):
        return bool(result.strip())
    return result is not None and result not in ([], {})


def _is_plain(facts: TurnFacts) -> bool:
    """Whether the promise follows from the node, and nothing was found but outputs and a result."""
    node, performance = facts.node, facts.performance
    return (
        facts.promise is None
        and node.gates is None
        and not node.score_required
        and not facts.of_kind
        and not facts.gates
        and performance.score is None
        and not performance.claims
        and not performance.misfits
        and facts.proof is NO_PROOF
    )


def _judge_plain(facts: TurnFacts) -> Verdict:
    """Judge a plain turn. Most turns are plain, so the verdict is remembered for what it depends on."""
    asked = tuple([(output.name, output.optional, output.when) for output in facts.node.outputs])
    names = frozenset([output.output_name for output in facts.performance.outputs])
    return _verdict_of_plain_turn(asked, names, _says_something(facts.performance.result))


@lru_cache(maxsize=1024)
def _verdict_of_plain_turn(
    asked: tuple[tuple[str, bool, str | None], ...],
    names: frozenset[str],
    answered: bool,  # noqa: FBT001 - part of the key
) -> Verdict:
    """Build the verdict of `done.decide` for required outputs and the names of existing ones."""
    outputs = tuple(Output.from_values(name=name, optional=optional, when=when) for name, optional, when in asked)
    node = Node.from_values(task_id="", assigned_agent_id="", outputs=outputs)
    made = tuple(OutputContent(name, "", "", 0, None) for name in sorted(names))
    performance = Performance("finished", result=answered or None, outputs=made)
    promise = done.derive_promise(node, promise_id="")
    return done.decide(promise, observe_evidence(node, performance, _MET, ""), ())


def build_engine_judgement(reason: str, verdict: Verdict | None, proof: WorkProof) -> Judgement:
    """Build the verifier's judgement of a turn."""
    if proof.breach:
        told = verdict_words.LEFT_SCOPE(paths=", ".join(proof.breach))
        return Judgement(False, 0, told, rework.make_refusal([told], rework.SCOPE).issues)
    faults = (
        [*verdict.blockers, *(verdict_words.MISSING(name=name) for name in verdict.missing)] if verdict else [reason]
    )
    category = rework.CONFLICT if proof.conflict else "completeness"
    said = rework.make_refusal([each or verdict_words.NOT_DONE() for each in (faults or [reason])], category)
    undone = (
        rework.make_refusal(describe_dropped_work(proof), rework.SCOPE).issues if describe_dropped_work(proof) else ()
    )
    return Judgement(False, 0, reason or verdict_words.NOT_DONE(), (*said.issues, *undone, *_issues_from_output(proof)))


def describe_dropped_work(proof: WorkProof) -> list[str]:
    """Describe the parts of an agent's work that do not count."""
    found: list[str] = []
    if proof.restored:
        found.append(verdict_words.PUT_BACK(paths=", ".join(proof.restored)))
    if proof.left_out:
        found.append(verdict_words.LEFT_OUT(paths=", ".join(proof.left_out)))
    return found


def _issues_from_output(proof: WorkProof) -> list[Issue]:
    """Make issues of the last output of failed checks, for the agent that has to repair it."""
    return [
        rework.make_issue(_failure(check, cut_to_end(check["output"], _PRINTED)), "check")
        for check in proof.check_records
        if check.get("passed") is False and check.get("output") and not check.get("hidden")
    ]


def _failure(check: Mapping[str, Any], text: str) -> str:
    """Put a check's output behind the command that its agent can run itself."""
    if check.get("command") and check.get("exit_code") is not None:
        return answer_words.COMMAND_ENDED_SAYING(command=check["command"], code=check["exit_code"], text=text)
    return verdict_words.PRINTED(check=check["id"], text=text)
