"""A fake Gitea in this process, an engine in one of its own, and agents that are programs: a world to tell stories in."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agenttalk.testing import FakeGitea
from doors.api.enginekit import until
from engine.toolchain.kits.bench import SECRET, Bench, served

REPO = "acme/widgets"
EVENTS = ("pull_request", "pull_request_review", "issues", "issue_comment", "status", "workflow_run", "repository")
LOGINS = ("agent-dev", "agent-reviewer", "maintainer")
VARIABLES = {"agent-dev": "DEV_TOKEN", "agent-reviewer": "REVIEWER_TOKEN", "maintainer": "MAINTAINER_TOKEN"}


@dataclass
class World:
    """A forge whose loop runs in a thread of its own, so that tests are told in plain steps."""

    folder: Path
    forge: FakeGitea = field(init=False)
    tokens: dict[str, str] = field(default_factory=dict)
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def do(self, deed: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Something that happens at the forge."""

        async def run() -> Any:
            found = deed(*arguments, **options)
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(60)

    @property
    def repository(self) -> Any:
        return self.forge.state.repository(*REPO.split("/"))

    def user(self, login: str) -> Any:
        return self.forge.state.user(login)

    def hooked(self, bench: Bench) -> None:
        self.do(self.forge.hook, REPO, f"{bench.url}/api/webhooks/work", SECRET, EVENTS)

    def assigned(self, title: str = "The price", login: str = "agent-dev") -> int:
        """The maintainer opens an issue for somebody."""
        made = self.do(
            self.forge.state.issues.create_issue, self.repository, self.user("maintainer"), title, "", [login]
        )
        return int(made.number)

    def pull(self, login: str = "agent-dev", branch: str = "feat/x", title: str = "A change", body: str = "") -> int:
        """Somebody pushes a branch and opens a pull request."""
        self.do(self.forge.push, REPO, branch, {f"{branch.replace('/', '_')}.py": "x = 1\n"}, login)
        made = self.do(
            self.forge.state.pulls.create_pull, self.repository, self.user(login), title, body, branch, "main"
        )
        return int(made.issue.number)

    def head(self, number: int) -> str:
        return str(self.repository.pulls[number].head_sha)

    def review(self, login: str, number: int, event: str, body: str = "Words.", commit: str = "") -> None:
        self.do(self.forge.state.pulls.review, self.repository, self.user(login), number, event, body, commit)


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """A forge with a repository and three accounts, whose tokens are in the environment."""
    made = World(folder)
    thread = threading.Thread(target=made.loop.run_forever, daemon=True)
    thread.start()
    before = dict(os.environ)
    try:
        made.forge = made.do(lambda: FakeGitea(folder))
        made.do(made.forge.start)
        made.tokens = {login: made.do(made.forge.user, login) for login in LOGINS}
        made.do(made.forge.repository, REPO, writers=list(LOGINS))
        os.environ |= {VARIABLES[login]: token for login, token in made.tokens.items()}
        os.environ |= {"FORGE_URL": made.forge.url, "ENGINE_TOKEN": made.forge.admin}
        yield made
        made.do(made.forge.stop)
        made.do(made.forge.deliveries.wait_until_settled)
    finally:
        os.environ.clear()
        os.environ.update(before)
        made.loop.call_soon_threadsafe(made.loop.stop)
        thread.join(10)
        made.loop.close()


def configured(root: Path, world: World, programs: dict[str, str], *, more: str = "", patience: int = 0) -> Path:
    """A root whose agents dev and reviewer run programs: a path, or a text."""
    root.mkdir()
    (root / "secret.txt").write_text(SECRET)
    lines = []
    for agent in ("dev", "reviewer"):
        program = programs.get(agent, "")
        path = Path(program) if program.endswith(".py") else root / "agents" / agent / "work.py"
        if not program.endswith(".py"):
            path.parent.mkdir(parents=True)
            path.write_text(program, encoding="utf-8")
        lines += [f"[agents.{agent}]", 'driver = "script"', f'argv = ["{sys.executable}", "{path}"]']
        lines += ['env = ["FORGE_URL"]']
        lines += [f'forge.work = {{ login = "agent-{agent}", token_env = "{VARIABLES[f"agent-{agent}"]}" }}']
    lines += ["[sources.work]", 'kind = "gitea"', f'base_url = "{world.forge.url}"', 'secret_file = "secret.txt"']
    lines += ['token_env = "ENGINE_TOKEN"', 'login = "root"', "[toolchain]", 'default_reviewer = "reviewer"']
    lines += [f"verify_patience = {patience}", "settle_seconds = 0", 'deploy_patterns = ["*deploy*"]', more]
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


@contextmanager
def told(
    tmp_path: Path, programs: dict[str, str], *, more: str = "", patience: int = 0
) -> Iterator[tuple[World, Bench]]:
    """A forge that tells an engine everything."""
    with (
        world(tmp_path / "forge") as here,
        served(configured(tmp_path / "root", here, programs, more=more, patience=patience)) as bench,
    ):
        here.hooked(bench)
        yield here, bench


def ended(bench: Bench, count: int) -> list[dict[str, Any]]:
    """All tasks, once so many have ended. Each of them may take its time."""

    def look(number: int) -> list[dict[str, Any]] | None:
        found = bench.tasks()
        return found if sum(each["closed_at"] is not None for each in found) >= number else None

    found: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        found = until(lambda number=number: look(number), f"{number} tasks have ended")  # type: ignore[misc]
    assert len(found) == count, [(each["id"], each["title"]) for each in found]
    return found
