"""Spans for tracing systems: their ids, and what is told of a turn that has ended.

Ids follow from names alone, so that the same fact told again is the same span, and so that an agent can be told the id
of its span before there is one. Names and attributes are those of the semantic conventions for generative AI.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agenttalk.contracts.core.base import parse_instant
from agenttalk.rules.core import usage

Attribute: TypeAlias = "str | bool | int | float"
Attributes: TypeAlias = "tuple[tuple[str, Attribute], ...]"

LONGEST: Final = 2_000
"""Characters of a text of others, where texts are told at all."""
_EVALUATION: Final = "gen_ai.evaluation.result"
_MODELS: Final = frozenset({"llm", "local"})
"""Agents that are a model and nothing else, as their usage names them."""
_PROVIDERS: Final = {"google": "gcp.gemini"}
_FINE: Final = frozenset({"FULFILLED", "MOOT", "INPUT_REJECTED", "GATE_UNMET", "NEEDS_PERSON"})
"""Ends of turns that are no failure of the turn."""
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
    """A call of a tool, as an agent told of it."""

    at: str
    until: str
    """When the agent told the next thing."""
    name: str


class SpanEvent(NamedTuple):
    """Something that happened in a span, at a time."""

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
    """What kind of failure it ended in; empty when it did not."""
    why: str = ""
    """The failure in words, where these are told."""


class SpanContext(NamedTuple):
    """A span of somebody else that ours belong to."""

    trace_id: str
    span_id: str


def read_traceparent(text: str) -> SpanContext | None:
    """What a `traceparent` of the W3C says; None when it is none."""
    found = _PARENT.match(text)
    return SpanContext(found[1], found[2]) if found else None


def _hashed(size: int, *names: object) -> str:
    text = "/".join(str(each) for each in names)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[: 2 * size]


@dataclass(frozen=True, slots=True)
class TraceIds:
    """Ids of traces and spans of a root."""

    origin: str
    """What sets the root apart from all others."""

    def make_trace_id(self, board: str, plan_id: str, task_id: str) -> str:
        """The trace of a plan; on boards whose tasks belong to no plan, that of the task."""
        about = (plan_id, task_id) if plan_id == board else (plan_id,)
        return _hashed(16, self.origin, "trace", board, *about)

    def make_plan_span_id(self, board: str, plan_id: str, again: int = 0) -> str:
        """The span of a plan; `again` tells runs apart that came after its end."""
        return _hashed(8, self.origin, "plan", board, plan_id, again)

    def make_attempt_span_id(self, board: str, plan_id: str, command_id: str, attempt: int) -> str:
        """The span of an attempt."""
        return _hashed(8, self.origin, "attempt", board, plan_id, command_id, attempt)

    def make_part_span_id(self, span_id: str, what: str, number: int) -> str:
        """The span of something within an attempt."""
        return _hashed(8, self.origin, "part", span_id, what, number)

    def make_traceparent(
        self, board: str, plan_id: str, task_id: str, command_id: str, attempt: int, within: SpanContext | None = None
    ) -> str:
        """What an agent is told, so that its own spans belong to its attempt."""
        trace_id = within.trace_id if within else self.make_trace_id(board, plan_id, task_id)
        return f"00-{trace_id}-{self.make_attempt_span_id(board, plan_id, command_id, attempt)}-01"


def to_nanoseconds(text: str) -> int:
    """A time of the ledger in nanoseconds since 1970."""
    return (parse_instant(text) - _EPOCH) // timedelta(microseconds=1) * 1_000


def make_attributes(board: str, plan_id: str, task_id: str, command_id: str, agent_id: str, attempt: int) -> Attributes:
    """Whose attempt it is, at what."""
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
    """How long the agent worked; the rest is what the engine did before and after."""
    texts: bool = False
    """Whether what agents and checks said goes along."""

    def make_attempt_span(self) -> Span:
        """The attempt, with what it was worth."""
        body = self.fact.body
        cause = str(body.get("cause"))
        error = "" if cause in _FINE else cause
        said = make_attributes(
            self.fact.board, self.plan_id, self.task_id, body["command_id"], self.agent_id, int(body["attempt"])
        )
        attributes = (*said, *self._model(), *self._outcome(cause), *((("error.type", error),) if error else ()))
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
        """What was done within it: the model that was asked, tools that were called, checks that were made."""
        worked = min(self.ended, self.began + int(self.seconds * 1e9))
        said = self.fact.body["usage"]
        if said.get("agent") in _MODELS:
            model = str(said.get("model") or "")
            asked: Attributes = (("gen_ai.operation.name", "chat"), ("gen_ai.provider.name", _provider(said)))
            yield self._part(
                "chat", 0, f"chat {model}".rstrip(), self.began, worked, (*asked, *self._model()), "client"
            )
        for number, call in enumerate(calls):
            began = self._inside(to_nanoseconds(call.at))
            until = max(began, self._inside(to_nanoseconds(call.until)))
            yield self._part("call", number, f"execute_tool {call.name}", began, until, _tool(call.name))
        yield from self._checks(worked)

    def _checks(self, at: int) -> Iterator[Span]:
        """Checks, one after the other from when the agent had ended: their length is known, not their beginning."""
        for number, check in enumerate(self._made()):
            began, at = at, min(self.ended, at + int(usage.read_number(check.get("seconds")) * 1e9))
            if "seen_at" in check:
                continue  # it was not made again
            told: Attributes = (
                *_tool(str(check["id"])),
                ("agenttalk.check.kind", str(check.get("kind"))),
                ("agenttalk.check.trust", str(check.get("trust"))),
                ("agenttalk.began.estimated", True),
                *((("process.exit.code", check["exit_code"]),) if isinstance(check.get("exit_code"), int) else ()),
            )
            error = "" if check.get("passed") else str(check.get("reason") or "failed")
            told = (*told, ("error.type", error)) if error else told
            yield self._part("check", number, f"execute_tool {check['id']}", began, at, told)._replace(
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

    def _inside(self, at: int) -> int:
        return max(self.began, min(self.ended, at))

    def _made(self) -> Iterable[Mapping[str, Any]]:
        return (each for each in self.fact.body.get("checks") or () if "id" in each)

    def _model(self) -> Attributes:
        """Which model answered, and how much it read and wrote, as far as that was told."""
        said = self.fact.body["usage"]
        model = said.get("model")
        found: list[tuple[str, Attribute]] = []
        if isinstance(model, str) and model:
            found += [("gen_ai.request.model", model), ("gen_ai.response.model", model)]
        for name in ("input_tokens", "output_tokens"):
            if name in said:
                found.append((f"gen_ai.usage.{name}", int(usage.read_number(said[name]))))
        return tuple(found)

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
        """What was thought of it: the verdict, the score that the agent gave, and each check."""
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

    def _text(self, said: object) -> str:
        """What somebody said, where that is told at all."""
        return str(said or "")[:LONGEST] if self.texts else ""


def _provider(said: Mapping[str, Any]) -> str:
    """Whose interface a model was asked by, under the name that the conventions have for it."""
    name = str(said.get("provider") or said["agent"])
    return _PROVIDERS.get(name, name)


def _tool(name: str) -> Attributes:
    return (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", name))


def calls_of(events: Sequence[Mapping[str, Any]], ended: str) -> list[AgentToolCall]:
    """The calls of tools in what an agent told while it ran; each lasts until the agent told the next thing."""
    found = []
    for number, event in enumerate(events):
        if event.get("kind") == "tool" and isinstance(event.get("at"), str):
            until = events[number + 1].get("at") if number + 1 < len(events) else ended
            found.append(
                AgentToolCall(
                    event["at"], until if isinstance(until, str) else event["at"], str(event.get("name") or "tool")
                )
            )
    return found
