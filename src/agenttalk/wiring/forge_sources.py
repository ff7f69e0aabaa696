"""Makes the forges of the settings: sources of webhooks, the accounts of agents, and clients that read."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.forge import fields, webhooks
from agenttalk.adapters.forge.read_back import ReadBack
from agenttalk.adapters.forge.webhooks import IgnoredDelivery
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.errors import Code, ForgeError, UsageError
from agenttalk.contracts.forge import ForgeEvent, ForgeUser, Repository, Review
from agenttalk.contracts.plan import Policies
from agenttalk.contracts.toolchain import ProposedTask
from agenttalk.engine.mail.task_kind import MailTaskKind
from agenttalk.engine.toolchain import failures
from agenttalk.engine.toolchain.board import ToolchainLimits, ToolchainSetup
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind, VerificationMode
from agenttalk.ports.forge import EventSource, Forge, Headers
from agenttalk.ports.kinds import TaskKind
from agenttalk.rules.core import risk
from agenttalk.rules.prompts.toolchain_steps import FailedJob, ForgeAddresses, ForgeContent, ReviewPoint, StepStyle
from agenttalk.rules.toolchain.accounts import CiComment, ForgeIdentity, ForgeRegistry, same_user
from agenttalk.rules.toolchain.proposal import Lookup
from agenttalk.wiring import task_kinds as kinds
from agenttalk.wiring.settings.mail import mail_rules
from agenttalk.wiring.settings.tables import Settings, SourceSettings

LOG = logging.getLogger(__name__)
_LONGEST_SECRET: Final = 4096
GATHER: Final = 15.0
"""Seconds that reading the forge may take before a task is made without its answers."""
_SENT_BACK: Final = 2
"""How often a task goes back to its agent: the third failure reaches the lead."""
_BELIEVED: Final = 60.0
"""Seconds for which the engine remembers whether an account has write access."""
_REMEMBERED: Final = 1_000
_REVIEWED: Final = frozenset({"review_result", "review_comment"})


@dataclass(frozen=True, slots=True)
class ConfiguredSource:
    """A configured source. Implements `EventSource`."""

    name: str
    kind: ForgeKind
    api_url: str
    secret: str = field(repr=False)
    insecure: bool = False
    web: str = ""
    """The address of its web pages."""

    def refusal(self, headers: Headers, body: bytes) -> str:
        """Explain why a delivery is not genuine. A source that has a secret always checks it."""
        if self.insecure and not self.secret:
            return ""
        found = webhooks.check_signature(self.kind, headers, body, self.secret)
        return "" if found.good else found.reason

    def signing(self, headers: Headers) -> webhooks.StreamedSignature | None:
        """Start the signature check of a delivery while its body is read; None where no signature is required."""
        if self.insecure and not self.secret:
            return None
        return webhooks.StreamedSignature(self.kind, headers, self.secret)

    def label(self, headers: Headers) -> tuple[str, str]:
        """Read the forge's number of a delivery and the forge's name of the event."""
        return webhooks.read_label(self.kind, headers)

    def read(self, headers: Headers, body: bytes) -> ForgeEvent | IgnoredDelivery:
        """Read the event. Relative addresses that a forge writes are made absolute."""
        found = webhooks.read_delivery(self.name, self.kind, headers, body)
        return found if isinstance(found, IgnoredDelivery) else fields.complete_log_url(found, self.web or self.api_url)


def make_sources(root: Path, settings: Settings, environ: Mapping[str, str] = os.environ) -> dict[str, EventSource]:
    """Make the configured sources. Raises UsageError for one with neither a secret nor `insecure = true`."""
    found: dict[str, EventSource] = {}
    for name, said in settings.sources.items():
        secret = read_secret(root, said.secret_env, said.secret_file, environ, f"sources.{name}.secret")
        if not secret and not said.insecure:
            raise UsageError(
                Code.FIELD_MISSING,
                f"the source {name!r} has no secret, so any sender could forge webhooks",
                hint=f"set sources.{name}.secret_env or secret_file; on a test bench only, insecure = true",
            )
        found[name] = ConfiguredSource(name, said.kind, api_url_of(said), secret, said.insecure, said.base_url)
    return found


def api_url_of(said: SourceSettings) -> str:
    """Return the address of a source's API."""
    base = said.base_url.rstrip("/")
    if said.kind != "github":
        return f"{base}/api/v1"
    return "https://api.github.com" if base in {"https://github.com", "https://api.github.com"} else f"{base}/api/v3"


