"""Makes spans for tracing systems from the facts of ended turns.

Ids are hashes of names, so that a fact that is sent twice is one span, and so that an agent can get the id of its span
before the span exists. Names and attributes are those of the semantic conventions for generative AI.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agenttalk.contracts.core.base import parse_instant
from agenttalk.rules.core import turn_times, usage
from agenttalk.rules.core.turn_times import TurnPart, TurnParts

Attribute: TypeAlias = "str | bool | int | float"
Attributes: TypeAlias = "tuple[tuple[str, Attribute], ...]"

LONGEST: Final = 2_000
"""Characters of a text of agents and checks in a span, at most."""
_EVALUATION: Final = "gen_ai.evaluation.result"
_MODELS: Final = frozenset({"llm", "local"})
"""The names in the usage of agents that are only a model."""
_PROVIDERS: Final = {"google": "gcp.gemini"}
_FINE: Final = frozenset({"FULFILLED", "MOOT", "RACE_LOST", "INPUT_REJECTED", "GATE_UNMET", "NEEDS_PERSON"})
"""Causes that are not a failure of the turn."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PARENT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?\Z")


class Fact(NamedTuple):
    """A fact of the ledger."""

    link: int
    """Its place in the chain."""
    at: str
    board: str
    kind: str
    subject: str
    body: Mapping[str, Any]


class AgentToolCall(NamedTuple):
    """A call of a tool, as an agent reported it."""

    at: str
    until: str
    """The time of the agent's next event."""
    name: str


class SpanEvent(NamedTuple):
    """An event at a time within a span."""

    name: str
    at: int
    attributes: Attributes


class Span(NamedTuple):
    """A piece of work, with when it began and ended in nanoseconds since 1970."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: Literal["internal", "client"]
    began: int
    ended: int
    attributes: Attributes
    happenings: tuple[SpanEvent, ...] = ()
    error: str = ""
    """The kind of failure; empty if it did not fail."""
    why: str = ""
    """The failure in words; empty if texts are not exported."""


class SpanContext(NamedTuple):
    """A span of another system that ours belong to."""

    trace_id: str
    span_id: str


def read_traceparent(text: str) -> SpanContext | None:
    """Read a `traceparent` of the W3C. None if the text is not one."""
    match = _PARENT.match(text)
    return SpanContext(match[1], match[2]) if match else None


def _hashed(size: int, *names: object) -> str:
    text = "/".join(str(name) for name in names)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[: 2 * size]


@dataclass(frozen=True, slots=True)
class TraceIds:
    """Ids of traces and spans of a root."""

    origin: str
    """A value that is different for each root."""

    def make_trace_id(self, board: str, plan_id: str, task_id: str) -> str:
        """Make the id of a plan's trace. On boards whose tasks belong to no plan, each task has a trace."""
        about = (plan_id, task_id) if plan_id == board else (plan_id,)
        return _hashed(16, self.origin, "trace", board, *about)

    def make_plan_span_id(self, board: str, plan_id: str, again: int = 0) -> str:
        """Make the id of a plan's span. `again` numbers further runs after its end."""
        return _hashed(8, self.origin, "plan", board, plan_id, again)

    def make_attempt_span_id(self, board: str, plan_id: str, command_id: str, attempt: int) -> str:
        """Make the id of an attempt's span."""
        return _hashed(8, self.origin, "attempt", board, plan_id, command_id, attempt)

    def make_part_span_id(self, span_id: str, what: str, number: int) -> str:
        """Make the id of a span within an attempt."""
        return _hashed(8, self.origin, "part", span_id, what, number)

    def make_traceparent(
        self, board: str, plan_id: str, task_id: str, command_id: str, attempt: int, within: SpanContext | None = None
    ) -> str:
        """Make the `traceparent` for an agent, so that its own spans belong to its attempt."""
        trace_id = within.trace_id if within else self.make_trace_id(board, plan_id, task_id)
        return f"00-{trace_id}-{self.make_attempt_span_id(board, plan_id, command_id, attempt)}-01"


def to_nanoseconds(text: str) -> int:
    """Convert a time of the ledger to nanoseconds since 1970."""
    return to_nanoseconds_at(parse_instant(text))


