"""`agenttalk token`: tokens of agents that work elsewhere."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import typer

from agenttalk.cli.output import JsonOption, Output, RootOption, plain

app = typer.Typer(no_args_is_help=True, help="Tokens of agents that work elsewhere.", add_completion=False)


@app.command("create")
def create(
    ctx: typer.Context,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Whose token it is.")],
    show: Annotated[bool, typer.Option("--show", help="Print the token, to take it to another machine.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a token for an agent. It lets that agent take tasks that are offered to it, and nothing else.

    The token is kept in your own configuration folder, where 'agenttalk mcp --agent AGENT' finds it. The root keeps
    nothing but its hash.
    """
    from agenttalk.cli import roots
    from agenttalk.contracts.base import is_id
    from agenttalk.engine import access
    from agenttalk.engine.deps import Deps
    from agenttalk.errors import Code, UsageError
    from agenttalk.store import operator

    out, folder = roots.chosen(ctx, root, as_json)
    if not is_id(agent):
        raise UsageError(Code.ID_INVALID, f"{agent!r} is not an id", hint="use letters, digits, '_', '-' and '.'")
    token = f"rem_{secrets.token_urlsafe(32)}"

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return (await access.admit_agent(deps, token, agent)).as_json()

    made = roots.asked(folder, "/api/tokens", by_hand, {"agent_id": agent, "token": token})
    path = operator.keep_agent_token(folder, agent, token)
    if out.as_json:
        out.data({"ok": True, **made, "file": str(path), **({"token": token} if show else {})})
    else:
        out.say(f"[green]✓[/] token [bold]{plain(made['id'])}[/] of {plain(agent)} is in {plain(path)}", err=show)
        if show:
            typer.echo(token)
    return 0


@app.command("list")
def list_tokens(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the tokens of agents elsewhere, revoked ones too."""
    from agenttalk.cli import roots
    from agenttalk.engine import access
    from agenttalk.engine.deps import Deps

    out, folder = roots.chosen(ctx, root, as_json)

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return {"tokens": [each.as_json() for each in await access.agent_tokens(deps)]}

    found = roots.asked(folder, "/api/tokens", by_hand)["tokens"]
    if out.as_json:
        out.data(found)
    else:
        for each in found:
            revoked = f"  revoked {plain(each['revoked_at'])}" if each["revoked_at"] else ""
            out.say(f"{plain(each['id'])}  {plain(each['agent_id'])}  {plain(each['at'])}{revoked}")
    return 0


@app.command("revoke")
def revoke(
    ctx: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As 'agenttalk token list' shows it.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a token in no longer."""
    from urllib.parse import quote

    from agenttalk.cli import roots
    from agenttalk.engine import access
    from agenttalk.engine.deps import Deps

    out, folder = roots.chosen(ctx, root, as_json)

    async def by_hand(deps: Deps) -> dict[str, Any]:
        return (await access.revoke_agent(deps, token_id)).as_json()

    revoked = roots.asked(folder, f"/api/tokens/{quote(token_id, safe='')}/revoke", by_hand, {})
    _tell(out, revoked)
    return 0


def _tell(out: Output, revoked: dict[str, Any]) -> None:
    if out.as_json:
        out.data({"ok": True, **revoked})
    else:
        out.say(f"[green]✓[/] token {plain(revoked['id'])} of {plain(revoked['agent_id'])} is good no longer")