def read_secret(root: Path, variable: str | None, file: str | None, environ: Mapping[str, str], what: str) -> str:
    """Read a secret from a variable or a file; empty when neither is named. Raises UsageError if it cannot be read."""
    if variable is not None:
        value = environ.get(variable, "").strip()
        if not value:
            raise UsageError(Code.FIELD_VALUE, f"the variable {variable}, which {what}_env names, is not set")
        return value
    if file is None:
        return ""
    path = root / file
    try:
        with path.open("rb") as stream:
            text = stream.read(_LONGEST_SECRET + 1).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Code.FILE_UNREADABLE, f"cannot read {path}, which {what}_file names") from error
    if not text or len(text) > _LONGEST_SECRET:
        raise UsageError(Code.FIELD_VALUE, f"{path} holds no secret")
    return text


def build_registry(settings: Settings) -> ForgeRegistry:
    """Map accounts to agents, and events to tasks. Raises UsageError for an unknown agent or source."""
    said = settings.toolchain
    for role, agent in (("default_reviewer", said.default_reviewer), ("ops", said.ops), ("lead", said.lead)):
        if agent is not None and agent not in settings.agents:
            hint = f"add [agents.{agent}], or name one of: {', '.join(sorted(settings.agents)) or 'none'}"
            raise UsageError(Code.NAME_UNKNOWN, f"toolchain.{role} names {agent!r}, which is not an agent", hint=hint)
    identities = []
    for agent, each in settings.agents.items():
        for source, account in each.forge.items():
            if source not in settings.sources:
                hint = f"there are: {', '.join(sorted(settings.sources)) or 'none'}"
                raise UsageError(
                    Code.NAME_UNKNOWN, f"agents.{agent}.forge names {source!r}, which is not a source", hint=hint
                )
            identities.append(ForgeIdentity(agent, source, account.login, account.id))
    _require_apart(identities, {name: each.login for name, each in settings.sources.items() if each.login})
    comments = [
        CiComment(name, pattern, login)
        for name, source in settings.sources.items()
        for login, patterns in source.ci_comment_patterns.items()
        for pattern in patterns
    ]
    return ForgeRegistry(
        identities=tuple(identities),
        default_reviewer=said.default_reviewer,
        ops=said.ops,
        lead=said.lead,
        repositories=said.repos,
        deploy_patterns=said.deploy_patterns,
        ci_comments=tuple(comments),
        high_risk=said.risk.high,
        engines={name: each.login for name, each in settings.sources.items() if each.login},
        callers={name: each.callers for name, each in settings.sources.items() if each.callers},
        hops=settings.limits.hops,
        rounds=settings.limits.review_rounds,
    )


def _require_apart(identities: Sequence[ForgeIdentity], engines: Mapping[str, str]) -> None:
    """Raise UsageError for an account with two holders: the forge could not show who did what."""
    holders: dict[tuple[str, str | int], str] = {
        (source, login.lower()): "the engine" for source, login in engines.items()
    }
    for each in identities:
        for name in (each.login.lower(), each.id):
            holder = holders.setdefault((each.source, name), each.agent) if name is not None else each.agent
            if holder != each.agent:
                raise UsageError(
                    Code.NAME_TAKEN,
                    f"agents.{each.agent}.forge.{each.source} names {each.login!r}, which is the account of {holder}",
                    hint="give each agent an account of its own, and the engine another",
                )


def build_setup(settings: Settings, profile: Callable[[str], AgentProfile]) -> ToolchainSetup:
    """Build the setup for forge events. `profile` returns the profile of an agent."""
    said = settings.toolchain
    profiles = {agent: profile(agent) for agent in settings.agents}

    def style(agent: str) -> StepStyle:
        known = profiles.get(agent)
        return StepStyle(known.locale if known else settings.locale, said.steps)

    return ToolchainSetup(
        registry=build_registry(settings),
        places={name: place_of(each) for name, each in settings.sources.items()},
        profiles=profiles,
        style=style,
        policies=Policies(max_reexecute_times=_SENT_BACK),
        timeout=said.timeout,
        retry_times=said.retry_times,
        caps=ToolchainLimits(
            comments_per_hour=settings.limits.comments_per_object_per_hour,
            failures=said.failures,
            probe_after=float(said.probe_after),
            remind_after=said.remind_after,
            escalate_after=said.escalate_after,
        ),
    )


def place_of(said: SourceSettings) -> ForgeAddresses:
    """Return the addresses of a source, including those that agents are sent to."""
    return ForgeAddresses(said.kind, api_url_of(said), web=(said.base_url, *said.ci_urls))


