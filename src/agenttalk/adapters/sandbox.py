"""Bubblewrap, where it is installed and works: the sandbox of checks, and of agents that request it.

In it there is no network unless requested, no process of ours, a private /tmp, and a file system that is read-only
except for named paths. Folders with secrets are empty, and so is /run, where services listen.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SECRETS: Final = (
    ".aws",
    ".azure",
    ".bash_history",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude",
    ".codex",
    ".config",
    ".docker",
    ".gemini",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".local/share/keyrings",
    ".local/share/opencode/auth.json",
    ".m2/settings.xml",
    ".mozilla",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".password-store",
    ".pgpass",
    ".pypirc",
    ".python_history",
    ".qwen",
    ".s3cfg",
    ".ssh",
    ".vault-token",
    ".zsh_history",
)
"""Names in a home folder that no check and no agent needs."""
_RESOLVER: Final = Path("/run/systemd/resolve")
SERVICES: Final = Path("/run")
"""Folders in which services of the machine listen."""
SHARED: Final = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108 - the sandbox's own
"""Folders for temporary files: they become one folder of the sandbox, so that nothing there outlives the program."""
_DEVICES: Final = Path("/dev")
_LOADER: Final = ("LD_", "GLIBC_TUNABLES", "MALLOC_")
_TRIAL: Final = 20.0
"""Seconds that a trial may take."""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandboxed program gets."""

    writable: Sequence[Path]
    """Files and folders that it may write."""
    cwd: Path
    """The working directory."""
    temporary: Path
    """Becomes /tmp, and other folders for temporary files."""
    env: Mapping[str, str] | None
    """The whole environment; None keeps the current one."""
    network: bool = False
    masked: Sequence[Path] = ()
    """Files and folders that are hidden."""
    readable: Sequence[Path] = ()
    """What stays visible within hidden folders, but read-only, even within writable ones."""
    binds: Sequence[tuple[Path, Path, bool]] = ()
    """What is visible at another place: its path, its path in the sandbox, whether it is writable there."""
    filter: int | None = None
    """The descriptor of a filter of system calls."""
    guarded: bool = False
    """Whether its processes are kept apart from each other: then /proc is read-only, too."""


def find_bubblewrap() -> Path | None:
    """Find bubblewrap, if it is installed."""
    path = shutil.which("bwrap")
    return Path(path) if path else None


def list_secrets(home: Path) -> tuple[Path, ...]:
    """List what is masked in a home folder."""
    return tuple(home / name for name in SECRETS)


def describe_problem(program: Path | None) -> str:
    """Explain why bubblewrap does not work here; empty if it does. Tries it, since many systems forbid its calls."""
    if program is None:
        return "bubblewrap is not installed"
    with tempfile.TemporaryDirectory(prefix="agenttalk-trial-") as temporary:
        room = SandboxSpec((), Path("/"), Path(temporary), {})
        argv = wrap_command(program, room, (shutil.which("true", path=os.defpath) or "/bin/true",))
        try:
            tried = subprocess.run(argv, capture_output=True, timeout=_TRIAL, check=False, stdin=subprocess.DEVNULL)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as error:
            return f"bubblewrap cannot be started: {error}"
    message = tried.stderr.decode(errors="replace").strip()
    return (
        "" if tried.returncode == 0 else f"bubblewrap does not work: {message[:300] or f'exit code {tried.returncode}'}"
    )


def affects_loader(name: str) -> bool:
    """Return whether a variable affects every program that is started with it, and so bubblewrap itself."""
    return name.startswith(_LOADER)


def wrap_command(program: Path, room: SandboxSpec, argv: Sequence[str]) -> tuple[str, ...]:
    """Build the command that runs a program in the room."""
    return (str(program), *list_options(room), "--", *argv)


def list_options(room: SandboxSpec, led: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """List the options that make the room. Only the program in it gets the variables in `led`."""
    env = room.env
    cleared = () if env is None else ("--clearenv",)
    named = (part for entry in {**(env or {}), **(led or {})}.items() for part in ("--setenv", *entry))
    return (
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *(("--share-net",) if room.network else ()),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(word for mount in _mounts(room) for word in mount),
        *cleared,
        *named,
        *(("--seccomp", str(room.filter)) if room.filter is not None else ()),
        *("--chdir", str(_real(room.cwd))),
    )


def _mounts(room: SandboxSpec) -> Iterator[tuple[str, ...]]:
    """List what lies over the read-only file system, outermost first: an inner mount overrides an outer one."""
    mounts = {_real(path): _hidden(path) for path in room.masked if path.exists()}
    mounts[SERVICES] = ("--tmpfs",)
    empty = [path for path, how in mounts.items() if how == ("--tmpfs",)]
    own = [path for path in SHARED if path.is_dir()]
    mounts.update((_real(path), ("--bind", str(_real(room.temporary)))) for path in own)
    mounts.update((_real(path), ("--bind", str(_real(path)))) for path in room.writable)
    mounts.update((_real(path), ("--ro-bind", str(_real(path)))) for path in (*_names(room), *room.readable))
    for source, place, writable in room.binds:
        mounts[place] = ("--bind" if writable else "--ro-bind", str(_real(source)))  # a link there is not followed
    for path in sorted(mounts, key=lambda path: len(path.parts)):
        yield (*mounts[path], str(path))
    for path in empty:  # after everything inside it is mounted
        if mounts[path] == ("--tmpfs",):
            yield ("--remount-ro", str(path))
    if room.guarded:
        yield ("--remount-ro", "/proc")
    yield ("--remount-ro", "/dev")  # a file system in memory, which no limit counts


def _names(room: SandboxSpec) -> tuple[Path, ...]:
    """List the files that the resolver of host names needs."""
    return (_RESOLVER,) if room.network and _RESOLVER.is_dir() else ()


def list_visible(room: SandboxSpec) -> dict[Path, bool]:
    """Return the same view for a sandbox without mounts: real paths, and whether they may be read."""
    visibility = {_real(path): False for path in (_DEVICES, SERVICES, *SHARED, *room.masked)}
    return visibility | {_real(path): True for path in (*_names(room), *room.writable, room.temporary, *room.readable)}


def _hidden(path: Path) -> tuple[str, ...]:
    """Hide a folder behind an empty one, and a file behind something that cannot be opened."""
    return ("--tmpfs",) if path.is_dir() else ("--ro-bind", os.devnull)


def _real(path: Path) -> Path:
    """Resolve paths, because bubblewrap follows no symlink."""
    return Path(os.path.realpath(path))


def erase(folder: Path) -> None:
    """Remove a folder that a program has filled, however deep and without rights. Leaves what cannot be removed."""
    lifted = 0
    with suppress(OSError):
        while inner := list(os.scandir(folder)):
            for entry in inner:
                if not entry.is_dir(follow_symlinks=False):
                    Path(entry).unlink()
                    continue
                Path(entry).chmod(stat.S_IRWXU)
                for below in list(os.scandir(entry)):
                    if below.is_dir(follow_symlinks=False):
                        Path(below).chmod(stat.S_IRWXU)
                        lifted += 1
                        Path(below).rename(folder / f".lifted-{lifted}")  # so that no path gets too long
                    else:
                        Path(below).unlink()
                Path(entry).rmdir()
        folder.rmdir()
