"""What a person's word is worth: who gave it, how that is known, and whether an agent could have given it instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.promise import Trust

AnswerChannel = Literal["page", "token", "operator", "file", "engine", "unknown"]
"""How an answer came: by the session of a page, a token, the operator's own folder, a file of the gateway's outbox; or
it is the engine's own, for a question that needs no answer any more."""
_OURS: Final = frozenset({"llm", "local", "human"})
"""Drivers whose programs are ours, or that start none."""
_STARTED: Final = frozenset({"script", "cli", "acp"})
"""Drivers whose programs are started in the sandbox that the profile names."""


@dataclass(frozen=True, slots=True)
class AnswerProof:
    """What shows that a person gave an answer."""

    how: AnswerChannel
    credential: str = ""
    """What the token is called, or who logged in."""
    isolated: bool = False
    """Whether every agent of the plan was kept from what people decide with."""

    @property
    def trust(self) -> Trust:
        """What the answer is worth as evidence: where an agent could have given it, it is only attested."""
        return "confirmed" if self.isolated and self.how in {"page", "token", "operator"} else "attested"

    def as_json(self) -> dict[str, Any]:
        """Return the proof as JSON, for the ledger and for programs."""
        return asdict(self)


UNKNOWN: Final = AnswerProof("unknown")
"""Nothing shows it."""


def read_proof(said: object) -> AnswerProof:
    """Read a recorded proof; an unreadable one proves nothing."""
    match said:
        case {"how": str() as how, "credential": str() as credential, "isolated": bool() as isolated} if (
            how in get_args(AnswerChannel)
        ):
            return AnswerProof(how, credential, isolated)  # type: ignore[arg-type]
    return UNKNOWN


def list_exposed_agents(profiles: Iterable[AgentProfile]) -> list[str]:
    """Agents that nothing keeps from what people decide with: they have no sandbox, or run in an unknown place."""
    return sorted(each.agent_id for each in profiles if not is_confined(each))


def is_confined(profile: AgentProfile) -> bool:
    """Whether something keeps an agent from what people decide with."""
    if profile.driver in _OURS:
        return True
    return profile.driver in _STARTED and profile.tier != "plain"
