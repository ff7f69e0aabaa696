"""A plan that runs, as a person sees it at a real terminal; and what Ctrl-C does there."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import preloaded
from agenttalk.engine.agents.coding_cli import MAX_REMINDERS
from doors.cli.plans.screenkit import PATIENCE, Terminal, terminal
from kits.provekit import git, repository

AGENT = """
import json, os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
prompt = sys.stdin.read()
number = len(list(here.glob("prompt-*")))
(here / f"prompt-{number}").write_text(prompt)
(here / f"argv-{number}").write_text(" ".join(sys.argv[1:]))
def tell(**said):
    print(json.dumps(said), flush=True)
def tool(name, **given):
    call = {"type": "tool_use", "id": f"t{time.monotonic()}", "name": name, "input": given}
    tell(type="assistant", message={"id": f"m{time.monotonic()}", "content": [call], "usage": {"input_tokens": 1234}})
def text(words):
    tell(type="assistant", message={"content": [{"type": "text", "text": words}]})
def reach(name):
    (here / f"at-{name}").touch()
    while not (here / f"go-{name}").exists():
        time.sleep(0.01)
def end(**more):
    tell(**{"type": "result", "subtype": "success", "is_error": False, "result": "Done.",
            "usage": {"input_tokens": 5000}, "total_cost_usd": 0.25, "permission_denials": [], **more})
tell(type="system", subtype="init", session_id="ses-1", model="m1")
"""
FIXED = "pathlib.Path('price.py').write_text('def price(n):\\n    return 40 * n\\n')\n"
PRICE = "def price(n):\n    return 2 * n\n"
CHECK = """
import os, pathlib, sys, time
from price import price
here = pathlib.Path(HERE)
for number in range(1, 5):
    print("." if price(number) == 40 * number else "F", end="", flush=True)
    if number == 3 and price(1) == 40 and "AGENTTALK_LEASE" in os.environ and "AGENTTALK_TASK_ID" not in os.environ:
        (here / "at-check").touch()
        while not (here / "go-check").exists():
            time.sleep(0.01)
print(flush=True)
sys.exit(price(1) != 40)
"""


def block(screen: list[str]) -> list[str]:
    """The lines of the block on a screen."""
    first = next((number for number, row in enumerate(screen) if row.startswith("shop  ")), len(screen))
    return screen[first:]


@dataclass(frozen=True)
class Shop:
    """A repository, a plan with one task on it, and an agent that speaks as Claude Code does."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def variables(self) -> dict[str, str]:
        ours = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LC_ALL": "C.UTF-8"}
        return {**ours, "AGENTTALK__CHECKS__SANDBOX": "plain"}  # the check waits for a file of the test

    @property
    def argv(self) -> list[str]:
        return [preloaded.program(), "run", "plan.json", "--root", str(self.root), "--sandbox", "plain"]

    def behave(self, behaviour: str) -> None:
        (self.folder / "agent.py").write_text(AGENT + behaviour)

    def let(self, *names: str) -> None:
        for name in names:
            (self.folder / f"go-{name}").touch()

    def reached(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (self.folder / f"at-{name}").exists():
            assert time.monotonic() < deadline, f"the agent never came to {name}"
            time.sleep(0.02)

    def said(self, name: str) -> str:
        return (self.folder / name).read_text()

    @contextmanager
    def at_terminal(self, *more: str, columns: int = 100, lines: int = 30, **variables: str) -> Iterator[Terminal]:
        given = {**self.variables, **variables}
        with terminal([*self.argv, *more], self.folder, given, columns=columns, lines=lines) as seen:
            yield seen

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv, cwd=self.folder, env={**self.variables, **variables}, capture_output=True, text=True, check=False
        )

    def alive(self) -> list[str]:
        """Processes of turns that run in this root."""
        wanted, found = f"={self.root}/".encode(), []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                variables = (entry / "environ").read_bytes() if entry.name.isdigit() else b""
                if b"AGENTTALK_LEASE=" in variables and wanted in variables:
                    found.append(entry.name)
        return found

    def status(self) -> dict[str, Any]:
        command = [preloaded.program(), "status", "--json", "--root", str(self.root)]
        done = subprocess.run(command, env=self.variables, capture_output=True, text=True, check=True)
        task: dict[str, Any] = json.loads(done.stdout)["plans"][0]["tasks"][0]
        return task


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    repository(tmp_path / "shop", {"price.py": PRICE, "test_price.py": "", "notes.txt": "Nothing.\n"})
    (tmp_path / "check.py").write_text(f"HERE = {str(tmp_path)!r}\n{CHECK}")
    agent = str(tmp_path / "agent.py")
    cli = {"agent": "claude", "program": sys.executable, "argv": [agent], "resume": [agent, "--resume", "{session}"]}
    # The word pytest tells which results to look for; the program below it plays one.
    line = f": pytest; PYTHONPATH=. {sys.executable} {tmp_path}/check.py"
    check = {"id": "unit", "kind": "run", "run": line, "protected": ["test_*.py"]}
    promise = {
        "objective": "The price is right",
        "acceptance": [{"id": "t", "description": "The tests pass", "evidenceRequired": ["unit"]}],
        "allowedScope": ["*.py", "notes.txt"],
        "checks": [check],
    }
    work = {"id": "fix", "agent": "dev", "prompt": "Fix the price.", "workspace": "repo", "promise": promise}
    document = {
        "plan_id": "shop",
        "workspace": {"repo": "./shop"},
        "agents": {"dev": {"driver": "cli", "cli": cli}},
        "tasks": [work],
    }
    (tmp_path / "plan.json").write_text(json.dumps(document))
    return Shop(tmp_path)


