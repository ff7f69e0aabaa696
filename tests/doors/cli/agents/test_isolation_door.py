"""Isolation at the command line: the best sandbox unless the operator says otherwise, and rights of files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.provekit import git, repository
from kits.sandboxkit import needs

SCRIPT = """
import json, os, pathlib
root = pathlib.Path(os.environ["AGENTTALK_RESULT"]).parents[6]
seen = []
for name in ("data/system.db", "agenttalk.toml", "system_runtime/plans/p/task_dag.json", "agents/other/secret.txt"):
    try: (root / name).read_bytes(); seen.append(name)
    except OSError: pass
print(json.dumps({"result": ",".join(seen) or "nothing"}))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "root" / "agents" / "other").mkdir(parents=True)
    (tmp_path / "root" / "agents" / "other" / "secret.txt").write_text("secret")
    (tmp_path / "root" / "system_runtime").mkdir()
    (tmp_path / "root" / "agenttalk.toml").write_text("# mine\n")
    (tmp_path / "work.py").write_text(SCRIPT)
    return tmp_path


def plan(place: Path, **keys: Any) -> str:
    agents = {"dev": {"driver": "script", "argv": [sys.executable, "work.py"], **keys}}
    tasks = [{"id": "look", "agent": "dev", "prompt": "Look.", "retry_times": 0}]
    (place / "plan.json").write_text(json.dumps({"plan_id": "p", "agents": agents, "tasks": tasks}))
    return str(place / "plan.json")


