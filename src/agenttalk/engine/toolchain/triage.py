"""Decides who learns of work that is overdue or was not done: the agent, the lead or an operator.

The end of a turn leaves a durable effect in its own commit. One transaction turns the effect into outgoing posts and
questions, so a crash loses none and repeats none. `outgoing` posts them at the forge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant, parse_instant
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.errors import Code
from agenttalk.contracts.toolchain import NOT_DONE, ProposedTask
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import toolchain_questions
from agenttalk.engine.plans import rework_rounds
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard
from agenttalk.engine.toolchain.outages import Outages
from agenttalk.ports.kinds import KindTask
from agenttalk.ports.statements.core import ADD_COMMENT, CLAIM_EFFECTS, COMMENTS_OF, FINISH_EFFECT, NEXT_EFFECT_AT
from agenttalk.ports.statements.toolchain import (
    ADD_OUTGOING,
    NEXT_OVERDUE,
    NOTE_REMINDER,
    OVERDUE_TASKS,
    PUT_SIGHTING,
    SIGHTING,
)
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.prompts import toolchain_failures as texts
from agenttalk.rules.text import failure_words
from agenttalk.rules.text.catalogue import restore_messages
from agenttalk.rules.text.message import render
from agenttalk.rules.toolchain import dedup_keys, event_tasks, triage
from agenttalk.rules.toolchain.mentions import Marker, write_marker
from agenttalk.rules.toolchain.triage import (
    OVERDUE,
    ForgePlace,
    TaskFailure,
    TriageComment,
    TriageIssue,
    TriageQuestion,
)

RETRY_CHOICES: Final = ("retry", "give up")
UNSEEN_REPOSITORY_CHOICES: Final = ("access given", "deleted")
"""A person's answers about a repository that the engine's account does not see."""
_TOGETHER: Final = 50
_MOST_SAID: Final = 1_000
_LONGEST_TITLE: Final = 200


class PostDraft(NamedTuple):
    """A text to be posted."""

    kind: Literal["comment", "issue", "question"]
    object: str
    """The pull request, issue or repository of the post. Posts about the same one keep their order."""
    title: str
    text: str
    place: ForgePlace = ForgePlace("")
    login: str = ""
    request_id: str | None = None


class Triage:
    """Decides who is informed. `reached` are the sources to which the engine can write."""

    def __init__(self, deps: Deps, board: ToolchainBoard, reached: Collection[str], outages: Outages) -> None:
        self._deps = deps
        self._board = board
        self._reached = reached
        self._outages = outages

    async def pass_(self, store: Store) -> int:
        """Handle everything that is due now. Returns how many things that were."""
        return await self._take_up(store) + await self._remind(store, 0) + await self._remind(store, 1)

    async def next_due_at(self, store: Store) -> str | None:
        """Return when the next reminder or escalation is due."""
        times: list[str] = []
        for stage, seconds in enumerate(self._waits):
            rows, wait = await store.read(NEXT_OVERDUE, reminders=stage), timedelta(seconds=seconds)
            times += [format_instant(parse_instant(row.since) + wait) for row in rows]
        return min(times, default=None)

    @property
    def _waits(self) -> tuple[int, int]:
        """Seconds from the last report to the reminder, and to the lead."""
        caps = self._board.setup.caps
        return caps.remind_after, caps.escalate_after

    # Tasks that were not done

    async def _take_up(self, store: Store) -> int:
        at = self._deps.stamp()
        due = await store.read(NEXT_EFFECT_AT, kind=NOT_DONE)
        if not due or due[0].not_before > at:
            return 0

        def work(tx: Tx) -> int:
            rows = tx.run(CLAIM_EFFECTS, kind=NOT_DONE, limit=_TOGETHER, now=at, until=at)
            for row in sorted(rows):
                failure: Any = restore_messages(wire.read(bytes(row.body), limit=wire.DOCUMENT_LIMIT))
                self._follow(tx, row.key, failure, at)
                tx.run(FINISH_EFFECT, id=row.id)
            return len(rows)

        return await store.transact(work)

    def _follow(self, tx: Tx, key: str, failure: Mapping[str, Any], at: str) -> None:
        task = self._deps.kinds[BOARD].task(tx, failure["task_id"])
        if task is None:
            return
        for way in failure["ways"]:
            match way:
                case "infrastructure":
                    self._outages.note_unreachable(tx, task.source, texts.render_line(failure["reason"]))
                case "conflict":
                    self._board.add_task_within(tx, _conflict(task))
                case "access":
                    self._to_operator(tx, task, texts.render_line(failure["reason"]), at)
                case "business":
                    self._to_agent(tx, key, task, failure, at)
                case _:
                    self._to_lead(tx, key, task, failure["cause"], failure["reason"], at)

    def _to_operator(self, tx: Tx, task: KindTask, reason: str, at: str) -> None:
        """Ask the operator once about a repository that the engine's account does not see, for all its tasks.

        A forge answers the same for a deleted and for a hidden repository, so a person has to decide.
        """
        repository = str(task.context.get("repo", ""))
        locale, repo = self._locale(self._board.setup.registry.ops), texts.render_inline(repository)
        title = failure_words.UNSEEN_TITLE.render(locale, source=task.source, repo=repo)
        question = failure_words.UNSEEN.render(
            locale, source=task.source, repo=repo, reason=reason, gone=UNSEEN_REPOSITORY_CHOICES[1]
        )
        subject = f"unseen/{task.source}/{repository.lower()}"
        request_id = toolchain_questions.ask_once(tx, subject, title, question, UNSEEN_REPOSITORY_CHOICES, at=at)
        if request_id is not None:
            draft = PostDraft("question", task.object, title[:_LONGEST_TITLE], question, request_id=request_id)
            _add(tx, f"unseen/{request_id}", task, draft, at)

    def _to_agent(self, tx: Tx, key: str, task: KindTask, failure: Mapping[str, Any], at: str) -> None:
        comment = triage.choose_for_agent(_failure(task, failure["cause"]), self._board.setup.registry, self._reached)
        if isinstance(comment, TriageComment):
            locale, title = self._locale(task.agent_id), texts.render_inline(task.title)
            head = failure_words.NOT_DONE.render(
                locale, login=comment.login, title=title, task=task.task_id, round=failure["round"]
            )
            faults = failure["found"] or [failure["reason"]]
            lines = [render(triage.shorten_fault(fault), locale) for fault in faults]
            back = failure_words.BACK.render(locale)
            self._comment(tx, key, task, comment, head, (failure_words.MISSING.render(locale), lines), back, at)

    def _comment(
        self,
        tx: Tx,
        key: str,
        task: KindTask,
        comment: TriageComment,
        head: str,
        lines: tuple[str, Any],
        tail: str,
        at: str,
    ) -> None:
        title, facts = lines
        draft = PostDraft(
            "comment",
            dedup_keys.object_of(task.source, *comment.place),
            texts.render_line(head)[:_LONGEST_TITLE],
            texts.render_comment(head, title, facts, tail, _markers(task, task.hop, key)),
            comment.place,
            comment.login,
        )
        _add(tx, key, task, draft, at)

    def _to_lead(self, tx: Tx, key: str, task: KindTask, cause: str, reason: str, at: str) -> None:
        failed, lately = _failure(task, cause), _lately(tx, task, at)
        action = triage.choose_for_lead(replace(failed, lately=len(lately)), self._board.setup.registry, self._reached)
        locale = self._locale(self._board.setup.registry.lead)
        place = triage.place_of(task.context)
        about = {
            "agent": task.agent_id,
            "task": task.task_id,
            "title": texts.render_inline(task.title),
            "action_type": task.action_type,
            "place": f"{place.repository}#{place.number}" if place and place.number else task.object,
            "since": task.made_at,
            "reason": texts.render_line(reason),
        }
        late = cause == OVERDUE
        history = _history(tx, task, cause, reason, at)
        if isinstance(action, TriageIssue):
            head = (failure_words.OVERDUE if late else failure_words.ISSUE).render(locale, **about)
            title = (failure_words.OVERDUE_TITLE if late else failure_words.ISSUE_TITLE).render(locale, **about)
            draft = PostDraft(
                "issue",
                f"{task.source}:{action.repository.lower()}",
                texts.render_line(title)[:_LONGEST_TITLE],
                texts.render_comment(
                    head, failure_words.HISTORY.render(locale), history, "", _markers(task, action.hop, key)
                ),
                ForgePlace(action.repository),
                action.login,
            )
            _add(tx, key, task, draft, at)
            about_agent = dedup_keys.escalations(task.source, task.agent_id, task.action_type)
            tx.run(PUT_SIGHTING, object=about_agent, head="", body=wire.write({"at": [*lately, at]}))
        elif isinstance(action, TriageQuestion):
            question = (failure_words.OVERDUE if late else failure_words.ASK).render(locale, **about)
            title = (failure_words.OVERDUE_TITLE if late else failure_words.ASK_TITLE).render(locale, **about)
            criteria = {"why_you": action.why, "history": history}
            request_id = toolchain_questions.ask(
                tx,
                key,
                title,
                question,
                toolchain_questions.SEEN if late else RETRY_CHOICES,
                at=at,
                agent=task.agent_id,
                task_id=task.task_id,
                criteria=criteria,
            )
            draft = PostDraft("question", task.object, title[:_LONGEST_TITLE], question, request_id=request_id)
            _add(tx, key, task, draft, at)

    def _locale(self, agent: str | None) -> Locale:
        return self._board.setup.style(agent or "").locale

    # Tasks that are overdue

    async def _remind(self, store: Store, stage: int) -> int:
        """Remind agents of tasks without a report, and in the second stage inform the lead; each once per report."""
        before = format_instant(self._deps.now() - timedelta(seconds=self._waits[stage]))
        due = await store.read(NEXT_OVERDUE, reminders=stage)
        if not due or due[0].since > before:
            return 0

        def work(tx: Tx) -> int:
            at = self._deps.stamp()
            rows = tx.run(OVERDUE_TASKS, reminders=stage, before=before, limit=_TOGETHER)
            for task_id, since, state in rows:
                self._overdue(tx, task_id, since, state, stage, at)
            return len(rows)

        return await store.transact(work)

    def _overdue(self, tx: Tx, task_id: str, since: str, state: str, stage: int, at: str) -> None:
        task = self._deps.kinds[BOARD].task(tx, task_id)
        if task is None or state in task_states.BLOCKED or _is_reported(tx, task_id, since):
            # An agent that waits for a person, or for the verdict on its report, is not late: check again later.
            tx.run(NOTE_REMINDER, task_id=task_id, reminders=stage, since=at)
            return
        if stage:
            reason = f"no report since {since}"
            self._to_lead(tx, f"escalate/{task_id}/{since}", task, OVERDUE, reason, at)
        else:
            self._send_reminder(tx, task, since, at)
        tx.run(NOTE_REMINDER, task_id=task_id, reminders=stage + 1, since=since)

    def _send_reminder(self, tx: Tx, task: KindTask, since: str, at: str) -> None:
        """Remind the agent on the task itself, and at the forge if the engine can post there."""
        locale = self._locale(task.agent_id)
        comment = triage.choose_for_agent(_failure(task, OVERDUE), self._board.setup.registry, self._reached)
        login = comment.login if isinstance(comment, TriageComment) else task.agent_id
        title = texts.render_inline(task.title)
        head = failure_words.REMINDER.render(
            locale, login=login, title=title, task=task.task_id, since=records.format_time(since)
        )
        about = {"kind": "comment", "author": "system", "type": "general", "claims": None, "epoch": None}
        tx.run(ADD_COMMENT, plan_id=BOARD, task_id=task.task_id, body=head, at=at, **about)
        tx.record("task.reminded", f"{BOARD}/{task.task_id}", {"since": since})
        if isinstance(comment, TriageComment):
            key = f"remind/{task.task_id}/{since}"
            self._comment(tx, key, task, comment, head, (failure_words.STEPS.render(locale), task.steps), "", at)
            return
        records.alert(
            tx,
            at=at,
            plan_id=BOARD,
            code=Code.TASK_OVERDUE,
            message=head,
            key=f"{task.task_id}/{since}",
            severity="WARNING",
            source=records.RecordSource(task.agent_id, task.task_id),
        )


def _add(tx: Tx, key: str, task: KindTask, draft: PostDraft, at: str) -> None:
    """Queue a post, once for each key. A question is held until it is answered."""
    if tx.run(
        ADD_OUTGOING,
        key=key,
        kind=draft.kind,
        source=task.source,
        object=draft.object,
        repository=draft.place.repository,
        number=draft.place.number,
        title=draft.title,
        text=draft.text.replace("\0", "\ufffd"),
        assignee=draft.login,
        task_id=task.task_id,
        since=task.event_at,
        state="held" if draft.kind == "question" else "waiting",
        at=at,
        request_id=draft.request_id,
    ):
        body = {"key": key, "kind": draft.kind, "object": draft.object}
        tx.record("outgoing.queued", f"{BOARD}/{task.task_id}", body)


def _conflict(task: KindTask) -> ProposedTask:
    """Make the task that asks a pull request's author to resolve the conflict that prevents the merge."""
    about = {"source": task.source, "object_key": task.object, "agent": task.agent_id, "context": task.context}
    return event_tasks.make_conflict_task(**about, head_sha=task.head_sha, at=task.event_at)  # type: ignore[arg-type]


