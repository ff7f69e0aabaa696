"""What coding agents print becomes events: recorded output of the real ones, and whatever else may come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code
from agenttalk.rules.agents import codecs
from agenttalk.rules.agents.cli_table import TABLE
from agenttalk.rules.agents.codecs import CODECS, make_codec
from agenttalk.rules.agents.events import (
    AgentEvent,
    RunSummary,
    describe_arguments,
    diff_session_usage,
    extract_answer,
    sum_session_usage,
)
from agenttalk.rules.core.usage import UsageTotals
from effort import cases

SAMPLES = Path(__file__).parent / "coding_samples"


def events(agent: str, data: bytes) -> list[AgentEvent]:
    """What an agent of the table tells by what it prints."""
    reader = TABLE[agent].make_codec()
    told = [event for line in data.split(b"\n") for event in reader.read_line(line)]
    return [*told, *reader.close()]


def account(agent: str, data: bytes) -> RunSummary:
    found = RunSummary(TABLE[agent].make_codec().says_end)
    for event in events(agent, data):
        found.add_event(event)
    return found


def sample(name: str) -> RunSummary:
    [path] = SAMPLES.glob(f"{name}.*")
    return account(name.partition("-")[0], path.read_bytes())


def lines(*said: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in said)


@pytest.mark.parametrize(
    ("name", "text", "used", "model"),
    [
        ("claude-ok", "Done.", UsageTotals(360, 0.0024000000000000002, 0, 2), "claude-opus-5-5"),
        ("claude-resumed", "4", UsageTotals(120, 0.0032, 0, 0), "claude-opus-5-5"),
        ("codex-ok", "Done.", UsageTotals(240, 0, 0, 1), ""),
        ("codex-failed-command", "Done.", UsageTotals(360, 0, 0, 2), ""),
        ("codex-resumed", "second", UsageTotals(240, 0, 0, 0), ""),
        ("gemini-ok", "first part and more", UsageTotals(240, 0, 0, 1), "gemini-2.5-pro"),
        ("gemini-resumed", "second", UsageTotals(120, 0, 0, 0), "gemini-2.5-pro"),
        ("opencode-ok", "first", UsageTotals(240, 0, 0, 1), ""),
        ("opencode-resumed", "second", UsageTotals(120, 0, 0, 0), ""),
        ("qwen-ok", "first", UsageTotals(240, 0, 0, 1), "scripted"),
        ("qwen-resumed", "second", UsageTotals(480, 0, 0, 0), "scripted"),
    ],
)
def test_a_good_run_is_told_by_its_last_word_and_what_it_used(
    name: str, text: str, used: UsageTotals, model: str
) -> None:
    found = sample(name)
    assert (found.text, found.used, found.model) == (text, used, model)
    assert (found.fault, found.ended, found.denials) == (None, True, [])
    assert found.session
    assert bool(found.remark) == (used.tool_calls == 0)


def test_aider_is_read_by_patterns() -> None:
    found = sample("aider-ok")
    assert (found.used, found.fault, found.remark) == (UsageTotals(120, 0.00045, 0, 1), None, "")
    assert found.text.endswith("hello.txt")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-error", "API Error: 400 bad thing"),
        ("codex-error", "bad thing"),
        ("gemini-error", "bad thing"),
        ("opencode-error", "bad thing"),
        ("qwen-error", "[API Error: 400 bad thing]"),
        ("aider-error", "litellm.BadRequestError: OpenAIException - bad key"),
    ],
)
def test_a_failure_is_told_by_its_reason(name: str, words: str) -> None:
    fault = sample(name).fault
    assert fault is not None
    assert fault[0] is Code.COMMAND_FAILED
    assert words in fault[1]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude-denied", "Bash This command requires approval"),
        ("gemini-denied", "write_file Path not in workspace"),
        ("opencode-denied", "write The user rejected permission"),
    ],
)
def test_what_was_not_permitted_is_the_reason_whatever_the_agent_says_in_the_end(name: str, words: str) -> None:
    found = sample(name)
    assert found.fault is not None
    assert found.fault[0] is Code.AGENT_DENIED
    assert words in found.fault[1]
    assert len(found.denials) == 1  # told twice by some


def test_claude_tells_denials_also_by_answers_of_tools_and_in_the_end() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "rm x"}}
    refused = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [{"text": "requires approval"}]}
    data = lines(
        {"type": "assistant", "message": {"content": [call, {"type": "thinking"}, "odd"]}},
        {"type": "user", "message": {"content": [refused, {**refused, "content": "no such file"}, {"type": "text"}]}},
        {"type": "user", "message": {"content": [{**refused, "tool_use_id": "t2", "content": "no such file"}]}},
        {"type": "user", "message": {"content": "a text"}},
        {
            "type": "result",
            "subtype": "success",
            "is_error": False,
            "result": "ok",
            "permission_denials": [
                {"tool_name": "Bash", "tool_use_id": "t1"},
                {"tool_name": "Edit", "tool_use_id": "t3", "tool_input": {"file_path": "a.py"}},
                {"tool_name": "Read"},
            ],
        },
    )
    assert account("claude", data).denials == ["Bash requires approval", "Edit a.py", "Read"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"subtype": "error_max_turns", "is_error": False}, "error_max_turns"),
        ({"subtype": "success", "is_error": True}, "success"),
        ({"subtype": "success"}, "success"),
        ({}, "without a reason"),
    ],
)
def test_an_end_of_claude_that_is_not_plainly_good_is_bad(said: dict[str, Any], words: str) -> None:
    fault = account("claude", lines({"type": "result", **said})).fault
    assert fault is not None
    assert words in fault[1]


def test_a_message_of_claude_that_is_told_in_pieces_counts_once() -> None:
    def piece(name: str, count: object) -> dict[str, Any]:
        usage = {"input_tokens": count, "cache_read_input_tokens": 10, "output_tokens": True}
        return {"type": "assistant", "message": {"id": name, "content": [{"type": "text", "text": ""}], "usage": usage}}

    data = lines(piece("m1", 100), piece("m1", 200), piece("m2", 5), piece("m3", "many"))
    assert account("claude", data).used.tokens == 210 + 15 + 10


def test_codex_tells_tools_of_every_kind_and_what_was_declined() -> None:
    def item(kind: str, **keys: Any) -> dict[str, Any]:
        return {"type": "item.completed", "item": {"id": str(keys), "type": kind, **keys}}

    data = lines(
        item("file_change", changes=[{"path": "a.py"}, {"path": "b.py"}], status="completed"),
        item("mcp_tool_call", server="agenttalk", tool="my_tasks", arguments={}, status="failed"),
        item("mcp_tool_call", server="x", tool="y", status="failed", error={"message": "rejected: blocked by policy"}),
        item("web_search", query="price"),
        item("command_execution", command="rm -rf /", status="declined"),
        item("command_execution", command="ls", status="failed", aggregated_output="no"),
        item("reasoning", text="hm"),
        {"type": "item.updated", "item": "odd"},
        {"type": "error", "message": "Reconnecting... 1/5"},
    )
    told = events("codex", data)
    assert [(each.name, each.text) for each in told if each.kind == "tool"] == [
        ("file_change", "a.py, b.py"),
        ("agenttalk.my_tasks", ""),
        ("x.y", ""),
        ("web_search", "price"),
        ("command_execution", "rm -rf /"),
        ("command_execution", "ls"),
    ]
    assert [each.line for each in told if each.kind == "denied"] == [
        "mcp_tool_call rejected: blocked by policy",
        "command_execution rm -rf /",
    ]
    found = RunSummary(denials=[])
    for event in told:
        if event.kind != "denied":
            found.add_event(event)
    assert found.fault == (
        Code.COMMAND_FAILED,
        "the agent ended without saying how its work ended; its last output was: Reconnecting... 1/5",
    )


def test_a_text_of_gemini_is_put_together_also_when_it_breaks_off() -> None:
    begin = {"type": "message", "role": "assistant", "content": "a", "delta": True}
    told = events("gemini", lines(begin, {**begin, "content": "b"}, {"type": "error", "message": "slow"}, begin))
    assert told == [AgentEvent("text", "ab"), AgentEvent("warning", "slow"), AgentEvent("text", "a")]


def test_an_end_of_opencode_without_stop_is_none() -> None:
    step = {"type": "step_finish", "sessionID": "ses_1", "part": {"reason": "length", "tokens": {}, "cost": 0.5}}
    tool = {"type": "tool_use", "sessionID": "ses_1", "part": {"tool": "bash", "state": {"status": "error"}}}
    found = account("opencode", lines(tool, step, step))
    assert (found.session, found.used, found.ended) == ("ses_1", UsageTotals(0, 1.0, 0, 1), False)
    assert account("opencode", lines({"type": "error", "error": {"name": "Odd"}})).error == "Odd"


def test_text_is_all_that_is_said_and_notes_of_ours_count() -> None:
    reader = make_codec("text", ["^DENIED"], ["^FATAL"], counted=r"(?P<read>\S+) tokens")
    data = b'begin\n{"agenttalk": {"usage": {"cost_usd": 2, "tokens": 5}, "progress": "reading"}}\nDENIED x\nFATAL y\n'
    data += b'1.5k tokens\n{"agenttalk": {"usage": {}}}\n.,. tokens\nodd tokens\nend'
    told = [event for line in data.split(b"\n") for event in reader.read_line(line)] + list(reader.close())
    assert [(each.kind, each.text, each.used.tokens) for each in told] == [
        ("usage", "", 5),
        ("tool", "reading", 0),
        ("denied", "DENIED x", 0),
        ("error", "FATAL y", 0),
        ("usage", "", 1505),
        ("usage", "", 1505),
        ("usage", "", 1505),
        ("usage", "", 1505),
        ("text", "begin\nend", 0),
    ]
    assert list(reader.close()) == []


def test_who_never_ends_telling_does_not_fill_our_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "_REMEMBERED", 10)
    monkeypatch.setattr(codecs, "_PIECES", 20)
    claude, gemini, text = (TABLE[name].make_codec() for name in ("claude", "gemini", "aider"))
    for number in range(100):
        usage = {"id": str(number), "usage": {"input_tokens": 1}}
        list(claude.read_line(b'{"type": "assistant", "message": %s}' % json.dumps(usage).encode()))
        list(gemini.read_line(b'{"type": "message", "role": "assistant", "content": "x"}'))
        list(text.read_line(b"x"))
    [said] = gemini.close()
    assert (len(said.text), len(claude._counted), claude._tokens) == (20, 10, 100)  # type: ignore[attr-defined]
    assert [len(each.text) for each in text.close()] == [39]
    found = RunSummary()
    for number in range(100):
        found.add_event(AgentEvent("denied", str(number)))
    assert len(found.denials) == 20


@settings(max_examples=cases(60))
@given(
    name=st.sampled_from(CODECS),
    line=st.one_of(
        st.binary(max_size=60),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(
                        ["type", "message", "content", "item", "part", "state", "usage", "error", "id", "status"]
                    ),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode("utf-8", "replace")),
    ),
    kind=st.sampled_from(
        [b"result", b"assistant", b"user", b"item.completed", b"turn.completed", b"tool_use", b"step_finish", b"error"]
    ),
)
def test_whatever_is_printed_nothing_is_raised(name: str, line: bytes, kind: bytes) -> None:
    reader, found = make_codec(name, ["a"], ["b"], acted="c", counted="d"), RunSummary()
    for each in (line, b'{"type": "%b", "message": %b, "part": %b, "item": %b}' % (kind, line, line, line)):
        for event in reader.read_line(each):
            found.add_event(event)
            assert json.loads(json.dumps(event.as_json()))["kind"] == event.kind
            assert len(event.line) <= 200
    for event in reader.close():
        found.add_event(event)
    assert found.fault is None or found.fault[1]


def test_a_codec_or_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no codec 'morse'; there are: claude"):
        make_codec("morse")
    with pytest.raises(ValueError, match="a pattern for the output"):
        make_codec("text", ["("])


def test_an_empty_turn_is_none() -> None:
    assert RunSummary(says_end=False).fault == (
        Code.AGENT_SILENT,
        "the agent ended without any output or action",
    )
    assert RunSummary(says_end=False, text="yes").fault is None
    assert RunSummary(says_end=False, tools=1).fault is None
    assert "without saying how" in str(RunSummary(text="yes").fault)


def test_a_session_that_could_be_an_option_is_not_taken() -> None:
    found = RunSummary()
    for name in ("abc-1", "--dangerous", "a b", "x" * 200, ""):
        found.add_event(AgentEvent("session", name, "m"))
    assert (found.session, found.model) == ("abc-1", "m")


def test_several_runs_of_a_session_are_added_where_the_agent_does_not_do_it() -> None:
    before, now = UsageTotals(100, 1.0, 5, 2), UsageTotals(150, 0.5, 1, 1)
    assert sum_session_usage(before, now, ()) == UsageTotals(250, 1.5, 6, 3)
    assert sum_session_usage(before, now, {"tokens"}) == UsageTotals(150, 1.5, 6, 3)
    assert sum_session_usage(before, now, {"cost_usd"}) == UsageTotals(250, 1.0, 6, 3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"result": 1}', '{"result":1}'),
        ('Here:\n```json\n{\n "result": "yes",\n "score": 3\n}\n```\nBye.', '{"result":"yes","score":3}'),
        ('```\n{"score": 1}\n```\n```json\n{"a": 1}\n```', '{"score":1}'),
        ("```json\nnone\n```", None),
        ("[1]", None),
        ("plain", None),
    ],
)
def test_an_answer_in_a_block_of_code_becomes_its_last_line(text: str, said: str | None) -> None:
    assert extract_answer(text) == (text if said is None else f"{text}\n{said}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": ["bash", "-lc", "ls"]}, "bash -lc ls"),
        ({"command": "", "path": "a.py"}, "a.py"),
        ({"x": 1}, '{"x":1}'),
        ({}, ""),
        ("text", ""),
        ({"x": "\ud800"}, ""),
    ],
)
def test_what_a_tool_is_called_for(arguments: object, said: str) -> None:
    assert describe_arguments(arguments) == said


def test_long_lines_are_cut_for_people() -> None:
    assert AgentEvent("text", "x" * 300).line == "x" * 199 + "…"
    assert AgentEvent("usage", used=UsageTotals(3, 0.5)).as_json() == {"kind": "usage", "tokens": 3, "cost_usd": 0.5}


def test_that_something_was_asked_says_nothing_of_the_answer() -> None:
    found = RunSummary()
    found.add_event(AgentEvent("asked", "may it write?"))
    assert (found.denials, found.error, found.ended, found.text) == ([], "", False, "")


LONG = {"type": "result", "subtype": "success", "is_error": False, "usage": {"input_tokens": 7}, "result": "a\\ü\n" * 9}


@pytest.mark.mends("C8")
@pytest.mark.parametrize("cut", [*range(1, 24)])
def test_an_answer_that_was_cut_off_is_an_answer_that_says_so(cut: int) -> None:
    found = account("claude", json.dumps(LONG).encode()[:-cut])
    assert (found.ended, found.error, found.used.tokens) == (True, "", 7)
    assert found.text.startswith("a\\ü\na")
    assert found.text.endswith("…") or cut == 1


@pytest.mark.mends("C8")
@pytest.mark.parametrize(
    "line", [b'{"type": "result", "subtype": "succ', b'{"a": [}', b"{", b'{"type": "result"}}', b'{"a" "b", 1']
)
def test_what_is_cut_off_before_it_says_that_it_went_well_is_no_end(line: bytes) -> None:
    assert not account("claude", line).ended


@given(
    st.recursive(
        st.text() | st.integers() | st.booleans(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    ),
    st.data(),
)
def test_any_beginning_of_a_line_is_read_without_an_error(value: Any, data: st.DataObject) -> None:
    line = json.dumps({"type": "result", "value": value, "result": "x"}).encode()
    assert isinstance(account("claude", line[: data.draw(st.integers(0, len(line)))]), RunSummary)


@pytest.mark.mends("C3")
def test_of_a_session_that_goes_on_only_what_is_new_counts() -> None:
    now, earlier = UsageTotals(100, 0.75, 5, 2), UsageTotals(60, 0.5, 9, 9)
    assert diff_session_usage(now, earlier, {"cost_usd"}) == UsageTotals(100, 0.25, 5, 2)
    assert diff_session_usage(now, earlier, {"tokens"}) == UsageTotals(40, 0.75, 5, 2)
    assert diff_session_usage(earlier, now, {"tokens", "cost_usd"}) == UsageTotals(0, 0.0, 9, 9)


@pytest.mark.mends("B7")
def test_an_agent_that_counts_calls_of_tools_is_not_said_to_have_called_none() -> None:
    account = RunSummary()
    account.add_event(AgentEvent("usage", used=UsageTotals(tool_calls=1)))
    assert account.remark == ""
    assert "called no tool" in RunSummary().remark
