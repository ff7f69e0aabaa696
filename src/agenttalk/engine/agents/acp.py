"""Jobs of coding agents that speak a protocol: they ask before they act, and get answers.

They share everything with other coding agents, which is the table, their home, their events, what is asked for when
something is missing; and with all programs their processes, limits and sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from agenttalk.contracts.agent import AcpUse
from agenttalk.contracts.errors import AgentTalkError, Code, InputError
from agenttalk.engine.agents.coding_cli import CodingAgents, CodingAttempt
from agenttalk.engine.people.permission_requests import PermissionRequests
from agenttalk.ports.agents import Job, ProgramInput, TurnEnd
from agenttalk.ports.dialogues import Dialogue, DialogueFactory, PermissionRequest, SessionParameters
from agenttalk.rules.agents import acp_table, cli_table, permissions
from agenttalk.rules.agents.acp_table import AcpAgent
from agenttalk.rules.agents.events import AgentEvent, RunSummary
from agenttalk.rules.agents.permissions import PermissionPolicy, ToolRequest
from agenttalk.rules.core import scope
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import join

_SHORTEST: Final = 5.0
_STDERR: Final = 500


@dataclass(frozen=True, slots=True)
class AcpAgents(CodingAgents):
    """Carries out jobs in dialogues with coding agents."""

    dialogues: DialogueFactory = field(kw_only=True)

    @property
    def _attempts(self) -> type[CodingAttempt]:
        return AcpAttempt

    def _chosen(self, job: Job) -> tuple[AcpAgent, AcpUse]:
        return acp_table.resolve_agent(job.profile.acp), job.profile.acp or AcpUse(agent="")


@dataclass(slots=True)
class AcpAttempt(CodingAttempt):
    """A coding agent at work on one job, in one dialogue or several."""

    @property
    def can_go_on(self) -> bool:
        """Whether it can be asked once more: in its session if it can be loaded, else in a new one."""
        return self.left > _SHORTEST

    async def run(self, prompt: str, *, going_on: bool = False) -> TurnEnd:
        """Have one dialogue with it. Raises InputError when it cannot be started like this."""
        owner, agent, use = self.owner, self.agent, self.use
        if not isinstance(owner, AcpAgents) or not isinstance(agent, AcpAgent) or not isinstance(use, AcpUse):
            raise TypeError("an agent that is spoken with needs its own table")
        discretion = owner.deps.secret_guard
        session = self.account.session if going_on else ""
        prompt = discretion.secrets.redact(prompt)
        opening = SessionParameters(
            str(self.turn.cwd),
            prompt,
            session=session,
            anew=f"{self.turn.prompt}\n{prompt}" if going_on else "",
            mode=use.mode or "",
            auth=agent.auth,
            servers=acp_table.build_servers(agent, self.room.server, self.turn.env),
            meta=agent.meta,
            besides=(self.room.base,),
        )
        try:
            start = cli_table.build_launch(agent, use, "", self.room, confined=self.confined)
            dialogue = await asyncio.to_thread(owner.dialogues, opening)
        except ValueError as error:
            raise InputError(Code.FIELD_VALUE, str(error)) from error
        await self._begin(start)
        self.account = RunSummary(session=session, model=self.account.model, permit="permit it by acp.allow")
        speaking = AcpConversation(
            dialogue,
            self._policy(use),
            PermissionRequests(owner.deps, self.job),
            lambda events: self._hear(iter(events)),
            float(use.start_seconds),
        )
        variables = acp_table.build_variables(agent, use, confined=self.confined)
        turn = replace(
            self.turn,
            argv=start.argv,
            prompt="",
            env={**start.variables, **variables, **self.turn.env, **start.own},
            timeout=self.left,
            hear=speaking.hear,
            talk=speaking,
        )
        try:
            ended = discretion.redact_ended(await owner.driver.run(turn))
        finally:
            await speaking.end()
        self.seconds += ended.seconds
        self.account.broken = dialogue.broken
        return conclude_turn(ended, speaking, lambda events: self._hear(iter(events)))

    def _policy(self, use: AcpUse) -> PermissionPolicy:
        promise = self.job.command.promise
        within = scope.make_scope(promise.allowed_scope, promise.disallowed_scope) if promise else None
        cwd = (str(self.turn.cwd), str(self.turn.cwd.resolve()))
        return PermissionPolicy.from_profile(use, cwd, (self.room.base,), confined=self.confined, within=within)


def conclude_turn(ended: TurnEnd, speaking: AcpConversation, tell: Callable[[Iterable[AgentEvent]], None]) -> TurnEnd:
    """Decide how a turn ended: by its dialogue, if that was complete, and not by how its program ended afterwards.

    A turn that used more than it may has not finished, also if its dialogue was complete.
    """
    awaited = speaking.dialogue.awaited
    waits = turn_words.NOT_ANSWERED(method=awaited) if awaited else ""
    if ended.how == "not_started" or ended.exceeded:
        return ended
    if ended.how == "timeout" and not speaking.is_complete:
        asked = speaking.pending_question
        why = turn_words.PERSON_SILENT(question=asked) if asked else waits
        return replace(ended, error=join([ended.error, why]) if why else ended.error)
    if not speaking.is_complete:
        said = " ".join(ended.stderr.decode(errors="replace")[-_STDERR:].split())
        how = f"exit code {ended.exit_code}" if ended.how == "finished" else ended.error
        tell([AgentEvent("error", f"its program ended ({how}), and {waits}{f': {said}' if said else ''}")])
    return replace(ended, how="finished", exit_code=0, error="")


class AcpConversation:
    """Speaks with one agent: passes its events on, and answers its requests."""

    def __init__(
        self,
        dialogue: Dialogue,
        policy: PermissionPolicy,
        permits: PermissionRequests | None,
        tell: Callable[[Iterable[AgentEvent]], None],
        patience: float,
    ) -> None:
        """`permits` asks people, if there are any to ask; `patience` is the seconds until the prompt must be sent."""
        self.dialogue = dialogue
        self.is_complete = False
        """Whether the dialogue was complete before the time was over."""
        self.pending_question = ""
        """The question that a person had not answered when the time was over."""
        self._policy = policy
        self._permits = permits
        self._tell = tell
        self._patience = patience
        self._pen: ProgramInput | None = None
        self._parted = False
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[asyncio.Task[None], str] = {}

    def begin(self, pen: ProgramInput) -> None:
        """Send the first messages."""
        self._pen = pen
        self._timer = asyncio.get_running_loop().call_later(self._patience, self._late)
        self.dialogue.begin()
        self._speak()

    def hear(self, line: bytes) -> None:
        """Take a line that the agent prints."""
        for each in self.dialogue.receive_line(line):
            if isinstance(each, PermissionRequest):
                self._answer(each)
            else:
                self._tell([each])
        self._speak()

    def request_end(self) -> None:
        """Ask the agent to stop."""
        self.pending_question = next(iter(self._waiting.values()), "")
        self._hush()
        self._parted = True
        self.dialogue.cancel()
        self._speak()

    async def end(self) -> None:
        """Note that the program is dead, so nothing is sent any more."""
        self._hush()
        await asyncio.gather(*self._waiting, return_exceptions=True)
        if self._permits is not None:
            await self._permits.close("the agent that asked has ended")

    def _hush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for each in self._waiting:
            each.cancel()

    def _late(self) -> None:
        self._tell(self.dialogue.give_up(f"it was not ready for its prompt after {self._patience:g} seconds"))
        self._speak()

    def _speak(self) -> None:
        """Send what is due; when the dialogue is complete, let the program end."""
        if self._pen is None:
            return
        if words := self.dialogue.take_output():
            self._pen.write(words)
        if self._timer is not None and (self.dialogue.ready or self.dialogue.over):
            self._timer.cancel()
        if self.dialogue.over:
            self.is_complete = not self._parted
            self._pen.close()
            self._pen = None

    def _answer(self, asks: PermissionRequest) -> None:
        ruling = permissions.decide(self._policy, asks.wish)
        if ruling.verdict != "ask":
            self._rule(asks, ruling.reason, allow=ruling.verdict == "allow")
        elif self._permits is None:
            self._rule(asks, "a person would have to be asked", allow=False)
        else:
            self._tell([AgentEvent("asked", asks.wish.about, asks.wish.kind)])
            task = asyncio.get_running_loop().create_task(self._ask(asks, self._permits))
            self._waiting[task] = asks.wish.line
            task.add_done_callback(lambda done: self._waiting.pop(done, None))

    async def _ask(self, asks: PermissionRequest, permits: PermissionRequests) -> None:
        try:
            allow, by = await permits.ask(asks.wish)
            why = f"{by} refused it"
        except AgentTalkError as error:
            allow, why = False, f"a person could not be asked: {error.message}"
        if self._pen is not None:
            self._rule(asks, why, allow=allow)
            self._speak()

    def _rule(self, asks: PermissionRequest, why: str, *, allow: bool) -> None:
        permitted = self.dialogue.answer_permission(asks, allow=allow)
        if not permitted:
            why = why if not allow else "it cannot be permitted only once"
            self._tell(describe_denial(asks.wish, why))


def describe_denial(wish: ToolRequest, why: str) -> Iterator[AgentEvent]:
    """Say why something was not permitted. The reason comes first, because a long text is cut."""
    yield AgentEvent("denied", f"({why}): {wish.about or ', '.join(wish.paths)}", wish.kind)
