"""Evidence is kept: what shows that a task is done, what checks found before, and how they stood before the work."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.ports.statements.proof import BASELINE, EVIDENCE_OF_PLAN, EVIDENCE_OF_TASK, PERFORMANCE, PlanEvidenceRow
from agenttalk.ports.statements.statement import Statement
from agenttalk.ports.storage import R
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import FIXES, coded, git, program, promise
from kits.standingkit import explain_json


async def rows(engine: Engine, query: Statement[R], **about: Any) -> list[R]:
    return await (await engine.deps.stores.board("default")).read(query, plan_id="p", **about)


def counted(folder: Path) -> str:
    """A check that notes each time that it is made."""
    return f"echo made >> {folder}/made.log; "


def times(folder: Path) -> int:
    return len((folder / "made.log").read_text().splitlines()) if (folder / "made.log").exists() else 0


OUTPUT = [{"name": "a.txt", "deliverable": True}]


@pytest.mark.shows("E08")
def test_what_shows_that_a_task_is_done_is_kept_with_what_it_rests_on(repo: Path) -> None:
    async def use(engine: Engine) -> list[PlanEvidenceRow]:
        await engine.submit(coded(repo, FIXES))
        assert states(await engine.ended()) == {"fix": "COMPLETED"}
        return await rows(engine, EVIDENCE_OF_PLAN)

    [(task_id, check_id, command_id, commit, tree, result, key, fresh, _)] = play(
        repo.parent / "root", use, proving=True
    )
    told = json.loads(result)
    assert (task_id, check_id, command_id, fresh) == ("fix", "tests-pass", "cmd_fix_001", 1)
    assert (commit, tree) == (git(repo, "rev-parse", "agenttalk/p"), git(repo, "rev-parse", "agenttalk/p^{tree}"))
    assert (told["passed"], told["trust"], told["fingerprint"]["tree"]) == (True, "executed", tree)
    assert told["fingerprint"]["argv"][:2] == ["sh", "-c"]
    assert key.startswith("sha256:")


def test_work_that_is_not_done_leaves_no_evidence_and_a_plan_without_checks_none_either(repo: Path) -> None:
    async def use(engine: Engine) -> None:
        await engine.submit(coded(repo, "pass", max_reexecute_times=0))
        assert states(await engine.ended()) == {"fix": "FAILED"}
        assert await rows(engine, EVIDENCE_OF_PLAN) == []
        assert await rows(engine, PERFORMANCE, task_id="fix") == []
        await engine.submit(plan(task("plain"), plan_id="q"))
        assert states(await engine.ended("q")) == {"plain": "COMPLETED"}
        board = await engine.deps.stores.board("default")
        for query in (EVIDENCE_OF_TASK, BASELINE, PERFORMANCE):
            assert await board.read(query, plan_id="q", task_id="plain") == []

    play(repo.parent / "root", use, proving=True)


@pytest.mark.shows("E08")
def test_the_same_check_on_the_same_tree_is_made_once(tmp_path: Path) -> None:
    check = {"id": "there", "kind": "run", "run": f"{counted(tmp_path)} test -s a.txt", "red_first": "off"}
    other = {**check, "id": "there-too"}

    async def same(turn: Turn) -> str:
        turn.outputs["a.txt"] = "the same"
        return "ok"

    async def use(engine: Engine) -> dict[str, Any]:
        one = task("one", outputs=OUTPUT, promise=promise(check))
        two = task("two", needs=["one"], outputs=OUTPUT, promise=promise(other))
        await engine.submit(plan(one, two))
        assert states(await engine.ended()) == {"one": "COMPLETED", "two": "COMPLETED"}
        return await explain_json(engine.deps, "p", "two")

    told = play(tmp_path, use, proving=True, a=same)
    [found] = told["attempts"][0]["checks"]
    assert (times(tmp_path), found["seen_for"], found["passed"]) == (1, "p/one", True)
    assert found["seen_at"]


@pytest.mark.parametrize(
    ("run", "keys", "ran"),
    [
        ("sleep 5", {"timeout": 1}, 2),  # nobody knows what it would have said
        ("test -e {folder}/again || (touch {folder}/again; false)", {"retries": 1}, 3),  # passed by luck, then again
        ("false", {}, 1),
    ],
    ids=["timeout", "flaky", "red"],
)
def test_what_tells_of_the_machine_or_came_by_luck_is_not_kept(
    tmp_path: Path, run: str, keys: dict[str, Any], ran: int
) -> None:
    text = f"{counted(tmp_path)} {run.format(folder=tmp_path)}"
    check = {"id": "c", "kind": "run", "run": text, "red_first": "off", **keys}

    async def same(turn: Turn) -> str:
        turn.outputs["a.txt"] = "the same"
        return "ok"

    tasks = [
        task(name, outputs=OUTPUT, promise=promise(check), max_reexecute_times=0, on_dependency_failed="SKIP")
        for name in ("one", "two")
    ]

    async def use(engine: Engine) -> None:
        await engine.submit(plan(*tasks))
        await engine.ended()

    play(tmp_path, use, proving=True, a=same)
    assert times(tmp_path) == ran


def test_who_changes_what_a_check_does_not_cover_gains_nothing_by_what_was_found_before(repo: Path) -> None:
    suite = (
        "import pathlib\n"
        "names = pathlib.Path('names.txt').read_text().split()\n"
        "cases = ''.join(f'<testcase classname=\"t\" name=\"{n}\"/>' for n in names)\n"
        "pathlib.Path('r.xml').write_text(f'<testsuite>{cases}</testsuite>')\n"
    )
    (repo / "suite.py").write_text(suite)
    (repo / "names.txt").write_text("a b")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "two tests")
    tests = {"id": "t", "kind": "tests", "run": f"{sys.executable} suite.py", "junit": "r.xml", "covers": ["calc.py"]}
    agents = {
        "fair": program(repo.parent, "fair", "pass"),
        "sly": program(repo.parent, "sly", "pathlib.Path('names.txt').write_text('a')"),
    }
    keys: dict[str, Any] = {"workspace": "repo", "promise": promise(tests), "max_reexecute_times": 0}

    async def use(engine: Engine) -> dict[str, Any]:
        tasks = task("first", "fair", **keys), task("second", "sly", needs=["first"], **keys)
        await engine.submit(plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
        assert states(await engine.ended()) == {"first": "COMPLETED", "second": "FAILED"}
        return await explain_json(engine.deps, "p", "second")

    told = play(repo.parent / "root", use, proving=True)
    assert "1 tests of the baseline are gone" in told["reason"]


def test_a_restart_knows_how_checks_stood_before_the_work(repo: Path) -> None:
    """The first engine stops when the work is done halfway; meanwhile somebody else makes the check green."""
    begun = repo.parent / "begun"
    check = {"id": "done", "kind": "run", "run": f"{counted(repo.parent)} test -e done.txt", "red_first": "required"}
    text = f"""
