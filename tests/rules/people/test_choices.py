"""Which option of a question is meant."""

from __future__ import annotations

import pytest

from agenttalk.rules.people.choices import find_option

TIE = ["design/spec.md (msg_1)", "review/spec.md (msg_2)", "review/spec.md (msg_3)"]


@pytest.mark.mends("B8")
@pytest.mark.parametrize(
    ("said", "is_meant"),
    [
        ("design/spec.md (msg_1)", TIE[0]),
        ("1", TIE[0]),
        (" 3 ", TIE[2]),
        ("design", TIE[0]),
        ("design/spec.md", TIE[0]),
        ("msg_2", TIE[1]),
        ("review", None),
        ("review/spec.md", None),
        ("0", None),
        ("4", None),
        ("1000", None),
        ("desi", None),
        ("", None),
    ],
)
def test_an_option_is_meant_by_its_text_its_number_or_a_name_that_only_it_has(said: str, is_meant: str | None) -> None:
    assert find_option(TIE, said) == is_meant


def test_an_option_without_a_mark_has_no_short_name() -> None:
    assert find_option(["retry", "give up"], "give") is None
    assert find_option(["retry", "give up"], "2") == "give up"


def test_a_name_that_is_a_number_is_a_name() -> None:
    assert find_option(["2/spec.md (msg_1)", "b/spec.md (msg_2)"], "2") == "2/spec.md (msg_1)"
    assert find_option(["2/a.md (msg_1)", "2/b.md (msg_2)"], "2") is None
