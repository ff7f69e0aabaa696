"""Where a turn has its files, and where its program reaches us."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

TURNS: Final = ".agenttalk"
"""Folder inside a task's folder that belongs to us: each turn has its inputs and outputs there."""


class EngineAddress(NamedTuple):
    """Where agents reach us."""

    http: str
    socket: str
    open_socket: Callable[[str], AbstractAsyncContextManager[str]] | None = None
    """Opens a socket for one attempt, by its token; nothing but that token is taken there."""


@asynccontextmanager
async def open_attempt_socket(api: EngineAddress | None, token: str) -> AsyncIterator[EngineAddress | None]:
    """Where the program of one attempt reaches us: at a socket of its own, while its turn lasts."""
    if api is None or api.open_socket is None:
        yield api
        return
    async with api.open_socket(token) as socket:
        yield api._replace(socket=socket)


@dataclass(frozen=True, slots=True)
class AttemptPaths:
    """Where a turn has its files, below the root."""

    cwd: str
    base: str
    since: int = 0
    """When its folders were made, by the file system's time in nanoseconds: what is newer is the program's."""

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
