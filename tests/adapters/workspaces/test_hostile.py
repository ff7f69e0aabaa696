"""Trees and clones that were made to mislead."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import (
    FILES,
    NOW,
    attempt,
    begin,
    git,
    merge,
    opened,
    refused,
    repository,
    run,
    state,
    taken,
    tree,
    work,
    write,
)
from agenttalk.adapters.workspaces import folders, names
from agenttalk.adapters.workspaces.results import CandidateConflict
from agenttalk.adapters.workspaces.workspace import PlanWorkspace

WHO = attempt()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


@pytest.fixture
def space(repo: Path) -> PlanWorkspace:
    return opened(repo)


def link(where: Path, target: str) -> None:
    where.parent.mkdir(parents=True, exist_ok=True)
    where.symlink_to(target)


# Trees


@pytest.mark.parametrize(
    "target",
    [
        "/etc/passwd",
        "../outside",
        "src/../../outside",
        "..",
        "up/../outside",  # up leads to src/.. , so this is above the tree
        "deep/../../../../outside",
        ".git/config",
        "./.GIT/config",
        "src/../.git",
        "a-link",
    ],
)
def test_symlinks_that_lead_out_are_refused(space: PlanWorkspace, target: str) -> None:
    clone = begin(space, WHO).path
    link(clone / "up", "src/..")
    link(clone / "deep", "src/inner/dir")
    write(clone, {"src/inner/dir/x": "x\n"})
    link(clone / "a-link", target)
    assert set(refused(space, WHO)) == {"a-link"}


@pytest.mark.parametrize(
    "target", ["README.md", "src", "src/../README.md", "src/nothing", "src/inner/../price.py", "."]
)
def test_symlinks_that_stay_inside_are_taken(space: PlanWorkspace, target: str) -> None:
    clone = begin(space, WHO).path
    link(clone / "a-link", target)
    assert [change.path for change in taken(space, WHO).changes] == ["a-link"]


def test_a_symlink_in_a_circle_is_refused(space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    link(clone / "a", "b")
    link(clone / "b", "a")
    assert set(refused(space, WHO)) == {"a", "b"}


def test_a_symlink_is_never_followed(space: PlanWorkspace, tmp_path: Path) -> None:
    """A folder that became a link elsewhere: its files are not read from there."""
    write(tmp_path / "elsewhere", {"price.py": "secret\n"})
    clone = begin(space, WHO).path
    shutil.rmtree(clone / "src")
    link(clone / "src", str(tmp_path / "elsewhere"))
    assert refused(space, WHO) == {"src": "it is a symlink that leads out of the tree"}


def test_a_link_of_the_user_s_that_leads_out_is_the_user_s(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    link(repo / "own", "/etc/hosts")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "links")
    space = opened(repo)
    assert [change.path for change in work(space, WHO, {"a.txt": "a\n"}).changes] == ["a.txt"]
    clone = begin(space, WHO).path
    (clone / "own").unlink()
    link(clone / "own", "/etc/passwd")
    assert set(refused(space, WHO)) == {"own"}


def test_an_unchanged_link_that_comes_to_lead_out_is_refused(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    link(repo / "fine", "d/e/../../README.md")
    write(repo, {"d/e/f": "f\n", "x/y": "y\n"})
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "links")
    space = opened(repo)
    clone = begin(space, WHO).path
    shutil.rmtree(clone / "d")
    link(clone / "d", "x")
    link(clone / "x" / "e", "..")  # fine → x/../../../README.md
    assert set(refused(space, WHO)) == {"fine"}


def test_special_files_are_refused_without_waiting(space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    os.mkfifo(clone / "pipe")
    with socket.socket(socket.AF_UNIX) as door:
        here = Path.cwd()
        os.chdir(clone)
        door.bind("door")
        os.chdir(here)
    assert refused(space, WHO) == dict.fromkeys(["door", "pipe"], "it is a FIFO, a socket or a device")


def test_a_tracked_file_that_became_a_fifo_is_refused(space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    (clone / "README.md").unlink()
    os.mkfifo(clone / "README.md")
    assert set(refused(space, WHO)) == {"README.md"}


@pytest.mark.parametrize(
    "path",
    [
        ".GIT/config",
        ".git /config",
        ".git./x",
        "git~1/x",
        "GIT~1",
        ".g\u200cit/config",
        ".git::$INDEX_ALLOCATION/x",
        "a\\.git\\config",
        "sub/.git",
        "sub/.git/HEAD",
        "sub/.Git",
        ".gitmodules",
        ".GITMODULES",
        "src/.gitmodules",
    ],
)
def test_names_that_git_or_a_file_system_would_misread_are_refused(space: PlanWorkspace, path: str) -> None:
    clone = begin(space, WHO).path
    write(clone, {path: "x\n"})
    first = path.split("/")
    assert set(refused(space, WHO)) <= {"/".join(first[: at + 1]) for at in range(len(first))}


@pytest.mark.parametrize("name", [".gitx", "git", ".gitignore", "x.git", ".gitattributes", "git~2"])
def test_names_that_only_look_a_little_like_it_are_taken(space: PlanWorkspace, name: str) -> None:
    clone = begin(space, WHO).path
    write(clone, {name: "x\n"})
    assert name in {change.path for change in taken(space, WHO).changes}


def test_a_nested_repository_is_refused_and_so_is_a_file_that_says_where_one_is(space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    repository(clone / "vendor" / "lib")
    write(clone, {"other/.git": "gitdir: /elsewhere\n"})
    assert set(refused(space, WHO)) == {"vendor/lib/.git", "other/.git"}


def test_a_nested_repository_does_not_hide_behind_an_ignore_pattern(tmp_path: Path) -> None:
    space = opened(repository(tmp_path / "shop", {**FILES, ".gitignore": ".*\n!.gitignore\n"}))
    clone = begin(space, WHO).path
    repository(clone / "vendor")
    assert set(refused(space, WHO)) == {"vendor/.git"}


def test_submodules_stay_as_they_are(tmp_path: Path) -> None:
    inner = repository(tmp_path / "inner")
    repo = repository(tmp_path / "shop")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "lib")
    git(repo, "commit", "-qm", "lib")
    space = opened(repo)
    found = work(space, WHO, {"a.txt": "a\n"})
    assert [change.path for change in found.changes] == ["a.txt"]
    clone = begin(space, WHO).path
    (clone / "lib").rmdir()
    assert taken(space, WHO).changes == ()
    write(clone, {"lib/x": "x\n"})
    assert set(refused(space, WHO)) == {"lib"}
    clone = begin(space, WHO).path
    (clone / "lib").rmdir()
    write(clone, {"lib": "x\n"})
    assert set(refused(space, WHO)) == {"lib"}
    clone = begin(space, WHO).path
    write(clone, {".gitmodules": '[submodule "lib"]\npath = lib\nurl = --upload-pack=evil\n'})
    assert set(refused(space, WHO)) == {".gitmodules"}


@pytest.mark.parametrize(
    "pair",
    [("a/Name.txt", "a/name.txt"), ("Src/x", "src/price.py"), ("stra\u00dfe", "STRASSE"), ("\u00e9", "e\u0301")],
)
def test_names_that_collide_elsewhere_are_refused(space: PlanWorkspace, pair: tuple[str, str]) -> None:
    clone = begin(space, WHO).path
    write(clone, dict.fromkeys(pair, "x\n"))
    assert any("would take it for" in why for why in refused(space, WHO).values())


def test_names_that_collide_in_the_base_are_the_user_s(tmp_path: Path) -> None:
    space = opened(repository(tmp_path / "shop", {"A.txt": "1\n", "a.txt": "2\n"}))
    assert [change.path for change in work(space, WHO, {"a.txt": "3\n"}).changes] == ["a.txt"]
    clone = begin(space, WHO).path
    write(clone, {"B.txt": "", "b.txt": ""})
    assert set(refused(space, WHO)) == {"b.txt"}


def test_names_that_are_not_text_are_refused_unless_the_base_has_them(tmp_path: Path) -> None:
    bad = os.fsdecode(b"bad\xff.txt")
    space = opened(repository(tmp_path / "shop", {bad: "1\n"}))
    found = work(space, WHO, {bad: "2\n"})
    assert [change.path for change in found.changes] == [bad]
    merge(space, found)
    clone = begin(space, WHO).path
    write(clone, {os.fsdecode(b"new\xff.txt"): "1\n"})
    assert list(refused(space, WHO).values()) == ["its name is not UTF-8"]


def test_a_file_with_a_name_outside_is_refused_and_two_names_inside_are_not(
    space: PlanWorkspace, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret\n")
    clone = begin(space, WHO).path
    os.link(tmp_path / "secret", clone / "mine.txt")
    assert set(refused(space, WHO)) == {"mine.txt"}
    (clone / "mine.txt").unlink()
    write(clone, {"one.txt": "1\n"})
    os.link(clone / "one.txt", clone / "two.txt")
    assert [change.path for change in taken(space, WHO).changes] == ["one.txt", "two.txt"]


def test_a_tree_without_end_is_refused_and_removed(space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    here = os.open(clone, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("dd", dir_fd=here)
        below = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert list(refused(space, WHO).values()) == ["it is nested deeper than 100 folders"]
    run(space.attempts.drop(WHO))
    assert not clone.parent.exists()
    assert not list((clone.parent.parent.parent / "trash").iterdir())


def test_every_reason_is_told(space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    write(clone, {"sub/.git/HEAD": "", "Readme.md": ""})
    link(clone / "out", "/")
    os.mkfifo(clone / "pipe")
    assert set(refused(space, WHO)) == {"sub/.git", "Readme.md", "out", "pipe"}


def test_a_refused_tree_leaves_nothing_in_the_repository(repo: Path, space: PlanWorkspace) -> None:
    clone = begin(space, WHO).path
    before = git(repo, "count-objects", "-v"), git(repo, "for-each-ref")
    write(clone, {"big.txt": "new content\n" * 100})
    os.mkfifo(clone / "zzz")
    refused(space, WHO)
    assert (git(repo, "count-objects", "-v"), git(repo, "for-each-ref")) == before


# Clones


def with_hooks(clone: Path, proof: Path) -> None:
    for hook in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change", "pre-auto-gc"):
        (clone / ".git" / "hooks").mkdir(exist_ok=True)
        (clone / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {proof}\n")
        (clone / ".git" / "hooks" / hook).chmod(0o755)


def with_config(clone: Path, proof: Path) -> None:
    for key, value in {
        "core.fsmonitor": f"touch {proof}; false",
        "core.hooksPath": str(clone),
        "core.worktree": "/etc",
        "core.excludesFile": "/dev/null",
        "filter.evil.clean": f"touch {proof}; echo replaced",
        "diff.external": f"touch {proof}",
        "core.sshCommand": f"touch {proof}",
        "core.bare": "true",
    }.items():
        git(clone, "config", "--file", str(clone / ".git" / "config"), key, value)
    write(clone, {".git/info/attributes": "* filter=evil\n", ".git/info/exclude": "*\n"})


def with_alternates(clone: Path, proof: Path) -> None:
    write(clone, {".git/objects/info/alternates": f"{proof.parent}/nowhere\n"})


def with_grafts(clone: Path, proof: Path) -> None:
    del proof
    head = git(clone, "rev-parse", "HEAD")
    fake = git(clone, "commit-tree", "-m", "fake", git(clone, "mktree", "--missing") or "HEAD^{tree}")
    git(clone, "replace", "-f", head, fake)
    write(clone, {".git/info/grafts": f"{head} {fake}\n"})


def with_index_flags(clone: Path, proof: Path) -> None:
    del proof
    git(clone, "update-index", "--assume-unchanged", "src/price.py")
    git(clone, "update-index", "--skip-worktree", "README.md")
    git(clone, "add", "-f", "-A")


def with_empty_index(clone: Path, proof: Path) -> None:
    del proof
    (clone / ".git" / "index").write_bytes(b"not an index")


def with_git_file(clone: Path, proof: Path) -> None:
    shutil.rmtree(clone / ".git")
    write(clone, {".git": f"gitdir: {proof.parent}/shop/.git\n"})


def with_git_link(clone: Path, proof: Path) -> None:
    shutil.rmtree(clone / ".git")
    link(clone / ".git", str(proof.parent / "shop" / ".git"))


def without_git(clone: Path, proof: Path) -> None:
    del proof
    shutil.rmtree(clone / ".git")


def with_other_commits(clone: Path, proof: Path) -> None:
    del proof
    git(clone, "checkout", "-q", "--orphan", "elsewhere")
    git(clone, "rm", "-rqf", "--cached", ".")
    git(clone, "commit", "-q", "--allow-empty", "-m", "AgentTalk-Command: cmd_other_001")


@pytest.mark.rest_but("with_config", "with_hooks", "with_grafts", "without_git")
@pytest.mark.parametrize(
    "trick",
    [
        with_hooks,
        with_config,
        with_alternates,
        with_grafts,
        with_index_flags,
        with_empty_index,
        with_git_file,
        with_git_link,
        without_git,
        with_other_commits,
    ],
)
def test_the_tree_is_read_from_the_files_whatever_the_clone_says(
    tmp_path: Path, repo: Path, trick: Callable[[Path, Path], None]
) -> None:
    space = opened(repo)
    before = state(repo)
    clone = begin(space, WHO).path
    trick(clone, tmp_path / "proof")
    (tmp_path / "proof").unlink(missing_ok=True)  # what the trick itself set off
    write(clone, {"src/price.py": "changed\n", "README.md": None, "new.txt": "new\n"})
    found = merge(space, taken(space, WHO))
    assert [(change.path, change.kind) for change in run(space.trees.changes(found.onto, found.commit))] == [
        ("README.md", "deleted"),
        ("new.txt", "added"),
        ("src/price.py", "changed"),
    ]
    assert tree(space, found.commit)["src/price.py"] == "changed\n"
    assert git(repo, "rev-parse", f"{found.commit}^") == git(repo, "rev-parse", "main")
    run(space.attempts.drop(WHO))
    assert not (tmp_path / "proof").exists()
    assert state(repo) == before


@pytest.mark.parametrize("how", ["union", "ours", "binary", "text"])
def test_attributes_of_a_tree_do_not_make_a_conflict_go_away(tmp_path: Path, how: str) -> None:
    attributes = f"* merge={how}\n" if how != "binary" else "* -merge\n"
    space = opened(repository(tmp_path / "shop", {**FILES, ".gitattributes": attributes}))
    one = work(space, attempt("one"), {"README.md": "# one\n"})
    two = work(space, attempt("two"), {"README.md": "# two\n", ".gitattributes": attributes + "\n"})
    merge(space, one)
    found = run(space.make_candidate(two, at=NOW))
    assert isinstance(found, CandidateConflict)
    assert "<<<<<<<" in found.text


def test_replace_refs_and_grafts_of_the_user_do_not_change_what_is_merged(repo: Path, space: PlanWorkspace) -> None:
    found = work(space, WHO, {"a.txt": "a\n"})
    other = git(repo, "commit-tree", "-m", "other", "HEAD^{tree}")
    git(repo, "replace", found.commit, other)
    assert tree(space, merge(space, found).commit)["a.txt"] == "a\n"


def test_removing_does_not_follow_links_and_gets_through_closed_folders(tmp_path: Path) -> None:
    write(tmp_path, {"kept/x": "x\n", "gone/closed/inner/y": "y\n"})
    link(tmp_path / "gone" / "link", str(tmp_path / "kept"))
    (tmp_path / "gone" / "closed" / "inner").chmod(0)
    (tmp_path / "gone" / "closed").chmod(0)
    (tmp_path / "gone").chmod(0)
    folders.remove(tmp_path / "gone", tmp_path / "trash")
    assert (tmp_path / "kept" / "x").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "trash"]
    assert not list((tmp_path / "trash").iterdir())
    folders.remove(tmp_path / "gone", tmp_path / "trash")


def test_what_we_link_ourselves_may_be_named_but_not_climbed(tmp_path: Path) -> None:
    del tmp_path
    links = {"python": ".venv/bin/python", "up": ".venv/../secret"}
    assert names.describe_escape("python", links, {".venv"}) == ""
    assert names.describe_escape("up", links, {".venv"}) != ""
