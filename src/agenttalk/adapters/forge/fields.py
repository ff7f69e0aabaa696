"""Reads fields of what a forge sends, where anything may be missing, null or of another type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from agenttalk.contracts.core.wire import MAX_INTEGER
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.forge import (
    Change,
    ChangeKind,
    CheckOutcome,
    Comment,
    Commit,
    ForgeEvent,
    ForgeIssue,
    ForgeUser,
    PullRequest,
    Repository,
    Status,
)

LONGEST_TEXT: Final = 256 * 1024
"""Characters of one text that are kept."""
LONGEST_NAME: Final = 1024
MOST_ITEMS: Final = 200
"""Users or labels of one list that are kept."""
WIP: Final = ("wip:", "[wip]")
"""How titles of drafts begin where the forge has no other way to say it."""


class UnreadableError(InputError):
    """A body that lacks what its event must have."""

    def __init__(self, message: str) -> None:
        super().__init__(Code.FORGE_EVENT_UNREADABLE, message)


def read_object(data: object, name: str) -> Mapping[str, Any]:
    """Read an object in an object; empty when there is none."""
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def read_objects(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]] | None:
    """Read the objects of a list, at most MOST_ITEMS; None when there is no list."""
    value = data.get(name)
    if not isinstance(value, list):
        return None
    items: list[Mapping[str, Any]] = [item for item in value if isinstance(item, dict)]
    return items[:MOST_ITEMS]


def require_objects(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """Read all objects of a list of any length; raises UnreadableError when there is no list."""
    value = data.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UnreadableError(f"there is no list {name!r}")
    return value


def read_text(data: Mapping[str, Any], *names: str, longest: int = LONGEST_NAME) -> str:
    """Read the first text among some fields. Replaces NUL, which no database takes."""
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value[:longest].replace("\0", "\ufffd")
    return ""


def read_body(data: Mapping[str, Any], name: str) -> str:
    """Read a long text."""
    return read_text(data, name, longest=LONGEST_TEXT)


def read_number(data: Mapping[str, Any], name: str, *, least: int = 0) -> int | None:
    """Read an integer between `least` and MAX_INTEGER; None when there is none."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        return None
    return value


def read_flag(data: Mapping[str, Any], name: str) -> bool:
    """Return whether a field is exactly true."""
    return data.get(name) is True


def read_time(data: Mapping[str, Any], *names: str) -> str:
    """Read a time in UTC, so that texts compare as times do; empty when there is none."""
    for name in names:
        value = data.get(name)
        if not isinstance(value, str) or value.startswith("0001-"):
            continue
        try:
            time = datetime.fromisoformat(value)
        except ValueError:
            continue
        if time.tzinfo is not None:
            return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return ""


def read_user(data: Mapping[str, Any], source: str) -> ForgeUser | None:
    """Read an account; None when it has no name."""
    login = read_text(data, "login", "username", longest=255)
    if not login:
        return None
    return ForgeUser(source=source, login=login, id=read_number(data, "id", least=-MAX_INTEGER))


def require_user(data: Mapping[str, Any], name: str, source: str) -> ForgeUser:
    """Read an account; raises UnreadableError when there is none."""
    user = read_user(read_object(data, name), source)
    if user is None:
        raise UnreadableError(f"{name!r} names no account")
    return user


def read_users(data: Mapping[str, Any], name: str, source: str) -> tuple[ForgeUser, ...] | None:
    """Read the accounts of a list; None when there is no list."""
    items = read_objects(data, name)
    if items is None:
        return None
    return tuple(user for user in (read_user(item, source) for item in items) if user is not None)


