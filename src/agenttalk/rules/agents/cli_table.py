"""The table of coding agents: how each is started, how it gets its prompt, and how its output is read.

To support another coding agent, add an entry. The table has no code; one of `codecs` reads the agent's output.

Arguments may have placeholders: `{base}` is the folder of the attempt, `{session}` the session to resume, `{mcp_file}`
a file that names our MCP server; `{model}`, `{prompt}` and `{prompt_file}` are clear. An argument that is only
`{MODEL}`, `{GUARD}`, `{MCP}`, `{HOOK}` or `{ARGS}` becomes any number of arguments: for the model, the permissions, our
MCP server, the command to run before the agent stops, and those that its profile adds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from agenttalk.contracts.agent import AcpUse, CliUse, PromptBy
from agenttalk.contracts.core.problems import find_nearest
from agenttalk.rules.agents.codecs import Codec, make_codec
from agenttalk.rules.agents.events import Totals
from agenttalk.rules.budgets.provider_limits import LimitPattern

LONGEST_ARGUMENT: Final = 100 * 1024
"""The most bytes of a prompt in an argument. The system allows 128 KiB, and other programs can read arguments."""
_PROMPT: Final = "prompt.txt"
_MCP: Final = "mcp.json"
MCP_VARIABLES: Final = (
    *("AGENTTALK_TOKEN", "AGENTTALK_API", "AGENTTALK_SOCKET"),
    *("AGENTTALK_COMMAND", "AGENTTALK_INPUTS", "AGENTTALK_OUTPUTS", "AGENTTALK_RESULT"),
)
"""The variables of an attempt that our MCP server needs. Some agents pass on only variables that they list."""


@dataclass(frozen=True, slots=True)
class McpClient:
    """How an agent is configured for our MCP server. The attempt's token is never in it, but in a variable.

    `{server}` is the server's program, `{server_args}` its arguments; in the file, `{server_argv}` is both.
    """

    args: tuple[str, ...] = ()
    """Its arguments."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that configure it."""
    file: Mapping[str, Any] = field(default_factory=dict)
    """The content of the file `{mcp_file}`. A placeholder is a whole string in it, and stands for a value."""
    settings: str = ""
    """The settings file in the agent's home folder that has this content instead."""


@dataclass(frozen=True, slots=True)
class Login:
    """The login of a person, which a coding agent keeps in the home folder, which sandboxes hide."""

    path: str
    """The file, below the home folder. If no key is set, the agent in a sandbox gets it read-only."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that the agent then needs in its home folder, instead of those for a key."""
    remedy: str = ""
    """How a person logs in, or gets a key."""


@dataclass(frozen=True, slots=True)
class CodingAgent:
    """An entry of the table."""

    program: str
    argv: tuple[str, ...]
    """Its arguments."""
    codec: str
    resume: tuple[str, ...] = ()
    """Its arguments to resume a session; empty if it cannot."""
    prompt: PromptBy = "stdin"
    model: tuple[str, ...] = ()
    """The arguments that name a model."""
    confined: tuple[str, ...] = ()
    """The arguments that permit everything, for our sandbox."""
    trusted: tuple[str, ...] = ()
    """The arguments that limit it where there is no sandbox."""
    hook: tuple[str, ...] = ()
    """The arguments that make it run a command, `{hook}`, before it stops."""
    mcp: McpClient | None = None
    """Its configuration for our MCP server; None if it cannot use one."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables that it always gets: no telemetry, no automatic updates."""
    when_confined: Mapping[str, str] = field(default_factory=dict)
    """Variables that it gets in a sandbox."""
    handed: tuple[str, ...] = ()
    """Variables of the engine that it gets if they are set: its keys, and the address of its model."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Files that it needs in an empty home folder, in a sandbox."""
    sessions: tuple[str, ...] = ()
    """The folder of its sessions in its home folder."""
    login: Login | None = None
    """The login of a person; None if it only supports keys."""
    going_on: frozenset[Totals] = frozenset()
    """The numbers that it counts from the beginning of a session, not of a run."""
    denied: tuple[str, ...] = ()
    """Patterns for a tool's answer, or a line, that reports a denied permission."""
    failed: tuple[str, ...] = ()
    """Patterns for lines that report a failure, for text output."""
    limited: tuple[LimitPattern, ...] = ()
    """Messages by which its program reports a limit of its provider. They count only where it reports its failure."""
    acted: str = ""
    """A pattern for lines that report an action, for text output, with the groups `tool` and `about`."""
    counted: str = ""
    """A pattern for lines that report usage, for text output."""
    version: tuple[str, ...] = ("--version",)
    install: str = ""
    """How it is installed."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the variables with which it needs no login."""
        return tuple(name for name in self.handed if name.endswith(("_KEY", "_TOKEN")))

    @property
    def led_by(self) -> tuple[str, ...]:
        """Return the variables that name the file with our MCP server. A profile must not set them."""
        variables = self.mcp.variables if self.mcp else {}
        return tuple(name for name, value in variables.items() if "{mcp_file}" in value)

    def make_codec(self) -> Codec:
        """Make the codec for its output. Raises ValueError for an unknown codec or an invalid pattern."""
        return make_codec(self.codec, self.denied, self.failed, acted=self.acted, counted=self.counted)


