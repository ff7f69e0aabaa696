"""Answers of the tests that the work has written down: what a test gives, and what it expects for that.

A text of a test that code compares with, or looks up, is an answer for exactly this test where what the test expects
stands there as well. Texts that could be names are left out: tables of names are ordinary code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from agenttalk.rules.changes.changed_files import ChangedFile, NumberedLine
from agenttalk.rules.checks import test_runners

LEAST: Final = 2
"""Examples of the tests that have to stand in the code: one alone may be chance."""
_LANGUAGES: Final = (
    *(".py", ".pyw", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".go", ".rs", ".java", ".kt"),
    *(".rb", ".php", ".cs", ".swift", ".scala", ".c", ".cc", ".cpp", ".sh", ".bash", ".json"),
)
_TEXT: Final = re.compile(r"\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)'")
_ODD: Final = re.compile(r"[\s!?&#@,;]")
"""What a name does not have."""
_BEFORE_KEY: Final = re.compile(r"(?:[=!]==?|\bcase|\bin|\bequals\s*\(|\beq\s*\()\s*[(\[{]*\s*\Z")
_AFTER_KEY: Final = re.compile(r"\s*(?::|=>|[=!]==?|->|\)\s*(?:echo|printf)|,\s*[\"'])")
_SHORTEST: Final = 3
_DOCSTRING: Final = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|/\*.*?\*/", re.DOTALL)
_SEEN: Final = re.compile(r"\S")
_COMMENT: Final = re.compile(r"^\s*(?:#|//|\*|--|>>>).*|\s(?:#|//)\s.*")


class CodeTexts(NamedTuple):
    """The texts of code, and those of them that it compares with or looks up, each with its first line."""

    all: frozenset[str]
    keys: dict[str, int]


def read_code(file: ChangedFile) -> CodeTexts | None:
    """Read the texts that a change adds to code; None for a file without code, or with too few."""
    if not file.path.endswith(_LANGUAGES) or test_runners.is_test(file.path) or not file.added_lines:
        return None
    texts: set[str] = set()
    keys: dict[str, int] = {}
    for line in _list_code(file):
        for found in _TEXT.finditer(line.text):
            text = found[1] if found[1] is not None else found[2]
            texts.add(text)
            before, after = line.text[: found.start()], line.text[found.end() :]
            if _ODD.search(text) and (_BEFORE_KEY.search(before) or _AFTER_KEY.match(after)):
                keys.setdefault(text, line.number)
    return CodeTexts(frozenset(texts), keys) if len(keys) >= LEAST else None


def _list_code(file: ChangedFile) -> Iterator[NumberedLine]:
    """List the added lines of code, without comments and documentation."""
    source = _DOCSTRING.sub(lambda found: _SEEN.sub(" ", found[0]), (file.after or b"").decode(errors="replace"))
    lines = source.splitlines()
    for line in file.added_lines:
        yield NumberedLine(line.number, _COMMENT.sub("", lines[line.number - 1]))


def read_examples(tests: Iterable[bytes]) -> tuple[tuple[str, ...], ...]:
    """Read the texts of each line of tests that has more than one: what a test gives, and what it expects."""
    found: dict[tuple[str, ...], None] = {}
    for data in tests:
        for line in data.decode(errors="replace").splitlines():
            texts = [one or other for one, other in _TEXT.findall(_COMMENT.sub("", line))]
            if len(texts) > 1:
                found[tuple(texts)] = None
    return tuple(found)


def find_copies(code: CodeTexts, examples: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Find the lines of code that hold what tests give, where what they expect for it is there as well."""
    found = set()
    for texts in examples:
        for at, text in enumerate(texts[:-1]):
            answers = (other for other in texts[at + 1 :] if other != text and len(other) >= _SHORTEST)
            if text in code.keys and any(other in code.all for other in answers):
                found.add(text)
    return tuple(sorted(code.keys[text] for text in found)) if len(found) >= LEAST else ()
