"""Clients of forges, against a fake Gitea and, when one is named, against a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from adapters.forge.bench import QUICK, REAL, Bench, forge
from agenttalk.adapters.forge.api import ForgeApi
from agenttalk.adapters.forge.client import ForgeClient, RetryPolicy
from agenttalk.adapters.forge.gitea import DIALECT, Gitea, GiteaPullRequests
from agenttalk.adapters.forge.github import GitHub
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.ports.forge import Forge
from agenttalk.testing import ForgeFault

Scene = Callable[[Bench], Awaitable[None]]
KINDS = [
    "fake",
    pytest.param("real", marks=pytest.mark.skipif(not REAL, reason="no real Gitea: set AGENTTALK_GITEA_URL")),
]


def play(folder: Path, scene: Scene, kind: str = "fake", **options: Any) -> None:
    async def run() -> None:
        async with forge(folder, kind, **options) as bench:
            await scene(bench)

    asyncio.run(run())


async def code_of(asked: Awaitable[object]) -> Code:
    with pytest.raises(ForgeError) as caught:
        await asked
    return caught.value.code


@pytest.mark.parametrize("kind", KINDS)
def test_a_pull_request_is_opened_reviewed_and_merged(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench) -> None:
        repository = bench.repository
        await bench.write("feat/retry", "src/a.py")
        async with bench.client("author") as author, bench.client("reviewer") as reviewer:
            assert (await author.account.read_user()).login == bench.login("author")
            pull = await author.pulls.create(repository, "Add retry", "Closes #9", head="feat/retry", base="main")
            assert (pull.is_open, pull.merged, pull.draft, pull.fork) == (True, False, False, False)
            assert await author.pulls.read(repository, pull.number) == pull
            assert [each.number for each in await author.pulls.list_open(repository)] == [pull.number]
            assert await author.pulls.list_files(repository, pull.number) == ("src/a.py",)
            assert (await author.repositories.compare(repository, "main", "feat/retry")).commits == (pull.head_sha,)
            given = await reviewer.pulls.submit_review(repository, pull.number, "REQUEST_CHANGES", "no", pull.head_sha)
            await reviewer.pulls.submit_review(repository, pull.number, "APPROVED", "yes", pull.head_sha)
            seen = await author.pulls.list_reviews(repository, pull.number)
            assert [(each.verdict, each.body, each.commit) for each in seen] == [
                ("REQUEST_CHANGES", "no", pull.head_sha),
                ("APPROVED", "yes", pull.head_sha),
            ]
            assert given.id == seen[0].id
            assert await code_of(author.pulls.merge(repository, pull.number, "0" * 40)) is Code.FORGE_CONFLICT
            assert await author.pulls.merge(repository, pull.number, pull.head_sha) == "merged"
            assert (await author.pulls.read(repository, pull.number)).merged
            # Whoever asks again, because no answer came, hears that it is done.
            assert await author.pulls.merge(repository, pull.number, pull.head_sha) == "merged"
            assert await author.pulls.list_open(repository) == ()

    play(tmp_path, scene, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_forge_refuses_has_a_code_that_says_what_to_do(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench) -> None:
        repository = bench.repository
        await bench.write("feat/a", "README.md.a")
        await bench.write("feat/b", "README.md.a", "other\n")
        async with bench.client("author") as author, bench.client("reader") as reader:
            first = await author.pulls.create(repository, "WIP: a", "", head="feat/a", base="main")
            second = await author.pulls.create(repository, "b", "", head="feat/b", base="main")
            assert (await author.pulls.read(repository, first.number)).draft
            own = author.pulls.submit_review(repository, first.number, "APPROVED", "mine", first.head_sha)
            assert await code_of(own) is Code.FORGE_REFUSED
            empty = reader.pulls.submit_review(repository, first.number, "REQUEST_CHANGES", "", first.head_sha)
            assert await code_of(empty) is Code.FORGE_REFUSED
            assert await code_of(author.pulls.merge(repository, first.number, first.head_sha)) in {
                Code.FORGE_REFUSED,
                Code.FORGE_NOT_READY,
            }
            assert await code_of(author.issues.comment(repository, 999, "hello")) is Code.FORGE_MISSING
            assert await code_of(author.pulls.read(repository, 999)) is Code.FORGE_MISSING
            assert await code_of(author.issues.read("nobody/nothing", 1)) is Code.FORGE_MISSING
            assert await code_of(author.issues.read("no-repository", 1)) is Code.FORGE_MISSING
            assert await author.pulls.merge(repository, second.number, second.head_sha) == "merged"

    play(tmp_path, scene, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_issues_comments_and_statuses_are_written_and_read(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench) -> None:
        repository, reviewer = bench.repository, bench.login("reviewer")
        async with bench.client("author") as author, bench.client("reader") as reader:
            issue = await author.issues.create(repository, "Crash", "It crashes.", [reviewer])
            assert [each.login for each in issue.assignees] == [reviewer]
            dropped = await reader.issues.create(repository, "Another", "", [reviewer])
            assert dropped.assignees == ()
            assert [each.number for each in await author.issues.list_open(repository)].count(issue.number) == 1
            assert (await author.issues.assign(repository, issue.number, [])).assignees == ()
            written = await reader.issues.comment(repository, issue.number, "你好 🙂 @somebody")
            assert [each.body for each in await author.issues.list_comments(repository, issue.number)] == [
                "你好 🙂 @somebody"
            ]
            assert written.author.login == bench.login("reader")
            sha = (await author.repositories.compare(repository, "main", "main")).commits or ()
            assert sha == ()
            await bench.write("feat/s", "s.txt")
            pull = await author.pulls.create(repository, "s", "", head="feat/s", base="main")
            for state in ("pending", "failure", "success"):
                body = {"state": state, "context": "ci", "description": state}
                await bench.call("author", "POST", f"/repos/{repository}/statuses/{pull.head_sha}", body)
            await bench.call(
                "author", "POST", f"/repos/{repository}/statuses/{pull.head_sha}", {"state": "error", "context": "lint"}
            )
            found = await author.repositories.list_statuses(repository, pull.head_sha)
            assert [(each.context, each.outcome) for each in found] == [("ci", "success"), ("lint", "failure")]

    play(tmp_path, scene, kind)


def test_long_lists_are_read_page_by_page_however_small_the_pages(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        async with bench.client("author") as author:
            for number in range(7):
                await author.issues.create(bench.repository, f"issue {number}", "")
            assert [each.title for each in await author.issues.list_open(bench.repository)] == [
                f"issue {n}" for n in range(7)
            ]

    play(tmp_path, scene, page=3)


def test_comments_on_lines_are_read_with_their_review(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.write("feat/c", "c.py")
        async with bench.client("author") as author, bench.client("reviewer") as reviewer:
            pull = await author.pulls.create(bench.repository, "c", "", head="feat/c", base="main")
            where = f"/repos/{bench.repository}/pulls/{pull.number}/reviews"
            line = {"path": "c.py", "body": "rename this", "new_position": 1}
            await bench.call("reviewer", "POST", where, {"event": "COMMENT", "comments": [line]})
            await bench.call("reviewer", "POST", where, {"event": "", "body": "a draft"})
            [review] = await author.pulls.list_reviews(bench.repository, pull.number)
            assert (review.verdict, review.body) == ("COMMENT", "")
            [comment] = await author.pulls.list_review_comments(bench.repository, pull.number, review.id or 0)
            assert (comment.path, comment.body) == ("c.py", "rename this")
            assert len(await reviewer.pulls.list_reviews(bench.repository, pull.number)) == 1

    play(tmp_path, scene)


def test_a_review_that_stayed_a_draft_is_told(tmp_path: Path) -> None:
    wrong = replace(DIALECT, events={"APPROVED": "APPROVE", "REQUEST_CHANGES": "", "COMMENT": ""})

    async def scene(bench: Bench) -> None:
        await bench.write("feat/d", "d.py")
        async with bench.client("author") as author:
            pull = await author.pulls.create(bench.repository, "d", "", head="feat/d", base="main")
        token = bench.tokens[bench.login("reviewer")]
        async with Gitea.connect("work", bench.url, token, patience=QUICK) as reviewer:
            pulls = GiteaPullRequests(ForgeApi("work", reviewer.client, wrong))
            asked = pulls.submit_review(bench.repository, pull.number, "APPROVED", "yes", pull.head_sha)
            assert await code_of(asked) is Code.FORGE_ANSWER_INVALID

    play(tmp_path, scene)


def test_while_the_forge_works_out_conflicts_it_is_not_ready(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        assert bench.fake
        await bench.write("feat/e", "e.py")
        async with bench.client("author") as author:
            pull = await author.pulls.create(bench.repository, "e", "", head="feat/e", base="main")
            kept = bench.fake.state.repository(*bench.repository.split("/"))
            kept.still_checking.add(pull.number)
            assert (
                await code_of(author.pulls.merge(bench.repository, pull.number, pull.head_sha)) is Code.FORGE_NOT_READY
            )
            kept.still_checking.clear()
            assert await author.pulls.merge(bench.repository, pull.number, pull.head_sha) == "merged"

    play(tmp_path, scene)


def test_a_conflict_in_the_files_is_a_conflict(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        await bench.write("feat/f", "f.py", "one\n")
        await bench.write("feat/g", "f.py", "two\n")
        async with bench.client("author") as author:
            one = await author.pulls.create(bench.repository, "f", "", head="feat/f", base="main")
            two = await author.pulls.create(bench.repository, "g", "", head="feat/g", base="main")
            await author.pulls.merge(bench.repository, one.number, one.head_sha)
            assert await code_of(author.pulls.merge(bench.repository, two.number, two.head_sha)) is Code.FORGE_CONFLICT

    play(tmp_path, scene)


def test_reading_goes_on_when_the_forge_comes_back(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        assert bench.fake
        async with bench.client("author") as author:
            for kind, times in (("status", 2), ("silent", 1), ("cut", 1)):
                bench.fake.faults[:] = [ForgeFault(kind, path="/user", status=503, times=times)]  # type: ignore[arg-type]
                patient = RetryPolicy(answer=0.3, tries=3, pause=0.01)
                async with bench.client("author", patient) as client:
                    assert (await client.account.read_user()).login == bench.login("author")
            bench.fake.faults[:] = [ForgeFault("status", path="/user", status=502, times=3)]
            assert await code_of(author.account.read_user()) is Code.FORGE_UNREACHABLE
            bench.fake.faults.clear()
            async with bench.fake.down():
                assert await code_of(author.account.read_user()) is Code.FORGE_UNREACHABLE
            assert await author.account.read_user()

    play(tmp_path, scene)


@pytest.mark.parametrize("kind", ["applied_then_silent", "applied_then_status", "cut"])
def test_a_change_without_an_answer_is_in_doubt_and_is_not_made_twice(tmp_path: Path, kind: Any) -> None:
    async def scene(bench: Bench) -> None:
        assert bench.fake
        async with bench.client("author", RetryPolicy(answer=0.3, pause=0.01)) as author:
            issue = await author.issues.create(bench.repository, "Crash", "")
            bench.fake.faults.append(ForgeFault(kind, method="POST", path="/comments", status=502))
            asked = author.issues.comment(bench.repository, issue.number, "once")
            assert await code_of(asked) is Code.FORGE_IN_DOUBT
            assert [each.body for each in await author.issues.list_comments(bench.repository, issue.number)] == ["once"]

    play(tmp_path, scene)


def test_a_forge_that_wants_a_pause_gets_it_and_a_long_one_is_told(tmp_path: Path) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def scene(bench: Bench) -> None:
        assert bench.fake
        token = bench.tokens[bench.login("author")]
        async with Gitea.connect("work", bench.url, token, sleep=sleep) as author:
            limited = ForgeFault("status", method="POST", status=429, headers={"Retry-After": "7"})
            bench.fake.faults.append(limited)
            issue = await author.issues.create(bench.repository, "Crash", "")
            assert (issue.number, pauses) == (1, [7.0])
            bench.fake.faults.append(ForgeFault("status", status=403, headers={"Retry-After": "3600"}))
            with pytest.raises(ForgeError) as caught:
                await author.account.read_user()
            assert (caught.value.code, caught.value.retry_after, pauses) == (Code.FORGE_LIMITED, 3600.0, [7.0])

    play(tmp_path, scene)


def test_a_wrong_token_is_refused_and_never_shown(tmp_path: Path) -> None:
    async def scene(bench: Bench) -> None:
        async with Gitea.connect("work", bench.url, "s3cr3t-token", patience=QUICK) as nobody:
            with pytest.raises(ForgeError) as caught:
                await nobody.account.read_user()
            assert (caught.value.code, caught.value.status) == (Code.FORGE_REFUSED, 401)
            assert "s3cr3t" not in f"{caught.value.message} {caught.value.hint} {caught.value.__cause__}"

    play(tmp_path, scene)


def answering(*answers: Any) -> tuple[httpx2.AsyncClient, list[httpx2.Request]]:
    """A client whose forge gives these answers, one after the other."""
    seen: list[httpx2.Request] = []
    left = list(answers)

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        given = left.pop(0) if len(left) > 1 else left[0]
        return given if isinstance(given, httpx2.Response) else httpx2.Response(200, json=given)

    return httpx2.AsyncClient(base_url="https://forge.test", transport=httpx2.MockTransport(answer)), seen


@pytest.mark.parametrize(
    "answer",
    [
        httpx2.Response(200, content=b"<html>"),
        httpx2.Response(200, content=b""),
        httpx2.Response(200, json=[1]),
        httpx2.Response(200, json={}),
        httpx2.Response(200, json={"id": 1}),
        httpx2.Response(200, content=b"[" * 100_000),
    ],
)
def test_answers_that_cannot_be_read_are_told(answer: httpx2.Response) -> None:
    async def scene() -> None:
        for forge_ in (Gitea, GitHub):
            client, _ = answering(answer)
            asked: Forge = forge_("work", ForgeClient(client))
            assert await code_of(asked.account.read_user()) is Code.FORGE_ANSWER_INVALID
            assert await code_of(asked.pulls.read("a/b", 1)) is Code.FORGE_ANSWER_INVALID

    asyncio.run(scene())


def test_an_answer_without_end_is_cut_off() -> None:
    async def scene() -> None:
        client, _ = answering(httpx2.Response(200, content=b" " * (33 * 1024 * 1024)))
        assert await code_of(Gitea("work", ForgeClient(client)).account.read_user()) is Code.FORGE_ANSWER_INVALID

    asyncio.run(scene())


def test_redirects_are_not_followed_with_our_token() -> None:
    async def scene() -> None:
        client, seen = answering(httpx2.Response(301, headers={"Location": "https://elsewhere.test/"}))
        assert await code_of(Gitea("work", ForgeClient(client)).account.read_user()) is Code.FORGE_REFUSED
        assert len(seen) == 1

    asyncio.run(scene())


def test_a_list_without_end_is_given_up() -> None:
    async def scene() -> None:
        page = httpx2.Response(200, json=[{"filename": "a"}], headers={"X-HasMore": "true"})
        client, seen = answering(page)
        assert await code_of(Gitea("work", ForgeClient(client)).pulls.list_files("a/b", 1)) is Code.FORGE_ANSWER_INVALID
        assert len(seen) == 400

    asyncio.run(scene())


USER = {"id": 1, "login": "agent"}
PULL = {
    "number": 5, "user": USER, "title": "WIP: x", "state": "open", "draft": False, "merged": False, "html_url": "u",
    "head": {"ref": "f", "sha": "a" * 40, "repo": {"id": 1}}, "base": {"ref": "main", "sha": "b" * 40, "repo": {"id": 1}},
}  # fmt: skip


def test_github_has_words_of_its_own() -> None:
    async def scene() -> None:
        given = {"id": 7, "user": USER, "state": "CHANGES_REQUESTED", "body": "no", "commit_id": "a" * 40}
        client, seen = answering(given)
        github: Forge = GitHub("hub", ForgeClient(client))
        review = await github.pulls.submit_review("a/b", 5, "REQUEST_CHANGES", "no", "a" * 40)
        assert (review.verdict, review.id) == ("REQUEST_CHANGES", 7)
        client, seen = answering(given | {"state": "APPROVED"})
        await GitHub("hub", ForgeClient(client)).pulls.submit_review("a/b", 5, "APPROVED", "", "a" * 40)
        assert b'"event":"APPROVE"' in seen[0].content.replace(b" ", b"")
        client, _ = answering(given | {"state": "PENDING"})
        pending = GitHub("hub", ForgeClient(client)).pulls.submit_review("a/b", 5, "APPROVED", "", "a" * 40)
        assert await code_of(pending) is Code.FORGE_ANSWER_INVALID
        client, _ = answering(PULL)
        assert not (await GitHub("hub", ForgeClient(client)).pulls.read("a/b", 5)).draft

    asyncio.run(scene())


def test_github_merges_a_head_and_knows_when_it_was_merged_before() -> None:
    async def scene() -> None:
        client, seen = answering({"merged": True, "sha": "c"})
        assert await GitHub("hub", ForgeClient(client)).pulls.merge("a/b", 5, "a" * 40) == "merged"
        assert (seen[0].method, str(seen[0].url)) == ("PUT", "https://forge.test/repos/a/b/pulls/5/merge")
        refused = httpx2.Response(405, json={"message": "Pull Request is not mergeable"})
        client, _ = answering(refused, PULL | {"merged": True, "state": "closed"})
        assert await GitHub("hub", ForgeClient(client)).pulls.merge("a/b", 5, "a" * 40) == "merged"
        client, _ = answering(refused, PULL)
        assert await code_of(GitHub("hub", ForgeClient(client)).pulls.merge("a/b", 5, "a" * 40)) is Code.FORGE_REFUSED
        client, _ = answering(httpx2.Response(409, json={"message": "Head branch was modified"}), PULL)
        assert await code_of(GitHub("hub", ForgeClient(client)).pulls.merge("a/b", 5, "a" * 40)) is Code.FORGE_CONFLICT

    asyncio.run(scene())


def test_github_lists_statuses_and_checks_together_and_issues_without_pull_requests() -> None:
    async def scene() -> None:
        statuses = [{"state": "error", "context": "old", "creator": USER}]
        checks = {"check_runs": [{"name": "new", "conclusion": "timed_out"}, {"name": "run", "conclusion": None}]}
        client, _ = answering(statuses, checks)
        found = await GitHub("hub", ForgeClient(client)).repositories.list_statuses("a/b", "a" * 40)
        assert [(each.context, each.outcome) for each in found] == [
            ("new", "failure"),
            ("old", "failure"),
            ("run", "other"),
        ]
        issue = {"number": 1, "user": USER, "title": "t", "state": "open"}
        client, _ = answering([issue, issue | {"number": 2, "pull_request": {"url": "u"}}])
        assert [each.number for each in await GitHub("hub", ForgeClient(client)).issues.list_open("a/b")] == [1]
        first = httpx2.Response(200, json=[{"id": 1, "user": USER, "body": "a"}], headers={"Link": '<x>; rel="next"'})
        client, _ = answering(first, [{"id": 2, "user": USER, "body": "b"}])
        assert [each.body for each in await GitHub("hub", ForgeClient(client)).issues.list_comments("a/b", 1)] == [
            "a",
            "b",
        ]

    asyncio.run(scene())


def test_the_newest_commit_is_that_of_the_default_branch() -> None:
    async def scene() -> None:
        client, asked = answering({"default_branch": "release/1"}, {"name": "release/1", "commit": {"sha": "a" * 40}})
        assert await GitHub("hub", ForgeClient(client)).repositories.find_newest_commit("a/b") == (
            "release/1",
            "a" * 40,
        )
        assert str(asked[-1].url).endswith("/repos/a/b/branches/release%2F1")
        for answers in ([{"default_branch": "main"}, {"commit": None}], [{"default_branch": None}]):
            client, asked = answering(*answers)
            with pytest.raises(ForgeError) as caught:
                await GitHub("hub", ForgeClient(client)).repositories.find_newest_commit("a/b")
            assert (caught.value.code, len(asked)) == (Code.FORGE_MISSING, len(answers))

    asyncio.run(scene())


def test_github_names_itself_and_its_version() -> None:
    async def scene() -> None:
        async with GitHub.connect("hub", "https://api.forge.test/", "t0ken") as github:
            headers = github.client._client.headers
            assert headers["authorization"] == "Bearer t0ken"
            assert headers["x-github-api-version"]
            assert headers["user-agent"] == "agenttalk"

    asyncio.run(scene())
