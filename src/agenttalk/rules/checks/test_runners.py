"""Programs that run tests: what is called a test, and which files decide how tests are run. One table for all."""

from __future__ import annotations

import json
import re
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

SettingsReader = Callable[[bytes], object]
"""What of a file must not change: anything that can be compared. Raises ValueError when that cannot be decided."""


class RunnerFamily(NamedTuple):
    """A program that runs tests, or a family of them."""

    files: tuple[str, ...]
    """Globs of what decides how tests are run."""
    programs: frozenset[str] = frozenset()
    """Words of a command by which it is known. Without any, its files are held for every check that runs something."""


def _any_case(text: str) -> str:
    """Make a glob that ignores case: Python finds installed packages so."""
    return "".join(f"[{char.lower()}{char.upper()}]" if char.isalpha() else char for char in text)


_NODE: Final = frozenset({"npm", "npx", "yarn", "pnpm", "bun", "node", "vitest", "vite"})
RUNNERS: Final[Mapping[str, RunnerFamily]] = {
    "python": RunnerFamily(
        (
            *("**/conftest.py", "**/pytest.ini", "**/.pytest.ini", "**/pytest.toml", "**/.pytest.toml", "**/tox.ini"),
            *("**/setup.cfg", "**/noxfile.py", "**/.coveragerc", "**/nose.cfg", "**/.noserc", "**/unittest.cfg"),
            *("**/sitecustomize.py", "**/usercustomize.py", "**/sitecustomize/**", "**/usercustomize/**"),
            *("**/*.pth", "**/pyvenv.cfg"),
            *(f"**/*.{_any_case(each)}" for each in ("dist-info", "egg-info", "egg")),  # by these pytest finds plugins
        )
    ),
    "javascript": RunnerFamily(
        (
            *("**/.npmrc", "**/.yarnrc", "**/.yarnrc.yml", "**/.pnpmfile.cjs", "**/bunfig.toml"),
            *("**/jest.config.*", "**/jest.setup.*", "**/jest.preset.*", "**/vitest.config.*", "**/vitest.workspace.*"),
            *("**/vitest.setup.*", "**/.mocharc*", "**/mocha.opts", "**/ava.config.*", "**/karma.conf.*"),
            *("**/.babelrc*", "**/babel.config.*", "**/playwright.config.*", "**/cypress.config.*"),
            *("**/.nycrc*", "**/.c8rc*", "**/.taprc", "**/jasmine.json"),
        )
    ),
    "vite": RunnerFamily(("**/vite.config.*",), _NODE),
    "rust": RunnerFamily(
        (
            *("**/.cargo/config.toml", "**/.cargo/config", "**/rust-toolchain", "**/rust-toolchain.toml"),
            "**/.config/nextest.toml",
        )
    ),
    "cargo": RunnerFamily(("**/build.rs",), frozenset({"cargo", "cross", "nextest"})),
    "go": RunnerFamily(("**/go.work",)),
    "java": RunnerFamily(
        (
            *("**/mvnw", "**/mvnw.cmd", "**/.mvn/**", "**/gradlew", "**/gradlew.bat", "**/gradle/wrapper/**"),
            *("**/gradle.properties", "**/settings.gradle", "**/settings.gradle.kts", "**/init.gradle"),
            *("**/junit-platform.properties", "**/testng.xml"),
        )
    ),
    "gradle": RunnerFamily(("**/build.gradle", "**/build.gradle.kts"), frozenset({"gradle", "gradlew"})),
    "ruby": RunnerFamily(
        (
            *("**/.rspec", "**/.rspec-local", "**/spec_helper.rb", "**/rails_helper.rb", "**/test_helper.rb"),
            *("**/minitest.rb", "**/minitest/autorun.rb", "**/test/unit.rb", "**/rspec.rb", "**/rspec/core.rb"),
            *("**/.bundle/**", "**/.simplecov"),
        )
    ),
    "rake": RunnerFamily(("**/Rakefile", "**/*.rake"), frozenset({"rake"})),
    "php": RunnerFamily(("**/phpunit.xml", "**/phpunit.xml.dist", "**/phpunit.dist.xml", "**/tests/Pest.php")),
    "dotnet": RunnerFamily(
        ("**/*.runsettings", "**/Directory.Build.props", "**/Directory.Build.targets", "**/global.json"),
        frozenset({"dotnet"}),
    ),
    "make": RunnerFamily(("**/Makefile", "**/makefile", "**/GNUmakefile", "**/*.mk"), frozenset({"make", "gmake"})),
    "just": RunnerFamily(("**/justfile", "**/.justfile", "**/Justfile"), frozenset({"just"})),
    "task": RunnerFamily(("**/Taskfile.yml", "**/Taskfile.yaml"), frozenset({"task"})),
    "bazel": RunnerFamily(("**/.bazelrc",), frozenset({"bazel", "bazelisk"})),
}

