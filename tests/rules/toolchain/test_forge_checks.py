"""Checks of kind forge: what they may ask for, and whether it is so."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.errors import Code
from agenttalk.contracts.forge import Comment, Comparison, ForgeIssue, PullRequest, Status
from agenttalk.contracts.planfile.model import TaskSpec
from agenttalk.contracts.promise import CompletionPromise, ForgeCheck
from agenttalk.rules.planfile import promise_checks
from agenttalk.rules.toolchain.accounts import ForgeIdentity, ForgeRegistry
from agenttalk.rules.toolchain.forge_checks import find_faults, judge_forge
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeQuery
from rules.toolchain.test_read_back_rules import ANN, DEV, HEAD, NEW, REPO, review

REGISTRY = ForgeRegistry(identities=(ForgeIdentity("dev", "work", "agent-dev", 7),))
PULL = PullRequest(number=5, author=ANN, head_sha=HEAD, merged=True, merged_by=ANN)
READ: dict[ForgeQuery, Any] = {
    ForgeQuery("head", REPO, "5"): HEAD,
    ForgeQuery("content", REPO, NEW): "one",
    ForgeQuery("content", REPO, HEAD): "two",
    ForgeQuery("pull", REPO, "5"): PULL,
    ForgeQuery("pull", REPO, "6"): None,
    ForgeQuery("reviews", REPO, "5"): [
        review(),
        review("REQUEST_CHANGES", author=ANN),
        review(author=ANN),
        review("COMMENT", author=ANN),
    ],
    ForgeQuery("reviews", REPO, "6"): None,
    ForgeQuery("comments", REPO, "5"): [Comment(id=1, author=DEV, body="It is so.")],
    ForgeQuery("comments", REPO, "4"): [],
    ForgeQuery("issue", REPO, "4"): ForgeIssue(number=4, author=ANN, is_open=False),
    ForgeQuery("issue", REPO, "6"): None,
    ForgeQuery("issue", REPO, "7"): ForgeIssue(number=7, author=ANN),
    ForgeQuery("statuses", REPO, HEAD): [Status(sha=HEAD, outcome="success", context="ci")],
    ForgeQuery("statuses", REPO, "main"): [Status(sha=HEAD, outcome="failure", context="ci")],
    ForgeQuery("compare", REPO, f"{NEW}...{HEAD}"): Comparison(commits=(HEAD,)),
}


def check(**fields: Any) -> ForgeCheck:
    body = {"id": "c", "kind": "forge", **({"repo": REPO} | fields)}
    made = CompletionPromise.read({"id": "cp-1-abcd", "objective": "o", "acceptance": [], "checks": [body]}).checks[0]
    assert isinstance(made, ForgeCheck)
    return made


@pytest.mark.parametrize(
    ("fields", "passed", "words"),
    [
        ({"pull_request": 5, "pr_merged": True}, True, "was merged by ann"),
        ({"pull_request": 6, "pr_merged": True}, False, "there is no pull request"),
        ({"pull_request": 5, "review_by": "dev", "verdict": "APPROVED"}, True, "reviewed by agent-dev: APPROVED"),
        ({"pull_request": 5, "review_by": "ann", "verdict": "APPROVED"}, True, "APPROVED"),
        ({"pull_request": 5, "review_by": "ann", "verdict": "REQUEST_CHANGES"}, False, "is APPROVED"),
        ({"pull_request": 5, "review_by": "ann", "verdict": "COMMENT"}, True, "COMMENT"),
        ({"pull_request": 5, "review_by": "bob"}, False, "there is no review"),
        ({"pull_request": 6, "review_by": "ann"}, False, "there is no review"),
        ({"pull_request": 5, "new_head_since": NEW}, True, "new head"),
        ({"pull_request": 5, "new_head_since": HEAD}, False, "is still"),
        ({"pull_request": 5, "status_success": "ci"}, True, "ci"),
        ({"pull_request": 5, "status_success": "*"}, True, "1 of"),
        ({"pull_request": 6, "status_success": "*"}, False, "there is no pull request"),
        ({"ref": "main", "status_success": "ci"}, False, "is not a success"),
        ({"pull_request": 5, "comment_by": "dev"}, True, "wrote comment 1"),
        ({"issue": 4, "comment_by": "dev"}, False, "since ever"),
        ({"issue": 4, "issue_closed": True}, True, "is closed"),
        ({"issue": 7, "issue_closed": True}, False, "is open"),
        ({"issue": 6, "issue_closed": True}, False, "there is no issue"),
        (
            {"issue": 4, "pull_request": 5, "issue_closed": True, "pr_merged": True, "review_by": "bob"},
            False,
            "no review",
        ),
    ],
)
def test_everything_that_is_asked_for_must_be_so(fields: dict[str, Any], passed: bool, words: str) -> None:
    found = judge_forge(check(**fields), ForgeFacts(READ), REGISTRY, "work")
    assert (found.passed, found.reason) == (passed, "" if passed else "content")
    assert words in found.detail


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({}, ["kind"]),
        ({"repo": "", "issue": 1, "issue_closed": True}, ["repo"]),
        ({"repo": "a/", "issue": 1, "issue_closed": True}, ["repo"]),
        ({"pr_merged": True}, ["pr_merged"]),
        ({"review_by": "dev"}, ["review_by"]),
        ({"new_head_since": NEW}, ["new_head_since"]),
        ({"status_success": "ci"}, ["status_success"]),
        ({"comment_by": "dev"}, ["comment_by"]),
        ({"issue_closed": True}, ["issue_closed"]),
        ({"pull_request": 1, "pr_merged": True, "verdict": "APPROVED"}, ["verdict"]),
        ({"pull_request": 1, "pr_merged": False}, ["pr_merged"]),
        ({"ref": "main", "status_success": "ci"}, []),
    ],
)
def test_a_check_that_would_show_nothing_is_refused(fields: dict[str, Any], where: list[str]) -> None:
    made = check(**fields)
    assert [name for name, _ in find_faults(made)] == where
    if where:
        assert judge_forge(made, ForgeFacts(), REGISTRY, "work").reason == "facts_missing"


def test_a_plan_with_such_a_check_is_refused() -> None:
    promise = {
        "objective": "o",
        "acceptance": [{"id": "a", "description": "d", "evidenceRequired": ["c"]}],
        "checks": [{"id": "c", "kind": "forge", "repo": REPO, "pr_merged": True}],
    }
    task = TaskSpec.model_validate({"id": "t", "agent": "dev", "prompt": "p", "promise": promise})
    found = [
        (refused, problem.code, problem.field)
        for refused, problem in promise_checks.check(task, names=(), agents=("dev",), unknown=lambda *_: ("", ""))
    ]
    assert found == [(True, Code.PROMISE_INVALID, "checks[0].pr_merged")]
