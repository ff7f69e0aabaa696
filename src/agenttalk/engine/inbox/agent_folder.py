"""The folder of an agent as its heartbeat sees it: the profile and the inboxes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import AgentId, is_id
from agenttalk.contracts.errors import AgentTalkError, MissingError
from agenttalk.engine.core.boards import VIRTUAL, list_boards, open_if_readable
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.inbox.tick_report import TickReport
from agenttalk.ports.folders import FolderEntry
from agenttalk.ports.storage import Store

_DRIVEN = ("script", "cli")
"""Drivers whose agents a heartbeat can start."""


class AgentFolder:
    """Reads the folder of one agent."""

    def __init__(
        self,
        deps: Deps,
        agent_id: str,
        drivers: Collection[str],
        read_configured: Callable[[], AgentProfile] | None,
    ) -> None:
        """`drivers` are those that this machine has.

        `read_configured` reads the profile with the settings that lie over it; else the profile file alone is read.
        """
        self._deps = deps
        self._agent_id = agent_id
        self._drivers = drivers
        self._read_configured = read_configured

    async def read_profile(self, tick: TickReport) -> AgentProfile | None:
        """Read the profile; None if a heartbeat does not drive the agent. Adds what is wrong with it to the tick."""
        profile = await self._read_with_settings()
        if profile is None:
            profile = await self._read_file(tick)
        return await self._require_driven(profile, tick) if profile is not None else None

    async def _read_with_settings(self) -> AgentProfile | None:
        if self._read_configured is None:
            return None
        try:
            return await asyncio.to_thread(self._read_configured)
        except AgentTalkError:
            return None  # reading the file alone finds the error, too, and reports it

    async def _read_file(self, tick: TickReport) -> AgentProfile | None:
        path = f"{root_layout.agent_folder(self._agent_id)}/{root_layout.PROFILE}"
        try:
            return AgentProfile.from_bytes(await asyncio.to_thread(self._deps.root.read, path, wire.ENVELOPE_LIMIT))
        except MissingError:
            return AgentProfile(agent_id=AgentId(self._agent_id))
        except AgentTalkError as error:
            tick.errors.append(f"{root_layout.PROFILE}: {error.message}")
            return None

    async def _require_driven(self, profile: AgentProfile, tick: TickReport) -> AgentProfile | None:
        if profile.agent_id != self._agent_id:
            tick.errors.append(f"{root_layout.PROFILE}: it is that of {profile.agent_id!r}; correct agent_id")
            return None
        if profile.driver in _DRIVEN and profile.driver in self._drivers:
            return self._deps.operator.words.apply_to(profile)
        if profile.driver == "folder":  # a person works in the boxes of a folder agent: they are left alone
            tick.waiting = await asyncio.to_thread(self._count_messages)
        else:
            tick.errors.append(f"the driver {profile.driver[:40]!r} is not supported here")
        return None

    def _count_messages(self) -> int:
        """Count the messages in all inboxes of the agent."""
        count = 0
        for plan_id in self.list_inboxes():
            with (
                suppress(AgentTalkError),
                self._deps.root.open_folder(root_layout.box_folder(self._agent_id, "inbox", plan_id)) as box,
            ):
                count += sum(name.endswith(root_layout.MESSAGE) and not name.startswith(".") for name in box.names())
        return count

    def list_inboxes(self) -> dict[str, FolderEntry]:
        """List the folders in the agent's inbox, by plan."""
        try:
            with self._deps.root.open_folder(f"{root_layout.agent_folder(self._agent_id)}/inbox") as folder:
                entries = {entry.name: entry for entry in folder.scan() if entry.kind == "folder" and entry.is_text}
        except AgentTalkError:
            return {}
        return {name: entries[name] for name in entries if is_id(name) and (name[0] != "_" or name in VIRTUAL)}

    async def list_boards(self) -> list[Store]:
        """List the boards on which the agent can have work: virtual ones only if it has an inbox for them."""
        names = await asyncio.to_thread(self.list_inboxes)
        virtual = [await open_if_readable(self._deps, name) for name in sorted(VIRTUAL & names.keys())]
        return [*await list_boards(self._deps), *(store for store in virtual if store is not None)]
