"""An engine that is killed while an agent is spoken with: nothing is left of it, and the plan ends as without that."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import preloaded
from kits.sandboxkit import PLAIN_VARIABLE
from kits.spokenkit import speaks

PATIENCE = 300.0
WORKS = """begin()
here = pathlib.Path(__file__).parent
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(here / "ran", "a") as ran:
    ran.write(f"{os.getpid()} {child.pid}\\n")
while not (here / "go").exists():
    time.sleep(0.02)
answer = may("execute", "Push", rawInput={"command": "git push"})
text(f"{answer} {os.environ['AGENTTALK_ATTEMPT']}")
end()
rest()
"""


def waited(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


@pytest.mark.rest
@pytest.mark.parametrize("asked", [False, True], ids=["at work", "waiting for a person"])
def test_who_is_killed_leaves_no_agent_and_the_next_run_ends_as_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    monkeypatch.setenv(PLAIN_VARIABLE, "plain")  # it tells the numbers of its processes, which are others in a sandbox
    dev = speaks(tmp_path, WORKS, acp={"ask": ["execute"]})
    work = {"id": "t", "agent": "dev", "prompt": "Do it."}
    (tmp_path / "plan.json").write_text(json.dumps({"plan_id": "p", "agents": {"dev": dev}, "tasks": [work]}))
    ran, root = tmp_path / "ran", str(tmp_path / "root")

    def agenttalk(*arguments: str) -> Any:
        command = [preloaded.program(), *arguments, "--root", root, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def questions() -> list[Any]:
        found: list[Any] = agenttalk("inbox")["requests"]
        return found

    def shown() -> list[Path]:
        return list(Path(root).glob("system_runtime/plans/p/human_requests/*.json"))

    command = [sys.executable, "-m", "agenttalk", "run", str(tmp_path / "plan.json"), "--root", root, "--json"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        waited(lambda: ran.exists() and ran.read_text().endswith("\n"))
        if asked:
            (tmp_path / "go").touch()
            waited(shown)
    finally:
        first.kill()
        first.wait()
    waited(lambda: not any(alive(pid) for pid in ran.read_text().split()))
    (tmp_path / "go").touch()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as second:
        try:
            waited(lambda: len(ran.read_text().splitlines()) == 2 and shown())
            [question] = questions()
            agenttalk("answer", question["request"]["request_id"], "--decision", "APPROVE")
            out, _ = second.communicate(timeout=PATIENCE)
        finally:
            second.kill()
    told = json.loads(out)
    assert (second.returncode, told["result"]) == (0, "done")
    assert questions() == []
    assert not any(alive(pid) for pid in ran.read_text().split())
    said = "".join(path.read_text() for path in Path(root).glob("agents/dev/workspace/p/t/.agenttalk/*.events.jsonl"))
    assert '"text":"yes 2"' in said
