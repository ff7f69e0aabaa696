"""A check's own files: read once from beside the plan file and pinned by hash, so the work cannot change them.

Cases in a file become part of their check; that file is put into no checkout.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from agenttalk.contracts.core import wire
from agenttalk.contracts.dag import Node, TaskDag
from agenttalk.contracts.errors import AgentTalkError, Code, Problem
from agenttalk.contracts.planfile import reader
from agenttalk.contracts.promise import AnyCheck, Case, CasesCheck
from agenttalk.rules.checks import case_results, hidden_checks
from agenttalk.rules.planfile.compiler import CompiledPlan

LIMIT: Final = 8 * 1024 * 1024
"""Bytes of one file."""


def list_files(dag: TaskDag) -> list[str]:
    """List the files of all checks of a plan."""
    return list(dict.fromkeys(path for _, check in _checks(dag) for path in hidden_checks.list_files(check)))


def pin_files(compiled: CompiledPlan, found: Mapping[str, bytes | str]) -> CompiledPlan:
    """Add the hashes of their files to the checks of a plan. `found` has contents, or the reason why one is missing."""
    hashes = {path: wire.sha256(data) for path, data in found.items() if isinstance(data, bytes)}
    problems = [
        problem
        for at, check in _checks(compiled.dag)
        for number, path in enumerate(check.files or ())
        if (problem := _problem(f"{at}.files[{number}]", check, path, found.get(path, "it is not there"), hashes))
    ]
    cases, more = _read_cases(compiled.dag, found)
    nodes = tuple(_pin_node(node, hashes, cases) for node in compiled.dag.nodes)
    placed = {path for _, check in _checks(compiled.dag) for path in check.files or ()}
    return replace(
        compiled,
        dag=compiled.dag.model_copy(update={"nodes": nodes}),
        problems=(*compiled.problems, *problems, *more),
        files={hashes[path]: data for path, data in found.items() if isinstance(data, bytes) and path in placed},
    )


def _read_cases(dag: TaskDag, found: Mapping[str, bytes | str]) -> tuple[dict[str, tuple[Case, ...]], list[Problem]]:
    """Read the files with cases. Returns the cases by their file, and what is wrong with them."""
    cases: dict[str, tuple[Case, ...]] = {}
    problems: list[Problem] = []
    for at, check in _checks(dag):
        if not isinstance(check, CasesCheck) or check.cases_file is None:
            continue
        where, data = f"{at}.cases_file", found.get(check.cases_file, "it is not there")
        about = f"the file {check.cases_file!r} of the check {check.id!r}"
        if check.cases:
            message = "it has cases, and a file with cases"
            problems.append(Problem(Code.PROMISE_INVALID, where, message, "leave one of them out"))
        elif isinstance(data, str):
            problems.append(
                Problem(Code.FILE_UNREADABLE, where, f"{about}: {data}", "it is taken from beside the plan file")
            )
        else:
            try:
                read = reader.read_cases(data)
            except AgentTalkError as error:
                problems.append(Problem(error.code, where, f"{about}: {error.message}", "write it as a list of cases"))
                continue
            faults = list(case_results.find_case_faults(check, read))
            if not read:
                faults.append(("cases", "it has no case, so it would show nothing"))
            hint = "see docs/reference/checks.md"
            problems += [Problem(Code.PROMISE_INVALID, where, f"{about}: {name}: {why}", hint) for name, why in faults]
            cases[check.cases_file] = read
    return cases, problems


def note_places(compiled: CompiledPlan, plan_file: str, folder: str) -> CompiledPlan:
    """Add to hidden checks where they lie, so that no sandbox of their agents shows it."""

    def place(check: AnyCheck) -> AnyCheck:
        if not hidden_checks.is_hidden(check):
            return check
        paths = (plan_file, *(f"{folder}/{path}" for path in hidden_checks.list_files(check)))
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
            if hidden_checks.list_files(check):
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


def _pin_node(node: Node, hashes: Mapping[str, str], cases: Mapping[str, tuple[Case, ...]]) -> Node:
    if node.promise is None or not any(hidden_checks.list_files(check) for check in node.promise.checks):
        return node
    checks = [_pin_check(check, hashes, cases) for check in node.promise.checks]
    promise = node.promise.model_copy(update={"checks": tuple(checks)})
    return node.model_copy(update={"promise": promise})


def _pin_check(check: AnyCheck, hashes: Mapping[str, str], cases: Mapping[str, tuple[Case, ...]]) -> AnyCheck:
    update: dict[str, Any] = {}
    if check.files:
        update["files_sha256"] = {path: hashes[path] for path in check.files if path in hashes}
    if isinstance(check, CasesCheck) and check.cases_file is not None and check.cases_file in cases:
        update["cases"] = cases[check.cases_file]
    return check.model_copy(update=update) if update else check
