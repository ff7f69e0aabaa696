"""Boards whose tasks have a kind of their own: each has one run that never ends, and gets tasks as they come.

The run has the name of its board. It holds one open unit, so that it never ends because nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.dag import Node
from agenttalk.contracts.plan import Policies
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.plan_settings import encode_settings
from agenttalk.engine.core.submitted_plans import TaskLinks
from agenttalk.engine.plans import submission
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.kinds import ForgeWaiter, KindOutcome, KindTask, KindTurn, Submission, TaskKind
from agenttalk.ports.proof import Confirmer
from agenttalk.ports.statements.core import COMMENTS_OF, CommentRow
from agenttalk.ports.statements.messages import PUT_DOCUMENTS, PUT_PLAN
from agenttalk.ports.statements.plans import (
    ADD_RUN,
    COUNT_RUN,
    PUT_ENGINE_TASK,
    RUN_STATE,
    SET_ENGINE_TASK,
    SET_RUN_SETTINGS,
    SUBMITTED,
    WITHDRAW_DIRECT,
)
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause
from agenttalk.rules.proof import done, turn_outcome
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text import forge_words
from agenttalk.rules.text.catalogue import to_columns, with_messages
from agenttalk.rules.text.message import join
from agenttalk.rules.toolchain import read_back

_NO_DAG: Final = b"{}"
_NO_LINKS: Final = TaskLinks({}, {}, {})
_ON: Final[dict[task_states.State, Cause]] = {
    "PENDING": "INPUTS_PICKED",
    "BLOCKED_WAITING_INPUT": "INPUT_ARRIVED",
    "BLOCKED_WAITING_REVIEW": "DECIDED",
    "BLOCKED_WAITING_HUMAN": "ANSWERED",
}
"""The cause of a held task that becomes ready for its agent."""
MOOT: Final = frozenset({"moot", "conflict"})
"""Names of evidence that a task is not due any more."""
_MOST_SAID: Final = 1_000
"""Remarks of a task that are read when a turn ends."""


def open_run(tx: Tx, policies: Policies, profiles: Mapping[str, AgentProfile], at: str) -> None:
    """Open the run of a board, with the agents as the settings describe them now."""
    settings = encode_settings(policies, dict(profiles))
    rows = tx.run(SUBMITTED, plan_id=tx.board)
    if rows[0].state is None:
        digest = wire.sha256(_NO_DAG)
        tx.run(PUT_PLAN, plan_id=tx.board, origin="virtual", dag_sha256=digest, revision=1, halted=None)
        tx.run(PUT_DOCUMENTS, plan_id=tx.board, dag=_NO_DAG, pointer=None, manifest=None)
        tx.run(ADD_RUN, plan_id=tx.board, state="RUNNING", settings=settings, open=1, closing=0, at=at)
        tx.record("run.opened", tx.board, {"agents": sorted(profiles)})
    elif rows[0].settings != settings:
        tx.run(SET_RUN_SETTINGS, plan_id=tx.board, settings=settings)
        tx.record("run.settings", tx.board, {"agents": sorted(profiles)})


def add_task(moves: PlanTransaction, kind: TaskKind, task: KindTask, **limits: int) -> None:
    """Add a task to its board's run. A task without conditions is done by being stored, as the one rule decides."""
    node = insert_task(moves, kind, task, task.description or task.title, limits)
    if not kind.wants_run(task):
        _deliver(moves, kind, task, node)


def insert_task(
    moves: PlanTransaction,
    kind: TaskKind,
    task: KindTask,
    prompt: str,
    limits: Mapping[str, int],
    *,
    held: bool = False,
) -> Node:
    """Put a task on its board, with the content of its command. A `held` task is given to no agent yet."""
    tx = moves.tx
    links = TaskLinks({}, {task.task_id: []}, {}) if held else _NO_LINKS
    node = Node(
        task_id=task.task_id,  # type: ignore[arg-type]  # its kind made it
        name=task.title[:200],
        assigned_agent_id=task.agent_id,  # type: ignore[arg-type]  # checked when it was proposed
        prompt=prompt,
        promise=kind.promise(task),
        **limits,  # type: ignore[arg-type]
    )
    tx.run(PUT_ENGINE_TASK, **submission.make_task_row(tx.board, node, links, moves.now))
    submission.put_nodes(tx, tx.board, [node], links)
    tx.run(COUNT_RUN, plan_id=tx.board, open=1, completed=0, failed=0, skipped=0)
    return node


def _deliver(moves: PlanTransaction, kind: TaskKind, task: KindTask, node: Node) -> None:
    detail = forge_words.STORED(agent=task.agent_id)
    found = [Evidence("delivered", True, True, "observed", "engine", moves.now, detail)]
    verdict = done.decide(moves.definitions.load(moves.tx, moves.tx.board).promise(node), found, ())
    _end(moves, kind, task.task_id, "PENDING", verdict, detail)


def complete_if_fulfilled(
    moves: PlanTransaction, kind: TaskKind, task_id: str, state: task_states.State, found: Sequence[Evidence]
) -> bool:
    """End a task that no turn runs, if the evidence fulfils its promise. Return whether it does."""
    plan = moves.definitions.load(moves.tx, moves.tx.board)
    verdict = done.decide(plan.promise(plan.node(moves.tx, task_id)), found, ())
    if verdict.fulfilled:
        _end(moves, kind, task_id, state, verdict, join(evidence.detail for evidence in found))
    return verdict.fulfilled


