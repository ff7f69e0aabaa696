"""`agenttalk schedule`, without an engine and beside one."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from agenttalk.doors.cli.main import call
from doors.api.enginekit import engine, until
from kits.sandboxkit import PLAIN_VARIABLE


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    found = tmp_path / "root"
    (found / "agents").mkdir(parents=True)
    (found / "plans").mkdir()
    (found / "plans" / "work.py").write_text("print('ok')\n", encoding="utf-8")
    agents = {"worker": {"driver": "script", "argv": [sys.executable, "work.py"]}}
    plan = {"plan_id": "any", "agents": agents, "tasks": [{"id": "one", "agent": "worker", "prompt": "Do it."}]}
    (found / "plans" / "week.json").write_text(json.dumps(plan), encoding="utf-8")
    (found / "agenttalk.toml").write_text(
        '[schedules.week]\ncron = "0 17 * * FRI"\ntimezone = "Europe/Berlin"\nplan = "plans/week.json"\n',
        encoding="utf-8",
    )
    return found


def run(capsys: pytest.CaptureFixture[str], root: Path, *words: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert call(["schedule", *words, "--json", "--root", str(root)]) == code
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    return said


def test_schedules_without_an_engine(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    [week] = run(capsys, root, "list")["schedules"]
    assert (week["name"], week["from"], week["paused"]) == ("week", "settings", False)
    plan = root / "plans" / "week.json"
    added = run(capsys, root, "add", "night", "--cron", "@daily", "--plan", str(plan))
    assert added["next_at"].endswith("T00:00:00.000000Z")
    assert run(capsys, root, "pause", "night")["changed"]
    assert run(capsys, root, "resume", "night")["changed"]
    assert run(capsys, root, "run", "night")["plan_id"].startswith("night-")
    assert run(capsys, root, "remove", "night")["changed"]
    assert "stands in the settings" in run(capsys, root, "remove", "week", code=2)["error"]["message"]
    capsys.readouterr()
    assert call(["schedule", "list", "--root", str(root)]) == 0
    assert "week  0 17 * * FRI (Europe/Berlin), next at 2" in capsys.readouterr().out


def test_a_run_beside_an_engine_is_a_plan_that_ends(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with engine(root, quick=True):
        plan_id = run(capsys, root, "run", "week")["plan_id"]

        def ended() -> bool:
            capsys.readouterr()
            assert call(["status", plan_id, "--json", "--root", str(root)]) == 0
            [plan] = json.loads(capsys.readouterr().out)["plans"]
            return bool([each["state"] for each in plan["tasks"]] == ["COMPLETED"])

        until(ended, "the plan ends")
        assert run(capsys, root, "list")["schedules"][0]["last_plan_id"] == plan_id


def overdue(root: Path) -> None:
    """A schedule that was due while nobody was there."""
    connection = apsw.Connection(str(root / "data/system.db"))
    connection.execute("UPDATE schedules SET since = '2024-06-01T00:00:00.000000Z' WHERE name = 'year'")
    connection.close()


def asked(root: Path, statement: str) -> list[Any]:
    connection = apsw.Connection(
        f"file:{root}/data/system.db?mode=ro", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_a_serve_that_is_killed_again_and_again_begins_what_is_due_once(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "plans" / "work.py").write_text(
        "import pathlib, time\n"
        "here = pathlib.Path(__file__).parent\n"
        "(here / 'begun').touch()\n"
        "while not (here / 'go').exists():\n    time.sleep(0.01)\n"
        "print('ok')\n"
    )
    run(capsys, root, "add", "year", "--cron", "@yearly", "--plan", str(root / "plans" / "week.json"))
    overdue(root)
    claimed = "SELECT plan_id FROM schedules WHERE name = 'year' AND plan_id <> ''"
    with engine(root, quick=True) as first:
        until(lambda: bool(asked(root, claimed)), "it is written down that the time is due")
        first.ended(signal.SIGKILL)
    [(plan_id,)] = asked(root, claimed)
    with engine(root, quick=True) as second:
        until((root / "plans" / "begun").exists, "the plan's program has begun")
        second.ended(signal.SIGKILL)
    (root / "plans" / "go").touch()
    with engine(root, quick=True):

        def ended() -> bool:
            capsys.readouterr()
            assert call(["status", "--json", "--root", str(root)]) == 0
            plans = json.loads(capsys.readouterr().out)["plans"]
            assert [each["plan_id"] for each in plans] == [plan_id]
            return [task["state"] for task in plans[0]["tasks"]] == ["COMPLETED"]

        until(ended, "the one plan ends")
    facts = [kind for (kind,) in asked(root, "SELECT kind FROM ledger WHERE subject = 'year' ORDER BY seq")]
    assert facts == ["schedule.added", "schedule.due", "schedule.begun"]
    assert asked(root, "SELECT state FROM schedules WHERE name = 'year'") == [("idle",)]


def test_a_shipped_template_becomes_a_plan_that_can_be_scheduled(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (
        "import os, pathlib, sys\n"
        "name = {'ada': 'weekly_report_ada.md', 'bob': 'weekly_report_bob.md'}.get(sys.argv[1], 'team_week.md')\n"
        "text = '- ada: tests\\n- bob: docs\\n'\n"
        "pathlib.Path(os.environ['AGENTTALK_OUTPUTS'], name).write_text(text)\n"
        "print('ok')\n"
    )
    (root / "member.py").write_text(script)
    lines = [
        f'[agents.{name}]\ndriver = "script"\nargv = ["{sys.executable}", "{root}/member.py", "{name}"]\n'
        for name in ("ada", "bob", "editor")
    ]
    (root / "agenttalk.toml").write_text("".join(lines), encoding="utf-8")
    words = ("add", "week", "--cron", "0 17 * * FRI", "--template", "weekly-summary", "--agent", "editor")
    assert "needs a team" in run(capsys, root, *words, code=2)["error"]["message"]
    team = ("--team", "ada", "--team", "bob")
    wrong = run(
        capsys, root, "add", "week", "--cron", "x", "--template", "weekly-summary", "--agent", "editor", *team, code=2
    )
    assert not wrong["ok"]
    assert not (root / "plans" / "week.yaml").exists()
    unknown = run(
        capsys, root, "add", "a", "--cron", "@daily", "--template", "weekly-sumary", "--agent", "e", *team, code=2
    )
    assert unknown["error"]["hint"] == "did you mean 'weekly-summary'?"
    assert run(capsys, root, *words, *team)["plan"] == str(root / "plans" / "week.yaml")
    assert run(capsys, root, *words, *team, code=2)["error"]["code"] == "NAME_TAKEN"
    capsys.readouterr()
    assert call(["run", str(root / "plans" / "week.yaml"), "--root", str(root), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {each["task_id"]: each["state"] for each in told["tasks"]} == dict.fromkeys(
        ("report_ada", "report_bob", "summary"), "COMPLETED"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('cron = "0 17 * * FRI"\nplan = "a.yaml"\ntimezone = "Mars/Olympus"', "no time zone 'Mars/Olympus'"),
        ('cron = "0 17 * *"\nplan = "a.yaml"', "has 4 fields"),
        ('cron = "@daily"', "give a plan, or an agent and a prompt"),
        ('cron = "@daily"\nplan = "a.yaml"\ncatchup = true', "did you mean 'catch_up'?"),
    ],
)
def test_settings_that_are_wrong_say_so(root: Path, capsys: pytest.CaptureFixture[str], text: str, words: str) -> None:
    (root / "agenttalk.toml").write_text(f"[schedules.week]\n{text}\n", encoding="utf-8")
    assert words in str(run(capsys, root, "list", code=2)["error"])
