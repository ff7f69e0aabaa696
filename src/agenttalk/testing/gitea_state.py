"""The state of a fake forge, the actions on it, and the events that follow."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agenttalk.testing.gitea_objects import GiteaChange, GiteaRepository, GiteaUser, RefusedError, ScheduledMerge
from agenttalk.testing.gitea_pulls import GiteaPulls


class GiteaState(GiteaPulls):
    """The state and all actions: issues, pull requests, and results of services about commits."""

    # Results of services

    def set_status(
        self, repository: GiteaRepository, who: GiteaUser, sha: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Set a commit's status."""
        state = status.get("state")
        if state not in {"pending", "success", "error", "failure", "warning"}:
            raise RefusedError(400, "invalid state")
        kept = {
            "id": next(self._ids),
            "sha": sha,
            "state": state,
            "context": str(status.get("context") or "default"),
            "description": str(status.get("description") or ""),
            "target_url": str(status.get("target_url") or ""),
            "updated_at": self.now(),
        }
        repository.statuses.append({**kept, "creator": who})
        self._emit(repository, "status", "status", who, dict(kept))
        self._merge_scheduled(repository, sha)
        return repository.statuses[-1]

    def schedule(self, repository: GiteaRepository, who: GiteaUser, number: int, head: str, style: str) -> bool:
        """Schedule a merge for when the checks pass; False when it can be done at once."""
        pull = self.pull_of(repository, number)
        if (
            pull.merged
            or pull.issue.state == "closed"
            or self.status_of_checks(repository, pull.head_sha) in {"", "success"}
        ):
            return False
        if pull.scheduled is not None:
            raise RefusedError(409, "pull request is already scheduled to auto merge when checks succeed")
        if not repository.may_write(who):
            raise RefusedError(405, "User not allowed to merge PR")
        pull.scheduled = ScheduledMerge(who, style, head)
        pull.issue.changes.append(GiteaChange("pull_scheduled_merge", who, self.now()))
        return True

    def _merge_scheduled(self, repository: GiteaRepository, sha: str) -> None:
        for pull in [each for each in repository.pulls.values() if each.scheduled and each.head_sha == sha]:
            if pull.scheduled is not None and self.status_of_checks(repository, sha) == "success":
                with suppress(RefusedError):
                    self.merge(repository, pull.scheduled.who, pull.issue.number, "", pull.scheduled.style)
