"""An agent's own token for a forge reaches it for tasks that come from that forge, and for nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from doors.api.enginekit import agenttalk
from engine.toolchain.kits.bench import REPORTS, served, written

SEES = """
import os, pathlib
names = sorted(name for name in os.environ if name.endswith("_KEY"))
where = pathlib.Path(os.environ["SEEN"]) / os.environ["AGENTTALK_PLAN_ID"]
where.write_text(" ".join(names))
"""


def test_a_forge_token_is_there_for_tasks_of_its_forge_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITEA_KEY", "GITHUB_KEY", "OTHERS_KEY"):
        monkeypatch.setenv(name, f"a value of {name}")
    seen = tmp_path / "seen"
    seen.mkdir()
    monkeypatch.setenv("SEEN", str(seen))
    does = f"{REPORTS}\n{SEES}\nif 'toolchain' in os.environ['AGENTTALK_PLAN_ID']: report('Step 1: done.')\nprint('did it')\n"
    root = written(tmp_path / "root", {"agent-reviewer": does})
    settings = (root / "agenttalk.toml").read_text()
    for kind in ("gitea", "github"):
        plain = f'{kind} = {{ login = "agent-reviewer" }}'
        assert plain in settings
        settings = settings.replace(plain, plain.replace(" }", f', token_env = "{kind.upper()}_KEY" }}'))
    own = f'[agents.agent-reviewer]\ndriver = "script"\nargv = ["{sys.executable}", "work.py"]\n'
    assert own in settings
    (root / "agenttalk.toml").write_text(settings.replace(own, f'{own}env = ["SEEN"]\n'))
    with served(root) as bench:
        bench.told("gitea/review_request")
        assert [each["assignee"] for each in bench.settled()] == ["agent-reviewer"]
        plan = {"plan_id": "p", "tasks": [{"id": "t", "agent": "agent-reviewer", "prompt": "Look."}]}
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        done = agenttalk("run", str(tmp_path / "plan.json"), "--root", str(root))
        assert done.returncode == 0, done.stdout + done.stderr
    found = {path.name: path.read_text() for path in seen.iterdir()}
    assert found == {"_toolchain": "GITEA_KEY", "p": ""}
