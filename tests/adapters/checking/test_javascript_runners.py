"""jest and vitest report to the engine while they run. `make test-javascript` installs them; without it this is skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.rules.proof.evidence import CheckResult

INSTALLED = Path(__file__).parents[3] / ".javascript/node_modules"
pytestmark = [
    pytest.mark.rest,
    pytest.mark.skipif(not (INSTALLED / ".bin/jest").exists(), reason="not installed; 'make test-javascript' does it"),
]
SUITE = """IMPORTS
describe('sums', () => {
  test('adds', () => { expect(sum(1, 2)).toBe(3); });
  test.each([1, 2])('case %i', () => {});
});
test.todo('later');
test.skip('port', () => {});
"""
JEST = {"work.js": "", "work.test.js": SUITE.replace("IMPORTS", "const { sum } = require('./work');")}
VITEST = {
    "work.mjs": "",
    "work.test.mjs": SUITE.replace(
        "IMPORTS", "import { test, expect, describe } from 'vitest';\nimport { sum } from './work.mjs';"
    ),
}
SUITES = {"jest": (JEST, "work.js", "npx jest"), "vitest": (VITEST, "work.mjs", "npx vitest run")}
WORKS = {
    "jest": {"honest": "exports.sum = (a, b) => a + b;", "wrong": "exports.sum = (a) => a;"},
    "vitest": {"honest": "export const sum = (a, b) => a + b;", "wrong": "export const sum = (a) => a;"},
}
CHEATS = {
    "jest": {
        "exits while it is loaded": "process.exit(0);",
        "exits without listeners": "process.reallyExit(0);",
        "exits in the function": "exports.sum = () => process.reallyExit(0);",
        "exits later": "setTimeout(() => process.reallyExit(0), 1);\nexports.sum = () => { for (;;); };",
    },
    "vitest": {
        "exits while it is loaded": "process.exit(0);",
        "exits without listeners": "process.reallyExit(0);",
        "ends itself": "export const sum = () => process.kill(process.pid, 'SIGKILL');",
    },
}

EXTENDS = "expect.extend({ toBe: () => ({ pass: true, message: () => '' }) });"
NEVER_FAILS = "globalThis.expect = () => new Proxy({}, { get: () => () => {} });"
PATCHES = {
    "jest": {
        "takes the place of a matcher": (f"{EXTENDS}\n", "tests_failed"),
        "takes its place and catches": (f"try {{ {EXTENDS} }} catch (error) {{}}\n", "tests_failed"),
        "takes the place of expect": (NEVER_FAILS, "harness_tampered"),
        "takes its place for a moment": (
            f"const kept = expect;\n{NEVER_FAILS}\nafterAll(() => {{ globalThis.expect = kept; }});\n",
            "harness_tampered",
        ),
        "changes what matchers call": ("Object.is = () => true;", "harness_tampered"),
    },
    "vitest": {
        "takes the place of a matcher": (f"import {{ expect }} from 'vitest';\n{EXTENDS}\n", "harness_tampered"),
        "changes what matchers call": ("Object.is = () => true;", "harness_tampered"),
    },
}
ODD = """IMPORTS
expect.extend({ toBeOdd: (value) => ({ pass: value % 2 === 1, message: () => 'even' }) });
test('counts', () => { expect.assertions(2); expect(3).toBeOdd(); expect(sum(1, 2)).toBe(3); });
test('waits', async () => { await expect(Promise.resolve(sum(1, 2))).resolves.toBe(3); });
test('stops the clock', () => { CLOCK.useFakeTimers(); expect(Date.now()).toBeGreaterThan(0); });
"""


def judged(
    bench: Bench, runner: str, work: str, options: str = "", more: Mapping[str, str] | None = None
) -> CheckResult:
    files, name, run = SUITES[runner]
    for path, text in {**files, "package.json": "{}", name: work, **(more or {})}.items():
        (bench.checkout / path).write_text(text, encoding="utf-8")
    (bench.checkout / "node_modules").symlink_to(INSTALLED)
    seen = replace(bench, context=replace(bench.context, readable=(*bench.context.readable, INSTALLED)))
    return seen.make(check("tests", run=run + options, timeout=120))


@pytest.mark.parametrize("runner", SUITES)
def test_each_test_is_reported(boxed: Bench, runner: str) -> None:
    result = judged(boxed, runner, WORKS[runner]["honest"])
    assert (result.passed, result.source, result.detail) == (True, "channel", "3 passed, 2 skipped")
    assert result.tests is not None
    [(suite, _)] = [(name, text) for name, text in SUITES[runner][0].items() if "test" in name]
    assert result.tests.passed == {f"{suite}::sums > {each}" for each in ("adds", "case 1", "case 2")}
    assert result.tests.skipped == {f"{suite}::later", f"{suite}::port"}


@pytest.mark.parametrize(
    ("runner", "options"), [("jest", " -i"), ("jest", " --silent"), ("vitest", " --reporter=json")]
)
def test_options_of_a_command_leave_the_report_whole(plain: Bench, runner: str, options: str) -> None:
    result = judged(plain, runner, WORKS[runner]["honest"], options)
    assert (result.passed, result.source, result.detail) == (True, "channel", "3 passed, 2 skipped")


@pytest.mark.parametrize("runner", SUITES)
def test_a_wrong_result_is_seen(plain: Bench, runner: str) -> None:
    result = judged(plain, runner, WORKS[runner]["wrong"])
    assert (result.passed, result.reason, result.source) == (False, "tests_failed", "channel")


@pytest.mark.parametrize(("runner", "cheat"), [(runner, cheat) for runner in CHEATS for cheat in CHEATS[runner]])
def test_code_that_ends_its_process_does_not_pass(plain: Bench, runner: str, cheat: str) -> None:
    result = judged(plain, runner, CHEATS[runner][cheat])
    assert (result.passed, result.source) == (False, "channel")
    assert result.tests is None or not result.tests.passed


@pytest.mark.parametrize(("runner", "patch"), [(runner, patch) for runner in PATCHES for patch in PATCHES[runner]])
def test_code_that_changes_the_assertions_does_not_pass(plain: Bench, runner: str, patch: str) -> None:
    text, reason = PATCHES[runner][patch]
    result = judged(plain, runner, f"{text}\n{WORKS[runner]['wrong']}")
    assert (result.passed, result.reason, result.source) == (False, reason, "channel"), result.output


@pytest.mark.parametrize("runner", SUITES)
def test_an_honest_suite_in_odd_shapes_passes(boxed: Bench, runner: str) -> None:
    imports = {
        "jest": "const { sum } = require('./work');",
        "vitest": "import { test, expect, vi } from 'vitest';\nimport { sum } from './work.mjs';",
    }[runner]
    odd = ODD.replace("IMPORTS", imports).replace("CLOCK", {"jest": "jest", "vitest": "vi"}[runner])
    name = {"jest": "odd.test.js", "vitest": "odd.test.mjs"}[runner]
    result = judged(boxed, runner, WORKS[runner]["honest"], more={name: odd})
    assert (result.passed, result.source, result.detail) == (True, "channel", "6 passed, 2 skipped"), result.output
