"""`agenttalk status`, `fsck`, `republish`, `gc`: shows, checks and tidies a root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, pad, sanitize, sanitize_line
from agenttalk.doors.cli.operation import budget
from agenttalk.doors.cli.plans import decisions
from agenttalk.doors.cli.plans.live_view import describe_doing, describe_gate, describe_open_questions, describe_usage
from agenttalk.doors.cli.proof.honesty import format_honesty

if TYPE_CHECKING:
    from agenttalk.engine.core.task_status import TaskUsage, TaskView
    from agenttalk.engine.views.models.plans import PlanOverview
    from agenttalk.engine.views.models.toolchain import BoardSummary

status_app = typer.Typer(add_completion=False)
fsck_app = typer.Typer(add_completion=False)
republish_app = typer.Typer(add_completion=False)
gc_app = typer.Typer(add_completion=False)
REASON = 200
"""How many characters of a reason are shown."""
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
COLOURS = {"COMPLETED": "green", "RUNNING": "cyan", "FAILED": "red", "SKIPPED": "dim", "PENDING": "dim"}


@status_app.command("status")
def status(
    ctx: typer.Context,
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="Show only this plan.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show plans with their tasks and messages."""
    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.rules.text import cli_words

    out, folder = root_access.choose_root(ctx, root, as_json)
    found = out.translate(
        root_access.ask_root(folder, "/api/status", lambda local: local.read_status(), locale=out.locale)
    )
    plans, toolchain, believed = found["plans"], found.get("toolchain"), found["honesty"]
    known = [overview["plan_id"] for overview in plans]
    if plan is not None and plan not in known:
        near = find_nearest(plan, known)
        hint = cli_words.ERRORS["near"](name=near) if near else cli_words.ERRORS["no_plan_hint"]()
        raise UsageError(Code.NAME_UNKNOWN, cli_words.ERRORS["no_plan"](plan=plan), hint=hint)
    shown = [overview for overview in plans if plan in {None, overview["plan_id"]}]
    if out.as_json:
        more: dict[str, object] = {}
        if plan is None:
            more = {"honesty": believed, **({"toolchain": toolchain} if toolchain else {}), "day": found["day"]}
        out.write_json({"ok": True, "served": root_access.is_served(folder), "plans": shown, **more})
        return 0
    served = root_access.is_served(folder)
    for overview in shown:
        _tell_plan(out, overview, served=served)
    if toolchain and plan in {None, "_toolchain"}:
        _tell_toolchain(out, toolchain)
    if believed["claims"] and plan is None:
        counts = out.text("status.honesty", counts=format_honesty(out, believed))
        out.say(f"{counts} [dim]{out.text('status.details')}[/]")
    if plan is None and found["day"]["limit_usd"] is not None:
        budget.tell_day(out, found["day"])
    if not shown:
        out.say(f"[dim]{out.text('status.no_plans')}[/]")
    return 0


def _tell_plan(out: CommandOutput, plan: PlanOverview, *, served: bool) -> None:
    counts = out.join(out.text(f"status.{word}", count=count) for word, count in plan["messages"].items() if count)
    origin = out.text("status.origin", origin=plan["origin"], board=sanitize(plan["board"]))
    out.say(f"[bold]{sanitize(plan['plan_id'])}[/]  [dim]{origin}[/]")
    if plan["halted"]:
        out.say(f"  [bold red]✗ {out.text('status.halted')}[/] {sanitize(plan['halted'])}")
    out.say(f"  {out.text('status.messages', counts=counts or out.text('status.none'))}")
    decisions.tell_decisions(out, plan)
    tasks = [(sanitize(task["task_id"]), sanitize(task["agent_id"]), task) for task in plan["tasks"]]
    wide, wider = (max((len(row[column]) for row in tasks), default=0) for column in (0, 1))
    for task_id, agent_id, task in tasks:
        colour = COLOURS.get(task["state"], "yellow")
        remark = _remark(out, task)
        padding = " " * (wider - len(agent_id) + 2) if remark else ""
        state = pad(out.code("state", task["state"]), 22)
        out.say(f"  [{colour}]{state}[/] {task_id:<{wide}}  [dim]{agent_id}[/]{padding}{remark}")
    for gate in plan.get("gates", ()):
        out.say(f"  {describe_gate(out, gate)}")
    if plan["origin"] == "engine" and plan["state"] == "RUNNING" and not served:
        out.say(f"  [yellow]![/] {out.text('cli.not_served')}")
    for wait in plan.get("waits", ()):
        out.say(f"  [yellow]![/] {sanitize_line(wait['text'])}")
    if plan.get("questions"):
        out.say(f"  [yellow]?[/] {describe_open_questions(out, plan['questions'])}")
    took = describe_usage(out, plan.get("usage"))
    if took:
        out.say(f"  {out.text('status.in_all', usage=took)}")
    counted = {name: usage for name, usage in plan.get("usage_by_agent", {}).items() if _counts(usage)}
    for name, usage in counted.items():
        out.say(f"  [dim]{sanitize(name)}:[/] {describe_usage(out, usage)}")


