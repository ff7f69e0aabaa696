"""`agenttalk inbox` and `answer`: what is asked of people, and their answers."""

from __future__ import annotations

import getpass
import shlex
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    JsonOption,
    RootOption,
    sanitize,
    sanitize_line,
    tell_check_output,
)

inbox_app = typer.Typer(add_completion=False)
answer_app = typer.Typer(add_completion=False)
approve_app = typer.Typer(add_completion=False)


@inbox_app.command("inbox")
def inbox(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the questions that wait for a person, the oldest first."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    requests = root_access.ask_root_for_all(
        folder, "/api/human-requests", "requests", lambda local: local.list_questions()
    )
    if out.as_json:
        out.write_json({"ok": True, "requests": requests})
        return 0
    for each in requests:
        _tell(out, each)
    if not requests:
        out.say("[green]✓[/] nobody waits for you")
    return 0


def _tell(out: CommandOutput, each: dict[str, Any], then: str | None = None) -> None:
    asked = each["request"]
    by = asked["created_by"]
    where = "/".join(part for part in (each["plan_id"], by.get("task_id")) if part)
    name, kind = sanitize(asked["request_id"]), sanitize(asked["type"])
    out.say(f"[bold]{name}[/]  {kind}  [dim]{sanitize(where)}, {each['asked_at']}[/]")
    out.say(f"  {sanitize_line(asked['title'])}")
    needed = asked.get("needed", {})
    files = needed.get("files", [])
    for file in files:
        to = f" [dim]for {sanitize(file['deliver_to_agent_id'])}[/]" if file.get("deliver_to_agent_id") else ""
        out.say(f"  · {sanitize_line(file['name'])}{to}")
    decision = needed.get("decision")
    if decision:
        if decision["question"] != asked["title"]:
            first, *more = decision["question"].splitlines() or [""]
            out.say(f"  ? {sanitize_line(first)}")
            for line in more:
                out.say(f"    │ {sanitize_line(line)}")  # so that it never looks like a line of ours
        for number, option in enumerate(decision.get("options", []), 1):
            label = f": {sanitize_line(option['label'])}" if option["label"] != option["key"] else ""
            out.say(f"    {number}  {sanitize_line(option['key'])}{label}")
    _tell_refused(out, needed.get("criteria"))
    parts = [f"--file {sanitize_line(shlex.quote(file['name']))}=PATH" for file in files]
    parts += ["--answer KEY"] if decision and decision.get("options") else []
    example = " ".join(parts) or "--decision APPROVE --note TEXT"
    then = then or f"agenttalk answer {sanitize(asked['request_id'])} {example} --seen {sanitize(each['sha256'])}"
    out.say(f"  [cyan]→[/] {then}")


def _tell_refused(out: CommandOutput, criteria: object) -> None:
    """What was found wrong last, of a task about whose rounds a person decides."""
    history = criteria.get("history") if isinstance(criteria, dict) else None
    last = history[-1] if isinstance(history, list) and history else None
    for issue in last.get("issues", ()) if isinstance(last, dict) else ():
        first, *more = str(issue.get("description", "")).splitlines() or [""]
        out.say(f"  · {sanitize_line(first[:200])}")
        if more:
            tell_check_output(out, "\n".join(more), "    ")


