"""What happens to trees while processes die."""

from __future__ import annotations

from crash.life import Scenario, Step
from crash.scenes import living, messages, running, shipping, telling, work, writing


async def _nothing(_: object) -> None:
    """Open, and close again."""


EMPTY = Scenario("empty", lambda _: None, (Step(_nothing),), made=False)
_PARTS = (writing, messages, work, running, living, shipping, telling)
ALL = {each.name: each for part in _PARTS for each in part.SCENARIOS}
