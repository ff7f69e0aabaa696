"""Files that lie beside a plan file and belong to its checks."""

from __future__ import annotations

from pathlib import Path

from agenttalk.rules.planfile import check_files
from agenttalk.rules.planfile.compiler import CompiledPlan


def with_check_files(compiled: CompiledPlan, folder: Path) -> CompiledPlan:
    """A plan with the files of its checks, as they lie in a folder now. The same plan if there are none."""
    wanted = check_files.list_files(compiled.dag)
    return check_files.pin_files(compiled, {path: _read(folder / path) for path in wanted}) if wanted else compiled


def _read(path: Path) -> bytes | str:
    """What a file holds, or why that cannot be said."""
    try:
        with path.open("rb") as file:
            data = file.read(check_files.LIMIT + 1)
    except OSError as error:
        return f"cannot read {path}: {error.strerror}"
    if len(data) > check_files.LIMIT:
        return f"{path} has more than {check_files.LIMIT:,} bytes"
    return data
