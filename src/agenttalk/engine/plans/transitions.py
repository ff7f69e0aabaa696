"""What a change of a task entails: dependants become ready, are skipped or blocked, and the plan ends.

Everything here happens in one transaction. Rules decide; this writes down what they decided. A fan-out that is too
wide for one transaction is left to the next look, which finds it by its index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code
from agenttalk.contracts.human import HumanInterventionResponse
from agenttalk.engine.budgets import denials
from agenttalk.engine.core import records
from agenttalk.engine.plans import inputs, questions, supersede
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import AT_ONCE, PlanTransaction, make_task_changed_error
from agenttalk.ports.statements.budgets import REQUEUE_TASK
from agenttalk.ports.statements.plans import (
    ACTIVATE,
    ANSWERED_TASKS,
    DEPENDANTS,
    DUE_TASKS,
    ENGINE_TASK,
    MEET,
    MEET_FIRST,
    MEET_ONE,
    NOTE_REQUEST,
    PUT_EDGE,
    WAITING_TASKS,
    WITHDRAW_DIRECT,
    AnsweredTaskRow,
)
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans import failure, input_selection
from agenttalk.rules.plans.failure import DependencyStanding
from agenttalk.rules.plans.input_selection import AmbiguousInput, MissingInputs, PickedInputs
from agenttalk.rules.proof.checkpoints import CheckpointDecision
from agenttalk.rules.text import task_words
from agenttalk.rules.text.catalogue import read_column, to_columns
from agenttalk.rules.text.message import join

_COUNTED: Final[dict[State, str]] = {"COMPLETED": "completed", "SKIPPED": "skipped"}
Ends: TypeAlias = "deque[tuple[str, DependencyStanding, tuple[str, ...]]]"
"""Tasks that ended, what that means to those who waited for them, and which tasks they activate."""


@dataclass(slots=True)
class TaskTransitions(PlanTransaction):
    """Changes of the tasks of a board, in one transaction."""

    def mark_ended(self, sheet: PlanDefinition, task_id: str, cause: Cause, *, activated: Sequence[str] = ()) -> None:
        """A task that somebody ran has ended for good: whoever waited for it goes on, or follows its own policy."""
        state = task_states.move("RUNNING", cause)
        self.count(sheet.plan_id, _COUNTED.get(state, "failed"))
        self._settle(sheet, task_id, state, cause, activated)

    def mark_failed(self, sheet: PlanDefinition, task_id: str) -> None:
        """A task that was completed has failed after all."""
        self.count(sheet.plan_id, "failed")
        self._settle(sheet, task_id, "FAILED", "REWORK_EXHAUSTED")

    def mark_completed(self, sheet: PlanDefinition, task_id: str) -> None:
        """A task that had failed counts as done after all: whoever waits for it goes on."""
        self._settle_all(sheet, deque([(task_id, "fine", ())]))

    def _settle(
        self, sheet: PlanDefinition, task_id: str, state: State, cause: Cause, activated: Sequence[str] = ()
    ) -> None:
        """Go through everything that follows from the end of a task, and from what follows from that."""
        self._settle_all(sheet, deque([(task_id, failure.judge_dependency(state, cause), tuple(activated))]))

    def _settle_all(self, sheet: PlanDefinition, ends: Ends) -> None:
        """Dependants come first: what is lost with a dependency is not merely a branch that nobody took."""
        wards: deque[tuple[str, tuple[str, ...]]] = deque()
        while ends or wards:
            if not ends:
                self._decide_ward(sheet, *wards.popleft(), ends)
                continue
            ended, standing, chosen = ends.popleft()
            if standing == "failed":
                chosen = self._fail_dependants(sheet, ended, ends)
            else:
                self._meet(sheet, ended)
            wards.extend((ward, chosen) for ward in sheet.spec(self.tx, ended).conditional_tasks)

    def fail_dependants_of(self, sheet: PlanDefinition, task_id: str) -> None:
        """Have those that wait for a task that failed before follow their policies; they may be new."""
        ends: Ends = deque()
        chosen = self._fail_dependants(sheet, task_id, ends)
        for ward in sheet.spec(self.tx, task_id).conditional_tasks:
            if ward in chosen:
                self._decide_ward(sheet, ward, chosen, ends)
        self._settle_all(sheet, ends)

    def apply_failure_policy(self, sheet: PlanDefinition, task_id: str, failed: str) -> None:
        """Have one task that waits for a failed one follow its policy."""
        ends: Ends = deque()
        for ward in self._fail_dependants(sheet, failed, ends, only=task_id):
            self._decide_ward(sheet, ward, (ward,), ends)
        self._settle_all(sheet, ends)

    def _fail_dependants(
        self, sheet: PlanDefinition, failed: str, ends: Ends, only: str | None = None
    ) -> tuple[str, ...]:
        """Dependants of a failed task follow their policies; the fallbacks that stand in for it."""
        rows = self.tx.run(DEPENDANTS, plan_id=sheet.plan_id, task_id=failed)
        states: dict[str, State] = {
            row.dependant: row.state for row in rows if row.state in {"PENDING", "BLOCKED_WAITING_INPUT"}
        }
        began = [row for row in rows if row.state in {"READY", "RUNNING", "COMPLETED"}]
        states |= dict.fromkeys(supersede.reopen_dependants(self, sheet, failed, began) if began else (), "PENDING")
        if only is not None:
            states = {task_id: state for task_id, state in states.items() if task_id == only}
        nodes = [self._before(sheet, dependant, failed) for dependant in states]
        fallbacks: dict[str, None] = {}
        why = task_words.TASK_FAILED(task=failed)
        for task_id, consequence in failure.decide_consequences(nodes, failed).items():
            match consequence:
                case failure.SkipConsequence():
                    self._skip(sheet, task_id, "DEPENDENCY_SKIP", why, ends, state=states[task_id])
                case failure.BlockConsequence():
                    self._ask_whether(sheet, sheet.node(self.tx, task_id), why, states[task_id])
                case failure.ReplanConsequence():
                    self._ask_for_plan(sheet, sheet.node(self.tx, task_id), failed, states[task_id])
                case failure.FallbackConsequence(task_id=fallback):
                    fallbacks[fallback] = None
                    self._stand_in(sheet, fallback, task_id, ends)
        return tuple(fallbacks)

    def _before(self, sheet: PlanDefinition, task_id: str, failed: str) -> Node:
        """A task that waits for a failed one, which may only stand in for what it depends on."""
        node = sheet.node(self.tx, task_id)
        return node if failed in node.depends_on else node.model_copy(update={"depends_on": (failed,)})

    def _stand_in(self, sheet: PlanDefinition, fallback: str, dependant: str, ends: Ends) -> None:
        """Have a task wait for a fallback. It may have ended before, or stand in for another dependency already."""
        plan_id = sheet.plan_id
        waits = dependant in [row.dependant for row in self.tx.run(DEPENDANTS, plan_id=plan_id, task_id=fallback)]
        self.tx.run(PUT_EDGE, plan_id=plan_id, task_id=fallback, dependant=dependant)
        row = self.tx.run(ENGINE_TASK, plan_id=plan_id, task_id=fallback)[0]
        standing = failure.judge_dependency(row.state, row.cause)
        if standing == "failed":
            self._fail_dependants(sheet, fallback, ends)
        elif waits or standing == "fine":
            [(unmet, state)] = self.tx.run(MEET_ONE, plan_id=plan_id, task_id=dependant)
            if unmet == 0 and state == "PENDING":
                self._due(sheet, dependant)

    def _decide_ward(self, sheet: PlanDefinition, task_id: str, chosen: Sequence[str], ends: Ends) -> None:
        """A task that runs only if somebody says so: activated, or skipped once nobody is left to say so."""
        if task_id in chosen:
            rows = self.tx.run(ACTIVATE, plan_id=sheet.plan_id, task_id=task_id)
            if rows and rows[0] == (0, "PENDING"):
                self._due(sheet, task_id)
            return
        row = self.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0]
        if row.state == "PENDING" and row.held and not self._any_open(sheet, sheet.spec(self.tx, task_id).activators):
            self._skip(sheet, task_id, "BRANCH_NOT_TAKEN", task_words.NOT_CALLED_FOR(), ends)

    def _any_open(self, sheet: PlanDefinition, tasks: Sequence[str]) -> bool:
        rows = [self.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=each)[0] for each in tasks]
        return any(row.state not in task_states.FINAL for row in rows)

    def has_lost_task(self, sheet: PlanDefinition, tasks: Sequence[str]) -> bool:
        """Whether one of them failed, or was skipped because another did."""
        rows = [self.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=each)[0] for each in tasks]
        return any(failure.judge_dependency(row.state, row.cause) == "failed" for row in rows)

    def _skip(
        self, sheet: PlanDefinition, task_id: str, cause: Cause, why: str, ends: Ends, *, state: State = "PENDING"
    ) -> None:
        new = self.move_task(sheet, task_id, state, cause, reason=why)
        self.count(sheet.plan_id, "skipped")
        ends.append((task_id, failure.judge_dependency(new, cause), ()))

    def advance_due_tasks(self, sheet: PlanDefinition, limit: int = AT_ONCE) -> int:
        """Look at tasks that nothing holds up, and at those whose input or answer came; how many are due."""
        for row in self.tx.run(ANSWERED_TASKS, plan_id=sheet.plan_id):
            self._answered(sheet, row)
        for task_id, since, request_id, cause in self.tx.run(WAITING_TASKS, plan_id=sheet.plan_id):
            if cause != "INPUT_REJECTED" or not self._any_open(sheet, sheet.node(self.tx, task_id).depends_on):
                self._look_again(sheet, task_id, since, request_id)
        rows = self.tx.run(DUE_TASKS, plan_id=sheet.plan_id, limit=limit)
        for task_id, delivery in rows:
            self.order_if_ready(sheet, task_id, first=delivery is None)
        return len(rows)

    def recheck_waiting(self, sheet: PlanDefinition, task_id: str) -> None:
        """Look at those that wait for another version of what a task makes."""
        for dependant, state, _ in self.tx.run(DEPENDANTS, plan_id=sheet.plan_id, task_id=task_id):
            if state != "BLOCKED_WAITING_INPUT":
                continue
            row = self.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=dependant)[0]
            if row.cause != "INPUT_REJECTED" or not self._any_open(sheet, sheet.node(self.tx, dependant).depends_on):
                self._look_again(sheet, dependant, row.waiting_since or self.at, row.request_id)

    def order_if_ready(self, sheet: PlanDefinition, task_id: str, *, first: bool = False) -> None:
        """Everything before a task has ended: pick its inputs, and make its command if they are there."""
        if (sheet.plan_id, task_id) not in self._ordered:
            node = sheet.node(self.tx, task_id)
            self._considered(sheet, node, self.pick_inputs(sheet, node), first=first)

    def _considered(
        self, sheet: PlanDefinition, node: Node, picked: PickedInputs | MissingInputs | AmbiguousInput, *, first: bool
    ) -> None:
        """Go on with what was picked for a task."""
        match picked:
            case PickedInputs():
                self.queue_command(sheet, node, picked, "PENDING", "INPUTS_PICKED", first=first)
            case MissingInputs():
                self._meet_now(sheet, node.task_id)
                self._wait(sheet, node, picked)
            case AmbiguousInput():
                self._meet_now(sheet, node.task_id)
                self._ask_which(sheet, node, picked, "PENDING")

    def _meet_now(self, sheet: PlanDefinition, task_id: str) -> None:
        """Write down that what a task waited for has ended, if its first command was to say so."""
        if self.pop_unmet(sheet.plan_id, task_id):
            lost = make_task_changed_error(task_id)
            self.tx.run_later(MEET_FIRST, {"plan_id": sheet.plan_id, "task_id": task_id}, lost)

    def pick_inputs(self, sheet: PlanDefinition, node: Node) -> PickedInputs | MissingInputs | AmbiguousInput:
        """Fill the inputs of a task with what is there."""
        found = inputs.find_candidates(self.tx, sheet, node, self.made)
        return input_selection.pick_inputs(node, found, final=frozenset(node.depends_on))

    def _wait(self, sheet: PlanDefinition, node: Node, missing: MissingInputs) -> None:
        """Inputs are missing that nobody before this task will bring. What comes from outside is asked for at once."""
        outside = [need.name for need in node.needs if need.external and need.name in missing.names]
        request_id = questions.ask_for_files(self.tx, sheet, node, outside, at=self.at) if outside else None
        reason = task_words.WAITS_FOR(names=", ".join(missing.names))
        names = missing.names
        self.move_task(
            sheet, node.task_id, "PENDING", "INPUTS_MISSING", reason=reason, missing=names, request_id=request_id
        )

    def _look_again(self, sheet: PlanDefinition, task_id: str, since: str, request_id: str | None) -> None:
        """A task that waits for inputs: they came, or it has waited too long and a person is asked."""
        if (sheet.plan_id, task_id) in self._ordered:
            return
        node = sheet.node(self.tx, task_id)
        match self.pick_inputs(sheet, node):
            case PickedInputs() as picked:
                self.queue_command(sheet, node, picked, "BLOCKED_WAITING_INPUT", "INPUT_ARRIVED")
            case AmbiguousInput() as unclear:
                self._ask_which(sheet, node, unclear, "BLOCKED_WAITING_INPUT")
            case MissingInputs() as missing:
                self._wait_on(sheet, node, missing, since, request_id)

    def _wait_on(
        self, sheet: PlanDefinition, node: Node, missing: MissingInputs, since: str, request_id: str | None
    ) -> None:
        """Inputs are still missing: after the time limit a person is asked, unless somebody was, and alerted."""
        patience = node.timeout or sheet.policies.timeout_default_seconds
        if (parse_instant(self.at) - parse_instant(since)).total_seconds() < patience:
            return
        names = missing.names
        request_id = request_id or questions.ask_for_files(self.tx, sheet, node, names, at=self.at)
        reason = task_words.WAITED_TOO_LONG(seconds=patience, names=", ".join(names))
        state: State = "BLOCKED_WAITING_INPUT"
        self.move_task(sheet, node.task_id, state, "WAIT_TIMEOUT", reason=reason, missing=names, request_id=request_id)
        records.alert(
            self.tx,
            at=self.at,
            plan_id=sheet.plan_id,
            code=Code.WAIT_FOR_INPUTS_TIMEOUT,
            message=f"task {node.task_id!r} {reason}",
            key=f"{node.task_id}/{since}",
            source=records.RecordSource(node.assigned_agent_id, node.task_id),
            details={"request_id": request_id, "missing": list(names)},
        )

    def _answered(self, sheet: PlanDefinition, row: AnsweredTaskRow) -> None:
        """A person answered: the task goes on, or is given up."""
        node = sheet.node(self.tx, row.task_id)
        response = HumanInterventionResponse.from_bytes(row.response)
        chosen = [str(each) for each in response.decision_answers]
        gives_up = response.decision in {"REJECT", "ABORT"} or "give up" in chosen
        if row.cause == "GATE_UNMET":  # whatever comes next, what it made was not good enough
            supersede.withdraw_outputs(self, sheet, row.task_id)
        if row.cause == "SOFT_DENIED" and row.delivery is not None:
            if not gives_up:
                self._override(sheet, node, row.delivery, response, row.answered_by)
                return
            self.tx.run(
                WITHDRAW_DIRECT, id=row.delivery, at=self.at, details=f"{response.decision} by {row.answered_by}"
            )
        if gives_up:
            self.fail_idle_task(
                sheet,
                row.task_id,
                row.state,
                "GIVEN_UP",
                reason=task_words.DECIDED_BY(decision=response.decision, by=row.answered_by),
            )
        elif "skip" in chosen:
            ends: Ends = deque()
            self._skip(sheet, row.task_id, "DEPENDENCY_SKIP", f"skipped by {row.answered_by}", ends, state=row.state)
            self._settle_all(sheet, ends)
        elif (
            row.cause == "DEPENDENCY_REPLAN"
        ):  # what it needs is not there: it does not run before there is another plan
            request_id = questions.ask_while_replanning(self.tx, sheet, node, at=self.at)
            reason = task_words.WANTS_PLAN(by=row.answered_by)
            about = {"plan_id": sheet.plan_id, "task_id": row.task_id}
            self.tx.run(NOTE_REQUEST, **about, request_id=request_id, **to_columns(reason))
        else:
            self._go_on(sheet, node, row.state, row.cause, chosen)

    def fail_idle_task(
        self,
        sheet: PlanDefinition,
        task_id: str,
        state: State,
        cause: Cause,
        *,
        reason: str,
        gates: Sequence[dict[str, Any]] = (),
    ) -> None:
        """A task that nobody runs has failed; whoever waited for it follows its own policy."""
        self.move_task(sheet, task_id, state, cause, reason=reason, gates=gates)
        self.count(sheet.plan_id, "failed")
        self._settle(sheet, task_id, "FAILED", cause)

    def hold_for_override(self, sheet: PlanDefinition, node: Node, denied: CheckpointDecision) -> None:
        """A checkpoint wants the override of an operator before a task begins."""
        why = join(denied.reasons)
        request_id = self._ask_to_override(sheet, node, f"{denied.checkpoint} holds {node.task_id} up: {why}")
        gates = [denied.as_json()]
        self.move_task(sheet, node.task_id, "READY", "SOFT_DENIED", reason=why, request_id=request_id, gates=gates)

    def _ask_to_override(self, sheet: PlanDefinition, node: Node, title: str) -> str:
        return questions.ask_about_task(
            self.tx, sheet, node, "APPROVAL", title, "", ("override", "give up"), at=self.at
        )

    def _override(
        self, sheet: PlanDefinition, node: Node, delivery: int, response: HumanInterventionResponse, by: str
    ) -> None:
        """An operator lets a task begin that a checkpoint held up, for exactly the reasons that were shown."""
        about = {"plan_id": sheet.plan_id, "task_id": node.task_id}
        chosen = [str(each) for each in response.decision_answers]
        if response.decision != "APPROVE" and "override" not in chosen:
            row = self.tx.run(ENGINE_TASK, **about)[0]
            reason = read_column(row.reason, row.reason_message)
            request_id = self._ask_to_override(sheet, node, f"{node.task_id} is still held up: {reason}")
            self.tx.run(NOTE_REQUEST, **about, request_id=request_id, **to_columns(reason))
            return
        denials.override(self.tx, sheet.plan_id, node.task_id, by=by, why=response.notes or "")
        self.requeue_held_task(sheet.plan_id, node.task_id, delivery)

    def requeue_held_task(self, plan_id: str, task_id: str, delivery: int) -> None:
        """Put a task that a checkpoint holds up back into its agent's queue; the checkpoint looks at it again."""
        queued = delivery if self.is_running(plan_id) else None
        about = {"plan_id": plan_id, "task_id": task_id, "queued": queued}
        for (agent_id,) in self.tx.run(REQUEUE_TASK, **about, at=self.at):
            self.agents[agent_id] = None

    def _go_on(
        self, sheet: PlanDefinition, node: Node, state: State, cause: Cause | None, chosen: Sequence[str]
    ) -> None:
        """Make the next command of a task that a person let go on. What failed before it is done without, if so said.

        A person may say that a task runs although one before it failed. Every other input that is required has to be
        there: what is missing is asked for.
        """
        candidates = inputs.find_candidates(self.tx, sheet, node, given=True)
        node = input_selection.adapt_to_given_files(node, candidates)
        if cause == "INPUTS_AMBIGUOUS":
            candidates = input_selection.apply_choices(candidates, chosen)
        final = frozenset(node.depends_on)
        without_failed = cause == "DEPENDENCY_BLOCK"
        picked = (input_selection.pick_available if without_failed else input_selection.pick_inputs)(
            node, candidates, final=final
        )
        moved: Cause = "DECIDED" if state == "BLOCKED_WAITING_REVIEW" else "ANSWERED"
        match picked:
            case PickedInputs():
                self.queue_command(sheet, node, picked, state, moved)
            case AmbiguousInput():
                self._ask_which(sheet, node, picked, state)
            case MissingInputs() if self._any_open(sheet, node.depends_on):  # another version of it is being made
                self.move_task(sheet, node.task_id, state, moved)
                supersede.wait_for_inputs(self, sheet, node.task_id)
            case MissingInputs(names=names):
                request_id = questions.ask_for_files(self.tx, sheet, node, names, at=self.at)
                about = {"plan_id": sheet.plan_id, "task_id": node.task_id, "request_id": request_id}
                self.tx.run(NOTE_REQUEST, **about, **to_columns(task_words.WAITS_FOR(names=", ".join(names))))

    def _meet(self, sheet: PlanDefinition, task_id: str) -> None:
        spec = sheet.spec(self.tx, task_id)
        if spec.last:
            return
        if spec.followers and self._held is not None and self.lightly:
            self._unmet.update([(sheet.plan_id, each) for each in spec.followers])
            self._held += [(sheet, each, True) for each in spec.followers]
            return
        for dependant, unmet, state, delivery in self.tx.run(MEET, plan_id=sheet.plan_id, task_id=task_id):
            if unmet == 0 and state == "PENDING":
                self._due(sheet, dependant, first=delivery is None)

    def mark_all_ended(self, ended: Sequence[tuple[PlanDefinition, str, Cause]]) -> None:
        """Let everything continue that waited for tasks whose turns ended.

        The same as `mark_ended` for each of them, except that what they make ready is handled together.
        """
        held: list[tuple[PlanDefinition, str, bool]] = []
        self._held = held
        for sheet, task_id, cause in ended:
            self.mark_ended(sheet, task_id, cause)
        self._held = None
        room = self.room
        self.has_more_due = self.has_more_due or len(held) > room
        for sheet, task_id, _ in held[room:]:
            self._meet_now(sheet, task_id)
        due = [(sheet, sheet.node(self.tx, task_id), first) for sheet, task_id, first in held[:room]]
        picked = [self.pick_inputs(sheet, node) for sheet, node, _ in due]
        for (sheet, node, first), each in zip(due, picked, strict=True):
            if not self.is_ordered(sheet, node.task_id):
                self._considered(sheet, node, each, first=first)

    def _due(self, sheet: PlanDefinition, task_id: str, *, first: bool = False) -> None:
        if self._held is not None:
            self._held.append((sheet, task_id, first))
        elif not self.is_full:
            self.order_if_ready(sheet, task_id, first=first)
        else:
            self.has_more_due = True

    def _ask_which(self, sheet: PlanDefinition, node: Node, unclear: AmbiguousInput, state: State) -> None:
        request_id = questions.ask_which_artifact(self.tx, sheet, node, unclear, at=self.at)
        self.move_task(sheet, node.task_id, state, "INPUTS_AMBIGUOUS", reason=unclear.why, request_id=request_id)

    def queue_next_command(self, sheet: PlanDefinition, node: Node, cause: Cause) -> None:
        """Make the next command of a task whose last one ended."""
        picked = self.pick_inputs(sheet, node)
        if not isinstance(picked, PickedInputs):
            picked = PickedInputs(inputs=(), sources={}, absent=())
        self.queue_command(sheet, node, picked, "RUNNING", cause)

    def _ask_whether(self, sheet: PlanDefinition, node: Node, why: str, state: State) -> None:
        request_id = questions.ask_whether_to_run(self.tx, sheet, node, why, at=self.at)
        reason = task_words.TO_DECIDE(why=why)
        self.move_task(sheet, node.task_id, state, "DEPENDENCY_BLOCK", reason=reason, request_id=request_id)

    def ask_person(self, sheet: PlanDefinition, node: Node, title: str) -> str:
        """Ask a person what to do with a task that waits for that; the question."""
        request_id = questions.ask_whether_to_retry(self.tx, sheet, node, title, at=self.at)
        self.tx.run(
            NOTE_REQUEST, plan_id=sheet.plan_id, task_id=node.task_id, request_id=request_id, **to_columns(title)
        )
        return request_id

    def _ask_for_plan(self, sheet: PlanDefinition, node: Node, failed: str, state: State) -> None:
        request_id = questions.ask_for_new_plan(self.tx, sheet, node, failed, at=self.at)
        why = task_words.PLAN_NEEDED(task=failed)
        self.move_task(sheet, node.task_id, state, "DEPENDENCY_REPLAN", reason=why, request_id=request_id)
