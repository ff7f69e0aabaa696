"""Every sentence that must hold, with the tests that show it.

A test names the ids that it shows with `@pytest.mark.shows("C01", ...)`. The manifest test fails for an id
that is neither shown nor deferred, for one that is both, and for a test that names an unknown id. The list of
deferred ids must shrink to none.
"""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    """A sentence that must hold."""

    sentence: str
    source: str
    """S0 to S4: part of the specification; D: a decision of the design."""


REQUIREMENTS: dict[str, Requirement] = {
    # Commands
    "C01": Requirement(
        "An agent never builds command JSON by hand: it calls generate_command (skill, CLI, MCP, API, Python)", "S0, S1"
    ),
    "C02": Requirement(
        "Missing defaults are added, types converted, invalid optional values defaulted, every repair reported",
        "S0, S1",
    ),
    "C03": Requirement("plan_id, task_id, prompt are never invented", "S0, S1"),
    "C04": Requirement("command_id = cmd_<task_id>_<NNN…>, ≥ 3 digits", "S0, S1"),
    "C05": Requirement("command_seq equals the id's number", "S0, S1"),
    "C06": Requirement("the id's task equals task_id", "S0, S1"),
    "C07": Requirement("command_id unique in its plan", "S0, S1"),
    "C08": Requirement(
        "prompt non-empty; required_inputs an array; wait_for_inputs, score_required booleans; timeout a positive integer; retry_times ≥ 0",
        "S0, S1",
    ),
    "C09": Requirement("score_required implies score_criteria", "S0, S1"),
    "C10": Requirement("idempotency_key defaulted; never the dedup key", "S0, S1"),
    "C11": Requirement("dag_ref.sha256 required and equal to the active DAG", "S0, S1"),
    "C12": Requirement("payload_hash checked when present", "S0, S1"),
    "C13": Requirement("schema_version rules", "S0, S1"),
    "C14": Requirement(
        "on_complete / on_failure templates with {result}, {score}, {error}: notice and log only", "S0, S1"
    ),
    "C15": Requirement("a command never carries a delivery target", "S0, S1"),
    "C16": Requirement("generation and validation are logged", "S0, S1"),
    "C17": Requirement("new fields can be added without breaking old readers", "S0, S1"),
    "C18": Requirement("all errors at once, coded", "S0, S1"),
    # Messages and routing
    "M01": Requirement("Command envelopes `cmd_*.msg.json`, type command, payload.command; ids agree", "S1"),
    "M02": Requirement("Only the DAG's assigned_agent_id receives a command", "S1"),
    "M03": Requirement("Artifacts go to outputs[].deliver_to, else routing_rules, else dead letter", "S1"),
    "M04": Requirement("An agent writes only its own folder", "S1"),
    "M05": Requirement("Writes are atomic; payload before envelope", "S1"),
    "M06": Requirement("Result files carry message_id, sha256, type, idempotency_key", "S1"),
    "M07": Requirement("Dedup on message_id + sha256", "S1"),
    "M08": Requirement("Older command_seq superseded and logged", "S1"),
    "M09": Requirement("Acks CONSUMED → SUCCEEDED/FAILED, never back, archived", "S1"),
    "M10": Requirement("Deliveries logged one line each", "S1"),
    "M11": Requirement("Dead letters with alert; replay keeps message_id", "S1"),
    "M12": Requirement("Control files are collected, not routed", "S1"),
    "M13": Requirement("DAG switch is all or nothing", "S1"),
    "M14": Requirement("STORED / INJECTED / ACTED recorded", "D"),
    "M15": Requirement("conservation sum checked", "D"),
    # Running
    "X01": Requirement("Inputs are searched in the workspace's inputs and the task folder only", "S1"),
    "X02": Requirement("resolved_inputs win over required_inputs; globs work", "S1"),
    "X03": Requirement(
        "Missing inputs with wait: BLOCKED_WAITING_INPUT, others go on; arrival triggers by itself", "S1"
    ),
    "X04": Requirement(
        "Waiting past timeout: human_intervention_request listing what is missing, BLOCKED_WAITING_HUMAN, error recorded; late arrival still runs",
        "S1",
    ),
    "X05": Requirement("started_at of a wait survives restarts", "S1"),
    "X06": Requirement("Missing inputs without wait: it runs, the missing ones named in prompt and record", "S1"),
    "X07": Requirement("Prompt = inputs + agent profile + command prompt", "S1"),
    "X08": Requirement(
        "Result {result}, with score: {score 0–100, score_explanation}; invalid scores sent back, then failed", "S1"
    ),
    "X09": Requirement("Poll every 10 s (5 busy, 30 idle) as safety net, events at once", "S1"),
    "X10": Requirement("Serial inside an agent, parallel across", "S1"),
    "X11": Requirement("Selectors and pick policies; ambiguity asks a person", "S1"),
    "X12": Requirement("retries with 1.5 × timeouts", "S1"),
    "X13": Requirement("failure policies SKIP, BLOCK, REPLAN_REQUEST, FALLBACK", "S1"),
    "X14": Requirement("score branching only in the DAG; the score may choose among predefined outputs", "S1"),
    "X16": Requirement("globs take all matches", "S1"),
    "X15": Requirement("the seed's example commands run as examples", "S1"),
    # Chain validation and release
    "V01": Requirement("The producer is not its own validator", "S2"),
    "V02": Requirement(
        "The consumer validates before use: format, required fields, quality threshold, completeness", "S2"
    ),
    "V03": Requirement(
        "Rejection makes a re-execution command: original task and agent, validation_result {validator, score, reason, issues}, prompt, previous output and feedback as inputs",
        "S2",
    ),
    "V04": Requirement("It goes through outbox and router like any command", "S2"),
    "V05": Requirement(
        "validation_feedback has severity, category, description, location, suggestion, expectations", "S2"
    ),
    "V06": Requirement("Outputs of a re-execution are marked with its count", "S2"),
    "V07": Requirement("At most 3 by default, counted per task; then failed, alert, human request with history", "S2"),
    "V08": Requirement("Validation and re-execution history is recorded and shown", "S2"),
    "V09": Requirement("artifact_validation_result decides archiving", "S2"),
    "V10": Requirement("Gate chain build/deploy/smoke/e2e/security → release_manifest", "S2"),
    "V11": Requirement("Missing or rejected gate: REJECT", "S2"),
    "V12": Requirement("gates are bound to the artifact's hash and freshness", "D"),
    "V13": Requirement("convergence stops early", "D"),
    # Promises
    "P01": Requirement("id format", "S3"),
    "P02": Requirement("empty objective or acceptance refused at creation", "S3"),
    "P03": Requirement("defaults of doneWhen and abortWhen", "S3"),
    "P04": Requirement("each validation issue with its severity at pre-plan", "S3"),
    "P05": Requirement("valid iff no hard-deny", "S3"),
    "P06": Requirement("requiredEvidence all present", "S3"),
    "P07": Requirement("each criterion any-of", "S3"),
    "P08": Requirement("gate-passed conditions, latest result", "S3"),
    "P09": Requirement("evidence-present, user-confirmed, acceptance-met evaluated", "D"),
    "P10": Requirement("every run has a promise; PLAN, VERIFY, SHIP refer to the same one", "S3"),
    "P11": Requirement("not fulfilled → the agent cannot claim done", "S3"),
    "P12": Requirement("any abort condition stops the run", "S3"),
    "P13": Requirement("scope lists enforced, overlap reported", "S3"),
    "P14": Requirement("actions, verification and delegation bind to the promise id", "S3"),
    "P15": Requirement("nothing to check is not done", "D"),
    # Evidence
    "E01": Requirement("engine-owned ids", "D"),
    "E02": Requirement("sealed checks", "D"),
    "E03": Requirement("protected paths", "D"),
    "E04": Requirement("red before green", "D"),
    "E05": Requirement("fingerprints, staleness, re-verification, propagation", "D"),
    "E06": Requirement("fail closed", "D"),
    "E07": Requirement("minimum trust, unverified remainder", "D"),
    "E08": Requirement("cache", "D"),
    "E09": Requirement("denominator guard", "D"),
    "E10": Requirement("human confirmation unforgeable and bound to what was shown", "D"),
    "E11": Requirement("ledger hash chain, truncation seen", "D"),
    "E12": Requirement("explain in plain words", "D"),
    # Toolchain
    "T01": Requirement("Toolchain events become toolchain tasks on `_toolchain`, never mail", "S4"),
    "T02": Requirement("must_haves {event_type, action_type, steps, context, from, source}", "S4"),
    "T03": Requirement(
        "all ten scenarios of the table plus infrastructure_failure, right recipient, right steps", "S4"
    ),
    "T04": Requirement('context section: facts, numbered steps, "work to carry out"', "S4"),
    "T05": Requirement("constraints section: strong wording, red-flags table; no optional-sounding words", "S4"),
    "T06": Requirement('API section: report, outputs, help; no "mark done"', "S4"),
    "T07": Requirement("action_report is the only new comment type; types checked by the application", "S4"),
    "T08": Requirement("verify order and codes; verify error is a failure", "S4"),
    "T09": Requirement("review_merged and infrastructure_failure always pass", "S4"),
    "T10": Requirement("done set by the engine; agents cannot set states", "S4"),
    "T11": Requirement("business failure → PR/issue comment naming the assignee", "S4"),
    "T12": Requirement(
        "system failure (crash, timeout, retries, 3 business failures) → forge issue for the lead", "S4"
    ),
    "T13": Requirement("infrastructure failure → direct task for ops, no recursion", "S4"),
    "T14": Requirement("unknown assignee: warning, no task", "S4"),
    "T15": Requirement("`_toolchain` and `_mail` databases apart; created on first use", "S4"),
    "T16": Requirement("registry of kinds; dispatcher finds virtual boards by itself", "S4"),
    "T17": Requirement("PromptContext carries event and action data", "S4"),
    "T18": Requirement("old `_mail` tasks and mail semantics unaffected", "S4"),
    "T19": Requirement("read-back of external state (S4 §16.1)", "S4"),
    "T20": Requirement("steps made from the event's content (§16.2)", "S4"),
    "T21": Requirement("overdue → reminder → escalation (§16.3)", "S4"),
    "T22": Requirement("reports auditable beside forge state (§5.4)", "S4"),
    "T23": Requirement("semantic dedup, exactly one task", "D"),
    "T24": Requirement("loop caps", "D"),
    "T25": Requirement("reconcile", "D"),
    "T26": Requirement("help is asked by a comment on the PR/issue, not by mail", "S4"),
    # Mail
    "A01": Requirement("inform: read is enough", "S4"),
    "A02": Requirement("request: needs a reply", "S4"),
    "A03": Requirement("own board, own kind, own page", "S4"),
}

DEFERRED: frozenset[str] = frozenset()
"""Ids that no capability has reached yet."""
