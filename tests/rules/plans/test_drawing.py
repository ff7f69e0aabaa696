"""Where tasks stand when a plan is drawn."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agenttalk.rules.plans import dag_layout
from agenttalk.rules.plans.dag_layout import HEIGHT, WIDTH, Box, Drawing, draw


@st.composite
def graphs(make: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Tasks and edges, some of them from later tasks to earlier ones or of tasks that are not there."""
    names = [f"t{number}" for number in range(make(st.integers(0, 30)))]
    end = st.sampled_from([*names, "unknown"])
    return names, make(st.lists(st.tuples(end, end), max_size=60))


@st.composite
def dags(make: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Plans that can run: edges lead from earlier tasks to later ones."""
    names = [f"t{number}" for number in range(make(st.integers(1, 60)))]
    pairs = st.tuples(st.integers(0, len(names) - 1), st.integers(0, len(names) - 1))
    chosen = make(st.lists(pairs, max_size=100))
    return names, [(names[one], names[other]) for one, other in chosen if one < other]


def overlap(one: Box, other: Box) -> bool:
    return abs(one.x - other.x) < WIDTH and abs(one.y - other.y) < HEIGHT


@given(graphs())
def test_every_task_stands_somewhere_and_no_two_in_the_same_place(
    graph: tuple[list[str], list[tuple[str, str]]],
) -> None:
    names, edges = graph
    found = draw(names, edges)
    assert list(found.boxes) == names
    boxes = list(found.boxes.values())
    for number, box in enumerate(boxes):
        assert 0 <= box.x <= found.width - WIDTH
        assert 0 <= box.y <= found.height - HEIGHT
        assert not any(overlap(box, other) for other in boxes[number + 1 :])


@given(dags())
def test_who_waits_for_another_stands_to_its_right_and_every_line_joins_its_two_ends(
    graph: tuple[list[str], list[tuple[str, str]]],
) -> None:
    names, edges = graph
    found = draw(names, edges)
    assert [(line.begin, line.end) for line in found.lines] == list(dict.fromkeys(edges))
    for line in found.lines:
        begin, end = found.boxes[line.begin], found.boxes[line.end]
        assert begin.x + WIDTH < end.x
        assert line.points[0] == (begin.x + WIDTH, begin.y + HEIGHT // 2)
        assert line.points[-1] == (end.x, end.y + HEIGHT // 2)
        assert [x for x, _ in line.points] == sorted(x for x, _ in line.points)
        assert dag_layout.to_svg_path(line.points).startswith(f"M{begin.x + WIDTH} {begin.y + HEIGHT // 2}C")


@given(dags())
def test_the_same_plan_is_drawn_the_same(graph: tuple[list[str], list[tuple[str, str]]]) -> None:
    assert draw(*graph) == draw(*graph)


def test_a_line_that_passes_a_layer_by_is_led_around_the_tasks_in_it() -> None:
    found = draw(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
    [long] = [line for line in found.lines if (line.begin, line.end) == ("a", "c")]
    at_b = [y for x, y in long.points if found.boxes["b"].x <= x <= found.boxes["b"].x + WIDTH]
    assert at_b
    assert all(abs(y - (found.boxes["b"].y + HEIGHT // 2)) > HEIGHT // 2 for y in at_b)


def test_an_empty_plan_is_a_small_drawing() -> None:
    assert draw([], []) == Drawing({}, (), 2 * dag_layout.MARGIN, 2 * dag_layout.MARGIN)


def test_lines_cross_less_than_in_the_order_of_names() -> None:
    names = ["a", "b", "c", "z", "y", "x"]
    found = draw(names, [("a", "x"), ("b", "y"), ("c", "z")])
    order = sorted(["a", "b", "c"], key=lambda each: found.boxes[each].y)
    ends = sorted(["x", "y", "z"], key=lambda each: found.boxes[each].y)
    assert [{"a": "x", "b": "y", "c": "z"}[each] for each in order] == ends


def test_a_layer_with_many_tasks_stands_in_several_columns() -> None:
    found = draw([f"t{number}" for number in range(100)], [])
    assert len({box.x for box in found.boxes.values()}) == 3
    assert found.height < dag_layout.TALLEST * (HEIGHT + dag_layout.GAP_Y) + 2 * dag_layout.MARGIN


def test_lines_that_pass_too_many_layers_by_are_straight() -> None:
    chain = [f"t{number}" for number in range(dag_layout.BENDS + 10)]
    edges = [*pairwise(chain), (chain[0], chain[-1])]
    long = draw(chain, edges).lines[-1]
    assert len(long.points) == 2


class Counted(str):
    """A name that counts how often somebody looks it up."""

    __slots__ = ()
    looked_up = 0

    def __hash__(self) -> int:
        Counted.looked_up += 1
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)


def test_a_plan_of_ten_times_the_size_takes_about_ten_times_the_work() -> None:
    def looked_up(size: int) -> int:
        names = [Counted(f"t{number}") for number in range(size)]
        edges = [(names[number // 3], names[number]) for number in range(1, size)]
        edges += [(names[number - 7], names[number]) for number in range(7, size)]
        Counted.looked_up = 0
        draw(names, edges)
        return Counted.looked_up

    assert looked_up(5_000) < 15 * looked_up(500)


def test_a_line_is_soft_between_layers_and_straight_along_a_bend() -> None:
    told = dag_layout.to_svg_path([(0, 0), (200, 40), (300, 40), (500, 0)])
    assert [each[0] for each in re.findall(r"[MCL][^MCL]*", told)] == ["M", "C", "L", "C"]
    assert told.endswith(" 500 0")
