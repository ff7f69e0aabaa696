"""Shows an attempt what its promise still lacks, before its turn ends. The engine decides after the turn."""

from __future__ import annotations

import asyncio

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.dag import Node
from agenttalk.contracts.envelope import CommandEnvelope
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.core.attempt_paths import TURNS, AttemptPaths
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.task_comments import PAGE, TaskName, board_of_task
from agenttalk.engine.plans.definition import read_definition
from agenttalk.engine.toolchain.board import BOARD
from agenttalk.engine.views.models.tasks import PromisePreview
from agenttalk.ports.statements.agents import HANDED_IN
from agenttalk.ports.statements.core import COMMENTS_OF
from agenttalk.ports.statements.mail import MAIL_ITEM
from agenttalk.ports.statements.plans import COMMAND_OF_DELIVERY, ENGINE_TASK, NODE, RUN
from agenttalk.ports.statements.proof import CLAIMS_OF, JOINED_CHECKS
from agenttalk.ports.storage import Store
from agenttalk.rules.agents import results
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.mail import letters
from agenttalk.rules.proof import done, turn_outcome
from agenttalk.rules.proof.evidence import collect_claims, read_claims
from agenttalk.rules.proof.performance import OutputContent, Performance
from agenttalk.rules.proof.score_gates import ScoreGateResult
from agenttalk.rules.toolchain import demands

NOTE = "The engine decides when your turn has ended, from what it finds itself. This only lists what is missing now."


async def list_hidden_checks(deps: Deps, task: TaskName) -> frozenset[str]:
    """List the checks of a task that are hidden from its agent, by their ids."""
    store = await board_of_task(deps, task)
    nodes = await store.read(NODE, plan_id=task.plan_id, task_id=task.task_id)
    run = await store.read(RUN, plan_id=task.plan_id)
    if not nodes or not run:
        return frozenset()
    sheet = read_definition(task.plan_id, run[0], await store.read(JOINED_CHECKS, plan_id=task.plan_id))
    return hidden_checks.list_hidden(sheet.promise(Node.model_validate_json(bytes(nodes[0].node))))


async def preview_promise(deps: Deps, task: TaskName) -> PromisePreview:
    """Return what a task promises, and what is missing. Raises UsageError when the engine does not run the task."""
    store = await board_of_task(deps, task)
    rows = await store.read(ENGINE_TASK, plan_id=task.plan_id, task_id=task.task_id)
    nodes = await store.read(NODE, plan_id=task.plan_id, task_id=task.task_id)
    run = await store.read(RUN, plan_id=task.plan_id)
    if not rows or not nodes or not run:
        hint = "only plans that the engine runs have promises"
        raise UsageError(Code.TASK_NOT_FOUND, f"the engine does not run task {task.subject}", hint=hint)
    node = Node.model_validate_json(bytes(nodes[0].node))
    row = rows[0]
    agent_id, epoch = row.agent_id, row.epoch
    sheet = read_definition(task.plan_id, run[0], await store.read(JOINED_CHECKS, plan_id=task.plan_id))
    promise = sheet.promise(node)
    command = await _command(store, row.delivery)
    outputs = await _outputs(deps, store, task, agent_id, epoch, row.attempt, command)
    claim_rows = await store.read(CLAIMS_OF, plan_id=task.plan_id, task_id=task.task_id, epoch=epoch, author=agent_id)
    claims = [claim for claim_row in claim_rows for claim in read_claims(wire.read(bytes(claim_row.claims)))]
    made = tuple(OutputContent(name, name, "", 0, None) for name in sorted(outputs))
    at = deps.stamp()
    # A result is handed in at the very end, so the preview takes it as present.
    evidence = turn_outcome.observe_evidence(
        node, Performance("finished", result="soon", outputs=made), ScoreGateResult(met=True), at
    )
    collected = collect_claims(promise, claims, by=agent_id, at=at, seen={item.id for item in evidence})
    verdict = done.decide(promise, [*evidence, *collected.evidence, *await _on_board(store, task, epoch, at)], ())
    over = row.state == "COMPLETED"  # then nothing is missing, even if less evidence can be seen now
    checks = {check.id for check in promise.checks}
    return {
        "task": task.subject,
        "promise_id": promise.id,
        "objective": promise.objective,
        "criteria": [{"id": criterion.id, "description": criterion.description} for criterion in promise.acceptance],
        "allowed_scope": list(promise.allowed_scope),
        "disallowed_scope": list(promise.disallowed_scope),
        "checks": [{"id": check.id, "kind": check.kind} for check in promise.checks],
        "outputs_there": sorted(outputs),
        "missing": [] if over else [name for name in verdict.missing if name not in checks],
        "not_shown_yet": [] if over else list(verdict.blockers),
        "note": NOTE,
    }


async def _on_board(store: Store, task: TaskName, epoch: int, at: str) -> list[done.Evidence]:
    """Return the evidence so far of a task of a board that never ends: reports, and answers to letters."""
    if task.board == letters.BOARD:
        rows = await store.read(MAIL_ITEM, task_id=task.task_id)
        return [
            each
            for row in rows
            for each in letters.make_evidence(
                letters.LetterObservation(row.addressee, row.read_at, row.read_how, row.reply), at
            )
        ]
    if task.board != BOARD:
        return []
    said: list[tuple[str, str, str, str]] = []
    after: int | None = 0
    while after is not None:
        remarks = await store.read(COMMENTS_OF, plan_id=task.plan_id, task_id=task.task_id, after=after, limit=PAGE)
        said += [(each.kind, each.author, each.type, each.body) for each in remarks if each.epoch == epoch]
        after = remarks[-1].id if len(remarks) == PAGE else None
    return demands.make_claims(said, at)


async def _command(store: Store, delivery: int | None) -> Command | None:
    rows = await store.read(COMMAND_OF_DELIVERY, id=delivery) if delivery is not None else []
    return CommandEnvelope.model_validate_json(bytes(rows[0].envelope)).payload.command if rows else None


async def _outputs(
    deps: Deps, store: Store, task: TaskName, agent_id: str, epoch: int, attempt: int, command: Command | None
) -> set[str]:
    """Return the names of outputs that are there: handed in by a remote agent, or in the folder of the attempt."""
    rows = await store.read(HANDED_IN, plan_id=task.plan_id, task_id=task.task_id, epoch=epoch)
    if rows or command is None:
        return {row.name for row in rows if row.kind == "artifact"}
    own = root_layout.task_folder(agent_id, task.plan_id, task.task_id)
    layout = AttemptPaths(own, f"{own}/{TURNS}/{command.command_id}-{attempt}")
    return await asyncio.to_thread(_lying, deps, layout.outputs, results.map_declared_outputs(command))


def _lying(deps: Deps, folder: str, names: dict[str, str]) -> set[str]:
    try:
        with deps.root.open_folder(folder) as here:
            return {names[name] for name in here.names() if name in names}
    except AgentTalkError:  # there is no such folder, or none that is safe to look into
        return set()
