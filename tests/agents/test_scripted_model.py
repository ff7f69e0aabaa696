"""The scripted model speaks as the real services do, in one piece and as a stream."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_apis import TokenCounts
from agenttalk.testing.model_script import (
    CallStep,
    Conversation,
    RefuseStep,
    SayStep,
    ShellStep,
    WriteStep,
    behaves,
    folder_of,
    make_reply,
    next_step,
)

TOOL = {"type": "object", "properties": {"command": {"type": "string"}, "description": {"type": "string"}}}
TALKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "tools": [{"type": "function", "function": {"name": "Bash", "parameters": TOOL}}],
            "messages": [{"role": "user"}],
        },
    ),
    "responses": (
        "/v1/responses",
        {
            "tools": [{"type": "function", "name": "Bash", "parameters": TOOL}, {"type": "web_search"}],
            "input": [{}, "x"],
        },
    ),
    "messages": ("/v1/messages?beta=true", {"tools": [{"name": "Bash", "input_schema": TOOL}], "messages": [{}]}),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"tools": [{"functionDeclarations": [{"name": "Bash", "parametersJsonSchema": TOOL}]}], "contents": [{}]},
    ),
}
GIVEN = {"command": "ls", "description": "run a command"}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel([ShellStep("ls"), SayStep("It is  done.\n")], tokens=TokenCounts(7, 3)) as found:
        yield found


def ask(model: ScriptedModel, path: str, body: Any, method: str = "POST", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", int(model.url.rpartition(":")[2]), timeout=30)
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, body=data, headers={"content-type": "application/json", **headers})
    answer = connection.getresponse()
    said = answer.status, answer.read()
    connection.close()
    return said


def streamed(data: bytes) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in data.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def called(api: str, said: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The tool that an answer calls."""
    match api:
        case "chat":
            function = said["choices"][0]["message"]["tool_calls"][0]["function"]
            return function["name"], json.loads(function["arguments"])
        case "responses":
            return said["output"][0]["name"], json.loads(said["output"][0]["arguments"])
        case "messages":
            return said["content"][0]["name"], said["content"][0]["input"]
        case _:
            call = said["candidates"][0]["content"]["parts"][0]["functionCall"]
            return call["name"], call["args"]


def answered(api: str, body: dict[str, Any]) -> dict[str, Any]:
    """The same conversation after the model's first answer."""
    more: dict[str, dict[str, Any]] = {
        "chat": {"messages": [{"role": "user"}, {"role": "assistant"}, {"role": "tool"}]},
        "responses": {"input": [{"type": "function_call"}, {"type": "function_call_output"}]},
        "messages": {"messages": [{"role": "assistant"}, {"role": "user"}]},
        "gemini": {"contents": [{"role": "model"}, {"role": "user"}]},
    }
    return {**body, **more[api]}


@pytest.mark.parametrize("api", TALKS)
def test_a_tool_is_called_and_then_something_is_said(model: ScriptedModel, api: str) -> None:
    path, body = TALKS[api]
    status, data = ask(model, path, body)
    assert (status, called(api, json.loads(data))) == (200, ("Bash", GIVEN))
    status, data = ask(model, path, answered(api, body))
    assert "It is  done.\\n" in data.decode()
    assert ("7" in data.decode(), "3" in data.decode()) == (True, True)
    assert [each.path for each in model.requests] == [path.partition("?")[0]] * 2


@pytest.mark.parametrize("api", TALKS)
def test_a_stream_says_the_same(model: ScriptedModel, api: str) -> None:
    path, body = TALKS[api]
    path = path.replace(":generate", ":streamGenerate")
    tool = streamed(ask(model, path, {**body, "stream": True})[1])
    text = streamed(ask(model, path, {**answered(api, body), "stream": True})[1])
    match api:
        case "chat":
            deltas = [each["choices"][0]["delta"] for each in tool if each["choices"]]
            pieces = [part["function"]["arguments"] for each in deltas for part in each.get("tool_calls", ())]
            said = [each["choices"][0]["delta"].get("content") or "" for each in text if each["choices"]]
            used = tool[-1]["usage"]["total_tokens"]
        case "responses":
            pieces = [each["delta"] for each in tool if each["type"].endswith("arguments.delta")]
            said = [each["delta"] for each in text if each["type"] == "response.output_text.delta"]
            used = tool[-1]["response"]["usage"]["total_tokens"]
        case "messages":
            pieces = [each["delta"]["partial_json"] for each in tool if each["type"] == "content_block_delta"]
            said = [each["delta"]["text"] for each in text if each["type"] == "content_block_delta"]
            used = tool[0]["message"]["usage"]["input_tokens"] + tool[-2]["usage"]["output_tokens"]
        case _:
            pieces = [json.dumps(called(api, tool[0])[1])]
            said = [text[0]["candidates"][0]["content"]["parts"][0]["text"]]
            used = tool[0]["usageMetadata"]["totalTokenCount"]
    assert (json.loads("".join(pieces)), "".join(said), used) == (GIVEN, "It is  done.\n", 10)


