"""Fields of what a forge sends, read with care: anything may be missing, null or of another type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from agenttalk.contracts.core.base import MAX_INTEGER
from agenttalk.contracts.errors import Code, InputError
from agenttalk.contracts.forge import (
    Comment,
    Commit,
    ForgeEvent,
    ForgeUser,
    Issue,
    Outcome,
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


def part(data: object, name: str) -> Mapping[str, Any]:
    """An object in an object; empty when there is none."""
    value = data.get(name) if isinstance(data, dict) else None
    return value if isinstance(value, dict) else {}


def parts(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]] | None:
    """The objects of a list; None when there is no list."""
    value = data.get(name)
    if not isinstance(value, list):
        return None
    found: list[Mapping[str, Any]] = [each for each in value if isinstance(each, dict)]
    return found[:MOST_ITEMS]


def every(data: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """All objects of a list, however long it is; raises UnreadableError when there is no list."""
    value = data.get(name)
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise UnreadableError(f"there is no list {name!r}")
    return value


def text(data: Mapping[str, Any], *names: str, longest: int = LONGEST_NAME) -> str:
    """The first text among some fields. NUL, which no database takes, is replaced."""
    for name in names:
        value = data.get(name)
        if isinstance(value, str) and value:
            return value[:longest].replace("\0", "\ufffd")
    return ""


def body(data: Mapping[str, Any], name: str) -> str:
    """A long text."""
    return text(data, name, longest=LONGEST_TEXT)


def number(data: Mapping[str, Any], name: str, *, least: int = 0) -> int | None:
    """A whole number of a sane size."""
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MAX_INTEGER:
        return None
    return value


def flag(data: Mapping[str, Any], name: str) -> bool:
    """Whether a field is true, and not merely something."""
    return data.get(name) is True


def moment(data: Mapping[str, Any], *names: str) -> str:
    """A time in UTC, so that texts compare as times do; empty when there is none."""
    for name in names:
        value = data.get(name)
        if not isinstance(value, str) or value.startswith("0001-"):
            continue
        try:
            read = datetime.fromisoformat(value)
        except ValueError:
            continue
        if read.tzinfo is not None:
            return read.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return ""


def user(data: Mapping[str, Any], source: str) -> ForgeUser | None:
    """An account; None when it has no name."""
    login = text(data, "login", "username", longest=255)
    if not login:
        return None
    return ForgeUser(source=source, login=login, id=number(data, "id", least=-MAX_INTEGER))


def needed_user(data: Mapping[str, Any], name: str, source: str) -> ForgeUser:
    """An account that must be there."""
    found = user(part(data, name), source)
    if found is None:
        raise UnreadableError(f"{name!r} names no account")
    return found


def users(data: Mapping[str, Any], name: str, source: str) -> tuple[ForgeUser, ...] | None:
    """The accounts of a list; None when there is no list."""
    found = parts(data, name)
    if found is None:
        return None
    return tuple(each for each in (user(item, source) for item in found) if each is not None)


def labels(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of labels."""
    return tuple(name for name in (text(each, "name") for each in parts(data, "labels") or ()) if name)


def repository(data: Mapping[str, Any]) -> Repository:
    """The repository, which every event has."""
    name = text(data, "full_name") or f"{text(part(data, 'owner'), 'login', 'name')}/{text(data, 'name')}"
    if name.count("/") != 1 or not all(name.split("/")):
        raise UnreadableError("the repository has no full name")
    return Repository(
        full_name=name,
        url=text(data, "html_url"),
        default_branch=text(data, "default_branch"),
        id=number(data, "id"),
    )


def whole(address: str, base: str) -> str:
    """An address with that of the forge before it, where only a path is given: so Gitea writes those of its Actions."""
    if not address.startswith("/") or address.startswith("//"):
        return address
    where = urlsplit(base)
    return f"{where.scheme}://{where.netloc}{address}"


def made_whole(event: ForgeEvent, base: str) -> ForgeEvent:
    """An event whose log has a whole address."""
    for name in ("status", "run", "deployment"):
        ran = getattr(event, name)
        if ran is not None and ran.url != (address := whole(ran.url, base)):
            return event.model_copy(update={name: ran.model_copy(update={"url": address})})
    return event


def is_wip(title: str) -> bool:
    """Whether a title is that of a draft."""
    return title.strip().lower().startswith(WIP)


