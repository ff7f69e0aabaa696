"""Hostile agents: small programs that do harm where they can, and what must come of each in each sandbox."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from agenttalk.adapters.drivers import landlock
from effort import DEEP

Verdict = Literal["contained", "refused", "limit"]
TIERS: Final = ("bubblewrap", "landlock", "plain")
FLOOD_MIB: Final = 1024 if DEEP else 8
FILES: Final = 100_000 if DEEP else 2_000
LIMITS: Final = {
    "memory_mib": 300,
    "file_mib": 8,
    "open_files": 64,
    "disk_mib": 16 if not DEEP else 300,
    "files": FILES,
    "processes": 50,
    "output_mib": FLOOD_MIB,
}
"""The same for all of them."""

SCOPED: Final = 6
"""The version of landlock from which signals and abstract sockets do not leave the sandbox: Linux 6.12."""
SCOPED_ATTACKS: Final = {"kill", "kill_keeper", "abstract", "abstract_online", "signal_other"}
YAMA: Final = Path("/proc/sys/kernel/yama/ptrace_scope")
BEGIN: Final = """
import os, sys, time
ROOT, MARK, CANARY, ME = sys.argv[1], sys.argv[2], sys.argv[3], os.environ["AGENTTALK_TASK_ID"]
VICTIM, PREY, TCP, UDP, AGENT = *map(int, sys.argv[4:8]), sys.argv[8]
TERMINAL, SHARED, KEY, PACED, HOME = sys.argv[9], *map(int, sys.argv[10:13]), sys.argv[13]
OUT, RESULT = os.environ["AGENTTALK_OUTPUTS"], os.environ["AGENTTALK_RESULT"]
OWN, OTHER = f"{ROOT}/agents/{AGENT}", f"{ROOT}/agents/victim"
GIT = os.path.dirname(ROOT) + "/repo/.git"
def got(what):
    print("got:" + str(what))
def denied():
    print("denied")
def wait():
    while True: time.sleep(600)
def read(path):
    try:
        with open(path, "rb") as file: data = file.read(1 << 20)
    except OSError: return b""
    return data
def write(path, text=None):
    try:
        with open(path, "a") as file: file.write(text or MARK)
    except OSError: return False
    return True
def stole(data): got("loot") if CANARY.encode() in data else denied()
def wrote(done): got("written") if done else denied()
"""


TOKEN: Final = """
import glob
own = glob.glob(os.path.dirname(ROOT) + "/config/agenttalk/**/operator.token", recursive=True)
TOKEN = (b"".join(read(path) for path in own)).decode().strip()
"""


ASKS: Final = """
import subprocess
CLEAN = {"PATH": os.environ["PATH"], "HOME": os.path.dirname(ROOT), "XDG_CONFIG_HOME": os.path.dirname(ROOT) + "/config"}
def asks(*words):
    said = []
    for env in (os.environ | CLEAN, CLEAN):
        done = subprocess.run([sys.executable, "-m", "agenttalk", *words, "--root", ROOT], env=env, capture_output=True, text=True)
        said.append(done.returncode != 0 and "PERSON_NEEDED" in done.stdout + done.stderr or done.stdout + done.stderr)
    denied() if said == [True, True] else got(said)
"""
"""The command line, with what says that an attempt asks and without it. What is not refused for that reason is loot."""


@dataclass(frozen=True)
class Outcome:
    """What must come of an attack in a tier."""

    verdict: Verdict
    """`contained`: it gained nothing. `refused`: its task failed, and the reason says why. `limit`: this tier cannot
    prevent it, and says so."""
    reason: str = ""
    """What the reason of a refused one says."""


CONTAINED: Final = Outcome("contained")
LIMIT: Final = Outcome("limit")


def refused(reason: str) -> Outcome:
    return Outcome("refused", reason)


@dataclass(frozen=True)
class Attack:
    """A hostile program."""

    what: str
    """For people; a row of the table in the documentation."""
    program: str
    bubblewrap: Outcome
    landlock: Outcome
    plain: Outcome
    timeout: int = 240
    keys: dict[str, Any] = field(default_factory=dict)
    """Of its agent's profile."""
    task: dict[str, Any] = field(default_factory=dict)
    """Of its task."""

    def outcome(self, tier: str) -> Outcome:
        """What must come of it where everything is there that the documentation asks for."""
        found: Outcome = getattr(self, tier)
        return found


