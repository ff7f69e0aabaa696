"""Cases: inputs and expected results, each tried in a process of its own that never sees what is expected."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.rules.proof.evidence import CheckResult

TOTAL = "def total(prices):\n    return sum(prices)\n"
ASKED: list[dict[str, Any]] = [{"args": [[1, 2]], "returns": 3}, {"name": "none", "args": [[]], "returns": 0}]


def called(bench: Bench, work: str, cases: list[dict[str, Any]], **fields: Any) -> CheckResult:
    (bench.checkout / "work.py").write_text(work, encoding="utf-8")
    made = check("cases", **{"call": "work:total", "python": sys.executable, "cases": cases, **fields})
    return bench.make(made)


@pytest.mark.rest_but("plain", "boxed")
def test_a_function_is_called_for_each_case(bench: Bench) -> None:
    result = called(bench, TOTAL, ASKED)
    assert (result.passed, result.detail, result.trust) == (True, "2 cases passed", "executed")
    assert result.tests is not None
    assert result.tests.passed == {"#1", "none"}
    wrong = called(bench, TOTAL.replace("sum(prices)", "sum(prices) or None"), ASKED)
    assert (wrong.passed, wrong.reason) == (False, "cases_failed")
    assert wrong.detail == "1 of 2 cases failed; none total([]): it returned None, and 0 is asked for"


CHEATS: dict[str, tuple[str, str]] = {
    "equals everything": (
        "class A(int):\n    def __eq__(self, other): return True\n    __hash__ = None\ndef total(prices): return A(7)\n",
        "it returned object('work.A'), and 3 is asked for",
    ),
    "is of another type": ("def total(prices): return float(sum(prices))\n", "it returned 3.0"),
    "is true": ("def total(prices): return True\n", "it returned True, and 3 is asked for"),
    "exits while it is loaded": ("import os\nos._exit(0)\n", "its process ended with 0"),
    "exits": ("def total(prices):\n    raise SystemExit(0)\n", "its process ended with 0"),
    "exits in a thread": (
        "import os, threading\nthreading.Thread(target=os._exit, args=[0]).start()\ndef total(prices):\n    while True: pass\n",
        "its process ended with 0",
    ),
    "forges answers": (
        "import sys\ndef total(prices):\n    open(sys.argv[2], 'w').write('{\"value\": 4}\\n' * 5)\n    return 4\n",
        "it returned 4, and 3 is asked for",
    ),
    "looks for what is expected": (
        "import sys\ndef total(prices):\n    return 3 if 'returns' in open(sys.argv[1]).read() else 4\n",
        "it returned 4, and 3 is asked for",
    ),
    "remembers": (
        "seen = []\ndef total(prices):\n    seen.append(1)\n    return 3 if len(seen) > 1 else 0\n",
        "it returned 0, and 3 is asked for",
    ),
    "patches what writes the answer": (
        "import json\njson.dumps = lambda value, **keys: '{\"value\": 3}'\ndef total(prices): return 4\n",
        "it returned 4, and 3 is asked for",
    ),
    "prints an answer": ("def total(prices):\n    print('{\"value\": 3}')\n    return 4\n", "it returned 4"),
}


@pytest.mark.rest_but("equals everything", "exits", "forges answers")
@pytest.mark.parametrize("cheat", CHEATS)
def test_code_that_would_deceive_a_test_does_not_pass(plain: Bench, cheat: str) -> None:
    work, why = CHEATS[cheat]
    result = called(plain, work, ASKED[:1])
    assert (result.passed, result.reason) == (False, "cases_failed")
    assert why in result.detail


@pytest.mark.rest
def test_a_case_that_takes_too_long_leaves_the_others(plain: Bench) -> None:
    work = "def total(prices):\n    while not prices: pass\n    return sum(prices)\n"
    result = called(plain, work, ASKED, each=1)
    assert result.tests is not None
    assert (set(result.tests.passed), set(result.tests.failed)) == ({"#1"}, {"none"})
    assert "it took longer than a case may" in result.detail


ODD = """
import asyncio, collections, decimal, os, sys
print("noise", file=sys.stdout)
os.write(1, b"noise without a line end")

