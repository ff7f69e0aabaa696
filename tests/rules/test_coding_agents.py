"""The table of coding agents: what each is started with, and what a profile may say otherwise."""

from __future__ import annotations

import json
import re

import pytest

from agenttalk.contracts import plan_reading
from agenttalk.contracts.agent import AgentProfile, CliUse
from agenttalk.contracts.yamltext import Source
from agenttalk.errors import ContractError
from agenttalk.rules.coding_agents import LONGEST_ARGUMENT, TABLE, Room, Start, entry, start
from agenttalk.rules.planfile import compile_plan

ROOM = Room("/base", "/base/home")


def begun(use: CliUse, prompt: str = "Do it.", room: Room = ROOM, *, confined: bool = True, session: str = "") -> Start:
    return start(entry(use), use, prompt, room, confined=confined, session=session)


@pytest.mark.parametrize("name", [name for name in TABLE if name != "custom"])
@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize("session", ["", "ses_1"])
def test_no_place_is_left_open_and_the_prompt_is_nobodys_argument(name: str, confined: bool, session: str) -> None:
    use = CliUse(agent=name, model="m1", args=("--more", "{base}/x"))
    if session and not TABLE[name].resume:
        return
    found = begun(
        use, "A secret {base} prompt", Room("/base", "/base/home", "check it"), confined=confined, session=session
    )
    assert found.argv[0] == TABLE[name].program
    assert not [part for part in found.argv if part in {"{MODEL}", "{GUARD}", "{HOOK}", "{ARGS}"}]
    assert not [part for part in found.argv if "{base}" in part or "{session}" in part or "prompt}" in part]
    assert {"m1", "--more", "/base/x"} <= set(found.argv)
    assert (session in found.argv) == bool(session)
    assert "A secret {base} prompt" in (found.stdin, found.files.get("prompt.txt"))
    assert not any("secret" in part for part in found.argv)
    assert found.home == {"HOME": "/base/home"}
    assert all(path.startswith(("home/", "prompt.txt")) for path in found.files)


def test_who_is_in_no_sandbox_is_trusted_less_and_has_the_home_of_the_user() -> None:
    use = CliUse(agent="claude")
    inside, outside = begun(use), begun(use, room=Room("/base"), confined=False)
    assert "bypassPermissions" in inside.argv
    assert inside.variables["IS_SANDBOX"] == "1"
    assert "bypassPermissions" not in outside.argv
    assert "acceptEdits" in outside.argv
    assert "IS_SANDBOX" not in outside.variables
    assert (outside.home, outside.files) == ({}, {})
    assert "--dangerously-bypass-approvals-and-sandbox" not in begun(CliUse(agent="codex"), confined=False).argv


def test_what_is_asked_before_the_end_is_json_whatever_the_command_is() -> None:
    command = "python3 -c \"print('a\\\\b')\" --hook"
    argv = begun(CliUse(agent="claude"), room=Room("/base", hook=command)).argv
    told = json.loads(argv[argv.index("--settings") + 1])
    assert told["hooks"]["Stop"][0]["hooks"][0]["command"] == command
    assert "--settings" not in begun(CliUse(agent="claude")).argv


def test_any_other_program_is_described_in_the_profile() -> None:
    use = CliUse(agent="custom", program="mine", argv=("--ask", "{prompt}"), prompt="argument", failed=("^oh",))
    found = begun(use, "{base} is no place here")
    assert (found.argv, found.stdin) == (("mine", "--ask", "{base} is no place here"), "")
    assert entry(use).failed == ("^oh",)
    assert begun(CliUse(agent="custom", program="mine", args=("-v",))).argv == ("mine", "-v")
    with pytest.raises(ValueError, match="more than 100 KiB"):
        begun(use, "ä" * LONGEST_ARGUMENT)


def test_what_is_said_in_the_profile_wins_over_the_table() -> None:
    found = entry(CliUse(agent="codex", argv=("exec", "-"), program="/opt/codex"))
    assert (found.program, found.argv, found.resume) == ("/opt/codex", ("exec", "-"), ())
    assert found.codec == "codex"
    assert entry(CliUse(agent="codex", argv=("a",), resume=("b", "{session}"))).resume == ("b", "{session}")


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (None, "it is not said which coding agent it is; add cli, one of: claude, codex"),
        (CliUse(agent="cladue"), "there is no coding agent 'cladue' in the table; did you mean 'claude'?"),
        (CliUse(agent="zzz"), "there are: claude"),
        (CliUse(agent="custom"), "needs its program; add cli.program"),
        (CliUse(agent="claude", codec="morse"), "there is no codec 'morse'"),
        (CliUse(agent="claude", denied=("(",)), "a pattern for the output"),
    ],
)
def test_what_cannot_be_started_is_said_with_what_to_do(use: CliUse | None, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        entry(use)


@pytest.mark.parametrize(
    ("said", "sandbox"),
    [
        ({"driver": "cli", "cli": "claude"}, "best"),
        ({"driver": "cli", "cli": {"agent": "claude"}, "sandbox": None}, "best"),
        ({"driver": "cli", "sandbox": "plain"}, "plain"),
        ({"driver": "script"}, "plain"),
    ],
)
def test_a_coding_agent_is_confined_unless_somebody_says_otherwise(said: dict[str, object], sandbox: str) -> None:
    profile = AgentProfile.from_json({"schema_version": "1.0", "agent_id": "a", **said})
    assert profile.sandbox == sandbox
    assert AgentProfile.from_json(profile.as_json()) == profile
    if "cli" in said:
        assert profile.cli == CliUse(agent="claude")


@pytest.mark.parametrize(
    ("agent", "field", "code"),
    [
        ({"driver": "cli"}, "agents.dev.cli", "FIELD_MISSING"),
        ({"driver": "cli", "cli": "cladue"}, "agents.dev.cli", "FIELD_VALUE"),
        ({"driver": "cli", "cli": {"agent": "custom"}}, "agents.dev.cli", "FIELD_VALUE"),
    ],
)
def test_a_plan_whose_coding_agent_nobody_knows_is_refused(agent: dict[str, object], field: str, code: str) -> None:
    task = {"id": "t", "agent": "dev", "prompt": "Do it."}
    document = {"plan_id": "p", "agents": {"dev": agent}, "tasks": [task]}
    [problem] = compile_plan(plan_reading.plan_of(Source(document))).problems
    assert (problem.field, problem.code) == (field, code)
    assert problem.hint


def test_a_key_of_cli_that_nobody_knows_is_named_with_the_nearest() -> None:
    agent = {"driver": "cli", "cli": {"agent": "claude", "modell": "m"}}
    document = {"plan_id": "p", "agents": {"dev": agent}, "tasks": [{"id": "t", "agent": "dev", "prompt": "Do it."}]}
    with pytest.raises(ContractError) as refused:
        plan_reading.plan_of(Source(document))
    [problem] = refused.value.problems
    assert (problem.field, problem.hint) == ("agents.dev.cli.modell", "did you mean 'model'?")
