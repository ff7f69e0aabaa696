"""Work that the engine proves itself: checks on outputs and on a repository, merged only when they pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.engine.messages import published_files
from agenttalk.engine.operation import fsck
from agenttalk.engine.people import questions
from agenttalk.ports.statements.core import FACTS_OF
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import FIXES, RUNS, SUITE, coded, git, program, promise, run
from kits.standingkit import PlanStanding, explain_json


def test_an_output_is_looked_at_and_sent_back_until_it_is_right(tmp_path: Path) -> None:
    told: list[str] = []

    async def careless(turn: Turn) -> str:
        told.append(turn.prompt)
        turn.outputs["report.md"] = ("TODO", "# Prices\nTODO", "# Prices\nall of them\n")[len(told) - 1]
        return "all done, tests pass"

    checks = (
        {"id": "says-prices", "kind": "file", "path": "report.md", "contains": "# Prices"},
        {"id": "no-todo", "kind": "run", "run": "! grep -q TODO report.md"},
    )
    outputs = [{"name": "report.md", "deliverable": True}]
    found = run(tmp_path, plan(task("write", outputs=outputs, promise=promise(*checks))), a=careless)
    assert (states(found), len(told)) == ({"write": "COMPLETED"}, 3)
    assert "says-prices" in told[1]
    assert "no-todo" in told[2]


@pytest.mark.shows("P11")
def test_who_only_says_that_it_is_done_is_not_done(repo: Path) -> None:
    found = run(repo.parent, coded(repo, "pass", max_reexecute_times=1))
    assert states(found) == {"fix": "FAILED"}
    assert "tests-pass" in (found.tasks[0]["reason"] or "")
    assert git(repo, "rev-parse", "agenttalk/p") == git(repo, "rev-parse", "main")


@pytest.mark.shows("E12")
def test_work_that_passes_is_merged_into_the_plans_branch_and_nowhere_else(repo: Path) -> None:
    before = git(repo, "rev-parse", "main")
    text = f"if attempt == 2:\n    {FIXES}\nelse:\n    pathlib.Path('notes.md').write_text('later')"

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(coded(repo, text))
        assert states(await engine.ended()) == {"fix": "COMPLETED"}
        return await explain_json(engine.deps, "p", "fix")

    told = play(repo.parent / "root", use, proving=True)
    assert git(repo, "show", "agenttalk/p:calc.py").endswith("return a + b")
    assert git(repo, "show", "agenttalk/p:notes.md") == "later"  # the second round went on from the first
    assert (git(repo, "rev-parse", "main"), git(repo, "status", "--porcelain")) == (before, "")
    assert [turn["verdict"]["fulfilled"] for turn in told["attempts"]] == [False, True]
    assert told["verdict"]["trust"] == "executed"


@pytest.mark.shows("E03")
def test_a_test_that_was_bent_is_put_back_before_it_is_run(repo: Path) -> None:
    bent = "pathlib.Path('test_calc.py').write_text('import unittest\\n')"
    found = run(repo.parent, coded(repo, bent, max_reexecute_times=0))
    assert states(found) == {"fix": "FAILED"}
    assert git(repo, "show", "agenttalk/p:test_calc.py") == SUITE.strip()


@pytest.mark.shows("P13")
def test_what_may_not_be_touched_ends_the_task(repo: Path) -> None:
    text = f"{FIXES}\npathlib.Path('secrets.txt').write_text('x')"
    found = run(repo.parent, coded(repo, text, promise={"allowedScope": ["calc.py"]}))
    assert states(found) == {"fix": "FAILED"}
    assert "secrets.txt" in (found.tasks[0]["reason"] or "")


@pytest.mark.shows("E04")
def test_a_check_that_must_fail_first_and_passes_refuses_the_task(repo: Path) -> None:
    (repo / "calc.py").write_text("def add(a, b):\n    return a + b\n")
    git(repo, "commit", "-aqm", "it works already")
    tests = {"id": "tests-pass", "kind": "run", "run": RUNS, "red_first": "required"}
    said = task("fix", "dev", workspace="repo", promise=promise(tests))
    agents = {"dev": program(repo.parent, "dev", "pass")}
    found = run(repo.parent, plan(said, agents=agents, workspace={"repo": str(repo)}))
    assert states(found) == {"fix": "FAILED"}
    assert "must fail before the work" in (found.tasks[0]["reason"] or "")
    attempts = repo.parent / "root" / "workspaces" / "p" / "attempts"
    assert not attempts.exists() or not list(attempts.iterdir())  # the clone was made meanwhile


@pytest.mark.mends("C3")
def test_two_that_touch_the_same_lines_are_merged_one_after_the_other(repo: Path) -> None:
    both = {}
    for name in ("one", "two"):
        text = f"""
import time
path = pathlib.Path('notes.md')
path.write_text((path.read_text() if path.exists() else '') + '{name}\\n')
pathlib.Path(r'{repo.parent}', '{name}').touch()
while attempt == 1 and not all(pathlib.Path(r'{repo.parent}', each).exists() for each in ('one', 'two')):
    time.sleep(0.01)
