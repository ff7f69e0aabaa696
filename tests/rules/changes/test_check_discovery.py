"""How the check of a repository is found, from names of files and the contents of a few."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from agenttalk.contracts import promise
from agenttalk.rules.changes.check_discovery import (
    REPORT,
    CheckCandidate,
    ProjectFiles,
    add_report,
    find_checks,
    list_wanted,
    make_candidate,
)
from agenttalk.rules.checks.protection import FileTree

JUNIT = f"--junitxml={REPORT}"
VITEST = f"--reporter=default --reporter=junit --outputFile.junit={REPORT}"
PYTEST = f"python3 -m pytest -q {JUNIT}"


def discover(files: Mapping[str, str], *at_hand: str) -> tuple[CheckCandidate, ...]:
    """Find the checks of a repository; contents are only those that are asked for."""
    contents = {path: files[path].encode() for path in list_wanted(list(files))}
    return find_checks(ProjectFiles(list(files), contents, at_hand))


def commands(files: Mapping[str, str], *at_hand: str) -> list[str]:
    return [each.run for each in discover(files, *at_hand)]


def package(**told: object) -> str:
    return json.dumps(told)


@pytest.mark.parametrize(
    "files",
    [
        {"pytest.ini": "[pytest]\n"},
        {"pyproject.toml": "[tool.pytest.ini_options]\n"},
        {"setup.cfg": "[tool:pytest]\naddopts = -q\n"},
        {"tests/conftest.py": "", "tests/test_a.py": ""},
        {"requirements-dev.txt": "pytest==8\n", "test_a.py": ""},
        {"pyproject.toml": '[project.optional-dependencies]\ntest = ["pytest"]\n', "tests/a_test.py": ""},
        {"tests/test_price.py": "from price import total\n\ndef test_total():\n    assert total() == 1\n"},
        {"tests/test_price.py": "import pytest\nclass TestPrice:\n    pass\n"},
    ],
)
def test_pytest_is_found_by_its_settings_its_requirement_or_its_tests(files: Mapping[str, str]) -> None:
    [found] = discover(files)
    assert (found.tool, found.run, found.kind, found.junit) == ("pytest", PYTEST, "tests", REPORT)
    assert found.why in {f"{path} belongs to pytest" for path in files}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": "run pytest", "price.py": "x = 1"},
        {"pyproject.toml": 'broken = ["pytest"'},
        {"pyproject.toml": "tool = 3"},
        {"setup.cfg": "no section\n", "tests/test_a.py": "x = 1"},
        {"setup.cfg": "[metadata]\nname = x\n", "requirements.txt": "requests\n"},
        {"package.json": "[]"},
        {"package.json": "{", "src/a.test.js": ""},
        {"package.json": package(scripts={"test": 'echo "Error: no test specified" && exit 1'})},
        {"package.json": package(scripts=["test"], devDependencies=None)},
        {"Makefile": "test := 1\nbuild: test\n"},
        {".github/workflows/a.yml": "jobs:\n  a:\n    steps:\n      - run: make build\n      - uses: x/test\n"},
    ],
)
def test_a_repository_without_a_sign_of_tests_has_no_check(files: Mapping[str, str]) -> None:
    assert commands(files) == []


def test_an_environment_at_hand_is_used() -> None:
    files = {"pytest.ini": ""}
    assert commands(files, ".venv") == [f".venv/bin/python -m pytest -q {JUNIT}"]
    assert commands(files, "venv", "node_modules") == [f"venv/bin/python -m pytest -q {JUNIT}"]


@pytest.mark.parametrize(
    ("path", "more", "run"),
    [
        ("test_a.py", {}, "python3 -m unittest"),
        ("tests/test_a.py", {"tests/__init__.py": ""}, "python3 -m unittest"),
        ("tests/test_a.py", {}, "python3 -m unittest discover -s tests"),
        ("my tests/unit/test_a.py", {}, "python3 -m unittest discover -s 'my tests/unit'"),
    ],
)
def test_unittest_is_found_by_a_test_case(path: str, more: Mapping[str, str], run: str) -> None:
    body = "import unittest\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n"
    [found] = discover({path: body, **more})
    assert (found.tool, found.run, found.kind, found.why) == ("unittest", run, "run", f"{path} belongs to unittest")


def test_tox_and_nox_follow_the_runner_that_they_call() -> None:
    files = {"tox.ini": "[tox]\n[pytest]\n", "noxfile.py": "", "tests/test_a.py": ""}
    assert commands(files) == [PYTEST, "tox", "nox"]
    assert commands({"pyproject.toml": "[tool.tox]\n"}) == ["tox"]


@pytest.mark.parametrize(
    ("told", "lock", "tool", "run"),
    [
        ({"scripts": {"test": "node --test"}}, "", "npm", "npm test"),
        ({"scripts": {"test": "mocha"}}, "package-lock.json", "npm", "npm test"),
        ({"scripts": {"test": "jest"}}, "pnpm-lock.yaml", "pnpm", "pnpm test"),
        ({"scripts": {"test": "jest"}}, "yarn.lock", "yarn", "yarn test"),
        ({"scripts": {"test": "jest"}}, "bun.lock", "bun", "bun run test"),
        ({"scripts": {"test": "jest"}, "packageManager": "pnpm@9.1.0"}, "yarn.lock", "pnpm", "pnpm test"),
        ({"scripts": {"test": "jest"}, "packageManager": "else@1"}, "", "npm", "npm test"),
        (
            {"scripts": {"test": "bun test src"}},
            "bun.lockb",
            "bun",
            f"bun test src --reporter=junit --reporter-outfile={REPORT}",
        ),
        ({"devDependencies": {"jest": "^29"}}, "", "jest", "npx --no-install jest --ci"),
        ({"devDependencies": {"jest": "^29"}}, "yarn.lock", "jest", "yarn run jest --ci"),
        ({"devDependencies": {"vitest": "^2"}}, "", "vitest", f"npx --no-install vitest run {VITEST}"),
        (
            {"devDependencies": {"vitest": "^2"}, "scripts": {"test": "vitest --watch --dir src"}},
            "pnpm-lock.yaml",
            "vitest",
            f"pnpm exec vitest run --dir src {VITEST}",
        ),
        ({"dependencies": {"vitest": "^2"}, "scripts": {"test": "tsc && vitest run"}}, "", "npm", "npm test"),
    ],
)
def test_a_package_is_checked_by_its_script_or_its_runner(
    told: dict[str, object], lock: str, tool: str, run: str
) -> None:
    files = {"package.json": package(**told), "src/a.test.ts": "", **({lock: ""} if lock else {})}
    [found] = discover(files)
    assert (found.tool, found.run) == (tool, run)
    assert found.kind == ("tests" if REPORT in run else "run")
    assert "package.json" in found.why


def test_bun_finds_its_tests_without_a_script() -> None:
    files = {"package.json": package(packageManager="bun@1.2.0"), "src/a.test.ts": ""}
    assert commands(files) == [f"bun test --reporter=junit --reporter-outfile={REPORT}"]
    assert commands({"package.json": package(packageManager="bun@1.2.0")}) == []


@pytest.mark.parametrize(
    ("files", "tool", "run"),
    [
        (["go.mod"], "go", "go test ./..."),
        (["go.work"], "go", "go test ./..."),
        (["Cargo.toml"], "cargo", "cargo test"),
        (["pom.xml"], "mvn", "mvn -q test"),
        (["pom.xml", "mvnw"], "mvn", "./mvnw -q test"),
        (["build.gradle.kts"], "gradle", "gradle test"),
        (["settings.gradle", "gradlew"], "gradle", "./gradlew test"),
        (["Shop.sln", "src/Shop.csproj"], "dotnet", "dotnet test"),
        (["test/Shop.Tests.fsproj"], "dotnet", "dotnet test"),
    ],
)
def test_the_tool_of_a_language_follows_from_the_file_at_the_top(files: list[str], tool: str, run: str) -> None:
    [found] = discover(dict.fromkeys(files, ""))
    assert (found.tool, found.run, found.why) == (tool, run, f"{files[0]} belongs to {tool}")


@pytest.mark.parametrize(("text", "run"), [("all:\n\ttrue\ntest: all\n", "make test"), ("check :\n", "make check")])
def test_a_target_of_make_is_a_check(text: str, run: str) -> None:
    [found] = discover({"Makefile": text})
    assert (found.run, found.why) == (run, f"Makefile has a target {run.split()[1]!r}")


def test_steps_of_workflows_come_last_and_only_those_that_run_tests() -> None:
    workflow = """
