"""The changes that one transaction makes to tasks: states, commands, facts, counts, and the ends of plans."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import questions
from agenttalk.engine.plans import commands, releases
from agenttalk.engine.plans.commands import PreparedCommand
from agenttalk.engine.plans.definition import DefinitionCache, PlanDefinition
from agenttalk.engine.plans.rework_rounds import ReexecutionOrder
from agenttalk.ports.statements.inbox import MARK_ARTIFACT_INJECTED
from agenttalk.ports.statements.messages import JOURNAL_GROWN
from agenttalk.ports.statements.people import REQUEST
from agenttalk.ports.statements.plans import (
    COUNT_RUN,
    ENGINE_TASK,
    PUT_DELIVERY,
    QUEUE_FIRST,
    QUEUE_TASK,
    READY_TASK,
    REASSIGN_TASK,
    RUN_STATE,
    SET_ENGINE_TASK,
    SET_RUN_STATE,
)
from agenttalk.ports.statements.proof import WATCH_BRANCH
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.budgets.provider_limits import AccountWait
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans.input_selection import InputCandidate, PickedInputs
from agenttalk.rules.text.catalogue import to_columns, with_messages

AT_ONCE: Final = 64
"""Tasks that one transaction makes ready."""
KnownOutputs: TypeAlias = "dict[tuple[str, str], list[InputCandidate]]"
"""All outputs of tasks, by plan and task."""
"""How a task ends, as plans count it."""


class DueTask(NamedTuple):
    """A task that nothing holds up any more."""

    plan: PlanDefinition
    task_id: str
    first: bool
    """Whether it never had a command."""


@dataclass(slots=True)
class PlanTransaction:
    """One transaction on the tasks of a board: what it has changed so far, and what it still has to write.

    What follows from a change is decided by functions on it: `transitions`, `inputs`, `control`, `reset`, `revision`.
    """

    tx: Tx
    deps: Deps
    definitions: DefinitionCache
    now: str
    agents: dict[str, None] = field(default_factory=dict)
    """Agents whose queue has something new."""
    in_folders: bool = False
    """Whether the router has to bring a message to an inbox, or to take one from there."""
    has_more_due: bool = False
    """Whether tasks are due that did not fit into this transaction."""
    orders: dict[str, deque[tuple[PreparedCommand, PickedInputs, Cause]]] = field(default_factory=dict)
    """Commands that this transaction made, by agent, with the inputs that were picked. They are in no queue yet."""
    queued: dict[int, PreparedCommand] = field(default_factory=dict)
    """Commands that this transaction put into queues, by delivery."""
    closed: list[str] = field(default_factory=list)
    """Plans that have ended."""
    closing: list[str] = field(default_factory=list)
    """Plans without an open task, whose proofs are checked once more before they end."""
    revoked: list[str] = field(default_factory=list)
    """Leases of turns that have to end, because their inputs were replaced."""
    account_waits: list[AccountWait] = field(default_factory=list)
    """Waits of accounts that begin with this transaction."""
    undecided: bool = False
    """Whether a release has to be decided now."""
    made: KnownOutputs = field(default_factory=dict)
    """All outputs of tasks that ended in this transaction, where it is certain that there are no others."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """The contents of these outputs, by hash."""
    gathered: list[DueTask] | None = None
    """Due tasks, while they are gathered so that they are handled together."""
    _lightly: bool = False
    """Whether the gathered tasks are assumed to be PENDING. If one is not, the whole transaction is undone."""
    _counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Ended tasks and sent messages of each plan."""
    _arrived: dict[tuple[str, str], tuple[dict[str, Value], object]] = field(default_factory=dict)
    """Outputs that this transaction delivered, by message and receiver: their rows, and marks of rows that wait."""
    _unmet: set[tuple[str, str]] = field(default_factory=set)
    """Tasks whose rows do not say yet that their only dependency has ended. Their next write has to say it, too."""
    _ordered: set[tuple[str, str]] = field(default_factory=set)
    """Tasks that this transaction made a command for. The row of one that was PENDING shows it only at the end."""

    @property
    def room(self) -> int:
        """How many more tasks this transaction should make ready."""
        return max(0, AT_ONCE - len(self._ordered))

    def is_ordered(self, plan: PlanDefinition, task_id: str) -> bool:
        """Whether this transaction made a command for a task."""
        return (plan.plan_id, task_id) in self._ordered

    def note_due_tasks(self) -> None:
        """Have another pass made: tasks are due that this transaction does not make ready."""
        self.has_more_due = True

    def note_inbox_change(self) -> None:
        """Have the router woken: an inbox has to change."""
        self.in_folders = True

    def start_gathering(self, *, lightly: bool) -> None:
        """Gather tasks that become due. With `lightly`, those that wait for nothing else are not read for that."""
        self.gathered, self._lightly = [], lightly

    def gather_followers(self, plan: PlanDefinition, followers: Sequence[str]) -> bool:
        """Gather tasks that wait for nothing else, without reading their rows. False if that is not allowed now."""
        if self.gathered is None or not self._lightly:
            return False
        self._unmet.update([(plan.plan_id, task_id) for task_id in followers])
        self.gathered += [DueTask(plan, task_id, True) for task_id in followers]
        return True

    def stop_gathering(self) -> list[DueTask]:
        """Return the gathered tasks."""
        gathered, self.gathered = self.gathered or [], None
        return gathered

    def queue_command(
        self,
        plan: PlanDefinition,
        node: Node,
        picked: PickedInputs,
        state: State,
        cause: Cause,
        *,
        first: bool = False,
        rework: ReexecutionOrder | None = None,
        agent_id: str | None = None,
    ) -> None:
        """Make the task's next command, which may be its `first`: for its agent at once, or for the agent's queue.

        `agent_id` is the agent that does it instead of the one that the DAG names.
        """
        task_states.move(state, cause)
        if state in task_states.BLOCKED:
            _close_question(self, plan.plan_id, node.task_id)
        self._ordered.add((plan.plan_id, node.task_id))
        kind = self.deps.kinds.get(self.tx.board)
        if kind is not None and state in task_states.FINAL:
            kind.closed(self.tx, node.task_id, "", self.now)
        if state != "PENDING":  # what follows in this transaction may read it
            self.tx.run(READY_TASK, plan_id=plan.plan_id, task_id=node.task_id, cause=cause, at=self.now)
        if agent_id not in {None, node.assigned_agent_id}:
            node = node.model_copy(update={"assigned_agent_id": agent_id})
            self.tx.run(REASSIGN_TASK, plan_id=plan.plan_id, task_id=node.task_id, agent_id=agent_id)
        order = commands.prepare_command(self.tx, plan, node, picked.inputs, at=self.now, first=first, rework=rework)
        if order.in_folder:
            self._put_into_queue(order, cause, commands.post_to_inbox(self.tx, order, at=self.now))
            self.in_folders = True
        else:
            self.orders.setdefault(order.agent_id, deque()).append((order, picked, cause))
            self.agents[order.agent_id] = None

    def pop_unmet(self, plan_id: str, task_id: str) -> bool:
        """Whether the row of a task still has to say that its only dependency ended. The caller writes that."""
        is_unmet = bool(self._unmet) and (plan_id, task_id) in self._unmet
        if is_unmet:
            self._unmet.remove((plan_id, task_id))
        return is_unmet

    def _put_into_queue(self, order: PreparedCommand, cause: Cause, delivery: int) -> None:
        unmet = self.pop_unmet(order.plan_id, order.command.task_id)
        self.tx.run_later(
            QUEUE_FIRST if unmet else QUEUE_TASK,
            {
                "plan_id": order.plan_id,
                "task_id": order.command.task_id,
                "cause": cause,
                "delivery": delivery,
                "queued": None if order.in_folder else delivery,
                "attempt": 0,
                "at": self.now,
            },
            partial(make_task_changed_error, order.command.task_id) if unmet else None,
        )

    def enqueue_at_once(self, order: PreparedCommand, cause: Cause) -> int:
        """Put a command that this transaction made into its agent's queue at once. Return its delivery."""
        delivery = commands.enqueue(self.tx, order, at=self.now)
        self._put_into_queue(order, cause, delivery)
        self.count(order.plan_id, "sent", "delivered")
        self.append_journal_fact("commands.queued", order.plan_id, _lines([order.line]))
        return delivery

    def record_arrival(self, message_id: str, receiver: str, row: dict[str, Value]) -> None:
        """Record that an output has reached an agent."""
        self._arrived[message_id, receiver] = (row, self.tx.run_later(PUT_DELIVERY, row))

    def mark_injected(self, plan_id: str, message_id: str, receiver: str) -> None:
        """Record that an agent is given an output that it got; the row of its delivery may still wait."""
        row, mark = self._arrived.get((message_id, receiver), (None, None))
        if row is not None and self.tx.is_waiting(mark):
            row["injected_at"] = self.now
            return
        injected: dict[str, Value] = {
            "plan_id": plan_id,
            "message_id": message_id,
            "receiver": receiver,
            "at": self.now,
        }
        self.tx.run_later(MARK_ARTIFACT_INJECTED, injected)

    def is_running(self, plan_id: str) -> bool:
        """Whether tasks of a plan may begin."""
        return self.tx.run(RUN_STATE, plan_id=plan_id) == [("RUNNING",)]

    def count(self, plan_id: str, *whats: str, number: int = 1) -> None:
        """Count ended tasks (completed, failed, skipped) and messages (sent, delivered)."""
        counts = self._counts[plan_id]
        for what in whats:
            counts[what] += number

    def append_journal_fact(self, kind: str, plan_id: str, body: bytes) -> int:
        """Append a fact that holds lines of the plan's journal, in its canonical form. Return its number."""
        seq = self.tx.record(kind, records.journal_subject(plan_id), body)
        self._counts[plan_id]["journal"] = seq
        return seq

    def move_task(
        self,
        plan: PlanDefinition,
        task_id: str,
        state: State,
        cause: Cause,
        *,
        reason: str | None = None,
        missing: Sequence[str] = (),
        request_id: str | None = None,
        gates: Sequence[Mapping[str, object]] = (),
    ) -> State:
        """Move a task that no turn runs; `gates` are the decisions that led to it."""
        new = task_states.move(state, cause)
        if state in task_states.BLOCKED:
            _close_question(self, plan.plan_id, task_id, keep=request_id)
        self.tx.run(
            SET_ENGINE_TASK,
            plan_id=plan.plan_id,
            task_id=task_id,
            state=new,
            cause=cause,
            **to_columns(reason),
            missing=wire.write(list(missing)) if missing else None,
            request_id=request_id,
            unproven=0,
            at=self.now,
        )
        kind = self.deps.kinds.get(self.tx.board)
        if kind is not None and new in task_states.FINAL:
            kind.closed(self.tx, task_id, reason or cause.lower(), self.now)
        body: dict[str, object] = {"state": new, "cause": cause, **with_messages({"reason": reason})}
        if gates:
            body["gates"] = list(gates)
        self.tx.record("task.moved", f"{plan.plan_id}/{task_id}", body)
        return new

    def finish(self) -> None:
        """Queue the commands that were not leased, write the counts, and end plans whose tasks have all ended."""
        lines: dict[str, list[str]] = {}
        for order, _, cause in sorted(chain.from_iterable(self.orders.values()), key=lambda made: made[0].message):
            delivery = commands.enqueue(self.tx, order, at=self.now)
            self._put_into_queue(order, cause, delivery)
            self.queued[delivery] = order
            self.count(order.plan_id, "sent", "delivered")
            lines.setdefault(order.plan_id, []).append(order.line)
        for plan_id, own_lines in lines.items():
            self.append_journal_fact("commands.queued", plan_id, _lines(own_lines))
        ended = [row for plan_id, counts in self._counts.items() if (row := self._write_counts(plan_id, counts))]
        for run in self.tx.run_each(COUNT_RUN, ended):
            if run.open or run.plan_id == self.tx.board:  # a board's own run never ends
                continue
            if run.closing:
                self.closing += [run.plan_id] if self.is_running(run.plan_id) else []
            else:
                totals = {"completed": run.completed, "failed": run.failed, "skipped": run.skipped}
                self.end_run(run.plan_id, totals)

    def _write_counts(self, plan_id: str, counts: Counter[str]) -> dict[str, Value] | None:
        """Write the counts of messages. Return those of tasks, if any ended."""
        if counts["journal"]:
            self.tx.run_later(JOURNAL_GROWN, {"plan_id": plan_id, "seq": counts["journal"]})
        if counts["sent"] or counts["delivered"]:
            records.count_messages(self.tx, plan_id, sent=counts["sent"], delivered=counts["delivered"])
        completed, failed, skipped = counts["completed"], counts["failed"], counts["skipped"]
        if not (completed or failed or skipped):
            return None
        ended = {"completed": completed, "failed": failed, "skipped": skipped}
        return {"plan_id": plan_id, "open": -(completed + failed + skipped), **ended}

    def end_run(self, plan_id: str, totals: dict[str, int]) -> None:
        """End a plan without open tasks; `totals` count how they ended. Its release is decided next."""
        if changed := self.tx.run(SET_RUN_STATE, plan_id=plan_id, state="ENDED", at=self.now):
            self.tx.record("plan.ended", plan_id, totals)
            if changed[0].closing:
                self.tx.run(WATCH_BRANCH, plan_id=plan_id, head="")
            self.undecided |= releases.mark_due(
                self.tx, plan_id, self.definitions.load(self.tx, plan_id).policies, at=self.now
            )
            self.closed.append(plan_id)


def make_task_changed_error(task_id: str) -> ConflictError:
    """Make the error that another transaction changed a task meanwhile."""
    return ConflictError(Code.LEASE_LOST, f"task {task_id!r} was changed by another transaction meanwhile")


def _close_question(moves: PlanTransaction, plan_id: str, task_id: str, keep: str | None = None) -> None:
    """Close the question that a task waited for, because it goes on without an answer. `keep` stays open."""
    request_id = moves.tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)[0].request_id
    if request_id is None or request_id == keep:
        return
    rows = moves.tx.run(REQUEST, request_id=request_id)
    if rows and rows[0].state == "open":
        questions.close(moves.tx, request_id, f"{task_id} does not wait for it any more", at=moves.now)


def _lines(lines: Sequence[str]) -> bytes:
    return wire.encode(f'{{"lines":[{",".join(lines)}]}}')
