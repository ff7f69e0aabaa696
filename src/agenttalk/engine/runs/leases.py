"""Leases tasks to agents: lease, prompt and inputs in one transaction, within the concurrency limits of plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from typing import Any, Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.engine.agents import inputs as plan_inputs
from agenttalk.engine.budgets.account_waits import AccountWaits
from agenttalk.engine.budgets.used_budgets import Budgets
from agenttalk.engine.core.slots import Slots
from agenttalk.engine.plans import commands, transitions
from agenttalk.engine.plans.commands import PreparedCommand
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction, make_task_changed_error
from agenttalk.engine.runs import account_holds, checkpoints
from agenttalk.engine.runs import attempt as run_attempt
from agenttalk.engine.runs.attempt import AttemptBuilder
from agenttalk.engine.runs.checkpoints import PLAIN
from agenttalk.ports.agents import InputContent
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, ENGINE_TASK, EngineTaskRow
from agenttalk.ports.statements.proof import CONSUMED_AT
from agenttalk.ports.statements.runs import (
    AT_WORK_IN,
    LEASE_TASK,
    NEXT_TASK,
    NEXT_TASK_APART,
    RUNNING_PLAN,
    START_FIRST,
    START_TASK,
    TAKE_DELIVERY,
    NextTaskRow,
)
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import Tx, Value
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.core.task_states import Cause
from agenttalk.rules.messages.leases import TurnHistory
from agenttalk.rules.plans.input_selection import PickedInputs
from agenttalk.rules.proof.checkpoints import CheckpointDecision
from agenttalk.rules.text import task_words
from agenttalk.rules.text.catalogue import read_column
from agenttalk.rules.text.message import mentions

_REMEMBERED: Final = 10_000
"""Commands in queues."""
_ASKED: Final = 8
"""Waiting agents that may try when a turn of a plan has ended. One of them gets the place."""


class PlanConcurrency:
    """Agents that wait for a place in a plan whose `max_running` is reached.

    It is kept in memory alone: every look asks all agents that have something in their queue.
    """

    def __init__(self) -> None:
        self._held: dict[str, dict[str, None]] = {}
        self._taken_up: set[str] = set()
        self.others: set[str] = set()
        """Plans that this engine does not run: an engine that was started for one plan leaves earlier plans alone."""

    def ignore_plans(self, plans: Iterable[str]) -> None:
        """Begin nothing of these plans, except for those that were adopted or are adopted later."""
        self.others.update(set(plans) - self._taken_up)

    def adopt_plan(self, plan_id: str) -> None:
        """Run a plan here, also if it was ignored."""
        self._taken_up.add(plan_id)
        self.others.discard(plan_id)

    def add_waiting_agent(self, plans: Iterable[str], agent_id: str) -> None:
        """Note that an agent could begin if one of these plans had a place."""
        for plan_id in (each for each in plans if each not in self.others):
            self._held.setdefault(plan_id, {})[agent_id] = None

    def pop_waiting_agents(self, ended: Iterable[str]) -> list[str]:
        """Remove and return some agents that may begin, because turns of these plans have ended."""
        found: list[str] = []
        for plan_id in ended if self._held else ():
            held = self._held.get(plan_id, {})
            for agent_id in list(islice(held, _ASKED)):
                held.pop(agent_id, None)
                found.append(agent_id)
        return found


def is_full(moves: PlanTransaction, plan_id: str) -> bool:
    """Whether `max_running` of a plan is reached, with the tasks that this transaction leased."""
    limits = moves.definitions.load(moves.tx, plan_id).limits
    if limits is None or limits.max_running is None:
        return False
    [(at_work,)] = moves.tx.run(AT_WORK_IN, plan_id=plan_id)
    return bool(at_work >= limits.max_running)


@dataclass(frozen=True, slots=True)
class LeaseContext:
    """Data that all leases of this process share."""

    owner: str
    """The identity of this process, as leases store it."""
    root: str
    """The path of the root, for paths in prompts."""
    slots: Slots
    purse: Budgets = field(default_factory=Budgets)
    """Budgets that tasks share."""
    queued: dict[tuple[str, int], PreparedCommand] = field(default_factory=dict)
    """A cache of queued commands, by board and delivery, so that they are not read again."""
    crowds: PlanConcurrency = field(default_factory=PlanConcurrency)
    """Agents that wait for a place in a full plan."""
    accounts: AccountWaits | None = None
    """Accounts that take no work for a time."""

    def remember(self, board: str, orders: Mapping[int, PreparedCommand]) -> None:
        """Remember commands whose queueing is committed."""
        if len(self.queued) > _REMEMBERED:
            self.queued.clear()
        self.queued.update({(board, delivery): order for delivery, order in orders.items()})


def lease_next_tasks(moves: PlanTransaction, desk: LeaseContext, agents: Iterable[str]) -> list[LeasedAttempt]:
    """Lease the first task in the queue of each free agent, also of agents that got no slot before."""
    granted: list[LeasedAttempt] = []
    tickets: dict[str, int] = {}
    going: dict[str, bool] = {}
    """Whether the tasks of a plan may begin, for the plans that were checked."""
    try:
        while seated := _take_tickets(desk, agents):
            tickets |= seated
            # One query for all queues, and before this transaction writes: a read of a table flushes the statements
            # that wait for it.
            queues = _queues(moves, seated)  # before anything is written
            _ask_which_go_on(moves, going)
            for agent_id, ticket in seated.items():
                given = _next(moves, desk, agent_id, ticket, queues, going)
                if given is not None:
                    granted.append(given)
                else:
                    desk.slots.release(agent_id, tickets.pop(agent_id))
            agents = ()
    except BaseException:
        # Slots are kept in memory, so a rollback does not free them. Those of committed leases are freed when their
        # turns end.
        for agent_id, ticket in tickets.items():
            desk.slots.release(agent_id, ticket)
        raise
    return granted


def _queues(moves: PlanTransaction, agents: Iterable[str]) -> dict[str, list[NextTaskRow]]:
    """Read the first task in the queue of each agent."""
    found: dict[str, list[NextTaskRow]] = {each: [] for each in agents}
    for row in moves.tx.run_each(NEXT_TASK, [{"agent_id": each} for each in found]):
        found[row.agent_id].append(row)
    return found


def _ask_which_go_on(moves: PlanTransaction, going: dict[str, bool]) -> None:
    """Check in one query which plans run, of those for which this transaction made commands."""
    plans = {each[0].plan_id for made in moves.orders.values() for each in made} - going.keys()
    going.update(dict.fromkeys(plans, False))
    for (plan_id,) in moves.tx.run_each(RUNNING_PLAN, [{"plan_id": each} for each in plans]):
        going[plan_id] = True


def _take_tickets(desk: LeaseContext, agents: Iterable[str]) -> dict[str, int]:
    """Take slots for the agents that are free, also for those that got none before. Returns their tickets."""
    found = {}
    for agent_id in chain(agents, iter(desk.slots.pop_refused, None)):
        ticket = desk.slots.acquire(agent_id)
        if ticket is not None:
            found[agent_id] = ticket
    return found


def _next(
    moves: PlanTransaction,
    desk: LeaseContext,
    agent_id: str,
    ticket: int,
    queues: dict[str, list[NextTaskRow]],
    going: dict[str, bool],
) -> LeasedAttempt | None:
    """Lease the first task in an agent's queue, or a command of this transaction if that is more urgent.

    `queues` are the first of each queue, as far as nothing has changed since.
    """
    full = list(desk.crowds.others)
    """Plans that are ignored or full."""
    while True:
        rows = _first_queued(moves, agent_id, queues, full)
        made = _first_made(moves, agent_id, going, full)
        if made is not None and rows and made[0].priority >= rows[0].priority:
            made = None
        if made is None and not rows:
            desk.crowds.add_waiting_agent(full, agent_id)
            return None
        plan_id = made[0].plan_id if made is not None else rows[0].plan_id
        if is_full(moves, plan_id):
            full.append(plan_id)
            continue
        if desk.accounts is not None and account_holds.is_held(moves, desk.accounts, plan_id, agent_id):
            if made is not None:
                moves.orders[agent_id].remove(made)
                moves.enqueue_at_once(made[0], made[2])
                moves.note_due_tasks()
            account_holds.hold_or_hand_over(moves, desk.accounts, plan_id, agent_id)
            full.append(plan_id)
            continue
        if made is not None:
            moves.orders[agent_id].remove(made)
            given = _start(moves, desk, made, ticket)
        else:
            given = _resume(moves, desk, agent_id, rows[0], ticket)
        if given is not None:
            return given
        queues.clear()  # a checkpoint denied it and changed rows: read the queue anew


def _first_queued(
    moves: PlanTransaction, agent_id: str, queues: dict[str, list[NextTaskRow]], full: Sequence[str]
) -> list[NextTaskRow]:
    """Read the first task in an agent's queue, of the plans that are not full."""
    if full:
        return moves.tx.run(NEXT_TASK_APART, agent_id=agent_id, plans=wire.to_text(list(full)))
    return queues[agent_id] if agent_id in queues else moves.tx.run(NEXT_TASK, agent_id=agent_id)


