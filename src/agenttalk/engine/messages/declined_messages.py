"""Collects messages that a receiver moved into the dead letters of its inbox: their tasks fail, with an alert."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final, NamedTuple

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.contracts.record import Ack
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.unchanged_folders import UnchangedFolders
from agenttalk.engine.messages import control_files
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import DELIVERY_OF, MESSAGE, OPEN_BOXES, PLAN
from agenttalk.ports.storage import Store, Tx

_MOST: Final = 1_000
"""The most files of one folder that are read."""


class DeclinedFile(NamedTuple):
    """A file among the dead letters of an inbox."""

    name: str
    message_id: str
    data: bytes


class DeclineCollector:
    """Searches the inboxes with open messages for messages that their receivers declined."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._quiet = UnchangedFolders()

    async def collect(self, board: Store) -> int:
        """Collect the declined messages of a board. Returns how many there were."""
        count = 0
        for agent_id, plan_id in await board.read(OPEN_BOXES):
            letters = await asyncio.to_thread(self._letters, agent_id, plan_id)
            work = partial(_decline, letters=letters, agent_id=agent_id, plan_id=plan_id, at=self._deps.stamp())
            count += await board.transact(work) if letters else 0
        return count

    def _letters(self, agent_id: str, plan_id: str) -> list[DeclinedFile]:
        path = f"{root_layout.box_folder(agent_id, 'inbox', plan_id)}/{root_layout.DEADLETTER}"
        now = self._quiet.now()
        try:
            entry = self._deps.root.entry(path)
            if entry is None or entry.kind != "folder" or self._quiet.is_unchanged(path, entry, now):
                return []
            with self._deps.root.open_folder(path) as folder:
                names = sorted(name for name in folder.names() if root_layout.MESSAGE in name)[:_MOST]
                found = [letter for name in names for letter in _read(folder, name)]
        except AgentTalkError:
            return []
        self._quiet.record(path, entry, now, news=False)
        return found


def _read(folder: Folder, name: str) -> list[DeclinedFile]:
    """Read a declined message. Its id is in the content, since the receiver may have renamed the file."""
    try:
        data = folder.read(name, wire.ENVELOPE_LIMIT)
        said = wire.read(data)
    except AgentTalkError:
        return []
    message_id = said.get("message_id") if isinstance(said, dict) else None
    return [DeclinedFile(name, message_id, data)] if isinstance(message_id, str) and is_id(message_id) else []


def _decline(tx: Tx, letters: list[DeclinedFile], agent_id: str, plan_id: str, at: str) -> int:
    origin = tx.run(PLAN, plan_id=plan_id)[0].origin
    count = 0
    for letter in letters:
        rows = tx.run(DELIVERY_OF, plan_id=plan_id, message_id=letter.message_id, receiver=agent_id)
        if not rows or rows[0].state not in {"delivered", "claimed"} or rows[0].ack in {"SUCCEEDED", "FAILED"}:
            continue
        delivery = rows[0]
        [message] = tx.run(MESSAGE, id=delivery.message)
        if wire.sha256(letter.data) != message.sha256:
            continue  # the file with its id has another content, so the message that we sent is still open
        why = f"{agent_id} put it into {root_layout.DEADLETTER} of its inbox; its alerts may say why"
        ack = Ack.from_json(
            {
                "plan_id": plan_id,
                "message_id": letter.message_id,
                "task_id": delivery.task_id,
                **({"command_id": delivery.command_id, "command_seq": delivery.seq} if delivery.command_id else {}),
                "consumer_agent_id": agent_id,
                "status": "FAILED",
                "consumed_at": records.format_time(delivery.consumed_at or at),
                "finished_at": records.format_time(at),
                "result": {"ok": False, "details": f"{Code.DEADLETTERED_BY_RECEIVER}: {why}"},
            }
        )
        control_files.acknowledge(tx, ack, plan_id=plan_id, foreign=origin == "foreign", at=at)
        records.publish_file(tx, f"plans/{plan_id}/acks/{root_layout.ack_name(letter.message_id)}", ack.as_json())
        key = f"inbox/{agent_id}/{letter.message_id}"
        refused = records.RefusedMessage(
            plan_id=plan_id,
            agent_id=agent_id,
            box="inbox",
            name=letter.name,
            key=key,
            code=Code.DEADLETTERED_BY_RECEIVER,
            reason=why,
            original=letter.data,
            message_id=letter.message_id,
            sha256=wire.sha256(letter.data),
        )
        records.write_dead_letter(tx, refused, at=at)
        declined = records.JournalMessage(
            plan_id,
            letter.message_id,
            message.sha256,
            message.producer,
            delivery.task_id,
            delivery.command_id,
            message.output_name,
        )
        more = {"skip_reason": str(Code.DEADLETTERED_BY_RECEIVER)}
        records.write_journal_line(
            tx, declined, "FAILED", at=at, delivery_id=records.derive_id("dlv", key), to=agent_id, **more
        )
        count += 1
    return count
