"""What becomes of files that arrive, and the names under which messages are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.core.artifacts import File, files_of
from agenttalk.rules.messages.archive import NAME_BYTES, Conflict, Held, decide, kept_name, original_name, retired

HELD = {"a.md": Held("h1", 2, "m1")}


@pytest.mark.parametrize(
    ("file", "seq", "fate"),
    [
        (File("b.md", "h2"), 2, "new"),
        (File("a.md", "h1"), 1, "same"),
        (File("a.md", "h1"), 9, "same"),
        (File("a.md", "h2"), 3, "replaces"),
        (File("a.md", "h2"), 1, "late"),
    ],
)
def test_the_higher_number_counts_whichever_comes_first(file: File, seq: int, fate: str) -> None:
    assert decide([file], HELD, seq=seq) == {file.path: fate}


def test_other_content_with_the_same_number_is_a_conflict() -> None:
    found = decide([File("b.md", "h2"), File("a.md", "h2")], HELD, seq=2)
    assert isinstance(found, Conflict)
    assert found.path == "a.md"


def test_a_message_must_not_name_a_path_twice_with_different_content() -> None:
    assert decide([File("b", "h1"), File("b", "h1")], {}, seq=0) == {"b": "new"}
    assert isinstance(decide([File("b", "h1"), File("b", "h2")], {}, seq=0), Conflict)


@pytest.mark.parametrize("paths", [("a.md/inside",), ("x", "x/y/z")])
def test_nothing_is_a_file_and_a_folder_at_once(paths: tuple[str, ...]) -> None:
    assert isinstance(decide([File(path, "h9") for path in paths], HELD, seq=5), Conflict)


def test_a_newer_version_replaces_the_whole_one_before() -> None:
    held = {
        "a.md": Held("h1", 1, "m1"),
        "b.md": Held("h1", 1, "m1"),
        "c.md": Held("", 1, "m1"),
        "d.md": Held("h1", 2, "m2"),
    }
    assert retired([File("a.md", "h2")], held, seq=2) == ["b.md"]
    assert retired([File("a.md", "h2")], held, seq=1) == []
    assert decide([File("c.md/inside", "h2")], held, seq=2) == {"c.md/inside": "new"}


def test_a_folder_named_like_the_message_is_left_out() -> None:
    files = [File("m1/a", "h"), File("m2/a", "h"), File("m1", "h")]
    assert files_of("m1", files) == [File("a", "h"), File("m2/a", "h"), File("m1", "h")]


@given(
    message_id=st.text("ab_.-", min_size=1, max_size=128),
    name=st.text("xé文", min_size=1, max_size=120),
    copy=st.integers(0, 3),
)
def test_kept_names_fit_into_a_file_system_and_end_as_before(message_id: str, name: str, copy: int) -> None:
    kept = kept_name(message_id, f"{name}.msg.json", copy)
    assert len(kept.encode()) <= NAME_BYTES
    assert kept.startswith(f"{message_id}__")
    assert kept.endswith(f".msg.json__dup_{copy}" if copy else ".msg.json")


def test_a_name_that_is_too_long_is_cut_in_front() -> None:
    assert kept_name("m" * 128, "x" * 246 + ".msg.json") == "m" * 128 + "__" + "x" * 116 + ".msg.json"
    assert kept_name("m" * 128, "文" * 82 + ".msg.json", 2) == "m" * 128 + "__" + "文" * 36 + ".msg.json__dup_2"


def test_the_name_before_the_claim_is_found_again() -> None:
    assert original_name("m1", "m1__a.msg.json") == "a.msg.json"
    assert original_name("m1", "m1__a.msg.json__dup_12") == "a.msg.json"
    assert original_name("m1", "a__dup_x.msg.json") == "a__dup_x.msg.json"
    assert original_name("m1", "a.msg.json") == "a.msg.json"
