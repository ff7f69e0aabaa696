"""What the engine needs of the world. The docstrings are the specification; adapters live elsewhere.

A name is loaded when it is first asked for: whoever needs a store does not pay for agents and proof.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agenttalk.ports.agents import (
        Budget,
        Confinement,
        Driver,
        Ended,
        Handed,
        Job,
        Judge,
        Made,
        Owner,
        Pen,
        Performance,
        Performer,
        Processes,
        Talk,
        Tiers,
        Turn,
        Watch,
    )
    from agenttalk.ports.dialogues import Asks, Dialogue, Dialogues, Opening, Speaks
    from agenttalk.ports.folders import Digest, Entry, Folder
    from agenttalk.ports.forge import EventSource, Forge, Headers, Merged, Unread
    from agenttalk.ports.kinds import (
        Away,
        FollowUp,
        KindOutcome,
        KindTask,
        KindTurn,
        MailKind,
        MailRules,
        Said,
        TaskKind,
    )
    from agenttalk.ports.proof import (
        NO_EXHIBIT,
        Baseline,
        Confirm,
        Examined,
        Exhibit,
        Findings,
        Left,
        Proof,
        Prover,
        Shipment,
        Tip,
    )
    from agenttalk.ports.storage import Blobs, Clock, Ids, Lasting, Row, Store, Stores, Tx, Value

_HOMES: Final = {
    "Budget": "agents",
    "Confinement": "agents",
    "Driver": "agents",
    "Ended": "agents",
    "Handed": "agents",
    "Job": "agents",
    "Judge": "agents",
    "Made": "agents",
    "Owner": "agents",
    "Pen": "agents",
    "Performance": "agents",
    "Performer": "agents",
    "Processes": "agents",
    "Talk": "agents",
    "Tiers": "agents",
    "Turn": "agents",
    "Watch": "agents",
    "Asks": "dialogues",
    "Dialogue": "dialogues",
    "Dialogues": "dialogues",
    "Opening": "dialogues",
    "Speaks": "dialogues",
    "Digest": "folders",
    "Entry": "folders",
    "Folder": "folders",
    "EventSource": "forge",
    "Forge": "forge",
    "Headers": "forge",
    "Merged": "forge",
    "Unread": "forge",
    "Away": "kinds",
    "FollowUp": "kinds",
    "KindOutcome": "kinds",
    "KindTask": "kinds",
    "KindTurn": "kinds",
    "MailKind": "kinds",
    "MailRules": "kinds",
    "Said": "kinds",
    "TaskKind": "kinds",
    "NO_EXHIBIT": "proof",
    "Baseline": "proof",
    "Confirm": "proof",
    "Examined": "proof",
    "Exhibit": "proof",
    "Findings": "proof",
    "Left": "proof",
    "Proof": "proof",
    "Prover": "proof",
    "Shipment": "proof",
    "Tip": "proof",
    "Blobs": "storage",
    "Clock": "storage",
    "Ids": "storage",
    "Lasting": "storage",
    "Row": "storage",
    "Store": "storage",
    "Stores": "storage",
    "Tx": "storage",
    "Value": "storage",
}

__all__ = [
    "NO_EXHIBIT",
    "Asks",
    "Away",
    "Baseline",
    "Blobs",
    "Budget",
    "Clock",
    "Confinement",
    "Confirm",
    "Dialogue",
    "Dialogues",
    "Digest",
    "Driver",
    "Ended",
    "Entry",
    "EventSource",
    "Examined",
    "Exhibit",
    "Findings",
    "Folder",
    "FollowUp",
    "Forge",
    "Handed",
    "Headers",
    "Ids",
    "Job",
    "Judge",
    "KindOutcome",
    "KindTask",
    "KindTurn",
    "Lasting",
    "Left",
    "Made",
    "MailKind",
    "MailRules",
    "Merged",
    "Opening",
    "Owner",
    "Pen",
    "Performance",
    "Performer",
    "Processes",
    "Proof",
    "Prover",
    "Row",
    "Said",
    "Shipment",
    "Speaks",
    "Store",
    "Stores",
    "Talk",
    "TaskKind",
    "Tiers",
    "Tip",
    "Turn",
    "Tx",
    "Unread",
    "Value",
    "Watch",
]


if not TYPE_CHECKING:  # or else every name would be one of ours

    def __getattr__(name: str) -> object:
        """A name out of the module that is its home."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
