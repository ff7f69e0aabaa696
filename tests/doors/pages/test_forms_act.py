"""Every form acts, under the name of who sent it, and for nobody else: not without its key, not with an agent's token."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.contracts.errors import Code
from agenttalk.doors.api.app import create_app
from agenttalk.engine.core import access
from agenttalk.engine.core.boards import SYSTEM
from agenttalk.engine.operation.service import Service
from agenttalk.engine.people import questions
from agenttalk.engine.views import ledger
from agenttalk.ports.statements.toolchain import END_WEBHOOK, REPLAY_WEBHOOK
from agenttalk.rules.text.code_words import REFUSALS
from doors.pages.pagekit import ADDRESS, Guest, text, visit
from engine.toolchain.kits.reconcilekit import scene
from kits.plankit import PATIENCE, plan, task
from kits.provekit import promise
from kits.treekit import Tree, node

OVERLAP = {"allowedScope": ["src/**"], "disallowedScope": ["src/**"]}
"""What `pre-plan` wants an operator's word for."""
SAID = [{"id": "said", "description": "It says something", "evidenceRequired": ["result"]}]
HELD = {"objective": "It is done", "acceptance": SAID, **OVERLAP}
CHECKED = promise({"id": "says", "kind": "file", "path": "a.txt", "contains": "yes"})
MADE = [{"name": "a.txt", "deliverable": True}]


async def facts(ada: Guest, kind: str, board: str = "default") -> list[Any]:
    found = await ledger.list_ledger(ada.service.deps, board, kind=kind)
    return [each["body"] for each in found["facts"]]


async def asked_by(ada: Guest) -> int:
    """How many facts there are in her name."""
    found = [each for board in ("default", SYSTEM) for each in await facts(ada, "", board)]
    return sum(each.get("by") == "ada" for each in found)


async def token_of(ada: Guest) -> str:
    """A token that an agent has."""
    token = "a-token-of-an-agent-elsewhere"
    if not await access.list_tokens(ada.service.deps):
        await access.admit_agent(ada.service.deps, token, "dev")
    return token


async def send(ada: Guest, page: str, path: str, **fields: Any) -> None:
    """Send a form that a page shows: first as others would, who get nowhere; then as it stands on the page."""
    shown = await ada.page(page)
    assert f'action="{path}"' in shown, "the page has this form"
    before = await asked_by(ada)
    forged = await ada.client.post(path, data=fields)
    assert (forged.status_code, "does not belong to your session" in text(forged)) == (403, True)
    wrong = await ada.client.post(path, data={**fields, "form_key": "0" * 64})
    assert wrong.status_code == 403
    stranger = await ada.again()
    async with stranger.client:
        told = {"Authorization": f"Bearer {await token_of(ada)}"}
        assert (await stranger.client.get("/api/me", headers=told)).status_code == 200
        refused = await stranger.client.post(path, data={**fields, "form_key": await ada.key()}, headers=told)
        assert refused.status_code == 401, "no token opens a page"
    assert await asked_by(ada) == before, "nothing was done"
    done = await ada.post(path, **fields)
    assert done.status_code == 303, text(done)
    assert "Done" in text(await ada.get(done.headers["location"]))