HOSTILE = "text('I look \\x1b[2J\\x1b]0;x\\x07 at [red]価格[/] \\u202e e\\u0301.\\nA second line')\n"
AT_WORK = (
    "tool('Edit', file_path=os.getcwd() + '/price.py')\nreach('edit')\n" + HOSTILE + "reach('text')\n" + FIXED + "end()"
)


def test_a_block_shows_what_the_agent_and_the_engine_do(shop: Shop) -> None:
    shop.behave(AT_WORK)
    with shop.at_terminal() as seen:
        screen = block(seen.until_seen("Edit price.py", "round 1 of 4", "1,234 tokens"))
        assert re.fullmatch(r"▶ fix dev  round 1 of 4 · [\d.]+ s · 1,234 tokens", screen[1])
        assert screen[2] == "    Edit price.py"
        assert not seen.screen.cursor_is_seen
        shop.let("edit")
        screen = seen.until_seen("I look")
        assert "    I look \\x1b[2J\\x1b]0;x\\x07 at [red]価格[/] \\x202e e\u0301. A second line" in screen
        shop.let("text")
        seen.until_seen("checking: unit, 3 of 4 tests", "$0.25")
        shop.let("check")
        assert seen.end() == 0
    assert seen.screen.cursor_is_seen
    assert any(row.startswith("✓ shop: everything is done") for row in seen.screen.rows)
    assert not [row for row in seen.screen.rows if row.startswith(("▶", "    Edit"))], "nothing of the block stays"
    printed = "\n".join(seen.screen.rows)
    assert re.search(
        r"^  ✓ fix: [\d.]+ s, 5,000 tokens, \$0.2500, 1 tool call · unit passed \(executed\)", printed, re.MULTILINE
    )
    assert "unit passed (executed) · not isolated" in printed
    assert re.search(
        r"^  agenttalk/shop \w{12}: 1 file changed, 1 insertion\(\+\), 1 deletion\(-\)$", printed, re.MULTILINE
    )
    assert f"  → agenttalk merge shop --root {shop.root}" in printed.replace("\n", "")


def test_a_refused_round_stays_above_the_block(shop: Shop) -> None:
    lies = "text('All tests pass.')"  # also to the reminders in its round
    shop.behave(f"if number > {MAX_REMINDERS}:\n    reach('again')\n    {FIXED}else:\n    {lies}\nend()")
    shop.let("check")
    with shop.at_terminal() as seen:
        shop.reached("again")
        screen = seen.until_seen("round 2 of")
        refused = next(number for number, row in enumerate(screen) if row.startswith("✗ round 1: refused: "))
        assert "'unit' failed" in screen[refused]
        assert any(row.startswith("shop  ") for row in screen[refused + 1 :]), "the block is below it"
        shop.let("again")
        assert seen.end() == 0
    assert len([row for row in seen.screen.rows if row.startswith("✗ round 1: refused: ")]) == 1


@pytest.mark.parametrize("columns", [40, 12])
@pytest.mark.rest_but("40")
def test_a_narrow_terminal_breaks_no_line(shop: Shop, columns: int) -> None:
    shop.behave("tool('Edit', file_path='価格' * 40 + '/a.py')\nreach('edit')\n" + FIXED + "end()")
    shop.let("check")
    with shop.at_terminal(columns=columns) as seen:
        screen = block(seen.until_seen("    Edit"))
        assert len(screen) == 4, screen  # the plan, two lines of the task, and the cursor's
        assert screen[2].endswith("…")
        if columns == 40:
            assert re.fullmatch(r"▶ fix  1/4 · [\d.]+ s · 1,234", screen[1])
        shop.let("edit")
        assert seen.end() == 0


