"""Makes the files follow the store: puts envelopes and payloads away, shows inputs, writes outbox files.

All of it can be done again after a crash; files that are already in place are recognised and left.
"""

from __future__ import annotations

import asyncio
from typing import Final

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import MissingError
from agenttalk.engine.core import outbox_writer
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.inbox import archive
from agenttalk.ports.statements.inbox import UNSETTLED
from agenttalk.ports.statements.messages import FREE_PAYLOADS, SET_SHOWN
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages.archive import make_claimed_name

_AT_ONCE: Final = 50
_PLACES: Final = {
    "processed": root_layout.PROCESSED,
    "superseded": root_layout.PROCESSED,
    "dead": root_layout.DEADLETTER,
}


async def sync_files(seat: AgentInPlan, running: int | None = None) -> int:
    """Do the file work that is due, except for the delivery that is `running`. Returns how much there was."""
    done = 0
    while rows := await seat.store.read(UNSETTLED, plan_id=seat.plan_id, receiver=seat.agent_id, limit=_AT_ONCE):
        due = [row for row in rows if row.id != running]
        if not due:
            break
        index = False
        for row in due:
            envelope = bytes(row.envelope)
            if row.type == "artifact" and row.state == "processed":
                await archive.show_artifact(seat, row.message_id, row.task_id, row.output_name or "", envelope)
                index = True
            elif row.type == "artifact":
                await archive.put_payloads_away(seat, root_layout.DEADLETTER, row.message_id, envelope)
            name = make_claimed_name(row.message_id, row.name)
            await asyncio.to_thread(_put_away, seat, _PLACES[row.state], name, envelope)
        if index:
            await archive.show_index(seat)
        settled = [(row.id, row.state) for row in due]

        def note(tx: Tx, settled: list[tuple[int, str]] = settled) -> None:
            for delivery, state in settled:
                tx.run(SET_SHOWN, id=delivery, state=state)
                tx.run(FREE_PAYLOADS, delivery=delivery)

        await seat.store.transact(note)
        done += len(due)
    return done + await outbox_writer.write_queued_files(seat)


def _put_away(seat: AgentInPlan, folder: str, name: str, envelope: bytes) -> None:
    """Move the envelope of a message that has ended out of `.pending`. A lost one is written again."""
    with seat.root.open_folder(seat.inbox, create=True) as inbox, inbox.open_folder(folder, create=True) as target:
        try:
            inbox.move(f"{root_layout.PENDING}/{name}", target, name, replace=True)
        except MissingError:
            if not target.exists(name):
                target.write(name, envelope)
