"""Proven work becomes a pull request at a configured forge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agenttalk.testing import FakeGitea
from doors.cli.changes.changekit import CHECK, RIGHT, make_repo, writes
from kits.provekit import git

NAME = "acme/shop"
FIXES = writes(RIGHT)


def configure(folder: Path, forge: FakeGitea) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = f'[sources.work]\nkind = "gitea"\nbase_url = "{forge.url}"\ntoken_env = "FORGE_TOKEN"\n'
    (folder / "agenttalk.toml").write_text(text)


def pulls_of(forge: FakeGitea) -> list[tuple[str, str]]:
    """Title and head of the pull requests."""
    found = forge.state.repository(*NAME.split("/")).pulls.values()
    return [(each.issue.title, each.head_sha) for each in found]


def test_proven_work_is_pushed_and_becomes_one_pull_request(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            token = forge.user("ada")
            forge.user("acme")
            forge.repository(NAME, ["ada"])
            repo = make_repo(tmp_path)
            with_token = forge.url.replace("://", f"://ada:{token}@")
            await asyncio.to_thread(git, repo.top, "push", "-q", "--force", f"{with_token}/{NAME}.git", "main")
            git(repo.top, "remote", "add", "origin", f"{forge.url}/{NAME}.git")
            configure(repo.state, forge)
            more = {"FORGE_TOKEN": token}
            told = await asyncio.to_thread(lambda: repo.json(CHECK, repo.agent(FIXES), "--pr", more=more))
            assert told["pull_request"]["ok"], told
            assert told["pull_request"]["url"].startswith(f"{forge.url}/{NAME}/pulls/")
            assert pulls_of(forge) == [(CHECK[:120], told["commit"])]
            again = await asyncio.to_thread(lambda: repo.until(CHECK, repo.agent(FIXES), "--pr", more=more))
            assert f"pull request: {told['pull_request']['url']}" in again
            assert len(pulls_of(forge)) == 1
            assert token not in git(repo.top, "config", "--list")

    asyncio.run(main())


def test_what_is_missing_for_a_pull_request_is_told_before_the_agent_starts(tmp_path: Path) -> None:
    repo = make_repo(tmp_path)

    def told() -> str:
        return repo.until(CHECK, repo.agent(FIXES), "--pr", code=2)

    assert "no source is configured" in told()
    text = '[sources.work]\nkind = "gitea"\nbase_url = "https://git.example.org"\n'
    (repo.state / "agenttalk.toml").write_text(text)
    assert "needs the remote origin" in told()
    git(repo.top, "remote", "add", "origin", "https://git.example.org/acme/shop.git")
    assert "the source 'work' has no token" in told()
    git(repo.top, "checkout", "-q", "--detach")
    assert "none is checked out" in told()
    assert git(repo.top, "branch", "--list", "agenttalk/*") == ""


@pytest.mark.rest
def test_work_whose_pull_request_cannot_be_opened_stays_proven_and_waits(tmp_path: Path) -> None:
    repo = make_repo(tmp_path)
    repo.state.mkdir(mode=0o700)
    text = '[sources.work]\nkind = "gitea"\nbase_url = "http://127.0.0.1:1"\ntoken_env = "FORGE_TOKEN"\n'
    (repo.state / "agenttalk.toml").write_text(text)
    git(repo.top, "remote", "add", "origin", "http://127.0.0.1:1/acme/shop.git")
    told = repo.json(CHECK, repo.agent(FIXES), "--pr", code=3, more={"FORGE_TOKEN": "x"})
    assert (told["result"], told["pull_request"]["ok"]) == ("proven", False)
    assert "git push failed" in told["pull_request"]["why"]
