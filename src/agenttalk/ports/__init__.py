"""What the engine needs of the world. The docstrings are the specification; adapters live elsewhere.

A name is loaded when it is first asked for: whoever needs a store does not pay for agents and proof.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agenttalk.ports.agents import (
        BindMount,
        Confinement,
        Driver,
        InputContent,
        Job,
        JobMonitor,
        Judge,
        Performer,
        Processes,
        ProcessIdentity,
        ProgramInput,
        ProgramTurn,
        ResourceBudget,
        SandboxSelector,
        StdioClient,
        TurnEnd,
    )
    from agenttalk.ports.dialogues import (
        Dialogue,
        DialogueDriver,
        DialogueFactory,
        PermissionRequest,
        SessionParameters,
    )
    from agenttalk.ports.folders import Digest, Folder, FolderEntry
    from agenttalk.ports.forge import (
        DefaultBranch,
        DeliverySignature,
        EventlessDelivery,
        EventSource,
        Forge,
        Headers,
        MergeResult,
    )
    from agenttalk.ports.kinds import (
        FollowUp,
        ForgeWaiter,
        KindOutcome,
        KindTask,
        KindTurn,
        MailKind,
        MailRules,
        OutageReporter,
        Submission,
        TaskKind,
    )
    from agenttalk.ports.proof import (
        NO_EXHIBIT,
        AcceptedWork,
        Baseline,
        BranchTip,
        CheckResultStore,
        Confirmer,
        Exhibit,
        Prover,
        Shipment,
        ShipmentReport,
    )
    from agenttalk.ports.storage import Blobs, Clock, Ids, Store, Stores, Tx, UncancellableFuture, Value
    from agenttalk.rules.proof.performance import OutputContent, Performance, WorkProof

_PERFORMANCE: Final = "agenttalk.rules.proof.performance"
_HOMES: Final = {
    "BindMount": "agents",
    "ResourceBudget": "agents",
    "Confinement": "agents",
    "Driver": "agents",
    "TurnEnd": "agents",
    "InputContent": "agents",
    "Job": "agents",
    "Judge": "agents",
    "OutputContent": _PERFORMANCE,
    "ProcessIdentity": "agents",
    "ProgramInput": "agents",
    "Performance": _PERFORMANCE,
    "Performer": "agents",
    "Processes": "agents",
    "StdioClient": "agents",
    "SandboxSelector": "agents",
    "ProgramTurn": "agents",
    "JobMonitor": "agents",
    "PermissionRequest": "dialogues",
    "Dialogue": "dialogues",
    "DialogueFactory": "dialogues",
    "SessionParameters": "dialogues",
    "DialogueDriver": "dialogues",
    "Digest": "folders",
    "FolderEntry": "folders",
    "Folder": "folders",
    "EventSource": "forge",
    "DefaultBranch": "forge",
    "DeliverySignature": "forge",
    "Forge": "forge",
    "Headers": "forge",
    "MergeResult": "forge",
    "EventlessDelivery": "forge",
    "OutageReporter": "kinds",
    "FollowUp": "kinds",
    "KindOutcome": "kinds",
    "KindTask": "kinds",
    "KindTurn": "kinds",
    "MailKind": "kinds",
    "MailRules": "kinds",
    "Submission": "kinds",
    "TaskKind": "kinds",
    "ForgeWaiter": "kinds",
    "NO_EXHIBIT": "proof",
    "Baseline": "proof",
    "Confirmer": "proof",
    "ShipmentReport": "proof",
    "Exhibit": "proof",
    "CheckResultStore": "proof",
    "AcceptedWork": "proof",
    "WorkProof": _PERFORMANCE,
    "Prover": "proof",
    "Shipment": "proof",
    "BranchTip": "proof",
    "Blobs": "storage",
    "Clock": "storage",
    "Ids": "storage",
    "UncancellableFuture": "storage",
    "Store": "storage",
    "Stores": "storage",
    "Tx": "storage",
    "Value": "storage",
}

__all__ = [
    "NO_EXHIBIT",
    "AcceptedWork",
    "Baseline",
    "BindMount",
    "Blobs",
    "BranchTip",
    "CheckResultStore",
    "Clock",
    "Confinement",
    "Confirmer",
    "DefaultBranch",
    "DeliverySignature",
    "Dialogue",
    "DialogueDriver",
    "DialogueFactory",
    "Digest",
    "Driver",
    "EventSource",
    "EventlessDelivery",
    "Exhibit",
    "Folder",
    "FolderEntry",
    "FollowUp",
    "Forge",
    "ForgeWaiter",
    "Headers",
    "Ids",
    "InputContent",
    "Job",
    "JobMonitor",
    "Judge",
    "KindOutcome",
    "KindTask",
    "KindTurn",
    "MailKind",
    "MailRules",
    "MergeResult",
    "OutageReporter",
    "OutputContent",
    "Performance",
    "Performer",
    "PermissionRequest",
    "ProcessIdentity",
    "Processes",
    "ProgramInput",
    "ProgramTurn",
    "Prover",
    "ResourceBudget",
    "SandboxSelector",
    "SessionParameters",
    "Shipment",
    "ShipmentReport",
    "StdioClient",
    "Store",
    "Stores",
    "Submission",
    "TaskKind",
    "TurnEnd",
    "Tx",
    "UncancellableFuture",
    "Value",
    "WorkProof",
]


if not TYPE_CHECKING:  # or else every name would be one of ours

    def __getattr__(name: str) -> object:
        """A name out of the module that is its home."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = _HOMES[name]
        value: object = getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)
        globals()[name] = value
        return value
