"""The tables of agenttalk.toml, with their keys and defaults."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from agenttalk.contracts.agent import AcpUseSpec, CliUseSpec, Floor, ProgramLimitsSpec, Switch, Tier, normalize_cli
from agenttalk.contracts.core.base import IdText, Many, Text
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.model_use import LlmUseSpec, LocalUseSpec
from agenttalk.contracts.schedule import Schedule
from agenttalk.rules.core import redaction
from agenttalk.rules.core.http_addresses import read_allowed
from agenttalk.rules.core.isolation import IsolationSetting, IsolationSettings
from agenttalk.rules.operation.notices import NoticeEvent, NoticeFormat
from agenttalk.rules.operation.retention import KINDS, Kind, RetentionLimit

LONGEST_URL: Final = 4096
PASSWORD: Final = re.compile(r"://[^/@]*:[^/@]*@|[?&]password=", re.IGNORECASE)


class SettingsTable(BaseModel):
    """A table of the file. Unknown keys are errors.

    Tables that are not set are constructed without validation: building validators takes longer than a short command.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", defer_build=True)


class ServerSettings(SettingsTable):
    """Where the engine listens."""

    host: Text = "127.0.0.1"
    """The address to listen on. An address that other machines can reach needs `public = true`."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8083
    """The port; 0 takes a free one."""
    public: bool = False
    """Whether other machines may reach it. Every request needs a token in any case."""
    names: Many[Text] = ()
    """Additional host names of the engine, if it is public."""


def _check_url(text: str) -> str:
    if text != "sqlite" and not text.startswith(("postgresql://", "postgres://")):
        raise PydanticCustomError(Code.FIELD_VALUE, "a store is sqlite or postgresql://…")
    return text


class StoreSettings(SettingsTable):
    """Where the engine keeps its state."""

    url: Annotated[str, AfterValidator(_check_url)] = "sqlite"
    """`sqlite` for files under the root, or `postgresql://…`. A URL with a password belongs in `url_file` or in the
    variable `AGENTTALK__STORE__URL`."""
    url_file: Text | None = None
    """A file with the URL; it wins over `url`."""


class AccountSettings(SettingsTable):
    """An agent's account at a forge."""

    login: Text
    """The account's name."""
    id: Annotated[int, Field(ge=1)] | None = None
    """The account's number. It identifies the account after a rename."""
    token_env: Text | None = None
    """The variable with the account's token. The agent's program gets it for tasks of this forge."""


class AgentSettings(SettingsTable):
    """An agent. Settings here win over a plan file and over the agent's own profile."""

    name: str | None = None
    """Its name for people, and the author of its commits."""
    email: Text | None = None
    """The author's address of its commits, such as that of its account at a forge."""
    driver: Text | None = None
    """`script`, `cli`, `acp`, `llm`, `local`, `folder`, `remote` or `human`; see [drivers](plan-file.md#drivers)."""
    argv: Many[str] | None = None
    """The program and its arguments, with the driver `script`."""
    cli: Annotated[CliUseSpec, BeforeValidator(normalize_cli)] | None = None
    """The coding agent of the driver `cli`: its name, or a table; see [coding agents](coding-agents.md)."""
    llm: LlmUseSpec | None = None
    """The model and its service, of the driver `llm`: a table; see [models](models.md)."""
    local: LocalUseSpec | None = None
    """The model and its file, of the driver `local`: a table; see [models](models.md)."""
    acp: Annotated[AcpUseSpec, BeforeValidator(normalize_cli)] | None = None
    """The coding agent and its permissions, of the driver `acp`: its name, or a table; see
    [coding agents over ACP](spoken-agents.md)."""
    fallback: Text | None = None
    """The agent of the plan that does its tasks while its account waits for its provider."""
    prompt: str | None = None
    """Its role, in words."""
    skills: Many[str] | None = None
    """What it can do."""
    locale: Literal["en", "zh"] | None = None
    """The language of its prompts."""
    env: Many[Text] | None = None
    """Names of variables of the engine's environment that its program gets."""
    limits: ProgramLimitsSpec | None = None
    """Resource limits of its program: a table; see [ProgramLimits](documents.md#programlimits)."""
    sandbox: Tier | None = None
    """The sandbox of its program: `plain` (none), `landlock`, `bubblewrap`, or `best` of those that work. Default: the
    setting for all agents. A plan can demand more, never less."""
    isolation: Floor | None = None
    """`required` runs neither its program nor checks of its work without a sandbox. Default: as for all agents."""
    network: Switch | None = None
    """Whether its program may use the network: `on` (the default) or `off`, which needs a sandbox."""
    mcp: bool | None = None
    """Whether a coding agent gets AgentTalk's own MCP server in its turns."""
    forge: dict[IdText, AccountSettings] = Field(default_factory=dict)
    """Its accounts at forges, by source."""


