"""Hostile programs in a sandbox: contained, dead afterwards, and the next turn runs."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from adapters.drivers.yard import PYTHON, Yard, dies
from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.sandboxes import Sandboxes, UnconfinedError
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.ports.agents import BindMount, Confinement, TurnEnd
from kits.sandboxkit import needs


@dataclass
class Cell:
    """A turn's places: what it may write, what it may not, and what it must not see."""

    yard: Yard
    tier: Any
    top: Path = field(init=False)
    sandboxes: Sandboxes = field(default_factory=Sandboxes)

    def __post_init__(self) -> None:
        self.top = self.yard.path
        for name in ("own", "own/locked", "theirs", "data"):
            (self.top / name).mkdir()
        for name in ("own/mine.txt", "own/locked/kept.txt", "theirs/kept.txt", "data/secret.txt"):
            (self.top / name).write_text("kept")

    def confinement(self, **more: Any) -> Confinement:
        return Confinement(
            self.tier,
            writable=(self.top / "own",),
            readonly=(self.top / "theirs", self.top / "own/locked", Path(sys.prefix), Path(sys.base_prefix)),
            hidden=(self.top / "data",),
            **more,
        )

    def run(self, *argv: str, network: bool = True, grace: float = 2.0, **more: Any) -> TurnEnd:
        driver = ScriptDriver(LocalProcesses(), grace=grace, sandboxes=self.sandboxes)
        more.setdefault("confinement", self.confinement(network=network))
        turn = self.yard.turn(*argv, **more)
        ended = asyncio.run(driver.run(turn))
        assert self.sleeping() == []
        return ended

    @property
    def nap(self) -> str:
        """Seconds that nobody else sleeps, so that whoever does is found, be it in a sandbox."""
        return f"1000.{abs(hash(self.yard.lease)) % 10**9}"

    def sleeping(self) -> list[int]:
        """Processes of the cell that still sleep."""
        wanted = self.nap.encode()
        return [pid for pid in keeper.list_processes() if wanted in keeper.read_proc_file(pid, "cmdline").split(b"\0")]

    def sh(self, script: str, **more: Any) -> TurnEnd:
        return self.run("sh", "-c", f"cd {self.top}\n{script}", **more)

    def python(self, code: str, **more: Any) -> TurnEnd:
        return self.run(*PYTHON, f"import os, socket, sys\nos.chdir({str(self.top)!r})\n{code}", **more)


@pytest.fixture(params=["bubblewrap", pytest.param("landlock", marks=pytest.mark.rest)])
def cell(request: pytest.FixtureRequest, yard: Yard) -> Cell:
    needs(request.param)
    return Cell(yard, request.param)


@pytest.fixture
def boxed(yard: Yard) -> Cell:
    needs("bubblewrap")
    return Cell(yard, "bubblewrap")


@pytest.fixture
def locked(yard: Yard) -> Cell:
    needs("landlock")
    return Cell(yard, "landlock")


def test_it_writes_where_it_may_and_nowhere_else(cell: Cell) -> None:
    ended = cell.sh(
        "echo new > own/new.txt; rm own/mine.txt; mkdir own/folder; mv own/new.txt own/folder/\n"
        "cat theirs/kept.txt; echo seen > /dev/null\n"
        f"for path in theirs/kept.txt theirs/new.txt {Path.home()}/agenttalk-new /etc/hostname; do\n"
        "  (echo bad > $path) 2>/dev/null && echo wrote $path; done\n"
        "rm theirs/kept.txt 2>/dev/null && echo removed; mv theirs own/ 2>/dev/null && echo moved\n"
        "ln theirs/kept.txt own/link 2>/dev/null && echo linked\n"
        "exit 0"
    )
    assert (ended.exit_code, ended.stdout, ended.sandbox) == (0, b"kept", cell.tier)
    assert (cell.top / "own/folder/new.txt").read_text() == "new\n"
    assert not (cell.top / "own/mine.txt").exists()
    assert (cell.top / "theirs/kept.txt").read_text() == "kept"
    assert not (Path.home() / "agenttalk-new").exists()


