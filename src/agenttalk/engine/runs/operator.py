"""Carries out what operators ask of plans: pause, cancel, retry, override, change or release them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TypedDict

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import AgentTalkError, Code, ConflictError, MachineError, Problem
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.budgets import account_waits
from agenttalk.engine.core.boards import list_boards
from agenttalk.engine.people import questions
from agenttalk.engine.plans import control, dag_reviews, revision
from agenttalk.engine.plans.definition import read_plan
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.proof import plan_tips, rework_decisions
from agenttalk.engine.proof import release as proof_release
from agenttalk.engine.proof.plan_closer import VerifiedPlan
from agenttalk.engine.runs.recovery import Recovery
from agenttalk.engine.runs.state import BoardState, DispatcherState, make_tasks_ready
from agenttalk.engine.runs.steps import StepWriter
from agenttalk.ports.statements.budgets import OBJECTIONS_TO
from agenttalk.ports.statements.plans import ENGINE_TASK, OPEN_RUNS, RUN
from agenttalk.ports.statements.proof import LEAVE_BRANCH
from agenttalk.ports.statements.runs import WORKING_IN_PLAN
from agenttalk.ports.storage import Tx
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.people.attestation import UNKNOWN, AnswerProof
from agenttalk.rules.planfile import plan_remarks
from agenttalk.rules.proof import rework
from agenttalk.rules.proof.performance import TipMove
from agenttalk.rules.proof.rework import ReworkDecision, WorkAcceptance
from agenttalk.rules.text import task_words
from agenttalk.rules.text.message import ABOUT

LOG = logging.getLogger(__name__)


class CheckpointOverride(TypedDict):
    """A denial that an operator overrode."""

    checkpoint: str
    reasons: list[str]
    trace_id: str | None


class OperatorActions:
    """Carries out the decisions of operators."""

    def __init__(self, state: DispatcherState, steps: StepWriter, recovery: Recovery) -> None:
        self._state = state
        self._steps = steps
        self._recovery = recovery

    async def verify(self, plan_id: str, task_id: str | None = None) -> VerifiedPlan:
        """Check now whether the proofs of a plan, or of one task, still hold; also of a plan that has ended."""
        board = await self._state.board_of(plan_id)
        await board.store.read_together(partial(control.require_engine_plan, plan_id=plan_id, task_id=task_id))
        return await self._steps.closer_of(board, plan_id).verify(task_id)

    async def record_merge(self, plan_id: str, *, by: str, commit: str, into: str | None, stale: bool) -> None:
        """Record that a person merged a plan's branch, `stale` or not. The branch is watched no longer."""
        board = await self._state.board_of(plan_id)
        body = {"by": by, "commit": commit, "into": into, "stale": stale}

        def work(tx: Tx) -> None:
            tx.record("plan.merged", plan_id, body)
            tx.run(LEAVE_BRANCH, plan_id=plan_id)

        await board.store.transact(work)

    async def adopt_plan(self, plan_id: str) -> None:
        """Have this engine run a plan, and the review that the plan may have to pass first."""
        board = await self._state.board_of(plan_id)
        review = await dag_reviews.read_latest_committed(board.store, plan_id)
        for each in (plan_id, *([review.review_plan] if review is not None and review.review_plan else [])):
            self._state.desk.crowds.adopt_plan(each)
        self._state.nudge()

    async def pause(self, plan_id: str, *, by: str) -> bool:
        """Pause a plan: turns under way go on, and nothing new begins."""
        board = await self._state.board_of(plan_id)
        at = self._state.deps.stamp()
        return await board.store.transact(lambda tx: control.pause(tx, plan_id, by=by, at=at))

    async def resume(self, plan_id: str, *, by: str) -> bool:
        """Resume a paused plan."""
        board = await self._state.board_of(plan_id)
        await self.adopt_plan(plan_id)
        return await self._steps.run(board, lambda moves: control.resume(moves, plan_id, by=by))

    async def cancel(self, plan_id: str, *, by: str, why: str = "") -> int:
        """Cancel a plan: pause it, end the turns under way, then cancel all other tasks."""
        board = await self._state.board_of(plan_id)
        at = self._state.deps.stamp()
        await board.store.transact(lambda tx: control.pause_if_running(tx, plan_id, by=by, at=at))
        if plan_id in self._state.closings:
            self._state.closings[plan_id].cancel()
            await asyncio.wait({self._state.closings[plan_id]})
        tasks = {row.task_id for row in await board.store.read(WORKING_IN_PLAN, plan_id=plan_id)}
        review = await dag_reviews.read_latest_committed(board.store, plan_id)
        await self._end_turns(board, plan_id, tasks)
        count = await self._steps.run(board, lambda moves: control.cancel(moves, plan_id, by=by, why=why))
        await self._drop_review(board, review, by)
        return count

    async def _drop_review(self, board: BoardState, review: dag_reviews.DagReviewRecord | None, by: str) -> None:
        """Cancel an open review of a plan that no longer needs it."""
        if review is not None and review.state == "open" and await board.store.read(RUN, plan_id=review.review_plan):
            await self.cancel(review.review_plan, by=by, why=task_words.REVIEW_OVER())

    async def retry(self, plan_id: str, task_id: str, *, by: str, onwards: bool = False) -> list[str]:
        """Retry a failed task, `onwards` with all that depends on it. Returns the tasks that are open again."""
        board = await self._state.board_of(plan_id)
        await self.adopt_plan(plan_id)
        if not onwards and await _end_account_wait(self._state, board, plan_id, task_id, by=by):
            return [task_id]
        if not onwards:
            return await self._steps.run(board, lambda moves: control.retry(moves, plan_id, task_id, by=by))
        tasks = await self._steps.run(board, lambda moves: control.list_rerun_tasks(moves, plan_id, task_id))
        at = self._state.deps.stamp()
        state = await board.store.transact(lambda tx: control.pause_if_running(tx, plan_id, by=by, at=at))
        paused = state == "RUNNING"
        try:
            await self._end_turns(board, plan_id, tasks)
            return await self._steps.run(
                board, lambda moves: control.retry(moves, plan_id, task_id, by=by, onwards=True, go_on=paused)
            )
        except AgentTalkError:
            if paused:
                await self.resume(plan_id, by=by)
            raise

    async def abort(self, plan_id: str, task_id: str, *, by: str, why: str = "") -> control.TaskStop:
        """Stop a task in any state. When this returns, its processes are dead and it has failed."""
        board = await self._state.board_of(plan_id)
        stopped = task_words.STOPPED_BY(by=by)
        detail = ABOUT(subject=stopped, what=why) if why else stopped
        watch = self._state.watches.find(board.store.name, plan_id, task_id)
        rows = await board.store.read(WORKING_IN_PLAN, plan_id=plan_id)
        leases = [row.lease for row in rows if row.task_id == task_id]
        turns = [self._state.turns[lease] for lease in leases if lease in self._state.turns]
        if watch is not None and turns:
            watch.stop(Abort("user-aborted", detail))
            await asyncio.wait(turns)
        await self._recovery.recover()
        return await self._steps.run(board, lambda moves: control.abort(moves, plan_id, task_id, detail=detail))

    async def override(
        self, plan_id: str, task_id: str, *, checkpoint: str, by: str, why: str, proof: AnswerProof = UNKNOWN
    ) -> CheckpointOverride:
        """Override a checkpoint that holds a task, in an operator's name, for exactly the reasons that it gave."""
        board = await self._state.board_of(plan_id)
        await self.adopt_plan(plan_id)
        await board.store.read_together(partial(control.require_engine_plan, plan_id=plan_id, task_id=task_id))
        rows = await board.store.read(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
        found = await board.store.read(OBJECTIONS_TO, plan_id=plan_id, task_id=task_id)
        request_id, denial = control.find_override_question(plan_id, task_id, rows, found, checkpoint)
        _, asked = await questions.find_question(self._state.deps, request_id)
        if asked.state == "open":  # else an engine died between the answer and this override
            await questions.answer(
                self._state.deps,
                request_id,
                by=by,
                proof=proof,
                decision="APPROVE",
                answers=["override"],
                notes=why,
                seen_sha256=asked.sha256,
            )
        await self._steps.run(board, partial(make_tasks_ready, plans=(plan_id,)))
        self._state.nudge()
        return {"checkpoint": denial["checkpoint"], "reasons": denial["reasons"], "trace_id": denial["trace_id"]}

    async def rework(self, plan_id: str, task_id: str, decision: ReworkDecision, *, by: str) -> None:
        """Decide about a task without rounds of rework: grant rounds, accept the work as it is, or abort."""
        board = await self._state.board_of(plan_id)
        await self.adopt_plan(plan_id)
        await board.store.read_together(partial(control.require_engine_plan, plan_id=plan_id, task_id=task_id))
        await self._apply_decision(board, plan_id, task_id, decision, by)

    async def _apply_decision(
        self, board: BoardState, plan_id: str, task_id: str, decision: ReworkDecision, by: str
    ) -> None:
        """Carry out a decision. Accepted work in a repository is merged in the transaction that completes its task."""

        def work(moves: PlanTransaction, move: TipMove | None = None) -> None:
            sheet = moves.definitions.load(moves.tx, plan_id)
            if move is not None:
                plan_tips.move_tip(moves.tx, plan_id, move)
            commit = move.after if move is not None else ""
            rework_decisions.apply_decision(moves, sheet, task_id, decision, by=by, commit=commit)

        async def land(move: TipMove) -> bool:
            try:
                await self._steps.run(board, partial(work, move=move))
            except ConflictError as error:
                if error.code is not Code.TIP_MOVED:
                    raise
                return False
            return True

        if isinstance(decision, WorkAcceptance):
            left = await board.store.transact(
                lambda tx: rework_decisions.find_unmerged_work(tx, board.sheets.load(tx, plan_id), task_id)
            )
            if left is not None:
                if self._state.prover is None:
                    raise MachineError(
                        Code.ENGINE_UNREACHABLE, "only an engine can merge", hint="'agenttalk serve' or 'run' first"
                    )
                await self._state.prover.accept(left, land)
                return
        await self._steps.run(board, work)

    async def apply_answer(
        self, board: BoardState, plan_id: str, task_id: str, request_id: str, response: bytes, by: str
    ) -> None:
        """Carry out a person's answer about a task without rounds, or ask again if that is not possible."""
        said = HumanInterventionResponse.from_bytes(bytes(response))
        decision = rework.read_decision(said.decision, said.decision_answers)
        why = "the answer is not one of those offered"
        if decision is not None:
            try:
                await self._apply_decision(board, plan_id, task_id, decision, by)
            except MachineError as error:
                LOG.warning("%s: %s", task_id, error.message, extra={"action": "dispatcher.decide"})
                return
            except AgentTalkError as error:
                why = error.message
            else:
                return
        await self._steps.run(
            board,
            lambda moves: rework_decisions.ask_again(
                moves, moves.definitions.load(moves.tx, plan_id), task_id, request_id, why
            ),
        )

    async def remarks(self, dag: TaskDag, manifest: PlanManifest) -> list[Problem]:
        """Find remarks about a plan before it begins, with an error as a remark if its repository cannot be read."""
        if self._state.prover is None or manifest.workspace is None:
            return []
        try:
            paths, uncommitted = await self._state.prover.survey(manifest.workspace)
        except AgentTalkError as error:
            return [Problem(error.code, "workspace", error.message, error.hint)]
        return plan_remarks.find_remarks(dag.nodes, paths, uncommitted)

    async def apply(
        self, dag: TaskDag, manifest: PlanManifest, profiles: Mapping[str, AgentProfile], *, by: str
    ) -> revision.Difference:
        """Put a new revision of a plan in force. Turns of changed tasks are ended first; others go on."""
        board = await self._state.board_of(dag.plan_id)
        await self.adopt_plan(dag.plan_id)
        at = self._state.deps.stamp()
        found = await board.store.read_together(partial(revision.compare_dag, dag=dag))
        review = await dag_reviews.read_latest_committed(board.store, dag.plan_id)
        state = await board.store.transact(lambda tx: control.pause_if_running(tx, dag.plan_id, by=by, at=at))
        paused = review.held if review is not None and review.is_undecided else state == "PAUSED"
        await self._end_turns(board, dag.plan_id, {*found.changed, *found.removed})
        found = await self._steps.run(
            board, lambda moves: revision.apply(moves, dag, manifest, profiles, by=by, paused=paused)
        )
        await self._drop_review(board, review, by)
        return found

    async def release(self, plan_id: str, *, by: str) -> None:
        """Decide again whether a plan's results are shipped, after a check whether its proofs still hold."""
        board = await self._state.board_of(plan_id)
        await self.verify(plan_id)
        await proof_release.decide_release(
            self._state.deps, board.store, plan_id, self._state.prover, again=True, by=by
        )
        self._state.announce(ended=True)

    async def _end_turns(self, board: BoardState, plan_id: str, tasks: set[str]) -> None:
        rows = await board.store.read(WORKING_IN_PLAN, plan_id=plan_id)
        turns = [self._state.turns[lease] for lease, task_id in rows if lease in self._state.turns and task_id in tasks]
        for turn in turns:
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)
        await self._recovery.recover(unwanted={(plan_id, task_id) for task_id in tasks})


async def _end_account_wait(state: DispatcherState, board: BoardState, plan_id: str, task_id: str, *, by: str) -> bool:
    """End the wait of the account that a task waits for, for all of its tasks. False if it waits for none."""
    accounts, now = state.desk.accounts, state.deps.now()
    rows = await board.store.read(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
    if accounts is None or not rows or (rows[0].state, rows[0].cause) != ("READY", "ACCOUNT_LIMIT"):
        return False
    agent_id = rows[0].agent_id
    await accounts.refresh()
    profile = await board.store.read_together(lambda now: read_plan(now, plan_id).profile(agent_id))
    wait = accounts.find(profile)
    if wait is None:
        return False
    for store in await list_boards(state.deps):
        await store.transact(partial(account_waits.end_wait, account=wait.account, by=by, now=now))
        plans = [row.plan_id for row in await store.read(OPEN_RUNS)]
        at = state.deps.stamp()
        await store.transact(partial(account_waits.release_tasks, plans=plans, at=at))
    accounts.forget(wait.account)
    state.nudge()
    return True
