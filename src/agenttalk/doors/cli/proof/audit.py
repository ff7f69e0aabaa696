"""`agenttalk audit`: checks, anchors, exports and replays the ledger of a root. It only reads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core.output import (
    CommandOutput,
    CommonOptions,
    JsonOption,
    RootOption,
    sanitize,
    shorten_json,
)
from agenttalk.doors.cli.core.root_discovery import resolve_root
from agenttalk.doors.cli.proof import replay as proof_replay

if TYPE_CHECKING:
    from agenttalk.adapters.store.audit import ChainReport

app = typer.Typer(no_args_is_help=True, help="Check, anchor, export and replay the ledger.", add_completion=False)

BROKEN = 1


@app.command("verify")
def verify(
    ctx: typer.Context,
    anchor: Annotated[
        Path | None,
        typer.Option("--anchor", metavar="FILE", help="Compare with the heads in this file, from 'audit anchor'."),
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check every chain, and name the first entry that was changed, removed, reordered or cut off.

    The chains are also compared with the heads in your configuration folder. Entries that are not sealed cannot be
    checked, so they also lead to an exit code other than 0.
    """
    from agenttalk.adapters.store import audit
    from agenttalk.adapters.store.ledger_heads import heads_file, read_heads

    out, folder, url = _setup(ctx, root, as_json)
    heads = audit.read_anchor(_read(anchor)) if anchor else None
    kept = read_heads(folder, shared=bool(url))
    reports = audit.verify(folder, heads, kept, url=url)
    _tell(out, reports, anchored=anchor is not None)
    if kept and not _intact(reports) and not out.as_json:
        where = heads_file(folder, shared=bool(url))
        out.say(f"[dim]also compared with {sanitize(where)}; remove that file if you created this root again[/]")
    return 0 if _intact(reports) else BROKEN


