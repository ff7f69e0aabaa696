"""The command line as people and programs use it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.core import catalogue, wire
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.doors.cli.main import COMMANDS, call
from kits.samples import DIGEST, artifact, command
from preloaded import run

LEAST = ("plan_id=_mail", "task_id=hello", "prompt=Say hello.")


def answer(*arguments: str, stdin: str = "") -> tuple[int, Any]:
    done = run(*arguments, "--json", stdin=stdin)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.mark.shows("C01")
def test_a_command_from_pairs_goes_to_standard_output_and_the_rest_to_standard_error() -> None:
    done = run("command", "generate", *LEAST, "timeout=60")
    assert done.returncode == 0
    assert json.loads(done.stdout)["timeout"] == 60
    assert "timeout" in done.stderr
    assert "cmd_hello_001 is complete and valid" in done.stderr


def test_a_promise_that_is_written_in_full_is_told_in_a_line() -> None:
    promise = 'promise={"id":"cp-1-abcd","objective":"o","acceptance":[{"id":"a","description":"d"}]}'
    done = run("command", "generate", *LEAST, promise)
    assert done.returncode == 0
    assert "promise" in done.stderr
    assert "written in full" in done.stderr


def test_the_json_answer_has_everything() -> None:
    code, body = answer("command", "generate", *LEAST)
    assert code == 0
    assert body["ok"] is True
    assert body["command"]["command_id"] == "cmd_hello_001"
    assert {"field": "command_seq", "from": None, "to": 1, "why": "missing: the next for this task"} in body["repairs"]


@pytest.mark.shows("C18")
def test_a_refusal_ends_with_2_and_names_everything() -> None:
    done = run("command", "generate", "plan_id=a/b", "promt=x", "send_to=you")
    assert done.returncode == 2
    assert done.stdout == ""
    for word in (
        "ID_INVALID",
        "COMMAND_FIELD_MISSING",
        "COMMAND_ROUTES_ITSELF",
        "did you mean 'prompt'?",
        "refused: 5 errors",
    ):
        assert word in done.stderr
    code, body = answer("command", "generate", "plan_id=a/b", "promt=x", "send_to=you")
    assert (code, body["ok"], body["command"]) == (2, False, None)
    assert [error["code"] for error in body["errors"]] == [
        "ID_INVALID",
        "COMMAND_FIELD_MISSING",
        "COMMAND_FIELD_MISSING",
        "COMMAND_FIELD_MISSING",
        "COMMAND_ROUTES_ITSELF",
    ]


def test_parameters_come_from_a_file_or_standard_input_and_pairs_win(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text(json.dumps({"plan_id": "_mail", "task_id": "a", "prompt": "from file"}), encoding="utf-8")
    assert (
        answer("command", "generate", "--params", str(file), "prompt=from pair")[1]["command"]["prompt"] == "from pair"
    )
    assert answer("command", "generate", "--params", "-", stdin=file.read_text(encoding="utf-8"))[0] == 0


def test_the_numbers_of_a_task_are_looked_up_for_what_the_parameters_mean(tmp_path: Path) -> None:
    folder = tmp_path / "agents/pm/outbox/_mail"
    folder.mkdir(parents=True)
    (folder / "cmd_7_001.msg.json").touch()
    for given in (
        '{"plan_id": "_mail", "task_id": 7, "prompt": "x"}',
        '{"plan_id": "_mail", "original_task_id": "7", "original_agent": "a", "prompt": "x", "validation_result": {"validator": "b", "score": "30.5", "reason": "r"}}',
    ):
        _, body = answer("command", "generate", "--root", str(tmp_path), "--params", "-", stdin=given)
        assert body["command"]["command_id"] == "cmd_7_002"


def test_validate_tells_artifacts_and_other_messages_from_commands() -> None:
    assert answer("command", "validate", "-", stdin=json.dumps(artifact()))[0] == 0
    assert "valid artifact envelope" in run("command", "validate", "-", stdin=json.dumps(artifact())).stdout
    code, body = answer("command", "validate", "-", stdin=json.dumps({**artifact(), "type": "broadcast"}))
    assert (code, body["error"]["code"]) == (2, "UNSUPPORTED_MESSAGE_TYPE")
    assert "output_name" in run("command", "validate", "-", stdin=json.dumps(artifact(output_name=...))).stderr
    assert answer("command", "validate", "-", stdin=json.dumps(command(payload={"x": 1})))[0] == 0
    pipe = run_shell(f"{sys.executable} -m agenttalk command validate <(cat)", json.dumps(command()))
    assert pipe.returncode == 0


def test_a_file_that_is_too_large_is_told_as_such(tmp_path: Path) -> None:
    file = tmp_path / "large.json"
    file.write_text(json.dumps(command(prompt="x" * 1024 * 1024)), encoding="utf-8")
    assert answer("command", "validate", str(file))[1]["error"]["code"] == "JSON_TOO_LARGE"


@pytest.mark.rest
def test_no_terminal_and_no_full_disk_hides_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text(json.dumps(command()), encoding="utf-8")
    program = f"{sys.executable} -m agenttalk"
    plain = run_shell(f"LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 {program} command validate {file}")
    assert plain.returncode == 0
    assert "is valid" in plain.stdout
    closed = run_shell(f"{program} command validate - 0<&-")
    assert (closed.returncode, "there is no standard input" in closed.stderr) == (2, True)
    full = run_shell(f"{program} schema --json > /dev/full")
    assert full.returncode == 1
    assert "cannot write the output" in full.stderr


def run_shell(program: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", program], input=stdin, capture_output=True, text=True, timeout=600, check=False
    )


def test_pairs_reach_inside_and_take_arrays() -> None:
    _, body = answer(
        "command",
        "generate",
        "plan_id=p",
        "task_id=t",
        "prompt=[draft] x",
        f"dag_ref.sha256={DIGEST}",
        'required_inputs=["a.md","b.md"]',
    )
    assert body["command"]["required_inputs"] == ["a.md", "b.md"]
    assert body["command"]["dag_ref"] == {"sha256": DIGEST}
    assert body["command"]["prompt"] == "[draft] x"
    below = json.dumps({"plan_id": "p", "task_id": "t", "prompt": "x", "dag_ref": {"sha256": "?", "revision": 3}})
    _, body = answer("command", "generate", "--params", "-", f"dag_ref.sha256={DIGEST}", stdin=below)
    assert body["command"]["dag_ref"] == {"sha256": DIGEST, "revision": 3}


@pytest.mark.parametrize(
    ("arguments", "stdin", "code", "hint"),
    [
        (("command", "generate"), "", "OPTION_INVALID", "KEY=VALUE"),
        (("command", "generate", "prompt"), "", "OPTION_INVALID", "task_id=task_001"),
        (("command", "generate", "=x"), "", "OPTION_INVALID", "task_id=task_001"),
        (("command", "generate", "a=1", "a=2"), "", "OPTION_INVALID", "once"),
        (("command", "generate", "a=1", "a.b=2"), "", "OPTION_INVALID", "only one of the two"),
        (("command", "generate", "--params", "/no/such/file"), "", "FILE_UNREADABLE", "path"),
        (("command", "generate", "--params", '{"a": 1}'), "", "FILE_UNREADABLE", "pipe it in"),
        (("command", "generate", "--params", "-"), "{", "JSON_SYNTAX", ""),
        (("command", "generate", "--params", "-"), "[]", "COMMAND_FIELD_TYPE", "plan_id"),
        (("command", "generate", "--locale", "fr", "a=1"), "", "OPTION_INVALID", "agenttalk command generate --help"),
        (("command", "generate", "--root", "/no/such/root", "a=1"), "", "FILE_UNREADABLE", "system_runtime"),
        (("command", "validate", "-"), '{"a": 1, "a": 2}', "JSON_DUPLICATE_KEY", ""),
        (("command", "envelope", "-"), "{}", "OPTION_INVALID", "--help"),
        (("schema", "comand"), "", "NAME_UNKNOWN", "did you mean 'command'?"),
        (("skill", "install", "generate_comand"), "", "NAME_UNKNOWN", "did you mean 'generate-command'?"),
        (("comand",), "", "OPTION_INVALID", "--help"),
        (("command", "generate", "--rot", "x"), "", "OPTION_INVALID", "--help"),
    ],
    ids=range(17),
)
def test_wrong_use_ends_with_2_a_code_and_what_to_do(
    arguments: tuple[str, ...], stdin: str, code: str, hint: str
) -> None:
    done = run(*arguments, "--json", stdin=stdin)
    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["code"] == code
    assert hint in error["hint"]
    plain = run(*arguments, stdin=stdin)
    assert plain.returncode == 2
    assert code in plain.stderr
    assert plain.stdout == ""


def test_a_misspelt_command_or_option_is_answered_with_the_nearest() -> None:
    assert "Did you mean 'command'" in run("comand").stderr
    assert "--root" in run("command", "generate", "--rot", "x").stderr


def test_validate_takes_commands_and_envelopes_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "command.json"
    file.write_bytes(wire.write(command()))
    before = file.read_bytes()
    assert "is valid" in run("command", "validate", str(file)).stdout
    assert file.read_bytes() == before
    wrapped = run("command", "envelope", str(file), "--from", "pm").stdout
    assert answer("command", "validate", "-", stdin=wrapped)[1]["ok"] is True
    code, body = answer("command", "validate", "-", stdin=wrapped.replace('"timeout": 3600', '"timeout": 0'))
    assert (code, [error["field"] for error in body["errors"]]) == (2, ["payload.command.timeout"])
    bad = run("command", "validate", "-", stdin=json.dumps(command(timeout="3")))
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "standard input has 1 error" in bad.stderr


@pytest.mark.shows("M01")
def test_an_envelope_is_written_into_an_outbox_under_its_name(tmp_path: Path) -> None:
    outbox = tmp_path / "agents/pm/outbox/plan_shop"
    code, body = answer("command", "envelope", "-", "--from", "pm", "--out", str(outbox), stdin=json.dumps(command()))
    assert code == 0
    (file,) = outbox.iterdir()
    assert file.name == "cmd_task_001_001.msg.json"
    assert body == {"ok": True, "file": str(file), "message_id": body["message_id"]}
    assert CommandEnvelope.from_bytes(file.read_bytes()).message_id == body["message_id"]
    before = file.read_bytes()
    again = run("command", "envelope", "-", "--from", "pm", "--out", str(outbox), stdin=json.dumps(command()))
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert file.read_bytes() == before
    other = run(
        "command", "envelope", "-", "--from", "pm", "--out", str(tmp_path / "[red]"), stdin=json.dumps(command())
    )
    assert str(tmp_path / "[red]" / file.name) in other.stdout


def test_an_envelope_is_made_only_of_a_valid_command_and_good_ids(tmp_path: Path) -> None:
    assert answer("command", "envelope", "-", "--from", "pm", stdin=json.dumps(command(prompt="")))[0] == 2
    for options in (("--from", "a/b"), ("--from", "pm", "--message-id", "../m")):
        code, body = answer("command", "envelope", "-", *options, stdin=json.dumps(command()))
        assert (code, body["error"]["code"]) == (2, "ID_INVALID")
    file = tmp_path / "file"
    file.touch()
    done = run("command", "envelope", "-", "--from", "pm", "--out", str(file / "x"), stdin=json.dumps(command()))
    assert done.returncode == 1
    assert "FILE_UNWRITABLE" in done.stderr


def test_schemas_are_listed_shown_and_exported(tmp_path: Path) -> None:
    listed = run("schema").stdout
    assert all(name in listed for name in catalogue.DOCUMENTS)
    assert json.loads(run("schema", "command").stdout) == catalogue.schema("command")
    assert answer("schema")[1].keys() == catalogue.DOCUMENTS.keys()
    assert run("schema", "--out", str(tmp_path)).returncode == 0
    written = {file.name: json.loads(file.read_bytes()) for file in tmp_path.iterdir()}
    assert written == {f"{name}.schema.json": catalogue.schema(name) for name in catalogue.DOCUMENTS}
    assert answer("schema", "ack", "--out", str(tmp_path / "one"))[1]["files"] == [
        str(tmp_path / "one/ack.schema.json")
    ]


@pytest.mark.rest
def test_the_demo_checks_itself_and_ends_green() -> None:
    code, body = answer("demo")  # what it tells people is run as docs/reference/command-line.md shows it
    assert (code, body["ok"], len(body["scenes"])) == (0, True, 12)


def test_root_and_json_may_stand_before_the_command(tmp_path: Path) -> None:
    done = run("--json", "--root", str(tmp_path), "command", "generate", "plan_id=p", "task_id=t", "prompt=x")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "NAME_UNKNOWN"
    assert (
        run("command", "generate", "plan_id=p", "task_id=t", "prompt=x", AGENTTALK_ROOT=str(tmp_path)).returncode == 2
    )


def test_help_lists_every_command_and_the_exit_codes() -> None:
    done = run("--help")
    assert all(name in done.stdout for name in COMMANDS)
    assert "Exit codes" in done.stdout


@pytest.mark.parametrize(
    "arguments", [[], ["command"], ["command", "generate"], ["schema"], ["skill", "install"], ["demo"]]
)
def test_help_loads_no_model_and_no_rule(arguments: list[str]) -> None:
    """What keeps help under 0.2 s of CPU, whatever the machine is doing."""
    code = (
        f"import sys; from agenttalk.doors.cli.main import call; call([*{arguments!r}, '--help']); "
        "print([m for m in sys.modules if m.startswith(('agenttalk.contracts.', 'agenttalk.rules')) and not m.endswith('.errors')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_arguments_the_help_is_shown_once() -> None:
    for arguments in ((), ("command",)):
        done = run(*arguments)
        assert done.returncode == 2
        assert (done.stdout + done.stderr).count("Usage:") == 1


def test_the_version_is_shown() -> None:
    assert run("--version").stdout == "agenttalk 0.1.0\n"


def test_text_from_outside_cannot_act_on_the_terminal() -> None:
    done = run("command", "generate", *LEAST, "x\x1b[31m=1", "target\x1b]0;owned\x07=1", "[red]bold[/]=2")
    assert done.returncode == 2
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr


def test_a_fault_of_our_own_is_told_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_name: str) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("agenttalk.doors.cli.main.import_module", broken)
    assert call(["schema"]) == 70
    assert "UNHANDLED_EXCEPTION" in capsys.readouterr().err
    monkeypatch.setenv("AGENTTALK_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        call(["schema"])


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agenttalk.doors.cli.main.import_module", interrupted)
    assert call(["schema"]) == 130


def test_a_reader_that_has_enough_is_no_error() -> None:
    program = f"{sys.executable} -m agenttalk schema --json | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    program = f"{sys.executable} -m agenttalk schema | head -c 10; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert done.stderr == ""
