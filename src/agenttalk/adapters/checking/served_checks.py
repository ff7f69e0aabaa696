"""Makes the checks that start a service: sends requests to it, or looks at its pages in Chromium."""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib.util
import json
import shutil
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters import http_client
from agenttalk.adapters.checking.command import (
    CheckContext,
    CommandOutcome,
    CommandRunner,
    RunningService,
    ShellCommand,
)
from agenttalk.adapters.temporary_folders import make_temporary_folder
from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import BrowserCheck, ServedCheck, ServiceCheck, ServiceRequest
from agenttalk.ports.agents import Confinement, Driver, ProgramTurn
from agenttalk.ports.storage import Ids
from agenttalk.rules.checks import service_results
from agenttalk.rules.checks.check_results import HttpAnswer, ProgramExit
from agenttalk.rules.checks.service_results import BrowserSession
from agenttalk.rules.proof.evidence import CheckFinding, Screenshot
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words

_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_STEP_SECONDS: Final = 5.0
_READY_PAUSE: Final = 0.1
_SESSION_BYTES: Final = 64 * 1024 * 1024
_PICTURES: Final = 20
_PICTURE_BYTES: Final = 4 * 1024 * 1024
_PNG: Final = b"\x89PNG\r\n\x1a\n"


@dataclass(frozen=True, slots=True)
class ServedOutcome:
    """The result of a check of a service."""

    finding: CheckFinding
    done: CommandOutcome
    """What the service printed, and how it ended."""
    pictures: tuple[Screenshot, ...] = ()
    tests: Outcomes | None = None
    """Which cases passed, where the check has cases."""


class ServedChecks:
    """Makes checks of services."""

    def __init__(self, runner: CommandRunner, driver: Driver, ids: Ids) -> None:
        self._runner = runner
        self._driver = driver
        self._ids = ids

    async def make(
        self, check: ServiceCheck | BrowserCheck, command: ShellCommand, context: CheckContext
    ) -> ServedOutcome:
        """Start the service of a check, look at it, and end it."""
        faults = [why for _, why in service_results.find_faults(check)]
        if faults:  # a promise need not come from a plan file, whose checks are examined when it is submitted
            refusal = CheckFinding(False, "facts_missing", "; ".join(faults))
            return ServedOutcome(refusal, CommandOutcome(ProgramExit("not_started", None), isolated=False))
        pictures: tuple[Screenshot, ...] = ()
        finding: CheckFinding | None
        async with self._runner.start_service(command, context) as service:
            if service.socket is None:
                finding = None
            elif not await _is_ready(check, command, service, context):
                finding = CheckFinding(False, "unreachable", check_words.SERVICE_NOT_READY(path=check.ready or ""))
            elif isinstance(check, ServiceCheck):
                finding = await _send_requests(check, command, service, context)
            else:
                session = await self._browse(check, command, service.socket, context)
                finding, pictures = service_results.judge_browser(check, session), _read_pictures(session.pictures)
        return ServedOutcome(service_results.judge_service(finding, service.outcome.ran), service.outcome, pictures)

    async def _browse(
        self, check: BrowserCheck, command: ShellCommand, path: Path, context: CheckContext
    ) -> BrowserSession:
        """Take the steps of a check in a browser, in a sandbox that sees the service and nothing else of the work."""
        browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
        if browser is None or importlib.util.find_spec("playwright") is None:
            return BrowserSession(problem=check_words.NO_BROWSER())
        request = {
            "browser": browser,
            "port": command.port,
            "socket": str(path),
            "steps": [step.as_json() for step in check.steps],
            "width": check.width,
            "height": check.height,
            "step_seconds": _STEP_SECONDS,
        }
        made = make_temporary_folder(context.temporary)
        turn = ProgramTurn(
            lease=self._ids.new("check"),
            argv=(sys.executable, "-P", "-m", "agenttalk.adapters.checking.browser_session"),
            cwd=Path("/"),
            prompt=json.dumps(request),
            env={"PATH": context.path, "LANG": context.lang},
            timeout=check.timeout or context.limits.seconds,
            keep=_SESSION_BYTES,
            confinement=Confinement(
                context.sandbox,
                network=context.sandbox == "plain",
                readonly=(path, *context.readable),
                hidden=context.masked,
                bare=True,
                temporary=made.path,
            ),
        )
        try:
            ended = await self._driver.run(turn)
        finally:
            await asyncio.to_thread(made.remove)
        if ended.how != "finished" or ended.exit_code != 0:
            error = ended.error or ended.stderr.decode(errors="replace").strip()[-500:]
            return BrowserSession(problem=check_words.BROWSER_FAILED(error=error))
        return BrowserSession.from_json(wire.read(ended.stdout, limit=_SESSION_BYTES))


def find_free_port() -> int:
    """Find a port that is free on this machine. The sandbox of a check usually has ports of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


async def _is_ready(check: ServedCheck, command: ShellCommand, service: RunningService, context: CheckContext) -> bool:
    """Ask the path that tells whether the service is ready, until it says so."""
    if check.ready is None:
        return True
    deadline = asyncio.get_running_loop().time() + context.limits.ready_seconds
    while asyncio.get_running_loop().time() < deadline:
        answer = await _send(ServiceRequest.model_validate({"path": check.ready}), command, service, context)
        if isinstance(answer, HttpAnswer) and answer.status < 400:
            return True
        await asyncio.sleep(_READY_PAUSE)
    return False


async def _send_requests(
    check: ServiceCheck, command: ShellCommand, service: RunningService, context: CheckContext
) -> CheckFinding:
    answers: list[HttpAnswer | CheckFinding] = []
    for request in check.requests:
        answers.append(await _send(request, command, service, context))
        if isinstance(answers[-1], CheckFinding):
            break
    return service_results.judge_answers(check.requests, answers)


async def _send(
    request: ServiceRequest, command: ShellCommand, service: RunningService, context: CheckContext
) -> HttpAnswer | CheckFinding:
    if service.socket is None or command.port is None:
        return CheckFinding(False, "unreachable", check_words.SERVICE_ENDED())
    body = request.body.encode() if request.body is not None else None
    headers = dict(request.headers or {})
    if request.json_body is not None:
        body, headers = wire.write(request.json_body), {"Content-Type": "application/json", **headers}
    limits = context.limits
    asking = http_client.HttpRequest(
        (), limits.answer_seconds, limits.answer_bytes, follow=False, method=request.method, headers=headers, body=body
    )
    return await http_client.send_to_socket(service.socket, command.port, request.path, asking)


def _read_pictures(shots: Sequence[dict[str, Any]]) -> tuple[Screenshot, ...]:
    """Read the pictures of a session. What is not one is left out."""
    pictures: list[Screenshot] = []
    for shot in shots[:_PICTURES]:
        try:
            data = base64.b64decode(str(shot.get("data", "")), validate=True)
        except (binascii.Error, ValueError):
            continue
        if data.startswith(_PNG) and len(data) <= _PICTURE_BYTES:
            picture = Screenshot(str(shot.get("name", ""))[:80], wire.sha256(data), len(data), data)
            if not pictures or pictures[-1].sha256 != picture.sha256:  # the end often looks like the last step
                pictures.append(picture)
    return tuple(pictures)
