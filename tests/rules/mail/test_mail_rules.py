"""Which letters are taken, what being done takes, when somebody is reminded, and by which words letters are found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.mail import Mail
from agenttalk.rules.mail import letters
from agenttalk.rules.mail.letters import AnsweredLetter, LetterObservation
from agenttalk.rules.proof import done

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = "2026-01-31T13:00:00Z"
THERE = frozenset({"dev", "pm"})


def letter(**changes: Any) -> Mail:
    said = {"message_id": "m1", "from": "pm", "to": ["dev"], "kind": "inform", "subject": "Hello", "body": "a body"}
    return Mail.from_json({"schema_version": "1.0", **said, **changes})


def codes(found: Mail, **known: Any) -> list[tuple[str, str]]:
    refused = letters.find_refusal(found, **{"agents": THERE, "now": NOW, **known})
    return [(str(each.code), each.field) for each in refused.problems] if refused else []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"to": ["dev", "operator"]}, []),
        ({"kind": "request", "deadline": LATER}, []),
        ({"subject": "你好，世界 \u202etxt"}, []),
        ({"body": "\x00\x1b[2J\u202e"}, []),
        ({"to": ["nobody", "dev", "nobody"]}, [("TARGET_AGENT_NOT_FOUND", "to")]),
        ({"to": ["engine", "system"]}, [("TARGET_AGENT_NOT_FOUND", "to")] * 2),
        ({"to": ["pm"]}, [("FIELD_VALUE", "to")]),
        ({"to": [f"a{number}" for number in range(101)]}, [("FIELD_VALUE", "to")] + [("TARGET_AGENT_NOT_FOUND", "to")] * 101),
        ({"subject": "two\nlines"}, [("FIELD_VALUE", "subject")]),
        ({"subject": "a\u2028b"}, [("FIELD_VALUE", "subject")]),
        ({"subject": "nul\x00"}, [("FIELD_VALUE", "subject")]),
        ({"subject": "x" * 501}, [("FIELD_VALUE", "subject")]),
        ({"body": " \n\t"}, [("FIELD_VALUE", "body")]),
        ({"message_id": "threads"}, [("FIELD_VALUE", "message_id")]),
        ({"deadline": LATER}, [("FIELD_VALUE", "deadline")]),
        ({"kind": "request", "deadline": "2026-01-31T12:00:00Z"}, [("FIELD_VALUE", "deadline")]),
        ({"in_reply_to": "gone"}, [("NAME_UNKNOWN", "in_reply_to")]),
    ],
)  # fmt: skip
def test_a_letter_is_taken_or_every_fault_of_it_is_named(changes: dict[str, Any], expected: list[Any]) -> None:
    assert codes(letter(**changes)) == expected


def test_only_who_wrote_or_got_a_letter_can_answer_it() -> None:
    answer = letter(in_reply_to="m0")
    assert codes(answer, answers=AnsweredLetter("pm", ("ops",), 0)) == []
    assert codes(answer, answers=AnsweredLetter("ops", ("dev", "pm"), 0)) == []
    assert codes(answer, answers=AnsweredLetter("ops", ("dev",), 0)) == [("NAME_UNKNOWN", "in_reply_to")]


def test_an_answer_goes_to_whoever_asked() -> None:
    asked = AnsweredLetter("ops", ("pm", "dev"), 0)
    assert letters.is_answer(letter(to=["dev", "ops"]), asked)
    assert not letters.is_answer(letter(to=["dev"]), asked)  # handed on
    assert not letters.is_answer(letter(to=["ops"]), AnsweredLetter("ops", ("dev",), 0))  # nobody asked it


def test_agents_cannot_write_requests_to_each_other_for_ever() -> None:
    request = letter(kind="request")
    assert codes(request, hop=3, hops=3) == []
    assert codes(request, hop=4, hops=3) == [("MAIL_HOPS_EXCEEDED", "kind")]
    assert codes(letter(), hop=4, hops=3) == []  # what nobody has to answer ends by itself
    assert letters.hop_of("dev", []) == 0
    assert letters.hop_of("dev", [2, 5]) == 6
    assert letters.hop_of("operator", [2, 5]) == 0


@pytest.mark.shows("A01", "A02")
@given(read=st.booleans(), replied=st.booleans(), kind=st.sampled_from(["inform", "request"]))
def test_reading_is_enough_for_a_notice_and_nothing_but_an_answer_for_a_request(
    read: bool, replied: bool, kind: letters.Kind
) -> None:
    seen = LetterObservation("dev", "2026" if read else None, "get" if read else None, "m2" if replied else None)
    verdict = done.decide(letters.make_promise(kind, "Hello"), letters.make_evidence(seen, "2026"), ())
    assert verdict.fulfilled == (read if kind == "inform" else replied)
    assert verdict.trust == ("observed" if verdict.fulfilled else None)


@given(within=st.integers(1, 10**6), remind=st.integers(1, 10**6), given_=st.none() | st.integers(1, 10**6))
def test_somebody_is_reminded_before_the_deadline(within: int, remind: int, given_: int | None) -> None:
    deadline = None if given_ is None else NOW + timedelta(seconds=given_)
    found = letters.compute_times(NOW, deadline, remind_after=remind, answer_within=within)
    assert found.deadline == (deadline or NOW + timedelta(seconds=within))
    assert NOW < found.remind_at < found.deadline
    assert found.remind_at <= NOW + timedelta(seconds=remind)
    assert letters.decide_due_action(found.deadline, found.remind_at, reminded=False) == "remind"
    assert letters.decide_due_action(found.deadline, found.remind_at, reminded=True) == "wait"
    assert letters.decide_due_action(found.deadline, found.deadline, reminded=True) == "fail"


def test_an_answer_has_the_subject_of_its_letter() -> None:
    assert letters.reply_subject("Hello") == "Re: Hello"
    assert letters.reply_subject("Re: Hello") == "Re: Hello"
    assert len(letters.reply_subject("x" * 500)) == 500


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("The Invoice of May", "invoice may", True),
        ("The Invoice of May", "invoice june", False),
        ("STRASSE", "straße", True),
        ("ｆｕｌｌ width", "full", True),
        ("请审查这个合并请求", "合并", True),
        ("请审查这个合并请求", "审查 合并请求", True),
        ("请审查这个合并请求", "审", True),
        ("请审查这个合并请求", "发布", False),
        ("v2发布", "v2", True),
        ("مرحبا بالعالم", "بالعالم", True),
        ("w" * 100, "w" * 90, True),
        ("a" * 20_001 + " tail", "tail", False),
    ],
)
def test_a_letter_is_found_by_its_words(text: str, query: str, found: bool) -> None:
    wanted = letters.split_query(query)
    assert wanted
    assert (set(wanted) <= letters.index_words(text)) == found


@given(st.text(max_size=30))
def test_every_letter_is_found_by_its_own_words(text: str) -> None:
    words = letters.index_words(text)
    assert set(letters.split_query(text)) <= words
    assert all(word and len(word) <= 64 for word in words)


def test_nothing_is_looked_for_by_signs_alone() -> None:
    assert letters.split_query("?! \x00 …") == []
