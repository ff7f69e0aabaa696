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