def pull_request(
    data: Mapping[str, Any], source: str, *, wip_titles: bool, outer: Mapping[str, Any] | None = None
) -> PullRequest:
    """A pull request as webhooks and the API of all three forges write it; `outer` may have its number, too."""
    head, base = part(data, "head"), part(data, "base")
    count = number(data, "number", least=1) or number(outer or {}, "number", least=1)
    if count is None:
        raise UnreadableError("the pull request has no number")
    title = text(data, "title", longest=LONGEST_TEXT)
    added, removed = number(data, "additions"), number(data, "deletions")
    return PullRequest(
        number=count,
        title=title,
        body=body(data, "body"),
        author=needed_user(data, "user", source),
        is_open=text(data, "state") != "closed",
        draft=flag(data, "draft") or (wip_titles and is_wip(title)),
        merged=flag(data, "merged") or bool(moment(data, "merged_at")),
        merged_by=user(part(data, "merged_by"), source),
        merged_at=moment(data, "merged_at"),
        merge_sha=text(data, "merge_commit_sha"),
        head_sha=text(head, "sha"),
        head_ref=text(head, "ref"),
        base_ref=text(base, "ref"),
        base_sha=text(data, "merge_base") or text(base, "sha"),
        fork=_is_fork(head, base),
        requested_reviewers=users(data, "requested_reviewers", source),
        labels=labels(data),
        url=text(data, "html_url", "url"),
        lines=None if added is None or removed is None else added + removed,
        files=number(data, "changed_files"),
        mergeable=data["mergeable"] if isinstance(data.get("mergeable"), bool) else None,
        created_at=moment(data, "created_at"),
        updated_at=moment(data, "updated_at"),
    )


def _is_fork(head: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    """Whether the head lies in another repository, or in one that nobody can name any more."""
    left, right = (number(each, "repo_id", least=-1) or number(part(each, "repo"), "id") for each in (head, base))
    if left is not None and right is not None:
        return left != right
    return not part(head, "repo") or text(part(head, "repo"), "full_name") != text(part(base, "repo"), "full_name")


def issue(data: Mapping[str, Any], source: str) -> Issue:
    """An issue as webhooks and the API of all three forges write it."""
    count = number(data, "number", least=1)
    if count is None:
        raise UnreadableError("the issue has no number")
    single = user(part(data, "assignee"), source)
    return Issue(
        number=count,
        title=text(data, "title", longest=LONGEST_TEXT),
        body=body(data, "body"),
        author=needed_user(data, "user", source),
        assignees=users(data, "assignees", source) or (() if single is None else (single,)),
        labels=labels(data),
        is_open=text(data, "state") != "closed",
        is_pull=bool(part(data, "pull_request")),
        url=text(data, "html_url", "url"),
        updated_at=moment(data, "updated_at"),
    )


def comment(data: Mapping[str, Any], source: str) -> Comment:
    """A comment as webhooks and the API of all three forges write it."""
    count = number(data, "id")
    if count is None:
        raise UnreadableError("the comment has no id")
    return Comment(
        id=count,
        body=body(data, "body"),
        author=needed_user(data, "user", source),
        url=text(data, "html_url"),
        path=text(data, "path"),
        line=max(0, number(data, "line") or number(data, "position") or number(data, "original_position") or 0),
        created_at=moment(data, "created_at"),
    )


def commit(data: Mapping[str, Any]) -> Commit:
    """A commit as the APIs of all three forges write it."""
    sha, words = text(data, "sha"), part(data, "commit")
    if not sha:
        raise UnreadableError("the commit has no number")
    return Commit(
        sha=sha,
        parents=tuple(text(each, "sha") for each in parts(data, "parents") or ()),
        message=body(words, "message"),
        address=text(part(words, "author"), "email"),
        authored_at=moment(part(words, "author"), "date"),
    )


def newest(statuses: Iterable[tuple[Status, bool]]) -> tuple[Status, ...]:
    """The newest status of each context, from all of them, the oldest first; each with whether a service wrote it.

    What a service says is not overwritten by what an agent says, and an agent's word alone is no success.
    """
    found: dict[str, tuple[Status, bool]] = {}
    for status, by_service in statuses:
        known = found.get(status.context)
        if by_service:
            found[status.context] = (status, True)
        elif known is None or not known[1]:
            outcome: Outcome = "other" if status.outcome == "success" else status.outcome
            found[status.context] = (status.model_copy(update={"outcome": outcome}), False)
    return tuple(found[name][0] for name in sorted(found))
