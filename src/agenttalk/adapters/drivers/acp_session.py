"""How a session of the Agent Client Protocol is opened: version, login, session, mode, prompt. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from acp import schema
from acp.meta import PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from agenttalk.contracts.core import wire
from agenttalk.ports.dialogues import SessionParameters
from agenttalk.rules.agents.events import AgentEvent

_SHOWN: Final = 200
Model = TypeVar("Model", bound=BaseModel)


class ProtocolFaultError(Exception):
    """The agent does not follow the protocol. The message says in what."""


class PromptFailureError(Exception):
    """The agent follows the protocol, but does not carry out the prompt. The message says why."""


class AcpOutput:
    """Messages to the agent that are not sent yet, and requests to it that it has not answered."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._requests: dict[int, str] = {}
        self._next = 0

    @property
    def awaited(self) -> str:
        """The method of the oldest request without an answer; empty when there is none."""
        return next(iter(self._requests.values()), "")

    def take(self) -> bytes:
        """Return the messages since the last call."""
        data = bytes(self._pending)
        self._pending.clear()
        return data

    def request(self, method: str, params: BaseModel) -> None:
        """Add a request, which the agent has to answer."""
        number = self.next_number()
        self._requests[number] = method
        self._add(id=number, method=method, params=dump(params))

    def notify(self, method: str, params: BaseModel) -> None:
        """Add a notification, which has no answer."""
        self._add(method=method, params=dump(params))

    def reply(self, request_id: int | str, **answer: Any) -> None:
        """Add the answer to a request of the agent: a `result` or an `error`."""
        self._add(id=request_id, **answer)

    def match_answer(self, number: object) -> str:
        """Return the method of the request that an answer belongs to; empty when there is none."""
        return self._requests.pop(number, "") if isinstance(number, int) and not isinstance(number, bool) else ""

    def next_number(self) -> int:
        """Return a number that was not used before in this dialogue."""
        self._next += 1
        return self._next - 1

    def _add(self, **message: Any) -> None:
        self._pending += wire.write({"jsonrpc": "2.0", **message}) + b"\n"


class AcpSession:
    """Opens a session and prompts it. Each answer of the agent leads to the next request."""

    def __init__(self, opening: SessionParameters, output: AcpOutput) -> None:
        self._opening = opening
        self._output = output
        self._capabilities = schema.AgentCapabilities()
        self.id = ""
        """Empty until the session is open."""
        self.prompted = False

    def begin(self) -> None:
        """Introduce ourselves. The agent gets no access to files or terminals of ours: it has its own."""
        capabilities = schema.ClientCapabilities(
            fs=schema.FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
        )
        name = schema.Implementation(name="agenttalk", title="AgentTalk", version="1")
        request = schema.InitializeRequest(
            protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities, client_info=name
        )
        self._output.request("initialize", request)

    def accept_version(self, result: object) -> Iterator[AgentEvent]:
        """Check the agent's version, then log in or open the session."""
        # The package reads some texts as numbers; here only a number is a version.
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if version != PROTOCOL_VERSION or isinstance(version, bool):
            raise ProtocolFaultError(
                f"it speaks protocol version {str(version)[:40]}; version {PROTOCOL_VERSION} is needed"
            )
        answer = parse(schema.InitializeResponse, result)
        if answer is None:
            raise ProtocolFaultError("its description of itself cannot be read")
        self._capabilities = answer.agent_capabilities or self._capabilities
        if self._opening.auth in {method.id for method in answer.auth_methods or ()}:
            self._output.request("authenticate", schema.AuthenticateRequest(method_id=self._opening.auth))
        else:
            self._open()
        yield from ()

    def accept_login(self, _: object) -> Iterator[AgentEvent]:
        """Open the session."""
        self._open()
        yield from ()

    def accept_new(self, result: object) -> Iterator[AgentEvent]:
        """Note the id of the new session."""
        answer = parse(schema.NewSessionResponse, result)
        if answer is None or not answer.session_id:
            raise ProtocolFaultError("it opened a session without an id")
        self.id = answer.session_id
        yield from self._choose_mode(answer.modes)

    def accept_loaded(self, result: object) -> Iterator[AgentEvent]:
        """Continue the session that was named."""
        answer = parse(schema.LoadSessionResponse, result or {})
        yield from self._choose_mode(answer.modes if answer else None)

    def accept_mode(self, _: object) -> Iterator[AgentEvent]:
        """Send the prompt."""
        self._prompt()
        yield from ()

    def open_new(self) -> None:
        """Open a new session."""
        self.id = ""
        self._output.request("session/new", schema.NewSessionRequest(**self._location()))

    def _open(self) -> None:
        if self._opening.session and self._capabilities.load_session:
            self.id = self._opening.session
            self._output.request("session/load", schema.LoadSessionRequest(session_id=self.id, **self._location()))
        else:
            self.open_new()

    def _location(self) -> dict[str, Any]:
        """Return the parameters that say where the session works."""
        opening, offered = self._opening, self._capabilities.session_capabilities
        location: dict[str, Any] = {"cwd": opening.cwd, "mcp_servers": list(opening.servers)}
        if opening.servers and opening.meta:
            location["field_meta"] = dict(opening.meta)
        if offered is not None and offered.additional_directories is not None and opening.besides:
            location["additional_directories"] = list(opening.besides)
        return location

    def _choose_mode(self, modes: schema.SessionModeState | None) -> Iterator[AgentEvent]:
        """Report the session, then set its mode or send the prompt. Only a session that can be loaded has an id."""
        yield AgentEvent("session", self.id if self._capabilities.load_session else "")
        wanted = self._opening.mode
        offered = [mode.id for mode in modes.available_modes] if modes else []
        if wanted and wanted not in offered:
            names = ", ".join(offered) if modes else "none"
            raise PromptFailureError(f"it has no mode {wanted[:40]!r}; it offers: {names[:_SHOWN]}")
        if modes is not None and wanted and modes.current_mode_id != wanted:
            self._output.request("session/set_mode", schema.SetSessionModeRequest(session_id=self.id, mode_id=wanted))
        else:
            self._prompt()

    def _prompt(self) -> None:
        self.prompted = True
        opening = self._opening
        continued = bool(opening.session) and self.id == opening.session
        text = opening.prompt if continued or not opening.anew else opening.anew
        block = schema.TextContentBlock(type="text", text=text)
        self._output.request("session/prompt", schema.PromptRequest(session_id=self.id, prompt=[block]))


def parse(model: type[Model], data: object) -> Model | None:
    """Return the data as a model of the protocol; None when they do not fit."""
    try:
        return model.model_validate(data)
    except (ValidationError, RecursionError):
        return None


def dump(model: BaseModel) -> Mapping[str, Any]:
    """Return a model of the protocol as JSON."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
