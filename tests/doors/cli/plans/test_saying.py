"""What is said to people is the same whether or not somebody draws it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import markup as rich
from rich.console import Console
from rich.text import Text

from agenttalk.doors.cli.core import markup
from agenttalk.doors.cli.core.output import CommandOutput, sanitize

TEXTS = st.text(st.one_of(st.sampled_from("[]\\/#@ab=: "), st.characters(exclude_categories=["C", "Z"])), max_size=12)
PIECES = st.one_of(
    TEXTS.map(sanitize),
    TEXTS.map(lambda text: f"[bold red]{sanitize(text)}[/]"),
    st.sampled_from(["\\[CODE]", "[dim]\\[CODE][/]", "[1]", "[green]✓[/] ", "\\\\"]),
)


@given(TEXTS)
def test_a_text_is_escaped_as_rich_wants_it(text: str) -> None:
    assert markup.escape(text) == rich.escape(text)


@given(st.lists(PIECES, max_size=6).map("".join))
def test_a_markup_says_what_rich_would_show(said: str) -> None:
    assert markup.strip_markup(said) == Text.from_markup(said, emoji=False).plain


def test_codes_of_emoji_in_texts_stay_as_they_were_written(capsys: pytest.CaptureFixture[str]) -> None:
    out = CommandOutput(as_json=False)
    out.say("[bold]:warning:[/] said")
    assert capsys.readouterr().out == ":warning: said\n"
    shown = io.StringIO()
    console = out.console()
    assert isinstance(console, Console)
    console.file = shown
    console.print("[bold]:warning:[/] said")
    assert shown.getvalue() == ":warning: said\n"


@pytest.mark.parametrize("variable", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_who_wants_colours_gets_them_though_it_is_no_terminal(
    variable: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(variable, "1")
    CommandOutput(as_json=False).say("[bold]said[/]", err=True)
    assert capsys.readouterr().err == "\x1b[1msaid\x1b[0m\n"
