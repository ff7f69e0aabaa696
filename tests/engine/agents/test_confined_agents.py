"""Agents in a sandbox, through the engine: what their promise's scope allows is what they can write."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.sandboxes import Sandboxes
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.rules.core.isolation import IsolationSettings
from kits.agentkit import WRITES, Desk
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import git, repository
from kits.sandboxkit import BEST, PLAIN, needs
from kits.standingkit import PlanStanding, explain_json
from kits.treekit import Tree

pytestmark = pytest.mark.usefixtures("_bubblewrap")


@pytest.fixture
def _bubblewrap() -> None:
    needs("bubblewrap")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    files = {"src/a.py": "a = 1\n", "src/keep.py": "k\n", "docs/a.md": "# a\n", "test_a.py": "t\n"}
    return repository(tmp_path / "repo", files)


def agent(top: Path, name: str, text: str, **keys: Any) -> dict[str, Any]:
    """A shell script as an agent in a sandbox."""
    path = top / f"{name}.sh"
    path.write_text(text)
    return {"driver": "script", "argv": ["sh", str(path)], "sandbox": "bubblewrap", **keys}


def coded(repo: Path, text: str, *, allowed: list[str], disallowed: list[str] | None = None, **keys: Any) -> Any:
    check = {"id": "there", "kind": "file", "path": "src/a.py"}
    promise = {
        "objective": "It works",
        "acceptance": [{"id": "c", "description": "there", "evidenceRequired": ["there"]}],
        "checks": [check],
        "allowedScope": allowed,
        "disallowedScope": disallowed or [],
    }
    return plan(
        task("fix", "dev", promise=promise, workspace="repo", max_reexecute_times=0, retry_times=0),
        task("next", "dev", needs=["fix"], on_dependency_failed="SKIP") if keys.pop("more", False) else task("other"),
        agents={"dev": agent(repo.parent, "dev", text, **keys)},
        workspace={"repo": str(repo)},
    )


def run(root: Path, compiled: Any, **keys: Any) -> tuple[PlanStanding, dict[str, Any]]:
    async def use(engine: Engine) -> tuple[PlanStanding, dict[str, Any]]:
        await engine.submit(compiled)
        found = await engine.ended("p")
        return found, await explain_json(engine.deps, "p", compiled.dag.nodes[0].task_id)

    found: tuple[PlanStanding, dict[str, Any]] = play(root / "root", use, proving=True, **{"words": BEST, **keys})
    return found


def said(root: Path) -> list[dict[str, Any]]:
    """What the ledger says of turns that ended."""
    import apsw

    [path] = (root / "root" / "data" / "projects").glob("*/blackboard.db")
    rows = apsw.Connection(str(path)).execute("select body from ledger where kind = 'turn.ended' order by seq")
    return [json.loads(body) for (body,) in rows]


@pytest.mark.shows("P13")
def test_a_shell_cannot_write_outside_of_the_scope_and_the_work_inside_is_merged(repo: Path) -> None:
    text = """
    rm docs/a.md && echo removed >&2
    echo x > test_a.py && echo overwritten >&2
    echo x > new.txt && echo made >&2
    rm src/keep.py && echo removed >&2
    mv src away && echo moved >&2
    echo 'a = 2' > src/tmp && mv src/tmp src/a.py || exit 7
    mkdir src/new && echo b > src/new/b.py || exit 8
    git add -A src && git commit -qm done || exit 9
    echo done
    """
    found, _ = run(repo.parent, coded(repo, text, allowed=["src/**"], disallowed=["src/keep.py"]))
    assert states(found)["fix"] == "COMPLETED", found.tasks
    assert git(repo, "diff", "--name-status", "main", "agenttalk/p") == "M\tsrc/a.py\nA\tsrc/new/b.py"
    assert {body["sandbox"] for body in said(repo.parent)} == {"bubblewrap", "plain"}  # one is a function


def test_what_places_cannot_say_is_still_found_by_the_comparison(repo: Path) -> None:
    text = "echo new > docs/new.md; echo '# b' > docs/a.md; echo done"
    found, _ = run(repo.parent, coded(repo, text, allowed=["docs/a.md"]))
    assert states(found)["fix"] == "FAILED"
    assert "scope-drift" in (found.tasks[0]["reason"] or "")
    assert "docs/new.md" in (found.tasks[0]["reason"] or "")


def test_a_folder_that_the_scope_names_can_be_filled_though_it_is_not_there_yet(repo: Path) -> None:
    found, _ = run(repo.parent, coded(repo, "echo x > gen/api/x.py && echo done", allowed=["gen/api/**"]))
    assert states(found)["fix"] == "COMPLETED", found.tasks
    assert git(repo, "diff", "--name-status", "main", "agenttalk/p") == "A\tgen/api/x.py"


HOSTILE = """
cd "$(dirname "$AGENTTALK_OUTPUTS")"
ROOT={root}
cat $ROOT/data/projects/*/blackboard.db >> $AGENTTALK_OUTPUTS/note 2>/dev/null
cat $ROOT/agents/other/secret.txt >> $AGENTTALK_OUTPUTS/note 2>/dev/null
cat $ROOT/agenttalk.toml >> $AGENTTALK_OUTPUTS/note 2>/dev/null
cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep ^PYTEST_CURRENT_TEST= >> $AGENTTALK_OUTPUTS/note
for path in $ROOT/agents/dev/agent_profile.json $ROOT/agents/dev/own.txt $ROOT/agents/other/new $ROOT/data/x $ROOT/new \\
    inputs/new command.json $ROOT/agents/dev/outbox/p/x; do
  mkdir -p "$(dirname $path)" 2>/dev/null; (echo bad > $path) 2>/dev/null && echo "wrote $path" >> $AGENTTALK_OUTPUTS/note
done
(setsid sh -c 'sleep 1000' &)
echo mine > $ROOT/agents/dev/workspace/p/$AGENTTALK_TASK_ID/scratch
echo note >> $AGENTTALK_OUTPUTS/note
echo '{{"result": "done"}}' > $AGENTTALK_RESULT.tmp && mv $AGENTTALK_RESULT.tmp $AGENTTALK_RESULT
"""


@pytest.mark.shows("M04")
def test_a_hostile_program_sees_and_changes_nothing_of_others_and_the_next_task_runs(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for path in ("agents/other/secret.txt", "agents/dev/own.txt", "agenttalk.toml"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("# secret\n")
    compiled = plan(
        task("spy", "dev", outputs=[{"name": "note"}]),
        task("next", "dev", needs=["spy"], inputs=[{"name": "note", "from": "note"}], prompt="Read on."),
        agents={"dev": agent(tmp_path, "dev", HOSTILE.format(root=root))},
    )
    found, _ = run(tmp_path, compiled)
    assert states(found) == {"spy": "COMPLETED", "next": "COMPLETED"}, found.tasks
    [note] = (root / "agents/dev/workspace/p/spy/.agenttalk").glob("*/outputs/note")
    assert note.read_text() == "note\n"
    assert (root / "agents/dev/own.txt").read_text() == "# secret\n"
    assert not (root / "new").exists()
    assert (root / "agents/dev/workspace/p/spy/scratch").read_text() == "mine\n"


