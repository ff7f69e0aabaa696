"""`agenttalk mcp`: serves MCP on standard input and output, for one token."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core import agent_permissions
from agenttalk.doors.cli.core.output import CommonOptions, JsonOption, RootOption

if TYPE_CHECKING:
    from agenttalk.adapters.store.root_lock import RunningEngine

app = typer.Typer(add_completion=False)


@app.command("mcp")
def mcp(
    ctx: typer.Context,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Act for this agent (see 'agenttalk token create').")
    ] = None,
    operator: Annotated[bool, typer.Option("--operator", help="Act for the operator, who may do everything.")] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Serve MCP on standard input and output, until standard input is closed.

    In a turn, the server uses the attempt's token from its environment. Elsewhere, pass --root with --agent or
    --operator, or set AGENTTALK_TOKEN and AGENTTALK_API.
    """
    given = CommonOptions.merge(ctx, root, as_json)
    if agent is not None or operator:  # an agent may only use its own token
        agent_permissions.require_person("mcp --operator" if operator else "mcp --agent")
    token, engine = _whose(given.root, agent, operator=operator)
    try:
        import anyio
        from mcp.server.stdio import stdio_server

        from agenttalk.doors.cli.proof import attempt
        from agenttalk.doors.mcp.engine_client import AsyncEngineClient
        from agenttalk.doors.mcp.heartbeats import ClaimHeartbeats
        from agenttalk.doors.mcp.own_attempt import OwnAttempt
        from agenttalk.doors.mcp.server import make_server
    except ImportError as error:
        message = "the package mcp is not installed"
        raise MachineError(Code.NAME_UNKNOWN, message, hint="pip install 'agenttalk[mcp]'") from error

    asking = AsyncEngineClient(lambda: _client(engine()), token)
    inside = token == os.environ.get("AGENTTALK_TOKEN")
    own = OwnAttempt.from_environ(os.environ, lambda: attempt.read_own_attempt().find_missing()) if inside else None
    heartbeats = ClaimHeartbeats(asking)
    server = make_server(lambda _: asking, guess=_guess(token), own=own, heartbeats=heartbeats)

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            try:
                await server.run(incoming, outgoing, server.create_initialization_options())
            finally:
                await heartbeats.stop()

    anyio.run(serve)
    return 0


def _whose(root: Path | None, agent: str | None, *, operator: bool) -> tuple[str, Callable[[], RunningEngine | None]]:
    """Return the token, and a function that finds the engine. Raises UsageError when there is no token."""
    from agenttalk.adapters.store import operator_folder as own
    from agenttalk.adapters.store.root_lock import RunningEngine, running_engine

    if agent is not None and operator:
        raise UsageError(Code.OPTION_INVALID, "--agent and --operator exclude each other")
    env = os.environ
    there = RunningEngine(pid=0, http=env.get("AGENTTALK_API"), socket=env.get("AGENTTALK_SOCKET"))

    def engine() -> RunningEngine | None:
        if there.http or there.socket:
            return there
        return running_engine(root) if root is not None else None

    token = "" if agent is not None or operator else env.get("AGENTTALK_TOKEN", "")
    if not token and root is not None:
        folder = root.absolute()
        token = (own.agent_token_of(folder, agent) if agent is not None else None) or ""
        token = (own.token_of(folder) or "") if operator else token
    if token:
        return token, engine
    if operator and root is not None:
        hint = f"start one: agenttalk serve --root {shlex.quote(str(root))}"
        raise UsageError(
            Code.TOKEN_REFUSED, f"no engine has run in {root} yet, so its operator has no token", hint=hint
        )
    hint = "set AGENTTALK_TOKEN, or pass --root with --agent NAME or --operator"
    if agent is not None:
        hint = f"'agenttalk token create {agent}' makes one"
    raise UsageError(Code.TOKEN_REFUSED, "there is no token", hint=hint)


def _client(engine: RunningEngine | None) -> Any:
    import httpx2

    if engine is None or not (engine.http or engine.socket):
        raise httpx2.ConnectError("no engine runs here")
    if engine.socket and Path(engine.socket).exists():
        transport = httpx2.AsyncHTTPTransport(uds=engine.socket)
        return httpx2.AsyncClient(transport=transport, base_url="http://agenttalk", trust_env=False)
    return httpx2.AsyncClient(base_url=engine.http or "", trust_env=False)


def _guess(token: str) -> str:
    """Guess the role of a token from its prefix, while no engine can be asked."""
    prefixes = {"agt_": "agent", "rem_": "remote"}
    return prefixes.get(token[:4], "operator")
