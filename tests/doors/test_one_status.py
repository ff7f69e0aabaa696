"""Every door shows the same status of a task: command line, pages, each address of the API, and plan_status.json."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any, Final

from agenttalk.doors.library import Result, Turn
from agenttalk.engine.core import access
from agenttalk.engine.core.boards import DEFAULT, board_of
from agenttalk.engine.messages import published_files
from doors.pages.pagekit import Guest, visit
from kits.agentkit import WRITES, Desk
from kits.plankit import fine, plan, states, task
from kits.provekit import CALC, FIXES, RUNS, git, program, promise, repository
from kits.treekit import Tree
from preloaded import run

TOKEN: Final = "op_one_status"
COMPARED: Final = (
    "origin",
    "state",
    "board",
    "proven",
    "freshness",
    "isolated",
    "rounds",
    "retries",
    "attempt",
    "cause",
)
PROVEN = promise({"id": "made", "kind": "file", "path": "a.txt"})
BELIEVED = {
    "objective": "It works",
    "acceptance": [{"id": "said", "description": "It says so", "evidenceRequired": ["word"], "minTrust": "claimed"}],
}
OUT = [{"name": "a.txt", "deliverable": True}]
SUITE = (
    "import unittest, calc\nclass T(unittest.TestCase):\n    def test_add(self):\n        assert calc.add(1, 2) == 3\n"
)
WRITTEN: Final = ("origin", "state", "board", "proven", "freshness", "isolated", "rounds", "retries", "cause")
"""What `plan_status.json` has of a status: fields without a value are left out."""
BADGES: Final = {"proven": "done", "believed": "unproven", "stale": "stale", "failed": "failed", "asks": "waiting",
    "waits": "pending", "retried": "done", "reworked": "done", "build": "unproven"}  # fmt: skip
"""Task → how the pages call its state."""


async def act(turn: Turn) -> Any:
    """An agent whose tasks end in every way."""
    if turn.task_id == "failed":
        raise RuntimeError("no luck")
    if turn.task_id == "believed":
        return Result("done", evidence=["word"])
    if turn.task_id == "retried" and turn.attempt == 1:
        raise RuntimeError("not yet")
    if turn.task_id == "reworked" and turn.command.command_seq == 1:
        return Result("")  # an answer without words is not done
    return await fine(turn)


def pick(found: dict[str, Any]) -> dict[str, Any]:
    return {key: found[key] for key in COMPARED}


def shown_by_command_line(root: Path, plan_id: str) -> list[dict[str, Any]]:
    """What `status` and `explain` show of each task of a plan."""
    done = run("status", plan_id, "--json", "--root", str(root))
    [status] = json.loads(done.stdout)["plans"]
    lists = {each["task_id"]: pick(each) for each in status["tasks"]}
    explained = {
        name: pick(json.loads(run("explain", f"{plan_id}/{name}", "--json", "--root", str(root)).stdout))
        for name in lists
    }
    return [lists, explained]


async def shown_by_api(ada: Guest, plan_id: str) -> list[dict[str, Any]]:
    """What each address of the API shows of each task of a plan."""

    async def get(path: str) -> Any:
        answer = await ada.client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    [overview] = [each for each in (await get("/api/status"))["plans"] if each["plan_id"] == plan_id]
    own = await get(f"/api/plans/{plan_id}")
    listed = await get(f"/api/plans/{plan_id}/tasks")
    graph = await get(f"/api/plans/{plan_id}/graph")
    names = [each["task_id"] for each in own["tasks"]]
    assert {key: overview[key] for key in own} == own, "a plan has one status, too"
    return [
        *({each["task_id"]: pick(each) for each in tasks} for tasks in (overview["tasks"], own["tasks"])),
        *({each["task_id"]: pick(each) for each in tasks} for tasks in (listed["tasks"], graph["nodes"])),
        {name: pick(await get(f"/api/plans/{plan_id}/tasks/{name}")) for name in names},
        {name: pick(await get(f"/api/plans/{plan_id}/tasks/{name}/explanation")) for name in names},
        {name: pick(await get(f"/api/projects/{DEFAULT}/tasks/{plan_id}:{name}")) for name in names},
    ]


async def write_status_file(ada: Guest, plan_id: str) -> None:
    """Bring `plan_status.json` up to date."""
    board = await board_of(ada.engine.deps, plan_id)
    await published_files.publish_status(ada.engine.deps, board, plan_id)
    await published_files.publish(ada.engine.deps, board)


def read_status_file(root: Path, plan_id: str) -> dict[str, dict[str, Any]]:
    """What `plan_status.json` says of each task of a plan."""
    status = json.loads((root / "system_runtime" / "plans" / plan_id / "plan_status.json").read_bytes())
    return {
        task["task_id"]: {
            **{name: task.get(name) for name in WRITTEN},
            "rounds": task["attempts"]["reexecute_count"],
            "retries": task["attempts"]["retry_count"],
        }
        for task in status["tasks"]
    }


async def shown_by_pages(ada: Guest, plan_id: str) -> dict[str, set[str]]:
    """Task → its badges, on the page of its plan and on its own."""
    page = await ada.page(f"/plans/{plan_id}")
    rows = re.findall(r'<tr id="r-(\w+)">.*?class="badge \w+">.*?([a-z]+)</span>', page, re.DOTALL)
    badges = {name: {word} for name, word in rows}
    for name, words in badges.items():
        own = re.search(
            r'<h1>.*?class="badge \w+">.*?([a-z]+)</span>', await ada.page(f"/plans/{plan_id}/tasks/{name}")
        )
        assert own is not None, name
        words.add(own[1])
    return badges


def test_every_door_shows_the_same_status_of_a_task(tmp_path: Path) -> None:
    root = tmp_path / "root"
    desk = Desk(Tree(root))
    desk.program(WRITES)
    desk.command()
    desk.once()  # `build` of the foreign plan is done, by its agent's word
    repo = repository(tmp_path / "repo", {"calc.py": CALC, "test_calc.py": SUITE})
    check = promise({"id": "tests-pass", "kind": "run", "run": RUNS, "red_first": "off"})
    agents = {"dev": program(tmp_path, "dev", FIXES), "h": {"driver": "human"}}
    mixed = plan(
        task("proven", outputs=OUT, promise=PROVEN),
        task("believed", promise=BELIEVED),
        task("failed", retry_times=0),
        task("asks", "h"),
        task("waits", needs=["asks"]),
        task("retried", retry_times=2),
        task("reworked", max_reexecute_times=1),
        plan_id="mixed",
        agents=agents,
    )
    code = plan(task("stale", "dev", workspace="repo", promise=check), plan_id="code", agents=agents,
                workspace={"repo": str(repo)})  # fmt: skip
    seen: dict[str, list[dict[str, Any]]] = {}

    async def use(ada: Guest) -> None:
        await access.admit(ada.engine.deps, TOKEN, "operator", "reader")
        await ada.engine.submit(code)
        await ada.engine.ended("code")
        git(repo, "checkout", "-q", "agenttalk/code")
        (repo / "calc.py").write_text(CALC)
        git(repo, "commit", "-qam", "spoil")
        await ada.engine.submit(mixed)
        found = await ada.engine.until(
            lambda now: (
                {states(now)[name] for name in ("proven", "believed", "retried", "reworked")} == {"COMPLETED"}
                and states(now)["failed"] == "FAILED"
            ),
            "mixed",
        )
        assert found.counts["unproven"] == 1
        await ada.engine.asked()
        for plan_id in ("mixed", "code", desk.tree.plan_id):
            seen[plan_id] = await shown_by_api(ada, plan_id)
            seen[plan_id] += await asyncio.to_thread(shown_by_command_line, root, plan_id)
            if plan_id != desk.tree.plan_id:  # that plan came without a DAG, so it has no file
                await write_status_file(ada, plan_id)
                assert read_status_file(root, plan_id) == {
                    # The file has what is stored; the watch of the branches stores later what is stale.
                    name: {field: status[field] for field in WRITTEN}
                    | ({"freshness": "fresh"} if name == "stale" else {})
                    for name, status in seen[plan_id][0].items()
                }, plan_id
            for name, badges in (await shown_by_pages(ada, plan_id)).items():
                assert badges == {BADGES.get(name, "pending")}, name

    visit(root, use, proving=True, a=act)
    for plan_id, views in seen.items():
        assert [view for view in views if view != views[0]] == [], plan_id
    tasks = {name: status for views in seen.values() for name, status in views[0].items()}
    trust = {name: (each["state"], each["proven"], each["freshness"]) for name, each in tasks.items()}
    assert (
        trust.items()
        >= {
            "proven": ("COMPLETED", True, "fresh"),
            "believed": ("COMPLETED", False, "fresh"),
            "stale": ("COMPLETED", True, "stale"),
            "build": ("COMPLETED", False, None),
            "failed": ("FAILED", None, None),
            "waits": ("PENDING", None, None),
        }.items()
    )
    assert (tasks["retried"]["retries"], tasks["reworked"]["rounds"], tasks["build"]["origin"]) == (1, 1, "foreign")