def _first_made(
    moves: PlanTransaction, agent_id: str, going: dict[str, bool], full: Sequence[str]
) -> tuple[PreparedCommand, PickedInputs, Cause] | None:
    """Find the most urgent command that this transaction made for an agent; of several, the oldest."""
    made = []
    for each in moves.orders.get(agent_id, ()):
        plan_id = each[0].plan_id
        if plan_id not in going:
            going[plan_id] = moves.is_running(plan_id)
        if going[plan_id] and plan_id not in full:
            made.append(each)
    return min(made, key=lambda each: each[0].priority, default=None)


def _start(
    moves: PlanTransaction, desk: LeaseContext, made: tuple[PreparedCommand, PickedInputs, Cause], ticket: int
) -> LeasedAttempt | None:
    """Lease a task for a command that this transaction made; None when a checkpoint denies it."""
    order, picked, cause = made
    tx, command = moves.tx, order.command
    task = None if order.first else tx.run(ENGINE_TASK, plan_id=order.plan_id, task_id=command.task_id)[0]
    sheet = moves.definitions.load(tx, order.plan_id)
    sources = picked.sources if picked.sources or not (picked.inputs or command.reexecute) else None
    if sources is not None:
        inputs, used = plan_inputs.read_picked_files(moves, command, sources)
    else:
        inputs, used, _ = plan_inputs.read_command_inputs(tx, sheet, command, order.agent_id, moves.now)
    attempt = _prepare(moves, desk, sheet, order.agent_id, command, task, inputs, used)
    denied = _decide_before_turn(moves, desk, sheet, attempt, order.message_id)
    if denied is not None:
        checkpoints.hold_back(moves, sheet, attempt.node, moves.enqueue_at_once(order, cause), denied)
        return None
    prompt = attempt.render_prompt()
    sha256 = wire.sha256(prompt.encode("utf-8", "replace"))
    delivery = commands.deliver_at_once(tx, order, at=moves.now, prompt_sha256=sha256)
    # The statement counts the epoch up from the one that the row had when it was read. If another transaction has
    # leased the task since, no row matches, and the whole transaction is undone.
    starts = START_FIRST if moves.pop_unmet(order.plan_id, command.task_id) else START_TASK
    write_lease(tx, starts, attempt, moves.now, delivery=delivery, epoch=attempt.epoch - 1)
    moves.count(order.plan_id, "sent", "delivered")
    run_attempt.record_start(moves, attempt, order.message_id, sha256, used, order.line)
    return attempt.lease_to(prompt, delivery, order.message_id, ticket, moves.now)


