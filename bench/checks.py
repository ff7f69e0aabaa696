"""Measures what hearing a test suite over the channel costs, what canaries cost, and what calls over the boundary cost.

`python bench/checks.py [--json] [RUNNER ...]` runs a suite of 2,000 quick tests with and without the channel, one after
the other in turn, for each runner that is installed; canaries beside one changed module; and one test with few and with
many calls of the work over the boundary. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.promise import RunCheck
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.wiring import RandomIds, SystemClock

TESTS = 2_000
ROUNDS = 8
MOST_SHARE = 0.03
"""Of a suite's processor time that the channel may take."""
MOST_CANARY_SECONDS = 1.0
CALLS = 20_000
MOST_CALL_SECONDS = 0.15
"""For 1,000 calls with plain values over the boundary."""
ALONE = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
RUN = f"{sys.executable} -m pytest -q -p no:cacheprovider"
OTHERS = 4
"""Rounds of the runners without a goal."""


@dataclass(frozen=True)
class QuickSuite:
    """A suite of quick tests in one language."""

    run: str
    files: Mapping[str, str]
    variables: str
    """What leads its runner to the channel."""
    rounds: int = OTHERS

    @property
    def unheard(self) -> str:
        """The same command, whose runner does not find the channel."""
        return f"env {self.variables} {self.run}"


def repeat(text: str) -> str:
    """Repeat the text of a test with each number."""
    return "".join(text.replace("NUMBER", str(number)) for number in range(TESTS))


SUITES: Mapping[str, QuickSuite] = {
    "pytest": QuickSuite(
        RUN,
        {
            "work.py": "def one():\n    return 1\n",
            "test_work.py": "from work import one\n" + repeat("def test_NUMBER():\n    assert one() == 1\n"),
        },
        "-u PYTHONPATH",
        ROUNDS,
    ),
    "node": QuickSuite(
        "node --test tests/",
        {
            "tests/work.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
            + repeat("test('NUMBER', () => assert.strictEqual(1, 1));\n")
        },
        "-u NODE_OPTIONS",
    ),
    "go": QuickSuite(
        "go test -count=1 ./...",
        {
            "go.mod": "module example.com/work\n\ngo 1.21\n",
            "work_test.go": 'package work\n\nimport "testing"\n\n'
            + repeat("func TestNUMBER(t *testing.T) { if NUMBER < 0 { t.Fatal() } }\n"),
        },
        "-u GOFLAGS",
    ),
    "cargo": QuickSuite(
        "cargo test --offline --lib",
        {
            "Cargo.toml": '[package]\nname = "work"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "#[cfg(test)]\nmod tests {\n"
            + repeat("#[test] fn t_NUMBER() { assert_eq!(1, 1) }\n")
            + "}\n",
        },
        " ".join(
            f"-u CARGO_TARGET_{platform.machine().upper()}_UNKNOWN_LINUX_GNU_{each}" for each in ("RUNNER", "LINKER")
        ),
    ),
}
HOME = {
    "HOME": str(Path.home()),
    **{name: os.environ[name] for name in ("GOPATH", "CARGO_HOME", "RUSTUP_HOME") if name in os.environ},
}


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runners", nargs="*", help="only the channel of these runners")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    given = parser.parse_args()
    shares = {}
    for name, suite in SUITES.items():
        if (name in given.runners or not given.runners) and (name == "pytest" or shutil.which(name)):
            shares[name] = measure_channel(suite)
            if not given.json:
                quiet, heard = shares[name]
                print(f"{name}: {TESTS:,} tests in {quiet:.3f} s of processor unheard, {heard:.3f} s over the channel")
                print(f"  {heard / quiet - 1:+.1%}; {(heard - quiet) * 1000:+.0f} ms", flush=True)
    missed = "pytest" in shares and shares["pytest"][1] / shares["pytest"][0] - 1 > MOST_SHARE
    found: dict[str, object] = {"channel_s": shares}
    if not given.runners:
        with tempfile.TemporaryDirectory(prefix="agenttalk-bench-") as name:
            (Path(name) / "work.py").write_text("def one():\n    return 1\n")
            canaries = measure_canaries(Path(name))
            calls = measure_calls(Path(name))
        missed = missed or canaries > MOST_CANARY_SECONDS or calls > MOST_CALL_SECONDS
        found |= {"canaries_s": canaries, "thousand_calls_s": calls}
        if not given.json:
            print(f"canaries: {canaries:.2f} s of processor; goal: at most {MOST_CANARY_SECONDS:.0f} s")
            print(f"1,000 calls over the boundary: {calls:.3f} s of processor; goal: at most {MOST_CALL_SECONDS} s")
    if given.json:
        print(json.dumps(found | {"missed": missed}))
    else:
        print(f"goal of the channel for pytest: at most {MOST_SHARE:.0%}")
    return int(missed)


