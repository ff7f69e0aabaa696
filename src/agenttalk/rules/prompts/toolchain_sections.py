"""The prompt of a toolchain task: what happened, what must be kept to, where to report, and what will be checked.

The facts of an event were written by others. They stand as JSON between two lines with a random marker that occurs
nowhere else, so that no text of theirs can pass for one of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agenttalk.rules.prompts.context import PromptContext, PromptSection
from agenttalk.rules.prompts.execute import extend_fence
from agenttalk.rules.text import section_words

SECTIONS = ("context", "constraints", "api", "promise")


def render_toolchain_sections(context: PromptContext, own: Mapping[str, str] | None = None) -> list[PromptSection]:
    """Render the sections in their order. `own` are the project's texts that replace ours, by section."""
    texts = {
        "context": (section_words.CONTEXT_TITLE, _context(context)),
        "constraints": (section_words.CONSTRAINTS_TITLE, _constraints(context)),
        "api": (section_words.API_TITLE, _api(context)),
        "promise": (section_words.PROMISE_TITLE, _promise(context)),
    }
    made = {name: PromptSection(name, title.render(context.locale), text) for name, (title, text) in texts.items()}
    for name, text in (own or {}).items():
        if name in made:
            made[name] = made[name]._replace(text=text.strip())
    return [made[name] for name in SECTIONS]


def _context(context: PromptContext) -> str:
    facts = json.dumps(_plain(context.event_data), ensure_ascii=False, indent=2, sort_keys=True)
    fence = extend_fence(context.fence, [facts, context.title, context.description, *context.action_steps])
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(context.action_steps, 1))
    locale = context.locale
    about = f"{_one_line(context.title)}\n{_one_line(context.description)}"
    return "\n\n".join(
        [
            section_words.HINTS.get(context.action_type, section_words.HINT).render(locale),
            section_words.WORK.render(locale),
            section_words.FACTS.render(locale, fence=fence),
            f"BEGIN {fence}\n{about}\n{facts}\nEND {fence}",
            f"{section_words.STEPS.render(locale)}\n\n{steps}",
        ]
    )


def _constraints(context: PromptContext) -> str:
    locale = context.locale
    constraints = [constraint.render(locale) for constraint in section_words.CONSTRAINTS.values()]
    constraints += [section_words.MARKED.render(locale, marker=context.marker)] if context.marker else []
    rules = "\n".join(f"- {constraint}" for constraint in constraints)
    rows = [(section_words.EXCUSE, section_words.REBUTTAL)]
    rows += [(excuse, section_words.REBUTTALS[name]) for name, excuse in section_words.EXCUSES.items()]
    head, *lines = [f"| {excuse.render(locale)} | {rebuttal.render(locale)} |" for excuse, rebuttal in rows]
    return "\n".join([rules, "", section_words.FLAGS.render(locale), "", head, "|---|---|", *lines])


def _api(context: PromptContext) -> str:
    locale = context.locale
    place = f"$AGENTTALK_API/api/projects/{context.board}/tasks/{context.task_id}"
    curl = f"curl -sS -X POST {place}"
    sent = '-H "Authorization: Bearer $AGENTTALK_TOKEN" -H "Content-Type: application/json"'
    report = json.dumps(
        {"author": context.agent_id, "comment_type": "action_report", "body": section_words.REPORT_BODY.render(locale)},
        ensure_ascii=False,
    )
    output = json.dumps({"content": section_words.OUTPUT_BODY.render(locale), "type": "text"}, ensure_ascii=False)
    parts = [
        section_words.REPORT.render(locale),
        f"```sh\n{curl}/comments \\\n  {sent} \\\n  -d '{report}'\n```",
        section_words.CLAIMS.render(locale),
        section_words.OUTPUT.render(locale),
        f"```sh\n{curl}/outputs \\\n  {sent} \\\n  -d '{output}'\n```",
        section_words.READ.render(locale, place=f"GET {place}"),
        section_words.HELP.render(locale),
    ]
    if context.token_variable:
        variable, source = context.token_variable, context.source
        parts.append(section_words.CALL_FORGE.render(locale, variable=variable, source=source))
    return "\n\n".join(parts)


def _promise(context: PromptContext) -> str:
    listed = "\n".join(f"- {each}" for each in context.promised)
    promise, decided = section_words.PROMISE.render(context.locale), section_words.DECIDED.render(context.locale)
    return f"{promise}\n\n{listed}\n\n{decided}"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text).strip()


def _plain(value: Any) -> Any:
    """Remove characters from the facts that a terminal or a reader would act on; line breaks stay."""
    if isinstance(value, str):
        return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in value)
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