def _resume(
    moves: PlanTransaction, desk: LeaseContext, agent_id: str, row: NextTaskRow, ticket: int
) -> LeasedAttempt | None:
    """Lease a task for the command in its agent's queue, for the first time or again.

    Returns None when inputs are gone, for which the task waits then, or when a checkpoint denies it.
    """
    tx = moves.tx
    sheet = moves.definitions.load(tx, row.plan_id)
    message_id, command = _read_command(tx, desk, row.delivery)
    inputs, used, lost = plan_inputs.read_command_inputs(tx, sheet, command, agent_id, moves.now)
    if lost:
        transitions.wait_for_inputs(moves, sheet, row.task_id, row.delivery)
        return None
    attempt = _prepare(moves, desk, sheet, agent_id, command, row, inputs, used)
    denied = _decide_before_turn(moves, desk, sheet, attempt, message_id)
    if denied is not None:
        checkpoints.hold_back(moves, sheet, attempt.node, row.delivery, denied)
        return None
    attempt.number = row.attempt + 1
    write_lease(tx, LEASE_TASK, attempt, moves.now)
    if row.reason is not None:
        attempt.sent_back = _read_sent_back(row)
    prompt = attempt.render_prompt()
    sha256 = wire.sha256(prompt.encode("utf-8", "replace"))
    taken: dict[str, Value] = {"id": row.delivery, "at": moves.now, "prompt_sha256": sha256}
    if row.attempt:
        [(consumed_at,)] = tx.run(TAKE_DELIVERY, **taken)
    else:
        consumed_at = moves.now
        tx.run_later(TAKE_DELIVERY, taken, partial(make_task_changed_error, row.task_id))
    run_attempt.record_start(moves, attempt, message_id, sha256, used)
    return attempt.lease_to(prompt, row.delivery, message_id, ticket, consumed_at)


def _read_sent_back(row: NextTaskRow) -> str:
    """Read why the last answer to the command was sent back; empty if it was not, and its turn was not interrupted."""
    reason = read_column(row.reason, row.reason_message) or ""
    told = bool(row.sent_back) or mentions(reason, task_words.INTERRUPTED)
    return reason if told and not provider_limits.read_wait(reason) else ""


