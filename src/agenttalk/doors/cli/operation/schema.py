"""`agenttalk schema`: shows and exports the JSON Schemas of all documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

app = typer.Typer(add_completion=False)


@app.command("schema")
def schema(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Name of a document. Without it, all are listed.")] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="Write NAME.schema.json files to this folder.")
    ] = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show one JSON Schema (draft 2020-12), list all, or export them with --out."""
    from agenttalk.contracts.core import catalogue  # not at the top: --help must not load every model

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    if out_folder is not None:
        return _export(out, [name] if name else list(catalogue.DOCUMENTS), out_folder)
    if name is not None:
        out.write_json(catalogue.schema(name))
    elif out.as_json:
        out.write_json({name: catalogue.schema(name) for name in catalogue.DOCUMENTS})
    else:
        for each in catalogue.DOCUMENTS:
            out.say(f"[bold]{each:<29}[/]{catalogue.summary(each)}")
    return 0


def _export(out: CommandOutput, names: list[str], folder: Path) -> int:
    from agenttalk.adapters.mailbox import fsio
    from agenttalk.contracts.core import catalogue, wire

    schemas = {name: catalogue.schema(name) for name in names}
    paths = [folder / f"{name}.schema.json" for name in schemas]
    for path, body in zip(paths, schemas.values(), strict=True):
        fsio.write_file(path, wire.write(body) + b"\n")
    if out.as_json:
        out.write_json({"ok": True, "files": [str(path) for path in paths]})
    else:
        out.say(f"[green]✓[/] {len(paths)} schema{'s' * (len(paths) > 1)} in {sanitize(folder)}")
    return 0
