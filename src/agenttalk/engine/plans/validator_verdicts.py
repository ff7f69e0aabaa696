"""Verdicts of validators: each accepts or refuses an artifact by its hash, and decides whether it is archived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.contracts.errors import AgentTalkError
from agenttalk.contracts.promise import ArtifactCheck
from agenttalk.contracts.validation import ArtifactValidationResult
from agenttalk.engine.core import records
from agenttalk.engine.plans.definition import PlanDefinition, read_definition
from agenttalk.ports.agents import Job
from agenttalk.ports.statements.core import GET_BLOB
from agenttalk.ports.statements.plans import RUN
from agenttalk.ports.statements.proof import ARTIFACTS_NAMED, JUDGEMENTS_OF, PUT_JUDGEMENT, NamedArtifactRow
from agenttalk.ports.storage import Blobs, Store, Tx, Value
from agenttalk.rules.checks.check_results import StoredOutput
from agenttalk.rules.core.artifacts import hash_files
from agenttalk.rules.messages.inbox_inputs import map_input_paths
from agenttalk.rules.proof.rework import Judgement


def files_of(envelope: bytes) -> dict[str, str]:
    """Map the files of an artifact to their hashes, without the sender's folder for it."""
    artifact = ArtifactEnvelope.model_validate_json(envelope)
    return {file.path.partition("/")[2] or file.path: file.sha256 for file in artifact.payload.files}


def folder_of(plan_id: str, task_id: str, output_name: str) -> str:
    """Return where an artifact is archived."""
    return f"artifacts/{plan_id}/{task_id}/{root_layout.path_segment(output_name)}"


def needs_acceptance(plan: PlanDefinition, task_id: str, output_name: str) -> bool:
    """Whether an artifact is archived only once a validator or a person has accepted it."""
    release = plan.policies.release
    return (
        release is not None
        and bool(release.accepted_by)
        and any(each.name == output_name and each.from_task_id == task_id for each in release.deliverables)
    )


def needs_acceptance_in_plan(tx: Tx, plan_id: str, task_id: str, output_name: str) -> bool:
    """Whether an artifact that came through a folder needs that, too."""
    rows = tx.run(RUN, plan_id=plan_id)
    return bool(rows) and needs_acceptance(read_definition(plan_id, rows[0]), task_id, output_name)


@dataclass(frozen=True, slots=True)
class Validator:
    """A validator, and the task in which it judges."""

    plan_id: str
    task_id: str
    agent_id: str


def record_results(tx: Tx, validator: Validator, contents: Iterable[str], *, at: str) -> None:
    """Record the results that a validator delivered: accept and archive what each one names, or refuse it."""
    for content in contents:
        why = _counted(tx, validator, content, at)
        body = {"validator": validator.agent_id, "result_sha256": content, "counts": why is None, "why": why}
        tx.record("artifact.validated", f"{validator.plan_id}/{validator.task_id}", body)


def _counted(tx: Tx, by: Validator, content: str, at: str) -> str | None:
    """Record a result that counts. Return why it does not count, if it does not."""
    rows = tx.run(GET_BLOB, hash=content)
    if not rows or rows[0].content is None:
        return "it is too large to be read"
    try:
        result = ArtifactValidationResult.from_bytes(bytes(rows[0].content))
    except AgentTalkError as error:
        return error.message
    subject = result.subject
    if result.validator_agent_id != by.agent_id:
        return f"it speaks for {result.validator_agent_id}"
    versions = tx.run(ARTIFACTS_NAMED, plan_id=by.plan_id, output_name=subject.artifact_name)
    found = _artifact(versions, subject.task_id)
    if found is None or hash_files(found[1]) != subject.artifact_sha256:
        return "there is no such artifact, or it is another one by now"
    if found[0] == by.agent_id:
        return f"{by.agent_id} made it and cannot judge it"
    accepted = result.decision == "PASS"
    _put_judgement(tx, by, subject.artifact_sha256, subject.task_id, subject.artifact_name, accepted=accepted, at=at)
    folder = folder_of(by.plan_id, subject.task_id, subject.artifact_name)
    for path, sha256 in found[1].items():
        records.publish_file(tx, f"{folder}/{path}", None, content=sha256 if accepted else None)
    return None


def _artifact(rows: Iterable[NamedArtifactRow], task_id: str) -> tuple[str, dict[str, str]] | None:
    """Return the maker and the files of the newest version of a task's output."""
    newest = next((row for row in rows if row.task_id == task_id), None)
    return (newest.producer, files_of(bytes(newest.envelope))) if newest else None


def record_input_judgements(tx: Tx, job: Job, judgements: Mapping[str, Judgement], *, model: str, at: str) -> None:
    """Record what a consumer's model judged of its inputs before it used them. Its own work it cannot judge."""
    by = Validator(job.plan_id, job.task_id, job.agent_id)
    for each in job.command.resolved_inputs or ():
        judgement = judgements.get(each.input_name)
        if judgement is None or judgement.unusable or each.input_name in job.own_inputs:
            continue  # a person has judged it already
        hashes = {file.path: file.sha256 for file in job.inputs if file.input_name == each.input_name}
        artifacts: dict[tuple[str, str], dict[str, str]] = {}
        lies = map_input_paths(each.paths)
        for path in each.paths:
            task_id, output, inside = path.split("/", 2)
            sha256 = hashes.get(lies[path])
            if sha256 is not None:
                artifacts.setdefault((task_id, output), {})[inside] = sha256
        for (task_id, output), files in artifacts.items():
            _put_judgement(tx, by, hash_files(files), task_id, output, accepted=judgement.accepted, at=at, model=model)


def _put_judgement(
    tx: Tx, by: Validator, sha256: str, task_id: str, output_name: str, *, accepted: bool, at: str, model: str = ""
) -> None:
    about: dict[str, Value] = {"plan_id": by.plan_id, "sha256": sha256, "task_id": task_id, "output_name": output_name}
    tx.run(PUT_JUDGEMENT, **about, validator=by.agent_id, accepted=int(accepted), at=at, model=model)


def list_other_outputs(job: Job) -> list[str]:
    """List the outputs of other tasks that a job's promise has to see."""
    promise = job.command.promise
    checks = promise.checks if promise else ()
    return [each.output for each in checks if isinstance(each, ArtifactCheck) and each.output not in job.outputs]


async def read_stored_outputs(
    store: Store, blobs: Blobs, plan_id: str, names: Iterable[str]
) -> dict[str, StoredOutput]:
    """Return outputs as they are stored, and who has accepted them."""
    found = {}
    for name in names:
        rows = await store.read(ARTIFACTS_NAMED, plan_id=plan_id, output_name=name)
        if not rows:
            continue
        newest = rows[0]
        files = files_of(bytes(newest.envelope))
        sha256 = hash_files(files)
        whole = all([await blobs.exists(each) for each in files.values()])
        said = await store.read(JUDGEMENTS_OF, plan_id=plan_id, sha256=sha256)
        accepted = {validator: sha256 for validator, accepts, _ in said if accepts}
        found[name] = StoredOutput(newest.producer, sha256, sha256 if whole else "", accepted)
    return found
