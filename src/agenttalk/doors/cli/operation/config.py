"""`agenttalk config`: shows and reloads settings."""

from __future__ import annotations

import getpass
import json
from typing import Annotated

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import JsonOption, RootOption, sanitize

app = typer.Typer(
    no_args_is_help=True, help="Show settings and where they were set; reload them.", add_completion=False
)


@app.command("show")
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Show where each setting was set.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show every setting of this root: from agenttalk.toml, from a variable, or by default."""
    from agenttalk.wiring import settings

    out, folder = root_access.choose_root(ctx, root, as_json)
    found = settings.origins(folder)
    if out.as_json:
        out.write_json({"ok": True, "settings": [each._asdict() for each in found]})
        return 0
    for each in found:
        told = f"  [dim]# {sanitize(each.origin)}[/]" if origin else ""
        out.say(f"{sanitize(each.key)} = {sanitize(json.dumps(each.value, ensure_ascii=False))}{told}")
    return 0


@app.command("reload")
def reload(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Have the running engine read agenttalk.toml again.

    Agents, schedules, limits.max_running, limits.cost_usd_per_day, log.level and locale take effect at once. Other
    changes are listed as needing a restart. If a setting is not valid, nothing changes.
    """
    from agenttalk.doors.cli.core import engine_client

    out, folder = root_access.choose_root(ctx, root, as_json)
    client = engine_client.connect_to_running_engine(folder)
    if client is None:
        hint = "nothing to do: an engine reads the settings when it starts"
        raise UsageError(Code.ENGINE_UNREACHABLE, f"no engine runs for {folder}", hint=hint)
    told = client.post("/api/settings/reload", {"by": getpass.getuser()})
    if out.as_json:
        out.write_json({"ok": True, **told})
        return 0
    for key in told["changed"]:
        out.say(f"[green]✓[/] {out.text('operate.setting_in_effect', key=sanitize(key))}")
    for key in told["needs_restart"]:
        out.say(f"[yellow]·[/] {out.text('operate.setting_restart', key=sanitize(key))}")
    if not told["changed"] and not told["needs_restart"]:
        out.say(out.text("operate.setting_unchanged"))
    return 0