def expected(name: str, tier: str, uid: int) -> Outcome:
    """What must come of an attack on this machine: an old landlock holds less, and some systems forbid more."""
    if tier == "bubblewrap" and landlock.read_version() < SCOPED and name == "abstract_online":
        return LIMIT
    if tier == "plain" and name == "keys" and not keys_work():
        return CONTAINED
    if tier == "landlock" and landlock.read_version() < SCOPED and name in SCOPED_ATTACKS:
        return ATTACKS[name].plain if name != "abstract" else LIMIT
    if (name, tier) == ("trace", "plain") and uid and YAMA.exists() and YAMA.read_text().strip() != "0":
        return CONTAINED
    return ATTACKS[name].outcome(tier)


@cache
def keys_work() -> bool:
    """Whether the kernel keeps keys for users here; some containers forbid it."""
    return add_key("agenttalk-trial", "-") > 0


def add_key(name: str, text: str) -> int:
    """Have the kernel keep a text for this session; its number, or -1."""
    adding, keeping = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine, (-1, -1))
    call = ctypes.CDLL(None).syscall
    data, own, setting = text.encode(), -3, 5
    number = int(call(adding, b"user", name.encode(), data, len(data), own))
    call(keeping, setting, number, 0x3F3F3F3F)  # whoever knows the number may read it
    return number


def _everywhere(what: str, program: str, outcome: Outcome, **more: Any) -> Attack:
    return Attack(what, program, outcome, outcome, outcome, **more)


def _reads(what: str, path: str) -> Attack:
    return Attack(what, f"stole(read({path}))", CONTAINED, CONTAINED, LIMIT)


def _writes(what: str, program: str) -> Attack:
    return Attack(what, program, CONTAINED, CONTAINED, LIMIT)


def _plants(what: str, *places: str) -> Attack:
    """Files of the repository, made where they are not expected; the harm is seen from outside."""
    body = f"""
for place in {places!r}:
    try: os.makedirs(os.path.dirname(GIT + "/" + place), exist_ok=True); write(GIT + "/" + place, HEAD)
    except OSError: pass
denied()"""
    return _writes(what, f"HEAD = (read(GIT + '/refs/heads/main') or MARK.encode()).decode()\n{body}")


def _connects(what: str, program: str) -> Attack:
    body = f"import socket\ntry:\n {program}\nexcept OSError: pass\ndenied()"
    asked = refused("nothing keeps a program from the network")
    return Attack(what, body, CONTAINED, CONTAINED, asked, keys={"network": "off"})


