"""A named statement of the store, and the type of the rows that it returns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

R_co = TypeVar("R_co", bound=tuple[Any, ...], covariant=True)


class NoRow(NamedTuple):
    """The row of a statement that returns none."""


class Statement(Generic[R_co]):
    """A statement by its name. A test compares the columns that both databases return with the fields of `row`."""

    __slots__ = ("make_row", "name", "row")

    def __init__(self, name: str, row: type[R_co]) -> None:
        self.name = name
        self.row = row
        # A call of the class would check the number of values again, in Python, for every row.
        self.make_row: Callable[[tuple[Any, ...]], R_co] = partial(tuple.__new__, row)

    def __repr__(self) -> str:
        return f"Statement({self.name!r}, {self.row.__name__})"
