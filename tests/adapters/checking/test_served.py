"""Checks that start a service of the work, and look at it from outside: by requests, and in a browser."""

from __future__ import annotations

import shutil
import socket
from importlib.util import find_spec
from typing import Any

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking.checker import CheckFacts
from agenttalk.adapters.checking.command import CheckLimits
from agenttalk.contracts.core import wire

SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Shop(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/stop":
            os._exit(3)
        page = self.path.startswith("/page")
        body = PAGE.encode() if page else json.dumps({"path": self.path, "price": 40, "sold": True}).encode()
        self.send_response(404 if self.path == "/gone" else 200)
        self.send_header("Content-Type", "text/html" if page else "application/json")
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.send_response(201)
        self.end_headers()
        self.wfile.write(self.rfile.read(int(self.headers["Content-Length"])))
    def log_message(self, *words):
        print("served", *words, flush=True)
PAGE = '''<!doctype html><title>Shop</title><h1>Shop</h1><input id="many" value="1"><button id="add">Add</button>
<p id="total">Total: 0</p><p style="display:none">secret</p><ul></ul><script>
document.querySelector("#add").onclick = () => {
  document.querySelector("#total").textContent = "Total: " + 40 * Number(document.querySelector("#many").value)
  document.querySelector("ul").append(document.createElement("li"))
}
const asked = new URLSearchParams(location.search).get("ask")
if (asked) fetch("http://127.0.0.1:" + asked).catch(() => { document.querySelector("h1").textContent = "refused" })
if (location.search == "?broken") throw new Error("it broke")
</script>'''
HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Shop).serve_forever()
"""
SERVE = "exec python3 shop.py"


def serve(bench: Bench, *requests: dict[str, Any], **fields: Any) -> Any:
    bench.write(shop_py=SERVER)
    return bench.make(check("http", serve=SERVE, requests=list(requests), **fields))


def test_a_service_is_started_asked_and_ended(bench: Bench) -> None:
    if bench.tier == "landlock":
        pytest.skip("landlock gives no network of its own")
    result = serve(
        bench,
        {"path": "/a?b=c", "equals": {"path": "/a?b=c", "price": 40, "sold": True}},
        {"path": "/", "method": "POST", "json": {"many": 2}, "status": 201, "equals": {"many": 2}},
        {"path": "/gone", "status": 404, "contains": "price"},
        ready="/",
    )
    assert (result.passed, result.reason, result.detail) == (True, "", "")
    assert (result.trust, result.isolated) == ("executed", bench.isolated)
    assert "served" in result.output


@pytest.mark.parametrize(
    ("request_", "reason", "words"),
    [
        ({"path": "/", "status": 201}, "answer", "200"),
        ({"path": "/", "contains": "50"}, "answer", "50"),
        ({"path": "/", "equals": {"path": "/", "price": 40, "sold": 1}}, "answer", '"sold":1'),
        ({"path": "/", "equals": {"path": "/", "price": 40.0, "sold": True}}, "answer", "40"),
        ({"path": "/", "method": "POST", "body": "no json", "status": 201, "equals": {}}, "answer", "no json"),
        ({"path": "/stop"}, "unreachable", "/stop: "),
    ],
)
def test_an_answer_that_is_not_as_asked_fails_the_check(
    boxed: Bench, request_: dict[str, Any], reason: str, words: str
) -> None:
    result = serve(boxed, request_)
    assert (result.passed, result.reason) == (False, reason)
    assert words in result.detail


def test_a_service_that_never_listens_fails_the_check(boxed: Bench) -> None:
    boxed.write(shop_py=SERVER)
    asked = [{"path": "/"}]
    ended = boxed.make(check("http", serve="echo no; exit 7", requests=asked))
    assert (ended.passed, ended.reason, ended.output) == (False, "unreachable", "no\n")
    assert "7" in ended.detail
    deaf = boxed.make(check("http", serve="exec sleep 60", requests=asked), limits=CheckLimits(ready_seconds=0.3))
    assert (deaf.passed, deaf.reason) == (False, "unreachable")
    assert "$PORT" in deaf.detail


@pytest.mark.rest
def test_a_service_that_is_never_ready_fails_the_check(boxed: Bench) -> None:
    boxed.write(shop_py=SERVER)
    asked = [{"path": "/"}]
    busy = boxed.make(check("http", serve=SERVE, requests=asked, ready="/gone"), limits=CheckLimits(ready_seconds=10))
    assert (busy.passed, busy.reason) == (False, "unreachable")
    assert "/gone" in busy.detail


def test_a_check_that_asks_for_nothing_does_not_pass(plain: Bench) -> None:
    result = serve(plain)
    assert (result.passed, result.reason) == (False, "facts_missing")


def test_a_service_that_ends_while_it_is_looked_at_has_not_passed(boxed: Bench) -> None:
    result = serve(boxed, {"path": "/"}, {"path": "/stop"}, {"path": "/"})
    assert not result.passed


def test_a_service_that_touches_what_the_check_rests_on_is_refused(plain: Bench) -> None:
    plain.write(shop_py="open('held.txt', 'w').write('x')\n" + SERVER, held_txt="x")
    facts = CheckFacts(tree="sha256:t", protected=("held.txt",))
    result = plain.make(check("http", serve=SERVE, requests=[{"path": "/"}]), facts)
    assert (result.passed, result.reason) == (False, "tampered")


def test_a_link_in_place_of_the_socket_leads_nowhere(boxed: Bench) -> None:
    boxed.write(shop_py=SERVER)
    script = "ln -s /run/other.sock $TMPDIR/service.sock; " + SERVE
    result = boxed.make(check("http", serve=script, requests=[{"path": "/"}]))
    assert result.passed  # the relay puts its own socket there


def test_a_service_may_use_a_port_that_is_taken_outside_of_its_sandbox(boxed: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = serve(boxed, {"path": "/", "contains": "price"}, port=taken.getsockname()[1])
    assert result.passed


def test_landlock_has_no_network_for_a_service(locked: Bench) -> None:
    result = serve(locked, {"path": "/"})
    assert (result.passed, result.reason) == (False, "not_isolated")
    assert "bubblewrap" in result.detail


def browse(bench: Bench, *steps: dict[str, Any], **fields: Any) -> Any:
    if shutil.which("chromium") is None or find_spec("playwright") is None:
        pytest.skip("no browser here: make browser")
    bench.write(shop_py=SERVER)
    return bench.make(check("browser", serve=SERVE, steps=list(steps), **fields))


def test_a_page_is_used_as_a_person_would_and_pictures_are_kept(boxed: Bench) -> None:
    result = browse(
        boxed,
        {"open": "/page"},
        {"title": "Shop"},
        {"see": "Total: 0", "at": "#total"},
        {"miss": "secret"},
        {"fill": "#many", "text": "2"},
        {"value": "#many", "text": "2"},
        {"click": "#add"},
        {"see": "Total: 80"},
        {"count": "li", "number": 1},
        {"address": "/page"},
        {"screenshot": "total"},
    )
    assert (result.passed, result.detail) == (True, "")
    assert [picture.name for picture in result.pictures] == ["total"]
    assert all(picture.data.startswith(b"\x89PNG") for picture in result.pictures)
    assert all(picture.sha256 == wire.sha256(picture.data) for picture in result.pictures)
    assert result.fingerprint.tree == "sha256:t"


@pytest.mark.rest
@pytest.mark.parametrize(
    ("steps", "fields", "words"),
    [
        ([{"open": "/page"}, {"click": "#add"}, {"see": "Total: 80"}], {}, "Total: 40"),
        ([{"open": "/page"}, {"click": "#none"}, {"see": "Shop"}], {}, "#none"),
        ([{"open": "/page"}, {"see": "secret"}], {}, "Shop"),
        ([{"open": "/page?broken"}, {"see": "Shop"}], {"page_errors": "fail"}, "it broke"),
        ([{"open": "/stop"}, {"see": "Shop"}], {}, "the step 'open: /stop' did not succeed"),
    ],
)
def test_a_page_that_is_not_as_asked_fails_the_check(
    boxed: Bench, steps: list[dict[str, Any]], fields: dict[str, Any], words: str
) -> None:
    result = browse(boxed, *steps, **fields)
    assert not result.passed
    assert words in result.detail


@pytest.mark.rest
def test_the_browser_reaches_the_service_and_nothing_else(boxed: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0)
        port = other.getsockname()[1]
        result = browse(boxed, {"open": f"/page?ask={port}"}, {"see": "refused"})
        assert result.passed
        with pytest.raises(BlockingIOError):
            other.accept()
