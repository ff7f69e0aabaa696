"""The completion promise: what done means for a task, and how the engine checks it."""

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
CHECK_KINDS = frozenset(
    {
        *("run", "tests", "cases", "mutants", "file", "json", "git", "http", "browser", "artifact", "report"),
        *("human", "forge"),
    }
)
RedFirst = Literal["required", "record", "off"]
SuiteBoundary = Literal["process", "auto", "off"]
Watch = Literal["note", "ask", "refuse"]
Hiding = bool | Literal["count"]


class PromisePart(Part):
    """Parts of a promise are written in camelCase, and read in both spellings."""

    model_config = ConfigDict(alias_generator=to_camel)


class TwoSpellingPart(PromisePart):
    """A part with a field that has two spellings, of which only one may be given."""

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
    """A condition for done."""

    type: DoneType
    """Which kind."""


class AbortCondition(StopCondition):
    """A condition that stops the run."""

    type: AbortType
    """Which kind."""


class AcceptanceCriterion(TwoSpellingPart):
    """A criterion of the promise."""

    id: str
    """Name of the criterion."""
    description: str
    """Its requirement, for people."""
    evidence_required: Many[str] = ()
    """Evidence ids. Any one of them proves the criterion."""
    min_trust: Trust | None = None
    """Least trust that counts. Default: the trust that its check gives."""


class Budget(Part):
    """The budget of a run."""

    tokens: Positive | None = None
    """Input and output tokens."""
    cost_usd: Number | None = None
    """Money."""
    seconds: Positive | None = None
    """Wall time."""
    tool_calls: Positive | None = None
    """Tool calls."""


class Check(Part):
    """How the engine obtains one piece of evidence. The evidence has the id of the check."""

    id: Text
    """Evidence id that it produces."""
    covers: Many[str] | None = None
    """Globs of the files that the evidence is about. Default: the whole tree."""
    protected: Many[str] | None = None
    """Globs of files that must be unchanged since the start of the plan when the check runs. A check also protects the
    files that it consists of: those that its command names, and tests. With `[]` it protects only its own `files`."""
    files: Many[RelativePath] | None = None
    """The check's own files, from the folder of the plan file."""
    files_sha256: dict[str, Sha256] | None = None
    """Their hashes at the submission of the plan, which adds them."""
    red_first: RedFirst = "record"
    """Whether the check must fail before the work starts."""
    min_trust: Annotated[Trust | None, Field(alias="minTrust")] = None
    """Least trust that its evidence needs."""
    timeout: Positive | None = None
    """Time limit in seconds."""
    retries: Count = 0
    """How often a failed check is repeated. One that passes then is recorded as flaky."""


class RunCheck(Check):
    """Runs a command in a sealed checkout; exit code 0 passes."""

    kind: Literal["run"]
    run: Text
    """Command line for `sh -c`."""
    cwd: RelativePath | None = None
    """Folder of the checkout to run in."""
    env: dict[str, str] | None = None
    """Additional environment variables."""
    protect_config: bool = True
    """Whether the configuration of its program is protected, too. Not needed if it only reads files."""
    may_vanish: Many[Text] | None = None
    """Names of tests, or globs over them, that may disappear: tests that are renamed, moved or removed."""
    boundary: SuiteBoundary = "auto"
    """Whether tests of pytest and unittest are judged in another process than that of the work: all (`process`), or
    those that can be (`auto`)."""
    made_by_work: bool = False
    """Whether the work creates what it runs, such as a program or the tests: then it need not start before the work."""
    suspicion: Watch | None = None
    """What follows from suspicious lines of the work: `note` them, `ask` a person who sees them, or `refuse` the work.
    Default: `ask` where nothing but what runs inside the work's own process judges it, and `note` otherwise."""
    twice: bool = False
    """Whether a check that passes is run again, at a place with another name and in another order. A difference means
    that it did not pass."""
    hidden: Hiding = False
    """Whether the check is kept from the agent: it learns only that it passed or failed, or with `count` how many tests
    did. People see everything."""
    hidden_paths: Many[Text] | None = None
    """Where its files and the plan file lie, which the submission adds: sandboxes of its agent show none of them."""


