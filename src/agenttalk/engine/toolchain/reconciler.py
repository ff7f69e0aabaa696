"""Reads the forges and updates the tasks to what they show, because webhooks may be lost.

It reads open pull requests and issues and those of open tasks, so old closed ones cost nothing. A request that fails
changes nothing: no task is closed because something could not be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.errors import AgentTalkError, Code, ForgeError, Problem
from agenttalk.contracts.forge import ForgeEvent, ForgeIssue, PullRequest, Repository, Review
from agenttalk.contracts.toolchain import ProposedTask
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.toolchain import forge_names
from agenttalk.engine.toolchain.board import BOARD, EventOutcome, ToolchainBoard, derive_events
from agenttalk.engine.toolchain.deliveries import ContentReader, WriteAccessReader
from agenttalk.ports.forge import Forge
from agenttalk.ports.statements.toolchain import TOOLCHAIN_PAGE_OPEN, TOOLCHAIN_TASK, ToolchainTaskRow
from agenttalk.rules.prompts.toolchain_steps import ForgeContent
from agenttalk.rules.toolchain import dedup_keys, event_tasks, reconciliation
from agenttalk.rules.toolchain import deployments as deployments_rules
from agenttalk.rules.toolchain.accounts import ForgeRegistry, is_single_repository
from agenttalk.rules.toolchain.deployments import FailedDeployment, NewestCommit
from agenttalk.rules.toolchain.proposal import ForgeKnowledge
from agenttalk.rules.toolchain.reconciliation import ForgeSnapshot

LOG = logging.getLogger(__name__)
_PAGE: Final = 500
_ENDS_A_SOURCE: Final = frozenset({Code.FORGE_LIMITED, Code.FORGE_UNREACHABLE})
"""Errors after which the same forge is not asked for more."""
_ON_PULLS: Final[frozenset[str]] = frozenset(
    {"review_request", "review_updated", "review_result", "review_comment", "ci_failure"}
)
_ENDS: Final = _ON_PULLS | {"issue_assigned"}
"""Tasks that end with their pull request or issue. A mention does not: it still wants an answer."""


class CreatedTask(TypedDict):
    """A task that a forge's present state demands."""

    task: str
    action_type: str
    assignee: str
    object: str


class ClosedTask(TypedDict):
    """A task that a forge's present state makes superfluous."""

    task: str
    why: str


class ReadFailure(TypedDict):
    """Something that could not be read at a forge."""

    where: str
    code: str
    message: str


@dataclass(slots=True)
class ReconcileReport:
    """The result of reconciling one source."""

    source: str
    repositories: int = 0
    """How many repositories were read."""
    things: int = 0
    """How many pull requests and issues were checked."""
    made: list[CreatedTask] = field(default_factory=list)
    closed: list[ClosedTask] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    errors: list[ReadFailure] = field(default_factory=list)

    def note_error(self, where: str, error: AgentTalkError) -> None:
        """Note what could not be read."""
        self.errors.append({"where": where, "code": str(error.code), "message": error.message})


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of reading the forges."""

    ok: bool
    dry_run: bool
    sources: tuple[ReconcileReport, ...]

    def as_json(self) -> dict[str, object]:
        """Return the result as a JSON document."""
        return asdict(self)


@dataclass(slots=True)
class _OpenTasks:
    """The pull requests, issues and deployments of a source's open tasks."""

    things: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    """Repository → number → kinds of the tasks."""
    deployments: dict[str, dict[str, FailedDeployment]] = field(default_factory=dict)
    """Repository → key of the task → the deployment that failed."""


@dataclass(slots=True)
class _Repository:
    """A repository with its open pull requests and issues."""

    forge: Forge
    source: str
    kind: ForgeKind
    name: str
    pulls: Mapping[int, PullRequest]
    issues: Mapping[int, ForgeIssue]
    number: int | None = None
    """The forge's number of the repository, which stays when it is renamed."""
    known_as: str = ""
    """The name under which its tasks are stored, if that is another than its own."""

    def shown(self, thing: PullRequest | ForgeIssue) -> ForgeSnapshot:
        """Make the snapshot of a pull request or issue, as far as it was read."""
        return ForgeSnapshot(
            self.source, self.kind, self.name, thing, known_as=self.known_as, repository_id=self.number
        )


