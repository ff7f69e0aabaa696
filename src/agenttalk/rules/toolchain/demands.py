"""Whether a forge event was carried out: which evidence decides, and what an agent's own words are worth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.promise import Trust
from agenttalk.contracts.toolchain import NOTICES
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.text import forge_words

Verify = Literal["observed", "report", "transition"]
"""What being done takes: what the forge shows, at least a report, or any sign at all. The last two take claims."""
SHORTEST: Final = 20
"""Characters of a comment that says something."""
SYSTEM: Final = "system"
_BY_SETTING: Final[dict[Verify, tuple[str, ...]]] = {
    "observed": ("read_back",),
    "report": ("read_back", "has_action_report"),
    "transition": ("read_back", "has_action_report", "has_output", "has_comment"),
}


class Demand(NamedTuple):
    """Evidence of which one is enough, and how much it must be trusted."""

    evidence: tuple[str, ...]
    least: Trust


def decide_demand(action_type: str, verify: Verify, *, visible: bool = True) -> Demand:
    """Decide what proves a task done. Where no forge could show it (not `visible`), a report is enough."""
    if action_type in NOTICES:
        return Demand(("delivered",), "observed")
    if action_type == "infrastructure_failure":
        return Demand(("turn_ended",), "observed")
    if verify == "observed" and not visible:
        verify = "report"
    return Demand(_BY_SETTING[verify], "observed" if verify == "observed" else "claimed")


def make_claims(said: Iterable[tuple[str, str, str, str]], at: str) -> list[Evidence]:
    """Evidence from comments and outputs: (kind, author, type, body). All of it is only claimed."""
    return list(dict.fromkeys(_claims(said, at)))


def _claims(said: Iterable[tuple[str, str, str, str]], at: str) -> Iterator[Evidence]:
    for kind, author, type_, body in said:
        if author == SYSTEM or not body.strip():
            continue
        if kind == "output":
            yield Evidence("has_output", True, True, "claimed", author, at, forge_words.HAS_OUTPUT())
        else:
            if type_ == "action_report":
                yield Evidence("has_action_report", True, True, "claimed", author, at, forge_words.HAS_REPORT())
            if len(body.strip()) >= SHORTEST:
                yield Evidence("has_comment", True, True, "claimed", author, at, forge_words.HAS_COMMENT())
