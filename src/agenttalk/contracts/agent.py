"""The agent's profile: its role and its driver."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from agenttalk.contracts.core.base import AgentIdText, Document, IdText, Many, Part, Positive, Text
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.model_use import MODEL_DRIVERS, LlmUse, LocalUse, Prices, PricesSpec

Tier = Literal["plain", "landlock", "bubblewrap", "best"]
"""How a program is confined; `best` is the best of the others that works where it runs."""
NAMED_TIERS: Final[frozenset[Tier]] = frozenset({"landlock", "bubblewrap"})
"""Tiers that name one sandbox, which no other replaces."""
Floor = Literal["best", "required"]
"""The least isolation: the best that works here, or a sandbox in any case."""
Switch = Literal["on", "off"]


class ProgramLimits(Part):
    """Resource limits of an agent's program: per process, and for all processes together. The command limits time."""

    memory_mib: Positive | None = None
    """Memory per process, in MiB of address space. It also limits all processes together, unless `total_memory_mib` is
    set."""
    total_memory_mib: Positive | None = None
    """Memory of all processes together, in MiB. Shared memory counts once, and cached pages of files do not count."""
    cpu_seconds: Positive | None = None
    """CPU seconds per process."""
    file_mib: Positive | None = None
    """Largest file that a process may write, in MiB. By default the limit of all files together."""
    open_files: Positive | None = None
    """Open files and sockets per process."""
    disk_mib: Positive | None = None
    """Disk space of all its files, in MiB: those of the attempt, of its working directory, and temporary ones. Default:
    20,480."""
    files: Positive | None = None
    """Number of its files and folders. Default: 1,000,000."""
    processes: Positive | None = None
    """Processes and threads at the same time. Default: 4,096."""
    output_mib: Positive | None = None
    """Total output that it prints, in MiB. Default: 1,024."""


class ProgramLimitsSpec(ProgramLimits, extra="forbid"):
    """Resource limits of an agent's program, as a person writes them: unknown keys are errors."""


PromptBy = Literal["stdin", "argument", "file"]
"""How a program gets its prompt."""


class CliUse(Part):
    """A coding agent of the driver `cli`, and its deviations from the table of coding agents."""

    agent: Text
    """Its name in the table: `claude`, `codex`, `gemini`, `opencode`, `qwen`, `aider`, or `custom` for any other."""
    model: Text | None = None
    """The model to use."""
    args: Many[str] | None = None
    """Additional arguments."""
    program: Text | None = None
    """The program, if it is not found by its usual name."""
    argv: Many[str] | None = None
    """Its arguments, instead of those in the table."""
    resume: Many[str] | None = None
    """Its arguments when it resumes a session."""
    prompt: PromptBy | None = None
    """How it gets its prompt: `stdin`, `argument` or `file`."""
    codec: Text | None = None
    """How its output is read: `text`, `claude`, `codex`, `gemini` or `opencode`."""
    denied: Many[Text] | None = None
    """Patterns of its output when an action was not permitted."""
    failed: Many[Text] | None = None
    """Patterns of its output when it failed."""
    prices: Prices | None = None
    """The price of its model, for budgets in dollars. Without it, only the prices of well-known models are known."""


class CliUseSpec(CliUse, extra="forbid"):
    """A coding agent of the driver `cli`, as a person writes it: unknown keys are errors."""

    prices: PricesSpec | None = None
    """The price of its model, for budgets in dollars: a table."""


def normalize_cli(value: object) -> object:
    """Turn the bare name of a coding agent into an object."""
    return {"agent": value} if isinstance(value, str) else value


AnyCliUse = Annotated[CliUse, BeforeValidator(normalize_cli)]
"""The same; a name alone is enough."""


class AcpUse(Part):
    """A coding agent of the driver `acp` (Agent Client Protocol), and its permissions.

    Permissions are patterns: a kind of tool (`read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`,
    `think`, `switch_mode`, `other`, or `*`), optionally followed by a colon and a glob for its argument, e.g.
    `execute:git *` or `edit:docs/**`.
    """

    agent: Text
    """Its name in the table: `claude`, `codex`, `gemini`, `opencode`, `qwen`, or `custom` for any other."""
    model: Text | None = None
    """The model to use."""
    args: Many[str] | None = None
    """Additional arguments."""
    program: Text | None = None
    """The program, if it is not found by its usual name."""
    argv: Many[str] | None = None
    """Its arguments, instead of those in the table."""
    mode: Text | None = None
    """The mode of its sessions, instead of its default mode."""
    allow: Many[Text] | None = None
    """What it may do. Default: everything inside our sandbox; without a sandbox, read and change files."""
    deny: Many[Text] = ()
    """What it must not do. This wins over the other lists."""
    ask: Many[Text] = ()
    """What needs the permission of a person."""
    otherwise: Literal["refuse", "ask"] = "refuse"
    """What happens to all other requests: `refuse`, or `ask` a person."""
    start_seconds: Positive = 120
    """Time limit in seconds until it is ready for its prompt."""
    prices: Prices | None = None
    """The price of its model, for budgets in dollars."""


