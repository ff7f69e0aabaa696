"""`agenttalk schedule`: runs plans on schedule."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize
from agenttalk.doors.cli.core.root_access import UseCase
from agenttalk.doors.cli.plans import templates

app = typer.Typer(no_args_is_help=True, help="Run plans on schedule.", add_completion=False)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]


@app.command("add")
def add(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the schedule. Its plans are called NAME-<time>.")
    ],
    cron: Annotated[str, typer.Option("--cron", help="Minute, hour, day, month and weekday; or @daily etc.")],
    timezone: Annotated[str, typer.Option("--timezone", help="Time zone, e.g. Europe/Berlin.")] = "UTC",
    plan: Annotated[Path | None, typer.Option("--plan", metavar="FILE", help="Plan file to run.")] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Agent that gets --prompt, instead of a plan file.")
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", help="Prompt for --agent, instead of a plan file.")] = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template", help="Write the plan file from a template: weekly-summary, which needs --agent and --team."
        ),
    ] = None,
    team: Annotated[list[str] | None, typer.Option("--team", help="Team member for --template; repeatable.")] = None,
    catch_up: Annotated[
        bool,
        typer.Option("--catch-up/--no-catch-up", help="Run once for times that passed while no engine ran."),
    ] = True,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Add a schedule for a plan file, or for a prompt to an agent. `agenttalk serve` starts the runs."""
    said: dict[str, Any] = {"cron": cron, "timezone": timezone, "catch_up": catch_up}
    said |= {"plan": str(plan.absolute())} if plan is not None else {}
    said |= {key: value for key, value in (("agent", agent), ("prompt", prompt)) if value is not None}
    by = getpass.getuser()
    made = _from_template(ctx, root, name, template, said, team or []) if template is not None else None

    try:
        out, answer = _ask_schedules(
            ctx,
            root,
            as_json,
            "/api/schedules",
            lambda local: local.service.scheduling.add(name, said, by=by),
            {"name": name, "schedule": said, "by": by},
        )
    except AgentTalkError:
        if made is not None:  # a refused schedule leaves no file
            made.unlink()
        raise
    if out.as_json:
        out.write_json({"ok": True, **answer})
    else:
        words = out.text("operate.schedule_added", name=f"[bold]{sanitize(name)}[/]", at=answer["next_at"])
        out.say(f"[green]✓[/] {words}")
        if made is not None:
            out.say(f"  {out.text('operate.schedule_plan_file', file=sanitize(made))}")
    return 0


def _from_template(
    ctx: typer.Context, root: Path | None, name: str, template: str, said: dict[str, Any], team: list[str]
) -> Path:
    """Write the plan file of a schedule from a template, and put it into the schedule."""
    from agenttalk.contracts.core.base import is_id

    _, folder = root_access.choose_root(ctx, root, as_json=True)
    editor = str(said.pop("agent", ""))
    strange = [member for member in (name, editor, *team) if not is_id(member)]
    if strange or "plan" in said or "prompt" in said:
        hint = "pass --template with --agent EDITOR and --team MEMBER, once per member"
        raise UsageError(
            Code.OPTION_INVALID, "a template needs an editor and a team, and takes no --plan or --prompt", hint=hint
        )
    made = templates.write_plan_file(template, folder, name, editor=editor, team=team)
    said["plan"] = str(made.absolute())
    return made


@app.command("list")
def list_schedules(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List schedules, with their next and their last run."""
    out, answer = _ask_schedules(ctx, root, as_json, "/api/schedules", lambda local: local.operation.list_schedules())
    if out.as_json:
        out.write_json({"ok": True, **answer})
        return 0
    for each in answer["schedules"]:
        paused = bool(each["paused"])
        when = out.text("operate.schedule_paused") if paused else out.text("operate.schedule_next", at=each["next_at"])
        out.say(f"[bold]{sanitize(each['name'])}[/]  {sanitize(each['cron'])} ({sanitize(each['timezone'])}), {when}")
        if each["last_plan_id"]:
            out.say(f"  {out.text('operate.schedule_last', plan=sanitize(each['last_plan_id']))}")
        if each["last_problem"]:
            out.say(f"  [yellow]![/] {sanitize(each['last_problem'])}")
    if not answer["schedules"]:
        out.say(f"[dim]{out.text('operate.schedule_none', table=sanitize('[schedules.NAME]'))}[/]")
    return 0


@app.command("pause")
def pause(ctx: typer.Context, name: Name, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Pause a schedule. A plan that is running continues."""
    return _act(ctx, root, as_json, name, "pause", "operate.schedule.pause")


@app.command("resume")
def resume(ctx: typer.Context, name: Name, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Resume a paused schedule. Times that passed meanwhile are skipped."""
    return _act(ctx, root, as_json, name, "resume", "operate.schedule.resume")


@app.command("remove")
def remove(ctx: typer.Context, name: Name, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Remove a schedule. Its plans stay."""
    return _act(ctx, root, as_json, name, "remove", "operate.schedule.remove")


@app.command("run")
def run(ctx: typer.Context, name: Name, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Run the plan of a schedule now, in addition to its times. Without an engine, it starts with the next one."""
    return _act(ctx, root, as_json, name, "run", "operate.schedule.run")


def _act(ctx: typer.Context, root: Path | None, as_json: bool, name: str, action: str, sentence: str) -> int:  # noqa: FBT001 - as given

    by = getpass.getuser()

    out, answer = _ask_schedules(
        ctx,
        root,
        as_json,
        f"/api/schedules/{name}/{action}",
        lambda local: local.service.scheduling.apply_action(name, action, by=by),
        {"by": by},
    )
    if out.as_json:
        out.write_json({"ok": True, **answer})
    else:
        shown = f"[bold]{sanitize(answer.get('plan_id') or name)}[/]"
        out.say(f"[green]✓[/] {out.text(sentence, name=shown)}")
    return 0


def _ask_schedules(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
    path: str,
    offline: UseCase[Mapping[str, Any]],
    body: dict[str, Any] | None = None,
) -> tuple[CommandOutput, Any]:

    out, folder = root_access.choose_root(ctx, root, as_json)
    return out, root_access.ask_root(folder, path, offline, body)