class SourceSettings(SettingsTable):
    """A forge that sends webhooks. Secrets are in the environment or in files, never in the settings."""

    kind: ForgeKind
    """`gitea`, `forgejo` or `github`."""
    base_url: Text
    """Its address, such as `https://git.example.org`."""
    secret_env: Text | None = None
    """The variable with the secret that signs its webhooks."""
    secret_file: Text | None = None
    """A file with the secret; a relative path starts at the root."""
    token_env: Text | None = None
    """The variable with the engine's own token, which reads the forge and writes comments. No agent gets it."""
    token_file: Text | None = None
    """A file with the token."""
    login: Text | None = None
    """The name of the engine's own account, so that it recognises its own comments."""
    insecure: bool = False
    """Whether unsigned webhooks are accepted. For tests only: any sender could forge them."""
    ci_comment_patterns: dict[Text, Many[Text]] = Field(default_factory=dict)
    """For a CI service that reports in comments: its account → globs for lines that mean a failure."""
    callers: Many[Text] = ()
    """Globs for accounts whose comments and reviews create tasks although the engine cannot read that they have write
    access. Other accounts without it are ignored."""
    ci_urls: Many[Text] = ()
    """Addresses of CI services. An agent's steps name a log below one of them, or below `base_url`; any other address
    is only among the untrusted facts."""

    @property
    def files(self) -> tuple[str, ...]:
        """Files that no agent may see."""
        return tuple(each for each in (self.secret_file, self.token_file) if each)


class RiskSettings(SettingsTable):
    """The risk of a pull request, which a reviewer's task names."""

    high: Many[Text] = ()
    """Globs for paths: a change of one of them is a high risk."""


