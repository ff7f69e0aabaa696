"""Removes what ended plans left behind: clones, working folders, transcripts, contents without a reference.

What an open plan needs is never touched, and neither is anything that a database names: messages, evidence, the ledger,
releases. A crash may stop it anywhere: everything is first renamed into a folder that the next run empties. Only a
content is removed in one step.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import stat
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.store.backup import blob_references
from agenttalk.adapters.workspaces import folders
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.core.base import is_id
from agenttalk.contracts.errors import AgentTalkError, MachineError
from agenttalk.engine.agents import prompt_record
from agenttalk.engine.core.boards import VIRTUAL, list_boards
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.service import CollectionReport, CollectionSize
from agenttalk.ports.statements.operation import GC_RUNS, GC_TASKS
from agenttalk.rules.operation import retention
from agenttalk.rules.operation.retention import Kind, RemovableItem, RetentionLimit

TRASH: Final = ".agenttalk-trash"
"""The folder for items that are being removed, inside the folder where they were."""
SHOWN: Final = 1000
"""How many items a report names."""
_CLONES: Final = "workspaces"
_OF_CLONES: Final = ("attempts", "sealed", "prepared")
"""Folders in a plan's home that can be made again, or are useless once the plan has ended. Repositories stay."""
_TURNS: Final = ".agenttalk"
_TRANSCRIPT: Final = ".events.jsonl"
_BLOBS: Final = "data/blobs"
_ASIDE: Final = ".gc-"
_BLOCK: Final = 512
_DAY: Final = 86_400
"""Seconds. A younger content may be stored, and its reference not yet."""
_AGAIN: Final = 0.5
"""Seconds after which the list of ended plans is read again."""


@dataclass(frozen=True, slots=True)
class GarbageCollector:
    """Removes garbage from a root."""

    deps: Deps
    keeps: Mapping[Kind, RetentionLimit]

    async def collect(self, *, dry_run: bool = False) -> CollectionReport:
        """Remove what is too old or too much, and report it. With `dry_run`, only report."""
        ended = await self._ended()
        root = self.deps.root.path.absolute()
        now = self.deps.now()
        items = await asyncio.to_thread(lambda: list(_left(root, ended)))
        items += await asyncio.to_thread(self._unnamed, root, now)
        chosen = retention.choose_removals(items, self.keeps, now)
        if not dry_run:
            await asyncio.to_thread(_finish, root, ended, now)
            chosen = [item async for item in self._removed(root, chosen, now)]
        freed: dict[str, CollectionSize] = {
            kind: {"count": len(own), "bytes": sum(item.size for item in own)}
            for kind in retention.KINDS
            for own in [[item for item in chosen if item.kind == kind]]
        }
        if chosen and not dry_run:
            system = await self.deps.stores.board("system")
            await system.transact(lambda tx: tx.record("gc.collected", "root", {"freed": freed}))
        return {
            "dry_run": dry_run,
            "freed": freed,
            "bytes": sum(item.size for item in chosen),
            "items": [{"kind": each.kind, "path": each.path, "bytes": each.size} for each in chosen[:SHOWN]],
        }

    async def _ended(self) -> dict[tuple[str, str], datetime]:
        """Map plan and task (an empty task: all tasks of the plan) to the time since when they are unused."""
        found: dict[tuple[str, str], datetime] = {}
        for board in await list_boards(self.deps):
            for plan_id, state, at in await board.read(GC_RUNS):
                if state == "ENDED" and at and plan_id not in VIRTUAL:
                    found[plan_id, ""] = datetime.fromisoformat(at)
            for plan_id, task_id, at in await board.read(GC_TASKS) if board.name in VIRTUAL else ():
                found[plan_id, task_id] = datetime.fromisoformat(at)
        return found

    async def _removed(self, root: Path, chosen: list[RemovableItem], now: datetime) -> AsyncIterator[RemovableItem]:
        """Remove items one by one. An item that a plan needs again by then stays."""
        loop, looked, ended = asyncio.get_running_loop(), -_AGAIN, {}
        for item in chosen:
            if item.kind == "blobs":
                if await asyncio.to_thread(_forget, root / item.path, now.timestamp() - _DAY):
                    yield item
                continue
            if loop.time() - looked >= _AGAIN:
                looked, ended = loop.time(), await self._ended()
            task_id = item.path.split("/")[4] if item.path.startswith(f"{root_layout.AGENTS}/") else ""
            if (item.plan_id, "") not in ended and (item.plan_id, task_id) not in ended:
                continue
            if await asyncio.to_thread(_remove, root, item):
                yield item

    def _unnamed(self, root: Path, now: datetime) -> list[RemovableItem]:
        """List contents without a reference. Contents are listed first, because each is stored before its reference."""
        if self.deps.shared:
            return []
        old = list(_old_blobs(root / _BLOBS, now.timestamp() - _DAY))
        named = blob_references.find_references(root) if old else set()
        return [
            RemovableItem("blobs", str(path.relative_to(root)), status.st_blocks * _BLOCK, _time(status.st_mtime))
            for path, status in old
            if path.parent.name + path.name not in named
        ]


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _old_blobs(folder: Path, cutoff: float) -> Iterator[tuple[Path, os.stat_result]]:
    for path in folder.glob("??/[0-9a-f]*"):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mtime < cutoff:
                yield path, status


