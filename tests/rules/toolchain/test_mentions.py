"""Who is called in a text, what is wanted, and the marker of our own texts."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.toolchain.mentions import (
    Marker,
    detect_intent,
    find_added_names,
    find_names,
    read_marker,
    write_marker,
)


@pytest.mark.parametrize(
    "text",
    [
        "@agent-dev",
        "hello @agent-dev, look",
        "(@agent-dev)",
        "[@agent-dev] and **@agent-dev**!",
        "请@agent-dev看看",
        "麻烦 @Agent-Dev。",
        "- @agent-dev: yes",
        "- item\n\n    @agent-dev in the item",
        "text\n    @agent-dev is no code here",
        "`code` @agent-dev `code`",
        "``a ` b`` @agent-dev",
        "an open ` and @agent-dev",
        "> quoted\n\n@agent-dev",
        "```\ncode\n```\n@agent-dev",
        "~~~\n```\n~~~\n@agent-dev",
        "a < !-- @agent-dev",
        "<!-- hidden --> @agent-dev <!-- never closed",
        "🙂@agent-dev🙂",
        "@agent-dev.",
        "@agent-dev's work",
        "    code\n\ntext @agent-dev",
        "a `b\n\n@agent-dev` c",
    ],
)
def test_a_name_in_plain_text_is_called(text: str) -> None:
    assert find_names(text) == ("agent-dev",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent-dev",
        "bob@agent-dev.test",
        "bob@agent-dev",
        "`@agent-dev`",
        "`` `@agent-dev` ``",
        "`a\n@agent-dev\nb`",
        "```\n@agent-dev\n```",
        "```python\n@agent-dev",
        "````\n```\n@agent-dev\n````",
        "~~~\n@agent-dev\n~~~",
        "> @agent-dev said",
        ">> @agent-dev said",
        "   > @agent-dev said",
        "    @agent-dev",
        "text\n\n    @agent-dev\n    @agent-dev\n",
        "\t@agent-dev",
        "<!-- @agent-dev -->",
        "Thanks!\n\n<!-- @agent-dev delete it\n\nand @agent-dev that",
        "https://example.test/@agent-dev",
        "@agent-dev/team",
        "@agent-dev@example.test",
        "@@agent-dev",
        "@ agent-dev",
        "a=@agent-dev",
    ],
)
def test_code_quotes_addresses_and_hidden_texts_call_nobody(text: str) -> None:
    assert "agent-dev" not in find_names(text)


def test_each_name_is_called_once_and_in_lower_case() -> None:
    assert find_names("@B @a @b @A.b_c") == ("b", "a", "a.b_c")


def test_an_edit_calls_only_those_whom_the_text_did_not_call_before() -> None:
    assert find_added_names("@a", "@a @b") == ("b",)
    assert find_added_names("`@a`", "@a") == ("a",)
    assert find_added_names(None, "@a") == ()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("@a can you look?", "request"),
        ("@a please fix", "request"),
        ("@a 请处理", "request"),
        ("FYI @a, please fix", "request"),
        ("@a why is it red", "question"),
        ("@a 请问这是什么？", "question"),
        ("@a?", "question"),
        ("@a fyi", "fyi"),
        ("抄送 @a", "fyi"),
        ("@a done", "request"),
        ("@a fyi `please`", "fyi"),
    ],
)
def test_the_words_say_what_is_wanted_and_in_doubt_it_is_work(text: str, wanted: str) -> None:
    assert detect_intent(text) == wanted


def test_a_marker_is_read_as_it_was_written() -> None:
    for marker in (Marker("tc-1", 0), Marker("tc-1-2", 3), Marker("x", 12, by_engine=True)):
        assert read_marker(f"hello\n{write_marker(marker)}\nbye") == marker


def test_the_highest_marker_counts_and_quoted_or_broken_ones_do_not() -> None:
    one, two = write_marker(Marker("a", 1)), write_marker(Marker("b", 2))
    assert read_marker(f"{one}\n{two}\n{one}") == Marker("b", 2)
    assert read_marker(f"> {one}") is None
    assert read_marker("<!-- agenttalk:task=a hop=-1 -->") is None
    assert read_marker("agenttalk:task=") is None
    assert find_names(one) == ()


@given(st.text(alphabet="`~>@a-b \n\t<!-", max_size=200))
def test_no_text_is_too_strange(text: str) -> None:
    assert all(name == name.lower() for name in find_names(text))


def test_long_hostile_texts_take_no_long_time() -> None:
    started = time.process_time()
    for piece in ("`", "``a`", "<!--", "> ", "@a", "@" + "a" * 90, "```\n", "`" * 3 + "a" + "`" * 5, "- \n", "\n"):
        find_names(piece * (250_000 // len(piece)))
    assert time.process_time() - started < 20
