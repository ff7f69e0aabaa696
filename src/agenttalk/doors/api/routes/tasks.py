"""Routes for tasks: what attempts read and report, and commands and promises that are made for them."""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from dataclasses import replace
from typing import Any, Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.adapters.mailbox import root_reader
from agenttalk.contracts.command import make_command_id
from agenttalk.contracts.core.base import Text, is_id
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.bodies import Body
from agenttalk.doors.api.problems import to_json_response
from agenttalk.doors.api.query import read_number
from agenttalk.doors.api.roles import AGENTS
from agenttalk.engine.core import boards, task_comments
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.task_comments import TaskContribution, TaskName
from agenttalk.engine.messages import sent_commands
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people import agent_questions
from agenttalk.engine.proof import disputes
from agenttalk.engine.views import promise_preview, toolchain
from agenttalk.ports.statements.plans import LAST_SEQ
from agenttalk.rules.agents.progress_notes import note_of
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.commands import envelopes, generation, new_promise, validation
from agenttalk.rules.commands.validation import NOTHING, Known

FILE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of a request with a file."""


class ArtifactBody(Body):
    """A file of an output: its `text`, or its `content` in base64."""

    output: Text
    path: str = ""
    """Inside the output; its name, if it is one file."""
    text: str | None = None
    content: str | None = None


class ResultBody(Body):
    """The result of an attempt, as its agent says."""

    result: Any = None
    score: float | None = Field(default=None, strict=False)
    score_explanation: str | None = None
    evidence: list[Any] | None = None
    """Evidence that it says it has."""
    usage: JsonObject | None = None
    self_assessment: JsonObject | None = None
    error: str | None = None
    """Why it failed, if it did."""


class QuestionBody(Body):
    """What a person is asked."""

    question: Text


class DisputeBody(Body):
    """Which check is wrong, and why."""

    check: Text
    reason: Text


class ParamsBody(Body):
    """Fields of a command that is to be made."""

    params: JsonObject
    locale: str = "en"


class PromiseBody(Body):
    """What a promise is made of."""

    objective: Text
    """What is to be so in the end."""
    checks: list[JsonObject] = Field(min_length=1)
    """Checks, each with its `kind`; an `id` is given to those that have none."""
    criteria: list[JsonObject] = Field(default_factory=list)
    """What has to be shown; by default one criterion for each check."""
    allowed_scope: list[str] = Field(default_factory=list)
    """Globs of what may be changed."""
    disallowed_scope: list[str] = Field(default_factory=list)
    """Globs of what must not be changed."""


class CommandBody(Body):
    """A command, or its envelope, that is to be checked."""

    command: JsonObject


async def get_task(service: Service, request: Request, _: Caller, task: TaskName) -> Response:
    """Show a task with its comments and outputs."""
    after = read_number(request.query_params, "after")
    stale = await service.plans.find_stale_tasks(task.plan_id)
    shown = await task_comments.read_task(service.deps, task, after=after, stale=stale)
    return to_json_response({**shown, **(await toolchain.read_toolchain_fields(service.deps, task) or {})})


async def add_comment(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Add a comment."""
    body = await bodies.read(request, bodies.CommentBody)
    remark = TaskContribution("comment", body.author, body.comment_type, body.body, body.claims)
    return to_json_response(
        await task_comments.post_contribution(
            service.deps, task, remark, caller, key=bodies.read_idempotency_key(request)
        ),
        201,
    )


