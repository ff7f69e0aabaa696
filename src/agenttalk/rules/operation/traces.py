"""Turns facts of the ledger into spans for tracing systems. The fact that ends something completes its span.

What has begun and not ended is remembered, so that a span has the times of its facts, however far apart these are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from agenttalk.rules.core import usage
from agenttalk.rules.operation.spans import (
    AgentToolCall,
    Attributes,
    Fact,
    Span,
    SpanContext,
    TraceIds,
    TurnTrace,
    make_attributes,
    read_traceparent,
    to_nanoseconds,
)

Row: TypeAlias = "dict[str, Any]"
"""The remembered beginning of an unfinished span, as JSON."""

FACTS: Final = frozenset(
    {
        "plan.submitted",
        "plan.traced",
        "plan.ended",
        "plan.cancelled",
        "commands.queued",
        "turn.started",
        "turn.ended",
        "lease.ended",
        "message.recalled",
    }
)
"""Kinds of facts that matter for spans; others need not be read."""
_JOURNAL: Final = "deliveries/"
"""The word before a plan's name in the subjects of facts about turns that the engine runs."""


@dataclass(slots=True)
class TraceBuilder:
    """The unfinished spans. It takes facts in the order of their chain, and returns the spans that they end."""

    naming: TraceIds
    rows: dict[str, Row] = field(default_factory=dict)
    """`plan/ID` and `order/MESSAGE` → the remembered beginning."""
    texts: bool = False
    """Whether texts of agents and checks are exported."""
    _of_plan: dict[str, set[str]] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for key, row in self.rows.items():
            if key.startswith("order/"):
                self._of_plan.setdefault(row["plan"], set()).add(key)

    @property
    def is_changed(self) -> bool:
        """Whether there are changes."""
        return bool(self._changed)

    def collect_changes(self) -> dict[str, Row | None]:
        """Return the entries that changed since the last call; None for deleted ones."""
        found = {key: self.rows.get(key) for key in sorted(self._changed)}
        self._changed.clear()
        return found

    def add_fact(self, fact: Fact, calls: Sequence[AgentToolCall] = ()) -> list[Span]:
        """Yield the spans that a fact ends. `calls` are the calls of tools of an ended turn."""
        match fact.kind:
            case "plan.submitted":
                self._set_row(f"plan/{fact.subject}", {"began": to_nanoseconds(fact.at)})
            case "plan.traced":
                known = self.rows.get(f"plan/{fact.subject}", {})
                self._set_row(f"plan/{fact.subject}", {**known, "within": fact.body["traceparent"]})
            case "commands.queued":
                self._order(fact.body)
            case "turn.started":
                self._begin(fact)
            case "turn.ended":
                return self._end(fact, calls)
            case "lease.ended":
                return self._cut(fact.subject.rpartition("/")[2], fact, str(fact.body.get("cause")))
            case "message.recalled":
                found = self._cut(fact.subject, fact, "RECALLED")
                self._drop(f"order/{fact.subject}")
                return found
            case "plan.ended" | "plan.cancelled":
                return self._end_plan(fact)
        return []

    def _set_row(self, key: str, row: Row) -> None:
        self.rows[key] = row
        self._changed.add(key)
        if key.startswith("order/"):
            self._of_plan.setdefault(row["plan"], set()).add(key)

    def _drop(self, key: str) -> None:
        row = self.rows.pop(key, None)
        if row is None:
            return
        self._changed.add(key)
        if key.startswith("order/"):
            keys = self._of_plan[row["plan"]]
            keys.discard(key)
            if not keys:
                del self._of_plan[row["plan"]]

    def _order(self, body: Mapping[str, Any]) -> None:
        """Remember commands from the lines of the journal."""
        for line in body.get("lines") or ():
            if line.get("command_id"):
                about = {"plan": line["plan_id"], "task": line["task_id"], "command": line["command_id"]}
                self._set_row(f"order/{line['message_id']}", {**about, "agent": line["to_agent_id"]})

    def _begin(self, fact: Fact) -> None:
        self._order(fact.body)
        key = f"order/{fact.body['message_id']}"
        plan_id = fact.subject.removeprefix(_JOURNAL)
        plan = self.rows.get(f"plan/{plan_id}", {})
        if plan_id != fact.board and "began" not in plan:  # it ended before, or began before traces were on
            self._set_row(f"plan/{plan_id}", {**plan, "began": to_nanoseconds(fact.at), "again": fact.link})
        known = self.rows.get(key, {"plan": plan_id})
        self._set_row(key, {**known, "attempt": fact.body["attempt"], "began": to_nanoseconds(fact.at)})

    def _end(self, fact: Fact, calls: Sequence[AgentToolCall]) -> list[Span]:
        body = fact.body
        if not fact.subject.startswith(_JOURNAL):
            return []  # of a plan that lies in folders
        key = f"order/{body['message_id']}"
        row = self.rows.get(key, {"plan": fact.subject.removeprefix(_JOURNAL)})
        ack = body.get("ack")
        if ack is None:
            self._set_row(key, {name: value for name, value in row.items() if name not in {"attempt", "began"}})
        else:
            self._drop(key)
        said = usage.read_number(body["usage"].get("duration_s"))
        ended = to_nanoseconds(fact.at)
        known = row.get("began") if row.get("attempt") == body["attempt"] else None
        task_id = body["command_id"].removeprefix("cmd_").rpartition("_")[0]
        turn = TurnTrace(
            self.naming,
            self.find_attempt_ids(fact.board, row["plan"], task_id, body["command_id"], body["attempt"]),
            fact,
            plan_id=row["plan"],
            task_id=task_id,
            agent_id=row.get("agent") or (ack or {}).get("consumer_agent_id") or "",
            began=min(ended, known if known is not None else ended - int(said * 1e9)),
            ended=ended,
            seconds=said,
            texts=self.texts,
            leased=known,
        )
        return [turn.make_attempt_span(), *turn.make_part_spans(calls)]

    def _cut(self, message_id: str, fact: Fact, cause: str) -> list[Span]:
        """End the span of a turn without an outcome: its engine ended, or its command was withdrawn."""
        key = f"order/{message_id}"
        row = self.rows.get(key, {})
        if row.get("began") is None:
            return []
        self._set_row(key, {name: value for name, value in row.items() if name not in {"attempt", "began"}})
        if "command" not in row:
            return []
        plan_id, task_id, command_id, attempt = row["plan"], row["task"], row["command"], row["attempt"]
        said = make_attributes(fact.board, plan_id, task_id, command_id, row["agent"], attempt)
        return [
            Span(
                *self.find_attempt_ids(fact.board, plan_id, task_id, command_id, attempt),
                f"invoke_agent {row['agent']}",
                "internal",
                row["began"],
                max(row["began"], to_nanoseconds(fact.at)),
                (*said, ("error.type", cause)),
                error=cause,
            )
        ]

    def _end_plan(self, fact: Fact) -> list[Span]:
        plan_id = fact.subject
        spans = []
        for key in sorted(self._of_plan.get(plan_id, ())):
            spans += self._cut(key.partition("/")[2], fact, "CANCELLED")
            self._drop(key)
        row = self.rows.get(f"plan/{plan_id}", {})
        if "began" not in row:
            return spans
        trace_id, first = self.find_root_ids(fact.board, plan_id, "")
        within = self._within(plan_id)
        again = row.get("again", 0)
        span_id = self.naming.make_plan_span_id(fact.board, plan_id, again)
        parent = first if again else within.span_id if within else ""
        if within:  # it may go on one day, and belongs there still
            self._set_row(f"plan/{plan_id}", {"within": row["within"]})
        else:
            self._drop(f"plan/{plan_id}")
        counts = [(name, fact.body[name]) for name in ("completed", "failed", "skipped") if name in fact.body]
        error = "CANCELLED" if fact.kind == "plan.cancelled" else "FAILED" if fact.body.get("failed") else ""
        attributes: Attributes = (
            ("gen_ai.operation.name", "invoke_workflow"),
            ("gen_ai.workflow.name", plan_id),
            ("gen_ai.conversation.id", plan_id),
            ("agenttalk.board", fact.board),
            ("agenttalk.plan.id", plan_id),
            *((f"agenttalk.tasks.{name}", int(usage.read_number(count))) for name, count in counts),
            *((("error.type", error),) if error else ()),
        )
        name = f"invoke_workflow {plan_id}"
        ended = max(row["began"], to_nanoseconds(fact.at))
        return [*spans, Span(trace_id, span_id, parent, name, "internal", row["began"], ended, attributes, error=error)]

    def _within(self, plan_id: str) -> SpanContext | None:
        said = self.rows.get(f"plan/{plan_id}", {}).get("within")
        return read_traceparent(said) if said else None

    def find_root_ids(self, board: str, plan_id: str, task_id: str) -> tuple[str, str]:
        """Return the trace of a plan or task, and the parent span of its attempts."""
        within = self._within(plan_id)
        trace_id = within.trace_id if within else self.naming.make_trace_id(board, plan_id, task_id)
        return trace_id, "" if plan_id == board else self.naming.make_plan_span_id(board, plan_id)

    def find_attempt_ids(
        self, board: str, plan_id: str, task_id: str, command_id: str, attempt: int
    ) -> tuple[str, str, str]:
        """Return trace, span and parent of an attempt."""
        trace_id, parent = self.find_root_ids(board, plan_id, task_id)
        return trace_id, self.naming.make_attempt_span_id(board, plan_id, command_id, attempt), parent
