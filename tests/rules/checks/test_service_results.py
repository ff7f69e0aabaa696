"""Whether a service does what its check asks for, from what was seen of it."""

from __future__ import annotations

from typing import Any

import pytest

from agenttalk.contracts.promise import AnyCheck, BrowserCheck, CompletionPromise, ServiceCheck
from agenttalk.rules.checks import service_results
from agenttalk.rules.checks.check_results import HttpAnswer, ProgramExit
from agenttalk.rules.checks.service_results import BrowserSession
from agenttalk.rules.proof import evidence
from agenttalk.rules.proof.evidence import CheckFinding, Fingerprint
from agenttalk.rules.text import check_words

RUNNING = ProgramExit("finished", None)
PASSED = CheckFinding(True)
LOST = CheckFinding(False, "unreachable", "gone")


def check(kind: str, **fields: Any) -> AnyCheck:
    body = {"id": "cp-1-abcd", "objective": "o", "acceptance": [], "checks": [{"id": "c", "kind": kind, **fields}]}
    return CompletionPromise.read(body).checks[0]


def service(*requests: dict[str, Any]) -> ServiceCheck:
    found = check("http", serve="x", requests=list(requests))
    assert isinstance(found, ServiceCheck)
    return found


def browser(*steps: dict[str, Any], **fields: Any) -> BrowserCheck:
    found = check("browser", serve="x", steps=list(steps), **fields)
    assert isinstance(found, BrowserCheck)
    return found


def answer(body: str = "{}", status: int = 200, *, whole: bool = True) -> HttpAnswer:
    return HttpAnswer(status, body.encode(), whole, "/")


def judge(request: dict[str, Any], *answers: HttpAnswer | CheckFinding) -> CheckFinding:
    return service_results.judge_answers(service({"path": "/", **request}).requests, answers)


@pytest.mark.parametrize(
    ("asked", "found", "passed"),
    [
        ({}, "{}", True),
        ({"a": [1, "x", None, True]}, '{"a": [1, "x", null, true]}', True),
        (1, "1", True),
        (None, "null", True),
        (True, "1", False),
        (1, "true", False),
        (1, "1.0", False),
        ([1], "[1, 2]", False),
        ({"a": 1}, '{"a": 1, "b": 2}', False),
        ({"a": {"b": 1}}, '{"a": {"b": true}}', False),
        ("x", "x", False),
        (None, "", False),
    ],
)
def test_an_answer_equals_a_value_with_its_types(asked: Any, found: str, passed: bool) -> None:
    assert judge({"equals": asked}, answer(found)).passed is passed
    assert not judge({"equals": asked}, answer(found, whole=False)).passed


def test_every_request_needs_its_answer() -> None:
    assert judge({"contains": "b", "status": 201}, answer("abc", 201)).passed
    wrong = judge({"contains": "z", "status": 201, "method": "POST"}, answer("abc"))
    assert (wrong.passed, wrong.reason) == (False, "answer")
    assert "POST /" in wrong.detail
    assert "201" in wrong.detail
    assert not judge({"contains": "z"}, answer("abc", whole=False)).passed
    assert judge({}, LOST) == LOST
    two = service({"path": "/"}, {"path": "/b"}).requests
    assert service_results.judge_answers(two, [answer()]).reason == "unreachable"
    assert service_results.judge_answers((), []).reason == "facts_missing"


def test_a_service_has_to_run_until_it_was_looked_at() -> None:
    assert service_results.judge_service(PASSED, RUNNING) == PASSED
    assert service_results.judge_service(LOST, RUNNING) == LOST
    assert service_results.judge_service(None, RUNNING).reason == "unreachable"
    assert "7" in service_results.judge_service(None, ProgramExit("finished", 7)).detail
    assert service_results.judge_service(PASSED, ProgramExit("finished", 0)).reason == "exit_code"
    assert service_results.judge_service(PASSED, ProgramExit("timeout", None, "late")).reason == "timeout"
    assert service_results.judge_service(PASSED, ProgramExit("tampered", None, "x")).reason == "tampered"


