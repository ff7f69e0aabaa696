# noqa: A005 - nothing here needs the module of that name of the standard library
"""Code tasks: what the engine adds to the work itself, beside the same work done by hand with git.

`python bench/code.py [--tasks N ...] [--files N ...] [--rounds N] [--folder PATH] [--packed] [--history MB] [--json]`.
Each task changes one file of its own in a repository, and a check runs a program on the result. The engine runs in a
process of its own, as `agenttalk run` does. Git, checks and turns are counted where the engine starts them, so these
counts are exact on any machine. CPU time is that of the engine, of its git and of the process that mounts overlays,
without agents, checks and the sandboxes around them. By hand the same is `git worktree add`, a commit, `git merge` and
`git worktree remove` for each task. Exit code 1 when a goal is missed. docs/reference/benchmarks.md says what is
measured.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".bench"
MEMORY, ROOM = Path("/dev/shm"), 2 * 1024**3  # noqa: S108 - only this user's folder is made there
"""Where it is measured if there is so much room: on a disk, what a file costs hangs on what was removed before."""
TASKS, FILES = (1, 4), (100, 5_000)
"""The quick default; 16 tasks and 30,000 files take minutes."""
PROGRAM = shutil.which("git") or "git"
LINES = 20
"""Lines of a file of the repository."""
CPU_RATIO, CPU_SMALL, SMALL = 1.5, 0.1, 100
"""How many times the CPU time by hand a task may take; in a repository of SMALL files, so many seconds."""
GIT = 20
"""Processes of git that a task may start."""
WAIT = 0.05
"""Seconds from an agent's last byte to its check, and from a check's end to the next agent; the middle of all turns."""
CHAIN = 8
"""Tasks that need each other, to measure that."""
INODES = 0.01
"""Inodes that a plan may leave, as a share of those of one checkout per task."""
AGENT = """import os, pathlib, sys
name = os.environ["AGENTTALK_TASK_ID"]
path = pathlib.Path("work") / f"{name}.txt"
path.write_text(path.read_text().replace("todo", "done"))
print("ready")
"""
CHECK = "cat work/{}.txt | awk '/done/{{found = 1}} END{{exit !found}}'"
"""A program that can be anything: as beside a test runner, all files that configure one are protected."""
WRITTEN = 1_700_000_000
"""When the files of the repository were written: git reads files again that are as new as its index."""
SETTINGS = "[limits]\nmax_running = 64\n"
BARE = """plan_id: bare
agents: {{a: {{driver: script, argv: [{program}, ready]}}}}
tasks: [{{id: t, agent: a, prompt: Do nothing.}}]
"""


@dataclass
class Measured:
    """One run of a plan, or of the same work by hand."""

    cpu: float
    """CPU seconds per task."""
    wall: float
    own: float = 0.0
    """CPU seconds per task of the engine's process alone."""
    start: float = 0.0
    """CPU seconds of the start: until the process of the engine had loaded its modules and run a first plan."""
    opening: float = 0.0
    """CPU seconds of a run of one task without a repository: to open a root, to submit a plan and to end the engine."""
    git: int = 0
    """Processes of git."""
    checks: int = 0
    turns: int = 0
    inodes: int = 0
    """Files and folders that the run left."""
    to_check: tuple[float, ...] = ()
    """Seconds from an agent's last byte to the start of its check."""
    to_agent: tuple[float, ...] = ()
    """Seconds from a check's end to the start of the next agent, without checks in between."""


