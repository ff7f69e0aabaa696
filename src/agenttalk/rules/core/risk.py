"""Assesses the risk of a change from its paths and its size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from typing import Final, Literal

RiskLevel = Literal["high", "medium", "low"]
MOST_LINES: Final = 400
MOST_FILES: Final = 20
_HARMLESS: Final = re.compile(
    r"(?:.*/)?(?:docs?|tests?|__tests__)/.*|.*\.(?:md|rst|adoc|txt)|(?:.*/)?(?:test_[^/]*|[^/]*_test|[^/]*\.(?:test|spec))\.\w+",
    re.IGNORECASE,
)


def assess_risk(
    paths: Sequence[str] | None, *, lines: int | None = None, files: int | None = None, high: Sequence[str] = ()
) -> RiskLevel:
    """Assess the risk of a change. None stands for an unknown value; with unknown paths the risk is never low."""
    count = len(paths) if files is None and paths is not None else files or 0
    patterns = [re.compile(translate(glob), re.IGNORECASE) for glob in high]
    if (lines or 0) > MOST_LINES or count > MOST_FILES:
        return "high"
    if any(pattern.match(path) for pattern in patterns for path in paths or ()):
        return "high"
    return "low" if paths and all(_HARMLESS.fullmatch(path) for path in paths) else "medium"
