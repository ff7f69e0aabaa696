"""Sentences of the engine, told to who reads another language: see `list_templates`."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import Any, Final

from agenttalk.contracts.agent import Locale
from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.validation import Expectations, Issue
from agenttalk.rules.text import answer_words, check_words, forge_words, verdict_words
from agenttalk.rules.text.message import MessageTemplate

CATALOGUE: Final = (verdict_words, check_words, forge_words, answer_words)
_OURS: Final = frozenset({"why", "whys", "names", "who", "commit", "commits", "head", "before", "found", "at", "ever"})
"""Names in braces for which another sentence of ours may stand. Everything else is quoted."""
_LONGEST: Final = 8_000
"""Characters of a text that is looked into."""
_BETWEEN: Final = "; "
"""Stands between sentences that were put one behind the other."""
_PARTS: Final = 30
"""Sentences in one text that are looked for."""
_COUNTS: Final = 6
_DEPTH: Final = 16
"""How deep sentences stand in each other that are looked for."""
_WORDLESS: Final = 4
"""What one without words of its own takes of that."""


@cache
def list_templates() -> tuple[MessageTemplate, ...]:
    """All sentences; those that say the most by themselves first."""
    found = [each for module in CATALOGUE for each in vars(module).values() if isinstance(each, MessageTemplate)]
    return tuple(sorted(found, key=lambda each: (-each.letter_count, -each.length)))


@cache
def _quoting() -> tuple[MessageTemplate, ...]:
    """Those that end with what others wrote, whatever that is."""
    return tuple(each for each in list_templates() if each.en.endswith(("{text}", "{conflict}")))


@cache
def _of_several_parts() -> tuple[MessageTemplate, ...]:
    return tuple(each for each in list_templates() if _BETWEEN in each.en)


def translate(text: str, locale: Locale) -> str:
    """A text of the engine in a language. What is not known to be its own stays as it is."""
    if locale == "en":
        return text
    quoting = _chinese(text, _DEPTH, _quoting(), whole=True)
    return quoting or (text if len(text) > _LONGEST else _translate(text, _DEPTH))


def _translate(text: str, depth: int) -> str:
    """Sentences that were put one behind the other, each in Chinese. What is none of ours stays."""
    parts = text.split(_BETWEEN)
    if len(parts) > _PARTS:
        return text
    told, at = [], 0
    while at < len(parts):
        found, at = next(_beginnings(parts, at, depth), (_counts(parts[at], depth), at + 1))
        told.append(found)
    if told != parts:
        return "；".join(told)
    return _chinese(text, depth, whole=True) or text


def _beginnings(parts: list[str], at: int, depth: int) -> Iterator[tuple[str, int]]:
    """Sentences that begin with a part, the shortest first, and where they end; before them those of several parts."""
    for among in (_of_several_parts(), list_templates()):
        for upto in range(at + 1, len(parts) + 1):
            found = _chinese(_BETWEEN.join(parts[at:upto]), depth, among)
            if found:
                yield found, upto


def _counts(text: str, depth: int) -> str:
    """Counts with commas between them."""
    parts = text.split(", ")
    told = [_chinese(each, depth) for each in parts[:_COUNTS]]
    return "，".join(told) if len(parts) == len(told) and all(told) else text


@lru_cache(maxsize=512)
def _chinese(text: str, depth: int, among: tuple[MessageTemplate, ...] | None = None, *, whole: bool = False) -> str:
    """A sentence in Chinese; empty if it is none of ours.

    Unless a text is known to be `whole`, a bracket that opens in a part of it has to close there: else the sentence was
    cut in its middle. One without words of its own is one only if what stands in it is; that is tried less deep.
    """
    for saying in among or list_templates():
        left = depth - (1 if saying.letter_count else _WORDLESS)
        facts = saying.extract_parameters(text) if left >= 0 else None
        if facts is None:
            continue
        ours = [name for name in facts if name in _OURS]
        if not whole and any(facts[name].count("(") != facts[name].count(")") for name in ours):
            continue
        told = facts | {name: _translate(facts[name], left) for name in ours}
        if saying.letter_count or told != facts:
            return saying.render_chinese(**told)
    return ""


def translate_command(given: Command, locale: Locale) -> Command:
    """A command for a prompt: why work came back is told in the language of who does it again."""
    if locale == "en" or given.reexecute is None:
        return given
    return given.model_copy(update={"reexecute": translate_reexecution(given.reexecute, locale)})


def translate_reexecution(again: Reexecution, locale: Locale) -> Reexecution:
    """What was refused and why, in a language."""
    if locale == "en":
        return again
    result = again.validation_result
    told: dict[str, Any] = {
        "reason": translate(result.reason, locale),
        "issues": tuple(_issue(each, locale) for each in result.issues),
    }
    if result.expectations is not None:
        told["expectations"] = _expectations(result.expectations, locale)
    return again.model_copy(update={"validation_result": result.model_copy(update=told)})


def _issue(issue: Issue, locale: Locale) -> Issue:
    return issue.model_copy(update={"description": translate(issue.description, locale)})


def _expectations(wanted: Expectations, locale: Locale) -> Expectations:
    said = {name: tuple(translate(each, locale) for each in getattr(wanted, name)) for name in _WANTED}
    return wanted.model_copy(update=said)


_WANTED: Final = ("additions", "modifications")


def join_names(names: Collection[str]) -> str:
    """Some names for a message."""
    shown = sorted(names)
    first = ", ".join(repr(name) for name in shown[:3])
    return check_words.MORE(names=first, count=len(shown) - 3) if len(shown) > 3 else first
