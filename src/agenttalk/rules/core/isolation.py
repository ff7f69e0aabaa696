"""Decides how a program is confined. The operator sets the minimum; plans and profiles can only ask for more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agenttalk.contracts.agent import NAMED_TIERS, AgentProfile, Floor, Tier
from agenttalk.contracts.errors import Code, Problem

_STRICTNESS: Final[tuple[Tier, ...]] = ("plain", "best", "landlock", "bubblewrap")
DEFAULT: Final[Tier] = "best"
HINT: Final = 'only the operator may: sandbox = "plain" in agenttalk.toml, or --sandbox plain'


@dataclass(frozen=True, slots=True)
class IsolationSetting:
    """The operator's setting for an agent, or for all. None means that it is not set."""

    sandbox: Tier | None = None
    isolation: Floor | None = None


@dataclass(frozen=True, slots=True)
class IsolationSettings:
    """The operator's settings for all agents, and for single ones."""

    everyone: IsolationSetting = IsolationSetting()
    agents: Mapping[str, IsolationSetting] = field(default_factory=dict)

    def setting_of(self, agent_id: str) -> IsolationSetting:
        """Return the setting that applies to an agent: its own, or else that of all."""
        own = self.agents.get(agent_id, IsolationSetting())
        return IsolationSetting(own.sandbox or self.everyone.sandbox, own.isolation or self.everyone.isolation)

    def apply_to(self, profile: AgentProfile) -> AgentProfile:
        """Return a profile with the sandbox that its agent gets."""
        return apply_setting(profile, self.setting_of(profile.agent_id))


@dataclass(slots=True)
class OperatorIsolation:
    """The operator's current settings; a reload replaces them."""

    words: IsolationSettings = field(default_factory=IsolationSettings)


def strictest(*tiers: Tier) -> Tier:
    """Return the tier that restricts most."""
    return max(tiers, key=_STRICTNESS.index)


def raise_isolation(own: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Raise a plan's fields for an agent to the isolation of the agent's own profile: a plan cannot ask for less."""
    raised = dict(asked)
    if "sandbox" in own and "sandbox" in asked:
        raised["sandbox"] = strictest(own["sandbox"], asked["sandbox"])
    if own.get("isolation") == "required":
        raised["isolation"] = "required"
    return raised


def apply_setting(profile: AgentProfile, word: IsolationSetting) -> AgentProfile:
    """Raise a profile to the operator's minimum."""
    required = "required" in (word.isolation, profile.isolation) or (
        word.isolation is None and word.sandbox in NAMED_TIERS
    )
    least = word.sandbox or DEFAULT
    sandbox = strictest(least, profile.sandbox or least)
    if required:
        sandbox = strictest(sandbox, DEFAULT)
    isolation: Floor | None = "required" if required else profile.isolation or word.isolation
    return profile.model_copy(update={"sandbox": sandbox, "isolation": isolation})


def is_missing(tier: str, checks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the agent of a task, or one of its checks, ran without a sandbox."""
    return tier == "plain" or any(each.get("isolated") is False for each in checks)


def find_unheeded(profiles: Mapping[str, AgentProfile], words: IsolationSettings) -> tuple[Problem, ...]:
    """Find the settings of profiles without effect, because they are less than the minimum."""
    problems = []
    for name, profile in profiles.items():
        holds = words.apply_to(profile)
        if profile.sandbox == "plain" and holds.sandbox != "plain":
            message = f"sandbox: plain has no effect; its program runs in the sandbox {holds.sandbox!r}"
            problems.append(Problem(Code.FIELD_VALUE, f"agents.{name}.sandbox", message, HINT))
        if profile.isolation == "best" and holds.isolation == "required":
            message = "isolation: best has no effect; it is required"
            hint = 'only the operator may: isolation = "best" in agenttalk.toml'
            problems.append(Problem(Code.FIELD_VALUE, f"agents.{name}.isolation", message, hint))
    return tuple(problems)
