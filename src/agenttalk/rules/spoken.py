"""Sentences of the engine, told to who reads another language: see `sayings`."""
# ruff: noqa: RUF001 - Chinese punctuation

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from agenttalk.contracts.agent import Locale
from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.validation import Expectations, Issue
from agenttalk.rules import words_of_answers, words_of_checks, words_of_forges, words_of_verdicts
from agenttalk.rules.sayings import Saying

CATALOGUE: Final = (words_of_verdicts, words_of_checks, words_of_forges, words_of_answers)
_OURS: Final = frozenset({"why", "whys", "names", "who", "commit", "commits", "head", "before", "found", "at", "ever"})
"""Names in braces for which another sentence of ours may stand. Everything else is quoted."""
_LONGEST: Final = 20_000
"""Characters of a text that is looked at; who says more quotes it."""
_PARTS: Final = 60
"""Sentences in one text that are looked for."""


@cache
def sayings() -> tuple[Saying, ...]:
    """All sentences; those with the most words of their own first."""
    found = [each for module in CATALOGUE for each in vars(module).values() if isinstance(each, Saying)]
    return tuple(sorted(found, key=lambda each: -each.words))


def spoken(text: str, locale: Locale) -> str:
    """A text of the engine in a language. What is not known to be its own stays as it is."""
    return text if locale == "en" or len(text) > _LONGEST else _told(text)


def _told(text: str) -> str:
    """Sentences that were put one behind the other, each in Chinese. What is none of ours stays."""
    parts = text.split("; ")
    told, at = [], 0
    while at < len(parts) <= _PARTS:
        found, at = next(_beginnings(parts, at), (_counts(parts[at]), at + 1))
        told.append(found)
    if told and told != parts:
        return "；".join(told)
    return _chinese(text, whole=True) or text


def _beginnings(parts: list[str], at: int) -> Iterator[tuple[str, int]]:
    """Sentences that begin with a part, the shortest first, and where they end."""
    for upto in range(at + 1, len(parts) + 1):
        found = _chinese("; ".join(parts[at:upto]))
        if found:
            yield found, upto


def _counts(text: str) -> str:
    """Counts with commas between them."""
    parts = [_chinese(each) for each in text.split(", ")]
    return "，".join(parts) if all(parts) else text


def _chinese(text: str, *, whole: bool = False) -> str:
    """A sentence in Chinese; empty if it is none of ours.

    Unless a text is known to be `whole`, a bracket that opens in a part of it has to close there: else the sentence was
    cut in its middle.
    """
    for saying in sayings():
        facts = saying.found_in(text)
        if facts is None:
            continue
        ours = [name for name in facts if name in _OURS]
        if not whole and any(facts[name].count("(") != facts[name].count(")") for name in ours):
            continue
        told = facts | {name: _told(facts[name]) for name in ours}
        if saying.words or told != facts:
            return saying.chinese(**told)
    return ""


def command(given: Command, locale: Locale) -> Command:
    """A command for a prompt: why work came back is told in the language of who does it again."""
    if locale == "en" or given.reexecute is None:
        return given
    return given.model_copy(update={"reexecute": reexecution(given.reexecute, locale)})


def reexecution(again: Reexecution, locale: Locale) -> Reexecution:
    """What was refused and why, in a language."""
    if locale == "en":
        return again
    result = again.validation_result
    told: dict[str, Any] = {
        "reason": spoken(result.reason, locale),
        "issues": tuple(_issue(each, locale) for each in result.issues),
    }
    if result.expectations is not None:
        told["expectations"] = _expectations(result.expectations, locale)
    return again.model_copy(update={"validation_result": result.model_copy(update=told)})


def _issue(issue: Issue, locale: Locale) -> Issue:
    return issue.model_copy(update={"description": spoken(issue.description, locale)})


def _expectations(wanted: Expectations, locale: Locale) -> Expectations:
    said = {name: tuple(spoken(each, locale) for each in getattr(wanted, name)) for name in _WANTED}
    return wanted.model_copy(update=said)


_WANTED: Final = ("additions", "modifications")
