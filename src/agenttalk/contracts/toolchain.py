"""Tasks that forge events call for."""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field

from agenttalk.contracts.core.base import AgentIdText, Count, Document, Many, Part, Text

ActionType = Literal[
    "review_request",
    "review_result",
    "review_comment",
    "review_updated",
    "ci_failure",
    "merge_conflict",
    "issue_assigned",
    "deploy_failure",
    "mention",
    "review_merged",
    "infrastructure_failure",
]
ACTION_TYPES: Final[tuple[ActionType, ...]] = get_args(ActionType)
NOTICES: Final[frozenset[ActionType]] = frozenset({"review_merged"})
"""Delivered and done without a run."""
NOT_DONE: Final = "toolchain.not_done"
"""The kind of effect by which a turn that did not do it reaches whoever has to know."""
Intent = Literal["question", "request", "fyi"]
Basis = Literal["requested", "default", "earlier"]


class MustHaves(Part):
    """What a toolchain task carries for its agent: numbered steps and the facts of the event."""

    event_type: ActionType
    """What happened, as prompts choose their words by it."""
    action_type: ActionType
    """What is to be done about it."""
    steps: Many[Text]
    """What to do, one after the other. Empty only for a notice."""
    context: dict[str, Any] = Field(default_factory=dict)
    """The facts, by name."""
    sender: Annotated[Text, Field(alias="from")] = "system"
    """Who asks for it."""
    source: Text = "webhook"
    """By which way it came in."""


class ProposedTask(Part):
    """A task that follows from an event. It has no id yet: whoever stores it gives one, once per key."""

    key: Text
    """What it is about. Of two tasks with one key only the first is made."""
    action_type: ActionType
    """What is to be done."""
    assignee: AgentIdText
    """By whom."""
    source: Text
    """The configured source of the event."""
    object: Text
    """The pull request, issue or commit it belongs to."""
    context: dict[str, Any] = Field(default_factory=dict)
    """The facts, by name."""
    head_sha: str = ""
    """The commit it is about."""
    basis: Basis = "requested"
    """Why this agent: asked by name, as the configured default, or because it reviewed before."""
    hop: Count = 0
    """How many answers of agents to agents lie before it."""
    at: str = ""
    """When the event happened."""
    replaces: Many[Text] = ()
    """Keys of tasks that have not begun and are not to begin any more."""
    reviewer: str = ""
    """The account whose review it answers, as keys name it."""


class PipelineResult(Document):
    """What a pipeline without a webhook reports (`POST /api/toolchain/events`)."""

    kind: Literal["ci", "deploy"]
    """What was tried."""
    repository: Text
    """`owner/name`."""
    sha: Text
    """The commit."""
    outcome: Literal["success", "failure"]
    """What came of it."""
    name: Text
    """What was run: the job, or where it was deployed to."""
    description: str = ""
    """What happened, in words."""
    url: str = ""
    """Where to read more."""
