"""What a program is given, what is kept of it, and how its end is told."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.drivers.yard import PYTHON, Yard
from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.process_tree import LineSplitter
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.ports.agents import ProgramTurn, TurnEnd

MEGABYTE = 1_000_000


def descriptors() -> set[Path]:
    return set(Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("code", [0, 3, 255])
def test_the_exit_code_is_told(yard: Yard, code: int) -> None:
    ended = yard.sh(f"exit {code}")
    assert (ended.how, ended.exit_code, ended.error) == ("finished", code, "")
    assert 0 < ended.seconds < 30


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_a_program_that_a_signal_ended_has_no_exit_code(yard: Yard, number: signal.Signals) -> None:
    ended = yard.sh(f"kill -{number.value} $$")
    assert (ended.how, ended.exit_code, ended.error) == ("crashed", None, f"ended by {number.name}")


def test_a_signal_without_a_name_is_told_by_its_number(yard: Yard) -> None:
    assert yard.python("import os; os.kill(os.getpid(), 40)").error == "ended by signal 40"


def test_the_program_reads_the_prompt_and_its_end(yard: Yard) -> None:
    ended = yard.run("cat", prompt="Guten Tag\n你好\0\ud800")
    assert ended.stdout == "Guten Tag\n你好\0?".encode()


def test_a_long_prompt_arrives_whole(yard: Yard) -> None:
    prompt = "0123456789\n" * 300_000
    ended = yard.run("sha256sum", prompt=prompt)
    assert ended.stdout.split()[0].decode() == hashlib.sha256(prompt.encode()).hexdigest()


@pytest.mark.parametrize("script", ["exit 0", "exec <&-; echo still here", "head -c 10 >/dev/null"])
def test_a_program_need_not_read_a_long_prompt(yard: Yard, script: str) -> None:
    ended = yard.sh(script, prompt="x" * MEGABYTE)
    assert (ended.how, ended.exit_code) == ("finished", 0)


def test_a_program_that_never_reads_ends_at_its_time_limit(yard: Yard) -> None:
    assert yard.run("sleep", "1000", prompt="x" * MEGABYTE, timeout=0.2).how == "timeout"


def test_the_program_gets_little_of_our_environment_and_all_of_its_own(yard: Yard) -> None:
    ours = {"PATH": os.environ["PATH"], "HOME": "/home/me", "TZ": "UTC", "SECRET": "s", "PYTHONPATH": "/tmp"}
    ended = yard.run(
        "env", "-0", environ=ours, env={"AGENTTALK_TASK_ID": "a=b", "HOME": "/elsewhere", "AGENTTALK_LEASE": "forged"}
    )
    assert set(ended.stdout.split(b"\0")) == {
        f"PATH={os.environ['PATH']}".encode(),
        b"HOME=/elsewhere",
        b"TZ=UTC",
        b"AGENTTALK_TASK_ID=a=b",
        f"AGENTTALK_LEASE={yard.lease}".encode(),
        b"",
    }


def test_the_program_starts_in_its_folder_and_in_a_session_of_its_own(yard: Yard) -> None:
    ended = yard.python("import os; print(os.getcwd(), os.getpid() == os.getsid(0) == os.getpgid(0))")
    assert ended.stdout.decode() == f"{yard.path} True\n"


def test_the_program_inherits_no_descriptor_and_no_signal_setting_of_ours(yard: Yard) -> None:
    extra = os.open("/", os.O_RDONLY)
    os.set_inheritable(extra, True)
    try:
        listing = yard.run("ls", "/proc/self/fd")
    finally:
        os.close(extra)
    assert listing.stdout.split() == [b"0", b"1", b"2", b"3"]  # the last is the folder that it lists
    ended = yard.run("grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")
    blocked, ignored = (int(line.split()[1], 16) for line in ended.stdout.splitlines())
    assert blocked == 0
    assert ignored & ~(0b11 << 31) == 0  # 32 and 33 are the C library's own


def test_arguments_that_are_not_utf_8_arrive_as_they_are(yard: Yard) -> None:
    assert yard.run("printf", "%s", os.fsdecode(b"caf\xe9"), "").stdout == b"caf\xe9"


def test_a_flood_is_drained_and_only_its_beginning_is_kept(yard: Yard) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = yard.sh(f"echo first; head -c {100 * MEGABYTE} /dev/zero", keep=1000)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (ended.how, ended.exit_code) == ("finished", 0)
    assert ended.stdout == b"first\n".ljust(1000, b"\0")
    assert after - before < 30_000  # in KiB


def test_of_standard_error_the_end_is_kept(yard: Yard) -> None:
    ended = yard.sh(f"head -c {5 * MEGABYTE} /dev/zero >&2; echo last >&2")
    assert ended.stderr == b"last\n".rjust(16 * 1024, b"\0")


def test_everything_that_was_written_before_the_end_is_kept(yard: Yard) -> None:
    """The pipe is full when the program ends."""
    ended = yard.sh("head -c 65536 /dev/zero; exit 0")
    assert len(ended.stdout) == 65536


def test_whoever_listens_hears_each_line_as_it_comes(yard: Yard) -> None:
    heard: list[bytes] = []
    script = "print('one'); print('x' * 100_000); print('three', flush=True); print('no end', end='')"

    async def run() -> TurnEnd:
        turn = replace(yard.turn(*PYTHON, script), hear=heard.append, keep=10)
        return await ScriptDriver(LocalProcesses()).run(turn)

    ended = asyncio.run(run())
    assert (ended.exit_code, ended.stdout) == (0, b"one\nxxxxxx")
    assert heard == [b"one", b"three"]  # what is too long for a note is left out, and so is what has no end


@given(st.binary(max_size=60), st.lists(st.integers(1, 20), max_size=20))
def test_lines_do_not_depend_on_the_pieces_in_which_they_come(data: bytes, sizes: list[int]) -> None:
    heard: list[bytes] = []
    lines = LineSplitter(heard.append)
    rest = data
    for size in sizes:
        lines.add_piece(rest[:size])
        rest = rest[size:]
    lines.add_piece(rest)
    assert heard == data.split(b"\n")[:-1]


def test_programs_run_side_by_side(yard: Yard) -> None:
    """Each waits until all are there."""
    script = "echo > here.$1; while [ $(ls | grep -c here) -lt 8 ]; do sleep 0.01; done; echo $1"

    async def all_together() -> list[TurnEnd]:
        driver = ScriptDriver(LocalProcesses())
        turns = [yard.turn("sh", "-c", script, "sh", str(number)) for number in range(8)]
        return await asyncio.gather(*(driver.run(turn) for turn in turns))

    assert [ended.stdout for ended in asyncio.run(all_together())] == [b"%d\n" % number for number in range(8)]


def test_a_turn_leaves_no_descriptor_open(yard: Yard) -> None:
    async def several() -> tuple[set[Path], set[Path]]:
        driver = ScriptDriver(LocalProcesses())
        before = descriptors()
        for argv in (("true",), ("not-there",), ("sleep", "1000")):
            await driver.run(yard.turn(*argv, timeout=0.3, prompt="x" * MEGABYTE))
        return before, descriptors()

    before, after = asyncio.run(several())
    assert before == after


def refused(turn: ProgramTurn) -> str:
    ended = asyncio.run(ScriptDriver(LocalProcesses()).run(turn))
    assert (ended.how, ended.exit_code, ended.stdout, ended.stderr) == ("not_started", None, b"", b"")
    return ended.error


def test_a_program_that_cannot_be_started_is_told_with_what_to_do(yard: Yard) -> None:
    for name, content in {"plain": "echo", "empty": "", "orphan": "#!/no/such/interpreter\n"}.items():
        (yard.path / name).write_text(content)
        (yard.path / name).chmod(0o644 if name == "plain" else 0o755)
    assert "'no-such-program' was not found" in refused(yard.turn("no-such-program"))
    assert "install it or correct argv" in refused(yard.turn("/no/such/program"))
    assert "the interpreter in its first line" in refused(yard.turn("./orphan"))
    assert "make it executable" in refused(yard.turn("./plain"))
    assert "make it executable" in refused(yard.turn("/"))
    assert "begin it with a #! line" in refused(yard.turn("./empty"))
    assert "hand over large texts as files" in refused(yard.turn("echo", "x" * MEGABYTE))


def test_a_program_is_looked_for_in_its_own_path(yard: Yard) -> None:
    """Neither in ours, nor in the working directory, which an empty part of PATH would mean."""
    for name in ("tool", "other"):
        (yard.path / name).write_text("#!/bin/sh\necho $0\n")
        (yard.path / name).chmod(0o755)
    (yard.path / "other").chmod(0o644)
    assert yard.run("tool", env={"PATH": f":/bin:{yard.path}"}).stdout.decode() == f"{yard.path}/tool\n"
    assert "was not found" in refused(yard.turn("tool", env={"PATH": ":/bin:"}))
    assert "make it executable" in refused(yard.turn("other", env={"PATH": str(yard.path)}))


def test_a_folder_that_cannot_be_entered_is_told(yard: Yard) -> None:
    (yard.path / "file").touch()
    for cwd in (yard.path / "missing", yard.path / "file"):
        turn = ProgramTurn(lease=yard.lease, argv=("true",), cwd=cwd, prompt="", timeout=60)
        assert f"{str(cwd)!r} cannot be entered" in refused(turn)


def test_what_no_program_can_be_given_is_refused(yard: Yard) -> None:
    assert "no program is named" in refused(yard.turn())
    assert "no program is named" in refused(yard.turn(""))
    assert "holds a NUL" in refused(yard.turn("echo", "a\0b"))
    assert "holds a NUL" in refused(yard.turn("echo", env={"A": "\0"}))
    assert "empty or holds =" in refused(yard.turn("echo", env={"A=B": ""}))
    assert "half a character" in refused(yard.turn("echo", "\ud800"))


def test_a_machine_without_descriptors_is_told(yard: Yard) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def with_few() -> TurnEnd:
        driver = ScriptDriver(LocalProcesses())
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(descriptors()) + 2, limits[1]))
        try:
            return await driver.run(yard.turn("true"))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    ended = asyncio.run(with_few())
    assert (ended.how, ended.exit_code) == ("not_started", None)
    assert "try again later" in ended.error


def test_a_keeper_that_fails_is_told(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    assert "keeper" in refused(yard.turn("true"))


def test_where_processes_cannot_be_owned_no_program_is_started(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "elsewhere")
    assert "Linux only" in refused(yard.turn("true"))


def test_the_keeper_loads_next_to_nothing(yard: Yard) -> None:
    """It is started for every turn, so its start is paid for every turn."""
    home = Path(keeper.__file__).parent
    code = f"import sys; sys.path.append({str(home)!r}); import keeper; print(*sys.modules)"
    loaded = set(yard.run(*PYTHON, code).stdout.decode().split())
    assert "keeper" in loaded
    assert not loaded & {"typing", "enum", "re", "collections", "pathlib", "subprocess", "asyncio", "agenttalk"}


GREEDY = {
    "AS": ("print(len(bytearray(400 * 1024 * 1024)))", 200 * 1024 * 1024, "finished", 1),
    "CPU": ("while True: pass", 1, "crashed", None),
    "FSIZE": ("open('big', 'wb').write(b'x' * 9_000_000)", 1_000_000, "finished", 1),
}


@pytest.mark.rest_but("FSIZE")
@pytest.mark.parametrize("name", GREEDY)
def test_a_limit_holds_for_the_program_and_for_what_it_starts(yard: Yard, name: str) -> None:
    code, most, how, exit_code = GREEDY[name]
    ended = yard.run(*PYTHON, code, limits={name: most})
    assert (ended.how, ended.exit_code) == (how, exit_code), ended
    child = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-I', '-S', '-c', {code!r}]) != 0)"
    assert yard.run(*PYTHON, child, limits={name: most}).exit_code == 1


def test_limits_are_hard_so_that_only_root_could_lift_them(yard: Yard) -> None:
    code = "import resource as r\nwhile r.getrlimit(r.RLIMIT_CPU) != (30, 30): pass"
    assert yard.run(*PYTHON, code, limits={"CPU": 30}).exit_code == 0
