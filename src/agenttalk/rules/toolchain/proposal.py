"""What an event comes to, while it is being worked out: tasks, withdrawals, warnings, and what to remember."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.forge import ForgeEvent, ForgeUser, PullRequest, ReviewVerdict, Sighting
from agenttalk.contracts.toolchain import ActionType, Basis, ProposedTask
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.toolchain import dedup_keys
from agenttalk.rules.toolchain.accounts import ForgeRegistry, same_user
from agenttalk.rules.toolchain.sightings import merge_sightings, object_of

LONGEST_TEXT: Final = 20_000
"""Characters of a text from the forge that a task carries."""
LONGEST_TITLE: Final = 300


@dataclass(frozen=True, slots=True)
class KnownTask:
    """A task that was made before."""

    key: str
    action_type: ActionType
    assignee: str
    object: str
    state: Literal["waiting", "begun", "ended", "withdrawn"] = "waiting"
    """A task that was withdrawn before it began keeps its key, and is restored when it is called for again."""
    head_sha: str = ""
    basis: Basis = "requested"
    hop: int = 0
    at: str = ""
    reviewer: str = ""
    """Whose review it answers."""
    verdict: ReviewVerdict | None = None
    """What that review came to."""
    done_at: str = ""
    """When it was done; empty while it is not."""
    idle: bool = False
    """Whether it has begun and is not worked on now: it was sent back, or waits."""


@dataclass(frozen=True, slots=True)
class ForgeKnowledge:
    """What is known of the things that an event is about. `wanted` says what to look up."""

    tasks: tuple[KnownTask, ...] = ()
    """Tasks of the event's objects, in any state, and those that hold a key it could ask for; those of a whole
    repository that are open, where the event is about that."""
    sightings: tuple[Sighting, ...] = ()
    """The newest sightings of its objects, and of open pull requests whose head it names."""
    held: tuple[ForgeEvent, ...] = ()
    """Failures that wait for a pull request with their commit as its head."""
    met: frozenset[str] = frozenset()
    """Keys of tasks of which the forge shows just now that nothing is left to do."""
    gone: bool = False
    """Whether the repository was deleted."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A task that has not begun, to be withdrawn."""

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """Something to ask the forge for, and then to decide again."""

    repository: str
    sha: str
    number: int | None = None
    lines: bool = False
    """Whether the comments on lines of the review are asked for, which its event leaves out."""


class DeploymentOutcome(NamedTuple):
    """How something was deployed, well or not."""

    key: str
    """Where to (`semantic_keys.deployed`)."""
    sha: str
    at: str
    """When, as its source says it."""
    good: bool = True


@dataclass(frozen=True, slots=True)
class EventDecision:
    """What follows from an event."""

    tasks: tuple[ProposedTask, ...] = ()
    withdrawn: tuple[Withdrawal, ...] = ()
    restored: tuple[str, ...] = ()
    """Keys of tasks that were withdrawn and are to be done after all."""
    warnings: tuple[Problem, ...] = ()
    ignored: str = ""
    """Why there is nothing to do, when there is not."""
    sightings: tuple[Sighting, ...] = ()
    """What to remember."""
    held: bool = False
    """Whether to keep the event until a pull request with its commit is seen."""
    lookups: tuple[Lookup, ...] = ()
    """What the forge could tell."""
    deployed: DeploymentOutcome | None = None
    """What was deployed, to be remembered."""


