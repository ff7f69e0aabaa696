"""Decides whether a plan's results are released. The engine decides; agents only deliver what it checks.

Checks are made before the transaction. The decision is one transaction, which is given up and tried again if
anything that it rests on has changed meanwhile. The same footing is decided once, also after a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.contracts.plan import PhaseTimeout, Policies, Workspace
from agenttalk.contracts.validation import DecisionRecord, ReleaseManifest
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import releases, validator_verdicts
from agenttalk.engine.plans.definition import PlanDefinition, read_plan
from agenttalk.engine.plans.releases import GateRecord, ManifestRecord, Release
from agenttalk.ports.proof import Prover, Shipment, ShipmentReport
from agenttalk.ports.statements.plans import RUN
from agenttalk.ports.statements.proof import (
    ARTIFACTS_NAMED,
    COMMAND_TAKEN_AT,
    DECIDE_RELEASE,
    DROP_DUE_RELEASE,
    FINISHED_TASKS,
    GATE_RESULTS,
    JUDGEMENTS_OF,
    RELEASE_TASK,
)
from agenttalk.ports.statements.views import UNISOLATED_IN
from agenttalk.ports.storage import Snapshot, Store, Tx
from agenttalk.rules.core.artifacts import hash_files
from agenttalk.rules.proof import checkpoints
from agenttalk.rules.proof import release as rules
from agenttalk.rules.proof.release import DeliverableState, GateFinding, ReleaseDecision
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import read_text, with_messages

_TRIES: Final = 5
"""How often a decision is started again because something changed while checks ran."""


@dataclass(frozen=True, slots=True)
class _Document:
    """A gate's result that a task delivered."""

    output_name: str
    by: str
    content: str
    """Hash of its only file; empty if it has several."""
    fresh: bool


@dataclass(frozen=True, slots=True)
class _ReleaseBasis:
    """Everything in the store that a decision rests on."""

    policies: Policies
    agents: tuple[str, ...]
    repo: Workspace | None
    made: tuple[DeliverableState, ...]
    files: Mapping[tuple[str, str], Mapping[str, str]]
    """Task and output → paths and hashes of what it made."""
    documents: tuple[_Document, ...]
    dag_sha256: str
    over: bool
    """Whether no task is open."""
    unisolated: int = 0
    """How many of the plan's tasks rest on something that ran without a sandbox."""

    def compute_hash(self, commit: str) -> str:
        """Compute the hash of all fields and of the head of the plan's branch."""
        return wire.sha256(
            wire.write(
                {
                    "policies": self.policies.as_json(),
                    "dag": self.dag_sha256,
                    "made": [repr(each) for each in self.made],
                    "documents": [repr(each) for each in self.documents],
                    "commit": commit,
                }
            )
        )


async def decide_release(
    deps: Deps, store: Store, plan_id: str, prover: Prover | None, *, again: bool = False, by: str = rules.ENGINE
) -> Release | None:
    """Decide the release of a plan whose tasks have all ended. None when it ships nothing.

    The same state is not decided again, unless an approval was taken back or a person asks for it (`again`).
    """
    if again:
        at = deps.stamp()
        await store.transact(lambda tx: _ask_again(tx, plan_id, by=by, at=at))
    for _ in range(_TRIES):
        ground = await store.read_together(partial(_read_basis, plan_id=plan_id))
        if ground is None:
            return None
        if not ground.over:
            await store.transact(lambda tx: _not_due(tx, plan_id))
            return await releases.read_latest_committed(store, plan_id)
        shipment = _shipment(store.name, plan_id, ground)
        examined = await _examine(prover, shipment, ground.policies)
        findings, faults = await _read(deps, store, ground)
        found = [*findings, *_own_findings(ground, examined)]
        faults = [*faults, *examined.faults]

        def work(
            tx: Tx,
            ground: _ReleaseBasis = ground,
            examined: ShipmentReport = examined,
            found: Any = found,
            faults: Any = faults,
        ) -> bool:
            return _decide(tx, deps, plan_id, ground, examined, found, faults)

        if await store.transact(work):
            return await releases.read_latest_committed(store, plan_id)
    raise MachineError(Code.STORE_CONFLICT, f"plan {plan_id!r} changes while its release is decided", hint="try again")


def _ask_again(tx: Tx, plan_id: str, *, by: str, at: str) -> None:
    ground = _read_basis(tx, plan_id)
    if ground is None:
        raise UsageError(Code.NAME_UNKNOWN, f"plan {plan_id!r} ships nothing", hint="write release: into the plan")
    if not ground.over:
        raise UsageError(Code.ILLEGAL_TRANSITION, f"plan {plan_id!r} has not ended", hint="it is released then")
    known = releases.read_latest(tx, plan_id)
    if known is None or known.state != "due":
        releases.mark_due(tx, plan_id, ground.policies, at=at)
        tx.record("release.requested", plan_id, {"by": by})


