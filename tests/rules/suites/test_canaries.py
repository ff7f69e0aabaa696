"""The engine's own tests, which must fail and pass as they are made."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from agenttalk.rules.suites import canaries, runner_calls
from agenttalk.rules.suites.channel import SuiteSession
from agenttalk.rules.suites.outcomes import Outcomes


def suite(runner: str = "pytest") -> canaries.CanarySuite:
    return canaries.make_canaries(runner, "test_x", itertools.count(7), ["shop.prices"], ["/tree"])


def session(of: canaries.CanarySuite) -> SuiteSession:
    return SuiteSession("pytest", Outcomes(of.passing, of.failing), code=1)


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_each_canary_does_what_it_must(runner: str) -> None:
    made = suite(runner)
    space: dict[str, object] = {"__name__": "test_x"}
    exec(compile(made.text, "test_x.py", "exec"), space)
    for name in made.passing | made.failing:
        place, _, own = name.partition("::")
        case = space.get(place.rpartition(".")[2]) if "." in place else None
        call = getattr(case(own), own) if isinstance(case, type) else space[own]
        assert callable(call)
        if name in made.passing:
            call()
        else:
            with pytest.raises((Exception, pytest.fail.Exception)):
                call()
    assert len(made.passing) == len(made.failing) >= 8
    assert ("import pytest" in made.text) is (runner == "pytest")


def test_a_run_of_canaries_holds_only_when_each_ended_as_it_must() -> None:
    made = suite()
    whole = session(made)
    first = min(made.failing)
    assert made.holds([whole], 1)
    spared = Outcomes(made.passing, made.failing - {first}, frozenset({first}))
    for other in (
        replace(whole, code=0),
        replace(whole, pending=frozenset({first})),
        replace(whole, outcomes=Outcomes(made.passing | {first}, made.failing - {first})),
        replace(whole, outcomes=Outcomes(made.passing, made.failing - {first})),
        replace(whole, outcomes=spared),
        replace(whole, outcomes=Outcomes(frozenset(), made.failing)),
    ):
        assert not made.holds([other], 1)
    assert not made.holds([whole], 0)
    assert not made.holds([], 1)
    assert not made.holds([whole, whole], 1)


def test_canaries_are_run_as_the_suite_is() -> None:
    call = runner_calls.find_call("PYTHONPATH='a b' uv run pytest -x tests")
    assert call is not None
    assert canaries.make_command(call, "/f", "test_x", "/f/x.ini") == (
        "PYTHONPATH='a b' uv run pytest -q -p no:cacheprovider --noconftest -c /f/x.ini --rootdir=/f /f/test_x.py"
    )
    call = runner_calls.find_call("python3 -m unittest discover -s tests")
    assert call is not None
    assert canaries.make_command(call, "/f", "test_x", "") == "python3 -m unittest discover -s /f -t /f -p test_x.py"


def test_changed_modules_that_the_suite_has_loaded_are_chosen() -> None:
    loaded = (("shop.prices", "/tree/shop/prices.py"), ("shop", "/tree/shop/__init__.py"), ("__main__", "/tree/run.py"))
    found = SuiteSession(modules=(*loaded, ("tests.conftest", "/tree/tests/conftest.py")))
    changed = ["shop/prices.py", "shop/other.py", "run.py", "tests/conftest.py"]
    assert canaries.choose_modules([found], "/tree", changed) == ("shop.prices",)