@answer_app.command("answer")
def answer(
    ctx: typer.Context,
    request_id: Annotated[str, typer.Argument(metavar="REQUEST", help="The question, as 'agenttalk inbox' names it.")],
    decision: Annotated[
        str | None,
        typer.Option("--decision", help="PROVIDE, APPROVE, REJECT or ABORT; PROVIDE when something is given."),
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", metavar="[NAME=]PATH", help="A file that was asked for; repeatable.")
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="KEY", help="An option that was offered, or its number; repeatable."),
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="Anything else.")] = None,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who answers; you by default.")] = None,
    seen: Annotated[
        str | None, typer.Option("--seen", metavar="SHA256", help="Answer only if the question still has this hash.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer a question. Files become messages to the agents that wait for them, and the task goes on."""
    from agenttalk.doors.cli.core import engine_client

    out, folder = root_access.choose_root(ctx, root, as_json)
    asked = _read_question(folder, request_id)
    given = _files(files or [], asked)
    said: dict[str, Any] = {
        "decision": _decision(decision, bool(given or answers or note)),
        "answers": answers or [],
        "notes": note,
        "seen_sha256": seen or asked["sha256"],
        "by": name or getpass.getuser(),
    }

    body = {**said, "files": {key: b64encode(data).decode() for key, data in given.items()}}
    response = root_access.ask_root(
        folder, f"/api/human-requests/{request_id}/answer", lambda local: local.answer(request_id, given, said), body
    )
    if out.as_json:
        out.write_json({"ok": True, "response": response})
    else:
        served = engine_client.connect_to_running_engine(folder) is not None
        then = "it goes on" if served else "it goes on with the next 'agenttalk run' or 'agenttalk serve'"
        if missing := _missing(asked, response):
            then = f"still missing: {sanitize_line(', '.join(missing))}; 'agenttalk inbox' shows the question for it"
        out.say(f"[green]✓[/] {sanitize(request_id)}: {said['decision']}; {then}")
        criteria = asked["request"].get("needed", {}).get("criteria")
        if isinstance(criteria, dict) and "dispute" in criteria and "upheld" in (answers or []):
            out.say("  [cyan]→[/] the check is in force until the plan is changed: 'agenttalk plan apply FILE'")
    return 0


def _missing(asked: dict[str, Any], response: dict[str, Any]) -> list[str]:
    """The files that were asked for, and that an answer did not bring."""
    if asked["request"]["type"] != "MISSING_FILE" or response["decision"] in {"REJECT", "ABORT"}:
        return []
    brought = {each["name"] for each in response.get("provided_files", [])}
    return [each["name"] for each in asked["request"]["needed"].get("files", []) if each["name"] not in brought]


@approve_app.command("approve")
def approve(
    ctx: typer.Context,
    request_id: Annotated[str, typer.Argument(metavar="REQUEST", help="The question, as 'agenttalk inbox' names it.")],
    seen: Annotated[
        str | None, typer.Option("--seen", metavar="SHA256", help="Say yes only if it still has this hash.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="Why, for the ledger.")] = None,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Who says so; you by default.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say yes to what is asked.

    Without --seen the question is shown first, and nothing is approved; with the hash that is shown beside it, it is.
    So nobody says yes to what has changed since it was looked at.
    """
    out, folder = root_access.choose_root(ctx, root, as_json)
    asked = _read_question(folder, request_id)
    needed = asked["request"].get("needed", {})
    if needed.get("files") or (needed.get("decision") or {}).get("options"):
        hint = "'agenttalk inbox' shows them; 'agenttalk answer' takes --answer KEY and --file PATH"
        raise UsageError(Code.ANSWER_REFUSED, f"{request_id} asks for more than a yes: files or options", hint=hint)
    if seen is not None:
        return answer(ctx, request_id, "APPROVE", None, None, note, name, seen, root, as_json)
    if out.as_json:
        out.write_json({"ok": False, "approved": False, "request": asked})
        return 3
    _tell(out, asked, then=f"agenttalk approve {sanitize(request_id)} --seen {sanitize(asked['sha256'])}")
    return 3


def _read_question(folder: Path, request_id: str) -> dict[str, Any]:
    """A question, with its hash."""
    question: dict[str, Any] = root_access.ask_root(
        folder, f"/api/human-requests/{request_id}", lambda local: local.read_question(request_id)
    )
    return question


def _decision(text: str | None, something_given: bool) -> Any:  # noqa: FBT001 - one of two

    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.engine.people.questions import AnswerDecision

    allowed = get_args(AnswerDecision)
    if text is None and something_given:
        return "PROVIDE"
    if text is None or text.upper() not in allowed:
        near = find_nearest((text or "").upper(), allowed)
        hint = f"did you mean {near}?" if near else "use " + ", ".join(allowed)
        what = (
            f"{text!r} is not a decision" if text else "an answer needs a --decision, a --file, an --answer or a --note"
        )
        raise UsageError(Code.OPTION_INVALID, what, hint=hint)
    return text.upper()


def _files(given: list[str], asked: dict[str, Any]) -> dict[str, bytes]:
    from agenttalk.adapters.mailbox import fsio

    needed = [file["name"] for file in asked["request"].get("needed", {}).get("files", [])]
    found = {}
    for each in given:
        name, mark, path = each.partition("=")
        name, path = (name, path) if mark else (Path(each).name, each)
        if needed and name not in needed:
            raise UsageError(
                Code.OPTION_INVALID,
                f"{name!r} was not asked for",
                hint="write NAME=PATH with one of: " + ", ".join(needed),
            )
        found[name] = fsio.read_file(Path(path), limit=64 * 1024 * 1024)
    return found
