"""Codecs that read the output of coding agents: lines go in, events come out. No line raises an error.

A codec is chosen by its name in the table of coding agents (`rules.agents.cli_table`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import JsonError
from agenttalk.rules.agents import progress_notes
from agenttalk.rules.agents.events import AgentEvent, describe_arguments, find_file, matches
from agenttalk.rules.agents.results import text_of
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.budgets.provider_limits import SignalledLimit
from agenttalk.rules.core import usage
from agenttalk.rules.core.usage import NOTHING, BilledTokens, UsageTotals

LONGEST: Final = 8 * 1024 * 1024
"""The most bytes of a line."""
_REMEMBERED: Final = 1_000
_PIECES: Final = 20_000
"""The most pieces of one text."""
_NUMBER: Final = re.compile(r"([\d.,]+)\s*([kKmM]?)")
_CUT_OFF: Final = 1024
"""The most bytes that completing a truncated line adds."""
_TOKEN: Final = re.compile(rb'"(?:[^"\\]+|\\.)*+(?P<end>"|\\?\Z)|[{}\[\],]', re.DOTALL)
"""The tokens that show where a line of JSON was cut: texts, brackets and commas."""
_HALF_ESCAPE: Final = re.compile(rb"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


class Codec(Protocol):
    """Reads the output of one run."""

    says_end: bool
    """Whether its agents report their end."""

    def read_line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of a line."""

    def close(self) -> Iterator[AgentEvent]:
        """Yield the remaining events at the end of the output."""


def _read(line: bytes) -> dict[str, Any]:
    if not line.lstrip().startswith(b"{"):
        return {}
    for text in (line, *_completed(line)):
        try:
            said = wire.read(text, limit=LONGEST + _CUT_OFF)
        except JsonError:
            continue
        return said if isinstance(said, dict) else {}
    return {}


def _completed(line: bytes) -> Iterator[bytes]:
    """Complete a truncated line of JSON: first at its end, then before the member in which it was cut.

    A program that writes a long line to a pipe and exits at once leaves only the line's beginning.
    """
    inside, brackets, comma = False, bytearray(), 0
    for token in _TOKEN.finditer(line):
        first = token[0][:1]
        if first == b'"':
            inside = token["end"] != b'"'
        elif first in b"{[":
            brackets += b"}" if first == b"{" else b"]"
        elif first in b"}]":
            del brackets[-1:]
        elif len(brackets) == 1:
            comma = token.start()
    if not brackets:
        return
    text = _HALF_ESCAPE.sub(rb"\1", line).decode(errors="ignore").encode()
    yield text + ('…"'.encode() if inside else b"") + bytes(reversed(brackets))
    yield line[:comma] + b"}"


