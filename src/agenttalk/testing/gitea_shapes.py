"""Objects of a fake forge as its API and its webhooks write them, with the traps of the real one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agenttalk.testing.gitea_state import Comment, Issue, Pull, Repository, Review, User


@dataclass(frozen=True, slots=True)
class Shapes:
    """How one version writes things."""

    base_url: str
    version: tuple[int, int]

    def user(self, user: User | None) -> dict[str, Any] | None:
        """An account."""
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

    def repository(self, repository: Repository) -> dict[str, Any]:
        """A repository."""
        url = f"{self.base_url}/{repository.full_name}"
        return {
            "id": repository.id,
            "owner": self.user(repository.owner),
            "name": repository.name,
            "full_name": repository.full_name,
            "private": False,
            "fork": False,
            "html_url": url,
            "clone_url": f"{url}.git",
            "default_branch": "main",
        }

    def _people(self, users: list[User]) -> list[Any] | None:
        """Empty lists are null before 1.24."""
        return [self.user(each) for each in users] or ([] if self.version >= (1, 24) else None)

    def _thread(self, issue: Issue) -> dict[str, Any]:
        """What an issue and a pull request have in common."""
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

    def issue(self, repository: Repository, issue: Issue) -> dict[str, Any]:
        """An issue."""
        pull = repository.pulls.get(issue.number)
        kind = "pulls" if pull else "issues"
        return {
            "id": 900 + issue.number,
            **self._thread(issue),
            "assignees": [self.user(each) for each in issue.assignees] or None,
            "html_url": f"{self.base_url}/{repository.full_name}/{kind}/{issue.number}",
            "pull_request": {"merged": pull.merged, "merged_at": pull.merged_at} if pull else None,
        }

    def pull(self, repository: Repository, pull: Pull) -> dict[str, Any]:
        """A pull request. Its `url` is the page's."""
        issue, url = pull.issue, f"{self.base_url}/{repository.full_name}/pulls/{pull.issue.number}"
        fork = pull.head_repository != repository.full_name
        base = {"label": pull.base_branch, "ref": pull.base_branch, "sha": pull.base_sha, "repo_id": repository.id}
        head = {"label": pull.head_branch, "ref": pull.head_branch, "sha": pull.head_sha}
        return {
            "id": 500 + issue.number,
            "url": url,
            **self._thread(issue),
            "assignees": self._people(issue.assignees),
            "requested_reviewers": self._people(pull.requested),
            "draft": pull.draft,
            "html_url": url,
            "diff_url": f"{url}.diff",
            "mergeable": issue.number not in repository.still_checking,
            "merged": pull.merged,
            "merged_at": pull.merged_at,
            "merge_commit_sha": pull.merge_sha,
            "merged_by": self.user(pull.merged_by),
            "base": {**base, "repo": self.repository(repository)},
            "head": {
                **head,
                "repo_id": -1 if fork else repository.id,
                "repo": None if fork else self.repository(repository),
            },
        }

    def comment(self, repository: Repository, comment: Comment) -> dict[str, Any]:
        """A comment."""
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

    def review(self, review: Review) -> dict[str, Any]:
        """A review as the API writes it; its states are not those of GitHub."""
        return {
            "id": review.id,
            "user": self.user(review.author),
            "state": review.state,
            "body": review.body,
            "commit_id": review.commit,
            "submitted_at": review.submitted,
            "dismissed": review.dismissed,
            "comments_count": len(review.comments),
        }

    def review_comment(self, review: Review, comment: dict[str, Any]) -> dict[str, Any]:
        """A comment on a line."""
        return {
            "id": comment["id"],
            "user": self.user(review.author),
            "body": comment["body"],
            "path": comment["path"],
            "position": comment["line"],
            "commit_id": review.commit,
            "created_at": review.submitted,
        }

    def event(self, repository: Repository, who: User, what: dict[str, Any]) -> dict[str, Any]:
        """The body of a webhook."""
        body: dict[str, Any] = {}
        for name, value in what.items():
            if isinstance(value, Pull):
                body |= {"number": value.issue.number, "pull_request": self.pull(repository, value)}
            elif isinstance(value, Issue):
                body |= {"number": value.number, "issue": self.issue(repository, value)}
            elif isinstance(value, Comment):
                body["comment"] = self.comment(repository, value)
            elif isinstance(value, User):
                body[name] = self.user(value)
            elif name != "pull":
                body[name] = value
        if "comment" in body and self.version < (1, 23):
            body.pop("pull_request", None)
        return {**body, "repository": self.repository(repository), "sender": self.user(who)}
