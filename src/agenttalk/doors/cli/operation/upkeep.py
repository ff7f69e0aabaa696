"""`agenttalk status`, `fsck`, `republish`, `gc`: where a root stands, whether it is sound; views anew, garbage away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize, sanitize_line
from agenttalk.doors.cli.plans import decisions
from agenttalk.doors.cli.plans.live_view import describe_gate, describe_open_questions, describe_usage
from agenttalk.doors.cli.proof.honesty import format_honesty

if TYPE_CHECKING:
    from agenttalk.engine.core.deps import Deps

status_app = typer.Typer(add_completion=False)
fsck_app = typer.Typer(add_completion=False)
republish_app = typer.Typer(add_completion=False)
gc_app = typer.Typer(add_completion=False)
REASON = 200
"""How much is shown of why a task failed."""
UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
COLOURS = {"COMPLETED": "green", "RUNNING": "cyan", "FAILED": "red", "SKIPPED": "dim", "PENDING": "dim"}


@status_app.command("status")
def status(
    ctx: typer.Context,
    plan: Annotated[str | None, typer.Argument(metavar="PLAN", help="One plan; without it all.")] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show plans, their tasks and what became of their messages."""
    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.contracts.errors import Code, UsageError
    from agenttalk.doors.cli.core import root_access
    from agenttalk.doors.cli.operation import budget

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk import wiring

        return dict(await wiring.make_verification_service(folder, deps).read_status())

    out, folder = root_access.choose_root(ctx, root, as_json)
    found = root_access.ask_root(folder, "/api/status", by_hand)
    plans, toolchain, believed = found["plans"], found.get("toolchain"), found["honesty"]
    known = [each["plan_id"] for each in plans]
    if plan is not None and plan not in known:
        near = find_nearest(plan, known)
        hint = f"did you mean {near!r}?" if near else "'agenttalk status' lists all"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no plan {plan!r}", hint=hint)
    shown = [each for each in plans if plan in {None, each["plan_id"]}]
    if out.as_json:
        more = {"honesty": believed, **({"toolchain": toolchain} if toolchain else {})} if plan is None else {}
        more |= {"day": found["day"]} if plan is None else {}
        out.write_json({"ok": True, "served": root_access.is_served(folder), "plans": shown, **more})
        return 0
    served = root_access.is_served(folder)
    for each in shown:
        _tell_plan(out, each, served=served)
    if toolchain and plan in {None, "_toolchain"}:
        _tell_toolchain(out, toolchain)
    if believed["claims"] and plan is None:
        out.say(f"honesty: {format_honesty(believed)} [dim]('agenttalk honesty' says more)[/]")
    if plan is None and (found.get("day") or {}).get("limit_usd") is not None:
        budget.tell_day(out, found["day"])
    if not shown:
        out.say("[dim]no plans yet; 'agenttalk route --once' imports those that lie under system_runtime/plans[/]")
    return 0


def _tell_plan(out: CommandOutput, plan: dict[str, Any], *, served: bool) -> None:
    from agenttalk.doors.cli.core import root_access

    counts = ", ".join(f"{count} {word.replace('_', ' ')}" for word, count in plan["messages"].items() if count)
    out.say(f"[bold]{sanitize(plan['plan_id'])}[/]  [dim]{plan['origin']}, board {sanitize(plan['board'])}[/]")
    if plan["halted"]:
        out.say(f"  [bold red]✗ halted:[/] {sanitize(plan['halted'])}")
    out.say(f"  messages: {counts or 'none'}")
    decisions.tell_decisions(out, plan)
    tasks = [(sanitize(task["task_id"]), sanitize(task["agent_id"]), task) for task in plan["tasks"]]
    wide, wider = (max((len(row[column]) for row in tasks), default=0) for column in (0, 1))
    for task_id, agent_id, task in tasks:
        colour = COLOURS.get(task["state"], "yellow")
        remark = _remark(task)
        padding = " " * (wider - len(agent_id) + 2) if remark else ""
        out.say(f"  [{colour}]{task['state']:<22}[/] {task_id:<{wide}}  [dim]{agent_id}[/]{padding}{remark}")
    for gate in plan.get("gates", ()):
        out.say(f"  {describe_gate(gate)}")
    if plan["origin"] == "engine" and plan["state"] == "RUNNING" and not served:
        out.say(f"  [yellow]![/] {root_access.NOT_SERVED}")
    if plan.get("questions"):
        out.say(f"  [yellow]?[/] {describe_open_questions(plan['questions'])}")
    took = describe_usage(plan.get("usage"))
    if took:
        out.say(f"  in all: {took}")
    counted = {name: usage for name, usage in plan.get("usage_by_agent", {}).items() if _counts(usage)}
    for name, usage in counted.items():
        out.say(f"  [dim]{sanitize(name)}:[/] {describe_usage(usage)}")


