"""Webhooks of forges, without any input or output: headers and bytes → is it genuine, and what happened.

What a source is was configured. Headers do not decide it: Gitea and Forgejo also send those of GitHub.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from agenttalk.contracts import wire
from agenttalk.contracts.forge import ForgeEvent
from agenttalk.contracts.words import ForgeKind
from agenttalk.errors import Code, InputError, JsonError
from agenttalk.forge import gitea_events, github_events
from agenttalk.forge.reading import UnreadableError

LIMIT: Final = 25 * 1024 * 1024
"""Bytes of a body; GitHub sends no more either."""
Headers = Iterable[tuple[str, str]]

_SIGNATURES: Final[dict[ForgeKind, dict[str, str]]] = {
    "gitea": {"x-gitea-signature": "", "x-hub-signature-256": "sha256="},
    "forgejo": {"x-forgejo-signature": "", "x-gitea-signature": "", "x-hub-signature-256": "sha256="},
    "github": {"x-hub-signature-256": "sha256="},
}
_EVENTS: Final[dict[ForgeKind, tuple[str, ...]]] = {
    "gitea": ("x-gitea-event-type", "x-gitea-event"),
    "forgejo": ("x-forgejo-event-type", "x-gitea-event-type", "x-forgejo-event", "x-gitea-event"),
    "github": ("x-github-event",),
}
_DELIVERIES: Final[dict[ForgeKind, tuple[str, ...]]] = {
    "gitea": ("x-gitea-delivery",),
    "forgejo": ("x-forgejo-delivery", "x-gitea-delivery"),
    "github": ("x-github-delivery",),
}
_HEX: Final = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class Signature:
    """Whether a delivery is genuine."""

    good: bool
    reason: str = ""
    """Why not. It never repeats what was sent."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """A delivery that nothing follows from."""

    reason: str
    code: Code | None = None
    """What is wrong with it, when it is not simply of no interest."""


def check_signature(kind: ForgeKind, headers: Headers, body: bytes, secret: str) -> Signature:
    """Whether somebody who knows the secret signed the body.

    Every signature that came along must be good, and there must be one. An empty one is that of a hook without a
    secret; one that stands twice could be read in two ways.
    """
    if not secret:
        return Signature(good=False, reason="no secret is configured")
    if len(body) > LIMIT:
        return Signature(good=False, reason="the body is too large")
    found = _gathered(headers)
    present = {name: found[name] for name in _SIGNATURES[kind] if name in found}
    if not present:
        return Signature(good=False, reason=f"there is no {' or '.join(_SIGNATURES[kind])} header")
    try:
        signed = body if kind == "github" else _json_text(found, body)
    except JsonError as error:
        return Signature(good=False, reason=error.message)
    digest = hmac.digest(secret.encode(), signed, "sha256").hex()
    for name, values in present.items():
        prefix = _SIGNATURES[kind][name]
        if len(values) != 1:
            return Signature(good=False, reason=f"{name} stands there {len(values)} times")
        value = values[0].strip()
        if not value.startswith(prefix) or not _HEX.match(value.removeprefix(prefix)):
            return Signature(good=False, reason=f"{name} is empty or no signature")
        if not hmac.compare_digest(value.removeprefix(prefix), digest):
            return Signature(good=False, reason=f"{name} is not the signature of this body")
    return Signature(good=True)


def label(kind: ForgeKind, headers: Headers) -> tuple[str, str]:
    """The forge's number of a delivery, and what it calls the event; empty when there is none or several.

    At Gitea only the exact type of an event is clear: one word means two things in the other header.
    """
    found = _gathered(headers)
    return _single(found, _DELIVERIES[kind])[:128], _single(found, _EVENTS[kind])[:128]


def read(source: str, kind: ForgeKind, headers: Headers, body: bytes) -> ForgeEvent | Ignored:
    """What happened, or why nothing follows from it. Never raises: what cannot be read is ignored and told."""
    found = _gathered(headers)
    name = _single(found, _EVENTS[kind])[:128]
    if not name:
        return Ignored("no header says what happened", Code.FORGE_EVENT_UNREADABLE)
    readers: Mapping[str, Callable[..., ForgeEvent | str]] = (
        github_events.READERS if kind == "github" else gitea_events.READERS
    )
    if name not in readers:
        return Ignored(f"{name[:60]!r} is none of the events that call for work")
    try:
        data = wire.read(_json_text(found, body), limit=LIMIT)
        if not isinstance(data, dict):
            raise UnreadableError("the body is no JSON object")
        event = readers[name](data, source=source, kind=kind)
    except InputError as error:
        return Ignored(error.message, error.code)
    if isinstance(event, str):
        return Ignored(event)
    return event.model_copy(update={"delivery": _single(found, _DELIVERIES[kind])[:128]})


def _gathered(headers: Headers) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in headers:
        found.setdefault(name.lower(), []).append(value)
    return found


def _single(found: Mapping[str, list[str]], names: tuple[str, ...]) -> str:
    """The value of the first header that has exactly one."""
    return next((found[name][0].strip() for name in names if len(found.get(name, ())) == 1 and found[name][0]), "")


def _json_text(found: Mapping[str, list[str]], body: bytes) -> bytes:
    """The JSON of a body: as it is, or the field `payload` of a form."""
    kinds = {value.partition(";")[0].strip().lower() for value in found.get("content-type", [])}
    if "application/x-www-form-urlencoded" not in kinds:
        return body
    if len(body) > LIMIT:
        raise JsonError(Code.JSON_TOO_LARGE, "the body is too large")
    try:
        fields: list[tuple[str, Any]] = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=16, errors="strict"
        )
    except ValueError as error:
        raise JsonError(Code.JSON_SYNTAX, "the body is no form") from error
    payloads = [value for name, value in fields if name == "payload"]
    if len(payloads) != 1:
        raise JsonError(Code.JSON_SYNTAX, f"the form has {len(payloads)} fields called payload")
    return str(payloads[0]).encode()
