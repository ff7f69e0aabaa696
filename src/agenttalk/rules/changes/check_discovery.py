"""Finds the command by which a repository is checked, from the names of its files and the contents of a few of them.

Everything here is data of strangers: nothing is run, and what cannot be read is left out. A person sees what was found
before it runs.
"""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from agenttalk.contracts.promise import RunCheck, TestsCheck
from agenttalk.rules.checks import protection, test_runners
from agenttalk.rules.checks.protection import FileTree
from agenttalk.rules.core import scope
from agenttalk.rules.suites.runner_calls import split_simple
from agenttalk.rules.text import change_words
from agenttalk.rules.text.message import Message

REPORT: Final = ".agenttalk-tests.xml"
"""Where a test runner writes its report in a sealed checkout."""
_MOST_READ: Final = 200
"""Files that are read, at most."""
_TEST_FILES: Final = 12
"""Test files of Python that are read: they tell which runner they are for."""
_DEEPEST: Final = 2
"""Folders down to which projects are searched where the top has none."""
_MOST_FOUND: Final = 20
_WORKFLOWS: Final = re.compile(r"\.(?:github|gitea|forgejo)/workflows/[^/]+\.ya?ml\Z")
_SETTINGS: Final = frozenset(
    {
        *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "setup.cfg", "tox.ini"),
        *("package.json", "Makefile", "makefile", "GNUmakefile"),
    }
)
_REQUIREMENTS: Final = re.compile(r"(?:.*requirements.*\.(?:txt|in)|Pipfile|environment\.ya?ml)\Z")
_PYTHON_TEST: Final = re.compile(r"(?:test_.*|.*_test|tests?)\.py\Z")
_PYTEST: Final = re.compile(rb"\bpytest\b")
_TEST_FUNCTION: Final = re.compile(rb"(?m)^(?:async )?def test_?\w*\(|^\s*(?:import pytest|from pytest )")
_UNITTEST: Final = re.compile(rb"\bTestCase\b")
_NO_TEST: Final = re.compile(r"no test specified")
_MAKE_RULE: Final = re.compile(rb"(?m)^(test|check)[ \t]*:(?!=)")
_RUN_STEP: Final = re.compile(r"(?P<margin>\s*)(?:- )?(?P<key>run|name|uses):\s*(?P<text>.*)\Z")
_BLOCK: Final = re.compile(r"[|>][+-]?\d?\s*\Z")
_PYTHON: Final = re.compile(r"python[\d.]*\Z")
_LOCKED_MANAGERS: Final = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
)
_MANAGERS: Final = frozenset({"npm", "pnpm", "yarn", "bun"})
_RUNS_LOCALLY: Final = {"npm": "npx --no-install", "pnpm": "pnpm exec", "yarn": "yarn run", "bun": "bun x --no-install"}
"""How each manager of packages runs a program that is installed in the project."""


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """What is known of a repository: the paths of its files, and the contents of those that `list_wanted` names."""

    paths: Collection[str]
    contents: Mapping[str, bytes] = field(default_factory=dict)
    at_hand: Collection[str] = ()
    """Ignored paths of the user's folder that checkouts get, too, such as `.venv`."""


@dataclass(frozen=True, slots=True)
class CheckCandidate:
    """A command that may be the check of a repository."""

    tool: str
    run: str
    """The command line for `sh -c`."""
    why: Message
    """From what it follows."""
    cwd: str = ""
    """The folder where it runs; empty for the top."""
    junit: str = ""
    """Where it writes a report about single tests; empty if it writes none."""
    files: tuple[str, ...] = ()
    """Files of the repository that it consists of: tests, and what decides how they run."""

    @property
    def kind(self) -> Literal["run", "tests"]:
        """The kind of check that it becomes."""
        return "tests" if self.junit else "run"

    def to_check(self, check_id: str = "check") -> RunCheck | TestsCheck:
        """Make a check of it."""
        named: dict[str, Any] = {"id": check_id, "kind": self.kind, "run": self.run}
        named |= {"cwd": self.cwd} if self.cwd else {}
        if self.junit:
            return TestsCheck.model_validate({**named, "junit": posixpath.join(self.cwd, self.junit)})
        return RunCheck.model_validate(named)


