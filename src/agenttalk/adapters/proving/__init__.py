"""Proves what an agent did, out of the agent's reach."""

from agenttalk.adapters.proving.prover import WorkspaceProver
from agenttalk.adapters.workspaces.git import FOLDER

__all__ = ["FOLDER", "WorkspaceProver"]
