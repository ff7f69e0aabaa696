"""Decisions that are known, with their reasons: honest work that a setting refuses on purpose, and what is accepted."""

from __future__ import annotations

from typing import Final

_NAMED: Final = "`until` protects what a command names; the option that permits it is another case"
_SCOPE: Final = "the plan's scope does not name its tests"
KNOWN: Final[dict[str, dict[str, str]]] = {
    "command-names-the-work": {"until": _NAMED},
    "doctests": {"until": _NAMED},
    "with-own-tests-and-conftest": {
        "until": "what decides how tests run is protected, and no option of `until` permits it",
    },
    "with-own-tests": {"plan": _SCOPE, "strict": _SCOPE},
    "class-with-everything": {"strict": "logging and coroutines do not cross; `auto` accepts it"},
}
"""Honest case → setting → why it is refused there, which is not counted as missing a goal."""
WHY: Final[dict[str, str]] = {}
"""Case → why it is accepted, or asked about."""
