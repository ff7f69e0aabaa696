"""Objects that are read and written without a git for each say what git says, and survive a git that dies."""

from __future__ import annotations

import os
import random
import resource
import signal
import stat
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import NOW, git, opened, repository
from agenttalk.adapters.workspaces import tree_reader
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.adapters.workspaces.tree_reader import FileStatus, FolderRecord, TreeEntry
from agenttalk.contracts.errors import MachineError
from effort import cases

NAMES = ("a", "b", "a.b", "a-b", "a b", "é", "z")


@pytest.fixture
def objects(tmp_path: Path) -> GitObjects:
    return opened(repository(tmp_path / "shop"))._objects


def random_path(chance: random.Random) -> str:
    return "/".join(chance.choice(NAMES) for _ in range(chance.randint(1, 3)))


@pytest.mark.random
def test_trees_that_are_altered_differ_and_are_listed_as_git_says(objects: GitObjects, tmp_path: Path) -> None:
    chance = random.Random(7)
    objects.write_blobs([b"one", b"two", b"three"])
    blobs = [objects.blob_id(data) for data in (b"one", b"two", b"three")]
    tree, index = objects.empty_tree(), tmp_path / "index"
    for _ in range(cases(60)):
        changes = {
            random_path(chance): TreeEntry(chance.choice(("100644", "100755", "120000")), chance.choice(blobs))
            if chance.random() < 0.7
            else None
            for _ in range(chance.randint(1, 4))
        }
        paths = sorted(changes)
        if any(other.startswith(f"{path}/") for path in paths for other in paths):
            continue  # what comes last would count, and nobody asks for that
        index.unlink(missing_ok=True)
        objects.call("read-tree", tree, index=index)
        lines = [
            f"{item.mode} {item.oid}\t{path}\0" if item else f"0 {'0' * 40}\t{path}\0" for path, item in changes.items()
        ]
        objects.call("update-index", "-z", "--index-info", index=index, stdin="".join(lines).encode())
        expected = objects.call("write-tree", index=index).line
        altered = objects.alter_tree(tree, changes)
        assert altered == expected, changes
        raw = objects.call("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", tree, altered).out
        fields = raw.split(b"\0")[:-1]
        assert [os.fsencode(change.path) for change in objects.changes(tree, altered)] == fields[1::2]
        for meta, change in zip(fields[::2], objects.changes(tree, altered), strict=True):
            before, after, old, new, _ = meta.decode().removeprefix(":").split(" ")
            assert change.before == (None if before == "000000" else TreeEntry(before, old))
            assert change.after == (None if after == "000000" else TreeEntry(after, new))
        listed = objects.call("ls-tree", "-r", "-z", "--full-tree", altered).out.decode().split("\0")[:-1]
        items = {path: TreeEntry(*meta.split(" ")[::2]) for meta, path in (line.split("\t") for line in listed)}
        assert objects.listing(altered) == items == objects.reader.list_files(altered)
        tree = altered


def test_commits_are_written_as_git_reads_them(objects: GitObjects, tmp_path: Path) -> None:
    repo = tmp_path / "shop"
    tip = objects.refs.resolve("HEAD")
    assert tip
    message = "Grüße\n\nAgentTalk-Plan: shop\nAgentTalk-Task: one\n"
    commit = objects.commit(tip, [tip], message, NOW, ("Ada <x>\n", "ada@example.org"))
    assert (
        git(repo, "show", "-s", "--format=%an|%ae|%cn|%s|%P", commit) == f"Ada x|ada@example.org|AgentTalk|Grüße|{tip}"
    )
    assert objects.reader.commit(commit).trailers == {"AgentTalk-Plan": "shop", "AgentTalk-Task": "one"}
    assert git(repo, "fsck", "--strict", "--no-dangling") == ""
    path = repo / ".git" / "objects" / commit[:2] / commit[2:]
    assert stat.S_IMODE(path.stat().st_mode) & 0o222 == 0


def test_a_git_that_was_killed_is_started_again(objects: GitObjects) -> None:
    tip = objects.refs.resolve("HEAD")
    assert tip
    for dialogue in (objects.refs._names, objects.reader._dialogue):
        assert dialogue.ask(tip)
        assert dialogue._process is not None
        os.kill(dialogue._process.pid, signal.SIGKILL)
        assert dialogue.ask(tip)
    updates = objects.refs._updates
    for name in ("one", "two", "three"):
        objects.refs.set(f"refs/agenttalk/shop/{name}", tip)
        assert objects.refs.resolve(f"refs/agenttalk/shop/{name}") == tip
        assert (updates._process is None) == (name == "two")
        if updates._process is not None:
            os.kill(updates._process.pid, signal.SIGKILL)


