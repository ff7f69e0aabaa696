"""What makes two events the same: keys that do not depend on deliveries, of which there may be many.

Every key begins with the source's name, so that two forges never meet.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from agenttalk.contracts.forge import ForgeEvent, ForgeUser, PullRequest, Review


def _joined(*parts: str | int) -> str:
    return ":".join(str(part).replace("%", "%25").replace(":", "%3A") for part in parts)


def user(account: ForgeUser) -> str:
    """Make the key of an account: its number, which survives a rename, or else its name in lower case."""
    return account.login.lower() if account.id is None else str(account.id)


def object_of(source: str, repository: str, number: int) -> str:
    """Make the key of a pull request or issue; both share their numbers."""
    return f"{repository_of(source, repository)}#{number}"


def repository_of(source: str, repository: str) -> str:
    """Make the prefix of the keys of a repository's pull requests, issues and commits."""
    return _joined(source, repository.lower())


def read_object(key: str) -> tuple[str, str, int] | None:
    """Read source, repository and number from a key; None if it is not that of a pull request or issue."""
    source, colon, rest = key.partition(":")
    repository, hash_, number = rest.rpartition("#")
    if not colon or not hash_ or ":" in rest or not (number.isascii() and number.isdecimal()):
        return None
    return _plain(source), _plain(repository), int(number)


def repository_in(key: str) -> str:
    """Read the repository from the key of a pull request, issue or commit; empty for other keys."""
    rest = key.partition(":")[2]
    return "" if ":" in rest else _plain(rest.rpartition("#")[0] or rest.rpartition("@")[0])


def _plain(part: str) -> str:
    return part.replace("%3A", ":").replace("%25", "%")


def commit_of(source: str, repository: str, sha: str) -> str:
    """Make the key of a commit."""
    return f"{repository_of(source, repository)}{_joined(f'@{sha}')}"


def review_wanted(source: str, repository: str, pull: PullRequest, agent: str) -> str:
    """Make the key of one review of one head by one agent, whether it is the first or not."""
    return _joined(source, "review", repository.lower(), pull.number, agent, pull.head_sha)


def review_given(event: ForgeEvent, pull: PullRequest, review: Review) -> str:
    """Make the key of a submitted review. Gitea gives it no number, so its content and minute identify it."""
    return _review_at(event, pull, review, (review.submitted_at or event.at)[:16])


def neighbour_review_keys(event: ForgeEvent, pull: PullRequest, review: Review) -> tuple[str, ...]:
    """Further keys that the same review may have: those of the minutes beside its own.

    Gitea's webhook tells when the pull request changed, and its API when the review did, a moment before.
    """
    try:
        at = datetime.fromisoformat(review.submitted_at or event.at)
        near = [at + timedelta(minutes=by) for by in (1, -1)]
    except (ValueError, OverflowError):
        return ()
    return tuple(_review_at(event, pull, review, each.isoformat()[:16]) for each in near)


def _review_at(event: ForgeEvent, pull: PullRequest, review: Review, minute: str) -> str:
    content = hashlib.sha256(review.body.encode()).hexdigest()[:16]
    parts = (pull.number, user(review.author), review.verdict, review.commit or pull.head_sha, content, minute)
    return _joined(event.source, "review_result", event.repository.key, *parts)


def mention(event: ForgeEvent, place: str, agent: str) -> str:
    """Make the key of an agent's name in one text. An edit of the text keeps the key."""
    return _joined(event.source, "mention", event.repository.key, place, agent)


def comment_of(key: str) -> str:
    """Read the comment that called an agent from a mention's key (`comment-7`); empty for other texts."""
    parts = key.split(":")
    return parts[3] if len(parts) == 5 and parts[3].startswith("comment-") else ""


def issue_assigned(source: str, repository: str, number: int, agent: str) -> str:
    """Make the key of an issue that is assigned to an agent."""
    return _joined(source, "issue_assigned", repository.lower(), number, agent)


def merge_conflict(object_key: str, sha: str) -> str:
    """Make the key of a head of a pull request that conflicts."""
    return f"{object_key}:{_joined('merge_conflict', sha)}"


def ci_failure(source: str, repository: str, sha: str) -> str:
    """Make the key of a failed head: one key, however many jobs failed."""
    return _joined(source, "ci_failure", repository.lower(), sha)


def deploy_failure(source: str, repository: str, sha: str, environment: str = "") -> str:
    """Make the key of a commit that could not be deployed, one for each environment that is known."""
    where = (environment.lower(),) if environment else ()
    return _joined(source, "deploy_failure", repository.lower(), sha, *where)


def repeated_key(key: str, at: str) -> str:
    """Make the key of work that was done and is requested again."""
    return f"{key}:{_joined('again', at)}"


def deployment_key(source: str, repository: str, name: str) -> str:
    """Make the key of a deployment target, whose newest success is recorded."""
    return _joined(source, "deployed", repository.lower(), name.lower())


def review_merged(source: str, repository: str, number: int) -> str:
    """Make the key of a pull request that was merged."""
    return _joined(source, "review_merged", repository.lower(), number)


def infrastructure_failure(source: str, outage: str) -> str:
    """Make the key of one outage."""
    return _joined(source, "infrastructure_failure", outage)


def repository(source: str, number: int) -> str:
    """Make the key of a repository by its number, so that it survives a rename."""
    return _joined(source, "repository", number)


def repository_named(source: str, name: str) -> str:
    """Make the key under which a name's current repository is recorded."""
    return _joined(source, "repository_named", name.lower())


def repository_kept_as(source: str, name: str) -> str:
    """Make the key under which the repository behind a name's tasks is recorded."""
    return _joined(source, "repository_kept_as", name.lower())


def repository_gone(source: str, name: str) -> str:
    """Make the key that records the deletion of the repository behind a name's tasks."""
    return _joined(source, "repository_gone", name.lower())


def accounts(source: str) -> str:
    """Accounts of agents that have another name than the settings say."""
    return _joined(source, "accounts")


def escalations(source: str, agent: str, action_type: str) -> str:
    """Recent reports to the lead about an agent's tasks of one kind."""
    return _joined(source, "escalations", agent, action_type)
