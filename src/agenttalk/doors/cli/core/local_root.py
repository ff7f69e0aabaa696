"""The use cases of a root that no engine serves, run in the process of a command.

`LocalRoot` is the other side of the engine's HTTP API: a command names an address of the API and the use case behind
it, and `root_access.ask_root` calls one of them. Each method is one call of the engine's code, never a second
composition. A method imports what it calls, because loading is most of what a short command costs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.wiring import settings

if TYPE_CHECKING:
    from agenttalk.contracts.policy import AuditPolicy
    from agenttalk.doors.api.answers import (
        DeadLetterList,
        FaultList,
        PublishedAnswer,
        QuestionList,
        ScheduleList,
        TokenList,
    )
    from agenttalk.engine.agents.prompt_record import PromptRecord
    from agenttalk.engine.budgets.day_limit import DayReport
    from agenttalk.engine.core.access import PersonRole, Token
    from agenttalk.engine.core.deps import Deps
    from agenttalk.engine.mail.letters import SentLetter
    from agenttalk.engine.messages.dead_letters import DeadLetterContent
    from agenttalk.engine.operation.service import CollectionReport, Service
    from agenttalk.engine.people.questions import AnswerDecision, QuestionView
    from agenttalk.engine.plans.releases import ReleaseView
    from agenttalk.engine.proof.honesty import HonestyReport
    from agenttalk.engine.proof.policy_replay import ReplayPage
    from agenttalk.engine.runs.plan_actions import ActionResult
    from agenttalk.engine.views.models.mail import LetterPage, LetterView
    from agenttalk.engine.views.models.plans import RepositorySummary
    from agenttalk.engine.views.models.root import RootStatus
    from agenttalk.engine.views.models.tasks import TaskExplanation
    from agenttalk.engine.views.models.toolchain import OutgoingPage, ToolchainAudit, ToolchainTaskPage, WarningPage
    from agenttalk.rules.people.attestation import AnswerProof


@asynccontextmanager
async def open_local_root(folder: Path) -> AsyncIterator[LocalRoot]:
    """Open a root for one command. Raises MachineError when an engine or another command holds it."""
    from agenttalk.adapters.store.root_lock import RootLock
    from agenttalk.wiring import open_configured_root

    configured = settings.load(folder)
    with RootLock.acquire(folder, "part"):
        async with open_configured_root(folder, configured) as deps:
            yield LocalRoot(folder, deps, configured)


class LocalRoot:
    """A root that this process has opened, with its use cases by concept."""

    def __init__(self, folder: Path, deps: Deps, configured: settings.Settings) -> None:
        self.folder = folder
        self.deps = deps
        self.settings = configured
        self.plans = LocalPlans(self)
        self.forges = LocalForges(self)
        self.messages = LocalMessages(self)
        self.operation = LocalOperation(self)

    @cached_property
    def service(self) -> Service:
        """The use cases that an engine serves. Nothing is started by them: tasks begin when an engine runs."""
        from agenttalk import wiring

        return wiring.make_local_service(self.folder, self.deps, self.settings)

    async def read_status(self) -> RootStatus:
        """Return the status of everything."""
        from agenttalk.engine.views.root_status import read_root_status

        limit, stale = self.settings.limits.cost_usd_per_day, await self.find_stale_tasks()
        return await read_root_status(self.deps, limit, stale)

    async def find_stale_tasks(self, plan_id: str = "") -> dict[str, frozenset[str]]:
        """Return tasks of ended plans that are stale because a branch has moved, which is not stored yet."""
        from agenttalk.engine.core.boards import list_boards
        from agenttalk.ports.statements.proof import WATCHED_BRANCHES

        boards = await list_boards(self.deps)
        if not any([await board.read(WATCHED_BRANCHES, plan_id="", limit=1) for board in boards]):
            return {}  # what reads repositories need not be loaded
        from agenttalk import wiring

        return await wiring.find_stale_tasks(self.folder, self.deps, self.settings, plan_id or None)

    async def prove_operator(self) -> AnswerProof:
        """Return the proof that the operator is here: the token in a folder that no agent in a sandbox sees.

        Raises UsageError when it is not the token that the root's engine knows.
        """
        from agenttalk.adapters.store import operator_folder
        from agenttalk.engine.core import access
        from agenttalk.rules.people.attestation import AnswerProof

        if not await access.is_operator_token(self.deps, operator_folder.ensure_token(self.folder)):
            raise UsageError(
                Code.TOKEN_REFUSED,
                f"{operator_folder.folder_of(self.folder)} is not the folder of the operator of {self.folder}",
                hint="run this as the user who runs the engine, with the same XDG_CONFIG_HOME, or answer on the pages; "
                "after the root was moved, start its engine once",
            )
        return AnswerProof("operator", access.ENGINE_TOKEN_LABEL)


class LocalPlans:
    """Plans of a root, their tasks, proof and releases."""

    def __init__(self, root: LocalRoot) -> None:
        self._root = root

    async def explain_task(self, plan_id: str, task_id: str) -> TaskExplanation:
        """Explain why a task is in its state."""
        from agenttalk.engine.views import explain

        stale = (await self._root.find_stale_tasks(plan_id)).get(plan_id, ())
        return await explain.explain_task(self._root.deps, plan_id, task_id, stale)

    async def read_prompt(self, plan_id: str, task_id: str) -> PromptRecord:
        """Return the last prompt of a task."""
        from agenttalk.engine.agents import prompt_record

        return await prompt_record.read_prompt(self._root.deps, plan_id, task_id)

    async def describe_repository(self, plan_id: str) -> RepositorySummary:
        """Describe the repository that a plan works on."""
        from agenttalk.engine.views import plans

        return await plans.describe_repository(self._root.deps, plan_id)

    async def read_release(self, plan_id: str) -> ReleaseView:
        """Return the last decision about the release of a plan."""
        from agenttalk.engine.plans import releases

        return (await releases.require_release(self._root.deps, plan_id)).as_json()

    async def decide_release(self, plan_id: str, *, by: str) -> ReleaseView:
        """Decide the release of a plan anew, and return the decision."""
        await self.carry_out(plan_id, "release", {"by": by})
        return await self.read_release(plan_id)

    async def carry_out(self, plan_id: str, action: str, parameters: Mapping[str, Any]) -> ActionResult:
        """Pause, resume, cancel or release a plan; retry, abort, override or rework one of its tasks."""
        from agenttalk.engine.runs.plan_actions import PlanAction

        wanted = PlanAction(
            name=action,
            by=parameters["by"],
            proof=await self._root.prove_operator(),
            task_id=parameters.get("task"),
            onwards=parameters.get("from", False),
            why=parameters.get("why", ""),
            checkpoint=parameters.get("checkpoint"),
            answer=parameters.get("answer", ""),
        )
        return await self._root.service.plans.carry_out(plan_id, wanted)

    async def record_merge(self, plan_id: str, merge: Mapping[str, Any]) -> None:
        """Record that a person merged the work of a plan."""
        await self._root.service.plans.record_merge(plan_id, **merge)

    async def read_honesty(self) -> HonestyReport:
        """Return how many claims of agents, models and validators held."""
        from agenttalk.engine.proof import honesty

        return await honesty.build_report(self._root.deps)

    async def replay_policy(self, policy: AuditPolicy, request: Mapping[str, Any]) -> ReplayPage:
        """Return a page of what a policy would have refused."""
        from agenttalk.engine.proof import policy_replay

        since = policy_replay.parse_since(request.get("since"))
        board, before = request.get("board", ""), request.get("before", 0)
        query = policy_replay.ReplayQuery(policy, since, request["plan"], board, before)
        return await policy_replay.replay_page(self._root.deps, query)


class LocalForges:
    """Tasks that forge events created, and what the engine writes at forges."""

    def __init__(self, root: LocalRoot) -> None:
        self._root = root

    async def list_tasks(
        self, *, assignee: str, status: str, action_type: str, after: int, limit: int
    ) -> ToolchainTaskPage:
        """Return a page of the tasks that forge events created."""
        from agenttalk.engine.views import toolchain

        query = toolchain.ToolchainQuery(assignee, status, action_type, after, limit)
        return await toolchain.list_toolchain_tasks(self._root.deps, query)

    async def audit_task(self, task_id: str) -> ToolchainAudit:
        """Return a task of a forge: what was reported, and what the forge showed."""
        from agenttalk.engine.views import forge_audit

        return await forge_audit.audit_task(self._root.deps, task_id)

    async def list_warnings(self) -> WarningPage:
        """List events for accounts that no agent has."""
        from agenttalk.engine.views import toolchain

        return await toolchain.list_warnings(self._root.deps)

    async def list_outgoing(self, after: int) -> OutgoingPage:
        """Return a page of what the engine writes at forges."""
        from agenttalk.engine.views import toolchain

        return await toolchain.list_outgoing(self._root.deps, after)

    async def reconcile(self, *, dry_run: bool) -> dict[str, Any]:
        """Read the forges now, and bring tasks in line with what they show."""
        from agenttalk import wiring

        found = await wiring.reconcile_forges(self._root.folder, self._root.deps, self._root.settings, dry_run=dry_run)
        return dict(found.as_json())


class AnswerRequest(TypedDict):
    """A person's answer to a question, without its files."""

    decision: AnswerDecision
    answers: list[str]
    notes: str | None
    seen_sha256: str
    by: str