@dataclass
class Bench:
    """What was measured in this run."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    waits: list[dict[str, Any]] = field(default_factory=list)
    goals: dict[str, bool] = field(default_factory=dict)

    def expect(self, goal: str, value: float, limit: float, unit: str = "") -> None:
        """Compare a figure with its goal."""
        met = value <= limit + 1e-9
        over = "" if met else f", {value / limit - 1:.0%} too much"
        self.goals[f"{goal}: {value:.3g}{unit}, at most {limit:.3g}{unit}{over}"] = met


def make_repository(folder: Path, files: int, tasks: int, *, packed: bool = False, history: int = 0) -> Path:
    """Make a repository with so many files, and one file for each task to change.

    Its objects are loose, or `packed` as in a clone. `history` is the size in MB of what older commits hold.
    """
    repo = folder / "repo"
    (repo / "work").mkdir(parents=True)
    for number in range(files):
        path = repo / f"src/{number // 1000}/{number // 50 % 20}/{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"line {line} of file {number}\n" for line in range(LINES)))
    for number in range(tasks):
        (repo / f"work/t{number}.txt").write_text("todo\n")
    for path in repo.rglob("*.txt"):
        os.utime(path, (WRITTEN, WRITTEN))
    git(repo, "init", "-q", "-b", "main")
    for number in range(history // 10):
        (repo / "large").write_bytes(os.urandom(10_000_000))
        git(repo, "add", "large")
        git(repo, "commit", "-q", "-m", f"large {number}")
    (repo / "large").unlink(missing_ok=True)
    for command in (("add", "-A"), ("commit", "-q", "-m", "begin")):
        git(repo, *command)
    if packed or history:
        git(repo, "repack", "-a", "-d", "-q")
    return repo


def git(folder: Path, *args: str) -> None:
    """Run git by hand."""
    identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "gc.auto=0")
    subprocess.run([PROGRAM, *identity, *args], cwd=folder, check=True, capture_output=True)


def by_hand(repo: Path, tasks: int) -> Measured:
    """Do what the tasks do with work trees of git, one after the other merged into a branch."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    git(repo, "worktree", "add", "-q", "-b", "collect", str(repo.parent / "collect"))
    trees = [repo.parent / f"tree{number}" for number in range(tasks)]
    for number, tree in enumerate(trees):
        git(repo, "worktree", "add", "-q", "-b", f"task{number}", str(tree))
        (tree / f"work/t{number}.txt").write_text("done\n")
        git(tree, "add", "-A")
        git(tree, "commit", "-q", "-m", f"task {number}")
    for number, tree in enumerate(trees):
        git(repo.parent / "collect", "merge", "-q", "--no-ff", "-m", f"merge {number}", f"task{number}")
        git(repo, "worktree", "remove", "--force", str(tree))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(cpu / tasks, time.perf_counter() - began)


