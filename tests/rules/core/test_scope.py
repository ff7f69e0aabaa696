"""Which paths may change, which are protected, which are left out."""

from __future__ import annotations

import string
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code, InputError
from agenttalk.rules.checks import test_runners
from agenttalk.rules.core.scope import (
    DEFAULT_EXCLUDES,
    IgnoreRules,
    explain_fault,
    make_scope,
    read_globs,
    read_ignore_file,
)


@pytest.mark.parametrize(
    ("glob", "path", "covered"),
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/deep/er/a.py", True),
        ("src/**", "src", False),
        ("src/**", "other/src/a.py", False),
        ("src", "src/a.py", True),
        ("src", "deep/src/a.py", True),
        ("src/", "src/a.py", True),
        ("src/", "src", False),
        ("/src", "src/a.py", True),
        ("/src", "deep/src/a.py", False),
        ("*.py", "a.py", True),
        ("*.py", "deep/a.py", True),
        ("*.py", "a.pyc", False),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/*", "src/deep/a.py", True),
        ("**/conftest.py", "conftest.py", True),
        ("**/conftest.py", "a/b/conftest.py", True),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "a/x/y/c", False),
        ("a/**/**/b", "a/b", True),
        ("**", "anything/at/all", True),
        ("a**b", "axxb", True),
        ("a**b", "ax/xb", False),
        ("a/x**", "a/xyz", True),
        ("?.py", "a.py", True),
        ("?.py", "ab.py", False),
        ("[ab].py", "b.py", True),
        ("[!ab].py", "b.py", False),
        ("[^ab].py", "c.py", True),
        ("[a-c]x", "bx", True),
        ("[c-a]x", "bx", False),
        ("[!c-a]x", "bx", True),
        ("[a-]x", "-x", True),
        ("[]a]x", "]x", True),
        ("[!]a]x", "]x", False),
        ("[\\]]x", "]x", True),
        ("[a\\-c]x", "-x", True),
        ("[a\\-c]x", "bx", False),
        ("[[:digit:]]x", "7x", True),
        ("[[:digit:]_]x", "_x", True),
        ("[![:alpha:]]x", "ax", False),
        ("[![:space:]]x", "ax", True),
        ("[[:]x", ":x", True),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("\\!x", "!x", True),
        ("a.c", "abc", False),
        ("#x", "#x", True),
        ("*a*b*", "xaxbx", True),
        ("*a*b*", "xbxax", False),
        ("", "", False),
    ],
)
def test_globs_mean_what_git_means(glob: str, path: str, covered: bool) -> None:
    assert (not explain_fault(glob) and read_globs([glob]).covers(path)) is covered


VISIBLE = set(string.ascii_letters + string.digits + string.punctuation)
CLASSES = {
    "alnum": set(string.ascii_letters + string.digits),
    "alpha": set(string.ascii_letters),
    "blank": set(" \t"),
    "cntrl": {chr(number) for number in (*range(32), 127)},
    "digit": set(string.digits),
    "graph": VISIBLE,
    "lower": set(string.ascii_lowercase),
    "print": VISIBLE | {" "},
    "punct": set(string.punctuation),
    "space": set(string.whitespace),
    "upper": set(string.ascii_uppercase),
    "xdigit": set(string.hexdigits),
}


@pytest.mark.parametrize("name", CLASSES)
def test_the_classes_of_characters_hold_what_posix_says(name: str) -> None:
    glob = read_globs([f"x[[:{name}:]]"])
    every = [chr(number) for number in range(1, 160) if chr(number) != "/"]
    assert {char for char in every if glob.covers(f"x{char}")} == CLASSES[name] - {"/", "\0"}


def test_the_last_glob_that_matches_decides() -> None:
    meant = read_globs(["src/", "!src/secret/", "src/secret/open.txt"])
    assert meant.filter_paths(["src/a", "src/secret/b", "src/secret/open.txt", "other"]) == (
        "src/a",
        "src/secret/open.txt",
    )


def test_a_folder_itself_can_be_asked_for() -> None:
    assert read_globs(["build/"]).covers("build", folder=True)
    assert not read_globs(["build/"]).covers("build")


@pytest.mark.parametrize(
    ("allowed", "disallowed", "breaches"),
    [
        ([], [], ()),
        ([], [".github/**"], (".github/ci.yml",)),
        (["src/**"], [], (".github/ci.yml", "README.md")),
        (["src/**"], ["src/secret.py"], (".github/ci.yml", "README.md", "src/secret.py")),
        (["src/**", "!src/secret.py"], [], (".github/ci.yml", "README.md", "src/secret.py")),
        (["!README.md"], [], ("README.md",)),
        (["**"], ["*", "!src/"], (".github/ci.yml", "README.md")),
    ],
)
def test_what_is_disallowed_wins_and_nothing_allowed_means_all(
    allowed: list[str], disallowed: list[str], breaches: tuple[str, ...]
) -> None:
    changed = [".github/ci.yml", "README.md", "src/a.py", "src/secret.py"]
    assert make_scope(allowed, disallowed).find_breaches(changed) == breaches


