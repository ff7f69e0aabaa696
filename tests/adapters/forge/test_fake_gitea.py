"""The fake forge tells what a real one tells, and what follows from it is the same whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from adapters.forge.world import SOURCE, World, registry
from agenttalk.adapters.forge import webhooks
from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.contracts.forge import ForgeEvent
from agenttalk.testing import FakeGitea

SECRET, REPOSITORY = "the secret", "acme/widgets"
EVENTS = ("pull_request", "issues", "status", "workflow_run", "action_run_failure")
Kind = Literal["gitea", "forgejo"]


class Door:
    """What an engine's door does: the signature first, then the event."""

    def __init__(self, kind: Kind) -> None:
        self.kind: Kind = kind
        self.world = World(registry())
        self.refused: list[str] = []
        self.types: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Door]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/api/webhooks/work"
        async with server:
            yield self

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:]
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines) if name]
        length = next(int(value) for name, value in headers if name.lower() == "content-length")
        status = self.take(headers, await reader.readexactly(length))
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    def take(self, headers: list[tuple[str, str]], body: bytes) -> int:
        verdict = webhooks.check_signature(self.kind, headers, body, SECRET)
        if not verdict.good:
            self.refused.append(verdict.reason)
            return 401
        self.types.append(webhooks.read_label(self.kind, headers)[1])
        found = webhooks.read_delivery(SOURCE, self.kind, headers, body)
        if isinstance(found, ForgeEvent):
            self.world.see(found)
        return 202


def play(
    folder: Path, scene: Callable[[FakeGitea, Door], Any], kind: Kind = "gitea", secret: str = SECRET, **options: Any
) -> Door:
    async def run() -> Door:
        door = Door(kind)
        async with door.opened(), FakeGitea.running(folder, kind=kind, **options) as forge:
            for login in ("agent-dev", "agent-reviewer", "agent-ops", "agent-second", "alice"):
                forge.user(login)
            forge.repository(REPOSITORY, writers=["agent-dev", "agent-reviewer", "alice"])
            forge.hook(REPOSITORY, door.url, secret, EVENTS)
            await scene(forge, door)
            await forge.deliveries.wait_until_settled()
        return door

    return asyncio.run(run())


async def work(forge: FakeGitea, _: Door) -> None:
    """A pull request is opened, refused, mended, red, approved and merged; an issue is given and talked about."""
    repository, state = forge.state.repositories[REPOSITORY], forge.state
    user = state.require_user
    forge.push(REPOSITORY, "feat/retry", {"a.py": "1\n"}, "agent-dev")
    pull = state.pulls.create_pull(
        repository, user("agent-dev"), "WIP: retry", "", "feat/retry", "main", ["agent-reviewer"]
    )
    state.issues.edit_issue(repository, user("agent-dev"), pull.issue.number, {"title": "retry"})
    state.pulls.review(repository, user("agent-reviewer"), pull.issue.number, "REQUEST_CHANGES", "no", "")
    forge.push(REPOSITORY, "feat/retry", {"a.py": "2\n"}, "agent-dev")
    forge.finish_workflow(REPOSITORY, pull.head_sha, pull=pull.issue.number)
    issue = state.issues.create_issue(repository, user("alice"), "Crash", "", ["agent-second"])
    state.issues.create_comment(repository, user("alice"), issue.number, "@agent-ops please look")
    forge.finish_workflow(REPOSITORY, repository.bare.head("main"), workflow="deploy.yml")


EXPECTED = [
    ("ci_failure", "agent-dev"),
    ("deploy_failure", "agent-ops"),
    ("issue_assigned", "agent-second"),
    ("mention", "agent-ops"),
    ("review_result", "agent-dev"),
    ("review_updated", "agent-reviewer"),
]


@pytest.mark.rest_but("1")
@pytest.mark.shows("T23")
@pytest.mark.parametrize("kind", ["gitea", "forgejo"])
@pytest.mark.parametrize("version", [(1, 22), (1, 24), (1, 25)])
@pytest.mark.parametrize("copies", [1, 3])
def test_a_days_work_comes_to_the_same_tasks(tmp_path: Path, kind: Kind, version: tuple[int, int], copies: int) -> None:
    async def scene(forge: FakeGitea, door: Door) -> None:
        forge.deliveries.copies = copies
        await work(forge, door)

    door = play(tmp_path, scene, kind, version=version)
    assert door.refused == []
    reviews = [
        ("review", who) if what in {"review_request", "review_updated"} else (what, who)
        for what, who in door.world.outcome()
    ]
    assert reviews == [("review", who) if what == "review_updated" else (what, who) for what, who in EXPECTED]


@pytest.mark.parametrize("turn", [1, 2, 5])
def test_in_another_order_it_is_the_same(tmp_path: Path, turn: int) -> None:
    async def scene(forge: FakeGitea, door: Door) -> None:
        forge.deliveries.hold()
        await work(forge, door)
        count = len(forge.deliveries.waiting())
        order = [*range(turn, count), *range(turn)][::-1]
        forge.deliveries.release(order)
        await forge.deliveries.wait_until_settled()
        for each in forge.deliveries.all[::2]:
            forge.deliveries.replay(each)

    door = play(tmp_path, scene)
    assert [who for _, who in door.world.outcome()] == [who for _, who in EXPECTED]


def test_a_replay_has_a_new_number_and_the_same_body(tmp_path: Path) -> None:
    async def scene(forge: FakeGitea, _: Door) -> None:
        state = forge.state
        state.issues.create_issue(
            state.repositories[REPOSITORY], state.require_user("alice"), "Crash", "", ["agent-dev"]
        )
        [first, second] = forge.deliveries.all
        again = forge.deliveries.replay(first)
        await forge.deliveries.wait_until_settled()
        assert (again.body, again.id != first.id, again.status) == (first.body, True, 202)
        assert (first.event_type, second.event_type) == ("issue_assign", "issues")

    assert play(tmp_path, scene).world.outcome() == [("issue_assigned", "agent-dev")]


