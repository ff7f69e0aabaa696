"""What we add to a turn is small, and its size is estimated on the safe side."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agenttalk.contracts.command import Command
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.prompts.execute import (
    Handover,
    WorkLimits,
    render_execute_prompt,
    render_tools_note,
)
from agenttalk.rules.prompts.size import SectionSize, estimate_tokens, measure_sections
from kits.samples import command

GOLDEN = Path(__file__).parent / "golden"
BASE = "/home/someone/projects/shop/.agenttalk/agents/dev/workspace/fix/rounding/.agenttalk/cmd_rounding_001-1"
TASK = "Prices are rounded down. Round them half up, in price.py."
CHECK = {"id": "tests-pass", "kind": "tests", "run": "python -m pytest -q --junitxml=report.xml", "junit": "report.xml"}
PROMISE = CompletionPromise.model_validate({"id": "cp-1-0000", "objective": "o", "acceptance": [], "checks": [CHECK]})


PRINTED = "FAILED tests/test_price.py::test_half - assert 0.12 == 0.13\n1 failed in 0.09s\n"
ISSUES = (
    ("completeness", "criterion 'right' is not shown: 'tests-pass' failed (0 passed, 1 failed)"),
    ("check", f"'{CHECK['run']}' ended with 1:\n{PRINTED}"),
)
RESULT = {
    "validator": "engine",
    "score": 0,
    "reason": "no",
    "issues": [{"severity": "HIGH", "category": category, "description": said} for category, said in ISSUES],
}
REWORK = {"original_task_id": "task_001", "original_agent": "dev", "attempt": 1, "validation_result": RESULT}
FENCE = "1020240c1fb4c4264ab280a6"


@pytest.mark.parametrize("locale", ["en", "zh"])
@pytest.mark.parametrize(
    ("name", "most"), [("code_task", 350), ("code_task_with_tools", 400), ("code_task_again", 700)]
)
def test_a_plain_code_task_with_one_check_costs_few_tokens_beside_its_own_text(
    locale: Locale, name: str, most: int
) -> None:
    handover = Handover(
        f"{BASE}/outputs", f"{BASE}/result.json", by="message", has_tools=name == "code_task_with_tools"
    )
    changes = {"reexecute": REWORK} if name == "code_task_again" else {}
    whole = render_execute_prompt(
        "",
        Command.from_json(command(prompt=TASK, **changes)),
        [],
        (),
        handover,
        fence=FENCE,
        locale=locale,
        limits=WorkLimits(PROMISE, in_tree=True),
        patch=f"{BASE}/inputs/previous_output/attempt.patch" if changes else "",
    )
    whole += render_tools_note(locale=locale) if handover.has_tools else ""
    path = GOLDEN / f"{name}.{locale}.md"
    if os.environ.get("AGENTTALK_UPDATE_GOLDEN"):
        path.write_text(whole, encoding="utf-8")
    assert whole == path.read_text(encoding="utf-8")
    own = estimate_tokens(TASK) + (estimate_tokens(PRINTED) if changes else 0)
    assert estimate_tokens(whole) - own <= most, "for a first turn, 600 would be allowed"
    sections = measure_sections(whole)
    assert len(sections) == whole.count("# ") - whole.count("## ")
    assert abs(sum(each.tokens for each in sections) - estimate_tokens(whole)) <= len(sections)
    assert whole.index(TASK) < 30, "the task comes first"
    sentences = [each.strip() for each in whole.replace("。", ".").split(".") if len(each.strip()) > 12]
    assert len(sentences) == len(set(sentences)), "each thing is said once"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("the", 1),
        (" the", 1),
        ("    the 12", 4),
        ("rounding", 3),
        ("2026", 2),
        ('{"a":{"b":1}}', 8),
        ("\n\n", 1),
        ("任务", 3),
        ("\ud800", 1),
    ],
)
def test_tokens_are_estimated_by_the_kinds_of_signs(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "known"),
    [
        # Counted by the tokenizer cl100k_base, as its documentation and examples show.
        ("tiktoken is great!", 6),
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ],
)
def test_an_estimate_of_a_short_text_is_not_below_what_a_known_tokenizer_counts(text: str, known: int) -> None:
    assert estimate_tokens(text) >= known


@pytest.mark.parametrize(
    ("name", "known"),
    [
        # The most that one of three published tokenizers counts: cl100k_base, o200k_base, and that of Claude 2.
        ("code_task.en.md", 175),
        ("code_task.zh.md", 198),
        ("code_task_again.en.md", 432),
        ("code_task_again.zh.md", 497),
        ("code_task_with_tools.en.md", 205),
        ("code_task_with_tools.zh.md", 236),
    ],
)
def test_an_estimate_of_a_prompt_is_above_what_known_tokenizers_count_and_not_far(name: str, known: int) -> None:
    assert known <= estimate_tokens((GOLDEN / name).read_text(encoding="utf-8")) <= 1.7 * known


def test_only_our_own_titles_begin_a_section() -> None:
    fence = "x" * 24
    told = [
        "# Your task\n\nWrite.\n\n# A heading of the task\n\n",
        f"# Inputs\n\nBEGIN {fence}\n# Your task\nEND {fence}x\nEND {fence}\n\n",
        "# How to hand over\n",
    ]
    assert measure_sections("".join(told)) == [
        SectionSize(title, estimate_tokens(text))
        for title, text in zip(("Your task", "Inputs", "How to hand over"), told, strict=True)
    ]
    assert measure_sections("Before.\n# Tools\n")[0] == SectionSize("", 4)
    assert measure_sections("") == []
