"""Who owes which review of a pull request.

One rule for all events: the newest sighting says who is asked for which head. What was asked before for an older
head, or of a reviewer who is not asked any more, and has not begun, gives way. So the order of events does not matter.
"""

from __future__ import annotations

from typing import Any, Final

from agenttalk.contracts.forge import ForgeUser, PullRequest, Sighting
from agenttalk.contracts.toolchain import ActionType, Basis
from agenttalk.rules.core import risk
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.toolchain import dedup_keys, generations, mention_tasks, sightings
from agenttalk.rules.toolchain.accounts import same_user
from agenttalk.rules.toolchain.proposal import DecisionDraft, KnownTask

_CALLS: Final = frozenset({"pull_request_opened", "pull_request_ready", "pull_request_synced", "review_requested"})


def settle_reviews(draft: DecisionDraft, sighting: Sighting, pull: PullRequest) -> None:
    """Bring the reviews that are asked for in line with the newest sighting of a pull request."""
    key = sightings.object_of(sighting)
    before = draft.tasks_of(key, "review_request", "review_updated")
    if not pull.is_open or pull.draft:
        why = toolchain_words.DELIVERY["draft"]() if pull.is_open else toolchain_words.DELIVERY["closed"]()
        for task in before:
            draft.withdraw(task, why)
        draft.notes.append(why)
        if _called(draft):
            draft.sightings.remember_owed(sighting)
        return
    open_before = any(task.state in {"waiting", "withdrawn"} for task in before)
    if not (_called(draft) or open_before or (sighting.owed and not before)):
        draft.notes.append(toolchain_words.DELIVERY["asks_nobody"]())
        return
    wanted = _wanted(draft, pull, before)
    for reviewer, basis in wanted:
        _ask(draft, key, pull, reviewer, basis, before)
    names = {draft.registry.agent_of(reviewer) for reviewer, _ in wanted}
    for task in before:
        if task.assignee not in names:
            draft.withdraw(task, "another reviewer is asked for the review")
        elif task.head_sha != pull.head_sha:
            draft.withdraw(task, "there is a newer head")


def _called(draft: DecisionDraft) -> bool:
    own = draft.event.pull_request
    return draft.event.name in _CALLS and own is not None and not own.draft


def _wanted(draft: DecisionDraft, pull: PullRequest, before: list[KnownTask]) -> list[tuple[ForgeUser, Basis]]:
    """Find who should review this head: requested and earlier reviewers, or the default, never the author.

    A reviewer who reviewed this very head owes nothing, and then the default owes nothing either. A remark is
    an agent's say; a stranger's is not.
    """
    asked = [each for each in pull.requested_reviewers or () if not same_user(each, pull.author)]
    wanted: list[tuple[ForgeUser, Basis]] = [(each, "requested") for each in asked]
    known = {draft.registry.agent_of(each) for each in asked}
    earlier = [task for task in before if task.state in {"begun", "ended"} or _unlisted(pull, task)]
    for task in earlier:
        account = draft.registry.account_of(pull.author.source, task.assignee)
        if account is not None and task.assignee not in known and not same_user(account, pull.author):
            known.add(task.assignee)
            wanted.append((account, "earlier"))
    for account in pull.reviewed_before:
        agent = draft.registry.agent_of(account)
        if agent is not None and agent not in known and not same_user(account, pull.author):
            known.add(agent)
            wanted.append((account, "earlier"))
    remarked = any(draft.registry.agent_of(each) for each in pull.remarked_by)
    if wanted or pull.reviewed_by or pull.reviewed_before or remarked:
        return wanted
    default = draft.registry.account_of(pull.author.source, draft.registry.default_reviewer)
    if default is None:
        draft.warn(draft.registry.default_reviewer or "the default reviewer", "review_request")
    elif same_user(default, pull.author):
        draft.notes.append(toolchain_words.DELIVERY["reviewer_is_author"]())
    else:
        wanted.append((default, "default"))
    return wanted


def _unlisted(pull: PullRequest, task: KnownTask) -> bool:
    """Whether a waiting task stays although the forge does not list its reviewer: it lists none, or never did."""
    return task.state == "waiting" and (
        task.basis == "earlier" or (task.basis == "requested" and pull.requested_reviewers is None)
    )


def _ask(
    draft: DecisionDraft, object_key: str, pull: PullRequest, reviewer: ForgeUser, basis: Basis, before: list[KnownTask]
) -> None:
    own = draft.event.pull_request
    mine = [task for task in before if task.assignee == draft.registry.agent_of(reviewer)]
    old = tuple(task.key for task in mine if task.state == "waiting" and task.head_sha != pull.head_sha)
    stale = own is not None and own.head_sha != pull.head_sha
    again = draft.event.name == "pull_request_synced" or stale or any(each.head_sha != pull.head_sha for each in mine)
    action: ActionType = "review_updated" if again else "review_request"
    asked_before = any(task.state in {"waiting", "withdrawn"} for task in mine)
    agent = draft.find_agent(reviewer, action, from_sender=asked_before)
    if agent is None:
        return
    context: dict[str, Any] = {"pr_author": pull.author.login, "branch": pull.head_ref, "base": pull.base_ref}
    context["risk_level"] = risk.assess_risk(None, lines=pull.lines, files=pull.files)
    if action == "review_updated":
        context |= {"new_sha": pull.head_sha, "reviewer": reviewer.login}
    elif pull.files is not None:
        context |= {"changed_files": pull.files}
    # A replaced reviewer gets a note; a reviewer of a newer head has one task instead of the other.
    gives_way = tuple(task.key for task in before if _gives_way(task, agent, basis))
    key = _key(draft, object_key, pull, reviewer, agent, mine)
    if _is_called(draft, reviewer):
        draft.call_again(object_key, key)
    hop = mention_tasks.round_of(draft, object_key)
    known = any(task.key == key for task in before)
    if known or mention_tasks.may_go_on(draft, object_key, hop, reviewer.login, reviews=True):
        names = (*old, *gives_way)
        draft.propose(action, agent, key, object_key, context, pull=pull, basis=basis, hop=hop, replaces=names)


def _is_called(draft: DecisionDraft, reviewer: ForgeUser) -> bool:
    return draft.event.name == "review_requested" and same_user(draft.event.requested_reviewer, reviewer)


def _key(
    draft: DecisionDraft, object_key: str, pull: PullRequest, reviewer: ForgeUser, agent: str, mine: list[KnownTask]
) -> str:
    """Make the key of a review of this head: a new one when a given review is requested again.

    A reviewer on the list of a forge may have reviewed already, so only a request by name counts. Who failed to
    review, and is asked again, owes it again, too.
    """
    key = dedup_keys.review_wanted(draft.event.source, draft.place, pull, agent)
    here = [task for task in mine if task.head_sha == pull.head_sha]
    if not _is_called(draft, reviewer):
        return here[-1].key if here else key
    freed = draft.sightings.freed_at(object_key, reviewer)
    if all(task.state == "ended" and not task.done_at for task in here):
        freed = draft.event.at
    return generations.key_of(draft, key, here, freed if draft.event.at >= freed else "")


def _gives_way(task: KnownTask, agent: str, basis: Basis) -> bool:
    return task.state == "waiting" and task.assignee != agent and basis == "requested" and task.basis == "default"
