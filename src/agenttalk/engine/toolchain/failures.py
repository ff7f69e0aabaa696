"""Makes the follow-ups of toolchain tasks whose turn did not fulfil the promise. `triage` handles them."""

from __future__ import annotations

from agenttalk.contracts.errors import Code
from agenttalk.contracts.toolchain import NOT_DONE
from agenttalk.ports.kinds import FollowUp, KindOutcome, KindTask
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import with_messages
from agenttalk.rules.toolchain import triage


def make_follow_ups(task: KindTask, outcome: KindOutcome) -> list[FollowUp]:
    """Make at most one follow-up for each command. Triage decides later who is informed."""
    if outcome.cause == "MOOT":
        key = f"{NOT_DONE}/{task.task_id}/{outcome.command_id}"
        conflict = FollowUp(NOT_DONE, key, {"task_id": task.task_id, "ways": ["conflict"]})
        return [conflict] if outcome.code == "conflict" else []
    faults = (*outcome.blockers, *(verdict_words.MISSING(name=name) for name in outcome.missing))
    unseen = outcome.detail.startswith(f"{Code.FORGE_UNSEEN}:")
    ways = triage.classify_failure(task.action_type, outcome.cause, away=outcome.infrastructure, unseen=unseen)
    if not ways:
        return []
    body = {
        "task_id": task.task_id,
        "ways": list(ways),
        "cause": outcome.cause,
        **with_messages({"reason": outcome.reason, "found": faults}),
        "round": task.reexecutions + 1,
    }
    key = f"{NOT_DONE}/{task.task_id}/{outcome.command_id}"
    return [FollowUp(NOT_DONE, f"{key}/away" if ways in {("infrastructure",), ("access",)} else key, body)]
