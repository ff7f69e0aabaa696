"""A scope as places of a sandbox."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.agents.writable_view import TreeListing, WritableView, build_view
from agenttalk.rules.core import scope


def tree(*paths: str, folders: tuple[str, ...] = (), links: tuple[str, ...] = ()) -> TreeListing:
    """A listing that holds these files, and every folder on the way to them."""
    found = set(folders)
    for path in chain(paths, folders, links):
        parts = path.split("/")
        found |= {"/".join(parts[:count]) for count in range(1, len(parts))}
    return TreeListing(frozenset(found), frozenset(paths), frozenset(links))


REPO = tree("src/a.py", "src/deep/b.py", "docs/a.md", "docs/b.md", "README.md", "tests/test_a.py")


def seen(
    allowed: list[str], disallowed: list[str] | None = None, listing: TreeListing = REPO, **more: int
) -> WritableView:
    return build_view(allowed, disallowed or [], listing, **more)


def allows(view: WritableView, path: str) -> bool:
    """Return whether a sandbox with this view lets a path be written: the nearest place on its way decides."""
    parts = path.split("/")
    ways = ["/".join(parts[:count]) for count in range(len(parts), -1, -1)]
    return next((way not in view.readonly for way in ways if way in {*view.readonly, *view.writable}), False)


def test_without_a_scope_the_whole_tree_is_writable() -> None:
    assert seen([]) == WritableView(writable=("",))


def test_a_folder_that_is_allowed_is_the_only_writable_place() -> None:
    found = seen(["src/**"])
    assert found == WritableView(writable=("src",))
    assert allows(found, "src/new/c.py")
    assert not allows(found, "README.md")


def test_what_is_disallowed_inside_is_read_only_and_cannot_be_renamed_away() -> None:
    found = seen(["src/**"], ["src/deep/b.py"])
    assert (found.writable, found.readonly) == (("src", "src/deep"), ("src/deep/b.py",))
    assert found.loose == ("src",)


def test_a_disallowed_folder_is_one_place() -> None:
    found = seen([], ["tests/**"])
    assert (found.writable, found.readonly) == (("",), ("tests",))
    assert not allows(found, "tests/test_a.py")


def test_one_allowed_file_makes_its_folder_writable_and_its_neighbours_read_only() -> None:
    found = seen(["docs/a.md"])
    assert (found.writable, found.readonly, found.loose) == (("docs",), ("docs/b.md",), ("docs",))


def test_a_name_at_any_depth_makes_every_folder_writable_and_the_rest_read_only() -> None:
    found = seen(["*.md"])
    assert set(found.readonly) == {"src/a.py", "src/deep/b.py", "tests/test_a.py"}
    assert allows(found, "src/deep/new.md")
    assert found.loose == ("",)


def test_a_folder_that_is_missing_is_made_unless_it_is_disallowed_or_a_file_stands_there() -> None:
    assert seen(["gen/api/**"]).make == ("gen", "gen/api")
    assert seen(["gen/api/**"]).writable == ("gen/api",)
    assert seen(["gen/**"], ["gen/"]) == WritableView()
    assert seen(["README.md/x/**"]).make == ()
    assert seen(["gen/*/x.py"]).writable == ("gen",)


def test_exceptions_are_kept_in_both_lists() -> None:
    found = seen(["src/**", "!src/deep/**"])
    assert allows(found, "src/a.py")
    assert not allows(found, "src/deep/b.py")
    found = seen([], ["src/**", "!src/deep/**"])
    assert allows(found, "src/deep/b.py")
    assert not allows(found, "src/a.py")
    assert seen(["!src/deep/"]).readonly == ("src/deep",)
    assert seen(["!src/deep/a.md"]).loose == ("",)


def test_a_fixed_folder_below_a_star_has_to_be_there_to_be_left_out() -> None:
    listing = tree("pkg/a/gen/x.py", "pkg/b/y.py")
    found = seen(["pkg/*/gen/**"], listing=listing)
    assert allows(found, "pkg/a/gen/new.py")
    assert allows(found, "pkg/b/gen")  # it can be made
    assert not allows(found, "pkg/b/y.py")
    assert not allows(found, "pkg/a/new.py")


def test_a_symlink_that_must_not_change_is_left_to_the_comparison() -> None:
    listing = tree("src/a.py", links=("src/link", "free"))
    found = seen(["src/a.py"], listing=listing)
    assert (found.unguarded, found.readonly) == (("src/link",), ())


def test_too_many_places_close_folders_first_and_give_up_files_last() -> None:
    many = tree("src/a.py", *(f"data/{number}.json" for number in range(30)), "mixed/m.py", "mixed/x.json")
    assert allows(seen(["*.py"], listing=many), "data/new.py")
    found = seen(["*.py"], listing=many, most=10)
    assert found.closed == ("data",)
    assert not allows(found, "data/1.json")
    assert (found.readonly, found.unguarded) == (("data", "mixed/x.json"), ())
    found = seen(["*.py"], listing=many, most=1)
    assert (found.readonly, found.unguarded) == (("data",), ("mixed/x.json",))
    found = seen(["*.py"], listing=many, most=0)
    assert (found.writable, found.readonly, found.unguarded) == (("",), (), ("data", "mixed/x.json"))
    assert found.closed == ()
    flat = tree("a.py", *(f"{number}.json" for number in range(30)))
    found = seen(["*.py"], listing=flat, most=10)
    assert len(found.unguarded) == 30
    assert found.closed == ()


def test_where_all_is_allowed_but_little_no_folder_is_closed() -> None:
    many = tree(*(f"data/{number}.json" for number in range(30)))
    found = seen([], ["*.json"], listing=many, most=10)
    assert (found.closed, len(found.unguarded)) == ((), 30)
    assert allows(found, "data/new.txt")


def test_a_writable_place_in_a_folder_that_was_given_up_is_not_needed() -> None:
    many = tree(*(f"pkg/{number}/gen/x.py" for number in range(20)))
    found = seen(["pkg/*/gen/**"], listing=many, most=5)
    assert (len(found.readonly), len(found.unguarded), len(found.writable)) == (5, 15, 6)


NAMES = st.sampled_from(["a", "b", "src", "x.py", "y.md", "z"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
PIECES = st.sampled_from(["a", "b", "src", "x.py", "*", "*.py", "**", "?", "y.md", "[ab]"])
GLOBS = st.builds(
    lambda negated, start, pieces, end: negated + start + "/".join(pieces) + end,
    st.sampled_from(["", "", "", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(PIECES, min_size=1, max_size=3),
    st.sampled_from(["", "/"]),
)


def no_file_is_a_folder(paths: set[str]) -> list[str]:
    return [path for path in paths if not any(other.startswith(f"{path}/") for other in paths)]


@pytest.mark.shows("P13")
@given(
    st.lists(GLOBS, max_size=3),
    st.lists(GLOBS, max_size=3),
    st.sets(PATHS, max_size=14).map(no_file_is_a_folder),
    st.sampled_from([300, 3, 1]),
    st.data(),
)
def test_every_existing_file_is_writable_exactly_when_the_scope_permits_it(
    allowed: list[str], disallowed: list[str], paths: list[str], most: int, data: st.DataObject
) -> None:
    links = data.draw(st.sets(st.sampled_from(paths), max_size=2)) if paths else set()
    listing = tree(*(path for path in paths if path not in links), links=tuple(links))
    found = build_view(allowed, disallowed, listing, most=most)
    permits = scope.make_scope(allowed, disallowed).permits
    for path in paths:
        given = any(path == each or path.startswith(f"{each}/") for each in found.unguarded)
        assert allows(found, path) == permits(path) or (given and allows(found, path)), path
    modes = {*found.writable, *found.readonly}
    for path in found.readonly:  # a folder between a place and what is read-only in it could be renamed
        above = path.split("/")[:-1]
        for count in range(len(above), 0, -1):
            folder = "/".join(above[:count])
            assert folder in modes or not allows(found, folder)


@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), st.sets(PATHS, max_size=10), PATHS)
def test_what_does_not_exist_yet_can_be_made_when_it_is_permitted_and_else_its_folder_is_told(
    allowed: list[str], disallowed: list[str], paths: set[str], new: str
) -> None:
    listing = tree(*no_file_is_a_folder(paths))
    parts = new.split("/")
    above = {"/".join(parts[:count]) for count in range(1, len(parts))}
    if new in listing.files | listing.folders or above & listing.files:
        return
    found = build_view(allowed, disallowed, listing)
    if new in found.make:
        return
    if scope.make_scope(allowed, disallowed).permits(new):
        assert allows(found, new)
    elif allows(found, new):
        assert any(folder == "" or new.startswith(f"{folder}/") for folder in found.loose)
