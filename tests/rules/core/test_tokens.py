"""Tokens of attempts: they say what they are for, and are told from everything else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core.tokens import TokenSubject, attempt_token, read_token, token_hash, token_id
from kits.samples import ids


@given(board=ids, plan=ids, task=ids, epoch=st.integers(0, 2**53 - 1))
def test_a_token_says_what_it_is_for(board: str, plan: str, task: str, epoch: int) -> None:
    token = attempt_token(board, plan, task, epoch, "s3cret")
    assert token.startswith("agt_")
    assert token.endswith(".s3cret")
    subject = read_token(token)
    assert subject == TokenSubject(board, plan, task, epoch)
    assert subject.task == (board, plan, task)


def packed(text: str) -> str:
    return "agt_" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=") + ".secret"


GOOD = '{"board":"b","epoch":1,"plan_id":"p","task_id":"t"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agt_",
        "agt_.secret",
        "agt_!!!.secret",
        "agt_e30",
        "agt_e30.",
        packed(GOOD)[4:],
        packed("nothing"),
        packed("[]"),
        packed("{}"),
        packed(GOOD.replace("1", '"1"')),
        packed(GOOD.replace("1", "true")),
        packed(GOOD.replace('"b"', '"../b"')),
        packed(GOOD.replace('"b"', "5")),
        packed(GOOD) + "é",
        packed(GOOD) + "x" * 3000,
    ],
)
def test_what_is_no_token_is_none(text: str) -> None:
    assert read_token(text) is None


@given(st.text(max_size=60))
def test_no_text_breaks_the_reading(text: str) -> None:
    assert read_token(text) is None or text.startswith("agt_")
    assert read_token(f"agt_{text}.x") is None or text.isascii()


def test_only_the_hash_of_the_whole_token_is_kept() -> None:
    first, second = (attempt_token("b", "p", "t", 1, secret) for secret in ("x", "y"))
    assert token_hash(first) != token_hash(second)
    assert len(token_hash(first)) == 64
    assert token_hash(first).startswith(token_id(first))
    assert len(token_id(first)) == 12
