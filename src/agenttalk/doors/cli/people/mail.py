"""`agenttalk mail`: letters between agents and people.

Inside a turn the agent's own token is used, which is in its environment; elsewhere one is the operator.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from agenttalk.doors.cli.core.output import (
    CommandOutput,
    CommonOptions,
    JsonOption,
    RootOption,
    sanitize,
    sanitize_line,
)

if TYPE_CHECKING:
    # Loaded only by those who open the root themselves: most go through the engine.
    from agenttalk.engine.core.deps import Deps
    from agenttalk.engine.mail.letters import LetterDraft

app = typer.Typer(no_args_is_help=True, help="Letters between agents and people.", add_completion=False)
_COLOURS: Final = {"done": "green", "failed": "red", "working": "cyan", "review": "cyan"}
_SPAN: Final = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
BodyArgument = Annotated[str, typer.Argument(metavar="TEXT", help="The letter; - reads standard input.")]
RequestOption = Annotated[bool, typer.Option("--request", help="An answer is needed; without it reading is enough.")]
DeadlineOption = Annotated[
    str | None, typer.Option("--deadline", help="Until when: 2026-01-31T12:00:00Z, or from now 30m, 2h, 3d.")
]
IdOption = Annotated[
    str | None, typer.Option("--id", metavar="ID", help="An id of your own: the same letter is sent once.")
]
MailArgument = Annotated[str, typer.Argument(metavar="MAIL", help="The letter, as 'agenttalk mail list' names it.")]


@app.callback()
def main() -> None:
    """Letters between agents and people."""


@app.command("send")
def send(
    ctx: typer.Context,
    text: BodyArgument,
    to: Annotated[list[str], typer.Option("--to", metavar="AGENT", help="Who gets it; repeatable.")],
    subject: Annotated[str, typer.Option("--subject", help="In a line.")],
    request: RequestOption = False,
    deadline: DeadlineOption = None,
    in_reply_to: Annotated[str | None, typer.Option("--in-reply-to", metavar="MAIL", help="What it answers.")] = None,
    mail_id: IdOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write to agents, or to the people who run this ('operator')."""
    said = {
        "to": to,
        "subject": subject,
        "in_reply_to": in_reply_to,
        **_letter_fields(text, request, deadline, mail_id),
    }
    body = {key: value for key, value in said.items() if value is not None}
    return _send_letter(ctx, root, as_json, "/api/mail", body, lambda post, draft, me: post.send(draft, me, via="cli"))