def list_wanted(paths: Collection[str]) -> tuple[str, ...]:
    """List the files whose contents `find_checks` needs, the most important first."""
    near = [path for path in sorted(paths) if path.count("/") <= _DEEPEST or _WORKFLOWS.match(path)]
    workflows = [path for path in near if _WORKFLOWS.match(path)]
    settings = sorted((path for path in near if _name(path) in _SETTINGS), key=_by_depth)
    required = [path for path in near if _REQUIREMENTS.match(_name(path))]
    tests = [path for path in sorted(paths, key=_by_depth) if _PYTHON_TEST.match(_name(path))]
    top = [path for path in settings if "/" not in path]
    return tuple(dict.fromkeys([*top, *workflows, *tests[:_TEST_FILES], *settings, *required]))[:_MOST_READ]


def find_checks(project: ProjectFiles) -> tuple[CheckCandidate, ...]:
    """Find the commands that check a repository, the most telling first; empty if there are none.

    Where the top has no project, folders below it are searched. Steps of workflows come last.
    """
    tree = FileTree.from_paths(project.paths)
    places = [""]
    found = list(_at_place(project, ""))
    if not found:
        near = (each for each in tree.folders if each.count("/") < _DEEPEST and each.isprintable())
        places = sorted(near, key=_by_depth)
        found = [candidate for place in places for candidate in _at_place(project, place)]
    known = {(each.cwd, each.run) for each in found}
    found += [each for each in _in_workflows(project) if (each.cwd, each.run) not in known]
    unique = {(each.cwd, each.run): each for each in reversed(found)}
    return tuple(_with_files(each, tree) for each in reversed(unique.values()))[:_MOST_FOUND]


def make_candidate(command: str, tree: FileTree, cwd: str = "") -> CheckCandidate:
    """Make a candidate of a command that a person named. Known runners are asked for a report about single tests."""
    run, junit = add_report(command)
    return _with_files(CheckCandidate(_tool_of(command), run, change_words.CHECK_NAMED(), cwd, junit), tree)


def add_report(command: str) -> tuple[str, str]:
    """Ask a known test runner for a JUnit report: the command to run, and where the report is.

    A command that is more than one call of such a runner stays as it is, without a report.
    """
    words = split_simple(command)
    runner = _runner_in(words)
    if not runner:
        return command, ""
    for number, word in enumerate(words):
        option, _, value = word.partition("=")
        if option in {"--junitxml", "--junit-xml", "--reporter-outfile", "--outputFile", "--outputFile.junit"}:
            path = value or (words[number + 1] if number + 1 < len(words) else "")
            return command, "" if scope.explain_fault(path) or path.startswith("/") else path
    return f"{command} {_REPORTING[runner]}", REPORT


_REPORTING: Final[Mapping[str, str]] = {
    "pytest": f"--junitxml={REPORT}",
    "vitest": f"--reporter=default --reporter=junit --outputFile.junit={REPORT}",
    "bun": f"--reporter=junit --reporter-outfile={REPORT}",
}


def _runner_in(words: Sequence[str]) -> str:
    """Return the runner with a report that a simple command calls; empty if it calls none."""
    names = [posixpath.basename(word) for word in words]
    if names[:2] == ["bun", "test"]:
        return "bun"
    while names and names[0] in {"uv", "poetry", "pdm", "hatch", "pipenv", "npx", "pnpm", "yarn", "bun", "bunx"}:
        names = names[1:]
        while names and (names[0] in {"run", "exec", "x", "dlx"} or names[0].startswith("-")):
            names = names[1:]
    if len(names) > 2 and _PYTHON.match(names[0]) and names[1] == "-m":
        names = names[2:]
    if names[:1] in (["pytest"], ["py.test"]):
        return "pytest"
    return "vitest" if names[:2] == ["vitest", "run"] else ""


def _tool_of(command: str) -> str:
    words = split_simple(command)
    return _runner_in(words) or (posixpath.basename(words[0]) if words else "sh")


# What lies in one folder


def _at_place(project: ProjectFiles, place: str) -> Iterator[CheckCandidate]:
    """List the checks of a project whose top is a folder."""
    here = _Place(project, place)
    yield from _python(here)
    yield from _javascript(here)
    yield from _named_by_files(here)
    yield from _make(here)