async def add_output(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Add a text output."""
    body = await bodies.read(request, bodies.OutputBody)
    remark = TaskContribution("output", caller.name, body.type, body.content)
    return to_json_response(
        await task_comments.post_contribution(
            service.deps, task, remark, caller, key=bodies.read_idempotency_key(request)
        ),
        201,
    )


async def report_progress(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Report the progress of an attempt."""
    body = await bodies.read(request, bodies.ProgressBody)
    return to_json_response(service.report_progress(task, note_of(body.model_dump()), caller))


async def get_input(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Return a file of an input, unchanged."""
    name, path = request.query_params.get("name", ""), request.query_params.get("path", "")
    data = await service.remote_agents.read_input(task, caller, name, path)
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(data, headers=headers, media_type="application/octet-stream")


async def submit_artifact(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Take in a file of an output."""
    body = await bodies.read(request, ArtifactBody, limit=FILE_LIMIT)
    if (body.text is None) == (body.content is None):
        raise UsageError(Code.FIELD_VALUE, "a file has a text, or a content in base64", hint="give one of them")
    data = body.text.encode() if body.text is not None else _decoded(body.content or "")
    path = body.path or body.output.rpartition("/")[2]
    return to_json_response(await service.remote_agents.submit(task, caller, body.output, path, data), 201)


async def submit_result(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Take in the result of an attempt."""
    body = await bodies.read(request, ResultBody)
    return to_json_response(await service.remote_agents.finish(task, caller, body.model_dump(exclude_none=True)), 201)


async def preview_promise(service: Service, _: Request, __: Caller, task: TaskName) -> Response:
    """Return what a task promises, and what is missing of it."""
    return to_json_response(await promise_preview.preview_promise(service.deps, task))


async def explain(service: Service, _: Request, caller: Caller, task: TaskName) -> Response:
    """Explain the state of a task. Agents do not get to know what hidden checks found."""
    told = await service.plans.explain(task.plan_id, task.task_id)
    if caller.role in AGENTS:
        told = hidden_checks.hide_results(told, await promise_preview.list_hidden_checks(service.deps, task))
    return to_json_response(told)


async def ask_question(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Put a question to a person."""
    body = await bodies.read(request, QuestionBody)
    return to_json_response(await agent_questions.ask(service.deps, task, caller, body.question), 201)


async def dispute(service: Service, request: Request, caller: Caller, task: TaskName) -> Response:
    """Say that a check of the task is wrong."""
    body = await bodies.read(request, DisputeBody)
    return to_json_response(await disputes.dispute(service.deps, task, caller, body.check, body.reason), 201)


async def get_question(service: Service, request: Request, _: Caller, task: TaskName) -> Response:
    """Return the answer to a question."""
    return to_json_response(await agent_questions.read_answer(service.deps, task, request.path_params["id"]))


async def generate_command(service: Service, request: Request, _: Caller, task: TaskName) -> Response:
    """Make a command in the plan of a task."""
    body = await bodies.read(request, ParamsBody)
    _require_own(body.params, task)
    return to_json_response(await _generated(service, body))


async def validate_command(service: Service, request: Request, _: Caller, task: TaskName) -> Response:
    """Check a command in the plan of a task."""
    body = await bodies.read(request, CommandBody)
    _require_own(_command_in(body.command), task)
    return to_json_response(await _validated(service, body))


async def make_promise(service: Service, request: Request, _: Caller) -> Response:
    """Make a promise, which is valid."""
    body = await bodies.read(request, PromiseBody)
    ms = int(service.deps.now().timestamp() * 1000)
    made = new_promise.make(body.model_dump(), ms=ms, random=secrets.randbelow(1 << 16))
    return to_json_response({"ok": True, "promise": made.as_json()})


async def generate(service: Service, request: Request, _: Caller) -> Response:
    """Make a command."""
    return to_json_response(await _generated(service, await bodies.read(request, ParamsBody)))


async def validate(service: Service, request: Request, _: Caller) -> Response:
    """Check a command."""
    return to_json_response(await _validated(service, await bodies.read(request, CommandBody)))


async def refuse_state_change(_: Service, __: Request, caller: Caller) -> Response:
    """Refuse to set a state: only the engine does."""
    raise UsageError(
        Code.NOT_ALLOWED,
        "only the engine sets the state of a task, from what it finds",
        hint="submit an action report and end your turn"
        if caller.role == "agent"
        else "see 'agenttalk retry', 'answer' and 'cancel'",
    )


async def _generated(service: Service, body: ParamsBody) -> JsonObject:
    if body.locale not in {"en", "zh"}:
        raise UsageError(Code.FIELD_VALUE, "a locale is en or zh")
    known = await _known(service, body.params)
    answer = generation.generate(body.params, known, locale="zh" if body.locale == "zh" else "en").as_json()
    await sent_commands.log_command(service.deps, "generated", _subject(body.params), answer)
    return answer


async def _validated(service: Service, body: CommandBody) -> JsonObject:
    said = _command_in(body.command)
    known = await _known(service, said)
    check = validation.validate if said is body.command else envelopes.validate
    answer = check(body.command, known).as_json()
    await sent_commands.log_command(service.deps, "validated", _subject(said), answer)
    return answer


def _command_in(said: JsonObject) -> JsonObject:
    """Return the command of an envelope, or the body if it is a command itself."""
    if "message_id" not in said and "type" not in said:
        return said
    found = envelopes.extract_command(said)
    return found if isinstance(found, dict) else {}


async def _known(service: Service, said: JsonObject) -> Known:
    plan_id, task_id = generation.read_identity(said)
    if plan_id is None:
        return NOTHING
    found = await asyncio.to_thread(root_reader.read_known, service.deps.root.path, plan_id, task_id)
    if not isinstance(plan_id, str) or not isinstance(task_id, str) or not is_id(plan_id) or not is_id(task_id):
        return found
    # Folders follow the store within a second; a command that has no file yet counts, too.
    board = await boards.board_of(service.deps, plan_id)
    last = (await board.read(LAST_SEQ, plan_id=plan_id, task_id=task_id))[0].seq
    newer = {make_command_id(task_id, seq) for seq in range(found.last_seq + 1, last + 1)}
    ids = frozenset({*found.command_ids, *newer})
    return replace(found, last_seq=max(last, found.last_seq), command_ids=ids)


def _require_own(said: JsonObject, task: TaskName) -> None:
    """Require that an attempt makes commands for its own plan only, so that it learns of no other plan."""
    named = generation.read_identity(said)[0]
    if named is not None and named != task.plan_id:
        hint = f"its own is {task.plan_id}"
        raise UsageError(Code.NOT_ALLOWED, "this token makes commands for its own plan alone", hint=hint)


def _subject(said: JsonObject) -> str:
    return "/".join(str(part)[:128] for part in generation.read_identity(said) if part) or "unknown"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(Code.FIELD_VALUE, "the content is not base64") from error
