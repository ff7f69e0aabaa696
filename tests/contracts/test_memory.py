"""Sparing the collector what is kept anyway."""

from __future__ import annotations

import gc

import pytest

from agenttalk.contracts.core.large_documents import spare_existing_objects


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


def _looks_at(kept: object) -> bool:
    return any(each is kept for each in gc.get_objects())
