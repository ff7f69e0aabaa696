"""The files of a change: lines that are new or gone, moves, and what is documentation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.changes.changed_files import LARGEST, ChangedFile, follow_moves, is_documentation, pair_moves


def changed(before: str | None, after: str | None, path: str = "a.py") -> ChangedFile:
    return ChangedFile(path, None if before is None else before.encode(), None if after is None else after.encode())


def test_the_kind_follows_from_what_is_there() -> None:
    assert changed(None, "x").kind == "added"
    assert changed("x", None).kind == "deleted"
    assert changed("x", "y").kind == "changed"
    assert ChangedFile("b", b"x", b"x", "a").kind == "moved"


def test_lines_that_are_new_or_gone_have_their_numbers() -> None:
    file = changed("a\nb\nc\n", "a\nX\nc\nb2\n")
    assert [tuple(line) for line in file.added_lines] == [(2, "X"), (4, "b2")]
    assert [tuple(line) for line in file.removed_lines] == [(2, "b")]
    assert not file.is_extension


def test_an_extension_keeps_every_line_in_its_order() -> None:
    file = changed("a\nb\n", "0\na\na\nb\nc\n")
    assert file.is_extension
    assert [tuple(line) for line in file.added_lines] == [(1, "0"), (3, "a"), (5, "c")]
    assert file.removed_lines == ()
    assert not changed("a\nb\n", "b\na\n").is_extension, "another order may be another test"
    assert not changed(None, "a").is_extension
    assert not changed("a", None).is_extension
    assert changed("", "a").is_extension


@pytest.mark.parametrize("data", [b"a\0b", b"x" * (LARGEST + 1)])
def test_what_is_binary_or_very_large_is_not_compared(data: bytes) -> None:
    file = ChangedFile("a", b"", data)
    assert not file.is_readable
    assert not file.is_extension
    assert (file.added_lines, file.removed_lines) == ((), ())


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_what_is_gone_and_what_is_new_make_one_of_the_other(before: list[str], after: list[str]) -> None:
    file = changed("\n".join(before), "\n".join(after))
    counts = {each: before.count(each) - after.count(each) for each in "abc"}
    gone, new = [line.text for line in file.removed_lines], [line.text for line in file.added_lines]
    assert {each: gone.count(each) - new.count(each) for each in "abc"} == counts
    assert file.is_extension == _is_subsequence(before, after)


def _is_subsequence(few: list[str], many: list[str]) -> bool:
    rest = iter(many)
    return all(each in rest for each in few)


def test_a_file_that_is_elsewhere_with_the_same_content_was_moved() -> None:
    files = [
        changed("same", None, "a/one.py"),
        changed("same", None, "a/two.py"),
        changed(None, "same", "b/two.py"),
        changed(None, "same", "b/three.py"),
        changed(None, "same", "b/four.py"),
        changed("", None, "empty.py"),
        changed(None, "", "other.py"),
        changed("x", "y", "c.py"),
    ]
    found = {file.path: file.moved_from for file in pair_moves(files)}
    assert found == {
        "b/two.py": "a/two.py",
        "b/three.py": "a/one.py",
        "b/four.py": "",
        "empty.py": "",
        "other.py": "",
        "c.py": "",
    }


@pytest.mark.parametrize(
    ("test", "places"),
    [
        ("tests.test_a::test_x", {"tests.unit.test_b::test_x"}),
        ("tests.test_a.Case::test_x", {"tests.unit.test_b.Case::test_x"}),
        ("tests/test_a.py::test_x", {"tests/unit/test_b.py::test_x"}),
        ("tests.test_ab::test_x", set()),
        ("my.tests.test_a::test_x", set()),
        ("other::test_x", set()),
    ],
)
def test_a_test_that_moved_has_its_new_file_in_its_id(test: str, places: set[str]) -> None:
    assert follow_moves(test, {"tests/test_a.py": "tests/unit/test_b.py"}) == places


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("README.md", True),
        ("pkg/README", True),
        ("LICENSE.txt", True),
        ("CHANGELOG.md", True),
        ("guide.rst", True),
        ("docs/how/pictures/a.png", True),
        ("docs/a.txt", True),
        ("docs/conf.py", False),
        ("README.py", False),
        ("src/prompts/agent.md", False),
        ("requirements.txt", False),
        ("a.py", False),
    ],
)
def test_documentation_is_what_only_people_read(path: str, *, is_one: bool) -> None:
    assert is_documentation(path) is is_one
