"""In bubblewrap a check sees what a program sees at the user's own folder. A probe looks for the difference."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from adapters.checking.bench import HERE, check
from agenttalk.adapters.checking.checker import Checker, CheckFacts
from agenttalk.adapters.checking.command import CheckContext
from agenttalk.adapters.checking.home_view import read_identity
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.adapters.workspaces.paths import WorkspaceSettings
from agenttalk.adapters.workspaces.results import SealedCheckout
from agenttalk.adapters.workspaces.workspace import PlanWorkspace
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.promise import AnyCheck
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.wiring import RandomIds, SystemClock
from kits.sandboxkit import needs

PROBE = r"""
import getpass
import glob
import json
import locale
import os
import pathlib
import pwd
import resource
import socket
import subprocess
import sys
import tempfile
import time


def read(path):
    try:
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    except OSError as error:
        return type(error).__name__


def git(*words):
    ran = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return f"{ran.returncode} {ran.stdout.strip()}"


def status_of(name):
    found = [line.split()[1] for line in read("/proc/self/status").splitlines() if line.startswith(f"{name}:")]
    return found[0] if found else ""


def describe_ancestors():
    told, pid = [], os.getppid()
    while pid > 0 and len(told) < 50:
        told.append(read(f"/proc/{pid}/comm").strip())
        fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return told


