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
from agenttalk.rules.prompts.toolchain_rules import RULES, SectionWording

SECTIONS = ("context", "constraints", "api", "promise")


def render_toolchain_sections(context: PromptContext, own: Mapping[str, str] | None = None) -> list[PromptSection]:
    """Render the sections in their order. `own` are the project's texts that replace ours, by section."""
    words = RULES[context.locale]
    made = {
        "context": PromptSection("context", words.context_title, _context(context, words)),
        "constraints": PromptSection("constraints", words.constraints_title, _constraints(context, words)),
        "api": PromptSection("api", words.api_title, _api(context, words)),
        "promise": PromptSection("promise", words.promise_title, _promise(context, words)),
    }
    for name, text in (own or {}).items():
        if name in made:
            made[name] = made[name]._replace(text=text.strip())
    return [made[name] for name in SECTIONS]


def _context(context: PromptContext, words: SectionWording) -> str:
    facts = json.dumps(_plain(context.event_data), ensure_ascii=False, indent=2, sort_keys=True)
    fence = extend_fence(context.fence, [facts, context.title, context.description, *context.action_steps])
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(context.action_steps, 1))
    hint = words.hints.get(context.action_type, words.hint)
    about = f"{_one_line(context.title)}\n{_one_line(context.description)}"
    return "\n\n".join(
        [
            hint,
            words.work,
            words.facts.format(fence=fence),
            f"BEGIN {fence}\n{about}\n{facts}\nEND {fence}",
            f"{words.steps}\n\n{steps}",
        ]
    )


def _constraints(context: PromptContext, words: SectionWording) -> str:
    marked = [words.marked.format(marker=context.marker)] if context.marker else []
    rules = "\n".join(f"- {rule}" for rule in [*words.constraints, *marked])
    head, rule = f"| {words.excuse} | {words.rebuttal} |", "|---|---|"
    table = "\n".join([head, rule, *(f"| {excuse} | {answer} |" for excuse, answer in words.red_flags)])
    return f"{rules}\n\n{words.flags}\n\n{table}"


def _api(context: PromptContext, words: SectionWording) -> str:
    place = f"$AGENTTALK_API/api/projects/{context.board}/tasks/{context.task_id}"
    curl = f"curl -sS -X POST {place}"
    sent = '-H "Authorization: Bearer $AGENTTALK_TOKEN" -H "Content-Type: application/json"'
    report = json.dumps(
        {"author": context.agent_id, "comment_type": "action_report", "body": words.report_body}, ensure_ascii=False
    )
    output = json.dumps({"content": words.output_body, "type": "text"}, ensure_ascii=False)
    parts = [
        words.report,
        f"```sh\n{curl}/comments \\\n  {sent} \\\n  -d '{report}'\n```",
        words.claims,
        words.output,
        f"```sh\n{curl}/outputs \\\n  {sent} \\\n  -d '{output}'\n```",
        words.read.format(place=f"GET {place}"),
        words.help,
    ]
    if context.token_variable:
        parts.append(words.call_forge.format(variable=context.token_variable, source=context.source))
    return "\n\n".join(parts)


def _promise(context: PromptContext, words: SectionWording) -> str:
    listed = "\n".join(f"- {each}" for each in context.promised)
    return f"{words.promise}\n\n{listed}\n\n{words.decided}"


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
