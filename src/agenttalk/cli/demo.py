"""`agenttalk demo`: a short tour that checks itself. The exit code is 0 only when every scene went as it should."""

from __future__ import annotations

import typer

from agenttalk.cli.output import JsonOption, Output, RootOption, Settings

app = typer.Typer(add_completion=False)


@app.command("demo")
def demo(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """Show what AgentTalk does, in a folder of its own and without keys; ends green when all went as it should."""
    from agenttalk.cli import scenes  # here, so that asking for help does not load every model

    settings = Settings.merged(ctx, root, as_json)
    out = Output(as_json=settings.as_json)
    results = scenes.play_all(out)
    done = sum(result["ok"] for result in results)
    good = done == len(results)
    if out.as_json:
        out.data({"ok": good, "scenes": results})
    else:
        colour, mark = ("green", "✓") if good else ("red", "✗")
        out.say(f"[bold {colour}]{mark} {done} of {len(results)} scenes went as they should.[/]")
        out.say("Try it: [bold].venv/bin/agenttalk command generate --help[/] · README.md has a five-minute tour.")
    return 0 if good else 1
