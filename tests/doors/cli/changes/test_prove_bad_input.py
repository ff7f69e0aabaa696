"""What `agenttalk prove` refuses, and the sentence that says what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from doors.cli.changes import shopkit
from doors.cli.changes.shopkit import NEW_TEST, TAXED, Shop
from kits import provekit

FEATURE = {"price.py": TAXED, "tests/test_taxed.py": NEW_TEST}


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return shopkit.open_shop(tmp_path)


def refused(shop: Shop, *arguments: str, cwd: Path | None = None) -> str:
    found = shop.call(*arguments, cwd=cwd)
    assert found.code == 2, found
    assert found.out == ""
    return found.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--base", "nowhere"], "has no commit 'nowhere'"),
        (["--head", "-x"], "has no commit '-x'"),
        (["--head", "main", "--pr", "3"], "name one work"),
        (["--pr", "first"], "is not a pull request"),
        (["--scope", "../x"], "is not a glob"),
        (["--env", "no value"], "is not NAME=VALUE"),
        (["--link", "../other"], "there is no such path"),
        (["--check", " "], "--check is empty"),
        (["--format", "pdf"], "--format"),
        (["--timeout", "0"], "--timeout"),
        ([], "there is nothing to prove: the work is the same as its base"),
    ],
)
def test_bad_options_are_refused_with_a_sentence(shop: Shop, arguments: list[str], said: str) -> None:
    if arguments and arguments[0] != "--base":
        shop.write(FEATURE)
    assert said in refused(shop, *arguments)


def test_a_folder_without_a_repository_or_a_commit_is_refused(shop: Shop, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is in no work tree of a git repository" in refused(shop, cwd=empty)
    provekit.git(empty, "init", "-q")
    assert "has no commit yet" in refused(shop, cwd=empty)


def test_a_repository_without_a_check_is_refused(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path, {"a.txt": "1\n"})
    shop.write({"a.txt": "2\n"})
    assert "no check was found" in refused(shop)
    found = shop.prove("--check", "no-such-program")
    assert found.code == 1
    assert "127" in found.detail("check")


@pytest.mark.rest
def test_a_check_that_only_the_work_brings_is_said(tmp_path: Path) -> None:
    shop = shopkit.open_shop(tmp_path, {"price.py": "VALUE = 1\n"})
    shop.write(FEATURE)
    found = shop.prove()
    assert any("found in the work" in each for each in found.told["unchecked"])


def test_a_shallow_clone_without_the_base_says_what_to_fetch(shop: Shop, tmp_path: Path) -> None:
    shop.git("checkout", "-q", "-b", "tax")
    for number in range(2):
        shop.write({**FEATURE, "n.py": f"N = {number}\n"})
        shop.git("add", ".")
        shop.git("commit", "-qm", "tax")
    clone = tmp_path / "clone"
    url = f"file://{shop.top}"
    subprocess.run(["git", "clone", "-q", "--depth=1", "--branch=tax", url, str(clone)], check=True)
    assert "git fetch --unshallow" in refused(shop, "--base", "main", cwd=clone)
    provekit.git(clone, "fetch", "-q", "--depth=1", "origin", "main:refs/remotes/origin/main")
    assert "git fetch --unshallow" in refused(shop, "--base", "origin/main", cwd=clone)
    provekit.git(clone, "fetch", "-q", "--unshallow", "origin")
    found = shop.prove("--base", "origin/main", cwd=clone)
    assert found.code == 0, found.out


def test_unrelated_histories_need_a_base(shop: Shop) -> None:
    shop.git("checkout", "-q", "--orphan", "other")
    shop.git("commit", "-qm", "other")
    assert "no commit in common" in refused(shop, "--base", "main")


@pytest.mark.rest
def test_submodules_and_files_of_lfs_are_said(shop: Shop, tmp_path: Path) -> None:
    provekit.repository(tmp_path / "lib", {"lib.py": "X = 1\n"})
    shop.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path / "lib"), "lib")
    shop.write({".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n"})
    shop.git("add", ".")
    shop.git("commit", "-qm", "more")
    shop.write(FEATURE)
    found = shop.prove()
    assert found.code == 0, found.out
    assert any("submodules" in each and "lib" in each for each in found.told["unchecked"])
    assert any("Git LFS" in each for each in found.told["unchecked"])
    shop.write({"big.bin": "x"})
    assert "a filter on big.bin" in refused(shop)


def test_an_interrupted_run_ends_with_130_and_leaves_nothing(shop: Shop) -> None:
    shop.write(FEATURE)
    command = [sys.executable, "-m", "agenttalk", "prove", "--check", "sleep 600"]
    left = shop.folder / "state" / "prove"
    with subprocess.Popen(command, cwd=shop.top, env=shop.environment, stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        for line in run.stderr:
            if "checking the" in line:
                break
        run.send_signal(signal.SIGINT)
        run.stderr.read()
        assert run.wait(60) == 130
    assert list(left.iterdir()) == []


@pytest.mark.rest
def test_names_that_are_no_text_are_shown_and_do_not_break(shop: Shop) -> None:
    shop.write(FEATURE)
    name = os.fsencode(shop.top) + b"/odd \xff name\n.txt"
    with open(name, "w") as odd:  # noqa: PTH123 - its name is bytes
        odd.write("x\n")
    for form in ("text", "markdown", "json", "sarif", "junit"):
        found = shop.call("--check", "grep taxed price.py", "--scope", "*.py", "--format", form)
        assert found.code == 1, found
        assert "odd" in found.out


@pytest.mark.rest
def test_a_killed_run_leaves_nothing_after_the_next(shop: Shop) -> None:
    left = shop.folder / "state" / "prove"
    (left / "0123456789abcdef").mkdir(parents=True)
    (left / "0123456789abcdef" / "file").write_text("")
    (left / "0123456789abcdef.lock").write_text("")
    shop.write({"docs/guide.md": "New.\n"})
    assert shop.prove().code == 0
    assert list(left.iterdir()) == []
