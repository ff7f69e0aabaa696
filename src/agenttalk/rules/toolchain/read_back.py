"""Whether what an event calls for really happened at the forge: by that agent's account, after the event.

This is evidence and no more. `rules.proof.done.decide` decides from all evidence whether a task is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from agenttalk.contracts.errors import Code
from agenttalk.contracts.forge import ForgeUser
from agenttalk.contracts.promise import Trust
from agenttalk.rules.proof.done import Evidence, Verdict
from agenttalk.rules.text import forge_words, question_words
from agenttalk.rules.text.message import ABOUT, Message, join
from agenttalk.rules.toolchain import comment_threads, forge_facts
from agenttalk.rules.toolchain.accounts import same_user
from agenttalk.rules.toolchain.comment_threads import ThreadQuestion
from agenttalk.rules.toolchain.forge_facts import Approval, ForgeFacts, ForgeFinding, ReviewFilter
from agenttalk.rules.toolchain.report_claims import Claim, ClaimKind, ReportClaims

VerifyCode = Literal[
    "read_back",
    "has_action_report",
    "has_output",
    "has_comment",
    "delivered",
    "turn_ended",
    "not_applicable",
    "no_action",
    "claim_denied",
    "unapproved_merge",
    "not_applicable_refused",
    "verify_error",
]
_FAULTS: Final[tuple[VerifyCode, ...]] = (
    "unapproved_merge",
    "claim_denied",
    "not_applicable_refused",
    "verify_error",
    "no_action",
)
"""Codes of what is not done, the ones that say most first."""
OUTAGES: Final = frozenset({Code.FORGE_UNREACHABLE, Code.FORGE_LIMITED, Code.FORGE_NOT_READY, Code.FORGE_UNSEEN})
"""Errors that tell of the forge or of the engine's account there, and nothing of the work."""
_BY: Final = "forge"
_CLAIM: Final = "claim:"
_SPOILS: Final = frozenset({"claim_denied", "not_applicable_refused", "unapproved_merge"})
_UNDER_REVIEW: Final = frozenset({"review_result", "review_comment", "ci_failure"})
"""Tasks of an author whose pull request others have to approve."""


class VerifyResult(NamedTuple):
    """What verification of a task came to."""

    passed: bool
    code: VerifyCode
    detail: str
    trust: Trust | None
    """What being done rests on; `check_claim` is not proven."""
    infrastructure: bool = False
    """Whether the forge could not be asked."""


@dataclass(frozen=True, slots=True)
class ReadBackOrder:
    """What a task is about, as far as the forge can tell whether it was carried out."""

    action_type: str
    account: ForgeUser
    """Who has to have done it."""
    context: Mapping[str, Any] = field(default_factory=dict)
    head_sha: str = ""
    since: str = ""
    """When the event happened, by the forge's clock."""
    deploys: Callable[[str], bool] = lambda _: False
    """Whether a status of this context tells of a deployment."""
    task_id: str = ""
    """What its agent's comments are marked with."""
    reviewed: bool = False
    """Whether another agent reviews what this one opens."""

    @property
    def repository(self) -> str:
        """`owner/name`."""
        return str(self.context.get("repo", ""))

    @property
    def number(self) -> int:
        """The pull request or issue; 0 when there is none."""
        found = (self.context.get(name) for name in ("pr_number", "issue_number", "number"))
        return next((each for each in found if isinstance(each, int) and each > 0), 0)

    @property
    def approval(self) -> Approval:
        """What the event told to be approved: this head, for this branch."""
        base, rests_on = (str(self.context.get(name) or "") for name in ("base", "base_sha"))
        return Approval(self.head_sha, base, rests_on)

    @property
    def on_pull(self) -> bool:
        """Whether it is about a pull request."""
        return "pr_number" in self.context or str(self.context.get("source_type", "")).startswith(("pull", "review"))


def is_visible(action_type: str, context: Mapping[str, Any]) -> bool:
    """Whether a forge can show at all that a task was carried out; else a report has to do, and stays a claim."""
    if action_type == "mention":
        return context.get("intent_hint") != "fyi"
    if action_type == "deploy_failure":
        return bool(context.get("deploy_context"))
    return True


