"""What a check found, what that covers, and what an agent's own words are worth beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import write_time
from agenttalk.contracts.evidence import EvidenceEntry
from agenttalk.contracts.promise import AnyCheck, ArtifactCheck, Check, CompletionPromise, Hiding, ServedCheck, Trust
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.suites.crossing import CrossedTests
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import Template, join

ENGINE: Final = "engine"

Reason = Literal[
    "",
    "exit_code",
    "timeout",
    "killed",
    "output_limit",
    "not_started",
    "not_isolated",
    "stuck",
    "tampered",
    "check_file",
    "report_missing",
    "report_unreadable",
    "report_contradicts",
    "tests_failed",
    "tests_none",
    "tests_vanished",
    "tests_skipped",
    "suspicious",
    "differs",
    "verifiers_differ",
    "survivors",
    "no_mutants",
    "cases_failed",
    "tests_unreported",
    "boundary",
    "channel_silent",
    "channel_cut",
    "channel_garbled",
    "harness_tampered",
    "runner_shadowed",
    "missing",
    "unsafe",
    "unreadable",
    "content",
    "facts_missing",
    "refused",
    "unreachable",
    "answer",
    "not_accepted",
    "not_confirmed",
    "unknown_kind",
    "fault",
]
"""Why a check did not pass, in a word; empty when it passed."""
ResultSource = Literal["", "channel", "output", "report", "exit-code only"]
"""How a command's results came: from its test runner while it ran, from what that printed of the tests that it had
listed before, from a file that it wrote, or as its exit code. Empty where no command was run."""

_SOURCE_WORDS: Final[Mapping[ResultSource, Template]] = {
    "output": check_words.FROM_OUTPUT,
    "report": check_words.FROM_REPORT,
    "exit-code only": check_words.EXIT_CODE_ONLY,
}
"""Remarks on sources that the work could reach more easily than the channel."""

_OUTSIDE: Final[frozenset[Reason]] = frozenset(
    {
        *("not_started", "not_isolated", "stuck", "facts_missing", "unknown_kind", "fault", "check_file", "unsafe"),
        "verifiers_differ",
    }
)
"""Reasons that tell of the machine or the set-up, and nothing of the work."""
_MACHINE: Final = _OUTSIDE - {"check_file", "unsafe"}
"""Those that no work can cause."""
_EXECUTED: Final = frozenset({"run", "tests", "cases", "mutants"})
_RED: Final = frozenset({"run", "tests", "cases"})
"""Kinds that can fail before the work."""
_LASTING: Final = frozenset({"run", "tests", "cases", "mutants", "file", "json"})
"""Kinds whose answer depends on the tree alone. The others look at a world that changes by itself."""
_CLAIMS: Final = 100
"""How many claims of an agent are read."""
_CLAIM: Final = 500
"""Characters of one."""
_KEY: Final = 12
"""Characters of a public key by which people tell it."""
_NO_MATTER: Final = frozenset(
    {"id", "minTrust", "red_first", "made_by_work", "suspicion", "hidden", "hidden_paths", "cases_file"}
)
"""What a check says that has no influence on what it finds."""


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """The judgement of the facts that a check collected."""

    passed: bool
    reason: Reason = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a person answered."""

    by: str
    approved: bool
    shown: str
    """Hash of what the person saw."""
    trust: Trust = "attested"
    """What it is worth: where an agent could have given it, it is only said to be a person's."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a result rests on. The same again gives the same result."""

    check: Mapping[str, Any] = field(default_factory=dict)
    """The check, but for what has no influence on its result."""
    tree: str = ""
    """Hash of the tree that was checked."""
    covered: Mapping[str, str] = field(default_factory=dict)
    """Each glob that the check covers → hash of what it matches. Empty: the whole tree."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The check's own files → their hashes."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Inputs of the task and lock files → their hashes."""
    argv: tuple[str, ...] = ()
    isolated: bool | None = None
    network: bool = False
    base: str = ""
    """Hash of the tests that were known before the work, where any were: of those none may vanish."""
    harness: str = ""
    """Hash of what the engine runs beside a test runner, and how results came before the work."""
    place: str = ""
    """Hash of what a command sees beside the tree: the user, clock and language, and what git answers."""


@dataclass(frozen=True, slots=True)
class Screenshot:
    """A picture that a check took of a page, of exactly the tree that was checked."""

    name: str
    sha256: str
    size: int
    data: bytes | None = field(default=None, repr=False)
    """Its content (PNG), until it is stored under its hash."""


