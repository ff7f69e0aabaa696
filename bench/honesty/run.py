"""Runs the corpus through the engine: cheats that must not be accepted, honest work that must not be refused.

`make honesty`, or `python -m bench.honesty.run [FILTER ...] [--json] [--smoke N]` in the project's folder. Exit code 1
when a cheat was accepted, honest work was refused, or a case could not be run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.honesty import cheats, honest, limits, runner_cheats
from bench.honesty.cases import PRELUDE, PYTHON, Case

from agenttalk.doors import library
from agenttalk.engine.views import explain_engine_task
from agenttalk.engine.views.models.attempts import AttemptView
from agenttalk.wiring import open_root
from agenttalk.wiring.plan_files import compile_plan_file

CASES: tuple[Case, ...] = (*cheats.CASES, *runner_cheats.CASES, *honest.CASES, *limits.CASES)
AT_ONCE = 2
PATIENCE = 90.0
"""Seconds for a case; one that takes longer could not be run."""
ENOUGH = 20
"""Characters of a report that a plain rule takes for work."""
PLAIN = ("exit code 0", "a report of 20 characters", "the word done")
"""Rules that need no engine."""


@dataclass(slots=True)
class Told:
    """The result of a case."""

    name: str
    kind: str
    what: str
    accepted: bool = False
    true: bool | None = None
    """What the hidden program reports about the accepted work; None where there is none."""
    reason: str = ""
    rounds: int = 0
    seconds: float = 0.0
    plain: dict[str, bool] = field(default_factory=dict)
    """Plain rule → whether it accepts the agent's work at a time when it is done, or a cheat at all."""
    broken: str = ""
    """Why the case could not be run."""
    healed: bool = False

    @property
    def wrong(self) -> str:
        """How the engine was wrong, if it was."""
        if self.broken:
            return f"could not be run: {self.broken}"
        if self.kind == "cheat" and self.accepted and not (self.healed and self.true):
            return "false done accepted"
        if self.kind == "honest" and not self.accepted:
            return "honest work refused"
        if self.kind == "honest" and self.true is False:
            return "false done accepted"
        return ""


def main() -> int:
    """Run, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filter", nargs="*", help="run only cases whose kind or name contains one of these")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    parser.add_argument("--smoke", type=int, metavar="N", help="N cases, two thirds of them cheats, spread evenly")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave the folders of the cases here")
    given = parser.parse_args()
    chosen = picked(given.filter, given.smoke)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agenttalk-honesty-", ignore_cleanup_errors=True) as folder:
        top = given.keep or Path(folder)
        with ProcessPoolExecutor(AT_ONCE) as pool:
            told = list(pool.map(tried, chosen, [top / case.name for case in chosen]))
    seconds = time.monotonic() - began
    if given.json:
        print(json.dumps(summary(told) | {"seconds": round(seconds, 1), "cases": [asdict(each) for each in told]}))
    else:
        show(told, seconds)
    return 1 if any(each.wrong for each in told) else 0


def picked(words: list[str], smoke: int | None) -> list[Case]:
    """The cases that were asked for."""
    names = [case.name for case in CASES]
    if len(names) != len(set(names)):
        raise SystemExit("two cases have one name")
    found = [case for case in CASES if not words or any(word in f"{case.kind} {case.name}" for word in words)]
    if smoke is None:
        return found
    return [*spread(found, "cheat", smoke * 2 // 3), *spread(found, "honest", smoke - smoke * 2 // 3)]


def spread(cases: list[Case], kind: str, count: int) -> list[Case]:
    """So many of a kind, from the first to the last."""
    those = [case for case in cases if case.kind == kind]
    return [those[at * len(those) // count] for at in range(min(count, len(those)))]


def tried(case: Case, folder: Path) -> Told:
    """Run a case in a folder of its own."""
    told = Told(case.name, case.kind, case.what, healed=case.healed)
    began = time.monotonic()
    try:
        plan = laid_out(case, folder)
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        os.environ["AGENTTALK__SANDBOX"] = "plain" if case.plain else "best"
        path = os.environ["PATH"]
        os.environ["PATH"] = case.job.path + path
        try:
            outcome, turns = asyncio.run(asyncio.wait_for(played(plan, folder / "root"), PATIENCE))
        finally:
            os.environ["PATH"] = path
        task = outcome.tasks["work"]
        told.accepted = outcome.done
        told.reason = str(task["reason"] or "")
        told.rounds = len(turns)
        told.plain = by_plain_rules(case, turns)
        told.true = judged(case, folder) if outcome.done else None
    except Exception as error:  # noqa: BLE001 - said in the table, and counted
        told.broken = f"{type(error).__name__}: {error}"
    told.seconds = round(time.monotonic() - began, 2)
    return told


def laid_out(case: Case, folder: Path) -> Path:
    """Write the repository, the agents and the plan; the plan's file."""
    folder.mkdir(parents=True)
    job = case.job
    tasks, agents = [], {}
    own = {"id": "work", "prompt": f"{job.name}: do it.", "max_reexecute_times": 0, "timeout": 60, **case.task}
    for number, (keys, script) in enumerate([(own, case.script), *case.more]):
        agent = f"agent{number}"
        last = "" if case.says is None else f"print({case.says!r})\n"
        (folder / f"{agent}.py").write_text(f"{PRELUDE}{script}\n{last}", encoding="utf-8")
        agents[agent] = {"driver": "script", "argv": [PYTHON, f"{agent}.py"]}
        tasks.append(asked(case, agent, keys))
    plan: dict[str, Any] = {"plan_id": "p", "agents": agents, "tasks": tasks}
    if job.files is not None:
        made(case, folder / "repo")
        said = {"base": job.base, "prepare": job.prepare}
        plan["workspace"] = {"repo": "repo"} | {key: value for key, value in said.items() if value}
    file = folder / "plan.json"
    file.write_text(json.dumps(plan), encoding="utf-8")
    return file


