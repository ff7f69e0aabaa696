"""Normalizes control files and heartbeats of other parties to the form of our documents.

The specification leaves some types open, and other parties choose their own. Where the meaning is clear, the document
is converted, and each change is reported to people as a repair. Nothing is invented that other code depends on: ids,
hashes, states, decisions and authors stay as they are. A document that lacks them is refused by its own model.
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
    """A document in our form, with the changes that this took."""

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
        """Replace an object in it by a copy that may be changed. Returns the copy; None if the field has no object."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            return None
        copy: _Object = dict(value)
        self.fields[name] = copy
        return copy


def normalize_document(kind: type[Document], document: wire.JsonValue) -> NormalizedDocument:
    """Bring a document of a kind into our form. A value that is not an object stays as it is."""
    mend = _MENDS.get(kind)
    if mend is None or not isinstance(document, dict):
        return NormalizedDocument(document)
    draft = _DocumentDraft(document)
    mend(draft)
    return NormalizedDocument(draft.fields, tuple(draft.repairs)) if draft.repairs else NormalizedDocument(document)


def _brief(value: Any) -> Any:
    """Shorten a long value for a report."""
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
        if isinstance(missing, list) and any(isinstance(item, dict) for item in missing):
            names = [_name_of(item) for item in missing]
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
    """Return the name of a missing input, which may be described by an object."""
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
    """Make a title in one line from the fields of a question."""
    needed = fields.get("needed")
    asked: Mapping[str, Any] = needed if isinstance(needed, dict) else {}
    decision, files = asked.get("decision"), asked.get("files")
    if isinstance(decision, dict) and _says(decision.get("question")):
        return str(decision["question"])[:_SHOWN]
    names = [file["name"] for file in files if isinstance(file, dict) and _says(file.get("name"))] if files else []
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
    if isinstance(answers, list) and any(_selected(answer) is not answer for answer in answers):
        chosen = [_selected(answer) for answer in answers]
        draft.change_field("decision_answers", chosen, "an answer is the key that was chosen")


def _selected(answer: Any) -> Any:
    """Return the key that an answer chooses, also if the answer repeats the question."""
    chosen = answer.get("selected") if isinstance(answer, dict) else None
    return chosen if _says(chosen) else answer


def _mend_manifest(draft: _DocumentDraft) -> None:
    for name in ("artifacts", "evidence_required", "evidence_refs"):
        if draft.fields.get(name) is None:
            draft.change_field(name, [], "an empty list says the same")


def _mend_issues(draft: _DocumentDraft) -> None:
    """Report issues without a description. The model reads them as they are."""
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
        draft.change_field("uptime_seconds", None, "it is not a number of seconds, and nothing depends on it")


def _mend_plan(draft: _DocumentDraft) -> None:
    """Remove fields that are not in our form. Of a foreign plan's manifest, the engine only uses the commanders."""
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
    for at, deliverable in enumerate(deliverables if isinstance(deliverables, list) else ()):
        if isinstance(deliverable, dict) and deliverable.get("accept_if") is not None:
            field, value = f"deliverables[{at}].accept_if", deliverable["accept_if"]
            why = "it is not enforced: nothing here depends on it in a plan that the engine does not run"
            draft.repairs.append(Repair(field=field, before=_brief(value), after=_brief(value), why=why))


def _fits(name: str, value: Any) -> bool:
    """Whether a manifest with only this field would be valid."""
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
