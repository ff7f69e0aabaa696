"""What the engine needs of the world. The docstrings are the specification; adapters live elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from agenttalk.contracts.agent import AgentProfile, Tier
from agenttalk.contracts.command import Command, ValidationCriteria
from agenttalk.contracts.evidence import EvidenceEntry
from agenttalk.contracts.forge import (
    Comment,
    Comparison,
    ForgeEvent,
    ForgeKind,
    ForgeUser,
    Issue,
    PullRequest,
    Review,
    ReviewVerdict,
    Status,
)
from agenttalk.contracts.plan import Workspace
from agenttalk.contracts.promise import AnyCheck, CompletionPromise, HumanCheck
from agenttalk.contracts.wire import JsonValue
from agenttalk.errors import Code
from agenttalk.prompts.context import PromptContext, Section
from agenttalk.prompts.wording import Locale
from agenttalk.rules.aborts import Abort
from agenttalk.rules.checks import Confirmation, Stored
from agenttalk.rules.done import Evidence
from agenttalk.rules.evidence import Fingerprint, Result
from agenttalk.rules.living import Ground
from agenttalk.rules.notes import Note
from agenttalk.rules.rework import CONFLICT, Judgement

T = TypeVar("T")
Value: TypeAlias = "str | bytes | int | float | None"
"""What a column holds."""
Row: TypeAlias = tuple[Any, ...]
"""One row of an answer; the query says which columns."""


class Tx(Protocol):
    """An open transaction, as a work sees it. It is over when the work returns; do not keep it."""

    @property
    def board(self) -> str:
        """The board that the transaction writes to."""

    def run(self, query_name: str, /, **params: Value) -> list[Row]:
        """Run one named statement and return its rows.

        Every statement may use `:board`, which is bound to the board of the store. Raises ConflictError
        when a constraint forbids it: the work is undone, whether or not it catches the error. Raises
        MachineError when the database cannot go on: then the whole batch is undone.
        """

    def run_many(self, query_name: str, rows: Sequence[Mapping[str, Value]], /) -> None:
        """Run one named statement for each of many parameters. Raises as `run` does; rows are not returned."""

    def record(self, kind: str, subject: str, body: JsonValue) -> int:
        """Append a fact to the ledger and return its `seq`. It stands or falls with the transaction."""

    def effect(self, kind: str, key: str, body: JsonValue) -> bool:
        """Queue something to be done once this is committed; False when the board had that key before.

        A key is never forgotten, so asking twice for the same effect asks once.
        """


class Store(Protocol):
    """One board: durable state, its ledger and its effects."""

    @property
    def name(self) -> str:
        """The board."""

    async def transact(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction; return what it returns after the commit is synced, never before.

        Works run one at a time, in the order in which they were handed over. Those that wait share one
        commit, each in a savepoint of its own: a work that raises is undone alone, and its exception comes
        out here. A work must be short and synchronous: it holds up all others. It runs in another thread
        and at most once.

        Raises MachineError when the commit failed. STORE_IN_DOUBT says that it may have happened all the
        same; every other code says that nothing was stored. Once handed over, a work is carried out even
        when whoever awaits it is cancelled.
        """

    async def read(self, query_name: str, /, **params: Value) -> list[Row]:
        """Run one named query on what is committed. Sees every work whose `transact` has returned."""

    async def woken(self, seen: int) -> int:
        """Wait until effects were queued since the state `seen` (0 at first), and return the new state.

        A hint, not a promise: after a crash or a lost connection look at the effects themselves.
        """

    async def close(self) -> None:
        """Carry out what was handed over, then end. Afterwards every call raises STORE_UNAVAILABLE."""


class Blobs(Protocol):
    """Contents, named by their hash (`sha256:…`)."""

    async def put(self, source: bytes | BinaryIO) -> str:
        """Keep a content durably and return its hash. Afterwards a transaction may refer to it."""

    async def get(self, digest: str) -> bytes:
        """The content. Raises BLOB_MISSING, or STORE_DAMAGED when it is not what was put in."""

    async def exists(self, digest: str) -> bool:
        """Whether the content is here."""


class Clock(Protocol):
    """What time it is. Safe to be asked from several threads."""

    def now(self) -> datetime:
        """The time in UTC, aware."""