OPEN = {"open": "/"}
SEE = {"see": "80"}


def session(*steps: dict[str, Any], **fields: Any) -> BrowserSession:
    return BrowserSession.from_json({"steps": list(steps), **fields})


FINE = {"passed": True}


def test_a_page_passes_when_each_step_did() -> None:
    assert service_results.judge_browser(browser(OPEN, SEE), session(FINE, FINE)) == PASSED
    failed = service_results.judge_browser(browser(OPEN, SEE), session(FINE, {"passed": False, "found": "40"}))
    assert (failed.reason, "see: 80" in failed.detail, "40" in failed.detail) == ("content", True, True)


@pytest.mark.parametrize(
    ("steps", "seen"),
    [
        ((OPEN, SEE), session(FINE)),
        ((OPEN, SEE), session()),
        ((OPEN, SEE), BrowserSession.from_json([])),
        ((OPEN, SEE), BrowserSession.from_json({"steps": [1, "x"]})),
        ((OPEN, SEE), session(FINE, {"passed": 1})),
        ((OPEN,), session(FINE)),
        ((), session()),
        ((OPEN, {"see": "80", "click": "a"}), session(FINE, FINE)),
        ((OPEN, SEE, {}), session(FINE, FINE, FINE)),
        ((OPEN, SEE), BrowserSession(problem="no browser")),
    ],
)
def test_a_page_of_which_not_all_is_known_does_not_pass(
    steps: tuple[dict[str, Any], ...], seen: BrowserSession
) -> None:
    assert not service_results.judge_browser(browser(*steps), seen).passed


def test_errors_of_a_page_are_noted_or_fail_as_the_check_says() -> None:
    seen = session(FINE, FINE, errors=["it broke"], pictures=[{"name": "end"}, 3])
    assert seen.pictures == ({"name": "end"},)
    noted = service_results.judge_browser(browser(OPEN, SEE), seen)
    assert (noted.passed, "it broke" in noted.detail) == (True, True)
    assert not service_results.judge_browser(browser(OPEN, SEE, page_errors="fail"), seen).passed


@pytest.mark.parametrize(
    ("made", "fields"),
    [
        (service({"path": "/"}), []),
        (service(), ["requests"]),
        (service({"path": "/"}, {"path": "@example.org"}), ["requests[1].path"]),
        (browser({"open": "@example.org"}, SEE), ["steps[0].open"]),
        (browser(OPEN, SEE), []),
        (browser(), ["steps"]),
        (browser(OPEN), ["steps"]),
        (browser(SEE), ["steps[0]"]),
        (browser(OPEN, SEE, {"see": "a", "miss": "b"}), ["steps[2]"]),
        (browser(OPEN, SEE, {"at": "#a"}), ["steps[2]"]),
    ],
)
def test_a_check_that_shows_nothing_is_found_before_it_runs(
    made: ServiceCheck | BrowserCheck, fields: list[str]
) -> None:
    assert [name for name, _ in service_results.find_faults(made)] == fields


def test_a_service_is_work_that_runs_and_depends_on_its_tree() -> None:
    for made in (service({"path": "/"}), browser(OPEN, SEE)):
        assert evidence.trust_of(made) == "executed"
        assert evidence.depends_on_tree(made)
        assert evidence.cache_key(Fingerprint(evidence.to_relevant_json(made), "sha256:t")) is not None
    asked = check("http", url="http://example.org")
    assert evidence.trust_of(asked) == "observed"
    assert evidence.cache_key(Fingerprint(evidence.to_relevant_json(asked), "sha256:t")) is None


def test_why_a_service_failed_is_said_in_both_languages() -> None:
    assert check_words.SERVICE_NEVER_UP().render("zh") != str(check_words.SERVICE_NEVER_UP())
