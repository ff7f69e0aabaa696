"""What is to be said at a forge is said once, wherever a process dies: between posting and noting it, too."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adapters.forge.test_intake import issue_event
from adapters.forge.world import AGENTS, SOURCE, registry
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.forge import Comment, ForgeIssue, ForgeUser
from agenttalk.contracts.toolchain import NOT_DONE
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard, ToolchainSetup
from agenttalk.engine.toolchain.forge_posts import ForgePoster
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind
from agenttalk.ports.statements.toolchain import TOOLCHAIN_PAGE
from agenttalk.ports.storage import Tx
from crash.life import Life, Scenario, Step

POSTS = "forge.jsonl"
"""What the forge has, under the root."""
LATER = 7200.0


class Account:
    """The account of the engine at a forge."""

    async def read_user(self) -> ForgeUser:
        return ForgeUser(source=SOURCE, login="engine")


class Posts:
    """The comments and issues of a forge that is a file: each text is a line, which is there whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def comment(self, repository: str, number: int, comment_body: str) -> Comment:
        return self._comment(self._write({"on": f"{repository}#{number}", "body": comment_body}))

    async def list_comments(self, repository: str, number: int) -> tuple[Comment, ...]:
        return tuple(map(self._comment, self._posts(f"{repository}#{number}")))

    async def create(self, repository: str, title: str, issue_body: str, assignees: Sequence[str] = ()) -> ForgeIssue:
        sent = {"on": repository, "title": title, "body": issue_body, "assignees": list(assignees)}
        return self._issue(self._write(sent))

    async def list_since(self, repository: str, _: str) -> tuple[ForgeIssue, ...]:
        return tuple(map(self._issue, self._posts(repository)))

    def _write(self, post: dict[str, Any]) -> dict[str, Any]:
        post["id"] = len(self._posts(post["on"])) + 1
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, json.dumps(post).encode() + b"\n")
        finally:
            os.close(descriptor)
        return post

    def _posts(self, on: str) -> list[dict[str, Any]]:
        return [each for each in posted(self._path) if each["on"] == on]

    def _comment(self, post: dict[str, Any]) -> Comment:
        return Comment(id=post["id"], body=post["body"], author=ForgeUser(source=SOURCE, login="engine"))

    def _issue(self, post: dict[str, Any]) -> ForgeIssue:
        users = tuple(ForgeUser(source=SOURCE, login=each) for each in post["assignees"])
        me = ForgeUser(source=SOURCE, login="engine")
        return ForgeIssue(number=post["id"], title=post["title"], body=post["body"], author=me, assignees=users)


def posted(path: Path) -> list[dict[str, Any]]:
    """What was posted, the oldest first."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _parts(life: Life) -> tuple[ToolchainBoard, ForgePoster]:
    profiles = {each: AgentProfile(agent_id=each, driver="folder") for each in AGENTS}  # type: ignore[arg-type]
    deps = replace(life.deps, kinds={BOARD: ToolchainTaskKind()})
    board = ToolchainBoard(deps, ToolchainSetup(registry=registry(), profiles=profiles), lambda: "")
    forges: Any = {SOURCE: SimpleNamespace(account=Account(), issues=Posts(life.tree.root / POSTS))}

    async def retry(_: str, __: str) -> None:
        raise AssertionError("nobody asked for it")

    return board, ForgePoster(deps, board, forges, retry=retry)


async def _fail(life: Life) -> None:
    """A task, and what its turns left behind: it was not done, the forge was away, and it failed for good."""
    board, _ = _parts(life)
    await board.process_events([(issue_event("issue_assigned", 0, "agent-dev"), {})])
    store = await life.deps.stores.board(BOARD)
    [row] = await store.read(TOOLCHAIN_PAGE, after=0, limit=10)
    ways = ((["business"], "NOT_FULFILLED"), (["business"], "NOT_FULFILLED"), (["infrastructure"], "NOT_FULFILLED"),
        (["system"], "FAILED_FOR_GOOD"))  # fmt: skip

    def work(tx: Tx) -> None:
        for number, (way, cause) in enumerate(ways, 1):
            body: Any = {"task_id": row[1], "ways": way, "cause": cause, "reason": "no pull request names it"}
            body |= {"found": ["no_action"], "round": number}
            tx.queue_effect(NOT_DONE, f"{NOT_DONE}/{row[1]}/{number}", body)

    await store.transact(work)


async def _say(life: Life) -> None:
    _, outgoing = _parts(life)
    await outgoing.pass_()


def twice(root: Path, _: list[str]) -> list[str]:
    """What was posted more than once, or in another order."""
    found = posted(root / POSTS)
    bodies = Counter(each["body"] for each in found)
    rounds = [number for each in found for number in (1, 2) if f"round {number})" in each["body"]]
    told = [f"posted {count} times: {body[:200]}" for body, count in bodies.items() if count > 1]
    return told + ([f"posted in the order {rounds}"] if rounds != sorted(rounds) else [])


TOLD = Scenario(
    "told",
    lambda _: None,
    (Step(_say), Step(_say, seconds=60), Step(_say, seconds=LATER)),
    before=(Step(_fail),),
    witness=twice,
)
"""Two comments, an outage, an issue for the lead, and a reminder."""
SCENARIOS = (TOLD,)
