"""Collects control files: checks and archives them, and applies what they report about messages and tasks."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, Literal

from agenttalk.contracts.command import ReexecuteRequest, make_command_id
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import Document, format_instant
from agenttalk.contracts.core.vocabulary import TaskState
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.human import CheckDispute, HumanInterventionRequest, HumanInterventionResponse
from agenttalk.contracts.mail import Mail
from agenttalk.contracts.record import Ack, Alert, TaskStateReport
from agenttalk.contracts.validation import ArtifactValidationResult
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.mail import letters
from agenttalk.engine.messages import admission, form_notices, incoming_file, outbox_reader, refusals
from agenttalk.engine.messages.incoming_file import IncomingFile
from agenttalk.engine.messages.outbox_reader import OutboxFile
from agenttalk.engine.messages.plan_registry import RoutedPlan
from agenttalk.engine.people import questions
from agenttalk.engine.proof import disputes
from agenttalk.ports.statements.messages import (
    ACKNOWLEDGE,
    CONTROL,
    DELIVERY_OF,
    FREE_PAYLOADS,
    PUT_CONTROL,
    SET_PROGRESS,
    SET_TASK_STATE,
    TASK,
    VIEW_BODY,
)
from agenttalk.ports.statements.plans import LAST_SEQ
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages import control_files, routes
from agenttalk.rules.messages.control_files import ControlFile, Step
from agenttalk.rules.messages.routes import Rejection
from agenttalk.rules.proof import turn_outcome
from agenttalk.rules.proof.performance import Performance

LOG = logging.getLogger(__name__)
CollectOutcome = Literal["new", "same", "dead"]
"""Whether a file says something new, was here before, or is refused."""
_LIMIT: Final = wire.ENVELOPE_LIMIT
_TIMEOUT: Final = 3600
"""The default time limit of a re-execution in seconds."""
_ENDED: Final = frozenset({"COMPLETED", "FAILED", "SKIPPED"})


def read_control_file(deps: Deps, file: OutboxFile) -> tuple[bytes, ControlFile | Rejection] | None:
    """Read a control file; None when it vanished. Raises MachineError."""
    data = outbox_reader.read_outbox_file(deps.root, file, _LIMIT)
    if data is None:
        return None
    if isinstance(data, InputError):
        return b"", Rejection(data.code, data.message)
    if withheld := incoming_file.check_secrets(deps, data):
        return deps.secret_guard.secrets.redact_bytes(data), withheld
    try:
        return data, control_files.read(file.control or "", data, owner=file.agent_id, plan_id=file.plan_id)
    except Exception:
        LOG.exception("a control file could not be read", extra={"action": "router.collect"})
        return data, incoming_file.INTERNAL_FAULT


def collect_control_file(
    tx: Tx,
    file: OutboxFile,
    data: bytes | str | None,
    control: ControlFile | Rejection,
    plan: RoutedPlan,
    deps: Deps,
    at: str,
    *,
    believed: bool = False,
) -> CollectOutcome:
    """Archive a control file and take over what it says. What is `believed` may also say that a task is done.

    Of one that could not be read, `data` is the hash of what was kept, if anything was.
    """
    step: Step | Rejection
    if isinstance(control, Rejection):
        step = control
    elif isinstance(control.document, Mail):
        step = letters.accept_letter_file(tx, deps, control.document) or "new"
    else:
        step = _archive(tx, file, data if isinstance(data, bytes) else b"", control, plan, deps, at)
    if isinstance(step, Rejection):
        _bury(tx, file, data, step, at)
        return "dead"
    if (
        believed
        and not isinstance(control, Rejection)
        and isinstance(control.document, TaskStateReport)
        and step != "same"
    ):
        _believe(tx, control.document, control.owner, plan, at)
    if not stays_in_outbox(file.control):
        admission.schedule_removal(tx, file, root_layout.SENT)
    return "same" if step == "same" else "new"


def stays_in_outbox(kind: str | None) -> bool:
    """Whether a file is left where its agent put it: the agent itself, and other parties, look for it there."""
    return kind in {"ack", "task_state"}


def _archive(
    tx: Tx, file: OutboxFile, data: bytes, control: ControlFile, plan: RoutedPlan, deps: Deps, at: str
) -> Step | Rejection:
    about = {"plan_id": file.plan_id, "kind": control.kind, "id": control.id}
    rows = tx.run(CONTROL, **about)
    earlier = type(control.document).from_bytes(bytes(rows[0].body)) if rows else None
    step = control_files.advance(control, earlier, rows[0].sha256 if rows else "", deps.now())
    if step == "same":
        return step
    refusal = step if isinstance(step, Rejection) else _take_over(tx, file, control, plan, deps, at)
    if not refusal:
        body = control.document.to_bytes() if control.repairs else data
        tx.run(PUT_CONTROL, **about, agent_id=control.owner, sha256=control.sha256, body=body, at=at)
        form_notices.note_repairs(tx, file.plan_id, file.agent_id, control.kind, control.repairs, at=at)
    return refusal or step


def _take_over(
    tx: Tx, file: OutboxFile, control: ControlFile, plan: RoutedPlan, deps: Deps, at: str
) -> Rejection | None:
    tx.record(f"control.{control.kind}", control.id, {"agent_id": control.owner, "sha256": control.sha256})
    match control.document:
        case Ack() as ack:
            acknowledge(tx, ack, plan_id=plan.plan_id, foreign=plan.origin == "foreign", at=at)
            if _is_recalled(tx, ack, plan.plan_id):
                return None  # that it failed is shown already, and stays
        case TaskStateReport() as report:
            _report(tx, report, control.owner, plan, at)
        case HumanInterventionRequest() | CheckDispute() as asked:
            if refused := _ask_person(tx, asked, file.plan_id, deps, at):
                return refused
        case HumanInterventionResponse() if not deps.answers_by_file:
            return Rejection(Code.PERSON_NEEDED, "nothing shows that a person wrote it; people.answers_by_file is off")
        case HumanInterventionResponse() as response:
            agents = plan.facts.agents if plan.facts else None
            return questions.answer_by_file(tx, response, plan_id=file.plan_id, at=at, agents=agents)
    if refused := _handle_refusal(tx, file, control.document, plan, deps, at):
        return refused
    folder = (
        f"plans/{file.plan_id}/{control_files.FOLDERS[control.kind]}" if control.kind in control_files.FOLDERS else ""
    )
    path = f"{folder or f'alerts/{file.plan_id}'}/{control.archive_name}"
    if _is_of_another(tx, path, control, plan):
        path = f"{path.removesuffix('.json')}__{control.owner}.json"
    records.publish_file(tx, path, control.document.as_json())
    return None


def _ask_person(
    tx: Tx, asked: HumanInterventionRequest | CheckDispute, plan_id: str, deps: Deps, at: str
) -> Rejection | None:
    """Put what an agent asks to a person."""
    if isinstance(asked, CheckDispute):
        return disputes.accept_dispute_file(tx, deps, asked, plan_id=plan_id, at=at)
    if not questions.ask(tx, asked, plan_id=plan_id, at=at) and not questions.is_asked(tx, asked, plan_id=plan_id):
        why = f"request {asked.request_id!r} was asked before, otherwise or in another plan: ask under another id"
        return Rejection(Code.CONTROL_CHANGED, why)
    return None


def _handle_refusal(
    tx: Tx, file: OutboxFile, document: Document, plan: RoutedPlan, deps: Deps, at: str
) -> Rejection | None:
    """Handle a consumer's refusal of an input. An acceptance is only archived."""
    if isinstance(document, ReexecuteRequest):
        if plan.origin != "engine":
            return _order(tx, file, document, plan, deps, at)
        return refusals.accept_refusal(tx, plan, file.agent_id, refusals.reexecution_from_request(document), at=at)
    if not isinstance(document, ArtifactValidationResult) or plan.origin != "engine" or document.decision != "REJECT":
        return None
    about = document.subject.artifact_sha256
    return refusals.accept_refusal(
        tx, plan, file.agent_id, refusals.reexecution_from_result(document), at=at, sha256=about
    )


