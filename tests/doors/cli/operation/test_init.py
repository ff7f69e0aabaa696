"""`agenttalk init`: a repository in which coding agents can take part, and in which nothing of anybody's is changed."""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from skills_ref import validate

from agenttalk.adapters.store import operator_folder
from agenttalk.doors.cli.main import call
from agenttalk.rules.core.config_merge import BEGIN
from agenttalk.wiring import settings
from doors.cli.operation import initkit
from kits import provekit

CLAUDE = ".mcp.json"
TOOLS = ("claude", "codex", "gemini", "opencode", "qwen")


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository on a machine with all five coding agents."""
    initkit.install(monkeypatch, tmp_path, *TOOLS)
    return provekit.repository(tmp_path / "repository", {"README.md": "Ours.\n"})


def init(repository: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, dict[str, str]]:
    """What it says of each file."""
    capsys.readouterr()
    assert call(["init", "--dir", str(repository), "--json", *options]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {each["file"]: each for each in found["files"]}


def only(tool: str) -> list[str]:
    """The options that leave the others out."""
    return [part for each in TOOLS if each != tool for part in ("--without", each)]


def state(repository: Path) -> dict[str, tuple[str, float]]:
    """Every file but the databases, with its content and when it was written."""
    return {
        str(path.relative_to(repository)): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        for path in sorted(repository.rglob("*"))
        if path.is_file() and not {"data", ".git"} & set(path.parts)
    }


def test_everything_is_made_and_doing_it_again_changes_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = init(repository, capsys)
    assert {each["what"] for each in told.values()} == {"made"}
    server = json.loads((repository / CLAUDE).read_text())["mcpServers"]["agenttalk"]
    assert (server["command"], server["args"]) == ("agenttalk", ["mcp", "--root", ".agenttalk", "--agent", "claude"])
    codex = tomllib.loads((repository / ".codex/config.toml").read_text())["mcp_servers"]["agenttalk"]
    assert codex["args"][-1] == "codex"
    for name in ("gemini", "qwen"):
        said = json.loads((repository / f".{name}/settings.json").read_text())
        assert said["mcpServers"]["agenttalk"]["args"][-1] == name
    local = json.loads((repository / "opencode.json").read_text())["mcp"]["agenttalk"]
    assert (local["type"], local["command"][0], local["command"][-1]) == ("local", "agenttalk", "opencode")
    for skill in (repository / ".agents/skills").iterdir():
        assert validate(skill) == []
    profile = json.loads((repository / ".agenttalk/agents/qwen/agent_profile.json").read_text())
    assert profile["driver"] == "remote"
    before = state(repository)
    assert {each["what"] for each in init(repository, capsys).values()} == {"there"}
    assert state(repository) == before


def test_what_people_wrote_stays_to_the_letter(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = {
        "AGENTS.md": "# Rules of ours\n\nBe kind.",
        "CLAUDE.md": "Mine.\n",
        CLAUDE: json.dumps({"mcpServers": {"mine": {"command": "x"}}, "näme": 1}, indent=4, ensure_ascii=False),
        ".codex/config.toml": '# mine\nmodel = "o5"\n',
        ".gemini/settings.json": '{\n  // with a comment\n  "theme": "dark"\n}\n',
        "opencode.json": '{"mcp": {"agenttalk": {"type": "remote", "url": "https://mine.example"}}}',
        ".qwen/settings.json": "[]\n",
        ".claude/skills/report-action/SKILL.md": "My own skill.\n",
    }
    for name, text in mine.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text, encoding="utf-8")
    told = init(repository, capsys)
    now = {name: (repository / name).read_text(encoding="utf-8") for name in mine}
    for name in ("CLAUDE.md", ".gemini/settings.json", "opencode.json", ".qwen/settings.json"):
        assert now[name] == mine[name]
    assert now[".claude/skills/report-action/SKILL.md"] == "My own skill.\n"
    assert now["AGENTS.md"].startswith(f"{mine['AGENTS.md']}\n\n{BEGIN}")
    assert now[".codex/config.toml"].startswith(mine[".codex/config.toml"])
    after = json.loads(now[CLAUDE])
    assert after["mcpServers"].pop("agenttalk")["args"][-1] == "claude"
    assert after == json.loads(mine[CLAUDE])
    assert now[CLAUDE].startswith('{\n    "mcpServers": {\n        "mine"')
    whats = {name: told[name]["what"] for name in told if name in mine}
    assert whats == {
        "AGENTS.md": "added",
        "CLAUDE.md": "there",
        CLAUDE: "added",
        ".codex/config.toml": "added",
        ".gemini/settings.json": "left",
        "opencode.json": "there",
        ".qwen/settings.json": "left",
    }
    assert '"agenttalk"' in told[".gemini/settings.json"]["snippet"]
    assert "skill install" in told[".claude/skills/report-action"]["why"]
    before = state(repository)
    init(repository, capsys)
    assert state(repository) == before


def test_a_repository_leads_nobody_out_of_it(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("theirs")
    (repository / ".codex").symlink_to(outside)
    (repository / CLAUDE).symlink_to(outside / "file")
    (repository / ".agents").symlink_to(outside)
    os.mkfifo(repository / "AGENTS.md")
    told = init(repository, capsys)
    for name in (".codex/config.toml", CLAUDE, "AGENTS.md", ".agents/skills/report-action"):
        assert told[name]["what"] == "left", name
    assert [(each.name, each.read_text()) for each in outside.iterdir()] == [("file", "theirs")]


def test_only_some_tools_and_a_root_elsewhere(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "team"
    told = init(repository, capsys, *only("gemini"), "--root", str(root))
    assert not (repository / CLAUDE).exists()
    assert not (repository / ".agenttalk").exists()
    args = json.loads((repository / ".gemini/settings.json").read_text())["mcpServers"]["agenttalk"]["args"]
    assert args == ["mcp", "--root", str(root), "--agent", "gemini"]
    assert operator_folder.agent_token_of(root, "gemini") is not None
    assert operator_folder.agent_token_of(root, "claude") is None
    assert [name for name in told if name.startswith("token")] == ["token of gemini"]


@pytest.mark.rest
def test_a_root_that_was_made_anew_lets_the_token_in_that_is_kept(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    def tokens() -> list[str]:
        capsys.readouterr()
        assert call(["token", "list", "--root", str(repository / ".agenttalk"), "--json"]) == 0
        return [each["id"] for each in json.loads(capsys.readouterr().out)]

    init(repository, capsys, *only("claude"))
    before = tokens()
    shutil.rmtree(repository / ".agenttalk")
    init(repository, capsys, *only("claude"))
    assert tokens() == before


def test_the_command_to_type_next_holds_a_folder_with_spaces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my shop").mkdir()
    assert call(["init", "--dir", str(tmp_path / "my shop"), *only("qwen")]) == 0
    assert f"Next: agenttalk serve --root '{tmp_path}/my shop/.agenttalk'" in capsys.readouterr().out


def test_what_is_not_known_is_told(repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["init", "--dir", str(repository), "--for", "clawde"]) == 2
    assert "did you mean 'claude'?" in capsys.readouterr().err
    assert call(["init", "--dir", str(tmp_path / "nowhere")]) == 2
    assert call(["init", "--dir", str(repository), *only("qwen")]) == 0
    said = capsys.readouterr().out
    assert "Next: agenttalk serve --root" in said
    (repository / ".qwen/settings.json").write_text("// mine\n{}", encoding="utf-8")
    assert call(["init", "--dir", str(repository), *only("qwen")]) == 0
    assert "add this by hand" in capsys.readouterr().out


def test_a_token_for_a_person_is_shown_once_and_kept_nowhere(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["init", "--dir", str(repository)]) == 0
    where = ["--root", str(repository / ".agenttalk")]
    capsys.readouterr()
    assert call(["token", "create", "ann", "--role", "viewer", *where]) == 0
    token = capsys.readouterr().out.strip()
    assert token.startswith("vie_")
    assert not any(token.encode() in path.read_bytes() for path in repository.rglob("*") if path.is_file())
    assert call(["token", "list", *where, "--json"]) == 0
    [ann] = [each for each in json.loads(capsys.readouterr().out) if each["name"] == "ann"]
    assert (ann["role"], ann["revoked_at"]) == ("viewer", None)
    assert call(["token", "revoke", ann["id"], *where]) == 0
    assert "is revoked" in capsys.readouterr().out
    assert call(["token", "create", "ann", "--role", "king", *where]) == 2
    assert call(["token", "create", "operator", "--role", "viewer", *where]) == 2


def test_agents_are_told_in_the_language_of_the_root(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(repository, capsys, "--locale", "zh", *only("claude"))
    assert "引擎自己去看" in (repository / "AGENTS.md").read_text(encoding="utf-8")
    assert settings.load(repository / ".agenttalk").locale == "zh"
    before = state(repository)
    init(repository, capsys, *only("claude"))
    assert state(repository) == before
    (repository / "AGENTS.md").unlink()
    init(repository, capsys, *only("claude"))
    assert state(repository).keys() == before.keys()
    assert "引擎自己去看" in (repository / "AGENTS.md").read_text(encoding="utf-8")


def test_people_read_in_their_language_what_it_does_and_programs_in_english(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / ".qwen").mkdir()
    (repository / ".qwen/settings.json").write_text("[]\n")
    where = ["--dir", str(repository)]
    assert call(["--language", "zh", "init", *where]) == 0
    shown = capsys.readouterr().out
    for words in ("编程智能体：", "claude 的令牌  已创建", "未改动: 它不是 JSON 对象", "请手动添加：", "下一步："):
        assert words in shown
    assert "already" not in shown
    assert call(["--language", "zh", "--json", "init", *where]) == 0
    told = {each["file"]: each for each in json.loads(capsys.readouterr().out)["files"]}
    assert told["token of claude"]["what"] == "there"
    assert told[".qwen/settings.json"]["why"] == "it is not a JSON object"
    assert call(["--language", "zh", "init", *where, "--remove"]) == 0
    assert "claude 的令牌  已删除: 已撤销" in capsys.readouterr().out
    assert call(["--language", "zh", "init", *where, "--for", "klaude"]) == 2
    assert "未知的编程智能体 'klaude'" in capsys.readouterr().err


def test_a_root_that_cannot_be_made_is_a_failure_and_no_bad_input(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / ".agenttalk").write_text("in the way")
    assert call(["init", "--dir", str(repository)]) == 1
    assert "FILE_UNWRITABLE" in capsys.readouterr().err


PLAN = """
plan_id: shop
workspace: {repo: .}
agents:
  claude: {driver: cli, cli: {agent: custom, program: sh, argv: [-c, "echo nine > hours.txt; echo done"]}}
