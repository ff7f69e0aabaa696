"""Temporary folders of a process that was killed are removed by the next one, and those of one that lives are not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from agenttalk.adapters.temporary_folders import make_temporary_folder, sweep_temporary_folders

CHILD = """
import os, signal
from agenttalk.adapters.temporary_folders import make_temporary_folder
made = make_temporary_folder()
(made.path / "home").mkdir()
(made.path / "home/cache").write_text("x")
print(made.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def notes(tmp_path: Path) -> list[Path]:
    return list((tmp_path / f"agenttalk-made-{os.getuid()}").iterdir())


def test_folders_of_a_dead_process_are_removed_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    mine, others = make_temporary_folder(), tmp_path / "tmpabcdefgh"
    others.mkdir()  # any program makes such folders
    killed = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL
    left = Path(killed.stdout.strip())
    assert (left / "home/cache").exists()
    sweep_temporary_folders()
    assert not left.exists()
    assert others.exists()
    assert mine.path.exists()
    assert notes(tmp_path) == [mine.note]
    mine.remove()
    assert list(tmp_path.iterdir()) == [others]


def test_a_note_that_another_program_wrote_follows_no_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "link").symlink_to(precious)
    folder = tmp_path / f"agenttalk-made-{os.getuid()}"
    folder.mkdir(mode=0o700)
    (folder / "one").write_text(str(tmp_path / "link"))
    (folder / "two").write_text("precious")
    (folder / "three").symlink_to(tmp_path / "link")
    sweep_temporary_folders()
    assert precious.is_dir()


def test_without_a_place_for_notes_there_is_a_folder_all_the_same(tmp_path: Path) -> None:
    (tmp_path / f"agenttalk-made-{os.getuid()}").write_text("in the way")
    made = make_temporary_folder()
    assert made.path.is_dir()
    made.remove()
    assert not made.path.exists()
    sweep_temporary_folders()
