"""The task DAG: who does what after whom, from which inputs, and where outputs go."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from agenttalk.contracts.command import Notice, Priority, ValidationCriteria
from agenttalk.contracts.core import quick_validation, wire
from agenttalk.contracts.core.base import (
    ID_PATTERN,
    AgentId,
    AgentIdText,
    Count,
    Document,
    InputPattern,
    Many,
    Number,
    Part,
    PlanIdText,
    Positive,
    Sha256,
    TaskIdText,
    Text,
    Version,
    is_id,
)
from agenttalk.contracts.errors import Code
from agenttalk.contracts.promise import CompletionPromise

CONDITION_PATTERN: Final = r"^\s*score\s*(<=|>=|==|!=|<|>)\s*([0-9]+(\.[0-9]+)?)\s*$"
_CONDITION = re.compile(CONDITION_PATTERN.replace("$", r"\Z"))

PickPolicy = Literal["latest_by_delivered_at", "first_seen", "by_sha256", "highest_score", "all"]
VersioningMode = Literal[
    "immutable_by_message_id", "keep_latest", "reject_on_change", "overwrite_by_name", "semver_tagged"
]
ConflictPolicy = Literal["accept_duplicate_if_same_hash", "deadletter_on_change"]
DependencyFailure = Literal["SKIP", "BLOCK", "REPLAN_REQUEST", "FALLBACK"]
EVERYONE: Final = "*"


def _check_condition(text: str) -> str:
    if not _CONDITION.match(text):
        raise PydanticCustomError(
            Code.FIELD_VALUE,
            "a condition compares the score with a number, e.g. 'score < 70'; this is {text}",
            {"text": repr(text[:60])},
        )
    return text


def _check_receiver(text: str) -> str:
    if text != EVERYONE and not is_id(text):
        raise PydanticCustomError(Code.ID_INVALID, "neither an agent nor '*': {text}", {"text": repr(text[:140])})
    return text


quick_validation.register_plain(_check_receiver, ID_PATTERN, 128)

ScoreCondition = Annotated[
    str, AfterValidator(_check_condition), WithJsonSchema({"type": "string", "pattern": CONDITION_PATTERN})
]
"""A comparison of the task's score with a number."""
Receiver = Annotated[
    AgentId,
    AfterValidator(_check_receiver),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": ID_PATTERN, "maxLength": 128}, {"const": EVERYONE}]}),
]
"""An agent, or `*` for every agent of the plan."""


class ByValue(Part):
    """Selects by one value."""

    type: Literal["by_file_name", "by_glob", "by_output_name"]
    """What the value is compared with."""
    value: InputPattern
    """File name, glob or name of an output."""
    allowed_hashes: Many[Sha256] | None = None
    """Hashes that `pick_policy: by_sha256` chooses from."""


class ByMessageType(Part):
    """Selects by the type and subtype of the message."""

    type: Literal["by_message_type"]
    """Always `by_message_type`."""
    type_value: Text
    """Type of the message."""
    subtype_value: str | None = None
    """Its subtype."""
    allowed_hashes: Many[Sha256] | None = None
    """Hashes that `pick_policy: by_sha256` chooses from."""


Selector = Annotated[ByValue | ByMessageType, Field(discriminator="type")]


class Input(Part):
    """Something that a task needs."""

    name: Text
    """Name of the input inside the task."""
    selector: Selector
    """What fills it."""
    required: bool = True
    """Whether the task can run without it."""
    pick_policy: PickPolicy | None = None
    """Which one is taken when several match; globs take all by default, the others the latest."""
    min_count: Positive | None = None
    """Fewest matches."""
    external: bool = False
    """Whether it comes from a person or from outside."""
    validation_criteria: ValidationCriteria | None = None
    """What it must meet before it is used."""

    @property
    def policy(self) -> PickPolicy:
        """The pick policy in force."""
        if self.pick_policy is not None:
            return self.pick_policy
        return "all" if self.selector.type == "by_glob" else "latest_by_delivered_at"


class Versioning(Part):
    """What happens to a second version of an output within one command."""

    mode: VersioningMode = "reject_on_change"
    """How versions are kept."""
    conflict_policy: ConflictPolicy = "deadletter_on_change"
    """What happens to one that differs."""
    tag: str | None = None
    """Tag for `semver_tagged`, also matched by routing rules."""


class Output(Part):
    """Something that a task makes."""

    name: Text
    """Name of the output."""
    deliver_to: Many[Receiver] = ()
    """Agents that receive it; empty means by the routing rules."""
    content_type: str | None = None
    """Media type."""
    deliverable: bool = False
    """Whether it is a result of the whole plan."""
    when: ScoreCondition | None = None
    """It is made only when the score meets this."""
    optional: bool = False
    """Whether it may be missing."""
    idempotency_key: str | None = None
    """For people and audit; versions are compared under it."""
    versioning: Versioning = Versioning.model_construct()
    """What happens to a second version."""


class FailurePolicy(Part):
    """What a task does when something it depends on has failed."""

    on_dependency_failed: DependencyFailure = "BLOCK"
    """Skip, block, ask for a new plan, or let another task take the failed one's place."""
    max_reexecute_times: Count | None = None
    """Rounds of rework; by default the plan's."""
    reexecute_target_agent_id: AgentIdText | None = None
    """Who does the rework; by default the task's own agent."""
    fallback_task_id: TaskIdText | None = None
    """Which task takes its place."""


