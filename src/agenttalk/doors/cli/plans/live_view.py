"""Shows the progress of a plan: a living block of lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from agenttalk.doors.cli.core.output import CommandOutput, sanitize, sanitize_line, summarize_lines
from agenttalk.doors.cli.plans import decisions, run_evidence

if TYPE_CHECKING:
    from agenttalk.doors.cli.core.live_block import LiveBlock
    from agenttalk.doors.cli.plans.watched_plan import WatchedPlan
    from agenttalk.engine.budgets.denials import GateDenial
    from agenttalk.engine.core.task_status import TaskUsage, TaskView
    from agenttalk.engine.views.models.attempts import AttemptUsage, RoundView
    from agenttalk.engine.views.models.plans import PlanView
    from agenttalk.engine.views.models.tasks import TaskExplanation
    from agenttalk.rules.agents.activity import TaskActivity

MARKS: Final = {
    "pending": ("dim", "·"),
    "working": ("blue", "▶"),
    "review": ("blue", "◆"),
    "blocked": ("yellow", "‖"),
    "done": ("green", "✓"),
    "failed": ("bold red", "✗"),
    "skipped": ("dim", "-"),
}
"""Column of the board → its colour and sign."""
RESULTS: Final = {
    "done": "[green]✓[/]",
    "failed": "[bold red]✗[/]",
    "waiting": "[yellow]‖[/]",
    "paused": "[yellow]‖[/]",
    "running": "[yellow]![/]",
    "interrupted": "[yellow]![/]",
}
"""Result of a plan → its sign."""
_NARROW: Final = 60
"""Columns of a terminal below which shorter words are used."""
_MOST_TOLD: Final = 50
"""How many tasks a plan may have whose phases are printed as plain lines."""
_LONG: Final = 5.0
"""Seconds after which a block shows how long an agent has been doing one thing."""


class LivePlanView:
    """Shows the progress of a plan on standard error. JSON goes to standard output, at the end."""

    def __init__(
        self,
        out: CommandOutput,
        plan_id: str,
        *,
        order: Sequence[str] = (),
        without_program: Collection[str] = (),
        root: Path | None = None,
        explains: bool = False,
        one_change: bool = False,
    ) -> None:
        """`order` is the order of the tasks, and `without_program` names agents that no program runs.

        `explains`: whether the evidence is shown at the end. `one_change`: whether this is the one task of `until`,
        which is named by its agent, and whose end the command tells itself.
        """
        from agenttalk.wiring import SystemClock

        self._out = out
        self._plan_id = plan_id
        self._places = {task_id: place for place, task_id in enumerate(order)}
        self._without_program = without_program
        self._root = root
        self._began = time.monotonic()
        self._states: dict[str, tuple[str, str | None, int]] = {}
        self._phases: dict[str, str] = {}
        """Task → the phase that was printed last."""
        self._working: dict[str, float] = {}
        """Task → when it was first seen working."""
        self._block: LiveBlock | None = None
        self._has_drawn = False
        self._notice = ""
        """A line below the tasks."""
        self._explains = explains
        self._one_change = one_change
        self.explained: dict[str, TaskExplanation] = {}
        """Task → its explanation, for the evidence at the end."""
        self._waits: set[str] = set()
        """The last lines about accounts that the plan waits for."""
        self._rounds: dict[str, int] | None = None
        """Task → its rounds, as they were last seen."""
        self._began_at = SystemClock().now()
        self._refused: set[tuple[str, str]] = set()
        """Tasks and times of the refusals that it has printed."""
        self._closing: str | None = None
        """The last line about the closing of the plan."""

    def __enter__(self) -> Self:
        if not self._out.as_json and can_draw():
            from agenttalk.doors.cli.core.live_block import LiveBlock

            # A console of its own: the block is drawn again while the other one prints above it.
            self._block = LiveBlock(CommandOutput(as_json=False).console(err=True))
            self._block.open()
            self._has_drawn = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._block is not None:
            self._block.close()
            self._block = None

    @property
    def draws(self) -> bool:
        """Whether time passes in it, so that it has to be shown again although nothing has happened."""
        return self._block is not None

    def list_explained(self, standing: PlanView | None) -> list[str]:
        """Return the tasks whose explanations are needed at the end."""
        return run_evidence.list_explained(standing["tasks"]) if self._explains and standing is not None else []

    def describe_done(self, standing: PlanView) -> dict[str, str]:
        """Return what each task that is done took. Nothing where plain lines said so already."""
        done = [task for task in standing["tasks"] if task["board"] == "done"] if self._has_drawn else []
        return {
            task["task_id"]: f"[dim]{describe_usage(self._out, task['usage'])}[/]" for task in done if task.get("usage")
        }

    def show(self, standing: PlanView) -> None:
        """Show the current status."""
        standing = self._order(standing)
        self._note_working(standing)
        if self._block is not None:
            width, height = self._block.size
            self._block.draw(self._draw_lines(standing, width, height))
        elif not self._out.as_json:
            self._say_changes(standing)

    def describe_tasks(self, standing: PlanView, width: int) -> list[str]:
        """Return the lines of all tasks, for a block in which there are other plans, too."""
        standing = self._order(standing)
        self._note_working(standing)
        return [line for task in standing["tasks"] for line in self._describe_task(self._named(task), width)]

    def _note_working(self, standing: PlanView) -> None:
        now = time.monotonic()
        working = [task["task_id"] for task in standing["tasks"] if task["board"] in {"working", "review"}]
        self._working = {task_id: self._working.get(task_id, now) for task_id in working}

    def list_refused(self, standing: PlanView) -> list[str]:
        """Return the tasks in another round than before: `tell_refused` needs their explanations."""
        if self._out.as_json:
            return []
        rounds = {task["task_id"]: task["rounds"] for task in standing["tasks"]}
        before, self._rounds = self._rounds, rounds
        if before is None:  # of a large plan that goes on, not every earlier round is read again
            before = rounds if len(rounds) > _MOST_TOLD else {}
        return [task_id for task_id, number in rounds.items() if number and number != before.get(task_id, 0)]

    def tell_refused(self, task_id: str, explanation: TaskExplanation) -> None:
        """Print a line for each round of a task that was refused since this began. It stays above the block."""
        name = f"[bold]{sanitize_line(task_id)}[/] " if len(self._rounds or ()) > 1 else ""
        for entry in explanation["history"]:
            key = (task_id, entry["at"])
            is_new = key not in self._refused and datetime.fromisoformat(entry["at"]) >= self._began_at
            if entry["what"] == "ordered" and entry.get("round") and is_new:
                self._refused.add(key)
                self._out.say(f"[bold red]✗[/] {name}{_describe_refusal(self._out, entry)}", err=True)

    def announce_stop(self) -> None:
        """Say at once that the agents were asked to stop, and keep it in view."""
        self._notice = self._out.text("run.stopping")
        if self._block is None:
            self._out.say(f"[yellow]![/] {self._notice}", err=True)

    def conclude(self, standing: WatchedPlan) -> None:
        """Show the final status."""
        out = self._out
        if out.as_json:
            out.write_json({"ok": standing["result"] == "done", **standing})
            return
        standing = {**standing, **self._order(standing)}
        result = "interrupted" if standing.get("interrupted") else standing["result"]
        by_state: Mapping[str, Any] = standing["counts"]
        counts = out.join(_count_state(out, count, state) for state, count in by_state.items() if count)
        took = describe_usage(out, standing.get("usage"), timed=False)
        lasted = out.text("time.seconds", seconds=time.monotonic() - self._began)
        summary = join_clauses(out, counts, lasted, took)
        out.say(f"{RESULTS[result]} [bold]{sanitize(self._plan_id)}[/]: {out.text(f'run.{result}')} ({summary})")
        for task in standing["tasks"]:
            was_interrupted = standing.get("interrupted") and task["state"] == "READY" and task["reason"]
            if task["board"] in {"failed", "blocked"} or was_interrupted:
                out.say(f"  {_line(out, task)}")
            elif task["agent_id"] in self._without_program and task["state"] in {"READY", "RUNNING"}:
                where = f"agents/{task['agent_id']}/inbox/{self._plan_id}"
                out.say(f"  {_line(out, task)} {out.text('run.by_hand', folder=sanitize(where))}")
        for gate in standing.get("gates", ()):
            if gate["allowed"]:  # a denial is the reason that its task shows
                out.say(f"  {describe_gate(out, gate)}")
        decisions.tell_decisions(out, standing)
        self._say_where_to_look(standing)

    def _say_where_to_look(self, standing: PlanView) -> None:
        """Print on standard error where to look next."""
        asked = any(task["request_id"] for task in standing["tasks"] if task["board"] == "blocked")
        if asked:
            self._out.say(f"[cyan]→[/] {self._out.text('run.inbox')}", err=True)
        elif standing.get("questions"):
            self._out.say(f"[yellow]?[/] {describe_open_questions(self._out, standing['questions'])}", err=True)
        made = self._root / "system_runtime" / "artifacts" / self._plan_id if self._root else None
        if made is not None and made.is_dir():
            self._out.say(f"[cyan]→[/] {self._out.text('run.outputs', folder=sanitize(made))}", err=True)

    def _order(self, standing: PlanView) -> PlanView:
        """Return the status with its tasks in the order of the plan, in the reader's language."""
        last = len(self._places)
        tasks = sorted(standing["tasks"], key=lambda task: self._places.get(task["task_id"], last))
        ordered: PlanView = {**standing, "tasks": tasks}
        return self._out.translate(ordered)

    # Plain lines

    def _say_changes(self, standing: PlanView) -> None:
        """Print a line for each task that changed, and for each that began another phase."""
        few = len(standing["tasks"]) <= _MOST_TOLD
        for task in standing["tasks"]:
            task_id, state = task["task_id"], (task["board"], task["reason"], task["rounds"])
            if self._states.get(task_id, ("pending", None, 0)) != state:
                self._states[task_id] = state
                if task["board"] == "working":  # that line says that its agent is at work
                    self._phases[task_id] = "working"
                if not self._one_change:
                    self._out.say(_line(self._out, task), err=True)
                elif task["board"] == "working":
                    self._out.say(_line(self._out, self._named(task)), err=True)
            activity = task.get("activity")
            if few and activity is not None and _name_phase(activity) not in {self._phases.get(task_id), "checking "}:
                self._phases[task_id] = _name_phase(activity)
                name = "" if self._one_change else f"{sanitize(task_id)}: "
                self._out.say(f"  {name}{_describe_phase(self._out, task)}", err=True)
        waits = {str(wait["text"]): None for wait in standing.get("waits", ())}
        for text in waits.keys() - self._waits:
            self._out.say(f"[yellow]![/] {sanitize_line(text)}", err=True)
        self._waits = set(waits)
        closing = standing.get("closing")
        if closing and closing != self._closing:
            self._out.say(f"[blue]◆[/] {self._out.text('run.closing', what=sanitize(closing))}", err=True)
        self._closing = closing

    # The block

    def _draw_lines(self, standing: PlanView, width: int, height: int) -> list[str]:
        """Return the lines of the block. Where the terminal is too low, tasks at work come first."""
        head = [self._describe_plan(standing, width)]
        closing, questions = standing.get("closing"), standing.get("questions")
        foot = [f"[blue]◆[/] {self._out.text('run.closing', what=sanitize_line(closing))}"] if closing else []
        foot += [f"[yellow]?[/] {describe_open_questions(self._out, questions)}"] if questions else []
        foot += [f"[yellow]![/] {sanitize_line(wait['text'])}" for wait in standing.get("waits", ())]
        foot += [f"[yellow]![/] {self._notice}"] if self._notice else []
        room = height - len(head) - len(foot)
        tasks = {task["task_id"]: self._describe_task(self._named(task), width) for task in standing["tasks"]}
        left_out: list[str] = []
        for board in ("skipped", "done", "pending", "failed", "blocked", "review", "working"):
            if sum(map(len, tasks.values())) + bool(left_out) <= room:
                break
            candidates = [task["task_id"] for task in standing["tasks"] if task["board"] == board]
            while candidates and sum(map(len, tasks.values())) + 1 > room:
                tasks.pop(candidates.pop())
                left_out.append(board)
        hidden = self._out.join(
            _count_state(self._out, left_out.count(board), board) for board in dict.fromkeys(left_out)
        )
        more = [f"[dim]{self._out.text('run.hidden', tasks=hidden)}[/]"] if left_out else []
        return [*head, *(line for lines in tasks.values() for line in lines), *more, *foot]

    def _named(self, task: TaskView) -> TaskView:
        return {**task, "task_id": ""} if self._one_change else task

    def _describe_plan(self, standing: PlanView, width: int) -> str:
        usage = _add_up((standing["usage"], *(task.get("activity") for task in standing["tasks"])))
        done = sum(task["board"] in {"done", "skipped"} for task in standing["tasks"])
        parts = [describe_duration(self._out, time.monotonic() - self._began)]
        parts += describe_cost(self._out, usage, short=width < _NARROW)
        count = len(standing["tasks"])
        parts += [self._out.text("run.done_of", done=done, count=count)] if count > 1 else []
        return f"[bold]{sanitize_line(self._plan_id)}[/]  [dim]{' · '.join(parts)}[/]"

    def _describe_task(self, task: TaskView, width: int) -> list[str]:
        """Return the lines of a task: two while something is done for it."""
        out, activity = self._out, task.get("activity")
        if task["board"] not in {"working", "review"}:
            if activity is None:
                return [_line(out, task)]
            waits = " [dim]·[/] ".join(part for part in (_describe_phase(out, task), _remark(out, task)) if part)
            return [f"[dim]·[/] {_name(task)} [dim]{waits}[/]"]
        colour, sign = MARKS[task["board"]]
        short = width < _NARROW
        used = _add_up((task["usage"], activity))
        parts = [_describe_round(out, activity, short=short)] if activity else []
        parts += [describe_duration(out, _measure_elapsed(task, self._working)), *describe_cost(out, used, short=short)]
        name = f"[bold]{sanitize_line(task['task_id'])}[/]" if short and task["task_id"] else _name(task)
        lines = [f"[{colour}]{sign}[/] {name}  [dim]{' · '.join(part for part in parts if part)}[/]"]
        if activity is None:
            return lines
        spent = _seconds_since(activity["since"]) or 0.0
        lasts = f" [dim]· {describe_duration(out, spent)}[/]" if spent >= _LONG else ""
        request = sanitize_line(task["request_id"] or "")
        asks = f" [cyan]→[/] 'agenttalk answer {request}'" if request else ""
        return [*lines, f"    {describe_doing(out, task)}{asks}{lasts}"]


