"""Proves what an agent did, out of the agent's reach."""

from agenttalk.adapters.proving.plan_workspaces import FOLDER
from agenttalk.adapters.proving.prover import WorkspaceProver

__all__ = ["FOLDER", "WorkspaceProver"]
