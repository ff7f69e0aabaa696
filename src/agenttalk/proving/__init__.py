"""Proving what an agent did, where the agent cannot reach it."""

from agenttalk.proving.prover import FOLDER, Prover

__all__ = ["FOLDER", "Prover"]
