"""A plan with a confined agent, from the command line to the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from doors.api.enginekit import REPORTS
from kits.sandboxkit import needs

CANARY = "sk-canary-0815"
PLAN = """
plan_id: shop
agents:
  dev:
    driver: script
    argv: [{python}, {program}]
    env: [MODEL_KEY]
    sandbox: {tier}
    network: off
tasks:
  - id: build
    agent: dev
    prompt: Build it.
    outputs:
      - name: note.txt
        deliverable: true
"""
PROGRAM = (
    REPORTS
    + """
key = os.environ["MODEL_KEY"]
assert say("I use " + key) == 201
try: socket.create_connection(("127.0.0.1", int(os.environ["AGENTTALK_API"].rpartition(":")[2])), 5)
except OSError: pass
else: sys.exit("the network is there")
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "note.txt").write_text("built")
print("built with", key)
"""
)


@pytest.mark.rest_but("best")
@pytest.mark.parametrize("tier", ["bubblewrap", "landlock", "best"])
def test_an_agent_without_network_reports_over_the_socket_and_its_secret_stays_its_own(
    tmp_path: Path, tier: str
) -> None:
    needs("landlock" if tier == "landlock" else "bubblewrap")
    program, plan, root = tmp_path / "dev.py", tmp_path / "plan.yaml", tmp_path / "root"
    program.write_text(PROGRAM)
    plan.write_text(PLAN.format(python=sys.executable, program=program, tier=tier))
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}
    done = subprocess.run(
        [sys.executable, "-m", "agenttalk", "run", str(plan), "--root", str(root)],
        env={**clean, "MODEL_KEY": CANARY},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr
    files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert [path for path, data in files.items() if CANARY.encode() in data] == []
    kept = b"".join(files.values())
    assert b"I use [redacted MODEL_KEY]" in kept
    assert b'"sandbox":"%b"' % {"best": b"bubblewrap"}.get(tier, tier.encode()) in kept.replace(b" ", b"")