def read_labels(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the names of labels."""
    return tuple(name for name in (read_text(label, "name") for label in read_objects(data, "labels") or ()) if name)


def read_repository(data: Mapping[str, Any]) -> Repository:
    """Read a repository; raises UnreadableError when it has no full name."""
    name = (
        read_text(data, "full_name")
        or f"{read_text(read_object(data, 'owner'), 'login', 'name')}/{read_text(data, 'name')}"
    )
    if name.count("/") != 1 or not all(name.split("/")):
        raise UnreadableError("the repository has no full name")
    return Repository(
        full_name=name,
        url=read_text(data, "html_url"),
        default_branch=read_text(data, "default_branch"),
        id=read_number(data, "id"),
    )


def complete_url(address: str, base: str) -> str:
    """Complete an address that is only a path, as Gitea writes those of its Actions, with the forge's address."""
    if not address.startswith("/") or address.startswith("//"):
        return address
    forge = urlsplit(base)
    return f"{forge.scheme}://{forge.netloc}{address}"


def complete_log_url(event: ForgeEvent, base: str) -> ForgeEvent:
    """Return the event with a complete address of its log."""
    for name in ("status", "run", "deployment"):
        part = getattr(event, name)
        if part is not None and part.url != (address := complete_url(part.url, base)):
            return event.model_copy(update={name: part.model_copy(update={"url": address})})
    return event


def is_wip(title: str) -> bool:
    """Return whether a title marks a draft."""
    return title.strip().lower().startswith(WIP)


def read_pull_request(
    data: Mapping[str, Any], source: str, *, wip_titles: bool, outer: Mapping[str, Any] | None = None
) -> PullRequest:
    """Read a pull request as webhooks and the APIs of all three forges write it; `outer` may have its number, too."""
    head, base = read_object(data, "head"), read_object(data, "base")
    count = read_number(data, "number", least=1) or read_number(outer or {}, "number", least=1)
    if count is None:
        raise UnreadableError("the pull request has no number")
    title = read_text(data, "title", longest=LONGEST_TEXT)
    added, removed = read_number(data, "additions"), read_number(data, "deletions")
    return PullRequest(
        number=count,
        title=title,
        body=read_body(data, "body"),
        author=require_user(data, "user", source),
        is_open=read_text(data, "state") != "closed",
        draft=read_flag(data, "draft") or (wip_titles and is_wip(title)),
        merged=read_flag(data, "merged") or bool(read_time(data, "merged_at")),
        merged_by=read_user(read_object(data, "merged_by"), source),
        merged_at=read_time(data, "merged_at"),
        merge_sha=read_text(data, "merge_commit_sha"),
        head_sha=read_text(head, "sha"),
        head_ref=read_text(head, "ref"),
        base_ref=read_text(base, "ref"),
        base_sha=read_text(data, "merge_base") or read_text(base, "sha"),
        fork=_is_fork(head, base),
        requested_reviewers=read_users(data, "requested_reviewers", source),
        labels=read_labels(data),
        url=read_text(data, "html_url", "url"),
        lines=None if added is None or removed is None else added + removed,
        files=read_number(data, "changed_files"),
        mergeable=data["mergeable"] if isinstance(data.get("mergeable"), bool) else None,
        created_at=read_time(data, "created_at"),
        updated_at=read_time(data, "updated_at"),
    )


def _is_fork(head: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Return whether the head lies in another repository, or in a deleted one, which has no name any more."""
    left, right = (
        read_number(ref, "repo_id", least=-1) or read_number(read_object(ref, "repo"), "id") for ref in (head, base)
    )
    if left is not None and right is not None:
        return left != right
    return not read_object(head, "repo") or read_text(read_object(head, "repo"), "full_name") != read_text(
        read_object(base, "repo"), "full_name"
    )


def read_issue(data: Mapping[str, Any], source: str) -> ForgeIssue:
    """Read an issue as webhooks and the APIs of all three forges write it."""
    count = read_number(data, "number", least=1)
    if count is None:
        raise UnreadableError("the issue has no number")
    single = read_user(read_object(data, "assignee"), source)
    return ForgeIssue(
        number=count,
        title=read_text(data, "title", longest=LONGEST_TEXT),
        body=read_body(data, "body"),
        author=require_user(data, "user", source),
        assignees=read_users(data, "assignees", source) or (() if single is None else (single,)),
        labels=read_labels(data),
        is_open=read_text(data, "state") != "closed",
        is_pull=bool(read_object(data, "pull_request")),
        url=read_text(data, "html_url", "url"),
        updated_at=read_time(data, "updated_at"),
    )


def read_comment(data: Mapping[str, Any], source: str) -> Comment:
    """Read a comment as webhooks and the APIs of all three forges write it."""
    count = read_number(data, "id")
    if count is None:
        raise UnreadableError("the comment has no id")
    return Comment(
        id=count,
        body=read_body(data, "body"),
        author=require_user(data, "user", source),
        url=read_text(data, "html_url"),
        path=read_text(data, "path"),
        line=max(
            0, read_number(data, "line") or read_number(data, "position") or read_number(data, "original_position") or 0
        ),
        created_at=read_time(data, "created_at"),
    )


def read_commit(data: Mapping[str, Any]) -> Commit:
    """Read a commit as the APIs of all three forges write it."""
    sha, content = read_text(data, "sha"), read_object(data, "commit")
    if not sha:
        raise UnreadableError("the commit has no hash")
    return Commit(
        sha=sha,
        parents=tuple(read_text(parent, "sha") for parent in read_objects(data, "parents") or ()),
        message=read_body(content, "message"),
        address=read_text(read_object(content, "author"), "email"),
        authored_at=read_time(read_object(content, "author"), "date"),
    )


def read_change(data: Mapping[str, Any], kind: ChangeKind | None, actor: str, source: str) -> Change | None:
    """Read a change of an issue or pull request; None when its kind is of no interest. `actor` is a field's name."""
    if kind is None:
        return None
    by, who = (read_user(read_object(data, name), source) for name in (actor, "assignee"))
    return Change(what=kind, by=by, who=who, at=read_time(data, "created_at"))


def pick_newest(statuses: Iterable[tuple[Status, bool]]) -> tuple[Status, ...]:
    """Pick the newest status of each context from statuses, oldest first, each with whether a service wrote it.

    An agent's status never replaces a service's, and an agent's success counts as "other".
    """
    services: dict[str, Status] = {}
    agents: dict[str, Status] = {}
    for status, by_service in statuses:
        if by_service:
            services[status.context] = status
        else:
            outcome: CheckOutcome = "other" if status.outcome == "success" else status.outcome
            agents[status.context] = status.model_copy(update={"outcome": outcome})
    newest = agents | services
    return tuple(newest[context] for context in sorted(newest))
