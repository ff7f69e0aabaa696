"""`agenttalk serve`: one engine per root, from its first word to its end, whichever end it is."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agenttalk import wiring
from agenttalk.adapters.store import operator_folder
from agenttalk.adapters.store.root_lock import RootLock, RunningEngine
from agenttalk.contracts.errors import Code, ContractError, MachineError, UsageError
from agenttalk.doors.api.server import ServerAddresses
from agenttalk.doors.cli.core import engine_client
from agenttalk.doors.cli.main import call
from agenttalk.wiring.settings import Settings
from doors.api.enginekit import REPORTS, agenttalk, engine, programmed, read_object, started, until
from kits.treekit import Tree, node, output

DONE = "COMPLETED"


def client(root: Path) -> engine_client.EngineClient:
    found = engine_client.connect_to_running_engine(root)
    assert found is not None
    return found


def state(root: Path, task_id: str = "build") -> str:
    """Where a task stands; nothing while the engine has not read its plan yet."""
    try:
        return str(client(root).get(f"/api/projects/default/tasks/plan_shop:{task_id}")["state"])
    except UsageError:
        return ""


@pytest.fixture
def shop(tree: Tree) -> Tree:
    """A developer whose outputs go to a tester."""
    tree.dag([node("build", "dev", outputs=[output("app.txt", "tester")]), node("test", "tester")])
    return tree


def test_a_message_goes_from_an_outbox_through_a_program_to_the_next_inbox(shop: Tree) -> None:
    programmed(
        shop,
        "dev",
        REPORTS
        + "pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], 'app.txt').write_text(f'built {say(\"on it\")}')\n"
        + "print(json.dumps({'result': 'built'}))\n",
    )
    with engine(shop.root, quick=True) as serving:
        assert serving.told["http"].startswith("http://127.0.0.1:")
        shop.command("lead", "build")
        until(lambda: state(shop.root) == DONE, "the task is completed")
        [name] = until(lambda: [each for each in shop.inbox("tester") if each.endswith(".msg.json")], "it is delivered")
        envelope = json.loads((shop.box("tester", "inbox") / name).read_bytes())
        path = envelope["payload"]["files"][0]["path"]
        assert (shop.box("tester", "inbox") / path).read_text() == "built 201"
        task = client(shop.root).get("/api/projects/default/tasks/plan_shop:build")
        assert [(each["author"], each["body"], each["epoch"]) for each in task["comments"]] == [("dev", "on it", 1)]
        assert client(shop.root).get("/api/fsck") == {"faults": []}
        assert serving.ended(signal.SIGTERM) == 0
    assert engine_client.connect_to_running_engine(shop.root) is None


def test_a_second_engine_refuses_and_names_the_first(tree: Tree) -> None:
    with engine(tree.root) as first:
        second = agenttalk("serve", "--root", str(tree.root), "--port", "0")
        assert second.returncode == 1
        assert f"process {first.process.pid} at {first.told['http']}" in second.stderr
        assert "ENGINE_RUNNING" in second.stderr
        assert client(tree.root).get("/api/status")["plans"] is not None


@pytest.mark.rest
def test_who_comes_second_is_told_what_runs_where_and_what_to_do(tree: Tree) -> None:
    root = ("--root", str(tree.root), "--json")
    with engine(tree.root) as first:
        error = json.loads(agenttalk("serve", *root).stdout)["error"]
        assert str(tree.root) in error["message"]
        assert error["hint"] == f"use that one, or end it first (kill {first.process.pid})"
        assert first.ended(signal.SIGTERM) == 0
    part = subprocess.Popen(
        [sys.executable, "-m", "agenttalk", "route", *root],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        read_object(part)
        for words, what in (("serve", f"in use by route (process {part.pid})"), ("route", f"process {part.pid}")):
            done = agenttalk(words, *root, *(["--once"] if words == "route" else []))
            error = json.loads(done.stdout)["error"]
            assert (done.returncode, error["code"]) == (1, "ENGINE_RUNNING")
            assert str(tree.root) in error["message"]
            assert what in error["message"]
            assert "first" in error["hint"]
    finally:
        part.terminate()
        part.communicate(timeout=300)
    assert part.returncode == 0


def test_an_engine_that_starts_waits_for_a_command_that_has_the_root(tree: Tree) -> None:
    told: list[str] = []

    async def run() -> None:
        loop, stop, lock = asyncio.get_running_loop(), asyncio.Event(), RootLock.acquire(tree.root, "part")
        loop.call_later(0.3, lock.release)

        def tell(where: ServerAddresses) -> None:
            told.append(where.http)
            stop.set()

        await asyncio.wait_for(wiring.serve(tree.root, Settings(), stop=stop, tell=tell, port=0), 40)

    asyncio.run(run())
    assert len(told) == 1


def test_a_command_waits_for_an_engine_that_is_just_ending(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    lock = RootLock.acquire(tree.root, "engine")
    ending = threading.Timer(0.3, lock.release)
    ending.start()
    assert call(["status", "--root", str(tree.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    ending.join()


def test_a_command_waits_until_an_engine_that_listens_no_longer_is_gone(tree: Tree) -> None:
    operator_folder.ensure_token(tree.root)
    lock = RootLock.acquire(tree.root, "engine")
    lock.announce(http=None, socket=str(tree.root / "nobody.sock"))
    ending = threading.Timer(0.3, lock.release)
    ending.start()
    assert call(["fsck", "--root", str(tree.root)]) == 0
    ending.join()


@pytest.mark.rest
def test_a_killed_engine_hinders_no_other(tree: Tree) -> None:
    with engine(tree.root) as first:
        assert first.ended(signal.SIGKILL) == -signal.SIGKILL
    assert (tree.root / "data/engine.json").exists()
    assert Path(first.told["socket"]).exists()
    assert engine_client.connect_to_running_engine(tree.root) is None
    with engine(tree.root) as second:
        assert second.told["socket"] == first.told["socket"]
        assert client(tree.root).get("/api/status")["plans"] is not None
        assert second.ended(signal.SIGTERM) == 0
    assert not (tree.root / "data/engine.json").exists()
    assert not Path(second.told["socket"]).exists()


HANGS = """
import os, pathlib, sys, time
seen = pathlib.Path(os.environ["AGENTTALK_COMMAND"]).parents[2] / "attempts"
with seen.open("a") as file:
    print(os.environ["AGENTTALK_ATTEMPT"], os.getpid(), file=file, flush=True)
