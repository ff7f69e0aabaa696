"""`agenttalk agent`, and what `agenttalk doctor` says of coding agents."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call
from agenttalk.rules.agents import acp_table
from agenttalk.rules.agents.cli_table import TABLE
from agenttalk.testing import ScriptedModel
from agenttalk.testing.model_script import CallStep
from kits.sandboxkit import ailment
from kits.spokenkit import SPEAKS as SPOKEN

SPEAKS = """import json, os, pathlib, sys
prompt = sys.stdin.read()
pathlib.Path("made.txt").write_text(prompt)
def tell(**said):
    print(json.dumps(said), flush=True)
tell(type="system", subtype="init", session_id="ses-1", model="m1")
call = {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "made.txt"}}
tell(type="assistant", message={"id": "m", "content": [call], "usage": {"input_tokens": 1200}})
says = f"I did: {prompt} in {os.environ.get('HOME')} with {os.environ.get('ANTHROPIC_API_KEY')}"
usage = {"usage": {"input_tokens": 1200}, "total_cost_usd": 0.25, "is_error": "bad" in prompt, "subtype": "success"}
tell(type="result", result=says, **usage)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root whose agents are programs of ours."""
    (tmp_path / "speaks.py").write_text(SPEAKS)
    argv = json.dumps([str(tmp_path / "speaks.py")])
    (tmp_path / "agenttalk.toml").write_text(
        f"""[agents.dev]
