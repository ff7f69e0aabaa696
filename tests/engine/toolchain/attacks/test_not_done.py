"""What is not done reaches an owner: the agent, the lead, whoever runs things, or a person. Never by mail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from adapters.forge.test_intake import comment, issue_event
from agenttalk.contracts.errors import Code, ForgeError
from agenttalk.engine.people import questions
from agenttalk.engine.toolchain.board import ToolchainLimits
from agenttalk.ports.kinds import KindTask
from agenttalk.ports.statements.core import ADD_COMMENT, FACTS_OF
from agenttalk.rules.proof.done import Evidence
from agenttalk.rules.proof.performance import Performance
from agenttalk.rules.toolchain import read_back
from agenttalk.testing import ForgeFault
from engine.toolchain.kits.saying import Stage, ended

AT = "2026-05-01T12:00:00Z"
ASSIGNED = issue_event("issue_assigned", 0, "agent-dev")


def play(folder: Path, work: Callable[[Stage], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with Stage.set(folder, **options) as stage:
            await work(stage)

    asyncio.run(run())


def seen(_: KindTask) -> Sequence[Evidence]:
    return [Evidence("read_back", True, True, "observed", "forge", AT)]


def denied(_: KindTask) -> Sequence[Evidence]:
    return [Evidence("read_back", False, True, "observed", "forge", AT, "no_action: no pull request names @agent-ops")]


def away(_: KindTask) -> Sequence[Evidence]:
    raise ForgeError(Code.FORGE_UNREACHABLE, "the forge cannot be reached")


def crash(_: Any) -> Performance:
    return Performance("crashed", error="it ended with 3")


@pytest.mark.shows("T11", "T12")
def test_what_is_not_done_is_said_where_the_work_is_and_after_three_rounds_to_the_lead(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        [task] = await stage.ran(ended)
        assert task["status"] == "failed"
        seqs = [each.split()[1] for each in stage.player.turns]
        assert seqs == ["1", "2", "3", "4"], "three rounds, each with the next number"
        await stage.said()
        comments = stage.comments()
        assert [f"round {number}" in text for number, text in enumerate(comments, 1)] == [True] * 3
        for text in comments:
            assert text.startswith("@agent-dev This is not done yet")
            assert "no pull request names @agent-ops" in text
            assert "by=engine" in text
        [issue] = stage.issues()
        assert [each.login for each in issue.assignees] == ["agent-lead"]
        assert issue.title.startswith("Failed: ")
        assert issue.body.count("ordered: ") == 3
        assert "rework_exhausted" in issue.body
        assert [each["state"] for each in await stage.rows()] == ["sent"] * 4
        assert not stage.deps.stores.has_board("_mail"), "no mail takes part in it"
        await stage.said()
        assert len(stage.comments()) == 3

    play(tmp_path, work, found=denied)


@pytest.mark.shows("T24")
def test_our_own_comments_wake_nobody_and_our_issue_is_the_leads_work(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        await stage.said()
        [issue] = stage.issues()
        told = [comment(each, sender="engine", number=number) for number, each in enumerate(stage.comments())]
        mine = issue_event("issue_assigned", 3, "agent-lead", sender="engine", number=issue.number, body=issue.body)
        await stage.board.process_events([(each, {}) for each in [*told, mine]])
        assert [each["assignee"] for each in await stage.tasks()] == ["agent-dev", "agent-lead"]
        # The lead cannot do it either: that is no further issue, but a person's.
        await stage.ran(ended)
        await stage.said()
        assert len(stage.issues()) == 1
        assert len([each for each in await stage.asked() if "no round of rework left" in each]) == 2

    play(tmp_path, work, found=denied)


@pytest.mark.shows("T12")
def test_a_crash_goes_to_the_lead_at_once_and_without_a_token_to_a_person_who_may_try_again(tmp_path: Path) -> None:
    async def with_token(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        await stage.said()
        assert stage.comments() == []
        [issue] = stage.issues()
        assert "failed_for_good: it ended with 3" in issue.body

    async def without(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        [task] = await stage.ran(ended)
        await stage.said()
        [title] = await stage.asked()
        assert task["id"] in title
        assert (stage.comments(), stage.issues()) == ([], [])
        stage.player.play = lambda _: Performance("finished", result="now")
        stage.found = seen
        await stage.answer("retry")
        await stage.said()
        [task] = await stage.ran(lambda tasks: tasks[0]["status"] == "done")
        assert await stage.asked() == []
        assert [each["state"] for each in await stage.rows()] == ["answered"]

    for name, part, token in (("with", with_token, True), ("without", without, False)):
        (tmp_path / name).mkdir()
        play(tmp_path / name, part, found=denied, token=token, player=_crashing())


def _crashing() -> Any:
    from engine.toolchain.kits.saying import Player

    return Player(crash)


def unseen(_: KindTask) -> Sequence[Evidence]:
    return [read_back.make_failure_evidence("the engine's account does not see acme/widgets", Code.FORGE_UNSEEN, AT)]


@pytest.mark.mends("E4")
def test_a_repository_that_the_engine_does_not_see_is_one_question_to_people_and_no_blame(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        events = [issue_event("issue_assigned", 0, "agent-dev", number=number) for number in (7, 8)]
        await stage.board.process_events([(each, {}) for each in events])
        await stage.ran(ended)
        await stage.said()
        titles = [each for each in await stage.asked() if "does not see" in each]
        assert titles == ["The engine's account does not see acme/widgets at work"]
        assert stage.comments() == []
        assert {each["assignee"] for each in await stage.tasks()} == {"agent-dev"}, "ops cannot mend it"

    play(tmp_path, work, found=unseen)


def unapproved(_: KindTask) -> Sequence[Evidence]:
    why = "unapproved_merge: agent-dev merged acme/widgets#7 at abc without an approval"
    return [Evidence("read_back", False, True, "observed", "forge", AT, why, code="unapproved_merge")]


@pytest.mark.mends("E1")
def test_a_merge_that_nobody_approved_is_told_to_the_lead_after_one_turn(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        [task] = await stage.ran(ended)
        await stage.said()
        assert (task["status"], len(stage.player.turns), stage.comments()) == ("failed", 1, [])
        [issue] = stage.issues()
        assert [each.login for each in issue.assignees] == ["agent-lead"]
        assert "without an approval" in issue.body

    play(tmp_path, work, found=unapproved)


@pytest.mark.shows("T13")
def test_a_forge_that_is_away_is_one_task_for_ops_and_no_blame_and_no_second_outage(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        events = [issue_event("issue_assigned", 0, "agent-dev", number=number) for number in (7, 8, 9)]
        await stage.board.process_events([(each, {}) for each in events])
        async with stage.forge.down():
            await stage.ran(ended)
            await stage.said()
            tasks = await stage.ran(ended)
        outages = [each for each in tasks if each["must_haves"]["action_type"] == "infrastructure_failure"]
        assert [(each["assignee"], each["status"], each["trust"]) for each in outages] == [
            ("agent-ops", "done", "observed")
        ]
        assert {each["status"] for each in tasks if each not in outages} == {"failed"}
        assert stage.comments() == []
        assert len(await stage.away()) == 1
        # What could not be posted is posted when the forge is back.
        assert [each["state"] for each in await stage.rows()] == ["waiting"] * 3
        await stage.said(3600)
        assert await stage.away() == []
        assert [each.title.startswith("Failed") for each in stage.issues()] == [True] * 3
        assert stage.comments() == [], "nobody is blamed for an outage"

    play(tmp_path, work, found=away)


def test_an_outage_that_nobody_can_be_given_is_a_persons(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        await stage.said()
        assert [each for each in await stage.asked() if "work cannot be reached" in each] != []

    play(tmp_path, work, found=away, known={"ops": None})


def test_an_outage_whose_task_crashes_is_a_persons_and_opens_no_issue(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.player.play = crash
        await stage.said()
        await stage.ran(ended)
        await stage.said()
        assert [each for each in await stage.asked() if "of agent-ops failed" in each] != []
        assert len(stage.issues()) <= 1

    play(tmp_path, work, found=away)


def fault(kind: Any, method: str = "POST", **more: Any) -> ForgeFault:
    return ForgeFault(kind, method, **more)


@pytest.mark.parametrize(
    "fault",
    [
        fault("status", status=503),
        fault("applied_then_status", status=502),
        fault("applied_then_silent"),
        fault("cut"),
        fault("status", status=429, headers={"Retry-After": "120"}),
        fault("status", status=401),
    ],
    ids=["refused", "applied", "silent", "cut", "limited", "token"],
)
def test_what_the_forge_did_or_did_not_do_is_there_once_in_the_end(tmp_path: Path, fault: ForgeFault) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        for _ in range(4):  # each of the four texts meets it once
            fault.times = 1
            stage.forge.faults[:] = [fault]
            pause = await stage.said()
            assert pause > 0
            if fault.headers:
                assert pause >= 119, "it waits as long as the forge wants"
            await stage.said(3600)
        stage.forge.faults.clear()
        await stage.said(3600)
        assert [f"round {number}" in text for number, text in enumerate(stage.comments(), 1)] == [True] * 3
        assert len(stage.issues()) == 1
        assert {each["state"] for each in await stage.rows()} == {"sent"}

    play(tmp_path, work, found=denied)


def test_what_comes_later_at_a_place_waits_for_what_comes_first_and_other_places_do_not(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("status", status=503, headers={"Retry-After": "120"})]
        await stage.said()
        await stage.said(10)
        assert (stage.comments(), len(stage.issues())) == ([], 1)
        await stage.said(120)
        assert [f"round {number}" in text for number, text in enumerate(stage.comments(), 1)] == [True] * 3

    play(tmp_path, work, found=denied)


def test_a_marker_that_somebody_else_posted_first_silences_nobody(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("applied_then_status", times=1)]
        await stage.said()
        [text] = stage.comments()
        ours = stage.repository.comments.pop()  # as if it had not been applied
        mallory = stage.forge.state.user("agent-dev")
        stage.forge.state.issues.create_comment(stage.repository, mallory, 9, ours.body)
        await stage.said(3600)
        assert stage.comments()[0] == text
        assert len(stage.comments()) == 3

    play(tmp_path, work, found=denied)


def test_an_issue_that_was_opened_and_closed_before_anybody_noted_it_is_not_opened_again(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("applied_then_status", path=r"/issues$", times=1)]
        await stage.said()
        [issue] = stage.issues()
        issue.state = "closed"
        await stage.said(3600)
        assert len(stage.issues()) == 1
        assert {each["state"] for each in await stage.rows()} == {"sent"}

    play(tmp_path, work, found=denied)


def test_an_issue_that_the_forge_assigns_to_nobody_is_a_persons(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        stage.repository.writers.discard("engine")  # then assignees are dropped without a word
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        await stage.said()
        [issue] = stage.issues()
        assert issue.assignees == []
        assert [each for each in await stage.asked() if "did not assign" in each] != []

    play(tmp_path, work, found=denied, player=_crashing())


@pytest.mark.shows("T13")
def test_a_forge_that_goes_and_comes_back_loses_nothing_and_says_nothing_twice(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        async with stage.forge.down():
            pauses = [await stage.said(60) for _ in range(6)]
            assert all(pause > 0 for pause in pauses)
            [outage] = await stage.away()
            assert outage["failures"] >= 3
            tasks = await stage.ran(ended)
            kinds = [each["must_haves"]["action_type"] for each in tasks]
            assert kinds.count("infrastructure_failure") == 1
        async with stage.open():  # also after another start
            await stage.said(3600)
            assert await stage.away() == []
            assert [f"round {number}" in text for number, text in enumerate(stage.comments(), 1)] == [True] * 3
            assert len(stage.issues()) == 1
            assert await stage.said() > 600, "nothing is left to do"

    play(tmp_path, work, found=denied)


@pytest.mark.shows("T13")
def test_a_forge_that_can_be_read_and_takes_nothing_is_one_outage_however_long_it_lasts(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("status", times=-1)]
        for _ in range(9):
            await stage.said(700)
            await stage.ran(ended)
        [outage] = await stage.away()
        assert outage["failures"] == 9
        kinds = [each["must_haves"]["action_type"] for each in await stage.tasks()]
        assert kinds.count("infrastructure_failure") == 1
        stage.forge.faults.clear()
        await stage.said(700)
        assert await stage.away() == []
        assert (len(stage.comments()), len(stage.issues())) == (3, 1)

    play(tmp_path, work, found=denied)


@pytest.mark.shows("T24")
def test_past_the_cap_of_comments_a_person_is_asked_once_and_decides(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        await stage.said()
        assert len(stage.comments()) == 1
        asked = [each for each in await stage.asked() if "within an hour" in each]
        assert len(asked) == 1
        requests = [each for each in await questions.list_open(stage.deps) if "within an hour" in each.document.title]
        await questions.answer(stage.deps, requests[0].request_id, by="ann", decision="PROVIDE", answers=["post"])
        await stage.said()
        assert [f"round {number}" in text for number, text in enumerate(stage.comments(), 1)] == [True] * 3

    async def dropped(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        await stage.said()
        requests = [each for each in await questions.list_open(stage.deps) if "within an hour" in each.document.title]
        await questions.answer(stage.deps, requests[0].request_id, by="ann", decision="REJECT")
        await stage.said()
        assert len(stage.comments()) == 1
        states = [each["state"] for each in await stage.rows()]
        assert states == ["sent", "dropped", "dropped", "sent"]

    for name, part in (("post", work), ("drop", dropped)):
        (tmp_path / name).mkdir()
        play(tmp_path / name, part, found=denied, caps=ToolchainLimits(comments_per_hour=1))


def test_what_the_forge_refuses_is_a_persons_and_holds_up_nobody_else(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("status", status=403, message="locked", times=1)]
        await stage.said()
        assert len(stage.comments()) == 2
        assert len(stage.issues()) == 1
        assert [each for each in await stage.asked() if "locked" in each] != []

    play(tmp_path, work, found=denied)


def test_what_a_place_refuses_again_and_again_is_one_question(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("status", status=403, message="locked.", times=9)]
        await stage.said()
        said = [each for each in await stage.asked() if "locked" in each]
        assert ["#9" in each for each in said].count(True) == 1, "about three comments"
        assert "locked. Shall it be tried again?" in said[0]
        stage.forge.faults[:] = []
        for each in await questions.list_open(stage.deps):
            if "locked" in each.document.title:
                await questions.answer(stage.deps, each.request_id, by="ann", decision="APPROVE")
        await stage.said()
        assert (len(stage.comments()), len(stage.issues())) == (3, 1), "one answer is for all that was held up there"

    play(tmp_path, work, found=denied)


def test_postgresql_keeps_it_all_the_same(tmp_path: Path, database: str) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        await stage.ran(ended)
        stage.forge.faults[:] = [fault("applied_then_status"), fault("status", times=3)]
        for _ in range(6):
            await stage.said(60)
        assert [f"round {number}" in text for number, text in enumerate(stage.comments(), 1)] == [True, True]
        assert len([each for each in await stage.asked() if "within an hour" in each]) == 1
        await stage.ran(lambda tasks: len(tasks) == 2 and ended(tasks))
        other = issue_event("issue_assigned", 0, "agent-second", number=8)
        await stage.board.process_events([(other, {})])
        await stage.said(7201)
        assert "@agent-second A reminder" in stage.comments()[-1]

    play(tmp_path, work, found=denied, url=database, caps=ToolchainLimits(comments_per_hour=2))


@pytest.mark.shows("T21")
def test_who_does_not_report_is_reminded_once_and_then_the_lead_is_told_once(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        assert await stage.said() == 3600.0, "nothing is looked at before it can be due"
        assert await stage.said(7190) == pytest.approx(10)
        assert stage.comments() == []
        await stage.said(11)
        [text] = stage.comments()
        assert text.startswith("@agent-dev A reminder")
        assert "fix/9-agent-dev" in text, "with the steps"
        for seconds in (1, 14400, 3600):  # also when another engine looks
            async with stage.open():
                await stage.said(seconds)
        [issue] = stage.issues()
        assert issue.title.startswith("Overdue: ")
        assert [each.login for each in issue.assignees] == ["agent-lead"]
        assert len(stage.comments()) == 1

    play(tmp_path, work)


@pytest.mark.shows("T21")
def test_without_a_token_a_reminder_is_on_the_task_and_in_an_alert_and_the_escalation_a_question(
    tmp_path: Path,
) -> None:
    async def work(stage: Stage) -> None:
        from agenttalk.engine.core import task_comments
        from agenttalk.engine.core.task_comments import TaskName

        await stage.board.process_events([(ASSIGNED, {})])
        await stage.said(7201)
        [task] = await stage.tasks()
        shown = await task_comments.read_task(stage.deps, TaskName("_toolchain", "_toolchain", task["id"]))
        [reminder] = shown["comments"]
        assert (reminder["author"], "A reminder" in reminder["body"]) == ("system", True)
        store = await stage.deps.stores.board("_toolchain")
        facts = await store.read(FACTS_OF, subject="_toolchain", after=0, limit=100)
        assert "TASK_OVERDUE" in str(facts)
        await stage.said(14400)
        [title] = await stage.asked()
        assert title.startswith("Overdue: ")
        await stage.answer("seen")
        await stage.said()
        assert [each["state"] for each in await stage.rows()] == ["answered"]

    play(tmp_path, work, token=False)


def test_who_waits_for_the_outcome_of_a_report_is_not_reminded(tmp_path: Path) -> None:
    async def work(stage: Stage) -> None:
        await stage.board.process_events([(ASSIGNED, {})])
        [task] = await stage.tasks()
        store = await stage.deps.stores.board("_toolchain")
        about = {"kind": "comment", "author": "agent-dev", "type": "action_report", "claims": None, "epoch": 1}
        at = stage.deps.stamp()
        await store.transact(
            lambda tx: tx.run(ADD_COMMENT, plan_id="_toolchain", task_id=task["id"], body="done", at=at, **about)
        )
        await stage.said(7201)
        assert stage.comments() == []
        await stage.said(7201)
        assert len(stage.comments()) == 1, "it is looked at again later"

    play(tmp_path, work)
