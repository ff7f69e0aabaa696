"""What work may touch: what checks consist of is held, leaving the scope is told first, nothing is dropped silently."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.errors import Problem
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import FIXES, PYTEST_ALONE, RUNS, SUITE, git, program, promise, repository
from kits.standingkit import explain_json

BENDS = "pathlib.Path('test_calc.py').write_text('import unittest\\n')"
SUITE_CHECK = {"id": "tests-pass", "kind": "run", "run": RUNS}

SKIPS = """import subprocess
for each in (['add', '-f', 'notes.md'], ['update-index', '--skip-worktree', 'notes.md']):
    subprocess.run(['git', *each], check=True)
"""


def told_of(repo: Path, made: Any, *names: str) -> list[dict[str, Any]]:
    """Run a plan to its end; what is told of some of its tasks."""

    async def use(engine: Engine) -> list[dict[str, Any]]:
        await engine.submit(made)
        await engine.ended()
        return [await explain_json(engine.deps, "p", name) for name in names or ("fix",)]

    found: list[dict[str, Any]] = play(repo.parent / "root", use, proving=True)
    return found


def fixing(repo: Path, text: str, *checks: dict[str, Any], **keys: Any) -> Any:
    said = {"promise": promise(*(checks or (SUITE_CHECK,)), **keys.pop("promise", {})), "workspace": "repo", **keys}
    agents = {"dev": program(repo.parent, "dev", text)}
    return plan(task("fix", "dev", **said), agents=agents, workspace={"repo": str(repo)})


@pytest.mark.mends("A3")
def test_a_check_protects_the_tests_that_it_runs_although_the_plan_names_none(repo: Path) -> None:
    [told] = told_of(repo, fixing(repo, BENDS, max_reexecute_times=0))
    assert told["state"] == "FAILED"
    assert git(repo, "show", "agenttalk/p:test_calc.py") == SUITE.strip()
    assert "test_calc.py" in told["attempts"][0]["remarks"][0]


@pytest.mark.mends("A3")
def test_a_plan_that_says_so_leaves_its_tests_open(repo: Path) -> None:
    open_check = SUITE_CHECK | {"protected": [], "red_first": "off"}
    empty = "import unittest\n\nclass Empty(unittest.TestCase):\n    def test_nothing(self):\n        pass\n"
    bends = f"pathlib.Path('test_calc.py').write_text({empty!r})"
    [told] = told_of(repo, fixing(repo, f"{bends}\n{FIXES}", open_check))
    assert told["state"] == "COMPLETED"
    assert git(repo, "show", "agenttalk/p:test_calc.py") == empty.strip()


@pytest.mark.mends("A3")
def test_a_task_whose_scope_names_tests_may_write_them_and_its_verdict_says_so(repo: Path) -> None:
    more = SUITE + "\n    def test_more(self):\n        self.assertEqual(add(2, 2), 4)\n"
    text = f"{FIXES}\npathlib.Path('test_calc.py').write_text({more!r})"
    [told] = told_of(repo, fixing(repo, text, promise={"allowedScope": ["calc.py", "test_calc.py"]}))
    assert told["state"] == "COMPLETED"
    assert git(repo, "show", "agenttalk/p:test_calc.py") == more.strip()
    assert "test_calc.py (fix)" in told["verdict"]["remarks"][0]


@pytest.mark.mends("A3")
def test_a_new_test_beside_old_ones_is_taken(repo: Path) -> None:
    text = f"{FIXES}\npathlib.Path('test_more.py').write_text('import unittest\\n')"
    [told] = told_of(repo, fixing(repo, text))
    assert (told["state"], "remarks" in told["verdict"]) == ("COMPLETED", False)
    assert git(repo, "show", "agenttalk/p:test_more.py") == "import unittest"


@pytest.mark.mends("A7")
def test_leaving_the_scope_comes_back_with_the_paths_named_and_then_counts_as_done(repo: Path) -> None:
    text = f"{FIXES}\nif attempt == 1:\n    pathlib.Path('notes.md').write_text('x')"
    [told] = told_of(repo, fixing(repo, text, promise={"allowedScope": ["calc.py"]}))
    assert told["state"] == "COMPLETED"
    assert told["rounds"] == 1
    assert "notes.md" in told["history"][0]["issues"][0]["description"]
    assert "notes.md" not in git(repo, "ls-tree", "-r", "--name-only", "agenttalk/p").split()


@pytest.mark.mends("A7")
def test_leaving_the_scope_again_ends_the_task(repo: Path) -> None:
    text = f"{FIXES}\npathlib.Path(f'notes{{attempt}}.md').write_text('x')"
    [told] = told_of(repo, fixing(repo, text, promise={"allowedScope": ["calc.py"]}))
    assert (told["state"], told["cause"]) == ("FAILED", "ABORTED")
    assert "notes2.md" in told["reason"]
    assert len(told["attempts"]) == 2


@pytest.mark.mends("A7")
@pytest.mark.parametrize(
    "veil",
    [
        "pathlib.Path('.git/info').mkdir(exist_ok=True); pathlib.Path('.git/info/exclude').write_text('notes.md')",
        SKIPS,
    ],
)
def test_a_breach_that_was_to_stay_unseen_ends_the_task_at_once(repo: Path, veil: str) -> None:
    text = f"{FIXES}\npathlib.Path('notes.md').write_text('x')\n{veil}"
    [told] = told_of(repo, fixing(repo, text, promise={"allowedScope": ["calc.py"]}))
    assert (told["cause"], len(told["attempts"])) == ("ABORTED", 1)


@pytest.mark.mends("A7")
def test_an_agent_is_told_its_scope_its_checks_and_what_is_protected(repo: Path) -> None:
    text = f"{FIXES}\npathlib.Path(r'{repo.parent}/prompt').write_text(__import__('sys').stdin.read())"
    check = SUITE_CHECK | {"protected": ["docs/**"]}
    keys = {"allowedScope": ["calc.py", "src/**"], "disallowedScope": ["src/secret.py"]}
    told_of(repo, fixing(repo, text, check, promise=keys))
    prompt = (repo.parent / "prompt").read_text()
    for part in ("calc.py", "src/**", "src/secret.py", RUNS, "docs/**", "tests-pass"):
        assert part in prompt, part


@pytest.mark.rest
@pytest.mark.mends("A10")
def test_the_same_refusal_again_ends_the_rounds_early(repo: Path) -> None:
    [told] = told_of(repo, fixing(repo, "pass"))
    assert (told["state"], len(told["attempts"])) == ("FAILED", 2)
    assert "came back unchanged" in told["reason"]


@pytest.mark.rest
@pytest.mark.mends("A10")
def test_work_that_gets_better_may_use_all_rounds(repo: Path) -> None:
    names = ["one", "two", "three", "four"]
    checks = [{"id": name, "kind": "file", "path": name} for name in names]
    text = f"pathlib.Path({names!r}[attempt - 1]).write_text('x')"
    [told] = told_of(repo, fixing(repo, text, *checks))
    assert (told["state"], len(told["attempts"])) == ("COMPLETED", 4)


@pytest.mark.rest_but("True")
@pytest.mark.mends("F4")
@pytest.mark.parametrize("together", [False, True])
def test_no_task_bends_what_another_one_protects(repo: Path, *, together: bool) -> None:
    other = promise({"id": "noted", "kind": "file", "path": "notes.md"})
    tasks = [
        task("bend", "eve", workspace="repo", promise=other),
        task("fix", "dev", workspace="repo", promise=promise(SUITE_CHECK), needs=[] if together else ["bend"]),
    ]
    agents = {
        "eve": program(repo.parent, "eve", f"pathlib.Path('notes.md').write_text('x')\n{BENDS}"),
        "dev": program(repo.parent, "dev", "pass"),
    }
    bend, fix = told_of(repo, plan(*tasks, agents=agents, workspace={"repo": str(repo)}), "bend", "fix")
    assert (bend["state"], fix["state"]) == ("COMPLETED", "FAILED")
    assert git(repo, "show", "agenttalk/p:test_calc.py") == SUITE.strip()
    assert "test_calc.py" in bend["verdict"]["remarks"][0]


@pytest.mark.rest
@pytest.mark.mends("F4")
def test_a_verdict_tells_what_it_rests_on_that_an_earlier_task_wrote(repo: Path) -> None:
    more = SUITE + "\n    def test_more(self):\n        self.assertEqual(add(2, 2), 4)\n"
    written = promise({"id": "w", "kind": "file", "path": "test_calc.py"}, allowedScope=["test_calc.py"])
    tasks = [
        task("write", "tess", workspace="repo", promise=written),
        task("fix", "dev", workspace="repo", promise=promise(SUITE_CHECK), needs=["write"]),
    ]
    agents = {
        "tess": program(repo.parent, "tess", f"pathlib.Path('test_calc.py').write_text({more!r})"),
        "dev": program(repo.parent, "dev", f"{FIXES}\n{BENDS}"),
    }
    _, fix = told_of(repo, plan(*tasks, agents=agents, workspace={"repo": str(repo)}), "write", "fix")
    assert fix["state"] == "COMPLETED"
    assert git(repo, "show", "agenttalk/p:test_calc.py") == more.strip()
    assert any("test_calc.py (write)" in each for each in fix["verdict"]["remarks"])


@pytest.mark.rest
@pytest.mark.mends("F9")
@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("unittest2.DIST-INFO/entry_points.txt", "[pytest11]\\nx = helper\\n"),
        ("random.py", "import os; os._exit(0)"),
        ("__init__.py", ""),
    ],
)
def test_files_that_would_stand_in_for_the_runner_are_not_taken(repo: Path, path: str, content: str) -> None:
    text = f"here = pathlib.Path({path!r})\nhere.parent.mkdir(exist_ok=True)\nhere.write_text({content!r})\n{FIXES}"
    [told] = told_of(repo, fixing(repo, text, max_reexecute_times=0))
    files = git(repo, "ls-tree", "-r", "--name-only", "agenttalk/p").split()
    assert path not in files
    shown = json.dumps([told["reason"], told["attempts"][0].get("remarks")])
    assert path in shown


@pytest.mark.rest
@pytest.mark.mends("F9")
@pytest.mark.parametrize(("key", "state"), [("scripts", "FAILED"), ("dependencies", "COMPLETED")])
def test_the_scripts_of_a_package_are_held_and_its_dependencies_are_not(tmp_path: Path, key: str, state: str) -> None:
    (tmp_path / "repo").mkdir()
    package = json.dumps({"name": "shop", "scripts": {"test": "jest"}})
    repo = repository(tmp_path / "repo", {"package.json": package, "check.sh": "test -f done.txt\n"})
    text = (
        "import json\npathlib.Path('done.txt').write_text('x')\npath = pathlib.Path('package.json')\n"
        f"told = json.loads(path.read_text())\ntold[{key!r}] = {{'test': 'true'}}\npath.write_text(json.dumps(told))"
    )
    [told] = told_of(repo, fixing(repo, text, {"id": "c", "kind": "run", "run": "sh check.sh"}, max_reexecute_times=0))
    assert told["state"] == state, told["reason"]
    assert state == "COMPLETED" or "package.json" in told["reason"]


@pytest.mark.rest
@pytest.mark.mends("F11")
def test_work_that_does_not_count_is_told_in_the_next_prompt_and_in_the_verdict(repo: Path) -> None:
    (repo / ".gitignore").write_text("local.txt\n")
    (repo / "setup.cfg").write_text("[metadata]\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "more")
    text = f"""