def test_refs_that_git_refuses_are_told_and_none_of_their_group_is_set(objects: GitObjects) -> None:
    tip = objects.refs.resolve("HEAD")
    assert tip
    good, bad = "refs/agenttalk/shop/good", "refs/agenttalk/shop/bad..name"
    for refs in ({good: tip, bad: tip}, {good: "0123456789" * 4}):
        with pytest.raises(MachineError, match="update-ref failed"):
            objects.refs.set_all(refs)
        assert objects.refs.resolve(good) is None
    objects.refs.set_all({good: tip, "refs/agenttalk/shop/more": tip})
    assert objects.refs.resolve(good) == objects.refs.resolve("refs/agenttalk/shop/more") == tip


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_an_index_is_read_as_git_wrote_it(tmp_path: Path, algorithm: str) -> None:
    names = [
        "a",
        "ab/c",
        "x" * 200,
        "/".join(["deep" * 20] * 12),
        "é",
        "run",
        b"raw\xff".decode(errors="surrogateescape"),
    ]
    files = {name: f"{name!r}\n" for name in names}
    repo = repository(tmp_path / "shop", files, f"--object-format={algorithm}")
    (repo / "run").chmod(0o755)
    (repo / "link").symlink_to("a")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "more")
    objects = opened(repo)._objects
    tip = objects.refs.resolve("HEAD")
    assert tip
    top = tmp_path / "top"
    top.mkdir()
    objects.checkout(tip, top, tmp_path / "index")
    os.utime(tmp_path / "index", ns=(0, (top / "a").stat().st_ctime_ns + 10**9))
    record = FolderRecord.read(tmp_path / "index", algorithm)
    assert {name: oid for name, (oid, _) in record.files.items()} == {
        name: item.oid for name, item in objects.listing(tip).items()
    }
    for name in (*files, "link"):
        seen = (top / name).lstat()
        assert record.find_known(name, seen) == objects.listing(tip)[name].oid
    (top / "a").chmod(0o600)
    assert record.find_known("a", (top / "a").lstat()) is None
    packed = tree_reader.pack_index(objects.listing(tip), algorithm)
    (tmp_path / "packed").write_bytes(packed)
    wanted = ("ls-files", "--stage", "-z")
    assert objects.call(*wanted, index=tmp_path / "packed").out == objects.call(*wanted, index=tmp_path / "index").out
    assert objects.call("write-tree", index=tmp_path / "packed").line == objects.tree_of(tip)


def test_names_that_are_no_names_and_objects_that_are_missing_are_told(objects: GitObjects) -> None:
    assert objects.refs.resolve("HEAD\nHEAD") is None
    assert objects.refs.resolve("") is None
    assert objects.refs.resolve("-x") is None
    assert objects.refs.resolve("nothing") is None
    assert objects.refs.resolve("HEAD") is not None  # nothing of the answers before is left
    with pytest.raises(MachineError, match="cannot be read"):
        objects.reader.commit("0" * 40)
    tip = objects.refs.resolve("HEAD")
    assert tip
    with pytest.raises(MachineError, match="cannot be read"):
        objects.parent_of(objects.tree_of(tip))


def test_a_branch_that_somebody_else_moves_is_seen_at_once(objects: GitObjects, tmp_path: Path) -> None:
    repo = tmp_path / "shop"
    assert objects.refs.resolve("refs/heads/other") is None
    git(repo, "branch", "other")
    first = objects.refs.resolve("refs/heads/other")
    git(repo, "pack-refs", "--all")
    assert objects.refs.resolve("refs/heads/other") == first
    git(repo, "commit", "-q", "--allow-empty", "-m", "more")
    git(repo, "branch", "-f", "other")
    assert objects.refs.resolve("refs/heads/other") == git(repo, "rev-parse", "other") != first
    git(repo, "branch", "-D", "other")
    assert objects.refs.resolve("refs/heads/other") is None


def test_nothing_is_made_where_a_repository_was_that_has_been_moved_away(objects: GitObjects, tmp_path: Path) -> None:
    tip = objects.refs.resolve("HEAD")
    assert tip
    for name in ("refs/agenttalk/shop/one", "refs/agenttalk/shop/two", "refs/agenttalk/shop/three"):
        objects.refs.set(name, tip)  # from the second on, a git stays open
    repo, away = tmp_path / "shop", tmp_path / "away"
    repo.rename(away)
    with pytest.raises(MachineError):
        objects.refs.set("refs/agenttalk/shop/four", tip)
    assert not repo.exists()
    away.rename(repo)
    objects.refs.set("refs/agenttalk/shop/four", tip)
    assert objects.refs.resolve("refs/agenttalk/shop/four") == tip


def test_an_object_that_is_there_becomes_new_so_that_git_does_not_delete_it(objects: GitObjects) -> None:
    """What no ref names yet is deleted by `git gc` when it is old."""
    tree = objects.empty_tree()
    path = objects.store / tree[:2] / tree[2:]
    os.utime(path, (0, 0))
    objects.empty_tree()
    assert path.stat().st_mtime > 0


def test_a_folder_for_objects_has_the_rights_of_a_repository_that_a_group_shares(objects: GitObjects) -> None:
    objects.store.chmod(0o2775)
    before = {path.name for path in objects.store.iterdir()}
    objects.write_blobs([f"{number}\n".encode() for number in range(20)])
    made = [path for path in objects.store.iterdir() if path.name not in before]
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o2775}


def test_a_missing_content_among_many_is_told(objects: GitObjects) -> None:
    known = objects.blob_id(b"x")
    objects.write_blobs([b"x"])
    with pytest.raises(MachineError, match="missing"):
        list(objects.contents([*[known] * 60, "0" * len(known)]))


def test_a_file_that_may_have_changed_in_the_tick_of_its_record_is_not_trusted(tmp_path: Path) -> None:
    """Its times would be the same then."""
    (tmp_path / "file").write_text("x")
    status = (tmp_path / "file").stat()
    files = {"file": ("oid", FileStatus.from_stat(status))}
    assert FolderRecord(status.st_ctime_ns, files).find_known("file", status) is None
    assert FolderRecord(status.st_ctime_ns + 1, files).find_known("file", status) == "oid"


def test_an_object_that_does_not_fit_leaves_nothing(objects: GitObjects) -> None:
    """A limit on the size of files stands for a disk that is full."""
    before = sorted(objects.store.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    data = random.Random(1).randbytes(100_000)
    (objects.store / objects.blob_id(data)[:2]).mkdir()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            objects.write_blobs([data])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path for path in objects.store.rglob("*") if path.is_file() and path not in before] == []
