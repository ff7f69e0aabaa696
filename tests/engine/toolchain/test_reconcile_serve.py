"""An engine that missed webhooks: it looks at the start, by its timer, and when it is asked to."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.testing import FakeGitea
from doors.api.enginekit import agenttalk, until
from engine.toolchain.kits.bench import DOES_IT, SECRET, WAITS, Bench, served
from engine.toolchain.test_forge import configured

EVENTS = ("pull_request", "issues", "issue_comment", "status")


class Story:
    """A forge whose deeds are done from another thread."""

    def __init__(self, forge: FakeGitea, loop: asyncio.AbstractEventLoop) -> None:
        self.forge = forge
        self._loop = loop
        self.state = forge.state
        self.repository = forge.state.repository("acme", "widgets")

    def do(self, deed: Any, *arguments: Any, **options: Any) -> Any:
        async def run() -> Any:
            return deed(*arguments, **options)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    def issue(self, title: str, assignee: str) -> int:
        root = self.state.user("root")
        return int(self.do(self.state.issues.create_issue, self.repository, root, title, "", [assignee]).number)

    def close(self, number: int) -> None:
        self.do(self.state.issues.edit_issue, self.repository, self.state.user("root"), number, {"state": "closed"})

    def settled(self) -> None:
        asyncio.run_coroutine_threadsafe(self.forge.deliveries.wait_until_settled(), self._loop).result(30)


@pytest.mark.shows("T25")
def test_an_engine_makes_good_what_it_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            tokens = {login: forge.user(login) for login in ("agent-dev", "agent-reviewer")}
            forge.repository("acme/widgets", writers=[*tokens, "root"])
            monkeypatch.setenv("FORGE", forge.url)
            monkeypatch.setenv("DEV_TOKEN", tokens["agent-dev"])
            monkeypatch.setenv("REVIEWER_TOKEN", tokens["agent-reviewer"])
            monkeypatch.setenv("ENGINE_TOKEN", forge.admin)
            root = configured(tmp_path / "root", forge.url, {"reviewer": WAITS, "dev": DOES_IT})
            story = Story(forge, asyncio.get_running_loop())
            await asyncio.to_thread(played, root, story)

    asyncio.run(work())


def played(root: Path, story: Story) -> None:
    forge = story.forge
    forge.deliveries.hold()
    story.do(forge.hook, "acme/widgets", "http://127.0.0.1:9/nobody", SECRET, EVENTS)
    missed = story.issue("Missed while nobody listened", "agent-dev")
    begun = story.issue("Under way", "agent-reviewer")
    waiting = story.issue("Waits its turn", "agent-reviewer")
    offline = reconcile(root, "--dry-run")
    assert len(offline["sources"][0]["made"]) == 3
    assert reconcile(root)["sources"][0]["made"] != [], "without an engine, too"
    more = story.issue("Missed since", "agent-dev")
    with served(root) as bench:
        shown = until(lambda: by_number(bench, {missed: "done", more: "done", begun: "working"}), "the start looks")
        assert len(shown) == 4
        story.repository.hooks[0].url = f"{bench.url}/api/webhooks/work"
        story.close(begun)
        story.close(waiting)
        again = reconcile(root)["sources"][0]
        assert [each["why"] for each in again["closed"]] == ["the issue is closed"]
        assert by_number(bench, {begun: "working", waiting: "withdrawn"}), "what runs is not cut off"
        for each in forge.deliveries.all:
            each.url = story.repository.hooks[0].url
        story.do(forge.deliveries.release)
        story.settled()
        assert {each.status for each in forge.deliveries.all} == {202}
        last = f"wh-{len(forge.deliveries.all)}"
        assert bench.decided(last)["state"] in {"done", "ignored"}
        assert len(bench.tasks()) == 4, "late webhooks make no second task"
        status, answer = bench.post(
            "/api/toolchain/reconcile", b"{}", {"Authorization": f"Bearer {bench.operator_token()}"}
        )
        assert (status, answer["ok"], answer["sources"][0]["made"]) == (200, True, [])


def by_number(bench: Bench, wanted: dict[int, str]) -> list[dict[str, Any]] | None:
    found = bench.tasks()
    stands = {each["must_haves"]["context"]["issue_number"]: each["status"] for each in found}
    return found if all(stands.get(number) == status for number, status in wanted.items()) else None


def reconcile(root: Path, *options: str) -> dict[str, Any]:
    found = agenttalk("toolchain", "reconcile", "--root", str(root), "--json", *options)
    assert found.returncode == 0, found.stdout + found.stderr
    told: dict[str, Any] = json.loads(found.stdout)
    return told


@pytest.mark.rest
@pytest.mark.shows("T25")
def test_the_timer_looks_again_and_words_say_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            forge.user("agent-dev")
            forge.repository("acme/widgets", writers=["agent-dev", "root"])
            for name in ("FORGE", "DEV_TOKEN", "REVIEWER_TOKEN"):
                monkeypatch.setenv(name, forge.url)
            monkeypatch.setenv("ENGINE_TOKEN", forge.admin)
            root = configured(tmp_path / "root", forge.url, {})
            with (root / "agenttalk.toml").open("a") as file:
                file.write("\nreconcile_every = 1\n")
            story = Story(forge, asyncio.get_running_loop())
            await asyncio.to_thread(timed, root, story)
            async with forge.down():
                await asyncio.to_thread(unread, root)

    asyncio.run(work())


def timed(root: Path, story: Story) -> None:
    with served(root) as bench:
        until(lambda: any(each.endswith("/issues") for each in story.forge.requests), "the start looks")
        assert bench.tasks() == []
        number = story.issue("Only the timer can find it", "agent-dev")
        until(lambda: by_number(bench, {number: "done"}), "the timer looks")
    fine = agenttalk("toolchain", "reconcile", "--root", str(root))
    assert (fine.returncode, "every open obligation has its task" in fine.stdout) == (0, True)
    story.issue("One more", "agent-dev")
    told = agenttalk("toolchain", "reconcile", "--root", str(root), "--dry-run")
    assert "would be created: issue_assigned for dev" in told.stdout


def unread(root: Path) -> None:
    found = agenttalk("toolchain", "reconcile", "--root", str(root))
    assert (found.returncode, "FORGE_UNREACHABLE" in found.stdout) == (1, True), found.stdout + found.stderr
    with (root / "agenttalk.toml").open() as file:
        text = file.read()
    (root / "agenttalk.toml").write_text(text.replace('token_env = "ENGINE_TOKEN"\n', ""))
    none = agenttalk("toolchain", "reconcile", "--root", str(root))
    assert (none.returncode, "no forge that can be read" in none.stderr) == (2, True), none.stdout + none.stderr
