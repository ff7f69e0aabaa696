"""What must be seen at a forge for each kind of task, what a report may say, and what it all comes to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.errors import Code
from agenttalk.contracts.forge import (
    Comment,
    Commit,
    Comparison,
    ForgeBranch,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Push,
    Review,
    ReviewVerdict,
    Status,
)
from agenttalk.contracts.promise import AcceptanceCriterion, CompletionPromise
from agenttalk.contracts.toolchain import ACTION_TYPES
from agenttalk.rules.proof import done
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.toolchain import demands, forge_facts, read_back, report_claims
from agenttalk.rules.toolchain.forge_facts import Approval, ForgeFacts, ForgeFinding, ForgeQuery, UnreadError
from agenttalk.rules.toolchain.read_back import ReadBackOrder
from agenttalk.rules.toolchain.report_claims import Claim, InapplicableStep, ReportClaims

REPO = "acme/widgets"
DEV = ForgeUser(source="work", login="Agent-Dev", id=7)
ANN = ForgeUser(source="work", login="ann", id=8)
OLD, HEAD, NEW, MERGE = "a" * 40, "b" * 40, "c" * 40, "d" * 40
BEFORE, SINCE, AFTER = "2026-05-01T10:00:00Z", "2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z"
LATER = "2026-05-01T13:00:00Z"
NOTHING = ReportClaims()


def pull(**changes: Any) -> PullRequest:
    values: dict[str, Any] = {"number": 5, "author": DEV, "head_sha": HEAD, "created_at": AFTER, "updated_at": AFTER}
    return PullRequest(**(values | changes))


def review(verdict: ReviewVerdict = "APPROVED", **changes: Any) -> Review:
    values: dict[str, Any] = {"author": DEV, "id": 3, "commit": HEAD, "submitted_at": AFTER}
    return Review(verdict=verdict, **(values | changes))


def comment(**changes: Any) -> Comment:
    values: dict[str, Any] = {"id": 9, "author": DEV, "created_at": AFTER, "body": "So it is."}
    return Comment(**(values | changes))


def facts(**read: Any) -> ForgeFacts:
    """What was read of pull request 5, issue 4 and the commits."""
    keys = {"pull": "5", "reviews": "5", "comments": "5", "issue": "4", "compare": f"{HEAD}...{NEW}"}
    keys |= {"pulls_since": SINCE, "review_comments": "5/3", "statuses": "main", "head": "5", "commit": MERGE}
    keys |= {"open_pulls": "", "pushes": "5", "files": "5", "content": NEW}
    usual: dict[str, Any] = {"head": HEAD, "commit": Commit(sha=MERGE, parents=(OLD, HEAD)), "open_pulls": ()}
    usual |= {"pushes": (), "files": ("x.py",), "content": "new", "reviews": None, "pull": pull()}
    known = {ForgeQuery(name, REPO, keys[name]): value for name, value in (usual | read).items()}  # type: ignore[arg-type]
    return ForgeFacts({ForgeQuery("content", REPO, HEAD): "old", **known})


def order(action: str, **context: Any) -> ReadBackOrder:
    return ReadBackOrder(action, DEV, {"repo": REPO, "pr_number": 5, **context}, HEAD, SINCE)


def demanded(wanted: ReadBackOrder, known: ForgeFacts) -> ForgeFinding:
    return read_back.check_demand(wanted, known)


def issue_order() -> ReadBackOrder:
    return ReadBackOrder("issue_assigned", DEV, {"repo": REPO, "issue_number": 4}, "", SINCE)


MERGED = pull(merged=True, is_open=False, merged_by=DEV, merged_at=AFTER, merge_sha=MERGE)
PUSHED = {"pull": pull(head_sha=NEW), "compare": Comparison(commits=(NEW,), authors=(DEV,))}
THREADS = [{"path": "x.py", "line": 3}, {"path": "x.py", "line": 9}, {"path": "x.py", "line": 3}, "odd"]


@pytest.mark.shows("T19")
@pytest.mark.parametrize(
    ("wanted", "read", "good", "words"),
    [
        (order("review_request"), {"reviews": [review()]}, True, "was reviewed by Agent-Dev: APPROVED of bbbb"),
        (order("review_updated"), {"reviews": [review("REQUEST_CHANGES")]}, True, "REQUEST_CHANGES"),
        (order("review_request"), {"reviews": [review(author=ANN)]}, False, "no review of acme/widgets#5 by Agent"),
        (order("review_request"), {"reviews": None}, False, "there is no review"),
        (order("review_request"), {"reviews": [review("COMMENT")]}, False, "is COMMENT; APPROVED or"),
        (order("review_request"), {"reviews": [review(submitted_at=BEFORE)]}, False, f"before {SINCE}"),
        (order("review_request"), {"reviews": [review(submitted_at="")]}, False, "at no known time"),
        (order("review_request"), {"reviews": [review(commit=OLD)], "pull": pull()}, False, "newest head"),
        (order("review_request"), {"reviews": [review(commit=OLD)], "pull": None}, False, "newest head"),
        (order("review_request"), {"reviews": [review(commit="")], "pull": pull()}, False, "is of no commit, not"),
        (order("review_request"), {"reviews": [review(commit=NEW)], "pull": pull(head_sha=NEW)}, True, "of cccc"),
        (order("review_result", result="APPROVED"), {"pull": MERGED}, True, "was merged by Agent-Dev at bbbb"),
        (order("review_result", result="APPROVED"), {"pull": None}, False, "there is no pull request"),
        (order("review_result", result="APPROVED"), {"pull": pull()}, False, "is not merged: it is open"),
        (order("review_result", result="APPROVED"), {"pull": pull(is_open=False)}, False, "it is closed"),
        (
            order("review_result", result="APPROVED"),
            {"pull": pull(merged=True, merged_by=ANN)},
            False,
            "merged by ann, not by Agent-Dev",
        ),
        (order("review_result", result="APPROVED"), {"pull": pull(merged=True)}, False, "by an unknown account"),
        (order("review_result"), {"pull": MERGED}, False, "was still bbbbbbbbbb when it was closed"),
        (order("review_result"), {"pull": MERGED, "head": None}, False, "it is unknown which head"),
        (order("ci_failure"), PUSHED | {"content": "old"}, False, "all its files are as at bbbb"),
        (order("ci_failure"), PUSHED | {"content": None}, False, "does not show what differs from bbbb"),
        (order("ci_failure"), PUSHED | {"pushes": [Push(by=ANN, commits=(NEW,))]}, False, "were brought by ann"),
        (
            order("ci_failure"),
            PUSHED | {"pushes": [Push(by=DEV, commits=(NEW,))], "compare": Comparison(commits=(NEW,), authors=(ANN,))},
            True,
            "new head",
        ),
        (order("review_result", result="REQUEST_CHANGES"), PUSHED, True, "a new head cccc"),
        (order("ci_failure"), PUSHED, True, "1 commit after bbbb"),
        (order("ci_failure"), {"pull": pull()}, False, "is still bbbb"),
        (order("ci_failure"), {"pull": None}, False, "there is no pull request"),
        (order("ci_failure"), {"pull": pull(head_sha="")}, False, "it is unknown which head"),
        (order("ci_failure"), PUSHED | {"compare": Comparison()}, False, "adds nothing to"),
        (order("ci_failure"), PUSHED | {"compare": None}, False, "adds nothing to"),
        (
            order("ci_failure"),
            PUSHED | {"compare": Comparison(commits=(NEW,), authors=(ANN,))},
            False,
            "were brought by ann, not by Agent-Dev",
        ),
        (order("ci_failure"), PUSHED | {"compare": Comparison(commits=(NEW,), authors=(ANN, DEV))}, True, "new head"),
        (order("ci_failure"), PUSHED | {"compare": Comparison(commits=(OLD, NEW))}, True, "2 commits after"),
        (order("ci_failure"), PUSHED | {"compare": Comparison(commits=(NEW,))}, True, "new head"),
        (order("review_comment"), PUSHED, True, "new head"),
        (order("review_comment"), {"pull": pull(), "reviews": [], "comments": [comment()]}, True, "answered 1"),
        (
            order("review_comment"),
            {"pull": pull(), "reviews": [], "comments": [comment(author=ANN), comment(created_at=BEFORE)]},
            False,
            "1 comments wait for an answer, and 0 were written",
        ),
        (
            order("review_comment", review_comments=THREADS),
            {"pull": pull(), "reviews": [], "comments": [comment(), comment(id=10)]},
            True,
            "answered 2",
        ),
        (
            order("review_comment", review_comments=THREADS),
            {
                "pull": pull(),
                "reviews": [review("COMMENT"), review("COMMENT", id=None), review("COMMENT", author=ANN)],
                "review_comments": [comment(path="x.py", line=3)],
                "comments": [],
            },
            False,
            "1 comments wait for an answer, and 0",
        ),
        (
            order("review_comment", review_comments=THREADS),
            {
                "pull": pull(),
                "reviews": [review("COMMENT")],
                "review_comments": [comment(path="x.py", line=3), comment(path="x.py", line=9)],
                "comments": [],
            },
            True,
            "answered 2",
        ),
        (issue_order(), {"pulls_since": [pull(body="Closes #4")]}, True, "acme/widgets#5 by Agent-Dev names #4"),
        (issue_order(), {"pulls_since": [pull(body="Closes #41")]}, False, "acme/widgets#5 does not"),
        (issue_order(), {"pulls_since": [pull(body="#4", author=ANN)]}, False, "no pull request by Agent-Dev"),
        (issue_order(), {"pulls_since": [], "open_pulls": [pull(body="#4", created_at=BEFORE)]}, True, "names #4"),
        (issue_order(), {"pulls_since": [pull(body="#4", created_at=BEFORE, is_open=False)]}, False, "no pull request"),
        (issue_order(), {"pulls_since": [pull(body="#4", created_at="", is_open=False)]}, False, "no pull request"),
        (
            issue_order(),
            {"pulls_since": [MERGED.model_copy(update={"body": "#4", "created_at": BEFORE})]},
            True,
            "names #4",
        ),
        (
            issue_order(),
            {"pulls_since": [MERGED.model_copy(update={"body": "#4", "created_at": BEFORE, "merged_at": BEFORE})]},
            False,
            "no pull request",
        ),
        (issue_order(), {"pulls_since": [pull(body="#4", is_open=False)]}, False, "was closed and not merged"),
        (issue_order(), {"pulls_since": [pull(body="#4")], "pull": pull(files=0)}, False, "changes no file"),
        (issue_order(), {"pulls_since": [pull(body="#4")], "pull": None, "files": ()}, False, "changes no file"),
        (issue_order(), {"pulls_since": [pull(body="#4")], "pull": pull(files=2)}, True, "names #4"),
        (order("mention", intent_hint="question"), {"comments": [comment()]}, True, "wrote comment 9"),
        (order("mention"), {"comments": [comment(author=ANN)]}, False, "the last one is ann's"),
        (order("mention"), {"comments": []}, False, f"by Agent-Dev since {SINCE}"),
        (order("mention", intent_hint="fyi"), {}, False, "only the report shows"),
        (order("infrastructure_failure"), {}, False, "nothing at the forge shows"),
    ],
)
def test_what_each_event_demands(wanted: ReadBackOrder, read: dict[str, Any], good: bool, words: str) -> None:
    found = demanded(wanted, facts(**read))
    assert found.good is good
    assert words in found.detail


def status(context: str = "deploy / prod", outcome: Any = "success", at: str = SINCE) -> Status:
    return Status(sha=HEAD, outcome=outcome, context=context, at=at)


@pytest.mark.parametrize(
    ("context", "on_branch", "on_head", "good"),
    [
        ("deploy / prod", [status()], [], True),
        ("deploy", [status()], [], True),
        ("deploy", [status("deployment")], [], False),
        ("deploy", [status(outcome="failure")], [status(outcome="other")], False),
        ("deploy", [], [status()], True),
        ("deploy", [status(), status("deploy / stage", "failure")], [], False),
        ("", [status()], [status()], False),
        ("deploy / prod", [status(at=BEFORE)], [status(at=BEFORE)], False),
        ("deploy / prod", [status(at="")], [], False),
        ("deploy / prod", [], [status(), status("deploy / stage", "failure")], False),
        (
            "deploy / prod",
            [status(), status("deploy / stage", "failure")],
            [status("deploy / stage", "failure")],
            False,
        ),
        ("deploy / prod", [status(), status("deploy / stage")], [status("deploy / stage", "failure")], True),
        ("deploy / prod", [status(), status("deploy / stage", "failure")], [], True),
        ("deploy / prod", [], [status(), status("lint", "failure")], True),
    ],
)
def test_a_deployment_needs_a_success_of_what_failed(
    context: str, on_branch: list[Status], on_head: list[Status], good: bool
) -> None:
    wanted = order("deploy_failure", deploy_context=context, branch="main")
    wanted = replace(wanted, deploys=lambda name: name.startswith("deploy"))
    known = ForgeFacts({ForgeQuery("statuses", REPO, "main"): on_branch, ForgeQuery("statuses", REPO, HEAD): on_head})
    assert demanded(wanted, known).good is good
    assert read_back.is_visible("deploy_failure", wanted.context) is bool(context)


def test_every_action_is_either_seen_at_the_forge_or_passes_by_itself() -> None:
    for action in ACTION_TYPES:
        seen = action in read_back._DEMANDS
        assert seen is (action not in {"review_merged", "infrastructure_failure"})
        assert read_back.is_visible(action, {"deploy_context": "x"})
    assert not read_back.is_visible("mention", {"intent_hint": "fyi"})
    assert demands.decide_demand("mention", "observed", visible=False) == (
        ("read_back", "has_action_report"),
        "claimed",
    )
    assert demands.decide_demand("mention", "transition", visible=False) == demands.decide_demand(
        "mention", "transition"
    )


def test_what_was_not_read_is_asked_for() -> None:
    with pytest.raises(UnreadError) as caught:
        demanded(order("ci_failure"), ForgeFacts())
    assert caught.value.look == ForgeQuery("pull", REPO, "5")
    assert str(caught.value) == "pull acme/widgets 5"


def test_an_order_without_a_number_is_about_nothing() -> None:
    assert ReadBackOrder("mention", DEV, {"number": "x"}).number == 0
    assert ReadBackOrder("mention", DEV, {"number": 3}).number == 3
    assert ReadBackOrder("mention", DEV).repository == ""


# Claims

SAYS: list[tuple[Claim, dict[str, Any], bool, str]] = [
    (Claim("merged"), {"pull": MERGED}, True, "was merged by"),
    (Claim("merged", number=5), {"pull": pull()}, False, "is not merged"),
    (Claim("merged", repository="Acme/Widgets"), {"pull": MERGED}, True, "merged"),
    (Claim("merged", repository="acme/other"), {}, False, "it says acme/other, and the task is about acme/widgets"),
    (Claim("review", verdict="APPROVED", id=3), {"reviews": [review()]}, True, "APPROVED"),
    (Claim("review", id=99), {"reviews": [review()]}, False, "there is no review 99"),
    (Claim("review", verdict="APPROVED"), {"reviews": [review("COMMENT")]}, False, "is COMMENT; APPROVED is"),
    (Claim("review"), {"reviews": [review("COMMENT")]}, True, "COMMENT"),
    (Claim("comment", id=9), {"comments": [comment()]}, True, "wrote comment 9"),
    (Claim("comment", id=1), {"comments": [comment()]}, False, "there is no comment 1"),
    (Claim("comment", id=9), {"comments": [comment(author=ANN)]}, False, "the last one is ann's"),
    (Claim("push", sha=NEW[:8]), PUSHED, True, "new head"),
    (Claim("push"), PUSHED, True, "new head"),
    (Claim("push", sha=OLD), PUSHED, False, "and aaaaaaaaaa was not pushed to it"),
    (Claim("push", sha=OLD), PUSHED | {"compare": None}, False, "was not pushed to it"),
    (Claim("push", sha=OLD), PUSHED | {"compare": Comparison(commits=(OLD, NEW))}, True, "new head"),
    (Claim("push", sha=NEW), {"pull": None}, False, "there is no pull request"),
    (Claim("pull_request", number=5), {"pull": pull()}, True, "is by Agent-Dev, opened at"),
    (Claim("pull_request", number=5), {"pull": pull(created_at="")}, True, "an unknown time"),
    (Claim("pull_request", number=5), {"pull": pull(author=ANN)}, False, "is by ann, not by Agent-Dev"),
    (Claim("pull_request", number=5), {"pull": None}, False, "there is no pull request"),
    (Claim("pull_request"), {}, False, "it names no pull request"),
    (Claim("issue", number=4), {"issue": ForgeIssue(number=4, author=ANN)}, True, "is open"),
    (Claim("issue", number=4, state="closed"), {"issue": ForgeIssue(number=4, author=ANN)}, False, "is open"),
    (Claim("issue", number=4), {"issue": None}, False, "there is no issue"),
    (Claim("deploy", sha="main"), {"statuses": [status()]}, True, "1 of acme/widgets at main are good"),
    (Claim("deploy", sha="main", context="deploy / prod"), {"statuses": [status()]}, True, "deploy / prod"),
    (Claim("deploy", sha="main", context="x"), {"statuses": [status()]}, False, "there is no status 'x'"),
    (Claim("deploy", sha="main"), {"statuses": []}, False, "has no status"),
    (Claim("deploy", sha="main"), {"statuses": [status(outcome="other")]}, False, "is not a success"),
]


@pytest.mark.parametrize(("claim", "read", "good", "words"), SAYS)
def test_each_claim_is_read_back(claim: Claim, read: dict[str, Any], good: bool, words: str) -> None:
    found = read_back.check_claim(order("review_result"), claim, facts(**read))
    assert found.good is good, found
    assert words in found.detail


def test_every_kind_of_claim_is_tried_both_ways() -> None:
    assert {(claim.kind, good) for claim, _, good, _ in SAYS} == {
        (kind, good) for kind in report_claims.KINDS for good in (True, False)
    }


def test_a_push_without_a_pull_request_has_to_be_there() -> None:
    wanted = issue_order()
    known = ForgeFacts(
        {
            ForgeQuery("compare", REPO, f"{NEW}...{NEW}"): Comparison(),
            ForgeQuery("compare", REPO, f"{OLD}...{OLD}"): None,
        }
    )
    assert read_back.check_claim(wanted, Claim("push", sha=NEW), known) == (True, f"{NEW[:10]} is in {REPO}")
    assert read_back.check_claim(wanted, Claim("push", sha=OLD), known) == (False, f"{OLD[:10]} is not in {REPO}")
    assert read_back.check_claim(wanted, Claim("push"), known) == (False, "it names no commit")
    of_pull = facts(pull=pull())
    assert read_back.check_claim(wanted, Claim("push", number=5), of_pull).good, "there was no head before"
    nowhere = ReadBackOrder("deploy_failure", DEV, {"repo": REPO}, "", SINCE)
    assert read_back.check_claim(nowhere, Claim("deploy"), ForgeFacts()) == (False, "it names no commit")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Closes #4", True),
        ("#4: it", True),
        ("(#4)", True),
        ("acme/widgets#4", True),
        ("ACME/Widgets#4.", True),
        ("https://git.example.test/acme/widgets/issues/4", True),
        ("https://git.example.test/acme/widgets/issues/44", False),
        ("other/repo#4", False),
        ("xacme/widgets#4", False),
        ("#44", False),
        ("4", False),
        ("a#4", False),
        ("", False),
    ],
)
def test_a_text_names_an_issue_of_this_repository(text: str, named: bool) -> None:
    assert forge_facts.names_issue(text, REPO, 4) is named


# What it comes to


def decided(action: str, verify: demands.Verify, found: list[Evidence]) -> done.Verdict:
    wanted = demands.decide_demand(action, verify)
    criterion = AcceptanceCriterion.from_values(
        id="carried-out", description="d", evidence_required=wanted.evidence, min_trust=wanted.least
    )
    return done.decide(CompletionPromise.from_values(id="cp-1-aaaa", objective="o", acceptance=(criterion,)), found, ())


def words(*kinds: tuple[str, str, str]) -> list[Evidence]:
    return demands.make_claims([(kind, "dev", type_, body) for kind, type_, body in kinds], AFTER)


REPORT = ("comment", "action_report", "done")
OUTPUT = ("output", "text", "it")
REMARK = ("comment", "general", "x" * 20)


@pytest.mark.shows("T08")
@pytest.mark.parametrize(
    ("verify", "forge", "said", "passed", "code"),
    [
        ("observed", True, [], True, "read_back"),
        ("observed", False, [REPORT, OUTPUT, REMARK], False, "no_action"),
        ("report", False, [REPORT], True, "has_action_report"),
        ("report", False, [OUTPUT, REMARK], False, "no_action"),
        ("report", True, [REPORT], True, "read_back"),
        ("transition", None, [REPORT, OUTPUT, REMARK], True, "has_action_report"),
        ("transition", None, [OUTPUT, REMARK], True, "has_output"),
        ("transition", None, [REMARK], True, "has_comment"),
        ("transition", None, [("comment", "general", "short")], False, "no_action"),
        ("transition", None, [], False, "no_action"),
    ],
)
def test_the_order_of_what_decides(verify: Any, forge: Any, said: Any, passed: bool, code: str) -> None:
    known = facts(pull=MERGED if forge else pull())
    seen = read_back.collect_evidence(order("review_result", result="APPROVED"), NOTHING, known, AFTER)
    found = [*words(*said), *(seen if forge is not None else [])]
    verdict = decided("review_result", verify, found)
    result = read_back.to_result(verdict, found)
    assert (result.passed, result.code, result.trust) == (passed, code, verdict.trust)
    assert verdict.fulfilled is passed
    assert result.infrastructure is False


def test_a_denied_claim_spoils_everything_that_the_agent_says() -> None:
    said = ReportClaims(claims=(Claim("merged"), Claim("comment", id=1)))
    known = facts(pull=MERGED, comments=[])
    found = read_back.collect_evidence(order("review_result", result="APPROVED"), said, known, AFTER)
    assert read_back.is_denied(found)
    assert [(each.id, each.passed) for each in found] == [
        ("claim:merged", True),
        ("claim:comment (id 1)", False),
        ("read_back", False),
    ]
    spoiled = read_back.void_spoiled([*words(REPORT, OUTPUT, REMARK), *found])
    assert [each.id for each in spoiled if each.passed] == ["claim:merged"]
    verdict = decided("review_result", "transition", spoiled)
    result = read_back.to_result(verdict, spoiled)
    assert (result.passed, result.code) == (False, "claim_denied")
    assert result.detail.startswith("the report says comment (id 1), but there is no comment 1")


def test_words_stay_as_they_are_where_nothing_is_denied() -> None:
    assert read_back.void_spoiled(words(REPORT)) == words(REPORT)


def test_an_error_is_never_a_pass_and_an_outage_is_told_apart() -> None:
    for code, outage in ((Code.FORGE_UNREACHABLE, True), (Code.FORGE_REFUSED, False), (None, False)):
        found = [read_back.make_failure_evidence("it broke", code, AFTER)]
        result = read_back.to_result(decided("ci_failure", "observed", found), found)
        assert (result.passed, result.code, result.infrastructure) == (False, "verify_error", outage)
        assert result.detail.endswith("it broke")
        assert read_back.forgive_outages(found, "observed") == found
        [where] = read_back.forgive_outages(found, "claimed")
        assert where.id == ("forge" if outage else "read_back"), "a report will do where reports are taken"
        said = [*words(REPORT), where]
        assert read_back.to_result(decided("ci_failure", "report", said), said).code == "has_action_report"
        assert read_back.to_result(decided("ci_failure", "report", [where]), [where]).code == (
            "no_action" if outage else "verify_error"
        )


def test_a_success_that_was_told_of_is_evidence() -> None:
    found = [read_back.make_deployment_evidence("production", NEW, AFTER)]
    assert read_back.to_result(decided("deploy_failure", "observed", found), found)[:3] == (
        True,
        "read_back",
        f"'production' was deployed at {NEW[:10]}",
    )


def test_what_nobody_can_read_is_denied() -> None:
    found = [read_back.make_denial(ReportClaims(faults=("no",)), AFTER)]
    assert read_back.to_result(None, found)[:3] == (False, "claim_denied", "no")


def test_the_lead_s_word_decides_about_steps_that_were_left_out() -> None:
    said = ReportClaims(declared=(InapplicableStep(1, "frozen"),))
    seen = read_back.collect_evidence(order("ci_failure"), NOTHING, facts(pull=pull()), AFTER)
    yes = read_back.make_lead_evidence(said, seen, by="lead", approved=True, at=AFTER, trust="confirmed")
    no = read_back.make_lead_evidence(said, [], by="lead", approved=False, at=AFTER)
    good = decided("ci_failure", "observed", [*seen, yes])
    assert (good.fulfilled, good.trust) == (True, "confirmed")
    assert read_back.to_result(good, [*seen, yes]).code == "not_applicable"
    bad = read_back.to_result(decided("ci_failure", "observed", [no]), [no])
    assert bad.code == "not_applicable_refused"
    assert bad.detail == "lead does not agree: step 1 (frozen); nothing was read"
    asked = read_back.render_question("lead", "T", said, seen)
    assert asked.startswith("lead: do these steps of 'T' not apply? step 1: frozen. Seen: no_action: the head of")
    assert (
        read_back.render_question("", "T", said, [])
        == "Do these steps of 'T' not apply? step 1: frozen. Seen: the forge was not read"
    )
    shown = read_back.collect_evidence(order("ci_failure"), NOTHING, facts(**PUSHED), AFTER)
    assert shown[-1].passed
    assert not any(each.passed for each in read_back.void_spoiled([*words(REPORT), *shown, no])), "a no is a no"


def test_words_that_look_like_a_code_are_none() -> None:
    said = Evidence("read_back", False, True, "observed", "forge", AFTER, "unapproved_merge: dev merged it")
    assert not read_back.is_beyond_repair([said])
    assert not read_back.is_denied([said])
    assert read_back.to_result(None, [said])[:3] == (False, "no_action", "there is no report, no output and no comment")
    coded = replace(said, code="unapproved_merge")
    assert read_back.is_beyond_repair([coded])
    assert read_back.to_result(None, [coded])[:3] == (False, "unapproved_merge", "dev merged it")


def test_an_outage_is_known_by_its_error_and_not_by_its_words() -> None:
    away = read_back.make_failure_evidence("it does not answer", Code.FORGE_UNREACHABLE, AFTER)
    assert read_back.to_result(None, [away])[:] == (
        False, "verify_error", "FORGE_UNREACHABLE: it does not answer", None, True,
    )  # fmt: skip
    other = read_back.make_failure_evidence("FORGE_UNREACHABLE: so it says", None, AFTER)
    assert not read_back.to_result(None, [other]).infrastructure


def test_a_pass_of_another_kind_is_told_without_words() -> None:
    verdict = done.Verdict(True, trust="observed")
    assert read_back.to_result(verdict, []) == (True, "read_back", "", "observed", False)
    ended = Evidence("turn_ended", True, True, "observed", "engine", AFTER, "the agent ended its turn")
    assert read_back.to_result(verdict, [ended])[1:3] == ("turn_ended", "the agent ended its turn")


texts = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 99) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("number", "id", "sha", "repo", "verdict", "step", "reason", "state", "context")),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
documents = st.lists(
    st.dictionaries(st.sampled_from((*report_claims.KINDS, "not_applicable", "type", "other")), values, max_size=3)
    | values,
    max_size=4,
)


@given(documents, st.booleans())
def test_no_report_makes_done_what_the_forge_does_not_show(said: list[Any], merged: bool) -> None:
    """Whatever an agent writes: with `observed` a task is done only if the forge shows it."""
    known: dict[ForgeQuery, Any] = {}
    wanted = order("review_result", result="APPROVED")
    read = report_claims.read_reports(said, 3)
    while True:
        try:
            found = read_back.collect_evidence(wanted, read, ForgeFacts(known), AFTER)
            break
        except UnreadError as missing:
            merge = Commit(sha=MERGE, parents=(OLD, HEAD))
            there = {"pull": MERGED if merged else pull(), "head": HEAD, "commit": merge}
            known[missing.look] = there.get(missing.look.what)
    everything = read_back.void_spoiled([*words(REPORT, OUTPUT, REMARK), *found])
    verdict = decided("review_result", "observed", everything)
    assert not verdict.fulfilled or merged
    if not said:
        assert verdict.fulfilled is merged
    result = read_back.to_result(verdict, everything)
    assert result.passed is verdict.fulfilled
    assert all("\0" not in each.detail and "\n" not in each.detail for each in everything)


@pytest.mark.mends("E1")
@pytest.mark.parametrize(
    ("action", "result", "read", "words"),
    [
        ("review_result", "APPROVED", {}, ""),
        ("review_result", "APPROVED", {"reviews": [review("REQUEST_CHANGES", author=ANN)]}, "against ann, who asks"),
        ("review_result", "APPROVED", {"head": NEW}, "does not show which head that was"),
        (
            "review_result",
            "APPROVED",
            {"head": NEW, "commit": Commit(sha=MERGE, parents=(OLD,))},
            "without an approval",
        ),
        ("review_result", "APPROVED", {"reviews": [review(author=ANN, dismissed=True)]}, "without an approval"),
        ("ci_failure", None, {"reviews": [review(author=ANN)], "head": HEAD}, ""),
        ("ci_failure", None, {"reviews": [review(author=ANN, commit=OLD)]}, "without an approval"),
        ("ci_failure", None, {"reviews": [review(author=ANN, dismissed=True)]}, "without an approval"),
        ("ci_failure", None, {"reviews": [review()]}, "without an approval"),  # one's own
        ("review_comment", None, {"reviews": [review("COMMENT", author=ANN)]}, "without an approval"),
        ("review_request", None, {"reviews": []}, ""),  # a reviewer's task is the review
    ],
)
def test_who_merges_against_the_reviewers_has_done_nothing(
    action: str, result: str | None, read: dict[str, Any], words: str
) -> None:
    known = facts(**{"pull": MERGED, "reviews": [], **read})
    for sha in (HEAD, NEW):
        known = ForgeFacts({**known.read, ForgeQuery("commit", REPO, sha): None})
    found = read_back.collect_evidence(order(action, result=result), NOTHING, known, AFTER)
    wanted = order(action, result=result)
    broken = forge_facts.explain_unapproved(known, REPO, 5, DEV, Approval(HEAD) if result == "APPROVED" else Approval())
    if not words:
        assert broken == "" or action == "review_request"
        assert not read_back.is_beyond_repair(found)
        return
    assert words in broken
    [only] = found
    assert (only.passed, only.detail) == (False, f"unapproved_merge: {broken}")
    assert read_back.is_beyond_repair(found)
    assert read_back.is_denied(found)
    assert read_back.to_result(None, found).code == "unapproved_merge"
    others = ForgeFacts({**known.read, ForgeQuery("pull", REPO, "5"): MERGED.model_copy(update={"merged_by": ANN})})
    assert forge_facts.explain_unapproved(others, wanted.repository, 5, DEV) == "", (
        "what somebody else merged is not judged"
    )
    assert forge_facts.explain_unapproved(facts(pull=None), REPO, 5, DEV) == ""


@pytest.mark.parametrize(
    ("read", "rests_on", "good"),
    [
        ({}, OLD, True),
        ({"compare": Comparison(commits=(OLD,))}, OLD, False),
        ({"compare": None}, OLD, False),
        ({"branch": ForgeBranch(name="large")}, OLD, False),
        ({}, "", False),
        (
            {"pull": MERGED.model_copy(update={"merge_sha": HEAD}), "commit": Commit(sha=HEAD, parents=(OLD,))},
            OLD,
            False,
        ),
    ],
)
def test_an_approval_holds_for_another_branch_only_when_its_own_has_gone_into_it(
    read: dict[str, Any], rests_on: str, *, good: bool
) -> None:
    there = {"pull": MERGED, "head": HEAD, "commit": Commit(sha=MERGE, parents=(NEW, HEAD)), "branch": None}
    there |= {"reviews": [review(author=ANN)], "compare": Comparison(commits=()), **read}
    known: dict[ForgeQuery, Any] = {}
    for _ in range(9):
        try:
            told = Approval(HEAD, "large", rests_on)
            found = forge_facts.explain_unapproved(ForgeFacts(known), REPO, 5, DEV, told)
            break
        except UnreadError as missing:
            known[missing.look] = there[missing.look.what]
    assert (found == "", "it was approved for large" in found) == (good, not good)


def test_a_remark_of_a_review_is_a_question_to_the_author_alone() -> None:
    asked = comment(id=7, author=ANN, created_at=SINCE, body="@agent-dev why? And @agent-ops?")
    remark = review("COMMENT", author=ANN, submitted_at=AFTER)
    read = {"pull": pull(), "comments": [asked, comment(created_at=LATER)], "reviews": [remark]}
    known = ForgeFacts({**facts(**read).read, ForgeQuery("review_comments", REPO, "5/3"): ()})
    wanted = order("mention", source_type="pull_request_comment", source_url="x#issuecomment-7")
    assert not demanded(wanted, known).good, "it answers the remark, which came later"
    others = replace(wanted, account=ANN)
    theirs = ForgeFacts({**known.read, ForgeQuery("comments", REPO, "5"): [comment(author=ANN, created_at=LATER)]})
    assert demanded(others, theirs).good


@pytest.mark.parametrize("reviewed", [True, False])
@pytest.mark.parametrize("approved", [True, False])
def test_what_an_issue_asks_for_is_not_merged_unreviewed_where_another_reviews(
    *, reviewed: bool, approved: bool
) -> None:
    own = MERGED.model_copy(update={"title": "For #4", "files": 1})
    known = facts(pull=own, pulls_since=(own,), reviews=[review(author=ANN)] if approved else [])
    found = read_back.collect_evidence(replace(issue_order(), reviewed=reviewed), NOTHING, known, AFTER)
    assert read_back.is_beyond_repair(found) is (reviewed and not approved)
    assert found[-1].passed is (approved or not reviewed)
