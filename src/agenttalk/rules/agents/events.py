"""What a coding agent tells while it runs, and what that comes to."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError
from agenttalk.rules.core.usage import NOTHING, UNBILLED, BilledTokens, UsageTotals
from agenttalk.rules.text import answer_words, verdict_words

Kind = Literal["session", "text", "tool", "usage", "asked", "denied", "warning", "error", "end"]
Totals = Literal["tokens", "cost_usd"]
_SHOWN: Final = 200
_LONGEST: Final = 16 * 1024
"""Characters of a text that are kept for whoever looks on."""
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
_DENIALS: Final = 20
_ANSWERS: Final = ("result", "decision", "score", "self_assessment")
_BLOCK: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class AgentEvent(NamedTuple):
    """One thing that was told."""

    kind: Kind
    text: str = ""
    """What was said; of a session its id, of a tool what it was called for."""
    name: str = ""
    """Of a tool its name, of a session the model."""
    used: UsageTotals = NOTHING
    """Of usage: since the program began. Calls of tools are counted apart."""
    request: str = ""
    """Of usage: which request to the model it is about, if it is about one."""
    billed: BilledTokens = UNBILLED
    """Of usage: what that request has used so far."""

    def as_json(self) -> dict[str, Any]:
        """The event as it is written down."""
        told: dict[str, Any] = {"kind": self.kind}
        for key, value in (("name", self.name), ("text", self.text[:_LONGEST])):
            told |= {key: value} if value else {}
        counts = {"tokens": self.used.tokens, "cost_usd": self.used.cost_usd}
        return told | {key: value for key, value in counts.items() if value}

    @property
    def line(self) -> str:
        """The same on one short line."""
        said = " ".join(f"{self.name} {self.text}".split())
        return said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"


@dataclass(slots=True)
class RunSummary:
    """What a run of a coding agent comes to, event by event."""

    says_end: bool = True
    """Whether it tells that it has ended; if it does and does not, something went wrong."""
    text: str = ""
    """What it said last."""
    tools: int = 0
    used: UsageTotals = NOTHING
    session: str = ""
    model: str = ""
    denials: list[str] = field(default_factory=list)
    warning: str = ""
    error: str = ""
    ended: bool = False
    broken: bool = False
    """Whether it could not be understood, because it does not keep to its protocol."""
    permit: str = "permit it by cli.args"
    """What to do so that something is permitted."""

    def add_event(self, event: AgentEvent) -> None:
        """Count an event in."""
        match event.kind:
            case "session":
                self.session = event.text if _SESSION.match(event.text) else self.session  # it becomes an argument
                self.model = event.name[:_SHOWN] or self.model
            case "text":
                self.text = event.text
            case "tool":
                self.tools += 1
                self.used = self.used.max_with(UsageTotals(tool_calls=self.tools))
            case "usage":
                self.used = self.used.max_with(event.used)
            case "denied":
                self.denials = [*self.denials, event.line][:_DENIALS]
            case "warning":
                self.warning = event.line
            case "asked":
                pass  # what is answered is told by what comes next
            case "error":
                self.error = event.text or event.name or "it says that it failed, and not why"
            case _:
                self.ended = True
                self.text = event.text or self.text

    @property
    def fault(self) -> tuple[Code, str] | None:
        """Why it does not count, although its program ended well; None when it may."""
        if self.error:
            return Code.AGENT_PROTOCOL if self.broken else Code.COMMAND_FAILED, answer_words.AGENT_FAILED(
                error=self.error
            )
        if self.denials:
            asked = "; ".join(dict.fromkeys(self.denials))
            return Code.AGENT_DENIED, answer_words.NOT_PERMITTED(asked=asked, permit=self.permit)
        if self.says_end and not self.ended:
            ended = answer_words.NO_END_BUT if self.warning else answer_words.NO_END
            return Code.COMMAND_FAILED, ended(text=self.warning)
        if not self.text.strip() and not self.tools:
            return Code.AGENT_SILENT, answer_words.SILENT()
        return None

    @property
    def remark(self) -> str:
        """What is odd about a run that went well, for whoever finds that its work is not done."""
        return "" if self.tools or self.used.tool_calls else verdict_words.NO_TOOL()


def sum_session_usage(before: UsageTotals, now: UsageTotals, going_on: Collection[Totals]) -> UsageTotals:
    """What several runs of one session used. Some agents count from its beginning, which is then not added."""
    return UsageTotals(
        max(before.tokens, now.tokens) if "tokens" in going_on else before.tokens + now.tokens,
        max(before.cost_usd, now.cost_usd) if "cost_usd" in going_on else before.cost_usd + now.cost_usd,
        before.seconds + now.seconds,
        before.tool_calls + now.tool_calls,
    )


def diff_session_usage(now: UsageTotals, earlier: UsageTotals, going_on: Collection[Totals]) -> UsageTotals:
    """What was used of a session since an earlier moment, where its agent counts from the beginning of the session."""
    return now._replace(
        tokens=max(0, now.tokens - earlier.tokens) if "tokens" in going_on else now.tokens,
        cost_usd=max(0.0, now.cost_usd - earlier.cost_usd) if "cost_usd" in going_on else now.cost_usd,
    )


def extract_answer(text: str) -> str:
    """A text whose last line is the object that it holds, be it written over several lines or as a block of code."""
    for part in (*reversed(_BLOCK.findall(text)), text):
        try:
            said = wire.read(part.strip().encode("utf-8", "replace"))
        except JsonError:
            continue
        if isinstance(said, dict) and not said.keys().isdisjoint(_ANSWERS):
            return f"{text.rstrip()}\n{wire.write(said).decode()}"
    return text


def describe_arguments(arguments: object) -> str:
    """What a tool is called for, in short."""
    if not isinstance(arguments, Mapping):
        return ""
    for key in ("command", "cmd", "file_path", "filePath", "path", "pattern", "url", "query", "prompt"):
        said = arguments.get(key)
        if isinstance(said, list):
            said = " ".join(str(each) for each in said)
        if isinstance(said, str) and said:
            return said
    try:
        return wire.write(dict(arguments)).decode() if arguments else ""
    except JsonError:
        return ""


def matches(patterns: Iterable[re.Pattern[str]], text: str) -> bool:
    """Whether one of the patterns is in a text."""
    return any(pattern.search(text) for pattern in patterns)
