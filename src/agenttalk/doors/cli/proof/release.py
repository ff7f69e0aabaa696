"""`agenttalk release`: what was decided about a plan's release, and why."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import JsonOption, RootOption
from agenttalk.doors.cli.plans import code, decisions

release_app = typer.Typer(add_completion=False)


@release_app.command("release")
def release(
    ctx: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")],
    again: Annotated[bool, typer.Option("--again", help="Look at every gate again and decide anew.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the last decision about a plan's release, with every gate and every reason.

    Ends with 0 when it is approved, else with 1; 3 while it is not decided.
    """
    out, folder = root_access.choose_root(ctx, root, as_json)
    by = getpass.getuser()

    code.verify_plan(folder, plan)  # what an approval rests on may have changed since
    told = root_access.ask_root(
        folder,
        f"/api/plans/{plan}/release",
        lambda local: local.carry_out(plan, "release", {"by": by}) if again else local.read_release(plan),
        {"by": by} if again else None,
    )
    if out.as_json:
        out.write_json({"ok": told["state"] == "approved", "plan_id": plan, **told})
    else:
        decisions.tell_release(out, plan, told)
    return {"approved": 0, "due": 3}.get(told["state"], 1)