class Ids(Protocol):
    """New names."""

    def new(self, prefix: str) -> str:
        """An id that nobody else has, e.g. `msg_9f…`."""


class Stores(Protocol):
    """Every board of a root."""

    async def board(self, name: str) -> Store:
        """The store of a board; made when it is not there yet."""

    async def blobs(self, name: str) -> Blobs:
        """The contents of a board."""

    def has(self, name: str) -> bool:
        """Whether a board was ever made."""


class Entry(NamedTuple):
    """What a folder holds under a name. A symlink is described itself, not what it points to."""

    name: str
    kind: Literal["regular", "folder", "other"]
    size: int
    inode: int
    mtime_ns: int
    nlink: int

    @property
    def is_text(self) -> bool:
        """Whether the name is UTF-8, and so can be written into a document."""
        return not any("\ud800" <= char <= "\udfff" for char in self.name)


class Digest(NamedTuple):
    """What identifies the content of a file."""

    sha256: str
    """As documents write it: `sha256:<64 lowercase hex digits>`."""
    size: int


class Folder(Protocol):
    """An open folder that nothing outside of it can be reached through.

    Paths are relative, with `/` between their parts. What others put there to mislead is refused with
    InputError (FILE_UNSAFE, FILE_TOO_LARGE, PATH_OUTSIDE_FOLDER); what the machine would not do is a
    MachineError, MissingError when nothing has the name. Calls block; threads may share a folder.
    """

    @property
    def path(self) -> Path:
        """Where it lies, for messages and for programs that are started in it."""

    def sub(self, relative: str, *, create: bool = False) -> AbstractContextManager[Folder]:
        """A folder inside this one; with `create`, what is missing of it is made. Close it after use."""

    def names(self) -> Iterator[str]:
        """Every name in the folder, hidden ones too, in no order."""

    def scan(self) -> Iterator[Entry]:
        """Every entry of the folder, in no order."""

    def entry(self, relative: str) -> Entry | None:
        """What has this name; None if nothing has."""

    def exists(self, relative: str) -> bool:
        """Whether there is anything of this name, be it a dangling symlink."""

    def read(self, relative: str, limit: int) -> bytes:
        """The bytes of a regular file that has at most `limit` of them."""

    def stream(self, relative: str, limit: int) -> AbstractContextManager[BinaryIO]:
        """The same, to be read piece by piece."""

    def digest(self, relative: str, limit: int) -> Digest:
        """Hash and size of a file."""

    def copy_to(self, relative: str, target: Self, new: str, limit: int, *, sync: bool = False) -> Digest:
        """Copy a file; hash and size of exactly what was written."""

    def write(
        self, relative: str, data: bytes, *, mode: int = 0o644, parents: bool = False, sync: bool = False
    ) -> None:
        """Put a whole file in place at once; `parents` makes missing folders, `sync` makes it durable."""

    def append(self, relative: str, data: bytes, *, at: int) -> None:
        """Write at the end of a file, which is `at`; what lies behind it is cut off. Not atomic."""

    def move(self, relative: str, target: Self, new: str, *, replace: bool = False) -> bool:
        """Move whatever has this name. False, and nothing done, if the target exists."""

    def remove(self, relative: str) -> bool:
        """Remove a file or an empty folder. False if there was none."""

    def make(self, relative: str) -> None:
        """Make a folder and those on the way to it."""


