"""One attempt at a command: its lease, token and prompt, and the job for its performer."""

from __future__ import annotations

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.model_use import MODEL_DRIVERS
from agenttalk.contracts.plan import Workspace
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.engine.agents import inputs as plan_inputs
from agenttalk.engine.budgets.turn_monitor import TurnMonitor
from agenttalk.engine.plans import rework_rounds
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.leased_attempt import LeasedAttempt
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.engine.runs import checkpoints
from agenttalk.engine.runs.checkpoints import PLAIN, PreTurnDecision
from agenttalk.ports.agents import InputContent, Job
from agenttalk.ports.kinds import KindTask, TaskKind
from agenttalk.ports.statements.messages import MESSAGE_BY_ID
from agenttalk.ports.statements.plans import ENGINE_TASK, EngineTaskRow
from agenttalk.ports.storage import Value
from agenttalk.rules.agents import results
from agenttalk.rules.budgets import stuck
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.core.tokens import attempt_token, token_hash
from agenttalk.rules.messages.leases import NO_TURNS, TurnHistory, time_limit
from agenttalk.rules.prompts import reexecution
from agenttalk.rules.prompts.execute import (
    Handover,
    WorkLimits,
    render_execute_prompt,
    render_remote_note,
    render_sections_prompt,
    render_tools_note,
)
from agenttalk.rules.proof import rework
from agenttalk.rules.text.catalogue import read_column
from agenttalk.rules.text.message import render

_FIRST: Final = {"human": "asking", "remote": "offered"}
"""The phase in which a lease begins, by driver, where that is not executing."""


def hash_token(job: Job) -> str:
    """Hash the token of an attempt, as the store keeps it."""
    return token_hash(job.token)


