"""What agents say of their own work, and what others put on the plan's branch: told, and never taken for proof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Result, Turn
from agenttalk.engine.messages import published_files
from agenttalk.ports.statements.core import ADD_COMMENT
from kits.plankit import Engine, plan, play, task
from kits.provekit import FIXES, git, program, promise
from kits.standingkit import explain_json

CHECK = {"id": "there", "kind": "file", "path": "a.txt", "contains": "price"}
OUTPUT = [{"name": "a.txt", "deliverable": True}]


def told_of(root: Path, compiled: Any, **agents: Any) -> dict[str, Any]:
    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(compiled)
        await engine.ended()
        await published_files.publish(engine.deps, await engine.deps.stores.board("default"))
        return await explain_json(engine.deps, "p", "one")

    found: dict[str, Any] = play(root, use, proving=True, **agents)
    return found


def reviewed(least: str | None) -> dict[str, Any]:
    """A promise that also asks for something that no check makes."""
    said = promise(CHECK)
    said["acceptance"].append({"id": "r", "description": "reviewed", "evidenceRequired": ["review"]})
    said["acceptance"][-1] |= {"minTrust": least} if least else {}
    return said


async def sly(turn: Turn) -> Result:
    turn.outputs["a.txt"] = "nothing"
    return Result("done", evidence=["there", {"id": "there", "passed": True, "trust": "executed"}])


async def frank(turn: Turn) -> Result:
    turn.outputs["a.txt"] = "the price"
    return Result("done", evidence=["review", {"id": "result", "passed": True}, {"id": "odd"}, 7])


@pytest.mark.shows("E01", "E07")
def test_a_claim_under_the_name_of_a_check_is_set_aside(tmp_path: Path) -> None:
    one = task("one", outputs=OUTPUT, promise=promise(CHECK), max_reexecute_times=0)
    told = told_of(tmp_path, plan(one), a=sly)
    assert told["state"] == "FAILED"
    assert [(each["id"], each["set_aside"]) for each in told["attempts"][0]["claims"]] == [("there", True)] * 2


@pytest.mark.parametrize(("least", "ends"), [("claimed", "COMPLETED"), (None, "FAILED"), ("attested", "FAILED")])
def test_another_claim_is_worth_a_claim_and_told_as_unproven(tmp_path: Path, least: str | None, ends: str) -> None:
    one = task("one", outputs=OUTPUT, promise=reviewed(least), max_reexecute_times=0)
    told = told_of(tmp_path, plan(one), a=frank)
    assert told["state"] == ends
    assert told["verdict"]["unverified"] == ["review"]
    claims = {each["id"]: each["set_aside"] for each in told["attempts"][0]["claims"]}
    assert claims == {"review": False, "result": True}  # the engine sees for itself that there is a result


def test_a_program_claims_in_its_result(tmp_path: Path) -> None:
    text = """
import json
pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'a.txt').write_text('the price')
pathlib.Path(os.environ['AGENTTALK_RESULT']).write_text(json.dumps({'result': 'ok', 'evidence': ['review']}))
"""
    compiled = plan(
        task("one", "dev", outputs=OUTPUT, promise=reviewed("claimed"), max_reexecute_times=0),
        agents={"dev": program(tmp_path, "dev", text)},
    )
    told = told_of(tmp_path / "root", compiled)
    assert (told["state"], told["verdict"]["trust"]) == ("COMPLETED", "claimed")


def test_an_agent_claims_in_a_report_to_the_api(tmp_path: Path) -> None:
    async def use(engine: Engine) -> dict[str, Any]:
        board = await engine.deps.stores.board("default")

        async def reports(turn: Turn) -> str:
            turn.outputs["a.txt"] = "the price"
            about = {"plan_id": "p", "task_id": "one", "kind": "comment", "author": "a", "body": "", "at": "now"}
            said = b'[{"id": "review", "passed": true}]'
            for type_, epoch in (("general", 1), ("action_report", 9), ("action_report", 1)):
                await board.transact(
                    lambda tx, t=type_, e=epoch: tx.run(ADD_COMMENT, **about, type=t, claims=said, epoch=e)  # type: ignore[misc]
                )
            return "ok"

        engine.agents["a"] = reports
        await engine.submit(plan(task("one", outputs=OUTPUT, promise=reviewed("claimed"), max_reexecute_times=0)))
        await engine.ended()
        return await explain_json(engine.deps, "p", "one")

    told = play(tmp_path, use, proving=True)
    assert told["state"] == "COMPLETED"
    assert [each["id"] for each in told["attempts"][0]["claims"]] == ["review"]  # not that of another attempt


def test_what_somebody_else_puts_on_the_plans_branch_is_named(repo: Path) -> None:
    """While the agent works, somebody commits to the branch; the evidence is about what comes of both."""
    text = f"""
import subprocess
def git(*args):
    who = ['-c', 'user.name=eve', '-c', 'user.email=eve@example.org']
    run = subprocess.run(['git', *who, *args], cwd=r'{repo}', check=True, capture_output=True, text=True)
    return run.stdout.strip()
tip = git('rev-parse', 'agenttalk/p')
blob = subprocess.run(['git', 'hash-object', '-w', '--stdin'], cwd=r'{repo}', input='hello', text=True,
                      check=True, capture_output=True).stdout.strip()
lines = git('ls-tree', tip) + f'\\n100644 blob {{blob}}\\tforeign.txt\\n'
tree = subprocess.run(['git', 'mktree'], cwd=r'{repo}', input=lines, text=True, check=True,
                      capture_output=True).stdout.strip()
message = 'by hand\\n\\nAgentTalk-Plan: p\\nAgentTalk-Task: one\\nAgentTalk-Command: cmd_one_001\\nAgentTalk-Attempt: 1\\n'
commit = git('commit-tree', tree, '-p', tip, '-m', message)
git('update-ref', 'refs/heads/agenttalk/p', commit)
{FIXES}
"""
    check = {"id": "adds", "kind": "run", "run": "grep -q 'a + b' calc.py && test -e foreign.txt"}
    compiled = plan(
        task("one", "dev", workspace="repo", promise=promise(check)),
        agents={"dev": program(repo.parent, "dev", text)},
        workspace={"repo": str(repo)},
    )
    told = told_of(repo.parent / "root", compiled)
    foreign = git(repo, "rev-parse", "agenttalk/p^")
    assert told["state"] == "COMPLETED"
    assert told["verdict"]["foreign"] == told["attempts"][0]["foreign"] == [foreign]
    [alert] = (repo.parent / "root/system_runtime/alerts/p").glob("*.json")
    assert foreign in alert.read_text()
    assert "BRANCH_MOVED" in alert.read_text()


def test_a_merge_of_ours_is_nobody_elses(repo: Path) -> None:
    agents = {
        name: program(repo.parent, name, f"pathlib.Path('{name}.txt').write_text('x')") for name in ("dev", "ops")
    }
    check = {"id": "there", "kind": "run", "run": "ls *.txt"}
    tasks = [task("zero", "ops", workspace="repo", promise=promise(check))]
    tasks += [task("one", "dev", workspace="repo", needs=["zero"], promise=promise(check))]
    told = told_of(repo.parent / "root", plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
    assert (told["state"], "foreign" in told["attempts"][0]) == ("COMPLETED", False)
