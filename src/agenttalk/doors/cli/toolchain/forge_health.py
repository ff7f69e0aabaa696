"""Checks the forges of a root: tokens, permissions, and refused webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.doors.cli.core import root_access

if TYPE_CHECKING:
    from agenttalk.ports.forge import Forge
    from agenttalk.wiring.settings.tables import Settings

_SECONDS: Final = 15.0
_SCOPES: Final = "make a token with the scopes read:repository, write:issue and read:user"
_LATELY: Final = timedelta(days=1)


class ForgeDiagnosis(NamedTuple):
    """The state of a source."""

    source: str
    ok: bool
    detail: str
    remedy: str = ""


async def check_sources(root: Path, settings: Settings) -> list[ForgeDiagnosis]:
    """Check each source."""
    from agenttalk.wiring import forge_sources

    found: list[ForgeDiagnosis] = []
    async with forge_sources.open_clients(root, settings, lenient=True) as forges:
        for name, source in settings.sources.items():
            if name in forges:
                found += await _check_source(name, source.login, forges[name], settings)
            else:
                remedy = f"set sources.{name}.token_env or token_file, so that the engine can see what was done"
                found.append(ForgeDiagnosis(name, False, "the engine has no token for it", remedy))
    return [*found, *await asyncio.to_thread(lambda: list(_find_refused_webhooks(root)))]


async def _check_source(name: str, login: str | None, forge: Forge, settings: Settings) -> list[ForgeDiagnosis]:
    from agenttalk.rules.toolchain.accounts import is_single_repository

    try:
        async with asyncio.timeout(_SECONDS):
            me = (await forge.account.read_user()).login
            if login is not None and login.lower() != me.lower():
                return [
                    ForgeDiagnosis(
                        name, False, f"its token belongs to {me}, but login is {login}", f'set login = "{me}"'
                    )
                ]
            plain = [repo for repo in settings.toolchain.repos if is_single_repository(repo)]
            closed = [repo for repo in plain if not await forge.repositories.may_write(repo, me)]
    except TimeoutError:
        return [ForgeDiagnosis(name, False, "it does not answer", "check base_url, and the forge itself")]
    except AgentTalkError as error:
        return [ForgeDiagnosis(name, False, error.message, error.hint or f"check base_url; {_SCOPES}")]
    if closed:
        remedy = "give it write access there: without it, the forge silently drops its assignments"
        return [ForgeDiagnosis(name, False, f"{me} has no write access to {', '.join(closed)}", remedy)]
    return [ForgeDiagnosis(name, True, f"the token belongs to {me}")]


def _find_refused_webhooks(root: Path) -> Iterator[ForgeDiagnosis]:
    """Yield the webhooks that the engine refused lately."""
    from agenttalk.contracts.core.base import format_instant

    if not (root / "data").is_dir():
        return
    since = format_instant(datetime.now(UTC) - _LATELY)  # noqa: TID251 - a door reads the clock

    try:
        told = root_access.ask_root(root, "/api/toolchain/warnings", lambda local: local.forges.list_warnings())[
            "warnings"
        ]
    except AgentTalkError:
        return
    for each in told:
        if each["code"] == "FORGE_SIGNATURE_REFUSED" and each["last_at"] >= since:
            yield ForgeDiagnosis("webhooks", False, f"{each['message']} (last at {each['last_at']})", each["hint"])
