"""A forge to try things out on: the fake one, or a real Gitea that AGENTTALK_TEST_GITEA_URL names.

For a real one AGENTTALK_TEST_GITEA_TOKEN is the token of an administrator. What the tests make there stays there.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from agenttalk.forge.client import Patience
from agenttalk.forge.gitea import Gitea
from agenttalk.testing import FakeGitea

REAL = os.environ.get("AGENTTALK_TEST_GITEA_URL", "")
QUICK = Patience(connect=2, answer=10, tries=3, pause=0.01)


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
    async def client(self, name: str, patience: Patience = QUICK) -> AsyncIterator[Gitea]:
        async with Gitea.opened("work", self.url, self.tokens[self.login(name)], patience=patience) as client:
            yield client

    async def call(self, name: str, method: str, path: str, body: Any = None) -> Any:
        async with httpx2.AsyncClient(trust_env=False, verify=self.url.startswith("https:")) as client:
            answer = await client.request(
                method,
                f"{self.url}/api/v1{path}",
                json=body,
                headers={"Authorization": f"token {self.tokens[self.login(name)]}"},
            )
            assert answer.status_code < 300, answer.text
            return answer.json() if answer.content else None

    async def write(self, branch: str, path: str, text: str = "x\n", *, new: bool = True) -> None:
        body = {"content": base64.b64encode(text.encode()).decode(), "message": f"Write {path}", "branch": "main"}
        body |= {"new_branch": branch} if new else {"branch": branch}
        await self.call("author", "POST", f"/repos/{self.repository}/contents/{path}", body)


@asynccontextmanager
async def forge(folder: Path, kind: str, **options: Any) -> AsyncIterator[Bench]:
    if kind == "real":
        yield await _set_up(REAL, os.environ["AGENTTALK_TEST_GITEA_TOKEN"], None)
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
