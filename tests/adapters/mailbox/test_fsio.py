"""Reading, writing and moving files through an open folder, in both ways of reaching them."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from agenttalk.adapters.mailbox import syscalls
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.errors import AgentTalkError, Code, InputError, MachineError
from agenttalk.ports.folders import Digest

BAD_NAMES = [os.fsdecode(b"caf\xe9\xff.msg.json"), "two\nlines", " ", "-rf", "*", "\\", "~", "🌍" * 60]


@pytest.fixture(params=["native", "portable"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SafeFolder]:
    ways = syscalls.find_native_calls() if request.param == "native" else syscalls.PORTABLE
    with SafeFolder.open(tmp_path, ways=ways) as opened:
        yield opened


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another file system."""
    memory = Path("/dev/shm")
    if not memory.is_dir() or memory.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("there is no second file system at /dev/shm")
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path)


def names(folder: SafeFolder) -> set[str]:
    return set(folder.names())


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def test_the_kernel_walks_where_it_can() -> None:
    """Otherwise the tests of both ways would be the same tests twice."""
    if os.uname().sysname != "Linux":
        pytest.skip("openat2 is Linux's")
    assert syscalls.find_native_calls() != syscalls.PORTABLE


def test_what_is_written_is_read_back(folder: SafeFolder) -> None:
    folder.write("a.json", b"1")
    folder.write("a.json", b"22")
    folder.write("deep/er/b.json", b"", parents=True)
    assert folder.read("a.json", 2) == b"22"
    assert folder.read("deep/er/b.json", 0) == b""
    assert names(folder) == {"a.json", "deep"}
    assert list(folder.path.glob("**/*.tmp")) == []


def test_a_file_gets_the_mode_that_is_asked_for(folder: SafeFolder) -> None:
    before = os.umask(0)
    try:
        folder.write("public", b"", mode=0o644)
        folder.write("private", b"")
    finally:
        os.umask(before)
    assert [(folder.path / name).stat().st_mode & 0o777 for name in ("public", "private")] == [0o644, 0o600]


def test_a_synced_file_is_like_any_other(folder: SafeFolder) -> None:
    folder.write("a", b"1", sync=True)
    assert (names(folder), folder.read("a", 1)) == ({"a"}, b"1")


def test_parents_are_made_only_on_request(folder: SafeFolder) -> None:
    with pytest.raises(MachineError) as caught:
        folder.write("deep/a", b"1")
    assert caught.value.code is Code.FILE_UNWRITABLE
    assert "deep/a" in caught.value.message
    assert caught.value.hint
    assert names(folder) == set()


def test_a_scan_describes_everything_and_follows_nothing(folder: SafeFolder) -> None:
    folder.write(".hidden", b"123")
    folder.make_folder("folder")
    (folder.path / "link").symlink_to("/etc")
    os.mkfifo(folder.path / "fifo")
    found = {entry.name: entry for entry in folder.scan()}
    assert {name: entry.kind for name, entry in found.items()} == {
        ".hidden": "regular",
        "folder": "folder",
        "link": "other",
        "fifo": "other",
    }
    status = (folder.path / ".hidden").stat()
    assert found[".hidden"][2:] == (3, status.st_ino, status.st_mtime_ns, 1, status.st_ctime_ns)


def test_two_scans_at_once_do_not_disturb_each_other(folder: SafeFolder) -> None:
    for number in range(500):
        folder.write(f"{number}", b"")
    first, second = folder.scan(), folder.names()
    assert next(first).name == next(second)
    assert (len(list(first)), len(list(second)), len(list(folder.names()))) == (499, 499, 500)


@pytest.mark.parametrize("name", BAD_NAMES)
def test_strange_names_are_read_moved_and_removed_like_others(folder: SafeFolder, name: str) -> None:
    (folder.path / name).write_bytes(b"x")
    folder.make_folder(".deadletter")
    (entry,) = [each for each in folder.scan() if each.kind == "regular"]
    assert entry.name == name
    assert entry.is_text is (name != BAD_NAMES[0])
    assert folder.exists(name)
    assert folder.read(name, 1) == b"x"
    assert folder.digest(name, 1) == Digest(sha256(b"x"), 1)
    folder.write(name, b"y")
    assert folder.move(name, folder, f".deadletter/{name}")
    with folder.open_folder(".deadletter") as deadletter:
        assert names(deadletter) == {name}
        assert deadletter.remove(name)
    folder.open_folder(name, create=True).close()
    assert folder.remove(name)


