"""The store of evidence: what proves tasks, results by what they rest on, and how checks stood before the work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.evidence import EvidenceEntry
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.agents import Job
from agenttalk.ports.proof import Baseline
from agenttalk.ports.statements.proof import (
    BASELINE,
    CHECK_RESULT,
    CLAIMS_OF,
    DROP_EVIDENCE,
    KEEP_BASELINE,
    KEEP_CHECK_RESULT,
    PUT_EVIDENCE,
)
from agenttalk.ports.storage import Store, Tx, Value
from agenttalk.rules.proof import evidence, findings_json
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.proof.performance import WorkProof


@dataclass(frozen=True, slots=True)
class StoredFindings:
    """Earlier results, in the store of a board. Implements the port `CheckResultStore`."""

    deps: Deps

    async def find_baseline(self, job: Job) -> Baseline | None:
        """Return how checks stood before the work; see the port."""
        board = await self.deps.stores.board(job.board)
        rows = await board.read(BASELINE, plan_id=job.plan_id, task_id=job.task_id)
        if not rows:
            return None
        said: Any = wire.read(bytes(rows[0].results), limit=wire.DOCUMENT_LIMIT)
        return Baseline(rows[0].onto, {name: findings_json.read_cache_entry(each) for name, each in said.items()})

    async def keep_baseline(self, job: Job, baseline: Baseline) -> None:
        """Store how checks stood before the work; see the port."""
        hide = self.deps.secret_guard.redact_result
        results = wire.write(
            {name: findings_json.to_cache_entry(hide(each)) for name, each in baseline.results.items()}
        )
        about = {"plan_id": job.plan_id, "task_id": job.task_id, "onto": baseline.onto, "at": self.deps.stamp()}
        board = await self.deps.stores.board(job.board)
        await board.transact(lambda tx: tx.run(KEEP_BASELINE, results=results, **about))

    async def find_result(self, job: Job, key: str, check_id: str) -> CheckResult | None:
        """Return a result of a check that rests on the same; see the port."""
        board = await self.deps.stores.board(job.board)
        rows = await board.read(CHECK_RESULT, key=key)
        if not rows:
            return None
        said: Any = wire.read(bytes(rows[0].result), limit=wire.DOCUMENT_LIMIT)
        return findings_json.reuse_result(said, check_id, at=rows[0].at, made_for=rows[0].made_by)

    async def keep_result(self, job: Job, key: str, result: CheckResult) -> None:
        """Store a result under its key; see the port."""
        about: dict[str, Value] = {
            "key": key,
            "result": wire.write(findings_json.to_cache_entry(self.deps.secret_guard.redact_result(result))),
            "made_by": f"{job.plan_id}/{job.task_id}",
            "at": self.deps.stamp(),
        }
        board = await self.deps.stores.board(job.board)
        await board.transact(lambda tx: tx.run(KEEP_CHECK_RESULT, **about))


async def read_claims(deps: Deps, store: Store, job: Job) -> list[str | EvidenceEntry]:
    """Return what the agent of a job claimed meanwhile in reports to the API."""
    rows = await store.read(CLAIMS_OF, plan_id=job.plan_id, task_id=job.task_id, epoch=job.epoch, author=job.agent_id)
    hide = deps.secret_guard.secrets.redact_json
    return [each for (said,) in rows for each in evidence.read_claims(hide(wire.read(bytes(said))))]


def write_evidence(tx: Tx, job: Job, proof: WorkProof, *, at: str) -> None:
    """Write the evidence of a task, in place of what it had before."""
    about = {"plan_id": job.plan_id, "task_id": job.task_id}
    tx.run(DROP_EVIDENCE, **about)
    for result in proof.results:
        tx.run(
            PUT_EVIDENCE,
            **about,
            check_id=result.id,
            command_id=job.command.command_id,
            commit_id=proof.commit or None,
            tree=result.fingerprint.tree,
            result=wire.write(findings_json.to_record(result)),
            key=evidence.cache_key(result.fingerprint),
            at=at,
        )
