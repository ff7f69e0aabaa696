"""Refused work, told in the language of the agent that does it again."""

from __future__ import annotations

from agenttalk.contracts.command import Command, Reexecution
from agenttalk.contracts.core.vocabulary import Locale
from agenttalk.contracts.validation import Issue
from agenttalk.rules.text.catalogue import from_json
from agenttalk.rules.text.message import render


def render_command(command: Command, locale: Locale) -> Command:
    """Return a command for a prompt: the reasons of a refusal are in the language of the agent."""
    if locale == "en" or command.reexecute is None:
        return command
    return command.model_copy(update={"reexecute": render_reexecution(command.reexecute, locale)})


def render_reexecution(reexecution: Reexecution, locale: Locale) -> Reexecution:
    """Return what was refused and why, in a language. Words of validators stay as they are."""
    if locale == "en":
        return reexecution
    result = reexecution.validation_result
    issues = tuple(_render_issue(issue, locale) for issue in result.issues)
    reason = from_json(result.reason_message, result.reason) or result.reason
    rendered = result.model_copy(update={"reason": render(reason, locale), "reason_message": None, "issues": issues})
    return reexecution.model_copy(update={"validation_result": rendered})


def _render_issue(issue: Issue, locale: Locale) -> Issue:
    text = from_json(issue.description_message, issue.description) or issue.description
    return issue.model_copy(update={"description": render(text, locale), "description_message": None})
