"""Which worker gets which task, when a worker is lost, and when it gets no more work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.worker import WorkerRole, WorkerState
from agenttalk.rules.core.task_states import TurnEnding
from agenttalk.rules.fleet.assignment import (
    Lack,
    MachineStart,
    WorkerNeeds,
    WorkerStanding,
    find_lacks,
    find_near_matches,
    needs_of,
    pick_offers,
)
from agenttalk.rules.fleet.liveness import (
    LeaseTiming,
    Liveness,
    WorkerContact,
    judge_contact,
    judge_liveness,
    must_stop,
)
from agenttalk.rules.fleet.quarantine import MOST_FAILURES, count_failures, is_quarantined
from agenttalk.rules.fleet.waiting import explain_wait

ABLE = WorkerStanding(
    "w1",
    "one",
    "agents",
    frozenset({"gpu"}),
    frozenset({"script", "cli"}),
    frozenset({"claude"}),
    frozenset({"landlock"}),
)
NAMES = st.sampled_from(["a", "b", "c"])
ROLES = st.sampled_from(get_args(WorkerRole))
STARTS = st.builds(MachineStart, NAMES, st.sampled_from(["", "s", "t", "u"]))
NEEDS = st.builds(
    WorkerNeeds,
    NAMES,
    st.frozensets(NAMES),
    st.sampled_from(["script", "cli"]),
    st.sampled_from(["", "claude"]),
    st.sampled_from(["plain", "landlock", "bubblewrap", "best"]),
    st.booleans(),
)
WORKERS = st.builds(
    WorkerStanding,
    st.uuids().map(str),
    NAMES,
    NAMES,
    st.frozensets(NAMES),
    st.frozensets(st.sampled_from(["script", "cli"])),
    st.frozensets(st.sampled_from(["claude"])),
    st.frozensets(st.sampled_from(["landlock", "bubblewrap"])),
    st.sampled_from(get_args(WorkerState)),
    st.sampled_from(get_args(Liveness)),
    st.booleans(),
    st.integers(0, 4),
)
CHECKS = st.builds(
    WorkerNeeds,
    st.just("verify"),
    role=st.sampled_from(["verifier", "verifier", "agents"]),
    avoided=st.frozensets(STARTS, max_size=2),
    answered=st.lists(st.tuples(NAMES, STARTS), max_size=1).map(tuple),
)
VERIFIERS = st.builds(
    WorkerStanding,
    st.uuids().map(str),
    NAMES,
    st.just("verify"),
    free=st.integers(0, 4),
    role=ROLES,
    public_key=NAMES,
    started=STARTS,
)


def profile(**keys: Any) -> AgentProfile:
    return AgentProfile.from_json({"schema_version": "1.0", "agent_id": "a", **keys})


def test_what_a_task_needs_stands_in_the_profile_of_its_agent() -> None:
    assert needs_of(profile(driver="script")) is None
    assert needs_of(profile(driver="script", pool="p", needs=["gpu"])) == WorkerNeeds("p", frozenset({"gpu"}))
    coded = needs_of(profile(driver="cli", cli="claude", pool="p", sandbox="bubblewrap"))
    assert coded == WorkerNeeds("p", frozenset(), "cli", "claude", "bubblewrap", isolated=True)
    assert needs_of(profile(driver="cli", cli={"agent": "custom", "argv": ["x"]}, pool="p")) == WorkerNeeds(
        "p", frozenset(), "cli"
    )


@pytest.mark.parametrize(
    ("needs", "worker", "lack"),
    [
        ({"labels": frozenset({"gpu", "big"})}, {}, Lack("label", "big")),
        ({"driver": "llm"}, {}, Lack("driver", "llm")),
        ({"driver": "cli", "program": "codex"}, {}, Lack("program", "codex")),
        ({"tier": "bubblewrap"}, {}, Lack("sandbox", "bubblewrap")),
        ({"isolated": True}, {"sandboxes": frozenset()}, Lack("sandbox", "best")),
        ({}, {"state": "draining"}, Lack("state", "draining")),
        ({}, {"paused": True}, Lack("state", "paused")),
        ({}, {"liveness": "suspect"}, Lack("silent", "suspect")),
        ({}, {"free": 0}, Lack("full", "0")),
        ({}, {"role": "verifier"}, Lack("role", "verifier")),
        ({"role": "verifier", "driver": "acp"}, {}, Lack("role", "agents")),
        (
            {"avoided": frozenset({MachineStart("a", "s")})},
            {"started": MachineStart("b", "s")},
            Lack("machine", "b"),
        ),
        ({"answered": (("key", MachineStart("a")),)}, {"public_key": "key"}, Lack("answered", "one")),
    ],
)
def test_each_thing_that_a_worker_lacks_is_named(needs: Any, worker: Any, lack: Lack) -> None:
    assert find_lacks(WorkerNeeds("agents", **needs), replace(ABLE, **worker)) == (lack,)


def test_a_worker_that_can_do_it_lacks_nothing() -> None:
    assert find_lacks(WorkerNeeds("agents", frozenset({"gpu"}), "cli", "claude", "landlock", isolated=True), ABLE) == ()
    assert find_lacks(WorkerNeeds("agents", tier="plain"), replace(ABLE, sandboxes=frozenset())) == ()


@given(st.lists(NEEDS, max_size=8), WORKERS)
def test_a_worker_is_offered_only_what_it_can_do_in_order_and_as_much_as_it_has_places(
    waiting: list[WorkerNeeds], worker: WorkerStanding
) -> None:
    picked = pick_offers(waiting, worker)
    able = [place for place, each in enumerate(waiting) if each.pool == worker.pool and find_lacks(each, worker) == ()]
    assert picked == able[: worker.free]
    if worker.state != "active" or worker.paused or worker.liveness != "online":
        assert picked == []


@given(st.lists(CHECKS, max_size=8), VERIFIERS)
def test_no_verifier_gets_what_an_agent_left_on_its_machine_nor_the_same_check_twice(
    waiting: list[WorkerNeeds], worker: WorkerStanding
) -> None:
    picked = pick_offers(waiting, worker)
    assert picked == [place for place, each in enumerate(waiting) if find_lacks(each, worker) == ()][: worker.free]
    for place in picked:
        needs = waiting[place]
        assert needs.role == worker.role
        assert not any(each.is_shared_with(worker.started) for each in needs.avoided)
        for key, machine in needs.answered:
            assert key != worker.public_key
            assert machine.machine != worker.started.machine
            assert not machine.is_shared_with(worker.started)


def test_a_verifier_gets_the_checks_that_wait_longest() -> None:
    needs, other = WorkerNeeds("verify", role="verifier"), WorkerNeeds("agents", role="verifier")
    able = replace(ABLE, pool="verify", role="verifier", free=2)
    assert pick_offers([other, needs, needs, needs], able) == [1, 2]


def test_a_machine_that_started_anew_is_clean_and_containers_under_one_kernel_are_one_machine() -> None:
    ran = MachineStart("host", "monday")
    assert ran.is_shared_with(MachineStart("host", "monday"))
    assert not ran.is_shared_with(MachineStart("host", "tuesday"))
    assert ran.is_shared_with(MachineStart("container", "monday"))
    assert ran.is_shared_with(MachineStart("host"))  # whether it started anew is not known
    assert not ran.is_shared_with(MachineStart("other"))


@given(NEEDS, st.lists(WORKERS, max_size=6))
def test_near_matches_are_of_the_pool_and_come_with_those_first_that_lack_least(
    needs: WorkerNeeds, workers: list[WorkerStanding]
) -> None:
    found = find_near_matches(needs, workers)
    assert sorted(each.worker.worker for each in found) == sorted(
        each.worker for each in workers if each.pool == needs.pool
    )
    assert [len(each.lacks) for each in found] == sorted(len(each.lacks) for each in found)


@given(st.floats(0.01, 1000), st.floats(0, 5000))
def test_a_worker_stops_before_its_attempts_are_lost_and_speaks_often_enough(ttl: float, silent: float) -> None:
    timing = LeaseTiming(ttl)
    assert timing.renew < timing.suspect < timing.ttl < timing.lost
    if judge_liveness(silent, timing) == "lost":
        assert must_stop(silent, timing)
    if not must_stop(silent, timing):
        assert judge_liveness(silent, timing) != "lost"


def test_the_standard_times_are_those_that_the_page_names() -> None:
    assert [judge_liveness(seconds) for seconds in (0, 14.9, 15, 44.9, 45)] == [
        "online", "online", "suspect", "suspect", "lost"
    ]  # fmt: skip
    assert not must_stop(29.9)
    assert must_stop(30.0)


@given(st.lists(st.sampled_from(get_args(TurnEnding)), max_size=30))
def test_only_failures_of_the_worker_in_a_row_quarantine_it(endings: list[TurnEnding]) -> None:
    failures = 0
    for how in endings:
        failures = count_failures(failures, how)
    tail = 0
    for how in reversed(endings):
        if how not in {"not_started", "lost"}:
            break
        tail += 1
    assert failures == tail
    assert is_quarantined(failures) == (tail >= MOST_FAILURES)


def test_why_a_task_waits_names_the_workers_that_lack_least() -> None:
    needs = WorkerNeeds("agents", frozenset({"tpu"}))
    assert "invite --pool agents" in explain_wait(needs, [])
    far = replace(ABLE, name="far", state="draining", free=0)
    told = explain_wait(needs, find_near_matches(needs, [far, ABLE]))
    assert told == (
        "no worker of the pool agents fits: one lacks the label 'tpu'; "
        "far lacks the label 'tpu', is draining, has 0 free places"
    )
    assert "'one'" in explain_wait(WorkerNeeds("agents"), find_near_matches(WorkerNeeds("agents"), [ABLE]))


def test_a_worker_is_judged_by_what_was_heard_of_it() -> None:
    contact, timing = WorkerContact(100.0, slots=3, busy=1), LeaseTiming(30.0)
    assert contact.free == 2
    assert judge_contact(None, 100.0, timing) == "lost"
    assert [judge_contact(contact, now, timing) for now in (100.0, 116.0, 150.0)] == ["online", "suspect", "lost"]
    assert judge_contact(contact._replace(hanging=1), 500.0, timing) == "online"


def test_why_a_check_waits_says_how_to_invite_a_verifier() -> None:
    needs = WorkerNeeds("verify", role="verifier", avoided=frozenset({MachineStart("a", "s")}))
    assert "invite --pool verify --role verifier" in explain_wait(needs, [])
    able = replace(ABLE, pool="verify", role="verifier", started=MachineStart("b", "t"))
    assert "a verifier of the pool verify is online" in explain_wait(needs, find_near_matches(needs, [able]))
    near = find_near_matches(needs, [replace(able, started=MachineStart("a", "s"))])
    assert explain_wait(needs, near) == (
        "no verifier of the pool verify may make its checks: "
        "one stands on the machine a, where this agent ran since that machine started"
    )
