"""The log of an engine: for people, or one JSON object in each line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from agenttalk.doors.cli.core import logs
from agenttalk.doors.cli.main import call
from doors.api.enginekit import engine


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield logging.getLogger("agenttalk.test")
    root.handlers[:] = before
    root.setLevel(level)


def test_each_line_is_an_object_with_an_action(logger: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure_logging("json", "info")
    logger.debug("not this")
    logger.info("two\nlines of %s", "text", extra={"action": "test.said", "path": Path("x")})
    try:
        int("no luck")
    except ValueError:
        logger.exception("it failed", extra={"action": "test.failed"})
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert first["time"].endswith("Z")
    assert {key: first[key] for key in ("level", "logger", "message", "action", "path")} == {
        "level": "info",
        "logger": "agenttalk.test",
        "message": "two\nlines of text",
        "action": "test.said",
        "path": "x",
    }
    assert "ValueError: invalid literal" in second["error"]


def test_people_get_a_line_and_their_terminal_nothing_else(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure_logging("console", "warning")
    logger.info("not this")
    logger.warning("look: %s", "\x1b[31mred")
    told = capsys.readouterr().err
    assert told.endswith("Z WARNING agenttalk.test: look: \\x1b[31mred\n")


def test_an_engine_logs_as_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    root = tmp_path / "root"
    (root / "agents").mkdir(parents=True)
    (root / "agenttalk.toml").write_text(
        '[log]\nlevel = "warning"\n[schedules.x]\ncron = "* * * * *"\nplan = "none.yaml"\n', encoding="utf-8"
    )
    with engine(root, "--log-format", "json", quick=True) as serving:
        assert call(["schedule", "run", "x", "--root", str(root)]) == 2
        assert serving.process.stderr is not None
        line = json.loads(serving.process.stderr.readline())
    assert (line["level"], line["action"]) == ("warning", "schedule.failed")
