"""Accounts of agents at providers, and which of them take no work for a time.

A wait is a row of the board where a turn ran into the limit, written in the transaction that ends the turn. So a
restart waits on, and all boards of a root know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agenttalk.contracts.core.base import format_instant, parse_instant, write_time
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.model_use import LlmUse
from agenttalk.engine.core.boards import list_boards
from agenttalk.ports.statements.budgets import ACCOUNT_WAITS, HOLD_FOR_ACCOUNT, PUT_ACCOUNT_WAIT, RELEASE_ACCOUNTS
from agenttalk.rules.agents import acp_table, cli_table, model_services
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.budgets.provider_limits import AccountLimit, AccountWait
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.catalogue import to_columns

if TYPE_CHECKING:
    from agenttalk.contracts.agent import AgentProfile
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports.storage import Store, Tx
    from agenttalk.rules.text.message import Message

_SECRETS: Final = ("_KEY", "_TOKEN")
_ADDRESSES: Final = ("_BASE_URL", "_API_BASE")


class AccountLimitError(InputError):
    """A limit of its provider kept an agent from judging an input, which says nothing about the input."""

    def __init__(self, found: AccountLimit) -> None:
        super().__init__(Code.MODEL_UNAVAILABLE, found.limit.text)
        self.found = found


def find_zone(now: datetime, name: str) -> tzinfo | None:
    """Find a time zone by its name; the empty name is that of the machine. None for an unknown one."""
    try:
        return ZoneInfo(name) if name else now.astimezone().tzinfo
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def identify(profile: AgentProfile, environ: Mapping[str, str], home: Path | None) -> tuple[str, str] | None:
    """Return the program or service of an agent, and the account that it uses; None if it has no provider."""
    if profile.driver == "llm" and profile.llm is not None:
        return _identify_service(profile.llm, environ)
    table: Mapping[str, cli_table.CodingAgent] = acp_table.TABLE if profile.driver == "acp" else cli_table.TABLE
    use = profile.acp if profile.driver == "acp" else profile.cli
    entry = table.get(use.agent) if use is not None else None
    if use is None or entry is None or profile.driver not in {"cli", "acp"}:
        return None
    program = use.agent if entry.program else PurePath(use.program or "").name
    names = [name for name in (*entry.handed, *profile.env) if environ.get(name)]
    keys = [(name, environ[name]) for name in names if name.endswith(_SECRETS)]
    login = str(home / entry.login.path) if entry.login is not None and home is not None else ""
    if keys:
        keys += [(name, environ[name]) for name in names if name.endswith(_ADDRESSES)]
    return program, provider_limits.identify_account(program, dict(keys).items(), login)


def _identify_service(use: LlmUse, environ: Mapping[str, str]) -> tuple[str, str]:
    key = environ.get(model_services.key_of(use) or "", "")
    return use.provider, provider_limits.identify_account(
        f"llm {use.provider}", [("key", key), ("url", use.base_url or "")], ""
    )


@dataclass(slots=True)
class AccountWaits:
    """The waits of accounts as the dispatcher knows them."""

    deps: Deps
    environ: Mapping[str, str] = field(default_factory=dict)
    _known: dict[str, AccountWait] = field(default_factory=dict)
    _is_read: bool = False

    @property
    def any_known(self) -> bool:
        """Whether any account waits."""
        return bool(self._known)

    def find(self, profile: AgentProfile, begun: Sequence[AccountWait] = ()) -> AccountWait | None:
        """Find the wait of an agent's account; None if it takes work. `begun` are waits that are not committed yet."""
        if not self._known and not begun:
            return None
        account = identify(profile, self.environ, self.deps.sandbox_paths.home)
        if account is None:
            return None
        own = next((each for each in begun if each.account == account[1]), None)
        wait = own or self._known.get(account[1])
        return wait if wait is not None and wait.until > self.deps.now() else None

    def add(self, waits: Iterable[AccountWait]) -> None:
        """Take waits over that were committed. The longest of an account holds."""
        for each in waits:
            known = self._known.get(each.account)
            if known is None or known.until < each.until:
                self._known[each.account] = each

    def forget(self, account: str) -> None:
        """Forget the wait of an account, which was ended."""
        self._known.pop(account, None)

    async def refresh(self) -> bool:
        """Read the waits of all boards when that is due, and forget those that are over. Return whether any was over.

        Several servers of one store learn of each other's waits here.
        """
        first, self._is_read = not self._is_read, True
        if first or self.deps.shared:
            for store in await list_boards(self.deps):
                self.add(await read_waits(store))
        now = self.deps.now()
        over = [account for account, wait in self._known.items() if wait.until <= now]
        for account in over:
            del self._known[account]
        return bool(over)

    @property
    def seconds(self) -> float | None:
        """Seconds until the next wait is over; None if there is none."""
        now = self.deps.now()
        return min(((each.until - now).total_seconds() for each in self._known.values()), default=None)


async def read_waits(store: Store) -> list[AccountWait]:
    """Read the waits of a board, also those that are over."""
    return [_to_wait(row) for row in await store.read(ACCOUNT_WAITS)]


def _to_wait(row: tuple[str, str, provider_limits.LimitKind, str, str, int]) -> AccountWait:
    account, agent, kind, text, until, number = row
    return AccountWait(account, agent, kind, text, parse_instant(until), number)


def begin_wait(tx: Tx, found: AccountLimit, *, plan_id: str, task_id: str, now: datetime) -> AccountWait:
    """Have all agents of an account wait, and record it. Return the wait that holds now."""
    before = next((_to_wait(row) for row in tx.run(ACCOUNT_WAITS) if row.account == found.account), None)
    wait = provider_limits.decide_wait(found, before, now=now)
    if wait == before:
        return wait
    tx.run(PUT_ACCOUNT_WAIT, **(wait._asdict() | {"until": format_instant(wait.until)}))
    body = {
        "plan_id": plan_id,
        "task_id": task_id,
        "agent": wait.agent,
        "kind": wait.kind,
        "text": wait.text,
        "until": write_time(wait.until),
        "wait": wait.number,
    }
    tx.record("account.waits", f"accounts/{wait.account}", body)
    return wait


def end_wait(tx: Tx, account: str, *, by: str, now: datetime) -> None:
    """End the wait of an account before its time, because an operator says that it takes work again."""
    for wait in [_to_wait(row) for row in tx.run(ACCOUNT_WAITS) if row.account == account]:
        tx.run(PUT_ACCOUNT_WAIT, **(wait._asdict() | {"until": format_instant(now)}))
        tx.record("account.released", f"accounts/{account}", {"agent": wait.agent, "by": by})


def describe_wait(wait: AccountWait) -> Message:
    """Say which account waits, why and until when."""
    words = turn_words.ACCOUNT_USED_UP if wait.kind == "usage" else turn_words.PROVIDER_BUSY
    return words(agent=wait.agent, until=write_time(wait.until), why=wait.text)


def hold_tasks(tx: Tx, wait: AccountWait, *, plan_id: str, agent_id: str, at: str) -> None:
    """Have the tasks in an agent's queue say that they wait for the account."""
    tx.run(HOLD_FOR_ACCOUNT, plan_id=plan_id, agent_id=agent_id, at=at, **to_columns(describe_wait(wait)))


def release_tasks(tx: Tx, *, plans: Iterable[str], at: str) -> None:
    """Have tasks of plans not say any more that they wait."""
    for plan_id in plans:
        tx.run(RELEASE_ACCOUNTS, plan_id=plan_id, at=at)
