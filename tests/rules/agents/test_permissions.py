"""What an agent that asks first is permitted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.agent import AcpUse
from agenttalk.rules.agents import permissions
from agenttalk.rules.agents.permissions import (
    KINDS,
    PermissionOption,
    PermissionPolicy,
    ToolRequest,
    choose_option,
    decide,
)
from agenttalk.rules.core.scope import make_scope

CWD = "/work/tree"
OWN = "/work/attempt"


def policy(
    *, confined: bool = False, allowed: tuple[str, ...] = (), denied: tuple[str, ...] = (), **use: Any
) -> PermissionPolicy:
    said = AcpUse.model_validate({"agent": "custom", **use})
    permissions.check_patterns(said)
    return PermissionPolicy.from_profile(
        said, (CWD, "/real/tree", CWD), (OWN,), confined=confined, within=make_scope(allowed, denied)
    )


def said(found: PermissionPolicy, kind: str, about: str = "", *paths: str) -> str:
    return decide(found, ToolRequest(kind, about, paths)).verdict


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("src/a.py", ""),
        (f"{CWD}/src/a.py", ""),
        ("/real/tree/src/a.py", ""),
        (f"{CWD}/./docs/../src//a.py", ""),
        (f"{OWN}/outputs/x", ""),
        ("docs/a.md", "docs/a.md is not in its task's scope"),
        ("src/secret.py", "src/secret.py is not in its task's scope"),
        ("src/../../other/a", "src/../../other/a is not in its working folder"),
        ("/etc/passwd", "/etc/passwd is not in its working folder"),
        ("~/.ssh/id", "~/.ssh/id is not in its working folder"),
        ("/work/tree2/src/a", "/work/tree2/src/a is not in its working folder"),
        ("src/.git/hooks/x", "agents must not change src/.git/hooks/x"),
        (".agenttalk/other", "agents must not change .agenttalk/other"),
    ],
)
@pytest.mark.parametrize("kind", ["edit", "delete", "move", "other", "no such kind"])
@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.shows("P13")
def test_what_it_changes_lies_in_its_scope_whatever_its_profile_says(
    path: str, why: str, kind: str, *, confined: bool
) -> None:
    found = decide(
        policy(confined=confined, allowed=("src/**",), denied=("src/secret.py",), allow=["*"]),
        ToolRequest(kind, "x", (path,)),
    )
    assert found == (("refuse", why) if why else ("allow", ""))


def test_one_path_outside_is_enough_to_refuse() -> None:
    assert said(policy(allowed=("src/**",)), "edit", "", "src/a", "b") == "refuse"
    assert said(policy(allowed=("src/**",)), "edit", "", "src/a", "src/b") == "allow"


@pytest.mark.parametrize(
    ("kind", "paths", "plain", "confined"),
    [
        ("read", ("/etc/hosts",), "refuse", "allow"),
        ("read", ("a.py",), "allow", "allow"),
        ("read", (".git/config",), "allow", "allow"),
        ("search", (), "allow", "allow"),
        ("think", (), "allow", "allow"),
        ("edit", ("a.py",), "allow", "allow"),
        ("edit", (), "refuse", "allow"),
        ("execute", (), "refuse", "allow"),
        ("fetch", (), "refuse", "allow"),
        ("other", (), "refuse", "allow"),
        ("switch_mode", (), "refuse", "refuse"),
    ],
)
def test_without_a_word_of_its_profile_the_sandbox_decides(
    kind: str, paths: tuple[str, ...], plain: str, confined: str
) -> None:
    assert said(policy(), kind, "x", *paths) == plain
    assert said(policy(confined=True), kind, "x", *paths) == confined


def test_what_is_denied_wins_over_what_is_asked_and_that_over_what_is_allowed() -> None:
    found = policy(allow=["execute"], ask=["execute:git *"], deny=["execute:git push *"], confined=True)
    assert said(found, "execute", "make") == "allow"
    assert said(found, "execute", "git status") == "ask"
    assert said(found, "execute", "make && git push") == "refuse"
    assert said(found, "fetch", "http://x") == "refuse"
    assert decide(found, ToolRequest("fetch", "x")).reason == "its profile does not allow it"
    assert said(policy(otherwise="ask"), "fetch", "x") == "ask"
    assert said(policy(otherwise="ask"), "edit", "", "/etc/passwd") == "refuse"


@pytest.mark.parametrize(
    ("command", "permitted"),
    [
        ("git", True),
        ("git  log", True),
        ("git log 2>&1 | git shortlog > /dev/null", True),
        ("git log &>/dev/null; git status", True),
        ("gitk", False),
        ("git log; rm -rf /", False),
        ("git log & rm x", False),
        ("git log\nrm x", False),
        ("git log > x", False),
        ("git $(rm x)", False),
        ("git `rm x`", False),
        ("git log 2>&1x", False),
        ("", False),
    ],
)
def test_every_command_of_a_line_must_be_allowed(command: str, permitted: bool) -> None:
    assert (said(policy(allow=["execute:git *"]), "execute", command) == "allow") == permitted
    assert said(policy(allow=["execute:*"]), "execute", command) == "allow"


@pytest.mark.parametrize(
    ("pattern", "kind", "about", "paths", "matches"),
    [
        ("*", "fetch", "", (), True),
        ("*:*", "fetch", "x", (), True),
        ("fetch:https://docs.*.org/*", "fetch", "https://docs.python.org/3", (), True),
        ("fetch:https://docs.*.org/*", "fetch", "https://docs.python.com/3", (), False),
        ("fetch:a*bc*c", "fetch", "abcc", (), True),
        ("fetch:a*bc*c", "fetch", "abc", (), False),
        ("fetch:ab*ba", "fetch", "aba", (), False),
        ("fetch:exactly", "fetch", "exactly", (), True),
        ("fetch:exactly", "fetch", "exactly so", (), False),
        ("fetch", "execute", "x", (), False),
        ("read:docs/**", "read", "", ("docs/a/b.md",), True),
        ("read:docs/**", "read", "", ("docs/a.md", "src/a"), False),
        ("read:*.md", "read", "a title", (), False),
        ("*:git push", "read", "", ("git push",), True),
        ("*://", "read", "", ("a",), False),
    ],
)
def test_a_pattern_is_a_kind_and_what_it_is_called_for(
    pattern: str, kind: str, about: str, paths: tuple[str, ...], matches: bool
) -> None:
    assert (said(policy(allow=[pattern], confined=True), kind, about, *paths) == "allow") == matches


def test_a_path_elsewhere_matches_no_pattern_of_paths() -> None:
    assert said(policy(deny=["read:**/hosts"], confined=True), "read", "", "/etc/hosts") == "allow"
    assert said(policy(deny=["read"], confined=True), "read", "", "/etc/hosts") == "refuse"


@pytest.mark.parametrize("pattern", ["wirte", "edit:", "edit:../x", "execute:", ":x", ""])
def test_a_pattern_that_could_never_match_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"names no kind of tool|is not a pattern"):
        permissions.check_patterns(AcpUse.model_construct(agent="custom", deny=(pattern,), allow=None, ask=()))


def test_only_what_is_offered_for_once_is_chosen() -> None:
    offered = [
        PermissionOption("a", "allow_always"),
        PermissionOption("b", "allow_once"),
        PermissionOption("c", "reject_always"),
        PermissionOption("d", "reject_once"),
    ]
    assert (choose_option(offered, allow=True), choose_option(offered, allow=False)) == ("b", "d")
    assert choose_option([PermissionOption("a", "allow_always")], allow=True) is None
    assert choose_option([PermissionOption("c", "reject_always")], allow=False) == "c"
    assert choose_option([], allow=False) is None
    assert choose_option([PermissionOption("b", "allow_once"), PermissionOption("z", "allow_once")], allow=True) == "b"


def test_a_wish_is_one_line() -> None:
    assert ToolRequest("edit", "", ("a", "b")).line == "edit a, b"
    assert ToolRequest("execute", "a\n b").line == "execute a b"


WORDS = st.text(alphabet="ab/.*~ ;$>", max_size=20)


@given(
    kind=st.sampled_from([*KINDS, "x"]),
    about=WORDS,
    paths=st.lists(WORDS, max_size=3),
    confined=st.booleans(),
    lists=st.lists(st.sampled_from(["*", "edit:a*", "execute:a *", "read"]), max_size=3),
)
def test_nothing_outside_is_ever_changed_and_no_wish_is_too_odd(
    kind: str, about: str, paths: list[str], confined: bool, lists: list[str]
) -> None:
    found = policy(confined=confined, allowed=("a/**",), allow=lists, ask=lists[1:])
    verdict = said(found, kind, about, *paths)
    writes = kind in {"edit", "delete", "move", "other", "x"}
    if writes and any(path.startswith(("~", "b")) or (path.startswith("/") and "tree" not in path) for path in paths):
        assert verdict == "refuse"
    assert said(policy(confined=confined, deny=["*"]), kind, about, *paths) == "refuse"


@pytest.mark.parametrize("confined", [True, False])
@pytest.mark.parametrize(
    ("use", "verdict"),
    [
        ({}, "allow"),
        ({"allow": ["read"]}, "allow"),
        ({"allow": []}, "allow"),
        ({"ask": ["other"]}, "ask"),
        ({"otherwise": "ask"}, "allow"),
        ({"deny": ["other:agenttalk send_mail *"]}, "refuse"),
        ({"deny": ["other:agenttalk ask_human *"]}, "allow"),
    ],
)
def test_our_own_tools_are_permitted_unless_its_profile_says_otherwise(
    use: dict[str, Any], verdict: str, *, confined: bool
) -> None:
    found = policy(confined=confined, allowed=("src/**",), **use)
    assert decide(found, ToolRequest("other", "agenttalk send_mail {}", (), "send_mail")).verdict == verdict
