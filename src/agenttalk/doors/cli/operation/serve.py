"""`agenttalk serve`: runs the engine of a root until a signal ends it."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated, Any, Literal

import typer

from agenttalk.doors.cli.core import logs, root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, SandboxOption, sanitize

app = typer.Typer(add_completion=False)


@app.command("serve")
def serve(
    ctx: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = None,
    log_format: Annotated[
        Literal["console", "json"] | None, typer.Option("--log-format", help="Format of the log.")
    ] = None,
    sandbox: SandboxOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the engine of a root: it runs plans, routes messages, and serves the HTTP API and the web pages.

    End it with SIGTERM or Ctrl-C. That ends programs that are running; the next start runs them again.
    """
    import asyncio

    from agenttalk import wiring
    from agenttalk.doors.api.server import ServerAddresses
    from agenttalk.wiring import settings

    out, folder = root_access.choose_root(ctx, root, as_json)
    loaded = settings.load(folder).with_sandbox(sandbox)
    logs.configure_logging(log_format or loaded.log.format, loaded.log.level)

    def tell(where: ServerAddresses) -> None:
        if out.as_json:
            out.write_json({"ok": True, "http": where.http, "socket": where.socket})
        else:
            places = {"http": where.http, "socket": sanitize(where.socket)}
            out.say(f"[green]✓[/] {out.text('operate.listening', folder=sanitize(folder), **places)}")
            _tell_pages(out, where.pages)
        sys.stdout.flush()

    def start(stop: asyncio.Event) -> Any:
        return wiring.serve(folder, loaded, stop=stop, tell=tell, port=port, name=getpass.getuser())

    return root_access.run_loop(start)


def _tell_pages(out: CommandOutput, link: str) -> None:
    """Print a link to the pages on a terminal. It is a secret until it is used, so it must not reach a log."""
    if sys.stdout.isatty():
        out.say(f"[bold]{out.text('operate.pages_link')}[/]")
        out.say(sanitize(link))
    else:
        out.say(out.text("operate.pages_login"))
