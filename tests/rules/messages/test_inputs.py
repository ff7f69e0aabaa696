"""Looking inputs up, waiting for them, and asking for help."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.command import Command
from agenttalk.rules.messages.inbox_inputs import InboxFiles, InputResolution, map_input_paths, next_step, resolve
from kits.samples import command

SHELF = InboxFiles(
    ["task_a/req/requirements.md", "task_b/fb/feedback_a.json", "task_b/fb/feedback_b.json", "local.txt"]
)
NOW = datetime(2026, 1, 31, tzinfo=UTC)


def order(**changes: Any) -> Command:
    return Command.from_json(command(**changes))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("requirements.md", ["task_a/req/requirements.md"]),
        ("req/requirements.md", ["task_a/req/requirements.md"]),
        ("task_a/req/requirements.md", ["task_a/req/requirements.md"]),
        ("local.txt", ["local.txt"]),
        ("feedback_*.json", ["task_b/fb/feedback_a.json", "task_b/fb/feedback_b.json"]),
        ("task_b/*/feedback_?.json", ["task_b/fb/feedback_a.json", "task_b/fb/feedback_b.json"]),
        ("quirements.md", []),
        ("eq/requirements.md", []),
        ("*.zip", []),
    ],
)
def test_inputs_are_found_by_name_path_or_glob(wanted: str, found: list[str]) -> None:
    assert list(SHELF.find(wanted)) == found


def test_required_inputs_that_are_not_there_are_missing() -> None:
    resolution = resolve(order(required_inputs=["requirements.md", "gone.md", "feedback_*.json", "gone.md"]), SHELF)
    assert resolution.missing == ("gone.md",)
    assert resolution.found["feedback_*.json"] == ("task_b/fb/feedback_a.json", "task_b/fb/feedback_b.json")


def test_resolved_inputs_win_and_optional_ones_are_never_missing() -> None:
    resolved = [
        {"input_name": "spec", "required": True, "paths": ["task_a/req/requirements.md", "task_a/req/gone.md"]},
        {"input_name": "extra", "required": False, "paths": ["nothing.md"]},
    ]
    resolution = resolve(order(required_inputs=["ignored.md"], resolved_inputs=resolved), SHELF)
    assert resolution.missing == ("task_a/req/gone.md",)
    assert resolution.found == {"spec": ("task_a/req/requirements.md",), "extra": ()}


@pytest.mark.parametrize(
    ("missing", "wait", "seconds", "step"),
    [
        ((), True, 10**6, "run"),
        (("a",), False, 10**6, "run"),
        (("a",), True, 0, "wait"),
        (("a",), True, 60, "wait"),
        (("a",), True, 61, "ask"),
        (("a",), True, -3600, "wait"),
    ],
)
def test_a_command_runs_waits_or_asks(missing: tuple[str, ...], wait: bool, seconds: int, step: str) -> None:
    since = NOW - timedelta(seconds=seconds)
    resolution = InputResolution({}, missing)
    assert next_step(order(wait_for_inputs=wait, timeout=60), resolution, waiting_since=since, now=NOW) == step


@given(st.integers(1, 2**53 - 1), st.integers(0, 10**8))
def test_no_timeout_however_long_breaks_the_clock(timeout: int, seconds: int) -> None:
    step = next_step(
        order(timeout=timeout), InputResolution({}, ("a",)), waiting_since=NOW - timedelta(seconds=seconds), now=NOW
    )
    assert step == ("ask" if seconds > timeout else "wait")


def test_files_lie_under_their_names_unless_they_are_in_each_others_way() -> None:
    assert map_input_paths(["a/x.md/x.md", "b/y/one/y.md"]) == {"a/x.md/x.md": "x.md", "b/y/one/y.md": "one/y.md"}
    for paths in (["a/x.md/x.md", "b/x.md/x.md"], ["a/x/one", "b/y/one/two"]):
        assert map_input_paths(paths) == {path: path for path in paths}
    assert map_input_paths(["feedback.json"]) == {"feedback.json": "feedback.json"}


_PARTS = st.sampled_from("abc")


@given(st.sets(st.lists(_PARTS, min_size=3, max_size=5).map("/".join), max_size=6))
def test_no_file_of_an_input_is_lost_to_another(paths: set[str]) -> None:
    files = {path for path in paths if not any(other.startswith(f"{path}/") for other in paths)}
    lies = map_input_paths(sorted(files))
    assert lies.keys() == files
    assert len(set(lies.values())) == len(files)
    assert not any(other.startswith(f"{place}/") for place in lies.values() for other in lies.values())
