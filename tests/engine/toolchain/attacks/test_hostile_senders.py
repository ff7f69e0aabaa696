"""Who sends something odd to a webhook's door: signatures of all kinds, endless bodies, bottomless JSON."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote_plus, urlsplit

import pytest

from adapters.forge.test_webhooks import sample
from engine.toolchain.kits.bench import SECRET, signed
from engine.toolchain.kits.inproc import Here, here

MIB = 1024 * 1024
NAME = "gitea/issue_assigned"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    folder = tmp_path_factory.mktemp("senders")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with here(folder / "root") as found:
            yield found


def send(
    engine: Here, source: str, headers: list[tuple[str, str]], pieces: list[bytes], *, length: str | None = None
) -> tuple[int, str]:
    """One request, header by header and piece by piece; in chunks unless its length is told. Status and code."""
    where = urlsplit(engine.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=300)
    try:
        connection.putrequest("POST", f"/api/webhooks/{source}")
        for name, value in headers:
            connection.putheader(name, value.encode("utf-8"))
        connection.putheader(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", length)))
        connection.endheaders()
        try:
            for piece in pieces:
                connection.send(b"%x\r\n%s\r\n" % (len(piece), piece) if length is None else piece)
            connection.send(b"0\r\n\r\n" if length is None else b"")
        except (BrokenPipeError, ConnectionResetError):
            pass  # the engine has heard enough
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read()).get("code", "")
    finally:
        connection.close()


def body_of(name: str = NAME) -> bytes:
    return json.dumps(sample(name)["body"]).encode()


def digest(body: bytes, algorithm: Any = hashlib.sha256, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, algorithm).hexdigest()


def told(source: str) -> list[tuple[str, str]]:
    found = {"gitea": NAME, "forgejo": "forgejo/issue_assigned", "github": "github/issue_assigned"}[source]
    return list(sample(found)["headers"].items())


REFUSED: dict[str, Callable[[str], list[tuple[str, str]]]] = {
    "an empty one beside a good one": lambda good: [("X-Gitea-Signature", good), ("X-Hub-Signature-256", "sha256=")],
    "a good one beside an empty one": lambda good: [
        ("X-Gitea-Signature", ""),
        ("X-Hub-Signature-256", f"sha256={good}"),
    ],
    "the same twice": lambda good: [("X-Hub-Signature-256", f"sha256={good}")] * 2,
    "two in one": lambda good: [("X-Hub-Signature-256", f"sha256={good}, sha256={good}")],
    "another name of the method": lambda good: [("X-Hub-Signature-256", f"sha512={good}")],
    "no name of the method": lambda good: [("X-Hub-Signature-256", good)],
    "cut short": lambda good: [("X-Gitea-Signature", good[:-1])],
    "with more behind it": lambda good: [("X-Gitea-Signature", f"{good}00")],
    "letters beyond ASCII": lambda good: [("X-Gitea-Signature", f"é{good[1:]}")],
    "wide digits": lambda good: [("X-Gitea-Signature", good.translate({ord(str(d)): 0xFF10 + d for d in range(10)}))],
    "null bytes spelled out": lambda _: [("X-Gitea-Signature", "%00" * 64)],
    "very long": lambda good: [("X-Gitea-Signature", good * 100)],
    "of nothing": lambda _: [("X-Gitea-Signature", digest(b""))],
    "a query's": lambda good: [("X-Signature", good)],
}


@pytest.mark.parametrize("what", REFUSED)
def test_signatures_that_are_none_are_refused(engine: Here, what: str) -> None:
    body = body_of()
    before = len(engine.tasks())
    headers = [*told("gitea"), *REFUSED[what](digest(body))]
    assert send(engine, "gitea", headers, [body], length=str(len(body))) == (401, "FORGE_SIGNATURE_REFUSED")
    assert len(engine.tasks()) == before


def test_each_forge_signs_in_its_own_way(engine: Here) -> None:
    body = body_of("github/issue_assigned")
    length = str(len(body))
    old = [("X-Hub-Signature", f"sha1={digest(body, hashlib.sha1)}")]
    assert send(engine, "github", [*told("github"), *old], [body], length=length)[0] == 401
    giteas = [("X-Gitea-Signature", digest(body))]
    assert send(engine, "github", [*told("github"), *giteas], [body], length=length)[0] == 401
    form = b"payload=" + quote_plus(body.decode()).encode()
    kind = [("Content-Type", "application/x-www-form-urlencoded")]
    headers = [each for each in told("github") if each[0] != "Content-Type"] + kind
    of_text = [("X-Hub-Signature-256", f"sha256={digest(body)}")]
    of_form = [("X-Hub-Signature-256", f"sha256={digest(form)}")]
    assert send(engine, "github", [*headers, *of_text], [form], length=str(len(form)))[0] == 401
    assert send(engine, "github", [*headers, *of_form], [form], length=str(len(form)))[0] == 202
    twice = form + b"&" + form
    both = [("X-Gitea-Signature", digest(body))]
    headers = [each for each in told("gitea") if each[0] != "Content-Type"] + kind
    assert send(engine, "gitea", [*headers, *both], [twice], length=str(len(twice)))[0] == 401


def test_a_body_without_an_end_is_cut_off(engine: Here) -> None:
    """50 MiB in chunks, without a word about their number; also when it says that it is small."""
    piece = b"x" * MIB
    # Without a signature nothing is read; with one it is not known before the end that it is wrong.
    assert send(engine, "gitea", told("gitea"), [piece] * 50) == (401, "FORGE_SIGNATURE_REFUSED")
    headers = [*told("gitea"), ("X-Gitea-Signature", digest(piece))]
    assert send(engine, "gitea", headers, [piece] * 50) == (413, "JSON_TOO_LARGE")
    assert send(engine, "gitea", headers, [], length=str(50 * MIB)) == (413, "JSON_TOO_LARGE")
    assert send(engine, "gitea", headers, [], length="9" * 19)[0] in {400, 413}
    assert engine.get("/api/status")["open_requests"] >= 0, "and everybody else is served"


def nested(depth: int, *, objects: bool) -> str:
    return ('{"a":' * depth + "1" + "}" * depth) if objects else ("[" * depth + "]" * depth)


@pytest.mark.rest_but("objects")
@pytest.mark.parametrize("objects", [False, True], ids=["lists", "objects"])
def test_bottomless_json_inside_of_a_real_delivery_stops_nothing(engine: Here, objects: bool) -> None:
    text = body_of().decode()
    for depth in (10, 100_000, 3_000_000):
        deep = text[:-1] + f', "extra": {nested(depth, objects=objects)}}}'
        found = engine.decided(engine.tell("gitea", dict(told("gitea")), deep.encode()))
        assert found["state"] in {"done", "ignored", "failed"}
        assert (found["state"] == "failed") == (depth > 1_000), depth
    wide = json.loads(text)
    wide["issue"]["labels"] = [{"id": each, "name": f"label {each}"} for each in range(50_000)]
    wide["extra"] = dict.fromkeys(map(str, range(100_000)), 1)
    assert engine.decided(engine.tell("gitea", dict(told("gitea")), wide))["state"] != "failed"
    numbers = text[:-1] + f', "extra": [{"9" * 100_000}, 1e999999, -1e-999999]}}'
    assert engine.decided(engine.tell("gitea", dict(told("gitea")), numbers.encode()))["state"] in {"failed", "ignored"}


def test_numbers_of_deliveries_and_names_of_events_may_be_anything(engine: Here) -> None:
    body = body_of()
    for text in ("", "x" * 5_000, "../../etc/passwd", "'; DROP TABLE webhooks; --", "数据 👩‍💻", "\u202e", "{0} %s"):
        headers = [each for each in told("gitea") if not each[0].endswith("-Delivery")]
        signature = list(signed("gitea", body).items())
        given = [("X-Gitea-Delivery", text), *headers, *signature]
        assert send(engine, "gitea", given, [body], length=str(len(body)))[0] == 202
        odd = [(name, text if "Event" in name else value) for name, value in headers]
        assert send(engine, "gitea", [*odd, *signature], [body], length=str(len(body)))[0] == 202
    found = engine.decided(engine.tell("gitea", dict(told("gitea")), sample(NAME)["body"]))
    assert found["state"] in {"done", "ignored"}
