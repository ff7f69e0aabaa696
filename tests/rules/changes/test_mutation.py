"""Mutants: one small fault each, in a line that the work changed."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.promise import MutantsCheck
from agenttalk.rules.changes import mutation
from agenttalk.rules.changes.changed_files import ChangedFile
from agenttalk.rules.changes.mutation import MutantRun, MutantTrial


def file(after: str, before: str = "", path: str = "a.py") -> ChangedFile:
    return ChangedFile(path, before.encode(), after.encode())


def faults(after: str, before: str = "", path: str = "a.py") -> set[str]:
    return {f"{each.before} -> {each.after}" for each in mutation.make_mutants([file(after, before, path)])}


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("x = a == b", "a == b -> (a != b)"),
        ("x = a < b", "a < b -> (a <= b)"),
        ("x = a is None", "a is None -> (a is not None)"),
        ("x = a in b", "a in b -> (a not in b)"),
        ("x = a + b", "a + b -> (a - b)"),
        ("x = a // b", "a // b -> (a * b)"),
        ("x = a & b", "a & b -> (a | b)"),
        ("x = a and b", "a and b -> (a or b)"),
        ("x = a or b", "a or b -> (a and b)"),
        ("x = not a", "not a -> (a)"),
        ("x = -a", "-a -> (a)"),
        ("x = a if b else c", "a if b else c -> (c if b else a)"),
        ("if a:\n    b()", "a -> (not a)"),
        ("while f(): g()", "f() -> (not f())"),
        ("x = 41", "41 -> 42"),
        ("x = 0.5", "0.5 -> 1.5"),
        ("x = True", "True -> False"),
        ("x = 'ü'", "'ü' -> ''"),
        ("x = ''", "'' -> 'x'"),
        ("x = b'a'", "b'a' -> b''"),
        ("x = b''", "b'' -> b'x'"),
        ("def f():\n    return a", "return a -> return None"),
        ("f(a)", "f(a) -> pass"),
        ("a.b = c", "a.b = c -> pass"),
        ("a += b", "a += b -> pass"),
        ("if a: raise ValueError('b')", "raise ValueError('b') -> pass"),
        ("é = 'ä'; x = a + b", "a + b -> (a - b)"),
        ("x = [\n    1,\n    a\n    + b,\n]", "a\n    + b -> (a - b)"),
    ],
)
def test_each_kind_of_fault(source: str, fault: str) -> None:
    assert fault in faults(source + "\n")


@pytest.mark.parametrize(
    "source",
    [
        '"""Doc."""',
        "import os",
        "x: int",
        "def f(a: 'int') -> 'str': ...",
        "__all__ = ['a']",
        "if __name__ == '__main__':\n    f(1)",
        "if TYPE_CHECKING:\n    x = 1",
        "LOG.debug('x', 1)",
        "x = f'{a}b'",
        "return None",
        "def f():\n    return None",
        "x = a < b < c",
        "x = 10 ** 400 if",
        "x = 9999999999999999999",
        "x = a @ b",
        "x = 'a' + b",
        "x = None",
        "x = ...",
    ],
)
def test_what_is_no_behaviour_has_no_faults(source: str) -> None:
    assert {each for each in faults(source + "\n") if "'a' + b ->" in each or not source.startswith("x = 'a'")} == set()


def test_only_new_lines_of_code_that_is_no_test_are_mutated() -> None:
    assert faults("x = 1\ny = 2\n", "x = 1\n") == {"2 -> 3"}
    assert faults("x = 1\n", path="tests/test_a.py") == set()
    assert faults("x = 1\n", path="a.txt") == set()
    assert mutation.make_mutants([ChangedFile("a.py", b"", b"x = '\xff'\n")]) == ()
    assert mutation.make_mutants([ChangedFile("a.py", b"x = 1\n", None)]) == ()


def test_a_fault_that_changes_nothing_is_left_out() -> None:
    assert "2 * 2 -> (2 + 2)" not in faults("x = 2 * 2\n")
    assert "2 * 3 -> (2 + 3)" in faults("x = 2 * 3\n")


@given(st.lists(st.sampled_from(["x = a + 1", "f(x)", "y = a == b", "z = not c"]), min_size=1, max_size=8))
def test_every_mutant_is_python_and_differs_in_one_place(lines: list[str]) -> None:
    source = "\n".join(lines) + "\n"
    for each in mutation.make_mutants([file(source)]):
        assert ast.dump(ast.parse(each.source)) != ast.dump(ast.parse(source))
        changed = [number for number, pair in enumerate(zip(source.split("\n"), each.source.split("\n"), strict=True), 1)
                   if pair[0] != pair[1]]  # fmt: skip
        assert changed == [each.line]


def test_the_hash_of_the_tree_chooses_and_each_line_comes_first() -> None:
    made = mutation.make_mutants([file("x = a == 1\ny = b == 2\nz = c == 3\n")])
    chosen = mutation.choose_mutants(made, "tree", 3)
    assert {each.line for each in chosen} == {1, 2, 3}
    assert chosen == mutation.choose_mutants(tuple(reversed(made)), "tree", 3)
    assert any(mutation.choose_mutants(made, f"{n}", 3) != chosen for n in range(20))


def test_the_control_changes_the_text_and_nothing_else() -> None:
    source = (
        "def f(a):\n    '''Doc.'''\n    return a + 1\n\n\ndef g(a): return a\n\n\ndef h():\n    'Doc.'; return 1\n\n\n"
        "def k():\n    @cache\n    def inner():\n        return 3\n    return inner()\n"
    )
    made = mutation.make_mutants([file(source)])
    [(path, text)] = mutation.make_control([file(source)], made, "seed").items()
    assert path == "a.py"
    told: dict[str, object] = {"cache": lambda each: each}
    exec(text, told)
    assert [told[name](1) for name in "fg"] == [2, 1]  # type: ignore[operator]
    assert [told[name]() for name in "hk"] == [1, 3]  # type: ignore[operator]
    assert text.count(" = None") == 4


def check(**keys: object) -> MutantsCheck:
    return MutantsCheck.model_validate({"id": "m", "kind": "mutants", "of": "t", **keys})


def trial(noticed: int, left: int, chosen: int | None = None, **keys: bool) -> MutantTrial:
    made = mutation.make_mutants([file("".join(f"x{n} = {n}\n" for n in range(40)))])
    runs = tuple(MutantRun(each, at < noticed) for at, each in enumerate(made[: noticed + left]))
    return MutantTrial(len(runs) if chosen is None else chosen, runs, **keys)


def test_enough_must_be_noticed_and_survivors_are_named() -> None:
    passed = mutation.judge_mutants(check(), trial(8, 2))
    assert passed.passed
    assert "a.py:9: 8 -> 9" in passed.detail
    assert mutation.judge_mutants(check(), trial(5, 0)).detail.endswith("(5 chosen)")
    failed = mutation.judge_mutants(check(kill=0.9), trial(8, 2))
    assert (failed.passed, failed.reason) == (False, "survivors")
    assert mutation.judge_mutants(check(), trial(0, 30)).detail.count("a.py:") == 20


def test_what_could_not_be_tried_shows_nothing() -> None:
    assert mutation.judge_mutants(check(), MutantTrial(0, (), of_passed=False)).reason == "no_mutants"
    assert mutation.judge_mutants(check(), MutantTrial(0, ())).reason == "no_mutants"
    assert mutation.judge_mutants(check(none="ok"), MutantTrial(0, ())).passed
    assert not mutation.judge_mutants(check(), trial(4, 0, chosen=40)).passed
    assert mutation.judge_mutants(check(), trial(5, 0, chosen=40)).passed
    assert not mutation.judge_mutants(check(), trial(0, 0, chosen=5, steady=False)).passed
    assert (trial(5, 0).is_whole, trial(5, 0, chosen=6).is_whole) == (True, False)
    long = "x = a == " + "1" * 14 + " + b" * 30 + "\n"
    assert all(len(str(each)) < 140 for each in mutation.make_mutants([file(long)]))
