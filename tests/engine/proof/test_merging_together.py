"""Code tasks that are ready at the same time: their checks run side by side, and no agent runs again for a lost race."""

from __future__ import annotations

import asyncio
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.checking.command import CheckContext, CommandOutcome, CommandRunner, ShellCommand
from agenttalk.adapters.proving.check_runner import CheckRunner
from agenttalk.adapters.proving.merge_train import MergeTrain, TrainBase
from agenttalk.adapters.workspaces.attempts import AttemptClones
from agenttalk.adapters.workspaces.results import WorkspaceAttempt
from agenttalk.engine.people import questions
from agenttalk.engine.proof.evidence_store import StoredFindings
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import git, program, promise, repository, run


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {f"t{number}.txt": "todo\n" for number in range(8)} | {"shared.txt": "0\n"})


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each command of a check really ran."""
    counts: Counter[str] = Counter()
    real = CommandRunner.run

    async def count(self: CommandRunner, command: ShellCommand, context: CheckContext) -> CommandOutcome:
        counts[command.run] += 1
        return await real(self, command, context)

    monkeypatch.setattr(CommandRunner, "run", count)
    return counts


def together(repo: Path, names: Mapping[str, str], text: str = "") -> dict[str, dict[str, Any]]:
    """Agents that end only when all of them have begun, so that all of them merge at once. `names`: what each does."""
    agents = {}
    for name, does in names.items():
        lines = f"""
