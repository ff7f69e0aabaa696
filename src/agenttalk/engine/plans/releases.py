"""Releases in the store: one that is due, what was decided, and an approval that is taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core import records
from agenttalk.engine.core.boards import board_of
from agenttalk.ports.statements.proof import ADD_RELEASE, APPROVED_RELEASE, LATEST_RELEASE, REVOKE_RELEASE, ReleaseRow
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import restore_messages, with_messages

if TYPE_CHECKING:
    from agenttalk.contracts.plan import Policies
    from agenttalk.engine.core.deps import Deps
    from agenttalk.ports.storage import Snapshot, Store, Tx

MANIFEST: Final = "release_manifest.json"
RECORD: Final = "decision_record.json"


class ShippedOutput(TypedDict):
    """An artifact that a release ships."""

    name: str
    sha256: str
    task_id: str
    producer_agent_id: str
    promise_id: str | None
    isolated: bool | None


class GateRecord(TypedDict):
    """The finding of one gate; of a check only its result, under `check`."""

    gate: NotRequired[str]
    decision: NotRequired[str]
    by: NotRequired[str]
    fresh: NotRequired[bool]
    sha256: NotRequired[str]
    subjects: NotRequired[list[str]]
    detail: NotRequired[str]
    isolated: NotRequired[bool | None]
    check: NotRequired[Mapping[str, object]]


class CheckpointRecord(TypedDict):
    """The decision of a checkpoint, as the ledger has it."""

    checkpoint: str
    allowed: bool
    severity: str
    reasons: list[str]
    trace_id: str


class ManifestRecord(TypedDict, total=False):
    """The manifest of a release."""

    schema_version: str
    plan_id: str
    release_id: str
    artifacts: list[ShippedOutput]
    commit: str
    not_isolated: int
    evidence_required: list[str]
    evidence_refs: list[dict[str, str]]
    decision: str
    reasons: list[str]
    decided_at: str


class ReleaseDetails(TypedDict, total=False):
    """The gates of a release, the reasons, and who decided."""

    release_id: str
    decision: str
    reasons: list[str]
    subject: dict[str, str]
    gates: list[GateRecord]
    checkpoint: CheckpointRecord


class ReleaseView(TypedDict):
    """The last release of a plan."""

    release_id: str
    state: str
    decision: str | None
    reasons: list[str]
    artifacts: list[ShippedOutput]
    commit: str | None
    not_isolated: int
    gates: list[GateRecord]
    checkpoint: CheckpointRecord | None
    at: str


@dataclass(frozen=True, slots=True)
class Release:
    """The last release of a plan."""

    number: int
    release_id: str
    state: str
    footing: str
    manifest: ManifestRecord
    """Empty until it is decided, like the details."""
    details: ReleaseDetails
    at: str

    def as_json(self) -> ReleaseView:
        """Return what people and programs see of it."""
        manifest, told = self.manifest, self.details
        return {
            "release_id": self.release_id,
            "state": self.state,
            "decision": manifest.get("decision"),
            "reasons": manifest.get("reasons", []),
            "artifacts": manifest.get("artifacts", []),
            "commit": manifest.get("commit"),
            "not_isolated": manifest.get("not_isolated", 0),
            "gates": told.get("gates", []),
            "checkpoint": told.get("checkpoint"),
            "at": self.at,
        }


def _from_row(row: ReleaseRow) -> Release:
    documents: list[Any] = [
        restore_messages(wire.read(bytes(each))) if each is not None else {} for each in (row.manifest, row.told)
    ]
    return Release(row.number, row.release_id, row.state, row.footing, documents[0], documents[1], row.at)


def read_latest(tx: Snapshot, plan_id: str) -> Release | None:
    """Return the last release of a plan."""
    rows = tx.run(LATEST_RELEASE, plan_id=plan_id)
    return _from_row(rows[0]) if rows else None


async def read_latest_committed(store: Store, plan_id: str) -> Release | None:
    """Return the last release of a plan, as it is committed."""
    rows = await store.read(LATEST_RELEASE, plan_id=plan_id)
    return _from_row(rows[0]) if rows else None


async def require_release(deps: Deps, plan_id: str) -> Release:
    """Return the last release of a plan. Raises UsageError when it has none."""
    known = await read_latest_committed(await board_of(deps, plan_id), plan_id)
    if known is None:
        hint = "it is decided when all tasks have ended, if the plan says what it ships"
        raise UsageError(Code.NAME_UNKNOWN, f"plan {plan_id!r} has no release", hint=hint)
    return known


def mark_due(tx: Tx, plan_id: str, policies: Policies, *, at: str) -> bool:
    """Have the release of a plan decided that has ended, if the plan ships anything. Calling it twice is harmless."""
    if policies.release is None:
        return False
    known = read_latest(tx, plan_id)
    if known is None or known.state != "due":
        number = known.number + 1 if known else 1
        release_id = records.derive_id("rel", f"{plan_id}/{number}")
        tx.run(ADD_RELEASE, plan_id=plan_id, number=number, release_id=release_id, at=at)
    return True


def archive_folder_of(plan_id: str, release_id: str) -> str:
    """Return where the released files are archived."""
    return f"artifacts/{plan_id}/{release_id}"


def publish_decision(
    tx: Tx, plan_id: str, release_id: str, manifest: ManifestRecord, record: Mapping[str, Any]
) -> None:
    """Publish a decision: the last one in the plan's folder, each one in the archive."""
    for place in (f"plans/{plan_id}", archive_folder_of(plan_id, release_id)):
        records.publish_file(tx, f"{place}/{MANIFEST}", manifest)
    records.publish_file(tx, f"{archive_folder_of(plan_id, release_id)}/{RECORD}", record)
    records.publish_file(tx, f"plans/{plan_id}/decided/{record['decision_id']}.json", record)


def revoke(tx: Tx, plan_id: str, why: str, *, at: str) -> bool:
    """Take an approval back, because what it rests on no longer holds. False when there is none."""
    rows = tx.run(APPROVED_RELEASE, plan_id=plan_id)
    if not rows:
        return False
    known = _from_row(rows[0])
    reason = verdict_words.RELEASE["revoked"](why=why)
    manifest = with_messages(
        {**known.manifest, "decision": "REJECT", "reasons": [reason], "revoked_at": records.format_time(at)}
    )
    tx.run(REVOKE_RELEASE, plan_id=plan_id, number=known.number, manifest=wire.write(manifest))
    record = {
        "schema_version": "1.0",
        "plan_id": plan_id,
        "decision_id": f"{known.release_id}-revoked",
        "decision_type": "RELEASE",
        "decision": "REJECT",
        "decided_by_agent_id": "engine",
        "decided_at": records.format_time(at),
        "subject": known.details["subject"],
        "evidence_files": [MANIFEST],
        "reasons": [reason],
        "not_isolated": manifest.get("not_isolated", 0),
    }
    publish_decision(tx, plan_id, known.release_id, manifest, with_messages(record))
    tx.record("release.revoked", plan_id, with_messages({"release_id": known.release_id, "why": why}))
    records.alert(
        tx,
        at=at,
        plan_id=plan_id,
        code=Code.RELEASE_REVOKED,
        message=f"release {known.release_id} is revoked: {why}",
        key=known.release_id,
        severity="CRITICAL",
    )
    return True
