"""`agenttalk webhook test`: sends a signed sample to the running engine, and waits for its result."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import secrets
import time
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from agenttalk.contracts.errors import Code, MachineError, UsageError
from agenttalk.doors.cli.core import root_access
from agenttalk.doors.cli.core.output import JsonOption, RootOption, sanitize, sanitize_line

app = typer.Typer(no_args_is_help=True, help="Test webhooks.", add_completion=False)
PATIENCE = 30.0


@app.callback()
def main() -> None:
    """Test webhooks."""


@app.command("test")
def send_sample(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Name of the source in the settings.")],
    root: RootOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send a signed sample to the running engine as SOURCE would, and show the result.

    The sample is a comment in a repository that does not exist. It mentions no one, so no task is created.
    """
    from agenttalk.doors.cli.core import engine_client
    from agenttalk.wiring import forge_sources, settings

    out, folder = root_access.choose_root(ctx, root, as_json)
    configured = settings.load(folder).sources.get(source)
    if configured is None:
        raise UsageError(Code.NAME_UNKNOWN, f"there is no source {source!r}", hint="see [sources] in agenttalk.toml")
    client = engine_client.connect_to_running_engine(folder)
    if client is None:
        raise MachineError(Code.ENGINE_UNREACHABLE, "no engine runs here", hint="start 'agenttalk serve' first")
    what = f"sources.{source}.secret"
    secret = forge_sources.read_secret(folder, configured.secret_env, configured.secret_file, os.environ, what)
    body = json.dumps(_sample(configured.base_url)).encode()
    began = time.monotonic()
    status, answer = _sent(client.address, f"/api/webhooks/{source}", _headers(configured.kind, body, secret), body)
    seconds = time.monotonic() - began
    if status != 202:
        detail = str(answer.get("detail") or f"the engine answered {status}")
        raise UsageError(Code.FORGE_SIGNATURE_REFUSED if status == 401 else Code.NAME_UNKNOWN, detail)
    found = _wait_for_result(client, answer["id"])
    if out.as_json:
        out.write_json({"ok": True, "answered_seconds": round(seconds, 3), **found})
        return 0
    out.say(f"[green]✓[/] stored as {sanitize(found['id'])}, answered in {seconds * 1000:.0f} ms")
    out.say(f"[green]✓[/] decided: {sanitize_line(found['state'])} ({sanitize_line(found['outcome'])})")
    return 0


def _sample(base_url: str) -> dict[str, Any]:
    user = {"id": 999_999, "login": "agenttalk-webhook-test", "username": "agenttalk-webhook-test"}
    url = f"{base_url.rstrip('/')}/agenttalk/webhook-test"
    issue = {"id": 1, "number": 1, "title": "A test of the webhook", "body": "", "user": user, "state": "open"}
    issue |= {"assignees": None, "labels": [], "html_url": f"{url}/issues/1", "updated_at": "2026-01-01T00:00:00Z"}
    comment = {"id": 1, "body": "This mentions no one.", "user": user, "html_url": f"{url}/issues/1#issuecomment-1"}
    repository = {"id": 1, "name": "webhook-test", "full_name": "agenttalk/webhook-test", "html_url": url}
    repository |= {"owner": {"id": 1, "login": "agenttalk"}, "default_branch": "main"}
    return {
        "action": "created",
        "issue": issue,
        "comment": comment,
        "repository": repository,
        "sender": user,
        "is_pull": False,
    }


def _headers(kind: str, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers that the forge would send."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest() if secret else ""
    delivery = f"agenttalk-test-{secrets.token_hex(8)}"
    names = {"github": ["GitHub"], "gitea": ["Gitea"], "forgejo": ["Gitea", "Forgejo"]}[kind]
    headers = {"Content-Type": "application/json"}
    for name in names:
        headers |= {f"X-{name}-Delivery": delivery, f"X-{name}-Event": "issue_comment"}
        if name != "GitHub":
            headers |= {f"X-{name}-Event-Type": "issue_comment"} | ({f"X-{name}-Signature": digest} if digest else {})
    return headers | ({"X-Hub-Signature-256": f"sha256={digest}"} if digest else {})


def _sent(address: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:

    where = urlsplit(address)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE)
    try:
        connection.request("POST", path, body, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        return response.status, answer if isinstance(answer, dict) else {}
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise MachineError(Code.ENGINE_UNREACHABLE, f"the engine does not answer: {error}") from error
    finally:
        connection.close()


def _wait_for_result(client: Any, delivery: str) -> dict[str, Any]:
    """Return the delivery once it is decided, or as it is when that takes too long."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found: dict[str, Any] = client.get(f"/api/webhooks/{delivery}")
        if found["state"] != "new" or time.monotonic() > deadline:
            return found
        time.sleep(0.05)
