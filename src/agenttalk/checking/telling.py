"""Sending a notice to an address that was judged, as an `http` check asks one: once, without following redirects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agenttalk.checking import web
from agenttalk.rules.core.http_addresses import Allowed
from agenttalk.rules.proof.evidence import Finding

SECONDS = 10.0
GONE = 410


async def told(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    allowed: Sequence[Allowed],
    resolve: web.Resolve = web.resolved,
) -> tuple[bool, str, bool]:
    """Whether it was taken, why not, and whether it is of no use to try again. Never raises for what others do."""
    asking = web.Asking(allowed, SECONDS, most=4096, follow=False, method="POST", headers=headers, body=body)
    answer = await web.get(url, asking, resolve=resolve)
    if isinstance(answer, Finding):
        return False, f"{answer.reason}: {answer.detail}", answer.reason == "refused"
    if 200 <= answer.status < 300:
        return True, "", False
    return False, f"it answered {answer.status}", answer.status == GONE
