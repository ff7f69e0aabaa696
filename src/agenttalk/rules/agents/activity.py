"""What a turn is doing at this moment, and the sentence about it for people who watch."""

from __future__ import annotations

from typing import Final, Literal, TypedDict

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.core.task_states import Phase
from agenttalk.rules.text import view_words

ActivityPhase = Literal[
    "queued",
    "queued_agent",
    "offered",
    "elsewhere",
    "judging",
    "cloning",
    "preparing",
    "baseline",
    "working",
    "self_check",
    "checking",
    "for_verifier",
    "in_line",
    "merging",
    "asking",
    "awaiting",
    "stopping",
]
"""What the engine, or the agent, is doing for a task."""
STORED: Final[dict[Phase, ActivityPhase]] = {
    "validating": "judging",
    "executing": "working",
    "asking": "asking",
    "offered": "offered",
    "elsewhere": "elsewhere",
    "verifying": "checking",
    "awaiting": "awaiting",
}
"""Phase of a task's row → the phase of its activity, where no more is known than the row says."""
_LONGEST: Final = 160
"""The most characters of a text from an agent."""


class TaskActivity(TypedDict):
    """What a task is doing now. It is known only while it is so, and stored nowhere."""

    phase: ActivityPhase
    detail: str
    """What of the phase: the check or command that runs, or what the agent says that it does. Text from outside."""
    tool: str
    """The tool that the agent used last in this phase, as the agent calls it. Text from outside."""
    file: str
    """The file that the tool was used on. Text from outside."""
    since: str | None
    """Since when it does this."""
    round: int
    """1 for the first turns, and 1 more for each round of rework."""
    rounds: int | None
    """How many rounds there may be, the first included; null where its work is not checked."""
    tests_done: int | None
    """How many tests the check has run so far; null where that cannot be counted."""
    tests_total: int | None
    """How many tests there are; null where that is not known."""
    tokens: int
    """What this turn has used so far, as its agent reports it."""
    cost_usd: float


def shorten(text: str) -> str:
    """Return a text from an agent as one short line."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def describe_activity(activity: TaskActivity, agent_id: str, locale: Locale = "en") -> str:
    """Return the sentence about an activity in a language. It quotes text from outside."""
    phase, detail = activity["phase"], activity["detail"]
    if phase == "working" and (activity["tool"] or detail):
        used = " ".join(part for part in (activity["tool"], activity["file"]) if part) if activity["file"] else detail
        return used or activity["tool"]
    done, total = activity["tests_done"], activity["tests_total"]
    if phase in {"checking", "baseline"} and done is not None:
        counted = view_words.COUNTED_TESTS if total is None else view_words.COUNTED_OF
        detail = counted.render(locale, what=detail, done=done, total=total)
    parts = {"agent": agent_id, "what": detail}  # each sentence takes what it names
    sentence = view_words.ACTIVITIES[phase].render(locale, **parts)
    return sentence.rstrip(" :：")  # noqa: RUF001 - the Chinese colon of a phase without a detail