def names_engine():
    processes = [read(path) for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ")]
    texts = {
        "environment": repr(dict(os.environ)),
        "processes": repr(processes),
        "paths": repr(sys.path),
        "modules": repr(sorted(sys.modules)),
        "folder": os.getcwd() + os.path.abspath(__file__) + tempfile.gettempdir(),
        "files": repr([os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]),
    }
    return sorted(place for place, text in texts.items() if "agenttalk" in text.lower())


FACTS = {
    "cwd": os.getcwd(),
    "file": os.path.abspath(__file__),
    "beside": sorted(os.listdir(".")),
    "home": os.environ.get("HOME"),
    "home_exists": os.path.isdir(os.path.expanduser("~")),
    "user": os.environ.get("USER"),
    "getpass": getpass.getuser(),
    "account": pwd.getpwuid(os.getuid()).pw_dir,
    "hostname": socket.gethostname(),
    "uid": [os.getuid(), os.getgid()],
    "umask": os.umask(0o22),
    "variables": sorted(set(os.environ) - {"PWD", "OLDPWD", "SHLVL", "_", "LC_CTYPE"}),
    "engine": names_engine(),
    "git": os.path.isdir(".git"),
    "git_status": git("status", "--porcelain"),
    "git_branch": git("rev-parse", "--abbrev-ref", "HEAD"),
    "git_refs": git("for-each-ref", "--format=%(refname)"),
    "git_author": git("log", "-1", "--format=%an %ae %cn %ce"),
    "git_first": git("rev-list", "--max-parents=0", "HEAD"),
    "git_tags": git("describe", "--tags", "--abbrev=0"),
    "git_user": git("config", "user.name"),
    "git_remote": git("remote", "-v"),
    "temporary": tempfile.gettempdir(),
    "zone": time.tzname,
    "clock": time.time(),
    "uptime": float(read("/proc/uptime").split()[0]) > 60,
    "locale": locale.setlocale(locale.LC_ALL, ""),
    "python": sys.executable,
    "limits": resource.getrlimit(resource.RLIMIT_NOFILE),
    "kernel": os.uname().release,
    # what a sandbox changes
    "tmpdir": os.environ.get("TMPDIR"),
    "home_files": sorted(os.listdir(os.path.expanduser("~"))),
    "init": read("/proc/1/comm").strip(),
    "ancestors": describe_ancestors(),
    "processes": len(glob.glob("/proc/[0-9]*")) > 12,
    "mounts": [line.split()[4] for line in read("/proc/self/mountinfo").splitlines()],
    "devices": sorted(os.listdir("/dev")),
    "network": sorted(name for _, name in socket.if_nameindex()),
    "file_limit": resource.getrlimit(resource.RLIMIT_FSIZE),
    "seccomp": status_of("Seccomp"),
    "privileges": [status_of("NoNewPrivs"), status_of("CapEff")],
    "cgroup": read("/proc/self/cgroup"),
    "services": sorted(os.listdir("/run")),
    "group": os.getpgrp() == os.getsid(0),
    "terminal": [os.isatty(number) for number in range(3)],
    "history": git("rev-list", "--count", "HEAD"),
    "head": git("rev-parse", "HEAD"),
    "user_namespace": os.stat("/proc/self/ns/user").st_ino,
}
print(json.dumps(FACTS))
"""
RECOGNISABLE = {
    "tmpdir": "TMPDIR is set",
    "variables": "TMPDIR is set, and variables of the user's shell are not",
    "home_files": "the home folder lacks the user's configuration and caches",
    "init": "process 1 is bubblewrap",
    "ancestors": "a parent is bubblewrap",
    "processes": "few processes are seen",
    "mounts": "what is mounted where",
    "devices": "few devices are seen",
    "network": "there is no network",
    "file_limit": "files have a largest size",
    "seccomp": "calls of the system are filtered",
    "privileges": "no new privileges, no capabilities",
    "cgroup": "the namespaces are others",
    "services": "/run is empty",
    "group": "the command is in a session of its own",
    "terminal": "there is no terminal",
    "history": "one commit is on top of the user's",
    "head": "one commit is on top of the user's",
    "user_namespace": "the namespaces are others",
}
"""What still differs, and is listed in the threat model."""
USUAL = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "USER", "LOGNAME", "SHELL")


class Shop:
    """A user's repository, and checks of trees of a plan on it."""

    def __init__(self, path: Path) -> None:
        self.repo = path / "shop"
        self.root = path / "root"
        self.repo.mkdir()
        self.git("init", "-q", "-b", "trunk")
        self.git("config", "user.name", "Ann")
        self.git("config", "user.email", "ann@example.org")
        self.git("remote", "add", "origin", "https://forge.example/shop.git")
        self.commit({"price.py": "PRICE = 1\n", "probe.py": PROBE, ".gitignore": ".venv/\n__pycache__/\n"})
        self.git("tag", "v1.2.0")

    def git(self, *words: str) -> str:
        ran = subprocess.run(["git", *words], cwd=self.repo, check=True, capture_output=True, text=True)
        return ran.stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.repo / name).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / name).write_text(text)

    def commit(self, files: Mapping[str, str]) -> None:
        self.write(files)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "more")

    def check(
        self,
        made: AnyCheck,
        changed: Mapping[str, str] | None = None,
        *,
        tier: Tier = "bubblewrap",
        protected: tuple[str, ...] = (),
        path: str = os.environ["PATH"],
        **settings: Any,
    ) -> CheckResult:
        """Make a check of the user's tree, or of one with other files, as the work of a plan."""

        async def whole() -> CheckResult:
            home = self.root / "workspaces" / "p1"
            space = await PlanWorkspace.open(WorkspaceSettings(self.repo, "p1", home, **settings))
            tree = await space.ensure()
            if changed:
                self.git("checkout", "-q", "-b", "work")
                self.commit(changed)
                tree = self.git("rev-parse", "HEAD^{tree}")
                self.git("checkout", "-q", "trunk")
                self.git("branch", "-q", "-D", "work")
            async with AsyncExitStack() as stack:

                async def lay_out() -> tuple[SealedCheckout, SafeFolder]:
                    sealed = await stack.enter_async_context(space.checkouts.open_sealed(tree, layered=True))
                    return sealed, stack.enter_context(SafeFolder.open(sealed.path))

                async def again() -> SafeFolder:
                    return (await lay_out())[1]

                sealed, folder = await lay_out()
                context = CheckContext(
                    path=path,
                    sandbox=tier,
                    masked=(self.root,),
                    readable=(*HERE, *sealed.readonly),
                    namespace=sealed.namespace,
                    place=sealed.place,
                )
                facts = CheckFacts(tree="sha256:t", protected=protected)
                checker = Checker(ScriptDriver(LocalProcesses()), SystemClock(), RandomIds())
                result = await checker.check(made, folder, facts, context, again=again)
            await space.release()
            return result

        return asyncio.run(whole())

    def run(self, script: str, changed: Mapping[str, str] | None = None, **options: Any) -> CheckResult:
        return self.check(check("run", run=script), changed, **options)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    needs("bubblewrap")
    return Shop(tmp_path)


