"""What `workspace.prepare` makes: it runs confined, nothing of it lives on, and checks test the work beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agenttalk.contracts.agent import Tier
from kits.attackkit import holds
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import program, promise, repository
from kits.sandboxkit import needs
from kits.standingkit import PlanStanding

TIERS: tuple[Tier, ...] = ("bubblewrap", "landlock", "plain")
RIGHT = "def add(a, b):\n    return a + b\n"
WRONG = "def add(a, b):\n    return 0\n"
SUITE = "import shop\nassert shop.add(1, 2) == 3\n"
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "shop"
version = "1"
[tool.hatch.build.targets.wheel]
packages = ["src/shop"]
"""
SITE = next(path for path in sys.path if path.endswith("site-packages"))
EDITABLE = (
    f"{sys.executable} -m venv --without-pip .venv && "
    f"PYTHONPATH={SITE} {sys.executable} -m pip -q --python .venv/bin/python install "
    "--no-build-isolation --no-deps --no-index -e ."
)
"""As a user writes it, without the network."""


@pytest.fixture(params=TIERS)
def tier(request: pytest.FixtureRequest) -> Tier:
    """The sandbox of checks."""
    found: Tier = request.param
    if found != "plain":
        needs(found)
    return found


def proven(repo: Path, tier: Tier, text: str, prepare: str, check: str, **keys: Any) -> tuple[PlanStanding, Any]:
    """How a task stands that an agent did, and the evidence."""
    made = {"id": "works", "kind": "run", "run": check, "red_first": "off", **keys}
    compiled = plan(
        task("fix", "dev", promise=promise(made), workspace="repo", max_reexecute_times=0),
        agents={"dev": program(repo.parent, "dev", text)},
        workspace={"repo": str(repo), "prepare": prepare},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended("p")

    found: PlanStanding = play(repo.parent / "root", use, proving=tier)
    return found, found.tasks[0]


def editable(folder: Path, module: str) -> Path:
    files = {"pyproject.toml": PROJECT, "src/shop/__init__.py": module, "tests/test_shop.py": SUITE}
    return repository(folder / "repo", files)


TRIES = """
import subprocess
subprocess.run(['.venv/bin/python', '-c', 'import shop; assert shop.add(1, 2) == 3'], check=True, timeout=600)
pathlib.Path('tried').write_text('')
"""
"""What an agent does to see whether it is right. An exit code would be its claim alone; the file is seen by the check."""


@pytest.mark.rest
@pytest.mark.mends("F3")
def test_a_fix_in_a_package_that_is_installed_editable_is_accepted_and_its_agent_sees_it(
    tmp_path: Path, tier: Tier
) -> None:
    repo = editable(tmp_path, WRONG)
    text = f"pathlib.Path('src/shop/__init__.py').write_text({RIGHT!r}){TRIES}"
    check = ".venv/bin/python tests/test_shop.py && test -e tried"
    found, told = proven(repo, tier, text, EDITABLE, check, red_first="required")
    assert states(found) == {"fix": "COMPLETED"}, told


@pytest.mark.rest
@pytest.mark.mends("F3")
def test_a_destroyed_package_that_is_installed_editable_is_refused(tmp_path: Path, tier: Tier) -> None:
    repo = editable(tmp_path, RIGHT)
    text = f"pathlib.Path('src/shop/__init__.py').write_text({WRONG!r})"
    found, told = proven(repo, tier, text, EDITABLE, ".venv/bin/python tests/test_shop.py")
    assert states(found) == {"fix": "FAILED"}
    assert "works" in told["reason"]
    holds("editable", tier, "refused")


LINKED = "mkdir -p node_modules && ln -s ../packages/lib node_modules/lib"
"""As `npm install` does it for workspaces."""


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.mends("F3")
@pytest.mark.parametrize(("before", "after", "state"), [("wrong", "right", "COMPLETED"), ("right", "wrong", "FAILED")])
def test_a_check_sees_the_work_through_links_that_were_installed(
    tmp_path: Path, tier: Tier, before: str, after: str, state: str
) -> None:
    files = {"package.json": "{}", "packages/lib/index.js": f"{before}\n"}
    repo = repository(tmp_path / "repo", files)
    text = (
        f"pathlib.Path('packages/lib/index.js').write_text('{after}\\n')\n"
        f"assert '{after}' in pathlib.Path('node_modules/lib/index.js').read_text()\n"
        "pathlib.Path('tried').write_text('')"
    )
    found, told = proven(repo, tier, text, LINKED, "grep -q right node_modules/lib/index.js && test -e tried")
    assert states(found) == {"fix": state}, told


@pytest.mark.mends("F3")
def test_what_leads_to_another_copy_of_the_tree_is_refused_with_what_to_do(tmp_path: Path) -> None:
    repo = editable(tmp_path, WRONG)
    (repo / ".gitignore").write_text(".venv\n")
    site = repo / ".venv" / "lib"
    site.mkdir(parents=True)
    (site / "shop.pth").write_text(f"{repo}/src\n")
    space = {"prepare": f"mkdir -p env && cp {site}/shop.pth env/"}
    compiled = plan(
        task("fix", "dev", promise=promise({"id": "works", "kind": "run", "run": "true"}), workspace="repo"),
        agents={"dev": program(tmp_path, "dev", "")},
        workspace={"repo": str(repo), **space},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended("p")

    found: PlanStanding = play(tmp_path / "root", use, proving=True)
    [told] = found.tasks
    assert told["state"] == "FAILED"
    assert "workspace.prepare" in (told["reason"] or "")
    assert "shop.pth leads to" in (told["reason"] or "")
    assert "pip install -e ." in (told["reason"] or "")


DAEMON = """
mkdir -p node_modules
echo made > node_modules/x
cat requirements.txt > node_modules/locks
(setsid sh -c 'echo > "$0/begun"; i=0; while [ $i -lt 3000 ]; do i=$((i+1))
  for f in "$1"/root/workspaces/p/*/*/tree/calc.txt "$1"/root/workspaces/p/prepared/*/tree/calc.txt; do
    echo right > "$f"; done; sleep 0.02; done' "$PWD/node_modules" "@TOP@" >/dev/null 2>&1 &)
while [ ! -e node_modules/begun ]; do sleep 0.02; done
echo right > "@TOP@/escaped"
exit 0
"""
"""What a confined agent makes of the script that prepares: a daemon that mends whatever is about to be checked."""


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.mends("F1")
def test_what_an_agent_has_prepared_runs_confined_and_is_dead_before_the_check(tmp_path: Path, tier: Tier) -> None:
    files = {"requirements.txt": "", "setup.sh": "mkdir node_modules\n", "calc.txt": "wrong\n"}
    repo = repository(tmp_path / "repo", files)
    attack = DAEMON.replace("@TOP@", str(tmp_path))
    text = f"pathlib.Path('setup.sh').write_text({attack!r})\npathlib.Path('requirements.txt').write_text('# more')"
    waits = "for i in 1 2 3 4 5 6 7 8 9 10; do grep -q right calc.txt && exit 0; sleep 0.05; done; exit 1"
    found, told = proven(repo, tier, text, "sh setup.sh", waits)
    assert states(found) == {"fix": "FAILED"}, told
    assert "works" in told["reason"]
    prepared = tmp_path / "root" / "workspaces" / "p" / "prepared"
    assert list(prepared.glob("*/tree/node_modules/begun")), "the daemon ran"
    holds("daemon", tier, "contained")
    holds("escape", tier, "limit" if (tmp_path / "escaped").exists() else "contained")
    assert ("not isolated" in told["reason"]) is (tier == "plain")
    left = subprocess.run(["pgrep", "-f", str(tmp_path / "root")], check=False, capture_output=True, text=True).stdout
    assert left == ""


@pytest.mark.rest_but("bubblewrap")
@pytest.mark.mends("F1")
def test_what_one_attempt_had_prepared_is_not_used_for_another_tree(tmp_path: Path, tier: Tier) -> None:
    """The first attempt poisons what is installed, the second takes the poison back and keeps the same lock files."""
    poison = "mkdir -p node_modules; echo exit 0 > node_modules/runner"
    honest = "mkdir -p node_modules; echo 'grep -q right calc.txt' > node_modules/runner"
    repo = repository(tmp_path / "repo", {"requirements.txt": "", "setup.sh": honest, "calc.txt": "wrong\n"})
    text = (
        "pathlib.Path('requirements.txt').write_text('# more')\n"
        f"pathlib.Path('setup.sh').write_text({poison!r} if attempt == 1 else {honest!r})\n"
        "pathlib.Path('mark').write_text(str(attempt))"
    )
    made = {"id": "works", "kind": "run", "run": "test $(cat mark) = 2 && sh node_modules/runner", "red_first": "off"}
    compiled = plan(
        task("fix", "dev", promise=promise(made), workspace="repo", max_reexecute_times=1),
        agents={"dev": program(tmp_path, "dev", text)},
        workspace={"repo": str(repo), "prepare": "sh setup.sh"},
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(compiled)
        return await engine.ended("p")

    found: PlanStanding = play(tmp_path / "root", use, proving=tier)
    assert states(found) == {"fix": "FAILED"}, found.tasks
    holds("poison", tier, "refused")


@pytest.mark.mends("F1")
def test_a_preparation_that_the_work_changed_plants_nothing_that_is_protected(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo", {"requirements.txt": "", "setup.sh": "mkdir made\n", "calc.txt": "wrong\n"})
    text = (
        "pathlib.Path('requirements.txt').write_text('# more')\n"
        "pathlib.Path('setup.sh').write_text('mkdir made; echo true > judge.local')"
    )
    found, told = proven(
        repo, "plain", text, "sh setup.sh", "test -e judge.local || grep -q right calc.txt", protected=["judge.*"]
    )
    assert states(found) == {"fix": "FAILED"}, told
    assert "judge.local" in told["reason"]