@dataclass(slots=True)
class AttemptBuilder:
    """One attempt at a command, under a lease of its own."""

    owner: str
    """The process that holds the lease."""
    root: str
    board: str
    profile: AgentProfile
    command: Command
    epoch: int
    inputs: tuple[InputContent, ...]
    node: Node
    own_inputs: frozenset[str]
    repo: Workspace | None
    neighbours: Mapping[str, CompletionPromise] = field(default_factory=dict)
    """Promises of the plan's other tasks in the same repository."""
    kind: tuple[TaskKind, KindTask] | None = None
    """The kind of the board and its task, if the board has a kind of its own."""
    foreign: bool = False
    """Whether another party commands it, so that no check of its promise is run."""
    missing: tuple[str, ...] = ()
    """Inputs that it begins without."""
    sent_back: str = ""
    """Why the last answer to the command was sent back, if it was."""
    history: TurnHistory = NO_TURNS
    """The turns of the command before this one."""
    fact: int | None = None
    """The fact of the task's turn before this one."""
    number: int = 1
    lease: str = ""
    token: str = ""
    fence: str = ""
    """The fence around texts of other parties in the prompt."""
    rounds: int | None = None
    """How many rounds the task may have, the first included; None where its work is not checked."""
    passage: PreTurnDecision = PLAIN
    watching: TurnMonitor | None = None

    def __post_init__(self) -> None:
        chance = secrets.token_bytes(48)
        self.lease = f"lease_{chance[:12].hex()}"
        self.fence = chance[12:24].hex()
        secret = urlsafe_b64encode(chance[24:]).decode()
        self.token = attempt_token(self.board, self.command.plan_id, self.command.task_id, self.epoch, secret)

    def watch(self) -> TurnMonitor:
        """Return the monitor of the turn, which is made once."""
        if self.watching is None:
            rule = stuck.rule_of(self.command.promise)
            self.watching = TurnMonitor(self.lease, rule, self.passage.allowance, self.rounds)
        return self.watching

    def lease_row(self, at: str) -> dict[str, Value]:
        """Build the columns of the task's row while the attempt has the lease."""
        return {
            "plan_id": self.command.plan_id,
            "task_id": self.command.task_id,
            "lease": self.lease,
            "owner": self.owner,
            "token": token_hash(self.token),
            "phase": _FIRST.get(self.profile.performer, "executing"),
            "at": at,
        }

    def render_prompt(self) -> str:
        """Render the prompt of the agent."""
        prompt, locale = self._render_task(), self.profile.locale
        if self.profile.has_tools:
            prompt += render_tools_note(locale=locale)
        return f"{prompt}\n# {render(self.sent_back, locale)}\n" if self.sent_back else prompt

    def _render_task(self) -> str:
        command = reexecution.render_command(self.command, self.profile.locale)
        if self.kind is not None:
            return self._prompt_of_kind(*self.kind, command)
        remote, is_model = self.profile.driver == "remote", self.profile.driver in MODEL_DRIVERS
        folder = root_layout.task_folder(self.profile.agent_id, command.plan_id, command.task_id)
        base = "." if remote else f"{self.root}/{folder}/.agenttalk/{command.command_id}-{self.number}"
        outputs, possible = tuple(results.list_required_outputs(command)), tuple(results.list_possible_outputs(command))
        limits = None
        if command.promise is not None and not self.foreign:
            limits = WorkLimits(hidden_checks.hide_checks(command.promise), in_tree=self.repo is not None)
        again = self.repo is not None and command.reexecute is not None and not remote
        told = render_execute_prompt(
            self.profile.prompt or "",
            command,
            [
                plan_inputs.to_input_text(each, "" if is_model else f"{base}/inputs/")
                for each in self.inputs
                if self.foreign or not _is_in_prompt(each)
            ],
            self.missing,
            Handover(
                f"{base}/outputs",
                f"{base}/result.json",
                outputs,
                possible,
                by=self.profile.result_by,
                has_tools=remote or self.profile.has_tools,
            ),
            fence=self.fence,
            locale=self.profile.locale,
            may_refuse=self.profile.self_assessment,
            limits=limits,
            patch=f"{base}/inputs/{rework.PREVIOUS_INPUT}/{rework.PATCH}" if again else "",
        )
        return told + render_remote_note(locale=self.profile.locale) if remote else told

    @property
    def own_task(self) -> KindTask | None:
        """The task as its kind stores it."""
        return self.kind[1] if self.kind is not None else None

    def _prompt_of_kind(self, kind: TaskKind, task: KindTask, command: Command) -> str:
        fence, profile = self.fence, self.profile
        sections = kind.prompt(kind.context(task, fence=fence, locale=profile.locale))
        told = render_sections_prompt(profile.prompt or "", sections, command, fence=fence, locale=profile.locale)
        return told + render_remote_note(locale=profile.locale) if profile.driver == "remote" else told

    def lease_to(
        self,
        prompt: str,
        delivery: int,
        message_id: str,
        ticket: int,
        consumed_at: str,
    ) -> LeasedAttempt:
        """Build the leased attempt, with the job for the performer."""
        return LeasedAttempt(
            self._build_job(prompt), delivery, message_id, self.history.crashes, self.history.bad_scores, ticket,
            consumed_at, self.fact, self.node, self.watch(), self.passage.decisions, self.own_task)  # fmt: skip

    def _build_job(self, prompt: str) -> Job:
        command = self.command
        return Job(
            command.plan_id,
            command.task_id,
            self.profile.agent_id,
            self.board,
            self.lease,
            self.epoch,
            self.number,
            self.token,
            self.profile,
            command,
            prompt,
            time_limit(command, self.history),
            self.inputs,
            {each.name: each.content_type for each in self.node.outputs if each.content_type is not None},
            tuple(each.name for each in self.node.outputs),
            {each.name: each.validation_criteria for each in self.node.needs if each.validation_criteria is not None},
            self.own_inputs,
            self.repo,
            watch=self.watch(),
            neighbours=self.neighbours,
            title=self.node.name or "",
        )


def _is_in_prompt(file: InputContent) -> bool:
    """Whether the prompt quotes a file anyway, in its part about rework."""
    return file.input_name == rework.FEEDBACK_INPUT


def prepare_attempt(
    moves: PlanTransaction,
    owner: str,
    root: str,
    sheet: PlanDefinition,
    agent_id: str,
    command: Command,
    epoch: int,
    inputs: tuple[InputContent, ...],
    used: Sequence[str],
) -> AttemptBuilder:
    """Prepare an attempt of an agent at a command, with inputs that came from messages."""
    node = sheet.node(moves.tx, command.task_id)
    repo = sheet.workspace if node.workspace == "repo" else None
    judges = any(each.validation_criteria for each in node.needs)
    own = _made_by(moves, sheet, agent_id, command, used) if judges else ()
    profile = sheet.confined_profile(agent_id, moves.deps.operator.words)
    kind = _kind(moves, command.task_id)
    if kind is not None and (needed := kind[0].variables(kind[1], agent_id)):
        profile = profile.model_copy(update={"env": (*profile.env, *needed)})
    own_inputs = frozenset(own)
    others = sheet.other_promises(moves.tx, command.task_id) if repo is not None else {}
    return AttemptBuilder(
        owner,
        root,
        moves.tx.board,
        profile,
        command,
        epoch,
        inputs,
        node,
        own_inputs,
        repo,
        neighbours=others,
        kind=kind,
        rounds=_count_rounds(moves, sheet, node, command),
    )


