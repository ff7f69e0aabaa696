"""`agenttalk doctor`, as people and programs use it."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call
from agenttalk.doors.cli.operation.doctor import PROBES
from kits.sandboxkit import ailment


def examined(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = call(["doctor", "--json", *arguments])
    body = json.loads(capsys.readouterr().out)
    assert body["ok"] is (code == 0)
    return code, {each["name"]: each for each in body["probes"]}


def test_it_says_of_each_thing_whether_it_works_and_what_to_do_if_not(capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(capsys)
    assert code == 0
    assert {"python", "sqlite", "git", "bubblewrap", "landlock", "inotify", "driver script"} <= found.keys()
    assert all(each["detail"] and (each["ok"] or each["remedy"]) for each in found.values())
    assert found["bubblewrap"]["ok"] is not bool(ailment("bubblewrap"))


def test_people_read_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["doctor", "python", "sqlite"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["✓", "python"], ["✓", "sqlite"]]


def bare(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """A machine that has these programs and no others."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_what_is_missing_and_nobody_asked_for_is_no_failure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path / "bin", monkeypatch)
    code, found = examined(capsys, "git", "bubblewrap")
    assert code == 0
    assert found["git"]["detail"] == "not installed"
    assert "apt-get install bubblewrap" in found["bubblewrap"]["remedy"]
    assert call(["doctor", "bubblewrap"]) == 0
    assert "→ install it as root" in capsys.readouterr().out


def test_what_an_agent_is_to_run_in_must_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "agenttalk.toml").write_text(
        '[agents.dev]\ndriver = "script"\nargv = ["no-such"]\nsandbox = "bubblewrap"\n'
    )
    refuses = (
        "test \"$1\" = --version && echo 'bubblewrap 9.9' || { echo 'bwrap: Operation not permitted' >&2; exit 1; }"
    )
    bare(tmp_path / "bin", monkeypatch, bwrap=refuses, git="echo git version 2.20.1")
    code, found = examined(capsys, "--root", str(root))
    assert code == 1
    assert found["bubblewrap"]["needed"]
    assert "Operation not permitted" in found["bubblewrap"]["detail"]
    assert "user namespaces" in found["bubblewrap"]["remedy"]
    assert (found["git"]["ok"], found["git"]["detail"]) == (False, "2.20.1")
    assert "'no-such' was not found" in found["agent dev"]["detail"]


def test_a_store_that_does_not_answer_and_settings_that_are_wrong_are_failures(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTTALK__STORE__URL", "postgresql://ada:hunter22@127.0.0.1:1/shop")
    code, found = examined(capsys, "--root", str(tmp_path), "postgresql", "settings")
    assert code == 1
    assert "does not answer" in found["postgresql"]["detail"]
    assert "hunter22" not in json.dumps(found)
    assert found["settings"]["ok"]
    monkeypatch.delenv("AGENTTALK__STORE__URL")
    (tmp_path / "agenttalk.toml").write_text('[agents.dev]\nsandbox = "steel"\n')
    code, found = examined(capsys, "--root", str(tmp_path), "settings")
    assert code == 1
    assert "agents.dev.sandbox" in found["settings"]["detail"]


def test_a_probe_that_does_not_exist_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["doctor", "bubblewarp"]) == 2
    assert "did you mean 'bubblewrap'?" in capsys.readouterr().err


def test_a_probe_that_breaks_does_not_hide_the_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: object) -> Any:
        raise RuntimeError("broken")

    monkeypatch.setattr("agenttalk.doors.cli.operation.doctor.PROBES", {"a": broken, "python": PROBES["python"]})
    code, found = examined(capsys)
    assert (code, found["python"]["ok"]) == (1, True)
    assert "RuntimeError: broken" in found["a"]["detail"]


def test_it_says_what_models_need(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def version(name: str) -> str:
        if name == "xllamacpp":
            raise PackageNotFoundError(name)
        return "2.66.0"

    monkeypatch.setattr("importlib.metadata.version", version)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    bare(tmp_path / "bin", monkeypatch)
    code, found = examined(capsys, "drivers")
    assert (code, found["driver llm"]["ok"], found["driver local"]["ok"]) == (0, True, False)
    assert found["driver local"]["remedy"] == "pip install 'agenttalk[local]'"
    (tmp_path / "agenttalk.toml").write_text(
        "[agents.a]\ndriver = 'llm'\nllm = {provider = 'openai', model = 'm', temperature = 1}\n"
        "[agents.b]\ndriver = 'local'\nlocal = {model_file = 'm.gguf'}\n"
        "[agents.c]\ndriver = 'llm'\nllm = {provider = 'ollama', model = 'm'}\n"
    )
    code, found = examined(capsys, "drivers", "--root", str(tmp_path))
    assert code == 1
    assert "OPENAI_API_KEY" in found["agent a"]["detail"]
    assert "m.gguf" in found["agent b"]["detail"]
    assert "agent c" not in found
    assert found["driver local"]["needed"]
