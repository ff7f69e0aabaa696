"""Notes for people about files that were read although their form differs from ours: one per agent, kind and field."""

from __future__ import annotations

import re
from collections.abc import Iterable

from agenttalk.contracts.errors import Code
from agenttalk.contracts.generation import Repair
from agenttalk.engine.core import records
from agenttalk.ports.storage import Tx

_PLACES = re.compile(r"\[\d+\]")


def note_repairs(tx: Tx, plan_id: str, agent_id: str | None, kind: str, repairs: Iterable[Repair], *, at: str) -> None:
    """Note what was brought into our form."""
    for each in repairs:
        field = _PLACES.sub("[]", each.field)
        whose = f" of {agent_id}" if agent_id else ""
        records.alert(
            tx,
            at=at,
            plan_id=plan_id,
            code=Code.FORM_MENDED,
            message=f"{kind}{whose}: {field}: {each.why}",
            key=f"form/{agent_id}/{kind}/{field}",
            severity="WARNING",
            source=records.RecordSource(agent_id),
            details={"field": each.field, "from": each.before, "to": each.after},
        )
