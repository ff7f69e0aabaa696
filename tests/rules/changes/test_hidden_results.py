"""What an agent gets to know of checks that are hidden from it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from agenttalk.contracts.command import Command
from agenttalk.contracts.promise import CompletionPromise
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.proof import findings_json
from agenttalk.rules.proof.evidence import CheckResult, Fingerprint
from agenttalk.rules.suites.outcomes import Outcomes
from kits import samples

AT = datetime(2026, 1, 1, tzinfo=UTC)
PATHS = ["/plans/p.yaml", "/plans/t.py"]
SECRET = {"id": "s", "kind": "run", "run": "python t.py", "files": ["t.py"], "hidden": True, "hidden_paths": PATHS}
SEEN = {"id": "v", "kind": "run", "run": "make"}
PROMISE = CompletionPromise.model_validate({"id": "", "objective": "", "acceptance": [], "checks": [SECRET, SEEN]})


def test_hidden_checks_are_taken_out_and_their_places_are_known() -> None:
    assert hidden_checks.list_hidden(PROMISE) == {"s"}
    assert hidden_checks.list_hidden(None) == frozenset()
    assert [check.id for check in hidden_checks.hide_checks(PROMISE).checks] == ["v"]
    shown = hidden_checks.hide_checks(PROMISE)
    assert hidden_checks.hide_checks(shown) is shown
    assert hidden_checks.list_hidden_paths(PROMISE) == tuple(PATHS)
    assert hidden_checks.list_hidden_paths(None) == ()


def test_an_agent_gets_its_command_without_hidden_checks() -> None:
    command = Command.model_validate(samples.command()).model_copy(update={"promise": PROMISE})
    shown = hidden_checks.hide_command(command)
    assert shown.promise is not None
    assert [check.id for check in shown.promise.checks] == ["v"]
    assert hidden_checks.hide_command(shown) is shown


def test_what_is_told_of_a_task_has_no_results_of_hidden_checks() -> None:
    told = {
        "checks": [{"id": "s", "passed": False, "output": "x", "detail": "y"}, {"id": "v", "output": "z"}],
        "lines": ({"id": "c", "wants": ["s"], "detail": "y"}, {"id": "d", "wants": ["v"], "detail": "w"}),
        "count": 1,
    }
    assert hidden_checks.hide_results(told, frozenset("s")) == {
        "checks": [{"id": "s", "passed": False}, {"id": "v", "output": "z"}],
        "lines": [{"id": "c", "wants": ["s"], "detail": ""}, {"id": "d", "wants": ["v"], "detail": "w"}],
        "count": 1,
    }
    assert hidden_checks.hide_results(told, frozenset()) is told


def test_evidence_of_a_hidden_check_tells_that_it_failed_or_how_often() -> None:
    tests = Outcomes(frozenset({"a", "b"}), frozenset({"secret_name"}))
    result = CheckResult(
        "s", False, "executed", "tests_failed", "secret_name failed", AT, AT, Fingerprint(), tests=tests
    )
    assert "secret_name" in result.to_evidence(fresh=True).detail
    assert "secret_name" not in replace(result, hidden=True).to_evidence(fresh=True).detail
    counted = replace(result, hidden="count").to_evidence(fresh=True).detail
    assert "2 tests passed, 1 failed" in counted
    assert "passed" not in replace(result, hidden="count", tests=None).to_evidence(fresh=True).detail
    assert findings_json.to_json(replace(result, hidden=True))["hidden"] is True
