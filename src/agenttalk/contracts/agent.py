"""The agent's profile: who it is and how it is driven."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from agenttalk.contracts.core.base import AgentIdText, Document, Many, Part, Positive, Text
from agenttalk.contracts.model_use import MODEL_DRIVERS, LlmUse, LocalUse, Prices

Locale = Literal["en", "zh"]
Tier = Literal["plain", "landlock", "bubblewrap", "best"]
"""How a program is confined; `best` is the best of the others that works where it runs."""
NAMED_TIERS: Final[frozenset[Tier]] = frozenset({"landlock", "bubblewrap"})
"""Those that are one sandbox, and never replaced by another."""
Floor = Literal["best", "required"]
"""The least isolation: the best that works here, or a sandbox in any case."""
Switch = Literal["on", "off"]


class ProgramLimits(Part):
    """What an agent's program may use: each of its processes, and all of them together. The command limits time."""

    memory_mib: Positive | None = None
    """Memory of each process, in MiB of address space; all together may use no more either, unless
    `total_memory_mib` says otherwise."""
    total_memory_mib: Positive | None = None
    """Memory that all processes use together, in MiB; what they share counts once, and pages of files not at all."""
    cpu_seconds: Positive | None = None
    """Time of each process on a processor."""
    file_mib: Positive | None = None
    """Size of a file that a process writes, in MiB; without it, as much as all files together may have."""
    open_files: Positive | None = None
    """Files and sockets that a process has open at once."""
    disk_mib: Positive | None = None
    """Disk that its files take together, in MiB: its attempt's, its working directory's, temporary ones. 20,480 if
    nothing is said."""
    files: Positive | None = None
    """How many files and folders they are; a million if nothing is said."""
    processes: Positive | None = None
    """Processes and threads at once; 4,096 if nothing is said."""
    output_mib: Positive | None = None
    """What it prints in all, in MiB; 1,024 if nothing is said."""


PromptBy = Literal["stdin", "argument", "file"]
"""How a program is given its prompt."""


class CliUse(Part):
    """Which coding agent an agent is, and what is said of it otherwise than in the table of coding agents."""

    agent: Text
    """Its name in the table: `claude`, `codex`, `gemini`, `opencode`, `qwen`, `aider`, or `custom` for any other."""
    model: Text | None = None
    """The model that it is to use."""
    args: Many[str] | None = None
    """Further arguments."""
    program: Text | None = None
    """The program, where it is not found by its usual name."""
    argv: Many[str] | None = None
    """Its arguments, in place of those of the table."""
    resume: Many[str] | None = None
    """Its arguments when it resumes a session."""
    prompt: PromptBy | None = None
    """How it is given its prompt: `stdin`, `argument` or `file`."""
    codec: Text | None = None
    """How its output is read: `text`, `claude`, `codex`, `gemini` or `opencode`."""
    denied: Many[Text] | None = None
    """Patterns for what it prints when it was not permitted to do something."""
    failed: Many[Text] | None = None
    """Patterns for what it prints when it failed."""
    prices: Prices | None = None
    """What its model costs, for budgets in dollars. Without it a price is known of well-known models only."""


def normalize_cli(value: object) -> object:
    """A coding agent that is named by its name alone, as an object."""
    return {"agent": value} if isinstance(value, str) else value


AnyCliUse = Annotated[CliUse, BeforeValidator(normalize_cli)]
"""The same; a name alone is enough."""


