"""Reads the inputs of an attempt: files of the versions that are in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.core import root_layout, wire
from agenttalk.contracts.envelope import ArtifactEnvelope
from agenttalk.engine.plans.definition import PlanDefinition
from agenttalk.engine.plans.transaction import PlanTransaction
from agenttalk.ports.agents import InputContent
from agenttalk.ports.statements.core import GET_BLOB
from agenttalk.ports.statements.plans import VERSIONS_FROM
from agenttalk.ports.storage import Tx
from agenttalk.rules.messages.inbox_inputs import map_input_paths
from agenttalk.rules.plans.input_selection import InputCandidate
from agenttalk.rules.prompts import reexecution
from agenttalk.rules.prompts.execute import InputText
from agenttalk.rules.proof import rework

_TEXT: Final = 32 * 1024
"""Up to this size the text of an input stands in the prompt."""
_TEXTS: Final = 128 * 1024
"""The same for all inputs together."""


def read_picked_files(
    moves: PlanTransaction, command: Command, sources: Mapping[str, tuple[InputCandidate, ...]]
) -> tuple[tuple[InputContent, ...], list[str]]:
    """Read the files of inputs that were just picked. Returns the messages that brought them, too."""
    found: list[InputContent] = []
    used: dict[str, None] = {}
    for each in command.resolved_inputs or ():
        lies = map_input_paths(each.paths)
        for source in sources[each.input_name]:
            used[source.message_id] = None
            folder = f"{source.task_id}/{root_layout.path_segment(source.output_name)}"
            for path, sha256 in source.paths:
                inside = lies.get(f"{folder}/{path}")
                if inside is not None:
                    data = moves.contents.get(sha256)
                    if data is None:
                        data = _small(moves.tx, sha256)
                    found.append(
                        InputContent(each.input_name, inside, sha256, len(data) if data is not None else 0, data)
                    )
    return tuple(found), list(used)


def read_command_inputs(
    tx: Tx, sheet: PlanDefinition, command: Command, agent_id: str, at: str
) -> tuple[tuple[InputContent, ...], list[str], bool]:
    """Read the files of a command's inputs, the messages that brought them, and whether some are no longer in force."""
    found: list[InputContent] = []
    used: dict[str, None] = {}
    room = _TEXTS
    lost = False
    for each in rework.list_own_inputs(command):
        for path, lies in map_input_paths(each.paths).items():
            task_id, output_name, inside = path.split("/", 2)
            version = _version(tx, sheet.plan_id, task_id, output_name)
            if version is None or inside not in version[1]:
                lost = True
                continue
            message_id, files = version
            used[message_id] = None
            sha256, size = files[inside]
            data = _small(tx, sha256) if size <= room else None
            room -= len(data) if data else 0
            found.append(InputContent(each.input_name, lies, sha256, size, data))
    if command.reexecute is not None:
        found += _extras(tx, reexecution.render_reexecution(command.reexecute, sheet.profile(agent_id).locale), at)
    return tuple(found), list(used), lost


def _extras(tx: Tx, again: Reexecution, at: str) -> Iterator[InputContent]:
    """Build the inputs of rework: the refused work, and the reasons."""
    for each in again.previous:
        data = _small(tx, each.sha256) if each.size_bytes <= _TEXTS else None
        path = f"{root_layout.path_segment(each.output_name)}/{each.path}"
        yield InputContent(rework.PREVIOUS_INPUT, path, each.sha256, each.size_bytes, data)
    data = rework.make_feedback(again, at=at).to_bytes() + b"\n"
    yield InputContent(rework.FEEDBACK_INPUT, rework.FEEDBACK, wire.sha256(data), len(data), data)


def _small(tx: Tx, sha256: str) -> bytes | None:
    rows = tx.run(GET_BLOB, hash=sha256)
    return bytes(rows[0].content) if rows and rows[0].content is not None else None


def _version(tx: Tx, plan_id: str, task_id: str, segment: str) -> tuple[str, dict[str, tuple[str, int]]] | None:
    """Read the newest version of an output. `segment` is the name of its folder."""
    rows = tx.run(VERSIONS_FROM, plan_id=plan_id, task_id=task_id)
    envelope = next((row.envelope for row in rows if root_layout.path_segment(row.output_name) == segment), None)
    if envelope is None:
        return None
    artifact = ArtifactEnvelope.model_validate_json(bytes(envelope))
    files = {
        (file.path.partition("/")[2] or file.path): (file.sha256, file.size_bytes or 0)
        for file in artifact.payload.files
    }
    return artifact.message_id, files


def place_of(file: InputContent) -> str:
    """Return the path of a file among the inputs."""
    return f"{root_layout.path_segment(file.input_name)}/{file.path}"


def to_input_text(file: InputContent, above: str) -> InputText:
    """Convert a file for the prompt. `above` is the path of the folder of inputs."""
    return InputText(file.input_name, f"{above}{place_of(file)}", file.sha256, text_of(file))


def text_of(file: InputContent) -> str | None:
    """Return the text of a file, if it is text and short enough for the prompt."""
    if file.data is None or len(file.data) > _TEXT:
        return None
    try:
        return file.data.decode()
    except UnicodeDecodeError:
        return None
