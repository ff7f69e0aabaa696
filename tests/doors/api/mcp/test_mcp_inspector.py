"""The inspector, the reference client of MCP, against our server. `make inspector` installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.store import operator_folder
from doors.api.enginekit import PATIENCE, engine

FOLDER = Path(__file__).parents[4] / ".inspector/node_modules/.bin"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "mcp-inspector").exists(), reason="the inspector is not installed; 'make inspector' does it"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "agents").mkdir(parents=True)
    return tmp_path / "root"


def inspected(tmp_path: Path, *arguments: str) -> Any:
    environment = {**os.environ, "PATH": f"{FOLDER}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(FOLDER / "mcp-inspector"), "--cli", *arguments],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_inspector_lists_and_calls_our_tools_over_standard_input_and_http(root: Path, tmp_path: Path) -> None:
    with engine(root) as running:
        token = operator_folder.token_of(root)
        own = [sys.executable, "-m", "agenttalk", "mcp", "--root", str(root), "--operator"]
        variables = [f"{name}={os.environ[name]}" for name in ("XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")]
        stdio = [*own, *(word for each in variables for word in ("-e", each))]
        http = [f"{running.told['http']}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {token}"]
        for target in (stdio, http):
            found = inspected(tmp_path, *target, "--method", "tools/list", "--strict")
            assert "submit_plan" in {each["name"] for each in found["tools"]}
            said = inspected(tmp_path, *target, "--method", "tools/call", "--tool-name", "whoami")
            assert said["structuredContent"]["role"] == "operator"
            uri = "agenttalk://schemas/command"
            read = inspected(tmp_path, *target, "--method", "resources/read", "--uri", uri)
            assert json.loads(read["contents"][0]["text"])["title"]
