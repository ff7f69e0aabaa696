"""Work that flows back: a consumer refused an input, so whoever made it does it again, with the issues in hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttalk.contracts import wire
from agenttalk.engine import commanding, records
from agenttalk.engine.granting import Granted
from agenttalk.engine.moves import Moves
from agenttalk.engine.sheets import Sheet
from agenttalk.errors import Code
from agenttalk.rules import rework
from agenttalk.rules.readiness import Picked
from agenttalk.rules.rework import Judgement


def send_back(moves: Moves, sheet: Sheet, granted: Granted, judgements: Mapping[str, Judgement]) -> None:
    """Have the tasks whose outputs were refused done again. Who refused waits for the new versions."""
    moves.tx.run(
        "wait_for_input",
        plan_id=sheet.plan_id,
        task_id=granted.job.task_id,
        missing=wire.write([name for name, each in judgements.items() if not each.accepted]),
        at=moves.at,
    )
    for name, judgement in judgements.items():
        if not judgement.accepted:
            for producer in dict.fromkeys(path.partition("/")[0] for path in _paths(granted, name)):
                _rework(moves, sheet, granted, producer, judgement)


def note(moves: Moves, granted: Granted, judgements: Mapping[str, Judgement]) -> None:
    """Write down what was said of inputs."""
    job = granted.job
    body = {
        "validator": job.agent_id,
        "command_id": job.command.command_id,
        "inputs": {name: {**each.as_json(), "paths": _paths(granted, name)} for name, each in judgements.items()},
    }
    moves.tx.record("inputs.judged", f"{job.plan_id}/{job.task_id}", body)


def _paths(granted: Granted, name: str) -> list[str]:
    return [
        path for each in granted.job.command.resolved_inputs or () if each.input_name == name for path in each.paths
    ]


def _rework(moves: Moves, sheet: Sheet, granted: Granted, producer: str, judgement: Judgement) -> None:
    """Send one task back, unless it went back for another reason meanwhile, or another round makes no sense."""
    tx, plan_id = moves.tx, sheet.plan_id
    rows = tx.run("engine_task", plan_id=plan_id, task_id=producer)
    if not rows or rows[0][1] != "COMPLETED":
        return
    row = rows[0]
    node = sheet.node(tx, producer)
    own = node.failure_policy.max_reexecute_times if node.failure_policy else None
    most = own if own is not None else sheet.policies.max_reexecute_times
    subject = f"rework/{plan_id}/{producer}/{granted.job.task_id}"
    known = tx.run("latest_fact", subject=subject, kind="rework.ordered")
    before: Any = wire.read(bytes(known[0][2])) if known else {}
    now = rework.fingerprint(judgement.issues)
    answer = rework.another_round([before["fingerprint"]] if before else [], now, used=row[14], most=most)
    if answer != "yes":
        _give_up(moves, sheet, granted, producer, judgement, stuck=answer == "stuck")
        return
    [(rounds,)] = tx.run("add_round", plan_id=plan_id, task_id=producer, rounds=1)
    body = {"round": rounds, "fingerprint": now, "by": granted.job.agent_id, **judgement.as_json()}
    tx.record("rework.ordered", subject, body)
    gone = len(tx.run("supersede_outputs", plan_id=plan_id, task_id=producer))
    records.tally(tx, plan_id, delivered=-gone, superseded=gone)
    tx.run("unmeet", plan_id=plan_id, task_id=producer)
    tx.run("count_run", plan_id=plan_id, open=1, completed=-1, failed=0, skipped=0)
    inputs = commanding.inputs_of(tx, row[4]) if row[4] is not None else ()
    moves.queue(
        sheet,
        node,
        Picked(inputs=inputs, sources={}, absent=()),
        "COMPLETED",
        "REWORK",
        rework={
            "original_task_id": producer,
            "original_agent": row[0],
            "attempt": rounds,
            "validation_result": {
                "validator": granted.job.agent_id,
                "score": judgement.score,
                "reason": judgement.reason,
                "issues": [issue.as_json() for issue in judgement.issues],
            },
        },
        agent_id=row[0],
    )


def _give_up(moves: Moves, sheet: Sheet, granted: Granted, producer: str, judgement: Judgement, *, stuck: bool) -> None:
    """Another round makes no sense: the work has failed, and people are told."""
    why = "the same issues came back unchanged" if stuck else "all rounds of rework are used up"
    reason = f"{granted.job.agent_id} refuses it, and {why}: {judgement.reason}"
    moves.tx.run("count_run", plan_id=sheet.plan_id, open=1, completed=-1, failed=0, skipped=0)
    moves.put(sheet, producer, "COMPLETED", "REWORK_EXHAUSTED", reason=reason)
    records.alert(
        moves.tx,
        at=moves.at,
        plan_id=sheet.plan_id,
        code=Code.COMMAND_FAILED,
        message=f"task {producer!r} failed: {reason}",
        key=f"{producer}/{granted.job.command.command_id}",
        source=records.Source(granted.job.agent_id, producer, granted.job.command.command_id),
        details=judgement.as_json(),
    )
    moves.lost(sheet, producer)
