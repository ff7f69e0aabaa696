"""Posts queued comments and issues at the forges: each once and in order, also across crashes and outages.

Before it repeats a post it searches for it at the forge by the hidden marker: the engine may have died between posting
and noting it, or the forge's answer may have been lost. A source that keeps failing is not asked for a while.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.errors import AgentTalkError, Code, ForgeError
from agenttalk.contracts.forge import ForgeEvent, ForgeIssue, Repository
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import toolchain_questions
from agenttalk.engine.toolchain import outages
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard
from agenttalk.engine.toolchain.outages import Outages
from agenttalk.engine.toolchain.triage import RETRY_CHOICES, UNSEEN_REPOSITORY_CHOICES, Triage
from agenttalk.ports.forge import Forge
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.statements.toolchain import (
    ANSWERED_OUTGOING,
    BEGIN_OUTGOING,
    BREAKER,
    DUE_OUTGOING,
    END_OUTGOING,
    HELD_OF,
    HOLD_OUTGOING,
    NEXT_OUTGOING_AT,
    RELEASE_OUTGOING,
    RETRY_OUTGOING,
    SENT_SINCE,
)
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core import circuit_breaker
from agenttalk.rules.prompts.toolchain_failures import render_line
from agenttalk.rules.text import failure_words
from agenttalk.rules.toolchain import triage

LOG = logging.getLogger(__name__)
IDLE: Final = 3600.0
"""Seconds after which a pass begins without a wake-up."""
POST_CHOICES: Final = ("post", "drop")
CLAIM: Final = timedelta(minutes=5)
"""How long a post that one engine began is left to it, where several engines share a store."""
_TOGETHER: Final = 50
_HOUR: Final = timedelta(hours=1)
_EVER: Final = "1970-01-01T00:00:00Z"
_ANY_TIME: Final = "9999"
_AWAY: Final = frozenset({Code.FORGE_UNREACHABLE, Code.FORGE_IN_DOUBT, Code.FORGE_ANSWER_INVALID})
Retry = Callable[[str, str], Awaitable[object]]
"""Tries a task again: its id, and the person who decided it."""


class OutgoingPost(NamedTuple):
    """A queued post, a row of the query `due_outgoing`."""

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
    """When the event happened that led to it, as the forge writes it."""


class PostResult(NamedTuple):
    """The result of a post."""

    what: str
    """The number of the comment or issue."""
    assigned: bool = True


class ForgePoster:
    """Posts at the forges for which the engine has a token."""

    def __init__(
        self,
        deps: Deps,
        board: ToolchainBoard,
        forges: Mapping[str, Forge],
        *,
        retry: Retry,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        """`nudge` wakes the dispatcher for new tasks."""
        self._deps = deps
        self._board = board
        self._forges = forges
        self._outages = Outages(deps, board)
        self._desk = Triage(deps, board, frozenset(forges), self._outages)
        self._retry = retry
        self._nudge = nudge
        self._logins: dict[str, str] = {}

    async def pass_(self) -> float:
        """Post all that is due. Returns the seconds until something is due again."""
        if not self._deps.stores.has_board(BOARD):
            return IDLE
        store = await self._deps.stores.board(BOARD)
        while await self._desk.pass_(store) + await self._answers(store):
            self._nudge()
        posting = (self._post_all(store, source, forge) for source, forge in self._forges.items())
        for error in await asyncio.gather(*posting, return_exceptions=True):  # a failing source delays no other
            if error is not None:
                raise error
        return await self._pause(store)

    async def _pause(self, store: Store) -> float:
        times = [await self._desk.next_due_at(store)]
        for source in self._forges:
            [(due,)] = await store.read(NEXT_OUTGOING_AT, source=source)
            known = outages.read_availability(await store.read(BREAKER, source=source)).breaker
            until = format_instant(known.not_before) if known.not_before else None
            if known.opened_at is not None:
                times.append(until)  # the source is probed even if no post waits for it
            elif due is not None:
                times.append(max(due, until or due))
        now = self._deps.now()
        return min([IDLE, *(max(0.0, (parse_instant(time) - now).total_seconds()) for time in times if time)])

    # Answers of people

    async def _answers(self, store: Store) -> int:
        rows = await store.read(ANSWERED_OUTGOING, limit=_TOGETHER)
        for row in rows:
            answer = HumanInterventionResponse.from_bytes(bytes(row.response))
            chosen = [str(choice) for choice in answer.decision_answers]
            if row.kind == "question":
                if RETRY_CHOICES[0] in chosen:
                    await self._try_again(row.task_id, row.answered_by)
                if UNSEEN_REPOSITORY_CHOICES[1] in chosen:
                    await self._end_repository(store, row.task_id)
                await self._end(store, row.id, "answered", row.answered_by)
            elif answer.decision == "APPROVE" or POST_CHOICES[0] in chosen:
                await self._release(store, row.id)
            else:
                await self._end(store, row.id, "dropped", row.answered_by)
        return len(rows)

    async def _release(self, store: Store, number: int) -> None:
        at = self._deps.stamp()
        await store.transact(lambda tx: tx.run(RELEASE_OUTGOING, id=number, at=at))

    async def _try_again(self, task_id: str, by: str) -> None:
        try:
            await self._retry(task_id, by)
        except AgentTalkError as error:
            LOG.warning("%s is not tried again: %s", task_id, error.message, extra={"action": "outgoing.retry"})

    async def _end_repository(self, store: Store, task_id: str) -> None:
        """Process a person's answer that a repository was deleted, like the forge's own event."""
        task = await store.read_together(lambda now: self._deps.kinds[BOARD].task(now, task_id))
        place = self._board.setup.places.get(task.source) if task is not None else None
        if task is not None and place is not None:
            where = Repository(full_name=str(task.context.get("repo", "")))
            event = ForgeEvent(source=task.source, kind=place.kind, name="repository_deleted", repository=where)
            await self._board.process_events([(event, {})])

    async def _end(self, store: Store, number: int, state: str, by: str) -> None:
        at = self._deps.stamp()
        await store.transact(
            lambda tx: tx.run(END_OUTGOING, id=number, state=state, at=at, posted="", why=f"decided by {by}")
        )

    # Forges

    async def _post_all(self, store: Store, source: str, forge: Forge) -> None:
        """Post all that is due at one source, or stop at the first failure."""
        while True:
            known = outages.read_availability(await store.read(BREAKER, source=source)).breaker
            answer = circuit_breaker.may_ask(known, self._deps.now())
            if answer == "no" or (answer == "probe" and not await self._probed(store, source, forge)):
                return
            limit, now = (1, _ANY_TIME) if answer == "probe" else (_TOGETHER, self._deps.stamp())
            rows = await store.read(DUE_OUTGOING, source=source, now=now, limit=limit)
            for row in rows:
                if not await self._try_post(store, source, forge, OutgoingPost(*row)):
                    return
            if not rows:
                await store.transact(lambda tx: self._outages.note_recovery(tx, source))
                return

    async def _probed(self, store: Store, source: str, forge: Forge) -> bool:
        """Whether a source answers a read again.

        A source that can be read may still refuse writes. So it counts as recovered only after a post succeeded, or
        when no post waits for it.
        """
        try:
            await self._whoami(source, forge, anew=True)
        except ForgeError as error:
            await self._note_failure(store, source, None, error)
            return False
        return True

    async def _try_post(self, store: Store, source: str, forge: Forge, item: OutgoingPost) -> bool:
        """Post one text. Returns False if the source is out of order."""
        until = format_instant(self._deps.now() + (CLAIM if self._deps.shared else timedelta()))
        if not await store.transact(lambda tx: self._claim(tx, source, item, until)):
            return True
        try:
            posted = await self._find_earlier_post(source, forge, item) if item.tries else None
            posted = posted or await _post(forge, item)
        except ForgeError as error:
            return await self._note_failure(store, source, item, error)
        await store.transact(lambda tx: self._mark_posted(tx, source, item, posted))
        return True

    def _claim(self, tx: Tx, source: str, item: OutgoingPost, until: str) -> bool:
        """Note that a post begins. Returns False if another engine began it, or its place got too many posts."""
        at, caps = self._deps.stamp(), self._board.setup.caps
        [(count,)] = tx.run(SENT_SINCE, object=item.object, since=format_instant(self._deps.now() - _HOUR))
        if count >= caps.comments_per_hour and not item.allowed and not item.tries:
            question = failure_words.CAPPED.render(self._locale, count=count, object=item.object)
            self._hold(tx, source, item, question, at)
            return False
        return bool(tx.run(BEGIN_OUTGOING, id=item.id, tries=item.tries, until=until))

    def _hold(self, tx: Tx, source: str, item: OutgoingPost, question: str, at: str) -> None:
        """Hold a post until a person decides. All posts held at one place share an open question."""
        asked = [row.request_id for row in tx.run(HELD_OF, object=item.object)]
        request_id = next((known for known in asked if tx.run(REQUEST, request_id=known)[0].state == "open"), None)
        if request_id is None:
            criteria = {"source": source, "object": item.object, "text": item.body}
            request_id = toolchain_questions.ask(
                tx, f"held/{item.key}/{item.tries}", question, question, POST_CHOICES, at=at, criteria=criteria
            )
        if tx.run(HOLD_OUTGOING, id=item.id, request_id=request_id, why=question):
            tx.record("outgoing.held", f"{BOARD}/{item.task_id}", {"key": item.key, "request_id": request_id})

    def _mark_posted(self, tx: Tx, source: str, item: OutgoingPost, posted: PostResult) -> None:
        at = self._deps.stamp()
        self._outages.note_recovery(tx, source)
        if not tx.run(END_OUTGOING, id=item.id, state="sent", at=at, posted=posted.what, why=""):
            return
        tx.record("outgoing.sent", f"{BOARD}/{item.task_id}", {"key": item.key, "posted": posted.what})
        if not posted.assigned:
            where = f"{item.repository}#{posted.what}"
            question = failure_words.UNASSIGNED.render(self._locale, source=source, object=where, login=item.assignee)
            toolchain_questions.ask(tx, f"unassigned/{item.key}", question, question, at=at)

    async def _note_failure(self, store: Store, source: str, item: OutgoingPost | None, error: ForgeError) -> bool:
        """Note a failure. Returns False if the source is out of order, so that nothing else is tried there now."""
        away = error.code in _AWAY or error.status == 401
        at, now = self._deps.stamp(), self._deps.now()

        def work(tx: Tx) -> None:
            if error.code is Code.FORGE_LIMITED:
                self._outages.note_rate_limit(tx, source, error.retry_after)
            elif away or item is None:
                self._outages.note_failure(tx, source, render_line(error.message))
            if item is None:
                return
            if away or error.retriable:
                pause = circuit_breaker.compute_pause(item.tries + 1, error.retry_after)
                until = format_instant(now + timedelta(seconds=pause))
                tx.run(RETRY_OUTGOING, id=item.id, until=until, why=error.message[:1000])
            else:
                self._outages.note_recovery(tx, source)  # a refusal is an answer, too
                reason = render_line(error.message).rstrip(".。")
                question = failure_words.REFUSED.render(self._locale, source=source, object=item.object, reason=reason)
                self._hold(tx, source, item, question, at)

        await store.transact(work)
        self._nudge()
        LOG.warning("%s: %s", source, error.message, extra={"action": "outgoing.failed"})
        return not (away or error.code is Code.FORGE_LIMITED)

    # Earlier posts

    async def _find_earlier_post(self, source: str, forge: Forge, item: OutgoingPost) -> PostResult | None:
        """Find what an earlier try posted. Only posts of the engine's own account count."""
        me = await self._whoami(source, forge)
        if item.kind == "comment":
            for each in await forge.issues.list_comments(item.repository, item.number):
                if triage.is_posted(item.key, [(each.author.login, each.body)], me):
                    return PostResult(str(each.id))
            return None
        for issue in await forge.issues.list_since(item.repository, item.since or _EVER):
            if triage.is_posted(item.key, [(issue.author.login, issue.body)], me):
                given = _has(issue, item.assignee) or not issue.is_open
                now = issue if given else await forge.issues.assign(item.repository, issue.number, [item.assignee])
                return PostResult(str(issue.number), given or _has(now, item.assignee))
        return None

    async def _whoami(self, source: str, forge: Forge, *, anew: bool = False) -> str:
        if anew or source not in self._logins:
            self._logins[source] = (await forge.account.read_user()).login
        return self._logins[source]

    @property
    def _locale(self) -> Locale:
        return self._board.setup.style("").locale


def _has(issue: ForgeIssue, login: str) -> bool:
    return any(each.login.lower() == login.lower() for each in issue.assignees)


async def _post(forge: Forge, item: OutgoingPost) -> PostResult:
    if item.kind == "comment":
        return PostResult(str((await forge.issues.comment(item.repository, item.number, item.body)).id))
    issue = await forge.issues.create(item.repository, item.title, item.body, [item.assignee])
    return PostResult(str(issue.number), _has(issue, item.assignee))
