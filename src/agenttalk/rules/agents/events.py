"""Events of a coding agent while it runs, and their sum."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, JsonError
from agenttalk.rules.budgets.provider_limits import SignalledLimit
from agenttalk.rules.core.usage import NOTHING, UNBILLED, BilledTokens, UsageTotals
from agenttalk.rules.text import answer_words, verdict_words

Kind = Literal["session", "text", "tool", "usage", "asked", "denied", "warning", "error", "end"]
Totals = Literal["tokens", "cost_usd"]
_SHOWN: Final = 200
_LONGEST: Final = 16 * 1024
"""The most characters of a text that observers see."""
_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}\Z")
_DENIALS: Final = 20
_ANSWERS: Final = ("result", "decision", "score", "self_assessment")
_BLOCK: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)


class AgentEvent(NamedTuple):
    """One event."""

    kind: Kind
    text: str = ""
    """The text; of a session its id, of a tool a description of its arguments."""
    name: str = ""
    """The name of a tool, or the model of a session."""
    used: UsageTotals = NOTHING
    """The usage since the program began. Calls of tools are counted separately."""
    request: str = ""
    """The request to the model that a usage belongs to, if any."""
    billed: BilledTokens = UNBILLED
    """The tokens of that request so far."""
    file: str = ""
    """The file that a tool is used on, if its arguments name one."""
    limit: SignalledLimit | None = None
    """The limit of the provider that caused an error, if the agent's program says so in a field of its own."""

    def as_json(self) -> dict[str, Any]:
        """Return the event as JSON."""
        told: dict[str, Any] = {"kind": self.kind}
        for key, value in (("name", self.name), ("text", self.text[:_LONGEST])):
            told |= {key: value} if value else {}
        counts = {"tokens": self.used.tokens, "cost_usd": self.used.cost_usd}
        return told | {key: value for key, value in counts.items() if value}

    @property
    def line(self) -> str:
        """Return the event as one short line."""
        said = " ".join(f"{self.name} {self.text}".split())
        return said if len(said) <= _SHOWN else f"{said[: _SHOWN - 1]}…"


@dataclass(slots=True)
class RunSummary:
    """The result of a coding agent's run, added up event by event."""

    says_end: bool = True
    """Whether the agent reports its end. If it should and does not, the run failed."""
    text: str = ""
    """Its last text."""
    tools: int = 0
    used: UsageTotals = NOTHING
    session: str = ""
    model: str = ""
    denials: list[str] = field(default_factory=list)
    warning: str = ""
    error: str = ""
    limit: SignalledLimit | None = None
    """The limit that caused the error, if its program says so in a field of its own."""
    ended: bool = False
    broken: bool = False
    """Whether its output did not follow the protocol."""
    permit: str = "permit it by cli.args"
    """A hint how to permit what was denied."""

    def add_event(self, event: AgentEvent) -> None:
        """Add an event."""
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
                pass  # the next event shows the answer
            case "error":
                self.error = event.text or event.name or "the agent reports a failure without a reason"
                self.limit = event.limit
            case _:
                self.ended = True
                self.text = event.text or self.text

    @property
    def fault(self) -> tuple[Code, str] | None:
        """Explain why a run failed although its program ended well; None if it did not fail."""
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
        """Explain what is odd about a run that ended well, for a person who finds that its work is not done."""
        return "" if self.tools or self.used.tool_calls else verdict_words.NO_TOOL()


def sum_session_usage(before: UsageTotals, now: UsageTotals, going_on: Collection[Totals]) -> UsageTotals:
    """Add two runs of a session. Numbers that the agent counts from the session's beginning are not added again."""
    return UsageTotals(
        max(before.tokens, now.tokens) if "tokens" in going_on else before.tokens + now.tokens,
        max(before.cost_usd, now.cost_usd) if "cost_usd" in going_on else before.cost_usd + now.cost_usd,
        before.seconds + now.seconds,
        before.tool_calls + now.tool_calls,
    )


def diff_session_usage(now: UsageTotals, earlier: UsageTotals, going_on: Collection[Totals]) -> UsageTotals:
    """Return the usage since an earlier time, for an agent that counts from the beginning of the session."""
    return now._replace(
        tokens=max(0, now.tokens - earlier.tokens) if "tokens" in going_on else now.tokens,
        cost_usd=max(0.0, now.cost_usd - earlier.cost_usd) if "cost_usd" in going_on else now.cost_usd,
    )


def extract_answer(text: str) -> str:
    """Repeat an answer's JSON object on a last line of its own, if it spans several lines or is in a block of code."""
    for part in (*reversed(_BLOCK.findall(text)), text):
        try:
            said = wire.read(part.strip().encode("utf-8", "replace"))
        except JsonError:
            continue
        if isinstance(said, dict) and not said.keys().isdisjoint(_ANSWERS):
            return f"{text.rstrip()}\n{wire.write(said).decode()}"
    return text


def describe_arguments(arguments: object) -> str:
    """Describe the arguments of a tool's call in short."""
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


def find_file(arguments: object) -> str:
    """Return the file that a tool's arguments name; empty if they name none."""
    for key in ("file_path", "filePath", "absolute_path", "notebook_path", "path"):
        if isinstance(arguments, Mapping) and isinstance(said := arguments.get(key), str) and said:
            return said
    return ""


def show_path(path: str, folder: str) -> str:
    """Return a path as seen from the folder in which an agent works."""
    return path.removeprefix(f"{folder.rstrip('/')}/")


def matches(patterns: Iterable[re.Pattern[str]], text: str) -> bool:
    """Whether one of the patterns matches in a text."""
    return any(pattern.search(text) for pattern in patterns)
