"""Deliveries of forges: stored before they are answered, and decided about afterwards.

A delivery that was answered is there after any crash. It is looked at until it is marked; looking at it twice makes
no second task, because tasks are made once for each thing that they are about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts import wire
from agenttalk.contracts.forge import ForgeEvent
from agenttalk.contracts.toolchain import PipelineResult, ProposedTask
from agenttalk.engine import plans
from agenttalk.engine.deps import Deps
from agenttalk.engine.records import SMALL
from agenttalk.engine.toolchain import Board, Written
from agenttalk.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.ports import EventSource, Headers, Row, Tx
from agenttalk.prompts.toolchain_steps import Content
from agenttalk.rules import intake

LOG = logging.getLogger(__name__)
TOGETHER: Final = 64
"""Deliveries that are decided about in one transaction."""
QUIET: Final = 4
"""Turns of the event loop without anybody new after which those who came go on."""
MOST_TURNS: Final = 200
"""Turns of the event loop that anybody waits for others."""
_LARGE: Final = 1024 * 1024
"""Larger bodies are hashed and read in another thread."""
_KEPT_HEADERS: Final = ("content-type", "x-gitea-", "x-gogs-", "x-forgejo-", "x-github-", "x-hub-")
_LONGEST_OUTCOME: Final = 2_000
Gather = Callable[[ForgeEvent, ProposedTask], Awaitable[Content]]
"""Reads at the forge what a task should say beyond its event. Whatever it raises, the task is made without it."""
Search = Callable[[ForgeEvent, Sequence[Any]], Awaitable[Sequence[ForgeEvent]]]
"""Asks the forge for what a decision could not know; what it shows, as events."""


@dataclass(frozen=True, slots=True)
class Received:
    """A delivery that was stored."""

    id: str
    """What it is called: `wh-17`."""
    again: bool = False
    """Whether it was here before."""


class Crowd:
    """Those who come at about the same time go on together, so that they share a commit.

    There is no timer: they go on when the event loop has gone around without bringing anybody new, or when they are
    many. Somebody who comes alone waits for a few turns of an idle loop, which take microseconds.
    """

    def __init__(self) -> None:
        self._came = 0
        self._going: asyncio.Future[None] | None = None

    async def gathered(self) -> None:
        """Wait for those who are just coming in."""
        self._came += 1
        if self._going is None:
            self._going = asyncio.ensure_future(self._gather())
        await asyncio.shield(self._going)

    async def _gather(self) -> None:
        try:
            quiet, seen, turns = 0, 0, 0
            while quiet < QUIET and self._came < TOGETHER and turns < MOST_TURNS:
                quiet, turns = (quiet + 1 if self._came == seen else 0), turns + 1
                seen = self._came
                await asyncio.sleep(0)
        finally:
            self._came, self._going = 0, None


class Receiver:
    """Takes deliveries in. `nudge` has somebody look at them."""

    def __init__(self, deps: Deps, sources: Mapping[str, EventSource], nudge: Callable[[], None]) -> None:
        self._deps = deps
        self.sources = sources
        self._nudge = nudge
        self._crowd = Crowd()

    def source(self, name: str) -> EventSource:
        """A configured source; raises UsageError when there is none of that name."""
        found = self.sources.get(name)
        if found is None:
            hint = f"there are: {', '.join(sorted(self.sources)) or 'none'}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no source {name[:80]!r}", hint=hint)
        return found

    def wake(self) -> None:
        """Have somebody look at what is to be decided."""
        self._nudge()

    async def receive(self, name: str, headers: Headers, body: bytes) -> Received:
        """Store a delivery durably. Raises UsageError (FORGE_SIGNATURE_REFUSED) when it is not genuine."""
        source = self.source(name)
        large = len(body) > _LARGE
        why = await asyncio.to_thread(source.refusal, headers, body) if large else source.refusal(headers, body)
        if why:
            LOG.warning("source %s: %s", name, why, extra={"action": "webhooks.refused"})
            hint = "the secret of the hook and that of the source have to be the same"
            raise UsageError(Code.FORGE_SIGNATURE_REFUSED, why, hint=hint)
        delivery, event = source.label(headers)
        kept = [(key, value) for key, value in headers if key.lower().startswith(_KEPT_HEADERS)]
        kept = [each for each in kept if "signature" not in each[0].lower()]
        return await self._store(name, "forge", delivery, event, kept, body)

    async def report(self, name: str, result: PipelineResult) -> Received:
        """Store what a pipeline reports."""
        self.source(name)
        return await self._store(name, "pipeline", "", result.kind, [], result.to_bytes())

    async def _store(
        self, source: str, kind: str, delivery: str, event: str, headers: Headers, body: bytes
    ) -> Received:
        system = await self._deps.stores.board(plans.SYSTEM)
        sha256, content = wire.sha256(body), None
        if len(body) > SMALL:
            content = await (await self._deps.stores.blobs(plans.SYSTEM)).put(body)
        at = self._deps.stamp()
        row = {
            "source": source,
            "kind": kind,
            "delivery": delivery.replace("\0", ""),
            "event": event.replace("\0", ""),
            "headers": wire.write([list(each) for each in headers]),
            "body": body if content is None else None,
            "content": content,
            "sha256": sha256,
        }

        def work(tx: Tx) -> Received:
            added = tx.run("add_webhook", **row, at=at)
            if added:
                fact = {"source": source, "kind": kind, "event": event, "delivery": delivery, "sha256": sha256}
                tx.record("webhook.received", f"webhooks/{added[0][0]}", fact)
                return Received(f"wh-{added[0][0]}")
            [(number,)] = tx.run("webhook_again", source=source, delivery=row["delivery"], sha256=sha256)
            return Received(f"wh-{number}", again=True)

        await self._crowd.gathered()
        received = await system.transact(work)
        self._nudge()
        return received

    async def shown(self, name: str) -> dict[str, Any]:
        """A delivery and what came of it; raises UsageError when there is none."""
        number = name.removeprefix("wh-")
        system = await self._deps.stores.board(plans.SYSTEM)
        rows = await system.read("webhook", id=int(number)) if number.isdecimal() and len(number) < 18 else []
        if not rows:
            raise UsageError(Code.NAME_UNKNOWN, f"there is no delivery {name[:80]!r}")
        id_, source, kind, delivery, event, sha256, received_at, state, outcome = rows[0]
        return {
            "id": f"wh-{id_}",
            "source": source,
            "kind": kind,
            "delivery": delivery,
            "event": event,
            "sha256": sha256,
            "received_at": received_at,
            "state": state,
            "outcome": outcome,
        }


@dataclass(frozen=True, slots=True)
class _Read:
    """A delivery as it was read: an event, or why there is none."""

    id: int
    event: ForgeEvent | None
    state: str
    why: str


class Intake:
    """Decides about stored deliveries, in the order in which they came."""

    def __init__(
        self,
        deps: Deps,
        sources: Mapping[str, EventSource],
        board: Board,
        *,
        gather: Gather | None = None,
        search: Search | None = None,
        nudge: Callable[[], None] = lambda: None,
    ) -> None:
        """`nudge` has the dispatcher look for new tasks."""
        self._deps = deps
        self._sources = sources
        self._board = board
        self._gather = gather
        self._search = search
        self._nudge = nudge

    async def pass_(self) -> int:
        """Look at the next deliveries; how many there were. Zero means that all are decided about."""
        system = await self._deps.stores.board(plans.SYSTEM)
        rows = await system.read("new_webhooks", limit=TOGETHER)
        if not rows:
            return 0
        read = [await self._read(row) for row in rows]
        outcomes = {each.id: (each.state, each.why) for each in read if each.event is None}
        outcomes |= await self._decided([(each.id, each.event) for each in read if each.event is not None])
        await system.transact(lambda tx: _mark(tx, outcomes))
        return len(rows)

    async def _read(self, row: Row) -> _Read:
        number, name, kind, headers, body, content, received_at = row
        try:
            data = bytes(body) if body is not None else await (await self._deps.stores.blobs(plans.SYSTEM)).get(content)
            if kind == "pipeline":
                result = PipelineResult.from_bytes(data)
                return _Read(number, intake.reported(name, result, at=received_at), "done", "")
            source = self._sources.get(name)
            if source is None:
                return _Read(number, None, "failed", f"there is no source {name!r} any more")
            told: Any = wire.read(bytes(headers))
            sent = [(str(key), str(value)) for key, value in told]
            large = len(data) > _LARGE
            event = await asyncio.to_thread(source.read, sent, data) if large else source.read(sent, data)
        except MachineError:
            raise  # the machine, not the delivery: it is looked at again
        except Exception as error:  # nothing that was sent may stop what comes after it
            LOG.exception("delivery wh-%s cannot be read", number, extra={"action": "webhooks.read"})
            return _Read(number, None, "failed", f"{type(error).__name__}: {error}")
        if isinstance(event, ForgeEvent):
            return _Read(number, event, "done", "")
        return _Read(number, None, "failed" if event.code else "ignored", event.reason)

    async def _decided(self, events: list[tuple[int, ForgeEvent]]) -> dict[int, tuple[str, str]]:
        """Decide about events together; if that fails, each alone, so that none suffers for another."""
        if not events:
            return {}
        try:
            ready = [(event, await self._content(event)) for _, event in events]
            written = await self._board.take(ready)
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

    async def _outcome(self, event: ForgeEvent, written: Written) -> tuple[str, str]:
        told = [written.as_text()]
        self._wake_for(written)
        for shown in await self._looked_up(event, written):
            [more] = await self._board.take([(shown, await self._content(shown))])
            self._wake_for(more)
            told.append(more.as_text())
        did = any(each for each in (written.made, written.withdrawn, written.restored, written.decision.held))
        return ("done" if did or len(told) > 1 or written.warnings else "ignored", "; ".join(filter(None, told)))

    def _wake_for(self, written: Written) -> None:
        """Have others look when there is something for them; most events call nobody."""
        if written.made or written.withdrawn or written.restored or written.warnings:
            self._nudge()

    async def _looked_up(self, event: ForgeEvent, written: Written) -> Sequence[ForgeEvent]:
        if self._search is None or not written.decision.lookups:
            return ()
        try:
            return await self._search(event, written.decision.lookups)
        except AgentTalkError as error:
            LOG.warning("%s: %s", event.source, error.message, extra={"action": "webhooks.search"})
            return ()

    async def _content(self, event: ForgeEvent) -> dict[str, Content]:
        """What the forge says beyond the event, by the keys of the tasks that would follow from it."""
        if self._gather is None:
            return {}
        found = {}
        for task in (await self._board.foreseen(event)).tasks:
            try:
                found[task.key] = await self._gather(event, task)
            except AgentTalkError as error:
                LOG.warning("%s: %s", event.source, error.message, extra={"action": "webhooks.gather"})
        return found


def _mark(tx: Tx, outcomes: Mapping[int, tuple[str, str]]) -> None:
    for number, (state, outcome) in outcomes.items():
        text = outcome.replace("\0", "\ufffd")[:_LONGEST_OUTCOME]
        if tx.run("end_webhook", id=number, state=state, outcome=text):
            tx.record("webhook.decided", f"webhooks/{number}", {"state": state, "outcome": text})
