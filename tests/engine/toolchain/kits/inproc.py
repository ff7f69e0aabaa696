"""An engine in this process with a real door, whose agents only listen: what they were told is kept."""

from __future__ import annotations

import asyncio
import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from agenttalk import wiring
from agenttalk.adapters.store import operator_folder
from agenttalk.ports.agents import Job
from agenttalk.rules.proof.performance import Performance
from agenttalk.wiring import settings
from doors.api.enginekit import until
from engine.toolchain.kits.bench import AGENTS, ENDED, SECRET, asked, signed


@dataclass
class Listener:
    """Carries out nothing, says so with great confidence, and keeps what it was told."""

    prompts: dict[str, str] = field(default_factory=dict)
    """Task → its first prompt."""

    async def perform(self, job: Job) -> Performance:
        self.prompts.setdefault(job.task_id, job.prompt)
        if len(self.prompts) % 8:
            return Performance("crashed", error="it only listens")  # which ends a task at once
        return Performance("finished", result="action_report: everything is done")


@dataclass
class Here:
    """An engine of this process."""

    url: str
    token: str
    listener: Listener

    def post(self, source: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        return asked(self.url, "POST", f"/api/webhooks/{source}", body, headers)

    def tell(self, source: str, headers: dict[str, str], data: Any) -> str:
        """A signed delivery under a number of its own; what it is called here."""
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        numbers = {key: uuid.uuid4().hex for key in headers if key.endswith("-Delivery")}
        status, answer = self.post(source, {**headers, **numbers, **signed(source, body)}, body)
        assert status == 202, answer
        return str(answer["id"])

    def get(self, path: str) -> dict[str, Any]:
        status, answer = asked(self.url, "GET", path, None, {"Authorization": f"Bearer {self.token}"})
        assert status == 200, answer
        return answer

    def decided(self, delivery: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            found = self.get(f"/api/webhooks/{delivery}")
            return found if found["state"] != "new" else None

        found: dict[str, Any] = until(look, f"{delivery} is decided about")
        return found

    def tasks(self) -> list[dict[str, Any]]:
        found, after = [], 0
        while after is not None:
            page = self.get(f"/api/toolchain/tasks?limit=200&after={after}")
            found += page["tasks"]
            after = page["next"]
        return found

    def settled(self) -> list[dict[str, Any]]:
        """All tasks once none is open. On a busy machine that may take long; it only has to go on."""
        ended = 0
        while True:
            found = self.tasks()
            over = [each for each in found if each["status"] in ENDED]
            if found and len(over) == len(found):
                return found
            ended = until(partial(self._more_than, ended), "one more task has ended")

    def _more_than(self, seen: int) -> int | None:
        over = sum(each["status"] in ENDED for each in self.tasks())
        return over if over > seen else None


def _written(root: Path, locale: str) -> None:
    root.mkdir(parents=True)
    (root / "secret.txt").write_text(SECRET)
    lines = [f'locale = "{locale}"']
    for agent in AGENTS:
        lines += [f"[agents.{agent}]", 'driver = "listener"', f"[agents.{agent}.forge]"]
        lines += [f'{kind} = {{ login = "{agent}" }}' for kind in ("gitea", "forgejo", "github")]
    for kind in ("gitea", "forgejo", "github"):
        lines += [f"[sources.{kind}]", f'kind = "{kind}"', 'base_url = "https://git.example.test"', 'callers = ["*"]']
        lines += ['secret_file = "secret.txt"', 'login = "the-engine"']
    lines += ["[toolchain]", 'default_reviewer = "agent-reviewer"', 'ops = "agent-ops"', 'lead = "agent-lead"']
    lines += ['deploy_patterns = ["*deploy*"]', 'repos = ["*"]', "retry_times = 0"]
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")


@contextmanager
def here(root: Path, locale: str = "en") -> Iterator[Here]:
    """The engine in a thread of its own."""
    _written(root, locale)
    listener, told, over = Listener(), threading.Event(), threading.Event()
    state: dict[str, Any] = {}

    async def run() -> None:
        state["stop"], state["loop"] = asyncio.Event(), asyncio.get_running_loop()

        def tell(where: Any) -> None:
            state["url"] = where.http
            told.set()

        await wiring.serve(
            root,
            settings.load(root),
            stop=state["stop"],
            tell=tell,
            port=0,
            performers=lambda _: {"listener": listener},
        )

    def work() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - raised where the test can see it
            state["error"] = error
        finally:
            over.set()
            told.set()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert told.wait(300)
    if "error" in state:
        raise state["error"]
    try:
        yield Here(state["url"], operator_folder.token_of(root) or "", listener)
    finally:
        state["loop"].call_soon_threadsafe(state["stop"].set)
        assert over.wait(300)
        thread.join()
        if "error" in state:
            raise state["error"]
