"""Tokens: those of roles and agents in the system's store, and those of attempts with their tasks.

Only hashes are stored. A token of an attempt is valid while its lease lives and its epoch is the newest. The token of a
remote agent lets it take the attempts it is offered; for the one it has taken, it counts as its token.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, TypedDict, get_args

from agenttalk.contracts.errors import Code, ConflictError, UsageError
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.statements.agents import HANDED_IN
from agenttalk.ports.statements.core import (
    ADD_AGENT_TOKEN,
    ADD_TOKEN,
    AGENT_TOKEN,
    AGENT_TOKENS,
    ATTEMPT_OF,
    FORGET_TOKEN,
    REVOKE_AGENT_TOKEN,
    REVOKE_TOKEN,
    TOKEN,
    TOKENS,
    AgentTokenRow,
    TokenRow,
)
from agenttalk.ports.statements.fleet import INVITATION, WORKER
from agenttalk.ports.statements.operation import DROP_SESSIONS
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core.tokens import TokenSubject, read_token, token_hash
from agenttalk.rules.core.worker_tokens import INVITATION_TOKEN, WORKER_TOKEN, read_worker_token

Role = Literal["operator", "viewer", "worker", "agent", "remote", "fleet", "invited"]
"""`agent` is one attempt, `remote` an agent that works elsewhere, `fleet` a worker of the fleet, `invited` one that has
still to enrol."""
PersonRole = Literal["operator", "viewer", "worker"]
"""Roles of people and of their programs; a worker is a pipeline that reports."""
PERSON_ROLES: Final[tuple[PersonRole, ...]] = get_args(PersonRole)
TokenRole: TypeAlias = Literal["agent"] | PersonRole
_EVER: Final = "9999"

ENGINE_TOKEN_LABEL: Final = "operator"  # noqa: S105 - the name of a token, not a token
"""The reserved name of the token that an engine makes for its own root."""
ELSEWHERE: Final = "elsewhere"
"""The phase of an attempt that an agent elsewhere has taken."""
_SHOWN: Final = 12
"""Digits of a hash that identify a token."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The holder of a token."""

    role: Role
    name: str
    """An agent's id; the label of any other token."""
    attempt: TokenSubject | None = None
    """The task that an agent's token is valid for; None for all others."""
    token: str | None = None
    """The hash of an agent's token: a write with it is refused once the attempt is over."""


async def identify(deps: Deps, token: str) -> Caller | None:
    """Return the holder of a token. None when it is unknown, revoked, or its attempt is over."""
    attempt = read_token(token)
    if attempt is not None:
        return await _agent(deps, attempt, token_hash(token))
    system = await deps.stores.board(boards.SYSTEM)
    if token.startswith(WORKER_TOKEN):
        return await _worker(deps, system, token)
    if token.startswith(INVITATION_TOKEN):
        return Caller("invited", "") if await system.read(INVITATION, hash=_hash(token), at=deps.stamp()) else None
    rows = await system.read(TOKEN, hash=_hash(token))
    if rows:
        return Caller(rows[0].role, rows[0].label)
    agents = await system.read(AGENT_TOKEN, hash=_hash(token))
    return Caller("remote", agents[0].agent_id) if agents else None


async def identify_as_attempt(deps: Deps, caller: Caller, attempt: TokenSubject) -> Caller | None:
    """Return the attempt that a remote agent has taken; None when it has none, or no longer has one."""
    found = await _attempt(deps, attempt)
    if found is None or found.phase != ELSEWHERE or found.agent_id != caller.name:
        return None
    return Caller("agent", caller.name, attempt, found.token)


async def identify_as_worker_attempt(deps: Deps, worker: str, attempt: TokenSubject) -> Caller | None:
    """Return the attempt that a worker has claimed; None when it has none, or no longer has one."""
    found = await _attempt(deps, attempt)
    if found is None or found.phase != ELSEWHERE:
        return None
    board = await deps.stores.board(attempt.board)
    rows = await board.read(HANDED_IN, plan_id=attempt.plan_id, task_id=attempt.task_id, epoch=attempt.epoch)
    claims = [row.path for row in rows if row.kind == "claim"]
    return Caller("agent", found.agent_id, attempt, found.token) if claims == [worker] else None


