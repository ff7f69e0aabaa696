"""What a toolchain task tells its agent: a title, a line about what happened, and numbered steps with real values.

Texts that others wrote at the forge never become a step: steps say where in the facts a text stands, and prompts fence
the facts. `toolchain_values` says what may still stand in a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, Final

from agenttalk.contracts.core.vocabulary import ForgeKind, Locale
from agenttalk.contracts.toolchain import MustHaves, ProposedTask
from agenttalk.rules.prompts import toolchain_values
from agenttalk.rules.text import toolchain_words
from agenttalk.rules.text.message import Template

MOST_LINES: Final = 50
"""Comments, jobs or tests that get a step of their own; the rest stands in the facts."""
_QUOTED: Final = frozenset({"branch", "error_summary", "reason", "what", "detail", "environment"})
_ACTIONS_WITH_POINTS: Final = frozenset({"review_result.REQUEST_CHANGES", "review_comment"})


@dataclass(frozen=True, slots=True)
class ReviewPoint:
    """A comment on a line, as the forge has it."""

    id: int
    path: str
    line: int
    body: str
    author: str = ""


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job that is red, and its tests that failed."""

    name: str
    url: str = ""
    tests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForgeContent:
    """What was read at the forge about an event, beyond what the event says."""

    review_points: tuple[ReviewPoint, ...] = ()
    failed_jobs: tuple[FailedJob, ...] = ()
    changed_files: tuple[str, ...] | None = None
    risk_level: str = ""


@dataclass(frozen=True, slots=True)
class ForgeAddresses:
    """Where things are: what a step's calls are made of."""

    kind: ForgeKind
    api_url: str
    """The forge's API, such as `https://git.example.test/api/v1`."""
    engine_url: str = "http://127.0.0.1:8083"
    """The engine's."""
    web: tuple[str, ...] = ()
    """Addresses of the forge and of its CI services: what lies below one of them may stand in a step."""


@dataclass(frozen=True, slots=True)
class TaskText:
    """A task as its agent gets it."""

    title: str
    description: str
    must_haves: MustHaves


