"""The scene of the demo in which a team runs a whole plan."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agenttalk import wiring
from agenttalk.doors.cli.core.output import CommandOutput, sanitize
from agenttalk.engine.people import questions
from agenttalk.engine.people.questions import HumanQuestion
from agenttalk.rules.people.attestation import AnswerProof
from agenttalk.wiring import settings
from agenttalk.wiring.plan_files import compile_plan_file

if TYPE_CHECKING:
    from agenttalk.engine.operation.engine import Engine

TEAM: Final = Path(__file__).parent / "team"
PRICE_LIST: Final = b"item,cents\napple,40\npear,55\n"
PATIENCE: Final = 25.0
"""Seconds within which the plan has to end."""


def play_team(out: CommandOutput, root: Path) -> bool:
    """Product manager, database expert, backend and tester run a plan; the demo answers the one question itself."""
    compiled = compile_plan_file(TEAM / "plan.yaml")
    profiles = {
        name: profile.model_copy(update={"argv": (sys.executable, *profile.argv[1:])})
        for name, profile in compiled.profiles.items()
    }
    seen: dict[str, Any] = {}
    told: dict[str, str] = {}

    async def job(running: Engine) -> None:
        service = running.service
        await service.plans.submit(compiled.dag, compiled.manifest, profiles, compiled.files)
        with running.dispatcher.subscribe_changes() as news:
            while True:
                news.clear()
                seen.update(await service.plans.read_status(compiled.dag.plan_id))
                _tell(out, seen, told)
                if seen["result"] in {"done", "failed"}:
                    return
                for request in await questions.list_open(service.deps):
                    await _answer(out, running, request)
                await asyncio.wait_for(news.wait(), PATIENCE)

    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)
    asyncio.run(_served(root, job))
    price = root / "system_runtime/artifacts" / compiled.dag.plan_id / "implement/price.py/price.py"
    score = next((task["score"] for task in seen["tasks"] if task["task_id"] == "verify"), None)
    _say(out, f"the plan ended: {seen['result']}; verify scored {score:g}; price.py is {len(price.read_bytes())} bytes")
    states = {task["task_id"]: task["state"] for task in seen["tasks"]}
    return seen["result"] == "done" and score == 100 and states["second_opinion"] == "SKIPPED"


async def _served(root: Path, job: Any) -> None:
    await wiring.serve(root, settings.load(root), stop=asyncio.Event(), port=0, job=job)


async def _answer(out: CommandOutput, running: Engine, request: HumanQuestion) -> None:
    """Answer as the person in this demo: give the price list that was asked for."""
    names = [need.name for need in request.document.needed.files]
    _say(out, f"  question: {sanitize(request.document.title)}; the demo answers with a file")
    await running.service.messages.answer(
        request.request_id,
        by="demo",
        proof=AnswerProof("engine", "demo"),
        decision="PROVIDE",
        files=dict.fromkeys(names, PRICE_LIST),
        answers=(),
        notes=None,
        seen_sha256=request.sha256,
    )
    running.dispatcher.nudge()


def _tell(out: CommandOutput, standing: dict[str, Any], told: dict[str, str]) -> None:
    for task in standing["tasks"]:
        if told.get(task["task_id"], "PENDING") != task["state"]:
            told[task["task_id"]] = task["state"]
            why = f": {sanitize(task['reason'])}" if task["reason"] else ""
            _say(out, f"  {sanitize(task['task_id'])} ({sanitize(task['agent_id'])}) {task['state']}{why}")


def _say(out: CommandOutput, text: str) -> None:
    if not out.as_json:
        out.say(text)