async def total(what, key=None):
    return {
        "tuple": (1, (2,)), "set": {3, 1}, "bytes": b"\\0\\xff", "decimal": decimal.Decimal("1.20"), "none": None,
        "dict": {2: "b", 1: "a"}, "nan": float("nan"), "half": 0.1 + 0.2, "big": 10**30, "same": (what, key), "text": "\\ud800é",
        "complex": 1j, "$tuple": {"$set": 1},
    }[what]
"""
VALUES: dict[str, Any] = {
    "tuple": {"$tuple": [1, {"$tuple": [2]}]},
    "set": {"$set": [1, 3]},
    "bytes": {"$bytes": "00ff"},
    "decimal": {"$decimal": "1.20"},
    "none": None,
    "dict": {"$dict": [[1, "a"], [2, "b"]]},
    "half": 0.3,
    "big": 10**30,
    "complex": {"$complex": [0.0, 1.0]},
    "$tuple": {"$dict": [["$set", 1]]},
}


def test_honest_values_of_odd_types_pass(boxed: Bench) -> None:
    cases = [{"args": [name], "returns": value, "within": 1e-9} for name, value in VALUES.items()]
    cases.append({"args": ["same"], "kwargs": {"key": {"$set": [1]}}, "returns": {"$tuple": ["same", {"$set": [1]}]}})
    cases += [{"args": ["missing"], "raises": "KeyError"}, {"args": ["missing"], "raises": "LookupError"}]
    result = called(boxed, ODD, cases)
    assert (result.passed, result.detail) == (True, "13 cases passed")


PROGRAM = """
import json, pathlib, sys
if sys.argv[1:] == ["file"]:
    pathlib.Path("out.txt").write_text(pathlib.Path("data/in.txt").read_text().upper())
elif sys.argv[1:] == ["bad arg"]:
    sys.exit(3)
elif sys.argv[1:]:
    print(json.dumps({"args": sys.argv[1:]}))
else:
    sys.stdout.write(sys.stdin.read()[::-1])
"""
RUNS: list[dict[str, Any]] = [
    {"stdin": "abc", "stdout": "cba"},
    {"args": ["a b", "*"], "json": {"args": ["a b", "*"]}},
    {"args": ["bad arg"], "exit": 3},
    {"args": ["file"], "files": {"data/in.txt": "text"}, "writes": {"out.txt": "TEXT"}},
]


@pytest.mark.rest_but("plain", "boxed")
def test_a_command_is_run_for_each_case(bench: Bench) -> None:
    (bench.checkout / "program.py").write_text(PROGRAM)
    run = f"{sys.executable} program.py"
    result = bench.make(check("cases", run=run, cases=RUNS))
    assert (result.passed, result.detail) == (True, "4 cases passed")
    (bench.checkout / "program.py").write_text("print('cba')\n")
    wrong = bench.make(check("cases", run=run, cases=RUNS))
    assert wrong.tests is not None
    assert (wrong.passed, set(wrong.tests.failed)) == (False, {"#1", "#2", "#3", "#4"})
    assert "it printed 'cba\\n', and 'cba' is asked for" in wrong.detail


def test_what_cannot_be_started_is_no_result(plain: Bench) -> None:
    missing = called(plain, TOTAL, ASKED, python="no-such-python")
    assert (missing.passed, missing.reason, missing.tests) == (False, "exit_code", None)
    unloaded = called(plain, "import nothing_of_that_name\n", ASKED)
    assert "the function cannot be loaded: ModuleNotFoundError" in unloaded.detail
    nothing = plain.make(check("cases", cases=ASKED))
    assert (nothing.passed, nothing.reason) == (False, "facts_missing")
