"""Reads a pull request at a configured forge, so that it can be proven like a branch."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from agenttalk.contracts.errors import Code, UsageError

if TYPE_CHECKING:
    from agenttalk.contracts.forge import PullRequest
    from agenttalk.doors.cli.changes.change_session import ChangeRequest
    from agenttalk.wiring.settings.tables import Settings, SourceSettings

_NAMED: Final = re.compile(r"(?:(?P<repository>[\w.-]+/[\w.-]+)#)?(?P<number>[1-9]\d{0,8})\Z")
_REMOTE: Final = re.compile(r"[/:](?P<repository>[\w.-]+/[\w.-]+?)(?:\.git)?/?\Z")
_USER: Final = "agenttalk"


def resolve(here: Path, root: Path | None, pull: str, source: str | None, request: ChangeRequest) -> ChangeRequest:
    """Read where a pull request begins and ends. Its commits are fetched when they are needed."""
    from agenttalk.adapters.workspaces import user_folder
    from agenttalk.doors.cli.core import root_discovery
    from agenttalk.wiring import forge_sources
    from agenttalk.wiring.settings import load

    named = _NAMED.match(pull)
    if named is None:
        raise UsageError(Code.OPTION_INVALID, f"--pr: {pull[:80]!r} is not a pull request", hint="write e.g. --pr 12")
    remote = user_folder.find_remote(here)
    repository = named["repository"] or read_repository_name(remote)
    folder = root_discovery.resolve_root(root)
    settings = load(folder)
    name = choose_source(settings, source)
    said = settings.sources[name]
    found = asyncio.run(_read(folder, settings, name, repository, int(named["number"])))
    url = remote if remote and not remote.startswith(("http://", "https://")) else ""
    token = None
    if not url:
        url = f"{said.base_url.rstrip('/')}/{repository}.git"
        secret = forge_sources.read_secret(folder, said.token_env, said.token_file, _environment(), f"sources.{name}")
        token = (_USER, secret) if secret else None
    refs = (f"refs/pull/{named['number']}/head", f"refs/heads/{found.base_ref}")
    return replace(
        request,
        head=found.head_sha,
        base=request.base or found.base_sha,
        work=f"{repository}#{named['number']}",
        fetch=(url, refs, token),
    )


def _environment() -> dict[str, str]:
    import os

    return dict(os.environ)


def read_repository_name(remote: str) -> str:
    """Return `owner/name` of a remote's address."""
    path = urlsplit(remote).path if "://" in remote else remote
    found = _REMOTE.search(path)
    if found is None:
        message = "the repository's remote origin does not tell which repository of the forge it is"
        raise UsageError(Code.OPTION_INVALID, message, hint="name it: --pr OWNER/NAME#12")
    return found["repository"]


def choose_source(settings: Settings, named: str | None) -> str:
    """Choose the configured forge: the named one, or the only one."""
    known: dict[str, SourceSettings] = dict(settings.sources)
    if named is not None and named not in known:
        message = f"--source: the settings have no forge {named[:80]!r}"
        raise UsageError(Code.NAME_UNKNOWN, message, hint=f"known: {', '.join(known) or 'none'}")
    if named is None and len(known) != 1:
        message = "--pr needs a forge of the settings" if not known else "several forges are configured"
        hint = "add [sources.NAME] to agenttalk.toml" if not known else f"choose one: --source {' | '.join(known)}"
        raise UsageError(Code.OPTION_INVALID, message, hint=hint)
    return named or next(iter(known))


async def _read(root: Path, settings: Settings, name: str, repository: str, number: int) -> PullRequest:
    from agenttalk.wiring import forge_sources

    async with forge_sources.open_clients(root, settings) as forges:
        forge = forges.get(name)
        if forge is None:
            message = f"the forge {name!r} has no token, so pull requests cannot be read"
            raise UsageError(Code.OPTION_INVALID, message, hint=f"set sources.{name}.token_env or token_file")
        found = await forge.pulls.read(repository, number)
        if not found.is_open:
            return found.model_copy(update={"head_sha": await forge.pulls.read_head(repository, number)})
        return found
