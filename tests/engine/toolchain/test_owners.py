"""An engine of its own process, a forge with real webhooks: agents that call each other for ever, and an outage."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttalk.testing import FakeGitea, ForgeFault
from doors.api.enginekit import agenttalk, until
from engine.toolchain.kits.bench import DOES_IT, REPORTS, SECRET, Bench, served

LOGINS = ("agent-dev", "agent-reviewer", "agent-lead")
CALLS = f"""{REPORTS}
mine = "agent-" + ask("GET", "")[1]["agent_id"]
other = {{"agent-dev": "agent-reviewer", "agent-reviewer": "agent-dev"}}[mine]
request = urllib.request.Request(
    os.environ["FORGE"] + "/api/v1/repos/acme/widgets/issues/1/comments",
    json.dumps({{"body": "@" + other + " please look at this"}}).encode(),
    {{"Authorization": "token " + os.environ[mine[6:].upper() + "_TOKEN"], "Content-Type": "application/json"}})
urllib.request.urlopen(request).read()
assert report("Step 1: called " + other)[0] == 201
"""
"""An agent that calls the other one, whatever it is asked for."""
IGNORES = "print('I have read it.')"


def configured(root: Path, url: str, programs: dict[str, str]) -> Path:
    root.mkdir()
    (root / "secret.txt").write_text(SECRET)
    lines = []
    for agent in ("dev", "reviewer", "lead"):
        program = root / "agents" / agent / "work.py"
        program.parent.mkdir(parents=True)
        program.write_text(programs.get(agent, DOES_IT), encoding="utf-8")
        lines += [f"[agents.{agent}]", 'driver = "script"', f'argv = ["{sys.executable}", "work.py"]']
        lines += ['env = ["FORGE"]']
        lines += [f'forge.work = {{ login = "agent-{agent}", token_env = "{agent.upper()}_TOKEN" }}']
    lines += ["[sources.work]", 'kind = "gitea"', f'base_url = "{url}"', 'secret_file = "secret.txt"']
    lines += ['token_env = "ENGINE_TOKEN"', 'login = "root"']
    lines += ["[toolchain]", 'verify = "report"', 'lead = "lead"', 'ops = "lead"', "failures = 2", "probe_after = 1"]
    (root / "agenttalk.toml").write_text("\n".join(lines), encoding="utf-8")
    return root


class Forge:
    """The forge, for a thread that is not its own."""

    def __init__(self, forge: FakeGitea, loop: asyncio.AbstractEventLoop) -> None:
        self.fake = forge
        self._loop = loop

    def do(self, deed: Callable[..., Any], *arguments: Any) -> Any:
        async def run() -> Any:
            found = deed(*arguments)
            return await found if asyncio.iscoroutine(found) else found

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    @property
    def repository(self) -> Any:
        return self.fake.state.repository("acme", "widgets")

    def user(self, login: str) -> Any:
        return self.fake.state.user(login)

    def hook(self, bench: Bench) -> None:
        self.repository.hooks.clear()
        self.do(self.fake.hook, "acme/widgets", f"{bench.url}/api/webhooks/work", SECRET, ("issues", "issue_comment"))


def played(
    folder: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], play: Callable[[Path, Forge], None]
) -> None:
    async def work() -> None:
        async with FakeGitea.running(folder / "forge") as forge:
            for login in LOGINS:
                monkeypatch.setenv(f"{login[6:].upper()}_TOKEN", forge.user(login))
            forge.repository("acme/widgets", writers=list(LOGINS))
            monkeypatch.setenv("FORGE", forge.url)
            monkeypatch.setenv("ENGINE_TOKEN", forge.admin)
            root = configured(folder / "root", forge.url, programs)
            await asyncio.to_thread(play, root, Forge(forge, asyncio.get_running_loop()))

    asyncio.run(work())


def asked(bench: Bench) -> list[dict[str, Any]]:
    """The questions that wait for a person."""
    status, found = bench.get("/api/human-requests", bench.operator_token())
    assert status == 200, found
    requests: list[dict[str, Any]] = found["requests"]
    return requests


def outgoing(bench: Bench) -> dict[str, Any]:
    status, found = bench.get("/api/toolchain/outgoing", bench.operator_token())
    assert status == 200, found
    return found


def has_kept(bench: Bench, count: int) -> bool:
    return len(outgoing(bench)["outgoing"]) >= count


def printed(root: Path, *command: str) -> str:
    found = agenttalk("toolchain", "outgoing", "--root", str(root), *command)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


@pytest.mark.rest
@pytest.mark.shows("T24")
def test_two_agents_that_call_each_other_for_ever_are_stopped_and_a_person_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(root: Path, forge: Forge) -> None:
        with served(root) as bench:
            forge.hook(bench)
            alice, state = forge.user("alice"), forge.fake.state
            forge.repository.writers.add("alice")
            forge.do(state.issues.create_issue, forge.repository, alice, "Crash", "It crashes.", [])
            forge.do(state.issues.create_comment, forge.repository, alice, 1, "@agent-dev please look")
            [question] = until(lambda: asked(bench), "a person is asked")
            assert "agents have answered each other 5 times at work:acme/widgets#1" in question["request"]["title"]
            tasks = bench.settled()
            assert [each["assignee"] for each in tasks] == ["dev", "reviewer", "dev", "reviewer", "dev"]
            assert len(forge.repository.comments) == 6
            # A person's word calls one again.
            forge.do(state.issues.create_comment, forge.repository, alice, 1, "@agent-reviewer what do you think?")
            until(lambda: len(bench.tasks()) == 7, "they go on, and are stopped again")
            bench.settled()
            assert len(asked(bench)) == 1, "there is one question about it"

    played(tmp_path, monkeypatch, {"dev": CALLS, "reviewer": CALLS}, play)


@pytest.mark.rest
@pytest.mark.shows("T11", "T12", "T13")
def test_what_is_to_be_said_survives_an_outage_and_kill_9_and_reaches_the_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(root: Path, forge: Forge) -> None:
        with served(root) as bench:
            forge.hook(bench)
            forge.repository.writers.add("alice")
            forge.fake.faults[:] = [ForgeFault("status", "POST", times=-1)]  # it can be read, and takes nothing
            forge.do(forge.fake.state.issues.create_issue, forge.repository, forge.user("alice"), "Crash", "", [])
            forge.do(
                forge.fake.state.issues.edit_issue,
                forge.repository,
                forge.user("alice"),
                1,
                {"assignees": ["agent-dev"]},
            )
            for count in (1, 2, 3):
                until(partial(has_kept, bench, count), f"{count} texts are kept")
            until(lambda: outgoing(bench)["away"], "the forge is left alone")
            assert "work has not answered since" in printed(root)
            found = outgoing(bench)["outgoing"]
            assert [(each["kind"], each["state"]) for each in found] == [
                *[("comment", "waiting")] * 2,
                ("issue", "waiting"),
            ]
            assert bench.serving is not None
            bench.serving.process.kill()
        with served(root) as bench:
            forge.hook(bench)
            forge.fake.faults.clear()
            until(lambda: {each["state"] for each in outgoing(bench)["outgoing"]} == {"sent"}, "all is said")
            tasks = until(lambda: found if len(found := bench.settled()) == 3 else None, "the lead has done its part")
            told = [(each["must_haves"]["action_type"], each["assignee"], each["status"]) for each in tasks]
            assert sorted(told) == [
                ("infrastructure_failure", "lead", "done"),
                ("issue_assigned", "dev", "failed"),
                ("issue_assigned", "lead", "done"),
            ]
            ours = [each for each in forge.repository.comments if each.author.login == "root"]
            assert [f"round {number})" in each.body for number, each in enumerate(ours, 1)] == [True] * 2
            assert [each.author.login for each in forge.repository.issues.values()] == ["alice", "root"]
            assert printed(root) == "✓ nothing is waiting\n"
            sent = json.loads(printed(root, "--all", "--json"))["outgoing"]
            assert [each["state"] for each in sent] == ["sent"] * 3

    played(tmp_path, monkeypatch, {"dev": IGNORES}, play)
