"""Rules for letters: which are accepted, when they are done, when to remind addressees, and how to search them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.mail import Mail
from agenttalk.contracts.promise import AcceptanceCriterion, CompletionPromise
from agenttalk.rules.messages.routes import Rejection
from agenttalk.rules.proof.done import Evidence

BOARD: Final = "_mail"
OPERATOR: Final = "operator"
"""The name under which people write and read letters."""
MOST_ADDRESSEES: Final = 100
LONGEST_SUBJECT: Final = 500
_UNNAMED: Final = "cp-0-0000"
"""The engine gives the promise its id."""
_RESERVED_IDS: Final = frozenset({"threads"})
_REPLY: Final = "Re: "
_INDEXED: Final = 20_000
"""Characters of a letter that the search covers."""
_LONGEST_WORD: Final = 64
_WORD: Final = re.compile(r"\w+")
_TOGETHER: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+")
"""Characters of languages that are written without spaces between words."""

Kind = Literal["inform", "request"]
ReadHow = Literal["get", "injected", "receipt", "taken", "replied"]
"""How the engine observed that an addressee read a letter.

It asked for it, got it in a prompt, wrote a receipt, took its file, or replied.
"""


class AnsweredLetter(NamedTuple):
    """The letter that another one answers."""

    sender: str
    addressees: tuple[str, ...]
    hop: int


def find_refusal(
    mail: Mail,
    *,
    agents: Collection[str],
    now: datetime,
    answers: AnsweredLetter | None = None,
    hop: int = 0,
    hops: int = 0,
) -> Rejection | None:
    """Find out why a letter is refused; None if it is accepted. `agents` are the addressees that exist.

    `hop` counts the answers between agents before it, and `hops` is their limit.
    """
    problems = [*_faults(mail, now), *_unknown(mail, agents)]
    if mail.in_reply_to is not None:
        problems += _strange_answer(mail, answers)
    if not problems and mail.kind == "request" and hop > hops:
        message = f"agents have written to each other {hop} times in a row here; a person must write next"
        problems.append(Problem(Code.MAIL_HOPS_EXCEEDED, "kind", message, "an operator can answer in the thread"))
    if not problems:
        return None
    first = problems[0]
    return Rejection(first.code, f"{first.field}: {first.message}", tuple(problems))


def _faults(mail: Mail, now: datetime) -> list[Problem]:
    faults = []
    if len(mail.subject) > LONGEST_SUBJECT or any(
        unicodedata.category(char) in {"Cc", "Zl", "Zp"} for char in mail.subject
    ):
        hint = f"at most {LONGEST_SUBJECT} characters, none of which breaks the line or controls a terminal"
        faults.append(Problem(Code.FIELD_VALUE, "subject", "a subject is one short line", hint))
    if not mail.body.strip():
        faults.append(Problem(Code.FIELD_VALUE, "body", "the letter is empty", "write something"))
    if mail.message_id in _RESERVED_IDS:
        faults.append(Problem(Code.FIELD_VALUE, "message_id", "this name is reserved", "choose another one"))
    if len(mail.to) > MOST_ADDRESSEES:
        faults.append(Problem(Code.FIELD_VALUE, "to", f"a letter has at most {MOST_ADDRESSEES} addressees"))
    if mail.sender in mail.to:
        faults.append(Problem(Code.FIELD_VALUE, "to", "the sender is an addressee", "leave the sender out"))
    if mail.deadline is not None and mail.kind != "request":
        faults.append(Problem(Code.FIELD_VALUE, "deadline", "only a request has a deadline", "leave it out"))
    elif mail.deadline is not None and mail.deadline <= now:
        faults.append(Problem(Code.FIELD_VALUE, "deadline", "the deadline has passed", "give a later one"))
    return faults


def _unknown(mail: Mail, agents: Collection[str]) -> list[Problem]:
    hint = "an agent is in agenttalk.toml or has a folder under agents/; people are 'operator'"
    unknown = [name for name in dict.fromkeys(mail.to) if name not in agents and name != OPERATOR]
    return [Problem(Code.TARGET_AGENT_NOT_FOUND, "to", f"there is no agent {name!r}", hint) for name in unknown]


def _strange_answer(mail: Mail, answers: AnsweredLetter | None) -> list[Problem]:
    """Refuse to answer a missing letter or one of others, with the same words, so that they reveal nothing."""
    if answers is None or mail.sender not in {answers.sender, *answers.addressees}:
        message = f"there is no letter {mail.in_reply_to!r} that {mail.sender} wrote or got"
        return [Problem(Code.NAME_UNKNOWN, "in_reply_to", message, "'agenttalk mail list' shows all")]
    return []


def is_answer(mail: Mail, answers: AnsweredLetter) -> bool:
    """Whether a letter answers another one: an addressee of that writes to its sender.

    An addressee that only forwards a request has not answered it, because its sender gets nothing.
    """
    return mail.sender in answers.addressees and answers.sender in mail.to


def hop_of(sender: str, before: Sequence[int]) -> int:
    """Count the answers between agents up to this letter. `before` are the counts of the letters that it follows.

    A person's letter starts again at 0.
    """
    return 0 if sender == OPERATOR else max(before, default=-1) + 1


def make_promise(kind: Kind, subject: str) -> CompletionPromise:
    """Make the promise of a letter's task: a notice has to be read, a request has to be answered."""
    evidence = "read" if kind == "inform" else "reply"
    description = "The letter was read" if kind == "inform" else "The addressee answered the letter"
    return CompletionPromise.from_values(
        id=_UNNAMED,
        objective=f"{description}: {subject}",
        acceptance=(
            AcceptanceCriterion.from_values(
                id=evidence, description=description, evidence_required=(evidence,), min_trust="observed"
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class LetterObservation:
    """What the engine observed about a letter at one of its addressees."""

    addressee: str
    read_at: str | None
    read_how: str | None
    reply: str | None


def make_evidence(seen: LetterObservation, at: str) -> list[Evidence]:
    """Make the evidence of an observation."""
    evidence = []
    if seen.read_at is not None:
        detail = f"{seen.addressee} read it ({seen.read_how})"
        evidence.append(Evidence("read", True, True, "observed", "engine", seen.read_at, detail))
    if seen.reply is not None:
        detail = f"{seen.addressee} wrote {seen.reply}"
        evidence.append(Evidence("reply", True, True, "observed", "engine", at, detail))
    return evidence


class RequestTimes(NamedTuple):
    """The time of the reminder for a request, and its deadline."""

    remind_at: datetime
    deadline: datetime


def compute_times(now: datetime, deadline: datetime | None, *, remind_after: int, answer_within: int) -> RequestTimes:
    """Compute the times of a request. With a near deadline the reminder comes when half of the time is over."""
    end = deadline or now + timedelta(seconds=answer_within)
    return RequestTimes(min(now + timedelta(seconds=remind_after), now + (end - now) / 2), end)


def decide_due_action(deadline: datetime, now: datetime, *, reminded: bool) -> Literal["remind", "fail", "wait"]:
    """Decide what to do about an unanswered request at its next time."""
    if now >= deadline:
        return "fail"
    return "wait" if reminded else "remind"


def reply_subject(subject: str) -> str:
    """Make the subject of an answer."""
    return subject if subject.startswith(_REPLY) else f"{_REPLY}{subject}"[:LONGEST_SUBJECT]


def index_words(text: str) -> frozenset[str]:
    """Split a text into the normalized words that the search index has.

    In scripts without spaces, each character and each pair of neighbours is a word.
    """
    found: set[str] = set()
    for run in _WORD.findall(_spelled(text[:_INDEXED])):
        found.update(_parts(run))
    return frozenset(found)


def split_query(query: str) -> list[str]:
    """Split a query into words that a text must have. The longest comes first, since it is likely to be the rarest."""
    found = index_words(query)
    pairs = {char for word in found if len(word) == 2 and _TOGETHER.fullmatch(word) for char in word}
    return sorted(found - pairs, key=lambda word: (-len(word), word))


def _spelled(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _parts(run: str) -> list[str]:
    """Split a run of letters and digits into words."""
    words = [word[:_LONGEST_WORD] for word in _TOGETHER.sub(" ", run).split()]
    for together in _TOGETHER.findall(run):
        words += [*together, *(together[at : at + 2] for at in range(len(together) - 1))]
    return words