jobs:
  test:
    steps:
      - uses: actions/checkout@v4
      - name: Install
        run: pip install -e .
      - run: pytest -q tests/unit
      - run: "npm test"
      - name: All
        run: |
          # tests
          cargo test --workspace

          echo done
      - run: pytest ${{ matrix.args }}
      - run:
"""
    found = discover({".gitea/workflows/ci.yaml": workflow, "Makefile": "test:\n\ttrue\n"})
    assert [each.run for each in found] == [
        "make test",
        f"pytest -q tests/unit {JUNIT}",
        "npm test",
        "cargo test --workspace",
    ]
    assert found[1].why == "a step of the workflow .gitea/workflows/ci.yaml runs it"
    assert [each.tool for each in found] == ["make", "pytest", "npm", "cargo"]


def test_what_the_top_has_already_is_not_listed_again_for_a_workflow() -> None:
    workflow = "      - run: make test\n      - run: cd web && npm test\n      - run: make 'test\n"
    found = discover({".github/workflows/ci.yml": workflow, "Makefile": "test:\n"})
    assert [(each.tool, each.run) for each in found] == [
        ("make", "make test"),
        ("sh", "cd web && npm test"),
        ("sh", "make 'test"),
    ]


def test_projects_below_the_top_are_found_when_the_top_has_none() -> None:
    files = {
        "docs/index.md": "",
        "backend/pytest.ini": "",
        "web/app/package.json": package(scripts={"test": "jest"}),
        "far/down/below/Makefile": "test:\n",
        "net/Shop.csproj": "",
    }
    found = discover(files, "backend/.venv")
    assert {(each.cwd, each.run) for each in found} == {("", "dotnet test")}
    del files["net/Shop.csproj"]
    found = discover(files, "backend/.venv")
    assert [(each.cwd, each.run) for each in found] == [
        ("backend", f".venv/bin/python -m pytest -q {JUNIT}"),
        ("web/app", "npm test"),
    ]
    check = found[0].to_check("c")
    assert isinstance(check, promise.TestsCheck)
    assert (check.id, check.cwd, check.junit) == ("c", "backend", f"backend/{REPORT}")


@pytest.mark.parametrize("name", ["a\nb", "a\u2028b", "a\udcffb", "a\x1b[0m"])
def test_a_folder_whose_name_cannot_be_shown_is_left_out(name: str) -> None:
    assert discover({f"{name}/Makefile": "test:\n"}) == ()


def test_a_candidate_names_the_files_that_it_consists_of() -> None:
    files = {
        "price.py": "",
        "pytest.ini": "",
        "pyproject.toml": "",
        "tests/test_price.py": "",
        "tests/conftest.py": "",
        "deep/er/in/pyproject.toml": "",
    }
    [found] = discover(files)
    assert found.files == ("pyproject.toml", "pytest.ini", "tests/conftest.py", "tests/test_price.py")
    assert isinstance(found.to_check(), promise.TestsCheck)


def test_a_command_of_a_person_becomes_a_check() -> None:
    tree = FileTree.from_paths(["check.sh", "price.py"])
    found = make_candidate("sh check.sh", tree)
    assert (found.tool, found.run, found.kind, found.why) == ("sh", "sh check.sh", "run", "you named it")
    assert found.files == ("check.sh",)
    check = found.to_check("proof")
    assert isinstance(check, promise.RunCheck)
    assert (check.id, check.run, check.cwd) == ("proof", "sh check.sh", None)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("pytest", JUNIT),
        ("pytest -q tests/test_*.py", JUNIT),
        ("PYTHONPATH=src python3.12 -m pytest", JUNIT),
        (".venv/bin/pytest -x", JUNIT),
        ("uv run --frozen pytest", JUNIT),
        ("poetry run python -m pytest", JUNIT),
        ("npx vitest run", VITEST),
        ("pnpm exec vitest run src", VITEST),
        ("bun test", f"--reporter=junit --reporter-outfile={REPORT}"),
    ],
)
def test_a_known_runner_is_asked_for_a_report(command: str, option: str) -> None:
    assert add_report(command) == (f"{command} {option}", REPORT)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "make test",
        "pytest && ruff check",
        "pytest # quick",
        "pytest 'unclosed",
        "A=1",
        "uv run",
        "python pytest",
        "vitest",
        "echo pytest",
        "pytest $(cat args)",
        "pytest --junitxml",
        "pytest --junitxml=/tmp/report.xml",
        "pytest --junitxml ../report.xml",
    ],
)
def test_any_other_command_stays_as_it_is(command: str) -> None:
    assert add_report(command) == (command, "")


@pytest.mark.parametrize("command", ["pytest --junitxml=out/r.xml -q", "pytest --junit-xml out/r.xml"])
def test_a_report_that_a_command_writes_already_is_read(command: str) -> None:
    assert add_report(command) == (command, "out/r.xml")


def test_only_few_files_are_read() -> None:
    paths = [f"tests/test_{number}.py" for number in range(500)]
    paths += [f"r{number}/pyproject.toml" for number in range(500)]
    wanted = list_wanted([*paths, "setup.cfg", "a/b/c/setup.cfg", ".github/workflows/ci.yml"])
    assert len(wanted) == 200
    assert wanted[0] == "setup.cfg"
    assert ".github/workflows/ci.yml" in wanted
    assert "a/b/c/setup.cfg" not in wanted


def test_hostile_names_and_contents_are_only_data() -> None:
    files = {
        "pytest.ini": "\0\x1b[2J",
        "package.json": "[" * 100_000,
        "pyproject.toml": "a = " + "[" * 5_000,
        "tests/test_\x1b[31m.py": "\xff",
        ".github/workflows/a.yml": "- run: pytest \x1b[2J; rm -rf /\n" + "&a [*a]\n" * 100,
    }
    found = discover(files)
    assert found[0].run == PYTEST
    assert "\x1b" not in "".join(each.why for each in found)
