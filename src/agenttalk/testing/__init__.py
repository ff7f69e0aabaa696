"""Things to test with: a forge that needs no installation."""

from agenttalk.testing.fake_gitea import FakeGitea
from agenttalk.testing.faults import Fault

__all__ = ["FakeGitea", "Fault"]