@app.command("reply")
def reply(
    ctx: typer.Context,
    mail: MailArgument,
    text: BodyArgument,
    subject: Annotated[str | None, typer.Option("--subject", help="In a line; that of the letter by default.")] = None,
    request: RequestOption = False,
    deadline: DeadlineOption = None,
    mail_id: IdOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Answer a letter: whoever wrote it gets the answer, in the same thread."""
    said = {"subject": subject, **_letter_fields(text, request, deadline, mail_id)}
    body = {key: value for key, value in said.items() if value is not None}
    path = f"/api/mail/{_quoted(mail)}/reply"
    return _send_letter(ctx, root, as_json, path, body, lambda post, draft, me: post.reply(mail, draft, me, via="cli"))


@app.command("list")
def list_(
    ctx: typer.Context,
    sender: Annotated[str, typer.Option("--from", metavar="AGENT", help="Only those of one sender.")] = "",
    to: Annotated[str, typer.Option("--to", metavar="AGENT", help="Only those that one agent got.")] = "",
    unread: Annotated[bool, typer.Option("--unread", help="Only unread ones: yours, or those of --to.")] = False,
    kind: Annotated[str, typer.Option("--kind", help="inform or request.")] = "",
    status: Annotated[str, typer.Option("--status", help="open, closed, pending, working, done or failed.")] = "",
    thread: Annotated[str, typer.Option("--thread", metavar="MAIL", help="Only those of a thread.")] = "",
    search: Annotated[str, typer.Option("--search", metavar="WORDS", help="Only those that have all the words.")] = "",
    limit: Annotated[int, typer.Option("--limit", help="How many.", min=1, max=200)] = 50,
    before: Annotated[int, typer.Option("--before", metavar="NUMBER", help="The next page.", min=0)] = 0,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """List letters, the newest first; an agent in its turn sees its own."""
    from urllib.parse import urlencode

    named = {"from": sender, "to": to, "kind": kind, "status": status, "thread": thread, "search": search}
    query = {key: value for key, value in named.items() if value} | {"limit": limit}
    query |= {"before": before} if before else {}
    query |= {"unread": "true"} if unread else {}

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.views import mail as showing
        from agenttalk.rules.mail.letters import OPERATOR

        whose = to or (OPERATOR if unread else "")
        asked = showing.MailQuery(sender, whose, kind, status, thread, search, unread, before, limit)
        return dict(await showing.list_letters(deps, asked))

    out, ask = _connect(ctx, root, as_json)
    found = ask(f"/api/mail?{urlencode(query)}", by_hand, None)
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    for each in found["mails"]:
        _tell(out, each)
    if not found["mails"]:
        out.say("no letters")
    if found["next"] is not None:
        out.say(f"[dim]there are more: --before {found['next']}[/]")
    return 0


@app.command("read")
def read(ctx: typer.Context, mail: MailArgument, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Show a letter. Whoever it is for has read it then."""

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.mail.board import MailBoard
        from agenttalk.engine.views import mail as showing
        from agenttalk.rules.mail.letters import OPERATOR

        await MailBoard(deps).mark_read(mail, OPERATOR)
        return dict(await showing.read_letter(deps, mail))

    out, ask = _connect(ctx, root, as_json)
    found = ask(f"/api/mail/{_quoted(mail)}", by_hand, None)
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    _tell(out, found)
    out.say("")
    out.say(sanitize(found["body"]))
    return 0


def _tell(out: CommandOutput, each: dict[str, Any]) -> None:
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


def _letter_fields(text: str, request: bool, deadline: str | None, mail_id: str | None) -> dict[str, Any]:  # noqa: FBT001 - as given
    return {
        "kind": "request" if request else "inform",
        "body": sys.stdin.read() if text == "-" else text,
        "deadline": _moment(deadline) if deadline is not None else None,
        "message_id": mail_id,
    }


def _moment(text: str) -> str:
    """A time as documents write it; spans count from now."""
    span = _SPAN.fullmatch(text.strip())
    if span is None:
        return text
    from datetime import timedelta

    from agenttalk.contracts.core.base import write_time
    from agenttalk.wiring import SystemClock

    return write_time(SystemClock().now() + timedelta(seconds=int(span[1]) * _SECONDS[span[2]]))


def _send_letter(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    path: str,
    body: dict[str, Any],
    do: Callable[[Any, LetterDraft, Any], Awaitable[dict[str, Any]]],
) -> int:
    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.core.access import Caller
        from agenttalk.engine.mail.board import MailBoard
        from agenttalk.engine.mail.letters import parse_draft
        from agenttalk.rules.mail.letters import OPERATOR

        post = MailBoard(deps)
        sent = await do(post, parse_draft(OPERATOR, body), Caller("operator", OPERATOR))
        await post.pass_()
        return sent

    out, ask = _connect(ctx, root, as_json)
    sent = ask(path, by_hand, body)
    if out.as_json:
        out.write_json({"ok": True, **sent})
    else:
        out.say(f"[green]✓[/] {sanitize(sent['message_id'])} to {sanitize(', '.join(sent['to']))}")
    return 0


Ask = Callable[[str, Callable[["Deps"], Awaitable[dict[str, Any]]], "dict[str, Any] | None"], dict[str, Any]]


def _connect(ctx: typer.Context, root: Path | None, as_json: bool) -> tuple[CommandOutput, Ask]:  # noqa: FBT001 - as given
    """How to ask: in a turn with the agent's token, else as the operator, through the engine or on the root itself."""
    token = os.environ.get("AGENTTALK_TOKEN", "")
    http, socket = os.environ.get("AGENTTALK_API", ""), os.environ.get("AGENTTALK_SOCKET", "")
    if token and (http or socket):
        from agenttalk.adapters.store.root_lock import RunningEngine
        from agenttalk.doors.cli.core.engine_client import EngineClient

        client = EngineClient(RunningEngine(pid=0, http=http, socket=socket), token)

        def in_turn(path: str, _: Any, body: dict[str, Any] | None) -> dict[str, Any]:
            found: dict[str, Any] = client.get(path) if body is None else client.post(path, body)
            return found

        return CommandOutput(as_json=CommonOptions.merge(ctx, root, as_json).as_json), in_turn
    from agenttalk.doors.cli.core import root_access

    out, folder = root_access.choose_root(ctx, root, as_json)

    def as_operator(path: str, by_hand: Any, body: dict[str, Any] | None) -> dict[str, Any]:
        found: dict[str, Any] = root_access.ask_root(folder, path, by_hand, body)
        return found

    return out, as_operator


def _quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")
