"""Bodies of requests: read up to a limit, strictly, and checked against what is asked for."""

import asyncio
import base64
import binascii
from collections.abc import AsyncIterator, Collection
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.types import Receive

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import AgentIdText, IdText, RelativePath, TaskIdText, Text
from agenttalk.contracts.core.problems import find_nearest, problems_of
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import Code, ContractError, JsonError, MachineError, Problem, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.promise import Checkpoint
from agenttalk.engine.core.task_comments import CommentType
from agenttalk.engine.messages.sent_commands import CommandLogKind
from agenttalk.engine.people.questions import AnswerDecision
from agenttalk.rules.plans import dag_checks

LIMIT: Final = 1024 * 1024
ANSWER_LIMIT: Final = 64 * 1024 * 1024
PLAN_LIMIT: Final = 64 * 1024 * 1024
"""Answers bring files along."""
LONGEST_KEY: Final = 255
PATIENCE: Final = 60.0
"""Seconds in which a body has to be here."""

Model = TypeVar("Model", bound="Body")


class Body(BaseModel):
    """The body of a request. Unknown fields are errors: a misspelt field would be ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class PassBody(Body):
    """Which part shall look."""

    part: str
    agent: AgentIdText | None = None


class AnswerBody(Body):
    """A person's answer. `files` are names and their contents in base64."""

    decision: AnswerDecision
    files: dict[RelativePath, str] = Field(default_factory=dict, max_length=1000)
    answers: list[Any] = Field(default_factory=list)
    notes: str | None = None
    seen_sha256: Text
    """The hash of the question as the person saw it."""
    by: Text | None = None
    """Who answers, in the operator's words; the label of the token when it is not said."""

    def decode_files(self) -> dict[str, bytes]:
        """Decode the files. Raises ContractError."""
        found: dict[str, bytes] = {}
        problems = []
        for name, text in self.files.items():
            try:
                found[name] = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                problems.append(Problem(Code.FIELD_VALUE, f"files.{name}", "not base64"))
        if problems:
            raise _refusal(problems)
        return found


class PlanBody(Body):
    """A plan that is to run: the documents that a plan file compiles to."""

    dag: dict[str, Any]
    manifest: dict[str, Any]
    profiles: dict[str, dict[str, Any]]
    files: list[str] = Field(default_factory=list)
    """Contents that its checks refer to by their hashes, in base64."""

    def decode_files(self) -> dict[str, bytes]:
        """Decode the files by their hashes; raises ContractError."""
        try:
            found = [base64.b64decode(each, validate=True) for each in self.files]
        except ValueError as error:
            problem = Problem(Code.FIELD_VALUE, "files", f"not base64: {error}")
            raise ContractError(problem.code, problem.message, [problem]) from error
        return {wire.sha256(data): data for data in found}

    def read_documents(self) -> tuple[TaskDag, PlanManifest, dict[str, AgentProfile]]:
        """Read the documents of the body strictly. Raises ContractError."""
        profiles = {name: AgentProfile.from_json(each) for name, each in self.profiles.items()}
        return TaskDag.from_json(self.dag), PlanManifest.from_json(self.manifest), profiles


def require_valid_dag(dag: TaskDag, agents: Collection[str]) -> None:
    """Raises ContractError with everything that is wrong with a DAG, unknown agents included."""
    found = dag_checks.check(dag, agents=agents).problems
    if found:
        raise _refusal(list(found))


class SteerBody(Body):
    """What an operator does with a plan."""

    task: TaskIdText | None = None
    onwards: bool = Field(default=False, alias="from")
    """Whether everything that hangs on the task is run again, too."""
    why: str | None = None
    checkpoint: Checkpoint | None = None
    """Which one is overridden."""
    answer: str = ""
    """The decision about a task that has no round of rework left: `grant N`, `accept` or `abort`."""
    by: Text | None = None


class VerifyBody(Body):
    """The task to verify again; without it, all tasks of the plan."""

    task: TaskIdText | None = None


class MergedBody(Body):
    """What a person merged."""

    commit: Text
    into: Text | None = None
    """The branch that it was merged into; the one that was checked out when it is not said."""
    stale: bool = False
    """Whether it was merged without checking that everything proven still holds."""
    by: Text | None = None


class LoginBody(Body):
    """For whom a link to the pages is made."""

    role: Literal["operator", "viewer"] = "operator"
    by: Text | None = None


