"""Processes the stored deliveries of forges.

The receiver answers a delivery only after it is stored, so a crash loses none. A delivery is processed until it is
marked as decided. Processing it twice makes no second task, because each task has a key.
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
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.text.catalogue import to_columns, with_messages
from agenttalk.rules.text.message import cut, join
from agenttalk.rules.toolchain import event_tasks, mention_tasks

LOG = logging.getLogger(__name__)
TOGETHER: Final = 64
"""Deliveries that are decided about in one transaction."""
_LARGE: Final = 1024 * 1024
"""Larger bodies are read in another thread."""
_LONGEST_OUTCOME: Final = 2_000
ContentReader = Callable[[ForgeEvent, ProposedTask], Awaitable[ForgeContent]]
"""Reads at the forge what a task should say beyond its event. If it raises, the task is made without that."""
ReviewerReader = Callable[[ForgeEvent], Awaitable[ForgeEvent]]
"""Completes an event with the reviewers that the forge really asks. If it raises, the event is used as it came."""
WriteAccessReader = Callable[[str, str, str], Awaitable[bool | None]]
"""Whether an account may write: source, repository, name. None when the forge cannot be asked."""
PullRequestSearch = Callable[[ForgeEvent, Sequence[Any]], Awaitable[Sequence[ForgeEvent]]]
"""Searches the forge for what a decision could not know. Returns what the forge shows, as events."""


@dataclass(frozen=True, slots=True)
class _ParsedDelivery:
    """A delivery as it was read: an event, or the reason why it has none."""

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
        """`nudge` wakes the dispatcher for new tasks."""
        self._deps = deps
        self._sources = sources
        self._board = board
        self._asked = asked
        self._gather = gather
        self._search = search
        self._rights = rights
        self._nudge = nudge

    async def pass_(self) -> int:
        """Process the next deliveries. Returns how many there were; zero means that all are decided."""
        system = await self._deps.stores.board(boards.SYSTEM)
        rows = await system.read(NEW_WEBHOOKS, limit=TOGETHER)
        if not rows:
            return 0
        parsed = [await self._read(row) for row in rows]
        outcomes = {delivery.id: (delivery.state, delivery.why) for delivery in parsed if delivery.event is None}
        outcomes |= await self._decided([(each.id, each.event) for each in parsed if each.event is not None])
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
                return _ParsedDelivery(row.id, None, "failed", toolchain_words.DELIVERY["no_source"](source=row.source))
            pairs: Any = wire.read(bytes(row.headers))
            headers = [(str(key), str(value)) for key, value in pairs]
            large = len(data) > _LARGE
            event = await asyncio.to_thread(source.read, headers, data) if large else source.read(headers, data)
        except Exception as error:  # one bad delivery must not stop those behind it
            if isinstance(error, MachineError) and error.retriable:
                raise  # the machine failed, not the delivery: the next pass tries it again
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
        """Add whether the sender may write, if the event mentions an agent and only the forge knows the rights."""
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
        """Decide about events together, or if that fails one by one, so that a bad event stops no other."""
        if not events:
            return {}
        try:
            ready = [(event, await self._content(event)) for _, event in events]
            written = await self._board.process_events(ready)
        except MachineError:
            raise
        except Exception as error:
            if len(events) > 1:
                alone: dict[int, tuple[str, str]] = {}
                for event in events:
                    alone |= await self._decided([event])
                return alone
            LOG.exception("delivery wh-%s cannot be decided", events[0][0], extra={"action": "webhooks.decide"})
            return {events[0][0]: ("failed", f"{type(error).__name__}: {error}")}
        outcomes = {}
        for (number, decided), outcome in zip(events, written, strict=True):
            outcomes[number] = await self._outcome(decided, outcome)
        return outcomes

    async def _outcome(self, event: ForgeEvent, written: EventOutcome) -> tuple[str, str]:
        lines = [written.as_text()]
        self._wake_for(written)
        for shown in await self._looked_up(event, written):
            [more] = await self._board.process_events([(shown, await self._content(shown))])
            self._wake_for(more)
            lines.append(more.as_text())
        changed = any((written.made, written.withdrawn, written.restored, written.decision.held, written.warnings))
        return ("done" if changed or len(lines) > 1 else "ignored", join(line for line in lines if line))

    def _wake_for(self, written: EventOutcome) -> None:
        """Wake the dispatcher if something changed. Most events change nothing."""
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
        """Read at the forge what the tasks of an event should say beyond it. Returns it by the key of the task."""
        if self._gather is None:
            return {}
        content = {}
        for task in (await self._board.preview_decision(event)).tasks:
            try:
                content[task.key] = await self._gather(event, task)
            except AgentTalkError as error:
                LOG.warning("%s: %s", event.source, error.message, extra={"action": "webhooks.gather"})
        return content


def _mark(tx: Tx, outcomes: Mapping[int, tuple[str, str]]) -> None:
    for number, (state, outcome) in outcomes.items():
        text = cut(outcome.replace("\0", "\ufffd") if "\0" in outcome else outcome, _LONGEST_OUTCOME)
        if tx.run(END_WEBHOOK, id=number, state=state, **to_columns(text, "outcome")):
            tx.record("webhook.decided", f"webhooks/{number}", with_messages({"state": state, "outcome": text}))