def _order(
    tx: Tx, file: OutboxFile, request: ReexecuteRequest, plan: RoutedPlan, deps: Deps, at: str
) -> Rejection | None:
    """Make a refusal the next command of the task, in a plan without an engine. It is routed like any other."""
    reexecution, task_id = (
        refusals.reexecution_from_request(request.model_copy(update={"prompt": None})),
        request.original_task_id,
    )
    node = plan.facts.nodes.get(task_id) if plan.facts else None
    if plan.facts is None or node is None:
        return Rejection(Code.TASK_NOT_IN_DAG, f"the plan's DAG has no task {task_id!r}")
    if refused := routes.reject_reexecution(file.agent_id, node, node.assigned_agent_id, reexecution, plan.facts):
        return refused
    seq = tx.run(LAST_SEQ, plan_id=plan.plan_id, task_id=task_id)[0].seq + 1
    about = {"plan_id": plan.plan_id, "task_id": task_id, "command_id": make_command_id(task_id, seq)}
    command = {
        "schema_version": "1.0",
        **about,
        "command_seq": seq,
        "dag_ref": {"sha256": plan.dag_sha256},
        "prompt": request.prompt or f"Make it again: {reexecution.validation_result.reason}",
        "required_inputs": [],
        "wait_for_inputs": False,
        "score_required": False,
        "timeout": _TIMEOUT,
        "reexecute": reexecution.as_json() | {"attempt": max(seq - 1, 1)},
    }
    envelope = {
        "schema_version": "1.0",
        "message_id": records.derive_id("msg", file.key),
        "producer_agent_id": file.agent_id,
        "type": "command",
        "created_at": records.format_time(at),
        **about,
        "payload": {"command": command},
    }
    data = wire.write(envelope)
    parcel = routes.unpack(data, owner=file.agent_id, plan_id=file.plan_id)
    if isinstance(parcel, Rejection):
        return parcel
    name = f"cmd_reexecute_{task_id}_{seq:03d}{root_layout.MESSAGE}"
    arrival = IncomingFile(replace(file, entry=file.entry._replace(name=name, inode=0), control=None), data, parcel)
    verdict = admission.judge_message(tx, arrival, plan)
    if isinstance(verdict, Rejection):
        return verdict
    admission.admit_message(tx, arrival, plan, deps, at)
    return None