@pytest.mark.rest
def test_a_terminal_that_becomes_narrower_keeps_one_block(shop: Shop) -> None:
    shop.behave("tool('Bash', command='x' * 90)\nreach('edit')\n" + FIXED + "end()")
    shop.let("check")
    with shop.at_terminal(columns=100) as seen:
        seen.until_seen("Bash xxx")
        for columns in (60, 33, 80):
            seen.resize(columns, 20)
            seen.until_drawn()
            screen = seen.screen.seen
            assert len([row for row in screen if row.startswith("shop  ")]) == 1, screen
            assert len([row for row in screen if "Bash xxx" in row]) == 1, screen
        shop.let("edit")
        assert seen.end() == 0


@pytest.mark.rest
def test_of_many_tasks_those_at_work_are_seen(shop: Shop) -> None:
    document = json.loads(shop.said("plan.json"))
    other = {"driver": "script", "argv": ["echo", "ok"]}
    document["agents"] |= {f"a{number}": other for number in range(20)}
    document["tasks"] += [
        {"id": f"later{number}", "agent": f"a{number}", "prompt": "Do.", "needs": ["fix"]} for number in range(20)
    ]
    (shop.folder / "plan.json").write_text(json.dumps(document))
    shop.behave("tool('Edit', file_path='price.py')\nreach('edit')\n" + FIXED + "end()")
    shop.let("check")
    with shop.at_terminal(lines=8) as seen:
        screen = seen.until_seen("Edit price.py")
        assert len(screen) <= 8
        assert re.fullmatch(r"and \d+ pending", screen[-2])
        shop.let("edit")
        assert seen.end() == 0


@pytest.mark.rest
def test_no_color_leaves_colours_out(shop: Shop) -> None:
    shop.behave(FIXED + "tool('Edit', file_path='price.py')\nend()")
    shop.let("check")
    with shop.at_terminal(NO_COLOR="1") as seen:
        assert seen.end() == 0
    assert "\x1b[K" in seen.printed, "it was drawn"
    assert not [style for style in seen.screen.styles if re.search(r"(?:^|;)[349]\d", style)]


PHASES = ["checking before the work: unit", "cloning the repository", "at work", "checking: unit", "merging"]


@pytest.mark.parametrize("where", ["pipe", "dumb"])
@pytest.mark.rest_but("pipe")
def test_where_nothing_can_be_drawn_there_is_one_line_for_each_phase(shop: Shop, where: str) -> None:
    shop.behave(AT_WORK.replace("end()", "for n in range(20):\n    tool('Bash', command=f'step {n}')\nend()"))
    shop.let("edit", "text", "check")
    if where == "pipe":
        done = shop.run(FORCE_COLOR="1")
        assert done.returncode == 0, done.stderr
        assert "▶" in done.stderr
        done = subprocess.CompletedProcess((), 0, done.stdout, re.sub(r"\x1b\[[\d;]*m", "", done.stderr))
        printed = done.stderr
    else:
        with shop.at_terminal(TERM="dumb") as seen:
            assert seen.end() == 0
        printed = seen.printed.replace("\r\n", "\n")
    assert "\x1b" not in printed
    lines = printed.splitlines()
    assert "▶ fix dev" in lines
    phases = [line.removeprefix("  fix: ") for line in lines if line.startswith("  fix: ")]
    assert set(phases) <= {*PHASES, "preparing", "checking before the agent stops", "waits for its turn to merge"}, (
        phases
    )
    assert all(one != other for one, other in itertools.pairwise(phases)), "no line is repeated"
    assert "Edit" not in printed


def test_the_end_of_a_plan_that_failed_names_the_check_and_what_to_type(shop: Shop) -> None:
    document = json.loads(shop.said("plan.json"))
    document["tasks"][0]["max_reexecute_times"] = 0
    (shop.folder / "plan.json").write_text(json.dumps(document))
    shop.behave("tool('Edit', file_path='price.py')\nend()")
    done = shop.run()
    assert done.returncode == 1
    assert "  ✗ fix: unit failed · not isolated\n" in done.stderr
    assert done.stderr.endswith(f"  → agenttalk explain shop/fix --root {shop.root}\n")
    assert done.stdout.startswith("✗ shop: something failed (1 failed")


