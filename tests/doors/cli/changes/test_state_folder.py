"""The folder for roots without a named place: where it is, and who may read it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agenttalk.contracts.errors import MachineError, UsageError
from agenttalk.wiring.state_folder import find_state_folder


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AGENTTALK_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_the_state_folder_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert find_state_folder() == tmp_path / "home" / ".local" / "state" / "agenttalk"
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    assert find_state_folder() == tmp_path / "home" / ".local" / "state" / "agenttalk"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert find_state_folder() == tmp_path / "xdg" / "agenttalk"
    monkeypatch.setenv("AGENTTALK_STATE", str(tmp_path / "own place"))
    assert find_state_folder() == tmp_path / "own place"


def test_other_users_cannot_read_the_state_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o755)
    monkeypatch.setenv("AGENTTALK_STATE", str(open_to_all))
    assert stat.S_IMODE(find_state_folder().stat().st_mode) == 0o700


def test_a_state_folder_in_the_repository_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    monkeypatch.setenv("AGENTTALK_STATE", str(tmp_path / "link" / "state"))
    with pytest.raises(UsageError, match="lies in"):
        find_state_folder(tmp_path / "repo")
    assert not (tmp_path / "repo" / "state").exists()
    assert find_state_folder(tmp_path / "other") == tmp_path / "link" / "state"


def test_a_state_folder_that_cannot_be_made_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AGENTTALK_STATE", str(tmp_path / "file" / "state"))
    with pytest.raises(MachineError, match="cannot make the state folder"):
        find_state_folder()


def test_a_state_folder_of_another_user_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/").stat().st_uid == os.getuid():
        pytest.skip("this user owns every folder")
    monkeypatch.setenv("AGENTTALK_STATE", "/usr")
    with pytest.raises(MachineError, match="belongs to another user"):
        find_state_folder()