@app.command("anchor")
def write_anchor(
    ctx: typer.Context,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Write the heads of all chains to this file.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write the heads of all chains to a file. Keep it where the engine's user cannot write.

    Later, `audit verify --anchor FILE` detects a chain that was rewritten or cut. A broken chain is not anchored.
    """
    from agenttalk.adapters.mailbox import fsio
    from agenttalk.adapters.store import audit
    from agenttalk.adapters.store.ledger_heads import read_heads

    out, folder, url = _setup(ctx, root, as_json)
    reports = audit.verify(folder, read_heads(folder, shared=bool(url)), url=url)
    if not _intact(reports):
        _tell(out, reports, anchored=False)
        return BROKEN
    fsio.write_file(to, audit.write_anchor(reports))
    if out.as_json:
        out.write_json({"ok": True, "file": str(to), "chains": [_as_json(report) for report in reports]})
    else:
        out.say(f"[green]✓[/] {to}: the heads of {out.count(len(reports), 'chain')}")
    return 0


@app.command("export")
def export(
    ctx: typer.Context,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Output file. Default: standard output.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write every entry as one line of JSON, chain by chain, in the order of the chain."""
    from agenttalk.adapters.store import audit

    out, folder, url = _setup(ctx, root, as_json)
    count = 0
    with _opened(to) as file:
        for chain, entry in audit.read_entries(folder, url=url):
            file.write(audit.to_json_line(chain, entry) + b"\n")
            count += 1
    if to is not None and out.as_json:
        out.write_json({"ok": True, "file": str(to), "entries": count})
    elif to is not None:
        out.say(f"[green]✓[/] {to}: {count} entries")
    return 0


@app.command("find")
def find(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="ID", help="Id of a trace, lease, promise, command, task or message.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show every entry that names an id, such as the trace id of a decision. Exits with 1 when there is none."""
    from agenttalk.adapters.store import audit
    from agenttalk.contracts.core import wire

    out, folder, url = _setup(ctx, root, as_json)
    lines = [audit.to_json_line(chain, entry) for chain, entry in audit.find_entries(folder, text, url=url)]
    found: list[Any] = [wire.read(line, limit=wire.DOCUMENT_LIMIT) for line in lines]
    if out.as_json:
        out.write_json({"ok": bool(found), "entries": found})
        return 0 if found else BROKEN
    for entry in found:
        out.say(f"[dim]{entry['at']}[/] [bold]{sanitize(entry['kind'])}[/] {sanitize(entry['subject'])}")
        decisions = [gate for gate in entry["body"].get("gates", ()) if gate["trace_id"] == text]
        for gate in decisions:
            decision = "allowed" if gate["allowed"] else "denied"
            out.say(f"  {gate['checkpoint']}: {decision} {sanitize('; '.join(gate['reasons']))}".rstrip())
        if not decisions:
            out.say(f"  [dim]{shorten_json(entry['body'], 200)}[/]")
    if not found:
        out.say(f"no entry names {sanitize(text)}", err=True)
    return 0 if found else BROKEN


@app.command("replay")
def replay(
    ctx: typer.Context,
    policy: Annotated[
        Path, typer.Option("--policy", metavar="FILE", help="Policy that work must meet, in YAML or JSON.")
    ],
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only work since this time, e.g. 2026-11-01.")
    ] = None,
    plan: Annotated[str, typer.Option("--plan", metavar="PLAN", help="Only this plan.")] = "",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show which finished tasks a policy would have refused, and why. Nothing is changed.

    Exits with 0 when the policy accepts all of them, and with 1 when it refuses one or cannot decide about one.
    """
    return proof_replay.replay(ctx, root, as_json, policy, since, plan)


def _setup(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
) -> tuple[CommandOutput, Path, str]:
    """Return the output, the root, and the URL of its store."""
    from agenttalk.wiring import settings

    given = CommonOptions.merge(ctx, root, as_json)
    folder = resolve_root(given.root)
    return CommandOutput.from_options(given), folder, settings.load(folder).store_url


def _read(path: Path) -> bytes:
    from agenttalk.adapters.mailbox import fsio
    from agenttalk.contracts.core import wire

    try:
        return fsio.read_file(path.resolve(), limit=wire.ENVELOPE_LIMIT)
    except MachineError as error:
        raise UsageError(error.code, error.message, hint=error.hint) from error


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    try:
        with path.open("wb") as file:
            yield file
    except OSError as error:
        raise MachineError(
            Code.FILE_UNWRITABLE,
            f"cannot write {path}: {error.strerror or error}",
            hint="check the permissions of the folder, and the free space",
        ) from error


def _intact(reports: list[ChainReport]) -> bool:
    return all(report.verdict.intact for report in reports)


def _tell(out: CommandOutput, reports: list[ChainReport], *, anchored: bool) -> None:
    if out.as_json:
        out.write_json(
            {"ok": _intact(reports), "anchored": anchored, "chains": [_as_json(report) for report in reports]}
        )
        return
    for report in reports:
        _tell_chain(out, report)
    if _intact(reports) and not anchored:
        out.say("[dim]without --anchor, this does not detect that the engine's own user rewrote all chains[/]")


def _tell_chain(out: CommandOutput, report: ChainReport) -> None:
    verdict, name = report.verdict, f"[bold]{_safe(report.chain)}[/]"
    if verdict.broken:
        where = f"entry {verdict.broken.seq}" if verdict.broken.seq is not None else "the end"
        out.say(f"[bold red]✗[/] {name}: broken at {where} (place {verdict.broken.link}): {_safe(verdict.broken.why)}")
    elif not verdict.unsealed:
        out.say(f"[green]✓[/] {name}: {out.count(verdict.head.link, 'entry')}, intact")
    if verdict.unsealed:
        first, last = verdict.unsealed[0], verdict.unsealed[-1]
        count = out.count(len(verdict.unsealed), "entry")
        out.say(f"[yellow]![/] {name}: {count} not sealed, so not checked (entry {first} to {last})")


def _as_json(report: ChainReport) -> dict[str, Any]:
    from agenttalk.adapters.store import audit

    return audit.to_json(report)


def _safe(text: str) -> str:
    """Escape a name or reason from a database that may have been tampered with."""
    return shorten_json(text, 400)[1:-1]