class Owner(NamedTuple):
    """A process, so that nobody mistakes another one for it after it died or the machine restarted."""

    boot_id: str
    pid: int
    started: int
    """When it started, in ticks since the machine did."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the processes of a turn may touch. Where places lie in one another, the innermost decides."""

    tier: Tier
    """How they are confined. What does not work here is not replaced by something weaker, except by `best`."""
    network: bool = True
    """Whether they may use the network. Sockets that are files, among what they see, are no network."""
    writable: tuple[Path, ...] = ()
    """Files and folders that they may write; nothing else but temporary files of their own."""
    readonly: tuple[Path, ...] = ()
    """What they may only read, although it lies in something writable, hidden or temporary."""
    hidden: tuple[Path, ...] = ()
    """What they must not see, where the tier can hide anything."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a driver is asked to do once."""

    lease: str
    """Id of the lease; every process of the turn carries it as AGENTTALK_LEASE in its environment."""
    argv: tuple[str, ...]
    """The program and its arguments. No shell."""
    cwd: Path
    """Working directory; it exists."""
    prompt: str
    """Goes to standard input."""
    timeout: float
    """Seconds until the whole tree is killed."""
    env: Mapping[str, str] = field(default_factory=dict)
    """AGENTTALK_* variables, and whatever the profile hands over. Nothing else of ours reaches the program."""
    keep: int = 1024 * 1024
    """How many bytes of standard output are kept; of standard error the last 16 KiB."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The kernel's limits for each process of the turn, by their names: AS and FSIZE in bytes, CPU in seconds."""
    confinement: Confinement | None = None
    """What the processes may touch; None lets them do what this user may do."""
    hear: Callable[[bytes], None] | None = None
    """Gets each line of standard output as it comes. Whoever listens may have the turn cancelled for it."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a turn ended. A claim of the program, nothing more."""

    how: Literal["exited", "killed", "timeout", "cancelled", "not_started"]
    exit_code: int | None
    """Its exit code; None unless it exited by itself."""
    stdout: bytes
    """The beginning of its standard output, at most `keep` bytes."""
    stderr: bytes
    """The end of its standard error."""
    seconds: float
    """How long it ran."""
    error: str = ""
    """Why it did not start, or what ended it."""
    sandbox: str = ""
    """The tier in which it ran, if it was to be confined."""


class Driver(Protocol):
    """How an agent is driven."""

    async def run(self, turn: Turn) -> Ended:
        """Start it, feed it, wait; returns only when every process of its tree is dead.

        Cancelling kills the tree first. Never raises for what the program does.
        """


class Handed(NamedTuple):
    """A file that an agent is given."""

    input_name: str
    path: str
    """Inside the input."""
    sha256: str
    size: int
    data: bytes | None
    """Its content when it is small; larger ones are read from the blobs."""


