"""`agenttalk inbox`, `answer` and `approve`: questions to people, and their answers."""

from __future__ import annotations

import getpass
import shlex
from base64 import b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenttalk.doors.cli.core.local_root import AnswerRequest
    from agenttalk.engine.people.questions import QuestionView

inbox_app = typer.Typer(add_completion=False)
answer_app = typer.Typer(add_completion=False)
approve_app = typer.Typer(add_completion=False)


@inbox_app.command("inbox")
def inbox(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the questions that wait for a person, the oldest first."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    requests: list[QuestionView] = root_access.ask_root_for_all(
        folder,
        "/api/human-requests",
        lambda local: local.messages.list_questions(),
        lambda page: page["requests"],
        locale=out.locale,
    )
    if out.as_json:
        out.write_json({"ok": True, "requests": requests})
        return 0
    for request in requests:
        _tell(out, request)
    if not requests:
        out.say(f"[green]✓[/] {out.text('inbox.none')}")
    return 0


def _read_text(out: CommandOutput, document: Mapping[str, Any], field: str) -> str:
    """Return the text in a field of a question in the reader's language."""
    if out.locale == "en":
        return str(document[field])
    from agenttalk.rules.text.catalogue import read_own_text

    return out.translate(read_own_text(document, field))


def _tell(out: CommandOutput, open_question: QuestionView, then: str | None = None) -> None:
    asked = open_question["request"]
    by = asked["created_by"]
    where = "/".join(part for part in (open_question["plan_id"], by.get("task_id")) if part)
    name, kind = sanitize(asked["request_id"]), sanitize(out.code("asked", asked["type"]))
    out.say(f"[bold]{name}[/]  {kind}  [dim]{sanitize(where)}, {open_question['asked_at']}[/]")
    out.say(f"  {sanitize_line(_read_text(out, asked, 'title'))}")
    needed = asked.get("needed", {})
    files = needed.get("files", [])
    for file in files:
        receiver = sanitize(file.get("deliver_to_agent_id") or "")
        to = f" [dim]{out.text('inbox.for', agent=receiver)}[/]" if receiver else ""
        out.say(f"  · {sanitize_line(file['name'])}{to}")
    decision = needed.get("decision")
    if decision:
        if decision["question"] != asked["title"]:
            first, *more = _read_text(out, decision, "question").splitlines() or [""]
            out.say(f"  ? {sanitize_line(first)}")
            for line in more:
                out.say(f"    │ {sanitize_line(line)}")  # marked, so that it cannot look like a line of ours
        for number, option in enumerate(decision.get("options", []), 1):
            label = f": {sanitize_line(_read_text(out, option, 'label'))}" if option["label"] != option["key"] else ""
            out.say(f"    {number}  {sanitize_line(option['key'])}{label}")
    _tell_refused(out, needed.get("criteria"))
    parts = [f"--file {sanitize_line(shlex.quote(file['name']))}=PATH" for file in files]
    parts += ["--answer KEY"] if decision and decision.get("options") else []
    example = " ".join(parts) or "--decision APPROVE --note TEXT"
    then = (
        then or f"agenttalk answer {sanitize(asked['request_id'])} {example} --seen {sanitize(open_question['sha256'])}"
    )
    out.say(f"  [cyan]→[/] {then}")


def _tell_refused(out: CommandOutput, criteria: object) -> None:
    """Print the last issues of a task about whose rework a person decides."""
    history = criteria.get("history") if isinstance(criteria, dict) else None
    last = history[-1] if isinstance(history, list) and history else None
    for issue in last.get("issues", ()) if isinstance(last, dict) else ():
        text = _read_text(out, issue, "description") if isinstance(issue.get("description"), str) else ""
        first, *more = text.splitlines() or [""]
        out.say(f"  · {sanitize_line(first[:200])}")
        if more:
            tell_check_output(out, "\n".join(more), "    ")


