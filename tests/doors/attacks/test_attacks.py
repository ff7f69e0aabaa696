"""Hostile agents in a plan, by the real engine, in every sandbox: each is contained, refused, or a limit that is told."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import pty
import secrets
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import apsw
import pytest

from agenttalk.adapters import sandbox
from agenttalk.adapters.store import audit
from agenttalk.engine.operation import fsck
from agenttalk.wiring import open_root
from effort import DEEP
from kits.attackkit import ATTACKS, BEGIN, CHECKED, FORGED_OBJECT, FORGED_REFS, LIMITS, LOGINS, TIERS, add_key, expected
from kits.provekit import repository
from kits.sandboxkit import NOBODY, another_user, needs, run_tests_as_another_user

CANARY = "canary-0815-4711"
SHOWN = (
    "adapters/checking/test_takeover.py",
    "engine/proof/test_prepared_work.py",
    "doors/cli/proof/test_check_settings.py",
)
"""Where each row of the second table is run."""
CONFINED = "not plain and (takeover or runs_confined or another_tree or destroyed or no_more_than)"
"""Those of them that are run as another user, too. Without a sandbox rights of files are all that there is."""
CREWS = 5
"""Agents that share the attacks; what one did must not keep it from its next task."""
PAGE = Path(__file__).parents[3] / "docs" / "howto" / "confine-an-agent.md"


@dataclass
class Scene:
    """A root with somebody to be harmed."""

    top: Path
    home: Path
    """Where the user of the engine keeps logins. No folder for temporary files: a sandbox has those to itself."""
    tier: str
    victim: subprocess.Popen[bytes]
    prey: subprocess.Popen[bytes]
    tcp: socket.socket
    udp: socket.socket
    abstract: socket.socket
    paced: subprocess.Popen[bytes]
    online: socket.socket
    terminal: str
    """The name of a terminal that somebody uses."""
    segment: int
    """Memory that is shared by a number."""
    key: int
    """A text that the kernel keeps."""
    before: tuple[str, ...] = ()
    """How the engine is started, if not as we are."""
    offline: bool = False
    """Whether no agent may use the network."""
    uid: int = field(default_factory=os.getuid)
    """Whose processes they are, and whose files."""
    mark: str = field(default_factory=lambda: f"mark-{secrets.token_hex(8)}")

    @property
    def root(self) -> Path:
        return self.top / "root"

    @property
    def option(self) -> list[str]:
        """How the operator allows a tier: plain is nobody else's word."""
        return ["--sandbox", "plain"] if self.tier == "plain" else []

    @property
    def shared(self) -> Path:
        return Path("/dev/shm", self.mark)

    def crews(self) -> dict[str, list[str]]:
        """Agent → its attacks. Those who may not use the network have an agent of their own."""
        offline = [name for name, attack in ATTACKS.items() if attack.keys]
        others = [name for name in ATTACKS if name not in offline]
        return {**{f"crew{number}": others[number::CREWS] for number in range(CREWS)}, "offline": offline}

    def plan(self) -> dict[str, Any]:
        """Every attack as a task, and for each agent one more that is to be done all the same."""
        numbers = (self.victim.pid, self.prey.pid, self.tcp.getsockname()[1], self.udp.getsockname()[1])
        more = (self.terminal, self.segment, self.key, self.paced.pid, self.home)
        agents, tasks = {}, []
        for crew, names in self.crews().items():
            path = self.top / f"{crew}.py"
            path.write_text(program(names))
            argv = [sys.executable, "-I", "-S", path, self.root, self.mark, CANARY, *numbers, crew, *more]
            agents[crew] = {
                "driver": "script",
                "argv": [str(each) for each in argv],
                "limits": LIMITS,
                "sandbox": self.tier,
                **({"network": "off"} if self.offline else ATTACKS[names[0]].keys),
            }
            tasks += [{"id": name, "timeout": ATTACKS[name].timeout, **ATTACKS[name].task} for name in names]
            tasks += [{"id": f"next_{crew}", "timeout": 240, "priority": "LOW", "name": CANARY}]
            tasks[-len(names) - 1 :] = [{**each, "agent": crew} for each in tasks[-len(names) - 1 :]]
        shared = {"prompt": "Do it.", "max_reexecute_times": 0, "retry_times": 0}
        workspace = {"repo": str(self.top / "repo")}
        return {"plan_id": "p", "agents": agents, "workspace": workspace, "tasks": [each | shared for each in tasks]}

    def hand_over(self) -> None:
        """Everything belongs to whose processes are started."""
        if self.uid != os.getuid():
            subprocess.run(["chown", "-R", f"{self.uid}:{self.uid}", str(self.top), str(self.home)], check=True)

    def harm(self) -> set[str]:
        """The attacks whose effects are seen from outside."""
        root = self.root
        seen = {
            "write_agent": (root / "agents" / "victim" / "note.txt").exists(),
            "write_store": (root / "data" / "planted").exists(),
            "write_config": self.mark in (root / "agenttalk.toml").read_text(),
            "write_outside": (self.top / "outside.txt").exists(),
            "write_program": any(self.mark in path.read_text() for path in self.top.glob("*.py")),
            "git_objects": (self.top / "repo" / ".git" / FORGED_OBJECT).exists(),
            "git_refs": any((self.top / "repo" / ".git" / each).exists() for each in FORGED_REFS),
            "answer_file": bool(told(root, "human.answered")),
            "weaker_plan": bool(told(root, "plan.revised")),
            "shared_memory": self.shared.exists(),
            "write_proc": Path(f"/proc/{self.victim.pid}/oom_score_adj").read_text().strip() == "7",
            "kill": self.prey.poll() is not None,
            "limit_other": "Max open files 3 3 "
            in " ".join(Path(f"/proc/{self.victim.pid}/limits").read_text().split()),
            "signal_other": self.paced.poll() is not None,
            "abstract_online": _heard(self.online.accept),
            "tcp": _heard(self.tcp.accept),
            "udp": _heard(lambda: self.udp.recv(1)),
            "abstract": _heard(self.abstract.accept),
        }
        return {name for name, is_so in seen.items() if is_so}


