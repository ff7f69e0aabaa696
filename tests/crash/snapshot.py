"""What a root says in the end, without what may differ between two runs, and how two of them differ."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from agenttalk.adapters.store import audit
from agenttalk.adapters.store.root import list_databases
from crash.normal import calm

LOG = "effects.log"
"""Into this file under the root a program writes a line when it starts: its command and its attempt."""
LEASES = frozenset({"lease.granted", "lease.ended", "turn.injected", "turn.started", "turn.resumed"})
"""Facts of which an attempt that died leaves more."""
_IDS = frozenset({"id", "message", "delivery"})
_COUNTED = frozenset({"epoch", "attempt", "deaths"})
"""Columns that are compared by how often a process died."""
_RANDOM = (
    frozenset({"prompt_sha256", "lease", "owner", "leased_at", "token", "seq", "version", "fact", "seconds"}) | _COUNTED
)
_NUMBERS = frozenset({("journals", "latest"), ("cursors", "value")})
"""Columns that hold the number of a fact, which is a higher one when an attempt died."""
_TRIED = frozenset(
    {("effects", "attempts"), ("effects", "not_before"), ("outgoing", "tries"), ("outgoing", "not_before")}
)
_SKIPPED = frozenset({"migrations", "ledger", "sqlite_sequence"})
_WHOLE = 10_000
_SEEN = ("seen_at", "seen_for")
"""What a result says that was found before the death."""

Snapshot = dict[str, list[str]]


def leased(root: Path) -> dict[str, tuple[str, ...]]:
    """The leases that were held when the process died, each with the names under which that counts.

    These are its command as plan/command, its task as plan:task, and plan!task unless it only waited for an answer.
    One that was being verified has done its part: that is `again plan/command`, and its program does not run again.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path in list_databases(root).values():
        connection = opened(path)
        try:
            rows = connection.execute(
                "SELECT t.lease, CASE WHEN t.phase = 'verifying' OR p.body IS NOT NULL THEN 'again ' ELSE '' END || m.plan_id || '/' || m.command_id,"
                " t.plan_id || ':' || t.task_id,"
                " CASE WHEN t.phase = 'asking' THEN '' ELSE t.plan_id || '!' || t.task_id END FROM tasks AS t"
                " JOIN deliveries AS d ON d.id = t.delivery JOIN messages AS m ON m.id = d.message"
                " LEFT JOIN performances AS p ON p.board = t.board AND p.plan_id = t.plan_id AND p.task_id = t.task_id"
                " WHERE t.lease IS NOT NULL"
            ).fetchall()
        except apsw.SQLError:
            rows = []  # the tables are not there yet, or it is the system's
        finally:
            connection.close()
        found |= {str(row[0]): tuple(str(name) for name in row[1:]) for row in rows}
    return found


def premature(root: Path) -> list[str]:
    """What was done in the world although the store does not know of it: a message in an inbox, a program's start."""
    known: set[tuple[str, str]] = set()
    begun: set[str] = set()
    for path in list_databases(root).values():
        connection = opened(path)
        try:
            rows = connection.execute(
                "SELECT m.message_id, d.receiver FROM deliveries AS d JOIN messages AS m ON m.id = d.message"
            ).fetchall()
            known |= {(str(row[0]), str(row[1])) for row in rows}
            begun |= set(_begun(connection))
        except apsw.SQLError:
            continue  # the tables are not there yet, or it is the system's
        finally:
            connection.close()
    told = [f"attempt {line!r} began before that was recorded" for line in _log(root) if line not in begun]
    for path in (root / "agents").glob("*/inbox/**/*.msg.json"):
        message = str(json.loads(path.read_bytes())["message_id"])
        if (message, path.relative_to(root).parts[1]) not in known:
            told.append(f"{path.relative_to(root)} lies there before that was recorded")
    return told


def _begun(connection: apsw.Connection) -> Iterator[str]:
    """The attempts whose prompt was recorded, as a program notes them."""
    leases: dict[str, str] = {}
    facts = connection.execute(
        "SELECT kind, subject, body FROM ledger WHERE kind IN ('lease.granted', 'turn.injected', 'turn.started')"
        " ORDER BY seq"
    ).fetchall()
    for kind, subject, body in facts:
        told = json.loads(bytes(body))  # type: ignore[arg-type]
        if kind != "turn.injected":
            leases[told["lease"]] = f"{_command_of(connection, str(subject), told)} {told['attempt']}"
        if kind != "lease.granted":
            yield leases[told["lease"]]


def snapshot(root: Path) -> Snapshot:
    """Everything that must be the same after every crash."""
    found: Snapshot = {"attempts": [], "log": _log(root)}
    for board, path in list_databases(root).items():
        connection = opened(path)
        try:
            _read_board(board, connection, str(root), found)
        finally:
            connection.close()
    found["files"] = sorted(_files(root))
    found["journal"] = sorted(_journal(root))
    found["audit"] = [f"{report.chain}: {report.verdict}" for report in audit.verify(root) if not report.verdict.intact]
    return found


