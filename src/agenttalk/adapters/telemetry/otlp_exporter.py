"""Sends spans to a collector that the operator named, by OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_network
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from agenttalk.adapters import http_client
from agenttalk.rules.core.http_addresses import AllowedAddress
from agenttalk.rules.operation import otlp
from agenttalk.rules.proof.evidence import CheckFinding

SECONDS: Final = 10.0
_UNUSABLE: Final = frozenset({400, 413, 415, 422})
"""Answers that reject these very spans for good. Others may depend on settings, or on time."""
_ANSWER: Final = 64 * 1024


class ExportResult(NamedTuple):
    """How a collector answered."""

    ok: bool
    why: str = ""
    final: bool = False
    rejected: int = 0


async def send_spans(url: str, headers: Mapping[str, str], body: bytes) -> ExportResult:
    """Post spans. The operator chose the address, so it may be private. Never raises for what the collector does."""
    port = urlsplit(url).port or (443 if url.startswith("https:") else 80)
    allowed = [AllowedAddress(ip_network(network), port) for network in ("0.0.0.0/0", "::/0")]
    all_headers = {**headers, "Content-Type": otlp.CONTENT_TYPE}
    asking = http_client.HttpRequest(
        allowed, SECONDS, most=_ANSWER, follow=False, method="POST", headers=all_headers, body=body
    )
    answer = await http_client.send_request(url, asking)
    if isinstance(answer, CheckFinding):
        return ExportResult(False, f"{answer.reason}: {answer.detail}")
    if 200 <= answer.status < 300:
        rejected = otlp.read_rejected_count(answer.body)
        return ExportResult(True, f"{rejected} of them were rejected" if rejected else "", rejected=rejected)
    return ExportResult(False, f"it answered {answer.status}", answer.status in _UNUSABLE)
