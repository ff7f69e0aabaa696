"""A check's own files: taken from beside the plan file, and out of everybody's reach from then on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.mailbox.plan_file_folder import with_check_files
from agenttalk.contracts.errors import Code, InputError
from agenttalk.engine.plans import submission
from agenttalk.rules.planfile.compiler import CompiledPlan
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import FIXES, git, program, promise
from kits.standingkit import explain_json

SCRIPT = "#!/bin/sh\ngrep -q 'a + b' calc.py\n"
CHECK = {"id": "adds", "kind": "run", "run": "./checks/adds.sh", "files": ["checks/adds.sh"]}


def beside(repo: Path, script: str = SCRIPT) -> Path:
    """The folder of a plan file, with the script of its check."""
    folder = repo.parent / "plan"
    (folder / "checks").mkdir(parents=True, exist_ok=True)
    (folder / "checks" / "adds.sh").write_text(script)
    return folder


def checked(repo: Path, text: str, folder: Path, **keys: Any) -> CompiledPlan:
    said = {"promise": promise(CHECK), "workspace": "repo", "max_reexecute_times": 0, **keys}
    agents = {"dev": program(repo.parent, "dev", text)}
    return with_check_files(plan(task("fix", "dev", **said), agents=agents, workspace={"repo": str(repo)}), folder)


async def submitted(engine: Engine, compiled: CompiledPlan) -> None:
    await submission.store_check_files(engine.deps, "default", compiled.dag, compiled.files)
    await engine.submit(compiled)


def done(repo: Path, compiled: CompiledPlan) -> dict[str, Any]:
    async def use(engine: Engine) -> dict[str, Any]:
        await submitted(engine, compiled)
        await engine.ended()
        return await explain_json(engine.deps, "p", "fix")

    told: dict[str, Any] = play(repo.parent / "root", use, proving=True)
    return told


WRITES = (
    "pathlib.Path('checks').mkdir(exist_ok=True)\npathlib.Path('checks/adds.sh').write_text('#!/bin/sh\\nexit 0\\n')"
)
FOLDER = "pathlib.Path('checks/adds.sh').mkdir(parents=True)\npathlib.Path('checks/adds.sh/x').write_text('x')"
FILE = "pathlib.Path('checks').write_text('in the way')"


@pytest.mark.rest_but("True-script", "False-file", "True-nothing")
@pytest.mark.shows("E02", "E03")
@pytest.mark.parametrize("trick", ["", WRITES, FOLDER, FILE], ids=["nothing", "script", "folder", "file"])
@pytest.mark.parametrize("works", [True, False])
def test_an_agent_cannot_change_what_the_check_runs(repo: Path, trick: str, *, works: bool) -> None:
    told = done(repo, checked(repo, f"{FIXES if works else 'pass'}\n{trick}", beside(repo)))
    assert told["state"] == ("COMPLETED" if works else "FAILED")
    assert "checks/adds.sh" not in git(repo, "ls-tree", "-r", "--name-only", "agenttalk/p").split()


def test_a_script_that_the_repository_has_too_is_run_as_it_lies_beside_the_plan(repo: Path) -> None:
    (repo / "checks").mkdir()
    (repo / "checks" / "adds.sh").write_text("#!/bin/sh\nexit 0\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "a check that always passes")
    assert done(repo, checked(repo, "pass", beside(repo)))["state"] == "FAILED"
    assert git(repo, "show", "agenttalk/p:checks/adds.sh") == "#!/bin/sh\nexit 0"  # the tree itself is as it was


def test_what_lies_beside_the_plan_later_does_not_matter(repo: Path) -> None:
    folder = beside(repo)
    compiled = checked(repo, "pass", folder)
    beside(repo, "#!/bin/sh\nexit 0\n")
    assert done(repo, compiled)["state"] == "FAILED"


def test_a_changed_file_is_a_changed_task(repo: Path) -> None:
    first = checked(repo, "pass", beside(repo))
    again = checked(repo, "pass", beside(repo))
    other = checked(repo, "pass", beside(repo, SCRIPT + "# looser\n"))

    async def use(engine: Engine) -> list[list[str]]:
        await submitted(engine, first)
        assert states(await engine.ended()) == {"fix": "FAILED"}
        found = []
        for each in (again, other):
            await submission.store_check_files(engine.deps, "default", each.dag, each.files)
            told = await engine.dispatcher.operator.apply(each.dag, each.manifest, each.profiles, by="ada")
            found.append(told.changed)
        return found

    assert play(repo.parent / "root", use, proving=True) == [[], ["fix"]]


def test_a_file_that_is_missing_or_was_not_handed_over_is_said(repo: Path) -> None:
    folder = repo.parent / "elsewhere"
    folder.mkdir()
    [problem] = checked(repo, "pass", folder).problems
    assert (problem.code, problem.field) == (Code.FILE_UNREADABLE, "tasks[0].promise.checks[0].files[0]")
    compiled = checked(repo, "pass", beside(repo))

    async def use(engine: Engine) -> None:
        with pytest.raises(InputError, match="was not handed over") as caught:
            await submission.store_check_files(engine.deps, "default", compiled.dag, {})
        assert caught.value.code is Code.BLOB_MISSING

    play(repo.parent / "root", use, proving=True)


def test_a_check_whose_files_nobody_brought_does_not_pass(repo: Path) -> None:
    said = {"promise": promise(CHECK), "workspace": "repo", "max_reexecute_times": 0}
    agents = {"dev": program(repo.parent, "dev", f"{FIXES}\n{WRITES}")}
    told = done(repo, plan(task("fix", "dev", **said), agents=agents, workspace={"repo": str(repo)}))
    assert told["state"] == "FAILED"
    assert told["attempts"][-1]["checks"][0]["reason"] == "check_file"
