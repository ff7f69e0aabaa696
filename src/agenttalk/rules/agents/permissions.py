"""Decides the permission requests of agents from the promise's scope, the profile, and the place where the agent runs.

An agent's description of its next action is only a claim. So these rules keep honest agents within bounds, and explain
refusals. The sandbox confines the others, and the comparison of trees has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple, get_args

from agenttalk.contracts.agent import AcpUse
from agenttalk.contracts.errors import InputError
from agenttalk.rules.core import scope
from agenttalk.rules.core.scope import Scope

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
KINDS: Final[tuple[str, ...]] = get_args(ToolKind)
_HARMLESS: Final = frozenset({"read", "search", "think"})
_WRITES: Final = frozenset({"edit", "delete", "move"})
_IN_PLACES: Final = frozenset({"read", "search", *_WRITES})
"""Kinds whose patterns are globs of paths."""
_OURS: Final = frozenset({".git", ".agenttalk"})
"""Files in an agent's folder that it must not touch."""
_JOINTS: Final = re.compile(r"&&|\|\||[;|&\n]")
"""Separators of several commands in a line of a shell."""
_HIDING: Final = re.compile(r"[`<>]|\$\(")
"""Syntax that makes a command do more than its words show."""
_QUIET: Final = re.compile(r"\s*(?:2>&1|(?:[12]|&)?>\s?/dev/null)(?=\s|$|[;|])")
"""Redirections that only drop output or join it with other output."""
_ANY: Final = "*"


class ToolRequest(NamedTuple):
    """An agent's request for permission."""

    kind: str
    """The kind of tool."""
    about: str
    """The command, the address, or the title of the request."""
    paths: tuple[str, ...] = ()
    """Files that it names."""
    tool: str = ""
    """The tool of our own MCP server that it calls, if it calls one."""

    @property
    def line(self) -> str:
        """Describe the request on one line."""
        return " ".join(f"{self.kind} {self.about or ', '.join(self.paths)}".split())


class PermissionOption(NamedTuple):
    """An answer that the agent offers."""

    id: str
    kind: str


