"""What a change touches, whose merge broke a check, and what that one has to keep from then on."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.promise import AnyCheck, CompletionPromise
from agenttalk.rules.proof import done, evidence, staleness
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.evidence import Fingerprint
from agenttalk.rules.proof.staleness import BreakingCommit, CommitProbe, EvidenceBasis, InheritedCheck

CHECK: TypeAdapter[Any] = TypeAdapter(AnyCheck)
GLOBS = ("src/**", "docs/**", "*.toml")
HASHES = st.sampled_from(["h1", "h2", "h3"])
MAPS = st.dictionaries(st.sampled_from(["a", "b", "c"]), HASHES)


def check(kind: str = "run", **keys: Any) -> Any:
    own = {"run": {"run": "make"}, "file": {"path": "a"}, "http": {"url": "http://x"}, "human": {"question": "?"}}
    return CHECK.validate_python({"id": "it", "kind": kind, **own[kind], **keys})


def rests_on(about: Any, **keys: Any) -> Fingerprint:
    return Fingerprint(check=evidence.to_relevant_json(about), **keys)


@given(st.data())
def test_evidence_is_stale_exactly_when_something_that_it_covers_changed(data: st.DataObject) -> None:
    covers = data.draw(st.lists(st.sampled_from(GLOBS), unique=True))
    before, now = [data.draw(st.fixed_dictionaries(dict.fromkeys(GLOBS, HASHES))) for _ in range(2)]
    trees = [data.draw(HASHES) for _ in range(2)]
    files, inputs = [(data.draw(MAPS), data.draw(MAPS)) for _ in range(2)]
    about = check(covers=covers or None)
    kept = rests_on(
        about, tree=trees[0], covered={glob: before[glob] for glob in covers}, files=files[0], inputs=inputs[0]
    )
    expected = {glob for glob in covers if before[glob] != now[glob]} if covers else set()
    expected |= {"the tree"} if not covers and trees[0] != trees[1] else set()
    expected |= {name for name in files[0] if files[0][name] != files[1].get(name)}
    expected |= {name for name in inputs[0] if inputs[0][name] != inputs[1].get(name)}
    assert set(staleness.find_changes(kept, about, EvidenceBasis(trees[1], now, files[1], inputs[1]))) == expected


def test_another_check_is_no_longer_the_one_that_passed() -> None:
    kept = rests_on(check(), tree="t")
    assert staleness.find_changes(kept, check(run="make all"), EvidenceBasis("t")) == ("the check itself",)
    assert staleness.find_changes(kept, check(red_first="off", minTrust="executed"), EvidenceBasis("t")) == ()


def test_what_is_covered_and_was_never_hashed_counts_as_changed() -> None:
    about = check(covers=["src/**"])
    assert staleness.find_changes(rests_on(about, tree="t"), about, EvidenceBasis("t", {"src/**": "h"})) == ("src/**",)


@pytest.mark.parametrize(
    ("about", "stale"),
    [
        (check("file"), True),
        (check("http"), False),
        (check("http", covers=["src/**"]), True),
        (check("human"), False),
        (check("human", covers=["src/**"]), False),
    ],
)
def test_only_what_can_be_looked_at_again_without_the_turn_becomes_stale(about: Any, *, stale: bool) -> None:
    kept = rests_on(about, tree="t", covered={"src/**": "h1"})
    assert bool(staleness.find_changes(kept, about, EvidenceBasis("u", {"src/**": "h2"}))) is stale


def search(commits: list[str], stands: dict[str, bool | None]) -> tuple[BreakingCommit, int]:
    """Look wherever it says, and count the looks."""
    seen: dict[str, bool | None] = {}
    while isinstance(step := staleness.search_breaking_commit(commits, seen), CommitProbe):
        assert step.commit not in seen
        seen[step.commit] = stands[step.commit]
    return step, len(seen)


@given(st.integers(1, 200), st.data())
def test_the_first_red_merge_is_found_for_every_place_where_it_turned_red(count: int, data: st.DataObject) -> None:
    commits = [f"c{number}" for number in range(count)]
    first = data.draw(st.integers(0, count - 1))
    found, looks = search(commits, {commit: number < first for number, commit in enumerate(commits)})
    assert found == BreakingCommit(f"c{first}")
    assert looks <= math.ceil(math.log2(count)) + 1


@given(st.lists(st.sampled_from([True, False, None]), max_size=60))
def test_the_search_ends_at_a_red_merge_whatever_it_meets(pattern: list[bool | None]) -> None:
    stands = {f"c{number}": each for number, each in enumerate([*pattern, False])}
    commits = list(stands)
    found, _ = search(commits, stands)
    assert found.commit is not None
    at = commits.index(found.commit)
    assert stands[found.commit] is False
    before = next((number for number in reversed(range(at)) if stands[commits[number]] is not None), -1)
    assert before == -1 or stands[commits[before]]
    assert found.unsure is (at - before > 1)


def test_where_nothing_was_merged_no_merge_is_the_cause() -> None:
    assert staleness.search_breaking_commit([], {}) == BreakingCommit(None)


@pytest.mark.parametrize(
    ("merged", "states", "who"),
    [
        ("two", {"one": "COMPLETED", "two": "COMPLETED"}, "two"),
        ("two", {"one": "COMPLETED", "two": "FAILED"}, "one"),
        ("gone", {"one": "COMPLETED"}, "one"),
        (None, {"one": "COMPLETED"}, "one"),
        ("one", {"one": "COMPLETED"}, "one"),
        ("two", {"one": "FAILED", "two": "SKIPPED"}, "three"),
    ],
)
def test_whose_merge_broke_it_mends_it_and_else_its_owner(merged: str | None, states: Any, who: str) -> None:
    assert staleness.choose_mender(merged, "one", "three", states) == who


def promise(**keys: Any) -> CompletionPromise:
    said = {
        "id": "cp-1-0000",
        "objective": "It works",
        "acceptance": [{"id": "c", "description": "it does", "evidenceRequired": ["it"]}],
        "checks": [check().as_json()],
        **keys,
    }
    return CompletionPromise.model_validate(said)


def proof(name: str, *, passed: bool = True) -> Evidence:
    return Evidence(name, passed, True, "executed", "engine", "now")


def test_who_broke_a_check_is_done_only_when_it_passes_again() -> None:
    own = promise(abortWhen=[{"type": "unsafe"}], allowedScope=["src/**"])
    kept = staleness.add_inherited_checks(own, [InheritedCheck("one", check(run="make other", red_first="required"))])
    assert not done.decide(kept, [proof("it")], ()).fulfilled
    assert not done.decide(kept, [proof("it"), proof("one/it", passed=False)], ()).fulfilled
    assert done.decide(kept, [proof("it"), proof("one/it")], ()).fulfilled
    assert (kept.abort_when, kept.allowed_scope, kept.done_when) == (own.abort_when, own.allowed_scope, own.done_when)
    assert [(each.id, each.red_first) for each in kept.checks] == [("it", "record"), ("one/it", "off")]


def test_without_checks_of_others_a_promise_stays_as_it_is() -> None:
    own = promise()
    assert staleness.add_inherited_checks(own, []) is own


PROVEN = {"objective": "o", "acceptance": [{"id": "c", "description": "d", "evidenceRequired": ["it"]}]}


@pytest.mark.parametrize(
    ("node", "manifest", "closes"),
    [
        ({}, {}, False),
        ({"promise": {"id": "cp-1-0000", **PROVEN}}, {}, False),
        ({"promise": {"id": "cp-1-0000", **PROVEN, "checks": [check().as_json()]}}, {}, True),
        ({}, {"workspace": {"repo": "."}}, True),
        ({}, {"policies": {"release_gates_required": ["build"]}}, True),
    ],
)
def test_only_a_plan_that_proves_or_ships_something_closes(node: Any, manifest: Any, *, closes: bool) -> None:
    task = {"task_id": "t", "assigned_agent_id": "a", **node}
    dag = TaskDag.from_json({"schema_version": "1.1", "plan_id": "p", "nodes": [task]})
    assert (
        staleness.needs_final_check(dag, PlanManifest.from_json({"schema_version": "1.0", "plan_id": "p", **manifest}))
        is closes
    )
