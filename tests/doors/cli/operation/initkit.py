"""A machine on which some coding agents are installed, and no others, whatever this one has."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agenttalk.rules.agents.cli_table import TABLE

PROGRAMS = {entry.program for entry in TABLE.values() if entry.program}


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, *names: str, text: str = "exit 0\n") -> Path:
    """Have these programs on the path, and no other coding agent. Returns the folder that they are in."""
    programs = folder / "programs"
    programs.mkdir(exist_ok=True)
    for name in names:
        (programs / name).write_text(f"#!/bin/sh\n{text}")
        (programs / name).chmod(0o755)
    path = [str(programs)]
    for number, place in enumerate(os.environ["PATH"].split(os.pathsep)):
        known = [each.name for each in Path(place).iterdir()] if Path(place).is_dir() else []
        if not PROGRAMS & set(known):
            path.append(place)
            continue
        shadow = folder / f"path-{number}"
        shadow.mkdir(exist_ok=True)
        for name in known:
            if name not in PROGRAMS and not (shadow / name).is_symlink():
                (shadow / name).symlink_to(Path(place, name))
        path.append(str(shadow))
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    return programs