def build_task_kind(settings: Settings, **more: Any) -> ToolchainTaskKind:
    """Build the kind of the tasks that forge events create."""
    tokens = {
        (agent, source): account.token_env
        for agent, each in settings.agents.items()
        for source, account in each.forge.items()
        if account.token_env
    }
    verify: dict[str, VerificationMode] = {
        name: verification_mode_of(settings, each) for name, each in settings.sources.items()
    }
    own: dict[str, Any] = {"on_failure": failures.make_follow_ups}
    return ToolchainTaskKind(
        verify=verify,
        texts={str(name): text for name, text in settings.toolchain.sections.items()},
        tokens=tokens,
        lead=settings.toolchain.lead or "",
        **own | more,
    )


def build_read_back(settings: Settings, forges: Mapping[str, Forge]) -> ReadBack:
    """Build the reader that verifies claims at forges."""
    said = settings.toolchain
    hasty = {name for name, each in settings.sources.items() if verification_mode_of(settings, each) != "observed"}
    patience, settling = float(said.verify_patience), float(said.settle_seconds)
    longest = float(max(said.escalate_after, said.verify_patience))
    return ReadBack(forges, build_registry(settings), patience, longest, settling, hasty=hasty)


def verification_mode_of(settings: Settings, source: SourceSettings) -> VerificationMode:
    """Return how tasks of a source are verified."""
    has_token = bool(source.token_env or source.token_file)
    return settings.toolchain.verify or ("observed" if has_token else "transition")


def kinds_of(settings: Settings, forges: Mapping[str, Forge] | None = None, **more: Any) -> dict[str, TaskKind]:
    """Collect all kinds by their boards: ours, and those of installed packages. `forges` verify claims."""
    ours = build_task_kind(settings, read_back=build_read_back(settings, forges or {}), **more)
    return kinds.register_kinds([ours, MailTaskKind(mail_rules(settings)), *kinds.load_installed_kinds()])


@asynccontextmanager
async def open_clients(
    root: Path, settings: Settings, environ: Mapping[str, str] = os.environ, *, lenient: bool = False
) -> AsyncIterator[dict[str, Forge]]:
    """Open the engine's own clients, by source, for those that have a token. If `lenient`, one may be missing.

    What they need is loaded only where a source is configured.
    """
    found: dict[str, Forge] = {}
    known = build_registry(settings)
    async with AsyncExitStack() as stack:
        for name, said in settings.sources.items():
            try:
                token = read_secret(root, said.token_env, said.token_file, environ, f"sources.{name}.token")
            except UsageError:
                if not lenient:
                    raise
                continue
            if token:
                found[name] = await stack.enter_async_context(_client(name, said, token, known))
        yield found


def _client(name: str, said: SourceSettings, token: str, known: ForgeRegistry) -> AbstractAsyncContextManager[Forge]:
    def is_agent(user: ForgeUser) -> bool:
        return known.agent_of(user) is not None

    if said.kind == "github":
        from agenttalk.adapters.forge.github import GitHub

        return GitHub.connect(name, api_url_of(said), token, is_agent=is_agent)
    from agenttalk.adapters.forge.gitea import Gitea

    return Gitea.connect(name, said.base_url.rstrip("/"), token, is_agent=is_agent)


