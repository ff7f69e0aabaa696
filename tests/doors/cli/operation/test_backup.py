"""`agenttalk backup` and `restore`: while work is going on, after a kill, and with what must not be in it."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

import preloaded
from agenttalk.adapters.store import operator_folder
from agenttalk.adapters.store.ledger_heads import heads_file
from agenttalk.doors.cli.main import call
from kits.sandboxkit import PLAIN_VARIABLE

PATIENCE = 300.0
PROGRAM = """
import os, pathlib, sys, time
here = pathlib.Path(__file__).parent
task = os.environ["AGENTTALK_TASK_ID"]
with open(here / "ran", "a") as ran:
    ran.write(f"{task} {pathlib.Path.cwd()}\\n")
while task == "slow" and not (here / "go").exists():
    time.sleep(0.02)
print("ok")
"""


def waited(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


class Home:
    """A folder with a root, a plan of three tasks whose second waits for a file, and places for backups."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root, self.other = folder, folder / "root", folder / "other"
        self.file = folder / "kept" / "first.tar.gz"
        self.file.parent.mkdir()
        (folder / "work.py").write_text(PROGRAM, encoding="utf-8")
        agents = {"worker": {"driver": "script", "argv": [sys.executable, "work.py"]}}
        tasks = [
            {"id": "first", "agent": "worker", "prompt": "Do it."},
            {"id": "slow", "agent": "worker", "prompt": "Do it.", "needs": ["first"]},
            {"id": "last", "agent": "worker", "prompt": "Do it.", "needs": ["slow"]},
        ]
        self.plan = folder / "plan.json"
        self.plan.write_text(json.dumps({"plan_id": "shop", "agents": agents, "tasks": tasks}), encoding="utf-8")
        for name in ("agents", "system_runtime"):
            (self.root / name).mkdir(parents=True)
        (self.root / "agents" / "ada").mkdir()

    @property
    def ran(self) -> list[tuple[str, str]]:
        """Tasks that the program was started for, and in which root."""
        path = self.folder / "ran"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(line.split()[0], "other" if "/other/" in line else "root") for line in lines]

    def __call__(self, *words: str, root: Path | None = None, code: int = 0) -> dict[str, Any]:
        ended = subprocess.run(
            [preloaded.program(), *words, "--json", "--root", str(root or self.root)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert ended.returncode == code, ended.stdout + ended.stderr
        said: dict[str, Any] = json.loads(ended.stdout)
        return said

    def serve(self, root: Path) -> subprocess.Popen[str]:
        engine = subprocess.Popen(
            [preloaded.program(), "serve", "--port", "0", "--root", str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert engine.stdout is not None
        assert "listening" in engine.stdout.readline()
        return engine

    def submit(self, root: Path) -> subprocess.Popen[str]:
        """Have the engine of a root run the plan."""
        return subprocess.Popen(
            [preloaded.program(), "run", str(self.plan), "--json", "--root", str(root)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def states(self, root: Path) -> dict[str, str]:
        """Task → state, looked up directly, because that is quick."""
        path = f"file:{root}/data/projects/default/blackboard.db?mode=ro"
        with closing(sqlite3.connect(path, uri=True)) as connection:
            return dict(connection.execute("SELECT task_id, state FROM tasks WHERE plan_id = 'shop'").fetchall())


def ended(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return Home(tmp_path)


@pytest.mark.rest
def test_a_backup_of_a_running_plan_is_restored_elsewhere_and_the_plan_ends(home: Home) -> None:
    engine = home.serve(home.root)
    follower = home.submit(home.root)
    try:
        waited(lambda: ("slow", "root") in home.ran)
        made = home("backup", str(home.file))
        assert made["left_out"] == []
        told = home("restore", str(home.file), root=home.other)
        assert (told["paused"], told["turns"]) == (["shop"], 1)
        other = home.serve(home.other)  # beside the old one, whose program still runs
        try:
            waited(lambda: home.states(home.other)["slow"] == "READY")
            assert home.states(home.root) == {"first": "COMPLETED", "slow": "RUNNING", "last": "PENDING"}
            assert [each for each in home.ran if each[1] == "other"] == []
            (home.folder / "go").touch()
            home("resume", "shop", root=home.other)
            waited(lambda: set(home.states(home.other).values()) == {"COMPLETED"})
        finally:
            ended(other)
        waited(lambda: set(home.states(home.root).values()) == {"COMPLETED"})
        assert follower.wait(PATIENCE) == 0
    finally:
        ended(engine)
        follower.kill()
        follower.communicate()
    assert sorted(home.ran) == [
        ("first", "root"), ("last", "other"), ("last", "root"), ("slow", "other"), ("slow", "root"),
    ]  # fmt: skip
    for root in (home.root, home.other):
        assert home("fsck", root=root)["faults"] == []
        assert home("audit", "verify", root=root)["ok"]


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as tar:
        return tar.getnames()


def held(archive: Path) -> bytes:
    """Everything in it."""
    with tarfile.open(archive) as tar:
        return b"".join(file.read() for member in tar if (file := tar.extractfile(member)) is not None)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> str:
    """What a command prints that needs no process of its own."""
    assert call([*words]) == code
    printed = capsys.readouterr()
    return (printed.out + printed.err).replace("\n", " ")


@pytest.fixture
def small(home: Home, capsys: pytest.CaptureFixture[str]) -> Home:
    """A root in which something was sent, with its backup."""
    assert call(["mail", "send", "How are you?", "--to", "ada", "--subject", "Hello", "--root", str(home.root)]) == 0
    assert call(["backup", str(home.file), "--root", str(home.root)]) == 0
    assert "written and verified" in capsys.readouterr().out
    return home


def test_what_is_there_is_not_overwritten(small: Home, capsys: pytest.CaptureFixture[str]) -> None:
    before = small.file.read_bytes()
    assert "there already" in said(capsys, "backup", str(small.file), "--root", str(small.root), code=2)
    assert small.file.read_bytes() == before
    assert "restore overwrites nothing" in said(capsys, "restore", str(small.file), "--root", str(small.root), code=2)
    small.other.mkdir()
    (small.other / "mine").touch()
    assert "restore overwrites nothing" in said(capsys, "restore", str(small.file), "--root", str(small.other), code=2)
    assert [path.name for path in small.other.iterdir()] == ["mine"]


def test_a_folder_gets_a_file_of_its_own(small: Home, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "backup", str(small.file.parent), "--root", str(small.root), code=0)
    [made] = [path for path in small.file.parent.iterdir() if path != small.file]
    assert made.name.startswith("root-")
    assert made.name.endswith("Z.tar.gz")
    assert made.stat().st_mode & 0o077 == 0


def test_what_was_restored_is_what_was_kept(small: Home, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "restore", str(small.file), "--root", str(small.other), code=0)
    for root in (small.root, small.other):
        assert "Hello" in said(capsys, "mail", "list", "--root", str(root), code=0)
        assert "consistent" in said(capsys, "fsck", "--root", str(root), code=0)
        said(capsys, "audit", "verify", "--root", str(root), code=0)
    assert '"root.restored"' in said(capsys, "audit", "export", "--root", str(small.other), code=0)


def test_letters_wait_after_a_restore_unless_the_old_root_is_gone(
    small: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "paused: _mail" in said(capsys, "restore", str(small.file), "--root", str(small.other), code=0)
    third = small.folder / "third"
    assert "paused" not in said(capsys, "restore", str(small.file), "--go-on", "--root", str(third), code=0)


def test_who_restores_a_root_is_its_operator_in_the_new_place(
    home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(home.serve(home.root))  # whose operator is known from now on
    said(capsys, "mail", "send", "?", "--to", "ada", "--subject", "Hello", "--root", str(home.root), code=0)
    said(capsys, "backup", str(home.file), "--root", str(home.root), code=0)
    said(capsys, "restore", str(home.file), "--root", str(home.other), code=0)
    said(capsys, "resume", "_mail", "--root", str(home.other), code=0)
    copied = operator_folder.folder_of(home.other) / operator_folder.TOKEN
    copied.write_bytes((operator_folder.folder_of(home.root) / operator_folder.TOKEN).read_bytes())
    told = said(capsys, "pause", "_mail", "--root", str(home.other), code=2)  # the old token opens the old root alone
    assert "is not the folder of the operator" in told
    assert "start its engine once" in told
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.folder / "anothers"))  # as on another machine
    third = home.folder / "third"
    said(capsys, "restore", str(home.file), "--root", str(third), code=0)
    said(capsys, "resume", "_mail", "--root", str(third), code=0)


def test_a_root_that_is_put_into_its_old_place_is_not_called_cut_off(
    small: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "mail", "send", "?", "--to", "ada", "--subject", "Later", "--root", str(small.root), code=0)
    small.root.rename(small.folder / "lost")
    said(capsys, "restore", str(small.file), "--root", str(small.root), code=0)
    said(capsys, "audit", "verify", "--root", str(small.root), code=0)
    assert heads_file(small.root).with_name("heads.json.before-restore").is_file()


def repacked(archive: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> None:
    """Write an archive anew, each file as `change` says."""
    with tarfile.open(archive) as tar:
        members = [(member.name, file.read()) for member in tar if (file := tar.extractfile(member)) is not None]
    with tarfile.open(archive, "w:gz") as tar:
        for found in filter(None, (change(*member) for member in members)):
            entry = tarfile.TarInfo(found[0])
            entry.size = len(found[1])
            tar.addfile(entry, io.BytesIO(found[1]))


def _flipped(name: str, data: bytes) -> tuple[str, bytes]:
    return name, data[:-1] + bytes([data[-1] ^ 1]) if name == "data/system.db" else data


def _climbing(name: str, data: bytes) -> tuple[str, bytes]:
    return ("../climbed" if name == "data/system.db" else name), data


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_flipped, "has another hash"),
        (_climbing, "is not a file of a root"),
        (lambda name, data: None if name == "data/system.db" else (name, data), "system.db is missing"),
        (lambda name, data: None if name == "manifest.json" else (name, data), "ends before its list"),
        (lambda name, data: ("added" if name == "agents/x" else name, data), "does not belong"),
    ],
    ids=["flipped", "climbing", "missing", "unlisted", "strange"],
)
def test_a_changed_backup_is_refused_and_leaves_nothing(
    small: Home, capsys: pytest.CaptureFixture[str], change: Callable[..., Any], words: str
) -> None:
    (small.root / "agents" / "x").write_text("a file", encoding="utf-8")
    small.file.unlink()
    said(capsys, "backup", str(small.file), "--root", str(small.root), code=0)
    repacked(small.file, change)
    before = sorted(small.folder.iterdir())
    assert words in said(capsys, "restore", str(small.file), "--root", str(small.other), code=1)
    assert sorted(small.folder.iterdir()) == before


@pytest.mark.parametrize("lost", [1, 4, 8, 40, 400])
def test_a_backup_that_ends_too_early_is_refused(small: Home, capsys: pytest.CaptureFixture[str], lost: int) -> None:
    small.file.write_bytes(small.file.read_bytes()[:-lost])
    assert "damaged" in said(capsys, "restore", str(small.file), "--root", str(small.other), code=1)
    assert not small.other.exists()


def test_a_backup_with_something_behind_its_end_is_refused(small: Home, capsys: pytest.CaptureFixture[str]) -> None:
    small.file.write_bytes(small.file.read_bytes() + b"more")
    assert "damaged" in said(capsys, "restore", str(small.file), "--root", str(small.other), code=1)
    assert not small.other.exists()


def test_secrets_are_not_in_it(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    canaries = {"file": "canary-of-a-file", "env": "canary-of-a-variable", "key": "canary-of-a-model-key"}
    monkeypatch.setenv("HOOK", canaries["env"])
    monkeypatch.setenv("OPENAI_API_KEY", canaries["key"])
    (home.root / "agenttalk.toml").write_text(
        '[sources.work]\nkind = "gitea"\nbase_url = "https://git.example.org"\n'
        'secret_env = "HOOK"\ntoken_file = "forge.token"\n',
        encoding="utf-8",
    )
    (home.root / "forge.token").write_text(canaries["file"] + "\n", encoding="utf-8")
    folder = home.root / "agents" / "dev" / "workspace"
    folder.mkdir(parents=True)
    for name, value in canaries.items():
        (folder / name).write_text(f"{name}={value}\n", encoding="utf-8")
    (folder / "long").write_bytes(b"x" * (1024 * 1024 - 3) + canaries["key"].encode())  # across two chunks
    (folder / "link").symlink_to(home.root / "forge.token")
    (folder / "fine").write_text("nothing", encoding="utf-8")
    said(capsys, "mail", "send", "?", "--to", "ada", "--subject", "Hello", "--root", str(home.root), code=0)
    token = operator_folder.ensure_token(home.root)
    shown = json.loads(said(capsys, "backup", str(home.file), "--json", "--root", str(home.root), code=0))
    assert {each["path"].rpartition("/")[2] for each in shown["left_out"]} == {"file", "env", "key", "long", "link"}
    whole = held(home.file)
    assert [value for value in (*canaries.values(), token) if value.encode() in whole] == []
    assert "agents/dev/workspace/fine" in names(home.file)
    assert "forge.token" not in names(home.file)


def limited(home: Home, *, killed: bool) -> subprocess.CompletedProcess[str]:
    """A backup that cannot write more than half of its file: it is killed then, or told that it cannot."""
    handling = "signal.SIG_DFL" if killed else "signal.SIG_IGN"
    code = f"import signal; signal.signal(signal.SIGXFSZ, {handling}); from agenttalk.doors.cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, "backup", str(home.file), "--root", str(home.root)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_backup_that_is_killed_leaves_no_file_and_the_next_one_cleans_up(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    (home.root / "agents" / "large").write_bytes(os.urandom(2 << 20))
    assert limited(home, killed=True).returncode == -signal.SIGXFSZ
    [left] = home.file.parent.iterdir()
    assert left.name.startswith(".agenttalk-backup-")
    said(capsys, "backup", str(home.file), "--root", str(home.root), code=0)
    assert [path.name for path in home.file.parent.iterdir()] == [home.file.name]
    said(capsys, "restore", str(home.file), "--root", str(home.other), code=0)


def test_a_backup_without_room_says_so_and_leaves_nothing(home: Home) -> None:
    (home.root / "agents" / "large").write_bytes(os.urandom(2 << 20))
    ended = limited(home, killed=False)
    assert ended.returncode == 1
    assert "cannot write" in ended.stderr
    assert list(home.file.parent.iterdir()) == []


def test_a_broken_ledger_is_not_kept_as_if_it_were_whole(small: Home, capsys: pytest.CaptureFixture[str]) -> None:
    database = apsw.Connection(str(small.root / "data" / "_mail" / "blackboard.db"))
    database.execute("UPDATE ledger SET body = x'7b7d' WHERE seq = 1")
    database.close()
    other = small.file.with_name("second.tar.gz")
    assert "is broken" in said(capsys, "backup", str(other), "--root", str(small.root), code=1)
    assert not other.exists()