@dataclass(frozen=True, slots=True)
class VerifierSeal:
    """Who made a check on another machine, and signed the result."""

    worker: str
    name: str
    machine: str
    sandbox: str
    public_key: str
    statement: str
    """What was signed, in base64."""
    signature: str


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check."""

    id: str
    passed: bool
    trust: Trust
    reason: Reason
    detail: str
    started: datetime
    ended: datetime
    fingerprint: Fingerprint
    exit_code: int | None = None
    output: str = ""
    """The end of what was printed."""
    output_sha256: str = ""
    """Hash of all that was printed."""
    output_bytes: int = 0
    tests: Outcomes | None = None
    flaky: tuple[str, ...] = ()
    """What failed first and passed when it was run again."""
    weak: bool = False
    """Whether it passed before the work began, or was not run then."""
    isolated: bool | None = None
    """Whether it ran in a sandbox; None where nothing was run."""
    hidden: Hiding = False
    """Whether the agent may not know what was found, as its check says."""
    source: ResultSource = ""
    crossed: CrossedTests | None = None
    """How the tests ended that were judged in another process, if any were."""
    """How its results came."""
    by: str = ENGINE
    seen_at: str = ""
    """When it was found, if that was before: nothing was run this time."""
    seen_for: str = ""
    """The task for which that was."""
    pictures: tuple[Screenshot, ...] = ()
    seals: tuple[VerifierSeal, ...] = ()
    """Who made it, if the engine did not itself."""

    def to_evidence(self, *, fresh: bool) -> Evidence:
        """Convert the result to evidence. Of a hidden check it tells an agent no more than it may know."""
        if self.hidden is not False:
            at = write_time(self.ended)
            return Evidence(self.id, self.passed, fresh, self.trust, self.by, at, self._describe_hidden())
        notes = [self.detail] if self.detail else []
        notes += (
            [check_words.FLAKY(names=", ".join(self.flaky[:3]) + (" …" if len(self.flaky) > 3 else ""))]
            if self.flaky
            else []
        )
        notes += [check_words.WEAK()] if self.weak else []
        notes += [check_words.NOT_ISOLATED()] if self.isolated is False else []
        notes += [_SOURCE_WORDS[self.source]()] if self.passed and self.source in _SOURCE_WORDS else []
        notes += [
            check_words.SEALED(name=each.name, machine=each.machine, tier=each.sandbox, key=each.public_key[:_KEY])
            for each in self.seals
        ]
        return Evidence(self.id, self.passed, fresh, self.trust, self.by, write_time(self.ended), join(notes))

    def _describe_hidden(self) -> str:
        """Describe a result as its agent may know it."""
        if self.hidden == "count" and self.tests is not None:
            return check_words.HIDDEN_COUNT(passed=len(self.tests.passed), failed=len(self.tests.failed))
        return check_words.HIDDEN_CHECK()


def trust_of(check: AnyCheck) -> Trust:
    """Return the trust of evidence that a check produces."""
    if runs_work(check):
        return "executed"
    if check.kind == "human":
        return "confirmed"
    if check.kind == "report":
        return "claimed"
    return "attested" if isinstance(check, ArtifactCheck) and check.accepted_by else "observed"


def runs_work(check: AnyCheck) -> bool:
    """Whether a check runs a program of the work."""
    return check.kind in _EXECUTED or isinstance(check, ServedCheck)


def can_be_red(check: AnyCheck) -> bool:
    """Whether a check can fail before the work, and so show that the work made it pass."""
    return check.kind in _RED or isinstance(check, ServedCheck)


def depends_on_tree(check: AnyCheck) -> bool:
    """Whether the result of a check depends on the tree alone."""
    return check.kind in _LASTING or isinstance(check, ServedCheck)


def to_relevant_json(check: Check) -> dict[str, Any]:
    """Convert a check to JSON, without what has no influence on its result."""
    return {key: value for key, value in check.as_json().items() if key not in _NO_MATTER}


def cache_key(fingerprint: Fingerprint) -> str | None:
    """Make the key of a cached result. None when it proves nothing for later: then the check runs again.

    What the check covers decides; the whole tree does where it covers no less, or where a hash is not known.
    """
    lasting = fingerprint.check.get("kind") in _LASTING or "serve" in fingerprint.check
    if not lasting or not fingerprint.tree:
        return None
    globs = fingerprint.check.get("covers") or ()
    known = bool(globs) and all(fingerprint.covered.get(glob) for glob in globs)
    covered = {glob: fingerprint.covered[glob] for glob in globs} if known else fingerprint.tree
    return wire.sha256(
        wire.write(
            {
                "check": dict(fingerprint.check),
                "covered": covered,
                "files": dict(fingerprint.files),
                "inputs": dict(fingerprint.inputs),
                "argv": list(fingerprint.argv),
                "isolated": fingerprint.isolated,
                "network": fingerprint.network,
                "base": fingerprint.base,
                "harness": fingerprint.harness,
                "place": fingerprint.place,
            }
        )
    )


def exact_key(fingerprint: Fingerprint) -> str | None:
    """Make the key of a result that holds for this very tree.

    What a check covers is what it is about. That it reads nothing else is only said, and who changes the rest of the
    tree must not gain by what was found before.
    """
    return cache_key(replace(fingerprint, covered={}))


def hash_known_tests(base: Outcomes | None) -> str:
    """Hash the earlier tests that influence a later result; empty if none were seen."""
    if base is None or base == Outcomes():
        return ""
    told = {
        "known": sorted(base.known),
        "ran": sorted(base.ran),
        "failed": sorted(base.failed),
        "whys": sorted(base.whys),
    }
    return wire.sha256(wire.write(told))


def is_about_work(result: CheckResult) -> bool:
    """Return whether a result is about the work, and not only about the machine that ran the check."""
    return result.reason not in _MACHINE


def is_cacheable(result: CheckResult) -> bool:
    """Whether a result may be kept under its key: not when it tells of the machine, or came by luck."""
    return result.reason not in _OUTSIDE and result.reason not in {"timeout", "differs"} and not result.flaky


Redness = Literal["fine", "weak", "refuse"]


def judge_baseline(check: AnyCheck, base: CheckResult | None) -> Redness:
    """Judge a result at the baseline: `refuse` the task, or call its evidence `weak`.

    Only a check that ran there and failed by itself was red. One that did not run, or could not, was not seen.
    """
    if check.red_first == "off" or not can_be_red(check):
        return "fine"
    if base is not None and not base.passed and base.reason not in _OUTSIDE:
        return "fine"
    return "refuse" if check.red_first == "required" else "weak"


def apply_redness(result: CheckResult, redness: Redness) -> CheckResult:
    """Mark a result with its weakness."""
    return replace(result, weak=redness != "fine")


@dataclass(frozen=True, slots=True)
class Claims:
    """What an agent claims about its own work."""

    evidence: tuple[Evidence, ...] = ()
    """Claims under ids that no check owns. They may be weighed, as claims."""
    set_aside: tuple[Evidence, ...] = ()
    """Claims under ids that a check produces. They are kept for people and never weighed."""


def collect_claims(
    promise: CompletionPromise,
    entries: Sequence[str | EvidenceEntry],
    *,
    by: str,
    at: str,
    seen: Collection[str] = (),
) -> Claims:
    """Return what an agent submitted, as claims. Its statements on trust, observer and time are ignored.

    `seen` are ids under which the engine sees for itself, like checks do under theirs.
    """
    owned = {check.id for check in promise.checks} | set(seen)
    made = [_claim(entry, by, at) for entry in entries]
    return Claims(_each(made, owned, inside=False), _each(made, owned, inside=True))


def _claim(entry: str | EvidenceEntry, by: str, at: str) -> Evidence:
    if isinstance(entry, str):
        return Evidence(entry, passed=True, fresh=True, trust="claimed", by=by, at=at)
    return Evidence(entry.id, entry.passed, entry.fresh, "claimed", by, at, entry.detail)


def _each(made: Iterable[Evidence], owned: set[str], *, inside: bool) -> tuple[Evidence, ...]:
    return tuple(each for each in made if (each.id in owned) is inside)


def read_claims(said: object) -> tuple[str | EvidenceEntry, ...]:
    """Read what an agent submitted, as far as possible: ids, and objects with `id` and `passed`."""
    found: list[str | EvidenceEntry] = []
    for each in said[:_CLAIMS] if isinstance(said, list | tuple) else ():
        if isinstance(each, EvidenceEntry):
            found.append(each)
        elif isinstance(each, str) and each.strip():
            found.append(_clean(each))
        elif isinstance(each, dict) and isinstance(each.get("passed"), bool) and _says(each.get("id")):
            detail = each.get("detail")
            found.append(
                EvidenceEntry(
                    id=_clean(each["id"]),
                    passed=each["passed"],
                    fresh=True,
                    trust="claimed",
                    detail=_clean(detail) if isinstance(detail, str) else "",
                )
            )
    return tuple(found)


def _says(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _clean(text: str) -> str:
    """Clean an agent's text so that every store accepts it."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")[:_CLAIM]


def read_vouched_evidence(entries: Sequence[str | EvidenceEntry]) -> list[Evidence]:
    """Read the evidence of a caller: an id alone means that the caller attests it; an object describes itself."""
    return [
        Evidence(each, passed=True, fresh=True, trust="attested", by="", at="")
        if isinstance(each, str)
        else Evidence(each.id, each.passed, each.fresh, each.trust, each.by, each.at, each.detail)
        for each in entries
    ]
