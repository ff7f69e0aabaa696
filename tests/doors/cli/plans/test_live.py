"""What people see of a plan that runs: states, time and cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.core.markup import strip_markup
from agenttalk.doors.cli.core.output import CommandOutput, summarize_lines
from agenttalk.doors.cli.plans.live_view import LivePlanView, describe_usage


def task(task_id: str, board: str = "done", usage: Any = None, **more: Any) -> Any:
    told = {"task_id": task_id, "agent_id": "a", "board": board, "state": board.upper(), "usage": usage}
    return {**told, "score": None, "rounds": 0, "reason": None, "request_id": None, **more}


def standing(*tasks: Any, result: str = "done", usage: Any = None) -> Any:
    return {"result": result, "counts": {"completed": len(tasks)}, "tasks": list(tasks), "usage": usage}


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (None, ""),
        ({"duration_s": 0.04, "tokens": 0, "cost_usd": 0.0}, "0.0 s"),
        ({"duration_s": 59.94, "tokens": 1234, "cost_usd": 0.0123}, "59.9 s, 1,234 tokens, $0.0123"),
        ({"duration_s": 61, "tokens": 0, "cost_usd": 2.5}, "1 min 01 s, $2.50"),
        ({"duration_s": 7260, "tokens": 0, "cost_usd": 0}, "2 h 01 min"),
        ({"duration_s": 1.0}, "1.0 s"),
    ],
)
def test_time_and_cost_are_told_in_words(usage: Any, words: str) -> None:
    assert describe_usage(CommandOutput(as_json=False), usage) == words


def test_each_task_and_the_whole_plan_tell_what_they_took(capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"duration_s": 1.5, "tokens": 200, "cost_usd": 0.5}
    with LivePlanView(CommandOutput(as_json=False), "shop") as live:
        live.show(standing(task("one", "working"), task("two", "pending"), result="running"))
        live.show(standing(task("one", usage=usage), task("two", "failed", usage, reason="no luck"), usage=usage))
        live.conclude(standing(task("one", usage=usage), usage=usage))
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        "▶ one a",
        "✓ one a 1.5 s, 200 tokens, $0.5000",
        "✗ two a 1.5 s, 200 tokens, $0.5000 · no luck",
    ]
    assert out.startswith("✓ shop: everything is done (1 completed; ")
    assert out.endswith(" s; 200 tokens, $0.5000)\n")


def activity(phase: str, **more: Any) -> Any:
    said = {"phase": phase, "detail": "", "tool": "", "file": "", "since": None, "round": 1, "rounds": None}
    return {**said, "tests_done": None, "tests_total": None, "tokens": 0, "cost_usd": 0.0, **more}


def test_a_block_counts_the_attempt_at_hand_too() -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    usage = {"duration_s": 100.0, "tokens": 1000, "cost_usd": 0.0}
    doing = activity("working", tokens=234, round=2, rounds=4)
    shown = standing(
        task("one", "working", usage, activity=doing, since=None),
        task("two", "pending"),
        task("three", usage=usage),
        usage=usage,
    )
    lines = [strip_markup(line) for line in live._draw_lines(shown, 100, 20)]
    assert lines[0].endswith(" · 1,234 tokens · 1 of 3 done")
    assert lines[1:] == [
        "▶ one a  round 2 of 4 · 1 min 40 s · 1,234 tokens",
        "    at work",
        "· two a",
        "✓ three a 1 min 40 s, 1,000 tokens",
    ]


def refusal(number: int, reason: str, at: str = "2999-01-01T00:00:0{}Z", **more: Any) -> Any:
    return {"what": "ordered", "at": at.format(number), "by": "engine", "round": number, "reason": reason, **more}


def explained(history: list[Any]) -> Any:
    return {"history": history}


def test_each_refused_round_is_told_once_also_where_the_status_is_read_rarely(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    first, earlier = refusal(1, "no\nluck \x1b[2J"), refusal(1, "long ago", at="2020-01-01T00:00:00Z")
    second = refusal(2, "criterion 'check' is not shown: 'check' failed", by="bob")
    assert live.list_refused(standing(task("one"), result="running")) == []
    assert live.list_refused(standing(task("one", rounds=1), result="running")) == ["one"]
    live.tell_refused("one", explained([earlier, first, refusal(0, "a conflict", at="2999-01-01T00:00:00Z")]))
    assert live.list_refused(standing(task("one", rounds=1), result="running")) == []
    assert live.list_refused(standing(task("one", rounds=3), result="running")) == ["one"]
    history = [earlier, first, second, refusal(3, "x" * 300), {"what": "granted", "at": "2999-01-01T00:00:09Z"}]
    live.tell_refused("one", explained(history))
    live.tell_refused("one", explained(history))
    assert capsys.readouterr().err.splitlines() == [
        "✗ round 1: refused: no … luck \\x1b[2J",
        "✗ round 2: refused by bob: 'check' failed",
        f"✗ round 3: refused: {'x' * 159}…",
    ]


def test_refused_rounds_of_several_tasks_name_them(capsys: pytest.CaptureFixture[str]) -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    assert live.list_refused(standing(task("one", rounds=1), task("two"), result="running")) == ["one"]
    live.tell_refused("one", explained([refusal(1, "no luck")]))
    assert capsys.readouterr().err == "✗ one round 1: refused: no luck\n"
    silent = LivePlanView(CommandOutput(as_json=True), "shop")
    assert silent.list_refused(standing(task("one", rounds=1), result="running")) == []
    large = LivePlanView(CommandOutput(as_json=False), "shop")
    assert large.list_refused(standing(*(task(f"t{n}", rounds=1) for n in range(51)), result="running")) == []


def test_a_task_that_waits_tells_for_what() -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    shown = standing(
        task("one", "pending", activity=activity("queued_agent")),
        task("two", "working", activity=activity("asking"), since=None, request_id="req_1"),
    )
    lines = [strip_markup(line) for line in live._draw_lines(shown, 100, 20)]
    assert lines[1] == "· one a waits until a is free"
    assert lines[3] == "    waits for a person → 'agenttalk answer req_1'"


def test_a_wait_for_an_account_is_told_once_in_lines_and_always_in_the_block(
    capsys: pytest.CaptureFixture[str],
) -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    shown: Any = {**standing(task("one", "pending"), result="running"), "waits": [{"text": "2 tasks wait for \x1b[2J"}]}
    live.show(shown)
    live.show(shown)
    assert capsys.readouterr().err.splitlines() == ["! 2 tasks wait for \\x1b[2J"]
    assert strip_markup(live._draw_lines(shown, 100, 20)[-1]) == "! 2 tasks wait for \\x1b[2J"


def test_plain_lines_name_each_phase_once(capsys: pytest.CaptureFixture[str]) -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    phases = [
        activity("preparing"),
        activity("working", tool="Edit", detail="Edit a.py"),
        activity("working", tool="Bash", detail="Bash \x1b[2J"),
        activity("checking", detail="unit", tests_done=1),
        activity("checking", detail="unit", tests_done=2),
        activity("checking", detail="lint\x1b[2J"),
    ]
    for doing in phases:
        live.show(standing(task("one", "working", activity=doing), result="running"))
    assert capsys.readouterr().err.splitlines() == [
        "▶ one a",
        "  one: preparing",
        "  one: at work",
        "  one: checking: unit",
        "  one: checking: lint\\x1b[2J",
    ]


@pytest.mark.parametrize(
    ("text", "width", "words"),
    [
        ("", 160, ""),
        ("no  luck", 160, "no luck"),
        ("exit code 1\n  File x\n\nKeyError: 'a'\n", 160, "exit code 1 … KeyError: 'a'"),
        ("✓ shop: everything is done\n\x1b[2J", 160, "✓ shop: everything is done … \\x1b[2J"),
        ("x" * 30, 20, "x" * 19 + "…"),
    ],
)
def test_many_lines_become_one(text: str, width: int, words: str) -> None:
    assert summarize_lines(text, width) == words


def test_tasks_stand_in_the_order_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop", order=["zebra", "ape"])
    live.show(standing(task("ape"), task("new"), task("zebra"), result="running"))
    assert capsys.readouterr().err.splitlines() == ["✓ zebra a", "✓ ape a", "✓ new a"]


def test_a_task_that_came_back_and_is_done_again_is_told_again(capsys: pytest.CaptureFixture[str]) -> None:
    live = LivePlanView(CommandOutput(as_json=False), "shop")
    live.show(standing(task("one"), result="running"))
    live.show(standing(task("one", rounds=1)))
    assert capsys.readouterr().err.splitlines() == ["✓ one a", "✓ one a round 2"]


def test_whoever_is_awaited_is_named_and_where_to_look(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = tmp_path / "system_runtime" / "artifacts" / "shop"
    made.mkdir(parents=True)
    live = LivePlanView(CommandOutput(as_json=False), "shop", without_program={"dev"}, root=tmp_path)
    by_hand = task("deliver", "pending", agent_id="dev") | {"state": "READY"}
    later = task("test", "pending", agent_id="dev") | {"state": "PENDING"}
    asked = task("judge", "blocked", request_id="req_1", reason="somebody has to decide")
    live.conclude(standing(by_hand, later, asked, result="waiting"))
    out, err = capsys.readouterr()
    assert out.splitlines()[1:] == [
        "  · deliver dev waits for an answer to its command in agents/dev/inbox/shop",
        "  ‖ judge a somebody has to decide · question req_1",
    ]
    assert err.replace("\n", "") == f"→ 'agenttalk inbox' shows the question→ its outputs are in {made}"
