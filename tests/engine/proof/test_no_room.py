"""A disk without room says nothing about the work of an agent: what needs the room waits, and no turn is spent."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttalk.adapters.workspaces.git import Git, GitLocation
from agenttalk.adapters.workspaces.objects import GitObjects
from agenttalk.contracts.errors import Code, FullDiskError, MachineError
from agenttalk.engine.runs import turn_runner
from kits.plankit import Engine, plan, play, states, task
from kits.provekit import git, program, promise, repository, run
from kits.standingkit import PlanStanding


@pytest.mark.rest_but("commit")
@pytest.mark.parametrize("where", ["checkout", "write_blobs", "alter_tree", "commit"])
def test_what_finds_no_room_is_done_once_there_is_room_and_the_agent_works_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """The disk is full when the clone is made, and when the work is taken, kept and merged: at each twice."""
    repo = repository(tmp_path / "repo", {"t0.txt": "todo\n"})
    real, left = getattr(GitObjects, where), [2]

    def fails(self: GitObjects, *args: Any, **keys: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, *args, **keys)

    monkeypatch.setattr(GitObjects, where, fails)
    monkeypatch.setattr(turn_runner, "_PAUSE", 0.0)
    text = f"pathlib.Path(r'{tmp_path}', 'turns').open('a').write('turn\\n')\npathlib.Path('t0.txt').write_text('done')"
    check = {"id": "ok", "kind": "run", "run": "grep -q done t0.txt"}
    one = task("t0", "t0", workspace="repo", promise=promise(check), max_reexecute_times=0)
    agents = {"t0": program(tmp_path, "t0", text)}
    found = run(tmp_path, plan(one, agents=agents, workspace={"repo": str(repo)}))
    assert (states(found), left) == ({"t0": "COMPLETED"}, [0]), [each["reason"] for each in found.tasks]
    assert (tmp_path / "turns").read_text() == "turn\n"
    assert git(repo, "show", "agenttalk/p:t0.txt") == "done"
    told = [each.message for each in caplog.records if "No space left on device" in each.getMessage()]
    assert len(told) == 1, told


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_work_that_does_not_fit_into_the_repository_is_kept_once_somebody_made_room(
    tmp_path: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    repo = repository(small_disk / "repo", {"t0.txt": "todo\n"})
    (small_disk / "filler").write_bytes(bytes(500_000))
    note = f"pathlib.Path(r'{tmp_path}', 'turns').open('a').write('turn\\n')"
    agents = {"t0": program(tmp_path, "t0", f"{note}\npathlib.Path('t0.txt').write_bytes(os.urandom(400_000))")}
    one = task(
        "t0", "t0", workspace="repo", promise=promise({"id": "ok", "kind": "run", "run": "! grep -q todo t0.txt"})
    )

    async def use(engine: Engine) -> PlanStanding:
        await engine.submit(plan(one, agents=agents, workspace={"repo": str(repo)}))
        await engine.until(lambda _: any("No space left on device" in each.getMessage() for each in caplog.records))
        (small_disk / "filler").unlink()
        return await engine.ended()

    assert states(play(tmp_path / "root", use, proving=True)) == {"t0": "COMPLETED"}
    assert (tmp_path / "turns").read_text() == "turn\n"
    assert git(repo, "cat-file", "-s", "agenttalk/p:t0.txt") == "400000"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("error: unable to write file: No space left on device", FullDiskError),
        ("fatal: write error: Disk quota exceeded", FullDiskError),
        ("fatal: not a git repository", MachineError),
    ],
)
def test_a_git_that_finds_no_room_is_told_from_one_that_fails(tmp_path: Path, text: str, kind: type) -> None:
    script = tmp_path / "git"
    script.write_text(f"#!/bin/sh\necho '{text}' >&2\nexit 128\n")
    script.chmod(0o755)
    with pytest.raises(MachineError) as told:
        Git(tmp_path, str(script)).call("status", at=GitLocation(tmp_path))
    assert (type(told.value), told.value.code) == (kind, Code.FILE_UNWRITABLE)
