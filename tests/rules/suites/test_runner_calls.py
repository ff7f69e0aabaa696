"""Which runner a command plainly calls."""

from __future__ import annotations

import pytest

from agenttalk.rules.suites import runner_calls


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("pytest -q", ("-q",)),
        ("py.test", ()),
        ("A=1 PYTHONPATH=src .venv/bin/python3.12 -W error -X dev -m pytest tests", ("tests",)),
        ("uv run --frozen pytest -q", ("-q",)),
        ('export PATH="$PWD/.venv/bin:$PATH"; pytest -q', ("-q",)),
    ],
)
def test_a_plain_call_of_pytest_is_found(command: str, arguments: tuple[str, ...]) -> None:
    call = runner_calls.find_call(command)
    assert call is not None
    assert (call.runner, call.words[call.start :]) == ("pytest", arguments)


def test_a_plain_call_of_unittest_is_found() -> None:
    call = runner_calls.find_call("A='b c' python3 -m unittest -q tests.test_it")
    assert call is not None
    assert (call.runner, call.words[call.start :], call.lead) == ("unittest", ("-q", "tests.test_it"), "A='b c' ")


@pytest.mark.parametrize(
    "command",
    [
        *("unittest", "python -m unittest -h"),
        *(
            "",
            "make test",
            "python t.py",
            "python",
            "python -m",
            "python -m coverage run -m pytest",
            "uv run",
            "pytest 'x",
        ),
        *(
            "python -I -m pytest",
            "python -sE -m pytest",
            "pytest --collect-only",
            "pytest -q && ruff check",
            "pytest | cat",
        ),
    ],
)
def test_anything_else_is_no_plain_call(command: str) -> None:
    assert runner_calls.find_call(command) is None


@pytest.mark.parametrize(
    ("command", "led"),
    [
        ("PYTHONPATH=src pytest", "PYTHONPATH=/f:src pytest"),
        ("PYTHONPATH= pytest; PYTHONPATH=", "PYTHONPATH=/f pytest; PYTHONPATH=/f"),
        ("export PYTHONPATH='a b'; pytest", "export PYTHONPATH=/f:'a b'; pytest"),
        ("MY_PYTHONPATH=a echo $PYTHONPATH", "MY_PYTHONPATH=a echo $PYTHONPATH"),
    ],
)
def test_a_command_that_sets_the_path_of_python_keeps_ours(command: str, led: str) -> None:
    assert runner_calls.add_python_path(command, "/f") == led


@pytest.mark.parametrize(
    ("command", "runner", "arguments"),
    [
        ("node --test --no-warnings tests/", "node", ("--test", "--no-warnings", "tests/")),
        ("npx jest -i", "jest", ("-i",)),
        ("CI=1 pnpm exec vitest run", "vitest", ("run",)),
        ("go test -v ./...", "go", ("-v", "./...")),
        ("cargo test -- --nocapture", "cargo", ("--", "--nocapture")),
        ("cargo +stable t", "cargo", ()),
    ],
)
def test_a_plain_call_of_a_runner_of_another_language_is_found(
    command: str, runner: str, arguments: tuple[str, ...]
) -> None:
    call = runner_calls.find_call(command)
    assert call is not None
    assert (call.runner, call.words[call.start :]) == (runner, arguments)


@pytest.mark.parametrize(
    "command",
    [
        *(
            "go vet ./...",
            "go test -list .",
            "go test -exec ./mine",
            "go",
            "cargo build",
            "cargo test --doc",
            "cargo +x",
        ),
        *("node app.js", "node", "jest --listTests", "vitest list", "vitest bench", "python -m go test"),
    ],
)
def test_what_runs_no_tests_there_is_no_such_call(command: str) -> None:
    assert runner_calls.find_call(command) is None


@pytest.mark.parametrize(
    ("command", "led"),
    [
        ("GOFLAGS=-mod=mod go test", "GOFLAGS='-o=/f '-mod=mod go test"),
        ("GOFLAGS='-a -b' go test; export GOFLAGS=", "GOFLAGS='-o=/f ''-a -b' go test; export GOFLAGS='-o=/f '"),
        ("MY_GOFLAGS=a echo $GOFLAGS", "MY_GOFLAGS=a echo $GOFLAGS"),
    ],
)
def test_a_command_that_sets_options_of_a_runner_itself_keeps_ours(command: str, led: str) -> None:
    assert runner_calls.add_options(command, "GOFLAGS", "-o=/f") == led