import time
if not pathlib.Path(r'{begun}').exists():
    pathlib.Path(r'{begun}').touch()
    time.sleep(1000)
pathlib.Path('done.txt').write_text('x')
"""
    compiled = plan(
        task("fix", "dev", workspace="repo", promise=promise(check)),
        agents={"dev": program(repo.parent, "dev", text)},
        workspace={"repo": str(repo)},
    )

    async def first(engine: Engine) -> None:
        await engine.submit(compiled)
        while not begun.exists():  # noqa: ASYNC110 - a program tells in no other way
            await asyncio.sleep(0.01)

    async def second(engine: Engine) -> dict[str, Any]:
        assert states(await engine.ended()) == {"fix": "COMPLETED"}
        return await explain_json(engine.deps, "p", "fix")

    play(repo.parent / "root", first, proving=True)
    before = times(repo.parent)
    tip = git(repo, "rev-parse", "agenttalk/p")
    git(repo, "branch", "-q", "-f", "side", tip)
    (repo / "done.txt").write_text("somebody else's")
    git(repo, "switch", "-q", "side")
    git(repo, "add", "done.txt")
    git(repo, "commit", "-qm", "green already")
    git(repo, "update-ref", "refs/heads/agenttalk/p", "side")
    git(repo, "switch", "-q", "main")
    told = play(repo.parent / "root", second, proving=True)
    assert before == 1
    assert told["attempts"][-1]["checks"][0].get("weak") is None
