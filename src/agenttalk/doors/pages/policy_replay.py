"""The page on which past work is held against a policy. It only asks: nothing is changed by it."""

from __future__ import annotations

from typing import Any, Final

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenttalk.contracts.errors import Code, ContractError, UsageError
from agenttalk.contracts.policy import AuditPolicy, read_policy
from agenttalk.doors.pages.page import PageContext, render_page
from agenttalk.doors.pages.sessions import make_form_route, make_page_route
from agenttalk.engine.operation.service import Service
from agenttalk.engine.proof import policy_replay

_LONGEST: Final = 64 * 1024
"""Bytes of a policy."""
_FIELDS: Final = ("since", "plan", "board", "before")


def routes(service: Service) -> list[Route]:
    """Show the form and its result, to readers who may use the same route of the API."""
    return [make_page_route(service, "/ledger/replay", show_form), make_form_route(service, "/ledger/replay", replay)]


async def show_form(_: Service, request: Request, reader: PageContext) -> Response:
    """Show the empty form."""
    return _page(reader, "", {"plan": request.query_params.get("plan", "")[:200]})


async def replay(service: Service, _: Request, reader: PageContext, sent: FormData) -> Response:
    """Show a page of what a policy would have refused, or the problems of the policy."""
    said = {name: _text(sent, name) for name in _FIELDS}
    text = ""
    try:
        text = await _policy(sent)
        policy = _read(text)
        before = int(said["before"]) if said["before"].isascii() and said["before"].isdecimal() else 0
        asked = policy_replay.ReplayQuery(
            policy, policy_replay.parse_since(said["since"]), said["plan"], said["board"], min(before, 2**53)
        )
        found = await policy_replay.replay_page(service.deps, asked)
    except (ContractError, UsageError) as error:
        problems = error.problems if isinstance(error, ContractError) else ()
        faults = [f"{each.field}: {each.message}" if each.field else each.message for each in problems]
        return _page(reader, text, said, 400, faults=faults or [error.message], hint=error.hint)
    return _page(reader, text, said, found=found)


def _page(
    reader: PageContext, policy: str, asked: dict[str, str], status: int = 200, *, found: Any = None, **more: Any
) -> Response:
    return render_page("replay", reader, status, policy=policy, asked=asked, found=found, **more)


async def _policy(sent: FormData) -> str:
    """Return the policy that was written, or the file that was chosen. Raises UsageError."""
    chosen, written = sent.get("file"), _text(sent, "policy")
    if isinstance(chosen, UploadFile) and chosen.filename:
        data = await chosen.read(_LONGEST + 1)
        written = data.decode("utf-8", "replace")
    if len(written) > _LONGEST:
        raise UsageError(Code.JSON_TOO_LARGE, f"a policy has at most {_LONGEST:,} bytes")
    return written.replace("\r\n", "\n")


def _read(text: str) -> AuditPolicy:
    """Read a policy in YAML or JSON. Raises ContractError."""
    return read_policy(text.encode("utf-8", "replace"), yaml=not text.lstrip().startswith("{"))


def _text(sent: FormData, name: str) -> str:
    value = sent.get(name)
    return value if isinstance(value, str) else ""