def can_draw() -> bool:
    """Return whether standard error is a terminal on which lines can be drawn again."""
    import sys

    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}


def _count_state(out: CommandOutput, count: int, state: str) -> str:
    """Return how many tasks are in a state."""
    shown = state.replace("_", " ") if out.locale == "en" else out.code("board", state)
    return out.text("run.hidden_tasks", count=count, state=shown)


def shorten_refusal(out: CommandOutput, reason: str) -> str:
    """Return why work was refused, in the reader's language, without the name of the one check of `until`."""
    from agenttalk.rules.changes.change_plan import CHECK
    from agenttalk.rules.text import verdict_words

    return out.translate(reason).replace(verdict_words.NOT_SHOWN.render(out.locale, name=CHECK, whys=""), "")


def _describe_refusal(out: CommandOutput, refusal: RoundView) -> str:
    """Return which round was refused, and why."""
    why = summarize_lines(shorten_refusal(out, refusal["reason"]))
    number, by = refusal["round"], sanitize_line(refusal["by"])
    if by == "engine":
        return out.text("run.refused_round", number=number, why=why)
    return out.text("run.refused_round_by", number=number, by=by, why=why)


def _measure_elapsed(task: TaskView, working: Mapping[str, float]) -> float:
    """Return how long a task has been worked on, the current attempt included. `working` says since when."""
    began = working.get(task["task_id"], time.monotonic())
    now = _seconds_since(task.get("since"))
    before = task["usage"]["duration_s"] if task["usage"] else 0.0
    return before + (now if now is not None else time.monotonic() - began)


