"""Kinds of tasks that do not come from plans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from agenttalk.contracts.plan import Policies

if TYPE_CHECKING:
    from agenttalk.contracts.agent import AgentProfile
    from agenttalk.contracts.core.wire import JsonValue
    from agenttalk.contracts.promise import CompletionPromise
    from agenttalk.ports.proof import Confirmer
    from agenttalk.ports.statements.statement import Statement
    from agenttalk.ports.storage import R, Tx, Value
    from agenttalk.rules.prompts.context import PromptContext, PromptSection
    from agenttalk.rules.prompts.wording import Locale
    from agenttalk.rules.proof.done import Evidence
    from agenttalk.rules.proof.performance import Performance


@dataclass(frozen=True, slots=True)
class KindTask:
    """A task of a kind that has a board of its own, as its row says it."""

    board: str
    task_id: str
    agent_id: str
    title: str
    description: str
    action_type: str
    steps: tuple[str, ...]
    context: Mapping[str, Any]
    """The facts of the event."""
    sender: str
    source: str
    key: str
    object: str
    """The pull request, issue or commit it belongs to."""
    head_sha: str
    hop: int
    event_at: str
    """When the event happened, as the forge writes it."""
    made_at: str
    reexecutions: int = 0
    """How often it was sent back."""


ForgeWaiter: TypeAlias = "Callable[[str, Coroutine[Any, Any, None]], Awaitable[None]]"
"""Waits for a while, or until something was heard of the forge: why, and for what at the longest."""
OutageReporter: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Tells why something cannot be asked."""


class QueryReader(Protocol):
    """Reads what is committed, as `Store.read` does."""

    async def __call__(self, query: Statement[R], /, **params: Value) -> list[R]:
        """Run one query."""


class Submission(NamedTuple):
    """A comment or output that was handed in for a task."""

    kind: Literal["comment", "output"]
    author: str
    type: str
    body: str
    claims: Any
    at: str


@dataclass(frozen=True, slots=True)
class KindTurn:
    """A turn that has ended, as a kind sees it."""

    agent_id: str
    command_id: str
    began_at: str
    """When the agent got the command first."""
    performance: Performance
    said: tuple[Submission, ...]
    """What was handed in since then."""
    at: str
    """Now."""
    confirm: Confirmer | None = None
    """Asks a person about what the turn left; None where nobody can be asked."""
    read: QueryReader | None = None
    """Reads the kind's own board."""
    wait: ForgeWaiter | None = None
    """Waits, with the agent free for other tasks: why, and for what at the longest; None where nobody waits."""
    away: OutageReporter | None = None
    """Tells whoever has to know, and why, that what has to be asked is out of order; None where nobody can be told."""


class KindOutcome(NamedTuple):
    """What the engine decided about a turn."""

    cause: str
    """A cause of `rules.core.task_states`: FULFILLED, NOT_FULFILLED, REWORK_EXHAUSTED, FAILED_FOR_GOOD, …"""
    state: str
    """The state that the task came to."""
    reason: str
    missing: tuple[str, ...]
    blockers: tuple[str, ...]
    command_id: str
    code: str = ""
    """What verification came to, in a word of `rules.toolchain.read_back`: no_action, claim_denied, verify_error, …"""
    detail: str = ""
    infrastructure: bool = False
    """Whether the forge could not be asked, which is nobody's fault who worked on the task."""


class FollowUp(NamedTuple):
    """Something that is to be done in the world once the end of a turn is committed (see `Tx.queue_effect`)."""

    kind: str
    key: str
    body: JsonValue


class TaskKind(Protocol):
    """What sets tasks of one board apart from others: their prompt, their promise, their evidence, their failures.

    Everything else is the same for all tasks: commands, queues, leases, limits, the one way to done.
    """

    @property
    def name(self) -> str:
        """What it is called, such as `toolchain`."""

    @property
    def board(self) -> str:
        """The board on which its tasks live. Its run has the same name and never ends."""

    def task(self, tx: Tx, task_id: str) -> KindTask | None:
        """A task of its board, from its own row; None when it is none of its."""

    def wants_run(self, task: KindTask) -> bool:
        """Whether an agent has to do anything. If not, being stored is all: the evidence `delivered` decides."""

    def promise(self, task: KindTask) -> CompletionPromise:
        """What done means for a task. Frozen into it when it is made."""

    def context(self, task: KindTask, *, fence: str, locale: Locale) -> PromptContext:
        """What the prompt of a task is made of."""

    def prompt(self, context: PromptContext) -> list[PromptSection]:
        """The sections of the prompt."""

    def variables(self, task: KindTask, agent_id: str) -> tuple[str, ...]:
        """Names of variables of ours that an agent's program gets for a task, and for no other."""

    def begun(self, tx: Tx, task: KindTask, at: str) -> None:
        """A turn begins, with a prompt that was made of the task: note what that shows. In the same transaction."""

    async def evidence(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """What is found of the work after a turn. Whoever raises has found nothing: that is not done."""

    def failed(self, task: KindTask, outcome: KindOutcome) -> Sequence[FollowUp]:
        """What follows when a turn did not fulfil the promise; queued in the commit that ends the turn."""

    def closed(self, tx: Tx, task_id: str, why: str, at: str) -> None:
        """A task has ended for good, or goes on after all (`why` is empty): note it in its own row.

        For a task that is done, `why` is the trust of what that rests on: `claimed` is not proven.
        """


@dataclass(frozen=True, slots=True)
class MailRules:
    """What is configured for letters."""

    profiles: Mapping[str, AgentProfile] = field(default_factory=dict)
    """Agents as the settings describe them."""
    driven: frozenset[str] = frozenset()
    """Those of them whose driver the settings name. Those alone are run for a letter, or given it as a command."""
    policies: Policies = field(default_factory=lambda: Policies(max_reexecute_times=2))
    remind_after: int = 7_200
    """Seconds without an answer after which the addressee is reminded."""
    answer_within: int = 86_400
    """Seconds in which a request must be answered that says no deadline."""
    timeout: int = 3_600
    """Seconds that a turn may take."""
    retry_times: int = 1
    """Retries after a crash or timeout."""
    hops: int = 10
    """How often agents may answer agents before a person has to."""


class MailKind(TaskKind, Protocol):
    """The kind of letters."""

    @property
    def rules(self) -> MailRules:
        """What is configured for them."""
