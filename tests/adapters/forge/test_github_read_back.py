"""What agents did is read back from GitHub as from the others: answers as its API writes them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from agenttalk.adapters.forge import fields
from agenttalk.adapters.forge.client import ForgeClient
from agenttalk.adapters.forge.github import GitHub
from agenttalk.adapters.forge.read_back import read_until_decided
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.contracts.forge import ForgeUser
from agenttalk.rules.toolchain import forge_facts
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeFinding, ForgeQuery
from agenttalk.rules.toolchain.read_back import ReadBackOrder, check_demand

OLD, NEW = "a" * 40, "b" * 40
SINCE, BEFORE, AFTER = "2026-05-02T10:00:00Z", "2026-05-02T09:59:59Z", "2026-05-02T10:20:00Z"
DEV, OTHER = {"id": 7, "login": "Agent-Dev"}, {"id": 8, "login": "somebody"}
ACCOUNT = ForgeUser(source="hub", login="agent-dev")
Answers = dict[str, Any]
MERGE = "d" * 40


def tree(blob: str) -> dict[str, Any]:
    entry = {"path": "x.py", "mode": "100644", "type": "blob", "size": 30, "sha": blob * 40}
    return {"sha": blob * 40, "tree": [entry], "truncated": False}


def commit(sha: str, *parents: str, message: str = "Merge", date: str = "2026-05-02T10:10:00Z") -> dict[str, Any]:
    """As `GET /repos/{owner}/{repo}/commits/{ref}` writes it, as far as it is read."""
    person = {"name": "Dev", "email": "dev@example.test", "date": date}
    words = {"author": person, "committer": person, "message": message, "tree": {"sha": "e" * 40}}
    return {
        "sha": sha,
        "commit": words,
        "author": DEV,
        "committer": DEV,
        "parents": [{"sha": each} for each in parents],
    }


def activity(actor: dict[str, Any], after: str, kind: str = "push") -> dict[str, Any]:
    """As `GET /repos/{owner}/{repo}/activity` writes it."""
    told = {"id": 1, "node_id": "x", "before": OLD, "after": after, "ref": "refs/heads/fix"}
    return {**told, "timestamp": AFTER, "activity_type": kind, "actor": actor}


USUAL: Answers = {
    "": {"id": 1, "full_name": "acme/shop"},
    f"git/trees/{OLD}": tree("1"),
    f"git/trees/{NEW}": tree("2"),
    f"commits/{MERGE}": commit(MERGE, OLD, NEW),
}
"""What every repository has here: itself, the files of two commits, and a merge."""


def pull(**more: Any) -> dict[str, Any]:
    at = {"created_at": AFTER, "updated_at": AFTER}
    head, base = (
        {"ref": "fix", "sha": NEW, "repo": {"id": 1, "full_name": "acme/shop"}},
        {"ref": "main", "sha": OLD, "repo": {"id": 1}},
    )
    return {
        "number": 5,
        "user": DEV,
        "title": "x",
        "body": "",
        "state": "open",
        "head": head,
        "base": base,
        **at,
        **more,
    }


def review(**more: Any) -> dict[str, Any]:
    return {"id": 1, "user": DEV, "state": "APPROVED", "body": "", "commit_id": NEW, "submitted_at": AFTER, **more}


def seen(action: str, answers: Answers, *, head: str = NEW, number: str = "pr_number", **context: Any) -> ForgeFinding:
    """What is found at a GitHub that has these answers, by their paths, and nothing else."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        path = request.url.path.removeprefix("/repos/acme/shop").removeprefix("/")
        known = USUAL | answers
        if path not in known:
            return httpx2.Response(404, json={"message": "Not Found"})
        return httpx2.Response(200, json=known[path])

    async def scene() -> ForgeFinding:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api.forge.test/") as client:
            order = ReadBackOrder(action, ACCOUNT, {"repo": "acme/shop", number: 5, **context}, head, SINCE)
            return await read_until_decided(
                GitHub("hub", ForgeClient(client)), lambda facts: check_demand(order, facts)
            )

    return asyncio.run(scene())


@pytest.mark.shows("T19")
@pytest.mark.parametrize(
    ("given", "good"),
    [
        (review(), True),
        (review(state="CHANGES_REQUESTED"), True),
        (review(state="COMMENTED"), False),
        (review(state="DISMISSED"), False),
        (review(state="PENDING", submitted_at=None), False),
        (review(user=OTHER), False),
        (review(submitted_at=BEFORE), False),
        (review(commit_id=OLD), False),
    ],
)
@pytest.mark.parametrize("action", ["review_request", "review_updated"])
def test_a_review_counts_on_its_head_after_the_event_by_its_account(
    action: str, given: dict[str, Any], *, good: bool
) -> None:
    assert seen(action, {"pulls/5": pull(), "pulls/5/reviews": [review(user=OTHER), given]}).good is good


