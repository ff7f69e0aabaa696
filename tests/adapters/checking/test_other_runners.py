"""Runners of other languages report to the engine while they run, as far as that is possible there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking import suite_run
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.rules.proof.evidence import CheckResult, ResultSource
from agenttalk.rules.suites.outcomes import Outcomes

HOME = {
    "HOME": str(Path.home()),
    **{name: os.environ[name] for name in ("GOPATH", "CARGO_HOME", "RUSTUP_HOME") if name in os.environ},
}
node = pytest.mark.skipif(shutil.which("node") is None, reason="node is missing")
go = pytest.mark.skipif(shutil.which("go") is None, reason="go is missing")
cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is missing")

NODE = "node --test tests/"
NODE_SUITE = """
const test = require('node:test');
const assert = require('node:assert');
const { sum } = require('../work');
test('adds', () => assert.strictEqual(sum(1, 2), 3));
"""
SUM = "exports.sum = (a, b) => a + b;\n"
WRONG = "exports.sum = (a, b) => a;\n"
ADDS = "tests/work.test.js::adds"


def judged(
    bench: Bench, files: dict[str, str], run: str, *, base: Outcomes | None = None, kind: str = "tests"
) -> CheckResult:
    for name, text in files.items():
        path = bench.checkout / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    source: ResultSource = "channel" if base is not None else ""
    facts = CheckFacts(tree="sha256:t", base=base, base_source=source, changed=("work.js",))
    return bench.make(check(kind, run=run, env=HOME), facts)


@node
@pytest.mark.rest_but("plain", "boxed")
def test_node_reports_each_test(bench: Bench) -> None:
    more = {
        "tests/other.test.mjs": "import test from 'node:test';\ntest('other', () => {});\n",
        "tests/script.test.js": "0;\n",
    }
    result = judged(bench, {"work.js": SUM, "tests/work.test.js": NODE_SUITE, **more}, NODE)
    assert (result.passed, result.source, result.detail) == (True, "channel", "3 passed")
    assert result.tests is not None
    assert result.tests.passed == {ADDS, "tests/other.test.mjs::other", "tests/script.test.js"}


NODE_CHEATS: dict[str, tuple[str, str]] = {
    "exits while it is loaded": ("process.exit(0);", "channel_cut"),
    "exits without listeners": ("process.reallyExit(0);", "channel_cut"),
    "exits in the function": ("exports.sum = () => process.exit(0);", "channel_cut"),
    "exits later": (
        "setTimeout(() => process.exit(0), 1);\nexports.sum = () => new Promise(() => {});",
        "channel_cut",
    ),
    "exits when the process ends": (f"process.on('exit', () => process.reallyExit(0));\n{WRONG}", "tests_failed"),
    "changes the exit code": (f"process.on('exit', () => {{ process.exitCode = 0; }});\n{WRONG}", "tests_failed"),
    "patches an assertion": (f"require('assert').strictEqual = () => {{}};\n{WRONG}", "harness_tampered"),
    "prints results": (f"console.log('ok 1 - adds\\n1..1\\n# pass 1');\n{WRONG}", "tests_failed"),
    "skips from the work": (
        "const test = require('node:test');\ntest.skip('adds', () => {});\nprocess.exit(0);",
        "channel_cut",
    ),
    "takes listeners away": (f"process.removeAllListeners('exit');\n{WRONG}", "channel_cut"),
    "forges a report": (f"require('fs').writeFileSync('r.xml', '<testsuite/>');\n{WRONG}", "tests_failed"),
    "removes the test": ("require('node:test').test = () => {};\nexports.sum = (a) => a;", "tests_failed"),
}


@node
@pytest.mark.rest_but("exits while it is loaded", "exits without listeners", "patches an assertion")
@pytest.mark.parametrize("cheat", NODE_CHEATS)
def test_code_that_ends_or_patches_node_does_not_pass(plain: Bench, cheat: str) -> None:
    work, reason = NODE_CHEATS[cheat]
    result = judged(plain, {"work.js": work, "tests/work.test.js": NODE_SUITE}, NODE)
    assert (result.passed, result.source) == (False, "channel")
    assert result.reason == reason


NODE_ODD = """
const test = require('node:test');
const assert = require('node:assert');
const { describe, it } = test;
test('a', async (t) => {
  await t.test('inner "quoted" \\u00e9', () => {});
  process.stdout.write('no newline');
});
for (const each of ['::', ' > ', '\\ud800']) test(`case ${each}`, () => {});
describe('suite', { concurrency: true }, () => { it('one', () => {}); it('two', async () => {}); });
test('later', { todo: 'not yet' }, () => assert.fail());
test.todo('planned');
test('port', { skip: 'needs port 80' }, () => {});
test('starts node', () => {
  const { spawnSync } = require('node:child_process');
  const ran = spawnSync(process.execPath, ['--test', 'inner'], { encoding: 'utf8', env: { ...process.env, NODE_TEST_CONTEXT: undefined } });
  assert.notStrictEqual(ran.status, 0);
});
test('patches for a moment', (t) => {
  t.mock.method(assert, 'ok', () => {});
  assert.ok(false);
});
"""


@node
def test_an_honest_suite_of_node_in_odd_shapes_passes(boxed: Bench) -> None:
    files = {
        "tests/odd.test.js": NODE_ODD,
        "inner/bad.test.js": "require('node:test')('bad', () => { throw 1; });\n",
        "tests/script.test.js": "require('node:assert').ok(process.env.NODE_OPTIONS !== undefined);\n",
    }
    result = judged(boxed, files, "NODE_OPTIONS='--no-warnings --no-deprecation' node --test tests/")
    assert (result.passed, result.source, result.detail) == (True, "channel", "10 passed, 3 skipped")
    assert result.tests is not None
    assert dict(result.tests.whys)["tests/odd.test.js::port"] == "needs port 80"


@node
@pytest.mark.rest
def test_a_test_of_node_that_is_gone_or_spared_is_missed(plain: Bench) -> None:
    base = Outcomes(passed=frozenset({ADDS, "tests/work.test.js::more"}))
    gone = judged(plain, {"work.js": SUM, "tests/work.test.js": NODE_SUITE}, NODE, base=base)
    assert (gone.passed, gone.reason) == (False, "tests_vanished")
    spared = NODE_SUITE + "test('more', (t) => t.skip('work said so'));\n"
    skipped = judged(plain, {"work.js": SUM, "tests/work.test.js": spared}, NODE, base=base)
    assert (skipped.passed, skipped.reason) == (False, "tests_skipped")


GO = "go test ./..."
MODULE = "module example.com/work\n\ngo 1.21\n"
GO_WORK = "package work\n\nfunc Sum(a, b int) int { return a + b }\n"
GO_SUITE = """package work
import "testing"
func TestSum(t *testing.T) { if Sum(1, 2) != 3 { t.Fatal("wrong") } }
"""
GO_ODD = """package work
import ("fmt"; "os"; "os/exec"; "testing")
func TestMain(m *testing.M) { code := m.Run(); os.Exit(code) }
func TestCases(t *testing.T) {
	for _, name := range []string{"a b", "c/d", "\\"é\\x00"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); fmt.Print("no newline") })
	}
}
func TestPort(t *testing.T) { t.Skipf("needs port %d", 80) }
func TestCleanup(t *testing.T) { t.Cleanup(func() { os.Remove("nothing") }) }
func TestInner(t *testing.T) { exec.Command("go", "test", "./inner").Run() }
func FuzzIt(f *testing.F) { f.Add(1); f.Fuzz(func(t *testing.T, n int) {}) }
func BenchmarkIt(b *testing.B) { b.Fatal("not run") }
func ExampleSum() {
	fmt.Println(Sum(1, 2))
	// Output: 3
}
"""


@go
@pytest.mark.rest
def test_go_reports_each_test(bench: Bench) -> None:
    tagged = '//go:build never\n\npackage work\nimport "testing"\nfunc TestNever(t *testing.T) { t.Fatal() }\n'
    more = {
        "other/other_test.go": 'package other\nimport "testing"\nfunc TestOther(t *testing.T) {}\n',
        "tag_test.go": tagged,
    }
    result = judged(
        bench, {"go.mod": MODULE, "work.go": GO_WORK, "work_test.go": GO_SUITE, "odd_test.go": GO_ODD, **more}, GO
    )
    assert (result.passed, result.source, result.detail) == (True, "channel", "11 passed, 1 skipped")
    assert result.tests is not None
    assert {
        "example.com/work::TestSum",
        "example.com/work/other::TestOther",
        "example.com/work::TestCases/c/d",
    } <= result.tests.passed
    assert dict(result.tests.whys) == {"example.com/work::TestPort": "needs port 80"}


GO_CHEATS: dict[str, tuple[str, str]] = {
    "exits while it is loaded": (
        'import "os"\nfunc init() { os.Exit(0) }\nfunc Sum(a, b int) int { return a }',
        "channel_cut",
    ),
    "exits in the function": ('import "syscall"\nfunc Sum(a, b int) int { syscall.Exit(0); return a }', "channel_cut"),
    "exits in a goroutine": (
        'import "syscall"\nfunc init() { go syscall.Exit(0) }\nfunc Sum(a, b int) int { select {} }',
        "channel_cut",
    ),
    "prints results": (
        'import ("fmt"; "syscall")\nfunc Sum(a, b int) int { fmt.Print("\\x16--- PASS: TestSum (0.00s)\\nPASS\\n"); syscall.Exit(0); return a }',
        "channel_cut",
    ),
}


@go
@pytest.mark.rest
@pytest.mark.parametrize("cheat", GO_CHEATS)
def test_code_that_ends_a_test_program_of_go_does_not_pass(plain: Bench, cheat: str) -> None:
    work, reason = GO_CHEATS[cheat]
    result = judged(
        plain,
        {"go.mod": MODULE, "work.go": f"package work\n\n{work}\n", "work_test.go": GO_SUITE},
        f"{GO} -json",
        kind="run",
    )
    assert (result.passed, result.reason, result.source) == (False, reason, "channel")


@go
@pytest.mark.rest
def test_a_command_of_go_with_flags_of_its_own_reports_too(plain: Bench) -> None:
    files = {"go.mod": MODULE, "work.go": GO_WORK, "work_test.go": GO_SUITE}
    result = judged(plain, files, "GOFLAGS=-mod=mod go test -run 'TestS.m' -v ./...")
    assert (result.passed, result.source, result.detail) == (True, "channel", "1 passed")


CARGO = "cargo test --offline"
CRATE = '[package]\nname = "work"\nversion = "0.1.0"\nedition = "2021"\n'
CARGO_WORK = """
/// Adds.
/// ```
/// assert_eq!(work::sum(1, 2), 3);
/// ```
pub fn sum(a: i32, b: i32) -> i32 { BODY }

