"""What comes in over the wire: names, pages, sizes, and bytes that are no requests."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from agenttalk.contracts.errors import AgentTalkError, Code
from agenttalk.doors.api import bodies
from agenttalk.doors.api import connection as listener
from agenttalk.doors.api.server import serve_app, socket_folder
from doors.api.doorkit import OPERATOR, Door

TASK = "/api/projects/default/tasks/plan_shop:build"


def port(door: Door) -> str:
    return door.where.http.rpartition(":")[2]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "agenttalk",
        "agenttalk:{port}",
        "",
        "0.0.0.0:{port}",
    ],
)
def test_a_request_under_another_name_is_misdirected(door: Door, host: str) -> None:
    for path in ("/healthz", "/api/status", "/nothing"):
        answer = door.get(path, headers={"Host": host.format(port=port(door))})
        assert (answer.status, answer.code) == (421, "HOST_REFUSED")


def test_two_names_or_none_are_misdirected(door: Door) -> None:
    host = door.where.http.removeprefix("http://")
    none = door.raw(b"GET /healthz HTTP/1.0\r\n\r\n")
    assert none.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))
    two = door.raw(f"GET /healthz HTTP/1.1\r\nHost: {host}\r\nHost: evil.example\r\nConnection: close\r\n\r\n".encode())
    assert two.startswith((b"HTTP/1.1 421 ", b"HTTP/1.1 400 "))


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_loopback_names_with_our_port_are_ours(door: Door, name: str) -> None:
    assert door.get("/healthz", None, headers={"Host": f"{name}:{port(door)}"}).status == 200


def test_the_socket_answers_to_its_own_name_and_not_to_others(door: Door) -> None:
    assert door.get("/healthz", None, over="socket").status == 200
    assert door.get("/healthz", None, over="socket", headers={"Host": "localhost"}).status == 200
    assert door.get("/healthz", None, over="socket", headers={"Host": "evil.example"}).status == 421


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1"]
)
def test_a_page_of_somebody_else_may_not_ask(door: Door, origin: str) -> None:
    headers = {"Origin": origin.format(port=port(door))}
    for path, token in (("/healthz", None), ("/api/status", OPERATOR)):
        answer = door.get(path, token, headers=headers)
        assert (answer.status, answer.code) == (403, "HOST_REFUSED")
    assert door.get("/api/status", headers={"Origin": door.where.http}).status == 200


def test_no_page_is_ever_allowed_to_read_answers(door: Door) -> None:
    asked = {"Origin": door.where.http, "Access-Control-Request-Method": "POST"}
    answer = door.ask("OPTIONS", "/api/passes", headers=asked)
    assert answer.status == 405
    for each in (answer, door.get("/api/status", headers={"Origin": door.where.http})):
        assert not [name for name in each.headers if name.startswith("access-control")]
        assert "server" not in each.headers


def test_health_needs_no_token_and_readiness_tells_the_truth(door: Door) -> None:
    assert door.get("/healthz", None).json == {"ok": True}
    assert (door.get("/readyz", None).status, door.get("/readyz", None).json) == (503, {"ok": False})
    door.working.append(True)
    assert door.get("/readyz", None).status == 200


@pytest.mark.parametrize("path", ["/nothing", "/healthz/", "/api", "/api/status/", "/api//status", "/API/status"])
def test_an_unknown_address_is_a_problem_like_every_other(door: Door, path: str) -> None:
    answer = door.get(path)
    assert (answer.status, answer.code) == (404, "NAME_UNKNOWN")
    assert set(answer.json) == {"type", "title", "status", "code", "detail", "hint"}
    assert "openapi" in answer.json["hint"]


def test_a_wrong_method_is_told_with_those_that_work(door: Door) -> None:
    answer = door.ask("DELETE", "/api/status", token=OPERATOR)
    assert (answer.status, answer.code) == (405, "NAME_UNKNOWN")
    assert "GET" in answer.headers["allow"]
    assert "GET" in answer.json["hint"]


def test_a_body_that_is_too_large_is_refused_before_it_is_read(door: Door) -> None:
    host = door.where.http.removeprefix("http://")
    head = (
        f"POST /api/passes HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {OPERATOR}\r\n"
        f"Content-Length: 1048577\r\nConnection: close\r\n\r\n"
    )
    assert door.raw(head.encode()).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_a_length_is_cut_off_at_the_limit(door: Door) -> None:
    host = door.where.http.removeprefix("http://")
    head = (
        f"POST /api/passes HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {OPERATOR}\r\n"
        f"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    assert door.raw(head.encode() + piece * 17).startswith(b"HTTP/1.1 413 ")


def test_a_comment_over_the_limit_is_refused_and_one_below_is_kept(door: Door) -> None:
    token = door.leased()
    comment = {"author": "dev", "comment_type": "general", "body": "x" * 1024 * 1024}
    answer = door.post(f"{TASK}/comments", comment, token)
    assert (answer.status, answer.code) == (413, "JSON_TOO_LARGE")
    assert door.post(f"{TASK}/comments", {**comment, "body": "x" * 1000 * 1000}, token).status == 201


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "JSON_SYNTAX"),
        (b"{", "JSON_SYNTAX"),
        (b"\xff\xfe", "JSON_SYNTAX"),
        (b"\xef\xbb\xbf{}", "JSON_SYNTAX"),
        (b'{"part": NaN}', "JSON_NUMBER"),
        (b'{"part": 1e999}', "JSON_NUMBER"),
        (b'{"part": "route", "part": "monitor"}', "JSON_DUPLICATE_KEY"),
        (b'{"part": "\\ud800"}', "JSON_TEXT"),
        (b'{"part": ' + b"[" * 100 + b"]" * 100 + b"}", "JSON_TOO_DEEP"),
    ],
)
def test_bytes_that_are_not_json_are_told_as_such(door: Door, body: bytes, code: str) -> None:
    answer = door.post("/api/passes", body)
    assert (answer.status, answer.code) == (400, code)


@pytest.mark.parametrize(
    "body", [[], "route", 1, None, {}, {"part": 1}, {"part": None}, {"part": "route", "agent": "../x"}]
)
def test_json_that_is_not_what_was_asked_for_names_every_problem(door: Door, body: object) -> None:
    answer = door.post("/api/passes", json.dumps(body).encode())
    assert answer.status == 422
    assert answer.json["problems"]
    assert door.passes == []


def test_a_misspelt_field_is_told_with_the_right_one(door: Door) -> None:
    answer = door.post("/api/passes", {"prat": "route"})
    assert (answer.status, answer.code) == (422, "FIELD_UNKNOWN")
    assert answer.json["hint"] == "did you mean 'part'?"


def test_a_pass_is_run_and_its_report_is_the_answer(door: Door) -> None:
    assert door.post("/api/passes", {"part": "route"}).json["delivered"] == 0
    assert door.post("/api/passes", {"part": "route", "agent": "dev"}).status == 200
    assert door.passes == [None, "dev"]
    answer = door.post("/api/passes", {"part": "router"})
    assert (answer.status, answer.code, answer.json["hint"]) == (404, "NAME_UNKNOWN", "did you mean 'route'?")


def test_a_fault_of_ours_is_answered_without_its_details(
    door: Door, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: object) -> list[object]:
        raise RuntimeError("a secret path")

    monkeypatch.setattr("agenttalk.doors.api.routes.operator.check_root", broken)
    answer = door.get("/api/fsck")
    assert (answer.status, answer.code) == (500, "UNHANDLED_EXCEPTION")
    assert b"secret path" not in answer.data
    assert "secret path" in caplog.text
    assert OPERATOR not in caplog.text


def test_what_is_no_request_harms_nobody(door: Door) -> None:
    for data in (
        b"\x00\x01\x02\r\n\r\n",
        b"GET\r\n\r\n",
        b"A" * 100_000 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    ):
        assert door.raw(data).startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert door.get("/healthz", None).status == 200


def test_somebody_who_hangs_up_in_the_middle_harms_nobody(door: Door) -> None:
    host = door.where.http.removeprefix("http://")
    head = f"POST /api/passes HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {OPERATOR}\r\nContent-Length: 100\r\n\r\nhalf"
    with socket.create_connection(("127.0.0.1", int(port(door)))) as connection:
        connection.sendall(head.encode())
    assert door.get("/healthz", None).status == 200


def head(door: Door, line: str, *fields: str) -> bytes:
    """The head of a request, with a name and a token."""
    host = door.where.http.removeprefix("http://")
    lines = [line, f"Host: {host}", f"Authorization: Bearer {OPERATOR}", *fields]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def test_requests_that_come_all_at_once_are_answered_one_by_one(door: Door) -> None:
    body = b'{"part": "route", "agent": "a%d"}'
    asked = [body % number for number in range(20)]
    sent = b"".join(head(door, "POST /api/passes HTTP/1.1", f"Content-Length: {len(each)}") + each for each in asked)
    found = door.raw(sent + head(door, "GET /nothing HTTP/1.1", "Connection: close"))
    assert found.count(b"HTTP/1.1 200 OK") == 20
    assert b"HTTP/1.1 404 " in found.rpartition(b"HTTP/1.1 200 OK")[2]
    assert door.passes == [f"a{number}" for number in range(20)]


@pytest.mark.parametrize(
    "fields",
    [
        ["Content-Length: 2", "Content-Length: 30"],
        ["Content-Length: -1"],
        ["Content-Length: 0x10"],
        ["Content-Length: 99999999999999999999999999"],
        ["Content-Length: 17", "Content-Length: 17"],
        ["Transfer-Encoding: gzip, chunked"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Content-Length: 17\nX-A: one"],
        ["X-A: one", " folded: line", "X\x00: y"],
    ],
)
def test_a_body_that_two_programs_could_cut_differently_is_refused(door: Door, fields: list[str]) -> None:
    found = door.raw(head(door, "POST /api/passes HTTP/1.1", *fields, "Connection: close") + b'{"part": "route"}')
    assert found.split(b" ", 2)[1] in {b"400", b"413", b"501"}
    assert found.count(b"HTTP/1.1 ") == 1
    assert door.passes == []


def test_of_two_lengths_the_chunks_count_and_nothing_is_smuggled(door: Door) -> None:
    chunk = b'{"part": "route"}'
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(chunk), chunk)
    hidden = head(door, "GET /api/status HTTP/1.1", "Connection: close")
    fields = ["Content-Length: 4", "Transfer-Encoding: chunked", "Connection: close"]
    found = door.raw(head(door, "POST /api/passes HTTP/1.1", *fields) + chunks + hidden)
    assert found.count(b"HTTP/1.1 ") == 1
    assert b"plans" not in found


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "identity", "chunked, chunked"])
def test_a_coding_that_nobody_knows_is_refused(door: Door, coding: str) -> None:
    fields = [f"Transfer-Encoding: {coding}", "Connection: close"]
    found = door.raw(head(door, "POST /api/passes HTTP/1.1", *fields) + b'11\r\n{"part": "route"}\r\n0\r\n\r\n')
    assert found.startswith(b"HTTP/1.1 400 ")
    assert door.passes == []


def test_lines_behind_a_body_are_no_lines_of_its_head(door: Door) -> None:
    """Whoever forwards requests may let them through, though he would not let them stand in a head."""
    host = door.where.http.removeprefix("http://")
    sent = f"POST /api/passes HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    behind = f"Authorization: Bearer {OPERATOR}\r\n\r\n"
    assert door.raw(f'{sent}11\r\n{{"part": "route"}}\r\n0\r\n{behind}'.encode()).startswith(b"HTTP/1.1 401 ")
    assert door.passes == []


@pytest.mark.parametrize("behind", [b"X: ", b"X: y\r\n" * 20_000 + b"X: "])
def test_lines_behind_a_body_come_to_an_end(door: Door, behind: bytes) -> None:
    sent = head(door, "POST /api/passes HTTP/1.1", "Transfer-Encoding: chunked") + b"2\r\n{}\r\n0\r\n" + behind
    with socket.create_connection(("127.0.0.1", int(port(door))), timeout=300) as connection:
        connection.sendall(sent)
        found = b""
        for _ in range(1000):
            try:
                connection.sendall(b"x" * 10_000)
            except OSError:
                break
        else:
            pytest.fail("ten million bytes were taken")
        with suppress(OSError):
            found = connection.recv(100)
    assert found[:13] in {b"HTTP/1.1 400 ", b""}
    assert door.passes == []


def test_a_head_is_as_large_as_it_may_be_and_no_larger(door: Door) -> None:
    for size, status in ((50_000, b"200"), (70_000, b"400")):
        line = f"X-Field: {'x' * size}"
        found = door.raw(head(door, "GET /healthz HTTP/1.1", line, "Connection: close"))
        assert found.split(b" ", 2)[1] == status


def test_many_requests_at_once_may_be_larger_than_a_head(door: Door) -> None:
    one = head(door, "GET /healthz HTTP/1.1", f"X-Field: {'x' * 20_000}")
    found = door.raw(one * 20 + head(door, "GET /healthz HTTP/1.1", "Connection: close"))
    assert found.count(b"HTTP/1.1 200 OK") == 21


@pytest.mark.parametrize(
    "fields", [[f"X-Field-{number}: {'x' * 100}" for number in range(2000)], ["X-Field: " + "x" * 200_000]]
)
def test_heads_that_do_not_end_are_refused(door: Door, fields: list[str]) -> None:
    sent = head(door, "GET /healthz HTTP/1.1", *fields)
    address = ("127.0.0.1", int(port(door)))
    with socket.create_connection(address, timeout=300) as connection:
        connection.sendall(sent[:150_000])
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
    assert door.get("/healthz", None).status == 200


@pytest.mark.parametrize(
    "line",
    [
        "GET http://evil.example/api/status HTTP/1.1",
        "CONNECT evil.example:80 HTTP/1.1",
        "GET * HTTP/1.1",
        "GET /api/../api/status HTTP/1.1",
        "GET /api/%2e%2e/api/status HTTP/1.1",
        "GET //api/status HTTP/1.1",
        "GET /api/projects/default/tasks/plan_shop:build%00 HTTP/1.1",
        "GET /api/projects/default/tasks/%ff%fe HTTP/1.1",
        "BREW /api/status HTTP/1.1",
        "GET http://127.0.0.1/api/status HTTP/1.1",
        "GET ///api/status HTTP/1.1",
        "GET api/status HTTP/1.1",
        "GET /api/status HTTP/2.0",
        "GET /api/status HTTP/0.9",
        "GET /api/\xe4\xfc HTTP/1.1",
    ],
)
def test_strange_addresses_lead_nowhere(door: Door, line: str) -> None:
    found = door.raw(head(door, line, "Connection: close"))
    assert found.split(b" ", 2)[1] in {b"400", b"404", b"405", b"422"}
    assert b"plan_shop" not in found


def test_a_connection_stays_what_it_is(door: Door) -> None:
    fields = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"]
    address = ("127.0.0.1", int(port(door)))
    with socket.create_connection(address, timeout=300) as connection:
        connection.sendall(head(door, "GET /api/status HTTP/1.1", *fields))
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127"])
def test_whoever_does_not_send_a_whole_head_is_hung_up_on(
    door: Door, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.3)
    assert door.raw(sent) == b""


def test_further_bytes_do_not_buy_time(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection(("127.0.0.1", int(port(door))), timeout=300) as connection:
        connection.sendall(head(door, "GET /healthz HTTP/1.1"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
    monkeypatch.setattr(listener, "HEAD_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", int(port(door))), timeout=300) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        connection.settimeout(0.05)
        closed = False
        for _ in range(400):
            try:
                connection.sendall(b"x")
                closed = connection.recv(10) == b""
            except TimeoutError:
                continue
            except OSError:
                closed = True
            if closed:
                break
        assert closed


def test_a_body_that_does_not_come_is_not_waited_for(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.3)
    found = door.raw(head(door, "POST /api/passes HTTP/1.1", "Content-Length: 100", "Connection: close") + b"half")
    assert found.startswith(b"HTTP/1.1 503 ")
    assert door.passes == []


async def _nothing(*_: object) -> None:
    return None


def listened(path: Path, host: str = "127.0.0.1", number: int = 0, *, public: bool = False) -> str:
    async def run() -> str:
        async with serve_app(_nothing, host=host, port=number, socket_path=path, public=public) as where:
            return where.http

    return asyncio.run(run())


def test_an_address_that_others_can_reach_must_be_wanted() -> None:
    path = socket_folder("x") / "a.sock"
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(AgentTalkError, match="other machines") as caught:
            listened(path, host)
        assert caught.value.code is Code.OPTION_INVALID
    assert listened(path, "0.0.0.0", public=True).startswith("http://0.0.0.0:")
    assert listened(path, "localhost").startswith("http://localhost:")


def test_a_taken_port_is_told_and_a_stale_socket_is_no_hindrance() -> None:
    path = socket_folder("x") / "a.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        with pytest.raises(AgentTalkError, match=f"127.0.0.1:{number}") as caught:
            listened(path, number=number)
        assert caught.value.code is Code.ENGINE_UNREACHABLE
    assert listened(path).startswith("http://127.0.0.1:")
    assert not path.exists()


def test_the_socket_lies_in_a_folder_of_ours_alone(door: Door) -> None:
    path = Path(door.where.socket)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_somebody_elses_folder_is_no_place_for_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = Path(os.environ["XDG_RUNTIME_DIR"])
    (runtime / "agenttalk").mkdir(mode=0o755)
    with pytest.raises(AgentTalkError) as caught:
        socket_folder("x")
    assert caught.value.code is Code.FILE_UNSAFE
    (runtime / "agenttalk").rmdir()
    (runtime / "agenttalk").symlink_to(tmp_path)
    with pytest.raises(AgentTalkError) as caught:
        socket_folder("x")
    assert caught.value.code is Code.FILE_UNSAFE
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / ("long" * 30)))
    assert len(str(socket_folder("x") / "part-4194304-abcdef.sock")) < 108
