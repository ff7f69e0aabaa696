"""How a program is confined, by what the operator says and what plans and profiles do: those can only ask for more."""

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
    """What the operator says of an agent, or of all; None says nothing."""

    sandbox: Tier | None = None
    isolation: Floor | None = None


@dataclass(frozen=True, slots=True)
class IsolationSettings:
    """What the operator says of all agents, and of single ones."""

    everyone: IsolationSetting = IsolationSetting()
    agents: Mapping[str, IsolationSetting] = field(default_factory=dict)

    def setting_of(self, agent_id: str) -> IsolationSetting:
        """What holds for an agent."""
        own = self.agents.get(agent_id, IsolationSetting())
        return IsolationSetting(own.sandbox or self.everyone.sandbox, own.isolation or self.everyone.isolation)

    def apply_to(self, profile: AgentProfile) -> AgentProfile:
        """A profile, with the sandbox that its agent gets."""
        return apply_setting(profile, self.setting_of(profile.agent_id))


@dataclass(slots=True)
class OperatorIsolation:
    """What the operator of an engine says by now."""

    words: IsolationSettings = field(default_factory=IsolationSettings)


def strictest(*tiers: Tier) -> Tier:
    """The one that takes most away."""
    return max(tiers, key=_STRICTNESS.index)


def raise_isolation(own: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan says of an agent, where that has a profile of its own: it cannot ask for less."""
    found = dict(said)
    if "sandbox" in own and "sandbox" in said:
        found["sandbox"] = strictest(own["sandbox"], said["sandbox"])
    if own.get("isolation") == "required":
        found["isolation"] = "required"
    return found


def apply_setting(profile: AgentProfile, word: IsolationSetting) -> AgentProfile:
    """A profile under the operator's word: it asks for as much, or for more."""
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
    """Whether work rests on something that ran without a sandbox: its agent, or a check of it."""
    return tier == "plain" or any(each.get("isolated") is False for each in checks)


def find_unheeded(profiles: Mapping[str, AgentProfile], words: IsolationSettings) -> tuple[Problem, ...]:
    """What profiles ask for and do not get, because it is less than what holds."""
    found = []
    for name, profile in profiles.items():
        holds = words.apply_to(profile)
        if profile.sandbox == "plain" and holds.sandbox != "plain":
            message = f"sandbox: plain has no effect; its program runs in the sandbox {holds.sandbox!r}"
            found.append(Problem(Code.FIELD_VALUE, f"agents.{name}.sandbox", message, HINT))
        if profile.isolation == "best" and holds.isolation == "required":
            message = "isolation: best has no effect; it is required"
            hint = 'only the operator may: isolation = "best" in agenttalk.toml'
            found.append(Problem(Code.FIELD_VALUE, f"agents.{name}.isolation", message, hint))
    return tuple(found)
