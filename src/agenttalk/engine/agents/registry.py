"""The performers of agents that are programs, by the driver in their profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agenttalk.contracts.model_use import MODEL_DRIVERS
from agenttalk.engine.agents.acp import AcpAgents
from agenttalk.engine.agents.coding_cli import CodingAgents
from agenttalk.engine.agents.model import ModelAgents
from agenttalk.engine.agents.program import ProgramAgents
from agenttalk.engine.core.attempt_paths import EngineAddress
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.agents import Driver, Performer, SandboxSelector
from agenttalk.ports.dialogues import DialogueDriver


def make_performers(
    deps: Deps, driver: Driver, api: Callable[[], EngineAddress | None], environ: Mapping[str, str]
) -> dict[str, Performer]:
    """Make the performers that a driver allows: `cli` needs its sandboxes, `acp` its dialogues as well."""
    found: dict[str, Performer] = {"script": ProgramAgents(deps, driver, api, environ)}
    if isinstance(driver, SandboxSelector):
        found["cli"] = CodingAgents(deps, driver, api, environ, tiers=driver)
        if isinstance(driver, DialogueDriver):
            found["acp"] = AcpAgents(deps, driver, api, environ, tiers=driver, dialogues=driver.open_dialogue)
    if deps.asks_models:
        models = ModelAgents(deps, driver, api, environ, program=deps.asks_models)
        found |= dict.fromkeys(MODEL_DRIVERS, models)
    return found
