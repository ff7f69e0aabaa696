"""`agenttalk until`: an agent changes a repository in which nothing was set up, until a check is proven."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agenttalk.doors.cli.plans.run import _is_over
from doors.cli.changes.changekit import CHECK, PATIENCE, RIGHT, SUITE, UNITTEST, WRONG, Repo, make_repo, writes
from kits.provekit import git, repository

FIXES = writes(RIGHT)
LIES = "print('all tests pass')"
AT_LAST = f"""
feedback = os.environ.get("AGENTTALK_FEEDBACK")
{writes(RIGHT.replace("40", "7"))}
if feedback:
    assert "check" in pathlib.Path(feedback).read_text()
    {FIXES}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Repo:
    return make_repo(tmp_path)


def untouched(repo: Repo) -> bool:
    """Whether the work tree and the branch of the user are as they were."""
    return (
        (repo.top / "price.py").read_text() == WRONG
        and git(repo.top, "status", "--porcelain") == ""
        and git(repo.top, "log", "--format=%s", "main") == "begin"
    )


def test_a_red_check_is_proven_on_a_branch_of_its_own(shop: Repo) -> None:
    told = shop.until(UNITTEST, shop.agent(FIXES))
    assert f"✓ proven: {UNITTEST} (round 1 of 4" in told
    assert "protected  test_price.py" in told
    branch = git(shop.top, "branch", "--list", "agenttalk/*", "--format=%(refname:short)")
    assert f"→ git merge {branch}" in told
    assert shop.show(branch, "price.py") == RIGHT.strip()
    assert git(shop.top, "rev-list", "--count", f"main..{branch}") == "1"
    assert "  it failed before the work; now, in a sealed checkout: " in told
    assert untouched(shop)


@pytest.mark.rest
def test_programs_read_the_end_as_json(shop: Repo) -> None:
    told = shop.json(CHECK, shop.agent(FIXES))
    assert (told["ok"], told["result"], told["rounds"], told["check"]) == (True, "proven", 1, CHECK)
    assert told["commit"] == git(shop.top, "rev-parse", told["branch"])
    assert Path(told["root"]).is_relative_to(shop.state)


def test_who_lies_is_not_believed(shop: Repo) -> None:
    told = shop.until(CHECK, shop.agent(LIES), code=1)
    assert "✗ not proven" in told
    assert "│ AssertionError: 0 != 80" in told.split("✗ not proven")[1]
    assert "agenttalk explain" in told
    assert told.count("✗ round 1: refused: 'check' failed (it ended with 1") == 1
    assert told.count("✗") == 2
    assert untouched(shop)


def test_people_read_it_in_chinese(shop: Repo) -> None:
    chinese = {"AGENTTALK_LANGUAGE": "zh"}
    told = shop.until(CHECK, shop.agent(LIES), code=1, more=chinese)
    assert "✗ 第 1 轮：被退回：'check' 未通过（以退出码 1 结束）" in told
    assert "✗ 未证明：" in told
    assert "（第 2 轮，共 4 轮；" in told
    assert "不在任何 git 仓库的工作区中" in shop.until(CHECK, ["true"], code=2, cwd=shop.folder, more=chinese)


@pytest.mark.rest
def test_the_next_command_that_is_named_explains_why_it_is_not_proven(shop: Repo) -> None:
    told = shop.until(CHECK, shop.agent(LIES), code=1)
    command = told.split("→ agenttalk ", 1)[1].splitlines()[0].split()
    assert "'check' failed" in "".join(shop.run(*command, code=0))


def list_branches(repo: Repo) -> list[str]:
    return git(repo.top, "branch", "--format=%(refname:short)").split()


def test_what_proves_nothing_leaves_no_branch(shop: Repo) -> None:
    ready = shop.folder / "ready"
    later = f"if pathlib.Path({str(ready)!r}).exists():\n    {FIXES}"
    shop.until(CHECK, shop.agent(later), "--rounds", "1", code=1)
    assert list_branches(shop) == ["main"]
    shop.until("true", shop.agent(FIXES), code=2)
    shop.until("no-such-program --all", shop.agent(FIXES), code=2)
    assert list_branches(shop) == ["main"]
    ready.touch()
    told = shop.json(CHECK, shop.agent(later), "--rounds", "1")
    assert list_branches(shop) == [told["branch"], "main"]


