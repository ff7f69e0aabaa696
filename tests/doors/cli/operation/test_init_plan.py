"""`agenttalk init` writes a plan for the repository, and `agenttalk run` without a plan takes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from agenttalk.doors.cli.main import call
from doors.cli.operation import initkit
from kits import provekit

PRICE = "def price(n):\n    return 0\n"
TEST = "from price import price\n\ndef test_two_cost_20():\n    assert price(2) == 20\n"
SHOP = {"price.py": PRICE, "test_price.py": TEST, "conftest.py": ""}
SAYS = {"type": "result", "subtype": "success", "is_error": False, "result": "It is done.", "usage": {}}
MENDS = f"""cat > /dev/null
printf 'def price(n):\\n    return 10 * n\\n' > price.py
echo '{json.dumps({"type": "system", "subtype": "init", "session_id": "s-1", "model": "m"})}'
echo '{json.dumps({**SAYS, "session_id": "s-1"})}'
"""


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("AGENTTALK_ROOT", raising=False)


def read_plan(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "agenttalk.yaml").read_text(encoding="utf-8"))
    return found


def check_of(folder: Path) -> dict[str, Any]:
    [check] = read_plan(folder)["tasks"][0]["promise"]["checks"]
    found: dict[str, Any] = check
    return found


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join("".join(capsys.readouterr()).split())


def test_a_plan_with_the_check_of_the_repository_is_written_and_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path, "codex", "gemini")
    shop = provekit.repository(tmp_path / "Ünser Laden", SHOP)
    assert call(["init", "--dir", str(shop)]) == 0
    assert "agenttalk run" in said(capsys)
    plan, check = read_plan(shop), check_of(shop)
    assert plan["plan_id"] == "nser-laden"
    assert plan["agents"]["dev"] == {"driver": "cli", "cli": "codex"}
    assert (check["kind"], check["junit"]) == ("tests", ".agenttalk-tests.xml")
    assert check["run"].startswith("python3 -m pytest -q")
    assert {"agenttalk.yaml", "conftest.py", "test_price.py"} <= set(check["protected"])
    assert check["run"] in plan["tasks"][0]["prompt"]
    assert call(["plan", "check", str(shop / "agenttalk.yaml")]) == 0


def test_without_a_check_a_person_is_asked_and_the_plan_says_how_to_name_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    shop = provekit.repository(tmp_path / "店铺", {"notes.txt": "nothing to run"})
    for locale, words in (("en", "Name one instead"), ("zh", "也可以写明一个命令")):
        assert call(["init", "--dir", str(shop), "--locale", locale]) == 0
        assert check_of(shop)["kind"] == "human"
        assert read_plan(shop)["plan_id"] == "work"
        text = (shop / "agenttalk.yaml").read_text(encoding="utf-8")
        assert words in text
        assert call(["plan", "check", str(shop / "agenttalk.yaml")]) == 0
        named = text.replace("        - id: check\n          kind: human\n", "").replace(
            "        #   - {id", "        - {id"
        )
        (shop / "agenttalk.yaml").write_text("".join(f"{x}\n" for x in named.splitlines() if "question:" not in x))
        assert call(["plan", "check", str(shop / "agenttalk.yaml")]) == 0, "the comment is how it is done"
        assert check_of(shop)["run"] == "sh test.sh"
        (shop / "agenttalk.yaml").unlink()
    capsys.readouterr()


@pytest.mark.rest
def test_the_tests_of_a_large_repository_are_protected_without_being_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude", text="cat > /dev/null; : > tests/test_7.py; " + MENDS)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    tests = {f"tests/test_{number}.py": TEST for number in range(20)}
    shop = provekit.repository(tmp_path / "shop", {**tests, "price.py": PRICE, "conftest.py": ""})
    assert call(["init", "--dir", str(shop)]) == 0
    assert check_of(shop)["protected"] == ["agenttalk.yaml"]
    assert "The 21 files that the check consists of are protected, too." in (shop / "agenttalk.yaml").read_text()
    monkeypatch.chdir(shop)
    assert call(["run"]) == 0, said(capsys)
    assert provekit.git(shop, "show", "agenttalk/shop:tests/test_7.py") == TEST.strip()


@pytest.mark.parametrize("odd", ["a\u2028b", "a\nb", "a\udcffb", "a: [b", "a'b\"c", "$plan_id", "# c"])
def test_a_folder_with_an_odd_name_does_not_make_the_plan_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], odd: str
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    shop = provekit.repository(tmp_path / "shop", {f"{odd}/Makefile": "test:\n\ttrue\n", "notes.txt": "ours"})
    assert call(["init", "--dir", str(shop)]) == 0
    assert call(["plan", "check", str(shop / "agenttalk.yaml")]) == 0, said(capsys)
    check = check_of(shop)
    assert (check["kind"], check.get("cwd")) == (("run", odd) if odd.isprintable() else ("human", None))


def test_installed_packages_that_git_ignores_are_shared_with_clones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    shop = provekit.repository(tmp_path / "shop", {**SHOP, ".gitignore": ".venv/\nnode_modules\n"})
    for folder in (".venv/bin", "node_modules/jest"):
        (shop / folder).mkdir(parents=True)
        (shop / folder / "python").write_text("")
    assert call(["init", "--dir", str(shop)]) == 0
    assert read_plan(shop)["workspace"] == {"repo": ".", "link": [".venv", "node_modules"]}
    assert check_of(shop)["run"].startswith(".venv/bin/python -m pytest")


@pytest.mark.parametrize("before", ["no git", "no commit", "below the top"])
def test_where_no_plan_can_be_written_it_is_said_why_and_the_rest_is_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], before: str
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    folder = tmp_path / "shop"
    if before == "below the top":
        folder = provekit.repository(folder, {"inner/price.py": PRICE}) / "inner"
    else:
        folder.mkdir()
    if before == "no commit":
        provekit.git(folder, "init", "-q")
    assert call(["init", "--dir", str(folder), "--json"]) == 0
    told = {each["file"]: each for each in json.loads(capsys.readouterr().out)["files"]}
    words = {"no git": "no work tree of a git repository", "no commit": "no commit yet", "below the top": "the top"}
    assert told["agenttalk.yaml"]["what"] == "left"
    assert words[before] in told["agenttalk.yaml"]["why"]
    assert not (folder / "agenttalk.yaml").exists()
    assert (folder / ".mcp.json").exists()


def test_a_subfolder_stands_for_the_repository_and_so_does_a_work_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    shop = provekit.repository(tmp_path / "shop", {**SHOP, "inner/a.txt": "a"})
    provekit.git(shop, "worktree", "add", "-q", "../beside")
    for top in (shop, tmp_path / "beside"):
        monkeypatch.chdir(top / "inner")
        assert call(["init"]) == 0
        assert read_plan(top)["plan_id"] == top.name
        assert (top / ".agenttalk").is_dir()
        assert sorted(path.name for path in (top / "inner").iterdir()) == ["a.txt"]


@pytest.mark.mends("C10")
def test_run_without_a_plan_drives_the_installed_agent_until_its_work_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude", text=MENDS)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    shop = provekit.repository(tmp_path / "shop", {**SHOP, "inner/a.txt": "a"})
    monkeypatch.chdir(shop / "inner")
    assert call(["init"]) == 0
    profile = (shop / ".agenttalk/agents/claude/agent_profile.json").read_bytes()
    assert call(["run"]) == 0, said(capsys)
    assert "everything is done" in said(capsys)
    assert provekit.git(shop, "show", "agenttalk/shop:price.py").endswith("10 * n")
    assert (shop / "price.py").read_text() == PRICE
    driven = json.loads((shop / ".agenttalk/agents/dev/agent_profile.json").read_text())
    assert (driven["driver"], driven["cli"]["agent"]) == ("cli", "claude")
    assert (shop / ".agenttalk/agents/claude/agent_profile.json").read_bytes() == profile


def test_run_takes_the_plan_of_the_folder_first_and_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    shop = provekit.repository(tmp_path / "shop", {**SHOP, "inner/a.txt": "a"})
    monkeypatch.chdir(shop / "inner")
    assert call(["run"]) == 2
    told = said(capsys)
    assert f"there is no agenttalk.yaml here, and none at the top of the repository, {shop}" in told
    assert "agenttalk init" in told
    plan = "plan_id: {}\nagents: {{a: {{driver: folder}}}}\ntasks: [{{id: one, agent: a, prompt: Go.}}]\n"
    (shop / "agenttalk.yaml").write_text(plan.format("outer"))
    assert call(["run", "--dry-run"]) == 0
    assert "outer: 1 tasks" in said(capsys)
    (shop / "inner/agenttalk.yaml").write_text(plan.format("inner"))
    assert call(["run", "--dry-run"]) == 0
    assert "inner: 1 tasks" in said(capsys)
    monkeypatch.chdir(tmp_path)
    assert call(["run", "--dry-run"]) == 2
    assert "there is no agenttalk.yaml here" in said(capsys)


def test_an_own_plan_file_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path, "claude")
    shop = provekit.repository(tmp_path / "shop", {**SHOP, "agenttalk.yaml": "plan_id: mine\n"})
    assert call(["init", "--dir", str(shop)]) == 0
    assert (shop / "agenttalk.yaml").read_text() == "plan_id: mine\n"
    assert call(["init", "--dir", str(shop), "--remove"]) == 0
    assert (shop / "agenttalk.yaml").read_text() == "plan_id: mine\n"
    assert "agenttalk.yaml removed" not in said(capsys)


def test_without_any_coding_agent_there_is_a_plan_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    initkit.install(monkeypatch, tmp_path)
    shop = provekit.repository(tmp_path / "shop", SHOP)
    assert call(["init", "--dir", str(shop)]) == 0
    assert "No coding agent was found here" in said(capsys)
    assert "No coding agent was found here" in (shop / "agenttalk.yaml").read_text()
    assert call(["plan", "check", str(shop / "agenttalk.yaml")]) == 0
    assert provekit.git(shop, "status", "--porcelain") == "?? agenttalk.yaml"
    shutil.rmtree(shop)
