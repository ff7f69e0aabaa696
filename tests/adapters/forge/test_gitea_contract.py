"""What read-back relies on at a Gitea, asked of the fake one and, when AGENTTALK_GITEA_URL names it, of a real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from adapters.forge.bench import REAL, Bench, forge
from agenttalk.contracts.errors import Code, ForgeError

KINDS = [
    "fake",
    pytest.param(
        "real",
        marks=pytest.mark.skipif(
            not REAL, reason="NOT TRIED AT A REAL GITEA: set AGENTTALK_GITEA_URL and AGENTTALK_GITEA_TOKEN"
        ),
    ),
]
pytestmark = [pytest.mark.mends("E14"), pytest.mark.parametrize("kind", KINDS)]


def play(folder: Path, kind: str, scene: Callable[[Bench, Tree], Awaitable[None]]) -> None:
    async def run() -> None:
        async with forge(folder / "forge", kind) as bench:
            await scene(bench, Tree(bench, folder))

    asyncio.run(run())


class Tree:
    """Clones of the accounts, and what is done in them."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self._folder = folder

    async def git(self, name: str, *arguments: str) -> str:
        return await asyncio.to_thread(self.bench.git, self._folder / name, name, *arguments)

    async def push(self, branch: str, path: str, text: str, *, name: str = "author", force: bool = False) -> str:
        """Commit a file on top of a branch, or on top of main when there is none, and push it."""
        await self.git(name, "fetch", "--quiet", "origin")
        known = await self.git(name, "branch", "--remotes", "--list", f"origin/{branch}")
        await self.git(name, "checkout", "--quiet", "-B", branch, f"origin/{branch if known else 'main'}")
        (self._folder / name / path).write_text(text)
        await self.git(name, "add", ".")
        await self.git(name, "commit", "--quiet", "--allow-empty", "-m", f"Write {path}")
        await self.git(name, "push", "--quiet", *(["--force"] if force else []), "origin", branch)
        return await self.git(name, "rev-parse", "HEAD")

    async def put(self, branch: str, sha: str) -> None:
        await self.git("author", "push", "--quiet", "--force", "origin", f"{sha}:refs/heads/{branch}")

    async def opened(self, branch: str, title: str = "A change") -> dict[str, Any]:
        path = f"/repos/{self.bench.repository}/pulls"
        made: dict[str, Any] = await self.bench.call(
            "author", "POST", path, {"title": title, "body": "", "head": branch, "base": "main"}
        )
        return made


async def merged(bench: Bench, number: int, **more: Any) -> int:
    """Merge; the forge may have to work out conflicts first."""
    for _ in range(40):
        body = {"Do": "merge", **more}
        answer = await bench.ask("author", "POST", f"/repos/{bench.repository}/pulls/{number}/merge", body)
        if answer.status_code != 405 or "later" not in answer.text:
            return int(answer.status_code)
        await asyncio.sleep(0.25)
    raise AssertionError(answer.text)


