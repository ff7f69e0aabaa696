"""Webhooks of a fake forge: signed as the real ones, and delivered once, twice, late or in another order."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlencode

import httpx2

from agenttalk.testing.gitea_objects import GiteaHook

_SECONDS: Final = 60.0
"""Real forges give up after 5 s, and do not retry. Here that would depend on how busy the machine is."""


@dataclass(slots=True)
class HookDelivery:
    """The one attempt to deliver an event. It is not repeated."""

    id: str
    url: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    """The status of the answer; 0 without an answer."""

    @property
    def event_type(self) -> str:
        """The exact name of the event."""
        return self.headers["X-Gitea-Event-Type"]


class HookDeliveries:
    """All deliveries, past and waiting."""

    def __init__(self, kind: Literal["gitea", "forgejo"]) -> None:
        self._kind = kind
        self._count = 0
        self._waiting: list[HookDelivery] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.all: list[HookDelivery] = []
        self.copies = 1
        """How often each delivery is made, with its own id each time, as with hooks of organisation and repository."""
        self._held = False
        """Whether they wait until `release`."""

    def send_event(self, hooks: Sequence[GiteaHook], coarse: str, exact: str, body: dict[str, Any]) -> None:
        """Send an event to every hook that wants it."""
        for hook in hooks:
            if hook.active and _wants(hook, coarse, exact):
                for _ in range(self.copies):
                    self._queue(self.make_delivery(hook, coarse, exact, body))

    def make_delivery(self, hook: GiteaHook, coarse: str, exact: str, body: dict[str, Any]) -> HookDelivery:
        """Make a delivery with the headers of the real forge, including those that imitate other forges."""
        text = json.dumps(body, indent=2, ensure_ascii=False).encode()
        digest = hmac.new(hook.secret.encode(), text, hashlib.sha256).hexdigest() if hook.secret else ""
        sha1 = hmac.new(hook.secret.encode(), text, hashlib.sha1).hexdigest() if hook.secret else ""
        self._count += 1
        number = f"00000000-0000-4000-8000-{self._count:012}"
        headers = {"X-Hub-Signature": f"sha1={sha1}", "X-Hub-Signature-256": f"sha256={digest}"}
        names = ["Gitea", "Gogs", "GitHub", *(["Forgejo"] if self._kind == "forgejo" else [])]
        for name in names:
            headers |= {f"X-{name}-Delivery": number, f"X-{name}-Event": coarse, f"X-{name}-Event-Type": exact}
            if name != "GitHub":
                headers[f"X-{name}-Signature"] = digest
        if hook.content_type == "form":
            headers["Content-Type"] = "application/x-www-form-urlencoded"
            return HookDelivery(number, hook.url, headers, urlencode({"payload": text.decode()}).encode())
        headers["Content-Type"] = "application/json"
        return HookDelivery(number, hook.url, headers, text)

    def replay(self, delivery: HookDelivery) -> HookDelivery:
        """Send the same delivery again, under a new number."""
        self._count += 1
        number = f"00000000-0000-4000-8000-{self._count:012}"
        headers = {name: number if name.endswith("-Delivery") else value for name, value in delivery.headers.items()}
        again = HookDelivery(number, delivery.url, headers, delivery.body)
        self._queue(again)
        return again

    def hold(self) -> None:
        """Have deliveries wait until `release`."""
        self._held = True

    def release(self, order: Sequence[int] | None = None) -> None:
        """Deliver what waits: in the order in which it happened, or in another one. Who is not named is lost."""
        waiting, self._waiting, self._held = self._waiting, [], False
        for at in order if order is not None else range(len(waiting)):
            self._start(waiting[at])

    def waiting(self) -> list[HookDelivery]:
        """List the deliveries that wait until `release`."""
        return list(self._waiting)

    async def wait_until_settled(self) -> None:
        """Wait until every delivery that was begun has been answered, or has failed."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _queue(self, delivery: HookDelivery) -> None:
        self.all.append(delivery)
        if self._held:
            self._waiting.append(delivery)
        else:
            self._start(delivery)

    def _start(self, delivery: HookDelivery) -> None:
        task = asyncio.get_running_loop().create_task(_sent(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _sent(delivery: HookDelivery) -> None:
    try:
        async with httpx2.AsyncClient(
            timeout=_SECONDS, trust_env=False, verify=delivery.url.startswith("https:")
        ) as client:
            answer = await client.post(delivery.url, content=delivery.body, headers=delivery.headers)
            delivery.status = answer.status_code
    except httpx2.HTTPError:
        delivery.status = 0


def _wants(hook: GiteaHook, coarse: str, exact: str) -> bool:
    """Whether a hook asked for an event: `pull_request` and `issues` stand for everything about them."""
    if exact in hook.events or coarse in hook.events:
        return True
    if "pull_request" in hook.events and (exact.startswith("pull_request") or coarse.startswith("pull_request")):
        return True
    return "issues" in hook.events and (coarse == "issues" or exact == "issue_comment")
