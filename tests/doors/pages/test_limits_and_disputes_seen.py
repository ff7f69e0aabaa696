"""What pages show of disputes, of what a day may cost, and of schedules, and what their forms do about it."""

from __future__ import annotations

from pathlib import Path

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.contracts.schedule import Schedule
from agenttalk.engine.operation.schedules import Scheduler
from agenttalk.engine.people import questions
from agenttalk.rules.planfile.compiler import CompiledPlan
from doors.pages.pagekit import HOSTILE, Guest, text, visit
from engine.budgets.test_account_waits import RESET, Agents, claude_limit, waiting
from engine.proof.test_disputed_checks import begun, left
from kits.agentkit import Clock
from kits.plankit import plan, states, task


async def spends(turn: Turn) -> str:
    turn.report(cost_usd=0.6)
    return "ok"


def test_a_dispute_is_shown_with_its_check_and_answered_by_a_form(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        tree = await begun(ada.engine, tmp_path)
        left(tree, reason=f"Too long. {HOSTILE}")
        await ada.engine.route()
        [asked] = await questions.list_open(ada.engine.deps)
        shown = await ada.page(f"/inbox/{asked.request_id}")
        assert "Too long." in shown
        assert "min_bytes=100" in shown
        assert "<script>alert(1)" not in shown
        assert 'value="upheld"' in shown
        line = await ada.page("/plans/p/tasks/draft")
        assert "disputed" in line
        assert f'href="/inbox/{asked.request_id}">open</a>' in line
        assert "<script>alert(1)" not in line
        sent = {"decision": "PROVIDE", "seen_sha256": asked.sha256, "notes": "It stays."}
        assert (await ada.post(f"/inbox/{asked.request_id}/answer", **sent)).status_code == 409
        assert (await ada.post(f"/inbox/{asked.request_id}/answer", **sent, answer="dismissed")).status_code < 400
        line = await ada.page("/plans/p/tasks/draft")
        assert "dismissed: the check stands" in line
        assert "It stays." in line

    visit(tmp_path, use, proving=True)


def test_a_plan_whose_account_waits_says_until_when(tmp_path: Path) -> None:
    clock, agents = Clock(), Agents(tmp_path)
    profile = agents.profile("dev", claude_limit(RESET.timestamp(), f"You've hit your limit {HOSTILE}"))

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("t", "dev"), task("u", "dev"), agents={"dev": profile}))
        await ada.engine.until(lambda now: waiting(now) and waiting(now, "u"))
        shown = await ada.page("/plans/p")
        assert "claude: usage limit of the account until 2026-03-01T15:00:00Z" in shown
        assert "; 2 tasks wait</p>" in shown
        assert "<script>alert(1)" not in shown
        assert "it continues by itself at 2026-03-01T15:00:00Z" in await ada.page("/plans/p/tasks/t")

    visit(tmp_path / "root", use, clock=clock)


def test_a_day_whose_limit_is_reached_says_so_and_can_be_given_more(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one"), plan_id="p1"))
        await ada.engine.ended("p1")
        assert "No work begins" not in await ada.page("/")
        assert (await ada.post("/budget", limit_usd="0.5")).status_code < 400
        shown = await ada.page("/")
        assert "No work begins: the day&#39;s budget of $0.50 is used up." in shown
        assert "$0.60 of $0.50 today (UTC)" in shown
        await ada.engine.submit(plan(task("two"), plan_id="p2"))
        assert states(await ada.engine.ended("p2"))["two"] == "BLOCKED_WAITING_REVIEW"
        refused = await ada.post("/budget", limit_usd="much")
        assert "not an amount in dollars" in text(refused)
        assert (await ada.post("/budget", limit_usd="5")).status_code < 400
        await ada.engine.until(lambda now: now.state == "ENDED", "p2")
        assert (await ada.post("/budget", reset="yes")).status_code < 400
        assert (await ada.service.day.read())["limit_usd"] is None
        viewer = await ada.again()
        async with viewer.client:
            await viewer.enter("viewer", "vera")
            assert 'action="/budget"' not in await viewer.page("/")

    visit(tmp_path, use, a=spends)


def test_schedules_are_shown_paused_resumed_and_run(tmp_path: Path) -> None:
    said = Schedule(cron="0 17 * * FRI", timezone="Europe/Berlin", agent="a", prompt="Write the report.")
    compiled = plan(task("task"), plan_id="any")

    def made(_: Schedule, plan_id: str) -> CompiledPlan:
        return plan(task("task"), plan_id=plan_id) if plan_id != "any" else compiled

    async def use_none(ada: Guest) -> None:
        assert "no schedules" in await ada.page("/schedules")

    visit(tmp_path / "none", use_none)

    async def use(ada: Guest) -> None:
        shown = await ada.page("/schedules")
        assert "0 17 * * FRI" in shown
        assert 'value="pause"' in shown
        assert (await ada.post("/schedules/week", action="pause")).status_code < 400
        shown = await ada.page("/schedules")
        assert 'value="resume"' in shown
        assert "paused" in shown
        assert (await ada.post("/schedules/week", action="resume")).status_code < 400
        assert 'value="pause"' in await ada.page("/schedules")
        assert (await ada.post("/schedules/week", action="run")).status_code < 400
        [known] = await ada.service.scheduling.describe_all()
        assert f'href="/plans/{known["last_plan_id"]}"' in await ada.page("/schedules")
        assert (await ada.post("/schedules/week", action="remove")).status_code >= 400
        viewer = await ada.again()
        async with viewer.client:
            await viewer.enter("viewer", "vera")
            assert 'action="/schedules/week"' not in await viewer.page("/schedules")

    visit(tmp_path / "some", use, schedules=lambda deps: Scheduler(deps, {"week": said}, made))


def test_a_reader_of_chinese_sees_in_chinese_why_a_schedule_came_to_nothing(tmp_path: Path) -> None:
    said = Schedule(cron="0 17 * * FRI", timezone="Europe/Berlin", agent="a", prompt="Write the report.")

    def refuses(_: Schedule, __: str) -> CompiledPlan:
        raise UsageError(Code.FILE_UNREADABLE, "cannot read week.yaml")

    async def use(ada: Guest) -> None:
        assert (await ada.post("/schedules/week", action="run")).status_code == 400
        [known] = await ada.service.scheduling.describe_all()
        assert known["last_problem"] == "cannot read week.yaml"
        assert known["last_problem"] in text(await ada.get("/schedules"))
        shown = text(await ada.get("/schedules", **{"accept-language": "zh"}))
        assert "其计划无法开始：cannot read week.yaml" in shown

    visit(tmp_path, use, schedules=lambda deps: Scheduler(deps, {"week": said}, refuses))