class Watch(Protocol):
    """Whoever looks on while a job is carried out, and stops it when it uses too much or gets nowhere.

    A performer tells what it hears; it is cancelled when that is a reason to stop. Tell it in the loop's thread.
    """

    def hear(self, line: bytes) -> None:
        """A line of a program's output; one that is no note means nothing."""

    def note(self, note: Note) -> None:
        """What was used since the attempt began, and what is being done."""

    def unsafe(self, what: str) -> None:
        """Something was tried that is forbidden."""


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at a task, for whoever carries it out."""

    plan_id: str
    task_id: str
    agent_id: str
    board: str
    lease: str
    epoch: int
    attempt: int
    """Counts from 1 for each command."""
    token: str = field(repr=False)
    """Good for this attempt alone."""
    profile: AgentProfile
    command: Command
    prompt: str
    timeout: float
    """Seconds that it may take."""
    inputs: tuple[Handed, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    """Outputs that must be of a media type, and of which."""
    outputs: tuple[str, ...] = ()
    """Everything that the task may make."""
    criteria: Mapping[str, ValidationCriteria] = field(default_factory=dict)
    """What inputs must meet before the agent uses them, by their names."""
    own_inputs: frozenset[str] = frozenset()
    """Inputs that the agent made itself, which it cannot judge."""
    repo: Workspace | None = None
    """The repository that it works on, if it does on one."""
    cwd: str = ""
    """Where the agent works, from the root; empty means its own folder for the task."""
    readonly: tuple[Path, ...] = ()
    """What that place needs from elsewhere, to be read."""
    watch: Watch | None = None
    """Who is told what is used and done meanwhile."""
    others: Mapping[str, Stored] = field(default_factory=dict)
    """Outputs of other tasks that the promise wants to see, as they are stored."""
    again: bool = False
    """Whether it was being proven before, by an engine that ended meanwhile: the agent has done its part."""

    @property
    def conflicted(self) -> bool:
        """Whether it is done again because others had changed the same meanwhile."""
        again = self.command.reexecute
        return again is not None and any(each.category == CONFLICT for each in again.validation_result.issues)

    @property
    def proven(self) -> bool:
        """Whether somebody else than the agent has to look at its work."""
        return self.repo is not None or bool(self.command.promise and self.command.promise.checks)


class Made(NamedTuple):
    """A file that an agent made."""

    output_name: str
    path: str
    """Inside the output."""
    sha256: str
    size: int
    data: bytes | None
    """Its content when it is small; larger ones were put into the blobs."""


@dataclass(frozen=True, slots=True)
class Performance:
    """What came of a job, as whoever carried it out says. A claim; the engine decides what it is worth."""

    how: Literal["finished", "crashed", "timeout", "not_started", "stopped", "unfit", "refused", "aborted"]
    """`stopped` means that we ended it ourselves: it does not count against the agent. `aborted` has a reason."""
    result: Any = None
    score: float | None = None
    explanation: str | None = None
    outputs: tuple[Made, ...] = ()
    code: str | None = None
    """What was wrong with an answer that came: a code, e.g. SCORE_MISSING."""
    error: str = ""
    seconds: float = 0.0
    usage: Mapping[str, Any] = field(default_factory=dict)
    misfits: Mapping[str, str] = field(default_factory=dict)
    """Outputs that are not of their media type, and why; found by the engine."""
    sandbox: str = ""
    """The tier in which it was done, if it was to be confined."""
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    """What was said of each input that had to be looked at before it was used; `refused` if one is not accepted."""
    abort: Abort | None = None
    """Why it was stopped, e.g. because of a forbidden action that its driver saw."""
    claims: tuple[str | EvidenceEntry, ...] = ()
    """Evidence that the agent says it has."""


class Judge(Protocol):
    """A performer whose agents can also judge what they are given."""

    async def judge(self, job: Job, input_name: str, prompt: str) -> Any:
        """What the agent says of an input: an object with score, decision, reason and issues; else it says nothing.

        Raises InputError when it cannot be asked here.
        """


class Performer(Protocol):
    """Carries out jobs for agents of one driver."""

    async def perform(self, job: Job) -> Performance:
        """Do it. Returns only when nothing of it runs any more; cancelling ends it first.

        Never raises for what the agent does.
        """


class Processes(Protocol):
    """Whose processes live on this machine."""

    def me(self) -> Owner:
        """This process."""

    def alive(self, owner: Owner) -> bool:
        """Whether it still lives. Another boot, or another process with its number, is not it."""

    async def end(self, lease: str) -> int:
        """Kill every process that carries the lease, confirm that none is left, and say how many there were.

        Raises MachineError when some could not be ended.
        """


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found out about the work of a turn, by others than whoever did it."""

    evidence: tuple[Evidence, ...] = ()
    told: tuple[dict[str, Any], ...] = ()
    """What came of each check, for the ledger."""
    refused: str = ""
    """Why the tree that the agent left cannot be taken."""
    breach: tuple[str, ...] = ()
    """Paths that it changed and was not allowed to."""
    conflict: str = ""
    """What somebody else changed at the same place meanwhile."""
    commit: str = ""
    """What the plan's branch was moved to."""
    foreign: tuple[str, ...] = ()
    """Commits on the plan's branch, since the task began, that no task of the plan merged; the newest first."""
    results: tuple[Result, ...] = ()
    """What came of each check, with what that rests on: kept as evidence when the task is done."""
    left: str = ""
    """The commit that keeps what the agent left in a repository, merged or not."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """How the checks of a task stood before its work."""

    onto: str
    """The tip of the plan's branch where the first attempt began; empty without a repository."""
    results: Mapping[str, Result] = field(default_factory=dict)
    """By the ids of the checks that were looked at."""


class Findings(Protocol):
    """What was found out before, kept where the next start finds it. Only the engine writes here."""

    async def baseline(self, job: Job) -> Baseline | None:
        """How the checks of a job's task stood before its work; None if nobody has looked yet."""

    async def keep_baseline(self, job: Job, baseline: Baseline) -> None:
        """Keep that. The tip that was kept first stays."""

    async def known(self, job: Job, key: str, check_id: str) -> Result | None:
        """What came of a check that rests on the same (`evidence.cache_key`); it says when it was seen."""

    async def keep(self, job: Job, key: str, result: Result) -> None:
        """Keep a result under its key, with whom it was made for. What is there already stays."""


