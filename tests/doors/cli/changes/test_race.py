"""Several coding agents on one change: one proven result is taken, and the others are stopped."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import preloaded
from doors.cli.changes.changekit import CHECK, PATIENCE, RIGHT, Repo, make_repo
from doors.cli.plans.screenkit import terminal
from kits.provekit import git

AGENT = f"""#!{sys.executable}
import json, pathlib, sys, time
prompt = sys.stdin.read()
COST, SLOW, AFTER, TEXT = {{settings!r}}
print(json.dumps({{{{"type": "system", "subtype": "init", "session_id": "s1"}}}}), flush=True)
if SLOW:
    used = {{{{"id": "m1", "content": [], "usage": {{{{"input_tokens": 1000, "output_tokens": 50}}}}}}}}
    print(json.dumps({{{{"type": "assistant", "message": used}}}}), flush=True)
    pathlib.Path(sys.argv[0] + ".at").touch()
while SLOW or (AFTER and not pathlib.Path(sys.argv[0]).with_name(AFTER + ".at").exists()):
    time.sleep(0.02)
pathlib.Path("price.py").write_text(TEXT)
for line in (
    {{{{"type": "system", "subtype": "init", "session_id": "s1"}}}},
    {{{{"type": "result", "subtype": "success", "is_error": False, "result": "Done.", "session_id": "s1",
     "usage": {{{{"input_tokens": 3, "output_tokens": 4}}}}, "total_cost_usd": COST}}}},
):
    print(json.dumps(line))
"""
LONG = f"# why\n# and how\n{RIGHT}"
WRONG = RIGHT.replace("40", "7")


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    repo = make_repo(tmp_path)
    (tmp_path / "bin").mkdir()
    return repo


def install(
    repo: Repo, name: str, *, cost: float = 0.01, slow: bool = False, after: str = "", text: str = RIGHT
) -> None:
    path = repo.folder / "bin" / name
    path.write_text(AGENT.format(settings=(cost, slow, after, text)))
    path.chmod(0o755)


def agents(repo: Repo) -> dict[str, str]:
    """Variables with which our agents are found."""
    return {"PATH": f"{repo.folder / 'bin'}:/usr/bin:/bin", "ANTHROPIC_API_KEY": "none", "OPENAI_API_KEY": "none"}


def race(repo: Repo, *options: str, code: int = 0, command: tuple[str, ...] = ()) -> dict[str, Any]:
    words = command or ("until", "--json", *options, CHECK, "--", "claude", "-p", "Fix the price")
    told: dict[str, Any] = json.loads(repo.run(*words, code=code, more=agents(repo))[0])
    return told


def at_work(repo: Repo) -> list[str]:
    """Processes whose working directory is in a clone, or where the command was run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            folder = (process / "cwd").readlink()
            if folder == repo.top or folder.is_relative_to(repo.state):
                found.append(process.name)
    return found


def test_the_first_proven_result_is_taken_and_the_others_are_stopped(shop: Repo) -> None:
    install(shop, "claude", slow=True)
    install(shop, "qwen", after="claude")
    told = race(shop, "--race", "claude,qwen", "--merge", "--sandbox", "plain")
    assert (told["result"], told["agent"], told["merge"]["ok"]) == ("proven", "qwen", True)
    assert {each["agent"]: each["result"] for each in told["race"]} == {"claude": "interrupted", "qwen": "proven"}
    assert [each["usage"]["tokens"] for each in told["race"]] == [1050, 7]
    assert (shop.top / "price.py").read_text() == RIGHT
    assert at_work(shop) == []


@pytest.mark.rest
def test_the_cheapest_or_the_smallest_result_can_be_taken(shop: Repo) -> None:
    install(shop, "claude", cost=0.05)
    install(shop, "qwen", cost=0.02, text=LONG)
    told = race(shop, "--race", "claude,qwen", "--take", "cheapest")
    assert told["agent"] == "qwen"
    assert [each["usage"]["cost_usd"] for each in told["race"]] == [0.05, 0.02]
    assert race(shop, "--race", "claude,qwen", "--take", "smallest-diff")["agent"] == "claude"


@pytest.mark.rest
def test_a_race_without_a_proof_is_lost(shop: Repo) -> None:
    install(shop, "claude", text=WRONG)
    install(shop, "qwen", text=WRONG)
    told = race(shop, "--race", "claude,qwen", "--rounds", "1", code=1)
    assert (told["ok"], told["result"]) == (False, "not proven")
    assert all("'check' failed" in each["reason"] for each in told["race"])


@pytest.mark.rest
def test_a_goal_can_be_raced_for(shop: Repo) -> None:
    install(shop, "claude", text=WRONG)
    install(shop, "qwen")
    told = race(shop, command=("do", "--json", "--rounds", "1", "--race", "claude,qwen", "Fix the price"))
    assert (told["result"], told["agent"]) == ("proven", "qwen")
    assert git(shop.top, "status", "--porcelain") == ""


@pytest.mark.rest
def test_a_person_sees_what_was_decided_and_what_each_agent_does(shop: Repo) -> None:
    install(shop, "claude", slow=True)
    install(shop, "qwen", after="claude")
    words = ("until", "--race", "claude,qwen", "--sandbox", "plain", CHECK, "--", "claude", "-p", "Fix the price")
    with terminal([preloaded.program(), *words], shop.top, shop.variables | agents(shop), columns=120) as seen:
        seen.until_seen("agent      claude, qwen", "▶ claude  round 1 of 4", "▶ qwen  round 1 of 4")
        assert seen.end() == 0
        assert "✓ taken: qwen" in "\n".join(seen.screen.rows)


@pytest.mark.rest
def test_a_race_that_was_killed_leaves_no_agent_at_work_and_goes_on(shop: Repo) -> None:
    install(shop, "claude", slow=True)
    install(shop, "qwen", slow=True)
    words = ("until", "--json", "--race", "claude,qwen", "--sandbox", "plain", CHECK, "--", "claude", "-p", "Fix it")
    command = [sys.executable, "-m", "agenttalk", *words]
    with subprocess.Popen(command, cwd=shop.top, env=shop.variables | agents(shop), stdout=subprocess.PIPE) as killed:
        wait_for(lambda: all((shop.folder / "bin" / f"{name}.at").exists() for name in ("claude", "qwen")))
        killed.kill()
    wait_for(lambda: not at_work(shop))
    install(shop, "qwen")
    told = race(shop, command=words)
    assert (told["result"], told["agent"]) == ("proven", "qwen")
    assert len([*(shop.state / "runs").glob("*/*")]) == 2


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--race", "claude"], "needs two agents"),
        (["--race", "claude,vim"], "no coding agent 'vim'"),
        (["--race", "claude,codex"], "codex is not installed"),
    ],
)
def test_a_race_names_agents_that_are_there(shop: Repo, options: list[str], why: str) -> None:
    install(shop, "claude")
    assert why in race(shop, *options, code=2)["error"]["message"]
