"""The task DAG: its tasks, their agents, dependencies, inputs and outputs."""

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
            "a condition must compare the score with a number, e.g. 'score < 70', not {text}",
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
    """An input of a task."""

    name: Text
    """Name of the input inside the task."""
    selector: Selector
    """What selects its files."""
    required: bool = True
    """Whether the task can run without it."""
    pick_policy: PickPolicy | None = None
    """Which file is taken when several match. Default: all for globs, else the latest."""
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
    """What happens to a version with other content."""
    tag: str | None = None
    """Tag for `semver_tagged`, also matched by routing rules."""


class Output(Part):
    """An output of a task."""

    name: Text
    """Name of the output."""
    deliver_to: Many[Receiver] = ()
    """Agents that receive it. If empty, the routing rules decide."""
    content_type: str | None = None
    """Media type."""
    deliverable: bool = False
    """Whether it is a result of the whole plan."""
    when: ScoreCondition | None = None
    """A condition on the score: the output is made only if it holds."""
    optional: bool = False
    """Whether it may be missing."""
    idempotency_key: str | None = None
    """For people and audit; versions with the same key are compared."""
    versioning: Versioning = Versioning.model_construct()
    """What happens to a second version."""


class FailurePolicy(Part):
    """What happens to a task when a dependency has failed."""

    on_dependency_failed: DependencyFailure = "BLOCK"
    """Skip the task, block it, ask for a new plan, or have another task replace the failed one."""
    max_reexecute_times: Count | None = None
    """Rework rounds. Default: those of the plan."""
    reexecute_target_agent_id: AgentIdText | None = None
    """Agent that does the rework. Default: the task's own agent."""
    fallback_task_id: TaskIdText | None = None
    """The task that replaces it."""


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
    """Documents that must exist."""
    thresholds: dict[str, Number] = {}
    """`<task_id>_min_score` → lowest score."""
    branches: Many[Branch] = ()
    """The branches by score."""


class Node(Part):
    """One task of the DAG."""

    task_id: TaskIdText
    """Its id."""
    name: str | None = None
    """Its name, for people."""
    assigned_agent_id: AgentIdText
    """The only agent that receives its commands."""
    depends_on: Many[TaskIdText] = ()
    """Tasks that must be done before it."""
    inputs: Many[Input] = ()
    """Its inputs."""
    required_inputs: Many[InputPattern] = ()
    """The older form of its inputs; ignored where `inputs` is given."""
    outputs: Many[Output] = ()
    """Its outputs."""
    failure_policy: FailurePolicy | None = None
    """What happens when a dependency has failed."""
    gates: Gates | None = None
    """What must be met before it counts as completed."""
    prompt: str | None = None
    """Its instructions."""
    validation_criteria: ValidationCriteria | None = None
    """What its inputs must meet."""
    promise: CompletionPromise | None = None
    """Its promise."""
    timeout: Positive | None = None
    """Time limit in seconds."""
    score_required: bool | None = None
    """Whether its result carries a score."""
    score_criteria: str | None = None
    """The criteria of the score."""
    retry_times: Count | None = None
    """Retries after a crash or timeout. Default: none."""
    priority: Priority | None = None
    """HIGH before MEDIUM before LOW. Default: MEDIUM."""
    on_complete: Notice | None = None
    """Local notice on completion."""
    on_failure: Notice | None = None
    """Local notice on failure."""
    workspace: Literal["repo"] | None = None
    """Where it works: `repo` is a private clone of the plan's repository. Default: an empty folder of its own."""
    race: Many[TaskIdText] = ()
    """Tasks that do the same with other agents. The first of them that is completed ends the others."""

    @property
    def needs(self) -> tuple[Input, ...]:
        """Its inputs, also those in the older form."""
        if self.inputs or not self.required_inputs:
            return self.inputs
        return tuple(Input.read(_input_of(name)) for name in self.required_inputs)


class RoutingMatch(Part):
    """The outputs of a routing rule. All given fields must match."""

    output_name: str | None = None
    """Name of the output."""
    content_type: str | None = None
    """Its media type."""
    tag: str | None = None
    """Its version tag."""


class RoutingRule(Part):
    """The receivers of outputs that name none."""

    match: RoutingMatch
    """Which outputs."""
    deliver_to: Many[Receiver]
    """Their receivers."""


class TaskDag(Document):
    """A plan's tasks and their dependencies (`task_dag.json`)."""

    schema_version: Version = "1.1"
    """1.1. A 1.0 document is converted when it is read."""
    plan_id: PlanIdText
    """The plan."""
    nodes: Many[Node]
    """The tasks."""
    routing_rules: Many[RoutingRule] = ()
    """The receivers of outputs that name none. The first match wins."""

    @classmethod
    def read(cls, data: object) -> Self:
        """Read a DAG from JSON values, without copying its nodes."""
        return quick_validation.validate_quickly(cls, data, "nodes") or super().read(data)

    @classmethod
    def lift(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Convert a 1.0 DAG, whose inputs are lists of file names, and whose outputs may be plain names."""
        if data.get("schema_version", "1.0") != "1.0":
            return data
        nodes = data.get("nodes")
        lifted = [_lift_node(node) for node in nodes] if isinstance(nodes, list) else nodes
        return {**data, "schema_version": "1.1", "nodes": lifted}

    def to_bytes_with(self, nodes: Sequence[str]) -> bytes:
        """Return the same as `to_bytes`, from the stored texts of its nodes."""
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
