"""The lines of JSON between the engine and the program that asks a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.core.wire import JsonValue
from agenttalk.contracts.errors import Code, JsonError
from agenttalk.rules.agents.events import AgentEvent
from agenttalk.rules.agents.model_answers import AnswerSpec
from agenttalk.rules.agents.results import TAIL
from agenttalk.rules.budgets.provider_limits import LimitKind
from agenttalk.rules.core import usage
from agenttalk.rules.core.usage import NOTHING, UsageTotals

LONGEST: Final = 1024 * 1024
"""The most bytes of a line."""
KEY: Final = "AGENTTALK_MODEL_KEY"
"""The variable with the key of a service."""
LARGEST: Final = 64 * 1024 * 1024
"""The most bytes of a request."""
_LIMITS: Final[Mapping[str, LimitKind]] = MappingProxyType({"usage": "usage", "overload": "overload"})
_COUNTS: Final = ("input_tokens", "output_tokens", "requests")


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to the program, which it reads from standard input."""

    driver: str
    use: Mapping[str, Any]
    """The model, as the profile names it."""
    prompt: str = field(repr=False)
    asked: AnswerSpec
    seconds: float
    """The time limit in seconds."""
    locale: Locale = "en"

    @classmethod
    def read(cls, data: bytes) -> ModelRequest:
        """Read a request that `write` wrote."""
        said: Any = wire.read(data, limit=LARGEST)
        asked = AnswerSpec.from_json(said["asked"])
        return cls(said["driver"], said["use"], said["prompt"], asked, said["seconds"], said["locale"])

    def write(self) -> str:
        """Write the request as text."""
        said: JsonValue = {
            "driver": self.driver,
            "use": dict(self.use),
            "prompt": self.prompt.encode("utf-8", "replace").decode(),
            "asked": self.asked.as_json(),
            "seconds": self.seconds,
            "locale": self.locale,
        }
        return wire.write(said).decode()


def format_line(kind: str, **told: JsonValue) -> bytes:
    """Format one line of the program."""
    return wire.write({"kind": kind, **told}) + b"\n"


@dataclass(slots=True)
class ModelRun:
    """The result of a run, added up line by line."""

    model: str = ""
    used: UsageTotals = NOTHING
    read: int = 0
    written: int = 0
    requests: int = 0
    estimated: bool = False
    """Whether we estimated the tokens, because the service did not report them."""
    fault: tuple[Code, str] | None = None
    """Why there is no usable answer."""
    limit: LimitKind | None = None
    """The limit of the service that is the cause, if one is."""
    retry_after: float = 0.0
    """Seconds after which the service wants to be asked again; 0 if it does not say."""
    ended: bool = False
    """Whether there is a usable answer."""

    def add_line(self, said: bytes) -> AgentEvent | None:
        """Add a line. Returns its event; None if it is not in our protocol."""
        try:
            told = wire.read(said)
        except JsonError:
            return None
        kind = told.get("kind") if isinstance(told, dict) else None
        if not isinstance(told, dict) or not isinstance(kind, str):
            return None
        text, name = (_text(told.get(key)) for key in ("text", "name"))
        match kind:
            case "model":
                self.model = name[:200]
                return AgentEvent("session", "", self.model)
            case "text":
                return AgentEvent("text", text)
            case "waiting":
                return AgentEvent("warning", text)
            case "usage":
                return self._count(told)
            case "fault":
                self.fault = (_code(told.get("code")), text[:TAIL] or "it does not say why")
                self.limit = _LIMITS.get(_text(told.get("limit")))
                self.retry_after = usage.read_number(told.get("retry_after"))
                return AgentEvent("error", self.fault[1], self.fault[0])
            case "end":
                self.ended = True
                return AgentEvent("end", text)
        return None

    def _count(self, told: dict[str, Any]) -> AgentEvent:
        now = usage.measure_usage(told)
        self.used = self.used.max_with(now)
        self.read, self.written, self.requests = (
            max(before, int(usage.measure_usage({"tokens": told.get(name)}).tokens))
            for before, name in zip((self.read, self.written, self.requests), _COUNTS, strict=True)
        )
        self.estimated = self.estimated or told.get("estimated") is True
        return AgentEvent("usage", used=now)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _code(value: object) -> Code:
    return Code(value) if isinstance(value, str) and value in Code.__members__ else Code.COMMAND_FAILED