def test_a_hook_with_another_secret_or_none_is_refused(tmp_path: Path) -> None:
    for secret in ("", "another"):
        door = play(tmp_path / (secret or "none"), work, secret=secret)
        assert door.world.outcome() == []
        assert door.refused


def test_a_form_is_taken_like_json(tmp_path: Path) -> None:
    async def scene(forge: FakeGitea, door: Door) -> None:
        forge.state.repositories[REPOSITORY].hooks.clear()
        forge.hook(REPOSITORY, door.url, SECRET, EVENTS, content_type="form")
        await work(forge, door)

    door = play(tmp_path, scene)
    assert (door.refused, [who for _, who in door.world.outcome()]) == ([], [who for _, who in EXPECTED])


def test_a_door_that_is_closed_hears_of_nothing_and_is_not_told_again(tmp_path: Path) -> None:
    async def scene(forge: FakeGitea, _: Door) -> None:
        [hook] = forge.state.repositories[REPOSITORY].hooks
        hook.url = "http://127.0.0.1:1/"
        await work(forge, _)
        await forge.deliveries.wait_until_settled()
        assert {each.status for each in forge.deliveries.all} == {0}
        hook.active = False
        before = len(forge.deliveries.all)
        await asyncio.to_thread(forge.push, REPOSITORY, "main", {"b": "1"}, "alice")
        assert len(forge.deliveries.all) == before

    assert play(tmp_path, scene).types == []


def test_what_our_own_client_does_comes_back_and_calls_nobody_for_their_own_deed(tmp_path: Path) -> None:
    async def scene(forge: FakeGitea, _: Door) -> None:
        forge.push(REPOSITORY, "feat/x", {"x": "1"}, "agent-dev")
        async with Gitea.connect(SOURCE, forge.url, forge.user("agent-dev")) as author:
            pull = await author.pulls.create(REPOSITORY, "x", "@agent-dev", head="feat/x", base="main")
            await author.issues.comment(REPOSITORY, pull.number, "@agent-dev done")
            await author.pulls.merge(REPOSITORY, pull.number, pull.head_sha)
        await forge.deliveries.wait_until_settled()

    assert play(tmp_path, scene).world.outcome() == []


def test_git_itself_clones_pushes_and_moves_a_pull_request(tmp_path: Path) -> None:
    def git(*arguments: str, folder: Path) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0"}
        names = {f"GIT_{who}_{what}": "x@example.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env=environment | names,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def scene(forge: FakeGitea, _: Door) -> None:
        token = forge.user("agent-dev")
        address = f"http://agent-dev:{token}@{forge.url.removeprefix('http://')}/{REPOSITORY}.git"

        def first() -> None:
            git("clone", "--quiet", address, "tree", folder=tmp_path)
            git("switch", "--quiet", "-c", "feat/git", folder=tmp_path / "tree")
            (tmp_path / "tree" / "a.py").write_text("1\n" * 50_000)
            git("add", ".", folder=tmp_path / "tree")
            git("commit", "--quiet", "-m", "one", folder=tmp_path / "tree")
            git("push", "--quiet", "origin", "feat/git", folder=tmp_path / "tree")

        def second() -> str:
            (tmp_path / "tree" / "a.py").write_text("2\n")
            git("commit", "--quiet", "-am", "two", folder=tmp_path / "tree")
            git("push", "--quiet", "origin", "feat/git", folder=tmp_path / "tree")
            return git("rev-parse", "HEAD", folder=tmp_path / "tree")

        await asyncio.to_thread(first)
        async with Gitea.connect(SOURCE, forge.url, token) as author:
            pull = await author.pulls.create(REPOSITORY, "git", "", head="feat/git", base="main")
            sha = await asyncio.to_thread(second)
            assert (await author.pulls.read(REPOSITORY, pull.number)).head_sha == sha

        def refused() -> int:
            bad = f"http://alice:wrong@{forge.url.removeprefix('http://')}/{REPOSITORY}.git"
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_TERMINAL_PROMPT": "0"}
            return subprocess.run(
                ["git", "clone", "--quiet", bad, "other"],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                check=False,
                timeout=600,
            ).returncode

        assert await asyncio.to_thread(refused) != 0

    door = play(tmp_path, scene)
    assert door.world.outcome() == [("review_updated", "agent-reviewer")]
    assert door.types == ["pull_request", "pull_request_sync"]


def test_a_pull_request_from_a_fork_is_untrusted(tmp_path: Path) -> None:
    async def scene(forge: FakeGitea, _: Door) -> None:
        forge.repository("alice/widgets")
        forge.push("alice/widgets", "feat/f", {"f.py": "1\n"}, "alice")
        origin, copy = (forge.state.repositories[name] for name in (REPOSITORY, "alice/widgets"))
        copy.bare.git("fetch", "--quiet", str(origin.bare.path), "main:refs/heads/up")
        tree = copy.bare.git("rev-parse", "feat/f^{tree}")
        copy.bare.commit_tree("feat/g", tree, [copy.bare.head("up")], "on top", "alice")
        forge.state.pulls.create_pull(origin, forge.state.require_user("alice"), "fork", "", "alice:feat/g", "main")
        forge.push("alice/widgets", "feat/g", {"f.py": "2\n"}, "alice")

    door = play(tmp_path, scene)
    assert door.world.outcome() == [("review_updated", "agent-reviewer")]
    assert {task.context["fork"] for task in door.world.proposed.values()} == {True}