@pytest.mark.parametrize(
    "glob",
    [
        "",
        "!",
        "/",
        "!//",
        "a//b",
        "../x",
        "./x",
        "a/..",
        "[ab",
        "a[",
        "[[:nothing:]]x",
        "[\\",
        "x\\",
        "a\0",
        "x" * 5000,
    ],
)
def test_a_glob_that_protects_nothing_is_a_fault(glob: str) -> None:
    assert explain_fault(glob)
    with pytest.raises(InputError) as caught:
        read_globs(["fine", glob])
    assert caught.value.code is Code.FIELD_VALUE


def test_a_gitignore_is_read_as_git_reads_it() -> None:
    text = "\ufeff# comment\n\n*.log  \nkeep\\ \n\\#odd\r\n!important.log\n[broken\n"
    ignored = IgnoreRules({"": text}, ())
    for path, expected in {
        "a.log": True,
        "important.log": False,
        "keep ": True,
        "keep": False,
        "#odd": True,
        "comment": False,
        "[broken": False,
    }.items():
        assert ignored.ignores(path, folder=False) is expected, path
    assert len(read_ignore_file(text).globs) == 4


def test_deeper_files_decide_over_higher_ones_and_all_over_the_defaults() -> None:
    ignored = IgnoreRules({"": "*.txt\n!keep.pyc\n/only\n", "a": "!*.txt\nonly\n", "a/b": "*.txt\n/x/\n"})
    assert ignored.ignores("a.txt", folder=False)
    assert not ignored.ignores("a/a.txt", folder=False)
    assert ignored.ignores("a/b/a.txt", folder=False)
    assert ignored.ignores("other.pyc", folder=False)
    assert not ignored.ignores("keep.pyc", folder=False)
    assert ignored.ignores("only", folder=False)
    assert not ignored.ignores("b/only", folder=False)
    assert ignored.ignores("a/c/only", folder=False)
    assert ignored.ignores("a/b/x", folder=True)
    assert not ignored.ignores("a/b/x", folder=False)
    assert not ignored.ignores("a/b/y/x", folder=True)


def test_inside_a_folder_that_was_taken_back_a_glob_for_any_depth_still_holds() -> None:
    ignored = IgnoreRules({"": "*\n!keep/\n"}, ())
    assert not ignored.ignores("keep", folder=True)
    assert ignored.ignores("keep/x", folder=False)


@pytest.mark.parametrize("path", ["__pycache__", "a/__pycache__", ".pytest_cache", "node_modules", ".venv"])
def test_what_programs_leave_is_left_out(path: str) -> None:
    assert IgnoreRules({}).ignores(path, folder=True)
    assert read_globs(DEFAULT_EXCLUDES).covers(f"{path}/x")


letters = st.text("ab*?[]!-\\/", max_size=8)


@given(letters, st.text("ab/-]", min_size=1, max_size=8))
def test_any_text_is_a_fault_or_can_be_matched(glob: str, path: str) -> None:
    if not explain_fault(glob):
        assert read_globs([glob]).covers(path) in {True, False}


def test_stars_cost_no_more_than_they_must() -> None:
    """Ten stars against a long name would take a backtracking matcher for ever."""
    assert not read_globs(["*a" * 30 + "b"]).covers("a" * 4000)
    assert not read_globs(["**/a/" * 30 + "b"]).covers("/".join("a" * 500))


PARTS = st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "**", "?b", "[ab]", "\\*", "a b"])


@st.composite
def lists_of_globs(draw: st.DrawFn) -> list[str]:
    texts = []
    for _ in range(draw(st.integers(0, 6))):
        body = "/".join(draw(st.lists(PARTS, min_size=1, max_size=3)))
        texts.append(
            draw(st.sampled_from(["", "!"]))
            + draw(st.sampled_from(["", "/"]))
            + body
            + draw(st.sampled_from(["", "/"]))
        )
    return texts


@given(
    lists_of_globs(),
    st.lists(st.sampled_from(["a", "b", "ab", "bb", "c", "*", "a b"]), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_a_list_answers_as_its_globs_do_one_after_the_other(
    texts: list[str], parts: list[str], folder: bool, otherwise: bool
) -> None:
    meant = read_globs(texts, otherwise=otherwise)
    deciding = (glob for glob in reversed(meant.globs) if glob.covers(parts, folder=folder))
    expected = next((not glob.negated for glob in deciding), otherwise)
    assert meant.covers("/".join(parts), folder=folder) is expected


def test_a_path_is_compared_with_a_long_list_in_a_few_steps() -> None:
    """A tree has thousands of paths, and each is compared with all that decides how tests are run."""
    long = read_globs([*test_runners.list_configuration("pytest"), *(f"!src/{number}/" for number in range(50))])
    paths = [f"lib/{number % 7}/module_{number}.py" for number in range(500)]
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    assert not any(long.covers(path) for path in paths[:1])  # the list is sorted once
    sys.setprofile(count)
    try:
        assert not any(long.covers(path) for path in paths)
    finally:
        sys.setprofile(None)
    assert calls < 10 * len(paths)
