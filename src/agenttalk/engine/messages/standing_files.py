"""Receipts and states that stay in their outboxes after they were taken in: their agents look for them there.

An agent of another party knows by its own receipt that it is done with a command. So a final receipt leaves only when
the message that it is for has left the inbox; then nothing can run again. States stay: there is one for each task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.record import Ack
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import admission, control_files
from agenttalk.engine.messages.outbox_reader import OutboxFile
from agenttalk.engine.messages.plan_registry import RoutedPlan
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.inbox import KNOWN_DELIVERY
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages.archive import make_claimed_name
from agenttalk.rules.messages.control_files import ControlFile
from agenttalk.rules.messages.routes import Rejection

ReadControlFile: TypeAlias = "tuple[OutboxFile, bytes | str | None, ControlFile | Rejection]"
"""A control file: its bytes, or the hash of what was kept of it, and what it says."""


class StandingFile(NamedTuple):
    """A file that was taken in and still lies in its outbox."""

    found: OutboxFile
    message_id: str | None
    """Of a final receipt: the message that it is for."""


@dataclass(slots=True)
class StandingFiles:
    """Files that a router has read and left in place. A router that has just started reads them once more."""

    deps: Deps
    keys: set[str] = field(default_factory=set)
    _kept: dict[str, StandingFile] = field(default_factory=dict)
    """By path."""

    def remember(self, batch: Sequence[ReadControlFile], taken: Sequence[control_files.CollectOutcome]) -> None:
        """Remember files that were taken in."""
        for (found, _, said), how in zip(batch, taken, strict=True):
            if how == "dead" or not control_files.stays_in_outbox(found.control) or not isinstance(said, ControlFile):
                continue
            document = said.document
            final = isinstance(document, Ack) and document.status != "CONSUMED"
            self._forget(found.path)
            self._kept[found.path] = StandingFile(
                found, document.message_id if final and isinstance(document, Ack) else None
            )
            self.keys.add(found.key)

    def _forget(self, path: str) -> None:
        known = self._kept.pop(path, None)
        if known:
            self.keys.discard(known.found.key)

    async def clear_receipts(self, plan: RoutedPlan) -> None:
        """Have those receipts of a plan moved away whose messages have left the inbox."""
        kept = [each for each in self._kept.values() if each.found.plan_id == plan.plan_id]
        done = [each.found for each in kept if await self._is_put_away(plan, each)]
        if not done:
            return

        def work(tx: Tx) -> None:
            for found in done:
                admission.schedule_removal(tx, found, root_layout.SENT)

        await plan.board.transact(work)
        for found in done:
            self._forget(found.path)

    async def _is_put_away(self, plan: RoutedPlan, kept: StandingFile) -> bool:
        agent_id, message_id = kept.found.agent_id, kept.message_id
        if message_id is None:
            return False
        about = {"plan_id": plan.plan_id, "message_id": message_id}
        rows = await plan.board.read(KNOWN_DELIVERY, **about, receiver=agent_id)
        names = {row.name for row in rows} | {f"{message_id}{root_layout.MESSAGE}"}
        box = root_layout.box_folder(agent_id, "inbox", plan.plan_id)
        return await asyncio.to_thread(_has_left, self.deps.root, box, message_id, names)


def _has_left(root: Folder, box: str, message_id: str, names: set[str]) -> bool:
    """Whether a message lies neither in an inbox nor among what is claimed there, under any of its names."""
    spelled = names | {make_claimed_name(message_id, name) for name in names}
    try:
        return not any(
            root.exists(f"{box}/{part}{name}") for part in ("", f"{root_layout.PENDING}/") for name in spelled
        )
    except AgentTalkError:
        return False
