"""Files of which only a part decides how tests are run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agenttalk.rules.checks import test_runners
from agenttalk.rules.core import scope

NODE: dict[str, Any] = {"name": "shop", "scripts": {"test": "jest"}, "devDependencies": {"jest": "^29.0.0"}}
POM = b"<project xmlns='http://maven.apache.org/POM/4.0.0'><version>1</version>%s<build><a>1</a></build></project>"
CARGO = b'[package]\nname = "a"\nversion = "1.0"\n\n[dependencies]\nserde = "1"\n'


def node(**keys: Any) -> bytes:
    return json.dumps(NODE | keys).encode()


@pytest.mark.mends("F9")
@pytest.mark.parametrize(
    ("path", "before", "after", "changed"),
    [
        ("package.json", node(), node(dependencies={"left-pad": "^1.0.0"}), False),
        ("package.json", node(), node(version="2"), False),
        ("package.json", node(), node(devDependencies={"jest": "^30.1.0"}), False),
        ("package.json", node(), node(scripts={"test": "true"}), True),
        ("package.json", node(), node(scripts={"test": "jest", "pretest": "x"}), True),
        ("package.json", node(), node(jest={"testMatch": []}), True),
        ("package.json", node(), node(devDependencies={"jest": "file:./fake"}), True),
        ("package.json", node(), node(overrides={"jest": {".": "1"}}), True),
        ("package.json", node(), node(resolutions={"@vitest/runner": "npm:other@1"}), True),
        ("package.json", node(), b"[]", True),
        ("package.json", node(), b"{", True),
        ("package.json", node(), node(dependencies=[]), True),
        ("package.json", None, b'{"name": "a"}', False),
        ("web/package.json", None, node(), True),
        ("composer.json", b'{"require": {}}', b'{"require": {"a/b": "1"}}', False),
        ("composer.json", b"{}", b'{"scripts": {"test": "true"}}', True),
        ("deno.json", b'{"tasks": {"test": "deno test"}}', b'{"tasks": {"test": "true"}}', True),
        ("Cargo.toml", CARGO, CARGO + b'rand = "0.8"\n', False),
        ("Cargo.toml", CARGO, CARGO.replace(b"version", b"autotests = false\nversion"), True),
        ("Cargo.toml", CARGO, CARGO + b"[lib]\ntest = false\n", True),
        ("Cargo.toml", CARGO, CARGO + b'[lib]\nname = "b"\n', False),
        ("Cargo.toml", CARGO, CARGO + b'[[test]]\nname = "a"\nharness = false\n', True),
        ("go.mod", b"module a\n\nrequire b v1\n", b"module a\n\nrequire b v2\n", False),
        ("go.mod", b"module a\n", b"module a\nreplace b => ./c\n", True),
        ("go.mod", None, b"module a\n", False),
        ("pom.xml", POM % b"", POM % b"<dependencies><d/></dependencies>", False),
        ("pom.xml", POM % b"", POM.replace(b"<a>1", b"<a>2") % b"", True),
        ("pom.xml", POM % b"", b"<!DOCTYPE a><project/>", True),
        ("pom.xml", POM % b"", b"<project", True),
        ("pom.xml", None, POM % b"", True),
        ("pyproject.toml", b"", b"[project.entry-points.pytest11]\na = 'b'\n", True),
        ("pyproject.toml", b"", b"[tool.poetry.plugins.pytest11]\na = 'b'\n", True),
        ("pyproject.toml", b"", b"[tool.hatch.envs.test]\nscripts = {}\n", True),
        ("pyproject.toml", b"", b"[tool.hatch.version]\npath = 'a'\n", False),
        ("pyproject.toml", b"", b"[project]\ndependencies = ['a']\n", False),
    ],
)
def test_only_the_part_that_tells_how_tests_are_run_must_stay(
    path: str, before: bytes | None, after: bytes | None, changed: bool
) -> None:
    assert test_runners.has_changed_settings(path, before, after) is changed
    assert not test_runners.has_changed_settings(path, after, after)


@pytest.mark.mends("F9")
@pytest.mark.parametrize(
    "path",
    [
        "x.DIST-INFO/entry_points.txt",
        "lib/X.Egg-Info/entry_points.txt",
        "plug.egg/EGG-INFO/entry_points.txt",
        "more.pth",
        ".coveragerc",
        "noxfile.py",
        ".npmrc",
        "web/jest.config.ts",
        "vitest.config.mts",
        ".mocharc.json",
        "babel.config.js",
        "playwright.config.ts",
        ".cargo/config.toml",
        "rust-toolchain.toml",
        "go.work",
        ".mvn/jvm.config",
        "gradle/wrapper/gradle-wrapper.properties",
        ".rspec",
        "phpunit.xml.dist",
    ],
)
def test_what_runners_of_any_language_read_is_held(path: str) -> None:
    assert scope.read_globs(test_runners.list_configuration("./check")).covers(path)


def test_what_builds_is_held_where_it_is_run() -> None:
    for command, path in (
        ("make test", "Makefile"),
        ("./gradlew test", "build.gradle.kts"),
        ("cargo test", "build.rs"),
    ):
        assert scope.read_globs(test_runners.list_configuration(command)).covers(path)
        assert not scope.read_globs(test_runners.list_configuration("pytest")).covers(path)
