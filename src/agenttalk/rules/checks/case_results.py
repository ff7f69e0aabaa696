"""Whether a command or a function does what the cases of its check ask for.

Values are compared in one canonical form with their exact types: `True` is not `1`, a list differs from a tuple. What
JSON has no form for is written as an object with one key: `{"$tuple": [1, 2]}`, `{"$set": [1]}`, `{"$frozenset": []}`,
`{"$bytes": "00ff"}`, `{"$decimal": "1.20"}`, `{"$float": "nan"}`, `{"$complex": [0.0, 1.0]}`, and
`{"$dict": [[1, "a"]]}` for a dictionary with other keys than texts. What is of no such type is `{"$object": NAME}`, and
equals nothing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agenttalk.contracts.promise import Case, CasesCheck
from agenttalk.rules.checks.check_results import ProgramExit, judge_run
from agenttalk.rules.proof.evidence import CheckFinding
from agenttalk.rules.suites.outcomes import Outcomes
from agenttalk.rules.text import check_words
from agenttalk.rules.text.message import ABOUT, WHAT_IS, join

_CALL: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")
_COLLECTIONS: Final = frozenset({"$tuple", "$set", "$frozenset"})
_SETS: Final = frozenset({"$set", "$frozenset"})
_TEXTS: Final = frozenset({"$bytes", "$decimal", "$float"})
_ALL: Final = _COLLECTIONS | _TEXTS | {"$dict", "$complex"}
_OF_COMMANDS: Final = ("stdin", "stdout", "prints", "writes", "exit", "files")
_OF_FUNCTIONS: Final = ("kwargs", "returns", "raises", "within")
_SHOWN: Final = 200
"""Characters of a value that are shown."""
_DEEPEST: Final = 100


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """The result of one case."""

    ended: str = ""
    """How it went wrong before there was an answer; empty if it did not."""
    value: Any = None
    """What a function returned, in the canonical form."""
    raised: tuple[str, ...] | None = None
    """The names of what it raised, with those from which that is derived; None if it raised nothing."""
    code: int | None = None
    """The exit code of a command."""
    stdout: bytes = b""
    written: Mapping[str, bytes | None] | None = None
    """Files that a command had to write; None where there is none."""


def find_faults(check: CasesCheck) -> Iterator[tuple[str, str]]:
    """Find what is wrong with a check: the field, and why."""
    if (check.run is None) == (check.call is None):
        yield "run", "it runs a command or calls a function; name one of run and call"
    if check.call is not None and not _CALL.match(check.call):
        yield "call", f"{check.call[:80]!r} is not module:function"
    if check.cases_file is None and not check.cases:
        yield "cases", "it has no case, so it would show nothing; name one, or a cases_file"
    yield from find_case_faults(check, check.cases)


def find_case_faults(check: CasesCheck, cases: Sequence[Case]) -> Iterator[tuple[str, str]]:
    """Find what is wrong with cases."""
    names: set[str] = set()
    for number, case in enumerate(cases):
        name = name_case(case, number)
        if name in names:
            yield f"cases[{number}].name", f"there is another case {name!r}; give each a name of its own"
        names.add(name)
        of_others = _OF_FUNCTIONS if check.run is not None else _OF_COMMANDS
        for key in of_others:
            if getattr(case, key) is not None:
                what = "function" if check.run is not None else "command"
                yield f"cases[{number}].{_spell(key)}", f"{_spell(key)} belongs to a {what}, see call and run"
        if check.run is not None:
            if all(wish is None for wish in (case.stdout, case.prints, case.writes, case.exit)):
                yield f"cases[{number}]", "it asks for nothing; name stdout, json, writes or exit"
            if any(not isinstance(arg, str) for arg in case.args or ()):
                yield f"cases[{number}].args", "arguments of a command are texts; put numbers in quotes"
        elif case.returns is not None and case.raises is not None:
            yield f"cases[{number}]", "a function returns or raises; name one of them"


def _spell(key: str) -> str:
    return "json" if key == "prints" else key


def name_case(case: Case, number: int) -> str:
    """Return the name of a case."""
    return case.name or f"#{number + 1}"


def describe_case(check: CasesCheck, case: Case) -> str:
    """Describe the input of a case as one would write it."""
    if check.call is not None:
        words = [_show(arg) for arg in case.args or ()]
        words += [f"{name}={_show(value)}" for name, value in (case.kwargs or {}).items()]
        return f"{check.call.partition(':')[2]}({', '.join(words)})"[:_SHOWN]
    words = [check.run or "", *(json.dumps(arg, ensure_ascii=False) for arg in case.args or ())]
    given = [f"< {_show(case.stdin)}"] if case.stdin is not None else []
    return " ".join([*words, *given])[:_SHOWN]


def describe_wish(check: CasesCheck, case: Case) -> str:
    """Describe the result that a case must have."""
    if case.raises is not None:
        return case.raises
    if check.call is not None:
        return _show(case.returns)
    wishes = [_show(case.stdout)] if case.stdout is not None else []
    wishes += [_show(case.prints)] if case.prints is not None else []
    wishes += [f"{name}: {_show(text)}" for name, text in (case.writes or {}).items()]
    wishes += [f"exit {case.exit}"] if case.exit else []
    return ", ".join(wishes)[:_SHOWN]


def judge_cases(
    check: CasesCheck, ran: ProgramExit, answers: Sequence[CaseAnswer]
) -> tuple[CheckFinding, Outcomes | None]:
    """Judge the answers to all cases of a check. Each must be there and as asked."""
    if ran.how != "finished" or ran.exit_code != 0:
        return judge_run(ran), None
    if not check.cases:
        return CheckFinding(False, "facts_missing", check_words.NO_CASE()), None
    passed: set[str] = set()
    failed: dict[str, str] = {}
    for number, case in enumerate(check.cases):
        name = name_case(case, number)
        answer = answers[number] if number < len(answers) else CaseAnswer(check_words.CASE_UNANSWERED())
        if why := _find_fault(case, check, answer):
            failed[name] = ABOUT(subject=WHAT_IS(subject=name, what=describe_case(check, case)), what=why)
        else:
            passed.add(name)
    outcomes = Outcomes(frozenset(passed), frozenset(failed))
    if not failed:
        return CheckFinding(True, "", check_words.CASES_PASSED(count=len(passed))), outcomes
    told = check_words.CASES_FAILED(count=len(failed), total=len(check.cases))
    return CheckFinding(False, "cases_failed", join([told, *list(failed.values())[:3]])), outcomes


def _find_fault(case: Case, check: CasesCheck, answer: CaseAnswer) -> str:
    """Return what is wrong with an answer; empty if it is as asked."""
    if answer.ended:
        return answer.ended
    return _find_command_fault(case, answer) if check.run is not None else _find_call_fault(check, case, answer)


def _find_call_fault(check: CasesCheck, case: Case, answer: CaseAnswer) -> str:
    if answer.raised is not None:
        name = answer.raised[0] if answer.raised else "?"
        if case.raises is not None and case.raises in answer.raised:
            return ""
        return check_words.CASE_RAISED(name=name, asked=describe_wish(check, case))
    if case.raises is not None:
        return check_words.CASE_RETURNED(found=_show(answer.value), asked=case.raises)
    if is_same(normalize(case.returns), normalize(answer.value), case.within or 0):
        return ""
    return check_words.CASE_RETURNED(found=_show(answer.value), asked=_show(case.returns))


def _find_command_fault(case: Case, answer: CaseAnswer) -> str:
    if answer.code != (case.exit or 0):
        return check_words.CASE_ENDED(code=answer.code, asked=case.exit or 0)
    found = answer.stdout.decode(errors="replace")
    if case.stdout is not None and answer.stdout != case.stdout.encode(errors="surrogateescape"):
        return check_words.CASE_PRINTED(found=_show(found), asked=_show(case.stdout))
    if case.prints is not None and not _prints(case.prints, answer.stdout):
        return check_words.CASE_PRINTED(found=_show(found), asked=_show(case.prints))
    for path, text in (case.writes or {}).items():
        data = (answer.written or {}).get(path)
        if data is None:
            return check_words.CASE_WROTE_NOT(path=path)
        if data != text.encode(errors="surrogateescape"):
            return check_words.CASE_WROTE(path=path, found=_show(data.decode(errors="replace")), asked=_show(text))
    return ""


def _prints(asked: Any, stdout: bytes) -> bool:
    """Whether a text is exactly a JSON value."""
    try:
        return is_same(asked, json.loads(stdout), 0)
    except (ValueError, RecursionError):
        return False


def normalize(value: Any, depth: int = 0) -> Any:
    """Bring a value into the canonical form, in which sets and dictionaries with other keys than texts are ordered.

    What cannot be brought there equals nothing.
    """
    if depth > _DEEPEST:
        return math.nan
    if isinstance(value, list):
        return [normalize(item, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    [(key, inner)] = value.items() if len(value) == 1 else [("", None)]
    if key == "$object":
        return math.nan
    if key not in _ALL:
        return {name: normalize(item, depth + 1) for name, item in value.items()}
    if key in _TEXTS or not isinstance(inner, list):
        return {key: inner} if key in _TEXTS and isinstance(inner, str) else math.nan
    items = [normalize(item, depth + 1) for item in inner]
    return {key: sorted(items, key=_write) if key in _SETS or key == "$dict" else items}


def _write(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def is_same(asked: Any, found: Any, within: float) -> bool:
    """Compare values in the canonical form, with their types."""
    if type(asked) is not type(found):
        return False
    if isinstance(asked, dict):
        return asked.keys() == found.keys() and all(is_same(asked[name], found[name], within) for name in asked)
    if isinstance(asked, list):
        return len(asked) == len(found) and all(is_same(*pair, within) for pair in zip(asked, found, strict=True))
    if isinstance(asked, float):
        return bool(asked == found) or abs(asked - found) <= within
    return bool(asked == found)


def _show(value: Any) -> str:
    """Show a value as Python writes it, as far as that is short."""
    return _spell_value(value, 0)[:_SHOWN]


def _spell_value(value: Any, depth: int) -> str:
    if depth > _DEEPEST:
        return "…"
    if isinstance(value, list):
        return f"[{', '.join(_spell_value(item, depth + 1) for item in value)}]"
    if isinstance(value, dict):
        [(key, inner)] = value.items() if len(value) == 1 else [("", None)]
        if key in _ALL or key == "$object":
            return f"{key[1:]}({_spell_value(inner, depth + 1)})"
        pairs = [f"{name!r}: {_spell_value(item, depth + 1)}" for name, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    return repr(value)


def read_answers(check: CasesCheck, data: bytes) -> tuple[CaseAnswer, ...]:
    """Read what the program that tries cases has noted: one line of JSON for each. What is anything else ends it."""
    answers: list[CaseAnswer] = []
    for line in data.split(b"\n")[: len(check.cases)]:
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(answer, dict):
            break
        answers.append(_read_answer(answer))
    return tuple(answers)


def _read_answer(answer: dict[str, Any]) -> CaseAnswer:
    match answer:
        case {"value": value}:
            return CaseAnswer(value=value)
        case {"raised": [*names]}:
            return CaseAnswer(raised=tuple(name for name in names if isinstance(name, str)))
        case {"code": int(code), "stdout": str(stdout), "written": dict(written)}:
            return CaseAnswer(
                code=code,
                stdout=stdout.encode("latin-1", "replace"),
                written={
                    str(path): text.encode("latin-1", "replace") if isinstance(text, str) else None
                    for path, text in written.items()
                },
            )
        case {"late": True}:
            return CaseAnswer(check_words.CASE_LATE())
        case {"large": True}:
            return CaseAnswer(check_words.CASE_LARGE())
        case {"ended": int(code)}:
            return CaseAnswer(check_words.CASE_DIED(code=code))
        case {"unloaded": str(why)}:
            return CaseAnswer(check_words.CASE_UNLOADED(why=why[:_SHOWN]))
    return CaseAnswer(check_words.CASE_UNANSWERED())
