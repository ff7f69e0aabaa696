"""The Agent Client Protocol, version 1, as a client speaks it: lines go in, events and words come out. No I/O.

What is said is told from what is not by the models of `agent-client-protocol`, which are made from the protocol's own
schema. Its connection is not used: that begins a task for each line, keeps whatever comes, writes what it cannot read
into the log, and takes answers to questions that nobody asked. An agent of ours may be out to do harm.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from acp import schema
from acp.meta import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_VERSION
from pydantic import BaseModel, ValidationError

from agenttalk.adapters.drivers import acp_tool_calls
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError
from agenttalk.ports import PermissionRequest, SessionParameters
from agenttalk.rules.agents import permissions
from agenttalk.rules.agents.codecs import LONGEST
from agenttalk.rules.agents.events import AgentEvent
from agenttalk.rules.agents.permissions import PermissionOption, ToolRequest
from agenttalk.rules.core.usage import BilledTokens, UsageTotals, measure_usage

MOST_BYTES: Final = 64 * 1024 * 1024
"""What an agent may tell in one prompt. Whoever tells more does not work but talk."""
MOST_MESSAGES: Final = 500_000
MOST_GARBAGE: Final = 100
"""Lines that are none of the protocol's. A few come from programs that greet or warn."""
MOST_WISHES: Final = 20
"""Wishes that wait for a ruling at the same time."""
_REMEMBERED: Final = 1_000
_PIECES: Final = 20_000
_SHOWN: Final = 200
_REFUSALS: Final[Mapping[str, str]] = {
    "refusal": "it refuses to go on (refusal)",
    "max_tokens": "it reached the most tokens that it may use (max_tokens)",
    "max_turn_requests": "it reached the most requests that it may make (max_turn_requests)",
    "cancelled": "it says that it was cancelled (cancelled)",
}
"""Why an agent stopped, other than because it is finished → in words."""
_NO_METHOD: Final = -32601
_WRONG: Final = -32602
_LOGIN: Final = -32000
_HALVES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
Model = TypeVar("Model", bound=BaseModel)


