"""Routes for letters. Agents write in their own name and see their own letters; operators see all."""

from __future__ import annotations

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import AgentIdText, Instant, Many, MessageIdText, Text
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_flag, read_number
from agenttalk.engine.core.access import Caller
from agenttalk.engine.mail.letters import LetterDraft
from agenttalk.engine.operation.service import Service
from agenttalk.engine.views import mail as showing
from agenttalk.rules.mail.letters import OPERATOR, Kind


class MailBody(bodies.Body):
    """A letter."""

    sender: AgentIdText | None = Field(default=None, alias="from")
    to: Many[AgentIdText] = Field(min_length=1)
    kind: Kind = "inform"
    subject: Text
    body: str
    in_reply_to: MessageIdText | None = None
    deadline: Instant | None = None
    message_id: MessageIdText | None = None


class ReplyBody(bodies.Body):
    """An answer to a letter."""

    sender: AgentIdText | None = Field(default=None, alias="from")
    to: Many[AgentIdText] = ()
    kind: Kind = "inform"
    subject: str = ""
    body: str
    deadline: Instant | None = None
    message_id: MessageIdText | None = None


async def send(service: Service, request: Request, caller: Caller) -> Response:
    """Send a letter."""
    said = await bodies.read(request, MailBody)
    caller = _writer(caller)
    draft = _draft(said, caller, said.in_reply_to)
    return to_json_response(await service.post.send(draft, caller, bodies.read_idempotency_key(request)), 201)


async def reply(service: Service, request: Request, caller: Caller) -> Response:
    """Answer a letter."""
    said = await bodies.read(request, ReplyBody)
    caller = _writer(caller)
    draft = _draft(said, caller)
    return to_json_response(
        await service.post.reply(request.path_params["id"], draft, caller, bodies.read_idempotency_key(request)), 201
    )


def _draft(said: MailBody | ReplyBody, caller: Caller, answers: str | None = None) -> LetterDraft:
    sender = said.sender or caller.name
    return LetterDraft(sender, said.to, said.kind, said.subject, said.body, answers, said.deadline, said.message_id)


async def list_letters(service: Service, request: Request, caller: Caller) -> Response:
    """Return a page of letters. An agent sees those that it received, unless it asks for those that it sent."""
    query = request.query_params
    viewer = _viewer(caller)
    to = query.get("to", "")
    unread = read_flag(query, "unread")
    if viewer is not None and not {"to", "from", "thread", "search"} & query.keys():
        to = viewer
    if unread and not to:
        to = OPERATOR
    asked = showing.MailQuery(
        sender=query.get("from", ""),
        to=to,
        kind=query.get("kind", ""),
        status=query.get("status", ""),
        thread=query.get("thread", ""),
        search=query.get("search", ""),
        unread=unread,
        before=read_number(query, "before"),
        limit=read_number(query, "limit") or showing.PAGE,
    )
    return to_json_response(await showing.list_letters(service.deps, asked, viewer))


async def get_letter(service: Service, request: Request, caller: Caller) -> Response:
    """Return a letter, and mark it as read if its addressee asks."""
    mail_id, viewer = request.path_params["id"], _viewer(caller)
    await showing.read_letter(service.deps, mail_id, viewer)
    if caller.role in {"agent", "operator"}:
        await service.post.mark_read(mail_id, _writer(caller).name)
    return to_json_response(await showing.read_letter(service.deps, mail_id, viewer))


async def threads(service: Service, request: Request, caller: Caller) -> Response:
    """Return a page of threads."""
    query = request.query_params
    limit, before = read_number(query, "limit") or showing.PAGE, read_number(query, "before")
    return to_json_response(await showing.list_threads(service.deps, _viewer(caller), before=before, limit=limit))


async def thread(service: Service, request: Request, caller: Caller) -> Response:
    """Return the letters of a thread, newest first."""
    query = request.query_params
    asked = showing.MailQuery(
        thread=request.path_params["id"],
        before=read_number(query, "before"),
        limit=read_number(query, "limit") or showing.PAGE,
    )
    found = await showing.list_letters(service.deps, asked, _viewer(caller))
    if not found["mails"] and not asked.before:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no thread {asked.thread[:140]!r}")
    return to_json_response(found)


def _viewer(caller: Caller) -> str | None:
    return caller.name if caller.role == "agent" else None


def _writer(caller: Caller) -> Caller:
    """Return the party in whose name a caller writes and reads: an agent itself, or all operators."""
    return caller if caller.role == "agent" else Caller(caller.role, OPERATOR)
