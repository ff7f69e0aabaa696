"""A promise as a list that people can read: of each line whether it is proven, by whom and how."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agenttalk.contracts.promise import AcceptanceCriterion
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.message import Message

ItemStanding = Literal["proven", "claimed", "stale", "failed", "open"]


@dataclass(frozen=True, slots=True)
class CheckSummary:
    """The result of a check, as people see it."""

    id: str
    passed: bool
    fresh: bool
    trust: str
    by: str
    at: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ChecklistItem:
    """One line of the list."""

    id: str
    description: str
    standing: ItemStanding
    wants: tuple[str, ...]
    """Ids of evidence, any of which would do."""
    trust: str | None = None
    by: str | None = None
    at: str | None = None
    detail: str = ""


def build_checklist(
    criteria: Sequence[AcceptanceCriterion],
    seen: Collection[CheckSummary],
    verdict: Mapping[str, Any] | None,
    *,
    stale: bool,
    ended_at: str | None,
) -> list[ChecklistItem]:
    """Return how each criterion stands. Nothing is decided here: the decision is shown line by line.

    What is not known to be proven is not shown as proven.
    """
    return [_item(each, seen, verdict, stale=stale, ended_at=ended_at) for each in criteria]


def _item(
    criterion: AcceptanceCriterion,
    seen: Collection[CheckSummary],
    verdict: Mapping[str, Any] | None,
    *,
    stale: bool,
    ended_at: str | None,
) -> ChecklistItem:
    wants = tuple(criterion.evidence_required)
    found = [each for each in seen if each.id in wants]
    best = max(found, key=lambda each: (each.passed, each.fresh, each.trust != "claimed", each.at), default=None)
    if best is not None:
        return ChecklistItem(
            criterion.id, criterion.description, _standing(best), wants, best.trust, best.by, best.at, best.detail
        )
    standing, trust = _by_verdict(criterion, verdict, stale=stale)
    by = (verdict or {}).get("accepted_by") or "engine"
    if standing in {"proven", "stale"}:
        return ChecklistItem(criterion.id, criterion.description, standing, wants, trust, str(by), ended_at)
    return ChecklistItem(criterion.id, criterion.description, standing, wants, trust)


def _standing(best: CheckSummary) -> ItemStanding:
    if not best.passed:
        return "failed"
    if best.trust == "claimed":
        return "claimed"
    return "proven" if best.fresh else "stale"


def _by_verdict(
    criterion: AcceptanceCriterion, verdict: Mapping[str, Any] | None, *, stale: bool
) -> tuple[ItemStanding, str | None]:
    """Return what the verdict says about a criterion whose evidence is not kept by itself."""
    if verdict is None:
        return "open", None
    unverified = verdict.get("unverified") or ()
    if f"criterion:{criterion.id}" in unverified or not set(criterion.evidence_required).isdisjoint(unverified):
        return "claimed", "claimed"
    if not verdict.get("fulfilled"):
        return "failed" if any(
            _is_about(blocker, criterion.id) for blocker in verdict.get("blockers") or ()
        ) else "open", None
    trust = verdict.get("trust")
    if trust in {None, "claimed"}:
        return "claimed", "claimed"
    return "stale" if stale else "proven", str(trust)


def _is_about(blocker: str, criterion_id: str) -> bool:
    """Return whether a reason is that a criterion is not shown."""
    if not isinstance(blocker, Message) or blocker.template is not verdict_words.NOT_SHOWN:
        return False
    return blocker.params["name"] == criterion_id
