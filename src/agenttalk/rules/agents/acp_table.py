"""The table of coding agents that speak the Agent Client Protocol: how each is started, and what it needs.

An entry extends one of `cli_table`; its parts about output are not used. Each agent asks before it changes anything,
and `permissions` answers. So the entry sets no permissions, except for agents that would otherwise not ask. Codex asks
only for what its own sandbox forbids.
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
    """Its method of login, if it requires the client to name one."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Variables that name the `{model}`."""
    asking: Mapping[str, str] = field(default_factory=dict)
    """Variables that make it ask before each action."""
    free: Mapping[str, str] | None = None
    """Variables instead of `asking` in our sandbox, if the profile sets no permissions, for an agent that can ask only
    with a sandbox of its own, which does not work within ours."""
    inherits: bool = False
    """Whether servers that it starts inherit its variables. Then we do not pass these again, because it would put them
    into arguments, which other programs can read."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Extra fields, beside the protocol, when it opens a session with our MCP server."""


def _client(base: str) -> McpClient:
    """Return how the agent of the other table is configured for our MCP server."""
    return cli_table.TABLE[base].mcp or McpClient()


def _waiting(base: str, **more: str) -> McpClient:
    """Configure an agent to wait for our MCP server. The server itself is named when a session is opened."""
    led_by = cli_table.TABLE[base].led_by
    variables = {name: value for name, value in _client(base).variables.items() if name not in led_by}
    return McpClient(variables={**variables, **more})


def _entry(base: str, program: str, argv: tuple[str, ...], install: str = "", **more: object) -> AcpAgent:
    """Make an entry that shares variables, keys and files with one of the other table."""
    known = cli_table.TABLE[base]
    shared: dict[str, object] = {
        "model": known.model,
        "variables": known.variables,
        "when_confined": known.when_confined,
        "handed": known.handed,
        "login": known.login,
        "mcp": _waiting(base),
        "files": known.files,
        "limited": known.limited,
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
            # Otherwise it hides the tools of servers until its model searches for them.
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
            },  # otherwise it begins without the tools of a server that starts slowly
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
    """Return an agent's entry with the changes of its profile. Raises ValueError with what to do."""
    if use is None:
        raise ValueError(f"the profile names no coding agent; add acp, one of: {', '.join(TABLE)}")
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
    """Build the variables that set an agent's model, and make it ask before each action."""
    model = use.model or ""
    quoted = model.replace("\\", "\\\\").replace('"', '\\"')
    texts = agent.named.items() if model else ()
    named = {name: text.replace("{model}", quoted if text.startswith('{"') else model) for name, text in texts}
    limited = use.allow is not None or bool(use.deny or use.ask) or use.otherwise == "ask"
    return {**named, **(agent.free if agent.free is not None and confined and not limited else agent.asking)}


def build_servers(agent: AcpAgent, command: tuple[str, ...], env: Mapping[str, str]) -> tuple[Mapping[str, Any], ...]:
    """Describe our MCP server for an agent that starts it itself. Empty if there is no command.

    Every agent can start one, and it needs no network. It gets only those variables of the attempt that it needs.
    """
    if not command:
        return ()
    variables = [{"name": name, "value": env[name]} for name in MCP_VARIABLES if name in env and not agent.inherits]
    return ({"name": "agenttalk", "command": command[0], "args": list(command[1:]), "env": variables},)