class AcpUseSpec(AcpUse, extra="forbid"):
    """A coding agent of the driver `acp`, as a person writes it: unknown keys are errors."""

    prices: PricesSpec | None = None
    """The price of its model, for budgets in dollars: a table."""


class AgentProfile(Document):
    """An agent (`agent_profile.json`): its role, its program, and what the program may see."""

    agent_id: AgentIdText
    """The agent; the name of its folder."""
    name: str | None = None
    """Its name, for people."""
    email: Text | None = None
    """The author's address of its commits. Default: `<agent_id>@agenttalk.invalid`."""
    driver: Text = "folder"
    """How it is driven: `script` starts `argv`, `cli` and `acp` start a coding agent, `llm` and `local` ask a model,
    `human` asks a person, `remote` runs on another machine and claims its tasks, `folder` works through its folders
    and is not started, and `python` is a function of the program that runs the plan."""
    argv: Many[str] = ()
    """The program and its arguments. A relative path of a file in the agent's folder means that file."""
    cli: AnyCliUse | None = None
    """The coding agent of the driver `cli`."""
    llm: LlmUse | None = None
    """The model and its service, of the driver `llm`."""
    local: LocalUse | None = None
    """The model and its file, of the driver `local`."""
    acp: Annotated[AcpUse, BeforeValidator(normalize_cli)] | None = None
    """The coding agent and its permissions, of the driver `acp`."""
    fallback: AgentIdText | None = None
    """The agent that does its tasks while its account waits, because a limit of its provider is reached."""
    prompt: str | None = None
    """Its role, in words."""
    skills: Many[str] = ()
    """What it can do."""
    inputs: Many[str] = ()
    """Inputs that it handles."""
    outputs: Many[str] = ()
    """Outputs that it makes."""
    locale: Locale = "en"
    """The language of the prompts that it gets."""
    env: Annotated[Many[Text], Field(max_length=100)] = ()
    """Names of our environment variables that its program gets, never those that begin with AGENTTALK."""
    limits: ProgramLimits | None = None
    """Resource limits of its program."""
    sandbox: Tier | None = None
    """The sandbox of its program: `landlock`, `bubblewrap`, or `best` of those that work, which is the default.
    `plain`, no sandbox, needs the operator's permission."""
    isolation: Floor | None = None
    """The least isolation of its program and of the checks of its work: `best` uses the best sandbox that works, and
    `required`, the default when `sandbox` names a sandbox, runs nothing without one."""
    network: Switch = "on"
    """Whether its program may use the network; `off` leaves it the socket AGENTTALK_SOCKET, and needs a sandbox."""
    mcp: bool = False
    """Whether a coding agent, of the driver `cli` or `acp`, gets our MCP server, with the attempt's own token."""
    self_assessment: bool = False
    """Whether it first judges its fitness for a command, and may return it."""
    pool: IdText | None = None
    """The pool of workers whose machines run it. Without one it runs where its engine does."""
    needs: Many[IdText] = ()
    """Labels that a worker has to have to run it, such as `gpu`."""
    worker_ttl_seconds: Positive | None = None
    """Seconds for which its attempt goes on while its worker does not reach the engine. After half as long again it is
    lost. Default: `limits.worker_ttl_seconds` of the settings."""

    @property
    def model(self) -> str:
        """The model that it uses; empty when none is set."""
        use = self.llm or self.cli or self.acp
        return (use.model if use is not None else None) or ""

    @property
    def is_elsewhere(self) -> bool:
        """Whether it works on another machine than its engine."""
        return self.driver == "remote" or self.pool is not None

    @property
    def performer(self) -> str:
        """The driver by which its engine has its tasks done: those of a pool are offered to workers."""
        return "remote" if self.pool is not None else self.driver

    @property
    def result_by(self) -> Literal["file", "message", "answer"]:
        """How it returns its result: coding agents in their last message, models in their one answer."""
        if self.driver in MODEL_DRIVERS:
            return "answer"
        return "message" if self.driver in {"cli", "acp"} else "file"

    @property
    def has_tools(self) -> bool:
        """Whether it gets our MCP server: only coding agents do."""
        return self.mcp and self.driver in {"cli", "acp"}

    @property
    def tier(self) -> Tier:
        """The sandbox of its program."""
        return self.sandbox or "best"

    @property
    def isolated_only(self) -> bool:
        """Whether its program runs only in a sandbox."""
        return self.isolation == "required" or (self.isolation is None and self.sandbox in NAMED_TIERS)
