"""What a transaction writes down of tasks: their states, their commands, facts, counts, and the ends of plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.errors import Code, ConflictError
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import questions
from agenttalk.engine.plans import commands, inputs, releases
from agenttalk.engine.plans.commands import PreparedCommand
from agenttalk.engine.plans.definition import DefinitionCache, PlanDefinition
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
from agenttalk.ports.storage import Tx
from agenttalk.rules.core import task_states
from agenttalk.rules.core.task_states import Cause, State
from agenttalk.rules.plans.input_selection import AmbiguousInput, MissingInputs, PickedInputs
from agenttalk.rules.text.catalogue import to_columns, with_messages

AT_ONCE: Final = 64
"""Tasks that one transaction makes ready."""
_ENDS: Final = ("completed", "failed", "skipped")
"""How a task ends, as plans count it."""


@dataclass(slots=True)
class PlanTransaction(ABC):
    """One transaction: what it has made of tasks so far, and what is still to be written down."""

    tx: Tx
    deps: Deps
    sheets: DefinitionCache
    at: str
    agents: dict[str, None] = field(default_factory=dict)
    """Agents that have something new in their queue."""
    lightly: bool = False
    """Whether rows of tasks may be taken to be as they should. If one is not, all of the transaction is undone."""
    in_folders: bool = False
    """Whether a message has to be brought to an inbox."""
    has_more_due: bool = False
    """Whether tasks are due that did not fit into this transaction."""
    orders: dict[str, deque[tuple[PreparedCommand, PickedInputs, Cause]]] = field(default_factory=dict)
    """Commands that this transaction made, by their agents, and what was picked for them. They are in no queue yet."""
    queued: dict[int, PreparedCommand] = field(default_factory=dict)
    """Commands that this transaction put into queues, by their deliveries."""
    closed: list[str] = field(default_factory=list)
    """Plans that have ended."""
    closing: list[str] = field(default_factory=list)
    """Plans in which nothing is open any more, and which look once more at what was proven before they end."""
    revoked: list[str] = field(default_factory=list)
    """Leases of turns that are to end, because what they were given was replaced."""
    undecided: bool = False
    """Whether a release has to be decided now."""
    made: inputs.KnownOutputs = field(default_factory=dict)
    """All that tasks made which ended in this transaction, as far as it is certain that there is nothing else."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """Contents that came with them, by their hashes."""
    _counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """What became of tasks and messages of each plan."""
    _held: list[tuple[PlanDefinition, str, bool]] | None = None
    """Tasks that are due, while several are gathered."""
    _arrived: dict[tuple[str, str], tuple[dict[str, Any], object]] = field(default_factory=dict)
    """Outputs that this transaction delivered, by message and receiver, and whether their rows still wait."""
    _unmet: set[tuple[str, str]] = field(default_factory=set)
    """Tasks whose first command, or what comes of it, is to say that what they waited for has ended."""
    _ordered: set[tuple[str, str]] = field(default_factory=set)
    """Tasks that this transaction made a command for. Rows of those that were PENDING tell so in the end only."""

    @abstractmethod
    def pick_inputs(self, sheet: PlanDefinition, node: Node) -> PickedInputs | MissingInputs | AmbiguousInput:
        """Fill the inputs of a task with what is there."""

    @abstractmethod
    def apply_failure_policy(self, sheet: PlanDefinition, task_id: str, failed: str) -> None:
        """Have one task that waits for a failed one follow its policy."""

    @property
    def room(self) -> int:
        """How many tasks this transaction should still make ready."""
        return max(0, AT_ONCE - len(self._ordered))

    @property
    def is_full(self) -> bool:
        """Whether this transaction made as many tasks ready as it should."""
        return self.room == 0

    def is_ordered(self, sheet: PlanDefinition, task_id: str) -> bool:
        """Whether this transaction made a command for a task."""
        return (sheet.plan_id, task_id) in self._ordered

    def queue_command(
        self,
        sheet: PlanDefinition,
        node: Node,
        picked: PickedInputs,
        state: State,
        cause: Cause,
        *,
        first: bool = False,
        rework: dict[str, Any] | None = None,
        agent_id: str | None = None,
    ) -> None:
        """Make the task's next command, which may be its `first`: for its agent at once, or for the agent's queue.

        `agent_id` is who does it instead of the one that the DAG names.
        """
        task_states.move(state, cause)
        if state in task_states.BLOCKED:
            self._ask_no_longer(sheet, node.task_id)
        self._ordered.add((sheet.plan_id, node.task_id))
        kind = self.deps.kinds.get(self.tx.board)
        if kind is not None and state in task_states.FINAL:
            kind.closed(self.tx, node.task_id, "", self.at)
        if state != "PENDING":  # what follows in this transaction may look at it
            self.tx.run(READY_TASK, plan_id=sheet.plan_id, task_id=node.task_id, cause=cause, at=self.at)
        if agent_id not in {None, node.assigned_agent_id}:
            node = node.model_copy(update={"assigned_agent_id": agent_id})
            self.tx.run(REASSIGN_TASK, plan_id=sheet.plan_id, task_id=node.task_id, agent_id=agent_id)
        order = commands.prepare_command(self.tx, sheet, node, picked.inputs, at=self.at, first=first, rework=rework)
        if order.in_folder:
            self._put_into_queue(order, cause, commands.post_to_inbox(self.tx, order, at=self.at))
            self.in_folders = True
        else:
            self.orders.setdefault(order.agent_id, deque()).append((order, picked, cause))
            self.agents[order.agent_id] = None

    def pop_unmet(self, plan_id: str, task_id: str) -> bool:
        """Whether the row of a task is still to say that what it waited for has ended. Whoever asks writes that."""
        waits = bool(self._unmet) and (plan_id, task_id) in self._unmet
        if waits:
            self._unmet.remove((plan_id, task_id))
        return waits

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
                "at": self.at,
            },
            make_task_changed_error(order.command.task_id) if unmet else None,
        )

    def enqueue_at_once(self, order: PreparedCommand, cause: Cause) -> int:
        """Put a command that this transaction made into its agent's queue at once; its delivery."""
        delivery = commands.enqueue(self.tx, order, at=self.at)
        self._put_into_queue(order, cause, delivery)
        self.count(order.plan_id, "sent")
        self.count(order.plan_id, "delivered")
        self.append_journal_fact("commands.queued", order.plan_id, _lines([order.line]))
        return delivery

    def record_arrival(self, message_id: str, row: dict[str, Any]) -> None:
        """An output has reached an agent."""
        self._arrived[message_id, row["receiver"]] = (row, self.tx.run_later(PUT_DELIVERY, row))

    def mark_injected(self, plan_id: str, message_id: str, receiver: str) -> None:
        """An agent is given an output that it got; its delivery may have been written down just now."""
        row, mark = self._arrived.get((message_id, receiver), (None, None))
        if row is not None and self.tx.is_waiting(mark):
            row["injected_at"] = self.at
            return
        given: dict[str, Any] = {"plan_id": plan_id, "message_id": message_id, "receiver": receiver, "at": self.at}
        self.tx.run_later(MARK_ARTIFACT_INJECTED, given)

    def is_running(self, plan_id: str) -> bool:
        """Whether tasks of a plan may begin."""
        return self.tx.run(RUN_STATE, plan_id=plan_id) == [("RUNNING",)]

    def count(self, plan_id: str, what: str, number: int = 1) -> None:
        """Count what became of tasks (completed, failed, skipped) and messages (sent, delivered)."""
        self._counts[plan_id][what] += number

    def append_journal_fact(self, kind: str, plan_id: str, body: bytes) -> int:
        """Append a fact that holds lines of the plan's journal, in its canonical form; its number."""
        seq = self.tx.record(kind, records.journal_subject(plan_id), body)
        self._counts[plan_id]["journal"] = seq
        return seq

    def move_task(
        self,
        sheet: PlanDefinition,
        task_id: str,
        state: State,
        cause: Cause,
        *,
        reason: str | None = None,
        missing: Sequence[str] = (),
        request_id: str | None = None,
        gates: Sequence[dict[str, Any]] = (),
    ) -> State:
        """Move a task that nobody runs; `gates` are decisions that led to it."""
        new = task_states.move(state, cause)
        if state in task_states.BLOCKED:
            self._ask_no_longer(sheet, task_id, but=request_id)
        self.tx.run(
            SET_ENGINE_TASK,
            plan_id=sheet.plan_id,
            task_id=task_id,
            state=new,
            cause=cause,
            **to_columns(reason),
            missing=wire.write(list(missing)) if missing else None,
            request_id=request_id,
            at=self.at,
        )
        kind = self.deps.kinds.get(self.tx.board)
        if kind is not None and new in task_states.FINAL:
            kind.closed(self.tx, task_id, reason or cause.lower(), self.at)
        body: dict[str, Any] = {"state": new, "cause": cause, **with_messages({"reason": reason})}
        if gates:
            body["gates"] = list(gates)
        self.tx.record("task.moved", f"{sheet.plan_id}/{task_id}", body)
        return new

    def _ask_no_longer(self, sheet: PlanDefinition, task_id: str, but: str | None = None) -> None:
        """Close the question that a task waited for, if it goes on without an answer; `but` one that still holds."""
        request_id = self.tx.run(ENGINE_TASK, plan_id=sheet.plan_id, task_id=task_id)[0].request_id
        if request_id is None or request_id == but:
            return
        rows = self.tx.run(REQUEST, request_id=request_id)
        if rows and rows[0].state == "open":
            questions.close(self.tx, request_id, f"{task_id} does not wait for it any more", at=self.at)

    def finish(self) -> None:
        """Put what nobody took into queues, write down what was counted, and say of plans that they ended."""
        lines: dict[str, list[str]] = {}
        for order, _, cause in sorted(chain.from_iterable(self.orders.values()), key=_age):
            delivery = commands.enqueue(self.tx, order, at=self.at)
            self._put_into_queue(order, cause, delivery)
            self.queued[delivery] = order
            self.count(order.plan_id, "sent")
            self.count(order.plan_id, "delivered")
            lines.setdefault(order.plan_id, []).append(order.line)
        for plan_id, told in lines.items():
            self.append_journal_fact("commands.queued", plan_id, _lines(told))
        ended = [row for plan_id, counts in self._counts.items() if (row := self._write_counts(plan_id, counts))]
        for still_open, closing, *totals, plan_id in self.tx.run_each(COUNT_RUN, ended):
            if still_open or plan_id == self.tx.board:  # a board's own run never ends
                continue
            if closing:
                self.closing += [plan_id] if self.is_running(plan_id) else []
            else:
                self.end_run(plan_id, dict(zip(_ENDS, totals, strict=True)))

    def _write_counts(self, plan_id: str, counts: Counter[str]) -> dict[str, Any] | None:
        """Write down what was counted of messages; what is to be counted of tasks, if any ended."""
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
        """Nothing of a plan is left to do; `totals` say what became of its tasks. What it ships is decided now."""
        if self.tx.run(SET_RUN_STATE, plan_id=plan_id, state="ENDED", at=self.at):
            self.tx.record("plan.ended", plan_id, totals)
            self.tx.run(WATCH_BRANCH, plan_id=plan_id, head="")
            self.undecided |= releases.mark_due(
                self.tx, plan_id, self.sheets.load(self.tx, plan_id).policies, at=self.at
            )
            self.closed.append(plan_id)


def make_task_changed_error(task_id: str) -> ConflictError:
    """A task is not as it was: somebody else has written it."""
    return ConflictError(Code.LEASE_LOST, f"task {task_id!r} was given to somebody else meanwhile")


def _lines(told: Sequence[str]) -> bytes:
    return wire.encode(f'{{"lines":[{",".join(told)}]}}')


def _age(made: tuple[PreparedCommand, PickedInputs, Cause]) -> int:
    return made[0].message
