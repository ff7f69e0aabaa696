"""Which comment answers which question."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.forge import Comment, ForgeUser, Review
from agenttalk.rules.toolchain import comment_threads
from agenttalk.rules.toolchain.comment_threads import ThreadQuestion
from agenttalk.rules.toolchain.mentions import Marker, write_marker

DEV = ForgeUser(source="work", login="Agent-Dev", id=7)
ANN = ForgeUser(source="work", login="ann", id=8)
MINE = write_marker(Marker("tc-1", 0))
OTHER = write_marker(Marker("tc-2", 0))
ENGINE = write_marker(Marker("tc-1", 0, by_engine=True))


def at(second: int) -> str:
    return f"2026-05-01T10:00:{second:02}Z"


def said(second: int, body: str = "Yes.", who: ForgeUser = DEV) -> Comment:
    return Comment(id=second, author=who, body=body, created_at=at(second))


def asked(second: int, body: str = "@agent-dev why?") -> Comment:
    return said(second, body, ANN)


@pytest.mark.mends("E11")
@pytest.mark.parametrize(
    ("comments", "answer"),
    [
        ([], []),
        ([asked(5), said(6)], [6]),
        ([said(4), asked(5)], []),
        ([asked(5), asked(6), said(7)], []),  # it answers the last one
        ([asked(5), asked(6), said(7), said(8)], [8]),
        ([asked(5), said(6), asked(7)], [6]),
        ([asked(5), asked(6), said(7, f"Yes. {MINE}")], [7]),
        ([asked(5), said(6, f"Yes.\n{OTHER}")], []),
        ([asked(5), said(6, f"Yes.\n{OTHER}"), said(7)], [7]),
        ([asked(5), asked(6), said(7, f"Yes.\n{OTHER}"), said(8)], [8]),
        ([asked(5), said(6, f"@agent-dev not done\n{ENGINE}")], []),
        ([asked(5), asked(6, f"@agent-dev not done\n{ENGINE}"), said(7)], [7]),
        ([asked(5), asked(6, "@agent-dev fyi: it is late"), said(7)], [7]),
        ([asked(5), asked(6, "so it is"), said(7)], [7]),
        ([asked(1), asked(5), said(7)], [7]),  # an old question takes nothing from a new one
    ],
)
def test_a_comment_answers_one_question(comments: list[Comment], answer: list[int]) -> None:
    question = ThreadQuestion(DEV, "tc-1", at(5), 5)
    assert [each.id for each in comment_threads.find_answers(question, comments)] == answer


def test_a_question_of_several_points_takes_as_many_answers_and_later_reviews_theirs() -> None:
    def review(second: int, who: ForgeUser = ANN, verdict: Any = "COMMENT") -> Review:
        return Review(verdict=verdict, author=who, submitted_at=at(second))

    question = ThreadQuestion(DEV, "tc-1", at(5), points=2)
    comments = [said(6), said(8), said(9)]
    assert [each.id for each in comment_threads.find_answers(question, comments)] == [6, 8]
    later = [review(5), review(7), review(7, DEV), review(7, verdict="APPROVED")]
    assert [each.id for each in comment_threads.find_answers(question, comments, later)] == [6, 9]


@pytest.mark.parametrize(
    ("url", "number"),
    [
        ("https://git.example.test/a/b/issues/1#issuecomment-12", 12),
        ("https://git.example.test/a/b/issues/1", 0),
        ("https://git.example.test/#issuecomment-12x", 0),
        (None, 0),
    ],
)
def test_an_address_names_the_comment_that_it_leads_to(url: object, number: int) -> None:
    assert comment_threads.find_comment_number(url) == number


def test_without_a_number_of_the_question_those_of_the_same_second_are_the_question() -> None:
    question = ThreadQuestion(DEV, "tc-1", at(5))
    assert [each.id for each in comment_threads.find_answers(question, [asked(5), said(6)])] == [6]
    assert [each.id for each in comment_threads.find_answers(question, [asked(5), asked(6), said(7)])] == []
