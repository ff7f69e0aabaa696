"""Finds, judges and takes in the result and the output files of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from agenttalk.contracts.command import Command
from agenttalk.contracts.core import wire
from agenttalk.contracts.errors import Code, InputError, MissingError
from agenttalk.engine.core import records
from agenttalk.engine.core.agent_in_plan import AgentInPlan
from agenttalk.ports.agents import TurnEnd
from agenttalk.ports.folders import Folder
from agenttalk.rules.agents import results
from agenttalk.rules.agents.results import AgentResult, TurnFault

_FILES: Final = 2_000
"""Files that one turn may hand over."""
_DEPTH: Final = 24
_RESULT: Final = 1024 * 1024
_SHOWN: Final = 16 * 1024
"""Up to this size a result stands in the ledger itself."""


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that a turn made."""

    output_name: str
    path: str
    """Its path inside the output."""
    source: str
    """Its path below the root."""
    sha256: str
    size: int
    data: bytes | None = field(default=None, repr=False)
    """Its bytes when they are small; larger ones are kept already."""
    content_type: str | None = None


async def judge_outputs(
    seat: AgentInPlan,
    command: Command,
    outputs: str,
    result: str,
    cwd: str,
    ended: TurnEnd,
    *,
    may_refuse: bool = False,
    in_tree: bool = False,
    since: int = 0,
    spared: str = "",
) -> tuple[AgentResult | TurnFault, list[OutputFile]]:
    """Judge the result and the files of a program that ended. Returns a fault if its turn does not count.

    Outputs may also be files `in_tree`, where it worked. What it changed `since` its turn began, and holds a secret, is
    removed afterwards, wherever it left that but in what is `spared`.
    """
    searched: set[str] = set()
    said, files = await _judge(seat, command, outputs, result, cwd, ended, may_refuse, in_tree, since, searched)
    try:
        await asyncio.to_thread(remove_secrets, seat, outputs, cwd, since, spared, searched)
    except InputError as error:
        return (said, []) if isinstance(said, TurnFault) else (TurnFault(error.code, error.message), [])
    return said, files


def remove_secrets(
    seat: AgentInPlan, outputs: str, cwd: str, since: int, spared: str = "", searched: Collection[str] = ()
) -> None:
    """Remove files that hold a secret from what a program left. Raises InputError for a tree that is too deep.

    Folders that were `searched` meanwhile, and hold none, are not searched again.
    """
    base = outputs.rpartition("/")[0]
    for top in (cwd,) if base.startswith(f"{cwd}/") else (cwd, base):
        if top in searched:
            continue
        seat.deps.secret_guard.scrub_tree(seat.root, top, seat.deps.limits.payload_bytes, since, spared)


async def _judge(
    seat: AgentInPlan,
    command: Command,
    outputs: str,
    result: str,
    cwd: str,
    ended: TurnEnd,
    may_refuse: bool,  # noqa: FBT001 - as `judge_outputs` has it
    in_tree: bool,  # noqa: FBT001 - as `judge_outputs` has it
    since: int,
    searched: set[str],
) -> tuple[AgentResult | TurnFault, list[OutputFile]]:
    secrets = seat.deps.secret_guard.secrets
    ended = seat.deps.secret_guard.redact_ended(ended)
    if ended.how != "finished" or ended.exit_code != 0:
        error = ended.error or ("" if ended.exit_code is None else results.describe_exit(ended.exit_code))
        return TurnFault(Code.COMMAND_FAILED, results.describe_error(error, ended.stderr)), []
    try:
        file = await asyncio.to_thread(_result_file, seat, result)
        required = command.score_required
        said = results.read_result(file, ended.stdout, score_required=required, may_refuse=may_refuse)
        if isinstance(said, TurnFault):
            return replace(said, message=secrets.redact(said.message)), []
        if secrets:
            explanation = secrets.redact_json(said.explanation)
            said = replace(said, value=secrets.redact_json(said.value), explanation=explanation)
            if in_tree:
                await asyncio.to_thread(_withhold, seat, cwd, since)
                searched.add(cwd)
        found = await asyncio.to_thread(_find_outputs, seat, command, outputs, cwd, 0 if in_tree else since)
        files = [await _read_output(seat, each) for each in found]
    except InputError as error:
        return TurnFault(error.code, secrets.redact(error.message)), []
    missing = results.find_missing_outputs(command, {each.output_name for each in files})
    return missing or said, files