def _forget(path: Path, cutoff: float) -> bool:
    """Remove a content, unless it was just stored again: then it is new, and stays."""
    aside = path.with_name(f"{_ASIDE}{path.name}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    return _forgotten(aside, cutoff)


def _forgotten(aside: Path, cutoff: float) -> bool:
    """Remove a content that was set aside if it is old; else restore it. True if it was removed."""
    old = aside.lstat().st_mtime < cutoff
    if not old:
        with suppress(FileExistsError):  # it was stored again meanwhile
            os.link(aside, aside.with_name(aside.name.removeprefix(_ASIDE)))
    aside.unlink()
    return old


def _left(root: Path, ended: Mapping[tuple[str, str], datetime]) -> Iterator[RemovableItem]:
    """List the items that ended plans left in folders."""
    for plan_id, task_id in ended:
        if not task_id and is_id(plan_id):
            yield from _clones(root, plan_id, ended[plan_id, task_id])
    with SafeFolder.open(root) as top:
        for agent in _folders(top, root_layout.AGENTS):
            for plan_id in _folders(top, f"{root_layout.agent_folder(agent)}/workspace"):
                for task in _folders(top, f"{root_layout.agent_folder(agent)}/workspace/{plan_id}"):
                    at = ended.get((plan_id, "")) or ended.get((plan_id, task))
                    if at is not None and task not in {"inputs", TRASH}:
                        yield from _of_task(
                            top, f"{root_layout.agent_folder(agent)}/workspace/{plan_id}/{task}", plan_id, at
                        )


def _folders(top: SafeFolder, path: str) -> list[str]:
    """List the folders in a folder; empty if it is missing or reached through a link."""
    try:
        with top.open_folder(path) as here:
            return sorted(entry.name for entry in here.scan() if entry.kind == "folder" and entry.is_text)
    except AgentTalkError:
        return []


def _clones(root: Path, plan_id: str, at: datetime) -> Iterator[RemovableItem]:
    for name in _OF_CLONES:
        folder = root / _CLONES / plan_id / name
        for path in sorted(folder.iterdir()) if folder.is_dir() and not folder.is_symlink() else ():
            yield RemovableItem("clones", str(path.relative_to(root)), _size(path), at, plan_id)


def _of_task(top: SafeFolder, path: str, plan_id: str, at: datetime) -> Iterator[RemovableItem]:
    """List a working folder and the transcripts in it. A folder that holds nothing else is not an item."""
    size = sum(_size(top.path / path / name) for name in _rubbish(top, path))
    if size:
        yield RemovableItem("workspaces", path, size, at, plan_id)
    for name in _transcripts(top, path):
        where = f"{path}/{_TURNS}/{name}"
        yield RemovableItem("transcripts", where, _size(top.path / where), at, plan_id)


def _names(top: SafeFolder, path: str) -> list[tuple[str, str]]:
    try:
        with top.open_folder(path) as here:
            return sorted((entry.name, entry.kind) for entry in here.scan())
    except AgentTalkError:
        return []


def _transcripts(top: SafeFolder, path: str) -> list[str]:
    found = _names(top, f"{path}/{_TURNS}")
    return [name for name, kind in found if kind == "regular" and name.endswith((_TRANSCRIPT, prompt_record.SUFFIX))]


def _rubbish(top: SafeFolder, path: str) -> list[str]:
    """List what can be removed from a working folder: all but transcripts and the prompts beside them."""
    kept = set(_transcripts(top, path))
    own = [name for name, kind in _names(top, path) if (name, kind) != (_TURNS, "folder")]
    return own + [f"{_TURNS}/{name}" for name, _ in _names(top, f"{path}/{_TURNS}") if name not in kept]


def _remove(root: Path, item: RemovableItem) -> bool:
    """Move an item into the trash of its folder, and empty the trash. Links are not followed."""
    if item.kind == "clones":
        home = root.joinpath(*Path(item.path).parts[:2])
        folders.remove(root / item.path, home / "trash")
        return True
    above, _, name = item.path.rpartition("/")
    with suppress(AgentTalkError), SafeFolder.open(root) as top:
        names = [name] if item.kind == "transcripts" else [f"{name}/{each}" for each in _rubbish(top, item.path)]
        with top.open_folder(above) as here:
            here.make_folder(TRASH)
            for each in names:
                _discard(here, each)
            _emptied(here)
        _prune(top, above if item.kind == "transcripts" else f"{item.path}/{_TURNS}")
        return True
    return False


def _prune(top: SafeFolder, path: str) -> None:
    """Remove an empty folder and the empty folders above it, up to that of the plan."""
    while path.count("/") >= 3:  # agents/<agent>/workspace/<plan>
        with suppress(AgentTalkError):  # something is kept in it
            top.remove(path)
        path = path.rpartition("/")[0]


def _discard(here: SafeFolder, name: str) -> None:
    try:
        here.move(name, here, f"{TRASH}/{secrets.token_hex(8)}")
    except MachineError:  # a folder without rights cannot be moved
        path = Path(f"/proc/self/fd/{here.descriptor}") / name
        with suppress(OSError):
            if stat.S_ISDIR(path.lstat().st_mode):
                path.chmod(stat.S_IRWXU)
        here.move(name, here, f"{TRASH}/{secrets.token_hex(8)}")


def _finish(root: Path, ended: Mapping[tuple[str, str], datetime], now: datetime) -> None:
    """Finish an interrupted run: empty the trash, and remove folders that are empty."""
    for path in (root / _BLOBS).glob(f"??/{_ASIDE}*"):
        _forgotten(path, now.timestamp() - _DAY)
    for plan_id, task_id in ended:
        if not task_id and is_id(plan_id):
            folders.empty_folder(root / _CLONES / plan_id / "trash")
    with SafeFolder.open(root) as top:
        for agent in _folders(top, root_layout.AGENTS):
            for plan_id in _folders(top, f"{root_layout.agent_folder(agent)}/workspace"):
                above = f"{root_layout.agent_folder(agent)}/workspace/{plan_id}"
                for where in (above, *(f"{above}/{task}/{_TURNS}" for task in _folders(top, above))):
                    if TRASH in _folders(top, where):
                        with suppress(AgentTalkError), top.open_folder(where) as here:
                            _emptied(here)
                for task in _folders(top, above):
                    if (plan_id, "") in ended or (plan_id, task) in ended:
                        _prune(top, f"{above}/{task}/{_TURNS}")


def _emptied(here: SafeFolder) -> None:
    folders.empty_folder(
        Path(f"/proc/self/fd/{here.descriptor}") / TRASH
    )  # by the descriptor: no name on the way can change
    here.remove(TRASH)


def _size(path: Path) -> int:
    """Return the bytes on disk of a file, or of a folder with its content. What cannot be read counts as 0."""
    total = 0
    waiting = [path]
    while waiting:
        here = waiting.pop()
        with suppress(OSError):
            status = here.lstat()
            total += status.st_blocks * _BLOCK
            if stat.S_ISDIR(status.st_mode):
                waiting += [Path(entry.path) for entry in os.scandir(here)]
    return total
