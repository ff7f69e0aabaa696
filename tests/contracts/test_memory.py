"""Sparing the collector what is kept anyway."""

from __future__ import annotations

import gc

import pytest

from agenttalk.contracts.core.large_documents import pause_collector, spare_existing_objects


def test_what_was_there_is_spared_until_the_end_and_whatever_happens() -> None:
    kept = [object() for _ in range(3)]

    def fail() -> None:
        with spare_existing_objects():
            assert gc.get_freeze_count() > 0
            assert not _looks_at(kept)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert gc.get_freeze_count() == 0
    assert _looks_at(kept)


def test_very_many_new_objects_are_old_at_once_and_stay_with_the_collector() -> None:
    gc.unfreeze()  # the tests themselves are frozen, see conftest.py
    with pause_collector():
        assert not gc.isenabled()
        kept: list[list[int]] = [[] for _ in range(150_000)]
    assert gc.isenabled()
    assert gc.get_count()[0] < 100_000
    assert gc.get_freeze_count() == 0
    assert _looks_at(kept)


def _looks_at(kept: object) -> bool:
    return any(each is kept for each in gc.get_objects())