"""
        both[name] = program(repo.parent, name, text)
    check = {"id": "noted", "kind": "file", "path": "notes.md"}
    tasks = [task(name, name, workspace="repo", promise=promise(check)) for name in both]
    found = run(repo.parent, plan(*tasks, agents=both, workspace={"repo": str(repo)}))
    assert states(found) == {"one": "COMPLETED", "two": "COMPLETED"}
    assert sorted(git(repo, "show", "agenttalk/p:notes.md").splitlines()) == ["one", "two"]
    assert sum(each["rounds"] for each in found.tasks) == 0  # a conflict is no round of rework
    written = [path.read_text() for path in repo.parent.rglob(".agenttalk/*.prompt.txt")]
    [again] = [text for text in written if "What to fix" in text]
    for once in ("it conflicts with work that was merged meanwhile", "CONFLICT (add/add)", "<<<<<<<"):
        assert again.count(once) == 1


@pytest.mark.rest
def test_who_conflicted_with_others_conflicts_once_and_never_again(repo: Path) -> None:
    names = ("one", "two", "three", "four")
    agents = {}
    for name in names:
        text = f"""
import time
path = pathlib.Path('notes.md')
path.write_text((path.read_text() if path.exists() else '') + '{name}\\n')
with pathlib.Path(r'{repo.parent}', '{name}').open('a') as log:
    log.write('began\\n')
while attempt == 1 and not all(pathlib.Path(r'{repo.parent}', each).exists() for each in {names!r}):
    time.sleep(0.01)