tasks:
  - {id: open, agent: claude, prompt: Say when we open., workspace: repo}
"""


@pytest.mark.mends("C10")
def test_a_plan_drives_an_agent_that_init_has_made(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(repository, capsys, *only("claude"))
    (repository / "plan.yaml").write_text(PLAN)
    assert call(["run", str(repository / "plan.yaml"), "--root", str(repository / ".agenttalk")]) == 0


@pytest.mark.mends("C10")
def test_what_settings_say_otherwise_than_a_plan_is_said(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init(repository, capsys, *only("claude"))
    (repository / ".agenttalk/agenttalk.toml").write_text('[agents.claude]\ndriver = "llm"\n')
    (repository / "plan.yaml").write_text(PLAN)
    for command in ("run", "plan check"):
        capsys.readouterr()
        assert call([*command.split(), str(repository / "plan.yaml"), "--root", str(repository / ".agenttalk")]) != 0
        said = " ".join("".join(capsys.readouterr()).split())
        assert "agenttalk.toml says 'llm', which wins over 'cli' of the plan" in said


@pytest.mark.mends("C10")
@pytest.mark.parametrize("locale", ["en", "zh"])
def test_who_was_started_for_a_task_is_told_of_no_tools_that_it_lacks(
    repository: Path, capsys: pytest.CaptureFixture[str], locale: str
) -> None:
    init(repository, capsys, "--locale", locale)
    text = (repository / "AGENTS.md").read_text()
    assert text.index("AGENTTALK_TASK_ID") < text.index("`claim`")


@pytest.mark.mends("F13")
def test_what_is_made_in_a_project_is_as_open_as_the_users_own_files_and_what_was_there_keeps_its_rights(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "AGENTS.md").write_text("Mine.\n")
    (repository / "AGENTS.md").chmod(0o664)
    before = os.umask(0o022)
    try:
        init(repository, capsys)
    finally:
        os.umask(before)
    private = repository / ".agenttalk"
    made = [path for path in repository.rglob("*") if path != private and private not in path.parents]
    assert {path.name for path in made} >= {".claude", ".agents", ".codex", CLAUDE, "SKILL.md"}
    assert [path for path in made if path.stat().st_mode & 0o044 != 0o044] == []
    assert [path for path in made if path.is_dir() and path.stat().st_mode & 0o777 != 0o755] == []
    assert (repository / "AGENTS.md").stat().st_mode & 0o777 == 0o664
    settled = [private / "agenttalk.toml", private / "agents", *private.glob("agents/*/*")]
    assert [path for path in settled if path.stat().st_mode & 0o077] == []