def _part(said: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """Return the object at a path of keys; an empty one if there is none."""
    found: Any = said
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _parts(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return value.replace("\0", "\ufffd") if isinstance(value, str) else ""


def _words(value: object) -> str:
    """Return the text of a result, which is a text or a list of parts with texts."""
    if isinstance(value, str):
        return value
    return " ".join(_text(each, "text") for each in _parts(value))


def _sum(said: Mapping[str, Any], *keys: str) -> int:
    return sum(usage.measure_usage({"tokens": said.get(key)}).tokens for key in keys)


def _cost(said: Mapping[str, Any], key: str) -> float:
    return usage.measure_usage({"cost_usd": said.get(key)}).cost_usd


class _RecentEntries(dict[str, Any]):
    """The most recent entries by name. The oldest is dropped, so that an endless output does not fill our memory."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        if len(self) > _REMEMBERED:
            del self[next(iter(self))]


class _StreamCodec:
    """A codec that reports every event at once."""

    says_end = True

    def __init__(self, denied: Sequence[re.Pattern[str]] = ()) -> None:
        self._denied = denied

    def close(self) -> Iterator[AgentEvent]:
        """Yield nothing."""
        yield from ()

    def _refused(self, tool: str, said: str) -> Iterator[AgentEvent]:
        """Report that a tool was not permitted, if its answer matches one of the patterns."""
        if matches(self._denied, said):
            yield AgentEvent("denied", said, tool)


class ClaudeCodec(_StreamCodec):
    """The stream of Claude Code (`stream-json`), which Qwen Code speaks too."""

    def __init__(self, denied: Sequence[re.Pattern[str]] = ()) -> None:
        super().__init__(denied)
        self._counted = _RecentEntries()
        """Message → its tokens so far; a message is reported piece by piece."""
        self._tokens = 0
        self._calls = _RecentEntries()
        self._told = _RecentEntries()
        self._resets_at: float | None = None
        """When a limit of the subscription passes that rejected the last request."""

    def read_line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of a line."""
        said = _read(line)
        match said.get("type"), said.get("subtype"):
            case "system", "init":
                yield AgentEvent("session", _text(said, "session_id"), _text(said, "model"))
            case "system", "permission_denied":
                yield from self._denial(said, _text(said, "message"))
            case "assistant", _:
                yield from self._answered(_part(said, "message"))
            case "user", _:
                yield from self._returned(_part(said, "message"))
            case "rate_limit_event", _:
                self._note_limit(_part(said, "rate_limit_info"))
            case "result", _:
                yield from self._over(said)

    def _answered(self, message: dict[str, Any]) -> Iterator[AgentEvent]:
        for block in _parts(message.get("content")):
            if block.get("type") == "text" and _text(block, "text"):
                yield AgentEvent("text", _text(block, "text"))
            elif block.get("type") == "tool_use":
                self._calls[_text(block, "id")] = _text(block, "name")
                given = block.get("input")
                yield AgentEvent("tool", describe_arguments(given), _text(block, "name"), file=find_file(given))
        tokens = _claude_tokens(_part(message, "usage"))
        if tokens:
            self._tokens += tokens - self._counted.get(_text(message, "id"), 0)
            self._counted[_text(message, "id")] = tokens
            billed = _claude_bill(_part(message, "usage"))
            yield AgentEvent("usage", used=UsageTotals(self._tokens), request=_text(message, "id"), billed=billed)

    def _returned(self, message: dict[str, Any]) -> Iterator[AgentEvent]:
        for block in _parts(message.get("content")):
            if block.get("type") == "tool_result" and block.get("is_error") is True:
                name = _text(block, "tool_use_id")
                if name not in self._told and matches(self._denied, _words(block.get("content"))):
                    self._told[name] = True
                    yield AgentEvent("denied", _words(block.get("content")), self._calls.get(name, ""))

    def _denial(self, said: dict[str, Any], why: str) -> Iterator[AgentEvent]:
        name = _text(said, "tool_use_id")
        if name not in self._told or not name:
            self._told[name] = True
            yield AgentEvent("denied", why, _text(said, "tool_name"))

    def _over(self, said: dict[str, Any]) -> Iterator[AgentEvent]:
        yield AgentEvent("usage", used=UsageTotals(_claude_tokens(_part(said, "usage")), _cost(said, "total_cost_usd")))
        for each in _parts(said.get("permission_denials")):
            yield from self._denial(each, describe_arguments(each.get("tool_input")))
        if said.get("is_error") is False and said.get("subtype") == "success":
            yield AgentEvent("end", _text(said, "result"))
        else:
            why = _text(said, "result") or _text(_part(said, "error"), "message") or _text(said, "subtype")
            yield AgentEvent("error", why, limit=self._limit(said))

    def _note_limit(self, said: dict[str, Any]) -> None:
        resets_at = said.get("resetsAt")
        rejected = said.get("status") == "rejected" and isinstance(resets_at, int | float)
        self._resets_at = float(resets_at) if rejected and resets_at is not None else None

    def _limit(self, said: dict[str, Any]) -> SignalledLimit | None:
        if said.get("api_error") == "usage_limit_reached":
            return SignalledLimit("usage", self._resets_at)
        return provider_limits.read_status(said.get("api_error_status"), said.get("api_error_type"))


def _claude_tokens(said: dict[str, Any]) -> int:
    return _sum(said, "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def _claude_bill(said: dict[str, Any]) -> BilledTokens:
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return BilledTokens(*(_sum(said, name) for name in names))


class CodexCodec(_StreamCodec):
    """The stream of Codex (`codex exec --json`). It reports its usage at the end of a turn."""

    def __init__(self, denied: Sequence[re.Pattern[str]] = ()) -> None:
        super().__init__(denied)
        self._begun = _RecentEntries()

    def read_line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of a line."""
        said = _read(line)
        match said.get("type"):
            case "thread.started":
                yield AgentEvent("session", _text(said, "thread_id"))
            case "item.started" | "item.updated":
                yield from self._tool(_part(said, "item"))
            case "item.completed":
                yield from self._item(_part(said, "item"))
            case "turn.completed":
                told = _part(said, "usage")
                read, written, cached = (_sum(told, f"{name}_tokens") for name in ("input", "output", "cached_input"))
                billed = BilledTokens(max(0, read - cached), written, cached)
                yield AgentEvent("usage", used=UsageTotals(read + written), request="turn", billed=billed)
                yield AgentEvent("end")
            case "turn.failed":
                yield AgentEvent("error", _text(_part(said, "error"), "message"))
            case "error":
                yield AgentEvent("warning", _text(said, "message"))

    def _tool(self, item: dict[str, Any]) -> Iterator[AgentEvent]:
        """Report a tool that begins, or one that ended without a begin."""
        name, number = _text(item, "type"), _text(item, "id")
        if name not in _CODEX_TOOLS or number in self._begun:
            return
        self._begun[number] = True
        called = f"{_text(item, 'server')}.{_text(item, 'tool')}" if name == "mcp_tool_call" else name
        changed = next((_text(each, "path") for each in _parts(item.get("changes"))), "")
        yield AgentEvent("tool", _CODEX_TOOLS[name](item), called, file=changed)

    def _item(self, item: dict[str, Any]) -> Iterator[AgentEvent]:
        yield from self._tool(item)
        match item.get("type"):
            case "agent_message":
                yield AgentEvent("text", _text(item, "text"))
            case "error":
                yield AgentEvent("warning", _text(item, "message"))
            case str(kind) if item.get("status") == "declined":
                yield AgentEvent("denied", describe_arguments(item), kind)
            case str(kind) if item.get("status") == "failed":
                failed = f"{_text(item, 'aggregated_output')} {_text(_part(item, 'error'), 'message')}"
                yield from self._refused(kind, failed.strip())


def _changed(item: dict[str, Any]) -> str:
    return ", ".join(_text(each, "path") for each in _parts(item.get("changes")))


_CODEX_TOOLS: Final[Mapping[str, Callable[[dict[str, Any]], str]]] = {
    "command_execution": describe_arguments,
    "web_search": describe_arguments,
    "file_change": _changed,
    "mcp_tool_call": lambda item: describe_arguments(item.get("arguments")),
}


class GeminiCodec(_StreamCodec):
    """The stream of Gemini CLI (`stream-json`), which reports a text piece by piece."""

    def __init__(self, denied: Sequence[re.Pattern[str]] = ()) -> None:
        super().__init__(denied)
        self._pieces: list[str] = []
        self._calls = _RecentEntries()

    def read_line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of a line."""
        said = _read(line)
        kind = said.get("type")
        if kind == "message" and said.get("role") == "assistant":
            if len(self._pieces) < _PIECES:
                self._pieces.append(_text(said, "content"))
            return
        yield from self.close()
        match kind:
            case "init":
                yield AgentEvent("session", _text(said, "session_id"), _text(said, "model"))
            case "tool_use":
                self._calls[_text(said, "tool_id")] = _text(said, "tool_name")
                given = said.get("parameters")
                yield AgentEvent("tool", describe_arguments(given), _text(said, "tool_name"), file=find_file(given))
            case "tool_result" if said.get("status") == "error":
                error = _part(said, "error")
                why = _text(error, "message") or _text(said, "output") or _text(error, "type")
                yield from self._refused(self._calls.get(_text(said, "tool_id"), ""), why)
            case "error":
                yield AgentEvent("warning", _text(said, "message"))
            case "result":
                told = _part(said, "stats")
                read, written, cached = (_sum(told, name) for name in ("input_tokens", "output_tokens", "cached"))
                billed = BilledTokens(max(0, read - cached), written, cached)
                yield AgentEvent("usage", used=UsageTotals(_sum(told, "total_tokens")), request="turn", billed=billed)
                ok = said.get("status") == "success"
                yield AgentEvent("end") if ok else AgentEvent("error", _text(_part(said, "error"), "message"))

    def close(self) -> Iterator[AgentEvent]:
        """Yield the text so far."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if text:
            yield AgentEvent("text", text)


class OpenCodeCodec(_StreamCodec):
    """The stream of OpenCode (`--format json`), which counts step by step."""

    def __init__(self, denied: Sequence[re.Pattern[str]] = ()) -> None:
        super().__init__(denied)
        self._session = ""
        self._used = NOTHING

    def read_line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of a line."""
        said = _read(line)
        part, session = _part(said, "part"), _text(said, "sessionID")
        if session != self._session:
            self._session = session
            yield AgentEvent("session", session)
        match said.get("type"):
            case "text":
                yield AgentEvent("text", _text(part, "text"))
            case "tool_use":
                state = _part(part, "state")
                given = state.get("input")
                yield AgentEvent("tool", describe_arguments(given), _text(part, "tool"), file=find_file(given))
                if state.get("status") == "error":
                    yield from self._refused(_text(part, "tool"), _text(state, "error"))
            case "step_finish":
                yield from self._finished(part)
            case "error":
                error = _part(said, "error")
                data = _part(error, "data")
                limit = provider_limits.read_status(data.get("statusCode"))
                yield AgentEvent("error", _text(data, "message") or _text(error, "name"), limit=limit)

    def _finished(self, part: dict[str, Any]) -> Iterator[AgentEvent]:
        tokens = _part(part, "tokens")
        count = _sum(tokens, "input", "output", "reasoning") + _sum(_part(tokens, "cache"), "read", "write")
        self._used = self._used.plus(UsageTotals(count, _cost(part, "cost")))
        cache = _part(tokens, "cache")
        billed = BilledTokens(
            _sum(tokens, "input"), _sum(tokens, "output", "reasoning"), _sum(cache, "read"), _sum(cache, "write")
        )
        yield AgentEvent("usage", used=self._used, request=_text(part, "id") or "step", billed=billed)
        if part.get("reason") == "stop":
            yield AgentEvent("end")


class TextCodec:
    """Any output of a program. All of it is the program's text, except lines that match a pattern.

    A pattern for usage has the groups `read`, `written` and `cost`, one for actions `tool` and `about`.
    Progress notes (`{"agenttalk": …}`) count, too.
    """

    says_end = False

    def __init__(
        self,
        denied: Sequence[re.Pattern[str]] = (),
        failed: Sequence[re.Pattern[str]] = (),
        acted: re.Pattern[str] | None = None,
        counted: re.Pattern[str] | None = None,
    ) -> None:
        self._denied = denied
        self._failed = failed
        self._acted = acted
        self._counted = counted
        self._used = NOTHING
        self._lines: list[str] = []

    def read_line(self, line: bytes) -> Iterator[AgentEvent]:
        """Yield the events of a line."""
        note = progress_notes.read_note(line)
        if note is not None:
            self._used = self._used.max_with(usage.measure_usage(note.usage))
            yield AgentEvent("usage", used=self._used)
            if note.progress:
                yield AgentEvent("tool", note.progress)
            return
        text = text_of(line)
        if found := _groups(self._counted, text):
            tokens = int(_number(found.get("read")) + _number(found.get("written")))
            self._used = UsageTotals(self._used.tokens + tokens, max(self._used.cost_usd, _number(found.get("cost"))))
            yield AgentEvent("usage", used=self._used)
        elif found := _groups(self._acted, text):
            yield AgentEvent("tool", found.get("about") or "", found.get("tool") or "")
        elif matches(self._denied, text):
            yield AgentEvent("denied", text)
        elif matches(self._failed, text):
            yield AgentEvent("error", text)
        elif len(self._lines) < _PIECES:
            self._lines.append(text)

    def close(self) -> Iterator[AgentEvent]:
        """Yield the whole text."""
        text = "\n".join(self._lines).strip()
        self._lines.clear()
        if text:
            yield AgentEvent("text", text)


def _groups(pattern: re.Pattern[str] | None, text: str) -> dict[str, str | None]:
    """Return the named groups of a pattern in a text; empty without a pattern or a match."""
    found = pattern.search(text) if pattern else None
    return found.groupdict() if found else {}


def _number(text: str | None) -> float:
    """Read a number as people write it: 1,200 or 1.2k."""
    found = _NUMBER.match(text or "")
    if found is None:
        return 0.0
    try:
        value = float(found[1].replace(",", ""))
    except ValueError:
        return 0.0
    return value * {"": 1, "k": 1_000, "m": 1_000_000}[found[2].lower()]


CODECS: Final = ("claude", "codex", "gemini", "opencode", "text")
"""Names of codecs."""


def make_codec(
    name: str, denied: Sequence[str] = (), failed: Sequence[str] = (), *, acted: str = "", counted: str = ""
) -> Codec:
    """Make the codec of a name, for one run. Raises ValueError for an unknown name or an invalid pattern."""
    try:
        not_permitted = tuple(re.compile(each) for each in denied)
        wrong = tuple(re.compile(each) for each in failed)
        acts, counts = (re.compile(each) if each else None for each in (acted, counted))
    except re.error as error:
        raise ValueError(f"a pattern for the output of a coding agent is wrong: {error}") from error
    match name:
        case "claude":
            return ClaudeCodec(not_permitted)
        case "codex":
            return CodexCodec(not_permitted)
        case "gemini":
            return GeminiCodec(not_permitted)
        case "opencode":
            return OpenCodeCodec(not_permitted)
        case "text":
            return TextCodec(not_permitted, wrong, acts, counts)
    raise ValueError(f"there is no codec {name[:40]!r}; there are: {', '.join(CODECS)}")
