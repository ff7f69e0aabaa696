"""Names in texts → tasks for those who are called; and the end of it when agents only answer each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.forge import ForgeEvent, ForgeIssue, ForgeUser
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.toolchain import dedup_keys
from agenttalk.rules.toolchain import mentions as texts
from agenttalk.rules.toolchain.accounts import ForgeRegistry, same_user
from agenttalk.rules.toolchain.proposal import DecisionDraft, KnownTask, cut_text

_SNIPPET: Final = 2_000
_TALK: Final = frozenset({"mention", "review_comment"})
_ROUNDS: Final = frozenset({"review_request", "review_updated", "review_result"})
MOST_NAMES: Final = 20
"""Names of one text that count; real texts do not call more."""


def is_our_own(event: ForgeEvent, registry: ForgeRegistry) -> bool:
    """Whether the engine wrote the comment or review. An issue that it opened still counts as work."""
    text = event.comment.body if event.comment else event.review.body if event.review else ""
    return _by_engine(event, registry, text)


def _by_engine(event: ForgeEvent, registry: ForgeRegistry, text: str) -> bool:
    """Whether the engine wrote a text. Its marker alone is not enough where its account is known."""
    marker = texts.read_marker(text)
    if marker is None or not marker.by_engine:
        return False
    account = registry.engines.get(event.source)
    return account is None or (event.sender is not None and event.sender.login.lower() == account.lower())


def is_escalation(draft: DecisionDraft, issue: ForgeIssue) -> bool:
    """Whether the engine opened an issue because something failed for good: that can be decided with words, too."""
    marker, account = texts.read_marker(issue.body), draft.registry.engines.get(draft.event.source)
    ours = account is not None and issue.author.login.lower() == account.lower()
    return ours and marker is not None and marker.by_engine


def round_of(draft: DecisionDraft, object_key: str) -> int:
    """Count how often agents have sent a pull request to each other. A person's comment resets the count.

    A verdict holds with any marker in its text, and what no agent has begun is not a round.
    """
    done = [each for each in draft.known.tasks if each.state in {"begun", "ended"} and each.action_type in _ROUNDS]
    called = [each for each in draft.known.tasks if each.action_type in _ROUNDS | _TALK]
    return _hop(draft, object_key, 0, [each for each in done if each.object == object_key], called)


def count_hops(draft: DecisionDraft, object_key: str, text: str) -> int:
    """Count the answers of agents to agents before a text. A person's comment resets the count, with any marker.

    An agent's own marker cannot lower it: what it was asked for at this place since a person last called an agent there
    counts, too. Beyond the limit all are the same.
    """
    marker = texts.read_marker(text)
    here = [each for each in draft.known.tasks if each.object == object_key and each.action_type in _TALK]
    agent = draft.registry.agent_of(draft.event.sender) if draft.event.sender else None
    mine = [each for each in here if each.assignee == agent]
    return _hop(draft, object_key, marker.hop if marker else 0, mine, here)


def _hop(
    draft: DecisionDraft, object_key: str, told: int, begun: Sequence[KnownTask], called: Sequence[KnownTask]
) -> int:
    """Return one more than the highest since a person called an agent at a thing; 0 for a person's own word."""
    sender = draft.event.sender
    if sender is None or draft.registry.agent_of(sender) is None:
        return 0
    anew = max((each.at for each in called if each.object == object_key and each.hop == 0), default="")
    most = max(draft.registry.hops, 2 * draft.registry.rounds)
    return min(max([told, *(each.hop for each in begun if each.at >= anew)]), most) + 1


def may_go_on(draft: DecisionDraft, object_key: str, hop: int, login: str, *, reviews: bool = False) -> bool:
    """Whether an agent may still be called; else a person is asked. Rounds of a review may take longer than talk."""
    if hop <= (2 * draft.registry.rounds if reviews else draft.registry.hops):
        return True
    text = f"agents have answered each other {hop} times at {object_key}; {login} is not called again"
    hint = "read the discussion and decide; a person's comment resets the count"
    draft.warnings.append(Problem(Code.FORGE_HOPS_EXCEEDED, object_key, text, hint))
    return False


def may_call(draft: DecisionDraft, user: ForgeUser | None) -> bool:
    """Whether an account's words are work for agents: an agent's own, one that is listed, or one with write access.

    Where write access is unknown, other accounts cannot call.
    """
    if user is None:
        return False
    known = draft.registry.agent_of(user) is not None or draft.registry.may_call(user)
    return known or (same_user(user, draft.event.sender) and draft.event.writer is True)


def asks_for_rights(event: ForgeEvent, registry: ForgeRegistry) -> bool:
    """Whether it matters for an event if its sender may write: it calls an agent, and the settings do not say."""
    sender = event.sender
    if sender is None or event.writer is not None or registry.agent_of(sender) is not None or registry.may_call(sender):
        return False
    if not (registry.covers(event.repository.full_name) or event.repository.known_as):
        return False
    said = [each.body for each in (event.comment, event.review, event.issue, event.pull_request) if each is not None]
    return event.review is not None or any("@" in text for text in said)


def describe_missing_right(draft: DecisionDraft, user: ForgeUser | None) -> str:
    """Return why an account cannot call agents, and what an operator can do about it."""
    name = user.login if user else toolchain_words.DELIVERY["unknown_account"]()
    about = {"name": name, "repository": draft.repository, "source": draft.event.source}
    if draft.event.writer is None:
        return toolchain_words.DELIVERY["may_not_call_unsure"](**about)
    return toolchain_words.DELIVERY["may_not_call"](**about)


def propose_mention_tasks(
    draft: DecisionDraft, object_key: str, place: str, text: str, *, source_type: str, skip: tuple[ForgeUser, ...] = ()
) -> None:
    """Propose a task for every agent that a text names, except its writer and agents that have one already."""
    event = draft.event
    if _by_engine(event, draft.registry, text):
        return
    edited = event.name in {"comment_edited", "pull_request_edited", "issue_edited"}
    called = texts.find_added_names(event.body_before, text) if edited else texts.find_names(text)
    found = [(name, draft.registry.find_identity(event.source, name)) for name in called[:MOST_NAMES]]
    known = [(name, identity) for name, identity in found if identity is not None]
    if not known:
        return
    if not may_call(draft, event.sender):
        draft.notes.append(describe_missing_right(draft, event.sender))
        return
    intent = texts.detect_intent(text)
    depth = count_hops(draft, object_key, text)
    for name, identity in known:
        account = ForgeUser(source=event.source, login=identity.login, id=identity.id)
        if same_user(account, event.sender) or any(same_user(account, each) for each in skip):
            draft.notes.append(toolchain_words.DELIVERY["involved"](name=name))
        elif may_go_on(draft, object_key, depth, name):
            key = dedup_keys.mention(event, place, identity.agent)
            context = _context(event, text, source_type, intent)
            draft.propose("mention", identity.agent, key, object_key, context, hop=depth)


def _context(event: ForgeEvent, text: str, source_type: str, intent: str) -> dict[str, object]:
    thing = event.pull_request or event.issue
    urls = [each.url for each in (event.comment, event.pull_request, event.issue) if each is not None and each.url]
    return {
        "source_type": source_type,
        "source_url": urls[0] if urls else "",
        "commenter": event.sender.login if event.sender else "",
        "content_snippet": cut_text(text, _SNIPPET),
        "intent_hint": intent,
        "number": thing.number if thing else 0,
        "title": cut_text(thing.title, 300) if thing else "",
        "fork": event.pull_request.fork if event.pull_request else False,
    }
