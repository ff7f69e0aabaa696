"""What each tool does when it is called: nearly always one request to the engine."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
from typing import Any, Final

from agenttalk.contracts.errors import Code, ContractError, InputError, Problem
from agenttalk.contracts.planfile import reader
from agenttalk.doors.mcp.engine_client import ToolRefusal
from agenttalk.doors.mcp.tool_call import ToolCall, quote_segment
from agenttalk.rules.planfile.compiler import compile_plan

_SHOWN: Final = 1024 * 1024
"""Bytes of an input that a tool shows."""
_MOST_WAIT: Final = 60
"""Seconds that a caller may wait for a task."""


async def whoami(call: ToolCall) -> Any:
    """Return the owner of the token."""
    return dict(call.me)


async def my_tasks(call: ToolCall) -> Any:
    """Return the caller's own tasks; within an attempt there is exactly one."""
    if call.role == "remote":
        return await call.client.get("/api/agent/tasks")
    return {"taken": [await call.client.get(call.task_path())], "offered": [], "queued": []}


async def claim(call: ToolCall) -> Any:
    """Take the next task that is offered, and wait for one."""
    wait = min(max(0, call.arguments.get("wait_seconds") or 0), _MOST_WAIT)
    taken = await call.client.post("/api/agent/claim", {"wait_seconds": wait}, key=str(call.arguments.get("key") or ""))
    if taken["taken"] is not None:
        # With an epoch the agent's own token is enough, so the attempt's need not stand in a conversation.
        taken["taken"].pop("token", None)
    return taken


async def heartbeat(call: ToolCall) -> Any:
    """Send a sign of life with the usage so far."""
    return await call.client.post(call.task_path("/progress"), call.pick_arguments("progress", "usage"))


async def get_task(call: ToolCall) -> Any:
    """Return a task with its comments and reports."""
    return await call.client.get(call.task_path())


async def get_input(call: ToolCall) -> Any:
    """Return a file of an input: as text if it is text, else in base64."""
    name, path = call.arguments["name"], call.arguments["path"]
    own = call.own_attempt
    data = (
        own.read_input(name, path)
        if own
        else await call.client.get_bytes(call.task_path("/inputs", name=name, path=path))
    )
    if len(data) > _SHOWN:
        hint = "fetch it over HTTP from …/inputs?name=NAME&path=PATH"
        raise ToolRefusal(Code.FILE_TOO_LARGE, f"it has {len(data):,} bytes, too many to be shown", hint=hint)
    told = {"name": name, "path": path, "size": len(data)}
    try:
        return {**told, "text": data.decode()}
    except UnicodeDecodeError:
        return {**told, "base64": base64.b64encode(data).decode()}


async def generate_command(call: ToolCall) -> Any:
    """Make a complete command from a few fields."""
    path = "/api/commands/generate" if call.role == "operator" else call.task_path("/commands/generate")
    return await call.client.post(path, call.pick_arguments("params", "locale"))


async def make_promise(call: ToolCall) -> Any:
    """Make a promise from a few fields."""
    return await call.client.post(
        "/api/promises", call.pick_arguments("objective", "checks", "criteria", "allowed_scope", "disallowed_scope")
    )


async def validate_command(call: ToolCall) -> Any:
    """Check a command, and list its problems."""
    path = "/api/commands/validate" if call.role == "operator" else call.task_path("/commands/validate")
    return await call.client.post(path, call.pick_arguments("command"))


async def submit_artifact(call: ToolCall) -> Any:
    """Hand in a file of an output. An attempt on this machine leaves it in its own folder."""
    if call.own_attempt is not None:
        return call.own_attempt.write_output(call.arguments)
    return await call.client.post(
        call.task_path("/artifacts"), call.pick_arguments("output", "path", "text", "content")
    )


