"""A plan that looks again at what it proved before it ends: one task breaks what another proved, and mends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agenttalk.adapters.drivers.python_calls import Turn
from agenttalk.adapters.store.root import list_databases
from agenttalk.engine.plans import submission
from crash.life import Life, Scenario, Step
from crash.scenes.running import P, ended, everybody, kept, until
from crash.snapshot import opened
from kits.plankit import plan, task
from kits.provekit import git
from kits.treekit import Tree

CODE = "code"
"""The folder that the plan works on, under the root."""


def _file(check_id: str, path: str, text: str, **keys: Any) -> dict[str, Any]:
    check = {"id": check_id, "kind": "file", "path": path, "contains": text, **keys}
    criterion = {"id": check_id, "description": check_id, "evidenceRequired": [check_id]}
    return {"objective": "It is there", "acceptance": [criterion], "checks": [check]}


async def _submit(life: Life) -> None:
    """Hand the plan over. Whoever died meanwhile hands it over again."""
    compiled = plan(
        task("one", workspace="repo", promise=_file("sums", "sum.txt", "good")),
        task("two", "b", workspace="repo", needs=["one"], promise=_file("noted", "note.txt", "x", covers=["note.txt"])),
        workspace={"repo": str(life.tree.root / CODE)},
    )
    await submission.submit(life.deps, compiled.dag, compiled.manifest, compiled.profiles)
    life.say(f"plan.submitted {P}")


def _prepare(tree: Tree) -> None:
    (tree.root / CODE).mkdir()
    (tree.root / CODE / "sum.txt").write_text("nothing\n")


async def _work(life: Life, turn: Turn) -> str:
    """The second one breaks what the first one proved, unless it is told that it did."""
    clone = life.tree.root / "workspaces" / P / "attempts" / turn.task_id / "tree"
    _write(clone / "sum.txt", "good\n" if turn.task_id == "one" or turn.command.reexecute else "bad\n")
    if turn.task_id == "two":
        _write(clone / "note.txt", "x\n")
    return "all done"


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


def _landed(root: Path, said: list[str]) -> list[str]:
    """The tip has all work that is done, and nothing else. The branch is never ahead of it, and there in the end."""
    faults = kept(root, said)
    connection = opened(list_databases(root)["default"])
    try:
        tips = [row[0] for row in connection.execute("SELECT commit_id FROM tips WHERE plan_id = ?", (P,))]
        seen = {row[0] for row in connection.execute("SELECT commit_id FROM evidence WHERE plan_id = ?", (P,))}
        has_ended = ("ENDED",) in connection.execute("SELECT state FROM runs WHERE plan_id = ?", (P,)).fetchall()
    finally:
        connection.close()
    if not tips:
        return faults
    repo = root / "workspaces" / P / "kept.git"
    head = git(repo, "rev-parse", f"refs/heads/agenttalk/{P}")
    log = git(
        repo, "log", "--first-parent", "--format=%H %(trailers:key=AgentTalk-Task,valueonly,separator=%x20)", *tips
    )
    commits = dict(line.partition(" ")[::2] for line in log.splitlines())
    faults += ["the branch is not where the tip was, or is"] if head not in commits else []
    faults += ["the branch did not follow the tip"] if has_ended and head not in tips else []
    faults += ["work that is done is not part of the tip"] if seen - commits.keys() else []
    return faults + [
        "a commit is on the branch that no task made" for task_id in [*commits.values()][:-1] if not task_id
    ]


LIVING = Scenario("living", _prepare, (Step(_submit), until(ended)), functions=everybody(_work), witness=_landed)
"""The second task breaks what the first one proved; that is found before the plan ends, and the second one mends it."""


async def _submit_train(life: Life) -> None:
    """Hand over a plan whose tasks are ready to merge at the same time."""
    compiled = plan(
        task("one", workspace="repo", promise=_file("first", "one.txt", "x")),
        task("two", "b", workspace="repo", promise=_file("second", "two.txt", "x")),
        workspace={"repo": str(life.tree.root / CODE)},
    )
    await submission.submit(life.deps, compiled.dag, compiled.manifest, compiled.profiles)
    life.say(f"plan.submitted {P}")


async def _write_own(life: Life, turn: Turn) -> str:
    """Each task writes a file of its own."""
    _write(life.tree.root / "workspaces" / P / "attempts" / turn.task_id / "tree" / f"{turn.task_id}.txt", "x\n")
    return "all done"


TRAIN = Scenario(
    "train", _prepare, (Step(_submit_train), until(ended)), functions=everybody(_write_own), witness=_landed
)
"""Two tasks are ready to merge at the same time. A death at any step loses no work, and no agent runs for a lost race."""
SCENARIOS = (LIVING, TRAIN)
