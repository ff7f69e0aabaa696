"""Reads at forges whether something was done, with the engine's own token and never an agent's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeVar

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.promise import ForgeCheck
from agenttalk.ports.forge import Forge
from agenttalk.ports.kinds import KindTask, KindTurn
from agenttalk.ports.statements.toolchain import SIGHTING
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.evidence import CheckFinding, Reason
from agenttalk.rules.text import forge_words
from agenttalk.rules.toolchain import dedup_keys, forge_checks, mootness, read_back, report_claims
from agenttalk.rules.toolchain.accounts import ForgeRegistry
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeQuery, UnreadError
from agenttalk.rules.toolchain.read_back import OUTAGES, ReadBackOrder

T = TypeVar("T")
MOST_LOOKS: Final = 60
"""Requests for one question."""
_LONGEST_PAUSE: Final = 15.0
_HELD: Final = 2.0
"""Seconds for which an agent is held; a longer wait frees it for other tasks."""
_LOOK_AGAIN: Final = 60.0
"""Seconds after which a task that waits for others is read again, if no event arrives."""
_CONFLICT_AGAIN: Final = 10.0


@dataclass(frozen=True, slots=True)
class ReadBack:
    """Reads back whether a task was done."""

    forges: Mapping[str, Forge]
    """The engine's own clients, by source."""
    registry: ForgeRegistry = field(default_factory=ForgeRegistry)
    patience: float = 60.0
    """Seconds that a forge may be out of order before that is reported; 0: do not wait at all."""
    longest: float = 6 * 3600.0
    """Seconds to wait in all, once it is reported: until then it is unknown whether the work was done."""
    settling: float = 3.0
    """Seconds that a forge may take to show what was done."""
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
    hasty: Collection[str] = ()
    """Sources that are not waited for: there, claims of agents count as well."""
    gone: Callable[[], Awaitable[bool]] | None = None
    """Returns whether the forge reported that the repository of a task was deleted, not by its agent."""

    async def __call__(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """Return what the forge shows about a task. Empty where the source has no token of ours."""
        forge = self.forges.get(task.source)
        if forge is None:
            return []
        account = self.registry.account_of(task.source, task.agent_id)
        if account is None:
            text = forge_words.NO_ACCOUNT(agent=task.agent_id, source=task.source)
            return [read_back.make_failure_evidence(text, None, turn.at)]
        since = task.event_at or task.made_at
        reviewed = self.registry.default_reviewer not in {None, task.agent_id}
        about = (task.action_type, account, task.context, task.head_sha, since)
        order = ReadBackOrder(*about, self.registry.is_deployment_name, task.task_id, reviewed)
        own = [report.claims for report in turn.said if report.author == turn.agent_id and report.claims is not None]
        claims = report_claims.read_reports(own, len(task.steps))

        def look(facts: ForgeFacts) -> list[Evidence]:
            return read_back.collect_evidence(order, claims, facts, turn.at)

        try:
            asked = replace(self, gone=partial(_is_gone, task, account.login, turn))
            asked = replace(asked, patience=0.0, settling=0.0) if task.source in self.hasty else asked
            return await asked._decided(forge, look, order, turn)  # noqa: SLF001 - our own
        except ForgeError as error:
            if error.code is Code.FORGE_UNSEEN and await _is_gone(task, account.login, turn):
                why = forge_words.WAS_DELETED(place=order.repository)
                return [
                    read_back.make_failure_evidence(error.message, error.code, turn.at),
                    read_back.make_moot_evidence("moot", why, turn.at),
                ]
            return [read_back.make_failure_evidence(error.message, error.code, turn.at)]

    async def _decided(
        self, forge: Forge, look: Callable[[ForgeFacts], list[Evidence]], order: ReadBackOrder, turn: KindTurn
    ) -> list[Evidence]:
        """Return what the forge shows, once it is clear. Reads again what has to wait for others when it may differ."""
        settled: asyncio.Future[None] | None = None
        try:
            while True:
                evidence = await self._settled(forge, look, lambda evidence: evidence[-1].passed, turn)
                if evidence[-1].passed or read_back.is_denied(evidence):
                    return evidence
                stands = await self._patiently(forge, partial(mootness.judge_due_status, order), turn)
                # A forge that still computes conflicts reports that there are some, so the first reading proves none.
                # The time runs on when news has it read again meanwhile.
                lasts = stands.kind == "conflict" and settled is not None and settled.done()
                if stands.kind == "moot" or lasts:
                    return [*evidence, read_back.make_moot_evidence(stands.kind, stands.why, turn.at)]
                if stands.kind == "due" or turn.wait is None:
                    return evidence
                if stands.kind == "conflict":
                    settled = settled or asyncio.ensure_future(self.sleep(_CONFLICT_AGAIN))
                    await turn.wait(stands.why, _wait_for(settled))
                else:
                    _cancel(settled)
                    settled = None
                    await turn.wait(stands.why, self.sleep(_LOOK_AGAIN))
        finally:
            _cancel(settled)

    async def check(self, check: ForgeCheck) -> CheckFinding:
        """Make a check of a plan."""
        source = check.source or (next(iter(self.forges)) if len(self.forges) == 1 else "")
        forge = self.forges.get(source)
        if forge is None:
            known = ", ".join(sorted(self.forges)) or "none"
            what = f"no forge {source!r}" if source else "not exactly one forge"
            return CheckFinding(
                False, "facts_missing", f"there is {what} with a token of the engine's (there are: {known})"
            )

        def look(facts: ForgeFacts) -> CheckFinding:
            return forge_checks.judge_forge(check, facts, self.registry, source)

        try:
            return await self._settled(forge, look, lambda found: found.passed)
        except ForgeError as error:
            away = error.code in OUTAGES and error.code is not Code.FORGE_UNSEEN
            reason: Reason = "unreachable" if away else "unreadable"
            return CheckFinding(False, reason, f"{error.code}: {error.message}")

    async def _settled(
        self, forge: Forge, look: Callable[[ForgeFacts], T], good: Callable[[T], bool], turn: KindTurn | None = None
    ) -> T:
        """Return the answer of `look`. Forges show some things with a delay, so a negative answer is read again."""
        answer = await self._patiently(forge, look, turn)
        waited = 0.0
        while not good(answer) and waited < self.settling:
            await self.sleep(1.0)
            waited += 1.0
            answer = await self._patiently(forge, look, turn)
        return answer

    async def _patiently(self, forge: Forge, look: Callable[[ForgeFacts], T], turn: KindTurn | None = None) -> T:
        """Read, and wait while the forge is out of order. Raises ForgeError when it stays so.

        The agent has done its part, and must not repeat it only because the forge could not be read. So the outage is
        reported to those who can restore the forge, and the task waits while the agent is free for other tasks.
        """
        waited, pause, reported = 0.0, 1.0, False
        away, wait = (turn.away, turn.wait) if turn is not None else (None, None)
        while True:
            try:
                return await read_until_decided(forge, look)
            except ForgeError as error:
                pause = max(pause, error.retry_after)
                if error.code not in OUTAGES or not self.patience:
                    raise
                unseen = error.code is Code.FORGE_UNSEEN  # it does not pass by itself, so it is reported at once
                if unseen and self.gone is not None and await self.gone():
                    raise
                if unseen or waited + pause > self.patience:
                    if away is None or (not unseen and waited + pause > self.longest):
                        raise
                    if not reported:
                        await away(f"{error.code}: {error.message}")
                    reported = True
                why = f"{error.code}: {error.message}"
            await (self.sleep(pause) if wait is None or pause < _HELD else wait(why, self.sleep(pause)))
            waited += pause
            pause = min(pause * 2, _LONGEST_PAUSE)


async def _wait_for(settled: asyncio.Future[None]) -> None:
    await asyncio.wait({settled})


def _cancel(settled: asyncio.Future[None] | None) -> None:
    if settled is not None:
        settled.cancel()


async def _is_gone(task: KindTask, login: str, turn: KindTurn) -> bool:
    """Return whether the forge reported that a task's repository was deleted, and not by the agent itself."""
    about = dedup_keys.repository_in(task.object)
    if turn.read is None or not about:
        return False
    rows = await turn.read(SIGHTING, object=dedup_keys.repository_gone(task.source, about))
    sighting: Any = wire.read(bytes(rows[0].body)) if rows else {}
    return bool(sighting) and sighting["by"] != login.lower()


async def read_until_decided(forge: Forge, look: Callable[[ForgeFacts], T]) -> T:
    """Return the answer of `look` once everything is read that it needs. Raises ForgeError."""
    read: dict[ForgeQuery, Any] = {}
    for _ in range(MOST_LOOKS):
        try:
            return look(ForgeFacts(read))
        except UnreadError as missing:
            read[missing.look] = await _read(forge, missing.look)
    raise ForgeError(Code.FORGE_ANSWER_INVALID, f"more than {MOST_LOOKS} requests are needed to decide")


async def _read(forge: Forge, look: ForgeQuery) -> Any:
    """Read one thing; None when the forge has none. Raises FORGE_UNSEEN where the engine's account sees nothing."""
    try:
        return await _READERS[look.what](forge, look.repository, look.key)
    except ForgeError as error:
        if error.code is Code.FORGE_MISSING and await forge.account.can_see(look.repository):
            return None
        if error.code is Code.FORGE_MISSING or error.status in {401, 403}:
            raise _unseen(look.repository, error) from error
        raise


def _unseen(repository: str, error: ForgeError) -> ForgeError:
    """Make the error that the engine's account may not read, which proves nothing about the work."""
    why = f"the engine's account does not see {repository}: {error.message}"
    hint = "give the account of the source's token read access to the repository, or the token its scopes"
    return ForgeError(Code.FORGE_UNSEEN, why, status=error.status, hint=hint)


async def _compare(forge: Forge, repository: str, key: str) -> Any:
    base, _, head = key.partition("...")
    return await forge.repositories.compare(repository, base, head)


async def _review_comments(forge: Forge, repository: str, key: str) -> Sequence[Any]:
    number, _, review = key.partition("/")
    return await forge.pulls.list_review_comments(repository, int(number), int(review))


_READERS: Final[Mapping[str, Callable[[Forge, str, str], Awaitable[Any]]]] = {
    "pull": lambda forge, repository, key: forge.pulls.read(repository, int(key)),
    "issue": lambda forge, repository, key: forge.issues.read(repository, int(key)),
    "reviews": lambda forge, repository, key: forge.pulls.list_reviews(repository, int(key)),
    "review_comments": _review_comments,
    "comments": lambda forge, repository, key: forge.issues.list_comments(repository, int(key)),
    "statuses": lambda forge, repository, key: forge.repositories.list_statuses(repository, key),
    "compare": _compare,
    "changes": lambda forge, repository, key: forge.issues.list_changes(repository, int(key)),
    "branch": lambda forge, repository, key: forge.repositories.read_branch(repository, key),
    "open_pulls": lambda forge, repository, _: forge.pulls.list_open(repository),
    "head": lambda forge, repository, key: forge.pulls.read_head(repository, int(key)),
    "commit": lambda forge, repository, key: forge.repositories.read_commit(repository, key),
    "content": lambda forge, repository, key: forge.repositories.hash_content(repository, key),
    "pushes": lambda forge, repository, key: forge.pulls.list_pushes(repository, int(key)),
    "files": lambda forge, repository, key: forge.pulls.list_files(repository, int(key)),
    "pulls_since": lambda forge, repository, key: forge.pulls.list_since(repository, key),
}