@pytest.mark.parametrize(
    ("what", "left"), [("git switch -q {0}", True), ("git branch -f {0} side", True), ("git branch -D {0}", False)]
)
@pytest.mark.rest
def test_a_branch_that_others_use_or_moved_is_left(shop: Repo, what: str, left: bool) -> None:
    git(shop.top, "switch", "-qc", "side")
    git(shop.top, "commit", "-q", "--allow-empty", "-m", "aside")
    git(shop.top, "switch", "-q", "main")
    text = f"""
import subprocess
with open({str(shop.folder / "rounds")!r}, "a") as rounds:
    rounds.write("x")
def git(*args):
    return subprocess.run(["git", "-C", {str(shop.top)!r}, *args], check=True, capture_output=True, text=True).stdout
[branch] = git("branch", "--list", "agenttalk/*", "--format=%(refname:short)").split()
git(*{what!r}.format(branch).split()[1:])
"""
    shop.until(CHECK, shop.agent(text), "--rounds", "1", "--sandbox", "plain", code=1)
    assert (shop.folder / "rounds").read_text() == "x"
    kept = [branch for branch in list_branches(shop) if branch.startswith("agenttalk/")]
    assert bool(kept) is left


def test_a_folder_that_no_clone_has_is_refused(shop: Repo) -> None:
    (shop.top / "empty").mkdir()
    ran = shop.agent(writes("", str(shop.folder / "ran")))
    told = shop.until(CHECK, ran, "--sandbox", "plain", code=2, cwd=shop.top / "empty")
    assert "the clone will not have the folder 'empty': git knows no file in it" in told
    assert "go to the top of the repository" in told
    assert not (shop.folder / "ran").exists()
    (shop.top / "empty" / "new.txt").touch()
    shop.until("test -f new.txt && test -f ../made", shop.agent(writes("", "../made")), cwd=shop.top / "empty")


def test_the_time_that_is_told_is_that_of_the_whole_run(shop: Repo) -> None:
    slow = f"{sys.executable} -c 'import time; time.sleep(0.7)'; {CHECK}"
    told = shop.until(slow, shop.agent(FIXES))
    assert float(told.split("(round 1 of 4; ")[1].split(" s")[0]) > 1.4


def test_the_agent_gets_what_is_missing_and_goes_on(shop: Repo) -> None:
    told = shop.json(CHECK, shop.agent(AT_LAST))
    assert (told["result"], told["rounds"]) == ("proven", 2)


@pytest.mark.rest
def test_rounds_end_it(shop: Repo) -> None:
    told = shop.json(CHECK, shop.agent(AT_LAST), "--rounds", "1", code=1)
    assert (told["result"], told["rounds"], told["branch"]) == ("not proven", 1, None)


def test_the_same_failure_with_nothing_changed_ends_it_early(shop: Repo) -> None:
    told = shop.json(CHECK, shop.agent(LIES), "--rounds", "9", code=1)
    assert told["rounds"] == 2
    assert "the same issues came back unchanged" in told["reason"]


def test_the_tests_of_the_check_are_protected(shop: Repo) -> None:
    cheats = writes("import unittest\n", "test_price.py")
    told = shop.json(CHECK, shop.agent(cheats), "--rounds", "1", code=1)
    assert told["branch"] is None
    assert untouched(shop)


@pytest.mark.rest
def test_tests_may_be_changed_when_that_is_allowed(shop: Repo) -> None:
    changes = writes(SUITE.replace("80", "0"), "test_price.py")
    told = shop.json(CHECK, shop.agent(changes), "--allow-tests")
    assert "assertEqual(price(2), 0)" in shop.show(told["branch"], "test_price.py")


