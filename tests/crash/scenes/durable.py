"""What a death leaves behind, as one key: the same key, the same life afterwards.

Two deaths are told apart by everything that lasts: every row with its numbers, every file, what was said, and the
step that comes next. Left out is what is random (ids, tokens, prompts, who the owner was, where the root lies) and
what nobody reads again: drafts that never got a name, and the folder of an attempt after which another one began.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from agenttalk.adapters.store.root import list_databases
from agenttalk.engine.core.attempt_paths import TURNS
from crash.normal import calm
from crash.snapshot import opened

_RANDOM = frozenset({"token", "prompt_sha256", "owner", "prev", "hash", "delivery_id", "deadletter_id"})
_WHOLE = 10_000
_RULES = [
    (re.compile(r"boot_id.*?started\W+\d+"), "owner"),
    (re.compile(r"(prompt_sha256\W+|\"hash\":\")sha256:\w+"), r"\1*"),
    (re.compile(r"/\d+/\d{15,}"), "/inode/time"),
    (re.compile(r"\"killed\":\d+"), "killed"),
]
_UNSURE = ("torn ", "start", "a program", "a turn")
"""Boundaries at which a death leaves something else than what lies there: half of a line, a program that runs."""


def key(root: Path, boundary: str, step: int, said: Sequence[str]) -> str:
    """What a death at this boundary leaves now."""
    digest = hashlib.sha256(repr((step, sorted(said))).encode())
    if boundary.startswith(_UNSURE):
        digest.update(boundary.encode())
    for text in (*_rows(root), *sorted(_files(root))):
        digest.update(text.encode())
    return digest.hexdigest()


def _rows(root: Path) -> Iterator[str]:
    for board, path in list_databases(root).items():
        connection = opened(path)
        try:
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                yield from sorted(_table(connection, board, str(table), str(root)))
        except apsw.BusyError:
            yield f"{board} is being made"
        finally:
            connection.close()


def _table(connection: apsw.Connection, board: str, table: str, root: str) -> Iterator[str]:
    columns = [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]
    kept = [number for number, column in enumerate(columns) if column not in _RANDOM or table == "blobs"]
    for row in connection.execute(f'SELECT * FROM "{table}"'):
        text = calm(f"{board} {table} {[_text(row[number]) for number in kept]}\n", root)
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        yield text


def _text(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _files(root: Path) -> Iterator[str]:
    for folder, below, names in os.walk(root):
        below[:] = _latest(below) if folder.endswith(f"/{TURNS}") else below
        short = Path(folder).relative_to(root)
        yield f"{short}/\n"
        for name in names:
            path = calm(f"{short}/{name}", str(root))
            if not path.endswith((".db", ".db-wal", ".db-shm", ".agenttalk-*.tmp", ".draft-*.tmp")):
                data = (Path(folder) / name).read_bytes()
                whole = (
                    data.decode("utf-8", "backslashreplace")
                    if len(data) <= _WHOLE
                    else hashlib.sha256(data).hexdigest()
                )
                yield f"{path}: {calm(whole, str(root))}\n"


def _latest(attempts: list[str]) -> list[str]:
    """Of each command the folder of its last attempt."""
    last: dict[str, int] = {}
    for name in attempts:
        command, _, number = name.partition(".")[0].rpartition("-")
        last[command] = max(last.get(command, 0), int(number))
    return [f"{command}-{number}" for command, number in sorted(last.items())]
