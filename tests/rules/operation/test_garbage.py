"""What may be removed follows from its age and from how much there is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.operation.retention import KINDS, RemovableItem, RetentionLimit, choose_removals

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def item(days: float, size: int = 10, kind: str = "clones") -> RemovableItem:
    return RemovableItem(kind, f"{kind}/{days}", size, NOW - timedelta(days=days))  # type: ignore[arg-type]


def test_what_is_older_than_it_is_kept_goes_the_oldest_first() -> None:
    items = [item(1), item(40), item(30), item(29.9)]
    assert choose_removals(items, {"clones": RetentionLimit(30)}, NOW) == [items[1], items[2]]


def test_what_is_too_much_goes_too_though_it_is_young() -> None:
    items = [item(3, 10), item(2, 10), item(1, 10), item(1, 10, "blobs")]
    assert choose_removals(items, {"clones": RetentionLimit(30, 15)}, NOW) == items[:2]
    assert choose_removals(items, {"clones": RetentionLimit(30, 30)}, NOW) == []
    assert choose_removals(items, {}, NOW) == []


@given(
    st.lists(st.builds(item, st.floats(0, 100), st.integers(0, 50), st.sampled_from(KINDS))),
    st.integers(0, 100),
    st.none() | st.integers(0, 500),
)
def test_nothing_old_and_no_more_than_the_most_is_left_and_nothing_young_goes_without_need(
    items: list[RemovableItem], days: int, most: int | None
) -> None:
    gone = choose_removals(items, {kind: RetentionLimit(days, most) for kind in KINDS}, NOW)
    left = list(items)
    for each in gone:
        left.remove(each)
    for kind in KINDS:
        own = [each for each in left if each.kind == kind]
        assert all(each.at > NOW - timedelta(days=days) for each in own)
        assert most is None or sum(each.size for each in own) <= most
        assert most is not None or all(each.at <= NOW - timedelta(days=days) for each in gone if each.kind == kind)