def test_an_output_that_leads_out_of_its_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "root/data").mkdir(parents=True)
    text = f"ln -s {tmp_path}/root/data/operator.txt $AGENTTALK_OUTPUTS/note; echo done"
    compiled = plan(
        task("spy", "dev", outputs=[{"name": "note", "deliverable": True}], max_reexecute_times=0),
        agents={"dev": agent(tmp_path, "dev", text)},
    )
    (tmp_path / "root/data/operator.txt").write_text("secret")
    found, _ = run(tmp_path, compiled)
    assert states(found) == {"spy": "FAILED"}


def test_a_sandbox_that_does_not_work_starts_nothing(tmp_path: Path) -> None:
    async def use(engine: Engine) -> PlanStanding:
        driver = ScriptDriver(LocalProcesses(), sandboxes=Sandboxes(bubblewrap=lambda: None))
        engine.dispatcher._state.jobs.performers = {
            **engine.dispatcher._state.jobs.performers,
            "script": ProgramAgents(engine.deps, driver),
        }
        text = f"touch {tmp_path}/ran; echo done"
        await engine.submit(plan(task("t", "dev", retry_times=0), agents={"dev": agent(tmp_path, "dev", text)}))
        return await engine.ended("p")

    found = play(tmp_path / "root", use)
    assert states(found) == {"t": "FAILED"}
    assert "apt-get install bubblewrap" in found.tasks[0]["reason"]
    assert not (tmp_path / "ran").exists()


def test_a_driver_that_knows_no_sandbox_starts_nothing_that_needs_one(tmp_path: Path) -> None:
    agents = {"a": {"driver": "python", "sandbox": "bubblewrap"}, "b": {"driver": "python", "isolation": "required"}}
    found, _ = run(tmp_path, plan(task("t", retry_times=0), task("u", "b", retry_times=0), agents=agents))
    assert states(found) == {"t": "FAILED", "u": "FAILED"}
    assert "does not support a sandbox" in (found.tasks[0]["reason"] or "")
    assert "isolation is required" in (found.tasks[1]["reason"] or "")


