"""Webhooks of forges, without any I/O: headers and bytes → whether it is genuine, and what happened.

The settings say what a source is. Headers do not decide it: Gitea and Forgejo also send those of GitHub.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from agenttalk.adapters.forge import body_shapes, gitea_events, github_events
from agenttalk.adapters.forge.fields import UnreadableError
from agenttalk.contracts.core import wire
from agenttalk.contracts.core.vocabulary import ForgeKind
from agenttalk.contracts.errors import Code, InputError, JsonError
from agenttalk.contracts.forge import ForgeEvent
from agenttalk.rules.text import toolchain_words

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
class SignatureCheck:
    """Whether a delivery is genuine."""

    good: bool
    reason: str = ""
    """Why not. Never repeats what was sent."""


@dataclass(frozen=True, slots=True)
class IgnoredDelivery:
    """A delivery that nothing follows from."""

    reason: str
    code: Code | None = None
    """What is wrong with it, unless it is only of no interest."""


class StreamedSignature:
    """The signature of a delivery, computed while its body is read.

    Every signature header must be good, and there must be one. An empty one comes from a hook without a secret; one
    that is repeated could be read in two ways. What cannot be genuine is known before the body.
    """

    def __init__(self, kind: ForgeKind, headers: Headers, secret: str) -> None:
        values = _gathered(headers)
        self._present = {name: values[name] for name in _SIGNATURES[kind] if name in values}
        self._prefixes = _SIGNATURES[kind]
        self.in_form = kind != "github" and _is_form(values)
        """Whether a field of the body is signed, so that the whole body is needed first."""
        self._mac = hmac.new(secret.encode(), digestmod="sha256")
        self._form = bytearray()
        self._found = values
        self.refusal = "no secret is configured" if not secret else self._misshapen()
        """Why it is not genuine with any body; empty when the body decides."""

    def _misshapen(self) -> str:
        if not self._present:
            return f"there is no {' or '.join(self._prefixes)} header"
        for name, values in self._present.items():
            if len(values) != 1:
                return f"{name} occurs {len(values)} times"
            value, prefix = values[0].strip(), self._prefixes[name]
            if not value.startswith(prefix) or not _HEX.match(value.removeprefix(prefix)):
                return f"{name} is empty or not a signature"
        return ""

    def update(self, data: bytes) -> None:
        """Add a part of the body."""
        if self.in_form:
            self._form += data
        else:
            self._mac.update(data)

    def verdict(self) -> str:
        """Explain why the complete body is not genuine; empty when it is."""
        if self.refusal:
            return self.refusal
        if self.in_form:
            try:
                self._mac.update(_json_text(self._found, bytes(self._form)))
            except JsonError as error:
                return error.message
        digest = self._mac.hexdigest()
        for name, values in self._present.items():
            if not hmac.compare_digest(values[0].strip().removeprefix(self._prefixes[name]), digest):
                return f"{name} is not the signature of this body"
        return ""


def check_signature(kind: ForgeKind, headers: Headers, body: bytes, secret: str) -> SignatureCheck:
    """Return whether the complete body was signed with the secret."""
    if secret and len(body) > LIMIT:
        return SignatureCheck(good=False, reason="the body is too large")
    signing = StreamedSignature(kind, headers, secret)
    if not signing.refusal:
        signing.update(body)
    why = signing.verdict()
    return SignatureCheck(good=not why, reason=why)


def read_label(kind: ForgeKind, headers: Headers) -> tuple[str, str]:
    """Return the forge's id of a delivery, and its name of the event; empty when there is none or several.

    At Gitea only the exact type of an event is clear: one word of the other header means two things.
    """
    values = _gathered(headers)
    return _single(values, _DELIVERIES[kind])[:128], _single(values, _EVENTS[kind])[:128]


def read_delivery(source: str, kind: ForgeKind, headers: Headers, body: bytes) -> ForgeEvent | IgnoredDelivery:
    """Return what happened, or why nothing follows from it.

    Never raises: an unreadable delivery is ignored and reported.
    """
    values = _gathered(headers)
    name = _single(values, _EVENTS[kind])[:128]
    if not name:
        return IgnoredDelivery(toolchain_words.DELIVERY["unnamed"](), Code.FORGE_EVENT_UNREADABLE)
    readers: Mapping[str, Callable[..., ForgeEvent | str]] = (
        github_events.READERS if kind == "github" else gitea_events.READERS
    )
    if name not in readers:
        return IgnoredDelivery(toolchain_words.DELIVERY["no_work"](name=name[:60]))
    try:
        data = wire.read(_json_text(values, body), limit=LIMIT)
        if not isinstance(data, dict):
            raise UnreadableError("the body is not a JSON object")
        if why := body_shapes.find_misfit(name, data):
            raise UnreadableError(why)
        event = readers[name](data, source=source, kind=kind)
    except InputError as error:
        return IgnoredDelivery(toolchain_words.DELIVERY["unreadable"](what=error.message), error.code)
    if isinstance(event, str):
        return IgnoredDelivery(toolchain_words.DELIVERY["other_event"](what=event))
    return event.model_copy(update={"delivery": _single(values, _DELIVERIES[kind])[:128]})


def _gathered(headers: Headers) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    return values


def _single(found: Mapping[str, list[str]], names: tuple[str, ...]) -> str:
    """Return the value of the first header that occurs exactly once."""
    return next((found[name][0].strip() for name in names if len(found.get(name, ())) == 1 and found[name][0]), "")


def _is_form(found: Mapping[str, list[str]]) -> bool:
    kinds = {value.partition(";")[0].strip().lower() for value in found.get("content-type", [])}
    return "application/x-www-form-urlencoded" in kinds


def _json_text(found: Mapping[str, list[str]], body: bytes) -> bytes:
    """Read the JSON of a body: as it is, or the field `payload` of a form."""
    if not _is_form(found):
        return body
    if len(body) > LIMIT:
        raise JsonError(Code.JSON_TOO_LARGE, "the body is too large")
    try:
        fields: list[tuple[str, Any]] = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=16, errors="strict"
        )
    except ValueError as error:
        raise JsonError(Code.JSON_SYNTAX, "the body is not a form") from error
    payloads = [value for name, value in fields if name == "payload"]
    if len(payloads) != 1:
        raise JsonError(Code.JSON_SYNTAX, f"the form has {len(payloads)} fields called payload")
    return str(payloads[0]).encode()
