"""Markup as rich reads it, for where nobody draws it: loading what draws takes a fifth of a short command."""

from __future__ import annotations

import re

_TAG = re.compile(r"(\\*)(\[[a-z#/@][^[]*?])")


def escape(text: str) -> str:
    """Markup that shows a text as it is."""
    shown = _TAG.sub(lambda found: f"{found[1]}{found[1]}\\{found[2]}", text)
    return shown + "\\" if shown.endswith("\\") and not shown.endswith("\\\\") else shown


def strip_markup(markup: str) -> str:
    """What a markup says, without how it looks."""
    said, place = [], 0
    for found in _TAG.finditer(markup):
        slashes = len(found[1])
        said += [_unescaped(markup[place : found.start()]), "\\" * (slashes // 2), found[2] if slashes % 2 else ""]
        place = found.end()
    return "".join([*said, _unescaped(markup[place:])])


def _unescaped(text: str) -> str:
    """A bracket that begins no tag may be escaped all the same."""
    return text.replace("\\[", "[")