def test_who_offers_no_tools_gets_a_title(model: ScriptedModel) -> None:
    assert b"A task" in ask(model, "/v1/messages", {"messages": [{}]})[1]


def test_it_counts_lists_and_refuses(model: ScriptedModel) -> None:
    assert json.loads(ask(model, "/v1/messages/count_tokens", {})[1]) == {"input_tokens": 7}
    assert json.loads(ask(model, "/v1beta/models/m:countTokens", {})[1]) == {"totalTokens": 7}
    assert json.loads(ask(model, "/v1/models", b"", "GET")[1])["data"][0]["id"] == "scripted"
    assert [ask(model, path, b"", "GET")[0] for path in ("/", "/v1/models?x=1")] == [404, 200]
    assert ask(model, "/", b"", "HEAD") == (200, b"")
    assert ask(model, "/v1/embeddings", {})[0] == 404
    assert ask(model, "/v1/messages", b"{")[0] == 400
    model.script = [RefuseStep(429, "slow down")]
    status, data = ask(model, *TALKS["chat"])
    assert (status, json.loads(data)["error"]["message"]) == (429, "slow down")


def test_it_reads_what_is_packed_or_comes_in_pieces(model: ScriptedModel) -> None:
    path, body = TALKS["messages"]
    packed = gzip.compress(json.dumps(body).encode())
    assert ask(model, path, packed, **{"content-encoding": "gzip"})[0] == 200
    data = json.dumps(body).encode()
    pieces = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
    connection = http.client.HTTPConnection("127.0.0.1", int(model.url.rpartition(":")[2]), timeout=30)
    connection.putrequest("POST", path)
    connection.putheader("transfer-encoding", "chunked")
    connection.endheaders(pieces)
    assert connection.getresponse().status == 200
    connection.close()
    assert model.requests[0].body == model.requests[1].body == body


def talk(*tools: str, text: str = "", properties: tuple[str, ...] = (), answered: int = 0) -> Conversation:
    schema: dict[str, Any] = {"properties": {key: {} for key in properties}}
    return Conversation(dict.fromkeys(tools, schema), answered, text)


def test_a_file_is_written_with_whatever_there_is() -> None:
    step = WriteStep("a/b.py", "x = 'y'\n")
    where = "Primary working directory: /work\nIs it"
    found = make_reply(step, talk("Write", "Bash", text=where, properties=("file_path", "content")))
    assert (found.tool, dict(found.arguments)) == ("Write", {"file_path": "/work/a/b.py", "content": "x = 'y'\n"})
    assert make_reply(WriteStep("/x", ""), talk("write_file")).arguments == {"file_path": "/x", "content": ""}
    assert make_reply(WriteStep("x", ""), talk("write_file")).arguments["file_path"] == "x"
    found = make_reply(step, talk("exec_command", properties=("cmd", "is_background")))
    assert found.arguments["is_background"] is False
    assert found.arguments["cmd"] == "mkdir -p a && printf %s 'x = '\"'\"'y'\"'\"'\n' > a/b.py"
    assert make_reply(ShellStep("ls"), talk("shell")).arguments == {"command": ["bash", "-lc", "ls"]}
    assert make_reply(step, talk("Read")).text == "I have no shell."


def test_tools_of_servers_are_found_by_the_end_of_their_names() -> None:
    assert (
        make_reply(CallStep("my_tasks", {"a": 1}), talk("mcp__agenttalk__my_tasks")).tool == "mcp__agenttalk__my_tasks"
    )
    assert make_reply(CallStep("my_tasks"), talk("Read")).text == "I have no tool my_tasks."


def test_a_script_follows_the_conversation_and_repeats_its_last_step() -> None:
    script = behaves({"a": "1"}, "yes")
    without = replace(talk("x", answered=1), tools={})
    assert (next_step(script, without), next_step(script, without, tools=False)) == (SayStep("A task"), script[1])
    assert [next_step(script, talk("x", answered=number)) for number in range(4)] == [
        WriteStep("a", "1"),
        SayStep("yes"),
        SayStep("yes"),
        SayStep("yes"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Working directory: /a/b\n",
        "<cwd>/a/b</cwd>",
        "- **Workspace Directories**:\n  - /a/b\n",
        "I'm currently working in the directory: /a/b\nHere",
        "in the following directories:\n  - /a/b\n",
    ],
)
def test_where_it_works_is_read_from_what_the_agent_tells(text: str) -> None:
    assert folder_of(f"Much more.\n{text} and more") == "/a/b"
