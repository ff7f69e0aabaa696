"""The sentence about what a task is doing."""

from __future__ import annotations

from typing import Any, cast, get_args

import pytest

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.agents.activity import ActivityPhase, TaskActivity, describe_activity, shorten
from agenttalk.rules.agents.events import find_file, show_path
from agenttalk.rules.text.message import LOCALES


def activity(phase: str, **more: Any) -> TaskActivity:
    nothing = {"detail": "", "tool": "", "file": "", "since": None, "round": 1, "rounds": None}
    counts = {"tests_done": None, "tests_total": None, "tokens": 0, "cost_usd": 0.0}
    return cast("TaskActivity", {"phase": phase, **nothing, **counts, **more})


@pytest.mark.parametrize(
    ("shown", "english", "chinese"),
    [
        (activity("working"), "at work", "正在执行"),
        (activity("working", tool="Edit", file="price.py", detail="Edit /tree/price.py"), "Edit price.py", None),
        (activity("working", tool="Bash", detail="Bash pytest -q"), "Bash pytest -q", None),
        (activity("working", tool="Bash"), "Bash", None),
        (activity("working", detail="I read the code first."), "I read the code first.", None),
        (activity("queued"), "waits for a free slot", "等待空位"),
        (activity("queued_agent"), "waits until dev is free", "等待 dev 空闲"),
        (activity("preparing", detail="make venv"), "preparing: make venv", "正在准备：make venv"),
        (activity("checking"), "checking", "正在检查"),
        (activity("checking", detail="unit"), "checking: unit", "正在检查：unit"),
        (
            activity("checking", detail="unit", tests_done=12, tests_total=340),
            "checking: unit, 12 of 340 tests",
            "正在检查：unit，已完成 12/340 个测试",
        ),
        (
            activity("baseline", detail="unit", tests_done=12),
            "checking before the work: unit, 12 tests so far",
            "工作开始前的检查：unit，目前 12 个测试",
        ),
    ],
)
def test_an_activity_is_told_in_both_languages(shown: TaskActivity, english: str, chinese: str | None) -> None:
    assert describe_activity(shown, "dev") == english
    assert describe_activity(shown, "dev", "zh") == (chinese if chinese is not None else english)


@pytest.mark.parametrize("phase", get_args(ActivityPhase))
@pytest.mark.parametrize("locale", LOCALES)
def test_every_phase_has_a_sentence(phase: str, locale: Locale) -> None:
    assert describe_activity(activity(phase), "dev", locale)


def test_a_text_of_an_agent_becomes_one_short_line() -> None:
    assert shorten("  a\n\tb ") == "a b"
    assert shorten("x" * 500) == "x" * 159 + "…"


@pytest.mark.parametrize(
    ("arguments", "file"),
    [
        ({"file_path": "/tree/a.py", "content": "x"}, "/tree/a.py"),
        ({"absolute_path": "/tree/a.py"}, "/tree/a.py"),
        ({"path": ["a.py"], "command": "ls"}, ""),
        ({}, ""),
        (None, ""),
        ("a.py", ""),
    ],
)
def test_the_file_of_a_tool_is_found_in_its_arguments(arguments: object, file: str) -> None:
    assert find_file(arguments) == file


def test_a_file_is_shown_from_the_folder_of_the_agent() -> None:
    assert show_path("/tree/src/a.py", "/tree") == show_path("src/a.py", "/tree/") == "src/a.py"
    assert show_path("/treetop/a.py", "/tree") == "/treetop/a.py"
