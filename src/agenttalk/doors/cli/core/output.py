"""Prints the answers of commands: JSON for programs, text for people."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from agenttalk.doors.cli.core import markup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from agenttalk.contracts.errors import Problem
    from agenttalk.contracts.generation import Repair

RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="The root: the folder with agents/ and system_runtime/. Default: the root of the current folder.",
        envvar="AGENTTALK_ROOT",
    ),
]
SandboxOption = Annotated[
    Literal["best", "bubblewrap", "landlock", "plain"] | None,
    typer.Option("--sandbox", help="Sandbox for the programs of agents; plain: none, and every status says so."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """Options that every command takes, given before or after the command's name."""

    root: Path | None = None
    as_json: bool = False

    @staticmethod
    def merge(ctx: typer.Context, root: Path | None, as_json: bool) -> CommonOptions:  # noqa: FBT001 - options as given
        """Merge the options of a command with those before its name. Its own win."""
        before = ctx.obj if isinstance(ctx.obj, CommonOptions) else CommonOptions()
        return CommonOptions(root=root or before.root, as_json=as_json or before.as_json)


class CommandOutput:
    """Prints the answer of a command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._consoles: dict[bool, Console] = {}

    def console(self, *, err: bool = False) -> Console:
        """Return the console of a stream. Rich is loaded by the first call."""
        if err not in self._consoles:
            from rich.console import Console

            self._consoles[err] = Console(stderr=err, highlight=False, soft_wrap=True, emoji=False)
        return self._consoles[err]

    def write_json(self, value: object) -> None:
        """Write a JSON value to standard output, indented unless it is very large."""
        text = json.dumps(value, ensure_ascii=False, indent=2)
        # Indenting a very large document would push it over the limit for reading it again.
        sys.stdout.write((text if len(text) < 512 * 1024 else json.dumps(value, ensure_ascii=False)) + "\n")

    def write_json_line(self, value: object) -> None:
        """Write a JSON value to standard output as one line, and flush it for programs that read by lines."""
        sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
        sys.stdout.flush()

    @staticmethod
    def is_styled(*, err: bool = False) -> bool:
        """Return whether output is styled: on a terminal, or where the environment asks for it."""
        wanted = os.environ.get("TTY_COMPATIBLE") or os.environ.get("FORCE_COLOR")
        return bool(wanted) or (sys.stderr if err else sys.stdout).isatty()

    def say(self, text: str, *, err: bool = False) -> None:
        """Print a line of rich markup for people."""
        if self.is_styled(err=err):
            self.console(err=err).print(text)
        else:
            print(markup.strip_markup(text), file=sys.stderr if err else sys.stdout, flush=True)

    def error(self, code: str, message: str, hint: str = "") -> None:
        """Print an error and its hint to standard error (as JSON to standard output)."""
        if self.as_json:
            error = {"code": str(code), "message": message, "hint": hint}
            self.write_json({"ok": False, "error": error, "command": None, "errors": [{"field": "", **error}]})
        else:
            self._fault("[bold red]✗[/]", "", code, message, hint, err=True)

    def show_problems(self, problems: Iterable[Problem], *, warning: bool = False, err: bool = True) -> None:
        """Print each problem with its field, code and hint."""
        mark = "[yellow]![/]" if warning else "[bold red]✗[/]"
        for problem in problems:
            self._fault(mark, problem.field, problem.code, problem.message, problem.hint, err=err)

    def show_repairs(self, repairs: Iterable[Repair], *, err: bool = True) -> None:
        """Print the repairs of a command one by one, and plain defaults in one line."""
        defaults = []
        for repair in repairs:
            if repair.before is None and repair.why.endswith("the default"):
                defaults.append(f"{repair.field}={shorten_json(repair.after, 24)}")
            else:
                change = f"{shorten_json(repair.before, 30)} → {shorten_json(repair.after, 50)}"
                self.say(f"[yellow]~[/] [bold]{repair.field}[/]: {change}  [dim]{repair.why}[/]", err=err)
        if defaults:
            self.say(f"[yellow]~[/] defaults: [dim]{', '.join(defaults)}[/]", err=err)

    def _fault(self, mark: str, field: str, code: str, message: str, hint: str, *, err: bool) -> None:
        where = f"[bold]{sanitize(field)}[/]: " if field else ""
        self.say(f"{mark} {where}{sanitize(message)} [dim]\\[{code}][/]", err=err)
        if hint:
            self.say(f"  [cyan]→[/] {sanitize(hint)}", err=err)


def sanitize(text: object) -> str:
    """Escape text from outside: its markup, and control characters that would act on the terminal."""
    return markup.escape("".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in str(text)))


def sanitize_line(text: object) -> str:
    """Escape text from outside and keep it in one line, so that it cannot look like a line of ours."""
    return sanitize(" ".join(str(text).split()))


def summarize_lines(text: object, width: int = 160) -> str:
    """Escape the first and the last line of a text from outside, in about `width` characters."""
    lines = [" ".join(line.split()) for line in str(text).splitlines() if line.strip()]
    summary = f"{lines[0]} … {lines[-1]}" if len(lines) > 1 else "".join(lines)
    return sanitize(summary if len(summary) <= width else summary[: width - 1] + "…")


def shorten_json(value: Any, width: int = 60) -> str:
    """Return a value as JSON in at most `width` characters, safe to print."""
    text = json.dumps(value, ensure_ascii=False, default=lambda part: part.as_json())
    return sanitize(text if len(text) <= width else text[: width - 1] + "…")


def format_count(number: int, thing: str) -> str:
    """Return a number with its noun, in the singular or plural."""
    plural = f"{thing[:-1]}ies" if thing.endswith("y") and not thing.endswith(("ay", "ey", "oy")) else f"{thing}s"
    return f"{number:,} {thing if number == 1 else plural}"


PRINTED: Final = 8
"""How many of the last lines of a check's output are shown."""


def tell_check_output(out: CommandOutput, printed: str, margin: str) -> None:
    """Print the end of a check's output, and the names of the tests that failed."""
    from agenttalk.rules.core.failed_tests import find_failed_tests, last_lines

    lines = last_lines(printed, PRINTED)
    before = [name for name in find_failed_tests(printed) if not any(name in line for line in lines)]
    for name in before:
        out.say(f"{margin}[red]failed:[/] {sanitize_line(name)}")
    for line in lines:
        out.say(f"{margin}[dim]│[/] {sanitize(line[-200:])}")
