"""The HTTP interfaces of models, as pure functions that read requests and write answers.

Four of them: OpenAI's chat completions and responses, Anthropic's messages, Gemini's generateContent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agenttalk.testing.model_script import Conversation, ScriptedReply

Body: TypeAlias = dict[str, Any]
StreamEvent: TypeAlias = tuple[str | None, Body | str]
"""An event of a stream: its name, if it has one, and its data."""


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """The usage that each answer reports."""

    read: int = 100
    written: int = 20


@dataclass(frozen=True, slots=True)
class ModelApi:
    """One interface."""

    read: Callable[[Body], Conversation]
    whole: Callable[[ScriptedReply, Conversation, TokenCounts, str], Body]
    """Writes the answer in one piece. The last argument is the answer's id."""
    pieces: Callable[[ScriptedReply, Conversation, TokenCounts, str], Iterator[StreamEvent]]
    """Writes the answer as a stream."""


def _texts(value: object) -> str:
    """Join all texts in a JSON value, in their order."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(_texts(each) for each in value.values())
    return "\n".join(_texts(each) for each in value) if isinstance(value, list) else ""


def _arguments(reply: ScriptedReply) -> str:
    return json.dumps(dict(reply.arguments))


# Chat completions


def _chat_read(body: Body) -> Conversation:
    functions = [each["function"] for each in body.get("tools") or () if each.get("type") == "function"]
    messages = body.get("messages") or []
    return Conversation(
        {each["name"]: each.get("parameters") or {} for each in functions},
        sum(each.get("role") == "assistant" for each in messages),
        _texts(messages),
        bool(body.get("stream")),
        str(body.get("model")),
    )


def _chat_usage(tokens: TokenCounts) -> Body:
    total = tokens.read + tokens.written
    return {"prompt_tokens": tokens.read, "completion_tokens": tokens.written, "total_tokens": total}


def _chat_whole(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Body:
    message: Body = {"role": "assistant", "content": reply.text or None}
    if reply.tool:
        function = {"name": reply.tool, "arguments": _arguments(reply)}
        message["tool_calls"] = [{"id": f"call_{name}", "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if reply.tool else "stop"}
    base = {"id": name, "object": "chat.completion", "created": 0, "model": talk.model}
    return {**base, "choices": [choice], "usage": _chat_usage(tokens)}


def _chat_pieces(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Iterator[StreamEvent]:
    base = {"id": name, "object": "chat.completion.chunk", "created": 0, "model": talk.model}

    def piece(delta: Body, end: str | None = None) -> StreamEvent:
        return None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}

    if reply.tool:
        function = {"name": reply.tool, "arguments": ""}
        first = {"index": 0, "id": f"call_{name}", "type": "function", "function": function}
        yield piece({"role": "assistant", "content": None, "tool_calls": [first]})
        yield piece({"tool_calls": [{"index": 0, "function": {"arguments": _arguments(reply)}}]})
        yield piece({}, "tool_calls")
    else:
        yield piece({"role": "assistant", "content": ""})
        for word in re.findall(r"\s*\S+|\s+$", reply.text):
            yield piece({"content": word})
        yield piece({}, "stop")
    yield None, {**base, "choices": [], "usage": _chat_usage(tokens)}
    yield None, "[DONE]"


# Responses


def _responses_read(body: Body) -> Conversation:
    tools: dict[str, Mapping[str, Any]] = {}
    groups: dict[str, str] = {}
    for each in body.get("tools") or ():
        if each.get("type") == "function":
            tools[each["name"]] = each.get("parameters") or {}
        elif each.get("type") == "namespace":
            for inner in each.get("tools") or ():
                tools[inner["name"]] = inner.get("parameters") or {}
                groups[inner["name"]] = each["name"]
    said = body.get("input")
    items = [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
    answers = [each for each in items if each.get("role") == "assistant" or each.get("type") == "function_call"]
    text = _texts([body.get("instructions"), said])
    return Conversation(tools, len(answers), text, bool(body.get("stream")), str(body.get("model")), groups)


def _responses_item(reply: ScriptedReply, talk: Conversation, name: str) -> Body:
    if not reply.tool:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        return {"id": f"msg_{name}", "type": "message", "status": "completed", "role": "assistant", "content": content}
    call = {"id": f"fc_{name}", "type": "function_call", "status": "completed", "call_id": f"call_{name}"}
    group = {"namespace": talk.namespaces[reply.tool]} if reply.tool in talk.namespaces else {}
    return {**call, "name": reply.tool, "arguments": _arguments(reply), **group}


def _responses_whole(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Body:
    usage = {
        "input_tokens": tokens.read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens.written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.read + tokens.written,
    }
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 0,
        "model": talk.model,
        "status": "completed",
        "output": [_responses_item(reply, talk, name)],
        "usage": usage,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
    }


def _responses_pieces(
    reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str
) -> Iterator[StreamEvent]:
    whole = _responses_whole(reply, talk, tokens, name)
    [item] = whole["output"]
    begun = {**item, "status": "in_progress", **({"arguments": ""} if reply.tool else {"content": []})}
    at: Body = {"item_id": item["id"], "output_index": 0}
    told: list[tuple[str, Body]] = [
        ("response.created", {"response": {**whole, "status": "in_progress", "output": [], "usage": None}}),
        ("response.output_item.added", {"output_index": 0, "item": begun}),
    ]
    if reply.tool:
        told.append(("response.function_call_arguments.delta", {**at, "delta": item["arguments"]}))
        told.append(("response.function_call_arguments.done", {**at, "arguments": item["arguments"]}))
    else:
        at["content_index"] = 0
        told.append(("response.content_part.added", {**at, "part": {**item["content"][0], "text": ""}}))
        told.append(("response.output_text.delta", {**at, "delta": reply.text}))
        told.append(("response.output_text.done", {**at, "text": reply.text}))
        told.append(("response.content_part.done", {**at, "part": item["content"][0]}))
    told.append(("response.output_item.done", {"output_index": 0, "item": item}))
    told.append(("response.completed", {"response": whole}))
    for number, (kind, data) in enumerate(told):
        yield kind, {"type": kind, "sequence_number": number, **data}


# Messages


def _messages_read(body: Body) -> Conversation:
    messages = body.get("messages") or []
    return Conversation(
        {each["name"]: each.get("input_schema") or {} for each in body.get("tools") or () if "name" in each},
        sum(each.get("role") == "assistant" for each in messages),
        _texts([body.get("system"), messages]),
        bool(body.get("stream")),
        str(body.get("model")),
    )


def _messages_block(reply: ScriptedReply, name: str) -> Body:
    if not reply.tool:
        return {"type": "text", "text": reply.text}
    return {"type": "tool_use", "id": f"toolu_{name}", "name": reply.tool, "input": dict(reply.arguments)}


def _messages_whole(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Body:
    usage = {"input_tokens": tokens.read, "output_tokens": tokens.written}
    return {
        "id": f"msg_{name}",
        "type": "message",
        "role": "assistant",
        "model": talk.model,
        "stop_sequence": None,
        "content": [_messages_block(reply, name)],
        "stop_reason": "tool_use" if reply.tool else "end_turn",
        "usage": {**usage, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0},
    }


def _messages_pieces(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Iterator[StreamEvent]:
    whole = _messages_whole(reply, talk, tokens, name)
    [block] = whole["content"]
    empty = {**block, "input": {}} if reply.tool else {**block, "text": ""}
    delta = (
        {"type": "input_json_delta", "partial_json": _arguments(reply)}
        if reply.tool
        else {"type": "text_delta", "text": reply.text}
    )
    begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    told: list[tuple[str, Body]] = [
        ("message_start", {"message": begun}),
        ("content_block_start", {"index": 0, "content_block": empty}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": end, "usage": {"output_tokens": tokens.written}}),
        ("message_stop", {}),
    ]
    for kind, data in told:
        yield kind, {"type": kind, **data}


# Gemini


def _gemini_read(body: Body) -> Conversation:
    functions = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()]
    contents = body.get("contents") or []
    return Conversation(
        {each["name"]: each.get("parametersJsonSchema") or each.get("parameters") or {} for each in functions},
        sum(each.get("role") == "model" for each in contents),
        _texts([body.get("systemInstruction"), contents]),
    )


def _gemini_whole(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Body:
    call = {"functionCall": {"id": f"fc_{name}", "name": reply.tool, "args": dict(reply.arguments)}}
    part: Body = call if reply.tool else {"text": reply.text}
    total = tokens.read + tokens.written
    counts = {"promptTokenCount": tokens.read, "candidatesTokenCount": tokens.written, "totalTokenCount": total}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": talk.model, "responseId": name}


def _gemini_pieces(reply: ScriptedReply, talk: Conversation, tokens: TokenCounts, name: str) -> Iterator[StreamEvent]:
    yield None, _gemini_whole(reply, talk, tokens, name)


_APIS: Final[Mapping[str, ModelApi]] = {
    "/chat/completions": ModelApi(_chat_read, _chat_whole, _chat_pieces),
    "/responses": ModelApi(_responses_read, _responses_whole, _responses_pieces),
    "/messages": ModelApi(_messages_read, _messages_whole, _messages_pieces),
    ":generateContent": ModelApi(_gemini_read, _gemini_whole, _gemini_pieces),
    ":streamGenerateContent": ModelApi(_gemini_read, _gemini_whole, _gemini_pieces),
}


def api_of(path: str) -> ModelApi | None:
    """Find the interface that a path belongs to."""
    return next((api for end, api in _APIS.items() if path.endswith(end)), None)


def answer_token_count(path: str, tokens: TokenCounts) -> Body | None:
    """Answer a request to count tokens."""
    if path.endswith("/count_tokens"):
        return {"input_tokens": tokens.read}
    return {"totalTokens": tokens.read} if path.endswith(":countTokens") else None
