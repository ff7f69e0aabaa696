"""Notices for people elsewhere: which facts cause one, how it is formatted, and how it is signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, UsageError

NoticeEvent: TypeAlias = Literal[
    "plan.ended", "task.failed", "human.asked", "done.refused", "budget.stopped", "account.limited"
]
NoticeFormat: TypeAlias = Literal["cloudevents", "slack"]
LONGEST: Final = 300
"""Characters of a reason or message in a notice, at most."""
_PREFIX: Final = "whsec_"
"""The beginning of secrets of Standard Webhooks."""
_BUDGET: Final = "budget-exhausted"
_REFUSED: Final = frozenset({"NOT_FULFILLED", "REWORK_EXHAUSTED"})


class OutboundNotice(NamedTuple):
    """Something that people may want to know."""

    event: NoticeEvent
    plan_id: str
    task_id: str
    """Empty if the notice is about a plan."""
    text: str
    """One line."""


def make_notices(kind: str, subject: str, body: Mapping[str, Any]) -> Iterator[OutboundNotice]:
    """Make the notices of a fact of the ledger."""
    match kind:
        case "plan.ended":
            counts = ", ".join(f"{count} {name}" for name, count in body.items() if count)
            yield OutboundNotice(
                "plan.ended", subject, "", f"plan {subject} has ended: {counts or 'nothing was to be done'}"
            )
        case "plan.cancelled":
            yield OutboundNotice(
                "plan.ended", subject, "", f"plan {subject} was called off: {_line(body.get('reason'))}"
            )
        case "human.asked":
            plan_id = str(body.get("plan_id") or "")
            yield OutboundNotice("human.asked", plan_id, "", f"a person is asked about {plan_id}: {subject}")
        case "alert" if body.get("type") == "COMMAND_FAILED":
            task_id = str((body.get("source") or {}).get("task_id") or "")
            yield OutboundNotice("task.failed", str(body["plan_id"]), task_id, _line(body.get("message")))
        case "turn.ended":
            yield from _make_turn_notices(body)
        case "account.waits" if body.get("kind") == "usage":
            plan_id, task_id = str(body.get("plan_id") or ""), str(body.get("task_id") or "")
            agent, until, why = str(body.get("agent")), str(body.get("until")), _line(body.get("text"))
            told = f"{agent}: usage limit of the account until {until}; its tasks wait ({why})"
            yield OutboundNotice("account.limited", plan_id, task_id, told)
        case "task.moved" if str(body.get("reason") or "").startswith(_BUDGET):
            plan_id, _, task_id = subject.partition("/")
            yield OutboundNotice("budget.stopped", plan_id, task_id, f"{subject} is stopped: {_line(body['reason'])}")


def _make_turn_notices(body: Mapping[str, Any]) -> Iterator[OutboundNotice]:
    ack = body.get("ack") or {}
    plan_id, task_id = str(ack.get("plan_id") or ""), str(ack.get("task_id") or "")
    reason = _line(body.get("reason"))
    if reason.startswith(_BUDGET):
        yield OutboundNotice("budget.stopped", plan_id, task_id, f"{plan_id}/{task_id} is stopped: {reason}")
    elif body.get("how") == "finished" and body.get("cause") in _REFUSED:
        agent = str(ack.get("consumer_agent_id") or "")
        yield OutboundNotice(
            "done.refused", plan_id, task_id, f"{agent} said that {plan_id}/{task_id} is done: {reason}"
        )


def _line(text: object) -> str:
    """Put a text on one line, and cut it to `LONGEST` characters."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]}…"


def make_notice_id(board: str, link: int, notice: OutboundNotice) -> str:
    """Make the id of a notice. It is the same each time the notice is sent."""
    digest = hashlib.sha256(f"{board}/{link}/{notice.event}".encode()).hexdigest()
    return f"evt_{digest[:32]}"


def render_notice(notice: OutboundNotice, form: NoticeFormat, *, identity: str, source: str, at: str) -> bytes:
    """Render a notice as a CloudEvent, or as a message for Slack and similar services."""
    if form == "slack":
        return wire.write({"text": f"[{notice.event}] {_escaped(notice.text)}"})
    data = {"plan_id": notice.plan_id, "text": notice.text}
    if notice.task_id:
        data["task_id"] = notice.task_id
    return wire.write(
        {
            "specversion": "1.0",
            "id": identity,
            "source": source,
            "type": f"agenttalk.{notice.event}",
            "subject": f"{notice.plan_id}/{notice.task_id}".rstrip("/"),
            "time": at,
            "datacontenttype": "application/json",
            "data": data,
        }
    )


def _escaped(text: str) -> str:
    """Escape text that Slack would read as a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def make_headers(form: NoticeFormat, identity: str, timestamp: int, body: bytes, secret: str | None) -> dict[str, str]:
    """Make the headers of Standard Webhooks, signed if there is a secret."""
    kind = "application/json" if form == "slack" else "application/cloudevents+json"
    headers = {"Content-Type": kind, "webhook-id": identity, "webhook-timestamp": str(timestamp)}
    if secret is not None:
        headers["webhook-signature"] = sign_notice(secret, identity, timestamp, body)
    return headers


def sign_notice(secret: str, identity: str, timestamp: int, body: bytes) -> str:
    """Sign as Standard Webhooks does: `v1,` and an HMAC over id, time and body."""
    signed = b".".join((identity.encode(), str(timestamp).encode(), body))
    return "v1," + base64.b64encode(hmac.digest(decode_secret(secret), signed, "sha256")).decode()


def decode_secret(secret: str) -> bytes:
    """Decode the signing key: a secret that begins with `whsec_` is base64, any other is used as it is.

    Raises UsageError if that base64 is invalid or empty, because the receiver would check with another key.
    """
    if not secret.startswith(_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not key:
        hint = f"copy the whole secret again, or use one that does not begin with {_PREFIX}"
        raise UsageError(Code.FIELD_VALUE, f"a secret that begins with {_PREFIX} needs base64 behind it", hint=hint)
    return key
