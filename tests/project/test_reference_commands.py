"""The page of all commands and options is written from the command line itself, and its sister page knows them all.

AGENTTALK_UPDATE_GOLDEN=1 writes it anew.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer

from agenttalk.doors.cli.main import COMMANDS
from project.test_reference import REFERENCE, check

EVERYWHERE = {"--root", "--json", "--help"}
INTRODUCTION = """# Every command and option

This page is generated from the code. [Command line](command-line.md) says what the commands are for, with examples. Every command
also takes `--root FOLDER`, `--json` and `--help`, which are explained [there](command-line.md#options-that-every-command-takes) and
not repeated here.
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    for name, (place, _) in COMMANDS.items():
        module, _, attribute = place.partition(":")
        yield from inner(name, typer.main.get_command(getattr(import_module(module), attribute or "app")))


def inner(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    if command.invoke_without_command:
        yield name, command
    for word, each in below.items():
        if not each.hidden:
            yield from inner(f"{name} {word}", each)


def options_page() -> str:
    parts = [INTRODUCTION]
    for name, command in commands():
        rows = [row for row in map(told, command.params) if row]
        parts += [f"## agenttalk {name}", "", *text_of(command)]
        if rows:
            parts += ["| argument, option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(parts)


def text_of(command: Any) -> list[str]:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return [line for each in paragraphs for line in (" ".join(each.split()).replace("<", "&lt;"), "")]


def told(parameter: Any) -> str:
    """A row on a parameter; nothing, if every command has it."""
    if set(parameter.opts) & EVERYWHERE or getattr(parameter, "hidden", False):
        return ""
    argument = parameter.param_type_name == "argument"
    metavar = parameter.metavar or ("" if getattr(parameter, "is_flag", False) else parameter.name.upper())
    names = metavar if argument else ", ".join([*parameter.opts, *parameter.secondary_opts])
    shown = names if argument or not metavar else f"{names} {metavar}"
    more = []
    if parameter.required:
        more.append("needed")
    if parameter.multiple or (argument and parameter.nargs == -1):
        more.append("repeatable")
    if not parameter.required and shows(parameter.default):
        more.append(f"default `{parameter.default}`")
    if parameter.envvar:
        more.append(f"or the variable `{parameter.envvar}`")
    said = " ".join((parameter.help or "").split()).replace("|", "\\|")
    return f"| `{shown}` | {said}{_added(more)} |"


def _added(more: list[str]) -> str:
    return f" ({', '.join(more)})" if more else ""


def shows(default: Any) -> bool:
    """Whether a default says anything."""
    return isinstance(default, str | int | float) and not isinstance(default, bool) and default != ""


def test_the_page_of_commands_and_options_is_up_to_date() -> None:
    check("options.md", options_page())


def test_every_argument_and_option_says_what_it_means() -> None:
    silent = [(name, each.name) for name, command in commands() for each in command.params if not each.help]
    assert silent == []


def test_every_command_says_what_it_does() -> None:
    assert [name for name, command in commands() if not command.help] == []


def test_the_page_with_examples_names_every_command() -> None:
    text = (REFERENCE / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"agenttalk {name}" not in text] == []