_TEST_PROGRAMS: Final = frozenset(
    {
        *("pytest", "py.test", "unittest", "nose2", "tox", "nox", "coverage", "behave", "robot", "trial", "ward"),
        *("jest", "vitest", "mocha", "ava", "tap", "playwright", "cypress", "karma", "jasmine", "nextest"),
        *("rspec", "minitest", "phpunit", "pest", "ctest", "bats", "prove", "ginkgo", "gotestsum"),
    }
)
_MANY_TRADES: Final = frozenset(
    {
        *("npm", "npx", "yarn", "pnpm", "bun", "deno", "node", "cargo", "go", "mvn", "mvnw", "gradle", "gradlew"),
        *("rake", "composer", "dotnet", "make", "gmake", "just", "task", "bazel", "mix", "swift", "sbt", "lein"),
        *("stack", "cabal", "dart", "flutter", "zig", "hatch", "invoke", "doit", "pants", "meson", "ninja"),
    }
)
"""Programs that run tests, and other things."""
_OTHER_TRADES: Final = frozenset(
    {"build", "lint", "vet", "fmt", "format", "compile", "install", "typecheck", "tsc", "clippy", "doc", "docs"}
)
_WORD: Final = re.compile(r"[\w.+@-]+")
_TEST_FOLDERS: Final = frozenset(
    {
        *("test", "tests", "testing", "testdata", "__tests__", "__snapshots__", "__mocks__", "spec", "specs", "e2e"),
        *("checks", "fixtures", "cypress"),
    }
)
_TEST_FILE: Final = re.compile(
    r"(?:test_.*|.*_test|tests?)\.py\Z|.*_test\.(?:go|rb|exs|dart|cc|cpp|c|rs|lua|clj)\Z|test_.*\.(?:rb|c|cc|cpp)\Z"
    r"|.*_spec\.(?:rb|lua)\Z|.*[.-](?:test|spec|e2e|cy)\.[cm]?[jt]sx?\Z|.*\.snap\Z|.*\.bats\Z|.*\.feature\Z"
    r"|.*(?:Test|Tests|Spec|IT)\.(?:php|java|kt|scala|groovy|cs|swift)\Z|Test.*\.java\Z"
)
_TEST_WORD: Final = re.compile(r"tests?|specs?|e2e|checks?|fixtures?|snapshots?", re.IGNORECASE)


def split_words(command: str) -> frozenset[str]:
    """Collect everything in a command that may be the name of a program."""
    return frozenset(_WORD.findall(command))


def runs_tests(command: str) -> bool:
    """Whether a command is known to run tests."""
    words = split_words(command)
    if words & _TEST_PROGRAMS:
        return True
    return bool(words & _MANY_TRADES) and (not words & _OTHER_TRADES or "test" in command)


def is_test(path: str) -> bool:
    """Whether a file is a test, or of those that tests are made of, as far as its name tells."""
    *folders, name = path.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or _TEST_FILE.match(name) is not None


def names_tests(glob: str) -> bool:
    """Whether a glob speaks of tests, and not only of files among which there are some."""
    return _TEST_WORD.search(glob) is not None


def list_configuration(command: str) -> tuple[str, ...]:
    """Globs of the files that decide how a command runs tests."""
    words = split_words(command)
    kinds = [each for each in RUNNERS.values() if not each.programs or each.programs & words]
    return tuple(dict.fromkeys(glob for each in kinds for glob in each.files))


# Files of which only a part decides how tests are run


def _tables(data: bytes) -> object:
    told = tomllib.loads(data.decode())
    tool, project = _mapping(told.get("tool", {})), _mapping(told.get("project", {}))
    found: dict[str, object] = {
        name: tool[name] for name in ("pytest", "tox", "nox", "coverage", "hatch", "pdm") if name in tool
    }
    for name in ("hatch", "pdm"):  # of these only what is run by name counts
        if name in found:
            found[name] = {key: each for key, each in _mapping(tool[name]).items() if key in {"envs", "scripts"}}
    plugins = _mapping(_mapping(tool.get("poetry", {})).get("plugins", {})).get("pytest11")
    entry_points = _mapping(project.get("entry-points", {})).get("pytest11")
    return {key: each for key, each in {**found, "poetry": plugins, "project": entry_points}.items() if each}


