"""Somebody who looks at the pages of an engine in this process, without a browser."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx2

from agenttalk.doors.api.app import create_app
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.engine.operation.service import EngineTools, Service
from kits.plankit import Engine, engine

ADDRESS = "http://127.0.0.1:8083"
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}{% x %}"
"""What an agent may say, and no page may take for its own."""


@dataclass
class Guest:
    """A browser without a screen."""

    client: httpx2.AsyncClient
    engine: Engine
    service: Service

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(path, headers=headers)

    async def page(self, path: str) -> str:
        answer = await self.get(path)
        assert answer.status_code == 200, (path, answer.status_code, text(answer))
        return answer.text

    async def enter(self, role: Any = "operator", name: str = "ada") -> None:
        """Log in by a link."""
        key = self.service.sessions.make_link(role, name)
        answer = await self.get(f"/login?key={key}")
        assert answer.status_code == 200

    async def key(self) -> str:
        """What the forms of this session carry."""
        found = re.search(r'name="form_key" value="(\w+)"', await self.page("/"))
        assert found
        return found[1]

    async def post(self, path: str, **fields: Any) -> httpx2.Response:
        """Send a form of the page."""
        return await self.client.post(path, data={"form_key": await self.key(), **fields})

    async def again(self) -> Guest:
        """Somebody else, who has no cookie."""
        return guest(self.engine, self.service)


def guest(found: Engine, service: Service) -> Guest:
    transport = httpx2.ASGITransport(app=create_app(service))
    return Guest(httpx2.AsyncClient(transport=transport, base_url=ADDRESS), found, service)


def visit(
    root: Path,
    use: Callable[[Guest], Awaitable[None]],
    *,
    entered: bool = True,
    schedules: Callable[[Deps], Scheduler] | None = None,
    **more: Any,
) -> None:
    """Look at the pages of a root with an engine at work."""

    async def run() -> None:
        async with engine(root, **more) as found:
            service = Service(
                found.deps,
                dispatcher=found.dispatcher,
                elsewhere=found.elsewhere,
                tools=EngineTools(schedules=schedules(found.deps) if schedules else None),
                is_ready=lambda: True,
            )
            somebody = guest(found, service)
            async with somebody.client:
                if entered:
                    await somebody.enter()
                await use(somebody)
            service.feed.close()

    asyncio.run(run())


def text(answer: httpx2.Response) -> str:
    """What a page says, without its marks."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())