def _result_file(seat: AgentInPlan, path: str) -> bytes | None:
    """Read the result that the program wrote. Secrets are removed from the file, too."""
    try:
        said = seat.root.read(path, _RESULT)
    except MissingError:
        return None
    clean = seat.deps.secret_guard.secrets.redact_bytes(said)
    if clean != said:
        seat.root.write(path, clean)
    return clean


def _withhold(seat: AgentInPlan, cwd: str, since: int) -> None:
    """Refuse a tree that holds a secret, because it would be merged."""
    seat.deps.secret_guard.refuse_tree_if_secret(seat.root, cwd, seat.deps.limits.payload_bytes, since)


def _find_outputs(seat: AgentInPlan, command: Command, outputs: str, cwd: str, since: int) -> list[OutputFile]:
    """Find everything in the folder of outputs, and declared files of the working directory for missing outputs.

    A file of the working directory counts if it was changed `since` then: one that lay there before is of another turn.
    """
    names = results.map_declared_outputs(command)
    found: list[OutputFile] = []
    seat.root.make_folder(outputs)  # a program may have removed it: then there are none
    with seat.root.open_folder(outputs) as folder:
        for entry in sorted(folder.scan()):
            if not entry.is_text:
                raise InputError(Code.FILE_UNSAFE, "the name of an output is not UTF-8")
            name = names.get(entry.name, entry.name)
            if entry.kind == "folder":
                with folder.open_folder(entry.name) as inner:
                    paths = [(path, f"{entry.name}/{path}") for path in _walk(inner, "", _DEPTH)]
            else:
                paths = [(entry.name, entry.name)]
            found += [OutputFile(name, path, f"{outputs}/{where}", "", 0) for path, where in paths]
            if len(found) > _FILES:
                raise InputError(Code.FILE_TOO_LARGE, f"the outputs have more than {_FILES:,} files")
    there = {each.output_name for each in found}
    for declared in command.produces or ():
        paths = [(file.path, f"{cwd}/{file.path}") for file in declared.files]
        if declared.output_name not in there and paths and all(_is_new(seat, where, since) for _, where in paths):
            found += [OutputFile(declared.output_name, path, where, "", 0) for path, where in paths]
    unsafe = results.find_unsafe_path(each.path for each in found)
    if unsafe is not None:
        raise InputError(Code.FILE_UNSAFE, f"{unsafe!r} cannot be handed over: it is hidden or named like a message")
    return found


def _is_new(seat: AgentInPlan, path: str, since: int) -> bool:
    entry = seat.root.entry(path)
    return entry is not None and entry.ctime_ns >= since


def _walk(folder: Folder, above: str, depth: int) -> Iterator[str]:
    for entry in sorted(folder.scan()):
        if not entry.is_text:
            raise InputError(Code.FILE_UNSAFE, "the name of a file in an output is not UTF-8")
        if entry.kind != "folder":
            yield f"{above}{entry.name}"
            continue
        if not depth:
            raise InputError(Code.FILE_UNSAFE, f"the folders of an output are nested deeper than {_DEPTH}")
        with folder.open_folder(entry.name) as inner:
            yield from _walk(inner, f"{above}{entry.name}/", depth - 1)


async def _read_output(seat: AgentInPlan, file: OutputFile) -> OutputFile:
    """Read a file that a program left. Large ones are kept at once."""
    limit = seat.deps.limits.payload_bytes
    await asyncio.to_thread(seat.deps.secret_guard.refuse_if_secret, seat.root, file.source, limit)
    entry = await asyncio.to_thread(seat.root.entry, file.source)
    if entry is None:
        raise InputError(Code.OUTPUT_MISSING, f"{file.path!r} vanished while it was taken in")
    try:
        if entry.kind == "regular" and entry.size > records.SMALL:
            with seat.root.stream(file.source, limit) as stream:
                sha256 = await seat.blobs.put(stream)
            return OutputFile(file.output_name, file.path, file.source, sha256, entry.size)
        data = await asyncio.to_thread(seat.root.read, file.source, limit)
    except MissingError as error:
        raise InputError(Code.OUTPUT_MISSING, f"{file.path!r} vanished while it was taken in") from error
    return OutputFile(file.output_name, file.path, file.source, wire.sha256(data), len(data), data)
