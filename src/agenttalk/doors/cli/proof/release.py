"""`agenttalk release`: shows the decision about the release of a plan."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import JsonOption, RootOption
from agenttalk.doors.cli.plans import code, decisions

if TYPE_CHECKING:
    from agenttalk.engine.plans.releases import ReleaseView

release_app = typer.Typer(add_completion=False)


@release_app.command("release")
def release(
    ctx: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan's id.")],
    again: Annotated[bool, typer.Option("--again", help="Check every gate again, and decide again.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the last decision about the release of a plan, with every gate and reason.

    Exits with 0 when the release is approved, 3 while it is not decided, else with 1.
    """
    out, folder = root_access.choose_root(ctx, root, as_json)
    by = getpass.getuser()

    code.verify_plan(folder, plan)  # the evidence of an approval may have become stale
    told: ReleaseView = root_access.ask_root(
        folder,
        f"/api/plans/{plan}/release",
        lambda local: local.plans.decide_release(plan, by=by) if again else local.plans.read_release(plan),
        {"by": by} if again else None,
    )
    if out.as_json:
        out.write_json({"ok": told["state"] == "approved", "plan_id": plan, **told})
    else:
        decisions.tell_release(out, plan, told)
    return {"approved": 0, "due": 3}.get(told["state"], 1)
