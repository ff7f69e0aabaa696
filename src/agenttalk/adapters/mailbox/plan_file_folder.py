"""Reads files beside a plan file that belong to its checks."""

from __future__ import annotations

from pathlib import Path

from agenttalk.rules.planfile import check_files
from agenttalk.rules.planfile.compiler import CompiledPlan


def with_check_files(compiled: CompiledPlan, folder: Path) -> CompiledPlan:
    """Return a plan with the hashes of its checks' files in a folder. The same plan if there are none."""
    wanted = check_files.list_files(compiled.dag)
    return check_files.pin_files(compiled, {path: _read(folder / path) for path in wanted}) if wanted else compiled


def _read(path: Path) -> bytes | str:
    """Return the hash of a file, or why it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(check_files.LIMIT + 1)
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    if len(data) > check_files.LIMIT:
        return f"{path} has more than {check_files.LIMIT:,} bytes"
    return data
