"""Agents that work through a protocol such as ACP: the parameters of a session, and its dialogue. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from agenttalk.rules.agents.events import AgentEvent
    from agenttalk.rules.agents.permissions import ToolRequest


@dataclass(frozen=True, slots=True)
class SessionParameters:
    """The parameters of a session."""

    cwd: str
    """The agent's working folder, an absolute path."""
    prompt: str
    session: str = ""
    """The session to resume, if the agent can; else a new one is opened."""
    anew: str = ""
    """The prompt for a new session, if the other one cannot be resumed. Empty means the same prompt."""
    mode: str = ""
    """The mode to set."""
    auth: str = ""
    """The method of login, if the agent offers it."""
    servers: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    """MCP servers that it may use, as the protocol describes them. There may be a token in them."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields beside the protocol, sent with the servers, for agents that understand them."""
    besides: tuple[str, ...] = ()
    """Further folders that it may use, by absolute paths."""


class PermissionRequest(NamedTuple):
    """A request of the agent for permission, which it waits for."""

    number: int
    wish: ToolRequest


class Dialogue(Protocol):
    """One prompt from its beginning to its end. No input from the agent makes a method raise."""

    @property
    def over(self) -> bool:
        """Whether the dialogue has ended: the agent reported its end, or broke the protocol."""

    @property
    def ready(self) -> bool:
        """Whether the agent got its prompt."""

    @property
    def broken(self) -> bool:
        """Whether the agent broke the protocol."""

    @property
    def awaited(self) -> str:
        """The request that the agent has not answered; empty if there is none."""

    def begin(self) -> None:
        """Send the first message."""

    def receive_line(self, line: bytes) -> Iterator[AgentEvent | PermissionRequest]:
        """Read a line of the agent's output. Yields its events."""

    def answer_permission(self, asks: PermissionRequest, *, allow: bool) -> bool:
        """Answer a request for permission. False if the agent offers no such answer; the request is refused then."""

    def cancel(self) -> None:
        """Ask the agent to stop."""

    def give_up(self, why: str) -> Iterator[AgentEvent]:
        """End the dialogue, because the agent broke the protocol."""

    def take_output(self) -> bytes:
        """Return the output for the agent since the last call."""


DialogueFactory = Callable[[SessionParameters], Dialogue]
"""Begins a dialogue. Raises ValueError with what to do if the protocol is not installed. May take a second."""


@runtime_checkable
class DialogueDriver(Protocol):
    """A driver whose programs may use a protocol."""

    def open_dialogue(self, opening: SessionParameters) -> Dialogue:
        """Begin a dialogue; see `DialogueFactory`."""