def _end(
    moves: PlanTransaction, kind: TaskKind, task_id: str, state: task_states.State, verdict: Verdict, detail: str
) -> None:
    """Write the verdict on a task that no turn runs."""
    cause: Cause = turn_outcome.find_done_cause(verdict) or "FAILED_FOR_GOOD"
    ready = task_states.move(state, _ON[state]) if state in _ON else state
    ended = task_states.move(task_states.move(ready, "LEASED"), cause)
    about = {"plan_id": moves.tx.board, "task_id": task_id}
    moves.tx.run(SET_ENGINE_TASK, **about, state=ended, cause=cause, **to_columns(None), missing=None, request_id=None,
        unproven=int(turn_outcome.rests_on_word(verdict)), at=moves.now)  # fmt: skip
    body = {"state": ended, "cause": cause, **with_messages({"reason": detail}), "trust": verdict.trust}
    moves.tx.record("task.moved", f"{moves.tx.board}/{task_id}", body)
    moves.count(moves.tx.board, "completed" if verdict.fulfilled else "failed")
    kind.closed(moves.tx, task_id, verdict.trust or detail, moves.now)


def withdraw(moves: PlanTransaction, task_id: str, state: task_states.State, delivery: int | None, why: str) -> None:
    """Withdraw a task that has not begun."""
    if delivery is not None:
        moves.tx.run(WITHDRAW_DIRECT, id=delivery, at=moves.now, details=why)
    moves.move_task(moves.definitions.load(moves.tx, moves.tx.board), task_id, state, "REMOVED", reason=why)
    moves.count(moves.tx.board, "skipped")


def restore(moves: PlanTransaction, kind: TaskKind, task_id: str) -> None:
    """Have a withdrawn task done after all."""
    moves.move_task(moves.definitions.load(moves.tx, moves.tx.board), task_id, "SKIPPED", "RUN_AGAIN")
    moves.tx.run(COUNT_RUN, plan_id=moves.tx.board, open=1, completed=0, failed=0, skipped=-1)
    kind.closed(moves.tx, task_id, "", moves.now)


def report_turn_end(
    moves: PlanTransaction,
    granted: LeasedAttempt,
    cause: Cause,
    reason: str | None,
    verdict: Verdict | None,
    found: Sequence[Evidence] = (),
) -> None:
    """Report the end of a turn to the task's kind, and queue the effects that the kind asks for."""
    kind, task = moves.deps.kinds.get(moves.tx.board), granted.kind_task
    if kind is None or task is None:
        return
    state = task_states.move("RUNNING", cause)
    if state in task_states.FINAL:
        trust = verdict.trust if verdict else None
        kind.closed(moves.tx, task.task_id, trust or (reason or cause.lower())[:1000], moves.now)
    if cause == "FULFILLED":
        return
    code = next((each.id for each in found if each.id in MOOT), "") if cause == "MOOT" else ""
    outcome = KindOutcome(cause, state, reason or "", (), (), granted.job.command.command_id, code)
    if verdict is not None:
        result = read_back.to_result(verdict, found)
        outcome = outcome._replace(
            missing=verdict.missing,
            blockers=verdict.blockers,
            code=result.code,
            detail=result.detail,
            infrastructure=result.infrastructure,
        )
    for each in kind.failed(task, outcome):
        moves.tx.queue_effect(each.kind, each.key, each.body)


def evidence_to_json(found: Sequence[Evidence]) -> tuple[JsonObject, ...]:
    """Describe the evidence that was found after a turn, for people and the ledger."""
    return tuple(
        {
            "id": each.id,
            **({"code": each.code} if each.code else {}),
            "passed": each.passed,
            "trust": each.trust,
            "by": each.by,
            "detail": each.detail,
        }
        for each in found
    )


async def make_kind_turn(
    kind: TaskKind,
    store: Store,
    granted: LeasedAttempt,
    performance: Performance,
    *,
    at: str,
    confirm: Confirmer | None = None,
    wait: ForgeWaiter | None = None,
) -> KindTurn:
    """Return what a kind may read after a turn: the remarks since its command was given out, and the files."""
    job = granted.job
    rows = await store.read(COMMENTS_OF, plan_id=job.plan_id, task_id=job.task_id, after=0, limit=_MOST_SAID)
    said = tuple(_read_comments(row) for row in rows if row.at >= granted.consumed_at)
    return KindTurn(
        job.agent_id,
        job.command.command_id,
        granted.consumed_at,
        performance,
        said,
        at,
        confirm,
        store.read,
        wait,
        away=partial(_tell_away, kind, store, granted),
    )


async def _tell_away(kind: TaskKind, store: Store, granted: LeasedAttempt, why: str) -> None:
    """Queue the effects of a kind whose service cannot be reached. Its task is verified again later."""
    task, command_id = granted.kind_task, granted.job.command.command_id
    if task is None:
        return
    outcome = KindOutcome(
        "NOT_FULFILLED", "RUNNING", why, (), (), command_id, code="verify_error", detail=why, infrastructure=True
    )
    follow_ups = kind.failed(task, outcome)

    def work(tx: Tx) -> None:
        for each in follow_ups:
            tx.queue_effect(each.kind, each.key, each.body)

    await store.transact(work)


def _read_comments(row: CommentRow) -> Submission:
    return Submission(
        row.kind, row.author, row.type, row.body, wire.read(bytes(row.claims)) if row.claims else None, row.at
    )


async def refresh_run(deps: Deps, board: str, policies: Policies, profiles: Mapping[str, AgentProfile]) -> None:
    """Bring the run of a board up to date with the settings, if there is one."""
    if not deps.stores.has_board(board):
        return
    store = await deps.stores.board(board)
    if await store.read(RUN_STATE, plan_id=board):
        at = deps.stamp()
        await store.transact(lambda tx: open_run(tx, policies, profiles, at))
