"""The demo's data in the browser: an engine on a root of its own, with plans that run meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agenttalk import wiring
from agenttalk.demo.proof_scene import PROOF
from agenttalk.demo.team_scene import TEAM
from agenttalk.doors.api.server import ServerAddresses
from agenttalk.doors.cli.core import root_access
from agenttalk.wiring import settings
from agenttalk.wiring.plan_files import compile_plan_file

if TYPE_CHECKING:
    from agenttalk.engine.operation.engine import Engine

_GIT: Final = ("git", "-c", "user.name=demo", "-c", "user.email=demo@example.org")
_FORGED: Final = b'{"schema_version": "1.0", "type": "artifact", "message_id": "msg_forged", "plan_id": "website"}\n'
"""An invalid message, which becomes a dead letter."""


def serve_demo(root: Path, tell: Callable[[ServerAddresses], None], *, port: int = 0) -> int:
    """Serve a root with three running plans, until Ctrl-C."""
    place = _laid_out(root)

    async def job(running: Engine) -> None:
        for plan in ("website.yaml", "plan.yaml"):
            await _submit(running, place / "team" / plan)
        await _submit(running, place / "proof" / "plan.yaml")
        await asyncio.Event().wait()

    async def start(stop: asyncio.Event) -> None:
        ended = asyncio.create_task(stop.wait())
        await wiring.serve(root, settings.load(root), stop=stop, tell=tell, port=port, name="demo", job=job)
        ended.cancel()

    return root_access.run_loop(start)


async def _submit(running: Engine, path: Path) -> None:
    compiled = compile_plan_file(path)
    profiles = {
        name: profile.model_copy(update={"argv": (sys.executable, *profile.argv[1:])})
        for name, profile in compiled.profiles.items()
    }
    await running.service.plans.submit(compiled.dag, compiled.manifest, profiles, compiled.files)


def _laid_out(root: Path) -> Path:
    """Create the root, and the files that its plans need beside it."""
    place = root.parent / f"{root.name}-beside"
    shutil.copytree(TEAM, place / "team")
    shutil.copytree(PROOF, place / "proof")
    (place / "team" / "site").mkdir()
    (place / "team" / "site" / "README.md").write_text("A page about the shop.\n", encoding="utf-8")
    for folder in (place / "team" / "site", place / "proof" / "shop"):
        for call in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "What is there")):
            subprocess.run([*_GIT, *call], cwd=folder, check=True, capture_output=True)  # noqa: S603 - our own
    box = root / "agents" / "writer" / "outbox" / "website"
    box.mkdir(parents=True)
    (root / "system_runtime").mkdir()
    (box / "forged.msg.json").write_bytes(_FORGED)
    return place
