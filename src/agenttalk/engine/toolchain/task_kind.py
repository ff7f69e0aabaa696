"""Tasks that forge events call for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.promise import AcceptanceCriterion, CompletionPromise, HumanCheck
from agenttalk.contracts.toolchain import NOTICES
from agenttalk.engine.core import prompt_context
from agenttalk.engine.toolchain.forge_names import read_sighting
from agenttalk.ports.kinds import FollowUp, KindOutcome, KindTask, KindTurn
from agenttalk.ports.statements.toolchain import (
    CLOSE_TOOLCHAIN_TASK,
    REOPEN_TOOLCHAIN_TASK,
    SIGHTING,
    TOOLCHAIN_TASK,
    ToolchainTaskRow,
)
from agenttalk.ports.storage import Snapshot, Tx
from agenttalk.rules.checks import check_results
from agenttalk.rules.prompts.context import PromptContext, PromptSection
from agenttalk.rules.prompts.toolchain_sections import render_toolchain_sections
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.text import forge_words, section_words
from agenttalk.rules.toolchain import dedup_keys, demands, read_back, report_claims
from agenttalk.rules.toolchain.mentions import Marker, write_marker

BOARD: Final = "_toolchain"
VerificationMode = Literal["observed", "report", "transition"]
EvidenceReader = Callable[[KindTask, KindTurn], Awaitable[Sequence[Evidence]]]
"""Asks the forge whether the steps of a task were carried out. Returns evidence `read_back`, observed."""
_UNNAMED: Final = "cp-0-0000"
"""The engine gives the promise its id."""


async def _not_read(_: KindTask, __: KindTurn) -> Sequence[Evidence]:
    return ()


@dataclass(frozen=True, slots=True)
class ToolchainTaskKind:
    """The kind of tasks on `_toolchain`. Implements `TaskKind`."""

    verify: Mapping[str, VerificationMode] = field(default_factory=dict)
    """Source → how its tasks are verified. The default is `transition`."""
    read_back: EvidenceReader = _not_read
    on_failure: Callable[[KindTask, KindOutcome], Sequence[FollowUp]] = lambda _, __: ()
    texts: Mapping[str, str] = field(default_factory=dict)
    """Sections of the prompt that the project replaced by its own text."""
    tokens: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(Agent, source) → the variable that holds the agent's own token."""
    lead: str = ""
    """The agent that decides about steps that do not apply."""
    name: str = "toolchain"
    board: str = BOARD

    def task(self, tx: Snapshot, task_id: str) -> KindTask | None:
        """Read a task."""
        rows = tx.run(TOOLCHAIN_TASK, task_id=task_id)
        return _placed(tx, read_task(self.board, rows[0])) if rows else None

    def wants_run(self, task: KindTask) -> bool:
        """Whether the task needs a turn. Notices do not."""
        return task.action_type not in NOTICES

    def demand_for(self, task: KindTask) -> demands.Demand:
        """Decide which evidence a task needs, and how much it must be trusted."""
        verify = self.verify.get(task.source, "transition")
        visible = read_back.is_visible(task.action_type, task.context)
        return demands.decide_demand(task.action_type, verify, visible=visible)

    def promise(self, task: KindTask) -> CompletionPromise:
        """Make the promise of a task, with the one criterion that it was carried out."""
        demand = self.demand_for(task)
        return CompletionPromise.from_values(
            id=_UNNAMED,
            objective=f"{task.action_type} is carried out: {task.title}"[:500],
            acceptance=(
                AcceptanceCriterion.from_values(
                    id="carried-out",
                    description="What the event calls for was carried out",
                    evidence_required=demand.evidence,
                    min_trust=demand.least,
                ),
            ),
        )

    def context(self, task: KindTask, *, fence: str, locale: Locale) -> PromptContext:
        """Make the prompt's data from the event and the task."""
        return replace(
            prompt_context.make_prompt_context(self.board, task, fence=fence, locale=locale),
            action_steps=task.steps,
            source=task.source,
            promised=tuple(section_words.PROMISE_LINES[each].render(locale) for each in self.demand_for(task).evidence),
            token_variable=self.tokens.get((task.agent_id, task.source), ""),
            marker=write_marker(Marker(task.task_id, task.hop)),
        )

    def prompt(self, context: PromptContext) -> list[PromptSection]:
        """Render the sections of the prompt: context, constraints, API and promise."""
        return render_toolchain_sections(context, self.texts)

    def variables(self, task: KindTask, agent_id: str) -> tuple[str, ...]:
        """Name the variable with the agent's own token for the forge of the task."""
        token = self.tokens.get((agent_id, task.source))
        return (token,) if token else ()

    def begun(self, tx: Tx, task: KindTask, at: str) -> None:
        """Do nothing: the begin of a turn changes nothing at the forge."""

    async def evidence(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """Gather the evidence of the agent's reports and of the forge."""
        words = demands.make_claims([(each.kind, each.author, each.type, each.body) for each in turn.said], turn.at)
        ended = Evidence("turn_ended", True, True, "observed", "engine", turn.at, forge_words.TURN_ENDED())
        if task.action_type == "infrastructure_failure":
            return [ended, *words]
        said = read_report_claims(task, turn)
        found = read_back.forgive_outages(await self.read_back(task, turn), self.demand_for(task).least)
        if said.faults and not read_back.is_denied(found):
            found.append(read_back.make_denial(said, turn.at))
        if not read_back.is_denied(found):
            found += await self._deployed(task, turn)
            found += await self._left_out(task, turn, said, found)
        return [ended, *read_back.void_spoiled([*words, *found])]

    async def _deployed(self, task: KindTask, turn: KindTurn) -> list[Evidence]:
        """Look for a successful deployment since the failure, reported by a pipeline or by the forge."""
        environment = str(task.context.get("environment") or task.context.get("deploy_context") or "")
        if task.action_type != "deploy_failure" or not environment or turn.read is None:
            return []
        where = dedup_keys.deployment_key(task.source, str(task.context.get("repo", "")), environment)
        for _, body in await turn.read(SIGHTING, object=where):
            deployed: Any = wire.read(bytes(body))
            if deployed.get("good", True) and deployed["noted_at"] > task.made_at and deployed["at"] >= task.event_at:
                return [read_back.make_deployment_evidence(environment, deployed["sha"], turn.at)]
        return []

    async def _left_out(
        self, task: KindTask, turn: KindTurn, said: report_claims.ReportClaims, found: Sequence[Evidence]
    ) -> list[Evidence]:
        """Ask the lead about steps that the agent declared not applicable."""
        if not said.declared:
            return []
        if turn.confirm is None:
            return [read_back.make_lead_evidence(said, found, by="no one", approved=False, at=turn.at)]
        asked = read_back.render_question(self.lead, task.title, said, found)
        shown = check_results.hash_shown(asked, {"task": task.task_id, "command": turn.command_id})
        check = HumanCheck(id="not_applicable", kind="human", question=asked)  # keeps only the text of a message
        confirmation = await turn.confirm(check.model_copy(update={"question": asked}), shown)
        agreed = check_results.judge_human(confirmation, shown).passed
        return [
            read_back.make_lead_evidence(
                said, found, by=confirmation.by, approved=agreed, at=turn.at, trust=confirmation.trust
            )
        ]

    def failed(self, task: KindTask, outcome: KindOutcome) -> Sequence[FollowUp]:
        """Make the follow-ups of a failed turn."""
        return self.on_failure(task, outcome)

    def closed(self, tx: Tx, task_id: str, why: str, at: str) -> None:
        """Note in the task's row that it ended, or goes on."""
        if why:
            tx.run(CLOSE_TOOLCHAIN_TASK, task_id=task_id, at=at, why=why)
        else:
            tx.run(REOPEN_TOOLCHAIN_TASK, task_id=task_id, at=at)


def _placed(tx: Snapshot, task: KindTask) -> KindTask:
    """Give a task the current name of its repository."""
    name = str(task.context.get("repo", ""))
    thing = dedup_keys.read_object(task.object)
    kept = read_sighting(tx, dedup_keys.repository_kept_as(task.source, thing[1])) if thing else {}
    now = read_sighting(tx, dedup_keys.repository(task.source, kept["id"])).get("name", name) if kept else name
    return task if now == name else replace(task, context={**task.context, "repo": now})


def read_report_claims(task: KindTask, turn: KindTurn) -> report_claims.ReportClaims:
    """Read the structured claims in the agent's reports of a turn."""
    own = [each.claims for each in turn.said if each.author == turn.agent_id and each.claims is not None]
    return report_claims.read_reports(own, len(task.steps))


def read_task(board: str, row: ToolchainTaskRow) -> KindTask:
    """Make a task from a row of the query `toolchain_task`."""
    must_haves: Any = wire.read(bytes(row.must_haves), limit=wire.DOCUMENT_LIMIT)
    return KindTask(
        board=board,
        task_id=row.task_id,
        agent_id=row.assignee,
        title=row.title,
        description=row.description,
        action_type=row.action_type,
        steps=tuple(must_haves["steps"]),
        context=must_haves["context"],
        sender=must_haves["from"],
        source=row.source,
        key=row.key,
        object=row.object,
        head_sha=row.head_sha,
        hop=row.hop,
        event_at=row.event_at,
        made_at=row.made_at,
        reexecutions=row.reexecutions,
    )
