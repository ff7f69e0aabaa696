"""Shows the progress of a plan: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from agenttalk.doors.cli.core.output import CommandOutput, format_count, sanitize, summarize_lines
from agenttalk.doors.cli.plans import decisions

if TYPE_CHECKING:
    from rich.live import Live as RichLive
    from rich.table import Table

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
MOST: Final = 40
"""How many tasks the table shows. Tasks that are not done come first."""
WORDS: Final = {
    "done": ("[green]✓[/]", "everything is done"),
    "failed": ("[bold red]✗[/]", "something failed"),
    "waiting": ("[yellow]‖[/]", "it waits for a person or an outside agent"),
    "paused": ("[yellow]‖[/]", "it is paused; 'agenttalk resume' continues it"),
    "running": ("[yellow]![/]", "stopped following; run it again to continue"),
}


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
    ) -> None:
        """`order` is the order of the tasks, and `without_program` names agents that no program runs."""
        self._out = out
        self._plan_id = plan_id
        self._places = {task_id: place for place, task_id in enumerate(order)}
        self._without_program = without_program
        self._root = root
        self._began = time.monotonic()
        self._states: dict[str, tuple[str, str | None, int]] = {}
        self._working: dict[str, float] = {}
        """Task → when it was first seen working."""
        self._live: RichLive | None = None
        self._closing: str | None = None
        """The last line about the closing of the plan."""

    def __enter__(self) -> Self:
        draws = self._out.is_styled(err=True) and not self._out.as_json
        if draws and (console := self._out.console(err=True)).is_terminal:
            from rich.live import Live as RichLive

            self._live = RichLive(console=console, refresh_per_second=8, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, standing: dict[str, Any]) -> None:
        """Show the current status."""
        standing = self._ordered(standing)
        now = time.monotonic()
        working = [task["task_id"] for task in standing["tasks"] if task["board"] in {"working", "review"}]
        self._working = {task_id: self._working.get(task_id, now) for task_id in working}
        if self._live:
            self._live.update(self._table(standing))
        elif not self._out.as_json:
            self._lines(standing)

    def conclude(self, standing: dict[str, Any]) -> None:
        """Show the final status."""
        if self._out.as_json:
            self._out.write_json({"ok": standing["result"] == "done", **standing})
            return
        standing = self._ordered(standing)
        if self._live:
            self._out.console().print(self._table(standing))
        mark, words = WORDS[standing["result"]]
        counts = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in standing["counts"].items() if count)
        took = describe_usage(standing.get("usage"), timed=False)
        summary = "; ".join(part for part in (counts, f"{self._seconds()} s", took) if part)
        self._out.say(f"{mark} [bold]{sanitize(self._plan_id)}[/]: {words} ({summary})")
        for task in standing["tasks"]:
            if task["board"] in {"failed", "blocked"}:
                self._out.say(f"  {_line(task)}")
            elif task["agent_id"] in self._without_program and task["state"] in {"READY", "RUNNING"}:
                where = f"agents/{task['agent_id']}/inbox/{self._plan_id}"
                self._out.say(f"  {_line(task)} waits for an answer to its command in {sanitize(where)}")
        for gate in standing.get("gates", ()):
            if gate["allowed"]:  # a denial is the reason that its task shows
                self._out.say(f"  {describe_gate(gate)}")
        decisions.tell_decisions(self._out, standing)
        self._say_where_to_look(standing)

    def _say_where_to_look(self, standing: dict[str, Any]) -> None:
        """Print on standard error where to look next."""
        asked = any(task["request_id"] for task in standing["tasks"] if task["board"] == "blocked")
        if asked:
            self._out.say("[cyan]→[/] 'agenttalk inbox' shows the question", err=True)
        elif standing.get("questions"):
            self._out.say(f"[yellow]?[/] {describe_open_questions(standing['questions'])}", err=True)
        made = self._root / "system_runtime" / "artifacts" / self._plan_id if self._root else None
        if made is not None and made.is_dir():
            self._out.say(f"[cyan]→[/] its outputs are in {sanitize(made)}", err=True)

    def _ordered(self, standing: dict[str, Any]) -> dict[str, Any]:
        """Return the status with its tasks in the order of the plan."""
        last = len(self._places)
        return {
            **standing,
            "tasks": sorted(standing["tasks"], key=lambda task: self._places.get(task["task_id"], last)),
        }

    def _seconds(self) -> str:
        return f"{time.monotonic() - self._began:.1f}"

    def _lines(self, standing: dict[str, Any]) -> None:
        for task in standing["tasks"]:
            state = (task["board"], task["reason"], task["rounds"])
            if self._states.get(task["task_id"], ("pending", None, 0)) != state:
                self._states[task["task_id"]] = state
                self._out.say(_line(task), err=True)
        closing = standing.get("closing")
        if closing and closing != self._closing:
            self._out.say(f"[blue]◆[/] closing: {sanitize(closing)}", err=True)
        self._closing = closing

    def _table(self, standing: dict[str, Any]) -> Table:
        from rich.table import Table

        took = describe_usage(standing.get("usage"), timed=False)
        title = "  ".join(part for part in (sanitize(self._plan_id), f"{self._seconds()} s", took) if part)
        table = Table(box=None, pad_edge=False, title=title, title_justify="left")
        for name in ("", "task", "agent", "state", "took", ""):
            table.add_column(name)
        tasks = sorted(standing["tasks"], key=lambda task: task["board"] in {"done", "skipped", "pending"})
        shown = {task["task_id"] for task in tasks[:MOST]}
        for task in (task for task in standing["tasks"] if task["task_id"] in shown):
            colour, sign = MARKS[task["board"]]
            table.add_row(
                f"[{colour}]{sign}[/]",
                sanitize(task["task_id"]),
                f"[dim]{sanitize(task['agent_id'])}[/]",
                f"[{colour}]{task['state']}[/]",
                self._took(task),
                _remark(task),
            )
        if len(tasks) > MOST:
            table.add_row("", f"[dim]and {len(tasks) - MOST} more[/]", "", "", "", "")
        if standing.get("closing"):
            table.add_row("[blue]◆[/]", "[dim]closing[/]", "", "", "", sanitize(standing["closing"]))
        return table

    def _took(self, task: dict[str, Any]) -> str:
        """Return what a task has used so far, the current attempt included."""
        usage = task.get("usage")
        began = self._working.get(task["task_id"])
        if began is None:
            return describe_usage(usage)
        known = usage or {"duration_s": 0.0, "tokens": 0, "cost_usd": 0.0, "tool_calls": 0}
        return describe_usage({**known, "duration_s": known["duration_s"] + time.monotonic() - began})


def _line(task: dict[str, Any]) -> str:
    colour, sign = ("yellow", "?") if task.get("proven") is False else MARKS[task["board"]]
    who = f"[bold]{sanitize(task['task_id'])}[/] [dim]{sanitize(task['agent_id'])}[/]"
    took = describe_usage(task.get("usage")) if task["board"] in {"done", "failed"} else ""
    remark = " [dim]·[/] ".join(part for part in (took, _remark(task)) if part)
    return f"[{colour}]{sign}[/] {who} {remark}".rstrip()


def describe_open_questions(questions: Sequence[str]) -> str:
    """Return how many questions are open."""
    verb = "is" if len(questions) == 1 else "are"
    return f"{format_count(len(questions), 'question')} {verb} not answered: see 'agenttalk inbox'"


def describe_gate(gate: dict[str, Any]) -> str:
    """Return the objections of a checkpoint to a task, and who overrode it."""
    colour, sign = ("yellow", "!") if gate["allowed"] else ("bold red", "✗")
    why = sanitize("; ".join(gate["reasons"])[:300])
    by = f" [dim]· overridden by[/] {sanitize(gate['overridden_by'])}" if gate.get("overridden_by") else ""
    note = f" [dim]({sanitize(gate['why'][:160])})[/]" if gate.get("why") else ""
    return f"[{colour}]{sign}[/] [bold]{sanitize(gate['task_id'])}[/] {gate['checkpoint']}: {why}{by}{note}"


def describe_usage(usage: dict[str, Any] | None, *, timed: bool = True) -> str:
    """Return a usage in words: the time, and tokens, cost and tool calls if there were any."""
    if not usage:
        return ""
    parts = [_duration(usage["duration_s"])] if timed else []
    parts += [format_count(usage["tokens"], "token")] if usage.get("tokens") else []
    cost = usage.get("cost_usd") or 0
    parts += [f"${cost:.2f}" if cost >= 1 else f"${cost:.4f}"] if cost else []
    parts += [f"cost unknown: no price of {sanitize(str(usage['unpriced']))}"] if usage.get("unpriced") else []
    calls = usage.get("tool_calls")
    parts += [format_count(calls, "tool call")] if calls else []
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def _remark(task: dict[str, Any]) -> str:
    parts = []
    if task["score"] is not None:
        parts.append(f"score {task['score']:g}")
    if task["rounds"]:
        parts.append(f"round {task['rounds'] + 1}")
    if task.get("freshness") == "stale":
        parts.append("stale")
    if task.get("proven") is False:
        parts.append("unproven")
    if task.get("isolated") is False:
        parts.append("not isolated")
    if task["reason"]:
        parts.append(summarize_lines(task["reason"]))
    if task["request_id"]:
        parts.append(f"question {sanitize(task['request_id'])}")
    return " [dim]·[/] ".join(parts)
