"""Control files and signs of life as other parties write them, brought into the form that our documents have.

The specification leaves some types open, and other parties fill them in their own way. What is meant is plain, so it is
read; each change is a repair that is told to people. Nothing is invented that anything else depends on: ids, hashes,
states, decisions and who speaks stay as they are, and what lacks them is refused by the document's own model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.core.base import Document
from agenttalk.contracts.generation import Repair
from agenttalk.contracts.human import HumanInterventionRequest, HumanInterventionResponse
from agenttalk.contracts.plan import PlanManifest
from agenttalk.contracts.record import Ack, StatusHeartbeat, TaskStateReport
from agenttalk.contracts.validation import ArtifactValidationResult, DagReviewResult, ReleaseManifest

_Object: TypeAlias = "dict[str, Any]"
_SHOWN: Final = 200


class NormalizedDocument(NamedTuple):
    """A document in our form, and what was changed for that."""

    document: wire.JsonValue
    repairs: tuple[Repair, ...] = ()


class _DocumentDraft:
    """A copy of a document that is changed field by field."""

    def __init__(self, document: _Object) -> None:
        self.fields = dict(document)
        self.repairs: list[Repair] = []

    def change_field(self, field: str, after: Any, why: str, *, holder: _Object | None = None, name: str = "") -> None:
        """Change a field, of the document itself or of an object in it."""
        place, key = (self.fields, field) if holder is None else (holder, name)
        self.repairs.append(Repair(field=field, before=_brief(place.get(key)), after=_brief(after), why=why))
        place[key] = after

    def inside(self, name: str) -> _Object | None:
        """A copy of an object in it, which then takes its place; None when there is none."""
        found = self.fields.get(name)
        if not isinstance(found, dict):
            return None
        self.fields[name] = dict(found)
        held: _Object = self.fields[name]
        return held


def normalize_document(kind: type[Document], document: wire.JsonValue) -> NormalizedDocument:
    """A document of this kind in our form. What needs no change, and what is no object, is as it was."""
    mend = _MENDS.get(kind)
    if mend is None or not isinstance(document, dict):
        return NormalizedDocument(document)
    draft = _DocumentDraft(document)
    mend(draft)
    return NormalizedDocument(draft.fields, tuple(draft.repairs)) if draft.repairs else NormalizedDocument(document)


def _brief(value: Any) -> Any:
    """What a report shows of a value: a long one is cut."""
    text = value if isinstance(value, str) else wire.write(value).decode()
    return value if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _mend_ack(draft: _DocumentDraft) -> None:
    result = draft.inside("result")
    if result is None:
        return
    if not isinstance(result.get("ok"), bool):
        done = draft.fields.get("status") == "SUCCEEDED"
        draft.change_field("result.ok", done, "its status says how it went", holder=result, name="ok")
    details = result.get("details")
    if details is not None and not isinstance(details, str):
        text = wire.write(details).decode()
        draft.change_field("result.details", text, "details are a text here", holder=result, name="details")


def _mend_state(draft: _DocumentDraft) -> None:
    blocking = draft.inside("blocking")
    if blocking is not None:
        missing = blocking.get("missing")
        if isinstance(missing, list) and any(isinstance(each, dict) for each in missing):
            names = [_name_of(each) for each in missing]
            draft.change_field(
                "blocking.missing", names, "missing inputs are listed by name", holder=blocking, name="missing"
            )
        if not _says(blocking.get("reason")):
            why = "a task that waits needs a reason, so its state is taken for one"
            draft.change_field("blocking.reason", str(draft.fields.get("state")), why, holder=blocking, name="reason")
    elif draft.fields.get("blocking") is not None:
        draft.change_field("blocking", None, "why a task waits is an object; nothing depends on this one")
    if draft.fields.get("progress") is not None and not isinstance(draft.fields["progress"], dict):
        draft.change_field("progress", None, "progress is an object; nothing depends on this one")


def _name_of(missing: Any) -> Any:
    """What an input that is described by an object is called."""
    if not isinstance(missing, dict):
        return missing
    names = (missing.get(key) for key in ("name", "path", "input_name"))
    return next((name for name in names if _says(name)), wire.write(missing).decode())


def _says(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _mend_request(draft: _DocumentDraft) -> None:
    fields = draft.fields
    if not _says(fields.get("title")):
        draft.change_field("title", _title(fields), "a question without a title is called after what it asks for")
    blocking = fields.get("blocking")
    if blocking is not None and not isinstance(blocking, bool):
        draft.change_field("blocking", True, "whether work waits for it is yes or no; this says why it waits")
    if not _says(fields.get("severity")):
        draft.change_field("severity", "MEDIUM", "nothing says how urgent it is")


def _title(fields: Mapping[str, Any]) -> str:
    """What a question asks for, in a line."""
    needed = fields.get("needed")
    asked: Mapping[str, Any] = needed if isinstance(needed, dict) else {}
    decision, files = asked.get("decision"), asked.get("files")
    if isinstance(decision, dict) and _says(decision.get("question")):
        return str(decision["question"])[:_SHOWN]
    names = [each["name"] for each in files if isinstance(each, dict) and _says(each.get("name"))] if files else []
    about = fields.get("created_by")
    task = about.get("task_id") if isinstance(about, dict) else None
    what = ", ".join(names) or str(fields.get("type"))
    return (f"{task}: {what}" if _says(task) else what)[:_SHOWN]


def _mend_response(draft: _DocumentDraft) -> None:
    responder = draft.fields.get("responder")
    if not isinstance(responder, dict) or not _says(responder.get("name")):
        why = "nothing says which person it was; it came from the gateway's folder"
        draft.change_field("responder", {"name": root_layout.GATEWAY}, why)
    answers = draft.fields.get("decision_answers")
    if isinstance(answers, list) and any(_selected(each) is not each for each in answers):
        chosen = [_selected(each) for each in answers]
        draft.change_field("decision_answers", chosen, "an answer is the key that was chosen")


def _selected(answer: Any) -> Any:
    """The key that an answer chooses, also where it repeats the question."""
    chosen = answer.get("selected") if isinstance(answer, dict) else None
    return chosen if _says(chosen) else answer


def _mend_manifest(draft: _DocumentDraft) -> None:
    for name in ("artifacts", "evidence_required", "evidence_refs"):
        if draft.fields.get(name) is None:
            draft.change_field(name, [], "an empty list says the same")


def _mend_issues(draft: _DocumentDraft) -> None:
    """The model reads such issues by itself; here it is told."""
    issues = draft.fields.get("issues")
    for at, issue in enumerate(issues if isinstance(issues, list) else ()):
        if isinstance(issue, dict) and not _says(issue.get("description")):
            repair = Repair(
                field=f"issues[{at}].description",
                before=_brief(issue.get("description")),
                after=_brief(issue.get("message")),
                why="an issue without a description says it in its message, or by its other fields",
            )
            draft.repairs.append(repair)


def _mend_sign_of_life(draft: _DocumentDraft) -> None:
    uptime = draft.fields.get("uptime_seconds")
    if isinstance(uptime, float) and math.isfinite(uptime):
        draft.change_field("uptime_seconds", max(0, int(uptime)), "seconds are whole")
    elif uptime is not None and (isinstance(uptime, bool) or not isinstance(uptime, int) or uptime < 0):
        draft.change_field("uptime_seconds", None, "it is no number of seconds, and nothing depends on it")


def _mend_plan(draft: _DocumentDraft) -> None:
    """Of a foreign plan's manifest only who may command counts here. What is not in our form is set aside."""
    kept = {"schema_version", "plan_id", "commanders"}
    own = {
        name: value for name, value in draft.fields.items() if name in PlanManifest.model_fields and name not in kept
    }
    for name, value in own.items():
        if not _fits(name, value):
            draft.change_field(
                name, None, "it is not in our form; nothing depends on it in a plan that the engine does not run"
            )
    deliverables = draft.fields.get("deliverables")
    for at, each in enumerate(deliverables if isinstance(deliverables, list) else ()):
        if isinstance(each, dict) and each.get("accept_if") is not None:
            field, value = f"deliverables[{at}].accept_if", each["accept_if"]
            why = "it is not enforced: nothing here depends on it in a plan that the engine does not run"
            draft.repairs.append(Repair(field=field, before=_brief(value), after=_brief(value), why=why))


def _fits(name: str, value: Any) -> bool:
    """Whether a manifest that says nothing else would be one of ours."""
    try:
        PlanManifest.read({"schema_version": "1.0", "plan_id": "p", name: value})
    except ValueError:
        return False
    return True


_MENDS: Final[dict[type[Document], Callable[[_DocumentDraft], None]]] = {
    Ack: _mend_ack,
    TaskStateReport: _mend_state,
    HumanInterventionRequest: _mend_request,
    HumanInterventionResponse: _mend_response,
    ReleaseManifest: _mend_manifest,
    ArtifactValidationResult: _mend_issues,
    DagReviewResult: _mend_issues,
    StatusHeartbeat: _mend_sign_of_life,
    PlanManifest: _mend_plan,
}
