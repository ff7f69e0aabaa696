"""Measures what hearing a test suite over the channel costs, what canaries cost, and what calls over the boundary cost.

`python bench/checks.py [--json]` runs a suite of 2,000 quick tests with and without the channel, one after the other in
turn, canaries beside one changed module, and one test with few and with many calls of the work over the boundary.
Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.promise import RunCheck
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
UNHEARD = f"env -u PYTHONPATH {RUN}"


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agenttalk-bench-") as name:
        top = Path(name)
        (top / "work.py").write_text("def one():\n    return 1\n")
        tests = "".join(f"def test_{number}():\n    assert one() == 1\n" for number in range(TESTS))
        (top / "test_work.py").write_text(f"from work import one\n{tests}")
        quiet, heard = measure_channel(top)
        canaries = measure_canaries(top)
        calls = measure_calls(top)
    share = heard / quiet - 1
    found = {"quiet_s": quiet, "heard_s": heard, "share": share, "canaries_s": canaries, "thousand_calls_s": calls}
    missed = share > MOST_SHARE or canaries > MOST_CANARY_SECONDS or calls > MOST_CALL_SECONDS
    if given.json:
        print(json.dumps(found | {"missed": missed}))
    else:
        print(f"{TESTS:,} tests: {quiet:.3f} s of processor unheard, {heard:.3f} s over the channel: {share:+.1%}")
        print(f"  goal: at most {MOST_SHARE:.0%}")
        print(f"canaries: {canaries:.2f} s of processor; goal: at most {MOST_CANARY_SECONDS:.0f} s")
        print(f"1,000 calls over the boundary: {calls:.3f} s of processor; goal: at most {MOST_CALL_SECONDS} s")
    return int(missed)


def measure_channel(top: Path) -> tuple[float, float]:
    """Return the least processor time of a check whose runner does not find the channel, and of one whose does."""
    quiet, heard = [], []
    for _ in range(ROUNDS):
        quiet.append(run_check(top, (), UNHEARD))
        heard.append(run_check(top, ()))
    return min(quiet), min(heard)


def measure_canaries(top: Path) -> float:
    """Return what a check with canaries takes more than one without."""
    (top / "test_work.py").write_text("from work import one\ndef test_one():\n    assert one() == 1\n")
    without = min(run_check(top, ()) for _ in range(3))
    return min(run_check(top, ("work.py",)) for _ in range(3)) - without


def measure_calls(top: Path) -> float:
    """Return what a thousand calls of the work take over the boundary."""
    spans = []
    for calls in (1, CALLS):
        test = f"from work import one\n\ndef test_one():\n    for _ in range({calls}):\n        assert one() == 1\n"
        (top / "test_work.py").write_text(test)
        spans.append(min(run_check(top, (), boundary="process") for _ in range(3)))
    return (spans[1] - spans[0]) / CALLS * 1000


def run_check(top: Path, changed: tuple[str, ...], run: str = RUN, boundary: str = "off") -> float:
    """Run the suite as a check; returns the processor time of all that it took, in the engine and below it."""

    async def make() -> None:
        checker = Checker(ScriptDriver(LocalProcesses()), SystemClock(), RandomIds())
        check = RunCheck.model_validate(
            {"id": "suite", "kind": "run", "run": run, "env": {ALONE: "1"}, "boundary": boundary}
        )
        tier: Tier = "bubblewrap" if boundary == "process" else "plain"
        context = CheckContext(path=os.environ["PATH"], sandbox=tier, readable=(Path(sys.prefix),))
        facts = CheckFacts(tree="t", changed=changed, protected=("test_work.py",))
        with SafeFolder.open(top) as folder:
            result = await checker.check(check, folder, facts, context)
        if not result.passed or (result.source == "channel") is (run == UNHEARD):
            raise SystemExit(f"the suite did not pass over the channel: {result.reason} {result.detail}")

    before = spent()
    asyncio.run(make())
    return spent() - before


def spent() -> float:
    """Return the processor time of this process, and of all below it that have ended."""
    return sum(os.times()[:4])


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    print(f"measured in {time.monotonic() - began:.0f} s", file=sys.stderr)
    sys.exit(code)