LOGINS: Final = (
    ".aws/credentials",
    ".azure/msal_token_cache.json",
    ".bash_history",
    ".boto",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".gemini/oauth_creds.json",
    ".git-credentials",
    ".gnupg/secring.gpg",
    ".kube/config",
    ".local/share/keyrings/login.keyring",
    ".local/share/opencode/auth.json",
    ".m2/settings.xml",
    ".mozilla/firefox/default/logins.json",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".password-store/mail.gpg",
    ".pgpass",
    ".pypirc",
    ".python_history",
    ".qwen/oauth_creds.json",
    ".s3cfg",
    ".ssh/id_ed25519",
    ".vault-token",
    ".zsh_history",
)
"""Files of a home folder in which programs keep passwords, keys and tokens, or what was typed."""
FORGED_OBJECT: Final = "objects/de/" + "ad" * 19
FORGED_REFS: Final = ("refs/heads/agenttalk/other", "refs/agenttalk/other/base")
ATTACKS: Final[dict[str, Attack]] = {
    "hang": _everywhere("hangs", "wait()", refused("ended after 1 seconds"), timeout=1),
    "deaf": _everywhere(
        "ignores the request to end",
        "import signal\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\nwait()",
        refused("ended after 1 seconds"),
        timeout=1,
    ),
    "daemon": _everywhere(
        "daemonises: two forks, a session of its own, no environment",
        """
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execve("/bin/sh", ["sh", "-c", "while :; do sleep 1; done # " + MARK], {})
    os._exit(0)
os.wait(); denied()""",
        CONTAINED,
    ),
    "forkbomb": _everywhere(
        "forks until it is stopped",
        "for _ in range(7): os.fork()\nwait()",
        refused("more than 50 processes and threads"),
    ),
    "flood": _everywhere(
        "floods standard output",
        "piece = bytes(1 << 20)\nwhile True: os.write(1, piece)",
        refused(f"printed more than {FLOOD_MIB:,} MiB"),
    ),
    "flood_error": _everywhere(
        "floods standard error",
        "piece = bytes(1 << 20)\nwhile True: os.write(2, piece)",
        refused(f"printed more than {FLOOD_MIB:,} MiB"),
    ),
    "disk": _everywhere(
        "fills the disk with files",
        f"for n in range({LIMITS['disk_mib'] // 4 + 2}): write(f'fill-{{n}}', 'x' * (4 << 20))\nwait()",
        refused(f"took more than {LIMITS['disk_mib']} MiB of the disk"),
    ),
    "nameless": _everywhere(
        "fills the disk with files that have no name",
        f"""
held = []
for n in range({LIMITS["disk_mib"] // 7 + 2}):
    file = open(f"gone-{{n}}", "wb"); os.unlink(f"gone-{{n}}"); file.write(bytes(7 << 20)); file.flush(); held.append(file)
wait()""",
        refused(f"took more than {LIMITS['disk_mib']} MiB of the disk"),
    ),
    "files": _everywhere(
        "makes very many small files",
        f"for n in range({FILES + 10}): os.close(os.open(f'{{n}}', os.O_CREAT | os.O_WRONLY))\nwait()",
        refused(f"more than {FILES:,} files and folders"),
    ),
    "sparse": _everywhere(
        "makes a sparse file of 1 TiB",
        "open(OUT + '/big', 'wb').truncate(1 << 40)",
        refused("File too large"),
    ),
    "memory": _everywhere("eats memory", "data = bytearray(1 << 30)", refused("MemoryError")),
    "memory_together": _everywhere(
        "has children eat memory together, each less than it may",
        """
for _ in range(8):
    if not os.fork(): data = b"x" * (60 << 20); break
wait()""",
        refused("took more than 300 MiB of memory together"),
    ),
    "descriptors": _everywhere(
        "opens files until it cannot",
        """
held = []
try:
    while len(held) < 100: held.append(os.open("/", os.O_RDONLY))
except OSError: denied()
else: got(len(held))""",
        CONTAINED,
    ),
    "deep": _everywhere(
        "nests folders with the longest names",
        "os.chdir(OUT)\nfor n in range(150): os.mkdir('d' * 255); os.chdir('d' * 255)\nwait()",
        refused("nested deeper than"),
    ),
    "no_text": _everywhere(
        "names an output with bytes that are not text",
        "os.close(os.open(os.fsencode(OUT) + b'/\\xff', os.O_CREAT | os.O_WRONLY))\ndenied()",
        refused("UTF-8"),
    ),
    "fifo": _everywhere("hands over a pipe", "os.mkfifo(OUT + '/note')\ndenied()", refused("not a regular file")),
    "fifo_result": _everywhere("makes its result a pipe", "os.mkfifo(RESULT)", refused("not a regular file")),
    "device": _everywhere(
        "hands over a device, or a pipe where it cannot make one",
        """
try: os.mknod(OUT + "/note", 0o020666, os.makedev(1, 5))
except PermissionError: os.mkfifo(OUT + "/note")
denied()""",
        refused("not a regular file"),
    ),
    "link_outputs": _everywhere(
        "puts a link to another's folder in place of its outputs",
        "os.rmdir(OUT); os.symlink(OTHER, OUT)\ndenied()",
        refused("outputs"),
    ),
    "link_result": _everywhere(
        "puts a link to another's file in place of its result",
        "os.symlink(OTHER + '/secret.txt', RESULT)",
        refused("result.json"),
    ),
    "hard_link": Attack(
        "hands over another's file by a hard link",
        """
try: os.link(OTHER + "/secret.txt", OUT + "/note")
except OSError: pass
denied()""",
        CONTAINED,
        CONTAINED,
        refused("hard link"),
    ),
    "command": _everywhere(
        "rewrites its command and its inputs",
        "write(os.environ['AGENTTALK_COMMAND']); write(os.environ['AGENTTALK_INPUTS'] + '/new')\ndenied()",
        CONTAINED,
    ),
    "ahead": _everywhere(
        "lies in wait where a later attempt will have its files",
        """
above = os.path.dirname(os.path.dirname(os.path.dirname(OUT)))
place = f"{os.path.dirname(above)}/next_{ME.partition('_')[0]}/.agenttalk/cmd_x_001-1/outputs"
try: os.makedirs(place); write(place + "/note")
except OSError: pass
denied()""",
        CONTAINED,
    ),
    "setuid": Attack(
        "leaves other users a program that runs as its owner",
        """
with open(OUT + "/tool", "wb") as file: file.write(read("/bin/true"))
os.chmod(OUT + "/tool", 0o6755)
try: os.chmod(OWN + "/workspace", 0o777)
except OSError: pass
got("open") if os.stat(OWN + "/workspace").st_mode & 1 else denied()""",
        CONTAINED,
        LIMIT,
        LIMIT,
    ),
    "peek_agent": _reads("reads another agent's folder", "OTHER + '/secret.txt'"),
    "peek_store": Attack(
        "reads our database",
        "got('loot') if read(ROOT + '/data/system.db').startswith(b'SQLite') else denied()",
        CONTAINED,
        CONTAINED,
        LIMIT,
    ),
    "peek_config": _reads("reads the settings", "ROOT + '/agenttalk.toml'"),
    "peek_commands": Attack(
        "reads commands and artifacts of other tasks",
        "stole(b''.join(read(os.path.join(above, name)) for above, _, names in os.walk(ROOT + '/system_runtime')"
        " for name in names))",
        CONTAINED,
        CONTAINED,
        LIMIT,
    ),
    "peek_token": Attack(
        "reads the operator's token",
        TOKEN + "got('token') if TOKEN else denied()",
        CONTAINED,
        CONTAINED,
        LIMIT,
    ),
    "peek_home": Attack(
        "reads logins, keys and histories in the home folder of its user",
        f"found = [each for each in {LOGINS!r} if CANARY.encode() in read(HOME + '/' + each)]\n"
        "got(found) if found else denied()",
        CONTAINED,
        CONTAINED,
        LIMIT,
    ),
    "operator": Attack(
        "speaks to the engine as its operator",
        TOKEN
        + """
import urllib.request
asked = urllib.request.Request(os.environ["AGENTTALK_API"] + "/api/plans", headers={"Authorization": "Bearer " + TOKEN})
try: got(urllib.request.urlopen(asked, timeout=30).status)
except OSError: denied()
""",
        CONTAINED,
        CONTAINED,
        CONTAINED,  # its token is refused where an attempt's processes ask
    ),
    "peek_own": _everywhere(
        "looks for what it was not given in its environment",
        "stole('\\n'.join(os.environ.values()).encode())",
        CONTAINED,
    ),
    "peek_processes": Attack(
        "looks for it in the environment of other processes",
        "stole(b'\\n'.join(read(f'/proc/{pid}/environ') for pid in os.listdir('/proc') if pid.isdigit()))",
        CONTAINED,
        CONTAINED,
        LIMIT,
    ),
    "write_agent": _writes("writes into another agent's folder", "wrote(write(OTHER + '/note.txt'))"),
    "write_store": _writes("writes beside our database", "wrote(write(ROOT + '/data/planted'))"),
    "write_config": _writes("changes the settings", "wrote(write(ROOT + '/agenttalk.toml', '# ' + MARK + chr(10)))"),
    "write_outside": _writes("writes outside the root", "write(os.path.dirname(ROOT) + '/outside.txt')\ndenied()"),
    "write_program": _writes("changes its own program", "wrote(write(__file__, '# ' + MARK + chr(10)))"),
    "write_profile": Attack(
        "changes its own profile, to run something else next time",
        """
import json
path = OWN + "/agent_profile.json"
try:
    said = json.loads(read(path) or b"{}") | {"argv": ["/bin/false"], "sandbox": "plain", "driver": "script"}
    os.unlink(path)
except (OSError, ValueError): said = {}
write(path, json.dumps(said))
denied()""",
        CONTAINED,
        CONTAINED,
        CONTAINED,
    ),
    "shared_memory": _writes("leaves something in /dev/shm", "write('/dev/shm/' + MARK)\ndenied()"),
    "write_proc": _writes(
        "writes what /proc has on another process", "wrote(write(f'/proc/{VICTIM}/oom_score_adj', '7'))"
    ),
    "kill": _writes(
        "kills a foreign process",
        "try: os.kill(PREY, 9)\nexcept OSError: denied()\nelse: got('killed')",
    ),
    "trace": _writes(
        "attaches itself to another process as a debugger",
        "import ctypes\nwrote(ctypes.CDLL(None).ptrace(0x4206, VICTIM, 0, 0) == 0)",
    ),
    "kill_keeper": Attack(
        "kills its keeper",
        "try: os.kill(os.getppid(), 9)\nexcept OSError: pass\nelse: time.sleep(1)\ndenied()",
        CONTAINED,
        CONTAINED,
        refused("keeper was killed"),
    ),
    "link_outbox": _everywhere(
        "puts a link in place of its outbox",
        """
own = OWN + "/outbox"
try:
    if os.path.exists(own): os.rename(own, own + ".away")
    os.symlink(OTHER, own)
except OSError: pass
denied()""",
        CONTAINED,
    ),
    "link_workspace": Attack(
        "puts a link in place of its workspace",
        """
own = OWN + "/workspace"
try:
    os.rename(own, own + ".away")
    os.symlink(OTHER, own)
except OSError: pass
denied()""",
        CONTAINED,
        CONTAINED,
        refused("symlink"),
    ),
    "scope": Attack(
        "changes what its promise does not allow",
        "write('README.md'); write('src/a.py')\ndenied()",
        CONTAINED,
        CONTAINED,
        refused("scope-drift"),
        task={
            "workspace": "repo",
            "promise": {
                "objective": "It is there",
                "acceptance": [{"id": "c", "description": "there", "evidenceRequired": ["there"]}],
                "checks": [{"id": "there", "kind": "file", "path": "src/a.py"}],
                "allowedScope": ["src/**"],
            },
        },
    ),
    "git_objects": _plants("puts a forged object into the user's repository", FORGED_OBJECT),
    "git_refs": _plants("forges the branch of a plan, and the engine's own references", *FORGED_REFS),
    "weaker_plan": _everywhere(
        "applies a weaker plan by the command line",
        ASKS
        + """
import json
plan = {"plan_id": "p", "agents": {"crew0": {"driver": "script", "argv": ["true"]}},
        "tasks": [{"id": "scope", "agent": "crew0", "prompt": "Nothing."}]}
write("weaker.json", json.dumps(plan))
asks("plan", "apply", os.path.abspath("weaker.json"))""",
        CONTAINED,
    ),
    "answer_command": _everywhere(
        "answers as a person by the command line",
        ASKS + "asks('answer', 'req_1', '--decision', 'APPROVE', '--as', 'boss')",
        CONTAINED,
    ),
    "answer_file": _everywhere(
        "answers as a person by a file of the gateway",
        """
import json
place = ROOT + "/agents/agent_human_gateway/outbox/p"
said = {"schema_version": "1.0", "request_id": "req_1", "responded_at": "2026-01-01T00:00:00Z",
        "responder": {"name": "boss", "role": "lead"}, "decision": "APPROVE"}
try: os.makedirs(place, exist_ok=True); write(place + "/human_intervention_response_req_1.json", json.dumps(said))
except OSError: pass
denied()""",
        CONTAINED,  # it is not taken for an answer: nothing of it is in the ledger
    ),
    "answer_socket": _everywhere(
        "answers as a person over its socket, with the operator's token or its own",
        TOKEN
        + """
import http.client, json, socket
came = []
for token in (TOKEN or "op_guessed", os.environ["AGENTTALK_TOKEN"]):
    asked = http.client.HTTPConnection("agenttalk", timeout=300)
    asked.sock = socket.socket(socket.AF_UNIX)
    asked.sock.connect(os.environ["AGENTTALK_SOCKET"])
    asked.request("POST", "/api/human-requests/req_1/answer", json.dumps({"decision": "APPROVE", "by": "boss"}),
                  {"Authorization": "Bearer " + token, "Content-Type": "application/json"})
    came.append(asked.getresponse().status)
denied() if set(came) <= {401, 403} else got(came)""",
        CONTAINED,
    ),
    "terminal": _writes(
        "reads or writes the operator's terminal",
        """
try: held = os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
except OSError: denied()
else: got(os.read(held, 100) if os.write(held, MARK.encode()) else "")""",
    ),
    "limit_other": _writes(
        "has the kernel end another process by a limit",
        """
import resource
try: resource.prlimit(VICTIM, resource.RLIMIT_NOFILE, (3, 3))
except OSError: denied()
else: got("limited")""",
    ),
    "signal_other": _writes(
        "has the kernel signal another process by a pipe that it owns",
        """
import fcntl, signal
ours, theirs = os.pipe()
try:
    fcntl.fcntl(ours, fcntl.F_SETOWN, PACED)
    fcntl.fcntl(ours, 10, signal.SIGKILL)
    fcntl.fcntl(ours, fcntl.F_SETFL, fcntl.fcntl(ours, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(theirs, b"x")
except OSError: pass
denied()""",
    ),
    "keys": _writes(
        "reads a key that the kernel keeps for its user",
        """
import ctypes
room = ctypes.create_string_buffer(64)
ctypes.CDLL(None).syscall({"x86_64": 250, "aarch64": 219}[os.uname().machine], 11, KEY, room, 64, 0)
stole(room.value)""",
    ),
    "shared_segment": Attack(
        "reads memory that another process shares by a number (System V)",
        """
import ctypes
calls = ctypes.CDLL(None); calls.shmat.restype = ctypes.c_void_p
found = calls.shmat(SHARED, None, 0)
stole(ctypes.string_at(found, 64) if found not in (None, 2 ** 64 - 1) else b"")""",
        CONTAINED,
        LIMIT,
        LIMIT,
    ),
    "inherited": _everywhere(
        "looks for what the engine left open for it",
        """
found = []
for name in range(3, 256):
    try: found.append(os.readlink(f"/proc/self/fd/{name}"))
    except OSError: pass
got(found) if found else denied()""",
        CONTAINED,
    ),
    "abstract_online": _writes(
        "connects to an abstract socket while it may use the network",
        """
import socket
try: socket.socket(socket.AF_UNIX).connect(chr(0) + MARK + "-online")
except OSError: denied()
else: got("connected")""",
    ),
    "tcp": _connects("opens a TCP connection", "socket.create_connection(('127.0.0.1', TCP), 5)"),
    "udp": _connects(
        "sends a datagram",
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(MARK.encode(), ('127.0.0.1', UDP))",
    ),
    "abstract": _connects(
        "connects to an abstract socket", "s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + MARK)"
    ),
}


