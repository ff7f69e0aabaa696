"""Who may come in: links and sessions, forms that only our own pages can send, and preferences."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, unquote

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.doors.pages.page import HEADERS, THEMES, PageContext, Theme, render_page
from agenttalk.engine.operation.service import Service
from agenttalk.engine.operation.sessions import SESSION, Session
from agenttalk.engine.views.root_status import count_waiting
from agenttalk.rules.operation import feed
from agenttalk.rules.text.message import LOCALES, read_locale
from agenttalk.rules.text.page_words import FORM_ERRORS

LOG = logging.getLogger(__name__)
View: TypeAlias = "Callable[[Service, Request, PageContext], Awaitable[Response]]"
FormAction: TypeAlias = "Callable[[Service, Request, PageContext, FormData], Awaitable[FormResult | Response]]"
"""Does what a form asks for. It tells what was done, or has a page of its own to show why nothing was."""
LIMIT: Final = 16 * 1024 * 1024
"""Bytes of a form, files included."""
_FIELDS: Final = 100
_LANGUAGE: Final = "agenttalk_language"
_THEME: Final = "agenttalk_theme"
_YEAR: Final = 365 * 86400
_TOLD: Final = 600
_STATUS: Final = {
    Code.NAME_UNKNOWN: 404,
    Code.TASK_NOT_FOUND: 404,
    Code.NOT_ALLOWED: 403,
    Code.ANSWER_REFUSED: 409,
    Code.REPLAY_REFUSED: 409,
    Code.STORE_CONFLICT: 409,
    Code.JSON_TOO_LARGE: 413,
}


class FormResult(NamedTuple):
    """A message after an action, and the page that shows it."""

    text: str
    where: str


class PageRoute(Route):
    """A page, or what a form of a page asks for."""


def make_page_route(service: Service, path: str, view: View) -> Route:
    """Show a page. A browser that is not logged in gets a page that says how to log in."""

    async def work(request: Request, reader: PageContext, _: Session) -> Response:
        return _forget_notice(request, await view(service, request, reader))

    return PageRoute(path, _require_session(service, "page", work), methods=["GET"])


def make_form_route(service: Service, path: str, act: FormAction) -> Route:
    """Make the route of a form: only for operators, and only from a page of the same session."""

    async def work(request: Request, reader: PageContext, session: Session) -> Response:
        sent = await _form(request)
        _require_own(session, sent)
        _require_operator(reader)
        try:
            told = await act(service, request, reader, sent)
        finally:
            await sent.close()
        if isinstance(told, Response):
            return told
        service.feed.nudge()
        answer = RedirectResponse(told.where, 303, headers=HEADERS)
        answer.set_cookie(_cookie_name(request, "told"), quote(told.text[:_TOLD]), max_age=60, **_KEPT)
        return answer

    return PageRoute(path, _require_session(service, "form", work), methods=["POST"])


def _require_session(
    service: Service, what: str, work: Callable[[Request, PageContext, Session], Awaitable[Response]]
) -> Callable[[Request], Awaitable[Response]]:
    """Carry out a form for a logged-in browser; an error is shown on a page."""

    async def guarded(request: Request) -> Response:
        reader = await _reader(service, request)
        if reader.session is None:
            return render_page("login", reader, 401, bad=False)
        try:
            return await work(request, reader, reader.session)
        except AgentTalkError as error:
            return _trouble(reader, error)
        except Exception:
            LOG.exception("a %s failed", what, extra={"action": "pages.failed"})
            return _trouble(reader, MachineError(Code.UNHANDLED_EXCEPTION, FORM_ERRORS["failed"]()))

    return guarded


def make_login_routes(service: Service) -> list[Route]:
    """Coming in, going out, and how one wants to read."""

    async def login(request: Request) -> Response:
        reader = await _reader(service, request)
        key = request.query_params.get("key", "")
        # Who asks for the head alone, as programs do that show links, does not come in, and uses nothing up.
        secret = await service.sessions.open(key) if key and request.method == "GET" else None
        if secret is None:
            return render_page("login", reader, 401 if key else 200, bad=bool(key))
        # Not a redirect: a browser that comes from another site would leave the cookie out of the request after it.
        answer = render_page("welcome", reader)
        answer.set_cookie(
            _cookie_name(request, "session"),
            secret,
            max_age=int(SESSION.total_seconds()),
            secure=request.url.scheme == "https",
            **_KEPT,
        )
        return answer

    async def logout(request: Request) -> Response:
        reader, _, trouble = await _read_open_form(service, request)
        if trouble is not None:
            return trouble
        await service.sessions.end(_secret(request))
        answer = render_page("login", replace(reader, session=None), bad=False)
        answer.delete_cookie(_cookie_name(request, "session"), **_KEPT)
        return answer

    async def preferences(request: Request) -> Response:
        _, sent, trouble = await _read_open_form(service, request)
        if trouble is not None:
            return trouble
        answer = RedirectResponse(_own_address(str(sent.get("where", "/"))), 303, headers=HEADERS)
        for name, key, known in ((_LANGUAGE, "language", LOCALES), (_THEME, "theme", THEMES)):
            if sent.get(key) in known:
                answer.set_cookie(name, str(sent[key]), max_age=_YEAR, **_KEPT)
        return answer

    return [
        PageRoute("/login", login, methods=["GET"]),
        PageRoute("/logout", logout, methods=["POST"]),
        PageRoute("/preferences", preferences, methods=["POST"]),
    ]


async def _read_open_form(service: Service, request: Request) -> tuple[PageContext, FormData, Response | None]:
    """Read a form that needs no login; a logged-in browser has to send it from a page of its own session."""
    reader = await _reader(service, request)
    try:
        sent = await _form(request)
        if reader.session is not None:
            _require_own(reader.session, sent)
    except AgentTalkError as error:
        return reader, FormData(), _trouble(reader, error)
    return reader, sent, None


_KEPT: Final[dict[str, Any]] = {"path": "/", "httponly": True, "samesite": "strict"}


async def session_of(service: Service, request: Request) -> Session | None:
    """Find the session of a request."""
    return await service.sessions.find(_secret(request))


def _cookie_name(request: Request, what: str) -> str:
    """Return the name of a cookie. Browsers share cookies between the ports of a host, so the port is part of it."""
    return f"agenttalk_{what}_{request.url.port or 80}"


def _secret(request: Request) -> str:
    return request.cookies.get(_cookie_name(request, "session"), "")


async def _reader(service: Service, request: Request) -> PageContext:
    session = await session_of(service, request)
    return PageContext(
        language=_language(request),
        theme=_theme(request),
        session=session,
        path=request.url.path,
        now=service.deps.now(),
        cursor=feed.encode_cursor(await service.feed.read_position()) if session is not None else "",
        waiting=(await count_waiting(service.deps))[0] if session is not None else 0,
        told=unquote(request.cookies.get(_cookie_name(request, "told"), ""))[:_TOLD] if session is not None else "",
    )


def _language(request: Request) -> Locale:
    """Return the chosen language, else the one that the browser asks for."""
    chosen = request.cookies.get(_LANGUAGE, "")
    if chosen in LOCALES:
        return chosen
    return read_locale(request.headers.get("accept-language", ""))


def _theme(request: Request) -> Theme:
    chosen = request.cookies.get(_THEME, "")
    return chosen if chosen in THEMES else "auto"


def _forget_notice(request: Request, answer: Response) -> Response:
    """Show a message once, and not to the script that polls for news."""
    if _cookie_name(request, "told") in request.cookies and "x-fragment" not in request.headers:
        answer.delete_cookie(_cookie_name(request, "told"), **_KEPT)
    return answer


def _trouble(reader: PageContext, error: AgentTalkError) -> Response:
    status = _STATUS.get(Code(error.code), 400 if isinstance(error, UsageError) else 500)
    return render_page("trouble", reader, status, error=error)


def _require_operator(reader: PageContext) -> None:
    if not reader.may_act:
        raise UsageError(Code.NOT_ALLOWED, FORM_ERRORS["viewer"]())


def _require_own(session: Session, sent: FormData) -> None:
    if not hmac.compare_digest(str(sent.get("form_key", "")).encode(), session.form_key.encode()):
        raise UsageError(Code.NOT_ALLOWED, FORM_ERRORS["not_own"](), hint=FORM_ERRORS["open_anew"]())


async def _form(request: Request) -> FormData:
    """Read a form. One that is too large is refused before it is stored."""
    left = LIMIT
    receive = request.receive

    async def counted() -> Message:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        if left < 0:
            raise UsageError(Code.JSON_TOO_LARGE, FORM_ERRORS["too_large"](most=LIMIT))
        return message

    limited = Request(request.scope, counted)
    try:
        return await limited.form(max_files=_FIELDS, max_fields=_FIELDS, max_part_size=LIMIT)
    except AgentTalkError:
        raise
    except Exception as error:
        raise UsageError(Code.OPTION_INVALID, FORM_ERRORS["unreadable"]()) from error


def _own_address(text: str) -> str:
    """Return an address on these pages; any other address leads to the first page."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) and "\n" not in text else "/"
