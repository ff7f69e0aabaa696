"""`agenttalk audit`: check, anchor, export and replay the ledger of a root. Reads only; also without an engine."""

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
    format_count,
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
        Path | None, typer.Option("--anchor", metavar="FILE", help="Heads that were written down before.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Check every chain; name the first entry that was changed, removed, reordered or cut off.

    The chains are also compared with what your configuration folder knows of them. Entries that are not sealed
    cannot be checked, and then the answer is not 0 either.
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
        out.say(f"[dim]compared also with {sanitize(where)}; remove that file if you made this root anew[/]")
    return 0 if _intact(reports) else BROKEN


@app.command("anchor")
def write_anchor(
    ctx: typer.Context,
    to: Annotated[Path, typer.Option("--to", metavar="FILE", help="Where to write the heads of all chains.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write down how far each chain has come. Keep the file where the engine's user cannot write.

    Whoever rewrites or cuts a chain later is found by `audit verify --anchor FILE`. A broken chain is not anchored.
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
        out.say(f"[green]✓[/] {to}: the heads of {format_count(len(reports), 'chain')}")
    return 0


@app.command("export")
def export(
    ctx: typer.Context,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write; standard output when not given.")
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
    text: Annotated[str, typer.Argument(metavar="ID", help="A trace id, lease, promise, command, task or message.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show every entry that names an id, e.g. the trace id of a gate's decision. Ends with 1 when there is none."""
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
        decisions = [each for each in entry["body"].get("gates", ()) if each["trace_id"] == text]
        for each in decisions:
            said = "allowed" if each["allowed"] else "denied"
            out.say(f"  {each['checkpoint']}: {said} {sanitize('; '.join(each['reasons']))}".rstrip())
        if not decisions:
            out.say(f"  [dim]{shorten_json(entry['body'], 200)}[/]")
    if not found:
        out.say(f"no entry names {sanitize(text)}", err=True)
    return 0 if found else BROKEN


@app.command("replay")
def replay(
    ctx: typer.Context,
    policy: Annotated[Path, typer.Option("--policy", metavar="FILE", help="What work must have; YAML or JSON.")],
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Nothing before, e.g. 2026-11-01.")
    ] = None,
    plan: Annotated[str, typer.Option("--plan", metavar="PLAN", help="One plan; without it all.")] = "",
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say which of all that was called done a policy would have refused, and why. Nothing is changed.

    Ends with 0 when it would have kept everything, and with 1 when it would have refused something or cannot tell.
    """
    return proof_replay.replay(ctx, root, as_json, policy, since, plan)


def _setup(
    ctx: typer.Context,
    root: Path | None,
    as_json: bool,  # noqa: FBT001 - as given
) -> tuple[CommandOutput, Path, str]:
    """How to answer, the root, and the URL of its store."""
    from agenttalk.wiring import settings

    given = CommonOptions.merge(ctx, root, as_json)
    folder = resolve_root(given.root)
    return CommandOutput(as_json=given.as_json), folder, settings.load(folder).store_url


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
            hint="look at the folder's permissions and at the free space",
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
        out.say("[dim]without --anchor, a rewriting of all chains by the engine's own user would not be seen[/]")


def _tell_chain(out: CommandOutput, report: ChainReport) -> None:
    verdict, name = report.verdict, f"[bold]{_safe(report.chain)}[/]"
    if verdict.broken:
        where = f"entry {verdict.broken.seq}" if verdict.broken.seq is not None else "the end"
        out.say(f"[bold red]✗[/] {name}: broken at {where} (place {verdict.broken.link}): {_safe(verdict.broken.why)}")
    elif not verdict.unsealed:
        out.say(f"[green]✓[/] {name}: {format_count(verdict.head.link, 'entry')}, intact")
    if verdict.unsealed:
        first, last = verdict.unsealed[0], verdict.unsealed[-1]
        count = format_count(len(verdict.unsealed), "entry")
        out.say(f"[yellow]![/] {name}: {count} not sealed and so not checked (entry {first} to {last})")


def _as_json(report: ChainReport) -> dict[str, Any]:
    from agenttalk.adapters.store import audit

    return audit.to_json(report)


def _safe(text: str) -> str:
    """A name or reason out of a database that somebody may have tampered with."""
    return shorten_json(text, 400)[1:-1]
