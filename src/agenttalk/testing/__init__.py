"""Tools for tests: a forge and a model that need no installation."""

from agenttalk.testing.fake_gitea import FakeGitea
from agenttalk.testing.faults import ForgeFault
from agenttalk.testing.scripted_model import ScriptedModel

__all__ = ["FakeGitea", "ForgeFault", "ScriptedModel"]


def __getattr__(name: str) -> object:
    if name == "Fault":
        raise AttributeError("agenttalk.testing.Fault is called ForgeFault now")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
