"""Which values of an event may stand in a step, outside the fence.

A step is the engine's own word. Numbers, commits, names of repositories and agents have a form that cannot be a
sentence, and addresses lie below those that the operator configured. Everything else, titles, branches, names of jobs,
labels and texts, is only referred to: it stands in the fenced facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

_NUMBER: Final = re.compile(r"[0-9]{1,18}")
_COMMIT: Final = re.compile(r"[0-9a-fA-F]{7,64}")
_REPOSITORY: Final = re.compile(r"[\w.\-]{1,100}/[\w.\-]{1,100}", re.ASCII)
_LEVEL: Final = re.compile(r"low|medium|high")
_WORD: Final = re.compile(r"[A-Za-z_]{1,30}")
_PLAIN: Final = re.compile(r"[\w.~/%:\[\]\-]+", re.ASCII)
_LONGEST_ADDRESS: Final = 500
_FORMS: Final[Mapping[str, re.Pattern[str]]] = {
    "repo": _REPOSITORY,
    "pr_number": _NUMBER,
    "issue_number": _NUMBER,
    "number": _NUMBER,
    "head_sha": _COMMIT,
    "new_sha": _COMMIT,
    "commit_sha": _COMMIT,
    "risk_level": _LEVEL,
    "result": _WORD,
    "intent_hint": _WORD,
    "source_type": _WORD,
}
ADDRESSES: Final = frozenset({"log_url", "source_url", "url"})
"""Names of facts that are addresses."""


def is_showable(name: str, value: Any, bases: Iterable[str]) -> bool:
    """Whether a fact may stand in a step. Addresses have to lie below one of the bases."""
    if name in ADDRESSES:
        return isinstance(value, str) and any(is_below(value, base) for base in bases)
    form = _FORMS.get(name)
    return form is not None and not isinstance(value, bool) and form.fullmatch(str(value)) is not None


def is_below(address: str, base: str) -> bool:
    """Whether an address is a plain one below another: the same scheme, host and port, and a path below its path."""
    if len(address) > _LONGEST_ADDRESS or _PLAIN.fullmatch(address) is None or ".." in address:
        return False
    try:
        one, other = urlsplit(address), urlsplit(base)
        same = (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)
    except ValueError:
        return False
    path = other.path.rstrip("/")
    return same and one.scheme in {"http", "https"} and bool(one.hostname) and f"{one.path}/".startswith(f"{path}/")
