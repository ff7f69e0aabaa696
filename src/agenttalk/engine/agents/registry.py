"""Who carries out the tasks of agents that are programs, by the driver that their profiles name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agenttalk.contracts.model_use import MODEL_DRIVERS
from agenttalk.engine.agents.acp import SpokenAgents
from agenttalk.engine.agents.coding_cli import CodingAgents
from agenttalk.engine.agents.model import Models
from agenttalk.engine.agents.program import Programs
from agenttalk.engine.core.attempt_paths import Api
from agenttalk.engine.core.deps import Deps
from agenttalk.ports import Driver, Performer, Speaks, Tiers


def programs(
    deps: Deps, driver: Driver, api: Callable[[], Api | None], environ: Mapping[str, str]
) -> dict[str, Performer]:
    """A driver that knows sandboxes has coding agents, too, and one that can speak with programs those that speak."""
    found: dict[str, Performer] = {"script": Programs(deps, driver, api, environ)}
    if isinstance(driver, Tiers):
        found["cli"] = CodingAgents(deps, driver, api, environ, tiers=driver)
        if isinstance(driver, Speaks):
            found["acp"] = SpokenAgents(deps, driver, api, environ, tiers=driver, dialogues=driver.dialogue)
    if deps.asks_models:
        models = Models(deps, driver, api, environ, program=deps.asks_models)
        found |= dict.fromkeys(MODEL_DRIVERS, models)
    return found
