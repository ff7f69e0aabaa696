"""How many tests have ended, from what runners print while they run."""

from __future__ import annotations

import time

import pytest

from agenttalk.rules.core.test_progress import TestCounter

FAILURES = "=================================== FAILURES ===================================\n"
NODE = """▶ prices
  ✔ one item (0.8ms)
  ✖ two items (0.3ms)
✖ prices (1.9ms)
﹣ later (0.1ms) # SKIP
ℹ tests 3
✖ failing tests:
✖ two items (0.3ms)
"""


def count(command: str, printed: str, known: int | None = None) -> tuple[int | None, int | None]:
    counter = TestCounter(command, known)
    counter.add(printed.encode())
    return counter.done, counter.total


@pytest.mark.parametrize(
    ("command", "printed", "found"),
    [
        ("pytest -q", "...F.s", (6, None)),
        ("pytest -q", "...F.s   [ 50%]\n..", (8, None)),
        ("python -m pytest", "collected 32 items\n\ntests/test_a.py .F...\ntests/test_b.py ..", (7, 32)),
        ("pytest", "collected 32 items / 30 deselected / 2 selected\na/test_a.py .", (1, 2)),
        ("pytest", "collected 1 item\na/test_a.py .", (1, 1)),
        ("pytest -v", "test_a.py::test_n[0] PASSED   [  3%]\ntest_a.py::T::test_two SKIPPED (no) [ 6%]\n", (2, None)),
        ("pytest -v", "test_a.py::test_n[a b] FAILED\ntest_a.py::test_m \n", (1, None)),
        ("pytest -n2 -v", "[gw0] [  3%] PASSED test_a.py::test_n[0] \n", (1, None)),
        ("pytest -q", f".F [100%]\n{FAILURES}....\nFAILED test_a.py::test_n\n", (2, None)),
        ("python -m unittest -v", "test_one (a.T.test_one) ... ok\ntest_two (a.T) ... skipped 'no'\n", (2, None)),
        ("python -m unittest", "..F\n" + "=" * 70 + "\nFAIL: test_one\n....\n", (3, None)),
        ("go test -v", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- SKIP: TestA/b (0.00s)\n", (2, None)),
        ("cargo test", "running 3 tests\ntest a::b ... ok\ntest c ... FAILED\ntest d ... ignored, slow\n", (3, None)),
        ("node --test", "TAP version 13\nok 1 - a\n    not ok 2 - b\n1..2\n", (2, None)),
        ("node --test", NODE, (3, None)),
        ("make test", "....\nloading...\n", (None, None)),
        ("make test", "", (None, None)),
        ("pytest -q", "\n", (None, None)),
    ],
)
def test_results_are_counted(command: str, printed: str, found: tuple[int | None, int | None]) -> None:
    assert count(command, printed) == found


def test_it_does_not_matter_in_which_pieces_the_output_comes() -> None:
    printed = "collected 9 items\na/test_a.py ...F. [ 55%]\nb/test_b.py ..s.\nx::y PASSED\n"
    whole, pieces = TestCounter("pytest"), TestCounter("pytest")
    whole.add(printed.encode())
    seen = []
    for letter in printed.encode():
        pieces.add(bytes([letter]))
        seen.append(pieces.done or 0)
    assert (pieces.done, pieces.total) == (whole.done, whole.total) == (10, None)
    assert sorted(seen) == seen, "a count never goes back"


def test_the_number_from_before_the_work_is_the_total_unless_there_are_more() -> None:
    assert count("pytest -q", "...", 340) == (3, 340)
    assert count("pytest -q", "...", 2) == (3, None)
    assert count("pytest", "collected 5 items\nt.py ...", 340) == (3, 5)


def test_output_that_is_very_long_costs_little() -> None:
    """The program that prints is not trusted: it must not keep the engine busy."""
    counter = TestCounter("pytest -q")
    line = b"a::" * 300 + b" ... " * 20 + b" " * 20
    began = time.process_time()
    for _ in range(2_000):
        counter.add(b"\n".join([line, b"." * 1000 + b" " * 20 + b"x", b"y" * 70_000]))
    assert time.process_time() - began < 20
    counter.add(b"\n...")
    assert counter.done is None