class ToolchainSettings(SettingsTable):
    """The tasks of forge events, and when they are done."""

    default_reviewer: IdText | None = None
    """The agent that reviews pull requests without a requested reviewer."""
    ops: IdText | None = None
    """The agent that gets failed deployments and outages."""
    lead: IdText | None = None
    """The agent or person that gets notices of final failures."""
    verify: Literal["observed", "report", "transition"] | None = None
    """The evidence that done needs: `observed` (the forge shows it), `report` (at least a report) or `transition` (any
    sign). Default: `observed` where the source has a token, else `transition`; see
    [verification](toolchain.md#what-each-setting-accepts)."""
    verify_patience: Annotated[int, Field(ge=0, le=86_400)] = 60
    """Seconds that a forge may be down during verification, before `ops` gets a task to restore it. The engine waits up
    to `escalate_after`; with 0 not at all."""
    settle_seconds: Annotated[int, Field(ge=0, le=600)] = 3
    """Seconds that a forge may take to show a result, before it counts as not done."""
    deploy_patterns: Many[Text] = ()
    """Globs for contexts, names and files of workflows that deploy. A failure of one becomes a `deploy_failure`."""
    repos: Many[Text] = ("*",)
    """Globs for `owner/name`. Events of other repositories are ignored."""
    risk: RiskSettings = RiskSettings.model_construct()
    """Which changes are a high risk: the table `[toolchain.risk]`."""
    remind_after: Annotated[int, Field(ge=1)] = 7200
    """Seconds without a report after which the agent is reminded."""
    escalate_after: Annotated[int, Field(ge=1)] = 21600
    """Seconds without a report after which the lead gets a notice."""
    failures: Annotated[int, Field(ge=1, le=1000)] = 3
    """Number of failures in a row after which the engine pauses requests to a forge and notifies `ops`."""
    probe_after: Annotated[int, Field(ge=1, le=600)] = 15
    """Seconds until the engine tries that forge again; doubled each time, up to ten minutes."""
    reconcile_every: Annotated[int, Field(ge=0)] = 600
    """Seconds between two reads of the forges for lost webhooks; 0: only at the start and on demand. Needs a token."""
    timeout: Annotated[int, Field(ge=1)] = 3600
    """Time limit of a turn, in seconds."""
    retry_times: Annotated[int, Field(ge=0, le=100)] = 1
    """Retries after a crash or timeout."""
    steps: dict[Text, Many[Text]] = Field(default_factory=dict)
    """Your own steps by action type, such as `ci_failure` or `review_result.APPROVED`. The step that asks for a report
    is added."""
    sections: dict[Literal["context", "constraints", "api", "promise"], Text] = Field(default_factory=dict)
    """Your own texts for sections of the prompt: `context`, `constraints`, `api` or `promise`."""


class MailSettings(SettingsTable):
    """Letters between agents and people."""

    remind_after: Annotated[int, Field(ge=1)] = 7200
    """Seconds after which the addressee of a request is reminded, at most half of its time."""
    answer_within: Annotated[int, Field(ge=1)] = 86400
    """Seconds to answer a request without a deadline."""
    timeout: Annotated[int, Field(ge=1)] = 3600
    """Time limit of a turn, in seconds."""
    retry_times: Annotated[int, Field(ge=0, le=100)] = 1
    """Retries after a crash or timeout."""
    hops: Annotated[int, Field(ge=0, le=1000)] = 10
    """How many requests agents may write to each other in a row before a person must write."""


class PeopleSettings(SettingsTable):
    """How people answer."""

    answers_by_file: bool = False
    """Whether a file `human_intervention_response_*.json` in the outbox of `agent_human_gateway` is a person's answer.
    Every program that can write there could then answer, so such answers are never more than `attested`."""


class LimitSettings(SettingsTable):
    """Limits of the whole engine."""

    payload_mib: Annotated[int, Field(ge=1, le=65536)] = 256
    """Largest payload file, in MiB."""
    max_running: Annotated[int, Field(ge=1, le=1000)] = 8
    """How many programs of agents run at the same time."""
    poll_interval_seconds: Annotated[int, Field(ge=1, le=3600)] = 10
    """Seconds between two polls of a heartbeat: half as many when it is busy, three times as many when it is idle."""
    remote_silence_seconds: Annotated[int, Field(ge=1, le=86_400)] = 120
    """Seconds without a heartbeat after which a remote agent loses its task, which is then offered again."""
    worker_ttl_seconds: Annotated[int, Field(ge=1, le=3600)] = 30
    """Seconds after which a worker that does not reach its engine ends what it runs. After half as long again its tasks
    are offered to other workers."""
    worker_wait_minutes: Annotated[int, Field(ge=0, le=100_000)] = 10
    """Minutes after which a task that no worker has taken raises an alert; 0: never."""
    worker_snapshot_seconds: Annotated[int, Field(ge=0, le=86_400)] = 180
    """Seconds between two snapshots of the tree that an agent on a worker has; 0: none. When its attempt is lost, the
    next one begins with the last snapshot."""
    cost_usd_per_day: Annotated[float, Field(gt=0, strict=False)] | None = None
    """US dollars that all agents together may spend per day (UTC), as far as they report it."""
    max_new_messages_per_tick: Annotated[int, Field(ge=1, le=10_000)] = 50
    """How many new messages of a plan a heartbeat takes at once."""
    max_resume_messages_per_tick: Annotated[int, Field(ge=1, le=10_000)] = 10
    """How many waiting commands of a plan it checks at once."""
    hops: Annotated[int, Field(ge=0, le=100)] = 4
    """How often agents may answer agents in one issue or pull request before a person is asked."""
    review_rounds: Annotated[int, Field(ge=1, le=100)] = 5
    """How often agents may send a pull request back and forth between author and reviewer before a person decides."""
    comments_per_object_per_hour: Annotated[int, Field(ge=1, le=10_000)] = 20
    """How many comments the engine writes into one issue or pull request in an hour."""


