"""Who is called by name in a text, what is wanted of them, and the marker that our own texts carry."""

# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from unicodedata import category

from agenttalk.contracts.toolchain import Intent

_NAME: Final = re.compile(
    r"(?<![A-Za-z0-9_@./+=%&#`-])@([A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,98}[A-Za-z0-9_])?)(?![A-Za-z0-9_@/-])"
)
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_QUOTE: Final = re.compile(r" {0,3}>")
_HIDES: Final = re.compile(r" {0,3}<!--")
"""A comment that begins a line and never ends hides all the rest."""
_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_INDENTED: Final = re.compile(r"(?: {4}| {0,3}\t)")
_TICKS: Final = re.compile(r"`+")
_MARKER: Final = re.compile(r"<!-- agenttalk:task=([A-Za-z0-9_.-]{1,128}) hop=(\d{1,4})( by=engine)? -->")

_ASKED: Final = re.compile(
    r"\b(?:please|pls|plz|can you|could you|would you|will you|need you to|needs? to|must|fix|review|update|help)\b"
    r"|请(?!问)|麻烦|帮(?:忙|我|个)|需要|务必|修复|处理|协助",
    re.IGNORECASE,
)
_QUESTION: Final = re.compile(
    r"[?？]|\b(?:why|what|how|when|where|which|who)\b|请问|吗|为什么|怎么|如何|是否|什么", re.IGNORECASE
)
_KNOWLEDGE: Final = re.compile(
    r"\b(?:fyi|for your information|cc|heads[ -]up|no action)\b|供参考|知悉|抄送|周知|仅供", re.IGNORECASE
)


class Marker(NamedTuple):
    """What we hide in the texts that we post."""

    task: str
    """The task for which it was posted."""
    hop: int
    """How many answers of agents to agents lie before it."""
    by_engine: bool = False
    """Whether the engine wrote it, and not an agent. It calls no agent."""


def write_marker(marker: Marker) -> str:
    """Write the marker for a text; forges do not show it."""
    return f"<!-- agenttalk:task={marker.task} hop={marker.hop}{' by=engine' if marker.by_engine else ''} -->"


def read_marker(text: str) -> Marker | None:
    """Read the marker with the highest hop in the unquoted text; None when there is none."""
    if "agenttalk:task=" not in text:
        return None
    found = [_MARKER.search(line) for line in text.splitlines() if "agenttalk:task=" in line and not _QUOTE.match(line)]
    markers = [Marker(match[1], int(match[2]), match[3] is not None) for match in found if match]
    return max(markers, key=lambda each: each.hop, default=None)


def find_names(text: str) -> tuple[str, ...]:
    """Find the names that a text calls, in lower case, each once. Code, quotes, comments and addresses do not count."""
    if "@" not in text:
        return ()
    return tuple(dict.fromkeys(match.lower() for match in _NAME.findall(_spoken(text))))


def has_visible_text(text: str) -> bool:
    """Whether a text shows anything of its own to people: hidden comments, quotes and blanks alone do not."""
    shown = (line for line in _without_comments(text).splitlines() if not _QUOTE.match(line))
    return any(category(each)[0] in "LNPS" for line in shown for each in line)


def find_added_names(before: str | None, after: str) -> tuple[str, ...]:
    """Find the names that an edit added. None when the earlier text is unknown."""
    if before is None:
        return ()
    old = set(find_names(before))
    return tuple(name for name in find_names(after) if name not in old)


def detect_intent(text: str) -> Intent:
    """Detect what a text wants of the agent it calls. In doubt it requests work."""
    spoken = _spoken(text)
    if _ASKED.search(spoken):
        return "request"
    if _QUESTION.search(spoken):
        return "question"
    return "fyi" if _KNOWLEDGE.search(spoken) else "request"


def _spoken(text: str) -> str:
    """Remove comments, code and quotes from a text."""
    paragraphs: list[list[str]] = [[]]
    for line in _prose(_without_comments(text)):
        if line.strip():
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    return "\n\n".join(_without_code("\n".join(lines)) for lines in paragraphs if lines)


def _without_comments(text: str) -> str:
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start)) >= 0:
        kept.append(text[at:start])
        at = end + 3
    return "".join([*kept, text[at:]])


def _prose(text: str) -> Iterator[str]:
    """Yield the lines of a text, with those in code blocks and quotes left blank."""
    fence, blank, in_list, in_code = "", True, False, False
    for line in text.splitlines():
        mark = _FENCE.match(line)
        if fence:
            closes = mark is not None and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
            yield ""
        elif mark:
            fence = mark[1]
            yield ""
        elif _HIDES.match(line):
            return
        elif _QUOTE.match(line):
            yield ""
        elif not line.strip():
            blank = True
            yield ""
            continue
        elif _INDENTED.match(line) and not in_list and (blank or in_code):
            in_code = True
            yield ""
            continue
        else:
            in_list = _ITEM.match(line) is not None or (in_list and line[0].isspace())
            yield line
        blank, in_code = False, False


def _without_code(paragraph: str) -> str:
    """Remove the code between equally long runs of backticks. Takes one pass."""
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(paragraph)]
    later: dict[int, list[int]] = {}
    for at in range(len(runs) - 1, -1, -1):
        later.setdefault(runs[at][1] - runs[at][0], []).append(at)
    kept, position, next_run = [], 0, 0
    while next_run < len(runs):
        start, end = runs[next_run]
        same = later[end - start]
        while same and same[-1] <= next_run:
            same.pop()
        if same:
            closing = same[-1]
            kept.append(paragraph[position:start])
            kept.append("`")
            position, next_run = runs[closing][1], closing + 1
        else:
            next_run += 1
    return "".join([*kept, paragraph[position:]])
