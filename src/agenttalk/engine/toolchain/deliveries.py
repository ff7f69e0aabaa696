"""Deliveries of forges: what was stored before it was answered is decided about here.

A delivery that was answered is there after any crash. It is looked at until it is marked; looking at it twice makes
no second task, because tasks are made once for each thing that they are about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, MachineError
from agenttalk.contracts.forge import ForgeEvent
from agenttalk.contracts.toolchain import PipelineResult, ProposedTask
from agenttalk.engine.core import boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.toolchain.board import EventOutcome, ToolchainBoard
from agenttalk.ports.forge import EventSource
from agenttalk.ports.statements.toolchain import END_WEBHOOK, NEW_WEBHOOKS, NewWebhookRow
from agenttalk.ports.storage import Tx
from agenttalk.rules.prompts.toolchain_steps import ForgeContent
from agenttalk.rules.toolchain import event_tasks, mention_tasks

LOG = logging.getLogger(__name__)
TOGETHER: Final = 64
"""Deliveries that are decided about in one transaction."""
_LARGE: Final = 1024 * 1024
"""Larger bodies are read in another thread."""
_LONGEST_OUTCOME: Final = 2_000
ContentReader = Callable[[ForgeEvent, ProposedTask], Awaitable[ForgeContent]]
"""Reads at the forge what a task should say beyond its event. Whatever it raises, the task is made without it."""
ReviewerReader = Callable[[ForgeEvent], Awaitable[ForgeEvent]]
"""Reads who is really asked for a review. Whatever it raises, the event is taken as it came."""
WriteAccessReader = Callable[[str, str, str], Awaitable[bool | None]]
"""Whether an account may write: source, repository, name. None when nobody can tell."""
PullRequestSearch = Callable[[ForgeEvent, Sequence[Any]], Awaitable[Sequence[ForgeEvent]]]
"""Asks the forge for what a decision could not know; what it shows, as events."""


@dataclass(frozen=True, slots=True)
class _ParsedDelivery:
    """A delivery as it was read: an event, or why there is none."""

    id: int
    event: ForgeEvent | None
    state: str
    why: str


class DeliveryProcessor:
    """Decides about stored deliveries, in the order in which they came."""

    def __init__(
        self,
        deps: Deps,
        sources: Mapping[str, EventSource],
        board: ToolchainBoard,
        *,
        asked: ReviewerReader | None = None,
        gather: ContentReader | None = None,
        search: PullRequestSearch | None = None,
        rights: WriteAccessReader | None = None,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        """`nudge` has the dispatcher look for new tasks."""
        self._deps = deps
        self._sources = sources
        self._board = board
        self._asked = asked
        self._gather = gather
        self._search = search
        self._rights = rights
        self._nudge = nudge

    async def pass_(self) -> int:
        """Look at the next deliveries; how many there were. Zero means that all are decided about."""
        system = await self._deps.stores.board(boards.SYSTEM)
        rows = await system.read(NEW_WEBHOOKS, limit=TOGETHER)
        if not rows:
            return 0
        read = [await self._read(row) for row in rows]
        outcomes = {each.id: (each.state, each.why) for each in read if each.event is None}
        outcomes |= await self._decided([(each.id, each.event) for each in read if each.event is not None])
        await system.transact(lambda tx: _mark(tx, outcomes))
        return len(rows)

    async def _read(self, row: NewWebhookRow) -> _ParsedDelivery:
        try:
            data = row.body
            if data is None:
                data = await (await self._deps.stores.blobs(boards.SYSTEM)).get(row.content or "")
            if row.kind == "pipeline":
                result = PipelineResult.from_bytes(data)
                return _ParsedDelivery(
                    row.id, event_tasks.make_pipeline_event(row.source, result, at=row.received_at), "done", ""
                )
            source = self._sources.get(row.source)
            if source is None:
                return _ParsedDelivery(row.id, None, "failed", f"there is no source {row.source!r} any more")
            told: Any = wire.read(bytes(row.headers))
            sent = [(str(key), str(value)) for key, value in told]
            large = len(data) > _LARGE
            event = await asyncio.to_thread(source.read, sent, data) if large else source.read(sent, data)
        except Exception as error:  # nothing that was sent may stop what comes after it
            if isinstance(error, MachineError) and error.retriable:
                raise  # the machine, not the delivery: it is looked at again
            LOG.exception("delivery wh-%s cannot be read", row.id, extra={"action": "webhooks.read"})
            return _ParsedDelivery(row.id, None, "failed", f"{type(error).__name__}: {error}")
        if isinstance(event, ForgeEvent):
            return _ParsedDelivery(row.id, await self._entitled(await self._with_asked(event)), "done", "")
        return _ParsedDelivery(row.id, None, "failed" if event.code else "ignored", event.reason)

    async def _with_asked(self, event: ForgeEvent) -> ForgeEvent:
        if self._asked is None:
            return event
        try:
            return await self._asked(event)
        except AgentTalkError as error:
            LOG.warning("%s: %s", event.source, error.message, extra={"action": "webhooks.asked"})
            return event

    async def _entitled(self, event: ForgeEvent) -> ForgeEvent:
        """An event with whether its sender may write, where somebody is called by it and only the forge can tell."""
        sender = event.sender
        if (
            self._rights is None
            or sender is None
            or not mention_tasks.asks_for_rights(event, self._board.setup.registry)
        ):
            return event
        writer = await self._rights(event.source, event.repository.full_name, sender.login)
        return event.model_copy(update={"writer": writer})

    async def _decided(self, events: list[tuple[int, ForgeEvent]]) -> dict[int, tuple[str, str]]:
        """Decide about events together; if that fails, each alone, so that none suffers for another."""
        if not events:
            return {}
        try:
            ready = [(event, await self._content(event)) for _, event in events]
            written = await self._board.process_events(ready)
        except MachineError:
            raise
        except Exception as error:
            if len(events) > 1:
                found: dict[int, tuple[str, str]] = {}
                for each in events:
                    found |= await self._decided([each])
                return found
            LOG.exception("delivery wh-%s cannot be decided", events[0][0], extra={"action": "webhooks.decide"})
            return {events[0][0]: ("failed", f"{type(error).__name__}: {error}")}
        outcomes = {}
        for (number, event), made in zip(events, written, strict=True):
            outcomes[number] = await self._outcome(event, made)
        return outcomes

    async def _outcome(self, event: ForgeEvent, written: EventOutcome) -> tuple[str, str]:
        told = [written.as_text()]
        self._wake_for(written)
        for shown in await self._looked_up(event, written):
            [more] = await self._board.process_events([(shown, await self._content(shown))])
            self._wake_for(more)
            told.append(more.as_text())
        did = any(each for each in (written.made, written.withdrawn, written.restored, written.decision.held))
        return ("done" if did or len(told) > 1 or written.warnings else "ignored", "; ".join(filter(None, told)))

    def _wake_for(self, written: EventOutcome) -> None:
        """Have others look when there is something for them; most events call nobody."""
        if written.made or written.withdrawn or written.restored or written.warnings:
            self._nudge()

    async def _looked_up(self, event: ForgeEvent, written: EventOutcome) -> Sequence[ForgeEvent]:
        if self._search is None or not written.decision.lookups:
            return ()
        try:
            return await self._search(event, written.decision.lookups)
        except AgentTalkError as error:
            LOG.warning("%s: %s", event.source, error.message, extra={"action": "webhooks.search"})
            return ()

    async def _content(self, event: ForgeEvent) -> dict[str, ForgeContent]:
        """What the forge says beyond the event, by the keys of the tasks that would follow from it."""
        if self._gather is None:
            return {}
        found = {}
        for task in (await self._board.preview_decision(event)).tasks:
            try:
                found[task.key] = await self._gather(event, task)
            except AgentTalkError as error:
                LOG.warning("%s: %s", event.source, error.message, extra={"action": "webhooks.gather"})
        return found


def _mark(tx: Tx, outcomes: Mapping[int, tuple[str, str]]) -> None:
    for number, (state, outcome) in outcomes.items():
        text = outcome.replace("\0", "\ufffd")[:_LONGEST_OUTCOME]
        if tx.run(END_WEBHOOK, id=number, state=state, outcome=text):
            tx.record("webhook.decided", f"webhooks/{number}", {"state": state, "outcome": text})
