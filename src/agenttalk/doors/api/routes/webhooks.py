"""The webhook endpoint. It is the busiest route, so a delivery takes the shortest path: bytes in, stored, answered."""

from __future__ import annotations

from typing import Final

from starlette.types import Receive, Scope, Send

from agenttalk.doors.api import bodies
from agenttalk.doors.api.delivery_bodies import DeliveryQuota, IncomingBody
from agenttalk.doors.api.problems import JSON, to_error_response
from agenttalk.engine.operation.service import Service
from agenttalk.engine.toolchain.receiver import StoredDelivery

PATH: Final = "/api/webhooks/"
_HEADERS: Final = [(b"cache-control", b"no-store"), (b"content-type", JSON.encode())]


class WebhookEndpoint:
    """Stores deliveries. A forge authenticates by a signature instead of a token."""

    def __init__(self, service: Service, unfinished: DeliveryQuota) -> None:
        self._service = service
        self.unfinished = unfinished

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one delivery. The path names its source; the answer is sent once it is stored."""
        try:
            received = await self._receive(scope, receive)
        except Exception as error:  # noqa: BLE001 - answered, and logged if it is unexpected
            await to_error_response(error, self._service.redact)(scope, receive, send)
            return
        body = _render_answer(received)
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 202, "headers": [length, *_HEADERS]})
        await send({"type": "http.response.body", "body": body})

    async def _receive(self, scope: Scope, receive: Receive) -> StoredDelivery:
        receiver, name = self._service.receiver, scope["path"].removeprefix(PATH)
        source = receiver.source(name)
        headers = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"]]
        length = next((value for key, value in headers if key == "content-length"), "")
        signed = source.signing(headers)
        if signed is not None and signed.refusal:
            raise receiver.make_signature_error(name, signed.refusal)
        incoming = IncomingBody(self.unfinished, name, signed, length)
        try:
            async for part in bodies.stream_parts(receive):
                incoming.append(part)
            if why := incoming.find_signature_problem():
                raise receiver.make_signature_error(name, why)
            body = incoming.read_all()
        finally:
            incoming.close()
        return await receiver.store_delivery(name, headers, body)


def make_webhook_endpoint(service: Service) -> WebhookEndpoint:
    """Make the endpoint of an engine; unfinished bodies are kept in its root."""
    return WebhookEndpoint(service, DeliveryQuota(service.deps.root.path / "data"))


def _render_answer(received: StoredDelivery) -> bytes:
    return b'{"again":%s,"id":"%s"}' % (b"true" if received.again else b"false", received.id.encode())
