"""Commands by which people start coding agents, and what the engine makes of them."""

from __future__ import annotations

import pytest

from agenttalk.rules.agents.agent_commands import FLAGS, AgentCommand, find_agent, read_command
from agenttalk.rules.agents.cli_table import TABLE


@pytest.mark.parametrize(
    ("command", "prompt"),
    [
        (["claude", "-p", "Fix it"], "Fix it"),
        (["claude", "Fix it", "-p"], "Fix it"),
        (["claude", "--print", "--output-format", "json", "Fix it"], "Fix it"),
        (["claude", "-p", "--", "- fix it"], "- fix it"),
        (["/opt/bin/claude", "-p", "Fix it"], "Fix it"),
        (["codex", "exec", "Fix it"], "Fix it"),
        (["codex", "exec", "--full-auto", "--json", "Fix it"], "Fix it"),
        (["codex", "Fix it"], "Fix it"),
        (["gemini", "-p", "Fix it", "--yolo"], "Fix it"),
        (["gemini", "--prompt=Fix it"], "Fix it"),
        (["gemini", "Fix it"], "Fix it"),
        (["opencode", "run", "Fix", "it"], "Fix it"),
        (["qwen", "-p", "Fix it"], "Fix it"),
        (["aider", "price.py", "--message", "Fix it"], "Fix it"),
        (["claude"], ""),
        (["claude", "-p", "--new-switch", "Fix it"], "Fix it"),
    ],
)
def test_the_prompt_of_a_coding_agent_is_found(command: list[str], prompt: str) -> None:
    found = read_command(command)
    assert (found.is_known, found.prompt) == (True, prompt)


def test_what_the_driver_decides_is_left_out_and_told() -> None:
    found = read_command(["claude", "--dangerously-skip-permissions", "-p", "Fix it", "--output-format=json"])
    assert found.dropped == ("--dangerously-skip-permissions", "--output-format")
    assert found.args == ()
    assert found.to_profile() == {"driver": "cli", "cli": {"agent": "claude"}}


def test_the_model_and_other_arguments_are_passed_on() -> None:
    found = read_command(["claude", "-p", "Fix it", "--model", "opus", "--max-turns", "9", "--effort=high"])
    assert (found.model, found.args) == ("opus", ("--max-turns", "9", "--effort=high"))
    use = {"agent": "claude", "model": "opus", "args": ["--max-turns", "9", "--effort=high"]}
    assert found.to_profile() == {"driver": "cli", "cli": use}
    assert read_command(["codex", "exec", "-m", "o5", "-c", "a=b", "Fix it"]).args == ("-c", "a=b")
    assert read_command(["aider", "price.py", "--message", "Fix it"]).args == ("price.py",)


def test_the_value_of_an_unknown_option_is_not_the_prompt_when_there_is_one() -> None:
    found = read_command(["claude", "-p", "Fix it", "--new", "value"])
    assert (found.prompt, found.args) == ("Fix it", ("--new", "value"))
    twice = read_command(["claude", "--new", "one", "--newer", "two"])
    assert (twice.prompt, twice.args) == ("", ("--new", "one", "--newer", "two"))
    last = read_command(["claude", "Fix it", "--newest"])
    assert (last.prompt, last.args) == ("Fix it", ("--newest",))


def test_a_program_at_another_place_is_started_there() -> None:
    use = read_command(["./node_modules/.bin/codex", "exec", "Fix it"]).to_profile()["cli"]
    assert use == {"agent": "codex", "program": "./node_modules/.bin/codex"}


def test_any_other_program_is_started_as_it_is_written() -> None:
    found = read_command(["./fix.sh", "--fast", "{feedback}"])
    assert found == AgentCommand("./fix.sh", args=("--fast", "{feedback}"))
    assert not found.is_known
    assert found.to_profile() == {"driver": "script", "argv": ["./fix.sh", "--fast", "{feedback}"]}


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ([], "no command is named"),
        ([""], "no command is named"),
        (["claude", "--resume", "abc", "-p", "Fix it"], "session of an earlier run"),
        (["codex", "exec", "-C", "/elsewhere", "Fix it"], "private clone"),
        (["claude", "-p", "Fix", "it"], "put it in quotes: 'Fix it'"),
        (["gemini", "-p"], "needs a value"),
        (["gemini", "-p", "Fix it", "and that"], "two prompts"),
    ],
)
def test_what_the_driver_cannot_start_is_refused_with_what_to_do(command: list[str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_command(command)


def test_every_agent_of_the_table_with_a_program_is_known() -> None:
    assert {*FLAGS} == {*TABLE} - {"custom"}
    assert find_agent("/usr/bin/opencode") == "opencode"
    assert find_agent("vim") == ""


@pytest.mark.parametrize("agent", sorted(FLAGS))
def test_a_command_is_written_as_it_is_read(agent: str) -> None:
    for model, args, prompt in (("", (), "Fix it"), ("m/1", ("--x=1",), "- Fix it now"), ("", (), "")):
        command = AgentCommand(TABLE[agent].program, agent, prompt, model, args)
        assert read_command(command.to_argv()) == command
    other = AgentCommand("./fix.sh", args=("-p",))
    assert read_command(other.to_argv()) == other