@dataclass(frozen=True, slots=True)
class StepStyle:
    """The style in which tasks are written."""

    locale: Locale = "en"
    steps: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Steps that the configuration puts in the place of ours: by action type, or `review_result.APPROVED`."""


def render_task(
    task: ProposedTask,
    task_id: str,
    place: ForgeAddresses,
    content: ForgeContent | None = None,
    style: StepStyle | None = None,
) -> TaskText:
    """Render a task with title, description and must-haves. The same arguments always give the same text."""
    content, style = content or ForgeContent(), style or StepStyle()
    locale, kind = style.locale, _kind(task)
    context = dict(task.context) | _read(content) | {"untrusted": True}
    facts = {name: _shown(name, value) for name, value in context.items()}
    named = _named(task, task_id, place, context, locale)
    if task.action_type == "mention":
        guidance = _render(toolchain_words.GUIDANCE[context.get("intent_hint", "request")], locale, named)
        context["response_guidance"] = guidance
        named["response_guidance"] = guidance
    own = style.steps.get(kind) or style.steps.get(task.action_type)
    steps = [_fill(each, named) for each in own] if own else _render_steps(kind, locale, named)
    steps += _points(kind, content, locale, place)
    if steps:
        steps += [*_render_steps("report", locale, named), *_render_steps("end", locale, named)]
    note = f" {toolchain_words.UNTRUSTED.render(locale)}" if context.get("fork") else ""
    return TaskText(
        title=_render(toolchain_words.TITLES[kind], locale, facts),
        description=_render(toolchain_words.DESCRIPTIONS[kind], locale, facts) + note,
        must_haves=MustHaves(
            event_type=task.action_type, action_type=task.action_type, steps=tuple(steps), context=context
        ),
    )


def _kind(task: ProposedTask) -> str:
    if task.action_type == "issue_assigned" and task.context.get("escalation") is True:
        return "issue_assigned.escalation"
    return f"review_result.{task.context['result']}" if task.action_type == "review_result" else task.action_type


def _read(content: ForgeContent) -> dict[str, Any]:
    """Turn what was read at the forge into facts."""
    found: dict[str, Any] = {}
    if content.review_points:
        names = ("id", "path", "line", "body", "author")
        found["review_comments"] = [{name: getattr(each, name) for name in names} for each in content.review_points]
    if content.failed_jobs:
        found["failed_jobs"] = [
            {"name": each.name, "url": each.url, "tests": list(each.tests)} for each in content.failed_jobs
        ]
    if content.changed_files is not None:
        found["changed_files"] = list(content.changed_files)
    if content.risk_level:
        found["risk_level"] = content.risk_level
    return found


def _named(
    task: ProposedTask, task_id: str, place: ForgeAddresses, context: Mapping[str, Any], locale: Locale
) -> dict[str, str]:
    """Collect what a step can name: values that cannot hold a sentence, and references to the other facts."""
    bases = (place.api_url, *place.web)
    named = {
        name: str(value)
        if toolchain_values.is_showable(name, value, bases)
        else toolchain_words.REFERENCE.render(locale, name=name)
        for name, value in context.items()
    }
    number = context.get("pr_number") or context.get("issue_number") or context.get("number") or 0
    here = f"{place.api_url}/repos/{named.get('repo', '')}"
    pull, github = f"{here}/pulls/{number}", place.kind == "github"
    head = named.get("head_sha", "")
    return named | {
        "assignee": task.assignee,
        "what": _shown("what", context.get("what")) if task.action_type == "infrastructure_failure" else "",
        "approve": "APPROVE" if github else "APPROVED",
        "diff_call": f"GET {pull}, Accept: application/vnd.github.diff" if github else f"GET {pull}.diff",
        "reviews_call": f"GET {pull}/reviews, then GET {pull}/reviews/ID/comments",
        "review_call": f'POST {pull}/reviews {{"event": …, "body": …, "commit_id": "{head}"}}',
        "merge_call": f'PUT {pull}/merge {{"sha": "{head}"}}'
        if github
        else f'POST {pull}/merge {{"Do": "merge", "head_commit_id": "{head}"}}',
        "comment_call": f'POST {here}/issues/{number}/comments {{"body": …}}',
        "close_call": f'PATCH {here}/issues/{number} {{"state": "closed"}}',
        "pulls_call": f'POST {here}/pulls {{"title": …, "body": …, "head": …, "base": …}}',
        "report_url": f"{place.engine_url}/api/projects/_toolchain/tasks/{task_id}/comments",
    }


def _shown(name: str, value: Any) -> str:
    text = "".join(char if char.isprintable() else " " for char in str("" if value is None else value)).strip()
    return f'"{text.replace(chr(34), chr(39))}"' if name in _QUOTED else text


def _render_steps(kind: str, locale: Locale, facts: Mapping[str, str]) -> list[str]:
    """Render our own steps of a kind of task."""
    steps = toolchain_words.STEPS.items()
    return [_render(step, locale, facts) for name, step in steps if name.rpartition(".")[0] == kind]


def _render(sentence: Template, locale: Locale, facts: Mapping[str, str]) -> str:
    """Render a sentence with facts. A fact that is not there is left as its name."""
    return sentence.render(locale, **{name: facts.get(name, f"{{{name}}}") for name in sentence.formats})


def _fill(step: str, facts: Mapping[str, str]) -> str:
    """Fill in the names of a step that the configuration has. The text of a fact is never read as a template."""
    found = []
    for text, name, _, _ in Formatter().parse(step):
        found.append(text)
        if name is not None:
            found.append(facts.get(name, f"{{{name}}}"))
    return "".join(found)


def _points(kind: str, content: ForgeContent, locale: Locale, place: ForgeAddresses) -> list[str]:
    """Make a step for each comment, job and test that was read at the forge. Their names are in the facts."""
    if kind in _ACTIONS_WITH_POINTS:
        points = [
            toolchain_words.POINT.render(locale, number=at + 1, id=each.id, line=each.line, at=at)
            for at, each in enumerate(content.review_points)
        ]
        return _bounded(points, locale)
    if kind == "ci_failure":
        jobs: list[str] = []
        for at, job in enumerate(content.failed_jobs):
            good = toolchain_values.is_showable("url", job.url, (place.api_url, *place.web))
            url = job.url if good else toolchain_words.REFERENCE.render(locale, name=f"failed_jobs[{at}].url")
            jobs.append(toolchain_words.JOB.render(locale, at=at, url=url))
            jobs += [toolchain_words.TEST.render(locale, at=at, test=number) for number, _ in enumerate(job.tests)]
        return _bounded(jobs, locale)
    return []


def _bounded(lines: list[str], locale: Locale) -> list[str]:
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], toolchain_words.MORE.render(locale, count=more)]