def _is_of_another(tx: Tx, path: str, control: ControlFile, plan: RoutedPlan) -> bool:
    """Whether that name is not this agent's alone, and so has to tell whose file it is.

    Another receiver has its receipt of the same message there. The task is another's. An alert could have the
    name of one of ours.
    """
    match control.document:
        case Ack():
            shown = tx.run(VIEW_BODY, path=path)
            return bool(shown) and Ack.from_bytes(shown[0].body or b"").consumer_agent_id != control.owner
        case TaskStateReport() as report:
            rows = tx.run(TASK, plan_id=plan.plan_id, task_id=report.task_id)
            return not rows or rows[0].agent_id != control.owner
    return isinstance(control.document, (Alert, CheckDispute, ReexecuteRequest))


def _is_recalled(tx: Tx, ack: Ack, plan_id: str) -> bool:
    """Whether a newer command took the place of one that its agent had claimed."""
    rows = tx.run(DELIVERY_OF, plan_id=plan_id, message_id=ack.message_id, receiver=ack.consumer_agent_id)
    return any(row.state == "superseded" and row.ack == "FAILED" for row in rows)


def acknowledge(tx: Tx, ack: Ack, *, plan_id: str, foreign: bool, at: str) -> None:
    """Apply what a receipt reports about its message. A receipt of our own heartbeat reports nothing new."""
    rows = tx.run(DELIVERY_OF, plan_id=plan_id, message_id=ack.message_id, receiver=ack.consumer_agent_id)
    if not rows:
        return
    delivery = rows[0]
    if delivery.state in {"superseded", "dead"} or delivery.ack in {ack.status, "SUCCEEDED", "FAILED"}:
        return
    tasks = tx.run(TASK, plan_id=plan_id, task_id=delivery.task_id)
    if any(task.lease is not None and task.delivery == delivery.id for task in tasks):
        return  # a turn of ours runs it, and reports its end
    final = ack.status != "CONSUMED"
    new = "processed" if final else "claimed"
    tx.run(
        ACKNOWLEDGE,
        id=delivery.id,
        ack=ack.status,
        state=new,
        shown=new,
        consumed_at=delivery.consumed_at or format_instant(ack.consumed_at),
        finished_at=(format_instant(ack.finished_at) if ack.finished_at else at) if final else None,
        details=ack.result.details if ack.result else None,
    )
    tx.run(FREE_PAYLOADS, delivery=delivery.id)
    if delivery.type == "command" and foreign:
        by, task_id = ack.consumer_agent_id, delivery.task_id
        state = _decide_claim(task_id, by, at, succeeded=ack.status == "SUCCEEDED") if final else "RUNNING"
        tx.run(SET_TASK_STATE, plan_id=plan_id, task_id=task_id, state=state, at=at)