@pytest.mark.rest
def test_more_can_be_protected(shop: Repo) -> None:
    told = shop.until(CHECK, shop.agent(FIXES), "--protect", "price.py", "--rounds", "1", code=1)
    assert "protected  price.py, test_price.py" in told


@pytest.mark.rest
def test_only_the_scope_may_change(shop: Repo) -> None:
    wide = f"{FIXES}\n{writes('more', 'other.txt')}"
    told = shop.until(CHECK, shop.agent(wide), "--scope", "price.py", "--rounds", "1", code=1)
    assert "scope      price.py" in told
    assert "other.txt" in told
    assert shop.json(CHECK, shop.agent(FIXES), "--scope", "price.py")["result"] == "proven"


def test_what_is_green_before_the_work_proves_nothing(shop: Repo) -> None:
    ran = f"{writes('', str(shop.folder / 'ran'))}"
    told = shop.until("true", shop.agent(ran), code=2)
    assert "nothing to prove: the check passes before the work" in told
    assert not (shop.folder / "ran").exists()
    assert shop.json("test -f price.py", shop.agent(FIXES), "--already-green", "ok")["result"] == "proven"


def test_a_check_that_cannot_run_is_bad_usage(shop: Repo) -> None:
    told = shop.until("no-such-program --all", shop.agent(FIXES), code=2)
    assert "cannot run before the work" in told
    assert "'no-such-program --all' printed:" in told
    said = told.split("✗ the check")[-1]
    assert "--prepare" in said
    assert "workspace." not in said


def test_an_agent_that_is_not_installed_is_named_with_how_to_install_it(shop: Repo) -> None:
    bare = {"PATH": "/usr/bin:/bin"}
    told = shop.until(CHECK, ["qwen", "-p", "Fix it"], code=2, more=bare)
    assert "'qwen' was not found" in told
    assert "npm install -g @qwen-code/qwen-code" in told
    assert "'./gone.sh' was not found" in shop.until(CHECK, ["./gone.sh"], code=2)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["until", CHECK], "no command is named"),
        (["until", "  ", "--", "true"], "the check is empty"),
        (["until", CHECK, "--rounds", "0", "--", "true"], "--rounds"),
        (["until", CHECK, "--", "claude", "--continue"], "session of an earlier run"),
        (["until", CHECK, "--link", "gone", "--", "true"], "gone"),
        (["until", CHECK, "--env", "RATE=40", "--", "true"], "cannot be handed over"),
        (["until", CHECK, "--env", "NOT_THERE", "--", "true"], "is not set"),
        (["until", "pytest 'x", "--", "true"], "the shell cannot read the check"),
        (["until", CHECK, "--usd", "0", "--", "true"], "--usd 0 allows no work"),
        (["until", CHECK, "--usd", "inf", "--", "true"], "--usd inf allows no work"),
        (["until", CHECK, "--minutes", "0", "--", "true"], "--minutes 0 allows no work"),
        (["until", CHECK, "--protect", "", "--", "true"], "--protect: '' is not a glob: it is empty"),
        (["until", CHECK, "--scope", "../x", "--", "true"], "--scope: '../x' is not a glob"),
        (["until", CHECK, "--take", "cheapest", "--", "true"], "--take cheapest needs --race"),
        (["until", CHECK, "--already-green", "no", "--", "true"], "--already-green"),
        (["until", CHECK, "--sandbox", "none", "--", "true"], "--sandbox"),
    ],
)
def test_bad_usage_is_told_in_a_sentence(shop: Repo, arguments: list[str], why: str) -> None:
    assert why in "".join(shop.run(*arguments, code=2))


@pytest.mark.rest
def test_it_needs_a_repository_with_a_commit(shop: Repo) -> None:
    for name in ("plain", "empty"):
        (shop.folder / name).mkdir()
    git(shop.folder / "empty", "init", "-q")
    told = shop.until(CHECK, ["true"], code=2, cwd=shop.folder / "plain")
    assert "is in no work tree of a git repository" in told
    told = shop.until(CHECK, ["true"], code=2, cwd=shop.folder / "empty")
    assert "has no commit yet" in told


