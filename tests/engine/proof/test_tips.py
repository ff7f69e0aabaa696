"""The tip of a plan's branch: a row that moves in the transaction that says done, and a branch that follows it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.adapters.store import queries
from agenttalk.adapters.store.root import list_databases
from agenttalk.adapters.workspaces.objects import GitRefs
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import Code, MachineError
from agenttalk.contracts.plan import Workspace
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.operation import fsck
from agenttalk.engine.proof.plan_tips import StoredTips
from agenttalk.engine.runs.steps import StepWriter
from agenttalk.engine.views import ledger
from agenttalk.ports.statements.proof import TIP, TIP_PACKS
from agenttalk.rules.proof.performance import TipMove
from agenttalk.rules.proof.rework import WorkAcceptance
from agenttalk.wiring.root import open_root
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import git, program, promise, repository, run
from kits.standingkit import PlanStanding

BRANCH = "refs/heads/agenttalk/p"
JOINED = "Join agenttalk/p with commits that no task made"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "repo", {"t0.txt": "todo\n", "t1.txt": "todo\n"})


def compiled(repo: Path, needs: dict[str, list[str]]) -> Any:
    """Tasks, each with what it needs. Each changes a file, and notes its turns beside the repository."""
    agents, tasks = {}, []
    for name, needed in needs.items():
        note = f"pathlib.Path(r'{repo.parent}', 'turns-{name}').open('a').write('turn\\n')"
        agents[name] = program(repo.parent, name, f"{note}\npathlib.Path('{name}.txt').write_text('done\\n')")
        check = {"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"}
        tasks.append(task(name, name, workspace="repo", promise=promise(check), needs=needed))
    return plan(*tasks, agents=agents, workspace={"repo": str(repo)})


def turns(repo: Path, name: str = "t0") -> int:
    return len((repo.parent / f"turns-{name}").read_text().splitlines())


def by_hand(repo: Path, files: dict[str, str]) -> str:
    """A person commits on top of the plan's branch, wherever it is."""
    tip = git(repo, "rev-parse", BRANCH)
    environ = {**os.environ, "GIT_INDEX_FILE": str(repo.parent / "person-index")}

    def call(*args: str, text: str = "") -> str:
        command = ["git", "-c", "user.name=ada", "-c", "user.email=ada@example.org", *args]
        done = subprocess.run(command, cwd=repo, env=environ, input=text, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    call("read-tree", tip)
    for path, content in files.items():
        blob = call("hash-object", "-w", "--stdin", text=content)
        call("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    commit = call("commit-tree", "-p", tip, "-m", "by hand", call("write-tree"))
    call("update-ref", BRANCH, commit, tip)
    return commit


def line(repo: Path) -> list[str]:
    """The commits of the branch since it began, by their first parents: the task of each, or its subject."""
    wanted = "--format=%s|%(trailers:key=AgentTalk-Task,valueonly,separator=%x20)"
    lines = git(repo, "log", "--first-parent", "--reverse", wanted, f"main..{BRANCH}").splitlines()
    return [text.rpartition("|")[2] or text.rpartition("|")[0] for text in lines]


@pytest.mark.rest_but("git")
@pytest.mark.parametrize("kind", ["git", "folder", "uncommitted"])
def test_another_engine_makes_the_branch_again_from_what_the_store_has(tmp_path: Path, kind: str) -> None:
    """The repository has lost what landed, and the folder of the plan is gone, when the next engine starts."""
    files = {"t0.txt": "todo\n", "t1.txt": "todo\n"}
    repo, go = tmp_path / "repo", tmp_path / "go"
    if kind == "folder":
        repo.mkdir()
        for name, text in files.items():
            (repo / name).write_text(text)
    else:
        repository(repo, files)
        shutil.copytree(repo / ".git", tmp_path / "saved")
    if kind == "uncommitted":
        (repo / "new.txt").write_text("not committed\n")
    waits = f"import time\nwhile not pathlib.Path(r'{go}').exists(): time.sleep(0.01)\n"
    done = "pathlib.Path('{0}.txt').write_text('done\\n')"
    agents = {
        "t0": program(tmp_path, "t0", done.format("t0")),
        "t1": program(tmp_path, "t1", waits + done.format("t1")),
    }
    tasks = [
        task(name, name, workspace="repo", promise=promise({"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"}),
             needs=needed)
        for name, needed in (("t0", []), ("t1", ["t0"]))
    ]  # fmt: skip
    workspace = {"repo": str(repo), **({"uncommitted": "take"} if kind == "uncommitted" else {})}

    async def first(engine: Engine) -> str:
        await engine.submit(plan(*tasks, agents=agents, workspace=workspace))
        await engine.until(lambda found: found.tasks[1]["phase"] == "executing")
        return await tip_of(engine)

    async def second(engine: Engine) -> PlanStanding:
        return await engine.ended("p")

    landed = play(tmp_path / "root", first, proving=True)
    shutil.rmtree(tmp_path / "root" / "workspaces")
    if kind != "folder":
        shutil.rmtree(repo / ".git")
        shutil.copytree(tmp_path / "saved", repo / ".git")
        assert subprocess.run(["git", "cat-file", "-e", landed], cwd=repo, capture_output=True, check=False).returncode
    go.touch()
    found = play(tmp_path / "root", second, proving=True)
    assert (found.result, states(found)) == ("done", {"t0": "COMPLETED", "t1": "COMPLETED"})
    assert ["of tip p " in what for what in lose_pack(tmp_path / "root")] == [True]
    if kind == "folder":
        return
    assert line(repo)[-2:] == ["t0", "t1"]
    assert git(repo, "rev-parse", f"{BRANCH}~1") == landed
    assert git(repo, "fsck", "--strict", "--no-dangling") == ""
    shown = ["not committed"] if kind == "uncommitted" else []
    assert [git(repo, "show", f"{BRANCH}:{name}") for name in ("t0.txt", *["new.txt"] * len(shown))] == ["done", *shown]


def lose_pack(root: Path) -> list[str]:
    """What the check of a whole root finds once the pack of a move is gone."""

    async def check() -> tuple[str, list[str]]:
        async with open_root(root) as deps:
            board = await deps.stores.board("default")
            [row, *_] = [row for row in await board.read(TIP_PACKS, plan_id="p") if row.onto]
            return row.pack, [fault["what"] for fault in await fsck.check_root(deps)]

    pack, faults = asyncio.run(check())
    assert faults == []
    connection = apsw.Connection(str(list_databases(root)["default"]))
    connection.execute("DELETE FROM blobs WHERE hash = ?", (pack,))
    connection.close()
    return asyncio.run(check())[1]


async def tip_of(engine: Engine) -> str:
    return (await (await board_of(engine.deps, "p")).read(TIP, plan_id="p"))[0].commit_id


async def kinds(engine: Engine) -> list[str]:
    return [fact["kind"] for fact in (await ledger.list_facts(engine.deps, "p"))["facts"]]


async def to_its_end(engine: Engine) -> tuple[PlanStanding, str, list[str]]:
    """How a plan ended, the tip of its branch, and the kinds of its facts."""
    return await engine.ended("p"), await tip_of(engine), await kinds(engine)


def played(repo: Path, needs: dict[str, list[str]]) -> tuple[PlanStanding, str, list[str]]:
    async def use(engine: Engine) -> tuple[PlanStanding, str, list[str]]:
        await engine.submit(compiled(repo, needs))
        return await to_its_end(engine)

    found: tuple[PlanStanding, str, list[str]] = play(repo.parent / "root", use, proving=True)
    return found


def test_the_tip_in_the_store_is_where_the_branch_is(repo: Path) -> None:
    found, tip, facts = played(repo, {"t0": [], "t1": []})
    assert set(states(found).values()) == {"COMPLETED"}
    assert git(repo, "rev-parse", BRANCH) == tip
    assert "tip.taken" not in facts
    assert sorted(line(repo)) == ["t0", "t1"]


def before_landing(monkeypatch: pytest.MonkeyPatch, repo: Path) -> None:
    """Once, between the last look at the branch and the transaction, a person's commit becomes the tip."""
    real = StepWriter._land
    done: list[str] = []

    async def land(self: StepWriter, board: Any, granted: Any, *rest: Any) -> bool:
        if not done:
            done.append(by_hand(repo, {"by-hand.txt": "x\n"}))
            assert self._state.prover is not None
            assert await self._state.prover.settle("p", granted.job.repo) == done[0]
        return await real(self, board, granted, *rest)

    monkeypatch.setattr(StepWriter, "_land", land)


def test_a_tip_that_moves_just_before_a_landing_has_the_work_built_again(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_landing(monkeypatch, repo)
    found, tip, facts = played(repo, {"t0": []})
    assert states(found) == {"t0": "COMPLETED"}
    assert (line(repo), turns(repo)) == (["by hand", "t0"], 1)
    assert (git(repo, "rev-parse", BRANCH), facts.count("tip.taken")) == (tip, 1)


def test_a_landing_that_does_not_compare_the_tip_is_found(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same without the compare: the work lands beside the commit of the person, where nothing was checked."""
    for statements in (queries.load_statements("sqlite"), queries.load_silent_statements("sqlite")):
        blind = statements["move_tip"].replace(" AND commit_id = :expected", " AND :expected <> ''")
        assert blind != statements["move_tip"]
        monkeypatch.setitem(statements, "move_tip", blind)
    before_landing(monkeypatch, repo)
    run(repo.parent, compiled(repo, {"t0": []}))
    assert line(repo) == ["t0", JOINED]


def beside_landing(monkeypatch: pytest.MonkeyPatch, repo: Path, files: dict[str, str]) -> None:
    """Once, between the transaction and the move of the branch, a person commits on the branch."""
    real = GitRefs.move
    done: list[str] = []

    def move(self: GitRefs, ref: str, new: str, old: str | None, **how: str) -> bool:
        if ref == BRANCH and old is not None and not done:
            done.append(by_hand(repo, files))
        return real(self, ref, new, old, **how)

    monkeypatch.setattr(GitRefs, "move", move)


def test_a_commit_between_a_landing_and_the_move_of_the_branch_is_kept(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside_landing(monkeypatch, repo, {"by-hand.txt": "x\n"})
    found, tip, facts = played(repo, {"t0": []})
    assert [(each["state"], each["freshness"]) for each in found.tasks] == [("COMPLETED", "fresh")]
    assert (line(repo), turns(repo)) == (["t0", JOINED], 1)
    assert git(repo, "show", f"{BRANCH}:by-hand.txt") == "x"
    assert git(repo, "show", f"{BRANCH}:t0.txt") == "done"
    assert git(repo, "rev-parse", BRANCH) == tip
    assert [kind for kind in facts if kind.startswith(("tip", "evidence"))] == [
        "tip.taken",
        "evidence.stale",
        "evidence.verified",
    ]


def test_a_commit_at_the_same_moment_that_breaks_the_work_sends_it_back(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's version of the file is kept, so the check fails, and the owner of the check mends it on top."""
    beside_landing(monkeypatch, repo, {"t0.txt": "by hand\n"})
    found, tip, _ = played(repo, {"t0": []})
    assert states(found) == {"t0": "COMPLETED"}
    assert (line(repo), turns(repo)) == (["t0", JOINED, "t0"], 2)
    assert (git(repo, "show", f"{BRANCH}:t0.txt"), git(repo, "rev-parse", BRANCH)) == ("done", tip)


@pytest.mark.parametrize("how", ["rebased", "set back"])
def test_a_branch_that_a_person_rewrites_is_built_upon_as_it_is(repo: Path, how: str) -> None:
    """Nothing that the person did is overwritten, and what was proven is checked again where the branch is now."""
    go = repo.parent / "go"
    waits = f"import time\nwhile not pathlib.Path(r'{go}').exists():\n    time.sleep(0.01)\n"
    agents, tasks = {}, []
    for name, first in (("t0", ""), ("t1", waits)):
        note = f"pathlib.Path(r'{repo.parent}', 'turns-{name}').open('a').write('turn\\n')\n"
        agents[name] = program(repo.parent, name, f"{first}{note}pathlib.Path('{name}.txt').write_text('done')")
        check = {"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"}
        tasks.append(task(name, name, workspace="repo", promise=promise(check)))

    async def use(engine: Engine) -> tuple[PlanStanding, str, list[str]]:
        await engine.submit(plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
        await engine.until(lambda found: states(found)["t0"] == "COMPLETED" and line(repo) == ["t0"])
        new = git(repo, "rev-parse", "main")
        if how == "rebased":
            new = git(repo, "commit-tree", "-p", new, "-m", "by hand", f"{BRANCH}^{{tree}}")
        git(repo, "update-ref", BRANCH, new)
        go.touch()
        return await to_its_end(engine)

    found, tip, facts = play(repo.parent / "root", use, proving=True)
    assert states(found) == {"t0": "COMPLETED", "t1": "COMPLETED"}
    assert line(repo) == (["by hand", "t1"] if how == "rebased" else ["t1", "t0"])
    assert (turns(repo, "t0"), turns(repo, "t1")) == (1 if how == "rebased" else 2, 1)
    assert [git(repo, "show", f"{BRANCH}:{name}.txt") for name in ("t0", "t1")] == ["done", "done"]
    assert (git(repo, "rev-parse", BRANCH), facts.count("tip.taken")) == (tip, 1)


def test_a_commit_is_not_taken_in_for_a_tip_that_is_another_by_then(repo: Path) -> None:
    """Who found it read the tip before; a task has landed meanwhile, and its work must not be lost."""

    async def use(engine: Engine) -> None:
        await engine.submit(compiled(repo, {"t0": []}))
        _, tip, facts = await to_its_end(engine)
        base = git(repo, "rev-parse", "main")
        mine = git(repo, "commit-tree", "-p", base, "-m", "by hand", f"{base}^{{tree}}")
        await StoredTips(engine.deps).take_tip("p", TipMove(base, mine))
        assert (await tip_of(engine), await kinds(engine)) == (tip, facts)

    play(repo.parent / "root", use, proving=True)


def test_what_is_done_stays_done_when_the_branch_cannot_be_moved_at_once(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = GitRefs.move
    failed: list[str] = []

    def move(self: GitRefs, ref: str, new: str, old: str | None, **how: str) -> bool:
        if ref == BRANCH and old is not None and not failed:
            failed.append(ref)
            raise MachineError(Code.FILE_UNWRITABLE, "the disk is full")
        return real(self, ref, new, old, **how)

    monkeypatch.setattr(GitRefs, "move", move)
    found, tip, _ = played(repo, {"t0": []})
    assert (states(found), turns(repo), line(repo), failed) == ({"t0": "COMPLETED"}, 1, ["t0"], [BRANCH])
    assert git(repo, "rev-parse", BRANCH) == tip


def test_git_deletes_nothing_that_the_store_calls_the_tip(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No branch has the commit yet when a person has git delete what no ref names."""
    real = GitRefs.move
    done: list[str] = []

    def move(self: GitRefs, ref: str, new: str, old: str | None, **how: str) -> bool:
        if ref == BRANCH and old is not None and not done:
            done.append(git(repo, "gc", "-q", "--prune=now"))
        return real(self, ref, new, old, **how)

    monkeypatch.setattr(GitRefs, "move", move)
    found, tip, _ = played(repo, {"t0": []})
    assert (states(found), turns(repo), line(repo), len(done)) == ({"t0": "COMPLETED"}, 1, ["t0"], 1)
    assert git(repo, "rev-parse", BRANCH) == tip


def test_work_that_a_person_accepts_lands_on_a_tip_that_moved_meanwhile(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is merged and completed at once; a commit of another person in that moment is built upon."""
    check = {"id": "fails", "kind": "run", "run": "false"}
    text = (
        f"pathlib.Path(r'{repo.parent}', 'turns-t0').open('a').write('turn\\n')\npathlib.Path('t0.txt').write_text('x')"
    )
    fix = task("t0", "t0", workspace="repo", promise=promise(check), max_reexecute_times=0)
    done: list[str] = []

    async def use(engine: Engine) -> tuple[PlanStanding, str, list[str]]:
        agents = {"t0": program(repo.parent, "t0", text)}
        await engine.submit(plan(fix, agents=agents, workspace={"repo": str(repo)}))
        assert states(await engine.ended("p")) == {"t0": "FAILED"}
        assert (repo.parent / "root/workspaces/p/attempts/t0/tree/t0.txt").exists()  # for a person to look at
        assert line(repo) == []
        prover, space = engine.dispatcher._state.prover, Workspace.from_values(repo=str(repo))
        assert prover is not None
        real = PlanWorkspace.make_candidate

        async def make(self: PlanWorkspace, *args: Any, **keys: Any) -> Any:
            made = await real(self, *args, **keys)
            if not done:
                done.append(by_hand(repo, {"by-hand.txt": "x"}))
                assert await prover.settle("p", space) == done[0]
            return made

        monkeypatch.setattr(PlanWorkspace, "make_candidate", make)
        await engine.dispatcher.operator.rework("p", "t0", WorkAcceptance(), by="ada")
        await engine.until(lambda found: found.state == "ENDED")
        return await to_its_end(engine)

    found, tip, facts = play(repo.parent / "root", use, proving=True)
    assert (states(found), turns(repo), line(repo)) == ({"t0": "COMPLETED"}, 1, ["by hand", "t0"])
    assert list((repo.parent / "root/workspaces/p/attempts").iterdir()) == []
    assert (git(repo, "rev-parse", BRANCH), facts.count("tip.taken")) == (tip, 1)


def test_work_lands_while_a_person_looks_at_the_branch_which_follows_later(repo: Path) -> None:
    """Moving a branch that is checked out would make the person's files look changed."""
    go = repo.parent / "go"
    wait = f"import time\nwhile not pathlib.Path(r'{go}').exists():\n    time.sleep(0.01)\n"
    agents, tasks = {}, []
    for name, first, needs in (("t0", "", []), ("t1", wait, ["t0"])):
        agents[name] = program(repo.parent, name, f"{first}pathlib.Path('{name}.txt').write_text('done')")
        check = {"id": "ok", "kind": "run", "run": f"grep -q done {name}.txt"}
        tasks.append(task(name, name, workspace="repo", promise=promise(check), needs=needs))

    async def look(engine: Engine) -> None:
        await engine.submit(plan(*tasks, agents=agents, workspace={"repo": str(repo)}))
        await engine.until(lambda found: states(found)["t0"] == "COMPLETED" and line(repo) == ["t0"])
        git(repo, "switch", "-q", "agenttalk/p")
        go.touch()
        found, tip, facts = await to_its_end(engine)
        assert states(found) == {"t0": "COMPLETED", "t1": "COMPLETED"}
        assert (line(repo), git(repo, "status", "--porcelain")) == (["t0"], "")
        git(repo, "switch", "-q", "main")
        await engine.dispatcher.branches.record_stale_tasks("p")
        assert (git(repo, "rev-parse", BRANCH), line(repo)) == (tip, ["t0", "t1"])
        assert "tip.taken" not in facts

    play(repo.parent / "root", look, proving=True)


CHILD = """
import os, signal, sys
from pathlib import Path
from agenttalk.adapters.workspaces.objects import GitRefs
from engine.proof.test_tips import BRANCH, compiled
from kits.plankit import play

where, repo, url = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
real = GitRefs.move

def move(self, ref, new, old, **how):
    lands = ref == BRANCH and old is not None
    if lands and where == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    moved = real(self, ref, new, old, **how)
    if lands:
        os.kill(os.getpid(), signal.SIGKILL)
    return moved

GitRefs.move = move

async def use(engine):
    await engine.submit(compiled(repo, {"t0": [], "t1": ["t0"]}))
    await engine.ended("p")

play(repo.parent / "root", use, proving=True, url=url)
"""


@pytest.mark.rest_but("sqlite-before")
@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_another_engine_goes_on_where_one_was_killed_between_tip_and_branch(
    repo: Path, store: str, where: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("database") if store == "postgres" else ""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-c", CHILD, where, str(repo), url]
    killed = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert line(repo) == ([] if where == "before" else ["t0"])

    async def start(engine: Engine) -> str:
        found = await engine.until(lambda _: line(repo) == ["t0"])  # the start brings the branch to the tip
        assert states(found)["t0"] == "COMPLETED"
        return await tip_of(engine)

    root = repo.parent / "root"
    tip = play(root, start, proving=True, url=url, max_running=0)
    assert git(repo, "rev-parse", BRANCH) == tip
    found, tip, facts = play(root, to_its_end, proving=True, url=url)
    assert states(found) == {"t0": "COMPLETED", "t1": "COMPLETED"}
    assert git(repo, "rev-parse", BRANCH) == tip
    assert (line(repo), turns(repo, "t0"), turns(repo, "t1")) == (["t0", "t1"], 1, 1)
    assert "tip.taken" not in facts
