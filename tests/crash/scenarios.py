"""What happens to trees while processes die."""

from __future__ import annotations

from crash import messages, running, work, writing
from crash.life import Scenario, Step


async def _nothing(_: object) -> None:
    """Open, and close again."""


EMPTY = Scenario("empty", lambda _: None, (Step(_nothing),), made=False)
ALL = {each.name: each for each in (*writing.SCENARIOS, *messages.SCENARIOS, *work.SCENARIOS, *running.SCENARIOS)}
