"""`agenttalk prove`: proves a change that another program's agent made."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.doors.cli.changes.change_session import ChangeRequest
    from agenttalk.rules.changes.change_proof import ChangePolicy
    from agenttalk.rules.changes.change_report import ChangeReport

prove_app = typer.Typer(add_completion=False)
HeadOption = Annotated[
    str | None,
    typer.Option("--head", metavar="REF", help="Commit to prove. Default: the folder with its uncommitted files."),
]
PullOption = Annotated[
    str | None,
    typer.Option("--pr", metavar="[OWNER/NAME#]N", help="Pull request to prove, at a configured forge."),
]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Forge of --pr, if several are configured.")
]
BaseOption = Annotated[
    str | None,
    typer.Option(
        "--base", metavar="REF", help="Commit to compare with. Default: where the work left the default branch."
    ),
]
CheckOption = Annotated[
    str | None,
    typer.Option("--check", metavar="COMMAND", help="Check to run. Default: the one found in the repository."),
]
ScopeOption = Annotated[
    list[str] | None,
    typer.Option("--scope", metavar="GLOB", help="Only these files may change; repeatable. Default: all."),
]
ProtectOption = Annotated[
    list[str] | None,
    typer.Option("--protect", metavar="GLOB", help="More files that must not change; repeatable."),
]
AllowTestsOption = Annotated[
    bool, typer.Option("--allow-tests", help="Allow changed and removed tests, and changes of their configuration.")
]
AlreadyGreenOption = Annotated[
    Literal["refuse", "ok"],
    typer.Option("--already-green", help="Whether the check may pass without the change; ok for a refactoring."),
]
SuspicionOption = Annotated[
    Literal["note", "ask", "refuse"],
    typer.Option("--suspicion", help="What follows from lines that could deceive the check."),
]
ReviewedOption = Annotated[
    list[str] | None,
    typer.Option("--reviewed", metavar="HASH", help="Suspicious lines that you have read and approve; repeatable."),
]
LinkOption = Annotated[
    list[str] | None,
    typer.Option("--link", metavar="PATH", help="Ignored path that the check needs; repeatable. none: no path."),
]
EnvOption = Annotated[
    list[str] | None, typer.Option("--env", metavar="NAME=VALUE", help="Variable for the check; repeatable.")
]
PrepareOption = Annotated[
    str, typer.Option("--prepare", metavar="COMMAND", help="Command that prepares each checkout, such as 'npm ci'.")
]
TimeoutOption = Annotated[
    int | None, typer.Option("--timeout", metavar="SECONDS", min=1, help="Time limit for one run of the check.")
]
ShapeOption = Annotated[
    Literal["text", "markdown", "json", "sarif", "junit"], typer.Option("--format", help="Format of the result.")
]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the result to this file.")
]
AlsoOption = Annotated[
    list[str] | None,
    typer.Option("--also", metavar="FORMAT=FILE", help="Also write the result to FILE in another format; repeatable."),
]
LocaleOption = Annotated[
    Literal["en", "zh"] | None,
    typer.Option("--locale", help="Language of the result. Default: that of all messages."),
]
HookOption = Annotated[
    Literal["claude-start", "claude-stop", "pre-push"] | None,
    typer.Option("--hook", help="Answer as a hook of Claude Code or git. The hook's input is on standard input."),
]
BlocksOption = Annotated[
    int, typer.Option("--blocks", min=0, help="How often the hook keeps Claude Code from stopping.")
]
InstallOption = Annotated[
    Literal["pre-push"] | None,
    typer.Option("--install-hook", help="Install the hook in this repository, and exit."),
]


@prove_app.command("prove")
def prove(
    ctx: typer.Context,
    head: HeadOption = None,
    pull: PullOption = None,
    source: SourceOption = None,
    base: BaseOption = None,
    check: CheckOption = None,
    scope: ScopeOption = None,
    protect: ProtectOption = None,
    allow_tests: AllowTestsOption = False,
    already_green: AlreadyGreenOption = "refuse",
    suspicion: SuspicionOption = "ask",
    reviewed: ReviewedOption = None,
    link: LinkOption = None,
    env: EnvOption = None,
    prepare: PrepareOption = "",
    timeout: TimeoutOption = None,
    shape: ShapeOption = "text",
    output: OutputOption = None,
    also: AlsoOption = None,
    locale: LocaleOption = None,
    hook: HookOption = None,
    blocks: BlocksOption = 3,
    install: InstallOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Prove a change that another program or agent made, by comparing it with its base. The folder stays as it is.

    The check runs in sealed checkouts: on the work, on the work with the tests of the base, and at the base. The change
    is proven if the check passes, the check failed without the change, no test is gone or skipped, and no file that the
    check relies on was changed.

    Exit codes: 0 proven, 1 not proven, 2 bad input.
    """
    from dataclasses import replace

    from agenttalk.doors.cli.changes import prove_hooks, pull_request
    from agenttalk.doors.cli.changes.change_session import ChangeRequest
    from agenttalk.doors.cli.core import agent_permissions

    common = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(common)
    language = locale or common.locale
    here = Path.cwd()
    claude = hook in {"claude-start", "claude-stop"}
    if claude and agent_permissions.is_agent():
        return 0  # the engine proves the work of its agents itself
    agent_permissions.require_person("prove")
    if install is not None:
        return prove_hooks.install_pre_push(out, here)
    if hook == "claude-start":
        return prove_hooks.note_start(here)

    def make_request() -> ChangeRequest:
        if (head is not None and pull is not None) or (hook is not None and (head or pull)):
            message = "name one work: --head, --pr, or the folder"
            raise UsageError(Code.OPTION_INVALID, message, hint="see 'agenttalk prove --help'")
        policy = _make_policy(scope, protect, allow_tests=allow_tests, already_green=already_green == "ok")
        policy = replace(policy, suspicion=suspicion, reviewed=tuple(reviewed or ()))
        variables = tuple(_read_variable(text) for text in env or ())
        links = tuple(link or ())
        return ChangeRequest(policy, head, base, check, links, variables, prepare.strip(), timeout)

    if hook == "claude-stop":
        return prove_hooks.answer_claude(here, make_request, blocks, language)
    request = make_request()
    if hook == "pre-push":
        return prove_hooks.answer_push(out, here, request, language)
    if pull is not None:
        request = pull_request.resolve(here, common.root, pull, source, request)
    forms = [*(_read_form(text) for text in also or ()), ("json" if common.as_json else shape, output)]
    return _prove_and_deliver(out, here, request, forms, language)


