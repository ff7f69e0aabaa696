"""What is around the code: workflows, forms, hooks and pinned packages fit each other and what they name."""

from __future__ import annotations

import re
import tomllib
from configparser import ConfigParser
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import pytest
import yaml

from project.test_docs import REPOSITORY

FORGE = REPOSITORY / ".github"
WORKFLOWS = sorted(FORGE.glob("workflows/*"))
FORMS = sorted(FORGE.glob("ISSUE_TEMPLATE/*"))
PINS = sorted(REPOSITORY.glob("requirements/**/*.txt"))
PIN = re.compile(
    r"(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[\w.!+]+)(?P<where> ; [^\\]+?)?(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)"
)
VERSION = "Programming Language :: Python :: 3."
LONG = {"test-full", "test-crash", "fuzz", "test-walk", "honesty", "test-agents", "test-inspector", "bench"}
"""Targets that take too long for every change."""


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def read(path: Path) -> dict[str, Any]:
    found: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}  # as YAML 1.1 reads that key


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def recipe(target: str) -> str:
    """What a target does, with the names that the Makefile gives to parts of it filled in."""
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{target}:.*\n((?:(?:\t.*|ifdef .*|else|endif)\n)+)", text, re.MULTILINE)
    assert found, target
    given = dict(re.findall(r"^([A-Z_]+) := (.*)$", text, re.MULTILINE))
    return re.sub(r"\$\((\w+)\)", lambda name: given.get(name[1], name[0]), found[1])


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in read(path)["jobs"].values() for step in job["steps"]]


def run_by(path: Path) -> list[str]:
    """The commands of a workflow, once for each entry of its matrix."""
    found = []
    for job in read(path)["jobs"].values():
        matrix = job.get("strategy", {}).get("matrix", {})
        for values in product(*matrix.values()):
            for step in job["steps"]:
                text = step.get("run", "")
                for name, value in zip(matrix, values, strict=True):
                    text = text.replace(f"${{{{ matrix.{name} }}}}", value)
                found.append(text)
    return [each for each in found if each]


def made_by(path: Path) -> set[str]:
    """The targets that a workflow has made."""
    words = [re.search(r"\bmake ([^|&;]+)", each) for each in run_by(path)]
    return {word for found in words if found for word in found[1].split()}