class Reconciler:
    """Reconciles all sources that have a token, in one pass at a time."""

    def __init__(
        self,
        deps: Deps,
        board: ToolchainBoard,
        forges: Mapping[str, Forge],
        *,
        gather: ContentReader | None = None,
        rights: WriteAccessReader | None = None,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        """`nudge` wakes the dispatcher for new tasks."""
        self._deps = deps
        self._board = board
        self._forges = forges
        self._gather = gather
        self._rights = rights
        self._nudge = nudge
        self._alone = asyncio.Lock()
        self._not_before: dict[str, datetime] = {}
        self._read: dict[str, dict[str, str]] = {}
        """Repository → open pull request or issue → its time of change when its comments were last read."""

    async def pass_(self, *, dry_run: bool = False) -> ReconcileResult:
        """Reconcile all sources once. Returns what was done, or with `dry_run` what would be done."""
        async with self._alone:
            reports = [await self._source(name, self._forges[name], dry_run=dry_run) for name in sorted(self._forges)]
        for report in reports:
            for error in report.errors:
                LOG.warning("%s: %s", error["where"], error["message"], extra={"action": "reconcile.read"})
        if not dry_run and any(report.made or report.restored for report in reports):
            self._nudge()
        return ReconcileResult(not any(report.errors for report in reports), dry_run, tuple(reports))

    async def _source(self, name: str, forge: Forge, *, dry_run: bool) -> ReconcileReport:
        looked = ReconcileReport(name)
        until = self._not_before.get(name)
        if until is not None and self._deps.now() < until:
            looked.note_error(
                name, ForgeError(Code.FORGE_LIMITED, f"{name} wants to be left alone until {until:%H:%M:%S}")
            )
            return looked
        try:
            tasks = await self._open_tasks(name)
            for repository in await self._repositories(forge, looked, tasks, dry_run=dry_run):
                await self._repository(forge, looked, repository, tasks, dry_run=dry_run)
        except ForgeError as error:
            if error.retry_after:
                self._not_before[name] = self._deps.now() + timedelta(seconds=error.retry_after)
            looked.note_error(name, error)
        return looked

    async def _open_tasks(self, source: str) -> _OpenTasks:
        found = _OpenTasks()
        if not self._deps.stores.has_board(BOARD):
            return found
        store = await self._deps.stores.board(BOARD)
        after = 0
        while rows := await store.read(TOOLCHAIN_PAGE_OPEN, after=after, limit=_PAGE):
            after = rows[-1].id
            for row in rows:
                if row.source == source:
                    must_haves: Any = wire.read(bytes(row.must_haves), limit=wire.DOCUMENT_LIMIT)
                    kind, context = must_haves["action_type"], must_haves["context"]
                    if kind == "deploy_failure":
                        _note_undone(found, context, *await store.read(TOOLCHAIN_TASK, task_id=row.task_id))
                    else:
                        _note(found, source, row.object, kind)
        return found

    async def _repositories(
        self, forge: Forge, looked: ReconcileReport, tasks: _OpenTasks, *, dry_run: bool
    ) -> list[tuple[Repository, str]]:
        """List each repository once: those that the settings name or cover, and those of open tasks.

        Each comes with the name under which its tasks are stored. A renamed one may be listed under both names.
        """
        registry: ForgeRegistry = self._board.setup.registry
        plain = [each for each in registry.repositories if is_single_repository(each)]
        listed = await forge.account.list_repositories() if len(plain) < len(registry.repositories) else ()
        named = (*tasks.things, *tasks.deployments, *plain, *listed)
        repositories: dict[str, tuple[Repository, str]] = {}
        for name in sorted({each.lower(): each for each in named if registry.covers(each)}.values(), key=str.lower):
            try:
                repository = await forge.repositories.read(name.partition("~")[0])
            except ForgeError as error:
                _unless_over(error)
                looked.note_error(f"{looked.source}:{name}", error)
                if error.code is Code.FORGE_MISSING and not dry_run:
                    await self._withdraw_unseen(looked, name)
                continue
            kept = await self._known_as(looked.source, repository)
            repositories.setdefault(kept or repository.full_name.lower(), (repository, kept))
        return [repositories[key] for key in sorted(repositories)]

    async def _withdraw_unseen(self, looked: ReconcileReport, name: str) -> None:
        """Withdraw the tasks of a known repository that the forge no longer shows, until it is seen again."""
        if not self._deps.stores.has_board(BOARD):
            return
        store = await self._deps.stores.board(BOARD)
        if not await store.read_together(lambda now: forge_names.is_repository_known(now, looked.source, name)):
            return
        kind = self._board.setup.places[looked.source].kind
        where = Repository(full_name=name.partition("~")[0], known_as=name)
        event = ForgeEvent(
            source=looked.source, kind=kind, name="repository_deleted", repository=where, first_hand=True
        )
        [written] = await self._board.process_events([(event, {})])
        _add_outcome(looked, [(event, written)])
        if written.withdrawn:
            text = f"{written.reasons[0]}: {len(written.withdrawn)} tasks were withdrawn"
            hint = "if it still exists, give the account of the source's token read access; that restores the tasks"
            await self._board.warn(Problem(Code.FORGE_UNSEEN, name, text, hint))

    async def _known_as(self, source: str, repository: Repository) -> str:
        if not self._deps.stores.has_board(BOARD):
            return ""
        store = await self._deps.stores.board(BOARD)
        return await store.read_together(lambda now: forge_names.find_stored_name(now, source, repository))

    async def _entitled(self, snapshot: ForgeSnapshot) -> ForgeSnapshot:
        """Add which authors of comments may write, and so may call agents."""
        if self._rights is None:
            return snapshot
        registry, may = self._board.setup.registry, set[str]()
        for login in reconciliation.list_callers(snapshot, registry):
            if await self._rights(snapshot.source, snapshot.repository, login):
                may.add(login.lower())
        return replace(snapshot, writers=frozenset(may))

    async def _repository(
        self, forge: Forge, looked: ReconcileReport, about: tuple[Repository, str], tasks: _OpenTasks, *, dry_run: bool
    ) -> None:
        """Reconcile one repository, and note what cannot be read. Raises ForgeError if the whole forge is out."""
        name, key = about[0].full_name, about[1] or about[0].full_name.lower()
        kind = self._board.setup.places[looked.source].kind
        where = f"{looked.source}:{name}"
        try:
            pulls = {each.number: each for each in await forge.pulls.list_open(name)}
            issues = {each.number: each for each in await forge.issues.list_open(name)}
        except ForgeError as error:
            _unless_over(error)
            looked.note_error(where, error)
            return
        looked.repositories += 1
        mine = tasks.things.get(key, {})
        repository = _Repository(forge, looked.source, kind, name, pulls, issues, about[0].id, about[1])
        before, now = self._read.get(where, {}), dict[str, str]()
        for number in sorted({*pulls, *issues, *(each for each, kinds in mine.items() if kinds & _ENDS)}):
            try:
                read = await _read_thing(repository, number, mine.get(number, set()), before, now=self._deps.stamp())
                snapshot = await self._entitled(read)
                looked.things += 1
                await self._settle(snapshot, looked, dry_run=dry_run)
                now[snapshot.object] = snapshot.thing.updated_at
            except ForgeError as error:
                _unless_over(error)
                looked.note_error(f"{where}#{number}", error)
        if not dry_run:
            self._read[where] = now
        if deployments_rules.is_watched(self._board.setup.registry):
            await self._deployed(repository, looked, tasks.deployments.get(key, {}), dry_run=dry_run)

    async def _deployed(
        self, repository: _Repository, looked: ReconcileReport, undone: Mapping[str, FailedDeployment], *, dry_run: bool
    ) -> None:
        """Reconcile the deployments of the newest commit of the default branch."""
        forge, name = repository.forge, repository.name
        try:
            branch, sha = await forge.repositories.find_newest_commit(name)
            statuses = await forge.repositories.list_statuses(name, sha)
        except ForgeError as error:
            _unless_over(error)
            if error.code != Code.FORGE_MISSING:  # missing: the repository has no commit yet
                looked.note_error(f"{looked.source}:{name}", error)
            return
        newest = NewestCommit(repository.source, repository.kind, name, branch, sha, statuses, undone)
        if derive_events(newest, self._board.setup.registry):
            await self._settle(newest, looked, dry_run=dry_run)

    async def _settle(self, snapshot: ForgeSnapshot | NewestCommit, looked: ReconcileReport, *, dry_run: bool) -> None:
        """Find out by a dry run which tasks are new, read at the forge what they should say, then make them."""
        if not self._deps.stores.has_board(BOARD) and not self._calls_for_something(snapshot):
            return
        foreseen = await self._board.reconcile(snapshot, {}, dry_run=True)
        decisions = [written.decision for _, written in foreseen]
        if dry_run or not any(
            decision.tasks or decision.withdrawn or decision.restored or decision.sightings for decision in decisions
        ):
            _add_outcome(looked, foreseen)
            return
        content = {
            task.key: await self._content(event, task) for event, written in foreseen for task in written.decision.tasks
        }
        _add_outcome(looked, await self._board.reconcile(snapshot, content))

    def _calls_for_something(self, snapshot: ForgeSnapshot | NewestCommit) -> bool:
        registry = self._board.setup.registry
        return any(
            event_tasks.decide(event, registry, ForgeKnowledge()).tasks for event in derive_events(snapshot, registry)
        )

    async def _content(self, event: ForgeEvent, task: ProposedTask) -> ForgeContent:
        if self._gather is None:
            return ForgeContent()
        try:
            return await self._gather(event, task)
        except AgentTalkError as error:
            LOG.warning("%s: %s", event.source, error.message, extra={"action": "reconcile.gather"})
            return ForgeContent()


async def _read_thing(
    repository: _Repository, number: int, kinds: set[str], before: Mapping[str, str], *, now: str
) -> ForgeSnapshot:
    """Read a pull request or issue. Comments are left out if they cannot have changed since the last pass.

    The repository itself was just read, so a pull request or issue that is missing in it was deleted.
    """
    forge, name = repository.forge, repository.name
    thing = repository.pulls.get(number) or repository.issues.get(number)
    if thing is None:  # no longer open
        on_pull = bool(kinds & _ON_PULLS)
        try:
            gone = await forge.pulls.read(name, number) if on_pull else await forge.issues.read(name, number)
        except ForgeError as error:
            if error.code is not Code.FORGE_MISSING:
                raise
            left = reconciliation.make_deleted_thing(repository.source, number, pull=on_pull, at=now)
            return replace(repository.shown(left), deleted=True)
        return replace(repository.shown(gone), changes=await forge.issues.list_changes(name, number))
    reviews: tuple[Review, ...] = ()
    if isinstance(thing, PullRequest):
        thing, reviews = await forge.pulls.read_review_requests(name, thing)
    snapshot = repository.shown(thing)
    # Deleting a comment leaves the time of change as it was, so comments that mention an agent are always read.
    changed = before.get(snapshot.object) != thing.updated_at or "mention" in kinds
    snapshot = replace(snapshot, comments=await forge.issues.list_comments(name, number) if changed else None)
    if not isinstance(thing, PullRequest):
        owed = changed and (bool(thing.assignees) or "issue_assigned" in kinds)
        return replace(snapshot, changes=await forge.issues.list_changes(name, number)) if owed else snapshot
    statuses = await forge.repositories.list_statuses(name, thing.head_sha) if thing.head_sha else ()
    changes = (
        await forge.issues.list_changes(name, number) if "review_result" in kinds else ()
    )  # who took a review back
    snapshot = replace(snapshot, reviews=reviews, statuses=statuses, changes=changes)
    if snapshot.comments is None:
        return snapshot
    ids = [review.id for review in reviews if review.id is not None]
    lines = [line for review in ids for line in await forge.pulls.list_review_comments(name, number, review)]
    comments = {comment.id: comment for comment in (*snapshot.comments, *lines)}
    return replace(snapshot, comments=tuple(sorted(comments.values(), key=lambda each: (each.created_at, each.id))))


def _note(found: _OpenTasks, source: str, about: str, kind: str) -> None:
    """Note the pull request or issue of an open task."""
    thing = dedup_keys.read_object(about)
    if thing is not None and thing[0] == source:
        found.things.setdefault(thing[1], {}).setdefault(thing[2], set()).add(kind)


def _note_undone(found: _OpenTasks, context: Mapping[str, Any], *rows: ToolchainTaskRow) -> None:
    """Note the failed deployment of an open task, from rows of the query `toolchain_task`."""
    for row in rows:
        undone = FailedDeployment(
            context.get("deploy_context") or "", row.event_at or row.made_at, context["commit_sha"]
        )
        found.deployments.setdefault(context["repo"].lower(), {})[row.key] = undone


def _unless_over(error: ForgeError) -> None:
    if error.code in _ENDS_A_SOURCE:
        raise error


def _add_outcome(looked: ReconcileReport, written: list[tuple[ForgeEvent, EventOutcome]]) -> None:
    for _, outcome in written:
        for task_id, task in zip(outcome.made, outcome.tasks, strict=True):
            made: CreatedTask = {
                "task": task_id,
                "action_type": task.action_type,
                "assignee": task.assignee,
                "object": task.object,
            }
            looked.made.append(made)
        for task_id, why in zip(outcome.withdrawn, outcome.reasons, strict=True):
            looked.closed.append({"task": task_id, "why": why})
        looked.restored += outcome.restored