driver = "cli"
sandbox = "plain"
[agents.dev.cli]
agent = "claude"
program = "{sys.executable}"
argv = {argv}
[agents.shell]
driver = "script"
argv = ["sh", "-c", "cat; echo; echo oops >&2; exit 3"]
[agents.hand]
driver = "folder"
[agents.odd]
driver = "cli"
cli = "cladue"
"""
    )
    for name in ("agents", "system_runtime"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    return tmp_path


def tried(root: Path, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert call(["agent", "try", *arguments, "--root", str(root), "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_one_turn_is_run_and_everything_is_shown(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["agent", "try", "dev", "Say hello.", "--root", str(root)]) == 0
    said = capsys.readouterr().out
    for words in (
        "session",
        "→ tool    Write made.txt",
        "1,200 tokens, $0.25",
        "I did: Say hello.",
        "files: made.txt",
    ):
        assert words in said
    assert "✓ succeeded" in said
    assert "[redacted ANTHROPIC_API_KEY]" in said
    assert "very-secret" not in said


def test_programs_read_the_same(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tried(root, capsys, "dev", "Say hello.", "--model", "m2")
    assert (found["ok"], found["tokens"], found["cost_usd"], found["tool_calls"]) == (True, 1200, 0.25, 1)
    assert (found["session"], found["sandbox"], found["files"]) == ("ses-1", "plain", ["made.txt"])
    assert tried(root, capsys, "dev", "bad", code=1)["fault"].startswith("the agent failed: I did: bad")


def test_it_can_work_in_a_folder_of_yours(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "mine").mkdir()
    found = tried(root, capsys, "dev", "Hello", "--dir", str(root / "mine"))
    assert found["files"] == []
    assert (root / "mine/made.txt").read_text() == "Hello"
    tried(root, capsys, "dev", "Hello", "--dir", str(root / "nowhere"), code=2)


def test_a_script_can_be_tried_too(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tried(root, capsys, "shell", "Hello", code=1)
    assert (found["text"], found["exit_code"], found["fault"]) == ("Hello", 3, "exit code 3: oops")


@pytest.mark.parametrize("name", ["hand", "odd", "cluade", "zzz"])
def test_who_cannot_be_tried_is_said_so(root: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert "error" in tried(root, capsys, name, "Hello", code=2)


@pytest.mark.skipif(bool(ailment("bubblewrap")), reason=ailment("bubblewrap") or "it works")
def test_in_a_sandbox_it_has_a_home_of_its_own(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (root / "agenttalk.toml").read_text().replace('sandbox = "plain"', 'sandbox = "bubblewrap"')
    inline = json.dumps(["-c", SPEAKS])
    text = text.replace(f"argv = {json.dumps([str(root / 'speaks.py')])}", f"argv = {inline}")
    (root / "agenttalk.toml").write_text(text)
    found = tried(root, capsys, "dev", "Hello")
    assert found["sandbox"] == "bubblewrap"
    assert "/attempt/home with" in found["text"]


def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """A machine that has these programs and no others."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_doctor_tells_of_each_coding_agent_its_version_or_what_to_do(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lies = 'if [ -n "$ANTHROPIC_API_KEY" ]; then echo 666; fi; echo 2.1'
    machine(root / "bin", monkeypatch, claude=lies, codex="echo too old >&2; exit 1", gemini="echo 1.0")
    assert call(["doctor", "drivers", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["probes"]}
    assert found["driver cli claude"]["detail"] == "2.1; with ANTHROPIC_API_KEY"
    assert found["driver cli codex"]["detail"].startswith("does not start")
    assert found["driver cli codex"]["detail"].endswith("exit code 1, too old")
    assert "Node 22" in found["driver cli codex"]["remedy"]
    assert "no key is set" in found["driver cli gemini"]["detail"]
    assert found["driver cli qwen"]["remedy"] == TABLE["qwen"].install
    assert call(["agent", "list", "--json"]) == 0
    listed = {(each["driver"], each["agent"]): each["program"] for each in json.loads(capsys.readouterr().out)}
    assert listed["cli", "claude"] == str(root / "bin/claude")
    assert (listed["cli", "qwen"], listed["acp", "claude"]) == (None, None)
    assert listed["acp", "gemini"] == str(root / "bin/gemini")
    assert "agent-client-protocol " in found["driver acp"]["detail"]
    assert found["driver acp claude"]["remedy"] == acp_table.TABLE["claude"].install
    assert found["driver acp gemini"]["detail"] == found["driver cli gemini"]["detail"]
    assert call(["agent", "list"]) == 0
    assert "not installed: npm install -g @qwen-code/qwen-code" in capsys.readouterr().out


def test_doctor_fails_for_a_coding_agent_that_somebody_is(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(root / "bin", monkeypatch)
    (root / "agenttalk.toml").write_text('[agents.dev]\ndriver = "cli"\ncli = "codex"\n')
    assert call(["doctor", "drivers", "--root", str(root), "--json"]) == 1
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["probes"]}
    assert (found["driver cli codex"]["needed"], found["driver cli claude"]["needed"]) == (True, False)


ASKS = """begin()
tool("t1", "edit", "Write made.txt", rawInput={"file_path": "made.txt"})
answers = [may("edit", "Write", locations=[{"path": "made.txt"}])]
if "push" in prompt:
    answers.append(may("execute", "Push", rawInput={"command": "git push"}))
pathlib.Path("made.txt").write_text(prompt)
text(f"I did {prompt}: {answers}")
end()
rest()
"""


@pytest.fixture
def spoken(root: Path) -> Path:
    (root / "spoken.py").write_text(f"{SPOKEN}{ASKS}")
    (root / "agenttalk.toml").write_text(
        f"""[agents.dev]
driver = "acp"
sandbox = "plain"
[agents.dev.acp]
agent = "custom"
program = "{sys.executable}"
argv = {json.dumps([str(root / "spoken.py")])}
otherwise = "ask"
"""
    )
    return root


def test_who_is_spoken_with_can_be_tried(spoken: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tried(spoken, capsys, "dev", "a file")
    assert (told["text"], told["files"], told["tool_calls"]) == ("I did a file: ['yes']", ["made.txt"], 1)
    told = tried(spoken, capsys, "dev", "and push", code=1)
    assert told["fault"].startswith("not permitted to the agent: execute (a person would have to be asked): git push")
    assert "'yes', 'no'" in told["text"]


def test_a_driver_that_no_coding_agent_has_is_refused(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["agent", "try", "claude", "hello", "--driver", "mail", "--root", str(root)]) == 2
    assert "use cli or acp" in capsys.readouterr().err


def test_doctor_fails_for_one_that_is_spoken_with_and_missing(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(root / "bin", monkeypatch)
    (root / "agenttalk.toml").write_text('[agents.dev]\ndriver = "acp"\nacp = "codex"\n')
    assert call(["doctor", "drivers", "--root", str(root), "--json"]) == 1
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["probes"]}
    assert (found["driver acp codex"]["needed"], found["driver cli codex"]["needed"]) == (True, False)
    assert found["driver acp"]["needed"]


@pytest.mark.rest
def test_a_model_is_tried_and_its_key_is_shown_to_nobody(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-canary-4d1c55aa"
    monkeypatch.setenv("MODEL_KEY", key)
    with ScriptedModel([CallStep("answer", {"result": f"It reads well, {key}."})]) as model:
        with (root / "agenttalk.toml").open("a") as file:
            file.write(
                '[agents.reader]\ndriver = "llm"\n[agents.reader.llm]\nprovider = "openai"\nmodel = "small"\n'
                f'base_url = "{model.url}/v1"\nkey_env = "MODEL_KEY"\n'
            )
        capsys.readouterr()
        assert call(["agent", "try", "reader", "How does it read?", "--root", str(root), "--json"]) == 0
        said = capsys.readouterr().out
        monkeypatch.delenv("MODEL_KEY")
        assert call(["agent", "try", "reader", "And now?", "--root", str(root)]) == 2
    told = json.loads(said)
    assert (told["ok"], told["model"], told["tokens"] > 0) == (True, "small", True)
    assert key not in said
    assert "MODEL_KEY" in capsys.readouterr().err
