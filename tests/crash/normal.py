"""What differs between two runs that are the same: random names, where the root lies, how long something took."""

from __future__ import annotations

import re

_RULES = [
    (re.compile(r"\b(dlv|dl|alert|lease|key|unread)_[0-9a-f]{24}\b"), r"\1_*"),
    (re.compile(r"\.agenttalk-[0-9a-f]{32}\.tmp"), ".agenttalk-*.tmp"),
    (re.compile(r"(?<=/)\.[0-9a-f]{24}\.tmp"), ".draft-*.tmp"),
    (re.compile(r"\bsealed-\w{8}\b"), "sealed-*"),
    (re.compile(r"(/\d+){2}(?=$|[\",])"), "/inode/time"),
    (re.compile(r'("(?:uptime_seconds|duration_s|retry_count)": ?)[\d.]+'), r"\1*"),
    (re.compile(r"\b[0-9a-f]{40}\b"), "<object>"),  # a commit names its attempt
    (re.compile(r'"seconds": ?[\d.]+'), '"seconds":*'),
    (re.compile(r', ?"seen_(?:at|for)": ?"[^"]*"'), ""),  # what was found before a death is not looked for again
    (re.compile(r'("last_heartbeat": ?)"[^"]+"'), r"\1*"),
]


def calm(text: str, root: str) -> str:
    """A text without what is random in it."""
    text = text.replace(root, "ROOT")
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text