@pytest.mark.parametrize(
    ("given", "good"),
    [
        (pull(state="closed", merged=True, merged_by=DEV, merge_commit_sha=MERGE), True),
        (pull(state="closed", merged=True, merged_by=OTHER, merge_commit_sha=MERGE), False),
        (pull(state="closed", merged=False), False),
        (pull(), False),
    ],
)
def test_an_approved_pull_request_is_merged_by_its_author(given: dict[str, Any], *, good: bool) -> None:
    assert seen("review_result", {"pulls/5": given}, result="APPROVED").good is good


REBASED = "f" * 40


@pytest.mark.mends("E1")
@pytest.mark.parametrize(
    ("commits", "head"),
    [
        ([commit(MERGE, OLD, NEW)], NEW),
        ([commit(MERGE, OLD)], NEW),  # squashed, or rebased: the pull request's own head tells
        ([commit(MERGE, OLD, REBASED), commit(REBASED, OLD, message="x"), commit(NEW, OLD, message="x")], NEW),
        ([commit(MERGE, OLD, REBASED), commit(REBASED, OLD, message="y"), commit(NEW, OLD, message="x")], ""),
        ([commit(MERGE, OLD, REBASED), commit(NEW, OLD)], ""),
        ([], ""),
    ],
)
def test_the_merged_head_is_what_the_commits_do_not_contradict(commits: list[dict[str, Any]], head: str) -> None:
    known = {ForgeQuery("commit", "acme/shop", each["sha"]): fields.read_commit(each) for each in commits}
    for sha in (MERGE, NEW, REBASED):
        known.setdefault(ForgeQuery("commit", "acme/shop", sha), None)  # type: ignore[arg-type]
    there: dict[ForgeQuery, Any] = {**known, ForgeQuery("head", "acme/shop", "5"): NEW}
    given = pull(state="closed", merged=True, merged_by=DEV, merge_commit_sha=MERGE)
    found = fields.read_pull_request(given, "hub", wip_titles=False)
    assert forge_facts.find_merged_head(ForgeFacts(there), "acme/shop", found) == head
    unknown = found.model_copy(update={"merge_sha": ""})
    assert forge_facts.find_merged_head(ForgeFacts(there), "acme/shop", unknown) == ""
    without = ForgeFacts({**there, ForgeQuery("head", "acme/shop", "5"): None})
    parents = commits[0]["parents"] if commits else []
    assert forge_facts.find_merged_head(without, "acme/shop", found) == (parents[1]["sha"] if len(parents) > 1 else "")


@pytest.mark.parametrize(
    ("commits", "pushed", "good"),
    [
        ([{"sha": NEW, "author": DEV, "committer": DEV}], None, True),
        ([{"sha": NEW, "author": None, "committer": None}], None, True),  # an address that no account has
        ([{"sha": NEW, "author": OTHER, "committer": OTHER}], None, False),
        ([{"sha": NEW, "author": OTHER, "committer": OTHER}], [activity(DEV, NEW)], True),  # whoever's address it is
        ([{"sha": NEW, "author": DEV, "committer": DEV}], [activity(OTHER, NEW, "force_push")], False),
        ([{"sha": NEW, "author": DEV, "committer": DEV}], [activity(OTHER, OLD)], True),
        ([], None, False),
    ],
)
@pytest.mark.parametrize(("action", "result"), [("review_result", "REQUEST_CHANGES"), ("ci_failure", None)])
def test_changes_are_a_new_head_that_is_not_only_others(
    action: str, result: str | None, commits: list[Any], pushed: list[Any] | None, *, good: bool
) -> None:
    answers: Answers = {"pulls/5": pull(), f"compare/{OLD}...{NEW}": {"commits": commits, "files": []}}
    answers |= {} if pushed is None else {"activity": pushed}
    assert seen(action, answers, head=OLD, result=result).good is good
    assert not seen(action, {**answers, f"git/trees/{NEW}": tree("1")}, head=OLD, result=result).good, "nothing differs"
    assert not seen(action, {"pulls/5": pull(head={"sha": OLD})}, head=OLD, result=result).good


@pytest.mark.parametrize(
    ("given", "good"),
    [
        (pull(number=9, title="Mend it, closes #5"), True),
        (pull(number=9, body="acme/shop#5", state="closed", merged_at=AFTER), True),
        (pull(number=9, body="acme/shop#5", state="closed"), False),
        (pull(number=9, title="#55"), False),
        (pull(number=9, title="#5", user=OTHER), False),
        (pull(number=9, title="#5", created_at=BEFORE), True),
        (pull(number=9, title="#5", created_at=BEFORE, state="closed", merged_at=BEFORE), False),
        (pull(number=9, title="#5", changed_files=0), False),
    ],
)
def test_an_issue_is_carried_out_by_a_pull_request_that_names_it(given: dict[str, Any], *, good: bool) -> None:
    answers = {"pulls": [given], "pulls/9": {"changed_files": 1, **given}}
    assert seen("issue_assigned", answers, number="issue_number").good is good