class AcpUse(Part):
    """Which coding agent an agent is that speaks the Agent Client Protocol, and what it may do.

    What it may do is said by patterns: a kind of tool (`read`, `edit`, `delete`, `move`, `search`, `execute`, `fetch`,
    `think`, `switch_mode`, `other`, or `*`), and after a colon, if need be, a glob for what it is called for, e.g.
    `execute:git *` or `edit:docs/**`.
    """

    agent: Text
    """Its name in the table: `claude`, `codex`, `gemini`, `opencode`, `qwen`, or `custom` for any other."""
    model: Text | None = None
    """The model that it is to use."""
    args: Many[str] | None = None
    """Further arguments."""
    program: Text | None = None
    """The program, where it is not found by its usual name."""
    argv: Many[str] | None = None
    """Its arguments, in place of those of the table."""
    mode: Text | None = None
    """The mode of its sessions, if not the one that it takes itself."""
    allow: Many[Text] | None = None
    """What it may do. Without it: everything in a sandbox of ours; where there is none, reading and changing files."""
    deny: Many[Text] = ()
    """What it must not do, whatever else is said."""
    ask: Many[Text] = ()
    """What a person is asked about."""
    otherwise: Literal["refuse", "ask"] = "refuse"
    """What happens to anything else: `refuse`, or `ask` a person."""
    start_seconds: Positive = 120
    """Seconds in which it must be ready for its prompt."""
    prices: Prices | None = None
    """What its model costs, for budgets in dollars."""


class AgentProfile(Document):
    """An agent (`agent_profile.json`): its role, its program, and what the program may see."""

    agent_id: AgentIdText
    """The agent; the name of its folder."""
    name: str | None = None
    """What people call it."""
    email: Text | None = None
    """The address of the commits that hold its work; without it `<agent_id>@agenttalk.invalid`."""
    driver: Text = "folder"
    """How it is driven: `script` starts `argv`, `cli` and `acp` start a coding agent, `llm` and `local` ask a model,
    `human` asks a person, `remote` works elsewhere and comes for its tasks, `folder` is started by nobody, and `python`
    is a function of the program that runs the plan."""
    argv: Many[str] = ()
    """The program and its arguments. A relative path that lies in the agent's folder means that file."""
    cli: AnyCliUse | None = None
    """Which coding agent it is, with the driver `cli`."""
    llm: LlmUse | None = None
    """Which model it is and where that is asked, with the driver `llm`."""
    local: LocalUse | None = None
    """Which model it is and where its file lies, with the driver `local`."""
    acp: Annotated[AcpUse, BeforeValidator(normalize_cli)] | None = None
    """Which coding agent it is and what it may do, with the driver `acp`."""
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
    """Names of variables of ours that its program gets. Never those that begin with AGENTTALK."""
    limits: ProgramLimits | None = None
    """What its program may use."""
    sandbox: Tier | None = None
    """How its program is confined: `landlock`, `bubblewrap`, or `best` of those that work, which is meant when nothing
    is said. `plain`, not at all, needs the operator's word."""
    isolation: Floor | None = None
    """The least isolation of its program and of the checks of its work: `best` runs them as well as it goes, and
    `required` runs nothing without a sandbox, which is meant when `sandbox` names one."""
    network: Switch = "on"
    """Whether its program may use the network; `off` leaves it the socket AGENTTALK_SOCKET, and needs a sandbox."""
    mcp: bool = False
    """Whether a coding agent, of the driver `cli` or `acp`, is given our MCP server, with the attempt's own token."""
    self_assessment: bool = False
    """Whether it judges first how fit it is for a command, and may return it."""

    @property
    def model(self) -> str:
        """The model that it is told to use; empty when nobody says which."""
        use = self.llm or self.cli or self.acp
        return (use.model if use is not None else None) or ""

    @property
    def result_by(self) -> Literal["file", "message", "answer"]:
        """How it hands over its result: coding agents say it in their last message, models in their one answer."""
        if self.driver in MODEL_DRIVERS:
            return "answer"
        return "message" if self.driver in {"cli", "acp"} else "file"

    @property
    def has_tools(self) -> bool:
        """Whether it is given our MCP server: only coding agents are."""
        return self.mcp and self.driver in {"cli", "acp"}

    @property
    def tier(self) -> Tier:
        """How its program is confined."""
        return self.sandbox or "best"

    @property
    def isolated_only(self) -> bool:
        """Whether nothing of it runs without a sandbox."""
        return self.isolation == "required" or (self.isolation is None and self.sandbox in NAMED_TIERS)
