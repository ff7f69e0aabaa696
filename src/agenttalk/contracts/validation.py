"""Judgements: feedback on inputs, results of gates and reviews, decisions, the release manifest."""

from typing import Any, Literal

from pydantic import model_validator

from agenttalk.contracts.core.base import (
    AgentIdText,
    Count,
    Document,
    IdText,
    Instant,
    Many,
    Part,
    PlanIdText,
    Score,
    Sha256,
    TaskIdText,
    Text,
)

IssueSeverity = Literal["HIGH", "MEDIUM", "LOW"]
GateDecision = Literal["PASS", "REJECT"]


class Issue(Part):
    """One thing that is wrong with an artifact. A bare text is read as the description of a MEDIUM issue.

    Without a description, the issue's message is used, else the text of its other fields.
    """

    severity: IssueSeverity = "MEDIUM"
    """Its severity."""
    category: str | None = None
    """E.g. COMPLETENESS, CLARITY, CORRECTNESS."""
    description: Text
    """What is wrong."""
    description_message: dict[str, Any] | None = None
    """The description as a message of AgentTalk, `{"id": …, "params": …}`, if it is one: to show it in Chinese."""
    location: str | None = None
    """Where it is."""
    suggestion: str | None = None
    """How to fix it."""

    @model_validator(mode="before")
    @classmethod
    def _described(cls, data: object) -> object:
        if isinstance(data, str):
            return {"description": data}
        if not isinstance(data, dict) or not data or data.get("description") is not None:
            return data  # an issue without any text is dropped
        said = (data.get(name) for name in ("message", "suggestion", "location", "category"))
        found = next((text for text in said if isinstance(text, str) and text.strip()), None)
        return {**data, "description": found or "not described"}


class Expectations(Part):
    """What the next version should contain."""

    additions: Many[str] = ()
    """What to add."""
    modifications: Many[str] = ()
    """What to change."""


class ValidationFeedback(Document):
    """A consumer's judgement of an input, before it uses it."""

    validator: AgentIdText
    """The agent that judges."""
    original_agent: AgentIdText
    """The agent that made the artifact."""
    original_task_id: TaskIdText
    """The task that made it."""
    validation_time: Instant
    """When it was judged."""
    score: Score
    """0 to 100."""
    decision: Literal["ACCEPT", "REJECT"]
    """Whether it may be used."""
    reason: Text
    """Why, in one sentence."""
    issues: Many[Issue] = ()
    """Each thing that is wrong."""
    expectations: Expectations | None = None
    """What the next version should contain."""
    prompt: Text | None = None
    """The validator's instructions for the maker, in its own words."""


class ArtifactSubject(Part):
    """Which artifact a judgement is about."""

    producer_agent_id: AgentIdText
    """Who made it."""
    task_id: TaskIdText
    """The task that made it."""
    artifact_name: Text
    """Name of the output."""
    artifact_sha256: Sha256
    """Hash of its bytes."""


class NextAction(Part):
    """What a validator proposes to do next."""

    type: Text
    """E.g. REEXECUTE or ARCHIVE."""
    target_agent_id: AgentIdText | None = None
    """The agent that would do it."""
    prompt: str | None = None
    """The instructions for that agent."""


class ArtifactValidationResult(Document):
    """A validator's result for an artifact; decides whether it is archived."""

    validation_id: IdText
    """Its id."""
    validator_agent_id: AgentIdText
    """Who judged."""
    validated_at: Instant
    """When."""
    subject: ArtifactSubject
    """What was judged."""
    score: Score | None = None
    """0 to 100."""
    decision: GateDecision
    """PASS or REJECT."""
    criteria: dict[str, Any] = {}
    """The criteria of the score."""
    evidence: dict[str, Any] = {}
    """The evidence."""
    issues: Many[Issue] = ()
    """Each thing that is wrong."""
    next_action: NextAction | None = None
    """What the validator proposes."""


class GateSubject(Part):
    """What a release gate was run on."""

    sha256: Sha256
    """Hash of the artifact to be shipped."""


