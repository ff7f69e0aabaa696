"""Every option of `until`, `do`, `prove` and `init` is driven by a test through the command line."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import typer.main

from agenttalk.doors.cli.changes.prove import prove_app
from agenttalk.doors.cli.changes.until import do_app, until_app
from agenttalk.doors.cli.operation.init import app as init_app

HERE = Path(__file__).parent
UNTIL = ("test_until.py", "test_links.py", "test_race.py", "test_pull_request_opening.py")
INIT = ("test_init.py", "test_init_plan.py", "test_init_removal.py")
FILES = {
    "until": (until_app, [HERE / name for name in UNTIL]),
    "do": (do_app, [HERE / "test_do.py"]),
    "prove": (prove_app, [*HERE.glob("test_prove*.py")]),
    "init": (init_app, [HERE.parent / "operation" / name for name in INIT]),
}


def list_options(app: typer.Typer) -> list[list[str]]:
    """The names of each option but those of all commands."""
    command: Any = typer.main.get_command(app)
    found = [[*each.opts, *each.secondary_opts] for each in command.params if each.param_type_name == "option"]
    return [names for names in found if not {"--help", "--json", "--root"} & set(names)]


def list_words(file: Path) -> set[str]:
    """The texts in a file of tests that could be arguments."""
    parsed = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {each.value for each in parsed if isinstance(each, ast.Constant) and isinstance(each.value, str)}


@pytest.mark.parametrize("command", FILES)
def test_every_option_has_a_test(command: str) -> None:
    app, files = FILES[command]
    options = list_options(app)
    assert len(options) > 3
    words = set().union(*(list_words(file) for file in files))
    assert [names for names in options if not words & set(names)] == []
