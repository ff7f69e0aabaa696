"""Auditing the databases of a root from outside: read-only, whether or not an engine runs; files also on a copy.

With `url` the chains are the schemas of a PostgreSQL database, else SQLite files under the root.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.store import ledger, queries
from agenttalk.adapters.store.dialect import DatabaseConnection, Dialect, ErrorTranslator
from agenttalk.adapters.store.ledger import START, ChainBreak, ChainHead, ChainVerdict
from agenttalk.adapters.store.root import HEAD_SEALED, SYSTEM, list_databases, open_postgres
from agenttalk.adapters.store.sqlite import Sqlite
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, JsonError, UsageError
from agenttalk.ports.statements.core import COUNT_FACTS, SEALED_FACTS, UNSEALED_FACTS, LedgerEntry
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import R, Value

PAGE: Final = 2_000
Witnesses = dict[str, dict[int, bytes]]
"""Chain → place → hash, as an anchor or the system's chain has it."""


@dataclass(frozen=True, slots=True)
class LedgerReader:
    """Runs statements on a connection that only reads."""

    connection: DatabaseConnection
    texts: Mapping[str, str]

    def read(self, query: Statement[R], **params: Value) -> list[R]:
        """Run one query."""
        return list(map(query.make_row, self.connection.execute(self.texts[query.name], params)))


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What came out for one database."""

    chain: str
    verdict: ChainVerdict


def verify(root: Path, *anchors: Mapping[str, ChainHead] | None, url: str = "") -> list[ChainReport]:
    """Check every chain of a root against itself, against its copies in the system's chain, and against anchors."""
    witnesses: Witnesses = {}
    for chain, head in ((chain, head) for anchor in anchors for chain, head in (anchor or {}).items()):
        if head.link:
            # Two that disagree about a place cannot both be right: then no hash is.
            known = witnesses.setdefault(chain, {}).setdefault(head.link, head.hash)
            witnesses[chain][head.link] = head.hash if known == head.hash else b""
    found = _required(root, url)
    reports = [_report(SYSTEM, found.get(SYSTEM), witnesses, collect=True)]
    others = sorted((found.keys() | witnesses.keys()) - {SYSTEM})
    return reports + [_report(chain, found.get(chain), witnesses) for chain in others]


def read_entries(root: Path, *, url: str = "") -> Iterator[tuple[str, LedgerEntry]]:
    """Read every entry of every chain: the sealed ones in their order, then the others."""
    for chain, dialect in _required(root, url).items():
        with _opened(dialect) as reader:
            yield from ((chain, entry) for entry in _sealed(reader))
            yield from ((chain, entry) for entry in _unsealed(reader))


def find_entries(root: Path, text: str, *, url: str = "") -> Iterator[tuple[str, LedgerEntry]]:
    """Find the entries with an id as their subject or in their body, or of a command, the id of its message.

    `PLAN/TASK` and `PLAN/COMMAND` select the plan's entries about it. `<lease>:<checkpoint>` selects the entries of
    that decision, or else those of the lease, because a decision that allowed a turn has no entry of its own.
    """
    exact = [entry for _, entry in read_entries(root, url=url) if _names(entry, text)]
    messages = {each for entry in exact for each in _messages(entry, text)}
    if exact:
        yield from (
            each for each in read_entries(root, url=url) if any(_names(each[1], name) for name in (text, *messages))
        )
        return
    plan_id, _, name = text.rpartition("/")
    lease, _, checkpoint = text.rpartition(":")
    if plan_id and name:
        yield from (each for each in find_entries(root, name, url=url) if _names(each[1], plan_id))
    elif lease.startswith("lease_") and checkpoint:
        yield from (each for each in read_entries(root, url=url) if _names(each[1], lease))


def _names(entry: LedgerEntry, text: str) -> bool:
    spelled = wire.write(text)
    return text in {entry.subject, *entry.subject.split("/")} or spelled in entry.body