class ReleaseGateResult(Document):
    """The result of one release gate."""

    plan_id: PlanIdText | None = None
    """The plan it belongs to."""
    gate: str | None = None
    """The gate: build, deploy, smoke, e2e or security. Default: the one in its file name."""
    decision: GateDecision
    """PASS or REJECT."""
    score: Score | None = None
    """0 to 100."""
    subject: GateSubject
    """What it was run on."""
    evidence: dict[str, Any] = {}
    """The evidence."""
    produced_by: Text
    """The check or validator that made it."""
    produced_at: Instant | None = None
    """When."""

    @classmethod
    def lift(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Require the validator and the hash of the artifact: a result without a hash proves nothing."""
        subject = data.get("subject")
        if isinstance(subject, dict) and "sha256" not in subject and "artifact_sha256" in subject:
            data = {**data, "subject": {**subject, "sha256": subject["artifact_sha256"]}}
        for name, other in (("produced_by", "validator_agent_id"), ("produced_at", "validated_at")):
            if data.get(name) is None and data.get(other) is not None:
                data = {**data, name: data[other]}
        return data


class ReviewedDag(Part):
    """Which DAG a review is about."""

    file_name: Text
    """Its file."""
    sha256: Sha256
    """Hash of its bytes."""


class DagReviewResult(Document):
    """A reviewer's judgement of a plan's DAG."""

    review_id: IdText
    """Its id."""
    reviewer_agent_id: AgentIdText
    """Who judged."""
    dag: ReviewedDag
    """What was judged."""
    score: Score
    """0 to 100."""
    decision: Literal["APPROVE", "REVISE", "REJECT"]
    """What the reviewer asks for."""
    criteria_version: str | None = None
    """Which criteria were used."""
    score_breakdown: Many[dict[str, Any]] = ()
    """Parts of the score."""
    issues: Many[Issue] = ()
    """Each thing that is wrong."""


class DecisionSubject(Part):
    """What a decision is about."""

    kind: Text
    """E.g. task_dag or release."""
    ref_sha256: Sha256
    """Hash of it."""


class DecisionRecord(Document):
    """A decision, who made it and on what."""

    plan_id: PlanIdText | None = None
    """The plan it belongs to."""
    decision_id: IdText
    """Its id."""
    decision_type: Text
    """DAG_REVIEW, RELEASE and others."""
    decision: Text
    """What was decided, e.g. APPROVE."""
    decided_by_agent_id: AgentIdText
    """Who decided."""
    decided_at: Instant | None = None
    """When."""
    subject: DecisionSubject
    """What it is about."""
    missing_participants: Many[str] = ()
    """Reviewers that did not take part."""
    evidence_files: Many[str] = ()
    """The evidence of the decision."""
    reasons: Many[str] = ()
    """The reasons."""
    not_isolated: Count | None = None
    """Of a release: how many tasks of the plan depend on something that ran without a sandbox."""


class NamedHash(Part):
    """A thing with a name and a hash."""

    name: Text
    """Its name."""
    sha256: Sha256
    """Hash of its bytes."""


class ShippedArtifact(NamedHash):
    """A shipped file, and its origin."""

    task_id: TaskIdText | None = None
    """The task that made it."""
    producer_agent_id: AgentIdText | None = None
    """The agent that made it."""
    promise_id: str | None = None
    """The promise that its task fulfilled."""
    isolated: bool | None = None
    """Whether its agent and the checks of its work ran in a sandbox."""


class ReleaseManifest(Document):
    """A release, or the reasons against it."""

    plan_id: PlanIdText | None = None
    """The plan it belongs to."""
    release_id: IdText
    """Its id."""
    artifacts: Many[ShippedArtifact]
    """What is shipped."""
    commit: str | None = None
    """The tip of the plan's branch at the decision, if the plan works on a repository."""
    decided_at: Instant | None = None
    """When it was decided."""
    revoked_at: Instant | None = None
    """When an approval was revoked."""
    not_isolated: Count | None = None
    """How many tasks of the plan ran without a sandbox: their agent, or a check."""
    evidence_required: Many[str]
    """Gates that had to pass."""
    evidence_refs: Many[NamedHash]
    """Their results."""
    decision: Literal["APPROVE", "REJECT"]
    """What was decided."""
    reasons: Many[str] = ()
    """Why."""
