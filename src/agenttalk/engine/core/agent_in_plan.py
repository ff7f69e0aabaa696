"""An agent in a plan: its inbox and outbox, its workspace, and the board that keeps its state."""

from __future__ import annotations

from dataclasses import dataclass

from agenttalk.contracts.core import root_layout
from agenttalk.engine.core.boards import board_of
from agenttalk.engine.core.deps import Deps
from agenttalk.ports.folders import Folder
from agenttalk.ports.storage import Blobs, Store


@dataclass(frozen=True, slots=True)
class AgentInPlan:
    """An agent in a plan."""

    deps: Deps
    agent_id: str
    plan_id: str
    store: Store
    blobs: Blobs

    @property
    def root(self) -> Folder:
        """The root under which everything lies."""
        return self.deps.root

    @property
    def inbox(self) -> str:
        """The agent's inbox for the plan."""
        return root_layout.box_folder(self.agent_id, "inbox", self.plan_id)

    @property
    def outbox(self) -> str:
        """The agent's outbox for the plan."""
        return root_layout.box_folder(self.agent_id, "outbox", self.plan_id)

    @property
    def inputs(self) -> str:
        """The folder of what the agent received in the plan."""
        return root_layout.inputs_folder(self.agent_id, self.plan_id)


async def open_agent_in_plan(deps: Deps, agent_id: str, plan_id: str) -> AgentInPlan:
    """Find the board of the plan, and return the agent in it."""
    store = await board_of(deps, plan_id)
    return AgentInPlan(deps, agent_id, plan_id, store, await deps.stores.blobs(store.name))