async def _worker(deps: Deps, system: Store, token: str) -> Caller | None:
    """Identify a worker by a token that it signed."""
    found = read_worker_token(token)
    if found is None or not found.is_current(deps.now()):
        return None
    rows = await system.read(WORKER, id=found.worker)
    if not rows or rows[0].state == "removed":
        return None
    is_own = deps.is_signed(rows[0].public_key, found.signed, found.signature)
    return Caller("fleet", found.worker) if is_own else None


class Token(TypedDict):
    """A token that was made, without the token itself, which is not stored."""

    id: str
    """The beginning of its hash, which identifies it."""
    role: TokenRole
    name: str
    """The agent that it is for, or the label that people gave it."""
    at: str
    revoked_at: str | None


async def admit_agent(deps: Deps, token: str, agent_id: str, *, by: str = ENGINE_TOKEN_LABEL) -> Token:
    """Accept the token of a remote agent from now on. Repeating it changes nothing.

    Raises ConflictError when it was revoked, or has another holder.
    """
    system = await deps.stores.board(boards.SYSTEM)
    wanted = _make_token(_hash(token), "agent", agent_id, deps.stamp())

    def work(tx: Tx) -> Token:
        if (known := _known(tx, token, wanted)) is not None:
            return known
        tx.run(ADD_AGENT_TOKEN, hash=_hash(token), agent_id=agent_id, at=wanted["at"])
        tx.record("token.made", f"agents/{agent_id}", {"token": wanted["id"], "by": by})
        return wanted

    return await system.transact(work)


async def admit_person(deps: Deps, token: str, role: PersonRole, name: str, *, by: str = ENGINE_TOKEN_LABEL) -> Token:
    """Accept the token of a person, or of their program, from now on; repeating it changes nothing.

    Raises ConflictError when it was revoked, or has another holder.
    """
    system = await deps.stores.board(boards.SYSTEM)
    wanted = _make_token(_hash(token), role, name, deps.stamp())

    def work(tx: Tx) -> Token:
        if (known := _known(tx, token, wanted)) is not None:
            return known
        tx.run(ADD_TOKEN, hash=_hash(token), role=role, label=name, at=wanted["at"])
        tx.record("token.made", f"people/{name}", {"token": wanted["id"], "role": role, "by": by})
        return wanted

    return await system.transact(work)


def _make_token(digest: str, role: TokenRole, name: str, at: str, revoked_at: str | None = None) -> Token:
    return {"id": digest[:_SHOWN], "role": role, "name": name, "at": at, "revoked_at": revoked_at}


def _agent_token(row: AgentTokenRow) -> Token:
    return _make_token(row.hash, "agent", row.agent_id, row.at, row.revoked_at)


def _person_token(row: TokenRow) -> Token:
    return _make_token(row.hash, row.role, row.label, row.at, row.revoked_at)


def _known(tx: Tx, token: str, wanted: Token) -> Token | None:
    """Return the token if it is known as requested. Raises ConflictError when it is known as something else."""
    digest = _hash(token)
    agents = [_agent_token(row) for row in tx.run(AGENT_TOKENS) if row.hash == digest]
    people = [_person_token(row) for row in tx.run(TOKENS) if row.hash == digest]
    for known in (*agents, *people):
        if known["revoked_at"] is None and (known["role"], known["name"]) == (wanted["role"], wanted["name"]):
            return known
        raise ConflictError(
            Code.STORE_CONFLICT,
            "this token was revoked" if known["revoked_at"] else "this token has another holder",
            hint="make a new one: a token is good for one holder, until it is revoked",
        )
    return None


async def list_tokens(deps: Deps) -> list[Token]:
    """List the tokens of remote agents and of people, revoked ones too, but for the engine's own."""
    system = await deps.stores.board(boards.SYSTEM)
    agents = [_agent_token(row) for row in await system.read(AGENT_TOKENS)]
    people = [_person_token(row) for row in await system.read(TOKENS) if row.label != ENGINE_TOKEN_LABEL]
    return sorted([*agents, *people], key=lambda each: (each["at"], each["id"]))