if len(seen.read_text().splitlines()) == 1:
    time.sleep(600)
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "app.txt").write_text("built")
"""


def attempts(root: Path) -> list[list[str]]:
    path = root / "agents/dev/workspace/plan_shop/build/attempts"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def lives(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False


@pytest.mark.rest_but("9")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_turn_that_an_engine_left_is_ended_and_taken_again_by_the_next(shop: Tree, number: signal.Signals) -> None:
    programmed(shop, "dev", HANGS)
    shop.command("lead", "build", timeout=300)
    with engine(shop.root) as first:
        [[_, pid]] = until(lambda: attempts(shop.root), "the program runs")
        code = first.ended(number)
        assert code == {signal.SIGTERM: 0, signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[number]
        until(lambda: not lives(pid), "the program is dead")
    with engine(shop.root):
        until(lambda: state(shop.root) == DONE, "the task is completed")
        assert [number for number, _ in attempts(shop.root)] == ["1", "2"]
        assert client(shop.root).get("/api/fsck") == {"faults": []}


STUBBORN = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
seen = pathlib.Path(os.environ["AGENTTALK_COMMAND"]).parents[2] / "attempts"
with seen.open("a") as file:
    print(os.environ["AGENTTALK_ATTEMPT"], os.getpid(), file=file, flush=True)
time.sleep(600)
"""


def test_an_engine_ends_soon_whatever_its_programs_and_callers_do(shop: Tree) -> None:
    programmed(shop, "dev", STUBBORN)
    shop.command("lead", "build", timeout=300)
    with engine(shop.root) as serving:
        pids = until(lambda: len(attempts(shop.root)) == 2 and [pid for _, pid in attempts(shop.root)], "it runs")
        with socket.socket(socket.AF_UNIX) as slow:
            slow.connect(serving.told["socket"])
            slow.sendall(b"POST /api/passes HTTP/1.1\r\nHost: agenttalk\r\n")
            begun = time.monotonic()
            assert serving.ended(signal.SIGTERM) == 0
            assert time.monotonic() - begun < 20
        assert [pid for pid in pids if lives(pid)] == []
    assert not (shop.root / "data/engine.json").exists()