def test_a_checkpoint_is_overridden_with_a_reason(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one", promise=HELD)))
        await ada.engine.ended()
        page, path = "/plans/p/tasks/one", "/plans/p/steer"
        asked = {"action": "override", "task": "one", "checkpoint": "pre-plan"}
        assert (await ada.post(path, **asked)).status_code == 404, "without a reason there is no override"
        await send(ada, page, path, **asked, why="on purpose")
        await ada.engine.until(lambda found: found.result == "done")
        [fact] = await facts(ada, "gate.overridden")
        assert (fact["by"], fact["why"]) == ("ada", "on purpose")

    visit(tmp_path, use)


def test_rounds_are_granted(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        turn.outputs["a.txt"] = "yes" if turn.command.command_seq > 1 else "no"
        return "ok"

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one", outputs=MADE, promise=CHECKED, max_reexecute_times=0)))
        await ada.engine.ended()
        asked = {"action": "rework", "task": "one", "answer": "grant", "rounds": "2"}
        await send(ada, "/plans/p/tasks/one", "/plans/p/steer", **asked)
        await ada.engine.until(lambda found: found.result == "done")
        [fact] = await facts(ada, "rework.granted")
        assert (fact["by"], fact["rounds"]) == ("ada", 2)

    visit(tmp_path, use, a=work, proving=True)


def test_what_was_proven_is_verified_again(tmp_path: Path) -> None:
    async def work(turn: Turn) -> str:
        turn.outputs["a.txt"] = "yes"
        return "ok"

    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one", outputs=MADE, promise=CHECKED)))
        await ada.engine.ended()
        await send(ada, "/plans/p/tasks/one", "/plans/p/verify", task="one")
        await send(ada, "/plans/p", "/plans/p/verify")
        assert await facts(ada, "verify.asked") == [{"by": "ada", "task_id": None}, {"by": "ada", "task_id": "one"}]

    visit(tmp_path, use, a=work, proving=True)


def test_a_task_is_stopped_and_tried_again_and_a_plan_is_called_off(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def slow(turn: Turn) -> str:
        begun.set()
        if turn.command.command_seq == 1 and turn.attempt == 1:
            await asyncio.Event().wait()
        return "ok"

    async def use(ada: Guest) -> None:
        page, path = "/plans/p/tasks/one", "/plans/p/steer"
        asked = plan(task("one"), task("two", "h", needs=["one"]), agents={"h": {"driver": "human"}})
        await ada.engine.submit(asked)
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await send(ada, page, path, action="abort", task="one", why="it hangs")
        await ada.engine.until(lambda found: found.counts["failed"] == 1)
        stopped = [each for each in await facts(ada, "turn.ended") if each["cause"] == "ABORTED"]
        assert "ada" in str(stopped)
        assert "it hangs" in str(stopped)
        await send(ada, page, path, action="retry", task="one")
        await ada.engine.until(lambda found: found.counts["completed"] == 1)
        [fact] = await facts(ada, "task.retried")
        assert fact["by"] == "ada"
        await ada.engine.asked()
        await send(ada, "/plans/p", path, action="cancel", why="it is late")
        await ada.engine.until(lambda found: found.state == "ENDED")
        [fact] = await facts(ada, "plan.cancelled")
        assert (fact["by"], fact["reason"]) == ("ada", "cancelled by ada: it is late")

    visit(tmp_path, use, a=slow)


def test_a_dead_letter_is_replayed_under_the_name_of_who_asks(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.dag([node("design", "pm", outputs=[{"name": "spec.md", "deliver_to": ["dev"]}]), node("build", "dev")])
    box = tree.box("pm", "outbox")
    box.mkdir(parents=True)
    (box / "x.msg.json").write_text('{"type": "artifact"}')

    async def use(ada: Guest) -> None:
        await ada.engine.route()
        link = re.search(r'href="(/deadletters/dl_[^"]+)"', await ada.page("/deadletters"))
        assert link
        answer = await ada.post(f"{link[1]}/replay")
        assert answer.status_code in {303, 409}
        assert all(each["by"] == "ada" for each in await facts(ada, "deadletter.replayed"))
        assert (await ada.client.post(f"{link[1]}/replay", data={})).status_code == 403

    visit(tmp_path, use)


def at_the_forge(folder: Path, use: Callable[[Guest, Any], Awaitable[None]]) -> None:
    """Look at the pages of an engine that reads a forge."""

    async def run() -> None:
        async with scene(folder) as found:
            service = Service(found.deps, receiver=found.receiver, reconciler=found.reconciler, is_ready=lambda: True)
            transport = httpx2.ASGITransport(app=create_app(service))
            async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS) as client:
                ada = Guest(client, None, service)  # type: ignore[arg-type]
                await ada.enter()
                await use(ada, found)
            service.feed.close()

    asyncio.run(run())


@pytest.mark.shows("T25")
def test_forges_are_read_when_somebody_asks_for_it(tmp_path: Path) -> None:
    async def use(ada: Guest, found: Any) -> None:
        found.pull(reviewers=("agent-reviewer",))
        found.lost()
        assert await found.live() == []
        await send(ada, "/toolchain", "/toolchain/reconcile")
        assert await found.live() == [("review_request", "agent-reviewer")]
        assert await facts(ada, "reconcile.asked", SYSTEM) == [{"by": "ada"}]

    at_the_forge(tmp_path, use)


def test_a_delivery_is_decided_about_anew_when_somebody_asks_for_it(tmp_path: Path) -> None:
    async def use(ada: Guest, found: Any) -> None:
        found.pull(reviewers=("agent-reviewer",))
        await found.told()
        before = await found.tasks()
        system = await found.deps.stores.board(SYSTEM)

        async def failed(number: int) -> None:
            await system.transact(lambda tx: tx.run(REPLAY_WEBHOOK, id=number))
            await system.transact(
                lambda tx: tx.run(END_WEBHOOK, id=number, state="failed", outcome="out of order", outcome_message=None)
            )

        await failed(1)
        await send(ada, "/deliveries", "/deliveries/wh-1/replay")
        while await found.intake.pass_():
            pass
        assert await found.tasks() == before, "nothing is called for twice"
        [fact] = await facts(ada, "webhook.replayed", SYSTEM)
        assert (fact["by"], fact["was"], fact["outcome"]) == ("ada", "failed", "out of order")
        assert "out of order" not in await ada.page("/deliveries")

    at_the_forge(tmp_path, use)


def test_a_reader_of_chinese_sees_in_chinese_what_became_of_a_delivery(tmp_path: Path) -> None:
    async def use(ada: Guest, found: Any) -> None:
        found.pull(reviewers=("agent-reviewer",))
        await found.told()
        decided = await facts(ada, "webhook.decided", SYSTEM)
        assert {fact["outcome_message"]["id"] for fact in decided} >= {"delivery.made", "delivery.task_there"}
        told = text(await ada.get("/deliveries"))
        assert "the task is there already" in told
        shown = text(await ada.get("/deliveries", **{"accept-language": "zh"}))
        assert "任务已存在" in shown
        assert "已创建 " in shown
        assert "the task is there already" not in shown

    at_the_forge(tmp_path, use)


def test_nobody_answers_a_question_without_the_key_of_the_form(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        await ada.engine.submit(plan(task("one"), agents={"a": {"driver": "human"}}))
        await ada.engine.asked()
        [asked] = await questions.list_open(ada.engine.deps)
        where = f"/inbox/{asked.request_id}"
        await send(ada, where, f"{where}/answer", decision="PROVIDE", notes="yes", seen_sha256=asked.sha256)
        [fact] = await facts(ada, "human.answered")
        assert (fact["by"], fact["bound_to"]) == ("ada", asked.sha256)

    visit(tmp_path, use)


def test_a_reader_of_chinese_is_told_in_chinese_why_a_form_was_refused(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        ada.client.headers["accept-language"] = "zh-CN"
        unknown = await ada.post("/plans/p/steer", action="fly")
        assert "计划没有操作 'fly'" in text(unknown)
        assert "unknown action" not in text(unknown)
        forged = await ada.client.post("/plans/p/steer", data={"action": "pause"})
        assert "该表单不属于您的会话" in text(forged)
        assert "请重新打开该页面" in text(forged)
        missing = await ada.post("/plans/no-such-plan/steer", action="pause")
        assert missing.status_code == 404
        assert "没有这个名称的对象。" in text(missing)
        ada.client.headers["accept-language"] = "en"
        assert "unknown action 'fly' for a plan" in text(await ada.post("/plans/p/steer", action="fly"))

    visit(tmp_path, use)


def test_every_code_of_an_error_has_its_meaning_in_chinese() -> None:
    assert set(Code) == set(REFUSALS)
