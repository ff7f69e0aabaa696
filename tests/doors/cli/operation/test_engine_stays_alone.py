"""What an engine holds cannot be taken from it by deleting files; and without its state it does not say that all is well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agenttalk.adapters.store.root_lock import RootLock
from agenttalk.contracts.errors import Code, MachineError
from doors.api.enginekit import engine

WIPES = """
import pathlib, shutil
shutil.rmtree({data!r})
print("ok")
"""


@pytest.mark.mends("F14")
@pytest.mark.parametrize("kind", ["engine", "part"])
def test_a_deleted_lock_lets_nobody_else_in(tmp_path: Path, kind: str) -> None:
    with RootLock.acquire(tmp_path, "engine"):
        (tmp_path / "data/engine.lock").unlink()
        with pytest.raises(MachineError) as refused:
            RootLock.acquire(tmp_path, kind)  # type: ignore[arg-type]
        assert refused.value.code is Code.ENGINE_RUNNING
    RootLock.acquire(tmp_path, "engine").release()


@pytest.mark.rest
@pytest.mark.mends("F14")
def test_a_second_engine_is_refused_when_the_lock_of_the_first_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    with engine(tmp_path, quick=True):
        for name in ("engine.lock", "engine.json"):
            (tmp_path / "data" / name).unlink()
        env = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}
        command = [sys.executable, "-m", "agenttalk", "serve", "--root", str(tmp_path), "--port", "0"]
        second = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=600)
        assert second.returncode == 1
        assert "ENGINE_RUNNING" in second.stderr


@pytest.mark.mends("F14")
def test_a_run_whose_data_is_deleted_does_not_end_well(tmp_path: Path) -> None:
    root, program, plan = tmp_path / "root", tmp_path / "wipes.py", tmp_path / "plan.json"
    root.mkdir()
    (root / "agenttalk.toml").write_text('sandbox = "plain"\n')
    program.write_text(WIPES.format(data=str(root / "data")))
    agents = {"eve": {"driver": "script", "argv": [sys.executable, str(program)], "sandbox": "plain"}}
    plan.write_text(
        json.dumps({"plan_id": "p", "agents": agents, "tasks": [{"id": "t", "agent": "eve", "prompt": "Go."}]})
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}
    command = [sys.executable, "-m", "agenttalk", "run", str(plan), "--root", str(root)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "was deleted or replaced while it was in use" in done.stderr