class TestsCheck(Check):
    """Runs a test suite, and sees how each of its tests ends."""

    kind: Literal["tests"]
    run: Text
    """Command line for `sh -c`."""
    junit: RelativePath | None = None
    """Path of its JUnit report, or of the folder in which its runner writes reports (`*.xml`). Not needed where the
    runner reports to the engine while it runs."""
    min_tests: Positive | None = None
    """Fewest tests that must have run."""
    cwd: RelativePath | None = None
    """Folder of the checkout to run in."""
    env: dict[str, str] | None = None
    """Additional environment variables."""
    boundary: SuiteBoundary = "auto"
    """Whether tests of pytest and unittest are judged in another process than that of the work: all (`process`), or
    those that can be (`auto`)."""
    made_by_work: bool = False
    """Whether the work creates what it runs, such as a program or the tests: then it need not start before the work."""
    protect_config: bool = True
    """Whether the configuration of the test runner is protected, too."""
    may_vanish: Many[Text] | None = None
    """Names of tests, or globs over them, that may disappear: tests that are renamed, moved or removed."""
    suspicion: Watch | None = None
    """What follows from suspicious lines of the work: `note` them, `ask` a person who sees them, or `refuse` the work.
    Default: `ask` where nothing but what runs inside the work's own process judges it, and `note` otherwise."""
    twice: bool = False
    """Whether a check that passes is run again, at a place with another name and in another order. A difference means
    that it did not pass."""
    hidden: Hiding = False
    """Whether the check is kept from the agent: it learns only that it passed or failed, or with `count` how many tests
    did. People see everything."""
    hidden_paths: Many[Text] | None = None
    """Where its files and the plan file lie, which the submission adds: sandboxes of its agent show none of them."""


class Case(Part):
    """One input, and the result that it must have."""

    name: Text | None = None
    """Its name. Default: its number, such as `#1`."""
    args: Many[Any] | None = None
    """Arguments: texts for a command, values for a function."""
    kwargs: dict[str, Any] | None = None
    """Arguments of a function by their names."""
    stdin: str | None = None
    """Standard input of a command."""
    files: dict[RelativePath, str] | None = None
    """Files that are written before, from the folder in which a command runs."""
    returns: Any = None
    """Value that a function must return, with exact types. Default: `null`, which is `None`."""
    raises: Text | None = None
    """Exception that a function must raise: a built-in name, or `module.Name`. Derived ones count."""
    within: Annotated[float | None, Field(ge=0)] = None
    """How far a floating-point number may be from the one that is asked for."""
    stdout: str | None = None
    """Exactly what a command must print on its standard output."""
    prints: Annotated[Any, Field(alias="json")] = None
    """JSON value that a command must print, with exact types."""
    writes: dict[RelativePath, str] | None = None
    """Files that a command must write, with exactly this text."""
    exit: Annotated[int | None, Field(ge=0, le=255)] = None
    """Exit code that a command must end with. Default: 0."""


class CasesCheck(Check):
    """Runs a command, or calls a function of Python, in a process for each case, and compares the results."""

    kind: Literal["cases"]
    run: Text | None = None
    """Command line for `sh -c`. It gets the arguments of a case at its end, or where it says `"$@"`, `$1` and so on."""
    call: Text | None = None
    """Function of Python to call, as `module:function`."""
    python: Text = "python3"
    """Python that calls it."""
    cases: Many[Case] = ()
    """The cases."""
    cases_file: RelativePath | None = None
    """File beside the plan file with the cases, as a list in YAML or JSON. It is read when the plan is submitted."""
    each: Positive = 10
    """Seconds that each case may take. `timeout` is the time for all."""
    cwd: RelativePath | None = None
    """Folder of the checkout to run in."""
    env: dict[str, str] | None = None
    """Additional environment variables."""
    hidden: Hiding = False
    """Whether the check is kept from the agent: it learns only that it passed or failed, or with `count` how many cases
    did. People see everything."""
    hidden_paths: Many[Text] | None = None
    """Where its files and the plan file lie, which the submission adds: sandboxes of its agent show none of them."""


