"""Makes the exporter to the tracing system that the settings name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from agenttalk.adapters.telemetry import otlp_exporter
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.operation.trace_export import SpanExportResult, TraceExporter
from agenttalk.wiring.settings.tables import TelemetrySettings

_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}\Z")
_VALUE: Final = re.compile(r"[\x20-\x7e\t]{0,4000}\Z")


def make_trace_exporter(root: Path, instance: str, deps: Deps, said: TelemetrySettings) -> TraceExporter:
    """Make the exporter of spans. Raises UsageError for invalid headers."""
    known = read_headers(root, said)
    deps.secret_guard.register_values({f"the header {name} of telemetry": value for name, value in known.items()})

    async def send(body: bytes) -> SpanExportResult:
        return SpanExportResult(*await otlp_exporter.send_spans(said.traces_url, known, body))

    own = version("agenttalk")
    resource = (("service.name", said.service_name), ("service.version", own), ("service.instance.id", instance))
    return TraceExporter(deps, send, resource=resource, version=own, texts=said.content)


def read_headers(root: Path, said: TelemetrySettings, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Read the headers that are sent with spans. Raises UsageError when they are missing or invalid."""
    if said.headers_file is not None:
        where = f"{said.headers_file}, which telemetry.headers_file names"
        try:
            text = (root / said.headers_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(Code.FILE_UNREADABLE, f"cannot read {where}", hint="make it a text file") from error
    elif said.headers_env is not None:
        where = f"{said.headers_env}, which telemetry.headers_env names"
        text = environ.get(said.headers_env, "")
        if not text:
            raise UsageError(Code.FIELD_VALUE, f"{where}, is not set", hint=f"set {said.headers_env}")
    else:
        return {}
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        name, is_pair, value = part.partition("=")
        name, value = name.strip(), unquote(value.strip())
        if not is_pair or not _NAME.match(name) or not _VALUE.match(value):
            raise UsageError(Code.FIELD_VALUE, f"{where}, holds no headers", hint="write name=value,name=value")
        found[name] = value
    return found
