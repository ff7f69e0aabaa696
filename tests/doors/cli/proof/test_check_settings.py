"""What the operator says of checks in `agenttalk.toml`, from the command line to the verdict."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

import preloaded
from kits.attackkit import TIERS, holds
from kits.provekit import CALC, FIXES, SUITE, program, promise, repository
from kits.sandboxkit import needs


def settled(tmp_path: Path, settings: str, text: str, *checks: dict[str, Any], **plan: Any) -> tuple[int, str]:
    """Run a plan of one task under settings; the exit code, and what `explain` says."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "agenttalk.toml").write_text(settings)
    agent = {**program(tmp_path, "dev", text), "sandbox": "plain"}
    task = {"id": "fix", "agent": "dev", "prompt": "Fix it.", "promise": promise(*checks), "max_reexecute_times": 0}
    if "workspace" in plan:
        task["workspace"] = "repo"
    (tmp_path / "plan.yaml").write_text(
        yaml.safe_dump({"plan_id": "p", "agents": {"dev": agent}, "tasks": [{**task, **plan.pop("task", {})}], **plan})
    )
    ran = preloaded.run("run", str(tmp_path / "plan.yaml"), "--root", str(root))
    told = preloaded.run("explain", "p/fix", "--root", str(root))
    return ran.returncode, ran.stdout + ran.stderr + told.stdout


def shop(tmp_path: Path, **files: str) -> dict[str, Any]:
    return {
        "workspace": {"repo": str(repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE, **files}))}
    }


@contextlib.contextmanager
def served() -> Iterator[int]:
    """A server on this machine; its port."""

    class Hello(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Hello)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.rest_but("True")
@pytest.mark.mends("F14")
@pytest.mark.parametrize("allowed", [True, False])
def test_http_checks_ask_private_addresses_that_the_operator_allows(tmp_path: Path, *, allowed: bool) -> None:
    with served() as port:
        settings = f'[checks]\nallow = ["127.0.0.1:{port}"]\n' if allowed else ""
        made = {"id": "up", "kind": "http", "url": f"http://127.0.0.1:{port}/", "contains": "hello"}
        code, told = settled(tmp_path, settings, "", made)
    assert (code == 0) is allowed, told
    assert allowed or "127.0.0.1" in told


def test_an_address_that_cannot_be_allowed_is_told(tmp_path: Path) -> None:
    (tmp_path / "agenttalk.toml").write_text('[checks]\nallow = ["localhost"]\n')
    done = preloaded.run("config", "show", "--root", str(tmp_path))
    assert done.returncode != 0
    assert "checks.allow" in done.stdout + done.stderr


@pytest.mark.mends("F7")
def test_required_isolation_runs_no_check_without_a_sandbox_and_starts_no_agent(tmp_path: Path) -> None:
    made = {"id": "works", "kind": "run", "run": f"touch {tmp_path}/ran; false"}
    settings = 'isolation = "required"\n[checks]\nsandbox = "plain"\n'
    started = f"pathlib.Path({str(tmp_path / 'started')!r}).write_text('')\n"
    code, told = settled(tmp_path, settings, started + FIXES, made, **shop(tmp_path))
    assert code != 0
    assert "install bubblewrap" in told
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "started").exists()


@pytest.fixture
def visible() -> Iterator[Path]:
    """A folder that a sandbox does not hide already because it is one for temporary files."""
    ours = Path(__file__).parents[4]
    with TemporaryDirectory(prefix=".visible-", dir=ours if os.access(ours, os.W_OK) else Path.home()) as folder:
        yield Path(folder)


@pytest.mark.rest_but("bubblewrap", "plain")
@pytest.mark.mends("F6")
@pytest.mark.parametrize("tier", TIERS)
def test_a_check_sees_no_more_than_its_agent(visible: Path, tier: str) -> None:
    if tier != "plain":
        needs(tier)
    tmp_path = visible
    root = tmp_path / "root"
    (tmp_path / "look.sh").write_text(
        f"cd {root}\n"
        "for each in agenttalk.toml data agents system_runtime; do\n"
        '  echo "seen of $each: $(find $each -type f -exec cat {} + 2>/dev/null | wc -c)"\ndone\nexit 1\n'
    )
    made = {"id": "looks", "kind": "run", "run": "sh look.sh", "files": ["look.sh"], "red_first": "off"}
    secret = "canary-4711"
    _, told = settled(tmp_path, f'[checks]\nsandbox = "{tier}"\n# {secret}\n', FIXES, made, **shop(tmp_path))
    seen = [name for name in ("agenttalk.toml", "data", "agents", "system_runtime") if f"of {name}: 0\n" not in told]
    holds("look", tier, "limit" if seen else "contained")
    assert not any(secret in path.read_text(errors="replace") for path in root.rglob("*.json"))


@pytest.mark.rest
@pytest.mark.mends("F14")
def test_a_project_that_is_called_like_a_test_runner_can_be_checked(tmp_path: Path) -> None:
    files = {
        "coverage/__init__.py": "VALUE = 0\n",
        "coverage/__main__.py": "import coverage, sys\nsys.exit(coverage.VALUE != 1)\n",
    }
    made = {"id": "works", "kind": "run", "run": "python3 -m coverage", "red_first": "required"}
    fixes = "pathlib.Path('coverage/__init__.py').write_text('VALUE = 1\\n')"
    code, told = settled(tmp_path, "", fixes, made, **shop(tmp_path, **files))
    assert code == 0, told


def test_one_that_the_work_adds_is_still_refused(tmp_path: Path) -> None:
    made = {"id": "works", "kind": "run", "run": "python3 -m unittest -q test_calc", "red_first": "off"}
    cheats = "pathlib.Path('unittest').mkdir()\nfor n in ('__init__', '__main__'): pathlib.Path(f'unittest/{n}.py').write_text('')"
    code, told = settled(tmp_path, "", cheats, made, **shop(tmp_path))
    assert code != 0
    assert "unittest" in told


@pytest.mark.rest_but("keys0", "keys1")
@pytest.mark.mends("F10")
@pytest.mark.parametrize(
    ("keys", "text", "done"),
    [
        ({"changed": ["calc.py"]}, FIXES, True),
        ({"changed": ["docs/**"]}, FIXES, False),
        ({}, FIXES, True),
        ({}, "", False),
        ({"protected": ["test_*.py"]}, FIXES + "\npathlib.Path('test_calc.py').write_text('')", False),
    ],
)
def test_a_git_check_can_pass_and_can_fail(tmp_path: Path, keys: dict[str, Any], text: str, *, done: bool) -> None:
    code, told = settled(tmp_path, "", text, {"id": "history", "kind": "git", **keys}, **shop(tmp_path))
    assert (code == 0) is done, told


@pytest.mark.mends("F10")
@pytest.mark.parametrize("key", ["clean", "branch", "commits_min"])
def test_keys_of_git_checks_that_could_not_decide_anything_are_refused(tmp_path: Path, key: str) -> None:
    code, told = settled(tmp_path, "", FIXES, {"id": "history", "kind": "git", key: 1}, **shop(tmp_path))
    assert code == 2, told
    assert key in told


@pytest.mark.rest
def test_a_verdict_without_a_sandbox_says_so(tmp_path: Path) -> None:
    made = {"id": "works", "kind": "run", "run": "python3 -m unittest -q test_calc"}
    code, told = settled(tmp_path, '[checks]\nsandbox = "plain"\n', FIXES, made, **shop(tmp_path))
    assert code == 0, told
    assert "not isolated" in told
