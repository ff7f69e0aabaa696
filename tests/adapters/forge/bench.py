"""A forge to try things out on: the fake one, or a real Gitea that AGENTTALK_GITEA_URL names.

For a real one AGENTTALK_GITEA_TOKEN is the token of an administrator. What the tests make there stays there.
"""

from __future__ import annotations

import base64
import os
import secrets
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from agenttalk.adapters.forge.client import RetryPolicy
from agenttalk.adapters.forge.gitea import Gitea
from agenttalk.testing import FakeGitea

REAL = os.environ.get("AGENTTALK_GITEA_URL", "")
QUICK = RetryPolicy(connect=2, answer=10, tries=3, pause=0.01)


@dataclass
class Bench:
    """A forge with a repository, an author and a reviewer. Everything is done through its API."""

    url: str
    tokens: dict[str, str]
    repository: str
    fake: FakeGitea | None

    def login(self, name: str) -> str:
        return next(login for login in self.tokens if login.startswith(name))

    @asynccontextmanager
    async def client(self, name: str, patience: RetryPolicy = QUICK) -> AsyncIterator[Gitea]:
        async with Gitea.connect("work", self.url, self.tokens[self.login(name)], patience=patience) as client:
            yield client

    async def call(self, name: str, method: str, path: str, body: Any = None) -> Any:
        answer = await self.ask(name, method, path, body)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def ask(self, name: str, method: str, path: str, body: Any = None) -> httpx2.Response:
        """The answer, whatever it is."""
        async with httpx2.AsyncClient(trust_env=False, verify=self.url.startswith("https:")) as client:
            return await client.request(
                method,
                f"{self.url}/api/v1{path}",
                json=body,
                headers={"Authorization": f"token {self.tokens[self.login(name)]}"},
            )

    def git(self, folder: Path, name: str, *arguments: str) -> str:
        """Run git in a clone of the repository, which is made when there is none, as one of the accounts."""
        scheme, _, place = self.url.partition("://")
        login = self.login(name)
        address = f"{scheme}://{login}:{self.tokens[login]}@{place}/{self.repository}.git"
        mail = {f"GIT_{who}_EMAIL": f"{login}@example.test" for who in ("AUTHOR", "COMMITTER")}
        names = {f"GIT_{who}_NAME": login for who in ("AUTHOR", "COMMITTER")}
        environment = (
            {"PATH": os.environ["PATH"], "HOME": str(folder.parent), "GIT_TERMINAL_PROMPT": "0"} | mail | names
        )
        runs = [] if folder.exists() else [("clone", "--quiet", address, str(folder))]
        for each in (*runs, ("-C", str(folder), *arguments)):
            done = subprocess.run(
                ["git", *each], env=environment, capture_output=True, text=True, check=False, timeout=600
            )
            assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    async def write(self, branch: str, path: str, text: str = "x\n", *, new: bool = True) -> None:
        body = {"content": base64.b64encode(text.encode()).decode(), "message": f"Write {path}", "branch": "main"}
        body |= {"new_branch": branch} if new else {"branch": branch}
        await self.call("author", "POST", f"/repos/{self.repository}/contents/{path}", body)


@asynccontextmanager
async def forge(folder: Path, kind: str, **options: Any) -> AsyncIterator[Bench]:
    if kind == "real":
        yield await _set_up(REAL, os.environ["AGENTTALK_GITEA_TOKEN"], None)
        return
    async with FakeGitea.running(folder, **options) as fake:
        yield await _set_up(fake.url, fake.admin, fake)


async def _set_up(url: str, admin: str, fake: FakeGitea | None) -> Bench:
    end = secrets.token_hex(3)
    bench = Bench(url, {f"root-{end}": admin}, "", fake)
    for name in ("author", "reviewer", "reader"):
        login, password = f"{name}-{end}", secrets.token_hex(16)
        body = {
            "username": login,
            "password": password,
            "email": f"{login}@example.test",
            "must_change_password": False,
        }
        await bench.call("root", "POST", "/admin/users", body)
        async with httpx2.AsyncClient(
            auth=(login, password), trust_env=False, verify=url.startswith("https:")
        ) as client:
            scopes = ["write:issue", "write:repository", "write:user"]
            answer = await client.post(f"{url}/api/v1/users/{login}/tokens", json={"name": "test", "scopes": scopes})
            bench.tokens[login] = answer.json()["sha1"]
    made = await bench.call(
        "author", "POST", "/user/repos", {"name": "widgets", "auto_init": True, "default_branch": "main"}
    )
    bench.repository = made["full_name"]
    await bench.call(
        "author", "PUT", f"/repos/{bench.repository}/collaborators/{bench.login('reviewer')}", {"permission": "write"}
    )
    return bench
