"""Facts that are written by hand, and a collector that takes what is told of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.trace_export import SpanExportResult, TraceExporter
from agenttalk.ports.storage import Tx


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.time = datetime.fromisoformat("2026-11-16T09:00:00+00:00")

    def now(self) -> datetime:
        return self.time


class Killed(BaseException):
    """The engine ends here."""


class Bench:
    """A root in which facts are written, and a collector."""

    def __init__(self, deps: Deps, clock: Clock) -> None:
        self.deps, self.clock = deps, clock
        self.taken: list[Any] = []
        self.answer = SpanExportResult(ok=True)
        self.asked = 0
        self.kills = False

    def engine(self, *, texts: bool = False) -> TraceExporter:
        return TraceExporter(self.deps, self._send, resource=(("service.name", "test"),), version="1", texts=texts)

    async def _send(self, body: bytes) -> SpanExportResult:
        self.asked += 1
        if self.answer.ok:
            [one] = ExportTraceServiceRequest.FromString(body).resource_spans
            self.taken += one.scope_spans[0].spans
        if self.kills:
            raise Killed
        return self.answer

    async def record(self, *facts: tuple[str, str, dict[str, Any]]) -> None:
        board = await self.deps.stores.board("default")

        def work(tx: Tx) -> None:
            for kind, subject, body in facts:
                tx.record(kind, subject, body)

        await board.transact(work)

    async def plan(self, name: str, tasks: int = 1, **ended: Any) -> None:
        facts: list[tuple[str, str, dict[str, Any]]] = [("plan.submitted", name, {"tasks": tasks})]
        for number in range(tasks):
            facts += [started(name, f"cmd_t{number}_001"), finished(name, f"cmd_t{number}_001", **ended)]
        await self.record(*facts, ("plan.ended", name, {"completed": tasks}))

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.taken]

    @property
    def ids(self) -> list[str]:
        return [each.span_id.hex() for each in self.taken]


def started(plan: str, command: str) -> tuple[str, str, dict[str, Any]]:
    named = {"plan_id": plan, "task_id": "t", "to_agent_id": "dev", "command_id": command}
    message = f"msg_{plan}_{command}"
    return (
        "turn.started",
        f"deliveries/{plan}",
        {"message_id": message, "attempt": 1, "lines": [{**named, "message_id": message}]},
    )


def finished(plan: str, command: str, **more: Any) -> tuple[str, str, dict[str, Any]]:
    body = {
        "message_id": f"msg_{plan}_{command}",
        "command_id": command,
        "attempt": 1,
        "how": "finished",
        "cause": "FULFILLED",
        "usage": {"duration_s": 0.1},
        "ack": {"consumer_agent_id": "dev"},
        **more,
    }
    return "turn.ended", f"deliveries/{plan}", body