class MutantsCheck(Check):
    """Breaks the lines of Python that the work changed, one at a time, and has another check notice."""

    kind: Literal["mutants"]
    of: Text
    """Id of the `run` or `tests` check that has to fail on each broken tree."""
    kill: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Least share of the mutants that it must notice."""
    most: Annotated[Positive, Field(le=1000)] = 40
    """Most mutants that are tried. The engine chooses them by the hash of the tree. `timeout` is the time for all."""
    none: Literal["refuse", "ok"] = "refuse"
    """What follows when the work changed no line that can be broken: the check fails, or passes with a note."""


class FileCheck(Check):
    """Checks a file."""

    kind: Literal["file"]
    path: RelativePath
    """The file."""
    contains: str | None = None
    """Text that it must contain."""
    sha256: Sha256 | None = None
    """Hash that it must have."""
    min_bytes: Count | None = None
    """Least size in bytes."""


class JsonCheck(Check):
    """Checks a JSON file."""

    kind: Literal["json"]
    path: RelativePath
    """The file."""
    json_schema: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    """JSON Schema that it must meet."""
    required_fields: Many[str] | None = None
    """Fields that it must have."""


class GitCheck(Check):
    """Checks the changes of the work in the repository, as the engine sees them. Protected paths must be unchanged."""

    kind: Literal["git"]
    changed: Many[str] | None = None
    """Globs: a file of each must have changed. Without globs, any file."""


class HttpCheck(Check):
    """Sends an HTTP request to an address. With `serve`, see the service check."""

    kind: Literal["http"]
    url: Text
    """Address to GET."""
    status: Annotated[int, Field(ge=100, le=599)] = 200
    """Status that the answer must have."""
    contains: str | None = None
    """Text that the answer must contain."""


class ServedCheck(Check):
    """Starts a service of the work in a sealed checkout, looks at it from outside, and ends it."""

    serve: Text
    """Command line for `sh -c` that starts the service. It listens at the port in its variable `PORT`."""
    port: Annotated[int | None, Field(ge=1, le=65535)] = None
    """Port at which the service listens on 127.0.0.1. Default: a free one."""
    cwd: RelativePath | None = None
    """Folder of the checkout to run in."""
    env: dict[str, str] | None = None
    """Additional environment variables."""
    ready: Text | None = None
    """Path that must answer with a status below 400 before the check begins. Default: the port must be open."""
    made_by_work: bool = False
    """Whether the work creates the service: then it need not start before the work."""


class ServiceRequest(Part):
    """A request to a service, and the answer that it must give."""

    path: Text
    """Path, with its query."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    """HTTP method."""
    headers: dict[str, str] | None = None
    """Headers to send."""
    body: str | None = None
    """Body to send."""
    json_body: Annotated[Any, Field(alias="json")] = None
    """Body to send, as JSON."""
    status: Annotated[int, Field(ge=100, le=599)] = 200
    """Status that the answer must have."""
    contains: str | None = None
    """Text that the answer must contain."""
    equals: Any = None
    """JSON value that the answer must be, with exact types."""


class ServiceCheck(ServedCheck):
    """Sends requests to a service that the check starts and ends."""

    kind: Literal["http"]
    requests: Many[ServiceRequest]
    """Requests, sent one after the other."""


class BrowserStep(Part):
    """One step in a browser: an action, or something that must be so. Names exactly one of them."""

    open: str | None = None
    """Path to open."""
    click: Text | None = None
    """Selector of the element to click."""
    fill: Text | None = None
    """Selector of the field to fill with `text`."""
    press: Text | None = None
    """Key to press, such as `Enter`; in the element `at`, if that is given."""
    choose: Text | None = None
    """Selector of the list in which the option `text` is chosen."""
    see: Text | None = None
    """Text that must be visible; in the element `at`, if that is given."""
    miss: Text | None = None
    """Text that must not be visible; in the element `at`, if that is given."""
    count: Text | None = None
    """Selector of which there must be `number` visible elements."""
    value: Text | None = None
    """Selector of the field whose value must be `text`."""
    title: str | None = None
    """Title that the page must have."""
    address: str | None = None
    """Path that the page must have."""
    screenshot: Text | None = None
    """Name under which a picture of the page is kept."""
    at: Text | None = None
    """Selector that `press`, `see` and `miss` are about."""
    text: str | None = None
    """Text of `fill`, `choose` and `value`."""
    number: Count | None = None
    """Number of `count`."""


class BrowserCheck(ServedCheck):
    """Looks at a page of a service in a real browser."""

    kind: Literal["browser"]
    steps: Many[BrowserStep]
    """Steps, one after the other. Each must succeed."""
    width: Annotated[int, Field(ge=100, le=4000)] = 1280
    """Width of the window."""
    height: Annotated[int, Field(ge=100, le=4000)] = 800
    """Height of the window."""
    page_errors: Literal["fail", "note"] = "note"
    """Whether an error that a script of the page does not catch fails the check."""


class ArtifactCheck(Check):
    """Checks a stored output."""

    kind: Literal["artifact"]
    output: Text
    """Name of the output."""
    accepted_by: str | None = None
    """Agent that must have accepted it."""


class ReportCheck(Check):
    """Takes the agent's own report, which is only a claim."""

    kind: Literal["report"]