def write_plan(root: Path, repo: Path, tasks: int, *, same: bool, chained: bool = False) -> Path:
    """Write a plan of independent tasks, or of a chain. They have `same` checks, or each another one."""
    (root / "agent.py").write_text(AGENT)
    (root / "agenttalk.toml").write_text(SETTINGS)
    lines = [f"plan_id: bench\nname: Bench\nworkspace: {{repo: {json.dumps(str(repo))}}}\nagents:"]
    lines += [f"  a{number}: {{driver: script, argv: [{sys.executable}, agent.py]}}" for number in range(tasks)]
    lines.append("tasks:")
    for number in range(tasks):
        run = CHECK.format("*" if same else f"t{number}")
        lines.append(
            f"  - {{id: t{number}, agent: a{number}, prompt: Change it., workspace: repo,"
            f" needs: [{f't{number - 1}' if chained and number else ''}],"
            f" promise: {{objective: It is changed,"
            f" acceptance: [{{id: c, description: It is changed, evidenceRequired: [changed]}}],"
            f" checks: [{{id: changed, kind: run, run: {json.dumps(run)}}}]}}}}"
        )
    path = root / "plan.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def by_engine(folder: Path, repo: Path, tasks: int, *, same: bool, chained: bool = False) -> Measured:
    """Run the plan in a process of its own."""
    root = folder / "root"
    root.mkdir()
    plan = write_plan(root, repo, tasks, same=same, chained=chained)
    warm = folder / "warm"
    (warm / "root").mkdir(parents=True)
    first = write_plan(warm / "root", make_repository(warm, 10, 1), 1, same=same)
    bare = folder / "bare"
    bare.mkdir()
    (bare / "plan.yaml").write_text(BARE.format(program=json.dumps(shutil.which("echo"))))
    command = [sys.executable, str(Path(__file__)), "--engine", str(first), str(bare / "plan.yaml"), str(plan)]
    with (folder / "log").open("w") as log:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, check=False, cwd=root)
    if done.returncode:
        raise SystemExit(f"the engine ended with {done.returncode}:\n{(folder / 'log').read_text()[-4000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    left = sum(len(names) + len(inner) for _, inner, names in os.walk(root / "workspaces"))
    return Measured(
        cpu=found["cpu"] / tasks,
        wall=found["wall"],
        own=found["own"] / tasks,
        start=found["start"],
        opening=found["opening"],
        git=found["git"],
        checks=found["checks"],
        turns=found["turns"],
        inodes=left,
        to_check=tuple(found["to_check"]),
        to_agent=tuple(found["to_agent"]),
    )


def read_waits(root: Path) -> tuple[list[float], list[float]]:
    """Read from the ledger how long agents and checks were waited for, in the order of the turns."""
    from agenttalk.adapters.store.root import list_databases
    from agenttalk.rules.core.turn_times import read_turn_times

    connection = sqlite3.connect(list_databases(root)["default"])
    bodies = connection.execute("SELECT body FROM ledger WHERE kind = 'turn.ended' ORDER BY seq").fetchall()
    connection.close()
    turns = [read_turn_times(json.loads(body).get("times")) for (body,) in bodies]
    to_check = [(turn["checks"][0] - turn["agent"][1]).total_seconds() for turn in turns]
    to_agent = []
    for before, turn in itertools.pairwise(turns):
        began, ended = turn["baseline"]
        whole = turn["agent"][0] - before["checks"][1]
        to_agent.append((whole - (ended - began)).total_seconds())
    return to_check, to_agent


def engine(first: str, bare: str, plan: str) -> None:
    """Run a plan to warm up and one without a repository, then another, and print what that one took."""
    from agenttalk.adapters.checking.command import CommandRunner
    from agenttalk.adapters.drivers.script import ScriptDriver
    from agenttalk.doors.cli import main as cli

    counts = {"git": 0, "checks": 0, "turns": 0}
    spent = [0.0]
    process: Any = subprocess.Popen
    begin, wait, run, drive = process.__init__, process._try_wait, CommandRunner.run, ScriptDriver.run  # noqa: SLF001 - the only place where the usage of one process is known

    def popen(self: Any, args: Any, *rest: Any, **keys: Any) -> None:
        words = [str(word) for word in args] if isinstance(args, list | tuple) else [""]
        self.is_git = Path(words[0]).name == "git"
        self.is_ours = self.is_git or "overlay_process" in " ".join(words)
        counts["git"] += self.is_git
        begin(self, args, *rest, **keys)

    def try_wait(self: Any, flags: int) -> tuple[int, int]:
        if not getattr(self, "is_ours", False):
            ended: tuple[int, int] = wait(self, flags)
            return ended
        try:
            pid, status, used = os.wait4(self.pid, flags)
        except ChildProcessError:
            return self.pid, 0
        spent[0] += used.ru_utime + used.ru_stime if pid else 0.0
        return pid, status

    async def run_check(self: Any, command: Any, context: Any) -> Any:
        counts["checks"] += 1
        return await run(self, command, context)

    async def run_program(self: Any, turn: Any) -> Any:
        counts["turns"] += 1
        return await drive(self, turn)

    process.__init__, process._try_wait = popen, try_wait  # noqa: SLF001 - as above
    CommandRunner.run = run_check  # type: ignore[method-assign]
    ScriptDriver.run = run_program  # type: ignore[method-assign]
    out = os.dup(1)
    os.dup2(2, 1)
    starts = []
    for path in (first, bare, plan):
        counts.update(dict.fromkeys(counts, 0))
        used, spent[0], began = os.times(), 0.0, time.perf_counter()
        starts.append(used.user + used.system)
        code = cli.call(["run", path, "--root", str(Path(path).parent)])
        if code:
            sys.exit(code)
    now = os.times()
    counts["turns"] -= counts["checks"]  # a check is a program of the driver, too
    own = now.user + now.system - starts[2]
    found: dict[str, Any] = counts | {
        "cpu": own + spent[0],
        "own": own,
        "start": starts[1],
        "opening": starts[2] - starts[1],
        "wall": time.perf_counter() - began,
    }
    found["to_check"], found["to_agent"] = read_waits(Path(plan).parent)
    os.write(out, json.dumps(found).encode() + b"\n")


def measure(bench: Bench, files: int, tasks: int, options: argparse.Namespace) -> None:
    """Measure one size, by hand and with the engine, each first in every other round."""
    hand, ours = [], []
    same = None
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="code-", dir=options.folder) as name:
            folder = Path(name)
            repo = make_repository(folder, files, tasks, packed=options.packed, history=options.history)
            shutil.copytree(repo, folder / "hand" / "repo", symlinks=True)
            if number % 2 == 0:
                hand.append(by_hand(folder / "hand" / "repo", tasks))
            ours.append(by_engine(folder, repo, tasks, same=False))
            if number % 2:
                hand.append(by_hand(folder / "hand" / "repo", tasks))
        if number == 0 and files == SMALL:
            with tempfile.TemporaryDirectory(prefix="code-", dir=options.folder) as name:
                same = by_engine(Path(name), make_repository(Path(name), files, tasks), tasks, same=True)
    by_git = statistics.median(each.cpu for each in hand)
    cpu = statistics.median(each.cpu for each in ours)
    worst = max(ours, key=lambda each: (each.turns, each.checks, each.git))
    where = f"{files:,} files, {tasks} tasks"
    row = {
        "files": files,
        "tasks": tasks,
        "hand_cpu": by_git,
        "cpu": cpu,
        "own": statistics.median(each.own for each in ours),
        "start": statistics.median(each.start for each in ours),
        "opening": statistics.median(each.opening for each in ours),
        "git": worst.git / tasks,
        "checks": worst.checks,
        "turns": worst.turns,
        "inodes": worst.inodes,
        "wall": statistics.median(each.wall for each in ours),
        "hand_wall": statistics.median(each.wall for each in hand),
    }
    bench.rows.append(row)
    bench.expect(f"turns, {where}", worst.turns, tasks)
    bench.expect(f"runs of {tasks} different checks, {where}", worst.checks, 3 * tasks - 1)
    if same is not None:
        row["same_checks"] = same.checks
        bench.expect(f"runs of one and the same check, {where}", same.checks, tasks + 2)
    bench.expect(f"processes of git per task, {where}", worst.git / tasks, GIT)
    if files <= SMALL:
        bench.expect(f"CPU per task beside the opening, {where}", cpu - row["opening"] / tasks, CPU_SMALL, " s")
    else:
        bench.expect(f"CPU per task, as many times as by hand, {where}", cpu / by_git, CPU_RATIO)
    bench.expect(f"inodes left, {where}", worst.inodes, max(INODES * files * tasks, 40))


