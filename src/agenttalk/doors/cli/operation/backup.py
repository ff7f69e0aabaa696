"""`agenttalk backup` and `restore`: write a root into an archive, and create a root from one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from agenttalk.wiring.settings import Settings as Configured

backup_app = typer.Typer(add_completion=False)
restore_app = typer.Typer(add_completion=False)
SHOWN = 5
"""How many of the files that were left out are named."""
SHORTEST = 8
"""Values with fewer characters are not searched for as secrets."""


@backup_app.command("backup")
def backup(
    ctx: typer.Context,
    to: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="New archive, or a folder for it.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write a root into one archive, and read it again to verify it. An engine may run meanwhile.

    The databases are consistent snapshots. The archive has no secrets: no tokens, no files that the settings name for
    secrets, and no files of agents that contain the value of one. Your own repositories are not part of a root.
    """
    from agenttalk import __version__
    from agenttalk.adapters.store.backup import backup as keeping
    from agenttalk.contracts.core.base import format_instant
    from agenttalk.wiring import SystemClock, settings

    out, folder = root_access.choose_root(ctx, root, as_json)
    configured = settings.load(folder)
    at = format_instant(SystemClock().now())
    stamp = at.replace("-", "").replace(":", "").split(".")[0].rstrip("Z")
    target = to.absolute() / f"{folder.name}-{stamp}Z.tar.gz" if to.is_dir() else to.absolute()
    asked = keeping.BackupRequest(folder, configured.store_url, *_secrets(folder, configured))
    made = keeping.make_backup(asked, target, at=at, release=__version__)
    left_out = [{"path": path, "why": why} for path, why in made.left_out]
    if out.as_json:
        size = target.stat().st_size
        out.write_json({"ok": True, "file": str(target), "bytes": size, "files": len(made.files), "left_out": left_out})
        return 0
    out.say(f"[green]✓[/] {out.text('operate.backup', file=sanitize(target), count=len(made.files))}")
    for each in left_out[:SHOWN]:
        out.say(
            f"  [yellow]![/] {out.text('operate.left_out', path=sanitize(each['path']), why=sanitize(each['why']))}"
        )
    if len(left_out) > SHOWN:
        out.say(f"  [yellow]![/] {out.text('operate.left_out_more', count=len(left_out) - SHOWN)}")
    return 0


@restore_app.command("restore")
def restore(
    ctx: typer.Context,
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="Archive from `agenttalk backup`.")],
    go_on: Annotated[
        bool, typer.Option("--go-on", help="Let plans continue at the next start. Use it only if the old root is lost.")
    ] = False,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Create a root from a backup, in a new folder. Every hash and the ledger are checked first.

    Plans that were running are paused, because they may have continued in the old root: 'agenttalk resume PLAN'
    continues one.
    """
    given = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(given)
    if given.root is None:
        raise UsageError(Code.OPTION_INVALID, "no root given", hint="pass --root FOLDER, which must not exist yet")
    told = _restored(archive.absolute(), given.root.absolute(), go_on=go_on)
    if out.as_json:
        out.write_json({"ok": True, **told})
        return 0
    words = out.text("operate.restored", root=sanitize(given.root), at=told["made_at"], count=told["files"])
    out.say(f"[green]✓[/] {words}")
    if told["turns"]:
        out.say(f"  {out.text('operate.restored_turns', count=told['turns'])}")
    if told["in_doubt"]:
        out.say(f"  {out.text('operate.restored_texts', count=told['in_doubt'])}")
    if told["schedules"]:
        names = f"[bold]{sanitize(', '.join(told['schedules']))}[/]"
        out.say(f"  {out.text('operate.restored_schedules', names=names)}")
    if told["paused"]:
        names = f"[bold]{sanitize(', '.join(told['paused']))}[/]"
        out.say(f"  {out.text('operate.restored_plans', names=names)}")
    return 0


def _restored(archive: Path, root: Path, *, go_on: bool) -> dict[str, Any]:
    """Unpack beside the root, check everything, pause the plans, and only then move the folder to its name."""
    import asyncio

    from agenttalk.adapters.store import files, operator_folder
    from agenttalk.adapters.store.backup import archive as backup_archive
    from agenttalk.adapters.store.backup import backup, postgres_dump
    from agenttalk.adapters.store.ledger_heads import forget_heads
    from agenttalk.wiring import settings

    if root.is_symlink() or (root.exists() and (not root.is_dir() or any(root.iterdir()))):
        hint = "name a folder that does not exist"
        raise UsageError(Code.FILE_UNWRITABLE, f"{root} exists already, and restore overwrites nothing", hint=hint)
    files.make_folder(root.parent)
    bench = Path(tempfile.mkdtemp(prefix=f".{root.name}-restoring-", dir=root.parent))
    try:
        manifest = backup_archive.unpack(archive, bench)
        for name in ("agents", "system_runtime"):
            (bench / name).mkdir(exist_ok=True)
        configured = settings.load(bench)
        url = configured.store_url
        if (manifest.store == "postgres") != bool(url):
            hint = "set AGENTTALK__STORE__URL" if manifest.store == "postgres" else "unset AGENTTALK__STORE__URL"
            raise UsageError(Code.OPTION_INVALID, f"this is a backup of a {manifest.store} store", hint=hint)
        if url:
            postgres_dump.load(url, bench / backup.DUMP)
            (bench / backup.DUMP).unlink()
        for report in backup.find_broken_chains(bench, manifest.heads, url):
            why = report.verdict.broken.why if report.verdict.broken else ""
            raise MachineError(Code.STORE_DAMAGED, f"the ledger of {report.chain} in the backup is damaged: {why}")
        settled = asyncio.run(
            _settled(bench, configured, manifest.made_at, operator_folder.ensure_token(root), go_on=go_on)
        )
        bench.chmod(0o755)
        try:
            bench.rename(root)
            files.sync_folder(root.parent)
        except OSError as error:
            raise files.write_error(root, error) from error
    finally:
        shutil.rmtree(bench, ignore_errors=True)
    forget_heads(root, shared=bool(url))
    return {"root": str(root), "made_at": manifest.made_at, "files": len(manifest.files), **settled}


async def _settled(root: Path, configured: Configured, made_at: str, token: str, *, go_on: bool) -> dict[str, Any]:
    """Pause the plans of a restored root, and give it the operator's token of its new place."""
    from agenttalk.engine.core import access
    from agenttalk.engine.operation import after_restore
    from agenttalk.wiring import open_root

    async with open_root(root, url=configured.store_url) as deps:
        await access.replace_operator_token(deps, token)
        return (await after_restore.secure_restored_root(deps, made_at=made_at, pause=not go_on)).as_json()


def _secrets(root: Path, configured: Configured) -> tuple[frozenset[Path], frozenset[bytes]]:
    """Return the files that contain secrets, and the values of secrets that are known here."""
    named = [configured.store.url_file, *(file for source in configured.sources.values() for file in source.files)]
    hidden = frozenset((root / file).absolute() for file in named if file)
    secret_name = re.compile(r"(?i)token|secret|passw|credential|api_?key")
    ours = {value for name, value in os.environ.items() if secret_name.search(name)}
    values = {*ours, *configured.read_secrets(root).values()}
    found = {value.encode("utf-8", "surrogateescape") for value in values}
    return hidden, frozenset(value for value in found if len(value) >= SHORTEST)
