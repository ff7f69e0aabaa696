"""Which protocols agents can be spoken with. The package that one needs is loaded when it is first used."""

from __future__ import annotations

from agenttalk.ports import Dialogue, Opening

REMEDY = "pip install 'agenttalk[acp]'"


def begun(opening: Opening) -> Dialogue:
    """A dialogue in the Agent Client Protocol. Raises ValueError where its package is missing."""
    try:
        from agenttalk.adapters.drivers.acp import AcpDialogue
    except ImportError as error:
        raise ValueError(f"the driver acp needs a package that is not installed; {REMEDY}") from error
    return AcpDialogue(opening)