_RUN_BY_NODE: Final = ("scripts", "jest", "vitest", "mocha", "ava", "nyc", "c8", "tap", "babel", "jasmine", "wireit")
_DEPENDENCIES: Final = ("dependencies", "devDependencies", "overrides", "resolutions", "optionalDependencies")
_PUBLISHED: Final = re.compile(r"[\^~<>=v\s\d*x.|-][\w\s.^~<>=|*+-]*\Z|latest\Z|next\Z")


def _scripts(data: bytes) -> object:
    told = _mapping(json.loads(data))
    found = {name: told[name] for name in _RUN_BY_NODE if name in told}
    for table in _DEPENDENCIES:  # a runner that is taken from a folder or an address is another program
        for name, value in _mapping(told.get(table, {})).items():
            runner = name.split("/")[-1] in _TEST_PROGRAMS or name.startswith(("@jest/", "@vitest/", "@playwright/"))
            if runner and not (isinstance(value, str) and _PUBLISHED.match(value)):
                found[f"{table}/{name}"] = value
    return found


def _composed(data: bytes) -> object:
    told = _mapping(json.loads(data))
    return {name: told[name] for name in ("scripts", "config", "autoload-dev") if name in told}


def _tasks(data: bytes) -> object:
    told = _mapping(json.loads(data))
    return {name: told[name] for name in ("tasks", "test", "imports") if name in told}


def _targets(data: bytes) -> object:
    told = tomllib.loads(data.decode())
    found: dict[str, object] = {name: told[name] for name in ("test", "profile", "patch", "replace") if name in told}
    parts = {"lib": ("test", "harness", "doctest"), "package": ("autotests", "build")}
    for table, keys in parts.items():
        for key in keys:
            if key in _mapping(told.get(table, {})):
                found[f"{table}.{key}"] = told[table][key]
    return found


def _replaced(data: bytes) -> object:
    lines = [line.split("//")[0].strip() for line in data.decode().splitlines()]
    return [line for line in lines if "=>" in line or line.startswith("toolchain")]


def _built(data: bytes) -> object:
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise ValueError("it has a DOCTYPE")
    try:
        project = ET.fromstring(data)  # noqa: S314 - without a DOCTYPE there are no entities
    except ET.ParseError as error:
        raise ValueError(str(error)) from error
    for child in list(project):
        if child.tag.rpartition("}")[2] in {"dependencies", "dependencyManagement", "version", "description"}:
            project.remove(child)
    return ET.canonicalize(ET.tostring(project, encoding="unicode"), strip_text=True)


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not a table")  # noqa: TRY004 - of what stands in a file
    return value


SHARED: Final[Mapping[str, SettingsReader]] = {
    "pyproject.toml": _tables,
    "package.json": _scripts,
    "composer.json": _composed,
    "deno.json": _tasks,
    "Cargo.toml": _targets,
    "go.mod": _replaced,
    "pom.xml": _built,
}
"""Files of which only a part decides how tests are run → that part. The rest may change, e.g. dependencies."""


def has_changed_settings(path: str, before: bytes | None, after: bytes | None) -> bool:
    """Whether the part of a shared file that tells how tests are run differs. None: there is no such file."""
    held = SHARED[path.rpartition("/")[2]]
    return _part(held, before) != _part(held, after)


def _part(held: SettingsReader, data: bytes | None) -> object:
    if data is None:
        return _NOTHING.get(held, {})
    try:
        return held(data)
    except (ValueError, RecursionError):
        return data  # unreadable, so it must not change


_NOTHING: Final[Mapping[SettingsReader, object]] = {_replaced: [], _built: {}}
"""What a file says that is not there, where that is not an empty table."""

_NOT_STANDARD: Final = frozenset({"test", "this", "antigravity", "idlelib", "turtledemo", "lib2to3", "__main__"})
"""Names of the standard library that projects use for themselves, and that no runner imports."""
_RUNNER_MODULES: Final = frozenset({"pytest", "_pytest", "pluggy", "iniconfig", "nose2", "coverage", "tox", "nox"})


def find_shadowing_modules(added: Iterable[str], folders: Iterable[str]) -> list[str]:
    """New modules that Python would import in the place of its own, or of a test runner, from one of these folders.

    A folder is empty for the top. Also a new `__init__.py` at the top, which gives every test another name.
    """
    names = (frozenset(sys.stdlib_module_names) | _RUNNER_MODULES) - _NOT_STANDARD
    tops = set(folders)
    found = []
    for path in added:
        above, _, name = path.rpartition("/")
        module, _, kind = name.partition(".")
        in_package = module == "__init__" and above.rpartition("/")[0] in tops and above.rpartition("/")[2] in names
        as_module = above in tops and module in names
        if kind and (path == "__init__.py" or ((in_package or as_module) and name.endswith((".py", ".pyc", ".so")))):
            found.append(path)
    return found