class LocalMessages:
    """Questions, letters, dead letters and commands of a root."""

    def __init__(self, root: LocalRoot) -> None:
        self._root = root

    async def list_questions(self) -> QuestionList:
        """List the open questions."""
        from agenttalk.engine.people import questions

        found = [question.as_json() for question in await questions.list_open(self._root.deps)]
        return {"requests": found, "next": None}

    async def read_question(self, request_id: str) -> QuestionView:
        """Return a question with its hash."""
        from agenttalk.engine.people import questions

        _, question = await questions.find_question(self._root.deps, request_id)
        return question.as_json()

    async def answer(self, request_id: str, files: Mapping[str, bytes], reply: AnswerRequest) -> dict[str, Any]:
        """Answer a question as the operator."""
        from agenttalk.engine.people import questions

        proof = await self._root.prove_operator()
        return await questions.answer(self._root.deps, request_id, files=files, proof=proof, **reply)

    async def list_letters(self, filters: Mapping[str, str], *, unread: bool, before: int, limit: int) -> LetterPage:
        """Return a page of letters. Unread ones are those of the operator, unless a filter names a reader."""
        from agenttalk.engine.views import mail
        from agenttalk.rules.mail.letters import OPERATOR

        names = {"sender" if name == "from" else name: value for name, value in filters.items()}
        names["to"] = names["to"] or (OPERATOR if unread else "")
        query = mail.MailQuery(**names, unread=unread, before=before, limit=limit)
        return await mail.list_letters(self._root.deps, query)

    async def read_letter(self, mail_id: str) -> LetterView:
        """Return a letter, and record that the operator read it."""
        from agenttalk.engine.mail.board import MailBoard
        from agenttalk.engine.views import mail
        from agenttalk.rules.mail.letters import OPERATOR

        await MailBoard(self._root.deps).mark_read(mail_id, OPERATOR)
        return await mail.read_letter(self._root.deps, mail_id)

    async def send_letter(self, letter: Mapping[str, Any], *, answers: str | None = None) -> SentLetter:
        """Send a letter of the operator, which may answer another, and lay it out for its addressees."""
        from agenttalk.engine.core.access import Caller
        from agenttalk.engine.mail.board import MailBoard
        from agenttalk.engine.mail.letters import parse_draft
        from agenttalk.rules.mail.letters import OPERATOR

        post, draft, caller = MailBoard(self._root.deps), parse_draft(OPERATOR, letter), Caller("operator", OPERATOR)
        if answers is None:
            sent = await post.send(draft, caller, via="cli")
        else:
            sent = await post.reply(answers, draft, caller, via="cli")
        await post.pass_()
        return sent

    async def list_dead_letters(self) -> DeadLetterList:
        """List the dead letters, the newest first."""
        from agenttalk.engine.messages import dead_letters

        letters = await dead_letters.list_dead_letters(self._root.deps)
        return {"deadletters": letters[::-1], "next": None}

    async def read_dead_letter(self, deadletter_id: str) -> DeadLetterContent:
        """Return a dead letter with its original in base64."""
        return await self._root.service.messages.read_dead_letter(deadletter_id)

    async def log_command(self, what: str, subject: str, outcome: Mapping[str, Any]) -> None:
        """Record how a command was generated or validated."""
        from agenttalk.engine.messages import sent_commands

        await sent_commands.log_command(
            self._root.deps, "generated" if what == "generated" else "validated", subject, dict(outcome)
        )


