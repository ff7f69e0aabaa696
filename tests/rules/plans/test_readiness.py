"""Which artifacts fill the inputs of a task, and when nothing can be picked."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import root_layout
from agenttalk.contracts.dag import Node
from agenttalk.rules.messages.inbox_inputs import InboxFiles, resolve
from agenttalk.rules.plans.input_selection import (
    AmbiguousInput,
    InputCandidate,
    MissingInputs,
    PickedInputs,
    adapt_to_given_files,
    apply_choices,
    pick_available,
    pick_inputs,
)
from kits.samples import DIGEST, OTHER_DIGEST, command

EARLY, LATE = "2026-01-08T10:30:00Z", "2026-01-08T10:30:00.5Z"


def node(*inputs: dict[str, Any], depends_on: list[str] | None = None, **fields: Any) -> Node:
    before = ["a", "b"] if depends_on is None else depends_on
    return Node.read({"task_id": "t", "assigned_agent_id": "x", "depends_on": before, "inputs": list(inputs), **fields})


def need(how: str, value: str, **fields: Any) -> dict[str, Any]:
    hashes = fields.pop("allowed_hashes", None)
    return {"name": "in", "selector": {"type": how, "value": value, "allowed_hashes": hashes}, **fields}


def made(task_id: str, output: str = "spec.md", *paths: str, sha256: str = DIGEST, **fields: Any) -> InputCandidate:
    known: dict[str, Any] = {
        "message_id": f"m_{task_id}",
        "subtype": None,
        "delivered_at": EARLY,
        "score": None,
        "seq": 1,
        "command_id": f"cmd_{task_id}_001",
        **fields,
    }
    files = tuple((path, sha256) for path in paths or (output,))
    return InputCandidate(task_id=task_id, output_name=output, paths=files, **known)


def paths(answer: PickedInputs | MissingInputs | AmbiguousInput) -> list[str]:
    assert isinstance(answer, PickedInputs)
    return [path for each in answer.inputs for path in each.paths]


A, B = made("a"), made("b", delivered_at=LATE)
BOTH = {"a", "b"}


@pytest.mark.shows("X11")
@pytest.mark.parametrize(
    ("how", "value", "expected"),
    [
        ("by_output_name", "spec.md", ["a/spec.md/spec.md"]),
        ("by_output_name", "spec", []),
        ("by_output_name", "docs", ["b/docs/x/guide.md", "b/docs/notes.txt"]),
        ("by_file_name", "spec.md", ["a/spec.md/spec.md"]),
        ("by_file_name", "guide.md", ["b/docs/x/guide.md"]),
        ("by_file_name", "x/guide.md", ["b/docs/x/guide.md"]),
        ("by_file_name", "docs/x/guide.md", ["b/docs/x/guide.md"]),
        ("by_file_name", "b/docs/notes.txt", ["b/docs/notes.txt"]),
        ("by_file_name", "uide.md", []),
        ("by_file_name", "docs", ["b/docs/x/guide.md", "b/docs/notes.txt"]),
        ("by_glob", "*.md", ["a/spec.md/spec.md", "b/docs/x/guide.md"]),
        ("by_glob", "docs/*.txt", ["b/docs/notes.txt"]),
        ("by_glob", "b/*/[a-n]*", ["b/docs/x/guide.md", "b/docs/notes.txt"]),
        ("by_glob", "d?cs", ["b/docs/x/guide.md", "b/docs/notes.txt"]),
        ("by_glob", "*.zip", []),
    ],
)
def test_inputs_are_found_by_output_file_or_glob(how: str, value: str, expected: list[str]) -> None:
    candidates = [made("a"), made("b", "docs", "m_b/x/guide.md", "notes.txt")]
    answer = pick_inputs(node(need(how, value)), candidates, final=BOTH)
    if expected:
        assert paths(answer) == expected
    else:
        assert answer == MissingInputs(("in",), waiting=False)


@pytest.mark.parametrize(
    ("kind", "subtype", "expected"),
    [("artifact", None, 2), ("artifact", "schema", 1), ("artifact", "other", 0), ("command", None, 0)],
)
def test_inputs_are_found_by_the_type_of_the_message(kind: str, subtype: str | None, expected: int) -> None:
    selector = {"type": "by_message_type", "type_value": kind, "subtype_value": subtype}
    task = node({"name": "in", "selector": selector, "pick_policy": "all", "required": False})
    answer = pick_inputs(task, [A, replace(B, subtype="schema")], final=BOTH)
    assert isinstance(answer, PickedInputs)
    assert len(answer.sources.get("in", ())) == expected


def test_what_is_picked_is_said_as_a_command_says_it() -> None:
    task = node(need("by_output_name", "spec.md"), {**need("by_file_name", "gone"), "name": "x", "required": False})
    answer = pick_inputs(task, [A], final=BOTH)
    assert isinstance(answer, PickedInputs)
    assert [each.as_json() for each in answer.inputs] == [
        {"input_name": "in", "required": True, "paths": ["a/spec.md/spec.md"]}
    ]
    assert answer.sources == {"in": (A,)}
    assert answer.absent == ("x",)


def test_a_task_without_inputs_is_ready_at_once() -> None:
    assert pick_inputs(node(), [A, B], final=()) == PickedInputs((), {}, ())


def test_the_older_way_to_name_inputs_works_too() -> None:
    assert paths(pick_inputs(node(required_inputs=["spec.md", "*.txt"]), [A, made("b", "n.txt")], final=BOTH)) == [
        "a/spec.md/spec.md",
        "b/n.txt/n.txt",
    ]


def test_of_an_output_only_the_newest_order_counts() -> None:
    old, new = made("a", seq=1, score=99), made("a", seq=2, message_id="m2", score=1)
    answer = pick_inputs(
        node(need("by_output_name", "spec.md", pick_policy="highest_score")), [old, new, new], final=BOTH
    )
    assert isinstance(answer, PickedInputs)
    assert answer.sources == {"in": (new,)}


@pytest.mark.shows("X11")
@pytest.mark.parametrize(
    ("policy", "one", "other"),
    [
        ("latest_by_delivered_at", {"delivered_at": LATE}, {"delivered_at": EARLY}),
        (
            "latest_by_delivered_at",
            {"delivered_at": "2026-01-08T10:30:00+00:00"},
            {"delivered_at": "2025-12-31T23:00:00Z"},
        ),
        ("first_seen", {"delivered_at": EARLY}, {"delivered_at": LATE}),
        ("highest_score", {"score": 80}, {"score": 79.5}),
        ("by_sha256", {"sha256": OTHER_DIGEST}, {}),
    ],
)
def test_each_policy_picks_the_one_that_it_prefers(policy: str, one: dict[str, Any], other: dict[str, Any]) -> None:
    task = node(need("by_output_name", "spec.md", pick_policy=policy, allowed_hashes=[OTHER_DIGEST]))
    for candidates, better in (
        ([made("a", **one), made("b", **other)], "a"),
        ([made("a", **other), made("b", **one)], "b"),
    ):
        assert paths(pick_inputs(task, candidates, final=BOTH)) == [f"{better}/spec.md/spec.md"]


@pytest.mark.shows("X11")
@pytest.mark.parametrize(
    ("policy", "one", "other", "why", "doubtful"),
    [
        ("latest_by_delivered_at", {}, {}, "equal", ["a", "b"]),
        ("first_seen", {}, {}, "equal", ["a", "b"]),
        ("highest_score", {"score": 7}, {"score": 7.0}, "equal", ["a", "b"]),
        ("by_sha256", {}, {}, "equal", ["a", "b"]),
        ("latest_by_delivered_at", {"delivered_at": None}, {}, "no delivery time", ["a"]),
        ("first_seen", {}, {"delivered_at": "yesterday"}, "no delivery time", ["b"]),
        ("first_seen", {}, {"delivered_at": "2026-01-08T10:30:00"}, "no delivery time", ["b"]),
        ("highest_score", {"score": 7}, {}, "no score", ["b"]),
        ("highest_score", {"score": 7}, {"score": float("nan")}, "no score", ["b"]),
        ("by_sha256", {"sha256": ""}, {}, "no hash", ["a"]),
        ("all", {"sha256": "unknown"}, {}, "no hash", ["a"]),
    ],
)
def test_ties_and_gaps_are_for_a_person(
    policy: str, one: dict[str, Any], other: dict[str, Any], why: str, doubtful: list[str]
) -> None:
    task = node(need("by_output_name", "spec.md", pick_policy=policy, allowed_hashes=[DIGEST]))
    answer = pick_inputs(task, [made("a", **one), made("b", **other)], final=BOTH)
    assert isinstance(answer, AmbiguousInput)
    assert (answer.name, [each.task_id for each in answer.candidates]) == ("in", doubtful)
    assert why in answer.why


def test_an_optional_input_can_be_in_doubt_too() -> None:
    task = node(need("by_output_name", "spec.md", required=False))
    assert isinstance(pick_inputs(task, [made("a"), made("b")], final=BOTH), AmbiguousInput)


def test_a_hash_that_is_not_allowed_fills_nothing() -> None:
    task = node(need("by_output_name", "spec.md", pick_policy="by_sha256", allowed_hashes=[OTHER_DIGEST]))
    assert pick_inputs(task, [A, B], final=BOTH) == MissingInputs(("in",), waiting=False)
    unlisted = node(need("by_output_name", "spec.md", pick_policy="by_sha256"))
    assert pick_inputs(unlisted, [A, B], final=BOTH) == MissingInputs(("in",), waiting=False)


def test_two_files_of_the_wanted_name_in_one_artifact_are_for_a_person() -> None:
    twice = made("a", "docs", "x/guide.md", "y/guide.md")
    assert isinstance(pick_inputs(node(need("by_file_name", "guide.md")), [twice], final=BOTH), AmbiguousInput)
    plain = made("a", "docs", "guide.md", "y/guide.md")
    assert paths(pick_inputs(node(need("by_file_name", "guide.md")), [plain], final=BOTH)) == ["a/docs/guide.md"]
    every = node(need("by_file_name", "guide.md", pick_policy="all"))
    assert paths(pick_inputs(every, [twice], final=BOTH)) == ["a/docs/x/guide.md", "a/docs/y/guide.md"]


def test_a_glob_waits_for_every_dependency_that_could_still_match() -> None:
    task = node(need("by_glob", "*.md"))
    assert pick_inputs(task, [A], final={"a"}) == MissingInputs(("in",), waiting=True)
    assert paths(pick_inputs(task, [A], final=BOTH)) == ["a/spec.md/spec.md"]
    assert len(paths(pick_inputs(task, [A, B], final={"a"}))) == 2
    assert pick_inputs(task, [A, B], final=BOTH, producers=["c"]) == MissingInputs(("in",), waiting=True)


def test_an_optional_glob_takes_what_is_there() -> None:
    assert paths(pick_inputs(node(need("by_glob", "*.md", required=False)), [A], final=())) == ["a/spec.md/spec.md"]


def test_of_an_artifact_every_file_must_have_an_allowed_hash() -> None:
    task = node(need("by_output_name", "spec.md", pick_policy="by_sha256", allowed_hashes=[DIGEST]))
    good = replace(A, paths=(("one", DIGEST), ("two", DIGEST)))
    mixed = replace(A, paths=(("one", DIGEST), ("two", OTHER_DIGEST)))
    assert paths(pick_inputs(task, [good], final=BOTH)) == ["a/spec.md/one", "a/spec.md/two"]
    assert pick_inputs(task, [mixed], final=BOTH) == MissingInputs(("in",), waiting=False)


def test_artifacts_of_one_output_come_in_the_order_of_their_messages() -> None:
    several = [replace(A, message_id=f"m_{number}", paths=((f"{number}.md", DIGEST),)) for number in (3, 1, 5, 2, 4, 0)]
    answer = pick_inputs(node(need("by_output_name", "spec.md", pick_policy="all")), several, final=BOTH)
    assert paths(answer) == [f"a/spec.md/{number}.md" for number in range(6)]


def test_min_count_asks_for_more() -> None:
    task = node(need("by_glob", "*.md", min_count=3))
    assert pick_inputs(task, [A, B], final=BOTH) == MissingInputs(("in",), waiting=False)
    assert len(paths(pick_inputs(task, [A, made("b", "docs", "x.md", "y.md")], final=BOTH))) == 3
    outputs = node(need("by_output_name", "docs", min_count=2, pick_policy="all"))
    assert isinstance(pick_inputs(outputs, [made("b", "docs", "x.md", "y.md")], final=BOTH), MissingInputs)


def test_what_is_external_may_come_from_anybody_and_waits_for_nobody() -> None:
    own = made("t", "brief.md")
    assert paths(pick_inputs(node(need("by_glob", "*.md", external=True)), [own], final=())) == ["t/brief.md/brief.md"]
    assert pick_inputs(node(need("by_glob", "*.md")), [own], final=BOTH) == MissingInputs(("in",), waiting=False)


def test_missing_inputs_are_told_before_doubts() -> None:
    task = node(need("by_output_name", "spec.md"), {**need("by_output_name", "gone"), "name": "other"})
    assert pick_inputs(task, [made("a"), made("b")], final={"a"}) == MissingInputs(("other",), waiting=True)


def test_two_contents_of_one_path_are_for_a_person() -> None:
    task = node(need("by_output_name", "spec.md", pick_policy="all"))
    again = made("a", sha256=OTHER_DIGEST, message_id="m2")
    answer = pick_inputs(task, [A, again], final=BOTH)
    assert isinstance(answer, AmbiguousInput)
    assert "two contents of 'a/spec.md/spec.md'" in answer.why
    same = made("a", sha256=DIGEST.removeprefix("sha256:"), message_id="m2")
    assert paths(pick_inputs(task, [A, same], final=BOTH)) == ["a/spec.md/spec.md"]


@pytest.mark.parametrize("files", [(), (("x" * 1020, DIGEST),), (("../up", DIGEST),)])
def test_what_a_command_cannot_name_is_for_a_person(files: tuple[tuple[str, str], ...]) -> None:
    answer = pick_inputs(node(need("by_output_name", "spec.md")), [replace(A, paths=files)], final=BOTH)
    assert isinstance(answer, AmbiguousInput)
    assert "cannot name" in answer.why


def test_inputs_of_the_same_name_keep_all_their_sources() -> None:
    task = node(need("by_output_name", "spec.md"), need("by_output_name", "n.txt"))
    other = made("b", "n.txt")
    answer = pick_inputs(task, [A, other], final=BOTH)
    assert isinstance(answer, PickedInputs)
    assert answer.sources == {"in": (A, other)}


def test_an_output_named_in_free_text_is_found_where_it_is_kept() -> None:
    wild = made("a", "the [best] plan", "v[1]*.md")
    answer = pick_inputs(node(need("by_file_name", "v[1]*.md")), [wild], final=BOTH)
    kept = f"a/{root_layout.path_segment('the [best] plan')}/v[1]*.md"
    assert paths(answer) == [kept]
    assert isinstance(answer, PickedInputs)
    order = Command.from_json(command(resolved_inputs=[each.as_json() for each in answer.inputs]))
    found = resolve(order, InboxFiles([kept, kept.replace("v[1]*", "v1x")]))
    assert (found.found, found.missing) == ({"in": (kept,)}, ())


file_names = st.sampled_from(["a.md", "b.md", "x/a.md", "c.json", "d"])
digests = st.sampled_from([DIGEST, OTHER_DIGEST, ""])
candidates_of = st.builds(
    InputCandidate,
    message_id=st.sampled_from(["m1", "m2", "m3"]),
    task_id=st.sampled_from(["a", "b", "t"]),
    output_name=st.sampled_from(["a.md", "d", "out"]),
    subtype=st.sampled_from([None, "s"]),
    paths=st.lists(st.tuples(file_names, digests), max_size=2).map(tuple),
    delivered_at=st.sampled_from([None, EARLY, LATE]),
    score=st.none() | st.integers(0, 3),
    seq=st.integers(0, 2),
    command_id=st.none(),
)
selectors = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["by_file_name", "by_output_name", "by_glob"]),
            "value": st.sampled_from(["a.md", "*.md", "d", "out", "x/*"]),
        },
        optional={"allowed_hashes": st.just([DIGEST])},
    ),
    st.just({"type": "by_message_type", "type_value": "artifact"}),
)
needs = st.fixed_dictionaries(
    {"name": st.sampled_from(["one", "two", "three"]), "selector": selectors},
    optional={
        "required": st.booleans(),
        "external": st.booleans(),
        "min_count": st.integers(1, 3),
        "pick_policy": st.sampled_from(["latest_by_delivered_at", "first_seen", "by_sha256", "highest_score", "all"]),
    },
)


@given(st.lists(needs, max_size=3), st.lists(candidates_of, max_size=6), st.sets(st.sampled_from(["a", "b"])))
def test_whatever_is_there_the_answer_is_sound(
    inputs: list[dict[str, Any]], candidates: list[InputCandidate], final: set[str]
) -> None:
    task = node(*inputs)
    answer = pick_inputs(task, candidates, final=final)
    if isinstance(answer, MissingInputs):
        assert answer.names
        assert set(answer.names) <= {each.name for each in task.needs if each.required}
        assert answer.waiting is (final != BOTH)
    elif isinstance(answer, AmbiguousInput):
        assert answer.candidates
        assert set(answer.candidates) <= set(candidates)
    else:
        required = {each.name for each in task.needs if each.required}
        assert required <= {each.input_name for each in answer.inputs} == set(answer.sources)
        newest = {(each.task_id, each.output_name): 0 for each in candidates}
        for each in candidates:
            newest[each.task_id, each.output_name] = max(each.seq, newest[each.task_id, each.output_name])
        for each in (source for sources in answer.sources.values() for source in sources):
            assert each.seq == newest[each.task_id, each.output_name]


distinct = st.lists(candidates_of, max_size=5, unique_by=lambda each: (each.task_id, each.output_name, each.message_id))


@given(st.lists(needs, max_size=2), distinct, st.randoms(use_true_random=False))
def test_the_order_in_which_artifacts_are_looked_at_decides_nothing(
    inputs: list[dict[str, Any]], candidates: list[InputCandidate], random: Any
) -> None:
    shuffled = list(candidates)
    random.shuffle(shuffled)
    task = node(*inputs)
    assert pick_inputs(task, candidates, final=BOTH) == pick_inputs(task, shuffled, final=BOTH)


@given(st.lists(candidates_of, max_size=5))
def test_a_dependency_that_has_not_finished_never_makes_more_inputs_ready(candidates: list[InputCandidate]) -> None:
    task = node(need("by_glob", "*.md"))
    early = pick_inputs(task, candidates, final={"a"})
    if isinstance(early, PickedInputs):
        assert pick_inputs(task, candidates, final=BOTH) == early


# A person lets a task go on.


@pytest.mark.mends("B1")
@pytest.mark.parametrize(
    "asked", [need("by_output_name", "package.zip"), {**need("by_glob", "*.zip"), "min_count": 3}], ids=["one", "many"]
)
def test_what_a_person_gave_takes_the_place_of_what_did_not_come(asked: dict[str, Any]) -> None:
    task = node(need("by_output_name", "spec.md"), {**asked, "name": "package"})
    theirs, own = made("t", "package", command_id=None), made("t", "package")
    assert isinstance(pick_inputs(task, [A, own], final=BOTH), MissingInputs)
    assert paths(pick_inputs(task, [A, theirs], final=BOTH)) == ["a/spec.md/spec.md", "t/package/package"]
    assert adapt_to_given_files(task, [A, own]) == task


def test_what_a_person_gave_must_have_a_hash_that_is_demanded() -> None:
    theirs = made("t", "package", command_id=None)
    for sha256, answer in ((theirs.paths[0][1], PickedInputs), ("sha256:" + "0" * 64, MissingInputs)):
        wanted = {**need("by_output_name", "package.zip"), "name": "package", "pick_policy": "by_sha256"}
        wanted["selector"] = {**wanted["selector"], "allowed_hashes": [sha256]}
        assert isinstance(pick_inputs(node(wanted), [theirs], final=BOTH), answer)


@pytest.mark.shows("X06")
def test_a_task_that_goes_on_without_an_input_keeps_the_others() -> None:
    asked = node(need("by_output_name", "spec.md"), {**need("by_output_name", "package.zip"), "name": "package"})
    answer = pick_available(asked, [A], final=BOTH)
    assert isinstance(answer, PickedInputs)
    assert (paths(answer), answer.absent) == (["a/spec.md/spec.md"], ("package",))
    assert pick_available(asked, [], final=BOTH) == PickedInputs((), {}, ("in", "package"))


@pytest.mark.mends("B1")
def test_a_task_never_goes_on_without_what_a_person_has() -> None:
    theirs = {**need("by_output_name", "package.zip"), "name": "package", "external": True}
    asked = node(need("by_output_name", "spec.md"), theirs)
    assert pick_available(asked, [], final=BOTH) == MissingInputs(("package",), waiting=False)


def test_doubts_about_the_other_inputs_are_still_asked_about() -> None:
    asked = node(need("by_output_name", "spec.md"), {**need("by_output_name", "package.zip"), "name": "package"})
    twins = [made("a"), made("b")]
    assert isinstance(pick_available(asked, twins, final=BOTH), AmbiguousInput)


def test_of_several_a_person_leaves_one_and_other_names_are_untouched() -> None:
    one, two, other = made("a"), made("b"), made("b", "other.md", message_id="m_c")
    assert apply_choices([one, two, other], [f"a/spec.md ({one.message_id})"]) == [one, other]
    assert apply_choices([one, two, other], []) == [one, two, other]


UNUSUAL: list[tuple[str, Any]] = [
    *(("how", each) for each in ("by_file_name", "by_glob")),
    *(("output", each) for each in ("other.md", "Überblick", "a/b")),
    *(("fields", each) for each in ({"min_count": 2}, {"min_count": 1}, {"external": True}, {"required": False})),
    *(("policy", each) for each in ("first_seen", "highest_score", "all", "by_sha256")),
    ("maker", "t"),
    *(("at", each) for each in (None, "yesterday", "2026-01-08T10:30:00")),
    *(("names", each) for each in (("m_a/spec.md",), ("x", "y"), ("../up",), ("y" * 300,), ("ünd",), ())),
    ("sha256", "no hash"),
]
"""What may be other than in the usual case: one output for one input that wants the latest of its name."""


def test_the_usual_case_is_picked_as_any_other() -> None:
    for changes in ((), *combinations(UNUSUAL, 1), *combinations(UNUSUAL, 2)):
        usual: dict[str, Any] = {
            "how": "by_output_name",
            "output": "spec.md",
            "fields": {},
            "policy": None,
            "maker": "a",
            "at": EARLY,
        }
        case: dict[str, Any] = {**usual, "names": ("spec.md",), "sha256": DIGEST, **dict(changes)}
        files = tuple((name, case["sha256"]) for name in case["names"])
        only = replace(made(case["maker"], case["output"], delivered_at=case["at"]), paths=files)
        wanted = node(need(case["how"], "spec.md", pick_policy=case["policy"], **case["fields"]))
        assert pick_inputs(wanted, [only], final=BOTH) == pick_inputs(wanted, [only, only], final=BOTH), (
            case
        )  # two go the long way
