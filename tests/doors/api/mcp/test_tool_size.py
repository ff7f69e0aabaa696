"""The tools that an agent is shown during a turn cost little: each request to its model pays for them."""

from __future__ import annotations

import json

from agenttalk.doors.mcp.server import to_mcp_tool
from agenttalk.doors.mcp.tool_table import BRIEF_INSTRUCTIONS, list_tools
from agenttalk.rules.prompts.size import estimate_tokens


def test_the_tools_of_a_turn_cost_at_most_1200_tokens() -> None:
    tools = [to_mcp_tool(each, "agent", brief=True) for each in list_tools("agent", brief=True)]
    shown = [each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in tools]
    assert {each["name"] for each in shown} >= {"check_promise", "dispute_check", "generate_command", "submit_artifact"}
    text = json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
    size = estimate_tokens(text) + estimate_tokens(BRIEF_INSTRUCTIONS)
    assert size <= 1200, size


def test_an_argument_that_is_not_shown_can_still_be_given() -> None:
    [tool] = [each for each in list_tools("agent") if each.name == "generate_command"]
    assert "locale" not in tool.to_schema("agent", brief=True)["properties"]
    assert tool.find_faults("agent", {"params": {}, "locale": "zh"}) == []
    assert tool.find_faults("agent", {"params": {}, "nonsense": 1}) == ["there is no argument 'nonsense'"]
