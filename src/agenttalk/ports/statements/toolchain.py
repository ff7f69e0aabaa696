"""Tasks that forge events call for, deliveries of webhooks, and what goes out to forges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.ports.statements.keys import IdRow
from agenttalk.ports.statements.statement import NoRow, Statement

if TYPE_CHECKING:
    from agenttalk.contracts.forge import ReviewVerdict
    from agenttalk.contracts.toolchain import ActionType, Basis
    from agenttalk.rules.core.task_states import Cause, Phase, State


class WebhookRow(NamedTuple):
    """A webhook, and what became of it."""

    id: int
    source: str
    kind: str
    delivery: str
    event: str
    sha256: str
    received_at: str
    state: str
    outcome: str
    outcome_message: str | None


class WebhookCountsRow(NamedTuple):
    """How many webhooks wait, and the number of the newest."""

    waiting: int
    newest: int


class NewWebhookRow(NamedTuple):
    """A webhook that is to be processed."""

    id: int
    source: str
    kind: str
    headers: bytes
    body: bytes | None
    content: str | None
    received_at: str


class OutgoingRow(NamedTuple):
    """A post that may be sent now."""

    id: int
    key: str
    kind: str
    object: str
    repository: str
    number: int
    title: str
    body: str
    assignee: str
    task_id: str
    tries: int
    allowed: int
    since: str


class PostCountRow(NamedTuple):
    """How many posts were sent."""

    posts: int


class HeldPostRow(NamedTuple):
    """The question about a post that is held back."""

    request_id: str | None


class AnsweredPostRow(NamedTuple):
    """A post that waited for a person, and the answer."""

    id: int
    kind: str
    task_id: str
    response: bytes
    answered_by: str


class NextOutgoingRow(NamedTuple):
    """When the next post may be tried."""

    not_before: str | None


class OutgoingPageRow(NamedTuple):
    """A post of a page."""

    id: int
    kind: str
    source: str
    object: str
    repository: str
    number: int
    title: str
    assignee: str
    task_id: str
    state: str
    tries: int
    not_before: str
    made_at: str
    ended_at: str | None
    posted: str
    why: str
    request_id: str | None


class BreakerRow(NamedTuple):
    """Whether a known source answers."""

    failures: int
    opened_at: str | None
    not_before: str | None
    outage: str


class SourceBreakerRow(NamedTuple):
    """Whether a source answers."""

    source: str
    failures: int
    opened_at: str | None
    not_before: str | None
    outage: str


class ToolchainTaskRow(NamedTuple):
    """A task of the toolchain board."""

    task_id: str
    key: str
    action_type: str
    title: str
    description: str
    assignee: str
    assigned_by: str
    must_haves: bytes
    source: str
    object: str
    head_sha: str
    hop: int
    event_at: str
    made_at: str
    closed_at: str | None
    closed_why: str | None
    state: State
    phase: Phase | None
    cause: Cause | None
    reason: str | None
    reexecutions: int
    unmet: int | None
    fresh: int
    unproven: int
    unisolated: int


class KnownTaskRow(NamedTuple):
    """What is known of a task about a thing."""

    key: str
    action_type: ActionType
    assignee: str
    object: str
    head_sha: str
    basis: Basis
    hop: int
    event_at: str
    reviewer: str
    verdict: ReviewVerdict | None
    task_id: str
    state: State
    epoch: int
    closed_at: str | None


class TaskByKeyRow(NamedTuple):
    """A task of the toolchain board, found by its key."""

    task_id: str
    state: State
    epoch: int
    delivery: int | None
    closed_why: str | None


class ToolchainPageRow(NamedTuple):
    """A task of the toolchain board, of a page."""

    id: int
    task_id: str
    title: str
    description: str
    assignee: str
    assigned_by: str
    must_haves: bytes
    source: str
    object: str
    made_at: str
    closed_at: str | None
    closed_why: str | None
    state: State
    phase: Phase | None
    cause: Cause | None
    reason: str | None
    unmet: int | None
    fresh: int
    unproven: int
    unisolated: int


class SightingRow(NamedTuple):
    """What was seen of a thing at a forge."""

    object: str
    body: bytes


class HeldFailureRow(NamedTuple):
    """A failure of a pipeline that nothing is known of yet."""

    event: bytes


class TimesRow(NamedTuple):
    """How often a warning was given."""

    times: int


class WarningRow(NamedTuple):
    """A warning for the operator."""

    id: int
    code: str
    message: str
    hint: str
    times: int
    first_at: str
    last_at: str


class OverdueTaskRow(NamedTuple):
    """A task whose report is overdue."""

    task_id: str
    since: str
    state: State


class SinceRow(NamedTuple):
    """Since when something waits."""

    since: str


WEBHOOK_PAGE: Final = Statement("webhook_page", WebhookRow)
REPLAY_WEBHOOK: Final = Statement("replay_webhook", IdRow)
COUNTED_WEBHOOKS: Final = Statement("counted_webhooks", WebhookCountsRow)
ADD_WEBHOOK: Final = Statement("add_webhook", IdRow)
WEBHOOK_AGAIN: Final = Statement("webhook_again", IdRow)
WEBHOOK_BEFORE: Final = Statement("webhook_before", IdRow)
NEW_WEBHOOKS: Final = Statement("new_webhooks", NewWebhookRow)
END_WEBHOOK: Final = Statement("end_webhook", IdRow)
WEBHOOK: Final = Statement("webhook", WebhookRow)
ADD_OUTGOING: Final = Statement("add_outgoing", IdRow)
DUE_OUTGOING: Final = Statement("due_outgoing", OutgoingRow)
BEGIN_OUTGOING: Final = Statement("begin_outgoing", IdRow)
END_OUTGOING: Final = Statement("end_outgoing", IdRow)
RETRY_OUTGOING: Final = Statement("retry_outgoing", NoRow)
HOLD_OUTGOING: Final = Statement("hold_outgoing", IdRow)
RELEASE_OUTGOING: Final = Statement("release_outgoing", IdRow)
SENT_SINCE: Final = Statement("sent_since", PostCountRow)
HELD_OF: Final = Statement("held_of", HeldPostRow)
ANSWERED_OUTGOING: Final = Statement("answered_outgoing", AnsweredPostRow)
NEXT_OUTGOING_AT: Final = Statement("next_outgoing_at", NextOutgoingRow)
OUTGOING_PAGE: Final = Statement("outgoing_page", OutgoingPageRow)
BREAKER: Final = Statement("breaker", BreakerRow)
PUT_BREAKER: Final = Statement("put_breaker", NoRow)
BREAKERS: Final = Statement("breakers", SourceBreakerRow)
ADD_TOOLCHAIN_TASK: Final = Statement("add_toolchain_task", IdRow)
TOOLCHAIN_TASK: Final = Statement("toolchain_task", ToolchainTaskRow)
TOOLCHAIN_KNOWN: Final = Statement("toolchain_known", KnownTaskRow)
TOOLCHAIN_BY_KEY: Final = Statement("toolchain_by_key", TaskByKeyRow)
CLOSE_TOOLCHAIN_TASK: Final = Statement("close_toolchain_task", NoRow)
TOOLCHAIN_PAGE: Final = Statement("toolchain_page", ToolchainPageRow)
TOOLCHAIN_NEWEST: Final = Statement("toolchain_newest", ToolchainPageRow)
TOOLCHAIN_PAGE_OPEN: Final = Statement("toolchain_page_open", ToolchainPageRow)
TOOLCHAIN_PAGE_OF_AGENT: Final = Statement("toolchain_page_of_agent", ToolchainPageRow)
SIGHTING: Final = Statement("sighting", SightingRow)
SIGHTINGS_WITH_HEAD: Final = Statement("sightings_with_head", SightingRow)
PUT_SIGHTING: Final = Statement("put_sighting", NoRow)
HELD_FAILURES_OF: Final = Statement("held_failures_of", HeldFailureRow)
HOLD_FAILURE: Final = Statement("hold_failure", NoRow)
DROP_OLD_FAILURES: Final = Statement("drop_old_failures", NoRow)
WARN_OPERATOR: Final = Statement("warn_operator", TimesRow)
TOOLCHAIN_WARNINGS: Final = Statement("toolchain_warnings", WarningRow)
REOPEN_TOOLCHAIN_TASK: Final = Statement("reopen_toolchain_task", NoRow)
OVERDUE_TASKS: Final = Statement("overdue_tasks", OverdueTaskRow)
NEXT_OVERDUE: Final = Statement("next_overdue", SinceRow)
NOTE_REMINDER: Final = Statement("note_reminder", NoRow)
