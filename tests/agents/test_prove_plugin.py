"""The plugin for Claude Code, with the real program: it stops when its work is proven, and not before."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agents.conftest import RIGHT, Shop, require
from agenttalk.testing.model_script import SayStep, Script, WriteStep

PLUGIN = Path(__file__).parents[2] / "contrib" / "claude-code-plugin"


@pytest.fixture
def script(request: pytest.FixtureRequest) -> Script:
    found: Script = request.param
    return found


def work(shop: Shop) -> str:
    """Have Claude Code work in the shop with the plugin; what it said at last."""
    programs = shop.folder / "programs"
    programs.mkdir()
    (programs / "agenttalk").write_text(f'#!/bin/sh\nexec {sys.executable} -m agenttalk "$@"\n')
    (programs / "agenttalk").chmod(0o755)
    environment = {
        **shop.environment,
        "PATH": f"{programs}:{shop.environment['PATH']}",
        "AGENTTALK_STATE": str(shop.folder / "state"),
    }
    command = ["claude", "-p", "Write price.py.", "--plugin-dir", str(PLUGIN), "--permission-mode", "acceptEdits"]
    done = subprocess.run(
        [*command, "--output-format", "json"],
        cwd=shop.folder / "shop",
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    answer = json.loads(done.stdout)
    last = answer[-1] if isinstance(answer, list) else answer
    return str(last["result"])


LIE = SayStep("All done, all tests pass.")


@pytest.mark.parametrize(
    "script",
    [[WriteStep("price.py", "def price(items):\n    return 0\n"), LIE, WriteStep("price.py", RIGHT), SayStep("Now.")]],
    indirect=True,
    ids=["mends"],
)
def test_claude_goes_on_until_its_work_is_proven(shop: Shop) -> None:
    require("claude")
    assert work(shop) == "Now."
    assert (shop.folder / "shop" / "price.py").read_text() == RIGHT
    told = json.dumps([request.body for request in shop.model.requests])
    assert "The work is not proven yet" in told
    assert "The check passes on the change as it is" in told


@pytest.mark.parametrize(
    "script",
    [[WriteStep("price.py", "def price(items):\n    return 0\n"), *[LIE] * 9]],
    indirect=True,
    ids=["lies"],
)
def test_claude_that_lies_is_reminded_three_times_and_let_go(shop: Shop) -> None:
    require("claude")
    assert work(shop) == LIE.text
    assert "The work is not proven yet" in json.dumps(shop.model.requests[-1].body)
    [record] = (shop.folder / "state" / "prove-sessions").iterdir()
    told = json.loads(record.read_bytes())
    assert told["blocks"] == 3
    assert told["start"] == shop.git("rev-parse", "HEAD").strip()
