"""A model that follows a script, with the interfaces of real models, to try coding agents offline."""

from __future__ import annotations

import gzip
import json
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import MappingProxyType, TracebackType
from typing import Any, Final, Self

from agenttalk.testing.model_apis import Body, ModelApi, TokenCounts, answer_token_count, api_of
from agenttalk.testing.model_script import GarbageAnswer, ModelFault, RefuseStep, Script, make_reply, next_step

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_LARGEST: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A received request."""

    path: str
    body: Body = field(repr=False)


class ScriptedModel:
    """A server on the loopback that answers by its script. Use it in a `with` block.

    `script` may be replaced while it runs. It keeps every request in `asked`, without headers: they hold keys.
    Each of `faults` happens once, to the next request, and the script goes on afterwards. `tools` says whether the
    agents that are tried have any; it may be changed, too.
    """

    def __init__(
        self,
        script: Script,
        *,
        tokens: TokenCounts | None = None,
        faults: Iterable[ModelFault] = (),
        tools: bool = True,
    ) -> None:
        self.script = script
        self.faults = deque(faults)
        self.tools = tools
        self.requests: list[ReceivedRequest] = []
        self._tokens = tokens or TokenCounts()
        self._numbers = count(1)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, path: str, body: Body, door: _ModelHandler) -> None:
        self.requests.append(ReceivedRequest(path, body))
        api, told = api_of(path), answer_token_count(path, self._tokens)
        if api is None:
            door.send(200 if told else 404, told or {"error": {"message": f"there is no {path}", "type": "not_found"}})
        else:
            self._play(api, path, body, door)

    def _play(self, api: ModelApi, path: str, body: Body, door: _ModelHandler) -> None:
        talk = api.read(body)
        step = self.faults.popleft() if self.faults else next_step(self.script, talk, tools=self.tools)
        if isinstance(step, GarbageAnswer):
            door.send_bytes(200, step.data)
            return
        if isinstance(step, RefuseStep):
            usual = {"type": "invalid_request_error", "code": step.status}
            error = {"message": step.message, **(step.error or usual)}
            pause = {"retry-after": f"{step.retry_after:g}"} if step.retry_after is not None else {}
            door.send(step.status, {"type": "error", "error": error}, headers={**pause, **step.headers})
            return
        answer, name = make_reply(step, talk), f"{next(self._numbers):04}"
        if talk.streams or ":stream" in path:
            door.stream(api.pieces(answer, talk, self._tokens, name))
        else:
            door.send(200, api.whole(answer, talk, self._tokens, name))


class _ModelHandler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - so it is called
        """Log nothing."""

    def do_HEAD(self) -> None:
        """Report that the service is there."""
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """List the models."""
        known = {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0}], "models": []}
        is_list = self.path.partition("?")[0].endswith("/models")
        self.send(200 if is_list else 404, known if is_list else {"error": {"message": "there is nothing here"}})

    def do_POST(self) -> None:
        """Answer as the model."""
        data = self._read()
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        try:
            body = json.loads(data or b"{}")
        except ValueError:
            self.send(400, {"error": {"message": "the body is not JSON", "type": "invalid_request_error"}})
            return
        self.model._answer(self.path.partition("?")[0], body, self)  # noqa: SLF001 - one thing in two classes

    def _read(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(min(_LARGEST, int(self.headers.get("content-length") or 0)))
        parts = []
        while size := int(self.rfile.readline().strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def send(self, status: int, body: Body, *, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Answer in one piece."""
        self.send_bytes(status, json.dumps(body).encode(), headers=headers)

    def send_bytes(self, status: int, data: bytes, *, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Answer with anything."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, events: Any) -> None:
        """Answer by a stream of events."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
            self.wfile.flush()


def _handler(owner: ScriptedModel) -> type[_ModelHandler]:
    return type("Door", (_ModelHandler,), {"model": owner})
