"""`agenttalk config`: what is set, and where."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from agenttalk.cli.output import JsonOption, RootOption, plain

app = typer.Typer(no_args_is_help=True, help="What is set, and where.", add_completion=False)


@app.command("show")
def show(
    ctx: typer.Context,
    origin: Annotated[bool, typer.Option("--origin", help="Say of each where it was set.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show every setting as it holds in this root: from agenttalk.toml, from a variable, or by default."""
    from agenttalk import settings
    from agenttalk.cli import roots

    out, folder = roots.chosen(ctx, root, as_json)
    found = settings.origins(folder)
    if out.as_json:
        out.data({"ok": True, "settings": [each._asdict() for each in found]})
        return 0
    for each in found:
        told = f"  [dim]# {plain(each.origin)}[/]" if origin else ""
        out.say(f"{plain(each.key)} = {plain(json.dumps(each.value, ensure_ascii=False))}{told}")
    return 0


@app.callback()
def config() -> None:
    """What is set, and where."""