class ReloadBody(Body):
    """In whose name settings are read again."""

    by: Text | None = None


class ReconcileBody(Body):
    """Whether to only look."""

    dry_run: bool = False


class GcBody(Body):
    """Whether to only look."""

    dry_run: bool = False


class SendBody(Body):
    """A command to be sent in the operator's name."""

    command: dict[str, Any]


class LogBody(Body):
    """The result of making or checking a command for this root."""

    what: CommandLogKind
    subject: Text
    ok: bool
    repairs: list[dict[str, Any]] = Field(default_factory=list)
    errors: list[dict[str, Any]] = Field(default_factory=list)


class CommentBody(Body):
    """A comment on a task."""

    author: IdText
    comment_type: CommentType
    body: Text
    claims: list[dict[str, Any]] | dict[str, Any] | None = None


class ProgressBody(Body):
    """What an attempt tells of itself while it runs."""

    usage: dict[str, Any] = Field(default_factory=dict)
    """Tokens, cost_usd and tool_calls since it began."""
    progress: str = ""
    """What it is doing."""


class OutputBody(Body):
    """What is handed in for a task."""

    content: Text
    type: Text


def read_idempotency_key(request: Request) -> str | None:
    """Read the Idempotency-Key, if there is one: a repeated request with the same key is carried out once."""
    given: list[Any] = request.headers.getlist("idempotency-key")
    if not given:
        return None
    if len(given) != 1 or not 0 < len(given[0]) <= LONGEST_KEY:
        raise UsageError(Code.FIELD_VALUE, f"an Idempotency-Key has 1 to {LONGEST_KEY} characters, and there is one")
    return str(given[0])


async def read(request: Request, kind: type[Model], *, limit: int = LIMIT) -> Model:
    """Read the body of a request. Raises JsonError or ContractError with every problem."""
    data = wire.read(await read_raw(request, limit), limit=limit)
    if not isinstance(data, dict):
        raise _refusal([Problem(Code.FIELD_TYPE, "", "must be a JSON object")])
    strange = [key for key in data if key not in _names(kind)]
    problems = [_unknown(key, kind) for key in strange]
    try:
        model = kind.model_validate({key: value for key, value in data.items() if key not in strange})
    except ValidationError as error:
        problems += problems_of(error)
    if problems:
        raise _refusal(problems)
    return model


async def read_raw(request: Request, limit: int) -> bytes:
    """Read the bytes of a body. Raises JsonError when there are more than `limit`."""
    return await read_whole(request.headers.get("content-length", ""), request.receive, limit)


async def stream_parts(receive: Receive) -> AsyncIterator[bytes]:
    """Yield a body piece by piece. Raises MachineError when it is incomplete, or not there in time."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    more = True
    while more:
        try:
            async with asyncio.timeout_at(deadline):
                message = await receive()
        except TimeoutError as error:
            raise _unended() from error
        if message["type"] != "http.request":
            raise _unended()
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def read_whole(told: str, receive: Receive, limit: int) -> bytes:
    """Read the bytes of a body whose length was `told`. Raises JsonError when there are more than `limit`."""
    if told.isdecimal() and int(told[:20]) > limit:
        raise _too_large(limit)
    found = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            more = True
            while more:
                message = await receive()
                if message["type"] != "http.request":
                    raise _unended()
                found += message.get("body", b"")
                if len(found) > limit:
                    raise _too_large(limit)
                more = message.get("more_body", False)
    except TimeoutError as error:
        raise _unended() from error
    return bytes(found)


def _unended() -> MachineError:
    return MachineError(Code.FILE_UNREADABLE, "the request did not come to its end")


def _too_large(limit: int) -> JsonError:
    return JsonError(
        Code.JSON_TOO_LARGE, f"the request is larger than {limit:,} bytes", hint="say less, or refer to a file"
    )


def _names(kind: type[Body]) -> list[str]:
    return [field.alias or name for name, field in kind.model_fields.items()]


def _unknown(key: str, kind: type[Body]) -> Problem:
    near = find_nearest(key, _names(kind))
    hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(_names(kind))}"
    return Problem(Code.FIELD_UNKNOWN, key[:80], "there is no such field", hint)


def _refusal(problems: list[Problem]) -> ContractError:
    first = problems[0]
    where = f"{first.field}: " if first.field else ""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ContractError(first.code, f"{where}{first.message}{more}", problems, hint=first.hint)
