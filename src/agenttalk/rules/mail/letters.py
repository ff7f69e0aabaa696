"""Letters: which are taken, what being done takes, when somebody is reminded, by which words they are found."""

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
from agenttalk.rules.messages.routing import Rejection
from agenttalk.rules.proof.done import Evidence

BOARD: Final = "_mail"
OPERATOR: Final = "operator"
"""The people who run this, as one of those who write and read letters."""
MOST_ADDRESSEES: Final = 100
LONGEST_SUBJECT: Final = 500
_UNNAMED: Final = "cp-0-0000"
"""The engine gives the promise its id."""
_RESERVED_IDS: Final = frozenset({"threads"})
_REPLY: Final = "Re: "
_INDEXED: Final = 20_000
"""Characters of a letter whose words are found."""
_LONGEST_WORD: Final = 64
_WORD: Final = re.compile(r"\w+")
_TOGETHER: Final = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff]+")
"""Characters of languages that are written without spaces between words."""

Kind = Literal["inform", "request"]
ReadHow = Literal["get", "injected", "receipt", "taken", "replied"]
"""By what it was seen that somebody read a letter: asked for it, had it in a prompt, wrote a receipt, took its file."""


class AnsweredLetter(NamedTuple):
    """What there is to know of the letter that another one answers."""

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
    """Why a letter is not taken; None if it is. `agents` are those of its addressees who are there.

    `hop` says how often agents have answered agents before it, and `hops` how often they may.
    """
    problems = [*_faults(mail, now), *_unknown(mail, agents)]
    if mail.in_reply_to is not None:
        problems += _strange_answer(mail, answers)
    if not problems and mail.kind == "request" and hop > hops:
        message = f"agents have written to each other {hop} times in a row here; a person has to go on"
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
        faults.append(Problem(Code.FIELD_VALUE, "message_id", "this name stands for something else", "take another"))
    if len(mail.to) > MOST_ADDRESSEES:
        faults.append(Problem(Code.FIELD_VALUE, "to", f"a letter goes to {MOST_ADDRESSEES} at most"))
    if mail.sender in mail.to:
        faults.append(Problem(Code.FIELD_VALUE, "to", "nobody writes to himself", "leave the sender out"))
    if mail.deadline is not None and mail.kind != "request":
        faults.append(Problem(Code.FIELD_VALUE, "deadline", "only a request has a deadline", "leave it out"))
    elif mail.deadline is not None and mail.deadline <= now:
        faults.append(Problem(Code.FIELD_VALUE, "deadline", "the deadline is over", "give a later one"))
    return faults


def _unknown(mail: Mail, agents: Collection[str]) -> list[Problem]:
    hint = "an agent is in agenttalk.toml or has a folder under agents/; people are 'operator'"
    strange = [each for each in dict.fromkeys(mail.to) if each not in agents and each != OPERATOR]
    return [Problem(Code.TARGET_AGENT_NOT_FOUND, "to", f"there is no agent {each!r}", hint) for each in strange]


def _strange_answer(mail: Mail, answers: AnsweredLetter | None) -> list[Problem]:
    """Who has no part in a letter learns of it no more than of one that is not there."""
    if answers is None or mail.sender not in {answers.sender, *answers.addressees}:
        message = f"there is no letter {mail.in_reply_to!r} that {mail.sender} wrote or got"
        return [Problem(Code.NAME_UNKNOWN, "in_reply_to", message, "'agenttalk mail list' shows all")]
    return []


def is_answer(mail: Mail, answers: AnsweredLetter) -> bool:
    """Whether a letter answers another: one of those who got that writes to whoever sent it.

    A request that is only handed on to somebody else is not answered by that: who asked hears nothing of it.
    """
    return mail.sender in answers.addressees and answers.sender in mail.to


def hop_of(sender: str, before: Sequence[int]) -> int:
    """How often agents have answered agents; `before` says it of the letters that this one follows. People end it."""
    return 0 if sender == OPERATOR else max(before, default=-1) + 1


def make_promise(kind: Kind, subject: str) -> CompletionPromise:
    """What being done means: of a notice that it was read, of a request that it was answered."""
    wanted = "read" if kind == "inform" else "reply"
    told = "The letter was read" if kind == "inform" else "The addressee answered the letter"
    return CompletionPromise.from_values(
        id=_UNNAMED,
        objective=f"{told}: {subject}",
        acceptance=(
            AcceptanceCriterion.from_values(
                id=wanted, description=told, evidence_required=(wanted,), min_trust="observed"
            ),
        ),
    )


@dataclass(frozen=True, slots=True)
class LetterObservation:
    """What the engine saw of a letter at one of its addressees."""

    addressee: str
    read_at: str | None
    read_how: str | None
    reply: str | None


def make_evidence(seen: LetterObservation, at: str) -> list[Evidence]:
    """What that shows."""
    found = []
    if seen.read_at is not None:
        detail = f"{seen.addressee} read it ({seen.read_how})"
        found.append(Evidence("read", True, True, "observed", "engine", seen.read_at, detail))
    if seen.reply is not None:
        found.append(Evidence("reply", True, True, "observed", "engine", at, f"{seen.addressee} wrote {seen.reply}"))
    return found


class RequestTimes(NamedTuple):
    """When an addressee is reminded of a request, and until when it has to be answered."""

    remind_at: datetime
    deadline: datetime


def compute_times(now: datetime, deadline: datetime | None, *, remind_after: int, answer_within: int) -> RequestTimes:
    """The times of a request. Who has little time is reminded when half of it is over."""
    end = deadline or now + timedelta(seconds=answer_within)
    return RequestTimes(min(now + timedelta(seconds=remind_after), now + (end - now) / 2), end)


def decide_due_action(deadline: datetime, now: datetime, *, reminded: bool) -> Literal["remind", "fail", "wait"]:
    """What is to be done about a request that nobody has answered, once its next moment has come."""
    if now >= deadline:
        return "fail"
    return "wait" if reminded else "remind"


def reply_subject(subject: str) -> str:
    """The subject of an answer."""
    return subject if subject.startswith(_REPLY) else f"{_REPLY}{subject}"[:LONGEST_SUBJECT]


def index_words(text: str) -> frozenset[str]:
    """The words by which a text is found, in one spelling. Where no spaces part them, each two neighbours are one."""
    found: set[str] = set()
    for run in _WORD.findall(_spelled(text[:_INDEXED])):
        found.update(_parts(run))
    return frozenset(found)


def split_query(query: str) -> list[str]:
    """The words of which a text must have all, the longest first: it is likely to be the rarest."""
    found = index_words(query)
    pairs = {char for word in found if len(word) == 2 and _TOGETHER.fullmatch(word) for char in word}
    return sorted(found - pairs, key=lambda word: (-len(word), word))


def _spelled(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _parts(run: str) -> list[str]:
    """The words of a run of letters and digits."""
    found = [each[:_LONGEST_WORD] for each in _TOGETHER.sub(" ", run).split()]
    for together in _TOGETHER.findall(run):
        found += [*together, *(together[at : at + 2] for at in range(len(together) - 1))]
    return found