@dataclass(frozen=True)
class Bent:
    """What work does to the check that judges it, or while it is prepared for that; a row of the second table."""

    what: str
    bubblewrap: Verdict
    landlock: Verdict
    plain: Verdict


CHECKED: Final[dict[str, Bent]] = {
    "daemon": Bent("has the preparation leave a daemon that mends the checkout", "contained", "contained", "contained"),
    "escape": Bent("has the preparation write outside its folder", "contained", "contained", "limit"),
    "poison": Bent("leaves poison in what is installed, and takes it out of its tree", "refused", "refused", "refused"),
    "editable": Bent("breaks a package that is installed editable", "refused", "refused", "refused"),
    "rewrite": Bent(
        "rewrites protected tests or the check's own files while the check runs", "contained", "refused", "refused"
    ),
    "move": Bent("moves their folder away, or away and back", "contained", "refused", "refused"),
    "reach": Bent(
        "debugs the check, reads or writes its memory, or takes its open files", "contained", "contained", "limit"
    ),
    "namespace": Bent("makes a user namespace", "contained", "contained", "limit"),
    "kill": Bent("kills the check", "refused", "refused", "refused"),
    "look": Bent(
        "reads settings, state, or folders and commands of others in a check", "contained", "contained", "limit"
    ),
    "connect": Bent("uses the network in a check", "contained", "contained", "limit"),
}


def holds(name: str, tier: str, came: Verdict) -> None:
    """What came of work that attacks its check is what the table says. A limit that this system does not have is fine."""
    said = getattr(CHECKED[name], tier)
    allowed = {said, "contained"} if said == "limit" and os.getuid() else {said}
    assert came in allowed, f"{name} in {tier}: {came}, and the table says {said}"
