"""Which contents anything refers to: every hash that stands anywhere in a root's databases, ledgers included."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from agenttalk.adapters.store.root import list_databases

_HASH: Final = re.compile(rb"[0-9a-f]{64}")


def find_references(root: Path) -> set[str]:
    """Find the hex digits of all hashes in the databases of a root, also within contents that they store.

    Writes nothing, and may run while others write. It reads everything, and takes as long.
    """
    found: set[bytes] = set()
    for path in list_databases(root).values():
        for value in _values(path):
            found.update(_HASH.findall(value.encode() if isinstance(value, str) else value))
    return {each.decode() for each in found}


def _values(path: Path) -> Iterator[str | bytes]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(10_000)
        connection.execute("BEGIN")
        for (table,) in list(connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")):
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - a name of the schema itself
                yield from (value for value in row if isinstance(value, str | bytes))
    finally:
        connection.close()