def test_only_newer_pull_requests_are_read() -> None:
    asked: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(str(request.url))
        page = [pull(number=9), pull(number=3, updated_at=BEFORE)]
        return httpx2.Response(200, json=page, headers={"Link": '<https://api.forge.test/next>; rel="next"'})

    async def scene() -> list[int]:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api.forge.test/") as client:
            found = await GitHub("hub", ForgeClient(client)).pulls.list_since("acme/shop", SINCE)
            return [each.number for each in found]

    assert (asyncio.run(scene()), len(asked)) == ([9], 1)
    assert {"state=all", "sort=updated", "direction=desc"} <= set(asked[0].partition("?")[2].split("&"))


@pytest.mark.parametrize(("by", "at", "good"), [(DEV, AFTER, True), (OTHER, AFTER, False), (DEV, BEFORE, False)])
def test_a_call_is_answered_by_a_comment_of_whoever_was_called(by: dict[str, Any], at: str, *, good: bool) -> None:
    comment = {"id": 3, "user": by, "body": "Forty.", "created_at": at}
    answers = {"issues/5/comments": [comment]}
    assert seen("mention", answers, number="issue_number", intent_hint="question").good is good


@pytest.mark.parametrize("as_check", [True, False])
@pytest.mark.parametrize(
    ("outcome", "at", "good"),
    [("success", AFTER, True), ("success", BEFORE, False), ("failure", AFTER, False), (None, AFTER, False)],
)
def test_a_deployment_is_mended_by_a_later_success_of_its_context(
    outcome: str | None, at: str, *, good: bool, as_check: bool
) -> None:
    run = {"name": "deploy", "conclusion": outcome, "completed_at": at, "app": {"id": 1, "slug": "github-actions"}}
    status = {"context": "deploy", "state": outcome, "updated_at": at, "creator": OTHER}
    statuses, runs = ([], [run]) if as_check else ([status], [])
    answers = {"commits/main/statuses": statuses, "commits/main/check-runs": {"check_runs": runs}}
    assert seen("deploy_failure", answers, head="", deploy_context="deploy", branch="main").good is good
    unsigned = {name: value for name, value in status.items() if name != "creator"}
    answers = {"commits/main/statuses": [unsigned] if statuses else [], "commits/main/check-runs": {"check_runs": []}}
    assert not seen("deploy_failure", answers, head="", deploy_context="deploy", branch="main").good, "nobody's word"


@pytest.mark.mends("E11")
def test_what_an_agent_says_of_its_own_work_is_no_success_and_hides_no_service_s_word() -> None:
    def status(state: str, who: dict[str, Any], context: str = "deploy") -> dict[str, Any]:
        return {"context": context, "state": state, "updated_at": AFTER, "creator": who}

    app = {"name": "lint", "conclusion": "success", "completed_at": AFTER, "app": {"slug": "agent-app"}}
    listed = [
        status("success", DEV),
        status("failure", OTHER),
        status("success", DEV, "own"),
        status("error", DEV, "x"),
    ]

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, json={"check_runs": [app]} if "check-runs" in request.url.path else listed)

    async def scene() -> dict[str, str]:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api.forge.test/") as client:
            names = {"agent-dev", "agent-app[bot]"}
            forge = GitHub("hub", ForgeClient(client), is_agent=lambda user: user.login.lower() in names)
            return {each.context: each.outcome for each in await forge.repositories.list_statuses("acme/shop", NEW)}

    assert asyncio.run(scene()) == {"deploy": "failure", "lint": "other", "own": "other", "x": "failure"}


@pytest.mark.mends("E4")
@pytest.mark.parametrize("status", [404, 401, 403])
def test_a_repository_that_the_token_does_not_see_is_an_error_of_nobody_who_worked(status: int) -> None:
    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status, json={"message": "Not Found"})

    async def scene() -> None:
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api.forge.test/") as client:
            order = ReadBackOrder("ci_failure", ACCOUNT, {"repo": "acme/shop", "pr_number": 5}, OLD, SINCE)
            await read_until_decided(GitHub("hub", ForgeClient(client)), lambda facts: check_demand(order, facts))

    with pytest.raises(ForgeError, match="does not see acme/shop") as caught:
        asyncio.run(scene())
    assert caught.value.code is Code.FORGE_UNSEEN
