"""Opens a pull request with proven work at a configured forge."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.changes import pull_request

if TYPE_CHECKING:
    from agenttalk.adapters.workspaces.user_folder import UserRepository
    from agenttalk.wiring.settings import Settings

_REMOTE: Final = "origin"
_USER: Final = "agenttalk"
_SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class PullRequestTarget:
    """Where a pull request will be opened. Everything that it needs was found before the agent starts."""

    repository: UserRepository
    root: Path
    settings: Settings
    source: str
    name: str
    """The repository at the forge: `owner/name`."""
    remote: str
    token: str

    def open(self, branch: str, title: str, body: str) -> str:
        """Push a branch and open a pull request from it, unless there is one. Returns its address."""
        self._push(branch)
        number = asyncio.run(self._create(branch, title, body))
        return f"{self.settings.sources[self.source].base_url.rstrip('/')}/{self.name}/{self._word}/{number}"

    @property
    def _word(self) -> str:
        return "pull" if self.settings.sources[self.source].kind == "github" else "pulls"

    def _push(self, branch: str) -> None:
        """Push a branch as the user does it, with their settings of git. Raises MachineError when that fails."""
        ref = f"refs/heads/{branch}"
        try:
            done = subprocess.run(  # noqa: S603 - no shell, and each argument is our own
                ["git", "push", "--quiet", _REMOTE, f"+{ref}:{ref}"],  # noqa: S607 - the user's own git
                cwd=self.repository.top,
                env={**os.environ, "GIT_TERMINAL_PROMPT": "0", **self._credentials()},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise MachineError(Code.COMMAND_FAILED, f"git push failed: {error}") from error
        if done.returncode:
            message = f"git push failed: {done.stderr.strip()[-500:]}"
            raise MachineError(Code.COMMAND_FAILED, message, hint=f"push it by hand: git push {_REMOTE} {branch}")

    def _credentials(self) -> dict[str, str]:
        """Return variables that give git the engine's token, for the address of the forge alone."""
        url = self.settings.sources[self.source].base_url.rstrip("/")
        if not self.remote.startswith(f"{url}/"):
            return {}
        said = base64.b64encode(f"{_USER}:{self.token}".encode()).decode()
        number = int(os.environ.get("GIT_CONFIG_COUNT", "0") or 0)
        return {
            "GIT_CONFIG_COUNT": str(number + 1),
            f"GIT_CONFIG_KEY_{number}": f"http.{url}/.extraHeader",
            f"GIT_CONFIG_VALUE_{number}": f"Authorization: Basic {said}",
        }

    async def _create(self, branch: str, title: str, body: str) -> int:
        from agenttalk.wiring import forge_sources

        async with forge_sources.open_clients(self.root, self.settings) as forges:
            pulls = forges[self.source].pulls
            known = [each for each in await pulls.list_open(self.name) if each.head_ref == branch]
            if known:
                return known[0].number
            made = await pulls.create(self.name, title, body, head=branch, base=self.repository.branch)
            return made.number


def find_target(repository: UserRepository, root: Path | None, state: Path) -> PullRequestTarget:
    """Find where a pull request can be opened. Raises UsageError when something is missing for it.

    The forge is one of the settings of the named root, of the root of the repository, or of the state folder.
    """
    from agenttalk.adapters.workspaces import user_folder
    from agenttalk.doors.cli.core.root_discovery import find_root
    from agenttalk.wiring import forge_sources
    from agenttalk.wiring.settings import load

    if not repository.branch:
        raise UsageError(Code.OPTION_INVALID, "--pr needs a branch, and none is checked out", hint="git switch to one")
    folder = root or find_root(repository.top) or state
    settings = load(folder)
    if not settings.sources:
        hint = f"add [sources.NAME] with kind, base_url and token_env to {folder / 'agenttalk.toml'}"
        raise UsageError(Code.OPTION_INVALID, "--pr needs a forge, and no source is configured", hint=hint)
    remote = user_folder.find_remote(repository.top)
    if not remote:
        raise UsageError(Code.OPTION_INVALID, f"--pr needs the remote {_REMOTE}", hint="git remote add origin URL")
    source = pull_request.choose_source(settings, None)
    said = settings.sources[source]
    token = forge_sources.read_secret(folder, said.token_env, said.token_file, os.environ, f"sources.{source}.token")
    if not token:
        message = f"--pr: the source {source!r} has no token"
        raise UsageError(Code.OPTION_INVALID, message, hint=f"set sources.{source}.token_env or token_file")
    name = pull_request.read_repository_name(remote)
    return PullRequestTarget(repository, folder, settings, source, name, remote, token)
