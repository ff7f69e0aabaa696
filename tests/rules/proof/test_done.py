"""Whether a promise is fulfilled, which promise a task has, and what a command may add to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.dag import Node
from agenttalk.contracts.promise import Checkpoint, CompletionPromise, DoneCondition, RunCheck
from agenttalk.rules.commands import promises
from agenttalk.rules.core import scope
from agenttalk.rules.proof import done
from agenttalk.rules.proof.done import (
    TRUST,
    Evidence,
    GateResult,
    Trust,
    Verdict,
    decide,
    derive_promise,
    merge_promises,
)

ID = "cp-1717980000000-a3f1"
RUN = {"id": "tests", "kind": "run", "run": "make test"}


def criterion(name: str, *evidence: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "description": f"{name} is shown", "evidenceRequired": list(evidence), **fields}


def promise(*acceptance: dict[str, Any], **fields: Any) -> CompletionPromise:
    return CompletionPromise.read({"id": ID, "objective": "It works", "acceptance": list(acceptance), **fields})


def seen(name: str, trust: Trust = "executed", **fields: Any) -> Evidence:
    return replace(Evidence(name, True, True, trust, "engine", "2026-01-08T10:30:00Z"), **fields)


def gate(checkpoint: Checkpoint, *, allowed: bool) -> GateResult:
    return GateResult(allowed=allowed, checkpoint=checkpoint, trace_id="trace-1")


TESTED = promise(criterion("works", "tests"), requiredEvidence=["tests"], checks=[RUN])


def test_evidence_that_passed_is_fresh_and_is_trusted_fulfils() -> None:
    assert decide(TESTED, [seen("tests")], []) == Verdict(fulfilled=True, trust="executed")


@pytest.mark.shows("E06")
@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        ([], "'tests' is not there"),
        ([seen("other")], "'tests' is not there"),
        ([seen("tests", passed=False)], "'tests' failed"),
        ([seen("tests", passed=False, detail="2 failed: a, b")], "'tests' failed (2 failed: a, b)"),
        ([seen("tests", fresh=False)], "'tests' is stale"),
        ([seen("tests", "observed")], "'tests' is only observed; executed is required"),
        ([seen("tests", fresh=False), seen("tests", passed=False)], "'tests' failed"),
    ],
)
def test_everything_else_counts_for_nothing_and_the_reason_is_told(evidence: list[Evidence], reason: str) -> None:
    verdict = decide(TESTED, evidence, [])
    assert verdict == Verdict(
        fulfilled=False, missing=("tests",), blockers=(f"criterion 'works' is not shown: {reason}",)
    )


def test_a_failed_check_does_not_undo_one_that_passed() -> None:
    assert decide(TESTED, [seen("tests"), seen("tests", passed=False)], []).fulfilled


@pytest.mark.shows("P06", "P07")
def test_every_required_evidence_must_be_there_and_of_a_criterion_any_one() -> None:
    both = promise(criterion("works", "x", "y"), requiredEvidence=["r", "s"])
    assert decide(both, [seen("y"), seen("r"), seen("s")], []).fulfilled
    verdict = decide(both, [seen("r")], [])
    assert verdict.missing == ("s",)
    assert verdict.blockers == ("criterion 'works' is not shown: 'x' is not there; 'y' is not there",)


@pytest.mark.shows("E07")
@pytest.mark.parametrize(
    ("check", "least"),
    [
        (RUN, "executed"),
        ({"id": "tests", "kind": "tests", "run": "x", "junit": "r.xml"}, "executed"),
        ({"id": "tests", "kind": "file", "path": "a"}, "observed"),
        ({"id": "tests", "kind": "git"}, "observed"),
        ({"id": "tests", "kind": "eslint"}, "observed"),
        ({"id": "tests", "kind": "artifact", "output": "a"}, "observed"),
        ({"id": "tests", "kind": "artifact", "output": "a", "accepted_by": "b"}, "attested"),
        ({"id": "tests", "kind": "human", "question": "Well?"}, "attested"),
        ({"id": "tests", "kind": "report"}, "attested"),
        ({"id": "tests", "kind": "report", "minTrust": "claimed"}, "claimed"),
        ({**RUN, "minTrust": "observed"}, "observed"),
        ({"id": "other", "kind": "run", "run": "x"}, "attested"),
    ],
)
def test_without_a_written_minimum_the_kind_of_the_check_says_how_much_trust_is_needed(
    check: dict[str, Any], least: Trust
) -> None:
    written = promise(criterion("works", "tests"), requiredEvidence=["tests"], checks=[check])
    enough = [trust for trust in TRUST if decide(written, [seen("tests", trust)], []).fulfilled]
    assert enough == list(TRUST[TRUST.index(least) :])


@pytest.mark.parametrize("least", get_args(Trust))
def test_a_criterion_may_ask_for_its_own_trust(least: Trust) -> None:
    written = promise(criterion("works", "tests", minTrust=least))
    enough = [trust for trust in TRUST if decide(written, [seen("tests", trust)], []).fulfilled]
    assert enough == list(TRUST[TRUST.index(least) :])


def test_of_two_written_minimums_the_stricter_counts() -> None:
    written = promise(criterion("works", "tests", minTrust="claimed"), checks=[{**RUN, "minTrust": "observed"}])
    assert not decide(written, [seen("tests", "attested")], []).fulfilled


def test_being_done_rests_on_the_weakest_of_the_best() -> None:
    two = promise(criterion("works", "x", "y"), criterion("liked", "z"))
    verdict = decide(two, [seen("x", "attested"), seen("y", "executed"), seen("z", "observed")], [])
    assert verdict.trust == "observed"
    assert decide(two, [seen("x")], []).trust is None


@pytest.mark.shows("E07")
def test_claims_that_nothing_proves_are_listed() -> None:
    lenient = promise(criterion("works", "said", minTrust="claimed"), criterion("nice"))
    claims = [
        seen("said", "claimed"),
        seen("proven", "claimed"),
        seen("proven"),
        seen("denied", "claimed", passed=False),
    ]
    worthless = [seen("old", fresh=False), seen("old", "claimed"), seen("red", passed=False), seen("red", "claimed")]
    verdict = decide(lenient, [*claims, *worthless], [])
    assert verdict == Verdict(fulfilled=True, unverified=("said", "old", "red", "criterion:nice"), trust="claimed")


def done_when(*conditions: dict[str, Any], name: str = "works") -> CompletionPromise:
    return promise(criterion(name), doneWhen=list(conditions))


@pytest.mark.shows("P08")
def test_the_latest_result_of_a_checkpoint_counts() -> None:
    shipped = done_when({"type": "gate-passed", "target": "pre-ship"})
    yes, no, other = gate("pre-ship", allowed=True), gate("pre-ship", allowed=False), gate("post-act", allowed=False)
    assert decide(shipped, [], [no, yes, other]) == Verdict(
        fulfilled=True, unverified=("criterion:works",), trust="observed"
    )
    assert decide(shipped, [], [yes, no]).blockers == ("checkpoint 'pre-ship' did not allow it",)
    assert decide(shipped, [], [other]).blockers == ("checkpoint 'pre-ship' has no result",)


@pytest.mark.parametrize("target", [None, ""])
def test_a_condition_that_does_not_say_what_it_means_never_holds(target: str | None) -> None:
    every = [gate(checkpoint, allowed=True) for checkpoint in get_args(Checkpoint)]
    gates = decide(done_when({"type": "gate-passed", "target": target}), [], every)
    assert gates.blockers == ("gate-passed does not say which checkpoint",)
    evidence = decide(done_when({"type": "evidence-present", "target": target}), [seen("")], [])
    assert evidence.blockers == ("evidence-present does not say which evidence",)


@pytest.mark.shows("P09")
def test_the_other_conditions_of_being_done() -> None:
    present = done_when({"type": "evidence-present", "target": "x"})
    assert decide(present, [seen("x")], []).fulfilled
    assert decide(present, [seen("x", "claimed")], []).blockers == (
        "evidence 'x' is only claimed; attested is required",
    )
    confirmed = done_when({"type": "user-confirmed"})
    assert decide(confirmed, [], [], confirmed=True).trust == "confirmed"
    assert decide(confirmed, [seen("user-confirmed", "confirmed")], []).blockers == ("no person has confirmed it",)
    named = promise(criterion("works", "x"), doneWhen=[{"type": "acceptance-met", "target": "works"}])
    assert decide(named, [seen("x")], []).fulfilled
    one_of_two = promise(
        criterion("fast", "x"), criterion("works", "x"), doneWhen=[{"type": "acceptance-met", "target": "works"}]
    )
    assert decide(one_of_two, [seen("x")], []).fulfilled
    unknown = promise(criterion("works", "x"), doneWhen=[{"type": "acceptance-met", "target": "wrks"}])
    assert decide(unknown, [seen("x")], []).blockers == ("there is no criterion 'wrks'",)


def test_a_condition_of_a_kind_that_nobody_knows_never_holds() -> None:
    strange = DoneCondition.model_construct(type="moon-full", target=None)  # type: ignore[arg-type]
    assert not decide(TESTED.model_copy(update={"done_when": (strange,)}), [seen("tests")], []).fulfilled


@pytest.mark.parametrize("reason", ["budget-exhausted: time", ""])
def test_an_aborted_run_is_never_done(reason: str) -> None:
    assert decide(TESTED, [seen("tests")], [], aborted=reason).blockers == (f"aborted: {reason}",)


@pytest.mark.shows("P15")
def test_nothing_checked_is_never_done() -> None:
    assert decide(promise(criterion("works")), [seen("works", "confirmed")], [], confirmed=True).blockers == (
        "nothing was checked",
    )
    assert decide(promise(criterion("works"), doneWhen=[]), [], []).blockers == ("nothing was checked",)
    asked = promise(criterion("works"), requiredEvidence=["x"])
    assert decide(asked, [seen("x")], []).fulfilled
    empty = promise(requiredEvidence=["x"])
    assert decide(empty, [seen("x")], []).blockers == ("there is no acceptance criterion",)


ids = st.sampled_from(["x", "y", "z"])
trusts = st.sampled_from(TRUST)
minimums = st.none() | st.sampled_from(TRUST[1:])
evidences = st.builds(
    Evidence,
    id=ids,
    passed=st.booleans(),
    fresh=st.booleans(),
    trust=trusts,
    by=st.just("engine"),
    at=st.just("2026-01-08T10:30:00Z"),
)
results = st.builds(
    lambda checkpoint, allowed: gate(checkpoint, allowed=allowed),
    st.sampled_from(get_args(Checkpoint)),
    st.booleans(),
)
conditions = st.one_of(
    st.sampled_from([None, "*", "*", "x"]).map(lambda target: {"type": "acceptance-met", "target": target}),
    st.sampled_from(get_args(Checkpoint)).map(lambda target: {"type": "gate-passed", "target": target}),
    ids.map(lambda target: {"type": "evidence-present", "target": target}),
    st.just({"type": "user-confirmed"}),
)
criteria = st.builds(
    lambda name, evidence, least: criterion(name, *evidence, minTrust=least), ids, st.lists(ids, max_size=2), minimums
)
checks = st.builds(
    lambda name, kind, least: {"id": name, "kind": kind, "run": "x", "minTrust": least},
    ids,
    st.sampled_from(["run", "report", "git", "eslint"]),
    minimums,
)
scopes = st.lists(
    st.sampled_from(["**", "src/**", "src/", "src/a/**", "src/a/b.py", "docs/**", "*.py", "!src/a/**", "s*/**"]),
    max_size=3,
)
budgets = st.none() | st.dictionaries(st.sampled_from(["tokens", "seconds"]), st.integers(1, 9))
made = st.builds(
    lambda acceptance, required, done, checks, allowed, forbidden, budget: promise(
        *acceptance,
        requiredEvidence=required,
        doneWhen=done,
        checks=checks,
        allowedScope=allowed,
        disallowedScope=forbidden,
        budget=budget,
    ),
    st.lists(criteria, max_size=3),
    st.lists(ids, max_size=2),
    st.lists(conditions, max_size=2),
    st.lists(checks, max_size=2),
    scopes,
    scopes,
    budgets,
)
# Random evidence alone would hardly ever fulfil anything, so all that is needed is there now and then.
ENOUGH = [seen(name, "confirmed") for name in ("x", "y", "z")]
ALLOWED = [gate(checkpoint, allowed=True) for checkpoint in get_args(Checkpoint)]
several = st.lists(evidences, max_size=6) | st.lists(evidences, max_size=3).map(lambda few: [*few, *ENOUGH])
decisions = st.lists(results, max_size=4) | st.just(ALLOWED)


@given(made, several, decisions, st.booleans(), st.data())
def test_with_less_evidence_nothing_more_is_done(
    written: CompletionPromise, evidence: list[Evidence], gates: list[GateResult], confirmed: bool, data: st.DataObject
) -> None:
    fewer = [each for each in evidence if data.draw(st.booleans())]
    if decide(written, fewer, gates, confirmed=confirmed).fulfilled:
        assert decide(written, evidence, gates, confirmed=confirmed).fulfilled


@given(made, several, several, decisions, st.booleans())
def test_failed_stale_and_claimed_evidence_never_makes_anything_done(
    written: CompletionPromise, evidence: list[Evidence], more: list[Evidence], gates: list[GateResult], confirmed: bool
) -> None:
    worthless = [each for each in more if not each.passed or not each.fresh or each.trust == "claimed"]
    before = decide(written, evidence, gates, confirmed=confirmed)
    after = decide(written, [*evidence, *worthless], gates, confirmed=confirmed)
    assert (before.fulfilled, before.missing, before.trust) == (after.fulfilled, after.missing, after.trust)


@given(made, several, decisions, st.booleans())
def test_what_is_done_is_shown_in_every_point(
    written: CompletionPromise, evidence: list[Evidence], gates: list[GateResult], confirmed: bool
) -> None:
    verdict = decide(written, evidence, gates, confirmed=confirmed)
    assert verdict.fulfilled is (not verdict.missing and not verdict.blockers)
    assert (verdict.trust is not None) is verdict.fulfilled
    if not verdict.fulfilled:
        return
    good = {each.id for each in evidence if each.passed and each.fresh and each.trust != "claimed"}
    assert set(written.required_evidence) <= good
    for each in written.acceptance:
        assert not each.evidence_required or good & set(each.evidence_required)
    latest = {each.checkpoint: each.allowed for each in gates}
    for condition in written.done_when:
        match condition.type:
            case "gate-passed":
                assert condition.target is not None
                assert latest[condition.target]  # type: ignore[index]
            case "evidence-present":
                assert condition.target in good
            case "user-confirmed":
                assert confirmed


@given(made, several, decisions, st.booleans(), st.text(max_size=5))
def test_an_abort_stops_every_promise(
    written: CompletionPromise, evidence: list[Evidence], gates: list[GateResult], confirmed: bool, reason: str
) -> None:
    assert not decide(written, evidence, gates, aborted=reason, confirmed=confirmed).fulfilled


@given(st.lists(ids, max_size=3), several, decisions)
def test_a_promise_that_asks_for_nothing_is_never_done(
    names: list[str], evidence: list[Evidence], gates: list[GateResult]
) -> None:
    assert not decide(promise(*(criterion(name) for name in names)), evidence, gates, confirmed=True).fulfilled


# The promise that a task has without one being written


def node(**fields: Any) -> Node:
    return Node.read({"task_id": "t", "assigned_agent_id": "x", **fields})


OUTPUTS = [{"name": "a.md"}, {"name": "b.md", "optional": True}, {"name": "c.md", "when": "score >= 70"}]


@pytest.mark.parametrize(
    ("fields", "score", "evidence"),
    [
        ({}, None, ["result"]),
        ({"outputs": OUTPUTS}, None, ["output:a.md"]),
        ({"outputs": OUTPUTS}, 70, ["output:a.md", "output:c.md"]),
        ({"outputs": OUTPUTS[1:]}, None, ["result"]),
        ({"outputs": OUTPUTS[1:]}, 99, ["output:c.md", "result"]),
        ({"score_required": True, "gates": {"required": True}}, None, ["result", "score", "gates"]),
        ({"name": "Write", "outputs": OUTPUTS[:1], "score_required": True}, None, ["output:a.md", "score"]),
    ],
)
def test_a_task_without_a_promise_gets_one(fields: dict[str, Any], score: float | None, evidence: list[str]) -> None:
    derived = derive_promise(node(**fields), promise_id=ID, score=score)
    assert promises.validate(derived).issues == ()
    assert CompletionPromise.read(derived.as_json()) == derived
    assert list(derived.required_evidence) == evidence == [each.id for each in derived.acceptance]
    assert derived.objective == ("Task t is done: Write" if "name" in fields else "Task t is done")
    assert decide(derived, [seen(each, "observed") for each in evidence], []).trust == "observed"
    for gap in evidence:
        rest = [seen(each, "observed") for each in evidence if each != gap]
        assert decide(derived, rest, []).missing == (gap,)
        assert not decide(derived, [*rest, seen(gap, "attested")], []).fulfilled


# What a command may add


def test_a_command_adds_criteria_evidence_conditions_and_limits() -> None:
    nodes = promise(
        criterion("works", "tests"),
        checks=[RUN],
        allowedScope=["src/**"],
        disallowedScope=["ci/**"],
        abortWhen=[{"type": "stuck"}],
        budget={"tokens": 100, "seconds": 60},
    )
    commands = promise(
        criterion("documented", "docs"),
        requiredEvidence=["docs"],
        checks=[{"id": "docs", "kind": "file", "path": "docs/a.md"}],
        doneWhen=[{"type": "user-confirmed"}],
        abortWhen=[{"type": "stuck"}, {"type": "unsafe"}],
        allowedScope=["src/a/**", "docs/**"],
        disallowedScope=["src/a/x"],
        budget={"tokens": 500, "cost_usd": 1},
        objective="Something else",
        id="cp-1-ffff",
    )
    merged = merge_promises(nodes, commands)
    assert (merged.id, merged.objective) == (ID, "It works")
    assert [each.id for each in merged.acceptance] == ["works", "documented"]
    assert [each.id for each in merged.checks] == ["tests", "docs"]
    assert merged.required_evidence == ("docs",)
    assert [each.type for each in merged.done_when] == ["acceptance-met", "user-confirmed"]
    assert [each.type for each in merged.abort_when] == ["stuck", "unsafe"]
    assert merged.allowed_scope == ("src/a/**",)
    assert merged.disallowed_scope == ("ci/**", "src/a/x")
    assert merged.budget is not None
    assert merged.budget.as_json() == {"tokens": 100, "seconds": 60, "cost_usd": 1}


def test_a_command_cannot_give_the_nodes_names_another_meaning() -> None:
    nodes = promise(
        criterion("works", "tests", "manual"),
        checks=[RUN],
        doneWhen=[{"type": "acceptance-met", "target": "later"}],
    )
    commands = promise(
        criterion("works", "tests", minTrust="claimed"),
        criterion("later", "manual"),
        requiredEvidence=["tests"],
        checks=[{"id": "tests", "kind": "run", "run": "true"}, {"id": "manual", "kind": "run", "run": "true"}],
        doneWhen=[
            {"type": "acceptance-met", "target": "works"},
            {"type": "evidence-present", "target": "manual"},
            {"type": "gate-passed", "target": "post-act"},
        ],
    )
    merged = merge_promises(nodes, commands)
    assert [(each.id, each.evidence_required) for each in merged.acceptance] == [
        ("works", ("tests", "manual")),
        ("command:works", ("command:tests",)),
        ("command:later", ("command:manual",)),
    ]
    assert [each.id for each in merged.checks] == ["tests", "command:tests", "command:manual"]
    assert merged.required_evidence == ("command:tests",)
    assert [each.target for each in merged.done_when] == ["later", "command:works", "command:manual", "post-act"]
    assert merge_promises(merged, commands) == merged


def test_two_checks_of_a_command_never_get_one_name() -> None:
    other, third = ({"id": name, "kind": "run", "run": name} for name in ("tests", "command:tests"))
    merged = merge_promises(TESTED, promise(criterion("works", "tests", "command:tests"), checks=[other, third]))
    assert [(each.id, each.run) for each in merged.checks if isinstance(each, RunCheck)] == [
        ("tests", "make test"),
        ("command:tests", "tests"),
        ("command:command:tests", "command:tests"),
    ]


def test_evidence_that_the_node_only_names_is_not_given_by_a_check_of_the_command() -> None:
    nodes = promise(
        criterion("works", "x"),
        requiredEvidence=["required"],
        doneWhen=[
            {"type": "evidence-present", "target": "present"},
            {"type": "acceptance-met", "target": "works"},
            {"type": "gate-passed", "target": "post-act"},
        ],
    )
    names = ["required", "present", "works", "post-act"]
    checks = [{"id": name, "kind": "run", "run": "true"} for name in names]
    merged = merge_promises(nodes, promise(criterion("present", "x"), criterion("post-act", "x"), checks=checks))
    # What the node calls a criterion or a checkpoint is not evidence, and the other way round.
    assert [each.id for each in merged.checks] == ["command:required", "command:present", "works", "post-act"]
    assert [each.id for each in merged.acceptance] == ["works", "present", "post-act"]
    good = [seen("x"), seen("command:required"), seen("command:present")]
    verdict = decide(merged, good, [gate("post-act", allowed=True)])
    assert (verdict.missing, verdict.blockers) == (("required",), ("evidence 'present' is not there",))


def test_a_command_that_repeats_the_nodes_promise_adds_nothing() -> None:
    assert merge_promises(TESTED, TESTED) == TESTED


def test_a_promise_that_nothing_fulfils_is_not_saved_by_a_command() -> None:
    for hopeless in (promise(), promise(criterion("works")), promise(requiredEvidence=["tests"])):
        assert merge_promises(hopeless, TESTED) == hopeless


@pytest.mark.parametrize(
    ("nodes", "commands", "allowed", "forbidden"),
    [
        ([], ["src/**"], ["src/**"], []),
        (["src/**"], [], ["src/**"], []),
        (["src/a/**"], ["src/**"], ["src/a/**"], []),
        (["**"], ["src/*.py", "docs/**"], ["src/*.py", "docs/**"], []),
        (["src/**"], ["docs/**"], ["src/**"], ["**"]),
        (["src/**"], ["source/x"], ["src/**"], ["**"]),
        (["s*/**"], ["src/**"], ["s*/**"], ["**"]),
        (["src/**", "!src/secret/**"], ["src/**"], ["src/**", "!src/secret/**"], []),
        (["src/**"], ["src/**", "!src/secret/**"], ["src/**", "!src/secret/**"], []),
        (["src/**"], ["!src/secret/**"], ["src/**"], ["**"]),
        (["!src/secret/**"], ["**"], ["!src/secret/**"], ["**"]),
        (["*.py", "docs/**"], ["*.py"], ["*.py"], []),
        (["s*/**"], ["s*/a/"], ["s*/a/"], []),
        (["src/**"], ["src/"], ["src/**"], ["**"]),
    ],
)
def test_a_scope_can_only_become_narrower(
    nodes: list[str], commands: list[str], allowed: list[str], forbidden: list[str]
) -> None:
    own, added = (promise(criterion("works", "x"), allowedScope=globs) for globs in (nodes, commands))
    merged = merge_promises(own, added)
    assert (list(merged.allowed_scope), list(merged.disallowed_scope)) == (allowed, forbidden)


def test_a_folder_of_the_same_name_elsewhere_is_not_opened_by_a_command() -> None:
    merged = merge_promises(*(promise(criterion("works", "x"), allowedScope=[glob]) for glob in ("src/**", "src/")))
    assert not scope.make_scope(merged.allowed_scope, merged.disallowed_scope).permits("vendor/src/a.py")


@pytest.mark.parametrize(
    ("nodes", "commands", "forbidden"),
    [
        (["ci/**"], ["ci/**", "!ci/docs/**"], ["ci/**"]),
        (["ci/**"], ["src/**", "!ci/**"], ["ci/**", "src/**"]),
        (["ci/**", "!ci/docs/**"], ["ci/**"], ["!ci/docs/**", "ci/**"]),
        ([], ["src/**", "!src/a/**"], ["src/**"]),
    ],
)
def test_what_either_side_forbids_stays_forbidden(nodes: list[str], commands: list[str], forbidden: list[str]) -> None:
    own, added = (promise(criterion("works", "x"), disallowedScope=globs) for globs in (nodes, commands))
    assert list(merge_promises(own, added).disallowed_scope) == forbidden


PATHS = ["a.py", "src/x.py", "src/a/b.py", "src/a/src/c", "docs/src/d.py", "docs/s/e", "s/f.py", "vendor/src/g.py"]


@given(made, made)
def test_a_command_opens_no_path_that_the_node_keeps_shut(
    nodes: CompletionPromise, commands: CompletionPromise
) -> None:
    merged = merge_promises(nodes, commands)
    before, after = (scope.make_scope(each.allowed_scope, each.disallowed_scope) for each in (nodes, merged))
    assert set(before.find_breaches(PATHS)) <= set(after.find_breaches(PATHS))


def test_a_limit_that_only_the_command_sets_holds() -> None:
    merged = merge_promises(TESTED, promise(criterion("works", "tests"), budget={"tokens": 5}))
    assert merged.budget is not None
    assert merged.budget.as_json() == {"tokens": 5}


def renamed(evidence: list[Evidence]) -> list[Evidence]:
    """The same evidence under the names that a command's checks get, too."""
    return [*evidence, *(replace(each, id=f"command:{each.id}") for each in evidence)]


