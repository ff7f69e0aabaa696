"""Mail and forge events know nothing of each other: each works with the other's database broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from doors.api.enginekit import agenttalk, until
from engine.mail.test_mail_engine import PROGRAM, Office
from engine.toolchain.kits.bench import DOES_IT, Bench, served, written

ANSWERS = f"""{PROGRAM}
assert ask("POST", "/api/mail/" + mail_id + "/reply", {{"body": "42"}})[0] == 201
"""
NAME = "gitea/review_request"
GARBAGE = b"this is no database at all " * 100_000


def programs() -> dict[str, str]:
    both = f"import os\nif os.environ['AGENTTALK_PLAN_ID'] == '_mail':\n    exec({ANSWERS!r})\nelse:\n    exec({DOES_IT!r})\n"
    return {"agent-reviewer": both}


def broken(root: Path, board: str) -> Path:
    """The database of a board, overwritten in its place, so that whoever has it open finds it broken too."""
    path = root / "data" / board / "blackboard.db"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    for each in path.parent.glob("blackboard.db*"):
        with each.open("r+b") as file:
            size = file.seek(0, 2)
            file.seek(0)
            file.write(GARBAGE[: max(size, 4096)] if each == path else bytes(size))
    return path


def answered(bench: Bench) -> None:
    """A request is sent, run and answered."""
    assert bench.serving is not None
    office = Office(bench.root, bench.serving)
    told = office.closed(office.send(["agent-reviewer"], "request")["message_id"])
    assert [each["status"] for each in told["addressees"]] == ["done"]


def carried_out(bench: Bench) -> None:
    """A webhook becomes a task, which is run and done."""
    made = len(bench.tasks())
    assert bench.told(NAME)["state"] in {"done", "ignored"}
    found = bench.settled()
    assert len(found) >= max(made, 1)
    assert {each["status"] for each in found} == {"done"}


@pytest.mark.rest_but("while it runs")
@pytest.mark.shows("T15", "T18")
@pytest.mark.parametrize("how", ["before it starts", "while it runs"])
def test_mail_works_with_a_broken_board_of_forge_events(tmp_path: Path, how: str) -> None:
    root = written(tmp_path / "root", programs())
    if how == "before it starts":
        path = broken(root, "_toolchain")
    with served(root) as bench:
        if how == "while it runs":
            carried_out(bench)
            path = broken(root, "_toolchain")
        answered(bench)
        assert bench.get("/api/toolchain/tasks", bench.operator_token())[0] >= 500
        answered(bench)
        status, told = bench.get("/api/status", bench.operator_token())
        assert (status, list(told["broken_boards"])) == (200, ["_toolchain"])
        assert path.read_bytes()[:4096] == GARBAGE[:4096]  # nobody wrote over what may be saved


@pytest.mark.rest_but("while it runs")
@pytest.mark.shows("T15", "T18")
@pytest.mark.parametrize("how", ["before it starts", "while it runs"])
def test_forge_events_work_with_a_broken_board_of_mail(tmp_path: Path, how: str) -> None:
    root = written(tmp_path / "root", programs())
    (root / "agents/agent-dev/outbox/_mail").mkdir(parents=True)
    (root / "agents/agent-dev/inbox/_mail").mkdir(parents=True)
    if how == "before it starts":
        path = broken(root, "_mail")
    with served(root) as bench:
        if how == "while it runs":
            answered(bench)
            path = broken(root, "_mail")
        (root / "agents/agent-dev/outbox/_mail/mail_m1.json").write_text("{}")
        carried_out(bench)
        assert bench.get("/api/mail", bench.operator_token())[0] >= 500
        assert path.read_bytes()[:4096] == GARBAGE[:4096]


@pytest.mark.shows("T01", "T18")
def test_no_forge_event_becomes_a_letter_and_a_missing_board_is_made_again(tmp_path: Path) -> None:
    root = written(tmp_path / "root", programs())
    with served(root) as bench:
        carried_out(bench)
        assert not (root / "data/_mail").exists()
        answered(bench)
        assert bench.serving is not None
        assert Office(root, bench.serving).ask("GET", "/api/mail")[1]["mails"][0]["from"] == "agent-reviewer"
    for each in (root / "data/_toolchain").iterdir():
        each.unlink()
    with served(root) as bench:
        answered(bench)
        assert bench.tasks() == []
        until(lambda: agenttalk("mail", "list", "--root", str(root)).returncode == 0, "letters are listed")
