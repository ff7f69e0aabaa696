"""`agenttalk prove` at a door: Claude Code's end of a turn, and git's push, with a real git."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

import preloaded
from doors.cli.changes import shopkit
from doors.cli.changes.shopkit import NEW_TEST, TAXED, Shop
from kits import provekit

BROKEN = {"price.py": TAXED.replace("* 2", "* 3"), "tests/test_taxed.py": NEW_TEST}
CHECK = ("--check", "sh tests/check.sh")
FILES = {**shopkit.FILES, "tests/check.sh": "grep 'total(items) [*] 2' price.py\n"}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return shopkit.open_shop(tmp_path, FILES)


def stop(shop: Shop, *more: str, session: str = "s1", active: bool = False, cwd: str | None = None) -> dict[str, Any]:
    """What the hook answers at the end of a turn; empty if it says nothing."""
    told = {"session_id": session, "stop_hook_active": active, "cwd": cwd or str(shop.top), "hook_event_name": "Stop"}
    found = shop.call("--hook", "claude-stop", *CHECK, *more, stdin=json.dumps(told), cwd=shop.folder)
    assert found.code == 0, found
    answer: dict[str, Any] = json.loads(found.out) if found.out else {}
    return answer


@pytest.mark.rest
def test_claude_is_kept_from_stopping_with_what_is_missing_and_only_so_often(shop: Shop) -> None:
    assert stop(shop) == {}, "nothing to prove"
    shop.write(BROKEN)
    answer = stop(shop)
    assert answer["decision"] == "block"
    assert "✗ The check passes on the change as it is" in answer["reason"]
    assert "Fix the code, not the check" in answer["reason"]
    assert stop(shop, "--blocks", "2", active=True)["decision"] == "block"
    last = stop(shop, "--blocks", "2", active=True)
    assert "decision" not in last
    assert "Not proven" in last["systemMessage"]
    assert stop(shop) == {}, "it was let go with exactly this tree"
    assert stop(shop, session="s2")["decision"] == "block", "another session has its own count"
    shop.write({"price.py": TAXED})
    assert "Proven" in stop(shop)["systemMessage"]
    assert stop(shop) == {}


@pytest.mark.rest
def test_a_new_request_of_a_person_begins_a_new_count(shop: Shop) -> None:
    shop.write(BROKEN)
    assert stop(shop, "--blocks", "1")["decision"] == "block"
    assert stop(shop, "--blocks", "1")["decision"] == "block", "a person asked for something in between"
    assert "decision" not in stop(shop, "--blocks", "1", active=True)
    assert "decision" not in stop(shop, "--blocks", "0", session="s3")


@pytest.mark.rest
def test_what_claude_cannot_mend_lets_it_stop_and_is_shown_to_the_person(shop: Shop, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is in no work tree" in stop(shop, cwd=str(empty))["systemMessage"]
    assert "is not a glob" in stop(shop, "--scope", "../x")["systemMessage"], "code 2 would keep Claude from stopping"
    shop.write({**BROKEN, "tests/check.sh": "exit 127\n"})
    commit(shop, "no check")
    shop.write({"price.py": TAXED})
    assert "the check could not run" in stop(shop)["systemMessage"]
    shop.git("reset", "-q", "--hard", "HEAD~1")
    for text in ("", "[]", "{", '{"session_id": 3, "cwd": "/nowhere"}'):
        shop.write(BROKEN)
        found = shop.call("--hook", "claude-stop", *CHECK, "--blocks", "9", stdin=text)
        assert (found.code, json.loads(found.out)["decision"]) == (0, "block")


def test_work_that_was_committed_in_the_session_is_held_too(shop: Shop) -> None:
    told = json.dumps({"session_id": "s1", "cwd": str(shop.top), "hook_event_name": "SessionStart"})
    assert shop.call("--hook", "claude-start", stdin=told, cwd=shop.folder).out == ""
    shop.write(BROKEN)
    commit(shop, "done")
    assert stop(shop, session="s2") == {}, "a session of which no beginning is known has only what is uncommitted"
    assert stop(shop)["decision"] == "block"
    shop.call("--hook", "claude-start", stdin=told)
    assert stop(shop)["decision"] == "block", "a session that goes on keeps its beginning"
    assert shop.call("--hook", "claude-start", stdin="{}", cwd=shop.folder).code == 0


def test_an_agent_of_ours_may_stop_and_may_not_prove(shop: Shop) -> None:
    shop.write(BROKEN)
    for hook in ("claude-start", "claude-stop"):
        found = shop.call("--hook", hook, *CHECK, stdin="{}", AGENTTALK_LEASE="lease_1")
        assert (found.code, found.out) == (0, ""), found
    refused = shop.call(*CHECK, AGENTTALK_LEASE="lease_1")
    assert refused.code == 2
    assert "only people may run 'agenttalk prove'" in refused.err


def push(shop: Shop, *arguments: str) -> subprocess.CompletedProcess[str]:
    programs = Path(preloaded.program()).parent
    environment = {**shop.environment, "PATH": f"{programs}:{os.environ['PATH']}"}
    return subprocess.run(
        ["git", "push", *arguments], cwd=shop.top, env=environment, capture_output=True, text=True, check=False
    )


def commit(shop: Shop, message: str) -> None:
    shop.git("add", ".")
    shop.git("commit", "-qm", message)


def test_git_refuses_to_push_what_is_not_proven(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path)
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far.git")], check=True)
    shop.git("remote", "add", "origin", str(tmp_path / "far.git"))
    installed = shop.call("--install-hook", "pre-push")
    assert installed.code == 0, installed
    hook = shop.top / ".git" / "hooks" / "pre-push"
    assert hook.stat().st_mode & stat.S_IXUSR
    assert shop.call("--install-hook", "pre-push").code == 0, "once more is harmless"
    first = push(shop, "-u", "origin", "main")
    assert first.returncode == 0, first.stderr
    shop.git("checkout", "-q", "-b", "tax")
    shop.write(BROKEN)
    commit(shop, "tax")
    refused = push(shop, "origin", "tax")
    assert refused.returncode != 0
    assert "✗ Not proven: tax" in refused.stderr
    assert "git push --no-verify" in refused.stderr
    assert shop.git("ls-remote", "origin", "refs/heads/tax") == ""
    shop.write({"price.py": TAXED})
    commit(shop, "right")
    done = push(shop, "origin", "tax")
    assert done.returncode == 0, done.stderr
    assert "✓ Proven: tax" in done.stderr


@pytest.mark.rest
def test_tags_missing_tests_and_forced_pushes_are_judged_by_the_hook_as_well(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path)
    subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "far.git")], check=True)
    shop.git("remote", "add", "origin", str(tmp_path / "far.git"))
    assert shop.call("--install-hook", "pre-push").code == 0
    assert push(shop, "-u", "origin", "main").returncode == 0
    shop.git("checkout", "-q", "-b", "tax")
    shop.write({**BROKEN, "price.py": TAXED})
    commit(shop, "right")
    assert push(shop, "origin", "tax").returncode == 0
    shop.git("tag", "v1")
    assert push(shop, "origin", "v1").returncode == 0
    shop.write({"tests/test_price.py": None})
    commit(shop, "no tests")
    assert "'tests/test_price.py'" in push(shop, "origin", "tax").stderr
    assert push(shop, "--no-verify", "origin", "tax").returncode == 0
    other = tmp_path / "other"
    subprocess.run(["git", "clone", "-q", "--branch=tax", str(tmp_path / "far.git"), str(other)], check=True)
    provekit.git(other, "commit", "-q", "--allow-empty", "-m", "of another person")
    provekit.git(other, "push", "-q", "origin", "tax")
    shop.git("revert", "--no-edit", "HEAD")
    forced = push(shop, "--force", "origin", "tax")
    assert forced.returncode == 0, forced.stderr
    assert push(shop, "origin", ":tax").returncode == 0


def test_a_hook_that_is_there_is_never_overwritten(shop: Shop) -> None:
    hook = shop.top / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 0\n")
    refused = shop.call("--install-hook", "pre-push")
    assert refused.code == 2
    assert "there is a pre-push hook already" in refused.err
    assert "agenttalk prove --hook pre-push || exit 1" in refused.err
    assert hook.read_text() == "#!/bin/sh\nexit 0\n"
    hook.unlink()
    hook.symlink_to("/nowhere")
    assert shop.call("--install-hook", "pre-push").code == 2
    provekit.git(shop.top, "config", "core.hooksPath", "my hooks")
    assert shop.call("--install-hook", "pre-push").code == 0
    assert (shop.top / "my hooks" / "pre-push").exists()
