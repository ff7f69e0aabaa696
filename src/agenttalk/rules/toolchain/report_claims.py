"""What an action report says besides its words: claims that can be read back, and steps that do not apply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

from agenttalk.rules.text import forge_words

ClaimKind = Literal["merged", "review", "comment", "push", "pull_request", "issue", "deploy"]
KINDS: Final[tuple[ClaimKind, ...]] = get_args(ClaimKind)
NOT_APPLICABLE: Final = "not_applicable"
_MOST: Final = 50
"""Claims of one turn that are read."""
_LONGEST: Final = 300
_NUMBER: Final = ("number", "pull_request", "issue", "pr_number", "pr", "index")
_VERDICT: Final = ("verdict", "event", "state", "result")
_VERDICTS: Final = {"APPROVE": "APPROVED", "CHANGES_REQUESTED": "REQUEST_CHANGES", "COMMENTED": "COMMENT"}
_COMMIT: Final = ("sha", "commit", "head", "commit_id", "head_sha")


class Claim(NamedTuple):
    """Something that an agent says it did."""

    kind: ClaimKind
    repository: str = ""
    number: int | None = None
    id: int | None = None
    verdict: str = ""
    sha: str = ""
    context: str = ""
    state: str = ""

    def as_text(self) -> str:
        """Render the claims for people."""
        said = {"number": self.number, "id": self.id, "verdict": self.verdict, "sha": self.sha[:12]}
        said |= {"context": self.context, "state": self.state, "repo": self.repository}
        parts = [f"{name} {value}" for name, value in said.items() if value not in {None, ""}]
        return " ".join([self.kind, *(["(" + ", ".join(parts) + ")"] if parts else [])])


class InapplicableStep(NamedTuple):
    """A step that does not apply, as the agent says."""

    step: int
    reason: str


class ReportClaims(NamedTuple):
    """What the reports of a turn say."""

    claims: tuple[Claim, ...] = ()
    declared: tuple[InapplicableStep, ...] = ()
    faults: tuple[str, ...] = ()
    """What cannot be read, in words. It counts as denied, because it cannot be confirmed."""


def read_reports(documents: Iterable[object], steps: int) -> ReportClaims:
    """Read an agent's documents; `steps` is the number of steps of its task."""
    claims: list[Claim] = []
    declared: list[InapplicableStep] = []
    faults: list[str] = []
    for name, value in _named(documents):
        if name == NOT_APPLICABLE:
            for each in value if isinstance(value, list) else [value]:
                found = _declared(each, steps)
                (faults if isinstance(found, str) else declared).append(found)  # type: ignore[arg-type]
        elif value is not False:
            for each in value if isinstance(value, list) else [value]:
                claim = _claim(name, each)
                (faults if isinstance(claim, str) else claims).append(claim)  # type: ignore[arg-type]
    if len(claims) + len(declared) > _MOST:
        faults.append(forge_words.TOO_MANY_CLAIMS(most=_MOST))
    return ReportClaims(*(tuple(dict.fromkeys(each))[:_MOST] for each in (claims, declared, faults)))  # type: ignore[arg-type]


def _named(documents: Iterable[object]) -> Iterator[tuple[Any, Any]]:
    """Yield the names that we know, each with its value. Others are for other readers."""
    for document in documents:
        for part in document if isinstance(document, list) else [document]:
            if not isinstance(part, Mapping):
                continue
            if part.get("type") in KINDS:
                yield part["type"], part
                continue
            for name, value in part.items():
                if name in KINDS or name == NOT_APPLICABLE:
                    yield name, value


def _declared(value: object, steps: int) -> InapplicableStep | str:
    step = value.get("step") if isinstance(value, Mapping) else None
    reason = value.get("reason") if isinstance(value, Mapping) else None
    if not _whole(step) or not isinstance(reason, str) or not reason.strip():
        return forge_words.BAD_STEP()
    if not isinstance(step, int) or not 1 <= step <= steps:
        return forge_words.NO_STEP(step=step, count=steps)
    return InapplicableStep(step, _plain(reason))


def _claim(kind: ClaimKind, value: object) -> Claim | str:
    if value is True:
        return Claim(kind)
    if _whole(value):
        return Claim(kind, number=value)  # type: ignore[arg-type]
    if isinstance(value, str) and value.strip():
        return Claim(kind, sha=_plain(value))
    if not isinstance(value, Mapping):
        return forge_words.UNREADABLE_CLAIM(kind=kind)
    number = next((value[name] for name in _NUMBER if _whole(value.get(name))), None)
    verdict = _text(value, *_VERDICT).upper() if kind == "review" else ""
    return Claim(
        kind,
        repository=_text(value, "repo", "repository"),
        number=number,
        id=value["id"] if _whole(value.get("id")) else None,
        verdict=_VERDICTS.get(verdict, verdict),
        sha=_text(value, *_COMMIT),
        context=_text(value, "context", "name"),
        state=_text(value, "state").lower() if kind == "issue" else "",
    )


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _text(data: Mapping[str, Any], *names: str) -> str:
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value.strip():
            return _plain(value)
    return ""


def _plain(text: str) -> str:
    """Clean an agent's text to one line that every store and terminal accepts."""
    shown = "".join(each if each.isprintable() else " " for each in text.encode("utf-8", "replace").decode())
    return " ".join(shown.split())[:_LONGEST]
