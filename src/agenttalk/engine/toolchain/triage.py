"""Work that was not done, or is overdue, reaches whoever has to know: what is to be said is written down here.

The end of a turn leaves a durable effect in its own commit. What follows from it is one transaction, so a death
anywhere loses nothing and says nothing twice. Saying it at the forge is somebody else's part (`outgoing`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant, parse_instant
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
from agenttalk.rules.prompts.toolchain_failures import WORDING, FailureWording
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
"""What a person says of a repository that the engine's account does not see."""
_TOGETHER: Final = 50
_MOST_SAID: Final = 1_000
_LONGEST_TITLE: Final = 200


class PostDraft(NamedTuple):
    """Something to say."""

    kind: Literal["comment", "issue", "question"]
    object: str
    """What it is said about. At one thing, one is said after the other."""
    title: str
    text: str
    place: ForgePlace = ForgePlace("")
    login: str = ""
    request_id: str | None = None


class Triage:
    """Decides who has to know. `reached` are the sources to which the engine can write."""

    def __init__(self, deps: Deps, board: ToolchainBoard, reached: Collection[str], outages: Outages) -> None:
        self._deps = deps
        self._board = board
        self._reached = reached
        self._outages = outages

    async def pass_(self, store: Store) -> int:
        """See to everything that is due now; how much that was."""
        return await self._take_up(store) + await self._remind(store, 0) + await self._remind(store, 1)

    async def next_due_at(self, store: Store) -> str | None:
        """When somebody has to be reminded or told next."""
        found = []
        for stage, seconds in enumerate(self._waits):
            for (since,) in await store.read(NEXT_OVERDUE, reminders=stage):
                found.append(format_instant(parse_instant(since) + timedelta(seconds=seconds)))
        return min(found, default=None)

    @property
    def _waits(self) -> tuple[int, int]:
        """Seconds from the last report to the reminder, and to the lead."""
        caps = self._board.setup.caps
        return caps.remind_after, caps.escalate_after

    # What was not done

    async def _take_up(self, store: Store) -> int:
        at = self._deps.stamp()
        due = await store.read(NEXT_EFFECT_AT, kind=NOT_DONE)
        if not due or due[0].not_before > at:
            return 0

        def work(tx: Tx) -> int:
            rows = tx.run(CLAIM_EFFECTS, kind=NOT_DONE, limit=_TOGETHER, now=at, until=at)
            for number, key, body, _ in sorted(rows):
                said: Any = restore_messages(wire.read(bytes(body), limit=wire.DOCUMENT_LIMIT))
                self._follow(tx, key, said, at)
                tx.run(FINISH_EFFECT, id=number)
            return len(rows)

        return await store.transact(work)

    def _follow(self, tx: Tx, key: str, said: Mapping[str, Any], at: str) -> None:
        task = self._deps.kinds[BOARD].task(tx, said["task_id"])
        if task is None:
            return
        for way in said["ways"]:
            match way:
                case "infrastructure":
                    self._outages.note_unreachable(tx, task.source, texts.render_line(said["reason"]))
                case "conflict":
                    self._board.add_task_within(tx, _conflict(task))
                case "access":
                    self._to_operator(tx, task, texts.render_line(said["reason"]), at)
                case "business":
                    self._to_agent(tx, key, task, said, at)
                case _:
                    self._to_lead(tx, key, task, said["cause"], said["reason"], at)

    def _to_operator(self, tx: Tx, task: KindTask, reason: str, at: str) -> None:
        """The engine's own account is not shown a repository: one question, however many tasks wait for it.

        A forge does not tell a repository that was deleted from one that is hidden, so a person does.
        """
        repository = str(task.context.get("repo", ""))
        words = self._words(self._board.setup.registry.ops or "")
        about = {"source": task.source, "repo": texts.render_inline(repository), "reason": reason}
        title, question = (
            words.unseen_title.format(**about),
            words.unseen.format(**about, gone=UNSEEN_REPOSITORY_CHOICES[1]),
        )
        subject = f"unseen/{task.source}/{repository.lower()}"
        request_id = toolchain_questions.ask_once(tx, subject, title, question, UNSEEN_REPOSITORY_CHOICES, at=at)
        if request_id is not None:
            saying = PostDraft("question", task.object, title[:_LONGEST_TITLE], question, request_id=request_id)
            _add(tx, f"unseen/{request_id}", task, saying, at)

    def _to_agent(self, tx: Tx, key: str, task: KindTask, said: Mapping[str, Any], at: str) -> None:
        told = triage.choose_for_agent(_failure(task, said["cause"]), self._board.setup.registry, self._reached)
        if isinstance(told, TriageComment):
            words = self._words(task.agent_id)
            head = words.not_done.format(
                login=told.login, title=texts.render_inline(task.title), task=task.task_id, round=said["round"]
            )
            locale = self._board.setup.style(task.agent_id).locale
            found = [render(triage.shorten_fault(text), locale) for text in said["found"] or [said["reason"]]]
            self._comment(tx, key, task, told, head, (words.missing, found), words.back, at)

    def _comment(
        self,
        tx: Tx,
        key: str,
        task: KindTask,
        told: TriageComment,
        head: str,
        lines: tuple[str, Any],
        tail: str,
        at: str,
    ) -> None:
        title, facts = lines
        saying = PostDraft(
            "comment",
            dedup_keys.object_of(task.source, *told.place),
            texts.render_line(head)[:_LONGEST_TITLE],
            texts.render_comment(head, title, facts, tail, _markers(task, task.hop, key)),
            told.place,
            told.login,
        )
        _add(tx, key, task, saying, at)

    def _to_lead(self, tx: Tx, key: str, task: KindTask, cause: str, reason: str, at: str) -> None:
        failed, lately = _failure(task, cause), _lately(tx, task, at)
        told = triage.choose_for_lead(replace(failed, lately=len(lately)), self._board.setup.registry, self._reached)
        words = self._words(self._board.setup.registry.lead or "")
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
        if isinstance(told, TriageIssue):
            head = (words.overdue if late else words.issue).format(**about)
            title = (words.overdue_title if late else words.issue_title).format(**about)
            saying = PostDraft(
                "issue",
                f"{task.source}:{told.repository.lower()}",
                texts.render_line(title)[:_LONGEST_TITLE],
                texts.render_comment(head, words.history, history, "", _markers(task, told.hop, key)),
                ForgePlace(told.repository),
                told.login,
            )
            _add(tx, key, task, saying, at)
            about_agent = dedup_keys.escalations(task.source, task.agent_id, task.action_type)
            tx.run(PUT_SIGHTING, object=about_agent, head="", body=wire.write({"at": [*lately, at]}))
        elif isinstance(told, TriageQuestion):
            question = (words.overdue if late else words.ask).format(**about)
            title = (words.overdue_title if late else words.ask_title).format(**about)
            criteria = {"why_you": told.why, "history": history}
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
            saying = PostDraft("question", task.object, title[:_LONGEST_TITLE], question, request_id=request_id)
            _add(tx, key, task, saying, at)

    def _words(self, agent: str) -> FailureWording:
        return WORDING[self._board.setup.style(agent).locale]

    # What is overdue

    async def _remind(self, store: Store, stage: int) -> int:
        """Remind agents of what they did not report of, and after that tell the lead; each once."""
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
            # Whoever waits for a person, or for what comes of its report, is not late. It is looked at again later.
            tx.run(NOTE_REMINDER, task_id=task_id, reminders=stage, since=at)
            return
        if stage:
            reason = f"no report since {since}"
            self._to_lead(tx, f"escalate/{task_id}/{since}", task, OVERDUE, reason, at)
        else:
            self._send_reminder(tx, task, since, at)
        tx.run(NOTE_REMINDER, task_id=task_id, reminders=stage + 1, since=since)

    def _send_reminder(self, tx: Tx, task: KindTask, since: str, at: str) -> None:
        """Say it once more: on the task itself, and at the forge if that can be."""
        words = self._words(task.agent_id)
        told = triage.choose_for_agent(_failure(task, OVERDUE), self._board.setup.registry, self._reached)
        login = told.login if isinstance(told, TriageComment) else task.agent_id
        title = texts.render_inline(task.title)
        head = words.reminder.format(login=login, title=title, task=task.task_id, since=records.format_time(since))
        said = {"kind": "comment", "author": "system", "type": "general", "claims": None, "epoch": None}
        tx.run(ADD_COMMENT, plan_id=BOARD, task_id=task.task_id, body=head, at=at, **said)
        tx.record("task.reminded", f"{BOARD}/{task.task_id}", {"since": since})
        if isinstance(told, TriageComment):
            key = f"remind/{task.task_id}/{since}"
            self._comment(tx, key, task, told, head, (words.steps, task.steps), "", at)
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