async def revoke(deps: Deps, token_id: str, *, by: str = ENGINE_TOKEN_LABEL) -> Token:
    """Revoke a token. Raises UsageError when no token has that id.

    With the token of a person all sessions of the pages end: its holder may have opened some, under any name.
    """
    system = await deps.stores.board(boards.SYSTEM)
    at = deps.stamp()

    def work(tx: Tx) -> Token:
        for row in tx.run(AGENT_TOKENS):
            if row.hash[:_SHOWN] == token_id and row.revoked_at is None:
                tx.run(REVOKE_AGENT_TOKEN, hash=row.hash, at=at)
                tx.record("token.revoked", f"agents/{row.agent_id}", {"token": token_id, "by": by})
                return _make_token(row.hash, "agent", row.agent_id, row.at, at)
        for own in tx.run(TOKENS):
            if own.hash[:_SHOWN] == token_id and own.revoked_at is None and own.label != ENGINE_TOKEN_LABEL:
                tx.run(REVOKE_TOKEN, hash=own.hash, at=at)
                tx.run(DROP_SESSIONS, at=_EVER)
                tx.record("token.revoked", f"people/{own.label}", {"token": token_id, "role": own.role, "by": by})
                return _make_token(own.hash, own.role, own.label, own.at, at)
        hint = "'agenttalk token list' lists them"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no token {token_id[:80]!r} that is good", hint=hint)

    return await system.transact(work)


async def admit(deps: Deps, token: str, role: PersonRole, label: str) -> None:
    """Accept a token from now on. A revoked one stays revoked."""
    system = await deps.stores.board(boards.SYSTEM)
    if not await system.read(TOKEN, hash=_hash(token)):
        at = deps.stamp()
        await system.transact(lambda tx: tx.run(ADD_TOKEN, hash=_hash(token), role=role, label=label, at=at))


async def replace_operator_token(deps: Deps, token: str) -> None:
    """Make a token that of the root's own operator, in place of all earlier ones: the root was moved here."""
    system = await deps.stores.board(boards.SYSTEM)
    at = deps.stamp()

    def work(tx: Tx) -> None:
        for row in tx.run(TOKENS):
            if row.label == ENGINE_TOKEN_LABEL:
                tx.run(FORGET_TOKEN, hash=row.hash)
        tx.run(ADD_TOKEN, hash=_hash(token), role="operator", label=ENGINE_TOKEN_LABEL, at=at)

    await system.transact(work)


async def is_operator_token(deps: Deps, token: str) -> bool:
    """Whether a token is that of the root's own operator. If none is registered yet, this one is registered."""
    system = await deps.stores.board(boards.SYSTEM)
    if not any(row.label == ENGINE_TOKEN_LABEL and row.revoked_at is None for row in await system.read(TOKENS)):
        await admit(deps, token, "operator", ENGINE_TOKEN_LABEL)
    caller = await identify(deps, token)
    return caller is not None and caller.role == "operator"


def _hash(token: str) -> str:
    # A caller may send anything; bytes that are not text have no hash that we know.
    return token_hash(token.encode("utf-8", "backslashreplace").decode())


class _ActiveAttempt(NamedTuple):
    agent_id: str
    token: str
    phase: str | None


async def _agent(deps: Deps, attempt: TokenSubject, digest: str) -> Caller | None:
    found = await _attempt(deps, attempt)
    if found is None or not hmac.compare_digest(found.token, digest):
        return None
    return Caller("agent", found.agent_id, attempt, digest)


async def _attempt(deps: Deps, attempt: TokenSubject) -> _ActiveAttempt | None:
    """Find a running attempt; None when there is no such attempt, or it is over."""
    # A token can name any board. Only an existing one is read: asking the store for another would create it.
    known = boards.VIRTUAL | {each.name for each in await boards.list_boards(deps)}
    if attempt.board not in known or not deps.stores.has_board(attempt.board):
        return None
    board = await deps.stores.board(attempt.board)
    rows = await board.read(ATTEMPT_OF, plan_id=attempt.plan_id, task_id=attempt.task_id)
    if not rows:
        return None
    row = rows[0]
    if row.lease is None or row.epoch != attempt.epoch:
        return None
    return _ActiveAttempt(row.receiver or row.agent_id, row.token or "", row.phase)
