"""Sends a notice to an address that was judged, as an `http` check does: once, without following redirects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agenttalk.adapters import http_client
from agenttalk.rules.core.http_addresses import AllowedAddress
from agenttalk.rules.proof.evidence import CheckFinding

SECONDS = 10.0
GONE = 410


async def send_notice(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    allowed: Sequence[AllowedAddress],
    resolve: http_client.Resolve = http_client.resolve_host,
) -> tuple[bool, str, bool]:
    """Return whether it was accepted, why not, and whether retrying is useless.

    Never raises for what the receiver does.
    """
    asking = http_client.HttpRequest(
        allowed, SECONDS, most=4096, follow=False, method="POST", headers=headers, body=body
    )
    answer = await http_client.send_request(url, asking, resolve=resolve)
    if isinstance(answer, CheckFinding):
        return False, f"{answer.reason}: {answer.detail}", answer.reason == "refused"
    if 200 <= answer.status < 300:
        return True, "", False
    return False, f"it answered {answer.status}", answer.status == GONE
