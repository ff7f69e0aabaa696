"""A plan's way over a repository or a plain folder: clone, take, candidate, merge."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.workspaces.treeskit import (
    FILES,
    NOW,
    attempt,
    begin,
    candidate,
    files,
    follow,
    git,
    merge,
    opened,
    plain,
    refused,
    repository,
    run,
    state,
    taken,
    tree,
    work,
    write,
)
from agenttalk.adapters.workspaces.results import Author, CandidateConflict, WorkspaceAttempt
from agenttalk.adapters.workspaces.tree_reader import TreeLimits
from agenttalk.adapters.workspaces.user_branch import LandingResult
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.errors import InputError, MachineError, UsageError
from agenttalk.rules.core.scope import read_globs

Make = Callable[[Path], Path]
both = pytest.mark.parametrize("make", [repository, pytest.param(plain, marks=pytest.mark.rest)])
TESTS = read_globs(["tests/**"])


@pytest.fixture
def space(tmp_path: Path) -> PlanWorkspace:
    return opened(repository(tmp_path / "shop"))


@both
def test_the_plan_branch_is_made_once_from_the_base(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop"))
    tip = run(space.ensure())
    assert tree(space, tip) == FILES
    assert run(space.ensure()) == tip


def test_the_base_can_be_another_branch_and_is_looked_up_once(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    git(repo, "branch", "stable")
    write(repo, {"new.txt": "new\n"})
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "more")
    space = opened(repo, base="stable")
    tip = run(space.ensure())
    assert tip == git(repo, "rev-parse", "stable")
    git(repo, "branch", "-f", "stable", "main")
    git(repo, "branch", "-D", "agenttalk/shop")
    assert run(space.ensure()) == tip


def test_a_missing_base_or_an_empty_repository_is_told(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    for base in ("nothing", "--help", "HEAD:README.md"):
        with pytest.raises(UsageError, match="has no commit"):
            run(opened(repo, base=base).ensure())
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    with pytest.raises(UsageError, match="no commit 'HEAD'"):
        run(opened(tmp_path / "empty").ensure())


def test_names_and_folders_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    for plan in ("a/b", "x.lock", "..", "a b", "x."):
        with pytest.raises(UsageError, match="name of a branch"):
            opened(repo, plan=plan)
    with pytest.raises(UsageError, match="no folder"):
        opened(tmp_path / "nowhere")


@both
def test_a_clone_has_the_tip_and_a_turn_becomes_one_commit_with_trailers(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop"))
    who = attempt()
    clone = begin(space, who)
    assert files(clone.path) == FILES
    assert clone.start == clone.onto == run(space.ensure())
    write(clone.path, {"src/price.py": "better\n", "src/new.py": "new\n", "README.md": None})
    found = taken(space, who)
    assert tree(space, found.commit) == {
        "src/price.py": "better\n",
        "src/new.py": "new\n",
        "tests/test_price.py": FILES["tests/test_price.py"],
        ".gitignore": FILES[".gitignore"],
    }
    assert [(change.path, change.kind) for change in found.changes] == [
        ("README.md", "deleted"),
        ("src/new.py", "added"),
        ("src/price.py", "changed"),
    ]
    assert found.onto == clone.onto


def test_commits_say_whose_they_are(space: PlanWorkspace, tmp_path: Path) -> None:
    found = merge(space, work(space, attempt(number=2), {"a.txt": "a\n"}))
    said = git(tmp_path / "shop", "log", "-1", "--format=%an <%ae> %at%n%(trailers:only)", found.commit).splitlines()
    assert said[0] == "AgentTalk agent <agent@agenttalk.invalid> 1767323045"
    assert said[1:5] == [
        "AgentTalk-Plan: shop",
        "AgentTalk-Task: build",
        "AgentTalk-Command: cmd_build_001",
        "AgentTalk-Attempt: 2",
    ]


@pytest.mark.mends("C11")
@pytest.mark.parametrize(
    ("title", "subject"),
    [
        ("Make it\n\nAgentTalk-Plan: other", "Make it AgentTalk-Plan: other"),
        ("\x1b \t", "build: cmd_build_001, attempt 1"),
        ("word " * 40, "word " * 13 + "word…"),
    ],
)
def test_a_title_is_one_short_line_and_names_no_other_plan(
    space: PlanWorkspace, tmp_path: Path, title: str, subject: str
) -> None:
    who = WorkspaceAttempt("build", "cmd_build_001", 1, title, Author('O"N\\eil', "o@example.org"))
    found = merge(space, work(space, who, {"a.txt": "a\n"}))
    told = git(tmp_path / "shop", "log", "-1", "--format=%an%n%s%n%(trailers:only,key=AgentTalk-Plan)", found.commit)
    assert told.splitlines() == ['O"N\\eil', subject, "AgentTalk-Plan: shop"]


def test_the_user_s_repository_is_left_alone_until_the_end(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    write(repo, {"README.md": "half written\n", "untracked.txt": "mine\n"})
    git(repo, "add", "README.md")
    for hook in ("post-checkout", "reference-transaction", "pre-commit", "post-index-change", "post-merge"):
        (repo / ".git" / "hooks").mkdir(exist_ok=True)
        (repo / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\necho {hook} >> {tmp_path}/ran\n")
        (repo / ".git" / "hooks" / hook).chmod(0o755)
    git(repo, "config", "core.fsmonitor", f"echo fsmonitor >> {tmp_path}/ran; false")
    git(repo, "config", "filter.evil.clean", f"echo filter >> {tmp_path}/ran; cat")
    git(repo, "config", "filter.evil.smudge", f"echo filter >> {tmp_path}/ran; cat")
    git(repo, "config", "diff.evil.textconv", f"echo textconv >> {tmp_path}/ran; cat")
    git(repo, "config", "merge.evil.driver", f"echo driver >> {tmp_path}/ran; true")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    before = state(repo)
    (tmp_path / "ran").unlink(missing_ok=True)
    space = opened(repo)
    first = work(
        space, attempt("one"), {"src/price.py": "one\n", ".gitattributes": "* filter=evil merge=evil eol=crlf\n"}
    )
    second = work(space, attempt("two"), {"src/price.py": "two\n"})
    merge(space, first)
    assert isinstance(run(space.make_candidate(second, at=NOW)), CandidateConflict)
    assert "+one" in run(space.trees.diff(first.onto, first.commit))
    assert not (tmp_path / "ran").exists()
    assert state(repo) == before


@both
def test_ignored_files_and_leftovers_of_programs_are_not_taken(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop"))
    clone = begin(space, attempt())
    write(
        clone.path,
        {
            "x.log": "",
            "build/x": "",
            "src/__pycache__/x.txt": "",
            "x.pyc": "",
            ".pytest_cache/x": "",
            "node_modules/a/.git/config": "",
            ".gitignore": "taken.txt\n",
            "taken.txt": "yes\n",
        },
    )
    os.mkfifo(clone.path / "build" / "pipe")
    assert [change.path for change in taken(space, attempt()).changes] == [".gitignore", "taken.txt"]


def test_what_the_base_tracks_is_taken_even_if_it_is_ignored(tmp_path: Path) -> None:
    space = opened(repository(tmp_path / "shop", {**FILES, "build/kept.txt": "1\n", "a.log": "1\n", "x/a.pyc": "1\n"}))
    found = work(space, attempt(), {"build/kept.txt": "2\n", "build/other.txt": "3\n", "a.log": "2\n", "x/a.pyc": None})
    assert [(change.path, change.kind) for change in found.changes] == [
        ("a.log", "changed"),
        ("build/kept.txt", "changed"),
        ("x/a.pyc", "deleted"),
    ]


def test_modes_symlinks_and_odd_names_survive(space: PlanWorkspace) -> None:
    who = attempt()
    clone = begin(space, who)
    odd = 'new\nline "quoted" \\ ünï.txt'
    write(clone.path, {odd: "odd\n", "run.sh": "#!/bin/sh\n", "bin.dat": bytes(range(256))})
    (clone.path / "run.sh").chmod(0o755)
    (clone.path / "src" / "link").symlink_to("../README.md")
    modes = {change.path: change.after.mode for change in taken(space, who).changes if change.after}
    assert modes == {odd: "100644", "run.sh": "100755", "bin.dat": "100644", "src/link": "120000"}

    async def look() -> None:
        found = await space.attempts.find_taken(who)
        assert found
        async with space.checkouts.open_sealed(found.commit) as sealed:
            path = sealed.path
            assert (path / odd).read_text() == "odd\n"
            assert (path / "run.sh").stat().st_mode & 0o111
            assert (path / "bin.dat").read_bytes() == bytes(range(256))
            assert (path / "src" / "link").readlink() == Path("../README.md")
            assert not (path / ".git").exists()
        await space.release()
        assert not path.parent.exists()

    run(look())


def test_taking_twice_gives_the_same_commit_and_taking_again_after_a_change_another(space: PlanWorkspace) -> None:
    who = attempt()
    first = work(space, who, {"a.txt": "1\n"})
    again = run(space.attempts.take_work(who, at=NOW.replace(year=2027)))
    assert again == first == run(space.attempts.find_taken(who))
    write(space.attempts._folder(who) / "tree", {"a.txt": "2\n"})
    assert taken(space, who).commit != first.commit
    run(space.attempts.drop(who))
    with pytest.raises(UsageError, match="no clone"):
        run(space.attempts.take_work(who, at=NOW))
    assert run(space.attempts.find_taken(who)) is not None
    assert run(space.attempts.find_taken(attempt("other"))) is None


def test_a_change_that_hides_behind_old_times_is_seen(space: PlanWorkspace) -> None:
    """Size and times as before: only the time of change tells."""
    who = attempt()
    clone = begin(space, who)
    path = clone.path / "src" / "price.py"
    before = path.stat()
    path.write_text(FILES["src/price.py"].replace("1", "9"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert [change.path for change in taken(space, who).changes] == ["src/price.py"]


def test_files_that_were_not_touched_are_neither_read_nor_copied(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop", {f"d{at % 10}/{at}.txt": f"{at}\n" for at in range(200)})
    space = opened(repo)
    clone = begin(space, attempt())
    index = space.attempts._folder(attempt()) / "index"
    first, written = index.read_bytes(), index.stat().st_mtime_ns
    before = int(git(repo, "count-objects").split()[0])
    write(clone.path, {"d1/1.txt": "new\n"})
    taken(space, attempt())
    assert int(git(repo, "count-objects").split()[0]) - before == 4  # the file, two trees, the commit
    one, two = (bytes.fromhex(git(repo, "rev-parse", f"HEAD:{path}")) for path in ("d2/2.txt", "d3/3.txt"))
    index.write_bytes(first.replace(one, two))
    os.utime(index, ns=(written, written + 10**9))
    assert [change.path for change in taken(space, attempt()).changes] == ["d1/1.txt", "d2/2.txt"]
    os.utime(index, ns=(0, 0))
    assert [change.path for change in taken(space, attempt()).changes] == ["d1/1.txt"]
    for torn in (b"torn", first[:700], b"DIRC\0\0\0\x04" + first[8:]):
        index.write_bytes(torn)
        assert [change.path for change in taken(space, attempt()).changes] == ["d1/1.txt"]


@both
def test_protected_paths_are_put_back_and_all_of_them_told(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop", {**FILES, "tests/gone.py": "1\n"}))  # type: ignore[call-arg]
    changed = {
        "tests/test_price.py": "assert 1\n",
        "tests/conftest.py": "skip\n",
        "tests/gone.py": None,
        "a.txt": "a\n",
    }
    found = candidate(space, work(space, attempt(), changed), TESTS)
    assert [(change.path, change.kind) for change in found.restored] == [
        ("tests/conftest.py", "added"),
        ("tests/gone.py", "deleted"),
        ("tests/test_price.py", "changed"),
    ]
    assert tree(space, found.commit) == {**FILES, "tests/gone.py": "1\n", "a.txt": "a\n"}


def test_a_protected_folder_that_became_a_file_is_a_folder_again(space: PlanWorkspace) -> None:
    who = attempt()
    clone = begin(space, who)
    write(clone.path, {"tests/test_price.py": None})
    (clone.path / "tests").rmdir()
    write(clone.path, {"tests": "no tests\n", "a.txt": "a\n"})
    found = candidate(space, taken(space, who), TESTS)
    assert tree(space, found.tree) == {**FILES, "a.txt": "a\n"}
    assert [change.path for change in found.restored] == ["tests", "tests/test_price.py"]


def test_a_protected_file_that_became_a_folder_is_a_file_again(space: PlanWorkspace) -> None:
    who = attempt()
    clone = begin(space, who)
    write(clone.path, {"README.md": None, "src/a.txt": "a\n"})
    write(clone.path, {"README.md/x/y": "no\n"})
    found = candidate(space, taken(space, who), read_globs(["README.md"]))
    assert tree(space, found.tree) == {**FILES, "src/a.txt": "a\n"}


def test_what_others_did_to_protected_paths_stays(space: PlanWorkspace) -> None:
    mine = work(space, attempt("mine"), {"tests/test_price.py": "weak\n", "a.txt": "a\n"})
    merge(space, work(space, attempt("testers"), {"tests/test_price.py": "strong\n", "tests/more.py": "more\n"}))
    found = candidate(space, mine, TESTS)
    assert tree(space, found.tree) == {
        **FILES,
        "tests/test_price.py": "strong\n",
        "tests/more.py": "more\n",
        "a.txt": "a\n",
    }
    assert [change.path for change in found.restored] == ["tests/test_price.py"]


def test_what_the_task_itself_merged_before_is_put_back_too(space: PlanWorkspace) -> None:
    first = work(
        space, attempt("mine"), {"tests/test_price.py": "weak\n", "tests/mine.py": "1\n", "tests/both.py": "1\n"}
    )
    merge(space, first)
    merge(space, work(space, attempt("testers"), {"tests/both.py": "2\n"}))
    again = work(space, attempt("mine", 2), {"a.txt": "a\n"})
    found = candidate(space, again, TESTS, since=first.onto)
    assert tree(space, found.tree) == {**FILES, "tests/both.py": "2\n", "a.txt": "a\n"}
    assert [(change.path, change.kind) for change in found.restored] == [
        ("tests/mine.py", "added"),
        ("tests/test_price.py", "changed"),
    ]
    assert not candidate(space, again, TESTS).restored


def test_two_tasks_on_the_same_lines_one_merges_the_other_gets_the_conflict(space: PlanWorkspace) -> None:
    one = work(space, attempt("one"), {"src/price.py": FILES["src/price.py"].replace("return 1", "return 10")})
    two = work(space, attempt("two"), {"src/price.py": FILES["src/price.py"].replace("return 1", "return 20")})
    merge(space, one)
    found = run(space.make_candidate(two, at=NOW))
    assert isinstance(found, CandidateConflict)
    assert found.paths == ("src/price.py",)
    assert "return 10" in found.text
    assert "return 20" in found.text
    assert "<<<<<<<" in found.text
    assert found.onto == run(space.ensure())


def test_two_tasks_on_other_lines_of_a_file_both_merge(space: PlanWorkspace) -> None:
    one = work(space, attempt("one"), {"src/price.py": FILES["src/price.py"].replace("return 1", "return 10")})
    two = work(space, attempt("two"), {"src/price.py": FILES["src/price.py"].replace("return 2", "return 20")})
    merge(space, one)
    found = merge(space, two)
    assert tree(space, found.tree)["src/price.py"] == FILES["src/price.py"].replace("1", "10").replace("2", "20")


def test_in_a_plain_folder_two_changes_of_one_file_are_a_conflict(tmp_path: Path) -> None:
    space = opened(plain(tmp_path / "shop"))
    one = work(space, attempt("one"), {"src/price.py": FILES["src/price.py"].replace("1", "10"), "same.txt": "same\n"})
    two = work(space, attempt("two"), {"src/price.py": FILES["src/price.py"].replace("2", "20"), "same.txt": "same\n"})
    three = work(space, attempt("three"), {"same.txt": "same\n", "other.txt": "3\n"})
    merge(space, one)
    found = run(space.make_candidate(two, at=NOW))
    assert isinstance(found, CandidateConflict)
    assert found.paths == ("src/price.py",)
    merge(space, three)


def test_changed_here_and_deleted_there_is_a_conflict(space: PlanWorkspace) -> None:
    one = work(space, attempt("one"), {"README.md": None})
    two = work(space, attempt("two"), {"README.md": "# new\n"})
    merge(space, one)
    found = run(space.make_candidate(two, at=NOW))
    assert isinstance(found, CandidateConflict)
    assert found.paths == ("README.md",)
    assert "README.md deleted in" in found.text


def test_whose_work_came_onto_the_branch_is_told_and_what_only_says_so_is_not(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    space = opened(repo)
    begin_at = run(space.ensure())
    one = merge(space, work(space, attempt("one"), {"one.txt": "1\n"}))
    said = git(repo, "log", "-1", "--format=%B", one.commit).replace("one", "two")
    forged = git(repo, "commit-tree", "-p", one.commit, "-m", said, "HEAD^{tree}")
    git(repo, "update-ref", f"refs/heads/{space.branch}", forged)
    three = merge(space, work(space, attempt("three"), {"three.txt": "3\n"}))
    commits = [(one.commit, "one"), (forged, None), (three.commit, "three")]
    assert run(space.list_arrivals(begin_at)) == commits
    assert run(space.list_arrivals(forged)) == commits[2:]
    assert run(space.list_arrivals(three.commit)) == []
    assert run(space.list_arrivals(git(repo, "commit-tree", "-m", "elsewhere", "HEAD^{tree}"))) == []
    assert run(space.list_arrivals("0" * 40)) == []


def test_what_globs_cover_has_one_hash_each(space: PlanWorkspace) -> None:
    before = run(space.trees.tree_of(run(space.ensure())))
    after = merge(space, work(space, attempt("one"), {"one.txt": "1\n"})).tree
    both = {each: read_globs([each]) for each in ("src/**", "*.txt")}
    old, new = run(space.trees.hash_covered(before, both)), run(space.trees.hash_covered(after, both))
    assert (old["src/**"] == new["src/**"], old["*.txt"] == new["*.txt"]) == (True, False)
    assert new["*.txt"] == run(space.trees.find_covered(after, both["*.txt"])).digest
    assert run(space.trees.hash_covered(after, {})) == {}


def test_a_turn_that_changed_nothing_leaves_the_branch_where_it_is(space: PlanWorkspace) -> None:
    found = merge(space, work(space, attempt(), {}))
    assert found.commit == found.onto == run(space.ensure())


def test_the_branch_is_not_moved_under_the_user_s_feet(space: PlanWorkspace, tmp_path: Path) -> None:
    found = candidate(space, work(space, attempt(), {"a.txt": "a\n"}))
    git(tmp_path / "shop", "checkout", "-q", "agenttalk/shop")
    assert follow(space, found.commit) == found.commit != run(space.ensure())
    git(tmp_path / "shop", "checkout", "-q", "main")
    assert follow(space, found.commit) == found.commit == run(space.ensure())


@both
def test_a_re_execution_starts_with_the_previous_attempt_merged_in(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop"))
    first = work(space, attempt("one"), {"src/price.py": "almost\n", "tests/test_price.py": "weak\n"})
    merge(space, work(space, attempt("two"), {"two.txt": "2\n"}))
    clone = begin(space, attempt("one", 2), previous=first.commit, protected=TESTS)
    assert files(clone.path) == {**FILES, "src/price.py": "almost\n", "two.txt": "2\n"}
    assert clone.patch == ""
    assert clone.onto == run(space.ensure()) != clone.start
    write(clone.path, {"src/price.py": "right\n"})
    found = merge(space, taken(space, attempt("one", 2)), TESTS)
    assert tree(space, found.tree) == {**FILES, "src/price.py": "right\n", "two.txt": "2\n"}
    assert not found.restored


@both
def test_a_previous_attempt_that_does_not_merge_is_handed_on_as_a_patch(tmp_path: Path, make: Make) -> None:
    space = opened(make(tmp_path / "shop"))
    first = work(space, attempt("one"), {"README.md": "# mine\n", "tests/test_price.py": "weak\n"})
    merge(space, work(space, attempt("two"), {"README.md": "# theirs\n"}))
    clone = begin(space, attempt("one", 2), previous=first.commit, protected=TESTS)
    assert files(clone.path) == {**FILES, "README.md": "# theirs\n"}
    assert clone.start == clone.onto
    assert "+# mine" in clone.patch
    assert "weak" not in clone.patch


def test_a_gitignore_of_an_attempt_that_is_not_merged_hides_nothing(space: PlanWorkspace) -> None:
    first = work(space, attempt("one"), {".gitignore": "*\n", "a.txt": "a\n"})
    clone = begin(space, attempt("one", 2), previous=first.commit)
    write(clone.path, {"hidden.txt": "seen\n"})
    assert "hidden.txt" in {change.path for change in taken(space, attempt("one", 2)).changes}


def test_beginning_again_starts_afresh(space: PlanWorkspace) -> None:
    write(begin(space, attempt()).path, {"half.txt": "half\n"})
    assert files(begin(space, attempt()).path) == FILES


def test_a_clone_is_a_repository_of_its_own_with_history_and_tags(space: PlanWorkspace, tmp_path: Path) -> None:
    repo = tmp_path / "shop"
    git(repo, "tag", "v1")
    git(repo, "tag", "-a", "v2", "-m", "two")
    clone = begin(space, attempt()).path
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "describe", "--tags") in {"v1", "v2"}
    assert git(clone, "rev-parse", "--abbrev-ref", "HEAD") == "agenttalk/shop"
    assert git(clone, "remote") == ""
    write(clone, {"a.txt": "a\n"})
    git(clone, "add", "a.txt")
    git(clone, "commit", "-qm", "mine")
    git(clone, "branch", "-f", "main")
    assert git(repo, "rev-parse", "agenttalk/shop") == git(repo, "rev-parse", "main")
    assert [change.path for change in taken(space, attempt()).changes] == ["a.txt"]


def test_fingerprints_change_with_what_they_cover_and_nothing_else(space: PlanWorkspace) -> None:
    src = read_globs(["src/**"])
    tip = run(space.ensure())
    before = run(space.trees.find_covered(tip, src))
    assert list(before.files) == ["src/price.py"]
    other = work(space, attempt("one"), {"README.md": "new\n"})
    assert run(space.trees.find_covered(other.commit, src)) == before
    assert run(space.trees.find_covered(other.commit)) != run(space.trees.find_covered(tip))
    for files_ in ({"src/price.py": "new\n"}, {"src/more.py": "new\n"}, {"src/price.py": None}):
        assert run(space.trees.find_covered(work(space, attempt("two"), files_).commit, src)).digest != before.digest


def test_diffs_are_for_people_and_end_somewhere(space: PlanWorkspace) -> None:
    found = work(space, attempt(), {"a.txt": "a\n", "long.txt": "line\n" * 10_000, "b.bin": b"\0\1"})
    assert "+a" in run(space.trees.diff(found.onto, found.commit, paths=["a.txt"]))
    assert "long.txt" not in run(space.trees.diff(found.onto, found.commit, paths=["a.txt"]))
    assert run(space.trees.diff(found.onto, found.commit, paths=["*.txt"])) == ""
    assert "Binary files" in run(space.trees.diff(found.onto, found.commit))
    cut = run(space.trees.diff(found.onto, found.commit, limit=1000))
    assert cut.endswith("[cut off after 1,000 bytes]\n")
    assert run(space.trees.read(found.commit, "a.txt")) == b"a\n"
    assert run(space.trees.read(found.commit, "nothing")) is None


def test_linked_work_trees_bare_and_sha256_repositories_work(tmp_path: Path) -> None:
    repo = repository(tmp_path / "a" / "shop")
    git(repo, "worktree", "add", "-q", "-b", "side", str(tmp_path / "a" / "side"))
    write(tmp_path / "a" / "side", {"side.txt": "side\n"})
    git(tmp_path / "a" / "side", "add", "-A")
    git(tmp_path / "a" / "side", "commit", "-qm", "side")
    side = opened(tmp_path / "a" / "side", home=tmp_path / "a" / "home")
    assert "side.txt" in tree(side, run(side.ensure()))
    git(tmp_path, "clone", "-q", "--bare", "--single-branch", "-b", "main", str(repo), str(tmp_path / "b.git"))
    bare = opened(tmp_path / "b.git", home=tmp_path / "b-home")
    found = merge(bare, work(bare, attempt(), {"a.txt": "a\n"}))
    assert run(bare.land(at=NOW)) == LandingResult(found.commit, "fast-forward")
    assert git(tmp_path / "b.git", "rev-parse", "main") == found.commit
    longer = opened(repository(tmp_path / "c" / "shop", FILES, "--object-format=sha256"))
    found = merge(longer, work(longer, attempt(), {"a.txt": "a\n"}))
    assert len(found.commit) == 64
    assert tree(longer, found.commit) == {**FILES, "a.txt": "a\n"}


def test_a_shallow_repository_works(tmp_path: Path) -> None:
    repo = repository(tmp_path / "deep")
    for at in range(3):
        write(repo, {"n.txt": f"{at}\n"})
        git(repo, "add", "-A")
        git(repo, "commit", "-qm", str(at))
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{repo}", str(tmp_path / "shop"))
    space = opened(tmp_path / "shop")
    clone = begin(space, attempt())
    assert git(clone.path, "log", "--format=%s") == "2"
    write(clone.path, {"a.txt": "a\n"})
    merge(space, taken(space, attempt()))


def test_line_ends_and_keywords_are_kept_byte_for_byte(tmp_path: Path) -> None:
    odd = {
        ".gitattributes": "* text eol=crlf ident\n*.u text working-tree-encoding=UTF-16\n",
        "a.txt": "$Id$\n",
        "b.u": "u\n",
    }
    space = opened(repository(tmp_path / "shop", {"a.txt": "$Id$\n"}))
    merge(space, work(space, attempt("one"), odd))
    clone = begin(space, attempt("two"))
    assert files(clone.path) == odd
    assert git(clone.path, "status", "--porcelain") == ""
    write(clone.path, {"c.txt": b"1\r\n2\n"})
    found = taken(space, attempt("two"))
    assert [change.path for change in found.changes] == ["c.txt"]
    assert run(space.trees.read(found.commit, "c.txt")) == b"1\r\n2\n"


def test_a_plain_folder_that_holds_a_repository_inside_is_refused(tmp_path: Path) -> None:
    folder = plain(tmp_path / "shop")
    repository(folder / "inner")
    with pytest.raises(UsageError, match=r"inner/\.git"):
        run(opened(folder).ensure())


def test_a_git_that_is_missing_hangs_or_fails_is_told(tmp_path: Path) -> None:
    repo = repository(tmp_path / "shop")
    with pytest.raises(MachineError, match="cannot be started"):
        opened(repo, program=str(tmp_path / "nothing"))
    (tmp_path / "slow").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "slow").chmod(0o755)
    with pytest.raises(MachineError, match=r"longer than 0\.2 seconds"):
        opened(repo, program=str(tmp_path / "slow"), seconds=0.2)
    (tmp_path / "old").write_text("#!/bin/sh\necho git version 2.37.9\n")
    (tmp_path / "old").chmod(0o755)
    with pytest.raises(UsageError, match=r"git 2\.38 or newer is needed"):
        opened(repo, program=str(tmp_path / "old"))
    with pytest.raises(MachineError, match="git rev-parse failed"):
        run(opened(repo).trees.changes("nothing", "HEAD"))
    (tmp_path / "file").write_text("no folder\n")
    with pytest.raises(MachineError, match="cannot be used"):
        opened(repo, home=tmp_path / "file" / "home")
    (repo / ".git" / "HEAD").write_text("broken\n")
    with pytest.raises(UsageError, match="not a repository that git can use"):
        opened(repo)


def test_a_cancelled_call_is_over_when_it_says_so(space: PlanWorkspace) -> None:
    async def cancelled() -> None:
        work_ = asyncio.create_task(space.attempts.begin(attempt(), at=NOW))
        await asyncio.sleep(0)
        work_.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work_

    run(cancelled())
    assert files(space.attempts._folder(attempt()) / "tree") == FILES


def test_old_locks_of_our_refs_are_removed_at_a_start_and_young_ones_are_not(
    space: PlanWorkspace, tmp_path: Path
) -> None:
    found = candidate(space, work(space, attempt(), {"a.txt": "a\n"}))
    lock = tmp_path / "shop" / ".git" / "refs" / "heads" / "agenttalk" / "shop.lock"
    lock.write_bytes(b"")
    run(space.sweep([attempt()]))
    assert lock.exists()
    os.utime(lock, ns=(0, 0))
    assert follow(space, found.commit) == found.commit
    lock.write_bytes(b"")
    os.utime(lock, ns=(0, 0))
    run(space.sweep())
    assert not lock.exists()


def test_a_sweep_keeps_what_it_is_told_to_and_removes_the_rest(space: PlanWorkspace, tmp_path: Path) -> None:
    one = candidate(space, work(space, attempt("one"), {"a.txt": "a\n"}))
    candidate(space, work(space, attempt("two"), {"b.txt": "b\n"}))
    begin(space, attempt("three"), previous=one.commit)
    (space._home.folder / "temporary" / "half").mkdir()
    (space._home.folder / "sealed" / "half").mkdir(parents=True)
    run(space.sweep([attempt("one")]))
    assert [path.name for path in (space._home.folder / "attempts").iterdir()] == ["one"]
    left = git(tmp_path / "shop", "for-each-ref", "--format=%(refname)", "refs/agenttalk").split()
    assert [ref.removeprefix("refs/agenttalk/shop/") for ref in left] == [
        "attempts/cmd_one_001-1",
        "attempts/cmd_two_001-1",
        "base",
        "candidates/cmd_one_001-1",
        "tip",
    ]
    assert follow(space, one.commit) == one.commit
    run(space.forget())
    assert git(tmp_path / "shop", "for-each-ref", "refs/agenttalk") == ""
    assert run(space.ensure()) == one.commit


def test_an_attempt_needs_names_that_can_be_parts_of_paths() -> None:
    for task, command, number in (("a/b", "c", 1), ("a", "../c", 1), ("a", "c", 0)):
        with pytest.raises(InputError):
            WorkspaceAttempt(task, command, number)


def test_limits_are_told(tmp_path: Path) -> None:
    space = opened(repository(tmp_path / "shop"), limits=TreeLimits(file_bytes=100, new_bytes=250, paths=8))
    clone = begin(space, attempt())
    write(clone.path, {"big.bin": b"x" * 101})
    assert refused(space, attempt()) == {"big.bin": "it is larger than 100 bytes"}
    clone = begin(space, attempt())
    write(clone.path, {f"{at}.bin": bytes([at]) * 99 for at in range(3)})
    assert list(refused(space, attempt()).values()) == ["the new files together have more than 250 bytes"]
    clone = begin(space, attempt())
    write(clone.path, {f"{at}.txt": "" for at in range(9)})
    assert "the tree has more than 8 files" in refused(space, attempt()).values()
