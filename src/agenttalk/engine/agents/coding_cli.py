"""Jobs of coding agents: programs of the table, whose output is read while they run.

They share everything with other programs: their files, their sandbox, their limits, the end of all their processes.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from agenttalk.contracts.agent import AcpUse, AgentProfile, CliUse
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, JsonError
from agenttalk.engine.agents import coding_sessions
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.agents.transcript import ENDING, Transcript
from agenttalk.engine.budgets import account_waits
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.engine.core.attempt_paths import AttemptPaths
from agenttalk.ports.agents import BindMount, Confinement, Job, ProgramTurn, SandboxSelector, TurnEnd
from agenttalk.rules.agents import cli_table, codecs, model_services, results
from agenttalk.rules.agents import events as events_rules
from agenttalk.rules.agents.cli_table import CodingAgent, LaunchSpec, RunLocation
from agenttalk.rules.agents.events import AgentEvent, RunSummary
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.budgets import provider_limits
from agenttalk.rules.budgets.provider_limits import AccountLimit
from agenttalk.rules.core.usage import NOTHING, Bill, UsageTotals
from agenttalk.rules.prompts.missing_work import render_missing_work
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.text import turn_words
from agenttalk.rules.text.message import join, render

LOG = logging.getLogger(__name__)
HOME: Final = "home"
"""The home folder of an agent in a sandbox, in the folder of its attempt. It is gone after the attempt."""
MAX_REMINDERS: Final = 2
"""How often an agent that stopped too early is asked for the rest, before its work is checked."""
_KEPT: Final = 4096
_FAULT: Final = 400
"""Characters of the reason why the self-check failed that are kept."""
_SHORTEST: Final = 5.0
"""Seconds that must be left to ask once more."""
_CRASHES: Final = frozenset({Code.COMMAND_FAILED, Code.AGENT_PROTOCOL})
_CLAIMED: Final[dict[str, Literal["denied", "failed"]]] = {Code.AGENT_DENIED: "denied", Code.COMMAND_FAILED: "failed"}
"""Failures that an agent reports of itself, which the checks of its work may disprove."""
_ASKED_FOR: Final = frozenset({Code.OUTPUT_MISSING, Code.SCORE_MISSING, Code.SCORE_INVALID, Code.AGENT_SILENT})


@dataclass(frozen=True, slots=True)
class CodingAgents(ProgramAgents):
    """Carries out jobs by starting coding agents."""

    tiers: SandboxSelector = field(kw_only=True)
    spared: ClassVar[str] = HOME

    async def carry_out(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> Performance:
        """Run a turn, ask for missing work, and take the outputs in."""
        attempt = None
        try:
            attempt = await self._attempt(seat, job, layout, turn, hooked=True)
            return await self._performed(attempt)
        except InputError as error:
            return self._not_started(error)
        finally:
            if attempt is not None:
                await asyncio.to_thread(attempt.save_session)
            await asyncio.to_thread(coding_sessions.remove_tree, seat.root, f"{layout.base}/{HOME}")

    async def _run(self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn) -> TurnEnd:
        """Run it once, as for a judgement. Raises InputError when it cannot be started, or a limit ends it."""
        attempt = await self._attempt(seat, job, layout, turn)
        try:
            ended = await attempt.run(turn.prompt)
            limited = attempt.find_limit(ended)
            if limited is not None:
                raise account_waits.AccountLimitError(limited)
            return attempt.with_last_answer(ended)
        finally:
            await asyncio.to_thread(coding_sessions.remove_tree, seat.root, f"{layout.base}/{HOME}")

    async def _attempt(
        self, seat: AgentInPlan, job: Job, layout: AttemptPaths, turn: ProgramTurn, *, hooked: bool = False
    ) -> CodingAttempt:
        """Prepare how the agent is started. Raises InputError with what to do."""
        try:
            agent, use = self._chosen(job)
            asked = turn.confinement or Confinement("plain")
            tier = await self.tiers.tier(asked)
        except ValueError as error:
            raise InputError(Code.FIELD_VALUE, str(error)) from error
        turn = replace(turn, confinement=replace(asked, tier=tier))
        names = [name for name in agent.handed if name in self.environ and name not in turn.env]
        handed = {name: self.environ[name] for name in names}
        self.deps.secret_guard.register(handed)
        base = str(seat.root.path.absolute() / layout.base)
        own = tier != "plain"
        agent = cli_table.choose_login(agent, {*handed, *turn.env}) if own else agent
        if own:
            await asyncio.to_thread(seat.root.make_folder, f"{layout.base}/{HOME}")
            lent = self._lent(agent, f"{base}/{HOME}")
            turn = replace(turn, confinement=replace(asked, tier=tier, lent=lent))
        server = self._server(agent, turn) if job.profile.has_tools else ()
        room = RunLocation(base, f"{base}/{HOME}" if own else "", self._hook(agent, job) if hooked else "", server)
        return self._attempts(
            self,
            seat,
            job,
            layout,
            replace(turn, env={**handed, **turn.env}, longest=codecs.LONGEST, keep=_KEPT),
            agent,
            use,
            room,
            confined=tier != "plain",
            transcript=Transcript(seat.root, f"{layout.base}{ENDING}"),
            shut_out=_shut_out(agent, lent) if own else "",
        )

    def _lent(self, agent: CodingAgent, own: str) -> tuple[BindMount, ...]:
        """Find the login that an agent uses, because its own home folder does not have it."""
        home = self.deps.sandbox_paths.home
        if agent.login is None or home is None:
            return ()
        return (BindMount(home / agent.login.path, Path(own) / agent.login.path),)

    @property
    def _attempts(self) -> type[CodingAttempt]:
        """The class of attempts of these agents."""
        return CodingAttempt

    def _chosen(self, job: Job) -> tuple[CodingAgent, CliUse | AcpUse]:
        """Choose the coding agent of the profile. Raises ValueError with what to do."""
        return cli_table.resolve_agent(job.profile.cli, mcp=job.profile.mcp), job.profile.cli or CliUse(agent="")

    def _server(self, agent: CodingAgent, turn: ProgramTurn) -> tuple[str, ...]:
        """Return the command of our MCP server. Raises InputError if the agent would start without its tools."""
        if not self.deps.mcp_server:
            raise InputError(Code.FIELD_VALUE, "the package mcp is not installed; pip install 'agenttalk[mcp]'")
        if self.api() is None:
            raise InputError(Code.FIELD_VALUE, "no engine listens here for an MCP server; remove mcp")
        taken = [name for name in agent.led_by if name in turn.env]
        if taken:
            raise InputError(
                Code.FIELD_VALUE, f"{taken[0]} tells it of our MCP server; remove it from env, or remove mcp"
            )
        return self.deps.mcp_server

    def _hook(self, agent: CodingAgent, job: Job) -> str:
        """Build the command that runs before the agent may stop. Empty if the promise has no checks."""
        promise = job.command.promise
        if not self.deps.self_check or "{HOOK}" not in agent.argv or promise is None or not promise.checks:
            return ""
        return shlex.join((*self.deps.self_check, "--hook", *_in(job.profile)))

    async def _performed(self, attempt: CodingAttempt) -> Performance:
        ended = await attempt.resume_previous_session() or await attempt.run(attempt.turn.prompt)
        performance = await self._judged(attempt, ended)
        for _ in range(MAX_REMINDERS):
            why = await self._missing(attempt, performance) if attempt.can_go_on else ""
            if not why:
                break
            locale = attempt.job.profile.locale
            ended = await attempt.run(render_missing_work(render(why, locale), locale=locale), going_on=True)
            performance = await self._judged(attempt, ended)
        if attempt.self_check_fault:
            performance = replace(performance, usage=attempt.usage(ended))
        if performance.how == "crashed" and attempt.shut_out:
            return replace(performance, error=join([performance.error, attempt.shut_out]))
        return performance

    async def _judged(self, attempt: CodingAttempt, ended: TurnEnd) -> Performance:
        """Judge a run. The agent's own words count only if nothing disproves them."""
        limited = attempt.find_limit(ended)
        if limited is not None:
            return Performance(
                "limited", error=limited.limit.text, limited=limited, usage=attempt.usage(ended),
                seconds=attempt.seconds, sandbox=ended.sandbox,
            )  # fmt: skip
        fault = attempt.account.fault if ended.how == "finished" and ended.exit_code == 0 else None
        found: dict[str, Any] = {"usage": attempt.usage(ended), "seconds": attempt.seconds, "sandbox": ended.sandbox}
        if fault is not None and fault[0] in _CLAIMED and attempt.job.has_checks:
            performance = await self._taken_in(
                attempt.seat, attempt.job, attempt.layout, attempt.with_last_answer(ended)
            )
            if performance.how == "finished" and performance.code is None:
                return replace(performance, remark=fault[1], ended_badly=_CLAIMED[fault[0]], **found)
        if fault is not None and fault[0] in _CRASHES:
            code = fault[0] if fault[0] is Code.AGENT_PROTOCOL else None
            return Performance("crashed", code=code, error=fault[1], **found)
        if fault is not None:
            return Performance("finished", code=fault[0], error=fault[1], **found)
        performance = await self._taken_in(attempt.seat, attempt.job, attempt.layout, attempt.with_last_answer(ended))
        odd = "" if attempt.used.tool_calls else attempt.account.remark
        return replace(performance, remark=performance.remark or odd, **found)

    async def _missing(self, attempt: CodingAttempt, performance: Performance) -> str:
        """Check the work before the agent stops, and say what is missing; empty if nothing is."""
        if performance.how != "finished":
            return ""
        if performance.code is not None:
            return performance.error if performance.code in _ASKED_FOR else ""
        promise = attempt.job.command.promise
        if not self.deps.self_check or attempt.room.hook or promise is None or not promise.checks:
            return ""
        turn = replace(
            attempt.turn,
            argv=(*self.deps.self_check, "--json", *_in(attempt.job.profile)),
            prompt="",
            hear=None,
            longest=None,
            keep=64 * 1024,
        )
        attempt.job.enter("self_check")
        ended = self.deps.secret_guard.redact_ended(await self.driver.run(replace(turn, timeout=attempt.left)))
        attempt.job.enter("working")
        missing = _read_missing(ended)
        if missing is None:  # the self-check failed, which is not the agent's fault
            why = results.describe_error(ended.error, ended.stderr)
            attempt.self_check_fault = why[:_FAULT]
            LOG.warning("%s: the look before it stopped failed: %s", attempt.job.task_id, why, extra={"action": "look"})
            return ""
        return "\n".join(missing)