def _prove_and_deliver(
    out: CommandOutput,
    here: Path,
    request: ChangeRequest,
    forms: Sequence[tuple[str, Path | None]],
    language: Literal["en", "zh"],
) -> int:
    """Prove a change, and write the result in each form to its file; the last one to standard output without one."""
    from agenttalk.doors.cli.changes.change_session import prove_one

    form, output = forms[-1]
    report = prove_one(here, request, _make_announcer(out, quiet=form != "text" and output is None))
    for each, path in forms:
        _deliver(render(report, each, language), path)
    return 0 if report.proof.proven else 1


def _make_policy(
    scope: list[str] | None, protect: list[str] | None, *, allow_tests: bool, already_green: bool
) -> ChangePolicy:
    """Make the policy of a person. Raises UsageError or InputError for a glob that can never match."""
    from agenttalk.rules.changes.change_proof import ChangePolicy
    from agenttalk.rules.core import scope as scopes

    for glob in (*(scope or ()), *(protect or ())):
        scopes.read_globs([glob])
    return ChangePolicy(tuple(scope or ()), tuple(protect or ()), allow_tests, already_green)


def _read_variable(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise UsageError(Code.OPTION_INVALID, f"--env: {text[:80]!r} is not NAME=VALUE", hint="write e.g. --env CI=1")
    return name, value


def _make_announcer(out: CommandOutput, *, quiet: bool) -> Callable[[str], None]:
    from agenttalk.rules.text import cli_words

    def announce(text: str) -> None:
        if not quiet:
            words = out.text(f"prove.{text}") if text in cli_words.PROVE else sanitize(out.translate(text))
            out.say(f"[dim]· {words}[/]", err=True)

    return announce


def _read_form(text: str) -> tuple[str, Path]:
    from agenttalk.rules.changes import change_report

    form, sign, path = text.partition("=")
    if not sign or not path or form not in change_report.FORMATS:
        hint = f"write e.g. --also sarif=prove.sarif; the forms are {', '.join(change_report.FORMATS)}"
        raise UsageError(Code.OPTION_INVALID, f"--also: {text[:80]!r} is not FORMAT=FILE", hint=hint)
    return form, Path(path)


def render(report: ChangeReport, form: str, locale: Locale) -> str:
    """Write a report in a form."""
    import json

    from agenttalk import __version__
    from agenttalk.rules.changes import change_report

    if form == "markdown":
        return change_report.write_markdown(report, locale)
    if form == "junit":
        return change_report.write_junit(report)
    if form == "text":
        return change_report.write_text(report, locale)
    told = change_report.to_sarif(report, __version__) if form == "sarif" else change_report.to_json(report)
    return json.dumps(told, ensure_ascii=False, indent=2) + "\n"


def _deliver(text: str, output: Path | None) -> None:
    """Print the result, or write it into a file."""
    shown = "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)
    if output is None:
        sys.stdout.write(shown)
        return
    try:
        output.write_text(shown, encoding="utf-8")
    except OSError as error:
        message = f"cannot write {str(output)!r}: {error.strerror}"
        raise MachineError(Code.FILE_UNWRITABLE, message, hint="check the folder and its permissions") from error
