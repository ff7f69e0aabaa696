"""A fake Gitea or Forgejo: real HTTP, real git, real signatures, and faults on demand.

It behaves as the real one towards clients and webhooks, with the traps: one status for many refusals,
reviews that stay drafts, assignees that are dropped, deliveries without retry. It keeps everything but git in memory.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import uvicorn

from agenttalk.doors.api.server import EmbeddedServer
from agenttalk.testing.faults import FaultyApp, ForgeFault
from agenttalk.testing.gitea_api import GiteaApi, make_application
from agenttalk.testing.gitea_hooks import HookDeliveries
from agenttalk.testing.gitea_objects import GiteaHook, GiteaRepository, GiteaUser
from agenttalk.testing.gitea_serializer import GiteaSerializer
from agenttalk.testing.gitea_state import GiteaState


class FakeGitea:
    """A forge on a loopback port. Use `running`."""

    def __init__(
        self,
        folder: Path,
        *,
        kind: Literal["gitea", "forgejo"] = "gitea",
        version: tuple[int, int] = (1, 25),
        page: int = 50,
        port: int = 0,
    ) -> None:
        self.kind = kind
        self.version = version
        self.url = ""
        """Its address, such as `http://127.0.0.1:40000`."""
        self.deliveries = HookDeliveries(kind)
        """The deliveries to hooks: `copies`, `hold`, `release`, `replay`, `settled`."""
        self.state = GiteaState(folder, self._emit, reviewers_first=version >= (1, 25))
        """Its data, and the actions on them."""
        self._app = FaultyApp(make_application(GiteaApi(self.state, self.shapes, page)))
        self._port = port
        self._server: EmbeddedServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self.admin = self.user("root", is_admin=True)
        """The token of an account that may do everything."""

    @classmethod
    @asynccontextmanager
    async def running(cls, folder: Path, **options: Any) -> AsyncIterator[FakeGitea]:
        """Run a forge that answers until the block ends."""
        forge = cls(folder, **options)
        await forge.start()
        try:
            yield forge
        finally:
            await forge.stop()
            await forge.deliveries.wait_until_settled()

    @property
    def faults(self) -> list[ForgeFault]:
        """What goes wrong with the next requests, in order."""
        return self._app.faults

    @property
    def requests(self) -> list[str]:
        """Every request so far, such as `GET /api/v1/user`."""
        return self._app.asked

    def shapes(self) -> GiteaSerializer:
        """Make the serializer that writes JSON as this version does."""
        return GiteaSerializer(self.url, self.version, self.state)

    async def start(self) -> None:
        """Listen; on the same port as before, when it was there before."""
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", self._port))
        self._port = bound.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._server = EmbeddedServer(
            uvicorn.Config(
                self._app, ws="none", lifespan="off", log_config=None, log_level="critical", access_log=False
            )
        )
        self._serving = asyncio.create_task(self._server.serve([bound]))
        await self._server.opened.wait()

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = self._server.force_exit = True
            with suppress(asyncio.CancelledError):
                await self._serving
        self._server = self._serving = None

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Stop answering until the block ends."""
        await self.stop()
        try:
            yield
        finally:
            await self.start()

    # Set-up

    def user(self, login: str, *, is_admin: bool = False) -> str:
        """Make an account; returns a new token of it."""
        user = self.state.user(login, is_admin=is_admin)
        token = secrets.token_hex(20)
        user.tokens.add(token)
        return token

    def repository(self, full_name: str, writers: Sequence[str] = ()) -> GiteaRepository:
        """Make a repository with one commit, and give some accounts the right to write to it."""
        owner, _, name = full_name.partition("/")
        made = self.state.make_repository(owner, name)
        made.writers.update(self.state.user(login).login for login in writers)
        return made

    def hook(
        self,
        full_name: str,
        url: str,
        secret: str,
        events: Sequence[str] = ("pull_request", "issues", "status"),
        **options: Any,
    ) -> GiteaHook:
        """Add a hook for the events of a repository."""
        repository = self.state.repository(*full_name.split("/"))
        repository.hooks.append(GiteaHook(len(repository.hooks) + 1, url, secret, tuple(events), **options))
        return repository.hooks[-1]

    def push(
        self,
        full_name: str,
        branch: str,
        files: Mapping[str, str | None],
        who: str,
        message: str = "Change",
        *,
        address: str = "",
    ) -> str:
        """Commit files to a branch as if an account had pushed them, under another git address if asked for.

        No files make an empty commit. Returns the commit.
        """
        repository = self.state.repository(*full_name.split("/"))
        before = repository.bare.branches()
        sha = repository.bare.commit(branch, files, message, address or who)
        self.state.pulls.note_push(repository, self.state.user(who), before)
        return sha

    def force_push(self, full_name: str, branch: str, sha: str, who: str) -> None:
        """Move a branch to any commit, or delete it when none is named."""
        repository = self.state.repository(*full_name.split("/"))
        before = repository.bare.branches()
        repository.bare.move_ref(f"refs/heads/{branch}", sha)
        self.state.pulls.note_push(repository, self.state.user(who), before)

    def amend(
        self, full_name: str, branch: str, files: Mapping[str, str | None], who: str, message: str = "Amended"
    ) -> str:
        """Replace the newest commit of a branch by one with another message, and with other files if given."""
        bare = self.state.repository(*full_name.split("/")).bare
        old = bare.read_commit(bare.head(branch))
        sha = bare.commit_tree(f"amended/{branch}", bare.write_changed_tree(old.sha, files), old.parents, message, who)
        bare.move_ref(f"refs/heads/amended/{branch}", "")
        self.force_push(full_name, branch, sha, who)
        return sha

    def finish_workflow(
        self, full_name: str, sha: str, *, workflow: str = "ci.yml", good: bool = False, pull: int | None = None
    ) -> None:
        """End a workflow. Gitea reports it by statuses and a run, Forgejo by a run of another form."""
        repository = self.state.repository(*full_name.split("/"))
        actions = GiteaUser(-2, "gitea-actions")
        told = repository.pulls[pull] if pull is not None else None
        if self.kind == "forgejo":
            self._forgejo_run(
                repository, sha, workflow, told.issue.author if told else repository.owner, pull, good=good
            )
            return
        event = "pull_request" if told else "push"
        word, page = "success" if good else "failure", f"/{full_name}/actions/runs/41"
        status = {"state": word, "context": f"{workflow} / test ({event})", "target_url": f"{page}/jobs/0"}
        self.state.pulls.set_status(repository, actions, sha, status)  # whose address is relative
        job = {
            "id": 42, "run_id": 41, "name": "test", "head_sha": sha, "status": "completed", "conclusion": word,
            "html_url": f"{self.url}{page}/jobs/0",
        }  # fmt: skip
        self._emit(repository, "workflow_job", "workflow_job", actions, {"action": "completed", "workflow_job": job})
        ref = f"refs/pull/{pull}/head" if told else "refs/heads/main"
        run = {
            "id": 41, "head_sha": sha, "event": event, "path": f"{workflow}@{ref}", "status": "completed",
            "conclusion": word, "html_url": f"{self.url}{page}",
        }  # fmt: skip
        flow = {"name": workflow, "path": f".gitea/workflows/{workflow}"}
        what = {"action": "completed", "workflow": flow, "workflow_run": run}
        self._emit(repository, "workflow_run", "workflow_run", actions, what)

    def _forgejo_run(
        self, repository: GiteaRepository, sha: str, workflow: str, who: GiteaUser, pull: int | None, *, good: bool
    ) -> None:
        inner = {"pull_request": self.shapes().pull(repository, repository.pulls[pull])} if pull else {}
        run = {
            "id": 51, "title": "a run", "repository": self.shapes().repository(repository), "workflow_id": workflow,
            "trigger_user": self.shapes().user(who), "commit_sha": sha, "event": "pull_request" if pull else "push",
            "event_payload": json.dumps(inner), "html_url": f"{self.url}/{repository.full_name}/actions/runs/51",
        }  # fmt: skip
        name = "action_run_success" if good else "action_run_failure"
        body = {"action": "success" if good else "failure", "run": run, "prior_status": "running"}
        self.deliveries.send_event(repository.hooks, name, name, body)

    @contextmanager
    def hold_deliveries(self, order: Sequence[int] | None = None) -> Iterator[None]:
        """Hold the webhooks of the block back, and then deliver them in another order."""
        self.deliveries.hold()
        try:
            yield
        finally:
            self.deliveries.release(order)

    def _emit(self, repository: GiteaRepository, coarse: str, exact: str, who: GiteaUser, what: dict[str, Any]) -> None:
        if exact in {"status", "workflow_run", "workflow_job"} and self.kind == "forgejo":
            return  # it has no such event
        body = self.shapes().event(repository, who, what)
        self.deliveries.send_event(repository.hooks, coarse, exact, body)
