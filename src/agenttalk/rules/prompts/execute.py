"""The prompt that asks an agent to carry out a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.promise import AnyCheck, CompletionPromise, RunCheck, TestsCheck
from agenttalk.rules.prompts.context import PromptSection
from agenttalk.rules.prompts.wording import (
    ELSEWHERE,
    EXECUTE,
    EXECUTE_BY_ANSWER,
    EXECUTE_BY_MESSAGE,
    LIMITS,
    PATCH,
    TOOLS,
    ExecuteWording,
    LimitsWording,
    Locale,
)

_FENCE = re.compile(r"[A-Za-z0-9_]{12,64}\Z")
ENGINE = "engine"
"""The validator of what the engine itself found missing."""
_PARTS = re.compile("; |\uff1b")
"""Between the parts of a reason that is put together, in both languages."""
_WORDINGS = {"file": EXECUTE, "message": EXECUTE_BY_MESSAGE, "answer": EXECUTE_BY_ANSWER}


@dataclass(frozen=True, slots=True)
class InputText:
    """A file of an input."""

    name: str
    """Name of the input."""
    path: str
    """Where the agent finds the file."""
    sha256: str
    """Hash of its bytes."""
    text: str | None
    """What it says, when that is text and short enough to be shown."""


@dataclass(frozen=True, slots=True)
class Handover:
    """Where results go."""

    outputs_dir: str
    """The folder for outputs."""
    result_path: str
    """The file for the result."""
    outputs: tuple[str, ...] = ()
    """Names of the outputs that are asked for."""
    possible: tuple[tuple[str, str | None], ...] = ()
    """Names of those that are asked for under a condition on the score, or without one: those are optional."""
    by: Literal["file", "message", "answer"] = "file"
    """How the result is handed over: in its file, in the last message of a coding agent, whose every further step costs
    a request, or with everything else in the one answer of a model that sees no files."""


def render_execute_prompt(
    role: str,
    command: Command,
    inputs: Sequence[InputText],
    missing: Sequence[str],
    handover: Handover,
    *,
    fence: str,
    locale: Locale = "en",
    may_refuse: bool = False,
) -> str:
    """Render the prompt: task, role, inputs, missing inputs, hand-over and rework, always in this order.

    An agent that `may_refuse` is asked before the inputs to judge first how fit it is. What a task does not have is
    not mentioned.

    Role and command are instructions. What others wrote (inputs, reasons of a refusal) stands between lines with
    the marker `fence`: 12 to 64 letters, digits or _, which should be random (ValueError if it is not of that
    form). A text cannot leave its fence: should the marker occur anywhere, a longer one is taken that does not.
    The same arguments always give the same prompt.
    """
    _require_fence(fence)
    wording, rework = _WORDINGS[handover.by][locale], command.reexecute
    parts = [role, command.prompt, *missing, handover.outputs_dir, handover.result_path, *handover.outputs]
    parts += [part for name, when in handover.possible for part in (name, when or "")]
    parts += [part for each in inputs for part in (each.name, each.path, each.sha256, each.text or "")]
    if rework is not None:
        parts += _refusal(rework, wording)
    prompt = _Prompt(wording, extend_fence(fence, parts))
    sections = [
        (wording.task, command.prompt.strip()),
        (wording.role, role.strip()),
        (wording.fitness, wording.judge_first.format(path=_line(handover.result_path)) if may_refuse else ""),
        (wording.inputs, prompt.inputs(inputs)),
        (wording.missing, prompt.missing(missing)),
        (wording.handover, prompt.handover(command, handover)),
        (wording.rework, prompt.rework(rework)),
    ]
    return "\n\n".join([f"# {title}\n\n{text}" for title, text in sections if text]) + "\n"


def render_previous_attempt(path: str, *, locale: Locale = "en") -> str:
    """Render the note on the previous attempt, for an agent that works on a repository."""
    return f"\n{PATCH[locale].format(path=_line(path))}\n"


def render_limits(promise: CompletionPromise, *, in_tree: bool, again: bool = False, locale: Locale = "en") -> str:
    """Render the note on the agent's scope, on what is protected, and on its checks.

    `in_tree` says whether it works on a repository. An agent that repairs its work knows the commands, and gets
    those that failed with what they printed. Empty for a task that nothing limits and nothing checks.
    """
    words = LIMITS[locale]
    parts = _scope(promise, words) if in_tree else []
    if promise.checks:
        parts.append("\n".join([words.checks, *(_check(each, words, again=again) for each in promise.checks)]))
    parts += [words.leaving] if in_tree and (promise.allowed_scope or promise.disallowed_scope) else []
    return "\n".join(["", f"# {words.title}", "", "\n\n".join(parts), ""]) if parts else ""


def _scope(promise: CompletionPromise, words: LimitsWording) -> list[str]:
    named = list(dict.fromkeys(glob for each in promise.checks for glob in each.protected or ()))
    runs = any(isinstance(each, RunCheck | TestsCheck) and each.protected != () for each in promise.checks)
    lists = ((words.allowed, promise.allowed_scope), (words.disallowed, promise.disallowed_scope))
    found = [text.format(globs=", ".join(_line(glob) for glob in globs)) for text, globs in lists if globs]
    found += [words.protected.format(globs=", ".join(_line(glob) for glob in named))] if named else []
    found += [words.consists_of] if runs else []
    if found and not promise.allowed_scope:
        found.insert(0, words.anything)
    return found


def _check(check: AnyCheck, words: LimitsWording, *, again: bool) -> str:
    command = getattr(check, "run", None)
    if isinstance(command, str) and not again:
        return words.runs.format(name=_line(check.id), command=_line(command))
    return words.check.format(name=_line(check.id), kind=check.kind)


def render_long_inputs(inputs: Sequence[InputText], prompt: str, *, fence: str, locale: Locale = "en") -> str:
    """Render inputs too long for the prompt, for a model that sees no files; they follow the prompt."""
    _require_fence(fence)
    texts = [part for each in inputs for part in (each.name, each.path, each.text or "")]
    within = _Prompt(EXECUTE[locale], extend_fence(fence, [prompt, *texts]))
    return f"\n# {EXECUTE[locale].inputs}\n\n{within.inputs(inputs)}\n"


def render_remote_note(*, locale: Locale = "en") -> str:
    """Render the note for an agent that works elsewhere: how files get here and there."""
    return f"\n{ELSEWHERE[locale]}\n"


def render_tools_note(*, locale: Locale = "en") -> str:
    """Render the note for an agent that has our MCP server."""
    return f"\n{TOOLS[locale]}\n"


def render_sections_prompt(
    role: str, sections: Sequence[PromptSection], command: Command, *, fence: str, locale: Locale = "en"
) -> str:
    """Render the prompt of a task whose kind has its own sections: role, sections and rework.

    What others wrote is the sections' own affair; what a refusal says is fenced here, as in `render_execute_prompt`.
    """
    _require_fence(fence)
    wording, rework = EXECUTE[locale], command.reexecute
    parts = [role, *(text for each in sections for text in each)]
    if rework is not None:
        parts += _refusal(rework, wording)
    prompt = _Prompt(wording, extend_fence(fence, parts))
    shown = [(wording.role, role.strip()), *((each.title, each.text) for each in sections)]
    shown.append((wording.rework, prompt.rework(rework)))
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in shown if text) + "\n"


def _require_fence(fence: str) -> None:
    if not _FENCE.match(fence):
        raise ValueError(f"a fence is 12 to 64 letters, digits or _, not {fence!r}")


def extend_fence(fence: str, texts: Sequence[str]) -> str:
    """Make the fence longer than any that occurs in a text.

    With more strokes behind it than anywhere else, it occurs nowhere. The pattern looks ahead, so as to see
    occurrences that overlap.
    """
    for text in texts:
        if fence in text:
            break
    else:
        return fence
    pattern = re.compile(f"(?={fence}(-*))")
    strokes = [len(match[1]) for text in texts for match in pattern.finditer(text)]
    return fence + "-" * (max(strokes) + 1)


def _line(text: str) -> str:
    """Quote a text on one line."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    shown = "".join(char if char.isprintable() and char not in '"\\' else _escaped(char) for char in text)
    return f'"{shown}"'


