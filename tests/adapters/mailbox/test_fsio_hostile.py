"""Folders whose owner wants to mislead us, and machines that will not do what they should."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from agenttalk.adapters.mailbox import syscalls
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError
from effort import cases

TRIES = min(100_000, cases(20_000))
SECRET = b"outside"
LIMIT = 1000

# Each runs until it is ended, or until its parent is gone. Arguments: the agent's folder, the outside folder.
SWAP_A_FOLDER = """
import os, sys
inside, outside = sys.argv[1:]
parent = os.getppid()
os.chdir(inside)
os.symlink(outside, "trap")
print("ready", flush=True)
while os.getppid() == parent:
    os.rename("door", "held")
    os.rename("trap", "door")
    os.rename("door", "trap")
    os.rename("held", "door")
"""
EXCHANGE_A_FOLDER = """
import ctypes, os, sys
inside, outside = sys.argv[1:]
parent = os.getppid()
os.chdir(inside)
os.symlink(outside, "trap")
here, exchange = -100, 2
rename = ctypes.CDLL(None).renameat2
print("ready", flush=True)
while os.getppid() == parent:
    assert rename(here, b"door", here, b"trap", exchange) == 0
"""
LINK_FOR_A_MOMENT = """
import os, sys
inside, outside = sys.argv[1:]
parent = os.getppid()
os.chdir(inside)
print("ready", flush=True)
while os.getppid() == parent:
    os.link(outside + "/file", "bait")
    os.unlink("bait")
