"""`agenttalk mail`: letters between agents and people.

In a turn, the command uses the agent's token from its environment. Elsewhere it acts as the operator.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    CommonOptions,
    JsonOption,
    RootOption,
    sanitize,
    sanitize_line,
)
from agenttalk.doors.cli.core.root_access import UseCase

if TYPE_CHECKING:
    from agenttalk.engine.views.models.mail import LetterView

app = typer.Typer(no_args_is_help=True, help="Write, list, read and answer letters.", add_completion=False)
T = TypeVar("T")
_COLOURS: Final = {"done": "green", "failed": "red", "working": "cyan", "review": "cyan"}
_SPAN: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
BodyArgument = Annotated[str, typer.Argument(metavar="TEXT", help="Text of the letter; - reads standard input.")]
RequestOption = Annotated[bool, typer.Option("--request", help="Ask for an answer. Without it, reading is enough.")]
DeadlineOption = Annotated[
    str | None, typer.Option("--deadline", help="Deadline: 2026-01-31T12:00:00Z, or from now 30m, 2h, 3d.")
]
IdOption = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", help="Your own id for the letter. A repeated id sends nothing twice."),
]
MailArgument = Annotated[str, typer.Argument(metavar="MAIL", help="Id of the letter, from 'agenttalk mail list'.")]


@app.callback()
def main() -> None:
    """Write, list, read and answer letters."""


@app.command("send")
def send(
    ctx: typer.Context,
    text: BodyArgument,
    to: Annotated[list[str], typer.Option("--to", metavar="AGENT", help="Addressee; repeatable.")],
    subject: Annotated[str, typer.Option("--subject", help="Subject, in one line.")],
    request: RequestOption = False,
    deadline: DeadlineOption = None,
    in_reply_to: Annotated[
        str | None, typer.Option("--in-reply-to", metavar="MAIL", help="Letter that this one answers.")
    ] = None,
    mail_id: IdOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a letter to agents, or to the people who run this root ('operator')."""
    said = {
        "to": to,
        "subject": subject,
        "in_reply_to": in_reply_to,
        **_letter_fields(text, request, deadline, mail_id),
    }
    body = {key: value for key, value in said.items() if value is not None}
    return _send_letter(ctx, root, as_json, "/api/mail", body)


