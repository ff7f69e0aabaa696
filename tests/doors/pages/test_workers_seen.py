"""What the page of workers shows, and what its forms do."""

from __future__ import annotations

from pathlib import Path

from agenttalk.contracts.worker import Enrolment, SyncRequest, WorkerFacts
from doors.pages.pagekit import Guest, text, visit
from kits.plankit import plan, task

FACTS = WorkerFacts(
    version="1", machine="m", system="Linux x86_64", cores=4, memory_mib=8192, sandboxes=("landlock",),
    drivers=("script",), programs=("claude",),
)  # fmt: skip
FAR = {"driver": "script", "pool": "far", "sandbox": "plain", "argv": ["true"], "needs": ["gpu"]}


async def enrol(ada: Guest, name: str) -> str:
    workers, token = ada.service.fleet.workers, f"inv_{name:-<30}"
    await workers.invite(token, "far", [], by="ada")
    return (await workers.enrol(token, Enrolment(protocol=1, name=name, public_key=f"{name:-<43}", facts=FACTS))).worker


def test_workers_and_the_tasks_that_wait_for_one_are_shown_in_both_languages(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        assert "No workers." in await ada.page("/workers")
        await ada.engine.submit(plan(task("draft", "far"), agents={"far": FAR}))
        await ada.engine.until(lambda found: found.tasks[0]["phase"] == "offered")
        one, _ = await enrol(ada, "one"), await enrol(ada, "two")
        await ada.service.fleet.sync(one, SyncRequest(protocol=1, slots=2))
        shown = text(await ada.get("/workers"))
        assert "p / draft far" in shown
        assert "one lacks the label 'gpu'" in shown
        assert "2/2" in shown
        assert "Linux x86_64, 4 cores, 8 GiB landlock · claude" in shown
        assert ("online" in shown, "two lacks the label 'gpu', is lost" in shown) == (True, True)
        chinese = text(await ada.get("/workers", **{"accept-language": "zh"}))
        assert "等待工作机的任务" in chinese
        assert "缺少标签 'gpu'" in chinese

    visit(tmp_path, use)


def test_an_operator_drains_a_worker_and_gives_it_work_again(tmp_path: Path) -> None:
    async def use(ada: Guest) -> None:
        one = await enrol(ada, "one")
        assert (await ada.post(f"/workers/{one}", action="drain")).status_code < 400
        assert "draining" in text(await ada.get("/workers"))
        assert (await ada.post(f"/workers/{one}", action="resume")).status_code < 400
        assert "draining" not in text(await ada.get("/workers"))
        assert (await ada.post(f"/workers/{one}", action="remove")).status_code >= 400
        viewer = await ada.again()
        async with viewer.client:
            await viewer.enter("viewer", "vera")
            assert f'action="/workers/{one}"' not in await viewer.page("/workers")

    visit(tmp_path, use)