@dataclass(slots=True)
class SightingChanges:
    """What an event changes in what is remembered of the forge's things."""

    known: tuple[Sighting, ...]
    """The earlier sightings."""
    changed: list[Sighting] = field(default_factory=list)
    """The sightings to remember."""

    def remember(self, sighting: Sighting) -> Sighting:
        """Merge a sighting into what was seen before; it is recorded when it adds something."""
        before = self.find(object_of(sighting))
        now = merge_sightings(before, sighting)
        if now != before:
            self.changed.append(now)
        return now

    def remember_owed(self, sighting: Sighting) -> None:
        """Remember a called agent that cannot begin yet."""
        if not sighting.owed:
            self.amend(object_of(sighting), sighting, {"owed": True})

    def cover(self, object_key: str, key: str) -> None:
        """Remember that a task stands for what is owed as of the newest sighting of its thing."""
        now = self._newest(object_key)
        if now is not None and now.at > now.covered.get(key, ""):
            self.amend(object_key, now, {"covered": {**now.covered, key: now.at}})

    def stands_for(self, task: KnownTask) -> str:
        """Return the newest moment at which a task covered what is owed."""
        now = self._newest(task.object)
        return max(task.at, now.covered.get(task.key, "") if now else "")

    def freed_at(self, object_key: str, *accounts: ForgeUser) -> str:
        """Return when an account was last seen to owe nothing on a thing; empty when it never was."""
        now = self._newest(object_key)
        names = ["", *(dedup_keys.user(each) for each in accounts)]
        return max(now.freed.get(name, "") for name in names) if now else ""

    def remember_deleted_comment(self, object_key: str, comment: int) -> None:
        """Remember that a comment was deleted, as far as its thing is known."""
        now = self._newest(object_key)
        if now is not None and comment not in now.unsaid:
            self.amend(object_key, now, {"unsaid": (*now.unsaid, comment)})

    def is_deleted_comment(self, object_key: str, comment: int) -> bool:
        """Whether a comment was deleted."""
        now = self._newest(object_key)
        return now is not None and comment in now.unsaid

    def find(self, object_key: str) -> Sighting | None:
        """Find the earlier sighting of a thing."""
        found = (each for each in self.known if object_of(each) == object_key)
        return next(found, None)

    def _newest(self, object_key: str) -> Sighting | None:
        found = (each for each in self.changed if object_of(each) == object_key)
        return next(found, None) or self.find(object_key)

    def amend(self, object_key: str, now: Sighting, changes: Mapping[str, Any]) -> None:
        """Remember a sighting with some fields changed."""
        self.changed = [each for each in self.changed if object_of(each) != object_key]
        self.changed.append(now.model_copy(update=dict(changes)))


