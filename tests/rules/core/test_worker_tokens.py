"""Tokens that workers sign themselves."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core import worker_tokens
from agenttalk.rules.core.worker_tokens import LIFETIME, make_claims, make_worker_token, read_worker_token

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


def test_a_token_is_read_as_it_was_made_and_is_good_for_its_time() -> None:
    part, signed = make_claims("w1", NOW)
    found = read_worker_token(make_worker_token(part, b"signature"))
    assert found is not None
    assert (found.worker, found.signed, found.signature) == ("w1", signed, b"signature")
    assert found.is_current(NOW)
    assert not found.is_current(NOW + LIFETIME)
    assert not found.is_current(NOW - LIFETIME - timedelta(seconds=1))  # a clock that is far ahead made it


def test_the_id_of_a_worker_is_that_of_its_key() -> None:
    assert worker_tokens.worker_id("a" * 43) == worker_tokens.worker_id("a" * 43) != worker_tokens.worker_id("b" * 43)


def told(claims: str) -> str:
    return f"wrk_{base64.urlsafe_b64encode(claims.encode()).decode().rstrip('=')}.c2ln"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "wrk_",
        "wrk_.",
        "wrk_é.c2ln",
        "agt_abc.c2ln",
        "wrk_!!.c2ln",
        f"wrk_{'a' * 2000}.c2ln",
        told("[1]"),
        told('{"worker":"w1"}'),
        told('{"until":1,"worker":"w1"}'),
        told('{"until":"2026-11-19T12:00:00Z","worker":"../w"}'),
        told('{"until":"yesterday","worker":"w1"}'),
    ],
)
def test_anything_else_is_no_token(text: str) -> None:
    assert read_worker_token(text) is None


@given(st.text(max_size=60))
def test_nothing_that_comes_makes_it_fail(text: str) -> None:
    read_worker_token(text)
    read_worker_token(f"wrk_{text}.{text}")