def test_uncommitted_work_is_taken_along_and_told(shop: Repo) -> None:
    (shop.top / "rate.py").write_text("RATE = 40\n")
    uses = writes("from rate import RATE\n\n\ndef price(n):\n    return RATE * n\n")
    told = shop.until(CHECK, shop.agent(uses))
    assert "with 1 uncommitted file" in told
    assert "proven" in told
    assert git(shop.top, "status", "--porcelain") == "?? rate.py"


@pytest.mark.rest
@pytest.mark.parametrize("inside", ["", "lib/deep"])
def test_the_next_command_works_beside_uncommitted_work(tmp_path: Path, inside: str) -> None:
    shop = make_repo(tmp_path, files={"lib/deep/note.txt": "a"})
    (shop.top / "rate.py").write_text("RATE = 40\n")
    (shop.top / "test_price.py").write_text(f"{SUITE}# mine\n")
    up = "/".join(".." for part in inside.split("/") if part) or "."
    fixes = writes("from rate import RATE\n\n\ndef price(n):\n    return RATE * n\n", f"{up}/price.py")
    told = shop.until(f"cd {up} && {CHECK}", shop.agent(fixes), cwd=shop.top / inside)
    command = told.split("→ ")[1].splitlines()[0]
    assert command.startswith("git show --binary agenttalk/")
    subprocess.run(["/bin/sh", "-c", command], cwd=shop.top / inside, check=True)
    assert "RATE * n" in (shop.top / "price.py").read_text()
    assert git(shop.top, "status", "--porcelain").split("\n") == ["M price.py", " M test_price.py", "?? rate.py"]


@pytest.mark.rest
def test_an_odd_place_works(tmp_path: Path) -> None:
    repo = make_repo(tmp_path, "mein schöner Läden")
    assert repo.json(CHECK, repo.agent(FIXES))["result"] == "proven"


@pytest.mark.rest
def test_a_detached_head_works(shop: Repo) -> None:
    git(shop.top, "checkout", "-q", "--detach")
    told = shop.until(CHECK, shop.agent(FIXES))
    assert "(no branch)" in told
    assert "proven" in told


@pytest.mark.rest
def test_a_shallow_clone_and_a_linked_work_tree_work(shop: Repo) -> None:
    (shop.top / "note.md").write_text("more")
    git(shop.top, "add", ".")
    git(shop.top, "commit", "-qm", "more")
    git(shop.folder, "clone", "-q", "--depth", "1", f"file://{shop.top}", "shallow")
    git(shop.top, "worktree", "add", "-q", "-b", "side", str(shop.folder / "linked"))
    for name in ("shallow", "linked"):
        assert shop.json(CHECK, shop.agent(FIXES), cwd=shop.folder / name)["result"] == "proven"


def test_a_start_in_a_subfolder_works_from_there(tmp_path: Path) -> None:
    repo = make_repo(tmp_path, files={"inner/price.py": WRONG, "inner/test_price.py": SUITE})
    inner = repo.top / "inner"
    told = repo.json(CHECK, repo.agent(FIXES), cwd=inner)
    assert git(repo.top, "diff", "--name-only", "main", told["branch"]) == "inner/price.py"


@pytest.mark.rest
def test_a_program_of_the_repository_and_one_beside_it_are_found(shop: Repo) -> None:
    beside = shop.folder / "beside.sh"
    beside.write_text("#!/bin/sh\nsh ./fix.sh\n")
    beside.chmod(0o755)
    (shop.top / "fix.sh").write_text("printf 'def price(n):\\n    return 40 * n\\n' > price.py\n")
    assert shop.json(CHECK, ["sh", "./fix.sh"])["result"] == "proven"
    assert shop.json(CHECK, ["../beside.sh"])["result"] == "proven"


def test_the_proven_work_is_merged_when_that_is_wanted(shop: Repo) -> None:
    told = shop.until(CHECK, shop.agent(FIXES), "--merge")
    assert "merged into main" in told
    assert (shop.top / "price.py").read_text() == RIGHT
    assert git(shop.top, "status", "--porcelain") == ""


