"""Monitors of running turns: they count usage, and stop a turn that has used too much or is stuck."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, TypedDict

from agenttalk.engine.budgets.turn_activity import TurnActivity
from agenttalk.engine.budgets.used_budgets import Allowance, Budgets
from agenttalk.ports.agents import Interruption, Job
from agenttalk.rules.agents import progress_notes
from agenttalk.rules.agents.activity import ActivityPhase
from agenttalk.rules.agents.progress_notes import Note
from agenttalk.rules.budgets import budgets, stuck
from agenttalk.rules.budgets.aborts import Abort
from agenttalk.rules.budgets.budgets import Scope
from agenttalk.rules.budgets.stuck import ActivityTrail, StuckRule
from agenttalk.rules.core import usage
from agenttalk.rules.core.usage import NOTHING, UsageTotals
from agenttalk.rules.text import turn_words

_SOONEST: Final = 0.01
"""The shortest time between two checks, in seconds."""


class TurnMonitor:
    """Monitors one attempt. All but its construction happens in the thread of the event loop."""

    __slots__ = (
        "_before",
        "_began",
        "_now",
        "_rule",
        "_seconds",
        "_stop",
        "_timer",
        "_trail",
        "abort",
        "activity",
        "allowance",
        "has_finished",
        "interruption",
        "lease",
    )

    def __init__(
        self, lease: str, rule: StuckRule, allowance: Allowance | None = None, rounds: int | None = None
    ) -> None:
        self.abort: Abort | None = None
        """Why the turn is stopped."""
        self.has_finished = False
        """Whether the program has reported that its work is finished."""
        self.lease = lease
        self._rule = rule
        self.allowance = allowance
        """The limits of the turn. A limit of the day can come and go while it runs."""
        self.activity = TurnActivity(rounds)
        """What the turn is doing, for people who watch."""
        self.interruption = Interruption()
        """Asks the program of the turn to end by itself."""
        self._before = NOTHING
        self._now = NOTHING
        self._seconds = 0.0
        self._began: float | None = None
        self._trail: ActivityTrail | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stop: Callable[[], Any] = lambda: None

    def attach(self, stop: Callable[[], Any]) -> None:
        """Have `stop` end the turn from now on."""
        self._stop = stop
        if self.allowance is not None:
            for tally in self.allowance.tallies.values():
                tally.watchers[self.lease] = self

    def set_allowance(self, allowance: Allowance | None) -> None:
        """Change the limits of the turn. If one is used up already, the turn is stopped."""
        for tally in self.allowance.tallies.values() if self.allowance is not None else ():
            tally.remove_turn(self.lease)
        self.allowance = allowance
        for tally in allowance.tallies.values() if allowance is not None else ():
            tally.watchers[self.lease] = self
        self.check_limits()
        if self.abort is None and self._began is not None:
            self._set_timer()

    def begin_program(self) -> None:
        """Record that a program starts. Usage of an earlier program, which judged an input, stays counted."""
        self._began = asyncio.get_running_loop().time()
        self.activity.enter("working")
        if self._rule.seconds is not None or self.allowance is not None:
            self._set_timer()

    def end_program(self) -> None:
        """Record that the program has ended: time that passes now is not its own."""
        if self._began is None:
            return
        self._seconds += asyncio.get_running_loop().time() - self._began
        self._began = self._trail = None
        if self._now is not NOTHING:
            self._before, self._now = self._before.plus(self._now), NOTHING
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Record that the turn is over."""
        if self._began is not None:
            self.end_program()
        if self.allowance is not None:
            for tally in self.allowance.tallies.values():
                tally.remove_turn(self.lease)

    @property
    def has_usage(self) -> bool:
        """Whether a report was made that counts as progress."""
        return self._before is not NOTHING or self._now is not NOTHING

    @property
    def used(self) -> UsageTotals:
        """Return what all programs of the attempt have reported as used so far, and how long they took."""
        running = asyncio.get_running_loop().time() - self._began if self._began is not None else 0.0
        return self._before.plus(self._now)._replace(seconds=self._seconds + running)

    def hear(self, line: bytes) -> None:
        """Read a line of the program's output."""
        note = progress_notes.read_note(line)
        if note is not None:
            self.note(note)

    def note(self, note: Note) -> None:
        """Read a report of the program."""
        if self._began is None:
            return
        self._now = self._now.max_with(usage.measure_usage(note.usage))
        self.activity.note(note)
        if not note.counts_only:
            what = note.progress or str(sorted(note.usage.items(), key=str))
            self._trail = stuck.extend_trail(self._trail or ActivityTrail(), what, asyncio.get_running_loop().time())
        self.has_finished = note.last
        self.check_limits()
        if self._rule.seconds is not None:
            self._set_timer()

    def enter(self, phase: ActivityPhase, detail: str = "") -> None:
        """Show people who watch what is done from now on."""
        self.activity.enter(phase, detail)

    def count_tests(self, done: int | None, total: int | None) -> None:
        """Show them how many tests the running check has finished."""
        self.activity.count_tests(done, total)

    def report_unsafe(self, what: str) -> None:
        """Record that the program did something forbidden, and stop it."""
        self.stop(Abort("unsafe", what))

    def interrupt(self) -> bool:
        """Ask the program of the turn to end by itself. Returns whether there is one to wait for."""
        asked = self.interruption.request()
        if asked:
            self.activity.enter("stopping")
        return asked

    def stop(self, abort: Abort) -> None:
        """Stop the turn. The first reason counts."""
        if self.abort is None:
            self.abort = abort
            self._stop()

    def check_limits(self) -> None:
        """Stop the turn if it has used too much or is stuck, and turns that share its budget.

        A turn that has reported its end is not stopped by the day's limit: it ends anyway, and the money is spent.
        """
        if self.abort is not None or self._began is None:
            return
        now = self.used
        if self.allowance is not None:
            passed = budgets.find_overrun(self.allowance.limits, self._counted(self.allowance, now))
            if passed is not None:
                abort = passed.abort
                if not (self.has_finished and abort.pauses):
                    self.stop(abort)
                for tally in self.allowance.tallies.values():
                    for other in list(tally.watchers.values()):
                        if not (other.has_finished and abort.pauses):
                            other.check_limits()
                return
        why = stuck.explain_stuck(
            self._trail or ActivityTrail(at=self._began), self._rule, asyncio.get_running_loop().time()
        )
        if why is not None:
            self.stop(Abort("stuck", why))

    @staticmethod
    def _counted(allowance: Allowance, now: UsageTotals) -> dict[Scope, UsageTotals]:
        """Return the usage in every scope. Monitors that share a budget are asked, because time passes for all."""
        for tally in allowance.tallies.values():
            for lease, other in list(tally.watchers.items()):
                tally.live[lease] = other.used
        return allowance.total_used(now)

    def _set_timer(self) -> None:
        """Check again at the time at which a limit will be exceeded, with or without a report."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._began is None:
            return
        loop = asyncio.get_running_loop()
        due = []
        if self._rule.seconds is not None:
            due.append((self._trail.at if self._trail is not None else self._began) + self._rule.seconds)
        if self.allowance is not None:
            left = budgets.compute_seconds_left(self.allowance.limits, self._counted(self.allowance, self.used))
            sharing = max([1, *(len(tally.watchers) for tally in self.allowance.tallies.values())])
            due += [loop.time() + max(_SOONEST, left / sharing)] if left is not None else []
        if due:
            self._timer = loop.call_at(min(due), self._late)

    def _late(self) -> None:
        """Check the limits, because the time has come."""
        self._timer = None
        if self.abort is None and self.allowance is not None:
            now = self.used
            over = [
                each
                for each in budgets.find_exhausted(self.allowance.limits, self._counted(self.allowance, now))
                if each.kind == "seconds"
            ]
            if over:
                self.stop(Abort("budget-exhausted", turn_words.USED_UP(limit=over[0].describe())))
                return
        self.check_limits()
        if self.abort is None:
            self._set_timer()


class TurnMonitors:
    """The monitors of running turns, by task."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], tuple[int, TurnMonitor]] = {}
        self.viewers: set[asyncio.Event] = set()
        """Set whenever an activity changed, for people who watch."""

    def tell_viewers(self) -> None:
        """Wake those who watch."""
        for viewer in self.viewers:
            viewer.set()

    def begin(self, job: Job, watch: TurnMonitor, stop: Callable[[], Any]) -> None:
        """Monitor a turn that begins; `stop` ends it."""
        self._known[(job.board, job.plan_id, job.task_id)] = (job.epoch, watch)
        watch.attach(stop)
        watch.activity.attach(self.tell_viewers)

    def end(self, job: Job, watch: TurnMonitor) -> None:
        """Forget a turn that is over; the next one of its task may have begun."""
        name = (job.board, job.plan_id, job.task_id)
        if name in self._known and self._known[name][1] is watch:
            del self._known[name]
        watch.close()

    def find(self, board: str, plan_id: str, task_id: str) -> TurnMonitor | None:
        """Return the monitor of a task."""
        known = self._known.get((board, plan_id, task_id))
        return known[1] if known is not None else None

    def list_all(self) -> list[TurnMonitor]:
        """List the monitors of all turns under way."""
        return [watch for _, watch in self._known.values()]

    def limit_day(self, purse: Budgets, at: str) -> None:
        """Apply another limit of the day to running turns, too."""
        for (board, _, _), (_, watch) in list(self._known.items()):
            watch.set_allowance(purse.apply_day_limit(watch.allowance, board, at))

    def report(self, board: str, plan_id: str, task_id: str, epoch: int, note: Note) -> str | None:
        """Read a report of a running attempt. Return why it is stopped, if it is. An old attempt is ignored."""
        known, watch = self._known.get((board, plan_id, task_id), (0, None))
        if watch is None or known != epoch:
            return None
        watch.note(note)
        return str(watch.abort) if watch.abort is not None else None


def start_counting(job: Job) -> TurnMonitor | None:
    """Count the reported usage of a job from now on, and its time; not the time of a person."""
    watch = job.watch
    if not isinstance(watch, TurnMonitor) or job.profile.driver == "human":
        return None
    if not job.profile.is_elsewhere:  # it begins when its agent takes it
        watch.begin_program()
    return watch


class TurnUsage(TypedDict):
    """What a turn used, as its performance has it."""

    seconds: float
    usage: dict[str, object]


def merge_usage(told: UsageTotals, said: Mapping[str, Any]) -> TurnUsage:
    """Return what a turn used, for its performance: what it reported, or its final report if that is more."""
    most = told.max_with(usage.measure_usage(said))
    counts = {"tokens": most.tokens, "cost_usd": most.cost_usd, "tool_calls": most.tool_calls}
    return {"seconds": most.seconds, "usage": {**said, **{name: count for name, count in counts.items() if count}}}
