"""Agents at work: processes, the turn of a program, the job of an agent, and how both end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from agenttalk.rules.core.turn_times import TurnTimes

if TYPE_CHECKING:
    from agenttalk.contracts.agent import AgentProfile, Tier
    from agenttalk.contracts.command import Command, ValidationCriteria
    from agenttalk.contracts.plan import Workspace
    from agenttalk.contracts.promise import CompletionPromise
    from agenttalk.rules.agents.activity import ActivityPhase
    from agenttalk.rules.agents.progress_notes import Note
    from agenttalk.rules.checks.check_results import StoredOutput
    from agenttalk.rules.core.task_states import ProgramEnding
    from agenttalk.rules.proof.performance import Performance


class ProcessIdentity(NamedTuple):
    """A process, told apart from later processes with its number, also after a restart of the machine."""

    boot_id: str
    pid: int
    started: int
    """When it started, in ticks since the machine did."""


class BindMount(NamedTuple):
    """Something that is seen at another place than where it lies. Only bubblewrap can do that."""

    source: Path
    """Where it lies."""
    place: Path
    """Where it is seen."""
    writable: bool = False


class MountNamespace(NamedTuple):
    """A view of the file system that differs from ours by its mounts."""

    pid: int
    """A process that has it."""
    number: int
    """The kernel's number of it, by which another is told apart."""


class CheckRepository(NamedTuple):
    """A .git for checks. Its own part is small; the objects of the repository are shown in it, read-only."""

    folders: tuple[str, ...]
    files: Mapping[str, bytes]
    """What is written for each check, by the paths in it."""
    objects: Path
    place: str
    """Where the objects are seen, relative to the folder."""


class UserPlace(NamedTuple):
    """Where a sandbox that can mount shows a tree: at the path of the user's folder, if that is possible."""

    path: Path
    """A real path."""
    repository: CheckRepository | None = None
    """Its .git; None for a plain folder."""
    links: tuple[str, ...] = ()
    """Paths of the user's folder that are shown in it, read-only, in place of links to them."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What the processes of a turn may touch: of an agent, a check, a preparation. It is the only way to confine one.

    Where places lie in one another, the innermost decides. In every sandbox the home folder's secrets, temporary files
    of others and services of the machine are hidden as well, and the program itself can be seen, wherever it lies.
    """

    tier: Tier
    """How they are confined. What does not work here is not replaced by something weaker, except by `best`."""
    required: bool = False
    """Whether even `best` must be a sandbox: nothing is started without one."""
    network: bool = True
    """Whether they may use the network. Sockets that are files do not count as network."""
    writable: tuple[Path, ...] = ()
    """Files and folders that they may write; nothing else but temporary files of their own."""
    readonly: tuple[Path, ...] = ()
    """What they may only read, although it lies in something writable, hidden or temporary."""
    hidden: tuple[Path, ...] = ()
    """What they must not see, in a sandbox."""
    binds: tuple[BindMount, ...] = ()
    """What they see at another place. A tier that cannot do it is not taken."""
    lent: tuple[BindMount, ...] = ()
    """Files that they see at another place, to be read, in every tier; those that are not there are left out."""
    guarded: bool = False
    """Whether they are kept from each other's memory: no debugging, nothing of /proc can be written. Not by `plain`."""
    bare: bool = False
    """Whether their environment is that of the turn alone, and nothing of ours such as PATH. The lease is in it only
    where bubblewrap does not keep them together."""
    temporary: Path | None = None
    """The folder for their temporary files, which is left as it is; without it they have one that is removed. Its
    `home` is their home folder. TMPDIR and HOME name both as they see them, unless the turn says otherwise."""
    namespace: MountNamespace | None = None
    """The view of the file system that they get; by default ours. All paths are as it shows them."""


