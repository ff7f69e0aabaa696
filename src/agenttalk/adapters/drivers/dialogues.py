"""The protocols that agents speak. The package of a protocol is loaded at its first use."""

from __future__ import annotations

from agenttalk.ports.dialogues import Dialogue, SessionParameters

REMEDY = "pip install 'agenttalk[acp]'"


def open_acp_dialogue(opening: SessionParameters) -> Dialogue:
    """Open a dialogue in the Agent Client Protocol. Raises ValueError where its package is missing."""
    try:
        from agenttalk.adapters.drivers.acp import AcpDialogue
    except ImportError as error:
        raise ValueError(f"the driver acp needs a package that is not installed; {REMEDY}") from error
    return AcpDialogue(opening)