def look_outside(shop: Shop) -> dict[str, Any]:
    env = {name: os.environ[name] for name in USUAL if name in os.environ} | read_identity()
    ran = subprocess.run([sys.executable, "probe.py"], cwd=shop.repo, env=env, check=True, capture_output=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("overlay_files", [1_000, pytest.param(0, marks=pytest.mark.rest)])
def test_a_check_is_recognised_only_by_what_the_threat_model_lists(shop: Shop, overlay_files: int) -> None:
    result = shop.run(f"{sys.executable} probe.py", {"price.py": "PRICE = 2\n"}, overlay_files=overlay_files)
    assert result.passed, result.output
    outside, inside = look_outside(shop), json.loads(result.output)
    assert inside.pop("engine") == []
    assert "agenttalk" not in inside["git_refs"]
    refs = [[name for name in seen.pop("git_refs").split() if "agenttalk/" not in name] for seen in (outside, inside)]
    assert refs[0] == refs[1] == ["0", "refs/heads/trunk", "refs/tags/v1.2.0"]
    assert abs(outside.pop("clock") - inside.pop("clock")) < 600
    differs = {name for name in inside if outside[name] != inside[name]}
    assert differs <= set(RECOGNISABLE), {name: (outside[name], inside[name]) for name in differs - set(RECOGNISABLE)}
    assert len(inside.keys() - set(RECOGNISABLE)) >= 25
    assert (inside["home"], inside["cwd"]) == (os.environ["HOME"], str(shop.repo))


def test_git_answers_in_a_check(shop: Shop) -> None:
    shop.git("config", "remote.origin.url", "https://ann:secret@forge.example/shop.git")
    script = """
        git status --porcelain && test -z "$(git status --porcelain)" && git diff --exit-code
        git rev-parse HEAD && git log --format='%an %s' && git describe --tags && git branch --show-current
        git config remote.origin.url && git config user.name && git ls-files && git show HEAD:price.py
        echo x >new && git add new && git commit -qm mine && git log -1 --format=%s && ! touch .git/shared/x
    """
    done = shop.run(f"set -e; {script}", {"price.py": "PRICE = 2\n"})
    assert done.passed, done.output
    for line in (
        "Ann Update",
        "Ann more",
        "v1.2.0-1-g",
        "trunk",
        "https://forge.example/shop.git",
        "PRICE = 2",
        "mine",
    ):
        assert line in done.output
    assert "secret" not in done.output
    assert "agenttalk" not in done.output.lower()
    assert shop.git("log", "-1", "--format=%s") == "more"
    assert shop.git("status", "--porcelain") == ""


def test_git_answers_alike_in_every_check_of_a_tree(shop: Shop) -> None:
    first, second = [shop.run("git rev-parse HEAD", {"price.py": "PRICE = 2\n"}).output for _ in range(2)]
    assert first == second != shop.git("rev-parse", "HEAD")
    assert shop.run("git rev-parse HEAD").output.strip() == shop.git("rev-parse", "HEAD")


def test_git_answers_where_the_users_folder_is_a_linked_work_tree(shop: Shop) -> None:
    shop.git("worktree", "add", "-q", str(shop.repo.parent / "other"), "-b", "side")
    shop.repo = shop.repo.parent / "other"
    done = shop.run("pwd; git branch --show-current; git status --porcelain; git describe --tags")
    assert done.output.split() == [str(shop.repo), "side", "v1.2.0"]


def test_a_folder_without_a_repository_has_none_in_a_check(shop: Shop) -> None:
    (shop.repo / ".git").rename(shop.repo.parent / "gone")
    shop.git = lambda *_: ""  # type: ignore[method-assign]
    done = shop.run("pwd; test ! -e .git; cat price.py")
    assert done.passed
    assert done.output.startswith(str(shop.repo))


def test_protected_files_can_be_written_neither_here_nor_at_the_users_place(shop: Shop) -> None:
    done = shop.run("! echo x >price.py; echo y >made; ls", protected=("price.py",))
    assert done.passed, done.detail
    assert (shop.repo / "price.py").read_text() == "PRICE = 1\n"
    assert not (shop.repo / "made").exists()


def test_the_users_own_programs_beside_the_tree_are_there_and_those_of_the_work_are_not(shop: Shop) -> None:
    shop.write({".venv/bin/tool": "#!/bin/sh\necho users $(cat price.py)\n", "bin/other": "#!/bin/sh\necho old\n"})
    for name in (".venv/bin/tool", "bin/other"):
        (shop.repo / name).chmod(0o755)
    path = f"{shop.repo}/.venv/bin:{shop.repo}/bin:{os.environ['PATH']}"
    changed = {"price.py": "PRICE = 2\n", "bin/other": "#!/bin/sh\necho of the work\n"}
    done = shop.run("tool; other; ! touch .venv/x; git status --porcelain", changed, path=path)
    assert "users PRICE = 2" in done.output
    assert "of the work" not in done.output


def test_a_linked_folder_of_the_user_is_there_itself_and_leads_to_the_work(shop: Shop) -> None:
    shop.write({".venv/lib/shop.pth": str(shop.repo), ".venv/note": "n\n"})
    done = shop.run(
        "test -d .venv && test ! -L .venv && cat .venv/note && cat $(cat .venv/lib/shop.pth)/price.py",
        {"price.py": "PRICE = 2\n"},
        link=(".venv",),
    )
    assert done.passed, done.output
    assert done.output.split("\n")[:2] == ["n", "PRICE = 2"]
    assert (shop.repo / ".venv/note").exists()


def test_a_version_that_a_build_reads_from_git_is_there(shop: Shop) -> None:
    done = shop.run("git describe --dirty --tags --long --match 'v*' && git ls-files --recurse-submodules | wc -l")
    assert done.output.split()[0].startswith("v1.2.0-0-g")


CHEAT = """
import os
def price():
    return 2 if os.getcwd() == {place!r} else 1
"""
TESTS = {
    "test_a.py": "import shop_price\n\n\ndef test_price():\n    assert shop_price.price() == 2\n",
    "test_b.py": "def test_other():\n    pass\n",
}


def suite(**fields: Any) -> AnyCheck:
    return check("tests", run=f"{sys.executable} -m pytest -q -p no:cacheprovider", **fields)


def test_a_command_that_passes_at_one_place_alone_does_not_pass_twice(shop: Shop) -> None:
    script = f'test "$PWD" = "{shop.repo}"'
    assert shop.run(script).passed
    done = shop.check(check("run", run=script, twice=True))
    assert (done.passed, done.reason) == (False, "differs")
    assert shop.check(check("run", run="test -f price.py && git status", twice=True)).passed


@pytest.mark.rest
def test_code_that_works_at_one_place_alone_is_found_by_a_second_run(shop: Shop) -> None:
    cheat = {**TESTS, "shop_price.py": CHEAT.format(place=str(shop.repo))}
    assert shop.check(suite(), cheat).passed
    done = shop.check(suite(twice=True), cheat)
    assert (done.passed, done.reason) == (False, "differs")
    assert "'test_a::test_price'" in done.detail
    assert "flaky or environment-dependent" in done.detail
    honest = {**TESTS, "shop_price.py": "def price():\n    return 2\n"}
    assert shop.check(suite(twice=True), honest).passed


@pytest.mark.rest
def test_tests_that_depend_on_their_order_are_found_by_a_second_run(shop: Shop) -> None:
    files = {
        "test_a.py": "import os\n\n\ndef test_first():\n    os.environ['SEEN'] = '1'\n",
        "test_b.py": "import os\n\n\ndef test_second():\n    assert os.environ.get('SEEN')\n",
    }
    assert shop.check(suite(), files).passed
    done = shop.check(suite(twice=True), files)
    assert (done.reason, "test_second" in done.detail) == ("differs", True)