class AcpDialogue:
    """One prompt of a session, with an agent that may say anything in any order."""

    def __init__(
        self, opening: SessionParameters, *, most_bytes: int = MOST_BYTES, most_messages: int = MOST_MESSAGES
    ) -> None:
        """`most_bytes`, `most_messages`: what it may tell."""
        self._opening = opening
        self._most = (most_bytes, most_messages)
        self._out = bytearray()
        self._asked: dict[int, str] = {}
        self._next = 0
        self._session = ""
        self._agent = schema.AgentCapabilities()
        self._logins: frozenset[str] = frozenset()
        self._heard = [0, 0, 0]
        self._pieces: list[str] = []
        self._tools: dict[str, ToolRequest] = {}
        self._untold: dict[str, bool] = {}
        self._wishes: dict[int, tuple[Any, tuple[PermissionOption, ...]]] = {}
        self._cost = 0.0
        self._tokens = 0
        self._denied = False
        self.ready = False
        """Whether it was given its prompt."""
        self.over = False
        """Whether all is said."""
        self.broken = False
        """Whether it does not keep to the protocol."""
        self.stopping = False
        """Whether it was told to stop."""

    @property
    def awaited(self) -> str:
        """What it has not answered."""
        return next(iter(self._asked.values()), "")

    def take_output(self) -> bytes:
        """What is to be said to it."""
        said = bytes(self._out)
        self._out.clear()
        return said

    def begin(self) -> None:
        """Say who we are, and that it gets neither files nor terminals of ours: it has its own."""
        capabilities = schema.ClientCapabilities(
            fs=schema.FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False
        )
        name = schema.Implementation(name="agenttalk", title="AgentTalk", version="1")
        self._ask(
            "initialize",
            schema.InitializeRequest(
                protocol_version=PROTOCOL_VERSION, client_capabilities=capabilities, client_info=name
            ),
        )

    def cancel(self) -> None:
        """Tell it to stop, and that nothing it waits for is permitted any more."""
        if self.over or self.stopping:
            return
        self.stopping = True
        if self._session:
            self._say("session/cancel", schema.CancelNotification(session_id=self._session))
        for number in list(self._wishes):
            self._ruled(number, None)

    def give_up(self, why: str) -> Iterator[AgentEvent]:
        """Say no more to it."""
        yield from self._told_all()
        yield from self._break(why)

    def receive_line(self, line: bytes) -> Iterator[AgentEvent | PermissionRequest]:
        """A line of what it prints."""
        if self.over or not line.strip():
            return
        self._heard[0] += len(line)
        self._heard[1] += 1
        if self._heard[0] > self._most[0] or self._heard[1] > self._most[1]:
            mib = self._most[0] // 1024 // 1024
            yield from self.give_up(f"it told more than {mib} MiB or {self._most[1]} messages in one prompt")
            return
        said = _read(line)
        if said is None:
            yield from self._garbage(line)
        elif isinstance(said.get("method"), str):
            yield from self._addressed(said["method"], said)
        elif "id" in said:
            yield from self._answered(said)
        else:
            yield from self._garbage(line)

    def answer_permission(self, asks: PermissionRequest, *, allow: bool) -> bool:
        """Tell it whether it may. An answer that it does not offer is a refusal."""
        _, options = self._wishes.get(asks.number, (None, ()))
        chosen = permissions.choose_option(options, allow=allow)
        self._denied = self._denied or not allow or chosen is None
        self._ruled(asks.number, chosen)
        return allow and chosen is not None

    def _ruled(self, number: int, chosen: str | None) -> None:
        """Answer a wish; without an answer that was offered, as the protocol says that there will be none."""
        request_id, _ = self._wishes.pop(number, (None, ()))
        outcome = (
            schema.DeniedOutcome(outcome="cancelled")
            if chosen is None
            else schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )
        if request_id is not None:
            self._reply(request_id, result=_plain(schema.RequestPermissionResponse(outcome=outcome)))

    def _garbage(self, line: bytes) -> Iterator[AgentEvent]:
        self._heard[2] += 1
        shown = " ".join(line[:_SHOWN].decode(errors="replace").replace("\0", "\ufffd").split())
        yield AgentEvent("warning", f"it printed what is no message: {shown}")
        if self._heard[2] > MOST_GARBAGE:
            yield from self.give_up(f"it printed more than {MOST_GARBAGE} lines that are no messages, as: {shown}")

    def _break(self, why: str) -> Iterator[AgentEvent]:
        self.over = self.broken = True
        yield AgentEvent("error", f"it does not keep to the Agent Client Protocol: {why}")

    def _fail(self, why: str) -> Iterator[AgentEvent]:
        yield from self._told_all()
        self.over = True
        yield AgentEvent("error", why)

    def _addressed(self, method: str, said: Mapping[str, Any]) -> Iterator[AgentEvent | PermissionRequest]:
        """It tells or asks something."""
        request_id = said.get("id")
        asks = isinstance(request_id, int | str) and not isinstance(request_id, bool)
        if method == CLIENT_METHODS["session_update"] and not asks:
            yield from self._updated(said.get("params"))
        elif method == CLIENT_METHODS["session_request_permission"] and asks:
            yield from self._wished(request_id, said.get("params"))
        elif asks:
            self._reply(request_id, error={"code": _NO_METHOD, "message": f"{method[:80]} is not offered here"})
            yield AgentEvent("warning", f"it asked for {method[:80]}, which is not offered to it")

    def _wished(self, request_id: Any, params: object) -> Iterator[AgentEvent | PermissionRequest]:
        wanted = _checked(schema.RequestPermissionRequest, params)
        if wanted is None or wanted.session_id != self._session or len(self._wishes) >= MOST_WISHES:
            self._reply(request_id, error={"code": _WRONG, "message": "this cannot be asked here"})
            yield AgentEvent("warning", "it asked for a permission in a way that cannot be answered")
            return
        if self.stopping:
            self._reply(request_id, result={"outcome": {"outcome": "cancelled"}})
            return
        yield from self._told_text()
        wish = self._wish(wanted.tool_call, asks=True)
        if wanted.tool_call.tool_call_id in self._tools:
            self._tools[wanted.tool_call.tool_call_id] = wish
        yield from self._told_tool(wanted.tool_call.tool_call_id)
        self._next += 1
        self._wishes[self._next] = (
            request_id,
            tuple(PermissionOption(each.option_id, each.kind) for each in wanted.options),
        )
        yield PermissionRequest(self._next, wish)

    def _wish(self, call: schema.ToolCall | schema.ToolCallUpdate, *, asks: bool = False) -> ToolRequest:
        """What a tool is called for. A call is told of in pieces, of which the later ones say what changes."""
        known = self._tools.get(call.tool_call_id, ToolRequest("other", ""))
        tool = acp_tool_calls.find_own_tool(call) if self._opening.servers else ""
        if tool or (known.tool and not asks):  # who asks has to say itself that it asks for ours
            return acp_tool_calls.read_own_call(call, tool or known.tool, known)
        return acp_tool_calls.read_tool_call(call, known)

    def _updated(self, params: object) -> Iterator[AgentEvent]:
        told = _checked(schema.SessionNotification, params)
        if told is None or not self.ready or told.session_id != self._session:
            return  # what is new in the protocol, or old: a session that is loaded is told from its beginning
        update = told.update
        if isinstance(update, schema.AgentMessageChunk):
            if isinstance(update.content, schema.TextContentBlock) and len(self._pieces) < _PIECES:
                self._pieces.append(update.content.text.replace("\0", "\ufffd"))
            if tokens := _tokens(acp_tool_calls.read_meta(update.field_meta, "usage"), "totalTokens"):
                self._tokens += tokens
                billed = BilledTokens(self._tokens)  # nobody says which of them were written, which cost more
                yield AgentEvent("usage", used=UsageTotals(self._tokens, self._cost), request="turn", billed=billed)
        elif isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            yield from self._told_text()
            yield from self._called(update)
        elif isinstance(update, schema.UsageUpdate):
            if update.cost is not None and update.cost.currency == "USD":
                self._cost = measure_usage({"cost_usd": update.cost.amount}).cost_usd
            yield AgentEvent("usage", used=UsageTotals(measure_usage({"tokens": update.used}).tokens, self._cost))

    def _called(self, call: schema.ToolCallStart | schema.ToolCallProgress) -> Iterator[AgentEvent]:
        """A tool is called, which is told once, when it is known what for: some say that only after a while."""
        number = call.tool_call_id
        if number not in self._tools:
            self._untold[number] = True
        wish = self._wish(call)
        self._tools[number] = wish
        if len(self._tools) > _REMEMBERED:
            first = next(iter(self._tools))
            yield from self._told_tool(first)
            del self._tools[first]
        if call.raw_input or call.locations or call.status in {"completed", "failed"}:
            yield from self._told_tool(number)

    def _told_tool(self, *numbers: str) -> Iterator[AgentEvent]:
        for number in numbers:
            if self._untold.pop(number, False):
                wish = self._tools[number]
                yield AgentEvent("tool", wish.about or ", ".join(wish.paths), wish.kind)

    def _told_all(self) -> Iterator[AgentEvent]:
        """What was kept back, when nothing more comes."""
        yield from self._told_tool(*self._untold)
        yield from self._told_text()

    def _told_text(self) -> Iterator[AgentEvent]:
        text = "".join(self._pieces)
        self._pieces.clear()
        if text.strip():
            yield AgentEvent("text", text)

    def _answered(self, said: Mapping[str, Any]) -> Iterator[AgentEvent]:
        number = said.get("id")
        method = self._asked.pop(number, "") if isinstance(number, int) and not isinstance(number, bool) else ""
        if not method:
            yield from self.give_up(f"it answered what nobody asked ({str(number)[:40]})")
        elif "error" in said or "result" not in said:
            yield from self._refused(method, said.get("error"))
        else:
            yield from _ANSWERS[method](self, said["result"])

    def _refused(self, method: str, error: object) -> Iterator[AgentEvent]:
        told = error if isinstance(error, dict) else {}
        words = str(told.get("message") or "no reason is given")
        data = told.get("data")
        more = str(data.get("details") or data.get("message") or "") if isinstance(data, dict) else str(data or "")
        if more and more not in words:
            words = f"{words}: {more}"
        if method == "session/load":
            yield AgentEvent("warning", f"the session cannot go on, so there is a new one: {words[:_SHOWN]}")
            self._open_new()
            return
        hint = "; it is not logged in" if told.get("code") == _LOGIN else ""
        yield from self._fail(f"{words[:2000]} ({method}{hint})")

    def _initialized(self, result: object) -> Iterator[AgentEvent]:
        """It says which version it speaks. The package takes some texts for numbers; here a version is a number."""
        version = result.get("protocolVersion") if isinstance(result, dict) else None
        if version != PROTOCOL_VERSION or isinstance(version, bool):
            yield from self.give_up(f"it speaks version {str(version)[:40]}, and we speak {PROTOCOL_VERSION}")
            return
        found = _checked(schema.InitializeResponse, result)
        if found is None:
            yield from self.give_up("what it says of itself cannot be read")
            return
        self._agent = found.agent_capabilities or self._agent
        self._logins = frozenset(each.id for each in found.auth_methods or ())
        if self._opening.auth in self._logins:
            self._ask("authenticate", schema.AuthenticateRequest(method_id=self._opening.auth))
        else:
            self._open()

    def _authenticated(self, _: object) -> Iterator[AgentEvent]:
        self._open()
        yield from ()

    def _open(self) -> None:
        if self._opening.session and self._agent.load_session:
            self._session = self._opening.session
            self._ask("session/load", schema.LoadSessionRequest(session_id=self._session, **self._where()))
        else:
            self._open_new()

    def _open_new(self) -> None:
        self._session = ""
        self._ask("session/new", schema.NewSessionRequest(**self._where()))

    def _where(self) -> dict[str, Any]:
        where: dict[str, Any] = {"cwd": self._opening.cwd, "mcp_servers": list(self._opening.servers)}
        if self._opening.servers and self._opening.meta:
            where["field_meta"] = dict(self._opening.meta)
        offered = self._agent.session_capabilities
        if offered is not None and offered.additional_directories is not None and self._opening.besides:
            where["additional_directories"] = list(self._opening.besides)
        return where

    def _opened(self, result: object) -> Iterator[AgentEvent]:
        found = _checked(schema.NewSessionResponse, result)
        if found is None or not found.session_id:
            yield from self.give_up("it opened a session without saying which")
            return
        self._session = found.session_id
        yield from self._settled(found.modes)

    def _loaded(self, result: object) -> Iterator[AgentEvent]:
        found = _checked(schema.LoadSessionResponse, result or {})
        yield from self._settled(found.modes if found else None)

    def _settled(self, modes: schema.SessionModeState | None) -> Iterator[AgentEvent]:
        """There is a session: put it into its mode, or give it the prompt. One that can be loaded has a name for us."""
        yield AgentEvent("session", self._session if self._agent.load_session else "")
        wanted = self._opening.mode
        if wanted and (modes is None or wanted not in {each.id for each in modes.available_modes}):
            offered = ", ".join(each.id for each in modes.available_modes) if modes else "none"
            yield from self._fail(f"it has no mode {wanted[:40]!r}; it offers: {offered[:_SHOWN]}")
        elif modes is not None and wanted and modes.current_mode_id != wanted:
            request = schema.SetSessionModeRequest(session_id=self._session, mode_id=wanted)
            self._ask("session/set_mode", request)
        else:
            self._prompt()

    def _moded(self, _: object) -> Iterator[AgentEvent]:
        self._prompt()
        yield from ()

    def _prompt(self) -> None:
        self.ready = True
        opening = self._opening
        goes_on = bool(opening.session) and self._session == opening.session
        said = opening.prompt if goes_on or not opening.anew else opening.anew
        text = schema.TextContentBlock(type="text", text=said)
        self._ask("session/prompt", schema.PromptRequest(session_id=self._session, prompt=[text]))

    def _stopped(self, result: object) -> Iterator[AgentEvent]:
        """It says why it stopped. That it is finished is a claim."""
        yield from self._told_all()
        reason = result.get("stopReason") if isinstance(result, dict) else None
        found = _checked(schema.PromptResponse, result)
        if found is not None:
            counted = acp_tool_calls.read_meta(found.field_meta, "quota", "token_count")
            tokens = found.usage.total_tokens if found.usage else _tokens(counted, "input_tokens", "output_tokens")
            if tokens:
                yield AgentEvent("usage", used=UsageTotals(measure_usage({"tokens": tokens}).tokens, self._cost))
        if found is None:
            yield from self.give_up(f"it stopped for a reason that nobody knows: {str(reason)[:40]!r}")
        elif found.stop_reason == "end_turn" or (found.stop_reason == "cancelled" and self._denied):
            self.over = True
            yield AgentEvent("end")
        else:
            yield from self._fail(_REFUSALS[found.stop_reason])

    def _ask(self, method: str, params: BaseModel) -> None:
        number = self._next
        self._next += 1
        self._asked[number] = method
        self._write({"jsonrpc": "2.0", "id": number, "method": method, "params": _plain(params)})

    def _say(self, method: str, params: BaseModel) -> None:
        self._write({"jsonrpc": "2.0", "method": method, "params": _plain(params)})

    def _reply(self, request_id: Any, **said: Any) -> None:
        self._write({"jsonrpc": "2.0", "id": request_id, **said})

    def _write(self, message: dict[str, Any]) -> None:
        self._out += wire.write(message) + b"\n"


