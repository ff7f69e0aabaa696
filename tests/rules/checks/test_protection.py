"""What a check consists of, and what therefore no work may change."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from agenttalk.contracts.promise import AnyCheck, CompletionPromise
from agenttalk.rules.checks import protection, test_runners
from agenttalk.rules.checks.protection import Boundary, FileTree
from agenttalk.rules.core import scope

FILES = (
    "calc.py",
    "app.py",
    "check.sh",
    "expected.txt",
    "out.txt",
    "tests/__init__.py",
    "tests/test_calc.py",
    "tests/data/numbers.txt",
    "src/calc.test.js",
    "src/calc.js",
    "pkg/__init__.py",
    "pkg/cli.py",
    "pkg/test_inner.py",
    "tools/verify.py",
    "tools/notes.txt",
)
TREE = FileTree.from_paths(FILES)
TESTS = {path for path in FILES if test_runners.is_test(path)}


def promised(*checks: dict[str, Any], **keys: Any) -> CompletionPromise:
    made = [{"id": f"c{number}", **each} for number, each in enumerate(checks)]
    said = {"id": "cp-1-0000", "objective": "o", "acceptance": [], "checks": made, **keys}
    return CompletionPromise.model_validate(said)


def ran(command: str, **keys: Any) -> AnyCheck:
    return promised({"kind": "run", "run": command, **keys}).checks[0]


def test_what_is_a_test_is_told_by_its_name() -> None:
    assert {
        "tests/__init__.py",
        "tests/test_calc.py",
        "tests/data/numbers.txt",
        "src/calc.test.js",
        "pkg/test_inner.py",
    } == TESTS
    for path in (
        "a/FooTest.php",
        "src/test/java/A.java",
        "x_test.go",
        "a_spec.rb",
        "run.bats",
        "TestIt.java",
        "e2e/a.ts",
    ):
        assert test_runners.is_test(path), path
    for path in ("latest.py", "contest.js", "attestation.go", "src/spectrum.rb"):
        assert not test_runners.is_test(path), path


@pytest.mark.mends("A3")
@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("python3 -m pytest", TESTS),
        ("python -m unittest -q tests.test_calc", TESTS),
        ("npm test", TESTS),
        ("cargo test --all", TESTS),
        ("make", TESTS),
        ("sh check.sh", {"check.sh", *TESTS}),
        ("./check.sh arg", {"check.sh", *TESTS}),
        ("bash -lc './check.sh && true'", {"check.sh", *TESTS}),
        ("env A=1 timeout 5 python3 tools/verify.py > out.txt", {"tools/verify.py", *TESTS}),
        ("cd tools && python3 verify.py", {"tools/verify.py", *TESTS}),
        ("python3 -m pkg.cli", {"pkg/cli.py", *TESTS}),
        ("python3 -m pkg.cli.main", {"pkg/cli.py", *TESTS}),
        ("python3 -m app", {"app.py", *TESTS}),
        ("python3 -m pkg.data.more", set()),
        ("custom tests.data", {"tests/data/numbers.txt"}),
        ("custom no.such.module", set()),
        ("(true)", set()),
        ("diff expected.txt out.txt", {"expected.txt", "out.txt", *TESTS}),
        ("python3 app.py < expected.txt", {"app.py", "expected.txt", *TESTS}),
        ("cat expected.txt | cmp - out.txt", {"expected.txt", "out.txt", *TESTS}),
        ("lint --config=tools/verify.py pkg", {"tools/verify.py", "pkg/test_inner.py", *TESTS}),
        ("custom --cov=pkg tests", TESTS - {"src/calc.test.js", "pkg/test_inner.py"}),
        ("custom tests/test_*.py", TESTS),
        ("custom pkg", {"pkg/test_inner.py"}),
        ("grep -q fixed app.py", set()),
        ("test -f out.txt && ! grep -q x calc.py", set()),
        ("ruff check src pkg", set()),
        ("python3 -c 'import calc; assert calc.add(1, 2) == 3'", set()),
        ("npm run build", set()),
        ("go vet ./...", set()),
        ("echo 'unbalanced", set()),
        ("cd", set()),
        ("true", set()),
        (">", set()),
    ],
)
def test_a_check_consists_of_what_its_command_runs(command: str, files: set[str]) -> None:
    assert protection.list_check_files(ran(command), TREE) == files


def test_a_shell_in_a_shell_in_a_shell_is_looked_into() -> None:
    command = "sh check.sh"
    for _ in range(4):
        command = f"sh -c {shlex.quote(command)}"
    assert "check.sh" in protection.list_check_files(ran(command), TREE)


def test_an_empty_list_says_that_nothing_is_protected_and_others_that_more_is() -> None:
    assert protection.list_check_files(ran("sh check.sh", protected=[]), TREE) == frozenset()
    assert "check.sh" in protection.list_check_files(ran("sh check.sh", protected=["calc.py"]), TREE)
    assert protection.list_check_files(promised({"kind": "report"}).checks[0], TREE) == frozenset()
    suite = promised({"kind": "tests", "run": "./it", "junit": "r.xml"}).checks[0]
    assert protection.list_check_files(suite, TREE) == TESTS
    inside = promised({"kind": "run", "run": "python3 verify.py", "cwd": "tools"}).checks[0]
    assert "tools/verify.py" in protection.list_check_files(inside, TREE)


@pytest.mark.mends("A3")
def test_a_task_whose_job_is_its_tests_may_change_them_and_that_is_told() -> None:
    suite = {"kind": "run", "run": "python3 -m pytest"}
    held = protection.derive_protection(promised(suite, allowedScope=["calc.py", "tests/**"]), TREE)
    assert not held.covers("tests/test_calc.py")
    assert "tests/test_calc.py" in held.opened
    assert held.covers("pkg/test_inner.py")
    assert held.filter_paths(["pkg/test_inner.py", "calc.py"]) == ("pkg/test_inner.py",)


@pytest.mark.parametrize(
    ("allowed", "held"),
    [
        ([], True),
        (["**"], True),
        (["*.js"], True),
        (["src/**"], True),
        (["src/calc.test.js"], False),
        (["/src/calc.test.js"], False),
        (["src/*.test.js"], False),
        (["src/*.test.js", "!src/calc.test.js"], True),
        (["src//"], True),
    ],
)
def test_a_scope_opens_tests_only_if_it_speaks_of_them(allowed: list[str], held: bool) -> None:
    suite = {"kind": "run", "run": "npm test"}
    assert protection.derive_protection(promised(suite, allowedScope=allowed), TREE).covers("src/calc.test.js") is held


def test_what_a_command_names_is_open_to_a_task_whose_scope_names_it() -> None:
    program = {"kind": "run", "run": "python3 app.py"}
    assert protection.derive_protection(promised(program), TREE).covers("app.py")
    assert not protection.derive_protection(promised(program, allowedScope=["app.py"]), TREE).covers("app.py")
    scoped = promised(program, allowedScope=["app.py"], disallowedScope=["app.py"])
    assert protection.derive_protection(scoped, TREE).covers("app.py")


@pytest.mark.mends("F4")
def test_what_one_task_protects_no_other_changes_unless_its_scope_names_it() -> None:
    guard = promised({"kind": "run", "run": "python3 -m pytest", "protected": ["tools/**"]})
    other = protection.derive_protection(promised({"kind": "file", "path": "README.md"}), TREE, {"guard": guard})
    assert other.covers("tests/test_calc.py")
    assert other.covers("tools/verify.py")
    assert other.covers("conftest.py")
    assert not other.covers("tools/new.py")
    assert not other.covers("tests/test_new.py")
    assert other.shared
    named = promised({"kind": "file", "path": "README.md"}, allowedScope=["tools/**", "conftest.py", "tests/**"])
    lent = protection.derive_protection(named, TREE, {"guard": guard})
    assert not lent.covers("tools/verify.py")
    assert not lent.covers("conftest.py")
    assert lent.covers("setup.cfg")
    alone = protection.derive_protection(None, TREE, {"quiet": promised({"kind": "file", "path": "README.md"})})
    assert not alone.covers("conftest.py")


def test_a_check_that_only_looks_holds_no_configuration() -> None:
    assert not protection.holds_configuration(ran("grep -q x app.py"))
    assert not protection.holds_configuration(ran("npm test", protect_config=False))
    assert protection.holds_configuration(ran("npm test"))
    assert protection.list_configuration(promised({"kind": "report"}).checks[0]) == ()
    assert "**/Makefile" in protection.list_configuration(ran("make test"))
    assert "**/Makefile" not in protection.list_configuration(ran("npm test"))


def test_a_boundary_is_what_is_protected_and_what_the_scope_does_not_allow() -> None:
    held = protection.derive_protection(promised({"kind": "run", "run": "sh check.sh"}), TREE)
    boundary = Boundary(held, scope.make_scope(["calc.py", "check.sh"], []))
    assert [boundary.covers(path) for path in ("calc.py", "check.sh", "README.md")] == [False, True, True]


@pytest.mark.mends("F9")
@pytest.mark.parametrize(
    ("command", "path", "found"),
    [
        ("python3 -m pytest", "random.py", True),
        ("python3 -m pytest", "random/__init__.py", True),
        ("python3 -m pytest", "tests/random.py", True),
        ("python3 -m pytest", "__init__.py", True),
        ("cd web && python3 -m pytest", "web/pytest.py", True),
        ("cd web && python3 -m pytest", "web/pytest/__init__.py", True),
        ("python3 tools/verify.py", "tools/json.py", True),
        ("python3 -m pytest", "json.cpython-312-x86_64-linux-gnu.so", True),
        ("python3 -m pytest", "calc2.py", False),
        ("python3 -m pytest", "src/random.py", False),
        ("python3 -m pytest", "test/__init__.py", False),
        ("python3 -m pytest", "random.txt", False),
        ("python3 -m pytest", "random", False),
        ("grep -q x random.py", "random.py", False),
    ],
)
def test_new_modules_must_not_stand_in_the_place_of_others(command: str, path: str, found: bool) -> None:
    promise = promised({"kind": "run", "run": command}, {"kind": "report"})
    assert protection.find_shadowing_files(promise, TREE, [path]) == ([path] if found else [])
    assert protection.find_shadowing_files(None, TREE, [path]) == []


@pytest.mark.parametrize(
    ("command", "env", "path", "found"),
    [
        ("PYTHONPATH=lib python -m pytest", {}, "lib/pytest.py", True),
        ("PYTHONPATH='lib:$PWD/more' python -m pytest", {}, "more/random.py", True),
        ("export PYTHONPATH=./lib; python -m pytest", {}, "lib/pytest.py", True),
        ("cd web && PYTHONPATH=lib python -m pytest", {}, "web/lib/pytest.py", True),
        ("PYTHONPATH=. python -m pytest", {}, "pytest.py", True),
        ("python -m pytest", {"PYTHONPATH": "lib"}, "lib/unittest/__init__.py", True),
        ("python -m pytest", {"PYTHONPATH": "/opt/lib:$HOME/lib:~/lib"}, "opt/lib/pytest.py", False),
        ("MYPYTHONPATH=lib python -m pytest", {}, "lib/pytest.py", False),
        ("PYTHONPATH=lib python -m pytest", {}, "lib/helpers.py", False),
        ("PATH=bin:$PATH verify", {}, "bin/verify", True),
        ("PATH=bin:$PATH verify", {}, "bin/other", False),
        ("make test", {"PATH": "bin:/usr/bin"}, "bin/make", True),
    ],
)
def test_new_files_must_not_stand_where_a_check_looks_first(
    command: str, env: dict[str, str], path: str, *, found: bool
) -> None:
    promise = promised({"kind": "run", "run": command, "env": env})
    assert protection.find_shadowing_files(promise, TREE, [path]) == ([path] if found else [])


def test_a_program_that_a_check_finds_in_the_tree_is_part_of_it() -> None:
    tree = FileTree.from_paths([*FILES, "bin/verify"])
    [check] = promised({"kind": "run", "run": "PATH=bin:$PATH verify"}).checks
    assert "bin/verify" in protection.list_check_files(check, tree)
