"""Done stays done only while it holds: what changes is looked at again, and what breaks goes back to whoever broke it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.core import wire
from agenttalk.contracts.promise import RunCheck
from agenttalk.engine.people import questions
from agenttalk.ports.statements.core import FACTS_OF
from agenttalk.ports.statements.plans import RUN
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import git, repository
from kits.standingkit import PlanStanding, explain_json

ADD = "def add(a, b):\n    return a + b\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with nothing but a note."""
    return repository(tmp_path / "repo", {"readme.md": "hello\n"})


def runs(repo: Path, check_id: str, text: str, **keys: Any) -> dict[str, Any]:
    """A check that runs a line of Python, and notes that it did."""
    log = repo.parent / f"{check_id}.log"
    line = f'echo run >> {log}; {sys.executable} -B -c "{text}"'
    return {"id": check_id, "kind": "run", "run": line, "red_first": "off", **keys}


def ran(repo: Path, check_id: str) -> int:
    log = repo.parent / f"{check_id}.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def promise(*checks: dict[str, Any], **keys: Any) -> dict[str, Any]:
    criteria = [{"id": each["id"], "description": each["id"], "evidenceRequired": [each["id"]]} for each in checks]
    return {"objective": "It works", "acceptance": criteria, "checks": list(checks), **keys}


def program(repo: Path, name: str, text: str) -> dict[str, Any]:
    """A script agent that writes what it was told to a file beside the repository, and does its work."""
    path = repo.parent / f"{name}.py"
    path.write_text(
        "import os, sys, pathlib\n"
        "attempt = int(os.environ['AGENTTALK_COMMAND_ID'][-3:])\n"
        f"pathlib.Path(r'{repo.parent}', f'{name}.{{attempt}}.prompt').write_text(sys.stdin.read())\n"
        f"{text}\nprint('all done')\n"
    )
    return {"driver": "script", "argv": [sys.executable, str(path)]}


def told(repo: Path, name: str) -> list[str]:
    """What an agent was told, command by command."""
    return [path.read_text() for path in sorted(repo.parent.glob(f"{name}.*.prompt"))]


def writes(path: str, text: str) -> str:
    return f"pathlib.Path({path!r}).write_text({text!r})"


def pair(repo: Path, second: str, *, covers: list[str] | None = None, **keys: Any) -> Any:
    """Two tasks that merge one after the other; the first one's check is about what the second may break."""
    works = runs(repo, "adds", "from calc import add; assert add(1, 2) == 3", covers=covers)
    noted = runs(repo, "noted", "open('notes.md').read()")
    return plan(
        task("one", "a", workspace="repo", promise=promise(works)),
        task("two", "b", workspace="repo", needs=["one"], promise=promise(noted), **keys),
        agents={"a": program(repo, "a", writes("calc.py", ADD)), "b": program(repo, "b", second)},
        workspace={"repo": str(repo)},
    )


BREAKS = f"""
{writes("notes.md", "seen")}
if attempt == 1:
    {writes("calc.py", "def add(a, b): return 0")}
else:
    {writes("calc.py", ADD)}
"""


async def facts(engine: Engine, subject: str) -> list[tuple[str, Any]]:
    store = await engine.deps.stores.board("default")
    rows = await store.read(FACTS_OF, subject=subject, after=0, limit=100)
    return [(row[2], wire.read(bytes(row[3]))) for row in rows]


def run(repo: Path, compiled: Any, use: Callable[[Engine], Awaitable[Any]] | None = None) -> Any:
    async def whole(engine: Engine) -> Any:
        await engine.submit(compiled)
        found = await engine.ended()
        return await use(engine) if use else found

    return play(repo.parent / "root", whole, proving=True)


