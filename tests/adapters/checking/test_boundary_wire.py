"""What crosses between the judge and the worker, and what does not."""

from __future__ import annotations

import datetime as dt
import socket
import uuid
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenttalk.adapters.checking.boundary.wire import LARGEST, Wire, WireError, decode, encode, pack, unpack
from effort import cases


class NoReferences:
    """An end that hands no object over."""

    def refer(self, value: object) -> list[Any]:
        raise WireError(f"an object of {type(value).__name__}")

    def resolve(self, data: list[Any]) -> object:
        raise WireError(f"an unknown tag {data[0]}")


TABLE = NoReferences()
ATOMS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.dates()
    | st.datetimes(timezones=st.just(dt.UTC) | st.none())
    | st.times()
    | st.timedeltas()
    | st.uuids()
)
KEYS = st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(KEYS, inner)
        | st.lists(inner).map(deque)
        | st.sets(KEYS)
        | st.frozensets(KEYS)
    ),
    max_leaves=12,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
)
TAGS = [*"iflszdbcr", "od", "ct", "dq", "dd", "ba", "sl", "dt", "tm", "da", "td", "tz", "de", "fr", "u", "p", "re", "e"]


def crossed(value: object) -> Any:
    return decode(unpack(pack([encode(value, TABLE)])[4:])[0], TABLE)


def typed(value: object) -> object:
    """A value with the types of everything in it."""
    if isinstance(value, dict):
        return type(value), tuple((typed(key), typed(each)) for key, each in value.items())
    if isinstance(value, list | tuple | deque):
        return type(value), tuple(typed(each) for each in value)
    if isinstance(value, set | frozenset):
        return type(value), frozenset(typed(each) for each in value)
    return type(value), repr(value)


@settings(max_examples=cases(60), deadline=None)
@given(VALUES)
def test_a_value_crosses_as_exactly_what_it_is(value: object) -> None:
    assert typed(crossed(value)) == typed(value)


@pytest.mark.parametrize(
    "value",
    [
        *(float("inf"), float("-inf"), -0.0, 1 << 5000, "\ud800", slice(1, None, 2), range(3, 9, 2), ...),
        *(OrderedDict(b=1, a=2), Counter("hello"), PosixPath("/a"), bytearray(b"\xff"), NotImplemented, 1 << 53),
        *(dt.timezone(dt.timedelta(hours=2)), Decimal("1.10"), Fraction(1, 3), uuid.UUID(int=7), True, 1, 1.0),
    ],
    ids=repr,
)
def test_an_odd_value_crosses(value: object) -> None:
    found = crossed(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_not_a_number_crosses() -> None:
    found = crossed([float("nan")])
    assert found[0] != found[0]


class Lying(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    "value", [Lying(1), object(), type("Text", (str,), {})("a"), lambda: 1], ids=["int", "object", "str", "function"]
)
def test_an_object_of_another_class_does_not_cross_as_a_value(value: object) -> None:
    with pytest.raises(WireError):
        encode([value], TABLE)


def test_what_is_nested_too_deeply_does_not_cross() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(WireError, match="deep"):
        encode(value, TABLE)
    data: list[Any] = ["l"]
    for _ in range(500):
        data = ["l", data]
    with pytest.raises(WireError, match="deep"):
        decode(data, TABLE)


@settings(max_examples=cases(60), deadline=None)
@given(JSON | st.tuples(st.sampled_from(TAGS), st.lists(JSON)).map(lambda parts: [parts[0], *parts[1]]))
def test_hostile_messages_are_read_or_refused(data: object) -> None:
    try:
        value = decode(data, TABLE)
    except WireError:
        return
    assert typed(crossed(value)) == typed(value)


@settings(max_examples=cases(60), deadline=None)
@given(st.binary())
def test_hostile_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(WireError):
        assert unpack(data)


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\xff\xff\xff\xff" + b"x" * 10, "too large"),
        (b"\x00\x00\x00\x05[1,2", "gone"),
        (b"\x00\x00", "gone"),
        (b"\x00\x00\x00\x02{}", "not a list"),
        (b"\x00\x00\x00\x02[]", "not a list"),
        (b"\x00\x00\x00\x03[1}", "not a message"),
        (b"\x00\x00\xc3\x50" + b"[" * 50000, "not a message"),
        (b"", "gone"),
    ],
)
def test_a_worker_that_sends_rubbish_is_refused(sent: bytes, why: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(WireError, match=why):
            Wire(ours).receive()


def test_a_silent_worker_is_not_waited_for() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(0.01)
        with pytest.raises(WireError, match="silent"):
            Wire(ours).receive()


def test_messages_that_come_together_are_told_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(pack([1]) + pack([2, "x"]) + pack([3])[:3])
        wire = Wire(ours)
        assert [wire.receive(), wire.receive()] == [[1], [2, "x"]]
        theirs.sendall(pack([3])[3:])
        assert wire.receive() == [3]


def test_a_message_that_is_too_large_is_not_sent() -> None:
    with pytest.raises(WireError, match="too large"):
        pack(["x" * (LARGEST + 1)])


def test_a_time_crosses_as_a_time_while_the_clock_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that freezes the clock replaces the class in its module."""
    real = dt.datetime
    frozen = type("FakeDatetime", (real,), {"__module__": "freezegun.api"})
    monkeypatch.setattr(dt, "datetime", frozen)
    for value in (real(9999, 12, 31), frozen(2020, 1, 2, 3)):
        found = crossed(value)
        assert type(found) is real
        assert found == value
