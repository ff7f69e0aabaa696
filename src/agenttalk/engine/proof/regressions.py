"""Records the results of repeated checks: which evidence is stale or fresh, and which tasks have to fix something.

Everything here happens in one transaction. Evidence that was replaced since it was read is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

from agenttalk.contracts.core import wire
from agenttalk.contracts.validation import Issue
from agenttalk.engine.plans import releases
from agenttalk.engine.plans.commands import ENGINE
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import rework
from agenttalk.engine.proof.rework import WorkRefusal
from agenttalk.engine.proof.staleness import EvidenceRecheck, StalenessReport
from agenttalk.ports.statements.plans import ENGINE_TASK, RUN, RUN_STATE, SET_RUN_STATE
from agenttalk.ports.statements.proof import (
    IS_STILL_EVIDENCE,
    JOIN_CHECK,
    REFRESH_TASK,
    RENEW_EVIDENCE,
    SET_EVIDENCE_FRESH,
    STALE_TASKS,
    TIP,
)
from agenttalk.rules.core.task_states import State
from agenttalk.rules.proof import evidence, findings_json, staleness
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.proof.rework import Judgement, make_issue
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import with_messages
from agenttalk.rules.text.message import join

_PRINTED: Final = 2_000
"""Characters of a check's output that are sent back."""


def mark_freshness(moves: PlanTransaction, plan_id: str, review: StalenessReport) -> list[str]:
    """Record which evidence is stale, and which is fresh again. Return the tasks whose freshness changed."""
    changed = [recheck for recheck in review.seen if recheck.kept.fresh is bool(recheck.why)]
    changed = [recheck for recheck in changed if _set_fresh(moves, plan_id, recheck, fresh=not recheck.why)]
    for task_id, seen in _by_task(changed).items():
        stale = {recheck.kept.check.id: list(recheck.why) for recheck in seen if recheck.why}
        back = [recheck.kept.check.id for recheck in seen if not recheck.why]
        subject = f"{plan_id}/{task_id}"
        if stale:
            row = moves.tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0]
            body = {"commit": review.commit, "changed": stale, "maker": row.agent_id, "made_in": row.fact}
            moves.tx.record("evidence.stale", subject, body)
            _go_on(moves, plan_id, task_id)
        if back:
            moves.tx.record("evidence.verified", subject, {"commit": review.commit, "unchanged": back})
        moves.tx.run(REFRESH_TASK, plan_id=plan_id, task_id=task_id)
    return list(_by_task(changed))


def _go_on(moves: PlanTransaction, plan_id: str, task_id: str) -> None:
    """Reopen a plan that has ended while something that it proved is stale."""
    if moves.tx.run(RUN_STATE, plan_id=plan_id) == [("ENDED",)]:
        moves.tx.run(SET_RUN_STATE, plan_id=plan_id, state="RUNNING", at=moves.now)
        moves.tx.record("plan.reopened", plan_id, {"stale": task_id})


def record_rechecks(moves: PlanTransaction, plan_id: str, review: StalenessReport) -> list[str]:
    """Record the results of repeated checks. Return the tasks that are reopened because of them."""
    mark_freshness(moves, plan_id, review)
    renewed = [
        recheck
        for recheck in review.seen
        if recheck.state == "verified" and _renew(moves, plan_id, recheck, review.commit)
    ]
    for task_id, seen in _by_task(renewed).items():
        findings = [findings_json.to_json(recheck.result) for recheck in seen if recheck.result is not None]
        moves.tx.record("evidence.verified", f"{plan_id}/{task_id}", {"commit": review.commit, "checks": findings})
        moves.tx.run(REFRESH_TASK, plan_id=plan_id, task_id=task_id)
    broken = [recheck for recheck in review.red if _is_current(moves, plan_id, recheck)]
    return _reopen(moves, plan_id, broken) if broken else []


def end_plan(moves: PlanTransaction, plan_id: str, tip: str) -> Literal["ended", "open", "stale"]:
    """End a plan in which nothing is open or stale. Return what is in the way, if anything. A paused plan stays.

    Its proofs hold at `tip`; a branch that was moved since has to be checked again.
    """
    tx = moves.tx
    run = tx.run(RUN, plan_id=plan_id)[0]
    if run.state != "RUNNING" or run.open:
        return "open"
    if tx.run(STALE_TASKS, plan_id=plan_id) or (tip and tx.run(TIP, plan_id=plan_id) != [(tip,)]):
        return "stale"
    moves.end_run(plan_id, {"completed": run.completed, "failed": run.failed, "skipped": run.skipped})
    return "ended"


def _by_task(seen: Iterable[EvidenceRecheck]) -> dict[str, list[EvidenceRecheck]]:
    by_task: dict[str, list[EvidenceRecheck]] = {}
    for recheck in seen:
        by_task.setdefault(recheck.kept.task_id, []).append(recheck)
    return by_task


def _about(plan_id: str, seen: EvidenceRecheck) -> dict[str, str]:
    kept = seen.kept
    return {
        "plan_id": plan_id,
        "task_id": kept.task_id,
        "check_id": kept.check.id,
        "command_id": kept.command_id,
        "seen": kept.commit,
    }


def _set_fresh(moves: PlanTransaction, plan_id: str, seen: EvidenceRecheck, *, fresh: bool) -> bool:
    return bool(moves.tx.run(SET_EVIDENCE_FRESH, **_about(plan_id, seen), fresh=int(fresh)))


