"""Go's package testing is changed only where it is as it is expected."""

from __future__ import annotations

import pytest

from agenttalk.rules.suites import go_overlay

SOURCES = {name: "\n".join(before for before, _ in changes) for name, changes in go_overlay.CHANGES.items()}


def test_each_place_is_changed() -> None:
    changed = go_overlay.change_sources(SOURCES)
    assert changed is not None
    assert set(changed) == {"testing.go", "fuzz.go", "example.go"}
    for name, changes in go_overlay.CHANGES.items():
        assert all(after in changed.get(name, SOURCES[name]) for _, after in changes)


@pytest.mark.parametrize("name", sorted(go_overlay.CHANGES))
def test_another_source_is_left_as_it_is(name: str) -> None:
    assert go_overlay.change_sources({**SOURCES, name: "package testing"}) is None
    assert go_overlay.change_sources({**SOURCES, name: SOURCES[name] * 2}) is None
    assert go_overlay.change_sources({key: text for key, text in SOURCES.items() if key != name}) is None
