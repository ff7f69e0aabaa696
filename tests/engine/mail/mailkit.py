"""The board `_mail` in this process, with a clock that stands until it is moved; and letters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.contracts.agent import AgentProfile
from agenttalk.engine.core.access import Caller
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.mail.board import MailBoard
from agenttalk.engine.mail.letters import LetterDraft
from agenttalk.engine.mail.task_kind import MailTaskKind
from agenttalk.engine.operation.fsck import check_root
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.views import mail as showing
from agenttalk.ports.agents import Performer
from agenttalk.ports.kinds import MailRules
from agenttalk.rules.mail.letters import BOARD
from agenttalk.wiring import open_root
from kits.agentkit import Clock

T = TypeVar("T")
OPERATOR = Caller("operator", "operator")
DRIVERS = {"dev": "played", "pm": "played", "hand": "folder"}
PROFILES = {name: AgentProfile(agent_id=name, driver=driver) for name, driver in DRIVERS.items()}  # type: ignore[arg-type]
RULES = MailRules(PROFILES, frozenset(PROFILES), remind_after=600, answer_within=3600, retry_times=0, hops=3)


def play(
    root: Path,
    work: Callable[[Deps, MailBoard], Awaitable[T]],
    *,
    clock: Clock | None = None,
    url: str = "",
    **changes: Any,
) -> T:
    """Do something with a root whose board `_mail` nobody else works on."""
    (root / "agents" / "visitor").mkdir(parents=True, exist_ok=True)

    async def run() -> T:
        kind = MailTaskKind(changes.get("rules", RULES))
        async with open_root(root, kinds={BOARD: kind}, clock=clock or Clock(), url=url) as deps:
            post = MailBoard(deps)
            kind.replies = post
            found = await work(deps, post)
            assert [str(fault) for fault in await check_root(deps)] == []
            return found

    return asyncio.run(run())


def draft(sender: str = "operator", to: tuple[str, ...] = ("dev",), kind: Any = "inform", **more: Any) -> LetterDraft:
    said = {"subject": "Hello", "body": "What is 6 x 7?", **more}
    return LetterDraft(sender, to, kind, **said)


def by(name: str) -> Caller:
    return OPERATOR if name == "operator" else Caller("agent", name)


async def sent(post: MailBoard, letter: LetterDraft, key: str | None = None) -> str:
    """The id of a letter that was sent."""
    return str((await post.send(letter, by(letter.sender), key))["message_id"])


async def at(deps: Deps, mail_id: str, addressee: str = "dev") -> Any:
    """How a letter stands at one of its addressees."""
    found = await showing.read_letter(deps, mail_id)
    return next(each for each in found["addressees"] if each["addressee"] == addressee)


async def listed(deps: Deps, viewer: str | None = None, **asked: Any) -> list[str]:
    """The bodies of letters that a list shows, page by page."""
    found: list[str] = []
    before: int | None = 0
    while before is not None:
        answer = await showing.list_letters(deps, showing.MailQuery(**{"limit": 3, **asked, "before": before}), viewer)
        found += [(await showing.read_letter(deps, each["message_id"]))["body"] for each in answer["mails"]]
        before = answer["next"]
    return found


async def worked(deps: Deps, performer: Performer, ended: Callable[[], Awaitable[bool]]) -> None:
    """Have a dispatcher run until something is so, and look at everything once more."""
    stop = asyncio.Event()
    dispatcher = Dispatcher(deps, {"played": performer}, LocalProcesses(), max_running=4)
    running = asyncio.create_task(dispatcher.run(stop))
    try:
        async with asyncio.timeout(300):
            with dispatcher.subscribe_changes() as news:
                while not await ended():
                    news.clear()
                    if not await ended():
                        await news.wait()
            await dispatcher.wait_for_dispatch()
    finally:
        stop.set()
        await running


def box(root: Path, agent_id: str, which: str = "inbox") -> Path:
    found = root / "agents" / agent_id / which / BOARD
    found.mkdir(parents=True, exist_ok=True)
    return found


def left(root: Path, agent_id: str, mail_id: str, **changes: Any) -> Path:
    """A letter that an agent left in its outbox."""
    said = {"message_id": mail_id, "from": agent_id, "to": ["operator"], "kind": "inform", "subject": "S", "body": "B"}
    path = box(root, agent_id, "outbox") / f"mail_{mail_id}.json"
    path.write_text(json.dumps({"schema_version": "1.0", **said, **changes}), encoding="utf-8")
    return path