_CLAUDE_ARGV: Final = (
    *("-p", "--output-format", "stream-json", "--verbose", "--add-dir={base}"),
    *("{GUARD}", "{MODEL}", "{MCP}", "{HOOK}", "{ARGS}"),
)
_CODEX_OPTIONS: Final = ("--json", "--skip-git-repo-check", "{GUARD}", "{MODEL}", "{MCP}", "{ARGS}")
_GEMINI_ARGV: Final = (
    "--skip-trust",
    "-o",
    "stream-json",
    "--include-directories={base}",
    "{GUARD}",
    "{MODEL}",
    "{ARGS}",
)
_QWEN_ARGV: Final = ("-o", "stream-json", "--include-directories={base}", "{GUARD}", "{MODEL}", "{ARGS}")
_OPENCODE_ARGV: Final = ("run", "--format", "json", "{MODEL}", "{ARGS}")
_CODEX_SERVER: Final = (
    "mcp_servers.agenttalk={command={server},args={server_args},"
    f"env_vars={json.dumps(MCP_VARIABLES)},required=true,startup_timeout_sec=60,tool_timeout_sec=180,"
    'default_tools_approval_mode="approve"}'
)
_PASSED_ON: Final = {name: f"${{{name}}}" for name in MCP_VARIABLES}


def _servers(**more: Any) -> dict[str, Any]:
    """Configure our MCP server in the form of most agents."""
    return {"mcpServers": {"agenttalk": {"command": "{server}", "args": "{server_args}", **more}}}


def _trusted(**more: Any) -> dict[str, Any]:
    """Configure it for agents that pass on no variables by default, and ask before they call a tool."""
    return {"mcp": {"allowed": ["agenttalk"]}, **_servers(env=_PASSED_ON, timeout=120_000, trust=True, **more)}


def _settings(way: str) -> str:
    """Make the settings of Gemini CLI and Qwen Code: their login, no telemetry, no updates."""
    return (
        '{"security": {"auth": {"selectedType": "' + way + '"}}, '
        '"general": {"disableAutoUpdate": true}, "privacy": {"usageStatisticsEnabled": false}}'
    )


