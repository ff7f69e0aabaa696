"""Finds proofs that are stale, checks whether they still hold, and finds whose merge broke those that do not.

Nothing is written here; `regressions` records the results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError
from agenttalk.contracts.promise import AnyCheck
from agenttalk.engine.plans import commands
from agenttalk.engine.plans.definition import PlanDefinition, read_plan
from agenttalk.ports.agents import Job
from agenttalk.ports.proof import BranchTip, Prover
from agenttalk.ports.statements.plans import ENGINE_TASK
from agenttalk.ports.statements.proof import EVIDENCE_OF_PLAN, PlanEvidenceRow
from agenttalk.ports.storage import Snapshot, Store
from agenttalk.rules.core.isolation import IsolationSettings
from agenttalk.rules.proof import findings_json, staleness
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint, is_about_work
from agenttalk.rules.proof.staleness import CommitProbe

_SEQ: Final = 1


@dataclass(frozen=True, slots=True)
class StoredEvidence:
    """Evidence that proves a task."""

    job: Job
    """A job for its task, which is not run: it names the workspace and the profile."""
    check: AnyCheck
    owner: str
    """The task whose check it is, which another one may have to keep."""
    command_id: str
    commit: str
    """The commit at which it was seen last."""
    fingerprint: Fingerprint
    fresh: bool

    @property
    def task_id(self) -> str:
        """The task that it proves."""
        return self.job.task_id


@dataclass(frozen=True, slots=True)
class EvidenceRecheck:
    """The result of checking evidence again."""

    kept: StoredEvidence
    why: tuple[str, ...] = ()
    """The things it covers that have changed."""
    result: CheckResult | None = None
    """The result of the check at the tip. None where nothing changed, or where the check was not asked for."""
    broke: str | None = None
    """The commit at which the check turned red first."""
    merged: str | None = None
    """The task that merged that commit."""

    @property
    def state(self) -> str:
        """Return the result in one word."""
        if not self.why:
            return "fresh"
        return "stale" if self.result is None else "verified" if self.result.passed else "red"


@dataclass(frozen=True, slots=True)
class StalenessReport:
    """The staleness of all evidence of a plan."""

    commit: str
    """The tip of the plan's branch."""
    seen: tuple[EvidenceRecheck, ...] = ()

    @property
    def red(self) -> list[EvidenceRecheck]:
        """Return the checks that do not hold any more."""
        return [each for each in self.seen if each.state == "red"]


async def find_stale(
    store: Store,
    prover: Prover | None,
    plan_id: str,
    words: IsolationSettings,
    *,
    task_id: str | None = None,
    fresh_only: bool = False,
    commit: str = "",
) -> StalenessReport:
    """Find stale evidence of a plan's done tasks, at the tip of its branch or at a commit. No check is run for that.

    The operator's `words` say how repeated checks are confined, as they did for the work itself.
    With `fresh_only`, evidence that is known to be stale is skipped.
    """
    rows = await store.read(EVIDENCE_OF_PLAN, plan_id=plan_id)
    rows = [
        row
        for row in rows
        if row.commit_id is not None and task_id in {None, row.task_id} and (row.fresh or not fresh_only)
    ]
    kept = await store.read_together(partial(_read_evidence, plan_id=plan_id, rows=rows, words=words)) if rows else []
    if not kept:
        return StalenessReport("")
    if prover is None:
        raise MachineError(Code.ENGINE_UNREACHABLE, "this process does not run checks")
    globs = dict.fromkeys(glob for each in kept for glob in each.check.covers or ())
    tip = await prover.find_tip(kept[0].job, list(globs), commit)
    return StalenessReport(tip.commit, tuple(EvidenceRecheck(each, _changed(each, tip)) for each in kept))


def _changed(kept: StoredEvidence, tip: BranchTip) -> tuple[str, ...]:
    """Find what has changed of the things that evidence covers.

    A task whose inputs were replaced runs again, so those are as they were.
    """
    before = kept.fingerprint
    files = kept.check.files_sha256 or {}
    ground = replace(tip.ground, files=files, inputs={**before.inputs, **tip.ground.inputs})
    return staleness.find_changes(before, kept.check, ground)


