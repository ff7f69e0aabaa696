"""Routes for what people are asked, for what was refused, and for coming in to the pages."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_page_position
from agenttalk.doors.pages.files import respond_with_blob
from agenttalk.engine.core.access import Caller
from agenttalk.engine.messages import dead_letters as refused
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people import exhibits, questions
from agenttalk.rules.people.attestation import AnswerProof


async def login_link(service: Service, request: Request, caller: Caller) -> Response:
    """Make a link that opens the pages once."""
    body = await bodies.read(request, bodies.LoginBody)
    key = service.sessions.make_link(body.role, body.by or caller.name)
    return to_json_response({"path": f"/login?key={key}"}, 201)


async def requests(service: Service, request: Request, _: Caller) -> Response:
    """Open questions, a page of them."""
    after, limit = read_page_position(request, questions.PAGE)
    found = await questions.read_page(service.deps, after=after, limit=limit)
    return to_json_response({"requests": [each.as_json() for each in found.requests], "next": found.next})


async def request(service: Service, request: Request, _: Caller) -> Response:
    """Return a question."""
    return to_json_response((await service.messages.find_question(request.path_params["id"])).as_json())


async def answer(service: Service, request: Request, caller: Caller) -> Response:
    """Answer a question."""
    body = await bodies.read(request, bodies.AnswerBody, limit=bodies.ANSWER_LIMIT)
    answer = await service.messages.answer(
        request.path_params["id"],
        by=body.by or caller.name,
        proof=AnswerProof("token", caller.name),
        decision=body.decision,
        files=body.decode_files(),
        answers=body.answers,
        notes=body.notes,
        seen_sha256=body.seen_sha256,
        again=bodies.read_idempotency_key(request) is not None,
    )
    return to_json_response(answer)


async def get_exhibit(service: Service, request: Request, _: Caller) -> Response:
    """Return a file that a question is about."""
    digest = request.path_params["sha256"]
    board, name = await exhibits.find_file(service.deps, request.path_params["id"], digest)
    blobs = await service.deps.stores.blobs(board)
    return await respond_with_blob(blobs, digest, name, wanted=request.headers.get("range", ""))


async def deadletters(service: Service, request: Request, _: Caller) -> Response:
    """Dead letters, a page of them."""
    after, limit = read_page_position(request, refused.PAGE)
    found = await refused.read_page(service.deps, after=after, limit=limit)
    return to_json_response({"deadletters": found.letters, "next": found.next})


async def deadletter(service: Service, request: Request, _: Caller) -> Response:
    """Return a dead letter with its original."""
    return to_json_response(await service.messages.read_dead_letter(request.path_params["id"]))


async def replay_deadletter(service: Service, request: Request, caller: Caller) -> Response:
    """Judge a dead letter again."""
    return to_json_response(await service.messages.replay(request.path_params["id"], by=caller.name))
