"""Writes objects of a fake forge as its API and its webhooks do, with the traps of the real one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from agenttalk.testing.bare_repository import BareRepository
from agenttalk.testing.gitea_objects import (
    GiteaChange,
    GiteaComment,
    GiteaIssue,
    GiteaLineComment,
    GiteaPull,
    GiteaPush,
    GiteaRepository,
    GiteaReview,
    GiteaUser,
)
from agenttalk.testing.gitea_state import GiteaState


@dataclass(frozen=True, slots=True)
class GiteaSerializer:
    """Writes objects as one version does."""

    base_url: str
    version: tuple[int, int]
    state: GiteaState

    def user(self, user: GiteaUser | None) -> dict[str, Any] | None:
        """Write an account."""
        if user is None:
            return None
        return {
            "id": user.id,
            "login": user.login,
            "login_name": "",
            "full_name": "",
            "email": f"{user.login}@noreply.example.test",
            "html_url": f"{self.base_url}/{user.login}",
            "is_admin": False,
            "username": user.login,
        }

    def repository(self, repository: GiteaRepository, who: GiteaUser | None = None) -> dict[str, Any]:
        """Write a repository, with the permissions of an account there."""
        url = f"{self.base_url}/{repository.full_name}"
        return {
            "id": repository.id,
            "owner": self.user(repository.owner),
            "name": repository.name,
            "full_name": repository.full_name,
            "private": repository.private,
            "fork": False,
            "html_url": url,
            "clone_url": f"{url}.git",
            "default_branch": "main",
            "permissions": {
                "admin": who is not None and (who.is_admin or who is repository.owner),
                "push": who is not None and repository.may_write(who),
                "pull": who is not None and repository.may_read(who),
            },
        }

    def _people(self, users: list[GiteaUser]) -> list[Any] | None:
        """Write accounts; an empty list is null before 1.24."""
        return [self.user(each) for each in users] or ([] if self.version >= (1, 24) else None)

    def _thread(self, issue: GiteaIssue) -> dict[str, Any]:
        """Write the fields that issues and pull requests share."""
        return {
            "number": issue.number,
            "user": self.user(issue.author),
            "title": issue.title,
            "body": issue.body,
            "labels": [],
            "assignee": self.user(issue.assignees[0]) if issue.assignees else None,
            "state": issue.state,
            "created_at": issue.created,
            "updated_at": issue.updated,
        }

    def issue(self, repository: GiteaRepository, issue: GiteaIssue) -> dict[str, Any]:
        """Write an issue."""
        pull = repository.pulls.get(issue.number)
        kind = "pulls" if pull else "issues"
        return {
            "id": 900 + issue.number,
            **self._thread(issue),
            "assignees": [self.user(each) for each in issue.assignees] or None,
            "html_url": f"{self.base_url}/{repository.full_name}/{kind}/{issue.number}",
            "pull_request": {"merged": pull.merged, "merged_at": pull.merged_at} if pull else None,
        }

    def pull(self, repository: GiteaRepository, pull: GiteaPull) -> dict[str, Any]:
        """Write a single pull request, also for webhooks: its head is the branch's commit, merged or not."""
        bare, base = repository.bare, repository.bare.head(pull.base_branch)
        files, added, removed = bare.count_changes(pull.base_sha, pull.head_sha)
        return {
            **self._pull(repository, pull, self.state.tip(pull) or pull.head_sha, base, self._reviewers(pull)),
            "additions": added,
            "deletions": removed,
            "changed_files": files,
        }

    def listed_pull(self, repository: GiteaRepository, pull: GiteaPull) -> dict[str, Any]:
        """Write a pull request of a list: its head is its ref, and reviewers who only commented are not requested."""
        base = repository.bare.head(pull.base_branch)
        return self._pull(repository, pull, pull.head_sha, base, self._reviewers(pull, listed=True))

    def _reviewers(self, pull: GiteaPull, *, listed: bool = False) -> list[GiteaUser]:
        """List the reviewers that the forge calls requested: those who are asked, and those who have reviewed."""
        newest = {each.author.id: each for each in pull.reviews if each.state != "PENDING" and not each.dismissed}
        found = [each.author for each in newest.values() if not (listed and each.state == "COMMENT")]
        return [*pull.requested, *(each for each in found if each not in pull.requested)]

    def _pull(
        self, repository: GiteaRepository, pull: GiteaPull, head_sha: str, base_sha: str, reviewers: list[GiteaUser]
    ) -> dict[str, Any]:
        issue, url = pull.issue, f"{self.base_url}/{repository.full_name}/pulls/{pull.issue.number}"
        fork = pull.head_repository != repository.full_name
        base = {"label": pull.base_branch, "ref": pull.base_branch, "sha": base_sha, "repo_id": repository.id}
        head = {"label": pull.head_branch, "ref": pull.head_branch, "sha": head_sha}
        return {
            "id": 500 + issue.number,
            "url": url,
            **self._thread(issue),
            "assignees": self._people(issue.assignees),
            "requested_reviewers": self._people(reviewers),
            "draft": pull.draft,
            "html_url": url,
            "diff_url": f"{url}.diff",
            "mergeable": issue.number not in repository.still_checking and not self._conflicts(repository, pull),
            "merged": pull.merged,
            "merged_at": pull.merged_at,
            "merge_commit_sha": pull.merge_sha,
            "merged_by": self.user(pull.merged_by),
            "merge_base": pull.base_sha,
            "base": {**base, "repo": self.repository(repository)},
            "head": {
                **head,
                "repo_id": -1 if fork else repository.id,
                "repo": None if fork else self.repository(repository),
            },
        }

    def comment(self, repository: GiteaRepository, comment: GiteaComment) -> dict[str, Any]:
        """Write a comment."""
        kind = "pulls" if comment.number in repository.pulls else "issues"
        page = f"{self.base_url}/{repository.full_name}/{kind}/{comment.number}"
        return {
            "id": comment.id,
            "html_url": f"{page}#issuecomment-{comment.id}",
            "user": self.user(comment.author),
            "body": comment.body,
            "created_at": comment.created,
            "updated_at": comment.created,
        }

    def review(self, review: GiteaReview) -> dict[str, Any]:
        """Write a review as the API does; its states are not those of GitHub."""
        return {
            "id": review.id,
            "user": self.user(review.author),
            "state": review.state,
            "body": review.body,
            "commit_id": review.commit,
            "submitted_at": review.submitted,
            "updated_at": review.updated,
            "dismissed": review.dismissed,
            "comments_count": len(review.comments),
        }

    def request(self, user: GiteaUser, at: str) -> dict[str, Any]:
        """Write a request for a review, which the API lists among reviews."""
        asked = {"id": 0, "user": self.user(user), "state": "REQUEST_REVIEW", "body": "", "commit_id": ""}
        return {**asked, "submitted_at": at, "updated_at": at, "dismissed": False, "comments_count": 0}

    def review_comment(self, review: GiteaReview, comment: GiteaLineComment) -> dict[str, Any]:
        """Write a comment on a line."""
        return {
            "id": comment.id,
            "user": self.user(comment.author),
            "body": comment.body,
            "path": comment.path,
            "position": comment.line,
            "commit_id": review.commit,
            "pull_request_review_id": review.id,
            "created_at": comment.created,
        }

    def push(self, push: GiteaPush) -> dict[str, Any]:
        """Write a push to a pull request as its timeline shows it: the commits are JSON in a text."""
        content = json.dumps({"is_force_push": push.forced, "commit_ids": push.commits})
        told = {"id": push.id, "type": "pull_push", "user": self.user(push.who), "body": content}
        return {**told, "created_at": push.at, "updated_at": push.at}

    def _conflicts(self, repository: GiteaRepository, pull: GiteaPull) -> bool:
        tip = repository.bare.branches().get(pull.base_branch)
        return tip is not None and not pull.merged and repository.bare.has_conflicts(tip, pull.head_sha)

    def change(self, change: GiteaChange) -> dict[str, Any]:
        """Write a change of an issue as its timeline shows it."""
        told = {"type": change.kind, "user": self.user(change.who), "created_at": change.at, "updated_at": change.at}
        return {**told, "assignee": self.user(change.assignee), "removed_assignee": change.removed}

    def commit(self, repository: GiteaRepository, sha: str) -> dict[str, Any]:
        """Write a commit. The `sha` of its tree is the commit's."""
        bare: BareRepository = repository.bare
        shown = bare.read_commit(sha)
        person = {"name": shown.name, "email": shown.address, "date": shown.date}
        account = self.user(self.state.users.get(shown.account.lower()))
        words = {"message": shown.message, "author": person, "committer": person, "tree": {"sha": shown.sha}}
        files = [{"filename": name, "status": "modified"} for name in bare.list_paths_of_commit(sha)]
        told = {"sha": shown.sha, "commit": words, "author": account, "committer": account}
        return {**told, "parents": [{"sha": each} for each in shown.parents], "files": files}

    def status(self, status: dict[str, Any]) -> dict[str, Any]:
        """Write a commit's status for a list, where the state is named `status` and has its creator."""
        kept = {name: value for name, value in status.items() if name not in {"state", "sha"}}
        return {**kept, "status": status["state"], "creator": self.user(status["creator"])}

    def event(self, repository: GiteaRepository, who: GiteaUser, what: dict[str, Any]) -> dict[str, Any]:
        """Write the body of a webhook."""
        body: dict[str, Any] = {}
        for name, value in what.items():
            if isinstance(value, GiteaPull):
                body |= {"number": value.issue.number, "pull_request": self.pull(repository, value)}
            elif isinstance(value, GiteaIssue):
                body |= {"number": value.number, "issue": self.issue(repository, value)}
            elif isinstance(value, GiteaComment):
                body["comment"] = self.comment(repository, value)
            elif isinstance(value, GiteaUser):
                body[name] = self.user(value)
            elif name != "pull":
                body[name] = value
        if "comment" in body and self.version < (1, 23):
            body.pop("pull_request", None)
        if "review" in body and self.version < (1, 23):
            body.pop("requested_reviewer", None)
        return {**body, "repository": self.repository(repository, who), "sender": self.user(who)}
