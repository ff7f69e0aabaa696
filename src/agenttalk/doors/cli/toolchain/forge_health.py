"""What can be looked at of the forges of a root: tokens, rights, and webhooks that were refused."""

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
    """What was seen of a source."""

    source: str
    ok: bool
    detail: str
    remedy: str = ""


async def check_sources(root: Path, settings: Settings) -> list[ForgeDiagnosis]:
    """What is so at each source."""
    from agenttalk.wiring import forge_sources

    found: list[ForgeDiagnosis] = []
    async with forge_sources.open_clients(root, settings, lenient=True) as forges:
        for name, said in settings.sources.items():
            if name in forges:
                found += await _check_source(name, said.login, forges[name], settings)
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
                        name, False, f"its token is that of {me}, and login says {login}", f'set login = "{me}"'
                    )
                ]
            plain = [each for each in settings.toolchain.repos if is_single_repository(each)]
            closed = [each for each in plain if not await forge.repositories.may_write(each, me)]
    except TimeoutError:
        return [ForgeDiagnosis(name, False, "it does not answer", "look at base_url, and at the forge")]
    except AgentTalkError as error:
        return [ForgeDiagnosis(name, False, error.message, error.hint or f"look at base_url; {_SCOPES}")]
    if closed:
        remedy = "give it write access there: without it, assignments that it asks for are dropped without a word"
        return [ForgeDiagnosis(name, False, f"{me} has no write access to {', '.join(closed)}", remedy)]
    return [ForgeDiagnosis(name, True, f"the token is that of {me}")]


def _find_refused_webhooks(root: Path) -> Iterator[ForgeDiagnosis]:
    """Webhooks that were refused, as the engine noted it."""
    from agenttalk.contracts.core.base import format_instant

    if not (root / "data").is_dir():
        return
    since = format_instant(datetime.now(UTC) - _LATELY)  # noqa: TID251 - a door reads the clock

    try:
        told = root_access.ask_root(root, "/api/toolchain/warnings", lambda local: local.list_warnings())["warnings"]
    except AgentTalkError:
        return
    for each in told:
        if each["code"] == "FORGE_SIGNATURE_REFUSED" and each["last_at"] >= since:
            yield ForgeDiagnosis("webhooks", False, f"{each['message']} (last at {each['last_at']})", each["hint"])
