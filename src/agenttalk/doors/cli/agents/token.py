"""`agenttalk token`: tokens of agents that work elsewhere, and of people and their programs."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

app = typer.Typer(no_args_is_help=True, help="Tokens of agents elsewhere, and of people.", add_completion=False)


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is: an agent, or a person with --role.")],
    role: Annotated[
        str | None,
        typer.Option(
            "--role", metavar="ROLE", help="For a person: viewer (may look only) or operator. For a pipeline: worker."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the token, to take it to another machine.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a token for an agent. It lets that agent take tasks that are offered to it, and nothing else.

    The token is kept in your own configuration folder, where 'agenttalk mcp --agent NAME' finds it. The root keeps
    nothing but its hash. With --role it is for whoever uses the HTTP API under that name, such as Prometheus or a
    colleague; it is printed, and kept nowhere. A pipeline that reports deployments needs no more than --role worker.
    """
    from agenttalk.adapters.store import operator_folder
    from agenttalk.contracts.core.base import is_id
    from agenttalk.engine.core import access

    out, folder = root_access.choose_root(ctx, root, as_json)
    if not is_id(name) or name == access.ENGINE_TOKEN_LABEL:
        hint = (
            f"use letters, digits, '_', '-' and '.', and not {access.ENGINE_TOKEN_LABEL!r}, which is the engine's own"
        )
        raise UsageError(Code.ID_INVALID, f"{name!r} cannot be the name of a token", hint=hint)
    if role is not None:
        return _for_person(out, folder, name, role)
    token = f"rem_{secrets.token_urlsafe(32)}"

    made = root_access.ask_root(
        folder, "/api/tokens", lambda local: local.admit_agent(token, name), {"agent_id": name, "token": token}
    )
    path = operator_folder.keep_agent_token(folder, name, token)
    if out.as_json:
        out.write_json({"ok": True, **made, "file": str(path), **({"token": token} if show else {})})
    else:
        out.say(
            f"[green]✓[/] token [bold]{sanitize(made['id'])}[/] of {sanitize(name)} is in {sanitize(path)}", err=show
        )
        if show:
            typer.echo(token)
    return 0


def _for_person(out: CommandOutput, folder: Path, name: str, role: str) -> int:
    """A token that is shown once."""
    from agenttalk.engine.core import access

    given = next((each for each in access.PERSON_ROLES if each == role), None)
    if given is None:
        hint = f"use --role with one of: {', '.join(access.PERSON_ROLES)}"
        raise UsageError(Code.OPTION_INVALID, f"{role!r} is not a role", hint=hint)
    token = f"{given[:3]}_{secrets.token_urlsafe(32)}"

    made = root_access.ask_root(
        folder,
        "/api/tokens",
        lambda local: local.admit_person(token, given, name),
        {"role": given, "name": name, "token": token},
    )
    if out.as_json:
        out.write_json({"ok": True, **made, "token": token})
    else:
        out.say(
            f"[green]✓[/] token [bold]{sanitize(made['id'])}[/] of {sanitize(name)}, {given}; it is shown only now",
            err=True,
        )
        typer.echo(token)
    return 0


@app.command("list")
def list_tokens(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the tokens that were made, revoked ones too."""
    out, folder = root_access.choose_root(ctx, root, as_json)

    found = root_access.ask_root(folder, "/api/tokens", lambda local: local.list_tokens())["tokens"]
    if out.as_json:
        out.write_json(found)
    else:
        for each in found:
            revoked = f"  revoked {sanitize(each['revoked_at'])}" if each["revoked_at"] else ""
            out.say(
                f"{sanitize(each['id'])}  {sanitize(each['name'])}  {each['role']}  {sanitize(each['at'])}{revoked}"
            )
    return 0


@app.command("revoke")
def revoke(
    ctx: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As 'agenttalk token list' shows it.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Let a token in no longer. When it was a person's, all who are logged in to the pages have to log in again."""
    out, folder = root_access.choose_root(ctx, root, as_json)

    revoked = root_access.ask_root(
        folder, f"/api/tokens/{quote(token_id, safe='')}/revoke", lambda local: local.revoke_token(token_id), {}
    )
    _tell(out, revoked)
    return 0


def _tell(out: CommandOutput, revoked: dict[str, Any]) -> None:
    if out.as_json:
        out.write_json({"ok": True, **revoked})
    else:
        out.say(f"[green]✓[/] token {sanitize(revoked['id'])} of {sanitize(revoked['name'])} is good no longer")
