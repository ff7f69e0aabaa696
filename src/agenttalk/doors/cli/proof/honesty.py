"""`agenttalk honesty`: shows how many claims of agents, models and validators held, counted from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

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


def _tell(out: CommandOutput, found: Mapping[str, Any]) -> None:
    if not found["total"]["turns"] and not found["validators"]:
        out.say(f"[dim]{out.text('honesty.no_turn')}[/]")
        return
    for key, rows in (("agent_id", "agents"), ("model", "models"), ("kind", "kinds")):
        if found[rows]:
            out.say(f"[bold]{out.text(f'honesty.{rows}')}[/]")
        wide = max((len(sanitize(row[key])) for row in found[rows]), default=0)
        for row in found[rows]:
            out.say(f"  {sanitize(row[key]):<{wide}}  {format_honesty(out, row)}")
            for model in row.get("by_model", ()):
                out.say(f"    [dim]{_name_model(out, model)}:[/] {format_honesty(out, model)}")
    if found["validators"]:
        out.say(f"[bold]{out.text('honesty.validators')}[/]")
    for row in found["validators"]:
        out.say(f"  {sanitize(row['agent_id'])}  {_format_judgement(out, row)}")
        for model in row["by_model"]:
            out.say(f"    [dim]{_name_model(out, model)}:[/] {_format_judgement(out, model)}")
    if found["uncounted"]:
        out.say(f"[yellow]![/] {out.text('honesty.uncounted', count=found['uncounted'])}")


def _name_model(out: CommandOutput, row: Mapping[str, Any]) -> str:
    return sanitize(row["model"]) or out.text("honesty.no_model")


def _format_judgement(out: CommandOutput, row: Mapping[str, Any]) -> str:
    """Format the numbers of a validator in one line."""
    counted = ["judged", "misled", "overruled", *(["unjudged"] if row["unjudged"] else [])]
    parts = [out.text(f"honesty.{name}", count=row[name]) for name in counted]
    if row["reliability"] is not None:
        parts.append(out.text("honesty.held", percent=row["reliability"]))
    return out.join(parts)


def format_honesty(out: CommandOutput, row: Mapping[str, Any]) -> str:
    """Format the numbers of an agent, a model or a kind of task in one line."""
    if not row["claims"]:
        return out.text("honesty.no_claim", turns=out.count(row["turns"], "turn"))
    counted = [name for name in ("unproven", "unisolated", "gamed", "refuted", "overturned", "stale") if row[name]]
    parts = [out.text(f"honesty.{name}", count=row[name]) for name in ("proven", *counted)]
    if row["rounds"]:
        parts.append(out.count(row["rounds"], "rework round"))
    parts.append(out.text("honesty.held", percent=row["held"]))
    if row["disputed"]:
        checks = out.count(row["disputed"], "check")
        parts.append(out.text("honesty.disputed", checks=checks, upheld=row["upheld"], dismissed=row["dismissed"]))
    if row["cost_usd"] and row["cost_per_proven"]:
        parts.append(out.text("honesty.cost", cost=row["cost_per_proven"]))
    counts = out.join(parts)
    if row["claims"] == 1:
        return out.text("honesty.claim", counts=counts)
    return out.text("honesty.claims", count=row["claims"], counts=counts)