def _counts(usage: dict[str, Any]) -> bool:
    """Whether more was counted than time."""
    return bool(usage.get("tokens") or usage.get("cost_usd") or usage.get("tool_calls"))


def _tell_toolchain(out: CommandOutput, toolchain: dict[str, Any]) -> None:
    out.say(f"  open tasks: {toolchain['open_tasks']} ('agenttalk toolchain tasks' lists them)")
    for each in toolchain["warnings"]:
        out.say(f"  [yellow]![/] {sanitize_line(each['message'])} ({each['times']} times)")


def _remark(task: dict[str, Any]) -> str:
    """What a person should know besides the state. What an agent says of itself is not yet proven."""
    if task["missing"]:
        said = f"waits for {sanitize(', '.join(task['missing']))}"
    elif task.get("reason"):
        said = sanitize_line(task["reason"][:REASON])
    elif task.get("freshness") == "stale":
        said = "[yellow]stale: what was proven has changed since, and is verified again before the plan ends[/]"
    else:
        said = "[dim]claimed by the agent, not verified[/]" if task["proven"] is False else ""
    apart = "[yellow]not isolated[/]" if task.get("isolated") is False else ""
    return " [dim]·[/] ".join(part for part in (describe_usage(task.get("usage")), apart, said) if part)


@fsck_app.command("fsck")
def fsck(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Check that every message is in exactly one state, and every other invariant that the store shows."""
    from agenttalk.doors.cli.core import root_access

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.operation import fsck as check

        return {"faults": [each.as_json() for each in await check.check_root(deps)]}

    out, folder = root_access.choose_root(ctx, root, as_json)
    faults = root_access.ask_root(folder, "/api/fsck", by_hand)["faults"]
    if out.as_json:
        out.write_json({"ok": not faults, "faults": faults})
    else:
        for fault in faults:
            where = "/".join(part for part in (fault["board"], fault["plan_id"]) if part)
            out.say(f"[bold red]✗[/] [bold]{sanitize(where)}[/]: {sanitize(fault['what'])}")
        if not faults:
            out.say("[green]✓[/] sound: every message is in exactly one state")
    return 1 if faults else 0


@republish_app.command("republish")
def republish(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Write everything under system_runtime/ anew from the store."""
    from agenttalk.doors.cli.core import root_access

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.engine.core.boards import list_boards
        from agenttalk.engine.messages import published_files

        return {"written": sum([await published_files.republish(deps, board) for board in await list_boards(deps)])}

    out, folder = root_access.choose_root(ctx, root, as_json)
    written = root_access.ask_root(folder, "/api/republish", by_hand, {})["written"]
    if out.as_json:
        out.write_json({"ok": True, "written": written})
    else:
        out.say(f"[green]✓[/] {written} files written from the store")
    return 0


@gc_app.command("gc")
def gc(
    ctx: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Remove clones, working folders, transcripts and contents that nobody needs any more.

    How long they are kept, and how many of them, says [gc] in agenttalk.toml.
    """
    from agenttalk.doors.cli.core import root_access

    out, folder = root_access.choose_root(ctx, root, as_json)

    async def by_hand(deps: Deps) -> dict[str, Any]:
        from agenttalk.wiring import settings
        from agenttalk.wiring.garbage_collection import GarbageCollector

        return await GarbageCollector(deps, settings.load(folder).gc.keeps).collect(dry_run=dry_run)

    found = root_access.ask_root(folder, "/api/gc", by_hand, {"dry_run": dry_run})
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    if dry_run:
        for item in found["items"]:
            out.say(f"  {item['kind']:<12} {_shown_size(item['bytes']):>10}  {sanitize(item['path'])}")
    counts = [f"{each['count']} {kind}" for kind, each in found["freed"].items() if each["count"]]
    words = "would be freed" if dry_run else "freed"
    size = _shown_size(found["bytes"])
    out.say(f"[green]✓[/] {size} {words}: {', '.join(counts)}" if counts else "[green]✓[/] there is nothing to remove")
    return 0


def _shown_size(size: int) -> str:
    """Bytes for people."""
    power = min(max(size.bit_length() - 1, 0) // 10, len(UNITS) - 1)
    return f"{size} bytes" if not power else f"{size / 1024**power:.1f} {UNITS[power]}"
