"""`agenttalk token`: makes, lists and revokes tokens of remote agents, people and pipelines."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from agenttalk.engine.core.access import Token

app = typer.Typer(
    no_args_is_help=True,
    help="Make, list and revoke tokens of remote agents, people and pipelines.",
    add_completion=False,
)


@app.command("create")
def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Owner of the token: an agent, or a person with --role.")],
    role: Annotated[
        str | None,
        typer.Option(
            "--role", metavar="ROLE", help="For a person: viewer (read only) or operator. For a pipeline: worker."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the token, e.g. to copy it to another machine.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Make a token for a remote agent. With it, the agent can only claim and do tasks that are offered to it.

    The token is stored in your configuration folder, where 'agenttalk mcp --agent NAME' finds it. The root stores only
    its hash. With --role, the token is for a user of the HTTP API, such as a colleague or Prometheus: it is printed,
    and stored nowhere. A pipeline that reports deployments needs only --role worker.
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
        folder,
        "/api/tokens",
        lambda local: local.operation.admit_agent(token, name),
        {"agent_id": name, "token": token},
    )
    path = operator_folder.keep_agent_token(folder, name, token)
    if out.as_json:
        out.write_json({"ok": True, **made, "file": str(path), **({"token": token} if show else {})})
    else:
        shown = f"[bold]{sanitize(made['id'])}[/]"
        words = out.text("operate.token_file", id=shown, name=sanitize(name), file=sanitize(path))
        out.say(f"[green]✓[/] {words}", err=show)
        if show:
            typer.echo(token)
    return 0


def _for_person(out: CommandOutput, folder: Path, name: str, role: str) -> int:
    """Make a token of a person or pipeline, and print it once."""
    from agenttalk.engine.core import access

    given = next((known for known in access.PERSON_ROLES if known == role), None)
    if given is None:
        hint = f"use --role with one of: {', '.join(access.PERSON_ROLES)}"
        raise UsageError(Code.OPTION_INVALID, f"{role!r} is not a role", hint=hint)
    token = f"{given[:3]}_{secrets.token_urlsafe(32)}"

    made = root_access.ask_root(
        folder,
        "/api/tokens",
        lambda local: local.operation.admit_person(token, given, name),
        {"role": given, "name": name, "token": token},
    )
    if out.as_json:
        out.write_json({"ok": True, **made, "token": token})
    else:
        shown = f"[bold]{sanitize(made['id'])}[/]"
        out.say(
            f"[green]✓[/] {out.text('operate.token_once', id=shown, name=sanitize(name), role=given)}",
            err=True,
        )
        typer.echo(token)
    return 0


@app.command("list")
def list_tokens(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List all tokens, revoked ones included."""
    out, folder = root_access.choose_root(ctx, root, as_json)

    found = root_access.ask_root(folder, "/api/tokens", lambda local: local.operation.list_tokens())["tokens"]
    if out.as_json:
        out.write_json(found)
    else:
        for each in found:
            revoked = (
                f"  {out.text('operate.token_revoked_at', at=sanitize(each['revoked_at']))}"
                if each["revoked_at"]
                else ""
            )
            out.say(
                f"{sanitize(each['id'])}  {sanitize(each['name'])}  {each['role']}  {sanitize(each['at'])}{revoked}"
            )
    return 0


@app.command("revoke")
def revoke(
    ctx: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, from 'agenttalk token list'.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Revoke a token. If it belonged to a person, everyone must log in to the web pages again."""
    out, folder = root_access.choose_root(ctx, root, as_json)

    revoked = root_access.ask_root(
        folder,
        f"/api/tokens/{quote(token_id, safe='')}/revoke",
        lambda local: local.operation.revoke_token(token_id),
        {},
    )
    _tell(out, revoked)
    return 0


def _tell(out: CommandOutput, revoked: Token) -> None:
    if out.as_json:
        out.write_json({"ok": True, **revoked})
    else:
        words = out.text("operate.token_revoked", id=sanitize(revoked["id"]), name=sanitize(revoked["name"]))
        out.say(f"[green]✓[/] {words}")