def measure_channel(suite: QuickSuite) -> tuple[float, float]:
    """Return the least processor time of a check whose runner does not find the channel, and of one whose does."""
    quiet, heard = [], []
    with tempfile.TemporaryDirectory(prefix="agenttalk-bench-") as name:
        top = Path(name)
        for path, text in suite.files.items():
            (top / path).parent.mkdir(exist_ok=True)
            (top / path).write_text(text)
        for _ in range(suite.rounds):
            quiet.append(run_check(top, (), suite.unheard, heard=False))
            heard.append(run_check(top, (), suite.run))
    return min(quiet), min(heard)


def measure_canaries(top: Path) -> float:
    """Return what a check with canaries takes more than one without."""
    (top / "test_work.py").write_text("from work import one\ndef test_one():\n    assert one() == 1\n")
    without = min(run_check(top, ()) for _ in range(3))
    return min(run_check(top, ("work.py",)) for _ in range(3)) - without


def measure_calls(top: Path) -> float:
    """Return what a thousand calls of the work take over the boundary, of the judge and of the worker.

    These are asked themselves, since what a worker took that was killed is in no account of its parents.
    """
    (top / "work.py").write_text("from time import process_time\n\ndef one():\n    return 1\n")
    (top / "test_work.py").write_text(
        "import time\nfrom work import one, process_time\n\ndef test_one():\n"
        "    began = time.process_time() + process_time()\n"
        f"    for _ in range({CALLS}):\n        assert one() == 1\n"
        "    print('took', time.process_time() + process_time() - began, 'seconds')\n"
    )
    printed = (check_suite(top, (), f"{RUN} -rP", boundary="process").output for _ in range(3))
    return min(float(found[1]) for text in printed for found in re.finditer(r"took (\S+) seconds", text)) / CALLS * 1000


def run_check(top: Path, changed: tuple[str, ...], run: str = RUN, *, heard: bool = True) -> float:
    """Run the suite as a check; returns the processor time of all that it took, in the engine and below it."""
    before = spent()
    check_suite(top, changed, run, heard=heard)
    return spent() - before


def check_suite(
    top: Path, changed: tuple[str, ...], run: str = RUN, boundary: str = "off", *, heard: bool = True
) -> CheckResult:
    """Run the suite as a check that has to pass."""

    async def make() -> CheckResult:
        checker = Checker(ScriptDriver(LocalProcesses()), SystemClock(), RandomIds())
        check = RunCheck.model_validate(
            {"id": "suite", "kind": "run", "run": run, "env": {ALONE: "1", **HOME}, "boundary": boundary}
        )
        tier: Tier = "bubblewrap" if boundary == "process" else "plain"
        context = CheckContext(path=os.environ["PATH"], sandbox=tier, readable=(Path(sys.prefix),))
        facts = CheckFacts(tree="t", changed=changed, protected=("test_work.py",))
        with SafeFolder.open(top) as folder:
            return await checker.check(check, folder, facts, context)

    result = asyncio.run(make())
    if not result.passed or (result.source in {"channel", "output"}) is not heard:
        raise SystemExit(f"the suite did not pass over the channel: {result.reason} {result.detail}")
    return result


def spent() -> float:
    """Return the processor time of this process, and of all below it that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in both)


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    sys.exit(code)