def test_an_error_about_a_strange_name_stays_on_its_line_and_can_be_printed(folder: SafeFolder) -> None:
    for name in BAD_NAMES[:2]:
        with pytest.raises(AgentTalkError) as caught:
            folder.read(name, 1)
        assert "\n" not in str(caught.value)
        assert str(caught.value).encode()


def test_a_digest_is_hash_and_size_of_a_file(folder: SafeFolder) -> None:
    data = os.urandom(1_000_000)
    folder.make_folder("b")
    folder.write("b/c", data)
    assert folder.digest("b/c", len(data)) == Digest(sha256(data), len(data))


def test_a_file_over_the_limit_is_refused_and_a_retry_cannot_help(folder: SafeFolder) -> None:
    folder.write("a", b"12345")
    assert folder.read("a", 5) == b"12345"
    for call in (folder.read, folder.digest):
        with pytest.raises(InputError) as caught:
            call("a", 4)
        assert caught.value.code is Code.FILE_TOO_LARGE
        assert not caught.value.retriable


def test_a_move_takes_the_file_along(folder: SafeFolder) -> None:
    folder.write("a", b"1")
    folder.make_folder("b")
    inode = (folder.path / "a").stat().st_ino
    with folder.open_folder("b") as below:
        assert folder.move("a", below, "c")
        assert below.move("c", folder, "d")
    assert (folder.path / "d").stat().st_ino == inode
    assert names(folder) == {"b", "d"}


def test_a_move_never_replaces_unless_asked(folder: SafeFolder) -> None:
    folder.write("a", b"new")
    folder.write("b", b"old")
    assert folder.move("a", folder, "b") is False
    assert (folder.read("a", 3), folder.read("b", 3)) == (b"new", b"old")
    assert folder.move("a", folder, "b", replace=True) is True
    assert (names(folder), folder.read("b", 3)) == ({"b"}, b"new")


def test_a_dangling_symlink_at_the_target_is_not_replaced_either(folder: SafeFolder) -> None:
    folder.write("a", b"1")
    (folder.path / "b").symlink_to("nowhere")
    assert folder.exists("b")
    assert folder.move("a", folder, "b") is False


def test_a_move_of_nothing_names_the_source_whether_the_target_exists_or_not(folder: SafeFolder) -> None:
    folder.write("there", b"")
    for target in ("free", "there"):
        with pytest.raises(MachineError) as caught:
            folder.move("missing", folder, target)
        assert caught.value.code is Code.FILE_UNREADABLE
        assert "missing" in caught.value.message