def test_what_is_read_only_inside_stays_so_whatever_is_tried(boxed: Cell) -> None:
    ended = boxed.sh(
        "for attempt in 'rm -r own/locked' 'mv own/locked own/away' 'chmod 777 own/locked/kept.txt' "
        "'touch own/locked/new' 'cp own/mine.txt own/locked/kept.txt' 'ln -sfn /etc own/locked' "
        "'umount own/locked' 'mount -o remount,rw,bind own/locked' 'unshare -Urm umount own/locked' "
        "'chmod 777 theirs' 'truncate -s 0 theirs/kept.txt'; do\n"
        '  sh -c "$attempt" 2>/dev/null && echo "did: $attempt"; done; exit 0'
    )
    assert ended.stdout == b""
    assert (boxed.top / "own/locked/kept.txt").read_text() == "kept"
    assert not (boxed.top / "own/locked").is_symlink()
    assert sorted(path.name for path in (boxed.top / "own/locked").iterdir()) == ["kept.txt"]


@pytest.mark.mends("F2")
@pytest.mark.parametrize("network", [True, False])
def test_it_reads_nothing_that_is_hidden_and_everything_beside_it(cell: Cell, network: bool) -> None:
    (cell.top / "data" / "inner").mkdir()
    (cell.top / "data" / "inner" / "own.txt").write_text("own")
    (cell.top / "own" / "led").symlink_to(cell.top / "data")
    confinement = cell.confinement(network=network)
    shown = (*confinement.readonly, cell.top / "data" / "inner")
    ended = cell.run(
        "sh",
        "-c",
        f"cd {cell.top}; cat theirs/kept.txt own/mine.txt data/inner/own.txt; for path in data own/led; do "
        "ls $path/ | grep -v inner; cat $path/secret.txt; cp $path/secret.txt own/taken; ln $path/secret.txt own/taken; "
        "mv $path/secret.txt own/taken; done 2>/dev/null; ls own; exit 0",
        confinement=replace(confinement, readonly=shown),
    )
    assert ended.stdout == b"keptkeptownled\nlocked\nmine.txt\n"
    assert (cell.top / "data/secret.txt").read_text() == "kept"


@pytest.mark.mends("C12")
@pytest.mark.parametrize("network", [True, False])
def test_it_starts_also_where_our_own_package_is_hidden(cell: Cell, network: bool) -> None:
    """A package below /tmp, say: who confines reads it before it gives up what it may do."""
    confinement = cell.confinement(network=network)
    asked = replace(confinement, hidden=(*confinement.hidden, Path(keeper.__file__).parent), guarded=True)
    ended = cell.run("sh", "-c", f"echo begun; ls {Path(keeper.__file__).parent}", confinement=asked)
    assert ended.stdout == b"begun\n", ended