def _counts(usage: TaskUsage) -> bool:
    """Return whether anything but time was counted."""
    return bool(usage.get("tokens") or usage.get("cost_usd") or usage.get("tool_calls"))


def _tell_toolchain(out: CommandOutput, toolchain: BoardSummary) -> None:
    out.say(f"  {out.text('status.open_tasks', count=toolchain['open_tasks'])}")
    for warning in toolchain["warnings"]:
        words = out.text("status.times", what=sanitize_line(warning["message"]), count=warning["times"])
        out.say(f"  [yellow]![/] {words}")


def _remark(out: CommandOutput, task: TaskView) -> str:
    """Return what a person should know besides the state: a claim of an agent is not proven."""
    if task["missing"]:
        remark = out.text("remark.waits_for", names=sanitize(", ".join(task["missing"])))
    elif task.get("activity"):
        remark = describe_doing(out, task)
    elif task["reason"]:
        remark = sanitize_line(task["reason"][:REASON])
    elif task.get("freshness") == "stale":
        remark = f"[yellow]{out.text('remark.stale_until_end')}[/]"
    else:
        remark = f"[dim]{out.text('remark.claimed')}[/]" if task["proven"] is False else ""
    isolation = f"[yellow]{out.text('remark.not_isolated')}[/]" if task.get("isolated") is False else ""
    return " [dim]·[/] ".join(part for part in (describe_usage(out, task.get("usage")), isolation, remark) if part)


@fsck_app.command("fsck")
def fsck(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Check every invariant of the store, such as that every message is in exactly one state."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    faults = root_access.ask_root(folder, "/api/fsck", lambda local: local.operation.find_faults())["faults"]
    if out.as_json:
        out.write_json({"ok": not faults, "faults": faults})
    else:
        for fault in faults:
            where = "/".join(part for part in (fault["board"], fault["plan_id"]) if part)
            out.say(f"[bold red]✗[/] [bold]{sanitize(where)}[/]: {sanitize(fault['what'])}")
        if not faults:
            out.say(f"[green]✓[/] {out.text('operate.consistent')}")
    return 1 if faults else 0


@republish_app.command("republish")
def republish(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Write everything under system_runtime/ again from the store."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    written = root_access.ask_root(folder, "/api/republish", lambda local: local.operation.republish(), {})["written"]
    if out.as_json:
        out.write_json({"ok": True, "written": written})
    else:
        out.say(f"[green]✓[/] {out.text('operate.republished', count=written)}")
    return 0


@gc_app.command("gc")
def gc(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove clones, working folders, transcripts and file contents that are no longer needed.

    [gc] in agenttalk.toml sets how long they are kept, and how many of them.
    """
    out, folder = root_access.choose_root(ctx, root, as_json)

    found = root_access.ask_root(
        folder, "/api/gc", lambda local: local.operation.collect_garbage(dry_run=dry_run), {"dry_run": dry_run}
    )
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    if dry_run:
        for item in found["items"]:
            out.say(f"  {item['kind']:<12} {_shown_size(item['bytes']):>10}  {sanitize(item['path'])}")
    counts = [f"{each['count']} {kind}" for kind, each in found["freed"].items() if each["count"]]
    sentence = ("operate.gc_dry_run" if dry_run else "operate.gc_freed") if counts else "operate.gc_nothing"
    out.say(f"[green]✓[/] {out.text(sentence, size=_shown_size(found['bytes']), counts=', '.join(counts))}")
    return 0


def _shown_size(size: int) -> str:
    """Return a number of bytes in a readable unit."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{size} bytes" if not power else f"{size / 1024**power:.1f} {UNITS[power]}"