class HumanCheck(Check):
    """Asks a person."""

    kind: Literal["human"]
    question: Text
    """The question to the person."""


class ForgeCheck(Check):
    """Reads the code forge with the engine's own token. Every condition must be met."""

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
    """Verdict that the review must have."""
    new_head_since: Text | None = None
    """A commit; something must have been pushed to the pull request after it."""
    status_success: Text | None = None
    """The newest status of this context is a success; `*` for all contexts, at least one."""
    ref: Text | None = None
    """The commit or branch of the status. Default: the head of the pull request."""
    comment_by: Text | None = None
    """An agent, or an account, has written a comment."""
    issue_closed: bool | None = None
    """The issue is closed."""


class OtherCheck(Check):
    """A kind of an extension. Its own keys are kept unchanged."""

    kind: Annotated[Text, WithJsonSchema({"type": "string", "pattern": r"\S", "not": {"enum": sorted(CHECK_KINDS)}})]
    """Name under which the extension registered it."""


def _check_tag(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    if kind == "http" and (isinstance(value, ServiceCheck) or (isinstance(value, dict) and "serve" in value)):
        return "service"
    return kind if isinstance(kind, str) and kind in CHECK_KINDS else "other"


AnyCheck = Annotated[
    Annotated[RunCheck, Tag("run")]
    | Annotated[TestsCheck, Tag("tests")]
    | Annotated[CasesCheck, Tag("cases")]
    | Annotated[MutantsCheck, Tag("mutants")]
    | Annotated[FileCheck, Tag("file")]
    | Annotated[JsonCheck, Tag("json")]
    | Annotated[GitCheck, Tag("git")]
    | Annotated[HttpCheck, Tag("http")]
    | Annotated[ServiceCheck, Tag("service")]
    | Annotated[BrowserCheck, Tag("browser")]
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

    The model also reads weak promises (without criteria, with a bad id): a rule judges them, with a severity for
    each fault.
    """

    id: str
    """`cp-<epoch milliseconds>-<4 hex digits>`."""
    objective: str
    """What is to be achieved."""
    acceptance: Many[AcceptanceCriterion]
    """Its criteria."""
    allowed_scope: Many[str] = ()
    """Globs of files that may change. If empty, all that are not disallowed."""
    disallowed_scope: Many[str] = ()
    """Globs of files that must not change. They win."""
    required_evidence: Many[str] = ()
    """Evidence ids, all required."""
    done_when: Many[DoneCondition] = DEFAULT_DONE
    """All must hold."""
    abort_when: Many[AbortCondition] = DEFAULT_ABORT
    """Any one stops the run."""
    checks: Many[AnyCheck] = ()
    """How the engine obtains evidence."""
    budget: Budget | None = None
    """The budget of the run."""


class GateResult(TwoSpellingPart):
    """The decision of one checkpoint."""

    allowed: bool
    """Whether it allows the run."""
    checkpoint: Checkpoint
    """The checkpoint."""
    trace_id: str
    """Where the decision is recorded."""