class LocalOperation:
    """Tokens, spending, schedules and upkeep of a root."""

    def __init__(self, root: LocalRoot) -> None:
        self._root = root

    async def admit_agent(self, token: str, agent_id: str) -> Token:
        """Register the token of a remote agent."""
        from agenttalk.engine.core import access

        return await access.admit_agent(self._root.deps, token, agent_id)

    async def admit_person(self, token: str, role: PersonRole, name: str) -> Token:
        """Register the token of a person or a pipeline."""
        from agenttalk.engine.core import access

        return await access.admit_person(self._root.deps, token, role, name)

    async def list_tokens(self) -> TokenList:
        """List the tokens, without their secrets."""
        from agenttalk.engine.core import access

        return {"tokens": await access.list_tokens(self._root.deps)}

    async def revoke_token(self, token_id: str) -> Token:
        """Revoke a token."""
        from agenttalk.engine.core import access

        return await access.revoke(self._root.deps, token_id)

    async def read_day(self) -> DayReport:
        """Return what was spent today, the limit, and the tasks that wait for another day."""
        from agenttalk.engine.budgets import day_limit

        day = await day_limit.describe_day(self._root.deps, self._root.settings.limits.cost_usd_per_day)
        return {**day, **await day_limit.describe_waiting(self._root.deps)}

    async def limit_day(self, change: Mapping[str, Any], *, by: str) -> DayReport:
        """Change the limit of the day, or take that of the settings again."""
        await self._root.service.day.set_limit(change.get("limit_usd"), by=by, reset="reset" in change)
        return await self.read_day()

    async def list_schedules(self) -> ScheduleList:
        """List the schedules."""
        return {"schedules": await self._root.service.scheduling.describe_all()}

    async def find_faults(self) -> FaultList:
        """List messages and receipts that are not in order."""
        from agenttalk.engine.operation.fsck import check_root

        return {"faults": await check_root(self._root.deps)}

    async def republish(self) -> PublishedAnswer:
        """Write every published file again."""
        return {"written": await self._root.service.messages.republish()}

    async def collect_garbage(self, *, dry_run: bool) -> CollectionReport:
        """Remove what plans left behind."""
        from agenttalk.wiring.garbage_collection import GarbageCollector

        return await GarbageCollector(self._root.deps, self._root.settings.gc.keeps).collect(dry_run=dry_run)
