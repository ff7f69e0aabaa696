"""`agenttalk demo`: a short tour that checks itself. The exit code is 0 only when every scene succeeded."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

app = typer.Typer(add_completion=False)


@app.command("demo")
def demo(
    ctx: typer.Context,
    serve: Annotated[bool, typer.Option("--serve", help="Run plans instead, and show them in the browser.")] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 0,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show what AgentTalk does, in a temporary folder and without API keys. Exits with 0 if every scene succeeded."""
    from agenttalk.demo import scenes  # not at the top: --help must stay quick

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    if serve:
        return _served(out, port)
    results = scenes.play_all(out)
    done = sum(result["ok"] for result in results)
    good = done == len(results)
    if out.as_json:
        out.write_json({"ok": good, "scenes": results})
    else:
        colour, mark = ("green", "✓") if good else ("red", "✗")
        out.say(f"[bold {colour}]{mark} {done} of {len(results)} scenes went as they should.[/]")
        out.say("Try it: [bold].venv/bin/agenttalk command generate --help[/]; docs/tutorial/first-plan.md leads on.")
        out.say("Look at it in the browser: [bold]make demo SERVE=1[/] (or [bold].venv/bin/agenttalk demo --serve[/])")
    return 0 if good else 1


def _served(out: CommandOutput, port: int) -> int:
    """Run plans on a root of their own, until Ctrl-C."""
    from agenttalk.demo import browser_scene
    from agenttalk.doors.api.server import ServerAddresses

    def tell(where: ServerAddresses) -> None:
        if out.as_json:
            out.write_json({"ok": True, "http": where.http, "socket": where.socket, "pages": where.pages})
        else:
            out.say("Three plans are running. Open this link (it works once), and end with Ctrl-C:")
            out.say(sanitize(where.pages))
        sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="agenttalk-demo-") as folder:
        root = Path(folder) / "root"
        root.mkdir()
        return browser_scene.serve_demo(root, tell, port=port)
