"""Chooses the sandbox of a process, and what the keeper is asked for."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

from agenttalk.adapters import program_files, sandbox
from agenttalk.adapters.drivers import keeper, landlock, seccomp, visible_paths
from agenttalk.adapters.drivers.ancestry import LEASE
from agenttalk.adapters.temporary_folders import make_temporary_folder
from agenttalk.ports.agents import Confinement

ChosenTier: TypeAlias = Literal["plain", "landlock", "bubblewrap"]
REMEDIES: Final = {
    "bubblewrap": "install it as root (make sandbox, or apt-get install bubblewrap)",
    "landlock": "use Linux 6.7 or newer with landlock switched on",
}
"""What to do about a sandbox that does not work."""
_OR: Final = "or choose another sandbox in the agent's profile"
_REQUIRED: Final = "isolation is required, so nothing runs without a sandbox"
_PLAIN: Final = f"{_REQUIRED}, and the sandbox 'plain' isolates nothing; choose another one, or isolation = \"best\""


class UnconfinedError(ValueError):
    """A required sandbox does not work here. The message says what to do."""


@dataclass(frozen=True, slots=True)
class ConfinedProgram:
    """How a program is started in its sandbox."""

    tier: ChosenTier
    argv: tuple[str, ...]
    env: Mapping[str, str]
    words: tuple[bytes, ...] = ()
    """Words for the keeper; none when it confines nothing."""
    writable: tuple[bytes, ...] = ()
    readable: tuple[bytes, ...] = ()
    temporary: Path | None = None
    """The folder of its temporary files, if it has one of its own."""
    options: tuple[str, ...] = ()
    """The options of bubblewrap."""


class Sandboxes:
    """The sandboxes of this machine. Each is tried when it is first needed."""

    def __init__(
        self,
        *,
        bubblewrap: Callable[[], Path | None] = sandbox.find_bubblewrap,
        offline: Callable[..., str] = landlock.describe_problem,
    ) -> None:
        """`bubblewrap` is the path of that program; `offline` says why landlock does not work."""
        self._bubblewrap = bubblewrap
        self._landlock = offline
        self._working: Path | None = None
        self._trying = asyncio.Lock()

    async def choose(self, asked: Confinement) -> ChosenTier:
        """Choose the tier for a turn. Raises UnconfinedError rather than choose a weaker one than required."""
        if asked.tier == "plain":
            if asked.required:
                raise UnconfinedError(_PLAIN)
            if not asked.network:
                raise UnconfinedError("without a sandbox nothing keeps a program from the network; choose one")
            if asked.binds:
                raise UnconfinedError("without a sandbox no folder can be mounted at another path; choose bubblewrap")
            return "plain"
        wrapped = "" if asked.tier == "landlock" else await self._wraps(asked)
        if asked.tier != "landlock" and not wrapped:
            return "bubblewrap"
        locked = "" if asked.tier == "bubblewrap" else self._locks(asked)
        if asked.tier != "bubblewrap" and not locked:
            return "landlock"
        if asked.tier == "best" and asked.network and not asked.required and not asked.binds:
            return "plain"
        why = [
            f"{problem}: {REMEDIES[tier]}"
            for tier, problem in (("bubblewrap", wrapped), ("landlock", locked))
            if problem
        ]
        floor = f"{_REQUIRED}; " if asked.required and asked.tier == "best" else ""
        raise UnconfinedError(f"{floor}the sandbox {asked.tier!r} does not work here: {'; '.join(why)}; {_OR}")

    async def _wraps(self, asked: Confinement) -> str:
        """Explain why bubblewrap cannot meet the demands. A failure is tried again: it may have been repaired."""
        if asked.guarded and (problem := seccomp.describe_problem()):
            return problem
        async with self._trying:
            if self._working is None:
                program = self._bubblewrap()
                problem = await asyncio.to_thread(sandbox.describe_problem, program)
                if problem:
                    return problem
                self._working = program
        return ""

    def _locks(self, asked: Confinement) -> str:
        """Explain why landlock cannot meet the demands."""
        if asked.binds:
            return "landlock cannot mount a folder at another path"
        return seccomp.describe_problem() or self._landlock(network=asked.network)

    @asynccontextmanager
    async def confine(
        self, asked: Confinement, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str], own: Mapping[str, str]
    ) -> AsyncIterator[ConfinedProgram]:
        """Start a program in its sandbox, with temporary files that are removed afterwards. Raises UnconfinedError.

        `env` is the whole environment, `own` the part of it that the turn itself names.
        """
        tier = await self.choose(asked)
        if tier == "plain" and asked.temporary is None:
            yield ConfinedProgram(tier, argv, env)
            return
        async with _temporary(asked.temporary, "HOME" in own) as temporary:
            seen = Path("/tmp") if tier == "bubblewrap" else temporary  # noqa: S108 - the sandbox's own
            places = {"TMPDIR": str(seen), "HOME": str(seen / "home")}
            env = {**env, **{name: value for name, value in places.items() if name not in own}}
            if tier == "plain":
                yield ConfinedProgram(tier, argv, env, temporary=temporary)
                return
            argv = program_files.resolve_program(argv, env)
            asked = await asyncio.to_thread(_lent, asked)
            room = await asyncio.to_thread(_room, asked, argv, cwd, env, temporary)
            if tier == "bubblewrap" and self._working is not None:
                yield _wrapped(self._working, asked, room, argv, env)
            else:
                yield await asyncio.to_thread(_locked, asked, room, argv, env)


@asynccontextmanager
async def _temporary(given: Path | None, homed: bool) -> AsyncIterator[Path]:  # noqa: FBT001 - for one caller
    """Open the folder for temporary files: the given one, or one that is removed.

    A home folder is in it, unless the program is `homed` elsewhere.
    """
    made = None
    if given is None:
        made = make_temporary_folder()
        given = made.path
    try:
        if not homed:
            (given / "home").mkdir(exist_ok=True)
        yield given
    finally:
        if made is not None:
            await asyncio.to_thread(made.remove)


def _lent(asked: Confinement) -> Confinement:
    """Show a mount by a link to its real path, which works in every tier."""
    mounts = []
    for bind in asked.lent:
        if not bind.source.is_file():
            continue
        bind.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):  # a link of an earlier run in the same folder
            bind.place.symlink_to(os.path.realpath(bind.source))
        mounts.append(bind.source)
    return replace(asked, readonly=(*asked.readonly, *mounts))


def _room(
    asked: Confinement, argv: tuple[str, ...], cwd: Path, env: Mapping[str, str], temporary: Path
) -> sandbox.SandboxSpec:
    passing = (Path(tempfile.gettempdir()), *sandbox.SHARED)
    hidden = (*asked.hidden, *sandbox.list_secrets(Path.home()))
    masked = (*(path for path in hidden if _is_shown(path, asked)), passing[0])
    needed = program_files.list_needed_files(argv, env, masked=(*masked, sandbox.SERVICES), temporary=passing)
    return sandbox.SandboxSpec(
        asked.writable,
        _seen(cwd, asked),
        temporary,
        None,
        network=asked.network,
        masked=masked,
        readable=(*needed, *asked.readonly),
        binds=[(bind.source, bind.place, bind.writable) for bind in asked.binds],
        filter=None if seccomp.describe_problem() else keeper.FILTER,
        guarded=asked.guarded,
    )


def _is_shown(path: Path, asked: Confinement) -> bool:
    """Whether something is still there when all mounts are made."""
    above = [bind for bind in asked.binds if bind.place in path.parents]
    if not above:
        return True
    bind = max(above, key=lambda bind: len(bind.place.parts))
    return os.path.lexists(bind.source / path.relative_to(bind.place))


def _seen(path: Path, asked: Confinement) -> Path:
    """Return where a path is seen."""
    found = [bind for bind in asked.binds if bind.source == path or bind.source in path.parents]
    if not found:
        return path
    bind = max(found, key=lambda bind: len(bind.source.parts))
    return bind.place / path.relative_to(bind.source)


def _wrapped(
    program: Path, asked: Confinement, room: sandbox.SandboxSpec, argv: tuple[str, ...], env: Mapping[str, str]
) -> ConfinedProgram:
    words = (keeper.BUBBLEWRAP, *((keeper.GUARDED,) if asked.guarded else ()))
    # What a program may not know about its turn is not even in the environment of bubblewrap, which it can read.
    handed = {} if asked.bare else {name: value for name, value in env.items() if not sandbox.affects_loader(name)}
    led = {name: value for name, value in env.items() if name not in handed and not (asked.bare and name == LEASE)}
    return ConfinedProgram(
        "bubblewrap",
        (str(program), "--args", str(keeper.OPTIONS), "--", *argv),
        handed,
        words,
        temporary=room.temporary,
        options=sandbox.list_options(room, led),
    )


def _locked(
    asked: Confinement, room: sandbox.SandboxSpec, argv: tuple[str, ...], env: Mapping[str, str]
) -> ConfinedProgram:
    """Return the outermost writable paths: what lies in one is writable anyway."""
    words = (
        keeper.LANDLOCK,
        *((keeper.GUARDED,) if asked.guarded else ()),
        *(() if asked.network else (keeper.OFFLINE,)),
    )
    inner = set(asked.writable)
    writable = [path for path in asked.writable if not inner.intersection(path.parents)]
    return ConfinedProgram(
        "landlock",
        argv,
        env,
        words,
        tuple(os.fsencode(os.path.realpath(path)) for path in (*writable, room.temporary)),
        tuple(os.fsencode(path) for path in visible_paths.list_granted(sandbox.list_visible(room))),
        room.temporary,
    )
