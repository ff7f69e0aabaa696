"""What tests of the router look at: the store behind a root, dead letters with all that belongs to them, sums."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agenttalk.contracts.record import Alert, DeadletterEntry, DeliveryEntry
from agenttalk.engine.core.deps import Deps, EngineLimits
from agenttalk.engine.messages.router import Router, RouterReport
from agenttalk.engine.operation import fsck
from agenttalk.ports.statements.messages import IN_FLIGHT, PLAN
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import Clock, R
from agenttalk.wiring import open_root
from kits.treekit import Tree, sha256

T = TypeVar("T")
Route = Callable[[], RouterReport]
COUNTED = ("sent", "delivered", "superseded", "duplicate", "dead")


class Watch:
    """A clock that stands until somebody moves it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def move(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def inside(
    root: Path, use: Callable[[Deps], Awaitable[T]], *, clock: Clock | None = None, limits: EngineLimits | None = None
) -> T:
    """Do something with a root that is opened for it alone."""

    async def go() -> T:
        async with open_root(root, clock=clock, limits=limits, answers_by_file=True) as deps:
            return await use(deps)

    return asyncio.run(go())


def routed(root: Path, *, clock: Clock | None = None, limits: EngineLimits | None = None) -> RouterReport:
    """One pass by a router that has just started."""
    return inside(root, lambda deps: Router(deps).pass_(), clock=clock, limits=limits)


def asked(root: Path, query: Statement[R], *, board: str = "default", **params: Any) -> list[R]:
    """What the store says."""

    async def use(deps: Deps) -> list[R]:
        return await (await deps.stores.board(board)).read(query, **params)

    return inside(root, use)


def counts(root: Path, plan_id: str = "plan_shop", *, board: str = "default") -> dict[str, int]:
    """What became of a plan's messages; the sum must agree."""
    [(_, _, _, _, _, *numbers)] = asked(root, PLAN, board=board, plan_id=plan_id)
    found = dict(zip(COUNTED, numbers, strict=True))
    [(in_flight,)] = asked(root, IN_FLIGHT, board=board, plan_id=plan_id)
    assert found["sent"] == sum(numbers[1:]) + in_flight
    return {key: value for key, value in {**found, "in_flight": in_flight}.items() if value}


def sound(root: Path) -> bool:
    """Whether nothing in the store contradicts anything else."""
    faults = inside(root, fsck.check_root)
    assert faults == []
    return True


def statuses(tree: Tree, message_id: str, plan_id: str = "") -> list[str]:
    """What the journal says of a message, in order; each line is valid."""
    lines = [line for line in tree.journal(plan_id) if line["message_id"] == message_id]
    return [DeliveryEntry.from_json(line).status for line in lines]


def alerts(tree: Tree, code: str = "", plan_id: str = "") -> list[dict[str, Any]]:
    """The alerts of a plan, of one code if it is named; each is valid."""
    found = tree.documents(f"alerts/{plan_id or tree.plan_id}")
    for each in found:
        Alert.from_json(each)
    return [each for each in found if code in {"", each["type"]}]


@dataclass(frozen=True)
class Grave:
    """A dead letter with the files that belong to it."""

    entry: dict[str, Any]
    original: bytes | None


def graves(tree: Tree, plan_id: str = "") -> list[Grave]:
    """Every dead letter of a plan; each has its entry, its alert, and its file and reason in .rejected."""
    plan_id = plan_id or tree.plan_id
    folder = tree.root / "system_runtime" / "deadletter" / plan_id
    told = {each["details"].get("deadletter_id"): each for each in alerts(tree, plan_id=plan_id)}
    found = []
    for path in sorted(folder.glob("*.json")):
        entry = json.loads(path.read_bytes())
        DeadletterEntry.from_json(entry)
        original = path.with_suffix(".original")
        data = original.read_bytes() if original.exists() else None
        assert told[entry["deadletter_id"]]["type"] == entry["reason"]["code"]
        if data and "sha256" in entry["original"]:
            assert sha256(data) == entry["original"]["sha256"]
        found.append(Grave(entry, data))
    return found


def buried(tree: Tree, agent_id: str, name: str, code: str, data: bytes | None, plan_id: str = "") -> Grave:
    """The one dead letter of a plan, after looking at everything that belongs to it."""
    plan_id = plan_id or tree.plan_id
    [grave] = [each for each in graves(tree, plan_id) if each.entry["original"]["file_name"] == name]
    assert grave.entry["reason"]["code"] == code
    assert grave.original == data
    box = tree.box(agent_id, "outbox", plan_id)
    assert not (box / name).exists()
    if data is not None:
        assert (box / ".rejected" / name).read_bytes() == data
    reason = json.loads((box / ".rejected" / f"{name[:200]}.reason.json").read_bytes())
    assert reason["code"] == code
    message_id = grave.entry["original"].get("message_id")
    if message_id:
        assert "DEADLETTERED" in statuses(tree, message_id, plan_id)
    return grave
