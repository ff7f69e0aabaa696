"""Turns of toolchain tasks that did not fulfil their promise → what is kept for whoever has to know."""

from __future__ import annotations

from typing import Any

from agenttalk.contracts.errors import Code
from agenttalk.contracts.toolchain import NOT_DONE
from agenttalk.ports.kinds import FollowUp, KindOutcome, KindTask
from agenttalk.rules.text import verdict_words
from agenttalk.rules.text.catalogue import with_messages
from agenttalk.rules.toolchain import triage


def make_follow_ups(task: KindTask, outcome: KindOutcome) -> list[FollowUp]:
    """One thing to see to, once for each command. Whom it reaches is decided when it is seen to."""
    if outcome.cause == "MOOT":
        key = f"{NOT_DONE}/{task.task_id}/{outcome.command_id}"
        conflict = FollowUp(NOT_DONE, key, {"task_id": task.task_id, "ways": ["conflict"]})
        return [conflict] if outcome.code == "conflict" else []
    found = (*outcome.blockers, *(verdict_words.MISSING(name=each) for each in outcome.missing))
    unseen = outcome.detail.startswith(f"{Code.FORGE_UNSEEN}:")
    ways = triage.classify_failure(task.action_type, outcome.cause, away=outcome.infrastructure, unseen=unseen)
    if not ways:
        return []
    body: dict[str, Any] = {
        "task_id": task.task_id,
        "ways": list(ways),
        "cause": outcome.cause,
        **with_messages({"reason": outcome.reason, "found": found}),
        "round": task.reexecutions + 1,
    }
    key = f"{NOT_DONE}/{task.task_id}/{outcome.command_id}"
    return [FollowUp(NOT_DONE, f"{key}/away" if ways in {("infrastructure",), ("access",)} else key, body)]
