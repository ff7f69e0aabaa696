"""What is built on what in a merge train, and what may land."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core.merge_train import MergeLine


def line_of(*leases: str) -> MergeLine:
    """A train in which each member has built on the one before it."""
    line = MergeLine()
    for lease in leases:
        line = line.join(lease)
        base = line.find_base(lease)
        assert base is not None
        line = line.offer(lease, base)
    return line


def test_each_builds_on_the_one_before_and_waits_until_that_is_built() -> None:
    line = MergeLine().join("a").join("b")
    assert line.find_base("a") == line.tip
    assert line.find_base("b") is None
    line = line.offer("a", line.tip)
    assert line.find_base("b") == line.member("a").build
    assert not line.is_outdated("a")
    assert line.is_outdated("b")  # it is not built yet


def test_the_first_lands_and_those_behind_it_stay_as_they_are() -> None:
    line = line_of("a", "b", "c")
    assert line.is_first("a")
    assert not line.is_first("b")
    line = line.land("a")
    assert line.is_first("b")
    assert not line.is_outdated("b")
    assert not line.is_outdated("c")
    assert line.land("b").land("c").members == ()


def test_only_the_first_lands_and_only_on_the_tip() -> None:
    line = line_of("a", "b")
    with pytest.raises(ValueError, match="b cannot land"):
        line.land("b")
    with pytest.raises(ValueError, match="a cannot land"):
        line.move_tip().land("a")


def test_those_behind_one_that_failed_build_on_the_one_before_it() -> None:
    line = line_of("a", "b", "c")
    line = line.fail("b", line.member("b").base)
    assert not line.is_outdated("b")
    assert not line.is_first("b")  # a may be the cause, and has not landed
    assert line.is_outdated("c")
    assert line.find_base("c") == line.member("a").build
    line = line.offer("c", line.member("a").build).land("a")
    assert line.is_first("b")  # now it is final
    line = line.leave("b")
    assert line.is_first("c")
    assert not line.is_outdated("c")


def test_one_that_failed_is_built_again_when_the_one_before_it_did_not_land() -> None:
    line = line_of("a", "b", "c")
    line = line.fail("b", line.member("b").base)
    line = line.offer("c", line.member("a").build).leave("a")
    assert line.is_outdated("b")
    line = line.restart("b")
    assert line.is_outdated("c")  # b may pass after all, and comes first
    assert line.find_base("c") is None


def test_who_left_before_it_landed_and_a_tip_that_moved_make_others_build_again() -> None:
    line = line_of("a", "b", "c").leave("b")
    assert not line.is_outdated("a")
    assert line.is_outdated("c")
    line = line.move_tip()
    assert line.is_outdated("a")
    assert line.find_base("a") == line.tip


def test_who_comes_after_a_conflict_stands_before_all_others() -> None:
    line = line_of("a", "b").join("again", first=True)
    assert line.is_first("again")
    assert line.is_outdated("a")
    assert line.find_base("a") is None


@given(st.lists(st.sets(st.integers(0, 5)), max_size=6), st.randoms(use_true_random=False))
def test_in_any_order_of_events_only_what_was_checked_on_the_tip_lands_or_is_refused(
    breaks: list[set[int]], random: object
) -> None:
    """Member n passes on a base that holds none of `breaks[n]`. Results come in any order; all of them settle."""
    choose = random.choice  # type: ignore[attr-defined]
    line = MergeLine()
    content: dict[int, tuple[int, ...]] = {line.tip: ()}
    refused: dict[int, tuple[int, ...]] = {}
    for number in range(len(breaks)):
        line = line.join(str(number))
    for _ in range(10_000):
        if not line.members:
            break
        lease = choose([member.lease for member in line.members])
        number, member = int(lease), line.member(lease)
        base = line.find_base(lease)
        if base is None:
            continue
        if line.is_outdated(lease):
            line = line.restart(lease).offer(lease, base)
            content[line.member(lease).build] = (*content[base], number)
        elif not member.failed and breaks[number] & set(content[base]):
            line = line.fail(lease, base)
        elif line.is_first(lease) and member.failed:
            refused[number] = content[line.tip]
            line = line.leave(lease)
        elif line.is_first(lease):
            line = line.land(lease)
            assert line.tip == member.build
    assert line.members == ()
    landed = content[line.tip]
    assert sorted((*landed, *refused)) == list(range(len(breaks)))
    for place, number in enumerate(landed):
        assert not breaks[number] & set(landed[:place])
    for number, before in refused.items():
        assert breaks[number] & set(before)
        assert before == landed[: len(before)]
