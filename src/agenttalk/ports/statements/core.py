"""What every concept uses: boards, tokens, keys, contents, effects, the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from agenttalk.ports.statements.keys import AgentIdRow, BodyRow, FoundRow, HashRow, IdRow, NewestRow, SeqRow, TaskIdRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.rules.core.task_states import Cause, Phase, State


class AttemptRow(NamedTuple):
    """The attempt that has a task."""

    agent_id: str
    epoch: int
    lease: str | None
    token: str | None
    receiver: str | None
    phase: Phase | None


class CommentRow(NamedTuple):
    """A comment on a task, or an output that was handed in."""

    id: int
    kind: Literal["comment", "output"]
    author: str
    type: str
    body: str
    claims: bytes | None
    epoch: int | None
    at: str


class ControlIdRow(NamedTuple):
    """The id of a control that was written."""

    id: str


class OpenCountsRow(NamedTuple):
    """How many questions and dead letters are open."""

    requests: int
    deadletters: int


class BoardRow(NamedTuple):
    """A board."""

    board: str


class TaskStatusRow(NamedTuple):
    """A task as views show it."""

    task_id: str
    agent_id: str
    state: State
    phase: Phase | None
    cause: Cause | None
    reason: str | None
    score: float | None
    fresh: int
    attempt: int
    retries: int
    reexecutions: int
    missing: bytes | None
    request_id: str | None
    updated_at: str
    leased_at: str | None
    waiting_since: str | None
    seconds: float
    tokens: int
    cost_usd: float
    tool_calls: int
    unproven: int
    unisolated: int
    reason_message: str | None
    unmet: int | None
    """How many dependencies are open; None where the engine does not run the plan."""
    epoch: int
    lease: str | None
    progress: bytes | None


class TokenRoleRow(NamedTuple):
    """Who has a token."""

    role: Literal["operator", "viewer", "worker"]
    label: str


class TokenRow(NamedTuple):
    """A token of a person or a program."""

    hash: str
    role: Literal["operator", "viewer", "worker"]
    label: str
    at: str
    revoked_at: str | None


class AgentTokenRow(NamedTuple):
    """A token of an agent."""

    hash: str
    agent_id: str
    at: str
    revoked_at: str | None


class ApiKeyRow(NamedTuple):
    """A write that came with a key, and its answer."""

    asked: str
    at: str
    status: int | None
    answer: bytes | None


class ContentRow(NamedTuple):
    """A content."""

    content: bytes


class EffectRow(NamedTuple):
    """An effect that is claimed."""

    id: int
    key: str
    body: bytes
    attempts: int


class NotBeforeRow(NamedTuple):
    """When something may be tried."""

    not_before: str


class LedgerEntry(NamedTuple):
    """An entry of a ledger."""

    seq: int
    """Its number, given when it was written."""
    link: int | None
    """Its place in the chain, from 1 without gaps; None while it is not sealed."""
    at: str
    """When its transaction ran, UTC."""
    board: str
    """The board."""
    kind: str
    """The kind of the fact."""
    subject: str
    """What the fact is about."""
    body: bytes
    """The fact, as canonical JSON."""
    prev: bytes | None
    """The hash of the entry before."""
    hash: bytes | None
    """Its own hash."""


class ChainHeadRow(NamedTuple):
    """The newest entry of a chain."""

    link: int
    hash: bytes
    seq: int


class FactCountRow(NamedTuple):
    """How many facts a ledger has."""

    facts: int


class FactBodyRow(NamedTuple):
    """A fact of a known kind."""

    seq: int
    at: str
    body: bytes


class FactOfSubjectRow(NamedTuple):
    """A fact about a known subject."""

    seq: int
    at: str
    kind: str
    body: bytes


ATTEMPT_OF: Final = Statement("attempt_of", AttemptRow)
HOLD_ATTEMPT: Final = Statement("hold_attempt", TaskIdRow)
ADD_COMMENT: Final = Statement("add_comment", IdRow)
COMMENTS_OF: Final = Statement("comments_of", CommentRow)
TAKE_KEY: Final = Statement("take_key", ControlIdRow)
ANSWER_KEY: Final = Statement("answer_key", NoRow)
COUNTED_OPEN: Final = Statement("counted_open", OpenCountsRow)
BOARD_OF: Final = Statement("board_of", BoardRow)
PLACE_PLAN: Final = Statement("place_plan", NoRow)
BOARDS_IN_USE: Final = Statement("boards_in_use", BoardRow)
TOKEN: Final = Statement("token", TokenRoleRow)
ADD_TOKEN: Final = Statement("add_token", HashRow)
TOKENS: Final = Statement("tokens", TokenRow)
REVOKE_TOKEN: Final = Statement("revoke_token", HashRow)
FORGET_TOKEN: Final = Statement("forget_token", HashRow)
AGENT_TOKEN: Final = Statement("agent_token", AgentIdRow)
ADD_AGENT_TOKEN: Final = Statement("add_agent_token", HashRow)
AGENT_TOKENS: Final = Statement("agent_tokens", AgentTokenRow)
REVOKE_AGENT_TOKEN: Final = Statement("revoke_agent_token", HashRow)
BEGIN_KEY: Final = Statement("begin_key", IdRow)
API_KEY: Final = Statement("api_key", ApiKeyRow)
END_KEY: Final = Statement("end_key", NoRow)
FORGET_KEY: Final = Statement("forget_key", NoRow)
DROP_OLD_KEYS: Final = Statement("drop_old_keys", NoRow)
DROP_MANY_KEYS: Final = Statement("drop_many_keys", NoRow)
PUT_BLOB: Final = Statement("put_blob", NoRow)
GET_BLOB: Final = Statement("get_blob", ContentRow)
HAS_BLOB: Final = Statement("has_blob", FoundRow)
QUEUE_EFFECT: Final = Statement("queue_effect", IdRow)
CLAIM_EFFECTS: Final = Statement("claim_effects", EffectRow)
FINISH_EFFECT: Final = Statement("finish_effect", IdRow)
RETRY_EFFECT: Final = Statement("retry_effect", IdRow)
NEXT_EFFECT_AT: Final = Statement("next_effect_at", NotBeforeRow)
APPEND_FACT: Final = Statement("append_fact", SeqRow)
APPEND_SEALED: Final = Statement("append_sealed", NoRow)
NEWEST_FACT: Final = Statement("newest_fact", NewestRow)
UNSEALED_FACTS: Final = Statement("unsealed_facts", LedgerEntry)
SEALED_FACTS: Final = Statement("sealed_facts", LedgerEntry)
SEAL_FACT: Final = Statement("seal_fact", NoRow)
LEDGER_HEAD: Final = Statement("ledger_head", ChainHeadRow)
COUNT_FACTS: Final = Statement("count_facts", FactCountRow)
LATEST_FACT: Final = Statement("latest_fact", FactBodyRow)
FACTS_OF: Final = Statement("facts_of", FactOfSubjectRow)
FACT: Final = Statement("fact", BodyRow)
TASK_STATUSES: Final = Statement("task_statuses", TaskStatusRow)
TASK_STATUS: Final = Statement("task_status", TaskStatusRow)
