"""The harness finds the bugs that make a crash lose or double something, and says where."""

from __future__ import annotations

import pytest

from crash.harness import Harness

pytestmark = pytest.mark.rest


def _found(crash: Harness, bug: str, scenario: str, *boundaries: str) -> dict[str, list[str]]:
    """What is wrong after deaths at boundaries of these kinds, by where it died; empty when nobody did."""
    names = [name for name in crash.boundaries(scenario, bug=bug) if name.startswith(boundaries)]
    assert names
    return crash.die_at(scenario, [[], *([name] for name in names)], bug=bug).failures


def _says(failures: dict[str, list[str]], text: str) -> list[str]:
    """The places after which this is said."""
    return [place for place, faults in failures.items() if any(text in fault for fault in faults)]


def test_an_acknowledgement_before_its_commit_is_found(crash: Harness) -> None:
    failures = _found(crash, "acknowledgement before commit", "writes", "commit:default")
    assert len(_says(failures, "was said and is lost")) >= 2
    assert all(place.startswith("commit:default") for place in failures)


def test_a_program_that_starts_before_the_commit_that_records_it_is_found(crash: Harness) -> None:
    failures = _found(crash, "effect before commit", "work", "a program", "a turn")
    assert "a turn is over #1" in _says(failures, "began before that was recorded")


def test_a_delivery_before_the_commit_that_records_it_is_found(crash: Harness) -> None:
    failures = _found(crash, "delivery before commit", "commands", "commit:default")
    assert _says(failures, "lies there before that was recorded")


def test_a_missing_check_of_the_epoch_is_found(crash: Harness) -> None:
    failures = _found(crash, "no epoch check", "stalled", "commit:default #2")
    assert "" in failures, "even when nobody dies, a turn that lost its lease is believed"


def test_a_turn_that_begins_before_the_end_of_the_last_is_committed_is_found(crash: Harness) -> None:
    commits = [[name] for name in crash.boundaries("course") if name.startswith("commit:default")]
    failures = crash.die_at("course", commits[:20], bug="turn before commit").failures
    assert len(_says(failures, "began before that was recorded")) >= 3


def test_a_program_that_starts_before_its_lease_is_committed_is_found(crash: Harness) -> None:
    failures = _found(crash, "turn before commit", "programs", "commit:default")
    assert _says(failures, "began before that was recorded")


def test_a_missing_check_at_the_end_of_a_turn_is_found(crash: Harness) -> None:
    failures = _found(crash, "no check at the end of a turn", "overtaken", "commit:default #2")
    assert "" in failures, "even when nobody dies, a turn that lost its lease is believed"


def test_a_process_that_outlives_its_turn_is_found(crash: Harness) -> None:
    failures = _found(crash, "process without keeper", "programs", "a turn is over")
    assert {"", "a turn is over #1"} <= set(_says(failures, "a process is left: sleep 60"))


def test_an_agent_that_is_asked_again_although_it_had_done_its_part_is_found(crash: Harness) -> None:
    failures = _found(crash, "verifying what is not kept", "proven", "mkdir workspaces/_outputs")
    assert len(_says(failures, "log: p/cmd_write")) >= 2


def test_a_broken_check_that_joins_a_promise_too_late_is_found(crash: Harness) -> None:
    failures = _found(crash, "joined after commit", "living", "commit:default #1", "commit:default #2")
    lost = _says(failures, "default.joined_checks: 1 missing")
    assert lost
    assert "" not in lost


def test_an_archive_that_is_not_part_of_the_decision_is_found(crash: Harness) -> None:
    # Both may come into one commit, which hides the bug.
    tries = (_found(crash, "archive after the decision", "shipped", "commit:default") for _ in range(4))
    failures = next((each for each in tries if _says(each, "app.md/app.md")), None)
    assert failures is not None
    assert "" not in failures


def test_a_text_that_is_posted_again_without_a_look_is_found(crash: Harness) -> None:
    failures = _found(crash, "posted without looking", "told", "commit:_toolchain")
    assert len(_says(failures, "posted 2 times")) >= 3
    assert "" not in failures


def test_a_branch_that_moves_before_the_commit_is_found(crash: Harness) -> None:
    failures = _found(crash, "branch before commit", "train", "moved refs")
    assert len(_says(failures, "the branch is not where the tip was, or is")) >= 2


def test_a_branch_that_does_not_follow_the_tip_is_found(crash: Harness) -> None:
    failures = _found(crash, "branch that does not follow", "train", "commit:default #1")
    assert "" in _says(failures, "the branch did not follow the tip")
