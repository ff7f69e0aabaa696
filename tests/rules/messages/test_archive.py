"""What becomes of files that arrive, and the names under which messages are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core.artifacts import ArtifactFile, normalize_files
from agenttalk.rules.messages.archive import (
    NAME_BYTES,
    CurrentFile,
    PathConflict,
    decide,
    find_retired,
    make_claimed_name,
    original_name,
)

HELD = {"a.md": CurrentFile("h1", 2, "m1")}


@pytest.mark.parametrize(
    ("file", "seq", "fate"),
    [
        (ArtifactFile("b.md", "h2"), 2, "new"),
        (ArtifactFile("a.md", "h1"), 1, "same"),
        (ArtifactFile("a.md", "h1"), 9, "same"),
        (ArtifactFile("a.md", "h2"), 3, "replaces"),
        (ArtifactFile("a.md", "h2"), 1, "late"),
    ],
)
def test_the_higher_number_counts_whichever_comes_first(file: ArtifactFile, seq: int, fate: str) -> None:
    assert decide([file], HELD, seq=seq) == {file.path: fate}


def test_other_content_with_the_same_number_is_a_conflict() -> None:
    found = decide([ArtifactFile("b.md", "h2"), ArtifactFile("a.md", "h2")], HELD, seq=2)
    assert isinstance(found, PathConflict)
    assert found.path == "a.md"


def test_a_message_must_not_name_a_path_twice_with_different_content() -> None:
    assert decide([ArtifactFile("b", "h1"), ArtifactFile("b", "h1")], {}, seq=0) == {"b": "new"}
    assert isinstance(decide([ArtifactFile("b", "h1"), ArtifactFile("b", "h2")], {}, seq=0), PathConflict)


@pytest.mark.parametrize("paths", [("a.md/inside",), ("x", "x/y/z")])
def test_nothing_is_a_file_and_a_folder_at_once(paths: tuple[str, ...]) -> None:
    assert isinstance(decide([ArtifactFile(path, "h9") for path in paths], HELD, seq=5), PathConflict)


def test_a_newer_version_replaces_the_whole_one_before() -> None:
    held = {
        "a.md": CurrentFile("h1", 1, "m1"),
        "b.md": CurrentFile("h1", 1, "m1"),
        "c.md": CurrentFile("", 1, "m1"),
        "d.md": CurrentFile("h1", 2, "m2"),
    }
    assert find_retired([ArtifactFile("a.md", "h2")], held, seq=2) == ["b.md"]
    assert find_retired([ArtifactFile("a.md", "h2")], held, seq=1) == []
    assert decide([ArtifactFile("c.md/inside", "h2")], held, seq=2) == {"c.md/inside": "new"}


def test_a_folder_named_like_the_message_is_left_out() -> None:
    files = [ArtifactFile("m1/a", "h"), ArtifactFile("m2/a", "h"), ArtifactFile("m1", "h")]
    assert normalize_files("m1", files) == [ArtifactFile("a", "h"), ArtifactFile("m2/a", "h"), ArtifactFile("m1", "h")]


@given(
    message_id=st.text("ab_.-", min_size=1, max_size=128),
    name=st.text("xé文", min_size=1, max_size=120),
    copy=st.integers(0, 3),
)
def test_kept_names_fit_into_a_file_system_and_end_as_before(message_id: str, name: str, copy: int) -> None:
    kept = make_claimed_name(message_id, f"{name}.msg.json", copy)
    assert len(kept.encode()) <= NAME_BYTES
    assert kept.startswith(f"{message_id}__")
    assert kept.endswith(f".msg.json__dup_{copy}" if copy else ".msg.json")


def test_a_name_that_is_too_long_is_cut_in_front() -> None:
    assert make_claimed_name("m" * 128, "x" * 246 + ".msg.json") == "m" * 128 + "__" + "x" * 116 + ".msg.json"
    assert make_claimed_name("m" * 128, "文" * 82 + ".msg.json", 2) == "m" * 128 + "__" + "文" * 36 + ".msg.json__dup_2"


def test_the_name_before_the_claim_is_found_again() -> None:
    assert original_name("m1", "m1__a.msg.json") == "a.msg.json"
    assert original_name("m1", "m1__a.msg.json__dup_12") == "a.msg.json"
    assert original_name("m1", "a__dup_x.msg.json") == "a__dup_x.msg.json"
    assert original_name("m1", "a.msg.json") == "a.msg.json"
