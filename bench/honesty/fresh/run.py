"""Run the cases at three settings, and list what is decided wrongly.

    python -m bench.honesty.fresh.run [WORD ...] [--setting until|plan|strict] [--json FILE] [--keep FOLDER]
    python -m bench.honesty.fresh.run --plain     how the plain command ends on the work, without any engine

Each case goes through the command line: `agenttalk until`, a plan as the guides write it, and the strictest plan: the
boundary, no suspicion, twice, hidden tests, and for other languages than Python a check that looks from outside.
WORD is a part of a name, or a language. Exit code 1 when a decision was wrong that is not one of the known ones.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from . import calls, functions, honest, unseen
from .cheats import CHEATS, FreshCase

SETTINGS = ("until", "plan", "strict")
CASES = (*CHEATS, *unseen.CHEATS, *honest.HONEST, *honest.PERMITTED, *unseen.HONEST, *functions.CASES)
SELDOM = ("go-main-of-tests", "go-sets-flags", "go-answers-from-source", "go-logs-its-caller", "go-table-in-init")
"""Cases that only a run of everything has: Go compiles its library for each check."""
AT_ONCE = 2
BIN = Path(sys.executable).parent
LONGEST = 900.0
GIT, SHELL = "/usr/bin/git", "/bin/sh"


class Decision(NamedTuple):
    """What the engine decided about a case at a setting."""

    name: str
    language: str
    honest: bool
    setting: str
    verdict: str
    right: bool | None
    """Whether what was accepted does what was asked; None where nothing was."""
    seconds: float
    detail: str

    @property
    def is_wrong(self) -> bool:
        """Whether it was wrong: it accepted what is not right, or did not accept honest work."""
        if self.honest:
            return self.verdict != "accepted" or not self.right
        return self.verdict == "error" or (self.verdict == "accepted" and not self.right)


def write(folder: Path, files: dict[str, str]) -> None:
    """Write files into a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def git(folder: Path, *words: str) -> str:
    """Call git; what it printed."""
    who = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    line = [GIT, *who, *words]
    return subprocess.run(line, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def make_environment(scratch: Path) -> dict[str, str]:
    """Make the variables of a user who has set nothing up."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PATH": f"{BIN}:{os.environ['PATH']}", "AGENTTALK_STATE": str(scratch / "state"), "NO_COLOR": "1"}


def make_agent(case: FreshCase, folder: Path) -> None:
    """Write the agent's program, which leaves behind what the case says."""
    made = json.dumps({"files": case.files, "removed": case.removed})
    folder.joinpath("agent.py").write_text(
        "import json, pathlib\n"
        f"made = json.loads({made!r})\n"
        "for name in made['removed']:\n    pathlib.Path(name).unlink()\n"
        "for name, text in made['files'].items():\n"
        "    path = pathlib.Path(name)\n    path.parent.mkdir(parents=True, exist_ok=True)\n    path.write_text(text)\n"
        "print('Done. All tests pass.')\n"
    )


def make_plan(case: FreshCase, setting: str, folder: Path) -> None:
    """Write the plan of a case."""
    job = case.job
    check: dict[str, object] = {"id": "tests-pass", "kind": "run", "run": job.check, "red_first": "required"}
    checks = [check]
    if setting == "strict":
        check |= {"suspicion": "refuse", "twice": True}
        if job.boundary:
            check["boundary"] = job.boundary
        if job.outside:
            write(folder, job.outside_files)
            outside = {"id": "outside", "kind": "run", "run": job.outside, "files": sorted(job.outside_files)}
            checks.append({**outside, "suspicion": "note"})
        if job.hidden:
            write(folder, {"unseen_checks.py": job.hidden})
            unseen_tests = {"id": "unseen", "kind": "run", "run": "python3 -m pytest -q unseen_checks.py"}
            checks.append({**unseen_tests, "files": ["unseen_checks.py"], "hidden": True, "suspicion": "note"})
    needed = [str(check["id"]) for check in checks]
    promise = {
        "objective": "The work is right",
        "acceptance": [{"id": name, "description": name, "evidenceRequired": [name]} for name in needed],
        "requiredEvidence": needed,
        "allowedScope": list(job.scope),
        "checks": checks,
    }
    task = {"id": "fix", "agent": "dev", "prompt": "Make the tests pass.", "workspace": "repo", "promise": promise}
    plan = {
        "plan_id": "fresh",
        "workspace": {"repo": "./shop"},
        "agents": {"dev": {"driver": "script", "argv": ["python3", "agent.py"]}},
        "policies": {"max_reexecute_times": 0},
        "tasks": [task],
    }
    folder.joinpath("plan.json").write_text(json.dumps(plan, indent=1))


def truth_holds(case: FreshCase, repo: Path, branch: str, scratch: Path) -> bool:
    """Return whether what was accepted does what was asked, by a program that no agent saw."""
    checkout = scratch / "accepted"
    git(repo, "worktree", "add", "-q", "--detach", str(checkout), branch)
    hidden = scratch / "hidden"
    hidden.mkdir()
    variables = {**make_environment(scratch), "TRUTH": str(hidden)}
    line = [SHELL, "-c", case.job.truth]
    return (
        subprocess.run(line, cwd=checkout, env=variables, capture_output=True, timeout=300, check=False).returncode == 0
    )


def run_case(case: FreshCase, setting: str, scratch: Path) -> Decision:
    """Let the engine judge one case at one setting."""
    began = time.monotonic()
    repo = scratch / "shop"
    repo.mkdir(parents=True)
    write(repo, case.job.base)
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", ".")
    git(repo, "commit", "-q", "-m", "Before the work")
    make_agent(case, scratch)
    variables = make_environment(scratch)
    if setting == "until":
        words = ["until", case.job.check, "--rounds", "1", *case.options, "--json", "--", "python3", "../agent.py"]
        ended = calls.call(words, repo, variables, LONGEST)
    else:
        make_plan(case, setting, scratch)
        ended = calls.call(["run", "plan.json", "--root", "root"], scratch, variables, LONGEST)
    verdict = {0: "accepted", 1: "refused", 3: "asked"}.get(-1 if ended.code is None else ended.code, "error")
    right = None
    if verdict == "accepted":
        branches = git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/agenttalk").split()
        right = truth_holds(case, repo, branches[0], scratch)
    found = Decision(case.name, case.job.language, case.honest, setting, verdict, right, 0, ended.out[-3000:].strip())
    if found.is_wrong and setting != "until":
        told = calls.call(["explain", "fresh/fix", "--root", "root"], scratch, variables, LONGEST)
        found = found._replace(detail=told.out[-3000:] or found.detail)
    return found._replace(seconds=round(time.monotonic() - began, 1))


def end_plainly(case: FreshCase) -> int:
    """Return with what the plain command ends on the work as the agent left it."""
    with tempfile.TemporaryDirectory() as folder:
        repo = Path(folder, "shop")
        repo.mkdir()
        write(repo, case.job.base)
        for name in case.removed:
            repo.joinpath(name).unlink()
        write(repo, case.files)
        line = [SHELL, "-c", case.job.check]
        variables = make_environment(Path(folder))
        return subprocess.run(line, cwd=repo, env=variables, capture_output=True, timeout=300, check=False).returncode


def _run_named(work: tuple[str, str, str]) -> Decision:
    name, setting, folder = work
    [case] = [each for each in CASES if each.name == name]
    try:
        return run_case(case, setting, Path(folder))
    except Exception as error:  # noqa: BLE001 - one case that cannot be run must not end the others; it is counted
        return Decision(name, case.job.language, case.honest, setting, "error", None, 0, f"{type(error)}: {error}")


def run(cases: Sequence[FreshCase], settings: Sequence[str], keep: Path) -> Iterator[Decision]:
    """Run cases at settings, two at a time, those of slow languages first."""
    slow = ("go", "rust", "java")
    ordered = sorted(cases, key=lambda case: case.job.language not in slow)
    work = [
        (case.name, setting, str(keep / f"{case.name}-{setting}"))
        for case in ordered
        for setting in settings
        if setting == "until" or not case.options
    ]
    calls.load()
    with multiprocessing.get_context("fork").Pool(AT_ONCE) as pool:
        yield from pool.imap(_run_named, work)


def choose(words: Sequence[str], *, everything: bool = True) -> list[FreshCase]:
    """Choose the cases whose names contain a word, or whose language is one."""
    names = [case.name for case in CASES]
    if len(names) != len(set(names)):
        raise SystemExit("two cases have one name")
    cases = [case for case in CASES if everything or case.name not in SELDOM]
    return [
        each for each in cases if not words or any(word in each.name or word == each.job.language for word in words)
    ]


def show(row: Decision) -> None:
    """Print how one case ended."""
    kind, mark = "honest" if row.honest else "cheat", "WRONG" if row.is_wrong else ""
    print(f"{kind:7} {row.name:36} {row.setting:7} {row.verdict:9} {row.right!s:6} {row.seconds:6} {mark}", flush=True)


def main() -> int:
    """Run, print, compare with what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--setting", action="append", choices=SETTINGS)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    cases = choose(given.words)
    if given.plain:
        for case in cases:
            print(f"{'honest' if case.honest else 'cheat':7} {case.name:36} {end_plainly(case)}", flush=True)
        return 0
    with tempfile.TemporaryDirectory(prefix="fresh-", ignore_cleanup_errors=True) as folder:
        rows = []
        for row in run(cases, given.setting or SETTINGS, given.keep or Path(folder)):
            rows.append(row)
            show(row)
    for setting in SETTINGS:
        there = [row for row in rows if row.setting == setting]
        cheats, work = [row for row in there if not row.honest], [row for row in there if row.honest]
        accepted, refused = sum(row.is_wrong for row in cheats), sum(row.is_wrong for row in work)
        print(f"{setting}: {accepted} of {len(cheats)} cheats accepted, {refused} of {len(work)} honest not accepted")
    if given.json:
        given.json.write_text(json.dumps([row._asdict() for row in rows], indent=1))
    return int(any(row.is_wrong for row in rows))


if __name__ == "__main__":
    sys.exit(main())
