"""Checks of kind `forge` in plans: whether they ask for something, and whether that is so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agenttalk.contracts.forge import ForgeUser, ReviewVerdict
from agenttalk.contracts.promise import ForgeCheck
from agenttalk.rules.proof.evidence import CheckFinding
from agenttalk.rules.text import forge_words
from agenttalk.rules.text.message import join
from agenttalk.rules.toolchain import forge_facts
from agenttalk.rules.toolchain.accounts import ForgeRegistry
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeFinding, ReviewFilter

QUESTIONS: Final = ("pr_merged", "review_by", "new_head_since", "status_success", "comment_by", "issue_closed")
"""Keys of which each asks one thing."""
_NEEDS: Final = {
    "pr_merged": ("pull_request",),
    "review_by": ("pull_request",),
    "new_head_since": ("pull_request",),
    "status_success": ("pull_request", "ref"),
    "comment_by": ("pull_request", "issue"),
    "issue_closed": ("issue",),
    "verdict": ("review_by",),
}
"""Key → keys of which it needs one."""


def find_faults(check: ForgeCheck) -> Iterator[tuple[str, str]]:
    """Find the faults of a check: the key and the reason of each."""
    if not any(getattr(check, name) is not None for name in QUESTIONS):
        yield "kind", f"it asks for nothing; give one of: {', '.join(QUESTIONS)}"
    if check.repo.count("/") != 1 or not all(check.repo.split("/")):
        yield "repo", "a repository is named as owner/name"
    for name, needs in _NEEDS.items():
        if getattr(check, name) is not None and all(getattr(check, each) is None for each in needs):
            yield name, f"it needs {' or '.join(needs)}"
        if getattr(check, name) is False:
            yield name, "what is not to happen cannot be shown; leave it out"


def judge_forge(check: ForgeCheck, facts: ForgeFacts, registry: ForgeRegistry, source: str) -> CheckFinding:
    """Judge a check: it passes when all its conditions hold. Raises UnreadError for facts to read first."""
    wrong = [f"{name}: {why}" for name, why in find_faults(check)]
    if wrong:
        return CheckFinding(False, "facts_missing", "; ".join(wrong))
    answers = list(_answers(check, facts, registry, source))
    bad = [each.detail for each in answers if not each.good]
    if bad:
        return CheckFinding(False, "content", join(bad))
    return CheckFinding(True, "", join(answer.detail for answer in answers))


def _answers(check: ForgeCheck, facts: ForgeFacts, registry: ForgeRegistry, source: str) -> Iterator[ForgeFinding]:
    pull, issue, repo = check.pull_request or 0, check.issue or 0, check.repo
    if check.pr_merged:
        yield forge_facts.check_merged(facts, repo, pull)
    if check.review_by is not None:
        verdicts: tuple[ReviewVerdict, ...] = (check.verdict,) if check.verdict else ("APPROVED", "REQUEST_CHANGES")
        found, by = facts.pull(repo, pull), _account(check.review_by, registry, source)
        head = forge_facts.head_of(facts, repo, found) if found else ""
        yield forge_facts.check_reviewed(facts, repo, pull, ReviewFilter(by, "", head, verdicts, newest=True))
    if check.new_head_since is not None:
        yield forge_facts.check_new_head(facts, repo, pull, check.new_head_since)
    if check.status_success is not None:
        yield _status(check, facts)
    if check.comment_by is not None:
        yield forge_facts.check_commented(facts, repo, pull or issue, _account(check.comment_by, registry, source))
    if check.issue_closed:
        yield forge_facts.check_closed(facts, repo, issue)


def _status(check: ForgeCheck, facts: ForgeFacts) -> ForgeFinding:
    ref, context = check.ref, check.status_success or ""
    if ref is None:
        pull = facts.pull(check.repo, check.pull_request or 0)
        if pull is None:
            return ForgeFinding(False, forge_words.NO_PULL(place=f"{check.repo}#{check.pull_request}"))
        ref = forge_facts.head_of(facts, check.repo, pull)
    return forge_facts.check_statuses(facts, check.repo, ref, "" if context == "*" else context)


def _account(name: str, registry: ForgeRegistry, source: str) -> ForgeUser:
    """Return an agent's account; a name that is not an agent is the name of an account."""
    return registry.account_of(source, name) or ForgeUser(source=source, login=name)