class Interruption:
    """A request to the program of a turn to end by itself, as Ctrl-C makes it. For one event loop."""

    __slots__ = ("_asked", "_programs", "_waiters")

    def __init__(self) -> None:
        self._asked = False
        self._programs = 0
        self._waiters: asyncio.Event | None = None
        """Set by the request. Most turns have no driver that waits for one, so it is made by the first that does."""

    def request(self) -> bool:
        """Ask the program to end. Returns whether one runs that was asked."""
        self._asked = True
        if self._waiters is not None:
            self._waiters.set()
        return self._programs > 0

    @property
    def is_requested(self) -> bool:
        """Return whether the program was asked to end."""
        return self._asked

    async def wait(self) -> None:
        """Wait for the request."""
        if self._asked:
            return
        if self._waiters is None:
            self._waiters = asyncio.Event()
        await self._waiters.wait()

    @contextmanager
    def answered(self) -> Iterator[None]:
        """Note that a driver waits for the request, and passes it on to a program."""
        self._programs += 1
        try:
            yield
        finally:
            self._programs -= 1


class ProgramInput(Protocol):
    """The standard input of a program, open during its turn."""

    def write(self, data: bytes) -> None:
        """Write to the program, as fast as it reads. Data for a dead program is lost."""

    def close(self) -> None:
        """Close the input: the program should end by itself, and is ended soon if it does not."""


class StdioClient(Protocol):
    """Speaks with a program through its standard input and the lines that it prints. Runs in the loop's thread.

    `hear` of the turn gets the lines.
    """

    def begin(self, pen: ProgramInput) -> None:
        """Note that the program was asked for, and can be written to."""

    def request_end(self) -> None:
        """Ask the program to end: its time is over, or the turn is cancelled. The pen still writes for a moment."""


@dataclass(frozen=True, slots=True)
class ResourceBudget:
    """What all processes of a turn may use together. The driver measures it, and ends a turn that uses more."""

    disk: int
    """Bytes that files take on the disk, those without a name included."""
    files: int
    """Files and folders."""
    processes: int
    """Processes and threads at once."""
    output: int
    """Bytes on standard output and standard error."""
    memory: int | None = None
    """Bytes of memory; None does not limit it. What processes share counts once, and pages of files not at all."""
    places: tuple[Path, ...] = ()
    """Folders whose files count, besides temporary ones; none lies in another."""
    cleared: tuple[Path, ...] = ()
    """Folders that are emptied if it was too much: else the next attempt would begin with it."""
    kept: tuple[Path, ...] = ()
    """What in those is not removed."""
    exact: bool = False
    """Whether it is also measured after a turn that was too short to be watched."""


@dataclass(frozen=True, slots=True)
class ProgramTurn:
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
    """AGENTTALK_* variables, and what the profile passes on. Nothing else of ours reaches the program."""
    keep: int = 1024 * 1024
    """How many bytes of standard output are kept; of standard error the last 16 KiB."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """The kernel's limits for each process of the turn, by their names: AS and FSIZE in bytes, CPU in seconds."""
    budget: ResourceBudget | None = None
    """What its processes may use together."""
    confinement: Confinement | None = None
    """What the processes may touch; None lets them do what this user may do."""
    pieces: Callable[[bytes], None] | None = None
    """Gets all of standard output, piece by piece as it comes. The listener may cancel the turn."""
    hear: Callable[[bytes], None] | None = None
    """Gets each line of standard output as it comes. The listener may cancel the turn."""
    longest: int | None = None
    """Bytes of a line that `hear` gets. If set, `hear` gets the last line also without a line end."""
    interruption: Interruption | None = None
    """Asks the program to end by itself: by SIGINT, then by SIGTERM, each with a grace."""
    talk: StdioClient | None = None
    """Who speaks with the program. Its standard input then stays open behind the prompt, until the pen is closed."""
    noted: Callable[[], None] | None = None
    """Called when the program has been started, and when it has ended."""


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended. A claim of the program, nothing more."""

    how: ProgramEnding
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
    exceeded: bool = False
    """Whether it was ended, or what it left was removed, because it used more than it may."""


class Driver(Protocol):
    """How an agent is driven."""

    async def run(self, turn: ProgramTurn) -> TurnEnd:
        """Start it, feed it, wait; returns only when every process of its tree is dead.

        Cancelling kills the tree first. Never raises for what the program does.
        """


@runtime_checkable
class SandboxSelector(Protocol):
    """The sandboxes of this machine."""

    async def tier(self, asked: Confinement) -> Tier:
        """Return the tier in which a turn would run here. Raises ValueError, with a remedy, rather than lower it."""


class InputContent(NamedTuple):
    """A file that an agent is given."""

    input_name: str
    path: str
    """Inside the input."""
    sha256: str
    size: int
    data: bytes | None
    """Its content when it is small; larger ones are read from the blobs."""


class AttemptBase(NamedTuple):
    """What an agent elsewhere builds on. It stays the same while the attempt lasts, also for another engine."""

    start: str
    """The commit that it fetches: the tip, or the tip with the previous attempt merged in."""
    onto: str
    """The tip of the plan's branch: the baseline of what it may not change."""