def to_nanoseconds_at(at: datetime) -> int:
    """Convert a time to nanoseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000


def make_attributes(board: str, plan_id: str, task_id: str, command_id: str, agent_id: str, attempt: int) -> Attributes:
    """Make the attributes that identify an attempt."""
    return (
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.id", agent_id),
        ("gen_ai.agent.name", agent_id),
        ("gen_ai.conversation.id", plan_id),
        ("agenttalk.board", board),
        ("agenttalk.plan.id", plan_id),
        ("agenttalk.task.id", task_id),
        ("agenttalk.command.id", command_id),
        ("agenttalk.attempt", attempt),
    )


@dataclass(frozen=True, slots=True)
class TurnTrace:
    """A turn that has ended."""

    naming: TraceIds
    place: tuple[str, str, str]
    """Trace, span and parent."""
    fact: Fact
    plan_id: str
    task_id: str
    agent_id: str
    began: int
    ended: int
    seconds: float
    """How long the agent worked. The rest of the time is the engine's work before and after."""
    texts: bool = False
    """Whether texts of agents and checks are exported."""
    leased: int | None = None
    """When its lease began, if that is known."""

    def make_attempt_span(self) -> Span:
        """Make the span of the attempt, with its outcome."""
        body = self.fact.body
        cause = str(body.get("cause"))
        error = "" if cause in _FINE else cause
        about = make_attributes(
            self.fact.board, self.plan_id, self.task_id, body["command_id"], self.agent_id, int(body["attempt"])
        )
        attributes = (
            *about,
            *self._model(),
            *self._outcome(cause),
            *self._waits(),
            *((("error.type", error),) if error else ()),
        )
        return Span(
            *self.place,
            f"invoke_agent {self.agent_id}",
            "internal",
            self.began,
            self.ended,
            attributes,
            tuple(self._evaluations()),
            error,
            self._text(body.get("reason")) if error else "",
        )

    def make_part_spans(self, calls: Sequence[AgentToolCall]) -> Iterator[Span]:
        """Make the spans within the attempt: the request to a model, calls of tools, and checks."""
        times = self._times()
        begun, worked = self._span_of("agent", times) or (self.began, self.began + int(self.seconds * 1e9))
        worked = min(self.ended, worked)
        used = self.fact.body["usage"]
        if used.get("agent") in _MODELS:
            model = str(used.get("model") or "")
            about: Attributes = (("gen_ai.operation.name", "chat"), ("gen_ai.provider.name", _provider(used)))
            yield self._part(
                "chat", 0, f"chat {model}".rstrip(), min(begun, worked), worked, (*about, *self._model()), "client"
            )
        for number, call in enumerate(calls):
            began = self._inside(to_nanoseconds(call.at))
            until = max(began, self._inside(to_nanoseconds(call.until)))
            yield self._part("call", number, f"execute_tool {call.name}", began, until, _tool(call.name))
        checked = self._span_of("checks", times)
        yield from self._checks(self._inside(checked[0]) if checked else worked)

    def _checks(self, at: int) -> Iterator[Span]:
        """Make the spans of checks. Only their lengths are known, so they follow each other after the agent's end."""
        for number, check in enumerate(self._made()):
            began, at = at, min(self.ended, at + int(usage.read_number(check.get("seconds")) * 1e9))
            if "seen_at" in check:
                continue  # an earlier result was used again
            attributes: Attributes = (
                *_tool(str(check["id"])),
                ("agenttalk.check.kind", str(check.get("kind"))),
                ("agenttalk.check.trust", str(check.get("trust"))),
                ("agenttalk.began.estimated", True),
                *((("process.exit.code", check["exit_code"]),) if isinstance(check.get("exit_code"), int) else ()),
            )
            error = "" if check.get("passed") else str(check.get("reason") or "failed")
            attributes = (*attributes, ("error.type", error)) if error else attributes
            yield self._part("check", number, f"execute_tool {check['id']}", began, at, attributes)._replace(
                error=error, why=self._text(check.get("detail")) if error else ""
            )

    def _part(
        self,
        what: str,
        number: int,
        name: str,
        began: int,
        ended: int,
        attributes: Attributes,
        kind: Literal["internal", "client"] = "internal",
    ) -> Span:
        trace_id, parent, _ = self.place
        own = self.naming.make_part_span_id(parent, what, number)
        return Span(trace_id, own, parent, name, kind, began, ended, attributes)

    def _times(self) -> TurnParts:
        """Read when the parts of the turn began and ended."""
        return turn_times.read_turn_times(self.fact.body.get("times"))

    @staticmethod
    def _span_of(part: TurnPart, times: TurnParts) -> tuple[int, int] | None:
        found = times.get(part)
        return (to_nanoseconds_at(found[0]), to_nanoseconds_at(found[1])) if found is not None else None

    def _waits(self) -> Attributes:
        """Make the attributes that say how long the agent and its check were waited for."""
        if not (times := self._times()):
            return ()
        leased = _EPOCH + timedelta(microseconds=self.leased // 1_000) if self.leased is not None else None
        waits = turn_times.measure_waits(times, leased, parse_instant(self.fact.at))
        return tuple((f"agenttalk.wait.{name}_s", value) for name, value in waits.as_json().items())

    def _inside(self, at: int) -> int:
        return max(self.began, min(self.ended, at))

    def _made(self) -> Iterable[Mapping[str, Any]]:
        return (check for check in self.fact.body.get("checks") or () if "id" in check)

    def _model(self) -> Attributes:
        """Make the attributes of the model and its tokens, as far as they were reported."""
        used = self.fact.body["usage"]
        model = used.get("model")
        attributes: list[tuple[str, Attribute]] = []
        if isinstance(model, str) and model:
            attributes += [("gen_ai.request.model", model), ("gen_ai.response.model", model)]
        for name in ("input_tokens", "output_tokens"):
            if name in used:
                attributes.append((f"gen_ai.usage.{name}", int(usage.read_number(used[name]))))
        return tuple(attributes)

    def _outcome(self, cause: str) -> Attributes:
        body, used = self.fact.body, usage.measure_usage(self.fact.body["usage"])
        found: list[tuple[str, Attribute]] = [("agenttalk.cause", cause), ("agenttalk.how", str(body.get("how")))]
        found += [("agenttalk.state", str(body.get("state"))), ("agenttalk.seconds", self.seconds)]
        found += [("agenttalk.sandbox", body["sandbox"])] if isinstance(body.get("sandbox"), str) else []
        for name, value in (("tokens", used.tokens), ("cost_usd", used.cost_usd), ("tool_calls", used.tool_calls)):
            found += [(f"agenttalk.{name}", value)] if value else []
        result = body.get("result")
        found += [("agenttalk.result", self._text(result))] if self.texts and result is not None else []
        return tuple(found)

    def _evaluations(self) -> Iterator[SpanEvent]:
        """Make the events of the verdict, the agent's score and each check."""
        body = self.fact.body
        verdict = body.get("verdict")
        if verdict is not None:
            fine = bool(verdict.get("fulfilled"))
            trust = verdict.get("trust")
            more: Attributes = (("agenttalk.trust", str(trust)),) if trust else ()
            yield self._evaluated(
                "done", float(fine), "fulfilled" if fine else "not fulfilled", body.get("reason"), more
            )
        score = body.get("score")
        if score is not None:
            yield self._evaluated("score", usage.read_number(score), "", body.get("score_explanation"))
        for check in self._made():
            passed = bool(check.get("passed"))
            yield self._evaluated(str(check["id"]), float(passed), "pass" if passed else "fail", check.get("detail"))

    def _evaluated(self, name: str, value: float, label: str, why: object, more: Attributes = ()) -> SpanEvent:
        text = self._text(why)
        attributes: Attributes = (
            ("gen_ai.evaluation.name", name),
            ("gen_ai.evaluation.score.value", value),
            *((("gen_ai.evaluation.score.label", label),) if label else ()),
            *((("gen_ai.evaluation.explanation", text),) if text else ()),
            *more,
        )
        return SpanEvent(_EVALUATION, self.ended, attributes)

    def _text(self, text: object) -> str:
        """Cut a text; empty if texts are not exported."""
        return str(text or "")[:LONGEST] if self.texts else ""


def _provider(used: Mapping[str, Any]) -> str:
    """Return the provider of a model by the name that the conventions have for it."""
    name = str(used.get("provider") or used["agent"])
    return _PROVIDERS.get(name, name)


def _tool(name: str) -> Attributes:
    return (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", name))


def calls_of(events: Sequence[Mapping[str, Any]], ended: str) -> list[AgentToolCall]:
    """Read the calls of tools among an agent's events. Each call lasts until the next event."""
    calls = []
    for number, event in enumerate(events):
        if event.get("kind") == "tool" and isinstance(event.get("at"), str):
            until = events[number + 1].get("at") if number + 1 < len(events) else ended
            calls.append(
                AgentToolCall(
                    event["at"], until if isinstance(until, str) else event["at"], str(event.get("name") or "tool")
                )
            )
    return calls