async def submit_report(call: ToolCall) -> Any:
    """Post a report as a comment in the caller's name."""
    said = {
        "comment_type": "action_report",
        **call.pick_arguments("comment_type", "body", "claims"),
        "author": call.me["name"],
    }
    return await call.client.post(call.task_path("/comments"), said, key=str(call.arguments.get("key") or ""))


async def submit_output(call: ToolCall) -> Any:
    """Post a text that stays with the task."""
    return await call.client.post(
        call.task_path("/outputs"), {"type": "text", **call.pick_arguments("content", "type")}
    )


async def submit_result(call: ToolCall) -> Any:
    """Hand in the result of a turn. An attempt on this machine leaves it in its own folder."""
    names = ("result", "score", "score_explanation", "evidence", "usage", "self_assessment", "error")
    if call.own_attempt is not None:
        return call.own_attempt.write_result(call.pick_arguments(*names))
    return await call.client.post(call.task_path("/result"), call.pick_arguments(*names))


async def ask_human(call: ToolCall) -> Any:
    """Ask a person a question."""
    return await call.client.post(call.task_path("/questions"), call.pick_arguments("question"))


async def get_answer(call: ToolCall) -> Any:
    """Return the answer to a question."""
    return await call.client.get(call.task_path(f"/questions/{quote_segment(call.arguments['question_id'])}"))


async def dispute_check(call: ToolCall) -> Any:
    """Dispute a check; a person decides."""
    return await call.client.post(call.task_path("/disputes"), call.pick_arguments("check", "reason"))


async def send_mail(call: ToolCall) -> Any:
    """Send a letter to other agents."""
    said = call.pick_arguments("to", "kind", "subject", "body", "in_reply_to")
    return await call.client.post("/api/mail", said, key=str(call.arguments.get("key") or ""))


async def check_promise(call: ToolCall) -> Any:
    """Return what a task promises and what is missing of it, during a turn in the agent's own folder."""
    if call.own_attempt is not None:
        return await asyncio.to_thread(call.own_attempt.describe_promise)
    return await call.client.get(call.task_path("/promise"))


async def explain(call: ToolCall) -> Any:
    """Explain the state of a task."""
    return await call.client.get(call.task_path("/explanation"))


async def submit_plan(call: ToolCall) -> Any:
    """Compile a plan file here. The answer lists every problem of it."""
    try:
        compiled = compile_plan(reader.read_plan_file(call.arguments["plan"].encode(), yaml=True))
    except ContractError as error:
        raise ToolRefusal(
            error.code, error.message, hint=error.hint, problems=_problems_to_json(error.problems)
        ) from error
    except InputError as error:
        raise ToolRefusal(error.code, error.message, hint=error.hint) from error
    if compiled.problems:
        raise ToolRefusal(
            compiled.problems[0].code, "the plan cannot be run", problems=_problems_to_json(compiled.problems)
        )
    body = {
        "dag": compiled.dag.as_json(),
        "manifest": compiled.manifest.as_json(),
        "profiles": {name: each.as_json() for name, each in compiled.profiles.items()},
    }
    return await call.client.post("/api/plans", body)


def _problems_to_json(problems: Sequence[Problem]) -> tuple[dict[str, str | None], ...]:
    return tuple({"field": each.field, "message": each.message, "hint": each.hint} for each in problems)


async def status(call: ToolCall) -> Any:
    """Return the status of the root, or of a plan."""
    plan = call.arguments.get("plan")
    return await call.client.get(f"/api/plans/{quote_segment(plan)}" if plan else "/api/status")


async def inbox(call: ToolCall) -> Any:
    """Questions that wait for a person."""
    return await call.client.get("/api/human-requests")


async def deadletters(call: ToolCall) -> Any:
    """Messages that were refused."""
    return await call.client.get("/api/deadletters")


async def replay(call: ToolCall) -> Any:
    """Replay a dead letter."""
    return await call.client.post(f"/api/deadletters/{quote_segment(call.arguments['deadletter_id'])}/replay", {})
