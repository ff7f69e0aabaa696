"""Tracks renamed repositories and accounts: forges let people rename both, and only their numbers stay.

Tasks of a repository are stored under the first name that was seen. An event with a new name finds the same tasks. A
name that now belongs to another repository does not lead to the tasks of the old one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agenttalk.contracts.core import wire
from agenttalk.contracts.forge import ForgeEvent, ForgeUser, Repository
from agenttalk.ports.statements.toolchain import PUT_SIGHTING, SIGHTING
from agenttalk.ports.storage import Snapshot, Tx
from agenttalk.rules.toolchain import dedup_keys
from agenttalk.rules.toolchain.accounts import ForgeRegistry


def resolve_repository_name(tx: Tx, event: ForgeEvent) -> ForgeEvent:
    """Give an event the name under which the tasks of its repository are stored. Writes nothing."""
    known_as, _ = _find_stored_name(tx, event.source, event.repository)
    if known_as == event.repository.full_name.lower():
        return event
    return event.model_copy(update={"repository": event.repository.model_copy(update={"known_as": known_as})})


def find_stored_name(tx: Snapshot, source: str, repository: Repository) -> str:
    """Find the name under which the tasks of a repository are stored. Empty if it is the repository's own name."""
    stored, _ = _find_stored_name(tx, source, repository)
    return "" if stored == repository.full_name.lower() else stored


def remember_names(tx: Tx, event: ForgeEvent, registry: ForgeRegistry) -> None:
    """Remember the names of repository and accounts in an event, if they are new."""
    repository = event.repository
    stored, news = _find_stored_name(tx, event.source, repository)
    if news and repository.id is not None:
        name = repository.full_name
        _write(tx, dedup_keys.repository(event.source, repository.id), {"known_as": stored, "name": name})
        _write(tx, dedup_keys.repository_named(event.source, name), {"id": repository.id})
        _write(tx, dedup_keys.repository_kept_as(event.source, stored), {"id": repository.id})
    ours = {each.id: each.login for each in registry.identities if each.source == event.source and each.id is not None}
    seen = {each.id: each.login for each in _users(event) if each.id in ours}
    before = _logins(tx, event.source)
    after = {number: login for number, login in {**before, **seen}.items() if number is not None}
    after = {number: login for number, login in after.items() if ours.get(number, login).lower() != login.lower()}
    if after != before:
        _write(tx, dedup_keys.accounts(event.source), {str(number): login for number, login in after.items()})


def is_repository_deleted(tx: Tx, event: ForgeEvent) -> bool:
    """Whether the repository of an event was deleted before it. A later event shows that the repository is back."""
    gone = read_sighting(tx, dedup_keys.repository_gone(event.source, event.repository.key))
    return bool(gone) and not event.first_hand and event.at <= str(gone["at"])


def note_deletion(tx: Tx, event: ForgeEvent, at: str) -> None:
    """Remember that a repository was deleted and by which account, or that it is back."""
    key = dedup_keys.repository_gone(event.source, event.repository.key)
    if event.name != "repository_deleted":
        if read_sighting(tx, key) and not is_repository_deleted(tx, event):
            _write(tx, key, {})
    elif not event.first_hand:
        _write(tx, key, {"at": at, "by": event.sender.login.lower() if event.sender else ""})


def is_repository_known(tx: Snapshot, source: str, name: str) -> bool:
    """Whether an event of the repository whose tasks are stored under a name was ever seen."""
    return bool(read_sighting(tx, dedup_keys.repository_kept_as(source, name)))


def apply_renames(tx: Tx, source: str, registry: ForgeRegistry) -> ForgeRegistry:
    """Return the registry with the names that accounts of a source have now."""
    return registry.with_names(source, _logins(tx, source))


def _find_stored_name(tx: Snapshot, source: str, repository: Repository) -> tuple[str, bool]:
    """Find the name under which tasks are stored, and whether the names of the repository have to be written."""
    name = repository.full_name.lower()
    named = read_sighting(tx, dedup_keys.repository_named(source, name))
    number = repository.id if repository.id is not None else named.get("id")
    if number is None:
        return name, False
    row = read_sighting(tx, dedup_keys.repository(source, number))
    if row:
        return str(row["known_as"]), row["name"] != repository.full_name or named.get("id") != number
    kept = read_sighting(tx, dedup_keys.repository_kept_as(source, name))
    return (f"{name}~{number}" if kept else name), True


def _logins(tx: Tx, source: str) -> dict[int, str]:
    return {int(number): login for number, login in read_sighting(tx, dedup_keys.accounts(source)).items()}


def _users(event: ForgeEvent) -> Iterator[ForgeUser]:
    pull, issue = event.pull_request, event.issue
    texts = (event.comment, event.review)
    single = (event.sender, event.requested_reviewer, event.assignee, *(each.author for each in texts if each))
    listed = (
        *((pull.author, *(pull.requested_reviewers or ())) if pull else ()),
        *((issue.author, *issue.assignees) if issue else ()),
    )
    yield from (each for each in (*single, *listed) if each is not None)


def read_sighting(tx: Snapshot, key: str) -> Mapping[str, Any]:
    """Read what is known of an object of a forge; empty if it was never seen."""
    for _, body in tx.run(SIGHTING, object=key):
        value: Any = wire.read(bytes(body))
        return value if isinstance(value, dict) else {}
    return {}


def _write(tx: Tx, key: str, value: Mapping[str, Any]) -> None:
    tx.run(PUT_SIGHTING, object=key, head="", body=wire.write(dict(value)))
