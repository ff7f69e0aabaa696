"""Help for documents that are very large."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 100_000
"""Objects that are worth being spared the collector's first look, too."""


@contextmanager
def pause_collector() -> Iterator[None]:
    """Hold the cyclic garbage collector off while very many objects are made that will all be kept.

    It would look through them again and again and find nothing; for a DAG of 100,000 tasks that is
    most of the time. Whoever finds it off already leaves it so.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                # What was made becomes old without being looked through; it is looked at with everything that is old.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def spare_existing_objects() -> Iterator[None]:
    """Spare everything that is there now the collector's looks: the code and tables of a program that runs for long.

    They are most of its objects and will all be kept; looking through them again and again would cost a busy engine
    a tenth of its time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
