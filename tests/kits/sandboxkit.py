"""Which sandboxes work where the tests run, and what root runs once more as a user without rights."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agenttalk.adapters import sandbox
from agenttalk.adapters.drivers import landlock
from agenttalk.rules.core.isolation import IsolationSetting, IsolationSettings

PLAIN = IsolationSettings(IsolationSetting("plain"))
"""What the operator says in tests of engines whose subject is not isolation: their programs leave marks for the test
anywhere, and there are many turns."""
PLAIN_VARIABLE = "AGENTTALK__SANDBOX"
"""The same for engines that commands start; see `conftest`."""
BEST = IsolationSettings()
"""What an operator says who says nothing."""


@cache
def ailment(tier: str) -> str:
    """Why a sandbox does not work here."""
    return (
        sandbox.describe_problem(sandbox.find_bubblewrap())
        if tier == "bubblewrap"
        else landlock.describe_problem(network=False)
    )


def needs(tier: str) -> None:
    """Skip the test where a sandbox does not work, and say why."""
    if why := ailment(tier):
        pytest.skip(why)


HOME = Path(__file__).parents[2]
NOBODY = 65534
"""A user without rights, and without files of its own."""
OPEN = """
set -e
umask 022
for each in $WAYS; do mkdir -p "$STAGE/$each"; mount --bind "$each" "$STAGE/$each"; done
for each in $CLOSED; do mount -t tmpfs -o mode=755 none "$each"; done
for each in $WAYS; do mkdir -p "$each"; mount --bind "$STAGE/$each" "$each"; done
exec setpriv --reuid=$USER_ID --regid=$USER_ID --clear-groups --bounding-set=-all --inh-caps=-all "$@"
"""
"""Opens the ways to what a user needs, seen by nobody else, and becomes that user."""


@contextmanager
def another_user() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A folder of another user, and how root starts something as that user. Others are such a user already."""
    if os.getuid():
        pytest.skip("these tests run without the rights of root anyway")
    with TemporaryDirectory(prefix=".user-", dir=HOME) as top, TemporaryDirectory() as stage:
        ways = [Path(sys.base_prefix), Path(sys.prefix), HOME, Path(top)]
        above = {parent for way in ways for parent in way.parents if not parent.stat().st_mode & stat.S_IXOTH}
        closed = sorted(each for each in above if not above & set(each.parents))
        behind = [way for way in ways if any(each in way.parents for each in closed)]
        said: dict[str, list[Any]] = {"WAYS": behind, "CLOSED": closed, "STAGE": [stage], "USER_ID": [NOBODY]}
        known = [f"{name}={' '.join(map(str, values))}" for name, values in said.items()]
        before = ("unshare", "--mount", "--propagation", "private", "env", *known, "sh", "-c", OPEN, "sh")
        for each in (Path(top), Path(stage)):
            each.chmod(0o755)
        tried = subprocess.run(
            [*before, sys.executable, "-m", "agenttalk", "--version"], check=False, capture_output=True, text=True
        )
        if tried.returncode:
            pytest.skip(f"root cannot start the program as another user here: {tried.stderr.strip()}")
        yield Path(top), before


def run_tests_as_another_user(*words: str) -> int:
    """Run tests, named by paths below `tests` and options of pytest, and return how many passed. All have to."""
    told = {key: value for key, value in os.environ.items() if not key.startswith(("AGENTTALK", "PYTEST"))}
    with another_user() as (top, before):
        (top / "temporary").mkdir()
        for each in (top, top / "temporary"):
            os.chown(each, NOBODY, NOBODY)
        env = {
            **told,
            "HOME": str(top),
            "TMPDIR": str(top / "temporary"),
            "XDG_RUNTIME_DIR": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        options = ["-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_cov.plugin"]
        paths = [str(HOME / "tests" / word) if word.endswith(".py") else word for word in words]
        command = [*before, sys.executable, *options, "--basetemp", str(top / "made"), *paths]
        done = subprocess.run(command, env=env, cwd=HOME, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    return int(re.findall(r"(\d+) passed", done.stdout)[-1])
