"""What a worker and its engine send each other: enrolment, tokens, and the state that each sync carries both ways.

A sync is level-triggered: each side tells its whole state every time, so an answer that got lost needs no repair.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, ValidationError

from agenttalk.contracts.agent import AgentProfile, Tier
from agenttalk.contracts.command import Command
from agenttalk.contracts.core.base import (
    AgentIdText,
    Count,
    IdText,
    Many,
    Part,
    PlanIdText,
    Positive,
    RelativePath,
    Sha256,
    TaskIdText,
    Text,
)
from agenttalk.contracts.core.problems import problems_of
from agenttalk.contracts.errors import ContractError
from agenttalk.contracts.promise import AnyCheck

PROTOCOL: Final = 1
"""The version of the protocol that this release speaks. An engine takes this one and the one before."""
Seconds = Annotated[float, Field(ge=0, strict=False)]
Label = IdText
"""A label of workers, such as `gpu`, that a task can need."""
WorkerState = Literal["active", "draining", "quarantined", "removed"]
"""Whether a worker gets work: `draining` finishes what it has, `quarantined` failed too often by itself."""
WorkerRole = Literal["agents", "verifier"]
"""What a worker does: it runs `agents`, or, as a `verifier`, the checks of their work. No pool has both."""
AttemptPhase = Literal["accepted", "running", "handing_in", "ended", "gone"]
"""What a worker does for an attempt: it has `accepted` the offer and waits for the word to begin, runs the agent, sends
what that made, or is done. `gone` says that the worker lost it, so that nothing of it will come."""


class ExchangedPart(Part):
    """Something that both sides send. Fields that a side does not know are kept, and mean nothing to it."""

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read it from JSON values. Raises ContractError with every problem."""
        try:
            return cls.read(data)
        except ValidationError as error:
            problems = problems_of(error)
            first = problems[0]
            message = f"not a valid {cls.__name__}: {first.field}: {first.message}"
            raise ContractError(first.code, message, problems, hint=first.hint) from error


class WorkerFacts(ExchangedPart):
    """What a worker is and can do, as measured there."""

    version: Text
    """Its version of AgentTalk."""
    machine: Text
    """Its machine: the hash of an id that stays the same."""
    start: str = ""
    """The start of that machine: the hash of an id that each start of its kernel changes; empty if it is not known."""
    system: Text
    """Its operating system."""
    cores: Positive
    memory_mib: Count = 0
    sandboxes: Many[Tier] = ()
    """The sandboxes that work there."""
    drivers: Many[Text] = ()
    """The drivers that work there."""
    programs: Many[Text] = ()
    """Coding agents that are installed, and start."""
    versions: dict[str, str] = {}
    """The version that each of these prints."""


class Invitation(ExchangedPart):
    """What an operator gives to a new worker, together with the token."""

    id: Text
    """The beginning of the token's hash."""
    pool: IdText
    labels: Many[Label] = ()
    role: WorkerRole = "agents"
    expires_at: Text


class Enrolment(ExchangedPart):
    """The first request of a worker: it shows the token of its invitation, and leaves its public key."""

    protocol: Positive
    name: IdText
    """How people call it."""
    public_key: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{43}$")]
    """Ed25519, in base64 for addresses, without padding."""
    facts: WorkerFacts


class Enrolled(ExchangedPart):
    """The answer to an enrolment."""

    worker: IdText
    """Its id."""
    pool: IdText
    labels: Many[Label] = ()
    role: WorkerRole = "agents"
    time: Text
    """The engine's clock, by which the worker's tokens count."""


class AttemptName(ExchangedPart):
    """An attempt, as both sides name it."""

    board: IdText
    plan_id: PlanIdText
    task_id: TaskIdText
    epoch: Positive


class WorkerResult(ExchangedPart):
    """The result of an attempt. It is sent again with each sync until the engine acknowledges it."""

    sha256: Sha256
    """The hash of the performance, by which the engine says which result it has."""
    performance: dict[str, Any]
    """The performance, without the contents of its outputs: these were handed in before."""


class AttemptReport(AttemptName):
    """What a worker tells of an attempt that it has."""

    phase: AttemptPhase
    notes: Count = 0
    """How many notes its agent gave of itself. The engine takes each once."""
    usage: dict[str, Any] = {}
    """Tokens, cost and calls of tools since it began."""
    progress: str = ""
    """What its agent is doing."""
    result: WorkerResult | None = None


class OrderedFile(Part):
    """A file that a verifier fetches by its hash."""

    path: RelativePath
    sha256: Sha256
    size: Count


class OrderedTree(Part):
    """The tree that a verifier fetches and checks."""

    ref: Text
    commit: Text
    tree: Text
    prepare: str = ""
    """The command that prepares a checkout."""
    onto: str = ""
    """The commit whose preparation may serve for this tree, too."""


class SuiteOutcomes(Part):
    """How the tests of a suite ended, by their ids."""

    passed: Many[str] = ()
    failed: Many[str] = ()
    skipped: Many[str] = ()
    repeated: Many[str] = ()
    beyond: bool = False
    whys: Many[tuple[str, str]] = ()


class CrossedOutcomes(Part):
    """How the tests ended that were judged in another process than the work."""

    passed: Many[str] = ()
    other: Many[str] = ()
    reasons: dict[str, str] = {}