# Ctrl-C


STOPS = """
def stop(*_):
    (here / "interrupted").touch()
    pathlib.Path("notes.txt").write_text("I was at the price.\\n")
    end(is_error=True, subtype="error_during_execution")
    sys.exit(130)
signal.signal(signal.SIGINT, stop)
if "--resume" not in sys.argv:
    tool("Edit", file_path="price.py")
    reach("edit")
(here / "found").write_text(pathlib.Path("notes.txt").read_text())
"""


def test_ctrl_c_asks_the_agent_to_stop_keeps_its_work_and_the_next_run_goes_on_there(shop: Shop) -> None:
    shop.behave(STOPS + FIXED + "end()")
    with shop.at_terminal() as seen:
        seen.until_seen("Edit price.py")
        shop.reached("edit")
        seen.press("\x03")
        seen.until_seen("stopping … (Ctrl-C again ends it now)")
        assert seen.end() == 130
    assert (shop.folder / "interrupted").exists()
    assert any("shop: interrupted; run the plan again to go on" in row for row in seen.screen.rows)
    assert "fix dev the turn before was interrupted; what it did is kept" in " ".join(seen.screen.rows)
    assert shop.alive() == []
    task = shop.status()
    assert (task["state"], task["cause"], task["retries"], task["rounds"]) == ("READY", "ENGINE_ENDED", 0, 0)
    assert task["reason"].startswith("the turn before was interrupted; what it did is kept")
    assert task["usage"]["tokens"] == 5000
    assert git(shop.folder / "shop", "status", "--porcelain") == ""
    shop.let("check")
    done = shop.run()
    assert done.returncode == 0, done.stderr
    assert shop.said("found") == "I was at the price.\n"
    assert shop.said("argv-1") == "--resume ses-1"
    assert "the turn before was interrupted" in shop.said("prompt-1")
    assert "interrupted" not in shop.said("prompt-0")
    assert git(shop.folder / "shop", "show", "agenttalk/shop:notes.txt") == "I was at the price."


def test_ctrl_c_twice_ends_an_agent_that_does_not_listen(shop: Shop) -> None:
    deaf = "for number in (signal.SIGINT, signal.SIGTERM):\n    signal.signal(number, signal.SIG_IGN)\n"
    shop.behave(deaf + "tool('Edit', file_path='price.py')\nreach('edit')\nend()")
    with shop.at_terminal() as seen:
        seen.until_seen("Edit price.py")
        seen.press("\x03")
        seen.until_seen("stopping …")
        assert shop.alive()
        seen.press("\x03")
        assert seen.end() == 130
    assert shop.alive() == []
    assert shop.status()["state"] == "READY"


def test_ctrl_c_while_the_engine_works_stops_at_once(shop: Shop) -> None:
    shop.behave(FIXED + "end()")
    with shop.at_terminal() as seen:
        seen.until_seen("checking: unit, 3 of 4 tests")
        seen.press("\x03")
        assert seen.end() == 130
    assert shop.alive() == []
    shop.let("check")
    done = shop.run()
    assert done.returncode == 0, done.stderr
    assert not (shop.folder / "prompt-1").exists(), "the agent had done its part"


@pytest.mark.rest
def test_ctrl_c_only_stops_following_an_engine(shop: Shop) -> None:
    shop.behave("tool('Edit', file_path='price.py')\nreach('edit')\n" + FIXED + "end()")
    shop.let("check")
    for name in ("agents", "system_runtime"):
        (shop.root / name).mkdir(parents=True)
    command = [
        preloaded.program(),
        "serve",
        "--port",
        "0",
        "--root",
        str(shop.root),
        "--sandbox",
        "plain",
    ]
    engine = subprocess.Popen(command, env=shop.variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert engine.stdout is not None
        engine.stdout.readline()  # it listens
        shop_argv = [each for each in shop.argv if each not in {"--sandbox", "plain"}]
        with terminal(shop_argv, shop.folder, shop.variables) as seen:
            seen.until_seen("Edit price.py", "1,234 tokens")
            seen.press("\x03")
            assert seen.end() == 130
        assert any("stopped following; the engine goes on" in row for row in seen.screen.rows)
        assert shop.alive()
        shop.let("edit")
        with terminal(shop_argv, shop.folder, shop.variables) as seen:
            assert seen.end() == 0
    finally:
        engine.terminate()
        engine.communicate()
