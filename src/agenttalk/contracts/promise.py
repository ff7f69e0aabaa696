"""The completion promise: what done means for a task, and how the engine will see it."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from agenttalk.contracts.core.base import Count, Many, Number, Part, Positive, RelativePath, Sha256, Text
from agenttalk.contracts.errors import Code

Trust = Literal["claimed", "attested", "observed", "executed", "confirmed"]
Checkpoint = Literal["pre-plan", "pre-act", "post-act", "pre-verify", "pre-ship"]
Severity = Literal["hard-deny", "soft-deny", "warning"]
DoneType = Literal["acceptance-met", "gate-passed", "evidence-present", "user-confirmed"]
AbortType = Literal["budget-exhausted", "unsafe", "scope-drift", "stuck", "user-aborted"]
CHECK_KINDS = frozenset({"run", "tests", "file", "json", "git", "http", "artifact", "report", "human", "forge"})
RedFirst = Literal["required", "record", "off"]


class PromisePart(Part):
    """Parts of a promise are written in camelCase and read in both spellings."""

    model_config = ConfigDict(alias_generator=to_camel)


class TwoSpellingPart(PromisePart):
    """A part in which a field has two spellings, so that both could be given at once."""

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: object) -> object:
        if isinstance(data, dict):
            for name, alias in cls._aliases.items():
                if name in data and alias in data:
                    raise PydanticCustomError(
                        Code.FIELD_SPELLED_TWICE, "{name} is given in two spellings", {"name": name}
                    )
        return data


class StopCondition(PromisePart):
    """A condition that ends a run. What `target` means depends on `type`."""

    target: str | None = None
    """Criterion, checkpoint, evidence id or kind of budget; `*` for all criteria."""


class DoneCondition(StopCondition):
    """A condition of being done."""

    type: DoneType
    """Which kind."""


class AbortCondition(StopCondition):
    """A condition that stops the run."""

    type: AbortType
    """Which kind."""


class AcceptanceCriterion(TwoSpellingPart):
    """One thing that must be shown."""

    id: str
    """Name of the criterion."""
    description: str
    """What it demands, for people."""
    evidence_required: Many[str] = ()
    """Evidence ids, any one of which shows it."""
    min_trust: Trust | None = None
    """Least trust that counts; by default what its check gives."""


class Budget(Part):
    """What a run may use."""

    tokens: Positive | None = None
    """Tokens in and out."""
    cost_usd: Number | None = None
    """Money."""
    seconds: Positive | None = None
    """Wall time."""
    tool_calls: Positive | None = None
    """Calls of tools."""


class Check(Part):
    """How the engine itself obtains one piece of evidence. The evidence bears the check's id."""

    id: Text
    """Evidence id that it produces."""
    covers: Many[str] | None = None
    """Globs of what the evidence is about; by default the whole tree."""
    protected: Many[str] | None = None
    """Globs that must be as where the plan began when the check runs. Beside them a check protects the files that it
    consists of: those that its command names, and tests. `[]` says that it protects nothing but its own `files`."""
    files: Many[RelativePath] | None = None
    """The check's own files, taken from beside the plan."""
    files_sha256: dict[str, Sha256] | None = None
    """Their hashes when the plan was submitted; written by whoever submits it."""
    red_first: RedFirst = "record"
    """Whether the check must fail before the work starts."""
    min_trust: Annotated[Trust | None, Field(alias="minTrust")] = None
    """Least trust that its evidence needs."""
    timeout: Positive | None = None
    """Limit in seconds."""
    retries: Count = 0
    """Runs again for failures only; what passes then is recorded as flaky."""


class RunCheck(Check):
    """Runs a command in a sealed checkout; exit code 0 passes."""

    kind: Literal["run"]
    run: Text
    """Command line for `sh -c`."""
    cwd: RelativePath | None = None
    """Folder of the checkout to run in."""
    env: dict[str, str] | None = None
    """Additional environment."""
    protect_config: bool = True
    """Whether the configuration of what it runs is protected too; not if it only looks at files."""
    made_by_work: bool = False
    """Whether the work makes what it runs, such as a program or the tests: then it need not even start before."""


class TestsCheck(Check):
    """Runs a test suite and reads its JUnit report."""

    kind: Literal["tests"]
    run: Text
    """Command line for `sh -c`."""
    junit: RelativePath
    """Where the report will lie."""
    min_tests: Positive | None = None
    """Fewest tests that must have run."""
    cwd: RelativePath | None = None
    """Folder of the checkout to run in."""
    env: dict[str, str] | None = None
    """Additional environment."""
    made_by_work: bool = False
    """Whether the work makes what it runs, such as a program or the tests: then it need not even start before."""
    protect_config: bool = True
    """Whether the test runner's own configuration is protected too."""
    may_vanish: Many[Text] | None = None
    """Names of tests, or globs over them, that need not be there any more: those that are renamed, moved or removed."""


class FileCheck(Check):
    """Looks at a file."""

    kind: Literal["file"]
    path: RelativePath
    """The file."""
    contains: str | None = None
    """Text that it must hold."""
    sha256: Sha256 | None = None
    """Hash that it must have."""
    min_bytes: Count | None = None
    """Least size."""


