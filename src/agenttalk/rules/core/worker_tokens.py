"""Tokens that workers make themselves: the worker and a time, signed with its key."""

from __future__ import annotations

import base64
import binascii
import hashlib
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant, is_id, parse_instant
from agenttalk.contracts.errors import JsonError

WORKER_TOKEN: Final = "wrk_"  # noqa: S105 - how such tokens begin
INVITATION_TOKEN: Final = "inv_"  # noqa: S105 - how such tokens begin
LIFETIME: Final = timedelta(hours=1)
"""How long a worker's token is good. One that is good for more than twice as long is refused."""
_LONGEST: Final = 1024
_PURPOSE: Final = b"agenttalk worker token\n"
"""Stands before what is signed, so that a signature means nothing else."""


class WorkerToken(NamedTuple):
    """A token as it came. It counts once its signature is checked."""

    worker: str
    until: datetime
    signed: bytes
    signature: bytes

    def is_current(self, now: datetime) -> bool:
        """Whether its time has not passed and is not too far away."""
        return now < self.until <= now + 2 * LIFETIME


def worker_id(public_key: str) -> str:
    """Return the id of the worker that has a key."""
    return f"w{hashlib.sha256(public_key.encode()).hexdigest()[:15]}"


def make_claims(worker: str, now: datetime) -> tuple[str, bytes]:
    """Return the first part of a token, and what its worker signs."""
    claims = wire.write({"until": format_instant(now + LIFETIME), "worker": worker})
    part = base64.urlsafe_b64encode(claims).decode().rstrip("=")
    return part, _PURPOSE + part.encode()


def make_worker_token(part: str, signature: bytes) -> str:
    """Return a token of its first part and the signature."""
    return f"{WORKER_TOKEN}{part}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


def read_worker_token(text: str) -> WorkerToken | None:
    """Read a token. None if the text is not the token of a worker."""
    part, dot, signature = text.removeprefix(WORKER_TOKEN).partition(".")
    if not text.startswith(WORKER_TOKEN) or not dot or len(text) > _LONGEST or not text.isascii():
        return None
    try:
        claims = wire.read(_decode(part))
        if not isinstance(claims, dict) or claims.keys() != {"until", "worker"}:
            return None
        worker, until = claims["worker"], claims["until"]
        if not isinstance(worker, str) or not is_id(worker) or not isinstance(until, str):
            return None
        return WorkerToken(worker, parse_instant(until), _PURPOSE + part.encode(), _decode(signature))
    except (binascii.Error, JsonError, ValueError):
        return None


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