def _messages(entry: LedgerEntry, command_id: str) -> Iterator[str]:
    """Messages that brought a command, as far as an entry says it."""
    waiting: list[Any] = [wire.read(entry.body, limit=wire.DOCUMENT_LIMIT)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
            if each.get("command_id") == command_id and isinstance(each.get("message_id"), str):
                yield each["message_id"]
        elif isinstance(each, list):
            waiting += each


def write_anchor(reports: list[ChainReport]) -> bytes:
    """Write the heads of all chains as a document. Keep it where writers of the root cannot write."""
    heads = {r.chain: {"link": r.verdict.head.link, "hash": _hash(r.verdict.head.hash)} for r in reports}
    return wire.write({"schema_version": "1.0", "heads": heads}) + b"\n"


def read_anchor(data: bytes) -> dict[str, ChainHead]:
    """Read the heads of an anchor. Raises UsageError for anything else."""
    try:
        document: Any = wire.read(data)
        heads = {chain: _head(head) for chain, head in document["heads"].items()}
    except (JsonError, KeyError, TypeError, ValueError, AttributeError) as error:
        hint = "give a file that `agenttalk audit anchor --to FILE` wrote"
        raise UsageError(Code.FIELD_VALUE, f"this is not an anchor: {error}", hint=hint) from error
    if not heads:
        raise UsageError(Code.FIELD_VALUE, "this anchor names no chain", hint="write a new one")
    return heads


def to_json_line(chain: str, entry: LedgerEntry) -> bytes:
    """Write an entry as one line of JSON."""
    return wire.write(
        {
            "chain": chain,
            "seq": entry.seq,
            "link": entry.link,
            "at": entry.at,
            "board": entry.board,
            "kind": entry.kind,
            "subject": entry.subject,
            "body": wire.read(entry.body, limit=wire.DOCUMENT_LIMIT),
            "prev": _hash(entry.prev),
            "hash": _hash(entry.hash),
        }
    )


def to_json(report: ChainReport) -> dict[str, Any]:
    """Return the result as JSON."""
    verdict = report.verdict
    broken = verdict.broken
    return {
        "chain": report.chain,
        "intact": verdict.intact,
        "entries": verdict.head.link,
        "head": f"sha256:{verdict.head.hash.hex()}",
        "broken": {"seq": broken.seq, "link": broken.link, "why": broken.why} if broken else None,
        "unsealed": list(verdict.unsealed),
    }


def _required(root: Path, url: str) -> Mapping[str, Dialect]:
    found = _schemas(url) if url else _files(root)
    if not found:
        hint = "give the folder that holds data/system.db, or a copy of it"
        what = "the PostgreSQL database" if url else str(root)
        raise UsageError(Code.FILE_UNREADABLE, f"{what} holds no ledger", hint="check store.url" if url else hint)
    return found


def _files(root: Path) -> Mapping[str, Dialect]:
    return {chain: Sqlite(path, offline=True) for chain, path in list_databases(root).items()}


def _schemas(url: str) -> Mapping[str, Dialect]:
    schemas = {name: open_postgres(url, name) for name in (SYSTEM, "mail", "toolchain", "projects")}
    return {name: schema for name, schema in schemas.items() if schema.has_ledger()}


def _report(chain: str, dialect: Dialect | None, witnesses: Witnesses, *, collect: bool = False) -> ChainReport:
    known = witnesses.get(chain, {})
    if dialect is None:
        why = (
            "missing: its database is gone, though it was witnessed" if known else "missing: there is no such database"
        )
        return ChainReport(chain, ChainVerdict(START, ChainBreak(None, 1, why), ()))
    try:
        with _opened(dialect) as reader:
            rows = _sealed(reader)
            verdict = ledger.verify_chain(_collected(rows, witnesses) if collect else rows, (), known)
            unsealed = tuple(entry.seq for entry in _unsealed(reader))
            broken = verdict.broken or _stray(reader, verdict.head.link + len(unsealed))
    except (AgentTalkError, TypeError) as error:
        return ChainReport(chain, ChainVerdict(START, ChainBreak(None, 1, f"not readable: {error}"), ()))
    return ChainReport(chain, ChainVerdict(verdict.head, broken, unsealed))


def _stray(reader: LedgerReader, seen: int) -> ChainBreak | None:
    """Find entries that are neither in the chain nor waiting for it: no engine wrote them."""
    [count] = reader.read(COUNT_FACTS)
    if count.facts == seen:
        return None
    return ChainBreak(
        None, seen + 1, f"foreign: the ledger has {count.facts} entries, but only {seen} that were written as such"
    )


def _collected(rows: Iterator[LedgerEntry], witnesses: Witnesses) -> Iterator[LedgerEntry]:
    """Passes entries on, and notes each copy of another chain's head. An anchor, known before, is stronger."""
    for entry in rows:
        if entry.kind == HEAD_SEALED:
            try:
                head = _head(wire.read(entry.body))
            except (JsonError, KeyError, TypeError, ValueError):
                head = START  # such a body does not have its hash either; verify says so
            if head.link:
                witnesses.setdefault(entry.subject, {}).setdefault(head.link, head.hash)
        yield entry


@contextmanager
def _opened(dialect: Dialect) -> Iterator[LedgerReader]:
    statements = queries.load_statements(dialect.name)
    connection = dialect.connect(readonly=True)
    try:
        with ErrorTranslator(dialect):
            connection.begin_view()
            yield LedgerReader(connection, statements)
    finally:
        connection.close()


def _sealed(reader: LedgerReader) -> Iterator[LedgerEntry]:
    after = 0
    while rows := reader.read(SEALED_FACTS, after=after, limit=PAGE):
        yield from rows
        after = rows[-1].link or 0


def _unsealed(reader: LedgerReader) -> Iterator[LedgerEntry]:
    after = 0
    while rows := reader.read(UNSEALED_FACTS, after=after, limit=PAGE):
        yield from rows
        after = rows[-1].seq


def _head(value: Any) -> ChainHead:
    text = value["hash"]
    if not text.startswith("sha256:") or len(text) != 71 or not isinstance(value["link"], int):
        raise ValueError("a head is a link and a hash")
    return ChainHead(value["link"], bytes.fromhex(text[7:]))


def _hash(digest: bytes | None) -> str | None:
    return f"sha256:{digest.hex()}" if digest is not None else None
