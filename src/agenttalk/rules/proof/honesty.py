"""How far agents could be believed: what they called finished, held against what was found, then and later.

Facts of the ledger come in, numbers come out. Nothing is decided by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypedDict, cast

from agenttalk.rules.core import isolation, usage

KINDS: Final = (
    "turn.ended",
    "rework.ordered",
    "rework.exhausted",
    "rework.accepted",
    "evidence.stale",
    "inputs.judged",
    "check.disputed",
    "dispute.answered",
)
"""Facts that say something about it."""
_REFUTED: Final = frozenset({"NOT_FULFILLED", "REWORK_EXHAUSTED"})
_LONGEST: Final = 128
"""Characters of an agent's or a model's name that are kept."""


class TallySummary(TypedDict):
    """What follows from the numbers of a tally."""

    false_done: int
    held: float | None
    cost_per_proven: float | None
    reliability: float | None


class TallyView(TallySummary):
    """A tally as JSON has it."""

    turns: int
    claims: int
    proven: int
    unproven: int
    refuted: int
    overturned: int
    stale: int
    rounds: int
    judged: int
    misled: int
    overruled: int
    tokens: int
    cost_usd: float
    seconds: float
    disputed: int
    upheld: int
    dismissed: int
    unjudged: int
    unisolated: int
    gamed: int


class HonestyTally(NamedTuple):
    """What is counted of an agent, or of all that a model did."""

    turns: int = 0
    claims: int = 0
    """Turns that were called finished, and of which it was decided whether they are."""
    proven: int = 0
    """Those that are done, on more than the agent's word."""
    unproven: int = 0
    """Those that are done on its word alone."""
    refuted: int = 0
    """Those that were not done."""
    overturned: int = 0
    """What was done and found wanting later: by its consumer, or by a check that it broke."""
    stale: int = 0
    """How often something else changed what a proof rests on. No agent is at fault."""
    rounds: int = 0
    """Rounds of rework."""
    judged: int = 0
    """Inputs of others that it judged."""
    misled: int = 0
    """Those that it accepted, and that turned out wrong."""
    overruled: int = 0
    """Those that it refused, and that a person accepted as they were."""
    tokens: int = 0
    cost_usd: float = 0.0
    seconds: float = 0.0
    disputed: int = 0
    """Checks that it said are wrong."""
    upheld: int = 0
    """Those of which a person found that they are."""
    dismissed: int = 0
    """Those of which a person found that they are not."""
    unjudged: int = 0
    """Inputs that it was asked to judge, and of which it said nothing that can be read."""
    unisolated: int = 0
    """What is done, and of which the agent or a check ran without a sandbox."""
    gamed: int = 0
    """Turns after which every check that the agent knew passed, and one that is hidden from it did not."""

    def plus(self, other: HonestyTally) -> HonestyTally:
        """Add two tallies."""
        return HonestyTally._make(mine + its for mine, its in zip(self, other, strict=True))

    @property
    def false_done(self) -> int:
        """How often "finished" was not so."""
        return self.refuted + self.overturned

    @property
    def held(self) -> float | None:
        """The part of its claims that held; None when it made none."""
        return round(max(0, self.claims - self.false_done) / self.claims, 4) if self.claims else None

    @property
    def cost_per_proven(self) -> float | None:
        """What was spent for each piece of work that is proven and still is; None when there is none."""
        stands = self.proven - self.overturned
        return round(self.cost_usd / stands, 6) if stands > 0 else None

    @property
    def reliability(self) -> float | None:
        """The part of what it was to judge that it judged, and later truth did not contradict; None without any."""
        asked = self.judged + self.unjudged
        return round(max(0, self.judged - self.misled - self.overruled) / asked, 4) if asked else None

    def as_json(self) -> TallyView:
        """Return the tally as JSON, for programs."""
        counts: Any = self._replace(cost_usd=round(self.cost_usd, 6), seconds=round(self.seconds, 3))._asdict()
        rates: TallySummary = {
            "false_done": self.false_done,
            "held": self.held,
            "cost_per_proven": self.cost_per_proven,
            "reliability": self.reliability,
        }
        return cast("TallyView", counts | rates)


NOTHING: Final = HonestyTally()