def _report(tx: Tx, report: TaskStateReport, owner: str, plan: RoutedPlan, at: str) -> None:
    """Note an agent's report on its own task: its progress, and in a foreign plan why it waits. Never ends the task."""
    rows = tx.run(TASK, plan_id=plan.plan_id, task_id=report.task_id)
    if not rows or rows[0].agent_id != owner:
        return
    progress = report.progress.as_json() if report.progress else None
    body = wire.write(progress) if progress else None
    tx.run(SET_PROGRESS, plan_id=plan.plan_id, task_id=report.task_id, progress=body)
    if plan.origin == "foreign" and rows[0].lease is None and _ENDED.isdisjoint({report.state, rows[0].state}):
        tx.run(SET_TASK_STATE, plan_id=plan.plan_id, task_id=report.task_id, state=report.state, at=at)


def _believe(tx: Tx, report: TaskStateReport, owner: str, plan: RoutedPlan, at: str) -> None:
    """Apply an agent's report as the state of its task, because another party's router delivers its commands."""
    rows = tx.run(TASK, plan_id=plan.plan_id, task_id=report.task_id)
    ours = tx.run(LAST_SEQ, plan_id=plan.plan_id, task_id=report.task_id)[0].seq > 0
    if plan.origin == "foreign" and rows and rows[0].agent_id == owner and rows[0].lease is None and not ours:
        ended = report.state == "COMPLETED"
        state = _decide_claim(report.task_id, owner, at, succeeded=True) if ended else report.state
        tx.run(SET_TASK_STATE, plan_id=plan.plan_id, task_id=report.task_id, state=state, at=at)


def _decide_claim(task_id: str, agent_id: str, at: str, *, succeeded: bool) -> TaskState:
    """Ask the one rule about a task of a foreign plan whose agent reports its end."""
    performance = Performance("finished" if succeeded else "crashed")
    return turn_outcome.decide_foreign_turn(performance, task_id=task_id, agent_id=agent_id, at=at).state


def _bury(tx: Tx, file: OutboxFile, data: bytes | str | None, why: Rejection, at: str) -> None:
    sha256 = wire.sha256(data) if isinstance(data, bytes) else data
    if records.write_dead_letter(
        tx, admission.build_refused_file(file, why, data, message_id=why.message_id, sha256=sha256), at=at
    ):
        admission.journal_refused(tx, file, why, sha256, at)
    admission.schedule_rejected_removal(tx, file, why, at)
