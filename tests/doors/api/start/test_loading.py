"""Commands that are called all the time load what they need for their answer, and build no model for it.

What takes CPU when a short command starts is loading, so that is looked at: no busy machine can disturb it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from doors.api.enginekit import PATIENCE, agenttalk, clean, engine

PLAN = """
plan_id: shop
agents:
  dev: {driver: script, argv: [/bin/sh, -c, 'echo hello > "$AGENTTALK_OUTPUTS/hello.txt"']}
tasks:
  - {id: build, agent: dev, prompt: Say hello., outputs: [{name: hello.txt, deliverable: true}]}
"""
LOADED = """
import json, sys
from agenttalk.doors.cli.main import call
code = call(sys.argv[1:])
sys.stdout.flush()
kinds = [sys.modules["pydantic"].BaseModel] if "pydantic" in sys.modules else []
for kind in kinds:
    kinds += kind.__subclasses__()
built = sorted({each.__name__ for each in kinds[1:] if each.__pydantic_complete__})
print(json.dumps({"code": code, "modules": sorted(sys.modules), "built": built}), file=sys.stderr)
"""
DRAWING = ("rich",)
MODELS = ("pydantic", "pydantic_core", "agenttalk.contracts.core.base", "typer._adapters")
ASKING = ("http.client", "agenttalk.doors.cli.core.engine_client")
STORING = (
    "apsw",
    "asyncio",
    "agenttalk.adapters.store.root",
    "agenttalk.engine",
    "agenttalk.wiring",
    "agenttalk.wiring.settings",
)
RUNNING = (
    *("starlette", "uvicorn", "httpx2", "psycopg", "yaml", "jinja2"),
    *(
        "agenttalk.doors.api",
        *("agenttalk.engine.toolchain.task_kind", "agenttalk.engine.mail.task_kind"),
        "agenttalk.adapters.forge",
        "agenttalk.rules.prompts",
        "agenttalk.adapters.drivers",
    ),
    *(
        "agenttalk.engine.plans.transitions",
        "agenttalk.engine.messages.router",
        "agenttalk.engine.people.questions",
        "agenttalk.engine.operation.service",
    ),
    *("agenttalk.ports.agents", "agenttalk.ports.kinds", "agenttalk.ports.proof"),
    *("agenttalk.contracts.promise", "agenttalk.contracts.plan", "agenttalk.contracts.record"),
)
"""What runs plans, and the documents of those."""

ASKED = (
    "status",
    "status shop --json",
    "inbox",
    "explain shop/build",
    "honesty",
    "toolchain tasks",
    "report shop/build Done.",
)


def loaded(*arguments: str) -> dict[str, Any]:
    """What a command loaded in a process of its own, and which models it built validators for."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
        env=clean(),
    )
    found: dict[str, Any] = json.loads(done.stderr.splitlines()[-1])
    assert found["code"] == 0, done.stderr
    assert done.stdout.strip()
    return found


def among(found: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    """Those of the modules that were loaded, with what is in them."""
    return [each for each in found["modules"] if each in names or each.startswith(tuple(f"{name}." for name in names))]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with a plan that has ended."""
    folder = tmp_path_factory.mktemp("loading")
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    done = agenttalk("run", str(folder / "plan.yaml"), "--root", str(folder / "root"))
    assert done.returncode == 0, done.stderr
    return folder / "root"


def test_status_of_a_root_loads_what_reads_it_and_builds_no_model(root: Path) -> None:
    found = loaded("status", "--root", str(root))
    assert among(found, STORING)
    assert among(found, (*RUNNING, *ASKING, *DRAWING, "typer._adapters")) == []
    assert found["built"] == []


def test_settings_build_the_models_of_what_is_set_and_no_document(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/agents").mkdir()
    (tmp_path / "root/agenttalk.toml").write_text('[agents.dev]\nenv = ["SHOP"]\n[limits]\nmax_running = 2\n')
    found = loaded("status", "--root", str(tmp_path / "root"))
    assert among(found, RUNNING) == []
    assert [name for name in found["built"] if not name.endswith("Settings")] == []
    assert "Settings" in found["built"]


def test_where_an_engine_runs_a_command_loads_nothing_but_what_asks_it(root: Path) -> None:
    with engine(root, quick=True):
        found = {each: loaded(*each.split(), "--root", str(root)) for each in ASKED}
    assert [each for each in ASKED if not among(found[each], ASKING)] == []
    more = {each: among(found[each], (*RUNNING, *STORING, *MODELS, *DRAWING)) for each in ASKED}
    assert {each: modules for each, modules in more.items() if modules} == {}
