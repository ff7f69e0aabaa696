"""The table of coding agents: what each is started with, and what a profile may say otherwise."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from agenttalk.contracts.agent import AgentProfile, CliUse
from agenttalk.contracts.errors import ContractError
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.planfile.yaml_text import YamlSource
from agenttalk.rules.agents.cli_table import (
    LONGEST_ARGUMENT,
    TABLE,
    LaunchSpec,
    RunLocation,
    build_launch,
    choose_login,
    resolve_agent,
)
from agenttalk.rules.planfile.compiler import compile_plan

ROOM = RunLocation("/base", "/base/home")


def begun(
    use: CliUse, prompt: str = "Do it.", room: RunLocation = ROOM, *, confined: bool = True, session: str = ""
) -> LaunchSpec:
    return build_launch(resolve_agent(use), use, prompt, room, confined=confined, session=session)


@pytest.mark.parametrize("name", [name for name in TABLE if name != "custom"])
@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("session", ["", "ses_1"])
def test_no_place_is_left_open_and_the_prompt_is_nobodys_argument(name: str, confined: bool, session: str) -> None:
    use = CliUse(agent=name, model="m1", args=("--more", "{base}/x"))
    if session and not TABLE[name].resume:
        return
    found = begun(
        use,
        "A secret {base} prompt",
        RunLocation("/base", "/base/home", "check it"),
        confined=confined,
        session=session,
    )
    assert found.argv[0] == TABLE[name].program
    assert not [part for part in found.argv if part in {"{MODEL}", "{GUARD}", "{MCP}", "{HOOK}", "{ARGS}"}]
    assert not [part for part in found.argv if "{base}" in part or "{session}" in part or "prompt}" in part]
    assert {"m1", "--more", "/base/x"} <= set(found.argv)
    assert (session in found.argv) == bool(session)
    assert "A secret {base} prompt" in (found.stdin, found.files.get("prompt.txt"))
    assert not any("secret" in part for part in found.argv)
    assert found.own == {"HOME": "/base/home"}
    assert all(path.startswith(("home/", "prompt.txt")) for path in found.files)


def test_who_is_in_no_sandbox_is_trusted_less_and_has_the_home_of_the_user() -> None:
    use = CliUse(agent="claude")
    inside, outside = begun(use), begun(use, room=RunLocation("/base"), confined=False)
    assert "bypassPermissions" in inside.argv
    assert inside.variables["IS_SANDBOX"] == "1"
    assert "bypassPermissions" not in outside.argv
    assert "acceptEdits" in outside.argv
    assert "IS_SANDBOX" not in outside.variables
    assert (outside.own, outside.files) == ({}, {})
    assert "--dangerously-bypass-approvals-and-sandbox" not in begun(CliUse(agent="codex"), confined=False).argv


def test_what_is_asked_before_the_end_is_json_whatever_the_command_is() -> None:
    command = "python3 -c \"print('a\\\\b')\" --hook"
    argv = begun(CliUse(agent="claude"), room=RunLocation("/base", hook=command)).argv
    told = json.loads(argv[argv.index("--settings") + 1])
    assert told["hooks"]["Stop"][0]["hooks"][0]["command"] == command
    assert "--settings" not in begun(CliUse(agent="claude")).argv


SERVER = ("/opt/py thon", "-m", 'a"b', "mcp")
TOOLED = [name for name, each in TABLE.items() if each.mcp is not None]


def with_tools(name: str, *, home: str = "", session: str = "") -> LaunchSpec:
    use = CliUse(agent=name, program="mine" if name == "custom" else None)
    return build_launch(
        resolve_agent(use, mcp=True),
        use,
        "Do it.",
        RunLocation("/base", home, "", SERVER),
        confined=True,
        session=session,
    )


@pytest.mark.parametrize("name", TOOLED)
@pytest.mark.parametrize("home", ["", "/base/home"])
def test_our_server_is_told_as_each_agent_wants_it_and_the_token_is_not(name: str, home: str) -> None:
    found = with_tools(name, home=home)
    told = [*found.argv, *found.own.values(), *found.files.values()]
    assert not [each for each in told if "{server" in each or "{mcp_file}" in each]
    if name == "codex":
        [said] = [each for each in found.argv if each.startswith("mcp_servers.agenttalk=")]
        server = tomllib.loads(said)["mcp_servers"]["agenttalk"]
        assert server["required"] is True
        assert "AGENTTALK_TOKEN" in server["env_vars"]
    else:
        client = TABLE[name].mcp
        inside = bool(home and client and client.settings)
        document = json.loads(found.files[f"home/{client.settings}" if client and inside else "mcp.json"])
        server = (document.get("mcpServers") or document["mcp"])["agenttalk"]
        assert inside or any(each.endswith("/base/mcp.json") for each in (*found.own.values(), *found.argv))
        assert ("security" in document) == inside
    command = server["command"]
    argv = command if isinstance(command, list) else [command, *server["args"]]
    assert argv == list(SERVER)
    assert set(TABLE[name].led_by) <= found.own.keys()


def test_who_is_not_given_our_server_is_not_told_of_it() -> None:
    for name in TOOLED:
        use = CliUse(agent=name, program="mine" if name == "custom" else None)
        found = build_launch(resolve_agent(use), use, "Do it.", ROOM, confined=True)
        assert "agenttalk" not in f"{found.argv}{found.files}"
        assert found.own == {"HOME": "/base/home"}
    assert TABLE["aider"].led_by == ()


def test_a_session_that_goes_on_still_has_our_server() -> None:
    assert "--mcp-config=/base/mcp.json" in with_tools("claude", session="ses_1").argv
    assert any("mcp_servers" in each for each in with_tools("codex", session="ses_1").argv)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (CliUse(agent="aider"), "aider cannot use an MCP server; remove mcp"),
        (CliUse(agent="claude", argv=("-p",)), "no place for our MCP server; add {MCP} to cli.argv and cli.resume"),
        (CliUse(agent="codex", argv=("exec", "{MCP}"), resume=("exec", "{session}")), "add {MCP}"),
    ],
)
def test_who_cannot_be_told_of_our_server_is_refused(use: CliUse, words: str) -> None:
    assert resolve_agent(use)
    with pytest.raises(ValueError, match=re.escape(words)):
        resolve_agent(use, mcp=True)


def test_arguments_of_ones_own_may_have_a_place_for_our_server() -> None:
    assert resolve_agent(CliUse(agent="claude", argv=("-p", "{MCP}")), mcp=True).resume == ()
    assert resolve_agent(CliUse(agent="gemini", argv=("-p",)), mcp=True).argv == ("-p",)  # it is told by a variable


def test_any_other_program_is_described_in_the_profile() -> None:
    use = CliUse(agent="custom", program="mine", argv=("--ask", "{prompt}"), prompt="argument", failed=("^oh",))
    found = begun(use, "{base} is no place here")
    assert (found.argv, found.stdin) == (("mine", "--ask", "{base} is no place here"), "")
    assert resolve_agent(use).failed == ("^oh",)
    assert begun(CliUse(agent="custom", program="mine", args=("-v",))).argv == ("mine", "-v")
    with pytest.raises(ValueError, match="more than 100 KiB"):
        begun(use, "ä" * LONGEST_ARGUMENT)


def test_what_is_said_in_the_profile_wins_over_the_table() -> None:
    found = resolve_agent(CliUse(agent="codex", argv=("exec", "-"), program="/opt/codex"))
    assert (found.program, found.argv, found.resume) == ("/opt/codex", ("exec", "-"), ())
    assert found.codec == "codex"
    assert resolve_agent(CliUse(agent="codex", argv=("a",), resume=("b", "{session}"))).resume == ("b", "{session}")


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (None, "the profile names no coding agent; add cli, one of: claude, codex"),
        (CliUse(agent="cladue"), "there is no coding agent 'cladue' in the table; did you mean 'claude'?"),
        (CliUse(agent="zzz"), "there are: claude"),
        (CliUse(agent="custom"), "needs its program; add cli.program"),
        (CliUse(agent="claude", codec="morse"), "there is no codec 'morse'"),
        (CliUse(agent="claude", denied=("(",)), "a pattern for the output"),
    ],
)
def test_what_cannot_be_started_is_said_with_what_to_do(use: CliUse | None, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        resolve_agent(use)


@pytest.mark.parametrize(
    ("said", "sandbox"),
    [
        ({"driver": "cli", "cli": "claude"}, "best"),
        ({"driver": "cli", "cli": {"agent": "claude"}, "sandbox": None}, "best"),
        ({"driver": "cli", "sandbox": "plain"}, "plain"),
        ({"driver": "script"}, "best"),
    ],
)
def test_a_coding_agent_is_confined_unless_somebody_says_otherwise(said: dict[str, object], sandbox: str) -> None:
    profile = AgentProfile.from_json({"schema_version": "1.0", "agent_id": "a", **said})
    assert profile.tier == sandbox
    assert AgentProfile.from_json(profile.as_json()) == profile
    if "cli" in said:
        assert profile.cli == CliUse(agent="claude")


@pytest.mark.parametrize(
    ("agent", "field", "code"),
    [
        ({"driver": "cli"}, "agents.dev.cli", "FIELD_MISSING"),
        ({"driver": "cli", "cli": "cladue"}, "agents.dev.cli", "FIELD_VALUE"),
        ({"driver": "cli", "cli": {"agent": "custom"}}, "agents.dev.cli", "FIELD_VALUE"),
        ({"driver": "cli", "cli": "aider", "mcp": True}, "agents.dev.cli", "FIELD_VALUE"),
    ],
)
def test_a_plan_whose_coding_agent_nobody_knows_is_refused(agent: dict[str, object], field: str, code: str) -> None:
    task = {"id": "t", "agent": "dev", "prompt": "Do it."}
    document = {"plan_id": "p", "agents": {"dev": agent}, "tasks": [task]}
    [problem] = compile_plan(reader.plan_of(YamlSource(document))).problems
    assert (problem.field, problem.code) == (field, code)
    assert problem.hint


def test_tools_for_somebody_who_cannot_use_them_are_doubted() -> None:
    task = {"id": "t", "agent": "dev", "prompt": "Do it."}
    for driver, doubts in (("script", 1), ("cli", 0), ("acp", 0)):
        agent = {"driver": driver, "argv": ["true"], "cli": "claude", "acp": "claude", "mcp": True}
        found = compile_plan(reader.plan_of(YamlSource({"plan_id": "p", "agents": {"dev": agent}, "tasks": [task]})))
        assert found.problems == ()
        assert sum(each.field == "agents.dev.mcp" for each in found.warnings) == doubts
        assert found.profiles["dev"].has_tools == (not doubts)


def test_a_key_of_cli_that_nobody_knows_is_named_with_the_nearest() -> None:
    agent = {"driver": "cli", "cli": {"agent": "claude", "modell": "m"}}
    document = {"plan_id": "p", "agents": {"dev": agent}, "tasks": [{"id": "t", "agent": "dev", "prompt": "Do it."}]}
    with pytest.raises(ContractError) as refused:
        reader.plan_of(YamlSource(document))
    [problem] = refused.value.problems
    assert (problem.field, problem.hint) == ("agents.dev.cli.modell", "did you mean 'model'?")


def test_who_has_no_key_uses_the_login_of_a_person_and_is_set_up_for_it() -> None:
    table = TABLE
    assert choose_login(table["claude"], {"ANTHROPIC_BASE_URL"}).login == table["claude"].login
    assert choose_login(table["claude"], {"CLAUDE_CODE_OAUTH_TOKEN"}).login is None
    assert choose_login(table["aider"], ()).login is None
    assert "oauth-personal" in choose_login(table["gemini"], ()).files[".gemini/settings.json"]
    assert "gemini-api-key" in choose_login(table["gemini"], {"GEMINI_API_KEY"}).files[".gemini/settings.json"]
    assert all(each.login is None or each.login.remedy for each in table.values())
