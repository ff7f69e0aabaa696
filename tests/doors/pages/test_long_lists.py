"""Lists that may be long come page by page, over HTTP and on pages."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import UsageError
from agenttalk.contracts.human import HumanInterventionRequest
from agenttalk.engine.messages import dead_letters
from agenttalk.engine.people import questions as people_questions
from agenttalk.ports.statements.messages import ADD_DEADLETTER
from agenttalk.ports.storage import Tx
from agenttalk.wiring import open_root
from doors.api.doorkit import VIEWER, listening
from doors.pages.pagekit import Guest, visit
from kits.treekit import Tree

PLACES = (("default", 130), ("_toolchain", 75))
"""Boards, and how many there are on each."""


def asked(number: int) -> HumanInterventionRequest:
    return HumanInterventionRequest.from_json(
        {
            "schema_version": "1.0",
            "request_id": f"req_{number:03}",
            "created_at": "2026-01-01T00:00:00Z",
            "created_by": {"agent_id": "dev"},
            "severity": "LOW",
            "type": "CLARIFY",
            "title": f"Question {number}",
            "blocking": False,
            "needed": {"decision": {"question": "What?"}},
        }
    )


def refused(tx: Tx, number: int, at: str) -> None:
    told = {"code": "JSON_INVALID", "reason": "no JSON", "agent_id": "dev", "box": "outbox", "name": "x.msg.json"}
    name = f"dl_{number:03}"
    tx.run(ADD_DEADLETTER, plan_id="p", deadletter_id=name, key=name, **told, message_id=None, sha256=None,
           original=None, retriable=0, at=at)  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with many questions and dead letters, some of them at the same moment, in no order of boards."""
    Tree(tmp_path)
    for name in ("agents", "system_runtime"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)

    async def fill() -> None:
        async with open_root(tmp_path) as deps:
            first = 0
            for board, many in PLACES:
                store = await deps.stores.board(board)

                def work(tx: Tx, first: int = first, many: int = many) -> None:
                    for number in range(first, first + many):
                        at = f"2026-01-01T00:{number * 7 % 60:02}:00Z"
                        people_questions.ask(tx, asked(number), plan_id="p", at=at)
                        refused(tx, number, at)

                await store.transact(work)
                first += many

    asyncio.run(fill())
    return tmp_path


def test_pages_hold_everything_once_and_in_order(root: Path) -> None:
    async def look() -> None:
        async with open_root(root) as deps:
            for size in (1, 64, 205, 500):
                questions: list[tuple[str, str]] = []
                place: str | None = ""
                while place is not None:
                    some, place = await people_questions.read_page(deps, after=place, limit=size)
                    assert len(some) <= size
                    questions += [(each.at, each.request_id) for each in some]
                assert questions == sorted(set(questions))
                assert len(questions) == 205
                letters: list[dead_letters.DeadLetter] = []
                place = ""
                while place is not None:
                    found, place = await dead_letters.read_page(deps, after=place, limit=size)
                    letters += found
                assert len({each["deadletter_id"] for each in letters}) == len(letters) == 205
                for board, _ in PLACES:
                    own = [each["deadletter_id"] for each in letters if each["board"] == board]
                    assert own == sorted(own, reverse=True), "the newest first"
            for bad in ("x", "W10", "WzEsMl0", "eyJhIjoieCJ9", "eyJhIjotMX0"):
                with pytest.raises(UsageError, match="not a cursor of this list"):
                    await people_questions.read_page(deps, after=bad)
                if bad != "W10":
                    with pytest.raises(UsageError, match="not a cursor of this list"):
                        await dead_letters.read_page(deps, after=bad)

    asyncio.run(look())


def test_programs_are_told_page_by_page(root: Path) -> None:
    with listening(root) as door:
        for path, name in (("/api/human-requests", "requests"), ("/api/deadletters", "deadletters")):
            first = door.get(path, VIEWER).json
            assert len(first[name]) == 100
            rest = door.get(f"{path}?limit=500&after={first['next']}", VIEWER).json
            assert (len(rest[name]), rest["next"]) == (105, None)
            assert not any(each in rest[name] for each in first[name])
            assert door.get(f"{path}?after=x", VIEWER).status == 422
            assert door.get(f"{path}?limt=1", VIEWER).status == 422


def test_pages_lead_on_to_the_rest(root: Path) -> None:
    async def all_of(ada: Guest, path: str, link: str) -> list[str]:
        found: list[str] = []
        following: str | None = path
        while following:
            shown = await ada.page(following)
            found += re.findall(link, shown)
            more = re.search(rf'href="({path}\?after=[^"]+)"', shown)
            following = more[1] if more else None
        return found

    async def use(ada: Guest) -> None:
        for path, link in (("/inbox", r'href="/inbox/(req_\d+)"'), ("/deadletters", r'href="/deadletters/(dl_\d+)"')):
            found: list[Any] = await all_of(ada, path, link)
            assert len(found) == len(set(found)) == 205
        overview = await ada.page("/")
        assert "All 205 questions" in overview
        assert overview.count('href="/inbox/req_') == 20

    visit(root, use)