def _add(tx: Tx, key: str, task: KindTask, saying: PostDraft, at: str) -> None:
    """Write down what is to be said, once for each key. A question waits for its answer, all else for its turn."""
    if tx.run(
        ADD_OUTGOING,
        key=key,
        kind=saying.kind,
        source=task.source,
        object=saying.object,
        repository=saying.place.repository,
        number=saying.place.number,
        title=saying.title,
        text=saying.text.replace("\0", "\ufffd"),
        assignee=saying.login,
        task_id=task.task_id,
        since=task.event_at,
        state="held" if saying.kind == "question" else "waiting",
        at=at,
        request_id=saying.request_id,
    ):
        body = {"key": key, "kind": saying.kind, "object": saying.object}
        tx.record("outgoing.queued", f"{BOARD}/{task.task_id}", body)


def _conflict(task: KindTask) -> ProposedTask:
    """What the author of a pull request gets in the place of a merge that cannot be."""
    about = {"source": task.source, "object_key": task.object, "agent": task.agent_id, "context": task.context}
    return event_tasks.make_conflict_task(**about, head_sha=task.head_sha, at=task.event_at)  # type: ignore[arg-type]


def _failure(task: KindTask, cause: str) -> TaskFailure:
    return TaskFailure(task.agent_id, task.source, task.action_type, cause, task.hop, context=task.context)


