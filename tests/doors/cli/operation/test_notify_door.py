"""`[notify.NAME]`: a plan is run, and somebody elsewhere hears how it went."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

import preloaded
from agenttalk.doors.cli.main import call
from agenttalk.rules.operation import notices
from kits.sandboxkit import PLAIN_VARIABLE

PATIENCE = 300.0
PLAN = {
    "plan_id": "shop",
    "agents": {"liar": {"driver": "script", "argv": ["/bin/sh", "-c", "echo all done; echo $SHOP_API_KEY"], "env": ["SHOP_API_KEY"]}},
    "tasks": [
        {
            "id": "build",
            "agent": "liar",
            "prompt": "Build it.",
            "max_reexecute_times": 1,
            "retry_times": 0,
            "outputs": [{"name": "app.txt", "deliverable": True}],
        }
    ],
}  # fmt: skip


@pytest.fixture
def heard() -> Iterator[tuple[int, list[tuple[dict[str, str], bytes]]]]:
    """The port of somebody who listens, and what they heard."""
    found: list[tuple[dict[str, str], bytes]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port, found
    server.shutdown()
    thread.join()
    server.server_close()


def test_who_wants_to_know_hears_of_a_plan_that_failed(
    heard: tuple[int, list[tuple[dict[str, str], bytes]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, found = heard
    for name in [name for name in os.environ if name.startswith(("AGENTTALK", "XDG_")) and name != PLAIN_VARIABLE]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    monkeypatch.setenv("SHOP_API_KEY", "canary-0123456789")
    root = tmp_path / "root"
    root.mkdir()
    (root / "agenttalk.toml").write_text(
        f'[notify.hook]\nurl = "http://127.0.0.1:{port}/hook"\nsecret_env = "HOOK_SECRET"\n'
        f'allow = ["127.0.0.1:{port}"]\n',
        encoding="utf-8",
    )
    (tmp_path / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
    ended = subprocess.run(
        [preloaded.program(), "run", str(tmp_path / "plan.json"), "--root", str(root)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode in {1, 3}, ended.stdout + ended.stderr
    events = [json.loads(body) for _, body in found]
    kinds = [each["type"] for each in events]
    assert "agenttalk.done.refused" in kinds
    assert {"agenttalk.task.failed", "agenttalk.human.asked"} & set(kinds)
    assert len({each["id"] for each in events}) == len(events)
    for headers, body in found:
        timestamp = int(headers["webhook-timestamp"])
        wanted = notices.sign_notice(os.environ["HOOK_SECRET"], headers["webhook-id"], timestamp, body)
        assert headers["webhook-signature"] == wanted
        assert b"canary" not in body


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('url = "ftp://example.org"', "not an http:// or https:// address"),
        ("events = []", "give url or url_env"),
        ('url = "https://example.org"\nevents = ["plan.began"]', "events"),
        ('url = "https://example.org"\nallow = ["localhost"]', "localhost"),
        ('url_env = "NOT_SET"', "NOT_SET, which is not set"),
        ('url = "https://example.org"\nsecret_env = "NO_BASE64"', "notify.hook.secret_env (NO_BASE64): a secret"),
    ],
)
def test_settings_of_notices_that_are_wrong_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("NO_BASE64", "whsec_not base64")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agenttalk.toml").write_text(f"[notify.hook]\n{text}\n", encoding="utf-8")
    assert call(["serve", "--port", "0", "--root", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
