"""The end of a turn for a foreign plan: what follows is decided by the one rule and written in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import parse_instant, write_time
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.contracts.errors import Code, ConflictError, ContractError, InputError, MissingError
from agenttalk.engine.agents.outputs import _SHOWN
from agenttalk.engine.core import outbox_writer, records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.inbox.ready_commands import build_question, hand_request_over
from agenttalk.engine.messages import plan_journal
from agenttalk.engine.people import questions
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.runs.command_leases import ClaimedCommand
from agenttalk.engine.runs.conclusion import end_turn
from agenttalk.ports.statements.inbox import DELIVERY_STATE, FINISH_DELIVERY, STOP_WAITING
from agenttalk.ports.storage import Tx
from agenttalk.rules.agents import results
from agenttalk.rules.agents.results import AgentResult, TurnFault
from agenttalk.rules.core.task_states import State
from agenttalk.rules.messages.control_files import kind_of
from agenttalk.rules.proof import turn_outcome
from agenttalk.rules.proof.performance import OutputContent, Performance
from agenttalk.rules.proof.turn_outcome import TaskHistory, TurnOutcome
from agenttalk.rules.text import question_words
from agenttalk.rules.text.catalogue import with_messages
from agenttalk.rules.text.message import cut_head, join

_DROPPED: Final = TurnOutcome("SUPERSEDED", again=True)
"""The outcome of a turn whose command was replaced meanwhile: its task is free for the newer one."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """An artifact ready to be handed over: its files first, then its envelope."""

    message_id: str
    name: str
    envelope: bytes
    files: tuple[tuple[str, OutputContent], ...]
    """Path in the outbox, and the file."""


def build_artifacts(
    seat: AgentInPlan,
    order: ClaimedCommand,
    performance: Performance,
    at: str,
    apart: frozenset[str] = frozenset(),
) -> list[Artifact]:
    """Build the artifacts of a turn. Their ids follow from the command, so the same end never makes two.

    A file travels under the name that it has. Those of outputs that have to lie `apart` travel in a folder named like
    their message. Raises ContractError for a name that no document can hold.
    """
    made = []
    for output_name in dict.fromkeys(each.output_name for each in performance.outputs):
        message_id = records.derive_id("msg", f"{seat.plan_id}/{order.message_id}/{output_name}")
        folder = f"{message_id}/" if output_name in apart else ""
        own = [(f"{folder}{each.path}", each) for each in performance.outputs if each.output_name == output_name]
        document: dict[str, object] = {
            "schema_version": "1.0",
            "message_id": message_id,
            "plan_id": seat.plan_id,
            "producer_agent_id": seat.agent_id,
            "type": "artifact",
            "created_at": write_time(parse_instant(at)),
            "task_id": order.task_id,
            "command_id": order.command.command_id,
            "output_name": output_name,
            "idempotency_key": f"{order.command.command_id}/{output_name}",
            "payload": {
                "files": [{"path": path, "sha256": each.sha256, "size_bytes": each.size} for path, each in own]
            },
        }
        if performance.score is not None:
            document["score"] = {"value": performance.score, "explanation": performance.explanation}
        if order.command.reexecute is not None:
            document["reexecution"] = {
                "count": order.command.reexecute.attempt,
                "command_id": order.command.command_id,
            }
        envelope = ArtifactEnvelope.from_json(document).to_bytes() + b"\n"
        name = root_layout.artifact_name(order.task_id, output_name, message_id)
        made.append(Artifact(message_id, name, envelope, tuple(own)))
    return made


def _apart(seat: AgentInPlan, files: Sequence[OutputContent]) -> frozenset[str]:
    """Find outputs whose files cannot lie in the outbox under their own names.

    A name can be that of a control file, or of a file of another output. Or another file of that name lies there which
    no router has brought anywhere yet.
    """
    found: set[str] = set()
    holders: dict[str, str] = {}
    for each in files:
        shared = holders.setdefault(each.path, each.output_name) != each.output_name
        reserved = "/" not in each.path and kind_of(each.path, seat.plan_id) is not None
        if shared or reserved or _is_held(seat, each):
            found.add(each.output_name)
    return frozenset(found)


def _is_held(seat: AgentInPlan, file: OutputContent) -> bool:
    path = f"{seat.outbox}/{file.path}"
    try:
        lying = seat.root.digest(path, seat.deps.limits.payload_bytes).sha256
    except MissingError:
        return False
    except InputError:
        return True
    return lying != file.sha256 and not plan_journal.has_mention(seat.root, seat.plan_id, lying)


async def conclude(
    seat: AgentInPlan, order: ClaimedCommand, granted: LeasedAttempt, performance: Performance
) -> State | None:
    """Write the end of a turn, with everything that follows, in one commit.

    Returns the state of the task, or None if the command was replaced meanwhile. Raises LEASE_LOST.
    """
    at = seat.deps.stamp()
    if performance.ended_badly == "failed":  # no check of a foreign plan is run that could show otherwise
        performance = replace(performance, how="crashed", error=performance.remark, remark="")
    made: list[Artifact] = []
    if performance.how == "finished" and performance.code is None:
        try:
            apart = await asyncio.to_thread(_apart, seat, performance.outputs)
            made = build_artifacts(seat, order, performance, at, apart)
        except ContractError as error:
            performance = replace(performance, code=error.code, error=error.message)
    history = TaskHistory(retries=granted.retries, retry_times=order.command.retry_times, sent_back=granted.sent_back)
    outcome = turn_outcome.decide_foreign_turn(
        performance, history, task_id=order.task_id, agent_id=seat.agent_id, at=at
    )
    fault = None if outcome.state == "COMPLETED" else _build_fault(performance, outcome)
    large = await _keep_large(seat, performance) if fault is None else None
    fact = _fact_to_json(granted, performance, fault, large)
    return await seat.store.transact(
        lambda tx: _conclude(tx, seat, order, granted, performance, outcome, fault, made, fact, at)
    )


def _build_fault(performance: Performance, outcome: TurnOutcome) -> TurnFault:
    """Build the reason why a turn is not done, for receipts and alerts."""
    known = Code.AGENT_UNFIT if performance.how == "unfit" else Code.COMMAND_FAILED
    why = performance.error or outcome.reason or ""
    message = join([why, performance.remark]) if performance.remark else why
    return TurnFault(Code(performance.code) if performance.code else known, message)


async def _keep_large(seat: AgentInPlan, performance: Performance) -> str | None:
    """Keep a result that is too large for the ledger, and return its hash."""
    data = wire.write(performance.result)
    return await seat.blobs.put(data) if len(data) > _SHOWN else None


def _conclude(
    tx: Tx,
    seat: AgentInPlan,
    order: ClaimedCommand,
    granted: LeasedAttempt,
    performance: Performance,
    outcome: TurnOutcome,
    fault: TurnFault | None,
    made: list[Artifact],
    fact: Mapping[str, object],
    at: str,
) -> State | None:
    [(delivery_state, _)] = tx.run(DELIVERY_STATE, id=order.delivery)
    replaced = delivery_state != "claimed"
    outcome = _DROPPED if replaced else outcome
    subject = records.build_turn_subject(seat.plan_id, order.message_id)
    body = {**fact, "cause": outcome.cause, "state": outcome.state}
    seq = tx.record("turn.dropped" if replaced else "turn.ended", subject, body)
    end_turn(tx, at, granted, performance, outcome, fact=seq, in_queue=False)
    if replaced:
        return None
    outbox_writer.report_state(
        tx, seat, order.task_id, outcome.state, at=at, message_id=order.message_id, command_id=order.command.command_id
    )
    if outcome.again:
        return outcome.state
    tx.run(STOP_WAITING, plan_id=seat.plan_id, task_id=order.task_id)
    _finish(tx, seat, order, fault, at)
    for artifact in made if fault is None else ():
        for path, file in artifact.files:
            if file.data is not None:
                records.store_content(tx, file.data)
            outbox_writer.queue_content(tx, seat, path, file.sha256, artifact.message_id)
        outbox_writer.queue_content(
            tx, seat, artifact.name, records.store_content(tx, artifact.envelope), artifact.message_id
        )
    return outcome.state


def _fact_to_json(
    granted: LeasedAttempt, performance: Performance, fault: TurnFault | None, large: str | None
) -> dict[str, object]:
    job = granted.job
    used = {name: value for name, value in performance.usage.items() if name != "exit_code"}
    result = fault or AgentResult(performance.result, performance.score, performance.explanation)
    body: dict[str, object] = {
        "lease": job.lease,
        "epoch": job.epoch,
        "attempt": job.attempt,
        "command_id": job.command.command_id,
        "how": performance.how,
        "exit_code": performance.usage.get("exit_code"),
        "usage": {"duration_s": round(performance.seconds, 3), **used},
        "notice": results.fill_notice(job.command, result),
    }
    if performance.sandbox:
        body["sandbox"] = performance.sandbox
    if fault is not None:
        return {**body, "code": str(fault.code), **with_messages({"error": fault.message})}
    shown = {"result_sha256": large} if large else {"result": performance.result}
    return {**body, **shown, "score": performance.score, "score_explanation": performance.explanation}


def _finish(tx: Tx, seat: AgentInPlan, order: ClaimedCommand, fault: TurnFault | None, at: str) -> None:
    """Write the final receipt. A delivery ends once."""
    details = f"{fault.code}: {fault.message}".replace("\0", "\ufffd") if fault else None
    ack = "FAILED" if fault else "SUCCEEDED"
    ended = tx.run(
        FINISH_DELIVERY, id=order.delivery, state="processed", ack=ack, at=at, details=details, acted=int(not fault)
    )
    if not ended:
        raise ConflictError(Code.LEASE_LOST, f"the command {order.command.command_id!r} ended meanwhile")
    result = {"ok": fault is None, "details": details}
    outbox_writer.acknowledge(
        tx, seat, order.subject, ack, consumed_at=order.consumed_at, finished_at=at, result=result
    )
    if fault:
        records.alert(
            tx,
            at=at,
            plan_id=seat.plan_id,
            code=fault.code,
            message=f"task {order.task_id!r} failed: {fault.message}",
            key=order.message_id,
            source=records.RecordSource(seat.agent_id, order.task_id, order.command.command_id),
        )
    if fault and fault.code is Code.AGENT_UNFIT:
        _ask_who(tx, seat, order, fault.message, at)


def _ask_who(tx: Tx, seat: AgentInPlan, order: ClaimedCommand, why: str, at: str) -> None:
    """Ask a person which agent shall carry out a command that its agent returned."""
    request_id = records.derive_id("req", f"{seat.plan_id}/{order.message_id}/unfit")
    question = question_words.WHO_SHALL(why=why)
    needed = {"decision": {"question": cut_head(question, 2000)}}
    title = question_words.NOT_FIT(agent=seat.agent_id, task=order.task_id)
    request = build_question(seat, order, request_id, at, type="DECISION", title=title, blocking=False, needed=needed)
    if questions.ask(tx, request, plan_id=seat.plan_id, at=at):
        hand_request_over(tx, seat, request)