_CLAUDE: Final = "Claude Code 2.1.325, its code"
_CLAUDE_RUN: Final = "Claude Code 2.1.325, recorded"
_CODEX: Final = "Codex 0.166.0, its code"
_CODEX_RUN: Final = "Codex 0.166.0, recorded"
_GEMINI: Final = "Gemini CLI 0.61.0, its code (classifyGoogleError)"
_GEMINI_RUN: Final = "Gemini CLI 0.61.0, recorded"
_OPENCODE: Final = "OpenCode 1.18.33, its code"
_QWEN: Final = "Qwen Code 0.24.4, its code"
LIMITED: Final[Mapping[str, tuple[LimitPattern, ...]]] = MappingProxyType(
    {
        "claude": (
            LimitPattern("usage", r"^You've hit your ", f"{_CLAUDE_RUN}: HTTP 429 with a rejected unified limit"),
            LimitPattern("usage", r"^You've reached your |^You're out of (usage credits|extra usage)", _CLAUDE),
            LimitPattern("usage", r"^Your org is out of usage", _CLAUDE),
            LimitPattern("usage", r"^Credit balance is too low", f"{_CLAUDE_RUN}: HTTP 400"),
            LimitPattern("usage", r"^Claude (AI )?usage limit reached", "Claude Code 1.0, reported by its users"),
            LimitPattern("usage", r"^(5-hour|Weekly) limit reached", "Claude Code 2.0, reported by its users"),
            LimitPattern("overload", r"^API Error: Request rejected \(429\)", f"{_CLAUDE_RUN}: HTTP 429"),
            LimitPattern("overload", r"^API Error: (Repeated )?5\d\d\b", f"{_CLAUDE_RUN}: HTTP 500 and 529"),
        ),
        "codex": (
            LimitPattern("usage", r"^You.ve hit your usage limit", f"{_CODEX_RUN}: usage_limit_reached"),
            LimitPattern("usage", r"^Quota exceeded\. Check your plan", f"{_CODEX_RUN}: insufficient_quota"),
            LimitPattern("overload", r"^Selected model is at capacity", f"{_CODEX_RUN}: HTTP 503"),
            LimitPattern("overload", r"^exceeded retry limit, last status: (429|5\d\d)", f"{_CODEX_RUN}: HTTP 429"),
            LimitPattern("overload", r"^(Flex capacity unavailable|Policy-restricted capacity is)", _CODEX),
            LimitPattern("overload", r"^unexpected status (429|5\d\d)", _CODEX),
            LimitPattern("overload", r"^Rate limit reached for ", _CODEX),
        ),
        "gemini": (
            LimitPattern("usage", r"You have exhausted your (daily quota|capacity)", f"{_GEMINI_RUN}: PerDay"),
            LimitPattern("usage", r"^\[API Error: .*(capacity exceeded|MODEL_CAPACITY_EXHAUSTED)", _GEMINI),
            LimitPattern("overload", r"^\[API Error: .*Suggested retry after ", f"{_GEMINI_RUN}: PerMinute"),
            LimitPattern("overload", r"^\[API Error: .*(RESOURCE_EXHAUSTED|UNAVAILABLE|model is overloaded)", _GEMINI),
            LimitPattern("usage", r"^\[API Error: .*exceeded your current quota", _GEMINI),
        ),
        "opencode": (
            LimitPattern("usage", r"^You exceeded your current quota", "OpenCode 1.18.33, recorded"),
            LimitPattern("usage", r"usage limit reached\. It will reset in ", _OPENCODE),
            LimitPattern("overload", r"^(Provider is overloaded|Too Many Requests|Rate Limited)", _OPENCODE),
        ),
        "qwen": (
            LimitPattern("usage", r"Qwen OAuth quota exceeded|[Ff]ree allocated quota exceeded", _QWEN),
            LimitPattern("usage", r"^\[API Error: .*exceeded your current quota", _QWEN),
            LimitPattern("overload", r"^\[API Error: .*\b(429|5\d\d)\b", _QWEN),
        ),
    }
)
"""Coding agent → the messages by which it reports a limit, the first that fits first, each with its source."""