class JsonCheck(Check):
    """Looks at a JSON file."""

    kind: Literal["json"]
    path: RelativePath
    """The file."""
    json_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """JSON Schema that it must meet."""
    required_fields: Many[str] | None = None
    """Fields that it must have."""


class GitCheck(Check):
    """Looks at what the work changed in the repository, as the engine sees it. Protected paths must be as they were."""

    kind: Literal["git"]
    changed: Many[str] | None = None
    """Globs: of each, something must have changed. Without them, anything."""


class HttpCheck(Check):
    """Asks an address."""

    kind: Literal["http"]
    url: Text
    """Address to GET."""
    status: Annotated[int, Field(ge=100, le=599)] = 200
    """Status that must come back."""
    contains: str | None = None
    """Text that the answer must hold."""


class ArtifactCheck(Check):
    """Looks at a stored output."""

    kind: Literal["artifact"]
    output: Text
    """Name of the output."""
    accepted_by: str | None = None
    """Agent that must have accepted it."""


class ReportCheck(Check):
    """Takes the agent's own report: a claim and no more."""

    kind: Literal["report"]


class HumanCheck(Check):
    """Asks a person."""

    kind: Literal["human"]
    question: Text
    """What the person is asked."""


class ForgeCheck(Check):
    """Reads the code forge with the engine's own token. Everything that it asks for must be so."""

    kind: Literal["forge"]
    source: str | None = None
    """The configured forge; not needed where there is only one."""
    repo: str = ""
    """`owner/name`."""
    pull_request: Positive | None = None
    """Number of the pull request."""
    issue: Positive | None = None
    """Number of the issue."""
    pr_merged: bool | None = None
    """The pull request is merged."""
    review_by: Text | None = None
    """An agent, or an account, has reviewed the newest head."""
    verdict: Literal["APPROVED", "REQUEST_CHANGES", "COMMENT"] | None = None
    """What that review must come to."""
    new_head_since: Text | None = None
    """A commit, after which something was pushed to the pull request."""
    status_success: Text | None = None
    """The newest status of this context is a success; `*` for all contexts, of which there must be one."""
    ref: Text | None = None
    """The commit or branch of the status; by default the pull request's head."""
    comment_by: Text | None = None
    """An agent, or an account, has written a comment."""
    issue_closed: bool | None = None
    """The issue is closed."""


class OtherCheck(Check):
    """A kind that an extension brings; its own keys are kept as they are."""

    kind: Annotated[Text, WithJsonSchema({"type": "string", "pattern": r"\S", "not": {"enum": sorted(CHECK_KINDS)}})]
    """Name under which the extension registered it."""


def _check_tag(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind if isinstance(kind, str) and kind in CHECK_KINDS else "other"


AnyCheck = Annotated[
    Annotated[RunCheck, Tag("run")]
    | Annotated[TestsCheck, Tag("tests")]
    | Annotated[FileCheck, Tag("file")]
    | Annotated[JsonCheck, Tag("json")]
    | Annotated[GitCheck, Tag("git")]
    | Annotated[HttpCheck, Tag("http")]
    | Annotated[ArtifactCheck, Tag("artifact")]
    | Annotated[ReportCheck, Tag("report")]
    | Annotated[HumanCheck, Tag("human")]
    | Annotated[ForgeCheck, Tag("forge")]
    | Annotated[OtherCheck, Tag("other")],
    Discriminator(_check_tag),
]

DEFAULT_DONE = (DoneCondition.model_construct(type="acceptance-met", target="*"),)
DEFAULT_ABORT = (
    AbortCondition.model_construct(type="budget-exhausted"),
    AbortCondition.model_construct(type="unsafe"),
    AbortCondition.model_construct(type="scope-drift"),
    AbortCondition.model_construct(type="stuck"),
    AbortCondition.model_construct(type="user-aborted"),
)


class CompletionPromise(TwoSpellingPart):
    """What done means for a task.

    The model reads even a promise that is not worth much (no criteria, a bad id), because judging it,
    with a severity for each fault, is a rule of its own.
    """

    id: str
    """`cp-<epoch milliseconds>-<4 hex digits>`."""
    objective: str
    """What is to be achieved."""
    acceptance: Many[AcceptanceCriterion]
    """What must be shown."""
    allowed_scope: Many[str] = ()
    """Globs that may change; empty means everything that is not disallowed."""
    disallowed_scope: Many[str] = ()
    """Globs that must not change; they win."""
    required_evidence: Many[str] = ()
    """Evidence ids that must all be there."""
    done_when: Many[DoneCondition] = DEFAULT_DONE
    """All must hold."""
    abort_when: Many[AbortCondition] = DEFAULT_ABORT
    """Any one stops the run."""
    checks: Many[AnyCheck] = ()
    """How the engine obtains evidence."""
    budget: Budget | None = None
    """What the run may use."""


class GateResult(TwoSpellingPart):
    """The decision of one checkpoint."""

    allowed: bool
    """Whether it lets the run pass."""
    checkpoint: Checkpoint
    """Which one."""
    trace_id: str
    """Where the decision is recorded."""
