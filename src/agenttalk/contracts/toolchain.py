"""Tasks that forge events create."""

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
"""Action types of tasks that are delivered and done without a run."""
NOT_DONE: Final = "toolchain.not_done"
"""The kind of effect that reports a failed turn to the responsible person."""
Intent = Literal["question", "request", "fyi"]
Basis = Literal["requested", "default", "earlier"]


class MustHaves(Part):
    """The content of a toolchain task for its agent: numbered steps and the facts of the event."""

    event_type: ActionType
    """The kind of event, which selects the wording of the prompt."""
    action_type: ActionType
    """The action."""
    steps: Many[Text]
    """The steps, in order. Empty only for a notice."""
    context: dict[str, Any] = Field(default_factory=dict)
    """The facts, by name."""
    sender: Annotated[Text, Field(alias="from")] = "system"
    """Who requested it."""
    source: Text = "webhook"
    """How the event arrived."""


class ProposedTask(Part):
    """A task that an event creates. It gets an id when it is stored, once per key."""

    key: Text
    """Its subject. Of two tasks with the same key, only the first is created."""
    action_type: ActionType
    """The action."""
    assignee: AgentIdText
    """The agent."""
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
    """How many answers of agents to agents came before it."""
    at: str = ""
    """When the event happened."""
    replaces: Many[Text] = ()
    """Keys of tasks that have not started and must not start any more."""
    reviewer: str = ""
    """The account whose review it answers, as in keys."""


class PipelineResult(Document):
    """The report of a pipeline without a webhook (`POST /api/toolchain/events`)."""

    kind: Literal["ci", "deploy"]
    """The kind of run."""
    repository: Text
    """`owner/name`."""
    sha: Text
    """The commit."""
    outcome: Literal["success", "failure"]
    """The result."""
    name: Text
    """The job, or the environment of a deployment."""
    description: str = ""
    """A description."""
    url: str = ""
    """A page with details."""