def _lately(tx: Tx, task: KindTask, at: str) -> list[str]:
    """When issues were opened about tasks of this kind that the agent did not do, within the last hour."""
    since = format_instant(parse_instant(at) - timedelta(hours=1))
    key = dedup_keys.escalations(task.source, task.agent_id, task.action_type)
    told: list[Any] = [wire.read(bytes(body)) for _, body in tx.run(SIGHTING, object=key)]
    return [each for said in told for each in said["at"] if each > since]


def _markers(task: KindTask, hop: int, key: str) -> list[str]:
    return [write_marker(Marker(task.task_id, hop, by_engine=True)), triage.post_marker(key)]


def _history(tx: Tx, task: KindTask, cause: str, reason: str, at: str) -> list[str]:
    """What happened to a task, line by line."""
    told = [
        f"{each.at} {each.kind.removeprefix('rework.')}: {each.body.get('reason', '')}"
        for each in rework_rounds.read_history(tx, BOARD, task.task_id)
    ]
    return [f"{task.made_at} made for {task.agent_id}", *told, f"{at} {cause.lower()}: {reason}"]


def _is_reported(tx: Tx, task_id: str, since: str) -> bool:
    rows = tx.run(COMMENTS_OF, plan_id=BOARD, task_id=task_id, after=0, limit=_MOST_SAID)
    return any(row.type == "action_report" and row.at >= since for row in rows)
