"""`agenttalk skill`: installs Agent Skills for coding agents."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.cli.core.output import CommandOutput, CommonOptions, JsonOption, RootOption, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

app = typer.Typer(no_args_is_help=True, help="Install Agent Skills for coding agents.", add_completion=False)
TITLES: Final = {
    "claude": "Claude Code",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "opencode": "OpenCode",
    "qwen": "Qwen Code",
}
"""The coding agents that can be set up, and what they are called."""

FOLDERS = (".agents/skills", ".claude/skills")
"""Codex, Gemini, Qwen and OpenCode read the first, Claude the second."""
SCHEMAS: dict[str, tuple[str, ...]] = {
    "generate-command": ("command",),
    "report-action": (),
    "validate-artifact": ("artifact_envelope", "artifact_validation_result"),
}
"""Skill → documents whose schemas it includes. The schemas are written from the models on installation."""


@app.command("list")
def list_skills(ctx: typer.Context, root: RootOption = None, as_json: JsonOption = False) -> int:
    """List the skills."""
    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    if out.as_json:
        out.write_json(sorted(SCHEMAS))
    else:
        for name in sorted(SCHEMAS):
            out.say(name)
    return 0


@app.command("install")
def install(
    ctx: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Skill to install. Default: all.")] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Project folder.")] = Path(),
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Install skills in .agents/skills and .claude/skills of a project, or update them there."""
    from agenttalk.contracts.core.problems import (
        find_nearest,  # not at the top: --help must stay quick
    )

    settings = CommonOptions.merge(ctx, root, as_json)
    out = CommandOutput.from_options(settings)
    wanted = names or sorted(SCHEMAS)
    for name in wanted:
        if name not in SCHEMAS:
            near = find_nearest(name, SCHEMAS)
            raise UsageError(
                Code.NAME_UNKNOWN,
                f"there is no skill {name!r}",
                hint=f"did you mean {near!r}?" if near else "see 'agenttalk skill list'",
            )
    written = [
        _write(folder / base / name / path, data)
        for name in wanted
        for path, data in read_skill_files(name)
        for base in FOLDERS
    ]
    if out.as_json:
        out.write_json({"ok": True, "files": [str(path) for path in written]})
    else:
        for name in wanted:
            out.say(f"[green]✓[/] {name} in " + " and ".join(sanitize(folder / base / name) for base in FOLDERS))
    return 0


def read_skill_files(name: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a skill with their paths."""
    from agenttalk.contracts.core import catalogue, wire

    yield from _files(files("agenttalk") / "skills" / name, "")
    for document in SCHEMAS[name]:
        yield f"references/{document}.schema.json", wire.write(catalogue.schema(document)) + b"\n"


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif entry.is_file():
            yield prefix + entry.name, entry.read_bytes()


def _write(path: Path, data: bytes) -> Path:
    from agenttalk.adapters.mailbox import fsio

    fsio.write_file(path, data)
    if data.startswith(b"#!"):
        path.chmod(0o755)
    return path