@pytest.mark.rest
def test_a_merge_needs_a_clean_work_tree_and_a_branch_before_the_agent_starts(shop: Repo) -> None:
    (shop.top / "price.py").write_text("mine\n")
    told = shop.until(CHECK, shop.agent(FIXES), "--merge", code=2)
    assert "--merge needs a clean work tree" in told
    git(shop.top, "checkout", "-q", "--detach")
    assert "--merge needs a branch" in shop.until(CHECK, shop.agent(FIXES), "--merge", code=2)
    assert (shop.top / "price.py").read_text() == "mine\n"


@pytest.mark.rest
def test_what_cannot_be_merged_waits_for_a_person(shop: Repo) -> None:
    spoils = f"{FIXES}\npathlib.Path({str(shop.top / 'price.py')!r}).write_text('mine')"
    shown = shop.until(CHECK, shop.agent(LIES), "--sandbox", "plain", code=1)
    assert "sandbox    none" in shown
    told = shop.json(CHECK, shop.agent(spoils), "--merge", "--sandbox", "plain", code=3)
    assert told["result"] == "proven"
    assert told["merge"]["ok"] is False
    assert (shop.top / "price.py").read_text() == "mine"


@pytest.mark.rest
def test_the_same_again_after_a_proof_tells_it_and_does_nothing(shop: Repo) -> None:
    counts = f"{FIXES}\nopen({str(shop.folder / 'ran')!r}, 'a').write('x')"
    first = shop.json(CHECK, shop.agent(counts), "--sandbox", "plain")
    again = shop.json(CHECK, shop.agent(counts), "--sandbox", "plain")
    assert (again["result"], again["commit"]) == ("proven", first["commit"])
    assert (shop.folder / "ran").read_text() == "x"
    git(shop.top, "branch", "-qD", first["branch"])
    anew = shop.json(CHECK, shop.agent(counts), "--sandbox", "plain")
    assert anew["branch"] != first["branch"]
    assert (shop.folder / "ran").read_text() == "xx"


@pytest.mark.rest
def test_the_same_again_after_a_failure_is_another_try(shop: Repo) -> None:
    ready = shop.folder / "ready"
    later = f"if pathlib.Path({str(ready)!r}).exists():\n    {FIXES}"
    assert shop.json(CHECK, shop.agent(later), "--sandbox", "plain", code=1)["result"] == "not proven"
    ready.touch()
    assert shop.json(CHECK, shop.agent(later), "--sandbox", "plain")["result"] == "proven"


def test_it_goes_on_after_a_kill(shop: Repo) -> None:
    mark, go = shop.folder / "started", shop.folder / "go"
    slow = f"""
import time
pathlib.Path({str(mark)!r}).touch()
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.02)
{FIXES}"""
    command = ["until", "--sandbox", "plain", CHECK, "--", *shop.agent(slow)]
    started = subprocess.Popen(
        [sys.executable, "-m", "agenttalk", *command],
        cwd=shop.top,
        env=shop.variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + PATIENCE
    while not mark.exists():
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGKILL)
    started.wait()
    go.touch()
    told = json.loads(shop.run("until", "--json", *command[1:], code=0)[0])
    assert told["result"] == "proven"
    assert len([*(shop.state / "runs").glob("*/*")]) == 1