def differences(
    expected: Mapping[str, list[str]],
    found: Mapping[str, list[str]],
    died: Mapping[str, int],
    spare: int = 0,
    fewer: int = 0,
) -> list[str]:
    """How a root differs. `died` says how often a command, and how often a task, was running when its process died.

    Each such death is followed by one more attempt; at most `spare` others are forgiven, and `fewer` that are not
    made.
    """
    told = []
    allowed = _Allowed(died, spare, fewer)
    for part in sorted(expected.keys() | found.keys()):
        if part not in {"attempts", "log"} and not part.startswith("leases/"):
            told += _compared(part, expected.get(part, []), found.get(part, []))
    for part in sorted(key for key in expected.keys() | found.keys() if key.startswith("leases/")):
        told += _repeated(part, expected.get(part, []), found.get(part, []), allowed)
    told += _attempts(expected["attempts"], found["attempts"], allowed)
    return told + _runs(expected["log"], found["log"], allowed)


class _Allowed(NamedTuple):
    """How many more of something there may be."""

    died: Mapping[str, int]
    spare: int
    fewer: int

    def more(self, name: str, *, least: bool = True) -> range:
        """Because processes died. Without `least`, there may also be none."""
        deaths = self.died.get(name, 0)
        return range(deaths - self.fewer if least else 0, deaths + self.spare + 1)


def _compared(part: str, expected: list[str], found: list[str]) -> list[str]:
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    return [
        *(f"{part}: {count} missing: {text[:600]}" for text, count in missing.items()),
        *(f"{part}: {count} too many: {text[:600]}" for text, count in extra.items()),
    ]


def _attempts(expected: list[str], found: list[str], allowed: _Allowed) -> list[str]:
    """Each attempt that died is followed by exactly one more."""
    told = []
    before, after = (dict(text.rsplit(" ", 1) for text in texts) for texts in (expected, found))
    for name in before.keys() | after.keys():
        whose = name.split(" ")[1]
        more = int(after.get(name, 0)) - int(before.get(name, 0))
        if more not in allowed.more(whose):
            deaths = allowed.died.get(whose, 0)
            told.append(f"attempts: {name} is {after.get(name)} and not {before.get(name)}, for {deaths} died")
    return told


def _repeated(part: str, expected: list[str], found: list[str], allowed: _Allowed) -> list[str]:
    told = []
    before, after = Counter(expected), Counter(found)
    for name in before.keys() | after.keys():
        if after[name] - before[name] not in allowed.more(name, least=not part.endswith("turn.injected")):
            deaths = allowed.died.get(name, 0)
            told.append(f"{part}: {name}: {after[name]} and not {before[name]}, for {deaths} died")
    return told


def _runs(expected: list[str], found: list[str], allowed: _Allowed) -> list[str]:
    """A program runs once for each attempt, and again only after one that died."""
    told = [f"log: attempt {text!r} began {count} times" for text, count in Counter(found).items() if count > 1]
    before, after = (Counter(text.rsplit(" ", 1)[0] for text in texts) for texts in (expected, found))
    told += [
        f"log: {command} ran {after[command]} times and not {before[command]}"
        for command in before.keys() | after.keys()
        if after[command] - before[command] not in allowed.more(command, least=False)
    ]
    return told


