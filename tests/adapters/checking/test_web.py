"""Checks that ask an address: only those that may be asked, and exactly those that were judged."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from adapters.checking.bench import Bench, check
from agenttalk.adapters.checking.command import CheckLimits
from agenttalk.rules.core.http_addresses import read_allowed
from agenttalk.rules.proof.evidence import CheckResult

LIMITS = CheckLimits(answer_bytes=1000, answer_seconds=10)


class Handler(BaseHTTPRequestHandler):
    """Answers as the path asks."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        words = self.path.strip("/").split("/", 1)
        status, extra, body = 200, {}, b"hello"
        match words:
            case ["to", target]:
                status, extra = 302, {"Location": target}
            case ["around"]:
                status, extra = 301, {"Location": "/around"}
            case ["host"]:
                body = self.headers["Host"].encode()
            case ["status", code]:
                status = int(code)
            case ["long"]:
                body = b"x" * 5000 + b"end"
            case ["zipped"]:
                extra = {"Content-Encoding": "gzip"}
            case ["headers"]:
                body = repr(sorted(self.headers.items())).encode()
        self.send_response(status)
        for name, value in {**extra, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@pytest.fixture
def port() -> Iterator[int]:
    """A server on the loopback address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


class Names:
    """A resolver that answers from a list, and counts."""

    def __init__(self, **names: list[list[str]]) -> None:
        self._names = names
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        assert port
        self.asked.append(host)
        answers = self._names.get(host.partition(".")[0], [])
        if not answers:
            raise socket.gaierror(-2, "Name or service not known")
        return answers.pop(0) if len(answers) > 1 else answers[0]


@pytest.fixture
def web(tmp_path: Path) -> Bench:
    made = Bench(tmp_path)
    made.checkout.mkdir()
    return made


def ask(bench: Bench, url: str, *allowed: str, limits: CheckLimits = LIMITS, **fields: Any) -> CheckResult:
    made = check("http", url=url, **fields)
    return bench.make(made, allowed=tuple(map(read_allowed, allowed)), limits=limits)


def test_an_allowed_address_answers_with_its_status_and_text(web: Bench, port: int) -> None:
    here = f"127.0.0.1:{port}"
    result = ask(web, f"http://{here}/", here, contains="ell")
    assert (result.passed, result.reason, result.trust) == (True, "", "observed")
    assert ask(web, f"http://{here}", here, contains="bye").reason == "answer"
    assert ask(web, f"http://{here}/status/404", here, status=404).passed
    assert ask(web, f"http://{here}/status/500", here).reason == "answer"


def test_addresses_of_our_own_network_are_not_asked(web: Bench, port: int) -> None:
    for host in ("127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "0"):
        result = ask(web, f"http://{host}:{port}/")
        assert (result.passed, result.reason) == (False, "refused"), host
    assert ask(web, "http://169.254.169.254/latest/meta-data/", "169.254.0.0/16").reason == "refused"


def test_an_address_is_judged_again_at_every_redirect(web: Bench, port: int) -> None:
    here = f"127.0.0.1:{port}"
    assert ask(web, f"http://{here}/to//host", here).passed
    assert ask(web, f"http://{here}/to/http://{here}/host", here, contains=here).passed
    for target in (
        "http://127.0.0.2/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "http://[::1]/",
        "http://a@b/",
    ):
        result = ask(web, f"http://{here}/to/{target}", here)
        assert (result.passed, result.reason) == (False, "refused"), target
    assert ask(web, f"http://{here}/around", here).reason == "refused"


def test_a_redirect_that_is_asked_for_is_not_followed(web: Bench, port: int) -> None:
    here = f"127.0.0.1:{port}"
    assert ask(web, f"http://{here}/to/http://127.0.0.2/", here, status=302).passed


def test_a_name_is_resolved_once_and_that_address_is_asked(web: Bench, port: int) -> None:
    names = Names(shop=[["127.0.0.1"], ["127.0.0.9"]], other=[["127.0.0.9"]])
    bench = replace(web, resolve=names)
    result = ask(bench, f"http://shop.test:{port}/host", f"127.0.0.1:{port}", contains=f"shop.test:{port}")
    assert result.passed
    assert names.asked == ["shop.test"]
    assert ask(bench, f"http://shop.test:{port}/host", f"127.0.0.1:{port}").reason == "refused"
    assert ask(bench, f"http://other.test:{port}/", f"127.0.0.1:{port}").reason == "refused"


@pytest.mark.parametrize("addresses", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], []])
def test_a_name_of_which_one_address_is_not_allowed_is_not_asked(web: Bench, port: int, addresses: list[str]) -> None:
    bench = replace(web, resolve=Names(mixed=[addresses]))
    assert ask(bench, f"http://mixed.test:{port}/", f"127.0.0.1:{port}").reason == "refused"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.test/", "refused"),
        ("/etc/passwd", "refused"),
        ("http://", "refused"),
        ("http://user:secret@127.0.0.1/", "refused"),
        ("http://127.0.0.1:99999/", "refused"),
        ("http://[::1/", "refused"),
        ("http://nowhere.test/", "unreachable"),
        ("http://127.0.0.1:1/", "unreachable"),
        ("https://127.0.0.1:1/", "unreachable"),
    ],
)
def test_what_cannot_be_asked_does_not_pass(web: Bench, url: str, reason: str) -> None:
    result = ask(replace(web, resolve=Names(**{"127": [["127.0.0.1"]]})), url, "127.0.0.1")
    assert (result.passed, result.reason) == (False, reason)
    assert "secret" not in result.detail


def test_a_certificate_is_demanded(web: Bench, port: int) -> None:
    assert ask(web, f"https://127.0.0.1:{port}/", "127.0.0.1").reason == "unreachable"


def test_no_more_of_an_answer_is_read_than_may_be(web: Bench, port: int) -> None:
    here = f"127.0.0.1:{port}"
    assert ask(web, f"http://{here}/long", here).passed
    result = ask(web, f"http://{here}/long", here, contains="end")
    assert (result.passed, "what could be read" in result.detail) == (False, True)
    assert ask(web, f"http://{here}/zipped", here, contains="x").detail.count("what could be read") == 1


def test_nothing_of_ours_is_sent(web: Bench, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    here = f"127.0.0.1:{port}"
    names = "[('Accept', '*/*'), ('Accept-Encoding', 'identity'), ('Connection', 'close'), ('Host', "
    assert ask(web, f"http://{here}/headers", here, contains=names).passed


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Where somebody answers who knows nothing of manners; a caller that never came is not waited for."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"])
def test_whoever_answers_too_slowly_is_not_waited_for(web: Bench, said: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.sendall(said)
        while connection.recv(1000):
            pass

    with answering(answer) as here:
        result = ask(web, f"http://{here}/", here, timeout=1)
    assert (result.passed, result.reason) == (False, "timeout")


def test_an_answer_that_never_ends_is_cut_off(web: Bench) -> None:
    def answer(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with answering(answer) as here:
        result = ask(web, f"http://{here}/", here, timeout=1)
    assert (result.passed, result.reason) == (False, "timeout")


@pytest.mark.parametrize(
    "said", [b"220 mail.test ESMTP\r\n", b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500 + b"\r\n", b""]
)
def test_what_is_no_answer_of_http_does_not_pass(web: Bench, said: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(said)

    with answering(answer) as here:
        result = ask(web, f"http://{here}/", here, timeout=60)
    assert (result.passed, result.reason) == (False, "unreachable")