@pytest.mark.mends("C12")
@pytest.mark.parametrize("kind", ["script", "link", "virtual environment", "node", "env"])
def test_a_program_is_found_wherever_it_was_installed(cell: Cell, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Everything here lies in a folder for temporary files, which a sandbox hides."""
    place = cell.top / "theirs" / "hidden" / "tools"
    for name in ("bin", "lib", "node_modules/tool/lib", "venv/bin"):
        (place / name).mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place.parent))
    real = place / "venv" / "bin" / "shell"
    real.symlink_to("/bin/sh")
    (place / "lib" / "part").write_text("whole")
    (place / "venv" / "part").write_text("whole")
    (place / "node_modules" / "tool" / "lib" / "part").write_text("whole")
    texts = {
        "script": ("bin/tool", '#!/bin/sh\ncat "$(dirname "$0")/../lib/part"'),
        "link": ("node_modules/tool/run", '#!/bin/sh\ncat "$(dirname "$(readlink -f "$0")")/lib/part"'),
        "virtual environment": ("bin/tool", f"#!{real}\ncat {place}/venv/part"),
        "node": ("node_modules/tool/run", '#!/bin/sh\ncat "$(dirname "$0")/lib/part"'),
        "env": ("bin/tool", f"#!/usr/bin/env shell\ncat {place}/venv/part"),
    }
    where, text = texts[kind]
    program = place / where
    program.write_text(text)
    program.chmod(0o755)
    if kind == "link":
        (place / "bin" / "linked").symlink_to(program)
        program = place / "bin" / "linked"
    env = {"PATH": f"{place}/venv/bin:/usr/bin:/bin"}
    assert cell.run(str(program), env=env).stdout == b"whole"
    assert cell.run("sh", "-c", f"cat {place}/lib/part", env=env).stdout == b""


@pytest.mark.parametrize("name", [".ssh/id", ".config/agenttalk/operator.token", ".netrc"])
def test_secrets_of_the_home_folder_are_hidden(cell: Cell, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    home = cell.top / "theirs"
    monkeypatch.setenv("HOME", str(home))
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text("secret")
    assert cell.sh(f"cat theirs/{name}; cat theirs/kept.txt").stdout == b"kept"


@pytest.mark.parametrize("network", [True, False])
def test_who_is_guarded_cannot_reach_into_another_process(cell: Cell, network: bool) -> None:
    """Not even into one of its own, which it started and may signal."""
    code = (
        "import ctypes, subprocess, time\n"
        "prey = subprocess.Popen(['sleep', '100'])\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "def tried(name, *args):\n"
        "    done = getattr(libc, name)(*args)\n"
        "    print(name, done)\n"
        "tried('ptrace', 16, prey.pid, 0, 0)\n"
        "tried('process_vm_writev', prey.pid, 0, 0, 0, 0, 0)\n"
        "try: open(f'/proc/{prey.pid}/mem', 'r+b'); print('opened')\n"
        "except OSError: pass\n"
        "prey.kill()\n"
    )
    free = cell.python(code)
    assert b"ptrace 0" in free.stdout
    held = cell.python(code, confinement=replace(cell.confinement(network=network), guarded=True))
    assert held.stdout == b"ptrace -1\nprocess_vm_writev -1\n", held


def test_something_is_seen_at_another_place(boxed: Cell) -> None:
    (boxed.top / "elsewhere").mkdir()
    binds = (
        BindMount(boxed.top / "theirs", boxed.top / "elsewhere", writable=True),
        BindMount(boxed.top / "own" / "mine.txt", boxed.top / "data" / "secret.txt"),
    )
    ended = boxed.run(
        "sh",
        "-c",
        f"cd {boxed.top}; cat elsewhere/kept.txt; echo new > elsewhere/kept.txt; rm elsewhere/kept.txt; "
        "cat data/secret.txt; echo x > data/secret.txt",
        confinement=replace(boxed.confinement(), binds=binds),
    )
    assert ended.stdout == b"keptkept"
    assert not (boxed.top / "theirs/kept.txt").exists()
    assert (boxed.top / "own/mine.txt").read_text() == "kept"


@pytest.mark.parametrize("tier", ["landlock", "plain", "best"])
def test_who_cannot_show_something_at_another_place_says_so(yard: Yard, tier: Any) -> None:
    sandboxes = Sandboxes(bubblewrap=lambda: None)
    asked = Confinement(tier, binds=(BindMount(yard.path, yard.path / "x"),))
    with pytest.raises(UnconfinedError, match="another path"):
        asyncio.run(sandboxes.choose(asked))


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock", "plain"])
def test_an_environment_that_is_bare_holds_what_the_turn_says(yard: Yard, tier: Any) -> None:
    if tier != "plain":
        needs(tier)
    cell = Cell(yard, tier)
    (cell.top / "scratch").mkdir()
    asked = replace(cell.confinement(), bare=True, temporary=cell.top / "scratch")
    env = {"PATH": "/usr/bin:/bin", "LD_DEBUG": "none", "OWN": "1"}
    ended = cell.run("env", env=env, confinement=asked)
    names = {line.split("=")[0] for line in ended.stdout.decode().splitlines()}
    lease = {"AGENTTALK_LEASE"} if tier != "bubblewrap" else set()  # there nothing leaves its keeper
    assert names - {"PWD"} == {"PATH", "LD_DEBUG", "OWN", "HOME", "TMPDIR"} | lease
    cell.run("sh", "-c", "echo x > $TMPDIR/file", env=env, confinement=asked)
    assert (cell.top / "scratch" / "file").exists()


def test_what_leads_the_loader_does_not_lead_the_sandbox_itself(boxed: Cell) -> None:
    ended = boxed.run(
        "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": str(boxed.top / "no.so"), "PATH": "/usr/bin:/bin"}
    )
    assert ended.stdout.decode().strip() == str(boxed.top / "no.so")
    assert ended.stderr.count(b"cannot be preloaded") == 1


@pytest.mark.mends("F7")
@pytest.mark.parametrize("tier", ["best", "plain"])
def test_where_isolation_is_required_nothing_runs_without_a_sandbox(yard: Yard, tier: Any) -> None:
    sandboxes = Sandboxes(bubblewrap=lambda: None, offline=lambda **_: "no landlock")
    driver = ScriptDriver(LocalProcesses(), sandboxes=sandboxes)
    ended = asyncio.run(driver.run(yard.turn("true", confinement=Confinement(tier, required=True))))
    assert ended.how == "not_started"
    assert "isolation is required" in ended.error
    assert asyncio.run(driver.run(yard.turn("true", confinement=Confinement(tier)))).sandbox == "plain"


def test_it_sees_nothing_that_is_hidden_and_cannot_fill_its_place(boxed: Cell) -> None:
    ended = boxed.sh("ls data; cat data/secret.txt; echo x > data/new.txt; echo x > /run/new; exit 0")
    assert ended.stdout == b""
    assert ended.stderr.count(b"Read-only file system") == 2


def test_it_has_temporary_files_and_a_home_of_its_own_that_are_gone_afterwards(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell.top / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(cell.top / "temporary"))
    ended = cell.sh('echo x > $TMPDIR/file; echo x > $HOME/file; pwd; echo "$TMPDIR $HOME"; ls $TMPDIR')
    [_, places, *names] = ended.stdout.decode().splitlines()
    temporary, home = places.split()
    assert home == f"{temporary}/home"
    assert {"file", "home"} <= set(names)
    assert list((cell.top / "temporary").iterdir()) == []


def test_it_cannot_read_the_environment_of_others(cell: Cell) -> None:
    ended = cell.python(
        "found = 0\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    try: found += b'CANARY=bird' in open(f'/proc/{pid}/environ', 'rb').read()\n"
        "    except OSError: pass\n"
        "print(found)",
        env={},
    )
    assert ended.stdout == b"0\n"


@pytest.fixture(autouse=True, scope="module")
def _canary() -> Iterator[None]:
    """Another process of ours, whose environment holds something."""
    script = "import sys; print('ready', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "CANARY": "bird"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate()


def test_whatever_it_starts_is_dead_afterwards_and_the_next_turn_runs(cell: Cell) -> None:
    ended = cell.python(
        "for _ in range(5):\n"
        "    if os.fork() == 0:\n"
        "        os.setsid()\n"
        f"        if os.fork() == 0: os.execve('/bin/sleep', ['sleep', {cell.nap!r}], {{}})\n"
        "        os._exit(0)\n"
        "print('left')"
    )
    assert (ended.how, ended.stdout) == ("finished", b"left\n")
    assert cell.sh("echo next").stdout == b"next\n"


def test_it_cannot_end_whoever_keeps_it(cell: Cell) -> None:
    ended = cell.python(
        "import signal\n"
        "for pid in [os.getppid(), *map(int, filter(str.isdigit, os.listdir('/proc')))]:\n"
        "    try:\n"
        "        if pid not in (os.getpid(), 0): os.kill(pid, signal.SIGKILL)\n"
        "    except OSError: pass\n"
        "print('alive', flush=True)"
    )
    assert ended.how in {"finished", "crashed"}
    assert ended.how != "finished" or ended.stdout == b"alive\n"
    assert cell.sh("echo next").stdout == b"next\n"


def test_at_its_time_limit_it_is_asked_to_end_before_it_is_killed(cell: Cell) -> None:
    trap = "trap 'sleep 0.3; echo asked > own/asked; exit 0' TERM"
    for timeout in (0.5, 3.0, 20.0):  # how long it takes to get going is a matter of the machine
        ended = cell.sh(f"{trap}; echo > own/going; sleep {cell.nap} & wait", timeout=timeout, grace=10)
        assert ended.how == "timeout"
        if (cell.top / "own/going").exists():
            break
    assert (cell.top / "own/asked").read_text() == "asked\n"


def test_who_does_not_listen_is_killed(cell: Cell) -> None:
    ended = cell.sh(f"trap '' TERM; while :; do sleep {cell.nap}; done", timeout=0.7, grace=0.2)
    assert ended.how == "timeout"


def test_a_turn_that_is_cancelled_is_dead(cell: Cell) -> None:
    async def cancelled() -> None:
        driver = ScriptDriver(LocalProcesses(), sandboxes=cell.sandboxes)
        script = f"cd {cell.top}/own; echo > going; setsid sleep {cell.nap} & wait"
        turn = cell.yard.turn("sh", "-c", script, confinement=cell.confinement(), timeout=1000)
        running = asyncio.create_task(driver.run(turn))
        while not cell.sleeping():  # noqa: ASYNC110 - nobody else tells
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert cell.sleeping() == []


def test_the_processes_of_a_lease_are_found_in_a_sandbox_too(boxed: Cell) -> None:
    """What an engine that died has left is ended by the next one, which knows nothing but the lease."""

    async def ended_by_lease() -> None:
        driver = ScriptDriver(LocalProcesses(), sandboxes=boxed.sandboxes)
        script = f"cd {boxed.top}/own; env -i setsid sleep {boxed.nap} & wait"
        turn = boxed.yard.turn("sh", "-c", script, confinement=boxed.confinement(), timeout=1000)
        running = asyncio.create_task(driver.run(turn))
        while not boxed.sleeping():  # noqa: ASYNC110 - nobody else tells
            await asyncio.sleep(0.01)
        assert await LocalProcesses().end(boxed.yard.lease) >= 3
        assert (await running).how == "crashed"

    asyncio.run(ended_by_lease())
    assert boxed.sleeping() == []


def test_limits_hold_and_cannot_be_lifted(cell: Cell) -> None:
    ended = cell.python(
        "import resource\n"
        "print(resource.getrlimit(resource.RLIMIT_FSIZE))\n"
        "try: resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))\n"
        "except (ValueError, OSError): print('kept')\n",
        limits={"FSIZE": 4096},
    )
    assert ended.stdout == b"(4096, 4096)\nkept\n"


@contextmanager
def listening(path: Path) -> Iterator[int]:
    """Somebody who says hello on a port, and on a socket that is a file."""
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        unix.bind(str(path))
        unix.listen()

        def serve(server: socket.socket) -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"hello")

        threads = [threading.Thread(target=serve, args=(server,), daemon=True) for server in (tcp, unix)]
        for thread in threads:
            thread.start()
        yield tcp.getsockname()[1]
        for server in (tcp, unix):
            server.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


ASKS = """
def asked(kind, family, address):
    try:
        with socket.socket(family, kind) as asking:
            asking.settimeout(5)
            asking.connect(address)
            if kind == socket.SOCK_DGRAM: asking.send(b'x'); return 'sent'
            return asking.recv(9).decode()
    except OSError: return 'refused'
port, path = int(sys.argv[1]), sys.argv[2]
print(asked(socket.SOCK_STREAM, socket.AF_INET, ('127.0.0.1', port)),
      asked(socket.SOCK_DGRAM, socket.AF_INET, ('127.0.0.1', port)),
      asked(socket.SOCK_STREAM, socket.AF_UNIX, path))
"""


@pytest.mark.parametrize(("network", "expected"), [(True, "hello sent hello"), (False, "refused {} hello")])
def test_without_the_network_only_the_socket_that_is_a_file_answers(cell: Cell, network: bool, expected: str) -> None:
    path = cell.top / "theirs" / "s"
    with listening(path) as port:
        argv = (*PYTHON, f"import socket, sys{ASKS}", str(port), str(path))
        said = cell.run(*argv, network=network).stdout.decode().strip()
    assert said in {expected.format("refused"), expected.format("sent") if cell.tier == "bubblewrap" else ""}


def test_without_the_network_there_is_no_way_around_by_another_call(locked: Cell) -> None:
    code = (
        "import ctypes; calls = ctypes.CDLL(None, use_errno=True)\n"
        "print(calls.syscall(425, 1, 0), socket.socketpair()[0].family.name)"
    )
    assert locked.python(code, network=False).stdout == b"-1 AF_UNIX\n"


def machine(bubblewrap: Path | None, no_landlock: str) -> Sandboxes:
    """The sandboxes of another machine."""
    return Sandboxes(bubblewrap=lambda: bubblewrap, offline=lambda **_: no_landlock)


def test_a_sandbox_that_does_not_work_is_not_replaced(yard: Yard, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    cases = [
        (Confinement("bubblewrap"), None, "", "apt-get install bubblewrap"),
        (Confinement("bubblewrap"), broken, "", "No permissions"),
        (Confinement("landlock"), None, "none here", "none here: use Linux"),
        (Confinement("best", network=False), None, "none here", "make sandbox"),
        (Confinement("plain", network=False), None, "", "nothing keeps a program from the network"),
    ]
    for asked, program, said, expected in cases:
        sandboxes = machine(program, said)
        with pytest.raises(UnconfinedError, match=expected):
            asyncio.run(sandboxes.choose(asked))
        driver = ScriptDriver(LocalProcesses(), sandboxes=sandboxes)
        ended = asyncio.run(driver.run(yard.turn("touch", "ran", confinement=asked)))
        assert (ended.how, expected in ended.error) == ("not_started", True)
        assert not (yard.path / "ran").exists()


def test_the_best_is_the_first_that_works(yard: Yard) -> None:
    def chosen(program: Path | None, said: str) -> str:
        return asyncio.run(machine(program, said).choose(Confinement("best")))

    assert chosen(None, "") == "landlock"
    assert chosen(None, "none here") == "plain"
    needs("bubblewrap")
    ended = asyncio.run(
        ScriptDriver(LocalProcesses()).run(yard.turn("true", confinement=Confinement("best", writable=(yard.path,))))
    )
    assert (ended.exit_code, ended.sandbox) == (0, "bubblewrap")


def test_a_program_that_is_not_there_did_not_start(cell: Cell) -> None:
    ended = cell.run("no-such-program")
    assert ended.how == "not_started"
    assert "no-such-program" in ended.error


def test_a_program_with_the_exit_code_of_the_sandbox_is_believed(boxed: Cell) -> None:
    ended = boxed.sh("echo failed >&2; exit 1")
    assert (ended.how, ended.exit_code) == ("finished", 1)


def test_an_engine_that_dies_leaves_nothing(boxed: Cell) -> None:
    lease = f"lease_{boxed.nap}"  # of this test alone: others may be run beside it
    code = f"""
import asyncio, sys
from pathlib import Path
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.ports.agents import Confinement, ProgramTurn
top = Path({str(boxed.top)!r})
turn = ProgramTurn(lease="{lease}", argv=("sh", "-c", "setsid sleep {boxed.nap} & wait"), cwd=top, prompt="",
            timeout=1000, confinement=Confinement("bubblewrap", writable=(top / "own",), readonly=(top,)))
asyncio.run(ScriptDriver(LocalProcesses()).run(turn))
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=boxed.top) as engine:
        deadline = time.monotonic() + 300
        while not boxed.sleeping():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        sleeping = boxed.sleeping()
        keepers = [
            pid
            for pid in keeper.list_processes()
            if f"AGENTTALK_LEASE={lease}".encode() in keeper.read_proc_file(pid, "environ")
        ]
        engine.kill()
    assert sleeping
    assert all(dies(pid) for pid in (*sleeping, *keepers))
