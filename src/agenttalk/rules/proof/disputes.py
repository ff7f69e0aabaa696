"""Disputes: an agent says that a check itself is wrong. A person decides about that; the check stays as it is.

Nothing here is evidence, and nothing waits for it: rounds of rework and time limits go on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from agenttalk.contracts.core.problems import find_nearest
from agenttalk.contracts.errors import Code, Problem
from agenttalk.rules.text import question_words, verdict_words
from agenttalk.rules.text.catalogue import read_text
from agenttalk.rules.text.message import ABOUT, LINES, join

DisputeState: TypeAlias = Literal["open", "upheld", "dismissed", "closed"]
"""`closed` is one that needs no decision any more."""
DisputeOutcome: TypeAlias = Literal["upheld", "dismissed", "closed"]
UPHELD: Final = "upheld"
DISMISSED: Final = "dismissed"
LONGEST: Final = 2_000
"""Characters of a reason."""
MOST: Final = 10
"""Disputes of one task."""
_NOTE: Final = 1_000
"""Characters of a person's note that the agent gets."""
_TAIL: Final = 2_000
"""Characters of what a check printed last."""
_SHOWN: Final = 400


class DisputeView(TypedDict):
    """A dispute as JSON has it."""

    request_id: str
    check: str
    seq: int
    agent_id: str
    reason: str
    state: DisputeState
    at: str
    answered_by: str | None
    answered_at: str | None
    note: str | None


class Dispute(NamedTuple):
    """One that is known."""

    request_id: str
    """The question to a person."""
    check_id: str
    seq: int
    """The command under which it was raised."""
    agent_id: str
    reason: str
    state: DisputeState
    at: str
    answered_by: str | None = None
    answered_at: str | None = None
    note: str | None = None

    def as_json(self) -> DisputeView:
        """Return the dispute as JSON, for programs and pages."""
        return {
            "request_id": self.request_id,
            "check": self.check_id,
            "seq": self.seq,
            "agent_id": self.agent_id,
            "reason": self.reason,
            "state": self.state,
            "at": self.at,
            "answered_by": self.answered_by,
            "answered_at": self.answered_at,
            "note": self.note,
        }


def judge(
    known: Sequence[Dispute], checks: Collection[str], *, check_id: str, seq: int, reason: str
) -> Problem | Dispute | None:
    """Check that a dispute is allowed: returns the problem if not, the dispute that exists already, else None.

    A check has one open dispute at a time, and one for each command; a task has a limited number.
    """
    if check_id not in checks:
        near = find_nearest(check_id, checks)
        hint = f"did you mean {near!r}?" if near else f"its checks are: {', '.join(sorted(checks)) or 'none'}"
        return Problem(Code.NAME_UNKNOWN, "check", f"the task has no check {check_id[:80]!r}", hint)
    if not reason.strip():
        return Problem(Code.FIELD_MISSING, "reason", "say why the check is wrong")
    if len(reason) > LONGEST:
        return Problem(Code.FIELD_VALUE, "reason", f"a reason has at most {LONGEST:,} characters")
    of_check = [each for each in known if each.check_id == check_id]
    for each in of_check:
        if each.state == "open":
            return each
    if any(each.seq == seq for each in of_check):
        hint = "the check stands; fix what it found, or ask a person"
        return Problem(Code.DISPUTE_REFUSED, "check", f"{check_id!r} was disputed in this round, and answered", hint)
    if len(known) >= MOST:
        return Problem(Code.DISPUTE_REFUSED, "check", f"{len(known)} checks of this task were disputed; that is enough")
    return None


def read_outcome(decision: str, answers: Sequence[object], *, by_engine: bool = False) -> DisputeOutcome | None:
    """Return the outcome of a dispute that follows from a person's answer; None when the answer does not settle it."""
    if by_engine or decision == "ABORT":
        return "closed"
    said = [each for each in answers if each in (UPHELD, DISMISSED)]
    if len(answers) == 1 and said:
        return UPHELD if said[0] == UPHELD else DISMISSED
    if answers:
        return None
    return {"APPROVE": UPHELD, "REJECT": DISMISSED}.get(decision)  # type: ignore[return-value]


def render_question(
    task: str, agent_id: str, reason: str, check: Mapping[str, Any], last: Mapping[str, Any] | None
) -> str:
    """Render the question to a person: the reason, the check, its last result and its output."""
    if last is None:
        then: str = question_words.NOT_CHECKED_YET()
    else:
        passed = question_words.LAST_TIME["passed" if last.get("passed") else "failed"]()
        then = ABOUT(subject=passed, what=read_text(last, "detail")) if last.get("detail") else passed
        if last.get("output"):
            output = "\n".join(_quoted(str(last["output"])[-_TAIL:]))
            then = join([then, question_words.IT_PRINTED(output=output)], LINES)
    return question_words.DISPUTED(
        agent=agent_id,
        check=check["id"],
        task=task,
        reason="\n".join(_quoted(reason)),
        kind=check["kind"],
        described=describe_check(check),
        last=then,
    )


def describe_check(check: Mapping[str, Any]) -> str:
    """Describe what a check examines, in one line."""
    told = {key: value for key, value in check.items() if key not in {"id", "kind"}}
    return _cut(
        " ".join(f"{key}={value!r}" if not isinstance(value, str) else f"{key}={value}" for key, value in told.items())
    )


def _quoted(text: str) -> list[str]:
    """Quote a text of others line by line, so that none of it looks like ours."""
    return [f"> {line}" for line in text.splitlines()] or ["> "]


def _cut(text: str, longest: int = _SHOWN) -> str:
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[:longest]}…"


def describe_disputes(known: Iterable[Dispute]) -> list[str]:
    """Return what the next command tells the agent about its disputes: the newest of each check."""
    newest = {each.check_id: each for each in known if each.state != "closed"}
    return [_describe_dispute(each) for each in newest.values()]


def _describe_dispute(dispute: Dispute) -> str:
    if dispute.state == "open":
        return verdict_words.DISPUTE_OPEN(name=dispute.check_id)
    note = f" ({_cut(dispute.note, _NOTE)})" if dispute.note else ""
    answered = verdict_words.DISPUTE_DISMISSED if dispute.state == DISMISSED else verdict_words.DISPUTE_UPHELD
    return answered(name=dispute.check_id, by=dispute.answered_by, note=note)


def describe_next_step(dispute: Dispute, plan_id: str, task_id: str) -> str:
    """Describe what a person can do about a dispute now."""
    if dispute.state == "open":
        return (
            f"agenttalk answer {dispute.request_id} --answer upheld (or dismissed) --note TEXT; "
            "the check is in force meanwhile"
        )
    if dispute.state == UPHELD:
        return (
            "change the check in the plan file and put it in force with 'agenttalk plan apply FILE'; or, once the task "
            f"has no round left, take the work as it is with 'agenttalk rework {plan_id}/{task_id} --accept'"
        )
    return "nothing; the check stands" if dispute.state == DISMISSED else "nothing"
