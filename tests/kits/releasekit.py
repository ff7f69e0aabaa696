"""Roots of releases as SQL text. `python tests/kits/releasekit.py` writes that of the present release, before it goes out.

What was written for a release that is out is never written again: it is what users have.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import apsw

import agenttalk
from agenttalk.adapters.store.root import list_databases
from kits.plankit import engine, plan, states, task

RELEASES = Path(__file__).parents[1] / "adapters" / "store" / "releases"
AGENTS = {"worker": {"driver": "script", "argv": ["/bin/sh", "-c", "echo well done"]}}


def loaded(release: Path, root: Path) -> None:
    """Make the root of a release out of its text."""
    for text in sorted(release.glob("**/*.sql")):
        path = root / "data" / text.relative_to(release).with_suffix(".db")
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(apsw.Connection(str(path))) as connection:
            connection.execute(text.read_text(encoding="utf-8"))


async def used(root: Path) -> None:
    """A plan of which one task is done, and one that has ended."""
    tasks = [task("one", "worker"), task("two", "worker", needs=["one"])]
    async with engine(root) as found:
        await found.submit(plan(*tasks, plan_id="ended", agents=AGENTS))
        await found.ended("ended")
        asked = [task("one", "worker"), task("ask", "ada", needs=["one"]), task("two", "worker", needs=["ask"])]
        await found.submit(plan(*asked, plan_id="open", agents={**AGENTS, "ada": {"driver": "human"}}))
        await found.asked()
        await found.dispatcher.operator.pause("open", by="ada")
        standing = await found.until(lambda _: True, "open")
        assert states(standing)["one"] == "COMPLETED"


def write(release: Path) -> None:
    """Write the present release."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        asyncio.run(used(root))
        for path in list_databases(root).values():
            text = release / path.relative_to(root / "data").with_suffix(".sql")
            text.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(path)) as connection:
                said = "\n".join(connection.iterdump()).replace(str(root), "/srv/agenttalk") + "\n"
            text.write_text(said, encoding="utf-8")


if __name__ == "__main__":
    target = RELEASES / agenttalk.__version__
    if target.exists():
        sys.exit(f"{target} is there already")
    write(target)
