"""The files of a turn, and the address by which its program reaches the engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

TURNS: Final = ".agenttalk"
"""The engine's folder inside a task's folder: each turn has its inputs and outputs there."""


class EngineAddress(NamedTuple):
    """The address of the engine for agents."""

    http: str
    socket: str
    open_socket: Callable[[str], AbstractAsyncContextManager[str]] | None = None
    """Opens a socket for one attempt, which accepts only the attempt's token."""


@asynccontextmanager
async def open_attempt_socket(api: EngineAddress | None, token: str) -> AsyncIterator[EngineAddress | None]:
    """Return the address for the program of one attempt: a socket of its own, while its turn lasts."""
    if api is None or api.open_socket is None:
        yield api
        return
    async with api.open_socket(token) as socket:
        yield api._replace(socket=socket)


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """The folders of a turn, below the root."""

    cwd: str
    base: str
    since: int = 0
    """When its folders were made, by the file system's time in nanoseconds: newer files are the program's."""

    @property
    def inputs(self) -> str:
        """Folder of the inputs."""
        return f"{self.base}/inputs"

    @property
    def outputs(self) -> str:
        """Folder for the outputs."""
        return f"{self.base}/outputs"

    @property
    def result(self) -> str:
        """File for the result."""
        return f"{self.base}/result.json"

    @property
    def command(self) -> str:
        """File with the command."""
        return f"{self.base}/command.json"
