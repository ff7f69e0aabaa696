"""`agenttalk route`, `heartbeat`, `monitor`: run the parts of an engine separately."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

route_app = typer.Typer(add_completion=False)
heartbeat_app = typer.Typer(add_completion=False)
monitor_app = typer.Typer(add_completion=False)
OnceOption = Annotated[bool, typer.Option("--once", help="Do the work that is due now, then exit.")]
Report: TypeAlias = Mapping[str, Any]
"""The report of a pass as JSON. Each part has fields of its own."""
FAILED = 1
LASTING = ("halted", "plans", "agents", "waiting", "running", "errors")
"""Fields that describe a state: a loop reports them only when they change."""


@route_app.command("route")
def route(ctx: typer.Context, once: OnceOption = False, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Deliver messages from outboxes to inboxes, until stopped or with --once.

    It works on any tree that follows the folder contract. Where an engine runs, the engine makes one pass.
    """
    from agenttalk.wiring import parts

    out, folder = root_access.choose_root(ctx, root, as_json)
    return _run(
        out, folder, {"part": "route"}, once, lambda tell, stop: parts.run_router(folder, tell, stop=stop), _tell_route
    )


@monitor_app.command("monitor")
def monitor(ctx: typer.Context, once: OnceOption = False, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Publish the status of plans and agents, and report inconsistencies, until stopped or with --once."""
    from agenttalk.wiring import parts

    out, folder = root_access.choose_root(ctx, root, as_json)
    return _run(
        out,
        folder,
        {"part": "monitor"},
        once,
        lambda tell, stop: parts.run_monitor(folder, tell, stop=stop),
        _tell_monitor,
    )


@heartbeat_app.command("heartbeat")
def heartbeat(
    ctx: typer.Context,
    agent: Annotated[str, typer.Option("--agent", metavar="AGENT", help="Agent whose inbox is processed.")],
    once: OnceOption = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Process an agent's inbox: keep its inputs and run its commands one by one, until stopped or with --once."""
    from agenttalk.wiring import parts

    out, folder = root_access.choose_root(ctx, root, as_json)
    _require_agent(folder, agent)
    return _run(
        out,
        folder,
        {"part": "heartbeat", "agent": agent},
        once,
        lambda tell, stop: parts.run_heartbeat(folder, agent, tell, stop=stop),
        _tell_heartbeat,
    )


def _require_agent(root: Path, agent: str) -> None:
    from agenttalk.adapters.mailbox.fsio import SafeFolder
    from agenttalk.contracts.core.problems import find_nearest
    from agenttalk.engine.core.profiles import list_agents

    with SafeFolder.open(root) as folder:
        agents = list_agents(folder)
    if agent not in agents:
        near = find_nearest(agent, agents)
        hint = f"did you mean {near!r}?" if near else f"each folder in {root / 'agents'} is an agent: {_some(agents)}"
        raise UsageError(Code.NAME_UNKNOWN, f"there is no agent {agent!r}", hint=hint)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "") if names else "there is none yet"


def _run(
    out: CommandOutput,
    root: Path,
    asked: Mapping[str, str],
    once: bool,  # noqa: FBT001 - as given
    start: Callable[[Callable[[Any], None], Any], Coroutine[Any, Any, None]],
    tell: Callable[[CommandOutput, Report], None],
) -> int:
    import asyncio

    from agenttalk.doors.cli.core import engine_client

    seen: list[Report] = []

    def report_pass(report: Any) -> None:
        body = report if isinstance(report, dict) else report.as_json()
        unchanged = not any(value for key, value in body.items() if key not in LASTING)
        if not once and seen and unchanged and all(body.get(key) == seen[0].get(key) for key in LASTING):
            return  # a loop reports only when something happened
        seen[:] = [body]
        if out.as_json:
            (out.write_json if once else out.write_json_line)({"ok": not _failed(body), **body})
        else:
            tell(out, body)

    client = engine_client.connect_to_running_engine(root)
    if client is not None:
        report_pass(client.post("/api/passes", asked))
    elif once:
        asyncio.run(start(report_pass, None))
    else:
        out.say(f"[dim]{asked['part']}: watching {sanitize(root)}; stop it with Ctrl-C[/]", err=True)
        return root_access.run_loop(lambda stop: start(report_pass, stop))
    return FAILED if seen and _failed(seen[-1]) else 0


def _failed(body: Report) -> bool:
    return bool(body.get("problems") or body.get("errors"))


def _tell_route(out: CommandOutput, report: Report) -> None:
    words = {
        "delivered": "delivered",
        "superseded": "superseded",
        "duplicate": "duplicate",
        "collected": "collected",
        "in_flight": "in flight",
    }
    parts = [f"{report[key]} {word}" for key, word in words.items() if report[key]]
    if report["dead"]:
        parts.append(f"[yellow]{report['dead']} refused[/] (see 'agenttalk deadletter list')")
    if report["waiting"]:
        parts.append(f"[yellow]{report['waiting']} waiting[/] for their plan")
    out.say(f"[green]✓[/] {' · '.join(parts) or 'nothing to route'}")
    for plan_id, why in report["halted"].items():
        out.say(
            f"[bold yellow]![/] [bold]{sanitize(plan_id)}[/] is halted until its files are repaired: {sanitize(why)}"
        )
    _tell_problems(out, report)


def _tell_monitor(out: CommandOutput, seen: Report) -> None:
    for plan_id, states in seen["plans"].items():
        out.say(f"[bold]{sanitize(plan_id)}[/]: " + ", ".join(f"{count} {state}" for state, count in states.items()))
    for agent_id, health in seen["agents"].items():
        colour = {"HEALTHY": "green", "WARNING": "yellow"}.get(health, "red")
        out.say(f"[bold]{sanitize(agent_id)}[/]: [{colour}]{health}[/]")
    mark = "[bold red]✗[/]" if seen["lost"] else "[green]✓[/]"
    out.say(f"{mark} {seen['lost'] or 'no'} messages unaccounted for")
    _tell_problems(out, seen)


def _tell_heartbeat(out: CommandOutput, tick: Report) -> None:
    parts = [f"{value} {key}" for key, value in tick.items() if isinstance(value, int) and value]
    if parts or not tick["errors"]:
        out.say(f"[green]✓[/] {' · '.join(parts) or 'nothing to do'}")
    for error in tick["errors"]:
        out.say(f"[bold red]✗[/] {sanitize(error)}", err=True)


def _tell_problems(out: CommandOutput, report: Report) -> None:
    for problem in report.get("problems", ()):
        out.error(problem["code"], problem["message"], problem["hint"])
