"""How far somebody has come in the ledgers, and what a fact is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules import news

boards = st.sampled_from(["default", "_mail", "_toolchain", "shop-2.x"])


@given(st.dictionaries(boards, st.integers(0, 10**15)))
def test_a_position_is_read_as_it_was_written(position: dict[str, int]) -> None:
    assert news.cursor(news.written(position)) == position


@given(st.text(st.sampled_from("default:,0123٣-./\n\0"), max_size=200))
def test_anything_else_is_no_position_and_no_error(text: str) -> None:
    assert all(number >= 0 for number in news.cursor(text).values())


@pytest.mark.parametrize(
    "text", ["", "default", "default:", "default:-1", "default:x", "../x:1", f"default:{'9' * 18}", "default:٣"]
)
def test_what_is_no_position_is_left_out(text: str) -> None:
    assert news.cursor(text) == {}


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
    assert news.plan_of(subject, told) == expected
