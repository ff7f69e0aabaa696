"""The checks of a verifier, in its process: begins what the engine wants, ends what it does not want, signs results.

Nothing is kept on the disk: a check that a dead verifier had is given to another, or to its next process.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.worker import CheckOrder, CheckReport, DesiredCheck, Verification, WorkerFacts
from agenttalk.ports.fleet import EngineLink
from agenttalk.ports.verification import CheckInput, CheckMaker
from agenttalk.rules.fleet.verification import make_statement

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class CheckTask:
    """A check that a verifier has."""

    lease: str
    done: int | None = None
    total: int | None = None
    verification: Verification | None = None
    fault: str = ""
    task: asyncio.Task[None] | None = None

    def count(self, done: int | None, total: int | None) -> None:
        """Take how many tests have run, and how many there are."""
        self.done, self.total = done, total


class CheckProcess:
    """Makes checks for an engine, in the process of a worker."""

    def __init__(
        self, worker: str, maker: CheckMaker, link: EngineLink, facts: WorkerFacts, sign: Callable[[bytes], bytes]
    ) -> None:
        self._worker = worker
        self._maker = maker
        self._link = link
        self._facts = facts
        self._sign = sign
        self._checks: dict[str, CheckTask] = {}
        self.changed = asyncio.Event()
        """Set when there is news for the engine."""

    @property
    def is_idle(self) -> bool:
        """Whether it has no check."""
        return not self._checks

    def list_reports(self) -> list[CheckReport]:
        """List what the engine gets to know of the checks."""
        return [
            CheckReport(
                lease=each.lease,
                done=each.done,
                total=each.total,
                verification=each.verification,
                fault=each.fault,
            )
            for each in self._checks.values()
        ]

    @property
    def has_news(self) -> bool:
        """Whether a result waits for the engine."""
        return any(each.verification is not None or each.fault for each in self._checks.values())

    def apply(self, desired: Iterable[DesiredCheck]) -> None:
        """Begin what the engine wants, and end what it does not name."""
        wanted = {each.lease: each.order for each in desired}
        for lease in [lease for lease in self._checks if lease not in wanted]:
            self._forget(self._checks[lease])
        for lease, order in wanted.items():
            if lease not in self._checks and order is not None:
                made = self._checks[lease] = CheckTask(lease)
                made.task = asyncio.create_task(self._make(made, order))

    def _forget(self, check: CheckTask) -> None:
        """Forget a check once it has ended. One that runs is ended first, and stays until its processes are dead."""
        if check.task is None or check.task.done():
            del self._checks[check.lease]
        else:
            check.task.cancel()

    async def end_all(self) -> None:
        """End all checks that run, and forget all. The engine was not reached for too long, or the process ends."""
        tasks = [each.task for each in self._checks.values() if each.task is not None and not each.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._checks.clear()

    async def _make(self, check: CheckTask, order: CheckOrder) -> None:
        given = CheckInput(
            self._link.check_remote(check.lease), lambda sha256: self._link.fetch_check_file(check.lease, sha256),
            check.count,
        )  # fmt: skip
        try:
            result = await self._maker.make(check.lease, order, given)
        except AgentTalkError as error:
            check.fault = error.message or str(error.code)
        except Exception as error:  # a fault of ours or of this machine, which says nothing of the work
            LOG.exception("%s: the check failed", check.lease, extra={"action": "worker.check"})
            check.fault = f"{type(error).__name__}: {error}"
        else:
            tier = self._facts.sandboxes[-1] if self._facts.sandboxes and result.isolated else "plain"
            found = Verification(result=result, machine=self._facts.machine, sandbox=tier, signature="-")
            signature = self._sign(make_statement(check.lease, self._worker, order, found))
            told = base64.urlsafe_b64encode(signature).decode().rstrip("=")
            check.verification = found.model_copy(update={"signature": told})
        self.changed.set()
