"""Tries the cases of a check: each in a process of its own, all in one sandbox. The engine keeps what is expected."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agenttalk.adapters.checking.command import CheckContext, CommandOutcome, CommandRunner, ShellCommand
from agenttalk.adapters.checking.served_checks import ServedOutcome
from agenttalk.adapters.checking.suite_run import HARNESS
from agenttalk.contracts.promise import CasesCheck
from agenttalk.rules.checks import case_results
from agenttalk.rules.checks.check_results import ProgramExit
from agenttalk.rules.proof.evidence import CheckFinding

_CALLER: Final = "case_caller.py"
_ANSWERS: Final = 64 * 1024 * 1024
"""Bytes of all answers that are read."""


class CaseRuns:
    """Makes checks of cases."""

    def __init__(self, runner: CommandRunner) -> None:
        self._runner = runner

    async def make(self, check: CasesCheck, command: ShellCommand, context: CheckContext) -> ServedOutcome:
        """Try all cases of a check, and judge the results."""
        faults = [why for _, why in case_results.find_faults(check)]
        if faults or not check.cases:  # a promise need not come from a plan file
            refusal = CheckFinding(False, "facts_missing", "; ".join(faults))
            return ServedOutcome(refusal, CommandOutcome(ProgramExit("not_started", None), isolated=False))
        folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="run-", dir=context.temporary))
        try:
            answers = await asyncio.to_thread(_lay_out, folder, check)
            program = sys.executable if check.run is not None else check.python
            words = [*shlex.split(program), str(folder / "x.py"), str(folder / "q.json"), str(answers)]
            trial = replace(
                command,
                run=shlex.join(words),
                shown=(*command.shown, folder),
                written=(*command.written, answers.parent),
            )
            done = await self._runner.run(trial, replace(context, progress=None))
            data = await asyncio.to_thread(_read_answers, answers)
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        finding, tests = case_results.judge_cases(check, done.ran, case_results.read_answers(check, data))
        return ServedOutcome(finding, done, tests=tests)


def _lay_out(folder: Path, check: CasesCheck) -> Path:
    """Lay out what the program needs that tries cases. Returns the file for its answers."""
    answers = folder / "a"
    answers.mkdir()
    shutil.copyfile(HARNESS / _CALLER, folder / "x.py")
    cases = [_describe(check, number) for number in range(len(check.cases))]
    asked = {"run": check.run, "call": check.call, "each": check.each, "cases": cases}
    (folder / "q.json").write_text(json.dumps(asked), encoding="utf-8")
    return answers / "a"


def _describe(check: CasesCheck, number: int) -> dict[str, Any]:
    """Describe the input of a case, and nothing of what is expected but the names of files."""
    case = check.cases[number]
    given = {"args": list(case.args or ()), "kwargs": case.kwargs, "stdin": case.stdin, "files": case.files}
    told = {name: value for name, value in given.items() if value is not None}
    return {**told, "writes": list(case.writes or ())}


def _read_answers(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(_ANSWERS)
