"""What people see of a plan that runs: states, time and cost."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.cli.live import Live, spent
from agenttalk.cli.output import Output


def task(task_id: str, board: str = "done", usage: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    told = {"task_id": task_id, "agent_id": "a", "board": board, "state": board.upper(), "usage": usage}
    return {**told, "score": None, "reexecutions": 0, "reason": None, "request_id": None, **more}


def standing(*tasks: dict[str, Any], result: str = "done", usage: dict[str, Any] | None = None) -> dict[str, Any]:
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
def test_time_and_cost_are_told_in_words(usage: dict[str, Any] | None, words: str) -> None:
    assert spent(usage) == words


def test_each_task_and_the_whole_plan_tell_what_they_took(capsys: pytest.CaptureFixture[str]) -> None:
    usage = {"duration_s": 1.5, "tokens": 200, "cost_usd": 0.5}
    with Live(Output(as_json=False), "shop") as live:
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


def test_a_table_counts_the_attempt_at_hand_too() -> None:
    live = Live(Output(as_json=False), "shop")
    usage = {"duration_s": 100.0, "tokens": 0, "cost_usd": 0.0}
    shown = standing(task("one", "working", usage), task("two", "pending"), task("three", usage=usage))
    live.show(shown)
    table = live._table(shown)
    took = list(table.columns[4].cells)
    assert took == ["1 min 40 s", "", "1 min 40 s"]
