"""The HTTP API as an OpenAPI document, made from the routes themselves.

Every route is in it, because it is made from what is served. What a route takes and answers is said in the table below;
a route that is not there takes no body, and answers some JSON object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, get_args

from pydantic import BaseModel
from starlette.routing import BaseRoute, Route

from agenttalk.contracts.core.field_docs import DocumentedJsonSchema
from agenttalk.contracts.toolchain import PipelineResult
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import JSON, PROBLEM
from agenttalk.doors.api.routes import agents, ledger, mail, metrics, schedules
from agenttalk.engine.agents.prompt_record import PromptStatus
from agenttalk.engine.core.access import Role

Schema = dict[str, Any]
_PARAMETER: Final = re.compile(r"{(\w+)}")
_OPEN: Final[frozenset[str]] = frozenset({"/healthz", "/readyz"})
_SIGNED: Final = "/api/webhooks/{name}"
_SPELLED: Final = {"/api/webhooks/{source}": _SIGNED, "/api/webhooks/{id}": _SIGNED}
"""Addresses that differ in the name of a part alone are one in such a document."""
_REFERENCE: Final = "#/components/schemas/{model}"


class GuardedRoute(Route):
    """A route that only tokens of some roles may take."""

    roles: tuple[Role, ...] = ()


def _object(*required: str, **properties: Schema) -> Schema:
    """An object with these properties, of which those named first are always there."""
    return {"type": "object", "required": sorted({*required, *properties}), "properties": properties}


_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_NEXT: Final[Schema] = {"type": ["integer", "null"]}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _some(schema: Schema) -> Schema:
    """A value or null."""
    return {"anyOf": [schema, {"type": "null"}]}


_TASK: Final = _object(
    id=_TEXT,
    title=_TEXT,
    assignee=_TEXT,
    status=_TEXT,
    must_haves=_object("event_type", "action_type", "steps", "context", "from", "source"),
    closed_at=_some(_TEXT),
    closed_why=_some(_TEXT),
    trust=_some(_TEXT),
)
_ANY: Final[Schema] = {"type": "object"}
_NUMBER: Final[Schema] = {"type": "number"}
_PLAN: Final = _object("counts", plan_id=_TEXT, board=_TEXT, origin=_TEXT, state=_TEXT, began_at=_some(_TEXT))
_PROVEN: Final = _object(
    "wants",
    id=_TEXT,
    description=_TEXT,
    standing={"enum": ["proven", "claimed", "stale", "failed", "open"]},
    trust=_some(_TEXT),
    by=_some(_TEXT),
    at=_some(_TEXT),
)
_TALLY: Final = _object(
    claims=_COUNT, proven=_COUNT, unproven=_COUNT, refuted=_COUNT, overturned=_COUNT, stale=_COUNT, rounds=_COUNT,
    unisolated=_COUNT,    held=_some(_NUMBER), cost_usd=_NUMBER, cost_per_proven=_some(_NUMBER),
)  # fmt: skip
_AGENT: Final = _object(
    "health",
    agent_id=_TEXT,
    current=_list(_ANY),
    queued=_COUNT,
    honesty=_ANY,
    usage=_ANY,
    by_model=_list(_ANY),
)
_FACT: Final = _object("link", "hash", seq=_COUNT, at=_TEXT, kind=_TEXT, subject=_TEXT, body=_ANY)
_WARNING: Final = _object(id=_COUNT, code=_TEXT, message=_TEXT, hint=_TEXT, times=_COUNT)
_STORED: Final = _object(id={"type": "string", "pattern": "^wh-[0-9]+$"}, again=_FLAG)
_LOOKED: Final = _object(
    source=_TEXT,
    repositories=_COUNT,
    things=_COUNT,
    made=_list(_object(task=_TEXT, action_type=_TEXT, assignee=_TEXT, object=_TEXT)),
    closed=_list(_object(task=_TEXT, why=_TEXT)),
    restored=_list(_TEXT),
    errors=_list(_object(where=_TEXT, code=_TEXT, message=_TEXT)),
)
_LETTER: Final = _object(
    message_id=_TEXT, thread=_TEXT, to=_list(_TEXT), kind={"enum": ["inform", "request"]}, subject=_TEXT, sent_at=_TEXT
)
_SHOWN: Final = _object(
    message_id=_TEXT,
    thread=_TEXT,
    to=_list(_TEXT),
    kind={"enum": ["inform", "request"]},
    subject=_TEXT,
    sent_at=_TEXT,
    addressees=_list(_object(addressee=_TEXT, task_id=_TEXT, status=_TEXT, read_at=_some(_TEXT), reply=_some(_TEXT))),
)
PROBLEM_SCHEMA: Final = {
    "type": "object",
    "required": ["type", "title", "status", "code", "detail", "hint"],
    "properties": {
        "type": {"type": "string", "pattern": "^urn:agenttalk:[A-Z_0-9]+$"},
        "title": _TEXT,
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"type": "string", "pattern": "^[A-Z_0-9]+$"},
        "detail": _TEXT,
        "hint": _TEXT,
        "problems": _list(_object(code=_TEXT, field=_TEXT, message=_TEXT, hint=_TEXT)),
    },
}


@dataclass(frozen=True, slots=True)
class RouteDescription:
    """What a route does, takes and answers."""

    summary: str
    body: type[BaseModel] | Schema | None = None
    answer: Schema = field(default_factory=lambda: {"type": "object"})
    statuses: tuple[int, ...] = (200,)
    query: Mapping[str, Schema] = field(default_factory=dict)
    media: str = JSON


def _paged(summary: str, name: str) -> RouteDescription:
    """A route that shows some of many, in the order in which they came."""
    answer = {"type": "object", "required": ["next", name], "properties": {name: _list(_ANY), "next": _NEXT}}
    return RouteDescription(summary, answer=answer, query={"after": _COUNT, "limit": _COUNT})


_AT: Final = "/api/projects/{board}/tasks/{task}"
SETS_STATE: Final = (
    ("PATCH", _AT),
    ("PUT", _AT),
    ("DELETE", _AT),
    *((method, f"{_AT}/{what}") for method in ("POST", "PUT", "PATCH") for what in ("state", "status", "done")),
)
"""Addresses at which somebody would set a state by hand."""
_EPOCH: Final[Mapping[str, Schema]] = {"epoch": _COUNT}
"""With an agent's own token: under which it took the task."""
_DAY: Final = _object(
    *("set_by", "set_at", "goes_on_at"),
    day=_TEXT,
    **dict.fromkeys(("limit_usd", "spent_usd", "left_usd", "configured_usd"), _some(_NUMBER)),
    paused=_FLAG,
    waiting=_COUNT,
    stopped=_list(_TEXT),
)
_DESCRIPTIONS: Final[Mapping[tuple[str, str], RouteDescription]] = {
    ("GET", "/healthz"): RouteDescription("Whether the engine is alive.", answer=_object(ok=_FLAG)),
    ("GET", "/readyz"): RouteDescription(
        "Whether the engine is ready for work.", answer=_object(ok=_FLAG), statuses=(200, 503)
    ),
    ("GET", "/api/openapi.json"): RouteDescription("This document.", answer=_object("openapi", "info", "paths")),
    ("GET", _AT): RouteDescription("A task, and what was said about it.", query={"after": _COUNT, **_EPOCH}),
    ("POST", f"{_AT}/comments"): RouteDescription(
        "Say something about a task.", bodies.CommentBody, statuses=(201,), query=_EPOCH
    ),
    ("POST", f"{_AT}/outputs"): RouteDescription(
        "Hand something in for a task.", bodies.OutputBody, statuses=(201,), query=_EPOCH
    ),
    ("POST", f"{_AT}/progress"): RouteDescription(
        "Report progress and usage of an attempt.", bodies.ProgressBody, query=_EPOCH
    ),
    **{way: RouteDescription("Refused: only the engine sets states.", statuses=(403,)) for way in SETS_STATE},
    ("GET", "/api/me"): RouteDescription(
        "Whom the token belongs to.", answer=_object(role=_TEXT, name=_TEXT, ready=_FLAG)
    ),
    ("GET", f"{_AT}/promise"): RouteDescription("What a task promises, and what of it is not there yet.", query=_EPOCH),
    ("GET", f"{_AT}/explanation"): RouteDescription("Why a task is in its state.", query=_EPOCH),
    ("GET", f"{_AT}/inputs"): RouteDescription("A file of an input.", query={"name": _TEXT, "path": _TEXT, **_EPOCH}),
    ("POST", f"{_AT}/artifacts"): RouteDescription(
        "Hand in a file.", agents.ArtifactBody, statuses=(201,), query=_EPOCH
    ),
    ("POST", f"{_AT}/result"): RouteDescription(
        "End an attempt elsewhere.", agents.ResultBody, statuses=(201,), query=_EPOCH
    ),
    ("POST", f"{_AT}/questions"): RouteDescription("Ask a person.", agents.QuestionBody, statuses=(201,), query=_EPOCH),
    ("POST", f"{_AT}/disputes"): RouteDescription(
        "Say that a check of the task is wrong; a person decides about it.",
        agents.DisputeBody,
        statuses=(201,),
        query=_EPOCH,
    ),
    ("GET", f"{_AT}/questions/{{id}}"): RouteDescription("What came of a question.", query=_EPOCH),
    ("POST", f"{_AT}/commands/generate"): RouteDescription(
        "Make a command of this plan.", agents.ParamsBody, query=_EPOCH
    ),
    ("POST", f"{_AT}/commands/validate"): RouteDescription(
        "Check a command of this plan.", agents.CommandBody, query=_EPOCH
    ),
    ("GET", "/api/agent/tasks"): RouteDescription("What an agent elsewhere has taken, and what it could."),
    ("POST", "/api/agent/claim"): RouteDescription("Take what is offered.", agents.ClaimBody, _object("taken")),
    ("GET", "/api/events"): RouteDescription(
        "Follow the ledger: facts as server-sent events, from Last-Event-ID on; with wait=0 it ends.",
        answer=_TEXT,
        query={"after": _TEXT, "plan": _TEXT, "wait": _TEXT},
        media="text/event-stream",
    ),
    ("POST", "/api/login-links"): RouteDescription(
        "Make a link that opens the pages once.", bodies.LoginBody, answer=_object(path=_TEXT), statuses=(201,)
    ),
    ("GET", "/api/tokens"): RouteDescription(
        "Tokens that were made for agents elsewhere and for people.", answer=_object(tokens=_list({"type": "object"}))
    ),
    ("POST", "/api/tokens"): RouteDescription(
        "Register a token of an agent elsewhere, a person or a pipeline.", agents.TokenBody, statuses=(201,)
    ),
    ("POST", "/api/tokens/{id}/revoke"): RouteDescription("Revoke a token."),
    ("GET", "/api/schedules"): RouteDescription("Schedules.", answer=_object(schedules=_list({"type": "object"}))),
    ("POST", "/api/schedules"): RouteDescription("Add a schedule.", schedules.ScheduleBody, statuses=(201,)),
    ("POST", "/api/schedules/{id}/{action}"): RouteDescription(
        "Pause, resume, remove or run a schedule.", schedules.ActBody
    ),
    ("POST", "/api/promises"): RouteDescription(
        "Make a promise: with checks, a criterion for each, and a scope.", agents.PromiseBody, _object("ok", "promise")
    ),
    ("POST", "/api/commands/generate"): RouteDescription(
        "Make a command.", agents.ParamsBody, _object("ok", "command")
    ),
    ("POST", "/api/commands/validate"): RouteDescription(
        "Check a command.", agents.CommandBody, _object("ok", "errors")
    ),
    ("POST", _SIGNED): RouteDescription("A delivery of a forge.", {"type": "object"}, _STORED, (202,)),
    ("GET", _SIGNED): RouteDescription(
        "A delivery, and what came of it.",
        answer=_object(
            "outcome", id=_TEXT, source=_TEXT, kind=_TEXT, delivery=_TEXT, event=_TEXT, sha256=_TEXT, state=_TEXT
        ),
    ),
    ("POST", "/api/toolchain/events"): RouteDescription(
        "What a pipeline without a webhook reports.",
        PipelineResult,
        _STORED,
        (202,),
        {"source": _TEXT},
    ),
    ("GET", "/api/toolchain/tasks"): RouteDescription(
        "Tasks that came from forges, a page of them.",
        answer=_object(tasks=_list(_TASK), next=_NEXT),
        query={"assignee": _TEXT, "status": _TEXT, "action_type": _TEXT, "after": _COUNT, "limit": _COUNT},
    ),
    ("GET", "/api/toolchain/tasks/{id}"): RouteDescription(
        "One task: its turns, what was reported in each, and what was read at the forge.",
        answer=_object("turns", "verify", id=_TEXT, title=_TEXT, status=_TEXT),
    ),
    ("GET", "/api/toolchain/outgoing"): RouteDescription(
        "What the engine has to write at forges: what waits, what was written, and sources that do not answer.",
        answer=_object(away=_list(_ANY), outgoing=_list(_ANY), next=_NEXT),
        query={"after": _COUNT},
    ),
    ("POST", "/mcp"): RouteDescription("The MCP server; each request stands for itself.", _ANY, media=JSON),
    ("GET", "/api/toolchain/warnings"): RouteDescription(
        "Events for accounts that no agent has.",
        answer=_object(warnings=_list(_WARNING), next=_NEXT),
        query={"after": _COUNT},
    ),
    ("POST", "/api/mail"): RouteDescription("Send a letter.", mail.MailBody, _LETTER, (201,)),
    ("GET", "/api/mail"): RouteDescription(
        "Letters, a page of them, the newest first.",
        answer=_object(mails=_list(_SHOWN), next=_NEXT),
        query={
            **dict.fromkeys(("from", "to", "kind", "status", "thread", "search", "unread"), _TEXT),
            **dict.fromkeys(("before", "limit"), _COUNT),
        },
    ),
    ("GET", "/api/mail/threads"): RouteDescription(
        "Threads, those with the newest letters first.",
        answer=_object(threads=_list(_object(thread=_TEXT, letters=_COUNT, subject=_TEXT, latest=_TEXT)), next=_NEXT),
        query={"before": _COUNT, "limit": _COUNT},
    ),
    ("GET", "/api/mail/threads/{id}"): RouteDescription(
        "The letters of a thread, the newest first.",
        answer=_object(mails=_list(_SHOWN), next=_NEXT),
        query={"before": _COUNT, "limit": _COUNT},
    ),
    ("GET", "/api/mail/{id}"): RouteDescription("A letter; whoever it is for has read it then.", answer=_SHOWN),
    ("POST", "/api/mail/{id}/reply"): RouteDescription("Answer a letter.", mail.ReplyBody, _LETTER, (201,)),
    ("POST", "/api/toolchain/reconcile"): RouteDescription(
        "Read the forges now, and bring tasks in line with what they show.",
        bodies.ReconcileBody,
        _object(ok=_FLAG, dry_run=_FLAG, sources=_list(_LOOKED)),
    ),
    ("GET", "/api/status"): RouteDescription(
        "Where everything stands.", answer=_object(open_requests=_COUNT, open_deadletters=_COUNT)
    ),
    ("POST", "/api/plans"): RouteDescription(
        "Submit a plan; the engine runs it.", bodies.PlanBody, _object("remarks", plan_id=_TEXT, new=_FLAG), (200, 201)
    ),
    ("POST", "/api/plans/apply"): RouteDescription("Put a new revision of a plan in force.", bodies.PlanBody),
    ("GET", "/api/plans/{id}"): RouteDescription(
        "Where a plan stands.", answer=_object("plan_id", "state", "result", "tasks"), query={"settled": _TEXT}
    ),
    ("GET", "/api/plans"): RouteDescription(
        "Plans, those that began last first, a page of them.",
        answer=_object(plans=_list(_PLAN), next=_some(_TEXT)),
        query={**dict.fromkeys(("state", "board", "text", "after"), _TEXT), "limit": _COUNT},
    ),
    ("GET", "/api/plans/{id}/graph"): RouteDescription(
        "The tasks of a plan, and the lines between them.",
        answer=_object(
            plan_id=_TEXT,
            nodes=_list(_object(task_id=_TEXT, agent_id=_TEXT, state=_TEXT)),
            edges=_list(_object("from", to=_TEXT, kind={"enum": ["depends", "branch", "fallback"]})),
        ),
    ),
    ("GET", "/api/plans/{id}/tasks"): RouteDescription(
        "Tasks of a plan, a page of them.",
        answer=_object(
            tasks=_list(_object(task_id=_TEXT, agent_id=_TEXT, state=_TEXT, board=_TEXT)), next=_some(_TEXT)
        ),
        query={**dict.fromkeys(("state", "agent", "after"), _TEXT), "limit": _COUNT},
    ),
    ("GET", "/api/plans/{id}/tasks/{task}"): RouteDescription(
        "A task: its command, inputs, outputs, attempts, rounds, and what of its promise is proven.",
        answer=_object(
            "command",
            "verdict",
            "usage",
            task_id=_TEXT,
            state=_TEXT,
            checklist=_list(_PROVEN),
            orders=_list(_ANY),
            inputs=_list(_ANY),
            outputs=_list(_ANY),
            attempts=_list(_ANY),
        ),
    ),
    ("GET", "/api/plans/{id}/tasks/{task}/log"): RouteDescription(
        "What a coding agent reported while it ran, a page of it.",
        answer=_object("command_id", "attempt", events=_list(_ANY), next=_COUNT),
        query={"command": _TEXT, "attempt": _COUNT, "after": _COUNT},
    ),
    ("GET", "/api/plans/{id}/tasks/{task}/prompt"): RouteDescription(
        "The prompt of a command, as its agent got it.",
        answer=_object("command_id", "attempt", "sha256", "text", standing={"enum": list(get_args(PromptStatus))}),
        query={"command": _TEXT},
    ),
    ("GET", "/api/plans/{id}/deliveries"): _paged("What became of each message of a plan.", "deliveries"),
    ("GET", "/api/plans/{id}/acks"): _paged("Commands of a plan, and their receipts.", "acks"),
    ("GET", "/api/plans/{id}/decisions"): _paged("What was decided about a plan, by whom and why.", "decisions"),
    ("GET", "/api/plans/{id}/facts"): _paged("The ledger of a plan, the oldest first.", "facts"),
    ("GET", "/api/plans/{id}/artifacts"): _paged("Every version of what the tasks of a plan made.", "artifacts"),
    ("GET", "/api/plans/{id}/artifacts/{task}/{sha256}"): RouteDescription(
        "A file that a task was given or made, or a range of it.",
        statuses=(200, 206, 416),
        media="application/octet-stream",
    ),
    ("GET", "/api/agents"): RouteDescription(
        "Every agent: what it does, what waits for it.", answer=_object(agents=_list(_AGENT))
    ),
    ("GET", "/api/agents/{id}"): RouteDescription("One agent, and its queue.", answer=_AGENT),
    ("GET", "/api/honesty"): RouteDescription(
        "How many claims of agents, models and validators held.",
        answer=_object(
            total=_TALLY,
            agents=_list(_TALLY),
            models=_list(_TALLY),
            kinds=_list(_TALLY),
            validators=_list(_ANY),
            uncounted=_COUNT,
        ),
    ),
    ("GET", "/api/spending"): RouteDescription(
        "What was spent today of what may be.",
        answer=_DAY,
    ),
    ("POST", "/api/spending"): RouteDescription("Change what may be spent on a day.", metrics.DayBody, answer=_DAY),
    ("GET", "/api/metrics"): RouteDescription("Everything that is measured, for Prometheus.", media="text/plain"),
    ("GET", "/api/ledger"): RouteDescription(
        "Facts of a board, the newest first, a page of them.",
        answer=_object(board=_TEXT, facts=_list(_FACT), next=_NEXT),
        query={
            **dict.fromkeys(("board", "kind", "subject", "plan"), _TEXT),
            **dict.fromkeys(("before", "limit"), _COUNT),
        },
    ),
    ("GET", "/api/ledger/verify"): RouteDescription(
        "Whether every chain of the ledger holds; reads all of it.",
        answer=_object(ok=_FLAG, chains=_list(_object("broken", chain=_TEXT, intact=_FLAG, entries=_COUNT))),
    ),
    ("POST", "/api/audit/replay"): RouteDescription(
        "What a policy would have refused of what was called done, the newest first, a page of it.",
        ledger.ReplayBody,
        answer=_object(
            dones=_list(_object("command_id", standing=_TEXT, plan_id=_TEXT, task_id=_TEXT, reasons=_list(_TEXT))),
            totals=_object(kept=_COUNT, refused=_COUNT, unknown=_COUNT),
            next=_ANY,
        ),
    ),
    ("GET", "/api/webhooks"): RouteDescription(
        "Deliveries of forges and pipelines, the newest first, a page of them.",
        answer=_object(webhooks=_list(_object(id=_TEXT, source=_TEXT, event=_TEXT, state=_TEXT)), next=_NEXT),
        query={**dict.fromkeys(("source", "state", "event"), _TEXT), **dict.fromkeys(("before", "limit"), _COUNT)},
    ),
    ("POST", "/api/webhooks/{id}/replay"): RouteDescription(
        "Decide about a delivery again.", answer=_object(id=_TEXT, state={"const": "new"})
    ),
    ("GET", "/api/plans/{id}/tasks/{task}/explanation"): RouteDescription("Why a task is in its state."),
    ("GET", "/api/plans/{id}/repository"): RouteDescription("The repository that a plan works on."),
    ("GET", "/api/plans/{id}/release"): RouteDescription("What was decided last about the release of a plan."),
    ("GET", "/api/plans/{id}/release_manifest"): RouteDescription("The manifest of its last release."),
    ("POST", "/api/plans/{id}/verify"): RouteDescription(
        "Check whether what a plan proved still holds.", bodies.VerifyBody, _object("plan_id", "checks", "commit")
    ),
    ("POST", "/api/plans/{id}/merged"): RouteDescription(
        "Note that a person merged what a plan has done.", bodies.MergedBody, _object("plan_id", "commit")
    ),
    ("POST", "/api/plans/{id}/{action}"): RouteDescription(
        "Steer a plan: `pause`, `resume`, `cancel` or `release`; with a task in the body `retry`, `abort`, `override` "
        "or `rework`.",
        bodies.SteerBody,
    ),
    ("POST", "/api/passes"): RouteDescription(
        "Have `route`, `heartbeat` or `monitor` look at everything once.", bodies.PassBody
    ),
    ("GET", "/api/human-requests"): RouteDescription(
        "Open questions, the oldest first, a page of them.",
        answer=_object(requests=_list({"type": "object"}), next=_some(_TEXT)),
        query={"after": _TEXT, "limit": _COUNT},
    ),
    ("GET", "/api/human-requests/{id}/files/{sha256}"): RouteDescription(
        "A file that a question is about, or a range of it.",
        statuses=(200, 206, 416),
        media="application/octet-stream",
    ),
    ("GET", "/api/human-requests/{id}"): RouteDescription("One question."),
    ("POST", "/api/human-requests/{id}/answer"): RouteDescription("Answer a question.", bodies.AnswerBody),
    ("GET", "/api/deadletters"): RouteDescription(
        "Dead letters, the newest first, a page of them.",
        answer=_object(deadletters=_list({"type": "object"}), next=_some(_TEXT)),
        query={"after": _TEXT, "limit": _COUNT},
    ),
    ("GET", "/api/deadletters/{id}"): RouteDescription("A dead letter with its original.", answer=_object("content")),
    ("POST", "/api/deadletters/{id}/replay"): RouteDescription("Judge a dead letter again."),
    ("POST", "/api/commands/send"): RouteDescription("Send a command in the operator's name.", bodies.SendBody),
    ("POST", "/api/commands/log"): RouteDescription(
        "Record how a command was made or checked.", bodies.LogBody, _object(ok=_FLAG)
    ),
    ("GET", "/api/fsck"): RouteDescription(
        "Messages and receipts that are not in order, as `agenttalk fsck` finds them.",
        answer=_object(faults=_list({"type": "object"})),
    ),
    ("POST", "/api/settings/reload"): RouteDescription(
        "Read agenttalk.toml again; the answer says what took effect, and what needs a restart.",
        bodies.ReloadBody,
        answer=_object(changed=_list(_TEXT), needs_restart=_list(_TEXT)),
    ),
    ("POST", "/api/gc"): RouteDescription(
        "Remove what plans left behind, as `agenttalk gc` does.",
        bodies.GcBody,
        _object("freed", "items", dry_run=_FLAG, bytes=_COUNT),
    ),
    ("POST", "/api/republish"): RouteDescription(
        "Write everything under `system_runtime/` again.", answer=_object(written=_COUNT)
    ),
}


