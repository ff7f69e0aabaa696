"""The chain of facts: how an entry is hashed, sealed and verified. Pure; rows come in, a verdict comes out.

An entry's hash is `sha256(hash of the entry before ‖ canonical JSON of the entry)`, the first one following
32 zero bytes. So nothing in the past can change without changing every later hash. What a chain alone
cannot show is that its newest entries were cut off: that is seen by comparing it with witnesses, earlier
heads that were copied elsewhere (into the system's chain, and into anchor files).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from json.encoder import encode_basestring
from typing import Final, NamedTuple

from agenttalk.ports.statements.core import LedgerEntry

GENESIS: Final = bytes(32)
_text = encode_basestring


class ChainHead(NamedTuple):
    """The newest entry of a chain."""

    link: int
    hash: bytes


START: Final = ChainHead(0, GENESIS)


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first place where a chain does not hold."""

    seq: int | None
    """The entry, if there is one."""
    link: int
    """Its place in the chain."""
    why: str
    """What is wrong."""


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """What could be checked of a chain, and what came out."""

    head: ChainHead
    """The last entry that is proven."""
    broken: ChainBreak | None
    """The first one that is not."""
    unsealed: tuple[int, ...]
    """Entries (by `seq`) that are in no chain yet and were not checked."""

    @property
    def intact(self) -> bool:
        """Whether everything was checked and holds."""
        return self.broken is None and not self.unsealed


def canonical_bytes(entry: LedgerEntry, link: int) -> bytes:
    """Return the bytes that are hashed: the entry as canonical JSON, with sorted keys."""
    # Sorted keys make it canonical, and the body was stored as canonical JSON. The hash covers `link`, so an entry
    # cannot move to another place of the chain.
    return b'{"at":%b,"board":%b,"body":%b,"kind":%b,"link":%d,"seq":%d,"subject":%b}' % (
        _text(entry.at).encode(),
        _text(entry.board).encode(),
        entry.body,
        _text(entry.kind).encode(),
        link,
        entry.seq,
        _text(entry.subject).encode(),
    )


def hash_entry(prev: bytes, entry: LedgerEntry, link: int) -> bytes:
    """Compute the hash of an entry that follows `prev`."""
    return sha256(prev + canonical_bytes(entry, link)).digest()


def seal_entries(head: ChainHead, entries: Iterable[LedgerEntry]) -> Iterator[LedgerEntry]:
    """Give the entries their places and hashes, following `head`."""
    link, prev = head
    for entry in entries:
        link += 1
        digest = hash_entry(prev, entry, link)
        yield entry._replace(link=link, prev=prev, hash=digest)
        prev = digest


def verify_chain(
    entries: Iterable[LedgerEntry], unsealed: Iterable[int] = (), witnesses: Mapping[int, bytes] | None = None
) -> ChainVerdict:
    """Check a chain: entries by `link`, the numbers of the unsealed ones, and hashes known from elsewhere."""
    head, known = START, dict(witnesses or {})
    for entry in entries:
        broken = _fault(head, entry, known.pop(head.link + 1, None))
        if broken:
            return ChainVerdict(head, broken, tuple(unsealed))
        head = ChainHead(head.link + 1, entry.hash or b"")
    if known:  # the chain itself cannot show that its end is missing; only a hash that was kept elsewhere can
        why = f"cut off: the chain ends at {head.link}, but reached {max(known)} when it was witnessed"
        return ChainVerdict(head, ChainBreak(None, head.link + 1, why), tuple(unsealed))
    return ChainVerdict(head, None, tuple(unsealed))


def _fault(head: ChainHead, entry: LedgerEntry, witness: bytes | None) -> ChainBreak | None:
    expected = head.link + 1
    # Check the place before the hash: an entry at a wrong place has a wrong hash, too, and the place explains more.
    if entry.link is None or entry.link > expected:
        return ChainBreak(entry.seq, expected, f"missing: entry {expected} of the chain is gone; the next one is here")
    if entry.link < expected:
        return ChainBreak(entry.seq, expected, f"reordered: it says place {entry.link} where {expected} must follow")
    if entry.hash != hash_entry(entry.prev or b"", entry, expected):
        return ChainBreak(entry.seq, expected, "changed: its content does not have its hash")
    if entry.prev != head.hash:
        return ChainBreak(entry.seq, expected, "replaced or reordered: it does not follow the entry before it")
    if witness is not None and witness != entry.hash:
        return ChainBreak(entry.seq, expected, "rewritten: its hash was another when it was witnessed")
    return None