def _is_current(moves: PlanTransaction, plan_id: str, seen: EvidenceRecheck) -> bool:
    """Whether the evidence that was checked is still the one that proves the task."""
    return bool(moves.tx.run(IS_STILL_EVIDENCE, **_about(plan_id, seen)))


def _renew(moves: PlanTransaction, plan_id: str, seen: EvidenceRecheck, commit: str) -> bool:
    """Renew evidence that passed again: from now on it is about the tip."""
    result = seen.result
    if result is None:
        return False
    rows = moves.tx.run(
        RENEW_EVIDENCE,
        **_about(plan_id, seen),
        commit_id=commit,
        tree=result.fingerprint.tree,
        result=wire.write(findings_json.to_record(result)),
        key=evidence.cache_key(result.fingerprint),
        at=moves.now,
    )
    return bool(rows)


def _reopen(moves: PlanTransaction, plan_id: str, broken: Sequence[EvidenceRecheck]) -> list[str]:
    """Reopen the tasks that broke checks, each with all that it broke. Return these tasks."""
    tx = moves.tx
    checks = ", ".join(sorted({recheck.kept.check.id for recheck in broken}))
    releases.revoke(tx, plan_id, verdict_words.RELEASE["unproven"](checks=checks), at=moves.now)
    named = {
        name
        for recheck in broken
        for name in (recheck.merged, recheck.kept.owner, recheck.kept.task_id)
        if name is not None
    }
    tasks = {task_id: tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id) for task_id in sorted(named)}
    states: dict[str, State] = {task_id: rows[0].state for task_id, rows in tasks.items() if rows}
    mending: dict[str, list[EvidenceRecheck]] = {}
    for recheck in broken:
        who = staleness.choose_mender(recheck.merged, recheck.kept.owner, recheck.kept.task_id, states)
        mending.setdefault(who, []).append(recheck)
    return [
        task_id
        for task_id, seen in mending.items()
        if states[task_id] == "COMPLETED" and _send_back(moves, plan_id, task_id, seen)
    ]


def _send_back(moves: PlanTransaction, plan_id: str, task_id: str, broken: Sequence[EvidenceRecheck]) -> bool:
    """Reopen one task. False when another round makes no sense, and it has failed."""
    tx = moves.tx
    _join(moves, plan_id, task_id, broken)
    plan = moves.definitions.load(tx, plan_id)
    reason = join(dict.fromkeys(_describe_reopening(task_id, recheck) for recheck in broken))
    body = {
        **with_messages({"reason": reason}),
        "broken": [_broken_check_to_json(broken_check) for broken_check in broken],
    }
    tx.record("regression.found", f"{plan_id}/{task_id}", body)
    kept = broken[0].kept
    judgement = Judgement(False, 0, reason, tuple(_issues(task_id, broken)))
    refusal = WorkRefusal(ENGINE, kept.owner if kept.owner != task_id else None, kept.command_id, judgement)
    rework.refuse_work(moves, plan, task_id, refusal, "REGRESSION")
    return bool(tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0].state != "FAILED")


def _join(moves: PlanTransaction, plan_id: str, task_id: str, broken: Sequence[EvidenceRecheck]) -> None:
    """Add checks of others to the promise of a task that broke them."""
    others = [recheck.kept for recheck in broken if recheck.kept.owner != task_id]
    for kept in others:
        name = kept.check.id if kept.task_id == kept.owner else kept.check.id.removeprefix(f"{kept.owner}/")
        body = wire.write(kept.check.model_copy(update={"id": name}).as_json())
        about = {"plan_id": plan_id, "task_id": task_id, "owner": kept.owner, "check_id": name}
        moves.tx.run(JOIN_CHECK, **about, body=body, at=moves.now)
    if others:
        moves.definitions.forget(plan_id)


def _describe_reopening(task_id: str, seen: EvidenceRecheck) -> str:
    """Describe why a task is reopened."""
    kept = seen.kept
    name = kept.check.id
    name = name if kept.owner == task_id else verdict_words.CHECK_OF(check=name, task=kept.owner)
    if seen.merged == task_id:
        return verdict_words.BROKE(names=name)
    if not seen.broke:
        return verdict_words.BROKE_BY_ITSELF(names=name)
    if not seen.merged:
        return verdict_words.BROKEN_BY_COMMIT(names=name)
    return verdict_words.BROKEN_BY_MERGE(names=name, task=seen.merged)


def _broken_check_to_json(seen: EvidenceRecheck) -> dict[str, object]:
    """Describe a check that no longer holds, for the ledger."""
    result = findings_json.to_json(seen.result) if seen.result is not None else {}
    cause = {"commit": seen.broke, "task_id": seen.merged}
    return {"task_id": seen.kept.task_id, "owner": seen.kept.owner, "cause": cause, "check": result}


def _tell(result: CheckResult) -> str:
    """Say what a check found, as far as an agent may know it."""
    if result.hidden is not False:
        return result.to_evidence(fresh=True).detail
    return result.detail or result.reason


def _issues(task_id: str, broken: Sequence[EvidenceRecheck]) -> Iterator[Issue]:
    for recheck in broken:
        result = recheck.result
        reason = _describe_reopening(task_id, recheck)
        if result is not None:
            reason = verdict_words.REGRESSION(why=reason, whys=_tell(result))
        yield make_issue(reason, "regression")
        if result is not None and result.output and result.hidden is False:
            printed = verdict_words.PRINTED(check=recheck.kept.check.id, text=result.output[-_PRINTED:])
            yield make_issue(printed, "check")
