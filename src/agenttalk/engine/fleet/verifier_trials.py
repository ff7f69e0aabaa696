"""Trials of verifiers: checks whose end the engine knows, before the first real one and now and then between them.

They find a verifier that does not run what it is given. One that reads it can tell a small script from a project: two
verifiers that must agree find that one. Of one that answers wrongly nothing counts that it found since it last answered
rightly.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.promise import RunCheck
from agenttalk.contracts.worker import CheckGround, CheckOrder, OrderedFile, VerifiedResult
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import DEFAULT, SYSTEM
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.fleet.workers import Workers
from agenttalk.ports.statements.fleet import (
    DROP_VERIFICATIONS,
    SET_VERIFIER_TRIED,
    VERIFICATIONS_OF,
    VerificationRow,
    WorkerRow,
)
from agenttalk.ports.statements.proof import (
    DISTRUST_EVIDENCE,
    DROP_CHECK_RESULT,
    EVIDENCE_OF_TASK,
    REFRESH_TASK,
)
from agenttalk.ports.storage import Tx
from agenttalk.ports.verification import CheckRequest, CheckSubject
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import join_names

ONE_IN: Final = 20
"""Between real checks, one in so many is a trial."""
_SHOWN: Final = 50


class VerifierTrials:
    """Decides when a verifier is tried, and with what."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._right: set[str] = set()
        """Verifiers that answered rightly in this process."""

    def draw(self, worker: str, *, is_busy: bool) -> list[tuple[CheckRequest, bool]]:
        """Draw the trials of a verifier that has none: checks, and whether each passes."""
        if worker not in self._right:
            first = bool(secrets.randbelow(2))
            return [(self._make(passes=passes), passes) for passes in (first, not first)]
        if is_busy and not secrets.randbelow(ONE_IN):
            passes = bool(secrets.randbelow(2))
            return [(self._make(passes=passes), passes)]
        return []

    async def accept(self, worker: str, since: str) -> None:
        """Write that a verifier answered rightly what it was asked at a time: what it found before counts."""
        self._right.add(worker)
        system = await self._deps.stores.board(SYSTEM)

        def work(tx: Tx) -> None:
            tx.run(SET_VERIFIER_TRIED, id=worker, at=since)
            tx.run(DROP_VERIFICATIONS, worker=worker, at=since)

        await system.transact(work)

    def _make(self, *, passes: bool) -> CheckRequest:
        first, second, third = (secrets.randbelow(900) + 100 for _ in range(3))
        answer = first * second + third + (0 if passes else secrets.randbelow(90) + 1)
        source = TrialFiles(
            {
                "work.sh": f"echo $(({first} * {second} + {third}))\n".encode(),
                "check.sh": f'test "$(sh work.sh)" = {answer}\n'.encode(),
            }
        )
        check = RunCheck(id="tests", kind="run", run="sh check.sh")
        now, tree = self._deps.now(), source.tree
        order = CheckOrder(
            subject=wire.sha256(secrets.token_bytes(16)),
            check=check,
            ground=CheckGround(tree=tree),
            files=source.files,
        )
        about = CheckResult(check.id, False, "executed", "fault", "", now, now, Fingerprint(tree=tree))
        subject = CheckSubject("", "", "", 0, "", is_elsewhere=True)
        return CheckRequest(subject, order, source, about, None, "", _ignore, _ignore, lambda _, __: None)


class TrialFiles:
    """The files of a trial. Implements `CheckSource`."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._contents = {wire.sha256(data): data for data in files.values()}
        self.files = tuple(
            OrderedFile(path=path, sha256=wire.sha256(data), size=len(data)) for path, data in sorted(files.items())
        )
        self.tree = wire.sha256(wire.write({path: wire.sha256(data) for path, data in files.items()}))

    async def advertise(self) -> bytes:
        """Refuse, as any check without a repository does."""
        raise UsageError(Code.NOT_ALLOWED, "this check has no repository")

    async def serve(self, body: bytes, coding: str) -> AsyncGenerator[bytes, None]:  # noqa: ARG002 - see the port
        """Refuse, as any check without a repository does."""
        yield await self.advertise()

    async def read(self, sha256: str) -> bytes:
        """Read a file; see the port."""
        if sha256 not in self._contents:
            raise UsageError(Code.NAME_UNKNOWN, "this check has no such file")
        return self._contents[sha256]


def is_right(result: VerifiedResult, *, passes: bool) -> bool:
    """Whether a trial ended as it had to: one that has to fail, fails by its exit code."""
    return result.passed if passes else (not result.passed and result.reason == "exit_code")


async def distrust(deps: Deps, workers: Workers, row: WorkerRow, why: str) -> None:
    """Put a verifier into quarantine, and make stale what it found since it was last tried."""
    await workers.set_state(row.id, "quarantined", by="engine", reason=why)
    system = await deps.stores.board(SYSTEM)
    found = await system.read(VERIFICATIONS_OF, worker=row.id)
    for board in sorted({each.board for each in found}):
        await _make_stale(deps, board, row, [each for each in found if each.board == board])
    names = [f"{each.plan_id}/{each.task_id}:{each.check_id}" for each in found]
    text = turn_words.EVIDENCE_DISTRUSTED(worker=row.name, why=why, tasks=join_names(names[:_SHOWN]) or "-")

    def work(tx: Tx) -> None:
        tx.record("verifier.distrusted", f"workers/{row.id}", {"reason": why, "checks": names})
        tx.run(DROP_VERIFICATIONS, worker=row.id, at="9999")

    def warn(tx: Tx) -> None:
        code, at = Code.VERIFIER_DISTRUSTED, deps.stamp()
        records.alert(tx, at=at, plan_id=SYSTEM, code=code, message=str(text), key=f"{row.id} {at}")

    await (await deps.stores.board(DEFAULT)).transact(warn)
    await system.transact(work)


async def _make_stale(deps: Deps, board: str, worker: WorkerRow, found: list[VerificationRow]) -> None:
    """Have the checks of a verifier made again: kept results are dropped, and evidence rests on nothing any more."""
    store = await deps.stores.board(board)

    def work(tx: Tx) -> None:
        for each in found:
            if each.key:
                tx.run(DROP_CHECK_RESULT, key=each.key)
        for plan_id, task_id in sorted({(each.plan_id, each.task_id) for each in found}):
            about = {"plan_id": plan_id, "task_id": task_id}
            for row in tx.run(EVIDENCE_OF_TASK, **about):
                said: Any = wire.read(bytes(row.result), limit=wire.DOCUMENT_LIMIT)
                if any(seal["worker"] == worker.id for seal in said.get("seals") or ()):
                    said["fingerprint"]["check"] = {}
                    result = wire.write(said)
                    tx.run(DISTRUST_EVIDENCE, **about, check_id=row.check_id, result=result)
            tx.run(REFRESH_TASK, **about)

    await store.transact(work)


def _ignore() -> None:
    return None