def pins(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8").replace(" \\\n", " ")
    return [re.sub(" +", " ", line) for line in text.splitlines() if line and not line.startswith("#")]


def names(path: Path) -> dict[str, set[str]]:
    """Package → its pinned versions."""
    found: dict[str, set[str]] = {}
    for line in pins(path):
        pin = PIN.fullmatch(line)
        assert pin, f"{path.name}: {line[:120]}"
        found.setdefault(pin["name"], set()).add(pin["version"])
    return found


def asked(requirement: str) -> str:
    """The name of a package that is asked for."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found, requirement
    return re.sub(r"[._-]+", "-", found[0]).lower()


def test_every_python_that_is_promised_is_checked() -> None:
    promised = {f"3.{each.removeprefix(VERSION)}" for each in project()["classifiers"] if each.startswith(VERSION)}
    [job] = read(FORGE / "workflows" / "check.yml")["jobs"].values()
    assert set(job["strategy"]["matrix"]["python"]) >= promised
    assert project()["requires-python"] == f">={min(promised, key=lambda each: int(each[2:]))}"
    assert job["env"]["PYTHON"] == "python${{ matrix.python }}"  # which both make and .ci/run read
    assert [step["run"] for step in job["steps"] if step.get("run", "").startswith(".ci/")] == [".ci/run"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_targets_that_exist_may_only_read_and_takes_actions_that_cannot_change(path: Path) -> None:
    assert made_by(path)
    assert made_by(path) <= targets()
    assert read(path)["permissions"] == {"contents": "read"}
    assert [job for job in read(path)["jobs"].values() if "permissions" in job] == []
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert [each for each in used if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", each)] == []
    kept = [step for step in steps(path) if "/checkout@" in step.get("uses", "")]
    assert {step["with"]["persist-credentials"] for step in kept} == {False}


def test_what_takes_long_runs_every_night() -> None:
    nightly = FORGE / "workflows" / "nightly.yml"
    assert made_by(nightly) >= LONG
    assert read(nightly)["on"]["schedule"]


def test_two_targets_run_every_test_and_what_must_be_green_runs_them_all_at_once() -> None:
    """However a test is marked, one of them runs it, and with `ALL=1` none is chosen."""
    some, every = recipe("test").split("\nelse\n")[1], recipe("test").split("\nelse\n")[0]
    lines = (some + recipe("test-rest")).splitlines()
    asked = [re.search(r'pytest (.*) -m "([^"]+)"', line) for line in lines if "pytest" in line]
    chosen = [(found[1].split(), found[2]) for found in asked if found]
    everywhere = [(words, marks) for words, marks in chosen if "tests" in words]
    crashes = [(words, marks) for words, marks in chosen if words[0] == "tests/crash"]
    assert len(everywhere) == len(crashes) == 2
    assert {word for words, _ in everywhere for word in words if word.startswith("--ignore")} == {
        "--ignore=tests/crash"
    }
    names = ("rest", "random", "measured")
    for marks in chain.from_iterable(combinations(names, size) for size in range(len(names) + 1)):
        said = {name: name in marks for name in names}
        for part in (everywhere, crashes):
            assert any(eval(wanted, {}, said) for _, wanted in part), marks
    whole = [line.split(" ", 1)[1] for line in every.splitlines() if "pytest" in line]
    assert whole == [f"{' '.join(everywhere[0][0])} --cov --cov-report=", " ".join(crashes[0][0])]
    assert "--fail-under=100" in recipe("test-rest")
    assert "--fail-under=100" in every
    ran = (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in ran if line.startswith("make test")] == ["make test ALL=1"]
    assert "$(MAKE) test ALL=1" in recipe("check")


def test_gitea_is_given_no_folder_of_its_own_for_which_it_would_leave_out_the_shared_one() -> None:
    assert (len(WORKFLOWS), len(FORMS)) == (2, 2)
    assert not (REPOSITORY / ".gitea").exists()


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_for_issues_has_what_forges_ask_for(path: Path) -> None:
    form = read(path)
    assert form.keys() == {"name", "description", "labels", "body"}
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in fields} <= {"textarea", "input", "dropdown", "checkboxes"}
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids) > 0
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_hooks_run_what_make_lint_runs_from_the_environment_alone() -> None:
    repositories = read(REPOSITORY / ".pre-commit-config.yaml")["repos"]
    assert [each["repo"] for each in repositories] == ["local"]
    hooks = repositories[0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    linted = [Path(line.split()[0]).name for line in recipe("lint").splitlines()]
    assert [Path(hook["entry"].split()[0]).name for hook in hooks] == linted
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)


def test_editors_are_told_how_files_look() -> None:
    editors = ConfigParser(interpolation=None)
    editors.read_string("[top]\n" + (REPOSITORY / ".editorconfig").read_text(encoding="utf-8"))
    assert editors["top"]["root"] == "true"
    assert editors["Makefile"]["indent_style"] == "tab"
    ruff = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]
    assert editors["*"]["max_line_length"] == str(ruff["line-length"])


@pytest.mark.parametrize("path", PINS, ids=lambda path: path.name)
def test_every_package_is_pinned_by_its_version_and_its_hashes_and_nothing_else_is_said(path: Path) -> None:
    found = names(path)
    assert found
    wanted = path.with_suffix(".in")
    if wanted.exists():
        lines = [line for line in wanted.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
        assert {asked(line) for line in lines} <= found.keys()


def test_what_the_project_depends_on_is_pinned_and_tested_with_the_same_versions() -> None:
    run, dev = (names(REPOSITORY / "requirements" / name) for name in ("run.txt", "dev.txt"))
    assert {asked(each) for each in project()["dependencies"]} <= run.keys()
    assert {name: dev.get(name) for name in run} == run


def test_packages_are_installed_by_their_hashes_and_without_resolving_anything() -> None:
    for name in ("Makefile", ".ci/run"):
        text = (REPOSITORY / name).read_text(encoding="utf-8").replace("\\\n", " ")
        installing = [
            line
            for line in re.split(r"\n|&&|;", text)
            if re.search("pip install|INSTALL_INTO", line) and " -r " in line
        ]
        assert installing
        assert [line for line in installing if "--require-hashes" not in line] == []
        # A pin file is complete. Old versions of pip that resolve it again stumble over `coverage[toml]` as soon as a newer coverage is out.
        assert [line for line in installing if "--no-deps" not in line] == []
