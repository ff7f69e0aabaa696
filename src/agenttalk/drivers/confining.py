"""Which sandbox a turn gets, and what the keeper is asked for then."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agenttalk import sandbox
from agenttalk.drivers import keeper, landlock
from agenttalk.ports import Confinement

Chosen: TypeAlias = Literal["plain", "landlock", "bubblewrap"]
REMEDIES: Final = {
    "bubblewrap": "install it as root (make sandbox, or apt-get install bubblewrap)",
    "landlock": "use Linux 6.7 or newer with landlock switched on",
}
"""What to do about a sandbox that does not work."""
_OR: Final = "or choose another sandbox in the agent's profile"


class UnconfinedError(ValueError):
    """A sandbox that is asked for does not work here. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Confined:
    """How a program is started in its sandbox."""

    tier: Chosen
    argv: tuple[str, ...]
    env: Mapping[str, str]
    kind: bytes = b""
    """For the keeper; empty when it confines nothing."""
    writable: tuple[bytes, ...] = ()
    temporary: Path | None = None
    """Where its temporary files lie, if they are its own."""


class Sandboxes:
    """The sandboxes of this machine. Whether one works is tried when it is first asked for."""

    def __init__(
        self,
        *,
        bubblewrap: Callable[[], Path | None] = sandbox.installed,
        offline: Callable[..., str] = landlock.ailment,
    ) -> None:
        """`bubblewrap` says where that lies; `offline` says why landlock does not work."""
        self._bubblewrap = bubblewrap
        self._landlock = offline
        self._working: Path | None = None
        self._trying = asyncio.Lock()

    async def choose(self, asked: Confinement) -> Chosen:
        """The tier for a turn. Raises UnconfinedError rather than give less than is asked for."""
        if asked.tier == "plain":
            if not asked.network:
                raise UnconfinedError("without a sandbox nothing keeps a program from the network; choose one")
            return "plain"
        wrapped = "" if asked.tier == "landlock" else await self._ailment()
        if asked.tier != "landlock" and not wrapped:
            return "bubblewrap"
        locked = "" if asked.tier == "bubblewrap" else self._landlock(network=asked.network)
        if asked.tier != "bubblewrap" and not locked:
            return "landlock"
        if asked.tier == "best" and asked.network:
            return "plain"
        why = [f"{said}: {REMEDIES[tier]}" for tier, said in (("bubblewrap", wrapped), ("landlock", locked)) if said]
        raise UnconfinedError(f"the sandbox {asked.tier!r} does not work here: {'; '.join(why)}; {_OR}")

    async def _ailment(self) -> str:
        """Why bubblewrap does not work. What failed is tried again, because somebody may have mended it."""
        async with self._trying:
            if self._working is None:
                program = self._bubblewrap()
                said = await asyncio.to_thread(sandbox.ailment, program)
                if said:
                    return said
                self._working = program
        return ""

    @asynccontextmanager
    async def around(
        self, asked: Confinement, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str], own: Mapping[str, str]
    ) -> AsyncIterator[Confined]:
        """A program in its sandbox, with temporary files that are gone afterwards. Raises UnconfinedError.

        `env` is the whole environment, `own` the part of it that the turn itself names.
        """
        tier = await self.choose(asked)
        if tier == "plain":
            yield Confined(tier, argv, env)
            return
        temporary = Path(tempfile.mkdtemp(prefix="agenttalk-turn-"))
        try:
            (temporary / "home").mkdir()
            seen = Path("/tmp") if tier == "bubblewrap" else temporary  # noqa: S108 - the sandbox's own
            places = {"TMPDIR": str(seen), "HOME": str(seen / "home")}
            env = {**env, **{name: value for name, value in places.items() if name not in own}}
            if tier == "bubblewrap" and self._working is not None:
                yield self._wrapped(self._working, asked, _found(argv, env), cwd, env, temporary)
            else:
                kind = keeper.LANDLOCK if asked.network else keeper.OFFLINE
                writable = tuple(os.fsencode(path) for path in (*_outermost(asked), temporary))
                yield Confined(tier, argv, env, kind, writable, temporary)
        finally:
            await asyncio.to_thread(sandbox.erase, temporary)

    @staticmethod
    def _wrapped(
        program: Path,
        asked: Confinement,
        argv: tuple[str, ...],
        cwd: Path,
        env: Mapping[str, str],
        temporary: Path,
    ) -> Confined:
        masked = (*asked.hidden, *sandbox.secrets(Path.home()), Path(tempfile.gettempdir()))
        room = sandbox.Room(asked.writable, cwd, temporary, None, asked.network, masked, asked.readonly)
        return Confined("bubblewrap", sandbox.wrapped(program, room, argv), env, keeper.BUBBLEWRAP, (), temporary)


def _outermost(asked: Confinement) -> list[Path]:
    """Writable places that lie in no other one: landlock cannot take away again what lies in them."""
    found = set(asked.writable)
    return [path for path in asked.writable if not found.intersection(path.parents)]


def _found(argv: tuple[str, ...], env: Mapping[str, str]) -> tuple[str, ...]:
    """The program by its path: what is looked for is not looked for in the working directory."""
    if not argv or "/" in argv[0]:
        return argv
    path = ":".join(part for part in env.get("PATH", "").split(":") if part)
    return (shutil.which(argv[0], path=path) or argv[0], *argv[1:])
