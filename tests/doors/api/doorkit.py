"""A door that really listens, and how tests ask it."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import jsonschema

from agenttalk.doors.api import openapi
from agenttalk.doors.api.app import create_app
from agenttalk.doors.api.route_table import ROUTES
from agenttalk.doors.api.server import ServerAddresses, serve_app, socket_folder
from agenttalk.engine.core import access
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import plan_registry
from agenttalk.engine.messages.router import RouterReport
from agenttalk.engine.operation.passes import PassRunner
from agenttalk.engine.operation.service import Service
from agenttalk.ports.statements.messages import PUT_TASK, TASK
from agenttalk.ports.statements.runs import LEASE_COMMAND
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.tokens import attempt_token, token_hash
from agenttalk.wiring import open_root
from kits.agentkit import end_bare_lease

T = TypeVar("T")
OPERATOR, VIEWER, WORKER = "op_one", "view_one", "work_one"
FAR = "rem_one_of_the_agent_far"
"""The token of an agent that works elsewhere."""


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def code(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        assert self.json["status"] == self.status
        return str(self.json["code"])


@cache
def document() -> dict[str, Any]:
    return openapi.build_document(ROUTES)


@cache
def validator(method: str, path: str, status: int) -> jsonschema.Draft202012Validator | None:
    """Checks answers of a route, if it is one of the API that answers with JSON."""
    for spec in ROUTES:
        if spec.method == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", spec.path), path):
            operation = document()["paths"][spec.shown_path or spec.path][method.lower()]
            content = operation["responses"].get(str(status), {}).get("content", {}).get("application/json")
            schema = {**content["schema"], "components": document()["components"]} if content else None
            return jsonschema.Draft202012Validator(schema) if schema else None
    return None


def require_described(method: str, path: str, answer: Answer) -> None:
    """Every answer is one that the OpenAPI document describes."""
    if answer.status < 300 and answer.headers.get("content-type") == "application/json":
        known = validator(method, path.partition("?")[0], answer.status)
        if known is not None:
            known.validate(answer.json)


class OverSocket(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("agenttalk", timeout=300)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


@dataclass
class Door:
    """A listening service. `run` does something in its event loop."""

    root: Path
    where: ServerAddresses
    deps: Deps
    service: Service
    loop: asyncio.AbstractEventLoop
    passes: list[str | None] = field(default_factory=list)
    working: list[bool] = field(default_factory=list)
    """Not empty while it says that it is ready."""
    runners: dict[str, PassRunner] = field(default_factory=dict)
    """Parts that can be asked for a pass."""

    def run(self, work: Callable[[Deps], Awaitable[T]]) -> T:
        async def call() -> T:
            return await work(self.deps)

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(30)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        over: str = "http",
    ) -> Answer:
        address = urlsplit(self.where.http)
        connection = (
            http.client.HTTPConnection(address.hostname or "", address.port, timeout=300)
            if over == "http"
            else OverSocket(self.where.socket)
        )
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        told = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        try:
            connection.request(method, path, sent, told)
            response = connection.getresponse()
            data = response.read()
            answer = Answer(response.status, {key.lower(): value for key, value in response.getheaders()}, data)
        finally:
            connection.close()
        require_described(method, path, answer)
        return answer

    def get(self, path: str, token: str | None = OPERATOR, **more: Any) -> Answer:
        return self.ask("GET", path, token=token, **more)

    def post(self, path: str, body: Any, token: str | None = OPERATOR, **more: Any) -> Answer:
        return self.ask("POST", path, body, token=token, **more)

    def raw(self, data: bytes) -> bytes:
        """Bytes as they are, and everything that comes back."""
        address = urlsplit(self.where.http)
        with socket.create_connection((address.hostname or "", address.port or 0), timeout=300) as connection:
            connection.sendall(data)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found

    def leased(
        self, task_id: str = "build", *, plan_id: str = "plan_shop", board: str = "default", agent_id: str = "dev"
    ) -> str:
        """A new attempt of a task; its token."""

        async def work(deps: Deps) -> str:
            store = await deps.stores.board(board)

            def grant(tx: Tx) -> str:
                tx.run(PUT_TASK, plan_id=plan_id, task_id=task_id, agent_id=agent_id, at=deps.stamp())
                [(_, _, _, epoch, *_)] = tx.run(TASK, plan_id=plan_id, task_id=task_id)
                token = attempt_token(board, plan_id, task_id, epoch + 1, "secret")
                tx.run(
                    LEASE_COMMAND,
                    phase="executing",
                    retries=0,
                    sent_back=0,
                    plan_id=plan_id,
                    task_id=task_id,
                    epoch=epoch,
                    lease=f"lease_{epoch + 1}",
                    owner="{}",
                    token=token_hash(token),
                    delivery=None,
                    attempt=1,
                    missing=None,
                    at=deps.stamp(),
                )
                return token

            return await store.transact(grant)

        return self.run(work)

    def released(self, task_id: str = "build", *, plan_id: str = "plan_shop", board: str = "default") -> None:
        """The lease of a task has ended."""

        async def work(deps: Deps) -> None:
            store = await deps.stores.board(board)
            [(_, _, _, epoch, lease, *_)] = await store.read(TASK, plan_id=plan_id, task_id=task_id)
            await end_bare_lease(store, task_id, epoch, lease or "", deps.stamp(), plan_id)

        self.run(work)


@contextmanager
def listening(root: Path) -> Iterator[Door]:
    """A door on a root, in a thread of its own, with a token for each role."""
    ready = threading.Event()
    stop: list[Callable[[], object]] = []
    made: list[Door | BaseException] = []

    async def listen() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        stop.append(lambda: loop.call_soon_threadsafe(ended.set))
        async with AsyncExitStack() as stack:
            deps = await stack.enter_async_context(open_root(root))
            passed: list[str | None] = []

            async def route(agent: str | None) -> RouterReport:
                passed.append(agent)
                return RouterReport()

            working: list[bool] = []
            runners: dict[str, PassRunner] = {"route": route}
            service = Service(deps, passes=runners, is_ready=lambda: bool(working))
            for token, role in ((OPERATOR, "operator"), (VIEWER, "viewer"), (WORKER, "worker")):
                await access.admit(deps, token, role, role)  # type: ignore[arg-type]
            await access.admit_agent(deps, FAR, "far")
            await plan_registry.PlanRegistry(deps).refresh()
            path = socket_folder("test") / "door.sock"
            where = await stack.enter_async_context(
                serve_app(create_app(service), host="127.0.0.1", port=0, socket_path=path)
            )
            made.append(Door(root, where, deps, service, loop, passed, working, runners))
            ready.set()
            await ended.wait()

    def run() -> None:
        try:
            asyncio.run(listen())
        except BaseException as error:
            made.append(error)
            raise
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(300)
    assert isinstance(made[0], Door), made[0]
    try:
        yield made[0]
    finally:
        stop[0]()
        thread.join(30)
    assert not thread.is_alive()