class _Place:
    """A folder of a repository that may be the top of a project."""

    def __init__(self, project: ProjectFiles, folder: str) -> None:
        self.folder = folder
        prefix = f"{folder}/" if folder else ""
        self.paths = {path.removeprefix(prefix) for path in project.paths if path.startswith(prefix)}
        self.names = {path for path in self.paths if "/" not in path}
        self._contents = project.contents
        self._at_hand = {path.removeprefix(prefix) for path in project.at_hand if path.startswith(prefix)}
        self._prefix = prefix

    def read(self, path: str) -> bytes:
        """Return the content of a file; empty if it is not known."""
        return self._contents.get(self._prefix + path, b"")

    def has(self, *names: str) -> str:
        """Return the first of some files that is there; empty if none is."""
        return next((name for name in names if name in self.names), "")

    def show(self, path: str) -> str:
        """Return the path of a file of this place from the top of the repository, for people."""
        return scope.display_path(self._prefix + path)

    def is_at_hand(self, path: str) -> bool:
        """Whether an ignored folder comes into every checkout."""
        return path in self._at_hand

    def make(self, tool: str, run: str, why: Message) -> CheckCandidate:
        """Make a candidate. Known runners are asked for a report."""
        command, junit = add_report(run)
        return CheckCandidate(tool, command, why, self.folder, junit)


def _python(here: _Place) -> Iterator[CheckCandidate]:
    program = next((f"{each}/bin/python" for each in (".venv", "venv") if here.is_at_hand(each)), "python3")
    tests = sorted(path for path in here.paths if _PYTHON_TEST.match(_name(path)))
    if sign := _pytest_sign(here, tests):
        yield here.make("pytest", f"{program} -m pytest -q", change_words.CHECK_BY_FILE(tool="pytest", path=sign))
    elif unit := next((path for path in tests if _UNITTEST.search(here.read(path))), ""):
        folder = unit.partition("/")[0]
        packaged = "/" not in unit or f"{folder}/__init__.py" in here.paths
        discover = "" if packaged else f" discover -s {shlex.quote(posixpath.dirname(unit))}"
        why = change_words.CHECK_BY_FILE(tool="unittest", path=here.show(unit))
        yield here.make("unittest", f"{program} -m unittest{discover}", why)
    if "tox.ini" in here.names or b"[tool.tox]" in here.read("pyproject.toml"):
        path = "tox.ini" if "tox.ini" in here.names else "pyproject.toml"
        yield here.make("tox", "tox", change_words.CHECK_BY_FILE(tool="tox", path=here.show(path)))
    if "noxfile.py" in here.names:
        yield here.make("nox", "nox", change_words.CHECK_BY_FILE(tool="nox", path=here.show("noxfile.py")))


def _pytest_sign(here: _Place, tests: Sequence[str]) -> str:
    """Return the file that says that pytest runs the tests; empty if there is none, or no test."""
    if path := here.has("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"):
        return here.show(path)
    tool = _toml(here.read("pyproject.toml")).get("tool")
    if isinstance(tool, dict) and "pytest" in tool:
        return here.show("pyproject.toml")
    for path, section in (("setup.cfg", "tool:pytest"), ("tox.ini", "pytest")):
        if section in _ini_sections(here.read(path)):
            return here.show(path)
    if not tests:
        return ""
    if path := next((path for path in sorted(here.paths, key=_by_depth) if _name(path) == "conftest.py"), ""):
        return here.show(path)
    named = [path for path in sorted(here.names) if path == "pyproject.toml" or _REQUIREMENTS.match(path)]
    found = next((path for path in named if _PYTEST.search(here.read(path))), "")
    return here.show(found) if found else _pytest_test(here, tests)


def _pytest_test(here: _Place, tests: Sequence[str]) -> str:
    path = next((path for path in tests if _TEST_FUNCTION.search(here.read(path))), "")
    return here.show(path) if path else ""


def _javascript(here: _Place) -> Iterator[CheckCandidate]:
    if "package.json" not in here.names:
        return
    told = _json(here.read("package.json"))
    manager = _manager_of(here, told)
    scripts, path = _table(told, "scripts"), here.show("package.json")
    script = scripts.get("test")
    text = script if isinstance(script, str) and not _NO_TEST.search(script) else ""
    words = split_simple(text)
    packages = {**_table(told, "dependencies"), **_table(told, "devDependencies")}
    if "vitest" in packages and (not text or (words and words[0] == "vitest")):
        kept = [word for word in words[1:] if word not in {"run", "--run", "watch", "--watch"}]
        run = shlex.join([*_RUNS_LOCALLY[manager].split(), "vitest", "run", *kept])
        yield here.make("vitest", run, change_words.CHECK_BY_FILE(tool="vitest", path=path))
    elif words[:2] == ("bun", "test"):
        yield here.make("bun", text, change_words.CHECK_BY_SCRIPT(name="test", path=path))
    elif text:
        run = "bun run test" if manager == "bun" else f"{manager} test"
        yield here.make(manager, run, change_words.CHECK_BY_SCRIPT(name="test", path=path))
    elif "jest" in packages:
        run = f"{_RUNS_LOCALLY[manager]} jest --ci"
        yield here.make("jest", run, change_words.CHECK_BY_FILE(tool="jest", path=path))
    elif manager == "bun" and any(re.search(r"[._](?:test|spec)\.[jt]sx?\Z", each) for each in here.paths):
        yield here.make("bun", "bun test", change_words.CHECK_BY_FILE(tool="bun", path=path))


