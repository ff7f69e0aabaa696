"""The program's input, its reports and its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import Code
from agenttalk.rules.agents import model_protocol
from agenttalk.rules.agents.model_answers import ModelAnswer
from agenttalk.rules.budgets.provider_limits import LimitKind

_SHOWN: Final = 16 * 1024
"""Characters of an answer that are reported."""

LineSink: TypeAlias = Callable[[bytes], object]
"""Takes the lines of a report."""


class UnansweredError(Exception):
    """The model gave no answer that can be used."""

    def __init__(self, code: Code, why: str, limit: LimitKind | None = None, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.code = code
        self.why = why
        self.limit = limit
        """The limit of the service that is the cause, if one is."""
        self.retry_after = retry_after
        """Seconds after which the service wants to be asked again."""


@dataclass(slots=True)
class UsageReporter:
    """Counts usage, and reports it."""

    tell: LineSink
    read: int = 0
    written: int = 0
    requests: int = 0
    estimated: bool = False
    cost_usd: float = 0.0

    def report_answer(self, text: str) -> None:
        """Report what the model wrote, and the usage so far."""
        shown = text.encode("utf-8", "replace").decode()
        self.tell(model_protocol.format_line("text", text=shown[:_SHOWN]))
        counts = {"input_tokens": self.read, "output_tokens": self.written, "requests": self.requests}
        more = {"cost_usd": self.cost_usd} if self.cost_usd else {}
        self.tell(model_protocol.format_line("usage", **counts, **more, estimated=self.estimated))


def write_answer(answer: ModelAnswer, environ: Mapping[str, str] = os.environ) -> None:
    """Write an answer where programs leave their results."""
    outputs = Path(environ["AGENTTALK_OUTPUTS"])
    for name, text in answer.outputs.items():
        (outputs / root_layout.path_segment(name)).write_bytes(text.encode("utf-8", "replace"))
    Path(environ["AGENTTALK_RESULT"]).write_bytes(wire.write(answer.result) + b"\n")