"""


@pytest.fixture(params=["native", "portable"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SafeFolder]:
    ways = syscalls.find_native_calls() if request.param == "native" else syscalls.PORTABLE
    (tmp_path / "inside").mkdir()
    with SafeFolder.open(tmp_path / "inside", ways=ways) as opened:
        yield opened


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    (path / "deep").mkdir(parents=True)
    (path / "file").write_bytes(SECRET)
    (path / "deep/file").write_bytes(SECRET)
    return path


def untouched(outside: Path) -> bool:
    files = {str(path.relative_to(outside)): path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    return files == {"file": SECRET, "deep/file": SECRET}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "disk"
    path.mkdir()
    mount("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path))
    yield path
    subprocess.run(["umount", path], check=True, timeout=600)


def mount(*arguments: str) -> None:
    try:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, timeout=600, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@contextmanager
def running(program: str, *arguments: Path) -> Iterator[None]:
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=pipe, stderr=pipe)
    try:
        assert child.stdout
        child.stdout.readline()
        yield
        assert child.poll() is None, child.communicate()[1]  # without it the race was none
    finally:
        child.kill()
        child.communicate(timeout=300)


def refusal(call: Callable[[], object]) -> Code:
    with pytest.raises(InputError) as caught:
        call()
    assert caught.value.hint
    assert not caught.value.retriable
    return caught.value.code


def every_way_to_reach(folder: SafeFolder, relative: str) -> list[Callable[[], object]]:
    return [
        lambda: folder.read(relative, LIMIT),
        lambda: folder.digest(relative, LIMIT),
        lambda: folder.open_folder(relative),
        lambda: folder.open_folder(relative, create=True),
        lambda: folder.make_folder(relative),
        lambda: folder.write(relative, b"bad"),
        lambda: folder.write(relative, b"bad", parents=True),
        lambda: folder.move(relative, folder, "moved"),
        lambda: folder.move("plain", folder, relative, replace=True),
        lambda: folder.remove(relative),
        lambda: folder.exists(relative),
    ]


# --- Paths ---

PATHS = ["", ".", "..", "../outside/file", "a/../../outside/file", "a/./b", "a//b", "/etc/passwd", "a/", "/", "a\0b"]


@pytest.mark.parametrize("relative", [*PATHS, "\ud800", "x" * 256, "x/" * 2048 + "x"], ids=range(len(PATHS) + 3))
def test_a_path_that_could_lead_out_is_refused_before_the_system_sees_it(
    folder: SafeFolder, outside: Path, relative: str
) -> None:
    folder.write("plain", b"1")
    for call in every_way_to_reach(folder, relative):
        assert refusal(call) is Code.PATH_OUTSIDE_FOLDER
    assert untouched(outside)
    assert set(folder.names()) == {"plain"}


@pytest.mark.parametrize("relative", ["door/file", "door/deep/file"])
def test_a_symlink_on_the_way_is_refused_by_everything(folder: SafeFolder, outside: Path, relative: str) -> None:
    folder.write("plain", b"1")
    (folder.path / "door").symlink_to(outside)
    for call in every_way_to_reach(folder, relative):
        assert refusal(call) is Code.FILE_UNSAFE
    assert untouched(outside)
    assert set(folder.names()) == {"plain", "door"}


def test_a_symlink_to_a_sibling_is_refused_too(folder: SafeFolder) -> None:
    folder.write("real/file", b"1", parents=True)
    (folder.path / "door").symlink_to("real")
    (folder.path / "link").symlink_to("real/file")
    for call in (
        lambda: folder.read("door/file", LIMIT),
        lambda: folder.read("link", LIMIT),
        lambda: folder.open_folder("door"),
    ):
        assert refusal(call) is Code.FILE_UNSAFE


def test_writing_onto_a_symlink_replaces_the_link_and_not_what_it_points_to(folder: SafeFolder, outside: Path) -> None:
    (folder.path / "link").symlink_to(outside / "file")
    folder.write("link", b"mine")
    assert untouched(outside)
    assert folder.read("link", LIMIT) == b"mine"


def test_moving_and_removing_take_the_symlink_itself(folder: SafeFolder, outside: Path) -> None:
    (folder.path / "link").symlink_to(outside)
    assert folder.move("link", folder, "moved")
    assert (folder.path / "moved").is_symlink()
    assert folder.remove("moved")
    assert untouched(outside)


def test_a_file_in_the_place_of_a_folder_is_refused(folder: SafeFolder) -> None:
    folder.write("file", b"1")
    for call in (
        lambda: folder.read("file/x", 1),
        lambda: folder.open_folder("file"),
        lambda: folder.make_folder("file"),
    ):
        assert refusal(call) is Code.FILE_UNSAFE


# --- Things that are no plain files ---


def plant_symlink(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "file")


def plant_dangling_symlink(path: Path, outside: Path) -> None:
    path.symlink_to(outside / "nothing")


def plant_magic_link(path: Path, outside: Path) -> None:  # noqa: ARG001 - called like the others
    path.symlink_to("/proc/self/environ")


def plant_hard_link(path: Path, outside: Path) -> None:
    path.hardlink_to(outside / "file")


def plant_fifo(path: Path, outside: Path) -> None:  # noqa: ARG001
    os.mkfifo(path)


def plant_folder(path: Path, outside: Path) -> None:  # noqa: ARG001
    path.mkdir()


def plant_socket(path: Path, outside: Path) -> None:  # noqa: ARG001
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def plant_device(path: Path, outside: Path) -> None:  # noqa: ARG001
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root may make a device")


@pytest.mark.parametrize(
    "plant",
    [
        plant_symlink,
        plant_dangling_symlink,
        plant_magic_link,
        plant_hard_link,
        plant_fifo,
        plant_folder,
        plant_socket,
        plant_device,
    ],
)
def test_what_is_no_plain_file_is_not_read_but_can_be_put_away(
    folder: SafeFolder, outside: Path, plant: Callable[[Path, Path], None]
) -> None:
    plant(folder.path / "thing", outside)
    for call in every_way_to_reach(folder, "thing")[:2]:
        assert refusal(call) is Code.FILE_UNSAFE
    assert set(folder.names()) == {"thing"}
    folder.make_folder(".deadletter")
    assert folder.move("thing", folder, ".deadletter/thing")
    assert folder.remove(".deadletter/thing")
    assert untouched(outside)


# --- Size ---


def test_a_sparse_file_of_2_gib_is_refused_by_its_size(folder: SafeFolder) -> None:
    with (folder.path / "huge").open("wb") as file:
        file.truncate(2 * 1024**3)
    for call in every_way_to_reach(folder, "huge")[:2]:
        assert refusal(call) is Code.FILE_TOO_LARGE
    assert set(folder.names()) == {"huge"}


def test_a_file_that_holds_more_than_its_size_says_is_refused(folder: SafeFolder) -> None:
    """Files of /proc say 0 bytes, as if all of it had been added after the look at the size."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("there is no /proc")
    with SafeFolder.open(Path("/proc/self"), ways=folder.ways) as proc:
        assert refusal(lambda: proc.read("status", 10)) is Code.FILE_TOO_LARGE
        assert refusal(lambda: proc.digest("status", 10)) is Code.FILE_TOO_LARGE
    assert set(folder.names()) == set()


def test_a_file_that_grows_while_it_is_read_never_gives_more_than_the_limit(folder: SafeFolder) -> None:
    limit = 2_000_000
    path = folder.path / "log"
    path.write_bytes(b"x" * (limit - 50))

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            for _ in range(2000):
                file.write(b"x")

    writer = Thread(target=grow)
    writer.start()
    sizes: list[int] = []

    def keep_reading() -> None:
        while True:
            sizes.append(len(folder.read("log", limit)))

    assert refusal(keep_reading) is Code.FILE_TOO_LARGE
    writer.join()
    assert all(size <= limit for size in sizes)


