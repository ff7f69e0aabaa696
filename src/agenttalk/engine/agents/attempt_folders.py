"""Makes the folders of an attempt, where an agent may have put something else in their place before."""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace
from typing import Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.errors import Code, InputError
from agenttalk.engine.core.attempt_paths import AttemptPaths
from agenttalk.ports.folders import Folder
from agenttalk.rules.checks import hidden_checks

LOG = logging.getLogger(__name__)
_WORKSPACE: Final = "workspace"


def make_folders(root: Folder, agent_id: str, layout: AttemptPaths, command: Command) -> AttemptPaths:
    """Make the folders and write the command. Other users of the machine cannot read what programs leave."""
    try:
        _make(root, agent_id, layout)
    except InputError as error:
        if error.code is not Code.FILE_UNSAFE or not _cleared(root, agent_id, layout):
            raise
        _make(root, agent_id, layout)
    root.write(layout.command, hidden_checks.hide_command(command).to_bytes() + b"\n")
    written = root.entry(layout.command)
    return replace(layout, since=written.ctime_ns if written else 0)


def _make(root: Folder, agent_id: str, layout: AttemptPaths) -> None:
    root.make_folder(f"{root_layout.agent_folder(agent_id)}/{_WORKSPACE}", private=True)
    root.make_folder(layout.cwd)
    if root.exists(layout.base):  # left by an attempt that died with its engine, or made by the agent in advance
        _set_aside(root, layout.base)
    root.make_folder(layout.inputs)
    root.make_folder(layout.outputs)


def _cleared(root: Folder, agent_id: str, layout: AttemptPaths) -> bool:
    """Move an entry away that is not a folder on the path of an attempt, in the agent's folder. Whether there was one.

    The target of a link is not touched.
    """
    own = root_layout.agent_folder(agent_id)
    ways = [own, *(f"{own}/{way}" for way in _ways(layout.base.removeprefix(f"{own}/")))]
    for way in ways:
        entry = root.entry(way)
        if entry is None:
            return False
        if entry.kind != "folder":
            LOG.warning("%s is not a folder, and was moved away", way, extra={"action": "turn.grounds"})
            _set_aside(root, way)
            return True
    return False


def _ways(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _set_aside(root: Folder, path: str) -> None:
    above, _, name = path.rpartition("/")
    with root.open_folder(above) as folder:
        folder.move(name, folder, f"{name}.{secrets.token_hex(8)}")
