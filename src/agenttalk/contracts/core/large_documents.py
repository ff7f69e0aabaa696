"""Help for documents that are very large."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MANY: Final = 100_000
"""From this number of new objects on, even the collector's first pass is avoided."""


@contextmanager
def pause_collector() -> Iterator[None]:
    """Pause the cyclic garbage collector while very many objects are created that will all be kept.

    It would scan them again and again in vain; for a DAG of 100,000 tasks that takes most of the time. If the
    collector is off already, it stays off.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_count()[0] > _MANY and not gc.get_freeze_count():
                # The new objects become old without a scan; the next full collection includes them.
                gc.freeze()
                gc.unfreeze()
            gc.enable()


@contextmanager
def spare_existing_objects() -> Iterator[None]:
    """Exclude all existing objects from garbage collection: the code and tables of a long-running program.

    They are most of its objects and are kept forever; scanning them would cost a busy engine a tenth of its time.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
