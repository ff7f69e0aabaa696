"""Agents that are spoken with by a protocol: what is said to open a session, and what comes of it. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from agenttalk.rules.agents.events import AgentEvent
    from agenttalk.rules.agents.permissions import ToolRequest


@dataclass(frozen=True, slots=True)
class SessionParameters:
    """What a session is opened with."""

    cwd: str
    """Where the agent works, as an absolute path."""
    prompt: str
    session: str = ""
    """The session that goes on, where the agent can do that; else a new one."""
    anew: str = ""
    """The prompt for a new session, where the other one cannot go on; the same if nothing is said."""
    mode: str = ""
    """The mode that it is put into."""
    auth: str = ""
    """How it logs in, where it offers that."""
    servers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """MCP servers that it may use, as the protocol describes them. There may be a token in them."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What is said with the servers beside the protocol, for an agent that understands it."""
    besides: tuple[str, ...] = ()
    """Further folders that it may use, by absolute paths."""


class PermissionRequest(NamedTuple):
    """The agent waits to be told whether it may do something."""

    number: int
    wish: ToolRequest


class Dialogue(Protocol):
    """One prompt from its beginning to its end. No input from the agent makes a method raise."""

    @property
    def over(self) -> bool:
        """Whether all is said: it told how its work ended, or it cannot be spoken with."""

    @property
    def ready(self) -> bool:
        """Whether it was given its prompt."""

    @property
    def broken(self) -> bool:
        """Whether it does not keep to the protocol."""

    @property
    def awaited(self) -> str:
        """What it has not answered; empty if it owes no answer."""

    def begin(self) -> None:
        """Say the first words."""

    def receive_line(self, line: bytes) -> Iterator[AgentEvent | PermissionRequest]:
        """A line of what it prints."""

    def answer_permission(self, asks: PermissionRequest, *, allow: bool) -> bool:
        """Tell it whether it may; False when it could not be told so, and was refused."""

    def cancel(self) -> None:
        """Tell it to stop."""

    def give_up(self, why: str) -> Iterator[AgentEvent]:
        """Say no more to it, because it does not keep to the protocol."""

    def take_output(self) -> bytes:
        """What is to be said to it since this was asked last."""


DialogueFactory = Callable[[SessionParameters], Dialogue]
"""Begins a dialogue. Raises ValueError, with what to do, where the protocol is not spoken here. May take a second."""


@runtime_checkable
class DialogueDriver(Protocol):
    """A driver whose programs can be spoken with by a protocol."""

    def open_dialogue(self, opening: SessionParameters) -> Dialogue:
        """Begin a dialogue, as `DialogueFactory` says."""
