"""Where the tasks of a plan stand when they are drawn: in layers, from what comes first to what comes last.

The work grows with the number of tasks and of lines between them, so that a plan of thousands is drawn at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

WIDTH: Final = 168
HEIGHT: Final = 44
GAP_X: Final = 56
GAP_Y: Final = 18
MARGIN: Final = 16
TALLEST: Final = 40
"""Tasks that stand below each other; a layer with more has several columns."""
BENDS: Final = 4_000
"""Lines are led around tasks while this is not used up; those of plans with more are straight."""
SWEEPS: Final = 4
"""How often the order in the layers is improved; each pass removes fewer crossings."""


class Box(NamedTuple):
    """Where a task stands: its upper left corner."""

    x: int
    y: int


class Line(NamedTuple):
    """What leads from one task to another, by the points that it goes through."""

    begin: str
    end: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A plan, drawn."""

    boxes: dict[str, Box]
    lines: tuple[Line, ...]
    width: int
    height: int


@dataclass(slots=True)
class _Layers:
    """What is being laid out: names in layers, with who is beside whom. Bends of lines have names of their own."""

    rows: list[list[str]]
    before: dict[str, list[str]] = field(default_factory=dict)
    after: dict[str, list[str]] = field(default_factory=dict)

    def join(self, one: str, other: str) -> None:
        self.after.setdefault(one, []).append(other)
        self.before.setdefault(other, []).append(one)


def draw(tasks: Iterable[str], edges: Iterable[tuple[str, str]]) -> Drawing:
    """Place the tasks and route the lines. Lines of unknown tasks, and of a task to itself, are left out.

    What is in a circle stands in the first layer that is left for it: such a plan cannot run, but it can be drawn.
    """
    known = dict.fromkeys(tasks)
    lines = list(
        dict.fromkeys((one, other) for one, other in edges if one in known and other in known and one != other)
    )
    depth = _depths(known, lines)
    layers = _Layers([[] for _ in range(max(depth.values(), default=-1) + 1)])
    for name in known:
        layers.rows[depth[name]].append(name)
    bent = _bent(layers, depth, lines)
    _ordered(layers)
    boxes, width, height = _placed(layers)
    drawn = tuple(_line(each, bent.get(each, ()), boxes) for each in lines)
    return Drawing({name: boxes[name] for name in known}, drawn, width, height)


def _depths(tasks: Mapping[str, None], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Count the tasks before each task on the longest path to it."""
    after: dict[str, list[str]] = {}
    open_: dict[str, int] = dict.fromkeys(tasks, 0)
    for one, other in edges:
        after.setdefault(one, []).append(other)
        open_[other] += 1
    depth = dict.fromkeys(tasks, 0)
    ready = [name for name, count in open_.items() if count == 0]
    for name in ready:  # it grows while it is gone through
        for other in after.get(name, ()):
            depth[other] = max(depth[other], depth[name] + 1)
            open_[other] -= 1
            if open_[other] == 0:
                ready.append(other)
    return depth


def _bent(
    layers: _Layers, depth: Mapping[str, int], edges: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Give lines that pass layers by a place in each of them, as long as there are not too many."""
    left, found = BENDS, dict[tuple[str, str], tuple[str, ...]]()
    for number, (one, other) in enumerate(edges):
        passed = range(depth[one] + 1, depth[other])
        if not passed or len(passed) > left:
            if depth[one] < depth[other]:
                layers.join(one, other)
            continue
        left -= len(passed)
        names = tuple(f"\0{number}/{layer}" for layer in passed)  # no task can be called so
        for layer, name in zip(passed, names, strict=True):
            layers.rows[layer].append(name)
        for first, second in zip((one, *names), (*names, other), strict=True):
            layers.join(first, second)
        found[one, other] = names
    return found


def _ordered(layers: _Layers) -> None:
    """Move each task towards the middle of its neighbours, back and forth, which removes crossings."""
    place = {name: float(number) for row in layers.rows for number, name in enumerate(row)}
    for sweep in range(SWEEPS):
        forth = sweep % 2 == 0
        beside = layers.before if forth else layers.after
        for row in layers.rows if forth else reversed(layers.rows):
            middles = {name: _middle(name, beside, place) for name in row}
            row.sort(key=middles.__getitem__)
            for number, name in enumerate(row):
                place[name] = number - len(row) / 2


def _middle(name: str, beside: Mapping[str, list[str]], place: Mapping[str, float]) -> float:
    others = beside.get(name)
    return sum(place[each] for each in others) / len(others) if others else place[name]


def _placed(layers: _Layers) -> tuple[dict[str, Box], int, int]:
    """Corners of everything, each layer in the middle of the height."""
    rows = max((min(len(row), TALLEST) for row in layers.rows), default=0)
    height = rows * (HEIGHT + GAP_Y)
    boxes: dict[str, Box] = {}
    x = MARGIN
    for row in layers.rows:
        shown = min(len(row), TALLEST)
        top = MARGIN + (height - shown * (HEIGHT + GAP_Y)) // 2
        for number, name in enumerate(row):
            column, line = divmod(number, TALLEST)
            boxes[name] = Box(x + column * (WIDTH + GAP_Y), top + line * (HEIGHT + GAP_Y))
        columns = (len(row) + TALLEST - 1) // TALLEST
        x += columns * (WIDTH + GAP_Y) - GAP_Y + GAP_X
    width = x - GAP_X + MARGIN if layers.rows else 2 * MARGIN
    return boxes, width, max(height - GAP_Y, 0) + 2 * MARGIN


def _line(edge: tuple[str, str], bends: tuple[str, ...], boxes: Mapping[str, Box]) -> Line:
    one, other = edge
    begin, end = boxes[one], boxes[other]
    middle = HEIGHT // 2
    points = [(begin.x + WIDTH, begin.y + middle)]
    for name in bends:
        points += [(boxes[name].x, boxes[name].y + middle), (boxes[name].x + WIDTH, boxes[name].y + middle)]
    return Line(one, other, (*points, (end.x, end.y + middle)))


def to_svg_path(points: Sequence[tuple[int, int]]) -> str:
    """Make a smooth line through points, as the `d` of an SVG path."""
    (x, y), *rest = points
    told = [f"M{x} {y}"]
    for number, (next_x, next_y) in enumerate(rest):
        if number % 2:  # along a bend
            told.append(f"L{next_x} {next_y}")
        else:
            half = max((next_x - x) // 2, GAP_Y)
            told.append(f"C{x + half} {y} {next_x - half} {next_y} {next_x} {next_y}")
        x, y = next_x, next_y
    return "".join(told)
