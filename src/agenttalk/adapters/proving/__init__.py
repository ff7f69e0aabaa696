"""Proving what an agent did, where the agent cannot reach it."""

from agenttalk.adapters.proving.prover import FOLDER, WorkspaceProver

__all__ = ["FOLDER", "WorkspaceProver"]