async def reverify(prover: Prover, found: StalenessReport, *, at_once: int = 1) -> StalenessReport:
    """Repeat the checks of stale evidence at the tip, so many at once. Finds which merge broke those that are red.

    Raises the first error, when none of the checks is running any more.
    """
    places = asyncio.Semaphore(at_once)

    async def recheck(seen: EvidenceRecheck) -> EvidenceRecheck:
        if not seen.why:
            return seen
        async with places:
            result = await _repeat_check(prover, seen.kept, found.commit)
            seen = replace(seen, result=result)
            return seen if result.passed else await _trace_breakage(prover, seen, found.commit)

    tasks = [asyncio.ensure_future(recheck(seen)) for seen in found.seen]
    try:
        return replace(found, seen=tuple(await asyncio.gather(*tasks)))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _repeat_check(prover: Prover, kept: StoredEvidence, commit: str) -> CheckResult:
    """Return the result of a check at the tip. Raises MachineError when it says nothing about the work."""
    result = await prover.recheck(kept.job, kept.check, kept.fingerprint, commit)
    if not result.passed and not is_about_work(result):
        what = f"the check {kept.check.id!r} of {kept.task_id} cannot be made again"
        raise MachineError(Code.CHECK_UNREPEATABLE, f"{what}: {result.detail or result.reason}")
    return result


async def _trace_breakage(prover: Prover, seen: EvidenceRecheck, tip: str) -> EvidenceRecheck:
    kept = seen.kept
    arrived = await prover.list_arrivals(kept.job, kept.commit, tip)
    commits = [commit for commit, _ in arrived]
    stands: dict[str, bool | None] = {}
    while isinstance(step := staleness.search_breaking_commit(commits, stands), CommitProbe):
        stands[step.commit] = await _passes_at(prover, kept, step.commit)
    return replace(seen, broke=step.commit, merged=dict(arrived)[step.commit] if step.commit else None)


async def _passes_at(prover: Prover, kept: StoredEvidence, commit: str) -> bool | None:
    """Return whether a check passes at a commit. None when that cannot be found out."""
    try:
        result = await prover.recheck(kept.job, kept.check, kept.fingerprint, commit)
    except AgentTalkError:
        return None
    return result.passed if result.passed or is_about_work(result) else None


def _read_evidence(
    committed: Snapshot, plan_id: str, rows: Sequence[PlanEvidenceRow], words: IsolationSettings
) -> list[StoredEvidence]:
    """Read the evidence of done tasks (`rows`). Checks that no promise has any more are left out."""
    plan = read_plan(committed, plan_id)
    found: list[StoredEvidence] = []
    known: dict[str, dict[str, tuple[Job, AnyCheck, str]]] = {}
    for row in rows:
        if row.task_id not in known:
            known[row.task_id] = _checks(committed, plan, row.task_id, words)
        if row.check_id in known[row.task_id]:
            job, check, owner = known[row.task_id][row.check_id]
            said: Any = wire.read(bytes(row.result), limit=wire.DOCUMENT_LIMIT)
            fingerprint = findings_json.read_fingerprint(said["fingerprint"])
            commit = row.commit_id or ""
            found.append(StoredEvidence(job, check, owner, row.command_id, commit, fingerprint, bool(row.fresh)))
    return found


def _checks(
    committed: Snapshot, plan: PlanDefinition, task_id: str, words: IsolationSettings
) -> dict[str, tuple[Job, AnyCheck, str]]:
    """Return the checks of a done task by id, each with the task whose check it is; none if it is not done."""
    row = committed.run(ENGINE_TASK, plan_id=plan.plan_id, task_id=task_id)[0]
    if row.state != "COMPLETED" or plan.workspace is None:
        return {}
    job = _job(committed, plan, task_id, plan.confined_profile(row.agent_id, words))
    owners = {each.id: each.owner for each in plan.joined_checks.get(task_id, ())}
    checks: Sequence[AnyCheck] = job.command.promise.checks if job.command.promise else ()
    return {check.id: (job, check, owners.get(check.id, task_id)) for check in checks}


def _job(committed: Snapshot, plan: PlanDefinition, task_id: str, profile: AgentProfile) -> Job:
    """Make a job that is not run, for the port that runs checks."""
    _, command = commands.compose(plan, plan.node(committed, task_id), (), _SEQ)
    return Job(
        plan_id=plan.plan_id,
        task_id=task_id,
        agent_id=profile.agent_id,
        board=committed.board,
        lease="",
        epoch=0,
        attempt=0,
        token="",
        profile=profile,
        command=command,
        prompt="",
        timeout=0.0,
        repo=plan.workspace,
    )
