"""`agenttalk login`: makes a link that opens the web pages of a running engine."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import JsonOption, RootOption, sanitize

app = typer.Typer(add_completion=False)


@app.command("login")
def login(
    ctx: typer.Context,
    viewer: Annotated[
        bool, typer.Option("--viewer", help="Make it for a viewer, who can read everything and change nothing.")
    ] = False,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the person who uses the link. Default: you.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a link that opens the web pages.

    The link works once, within ten minutes. The browser stays logged in for twelve hours.
    """
    from agenttalk.doors.cli.core import engine_client

    out, folder = root_access.choose_root(ctx, root, as_json)
    client = engine_client.connect_to_running_engine(folder)
    if client is None:
        raise UsageError(
            Code.ENGINE_UNREACHABLE, f"no engine runs for {folder}", hint="start one with 'agenttalk serve'"
        )
    role = "viewer" if viewer else "operator"
    made = client.post("/api/login-links", {"role": role, "by": name or getpass.getuser()})
    address = f"{client.address}{made['path']}"
    if out.as_json:
        out.write_json({"ok": True, "pages": address})
    else:
        out.say(sanitize(address))
    return 0