_ANSWERS: Final = {
    AGENT_METHODS["initialize"]: AcpDialogue._initialized,  # noqa: SLF001 - its own
    AGENT_METHODS["authenticate"]: AcpDialogue._authenticated,  # noqa: SLF001
    AGENT_METHODS["session_new"]: AcpDialogue._opened,  # noqa: SLF001
    AGENT_METHODS["session_load"]: AcpDialogue._loaded,  # noqa: SLF001
    AGENT_METHODS["session_set_mode"]: AcpDialogue._moded,  # noqa: SLF001
    AGENT_METHODS["session_prompt"]: AcpDialogue._stopped,  # noqa: SLF001
}
"""What was asked → what the answer to it does."""


def _read(line: bytes) -> dict[str, Any] | None:
    """A message; None for anything else. Half a character is left out: texts come in pieces, and are cut anywhere."""
    try:
        said = wire.read(line, limit=LONGEST)
    except JsonError:
        whole = _HALVES.sub(rb"\\ufffd", line)
        return _read(whole) if whole != line else None
    return said if isinstance(said, dict) else None


def _checked(model: type[Model], said: object) -> Model | None:
    """What was said, if it is what the protocol says that it is."""
    try:
        return model.model_validate(said)
    except (ValidationError, RecursionError):
        return None


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _tokens(said: Mapping[str, Any], *keys: str) -> int:
    return sum(measure_usage({"tokens": said.get(key)}).tokens for key in keys if said.get(key) is not None)
