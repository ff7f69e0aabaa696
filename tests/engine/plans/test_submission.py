"""Submitting plans: a small one in one commit, a large one in parts that nobody sees before the last is there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.store.database import BoardStore
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.boards import place_plan
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.messages import published_files
from agenttalk.engine.messages.plan_registry import PlanRegistry
from agenttalk.engine.operation import fsck
from agenttalk.engine.plans import submission
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.messages import ADD_PLAN, PLAN_DOCUMENTS, PLANS, VIEW_BODY
from agenttalk.ports.statements.plans import DEPENDANTS, DUE_TASKS, ENGINE_TASK, NODE, NODES_OF, OPEN_RUNS, RUN
from agenttalk.rules.planfile.compiler import CompiledPlan
from agenttalk.wiring import open_root
from kits.plankit import engine, plan, task
from kits.standingkit import read_standing

T = Callable[[Deps], Awaitable[Any]]
BRANCH = {"required": True, "branches": [{"when": "score < 50", "activate": ["t3"]}]}


def chain(size: int, **keys: Any) -> CompiledPlan:
    """Tasks one after the other; the second chooses whether the fourth runs."""
    judge: dict[str, Any] = {"gates": BRANCH, "score_required": True, "score_criteria": "0-100"}
    more = {1: judge} if size > 3 else {}
    tasks = [
        task(f"t{n}", needs=[f"t{n - 1}"] * 2 if n else [], priority="HIGH" if n == 2 else None, **more.get(n, {}))
        for n in range(size)
    ]
    return plan(*tasks, **keys)


async def hand_over(deps: Deps, compiled: CompiledPlan) -> bool:
    return await submission.submit(deps, compiled.dag, compiled.manifest, compiled.profiles)


def play(root: Path, do: T) -> Any:
    for name in ("agents", "system_runtime"):
        (root / name).mkdir(parents=True, exist_ok=True)

    async def main() -> Any:
        async with open_root(root) as deps:
            return await do(deps)

    return asyncio.run(main())


@contextmanager
def counted() -> Iterator[list[str]]:
    """The boards to which works were handed over, in their order."""
    seen: list[str] = []
    transact = BoardStore.transact

    async def noted(self: BoardStore, work: Callable[[Any], Any]) -> Any:
        seen.append(self.name)
        return await transact(self, work)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BoardStore, "transact", noted)
        yield seen


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks are a part, and DAGs are large."""
    monkeypatch.setattr(submission, "_AT_ONCE", 2)
    monkeypatch.setattr(submission, "_LARGE", 10)


def test_a_plan_of_usual_size_is_one_commit(tmp_path: Path) -> None:
    async def do(deps: Deps) -> None:
        for size in (1, 4):
            with counted() as works:
                assert await hand_over(deps, chain(size, plan_id=f"p{size}"))
            assert works == ["default"]

    play(tmp_path, do)


async def stored(deps: Deps, plan_id: str = "p") -> dict[str, Any]:
    """Everything that a submission writes, but for the time."""
    store = await deps.stores.board("default")
    dag, _, manifest = (await store.read(PLAN_DOCUMENTS, plan_id=plan_id))[0]
    tasks = [f"t{n}" for n in range(5)]
    rows = {each: (await store.read(ENGINE_TASK, plan_id=plan_id, task_id=each))[0] for each in tasks}
    await published_files.publish(deps, store)
    return {
        "dag": bytes(dag),
        "manifest": manifest,
        "run": [each for each in (await store.read(RUN, plan_id=plan_id))[0] if "T" not in str(each)],
        "tasks": rows,
        "nodes": {each: await store.read(NODE, plan_id=plan_id, task_id=each) for each in tasks},
        "edges": {each: await store.read(DEPENDANTS, plan_id=plan_id, task_id=each) for each in tasks},
        "due": await store.read(DUE_TASKS, plan_id=plan_id, limit=9),
        "shown": deps.root.read(f"{root_layout.RUNTIME}/plans/{plan_id}/{root_layout.DAG}", wire.DOCUMENT_LIMIT),
        "profile": deps.root.read(f"agents/a/{root_layout.PROFILE}", wire.DOCUMENT_LIMIT),
        "facts": await store.read(FACTS_OF, subject=plan_id, after=0, limit=9),
    }


def test_parts_come_to_the_same_as_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = chain(5)

    async def do(deps: Deps) -> dict[str, Any]:
        assert await hand_over(deps, compiled)
        assert await hand_over(deps, compiled) is False
        assert await fsck.check_root(deps) == []
        return await stored(deps)

    whole = play(tmp_path / "whole", do)
    monkeypatch.setattr(submission, "_AT_ONCE", 2)
    monkeypatch.setattr(submission, "_LARGE", 10)
    parts = play(tmp_path / "parts", do)
    facts = [each.pop("facts") for each in (whole, parts)]
    assert [(row[2], bytes(row[3])) for row in facts[0]] == [(row[2], bytes(row[3])) for row in facts[1]]
    assert whole == parts
    assert whole["dag"] == whole["shown"] == wire.write(compiled.dag.as_json())
    assert [bytes(whole["nodes"][each.task_id][0][0]) for each in compiled.dag.nodes] == [
        wire.write(each.as_json()) for each in compiled.dag.nodes
    ]
    assert {each: [row[0] for row in whole["edges"][each]] for each in ("t0", "t4")} == {"t0": ["t1"], "t4": []}
    assert bytes(whole["nodes"]["t1"][0][1]) == b'["t3"]'
    assert bytes(whole["nodes"]["t3"][0][2]) == b'["t1"]'
    assert whole["due"] == [("t0", None)]