@pytest.mark.rest
def test_who_waits_for_a_pass_is_told_when_the_engine_ends(shop: Tree) -> None:
    programmed(shop, "dev", HANGS)
    shop.command("lead", "build", timeout=300)
    with engine(shop.root) as serving:
        until(lambda: attempts(shop.root), "the program runs")
        beat = subprocess.Popen(
            [sys.executable, "-m", "agenttalk", "heartbeat", "--agent", "dev", "--once", "--root", str(shop.root)],
            stderr=subprocess.PIPE,
            text=True,
        )
        socket_path = serving.told["socket"].encode()
        until(lambda: connections(socket_path) == 1, "it waits")
        assert serving.ended(signal.SIGTERM) == 0
        _, said = beat.communicate(timeout=300)
        assert (beat.returncode, "ENGINE_UNREACHABLE" in said) == (1, True)


def connections(path: bytes) -> int:
    """How many are connected to a unix socket: 03 is the state of a connected one."""
    lines = Path("/proc/net/unix").read_bytes().splitlines()
    return sum(line.endswith(b" " + path) and line.split()[5] == b"03" for line in lines)


def test_commands_beside_an_engine_go_through_it(shop: Tree) -> None:
    programmed(shop, "dev", "print('done')\n")
    root = ("--root", str(shop.root))
    with engine(shop.root, quick=True):
        shop.command("lead", "build")
        routed = agenttalk("route", "--once", *root, "--json")
        assert (routed.returncode, json.loads(routed.stdout)["problems"]) == (0, [])
        beat = agenttalk("heartbeat", "--agent", "dev", "--once", *root, "--json")
        assert beat.returncode == 0, beat.stderr
        assert state(shop.root) == DONE
        assert agenttalk("heartbeat", "--agent", "nobody", "--once", *root).returncode == 2
        assert agenttalk("monitor", "--once", *root).returncode == 0
        status = json.loads(agenttalk("status", *root, "--json").stdout)
        assert {task["task_id"]: task["state"] for task in status["plans"][0]["tasks"]}["build"] == DONE


def test_settings_say_how_an_agent_is_driven(shop: Tree) -> None:
    folder = shop.agent("dev", driver="folder")
    (folder / "work.py").write_text("print('done')\n", encoding="utf-8")
    text = f'[agents.dev]\ndriver = "script"\nargv = ["{sys.executable}", "work.py"]\n'
    (shop.root / "agenttalk.toml").write_text(text, encoding="utf-8")
    shop.command("lead", "build")
    with engine(shop.root, quick=True):
        until(lambda: state(shop.root) == DONE, "the task is completed")


def test_an_agent_that_joins_later_is_driven_too(shop: Tree) -> None:
    with engine(shop.root, quick=True):
        shop.command("lead", "build")
        until(lambda: shop.inbox("dev"), "the command is delivered")
        programmed(shop, "dev", "print('done')\n")
        client(shop.root).post("/api/passes", {"part": "heartbeat", "agent": "dev"})
        assert state(shop.root) == DONE


def test_wrong_settings_are_told_before_anything_is_started(tree: Tree) -> None:
    (tree.root / "agenttalk.toml").write_text("[server]\nprot = 1\n", encoding="utf-8")
    done = agenttalk("serve", "--root", str(tree.root))
    assert done.returncode == 2
    assert "did you mean 'port'?" in done.stderr
    (tree.root / "agenttalk.toml").write_text('[server]\nhost = "0.0.0.0"\n', encoding="utf-8")
    done = agenttalk("serve", "--root", str(tree.root))
    assert (done.returncode, "server.public" in done.stderr) == (2, True)
    assert not (tree.root / "data/engine.json").exists()


def test_a_port_that_is_taken_is_told(tree: Tree) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = agenttalk("serve", "--root", str(tree.root), "--port", str(taken.getsockname()[1]))
    assert (done.returncode, "ENGINE_UNREACHABLE" in done.stderr) == (1, True)


def test_the_operators_token_lies_outside_of_the_root_for_its_owner_alone(tree: Tree, operator_folders: Path) -> None:
    with engine(tree.root, quick=True):
        [path] = operator_folders.glob("*/operator.token")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        token = path.read_bytes().strip()
        files = [each for each in tree.root.rglob("*") if each.is_file()]
        assert [each for each in files if token in each.read_bytes()] == []
        before = token
    with engine(tree.root, quick=True):
        assert path.read_bytes().strip() == before
        path.write_text("op_guessed\n", encoding="ascii")
        with pytest.raises(UsageError) as caught:
            client(tree.root).get("/api/status")
        assert caught.value.code is Code.TOKEN_REFUSED
        path.unlink()
        with pytest.raises(UsageError, match="no token"):
            engine_client.connect_to_running_engine(tree.root)


