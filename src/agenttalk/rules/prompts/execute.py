"""The prompt that asks an agent to carry out a command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.promise import AnyCheck, Case, CasesCheck, CompletionPromise, RunCheck, TestsCheck
from agenttalk.rules.checks import case_results
from agenttalk.rules.prompts.context import PromptSection
from agenttalk.rules.text import prompt_words
from agenttalk.rules.text.message import Template

_FENCE = re.compile(r"[A-Za-z0-9_]{12,64}\Z")
ENGINE = "engine"
"""The validator of what the engine itself found missing."""
_CASES: Final = 10
"""Cases of a check that a prompt shows."""
_LONGEST_FINDINGS: Final = 30_000
"""Characters of findings in an argument."""
_PARTS = re.compile("; |\uff1b")
"""Between the parts of a reason that is put together, in both languages."""
By = Literal["file", "message", "answer"]
"""How the result is handed over: in its file, in the last message of a coding agent, whose every further step costs a
request, or with everything else in the one answer of a model that sees no files."""


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
    by: By = "file"
    has_tools: bool = False
    """Whether its agent has our MCP tools, so that it needs no command line."""


class WorkLimits(NamedTuple):
    """What limits the work on a task: its promise, with checks and scope."""

    promise: CompletionPromise
    in_tree: bool
    """Whether the agent works on a repository."""


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
    limits: WorkLimits | None = None,
    patch: str = "",
) -> str:
    """Render the prompt: task, role, inputs, missing inputs, limits, rework and hand-over, always in this order.

    An agent that `may_refuse` is asked before the inputs to judge first how fit it is. What a task does not have is
    not mentioned. `patch` is the file with the previous attempt, for work on a repository that is done again.

    Role and command are instructions. What others wrote (inputs, reasons of a refusal) stands between lines with
    the marker `fence`: 12 to 64 letters, digits or _, which should be random (ValueError if it is not of that
    form). A text cannot leave its fence: should the marker occur anywhere, a longer one is taken that does not.
    The same arguments always give the same prompt.
    """
    _require_fence(fence)
    rework = command.reexecute
    parts = [role, command.prompt, *missing, handover.outputs_dir, handover.result_path, *handover.outputs]
    parts += [part for name, when in handover.possible for part in (name, when or "")]
    parts += [part for each in inputs for part in (each.name, each.path, each.sha256, each.text or "")]
    if rework is not None:
        parts += _refusal(rework, locale)
    prompt = _Prompt(locale, extend_fence(fence, parts), handover.by)
    fitness = _choose(prompt_words.JUDGE_FIRST, handover.by) if may_refuse else None
    sections = [
        (prompt_words.TASK, command.prompt.strip()),
        (prompt_words.ROLE, role.strip()),
        (prompt_words.FITNESS, fitness.render(locale, path=_line(handover.result_path)) if fitness else ""),
        (prompt_words.INPUTS, prompt.inputs(inputs) if inputs else ""),
        (prompt_words.MISSING, prompt.missing(missing) if missing else ""),
        (prompt_words.LIMITS_TITLE, render_limits(limits, rework, locale=locale) if limits else ""),
        (prompt_words.REWORK, prompt.rework(rework, patch) if rework is not None else ""),
        (prompt_words.HANDOVER, prompt.handover(command, handover, limits)),
    ]
    return "\n\n".join([f"# {title.render(locale)}\n\n{text}" for title, text in sections if text]) + "\n"


def render_findings(rework: Reexecution | None, *, locale: Locale = "en") -> str:
    """Render what was found missing, for a program that takes it as an argument; empty for a first turn."""
    return "\n".join(_refusal(rework, locale))[:_LONGEST_FINDINGS] if rework is not None else ""


def render_limits(limits: WorkLimits, rework: Reexecution | None = None, *, locale: Locale = "en") -> str:
    """Render how the work is checked, which scope it has, and what is protected.

    A check whose command stands in the reasons of `rework` is only named. Empty for a task that nothing limits and
    nothing checks.
    """
    promise, in_tree = limits
    parts = []
    if promise.checks:
        reasons = "\n".join(_refusal(rework, locale)) if rework is not None else ""
        checks = [_check(each, locale, reasons) for each in promise.checks]
        parts.append("\n".join([prompt_words.LIMITS_CHECKS.render(locale), *checks]))
    parts += _scope(promise, locale) if in_tree else []
    return "\n\n".join(parts)


def _scope(promise: CompletionPromise, locale: Locale) -> list[str]:
    named = list(dict.fromkeys(glob for each in promise.checks for glob in each.protected or ()))
    runs = any(isinstance(each, RunCheck | TestsCheck) and each.protected != () for each in promise.checks)
    lists = (
        (prompt_words.LIMITS_ALLOWED, promise.allowed_scope),
        (prompt_words.LIMITS_DISALLOWED, promise.disallowed_scope),
        (prompt_words.LIMITS_PROTECTED, named),
    )
    found = [text.render(locale, globs=", ".join(_line(glob) for glob in globs)) for text, globs in lists if globs]
    found += [prompt_words.LIMITS_CONSISTS_OF.render(locale)] if runs else []
    if found and not promise.allowed_scope:
        found.insert(0, prompt_words.LIMITS_ANYTHING.render(locale))
    if promise.allowed_scope or promise.disallowed_scope:
        found.append(prompt_words.LIMITS_LEAVING.render(locale))
    return found


def _case(check: CasesCheck, case: Case) -> str:
    told = f"{case_results.describe_case(check, case)} → {case_results.describe_wish(check, case)}"
    return f"  - {_line(told)}"


def _check(check: AnyCheck, locale: Locale, reasons: str) -> str:
    if isinstance(check, CasesCheck):
        first = prompt_words.LIMITS_CASES.render(locale, name=_line(check.id), count=len(check.cases))
        return "\n".join([first, *(_case(check, case) for case in check.cases[:_CASES])])
    command = getattr(check, "run", None)
    if isinstance(command, str) and command not in reasons:
        return prompt_words.LIMITS_RUNS.render(locale, name=_line(check.id), command=_line(command))
    return prompt_words.LIMITS_CHECK.render(locale, name=_line(check.id), kind=check.kind)


def render_long_inputs(inputs: Sequence[InputText], prompt: str, *, fence: str, locale: Locale = "en") -> str:
    """Render inputs too long for the prompt, for a model that sees no files; they follow the prompt."""
    _require_fence(fence)
    texts = [part for each in inputs for part in (each.name, each.path, each.text or "")]
    within = _Prompt(locale, extend_fence(fence, [prompt, *texts]))
    return f"\n# {prompt_words.INPUTS.render(locale)}\n\n{within.inputs(inputs)}\n"


def render_remote_note(*, locale: Locale = "en") -> str:
    """Render the note for an agent that works elsewhere: how files get here and there."""
    return f"\n{prompt_words.ELSEWHERE.render(locale)}\n"


def render_tools_note(*, locale: Locale = "en") -> str:
    """Render the note for an agent that has our MCP server."""
    return f"\n# {prompt_words.TOOLS_TITLE.render(locale)}\n\n{prompt_words.TOOLS.render(locale)}\n"


def render_sections_prompt(
    role: str, sections: Sequence[PromptSection], command: Command, *, fence: str, locale: Locale = "en"
) -> str:
    """Render the prompt of a task whose kind has its own sections: role, sections and rework.

    What others wrote is the sections' own affair; what a refusal says is fenced here, as in `render_execute_prompt`.
    """
    _require_fence(fence)
    rework = command.reexecute
    parts = [role, *(text for each in sections for text in each)]
    if rework is not None:
        parts += _refusal(rework, locale)
    prompt = _Prompt(locale, extend_fence(fence, parts))
    shown = [(prompt_words.ROLE.render(locale), role.strip()), *((each.title, each.text) for each in sections)]
    shown.append((prompt_words.REWORK.render(locale), prompt.rework(rework)))
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


def _refusal(rework: Reexecution, locale: Locale) -> Iterator[str]:
    """Render what the validator said, line by line. All that the engine finds is to be done, and needs no rank."""
    result = rework.validation_result
    listed = [issue.description for issue in result.issues]
    parts = [part for part in _PARTS.split(result.reason) if not any(part in each for each in listed)]
    if result.validator == ENGINE:
        yield from (f"- {each}" for each in (*parts, *listed))
        return
    if parts or not listed:  # the list says it already
        yield prompt_words.REASON.render(locale, text="; ".join(parts))
    for number, issue in enumerate(result.issues, 1):
        text = f"{issue.category}: {issue.description}" if issue.category else issue.description
        yield prompt_words.ISSUE.render(locale, number=number, severity=issue.severity, text=text)
        if issue.location:
            yield prompt_words.WHERE.render(locale, text=issue.location)
        if issue.suggestion:
            yield prompt_words.SUGGESTION.render(locale, text=issue.suggestion)
    if result.prompt:
        yield prompt_words.OWN_WORDS.render(locale, text=result.prompt)


def _choose(sentences: Mapping[str, Template], by: By) -> Template:
    """Choose the sentence for how the result is handed over."""
    return sentences.get(by) or sentences["file"]


class _Prompt:
    """The sections of a prompt, in one language and with one fence."""

    def __init__(self, locale: Locale, fence: str, by: By = "file") -> None:
        self._locale: Locale = locale
        self._fence = fence
        self._by = by

    def inputs(self, inputs: Sequence[InputText]) -> str:
        parts = [self._fence_note()] if any(each.text is not None for each in inputs) else []
        for each in inputs:
            sentence = _choose(prompt_words.BY_PATH, self._by) if each.text is None else prompt_words.SHOWN
            name, path, digest = _line(each.name), _line(each.path), _line(each.sha256)
            parts.append(sentence.render(self._locale, name=name, path=path, sha256=digest))
            if each.text is not None:
                parts.append(self._fenced(each.text))
        return "\n\n".join(parts)

    def missing(self, missing: Sequence[str]) -> str:
        return "\n".join([prompt_words.WORK_WITHOUT.render(self._locale), "", *_list(missing)]) if missing else ""

    def handover(self, command: Command, handover: Handover, limits: WorkLimits | None) -> str:
        locale, path = self._locale, _line(handover.result_path)
        parts = []
        if handover.outputs or handover.possible:
            folder = _line(handover.outputs_dir)
            parts.append(_choose(prompt_words.OUTPUTS, self._by).render(locale, folder=folder))
        if handover.outputs:
            parts.append("\n".join(_list(handover.outputs)))
        if handover.possible:
            possible = [self._possible(*each) for each in handover.possible]
            parts += [prompt_words.POSSIBLE.render(locale), "\n".join(possible)]
        if not parts and self._by == "answer":
            parts = [prompt_words.NO_OUTPUTS.render(locale)]
        if command.score_required:
            parts.append(_choose(prompt_words.RESULT_WITH_SCORE, self._by).render(locale, path=path))
            parts.append(prompt_words.SCORE.render(locale))
            if command.score_criteria:
                parts.append(f"{prompt_words.CRITERIA.render(locale)}\n{command.score_criteria.strip()}")
        else:
            parts.append(_choose(prompt_words.RESULT, self._by).render(locale, path=path))
        if limits is not None and limits.promise.checks and self._by != "answer":
            sentence = prompt_words.DISPUTABLE["tool" if handover.has_tools else "command"]
            parts.append(sentence.render(locale, task=command.task_id))
        return "\n\n".join(parts)

    def _possible(self, name: str, when: str | None) -> str:
        if when is None:
            return prompt_words.OPTIONAL.render(self._locale, name=_line(name))
        return prompt_words.DUE.render(self._locale, name=_line(name), when=when)

    def rework(self, rework: Reexecution | None, patch: str = "") -> str:
        if rework is None:
            return ""
        locale, result = self._locale, rework.validation_result
        if result.validator == ENGINE:
            before = prompt_words.STILL_MISSING.render(locale, attempt=rework.attempt)
            after = prompt_words.DO_IT_NOW.render(locale)
        else:
            name, score = _line(result.validator), f"{result.score:g}"
            before = prompt_words.REFUSED.render(locale, attempt=rework.attempt, validator=name, score=score)
            after = prompt_words.FIX.render(locale)
        parts = [before, self._fence_note(), self._fenced("\n".join(_refusal(rework, locale))), after]
        parts += [prompt_words.PATCH.render(locale, path=_line(patch))] if patch else []
        return "\n\n".join(parts)

    def _fence_note(self) -> str:
        return prompt_words.FENCED.render(self._locale, fence=self._fence)

    def _fenced(self, text: str) -> str:
        return f"BEGIN {self._fence}\n{text}\nEND {self._fence}"


def _list(names: Sequence[str]) -> list[str]:
    return [f"- {_line(name)}" for name in names]
