"""Sessions of coding agents that outlive an attempt, so that rework goes on where the agent stopped.

An agent in a sandbox has a home folder that is gone after its attempt. Of that, only its sessions are kept, beside the
folders of the task's attempts, where an agent in a sandbox cannot write.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, JsonError
from agenttalk.engine.core.secrets import SecretGuard
from agenttalk.ports.folders import Folder
from agenttalk.rules.core.usage import UsageTotals, read_number

_NOTE: Final = "session.json"
_KEPT: Final = "session"
_LARGEST: Final = 32 * 1024 * 1024
"""Bytes of a session that is kept; a longer one begins again."""
_DEEPEST: Final = 20


@dataclass(frozen=True, slots=True)
class CodingSession:
    """A session that can be gone on with."""

    agent_id: str
    agent: str
    """The coding agent, as the table names it."""
    session: str
    confined: bool
    """Whether it had a home folder of its own."""
    tokens: int = 0
    cost_usd: float = 0.0
    interrupted: bool = False
    """Whether a person interrupted it."""

    @property
    def used(self) -> UsageTotals:
        """Its usage when it was kept: some agents continue counting from there."""
        return UsageTotals(self.tokens, self.cost_usd)


def save_session(
    root: Folder, turns: str, home: str, paths: tuple[str, ...], kept: CodingSession, by: SecretGuard
) -> None:
    """Keep a session with what lies at these paths of a home folder. Where that is not possible, none is kept."""
    forget_session(root, turns)
    try:
        if home:
            left = _LARGEST
            for path in paths:
                left = _copy(root, f"{home}/{path}", f"{turns}/{_KEPT}/{path}", left)
            by.scrub_tree(root, f"{turns}/{_KEPT}", _LARGEST)
        root.write(f"{turns}/{_NOTE}", wire.write(asdict(kept)), parents=True)
    except (AgentTalkError, OSError):
        forget_session(root, turns)


def find_session(root: Folder, turns: str) -> CodingSession | None:
    """Find the session that was kept last; None if there is none."""
    try:
        said: Any = wire.read(root.read(f"{turns}/{_NOTE}", wire.ENVELOPE_LIMIT))
        tokens, cost = int(read_number(said["tokens"])), read_number(said["cost_usd"])
        texts = [str(said[name]) for name in ("agent_id", "agent", "session")]
    except (AgentTalkError, JsonError, OSError, KeyError, TypeError):
        return None
    confined, interrupted = bool(said.get("confined")), said.get("interrupted") is True
    return CodingSession(texts[0], texts[1], texts[2], confined, tokens, cost, interrupted)


def restore_session(root: Folder, turns: str, home: str) -> None:
    """Put what was kept of a session into a new home folder. Raises AgentTalkError."""
    if root.exists(f"{turns}/{_KEPT}"):
        _copy(root, f"{turns}/{_KEPT}", home, _LARGEST)


def forget_session(root: Folder, turns: str) -> None:
    """Keep nothing any more."""
    remove_tree(root, f"{turns}/{_KEPT}")
    try:
        root.remove(f"{turns}/{_NOTE}")
    except (AgentTalkError, OSError):
        return


def remove_tree(root: Folder, path: str) -> None:
    """Remove a folder with all that is in it. What cannot be removed stays."""
    try:
        with root.open_folder(path) as folder:
            _empty(folder)
        root.remove(path)
    except (AgentTalkError, OSError):
        return


def _empty(folder: Folder) -> None:
    for entry in list(folder.scan()):
        if entry.kind == "folder":
            with folder.open_folder(entry.name) as inner:
                _empty(inner)
        folder.remove(entry.name)


def _copy(root: Folder, source: str, target: str, left: int, depth: int = _DEEPEST) -> int:
    """Copy files and folders, and no links; how many bytes may still be copied. Raises AgentTalkError when too many."""
    if not root.exists(source):
        return left
    with root.open_folder(source) as folder:
        entries = list(folder.scan())
    for entry in entries if depth else ():
        if entry.kind == "folder":
            left = _copy(root, f"{source}/{entry.name}", f"{target}/{entry.name}", left, depth - 1)
        elif entry.kind == "regular":
            data = root.read(f"{source}/{entry.name}", left)
            root.write(f"{target}/{entry.name}", data, parents=True)
            left -= len(data)
    return left
