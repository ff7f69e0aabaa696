"""Routes for numbers: agents, how far they can be believed, and everything that is measured."""

from __future__ import annotations

import resource
import threading
import time
from pathlib import Path
from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from agenttalk.contracts.core.base import Text
from agenttalk.contracts.errors import Code, UsageError
from agenttalk.doors.api import bodies
from agenttalk.doors.api.problems import to_json_response
from agenttalk.engine.budgets import day_limit
from agenttalk.engine.core.access import Caller
from agenttalk.engine.operation.service import Service
from agenttalk.engine.proof import honesty
from agenttalk.engine.views import metrics as view_metrics
from agenttalk.engine.views import overview
from agenttalk.rules.operation import metrics
from agenttalk.rules.operation.metrics import Metric, Sample

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_BEGAN: Final = time.monotonic()


class DayBody(bodies.Body):
    """What may be spent on a day."""

    limit_usd: float | None = Field(default=None, strict=False)
    """In dollars; null: nothing limits it."""
    reset: bool = False
    """Whether the settings are to say it again."""
    by: Text | None = None


async def agents(service: Service, _: Request, __: Caller) -> Response:
    """Return every agent."""
    return to_json_response({"agents": list(await overview.describe_agents(service.deps))})


async def agent(service: Service, request: Request, _: Caller) -> Response:
    """Return an agent."""
    return to_json_response(await overview.describe_agent(service.deps, request.path_params["id"]))


async def get_honesty(service: Service, _: Request, __: Caller) -> Response:
    """Return how many claims of agents, models and validators held."""
    return to_json_response(await honesty.build_report(service.deps))


async def spending(service: Service, _: Request, __: Caller) -> Response:
    """Return what was spent today, and the limit."""
    return to_json_response({**await service.day.read(), **await day_limit.describe_waiting(service.deps)})


async def limit_day(service: Service, request: Request, caller: Caller) -> Response:
    """Change what may be spent on a day, without a restart."""
    body = await bodies.read(request, DayBody)
    if not body.reset and "limit_usd" not in body.model_fields_set:
        raise UsageError(Code.FIELD_MISSING, "give limit_usd, null for no limit, or reset")
    found = await service.day.set_limit(body.limit_usd, by=body.by or caller.name, reset=body.reset)
    return to_json_response({**found, **await day_limit.describe_waiting(service.deps)})


async def reload_settings(service: Service, request: Request, caller: Caller) -> Response:
    """Read the settings again, without a restart."""
    body = await bodies.read(request, bodies.ReloadBody)
    if service.tools.reload is None:
        raise UsageError(Code.NAME_UNKNOWN, "this process reads no settings", hint="ask the engine of the root")
    return to_json_response(await service.tools.reload(body.by or caller.name))


async def get_metrics(service: Service, _: Request, __: Caller) -> Response:
    """Return every metric, in the format of Prometheus."""
    found = [
        *await view_metrics.collect_metrics(service.deps),
        *await _day(service),
        *_commits(service),
        *_spans(service),
        *_process(),
    ]
    return Response(metrics.render_metrics(found), headers={"Cache-Control": "no-store"}, media_type=PROMETHEUS)


async def _day(service: Service) -> list[Metric]:
    told = await service.day.read()
    found = (
        ("limit_usd", "What may be spent on a day.", told["limit_usd"]),
        ("spent_usd", "What was spent today, where that is limited.", told["spent_usd"]),
    )
    return [
        Metric(f"day_{key}", text, "gauge", (Sample((), value),) if value is not None else ())
        for key, text, value in found
    ]


def _commits(service: Service) -> list[Metric]:
    said = sorted(service.tools.commits().items())
    commits = tuple(Sample((("database", name),), each[0]) for name, each in said)
    works = tuple(Sample((("database", name),), each[1]) for name, each in said)
    return [
        Metric("commits_total", "Commits since the engine began.", "counter", commits),
        Metric("works_total", "Works that shared those commits.", "counter", works),
        Metric("ready", "Whether work is being done.", "gauge", (Sample((), int(service.ready)),)),
    ]


def _spans(service: Service) -> list[Metric]:
    """Return counters of spans, where traces are exported."""
    if service.tools.tracing is None:
        return []
    counts = service.tools.tracing.counts
    failures = Sample((), counts.failures)
    return [
        Metric("spans_sent_total", "Spans that the tracing system took.", "counter", (Sample((), counts.sent),)),
        Metric("spans_dropped_total", "Spans that it will never take.", "counter", (Sample((), counts.dropped),)),
        Metric("spans_failures", "How often in a row sending spans failed.", "gauge", (failures,)),
    ]


def _process() -> list[Metric]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    numbers = (
        ("process_cpu_seconds_total", "CPU time of the engine itself.", "counter", used.ru_utime + used.ru_stime),
        ("process_resident_bytes", "Memory of the engine itself.", "gauge", _resident()),
        ("process_threads", "Threads of the engine.", "gauge", threading.active_count()),
        ("process_up_seconds", "How long it has run.", "gauge", round(time.monotonic() - _BEGAN, 3)),
    )
    return [
        Metric(name, text, "counter" if kind == "counter" else "gauge", (Sample((), value),))
        for name, text, kind, value in numbers
    ]


def _resident() -> int:
    """Return the resident memory: the current size on Linux, elsewhere the largest so far."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
