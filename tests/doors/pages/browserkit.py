"""An engine that really serves, with agents that do what a test says; and a real browser that looks at it."""

from __future__ import annotations

import asyncio
import http.server
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agenttalk import wiring
from agenttalk.adapters.drivers.python_calls import Agent, PythonPerformer
from agenttalk.doors.api.server import ServerAddresses
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.wiring import settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from agenttalk.engine.operation.engine import Engine

CHROMIUM = shutil.which("chromium")
MISSING = "no Chromium, or no Playwright: 'make browser' installs both"
AXE = Path(__file__).parents[3] / ".axe/node_modules/axe-core/axe.min.js"
PATIENCE = 300_000
"""Milliseconds within which something has to be seen."""


@dataclass
class Served:
    """A running engine."""

    http: str
    running: Engine
    loop: asyncio.AbstractEventLoop

    def link(self, role: Any = "operator", name: str = "ada") -> str:
        return f"{self.http}/login?key={self.do(self._key, role, name)}"

    async def _key(self, role: Any, name: str) -> str:
        return self.running.service.sessions.make_link(role, name)

    def do(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something in the engine's own loop."""
        return asyncio.run_coroutine_threadsafe(work(*arguments), self.loop).result(60)


@contextmanager
def served(root: Path, *plans: CompiledPlan, agents: dict[str, Agent]) -> Iterator[Served]:
    """An engine with plans under way, in a thread of its own."""
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)
    ready = threading.Event()
    made: list[Any] = []

    async def run() -> None:
        stop, where = asyncio.Event(), list[ServerAddresses]()
        loop = asyncio.get_running_loop()

        async def job(running: Engine) -> None:
            for each in plans:
                await running.service.plans.submit(each.dag, each.manifest, each.profiles, each.files)
            made.extend([Served(where[0].http, running, loop), lambda: loop.call_soon_threadsafe(stop.set)])
            ready.set()
            await stop.wait()

        def performers(deps: Any) -> dict[str, Any]:
            return {"python": PythonPerformer(agents, deps.stores.blobs)}

        loaded = settings.load(root)
        await wiring.serve(root, loaded, stop=stop, tell=where.append, port=0, job=job, performers=performers)

    def main() -> None:
        try:
            asyncio.run(run())
        finally:
            ready.set()

    thread = threading.Thread(target=main)
    thread.start()
    assert ready.wait(300)
    assert made, "the engine did not start"
    try:
        yield made[0]
    finally:
        made[1]()
        thread.join(60)
    assert not thread.is_alive()


@dataclass
class Eyes:
    """A browser, and what it complained of."""

    browser: Browser
    complaints: list[str] = field(default_factory=list)

    def look(self, link: str, **options: Any) -> Page:
        """A page on which somebody is logged in."""
        context = self.browser.new_context(**{"locale": "en", "viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda each: self.complaints.append(each.text) if each.type == "error" else None)
        page.on("pageerror", lambda each: self.complaints.append(str(each)))
        page.on("dialog", self._dialog)
        page.goto(link)
        page.wait_for_url("**/")
        return page

    def _dialog(self, each: Any) -> None:
        self.complaints.append(f"dialog: {each.message}")
        each.dismiss()


@pytest.fixture(scope="module")
def eyes() -> Iterator[Eyes]:
    """A browser. Playwright has an event loop run in this thread meanwhile, so it ends before tests of other modules."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip(MISSING)
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP *.test 127.0.0.1"]
        args += [
            "--disable-features=LocalNetworkAccessChecks"
        ]  # what the engine refuses must not depend on the browser
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=args)
        yield Eyes(browser)
        browser.close()


class _Elsewhere(http.server.BaseHTTPRequestHandler):
    body = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def elsewhere(body: bytes) -> Iterator[str]:
    """A site of somebody else."""
    handler = type("Handler", (_Elsewhere,), {"body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