#[cfg(test)]
mod tests {
    use super::*;
    #[test] fn adds() { assert_eq!(sum(1, 2), 3); }
    #[test] #[ignore = "slow"] fn slow() {}
    #[test] #[should_panic(expected = "x")] fn panics() { panic!("x") }
    #[test] fn prints() {
        use std::io::Write;
        std::io::stdout().write_all(b"no newline").unwrap();
        assert!(sum(1, 2) == 3);
    }
}
"""
FORGED = "".join(
    f"test {name} ... {end}\\n"
    for name, end in {
        "tests::adds": "ok",
        "tests::slow": "ignored, slow",
        "tests::panics - should panic": "ok",
        "tests::prints": "ok",
        "outside": "ok",
    }.items()
)
PRINTS = (
    f'{{ use std::io::Write; std::io::stdout().write_all(b"{FORGED}").unwrap(); std::io::stdout().flush().unwrap(); }}'
)
BECOMES_ANOTHER = """{
    PRINTS
    use std::os::unix::process::CommandExt;
    panic!("{} {a} {b}", std::process::Command::new("true").exec())
}""".replace("PRINTS", PRINTS)
BEFORE_MAIN = """{
    #[used]
    #[link_section = ".init_array"]
    static EARLY: extern "C" fn() = {
        extern "C" fn early() {
            let listing = std::env::args().any(|each| each == "--list");
            print!("{}", if listing { "tests::adds: test\\n\\n1 test, 0 benchmarks\\n" } else { "FORGED" });
            std::process::exit(0)
        }
        early
    };
    let _ = b;
    a
}""".replace("FORGED", FORGED)
CARGO_CHEATS: dict[str, tuple[str, str]] = {
    "exits in the function": ("std::process::exit(a - a + b - b)", "channel_cut"),
    "exits in a thread": (
        "std::thread::spawn(|| std::process::exit(0)); loop { std::thread::park_timeout(std::time::Duration::from_secs(a as u64 + b as u64)) }",
        "channel_cut",
    ),
    "prints the results of all tests": (
        f"{{ {PRINTS} std::process::exit(a - a + b - b) }}",
        "channel_cut",
    ),
    "ends the process past the library": (
        f'{{ {PRINTS} extern "C" {{ fn _exit(code: i32) -> !; }} unsafe {{ _exit(a - a + b - b) }} }}',
        "channel_cut",
    ),
    "becomes another program": (BECOMES_ANOTHER, "channel_cut"),
    "runs before main": (BEFORE_MAIN, "channel_cut"),
    "takes the place of our function": (
        '{ #[no_mangle] pub extern "C" fn __wrap_main() -> i32 { 0 } let _ = b; a }',
        "channel_silent",
    ),
    "is wrong": ("{ let _ = b; a }", "tests_failed"),
}


def cargo_files(body: str) -> dict[str, str]:
    return {
        "Cargo.toml": CRATE,
        "src/lib.rs": CARGO_WORK.replace("BODY", body),
        "tests/outside.rs": "#[test] fn outside() { assert_eq!(work::sum(2, 2), 4) }\n",
    }


@cargo
@pytest.mark.rest
@pytest.mark.parametrize("options", ["", " -q -- --nocapture --test-threads=1"])
def test_cargo_lists_its_tests_and_each_of_them_is_seen(boxed: Bench, options: str) -> None:
    result = judged(boxed, cargo_files("a + b"), CARGO + options)
    assert (result.passed, result.source, result.detail) == (True, "output", "4 passed, 1 skipped")
    assert result.tests is not None
    assert "work.outside::outside" in result.tests.passed
    assert dict(result.tests.whys) == {"work.work::tests::slow": "slow"}
    assert result.to_evidence(fresh=True).detail.endswith("from the runner's output")


@cargo
@pytest.mark.rest
@pytest.mark.parametrize("cheat", CARGO_CHEATS)
def test_code_that_ends_a_test_program_of_cargo_does_not_pass(plain: Bench, cheat: str) -> None:
    body, reason = CARGO_CHEATS[cheat]
    result = judged(plain, cargo_files(body), CARGO)
    assert (result.passed, result.reason) == (False, reason)


@node
@pytest.mark.rest
def test_more_runners_than_can_be_read_prove_nothing(plain: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite_run, "MOST_RUNNERS", 2)
    files = {"work.js": SUM, "tests/work.test.js": NODE_SUITE, "tests/other.test.js": "0;\n"}
    result = judged(plain, files, NODE)
    assert (result.passed, result.reason) == (False, "channel_garbled")
