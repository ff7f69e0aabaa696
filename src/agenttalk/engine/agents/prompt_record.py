"""Prompts as agents got them: kept as files beside the transcripts, and believed only if the ledger's hash says so.

Of agents that are functions, people or elsewhere nothing is kept but the hash.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Literal, TypedDict

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.core.attempt_paths import TURNS
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.folders import Folder
from agenttalk.ports.statements.messages import TASK
from agenttalk.ports.statements.views import TASK_ORDERS

LOG = logging.getLogger(__name__)
SUFFIX: Final = ".prompt.txt"
"""After the name of an attempt's folder."""
LARGEST: Final = 8 * 1024 * 1024
"""Bytes of a prompt that is kept."""
ORDERS: Final = 50
"""Newest commands of a task that are searched."""

PromptStatus = Literal["as_injected", "differs", "hash_only", "not_yet"]


class PromptRecord(TypedDict):
    """The prompt of a command, as its agent got it last."""

    command_id: str | None
    attempt: int | None
    sha256: str | None
    """Of the very prompt, as the ledger has it."""
    standing: PromptStatus
    """`as_injected`: the text has that hash. `differs`: it has another, so secrets were taken out, or the file was
    changed. `hash_only`: no text was kept. `not_yet`: no agent got it."""
    text: str | None


def save_prompt(root: Folder, base: str, prompt: str) -> None:
    """Keep the prompt of an attempt whose folder is `base`. Where that is not possible the turn goes on without."""
    data = prompt.encode("utf-8", "replace")
    if len(data) > LARGEST:
        return
    try:
        root.write(f"{base}{SUFFIX}", data, parents=True)
    except (AgentTalkError, OSError) as error:
        LOG.warning("a prompt is not kept: %s", error, extra={"action": "turn.prompt"})


async def read_prompt(deps: Deps, plan_id: str, task_id: str, command_id: str = "") -> PromptRecord:
    """Find the prompt of a task's command, by default of the newest. Raises UsageError when there is none."""
    store = await board_of(deps, plan_id)
    rows = await store.read(TASK_ORDERS, plan_id=plan_id, task_id=task_id, limit=ORDERS)
    if not await store.read(TASK, plan_id=plan_id, task_id=task_id):
        hint = f"'agenttalk status {plan_id}' lists its tasks"
        raise UsageError(Code.TASK_NOT_FOUND, f"plan {plan_id!r} has no task {task_id[:80]!r}", hint=hint)
    row = next((row for row in rows if command_id in {"", row.command_id}), None)
    if row is None and command_id:
        raise UsageError(Code.NAME_UNKNOWN, f"{task_id} has no command {command_id[:80]!r}", hint="look at the task")
    if row is None or row.prompt_sha256 is None or row.receiver is None:
        return _make_record(row.command_id if row else None, "not_yet")
    return await asyncio.to_thread(_read, deps, plan_id, task_id, row.command_id, row.receiver, row.prompt_sha256)


def _make_record(command_id: str | None, standing: PromptStatus, sha256: str | None = None) -> PromptRecord:
    return {"command_id": command_id, "attempt": None, "sha256": sha256, "standing": standing, "text": None}


def _read(deps: Deps, plan_id: str, task_id: str, command_id: str, agent_id: str, sha256: str) -> PromptRecord:
    folder = f"{root_layout.task_folder(agent_id, plan_id, task_id)}/{TURNS}"
    attempt = _last(deps.root, folder, command_id)
    try:
        data = deps.root.read(f"{folder}/{command_id}-{attempt}{SUFFIX}", LARGEST) if attempt else None
    except (AgentTalkError, OSError):
        data = None
    if data is None:
        return _make_record(command_id, "hash_only", sha256)
    standing: PromptStatus = "as_injected" if wire.sha256(data) == sha256 else "differs"
    text = deps.secret_guard.secrets.redact(data.decode(errors="replace"))
    return {**_make_record(command_id, standing, sha256), "attempt": attempt, "text": text}


def _last(root: Folder, folder: str, command_id: str) -> int:
    """Find the last attempt at a command whose prompt was kept; 0 if there is none."""
    try:
        with root.open_folder(folder) as turns:
            names = list(turns.names())
    except (AgentTalkError, OSError):
        return 0
    start = f"{command_id}-"
    numbers = [name.removeprefix(start).removesuffix(SUFFIX) for name in names if name.startswith(start)]
    return max((int(each) for each in numbers if each.isascii() and each.isdecimal()), default=0)