def check_demand(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    """Check that the event's request was fulfilled. Raises UnreadError for facts to read first."""
    look = _DEMANDS.get(order.action_type)
    if look is None:
        return ForgeFinding(False, forge_words.CANNOT_BE_SEEN(action=order.action_type))
    return look(order, facts)


def _reviewed(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    wanted = ReviewFilter(order.account, order.since, order.head_sha)
    return forge_facts.check_reviewed(facts, order.repository, order.number, wanted)


def _result(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    if order.context.get("result") == "APPROVED":
        return forge_facts.check_merged(facts, order.repository, order.number, by=order.account)
    return _pushed(order, facts)


def _pushed(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    return forge_facts.check_new_head(facts, order.repository, order.number, order.head_sha, by=order.account)


def _answered(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    """New commits, or an answer for each thread: on its line, or as a comment of its own."""
    pushed = _pushed(order, facts)
    if pushed.good:
        return pushed
    repository, number, account = order.repository, order.number, order.account
    points = [each for each in order.context.get("review_comments") or () if isinstance(each, Mapping)]
    lines = dict.fromkeys((each.get("path"), each.get("line")) for each in points)
    reviews = facts.reviews(repository, number)
    replied = {
        (comment.path, comment.line)
        for review in reviews
        if review.id is not None and lines
        for comment in facts.review_comments(repository, number, review.id)
        if comment_threads.is_written_by(comment, account) and comment.created_at >= order.since
    }
    needed = len([each for each in lines if each not in replied]) if lines else 1
    question = ThreadQuestion(account, order.task_id, order.since, points=needed)
    written = comment_threads.find_answers(question, facts.comments(repository, number), reviews) if needed else []
    if len(written) < needed and not lines:  # it is unknown which lines it is about
        written = comment_threads.find_answers(question, forge_facts.list_comments(facts, repository, number), reviews)
    if len(written) >= needed:
        return ForgeFinding(
            True, forge_words.ANSWERED(by=account.login, count=len(lines) or 1, repo=repository, number=number)
        )
    return ForgeFinding(False, forge_words.UNANSWERED(needed=needed, written=len(written), why=pushed.detail))


def _opened(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    if order.context.get("escalation") is True:
        decided = _decided_with_words(order, facts)
        if decided.good:
            return decided
    return forge_facts.check_pull_opened(facts, order.repository, order.number, order.account, since=order.since)


def _decided_with_words(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    """Check that an escalation was closed with a comment that tells how to continue."""
    said = forge_facts.check_commented(facts, order.repository, order.number, order.account, since=order.since)
    return forge_facts.check_closed(facts, order.repository, order.number) if said.good else said


def _commented(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    if not is_visible("mention", order.context):
        return ForgeFinding(False, forge_words.ONLY_READ())
    by, place = order.account, (facts, order.repository, order.number)
    question = ThreadQuestion(
        by, order.task_id, order.since, comment_threads.find_comment_number(order.context.get("source_url"))
    )
    pull = facts.pull(order.repository, order.number) if order.on_pull else None
    own = pull is not None and same_user(pull.author, by)  # whose remarks of reviews are questions, too
    remarks = facts.reviews(order.repository, order.number) if own else ()
    found = comment_threads.find_answers(question, facts.comments(order.repository, order.number), remarks)
    if not found and order.on_pull:
        found = comment_threads.find_answers(question, forge_facts.list_comments(*place), remarks)
    where = f"{order.repository}#{order.number}"
    if found:
        return ForgeFinding(True, forge_words.COMMENTED(by=by.login, id=found[-1].id, place=where))
    there = forge_facts.check_commented(*place, by, since=order.since, on_pull=order.on_pull)
    return ForgeFinding(False, forge_words.ANSWERS_OTHERS(by=by.login, place=where)) if there.good else there


def _deployed(order: ReadBackOrder, facts: ForgeFacts) -> ForgeFinding:
    """Find a later success of the failed deployment: of the same commit, or of the branch's current one.

    One task stands for all deployments of a commit that failed, so none of those may be red any more.
    """
    wanted = str(order.context.get("deploy_context") or "")
    if not wanted:
        return ForgeFinding(False, forge_words.DEPLOY_UNSEEN())
    since = order.since or forge_words.THE_FAILURE()
    why = forge_words.NOT_DEPLOYED(name=wanted, repo=order.repository, ever=since)
    failed: frozenset[str] | None = None
    for ref in (str(each) for each in (order.head_sha, order.context.get("branch")) if each):
        every = facts.statuses(order.repository, ref)
        red = [each.context for each in every if each.outcome == "failure" and order.deploys(each.context)]
        failed = frozenset(red) if failed is None else failed
        found = forge_facts.filter_statuses(every, wanted)
        if not found or not all(each.outcome == "success" and each.at >= order.since for each in found):
            continue
        left = [each for each in red if each in failed]
        told = {"repo": order.repository, "at": forge_facts.shorten_sha(ref)}
        if not left:
            return ForgeFinding(True, forge_words.DEPLOY_GOOD(name=found[0].context, **told))
        why = forge_words.STILL_RED(name=left[0], **told)
    return ForgeFinding(False, why)


_DEMANDS: Final[Mapping[str, Callable[[ReadBackOrder, ForgeFacts], ForgeFinding]]] = {
    "review_request": _reviewed,
    "review_updated": _reviewed,
    "review_result": _result,
    "review_comment": _answered,
    "ci_failure": _pushed,
    "merge_conflict": _pushed,
    "issue_assigned": _opened,
    "mention": _commented,
    "deploy_failure": _deployed,
}


# What the report says


def check_claim(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    """Check a report's claim. Raises UnreadError for facts to read first."""
    if claim.repository and claim.repository.lower() != order.repository.lower():
        return ForgeFinding(False, forge_words.OTHER_REPOSITORY(said=claim.repository, repo=order.repository))
    return _CLAIMS[claim.kind](order, claim, facts)


def _says_merged(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    return forge_facts.check_merged(facts, order.repository, claim.number or order.number, by=order.account)


def _says_reviewed(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    verdicts: Any = (claim.verdict,) if claim.verdict else ("APPROVED", "REQUEST_CHANGES", "COMMENT")
    wanted = ReviewFilter(order.account, order.since, claim.sha, verdicts, claim.id)
    return forge_facts.check_reviewed(facts, order.repository, claim.number or order.number, wanted)


def _says_commented(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    number, since = claim.number or order.number, order.since
    on_pull = order.on_pull and number == order.number
    return forge_facts.check_commented(
        facts, order.repository, number, order.account, since=since, id_=claim.id, on_pull=on_pull
    )


def _says_pushed(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    """Check a push: a new head of the pull request or, without one, an existing commit."""
    number = claim.number or (order.number if order.action_type != "issue_assigned" else 0)
    if not number:
        if not claim.sha:
            return ForgeFinding(False, forge_words.NAMES_NO_COMMIT())
        there = facts.compare(order.repository, claim.sha, claim.sha) is not None
        found = forge_words.COMMIT_IN if there else forge_words.COMMIT_NOT_IN
        return ForgeFinding(there, found(sha=forge_facts.shorten_sha(claim.sha), repo=order.repository))
    pull = facts.pull(order.repository, number)
    head = forge_facts.head_of(facts, order.repository, pull) if pull is not None else ""
    if claim.sha and pull is not None and not forge_facts.same_commit(head, claim.sha):
        between = facts.compare(order.repository, order.head_sha or pull.base_sha, head)
        if between is None or not any(forge_facts.same_commit(each, claim.sha) for each in between.commits):
            detail = _head(order, number, head)
            return ForgeFinding(False, forge_words.NOT_PUSHED(why=detail, sha=forge_facts.shorten_sha(claim.sha)))
    if pull is None or order.head_sha:
        return forge_facts.check_new_head(facts, order.repository, number, order.head_sha, by=order.account)
    return ForgeFinding(True, _head(order, number, head))


def _head(order: ReadBackOrder, number: int, sha: str) -> str:
    return forge_words.HAS_HEAD(place=f"{order.repository}#{number}", head=forge_facts.shorten_sha(sha))


def _says_opened(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    if not claim.number:
        return ForgeFinding(False, forge_words.NAMES_NO_PULL())
    pull, place = facts.pull(order.repository, claim.number), f"{order.repository}#{claim.number}"
    if pull is None:
        return ForgeFinding(False, forge_words.NO_PULL(place=place))
    if not same_user(pull.author, order.account):
        return ForgeFinding(
            False, forge_words.PULL_OF_OTHER(place=place, who=pull.author.login, by=order.account.login)
        )
    at = pull.created_at or forge_words.UNKNOWN_TIME()
    return ForgeFinding(True, forge_words.PULL_BY(place=place, by=pull.author.login, at=at))


def _says_issue(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    number = claim.number or order.number
    issue = facts.issue(order.repository, number)
    if issue is None:
        return ForgeFinding(False, forge_words.NO_ISSUE(place=f"{order.repository}#{number}"))
    state = "open" if issue.is_open else "closed"
    words = forge_words.IS_OPEN if issue.is_open else forge_words.IS_CLOSED
    return ForgeFinding(claim.state in {"", state}, words(place=f"{order.repository}#{number}"))


def _says_deployed(order: ReadBackOrder, claim: Claim, facts: ForgeFacts) -> ForgeFinding:
    context = claim.context or str(order.context.get("deploy_context") or "")
    ref = claim.sha or str(order.context.get("branch") or "") or order.head_sha
    if not ref:
        return ForgeFinding(False, forge_words.NAMES_NO_COMMIT())
    return forge_facts.check_statuses(facts, order.repository, ref, context)


_CLAIMS: Final[Mapping[ClaimKind, Callable[[ReadBackOrder, Claim, ForgeFacts], ForgeFinding]]] = {
    "merged": _says_merged,
    "review": _says_reviewed,
    "comment": _says_commented,
    "push": _says_pushed,
    "pull_request": _says_opened,
    "issue": _says_issue,
    "deploy": _says_deployed,
}


# The evidence


def collect_evidence(order: ReadBackOrder, said: ReportClaims, facts: ForgeFacts, at: str) -> list[Evidence]:
    """Collect what the forge shows as evidence. Raises UnreadError for facts to read first.

    A report that says what the forge denies spoils all the rest, and what the task calls for too.
    """
    if order.action_type == "issue_assigned" and order.reviewed:
        own = forge_facts.find_merged_pulls(facts, order.repository, order.number, order.account, since=order.since)
        judged = [forge_facts.explain_unapproved(facts, order.repository, each, order.account) for each in own]
        if any(judged):
            return [_unapproved(next(filter(None, judged)), at)]
    if order.action_type in _UNDER_REVIEW:
        told = order.approval if order.context.get("result") == "APPROVED" else Approval()
        broken = forge_facts.explain_unapproved(facts, order.repository, order.number, order.account, told)
        if broken:
            return [_unapproved(broken, at)]
    found = check_demand(order, facts)
    answers = [(each.as_text(), check_claim(order, each, facts)) for each in said.claims]
    denied = [
        *said.faults,
        *(forge_words.REPORT_DENIED(said=text, why=why.detail) for text, why in answers if not why.good),
    ]
    listed = [Evidence(f"{_CLAIM}{text}", why.good, True, "observed", _BY, at, why.detail) for text, why in answers]
    if denied:
        return [*listed, _make_denial(denied, at)]
    code: VerifyCode = "read_back" if found.good else "no_action"
    return [
        *listed,
        _make_evidence(code, found.detail, at, passed=found.good),
    ]


def _unapproved(why: str, at: str) -> Evidence:
    return _make_evidence("unapproved_merge", why, at)


def _make_evidence(
    code: VerifyCode, what: str, at: str, *, passed: bool = False, trust: Trust = "observed", by: str = _BY
) -> Evidence:
    """Make evidence with a code, which stands before its text, too."""
    return Evidence("read_back", passed, True, trust, by, at, ABOUT(subject=code, what=what), code=code)


def make_denial(said: ReportClaims, at: str) -> Evidence:
    """Return evidence that a report has unreadable claims."""
    return _make_denial(said.faults, at)


def _make_denial(why: Sequence[str], at: str) -> Evidence:
    return _make_evidence("claim_denied", join(why), at)


def is_denied(found: Sequence[Evidence]) -> bool:
    """Return whether the forge denies what a report says, or shows what more work cannot make good."""
    return any(_code(each) in {"claim_denied", "unapproved_merge"} for each in found)


def is_beyond_repair(found: Iterable[Evidence]) -> bool:
    """Whether the forge shows what another turn cannot make good: others have to see to it."""
    return any(_code(each) == "unapproved_merge" for each in found)


def make_deployment_evidence(environment: str, sha: str, at: str) -> Evidence:
    """Evidence that a pipeline, or the forge, told of a success."""
    what = forge_words.DEPLOYED(environment=environment, sha=forge_facts.shorten_sha(sha))
    return _make_evidence("read_back", what, at, passed=True)


def make_moot_evidence(kind: str, why: str, at: str) -> Evidence:
    """Return evidence that the task is moot, or that another agent has to act."""
    return Evidence(kind, True, True, "observed", _BY, at, why)


def make_failure_evidence(error: str, code: Code | None, at: str) -> Evidence:
    """Evidence that nothing could be found out. That is never a pass."""
    return _make_evidence("verify_error", ABOUT(subject=code, what=error) if code else error, at)


def forgive_outages(found: Sequence[Evidence], least: Trust) -> list[Evidence]:
    """Replace evidence of an outage where claims are accepted, so that it does not keep a task from being done."""
    return [
        replace(each, id=_BY, code="", detail=forge_words.NOT_ASKED(error=_words(each)))
        if least == "claimed" and _code(each) == "verify_error" and _is_outage(each)
        else each
        for each in found
    ]


def _is_outage(evidence: Evidence) -> bool:
    why = _words(evidence)
    return isinstance(why, Message) and why.template is ABOUT and why.params["subject"] in OUTAGES


def void_spoiled(found: Sequence[Evidence]) -> list[Evidence]:
    """Fail all evidence except claims once a claim is denied, or a skipped step is refused."""
    why = next((each for each in found if _code(each) in _SPOILS), None)
    return [
        replace(each, passed=False, detail=why.detail, code=_code(why))
        if why is not None and not each.id.startswith(_CLAIM)
        else each
        for each in found
    ]


def make_lead_evidence(
    said: ReportClaims, found: Sequence[Evidence], *, by: str, approved: bool, at: str, trust: Trust = "attested"
) -> Evidence:
    """Make evidence of the lead's answer about skipped steps, which is worth `trust`."""
    steps = [forge_words.STEP(step=declared.step, text=declared.reason) for declared in said.declared]
    if approved:
        agreed = forge_words.AGREES(by=by, whys=steps)
        return replace(_make_evidence("not_applicable", agreed, at, passed=True, trust=trust, by=by), overrules=True)
    seen = next((each.detail for each in found if each.id == "read_back"), forge_words.NOTHING_READ())
    refused = forge_words.DISAGREES(by=by, whys=[*steps, seen])
    return _make_evidence("not_applicable_refused", refused, at, by=by)


def render_question(lead: str, title: str, said: ReportClaims, found: Sequence[Evidence]) -> str:
    """Render the question to a lead about steps that were skipped."""
    steps = [question_words.STEP(step=each.step, reason=each.reason) for each in said.declared]
    seen = next((each.detail for each in found if each.id == "read_back"), forge_words.FORGE_NOT_ASKED())
    asked = question_words.LEAD_STEPS_APPLY if lead else question_words.STEPS_APPLY
    return asked(**({"lead": lead} if lead else {}), title=title, steps=steps, seen=seen)


def to_result(verdict: Verdict | None, found: Sequence[Evidence]) -> VerifyResult:
    """Summarize a verdict and its evidence as the result of verification, with one code."""
    if verdict is not None and verdict.fulfilled:
        good = [each for each in found if each.passed and each.trust == verdict.trust]
        for code in _PASSES:
            for each in good:
                if _code(each) == code:
                    return VerifyResult(True, code, _words(each), verdict.trust)
        return VerifyResult(True, "read_back", "", verdict.trust)
    bad = [each for each in found if not each.passed]
    for code in _FAULTS:
        for each in reversed(bad):
            if _code(each) == code:
                return VerifyResult(False, code, _words(each), None, code == "verify_error" and _is_outage(each))
    return VerifyResult(False, "no_action", forge_words.NO_REPORT(), None)


_PASSES: Final[tuple[VerifyCode, ...]] = (
    "not_applicable",
    "read_back",
    "has_action_report",
    "has_output",
    "has_comment",
    "delivered",
    "turn_ended",
)


def _code(evidence: Evidence) -> str:
    return evidence.code or evidence.id


def _words(evidence: Evidence) -> str:
    """Return the text of evidence without its code."""
    detail = evidence.detail
    if evidence.code and isinstance(detail, Message) and detail.template is ABOUT:
        what = detail.params["what"]
        return what if isinstance(what, str) else str(what)
    return detail.removeprefix(f"{evidence.code}: ") if evidence.code else detail
