"""The page about a change, in every form."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from agenttalk.rules.changes import change_report
from agenttalk.rules.changes.change_proof import CheckRuns, judge_change
from agenttalk.rules.changes.change_report import ChangeReport
from agenttalk.rules.suites import junit
from agenttalk.rules.suites.outcomes import Outcomes
from rules.changes.test_change_proof import NEW, TEST, WORK, change, file, plain, result


def make_report(
    *, proven: bool = False, base_name: str = "main", output: str = "E  1 < 2\n", **policy: Any
) -> ChangeReport:
    notes = file("täx (1).py", None, "import os  # noqa\n")
    weaker = file("tests/test_price.py", TEST, "assert True\n")
    moved = file("b.py", "x", "x", "a.py")
    files = (WORK, NEW, notes, moved) if proven else (WORK, weaker, notes, moved)
    runs = CheckRuns(result("a b"), result("a"), red=result("a", "b"))
    if not proven:
        runs = CheckRuns(result("a"), result("a"), held=result("", "a"))
    found = change(*files, **policy)
    return ChangeReport(found, judge_change(found, runs), "tax", "b" * 40, "a" * 40, base_name, "pytest", "why", output)


def test_the_text_says_the_verdict_first_and_what_to_do() -> None:
    text = change_report.write_text(make_report())
    assert text.startswith("✗ Not proven: tax\n  files that changed since main (aaaaaaaaaa): 4\n  $ pytest -q\n")
    assert "  │ E  1 < 2\n" in text
    assert "  What to do:\n  → make the code pass the tests as they were" in text
    assert "  ! täx (1).py:1: a checker is switched off for this line: import os # noqa [check-silenced]" in text
    proven = change_report.write_text(make_report(proven=True, base_name=""))
    assert proven.startswith("✓ Proven: tax\n  files that changed since aaaaaaaaaa: 4\n")
    assert "│" not in proven
    silent = replace(result("a b"), detail="")
    found = change(WORK)
    quiet = ChangeReport(found, judge_change(found, CheckRuns(silent, result("a", "b"))), "tax", "b", "a")
    assert "  ✓ The check passes on the change as it is\n  ✓ Every test" in change_report.write_text(quiet)
    assert "What to do" not in proven
    assert change_report.write_text(make_report(), "zh").startswith("✗ 未证明：tax\n")


def test_a_long_list_of_notes_is_cut_and_says_so() -> None:
    found = change(WORK, file("a.py", None, "# noqa\n" * 30))
    proof = judge_change(found, CheckRuns(plain(True), plain(False)))
    text = change_report.write_text(ChangeReport(found, proof, "tax", "b", "a"))
    assert "  ! … 10 more\n" in text


def test_markdown_of_the_change_cannot_act() -> None:
    page = change_report.write_markdown(make_report(output="```\n# not a heading\n````\n@everyone\n"))
    assert page.startswith("### ❌ Not proven: tax\n")
    assert "\n`````\n```\n# not a heading\n````\n@everyone\n`````\n" in page
    assert "**Why this is not done**" in page
    assert "täx (1).py:1" in page
    hostile = make_report(proven=True)
    evil = ChangeReport(hostile.change, hostile.proof, "[x](http://y) <img> @all", "b", "a")
    page = change_report.write_markdown(evil)
    assert page.startswith("### ✅ Proven: \\[x\\](http://y) \\<img\\> \\@all\n")
    assert "**Why this is done**" in page
    assert "**What was not checked**" in page
    assert change_report.write_markdown(make_report(output="plain")).count("```") == 2


def test_json_has_everything() -> None:
    told = change_report.to_json(make_report())
    assert json.loads(json.dumps(told)) == told
    assert (told["ok"], told["verdict"], told["trust"]) == (False, "not_proven", None)
    assert told["check"] == {"run": "pytest -q", "cwd": "", "kind": "tests", "tool": "pytest", "why": "why"}
    assert {"path": "b.py", "kind": "moved", "moved_from": "a.py"} in told["files"]
    assert told["output"] == "E  1 < 2"
    assert change_report.to_json(make_report(proven=True))["verdict"] == "proven"


def test_sarif_has_a_result_for_each_suspicion_and_for_what_is_missing() -> None:
    told = change_report.to_sarif(make_report(), "1.2")
    [run] = told["runs"]
    assert (told["version"], run["tool"]["driver"]["version"]) == ("2.1.0", "1.2")
    found = {each["ruleId"]: each for each in run["results"]}
    assert found["check-silenced"]["level"] == "note"
    place = found["check-silenced"]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "t%C3%A4x%20%281%29.py"}, "region": {"startLine": 1}}
    assert found["assert-true"]["level"] == "error"
    assert "locations" not in found["missing-base-tests"]
    assert [each["id"] for each in run["tool"]["driver"]["rules"]] == sorted(found)
    conftest = change(file("conftest.py", None, ""))
    report = ChangeReport(conftest, judge_change(conftest, CheckRuns(result("a"), result("a"))), "tax", "b", "a")
    [run] = change_report.to_sarif(report, "1")["runs"]
    [place] = [
        each["locations"][0]["physicalLocation"] for each in run["results"] if each["ruleId"] == "read-by-runner"
    ]
    assert "region" not in place
    assert change_report.to_sarif(make_report(proven=True), "1")["runs"][0]["properties"] == {"verdict": "proven"}


def test_junit_is_read_by_our_own_reader() -> None:
    hostile = "\x00 <bad> \ufffe ]]> &amp;\n"
    found = junit.parse(change_report.write_junit(make_report(output=hostile)).encode())
    assert isinstance(found, Outcomes)
    assert found.failed == {"agenttalk.prove::base-tests", "agenttalk.prove::protected", "agenttalk.prove::shown"}
    assert found.passed == {"agenttalk.prove::check", "agenttalk.prove::tests-kept"}
    found = junit.parse(change_report.write_junit(make_report(proven=True)).encode())
    assert isinstance(found, Outcomes)
    assert (len(found.passed), found.failed, found.beyond) == (4, frozenset(), False)