class CheckGround(Part):
    """What the engine knows that a check of a tree needs: how it stood before the work, and what may not change."""

    tree: str = ""
    covered: dict[str, str] = {}
    files: dict[str, Sha256] = {}
    inputs: dict[str, str] = {}
    base: SuiteOutcomes | None = None
    """The tests before the work."""
    base_source: str = ""
    before_work: bool = False
    judged: Many[str] | None = None
    crossed: CrossedOutcomes | None = None
    changed: Many[str] = ()
    protected: Many[str] = ()
    tier: Tier = "plain"
    """The sandbox in which the work was made."""
    required: bool = False
    standing: Many[str] = ()


class CheckOrder(ExchangedPart):
    """All that a verifier needs to make a check. Its hash is what the verifier signs."""

    subject: Sha256
    """The hash of the attempt: board, plan, task and epoch."""
    check: AnyCheck
    ground: CheckGround
    tree: OrderedTree | None = None
    """The tree to fetch; without one the checkout holds `files` alone."""
    files: Many[OrderedFile] = ()
    own: Many[OrderedFile] = ()
    """The check's own files, which replace those of the tree."""
    sandbox: Tier = "best"
    isolation: Literal["required", "best"] = "best"
    network: bool = False
    prepare_network: bool = False


class VerifiedPicture(Part):
    """A picture that a check took of a page."""

    name: Text
    sha256: Sha256
    size: Count
    content: str
    """In base64."""


class VerifiedResult(Part):
    """What a verifier found, and from what."""

    passed: bool
    reason: str = ""
    detail: str = ""
    detail_message: dict[str, Any] | None = None
    """The detail as a sentence of the catalogue, if it is one."""
    exit_code: int | None = None
    output: str = ""
    output_sha256: str = ""
    output_bytes: Count = 0
    tests: SuiteOutcomes | None = None
    flaky: Many[str] = ()
    isolated: bool | None = None
    source: str = ""
    crossed: CrossedOutcomes | None = None
    pictures: Many[VerifiedPicture] = ()


class Verification(ExchangedPart):
    """What a verifier found, signed by it together with what it was asked."""

    result: VerifiedResult
    machine: Text
    sandbox: Tier
    """The strongest sandbox that works there."""
    signature: Text
    """Ed25519, in base64 for addresses, without padding."""


class CheckReport(ExchangedPart):
    """What a verifier tells of a check that it has."""

    lease: IdText
    done: Count | None = None
    """How many tests have run."""
    total: Count | None = None
    verification: Verification | None = None
    fault: str = ""
    """Why the check cannot be made there."""


class DesiredCheck(ExchangedPart):
    """A check that the engine wants of a verifier. The verifier ends what it has and the engine does not name."""

    lease: IdText
    order: CheckOrder | None = None
    """Comes until the verifier reports the lease."""


class SyncRequest(ExchangedPart):
    """The whole state of a worker."""

    protocol: Positive
    slots: Count
    """How many attempts it runs at once."""
    facts: WorkerFacts | None = None
    """With the first sync of a process, and when they change."""
    draining: bool = False
    """Whether it takes nothing new."""
    attempts: Many[AttemptReport] = ()
    checks: Many[CheckReport] = ()
    wait_seconds: Seconds = 0.0
    """How long the engine may wait for news before it answers."""


class JobInput(Part):
    """A file of an input, which the worker fetches."""

    name: Text
    path: Text
    sha256: Sha256
    size: Count


class RepositoryBase(Part):
    """What an attempt on a repository builds on."""

    fetch: Text
    """The path that git fetches from."""
    ref: Text
    commit: Text
    submit: Text
    """The path that takes the pack with the work."""
    snapshot: str = ""
    """The path that takes packs with what is there so far; empty if the engine takes none."""
    onto: str = ""
    """The tip of the plan's branch that the commit builds on. Only what it holds is prepared."""
    prepare: str = ""
    """The command that prepares a checkout."""


class WorkerJob(ExchangedPart):
    """All that a worker needs for an attempt."""

    agent_id: AgentIdText
    lease: IdText
    attempt: Positive
    profile: AgentProfile
    command: Command
    prompt: str
    root: Text
    """The folder that the prompt names. The worker puts its own in its place."""
    timeout_seconds: Seconds
    inputs: Many[JobInput] = ()
    outputs: Many[Text] = ()
    types: dict[str, str] = {}
    repository: RepositoryBase | None = None
    log_bytes: Count = 0
    """How long a log the engine takes; 0 if it takes none."""
    snapshot_seconds: Seconds = 0.0
    """How often the tree is handed in while the agent works; 0 for never."""


class LogPlace(ExchangedPart):
    """The answer to a piece of a log."""

    next: Count
    """The offset at which the log goes on. What came from there on before is there already."""


class DesiredAttempt(AttemptName):
    """What the engine wants of an attempt. The worker ends what it has and the engine does not name."""

    do: Literal["run", "stop"]
    why: str = ""
    """Why it is to be stopped."""
    job: WorkerJob | None = None
    """Comes as long as the worker reports it as accepted."""


class SyncAnswer(ExchangedPart):
    """The whole state of a worker, as its engine wants it."""

    protocol: Positive
    time: Text
    """The engine's clock."""
    ttl_seconds: Seconds
    """How long the worker may go on without an answer; then it ends all that it runs."""
    state: WorkerState = "active"
    offers: Many[AttemptName] = ()
    """What it may take: it has it once it reports it as accepted and the engine wants it run."""
    desired: Many[DesiredAttempt] = ()
    checks: Many[DesiredCheck] = ()
    acknowledged: Many[Sha256] = ()
    """Results that are stored, or that do not count any more: the worker forgets them."""
