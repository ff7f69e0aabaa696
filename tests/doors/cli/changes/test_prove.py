"""`agenttalk prove`: honest changes are proven, cheats are refused and named, and the folder stays as it is."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agenttalk.rules.suites import junit
from agenttalk.rules.suites.outcomes import Outcomes
from doors.cli.changes import shopkit
from doors.cli.changes.shopkit import NEW_TEST, PRICE, TAXED, TESTS, Shop

FEATURE = {"price.py": TAXED, "tests/test_taxed.py": NEW_TEST}
WRONG = "def total(items):\n    return 4\n"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return shopkit.open_shop(tmp_path)


def test_a_feature_with_a_new_test_is_proven_and_nothing_in_the_folder_changes(shop: Shop) -> None:
    shop.write(FEATURE)
    before = shop.snapshot()
    found = shop.prove()
    assert found.code == 0, found
    assert found.told["verdict"] == "proven"
    assert found.told["trust"] == "observed"
    assert found.told["tests"]["new"] == ["tests.test_taxed::test_taxed"]
    assert found.told["tests"]["red_before"] == ["tests.test_taxed::test_taxed"]
    assert found.told["work"] == "main and 2 uncommitted files"
    assert "python3 -m pytest" in found.told["check"]["run"]
    assert any("new tests" in each for each in found.told["unchecked"])
    assert shop.snapshot() == before
    assert list((shop.folder / "state" / "prove").iterdir()) == []


HONEST: dict[str, tuple[Mapping[str, str | None], tuple[str, ...], str]] = {
    "a test beside the old ones": (
        {"price.py": TAXED, "tests/test_price.py": f"{TESTS}\n\n{NEW_TEST}"},
        (),
        "lost none",
    ),
    "a refactoring that is called one": (
        {"price.py": "def total(items):\n    return sum(list(items))\n"},
        ("--already-green", "ok"),
        "--already-green ok permits",
    ),
    "documentation only": ({"docs/guide.md": "All prices.\n", "README.md": "A shop.\n"}, (), "only documentation"),
    "a test that is rightly changed": (
        {"price.py": "def total(items):\n    return sum(items) + 1\n",
         "tests/test_price.py": TESTS.replace("== 3", "== 4").replace("== 0", "== 1")},
        ("--allow-tests",),
        "without the change",
    ),
    "a test file that moved, with the work": (
        {"price.py": TAXED, "tests/test_taxed.py": NEW_TEST, "tests/test_price.py": None, "tests/unit/test_sums.py": TESTS},
        (),
        "lost none",
    ),
    "a new module with its first test": (
        {"tax.py": "def rate():\n    return 2\n", "tests/test_tax.py": "from tax import rate\n\n\ndef test_rate():\n    assert rate() == 2\n"},
        (),
        "without the change",
    ),
    "a bug that an old test showed": ({"broken.py": "VALUE = 1\n"}, (), "without the change"),
}  # fmt: skip


@pytest.mark.parametrize("case", HONEST)
@pytest.mark.rest_but("a test beside the old ones")
def test_honest_work_is_proven(tmp_path: Path, case: str) -> None:
    files, options, said = HONEST[case]
    more = {"tests/test_broken.py": "from broken import VALUE\n\n\ndef test_it():\n    assert VALUE\n"}
    begun = {**shopkit.FILES, **(more if "bug" in case else {})}
    shop = shopkit.open_shop(tmp_path, begun)
    shop.write(files)
    found = shop.prove(*options)
    assert found.code == 0, found.out
    assert any(said in each["detail"] for each in found.told["evidence"]), found.out


CHEATS: dict[str, tuple[Mapping[str, str | None], set[str], str]] = {
    "a failing change": ({"price.py": WRONG}, {"check", "shown"}, "test_empty"),
    "a deleted test": (
        {"price.py": TAXED, "tests/test_taxed.py": NEW_TEST, "tests/test_price.py": TESTS.partition("\n\ndef test_empty")[0]},
        {"tests-kept", "protected"},
        "test_empty",
    ),
    "a deleted test file": ({**FEATURE, "tests/test_price.py": None}, {"tests-kept", "protected"}, "tests/test_price.py"),
    "a weaker assertion": (
        {"price.py": WRONG, "tests/test_price.py": TESTS.replace("== 3", "== 4").replace("== 0", "== 4")},
        {"base-tests", "protected"},
        "assertion",
    ),
    "a skipped test": (
        {**FEATURE, "tests/test_price.py": f"import pytest\n{TESTS}".replace("def test_empty", "@pytest.mark.skip\ndef test_empty")},
        {"tests-kept", "protected"},
        "skipped",
    ),
    "an overwritten conftest": (
        {**FEATURE, "conftest.py": "def pytest_collection_modifyitems(items):\n    del items[1:]\n"},
        {"tests-kept", "protected"},
        "conftest.py",
    ),
    "assert True": (
        {"price.py": WRONG, "tests/test_price.py": "def test_total():\n    assert True\n\n\ndef test_empty():\n    assert True\n"},
        {"base-tests", "protected"},
        "assert True",
    ),
    "a new test that tests nothing": (
        {"price.py": f"{PRICE}\nX = 1\n", "tests/test_more.py": "def test_more():\n    assert True\n"},
        {"shown"},
        "test_more",
    ),
    "a new file that acts on the old tests": (
        {"price.py": WRONG, "tests/__init__.py": "import price\nprice.total = sum\n", "tests/test_taxed.py": "def test_it():\n    pass\n"},
        {"base-tests"},
        "test_empty",
    ),
    "a forged report": (
        {"price.py": "import os, sys\n[path] = [each[11:] for each in sys.argv if each.startswith('--junitxml=')]\nopen(path, 'w').write('<testsuite>' + ''.join(f'<testcase classname=\"tests.{c}\" name=\"{n}\"/>' for c, n in [('test_price', 'test_total'), ('test_price', 'test_empty'), ('test_taxed', 'test_taxed')]) + '</testsuite>')\nos._exit(0)\n",
         "tests/test_taxed.py": NEW_TEST},
        {"check", "base-tests"},
        "ended in the middle",
    ),
    "code that reaches into the test runner": (
        {"price.py": f"import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n{TAXED}".replace("sum(items)", "4"), "tests/test_taxed.py": NEW_TEST},
        {"check", "base-tests", "suspicions"},
        "reaches into the test runner",
    ),
    "an object that equals everything": (
        {"price.py": "class Any:\n    def __eq__(self, other):\n        return True\n\n\ndef total(items):\n    return Any()\n\n\ntaxed = total\n", "tests/test_taxed.py": NEW_TEST},
        {"base-tests", "suspicions"},
        "comparison that always holds",
    ),
    "exit 0 at import": ({"price.py": "import os\nos._exit(0)\n"}, {"check", "tests-kept", "shown"}, "ended in the middle"),
    "settings by which nothing is collected": (
        {**FEATURE, "pytest.ini": "[pytest]\npython_files = none_*.py\n"},
        {"check", "tests-kept", "protected"},
        "pytest.ini",
    ),
    "a renamed test file": (
        {**FEATURE, "tests/test_price.py": None, "tests/price_cases.py": TESTS},
        {"tests-kept", "protected"},
        "price_cases.py",
    ),
    "a module in the place of another": (
        {**FEATURE, "tests/random.py": "", "json.py": "def loads(x):\n    return x\n"},
        {"protected"},
        "json.py",
    ),
    "nothing that shows it": ({"price.py": "def total(items):\n    return sum(list(items))\n"}, {"shown"}, "nothing shows"),
}  # fmt: skip


@pytest.mark.parametrize("case", CHEATS)
@pytest.mark.rest_but("a weaker assertion")
def test_cheats_are_refused_and_named(shop: Shop, case: str) -> None:
    files, missing, said = CHEATS[case]
    shop.write(files)
    found = shop.prove()
    assert found.code == 1, found.out
    assert missing <= set(found.failed()), found.out
    assert found.told["verdict"] == "not_proven"
    failed = [each for each in found.told["evidence"] if not each["passed"]]
    assert said in json.dumps([failed, found.told["suspicions"], found.told["output"]]), found.out
    assert found.told["steps"]


@pytest.mark.rest
def test_a_suite_of_unittest_is_not_fooled_by_an_early_exit(tmp_path: Path) -> None:
    tests = (
        "import unittest\nfrom price import total\n\n\nclass Prices(unittest.TestCase):\n    def test_total(self):\n"
    )
    files = {
        "price.py": WRONG,
        "tests/__init__.py": "",
        "tests/test_price.py": f"{tests}        self.assertEqual(total([1]), 1)\n",
    }
    shop = shopkit.open_shop(tmp_path, files)
    shop.write({"price.py": "import os\nos._exit(0)\n"})
    found = shop.prove("--check", "python3 -m unittest")
    assert found.code == 1, found.out
    assert {"tests-kept", "suspicions"} <= set(found.failed())
    assert "early-exit" in found.suspicions()
    shop.write({"price.py": PRICE})
    found = shop.prove("--check", "python3 -m unittest")
    assert found.code == 0, found.out


def test_scope_and_protected_files_are_held(shop: Shop) -> None:
    shop.write({**FEATURE, "other.py": "", "docs/guide.md": "More.\n"})
    check = ("--check", "grep taxed price.py")
    found = shop.prove(*check, "--scope", "price.py", "--scope", "tests/", "--protect", "docs/")
    assert found.code == 1
    assert {"scope", "protected"} <= set(found.failed())
    assert "other.py" in found.detail("scope")
    assert "docs/guide.md" in found.detail("protected")
    shop.write({"other.py": None, "docs/guide.md": "Prices.\n"})
    assert shop.prove(*check, "--scope", "price.py", "--scope", "tests/", "--protect", "docs/").code == 0
    assert shop.prove(*check, "--protect", "price.py", "--allow-tests").code == 1


@pytest.mark.rest
def test_a_branch_is_held_against_where_it_left_the_default_branch(shop: Shop) -> None:
    shop.git("checkout", "-q", "-b", "tax")
    shop.write(FEATURE)
    shop.git("add", ".")
    shop.git("commit", "-qm", "tax")
    shop.git("checkout", "-q", "main")
    shop.write({"price.py": WRONG})
    found = shop.prove("--head", "tax")
    assert found.code == 0, found.out
    assert (found.told["work"], found.told["base_name"]) == ("tax", "main")
    assert {each["path"] for each in found.told["files"]} == set(FEATURE)
    shop.git("checkout", "-q", "--", ".")
    shop.git("checkout", "-q", "--detach", "tax")
    assert shop.prove("--base", "main").code == 0
    assert shop.prove("--base", "tax").code == 2


@pytest.mark.rest
def test_it_works_in_a_subfolder_and_in_a_linked_work_tree(shop: Shop) -> None:
    shop.write({**FEATURE, "täx folder/Ünïcode name.txt": "é\n"})
    found = shop.prove("--check", "python3 -m pytest -q ..", cwd=shop.top / "tests")
    assert found.code == 0, found.out
    assert found.told["check"]["cwd"] == "tests"
    assert "täx folder/Ünïcode name.txt" in {each["path"] for each in found.told["files"]}
    shop.git("stash", "-qu")
    shop.git("worktree", "add", "-q", str(shop.folder / "linked"), "-b", "linked")
    linked = shop.folder / "linked"
    (linked / "price.py").write_text(TAXED)
    (linked / "tests" / "test_taxed.py").write_text(NEW_TEST)
    found = shop.prove(cwd=linked)
    assert found.code == 0, found.out
    assert found.told["work"] == "linked and 2 uncommitted files"


@pytest.mark.rest
def test_every_form_tells_the_same(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path, {**shopkit.FILES, "tests/check.sh": "grep taxed price.py\n"})
    shop.write(
        {**FEATURE, "tests/test_price.py": TESTS.replace("== 0", "== len([])"), "setup.py": "import x  # noqa\n"}
    )
    check = ("--check", "sh tests/check.sh")  # quick, and red without the change
    text = shop.call(*check)
    assert text.code == 1
    assert text.out.startswith("✗ Not proven: main and 4 uncommitted files\n")
    assert "tests/test_price.py:9: an assertion of the base is gone or changed" in text.out
    assert "! setup.py:1: a checker is switched off for this line: import x # noqa [check-silenced]" in text.out
    assert "→ undo the changes of these files; if they are right, review them and add --allow-tests" in text.out
    assert "checking the base" in text.err
    chinese = shop.call(*check, "--locale", "zh", "--allow-tests")
    assert chinese.code == 0
    assert chinese.out.startswith("✓ 已证明：main 和 4 个未提交的文件\n")
    page = shop.call(*check, "--format", "markdown")
    assert (page.code, page.err) == (1, "")
    assert page.out.startswith("### ❌ Not proven: main and 4 uncommitted files\n")
    assert "\n**What was not checked**\n" in page.out
    report, other = tmp_path / "report.xml", tmp_path / "report.sarif"
    also = ("--also", f"sarif={other}")
    assert shop.call(*check, "--format", "junit", "--output", str(report), *also).out == ""
    found = junit.parse(report.read_bytes())
    assert isinstance(found, Outcomes)
    assert found.failed == {"agenttalk.prove::protected"}
    assert "agenttalk.prove::base-tests" in found.passed
    sarif = json.loads(other.read_text())
    _require_sarif(sarif)
    results = {each["ruleId"]: each for each in sarif["runs"][0]["results"]}
    assert (results["check-silenced"]["level"], results["assertion-changed"]["level"]) == ("note", "error")
    assert results["missing-protected"]["level"] == "error"
    unwritable = shop.call(*check, "-o", str(tmp_path / "none" / "x"))
    assert (unwritable.code, "cannot write" in unwritable.err) == (1, True)


def _require_sarif(told: dict[str, Any]) -> None:
    """What the schema of SARIF 2.1.0 requires, and what code scanning reads."""
    assert told["version"] == "2.1.0"
    assert str(told["$schema"]).endswith("sarif-2.1.0.json")
    [run] = told["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"]
    known = {each["id"] for each in driver["rules"]}
    assert len(known) == len(driver["rules"])
    for each in run["results"]:
        assert each["ruleId"] in known
        assert each["level"] in {"none", "note", "warning", "error"}
        assert each["message"]["text"]
        for place in each.get("locations", ()):
            uri = place["physicalLocation"]["artifactLocation"]["uri"]
            assert uri
            assert " " not in uri
            assert place["physicalLocation"].get("region", {"startLine": 1})["startLine"] >= 1
    assert run["invocations"][0]["executionSuccessful"] is True


@pytest.mark.rest
def test_the_check_gets_what_git_ignores_and_what_it_is_given(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path, {**shopkit.FILES, ".gitignore": "node_modules/\n"})
    shop.write({**FEATURE, "node_modules/x": ""})
    check = ("--check", 'test -e node_modules/x -a "$RATE" = 2 && grep taxed price.py')
    found = shop.prove(*check, "--env", "RATE=2")
    assert found.code == 0, found.out
    assert any("node_modules" in each for each in found.told["unchecked"])
    assert shop.prove(*check, "--env", "RATE=3").code == 1
    assert shop.prove(*check, "--env", "RATE=2", "--link", "none").code == 1
    assert shop.prove(*check, "--env", "RATE=2", "--link", "node_modules/").code == 0
    shop.write({".gitignore": "env/\n", "env/bin/rate": "#!/bin/sh\necho 2\n"})
    (shop.top / "env/bin/rate").chmod(0o755)
    activated = f"{shop.top}/env/bin:{os.environ['PATH']}"
    found = shop.call("--check", 'test "$(rate)" = 2 && grep taxed price.py', PATH=activated)
    assert found.code == 0, found
    shop.write({".gitignore": "node_modules/\nenv/\n"})
    prepare = ("--prepare", "mkdir node_modules && touch node_modules/x")
    assert shop.prove(*check, "--env", "RATE=2", *prepare).code == 0
    failed = shop.prove("--prepare", "echo no network; exit 3")
    assert (failed.code, "--prepare ended with code 3: no network" in failed.out) == (1, True)


@pytest.mark.rest
def test_a_check_that_takes_too_long_is_not_proven(shop: Shop) -> None:
    shop.write(FEATURE)
    found = shop.prove("--check", "sleep 100", "--timeout", "1")
    assert found.code == 1
    assert "check" in found.failed()


FRAMES = "class Any(int):\n    def __eq__(self, other):\n        return True\n\n    __hash__ = int.__hash__\n\n\n"


@pytest.mark.rest
def test_lines_that_could_deceive_the_check_wait_for_a_person(shop: Shop) -> None:
    shop.write({**FEATURE, "price.py": FRAMES + TAXED})
    found = shop.prove()
    assert found.code == 1, found.out
    assert found.failed() == ["suspicions"]
    [said] = [each["detail"] for each in found.told["evidence"] if each["id"] == "suspicions"]
    assert "price.py:2 [always-equal]" in said
    assert shop.prove("--reviewed", said.rpartition("--reviewed ")[2]).code == 0


@pytest.mark.rest
def test_answers_that_the_tests_of_the_base_give_away_wait_for_a_person(tmp_path: Path) -> None:
    lines = {"Two pears": "2 x pear", "One plum, please": "1 x plum"}
    tests = "from price import name\n\n\ndef test_names():\n" + "".join(
        f"    assert name({given!r}) == {answer!r}\n" for given, answer in lines.items()
    )
    shop = shopkit.open_shop(
        tmp_path,
        {**shopkit.FILES, "price.py": f"{PRICE}\n\ndef name(text):\n    return ''\n", "tests/test_name.py": tests},
    )
    shop.write({"price.py": f"{PRICE}\n\nKNOWN = {lines!r}\n\n\ndef name(text):\n    return KNOWN[text]\n"})
    found = shop.prove()
    assert (found.failed(), found.suspicions()) == (["suspicions"], {"answers-copied"}), found.out


@pytest.mark.rest
def test_a_review_holds_for_the_lines_that_were_seen_and_never_where_they_are_refused(shop: Shop) -> None:
    shop.write({**FEATURE, "price.py": FRAMES + TAXED})
    [said] = [each["detail"] for each in shop.prove().told["evidence"] if each["id"] == "suspicions"]
    mark = said.rpartition("--reviewed ")[2]
    assert shop.prove("--reviewed", mark[:3]).code == 1
    assert shop.prove("--suspicion", "note").code == 0
    assert shop.prove("--suspicion", "refuse", "--reviewed", mark).code == 1
    shop.write({"price.py": FRAMES.replace("Any", "All") + FRAMES + TAXED})
    assert shop.prove("--reviewed", mark).code == 1