@dataclass(frozen=True, slots=True)
class Tip:
    """Where a plan's branch stands, and how everything stands there that evidence can rest on."""

    commit: str
    ground: Ground


@dataclass(frozen=True, slots=True)
class Shipment:
    """What is about to be shipped."""

    board: str
    plan_id: str
    repo: Workspace | None
    files: Mapping[str, str]
    """Paths and hashes."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of looking at a shipment."""

    told: tuple[dict[str, Any], ...] = ()
    """What came of each check, with `id` and `passed`."""
    commit: str = ""
    """Where the plan's branch stands, if it has one."""
    faults: tuple[str, ...] = ()
    """What went wrong, apart from checks that did not pass."""


Confirm: TypeAlias = "Callable[[HumanCheck, str], Awaitable[Confirmation]]"
"""Asks a person the question of a check about something with this hash, and waits for the answer."""


@dataclass(frozen=True, slots=True)
class Left:
    """What an attempt left in a repository, which a person accepts as it is."""

    plan_id: str
    task_id: str
    repo: Workspace
    promise: CompletionPromise
    command_id: str
    attempt: int


class Prover(Protocol):
    """Makes ready where an agent works, and proves what it did. Nothing that the agent can write has a say in it."""

    async def faults(self, criteria: ValidationCriteria, files: Mapping[str, bytes]) -> list[str]:
        """What a machine finds wrong with files: their format, fields that are missing, what their schema forbids."""

    async def begin(self, job: Job) -> Job:
        """Make ready for an attempt: its tree, and how the checks of its promise stand before the work.

        The job that comes back says where the agent works. Raises InputError when the task must not begin.
        """

    async def prove(self, job: Job, performance: Performance, done: Callable[[Proof], bool], confirm: Confirm) -> Proof:
        """Make the checks of a job's promise on what was left; every process of the agent is dead.

        If `done` says of what was found that the promise is fulfilled, the work is merged before this returns. A person
        is asked (`confirm`) only when nothing else is missing. Doing it again for the same attempt changes nothing.
        """

    async def accept(self, left: Left) -> str:
        """Merge what an attempt left, because a person accepted it as it is; the commit. Doing it again is harmless.

        Protected paths are put back all the same. Raises InputError when it cannot be merged.
        """

    async def examine(self, shipment: Shipment, checks: Sequence[tuple[AnyCheck, str]]) -> Examined:
        """Make checks at the `tip` of the plan's branch, or on the `artifacts` that are shipped, as each check says."""

    def leave(self, job: Job) -> None:
        """An attempt is over. Those go on who waited for it because it had conflicted with others before."""

    async def tip(self, job: Job, globs: Sequence[str]) -> Tip:
        """Where the branch of a job's plan stands now, and what each glob matches there."""

    async def again(self, job: Job, check: AnyCheck, kept: Fingerprint, commit: str) -> Result:
        """Make a check of a job's promise at a commit of the plan's branch; `kept` says what its evidence rests on.

        Nothing is run if its result is known. Changes nothing.
        """

    async def arrived(self, job: Job, since: str) -> Sequence[tuple[str, str | None]]:
        """What came onto the plan's branch behind a commit, the oldest first, each with the task whose work it is.

        None stands for what somebody else put there. There is nothing if the commit does not lead to the tip.
        """


Merged: TypeAlias = 'Literal["merged", "scheduled"]'
"""Whether a pull request is merged, or will be when its checks are green."""


