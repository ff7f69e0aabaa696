"""Sessions of browsers: links that open the pages once, and the sessions that follow.

A link is known to the engine that made it and dies with it. A session outlives a restart; only its hash is stored.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from agenttalk.contracts.core.base import format_instant
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.operation import ADD_SESSION, DROP_SESSIONS, END_SESSION, SESSION_OF
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.tokens import token_hash

SessionRole = Literal["operator", "viewer"]
LINK: Final = timedelta(minutes=10)
"""So long a link opens the pages, once."""
FIRST_LINK: Final = timedelta(hours=12)
"""How long the link of a starting engine is valid: it may be read much later."""
SESSION: Final = timedelta(hours=12)
"""So long a browser stays logged in."""
MOST_LINKS: Final = 100
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class Session:
    """A browser that is logged in."""

    role: SessionRole
    name: str
    """In whose name things are done."""
    form_key: str
    """A secret in every form of this session, which no other page can know."""


@dataclass(slots=True)
class _Link:
    role: SessionRole
    name: str
    until: datetime


@dataclass(slots=True)
class Sessions:
    """The links and sessions of an engine."""

    deps: Deps
    _links: dict[str, _Link] = field(default_factory=dict)

    def make_link(self, role: SessionRole, name: str, *, lasts: timedelta = LINK) -> str:
        """Make a key that opens the pages once. When there are too many, the oldest is forgotten."""
        now = self.deps.now()
        self._links = {each: link for each, link in self._links.items() if link.until > now}
        while len(self._links) >= MOST_LINKS:
            self._links.pop(next(iter(self._links)))
        key = secrets.token_urlsafe(32)
        self._links[token_hash(key)] = _Link(role, name, now + lasts)
        return key

    def forget_links(self) -> None:
        """Make every link invalid."""
        self._links = {}

    async def open(self, key: str) -> str | None:
        """Begin a session; what the browser keeps of it. None when the key opens nothing, or has opened before."""
        link = self._links.pop(_hash(key), None)
        now = self.deps.now()
        if link is None or link.until <= now:
            return None
        secret = secrets.token_urlsafe(32)
        row = {"hash": _hash(secret), "role": link.role, "name": link.name, "at": format_instant(now)}

        def work(tx: Tx) -> None:
            tx.run(DROP_SESSIONS, at=row["at"])
            tx.run(ADD_SESSION, **row, expires_at=format_instant(now + SESSION))
            tx.record("session.begun", f"sessions/{link.name}", {"role": link.role, "session": row["hash"][:12]})

        await (await self.deps.stores.board(SYSTEM)).transact(work)
        return secret

    async def find(self, secret: str) -> Session | None:
        """Find the session of a browser; None when it is unknown, has ended or expired."""
        if not secret or len(secret) > _LONGEST:
            return None
        system = await self.deps.stores.board(SYSTEM)
        rows = await system.read(SESSION_OF, hash=_hash(secret), at=self.deps.stamp())
        return Session(rows[0].role, rows[0].name, _form_key(secret)) if rows else None

    async def end(self, secret: str) -> None:
        """Forget a session."""

        def work(tx: Tx) -> None:
            for role, name in tx.run(END_SESSION, hash=_hash(secret)):
                tx.record("session.ended", f"sessions/{name}", {"role": role, "session": _hash(secret)[:12]})

        await (await self.deps.stores.board(SYSTEM)).transact(work)


def _hash(secret: str) -> str:
    return token_hash(secret.encode("utf-8", "backslashreplace").decode())


def _form_key(secret: str) -> str:
    """Derive the form key from the secret, which no page and no other site can read."""
    return token_hash(f"form:{secret}")