@pytest.mark.usefixtures("in_parts")
def test_whoever_is_stopped_between_two_parts_leaves_nothing_that_anybody_sees(tmp_path: Path) -> None:
    async def do(deps: Deps) -> None:
        store = await deps.stores.board("default")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submission, "_end_parts", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await hand_over(deps, chain(5))
        assert [row[1] for row in await store.read(OPEN_RUNS)] == ["SUBMITTED"]
        assert await store.read(PLANS) == []
        assert await PlanRegistry(deps).refresh() == {}
        with pytest.raises(UsageError):
            await read_standing(deps, "p")
        other = chain(3)  # another plan under that id: nothing of the first one is left in it
        assert await hand_over(deps, other)
        assert [each["task_id"] for each in (await read_standing(deps, "p")).tasks] == ["t0", "t1", "t2"]
        assert [row[0] for row in await store.read(NODES_OF, plan_id="p")] == ["t0", "t1", "t2"]
        assert await store.read(DEPENDANTS, plan_id="p", task_id="t2") == []
        assert set(await PlanRegistry(deps).refresh()) == {"p"}

    play(tmp_path, do)


def test_a_small_plan_takes_the_place_of_a_large_one_that_was_never_finished(tmp_path: Path) -> None:
    async def do(deps: Deps) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(submission, "_AT_ONCE", 2)
            patch.setattr(submission, "_end_parts", lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await hand_over(deps, chain(5))
        assert await hand_over(deps, chain(1))
        found = await read_standing(deps, "p")
        assert ([each["task_id"] for each in found.tasks], found.counts["open"]) == (["t0"], 1)

    play(tmp_path, do)


@pytest.mark.usefixtures("in_parts")
def test_of_two_who_submit_the_same_at_once_one_succeeds(tmp_path: Path) -> None:
    async def do(deps: Deps) -> Any:
        both = (hand_over(deps, chain(5)), hand_over(deps, chain(5)))
        outcomes = await asyncio.gather(*both, return_exceptions=True)
        assert len((await read_standing(deps, "p")).tasks) == 5
        return outcomes

    outcomes = play(tmp_path, do)
    assert True in outcomes
    [other] = [each for each in outcomes if each is not True]
    if other is not False:  # the same was there already, or not yet whole
        assert isinstance(other, UsageError)
        assert other.code is Code.PLAN_MISMATCH


@pytest.mark.usefixtures("in_parts")
def test_a_large_plan_runs_to_its_end_and_other_content_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path) as running:
            tasks = [task(f"t{n}", needs=[f"t{n - 1}"] if n else []) for n in range(7)]
            assert await running.submit(plan(*tasks))
            assert (await running.ended()).result == "done"
            with pytest.raises(UsageError) as caught:
                await running.submit(plan(*tasks[:5]))
            assert caught.value.code is Code.PLAN_MISMATCH

    asyncio.run(main())


@pytest.mark.usefixtures("in_parts")
@pytest.mark.parametrize("size", [1, 5])
def test_a_plan_that_was_found_as_files_is_not_submitted_over(tmp_path: Path, size: int) -> None:
    async def do(deps: Deps) -> None:
        store = await deps.stores.board("default")
        await store.transact(lambda tx: tx.run(ADD_PLAN, plan_id="p", origin="foreign"))
        with pytest.raises(UsageError) as caught:
            await hand_over(deps, chain(size))
        assert caught.value.code is Code.PLAN_MISMATCH
        assert await store.read(OPEN_RUNS) == []

    play(tmp_path, do)


def test_profiles_that_changed_are_written_anew(tmp_path: Path) -> None:
    async def do(deps: Deps) -> None:
        store = await deps.stores.board("default")
        for plan_id, name in (("p", "Ada"), ("q", "Ada"), ("r", "Bo")):
            await hand_over(deps, plan(task("one"), plan_id=plan_id, agents={"a": {"driver": "python", "name": name}}))
            [(body,)] = await store.read(VIEW_BODY, path=f"agents/a/{root_layout.PROFILE}")
            assert name.encode() in (body or b"")
            assert name.encode() in bytes((await store.read(RUN, plan_id=plan_id))[0][1])

    play(tmp_path, do)


def test_a_plan_stays_on_the_board_where_it_is(tmp_path: Path) -> None:
    async def do(deps: Deps) -> None:
        await hand_over(deps, chain(1, plan_id="here"))
        assert (await place_plan(deps, "here", "other")).name == "default"
        assert (await place_plan(deps, "there", "other")).name == "other"
        assert (await place_plan(deps, "there")).name == "other"

    play(tmp_path, do)