TABLE: Final[Mapping[str, CodingAgent]] = MappingProxyType(
    {
        "claude": CodingAgent(
            program="claude",
            limited=LIMITED["claude"],
            argv=_CLAUDE_ARGV,
            resume=(*_CLAUDE_ARGV, "--resume", "{session}"),
            codec="claude",
            model=("--model", "{model}"),
            confined=("--permission-mode", "bypassPermissions"),
            trusted=("--permission-mode", "acceptEdits"),
            mcp=McpClient(
                args=("--mcp-config={mcp_file}", "--strict-mcp-config", "--allowedTools=mcp__agenttalk"),
                # It would begin without the tools of a server that takes more than a moment to start.
                variables={
                    "MCP_CONNECTION_NONBLOCKING": "false",
                    "MCP_CONNECT_TIMEOUT_MS": "60000",
                    "MCP_TIMEOUT": "60000",
                },
                file=_servers(alwaysLoad=True),
            ),
            hook=("--settings", '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "{hook}"}]}]}}'),
            variables={
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_ERROR_REPORTING": "1",
                "DISABLE_TELEMETRY": "1",
            },
            when_confined={"IS_SANDBOX": "1"},
            handed=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"),
            login=Login(
                ".claude/.credentials.json",
                remedy="run 'claude setup-token' and set CLAUDE_CODE_OAUTH_TOKEN, set ANTHROPIC_API_KEY, or log in "
                "with 'claude'",
            ),
            going_on=frozenset({"cost_usd"}),
            denied=(r"requires approval", r"requested permissions? to", r"[Pp]ermission to use .* has been denied"),
            sessions=(".claude/projects",),
            install="npm install -g @anthropic-ai/claude-code",
        ),
        "codex": CodingAgent(
            program="codex",
            limited=LIMITED["codex"],
            argv=("exec", *_CODEX_OPTIONS, "-"),
            resume=("exec", "resume", *_CODEX_OPTIONS, "{session}", "-"),
            codec="codex",
            model=("-m", "{model}"),
            confined=("--dangerously-bypass-approvals-and-sandbox",),
            trusted=(
                *("-c", 'sandbox_mode="workspace-write"'),
                *("-c", 'sandbox_workspace_write.writable_roots=["{base}"]'),
            ),
            mcp=McpClient(args=("-c", _CODEX_SERVER)),
            variables={"CODEX_DISABLE_UPDATE_CHECK": "1"},
            handed=("OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"),
            login=Login(".codex/auth.json", remedy="set CODEX_API_KEY, or log in with 'codex login'"),
            going_on=frozenset({"tokens"}),
            denied=(r"rejected by user approval", r"rejected: blocked by policy"),
            sessions=(".codex/sessions",),
            install="npm install -g @openai/codex",
        ),
        "gemini": CodingAgent(
            program="gemini",
            limited=LIMITED["gemini"],
            argv=_GEMINI_ARGV,
            resume=(*_GEMINI_ARGV, "--resume", "{session}"),
            codec="gemini",
            model=("-m", "{model}"),
            confined=("--approval-mode", "yolo"),
            trusted=("--approval-mode", "auto_edit"),
            mcp=McpClient(
                variables={"GEMINI_CLI_SYSTEM_SETTINGS_PATH": "{mcp_file}"},
                file=_trusted(),
                settings=".gemini/settings.json",
            ),
            variables={"GEMINI_TELEMETRY_ENABLED": "false", "NO_COLOR": "1"},
            handed=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
            login=Login(
                ".gemini/oauth_creds.json",
                {".gemini/settings.json": _settings("oauth-personal")},
                "set GEMINI_API_KEY, or log in with 'gemini'",
            ),
            files={".gemini/settings.json": _settings("gemini-api-key")},
            denied=(r"denied by policy", r"policy.violation", r"[Uu]ser denied", r"[Pp]ath not in workspace"),
            sessions=(".gemini/tmp",),
            install="npm install -g @google/gemini-cli",
        ),
        "opencode": CodingAgent(
            program="opencode",
            limited=LIMITED["opencode"],
            argv=_OPENCODE_ARGV,
            resume=(*_OPENCODE_ARGV, "-s", "{session}"),
            codec="opencode",
            model=("-m", "{model}"),
            mcp=McpClient(
                variables={"OPENCODE_CONFIG": "{mcp_file}"},
                file={"mcp": {"agenttalk": {"type": "local", "command": "{server_argv}", "timeout": 60_000}}},
            ),
            variables={"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
            handed=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENCODE_CONFIG_CONTENT"),
            login=Login(
                ".local/share/opencode/auth.json", remedy="set the key of a provider, or run 'opencode auth login'"
            ),
            denied=(r"rejected permission", r"rule which prevents"),
            sessions=(".local/share/opencode",),
            install="npm install -g opencode-ai",
        ),
        "qwen": CodingAgent(
            program="qwen",
            limited=LIMITED["qwen"],
            argv=_QWEN_ARGV,
            resume=(*_QWEN_ARGV, "--resume", "{session}"),
            codec="claude",
            model=("-m", "{model}"),
            confined=("--approval-mode", "yolo"),
            trusted=("--approval-mode", "auto-edit"),
            mcp=McpClient(
                variables={"QWEN_CODE_SYSTEM_SETTINGS_PATH": "{mcp_file}", "QWEN_CODE_LEGACY_MCP_BLOCKING": "1"},
                file=_trusted(alwaysLoadTools=True),
                settings=".qwen/settings.json",
            ),
            variables={"QWEN_CODE_SUPPRESS_YOLO_WARNING": "1", "NO_COLOR": "1"},
            handed=("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL", "DASHSCOPE_API_KEY"),
            login=Login(
                ".qwen/oauth_creds.json",
                {".qwen/settings.json": _settings("qwen-oauth")},
                "set OPENAI_API_KEY, or log in with 'qwen'",
            ),
            files={".qwen/settings.json": _settings("openai")},
            going_on=frozenset({"tokens"}),
            denied=(r"requires (user )?approval", r"[Pp]ermission denied by", r"[Uu]ser denied"),
            sessions=(".qwen/projects", ".qwen/tmp"),
            install="npm install -g @qwen-code/qwen-code",
        ),
        "aider": CodingAgent(
            program="aider",
            argv=(
                *("--message-file", "{prompt_file}", "--yes-always", "--no-auto-commits", "--no-pretty", "--no-stream"),
                *("--no-check-update", "--no-show-release-notes", "--analytics-disable", "--no-gitignore"),
                *("--map-tokens", "0"),  # its map of the repository is kept in the working directory
                *("--chat-history-file", "{base}/aider.md", "--input-history-file", "{base}/aider.input"),
                *("{MODEL}", "{ARGS}"),
            ),
            codec="text",
            prompt="file",
            model=("--model", "{model}"),
            variables={"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
            handed=("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_API_BASE", "GEMINI_API_KEY"),
            acted=r"^(?P<tool>Applied edit) to (?P<about>.+)",
            failed=(r"^litellm\.\w*(Error|Exception)", r"^The API provider's servers are down", r"^Unable to \w+ "),
            counted=r"^Tokens: (?P<read>[\d.,]+k?) sent,.*?(?P<written>[\d.,]+k?) received"
            r"(?:.*Cost: \$[\d.]+ message, \$(?P<cost>[\d.]+) session)?",
            install="python -m pip install aider-chat",
        ),
        "custom": CodingAgent(
            program="",
            argv=("{ARGS}",),
            codec="text",
            mcp=McpClient(variables={"AGENTTALK_MCP_CONFIG": "{mcp_file}"}, file=_servers()),
        ),
    }
)
"""Name → entry."""


@dataclass(frozen=True, slots=True)
class RunLocation:
    """The paths and commands of a run."""

    base: str
    """The folder of the attempt, which the agent may write."""
    home: str = ""
    """A folder in it that is the agent's home; empty if it uses the user's home folder."""
    hook: str = ""
    """The shell command to run before the agent stops; empty if there is none."""
    server: tuple[str, ...] = ()
    """The command of our MCP server; empty if the agent gets none."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """How a program is started."""

    argv: tuple[str, ...]
    stdin: str
    variables: Mapping[str, str]
    own: Mapping[str, str] = field(default_factory=dict)
    """Variables for its home folder and our MCP server. They override all others."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path in the attempt's folder → content. These files are written before the start."""


def resolve_agent(use: CliUse | None, *, mcp: bool = False) -> CodingAgent:
    """Return an agent's entry with the changes of its profile. Raises ValueError with what to do.

    With `mcp` the agent has to support an MCP server.
    """
    if use is None:
        raise ValueError(f"the profile names no coding agent; add cli, one of: {', '.join(TABLE)}")
    found = TABLE.get(use.agent)
    if found is None:
        near = find_nearest(use.agent, TABLE)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(TABLE)}"
        raise ValueError(f"there is no coding agent {use.agent[:40]!r} in the table; {hint}")
    said: dict[str, Any] = {
        "program": use.program,
        "argv": use.argv,
        "resume": use.resume,
        "prompt": use.prompt,
        "codec": use.codec,
        "denied": use.denied,
        "failed": use.failed,
    }
    changed = replace(found, **{name: value for name, value in said.items() if value is not None})
    if use.argv is not None and use.resume is None:
        changed = replace(changed, resume=())  # the table's belongs to the table's argv
    if not changed.program:
        raise ValueError("a custom coding agent needs its program; add cli.program")
    changed.make_codec()
    if mcp and changed.mcp is None:
        raise ValueError(f"{use.agent} cannot use an MCP server; remove mcp")
    if mcp and any(told and "{MCP}" not in told for told in _list_mcp_arguments(changed)):
        raise ValueError("its arguments have no place for our MCP server; add {MCP} to cli.argv and cli.resume")
    return changed


def _list_mcp_arguments(agent: CodingAgent) -> tuple[tuple[str, ...], ...]:
    """Return the lists of arguments that need a placeholder for our MCP server."""
    return (agent.argv, agent.resume) if agent.mcp and agent.mcp.args else ()


def build_launch(
    agent: CodingAgent, use: CliUse | AcpUse, prompt: str, room: RunLocation, *, confined: bool, session: str = ""
) -> LaunchSpec:
    """Build the start of a run. Raises ValueError for a prompt that is too long for an argument."""
    if agent.prompt == "argument" and len(prompt.encode("utf-8", "replace")) > LONGEST_ARGUMENT:
        limit = f"{LONGEST_ARGUMENT // 1024} KiB"
        raise ValueError(f"the prompt has more than {limit}, and this agent takes it as an argument; hand over less")
    client = (agent.mcp if room.server else None) or McpClient()
    places = {
        **_server_places(room),
        "{base}": room.base,
        "{session}": session,
        "{model}": use.model or "",
        "{hook}": room.hook.replace("\\", "\\\\").replace('"', '\\"'),
        "{prompt_file}": f"{room.base}/{_PROMPT}",
        "{prompt}": prompt,  # last, so that placeholders in the prompt stay as they are
    }
    groups = {
        "{MODEL}": agent.model if use.model else (),
        "{GUARD}": agent.confined if confined else agent.trusted,
        "{MCP}": client.args,
        "{HOOK}": agent.hook if room.hook else (),
        "{ARGS}": use.args or (),
    }
    template = agent.resume if session else agent.argv
    wanted = (part for each in template for part in groups.get(each, (each,)))
    argv = (agent.program, *(_filled(part, places) for part in wanted))
    home = room.home.rpartition("/")[2]
    files = {f"{home}/{path}": text for path, text in agent.files.items()} if home else {}
    files |= {_PROMPT: prompt} if agent.prompt == "file" else {}
    variables = {**agent.variables, **(agent.when_confined if confined else {})}
    own = {"HOME": room.home} if home else {}
    if client.file:
        settings = f"{home}/{client.settings}" if home and client.settings else ""
        said = {**json.loads(files.get(settings, "{}")), **_placed(client.file, room.server)}
        files[settings or _MCP] = json.dumps(said, ensure_ascii=False)
    own |= {name: _filled(value, _server_places(room)) for name, value in client.variables.items()}
    return LaunchSpec(argv, prompt if agent.prompt == "stdin" else "", variables, own, files)


def _server_places(room: RunLocation) -> dict[str, str]:
    """Return the values of the placeholders for our MCP server. TOML reads these strings and arrays as JSON does."""
    argv = list(room.server) or [""]
    return {
        "{server_args}": json.dumps(argv[1:], ensure_ascii=False),
        "{server}": json.dumps(argv[0], ensure_ascii=False),
        "{mcp_file}": f"{room.base}/{_MCP}",
    }


def _placed(value: Any, server: tuple[str, ...]) -> Any:
    """Fill our MCP server into a document."""
    if isinstance(value, Mapping):
        return {name: _placed(each, server) for name, each in value.items()}
    meant = {"{server}": server[0], "{server_args}": server[1:], "{server_argv}": server}
    return meant.get(value, value) if isinstance(value, str) else value


def _filled(text: str, places: Mapping[str, str]) -> str:
    for name, value in places.items():
        text = text.replace(name, value)
    return text


def choose_login(agent: CodingAgent, variables: Collection[str]) -> CodingAgent:
    """Use the login of a person if the agent got no key; else leave the login out."""
    if agent.login is None or set(agent.keys).intersection(variables):
        return replace(agent, login=None)
    return replace(agent, files={**agent.files, **agent.login.files})
