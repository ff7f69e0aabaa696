"""Prints the answers of commands: JSON for programs, text for people."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeVar
from unicodedata import east_asian_width

import typer

from agenttalk.doors.cli.core import markup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console

    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.contracts.errors import Problem
    from agenttalk.contracts.generation import Repair
    from agenttalk.rules.text.code_words import Group

T = TypeVar("T")
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
    typer.Option("--sandbox", help="Sandbox for the programs of agents. plain: no sandbox, which every status shows."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


_CHINESE_MARKS: Final = MappingProxyType({",": "，", ";": "；"})  # noqa: RUF001 - Chinese punctuation


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """Options that every command takes, given before or after the command's name."""

    root: Path | None = None
    as_json: bool = False
    locale: Locale = "en"
    """The language of what is printed for people."""

    @staticmethod
    def merge(ctx: typer.Context, root: Path | None, as_json: bool) -> CommonOptions:  # noqa: FBT001 - options as given
        """Merge the options of a command with those before its name. Its own win."""
        before = ctx.obj if isinstance(ctx.obj, CommonOptions) else CommonOptions()
        return CommonOptions(root or before.root, as_json or before.as_json, before.locale)


class CommandOutput:
    """Prints the answer of a command."""

    def __init__(self, *, as_json: bool, locale: Locale = "en") -> None:
        """`locale` is the language for people. JSON is for programs, and always English."""
        self.as_json = as_json
        self.use_locale(locale)
        self._consoles: dict[bool, Console] = {}

    def use_locale(self, locale: Locale) -> None:
        """Write to people in a language from now on."""
        self.locale: Locale = "en" if self.as_json else locale

    @classmethod
    def from_options(cls, options: CommonOptions) -> Self:
        """Make the output of a command with these options."""
        return cls(as_json=options.as_json, locale=options.locale)

    def text(self, sentence: str, /, **params: object) -> str:
        """Return a sentence of the command line, by its id, in the reader's language.

        The caller has escaped what is from outside. The sentences are loaded by the first call.
        """
        from agenttalk.rules.text import cli_words

        return cli_words.SENTENCES[sentence].render(self.locale, **params)

    def translate(self, value: T) -> T:
        """Return a text or a JSON value with the sentences of the engine in the reader's language, not escaped."""
        if self.locale == "en":
            return value
        from agenttalk.rules.text.message import render_all

        translated: T = render_all(value, self.locale)
        return translated

    def code(self, group: Group, code: object) -> str:
        """Return a code as people read it. Readers of English get the code itself."""
        if self.locale == "en":
            return str(code)
        from agenttalk.rules.text.code_words import render_code

        return render_code(self.locale, group, code)

    def join(self, parts: Iterable[str], mark: Literal[",", ";"] = ",") -> str:
        """Join the parts of a line with the punctuation of the reader's language."""
        return (f"{mark} " if self.locale == "en" else _CHINESE_MARKS[mark]).join(parts)

    def count(self, number: int, thing: str) -> str:
        """Return a number with its noun, in the singular or plural."""
        from agenttalk.rules.text import cli_words

        return cli_words.COUNTS[f"{thing} (one)" if number == 1 else thing].render(self.locale, count=number)

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

    def _explain_code(self, code: str, message: str) -> str:
        """Return what a code means, for readers of another language than that of the message."""
        if self.locale == "en":
            return ""
        from agenttalk.rules.text.code_words import render_refusal
        from agenttalk.rules.text.message import Message

        return "" if isinstance(message, Message) else render_refusal(self.locale, str(code))

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
        meaning = self._explain_code(code, message)
        shown = sanitize(self.translate(message))
        self.say(f"{mark} {where}{meaning or shown} [dim]\\[{code}][/]", err=err)
        if meaning:
            self.say(f"  {shown}", err=err)
        if hint:
            self.say(f"  [cyan]→[/] {sanitize(self.translate(hint))}", err=err)


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


def pad(text: str, width: int) -> str:
    """Return a text with spaces up to a number of columns. Chinese characters take two."""
    return text + " " * (width - sum(2 if east_asian_width(char) in "WF" else 1 for char in text))


PRINTED: Final = 8
"""How many of the last lines of a check's output are shown."""


def tell_check_output(out: CommandOutput, printed: str, margin: str) -> None:
    """Print the end of a check's output, and the names of the tests that failed."""
    from agenttalk.rules.core.failed_tests import find_failed_tests, last_lines

    lines = last_lines(printed, PRINTED)
    before = [name for name in find_failed_tests(printed) if not any(name in line for line in lines)]
    for name in before:
        out.say(f"{margin}[red]{out.text('cli.failed_test', name=sanitize_line(name))}[/]")
    for line in lines:
        out.say(f"{margin}[dim]│[/] {sanitize(line[-200:])}")
