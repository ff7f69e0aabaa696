"""A secret that an agent was given, and says wherever it can, is nowhere to be found afterwards."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.secrets import SecretGuard
from agenttalk.engine.core.task_comments import TaskContribution, TaskName, post_contribution
from kits.agentkit import Desk
from kits.plankit import Engine, plan, play, states, task
from kits.standingkit import PlanStanding
from kits.treekit import Tree

CANARY = "sk-canary/4711+\"ü' &x=z"
ENVIRON = {"API_KEY": CANARY, "OTHER": "not handed over"}


def spellings() -> list[bytes]:
    raw = CANARY.encode()
    found = [raw, json.dumps(CANARY)[1:-1].encode(), quote(CANARY, safe="").encode(), raw.hex().encode()]
    return [*found, *(base64.b64encode(bytes(shift) + raw)[4:-4] for shift in range(3))]


def kept(root: Path) -> Iterator[str]:
    """Every file under a root that holds the canary in any spelling."""
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if any(spelling in data or spelling in path.name.encode() for spelling in spellings()):
                yield str(path.relative_to(root))


TELLS = """
import base64, json, os, pathlib, sys, urllib.parse
key = os.environ["API_KEY"]
disguises = [key, base64.b64encode(("user:" + key).encode()).decode(), urllib.parse.quote(key, safe=""), key.encode().hex()]
"""


def program(top: Path, text: str) -> dict[str, Any]:
    path = top / "dev.py"
    path.write_text(TELLS + text)
    return {"driver": "script", "argv": [sys.executable, str(path)], "env": ["API_KEY"], "prompt": "Be quiet."}


def run(top: Path, compiled: Any, *, remark: str = "") -> PlanStanding:
    async def use(engine: Engine) -> PlanStanding:
        scripts = engine.dispatcher._state.jobs.performers["script"]
        assert isinstance(scripts, ProgramAgents)
        programs = ProgramAgents(scripts.deps, scripts.driver, environ=ENVIRON)
        engine.dispatcher._state.jobs.performers = {**engine.dispatcher._state.jobs.performers, "script": programs}
        await engine.submit(compiled)
        found = await engine.ended("p")
        if remark:
            said = TaskContribution("comment", "ada", "comment", remark, {"why": [remark]})
            await post_contribution(engine.deps, TaskName("default", "p", "t"), said, Caller("operator", "ada"))
        return found

    found: PlanStanding = play(top / "root", use, proving=True)
    return found


def test_what_a_program_prints_and_writes_as_its_result_is_kept_without_the_secret(tmp_path: Path) -> None:
    text = """
print("\\n".join(disguises), file=sys.stderr)
said = {"result": {"keys": disguises, key: 1}, "score": 90, "score_explanation": key}
pathlib.Path(os.environ["AGENTTALK_RESULT"]).write_text(json.dumps(said))
"""
    keys = {"score_required": True, "score_criteria": "any"}
    found = run(tmp_path, plan(task("t", "dev", **keys), agents={"dev": program(tmp_path, text)}))
    assert states(found) == {"t": "COMPLETED"}
    assert list(kept(tmp_path / "root")) == []
    files = [path.read_bytes() for path in (tmp_path / "root").rglob("*") if path.is_file()]
    assert any(b"[redacted API_KEY]" in data for data in files)


def test_why_a_program_failed_is_kept_without_the_secret(tmp_path: Path) -> None:
    found = run(
        tmp_path,
        plan(task("t", "dev", retry_times=0), agents={"dev": program(tmp_path, "sys.exit('; '.join(disguises))")}),
    )
    assert states(found) == {"t": "FAILED"}
    assert "[redacted API_KEY]" in (found.tasks[0]["reason"] or "")
    assert list(kept(tmp_path / "root")) == []


@pytest.mark.parametrize("size", [0, 70_000, 1_048_560])
def test_an_output_that_holds_the_secret_is_refused_whatever_its_size(tmp_path: Path, size: int) -> None:
    text = f"""
out = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
(out / "note").write_text("-" * {size} + disguises[1] + "-" * 70_000)
print("done")
"""
    outputs = [{"name": "note", "deliverable": True}]
    compiled = plan(task("t", "dev", outputs=outputs, max_reexecute_times=0), agents={"dev": program(tmp_path, text)})
    found = run(tmp_path, compiled)
    assert states(found) == {"t": "FAILED"}
    assert "holds the value of API_KEY" in (found.tasks[0]["reason"] or "")
    assert list(kept(tmp_path / "root")) == []


def test_a_tree_that_holds_the_secret_is_not_merged(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a.py").write_text("a = 1\n")
    for command in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "begin")):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command], cwd=repo, check=True)
    promise = {
        "objective": "It works",
        "acceptance": [{"id": "c", "description": "there", "evidenceRequired": ["there"]}],
        "checks": [{"id": "there", "kind": "run", "run": "test -f a.py; cat deep/*/* 2>/dev/null; true"}],
    }
    text = "os.makedirs('deep/er'); pathlib.Path('deep/er/config.py').write_text(f'KEY = {key!r}')\nprint('done')"
    compiled = plan(
        task("t", "dev", promise=promise, workspace="repo", max_reexecute_times=0),
        agents={"dev": program(tmp_path, text)},
        workspace={"repo": str(repo)},
    )
    found = run(tmp_path, compiled)
    assert states(found) == {"t": "FAILED"}
    assert "'config.py' holds the value of API_KEY" in (found.tasks[0]["reason"] or "")
    assert list(kept(tmp_path / "root")) == []
    log = ["git", "log", "--oneline", "main..agenttalk/p"]
    assert subprocess.run(log, cwd=repo, check=True, capture_output=True).stdout == b""


def test_an_honest_output_is_taken_though_the_agent_has_a_secret(tmp_path: Path) -> None:
    text = "pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'note').write_text('fine')\nprint('done')"
    outputs = [{"name": "note", "deliverable": True}]
    found = run(tmp_path, plan(task("t", "dev", outputs=outputs), agents={"dev": program(tmp_path, text)}))
    assert states(found) == {"t": "COMPLETED"}


def test_a_prompt_does_not_hold_it_though_the_plan_does(tmp_path: Path) -> None:
    text = "prompt = sys.stdin.read()\nassert key not in prompt and '[redacted API_KEY]' in prompt, prompt\nprint('ok')"
    compiled = plan(
        task("t", "dev", prompt=f"Use {CANARY} for it.", retry_times=0), agents={"dev": program(tmp_path, text)}
    )
    assert states(run(tmp_path, compiled)) == {"t": "COMPLETED"}


def test_what_is_said_about_a_task_is_kept_without_it(tmp_path: Path) -> None:
    compiled = plan(task("t", "dev"), agents={"dev": program(tmp_path, "print('ok')")})
    assert states(run(tmp_path, compiled, remark=f"the key is {CANARY}")) == {"t": "COMPLETED"}
    assert list(kept(tmp_path / "root")) == []


def test_a_value_that_changed_is_still_not_said() -> None:
    discretion = SecretGuard()
    discretion.register({"API_KEY": "first-value"})
    discretion.register({"API_KEY": "second-value", "HOME": "/home/ada"})
    discretion.register({"API_KEY": "second-value"})
    assert discretion.secrets.redact("first-value second-value /home/ada") == (
        "[redacted API_KEY] [redacted API_KEY (1)] /home/ada"
    )


def test_a_heartbeat_keeps_it_out_too(tmp_path: Path) -> None:
    desk = Desk(Tree(tmp_path / "root"))
    text = """
out = pathlib.Path(os.environ["AGENTTALK_OUTPUTS"])
if os.environ["AGENTTALK_TASK_ID"] == "build":
    (out / "note").write_text(key)
print(key)
"""
    desk.program(TELLS + text, env=["API_KEY"])
    desk.command("build", timeout=30)
    desk.command("plain", timeout=30)
    tick = desk.once(environ=ENVIRON)
    assert (tick.ran, tick.failed) == (2, 1)
    assert list(kept(desk.tree.root)) == []
