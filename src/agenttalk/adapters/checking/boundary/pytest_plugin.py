"""The judge's part in pytest: it begins and ends tests at the boundary, and writes their results.

This module runs in the interpreter of the project that is checked, as a plugin of its pytest.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from .runner_hooks import is_local, outcomes
from .session import session

_ENDED = (0, 1, 5)
"""Exit codes of a session that came to its end: all passed, some failed, none ran."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: Any) -> None:
    """Run all tests in this process, also beside files that cannot be loaded."""
    outcomes.by_pytest = True
    config.option.continue_on_collection_errors = True
    for name, value in (("dist", "no"), ("tx", []), ("numprocesses", None)):
        if hasattr(config.option, name):
            setattr(config.option, name, value)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep the chosen tests."""
    left = [item for item in items if not outcomes.is_chosen(item.nodeid)]
    if left:
        items[:] = [item for item in items if outcomes.is_chosen(item.nodeid)]
        config.hook.pytest_deselected(items=left)


def pytest_collectreport(report: Any) -> None:
    """Note a file that could not be loaded."""
    if report.failed:
        outcomes.broken.append(report.nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    """Begin and end a test."""
    session.begin_test()
    outcomes.testing = True
    if not is_local(getattr(item, "obj", None)) and hasattr(item, "obj"):
        session.breach = "the test itself is code of the work"
    yield
    outcomes.testing = False
    session.end_test()


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """Keep what fixtures for several tests ask of the work."""
    if fixturedef.scope == "function":
        yield
    else:
        with session.kept():
            yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """Let a test fail in which the boundary was breached."""
    made = yield
    report = made.get_result()
    if session.breach and report.outcome != "failed":
        report.outcome = "failed"
        report.longrepr = f"it does not cross the boundary: {session.breach}"
        if hasattr(report, "wasxfail"):
            del report.wasxfail


def pytest_runtest_logreport(report: Any) -> None:
    """Note the result of a test."""
    outcome = "skipped" if report.outcome == "skipped" or hasattr(report, "wasxfail") else report.outcome
    outcomes.note(report.nodeid, outcome, session.breach)


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the result of the tests."""
    outcomes.whole = int(exitstatus) in _ENDED
    outcomes.write()