@given(made, made, several, decisions, st.booleans())
def test_what_a_command_adds_never_makes_done_what_was_not(
    nodes: CompletionPromise,
    commands: CompletionPromise,
    evidence: list[Evidence],
    gates: list[GateResult],
    confirmed: bool,
) -> None:
    merged = merge_promises(nodes, commands)
    if decide(merged, renamed(evidence), gates, confirmed=confirmed).fulfilled:
        assert decide(nodes, evidence, gates, confirmed=confirmed).fulfilled


@given(made, made)
def test_nothing_of_the_nodes_promise_is_lost(nodes: CompletionPromise, commands: CompletionPromise) -> None:
    merged = merge_promises(nodes, commands)
    for name in ("acceptance", "required_evidence", "done_when", "abort_when", "checks", "disallowed_scope"):
        theirs = list(dict.fromkeys(nodes.required_evidence)) if name == "required_evidence" else getattr(nodes, name)
        assert all(each in getattr(merged, name) for each in theirs)
    assert not nodes.allowed_scope or merged.allowed_scope
    if nodes.budget:
        assert merged.budget is not None
        for limit, value in nodes.budget.as_json().items():
            assert merged.budget.as_json()[limit] <= value
    assert CompletionPromise.read(merged.as_json()) == merged
    assert merge_promises(merged, commands) == merged


def test_evidence_that_the_engine_sees_is_described_and_a_check_that_was_added_keeps_its_own_words() -> None:
    assert "report.md" in done.describe_evidence("output:report.md")
    assert done.describe_evidence("kept:one/adds", "It still adds.") == "It still adds."
