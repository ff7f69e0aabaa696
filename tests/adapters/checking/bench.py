"""A checkout to make checks in, with or without the sandbox, and to see what they leave behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agenttalk.adapters.checking.checker import Checker, CheckFacts, CheckoutFactory
from agenttalk.adapters.checking.command import CheckContext, CheckLimits
from agenttalk.adapters.drivers import keeper
from agenttalk.adapters.drivers.processes import LocalProcesses
from agenttalk.adapters.drivers.script import ScriptDriver
from agenttalk.adapters.http_client import Resolve, resolve_host
from agenttalk.adapters.mailbox.fsio import SafeFolder
from agenttalk.contracts.agent import Tier
from agenttalk.contracts.promise import AnyCheck, CompletionPromise
from agenttalk.ports.agents import Driver
from agenttalk.rules.proof.evidence import CheckResult
from agenttalk.wiring import RandomIds, SystemClock
from kits.provekit import PYTEST_ALONE

PYTEST = f"{PYTEST_ALONE} --junitxml=r.xml"
HERE = (Path(sys.prefix),)
"""Where the interpreter lies, which may be in a folder for temporary files."""
GOOD = '<testsuite><testcase classname="t" name="a"/></testsuite>'


def check(kind: str, **fields: Any) -> AnyCheck:
    body = {"id": "cp-1-abcd", "objective": "o", "acceptance": [], "checks": [{"id": "c", "kind": kind, **fields}]}
    return CompletionPromise.read(body).checks[0]


@dataclass(frozen=True)
class Bench:
    """One checkout."""

    path: Path
    tier: Tier = "plain"
    context: CheckContext = field(
        default_factory=lambda: CheckContext(path=os.environ["PATH"], limits=CheckLimits(seconds=300), readable=HERE)
    )
    resolve: Resolve = resolve_host
    driver: Driver = field(default_factory=lambda: ScriptDriver(LocalProcesses(), grace=0.2))

    seen: Path | None = None
    """The checkout, if it is an overlay."""

    @property
    def checkout(self) -> Path:
        return self.seen or self.path / "checkout"

    @property
    def isolated(self) -> bool:
        return self.tier != "plain"

    def write(self, **files: str) -> None:
        """Files by their names, with `_` for a dot and `__` for a slash."""
        for name, text in files.items():
            path = self.checkout / name.replace("__", "/").replace("_", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def checker(self) -> Checker:
        return Checker(self.driver, SystemClock(), RandomIds(), resolve=self.resolve)

    def make(
        self, made: AnyCheck, facts: CheckFacts | None = None, *, again: CheckoutFactory | None = None, **said: Any
    ) -> CheckResult:
        """Make a check, as an engine would have it."""
        context = replace(self.context, **{"sandbox": self.tier, **said})

        async def whole() -> CheckResult:
            with SafeFolder.open(self.checkout) as folder:
                return await self.checker().check(
                    made, folder, facts or CheckFacts(tree="sha256:t"), context, again=again
                )

        return asyncio.run(whole())

    def run(self, script: str, *, context: dict[str, Any] | None = None, **fields: Any) -> CheckResult:
        """A check that runs a shell script."""
        return self.make(check("run", run=script, **fields), **(context or {}))

    def suite(
        self, script: str, facts: CheckFacts | None = None, again: CheckoutFactory | None = None, **fields: Any
    ) -> CheckResult:
        """A check that runs a suite which reports to r.xml."""
        return self.make(check("tests", **{"run": script, "junit": "r.xml", **fields}), facts, again=again)

    def copy(self, name: str, of: str = "checkout") -> Path:
        """A copy of a checkout, beside it."""
        source = self.checkout if of == "checkout" else self.path / of
        return Path(shutil.copytree(source, self.path / name, symlinks=True))

    def left_behind(self) -> list[int]:
        """Processes that still work below the folder; they are ended, so that they disturb no other test."""
        folders = [path for path in (self.path, *self.path.rglob("*")) if path.is_dir() and not path.is_symlink()]
        places = {(status.st_dev, status.st_ino) for status in map(Path.stat, folders)}
        left = []
        for pid in set(keeper.list_processes()) - {os.getpid()}:
            with suppress(OSError):
                status = Path(f"/proc/{pid}/cwd").stat()
                if (status.st_dev, status.st_ino) in places:
                    left.append(pid)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left
