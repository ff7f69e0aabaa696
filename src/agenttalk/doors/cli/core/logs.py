"""The log of a program that runs on: a line for a person, or one JSON object for a program, on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

Format = Literal["console", "json"]
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""What every record has; the rest was said for this one."""


class ConsoleFormatter(logging.Formatter):
    """`2026-11-16T09:00:00Z warning router: …`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - as given
        """In UTC."""
        return _time(record)

    def format(self, record: logging.LogRecord) -> str:
        """One line, and what was raised below it."""
        return super().format(record).replace("\x1b", "\\x1b")


class JsonFormatter(logging.Formatter):
    """One JSON object in a line: `time`, `level`, `logger`, `message`, `action` and whatever else was said."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        said = {key: value for key, value in vars(record).items() if key not in _USUAL}
        found = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **said,
        }
        if record.exc_info:
            found["error"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False, default=str)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure_logging(form: Format, level: str) -> None:
    """Have everything that is logged from here on written so."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("httpx2").setLevel(max(logging.WARNING, logging.getLogger().level))