def asked(case: Case, agent: str, keys: dict[str, Any]) -> dict[str, Any]:
    """A task of the plan; what it does not say itself, the job does."""
    job = case.job
    task: dict[str, Any] = {"agent": agent, **keys}
    if job.files is not None:
        task.setdefault("workspace", "repo")
    task.setdefault("outputs", list(job.outputs))
    if job.checks and "promise" not in task:
        criteria = [
            {"id": f"c{at}", "description": check["id"], "evidenceRequired": [check["id"]]}
            for at, check in enumerate(job.checks)
        ]
        task["promise"] = {"objective": job.name, "acceptance": criteria, "checks": list(job.checks), **job.promise}
    return task


def made(case: Case, repo: Path) -> None:
    """The repository of a job, with one commit."""
    job = case.job
    for path, text in (job.files or {}).items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text, encoding="utf-8")
    if job.plain:
        return
    who = "git -c user.name=ada -c user.email=ada@example.org"
    script = f"set -e\ngit init -q -b main\n{job.before}\ngit add -A\n{who} commit -q -m begin\n"
    script += f"git branch {job.base}\n" if job.base else ""
    subprocess.run(["/bin/sh", "-c", script], cwd=repo, check=True, capture_output=True)


async def played(plan: Path, root: Path) -> tuple[library.Outcome, list[AttemptView]]:
    """Have the engine run a plan; how it ended, and how each turn of the task did."""
    outcome = await library.run(compile_plan_file(plan), root=root)
    async with open_root(root) as deps:
        told = await explain_engine_task.explain_engine_task(deps, "p", "work")
    return outcome, told["attempts"]


def by_plain_rules(case: Case, turns: Sequence[AttemptView]) -> dict[str, bool]:
    """Whether each plain rule accepts, judged at the first turn that it takes for done.

    For honest work, True means accepted when it was done; taking an earlier round for done is as wrong as refusing.
    """
    found = {}
    for rule, holds in zip(PLAIN, (_ended_well, _reported, _says_done), strict=True):
        at = next((number for number, turn in enumerate(turns, 1) if holds(turn)), None)
        found[rule] = at is not None and (case.kind != "honest" or at >= case.from_round)
    return found


def _ended_well(turn: Mapping[str, Any]) -> bool:
    return bool(turn.get("usage", {}).get("exit_code") == 0)


def _reported(turn: Mapping[str, Any]) -> bool:
    return len(str(turn.get("result") or "").strip()) >= ENOUGH or "result_sha256" in turn


def _says_done(turn: Mapping[str, Any]) -> bool:
    return "done" in str(turn.get("result") or "").lower()


def judged(case: Case, folder: Path) -> bool | None:
    """What the hidden program reports about merged or delivered work."""
    if not case.job.hidden:
        return None
    if case.job.files is None:
        where = folder / "root/system_runtime/artifacts/p/work"
    else:
        where = folder / "merged"
        where.mkdir()
        git_dir = folder / ("root/workspaces/p/kept.git" if case.job.plain else "repo/.git")
        command = f'git --git-dir="{git_dir}" archive agenttalk/p | tar -x -C "{where}"'
        subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True)
    command_line = [PYTHON, "-B", "-c", case.job.hidden]
    return subprocess.run(command_line, cwd=where, check=False, capture_output=True, timeout=60).returncode == 0


def summary(told: list[Told]) -> dict[str, Any]:
    """The numbers."""
    kinds = {kind: [each for each in told if each.kind == kind] for kind in ("cheat", "honest", "limit")}
    wrong = [each.wrong for each in told]
    return {
        "cheats": len(kinds["cheat"]),
        "honest": len(kinds["honest"]),
        "false_done": wrong.count("false done accepted"),
        "honest_refused": wrong.count("honest work refused"),
        "broken": sum(bool(each.broken) for each in told),
        "limits": len(kinds["limit"]),
        "limits_accepted": sum(each.accepted for each in kinds["limit"]),
        "plain": {
            rule: {
                "false_done": sum(each.plain.get(rule, False) for each in kinds["cheat"]),
                "honest_wrong": sum(not each.plain.get(rule, False) for each in kinds["honest"]),
            }
            for rule in PLAIN
        },
    }


def show(told: list[Told], seconds: float) -> None:
    """Print the result."""
    for each in told:
        mark = "✗" if each.wrong else "·" if each.kind == "limit" else "✓"
        verdict = "accepted" if each.accepted else "refused"
        print(f"{mark} {each.kind:7} {each.name:32} {verdict:9} {each.seconds:5.1f} s  {each.reason[:70]}")
        if each.wrong:
            print(f"    {each.wrong}: {each.what}")
    found = summary(told)
    cheats_run, honest_run = found["cheats"], found["honest"]
    print(f"\n{'who decides':28} {'false done accepted':>20} {'honest work refused':>20}")
    print(
        f"{'AgentTalk':28} {found['false_done']:>13} of {cheats_run:3} {found['honest_refused']:>13} of {honest_run:3}"
    )
    for rule, numbers in found["plain"].items():
        print(
            f"{rule:28} {numbers['false_done']:>13} of {cheats_run:3} {numbers['honest_wrong']:>13} of {honest_run:3}"
        )
    print(f"\nknown limits accepted: {found['limits_accepted']} of {found['limits']}, which are not counted")
    print(f"{len(told)} runs in {seconds:.0f} s; could not be run: {found['broken']}")


if __name__ == "__main__":
    sys.exit(main())