def list_query_names(method: str, path: str) -> tuple[str, ...] | None:
    """With what an address may be asked; None where that does not matter, because it is refused anyway."""
    said = _DESCRIPTIONS[(method, _SPELLED.get(path, path))]
    return None if said.statuses == (403,) else tuple(said.query)


def build_document(routes: Iterable[BaseRoute]) -> Schema:
    """The OpenAPI document of these routes."""
    schemas: dict[str, Schema] = {"Problem": dict(PROBLEM_SCHEMA)}
    paths: dict[str, Schema] = {}
    for route in routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                path = _SPELLED.get(route.path, route.path)
                paths.setdefault(path, {})[method.lower()] = _operation(method, path, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "AgentTalk",
            "version": version("agenttalk"),
            "description": "What an engine can be asked for. Errors are problem+json with a code of ours.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "signature": {"type": "apiKey", "in": "header", "name": "X-Hub-Signature-256"},
            },
        },
    }


def _operation(method: str, path: str, route: Route, schemas: dict[str, Schema]) -> Schema:
    said = _DESCRIPTIONS[(method, path)]
    named = [_parameter(name, "path", _TEXT) for name in _PARAMETER.findall(path)]
    asked = [_parameter(name, "query", schema) for name, schema in said.query.items()]
    content: Schema = {said.media: {"schema": said.answer if said.media == JSON else {}}}
    answer = {"description": "What was asked for.", "content": content}
    problem = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    why_not = {"description": "Why not.", "content": problem}
    operation: Schema = {
        "summary": said.summary,
        "parameters": [*named, *asked, *_headers(method, route)],
        "responses": {
            **{str(status): why_not if status == 403 else answer for status in said.statuses},
            "default": why_not,
        },
        "security": _security(route),
    }
    if isinstance(route, GuardedRoute):
        operation["x-roles"] = list(route.roles)
    if said.body is not None:
        schema = said.body if isinstance(said.body, dict) else _body_schema(said.body)
        schemas |= schema.pop("$defs", {})
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return operation


def _body_schema(body: type[BaseModel]) -> Schema:
    return body.model_json_schema(ref_template=_REFERENCE, schema_generator=DocumentedJsonSchema)


def _headers(method: str, route: Route) -> list[Schema]:
    """What a request may say in its head: operators a key by which a write is carried out once."""
    if method != "POST" or not isinstance(route, GuardedRoute) or "operator" not in route.roles:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": bodies.LONGEST_KEY}
    return [_parameter("Idempotency-Key", "header", schema)]


def _security(route: Route) -> list[Schema]:
    if route.path in _OPEN:
        return []
    return [{"signature": []}] if not isinstance(route, GuardedRoute) else [{"token": []}]


def _parameter(name: str, where: str, schema: Schema) -> Schema:
    return {"name": name, "in": where, "required": where == "path", "schema": schema}
