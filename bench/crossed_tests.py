"""How much of public packages' tests passes over the boundary, and whether `auto` refuses an honest suite.

    python bench/crossed_tests.py FOLDER [--python PYTHON] [--json] [PACKAGE ...]

FOLDER holds source archives (`pip download --no-deps --no-binary :all:`). PYTHON has pytest and what the tests import.
Only tests count that pass without the boundary. The seed of hashes is fixed, since some suites name tests by the order
of a set. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext, CheckLimits
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.promise import RunCheck
from agenttalk.rules.checks import test_runners
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.rules.suites import channel
from agenttalk.wiring import RandomIds, SystemClock

LEAST_SHARE = 0.9
_CONFIG = re.compile(r"(^|/)(conftest\.py|pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml)\Z")
_DIGITS = re.compile(r"\d+|'[^']*'|\"[^\"]*\"")
_OPTIONS = "-q -p no:cacheprovider -p no:randomly"


@dataclass
class CrossedPackage:
    """What was measured of one package."""

    name: str
    plain: int = 0
    """Tests that pass without the boundary."""
    crossed: int = 0
    refused: str = ""
    """Why `auto` refused the unchanged suite; empty if it did not."""
    seconds: float = 0.0
    reasons: list[tuple[str, int]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """How many of the tests crossed."""
        return self.crossed / self.plain if self.plain else 0.0


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("packages", nargs="*", help="only archives whose names begin so")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the tests")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--why", action="store_true", help="print the tests that did not cross")
    given = parser.parse_intermixed_args()
    archives = sorted(given.folder.glob("*.tar.gz"))
    chosen = [path for path in archives if not given.packages or path.name.startswith(tuple(given.packages))]
    measured = []
    for archive in chosen:
        with tempfile.TemporaryDirectory(prefix="agenttalk-crossed-", ignore_cleanup_errors=True) as top:
            measured.append(measure(archive, Path(top), given.python))
        if not given.json:
            show(measured[-1], why=given.why)
    plain, crossed = sum(each.plain for each in measured), sum(each.crossed for each in measured)
    refused = [each.name for each in measured if each.refused]
    missed = crossed < LEAST_SHARE * plain or bool(refused)
    if given.json:
        print(json.dumps({"packages": [asdict(each) for each in measured], "missed": missed}))
    else:
        print(f"\n{len(measured)} packages: {crossed:,} of {plain:,} tests cross ({crossed / max(plain, 1):.1%})")
        print(f"  goal: at least {LEAST_SHARE:.0%}; honest suites refused: {len(refused)} {' '.join(refused)}")
    return int(missed)


def measure(archive: Path, top: Path, python: str) -> CrossedPackage:
    """Run the suite of one package over the boundary as before the work, and then as unchanged honest work."""
    began = time.monotonic()
    found = CrossedPackage(archive.name.removesuffix(".tar.gz"))
    tree = top / "tree"
    unpack(archive, tree)
    first = judge(tree, python, CheckFacts(before_work=True, protected=list_tests(tree)))
    if first.tests is None or first.crossed is None:
        found.refused = f"{first.reason} {first.detail} {first.output[-600:]}"
        return found
    named = {channel.name_test("pytest", name): name for name in (*first.crossed.passed, *first.crossed.other)}
    plain = first.tests.passed
    found.plain = len(plain)
    found.crossed = len({channel.name_test("pytest", name) for name in first.crossed.passed} & plain)
    lost = {named[test] for test in plain if test in named} - first.crossed.passed
    why = Counter(_DIGITS.sub("…", first.crossed.reasons.get(name, "no breach")) for name in lost)
    found.reasons = why.most_common(12)
    found.missing = sorted(f"{name}: {first.crossed.reasons.get(name, 'no breach')}" for name in lost)
    found.missing += sorted(f"{test}: never run" for test in plain - named.keys())
    failed = tuple(name for name in (*first.crossed.passed, *first.crossed.other) if fails(name, first))
    unpack(archive, tree)
    left = "".join(f" --deselect={shlex.quote(name)}" for name in failed)
    work = tuple(path for path in list_python(tree) if not test_runners.is_test(path))
    known = drop_deselected(first, failed)
    facts = CheckFacts(
        protected=list_tests(tree), changed=work, base=known.tests, base_source=first.source, crossed=known.crossed
    )
    again = judge(tree, python, facts, left)
    if not again.passed:
        found.refused = f"{again.reason}: {again.detail}"
    found.seconds = round(time.monotonic() - began, 1)
    return found


def drop_deselected(first: CheckResult, names: tuple[str, ...]) -> CheckResult:
    """Drop what pytest leaves out: the tests that fail anyhow, and all whose names begin with one of theirs."""
    if first.tests is None or first.crossed is None or not names:
        return first
    ids = tuple(channel.name_test("pytest", name) for name in names)
    tests = replace(
        first.tests,
        passed=frozenset(each for each in first.tests.passed if not each.startswith(ids)),
        skipped=frozenset(each for each in first.tests.skipped if not each.startswith(ids)),
        failed=frozenset(),
    )
    crossed = frozenset(each for each in first.crossed.passed if not each.startswith(names))
    return replace(first, tests=tests, crossed=replace(first.crossed, passed=crossed))


def fails(name: str, first: CheckResult) -> bool:
    """Whether a test does not pass even without the boundary."""
    tests = first.tests
    return tests is not None and channel.name_test("pytest", name) in tests.failed


def unpack(archive: Path, tree: Path) -> None:
    """Unpack an archive without the folder around it."""
    shutil.rmtree(tree, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=tree.parent) as folder:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        next(Path(folder).iterdir()).rename(tree)


def list_python(tree: Path) -> Iterable[str]:
    """List the Python files of a tree."""
    return sorted(str(path.relative_to(tree)) for path in tree.rglob("*.py"))


def list_tests(tree: Path) -> tuple[str, ...]:
    """List what is protected: tests with their data, and the configuration of the runner."""
    files = (str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    return tuple(sorted(path for path in files if test_runners.is_test(path) or _CONFIG.search(path)))


def judge(tree: Path, python: str, facts: CheckFacts, more: str = "") -> CheckResult:
    """Make the check of a suite, in bubblewrap."""
    tests = next((name for name in ("tests", "test", "testing") if (tree / name).is_dir()), "")
    run = f"{python} -m pytest {_OPTIONS} {tests}{more}".strip()
    env = {"PYTHONHASHSEED": "0", **({"PYTHONPATH": "src"} if (tree / "src").is_dir() else {})}
    check = RunCheck.model_validate(
        {"id": "suite", "kind": "run", "run": run, "env": env, "timeout": 1500, "boundary": "auto"}
    )

    async def make() -> CheckResult:
        checker = Checker(ScriptDriver(LocalProcesses()), SystemClock(), RandomIds())
        readable = (Path(python).parent.parent,)
        context = CheckContext(
            path=os.environ["PATH"], sandbox="bubblewrap", readable=readable, limits=CheckLimits(seconds=1500)
        )
        with SafeFolder.open(tree) as folder:
            return await checker.check(check, folder, facts, context)

    return asyncio.run(make())


def show(found: CrossedPackage, *, why: bool) -> None:
    """Print what was measured of a package."""
    verdict = f"REFUSED {found.refused}" if found.refused else "auto accepts it"
    print(
        f"{found.name:32} {found.crossed:5} of {found.plain:5} {found.share:7.1%} {found.seconds:6.1f} s  {verdict}",
        flush=True,
    )
    for reason, count in found.reasons:
        print(f"    {count:4} {reason}")
    if why:
        for name in found.missing:
            print(f"      {name}")


if __name__ == "__main__":
    sys.exit(main())