def test_the_head_of_a_merged_pull_request_is_its_ref_and_not_its_branch(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        first = await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        second = await tree.push("feat/x", "x.py", "2\n")
        assert await merged(bench, number) == 200
        await tree.put("feat/x", first)
        here = f"/repos/{bench.repository}/pulls"
        single = await bench.call("author", "GET", f"{here}/{number}")
        [listed] = await bench.call("author", "GET", f"{here}?state=all")
        assert (single["head"]["sha"], listed["head"]["sha"]) == (first, second)
        async with bench.client("author") as client:
            assert await client.pulls.read_head(bench.repository, number) == second
            merge = await client.repositories.read_commit(bench.repository, single["merge_commit_sha"])
            assert merge.parents[1:] == (second,)
            with pytest.raises(ForgeError) as caught:
                await client.pulls.read_head(bench.repository, 999)
            assert caught.value.code is Code.FORGE_MISSING

    play(tmp_path, kind, scene)


@pytest.mark.rest_but("squash")
@pytest.mark.parametrize(("style", "parents"), [("squash", 1), ("rebase", 1), ("rebase-merge", 2), ("merge", 2)])
def test_the_ref_stays_in_whatever_way_it_is_merged(tmp_path: Path, kind: str, style: str, parents: int) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        head = await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        await tree.push("main", "other.py", "1\n")
        assert await merged(bench, number, Do=style) == 200
        single = await bench.call("author", "GET", f"/repos/{bench.repository}/pulls/{number}")
        async with bench.client("author") as client:
            assert await client.pulls.read_head(bench.repository, number) == head
            merge = await client.repositories.read_commit(bench.repository, single["merge_commit_sha"])
            assert (len(merge.parents), head in merge.parents) == (parents, style == "merge")
            if style == "rebase-merge":
                rebased = await client.repositories.read_commit(bench.repository, merge.parents[1])
                own = await client.repositories.read_commit(bench.repository, head)
                assert (rebased.message, rebased.authored_at) == (own.message, own.authored_at)

    play(tmp_path, kind, scene)


def test_a_fast_forward_is_the_head_itself(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        head = await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        assert await merged(bench, number, Do="fast-forward-only") == 200
        single = await bench.call("author", "GET", f"/repos/{bench.repository}/pulls/{number}")
        assert single["merge_commit_sha"] == head

    play(tmp_path, kind, scene)


def test_who_is_asked_stands_among_the_reviews_and_not_on_the_list(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        here, reviewer = f"/repos/{bench.repository}/pulls/{number}", bench.login("reviewer")

        async def shown() -> tuple[list[str], list[str]]:
            """Whom the single answer lists, and who is asked."""
            single = await bench.call("author", "GET", here)
            async with bench.client("author") as client:
                pull, _ = await client.pulls.read_review_requests(
                    bench.repository, await client.pulls.read(bench.repository, number)
                )
            return [each["login"] for each in single["requested_reviewers"] or ()], [
                each.login for each in pull.requested_reviewers or ()
            ]

        assert await shown() == ([], [])
        await bench.call("author", "POST", f"{here}/requested_reviewers", {"reviewers": [reviewer]})
        assert await shown() == ([reviewer], [reviewer])
        await bench.call("reviewer", "POST", f"{here}/reviews", {"event": "COMMENT", "body": "Hm."})
        assert await shown() == ([reviewer], [])
        await bench.call("reviewer", "POST", f"{here}/reviews", {"event": "APPROVED", "body": "Fine."})
        assert await shown() == ([reviewer], [])
        await bench.call("author", "POST", f"{here}/requested_reviewers", {"reviewers": [reviewer]})
        assert await shown() == ([reviewer], [reviewer])

    play(tmp_path, kind, scene)


def test_a_deleted_issue_is_missing_and_its_comments_are_an_error_of_the_server(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, _: Tree) -> None:
        here = f"/repos/{bench.repository}/issues"
        number = (await bench.call("author", "POST", here, {"title": "Gone"}))["number"]
        await bench.call("author", "DELETE", f"{here}/{number}")
        assert (await bench.ask("author", "GET", f"{here}/{number}")).status_code == 404
        assert (await bench.ask("author", "GET", f"{here}/{number}/comments")).status_code == 500
        again = (await bench.call("author", "POST", here, {"title": "Next"}))["number"]
        assert again > number

    play(tmp_path, kind, scene)


def test_a_draft_keeps_the_time_of_its_beginning_when_it_is_handed_in(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        here = f"/repos/{bench.repository}/pulls/{number}/reviews"
        draft = await bench.call("reviewer", "POST", here, {"event": "PENDING", "body": "Fine."})
        if kind == "real":
            await asyncio.sleep(1.1)  # its clock has whole seconds
        given = await bench.call("reviewer", "POST", f"{here}/{draft['id']}", {"event": "APPROVED", "body": "Fine."})
        assert given["submitted_at"] == draft["submitted_at"] < given["updated_at"]
        async with bench.client("author") as client:
            [review] = await client.pulls.list_reviews(bench.repository, number)
            assert review.submitted_at > draft["submitted_at"][:19]
        taken = await bench.call("author", "POST", f"{here}/{draft['id']}/dismissals", {"message": "No."})
        assert taken["dismissed"] is True

    play(tmp_path, kind, scene)


def test_files_stand_with_each_commit_and_an_empty_one_changes_none(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        await tree.git("author", "fetch", "--quiet", "origin")
        base = await tree.git("author", "rev-parse", "origin/main")
        await tree.git("author", "checkout", "--quiet", "-B", "empty", "origin/main")
        await tree.git("author", "commit", "--quiet", "--allow-empty", "-m", "Nothing")
        await tree.git("author", "push", "--quiet", "origin", "empty")
        pull = await tree.opened("empty")
        single = await bench.call("author", "GET", f"/repos/{bench.repository}/pulls/{pull['number']}")
        assert single["changed_files"] == 0
        head = await tree.push("feat/x", "x.py", "1\n")
        compared = await bench.call("author", "GET", f"/repos/{bench.repository}/compare/{base}...{head}")
        assert "files" not in compared
        assert [each["filename"] for each in compared["commits"][0]["files"]] == ["x.py"]
        async with bench.client("author") as client:
            assert (await client.repositories.compare(bench.repository, base, head)).files == ("x.py",)

    play(tmp_path, kind, scene)


def test_two_commits_have_the_same_content_exactly_when_their_files_are_the_same(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        first = await tree.push("feat/x", "x.py", "1\n")
        await tree.opened("feat/x")
        await tree.git("author", "commit", "--quiet", "--amend", "-m", "Other words")
        await tree.git("author", "push", "--quiet", "--force", "origin", "feat/x")
        amended = await tree.git("author", "rev-parse", "HEAD")
        other = await tree.push("feat/x", "x.py", "2\n")
        async with bench.client("author") as client:
            contents = [
                await client.repositories.hash_content(bench.repository, each) for each in (first, amended, other)
            ]
        assert contents[0] == contents[1] != contents[2]
        assert first != amended

    play(tmp_path, kind, scene)


def test_the_timeline_tells_who_pushed_whatever_the_commits_say(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        mine = await tree.push("feat/x", "x.py", "2\n")
        theirs = await tree.push("feat/x", "x.py", "3\n", name="reviewer")
        async with bench.client("author") as client:
            pushes = await client.pulls.list_pushes(bench.repository, number)
        by = {sha: each.by.login for each in pushes for sha in each.commits}
        assert (by[mine], by[theirs]) == (bench.login("author"), bench.login("reviewer"))

    play(tmp_path, kind, scene)


def test_reviews_of_one_s_own_or_of_what_is_closed_are_refused(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        here = f"/repos/{bench.repository}/pulls/{number}"
        approval = {"event": "APPROVED", "body": "Fine."}
        assert (await bench.ask("author", "POST", f"{here}/reviews", approval)).status_code == 422
        assert await merged(bench, number) == 200
        assert (await bench.ask("reviewer", "POST", f"{here}/reviews", approval)).status_code == 422

    play(tmp_path, kind, scene)


def test_a_status_says_who_wrote_it(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        head = await tree.push("feat/x", "x.py", "1\n")
        for name, state in (("author", "failure"), ("reviewer", "success")):
            status = {"state": state, "context": "ci"}
            await bench.call(name, "POST", f"/repos/{bench.repository}/statuses/{head}", status)
        listed = await bench.call("author", "GET", f"/repos/{bench.repository}/commits/{head}/statuses")
        assert [each["creator"]["login"] for each in listed] == [bench.login("reviewer"), bench.login("author")]

    play(tmp_path, kind, scene)


def test_a_private_repository_does_not_exist_for_others(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, _: Tree) -> None:
        here = f"/repos/{bench.repository}"
        await bench.call("author", "PATCH", here, {"private": True})
        async with bench.client("reader") as reader, bench.client("reviewer") as reviewer:
            assert await reviewer.account.can_see(bench.repository)
            assert not await reader.account.can_see(bench.repository)
            reads = f"{here}/collaborators/{bench.login('reader')}"
            await bench.call("author", "PUT", reads, {"permission": "read"})
            assert await reader.account.can_see(bench.repository)
        shown = await bench.call("reader", "GET", here)
        assert (shown["permissions"]["pull"], shown["permissions"]["push"]) == (True, False)

    play(tmp_path, kind, scene)


def test_numbers_stay_when_names_change_and_the_old_name_leads_on(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, _: Tree) -> None:
        here = f"/repos/{bench.repository}"
        before = await bench.call("author", "GET", here)
        after = await bench.call("author", "PATCH", here, {"name": "gadgets"})
        assert (after["id"], after["full_name"]) == (before["id"], f"{bench.login('author')}/gadgets")
        moved = await bench.ask("author", "GET", here)
        assert moved.status_code in {301, 302, 307, 308}
        assert "gadgets" in moved.headers["location"] or "repositories" in moved.headers["location"]

    play(tmp_path, kind, scene)


def test_a_merge_that_waits_for_checks_is_scheduled_and_happens_later(tmp_path: Path, kind: str) -> None:
    async def scene(bench: Bench, tree: Tree) -> None:
        here = f"/repos/{bench.repository}"
        if kind == "real":
            rule = {"rule_name": "main", "enable_status_check": True, "status_check_contexts": ["ci"]}
            await bench.call("author", "POST", f"{here}/branch_protections", rule)
        head = await tree.push("feat/x", "x.py", "1\n")
        number = (await tree.opened("feat/x"))["number"]
        await bench.call("author", "POST", f"{here}/statuses/{head}", {"state": "pending", "context": "ci"})
        assert await merged(bench, number, merge_when_checks_succeed=True) == 201
        assert not (await bench.call("author", "GET", f"{here}/pulls/{number}"))["merged"]
        await bench.call("author", "POST", f"{here}/statuses/{head}", {"state": "success", "context": "ci"})
        for _ in range(40):
            if (await bench.call("author", "GET", f"{here}/pulls/{number}"))["merged"]:
                return
            await asyncio.sleep(0.25)
        raise AssertionError("it was not merged")

    play(tmp_path, kind, scene)
