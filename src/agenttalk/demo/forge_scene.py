"""The scene of the demo in which agents work at a forge: from an issue to a merged pull request, all of it verified."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agenttalk import wiring
from agenttalk.doors.cli.core import engine_client
from agenttalk.doors.cli.core.output import CommandOutput, sanitize_line
from agenttalk.testing import FakeGitea
from agenttalk.wiring import settings

TEAM: Final = Path(__file__).parent / "forge_team"
REPO: Final = "acme/shop"
PATIENCE: Final = 120.0
"""Seconds within which all tasks have to end."""
_LOOK: Final = 0.05
_TOKENS: Final = {"dev": "DEV_TOKEN", "reviewer": "REVIEWER_TOKEN"}


def play_forge(out: CommandOutput, root: Path) -> bool:
    """Show an issue, a red build, a review that asks for more and a merge, each task done by what the forge shows."""
    root.mkdir()
    return asyncio.run(_played(out, root))


async def _played(out: CommandOutput, root: Path) -> bool:
    async with FakeGitea.running(root / "forge") as place:
        tokens = {_TOKENS[agent]: place.user(f"agent-{agent}") for agent in _TOKENS}
        place.user("maintainer")
        repository = place.repository(REPO, writers=["agent-dev", "agent-reviewer", "maintainer"])
        secret = _configured(root, place)
        async with _environment(tokens | {"FORGE_URL": place.url}), _engine(root) as url:
            place.hook(REPO, f"{url}/api/webhooks/work", secret, ("pull_request", "issues", "status", "workflow_run"))
            story, maintainer = _TaskNarrator(out, root), place.state.user("maintainer")
            _say(out, "  the maintainer opens an issue and assigns it")
            issue = place.state.issues.create_issue(
                repository, maintainer, "The price", "How much is it?", ["agent-dev"]
            )
            await story.wait_for_ended(1)
            _say(out, "  the build of the pull request is red")
            pull = max(repository.pulls)
            place.finish_workflow(REPO, repository.pulls[pull].head_sha, pull=pull)
            await story.wait_for_ended(6)
            _say(out, "  the maintainer has a question")
            place.state.issues.create_comment(repository, maintainer, issue.number, "@agent-dev how much is one?")
            found = await story.wait_for_ended(7)
    merged = repository.pulls[pull]
    by = merged.merged_by.login if merged.merged_by else "no one"
    _say(out, f"  #{pull} was merged by {by}, after: {', '.join(each.state for each in merged.reviews)}")
    proven = all((each["status"], each["trust"]) == ("done", "observed") for each in found)
    return proven and len(found) == 7 and by == "agent-dev" and not (root / "data" / "_mail").exists()


@dataclass(slots=True)
class _TaskNarrator:
    """Prints the results of the engine's tasks as they end."""

    out: CommandOutput
    root: Path
    told: set[str] = field(default_factory=set)

    async def wait_for_ended(self, count: int) -> list[dict[str, Any]]:
        """Wait until this many tasks have ended; returns all tasks."""
        client = engine_client.connect_to_running_engine(self.root)
        if client is None:
            return []
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await asyncio.to_thread(client.get, "/api/toolchain/tasks?limit=100")
                found: list[dict[str, Any]] = answer["tasks"]
                for each in found:
                    if each["closed_at"] and each["id"] not in self.told:
                        self.told.add(each["id"])
                        shown = await asyncio.to_thread(client.get, f"/api/toolchain/tasks/{each['id']}")
                        self._tell(shown)
                if len(found) >= count and all(each["closed_at"] for each in found):
                    return found
                await asyncio.sleep(_LOOK)

    def _tell(self, task: dict[str, Any]) -> None:
        seen = task["verify"] or {"code": "", "detail": task["closed_why"]}
        what = f"{sanitize_line(task['assignee'])}: {sanitize_line(task['title'])}"
        _say(self.out, f"  {what} → {task['status']} [dim]({seen['code']}: {sanitize_line(seen['detail'])})[/]")


def _configured(root: Path, place: FakeGitea) -> str:
    """Write the settings, and the secrets beside them; the secret of the hook."""
    secret = secrets.token_hex(16)
    (root / "hook-secret.txt").write_text(secret, encoding="utf-8")
    (root / "engine-token.txt").write_text(place.admin, encoding="utf-8")
    lines = []
    for agent, variable in _TOKENS.items():
        lines += [f"[agents.{agent}]", 'driver = "script"', 'env = ["FORGE_URL"]']
        lines += [f"argv = ['{sys.executable}', '{TEAM / f'{agent}.py'}']"]
        lines += [f'forge.work = {{ login = "agent-{agent}", token_env = "{variable}" }}']
    lines += ["[sources.work]", 'kind = "gitea"', f'base_url = "{place.url}"', 'login = "root"']
    lines += ['secret_file = "hook-secret.txt"', 'token_file = "engine-token.txt"']
    lines += ["[toolchain]", 'default_reviewer = "reviewer"']
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")
    return secret


@asynccontextmanager
async def _environment(more: Mapping[str, str]) -> AsyncIterator[None]:
    """Variables that the agents get, for the time of the block."""
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@asynccontextmanager
async def _engine(root: Path) -> AsyncIterator[str]:
    """Run an engine of the root until the block ends; yields the address it listens on."""
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(exist_ok=True)
    stop, listening = asyncio.Event(), asyncio.get_running_loop().create_future()

    def tell(where: Any) -> None:
        listening.set_result(where.http)

    serving = asyncio.create_task(wiring.serve(root, settings.load(root), stop=stop, tell=tell, port=0))
    try:
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            serving.result()
        yield listening.result()
    finally:
        stop.set()
        await serving


def _say(out: CommandOutput, text: str) -> None:
    if not out.as_json:
        out.say(text)