def _manager_of(here: _Place, told: Mapping[str, Any]) -> str:
    """Return the manager of packages: the one that the project names, or whose lock file lies there."""
    named = str(told.get("packageManager", "")).partition("@")[0]
    return named if named in _MANAGERS else next((name for lock, name in _LOCKED_MANAGERS if lock in here.names), "npm")


def _named_by_files(here: _Place) -> Iterator[CheckCandidate]:
    """List the checks of languages whose tool follows from a file at the top of a project."""
    gradle = here.has("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    dotnet = next((name for name in sorted(here.names) if name.endswith((".sln", ".slnx"))), "")
    dotnet = dotnet or next((path for path in sorted(here.paths) if re.search(r"\.(?:cs|fs|vb)proj\Z", path)), "")
    table = (
        ("go", here.has("go.mod", "go.work"), "go test ./..."),
        ("cargo", here.has("Cargo.toml"), "cargo test"),
        ("mvn", here.has("pom.xml"), "./mvnw -q test" if "mvnw" in here.names else "mvn -q test"),
        ("gradle", gradle, "./gradlew test" if "gradlew" in here.names else "gradle test"),
        ("dotnet", dotnet if "/" not in dotnet or here.folder == "" else "", "dotnet test"),
    )
    for tool, path, run in table:
        if path:
            yield here.make(tool, run, change_words.CHECK_BY_FILE(tool=tool, path=here.show(path)))


def _make(here: _Place) -> Iterator[CheckCandidate]:
    path = here.has("GNUmakefile", "makefile", "Makefile")
    targets = {match[1].decode() for match in _MAKE_RULE.finditer(here.read(path))} if path else set()
    for target in ("test", "check"):
        if target in targets:
            why = change_words.CHECK_BY_TARGET(name=target, path=here.show(path))
            yield here.make("make", f"make {target}", why)
            return


# Workflows


def _in_workflows(project: ProjectFiles) -> Iterator[CheckCandidate]:
    """List the commands of workflows that run tests, and that need no value of the forge."""
    for path in sorted(path for path in project.paths if _WORKFLOWS.match(path)):
        text = project.contents.get(path, b"").decode(errors="replace")
        for command in _list_steps(text):
            if test_runners.runs_tests(command) and "${{" not in command:
                run, junit = add_report(command)
                why = change_words.CHECK_BY_STEP(path=scope.display_path(path))
                yield CheckCandidate(_tool_of(command), run, why, "", junit)


def _list_steps(text: str) -> Iterator[str]:
    """List the commands of the steps of a workflow, line by line: its YAML may be of any kind, and hostile."""
    block: int | None = None
    for line in text.splitlines():
        margin = len(line) - len(line.lstrip())
        if block is not None and (margin > block or not line.strip()):
            if line.strip() and not line.strip().startswith("#"):
                yield line.strip()
            continue
        block = None
        found = _RUN_STEP.match(line)
        if found is None or found["key"] != "run":
            continue
        said = found["text"].strip()
        if _BLOCK.match(said):
            block = margin + (2 if line.lstrip().startswith("- ") else 0)
        elif said:
            yield said[1:-1] if said[0] in "\"'" and said[-1] == said[0] and len(said) > 1 else said


# Shared


def _with_files(candidate: CheckCandidate, tree: FileTree) -> CheckCandidate:
    """Add the files that a check consists of, by the rules that plans have."""
    check = candidate.to_check()
    configuration = scope.read_globs(protection.list_configuration(check)).filter_paths(sorted(tree.files))
    shared = [path for path in tree.files if _name(path) in test_runners.SHARED and path.count("/") <= _DEEPEST]
    files = sorted({*protection.list_check_files(check, tree), *configuration, *shared})
    return CheckCandidate(candidate.tool, candidate.run, candidate.why, candidate.cwd, candidate.junit, tuple(files))


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _toml(data: bytes) -> Mapping[str, Any]:
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError):
        return {}


def _json(data: bytes) -> Mapping[str, Any]:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _table(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = told.get(name)
    return value if isinstance(value, dict) else {}


def _ini_sections(data: bytes) -> Collection[str]:
    reader = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        reader.read_string(data.decode())
    except (ValueError, configparser.Error):
        return ()
    return reader.sections()