def _escaped(char: str) -> str:
    return f"\\{char}" if char in '"\\' else char.encode("unicode_escape").decode("ascii")


def _refusal(rework: Reexecution, wording: ExecuteWording) -> Iterator[str]:
    """Render what the validator said, line by line."""
    result = rework.validation_result
    listed = [issue.description for issue in result.issues]
    parts = [part for part in _PARTS.split(result.reason) if not any(part in each for each in listed)]
    if parts or not listed:  # the list says it already
        yield wording.reason.format(text="; ".join(parts))
    for number, issue in enumerate(result.issues, 1):
        category = f"{issue.category}: " if issue.category else ""
        yield wording.issue.format(number=number, severity=issue.severity, text=f"{category}{issue.description}")
        if issue.location:
            yield wording.where.format(text=issue.location)
        if issue.suggestion:
            yield wording.suggestion.format(text=issue.suggestion)
    if result.prompt:
        yield wording.own_words.format(text=result.prompt)


class _Prompt:
    """The sections of a prompt, in one language and with one fence."""

    def __init__(self, wording: ExecuteWording, fence: str) -> None:
        self._wording = wording
        self._fence = fence

    def inputs(self, inputs: Sequence[InputText]) -> str:
        parts = (
            [self._wording.fenced.format(fence=self._fence)] if any(each.text is not None for each in inputs) else []
        )
        for each in inputs:
            words = self._wording.by_path if each.text is None else self._wording.shown
            parts.append(words.format(name=_line(each.name), path=_line(each.path), sha256=_line(each.sha256)))
            if each.text is not None:
                parts.append(self._fenced(each.text))
        return "\n\n".join(parts)

    def missing(self, missing: Sequence[str]) -> str:
        return "\n".join([self._wording.work_without, "", *_list(missing)]) if missing else ""

    def handover(self, command: Command, handover: Handover) -> str:
        words, path = self._wording, _line(handover.result_path)
        parts = []
        if handover.outputs or handover.possible:
            parts.append(words.outputs.format(folder=_line(handover.outputs_dir)))
        if handover.outputs:
            parts.append("\n".join(_list(handover.outputs)))
        if handover.possible:
            parts += [words.possible, "\n".join([self._possible(*each) for each in handover.possible])]
        if not parts and words.no_outputs:
            parts = [words.no_outputs]
        if command.score_required:
            parts += [words.result_with_score.format(path=path), words.score]
            parts += [f"{words.criteria}\n{command.score_criteria.strip()}"] if command.score_criteria else []
        else:
            parts.append(words.result.format(path=path))
        return "\n\n".join(parts)

    def _possible(self, name: str, when: str | None) -> str:
        words = self._wording.optional if when is None else self._wording.due
        return words.format(name=_line(name), when=when)

    def rework(self, rework: Reexecution | None) -> str:
        if rework is None:
            return ""
        result = rework.validation_result
        words = self._wording.still_missing if result.validator == ENGINE else self._wording.refused
        parts = [
            words.format(attempt=rework.attempt, validator=_line(result.validator), score=f"{result.score:g}"),
            self._wording.fenced.format(fence=self._fence),
            self._fenced("\n".join(_refusal(rework, self._wording))),
            self._wording.mend,
        ]
        if self._wording.disputable and any(each.category == "check" for each in result.issues):
            parts.append(self._wording.disputable.format(task=rework.original_task_id))
        return "\n\n".join(parts)

    def _fenced(self, text: str) -> str:
        return f"BEGIN {self._fence}\n{text}\nEND {self._fence}"


def _list(names: Sequence[str]) -> list[str]:
    return [f"- {_line(name)}" for name in names]
