"""The log of a long-running program on standard error: lines for people, or JSON objects for programs."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, Literal

Format = Literal["console", "json"]
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
"""The attributes of every record. Others were passed with `extra`."""


class ConsoleFormatter(logging.Formatter):
    """Formats a record as `2026-11-16T09:00:00Z warning router: …`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - as given
        """Return the time in UTC."""
        return _time(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, with the traceback below it."""
        return super().format(record).replace("\x1b", "\\x1b")


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: `time`, `level`, `logger`, `message`, `action` and other extras."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        extras = {key: value for key, value in vars(record).items() if key not in _USUAL}
        document = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extras,
        }
        if record.exc_info:
            document["error"] = self.formatException(record.exc_info)
        return json.dumps(document, ensure_ascii=False, default=str)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def configure_logging(form: Format, level: str) -> None:
    """Set the format and level of the log."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else ConsoleFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.getLogger("httpx2").setLevel(max(logging.WARNING, logging.getLogger().level))
