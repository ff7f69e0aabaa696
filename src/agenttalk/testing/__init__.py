"""Things to test with: a forge and a model that need no installation."""

from agenttalk.testing.fake_gitea import FakeGitea
from agenttalk.testing.faults import ForgeFault
from agenttalk.testing.scripted_model import ScriptedModel

__all__ = ["FakeGitea", "ForgeFault", "ScriptedModel"]