@app.command("reply")
def reply(
    ctx: typer.Context,
    mail: MailArgument,
    text: BodyArgument,
    subject: Annotated[
        str | None, typer.Option("--subject", help="Subject, in one line. Default: that of the letter.")
    ] = None,
    request: RequestOption = False,
    deadline: DeadlineOption = None,
    mail_id: IdOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer a letter. Its sender gets the answer, in the same thread."""
    said = {"subject": subject, **_letter_fields(text, request, deadline, mail_id)}
    body = {key: value for key, value in said.items() if value is not None}
    path = f"/api/mail/{_quoted(mail)}/reply"
    return _send_letter(ctx, root, as_json, path, body, answers=mail)


@app.command("list")
def list_(
    ctx: typer.Context,
    sender: Annotated[str, typer.Option("--from", metavar="AGENT", help="List only those of one sender.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="AGENT", help="List only those to one agent.")] = "",
    unread: Annotated[bool, typer.Option("--unread", help="List only unread ones: yours, or those of --to.")] = False,
    kind: Annotated[str, typer.Option("--kind", help="List only this kind: inform or request.")] = "",
    status: Annotated[
        str, typer.Option("--status", help="List only this status: open, closed, pending, working, done or failed.")
    ] = "",
    thread: Annotated[str, typer.Option("--thread", metavar="MAIL", help="List only those of one thread.")] = "",
    search: Annotated[
        str, typer.Option("--search", metavar="WORDS", help="List only letters that contain all these words.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", help="How many to list.", min=1, max=200)] = 50,
    before: Annotated[int, typer.Option("--before", metavar="NUMBER", help="List the next page.", min=0)] = 0,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List letters, the newest first. In a turn, an agent sees only its own."""
    named = {"from": sender, "to": to, "kind": kind, "status": status, "thread": thread, "search": search}
    query = {key: value for key, value in named.items() if value} | {"limit": limit}
    query |= {"before": before} if before else {}
    query |= {"unread": "true"} if unread else {}

    out, ask = _connect(ctx, root, as_json)
    found = ask(
        f"/api/mail?{urlencode(query)}",
        lambda local: local.messages.list_letters(named, unread=unread, before=before, limit=limit),
        None,
    )
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    for each in found["mails"]:
        _tell(out, each)
    if not found["mails"]:
        out.say(out.text("operate.letters_none"))
    if found["next"] is not None:
        out.say(f"[dim]{out.text('operate.letters_more', number=found['next'])}[/]")
    return 0


@app.command("read")
def read(ctx: typer.Context, mail: MailArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Show a letter, and mark it as read by you."""
    out, ask = _connect(ctx, root, as_json)
    found = ask(f"/api/mail/{_quoted(mail)}", lambda local: local.messages.read_letter(mail), None)
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    _tell(out, found)
    out.say("")
    out.say(sanitize(found["body"]))
    return 0


def _tell(out: CommandOutput, each: LetterView) -> None:
    answers = f", answers {sanitize(each['in_reply_to'])}" if each.get("in_reply_to") else ""
    out.say(
        f"[bold]{sanitize(each['message_id'])}[/]  {sanitize(each['kind'])}  from {sanitize(each['from'])}  "
        f"[dim]{each['sent_at']}{answers}[/]"
    )
    out.say(f"  {sanitize_line(each['subject'])}")
    for to in each["addressees"]:
        colour = _COLOURS.get(to["status"], "yellow")
        seen = f"answered by {sanitize(to['reply'])}" if to["reply"] else "read" if to["read_at"] else "unread"
        until = f", until {each['deadline']}" if each.get("deadline") and not to["closed_at"] else ""
        out.say(f"  to {sanitize(to['addressee'])}: [{colour}]{to['status']}[/], {seen}{until}")


def _letter_fields(text: str, request: bool, deadline: str | None, mail_id: str | None) -> dict[str, str | None]:  # noqa: FBT001 - as given
    return {
        "kind": "request" if request else "inform",
        "body": sys.stdin.read() if text == "-" else text,
        "deadline": _moment(deadline) if deadline is not None else None,
        "message_id": mail_id,
    }


def _moment(text: str) -> str:
    """Return a time as documents write it. Durations count from now."""
    span = _SPAN.fullmatch(text.strip())
    if span is None:
        return text

    from agenttalk.contracts.core.base import write_time
    from agenttalk.wiring import SystemClock

    return write_time(SystemClock().now() + timedelta(seconds=int(span[1]) * _SECONDS[span[2]]))


def _send_letter(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    path: str,
    body: Mapping[str, object],
    answers: str | None = None,
) -> int:
    out, ask = _connect(ctx, root, as_json)
    sent = ask(path, lambda local: local.messages.send_letter(body, answers=answers), body)
    if out.as_json:
        out.write_json({"ok": True, **sent})
    else:
        names = sanitize(", ".join(sent["to"]))
        out.say(f"[green]✓[/] {out.text('operate.letter_sent', letter=sanitize(sent['message_id']), names=names)}")
    return 0


class LetterClient(Protocol):
    """Sends a request about letters, and returns its answer."""

    def __call__(self, path: str, offline: UseCase[T], body: Mapping[str, object] | None, /) -> T:
        """Send it. `offline` is the use case behind `path`; with a `body` it is a POST."""
        ...


def _connect(ctx: typer.Context, root: Path | None, as_json: bool) -> tuple[CommandOutput, LetterClient]:  # noqa: FBT001 - as given
    """Return the output, and what sends requests: with the agent's token in a turn, else as the operator."""
    token = os.environ.get("AGENTTALK_TOKEN", "")
    http, socket = os.environ.get("AGENTTALK_API", ""), os.environ.get("AGENTTALK_SOCKET", "")
    if token and (http or socket):
        from agenttalk.adapters.store.root_lock import RunningEngine
        from agenttalk.doors.cli.core.engine_client import EngineClient

        client = EngineClient(RunningEngine(pid=0, http=http, socket=socket), token)

        def ask_in_turn(path: str, _: UseCase[T], body: Mapping[str, object] | None, /) -> T:
            found: T = client.get(path) if body is None else client.post(path, body)
            return found

        return CommandOutput.from_options(CommonOptions.merge(ctx, root, as_json)), ask_in_turn

    out, folder = root_access.choose_root(ctx, root, as_json)

    def ask_as_operator(path: str, offline: UseCase[T], body: Mapping[str, object] | None, /) -> T:
        return root_access.ask_root(folder, path, offline, body)

    return out, ask_as_operator


def _quoted(text: str) -> str:

    return quote(text, safe="")
