"""How far somebody has come in the ledgers, and what a fact is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.operation import feed

boards = st.sampled_from(["default", "_mail", "_toolchain", "shop-2.x"])


@given(st.dictionaries(boards, st.integers(0, 10**15)))
def test_a_position_is_read_as_it_was_written(position: dict[str, int]) -> None:
    assert feed.decode_cursor(feed.encode_cursor(position)) == position


@given(st.text(st.sampled_from("default:,0123٣-./\n\0"), max_size=200))
def test_anything_else_is_no_position_and_no_error(text: str) -> None:
    assert all(number >= 0 for number in feed.decode_cursor(text).values())


@pytest.mark.parametrize(
    "text", ["", "default", "default:", "default:-1", "default:x", "../x:1", f"default:{'9' * 18}", "default:٣"]
)
def test_what_is_no_position_is_left_out(text: str) -> None:
    assert feed.decode_cursor(text) == {}


@pytest.mark.parametrize(
    ("subject", "told", "expected"),
    [
        ("shop", None, "shop"),
        ("shop/build", None, "shop"),
        ("deliveries/shop", None, "shop"),
        ("rework/shop/build", None, "shop"),
        ("req_1", "shop", "shop"),
        ("req_1", 7, "req_1"),
        ("req_1", "", "req_1"),
    ],
)
def test_the_plan_that_a_fact_is_about(subject: str, told: object, expected: str) -> None:
    assert feed.plan_of(subject, told) == expected


@pytest.mark.parametrize(
    ("kind", "subject", "body", "expected"),
    [
        ("task.moved", "shop/build", {"state": "SKIPPED"}, ("build",)),
        ("task.moved", "shop", None, ()),
        ("task.moved", "shop/build/more", None, ()),
        (
            "turn.ended",
            "deliveries/shop",
            {"ack": {"task_id": "build"}, "lines": [{"task_id": "test"}]},
            ("build", "test"),
        ),
        ("turn.started", "deliveries/shop", {"lines": [{"task_id": "a"}, {"task_id": "a"}, 7, {}]}, ("a",)),
        ("commands.queued", "deliveries/shop", {"lines": [{"task_id": "a"}, {"task_id": "b"}]}, ("a", "b")),
        ("delivery", "deliveries/shop", {"task_id": "a", "lines": "none", "ack": None}, ("a",)),
        ("delivery", "deliveries/shop", {"task_id": 7}, ()),
        ("turn.ended", "deliveries/shop", None, ()),
        ("task.retried", "shop/build", {"task_id": "build"}, ()),
        ("plan.ended", "shop", {"task_id": "build"}, ()),
    ],
)
def test_the_tasks_that_name_all_that_a_fact_changed(
    kind: str, subject: str, body: object, expected: tuple[str, ...]
) -> None:
    assert feed.tasks_of(kind, subject, body) == expected


@given(st.text(max_size=20), st.recursive(st.none() | st.text(max_size=5), lambda each: st.lists(each) | st.dictionaries(
    st.sampled_from(["lines", "ack", "task_id"]), each)))  # fmt: skip
def test_whatever_a_fact_holds_names_are_texts(subject: str, body: object) -> None:
    for kind in ("turn.ended", "task.moved"):
        assert all(isinstance(each, str) and each for each in feed.tasks_of(kind, subject, body))
