"""Runs schedules: submits a plan at each time that is due, exactly once, also after a crash.

The first process that finds a due time stores it with the id of its plan, and then submits the plan. Submitting a plan
twice submits it once, so any process that finds the time unfinished can go on with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ValidationError

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import format_instant, is_id, parse_instant
from agenttalk.contracts.core.cron import parse_cron
from agenttalk.contracts.core.problems import find_nearest, problems_of
from agenttalk.contracts.errors import AgentTalkError, Code, ContractError, InputError, MachineError, UsageError
from agenttalk.contracts.schedule import Schedule
from agenttalk.engine.core.boards import SYSTEM, board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.plans import submission
from agenttalk.ports.statements.operation import (
    ADD_SCHEDULE,
    BEGIN_SCHEDULE,
    CLAIM_SCHEDULE,
    END_SCHEDULE,
    PASS_SCHEDULE,
    PAUSE_SCHEDULE,
    REMOVE_SCHEDULE,
    RESUME_SCHEDULE,
    SCHEDULES,
    ScheduleRow,
)
from agenttalk.ports.statements.plans import RUN_STATE
from agenttalk.ports.storage import Store, Tx
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.rules.plans import schedules
from agenttalk.rules.text import task_words
from agenttalk.rules.text.catalogue import read_column, to_columns, with_messages
from agenttalk.rules.text.message import Message

LOG = logging.getLogger(__name__)
_ACTIONS: Final = {"pause": PAUSE_SCHEDULE, "resume": RESUME_SCHEDULE, "remove": REMOVE_SCHEDULE}
IDLE: Final = 3600.0
"""Seconds after which it looks again although nothing is due: the clock may have been set."""
SOON: Final = 60.0
"""The same where something is."""
RETRY: Final = 5.0
LONGEST: Final = 96
"""Characters of a name: the time comes behind it."""
PlanCompiler: TypeAlias = "Callable[[Schedule, str], CompiledPlan]"
"""Makes the plan of a schedule, under an id; it may read files. Raises AgentTalkError."""


ScheduleView = TypedDict(
    "ScheduleView",
    {
        "name": str,
        "cron": str,
        "timezone": NotRequired[str],
        "plan": NotRequired[str],
        "agent": NotRequired[str],
        "prompt": NotRequired[str],
        "catch_up": NotRequired[bool],
        "from": Literal["settings", "command"],
        "paused": bool,
        "last_plan_id": str | None,
        "last_problem": str | None,
        "next_at": str | None,
    },
)
"""A schedule as it stands, and when it is due next."""


class ScheduleChange(TypedDict):
    """The effect of an action on a schedule: whether it changed, or the plan that it began."""

    name: str
    changed: NotRequired[bool]
    plan_id: NotRequired[str]


@dataclass(frozen=True, slots=True)
class ScheduleState:
    """A schedule as it stands."""

    name: str
    schedule: Schedule
    configured: bool
    """Whether the settings say it."""
    paused: bool
    since: str
    plan_id: str
    """Of its last run."""
    due: bool
    why: str
    """Why the last time came to nothing, if it did."""

    def as_json(self, now: datetime) -> ScheduleView:
        """Return it as JSON."""
        upcoming = schedules.find_next_slot(parse_cron(self.schedule.cron), timezone_of(self.schedule), now)
        defined = self.schedule.as_json()
        shown: Any = {
            "name": self.name,
            **defined,
            "from": "settings" if self.configured else "command",
            "paused": self.paused,
            "last_plan_id": self.plan_id or None,
            "last_problem": self.why or None,
            "next_at": format_instant(upcoming.at) if upcoming and not self.paused else None,
        }
        return cast("ScheduleView", shown)


class Scheduler:
    """The schedules of a root: those of its settings, and those that were added."""

    def __init__(
        self,
        deps: Deps,
        configured: Mapping[str, Schedule],
        compiler: PlanCompiler,
        *,
        nudge: Callable[[], None] = lambda: None,
        submitted: Callable[[], None] = lambda: None,
    ) -> None:
        """`nudge` wakes the loop of the schedules, and `submitted` the dispatcher."""
        self._deps = deps
        self._configured = configured
        self._compiler = compiler
        self._nudge = nudge
        self._submitted = submitted

    def configure(self, configured: Mapping[str, Schedule]) -> None:
        """Use other schedules of the settings from now on."""
        self._configured = configured

    async def read_states(self) -> list[ScheduleState]:
        """Return all schedules. One that the settings name for the first time counts from now on."""
        system = await self._deps.stores.board(SYSTEM)
        states = [self._read_state(row) for row in await system.read(SCHEDULES)]
        known = [state for state in states if state is not None]
        names, since = {state.name for state in known}, self._deps.stamp()
        new = [name for name in sorted(self._configured) if name not in names]
        return [
            *known,
            *(ScheduleState(name, self._configured[name], True, False, since, "", False, "") for name in new),
        ]

    async def _store_new(self) -> None:
        """Store the schedules that the settings name for the first time."""
        system = await self._deps.stores.board(SYSTEM)
        names = {row.name for row in await system.read(SCHEDULES)}
        new = [name for name in self._configured if name not in names]
        if new:
            since = self._deps.stamp()
            await system.transact(lambda tx: _add(tx, dict.fromkeys(new), since))

    def _read_state(self, row: ScheduleRow) -> ScheduleState | None:
        schedule = self._configured.get(row.name)
        configured = schedule is not None
        if schedule is None:
            if row.definition is None:
                return None  # it has been taken out of the settings
            schedule = Schedule.model_validate(wire.read(row.definition))
        return ScheduleState(
            row.name,
            schedule,
            configured,
            bool(row.paused),
            row.since,
            row.plan_id,
            row.state == "due",
            read_column(row.why, row.why_message) or "",
        )

    async def describe_all(self) -> list[ScheduleView]:
        """Describe all schedules."""
        return [schedule.as_json(self._deps.now()) for schedule in await self.read_states()]

    async def add(self, name: str, said: Mapping[str, Any], *, by: str) -> ScheduleView:
        """Add a schedule. Raises InputError for one that is wrong, or when there is one of that name."""
        if not is_id(name) or name.startswith("_") or len(name) > LONGEST:
            hint = f"use letters, digits, '_' and '-', at most {LONGEST}"
            raise UsageError(Code.ID_INVALID, f"{name[:140]!r} cannot be the name of a schedule", hint=hint)
        schedule = _read(said)
        timezone_of(schedule)
        compiled = await asyncio.to_thread(self._compiler, schedule, name)
        if compiled.problems:
            first = compiled.problems[0]
            message = task_words.WRONG_PLAN(field=first.field, what=first.message)
            raise ContractError(first.code, message, list(compiled.problems), hint=first.hint)
        if any(known.name == name for known in await self.read_states()):
            raise UsageError(
                Code.NAME_TAKEN, f"there is a schedule {name!r}", hint="remove it first, or take another name"
            )
        since, body = self._deps.stamp(), wire.write(schedule.as_json())
        system = await self._deps.stores.board(SYSTEM)

        def work(tx: Tx) -> None:
            tx.run(ADD_SCHEDULE, name=name, definition=body, since=since)
            tx.record("schedule.added", name, {"by": by, "schedule": schedule.as_json()})

        await system.transact(work)
        self._nudge()
        return (await self._find(name)).as_json(self._deps.now())

    async def apply_action(self, name: str, action: str, *, by: str) -> ScheduleChange:
        """Pause, resume, remove or run a schedule."""
        schedule = await self._find(name)
        if action == "run":
            return await self._run_now(schedule, by=by)
        statement = _ACTIONS.get(action)
        if statement is None:
            hint = "use one of: pause, resume, remove, run"
            raise UsageError(Code.NAME_UNKNOWN, f"unknown action {action[:40]!r} for a schedule", hint=hint)
        if action == "remove" and schedule.configured:
            hint = "take it out of agenttalk.toml, or pause it"
            raise UsageError(Code.NOT_ALLOWED, f"{name} stands in the settings", hint=hint)
        since = {"since": self._deps.stamp()} if action == "resume" else {}
        system = await self._deps.stores.board(SYSTEM)

        def work(tx: Tx) -> bool:
            changed = bool(tx.run(statement, name=name, **since))
            if changed:
                tx.record(f"schedule.{action}d", name, {"by": by})
            return changed

        changed = await system.transact(work)
        self._nudge()
        return {"name": name, "changed": changed}

    async def _find(self, name: str) -> ScheduleState:
        await self._store_new()
        known = {schedule.name: schedule for schedule in await self.read_states()}
        if name not in known:
            near = find_nearest(name, known)
            hint = f"did you mean {near!r}?" if near else "'agenttalk schedule list' lists them"
            raise UsageError(Code.NAME_UNKNOWN, f"there is no schedule {name[:80]!r}", hint=hint)
        return known[name]

    async def _run_now(self, schedule: ScheduleState, *, by: str) -> ScheduleChange:
        now = self._deps.now()
        local = now.astimezone(timezone_of(schedule.schedule))
        plan_id = f"{schedule.name}-{local:%Y-%m-%dT%H-%M-%S}-{manual_run_suffix(self._deps.ids.new('run'))}"
        system = await self._deps.stores.board(SYSTEM)

        def work(tx: Tx) -> bool:
            begun = bool(tx.run(BEGIN_SCHEDULE, name=schedule.name, plan_id=plan_id))
            if begun:
                tx.record("schedule.due", schedule.name, {"plan_id": plan_id, "by": by})
            return begun

        if not await system.transact(work):
            raise UsageError(
                Code.NAME_TAKEN, f"{schedule.name} is being started right now", hint="try again in a moment"
            )
        problem = await self._begin(system, schedule, plan_id)
        if problem is not None:
            raise problem
        return {"name": schedule.name, "plan_id": plan_id}

    async def pass_(self) -> float:
        """Start the plans that are due. Returns seconds until the next time is due."""
        pause = IDLE
        await self._store_new()
        for schedule in await self.read_states():
            try:
                pause = min(pause, await self._check(schedule))
            except AgentTalkError as error:
                LOG.warning("schedule %s: %s", schedule.name, error.message, extra={"action": "schedule.look"})
                pause = min(pause, RETRY if isinstance(error, MachineError) else SOON)
        return pause

    async def _check(self, schedule: ScheduleState) -> float:
        system = await self._deps.stores.board(SYSTEM)
        if schedule.due:
            await self._begin(system, schedule, schedule.plan_id)
        if schedule.paused:
            return IDLE
        now = self._deps.now()
        cron, clock = parse_cron(schedule.schedule.cron), timezone_of(schedule.schedule)
        decision = schedules.decide(
            cron, clock, parse_instant(schedule.since), now, catch_up=schedule.schedule.catch_up
        )
        if decision.slot is not None and not schedule.due:
            await self._decided(system, schedule, decision)
        if decision.upcoming is None:
            return IDLE
        return min(SOON, max(0.0, (decision.upcoming.at - self._deps.now()).total_seconds()))

    async def _decided(self, system: Store, schedule: ScheduleState, decision: schedules.ScheduleDecision) -> None:
        """Begin the plan of a time, or say why there is none."""
        slot = decision.slot
        if slot is None:
            return
        plan_id = schedules.make_plan_id(schedule.name, slot)
        why = "" if decision.run else task_words.NO_ENGINE(slot=slot.label)
        if decision.run and schedule.plan_id and await self._runs(schedule.plan_id):
            why = task_words.NOT_ENDED(slot=slot.label, plan=schedule.plan_id)
        body = {"slot": slot.label, "at": format_instant(slot.at), "plan_id": plan_id, "missed_others": decision.missed}
        about = {"name": schedule.name, "since": schedule.since, "slot": format_instant(slot.at)}

        def work(tx: Tx) -> bool:
            if why:
                passed = bool(tx.run(PASS_SCHEDULE, **about, **to_columns(why, "why")))
                if passed:
                    tx.record("schedule.skipped", schedule.name, with_messages({**body, "why": why}))
                return False
            claimed = bool(tx.run(CLAIM_SCHEDULE, **about, plan_id=plan_id))
            if claimed:
                tx.record("schedule.due", schedule.name, body)
            return claimed

        if await system.transact(work):
            await self._begin(system, schedule, plan_id)

    async def _runs(self, plan_id: str) -> bool:
        rows = await (await board_of(self._deps, plan_id)).read(RUN_STATE, plan_id=plan_id)
        return bool(rows) and rows[0].state != "ENDED"

    async def _begin(self, system: Store, schedule: ScheduleState, plan_id: str) -> AgentTalkError | None:
        """Submit the plan of a due time. An invalid plan is reported, and not tried again."""
        problem: AgentTalkError | None = None
        try:
            await self._submit(schedule.schedule, plan_id)
        except InputError as error:
            if not await self._is_there(plan_id):  # else another process submitted it, from another version of the file
                problem = error
        why = problem.message if problem else ""
        if why and not isinstance(why, Message):
            why = task_words.CANNOT_BEGIN(what=why)

        def work(tx: Tx) -> None:
            if tx.run(END_SCHEDULE, name=schedule.name, plan_id=plan_id, **to_columns(why, "why")):
                kind = "schedule.failed" if why else "schedule.begun"
                tx.record(kind, schedule.name, with_messages({"plan_id": plan_id, **({"why": why} if why else {})}))

        await system.transact(work)
        if problem is not None:
            LOG.warning("%s: %s", plan_id, problem.message, extra={"action": "schedule.failed"})
        else:
            self._submitted()
        return problem

    async def _submit(self, schedule: Schedule, plan_id: str) -> None:
        if await self._is_there(plan_id):
            return
        compiled = await asyncio.to_thread(self._compiler, schedule, plan_id)
        if compiled.problems:
            first = compiled.problems[0]
            message = task_words.WRONG_PLAN(field=first.field, what=first.message)
            raise ContractError(first.code, message, list(compiled.problems))
        board = (await board_of(self._deps, plan_id)).name
        await submission.store_check_files(self._deps, board, compiled.dag, compiled.files)
        await submission.submit(self._deps, compiled.dag, compiled.manifest, compiled.profiles)

    async def _is_there(self, plan_id: str) -> bool:
        """Whether a plan was submitted, all of it."""
        rows = await (await board_of(self._deps, plan_id)).read(RUN_STATE, plan_id=plan_id)
        return bool(rows) and rows[0].state != "SUBMITTED"


def timezone_of(schedule: Schedule) -> tzinfo:
    """Return the time zone of a schedule. Raises UsageError for an unknown one."""
    try:
        return ZoneInfo(schedule.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"there is no time zone {schedule.timezone[:80]!r} on this machine"
        hint = "write it as Europe/Berlin; if there is none at all, install tzdata"
        raise UsageError(Code.FIELD_VALUE, message, hint=hint) from error


def manual_run_suffix(new_id: str) -> str:
    """Return the end of the id of a run that a person asked for."""
    return f"by-hand-{new_id[-6:]}"


def _read(said: Mapping[str, Any]) -> Schedule:
    try:
        return Schedule.model_validate(dict(said))
    except ValidationError as error:
        problems = list(problems_of(error))
        first = problems[0]
        message = f"this schedule is wrong: {first.field}: {first.message}"
        raise ContractError(first.code, message, problems, hint=first.hint) from error


def _add(tx: Tx, definitions: Mapping[str, None], since: str) -> None:
    for name in definitions:
        tx.run(ADD_SCHEDULE, name=name, definition=None, since=since)