def _read_missing(ended: TurnEnd) -> list[str] | None:
    """Read what a self-check found missing; None when the check itself failed."""
    if ended.how != "finished" or ended.exit_code not in {0, 1}:
        return None
    try:
        said: Any = wire.read(ended.stdout)
    except JsonError:
        return None
    missing = said.get("missing") if isinstance(said, dict) else None
    return [str(each) for each in missing] if isinstance(missing, list) else None


@dataclass(slots=True)
class CodingAttempt:
    """A coding agent at work on one job, in one run or several of one session."""

    owner: CodingAgents
    seat: AgentInPlan
    job: Job
    layout: AttemptPaths
    turn: ProgramTurn
    agent: CodingAgent
    use: CliUse | AcpUse
    room: RunLocation
    confined: bool
    transcript: Transcript
    shut_out: str = ""
    """The advice for a failed turn, where no key and no login was found for it."""
    account: RunSummary = field(default_factory=RunSummary)
    seconds: float = 0.0
    runs: int = 0
    self_check_fault: str = ""
    """Why the self-check failed, if it did."""
    _before: UsageTotals = NOTHING
    _earlier: UsageTotals = NOTHING
    """The usage of its session before this attempt, for agents that count from the beginning of a session."""
    _bill: Bill = field(init=False)

    def __post_init__(self) -> None:
        self._bill = self._new_bill()

    def _new_bill(self) -> Bill:
        """Start the bill of the next run, with the prices of the profile or of well-known models."""
        prices = self.use.prices
        if prices is None:
            return Bill(self.owner.deps.price)
        return Bill(lambda _, billed: model_services.price_request(prices, billed))

    @property
    def left(self) -> float:
        """Seconds that are left of its time."""
        return max(0.0, self.job.timeout - self.seconds)

    @property
    def can_go_on(self) -> bool:
        """Whether it can run once more in the same session."""
        if self.is_interrupted:
            return False
        return bool(self.agent.resume and self.account.session) and self.left > _SHORTEST

    @property
    def is_interrupted(self) -> bool:
        """Whether a person has interrupted it."""
        return self.turn.interruption is not None and self.turn.interruption.is_requested

    @property
    def used(self) -> UsageTotals:
        """The usage of all its runs so far."""
        onwards = self.agent.going_on if self.runs > 1 else ()
        return events_rules.diff_session_usage(
            events_rules.sum_session_usage(self._before, self.account.used, onwards), self._earlier, self.agent.going_on
        )

    @property
    def _turns(self) -> str:
        return self.layout.base.rpartition("/")[0]

    async def resume_previous_session(self) -> TurnEnd | None:
        """Go on with the session of the attempt before, if that was sent back or interrupted; else return None.

        An agent that has read the code once need not read and pay for it again.
        """
        root = self.seat.root
        again = self.job.command.reexecute is not None or self.job.attempt > 1
        if not again or not self.agent.resume or not isinstance(self.use, CliUse):
            return None
        known = await asyncio.to_thread(coding_sessions.find_session, root, self._turns)
        if self.job.command.reexecute is None and known is not None and not known.interrupted:
            return None
        mine = (self.job.agent_id, self.use.agent, self.confined)
        if known is None or (known.agent_id, known.agent, known.confined) != mine:
            return None
        self.account.add_event(AgentEvent("session", known.session))
        try:
            if self.room.home:
                await asyncio.to_thread(
                    coding_sessions.restore_session, root, self._turns, f"{self.layout.base}/{HOME}"
                )
        except AgentTalkError:
            return None
        self._earlier = known.used
        ended = await self.run(self.turn.prompt, going_on=True) if self.can_go_on else None
        if ended is not None and (self.account.tools or self.account.used.tokens or ended.how != "finished"):
            return ended
        self._earlier = self._before = NOTHING  # the agent does not know the session: begin again
        self.account, self.runs = RunSummary(), 0
        return None

    def save_session(self) -> None:
        """Keep the session, for the case that the work is sent back."""
        if not self.agent.resume or not self.account.session or not isinstance(self.use, CliUse):
            return
        used = self.account.used
        kept = coding_sessions.CodingSession(
            self.job.agent_id,
            self.use.agent,
            self.account.session,
            self.confined,
            used.tokens,
            used.cost_usd,
            self.is_interrupted,
        )
        home = f"{self.layout.base}/{HOME}" if self.room.home else ""
        discretion = self.owner.deps.secret_guard
        coding_sessions.save_session(self.seat.root, self._turns, home, self.agent.sessions, kept, discretion)

    async def run(self, prompt: str, *, going_on: bool = False) -> TurnEnd:
        """Run the agent. Raises InputError when it cannot be started like this."""
        discretion = self.owner.deps.secret_guard
        session = self.account.session if going_on else ""
        try:
            start = cli_table.build_launch(
                self.agent,
                self.use,
                discretion.secrets.redact(prompt),
                self.room,
                confined=self.confined,
                session=session,
            )
            codec = self.agent.make_codec()
        except ValueError as error:
            raise InputError(Code.FIELD_VALUE, str(error)) from error
        await self._begin(start)
        self.account = RunSummary(codec.says_end, session=session, model=self.account.model)
        turn = replace(
            self.turn,
            argv=start.argv,
            prompt=start.stdin,
            env={**start.variables, **self.turn.env, **start.own},
            timeout=self.left,
            hear=lambda line: self._hear(codec.read_line(line)),
        )
        ended = discretion.redact_ended(await self.owner.driver.run(turn))
        self._hear(codec.close())
        self.seconds += ended.seconds
        return ended

    async def _begin(self, start: LaunchSpec) -> None:
        """Write the files that a run starts with, and count the run."""
        for path, text in start.files.items():
            where = f"{self.layout.base}/{path}"
            await asyncio.to_thread(self.seat.root.write, where, text.encode("utf-8", "replace"), parents=True)
        self._before, self.runs = self.used if self.runs else NOTHING, self.runs + 1
        self._bill = self._new_bill()

    def _hear(self, events: Iterator[AgentEvent]) -> None:
        secrets = self.owner.deps.secret_guard.secrets
        heard = list(events)
        last = any(each.kind == "end" for each in heard)
        for told in heard:
            event = self._priced(told)
            event = (
                event._replace(text=secrets.redact(event.text), name=secrets.redact(event.name)) if secrets else event
            )
            self.account.add_event(event)
            self.transcript.add(event, self.owner.deps.stamp())
            if self.job.watch is not None and event.kind in {"text", "tool", "usage"}:
                counts = self.used._asdict() | {"seconds": 0}
                file = events_rules.show_path(event.file, str(self.turn.cwd))
                note = Note(counts, event.line, event.name, file, counts_only=event.kind == "usage", last=last)
                self.job.watch.note(note)

    def _priced(self, event: AgentEvent) -> AgentEvent:
        """Return the usage with its cost: the sum that the agent reports, or our own if that is more."""
        if not event.request:
            return event
        cost = self._bill.add(self.account.model or self.use.model or "", event.request, event.billed)
        return event._replace(used=event.used.max_with(UsageTotals(cost_usd=cost)))

    def with_last_answer(self, ended: TurnEnd) -> TurnEnd:
        """Return the end of a run with the agent's last answer in place of the output of its program."""
        error = self.account.error or (self.account.warning if ended.exit_code else "")
        if ended.how == "finished" and ended.exit_code and error:
            ended = replace(ended, error=turn_words.AGENT_FAILED(error=error), stderr=b"")
        return replace(ended, stdout=events_rules.extract_answer(self.account.text).encode("utf-8", "replace"))

    def find_limit(self, ended: TurnEnd) -> AccountLimit | None:
        """Find the limit of its provider that ended a run, in what its program reports as its failure."""
        if ended.how != "finished" or not self.account.error or self.account.ended:
            return None
        deps = self.owner.deps
        now = deps.now()
        limit = provider_limits.find_limit(
            self.agent.limited,
            self.account.error,
            self.account.limit,
            now=now,
            zones=partial(account_waits.find_zone, now),
        )
        known = account_waits.identify(self.job.profile, self.owner.environ, deps.sandbox_paths.home)
        return AccountLimit(known[1], known[0], limit) if limit is not None and known is not None else None

    def usage(self, ended: TurnEnd) -> dict[str, object]:
        """Return the record of the attempt for the ledger."""
        used = self.used
        told = {
            "exit_code": ended.exit_code,
            "agent": self.use.agent,
            "model": self.account.model or self.use.model,
            "session": self.account.session,
            "tokens": used.tokens,
            "cost_usd": used.cost_usd,
            "tool_calls": used.tool_calls,
            "unpriced": self._bill.unknown if not used.cost_usd else None,
            "turns": self.runs if self.runs > 1 else None,
            "fault": str(Code.AGENT_PROTOCOL) if self.account.broken else None,
            "self_check": self.self_check_fault,
            "events": self.transcript.to_json(),
        }
        return {name: value for name, value in told.items() if value or name == "exit_code"}


def _shut_out(agent: CodingAgent, lent: tuple[BindMount, ...]) -> str:
    """Say how to log an agent in that has neither a key nor a login."""
    if agent.login is None or any(each.source.is_file() for each in lent):
        return ""
    return turn_words.NO_LOGIN(remedy=agent.login.remedy)


def _in(profile: AgentProfile) -> tuple[str, ...]:
    """Name the language of the reader for the command line."""
    return () if profile.locale == "en" else ("--locale", profile.locale)