def test_a_judge_that_cannot_be_confined_has_not_judged(tmp_path: Path) -> None:
    """A maker is not sent back because its consumer's sandbox is missing."""

    async def use(engine: Engine) -> PlanStanding:
        driver = ScriptDriver(LocalProcesses(), sandboxes=Sandboxes(bubblewrap=lambda: None))
        engine.dispatcher._state.jobs.performers = {
            **engine.dispatcher._state.jobs.performers,
            "script": ProgramAgents(engine.deps, driver),
        }
        compiled = plan(
            task("make", outputs=[{"name": "note"}]),
            task(
                "use",
                "dev",
                needs=["make"],
                inputs=[{"name": "note", "from": "note"}],
                validate={"note": {"completeness": "all of it"}},
                retry_times=0,
            ),
            agents={"dev": agent(tmp_path, "dev", f"touch {tmp_path}/ran")},
        )
        await engine.submit(compiled)
        return await engine.ended("p")

    found = play(tmp_path / "root", use, proving=True)
    assert states(found) == {"make": "COMPLETED", "use": "FAILED"}
    assert "apt-get install bubblewrap" in found.tasks[1]["reason"]
    assert not (tmp_path / "ran").exists()


@pytest.mark.mends("F15")
@pytest.mark.parametrize(("words", "tier"), [(BEST, "bubblewrap"), (PLAIN, "plain")])
def test_what_a_script_asks_for_is_not_less_than_the_operator_says(
    tmp_path: Path, words: IsolationSettings, tier: str
) -> None:
    text = f"cat {tmp_path}/root/data/secret; echo done"
    (tmp_path / "root" / "data").mkdir(parents=True)
    (tmp_path / "root" / "data" / "secret").write_text("secret ")
    compiled = plan(task("t", "dev"), agents={"dev": agent(tmp_path, "dev", text, sandbox="plain")})
    found, told = run(tmp_path, compiled, words=words)
    assert states(found) == {"t": "COMPLETED"}
    assert [body["sandbox"] for body in said(tmp_path)] == [tier]
    assert told["verdict"]["isolation"] == ("none" if tier == "plain" else tier)
    assert told["attempts"][-1]["result"].strip() == ("secret done" if tier == "plain" else "done")


def test_the_interpreter_of_the_tests_is_there(tmp_path: Path) -> None:
    text = f"exec {sys.executable} -c 'import pydantic; print(1)'"
    found, _ = run(tmp_path, plan(task("t", "dev"), agents={"dev": agent(tmp_path, "dev", text)}))
    assert states(found) == {"t": "COMPLETED"}


def test_landlock_keeps_what_lies_outside_and_leaves_the_inside_to_the_comparison(repo: Path) -> None:
    needs("landlock")
    text = """
    rm docs/a.md; echo x > test_a.py; echo x > new.txt
    echo 'a = 2' > src/a.py && echo b > src/b.py && echo done
    """
    found, _ = run(repo.parent, coded(repo, text, allowed=["src/**"], sandbox="landlock"))
    assert states(found)["fix"] == "COMPLETED", found.tasks
    assert git(repo, "diff", "--name-status", "main", "agenttalk/p") == "M\tsrc/a.py\nA\tsrc/b.py"
    assert "landlock" in {body.get("sandbox") for body in said(repo.parent)}


def test_landlock_cannot_take_back_what_lies_inside_and_the_comparison_does(repo: Path) -> None:
    needs("landlock")
    compiled = coded(
        repo, "rm src/keep.py; echo done", allowed=["src/**"], disallowed=["src/keep.py"], sandbox="landlock"
    )
    found, _ = run(repo.parent, compiled)
    assert states(found)["fix"] == "FAILED"
    assert "scope-drift" in (found.tasks[0]["reason"] or "")


def test_a_heartbeat_confines_its_program_too(tmp_path: Path) -> None:
    desk = Desk(Tree(tmp_path / "root"))
    (tmp_path / "root" / "agents" / "other").mkdir(parents=True)
    tries = f"""
try: open({str(tmp_path / "root" / "agents" / "other" / "x")!r}, "w")
except OSError: (out / "made.txt").write_text("kept out")
"""
    desk.program(WRITES + tries, sandbox="best")
    message_id = desk.command(timeout=60)
    assert desk.once().failed == 0
    [ended] = desk.facts(message_id, "turn.ended")
    assert (ended["sandbox"], ended["state"]) == ("bubblewrap", "COMPLETED")
    assert not (tmp_path / "root" / "agents" / "other" / "x").exists()
    assert [path.read_text() for path in desk.outbox().rglob("made.txt")] == ["kept out"]
