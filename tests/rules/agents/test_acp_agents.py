"""The table of coding agents that speak the Agent Client Protocol."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenttalk.contracts.agent import AcpUse, AgentProfile
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.agents import acp_table, cli_table
from agenttalk.rules.agents.acp_table import TABLE, build_variables, resolve_agent
from agenttalk.rules.planfile.compiler import compile_plan


def use(agent: str = "claude", **more: Any) -> AcpUse:
    return AcpUse.model_validate({"agent": agent, **more})


@pytest.mark.parametrize("name", [name for name in TABLE if name != "custom"])
def test_an_entry_has_what_a_start_needs(name: str) -> None:
    found = resolve_agent(use(name))
    assert found.program
    assert found.install.startswith("npm install -g ")
    assert found.handed
    start = cli_table.build_launch(
        found, use(name, model="m1", args=["--x"]), "", cli_table.RunLocation("/b", "/b/home"), confined=True
    )
    assert start.argv[0] == found.program
    assert "--x" in start.argv
    assert not any("{" in part for part in start.argv)
    assert "m1" in " ".join((*start.argv, *build_variables(found, use(name, model="m1"), confined=True).values()))


def test_a_profile_says_otherwise() -> None:
    found = resolve_agent(use("custom", program="my-agent", argv=["--acp"]))
    assert (found.program, found.argv) == ("my-agent", ("--acp",))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (None, "the profile names no coding agent; add acp, one of: claude"),
        (use("cluade"), "did you mean 'claude'?"),
        (use("zzzzzz"), "there are: claude"),
        (use("custom"), "needs its program; add acp.program"),
        (use(allow=["wirte"]), "names no kind of tool"),
    ],
)
def test_what_is_wrong_is_told(said: AcpUse | None, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("?", r"\?")):
        resolve_agent(said)


@pytest.mark.parametrize("said", [{"deny": ["fetch"]}, {"ask": ["fetch"]}, {"allow": []}, {"otherwise": "ask"}])
def test_whose_profile_says_what_it_may_do_asks_also_in_a_sandbox(said: dict[str, Any]) -> None:
    codex = TABLE["codex"]
    assert build_variables(codex, use(), confined=True)["INITIAL_AGENT_MODE"] == "agent-full-access"
    assert build_variables(codex, use(), confined=False)["INITIAL_AGENT_MODE"] == "read-only"
    assert build_variables(codex, use(**said), confined=True)["INITIAL_AGENT_MODE"] == "read-only"
    assert "ask" in build_variables(TABLE["opencode"], use(), confined=True)["OPENCODE_PERMISSION"]


def test_a_model_is_quoted_where_that_is_needed() -> None:
    odd = use(model='a"b\\c')
    assert json.loads(build_variables(TABLE["codex"], odd, confined=True)["CODEX_CONFIG"]) == {"model": 'a"b\\c'}
    assert build_variables(TABLE["claude"], odd, confined=True)["ANTHROPIC_MODEL"] == 'a"b\\c'


def test_it_is_confined_unless_somebody_says_otherwise() -> None:
    said = {"schema_version": "1.0", "agent_id": "dev", "driver": "acp", "acp": "claude"}
    profile = AgentProfile.from_json(said)
    assert profile.tier == "best"
    assert profile.acp == use()
    assert acp_table.resolve_agent(profile.acp) is TABLE["claude"]


@pytest.mark.parametrize(
    ("agent", "code", "words"),
    [
        ({"driver": "acp"}, "FIELD_MISSING", "the profile names no coding agent"),
        ({"driver": "acp", "acp": "cluade"}, "FIELD_VALUE", "there is no coding agent 'cluade' in the table"),
        ({"driver": "acp", "acp": {"agent": "claude", "deny": ["rm"]}}, "FIELD_VALUE", "'rm' names no kind of tool"),
    ],
)
def test_a_plan_whose_coding_agent_nobody_knows_is_refused(agent: dict[str, Any], code: str, words: str) -> None:
    document = {"plan_id": "p", "agents": {"dev": agent}, "tasks": [{"id": "t", "agent": "dev", "prompt": "Do it."}]}
    [problem] = compile_plan(reader.plan_of(YamlSource(document))).problems
    assert (problem.code, problem.field, problem.message) == (code, "agents.dev.acp", words)


ATTEMPT = {"AGENTTALK_TOKEN": "agt_x", "AGENTTALK_SOCKET": "/s", "AGENTTALK_LEASE": "l", "HOME": "/h", "MY_KEY": "k"}


def test_our_server_is_described_with_the_attempts_token_and_no_other_variable() -> None:
    command = ("/python", "-m", "agenttalk", "mcp")
    [server] = acp_table.build_servers(TABLE["custom"], command, ATTEMPT)
    assert server == {
        "name": "agenttalk",
        "command": "/python",
        "args": ["-m", "agenttalk", "mcp"],
        "env": [{"name": "AGENTTALK_TOKEN", "value": "agt_x"}, {"name": "AGENTTALK_SOCKET", "value": "/s"}],
    }
    assert acp_table.build_servers(TABLE["custom"], (), ATTEMPT) == ()
    [inherits] = acp_table.build_servers(TABLE["claude"], command, ATTEMPT)  # its arguments would tell everybody
    assert inherits == {**server, "env": []}


@pytest.mark.parametrize("name", TABLE)
@pytest.mark.parametrize("home", ["/b/home", ""])
def test_who_has_our_server_is_told_to_wait_for_it_and_of_itself_in_the_session_alone(name: str, home: str) -> None:
    program = {"program": "mine"} if name == "custom" else {}
    found = resolve_agent(use(name, **program))
    without = cli_table.build_launch(found, use(name), "", cli_table.RunLocation("/b", home), confined=True)
    room = cli_table.RunLocation("/b", home, "", ("/python", "-m", "agenttalk", "mcp"))
    start = cli_table.build_launch(found, use(name), "", room, confined=True)
    assert start.argv == without.argv
    assert "/python" not in str(start)
    extra = set(start.own) - set(without.own)
    waits = {"claude": "MCP_TIMEOUT", "gemini": "GEMINI_CLI_TRUST_WORKSPACE", "qwen": "QWEN_CODE_LEGACY_MCP_BLOCKING"}
    assert waits.get(name) in {None, *extra}
    assert bool(extra) == (name in waits)
    assert bool(found.meta) == (name == "codex")
    settings = start.files.get("home/.qwen/settings.json" if home else "mcp.json", "{}")
    assert json.loads(settings).get("tools") == ({"toolSearch": {"enabled": False}} if name == "qwen" else None)