def _not_due(tx: Tx, plan_id: str) -> None:
    """Leave the decision until the tasks that are open again have ended."""
    known = releases.read_latest(tx, plan_id)
    if known is not None and known.state == "due":
        tx.run(DROP_DUE_RELEASE, plan_id=plan_id, number=known.number)


def _read_basis(tx: Snapshot, plan_id: str) -> _ReleaseBasis | None:
    plan = read_plan(tx, plan_id)
    policy = plan.policies.release
    if policy is None:
        return None
    made, files = [], {}
    for each in policy.deliverables:
        task_id = str(each.from_task_id)
        one, contents = _read_deliverable(tx, plan, task_id, each.name)
        made.append(one)
        files[task_id, each.name] = contents
    documents = tuple(_documents(tx, plan))
    run = tx.run(RUN, plan_id=plan_id)[0]
    return _ReleaseBasis(
        plan.policies,
        tuple(plan.profiles),
        plan.workspace,
        tuple(made),
        files,
        documents,
        dag_sha256=run.dag_sha256,
        over=run.open == 0,
        unisolated=tx.run(UNISOLATED_IN, plan_id=plan_id)[0].tasks,
    )


def _read_deliverable(
    tx: Snapshot, plan: PlanDefinition, task_id: str, name: str
) -> tuple[DeliverableState, dict[str, str]]:
    """Return the state of a deliverable."""
    rows = tx.run(RELEASE_TASK, plan_id=plan.plan_id, task_id=task_id)
    if not rows:
        return DeliverableState(name, task_id, "PENDING"), {}
    task = rows[0]
    node = plan.node(tx, task_id)
    needed = _is_needed(node, name) and not (task.state == "SKIPPED" and task.cause == "BRANCH_NOT_TAKEN")
    versions = tx.run(ARTIFACTS_NAMED, plan_id=plan.plan_id, output_name=name)
    row = next((row for row in versions if row.task_id == task_id), None)
    if row is None:
        return DeliverableState(name, task_id, task.state, bool(task.fresh), needed), {}
    files = validator_verdicts.files_of(bytes(row.envelope))
    sha256 = hash_files(files)
    said = [one for one in tx.run(JUDGEMENTS_OF, plan_id=plan.plan_id, sha256=sha256) if one.validator != row.producer]
    made = DeliverableState(
        name,
        task_id,
        task.state,
        bool(task.fresh),
        needed,
        row.producer,
        sha256,
        plan.promise(node).id,
        refused_by=tuple(validator for validator, accepted, _ in said if not accepted),
        accepted_by=tuple(validator for validator, accepted, _ in said if accepted),
        isolated=not task.unisolated,
    )
    return made, files


def _is_needed(node: Node, name: str) -> bool:
    return any(each.name == name and each.when is None and not each.optional for each in node.outputs)


def _documents(tx: Snapshot, plan: PlanDefinition) -> list[_Document]:
    """List the newest results of gates that tasks delivered, and whether they saw all that was merged."""
    merged = _merged_at(tx, plan)
    documents: dict[tuple[str, str], _Document] = {}
    for artifact in tx.run(GATE_RESULTS, plan_id=plan.plan_id):
        if rules.find_named_gate(artifact.output_name) is None or (artifact.task_id, artifact.output_name) in documents:
            continue
        rows = tx.run(RELEASE_TASK, plan_id=plan.plan_id, task_id=artifact.task_id)
        if not rows:
            continue
        row = rows[0]
        files = validator_verdicts.files_of(bytes(artifact.envelope))
        content = next(iter(files.values())) if len(files) == 1 else ""
        by = artifact.producer if artifact.producer == row.agent_id else f"{artifact.producer}, whose task it is not"
        began = _began(tx, plan.plan_id, artifact.task_id)
        late = any(at > began for task_id, at in merged.items() if task_id != artifact.task_id)
        holds = row.state == "COMPLETED" and bool(row.fresh) and not late
        documents[artifact.task_id, artifact.output_name] = _Document(artifact.output_name, by, content, holds)
    return list(documents.values())


def _merged_at(tx: Snapshot, plan: PlanDefinition) -> dict[str, str]:
    """Map tasks that work on the repository to when their work was merged last."""
    if plan.workspace is None:
        return {}
    return {
        row.task_id: row.finished_at
        for row in tx.run(FINISHED_TASKS, plan_id=plan.plan_id)
        if plan.node(tx, row.task_id).workspace == "repo"
    }


def _began(tx: Snapshot, plan_id: str, task_id: str) -> str:
    """Return when a task got the command that it ended with. Unknown is empty, which sorts before everything."""
    rows = tx.run(COMMAND_TAKEN_AT, plan_id=plan_id, task_id=task_id)
    return str(rows[0].consumed_at or "") if rows else ""