class Forge(Protocol):
    """A code forge, seen with one account's token. `repository` is always `owner/name`.

    Everything raises ForgeError, whose code says what to do: FORGE_UNREACHABLE, FORGE_LIMITED and FORGE_NOT_READY
    can be tried again; after FORGE_IN_DOUBT somebody has to look whether it was done; FORGE_MISSING, FORGE_CONFLICT
    and FORGE_REFUSED stay until something else changes. Reading is tried again by itself, changing is not when it
    could be done twice.
    """

    async def me(self) -> ForgeUser:
        """Whose token this is."""

    async def pull_request(self, repository: str, number: int) -> PullRequest:
        """A pull request as it is now."""

    async def changed_files(self, repository: str, number: int) -> tuple[str, ...]:
        """Paths that a pull request changes."""

    async def reviews(self, repository: str, number: int) -> tuple[Review, ...]:
        """Reviews that were handed in, the oldest first. Requests and drafts are none."""

    async def review_comments(self, repository: str, number: int, review: int) -> tuple[Comment, ...]:
        """Comments on lines of one review."""

    async def comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        """Comments on an issue or pull request, the oldest first."""

    async def statuses(self, repository: str, sha: str) -> tuple[Status, ...]:
        """The newest status of each context of a commit."""

    async def issue(self, repository: str, number: int) -> Issue:
        """An issue as it is now."""

    async def compare(self, repository: str, base: str, head: str) -> Comparison:
        """What lies between two commits."""

    async def open_pull_requests(self, repository: str) -> tuple[PullRequest, ...]:
        """All pull requests that are open, however many pages they take."""

    async def open_issues(self, repository: str) -> tuple[Issue, ...]:
        """All issues that are open, without pull requests."""

    async def submit_review(
        self, repository: str, number: int, verdict: ReviewVerdict, review_body: str, commit: str
    ) -> Review:
        """Hand a review of a commit in, so that everybody sees it."""

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        """Write a comment on an issue or pull request."""

    async def create_issue(self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()) -> Issue:
        """Open an issue. `assignees` of the answer are those who really have it; a forge may drop them silently."""

    async def assign(self, repository: str, number: int, assignees: Sequence[str]) -> Issue:
        """Give an issue to these people."""

    async def create_pull_request(
        self, repository: str, title: str, pull_body: str, *, head: str, base: str
    ) -> PullRequest:
        """Open a pull request from a branch."""

    async def merge(self, repository: str, number: int, head: str) -> Merged:
        """Merge exactly this head; also "merged" when it was before. FORGE_CONFLICT when the head is another one."""


Headers: TypeAlias = "Sequence[tuple[str, str]]"
"""Names and values as they came, each as often as it came."""


class Unread(Protocol):
    """A delivery that nothing follows from."""

    @property
    def reason(self) -> str:
        """Why not."""

    @property
    def code(self) -> Code | None:
        """What is wrong with it, when it is not simply of no interest."""


class EventSource(Protocol):
    """A configured forge: who may tell us something in its name, and what that means. Without input or output."""

    @property
    def name(self) -> str:
        """What it is called in the settings."""

    @property
    def kind(self) -> ForgeKind:
        """What it is."""

    @property
    def api_url(self) -> str:
        """Its API, as steps name it."""

    def refusal(self, headers: Headers, body: bytes) -> str:
        """Why a delivery is not genuine; empty when it is. It never repeats what was sent."""

    def label(self, headers: Headers) -> tuple[str, str]:
        """The forge's number of a delivery, and what it calls the event."""

    def read(self, headers: Headers, body: bytes) -> ForgeEvent | Unread:
        """What happened. Never raises for what was sent."""


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


class Said(NamedTuple):
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
    said: tuple[Said, ...]
    """What was handed in since then."""
    at: str
    """Now."""


class KindOutcome(NamedTuple):
    """What the engine decided about a turn."""

    cause: str
    """A cause of `rules.lifecycle`: FULFILLED, NOT_FULFILLED, REWORK_EXHAUSTED, FAILED_FOR_GOOD, …"""
    state: str
    """The state that the task came to."""
    reason: str
    missing: tuple[str, ...]
    blockers: tuple[str, ...]
    command_id: str


class FollowUp(NamedTuple):
    """Something that is to be done in the world once the end of a turn is committed (see `Tx.effect`)."""

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

    def prompt(self, context: PromptContext) -> list[Section]:
        """The sections of the prompt."""

    async def evidence(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """What is found of the work after a turn. Whoever raises has found nothing: that is not done."""

    def failed(self, task: KindTask, outcome: KindOutcome) -> Sequence[FollowUp]:
        """What follows when a turn did not fulfil the promise; queued in the commit that ends the turn."""

    def closed(self, tx: Tx, task_id: str, why: str, at: str) -> None:
        """A task has ended for good, or goes on after all (`why` is empty): note it in its own row.

        For a task that is done, `why` is the trust of what that rests on: `claimed` is not proven.
        """
