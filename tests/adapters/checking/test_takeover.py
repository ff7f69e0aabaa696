"""A check that looks from outside starts the work as a process of its own, which tries to take the check over."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.contracts.core import wire
from agenttalk.rules.proof.evidence import CheckResult
from kits.attackkit import Verdict, holds

JUDGE = """
import pathlib, subprocess, sys
subprocess.run([sys.executable, "-I", "-S", "work.py", *sys.argv[1:]], check=False)
said = pathlib.Path("answer").read_text() if pathlib.Path("answer").exists() else ""
sys.exit(0 if said == pathlib.Path("expected/answer").read_text() else 1)
"""
WORK = """
import ctypes, os, signal, socket, sys
calls = ctypes.CDLL(None, use_errno=True)
judge = os.getppid()

def took(how):
    open("took", "a").write(how)

def rewrites_the_check():
    open("judge.py", "w").write("import sys; sys.exit(0)")

def replaces_the_check():
    open("new.py", "w").write("import sys; sys.exit(0)")
    os.replace("new.py", "judge.py")

def rewrites_what_is_expected():
    open("answer", "w").write("wrong")
    open("expected/answer", "w").write("wrong")

def rewrites_it_and_puts_it_back():
    times = os.stat("expected/answer")
    before = open("expected/answer").read()
    open("expected/answer", "w").write("wrong")
    open("expected/answer", "w").write(before)
    os.utime("expected/answer", ns=(times.st_atime_ns, times.st_mtime_ns))
    open("answer", "w").write(before)

def moves_the_folder_away():
    open("answer", "w").write("wrong")
    os.rename("expected", "elsewhere")
    os.mkdir("expected")
    open("expected/answer", "w").write("wrong")

def moves_the_folder_away_and_back():
    open("answer", "w").write(open("expected/answer").read())
    os.rename("expected", "elsewhere")
    os.rename("elsewhere", "expected")

def debugs_its_parent():
    if calls.ptrace(16, judge, None, None) == 0:
        took("ptrace")
        os.waitpid(judge, 0x40000000)
        calls.ptrace(17, judge, None, None)

def writes_its_parents_memory():
    with open(f"/proc/{judge}/mem", "r+b", buffering=0):
        took("mem")

def reads_its_parents_memory():
    start = int(open(f"/proc/{judge}/maps").readline().split("-")[0], 16)
    room = ctypes.create_string_buffer(8)
    ours, theirs = [(ctypes.c_void_p * 2)(where, 8) for where in (ctypes.addressof(room), start)]
    if calls.process_vm_readv(judge, ours, 1, theirs, 1, 0) > 0:
        took("process_vm_readv")

def takes_its_parents_descriptors():
    handle = os.pidfd_open(judge)
    if calls.syscall(438, handle, 0, 0) >= 0:
        took("pidfd_getfd")

def uses_the_network():
    with socket.create_connection(("127.0.0.1", int(sys.argv[2])), 10):
        took("network")

def makes_a_user_namespace():
    if calls.unshare(0x10000000) == 0:
        took("unshare")
    if calls.syscall({"x86_64": 56, "aarch64": 220}[os.uname().machine], 0x10000011, 0, 0, 0, 0) >= 0:
        took("clone")

def kills_its_parent():
    os.kill(judge, signal.SIGKILL)

