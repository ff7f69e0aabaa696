"""`agenttalk promise`: makes promises, validates them, and checks whether they are fulfilled."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from collections.abc import Callable

    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.contracts.promise import CompletionPromise
    from agenttalk.doors.cli.proof.attempt import LocalAttempt
    from agenttalk.rules.commands.promises import PromiseIssue
    from agenttalk.rules.proof.done import Verdict

T = TypeVar("T")
app = typer.Typer(
    no_args_is_help=True, help="Make promises, and check whether they are fulfilled.", add_completion=False
)

BAD = 2
NOT_SO = 1
_MARKS = {"hard-deny": "[bold red]✗[/]", "soft-deny": "[yellow]![/]", "warning": "[yellow]![/]"}

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A promise in JSON; - reads standard input.")]


@app.command("new")
def new(
    ctx: typer.Context,
    objective: Annotated[str, typer.Argument(metavar="OBJECTIVE", help="What must be true in the end.")],
    runs: Annotated[
        list[str] | None, typer.Option("--run", metavar="COMMAND", help="A command that must succeed; repeatable.")
    ] = None,
    paths: Annotated[
        list[str] | None, typer.Option("--file", metavar="PATH", help="A file that must exist; repeatable.")
    ] = None,
    questions: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="QUESTION", help="A question that a person must approve; repeatable."),
    ] = None,
    checks: Annotated[
        list[str] | None, typer.Option("--check", metavar="JSON", help="Any other check, as JSON; repeatable.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="GLOB", help="Files that may be changed; repeatable.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="GLOB", help="Files that must not be changed; repeatable.")
    ] = None,
    protect: Annotated[
        list[str] | None,
        typer.Option(
            "--protect", metavar="GLOB", help="Files that the commands rely on, which must not be changed; repeatable."
        ),
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a valid promise with checks, a criterion for each, and a scope, and print it as JSON.

    Plan files have it under `promise` of a task, commands under `promise`.
    """
    from agenttalk.contracts.core import wire
    from agenttalk.rules.commands import new_promise
    from agenttalk.wiring import SystemClock

    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    guarded = {"protected": protect} if protect else {}
    definitions: list[Any] = [
        *({"kind": "run", "run": command, **guarded} for command in runs or ()),
        *({"kind": "file", "path": path} for path in paths or ()),
        *({"kind": "human", "question": question} for question in questions or ()),
        *(wire.read(check.encode()) for check in checks or ()),
    ]
    params = {"objective": objective, "checks": definitions, "allowed_scope": allow, "disallowed_scope": deny}
    ms = int(SystemClock().now().timestamp() * 1000)
    made = new_promise.make(params, ms=ms, random=secrets.randbelow(1 << 16)).as_json()
    if out.as_json:
        out.write_json({"ok": True, "promise": made})
    else:
        typer.echo(json.dumps(made, indent=2, ensure_ascii=False))
    return 0


@app.command("validate")
def validate(ctx: typer.Context, file: FileArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Report every problem of a promise. Only a hard-deny makes it invalid."""
    from agenttalk.rules.commands import promises

    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    promise = _promise(file)
    validity = promises.validate(promise)
    doubts = promises.find_near_misses(promise)
    if out.as_json:
        warnings = [{"code": p.code, "field": p.field, "message": p.message, "hint": p.hint} for p in doubts]
        issues = [_issue(each) for each in validity.issues]
        out.write_json({"ok": validity.valid, "valid": validity.valid, "issues": issues, "warnings": warnings})
    else:
        for issue in validity.issues:
            where = f"[bold]{sanitize(issue.field)}[/]: "
            out.say(f"{_MARKS[issue.severity]} {where}{sanitize(issue.message)} [dim]\\[{issue.severity}][/]", err=True)
        out.show_problems(doubts, warning=True)
        if validity.valid:
            out.say(f"[green]✓[/] {sanitize(file)}: {sanitize(promise.id)} is valid")
    return 0 if validity.valid else BAD


@app.command("check")
def check(
    ctx: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="A promise in JSON; - reads standard input. Default: that of my attempt."
        ),
    ] = None,
    evidence: Annotated[
        str | None,
        typer.Option("--evidence", metavar="FILE", help="File with a JSON array of evidence ids or objects."),
    ] = None,
    gates: Annotated[
        str | None,
        typer.Option("--gates", metavar="FILE", help="File with a JSON array of gate results, in their order."),
    ] = None,
    confirmed: Annotated[bool, typer.Option("--confirmed", help="Assume that a person has confirmed it.")] = False,
    aborted: Annotated[
        str | None, typer.Option("--aborted", metavar="WHY", help="Assume that this condition has stopped the run.")
    ] = None,
    hook: Annotated[
        bool,
        typer.Option(
            "--hook", help="Answer as the Stop hook of a coding agent, which keeps it from stopping at most twice."
        ),
    ] = False,
    locale: Annotated[
        str, typer.Option("--locale", metavar="en|zh", help="Language of the list of what is missing.")
    ] = "en",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check whether a promise is fulfilled, with the engine's own decision function.

    Without FILE, an agent sees what its own attempt still lacks. That is not evidence: the engine checks by itself.
    """
    if file is None:
        return _mine(CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json)), locale, hook=hook)
    from agenttalk.contracts.evidence import read_evidence, read_gates
    from agenttalk.rules.proof import done
    from agenttalk.rules.proof.evidence import read_vouched_evidence

    out = CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json))
    if [file, evidence, gates].count("-") > 1:
        raise UsageError(Code.OPTION_INVALID, "standard input can be read once", hint="write - for one file only")
    if aborted is not None and not aborted.strip():
        raise UsageError(Code.OPTION_INVALID, "--aborted is empty", hint="write e.g. --aborted scope-drift")
    promise = _promise(file)
    seen = read_vouched_evidence(_read(evidence, read_evidence)) if evidence else []
    results = _read(gates, read_gates) if gates else ()
    verdict = done.decide(promise, seen, results, aborted=aborted, confirmed=confirmed)
    if out.as_json:
        out.write_json(_verdict(verdict))
    else:
        _tell(out, file, promise, verdict)
    return 0 if verdict.fulfilled else NOT_SO