class JobMonitor(Protocol):
    """Watches a job, and stops it when it uses too much or makes no progress.

    A performer reports to it in the loop's thread, and is cancelled when there is a reason to stop.
    """

    interruption: Interruption
    """Asks the program of the job to end by itself."""

    def hear(self, line: bytes) -> None:
        """Take a line of a program's output. A line that is not a note is ignored."""

    def note(self, note: Note) -> None:
        """Take the usage since the attempt began, and the progress."""

    def report_unsafe(self, what: str) -> None:
        """Report that the agent tried something forbidden."""

    def enter(self, phase: ActivityPhase, detail: str = "") -> None:
        """Take what is done for the job from now on, for people who watch."""

    def count_tests(self, done: int | None, total: int | None) -> None:
        """Take how many tests the running check has finished, and how many there are, as far as that is known."""


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt at a task, as its performer gets it."""

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
    inputs: tuple[InputContent, ...] = ()
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
    watch: JobMonitor | None = None
    """Gets what is used and done meanwhile."""
    others: Mapping[str, StoredOutput] = field(default_factory=dict)
    """Outputs of other tasks that the promise wants to see, as they are stored."""
    neighbours: Mapping[str, CompletionPromise] = field(default_factory=dict)
    """The promises of the plan's other tasks in the same repository: what their checks rest on is protected, too."""
    again: bool = False
    """Whether an engine that has ended was proving it already: the agent has done its part."""
    base: AttemptBase | None = None
    """What an agent elsewhere fetches and builds on, if it works on a repository."""
    title: str = ""
    """What the task is called, if its plan says so."""
    times: TurnTimes = field(default_factory=TurnTimes)
    """Gets when the parts of the turn begin and end."""

    def enter(self, phase: ActivityPhase, detail: str = "") -> None:
        """Tell people who watch what is done for the job from now on."""
        if self.watch is not None:
            self.watch.enter(phase, detail)

    @property
    def has_checks(self) -> bool:
        """Whether there are checks. Then an agent's report of its own failure is only a claim, too."""
        return bool(self.command.promise and self.command.promise.checks)

    @property
    def needs_proof(self) -> bool:
        """Whether the prover has to check the work."""
        promise = self.command.promise
        return self.repo is not None or (promise is not None and bool(promise.checks))


class Judge(Protocol):
    """A performer whose agents can also judge what they are given."""

    async def judge(self, job: Job, input_name: str, prompt: str) -> Any:
        """Ask the agent for a judgement of an input: an object with score, decision, reason and issues.

        Raises InputError when it cannot be asked here.
        """


class Performer(Protocol):
    """Carries out jobs for agents of one driver."""

    async def perform(self, job: Job) -> Performance:
        """Perform a job. Returns only when nothing of it runs any more; cancelling ends it first.

        Never raises for what the agent does.
        """


class Processes(Protocol):
    """The processes of this machine."""

    def me(self) -> ProcessIdentity:
        """Return the identity of this process."""

    def alive(self, owner: ProcessIdentity) -> bool:
        """Whether it still lives. Another boot, or another process with its number, is not it."""

    async def end(self, lease: str) -> int:
        """Kill every process that carries the lease, confirm that none is left, and say how many there were.

        Raises MachineError when some could not be ended.
        """
