"""A dialogue in the Agent Client Protocol: what is said keeps to it, and whatever comes, there is no error of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from acp import schema
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttalk.adapters.drivers.acp import MOST_WISHES, AcpDialogue
from agenttalk.ports.dialogues import PermissionRequest, SessionParameters
from agenttalk.rules.agents.events import AgentEvent
from agenttalk.rules.agents.permissions import ToolRequest

OFFERS = {"loadSession": True, "sessionCapabilities": {"additionalDirectories": {}}}
MODES = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]}
ONCE = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}, {"optionId": "n", "name": "No", "kind": "reject_once"}]


class Other:
    """The other side, said by hand."""

    def __init__(self, opening: SessionParameters | None = None, **limits: int) -> None:
        self.dialogue = AcpDialogue(opening or SessionParameters("/w", "Do it."), **limits)
        self.dialogue.begin()

    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.dialogue.take_output().splitlines()]

    def says(self, **message: Any) -> list[AgentEvent | PermissionRequest]:
        return list(self.dialogue.receive_line(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def answers(self, method: str, result: Any) -> list[AgentEvent | PermissionRequest]:
        [asked] = self.heard()
        assert asked["method"] == method
        return self.says(id=asked["id"], result=result)

    def updates(self, kind: str, /, **more: Any) -> list[AgentEvent | PermissionRequest]:
        return self.says(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": kind, **more}})

    def opened(self, session: dict[str, Any] | None = None, **agent: Any) -> list[AgentEvent | PermissionRequest]:
        self.answers("initialize", {"protocolVersion": 1, "agentCapabilities": OFFERS, **agent})
        return self.answers("session/new", {"sessionId": "s", **(session or {})})

    def asks(self, number: Any = 7, **call: Any) -> list[AgentEvent | PermissionRequest]:
        said = {"sessionId": "s", "toolCall": {"toolCallId": "t", **call}, "options": ONCE}
        return self.says(id=number, method="session/request_permission", params=said)


def test_all_that_is_said_is_what_the_protocol_says() -> None:
    server = {"name": "shop", "command": "python3", "args": ["-m", "shop"], "env": []}
    opening = SessionParameters(
        "/w", "Do it.", mode="plan", auth="key", servers=(server,), meta={"m": 1}, besides=("/base",)
    )
    assert "python3" not in repr(opening)  # there may be a token in it
    other = Other(opening)
    [hello] = other.heard()
    greeting = schema.InitializeRequest.model_validate(hello["params"])
    assert greeting.protocol_version == 1
    assert greeting.client_capabilities is not None
    assert greeting.client_capabilities.fs == schema.FileSystemCapabilities(read_text_file=False, write_text_file=False)
    assert greeting.client_capabilities.terminal is False
    logins = [{"id": "key", "name": "A key"}]
    other.says(id=0, result={"protocolVersion": 1, "agentCapabilities": OFFERS, "authMethods": logins})
    [login] = other.heard()
    assert schema.AuthenticateRequest.model_validate(login["params"]).method_id == "key"
    other.says(id=login["id"], result={})
    [new] = other.heard()
    session = schema.NewSessionRequest.model_validate(new["params"])
    assert (session.cwd, session.additional_directories) == ("/w", ["/base"])
    assert (new["params"]["mcpServers"], new["params"]["_meta"]) == ([server], {"m": 1})
    assert other.says(id=new["id"], result={"sessionId": "s", "modes": MODES}) == [AgentEvent("session", "s")]
    [mode] = other.heard()
    assert schema.SetSessionModeRequest.model_validate(mode["params"]).mode_id == "plan"
    assert not other.dialogue.ready
    other.says(id=mode["id"], result={})
    [prompt] = other.heard()
    block = schema.PromptRequest.model_validate(prompt["params"]).prompt[0]
    assert isinstance(block, schema.TextContentBlock)
    assert (block.text, other.dialogue.ready) == ("Do it.", True)
    [asked] = other.asks(kind="edit", locations=[{"path": "a"}])
    assert isinstance(asked, PermissionRequest)
    assert other.dialogue.answer_permission(asked, allow=True)
    [answer] = other.heard()
    outcome = schema.RequestPermissionResponse.model_validate(answer["result"]).outcome
    assert outcome == schema.AllowedOutcome(outcome="selected", option_id="y")
    other.dialogue.cancel()
    [stop] = other.heard()
    assert schema.CancelNotification.model_validate(stop["params"]).session_id == "s"
    assert "id" not in stop


@pytest.mark.parametrize(("offers", "method"), [(True, "session/load"), (False, "session/new")])
def test_a_session_goes_on_where_that_is_offered(offers: bool, method: str) -> None:
    server = {"name": "shop", "command": "python3", "args": [], "env": []}
    other = Other(SessionParameters("/w", "The rest.", session="s", anew="All of it.", servers=(server,)))
    other.answers("initialize", {"protocolVersion": 1, "agentCapabilities": {"loadSession": offers}})
    [opening] = other.heard()
    assert (opening["method"], opening["params"]["mcpServers"]) == (method, [server])
    assert other.updates("agent_message_chunk", content={"type": "text", "text": "before"}) == []
    other.says(id=opening["id"], result=None if offers else {"sessionId": "new"})
    [prompt] = other.heard()
    assert prompt["params"]["prompt"][0]["text"] == ("The rest." if offers else "All of it.")


def test_a_session_that_cannot_go_on_is_a_new_one() -> None:
    other = Other(SessionParameters("/w", "The rest.", session="gone", anew="All of it."))
    other.answers("initialize", {"protocolVersion": 1, "agentCapabilities": OFFERS})
    [opening] = other.heard()
    [warning] = other.says(id=opening["id"], error={"code": -32002, "message": "no such session"})
    assert isinstance(warning, AgentEvent)
    assert warning.kind == "warning"
    other.answers("session/new", {"sessionId": "s"})
    assert other.heard()[0]["params"]["prompt"][0]["text"] == "All of it."


@pytest.mark.parametrize(
    ("session", "mode", "error"),
    [
        ({"modes": MODES}, "ask", ""),
        ({"modes": MODES}, "yolo", "it has no mode 'yolo'; it offers: ask, plan"),
        ({}, "ask", "it has no mode 'ask'; it offers: none"),
        ({"sessionId": ""}, "", "it opened a session without an id"),
    ],
)
def test_a_mode_that_is_not_there_is_told(session: dict[str, Any], mode: str, error: str) -> None:
    other = Other(SessionParameters("/w", "Do it.", mode=mode))
    found = [each.text for each in other.opened(session) if isinstance(each, AgentEvent) and each.kind == "error"]
    assert "".join(found).endswith(error)
    assert other.dialogue.over == bool(error)
    assert [each["method"] for each in other.heard()] == ([] if error else ["session/prompt"])


def test_a_tool_is_told_of_once_when_it_is_known_what_for() -> None:
    other = Other()
    other.opened()
    assert other.updates("tool_call", toolCallId="t", title="Preparing", kind="execute") == []
    [tool] = other.updates("tool_call_update", toolCallId="t", rawInput={"command": ["bash", "-lc", "make all"]})
    assert tool == AgentEvent("tool", "make all", "execute")
    assert other.updates("tool_call_update", toolCallId="t", status="completed") == []
    assert other.updates("tool_call", toolCallId="u", title="Thinking", kind="think") == []
    [told, asked] = other.asks(toolCallId="u")
    assert (told, asked) == (AgentEvent("tool", "Thinking", "think"), PermissionRequest(asked.number, asked.wish))  # type: ignore[union-attr]
    other.updates("tool_call", toolCallId="v", title="Looking", kind="read")
    [prompt, *_] = other.heard()
    assert other.says(id=prompt["id"], result={"stopReason": "end_turn"}) == [
        AgentEvent("tool", "Looking", "read"),
        AgentEvent("end"),
    ]


def test_what_it_used_is_told_also_beside_the_protocol() -> None:
    other = Other()
    other.opened()
    for number in (1, 2):
        meta = {"usage": {"totalTokens": 120}}
        [usage] = other.updates("agent_message_chunk", content={"type": "text", "text": ""}, _meta=meta)
        assert isinstance(usage, AgentEvent)
        assert usage.used.tokens == 120 * number
    [usage] = other.updates("usage_update", used=300, size=1000, cost={"amount": 2, "currency": "EUR"})
    assert isinstance(usage, AgentEvent)
    assert (usage.used.tokens, usage.used.cost_usd) == (300, 0)
    [prompt] = other.heard()
    quota: dict[str, Any] = {"quota": {"token_count": {"input_tokens": 200, "output_tokens": 40}}}
    usage, _ = other.says(id=prompt["id"], result={"stopReason": "end_turn", "_meta": quota})
    assert isinstance(usage, AgentEvent)
    assert usage.used.tokens == 240


def test_half_characters_are_left_out_and_nothing_else_is() -> None:
    other = Other()
    other.opened()
    line = rb'{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk",'
    line += rb'"content":{"type":"text","text":"a\ud83d b\ude00 \ud83d\ude00"}}}}'
    assert list(other.dialogue.receive_line(line)) == []
    [prompt] = other.heard()
    [text, _] = other.says(id=prompt["id"], result={"stopReason": "end_turn"})
    assert text == AgentEvent("text", "a\ufffd b\ufffd \U0001f600")


def test_a_denial_is_the_reason_and_not_that_it_stopped_for_it() -> None:
    other = Other()
    other.opened()
    [prompt] = other.heard()
    [asked] = other.asks(kind="execute", title="rm")
    assert isinstance(asked, PermissionRequest)
    assert not other.dialogue.answer_permission(asked, allow=False)
    assert other.says(id=prompt["id"], result={"stopReason": "cancelled"}) == [AgentEvent("end")]


def test_who_asks_for_too_much_at_once_is_told_so() -> None:
    other = Other()
    other.opened()
    other.heard()
    for number in range(MOST_WISHES):
        [asked] = other.asks(number)
        assert isinstance(asked, PermissionRequest)
    [warning] = other.asks("one more")
    assert isinstance(warning, AgentEvent)
    [answer] = other.heard()
    assert (answer["id"], answer["error"]["code"]) == ("one more", -32602)
    other.dialogue.cancel()
    said = other.heard()
    assert [each.get("method") for each in said[:1]] == ["session/cancel"]
    assert {each["result"]["outcome"]["outcome"] for each in said[1:]} == {"cancelled"}
    assert len(said) == MOST_WISHES + 1
    assert other.asks("late") == []
    assert other.heard()[0]["result"]["outcome"] == {"outcome": "cancelled"}
    other.dialogue.cancel()
    assert other.heard() == []


def test_who_never_ends_telling_is_not_heard_for_ever() -> None:
    other = Other(most_messages=5)
    other.opened()
    for _ in range(3):
        assert other.updates("agent_thought_chunk", content={"type": "text", "text": "hm"}) == []
    [error] = other.updates("agent_thought_chunk", content={"type": "text", "text": "hm"})
    assert isinstance(error, AgentEvent)
    assert "it sent more than 64 MiB or 5 messages in one prompt" in error.text
    assert (other.dialogue.over, other.dialogue.broken) == (True, True)
    assert other.updates("agent_thought_chunk", content={"type": "text", "text": "hm"}) == []


PLAIN = st.none() | st.booleans() | st.integers(-3, 9) | st.text(max_size=6)
JSON = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
NAMES = st.sampled_from(
    ["session/update", "session/request_permission", "fs/read_text_file", "initialize", "x", "session/prompt"]
)
UPDATES = st.fixed_dictionaries(
    {},
    optional={
        "sessionUpdate": st.sampled_from(["tool_call", "tool_call_update", "agent_message_chunk", "usage_update", "x"]),
        "toolCallId": st.sampled_from(["t", "u"]) | JSON,
        "title": JSON,
        "kind": st.sampled_from(["edit", "execute"]) | JSON,
        "rawInput": st.dictionaries(st.sampled_from(["command", "path", "cmd"]), JSON, max_size=2) | JSON,
        "locations": st.lists(st.fixed_dictionaries({"path": JSON}), max_size=2) | JSON,
        "content": JSON,
        "used": JSON,
        "_meta": st.fixed_dictionaries({"usage": JSON}) | JSON,
    },
)
PARAMS = JSON | st.fixed_dictionaries(
    {"sessionId": st.sampled_from(["s"]) | JSON},
    optional={"update": UPDATES, "toolCall": UPDATES, "options": st.just(ONCE) | JSON},
)
MESSAGES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "id": st.integers(0, 4) | JSON,
        "method": NAMES | JSON,
        "params": PARAMS,
        "result": JSON | st.sampled_from([{"protocolVersion": 1}, {"sessionId": "s"}, {"stopReason": "end_turn"}]),
        "error": JSON | st.fixed_dictionaries({"code": JSON, "message": JSON, "data": JSON}),
    },
)
LINES = MESSAGES.map(lambda said: json.dumps(said).encode()) | st.binary(max_size=40)


@settings(deadline=None)
@given(opened=st.booleans(), lines=st.lists(LINES, max_size=12))
def test_whatever_comes_nothing_is_raised_and_what_is_said_can_be_read(*, opened: bool, lines: list[bytes]) -> None:
    other = Other()
    if opened:
        other.opened()
    for line in lines:
        for each in other.dialogue.receive_line(line):
            if isinstance(each, PermissionRequest):
                other.dialogue.answer_permission(each, allow=False)
            else:
                assert each.line.encode()
                assert each.as_json()
    for said in other.heard():
        assert said["jsonrpc"] == "2.0"
    other.dialogue.cancel()
    assert all(isinstance(each, AgentEvent) for each in other.dialogue.give_up("enough"))
    assert other.dialogue.over


OURS = SessionParameters("/w", "Do it.", servers=({"name": "agenttalk", "command": "x", "args": [], "env": []},))
GIVEN = {"output": "a.txt", "path": "../a.txt"}
CALLS: dict[str, dict[str, Any]] = {
    "claude": {
        "title": "mcp__agenttalk__submit_artifact",
        "kind": "other",
        "rawInput": GIVEN,
        "_meta": {"claudeCode": {"toolName": "mcp__agenttalk__submit_artifact"}},
    },
    "codex": {
        "title": "mcp.agenttalk.submit_artifact",
        "kind": "execute",
        "rawInput": {"server": "agenttalk", "tool": "submit_artifact", "arguments": GIVEN},
        "_meta": {"is_mcp_tool_call": True},
    },
    "gemini": {"title": "submit_artifact (agenttalk MCP Server)", "kind": "other", "rawInput": GIVEN},
    "opencode": {"title": "agenttalk_submit_artifact", "kind": "other", "rawInput": GIVEN},
    "qwen": {
        "title": "{}",
        "kind": "read",
        "rawInput": GIVEN,
        "_meta": {"toolName": "mcp__agenttalk__submit_artifact"},
    },
}
"""How agents tell of a call of one of our tools."""


@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_our_own_tool_is_known_as_such_by_who_was_given_it(name: str) -> None:
    other = Other(OURS)
    other.opened()
    [asked] = other.asks(**CALLS[name])
    assert isinstance(asked, PermissionRequest)
    assert asked.wish == ToolRequest("other", "agenttalk submit_artifact ../a.txt", (), "submit_artifact")
    [tool] = other.updates("tool_call", **{**CALLS[name], "toolCallId": "u"})
    assert tool == AgentEvent("tool", "agenttalk submit_artifact ../a.txt", "other")
    stranger = Other()
    stranger.opened()
    [asked] = stranger.asks(**CALLS[name])
    assert isinstance(asked, PermissionRequest)
    assert (asked.wish.tool, asked.wish.paths) == ("", () if name == "codex" else ("../a.txt",))


@pytest.mark.parametrize(
    "call",
    [
        {"title": "submit_artifact (agenttalk MCP Server)", "kind": "execute"},
        {"title": "mcp__agenttalk__submit_artifact", "kind": "execute", "rawInput": {"command": "rm -rf /"}},
        {"title": "mcp__agenttalk__submit_artifact", "kind": "other", "_meta": {"toolName": "run_shell_command"}},
        {"title": "mcp__agenttalk__x", "kind": "other", "_meta": {"claudeCode": {"toolName": "mcp__other__x"}}},
        {"title": "x", "kind": "execute", "rawInput": {"server": "agenttalk", "tool": "x"}},
        {
            "title": "x",
            "kind": "execute",
            "rawInput": {"server": "b", "tool": "x"},
            "_meta": {"is_mcp_tool_call": True},
        },
        {"title": "mcp__agenttalk__x; rm -rf /", "kind": "other"},
        {"title": "rm", "kind": "other", "_meta": {"toolName": 7}},
    ],
)
def test_what_only_its_model_could_have_said_makes_no_call_one_of_ours(call: dict[str, Any]) -> None:
    other = Other(OURS)
    other.opened()
    [asked] = other.asks(**call)
    assert isinstance(asked, PermissionRequest)
    assert asked.wish.tool == ""


def test_who_asks_for_something_else_than_it_told_of_does_not_ask_for_our_tool() -> None:
    other = Other(OURS)
    other.opened()
    other.updates("tool_call", toolCallId="t", **CALLS["claude"])
    [tool] = other.updates("tool_call", toolCallId="u", **{**CALLS["claude"], "rawInput": {}, "status": "completed"})
    assert tool == AgentEvent("tool", "agenttalk submit_artifact", "other")
    assert other.updates("tool_call_update", toolCallId="t", status="completed") == []
    [asked] = other.asks(toolCallId="t", kind="execute", title="x", rawInput={"command": "rm -rf /"})
    assert isinstance(asked, PermissionRequest)
    assert asked.wish == ToolRequest("execute", "rm -rf /")
