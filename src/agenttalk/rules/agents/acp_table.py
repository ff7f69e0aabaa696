"""The table of coding agents that speak the Agent Client Protocol: how each is started, and what it needs.

An entry is one of `cli_table`, of which those parts are used that are not about output. Each asks before it changes
anything, and is answered by `permissions`; so none is told here what it may do, but for those that would not ask
otherwise. Codex asks only for what its own sandbox does not let it do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from agenttalk.contracts.agent import AcpUse
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.rules.agents import cli_table, permissions
from agenttalk.rules.agents.cli_table import MCP_VARIABLES, CodingAgent, McpClient


@dataclass(frozen=True, slots=True)
class AcpAgent(CodingAgent):
    """An entry of this table."""

    auth: str = ""
    """How it logs in, where it wants that to be said."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Variables by which a `{model}` is named."""
    asking: Mapping[str, str] = field(default_factory=dict)
    """Variables that make it ask before it does anything."""
    free: Mapping[str, str] | None = None
    """Variables that it gets instead in a sandbox of ours, if its profile says nothing of what it may do: for one that
    can ask only where it has a sandbox of its own, which does not work inside of ours."""
    inherits: bool = False
    """Whether servers that it starts have its own variables. Then it is not told of these once more: it would put them
    into arguments, which everybody can read."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What it is told beside the protocol when it opens a session with our MCP server."""


def _client(base: str) -> McpClient:
    """How the agent of the other table is told of our MCP server."""
    return cli_table.TABLE[base].mcp or McpClient()


def _waiting(base: str, **more: str) -> McpClient:
    """How an agent is told to wait for our MCP server. Of the server itself it is told when a session is opened."""
    led_by = cli_table.TABLE[base].led_by
    told = {name: value for name, value in _client(base).variables.items() if name not in led_by}
    return McpClient(variables={**told, **more})


def _entry(base: str, program: str, argv: tuple[str, ...], install: str = "", **more: object) -> AcpAgent:
    """An entry that shares variables, keys and files with one of the other table."""
    known = cli_table.TABLE[base]
    shared: dict[str, object] = {
        "model": known.model,
        "variables": known.variables,
        "when_confined": known.when_confined,
        "handed": known.handed,
        "login": known.login,
        "mcp": _waiting(base),
        "files": known.files,
        "version": known.version,
        "install": install or known.install,
    }
    return AcpAgent(program=program, argv=argv, codec="text", **{**shared, **more})  # type: ignore[arg-type]


TABLE: Final[Mapping[str, AcpAgent]] = MappingProxyType(
    {
        "claude": _entry(
            "claude",
            "claude-agent-acp",
            ("{ARGS}",),
            "npm install -g @agentclientprotocol/claude-agent-acp",
            named={"ANTHROPIC_MODEL": "{model}"},
            # It would hide the tools of servers until its model looks for them.
            mcp=_waiting("claude", ENABLE_TOOL_SEARCH="false"),
            inherits=True,
        ),
        "codex": _entry(
            "codex",
            "codex-acp",
            ("{ARGS}",),
            "npm install -g @agentclientprotocol/codex-acp",
            handed=(*cli_table.TABLE["codex"].handed, "CODEX_CONFIG", "MODEL_PROVIDER"),
            named={"CODEX_CONFIG": '{"model": "{model}"}'},
            asking={"INITIAL_AGENT_MODE": "read-only"},
            free={"INITIAL_AGENT_MODE": "agent-full-access"},
            auth="api-key",
            meta={
                "mcpStartupAwaitTimeoutMs": 60_000
            },  # it would begin without the tools of a server that is slow to start
        ),
        "gemini": _entry(
            "gemini",
            "gemini",
            ("--acp", "{MODEL}", "{ARGS}"),
            mcp=_waiting("gemini", GEMINI_CLI_TRUST_WORKSPACE="true"),  # else it starts no server at all
        ),
        "opencode": _entry(
            "opencode",
            "opencode",
            ("acp", "{ARGS}"),
            named={"OPENCODE_CONFIG_CONTENT": '{"model": "{model}"}'},
            asking={"OPENCODE_PERMISSION": '{"edit": "ask", "bash": "ask", "webfetch": "ask"}'},
        ),
        "qwen": _entry(
            "qwen",
            "qwen",
            ("--acp", "--approval-mode", "default", "{MODEL}", "{ARGS}"),
            mcp=replace(_client("qwen"), file={"tools": {"toolSearch": {"enabled": False}}}),  # as with claude
        ),
        "custom": AcpAgent(program="", argv=("{ARGS}",), codec="text"),
    }
)
"""Name → entry."""


def resolve_agent(use: AcpUse | None) -> AcpAgent:
    """The entry that an agent uses, with what its profile says otherwise. Raises ValueError with what to do."""
    if use is None:
        raise ValueError(f"it is not said which coding agent it is; add acp, one of: {', '.join(TABLE)}")
    found = TABLE.get(use.agent)
    if found is None:
        near = find_nearest(use.agent, TABLE)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(TABLE)}"
        raise ValueError(f"there is no coding agent {use.agent[:40]!r} in the table; {hint}")
    if use.program is not None:
        found = replace(found, program=use.program)
    if use.argv is not None:
        found = replace(found, argv=tuple(use.argv))
    if not found.program:
        raise ValueError("a custom coding agent needs its program; add acp.program")
    permissions.check_patterns(use)
    return found


def build_variables(agent: AcpAgent, use: AcpUse, *, confined: bool) -> dict[str, str]:
    """Variables by which an agent is told its model, and to ask before it does anything."""
    model = use.model or ""
    quoted = model.replace("\\", "\\\\").replace('"', '\\"')
    texts = agent.named.items() if model else ()
    named = {name: text.replace("{model}", quoted if text.startswith('{"') else model) for name, text in texts}
    said = use.allow is not None or bool(use.deny or use.ask) or use.otherwise == "ask"
    return {**named, **(agent.free if agent.free is not None and confined and not said else agent.asking)}


def build_servers(agent: AcpAgent, command: tuple[str, ...], env: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    """Our MCP server as the protocol describes one that an agent starts itself; none where there is no command.

    Every agent can start one, and it needs no network. Of an attempt's variables `env` it gets those that it needs.
    """
    if not command:
        return ()
    told = [{"name": name, "value": env[name]} for name in MCP_VARIABLES if name in env and not agent.inherits]
    return ({"name": "agenttalk", "command": command[0], "args": list(command[1:]), "env": told},)
