"""Kinds of tasks that do not come from plans."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from agenttalk.contracts.plan import Policies

if TYPE_CHECKING:
    from agenttalk.contracts.agent import AgentProfile
    from agenttalk.contracts.core.vocabulary import Locale
    from agenttalk.contracts.core.wire import JsonValue
    from agenttalk.contracts.promise import CompletionPromise
    from agenttalk.ports.proof import Confirmer
    from agenttalk.ports.statements.statement import Statement
    from agenttalk.ports.storage import R, Snapshot, Tx, Value
    from agenttalk.rules.prompts.context import PromptContext, PromptSection
    from agenttalk.rules.proof.done import Evidence
    from agenttalk.rules.proof.performance import Performance


@dataclass(frozen=True, slots=True)
class KindTask:
    """A task of a kind with a board of its own, as its row describes it."""

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
"""Waits for some seconds at most, or until an event of the forge arrives: the reason, and the seconds."""
OutageReporter: TypeAlias = "Callable[[str], Awaitable[None]]"
"""Reports why the forge cannot be asked."""


class QueryReader(Protocol):
    """Reads committed rows, as `Store.read` does."""

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
    """An ended turn with everything that a kind needs to judge it."""

    agent_id: str
    command_id: str
    began_at: str
    """When the agent first got the command."""
    performance: Performance
    said: tuple[Submission, ...]
    """The comments and outputs since then."""
    at: str
    """The time of the judgement."""
    confirm: Confirmer | None = None
    """Asks a person about the turn's work; None where no person can be asked."""
    read: QueryReader | None = None
    """Reads the kind's own board."""
    wait: ForgeWaiter | None = None
    """Waits while the agent is free for other tasks: the reason, and the most seconds; None where it cannot wait."""
    away: OutageReporter | None = None
    """Reports that the forge cannot be asked, and why; None where no report is possible."""


class KindOutcome(NamedTuple):
    """What the engine decided about a turn."""

    cause: str
    """A cause of `rules.core.task_states`: FULFILLED, NOT_FULFILLED, REWORK_EXHAUSTED, FAILED_FOR_GOOD, …"""
    state: str
    """The new state of the task."""
    reason: str
    missing: tuple[str, ...]
    blockers: tuple[str, ...]
    command_id: str
    code: str = ""
    """The result of the verification, a word of `rules.toolchain.read_back`: no_action, claim_denied, …"""
    detail: str = ""
    infrastructure: bool = False
    """Whether the forge could not be asked, which is not the fault of the agent."""


class FollowUp(NamedTuple):
    """An effect in the world after the commit that ends a turn (see `Tx.queue_effect`)."""

    kind: str
    key: str
    body: JsonValue


class TaskKind(Protocol):
    """The rules for tasks of one board: their prompt, promise, evidence and failures.

    Everything else is the same for all tasks: commands, queues, leases, limits, the one way to done.
    """

    @property
    def name(self) -> str:
        """Its name, such as `toolchain`."""

    @property
    def board(self) -> str:
        """The board on which its tasks live. Its run has the same name and never ends."""

    def task(self, tx: Snapshot, task_id: str) -> KindTask | None:
        """Read a task of its board; None if the task belongs to another kind."""

    def wants_run(self, task: KindTask) -> bool:
        """Whether a task needs a turn. If not, the evidence `delivered` decides once it is stored."""

    def promise(self, task: KindTask) -> CompletionPromise:
        """Make the promise of a task. It is frozen when the task is made."""

    def context(self, task: KindTask, *, fence: str, locale: Locale) -> PromptContext:
        """Gather the data for the prompt of a task."""

    def prompt(self, context: PromptContext) -> list[PromptSection]:
        """Render the sections of the prompt."""

    def variables(self, task: KindTask, agent_id: str) -> tuple[str, ...]:
        """Name the engine's variables that an agent's program gets for this task only."""

    def begun(self, tx: Tx, task: KindTask, at: str) -> None:
        """Note that a turn begins, with a prompt made from the task. Runs in the same transaction."""

    async def evidence(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """Gather evidence after a turn. If this raises, there is no evidence, so the task is not done."""

    def failed(self, task: KindTask, outcome: KindOutcome) -> Sequence[FollowUp]:
        """Make the follow-ups of a turn that did not fulfil the promise; the commit that ends the turn queues them."""

    def closed(self, tx: Tx, task_id: str, why: str, at: str) -> None:
        """Note in a task's own row that it has ended for good, or goes on after all (`why` is empty).

        For a task that is done, `why` is the trust of what that rests on: `claimed` is not proven.
        """


@dataclass(frozen=True, slots=True)
class MailRules:
    """The configuration of letters."""

    profiles: Mapping[str, AgentProfile] = field(default_factory=dict)
    """The agents' profiles in the settings."""
    driven: frozenset[str] = frozenset()
    """The agents whose driver the settings name. Only these are run for a letter, or get it as a command."""
    policies: Policies = field(default_factory=lambda: Policies(max_reexecute_times=2))
    remind_after: int = 7_200
    """Seconds without an answer after which the addressee is reminded."""
    answer_within: int = 86_400
    """Seconds in which a request without a deadline must be answered."""
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
        """The configuration of letters."""
