"""Which tests failed, from what runners print."""

from __future__ import annotations

import pytest

from agenttalk.rules.core.failed_tests import MOST, cut_to_end, find_failed_tests, last_lines

PYTEST = """tests/test_a.py F.F
=== FAILURES ===
E   assert 1 == 2
=== short test summary info ===
FAILED tests/test_a.py::test_price - assert 1 == 2
FAILED tests/test_a.py::TestShop::test_tax[3] - ValueError
ERROR tests/test_b.py::test_db - OSError
2 failed, 1 passed in 0.1s
"""


@pytest.mark.mends("C6")
@pytest.mark.parametrize(
    ("printed", "names"),
    [
        (PYTEST, ("tests/test_a.py::test_price", "tests/test_a.py::TestShop::test_tax[3]", "tests/test_b.py::test_db")),
        (
            "FAIL: test_price (shop.Prices)\nERROR: test_tax (shop.Prices)\n",
            ("test_price (shop.Prices)", "test_tax (shop.Prices)"),
        ),
        ("--- FAIL: TestPrice (0.00s)\n    --- FAIL: TestPrice/tax (0.00s)\n", ("TestPrice", "TestPrice/tax")),
        ("test shop::price ... FAILED\ntest shop::tax ... ok\n", ("shop::price",)),
        ("ok 1 - price\nnot ok 2 - tax\n", ("tax",)),
        ("  ✕ adds prices (3 ms)\n", ("adds prices (3 ms)",)),
        ("all is well\n", ()),
        ("", ()),
    ],
)
def test_failed_tests_are_named(printed: str, names: tuple[str, ...]) -> None:
    assert find_failed_tests(printed) == names


def test_no_more_are_named_than_somebody_reads() -> None:
    assert len(find_failed_tests("".join(f"FAILED t.py::t{n} - x\n" for n in range(100)))) == MOST


@pytest.mark.mends("C6")
def test_what_is_shown_is_the_end_and_names_what_stands_before_it() -> None:
    assert cut_to_end("head " + "x" * 50 + " end", 10) == "xxxxxx end"
    shown = cut_to_end(PYTEST + "noise\n" * 100, 40)
    assert shown.startswith("FAILED tests/test_a.py::test_price\n")
    assert shown.endswith("noise\n")
    assert cut_to_end(PYTEST, 10_000) == PYTEST
    assert last_lines("a\n\n b \n\nc\n", 2) == [" b", "c"]