def _seconds_since(at: str | None) -> float | None:
    """Return how long ago something was; None where that is not known."""
    if at is None:
        return None
    from agenttalk.wiring import SystemClock

    return max(0.0, (SystemClock().now() - datetime.fromisoformat(at)).total_seconds())


def _name(task: TaskView) -> str:
    agent = sanitize_line(task["agent_id"])
    return f"[bold]{sanitize_line(task['task_id'])}[/] [dim]{agent}[/]" if task["task_id"] else f"[bold]{agent}[/]"


def _name_phase(activity: TaskActivity) -> str:
    """Return what of an activity counts as a phase: not each tool of an agent, but each check."""
    return activity["phase"] if activity["phase"] == "working" else f"{activity['phase']} {activity['detail']}"


def describe_doing(out: CommandOutput, task: TaskView) -> str:
    """Return what a task is doing at this moment."""
    from agenttalk.rules.agents.activity import describe_activity

    activity = task["activity"]
    return sanitize_line(describe_activity(activity, task["agent_id"], out.locale)) if activity is not None else ""


def _describe_phase(out: CommandOutput, task: TaskView) -> str:
    """Return the phase of a task, without what changes all the time."""
    activity = task["activity"]
    if activity is None:
        return ""
    detail = "" if activity["phase"] == "working" else activity["detail"]
    steady: TaskActivity = {**activity, "tool": "", "file": "", "tests_done": None, "detail": detail}
    return describe_doing(out, {**task, "activity": steady})


