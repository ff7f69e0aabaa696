"""What the doors of an engine can ask it for: one object with its use cases."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.command import Command
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.dag import TaskDag
from agenttalk.contracts.errors import AgentTalkError, Code, MachineError, UsageError
from agenttalk.contracts.plan import PlanManifest
from agenttalk.engine.agents.remote import RemoteAgents
from agenttalk.engine.budgets import day_limit
from agenttalk.engine.core import access, boards, task_comments, trace_context
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.core.idempotency import IdempotencyKeys
from agenttalk.engine.core.task_comments import TaskContribution, TaskName
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.messages import dead_letters, published_files, sent_commands
from agenttalk.engine.messages.sent_commands import CommandLogKind
from agenttalk.engine.operation import fsck
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.engine.operation.sessions import Sessions
from agenttalk.engine.operation.tracing import TraceExporter
from agenttalk.engine.people import agent_questions, questions
from agenttalk.engine.people.questions import AnswerDecision, HumanQuestion
from agenttalk.engine.plans import releases, submission
from agenttalk.engine.proof import disputes, honesty
from agenttalk.engine.runs import plan_actions
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.runs.plan_actions import PlanAction
from agenttalk.engine.toolchain.receiver import DeliveryReceiver
from agenttalk.engine.toolchain.reconciler import Reconciler
from agenttalk.engine.views import explain as view_explain
from agenttalk.engine.views import forge_audit, plan_status, plans, promise_preview, toolchain
from agenttalk.engine.views.feed import Feed, silent_changes
from agenttalk.ports.statements.core import COUNTED_OPEN
from agenttalk.ports.statements.plans import LAST_SEQ
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.core.tokens import TokenSubject
from agenttalk.rules.people.attestation import UNKNOWN, AnswerProof

PassRunner: TypeAlias = "Callable[[str | None], Awaitable[dict[str, Any]]]"
"""A part's pass: gets the agent, if one is named, and returns what it did."""
LOG = logging.getLogger(__name__)
NO_FILES: Final[Mapping[str, bytes]] = MappingProxyType({})


