"""What git ignores and a check needs: imports reach the work, and not the user's own files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from doors.cli.changes.changekit import RIGHT, SUITE, WRONG, Repo, writes
from kits.provekit import repository

FIXES = writes(RIGHT, "src/price.py")
BREAKS = writes("def price(n):\n    return 1\n", "src/price.py")
CHECK = ".venv/bin/python -m unittest -q tests/test_price.py"
FINDER = """
import sys
from importlib.machinery import PathFinder
MAPPING = {{'price': '{top}/src/price.py'}}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        from importlib.util import spec_from_file_location
        return spec_from_file_location(name, MAPPING[name]) if name in MAPPING else None
def install():
    sys.meta_path.append(Finder)
"""


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    """A package in src/, and an environment of Python that git ignores."""
    (tmp_path / "home").mkdir()
    files = {"src/price.py": WRONG, "tests/test_price.py": SUITE, ".gitignore": ".venv/\nnode_modules/\n.env\n"}
    repository(tmp_path / "shop", files)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "shop/.venv")], check=True)
    return Repo(tmp_path)


def site_of(repo: Repo) -> Path:
    [site] = (repo.top / ".venv").glob("lib/python*/site-packages")
    return site


def install_path(repo: Repo) -> None:
    """As `pip install -e` does it for a plain folder."""
    (site_of(repo) / "__editable__.shop-1.pth").write_text(f"{repo.top}/src\n")


def install_finder(repo: Repo) -> None:
    """As `pip install -e` does it for single modules."""
    (site_of(repo) / "__editable___shop_1_finder.py").write_text(FINDER.format(top=repo.top))
    line = "import __editable___shop_1_finder; __editable___shop_1_finder.install()\n"
    (site_of(repo) / "__editable__.shop-1.pth").write_text(line)


@pytest.mark.parametrize("install", [install_path, install_finder])
def test_an_editable_installation_leads_to_the_work(shop: Repo, install: object) -> None:
    assert callable(install)
    install(shop)
    told = shop.until(CHECK, shop.agent(FIXES))
    assert "read-only  .venv" in told
    assert "✓ proven" in told


@pytest.mark.mends("F3")
@pytest.mark.parametrize("sandbox", ["best", "plain"])
def test_what_the_user_s_own_files_would_pass_is_not_proven(shop: Repo, sandbox: str) -> None:
    install_path(shop)
    spoils = f"{BREAKS}\npathlib.Path({str(shop.top / 'src/price.py')!r}).write_text({RIGHT!r})"
    told = shop.json(CHECK, shop.agent(spoils), "--rounds", "1", "--sandbox", sandbox, code=1)
    assert told["result"] == "not proven"


def test_the_agent_sees_its_own_work(shop: Repo) -> None:
    install_path(shop)
    looks = f"""
import subprocess
{FIXES}
subprocess.run([".venv/bin/python", "-c", "import price; assert price.price(1) == 40, price.__file__"], check=True)
pathlib.Path("looked").write_text("")
"""
    told = shop.json(f"{CHECK} && test -e looked", shop.agent(looks))
    assert told["result"] == "proven"


@pytest.mark.rest
def test_a_program_of_the_environment_is_found_and_runs_there(shop: Repo) -> None:
    install_path(shop)
    script = shop.top / ".venv/bin/pricecheck"
    script.write_text(f"#!{shop.top}/.venv/bin/python\nimport price\nassert price.price(2) == 80, price.__file__\n")
    script.chmod(0o755)
    assert shop.json("pricecheck", shop.agent(FIXES))["result"] == "proven"
    inner = shop.agent(writes(RIGHT))
    assert shop.json("pricecheck", inner, cwd=shop.top / "src")["result"] == "proven"
    assert (shop.top / "src/price.py").read_text() == WRONG


@pytest.mark.rest
def test_what_is_linked_stays_as_it_is(shop: Repo) -> None:
    install_path(shop)
    module = site_of(shop) / "helper.py"
    module.write_text("RATE = 40\n")
    uses = f"""
{writes("from helper import RATE" + chr(10) + RIGHT.replace("40", "RATE"), "src/price.py")}
for path in pathlib.Path(".venv").glob("lib/*/site-packages/helper.py"):
    try:
        path.write_text("RATE = 1")
    except OSError:
        pass
"""
    assert shop.json(CHECK, shop.agent(uses))["result"] == "proven"
    assert module.read_text() == "RATE = 40\n"


@pytest.mark.rest
def test_settings_that_git_ignores_are_there(shop: Repo) -> None:
    (shop.top / ".env").write_text("RATE=40\n")
    told = shop.until("grep -q RATE=40 .env && test -e made", shop.agent(writes("", "made")))
    assert "read-only  .env, .venv" in told
    told = shop.until("grep -q RATE=40 .env", shop.agent("print(1)"), "--link", ".env", "--already-green", "ok")
    assert "read-only  .env\n" in told
    shop.until("test ! -e .venv && test -e made", shop.agent(writes("", "made")), "--link", "none")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_workspace_of_npm_leads_to_the_work(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    files = {
        "package.json": '{"name": "shop", "workspaces": ["packages/*"]}',
        "packages/price/package.json": '{"name": "price", "main": "index.js"}',
        "packages/price/index.js": "exports.price = (n) => 0;\n",
        "test.js": "require('assert').strictEqual(require('price').price(2), 80 * require('other').one);\n",
        ".gitignore": "node_modules/\n",
    }
    repository(tmp_path / "shop", files)
    repo = Repo(tmp_path)
    modules = repo.top / "node_modules"
    (modules / "other").mkdir(parents=True)
    (modules / "other/index.js").write_text("exports.one = 1;\n")
    (modules / "price").symlink_to("../packages/price")
    fixes = writes("exports.price = (n) => 40 * n;\n", "packages/price/index.js")
    told = repo.json("node test.js", repo.agent(fixes))
    assert (told["result"], told["links"]) == ("proven", ["node_modules"])


@pytest.mark.rest
def test_a_preparation_is_run_in_the_clone(shop: Repo) -> None:
    told = shop.json(
        "grep -q ready made/mark && test -e done",
        shop.agent(writes("", "done")),
        *("--link", "none", "--prepare", "mkdir made && echo ready > made/mark"),
    )
    assert told["result"] == "proven"
