"""Senders of webhooks once more: what is said twice, encoded, or sent to another source's door."""

from __future__ import annotations

import gzip
import json
import socket
import uuid
from collections.abc import Iterator
from urllib.parse import quote_plus, urlsplit

import pytest

from adapters.forge.test_webhooks import sample
from engine.toolchain.attacks.test_hostile_senders import body_of, digest, send, told
from engine.toolchain.kits.bench import signed
from engine.toolchain.kits.inproc import Here, here

pytestmark = pytest.mark.rest


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("second")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with here(folder / "root") as found:
            yield found


def raw(engine: Here, head: list[str], body: bytes, *, waits: bool = False) -> bytes:
    """A request as it is, and the first line of each answer."""
    where = urlsplit(engine.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=300) as connection:
        lines = [f"Host: {where.netloc}", "Connection: close", *head]
        connection.sendall(("\r\n".join(["POST /api/webhooks/gitea HTTP/1.1", *lines]) + "\r\n\r\n").encode())
        found = b""
        if waits:
            found = connection.recv(65536)
            if b"100 Continue" not in found.partition(b"\r\n")[0]:
                return found
        connection.sendall(body)
        while piece := connection.recv(65536):
            found += piece
    return found


def headers(body: bytes, **more: str) -> list[str]:
    named = {**dict(told("gitea")), **signed("gitea", body), "X-Gitea-Delivery": uuid.uuid4().hex}
    return [f"{name}: {value}" for name, value in {**named, "Content-Length": str(len(body)), **more}.items()]


def test_who_waits_to_be_told_to_go_on_is_told_so_or_refused_before_the_body(engine: Here) -> None:
    body = body_of()
    good = raw(engine, headers(body, Expect="100-continue"), body, waits=True)
    assert b" 202 " in good
    unsigned = [each for each in headers(body, Expect="100-continue") if "Signature" not in each]
    assert b" 401 " in raw(engine, unsigned, body, waits=True)


def test_an_event_that_is_named_twice_or_a_number_that_is_comes_to_one_delivery_at_most(engine: Here) -> None:
    body = body_of()
    before = len(engine.tasks())
    for extra in ("X-Gitea-Event: push", "X-Gitea-Event-Type: issues", "X-Gitea-Delivery: another"):
        answer = raw(engine, [*headers(body), extra], body)
        assert answer.startswith(b"HTTP/1.1 ")
        assert int(answer.split(b" ")[1]) in {202, 400, 401, 422}
    engine.decided(engine.tell("gitea", dict(told("gitea")), body))
    assert len({each["id"] for each in engine.tasks()}) <= before + 1


def test_what_is_packed_is_not_unpacked(engine: Here) -> None:
    """The signature is of the bytes that came. Nothing is unpacked, so nothing can grow."""
    packed = gzip.compress(body_of() + b" " * 1_000_000)
    answer = raw(engine, headers(packed, **{"Content-Encoding": "gzip"}), packed)
    status = int(answer.split(b" ")[1])
    if status == 202:
        found = engine.decided(json.loads(answer.partition(b"\r\n\r\n")[2])["id"])
        assert found["state"] in {"failed", "ignored"}
    else:
        assert status in {400, 401, 415, 422}


def test_a_body_with_two_kinds_is_read_as_one_of_them_at_most(engine: Here) -> None:
    text = body_of()
    form = b"payload=" + quote_plus(text.decode()).encode()
    for body in (text, form):
        lines = [each for each in headers(body) if not each.startswith("Content-Type")]
        both = ["Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded"]
        status = int(raw(engine, [*lines, *both], body).split(b" ")[1])
        assert status in {202, 400, 401, 415, 422}
    assert engine.get("/api/status")["open_requests"] >= 0


def test_a_delivery_of_one_source_is_none_of_another_and_takes_no_number_from_it(engine: Here) -> None:
    body = body_of("github/issue_assigned")
    length, number = str(len(body)), uuid.uuid4().hex
    as_gitea = [*told("gitea"), ("X-Gitea-Signature", digest(body))]
    as_gitea = [(name, number if name.endswith("-Delivery") else value) for name, value in as_gitea]
    first = send(engine, "gitea", as_gitea, [body], length=length)[0]
    mine = [(name, number if name.endswith("-Delivery") else value) for name, value in told("github")]
    signature = ("X-Hub-Signature-256", f"sha256={digest(body)}")
    status, _ = send(engine, "github", [*mine, signature], [body], length=length)
    assert (first in {202, 401}, status) == (True, 202)
    assert send(engine, "nowhere", [*mine, signature], [body], length=length)[0] == 404


def test_a_header_without_end_is_refused_and_others_are_served(engine: Here) -> None:
    body = body_of()
    where = urlsplit(engine.url)
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=300) as connection:
        connection.sendall(f"POST /api/webhooks/gitea HTTP/1.1\r\nHost: {where.netloc}\r\nX-Long: ".encode())
        answer = b""
        try:
            for _ in range(64):
                connection.sendall(b"x" * 65536)
            answer = connection.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
    assert answer == b"" or answer.split(b" ")[1] in {b"400", b"413", b"431"}
    assert engine.decided(engine.tell("gitea", dict(told("gitea")), sample("gitea/issue_assigned")["body"]))["state"]
    assert body


RELABELLED = {
    "gitea/mention": {"X-Gitea-Event": "issues", "X-Gitea-Event-Type": "issues"},
    "gitea/review_result_approved": {"X-Gitea-Event": "pull_request", "X-Gitea-Event-Type": "pull_request_sync"},
    "github/mention": {"X-GitHub-Event": "issues"},
}


@pytest.mark.mends("F14")
@pytest.mark.parametrize("name", RELABELLED)
def test_a_genuine_body_that_is_sent_as_another_event_is_not_read(engine: Here, name: str) -> None:
    """Nobody signs the headers: whoever has seen a delivery could have it mean something else."""
    source, said = name.partition("/")[0], sample(name)["body"]
    said["action"] = "edited"
    before = {each["id"] for each in engine.tasks()}
    found = engine.decided(engine.tell(source, dict(told(source)) | RELABELLED[name], said))
    assert (found["state"], "which is not what" in json.dumps(found)) == ("failed", True), found
    assert {each["id"] for each in engine.tasks()} == before
