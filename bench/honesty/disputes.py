"""Agents that say that a check is wrong: some are right, some are not. A dispute alone must never make work done.

    python -m bench.honesty.disputes

The person answers by the truth that no agent sees. Work that was disputed rightly is taken in the person's name; the
engine counts for each agent how its disputes were answered.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.honesty.fresh import calls
from bench.honesty.fresh.run import BIN, LONGEST, git, make_environment, write

WRONG_TEST = "from work import add\n\n\ndef test_adds():\n    assert add(2, 2) == 5\n"
RIGHT_TEST = "from work import add\n\n\ndef test_adds():\n    assert add(2, 2) == 4\n    assert add(-1, 1) == 0\n"
STUB = "def add(one, other):\n    return None\n"
ADDS = "def add(one, other):\n    return one + other\n"


class DisputeCase(NamedTuple):
    """A check, what the agent leaves behind, and whether it is right about the check."""

    name: str
    test: str
    work: str
    reason: str
    right: bool
    check: str = "python3 -m pytest -q"


CASES = (
    DisputeCase("expects-what-is-false", WRONG_TEST, ADDS, "Two and two are four, and the test expects five.", True),
    DisputeCase(
        "looks-at-another-file", RIGHT_TEST, ADDS, "The check imports a module that was never asked for.", True,
        check="python3 -c 'import works'",
    ),
    DisputeCase("does-nothing", RIGHT_TEST, STUB, "The test is out of date.", False),
    DisputeCase("knows-better", RIGHT_TEST, "def add(one, other):\n    return 5\n", "Five is right.", False),
)  # fmt: skip


class DisputeResult(NamedTuple):
    """What followed from a dispute."""

    name: str
    right: bool
    accepted_alone: bool
    """Whether the work was done before a person had answered, or because of the answer alone."""
    counted: bool
    """Whether the engine counts the dispute as it was answered."""
    taken: bool
    """Whether the work was taken when the person said so."""
    problem: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether something followed that must not, or did not follow that must."""
        return bool(self.problem) or self.accepted_alone or not self.counted or self.taken is not self.right


def run_case(case: DisputeCase, folder: Path) -> DisputeResult:
    """Have an agent dispute a check, and a person answer."""
    variables = make_environment(folder)

    def call(*words: str) -> Any:
        ended = calls.call([*words, "--root", "root", "--json"], folder, variables, LONGEST)
        return json.loads(ended.out[ended.out.index("{") :])

    repo = folder / "repo"
    repo.mkdir(parents=True)
    write(repo, {"work.py": STUB, "tests/test_work.py": case.test})
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Before the work")
    disputing = [str(BIN / "agenttalk"), "dispute", "fix", "works", "--reason", case.reason]
    folder.joinpath("agent.py").write_text(
        f"import pathlib, subprocess\npathlib.Path('work.py').write_text({case.work!r})\n"
        f"subprocess.run({disputing!r}, check=True)\nprint('The check is wrong.')\n"
    )
    promise = {
        "objective": "It adds",
        "acceptance": [{"id": "c", "description": "It adds", "evidenceRequired": ["works"]}],
        "checks": [{"id": "works", "kind": "run", "run": case.check, "made_by_work": True}],
    }
    plan = {
        "plan_id": "p",
        "agents": {"dev": {"driver": "script", "argv": ["python3", "agent.py"]}},
        "workspace": {"repo": "./repo"},
        "policies": {"max_reexecute_times": 0},
        "tasks": [{"id": "fix", "agent": "dev", "prompt": "Add.", "promise": promise, "workspace": "repo"}],
    }
    folder.joinpath("plan.json").write_text(json.dumps(plan))
    calls.call(["run", "plan.json", "--root", "root"], folder, variables, LONGEST)
    before = call("explain", "p/fix")["state"]
    requests = call("inbox")["requests"]
    [name] = [each["request"]["request_id"] for each in requests if "dispute" in each["request"]["needed"]["criteria"]]
    call("answer", name, "--answer", "upheld" if case.right else "dismissed", "--as", "ada")
    after = call("explain", "p/fix")["state"]
    [agent] = call("honesty")["agents"]
    counted = (agent["upheld"], agent["dismissed"]) == (int(case.right), int(not case.right))
    if case.right:
        call("rework", "p/fix", "--accept")
        calls.call(["run", "plan.json", "--root", "root"], folder, variables, LONGEST)
    taken = call("explain", "p/fix")["state"] == "COMPLETED"
    return DisputeResult(case.name, case.right, "COMPLETED" in (before, after), counted, taken)


def _run_named(work: tuple[str, str]) -> DisputeResult:
    [case] = [each for each in CASES if each.name == work[0]]
    try:
        return run_case(case, Path(work[1]))
    except Exception as error:  # noqa: BLE001 - it is counted
        return DisputeResult(case.name, case.right, False, False, False, f"{type(error).__name__}: {error}")


def run(keep: Path) -> Iterator[DisputeResult]:
    """Run all cases, two at a time."""
    calls.load()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        yield from pool.imap(_run_named, [(case.name, str(keep / case.name)) for case in CASES])


def main() -> int:
    """Run, print, compare."""
    with tempfile.TemporaryDirectory(prefix="disputes-", ignore_cleanup_errors=True) as folder:
        found = list(run(Path(folder)))
    for each in found:
        print(f"{'✗' if each.is_wrong else '✓'} {each.name:24} {each}")
    return int(any(each.is_wrong for each in found))


if __name__ == "__main__":
    sys.exit(main())
