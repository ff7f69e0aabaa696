"""Named statements, read from `sql/*.sql`.

A statement begins with `-- name: append_fact` and takes parameters as `:kind`. Where the dialects truly
differ, a second one stands beside it as `-- name: append_fact@postgres`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from agenttalk.adapters.store.dialect import DialectName

FOLDER = Path(__file__).parent / "sql"
_NAME = re.compile(r"^-- name: (\w+)(?:@(\w+))?\n", re.MULTILINE)
_COMMENT = re.compile(r"^--(?! name:).*\n", re.MULTILINE)
_TABLE = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+([a-z_]+)\b")
_RETURNED = re.compile(r"\s+RETURNING\s[^()]*\Z")
_MADE = re.compile(r"INSERT INTO (\w+)")
_REFERS = {"deliveries": frozenset({"messages"})}
"""Tables whose rows name rows of others, which have to be there before them."""
_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|::|:([a-z_]\w*)|%")


@cache
def load_statements(dialect: DialectName) -> dict[str, str]:
    """Load every statement of a dialect in the form of its driver."""
    common: dict[str, str] = {}
    special: dict[str, str] = {}
    for path in sorted(FOLDER.glob("*.sql")):
        for name, variant, text in split_statements(path.read_text(encoding="utf-8")):
            home = special if variant == dialect else common
            if variant in {"", dialect}:
                if name in home:
                    raise ValueError(f"{path.name}: {name} is named twice")
                home[name] = text
    found = common | special
    return {name: to_psycopg(text) for name, text in found.items()} if dialect == "postgres" else found


@cache
def load_silent_statements(dialect: DialectName) -> dict[str, str]:
    """Load the statements without RETURNING, for callers that need no rows: returning rows takes twice as long."""
    return {name: _RETURNED.sub("", text) for name, text in load_statements(dialect).items()}


@cache
def tables_of_statements(dialect: DialectName) -> dict[str, frozenset[str]]:
    """Find the tables that every statement of a dialect reads or writes, and those that its rows refer to."""
    return {
        name: frozenset(_TABLE.findall(text)).union(referred_tables(text))
        for name, text in load_statements(dialect).items()
    }


@cache
def deferrable_statements(dialect: DialectName) -> frozenset[str]:
    """Statements that make no rows which rows of other tables name: they come after those that do."""
    named = frozenset().union(*_REFERS.values())
    made = {name: _MADE.match(text) for name, text in load_statements(dialect).items()}
    return frozenset(name for name, match in made.items() if match is None or match[1] not in named)


def referred_tables(statement: str) -> frozenset[str]:
    """Tables whose rows the new rows of a statement name."""
    made = _MADE.match(statement)
    return _REFERS.get(made[1], frozenset()) if made else frozenset()


def split_statements(text: str) -> list[tuple[str, str, str]]:
    """Name, variant and statement of everything in a file."""
    parts = _NAME.split(_COMMENT.sub("", text))[1:]
    return [(parts[i], parts[i + 1] or "", parts[i + 2].strip()) for i in range(0, len(parts), 3)]


def to_psycopg(text: str) -> str:
    """Translate `:name` to `%(name)s`, and double percent signs. Literals and casts stay as they are."""

    def translate(match: re.Match[str]) -> str:
        return f"%({match[1]})s" if match[1] else match[0].replace("%", "%%")

    return _TOKEN.sub(translate, text)
