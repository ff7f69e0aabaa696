"""What a runner reports over the channel, whatever bytes arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.suites import channel
from agenttalk.rules.suites.channel import ChannelReader, SuiteSession
from agenttalk.rules.suites.outcomes import Outcomes

HELLO = ["hello", 1, "pytest"]
A, B = "test_it.py::test_a", "test_it.py::test_b"


def packed(*frames: object) -> bytes:
    bodies = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in frames]
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def read(*frames: object, limit: int = 1 << 20) -> SuiteSession:
    reader = ChannelReader(limit)
    reader.add_piece(packed(*frames))
    return reader.read_session()


WHOLE = (
    HELLO,
    ["tests", [A, B]],
    ["begin", A],
    ["end", A, "passed", ""],
    ["begin", B],
    ["end", B, "skipped", "not on 4 cores"],
    ["over", 0],
)


def test_a_whole_report_is_read_in_pieces_of_any_size() -> None:
    data = packed(*WHOLE)
    for size in (1, 3, 7, len(data)):
        reader = ChannelReader(1 << 20)
        for at in range(0, len(data), size):
            reader.add_piece(data[at : at + size])
        session = reader.read_session()
        assert session.outcomes == Outcomes(
            frozenset({"test_it::test_a"}),
            skipped=frozenset({"test_it::test_b"}),
            whys=frozenset({("test_it::test_b", "not on 4 cores")}),
        )
        assert (session.runner, session.code, session.fault, session.is_red) == ("pytest", 0, None, False)
        assert session.pending | session.unrun | session.hidden == frozenset()


def test_what_began_and_what_never_did_is_known() -> None:
    session = read(HELLO, ["tests", [A, B]], ["begin", A])
    assert session.pending == {"test_it::test_a"}
    assert session.unrun == {"test_it::test_b"}
    assert session.code is None
    assert not session.is_red
    assert read(HELLO, ["over", 2]).is_red


def test_of_two_ends_the_worse_counts_and_a_hidden_failure_is_a_failure() -> None:
    again = [["begin", A], ["end", A, "passed", ""], ["begin", A], ["end", A, "failed", ""]]
    assert read(HELLO, *again).outcomes == Outcomes(
        failed=frozenset({"test_it::test_a"}), repeated=frozenset({"test_it::test_a"})
    )
    assert read(HELLO, ["begin", A], ["begin", A], ["end", A, "passed", ""]).outcomes.repeated == {"test_it::test_a"}
    hidden = read(HELLO, ["begin", A], ["end", A, "hidden", ""])
    assert hidden.hidden == hidden.outcomes.failed == {"test_it::test_a"}


def test_loaded_modules_are_known_as_far_as_they_can_be_read() -> None:
    frames = [["modules", ["/tree", 3], [["a", "/tree/a.py"], ["b"], 4]], ["modules", ["/tree"], [["c", "/tree/c.py"]]]]
    session = read(HELLO, *frames)
    assert (session.paths, session.modules) == (("/tree",), (("a", "/tree/a.py"), ("c", "/tree/c.py")))
    assert read(HELLO, ["modules", [], [["a", "/a.py"]] * 5001]).fault is not None


@pytest.mark.parametrize(
    "frames",
    [
        [b"[[[["],
        [b"["],
        [b"[" * 3000],
        [["tests", [A]]],
        [["hello", 2, "pytest"]],
        [["hello", 1, "PYTEST"]],
        [HELLO, HELLO],
        [HELLO, ["begin", ""]],
        [HELLO, ["begin", 3]],
        [HELLO, ["begin", "x" * 4001]],
        [HELLO, ["end", A, "passed", ""]],
        [HELLO, ["begin", A], ["end", A, "fine", ""]],
        [HELLO, ["begin", A], ["end", A, "passed", None]],
        [HELLO, ["over", 256]],
        [HELLO, ["over", True]],
        [HELLO, ["over", 0], ["over", 0]],
        [HELLO, ["tests", A]],
        [HELLO, {"begin": A}],
        [HELLO, []],
        [HELLO, "over"],
    ],
)
def test_bytes_that_are_no_report_are_a_fault(frames: list[object]) -> None:
    session = read(*frames)
    assert session.fault is not None
    assert session.code in {None, 0}


def test_a_report_has_bounds() -> None:
    assert read(*WHOLE, limit=len(packed(*WHOLE))).fault is None
    assert read(*WHOLE, limit=len(packed(*WHOLE)) - 1).fault is not None
    reader = ChannelReader(1 << 30)
    reader.add_piece((1 << 24).to_bytes(4, "big"))
    assert reader.fault is not None
    first = reader.fault
    reader.add_piece(packed(*WHOLE))
    assert (reader.fault, reader.read_session().runner) == (first, "")


@given(st.binary(max_size=300))
def test_any_bytes_leave_a_session_that_can_be_read(data: bytes) -> None:
    reader = ChannelReader(200)
    reader.add_piece(packed(HELLO) + data)
    assert isinstance(reader.read_session(), SuiteSession)


@pytest.mark.parametrize(
    ("runner", "name", "found"),
    [
        ("pytest", "tests/test_it.py::Test::test_a[x/y::z.py]", "tests.test_it.Test::test_a[x/y::z.py]"),
        ("pytest", "tests/test_it.py", "tests.test_it"),
        ("pytest", "a\0b\ud800", "a#x00b#xD800"),
        ("node", " a > b ", "a > b"),
    ],
)
def test_a_test_is_named_as_in_a_report(runner: str, name: str, found: str) -> None:
    assert channel.name_test(runner, name) == found


def test_reasons_are_the_same_but_for_numbers() -> None:
    assert channel.is_same_why("port 80 at 0x7f", "port 81 at 0x80")
    assert not channel.is_same_why("no display", "not today")


def outcomes() -> Iterator[Outcomes]:
    yield Outcomes(frozenset("ab"), frozenset("c"), frozenset("d"), whys=frozenset({("d", "why")}))
    yield Outcomes(frozenset("cd"), frozenset("a"), frozenset("bc"), frozenset("b"), True)


def test_of_several_reasons_for_a_skip_the_first_stays() -> None:
    one, other = (Outcomes(skipped=frozenset("d"), whys=frozenset({("d", why)})) for why in ("why", "because"))
    assert channel.merge_outcomes([Outcomes(), one, other]).whys == {("d", "why")}


def test_of_several_reports_the_worse_counts() -> None:
    merged = channel.merge_outcomes(outcomes())
    assert merged == Outcomes(
        frozenset(), frozenset("ac"), frozenset("bd"), frozenset("b"), True, frozenset({("d", "why")})
    )
    assert channel.merge_sessions([SuiteSession(outcomes=each) for each in outcomes()]) == merged