class PermissionDecision(NamedTuple):
    """The explanation for the agent."""

    verdict: Literal["allow", "refuse", "ask"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """The permissions of an agent in a turn."""

    cwd: tuple[str, ...]
    """Its working folder: an absolute path, and other paths of the same folder."""
    places: tuple[str, ...] = ()
    """Further folders that are its own, by absolute paths."""
    confined: bool = False
    """Whether our sandbox confines it to its scope."""
    scope: Scope = Scope()  # noqa: RUF009 - it is frozen
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    otherwise: Literal["refuse", "ask"] = "refuse"

    @classmethod
    def from_profile(
        cls,
        use: AcpUse,
        cwd: Sequence[str],
        places: Sequence[str],
        *,
        confined: bool,
        within: Scope | None = None,
    ) -> PermissionPolicy:
        """Make the permissions of a profile in a scope."""
        allow = None if use.allow is None else tuple(use.allow)
        unique = tuple(dict.fromkeys(cwd))
        return cls(
            unique, tuple(places), confined, within or Scope(), allow, tuple(use.deny), tuple(use.ask), use.otherwise
        )


def check_patterns(use: AcpUse) -> None:
    """Check the patterns. Raises ValueError for one that can never match anything."""
    for text in (*(use.allow or ()), *use.deny, *use.ask):
        kind, colon, glob = text.partition(":")
        if kind not in {*KINDS, _ANY}:
            raise ValueError(f"{text[:80]!r} names no kind of tool; there are: {', '.join((*KINDS, _ANY))}")
        why = scope.explain_fault(glob) if kind in _IN_PLACES and colon else "" if glob or not colon else "it is empty"
        if why:
            raise ValueError(f"{text[:80]!r} is not a pattern: {why}; write it as in edit:docs/** or execute:git *")


def decide(policy: PermissionPolicy, wish: ToolRequest) -> PermissionDecision:
    """Decide about a request. A denied pattern, or a path that the task may not touch, overrides everything else."""
    if wish.kind not in KINDS:
        wish = wish._replace(kind="other")
    if found := _touching(policy, policy.deny, wish):
        return PermissionDecision("refuse", f"its profile denies {found}")
    if found := _outside(policy, wish):
        return PermissionDecision("refuse", found)
    if _touching(policy, policy.ask, wish):
        return PermissionDecision("ask")
    if wish.tool:
        return PermissionDecision("allow")  # the profile grants our tools, and each of them checks its caller
    if _covered(policy, policy.allow, wish) if policy.allow is not None else _usual(policy, wish):
        return PermissionDecision("allow")
    why = "its profile does not allow it" if policy.allow is not None else "there is no sandbox to do it in"
    return PermissionDecision(policy.otherwise, why)


def choose_option(options: Iterable[PermissionOption], *, allow: bool) -> str | None:
    """Choose the offered answer with this meaning that applies once; None if none does.

    An answer that always applies would also allow later requests, which nothing has checked yet.
    """
    offered = {option.kind: option.id for option in reversed(tuple(options))}
    return offered.get("allow_once") if allow else offered.get("reject_once", offered.get("reject_always"))


def _usual(policy: PermissionPolicy, wish: ToolRequest) -> bool:
    """Decide about a request that no pattern of the profile matches."""
    if wish.kind == "switch_mode":
        return False  # only the profile sets the mode
    return policy.confined or wish.kind in _HARMLESS or wish.kind in _WRITES


def _outside(policy: PermissionPolicy, wish: ToolRequest) -> str:
    """Explain which path of a request its task may not touch; empty if there is none."""
    if wish.kind in {"execute", "fetch", "think", "switch_mode"} or (policy.confined and wish.kind in _HARMLESS):
        return ""
    if not wish.paths:
        return "it does not say which files it changes" if wish.kind in _WRITES and not policy.confined else ""
    for path in wish.paths:
        if _own(policy, path):
            continue
        inside = _within(policy, path)
        if inside is None:
            return f"{path} is not in its working folder"
        if wish.kind in _HARMLESS:
            continue
        if not _OURS.isdisjoint(inside.split("/")):
            return f"agents must not change {inside}"
        if not policy.scope.permits(inside):
            return f"{inside} is not in its task's scope"
    return ""


def _own(policy: PermissionPolicy, path: str) -> bool:
    return any(_below(place, path) is not None for place in policy.places)


def _within(policy: PermissionPolicy, path: str) -> str | None:
    """Make a path relative to the agent's working folder; None if it is not in it."""
    full = path if path.startswith("/") else f"{policy.cwd[0]}/{path}"
    if path.startswith("~"):
        return None
    return next((found for cwd in policy.cwd if (found := _below(cwd, full)) is not None), None)


def _below(folder: str, path: str) -> str | None:
    """Make a path relative to a folder; None if it is not in it. Links are not followed."""
    if not path.startswith("/"):
        return None
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    above = [part for part in folder.split("/") if part]
    return "/".join(parts[len(above) :]) if parts[: len(above)] == above else None


def _touching(policy: PermissionPolicy, patterns: Sequence[str], wish: ToolRequest) -> str:
    """Return the first pattern that a part of a request matches; empty if none does."""
    return next((text for text in patterns if any(_matches(policy, text, wish, part) for part in _parts(wish))), "")


def _covered(policy: PermissionPolicy, patterns: Sequence[str], wish: ToolRequest) -> bool:
    """Whether every part of a request matches a pattern."""
    plain = [text for text in patterns if text in {_ANY, wish.kind, f"{_ANY}:{_ANY}", f"{wish.kind}:{_ANY}"}]
    if plain:
        return True
    if wish.kind == "execute" and _HIDING.search(_QUIET.sub("", wish.about)):
        return False
    return all(any(_matches(policy, text, wish, part) for text in patterns) for part in _parts(wish))


def _parts(wish: ToolRequest) -> tuple[str, ...]:
    """Return the parts of a request that patterns are compared with: its commands, or its paths."""
    if wish.kind in _IN_PLACES and wish.paths:
        return wish.paths
    if wish.kind == "execute":
        pieces = _JOINTS.split(_QUIET.sub("", wish.about))
        return tuple(part for each in pieces if (part := " ".join(each.split()))) or ("",)
    return (wish.about,)


def _matches(policy: PermissionPolicy, text: str, wish: ToolRequest, part: str) -> bool:
    kind, colon, glob = text.partition(":")
    if kind not in {_ANY, wish.kind}:
        return False
    if not colon or glob == _ANY:
        return True
    if wish.kind in _IN_PLACES and wish.paths:
        inside = _within(policy, part)
        return inside is not None and _globs(glob).covers(inside)
    return _matches_words(glob, part)


@lru_cache(maxsize=1024)
def _globs(glob: str) -> scope.Globs:
    try:
        return scope.read_globs((glob,))
    except InputError:  # a pattern such as `*:git push` is not a glob of paths
        return scope.Globs()


def _matches_words(glob: str, text: str) -> bool:
    """Whether words match a glob: `*` matches anything, and ` *` at the end may be missing. Takes linear time."""
    if text == glob.removesuffix(" *"):
        return True
    first, *middle = glob.split("*")
    if not middle:
        return False
    last = middle.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for each in middle:
        found = text.find(each, at, end)
        if found < 0:
            return False
        at = found + len(each)
    return True
