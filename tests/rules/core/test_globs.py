"""Globs over many names."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core.globs import NameIndex, match_names

letters = st.text("ab.[]*?", max_size=6)


@given(st.sets(letters, max_size=20), letters)
def test_the_index_finds_exactly_what_trying_every_name_finds(names: set[str], glob: str) -> None:
    candidates = NameIndex(names).candidates(glob)
    assert match_names(glob, candidates) == sorted(name for name in names if fnmatchcase(name, glob))


def test_both_ends_of_a_glob_must_match() -> None:
    names = ["feedback_a.json", "feedback_a.txt", "other.json", "feedback_.json", "feedback.json"]
    assert match_names("feedback_*.json", names) == ["feedback_a.json", "feedback_.json"]
    assert match_names("aba*aba", ["aba", "ababa", "abaaba"]) == ["abaaba"]


def test_fixed_beginnings_and_ends_narrow_the_search() -> None:
    index = NameIndex([f"feedback_{i}.json" for i in range(100)] + [f"{i}_report.md" for i in range(100)])
    assert len(index.candidates("feedback_*")) == 100
    assert len(index.candidates("*_report.md")) == 100
    assert index.candidates("feedback_7.json") == ["feedback_7.json"]
    assert index.candidates("nothing*") == []