def opened(path: Path) -> apsw.Connection:
    """Only to read: whoever may write puts the log into the database when he closes, and a crash would not be one."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(5_000)
    return connection


def _read_board(board: str, connection: apsw.Connection, root: str, found: Snapshot) -> None:
    names = _message_names(connection)
    tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for table in sorted(set(tables) - _SKIPPED):
        cursor = connection.execute(f'SELECT * FROM "{table}"')
        columns = [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor]
        if table == "blobs":  # a pack names its attempt; those that count are told by their tips
            rows = [row for row in rows if not row["content"].startswith(b"PACK")]
        if table == "tip_packs":
            rows = [_tip(connection, row) for row in rows]
        found[f"{board}.{table}"] = sorted(calm(_row(table, row, names), root) for row in rows)
        if table == "tasks":
            for row in rows:
                task = f"{row['plan_id']}:{row['task_id']}"
                found["attempts"].append(f"epoch {task} {row['epoch']}")
                if row["unmet"] is not None:
                    found["attempts"].append(f"deaths {row['plan_id']}!{row['task_id']} {row['deaths']}")
                if row["delivery"]:
                    found["attempts"].append(f"attempt {names[row['delivery']][1]} {row['attempt']}")
    _read_facts(board, connection, root, found)


def _tip(connection: apsw.Connection, row: dict[str, Any]) -> dict[str, Any]:
    """A move of a tip: whether its pack is kept, and the command of its attempt."""
    is_kept = bool(connection.execute("SELECT 1 FROM blobs WHERE hash = ?", (row["pack"],)).fetchall())
    return {**row, "pack": row["pack"] and is_kept, "attempt_key": row["attempt_key"].rpartition("-")[0]}


def _message_names(connection: apsw.Connection) -> dict[Any, tuple[str, str]]:
    """Delivery → what can be told of it in every run, and its command."""
    try:
        rows = connection.execute(
            "SELECT d.id, m.message_id || ' to ' || d.receiver, m.plan_id || '/' || coalesce(m.command_id, '')"
            " FROM deliveries AS d JOIN messages AS m ON m.id = d.message"
        ).fetchall()
    except apsw.SQLError:
        return {}
    return {row[0]: (str(row[1]), str(row[2])) for row in rows}


def _row(table: str, row: dict[str, Any], names: dict[Any, tuple[str, str]]) -> str:
    told = {}
    for column, value in row.items():
        if column == "delivery" and value is not None:
            told[column] = names[value][0]
        elif table == "deliveries" and column == "id":
            told["what"] = names[value][0]
        elif (table, column) in _TRIED:
            continue  # a claim of a dead worker runs out, and is one more
        elif column == "shown" and "version" in row:
            told[column] = value == row["version"]
        elif table == "evidence" and column == "result":
            said = json.loads(value)
            told[column] = json.dumps({key: each for key, each in said.items() if key not in _SEEN})
        elif _told(table, column, value):
            told[column] = value
    return ", ".join(f"{key}={_text(value)}" for key, value in told.items())


def _told(table: str, column: str, value: Any) -> bool:
    """Whether a column is the same in every run. Who holds a lease is not, but in the end nobody does."""
    if (column == "seq" and table in {"messages", "inputs"}) or column in {"lease", "owner", "token"}:
        return True
    return not (column in _RANDOM or (table, column) in _NUMBERS or (column in _IDS and isinstance(value, int)))


def _text(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    if len(value) <= _WHOLE:
        return value.decode("utf-8", "backslashreplace")
    return f"{len(value)} bytes {hashlib.sha256(value).hexdigest()}"


def _read_facts(board: str, connection: apsw.Connection, root: str, found: Snapshot) -> None:
    facts: list[str] = found.setdefault(f"{board} facts", [])
    for kind, subject, body in connection.execute("SELECT kind, subject, body FROM ledger"):
        text = bytes(body).decode()
        told = json.loads(text)
        # A line of the journal stands in the fact of whatever wrote it: in which one hangs on when a process died.
        lines = [told] if kind == "delivery" else told.pop("lines", [])
        facts += [calm(f"line {subject} {json.dumps(line, ensure_ascii=False)}", root) for line in lines]
        if kind in {"delivery", "commands.queued"}:
            continue
        if kind in LEASES:
            command = _command_of(connection, subject, told)
            named = f"again {command}" if kind == "turn.resumed" else command
            found.setdefault(f"leases/{kind}", []).append(named)
        elif kind.startswith("turn."):
            varies = {"epoch", "attempt", "usage", "before"}
            told = {key: value for key, value in told.items() if key not in varies}
            for check in told.get("checks", ()):
                for varying in ("seconds", *_SEEN):
                    check.pop(varying, None)
            facts.append(calm(f"{kind} {subject} {json.dumps(told, ensure_ascii=False)}", root))
        elif "made_in" in told:  # the number of a fact, which is a higher one when an attempt died
            del told["made_in"]
            facts.append(calm(f"{kind} {subject} {json.dumps(told, ensure_ascii=False)}", root))
        elif kind != "head.sealed":  # how often a head was copied is a matter of time
            facts.append(calm(f"{kind} {subject} {text}", root))
    facts.sort()


def _command_of(connection: apsw.Connection, subject: str, told: Mapping[str, Any]) -> str:
    """The command that a fact is about: the fact or its subject names the message."""
    plan_id, message_id = (
        (subject.split("/")[1], told["message_id"]) if "message_id" in told else subject.split("/")[1:3]
    )
    rows = connection.execute(
        "SELECT command_id FROM messages WHERE plan_id = ? AND message_id = ?", (plan_id, message_id)
    ).fetchall()
    return f"{plan_id}/{rows[0][0]}"


def _log(root: Path) -> list[str]:
    path = root / LOG
    return sorted(path.read_text(encoding="utf-8").splitlines()) if path.exists() else []


def _files(root: Path) -> Iterator[str]:
    for top in ("agents", "system_runtime", "data/blobs"):
        for folder, _, names in os.walk(root / top):
            for name in names:
                path = Path(folder) / name
                short = calm(str(path.relative_to(root)), str(root))
                if (
                    short.endswith(("/.agenttalk-*.tmp", "/.draft-*.tmp", "/deliveries.jsonl"))
                    or "/.agenttalk/" in short
                ):
                    continue
                data = path.read_bytes()
                text = data.decode("utf-8", "backslashreplace")
                told = hashlib.sha256(data).hexdigest() if len(data) > _WHOLE else calm(text, str(root))
                yield f"{short}: {told}"


def _journal(root: Path) -> Iterator[str]:
    for path in sorted((root / "system_runtime" / "plans").glob("*/deliveries.jsonl")):
        lines = path.read_bytes().split(b"\n")
        if lines.pop() != b"":
            yield f"{path.parent.name}: the last line is torn"
        for line in lines:
            try:
                told = json.loads(line)
            except ValueError:
                yield f"{path.parent.name}: {line!r} is no line"
                continue
            said = f"{told['plan_id']}: {told['status']} {told['message_id']} {told.get('to_agent_id')}"
            yield calm(said, str(root))