def told(place: Path) -> dict[str, Any]:
    done = preloaded.run("explain", "p/look", "--root", str(place / "root"), "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.rest_but("asked0")
@pytest.mark.mends("F6", "F7", "F15")
@pytest.mark.parametrize("asked", [{}, {"sandbox": "plain"}, {"sandbox": "plain", "isolation": "best"}])
def test_a_script_is_in_the_best_sandbox_whatever_its_plan_says(place: Path, asked: dict[str, Any]) -> None:
    needs("bubblewrap")
    done = preloaded.run("run", plan(place, **asked), "--root", str(place / "root"))
    assert done.returncode == 0, done.stderr
    assert ("sandbox: plain has no effect" in done.stderr) == bool(asked)
    [attempt] = told(place)["attempts"]
    assert attempt["sandbox"] == "bubblewrap"
    assert attempt["result"] == "nothing", "of what is hidden"
    assert "not isolated" not in done.stdout


@pytest.mark.rest_but("option")
@pytest.mark.mends("F15")
@pytest.mark.parametrize("how", ["option", "settings", "variable"])
def test_plain_is_the_operators_word_and_then_everything_says_so(place: Path, how: str) -> None:
    if how == "settings":
        (place / "root" / "agenttalk.toml").write_text('sandbox = "plain"\n')
    more = {"AGENTTALK__SANDBOX": "plain"} if how == "variable" else {}
    option = ("--sandbox", "plain") if how == "option" else ()
    done = preloaded.run("run", plan(place), *option, "--root", str(place / "root"), **more)
    assert (done.returncode, "1 not isolated" in done.stdout) == (0, True), done.stdout + done.stderr
    found = told(place)
    assert (found["attempts"][0]["sandbox"], found["verdict"]["isolation"]) == ("plain", "none")
    explained = preloaded.run("explain", "p/look", "--root", str(place / "root")).stdout
    assert "without a sandbox" in explained
    assert "not isolated" in explained
    assert "not isolated" in preloaded.run("status", "--root", str(place / "root")).stdout


@pytest.mark.mends("F7")
def test_what_a_plan_requires_is_not_lowered_by_plain(place: Path) -> None:
    needs("bubblewrap")
    done = preloaded.run("run", plan(place, isolation="required"), "--sandbox", "plain", "--root", str(place / "root"))
    assert done.returncode == 0, done.stderr
    assert told(place)["attempts"][0]["sandbox"] == "bubblewrap"


def test_a_plan_check_says_what_has_no_effect(place: Path) -> None:
    done = preloaded.run("plan", "check", plan(place, sandbox="plain"), "--root", str(place / "root"))
    assert "sandbox: plain has no effect" in done.stdout + done.stderr
    assert "agenttalk.toml" in done.stdout + done.stderr


@pytest.mark.rest_but("0")
@pytest.mark.mends("F13")
@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_other_users_can_read_nothing_of_a_root_whatever_the_umask(place: Path, umask: int) -> None:
    repo = repository(place / "repo", {"a.txt": "1\n"})
    file = Path(plan(place))
    said = json.loads(file.read_text())
    said |= {"workspace": {"repo": str(repo)}}
    said["tasks"][0]["outputs"] = []
    file.write_text(json.dumps(said))
    before = os.umask(umask)
    try:
        done = preloaded.run("run", str(file), "--root", str(place / "root"), "--sandbox", "plain")
        saved = preloaded.run("backup", str(place / "saved.tar.gz"), "--root", str(place / "root"))
    finally:
        os.umask(before)
    assert done.returncode == 0, done.stderr
    assert saved.returncode == 0, saved.stderr
    tops = [place / "root" / name for name in ("data", "system_runtime", "agenttalk.toml", "workspaces")]
    tops += [place / "home", place / "saved.tar.gz"]
    inner = [path for name in ("data", "system_runtime") for path in (place / "root" / name).rglob("*")]
    open_ones = [path for path in (*tops[:-2], *inner) if path.exists() and stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert open_ones == []
    kept = [path for path in (place / "home").rglob("*") if path.is_file() or path.name == "agenttalk"]
    assert [path for path in (*kept, tops[-1]) if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


@pytest.mark.rest
@pytest.mark.mends("F7")
def test_a_check_that_is_made_again_is_confined_by_the_operators_word_for_its_agent(place: Path) -> None:
    needs("bubblewrap")
    repo = repository(place / "repo", {"a.txt": "a"})
    check = {"id": "there", "kind": "run", "run": "test -e made.txt", "red_first": "off"}
    shown = [{"id": "c", "description": "it is there", "evidenceRequired": ["there"]}]
    promise = {"objective": "It is there", "acceptance": shown, "checks": [check]}
    task = {"id": "look", "agent": "dev", "prompt": "Make it.", "workspace": "repo", "promise": promise}
    (place / "work.py").write_text("open('made.txt', 'w').write('made')")
    agents = {"dev": {"driver": "script", "argv": [sys.executable, "work.py"], "sandbox": "plain"}}
    said = {"plan_id": "p", "workspace": {"repo": str(repo)}, "agents": agents, "tasks": [task]}
    (place / "plan.json").write_text(json.dumps(said))
    done = preloaded.run("run", str(place / "plan.json"), "--root", str(place / "root"))
    assert done.returncode == 0, done.stdout + done.stderr
    git(repo, "checkout", "-q", "agenttalk/p")
    (repo / "b.txt").write_text("b")
    git(repo, "add", "b.txt")
    git(repo, "commit", "-qm", "something else")
    settings = '[checks]\nsandbox = "plain"\n[agents.dev]\nsandbox = "bubblewrap"\n'
    (place / "root" / "agenttalk.toml").write_text(settings)
    again = preloaded.run("verify", "p", "--root", str(place / "root"))
    assert again.returncode == 1, again.stdout + again.stderr
    assert "a sandbox is required here" in again.stderr


CLAUDE = """#!/bin/sh
[ "$1" = --version ] && { cat PERSON/.claude/other 2>/dev/null; echo "1.0 (Claude Code)"; exit; }
cat > /dev/null
if ! grep -q person-token "$HOME/.claude/.credentials.json" 2>/dev/null; then
  echo '{"type": "result", "is_error": true, "result": "Not logged in", "session_id": "s"}'; exit 1
fi
(echo x > "$HOME/.claude/.credentials.json") 2>/dev/null && said=changed || said=kept
cat PERSON/.claude/other 2>/dev/null >&2 && said=saw
echo '{"type": "result", "subtype": "success", "is_error": false, "result": "'$said'", "session_id": "s"}'
"""


def installed(place: Path, *, logged_in: bool) -> dict[str, str]:
    """A coding agent below a folder for temporary files, and a home folder with the login of a person."""
    program = place / "tools" / "bin" / "claude"
    program.parent.mkdir(parents=True)
    program.write_text(CLAUDE.replace("PERSON", str(place / "home")))
    program.chmod(0o755)
    own = place / "home" / ".claude"
    own.mkdir(parents=True)
    (own / "other").write_text("not for agents")
    if logged_in:
        (own / ".credentials.json").write_text('{"claudeAiOauth": {"accessToken": "person-token"}}')
    return {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(place / "home")}


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.mends("C1")
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
def test_the_login_of_a_person_is_lent_to_a_coding_agent_and_nothing_else_of_the_home_folder(
    place: Path, tier: str
) -> None:
    needs(tier)
    more = installed(place, logged_in=True)
    file = plan(place, driver="cli", cli="claude", argv=[], sandbox=tier)
    done = preloaded.run("run", file, "--root", str(place / "root"), **more)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is logged in" not in done.stderr
    [attempt] = told(place)["attempts"]
    assert (attempt["sandbox"], attempt["result"]) == (tier, "kept")
    assert "person-token" in (place / "home" / ".claude" / ".credentials.json").read_text()


@pytest.mark.mends("C1")
def test_who_is_not_logged_in_is_told_so_before_the_turn_and_by_the_task_that_failed(place: Path) -> None:
    more = installed(place, logged_in=False)
    file = plan(place, driver="cli", cli="claude", argv=[])
    done = preloaded.run("run", file, "--root", str(place / "root"), **more)
    assert done.returncode == 1
    [warning] = [line for line in done.stderr.splitlines() if "agents.dev" in line]
    assert "there is no login" in warning
    assert "claude setup-token" in warning
    assert "claude setup-token" in told(place)["reason"]


def test_who_has_not_installed_the_agent_of_a_plan_is_told_how_before_the_turn(place: Path) -> None:
    file = plan(place, driver="cli", cli="claude", argv=[])
    programs = place / "programs"
    programs.mkdir()
    for name in ("sh", "git"):
        (programs / name).symlink_to(shutil.which(name) or "/bin/sh")
    done = preloaded.run("run", file, "--root", str(place / "root"), PATH=str(programs))
    assert done.returncode == 1
    [warning] = [line for line in done.stderr.splitlines() if "agents.dev" in line]
    assert "the program 'claude' was not found; install it: npm install -g @anthropic-ai/claude-code" in warning


@pytest.mark.mends("C1")
@pytest.mark.parametrize("logged_in", [True, False])
def test_doctor_tries_a_coding_agent_in_its_sandbox_and_sees_whether_anything_lets_it_in(
    place: Path, logged_in: bool
) -> None:
    needs("bubblewrap")
    more = installed(place, logged_in=logged_in)
    found = json.loads(preloaded.run("doctor", "drivers", "--json", "--root", str(place / "root"), **more).stdout)
    [claude] = [each for each in found["probes"] if each["name"] == "driver cli claude"]
    assert claude["ok"] is logged_in, claude
    assert claude["detail"].startswith("1.0 (Claude Code)"), "it was started where it sees nothing else of the person"
    assert ("copied into" in claude["detail"]) == logged_in
    assert logged_in or "setup-token" in claude["remedy"]


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.mends("F15")
@pytest.mark.parametrize("tier", ["plain", "bubblewrap"])
def test_a_release_and_honesty_say_how_much_was_not_isolated(place: Path, tier: str) -> None:
    needs("bubblewrap")
    apart = int(tier == "plain")
    (place / "work.py").write_text("import os\nopen(os.environ['AGENTTALK_OUTPUTS'] + '/app', 'w').write('hello')")
    agents = {"dev": {"driver": "script", "argv": [sys.executable, "work.py"]}}
    task = {"id": "look", "agent": "dev", "prompt": "Make it.", "outputs": [{"name": "app", "deliverable": True}]}
    gates = {"build": {"kind": "run", "run": "grep -q hello app"}}
    said = {"plan_id": "p", "agents": agents, "tasks": [task], "release": {"gates": gates}}
    (place / "plan.json").write_text(json.dumps(said))
    (place / "root" / "agenttalk.toml").write_text(f'sandbox = "{tier}"\n[checks]\nsandbox = "{tier}"\n')
    root = ("--root", str(place / "root"))
    done = preloaded.run("run", str(place / "plan.json"), *root)
    assert done.returncode == 0, done.stdout + done.stderr
    words = "1 task of the plan not isolated"
    assert (words in done.stdout) == bool(apart), done.stdout
    shown = preloaded.run("release", "p", *root).stdout
    assert (words in shown, shown.count(", not isolated")) == (bool(apart), 2 * apart), shown
    released = json.loads(preloaded.run("release", "p", *root, "--json").stdout)
    assert (released["not_isolated"], released["artifacts"][0]["isolated"]) == (apart, not apart)
    runtime = place / "root" / "system_runtime"
    assert json.loads((runtime / "plans/p/release_manifest.json").read_text())["not_isolated"] == apart
    [record] = runtime.glob("artifacts/p/*/decision_record.json")
    assert json.loads(record.read_text())["not_isolated"] == apart
    counted = json.loads(preloaded.run("honesty", *root, "--json").stdout)
    assert (counted["total"]["unisolated"], counted["agents"][0]["unisolated"]) == (apart, apart)
    assert ("1 not isolated" in preloaded.run("honesty", *root).stdout) == bool(apart)