@pytest.mark.rest
def test_two_at_once_in_one_repository_do_not_disturb_each_other(shop: Repo) -> None:
    commands = [
        ["until", "--json", CHECK, "--", *shop.agent(FIXES, name="one")],
        ["until", "--json", f"{CHECK} -v", "--", *shop.agent(FIXES, name="two")],
    ]
    both = [
        subprocess.Popen(
            [sys.executable, "-m", "agenttalk", *command],
            cwd=shop.top,
            env=shop.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    told = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in both]
    assert [each["result"] for each in told] == ["proven", "proven"]
    assert told[0]["branch"] != told[1]["branch"]


def test_a_dispute_of_the_check_by_its_agent_waits_for_a_person(shop: Repo) -> None:
    disputes = f"""
import subprocess
subprocess.run([{sys.executable!r}, "-P", "-m", "agenttalk", "dispute", os.environ["AGENTTALK_TASK_ID"], "check",
    "--reason", "two cost 90 by the new list"], check=True)
"""
    told = shop.json(CHECK, shop.agent(disputes), code=3)
    assert told["result"] == "waiting"
    assert "two cost 90 by the new list" in told["reason"]
    shown = shop.until(CHECK, shop.agent(disputes), code=3)
    assert "two cost 90 by the new list" in shown
    assert f"agenttalk inbox --root {told['root']}" in shown


@pytest.mark.rest
def test_minutes_end_it(shop: Repo) -> None:
    told = shop.json(CHECK, shop.agent("import time\ntime.sleep(600)"), "--minutes", "0.02", code=1)
    assert told["result"] == "not proven"


def test_variables_that_are_named_reach_the_agent(shop: Repo) -> None:
    text = "assert os.environ.get('RATE') == '40'\nassert 'OTHER' not in os.environ\n" + FIXES
    more = {"RATE": "40", "OTHER": "x"}
    assert shop.json(CHECK, shop.agent(text), "--env", "RATE", more=more)["result"] == "proven"


def test_the_feedback_is_put_into_arguments(shop: Repo) -> None:
    text = f"if 'failed' in sys.argv[1]:\n    {FIXES}"
    told = shop.json(CHECK, [*shop.agent(text), "{feedback}"])
    assert (told["result"], told["rounds"]) == ("proven", 2)


@pytest.mark.rest
def test_the_state_lies_outside_and_is_private(shop: Repo) -> None:
    shop.until(CHECK, shop.agent(FIXES))
    assert oct(shop.state.stat().st_mode & 0o777) == "0o700"
    told = shop.until(CHECK, ["true"], code=2, more={"AGENTTALK_STATE": str(shop.top / "state")})
    assert "lies in" in told


@pytest.mark.rest
def test_what_the_user_has_git_ignore_everywhere_is_not_taken_along(shop: Repo) -> None:
    home = shop.folder / "home"
    (home / ".gitconfig").write_text("[core]\n  excludesFile = ~/ignored\n")
    (home / "ignored").write_text("*.secret\n")
    (shop.top / "key.secret").write_text("hush")
    told = shop.until(CHECK, shop.agent(FIXES))
    assert "uncommitted" not in told
    branch = git(shop.top, "branch", "--list", "agenttalk/*", "--format=%(refname:short)")
    assert "key.secret" not in git(shop.top, "ls-tree", "-r", "--name-only", branch)


@pytest.mark.rest
def test_what_a_clone_lacks_is_told(shop: Repo) -> None:
    repository(shop.folder / "lib", {"lib.py": ""})
    git(shop.top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(shop.folder / "lib"), "lib")
    (shop.top / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    git(shop.top, "add", ".gitattributes")
    pointer = git(shop.top, "hash-object", "-w", "--no-filters", ".gitattributes")
    git(shop.top, "update-index", "--add", "--cacheinfo", f"100644,{pointer},data.bin")
    git(shop.top, "commit", "-qm", "more")
    (shop.top / "data.bin").write_bytes((shop.top / ".gitattributes").read_bytes())
    told = shop.until(CHECK, shop.agent(FIXES), code=0)
    assert "the clone has no files of submodules: lib" in told
    assert "pointers instead of files of Git LFS: data.bin" in told
    assert "proven" in told
    (shop.top / "data.bin").write_text("changed")
    told = shop.until(CHECK, shop.agent(FIXES), code=2)
    assert "cannot be taken along: git would run a filter on data.bin" in told


@pytest.mark.rest
def test_a_merge_that_is_under_way_is_told(shop: Repo) -> None:
    git(shop.top, "switch", "-qc", "side")
    (shop.top / "price.py").write_text("one\n")
    git(shop.top, "commit", "-qam", "one")
    git(shop.top, "switch", "-q", "main")
    (shop.top / "price.py").write_text("two\n")
    git(shop.top, "commit", "-qam", "two")
    subprocess.run(["git", "merge", "-q", "side"], cwd=shop.top, check=False, capture_output=True)
    assert "a merge is under way" in shop.until(CHECK, ["true"], code=2)


@pytest.mark.rest
def test_the_exit_code_of_an_agent_decides_nothing(shop: Repo) -> None:
    told = shop.json(CHECK, shop.agent(f"{AT_LAST}\nsys.exit(3)"))
    assert (told["result"], told["rounds"]) == ("proven", 2)
    told = shop.json(CHECK, ["sh", "-c", "no-such-thing"], code=1)
    assert "exit code 127" in told["reason"]


def test_an_agent_that_failed_and_changed_nothing_is_the_reason(shop: Repo) -> None:
    told = shop.until(CHECK, ["sh", "-c", "echo no key is set >&2; exit 2"], code=1)
    assert "exit code 2: no key is set" in told.split("✗ not proven")[1]
    assert "round 1 of 4" in told


@pytest.mark.rest
def test_ctrl_c_ends_it_and_the_same_again_goes_on(shop: Repo) -> None:
    mark, go = shop.folder / "started", shop.folder / "go"
    slow = f"""
import time
pathlib.Path({str(mark)!r}).touch()
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.02)
{FIXES}"""
    command = ["until", "--sandbox", "plain", CHECK, "--", *shop.agent(slow)]
    started = subprocess.Popen(
        [sys.executable, "-m", "agenttalk", *command],
        cwd=shop.top,
        env=shop.variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not mark.exists():
        assert time.monotonic() < deadline
        assert started.poll() is None
        time.sleep(0.02)
    started.send_signal(signal.SIGINT)
    told, _ = started.communicate(timeout=PATIENCE)
    assert started.returncode == 130
    assert "run the same command again" in told
    assert list_branches(shop) == ["main"]
    go.touch()
    assert shop.json(CHECK, shop.agent(slow), "--sandbox", "plain")["result"] == "proven"


def test_a_question_after_the_last_round_is_the_end_only_when_the_plan_has_ended() -> None:
    """A person may answer it later. Until the plan has ended, its result is not known."""
    over = partial(_is_over, watch=False, until_asked=True)
    task = {"state": "WAITING_HUMAN"}
    asked: Any = {"questions": ["q1"], "result": "running", "state": "RUNNING", "closing": None, "tasks": [task]}
    assert over(asked)
    assert not over(asked | {"tasks": [{"state": "FAILED"}]}), "the end of the plan follows"
    assert not over(asked | {"closing": "the proofs of the plan are checked once more"})
    assert over(asked | {"result": "failed", "state": "ENDED"})
    assert not over(asked | {"questions": []})


DECEIVES = RIGHT + "\n\nclass Any(int):\n    def __eq__(self, other):\n        return True\n"


def test_a_person_sees_lines_that_could_deceive_the_check(shop: Repo) -> None:
    cheat = shop.agent(writes(DECEIVES))
    told = shop.json(CHECK, cheat, code=3)
    assert (told["result"], told["branch"]) == ("waiting", None)
    [question] = json.loads(shop.run("inbox", "--json", "--root", told["root"], code=0)[0])["requests"]
    assert "price.py:6 [always-equal]" in question["request"]["title"]
    assert "return True" in json.dumps(question["request"]["needed"]["criteria"])
    said = (question["request"]["request_id"], "--seen", question["sha256"], "--root", told["root"])
    shop.run("approve", *said, code=0)
    assert shop.json(CHECK, cheat)["result"] == "proven"


@pytest.mark.rest
def test_lines_that_could_deceive_the_check_are_refused_or_noted_as_said(shop: Repo) -> None:
    cheat = shop.agent(writes(DECEIVES))
    told = shop.json(CHECK, cheat, "--suspicion", "refuse", "--rounds", "1", code=1)
    assert "price.py:6 [always-equal]" in told["reason"]
    assert shop.json(CHECK, cheat, "--suspicion", "note")["result"] == "proven"
