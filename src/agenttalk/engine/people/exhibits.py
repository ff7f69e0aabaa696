"""Exhibits: what a question shows of the work to decide about. It is in the question, so an answer is bound to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NotRequired, TypedDict

from agenttalk.contracts.core.wire import JsonObject
from agenttalk.contracts.errors import AgentTalkError, Code, UsageError
from agenttalk.engine.budgets import denials
from agenttalk.engine.budgets.denials import GateDenial
from agenttalk.engine.core import records
from agenttalk.engine.core.deps import Deps
from agenttalk.engine.people import questions
from agenttalk.ports.agents import InputContent
from agenttalk.ports.proof import Exhibit
from agenttalk.ports.statements.budgets import OBJECTIONS_TO
from agenttalk.ports.storage import Tx
from agenttalk.rules.core.redaction import Secrets
from agenttalk.rules.proof.performance import OutputContent

MOST_FILES: Final = 100
"""Files that a question names."""
PREVIEW: Final = 4 * 1024
"""Bytes of a file that are shown with a question."""
PREVIEWED: Final = 10
"""Files whose beginning is shown."""


class ExhibitFile(TypedDict):
    """A file that a question names."""

    name: str
    path: str
    sha256: str
    size_bytes: NotRequired[int]
    kept: NotRequired[bool]
    """Whether its content is still there."""
    beginning: NotRequired[bytes | None]


class ExhibitDescription(TypedDict):
    """The subject of a question, as the question has it."""

    shown: NotRequired[str]
    """The hash of the whole text."""
    files: NotRequired[list[ExhibitFile]]
    more_files: NotRequired[int]
    diff: NotRequired[str]


class ExhibitView(TypedDict):
    """The subject of a decision: files with their beginnings, changes, and earlier rounds."""

    files: list[ExhibitFile]
    more_files: int
    diff: str | None
    commit: str | None
    history: list[JsonObject]
    gates: list[GateDenial]


def describe_exhibit(exhibit: Exhibit, secrets: Secrets, *, shown: str = "") -> ExhibitDescription:
    """Describe the subject of a question; `read_exhibit` is the hash of the whole text, where it has one."""
    return {
        **({"shown": shown} if shown else {}),
        **({"files": [_file(each) for each in exhibit.files[:MOST_FILES]]} if exhibit.files else {}),
        **({"more_files": len(exhibit.files) - MOST_FILES} if len(exhibit.files) > MOST_FILES else {}),
        **({"diff": secrets.redact(exhibit.diff)} if exhibit.diff else {}),
    }


def store_files(tx: Tx, exhibit: Exhibit) -> None:
    """Store the contents of files that a question names, as long as it lasts. Larger contents are stored already."""
    for each in exhibit.files[:MOST_FILES]:
        if each.data is not None:
            records.store_content(tx, each.data)


def _file(file: OutputContent | InputContent) -> ExhibitFile:
    return {"name": file[0], "path": file.path, "sha256": file.sha256, "size_bytes": file.size}


def files_of(criteria: Any) -> list[ExhibitFile]:
    """List the files that a question names in its criteria."""
    said = criteria.get("files") if isinstance(criteria, Mapping) else None
    if isinstance(said, Mapping):  # by path alone, as questions about rework name them
        said = [{"name": path, "path": path, "sha256": digest} for path, digest in said.items() if path != "commit"]
    named = said if isinstance(said, Sequence) and not isinstance(said, str) else ()
    files = [each for each in named if isinstance(each, Mapping) and isinstance(each.get("sha256"), str)]
    copies: list[Any] = [dict(file) for file in files]
    return copies


async def read_exhibit(deps: Deps, request: questions.HumanQuestion) -> ExhibitView:
    """Describe the subject of a decision: files with their beginnings, changes, and earlier rounds."""
    criteria = request.document.needed.criteria
    blobs = await deps.stores.blobs(request.board)
    files = files_of(criteria)
    for number, each in enumerate(files):
        try:
            each["size_bytes"] = await blobs.size(each["sha256"])
            each["kept"] = True
            each["beginning"] = await blobs.read_piece(each["sha256"], 0, PREVIEW) if number < PREVIEWED else None
        except AgentTalkError:
            each["kept"] = False
    known = criteria if isinstance(criteria, Mapping) else {}
    gates = await _gates(deps, request)
    return {
        "files": files,
        "more_files": known.get("more_files", 0),
        "diff": known.get("diff") if isinstance(known.get("diff"), str) else None,
        "commit": known["files"].get("commit") if isinstance(known.get("files"), Mapping) else None,
        "history": known.get("history") or [],
        "gates": gates,
    }


async def _gates(deps: Deps, request: questions.HumanQuestion) -> list[GateDenial]:
    """List the denials of the question's task that are not overridden."""
    if request.task_id is None or request.document.type != "APPROVAL":
        return []
    store = await deps.stores.board(request.board)
    rows = await store.read(OBJECTIONS_TO, plan_id=request.plan_id, task_id=request.task_id)
    return [
        each for each in map(denials.to_json, rows) if each["severity"] == "soft-deny" and "overridden_by" not in each
    ]


async def find_file(deps: Deps, request_id: str, sha256: str) -> tuple[str, str]:
    """Return the board and the name of a file that a question names. Raises UsageError when it names no such file."""
    _, asked = await questions.find_question(deps, request_id)
    for each in files_of(asked.document.needed.criteria):
        if each["sha256"] == sha256:
            return asked.board, str(each.get("path") or each.get("name")).rpartition("/")[2]
    raise UsageError(
        Code.NAME_UNKNOWN, f"the request {request_id[:80]!r} names no such file", hint="its page lists them"
    )
