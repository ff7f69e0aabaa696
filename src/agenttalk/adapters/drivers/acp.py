"""The Agent Client Protocol, version 1, from the client's side: lines go in, events and messages come out. No I/O.

Messages are checked with the models of `agent-client-protocol`, which are generated from the protocol's own schema.
Its connection class is not used: it starts a task for each line, buffers without a limit, logs what it cannot read,
and accepts answers to requests that were never made. An agent may be hostile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from acp import schema
from acp.meta import AGENT_METHODS, CLIENT_METHODS

from agenttalk.adapters.drivers.acp_session import (
    AcpOutput,
    AcpSession,
    PromptFailureError,
    ProtocolFaultError,
    dump,
    parse,
)
from agenttalk.adapters.drivers.acp_tool_calls import AcpReports, read_meta
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError
from agenttalk.ports.dialogues import PermissionRequest, SessionParameters
from agenttalk.rules.agents import permissions
from agenttalk.rules.agents.codecs import LONGEST
from agenttalk.rules.agents.events import AgentEvent
from agenttalk.rules.agents.permissions import PermissionOption
from agenttalk.rules.core.usage import BilledTokens, UsageTotals, measure_usage

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes that an agent may send for one prompt. An agent that sends more does not work but talk."""
MOST_MESSAGES: Final = 500_000
MOST_GARBAGE: Final = 100
"""Lines that are not messages of the protocol. A few come from programs that print greetings or warnings."""
MOST_WISHES: Final = 20
"""Permission requests that may be open at the same time."""
_SHOWN: Final = 200
_REFUSALS: Final[Mapping[str, str]] = {
    "refusal": "it refuses to go on (refusal)",
    "max_tokens": "it reached its token limit (max_tokens)",
    "max_turn_requests": "it reached its request limit (max_turn_requests)",
    "cancelled": "it reports that it was cancelled (cancelled)",
}
"""Stop reason other than success → message."""
_NO_METHOD: Final = -32601
_WRONG: Final = -32602
_LOGIN: Final = -32000
_HALVES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""One half of a surrogate pair without the other."""


class _OpenPermission(NamedTuple):
    request_id: int | str
    options: tuple[PermissionOption, ...]


class AcpDialogue:
    """One prompt of a session, with an agent that may send anything in any order. Implements `Dialogue`."""

    def __init__(
        self, opening: SessionParameters, *, most_bytes: int = MOST_BYTES, most_messages: int = MOST_MESSAGES
    ) -> None:
        self._most_bytes = most_bytes
        self._most_messages = most_messages
        self._output = AcpOutput()
        self._session = AcpSession(opening, self._output)
        self._reports = AcpReports(has_servers=bool(opening.servers))
        self._bytes = self._messages = self._garbage = 0
        self._permissions: dict[int, _OpenPermission] = {}
        self._cost = 0.0
        self._tokens = 0
        self._denied = False
        self.over = False
        """Whether the prompt has ended."""
        self.broken = False
        """Whether the agent does not follow the protocol."""
        self.stopping = False
        """Whether the agent was asked to stop."""

    @property
    def ready(self) -> bool:
        """Whether the agent has its prompt."""
        return self._session.prompted

    @property
    def awaited(self) -> str:
        """The request that the agent has not answered."""
        return self._output.awaited

    def take_output(self) -> bytes:
        """Return the messages to send."""
        return self._output.take()

    def begin(self) -> None:
        """Send the first request."""
        self._session.begin()

    def cancel(self) -> None:
        """Ask the agent to stop, and refuse everything that it waits for."""
        if self.over or self.stopping:
            return
        self.stopping = True
        if self._session.id:
            self._output.notify("session/cancel", schema.CancelNotification(session_id=self._session.id))
        for number in list(self._permissions):
            self._answer(number, None)

    def give_up(self, why: str) -> Iterator[AgentEvent]:
        """End the dialogue because the agent does not follow the protocol."""
        self.broken = True
        yield from self._fail(f"it does not keep to the Agent Client Protocol: {why}")

    def receive_line(self, line: bytes) -> Iterator[AgentEvent | PermissionRequest]:
        """Receive a line of the agent's output."""
        if self.over or not line.strip():
            return
        self._bytes += len(line)
        self._messages += 1
        if self._bytes > self._most_bytes or self._messages > self._most_messages:
            mib = self._most_bytes // 1024 // 1024
            yield from self.give_up(f"it sent more than {mib} MiB or {self._most_messages} messages in one prompt")
            return
        message = _read(line)
        if message is not None and isinstance(message.get("method"), str):
            yield from self._receive_call(message["method"], message)
        elif message is not None and "id" in message:
            yield from self._receive_answer(message)
        else:
            yield from self._receive_garbage(line)

    def answer_permission(self, asks: PermissionRequest, *, allow: bool) -> bool:
        """Allow or refuse. If the agent does not offer that option, it is refused."""
        open_ = self._permissions.get(asks.number)
        chosen = permissions.choose_option(open_.options if open_ else (), allow=allow)
        self._denied = self._denied or not allow or chosen is None
        self._answer(asks.number, chosen)
        return allow and chosen is not None

    def _answer(self, number: int, chosen: str | None) -> None:
        """Answer a permission request; None means "cancelled", which is the protocol's answer without an option."""
        open_ = self._permissions.pop(number, None)
        outcome = (
            schema.DeniedOutcome(outcome="cancelled")
            if chosen is None
            else schema.AllowedOutcome(outcome="selected", option_id=chosen)
        )
        if open_ is not None:
            self._output.reply(open_.request_id, result=dump(schema.RequestPermissionResponse(outcome=outcome)))

    def _fail(self, why: str) -> Iterator[AgentEvent]:
        yield from self._reports.flush()
        self.over = True
        yield AgentEvent("error", why)

    def _receive_garbage(self, line: bytes) -> Iterator[AgentEvent]:
        self._garbage += 1
        shown = " ".join(line[:_SHOWN].decode(errors="replace").replace("\0", "\ufffd").split())
        yield AgentEvent("warning", f"it printed a line that is not a message: {shown}")
        if self._garbage > MOST_GARBAGE:
            yield from self.give_up(
                f"it printed more than {MOST_GARBAGE} lines that are not messages, such as: {shown}"
            )

    def _receive_call(self, method: str, message: Mapping[str, Any]) -> Iterator[AgentEvent | PermissionRequest]:
        """Receive a notification or a request of the agent."""
        request_id = message.get("id")
        if not isinstance(request_id, int | str) or isinstance(request_id, bool):
            if method == CLIENT_METHODS["session_update"]:
                yield from self._receive_update(message.get("params"))
        elif method == CLIENT_METHODS["session_request_permission"]:
            yield from self._receive_permission_request(request_id, message.get("params"))
        else:
            self._output.reply(request_id, error={"code": _NO_METHOD, "message": f"{method[:80]} is not offered here"})
            yield AgentEvent("warning", f"it called {method[:80]}, which is not offered to it")

    def _receive_permission_request(
        self, request_id: int | str, params: object
    ) -> Iterator[AgentEvent | PermissionRequest]:
        request = parse(schema.RequestPermissionRequest, params)
        if request is None or request.session_id != self._session.id or len(self._permissions) >= MOST_WISHES:
            self._output.reply(request_id, error={"code": _WRONG, "message": "this cannot be requested here"})
            yield AgentEvent("warning", "it sent a permission request that cannot be answered")
            return
        if self.stopping:
            self._output.reply(request_id, result={"outcome": {"outcome": "cancelled"}})
            return
        yield from self._reports.flush_text()
        wish = self._reports.read_permission_request(request.tool_call)
        yield from self._reports.flush_calls(request.tool_call.tool_call_id)
        number = self._output.next_number()
        options = tuple(PermissionOption(option.option_id, option.kind) for option in request.options)
        self._permissions[number] = _OpenPermission(request_id, options)
        yield PermissionRequest(number, wish)

    def _receive_update(self, params: object) -> Iterator[AgentEvent]:
        notification = parse(schema.SessionNotification, params)
        if notification is None or not self.ready or notification.session_id != self._session.id:
            # New in the protocol, or old: an agent repeats a loaded session from its beginning.
            return
        update = notification.update
        if isinstance(update, schema.AgentMessageChunk):
            if isinstance(update.content, schema.TextContentBlock):
                self._reports.add_text(update.content.text)
            if tokens := _sum_tokens(read_meta(update.field_meta, "usage"), "totalTokens"):
                self._tokens += tokens
                # The agent does not tell how many of them are output tokens, which cost more.
                billed = BilledTokens(self._tokens)
                yield AgentEvent("usage", used=UsageTotals(self._tokens, self._cost), request="turn", billed=billed)
        elif isinstance(update, schema.ToolCallStart | schema.ToolCallProgress):
            yield from self._reports.flush_text()
            yield from self._reports.add_call(update)
        elif isinstance(update, schema.UsageUpdate):
            if update.cost is not None and update.cost.currency == "USD":
                self._cost = measure_usage({"cost_usd": update.cost.amount}).cost_usd
            yield AgentEvent("usage", used=UsageTotals(measure_usage({"tokens": update.used}).tokens, self._cost))

    def _receive_answer(self, message: Mapping[str, Any]) -> Iterator[AgentEvent]:
        session, number = self._session, message.get("id")
        accept = {
            AGENT_METHODS["initialize"]: session.accept_version,
            AGENT_METHODS["authenticate"]: session.accept_login,
            AGENT_METHODS["session_new"]: session.accept_new,
            AGENT_METHODS["session_load"]: session.accept_loaded,
            AGENT_METHODS["session_set_mode"]: session.accept_mode,
            AGENT_METHODS["session_prompt"]: self._receive_end,
        }
        method = self._output.match_answer(number)
        if not method:
            yield from self.give_up(f"it answered a request that was not made ({str(number)[:40]})")
            return
        try:
            if "error" in message or "result" not in message:
                yield from self._receive_error(method, message.get("error"))
            else:
                yield from accept[method](message["result"])
        except ProtocolFaultError as error:
            yield from self.give_up(str(error))
        except PromptFailureError as error:
            yield from self._fail(str(error))

    def _receive_error(self, method: str, error: object) -> Iterator[AgentEvent]:
        fields = error if isinstance(error, dict) else {}
        text = str(fields.get("message") or "no reason is given")
        data = fields.get("data")
        detail = str(data.get("details") or data.get("message") or "") if isinstance(data, dict) else str(data or "")
        if detail and detail not in text:
            text = f"{text}: {detail}"
        if method == AGENT_METHODS["session_load"]:
            yield AgentEvent("warning", f"the session cannot be continued, so a new one is opened: {text[:_SHOWN]}")
            self._session.open_new()
            return
        hint = "; it is not logged in" if fields.get("code") == _LOGIN else ""
        raise PromptFailureError(f"{text[:2000]} ({method}{hint})")

    def _receive_end(self, result: object) -> Iterator[AgentEvent]:
        """Receive why the agent stopped. That it has finished is a claim."""
        yield from self._reports.flush()
        answer = parse(schema.PromptResponse, result)
        if answer is None:
            reason = result.get("stopReason") if isinstance(result, dict) else None
            raise ProtocolFaultError(f"it stopped for an unknown reason: {str(reason)[:40]!r}")
        quota = read_meta(answer.field_meta, "quota", "token_count")
        tokens = answer.usage.total_tokens if answer.usage else _sum_tokens(quota, "input_tokens", "output_tokens")
        if tokens:
            yield AgentEvent("usage", used=UsageTotals(measure_usage({"tokens": tokens}).tokens, self._cost))
        if answer.stop_reason == "end_turn" or (answer.stop_reason == "cancelled" and self._denied):
            self.over = True
            yield AgentEvent("end")
        else:
            raise PromptFailureError(_REFUSALS[answer.stop_reason])


def _read(line: bytes) -> dict[str, Any] | None:
    """Read a message; None for anything else.

    Half a surrogate pair is replaced: agents cut a text into chunks at any place.
    """
    try:
        message = wire.read(line, limit=LONGEST)
    except JsonError:
        whole = _HALVES.sub(rb"\\ufffd", line)
        return _read(whole) if whole != line else None
    return message if isinstance(message, dict) else None


def _sum_tokens(counts: Mapping[str, Any], *keys: str) -> int:
    return sum(measure_usage({"tokens": counts.get(key)}).tokens for key in keys if counts.get(key) is not None)
