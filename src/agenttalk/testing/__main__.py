"""`python3 -m agenttalk.testing forge`: runs a forge to try things, until it is interrupted.

It needs no installation, and leaves only its folder. Its tokens are there, a file for each account; the account `root`
may do everything.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agenttalk.testing.fake_gitea import FakeGitea


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and be what it asks for."""
    parser = argparse.ArgumentParser(prog="python3 -m agenttalk.testing", description="Things to try AgentTalk with.")
    forge = parser.add_subparsers(required=True).add_parser("forge", help="a small forge that speaks as Gitea does")
    forge.add_argument("--dir", type=Path, default=Path("forge"), help="where its repositories and tokens lie")
    forge.add_argument("--port", type=int, default=0, help="where it listens on 127.0.0.1; any free port by default")
    forge.add_argument("--repository", default="acme/shop", help="a repository to begin with")
    forge.add_argument("--user", action="append", default=[], help="an account that may write to it; repeatable")
    given = parser.parse_args(arguments)
    if given.dir.exists():
        parser.error(f"{given.dir} is there already; name another folder with --dir")
    asyncio.run(_serve(given.dir.absolute(), given.port, given.repository, given.user))
    return 0


async def _serve(folder: Path, port: int, repository: str, users: Sequence[str]) -> None:
    tokens = folder / "tokens"
    tokens.mkdir(mode=0o700, parents=True)
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with FakeGitea.running(folder / "repositories", port=port) as forge:
        for login, token in {"root": forge.admin, **{login: forge.user(login) for login in users}}.items():
            (tokens / login).write_text(f"{token}\n", encoding="utf-8")
        forge.repository(repository, writers=users)
        (folder / "url").write_text(f"{forge.url}\n", encoding="utf-8")
        sys.stdout.write(f"listening on {forge.url}\ntokens of {', '.join(('root', *users))} in {tokens}\n")
        sys.stdout.flush()
        await ended.wait()


if __name__ == "__main__":
    raise SystemExit(main())
