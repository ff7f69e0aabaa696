"""The scene of the demo in which work is proven: judged by the next one, and checked by the engine."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agenttalk import wiring
from agenttalk.doors.cli.core.output import CommandOutput, sanitize
from agenttalk.doors.cli.plans.explain import tell_explanation
from agenttalk.engine.views.explain import explain_task
from agenttalk.wiring import settings
from agenttalk.wiring.plan_files import compile_plan_file

if TYPE_CHECKING:
    from agenttalk.engine.operation.engine import Engine
    from agenttalk.engine.views.models.tasks import TaskExplanation

PROOF: Final = Path(__file__).parent / "proof"
PATIENCE: Final = 60.0
"""Seconds within which the plan has to end."""
_GIT: Final = ("git", "-c", "user.name=demo", "-c", "user.email=demo@example.org")


def play_proof(out: CommandOutput, root: Path) -> bool:
    """Let a builder send back a specification, and let the tests refute a claim of done."""
    place = root / "beside"
    shutil.copytree(PROOF, place)
    for call in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "A price that is wrong")):
        subprocess.run([*_GIT, *call], cwd=place / "shop", check=True, capture_output=True)  # noqa: S603 - our own
    explained = asyncio.run(_run(place, root / "root"))
    if not out.as_json:
        for each in explained:
            tell_explanation(out, each)
    states = [each["state"] for each in explained]
    rounds = [each["rounds"] for each in explained]
    merged = _git(place / "shop", "show", "agenttalk/proof:price.py")
    untouched = _git(place / "shop", "show", "main:price.py")
    _say(
        out,
        f"on the plan's branch: {sanitize(merged.splitlines()[-1].strip())}; on yours, until you merge: ",
        untouched,
    )
    return states == ["COMPLETED"] * 2 and rounds == [1, 1] and "40 * items" in merged and "return 0" in untouched


async def _run(place: Path, root: Path) -> list[TaskExplanation]:
    compiled = compile_plan_file(place / "plan.yaml")
    profiles = {
        name: profile.model_copy(update={"argv": (sys.executable, *profile.argv[1:])})
        for name, profile in compiled.profiles.items()
    }
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)
    told: list[TaskExplanation] = []

    async def job(running: Engine) -> None:
        service = running.service
        await service.plans.submit(compiled.dag, compiled.manifest, profiles, compiled.files)
        async with asyncio.timeout(PATIENCE):
            with running.dispatcher.subscribe_ends() as news:
                while (await service.plans.read_status("proof"))["result"] == "running":
                    await news.wait()
                    news.clear()
        told.extend([await explain_task(service.deps, "proof", task) for task in ("specify", "build")])

    await wiring.serve(root, settings.load(root), stop=asyncio.Event(), port=0, job=job)
    return told


def _git(folder: Path, *args: str) -> str:
    return subprocess.run([*_GIT, *args], cwd=folder, check=True, capture_output=True, text=True).stdout  # noqa: S603


def _say(out: CommandOutput, text: str, code: str) -> None:
    if not out.as_json:
        out.say(text + sanitize(code.splitlines()[-1].strip()))
