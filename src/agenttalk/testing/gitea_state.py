"""The state of a fake forge."""

from __future__ import annotations

from pathlib import Path

from agenttalk.testing.gitea_accounts import GiteaAccounts
from agenttalk.testing.gitea_issues import GiteaIssues
from agenttalk.testing.gitea_objects import Emit
from agenttalk.testing.gitea_pulls import GiteaPulls


class GiteaState(GiteaAccounts):
    """The state and all actions: accounts and repositories, issues, and pull requests with the results of services."""

    def __init__(self, folder: Path, emit: Emit, *, reviewers_first: bool = True) -> None:
        super().__init__(folder, emit)
        self.issues = GiteaIssues(self)
        self.pulls = GiteaPulls(self, self.issues, reviewers_first=reviewers_first)
