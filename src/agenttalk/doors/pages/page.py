"""Templates into pages: everything that is not ours is escaped, and times and sizes are written for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from starlette.responses import Response

from agenttalk.contracts.core import wire
from agenttalk.contracts.core.base import parse_instant
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.engine.operation.sessions import Session
from agenttalk.rules.agents.activity import TaskActivity, describe_activity
from agenttalk.rules.text.catalogue import read_own_text, read_text
from agenttalk.rules.text.code_words import render_code, render_refusal
from agenttalk.rules.text.message import join, render
from agenttalk.rules.text.page_words import PAGE

if TYPE_CHECKING:
    import jinja2

FOLDER: Final = Path(__file__).parent
NOTHING: Final = "\N{EN DASH}"
Theme = Literal["auto", "light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("auto", "light", "dark")
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": browsers then say "Origin: null" with our own forms, and those are refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class PageContext:
    """The reader of a page, and its settings."""

    language: Locale = "en"
    theme: Theme = "auto"
    session: Session | None = None
    path: str = "/"
    now: datetime | None = None
    cursor: str = ""
    """How far the ledger had come when the page was made: the script follows from there."""
    waiting: int = 0
    """How many questions wait for an answer."""
    told: str = ""
    """The result of the last form."""

    @property
    def may_act(self) -> bool:
        """Whether forms are shown."""
        return self.session is not None and self.session.role == "operator"


def render_page(name: str, reader: PageContext, status: int = 200, /, **values: Any) -> Response:
    """Render a page as an answer."""
    shown = _environment().get_template(f"{name}.html")
    language = reader.language
    text = shown.render(
        reader=reader,
        t=lambda key, **given: PAGE[key].render(language, **given),
        c=partial(render_code, language),
        refusal=partial(render_refusal, language),
        tell=partial(translate, language),
        tell_all=partial(translate_all, language),
        tell_field=partial(translate_field, language),
        doing=partial(describe_doing, language, reader.now),
        tell_own=partial(translate_own, language),
        page=name,
        ago=lambda at: format_age(at, reader.now),
        version=_version(),
        **values,
    )
    # What came from outside may hold half characters, which UTF-8 cannot.
    return Response(text.encode("utf-8", "replace"), status, headers=HEADERS, media_type="text/html; charset=utf-8")


def translate(language: Locale, text: object) -> str:
    """Return a text in the language of the reader. What agents and people wrote is shown as it is."""
    return render(text, language) if isinstance(text, str) else ""


def translate_all(language: Locale, texts: Sequence[str]) -> str:
    """Return texts one after the other in the language of the reader."""
    return translate(language, join(texts))


def translate_field(language: Locale, document: Mapping[str, Any], name: str) -> str:
    """Return the text in a field of a document in the language of the reader."""
    return translate(language, read_text(document, name)) if isinstance(document.get(name), str) else ""


def describe_doing(language: Locale, now: datetime | None, task: Mapping[str, Any]) -> str:
    """Return what a task is doing at this moment, in the language of the reader; empty if nothing is done for it."""
    activity: TaskActivity | None = task.get("activity")
    if activity is None:
        return ""
    parts = [describe_activity(activity, str(task.get("agent_id", "")), language)]
    if activity["rounds"] and activity["rounds"] > 1:
        parts.append(PAGE["round_of"].render(language, k=activity["round"], n=activity["rounds"]))
    if activity["since"] and now is not None:
        parts.append(format_age(activity["since"], now))
    if activity["tokens"]:
        parts.append(f"{activity['tokens']:,} {PAGE['tokens'].render(language)}")
    if activity["cost_usd"]:
        parts.append(f"${activity['cost_usd']:.2f}")
    return " · ".join(parts)


def translate_own(language: Locale, document: Mapping[str, Any], name: str) -> str:
    """Return the text in a field of a document that another party may have written, in the reader's language."""
    return translate(language, read_own_text(document, name)) if isinstance(document.get(name), str) else ""


@cache
def _environment() -> jinja2.Environment:
    import jinja2  # for the first page only: an engine without readers needs no templates

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        seconds=format_duration,
        bytes=format_size,
        short=shorten_digest,
        clock=format_time,
        day=format_day,
        part=quote_part,
        pretty=format_json,
    )
    environment.globals.update(badge_of=badge_of, board_of=board_of)
    return environment


@cache
def _version() -> str:
    """Changes when an asset does, so that browsers fetch it anew."""
    data = b"".join(each.read_bytes() for each in sorted((FOLDER / "static").iterdir()))
    return wire.sha256(data).removeprefix("sha256:")[:10]


def quote_part(text: str) -> str:
    """Quote a text as one part of an address."""
    return quote(str(text), safe="")


def format_json(value: Any) -> str:
    """JSON that people can read."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def format_duration(value: float | None) -> str:
    """Format a duration."""
    if value is None:
        return NOTHING
    for unit, name in _UNITS:
        if value >= unit:
            whole, rest = divmod(int(value), unit)
            smaller = dict(zip(("d", "h", "min"), ((3600, "h"), (60, "min"), (1, "s")), strict=True))[name]
            return f"{whole} {name} {rest // smaller[0]} {smaller[1]}" if rest // smaller[0] else f"{whole} {name}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s" if value else "0 s"


def format_size(value: int | None) -> str:
    """Format a size."""
    if value is None:
        return NOTHING
    for name in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value} {name}" if name == "B" else f"{value:.1f} {name}"
        value = value / 1024  # type: ignore[assignment]
    return f"{value:.1f} GiB"


def shorten_digest(digest: str | None, length: int = 10) -> str:
    """Return the beginning of a hash."""
    return (digest or "").removeprefix("sha256:")[:length] or NOTHING


def format_time(at: str | None) -> str:
    """Format the time of day, in UTC."""
    return at[11:19] if at else NOTHING


def format_day(at: str | None) -> str:
    """Day and time, in UTC."""
    return f"{at[:10]} {at[11:19]}" if at else NOTHING


def format_age(at: str | None, now: datetime | None) -> str:
    """Format how long ago something was."""
    if not at or now is None:
        return NOTHING
    return format_duration(max(0.0, round((now - parse_instant(at)).total_seconds())))


def board_of(task: Mapping[str, Any]) -> str:
    """Return the word for the state of a task. Completed tasks that are unproven or stale have words of their own."""
    if task.get("freshness") == "stale":
        return "stale"
    if task.get("proven") is False:
        return "claimed"
    if task.get("phase") in {"asking", "offered", "awaiting"}:  # a person or another program has to act
        return "waiting"
    return str(task.get("board") or task.get("status") or "pending")


def badge_of(name: str) -> str:
    """Return the colour and shape of a state."""
    return {
        "done": "good",
        "proven": "good",
        "approved": "good",
        "OK": "good",
        "replayed": "good",
        "working": "busy",
        "running": "busy",
        "review": "ask",
        "waiting": "ask",
        "blocked": "ask",
        "paused": "ask",
        "stale": "old",
        "claimed": "unproven",
        "failed": "bad",
        "rejected": "bad",
        "CRITICAL": "bad",
        "refused": "bad",
        "open": "ask",
    }.get(name, "calm")