def program(names: list[str]) -> str:
    """One file with the attacks of an agent, by its tasks."""
    bodies = {name: ATTACKS[name].program for name in names}
    return f"{BEGIN}\nBODIES = {bodies!r}\nif ME not in BODIES: print('ok'); sys.exit()\nexec(BODIES[ME])\n"


def _heard(listen: Any) -> bool:
    with suppress(BlockingIOError):
        found = listen()
        if isinstance(found, tuple):
            found[0].close()
        return True
    return False


def _setuid(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file() and path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


@contextmanager
def scene(top: Path, tier: str, before: tuple[str, ...] = (), *, offline: bool = False) -> Iterator[Scene]:
    """Everything that can be harmed."""
    for name in ("root/agents/victim", "root/system_runtime", "root/data"):
        (top / name).mkdir(parents=True)
    (top / "root" / "agents" / "victim" / "secret.txt").write_text(CANARY)
    (top / "root" / "agenttalk.toml").write_text(f"# {CANARY}\n")
    repository(top / "repo", {"README.md": "read me\n", "src/b.py": ""})
    with ExitStack() as stack:
        home = Path(stack.enter_context(TemporaryDirectory(prefix=".home-", dir=PAGE.parents[2])))
        for name in LOGINS:
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(CANARY)
        processes = [stack.enter_context(subprocess.Popen([*before, "sleep", "600"])) for _ in range(3)]
        for process in processes:
            stack.callback(process.kill)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        online = stack.enter_context(socket.socket(socket.AF_UNIX))
        victim, prey, paced = processes
        uid = NOBODY if before else os.getuid()
        used = (stack.enter_context(terminal(uid)), stack.enter_context(segment()), add_key(f"agenttalk-{top}", CANARY))
        found = Scene(
            top, home, tier, victim, prey, tcp, udp, abstract, paced, online, *used, before, offline=offline, uid=uid
        )
        for each, name in ((abstract, found.mark), (online, f"{found.mark}-online")):
            each.bind(f"\0{name}")
            each.listen()
        for each in (tcp, udp, abstract, online):
            each.setblocking(False)
        stack.callback(found.shared.unlink, missing_ok=True)
        yield found


@contextmanager
def terminal(uid: int) -> Iterator[str]:
    """A terminal in which somebody has typed something."""
    ours, theirs = pty.openpty()
    os.fchown(theirs, uid, -1)
    os.write(ours, f"{CANARY}\n".encode())
    try:
        yield os.ttyname(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


@contextmanager
def segment() -> Iterator[int]:
    """Memory that processes of one user share by its number."""
    calls = ctypes.CDLL(None)
    calls.shmat.restype = ctypes.c_void_p
    number = calls.shmget(0, 4096, 0o1666)
    ctypes.memmove(calls.shmat(number, None, 0), CANARY.encode(), len(CANARY))
    try:
        yield number
    finally:
        calls.shmctl(number, 0, None)


def run(found: Scene) -> None:
    """Run the plan by the command line, to its end."""
    path = found.top / "plan.json"
    path.write_text(json.dumps(found.plan()))
    found.hand_over()
    clean = {key: value for key, value in os.environ.items() if not key.startswith("AGENTTALK")}
    done = subprocess.run(
        [*found.before, sys.executable, "-m", "agenttalk", "run", str(path), "--root", str(found.root), *found.option],
        env={
            **clean,
            "NOT_FOR_AGENTS": CANARY,
            "XDG_CONFIG_HOME": str(found.top / "config"),
            "HOME": str(found.home),
            **({"XDG_RUNTIME_DIR": ""} if found.before else {}),
        },
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr


def told(root: Path, kind: str) -> list[dict[str, Any]]:
    """What the ledger says of something."""
    [path] = (root / "data" / "projects").glob("*/blackboard.db")
    rows = apsw.Connection(str(path)).execute("select body from ledger where kind = ? order by seq", (kind,))
    return [json.loads(row[0]) for row in rows]


def ended(root: Path) -> dict[str, dict[str, Any]]:
    """Task → what the ledger says of the end of its last turn."""
    return {body["ack"]["task_id"]: body for body in told(root, "turn.ended")}


def states(root: Path) -> dict[str, tuple[str, str]]:
    """Task → its state, and the reason."""
    [path] = (root / "data" / "projects").glob("*/blackboard.db")
    rows = apsw.Connection(str(path)).execute("select task_id, state, coalesce(reason, '') from tasks")
    return {task_id: (state, reason) for task_id, state, reason in rows}


def living(mark: str) -> list[int]:
    """Processes that an attack left: their command lines hold the mark."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return found


async def faults(root: Path) -> list[Any]:
    async with open_root(root) as deps:
        return await fsck.check_root(deps)


def carried_out(found: Scene) -> dict[str, str]:
    """Attack → what came of it."""
    run(found)
    assert living(found.mark) == []
    stood, said_of = states(found.root), ended(found.root)
    came = {}
    for name in ATTACKS:
        state, reason = stood[name]
        said = str(said_of.get(name, {}).get("result"))
        if state == "FAILED":
            came[name] = "refused" if expected(name, found.tier, found.uid).reason in reason else f"failed: {reason}"
        else:
            came[name] = "contained" if state == "COMPLETED" and "got:" not in said else f"{state}: {said}"
    harm = found.harm()
    return came | {name: "limit" for name, said in came.items() if "got:" in said or name in harm}


LENGTHY: Final = pytest.mark.skipif(not DEEP, reason="takes long, and others show it: make test-full runs it")


@pytest.mark.rest
@pytest.mark.mends("F2", "F6")
@pytest.mark.parametrize("tier", [tier for tier in TIERS if tier != "plain"])
@pytest.mark.parametrize("who", ["we", pytest.param("another user", marks=LENGTHY)])
def test_without_the_network_no_attack_gets_further_than_with_it(tmp_path: Path, tier: str, who: str) -> None:
    needs(tier)
    with ExitStack() as stack:
        top, before = (tmp_path, ()) if who == "we" else stack.enter_context(another_user())
        found = stack.enter_context(scene(top, tier, before, offline=True))
        came = carried_out(found)
    allowed = {name: {expected(name, tier, found.uid).verdict, "contained"} for name in ATTACKS}
    assert {name: verdict for name, verdict in came.items() if verdict not in allowed[name]} == {}


@pytest.mark.rest
@pytest.mark.shows("M04")
@pytest.mark.mends("F2", "F6", "F15")
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("who", ["we", "another user"])
def test_every_attack_is_contained_or_refused_or_a_limit_that_is_told_and_the_next_task_runs(
    tmp_path: Path, tier: str, who: str
) -> None:
    if tier != "plain":
        needs(tier)
    with ExitStack() as stack:
        top, before = (tmp_path, ()) if who == "we" else stack.enter_context(another_user())
        found = stack.enter_context(scene(top, tier, before))
        came = carried_out(found)
        stood = states(found.root)
        assert came == {name: expected(name, tier, found.uid).verdict for name in ATTACKS}
        after = {f"next_{crew}": "COMPLETED" for crew in found.crews()}
        after |= {"next_offline": "FAILED"} if tier == "plain" else {}  # what cannot be kept offline is not begun
        assert {name: stood[name][0] for name in after} == after
        assert found.victim.poll() is None
        assert sorted(path.name for path in (found.root / "agents" / "victim").iterdir() if path.is_file()) in (
            ["secret.txt"],
            ["note.txt", "secret.txt"],
        )
        outside = [path for path in _setuid(found.root) if "workspace" not in str(path.relative_to(found.root))]
        assert outside == []
        assert asyncio.run(faults(found.root)) == []
        assert [each for each in audit.verify(found.root) if each.verdict.broken] == []


@pytest.mark.rest
@LENGTHY
def test_work_that_attacks_its_check_gets_no_further_as_another_user() -> None:
    """The tests of the second table, once more without the rights of root."""
    assert run_tests_as_another_user(*SHOWN, "-k", CONFINED) >= len(CHECKED)


WORDS = {"contained": "contained", "refused": "refused", "limit": "**not prevented**"}


def table(title: str) -> list[str]:
    """The rows of the table in a section of the page."""
    [section] = [each for each in PAGE.read_text().split("\n## ") if each.startswith(title)]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_every_place_of_a_home_folder_that_is_hidden_is_attacked() -> None:
    places = [place for login in LOGINS for place in (login, *map(str, Path(login).parents))]
    assert [each for each in sandbox.SECRETS if each not in places] == []


def test_the_documentation_says_what_each_tier_holds_against_each_attack() -> None:
    assert table("What holds against a hostile program") == [
        f"| {attack.what} | {' | '.join(WORDS[attack.outcome(tier).verdict] for tier in TIERS)} |"
        for attack in ATTACKS.values()
    ]


def test_the_documentation_says_what_each_tier_holds_against_work_that_attacks_its_check() -> None:
    assert table("What holds against work that attacks its check") == [
        f"| {bent.what} | {' | '.join(WORDS[getattr(bent, tier)] for tier in TIERS)} |" for bent in CHECKED.values()
    ]
    tests = Path(__file__).parents[2]
    shown = "".join((tests / path).read_text() for path in SHOWN)
    assert [name for name in CHECKED if f'"{name}"' not in shown] == []