"""
        agents[name] = program(repo.parent, name, text)
    check = {"id": "noted", "kind": "file", "path": "notes.md"}
    tasks = [task(name, name, workspace="repo", promise=promise(check)) for name in names]
    found = run(repo.parent, plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert sorted(git(repo, "show", "agenttalk/p:notes.md").splitlines()) == sorted(names)
    began = [len((repo.parent / name).read_text().splitlines()) for name in names]
    assert sorted(began) == [1, 2, 2, 2]


@pytest.mark.shows("E10")
@pytest.mark.parametrize(("decision", "ends"), [("APPROVE", "COMPLETED"), ("REJECT", "FAILED")])
def test_a_person_is_asked_when_nothing_else_is_missing_and_the_agent_goes_on(
    tmp_path: Path, decision: str, ends: str
) -> None:
    async def use(engine: Engine) -> PlanStanding:
        checks = (
            {"id": "there", "kind": "file", "path": "a.txt"},
            {"id": "nice", "kind": "human", "question": "Nice?"},
        )
        asked = task(
            "one", outputs=[{"name": "a.txt", "deliverable": True}], promise=promise(*checks), max_reexecute_times=0
        )
        await engine.submit(plan(asked, task("two")))
        now = await engine.until(lambda now: states(now)["two"] == "COMPLETED" and now.result == "waiting")
        assert states(now)["one"] == "RUNNING"
        [request] = await questions.list_open(engine.deps)
        assert request.document.title == "Nice?"
        assert await fsck.check_root(engine.deps) == []
        await engine.answer(decision)
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, proving=True)
    assert states(found)["one"] == ends


JUDGED = {"requirements.md": {"quality_threshold": 70, "completeness": "it names a price"}}


def reviewed(**keys: Any) -> Any:
    """A writer, whose work a builder looks at before it uses it."""
    text = {"name": "requirements.md", "deliverable": True}
    need = {"name": "requirements.md", "from": "requirements.md"}
    build = task("build", "b", needs=["write"], inputs=[need], validate=keys.pop("validate", JUDGED))
    return plan(task("write", "a", outputs=[text], **keys), build)


@pytest.mark.shows("V02", "V03", "V05", "V06", "V08")
def test_work_that_the_next_one_finds_wanting_flows_back_with_the_issues(tmp_path: Path) -> None:
    told: list[str] = []
    seen: list[str] = []

    async def writer(turn: Turn) -> str:
        told.append(turn.prompt)
        turn.outputs["requirements.md"] = "nothing" if len(told) == 1 else "price: 10"
        return "written"

    async def builder(turn: Turn) -> Any:
        text = turn.text("requirements.md")
        if turn.judges is None:
            seen.append(text)
            return "built"
        if "price" in text:
            return {"score": 90, "decision": "ACCEPT", "reason": "fine"}
        issue = {"severity": "HIGH", "category": "COMPLETENESS", "description": "no price", "suggestion": "name it"}
        return {"score": 20, "decision": "REJECT", "reason": "it is incomplete", "issues": [issue]}

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(reviewed())
        found = await engine.until(lambda now: now.state == "ENDED")
        facts = await (await engine.deps.stores.board("default")).read(FACTS_OF, subject="p/build", after=0, limit=9)
        assert [fact[2] for fact in facts].count("inputs.judged") == 2
        return found

    found = play(tmp_path, use, proving=True, a=writer, b=builder)
    assert states(found) == {"write": "COMPLETED", "build": "COMPLETED"}
    assert (len(told), seen) == (2, ["price: 10"])
    assert "no price" in told[1]
    assert "name it" in told[1]
    assert {each["task_id"]: each["rounds"] for each in found.tasks} == {"write": 1, "build": 0}


@pytest.mark.shows("V07", "V13")
@pytest.mark.parametrize("better", [True, False], ids=["other issues each time", "the same issue again"])
def test_rework_ends_when_its_rounds_are_used_up_or_it_gets_nowhere(tmp_path: Path, *, better: bool) -> None:
    written: list[int] = []

    async def writer(turn: Turn) -> str:
        written.append(turn.command.command_seq)
        turn.outputs["requirements.md"] = f"version {len(written)}"
        return "written"

    async def builder(_: Turn) -> Any:
        issue = f"fault {len(written)}" if better else "the fault"
        return {"score": 10, "decision": "REJECT", "reason": "no", "issues": [issue]}

    found = run(tmp_path, reviewed(max_reexecute_times=2), a=writer, b=builder)
    assert states(found)["write"] == "FAILED"
    assert states(found)["build"] == "BLOCKED_WAITING_REVIEW"
    assert len(written) == (3 if better else 2)
    assert ("used up" if better else "unchanged") in (found.tasks[1]["reason"] or "")


@pytest.mark.shows("V02")
def test_what_a_machine_can_tell_is_not_left_to_anybodys_judgement(tmp_path: Path) -> None:
    tried: list[str] = []

    async def writer(turn: Turn) -> str:
        tried.append(turn.prompt)
        turn.outputs["requirements.md"] = ["{", '{"name": 1}', '{"name": "x", "price": 3}'][len(tried) - 1]
        return "written"

    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    criteria = {"requirements.md": {"format": "json", "required_fields": ["price"], "json_schema": schema}}
    found = run(tmp_path, reviewed(validate=criteria), a=writer)
    assert states(found) == {"write": "COMPLETED", "build": "COMPLETED"}
    assert len(tried) == 3
    assert "is not JSON" in tried[1]
    assert "price" in tried[2]


def test_what_another_task_makes_cannot_be_handed_in_by_this_one(tmp_path: Path) -> None:
    async def sly(turn: Turn) -> str:
        turn.outputs["own.txt"] = turn.outputs["theirs.txt"] = "mine"
        return "both are there"

    check = {"id": "theirs", "kind": "artifact", "output": "theirs.txt"}
    own = task(
        "own", "a", outputs=[{"name": "own.txt", "deliverable": True}], promise=promise(check), max_reexecute_times=0
    )
    outputs = [{"name": "theirs.txt", "deliverable": True}]
    other = task("other", "b", needs=["own"], on_dependency_failed="SKIP", outputs=outputs)
    assert states(run(tmp_path, plan(own, other), a=sly))["own"] == "FAILED"


def test_what_keeps_work_from_being_proven_ends_with_a_person_and_not_in_a_loop(tmp_path: Path) -> None:
    (tmp_path / "workspaces").write_text("in the way")
    check = {"id": "there", "kind": "file", "path": "a.txt"}
    outputs = [{"name": "a.txt", "deliverable": True}]

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("one", outputs=outputs, promise=promise(check))))
        return await engine.until(lambda now: states(now)["one"] == "BLOCKED_WAITING_HUMAN")

    found = play(tmp_path, use, proving=True)
    assert "ended the engine" in found.tasks[0]["reason"]


@pytest.mark.shows("V01")
def test_nobody_judges_what_it_made_itself(tmp_path: Path) -> None:
    judged: list[str | None] = []

    async def alone(turn: Turn) -> str:
        judged.append(turn.judges)
        for each in turn.command.produces or ():
            turn.outputs[each.output_name] = "text"
        return "ok"

    text = {"name": "requirements.md", "deliverable": True}
    need = {"name": "requirements.md", "from": "requirements.md"}
    build = task("build", "a", needs=["write"], inputs=[need], validate=JUDGED)

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(task("write", "a", outputs=[text]), build))
        await engine.asked()
        assert judged == [None]
        await engine.answer("APPROVE")
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(tmp_path, use, proving=True, a=alone)
    assert states(found) == {"write": "COMPLETED", "build": "COMPLETED"}
    assert judged == [None, None]


def test_a_tree_that_cannot_be_taken_is_not_done_and_its_receipt_says_so(repo: Path) -> None:
    text = f"{FIXES}\nos.symlink('/etc/passwd', 'link')"

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(coded(repo, text, max_reexecute_times=0))
        assert states(await engine.ended()) == {"fix": "FAILED"}
        await published_files.publish(engine.deps, await engine.deps.stores.board("default"))
        return await explain_json(engine.deps, "p", "fix")

    told = play(repo.parent / "root", use, proving=True)
    assert told["verdict"]["fulfilled"] is False
    assert "link" in told["reason"]
    [ack] = (repo.parent / "root/system_runtime/plans/p/acks").iterdir()
    assert json.loads(ack.read_bytes())["status"] == "FAILED"