def test_only_one_of_many_movers_gets_the_file(folder: SafeFolder) -> None:
    """The claim of a message: whoever moves it has it."""
    movers = 4
    for number in range(100):
        folder.write("a", b"1")
        won: list[str] = []

        def claim(target: str, won: list[str] = won) -> None:
            try:
                if folder.move("a", folder, target):
                    won.append(target)
            except MachineError:
                pass

        threads = [Thread(target=claim, args=(f"{number}-{mover}",)) for mover in range(movers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
    assert len(names(folder)) == 100


def test_of_two_files_moved_to_one_name_none_is_lost(tmp_path: Path) -> None:
    """Needs renameat2; the portable way looks before it renames."""
    with SafeFolder.open(tmp_path) as folder:
        if folder.ways.rename_new is syscalls.PORTABLE.rename_new:
            pytest.skip("this system has no renameat2")
        for _ in range(200):
            folder.write("a", b"")
            folder.write("b", b"")
            won: list[bool] = []

            def move(name: str, won: list[bool] = won) -> None:
                won.append(folder.move(name, folder, "c"))

            threads = [Thread(target=move, args=(name,)) for name in "ab"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(won) == [False, True]
            folder.remove("c")


def test_a_move_to_another_file_system_copies_and_removes(folder: SafeFolder, elsewhere: Path) -> None:
    folder.write("a", b"new", mode=0o600)
    with SafeFolder.open(elsewhere, ways=folder.ways) as other:
        other.write("taken", b"old")
        assert folder.move("a", other, "taken") is False
        assert (names(folder), names(other)) == ({"a"}, {"taken"})
        assert folder.move("a", other, "b") is True
        assert (names(folder), names(other), other.read("b", 3)) == (set(), {"taken", "b"}, b"new")
        assert other.move("b", folder, "c", replace=True)
    assert (folder.path / "c").stat().st_mode & 0o777 == 0o600


def test_what_is_no_plain_file_stays_on_its_file_system(folder: SafeFolder, elsewhere: Path) -> None:
    (folder.path / "link").symlink_to("/etc/passwd")
    with SafeFolder.open(elsewhere) as other:
        with pytest.raises(InputError) as caught:
            folder.move("link", other, "link")
        assert caught.value.code is Code.FILE_UNSAFE
        assert (names(folder), names(other)) == ({"link"}, set())


def test_removing_tells_whether_there_was_something(folder: SafeFolder) -> None:
    folder.write("a", b"")
    folder.make_folder("b/c")
    assert [folder.remove(name) for name in ("a", "a", "b/c", "b", "b/c")] == [True, False, True, True, False]


def test_a_folder_that_holds_something_is_not_removed(folder: SafeFolder) -> None:
    folder.write("b/c", b"", parents=True)
    with pytest.raises(MachineError) as caught:
        folder.remove("b")
    assert caught.value.code is Code.FILE_UNWRITABLE
    assert "first" in caught.value.hint


def test_a_folder_in_the_way_of_a_file_is_told(folder: SafeFolder) -> None:
    folder.make_folder("a")
    with pytest.raises(MachineError) as caught:
        folder.write("a", b"")
    assert caught.value.code is Code.FILE_UNWRITABLE
    assert "out of the way" in caught.value.hint
    assert names(folder) == {"a"}


def test_making_a_folder_twice_is_fine(folder: SafeFolder) -> None:
    folder.make_folder("a/b")
    folder.make_folder("a/b")
    assert folder.exists("a/b")
    assert not folder.exists("a/c")
    assert not folder.exists("b/c")


def test_what_is_missing_is_told_with_its_path_and_can_be_tried_again(folder: SafeFolder) -> None:
    for call in (
        lambda: folder.read("a/b", 1),
        lambda: folder.open_folder("a/b"),
        lambda: SafeFolder.open(folder.path / "a/b"),
    ):
        with pytest.raises(MachineError) as caught:
            call()
        assert caught.value.code is Code.FILE_UNREADABLE
        assert "a/b" in caught.value.message
        assert caught.value.retriable


def test_a_closed_folder_refuses_everything_and_may_be_closed_again(folder: SafeFolder) -> None:
    folder.write("a", b"1")
    folder.close()
    folder.close()
    for call in (lambda: folder.read("a", 1), lambda: folder.write("a", b""), lambda: list(folder.names())):
        with pytest.raises(MachineError):
            call()


def test_a_folder_that_was_renamed_is_still_the_same_folder(folder: SafeFolder) -> None:
    with folder.open_folder("a", create=True) as below:
        folder.move("a", folder, "b")
        below.write("c", b"1")
    assert folder.read("b/c", 1) == b"1"


def test_no_descriptor_is_left_open(folder: SafeFolder) -> None:
    own = Path("/proc/self/fd")
    if not own.is_dir():
        pytest.skip("there is no /proc to count descriptors in")
    folder.write("a/b", b"1", parents=True)
    os.mkfifo(folder.path / "fifo")
    before = len(list(own.iterdir()))
    for _ in range(20):
        folder.read("a/b", 1)
        folder.digest("a/b", 1)
        next(folder.names())
        for hopeless in ("fifo", "missing", "a", "a/b/c"):
            with pytest.raises(AgentTalkError):
                folder.read(hopeless, 1)
    assert len(list(own.iterdir())) == before


def test_an_atomic_write_is_never_seen_half(folder: SafeFolder) -> None:
    contents = (b"a" * 300_000, b"b" * 500_000)
    folder.write("a", contents[0])

    def keep_writing() -> None:
        for number in range(300):
            folder.write("a", contents[number % 2])

    writer = Thread(target=keep_writing)
    writer.start()
    seen = [folder.read("a", 500_000) in contents for _ in range(300)]
    writer.join()
    assert all(seen)
    assert names(folder) == {"a"}