class Branch(Part):
    """Tasks that run only for certain scores."""

    when: ScoreCondition
    """Condition on this task's score."""
    activate: Annotated[Many[TaskIdText], Field(min_length=1)]
    """Tasks that then run."""


class Gates(Part):
    """What must be met before a task counts as completed."""

    required: bool = False
    """Whether the gate must be met."""
    evidence_required: Many[str] = ()
    """Documents that must be there."""
    thresholds: dict[str, Number] = {}
    """`<task_id>_min_score` → lowest score."""
    branches: Many[Branch] = ()
    """Where the score leads."""


class Node(Part):
    """One task of the DAG."""

    task_id: TaskIdText
    """Its id."""
    name: str | None = None
    """Its name, for people."""
    assigned_agent_id: AgentIdText
    """The only agent that receives its commands."""
    depends_on: Many[TaskIdText] = ()
    """Tasks that come before it."""
    inputs: Many[Input] = ()
    """What it needs."""
    required_inputs: Many[InputPattern] = ()
    """The older way to say what it needs; ignored where `inputs` is given."""
    outputs: Many[Output] = ()
    """What it makes."""
    failure_policy: FailurePolicy | None = None
    """What it does when a dependency has failed."""
    gates: Gates | None = None
    """What must be met before it counts as completed."""
    prompt: str | None = None
    """What to do."""
    validation_criteria: ValidationCriteria | None = None
    """What its inputs must meet."""
    promise: CompletionPromise | None = None
    """What done means for it."""
    timeout: Positive | None = None
    """Limit in seconds."""
    score_required: bool | None = None
    """Whether its result carries a score."""
    score_criteria: str | None = None
    """What the score measures."""
    retry_times: Count | None = None
    """Retries after a crash or timeout; by default none."""
    priority: Priority | None = None
    """HIGH before MEDIUM before LOW; by default MEDIUM."""
    on_complete: Notice | None = None
    """Local notice when it is done."""
    on_failure: Notice | None = None
    """Local notice when it has failed."""
    workspace: Literal["repo"] | None = None
    """Where it works: `repo` is a private clone of the plan's repository; by default an empty folder of its own."""

    @property
    def needs(self) -> tuple[Input, ...]:
        """What it needs, also where that is said in the older way."""
        return self.inputs or tuple(Input.read(_input_of(name)) for name in self.required_inputs)


class RoutingMatch(Part):
    """Which outputs a routing rule is for; all that is given must match."""

    output_name: str | None = None
    """Name of the output."""
    content_type: str | None = None
    """Its media type."""
    tag: str | None = None
    """Its version tag."""


class RoutingRule(Part):
    """Where outputs go that name no receiver."""

    match: RoutingMatch
    """Which outputs."""
    deliver_to: Many[Receiver]
    """Who receives them."""


class TaskDag(Document):
    """A plan's tasks and how they hang together (`task_dag.json`)."""

    schema_version: Version = "1.1"
    """1.1; a 1.0 is lifted when it is read."""
    plan_id: PlanIdText
    """The plan."""
    nodes: Many[Node]
    """The tasks."""
    routing_rules: Many[RoutingRule] = ()
    """Where outputs go that name no receiver; the first match wins."""

    @classmethod
    def read(cls, data: object) -> Self:
        """Read from JSON values, however many nodes there are."""
        return quick_validation.validate_quickly(cls, data, "nodes") or super().read(data)

    @classmethod
    def lift(cls, data: dict[str, Any]) -> dict[str, Any]:
        """A 1.0 DAG says what a task needs as a list of file names, and may name outputs as plain texts."""
        if data.get("schema_version", "1.0") != "1.0":
            return data
        nodes = data.get("nodes")
        lifted = [_lift_node(node) for node in nodes] if isinstance(nodes, list) else nodes
        return {**data, "schema_version": "1.1", "nodes": lifted}

    def to_bytes_with(self, nodes: Sequence[str]) -> bytes:
        """The same as `to_bytes`, from the texts that its nodes have already."""
        rest = self.model_copy(update={"nodes": ()}).as_json()
        said = {name: f"{wire.write(name).decode()}:{wire.write(rest[name]).decode()}" for name in sorted(rest)}
        before = ",".join([text for name, text in said.items() if name < "nodes"])
        behind = ",".join([text for name, text in said.items() if name > "nodes"])
        texts = [f'{{{before}{"," if before else ""}"nodes":[', ",".join(nodes), f"],{behind}}}"]
        return "".join(texts).encode()


def _lift_node(node: object) -> object:
    if not isinstance(node, dict):
        return node
    lifted = dict(node)
    if not node.get("inputs") and isinstance(names := node.get("required_inputs"), list):
        lifted["inputs"] = [_input_of(name) if isinstance(name, str) else name for name in names]
    if isinstance(outputs := node.get("outputs"), list):
        lifted["outputs"] = [{"name": output} if isinstance(output, str) else output for output in outputs]
    return lifted


def _input_of(name: str) -> dict[str, Any]:
    is_glob = any(mark in name for mark in "*?[")
    return {"name": name, "selector": {"type": "by_glob" if is_glob else "by_file_name", "value": name}}
