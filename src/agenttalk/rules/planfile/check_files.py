"""A check's own files: read once from beside the plan file and pinned by hash, so the work cannot change them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import Code, Problem
from agenttalk.contracts.promise import AnyCheck
from agenttalk.rules.checks import hidden_checks
from agenttalk.rules.planfile.compiler import CompiledPlan

LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one file."""


def list_files(dag: TaskDag) -> list[str]:
    """List the files of all checks of a plan."""
    return list(dict.fromkeys(path for _, check in _checks(dag) for path in check.files or ()))


def pin_files(compiled: CompiledPlan, found: Mapping[str, bytes | str]) -> CompiledPlan:
    """Add the hashes of their files to the checks of a plan. `found` has contents, or the reason why one is missing."""
    hashes = {path: wire.sha256(data) for path, data in found.items() if isinstance(data, bytes)}
    problems = [
        problem
        for at, check in _checks(compiled.dag)
        for number, path in enumerate(check.files or ())
        if (problem := _problem(f"{at}.files[{number}]", check, path, found.get(path, "it is not there"), hashes))
    ]
    nodes = tuple(_pin_node(node, hashes) for node in compiled.dag.nodes)
    return replace(
        compiled,
        dag=compiled.dag.model_copy(update={"nodes": nodes}),
        problems=(*compiled.problems, *problems),
        files={hashes[path]: data for path, data in found.items() if isinstance(data, bytes)},
    )


def note_places(compiled: CompiledPlan, plan_file: str, folder: str) -> CompiledPlan:
    """Add to hidden checks where they lie, so that no sandbox of their agents shows it."""

    def place(check: AnyCheck) -> AnyCheck:
        if not hidden_checks.is_hidden(check):
            return check
        paths = (plan_file, *(f"{folder}/{path}" for path in check.files or ()))
        return check.model_copy(update={"hidden_paths": paths})

    def place_all(node: Node) -> Node:
        if not hidden_checks.list_hidden(node.promise) or node.promise is None:
            return node
        promise = node.promise.model_copy(update={"checks": tuple(place(check) for check in node.promise.checks)})
        return node.model_copy(update={"promise": promise})

    nodes = tuple(place_all(node) for node in compiled.dag.nodes)
    return replace(compiled, dag=compiled.dag.model_copy(update={"nodes": nodes}))


def _checks(dag: TaskDag) -> Iterator[tuple[str, AnyCheck]]:
    for at, node in enumerate(dag.nodes):
        for number, check in enumerate(node.promise.checks if node.promise else ()):
            if check.files:
                yield f"tasks[{at}].promise.checks[{number}]", check


def _problem(where: str, check: AnyCheck, path: str, found: bytes | str, hashes: Mapping[str, str]) -> Problem | None:
    if isinstance(found, str):
        message = f"the file {path!r} of the check {check.id!r}: {found}"
        return Problem(Code.FILE_UNREADABLE, where, message, "it is taken from beside the plan file")
    expected = (check.files_sha256 or {}).get(path)
    if expected is not None and expected != hashes[path]:
        message = f"the file {path!r} of the check {check.id!r} is {hashes[path]}, not {expected}"
        return Problem(Code.PAYLOAD_HASH_MISMATCH, where, message, "leave files_sha256 out, or put the file back")
    return None


def _pin_node(node: Node, hashes: Mapping[str, str]) -> Node:
    if node.promise is None or not any(check.files for check in node.promise.checks):
        return node
    checks = [
        check.model_copy(update={"files_sha256": {path: hashes[path] for path in check.files if path in hashes}})
        if check.files
        else check
        for check in node.promise.checks
    ]
    promise = node.promise.model_copy(update={"checks": tuple(checks)})
    return node.model_copy(update={"promise": promise})
