"""Errors as answers: `application/problem+json` with our code."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import Response

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.errors import (
    MEANINGS,
    AgentTalkError,
    Code,
    ContractError,
    InputError,
    JsonError,
    MachineError,
)
from agenttalk.rules.text.message import render, render_all

LOG = logging.getLogger(__name__)
JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
STATUS: Final = {
    Code.TOKEN_REFUSED: 401,
    Code.FORGE_SIGNATURE_REFUSED: 401,
    Code.NOT_ALLOWED: 403,
    Code.PERSON_NEEDED: 403,
    Code.LEASE_LOST: 403,
    Code.HOST_REFUSED: 421,
    Code.NAME_UNKNOWN: 404,
    Code.TASK_NOT_FOUND: 404,
    Code.BLOB_MISSING: 404,
    Code.JSON_TOO_LARGE: 413,
    Code.ANSWER_REFUSED: 409,
    Code.DISPUTE_REFUSED: 409,
    Code.REPLAY_REFUSED: 409,
    Code.STORE_CONFLICT: 409,
    Code.KEY_REUSED: 409,
    Code.KEY_IN_USE: 409,
    Code.KEY_IN_DOUBT: 409,
}
"""Codes that have a status of their own."""


class ValueResponse(Response):
    """A JSON value as an answer. No cache stores it."""

    def __init__(self, value: wire.JsonValue | Mapping[str, object], status: int = 200) -> None:
        """Write the value with its texts in English."""
        self.value = value
        data = wire.write(value)
        super().__init__(data, status, headers={"Cache-Control": "no-store"}, media_type=JSON)


def to_json_response(value: wire.JsonValue | Mapping[str, object], status: int = 200) -> ValueResponse:
    """Make an answer of a JSON value. No cache stores it."""
    return ValueResponse(value, status)


def translate_response(response: Response, locale: Locale) -> Response:
    """Return an answer in which the sentences of the engine are in a language."""
    if locale == "en" or not isinstance(response, ValueResponse):
        return response
    return ValueResponse(render_all(response.value, locale), response.status_code)


def to_problem_response(
    error: AgentTalkError,
    status: int | None = None,
    *,
    hide: Callable[[Any], Any] = lambda body: body,
    locale: Locale = "en",
) -> Response:
    """Return an error as an answer; the status follows from its code. `hide` removes secrets from its texts."""
    code = Code(error.code)
    status = status or _status(error)
    body: dict[str, wire.JsonValue] = {
        "type": f"urn:agenttalk:{code}",
        "title": MEANINGS[code].text,
        "status": status,
        "code": str(code),
        "detail": render(error.message, locale),
        "hint": render(error.hint, locale),
    }
    if isinstance(error, ContractError):
        body["problems"] = [
            {
                "code": str(problem.code),
                "field": problem.field,
                "message": render(problem.message, locale),
                "hint": render(problem.hint, locale),
            }
            for problem in error.problems
        ]
    headers = {"Cache-Control": "no-store", **({"WWW-Authenticate": "Bearer"} if status == 401 else {})}
    # Text that came from outside may hold half characters, which JSON in UTF-8 cannot.
    return Response(wire.write(_whole(hide(body))), status, headers=headers, media_type=PROBLEM)


def to_error_response(error: Exception, hide: Callable[[Any], Any], locale: Locale = "en") -> Response:
    """Return the answer to a request that raised an error; the details go to the log."""
    if isinstance(error, AgentTalkError):
        return to_problem_response(error, hide=hide, locale=locale)
    LOG.error("a request failed", extra={"action": "api.request"}, exc_info=error)
    message = "an error in AgentTalk itself ended the request; the log of the engine has the traceback"
    return to_problem_response(MachineError(Code.UNHANDLED_EXCEPTION, message))


def _status(error: AgentTalkError) -> int:
    if error.code in STATUS:
        return STATUS[Code(error.code)]
    if isinstance(error, JsonError):
        return 400
    if isinstance(error, InputError):
        return 422
    return 503 if error.retriable else 500


def _whole(body: dict[str, wire.JsonValue]) -> dict[str, wire.JsonValue]:
    return {
        key: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for key, value in body.items()
    }