def write_lease(tx: Tx, statement: Statement[Any], built: AttemptBuilder, at: str, **columns: Value) -> None:
    """Write the lease of an attempt into the row of its task: the one place that does, for tasks and for commands.

    Raises a conflict, now or when the statements that wait are run, if the task is not free any more.
    """
    row = built.lease_row(at)
    row.update(columns)
    tx.run_later(statement, row, partial(make_task_changed_error, built.command.task_id))


def take_over_attempt(
    moves: PlanTransaction,
    desk: LeaseContext,
    agent_id: str,
    delivery: int,
    inputs: tuple[InputContent, ...],
    ticket: int,
    task: EngineTaskRow,
) -> LeasedAttempt:
    """Take over the attempt that is under way, under a new epoch: this process verifies what it left."""
    message_id, command = _read_command(moves.tx, desk, delivery)
    sheet = moves.definitions.load(moves.tx, command.plan_id)
    attempt = _prepare(moves, desk, sheet, agent_id, command, task, inputs, ())
    attempt.number = task.attempt
    granted = _lease_again(moves, desk, sheet, attempt, message_id, delivery, ticket, prompt="")
    return replace(granted, job=replace(granted.job, again=True))


def take_back_attempt(
    moves: PlanTransaction, desk: LeaseContext, agent_id: str, delivery: int, ticket: int, task: EngineTaskRow
) -> LeasedAttempt | None:
    """Take back the attempt that a remote agent has, as it was; None if its inputs are gone."""
    message_id, command = _read_command(moves.tx, desk, delivery)
    sheet = moves.definitions.load(moves.tx, command.plan_id)
    inputs, used, lost = plan_inputs.read_command_inputs(moves.tx, sheet, command, agent_id, moves.now)
    if lost:
        return None
    attempt = _prepare(moves, desk, sheet, agent_id, command, task, inputs, used)
    attempt.epoch, attempt.number, attempt.lease = task.epoch, task.attempt, task.lease or ""
    attempt.token = ""  # the store keeps only its hash
    return _lease_again(moves, desk, sheet, attempt, message_id, delivery, ticket, attempt.render_prompt())


def _lease_again(
    moves: PlanTransaction,
    desk: LeaseContext,
    sheet: PlanDefinition,
    attempt: AttemptBuilder,
    message_id: str,
    delivery: int,
    ticket: int,
    prompt: str,
) -> LeasedAttempt:
    """Lease an attempt again that began before. Its task counts as running already, so `pre-act` cannot deny it."""
    passage = checkpoints.decide_before_turn(
        moves, desk.purse, sheet, attempt.node, attempt.command, message_id, (), taken_over=True
    )
    attempt.passage = passage.with_lease(attempt.lease)
    consumed_at = moves.tx.run(CONSUMED_AT, id=delivery)[0].consumed_at or moves.now
    return attempt.lease_to(prompt, delivery, message_id, ticket, consumed_at)


def _prepare(
    moves: PlanTransaction,
    desk: LeaseContext,
    sheet: PlanDefinition,
    agent_id: str,
    command: Command,
    task: NextTaskRow | EngineTaskRow | None,
    inputs: tuple[InputContent, ...],
    used: Sequence[str],
) -> AttemptBuilder:
    """Prepare the next attempt at a task, under the next epoch. `task` is None if the task never had a command."""
    epoch = task.epoch + 1 if task is not None else 1
    attempt = run_attempt.prepare_attempt(moves, desk.owner, desk.root, sheet, agent_id, command, epoch, inputs, used)
    if task is not None:
        attempt.history, attempt.fact = TurnHistory(crashes=task.retries, bad_scores=task.sent_back), task.fact
    return attempt


def _decide_before_turn(
    moves: PlanTransaction, desk: LeaseContext, sheet: PlanDefinition, attempt: AttemptBuilder, message_id: str
) -> CheckpointDecision | None:
    """Have the checkpoints before a turn decide about an attempt. Returns the decision that denies it, if one does."""
    passage = checkpoints.decide_before_turn(moves, desk.purse, sheet, attempt.node, attempt.command, message_id, ())
    if passage is PLAIN:  # most tasks have nothing that a checkpoint could deny
        return None
    if passage.denied is None:
        attempt.passage = passage.with_lease(attempt.lease)
    return passage.denied


def _read_command(tx: Tx, desk: LeaseContext, delivery: int) -> tuple[str, Command]:
    """Read the command of a delivery, from memory if it is there."""
    known = desk.queued.pop((tx.board, delivery), None)
    if known is not None:
        return known.message_id, known.command
    [(message_id, envelope)] = tx.run(COMMAND_OF_DELIVERY, id=delivery)
    return message_id, CommandEnvelope.model_validate_json(bytes(envelope)).payload.command
