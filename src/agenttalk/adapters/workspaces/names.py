"""Names and links that a tree must not have. Pure.

git and file systems disagree on when two names are the same. A name that some system would take for `.git`, or for
another file of the same folder, is refused, so that a tree means the same wherever it is checked out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from typing import Final

from agenttalk.rules.text import check_words

IGNORABLE: Final = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
"""Characters that HFS+ ignores."""
MAX_PATH: Final = 4000
_LINKS: Final = 40
_OUT: Final = "it is a symlink that leads out of the tree"


def describe_refusal(path: str) -> str:
    """Explain why a new path of the tree is refused; empty if it is accepted."""
    name = path.rpartition("/")[2]
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return check_words.NAME_NOT_UTF8()
    if len(raw) > MAX_PATH:
        return check_words.PATH_TOO_LONG(limit=MAX_PATH)
    if is_git_name(name):
        return check_words.INNER_GIT()
    if _plain(name) in {".gitmodules", "gitmod~1"}:
        return check_words.NO_SUBMODULES()
    return ""


def is_git_name(name: str) -> bool:
    """Return whether some system would take a name for `.git`."""
    return any(_plain(part) in {".git", "git~1"} for part in name.split("\\"))


def find_bare_repositories(paths: Collection[str], known: Collection[str]) -> list[str]:
    """Find folders that git would take for a repository without a work tree, and that were not one before."""

    def found(among: Collection[str]) -> set[str]:
        heads = _folders_of_heads(among)
        return heads and heads & _holding(among, "objects") & _holding(among, "refs")

    there = found(paths)
    return sorted(there - found(known)) if there else []


def _folders_of_heads(paths: Collection[str]) -> set[str]:
    ends = [path for path in paths if path[-4:].casefold() == "head"]
    return {path.rpartition("/")[0] or "." for path in ends if path.rpartition("/")[2].casefold() == "head"}


def _holding(paths: Collection[str], name: str) -> set[str]:
    """Find folders that contain a folder of this name."""
    holders = set()
    for path in paths:
        steps = path.casefold().split("/")[:-1]
        holders |= {"/".join(path.split("/")[:at]) or "." for at, step in enumerate(steps) if step == name}
    return holders


def fold_name(name: str) -> str:
    """Find names that some file system would take for the same."""
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())


def describe_escape(path: str, links: Mapping[str, str], foreign: Collection[str] = ()) -> str:
    """Explain why a symlink of the tree is refused; empty if it stays inside.

    `links`: path → target of every symlink of the tree. `foreign`: paths that we ourselves linked elsewhere; a link may
    name what is below them, but not what is above.
    """
    here = path.split("/")
    pending = [here[-1]]
    here.pop()
    followed = 0
    while pending:
        part = pending.pop()
        if part == ".." and not here:
            return _OUT
        if part == "..":
            here.pop()
        if part in {"", ".", ".."}:
            continue
        here.append(part)
        at = "/".join(here)
        if at in links:
            followed += 1
            if followed > _LINKS:
                return check_words.CIRCLE()
            if links[at].startswith("/"):
                return _OUT
            here.pop()
            pending.extend(reversed(links[at].split("/")))
        elif at in foreign:
            return _OUT if ".." in pending else ""
        elif is_git_name(here[0]):
            return check_words.INTO_GIT()
    return ""


def _plain(name: str) -> str:
    """Reduce a name to what every system distinguishes."""
    return IGNORABLE.sub("", name).partition(":")[0].rstrip(" .").casefold()