@dataclass(frozen=True, slots=True)
class ForgeReader:
    """Reads facts at forges that events do not contain."""

    forges: Mapping[str, Forge]
    high_risk: Sequence[str] = ()
    known: dict[tuple[str, str, str], tuple[float, bool]] = field(default_factory=dict)
    """Write access by account and repository, and how long each answer counts."""

    async def may_write(self, source: str, repository: str, login: str) -> bool | None:
        """Whether an account has write access; None when the forge does not tell."""
        forge = self.forges.get(source)
        if forge is None:
            return None
        about, now = (source, repository.lower(), login.lower()), asyncio.get_running_loop().time()
        until, may = self.known.get(about, (0.0, False))
        if until > now:
            return may
        try:
            async with asyncio.timeout(GATHER):
                may = await forge.repositories.may_write(repository, login)
        except (ForgeError, TimeoutError) as error:
            LOG.warning("%s: who may write to %s: %s", source, repository, error, extra={"action": "forge.rights"})
            return None
        if len(self.known) >= _REMEMBERED:
            self.known.clear()
        self.known[about] = (now + _BELIEVED, may)
        return may

    async def read_content(self, event: ForgeEvent, task: ProposedTask) -> ForgeContent:
        """Read comments of a review, failed jobs and changed files. Raises ForgeError."""
        forge = self.forges.get(event.source)
        number = task.context.get("pr_number")
        if forge is None or not isinstance(number, int):
            return ForgeContent()
        try:
            async with asyncio.timeout(GATHER):
                return await self._content(forge, event, task, number)
        except TimeoutError as error:
            raise ForgeError(Code.FORGE_UNREACHABLE, f"{event.source} did not answer in time") from error

    async def _content(self, forge: Forge, event: ForgeEvent, task: ProposedTask, number: int) -> ForgeContent:
        repository = event.repository.full_name
        if task.action_type in _REVIEWED:
            return ForgeContent(review_points=await _points(forge, repository, number, event))
        if task.action_type == "ci_failure":
            statuses = await forge.repositories.list_statuses(repository, task.head_sha)
            red = [each for each in statuses if each.outcome == "failure"]
            return ForgeContent(failed_jobs=tuple(FailedJob(each.context, each.url) for each in red))
        if task.action_type in {"review_request", "review_updated"}:
            files = await forge.pulls.list_files(repository, number)
            pull = event.pull_request
            lines, count = (pull.lines, pull.files) if pull else (None, None)
            return ForgeContent(
                changed_files=files, risk_level=risk.assess_risk(files, lines=lines, files=count, high=self.high_risk)
            )
        return ForgeContent()

    async def read_reviewers(self, event: ForgeEvent) -> ForgeEvent:
        """Replace the requested reviewers of the event by those that the forge lists. Raises ForgeError."""
        forge, pull = self.forges.get(event.source), event.pull_request
        if forge is None or pull is None or not pull.is_open:
            return event
        if event.kind != "github" and pull.requested_reviewers == ():
            return event  # these forges list too many reviewers in an event, never too few
        try:
            async with asyncio.timeout(GATHER):
                asked, _ = await forge.pulls.read_review_requests(event.repository.full_name, pull)
                return event.model_copy(update={"pull_request": asked})
        except TimeoutError as error:
            raise ForgeError(Code.FORGE_UNREACHABLE, f"{event.source} did not answer in time") from error

    async def _lines(self, forge: Forge, event: ForgeEvent, number: int) -> list[ForgeEvent]:
        """Make an event of each line comment of a review."""
        repository, review = event.repository.full_name, event.review
        known = await _review_of(forge, repository, number, review) if review is not None else None
        comments = await forge.pulls.list_review_comments(repository, number, known) if known is not None else ()
        return [
            event.model_copy(update={"name": "comment_created", "review": None, "comment": each, "at": each.created_at})
            for each in comments
            if same_user(each.author, event.sender)
        ]

    async def find_pull_requests(self, event: ForgeEvent, lookups: Sequence[Lookup]) -> list[ForgeEvent]:
        """Find the pull requests that a failure may belong to, as events that show them. Raises ForgeError."""
        forge = self.forges.get(event.source)
        found: list[ForgeEvent] = []
        if forge is None:
            return []
        for each in lookups:
            if each.lines and each.number is not None:
                found += await self._lines(forge, event, each.number)
                continue
            if each.number is not None:
                pulls = [await forge.pulls.read(each.repository, each.number)]
            else:
                pulls = [pull for pull in await forge.pulls.list_open(each.repository) if pull.head_sha == each.sha]
            pulls = [(await forge.pulls.read_review_requests(each.repository, pull))[0] for pull in pulls]
            found += [
                ForgeEvent(
                    source=event.source,
                    kind=event.kind,
                    name="pull_request_reopened",
                    repository=Repository(full_name=each.repository),
                    pull_request=pull,
                    at=pull.updated_at,
                )
                for pull in pulls
            ]
        return found


async def _review_of(forge: Forge, repository: str, number: int, review: Review) -> int | None:
    """Return the number of a review: the one in the event, or that of the newest review of its author."""
    if review.id is not None:
        return review.id
    given = [
        each for each in await forge.pulls.list_reviews(repository, number) if same_user(each.author, review.author)
    ]
    return given[-1].id if given else None


async def _points(forge: Forge, repository: str, number: int, event: ForgeEvent) -> tuple[ReviewPoint, ...]:
    """Read the comments of the event's review: the newest of its author."""
    review = event.review
    if review is None:
        return ()
    number_of = await _review_of(forge, repository, number, review)
    if number_of is None:
        return ()
    comments = await forge.pulls.list_review_comments(repository, number, number_of)
    return tuple(ReviewPoint(each.id, each.path, each.line, each.body, each.author.login) for each in comments)