@answer_app.command("answer")
def answer(
    ctx: typer.Context,
    request_id: Annotated[str, typer.Argument(metavar="REQUEST", help="Id of the question, from 'agenttalk inbox'.")],
    decision: Annotated[
        str | None,
        typer.Option(
            "--decision", help="PROVIDE, APPROVE, REJECT or ABORT. Default with a file, answer or note: PROVIDE."
        ),
    ] = None,
    files: Annotated[
        list[str] | None, typer.Option("--file", metavar="[NAME=]PATH", help="A requested file; repeatable.")
    ] = None,
    answers: Annotated[
        list[str] | None,
        typer.Option("--answer", metavar="KEY", help="Key or number of an offered option; repeatable."),
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="A note for the agent and the ledger.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the person who answers. Default: you.")
    ] = None,
    seen: Annotated[
        str | None, typer.Option("--seen", metavar="SHA256", help="Answer only if the question still has this hash.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer a question. Files are sent to the agents that wait for them, and the task continues."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    asked = _read_question(folder, request_id)
    given = _files(files or [], asked)
    reply: AnswerRequest = {
        "decision": _decision(decision, bool(given or answers or note)),
        "answers": answers or [],
        "notes": note,
        "seen_sha256": seen or asked["sha256"],
        "by": name or getpass.getuser(),
    }

    body = {**reply, "files": {key: b64encode(data).decode() for key, data in given.items()}}
    response = root_access.ask_root(
        folder,
        f"/api/human-requests/{request_id}/answer",
        lambda local: local.messages.answer(request_id, given, reply),
        body,
    )
    if out.as_json:
        out.write_json({"ok": True, "response": response})
    else:
        _tell_answered(out, folder, asked, reply, response)
    return 0


def _tell_answered(
    out: CommandOutput, folder: Path, asked: QuestionView, reply: AnswerRequest, response: Mapping[str, Any]
) -> None:
    """Tell what an answer led to."""
    from agenttalk.doors.cli.core import engine_client

    served = engine_client.connect_to_running_engine(folder) is not None
    then = out.text("inbox.continues" if served else "inbox.continues_later")
    if missing := _missing(asked, response):
        then = out.text("inbox.still_missing", names=sanitize_line(", ".join(missing)))
    decided = out.code("decision", reply["decision"])
    words = out.text("inbox.answered", request=sanitize(asked["request"]["request_id"]), decision=decided, then=then)
    out.say(f"[green]✓[/] {words}")
    criteria = asked["request"].get("needed", {}).get("criteria")
    if isinstance(criteria, dict) and "dispute" in criteria and "upheld" in reply["answers"]:
        out.say(f"  [cyan]→[/] {out.text('inbox.in_force')}")


def _missing(asked: QuestionView, response: Mapping[str, Any]) -> list[str]:
    """Return the requested files that an answer did not provide."""
    if asked["request"]["type"] != "MISSING_FILE" or response["decision"] in {"REJECT", "ABORT"}:
        return []
    provided = {file["name"] for file in response.get("provided_files", [])}
    return [file["name"] for file in asked["request"]["needed"].get("files", []) if file["name"] not in provided]


@approve_app.command("approve")
def approve(
    ctx: typer.Context,
    request_id: Annotated[str, typer.Argument(metavar="REQUEST", help="Id of the question, from 'agenttalk inbox'.")],
    seen: Annotated[
        str | None, typer.Option("--seen", metavar="SHA256", help="Approve only if the question still has this hash.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="The reason, for the ledger.")] = None,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the person who approves. Default: you.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Approve a question.

    Without --seen, this only shows the question and its hash. Repeat the command with --seen and that hash to approve.
    A question that has changed since you read it is not approved.
    """
    out, folder = root_access.choose_root(ctx, root, as_json)
    asked = _read_question(folder, request_id)
    needed = asked["request"].get("needed", {})
    if needed.get("files") or (needed.get("decision") or {}).get("options"):
        from agenttalk.rules.text import cli_words

        message = cli_words.INBOX["needs_more"](request=request_id)
        raise UsageError(Code.ANSWER_REFUSED, message, hint=cli_words.INBOX["needs_more_hint"]())
    if seen is not None:
        return answer(ctx, request_id, "APPROVE", None, None, note, name, seen, root, as_json)
    if out.as_json:
        out.write_json({"ok": False, "approved": False, "request": asked})
        return 3
    _tell(out, asked, then=f"agenttalk approve {sanitize(request_id)} --seen {sanitize(asked['sha256'])}")
    return 3


def _read_question(folder: Path, request_id: str) -> QuestionView:
    """Return a question with its hash."""
    return root_access.ask_root(
        folder, f"/api/human-requests/{request_id}", lambda local: local.messages.read_question(request_id)
    )


def _decision(text: str | None, something_given: bool) -> Any:  # noqa: FBT001 - one of two

    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.engine.people.questions import AnswerDecision

    allowed = get_args(AnswerDecision)
    if text is None and something_given:
        return "PROVIDE"
    if text is None or text.upper() not in allowed:
        near = find_nearest((text or "").upper(), allowed)
        hint = f"did you mean {near}?" if near else "use " + ", ".join(allowed)
        from agenttalk.rules.text import cli_words

        what = cli_words.INBOX["no_decision"](text=text) if text else cli_words.INBOX["no_answer"]()
        raise UsageError(Code.OPTION_INVALID, what, hint=hint)
    return text.upper()


def _files(given: list[str], asked: QuestionView) -> dict[str, bytes]:
    from agenttalk.adapters.mailbox import fsio

    needed = [file["name"] for file in asked["request"].get("needed", {}).get("files", [])]
    found = {}
    for each in given:
        name, mark, path = each.partition("=")
        name, path = (name, path) if mark else (Path(each).name, each)
        if needed and name not in needed:
            raise UsageError(
                Code.OPTION_INVALID,
                f"{name!r} is not a requested file",
                hint="write NAME=PATH with one of: " + ", ".join(needed),
            )
        found[name] = fsio.read_file(Path(path), limit=64 * 1024 * 1024)
    return found