import subprocess, sys
pathlib.Path(r'{repo.parent}', f'prompt{{attempt}}').write_text(sys.stdin.read())
pathlib.Path('setup.cfg').write_text('[metadata]\\nname = x\\n')
pathlib.Path('local.txt').write_text('x')
subprocess.run(['git', 'add', '-f', 'local.txt'], check=True)
if attempt == 2:
    {FIXES}
"""
    [told] = told_of(repo, fixing(repo, text))
    assert told["state"] == "COMPLETED"
    prompt = (repo.parent / "prompt2").read_text()
    assert "setup.cfg" in prompt
    assert "local.txt" in prompt
    shown = "; ".join(told["verdict"]["remarks"])
    assert "setup.cfg" in shown
    assert "local.txt" in shown


@pytest.mark.mends("F14")
def test_a_name_that_is_not_utf8_is_refused_and_the_engine_goes_on(repo: Path) -> None:
    text = f"{FIXES}\nopen(b'\\xff.txt', 'w').close()\nif attempt == 2:\n    os.remove(b'\\xff.txt')"
    [told] = told_of(repo, fixing(repo, text))
    assert told["state"] == "COMPLETED"
    assert "\\xff.txt" in told["attempts"][0]["reason"]


@pytest.mark.mends("F14")
def test_a_name_that_is_not_utf8_and_out_of_scope_is_told(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    with open(os.fsencode(tmp_path / "repo") + b"/\xff.txt", "w") as file:  # noqa: PTH123 - a Path would not show it
        file.write("x")
    repo = repository(tmp_path / "repo", {"calc.py": "def add(a, b):\n    return 0\n", "test_calc.py": SUITE})
    text = f"{FIXES}\nif attempt == 1:\n    open(b'\\xff.txt', 'a').write('y')"
    [told] = told_of(repo, fixing(repo, text, promise={"allowedScope": ["calc.py"]}))
    assert told["state"] == "COMPLETED"
    assert "\\xff.txt" in told["history"][0]["reason"]


@pytest.mark.rest_but("True")
@pytest.mark.mends("F14")
@pytest.mark.parametrize("fixes", [True, False])
def test_an_exit_code_is_a_claim_and_the_checks_tell(repo: Path, *, fixes: bool) -> None:
    text = f"{FIXES if fixes else 'pass'}\nprint('I could not do it')\nraise SystemExit(3)"
    [told] = told_of(repo, fixing(repo, text))
    assert told["state"] == ("COMPLETED" if fixes else "FAILED")
    if fixes:
        assert "exit code 3" in told["verdict"]["remarks"][0]
    else:
        assert "exit code 3" in told["reason"]


def test_an_exit_code_decides_where_nothing_is_checked(tmp_path: Path) -> None:
    agents = {"dev": program(tmp_path, "dev", "print('done')\nraise SystemExit(3)")}

    async def use(engine: Engine) -> Any:
        await engine.submit(plan(task("say", "dev"), agents=agents))
        return await engine.ended()

    assert sys.executable
    assert states(play(tmp_path / "root", use)) == {"say": "FAILED"}


@pytest.mark.mends("A9")
@pytest.mark.parametrize("checked", [True, False])
def test_a_scope_holds_for_the_folder_of_a_task_without_a_repository(tmp_path: Path, *, checked: bool) -> None:
    text = """