@pytest.mark.shows("E05")
def test_whoever_breaks_what_another_proved_gets_it_back_and_mends_it(repo: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        found = await engine.until(lambda now: now.state == "ENDED")
        kinds = [kind for kind, _ in await facts(engine, "p/one")]
        assert kinds == ["evidence.stale", "evidence.verified"]
        [broken] = [body for kind, body in await facts(engine, "p/two") if kind == "regression.found"]
        [(commit, cause)] = [(each["cause"]["commit"], each["cause"]["task_id"]) for each in broken["broken"]]
        assert cause == "two"
        assert "AgentTalk-Task: two" in git(repo, "log", "-1", "--format=%B", commit)
        promised = (await explain_json(engine.deps, "p", "two"))["promised"]["criteria"]
        assert [each["id"] for each in promised] == ["noted", "kept:one/adds"]
        return found

    found = run(repo, pair(repo, BREAKS), use)
    assert states(found) == {"one": "COMPLETED", "two": "COMPLETED"}
    assert {each["task_id"]: each["rounds"] for each in found.tasks} == {"one": 0, "two": 1}
    assert {each["freshness"] for each in found.tasks} == {"fresh"}
    assert git(repo, "show", "agenttalk/p:calc.py") == ADD.strip()
    assert len(told(repo, "a")) == 1
    first, second = told(repo, "b")
    assert "adds of one" not in first
    assert "adds of one" in second
    assert "AssertionError" in second


def test_a_change_of_something_else_reopens_nothing_and_runs_nothing(repo: Path) -> None:
    found = run(repo, pair(repo, writes("notes.md", "seen"), covers=["calc.py"]))
    assert (found.state, states(found)) == ("ENDED", {"one": "COMPLETED", "two": "COMPLETED"})
    assert (ran(repo, "adds"), ran(repo, "noted")) == (1, 1)


@pytest.mark.rest
def test_what_covers_everything_is_looked_at_once_more_and_then_not_again(repo: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        found = await engine.until(lambda now: now.state == "ENDED")
        assert ran(repo, "adds") == 2
        assert [each["state"] for each in (await engine.dispatcher.operator.verify("p"))["checks"]] == [
            "fresh",
            "fresh",
        ]
        return found

    found = run(repo, pair(repo, writes("notes.md", "seen")), use)
    assert {each["task_id"]: each["attempt"] for each in found.tasks} == {"one": 1, "two": 1}
    assert (ran(repo, "adds"), ran(repo, "noted")) == (2, 1)


def chain(repo: Path, *steps: str) -> Any:
    """Tasks that merge one after the other; the first one's check is about what the others may break."""
    works = runs(repo, "adds", "from calc import add; assert add(1, 2) == 3")
    tasks = [task("t0", "a0", workspace="repo", promise=promise(works))]
    agents = {"a0": program(repo, "a0", writes("calc.py", ADD))}
    for number, text in enumerate(steps, 1):
        agent, note = f"a{number}", writes(f"note{number}.md", "seen")
        check = {"id": "noted", "kind": "file", "path": f"note{number}.md", "covers": [f"note{number}.md"]}
        agents[agent] = program(repo, agent, f"{note}\n{text}")
        tasks.append(task(f"t{number}", agent, workspace="repo", needs=[f"t{number - 1}"], promise=promise(check)))
    return plan(*tasks, agents=agents, workspace={"repo": str(repo)})


@pytest.mark.rest
@pytest.mark.shows("E05")
def test_of_many_merges_the_one_that_broke_it_is_found(repo: Path) -> None:
    breaks = f"{writes('calc.py', 'def add(a, b): return 0')} if attempt == 1 else {writes('calc.py', ADD)}"
    found = run(repo, chain(repo, "pass", "pass", "pass", breaks, "pass", "pass"))
    assert found.state == "ENDED"
    assert {each["task_id"]: each["rounds"] for each in found.tasks if each["rounds"]} == {"t4": 1}
    assert len(told(repo, "a4")) == 2
    # its own proof, the tip, two or three in between, the mended one, and the tip once more if that is another tree
    assert ran(repo, "adds") <= 7


@pytest.mark.rest
def test_what_somebody_else_put_on_the_branch_is_mended_by_the_owner_of_the_check(repo: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        git(repo, "switch", "-q", "agenttalk/p")
        (repo / "calc.py").write_text("def add(a, b): return 0\n")
        git(repo, "commit", "-aqm", "I know better")
        foreign = git(repo, "rev-parse", "HEAD")
        git(repo, "switch", "-q", "main")
        told = await engine.dispatcher.operator.verify("p")
        assert told["reopened"] == ["one"]
        [red] = [each for each in told["checks"] if each["state"] == "red"]
        assert (red["check_id"], red["broke"]) == ("adds", {"commit": foreign, "task_id": None})
        assert "plan.reopened" in [kind for kind, _ in await facts(engine, "p")]
        return await engine.until(lambda now: now.state == "ENDED")

    found = run(repo, pair(repo, writes("notes.md", "seen")), use)
    assert states(found) == {"one": "COMPLETED", "two": "COMPLETED"}
    assert {each["task_id"]: each["rounds"] for each in found.tasks} == {"one": 1, "two": 0}
    assert git(repo, "show", "agenttalk/p:calc.py") == ADD.strip()


@pytest.mark.rest
def test_who_has_no_round_left_fails_and_the_owner_mends_its_own(repo: Path) -> None:
    breaks = f"{writes('notes.md', 'seen')}\n{writes('calc.py', 'def add(a, b): return 0')}"

    async def use(engine: Engine) -> PlanStanding:
        [asked] = await questions.list_open(engine.deps)
        assert (asked.document.type, asked.task_id) == ("REEXECUTE_LIMIT", "two")
        return await engine.until(lambda now: now.state == "ENDED")

    found = run(repo, pair(repo, breaks, max_reexecute_times=0), use)
    assert found.result == "failed"
    assert states(found) == {"one": "COMPLETED", "two": "FAILED"}
    [two] = [each for each in found.tasks if each["task_id"] == "two"]
    assert "adds of one" in two["reason"]
    assert git(repo, "show", "agenttalk/p:calc.py") == ADD.strip()


def test_while_it_closes_it_says_so_and_nothing_is_called_done(repo: Path) -> None:
    gate = repo.parent / "gate"
    waits = f"import os, time; [time.sleep(0.01) for _ in iter(lambda: os.path.exists(r'{gate}'), True)]"
    slow = runs(repo, "slow", waits)
    gate.touch()
    last = f"{writes('b.md', 'x')}\nos.unlink(r'{gate}')"
    compiled = plan(
        task("one", "a", workspace="repo", promise=promise(slow)),
        task("two", "b", workspace="repo", needs=["one"]),
        agents={"a": program(repo, "a", writes("a.md", "x")), "b": program(repo, "b", last)},
        workspace={"repo": str(repo)},
    )

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        now = await engine.until(lambda now: now.closing == "verifying again: one")
        assert (now.state, now.result, now.counts["open"]) == ("RUNNING", "running", 0)
        assert {each["task_id"]: each["freshness"] for each in now.tasks} == {"one": "stale", "two": "fresh"}
        gate.touch()
        now = await engine.until(lambda now: now.state == "ENDED")
        assert ({each["freshness"] for each in now.tasks}, now.closing) == ({"fresh"}, None)

    play(repo.parent / "root", use, proving=True)


def test_what_cannot_be_looked_at_again_pauses_the_plan_and_people_are_told(repo: Path) -> None:
    gate = repo.parent / "gate"
    last = f"{writes('b.md', 'x')}\nimport time\nwhile not os.path.exists(r'{gate}'): time.sleep(0.01)"
    away = repo.parent / "away"

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(pair(repo, f"{writes('notes.md', 'seen')}\n{last}"))
        await engine.until(lambda now: states(now)["two"] == "RUNNING")
        await engine.dispatcher.operator.pause("p", by="ann")
        gate.touch()
        paused = await engine.until(lambda now: states(now)["two"] == "COMPLETED" and now.result == "paused")
        assert (paused.state, paused.counts["open"], engine.dispatcher._state.closings) == ("PAUSED", 0, {})
        await engine.followed(lambda: git(repo, "rev-parse", "agenttalk/p"))
        await asyncio.to_thread(repo.rename, away)
        await engine.dispatcher.operator.resume("p", by="ann")
        await engine.until(lambda now: now.state == "PAUSED")
        await asyncio.to_thread(away.rename, repo)
        [alert] = [body for kind, body in await facts(engine, "p") if kind == "alert"]
        assert (alert["type"], "resume" in alert["details"]["hint"]) == ("CHECK_UNREPEATABLE", True)
        await engine.dispatcher.operator.resume("p", by="ann")
        return await engine.until(lambda now: now.state == "ENDED")

    found = play(repo.parent / "root", use, proving=True)
    assert {each["freshness"] for each in found.tasks} == {"fresh"}


def test_another_engine_goes_on_where_a_plan_was_closing(repo: Path) -> None:
    gate = repo.parent / "gate"
    waits = f"import os, time; [time.sleep(0.01) for _ in iter(lambda: os.path.exists(r'{gate}'), True)]"
    gate.touch()
    compiled = plan(
        task("one", "a", workspace="repo", promise=promise(runs(repo, "slow", waits))),
        task("two", "b", workspace="repo", needs=["one"]),
        agents={
            "a": program(repo, "a", writes("a.md", "x")),
            "b": program(repo, "b", f"{writes('b.md', 'x')}\nos.unlink(r'{gate}')"),
        },
        workspace={"repo": str(repo)},
    )

    async def first(engine: Engine) -> None:
        await engine.submit(compiled)
        await engine.until(lambda now: now.closing == "verifying again: one")

    async def second(engine: Engine) -> PlanStanding:
        gate.touch()
        return await engine.until(lambda now: now.state == "ENDED")

    play(repo.parent / "root", first, proving=True)
    found = play(repo.parent / "root", second, proving=True)
    assert {each["attempt"] for each in found.tasks} == {1}


def test_a_plan_in_which_nothing_is_proven_ends_with_its_last_task(tmp_path: Path) -> None:
    async def use(engine: Engine) -> list[str]:
        await engine.submit(plan(task("one"), task("two", needs=["one"])))
        await engine.until(lambda now: now.state == "ENDED")
        store = await engine.deps.stores.board("default")
        assert (await store.read(RUN, plan_id="p"))[0][-1] == 0
        return [kind for kind, _ in await facts(engine, "p")]

    assert play(tmp_path, use, proving=True) == ["plan.submitted", "plan.ended"]


@pytest.mark.rest
def test_a_new_revision_with_another_check_has_its_task_run_again(repo: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        more = runs(repo, "adds", "from calc import add; assert add(2, 2) == 4")
        changed = pair(repo, writes("notes.md", "seen"))
        nodes = [
            node.model_copy(
                update={"promise": node.promise.model_copy(update={"checks": (RunCheck.model_validate(more),)})}
            )
            if node.task_id == "one" and node.promise is not None
            else node
            for node in changed.dag.nodes
        ]
        dag = changed.dag.model_copy(update={"nodes": tuple(nodes)})
        await engine.dispatcher.operator.apply(dag, changed.manifest, changed.profiles, by="ann")
        return await engine.until(lambda now: now.state == "ENDED")

    found = run(repo, pair(repo, writes("notes.md", "seen")), use)
    assert states(found) == {"one": "COMPLETED", "two": "COMPLETED"}
    assert (len(told(repo, "a")), len(told(repo, "b"))) == (2, 1)


@pytest.mark.rest
def test_a_plan_that_has_ended_goes_on_only_for_as_long_as_it_is_looked_at(repo: Path) -> None:
    async def use(engine: Engine) -> None:
        git(repo, "switch", "-q", "agenttalk/p")
        git(repo, "commit", "-q", "--allow-empty", "-m", "nothing")
        assert {each["state"] for each in (await engine.dispatcher.operator.verify("p"))["checks"]} == {"fresh"}
        (repo / "more.md").write_text("more")
        git(repo, "add", ".")
        git(repo, "commit", "-qm", "harmless")
        git(repo, "switch", "-q", "main")
        one = await engine.dispatcher.operator.verify("p", "one")
        assert [(each["check_id"], each["state"], each["changed"]) for each in one["checks"]] == [
            ("adds", "verified", ["the tree"])
        ]
        kinds = [kind for kind, _ in await facts(engine, "p")]
        assert kinds == ["plan.submitted", "plan.ended", "tip.taken", "tip.taken", "plan.reopened", "plan.ended"]
        found = await engine.until(lambda now: now.state == "ENDED")
        assert {each["freshness"] for each in found.tasks} == {"fresh"}

    run(repo, pair(repo, writes("notes.md", "seen")), use)


@pytest.mark.rest
def test_who_broke_a_check_is_not_done_again_before_it_passes(repo: Path) -> None:
    lazy = BREAKS.replace("attempt == 1", "attempt < 3")

    async def use(engine: Engine) -> PlanStanding:
        found = await engine.until(lambda now: now.state == "ENDED")
        turns = (await explain_json(engine.deps, "p", "two"))["attempts"]
        assert [turn["cause"] for turn in turns] == ["FULFILLED", "NOT_FULFILLED", "FULFILLED"]
        assert "'one/adds' failed" in turns[1]["reason"]
        return found

    found = run(repo, pair(repo, lazy), use)
    assert {each["task_id"]: each["rounds"] for each in found.tasks} == {"one": 0, "two": 2}
    assert git(repo, "show", "agenttalk/p:calc.py") == ADD.strip()


@pytest.mark.rest
def test_a_task_whose_promise_follows_from_its_node_keeps_what_it_broke(repo: Path) -> None:
    works = runs(repo, "adds", "from calc import add; assert add(1, 2) == 3")
    compiled = plan(
        task("one", "a", workspace="repo", promise=promise(works)),
        task("two", "b", workspace="repo", needs=["one"]),
        agents={"a": program(repo, "a", writes("calc.py", ADD)), "b": program(repo, "b", BREAKS)},
        workspace={"repo": str(repo)},
    )

    async def use(engine: Engine) -> list[str]:
        await engine.until(lambda now: now.state == "ENDED")
        criteria = (await explain_json(engine.deps, "p", "two"))["promised"]["criteria"]
        return [each["id"] for each in criteria]

    assert run(repo, compiled, use) == ["result", "kept:one/adds"]
    assert git(repo, "show", "agenttalk/p:calc.py") == ADD.strip()


@pytest.mark.rest_but("another output")
@pytest.mark.shows("E05")
@pytest.mark.parametrize("same", [True, False], ids=["the same output", "another output"])
def test_who_used_what_the_reopened_task_made_runs_again_only_if_that_is_another(repo: Path, *, same: bool) -> None:
    makes = f"{BREAKS}\npathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'two.txt').write_text("
    makes += "'made')" if same else "f'made {attempt}')"
    reads = (
        f"import shutil\nshutil.copytree(os.environ['AGENTTALK_INPUTS'], r'{repo.parent}/given', dirs_exist_ok=True)"
    )
    works = runs(repo, "adds", "from calc import add; assert add(1, 2) == 3")
    compiled = plan(
        task("one", "a", workspace="repo", promise=promise(works)),
        task("two", "b", workspace="repo", needs=["one"], outputs=[{"name": "two.txt"}]),
        task("three", "c", inputs=[{"name": "given", "from": "two.txt"}]),
        agents={
            "a": program(repo, "a", writes("calc.py", ADD)),
            "b": program(repo, "b", makes),
            "c": program(repo, "c", reads),
        },
        workspace={"repo": str(repo)},
    )

    async def use(engine: Engine) -> PlanStanding:
        return await engine.until(lambda now: now.state == "ENDED")

    found = run(repo, compiled, use)
    assert states(found) == {"one": "COMPLETED", "two": "COMPLETED", "three": "COMPLETED"}
    assert (len(told(repo, "b")), len(told(repo, "c"))) == (2, 1 if same else 2)
    [given] = [path.read_text() for path in (repo.parent / "given").rglob("two.txt")]
    assert given == ("made" if same else "made 2")
