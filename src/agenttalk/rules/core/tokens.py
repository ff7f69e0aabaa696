"""The token of an attempt, which an agent sends with its reports. It is valid for one task and one epoch."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import JsonError

_PREFIX: Final = "agt_"
_LONGEST: Final = 2048
_ID_LENGTH: Final = 12


class TokenSubject(NamedTuple):
    """The attempt that a token names. The names count only if the store knows the token's hash."""

    board: str
    plan_id: str
    task_id: str
    epoch: int

    @property
    def task(self) -> tuple[str, str, str]:
        """The task of the attempt: its board, its plan and its name."""
        return self.board, self.plan_id, self.task_id


def attempt_token(board: str, plan_id: str, task_id: str, epoch: int, secret: str) -> str:
    """Make the token of an attempt: `agt_<subject>.<secret>`."""
    # Ids contain no character that JSON escapes.
    claims = wire.encode(f'{{"board":"{board}","epoch":{epoch},"plan_id":"{plan_id}","task_id":"{task_id}"}}')
    return f"{_PREFIX}{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{secret}"


def token_hash(token: str) -> str:
    """Hash a token for the store: the hex digits of its sha256."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_id(token: str) -> str:
    """Return the beginning of a token's hash, which identifies it for people."""
    return token_hash(token)[:_ID_LENGTH]


def read_token(text: str) -> TokenSubject | None:
    """Read the subject of a token. None if the text is not the token of an attempt."""
    body, dot, secret = text.removeprefix(_PREFIX).partition(".")
    if not text.startswith(_PREFIX) or not dot or not secret or len(text) > _LONGEST or not text.isascii():
        return None
    try:
        claims = wire.read(base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, JsonError):
        return None
    if not isinstance(claims, dict) or claims.keys() != {"board", "plan_id", "task_id", "epoch"}:
        return None
    epoch = claims.pop("epoch")
    if type(epoch) is not int or not all(isinstance(name, str) and is_id(name) for name in claims.values()):
        return None
    return TokenSubject(claims["board"], claims["plan_id"], claims["task_id"], epoch)