# --- Changes under our hands ---


def test_a_file_swapped_after_the_scan_is_judged_anew(folder: SafeFolder, outside: Path) -> None:
    folder.write("file", b"first")
    (entry,) = folder.scan()
    assert (entry.kind, entry.nlink) == ("regular", 1)
    folder.remove("file")
    (folder.path / "file").symlink_to(outside / "file")
    assert refusal(lambda: folder.read(entry.name, LIMIT)) is Code.FILE_UNSAFE


@pytest.mark.random
def test_a_folder_swapped_for_a_symlink_never_gives_anything_from_outside(folder: SafeFolder, outside: Path) -> None:
    folder.write("door/deep/file", b"inside", parents=True)
    seen: set[bytes | Code] = set()
    with running(SWAP_A_FOLDER, folder.path, outside):
        for number in count():
            if number >= TRIES and {b"inside", Code.FILE_UNSAFE} <= seen:  # both states of the swap were met
                break
            try:
                seen.add(folder.read("door/deep/file", LIMIT))
            except AgentTalkError as error:
                seen.add(error.code)
    assert SECRET not in seen


@pytest.mark.random
def test_a_folder_swapped_for_a_symlink_never_lets_anything_out(folder: SafeFolder, outside: Path) -> None:
    if not hasattr(ctypes.CDLL(None), "renameat2"):
        pytest.skip("names cannot be exchanged on this system")
    folder.make_folder("door/deep")
    folder.write("plain", b"1")
    calls: list[Callable[[], object]] = [
        lambda: folder.write("door/deep/new", b"bad"),
        lambda: folder.write("door/deep/new", b"bad", parents=True),
        lambda: folder.remove("door/deep/file"),
    ]
    done, refused = 0, 0
    with running(EXCHANGE_A_FOLDER, folder.path, outside):
        for number in count():
            if min(done, refused) >= (TRIES // 100 if number < TRIES else 1):  # both states of the swap were met
                break
            try:
                calls[number % len(calls)]()
                done += 1
            except InputError:
                refused += 1
    assert untouched(outside)


@pytest.mark.random
def test_a_foreign_file_linked_for_a_moment_is_never_read(folder: SafeFolder, outside: Path) -> None:
    seen: set[bytes | Code] = set()
    with running(LINK_FOR_A_MOMENT, folder.path, outside):
        for number in count():
            if number >= TRIES and Code.FILE_UNSAFE in seen:
                break
            try:
                seen.add(folder.read("bait", LIMIT))
            except AgentTalkError as error:
                seen.add(error.code)
    assert SECRET not in seen


# --- Machines ---


def test_a_full_disk_is_told_with_what_to_do_and_leaves_no_temporary(folder: SafeFolder, small_disk: Path) -> None:
    folder.write("big", b"x" * 200_000)
    with SafeFolder.open(small_disk, ways=folder.ways) as disk:
        disk.write("old", b"old")
        for call in (
            lambda: disk.write("old", b"x" * 200_000),
            lambda: disk.write("new", b"x" * 200_000, sync=True),
            lambda: folder.move("big", disk, "new"),
        ):
            with pytest.raises(MachineError) as caught:
                call()
            assert caught.value.code is Code.FILE_UNWRITABLE
            assert str(small_disk) in caught.value.message
            assert "make room" in caught.value.hint
            assert caught.value.retriable
        assert (set(disk.names()), disk.read("old", LIMIT)) == ({"old"}, b"old")
    assert folder.exists("big")


def test_a_read_only_disk_is_told_with_what_to_do_and_can_still_be_read(folder: SafeFolder, small_disk: Path) -> None:
    (small_disk / "old").write_bytes(b"old")
    mount("-o", "remount,ro", str(small_disk))
    folder.write("plain", b"1")
    with SafeFolder.open(small_disk, ways=folder.ways) as disk:
        for call in (
            lambda: disk.write("new", b"1"),
            lambda: disk.write("a/b", b"1", parents=True),
            lambda: disk.make_folder("a"),
            lambda: disk.remove("old"),
            lambda: disk.move("old", disk, "new"),
        ):
            with pytest.raises(MachineError) as caught:
                call()
            assert caught.value.code is Code.FILE_UNWRITABLE
            assert "writable" in caught.value.hint
        assert (set(disk.names()), disk.read("old", LIMIT)) == ({"old"}, b"old")
