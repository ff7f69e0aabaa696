"""What a kind of task knows when it tells an agent what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agenttalk.contracts.core.vocabulary import Locale


class PromptSection(NamedTuple):
    """A part of a prompt."""

    name: str
    """What it is called in settings."""
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class PromptContext:
    """A task as its prompt needs it: what happened, what is to be done about it, and where to say so."""

    board: str
    task_id: str
    agent_id: str
    title: str
    description: str = ""
    event_type: str = ""
    """What happened."""
    action_type: str = ""
    """What is to be done about it."""
    action_steps: tuple[str, ...] = ()
    """What to do, one after the other."""
    event_data: Mapping[str, Any] = field(default_factory=dict)
    """The facts, by name. What they say was written by others."""
    sender: str = "system"
    source: str = ""
    """The configured source of the event."""
    promised: tuple[str, ...] = ()
    """What is checked in the end, in words."""
    token_variable: str = ""
    """The variable that holds the agent's own token for the source."""
    marker: str = ""
    """A hidden line for everything that the agent writes at the forge, so that its echo is recognised."""
    fence: str = ""
    """A random marker: 12 to 64 letters, digits or _."""
    locale: Locale = "en"