def measure_waits(bench: Bench, files: int, options: argparse.Namespace) -> None:
    """Measure where agents wait, by a chain of tasks: one works at a time."""
    with tempfile.TemporaryDirectory(prefix="code-", dir=options.folder) as name:
        found = by_engine(Path(name), make_repository(Path(name), files, CHAIN), CHAIN, same=False, chained=True)
    to_check, to_agent = statistics.median(found.to_check), statistics.median(found.to_agent)
    bench.waits.append({"files": files, "tasks": CHAIN, "to_check": to_check, "to_agent": to_agent})
    bench.expect(f"from an agent to its check, {files:,} files", to_check * 1000, WAIT * 1000, " ms")
    bench.expect(f"from a check to the next agent, {files:,} files", to_agent * 1000, WAIT * 1000, " ms")


def show(bench: Bench) -> None:
    """Print the figures for people."""
    head = (
        "files",
        "tasks",
        "CPU s/task",
        "engine only",
        "by hand",
        "start s",
        "opening s",
        "git/task",
        "checks",
        "turns",
        "inodes left",
        "wall s",
        "by hand",
    )
    print("".join(f"{word:>13}" for word in head))
    for row in bench.rows:
        figures = (
            f"{row['files']:,}", row["tasks"], f"{row['cpu']:.3f}", f"{row['own']:.3f}", f"{row['hand_cpu']:.3f}",
            f"{row['start']:.2f}", f"{row['opening']:.3f}", f"{row['git']:.1f}",
            row["checks"], row["turns"], f"{row['inodes']:,}", f"{row['wall']:.2f}", f"{row['hand_wall']:.2f}",
        )  # fmt: skip
        print("".join(f"{figure:>13}" for figure in figures))
    print()
    for words, met in bench.goals.items():
        print(f"{'reached' if met else 'missed':8}  {words}")


def arguments() -> argparse.Namespace:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=TASKS)
    parser.add_argument("--files", type=int, nargs="+", default=FILES)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to measure; by default in memory, if there is room")
    parser.add_argument("--packed", action="store_true", help="objects in one pack, as in a clone")
    parser.add_argument("--history", type=int, default=0, metavar="MB", help="size of what older commits hold")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--engine", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Measure, print, compare with the goals."""
    options = arguments()
    if options.engine is not None:
        engine(*options.engine)
        return 0
    if options.folder is None:
        in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM
        options.folder = MEMORY if in_memory else HOME
    options.folder.mkdir(exist_ok=True)
    bench = Bench()
    for files in options.files:
        for tasks in options.tasks:
            measure(bench, files, tasks, options)
        measure_waits(bench, files, options)
    if options.json:
        print(json.dumps({"rows": bench.rows, "waits": bench.waits, "goals": bench.goals}))
    else:
        show(bench)
    return 0 if all(bench.goals.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
