"""The prompt of a letter that wants an answer: the letter, what else is unread, how to answer, what is checked.

Letters were written by others. They stand between two lines with a random marker that occurs nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.rules.prompts.context import PromptContext, PromptSection
from agenttalk.rules.prompts.execute import extend_fence
from agenttalk.rules.text import mail_words

SHOWN: Final = 32 * 1024
"""Characters of a letter that stand in a prompt; a longer one has to be asked for, or lies in a file."""


def render_mail_sections(context: PromptContext) -> list[PromptSection]:
    """Render the sections in their order."""
    locale, facts = context.locale, context.event_data
    notes = list(facts.get("unread", ()))
    texts = [context.description, context.title, *(text for each in notes for text in each.values())]
    fence = extend_fence(context.fence, [_plain(each) for each in texts])
    found = [
        PromptSection("letter", mail_words.LETTER_TITLE.render(locale), _letter(context, fence)),
        PromptSection("answer", mail_words.ANSWER_TITLE.render(locale), _answer(context)),
        PromptSection(
            "promise",
            mail_words.PROMISE_TITLE.render(locale),
            mail_words.PROMISE.render(locale, agent=context.agent_id, mail_id=facts["mail_id"]),
        ),
    ]
    if notes:
        told = "\n\n".join(
            [mail_words.UNREAD.render(locale), *(_fenced(_headed(each, locale), fence) for each in notes)]
        )
        found.insert(1, PromptSection("unread", mail_words.UNREAD_TITLE.render(locale), told))
    return found


def render_command_text(context: PromptContext) -> str:
    """Render a letter as the text of a command, for people. Long letters are in a file beside it."""
    if context.action_type == "request":
        return "\n\n".join(f"# {each.title}\n\n{each.text}" for each in render_mail_sections(context))
    fence = extend_fence(context.fence, [_plain(each) for each in (context.description, context.title)])
    return f"# {mail_words.NOTE_TITLE.render(context.locale)}\n\n{_letter(context, fence)}"


def _letter(context: PromptContext, fence: str) -> str:
    locale, facts, body = context.locale, context.event_data, context.description
    head = {"from": context.sender, "subject": context.title, "at": facts["at"], "body": body[:SHOWN]}
    parts = [
        mail_words.LETTER.render(locale, sender=context.sender, deadline=facts["deadline"])
        if context.action_type == "request"
        else mail_words.NOTE.render(locale, sender=context.sender),
        mail_words.FENCED.render(locale, fence=fence),
        _fenced(_headed(head, locale), fence),
    ]
    if len(body) > SHOWN:
        parts.append(mail_words.LONG.render(locale, mail_id=facts["mail_id"]))
    return "\n\n".join(parts)


def _answer(context: PromptContext) -> str:
    locale, mail_id = context.locale, context.event_data["mail_id"]
    answer = mail_words.ANSWER.render(locale)
    sent = '-H "Authorization: Bearer $AGENTTALK_TOKEN" -H "Content-Type: application/json"'
    body = json.dumps({"body": answer}, ensure_ascii=False)
    curl = f"curl -sS -X POST $AGENTTALK_API/api/mail/{mail_id}/reply \\\n  {sent} \\\n  -d '{body}'"
    rules = "\n".join(f"- {rule.render(locale)}" for rule in mail_words.RULES.values())
    return "\n\n".join(
        [
            rules,
            mail_words.BY_COMMAND.render(locale),
            f'```sh\nagenttalk mail reply {mail_id} "{answer}"\n```',
            mail_words.BY_API.render(locale),
            f"```sh\n{curl}\n```",
            mail_words.BY_RESULT.render(locale),
        ]
    )


def _headed(letter: Mapping[str, Any], locale: Locale) -> str:
    subject = " ".join(_plain(letter["subject"]).split())
    head = mail_words.HEAD.render(locale, sender=letter["from"], at=letter["at"], subject=subject)
    return head + _plain(letter["body"])


def _fenced(text: str, fence: str) -> str:
    return f"BEGIN {fence}\n{text}\nEND {fence}"


def _plain(text: str) -> str:
    """Remove characters that a terminal or a reader would act on; line breaks stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
