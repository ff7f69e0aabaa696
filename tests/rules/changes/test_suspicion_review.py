"""What follows from suspicious lines of a work, for each setting of a check."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.changes import suspicion_review as review
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.suspicions import Suspicion, find_suspicions
from agenttalk.rules.core.scope import Globs
from agenttalk.rules.proof.evidence import CheckResult, Confirmation, Fingerprint

AT = datetime(2026, 1, 1, tzinfo=UTC)
PASSED = CheckResult("a", True, "executed", "", "", AT, AT, Fingerprint())
RUN = {"id": "a", "kind": "run", "run": "make test"}


def seen(text: str = "class A:\n    def __eq__(self, o):\n        return True\n") -> tuple[Suspicion, ...]:
    return find_suspicions([ChangedFile("a.py", b"", text.encode())], Globs())


def promise(*checks: dict[str, Any]) -> CompletionPromise:
    given = {"id": "", "objective": "", "acceptance": [], "checks": list(checks)}
    return CompletionPromise.model_validate(given)


@pytest.mark.parametrize(
    ("checks", "watch"),
    [
        ([RUN], "ask"),
        ([{**RUN, "suspicion": "note"}], "note"),
        ([{**RUN, "suspicion": "refuse"}], "refuse"),
        ([RUN, {"id": "b", "kind": "human", "question": "?"}], "note"),
        ([RUN, {"id": "b", "kind": "artifact", "output": "x", "accepted_by": "other"}], "note"),
        ([RUN, {"id": "b", "kind": "artifact", "output": "x"}], "ask"),
        ([RUN, {"id": "b", "kind": "run", "run": "ruff check"}], "ask"),
        ([{**RUN, "suspicion": "ask"}, {"id": "b", "kind": "human", "question": "?"}], "ask"),
        ([{"id": "a", "kind": "file", "path": "x"}], "note"),
    ],
)
def test_a_person_is_asked_where_nobody_outside_the_work_judges(checks: list[dict[str, Any]], watch: str) -> None:
    made = promise(*checks)
    assert review.find_watch(made.checks[0], made) == watch
    assert (review.make_question(made, seen()) is not None) is (watch == "ask")
    assert review.make_question(made, seen("# noqa\n")) is None


def judge(
    watch: str, answer: Confirmation | None = None, result: CheckResult = PASSED, shown: str = "h"
) -> CheckResult:
    made = promise({**RUN, "suspicion": watch})
    return review.judge_result(result, made.checks[0], made, seen(), answer, shown)


def test_each_setting_has_its_end() -> None:
    noted = judge("note")
    assert noted.passed
    assert "a.py:2 [always-equal]" in noted.detail
    refused = judge("refuse", Confirmation("ann", True, "h"))
    assert (refused.passed, refused.reason) == (False, "suspicious")
    unasked = judge("ask")
    assert (unasked.passed, unasked.reason) == (False, "suspicious")
    assert not judge("ask", Confirmation("ann", False, "h")).passed
    assert not judge("ask", Confirmation("ann", True, "other")).passed, "it was about other lines"
    approved = judge("ask", Confirmation("ann", True, "h"))
    assert approved.passed
    assert "ann" in approved.detail
    failed = replace(PASSED, passed=False, detail="it failed")
    assert judge("ask", None, failed) == failed
    assert "it ran" in judge("note", None, replace(PASSED, detail="it ran")).detail


def test_the_question_names_the_lines_and_its_hash_is_about_them() -> None:
    many = seen("import builtins\n" + "".join(f"builtins.x{n} = 1\n" for n in range(20)))
    question = review.make_question(promise(RUN), many)
    assert question is not None
    assert "and 8 more" in question.question
    assert review.hash_lines(many) != review.hash_lines(many[1:])
    whole = Suspicion("binary-code", "a.so", 0, many[0].message)
    assert review.describe_line(whole).startswith("a.so [binary-code]")