class Service:
    """The use cases of an engine, or of a part that serves its agents.

    `passes` are the parts that can be asked for a pass, `nudge` has the router look soon, and `turn` is held
    by whoever moves files that the router moves too.
    """

    def __init__(
        self,
        deps: Deps,
        *,
        passes: Mapping[str, PassRunner] | None = None,
        nudge: Callable[[], None] = lambda: None,
        turn: asyncio.Lock | None = None,
        dispatcher: Dispatcher | None = None,
        receiver: DeliveryReceiver | None = None,
        post: MailBoard | None = None,
        elsewhere: RemoteAgents | None = None,
    ) -> None:
        self.deps = deps
        self.post = post or MailBoard(deps)
        """Takes letters."""
        self.receiver = receiver or DeliveryReceiver(deps, {}, lambda: None)
        """Takes webhooks in."""
        self.reconciler: Reconciler | None = None
        """Reads the forges, if one can be read."""
        self.collect: Callable[..., Awaitable[dict[str, Any]]] | None = None
        """Removes what nobody needs any more, if that can be asked for here."""
        self.reload: Callable[[str], Awaitable[dict[str, Any]]] | None = None
        """Reads the settings again for somebody, if that can be asked for here."""
        self.schedules: Scheduler | None = None
        """What is done again and again, where somebody looks after it."""
        self._dispatcher = dispatcher
        self._elsewhere = elsewhere
        self.day_cost_usd: float | None = None
        """What may be spent on a day, as the settings say; None where they do not limit it."""
        self.keys = IdempotencyKeys(deps, set())
        """Has writes that come with a key carried out once."""
        self.tracing: TraceExporter | None = None
        """Who tells a tracing system what happens, if there is one."""
        self.commits: Callable[[], Mapping[str, tuple[int, int]]] = dict
        """Of each database: how often was committed, and how many works that were."""
        self.verify_ledger: Callable[[], list[dict[str, Any]]] | None = None
        """Checks every chain of the ledger, where somebody can; blocks."""
        self.sessions = Sessions(deps)
        """Who looks at the pages."""
        self.feed = Feed(deps, dispatcher.subscribe_changes if dispatcher is not None else silent_changes)
        """Tells those who follow of news."""
        self.ready = False
        """Whether work is being done; before the start has ended and after the end has begun it is not."""
        self._passes = dict(passes or {})
        self._nudge = nudge
        self._turn = turn or asyncio.Lock()

    def redact(self, said: Any) -> Any:
        """A JSON value without secrets."""
        return self.deps.secret_guard.secrets.redact_json(said)

    # Who asks

    async def identify(self, token: str) -> Caller | None:
        """Whom a token belongs to."""
        return await access.identify(self.deps, token)

    async def act_as_attempt(self, caller: Caller, attempt: TokenSubject) -> Caller | None:
        """An agent elsewhere as the attempt that it has taken."""
        return await access.identify_as_attempt(self.deps, caller, attempt)

    def note_sign_of_life(self, caller: Caller) -> None:
        """An attempt gives a sign of life."""
        if self._elsewhere is not None:
            self._elsewhere.record_heartbeat(caller)

    async def make_token(self, agent_id: str, token: str, *, by: str) -> dict[str, Any]:
        """Let the token of an agent elsewhere in."""
        return (await access.admit_agent(self.deps, token, agent_id, by=by)).as_json()

    async def make_person_token(self, role: access.PersonRole, name: str, token: str, *, by: str) -> dict[str, Any]:
        """Let the token of a person, or of a program of theirs, in."""
        return (await access.admit_person(self.deps, token, role, name, by=by)).as_json()

    async def list_tokens(self) -> list[dict[str, Any]]:
        """Tokens that were made for somebody."""
        return [each.as_json() for each in await access.list_tokens(self.deps)]

    async def revoke_token(self, token_id: str, *, by: str) -> dict[str, Any]:
        """Let a token in no longer."""
        revoked = await access.revoke(self.deps, token_id, by=by)
        if revoked.role != "agent":
            self.sessions.forget_links()
        return revoked.as_json()

    # Plans

    async def submit(
        self,
        dag: TaskDag,
        manifest: PlanManifest,
        profiles: Mapping[str, AgentProfile],
        files: Mapping[str, bytes] = NO_FILES,
        *,
        traceparent: str = "",
    ) -> bool:
        """Have a plan run; False when it was submitted before. `files` are those of its checks, by their hashes.

        `traceparent` tells in which trace of somebody else it belongs, if in any.
        """
        await submission.store_check_files(self.deps, boards.DEFAULT, dag, files)
        also = trace_context.make_parent_recorder(dag.plan_id, traceparent)
        new = await submission.submit(self.deps, dag, manifest, profiles, also=also)
        await self._dispatching().operator.adopt_plan(dag.plan_id)
        if not new:
            await self._dispatching().operator.check_branch(dag.plan_id)  # what it proved may not hold any more
        return new

    async def remarks(self, dag: TaskDag, manifest: PlanManifest) -> list[dict[str, Any]]:
        """What people should know of a plan that works on a repository before it begins there."""
        return await self._dispatching().operator.remarks(dag, manifest)

    async def apply(
        self,
        dag: TaskDag,
        manifest: PlanManifest,
        profiles: Mapping[str, AgentProfile],
        files: Mapping[str, bytes] = NO_FILES,
        *,
        by: str,
    ) -> dict[str, Any]:
        """Put a new revision of a plan in force."""
        await submission.store_check_files(self.deps, (await boards.board_of(self.deps, dag.plan_id)).name, dag, files)
        found = await self._dispatching().operator.apply(dag, manifest, profiles, by=by)
        return found.as_json()

    async def read_plan_status(self, plan_id: str) -> dict[str, Any]:
        """Where a plan stands."""
        await self.check_branches(plan_id)
        return (await plan_status.read_plan_status(self.deps, plan_id)).as_json()

    async def read_settled_status(self, plan_id: str) -> dict[str, Any]:
        """Where a plan stands. One that seems to wait is believed only when a look at everything changes nothing.

        Answers that were given and messages that lie ready are no longer outstanding then.
        """
        found = await self.read_plan_status(plan_id)
        while found["result"] not in {"running", "paused"} and found["state"] != "ENDED":
            before = found["tasks"]
            await self._dispatching().wait_for_dispatch()
            await self.run_pass("route", None)
            await self._dispatching().wait_for_dispatch()
            found = await self.read_plan_status(plan_id)
            if found["tasks"] == before:
                break
        return found

    async def last_seq(self, plan_id: str, task_id: str) -> int:
        """The number of a task's newest command, which may not be published yet; 0 when there is none."""
        board = await boards.board_of(self.deps, plan_id)
        last: int = (await board.read(LAST_SEQ, plan_id=plan_id, task_id=task_id))[0].seq
        return last

    async def explain(self, plan_id: str, task_id: str) -> dict[str, Any]:
        """Why a task is in its state."""
        return await view_explain.explain_task(self.deps, plan_id, task_id)

    async def verify(self, plan_id: str, task_id: str | None = None, *, by: str) -> dict[str, Any]:
        """Look now whether what a plan, or a task of it, proved still holds, because somebody wants to know."""
        told = await self._dispatching().operator.verify(plan_id, task_id)
        board = await boards.board_of(self.deps, plan_id)
        await board.transact(lambda tx: tx.record("verify.asked", plan_id, {"by": by, "task_id": task_id}))
        return told

    async def check_branches(self, plan_id: str | None = None) -> None:
        """See whether what ended plans proved has changed since, where their branches stand. Nothing is run for it.

        What cannot be looked at, because its repository is gone, is shown as it was known.
        """
        if self._dispatcher is None:
            return
        try:
            await (
                self._dispatcher.operator.check_all_branches()
                if plan_id is None
                else self._dispatcher.operator.check_branch(plan_id)
            )
        except AgentTalkError as error:
            LOG.warning("%s: %s", plan_id, error.message, extra={"action": "branches"})

    async def record_merge(self, plan_id: str, *, by: str, commit: str, into: str | None, stale: bool) -> None:
        """Write down that a person merged what a plan has done."""
        await self._dispatching().operator.record_merge(plan_id, by=by, commit=commit, into=into, stale=stale)

    async def repository(self, plan_id: str) -> dict[str, Any]:
        """The repository that a plan works on."""
        return await plans.describe_repository(self.deps, plan_id)

    async def steer(self, plan_id: str, action: PlanAction) -> Any:
        """Do something to a plan or a task of it, such as pausing, trying again or overriding what holds it up."""
        return await plan_actions.carry_out_action(self.deps, self._dispatching(), plan_id, action)

    async def release(self, plan_id: str) -> dict[str, Any]:
        """What was decided last about the release of a plan. Raises UsageError when nothing was."""
        await self.check_branches(plan_id)
        return (await releases.require_release(self.deps, plan_id)).as_json()

    async def release_manifest(self, plan_id: str) -> dict[str, Any]:
        """The manifest of the last release of a plan. Raises UsageError when there is none."""
        await self.check_branches(plan_id)
        manifest = (await releases.require_release(self.deps, plan_id)).manifest
        if manifest is None:
            raise UsageError(Code.NAME_UNKNOWN, f"the release of plan {plan_id!r} is not decided yet", hint="ask later")
        return manifest

    # Tasks and those who work on them

    async def task(self, task: TaskName, *, after: int = 0) -> dict[str, Any]:
        """A task and what was said about it."""
        return {
            **await task_comments.read_task(self.deps, task, after=after),
            **await toolchain.read_toolchain_fields(self.deps, task),
        }

    async def preview_promise(self, task: TaskName) -> dict[str, Any]:
        """What a task promises, and what of it is not there yet."""
        return await promise_preview.preview_promise(self.deps, task)

    async def report(self, task: TaskName, note: Note, caller: Caller) -> dict[str, Any]:
        """What an attempt tells of itself while it runs; whether somebody counts it, and why it is stopped if it is."""
        if caller.attempt is None or self._dispatcher is None:
            return {"counted": False, "stopped": None}
        stopped = self._dispatcher.watches.report(task.board, task.plan_id, task.task_id, caller.attempt.epoch, note)
        return {"counted": True, "stopped": stopped}

    async def add_remark(
        self, task: TaskName, remark: TaskContribution, caller: Caller, key: str | None
    ) -> dict[str, Any]:
        """Keep a comment or an output."""
        return await task_comments.post_contribution(self.deps, task, remark, caller, key=key)

    async def ask(self, task: TaskName, caller: Caller, question: str) -> dict[str, Any]:
        """Put a question of an attempt to a person."""
        return await agent_questions.ask(self.deps, task, caller, question)

    async def describe_question(self, task: TaskName, question_id: str) -> dict[str, Any]:
        """What came of a question."""
        return await agent_questions.read_answer(self.deps, task, question_id)

    async def dispute(self, task: TaskName, caller: Caller, check: str, reason: str) -> dict[str, Any]:
        """Put it to a person that a check of an attempt's own task is wrong."""
        return await disputes.dispute(self.deps, task, caller, check, reason)

    # People, and messages

    async def count_waiting(self) -> tuple[int, int]:
        """How many questions are open, and how many dead letters."""
        found = [(await board.read(COUNTED_OPEN))[0] for board in await boards.list_boards(self.deps)]
        return sum(asked for asked, _ in found), sum(dead for _, dead in found)

    async def request(self, request_id: str) -> HumanQuestion:
        """One question."""
        return (await questions.find_question(self.deps, request_id))[1]

    async def answer(
        self,
        request_id: str,
        *,
        by: str,
        proof: AnswerProof = UNKNOWN,
        decision: AnswerDecision,
        files: Mapping[str, bytes],
        answers: Sequence[Any],
        notes: str | None,
        seen_sha256: str,
        again: bool = False,
    ) -> dict[str, Any]:
        """Answer a question in the name of a person; `proof` shows that it was one.

        With `again`, the very answer that was given before is no error.
        """
        if again:
            given = await self.request(request_id)
            if given.has_same_answer(by, decision, files, answers, notes) and given.response is not None:
                return given.response
        answer = await questions.answer(
            self.deps,
            request_id,
            by=by,
            proof=proof,
            decision=decision,
            files=files,
            answers=answers,
            notes=notes,
            seen_sha256=seen_sha256,
        )
        self._nudge()
        if self._dispatcher is not None:
            self._dispatcher.nudge()
        return answer

    async def deadletter(self, deadletter_id: str) -> dict[str, Any]:
        """One dead letter with its original, in base64."""
        letter, original = await dead_letters.read_dead_letter(self.deps, deadletter_id)
        content = None if original is None else base64.b64encode(original).decode()
        return {**letter.as_json(), "content": content}

    async def replay(self, deadletter_id: str, *, by: str) -> dict[str, Any]:
        """Judge a dead letter again, because somebody asks for it."""
        async with self._turn:
            outcome = await dead_letters.replay(self.deps, deadletter_id, by=by)
        self._nudge()
        return outcome

    async def send(self, command: Command, key: str | None) -> dict[str, Any]:
        """Send a command in the operator's name."""
        async with self._turn:
            sent = await sent_commands.send_command(self.deps, command, key=key)
        self._nudge()
        return sent

    async def record_outcome(self, what: CommandLogKind, subject: str, outcome: Mapping[str, Any]) -> None:
        """Record how a command came out."""
        await sent_commands.log_command(self.deps, what, subject, outcome)

    # Forges

    async def toolchain_tasks(self, asked: toolchain.ToolchainQuery) -> dict[str, Any]:
        """Tasks that forge events came to, a page of them, closed ones too."""
        return await toolchain.list_toolchain_tasks(self.deps, asked)

    async def toolchain_task(self, task_id: str) -> dict[str, Any]:
        """A toolchain task: what was reported of it beside what was read."""
        return await forge_audit.audit_task(self.deps, task_id)

    async def toolchain_warnings(self, after: int) -> dict[str, Any]:
        """Events that nobody could be given."""
        return await toolchain.list_warnings(self.deps, after)

    async def toolchain_outgoing(self, after: int) -> dict[str, Any]:
        """What the engine has to say at forges."""
        return await toolchain.list_outgoing(self.deps, after)

    async def reconcile(self, *, dry_run: bool, by: str) -> dict[str, Any]:
        """Read the forges now; what was done about it, or would be. Raises UsageError when none can be read."""
        if self.reconciler is None:
            raise UsageError(
                Code.NAME_UNKNOWN,
                "there is no forge that can be read",
                hint="give a source a token: sources.NAME.token_env or token_file",
            )
        if not dry_run:
            system = await self.deps.stores.board(boards.SYSTEM)
            await system.transact(lambda tx: tx.record("reconcile.asked", "toolchain", {"by": by}))
        return await self.reconciler.pass_(dry_run=dry_run)

    # The engine itself

    async def status(self) -> dict[str, Any]:
        """Where everything stands, and how much waits for people."""
        await self.check_branches()
        asked, dead = await self.count_waiting()
        return {
            **await plan_status.read_status_overview(self.deps),
            "open_requests": asked,
            "open_deadletters": dead,
            "honesty": await honesty.sum_tallies(self.deps),
            "day": await self.read_day_budget(),
            **await toolchain.summarize_board(self.deps),
            **({"broken_boards": dict(self.deps.broken)} if self.deps.broken else {}),
        }

    async def read_day_budget(self) -> dict[str, Any]:
        """What was spent today of what may be."""
        return await day_limit.describe_day(self.deps, self.day_cost_usd)

    async def set_day_limit(self, cost_usd: float | None, *, by: str, reset: bool = False) -> dict[str, Any]:
        """Limit what a day may cost, let nothing limit it, or have the settings say it again."""
        await (day_limit.reset(self.deps, by=by) if reset else day_limit.set_limit(self.deps, cost_usd, by=by))
        if self._dispatcher is not None:
            await self._dispatcher.days.refresh()
            self._dispatcher.nudge()
        return await self.read_day_budget()

    async def run_pass(self, part: str, agent: str | None) -> dict[str, Any]:
        """Have a part look at everything once, and return what it did."""
        if part not in self._passes:
            near = find_nearest(part, self._passes)
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(sorted(self._passes)) or 'none here'}"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no part {part[:80]!r}", hint=hint)
        return await self._passes[part](agent)

    async def fsck(self) -> list[dict[str, Any]]:
        """What is not sound."""
        return [each.as_json() for each in await fsck.check_root(self.deps)]

    async def republish(self) -> int:
        """Write everything that is published anew; how many files."""
        async with self._turn:
            return sum(
                [await published_files.republish(self.deps, board) for board in await boards.list_boards(self.deps)]
            )

    async def gc(self, *, dry_run: bool) -> dict[str, Any]:
        """Remove what nobody needs any more. Raises UsageError where that is not done."""
        if self.collect is None:
            raise UsageError(Code.NAME_UNKNOWN, "nothing is removed here", hint="ask the engine of the root")
        return await self.collect(dry_run=dry_run)

    async def reload_settings(self, by: str) -> dict[str, Any]:
        """Read the settings again: what has changed and holds now, and what needs a restart."""
        if self.reload is None:
            raise UsageError(Code.NAME_UNKNOWN, "no settings are read here", hint="ask the engine of the root")
        return await self.reload(by)

    # What only some have

    @property
    def elsewhere(self) -> RemoteAgents:
        """Who gives work to agents that are elsewhere. Raises MachineError where nobody does."""
        if self._elsewhere is None:
            raise MachineError(Code.ENGINE_UNREACHABLE, "work is given out by an engine, and this is none")
        return self._elsewhere

    @property
    def scheduling(self) -> Scheduler:
        """Who looks after schedules. Raises MachineError where nobody does."""
        if self.schedules is None:
            hint = "'agenttalk serve' does"
            raise MachineError(Code.ENGINE_UNREACHABLE, "this engine runs one plan and no schedules", hint=hint)
        return self.schedules

    def _dispatching(self) -> Dispatcher:
        if self._dispatcher is None:
            raise MachineError(Code.ENGINE_UNREACHABLE, "plans are run by an engine, and this is none")
        return self._dispatcher