def _shipment(board: str, plan_id: str, ground: _ReleaseBasis) -> Shipment:
    """Lay out what is shipped: an artifact of one file by its name, others in a folder of that name."""
    shipped = [artifact for artifact in ground.made if artifact.sha256 and artifact.state == "COMPLETED"]
    names = [artifact.name for artifact in shipped]
    files: dict[str, str] = {}
    for artifact in shipped:
        top = (
            root_layout.path_segment(artifact.name)
            if names.count(artifact.name) == 1
            else f"{artifact.task_id}/{artifact.name}"
        )
        contents = ground.files[artifact.task_id, artifact.name]
        alone = len(contents) == 1 and next(iter(contents)) in {artifact.name, root_layout.path_segment(artifact.name)}
        files |= {top if alone else f"{top}/{path}": sha256 for path, sha256 in contents.items()}
    return Shipment(board, plan_id, ground.repo, files)


async def _examine(prover: Prover | None, shipment: Shipment, policies: Policies) -> ShipmentReport:
    """Run the engine's own checks, for as long as the plan allows. A check that did not end has not passed."""
    policy = policies.release
    wanted = (
        {} if policy is None else {name: policy.gates[name] for name in _required(policies) if name in policy.gates}
    )
    checks = [(gate.check, gate.on or "artifacts") for gate in wanted.values() if gate.check is not None]
    if prover is None:
        return ShipmentReport(faults=(verdict_words.RELEASE["no_checks"](),) if checks else ())
    limit = _limit(policies)
    try:
        async with asyncio.timeout(limit.timeout_seconds if limit else None):
            return await prover.examine(shipment, checks)
    except TimeoutError:
        return ShipmentReport(faults=(verdict_words.RELEASE["late"](seconds=limit.timeout_seconds if limit else 0),))
    except AgentTalkError as error:
        return ShipmentReport(faults=(verdict_words.RELEASE["not_checked"](why=error.message),))


def _required(policies: Policies) -> tuple[str, ...]:
    return tuple(dict.fromkeys(policies.release_gates_required))


def _limit(policies: Policies) -> PhaseTimeout | None:
    return policies.timeouts.release_gate if policies.timeouts else None


def _own_findings(ground: _ReleaseBasis, examined: ShipmentReport) -> list[GateFinding]:
    """Return the results of the engine's own checks, about everything that is shipped."""
    subjects = frozenset(
        artifact.sha256 for artifact in ground.made if artifact.sha256 and artifact.state == "COMPLETED"
    )
    return [
        GateFinding(
            record["id"],
            "PASS" if record["passed"] else "REJECT",
            subjects,
            rules.ENGINE,
            wire.sha256(wire.write(record)),
            detail=next((read_text(record, name) for name in ("detail", "reason") if record.get(name)), ""),
            isolated=record.get("isolated"),
        )
        for record in examined.check_records
    ]


async def _read(deps: Deps, store: Store, ground: _ReleaseBasis) -> tuple[list[GateFinding], list[str]]:
    """Read the gate results that tasks delivered. Return them, and what cannot be read."""
    found: list[GateFinding] = []
    faults: list[str] = []
    blobs = await deps.stores.blobs(store.name)
    for document in ground.documents:
        try:
            data = await blobs.get(document.content) if document.content else b""
        except AgentTalkError as error:
            faults.append(verdict_words.RELEASE["gone"](output=document.output_name, by=document.by, why=error.message))
            continue
        result = rules.read_gate_result(
            document.output_name, data, by=document.by, fresh=document.fresh, agents=ground.agents
        )
        if isinstance(result, str):
            faults.append(result)
        else:
            found.append(result)
    return found, faults


def _decide(
    tx: Tx,
    deps: Deps,
    plan_id: str,
    ground: _ReleaseBasis,
    examined: ShipmentReport,
    found: Sequence[GateFinding],
    faults: Sequence[str],
) -> bool:
    """Write the decision, if the state it rests on has not changed. False when it has."""
    now = _read_basis(tx, plan_id)
    if now != ground or now.policies.release is None:
        return False
    at = deps.stamp()
    footing = ground.compute_hash(examined.commit)
    known = releases.read_latest(tx, plan_id)
    if known is None or known.state != "due":
        if known is not None and known.footing == footing and known.state != "revoked":
            return True
        releases.mark_due(tx, plan_id, ground.policies, at=at)
        known = releases.read_latest(tx, plan_id)
    if known is None:
        return False
    required = _required(ground.policies)
    decision = rules.decide(now.policies.release, required, ground.made, found, faults=faults)
    _write(tx, plan_id, known, ground, examined, decision, required, footing, at)
    return True


