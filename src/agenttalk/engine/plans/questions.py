"""Questions about tasks to people, and requests for a new plan. Callers write which task waits for the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agenttalk.contracts.core import root_layout
from agenttalk.contracts.dag import Node
from agenttalk.contracts.human import ReplanRequest
from agenttalk.engine.core import records
from agenttalk.engine.people import questions
from agenttalk.engine.people.questions import NeededAnswer, QuestionAuthor, QuestionFile
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.ports.storage import Tx
from agenttalk.rules.plans.input_selection import AmbiguousInput
from agenttalk.rules.text import question_words
from agenttalk.rules.text.catalogue import with_messages
from agenttalk.rules.text.message import ABOUT


def ask_which_artifact(tx: Tx, plan: PlanDefinition, node: Node, unclear: AmbiguousInput, *, at: str) -> str:
    """Ask which of several artifacts is meant. Return the question."""
    names = [f"{each.task_id}/{each.output_name} ({each.message_id})" for each in unclear.candidates]
    title = question_words.WHICH_INPUT(name=unclear.name, task=node.task_id)
    question = ABOUT(subject=unclear.why, what=", ".join(names))
    return ask_about_task(tx, plan, node, "DECISION", title, question, names, at=at)


def ask_whether_to_run(tx: Tx, plan: PlanDefinition, node: Node, why: str, *, at: str) -> str:
    """Ask whether a task runs although a dependency failed. Return the question."""
    title = question_words.RUN_ANYWAY(why=why, task=node.task_id)
    return ask_about_task(tx, plan, node, "APPROVAL", title, "", ("run", "skip", "give up"), at=at)


def ask_for_files(tx: Tx, plan: PlanDefinition, node: Node, names: Sequence[str], *, at: str) -> str:
    """Ask for files that only people have. Return the question."""
    title = question_words.NEEDS(task=node.task_id, names=", ".join(names))
    files: list[QuestionFile] = [{"name": each, "deliver_to_agent_id": node.assigned_agent_id} for each in names]
    return ask_about_task(tx, plan, node, "MISSING_FILE", title, "", (), files, at=at)


def ask_whether_to_retry(tx: Tx, plan: PlanDefinition, node: Node, title: str, *, at: str) -> str:
    """Ask whether to try once more. Return the question."""
    return ask_about_task(tx, plan, node, "DECISION", title, "", ("retry", "give up"), at=at)


def ask_for_new_plan(tx: Tx, plan: PlanDefinition, node: Node, failed: str, *, at: str) -> str:
    """Ask for another plan, because a task cannot continue after another one failed. Return the question."""
    title = question_words.OTHER_PLAN(failed=failed, task=node.task_id)
    request_id = ask_about_task(tx, plan, node, "DECISION", title, "", ("replan", "skip", "give up"), at=at)
    request_new_plan(tx, plan, request_id, "DEPENDENCY_FAILED", title, failed=failed, downstream=node.task_id)
    return request_id


def ask_while_replanning(tx: Tx, plan: PlanDefinition, node: Node, *, at: str) -> str:
    """Ask about a task until there is another plan: it can still be skipped or given up. Return the question."""
    title = question_words.AWAITS_PLAN(task=node.task_id)
    return ask_about_task(tx, plan, node, "DECISION", title, "", ("skip", "give up"), at=at)


def request_new_plan(
    tx: Tx,
    plan: PlanDefinition,
    request_id: str,
    kind: str,
    reason: str,
    *,
    failed: str,
    downstream: str | None = None,
) -> None:
    """Ask the plan's planner, if it has one, for a new plan, by a file in its inbox. A person was asked as well."""
    planner = plan.policies.planner
    asked = ReplanRequest.from_json(
        {
            "schema_version": "1.0",
            "request_id": request_id,
            "trigger": {"type": kind, "failed_task_id": failed, "downstream_task_id": downstream},
            **with_messages({"reason": reason}),
            "recommendation": f"put a new DAG in force: agenttalk plan apply FILE (plan {plan.plan_id})",
            "deliver_to_agent_id": planner or root_layout.GATEWAY,
        }
    )
    data, name = asked.to_bytes() + b"\n", f"replan_{request_id}.json"
    records.publish_file(tx, f"plans/{plan.plan_id}/{name}", data)
    if planner is not None:
        records.publish_file(tx, f"{root_layout.agent_folder(planner)}/inbox/{plan.plan_id}/{name}", data)
    tx.record("replan.requested", plan.plan_id, asked.as_json())


def ask_about_task(
    tx: Tx,
    plan: PlanDefinition,
    node: Node,
    kind: str,
    title: str,
    description: str,
    options: Sequence[str],
    files: Sequence[QuestionFile] = (),
    *,
    at: str,
    criteria: Any = None,
) -> str:
    """Put a question about a task to people. Return its id. `criteria` is what they should know to answer it."""
    request_id = records.derive_id("req", f"{plan.plan_id}/{node.task_id}/{title}/{at}")
    needed: NeededAnswer = {"files": list(files)}
    if options:
        needed["decision"] = {"question": description or title, "options": questions.make_choices(options)}
    if criteria is not None:
        needed["criteria"] = criteria
    author: QuestionAuthor = {"agent_id": node.assigned_agent_id, "task_id": node.task_id}
    request = questions.new_request(request_id, kind, title, needed, author=author, now=at, plan_id=plan.plan_id)
    return questions.ask_own(tx, request, plan_id=plan.plan_id, at=at)