def _failure(task: KindTask, cause: str) -> TaskFailure:
    return TaskFailure(task.agent_id, task.source, task.action_type, cause, task.hop, context=task.context)


def _lately(tx: Tx, task: KindTask, at: str) -> list[str]:
    """Return when, within the last hour, issues were opened about tasks of this kind that the agent did not do."""
    since = format_instant(parse_instant(at) - timedelta(hours=1))
    key = dedup_keys.escalations(task.source, task.agent_id, task.action_type)
    escalations: list[Any] = [wire.read(bytes(row.body)) for row in tx.run(SIGHTING, object=key)]
    return [time for escalation in escalations for time in escalation["at"] if time > since]


def _markers(task: KindTask, hop: int, key: str) -> list[str]:
    return [write_marker(Marker(task.task_id, hop, by_engine=True)), triage.post_marker(key)]


def _history(tx: Tx, task: KindTask, cause: str, reason: str, at: str) -> list[str]:
    """Return the history of a task, one line per event."""
    rounds = [
        f"{entry.at} {entry.kind.removeprefix('rework.')}: {entry.body.get('reason', '')}"
        for entry in rework_rounds.read_history(tx, BOARD, task.task_id)
    ]
    return [f"{task.made_at} made for {task.agent_id}", *rounds, f"{at} {cause.lower()}: {reason}"]


def _is_reported(tx: Tx, task_id: str, since: str) -> bool:
    rows = tx.run(COMMENTS_OF, plan_id=BOARD, task_id=task_id, after=0, limit=_MOST_SAID)
    return any(row.type == "action_report" and row.at >= since for row in rows)