@dataclass(slots=True)
class DecisionDraft:
    """A decision in the making."""

    event: ForgeEvent
    registry: ForgeRegistry
    known: ForgeKnowledge
    sightings: SightingChanges
    tasks: list[ProposedTask] = field(default_factory=list)
    withdrawn: list[Withdrawal] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lookups: list[Lookup] = field(default_factory=list)
    held: bool = False
    deployed: DeploymentOutcome | None = None
    again: set[str] = field(default_factory=set)
    """Keys of tasks that the event itself calls for."""

    @property
    def repository(self) -> str:
        """`owner/name`, as the forge calls it now."""
        return self.event.repository.full_name

    @property
    def place(self) -> str:
        """What the repository is called in keys."""
        return self.event.repository.key

    def tasks_of(self, object_key: str, *actions: ActionType) -> list[KnownTask]:
        """List the earlier tasks of a thing."""
        return [each for each in self.known.tasks if each.object == object_key and each.action_type in actions]

    def withdraw(self, task: KnownTask, reason: str) -> None:
        """Withdraw a task that has not begun."""
        if (task.state == "waiting" or task.idle) and task.key not in {each.key for each in self.withdrawn}:
            self.withdrawn.append(Withdrawal(task.key, reason))

    def postpone(self, key: str, reason: str) -> None:
        """Make a task of this decision and withdraw it at once, until its thing is open again."""
        self.restored = [each for each in self.restored if each != key]
        if any(each.key == key for each in self.tasks):
            self.withdrawn.append(Withdrawal(key, reason))

    def restore(self, task: KnownTask) -> None:
        """Restore a withdrawn task."""
        if task.state == "withdrawn" and task.key not in self.restored and not self.is_met(task.object, task.key):
            self.restored.append(task.key)

    def is_met(self, object_key: str, key: str) -> bool:
        """Whether the forge showed that nothing is left to do for a task, and no event has called for it since."""
        sighting = self.sightings.find(object_key)
        found = key in self.known.met or (sighting is not None and key in sighting.met)
        return found and key not in self.again

    def call_again(self, object_key: str, key: str) -> None:
        """Let the event itself request a task; earlier findings no longer count."""
        self.again.add(key)
        every = (*self.sightings.changed, *self.known.sightings)
        now = next((each for each in every if object_of(each) == object_key and key in each.met), None)
        if now is not None:
            self.sightings.amend(object_key, now, {"met": tuple(each for each in now.met if each != key)})

    def find_agent(self, user: ForgeUser, action: ActionType, *, from_sender: bool = False) -> str | None:
        """Find the agent of an account, or note why it gets no task."""
        agent = self.registry.agent_of(user)
        if agent is None:
            self.warn(user.login, action)
        elif not from_sender and same_user(self.event.sender, user):
            self.notes.append(toolchain_words.DELIVERY["own_doing"](who=user.login))
            return None
        return agent

    def warn(self, login: str, action: ActionType) -> None:
        """Note that an account that is not an agent should get a task."""
        text = f"{action} in {self.repository} is for {login!r}, which is not an agent's account at {self.event.source}"
        hint = f"add the account to an agent (agents.NAME.forge.{self.event.source})"
        self.warnings.append(Problem(Code.FORGE_ASSIGNEE_UNKNOWN, "assignee", text, hint))

    def propose(
        self,
        action: ActionType,
        agent: str,
        key: str,
        object_key: str,
        context: Mapping[str, Any],
        *,
        pull: PullRequest | None = None,
        basis: Basis = "requested",
        hop: int = 0,
        replaces: tuple[str, ...] = (),
        head: str = "",
    ) -> None:
        """Propose a task for an agent, unless it exists already."""
        before = next((each for each in self.known.tasks if each.key == key), None)
        if before is not None:
            if before.state != "ended":
                self.sightings.cover(object_key, key)
            self.restore(before)
            self.notes.append(toolchain_words.DELIVERY["task_there"]())
        elif self.is_met(object_key, key):
            self.notes.append(toolchain_words.DELIVERY["shown_done"]())
            return
        if before is not None or any(each.key == key for each in self.tasks):
            return
        facts = {"repo": self.repository, **context}
        if pull is not None:
            facts |= {"pr_number": pull.number, "pr_title": cut_text(pull.title, LONGEST_TITLE), "url": pull.url}
            facts |= {"head_sha": pull.head_sha, "fork": pull.fork}
        self.tasks.append(
            ProposedTask(
                key=key,
                action_type=action,
                assignee=agent,  # type: ignore[arg-type]  # checked by the model
                source=self.event.source,
                object=object_key,
                context=facts,
                head_sha=head or (pull.head_sha if pull else ""),
                basis=basis,
                hop=hop,
                at=self.event.at,
                replaces=replaces,
                reviewer=dedup_keys.user(self.event.review.author) if self.event.review else "",
            )
        )
        self.sightings.cover(object_key, key)

    def to_decision(self) -> EventDecision:
        """Return the decision."""
        replaced = {key for task in self.tasks for key in task.replaces}
        withdrawn = tuple(each for each in self.withdrawn if each.key not in replaced)
        nothing = not (self.tasks or withdrawn or self.restored or self.held)
        return EventDecision(
            tasks=tuple(self.tasks),
            withdrawn=withdrawn,
            restored=tuple(self.restored),
            warnings=tuple(self.warnings),
            ignored=(self.notes[-1] if self.notes else toolchain_words.DELIVERY["nothing"]()) if nothing else "",
            sightings=tuple(self.sightings.changed),
            held=self.held,
            lookups=tuple(self.lookups),
            deployed=self.deployed,
        )


def cut_text(text: str, longest: int = LONGEST_TEXT) -> str:
    """Cut a text to a length."""
    return text if len(text) <= longest else f"{text[:longest]}…"
