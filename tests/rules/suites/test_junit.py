"""What a JUnit report says, and what is made of one that lies."""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.suites.junit import parse
from agenttalk.rules.suites.outcomes import Outcomes, UnreadableReport


def suite(*cases: str, attributes: str = "") -> bytes:
    return f"<testsuites><testsuite {attributes}>{''.join(cases)}</testsuite></testsuites>".encode()


def case(name: str, inside: str = "", attributes: str = "") -> str:
    return f'<testcase classname="t" name={quoteattr(name)} {attributes}>{inside}</testcase>'


def read(data: bytes) -> Outcomes:
    tests = parse(data)
    assert isinstance(tests, Outcomes)
    return tests


def test_each_test_has_its_outcome() -> None:
    tests = read(
        suite(
            case("a"),
            case("b", "<failure/>"),
            case("c", "<error>Traceback</error>"),
            case("d", "<skipped/>"),
            case("e", "<system-out>failure</system-out><properties/>"),
            '<testcase name="alone"/>',
        )
    )
    assert tests.passed == {"t::a", "t::e", "alone"}
    assert tests.failed == {"t::b", "t::c"}
    assert tests.skipped == {"t::d"}
    assert tests.ran == tests.passed | tests.failed
    assert tests.known == tests.ran | tests.skipped
    assert not tests.beyond


def test_the_reason_of_a_skip_is_known_where_a_report_gives_one() -> None:
    tests = read(
        suite(
            case("a", '<skipped message=" no port 80 "/>'),
            case("b", "<skipped/>"),
            case("c", '<skipped message="gone"/><failure/>'),
            '<skipped message="of the suite"/>',
        )
    )
    assert tests.whys == {("t::a", "no port 80")}


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [
        ('status="run"', "passed"),
        ('status="notrun"', "skipped"),
        ('result="suppressed"', "skipped"),
        ('status="FAILED"', "failed"),
        ('status="skipped" result="error"', "failed"),
    ],
)
def test_attributes_that_speak_of_the_outcome_are_heard(attributes: str, outcome: str) -> None:
    assert getattr(read(suite(case("a", attributes=attributes))), outcome) == {"t::a"}


@pytest.mark.parametrize(
    ("insides", "outcome"),
    [
        (("", "<failure/>"), "failed"),
        (("<failure/>", ""), "failed"),
        (("<skipped/>", ""), "skipped"),
        (("<skipped/>", "<error/>"), "failed"),
        (("", ""), "passed"),
    ],
)
def test_of_two_entries_with_one_name_the_worse_counts_and_both_count_once(
    insides: tuple[str, str], outcome: str
) -> None:
    tests = read(suite(*(case("a", inside) for inside in insides)))
    assert getattr(tests, outcome) == tests.known == tests.repeated == {"t::a"}


@pytest.mark.parametrize(
    "report",
    [
        suite(case("a"), attributes='failures="1"'),
        suite(case("a"), attributes='failures="" errors=" 2 "'),
        suite("<error/>", case("a")),
        b'<testsuite errors="1"><testcase name="a"/></testsuite>',
    ],
)
def test_a_suite_that_tells_of_failures_which_no_test_shows_is_noticed(report: bytes) -> None:
    assert read(report).beyond


def test_failures_that_a_test_shows_are_not_beyond_it() -> None:
    assert not read(suite(case("a", "<failure/>"), "<skipped/>", attributes='failures="1" errors="0"')).beyond


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<testsuite><testcase name="&b;"/></testsuite>"""
OUTSIDE = b"""<!DOCTYPE l [<!ENTITY x SYSTEM "file:///etc/passwd">]><testsuite><testcase name="a">&x;</testcase></testsuite>"""


@pytest.mark.parametrize(
    ("report", "word"),
    [
        (b"", "not XML"),
        (b"3 passed", "not XML"),
        (suite(case("a"))[:-5], "not XML"),
        (b"<html/>", "<html>"),
        (b"<testcase name='a'/>", "<testcase>"),
        (LAUGHS, "DOCTYPE"),
        (OUTSIDE, "DOCTYPE"),
        (b"<testsuite><testcase name='&b;'/></testsuite>", "not XML"),
        (suite("<testcase name=' '/>"), "without a name"),
        (suite(attributes='failures="many"'), "'many'"),
        (suite(attributes=f'failures="{"9" * 5000}"'), "number of failures"),
        (b"<testsuite>" * 65 + b"</testsuite>" * 65, "deeper"),
        (b"<?xml version='1.0' encoding='klingon'?><testsuite/>", ""),
        (suite(case("a")) + suite(case("b")), "not XML"),
        (b"<testsuite>\xff</testsuite>", "not XML"),
    ],
)
def test_what_is_no_report_says_nothing(report: bytes, word: str) -> None:
    found = parse(report)
    assert isinstance(found, UnreadableReport)
    assert word in found.why


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    assert isinstance(parse(data), Outcomes | UnreadableReport)


outcomes = st.sampled_from(["", "<failure/>", "<error/>", "<skipped/>"])
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=5)


@given(st.lists(st.tuples(names, outcomes), max_size=12))
def test_a_test_passed_exactly_when_every_entry_of_it_did(entries: list[tuple[str, str]]) -> None:
    tests = read(suite(*(case(name, inside) for name, inside in entries)))
    ids = {f"t::{name}" for name, _ in entries}
    assert tests.known == ids
    assert len(tests.passed) + len(tests.failed) + len(tests.skipped) == len(ids)
    assert tests.passed == {each for each in ids if all(not inside for name, inside in entries if f"t::{name}" == each)}
