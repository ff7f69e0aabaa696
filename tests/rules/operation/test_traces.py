"""What tracing systems are told: which facts become which spans, the same whenever and in whatever pieces they are read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from agenttalk.rules.operation import otlp, spans, traces
from agenttalk.rules.operation.spans import AgentToolCall, Fact, Span, SpanContext, SpanEvent, TraceIds
from agenttalk.rules.operation.traces import TraceBuilder
from effort import cases

NAMING = TraceIds("root-1")
OUTSIDE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SECOND = 1_000_000_000


def at(second: float) -> str:
    return f"2026-11-16T09:{int(second) // 60:02}:{second % 60:09.6f}Z"


def line(task: str, command: str, agent: str = "dev", plan: str = "shop") -> dict[str, Any]:
    named = {"plan_id": plan, "task_id": task, "to_agent_id": agent}
    return {**named, "command_id": command, "message_id": f"msg_{plan}_{command}"}


class Ledger:
    """Facts, one after the other, a second apart."""

    def __init__(self, board: str = "default") -> None:
        self.board = board
        self.facts: list[Fact] = []

    def add(self, kind: str, subject: str, **body: Any) -> None:
        number = len(self.facts) + 1
        self.facts.append(Fact(number, at(number), self.board, kind, subject, body))

    def submitted(self, plan: str = "shop", within: str | None = None) -> None:
        self.add("plan.submitted", plan, tasks=1)
        if within is not None:
            self.add("plan.traced", plan, traceparent=within)

    def started(self, command: str, attempt: int = 1, *, plan: str = "shop", lines: bool = True) -> None:
        task = command.removeprefix("cmd_").rpartition("_")[0]
        told = [line(task, command, plan=plan)] if lines else []
        body = {"message_id": f"msg_{plan}_{command}", "attempt": attempt, "lines": told}
        self.add("turn.started", f"deliveries/{plan}", **body)

    def ended(self, command: str, attempt: int = 1, *, plan: str = "shop", ack: bool = True, **body: Any) -> None:
        told: dict[str, Any] = {
            "message_id": f"msg_{plan}_{command}",
            "command_id": command,
            "attempt": attempt,
            "how": "finished",
            "cause": "FULFILLED",
            "state": "COMPLETED",
            "usage": {"duration_s": 0.25},
            **({"ack": {"consumer_agent_id": "dev"}} if ack else {}),
            **body,
        }
        self.add("turn.ended", f"deliveries/{plan}", **told)

    def told(self, *, texts: bool = False, calls: tuple[AgentToolCall, ...] = ()) -> list[Span]:
        """What comes of them: the same in one piece, and when the book is opened anew after each fact."""
        whole = self.in_pieces(set(), texts=texts, calls=calls)
        assert self.in_pieces(set(range(len(self.facts))), texts=texts, calls=calls) == whole
        return whole

    def in_pieces(self, cuts: set[int], *, texts: bool = False, calls: tuple[AgentToolCall, ...] = ()) -> list[Span]:
        """What comes of them if the book is opened anew before some facts, from what its changes said, as after a crash."""
        kept: dict[str, str] = {}
        book, found = TraceBuilder(NAMING, texts=texts), []
        for number, fact in enumerate(self.facts):
            if number in cuts:
                for key, row in book.collect_changes().items():
                    if row is None:
                        kept.pop(key, None)
                    else:
                        kept[key] = json.dumps(row)
                book = TraceBuilder(NAMING, {key: json.loads(row) for key, row in kept.items()}, texts=texts)
            found += book.add_fact(fact, calls if fact.kind == "turn.ended" else ())
        return found


def attributes(span: Span | SpanEvent) -> dict[str, Any]:
    return dict(span.attributes)


def test_a_plan_and_its_attempts_are_one_trace_with_the_times_of_their_facts() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_build_001")
    ledger.ended("cmd_build_001", sandbox="landlock")
    ledger.add("plan.ended", "shop", completed=1, failed=0, skipped=0)
    turn, plan = ledger.told()
    assert (turn.name, plan.name) == ("invoke_agent dev", "invoke_workflow shop")
    assert turn.trace_id == plan.trace_id
    assert (turn.parent_id, plan.parent_id) == (plan.span_id, "")
    assert (plan.began, plan.ended) == (spans.to_nanoseconds(at(1)), spans.to_nanoseconds(at(4)))
    assert (turn.began, turn.ended) == (spans.to_nanoseconds(at(2)), spans.to_nanoseconds(at(3)))
    assert not turn.error
    assert not plan.error
    said = attributes(turn)
    assert said["gen_ai.operation.name"] == "invoke_agent"
    assert said["agenttalk.task.id"] == "build"
    assert said["agenttalk.sandbox"] == "landlock"
    assert "error.type" not in said
    assert attributes(plan)["agenttalk.tasks.completed"] == 1


def test_an_agent_is_told_the_ids_that_its_span_will_have() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_build_001")
    ledger.ended("cmd_build_001")
    [turn] = ledger.told()
    told = NAMING.make_traceparent("default", "shop", "build", "cmd_build_001", 1)
    assert spans.read_traceparent(told) == SpanContext(turn.trace_id, turn.span_id)


def test_a_check_that_fails_is_a_tool_that_failed_and_a_verdict() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_build_001")
    checks = [
        {"id": "tests", "kind": "run", "passed": False, "seconds": 0.5, "exit_code": 1, "reason": "exit_code", "detail": "it ended with 1"},
        {"id": "lint", "kind": "run", "passed": True, "seconds": 9.0, "trust": "executed"},
        {"id": "seen", "kind": "run", "passed": False, "seconds": 1.0, "seen_at": at(0)},
        {"restored": ["a"]},
    ]  # fmt: skip
    verdict = {"fulfilled": False, "trust": None}
    ledger.ended("cmd_build_001", cause="NOT_FULFILLED", reason="tests fail", checks=checks, verdict=verdict, score=70)
    turn, tests, lint = ledger.told()
    assert turn.error == "NOT_FULFILLED"
    assert not turn.why  # no texts unless they are asked for
    assert (tests.name, tests.error, lint.error) == ("execute_tool tests", "exit_code", "")
    assert attributes(tests)["process.exit.code"] == 1
    assert tests.ended - tests.began == SECOND // 2
    assert tests.parent_id == turn.span_id
    assert turn.began + SECOND // 4 == tests.began
    assert lint.ended == turn.ended  # never beyond
    said = [attributes(each) for each in turn.happenings]
    assert {each.name for each in turn.happenings} == {"gen_ai.evaluation.result"}
    labels = [(each["gen_ai.evaluation.name"], each.get("gen_ai.evaluation.score.label")) for each in said]
    assert labels == [("done", "not fulfilled"), ("score", None), ("tests", "fail"), ("lint", "pass"), ("seen", "fail")]
    assert said[1]["gen_ai.evaluation.score.value"] == 70
    assert not any("gen_ai.evaluation.explanation" in each for each in said)


def test_the_times_of_agent_and_checks_place_their_spans_and_say_what_was_waited_for() -> None:
    """The turn was leased at 2 and ended at 3."""
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_build_001")
    times = {
        "turn": [at(2), at(2)],
        "baseline": [at(2.1), at(2.2)],
        "agent": [at(2.25), at(2.5)],
        "checks": [at(2.625), at(2.875)],
    }
    check = {"id": "ok", "kind": "run", "passed": True, "seconds": 0.25}
    ledger.ended("cmd_build_001", times=times, checks=[check], usage={"duration_s": 0.3, "agent": "llm"})
    attempt, chat, check_span = ledger.told()
    said = dict(attempt.attributes)
    assert [said[f"agenttalk.wait.{name}_s"] for name in ("agent", "check", "end")] == [0.15, 0.125, 0.125]
    assert (chat.began, chat.ended) == (attempt.began + SECOND // 4, attempt.began + SECOND // 2)
    assert (check_span.began, check_span.ended) == (
        attempt.began + SECOND * 5 // 8,
        attempt.began + SECOND * 7 // 8,
    )


def test_a_turn_that_another_engine_verified_says_nothing_of_an_agent() -> None:
    ledger = Ledger()
    ledger.ended("cmd_build_001", times={"checks": [at(0.25), at(0.5)]})
    [attempt] = ledger.told()
    waits = {name: value for name, value in attempt.attributes if name.startswith("agenttalk.wait")}
    assert waits == {"agenttalk.wait.end_s": 0.5}


def test_texts_go_along_only_where_they_are_asked_for() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_build_001")
    checks = [{"id": "tests", "passed": False, "detail": "no such file"}]
    verdict = {"fulfilled": True, "trust": "executed"}
    ledger.ended(
        "cmd_build_001", cause="NOT_FULFILLED", reason="a" * 3_000, result="made it", checks=checks, verdict=verdict
    )
    turn, tests = ledger.told(texts=True)
    assert turn.why == "a" * spans.LONGEST
    assert attributes(turn)["agenttalk.result"] == "made it"
    assert (tests.why, tests.error) == ("no such file", "failed")
    done = attributes(turn.happenings[0])
    assert (done["agenttalk.trust"], done["gen_ai.evaluation.score.label"]) == ("executed", "fulfilled")
    assert done["gen_ai.evaluation.explanation"].startswith("aaa")
    assert "made it" not in repr(ledger.told())
    assert "no such file" not in repr(ledger.told())


def test_a_model_that_was_asked_is_a_chat_and_what_it_used_is_told() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_sum_001")
    used = {
        "duration_s": 0.5,
        "agent": "llm",
        "provider": "google",
        "model": "small-1",
        "input_tokens": 12,
        "output_tokens": 3,
        "tokens": 15,
        "cost_usd": 0.25,
    }
    ledger.ended("cmd_sum_001", usage=used)
    turn, chat = ledger.told()
    assert (chat.name, chat.kind, chat.ended - chat.began) == ("chat small-1", "client", SECOND // 2)
    assert attributes(chat)["gen_ai.provider.name"] == "gcp.gemini"
    for span in (turn, chat):
        said = attributes(span)
        assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (12, 3)
        assert said["gen_ai.request.model"] == "small-1"
    assert (attributes(turn)["agenttalk.cost_usd"], attributes(turn)["agenttalk.tokens"]) == (0.25, 15)


def test_calls_of_tools_lie_within_their_attempt() -> None:
    events: list[dict[str, Any]] = [
        {"kind": "session", "at": at(0)},
        {"kind": "tool", "at": at(2.25), "name": "Write"},
        {"kind": "text", "at": at(2.5)},
        {"kind": "tool", "name": "lost"},
        {"kind": "tool", "at": at(1), "name": ""},
        {"kind": "text"},
        {"kind": "tool", "at": at(2.75), "name": "Bash"},
    ]
    calls = spans.calls_of(events, at(3))
    assert calls == [
        AgentToolCall(at(2.25), at(2.5), "Write"),
        AgentToolCall(at(1), at(1), "tool"),
        AgentToolCall(at(2.75), at(3), "Bash"),
    ]
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_build_001")
    ledger.ended("cmd_build_001")
    turn, write, early, bash = ledger.told(calls=tuple(calls))
    assert [each.name for each in (write, early, bash)] == [
        "execute_tool Write",
        "execute_tool tool",
        "execute_tool Bash",
    ]
    assert write.ended - write.began == SECOND // 4
    assert early.began == early.ended == turn.began
    assert len({each.span_id for each in (turn, write, early, bash)}) == 4


def test_each_attempt_is_a_span_and_the_agent_is_known_when_only_the_first_names_it() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.add("commands.queued", "deliveries/shop", lines=[line("build", "cmd_build_001"), {"message_id": "msg_x"}])
    ledger.started("cmd_build_001", lines=False)
    ledger.ended("cmd_build_001", ack=False, cause="RETRY", how="crashed")
    ledger.started("cmd_build_001", 2, lines=False)
    ledger.add("lease.ended", "turns/shop/msg_shop_cmd_build_001", cause="ENGINE_ENDED")
    ledger.add("lease.ended", "turns/shop/msg_shop_cmd_build_001", cause="ENGINE_ENDED")
    ledger.started("cmd_build_001", 3, lines=False)
    ledger.ended("cmd_build_001", 3)
    crashed, cut, fine = ledger.told()
    assert [each.name for each in (crashed, cut, fine)] == ["invoke_agent dev"] * 3
    assert [each.error for each in (crashed, cut, fine)] == ["RETRY", "ENGINE_ENDED", ""]
    assert [attributes(each)["agenttalk.attempt"] for each in (crashed, cut, fine)] == [1, 2, 3]
    assert len({each.span_id for each in (crashed, cut, fine)}) == 3
    assert len({each.parent_id for each in (crashed, cut, fine)}) == 1


def test_what_is_called_off_ends_there_and_is_forgotten() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.started("cmd_a_001")
    ledger.started("cmd_b_001")
    ledger.add("message.recalled", "msg_shop_cmd_a_001", why="aborted")
    ledger.add("message.recalled", "msg_unknown")
    ledger.add("plan.cancelled", "shop", reason="no more")
    first, second, plan = ledger.told()
    assert [each.error for each in (first, second, plan)] == ["RECALLED", "CANCELLED", "CANCELLED"]
    book = TraceBuilder(NAMING)
    for fact in ledger.facts:
        book.add_fact(fact)
    assert not book.rows
    assert book.is_changed
    assert set(book.collect_changes().values()) == {None}
    assert not book.is_changed
    assert not book.collect_changes()


def test_a_plan_that_failed_says_so_and_one_that_goes_on_after_its_end_has_another_span() -> None:
    ledger = Ledger()
    ledger.submitted()
    ledger.add("plan.ended", "shop", completed=0, failed=1, skipped=0)
    ledger.add("plan.ended", "shop", completed=0, failed=1, skipped=0)  # nothing had begun
    ledger.started("cmd_build_002")
    ledger.ended("cmd_build_002")
    ledger.add("plan.ended", "shop", completed=1)
    first, turn, second = ledger.told()
    assert first.error == attributes(first)["error.type"] == "FAILED"
    assert turn.parent_id == second.parent_id == first.span_id
    assert second.span_id != first.span_id
    assert second.began == turn.began


def test_a_turn_that_began_before_anybody_looked_has_the_time_that_it_took() -> None:
    ledger = Ledger()
    ledger.ended("cmd_build_001")
    [turn] = ledger.told()
    assert turn.name == "invoke_agent dev"
    assert turn.ended - turn.began == SECOND // 4
    late = Ledger()
    late.started("cmd_build_001", lines=False)
    late.add("lease.ended", "turns/shop/msg_shop_cmd_build_001")
    assert late.told() == []  # whose it was is not known


def test_tasks_of_boards_without_plans_are_traces_of_their_own() -> None:
    ledger = Ledger("_toolchain")
    for task in ("fix", "merge"):
        ledger.started(f"cmd_{task}_001", plan="_toolchain")
        ledger.ended(f"cmd_{task}_001", plan="_toolchain")
    first, second = ledger.told()
    assert first.trace_id != second.trace_id
    assert first.parent_id == second.parent_id == ""


def test_a_plan_within_somebody_elses_trace_belongs_there_also_when_it_goes_on() -> None:
    ledger = Ledger()
    ledger.submitted(within=OUTSIDE)
    ledger.started("cmd_build_001")
    ledger.ended("cmd_build_001")
    ledger.add("plan.ended", "shop", completed=1)
    ledger.started("cmd_build_002")
    ledger.ended("cmd_build_002")
    ledger.add("plan.ended", "shop", completed=1)
    turn, plan, again, second = ledger.told()
    assert {each.trace_id for each in (turn, plan, again, second)} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert plan.parent_id == "00f067aa0ba902b7"
    assert turn.parent_id == again.parent_id == second.parent_id == plan.span_id
    told = NAMING.make_traceparent("default", "shop", "build", "cmd_build_001", 1, spans.read_traceparent(OUTSIDE))
    assert told == f"00-{turn.trace_id}-{turn.span_id}-01"


def test_facts_of_plans_that_lie_in_folders_are_passed_over() -> None:
    ledger = Ledger()
    ledger.add("turn.ended", "turns/shop/msg_1", step="done")
    ledger.add("task.moved", "shop/build", state="FAILED")
    assert ledger.told() == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        f"{OUTSIDE}x",
    ],
)
def test_what_is_no_traceparent_is_passed_over(text: str) -> None:
    assert spans.read_traceparent(text) is None


TASKS = st.sampled_from(["cmd_a_001", "cmd_b_001"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submitted"), st.sampled_from([None, OUTSIDE])),
        st.tuples(st.just("queued"), TASKS),
        st.tuples(st.just("started"), TASKS, st.integers(1, 2), st.booleans()),
        st.tuples(st.just("ended"), TASKS, st.integers(1, 2), st.booleans()),
        st.tuples(st.just("cut"), TASKS),
        st.tuples(st.just("recalled"), TASKS),
        st.tuples(st.just("over"), st.booleans()),
    ),
    max_size=25,
)


def _ledger(steps: list[tuple[Any, ...]]) -> Ledger:
    ledger = Ledger()
    for what, *more in steps:
        match what:
            case "submitted":
                ledger.submitted(within=more[0])
            case "queued":
                ledger.add("commands.queued", "deliveries/shop", lines=[line(more[0][4], more[0])])
            case "started":
                ledger.started(more[0], more[1], lines=more[2])
            case "ended":
                checks = [{"id": "tests", "passed": more[2], "seconds": 0.1}]
                ledger.ended(more[0], more[1], ack=more[2], checks=checks, verdict={"fulfilled": more[2]})
            case "cut":
                ledger.add("lease.ended", f"turns/shop/msg_shop_{more[0]}", cause="ENGINE_ENDED")
            case "recalled":
                ledger.add("message.recalled", f"msg_shop_{more[0]}")
            case "over":
                ledger.add("plan.ended" if more[0] else "plan.cancelled", "shop", completed=1)
    return ledger


@given(STEPS, st.sets(st.integers(0, 25)))
def test_the_same_facts_in_other_pieces_give_the_same_spans(steps: list[tuple[Any, ...]], cuts: set[int]) -> None:
    ledger = _ledger(steps)
    found = ledger.told()
    assert ledger.in_pieces(cuts) == found
    for span in found:
        assert span.began <= span.ended
        assert len(span.span_id) == 16
        assert len(span.trace_id) == 32


VALUES = st.one_of(st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
PAIRS = st.lists(st.tuples(st.text(), VALUES), max_size=4).map(tuple)
SPANS = st.builds(
    Span,
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.binary(min_size=8, max_size=8).map(bytes.hex),
    st.sampled_from(["", "00f067aa0ba902b7"]),
    st.text(),
    st.sampled_from(["internal", "client"]),
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    PAIRS,
    st.lists(st.builds(SpanEvent, st.text(), st.integers(0, 2**63), PAIRS), max_size=2).map(tuple),
    st.sampled_from(["", "FAILED"]),
    st.sampled_from(["", "it failed"]),
)


@settings(max_examples=cases(40))
@given(st.lists(SPANS, max_size=3), PAIRS)
def test_what_is_written_is_what_others_read(written: list[Span], resource: Any) -> None:
    """The reader is the one that OpenTelemetry generates from its own definitions."""
    data = otlp.encode_request(written, resource=resource, version="1.2")
    [one] = ExportTraceServiceRequest.FromString(data).resource_spans
    [scoped] = one.scope_spans
    assert (scoped.scope.name, scoped.scope.version) == ("agenttalk", "1.2")
    assert _read(one.resource.attributes) == resource
    for span, read in zip(written, scoped.spans, strict=True):
        assert (read.trace_id.hex(), read.span_id.hex()) == (span.trace_id, span.span_id)
        assert (read.parent_span_id.hex(), read.name) == (span.parent_id, span.name)
        assert (read.start_time_unix_nano, read.end_time_unix_nano) == (span.began, span.ended)
        assert read.kind == {"internal": 1, "client": 3}[span.kind]
        assert _read(read.attributes) == span.attributes
        assert (
            tuple(SpanEvent(each.name, each.time_unix_nano, _read(each.attributes)) for each in read.events)
            == span.happenings
        )
        assert (read.status.code, read.status.message) == ((2, span.why) if span.error else (0, ""))
        assert read.flags == 1


@given(st.integers(0, 2**63 - 1), st.text())
def test_how_many_were_rejected_is_read(many: int, why: str) -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = many
    answer.partial_success.error_message = why
    assert otlp.read_rejected_count(answer.SerializeToString()) == many
    assert otlp.read_rejected_count(b"") == 0


@given(st.binary(max_size=40))
def test_an_answer_that_is_none_rejects_nothing(answer: bytes) -> None:
    assert 0 <= otlp.read_rejected_count(answer) < 2**63
    assert otlp.read_rejected_count(b"\x0a" + b"\xff" * 12) == 0
    assert otlp.read_rejected_count(b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01") == 0  # a negative number


def _read(pairs: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((each.key, getattr(each.value, each.value.WhichOneof("value"))) for each in pairs)


def test_only_facts_that_matter_are_read() -> None:
    assert {"turn.ended", "plan.ended"} <= traces.FACTS
    assert "delivery" not in traces.FACTS
