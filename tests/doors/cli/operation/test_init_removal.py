"""`agenttalk init --remove` takes out what init added, and nothing that anybody else made or changed."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.adapters.store import operator_folder
from agenttalk.doors.cli.main import call
from doors.api import enginekit
from doors.cli.operation import initkit
from effort import cases
from kits import provekit

MINE = {
    "README.md": "Ours.\n",
    "AGENTS.md": "# Rules of ours\n\nBe kind.",
    ".mcp.json": '{\n    "mcpServers": {\n        "mine": {\n            "command": "x"\n        }\n    },\n    "näme": 1\n}',
    ".codex/config.toml": '# mine\nmodel = "o5"\n',
    ".gemini/settings.json": '{\n  "theme": "dark"\n}\n',
    ".qwen/settings.json": " \n",
    "opencode.json": '{\n  // with a comment\n  "a": 1\n}\n',
}


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    initkit.install(monkeypatch, tmp_path, "claude", "codex", "gemini", "opencode", "qwen")
    return provekit.repository(tmp_path / "my shop ü", MINE)


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file and folder but those of git, with content and rights."""
    return {
        str(path.relative_to(folder)): (path.read_bytes() if path.is_file() else b"", path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
        if ".git" not in path.relative_to(folder).parts
    }


def remove(folder: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> dict[str, dict[str, str]]:
    capsys.readouterr()
    assert call(["init", "--dir", str(folder), "--remove", "--json", *options]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return {each["file"]: each for each in found["files"]}


def tokens(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, bool]:
    """The tokens of a root: whether each is good."""
    capsys.readouterr()
    assert call(["token", "list", "--root", str(folder / ".agenttalk"), "--json"]) == 0
    return {each["name"]: each["revoked_at"] is None for each in json.loads(capsys.readouterr().out)}


def test_everything_is_as_it_was_and_a_second_time_does_nothing(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(shop)
    assert call(["init", "--dir", str(shop)]) == 0
    assert call(["init", "--dir", str(shop)]) == 0
    assert content(shop) != before
    told = remove(shop, capsys)
    assert {each["what"] for each in told.values()} == {"removed", "taken out"}
    assert (told["token of claude"]["why"], told["AGENTS.md"]["what"]) == ("revoked", "taken out")
    assert content(shop) == before
    assert [path for path in (tmp_path / "config").rglob("*") if path.is_file()] == []
    assert remove(shop, capsys) == {}
    assert content(shop) == before
    assert call(["init", "--dir", str(shop), "--remove"]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert call(["init", "--dir", str(shop)]) == 0
    assert "audit" not in capsys.readouterr().err
    remove(shop, capsys)
    assert content(shop) == before


def test_what_was_changed_since_is_named_and_left(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["init", "--dir", str(shop)]) == 0
    edited = {
        "agenttalk.yaml": "# my own words\n",
        ".claude/skills/report-action/SKILL.md": "My own skill.\n",
        ".agenttalk/agenttalk.toml": '[agents.dev]\ndriver = "folder"\n',
    }
    for path, text in edited.items():
        with (shop / path).open("a") as file:
            file.write(text)
    agents = (shop / "AGENTS.md").read_text()
    (shop / "AGENTS.md").write_text(f"Before.\n{agents}After.\n")
    servers = json.loads((shop / ".mcp.json").read_text())
    servers["mcpServers"]["more"] = {"command": "y"}
    (shop / ".mcp.json").write_text(json.dumps(servers, indent=4, ensure_ascii=False))
    codex = (shop / ".codex/config.toml").read_text()
    (shop / ".codex/config.toml").write_text(codex.replace("agenttalk", "mine"))
    gemini = json.loads((shop / ".gemini/settings.json").read_text())
    gemini["mcpServers"]["agenttalk"]["args"].append("--debug")
    (shop / ".gemini/settings.json").write_text(json.dumps(gemini))
    changed = content(shop)
    told = remove(shop, capsys)
    for path in edited:
        name = path if not path.startswith(".agenttalk") else str(shop / path)
        assert (told[name]["what"], told[name]["why"]) == ("changed", "it was changed")
        assert (shop / path).read_bytes() == changed[path][0]
    assert (shop / "AGENTS.md").read_text() == f"Before.\n{MINE['AGENTS.md']}After.\n"
    assert "agenttalk" not in (shop / ".mcp.json").read_text()
    assert json.loads((shop / ".mcp.json").read_text())["mcpServers"].keys() == {"mine", "more"}
    assert told[".codex/config.toml"]["what"] == "changed"
    assert "'agenttalk' was changed" in told[".gemini/settings.json"]["why"]
    assert "agenttalk.toml" in told[str(shop / ".agenttalk")]["why"]
    assert not (shop / "CLAUDE.md").exists()
    assert not any(tokens(shop, capsys).values())
    assert operator_folder.agent_token_of(shop / ".agenttalk", "claude") is None
    after = content(shop)
    assert remove(shop, capsys) == {}
    assert content(shop) == after


def test_a_root_with_more_than_init_made_stays_and_other_tokens_stay_good(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["init", "--dir", str(shop)]) == 0
    root = shop / ".agenttalk"
    assert call(["token", "create", "ann", "--role", "viewer", "--root", str(root)]) == 0
    told = remove(shop, capsys)
    assert "that of ann" in told[str(root)]["why"]
    assert tokens(shop, capsys) == {"ann": True} | dict.fromkeys(
        ("claude", "codex", "gemini", "opencode", "qwen"), False
    )
    assert provekit.git(shop, "status", "--porcelain") == ""


def test_the_work_of_plans_that_ran_stays(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["init", "--dir", str(shop)]) == 0
    plan = f"plan_id: p\nagents: {{a: {{driver: script, argv: [{sys.executable}, -c, print(1)]}}}}\n"
    (shop / "plan.yaml").write_text(plan + "tasks: [{id: one, agent: a, prompt: Go.}]\n")
    root = ["--root", str(shop / ".agenttalk")]
    assert call(["run", str(shop / "plan.yaml"), *root]) == 0
    told = remove(shop, capsys)
    assert "more than init made" in told[str(shop / ".agenttalk")]["why"]
    assert call(["status", "p", *root]) == 0


def test_a_root_that_was_there_stays(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "team"
    (root / "agents").mkdir(parents=True)
    (root / "system_runtime").mkdir()
    before = content(shop)
    assert call(["init", "--dir", str(shop), "--root", str(root)]) == 0
    assert remove(shop, capsys) == {}, "nothing was added with the root that lies in the repository"
    remove(shop, capsys, "--root", str(root))
    assert content(shop) == before
    assert {path.name for path in root.iterdir()} == {"agents", "system_runtime", "data"}


@pytest.mark.rest
def test_a_running_engine_revokes_the_tokens_and_keeps_its_root_until_it_has_ended(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(shop)
    root = shop / ".agenttalk"
    assert call(["init", "--dir", str(shop), "--without", "qwen"]) == 0
    with enginekit.engine(root, quick=True) as serving:
        assert call(["init", "--dir", str(shop)]) == 0
        assert tokens(shop, capsys) == dict.fromkeys(("claude", "codex", "gemini", "opencode", "qwen"), True)
        told = remove(shop, capsys, code=1)
        assert (told[str(root)]["what"], told["AGENTS.md"]["what"]) == ("left", "taken out")
        assert "an engine runs on it" in told[str(root)]["why"]
        assert not any(tokens(shop, capsys).values())
        serving.ended(signal.SIGTERM)
    told = remove(shop, capsys)
    assert "if you need none of that, remove the folder yourself" in told[str(root)]["why"]
    assert {path for path in content(shop) if not path.startswith(".agenttalk")} == before.keys()
    assert remove(shop, capsys) == {}


def test_an_entry_that_a_person_had_made_is_not_removed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = {"command": "agenttalk", "args": ["mcp", "--root", ".agenttalk", "--agent", "claude"]}
    own = json.dumps({"mcpServers": {"agenttalk": {"type": "stdio", **server}}}, indent=2)
    (shop / ".mcp.json").write_text(own)
    (shop / "CLAUDE.md").write_text("@AGENTS.md\n")
    assert call(["init", "--dir", str(shop)]) == 0
    told = remove(shop, capsys)
    assert not {".mcp.json", "CLAUDE.md"} & told.keys()
    assert (shop / ".mcp.json").read_text() == own
    assert (shop / "CLAUDE.md").exists()


def test_a_root_that_was_removed_by_hand_leaves_nothing_behind(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(shop)
    assert call(["init", "--dir", str(shop)]) == 0
    shutil.rmtree(shop / ".agenttalk")
    remove(shop, capsys)
    assert content(shop) == before
    assert [path for path in (tmp_path / "config").rglob("*") if path.is_file()] == []


def test_a_root_that_two_repositories_use_stays_until_the_second_is_undone(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "team"
    second = provekit.repository(tmp_path / "second", {"README.md": "Theirs.\n"})
    before = content(shop), content(second)
    for each in (shop, second):
        assert call(["init", "--dir", str(each), "--root", str(root)]) == 0
    told = remove(shop, capsys, "--root", str(root))
    assert f"{second} uses it, too" in told[str(root)]["why"]
    assert content(shop) == before[0]
    assert call(["token", "list", "--root", str(root), "--json"]) == 0
    assert [each["revoked_at"] for each in json.loads(capsys.readouterr().out)] == [None] * 5
    remove(second, capsys, "--root", str(root))
    assert content(second) == before[1]
    assert not root.exists()
    assert [path for path in (tmp_path / "config").rglob("*") if path.is_file()] == []


def test_a_folder_with_a_file_of_the_user_stays(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(shop)
    assert call(["init", "--dir", str(shop)]) == 0
    mine = shop / ".claude/skills/report-action/scripts/mine.txt"
    mine.write_text("mine")
    (shop / "CLAUDE.md").unlink()
    (shop / "CLAUDE.md").mkdir()
    told = remove(shop, capsys)
    assert told["CLAUDE.md"]["what"] == "changed"
    assert sorted(content(shop).keys() - before.keys()) == [
        ".claude",
        ".claude/skills",
        ".claude/skills/report-action",
        ".claude/skills/report-action/scripts",
        ".claude/skills/report-action/scripts/mine.txt",
        "CLAUDE.md",
    ]


def test_a_path_that_leads_elsewhere_now_is_not_followed(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["init", "--dir", str(shop)]) == 0
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("CLAUDE.md", "skills"):
        (shop / ".claude/skills" if name == "skills" else shop / name).rename(outside / name)
    (shop / "CLAUDE.md").symlink_to(outside / "CLAUDE.md")
    (shop / ".claude/skills").symlink_to(outside / "skills")
    theirs = content(outside)
    told = remove(shop, capsys)
    assert told["CLAUDE.md"]["what"] == "changed"
    assert content(outside) == theirs


def test_a_root_that_is_a_link_in_the_repository_is_refused(
    shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    (shop / ".agenttalk").symlink_to(tmp_path / "home")
    for options in ([], ["--remove"]):
        assert call(["init", "--dir", str(shop), *options]) == 1
        assert "leads elsewhere" in capsys.readouterr().err
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.skipif(os.getuid() == 0, reason="root writes everywhere")
def test_a_read_only_folder_is_an_error_before_anything_and_removal_waits_for_its_rights(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(shop)
    shop.chmod(0o555)
    try:
        assert call(["init", "--dir", str(shop)]) == 1
        assert "FILE_UNWRITABLE" in capsys.readouterr().err
        assert content(shop) == before
        shop.chmod(0o755)
        assert call(["init", "--dir", str(shop)]) == 0
        shop.chmod(0o555)
        told = remove(shop, capsys, code=1)
        assert told["CLAUDE.md"]["what"] == "left"
    finally:
        shop.chmod(0o755)
    remove(shop, capsys)
    assert content(shop) == before


def test_what_is_listed_first_is_what_is_written_and_removed(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*options: str) -> dict[str, Any]:
        capsys.readouterr()
        assert call(["init", "--dir", str(shop), "--json", *options]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    before = content(shop)
    planned = told("--dry-run")
    assert (planned["written"], content(shop)) == (False, before)
    assert all(each["about"] for each in planned["files"])
    made = told()
    named = [(each["file"], each["what"]) for each in made["files"] if not each["file"].startswith("token")]
    assert named == [(each["file"], each["what"]) for each in planned["files"]]
    after = content(shop)
    assert call(["init", "--dir", str(shop), "--remove", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "nothing was removed" in text
    assert content(shop) == after
    assert set(text.split()) >= {"CLAUDE.md", "agenttalk.yaml", str(shop / ".agenttalk").split()[0]}


@pytest.mark.parametrize(("answer", "done"), [("n\n", False), ("\n", True)])
def test_a_terminal_is_asked_once_it_was_said_what(shop: Path, answer: str, *, done: bool) -> None:
    before = content(shop)
    for option, question in ([], "Write this?"), (["--remove"], "Remove this?"):
        if option and not done:
            assert call(["init", "--dir", str(shop)]) == 0
            before = content(shop)
        text, code = _on_a_terminal(["init", "--dir", str(shop), *option], question, answer)
        assert code == 0, text
        assert text.index("CLAUDE.md") < text.index(question)
        assert (content(shop) == before) is (not done or bool(option))


def test_yes_asks_nothing_on_a_terminal(shop: Path) -> None:
    for option in ([], ["--remove"]):
        text, code = _on_a_terminal(["init", "--dir", str(shop), "--yes", *option], "", "")
        assert (code, "?" in text) == (0, False)


def _on_a_terminal(arguments: list[str], question: str, answer: str) -> tuple[str, int]:
    """Run a command on a terminal of its own, and answer its question."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([preloaded.program(), *arguments], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        text, answered = b"", not question
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
            if not answered and question.encode() in text:
                os.write(ours, answer.encode())
                answered = True
    os.close(ours)
    return text.decode(), process.returncode


def test_two_at_once_do_not_get_in_each_others_way(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = content(shop)
    for option in ([], ["--remove"]):
        command = [preloaded.program(), "init", "--dir", str(shop), "--json", *option]
        both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [json.loads(each.communicate(timeout=120)[0])["files"] for each in both]
        assert [each.returncode for each in both] == [0, 0]
        if option:
            assert min(map(len, said)) == 0, "one of them finds nothing to do"
        else:
            made = [{each["what"] for each in files} for files in said]
            assert {"there", "left"} in made, "one of them finds everything done"
            assert len(tokens(shop, capsys)) == 5
    assert content(shop) == before


LIVES = """
import os, shutil, signal, sys
from pathlib import Path
from agenttalk.doors.cli.main import call

shop, config, template = map(Path, sys.argv[1:4])
ends = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod"}

def content():
    return {
        str(path.relative_to(shop)): path.read_bytes() if path.is_file() else b""
        for path in sorted(shop.rglob("*"))
        if not {".git", "data"} & set(path.relative_to(shop).parts)
    }

def live(arguments, last=0):
    # Run a command in a process of its own, which is killed before its step `last`; whether it came to its end.
    child = os.fork()
    if not child:
        steps = 0
        def hook(event, args):
            nonlocal steps
            writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR)
            if event in ends or writes:
                steps += 1
                if steps == last:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.stdout = open(os.devnull, "w")
        if last:
            sys.addaudithook(hook)
        os._exit(call(["init", "--dir", str(shop), *arguments]))
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), (arguments, last, status)
    return status == 0

def begin():
    shutil.rmtree(shop, ignore_errors=True)
    shutil.rmtree(config, ignore_errors=True)
    shutil.copytree(template, shop, symlinks=True)

begin()
empty = content()
streams, sys.stdout = sys.stdout, open(os.devnull, "w")
for option in ([], ["--remove"]):
    assert call(["init", "--dir", str(shop), *option]) == 0  # so that each process begins with everything loaded
sys.stdout = streams
assert content() == empty
assert live([])
full = content()
first = int(sys.argv[4])
for doing, other in ([], ["--remove"]), (["--remove"], []):
    step, ended = first, False
    while not ended:
        begin()
        if doing:
            assert live([])
        ended = live(doing, step)
        if doing:
            assert live(["--remove"])
            assert content() == empty, (doing, step, content().keys() ^ empty.keys())
            assert not config.exists() or not [path for path in config.rglob("*") if path.is_file()]
        else:
            assert live([])
            assert content() == full, (doing, step, content().keys() ^ full.keys())
            assert live(["--remove"])
            assert content() == empty, (doing, step, content().keys() ^ empty.keys())
            begin()
            ended = live(doing, step)
            assert live(["--remove"])
            assert content() == empty, ("then removed", step, content().keys() ^ empty.keys())
        print(doing, step, flush=True)
        step += int(sys.argv[5])
"""


@pytest.mark.rest
def test_after_a_kill_at_any_step_the_next_call_finishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    initkit.install(monkeypatch, tmp_path, "claude", "opencode")
    template = provekit.repository(
        tmp_path / "template", {"AGENTS.md": MINE["AGENTS.md"], ".mcp.json": MINE[".mcp.json"]}
    )
    places = [str(tmp_path / name) for name in ("shop", "config/agenttalk")] + [str(template)]
    every = max(1, 270 // cases(3))
    command = [sys.executable, "-c", textwrap.dedent(LIVES), *places, "1", str(every)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-300:] + done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith("[]")]
    assert len(steps) * every > 20, "it was killed at some steps"