def _answer_hook(own: LocalAttempt, language: Locale) -> int:
    """Keep an agent from stopping while something is missing. If our own check fails, let it stop."""
    from agenttalk.rules.text import answer_words
    from agenttalk.rules.text.message import render

    try:
        missing = [render(each, language) for each in own.find_missing()]
    except Exception as error:  # noqa: BLE001 - the agent can do nothing about any error here
        typer.echo(f"agenttalk: our check before you stop failed, which is not your fault: {error}", err=True)
        return 0
    if missing and not own.count_block():
        first = render(answer_words.STILL_MISSING(), language)
        reason = "\n".join([first, *(f"- {each}" for each in missing)])
        typer.echo(json.dumps({"decision": "block", "reason": reason}))
    return 0


def _mine(out: CommandOutput, locale: str, *, hook: bool) -> int:
    """Print what the agent's own attempt still lacks."""
    from agenttalk.doors.cli.proof import attempt
    from agenttalk.rules.text.message import render

    if locale not in {"en", "zh"}:
        raise UsageError(Code.OPTION_INVALID, f"there is no locale {locale[:40]!r}", hint="use 'en' or 'zh'")
    language: Locale = "zh" if locale == "zh" else "en"

    try:
        own = attempt.read_own_attempt()
    except (UsageError, OSError):
        if hook:
            return 0  # exit code 2 would keep the agent from stopping, and it could do nothing about it
        raise
    if hook:
        return _answer_hook(own, language)
    missing = [render(each, language) for each in own.find_missing()]
    if out.as_json:
        out.write_json({"ok": not missing, "missing": missing})
    else:
        for each in missing:
            out.say(f"[bold red]✗[/] {sanitize(each)}")
        if not missing:
            out.say("[green]✓[/] nothing seems to be missing; the engine checks by itself after you stop")
    return NOT_SO if missing else 0


def _promise(file: str) -> CompletionPromise:
    from agenttalk.contracts.evidence import read_promise

    return _read(file, read_promise)


def _read(file: str, read: Callable[[object], T]) -> T:
    from agenttalk.doors.cli.core import sources

    document = sources.read_json(file)
    try:
        return read(document)
    except ContractError as error:
        name = "standard input" if file == "-" else file
        raise ContractError(error.code, f"{name}: {error.message}", error.problems, hint=error.hint) from error


def _issue(issue: PromiseIssue) -> dict[str, Any]:
    return {
        "severity": issue.severity,
        "checkpoint": issue.checkpoint,
        "message": issue.message,
        "field": issue.field,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "ok": verdict.fulfilled,
        "fulfilled": verdict.fulfilled,
        "missing": list(verdict.missing),
        "blockers": list(verdict.blockers),
        "unverified": list(verdict.unverified),
        "trust": verdict.trust,
    }


def _tell(out: CommandOutput, file: str, promise: CompletionPromise, verdict: Verdict) -> None:
    for name in verdict.missing:
        out.say(f"[bold red]✗[/] missing: {sanitize(name)}", err=True)
    for text in verdict.blockers:
        out.say(f"[bold red]✗[/] {sanitize(text)}", err=True)
    for name in verdict.unverified:
        out.say(f"[yellow]![/] no evidence for: {sanitize(name)}", err=True)
    if verdict.fulfilled:
        out.say(
            f"[green]✓[/] {sanitize(file)}: {sanitize(promise.id)} is fulfilled; it rests on {verdict.trust} evidence"
        )
    else:
        out.say(f"{sanitize(file)}: {sanitize(promise.id)} is not fulfilled")
