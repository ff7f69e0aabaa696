"""Reading back at a forge: what shows late, what is out of order for a while, and what nobody can tell."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.forge.client import RetryPolicy
from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.adapters.forge.read_back import MOST_LOOKS, ReadBack, read_until_decided
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.rules.toolchain.forge_facts import ForgeFacts, ForgeQuery, UnreadError
from agenttalk.testing import FakeGitea
from rules.toolchain.test_forge_checks import check

REPO = "acme/widgets"
QUICK = RetryPolicy(connect=2.0, answer=5.0, tries=1, pause=0.0)


def at_forge(folder: Path, work: Callable[[FakeGitea, Gitea], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with (
            FakeGitea.running(folder, **options) as forge,
            Gitea.connect("work", forge.url, forge.admin, patience=QUICK) as client,
        ):
            forge.user("dev")
            forge.repository(REPO, writers=["dev"])
            await work(forge, client)

    asyncio.run(run())


def opened(forge: FakeGitea, count: int) -> list[Any]:
    """So many pull requests, one after the other."""
    made = []
    for number in range(count):
        forge.push(REPO, f"b{number}", {f"{number}.py": "x\n"}, "dev")
        repository, dev = forge.state.repository("acme", "widgets"), forge.state.user("dev")
        made.append(forge.state.pulls.create_pull(repository, dev, f"P{number}", "", f"b{number}", "main"))
    return made


def test_what_shows_late_is_looked_for_again(tmp_path: Path) -> None:
    slept: list[float] = []

    async def work(forge: FakeGitea, client: Gitea) -> None:
        [pull] = opened(forge, 1)
        repository = forge.state.repository("acme", "widgets")

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 2:
                forge.state.pulls.merge(repository, forge.state.user("dev"), pull.issue.number, "")

        made = check(repo=REPO, pull_request=1, pr_merged=True)
        found = await ReadBack({"work": client}, settling=3.0, sleep=sleep).check(made)
        assert (found.passed, slept) == (True, [1.0, 1.0])
        missing = check(repo=REPO, pull_request=9, pr_merged=True)
        found = await ReadBack({"work": client}, settling=3.0, sleep=sleep).check(missing)
        assert (found.passed, len(slept)) == (False, 5), "three seconds, and no more"

    at_forge(tmp_path, work)


def test_a_forge_that_comes_back_is_waited_for_and_one_that_does_not_is_told(tmp_path: Path) -> None:
    slept: list[float] = []

    async def work(forge: FakeGitea, client: Gitea) -> None:
        opened(forge, 1)
        made = check(repo=REPO, pull_request=1, new_head_since="f" * 40)
        await forge.stop()

        async def sleep(seconds: float) -> None:
            slept.append(seconds)

        asked = ReadBack({"work": client}, patience=20.0, settling=0.0, sleep=sleep)
        found = await asked.check(made)
        assert (found.passed, found.reason) == (False, "unreachable")
        assert found.detail.startswith("FORGE_UNREACHABLE: ")
        assert slept == [1.0, 2.0, 4.0, 8.0], "and 15 more would be too long"

        async def comes_back(_: float) -> None:
            await forge.start()

        found = await ReadBack({"work": client}, patience=20.0, settling=0.0, sleep=comes_back).check(made)
        assert "adds nothing to" in found.detail, "it answers"

    at_forge(tmp_path, work)


def test_a_forge_that_wants_a_long_pause_is_told_at_once(tmp_path: Path) -> None:
    async def work(_: FakeGitea, client: Gitea) -> None:
        calls = []

        def limited(_: ForgeFacts) -> bool:
            calls.append(1)
            raise ForgeError(Code.FORGE_LIMITED, "later", retry_after=3600.0)

        with pytest.raises(ForgeError):
            await ReadBack({"work": client})._patiently(client, limited)
        assert len(calls) == 1

    at_forge(tmp_path, work)


@pytest.mark.parametrize(
    ("sources", "source", "words"),
    [
        ((), None, "there is not exactly one forge with a token of the engine's (there are: none)"),
        (("a", "b"), None, "there is not exactly one forge with a token of the engine's (there are: a, b)"),
        (("a",), "c", "there is no forge 'c' with a token of the engine's (there are: a)"),
    ],
)
def test_a_forge_that_is_not_there_shows_nothing(sources: tuple[str, ...], source: str | None, words: str) -> None:
    asked = ReadBack(dict.fromkeys(sources))  # type: ignore[arg-type]  # none of them is asked
    found = asyncio.run(asked.check(check(repo=REPO, issue=1, issue_closed=True, source=source)))
    assert (found.passed, found.reason, found.detail) == (False, "facts_missing", words)


def test_a_token_that_may_not_read_shows_nothing(tmp_path: Path) -> None:
    async def work(forge: FakeGitea, client: Gitea) -> None:
        forge.state.users["root"].tokens.clear()
        found = await ReadBack({"work": client}).check(check(repo=REPO, issue=1, issue_closed=True))
        assert (found.passed, found.reason) == (False, "unreadable")

    at_forge(tmp_path, work)


@pytest.mark.rest
def test_a_question_without_end_is_none(tmp_path: Path) -> None:
    async def work(_: FakeGitea, client: Gitea) -> None:
        asked: list[int] = []

        def endless(_: ForgeFacts) -> bool:
            asked.append(1)
            raise UnreadError(ForgeQuery("issue", REPO, str(len(asked))))

        with pytest.raises(ForgeError, match=f"more than {MOST_LOOKS} requests"):
            await read_until_decided(client, endless)

    at_forge(tmp_path, work)


def test_only_what_changed_since_is_read_page_by_page(tmp_path: Path) -> None:
    async def work(forge: FakeGitea, client: Gitea) -> None:
        pulls = opened(forge, 6)
        asked: list[str] = []
        ask = client.client.request

        async def counted(method: Any, path: str, **options: Any) -> Any:
            asked.append(path)
            return await ask(method, path, **options)

        client.client.request = counted  # type: ignore[method-assign]
        found = await client.pulls.list_since(REPO, pulls[3].issue.updated)
        assert [each.number for each in found] == [6, 5, 4]
        assert len(asked) == 2, "two pages of two; what is older is not read"

    at_forge(tmp_path, work, page=2)