class FolderSettings(SettingsTable):
    """Trust in the folders of plans that the engine does not run."""

    unrouted: Literal["wait", "run"] = "wait"
    """What happens to a message in an inbox that no known router delivered: it waits, or it is worked anyway. A router
    is known by the store, or by its line in the plan's `deliveries.jsonl`."""


class KeepSettings(SettingsTable):
    """How much of one kind of leftovers is kept; KIND is `clones`, `workspaces`, `blobs` or `transcripts`."""

    keep_days: Annotated[int, Field(ge=0, le=36_500)] | None = None
    """Days for which it is kept. Default: those of `[gc]`."""
    max_bytes: Annotated[int, Field(ge=0)] | None = None
    """The most bytes that are kept; the oldest are removed first."""


class GcSettings(SettingsTable):
    """What `agenttalk gc` removes. It never removes what an open plan needs, or what a ledger or a release names."""

    every_hours: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Hours between two automatic runs in `agenttalk serve`, the first at its start; 0: never."""
    keep_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    """Days for which everything is kept after its plan has ended."""
    clones: KeepSettings = KeepSettings.model_construct()
    """Private clones, sealed checkouts and prepared environments."""
    workspaces: KeepSettings = KeepSettings.model_construct()
    """Folders in which agents worked, with those of their attempts."""
    blobs: KeepSettings = KeepSettings.model_construct()
    """Large contents without a reference. Those younger than a day always stay."""
    transcripts: KeepSettings = KeepSettings.model_construct()
    """Events of coding agents, and the prompts that agents got."""

    @property
    def keeps(self) -> dict[Kind, RetentionLimit]:
        """The settings for each kind."""
        said: dict[Kind, KeepSettings] = {kind: getattr(self, kind) for kind in KINDS}
        return {
            kind: RetentionLimit(self.keep_days if each.keep_days is None else each.keep_days, each.max_bytes)
            for kind, each in said.items()
        }


class LogSettings(SettingsTable):
    """The log of `agenttalk serve` on standard error."""

    format: Literal["console", "json"] = "console"
    """`console` for people, or `json`: one JSON object per line."""
    level: Literal["debug", "info", "warning", "error"] = "warning"
    """The least level: `debug`, `info`, `warning` or `error`."""


def _check_address(text: str) -> str:
    try:
        read_allowed(text)
    except UsageError as error:
        raise PydanticCustomError(Code.FIELD_VALUE, "{why}", {"why": error.message}) from error
    return text


def _check_web(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise PydanticCustomError(Code.FIELD_VALUE, "this is not an http:// or https:// address")
    return text


class NotifySettings(SettingsTable):
    """An address that gets notices of what happens; see [how to be notified](../howto/be-notified.md)."""

    url: Annotated[Text, AfterValidator(_check_web)] | None = None
    """The address. One that is a secret itself, like those of Slack, belongs in `url_env`."""
    url_env: Text | None = None
    """The variable with the address."""
    kind: NoticeFormat = "cloudevents"
    """`cloudevents`, or `slack` for Slack, Mattermost and others with the same format."""
    events: Many[NoticeEvent] = get_args(NoticeEvent)
    """Which events are sent. Default: all of them."""
    secret_env: Text | None = None
    """The variable with the secret that signs notices, as Standard Webhooks describes it."""
    allow: Many[Annotated[Text, AfterValidator(_check_address)]] = ()
    """Addresses that are allowed although they are not public, such as `127.0.0.1:8080` or `10.0.0.0/8`."""

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if (self.url is None) == (self.url_env is None):
            raise PydanticCustomError(Code.FIELD_MISSING, "give url or url_env")
        return self


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        said = "there is no time zone {name} on this machine"
        raise PydanticCustomError(Code.FIELD_VALUE, said, {"name": repr(name[:80])}) from error
    return name


class CheckSettings(SettingsTable):
    """How checks run, and how checkouts are prepared for them. No plan can change this."""

    sandbox: Tier = "best"
    """The sandbox of commands: `landlock`, `bubblewrap`, or `best` of those that work; `plain` uses no sandbox."""
    network: Switch = "off"
    """Whether commands of checks may use the network."""
    prepare_network: Switch = "on"
    """Whether `workspace.prepare` may use the network, which it usually needs to install packages."""
    allow: Many[Annotated[Text, AfterValidator(_check_address)]] = ()
    """Addresses that `http` checks may use although they are not public, such as `127.0.0.1:8080` or
    `10.0.0.0/8`."""
    pool: IdText | None = None
    """The pool of verifiers that make the checks that run a program of the work. Without it the engine's own machine
    does; see [how to run agents on other machines](../howto/run-workers.md)."""
    double: bool = False
    """Whether two verifiers on two machines have to agree."""

    @model_validator(mode="after")
    def _check_double(self) -> Self:
        if self.double and self.pool is None:
            raise PydanticCustomError(Code.FIELD_VALUE, "double needs a pool of verifiers")
        return self


class TelemetrySettings(SettingsTable):
    """A tracing system that gets spans by OTLP over HTTP; see [how to trace plans](../howto/trace-plans.md)."""

    endpoint: Annotated[Text, AfterValidator(_check_web)] | None = None
    """The address of its collector, such as `http://127.0.0.1:4318`. Without it nothing is sent."""
    headers_env: Text | None = None
    """The variable with additional headers, as `name=value,name=value`."""
    headers_file: Text | None = None
    """A file with additional headers."""
    service_name: Text = "agenttalk"
    """The name of the engine there."""
    content: bool = False
    """Whether texts are sent: results, reasons, and messages of checks and validators. Prompts are never sent."""

    @property
    def traces_url(self) -> str:
        """The address for spans; empty if none are sent."""
        base = (self.endpoint or "").rstrip("/")
        return base if not base or base.endswith("/v1/traces") else f"{base}/v1/traces"

    @model_validator(mode="after")
    def _check_headers(self) -> Self:
        if self.headers_env is not None and self.headers_file is not None:
            raise PydanticCustomError(Code.FIELD_VALUE, "give headers_env or headers_file, not both")
        return self


class ScheduleSettings(Schedule):
    """A schedule of a plan file, or of a prompt for an agent."""

    timezone: Annotated[Text, AfterValidator(_check_zone)] = "UTC"
    """The time zone, such as `Europe/Berlin`."""


class Settings(SettingsTable):
    """All settings."""

    locale: Literal["en", "zh"] = "en"
    """The language of prompts, `en` or `zh`, for agents without their own `locale`."""
    sandbox: Tier | None = None
    """The sandbox of agents' programs: `best` of the sandboxes that work (the default), `bubblewrap`, `landlock`, or
    `plain`: none, which every view of their work shows. Plans can demand more, never less."""
    isolation: Floor | None = None
    """The least isolation of agents and checks: `best` uses the best sandbox that works (the default), and `required`
    runs nothing without a sandbox (the default if `sandbox` names one)."""
    server: ServerSettings = ServerSettings.model_construct()
    """Where the engine listens."""
    store: StoreSettings = StoreSettings.model_construct()
    """Where the engine keeps its state."""
    agents: dict[IdText, AgentSettings] = Field(default_factory=dict)
    """Agents by their id."""
    sources: dict[IdText, SourceSettings] = Field(default_factory=dict)
    """Forges by a name of your own; their webhooks go to `/api/webhooks/NAME`."""
    toolchain: ToolchainSettings = ToolchainSettings.model_construct()
    """The tasks of forge events."""
    mail: MailSettings = MailSettings.model_construct()
    """Letters between agents and people."""
    people: PeopleSettings = PeopleSettings.model_construct()
    """How people answer."""
    limits: LimitSettings = LimitSettings.model_construct()
    """Limits of the engine."""
    checks: CheckSettings = CheckSettings.model_construct()
    """How checks run."""
    folders: FolderSettings = FolderSettings.model_construct()
    """Plans in folders."""
    gc: GcSettings = GcSettings.model_construct()
    """What is removed of the files that plans leave behind."""
    log: LogSettings = LogSettings.model_construct()
    """The log on standard error."""
    notify: dict[IdText, NotifySettings] = Field(default_factory=dict)
    """Receivers of notices, by a name of your own."""
    telemetry: TelemetrySettings = TelemetrySettings.model_construct()
    """The tracing system that gets spans."""
    schedules: dict[IdText, ScheduleSettings] = Field(default_factory=dict)
    """Schedules, by a name of your own."""

    def profile_of(self, agent_id: str, said: Mapping[str, Any]) -> dict[str, Any]:
        """Return an agent's profile: the settings of the agent, else its own profile, else the settings for all."""
        agent = self.agents.get(agent_id)
        if agent is None:
            return {"locale": self.locale, **said}
        own = agent.model_dump(mode="json", exclude_none=True, exclude={"forge", "sandbox", "isolation"})
        return {"locale": self.locale, **said, **own}

    def with_sandbox(self, sandbox: Tier | None) -> Self:
        """Return the settings with another sandbox for all agents, if one is named."""
        if sandbox is None:
            return self
        agents = {name: each.model_copy(update={"sandbox": None}) for name, each in self.agents.items()}
        return self.model_copy(update={"sandbox": sandbox, "agents": agents})

    @property
    def isolation_words(self) -> IsolationSettings:
        """The settings of isolation. Profiles do not contain them: they can only demand more."""
        agents = {name: IsolationSetting(each.sandbox, each.isolation) for name, each in self.agents.items()}
        return IsolationSettings(IsolationSetting(self.sandbox, self.isolation), agents)

    def read_secrets(self, root: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
        """Read every secret that is named here, by its variable or key. Those that cannot be read are left out.

        A key that ends in `_env` names a variable, one that ends in `_file` a file. Variables of agents
        count if they look like secrets.
        """
        environ = os.environ if environ is None else environ
        found: dict[str, str] = {}
        for key, named in _named(self):
            value = environ.get(named, "") if key.endswith("_env") else _content(root / named)
            found[named if key.endswith("_env") else key] = value.strip()
        handed = {name: environ.get(name, "") for each in self.agents.values() for name in each.env or ()}
        found |= {name: value for name, value in handed.items() if redaction.is_secret(name, value)}
        if PASSWORD.search(self.store.url):
            found |= {"store.url": self.store.url, "the store's password": urlsplit(self.store.url).password or ""}
        return {name: value for name, value in found.items() if value}

    @property
    def store_url(self) -> str:
        """The URL of the store; empty for SQLite."""
        return "" if self.store.url == "sqlite" else self.store.url


def _named(value: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Keys that name where a secret is, and what they name."""
    for key, each in dict(value).items() if isinstance(value, BaseModel | dict) else ():
        path = f"{above}.{key}" if above else key
        if isinstance(each, str) and key.endswith(("_env", "_file")):
            yield path, each
        yield from _named(each, path)


def _content(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_URL).decode("utf-8", "replace")
    except OSError:
        return ""