import time
log = pathlib.Path(r'{repo.parent}', 'turns-{name}')
log.open('a').write('turn\\n')
while not all(pathlib.Path(r'{repo.parent}', 'turns-' + other).exists() for other in {list(names)!r}):
    time.sleep(0.01)
{does}
{text}
"""
        agents[name] = program(repo.parent, name, lines)
    return agents


def turns(repo: Path, names: Any) -> list[int]:
    return [len((repo.parent / f"turns-{name}").read_text().splitlines()) for name in names]


def change(name: str) -> str:
    return f"pathlib.Path('{name}.txt').write_text('done\\n')"


@pytest.mark.parametrize("same", [False, True])
def test_checks_and_turns_are_as_many_as_they_must(repo: Path, ran: Counter[str], *, same: bool) -> None:
    names = [f"t{number}" for number in range(6)]
    checks = {
        name: {"id": "ok", "kind": "run", "run": "grep -q done t*.txt" if same else f"grep -q done {name}.txt"}
        for name in names
    }
    tasks = [task(name, name, workspace="repo", promise=promise(checks[name])) for name in names]
    found = run(
        repo.parent,
        plan(*tasks, agents=together(repo, {name: change(name) for name in names}), workspace={"repo": str(repo)}),
    )
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert turns(repo, names) == [1] * 6
    # One baseline for each check, a candidate for each task, and at the close what the tip made stale. The same check
    # was seen at the tip by the task that landed last.
    assert ran.total() == (1 + 6 if same else 6 + 6 + 5)
    for name in names:
        assert git(repo, "show", f"agenttalk/p:{name}.txt") == "done"
    assert len(git(repo, "log", "--first-parent", "--format=%H", "main..agenttalk/p").split()) == 6
    left = repo.parent / "root/workspaces/p"
    assert [path for folder in ("attempts", "sealed", "temporary", "trash") for path in (left / folder).glob("*")] == []


def test_a_result_that_is_stored_while_another_task_reads_the_store_is_not_made_again(
    repo: Path, ran: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks ask for the same result at once. What the second reads is older than what the first has stored."""
    real_cached, real_find, real_keep = CheckRunner._run_cached, StoredFindings.find_result, StoredFindings.keep_result
    arrived, looks, stored = Counter[str](), Counter[str](), defaultdict[str, asyncio.Event](asyncio.Event)
    both = asyncio.Event()

    async def run_cached(self: CheckRunner, job: Any, check: Any, facts: Any, checkout: Any, part: Any) -> Any:
        arrived[part] += 1
        if arrived["baseline"] == 2:
            both.set()
        await both.wait()
        return await real_cached(self, job, check, facts, checkout, part)

    async def find(self: StoredFindings, job: Any, key: str, check_id: str) -> Any:
        known = await real_find(self, job, key, check_id)
        looks[key] += 1
        if known is None and looks[key] == 2 and key == next(iter(looks)):
            await stored[key].wait()
        return known

    async def keep(self: StoredFindings, job: Any, key: str, result: Any) -> None:
        await real_keep(self, job, key, result)
        stored[key].set()

    monkeypatch.setattr(CheckRunner, "_run_cached", run_cached)
    monkeypatch.setattr(StoredFindings, "find_result", find)
    monkeypatch.setattr(StoredFindings, "keep_result", keep)
    names = ["t0", "t1"]
    check = {"id": "ok", "kind": "run", "run": "grep -q done t*.txt"}
    tasks = [task(name, name, workspace="repo", promise=promise(check)) for name in names]
    agents = together(repo, {name: change(name) for name in names})
    found = run(repo.parent, plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert ran.total() == 1 + 2  # one baseline for both, and a candidate for each


def test_checks_at_the_close_run_side_by_side(repo: Path) -> None:
    """A check that runs once more at the tip passes only while another one does, too."""
    names = ["t0", "t1", "t2"]
    place = repo.parent
    script = place / "check.py"
    script.write_text(f"""
import pathlib, sys, time
place, name = pathlib.Path(r'{place}'), sys.argv[1]
done = [pathlib.Path(each + '.txt').read_text() == 'done\\n' for each in {names!r}]
if not pathlib.Path(name + '.txt').read_text() == 'done\\n':
    sys.exit(1)
if not all(done):
    (place / ('earlier-' + name)).touch()
elif (place / ('earlier-' + name)).exists():
    (place / ('closing-' + name)).touch()
    late = time.monotonic() + 60
    while len(list(place.glob('closing-*'))) < 2:
        if time.monotonic() > late:
            sys.exit('no other check runs')
        time.sleep(0.01)
""")
    tasks = [
        task(
            name,
            name,
            workspace="repo",
            promise=promise({"id": "ok", "kind": "run", "run": f"python3 {script} {name}"}),
        )
        for name in names
    ]
    agents = together(repo, {name: change(name) for name in names})
    found = run(place, plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert turns(repo, names) == [1, 1, 1]
    assert len(list(place.glob("closing-*"))) == 2


def test_who_fails_leaves_and_only_those_behind_are_checked_again(repo: Path, ran: Counter[str]) -> None:
    """The second of four fails its check: it alone gets another turn, and its work is not in what the others merge."""
    names = ["t0", "t1", "t2", "t3"]
    does = {name: change(name) for name in names}
    does["t1"] = "pathlib.Path('t1.txt').write_text('done\\n' if attempt > 1 else 'wrong\\n')"
    tasks = [
        task(
            name,
            name,
            workspace="repo",
            promise=promise({"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"}),
        )
        for name in names
    ]
    found = run(repo.parent, plan(*tasks, agents=together(repo, does), workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert turns(repo, names) == [1, 2, 1, 1]
    for commit in git(repo, "log", "--first-parent", "--format=%H", "main..agenttalk/p").split():
        assert git(repo, "show", f"{commit}:t1.txt") in {"todo", "done"}
    assert ran.total() <= 4 + 4 + 3 + 1 + 4  # baselines, candidates, those behind again, the second attempt, the close


def test_a_combination_that_does_not_work_goes_back_to_who_came_later(repo: Path) -> None:
    """Each of two changes works alone, and both together do not."""
    names = ["t0", "t1"]
    check = {"id": "ok", "kind": "run", "run": "! grep -q done t0.txt || ! grep -q done t1.txt", "red_first": "off"}
    does = {
        name: f"if attempt == 1:\n    {change(name)}\nelse:\n    pathlib.Path('{name}.txt').write_text('other\\n')"
        for name in names
    }
    tasks = [task(name, name, workspace="repo", promise=promise(check)) for name in names]
    found = run(repo.parent, plan(*tasks, agents=together(repo, does), workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert sorted(turns(repo, names)) == [1, 2]


def test_a_commit_that_somebody_adds_meanwhile_is_built_upon_and_no_agent_runs_again(repo: Path) -> None:
    names = ["t0", "t1", "t2"]
    foreign = f"""
import subprocess
def git(*args, **keys):
    return subprocess.run(['git', '-c', 'user.name=x', '-c', 'user.email=x@y', *args], cwd=r'{repo}', check=True, capture_output=True, text=True, **keys).stdout.strip()
while not pathlib.Path(r'{repo.parent}', 'foreign').exists():
    tip = git('rev-parse', 'agenttalk/p')
    blob = git('hash-object', '-w', '--stdin', input='by hand\\n')
    tree = git('mktree', input=git('ls-tree', tip) + '\\n100644 blob ' + blob + '\\tby-hand.txt\\n')
    try:
        git('update-ref', 'refs/heads/agenttalk/p', git('commit-tree', '-p', tip, '-m', 'by hand', tree), tip)
    except subprocess.CalledProcessError:
        continue  # another task landed meanwhile
    pathlib.Path(r'{repo.parent}', 'foreign').touch()
"""
    checks = [{"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"} for name in names]
    # The check of the first one moves the branch while it runs at the candidate.
    (repo.parent / "foreign.py").write_text(f"import pathlib\n{foreign}")
    checks[0]["run"] = f"grep -q done t0.txt && python3 {repo.parent / 'foreign.py'}"
    tasks = [
        task(name, name, workspace="repo", promise=promise(check)) for name, check in zip(names, checks, strict=True)
    ]
    found = run(
        repo.parent,
        plan(*tasks, agents=together(repo, {name: change(name) for name in names}), workspace={"repo": str(repo)}),
    )
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert turns(repo, names) == [1, 1, 1]
    assert git(repo, "show", "agenttalk/p:by-hand.txt") == "by hand"
    assert [git(repo, "show", f"agenttalk/p:{name}.txt") for name in names] == ["done"] * 3


@pytest.mark.parametrize("others", ["far", "near"])
def test_an_approval_holds_for_as_long_as_the_task_s_own_changes_are_the_same(tmp_path: Path, others: str) -> None:
    """While a person looks, another task merges. Next to the approved lines, the person is asked again."""
    text = "".join(f"{number}\n" for number in range(40))
    repo = repository(tmp_path / "repo", {"notes.txt": text})
    swap = "path = pathlib.Path('notes.txt'); path.write_text(path.read_text().replace('\\n{}\\n', '\\n{}\\n'))"
    other = swap.format(30, "thirty") if others == "far" else swap.format(8, "eight")
    wait = f"import time\nwhile not pathlib.Path(r'{tmp_path}', 'go').exists():\n    time.sleep(0.01)\n"
    agents = {
        "shown": program(tmp_path, "shown", swap.format(5, "five")),
        "other": program(tmp_path, "other", wait + other),
    }
    human = {"id": "liked", "kind": "human", "question": "Is it good?"}
    changed = {"id": "ok", "kind": "run", "run": "grep -q -e eight -e thirty notes.txt"}
    tasks = [
        task("shown", "shown", workspace="repo", promise=promise(human)),
        task("other", "other", workspace="repo", promise=promise(changed)),
    ]
    asked = 0

    async def use(engine: Engine) -> Any:
        nonlocal asked
        await engine.submit(plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
        await engine.asked()
        (tmp_path / "go").touch()
        await engine.until(lambda found: states(found)["other"] == "COMPLETED")
        while True:
            await engine.answer("APPROVE")
            asked += 1
            found = await engine.until(lambda found: found.result in {"done", "failed"} or bool(found.questions))
            if not found.questions:
                return found

    found = play(tmp_path / "root", use, proving=True)
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert "five" in git(repo, "show", "agenttalk/p:notes.txt")
    assert asked == (1 if others == "far" else 2)


def test_who_waits_for_a_person_again_leaves_the_train(tmp_path: Path) -> None:
    """Behind another task, what a person approved is not what would land. Who comes later does not wait for the answer."""
    text = "".join(f"{number}\n" for number in range(40))
    repo = repository(tmp_path / "repo", {"notes.txt": text, "far.txt": "0\n"})
    swap = "path = pathlib.Path('{}'); path.write_text(path.read_text().replace('{}\\n', '{}\\n'))"

    def wait(name: str) -> str:
        return f"import time\nwhile not pathlib.Path(r'{tmp_path}', '{name}').exists():\n    time.sleep(0.01)\n"

    agents = {
        "shown": program(tmp_path, "shown", swap.format("notes.txt", "\\n5", "\\nfive")),
        "near": program(tmp_path, "near", wait("near") + swap.format("notes.txt", "\\n8", "\\neight")),
        "far": program(tmp_path, "far", wait("far") + swap.format("far.txt", "0", "done")),
    }
    slow = f"grep -q eight notes.txt && touch {tmp_path}/checks && until test -e {tmp_path}/go; do sleep 0.01; done"
    human = {"id": "liked", "kind": "human", "question": "Is it good?"}
    tasks = [
        task("shown", "shown", workspace="repo", promise=promise(human)),
        task(
            "near",
            "near",
            workspace="repo",
            promise=promise({"id": "ok", "kind": "run", "run": slow}),
        ),
        task(
            "far", "far", workspace="repo", promise=promise({"id": "ok", "kind": "run", "run": "grep -q done far.txt"})
        ),
    ]

    async def use(engine: Engine) -> Any:
        await engine.submit(plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
        await engine.asked()
        (tmp_path / "near").touch()
        await engine.until(lambda _: (tmp_path / "checks").exists())  # it is in the train, and has not landed
        [first] = await questions.list_open(engine.deps)
        await engine.answer("APPROVE")
        await engine.asked()
        [second] = await questions.list_open(engine.deps)
        assert second.request_id != first.request_id
        (tmp_path / "far").touch()
        (tmp_path / "go").touch()
        await engine.until(lambda found: states(found)["far"] == "COMPLETED")
        await engine.answer("APPROVE")
        return await engine.until(lambda found: found.result in {"done", "failed"} or bool(found.questions))

    found = play(tmp_path / "root", use, proving=True)
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert git(repo, "show", "agenttalk/p:notes.txt").count("five") == 1


def test_a_failure_is_final_only_when_everything_before_it_has_landed(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second fails only beside the first, which then fails itself: the second passes without another turn."""
    place = repo.parent
    real = MergeTrain.fail

    def fail(self: MergeTrain, lease: str, base: TrainBase) -> None:
        real(self, lease, base)
        (place / "second-failed").touch()  # the first one's check has not ended before

    monkeypatch.setattr(MergeTrain, "fail", fail)
    wait = "import time\nwhile not pathlib.Path(r'{}').exists():\n    time.sleep(0.01)\n"
    script = place / "first.py"
    script.write_text(
        "import pathlib, sys\n"
        "text = pathlib.Path('t0.txt').read_text()\n"
        "if text == 'wrong\\n':\n"
        f"    pathlib.Path(r'{place}', 'first-is-checked').touch()\n"
        + "".join(f"    {line}\n" for line in wait.format(place / "second-failed").splitlines())
        + "sys.exit(text != 'done\\n')\n"
    )
    checks = {
        "t0": f"python3 {script}",
        "t1": "grep -q done t1.txt && ! grep -q wrong t0.txt",
    }
    note = "pathlib.Path(r'{}', 'turns-{}').open('a').write('turn\\n')\n"
    does = {
        "t0": "pathlib.Path('t0.txt').write_text('done\\n' if attempt > 1 else 'wrong\\n')",
        "t1": wait.format(place / "first-is-checked") + change("t1"),
    }
    tasks = [
        task(name, name, workspace="repo", promise=promise({"id": "ok", "kind": "run", "run": checks[name]}))
        for name in does
    ]
    agents = {name: program(place, name, note.format(place, name) + text) for name, text in does.items()}
    found = run(place, plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert turns(repo, does) == [2, 1]


def test_an_attempt_after_a_conflict_cannot_conflict_again(repo: Path) -> None:
    """While it works, what others have ready waits behind it, even if that was checked before."""
    place = repo.parent
    wait = "import time\nwhile not pathlib.Path(r'{}').exists():\n    time.sleep(0.01)\n"
    add = (
        "for name in {1!r}:\n"
        "    path = pathlib.Path(name + '.txt')\n"
        "    path.write_text(path.read_text() + '{0} was here\\n')"
    )
    files = {"a": ["shared"], "b": ["shared", "t0"], "c": ["t0"]}
    note = f"pathlib.Path(r'{place}', 'turns-{{0}}').open('a').write('turn\\n')\n"
    again = f"pathlib.Path(r'{place}', 'again').touch()\n" + wait.format(place / "c-checked")
    before = {
        "a": "",
        "b": "if attempt == 1:\n"
        + textwrap.indent(wait.format(place / "a-checked"), "    ")
        + f"else:\n{textwrap.indent(again, '    ')}",
        "c": wait.format(place / "again"),
    }
    agents = {
        name: program(place, name, note.format(name) + text + add.format(name, files[name]))
        for name, text in before.items()
    }
    tasks = [
        task(
            name,
            name,
            workspace="repo",
            promise=promise(
                {
                    "id": "ok",
                    "kind": "run",
                    "run": f"grep -q {name}.was {files[name][0]}.txt && touch {place}/{name}-checked",
                }
            ),
        )
        for name in before
    ]
    found = run(place, plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
    assert set(states(found).values()) == {"COMPLETED"}, [each["reason"] for each in found.tasks]
    assert turns(repo, before) == [1, 2, 2]
    assert git(repo, "show", "agenttalk/p:t0.txt").split("\n") == ["todo", "b was here", "c was here"]


def test_what_is_kept_for_a_plan_is_freed_after_its_last_clone_is_set_aside(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the engine runs on, nothing of a plan that ended stays but its branch and its record."""
    real_drop, real_remove = AttemptClones.drop, AttemptClones.remove_spare
    order: list[str] = []

    async def drop(self: AttemptClones, attempt: WorkspaceAttempt, *, keep: bool = False) -> None:
        await asyncio.sleep(0.2)  # a thread that begins late
        await real_drop(self, attempt, keep=keep)
        order.append("drop")

    async def remove_spare(self: AttemptClones) -> None:
        await real_remove(self)
        order.append("remove")

    monkeypatch.setattr(AttemptClones, "drop", drop)
    monkeypatch.setattr(AttemptClones, "remove_spare", remove_spare)
    check = {"id": "ok", "kind": "run", "run": "grep -q done t0.txt"}
    agents = {"t0": program(repo.parent, "t0", change("t0"))}
    compiled = plan(
        task("t0", "t0", workspace="repo", promise=promise(check)), agents=agents, workspace={"repo": str(repo)}
    )
    left = repo.parent / "root/workspaces/p"

    async def use(engine: Engine) -> None:
        await engine.submit(compiled)
        assert states(await engine.ended("p")) == {"t0": "COMPLETED"}
        await engine.until(lambda _: "remove" in order)
        assert order == ["drop", "remove"]
        assert [path for folder in ("attempts", "temporary") for path in (left / folder).glob("*")] == []

    play(repo.parent / "root", use, proving=True)
