"""The client of a running engine. It connects to the engine's socket, or else to its address, as the operator."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from agenttalk.adapters.store import operator_folder
from agenttalk.adapters.store.root_lock import RunningEngine, running_engine
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, JsonError, MachineError, Problem, UsageError

TIMEOUT: Final = 15 * 60.0
"""Seconds that a request may take. A pass over a large root takes long."""
_CONNECT: Final = 5.0
_LARGEST: Final = 128 * 1024 * 1024
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


def connect_to_running_engine(root: Path, locale: Locale = "en") -> EngineClient | None:
    """Return a client of the engine of a root; None where no engine runs. Raises UsageError without its token.

    The engine answers in the language `locale`.
    """
    engine = running_engine(root)
    if engine is None:
        return None
    token = operator_folder.token_of(root)
    if token is None:
        raise UsageError(
            Code.TOKEN_REFUSED,
            f"{root} has a running engine (process {engine.pid}), but you have no token for it",
            hint=f"ask the user who started it; their configuration folder has the token in {operator_folder.TOKEN}",
        )
    return EngineClient(engine, token, locale)


class EngineClient:
    """Sends requests to an engine, and raises its errors as they were raised there."""

    def __init__(self, engine: RunningEngine, token: str, locale: Locale = "en") -> None:
        self.reached = False
        """Whether a connection was made. Without one, no request was sent."""
        self.answered = False
        """Whether the engine has answered."""
        self._engine = engine
        self._token = token
        self._locale = locale

    @property
    def is_temporary(self) -> bool:
        """Whether the engine ends by itself, once its own plan has ended."""
        return self._engine.passing

    @property
    def address(self) -> str:
        """The engine's HTTP address, such as `http://127.0.0.1:8083`."""
        return self._engine.http or ""

    def get(self, path: str) -> Any:
        """Send a GET request and return the answer. Raises AgentTalkError."""
        return self._ask("GET", path, None)

    def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] = _NO_HEADERS) -> Any:
        """Send a POST request and return the answer. Raises AgentTalkError."""
        return self._ask("POST", path, wire.write(dict(body)), headers)

    def _ask(self, method: str, path: str, body: bytes | None, more: Mapping[str, str] = _NO_HEADERS) -> Any:
        connection = self._connect()
        self.reached = True
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json", **more}
        headers["Accept-Language"] = self._locale
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            data = response.read(_LARGEST)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
        try:
            answer = wire.read(data, limit=_LARGEST)
        except JsonError as error:
            raise self._unreachable(error) from error
        self.answered = True
        if response.status < 300:
            return answer
        raise _error(response.status, answer)

    def _connect(self) -> http.client.HTTPConnection:
        """Connect to the socket; where there is none, or it fails, to the address."""
        failed: OSError = ConnectionRefusedError("it has announced no address")
        if self._engine.socket:
            try:
                return _open(_UnixSocketConnection(self._engine.socket))
            except OSError as error:
                failed = error
        if self._engine.http:
            where = urlsplit(self._engine.http)
            try:
                return _open(http.client.HTTPConnection(where.hostname or "", where.port, timeout=_CONNECT))
            except OSError as error:
                failed = error
        raise self._unreachable(failed) from failed

    def _unreachable(self, error: Exception) -> MachineError:
        return MachineError(
            Code.ENGINE_UNREACHABLE,
            f"the engine (process {self._engine.pid}) does not answer: {error}",
            hint="it may be starting or ending; try again in a moment",
        )


class _UnixSocketConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("agenttalk", timeout=_CONNECT)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_CONNECT)
        self.sock.connect(self._path)


def _open(connection: http.client.HTTPConnection) -> http.client.HTTPConnection:
    try:
        connection.connect()
    except OSError:
        connection.close()
        raise
    connection.sock.settimeout(TIMEOUT)
    return connection


def _error(status: int, answer: Any) -> AgentTalkError:
    """Turn a problem document into the error that was raised in the engine."""
    document = answer if isinstance(answer, dict) else {}
    code = _code(document.get("code"))
    message = str(document.get("detail") or f"the engine answered {status}")
    hint = str(document.get("hint") or "")
    if status >= 500:
        return MachineError(code, message, hint=hint)
    items = document.get("problems")
    if isinstance(items, list):
        problems = [_problem(item) for item in items if isinstance(item, dict)]
        return ContractError(code, message, problems, hint=hint)
    return UsageError(code, message, hint=hint)


def _problem(item: dict[str, Any]) -> Problem:
    texts = (str(item.get(key) or "") for key in ("field", "message", "hint"))
    return Problem(_code(item.get("code")), *texts)


def _code(text: object) -> Code:
    return Code(text) if isinstance(text, str) and text in set(Code) else Code.UNHANDLED_EXCEPTION
