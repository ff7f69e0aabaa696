"""The action for GitHub, Gitea and Forgejo: its own steps in a real shell, against a forge with real git."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from agenttalk.testing import FakeGitea
from doors.cli.changes import shopkit
from doors.cli.changes.shopkit import NEW_TEST, TAXED, Shop
from kits import provekit

FOLDER = Path(__file__).parents[4] / "contrib" / "action"
ACTION: dict[str, Any] = yaml.safe_load((FOLDER / "action.yml").read_text())
FILES = {**shopkit.FILES, "tests/check.sh": "grep 'total(items) [*] 2' price.py\n"}
REPOSITORY = "acme/shop"


def fill(text: str, values: Mapping[str, str]) -> str:
    """Fill in the expressions of the action, which are plain names here."""
    return re.sub(r"\$\{\{ *([\w.-]+)(?: \|\| [\w.]+)? *\}\}", lambda found: values.get(found[1], ""), text)


class Job:
    """A job that uses the action in a checkout of the shop."""

    def __init__(self, shop: Shop, forge: FakeGitea, token: str, number: int) -> None:
        self.shop, self.forge = shop, forge
        self.folder = shop.folder / "job"
        self.folder.mkdir(exist_ok=True)
        (self.folder / "agenttalk").write_text(f'#!/bin/sh\nexec {sys.executable} -m agenttalk "$@"\n')
        (self.folder / "agenttalk").chmod(0o755)
        self.values = {
            "github.event.pull_request.base.sha": shop.git("rev-parse", "main"),
            "github.event.pull_request.number": str(number),
            "github.token": token,
            "github.action_path": str(FOLDER),
        }

    @property
    def summary(self) -> str:
        return (self.folder / "summary.md").read_text()

    def run(self, **inputs: str) -> tuple[int, dict[str, str]]:
        """Run the steps as a runner does; returns the exit code and the outputs."""
        given = {"check": "sh tests/check.sh", "command": str(self.folder / "agenttalk"), **inputs}
        values = dict(self.values)
        for name, said in ACTION["inputs"].items():
            values[f"inputs.{name}"] = given.get(name, fill(str(said["default"]), values))
        (self.folder / "summary.md").write_text("")
        outputs: dict[str, str] = {}
        code = 0
        for step in ACTION["runs"]["steps"]:
            if "install" in step["name"].lower() and values["inputs.command"]:
                continue
            told = self.folder / "output.txt"
            told.write_text("")
            known = {**values, **{f"steps.prove.outputs.{key}": value for key, value in outputs.items()}}
            environment = {name: fill(text, known) for name, text in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.shop.top,
                env={**self.environment(told), **environment},
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
            assert "token" not in step["name"] or done.returncode == 0
            outputs |= dict(line.split("=", 1) for line in told.read_text().splitlines())
            self.printed = done.stdout + done.stderr
            code = code or done.returncode
        return code, outputs

    def environment(self, told: Path) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "RUNNER_TEMP": str(self.folder),
            "GITHUB_OUTPUT": str(told),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
            "GITHUB_API_URL": f"{self.forge.url}/api/v1",
            "GITHUB_REPOSITORY": REPOSITORY,
        }

    def comments(self) -> list[tuple[str, str]]:
        """Who wrote which comments on the pull request."""
        repository = self.forge.state.repository(*REPOSITORY.split("/"))
        return [(each.author.login, each.body) for each in repository.comments]


async def open_pull(folder: Path, forge: FakeGitea) -> tuple[Shop, str, int]:
    """A pull request that is checked out; the token of the robot of jobs, and its number."""
    forge.user("acme")
    author, robot = forge.user("ada"), forge.user("gitea-actions")
    forge.repository(REPOSITORY, ["ada", "gitea-actions"])
    shop = shopkit.open_shop(folder, FILES)
    url = forge.url.replace("://", f"://ada:{author}@")
    shop.git("checkout", "-q", "-b", "tax")
    shop.write({"price.py": TAXED.replace("* 2", "* 3"), "tests/test_taxed.py": NEW_TEST})
    shop.git("add", ".")
    shop.git("commit", "-qm", "tax")
    pushes = ["push", "-q", "--force", f"{url}/{REPOSITORY}.git", "main", "tax"]
    await asyncio.to_thread(provekit.git, shop.top, *pushes)
    repository = forge.state.repository(*REPOSITORY.split("/"))
    pull = forge.state.pulls.create_pull(repository, forge.state.user("ada"), "A tax", "", "tax", "main")
    return shop, robot, int(pull.issue.number)


def test_one_comment_tells_the_result_and_is_updated(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            shop, robot, number = await open_pull(tmp_path, forge)
            repository = forge.state.repository(*REPOSITORY.split("/"))
            mark = "<!-- agenttalk-prove -->\nProven, trust me."
            forge.state.issues.create_comment(repository, forge.state.user("ada"), number, mark)
            job = Job(shop, forge, robot, number)
            code, outputs = await asyncio.to_thread(job.run)
            assert (code, outputs["verdict"]) == (1, "not_proven"), job.printed
            assert job.summary.startswith("### ❌ Not proven: HEAD")
            assert "**What was not checked**" in job.summary
            [foreign, own] = job.comments()
            assert foreign == ("ada", mark), "a comment of another account stays as it is"
            assert own == ("gitea-actions", f"<!-- agenttalk-prove -->\n{job.summary}")
            shop.write({"price.py": TAXED})
            shop.git("commit", "-qam", "right")
            code, outputs = await asyncio.to_thread(lambda: job.run(sarif=str(tmp_path / "found.sarif")))
            assert (code, outputs["verdict"]) == (0, "proven"), job.printed
            [foreign, own] = job.comments()
            assert own == ("gitea-actions", f"<!-- agenttalk-prove -->\n{job.summary}")
            assert "### ✅ Proven: HEAD" in job.summary
            assert "**Why this is done**" in job.summary
            assert '"2.1.0"' in (tmp_path / "found.sarif").read_text()

    asyncio.run(main())


@pytest.mark.rest
def test_what_cannot_be_checked_or_told_fails_the_job_with_its_reason(tmp_path: Path) -> None:
    async def main() -> None:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            shop, _, number = await open_pull(tmp_path, forge)
            job = Job(shop, forge, "no-token", number)
            code, outputs = await asyncio.to_thread(lambda: job.run(base="0" * 40, options="--base 'no such'"))
            assert (code, outputs["verdict"]) == (2, "error")
            assert "no commit 'no such'" in job.summary
            assert "::warning::the comment on the pull request was not written" in job.printed
            code, _ = await asyncio.to_thread(lambda: job.run(comment="false", options="--scope 'a b/' --allow-tests"))
            assert code == 1
            assert "outside the scope" in job.summary
            assert job.comments() == []

    asyncio.run(main())


def test_the_token_is_given_to_no_step_that_runs_the_check() -> None:
    steps = {step["name"]: step for step in ACTION["runs"]["steps"]}
    holders = [name for name, step in steps.items() if "inputs.token" in str(step)]
    assert holders == ["Tell the result"]
    assert all(step["shell"] == "bash" for step in steps.values())
    assert "${{" not in "".join(step["run"] for step in steps.values()), "an expression there could be code"


@pytest.mark.parametrize("already_there", [False, True])
@pytest.mark.rest
def test_a_pull_request_is_read_and_fetched_from_a_configured_forge(tmp_path: Path, *, already_there: bool) -> None:
    async def main() -> None:
        async with FakeGitea.running(tmp_path / "forge") as forge:
            shop, _, number = await open_pull(tmp_path, forge)
            shop.git("checkout", "-q", "main")
            if not already_there:
                shop.git("branch", "-qD", "tax")
                shop.git("reflog", "expire", "--expire=now", "--all")
                shop.git("gc", "-q", "--prune=now")
            shop.git("remote", "add", "origin", f"{forge.url}/{REPOSITORY}.git")
            before = shop.snapshot()
            root = tmp_path / "root"
            root.mkdir()
            token = forge.user("reader")
            lines = ["[sources.work]", 'kind = "gitea"', f'base_url = "{forge.url}"', 'token_env = "FORGE_TOKEN"']
            (root / "agenttalk.toml").write_text("\n".join([*lines, "insecure = true"]))

            def prove(*arguments: str) -> shopkit.ProveRun:
                return shop.call(*arguments, "--check", "sh tests/check.sh", "--root", str(root), FORGE_TOKEN=token)

            found = await asyncio.to_thread(prove, "--pr", str(number), "--json")
            assert found.code == 1, found
            assert found.told["work"] == f"{REPOSITORY}#{number}"
            assert found.failed() == ["check", "base-tests"]
            assert token not in found.out + found.err
            assert shop.snapshot() == before
            named = await asyncio.to_thread(prove, "--pr", f"{REPOSITORY}#{number}", "--source", "work")
            assert named.code == 1
            for arguments, said in (
                (["--pr", "9"], ""),
                (["--pr", "1", "--source", "other"], "the settings have no forge 'other'"),
            ):
                refused = await asyncio.to_thread(prove, *arguments)
                assert refused.code in {1, 2}
                assert said in refused.err

    asyncio.run(main())
