"""Questions to people."""

from __future__ import annotations

from typing import Final, NamedTuple

from agenttalk.ports.statements.keys import RequestIdRow
from agenttalk.ports.statements.statement import Statement


class RequestRow(NamedTuple):
    """A question to a person, with its answer."""

    request_id: str
    plan_id: str
    task_id: str | None
    agent_id: str
    body: bytes
    sha256: str
    at: str
    state: str
    response: bytes | None
    answered_at: str | None
    answered_by: str | None
    proof: str | None


ADD_REQUEST: Final = Statement("add_request", RequestIdRow)
REQUEST: Final = Statement("request", RequestRow)
OPEN_REQUESTS: Final = Statement("open_requests", RequestRow)
OPEN_REQUESTS_OF: Final = Statement("open_requests_of", RequestIdRow)
OPEN_REQUESTS_IN: Final = Statement("open_requests_in", RequestIdRow)
ANSWER_REQUEST: Final = Statement("answer_request", RequestIdRow)