globals()[sys.argv[1]]()
"""
TRIES = [
    line.split()[1].removesuffix("():") for line in WORK.splitlines() if line.startswith("def ") and "took(" not in line
]
REWRITES = TRIES[:6]
REACHES = TRIES[6:-1]


ROWS = {
    **dict.fromkeys(REWRITES[:4], "rewrite"),
    **dict.fromkeys(REWRITES[4:], "move"),
    **dict.fromkeys(REACHES[:4], "reach"),
    "uses_the_network": "connect",
    "makes_a_user_namespace": "namespace",
    "kills_its_parent": "kill",
}
"""Try → its row of the table."""


def attacked(bench: Bench, how: str) -> CheckResult:
    """What the check says; what came of the try is what the documentation says of it."""
    bench.write(judge_py=JUDGE, work_py=WORK, expected__answer="right")
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = f"{sys.executable} -I -S judge.py {how} {server.getsockname()[1]}"
        known = {"judge.py": wire.sha256(JUDGE.encode())}
        facts = CheckFacts(tree="sha256:t", files=known, protected=("expected/answer",))
        result = bench.make(check("run", run=said, files=["judge.py"]), facts)
    holds(ROWS[how], bench.tier, _came(bench, how, result))
    return result


def _came(bench: Bench, how: str, result: CheckResult) -> Verdict:
    if (bench.checkout / "took").exists():
        return "limit"
    kept = {"judge.py": JUDGE, "expected/answer": "right"}
    bent = any((bench.checkout / path).read_text() != text for path, text in kept.items())
    if bent or result.reason == "tampered" or how == "kills_its_parent":
        return "limit" if result.passed else "refused"
    return "contained"


def test_all_tries_are_known() -> None:
    assert set(ROWS) == set(TRIES)
    assert (len(REWRITES), len(REACHES), TRIES[-1]) == (6, 6, "kills_its_parent")


@pytest.mark.mends("F5")
@pytest.mark.parametrize("how", [*REWRITES[:3], *REWRITES[4:5], "kills_its_parent"])
def test_a_check_is_not_passed_by_bending_it_while_it_runs(bench: Bench, how: str) -> None:
    result = attacked(bench, how)
    assert not result.passed, result
    assert result.isolated is bench.isolated


@pytest.mark.mends("F5")
@pytest.mark.parametrize("how", ["rewrites_it_and_puts_it_back", "moves_the_folder_away_and_back"])
def test_what_was_bent_and_put_back_is_seen(bench: Bench, how: str) -> None:
    result = attacked(bench, how)
    if bench.tier != "bubblewrap":  # there it cannot be bent at all
        assert (result.passed, result.reason) == (False, "tampered")
        assert "expected" in result.detail
    assert (bench.checkout / "expected" / "answer").read_text() == "right"


@pytest.mark.mends("F5")
@pytest.mark.parametrize("how", REACHES)
def test_in_a_sandbox_no_process_reaches_into_the_check(bench: Bench, how: str) -> None:
    result = attacked(bench, how)
    assert not result.passed
    if bench.isolated:
        assert not (bench.checkout / "took").exists()
    else:
        assert result.to_evidence(fresh=True).detail.endswith("; not isolated")


@pytest.mark.mends("F5")
def test_in_bubblewrap_what_decides_about_a_check_cannot_even_be_opened_for_writing(boxed: Bench) -> None:
    for how in REWRITES:
        attacked(boxed, how)
        assert (boxed.checkout / "judge.py").read_text() == JUDGE
        assert (boxed.checkout / "expected" / "answer").read_text() == "right"
        (boxed.checkout / "answer").unlink(missing_ok=True)


def test_an_honest_check_writes_beside_what_is_protected(bench: Bench) -> None:
    bench.write(tests__test_it_py="", tests__data__a="1")
    script = "mkdir tests/__pycache__ tests/out && echo x > tests/out/x && echo y > tests/data/b && rm -r tests/out"
    script += " && echo done > /dev/stdout && echo done > r.txt && mv r.txt s.txt"
    facts = CheckFacts(tree="sha256:t", protected=("tests/test_it.py", "tests/data/a"))
    result = bench.make(check("run", run=script), facts)
    assert result.passed, result


@pytest.mark.rest_but("plain")
def test_more_protected_files_than_a_sandbox_takes_are_still_watched(bench: Bench) -> None:
    names = [f"tests/t{number}.txt" for number in range(400)]
    (bench.checkout / "tests").mkdir()
    for name in names:
        (bench.checkout / name).write_text("1")
    facts = CheckFacts(tree="sha256:t", protected=tuple(names))
    assert bench.make(check("run", run="cat tests/*.txt > all"), facts).passed
    assert not bench.make(check("run", run="echo 2 > tests/t399.txt"), facts).passed
    assert Path(bench.checkout / "tests/t0.txt").read_text() == "1"