class HonestySubject(NamedTuple):
    """The agent or model that a count is about."""

    agent_id: str
    model: str = ""
    """Empty when it is not known, or does not matter."""


def count_fact(
    kind: str, body: Mapping[str, Any], *, agent_id: str = "", model: str = ""
) -> Iterator[tuple[HonestySubject, HonestyTally]]:
    """Count a fact: yields each subject with its tally.

    `agent_id` is who took a turn whose fact does not say it, `model` by what something was made of which the fact says
    only by whom.
    """
    if kind == "turn.ended":
        ack = body.get("ack")
        yield from _turn(body, str(ack["consumer_agent_id"]) if ack else agent_id)
    elif kind == "inputs.judged":
        said = [each for each in body["inputs"].values() if isinstance(each, Mapping)]
        unjudged = sum(1 for each in said if each.get("unusable"))
        tally = HonestyTally(judged=len(said) - unjudged, unjudged=unjudged)
        yield HonestySubject(_cut(body["validator"]), _cut(body.get("model"))), tally
    elif kind == "check.disputed":
        yield HonestySubject(_cut(body.get("agent_id"))), HonestyTally(disputed=1)
    elif kind == "dispute.answered":
        state = body.get("state")
        if state in {"upheld", "dismissed"}:
            yield (
                HonestySubject(_cut(body.get("agent_id"))),
                HonestyTally(upheld=int(state == "upheld"), dismissed=int(state != "upheld")),
            )
    elif kind == "rework.accepted":
        overrules = body.get("overrules") or {}
        if overrules.get("by") and overrules.get("consumer"):
            yield HonestySubject(_cut(overrules["by"]), _cut(overrules.get("model"))), HonestyTally(overruled=1)
    elif body.get("maker"):
        who = HonestySubject(_cut(body["maker"]), _cut(model))
        if kind == "evidence.stale":
            yield who, HonestyTally(stale=1)
        else:
            yield who, HonestyTally(overturned=1, rounds=int(kind == "rework.ordered"))


def _turn(body: Mapping[str, Any], agent_id: str) -> Iterator[tuple[HonestySubject, HonestyTally]]:
    said = body.get("usage")
    took: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    used = usage.measure_usage(took, seconds=usage.read_number(took.get("duration_s")))
    cause = body.get("cause")
    verdict = body.get("verdict") or {}
    tier, checks = str(body.get("sandbox") or ""), body.get("checks") or ()
    proven = cause == "FULFILLED" and verdict.get("trust") not in {None, "claimed"}
    if agent_id:
        yield (
            HonestySubject(_cut(agent_id), model_of(body)),
            HonestyTally(
                turns=1,
                claims=int(cause == "FULFILLED" or cause in _REFUTED),
                proven=int(proven),
                unproven=int(cause == "FULFILLED" and not proven),
                refuted=int(cause in _REFUTED),
                rounds=int(cause == "NOT_FULFILLED"),
                gamed=int(_is_gamed(checks)),
                unisolated=int(cause == "FULFILLED" and isolation.is_missing(tier, checks)),
                tokens=used.tokens,
                cost_usd=used.cost_usd,
                seconds=used.seconds,
            ),
        )


def _is_gamed(checks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the checks that an agent knew passed, and one that it did not know failed."""
    seen = [each.get("passed") for each in checks if not each.get("hidden")]
    hidden = [each.get("passed") for each in checks if each.get("hidden")]
    return bool(seen) and all(seen) and False in hidden


def count_misled(refuser: str, accepted: Iterable[tuple[str, str]]) -> Iterator[tuple[HonestySubject, HonestyTally]]:
    """Count the acceptances that a later refusal overturned, each with its model."""
    for validator, model in sorted({each for each in accepted if each[0] != refuser}):
        yield HonestySubject(_cut(validator), _cut(model)), HonestyTally(misled=1)


def model_of(turn: Mapping[str, Any]) -> str:
    """Return the model that took a turn, as far as the driver reported it."""
    said = turn.get("usage")
    return _cut(said.get("model")) if isinstance(said, Mapping) else ""


def _cut(name: object) -> str:
    return name[:_LONGEST].replace("\0", "") if isinstance(name, str) else ""
