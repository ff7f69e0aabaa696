"""Values that are taken as they are given are those that typer would have made of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from hypothesis import given as cases
from hypothesis import strategies as st
from typer.exceptions import TyperException

from agenttalk.doors.cli.core import option_values

Given = list[Any]


def made(seen: Given) -> Any:
    """A command with a parameter of every kind that ours have."""
    app = typer.Typer(add_completion=False)

    @app.command()
    def call(
        name: Annotated[str, typer.Argument()],
        more: Annotated[list[str] | None, typer.Argument()] = None,
        text: Annotated[str, typer.Option()] = "usual",
        path: Annotated[Path | None, typer.Option(envvar="GIVEN_PATH")] = None,
        each: Annotated[list[str] | None, typer.Option()] = None,
        number: Annotated[int, typer.Option(min=1)] = 7,
        way: Annotated[Literal["en", "zh"] | None, typer.Option()] = None,
        odd: Annotated[str | None, typer.Option(parser=str.upper)] = None,
        loud: Annotated[bool, typer.Option("--loud")] = False,  # noqa: FBT002 - as commands have it
    ) -> None:
        seen.append((name, more, text, path, each, number, way, odd, loud))

    return typer.main.get_command(app)


def outcome(arguments: list[str], change: Callable[[Any], None]) -> tuple[Given, str]:
    """What a command got, or what it said."""
    seen: Given = []
    command = made(seen)
    change(command)
    try:
        command.main(arguments, prog_name="call", standalone_mode=False)
    except TyperException as error:
        return seen, error.format_message()
    return seen, ""


VALUES = st.sampled_from(["", "a", "-", "7", "0", "x y", "ü", "/", "/nowhere/at all", ".", "en", "de"])
OPTIONS = st.tuples(st.sampled_from(["--text", "--path", "--each", "--number", "--way", "--odd"]), VALUES)


@cases(st.lists(VALUES, max_size=3), st.lists(OPTIONS, max_size=4), st.booleans())
def test_whatever_is_given_comes_to_the_same(names: list[str], options: list[tuple[str, str]], loud: bool) -> None:
    arguments = [part for option in options for part in option] + ["--loud"] * loud + ["--", *names]
    assert outcome(arguments, option_values.accept_plain_values) == outcome(arguments, lambda _: None)


def test_a_path_out_of_the_environment_is_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIVEN_PATH", "/tmp/somewhere")
    [[seen], _] = outcome(["a"], option_values.accept_plain_values)
    assert seen[3] == Path("/tmp/somewhere")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_path_that_cannot_be_read_is_refused_in_the_usual_words(tmp_path: Path) -> None:
    (tmp_path / "own").touch(0o000)
    arguments = ["a", "--path", str(tmp_path / "own")]
    assert outcome(arguments, option_values.accept_plain_values) == outcome(arguments, lambda _: None)
    assert "not readable" in outcome(arguments, option_values.accept_plain_values)[1]


def test_nothing_looks_at_what_is_plainly_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "typer._adapters", None)  # whoever looks needs it
    seen, said = outcome(
        ["a", "b", "--path", "/", "--each", "c", "--text", "d", "--loud"], option_values.accept_plain_values
    )
    assert (seen, said) == ([("a", ["b"], "d", Path("/"), ["c"], 7, None, None, True)], "")
