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
    render_execute_prompt,
    render_limits,
    render_tools_note,
)
from agenttalk.rules.prompts.size import estimate_tokens
from kits.samples import command

GOLDEN = Path(__file__).parent / "golden"
BASE = "/home/someone/projects/shop/.agenttalk/agents/dev/workspace/fix/rounding/.agenttalk/cmd_rounding_001-1"
TASK = "Prices are rounded down. Round them half up, in price.py."
CHECK = {"id": "tests-pass", "kind": "tests", "run": "python -m pytest -q --junitxml=report.xml", "junit": "report.xml"}
PROMISE = CompletionPromise.model_validate({"id": "cp-1-0000", "objective": "o", "acceptance": [], "checks": [CHECK]})


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_a_plain_code_task_with_one_check_costs_few_tokens_beside_its_own_text(locale: Locale) -> None:
    handover = Handover(f"{BASE}/outputs", f"{BASE}/result.json", by="message")
    whole = render_execute_prompt(
        "", Command.from_json(command(prompt=TASK)), [], (), handover, fence="f" * 24, locale=locale
    )
    whole += render_limits(PROMISE, in_tree=True, locale=locale)
    whole += render_tools_note(locale=locale)
    path = GOLDEN / f"code_task.{locale}.md"
    if os.environ.get("AGENTTALK_UPDATE_GOLDEN"):
        path.write_text(whole, encoding="utf-8")
    assert whole == path.read_text(encoding="utf-8")
    assert estimate_tokens(whole) - estimate_tokens(TASK) <= 350, "of the 600 that we allow ourselves"
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
def test_an_estimate_is_not_below_what_a_known_tokenizer_counts(text: str, known: int) -> None:
    assert estimate_tokens(text) >= known
