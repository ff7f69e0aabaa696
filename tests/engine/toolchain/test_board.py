"""The board `_toolchain` with its engine in this process: what the rules decide is what is stored and run."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from adapters.forge.test_any_order import STORIES, told
from adapters.forge.test_intake import issue_event, pr_event
from adapters.forge.test_webhooks import sample
from adapters.forge.world import SOURCE, World, registry, run
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.contracts.agent import AgentProfile
from agenttalk.contracts.forge import ForgeEvent
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.fsck import check_root
from agenttalk.engine.runs.dispatcher import Dispatcher
from agenttalk.engine.toolchain.board import BOARD, ToolchainBoard, ToolchainSetup
from agenttalk.engine.toolchain.deliveries import DeliveryProcessor
from agenttalk.engine.toolchain.receiver import DeliveryReceiver
from agenttalk.engine.toolchain.task_kind import ToolchainTaskKind
from agenttalk.engine.views import toolchain
from agenttalk.ports.agents import Job
from agenttalk.ports.kinds import FollowUp, KindOutcome, KindTask, KindTurn
from agenttalk.ports.statements.messages import PUT_TASK, TASKS_OF
from agenttalk.rules.prompts.toolchain_steps import ForgeAddresses
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.toolchain import event_tasks
from agenttalk.rules.toolchain.accounts import ForgeIdentity
from agenttalk.wiring import forge_sources, open_root
from doors.api.enginekit import agenttalk, until
from effort import cases
from engine.toolchain.kits.bench import SECRET, WAITS, served, signed, written

T = TypeVar("T")
_OURS = registry()
REGISTRY = replace(_OURS, identities=(*_OURS.identities, ForgeIdentity("agent-dev", "gitea", "agent-dev")))
PROFILES = {each.agent: AgentProfile(agent_id=each.agent, driver="played") for each in REGISTRY.identities}  # type: ignore[arg-type]
SETUP = ToolchainSetup(
    registry=REGISTRY,
    places={SOURCE: ForgeAddresses("gitea", "https://git.example.test/api/v1")},
    profiles=PROFILES,
    retry_times=0,
)


def play(
    root: Path,
    work: Callable[[Deps, ToolchainBoard], Awaitable[T]],
    kind: ToolchainTaskKind | None = None,
    url: str = "",
) -> T:
    root.mkdir(exist_ok=True)

    async def run_() -> T:
        async with open_root(root, kinds={BOARD: kind or ToolchainTaskKind()}, url=url) as deps:
            return await work(deps, ToolchainBoard(deps, SETUP, lambda: "http://127.0.0.1:8083"))

    return asyncio.run(run_())


async def listed(deps: Deps) -> list[Any]:
    found: list[Any] = (await toolchain.list_toolchain_tasks(deps, toolchain.ToolchainQuery(limit=500)))["tasks"]
    return found


def as_told(tasks: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """As `told` says it of the model."""
    return sorted(
        (
            "review" if (kind := each["must_haves"]["action_type"]) in {"review_request", "review_updated"} else kind,
            each["assignee"],
            each["must_haves"]["context"].get("head_sha") or each["must_haves"]["context"].get("commit_sha", ""),
        )
        for each in tasks
        if each["status"] != "withdrawn"
    )


@pytest.mark.random
@pytest.mark.shows("T23")
def test_the_board_holds_what_the_rules_say_in_whatever_order_events_come(tmp_path: Path) -> None:
    dice = random.Random(7)
    for number in range(cases(6)):
        events = dice.choice(STORIES)
        order = [*events, *dice.choices(events, k=4)]
        dice.shuffle(order)
        expected = told(run(order))

        async def work(deps: Deps, board: ToolchainBoard, order: list[ForgeEvent] = order) -> list[dict[str, Any]]:
            half = len(order) // 2
            await board.process_events([(each, {}) for each in order[:half]])
            for each in order[half:]:
                await board.process_events([(each, {})])
            assert [str(fault) for fault in await check_root(deps)] == []
            return await listed(deps)

        assert as_told(play(tmp_path / str(number), work)) == expected


@pytest.mark.shows("T15", "T23")
def test_postgresql_holds_the_same(tmp_path: Path, database: str) -> None:
    source = forge_sources.ConfiguredSource("gitea", "gitea", "https://git.example.test/api/v1", SECRET)
    body = json.dumps(sample("gitea/issue_assigned")["body"]).encode()
    headers = [*sample("gitea/issue_assigned")["headers"].items(), *signed("gitea", body).items()]

    async def work(deps: Deps, board: ToolchainBoard) -> list[dict[str, Any]]:
        for each in [*STORIES[0], *STORIES[0]]:
            await board.process_events([(each, {})])
        receiver = DeliveryReceiver(deps, {"gitea": source}, lambda: None)
        first, again = [await receiver.receive("gitea", headers, body) for _ in range(2)]
        assert (first.id, again.again) == (again.id, True)
        assert await DeliveryProcessor(deps, {"gitea": source}, board).pass_() == 1
        assert (await receiver.describe_delivery(first.id))["state"] == "done"
        found = await ran(deps, len(await listed(deps)))
        assert (await toolchain.list_toolchain_tasks(deps, toolchain.ToolchainQuery(status="open")))["tasks"] == []
        return found

    async def seen(_: KindTask, turn: KindTurn) -> Sequence[Evidence]:
        return [Evidence("read_back", True, True, "observed", "forge", turn.at)]

    found = play(tmp_path / "root", work, ToolchainTaskKind(read_back=seen), url=database)
    assert {each["status"] for each in found} == {"done", "withdrawn"}


def test_doing_the_same_again_changes_nothing_after_a_restart(tmp_path: Path) -> None:
    events = STORIES[0]

    async def work(deps: Deps, board: ToolchainBoard) -> list[dict[str, Any]]:
        for each in events:
            await board.process_events([(each, {})])
        return [{key: each[key] for key in ("id", "status", "closed_why")} for each in await listed(deps)]

    assert play(tmp_path / "root", work) == play(tmp_path / "root", work)


class Played:
    """A performer that does nothing but end."""

    calls = 0

    async def perform(self, job: Job) -> Performance:
        assert job.prompt
        Played.calls += 1
        return Performance("finished", result="I did it")


async def ran(deps: Deps, wanted: int) -> list[dict[str, Any]]:
    """Run the dispatcher until so many tasks have ended."""
    dispatcher, stop = Dispatcher(deps, {"played": Played()}, LocalProcesses()), asyncio.Event()
    running = asyncio.create_task(dispatcher.run(stop))
    try:
        with dispatcher.subscribe_changes() as news:
            async with asyncio.timeout(300):
                while len(found := [each for each in await listed(deps) if each["closed_at"]]) < wanted:
                    news.clear()
                    await news.wait()
    finally:
        stop.set()
        await running
    return found


async def observed(task: KindTask, turn: KindTurn) -> Sequence[Evidence]:
    assert (task.action_type, turn.agent_id) == ("issue_assigned", "agent-dev")
    return [Evidence("read_back", True, True, "observed", "forge", turn.at, "there is a pull request")]


async def denied(_: KindTask, turn: KindTurn) -> Sequence[Evidence]:
    return [Evidence("read_back", False, True, "observed", "forge", turn.at, "no_action: no pull request names it")]


async def broken(_: KindTask, __: KindTurn) -> Sequence[Evidence]:
    raise OSError("the network is down")


@pytest.mark.parametrize(
    ("read_back", "status", "why"),
    [(observed, "done", "observed"), (denied, "failed", "no_action"), (broken, "failed", "verify_error")],
)
def test_only_what_the_forge_shows_makes_it_done(tmp_path: Path, read_back: Any, status: str, why: str) -> None:
    followed: list[KindOutcome] = []

    def failed(task: KindTask, outcome: KindOutcome) -> list[FollowUp]:
        followed.append(outcome)
        return [FollowUp("toolchain.failed", f"{task.task_id}/{outcome.command_id}", {"cause": outcome.cause})]

    async def work(deps: Deps, board: ToolchainBoard) -> list[dict[str, Any]]:
        await board.process_events([(issue_event("issue_assigned", 0, "agent-dev"), {})])
        return await ran(deps, 1)

    kind = ToolchainTaskKind(verify={SOURCE: "observed"}, read_back=read_back, on_failure=failed)
    [task] = play(tmp_path / "root", work, kind)
    assert task["status"] == status
    assert why in task["closed_why"]
    causes = [each.cause for each in followed]
    assert causes == ([] if status == "done" else ["NOT_FULFILLED"] * 3 + ["REWORK_EXHAUSTED"])


@pytest.mark.shows("T09")
def test_an_outage_is_done_when_its_turn_has_ended_and_is_told_once(tmp_path: Path) -> None:
    task = event_tasks.make_outage_task(REGISTRY, SOURCE, outage="1", what="git.example.test does not answer")
    assert task is not None

    async def work(deps: Deps, board: ToolchainBoard) -> list[dict[str, Any]]:
        assert [await board.add_task(task) for _ in range(2)][1] is None
        return await ran(deps, 1)

    [found] = play(tmp_path / "root", work, ToolchainTaskKind(verify={SOURCE: "observed"}, read_back=broken_never))
    assert (found["status"], found["assignee"], found["trust"]) == ("done", "agent-ops", "observed")


async def broken_never(_: KindTask, __: KindTurn) -> Sequence[Evidence]:
    return ()


def test_a_task_that_was_taken_back_is_restored_and_run(tmp_path: Path) -> None:
    async def work(deps: Deps, board: ToolchainBoard) -> list[dict[str, Any]]:
        opened_ = pr_event("pull_request_opened", 0)
        closed = pr_event("pull_request_closed", 1, is_open=False)
        again = pr_event("pull_request_reopened", 2)
        for each, status in ((opened_, "pending"), (closed, "withdrawn"), (again, "pending")):
            await board.process_events([(each, {})])
            assert [task["status"] for task in await listed(deps)] == [status]
        return await ran(deps, 1)

    async def reviewed(_: KindTask, turn: KindTurn) -> Sequence[Evidence]:
        return [Evidence("read_back", True, True, "observed", "forge", turn.at)]

    [task] = play(tmp_path / "root", work, ToolchainTaskKind(read_back=reviewed))
    assert task["status"] == "done"


def test_many_tasks_of_one_moment_have_names_of_their_own(tmp_path: Path) -> None:
    async def work(deps: Deps, board: ToolchainBoard) -> list[str]:
        events = [issue_event("issue_assigned", 0, "agent-dev", number=number) for number in range(1, 40)]
        await board.process_events([(each, {}) for each in events])
        return [each["id"] for each in await listed(deps)]

    found = play(tmp_path / "root", work)
    assert len(found) == len(set(found)) == 39


def test_people_see_the_newest_first_page_by_page(tmp_path: Path) -> None:
    async def work(deps: Deps, board: ToolchainBoard) -> tuple[list[str], list[str]]:
        events = [issue_event("issue_assigned", 0, "agent-dev", number=number) for number in range(1, 8)]
        await board.process_events([(each, {}) for each in events])
        found = list[str]()
        following: int | None = 0
        while following is not None:
            page = await toolchain.list_toolchain_tasks(
                deps, toolchain.ToolchainQuery(limit=3, after=following, newest=True)
            )
            found += [each["id"] for each in page["tasks"]]
            following = page["next"]
        return found, [each["id"] for each in await listed(deps)]

    newest, oldest = play(tmp_path / "root", work)
    assert len(newest) == 7
    assert newest == oldest[::-1]


@pytest.mark.shows("T15", "T18")
def test_mail_goes_on_as_before_beside_forge_events(tmp_path: Path) -> None:
    root = written(tmp_path / "root", {"agent-dev": WAITS})

    async def rows(deps: Deps, _: ToolchainBoard) -> list[Any]:
        store = await deps.stores.board("_mail")
        await store.transact(
            lambda tx: tx.run(PUT_TASK, plan_id="_mail", task_id="mail-1", agent_id="agent-dev", at=deps.stamp())
        )
        return await store.read(TASKS_OF, plan_id="_mail")

    before = play(root, rows)
    with served(root) as bench:
        bench.told("gitea/issue_assigned")
        until(lambda: bench.tasks()[0]["status"] == "working", "the agent works")
        said = agenttalk("report", "_mail/mail-1", "I have read it.", "--type", "general", "--root", str(root))
        shown = bench.get("/api/projects/_mail/tasks/mail-1", bench.operator_token())[1]
    assert said.returncode == 0, said.stderr
    assert (shown["state"], [each["body"] for each in shown["comments"]]) == ("PENDING", ["I have read it."])
    assert play(root, rows) == before
    assert {(root / "data" / name / "blackboard.db").is_file() for name in ("_mail", "_toolchain")} == {True}


def test_the_model_of_the_tests_is_told_the_same(tmp_path: Path) -> None:
    """A decision that the board foresees is the one that it comes to."""

    async def work(_: Deps, board: ToolchainBoard) -> None:
        world = World(REGISTRY)
        for each in STORIES[-1]:
            foreseen = await board.preview_decision(each)
            [written_] = await board.process_events([(each, {})])
            assert foreseen == written_.decision == world.see(each)

    play(tmp_path / "root", work)


def test_what_an_agent_did_is_checked_again_after_a_restart_and_not_done_again(tmp_path: Path) -> None:
    """The engine ends while it asks the forge; the next one asks again, and the agent is left alone."""
    before, asked = Played.calls, asyncio.Event()

    async def hangs(_: KindTask, __: KindTurn) -> Sequence[Evidence]:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def begin(deps: Deps, board: ToolchainBoard) -> None:
        await board.process_events([(issue_event("issue_assigned", 0, "agent-dev"), {})])
        dispatcher, stop = Dispatcher(deps, {"played": Played()}, LocalProcesses()), asyncio.Event()
        running = asyncio.create_task(dispatcher.run(stop))
        async with asyncio.timeout(300):
            await asked.wait()
        stop.set()
        await running

    async def end(deps: Deps, _: ToolchainBoard) -> list[dict[str, Any]]:
        return await ran(deps, 1)

    play(tmp_path / "root", begin, ToolchainTaskKind(verify={SOURCE: "observed"}, read_back=hangs))
    [task] = play(tmp_path / "root", end, ToolchainTaskKind(verify={SOURCE: "observed"}, read_back=observed))
    assert task["status"] == "done"
    assert Played.calls == before + 1, "it was asked once"
