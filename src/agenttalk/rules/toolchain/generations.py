"""What is owed once more: an obligation that ended and was opened again is another one.

A task stands for what an account owes at a thing until the account is seen to owe nothing there: it was unassigned, its
review was handed in, the issue was closed. What is called for after that moment has a key of its own. The moment comes
from the forge, so it is the same for every delivery about it, in any order.
"""

from __future__ import annotations

from collections.abc import Sequence

from agenttalk.rules.toolchain import dedup_keys
from agenttalk.rules.toolchain.proposal import DecisionDraft, KnownTask


def is_due_again(draft: DecisionDraft, tasks: Sequence[KnownTask], freed: str) -> bool:
    """Whether tasks for one thing have all ended before the account was freed of it."""
    return bool(tasks) and all(task.state == "ended" and draft.sightings.stands_for(task) < freed for task in tasks)


def key_of(draft: DecisionDraft, key: str, tasks: Sequence[KnownTask], freed: str) -> str:
    """Find the key under which something is owed now: that of the task that covers it, or a new one."""
    if is_due_again(draft, tasks, freed):
        return dedup_keys.repeated_key(key, freed)
    standing = [task for task in tasks if task.state != "ended" or draft.sightings.stands_for(task) >= freed]
    return standing[-1].key if standing else key