def _write(
    tx: Tx,
    plan_id: str,
    due: Release,
    ground: _ReleaseBasis,
    examined: ShipmentReport,
    decision: ReleaseDecision,
    required: Sequence[str],
    footing: str,
    at: str,
) -> None:
    when = records.format_time(at)
    manifest = with_messages(_manifest(plan_id, due.release_id, examined, decision, required, ground.unisolated, when))
    record = with_messages(_record(plan_id, due.release_id, manifest, decision, when))
    ReleaseManifest.from_json(manifest)
    DecisionRecord.from_json(record)
    about = {
        "release_id": due.release_id,
        "decision": decision.decision,
        "reasons": list(decision.reasons),
        "subject": record["subject"],
        "gates": [_gate(each) for each in decision.evidence] + [{"check": each} for each in examined.check_records],
        "checkpoint": checkpoints.decide(
            "pre-ship", checkpoints.check_shippable(decision.reasons), trace_id=f"{due.release_id}:pre-ship"
        ).as_json(),
    }
    told = with_messages(about)
    tx.run(
        DECIDE_RELEASE,
        plan_id=plan_id,
        number=due.number,
        state="approved" if decision.approved else "rejected",
        footing=footing,
        manifest=wire.write(manifest),
        told=wire.write(told),
        at=at,
    )
    tx.record("release.decided", plan_id, told | {"manifest": manifest})
    if not decision.approved:
        releases.revoke(tx, plan_id, verdict_words.RELEASE["rejected"](release=due.release_id), at=at)
    releases.publish_decision(tx, plan_id, due.release_id, manifest, record)
    if decision.approved:
        _archive(tx, plan_id, due.release_id, ground, decision)
    else:
        _warn(tx, plan_id, due.release_id, decision, at)


def _record(
    plan_id: str, release_id: str, manifest: Mapping[str, Any], decision: ReleaseDecision, when: str
) -> dict[str, object]:
    """Make the document of the decision."""
    return {
        "schema_version": "1.0",
        "plan_id": plan_id,
        "decision_id": release_id,
        "decision_type": "RELEASE",
        "decision": decision.decision,
        "decided_by_agent_id": rules.ENGINE,
        "decided_at": when,
        "subject": {"kind": "release", "ref_sha256": wire.sha256(wire.write(manifest["artifacts"]))},
        "evidence_files": [releases.MANIFEST],
        "reasons": list(decision.reasons),
        "not_isolated": manifest["not_isolated"],
    }


def _warn(tx: Tx, plan_id: str, release_id: str, decision: ReleaseDecision, at: str) -> None:
    records.alert(
        tx,
        at=at,
        plan_id=plan_id,
        code=Code.RELEASE_REJECTED,
        message=f"release {release_id} of plan {plan_id!r} is rejected: {'; '.join(decision.reasons)}"[:2000],
        key=release_id,
        details=with_messages({"reasons": decision.reasons}),
    )


def _gate(finding: GateFinding) -> GateRecord:
    return {
        "gate": finding.gate,
        "decision": finding.decision,
        "by": finding.by,
        "fresh": finding.fresh,
        "sha256": finding.ref,
        "subjects": sorted(finding.subjects),
        "detail": finding.detail,
        "isolated": finding.isolated,
    }


def _manifest(
    plan_id: str,
    release_id: str,
    examined: ShipmentReport,
    decision: ReleaseDecision,
    required: Sequence[str],
    unisolated: int,
    when: str,
) -> ManifestRecord:
    manifest: ManifestRecord = {
        "schema_version": "1.0",
        "plan_id": plan_id,
        "release_id": release_id,
        "artifacts": [
            {
                "name": part.name,
                "sha256": part.sha256,
                "task_id": part.task_id,
                "producer_agent_id": part.producer,
                "promise_id": part.promise_id,
                "isolated": part.isolated,
            }
            for part in decision.shipped
        ],
        "not_isolated": unisolated,
        "evidence_required": list(required),
        "evidence_refs": [{"name": part.gate, "sha256": part.ref} for part in decision.evidence],
        "decision": decision.decision,
        "reasons": list(decision.reasons),
        "decided_at": when,
    }
    if examined.commit:
        manifest["commit"] = examined.commit
    return manifest


def _archive(tx: Tx, plan_id: str, release_id: str, ground: _ReleaseBasis, decision: ReleaseDecision) -> None:
    """Archive what is shipped. The store's contents are compared with their hashes on the way."""
    for artifact in decision.shipped:
        name = root_layout.path_segment(artifact.name)
        folder = f"{releases.archive_folder_of(plan_id, release_id)}/{artifact.task_id}/{name}"
        for path, sha256 in ground.files[artifact.task_id, artifact.name].items():
            records.publish_file(tx, f"{folder}/{path}", None, content=sha256)
