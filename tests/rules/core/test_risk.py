"""How much care a change needs."""

from __future__ import annotations

import pytest

from agenttalk.rules.core.risk import assess_risk


@pytest.mark.parametrize(
    ("paths", "lines", "files", "expected"),
    [
        (None, None, None, "medium"),
        ([], None, None, "medium"),
        (["src/a.py"], 10, 1, "medium"),
        (["docs/a.md", "README.md", "tests/test_a.py", "src/a_test.go", "x/a.spec.ts"], 10, None, "low"),
        (["docs/a.md", "src/a.py"], 10, 2, "medium"),
        (["docs/a.md"], 401, 1, "high"),
        (None, 400, 20, "medium"),
        (None, None, 21, "high"),
        ([f"docs/{n}.md" for n in range(21)], None, None, "high"),
        (["docs/auth/a.md"], 1, 1, "high"),
        (["SRC/Auth/a.py"], 1, 1, "high"),
    ],
)
def test_size_and_place_decide(paths: list[str] | None, lines: int | None, files: int | None, expected: str) -> None:
    assert assess_risk(paths, lines=lines, files=files, high=("*/auth/*",)) == expected
