"""Draws a plan as a graph: a node for each task, and the edges between them.

Plans have thousands of tasks and many readers. So the parts that do not depend on states are drawn once for all
readers, and each node is drawn once for each of its states.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup, escape

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.doors.pages.page import badge_of, board_of, quote_part
from agenttalk.rules.plans import dag_layout
from agenttalk.rules.text.code_words import render_code

LARGE: Final = 200
"""Of a plan with more tasks than this only those that changed are sent again."""
MOST: Final = 5_000
"""Tasks of a plan that is drawn; of a larger one only the list is shown."""
STATES: Final = (
    "done", "claimed", "stale", "working", "review", "waiting", "blocked", "pending", "failed", "skipped",
)  # fmt: skip
"""What people call states, in the order of the legend."""
TILE: Final = 600
"""How wide a tile is at least."""
_KEPT: Final = 20_000
_NAME: Final = 19
_AGENT: Final = 14
_SHAPES: Final = {
    "good": '<circle r="6"/><path class="ink" d="M-2.6 .2l2 2 3.4-4"/>',
    "bad": '<rect x="-5.5" y="-5.5" width="11" height="11" rx="1.5"/>'
    '<path class="ink" d="M-2.4-2.4l4.8 4.8M2.4-2.4l-4.8 4.8"/>',
    "busy": '<path d="M-4.5-6l10 6-10 6z"/>',
    "ask": '<path d="M0-7l7 7-7 7-7-7z"/><path class="ink" d="M0-3v3.4M0 2.6v.6"/>',
    "unproven": '<circle class="hollow" r="5.5"/>'
    '<path class="query" d="M-1.8-1.6a1.9 1.9 0 1 1 2.6 1.8q-.8.4-.8 1.3M0 3.2v.3"/>',
    "old": '<path d="M0-6.5l6.8 12H-6.8z"/>',
    "calm": '<circle class="hollow" r="5"/>',
}


@dataclass(frozen=True, slots=True)
class Tile:
    """Some columns of a graph. A browser paints only the tiles anew in which something changed."""

    x: int
    width: int
    places: Mapping[str, str]
    """Task → where it stands."""
    lines: tuple[tuple[str, Markup], ...]
    """Task → the lines that lead on from it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What of a drawn plan changes only with the plan itself."""

    tiles: tuple[Tile, ...]
    width: int
    height: int


@lru_cache(maxsize=8)
def draw_plan(tasks: tuple[str, ...], edges: tuple[tuple[str, str], ...]) -> Picture:
    """Draw a plan. It is drawn again with every change of the plan."""
    drawn = dag_layout.draw(tasks, edges)
    paths: dict[str, list[str]] = {}
    for each in drawn.lines:
        paths.setdefault(each.begin, []).append(f'<path d="{dag_layout.to_svg_path(each.points)}"/>')
    lines = {name: Markup("".join(each)) for name, each in paths.items()}  # noqa: S704 - only numbers
    starts = _starts(sorted({box.x for box in drawn.boxes.values()}))
    held: list[list[str]] = [[] for _ in starts]
    for name, box in drawn.boxes.items():
        held[bisect_right(starts, box.x) - 1].append(name)
    tiles = []
    for start, end, names in zip(starts, [*starts[1:], drawn.width], held, strict=True):
        places = {name: f"translate({drawn.boxes[name].x} {drawn.boxes[name].y})" for name in names}
        led = tuple((name, lines[name]) for name in names if name in lines)
        tiles.append(Tile(start, end - start, places, led))
    return Picture(tuple(tiles), drawn.width, drawn.height)


def _starts(columns: Sequence[int]) -> list[int]:
    """Return where tiles begin: between columns, and not too close to each other."""
    found = [0]
    for x in columns:
        if x - found[-1] >= TILE:
            found.append(x - dag_layout.GAP_Y // 2)
    return found


def draw_node(language: Locale, plan_id: str, task: Mapping[str, Any], place: str = "") -> Markup:
    """Draw a task of the graph. Without a place it replaces the node that is there."""
    opened, inside = _node(
        language,
        plan_id,
        task["task_id"],
        task["agent_id"],
        board_of(task),
        task["reason"] or "",
        met=is_met(task),
    )
    placed = f' transform="{place}"' if place else ""
    return Markup(f"{opened}{placed}>{inside}</a>")  # noqa: S704 - made below, and a place is numbers


def is_met(task: Mapping[str, Any]) -> bool:
    """Whether what waits for a task has it, and not by its agent's word alone."""
    return task["state"] == "COMPLETED" and board_of(task) != "claimed"


@lru_cache(maxsize=_KEPT)
def _node(
    language: Locale, plan_id: str, name: str, agent_id: str, state: str, reason: str, *, met: bool
) -> tuple[str, str]:
    said, kind = render_code(language, "board", state), badge_of(state)
    more = reason or len(name) > _NAME or len(agent_id) > _AGENT  # than can be read anyway
    title = f"<title>{escape(f'{name}: {said} ({reason or agent_id})')}</title>" if more else ""
    opened = (
        f'<a id="n-{escape(name)}" href="/plans/{quote_part(plan_id)}/tasks/{quote_part(name)}" '
        f'class="node {kind}{" skipped" if state == "skipped" else ""}" data-state="{escape(state)}" '
        f'data-met="{int(met)}" aria-label="{escape(f"{name}: {said}, {agent_id}")}"'
    )
    inside = (
        f'{title}<rect class="box" width="{dag_layout.WIDTH}" height="{dag_layout.HEIGHT}" rx="9"/>'
        f'<g class="sign" transform="translate(18 22)">{_SHAPES[kind]}</g>'
        f'<text x="34" y="19">{escape(_cut(name, _NAME))}</text>'
        f'<text x="34" y="34" class="sub">{escape(f"{_cut(agent_id, _AGENT)} · {said}")}</text>'
    )
    return opened, inside


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def count_states(tasks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Count the tasks in each state, in the order of the legend."""
    found = dict.fromkeys(STATES, 0)
    for each in tasks:
        name = board_of(each)
        found[name] = found.get(name, 0) + 1
    return found