pathlib.Path('page.md').write_text('# Prices')
if attempt == 1:
    pathlib.Path('other.md').write_text('x')
pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'page.md').write_text('# Prices')
"""
    check = {"id": "page", "kind": "file", "path": "page.md", "contains": "# Prices"}
    keys = {"acceptance": [{"id": "said", "description": "said", "evidenceRequired": ["output:page.md"]}]}
    said = promise(check, allowedScope=["page.md"]) if checked else promise(allowedScope=["page.md"]) | keys
    agents = {"dev": program(tmp_path, "dev", text)}
    made = plan(task("write", "dev", outputs=[{"name": "page.md", "deliverable": True}], promise=said), agents=agents)

    async def use(engine: Engine) -> dict[str, Any]:
        await engine.submit(made)
        await engine.ended()
        return await explain_json(engine.deps, "p", "write")

    told = play(tmp_path / "root", use, proving=checked)
    assert (told["state"], told["rounds"]) == ("COMPLETED", 1)
    assert "other.md" in told["history"][0]["reason"]


@pytest.mark.rest
@pytest.mark.mends("F14")
def test_a_test_file_is_moved_where_scope_and_check_permit_it(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    run = f"{PYTEST_ALONE} --junitxml=r.xml"
    check = {"id": "t", "kind": "tests", "run": run, "junit": "r.xml", "may_vanish": ["test_old*"], "red_first": "off"}
    repo = repository(tmp_path / "repo", {"test_old.py": "def test_a():\n    pass\n"})
    text = "os.rename('test_old.py', 'test_new.py')"
    keys = {"allowedScope": ["test_old.py", "test_new.py"]}
    [told] = told_of(repo, fixing(repo, text, check, promise=keys))
    assert told["state"] == "COMPLETED", told["reason"]
    assert git(repo, "ls-tree", "--name-only", "agenttalk/p") == "test_new.py"


@pytest.mark.mends("A3", "A5")
def test_who_submits_a_plan_is_told_what_no_task_sees_and_what_is_left_open(repo: Path) -> None:
    (repo / "more.txt").write_text("x")
    made = fixing(repo, FIXES, SUITE_CHECK | {"protected": []})

    async def use(engine: Engine) -> list[Problem]:
        gone = made.manifest.model_copy(
            update={"workspace": made.manifest.workspace.model_copy(update={"repo": str(repo / "gone")})}
        )
        [missing] = await engine.dispatcher.operator.remarks(made.dag, gone)
        assert missing.field == "workspace"
        return await engine.dispatcher.operator.remarks(made.dag, made.manifest)

    told = play(repo.parent / "root", use, proving=True)
    assert [each.code for each in told] == ["UNCOMMITTED", "PLAN_DOUBTFUL"]
    assert "more.txt" in told[0].message