def _describe_round(out: CommandOutput, activity: TaskActivity, *, short: bool) -> str:
    """Return which round it is, where there may be several."""
    number, most = activity["round"], activity["rounds"]
    if most is None or most < 2:
        return out.text("remark.round", number=number) if number > 1 else ""
    return f"{number}/{most}" if short else out.text("remark.round_of", number=number, most=most)


def _add_up(used: Iterable[TaskUsage | TaskActivity | None]) -> AttemptUsage:
    """Return the tokens and the cost of several tasks, or of the attempts at one."""
    known = [usage for usage in used if usage]
    return {
        "tokens": sum(usage["tokens"] or 0 for usage in known),
        "cost_usd": sum(usage["cost_usd"] or 0 for usage in known),
    }


def describe_cost(out: CommandOutput, usage: TaskUsage | AttemptUsage, *, short: bool = False) -> list[str]:
    """Return tokens and cost in words, as far as there were any."""
    tokens, cost = usage.get("tokens") or 0, usage.get("cost_usd") or 0
    parts = [_shorten_count(tokens) if short else out.count(tokens, "token")] if tokens else []
    return parts + ([f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"] if cost else [])


def _shorten_count(number: int) -> str:
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:,}"


def _line(out: CommandOutput, task: TaskView) -> str:
    colour, sign = ("yellow", "?") if task.get("proven") is False else MARKS[task["board"]]
    took = describe_usage(out, task.get("usage")) if task["board"] in {"done", "failed"} else ""
    remark = " [dim]·[/] ".join(part for part in (took, _remark(out, task)) if part)
    return f"[{colour}]{sign}[/] {_name(task)} {remark}".rstrip()


def describe_open_questions(out: CommandOutput, questions: Sequence[str]) -> str:
    """Return how many questions are open."""
    return (
        out.text("cli.open_question") if len(questions) == 1 else out.text("cli.open_questions", count=len(questions))
    )


def describe_gate(out: CommandOutput, gate: GateDenial) -> str:
    """Return the objections of a checkpoint to a task, and who overrode it."""
    colour, sign = ("yellow", "!") if gate["allowed"] else ("bold red", "✗")
    why = sanitize("; ".join(gate["reasons"])[:300])
    words = out.text("remark.overridden")
    by = f" [dim]· {words}[/] {sanitize(who)}" if (who := gate.get("overridden_by")) else ""
    note = f" [dim]({sanitize(reason[:160])})[/]" if (reason := gate.get("why")) else ""
    return f"[{colour}]{sign}[/] [bold]{sanitize(gate['task_id'])}[/] {gate['checkpoint']}: {why}{by}{note}"


def join_clauses(out: CommandOutput, *clauses: str) -> str:
    """Return the clauses of one sentence, without those that are empty."""
    return out.join(filter(None, clauses), ";")


def describe_usage(out: CommandOutput, usage: TaskUsage | AttemptUsage | None, *, timed: bool = True) -> str:
    """Return a usage in words: the time, and tokens, cost and tool calls if there were any."""
    if not usage:
        return ""
    parts = [describe_duration(out, usage["duration_s"])] if timed else []
    parts += describe_cost(out, usage)
    parts += [out.text("cli.no_price", model=sanitize(str(model)))] if (model := usage.get("unpriced")) else []
    calls = usage.get("tool_calls")
    parts += [out.count(calls, "tool call")] if calls else []
    return out.join(parts)


def describe_duration(out: CommandOutput, seconds: float) -> str:
    """Return a time in words."""
    if seconds < 60:
        return out.text("time.seconds", seconds=seconds)
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return out.text("time.hours", hours=hours, minutes=minutes)
    return out.text("time.minutes", minutes=minutes, seconds=left)


def _remark(out: CommandOutput, task: TaskView) -> str:
    parts = []
    if task["score"] is not None:
        parts.append(out.text("remark.score", score=task["score"]))
    if task["rounds"]:
        parts.append(out.text("remark.round", number=task["rounds"] + 1))
    if task.get("freshness") == "stale":
        parts.append(out.text("remark.stale"))
    if task.get("proven") is False:
        parts.append(out.text("remark.unproven"))
    if task.get("isolated") is False:
        parts.append(out.text("remark.not_isolated"))
    if task["reason"]:
        parts.append(summarize_lines(task["reason"]))
    if task["request_id"]:
        parts.append(out.text("remark.question", request=sanitize(task["request_id"])))
    return " [dim]·[/] ".join(parts)