SHOWS = """
import json, os, pathlib
shown = {name: value for name, value in os.environ.items() if name != "AGENTTALK_TOKEN"}  # its own would be refused
text = json.dumps(shown) + pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_text()
pathlib.Path(os.environ["AGENTTALK_OUTPUTS"], "app.txt").write_text(text)
"""


def test_the_operators_token_is_told_to_nobody(shop: Tree, operator_folders: Path) -> None:
    programmed(shop, "dev", SHOWS)
    with engine(shop.root) as serving:
        [path] = operator_folders.glob("*/operator.token")
        token = path.read_text().strip()
        shop.command("lead", "build")
        until(lambda: state(shop.root) == DONE, "the task is completed")
        until(lambda: shop.inbox("tester"), "what the program saw is delivered")
        agenttalk("status", "--root", str(shop.root))
        with pytest.raises(UsageError):
            client(shop.root).get("/api/nothing")
        process = Path(f"/proc/{serving.process.pid}")
        seen = (process / "cmdline").read_text() + (process / "environ").read_text()
        files = [each for each in shop.root.rglob("*") if each.is_file()]
        assert [each for each in files if token.encode() in each.read_bytes()] == []
        assert serving.ended(signal.SIGTERM) == 0
        out, err = serving.process.communicate(timeout=300)
    assert token not in seen + out + err + json.dumps(serving.told)


def test_what_an_engine_tells_of_itself_can_be_changed_by_its_owner_alone(tree: Tree) -> None:
    with engine(tree.root) as serving:
        told = tree.root / "data/engine.json"
        assert set(json.loads(told.read_bytes())) == {"pid", "http", "socket", "started"}
        assert stat.S_IMODE(told.stat().st_mode) & 0o022 == 0
        path = Path(serving.told["socket"])
        assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]


@pytest.mark.parametrize("left", [b"", b"{", b"[]", b'{"pid": "x", "http": 1, "socket": [], "started": {}}'])
def test_what_lies_there_as_engine_json_hinders_nobody(tree: Tree, left: bytes) -> None:
    told = tree.root / "data/engine.json"
    told.parent.mkdir()
    told.write_bytes(left)
    assert engine_client.connect_to_running_engine(tree.root) is None
    assert call(["status", "--root", str(tree.root)]) == 0


@pytest.mark.rest
def test_errors_of_an_engine_come_out_as_ours(tree: Tree) -> None:
    with engine(tree.root) as serving:
        asked = client(tree.root)
        with pytest.raises(UsageError) as unknown:
            asked.get("/api/human-requests/none")
        assert unknown.value.code is Code.NAME_UNKNOWN
        with pytest.raises(ContractError) as wrong:
            asked.post("/api/passes", {"prt": 1})
        assert [problem.code for problem in wrong.value.problems] == [Code.FIELD_UNKNOWN, Code.FIELD_MISSING]
        serving.ended(signal.SIGKILL)
        with pytest.raises(MachineError) as gone:
            asked.get("/api/status")
        assert (gone.value.code, gone.value.retriable) == (Code.ENGINE_UNREACHABLE, True)


@pytest.mark.rest
def test_the_address_serves_where_the_socket_does_not(tree: Tree) -> None:
    with engine(tree.root) as serving:
        Path(serving.told["socket"]).unlink()
        assert client(tree.root).get("/api/status")["plans"] is not None
        told: Any = json.loads((tree.root / "data/engine.json").read_bytes())
        assert (told["pid"], told["http"]) == (serving.process.pid, serving.told["http"])
    nowhere = engine_client.EngineClient(RunningEngine(os.getpid(), None, None), "x")
    with pytest.raises(MachineError):
        nowhere.get("/api/status")


@pytest.mark.rest
def test_an_engine_that_is_stopped_while_it_starts_leaves_nothing(tree: Tree) -> None:
    process = started(tree.root)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=300)
    assert not (tree.root / "data/engine.json").exists()
    with engine(tree.root) as serving:
        assert serving.ended(signal.SIGTERM) == 0
