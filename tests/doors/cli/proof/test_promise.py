"""`agenttalk promise`, as people and programs use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.main import call

PROMISE: dict[str, Any] = {
    "id": "cp-1717980000000-a3f1",
    "objective": "The price function works",
    "acceptance": [{"id": "tests", "description": "The suite passes", "evidenceRequired": ["unit", "e2e"]}],
    "requiredEvidence": ["unit"],
}
CHECKED = {**PROMISE, "checks": [{"id": "unit", "kind": "run", "run": "make test"}]}
RAN = {"id": "unit", "passed": True, "fresh": True, "trust": "executed"}

Call = Callable[..., tuple[int, Any, str]]


@pytest.fixture
def promise(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Call:
    """Call a command with JSON values as its files; a value given as `name=` becomes the option of that name."""

    def called(command: str, body: Any, *options: str, **files: Any) -> tuple[int, Any, str]:
        words = ["promise", command, _file(tmp_path / "promise.json", body)]
        for name, value in files.items():
            words += [f"--{name}", _file(tmp_path / f"{name}.json", value)]
        code = call([*words, *options])
        out, err = capfd.readouterr()
        return code, json.loads(out) if "--json" in options else out, err

    return called


def _file(path: Path, value: Any) -> str:
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return str(path)


def test_a_valid_promise_is_said_to_be_so(promise: Call) -> None:
    code, out, err = promise("validate", PROMISE)
    assert (code, err) == (0, "")
    assert "cp-1717980000000-a3f1 is valid" in out
    assert promise("validate", PROMISE, "--json")[1] == {"ok": True, "valid": True, "issues": [], "warnings": []}


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"id": "cp-x"}, "hard-deny", "id"),
    ({"objective": "  "}, "hard-deny", "objective"),
    ({"acceptance": []}, "hard-deny", "acceptance"),
    ({"acceptance": [{"id": " ", "description": "d"}]}, "hard-deny", "acceptance[0].id"),
    ({"acceptance": [{"id": "a", "description": ""}]}, "hard-deny", "acceptance[0].description"),
    ({"acceptance": [{"id": "a", "description": "d"}] * 2}, "soft-deny", "acceptance"),
    ({"allowedScope": ["a"], "disallowed_scope": ["a"]}, "soft-deny", "disallowedScope"),
    ({"doneWhen": []}, "warning", "doneWhen"),
    ({"abort_when": []}, "warning", "abortWhen"),
]


@pytest.mark.parametrize(("changes", "severity", "field"), FAULTS)
def test_each_issue_is_told_with_its_severity(
    promise: Call, changes: dict[str, Any], severity: str, field: str
) -> None:
    code, body, _ = promise("validate", {**PROMISE, **changes}, "--json")
    issue = body["issues"][0]
    assert len(body["issues"]) == 1
    assert (issue["severity"], issue["checkpoint"], issue["field"]) == (severity, "pre-plan", field)
    assert body["valid"] is (severity != "hard-deny")
    assert code == (2 if severity == "hard-deny" else 0)
    assert severity in promise("validate", {**PROMISE, **changes})[2]


def test_all_issues_are_told_at_once_and_misspelt_guards_too(promise: Call) -> None:
    wrong = {"id": "x", "objective": "", "acceptance": [], "doneWhen": [], "abortWhen": [], "allowedScop": ["a"]}
    code, body, _ = promise("validate", wrong, "--json")
    assert (code, len(body["issues"])) == (2, 5)
    assert [warning["field"] for warning in body["warnings"]] == ["promise.allowedScop"]
    assert "did you mean 'allowed" in promise("validate", wrong)[2]


@pytest.mark.parametrize(
    ("body", "evidence", "gates", "options", "fulfilled"),
    [
        (PROMISE, ["unit"], [], (), True),
        (PROMISE, [{**RAN, "trust": "attested"}], [], (), True),
        (PROMISE, [], [], (), False),
        (PROMISE, ["e2e"], [], (), False),
        (PROMISE, [{**RAN, "trust": "claimed"}], [], (), False),
        (PROMISE, [{**RAN, "passed": False}], [], (), False),
        (PROMISE, [{**RAN, "fresh": False}], [], (), False),
        (CHECKED, ["unit"], [], (), False),
        (CHECKED, [RAN], [], (), True),
        (PROMISE, ["unit"], [], ("--aborted", "scope-drift"), False),
        ({**PROMISE, "acceptance": []}, ["unit"], [], (), False),
        ({**PROMISE, "doneWhen": [{"type": "user-confirmed"}]}, ["unit"], [], (), False),
        ({**PROMISE, "doneWhen": [{"type": "user-confirmed"}]}, ["unit"], [], ("--confirmed",), True),
        ({**PROMISE, "doneWhen": [{"type": "evidence-present", "target": "x"}]}, ["unit"], [], (), False),
        ({**PROMISE, "doneWhen": [{"type": "evidence-present", "target": "x"}]}, ["unit", "x"], [], (), True),
        ({**PROMISE, "doneWhen": [{"type": "acceptance-met", "target": "no"}]}, ["unit"], [], (), False),
        ({**PROMISE, "doneWhen": [{"type": "gate-passed"}]}, ["unit"], [True], (), False),
        ({**PROMISE, "doneWhen": [{"type": "gate-passed", "target": "pre-ship"}]}, ["unit"], [], (), False),
        ({**PROMISE, "doneWhen": [{"type": "gate-passed", "target": "pre-ship"}]}, ["unit"], [False, True], (), True),
        ({**PROMISE, "doneWhen": [{"type": "gate-passed", "target": "pre-ship"}]}, ["unit"], [True, False], (), False),
    ],
    ids=range(20),
)
def test_a_promise_is_fulfilled_or_it_is_told_what_is_missing(
    promise: Call, body: Any, evidence: list[Any], gates: list[bool], options: tuple[str, ...], fulfilled: bool
) -> None:
    results = [{"allowed": allowed, "checkpoint": "pre-ship", "traceId": "t"} for allowed in gates]
    code, said, _ = promise("check", body, *options, "--json", evidence=evidence, gates=results)
    assert code == (0 if fulfilled else 1)
    assert said["ok"] is said["fulfilled"] is fulfilled
    assert bool(said["missing"] or said["blockers"]) is not fulfilled
    assert (said["trust"] is not None) is fulfilled
    code, out, err = promise("check", body, *options, evidence=evidence, gates=results)
    assert code == (0 if fulfilled else 1)
    assert ("is fulfilled" in out, "is not fulfilled" in out, "✗" in err) == (fulfilled, not fulfilled, not fulfilled)


def test_what_nothing_proves_is_told(promise: Call) -> None:
    _, said, _ = promise("check", PROMISE, "--json", evidence=["unit", {**RAN, "id": "talk", "trust": "claimed"}])
    assert said["unverified"] == ["talk"]
    assert "no evidence for: talk" in promise("check", PROMISE, evidence=[{**RAN, "id": "talk", "trust": "claimed"}])[2]


@pytest.mark.parametrize(
    ("body", "files", "options"),
    [
        ("{", {}, ()),
        ([], {}, ()),
        ({"id": "x"}, {}, ()),
        ({**PROMISE, "doneWhen": [{"type": "vibes"}]}, {}, ()),
        ({**PROMISE, "done_when": [], "doneWhen": []}, {}, ()),
        (PROMISE, {"evidence": {"unit": True}}, ()),
        (PROMISE, {"evidence": [{"id": "unit", "passed": True}]}, ()),
        (PROMISE, {"evidence": ["unit", ""]}, ()),
        (PROMISE, {"gates": [{"allowed": "yes", "checkpoint": "pre-ship", "traceId": "t"}]}, ()),
        (PROMISE, {"gates": [{"allowed": True, "checkpoint": "sometime", "traceId": "t"}]}, ()),
        (PROMISE, {}, ("--aborted", " ")),
        (PROMISE, {}, ("--evidence", "-", "--gates", "-")),
        (PROMISE, {}, ("--evidence", "/nowhere.json")),
    ],
    ids=range(13),
)
def test_bad_input_ends_with_2_and_decides_nothing(
    promise: Call, body: Any, files: dict[str, Any], options: tuple[str, ...]
) -> None:
    code, said, _ = promise("check", body, *options, "--json", **files)
    assert (code, said["ok"]) == (2, False)
    assert "fulfilled" not in said


@pytest.mark.mends("B9")
def test_a_promise_is_made_and_is_good_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["It works", "--run", "make test", "--ask", "Is it good?", "--check", '{"kind": "json", "path": "a.json"}']
    assert call(["promise", "new", *words, "--allow", "src/**", "--protect", "tests/**"]) == 0
    said = capsys.readouterr().out
    file = tmp_path / "promise.json"
    file.write_text(said)
    assert call(["promise", "validate", str(file)]) == 0
    promise = json.loads(said)
    assert [each["id"] for each in promise["checks"]] == ["run-1", "human-1", "json-1"]
    assert promise["allowedScope"] == ["src/**"]
    assert call(["promise", "new", "It works"]) == 2
