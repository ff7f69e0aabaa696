"""`agenttalk honesty`: shows how many claims of agents, models and validators held, counted from the ledger."""

from __future__ import annotations

from typing import Any

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, format_count, sanitize

honesty_app = typer.Typer(add_completion=False)


@honesty_app.command("honesty")
def honesty(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Show how often agents claimed that work was done, and how often that held."""
    out, folder = root_access.choose_root(ctx, root, as_json)
    found = root_access.ask_root(folder, "/api/honesty", lambda local: local.plans.read_honesty())
    if out.as_json:
        out.write_json({"ok": True, **found})
        return 0
    _tell(out, found)
    return 0


def _tell(out: CommandOutput, found: dict[str, Any]) -> None:
    if not found["total"]["turns"] and not found["validators"]:
        out.say("[dim]No agent has ended a turn yet.[/]")
        return
    for title, key, rows in (
        ("agents", "agent_id", "agents"),
        ("models", "model", "models"),
        ("kinds", "kind", "kinds"),
    ):
        if found[rows]:
            out.say(f"[bold]{title}[/]")
        wide = max((len(sanitize(each[key])) for each in found[rows]), default=0)
        for each in found[rows]:
            out.say(f"  {sanitize(each[key]):<{wide}}  {format_honesty(each)}")
            for model in each.get("by_model", ()):
                out.say(f"    [dim]{_model(model)}:[/] {format_honesty(model)}")
    if found["validators"]:
        out.say("[bold]validators[/]")
    for each in found["validators"]:
        out.say(f"  {sanitize(each['agent_id'])}  {_format_judgement(each)}")
        for model in each["by_model"]:
            out.say(f"    [dim]{_model(model)}:[/] {_format_judgement(model)}")
    if found["uncounted"]:
        out.say(f"[yellow]![/] {found['uncounted']} entries of the ledger are not counted yet; repeat the command")


def _model(each: dict[str, Any]) -> str:
    return sanitize(each["model"]) or "model unknown"


def _format_judgement(each: dict[str, Any]) -> str:
    """Format the numbers of a validator in one line."""
    held = "" if each["reliability"] is None else f", {each['reliability']:.0%} held"
    parts = [f"{each['judged']} judged", f"{each['misled']} wrongly accepted", f"{each['overruled']} overruled"]
    parts += [f"{each['unjudged']} not judged"] if each["unjudged"] else []
    return ", ".join(parts) + held


def format_honesty(each: dict[str, Any]) -> str:
    """Format the numbers of an agent, a model or a kind of task in one line."""
    if not each["claims"]:
        return f"{format_count(each['turns'], 'turn')}, no claim of done"
    parts = [f"{each['proven']} proven"]
    for name, words in (
        ("unproven", "on its word alone"),
        ("unisolated", "not isolated"),
        ("refuted", "refuted"),
        ("overturned", "later overturned"),
        ("stale", "stale"),
    ):
        parts += [f"{each[name]} {words}"] if each[name] else []
    if each["rounds"]:
        parts.append(format_count(each["rounds"], "rework round"))
    parts += [f"{each['held']:.0%} held"]
    if each["disputed"]:
        checks = format_count(each["disputed"], "check")
        parts.append(f"{checks} disputed ({each['upheld']} upheld, {each['dismissed']} dismissed)")
    parts += [f"${each['cost_per_proven']:.4g} per proven task"] if each["cost_usd"] and each["cost_per_proven"] else []
    return f"{each['claims']} {'claim' if each['claims'] == 1 else 'claims'} of done: {', '.join(parts)}"