def _count_rounds(moves: PlanTransaction, sheet: PlanDefinition, node: Node, command: Command) -> int | None:
    """Count the rounds that a task may have, the first included; None where its work is not checked.

    Rounds that a person granted are read only for rework: there are none before.
    """
    if command.promise is None or not command.promise.checks:
        return None
    if command.reexecute is not None:
        return 1 + rework_rounds.allowed_rounds(moves.tx, sheet, node)
    return 1 + rework_rounds.planned_rounds(sheet, node)


def prepare_foreign_attempt(
    owner: str,
    root: str,
    board: str,
    profile: AgentProfile,
    command: Command,
    task: EngineTaskRow,
    number: int,
    missing: tuple[str, ...],
) -> AttemptBuilder:
    """Prepare an attempt at a command of a foreign plan, under the next epoch. Its inputs are read afterwards.

    The history of the task counts only if earlier attempts were for the same command.
    """
    history = TurnHistory(task.retries, task.sent_back) if number > 1 else NO_TURNS
    return AttemptBuilder(
        owner,
        root,
        board,
        profile,
        command,
        task.epoch + 1,
        (),
        Node.from_values(task_id=command.task_id, assigned_agent_id=profile.agent_id),
        frozenset(),
        None,
        foreign=True,
        missing=missing,
        sent_back=read_column(task.reason, task.reason_message) or "" if history.bad_scores else "",
        history=history,
        fact=task.fact if number > 1 else None,
        number=number,
    )


def _kind(moves: PlanTransaction, task_id: str) -> tuple[TaskKind, KindTask] | None:
    kind = moves.deps.kinds.get(moves.tx.board)
    task = kind.task(moves.tx, task_id) if kind is not None else None
    return (kind, task) if kind is not None and task is not None else None


def _made_by(
    moves: PlanTransaction, sheet: PlanDefinition, agent_id: str, command: Command, used: Sequence[str]
) -> Iterator[str]:
    """Find inputs of a command that its agent made itself, at least in part.

    It did when it sent them, or when the task that made them is its own by now.
    """
    tx, plan_id = moves.tx, sheet.plan_id
    sent = [tx.run(MESSAGE_BY_ID, plan_id=plan_id, message_id=each)[0] for each in used]
    makers = {row.task_id for row in sent if row.producer == agent_id}
    for each in command.resolved_inputs or ():
        for task_id in {path.partition("/")[0] for path in each.paths}:
            rows = tx.run(ENGINE_TASK, plan_id=plan_id, task_id=task_id)
            if task_id in makers or (rows and rows[0].agent_id == agent_id):
                yield each.input_name


def record_start(
    moves: PlanTransaction,
    attempt: AttemptBuilder,
    message_id: str,
    prompt_sha256: str,
    used: Sequence[str],
    line: str = "",
) -> None:
    """Record that an attempt began, and with which inputs. `line` is the journal's line for its command."""
    plan_id, agent_id = attempt.command.plan_id, attempt.profile.agent_id
    for each in used:
        moves.mark_injected(plan_id, each, agent_id)
    gates, promise = "", ""
    if attempt.passage.decisions:
        gates = f',"gates":{wire.to_text(checkpoints.decisions_to_json(attempt.passage.decisions))}'
        if attempt.command.promise is not None:
            promise = f',"promise_id":{wire.quoted(attempt.command.promise.id)}'
    inputs = ",".join([f'"{each}"' for each in used])
    body = (
        f'{{"attempt":{attempt.number},"epoch":{attempt.epoch}{gates},"inputs":[{inputs}],"lease":"{attempt.lease}",'
        f'"lines":[{line}],"message_id":"{message_id}"{promise},"prompt_sha256":"{prompt_sha256}"}}'
    )
    moves.append_journal_fact("turn.started", plan_id, wire.encode(body))
    if attempt.kind is not None:
        attempt.kind[0].begun(moves.tx, attempt.kind[1], moves.now)
